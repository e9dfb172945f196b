//! The lifetime of a value, by the header of its response (RFC 9111).

use hyper::HeaderMap;

use crate::cache_control::{Said, age};

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

/// Reads the header of a response with status 200. A value has no fields, so withheld fields do not matter.
pub(super) fn of(headers: &HeaderMap) -> Freshness {
    let (said, _) = Said::of(headers);
    // `must-understand` overrides `no-store`, and status 200 is understood.
    let is_stored = !said.no_store || said.must_understand;
    if !is_stored || said.private || said.no_cache {
        return Freshness::Once;
    }
    let Some(lifetime) = said.lifetime() else { return Freshness::Unsaid };
    match age(headers).map_or(0, |age| lifetime.saturating_sub(age)) {
        0 => Freshness::Once,
        seconds => Freshness::Seconds(seconds),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{AGE, CACHE_CONTROL};

    use super::*;

    #[test]
    fn lifetimes_are_read_as_a_shared_cache_reads_them() {
        let cases: &[(&[&str], &str, Freshness)] = &[
            (&["max-age=60"], "", Freshness::Seconds(60)),
            (&["MAX-AGE=60 , s-maxage=\"5\""], "", Freshness::Seconds(5)),
            (&["max-age =60"], "", Freshness::Once),
            (&["max-age=60", "max-age=7"], "", Freshness::Seconds(60)),
            (&["max-age=60, x=\"no-store, private\""], "", Freshness::Seconds(60)),
            (&["max-age=60, private=\"Set-Cookie\""], "", Freshness::Seconds(60)),
            (&["no-store, must-understand, max-age=60"], "", Freshness::Seconds(60)),
            (&["max-age=60"], "x", Freshness::Once),
            (&["public", "max-age=60"], "10", Freshness::Seconds(50)),
            (&["max-age=60"], "60", Freshness::Once),
            (&["max-age=60, private"], "", Freshness::Once),
            (&["no-store"], "", Freshness::Once),
            (&["max-age=x"], "", Freshness::Once),
            (&["max-age=99999999999999999999999"], "", Freshness::Seconds(1 << 31)),
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
