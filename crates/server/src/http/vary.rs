//! The requests that a response answers (RFC 9111, section 4.1): fields named by `Vary`, with the values of the
//! request that fetched it.

use hyper::HeaderMap;
use hyper::header::VARY;

use super::request::Request;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vary(Box<[Selecting]>);

/// Name of a field in lower case, and its normalized value; `None`: the request lacks the field.
type Selecting = (Box<str>, Option<Box<[u8]>>);

/// Fields with values that ignore case.
fn ignores_case(name: &str) -> bool {
    matches!(name, "accept-language" | "accept-encoding" | "accept-charset")
}

/// The bytes of a field's normal form: lines are joined by commas, without white space around commas. A value with
/// quotes is only trimmed.
fn normal<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    ignores_case: bool,
) -> impl Iterator<Item = u8> {
    let members = values.flat_map(|value| {
        let is_quoted = value.contains(&b'"');
        value.split(move |&byte| byte == b',' && !is_quoted).map(<[u8]>::trim_ascii)
    });
    let joined = members.enumerate().flat_map(|(nth, member)| {
        (nth > 0).then_some(b',').into_iter().chain(member.iter().copied())
    });
    joined.map(move |byte| if ignores_case { byte.to_ascii_lowercase() } else { byte })
}

impl Vary {
    /// The fields that a response selects by, for a request. `None`: with `*` it answers no other request.
    pub(crate) fn of(response: &HeaderMap, request: &HeaderMap) -> Option<Vary> {
        let lines = response.get_all(VARY).iter();
        let names = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
        let mut fields = Vec::new();
        for name in names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
            // What the origin saw names the client, whom nobody else can be.
            if name == b"*" || name.eq_ignore_ascii_case(b"x-forwarded-for") {
                return None;
            }
            let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
            let mut values = request.get_all(&name).iter().map(|value| value.as_bytes()).peekable();
            let is_there = values.peek().is_some();
            let value = is_there.then(|| normal(values, ignores_case(&name)).collect());
            fields.push((name.into_boxed_str(), value));
        }
        fields.sort();
        fields.dedup();
        Some(Vary(fields.into_boxed_slice()))
    }

    /// Whether the response answers a request.
    pub(crate) fn matches(&self, request: &Request<'_, '_>) -> bool {
        self.0.iter().all(|(name, stored)| {
            let mut values = request.values(name).peekable();
            match (values.peek().is_some(), stored) {
                (true, Some(stored)) => {
                    normal(values, ignores_case(name)).eq(stored.iter().copied())
                }
                (false, None) => true,
                _ => false,
            }
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let value = |value: &Option<Box<[u8]>>| value.as_ref().map_or(0, |value| value.len());
        self.0.iter().map(|(name, of)| 48 + name.len() + value(of)).sum()
    }
}
