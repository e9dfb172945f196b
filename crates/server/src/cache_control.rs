//! `Cache-Control` of requests and responses, for keys and for HTTP (RFC 9111, section 5.2; RFC 5861).
//!
//! A malformed lifetime is 0, so that the response is stale (section 4.2.1). White space beside the `=` makes it malformed.
//! Of two lifetimes the first counts.

use hyper::HeaderMap;
use hyper::header::{AGE, CACHE_CONTROL, HeaderName};

/// Longest lifetime or age in seconds; longer ones count as this.
const SECONDS_MAX: u64 = 1 << 31;

/// Name and value of each directive of a field line. Commas in quotes do not separate. White space before the `=` belongs
/// to the value, and makes it malformed.
fn each(line: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut quoted = false;
        let mut escaped = false;
        let end = rest.iter().position(|&byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' => return !quoted,
                _ => {}
            }
            false
        });
        let (directive, after) = match end {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = after;
        let directive = directive.trim_ascii();
        let equals = directive.iter().position(|&byte| byte == b'=');
        let (name, value) = directive.split_at(equals.unwrap_or(directive.len()));
        let spaces = name.len() - name.trim_ascii_end().len();
        Some(match equals {
            None => (name, None),
            Some(_) if spaces == 0 => (name, Some(&value[1..])),
            Some(at) => (&name[..at - spaces], Some(&directive[at - spaces..])),
        })
    })
}

/// A number of seconds, quoted or not. A malformed one counts as 0, which makes a response stale.
fn seconds(value: Option<&[u8]>) -> u64 {
    digits(unquoted(value.unwrap_or_default())).unwrap_or(0)
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

/// A number without sign; `None` if malformed.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    Some(text.parse().unwrap_or(SECONDS_MAX).min(SECONDS_MAX))
}

/// The directives of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) no_cache: bool,
    pub(crate) no_store: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<u64>,
    pub(crate) min_fresh: u64,
    /// Seconds of staleness that the client accepts.
    pub(crate) max_stale: Option<u64>,
}

impl Asked {
    pub(crate) fn read(&mut self, line: &[u8]) {
        for (name, value) in each(line) {
            if name.eq_ignore_ascii_case(b"no-cache") {
                self.no_cache = true;
            } else if name.eq_ignore_ascii_case(b"no-store") {
                self.no_store = true;
            } else if name.eq_ignore_ascii_case(b"only-if-cached") {
                self.only_if_cached = true;
            } else if name.eq_ignore_ascii_case(b"max-age") {
                self.max_age = self.max_age.or(Some(seconds(value)));
            } else if name.eq_ignore_ascii_case(b"min-fresh") {
                self.min_fresh = seconds(value);
            } else if name.eq_ignore_ascii_case(b"max-stale") {
                self.max_stale = Some(value.map_or(SECONDS_MAX, |value| seconds(Some(value))));
            }
        }
    }

    /// Whether any fresh stored response satisfies this request.
    pub(crate) fn takes_any_fresh(&self) -> bool {
        !self.no_cache && !self.no_store && self.max_age.is_none() && self.min_fresh == 0
    }
}

/// The directives of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) must_understand: bool,
    pub(crate) max_age: Option<u64>,
    pub(crate) s_maxage: Option<u64>,
    pub(crate) stale_while_revalidate: u64,
    pub(crate) stale_if_error: u64,
    /// Fields for the first client only, in lower case.
    pub(crate) withheld: Vec<String>,
}

impl Said {
    /// Reads a response. A field for caches like this one stands for the others (RFC 9213): then the second is true.
    pub(crate) fn of(fields: &HeaderMap) -> (Said, bool) {
        static TARGETED: HeaderName = HeaderName::from_static("cdn-cache-control");
        let is_targeted = fields.get(&TARGETED).is_some_and(|value| !value.as_bytes().is_empty());
        let name = if is_targeted { TARGETED.clone() } else { CACHE_CONTROL };
        let mut said = Said::default();
        fields.get_all(name).iter().for_each(|line| said.read(line.as_bytes()));
        (said, is_targeted)
    }

    /// Seconds for which a cache for many may use it, as the directives say.
    pub(crate) fn lifetime(&self) -> Option<u64> {
        self.s_maxage.or(self.max_age)
    }

    fn read(&mut self, line: &[u8]) {
        for (name, value) in each(line) {
            match &name.to_ascii_lowercase()[..] {
                b"no-store" => self.no_store = true,
                b"no-cache" => self.no_cache |= !self.withholds(value),
                b"private" => self.private |= !self.withholds(value),
                b"public" => self.public = true,
                b"must-revalidate" => self.must_revalidate = true,
                b"proxy-revalidate" => self.must_revalidate = true,
                b"must-understand" => self.must_understand = true,
                b"max-age" => self.max_age = self.max_age.or(Some(seconds(value))),
                b"s-maxage" => self.s_maxage = self.s_maxage.or(Some(seconds(value))),
                b"stale-while-revalidate" => self.stale_while_revalidate = seconds(value),
                b"stale-if-error" => self.stale_if_error = seconds(value),
                _ => {}
            }
        }
    }

    /// Notes the fields that a directive names. False: it names none, or other things too, and concerns the whole response.
    fn withholds(&mut self, value: Option<&[u8]>) -> bool {
        let names = unquoted(value.unwrap_or_default());
        let before = self.withheld.len();
        for name in names.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            match HeaderName::from_bytes(name) {
                Ok(name) => self.withheld.push(name.as_str().to_owned()),
                Err(_) if name.is_empty() => {}
                Err(_) => return false,
            }
        }
        self.withheld.len() > before
    }
}

/// The age that a response says. `None`: it is no number, and the response is stale.
pub(crate) fn age(fields: &HeaderMap) -> Option<u64> {
    let mut lines = fields.get_all(AGE).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Some(0),
        (Some(line), None) => digits(line.as_bytes().trim_ascii()),
        (Some(_), Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_parted_outside_quotes_only() {
        let line = b"a=\"x, max-age=3600\", MAX-age=1,,b = 2 , c";
        let found: Vec<_> = each(line).filter(|(name, _)| !name.is_empty()).collect();
        assert_eq!(found.len(), 4);
        assert_eq!(found[1], (&b"MAX-age"[..], Some(&b"1"[..])));
        let mut said = Said::default();
        said.read(line);
        assert_eq!((said.max_age, said.no_cache), (Some(1), false));
    }

    #[test]
    fn a_malformed_lifetime_is_zero() {
        for (line, expected) in [
            ("max-age=60", 60),
            ("max-age=\"60\"", 60),
            ("max-age=060", 60),
            ("max-age=-60", 0),
            ("max-age='60'", 0),
            ("max-age= 60", 0),
            ("max-age =60", 0),
            ("max-age\t= \"60\"", 0),
            ("max-age=60.5", 0),
            ("max-age=1, max-age=60", 1),
            ("max-age=99999999999999999999999", SECONDS_MAX),
        ] {
            let mut said = Said::default();
            said.read(line.as_bytes());
            assert_eq!(said.max_age, Some(expected), "{line}");
        }
    }

    #[test]
    fn named_fields_leave_the_response_shared() {
        let mut said = Said::default();
        said.read(b"no-cache=\"Set-Cookie, a\", private=b");
        assert_eq!(said.withheld, ["set-cookie", "a", "b"]);
        assert!(!said.no_cache && !said.private);
        for line in ["no-cache", "no-cache=", "no-cache = \"a\"", "no-cache=\"a b\""] {
            let mut said = Said::default();
            said.read(line.as_bytes());
            assert!(said.no_cache, "{line}");
        }
    }
}
