//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal character.

/// Whether a text matches a pattern. Takes at most as many steps as the product of both lengths.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The place after the last `*`, and that in the text after the part it matches.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, from));
            continue;
        }
        if let Some(next) = one(pattern, at, text[from]) {
            at = next;
            from += 1;
            continue;
        }
        let Some((behind, taken)) = star else { return false };
        star = Some((behind, taken + 1));
        at = behind;
        from = taken + 1;
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// The next place in the pattern, if the element at `at` matches the byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        &meant => (meant == byte).then_some(at + 1),
    }
}

/// The same for the class after a `[`. A class without an end extends to the end of the pattern.
fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let is_negated = pattern.get(at) == Some(&b'^');
    at += usize::from(is_negated);
    let mut is_in = false;
    loop {
        match &pattern[at.min(pattern.len())..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', meant, ..] => {
                is_in |= *meant == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                is_in |= (*first.min(last)..=*first.max(last)).contains(&byte);
                at += 3;
            }
            [meant, ..] => {
                is_in |= *meant == byte;
                at += 1;
            }
        }
    }
    (is_in != is_negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_redis_says() {
        let yes = [
            ("*", ""),
            ("*", "any"),
            ("", ""),
            ("a*", "a"),
            ("a*c", "abbc"),
            ("*b*", "abc"),
            ("h?llo", "hello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("[a-c]x", "bx"),
            ("[c-a]x", "bx"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("a**", "ab"),
            ("[a", "a"),
            ("\\", "\\"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("a*c", "abb"),
            ("?", ""),
            ("h[^e]llo", "hello"),
            ("[a-c]", "d"),
            ("\\*", "a"),
            ("abc", "ab"),
            ("*a", "b"),
            ("[]", "a"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(2000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(255).as_bytes()));
    }
}
