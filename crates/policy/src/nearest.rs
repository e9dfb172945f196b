//! The known name nearest to an unknown one.

/// Names that others use, and the names used here.
const SYNONYMS: [(&str, &str); 6] = [
    ("2q", "two-queue"),
    ("opt", "belady"),
    ("min", "belady"),
    ("secondchance", "clock"),
    ("rr", "random"),
    ("glcache", "gl-cache"),
];

/// The name of `known` that a user who wrote `name` probably meant: the one with the fewest letters
/// to change, ignoring case and hyphens; else the only one that begins with it. `None` if no name
/// is near.
///
/// O(length²) for each known name.
///
/// ```
/// let known = ["lru", "s3-fifo", "w-tinylfu"];
/// assert_eq!(frazil_policy::nearest("lruu", known), Some("lru"));
/// assert_eq!(frazil_policy::nearest("S3FIFO", known), Some("s3-fifo"));
/// assert_eq!(frazil_policy::nearest("tinylfu", known), Some("w-tinylfu"));
/// assert_eq!(frazil_policy::nearest("memcached", known), None);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(name);
    // A text longer than any name is not a mistyped name.
    if wanted.is_empty() || wanted.len() > 40 {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let synonym = SYNONYMS.iter().find(|(other, _)| other.as_bytes() == wanted);
    if let Some((_, here)) = synonym
        && let Some(found) = known.iter().find(|it| *it == here)
    {
        return Some(found);
    }
    let far = |it: &&&str| distance(&wanted, &letters(it));
    if let Some(best) = known.iter().min_by_key(far)
        && far(&best) <= ((wanted.len() + 1) / 3).max(1).min(wanted.len() - 1)
    {
        return Some(best);
    }
    let mut longer = known.iter().filter(|it| wanted.len() > 1 && letters(it).starts_with(&wanted));
    longer.next().filter(|_| longer.next().is_none()).copied()
}

/// Letters and digits alone, in lower case.
fn letters(name: &str) -> Vec<u8> {
    let bytes = name.bytes().filter(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    bytes.map(|byte| byte.to_ascii_lowercase()).collect()
}

/// How many letters must be inserted, removed or changed (Levenshtein's distance).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, right) in other.iter().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicySpec;

    #[test]
    fn what_was_meant_is_found() {
        for (name, meant) in [
            ("lruu", "lru"),
            ("LRU", "lru"),
            ("s3fifo", "s3-fifo"),
            ("s3", "s3-fifo"),
            ("tinylfu", "w-tinylfu"),
            ("wtinylfu", "w-tinylfu"),
            ("seive", "sieve"),
            ("2q", "two-queue"),
            ("Belady_Size", "belady-size"),
            ("cloc", "clock"),
            ("glcache", "gl-cache"),
            ("OPT", "belady"),
        ] {
            assert_eq!(nearest(name, PolicySpec::NAMES), Some(meant), "{name}");
        }
        let long = "lru".repeat(100_000);
        for name in ["", "x", "-", "redis", "memcached", &long] {
            assert_eq!(nearest(name, PolicySpec::NAMES), None, "{name:.9}");
        }
        for name in PolicySpec::NAMES {
            assert_eq!(nearest(name, PolicySpec::NAMES), Some(name));
        }
    }

    #[test]
    fn distances_are_levenshteins() {
        for (one, other, far) in [("", "abc", 3), ("kitten", "sitting", 3), ("abc", "abc", 0)] {
            assert_eq!(distance(one.as_bytes(), other.as_bytes()), far);
            assert_eq!(distance(other.as_bytes(), one.as_bytes()), far);
        }
    }
}
