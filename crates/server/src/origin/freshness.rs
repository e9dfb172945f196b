//! The lifetime of a response, by its fields `Cache-Control` (RFC 9111, sections 4.2 and 5.2.2) and `Age`.

use hyper::HeaderMap;
use hyper::header::{AGE, CACHE_CONTROL, HeaderValue};

/// The sharing and lifetime of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Shared, for this many seconds, at least one.
    Seconds(u64),
    /// Unspecified.
    Unsaid,
    /// For the requesting client only.
    Once,
}

/// Reads the fields. A malformed lifetime counts as zero, as the RFC recommends.
pub(super) fn of(headers: &HeaderMap) -> Freshness {
    let (mut max_age, mut shared) = (None, None);
    for line in headers.get_all(CACHE_CONTROL) {
        for directive in line.as_bytes().split(|&byte| byte == b',') {
            let mut parts = directive.splitn(2, |&byte| byte == b'=');
            let name = parts.next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
            let value = parts.next().map(<[u8]>::trim_ascii);
            match &name[..] {
                // `no-cache` and `private` may name fields. Clients of keys see no fields, so the whole response
                // counts.
                b"no-store" | b"private" | b"no-cache" => return Freshness::Once,
                b"max-age" => max_age = Some(seconds(value)),
                b"s-maxage" => shared = Some(seconds(value)),
                _ => {}
            }
        }
    }
    let Some(lifetime) = shared.or(max_age) else { return Freshness::Unsaid };
    let age = headers.get(AGE).map_or(0, |age: &HeaderValue| seconds(Some(age.as_bytes())));
    match lifetime.saturating_sub(age) {
        0 => Freshness::Once,
        seconds => Freshness::Seconds(seconds),
    }
}

/// A number of seconds, at most a year and a half.
fn seconds(value: Option<&[u8]>) -> u64 {
    const MOST: u64 = 50_000_000;
    let digits = value.unwrap_or_default();
    let digits =
        digits.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(digits);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let text = std::str::from_utf8(digits).unwrap_or("0");
    text.parse().unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read_as_a_shared_cache_reads_them() {
        let cases: &[(&[&str], &str, Freshness)] = &[
            (&["max-age=60"], "", Freshness::Seconds(60)),
            (&["MAX-AGE = 60 , s-maxage=\"5\""], "", Freshness::Seconds(5)),
            (&["public", "max-age=60"], "10", Freshness::Seconds(50)),
            (&["max-age=60"], "60", Freshness::Once),
            (&["max-age=60, private"], "", Freshness::Once),
            (&["no-store"], "", Freshness::Once),
            (&["max-age=x"], "", Freshness::Once),
            (&["max-age=99999999999999999999999"], "", Freshness::Seconds(50_000_000)),
            (&["public"], "", Freshness::Unsaid),
            (&[], "", Freshness::Unsaid),
        ];
        for (lines, age, expected) in cases {
            let mut headers = HeaderMap::new();
            for line in *lines {
                headers.append(CACHE_CONTROL, line.parse().unwrap());
            }
            if !age.is_empty() {
                headers.insert(AGE, age.parse().unwrap());
            }
            assert_eq!(of(&headers), *expected, "{lines:?}");
        }
    }
}
