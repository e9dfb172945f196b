//! Conditional and range requests, answered from stored responses (RFC 9110, sections 13 and 14).

use super::date;
use super::object::Object;
use super::request::{Method, Request};

/// The part of a response that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    /// Nothing: the client has the response already.
    NotModified,
    /// Bytes of the body: the first, and the one after the last.
    Range(usize, usize),
    /// The range lies outside the body.
    Unsatisfiable,
}

/// The part that a request wants of a response whose body has `length` bytes. `None`: the length is unknown yet, and
/// the request gets all.
pub(crate) fn part(request: &Request<'_, '_>, object: &Object, length: Option<usize>) -> Part {
    if object.meta.status != 200 {
        return Part::All;
    }
    if has(request, object) {
        return Part::NotModified;
    }
    let (Some(range), Some(length)) = (request.range, length) else { return Part::All };
    if request.method != Method::Get || !holds(request, object) {
        return Part::All;
    }
    parse(range, length)
}

/// Whether the client has the stored response.
fn has(request: &Request<'_, '_>, object: &Object) -> bool {
    if request.if_none_match {
        let Some(own) = object.meta.etag.as_deref() else {
            return request.values("if-none-match").any(|value| value == b"*");
        };
        return request.values("if-none-match").any(|line| {
            line == b"*" || etags(line).any(|etag| without_weakness(etag) == without_weakness(own))
        });
    }
    let since = request.if_modified_since.and_then(|text| date::parse(text, object.meta.date));
    since.is_some_and(|since| object.meta.last_modified.unwrap_or(object.meta.date) <= since)
}

fn without_weakness(etag: &[u8]) -> &[u8] {
    etag.strip_prefix(b"W/").unwrap_or(etag)
}

/// The entity tags of a list. A tag may contain commas.
fn etags(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        while let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = rest.iter().position(|&byte| {
            quoted ^= byte == b'"';
            byte == b',' && !quoted
        });
        let (etag, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(etag.trim_ascii_end())
    })
}

/// Whether `If-Range` permits a range.
fn holds(request: &Request<'_, '_>, object: &Object) -> bool {
    let Some(condition) = request.if_range else { return true };
    if condition.starts_with(b"\"") {
        return object.strong_etag() == Some(condition);
    }
    let date = date::parse(condition, object.meta.date);
    date.is_some() && date == object.meta.last_modified
}

/// Parses one range of bytes. Several ranges, or a malformed one, get the whole body.
fn parse(range: &[u8], length: usize) -> Part {
    let Some(spec) = std::str::from_utf8(range).ok().and_then(|range| range.strip_prefix("bytes="))
    else {
        return Part::All;
    };
    let Some((first, last)) = spec.trim().split_once('-') else { return Part::All };
    let number = |text: &str| -> Option<usize> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(usize::MAX))
    };
    match (number(first), number(last)) {
        (None, Some(count)) if first.is_empty() => match count.min(length) {
            0 => Part::Unsatisfiable,
            count => Part::Range(length - count, length),
        },
        (Some(from), None) if last.is_empty() => within(from, length, length),
        (Some(from), Some(to)) if from <= to => within(from, to.saturating_add(1), length),
        _ => Part::All,
    }
}

fn within(from: usize, to: usize, length: usize) -> Part {
    if from >= length { Part::Unsatisfiable } else { Part::Range(from, to.min(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_bytes_that_are_there() {
        for (range, expected) in [
            ("bytes=0-1", Part::Range(0, 2)),
            ("bytes=1-", Part::Range(1, 10)),
            ("bytes=-1", Part::Range(9, 10)),
            ("bytes=-99", Part::Range(0, 10)),
            ("bytes=5-99999999999999999999999", Part::Range(5, 10)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=2-1", Part::All),
            ("bytes=0-1,3-4", Part::All),
            ("bytes=a-1", Part::All),
            ("bytes=-", Part::All),
            ("lines=0-1", Part::All),
        ] {
            assert_eq!(parse(range.as_bytes(), 10), expected, "{range}");
        }
    }

    #[test]
    fn lists_of_entity_tags_are_parted_outside_quotes() {
        let found: Vec<_> = etags(b", \"a,b\" , W/\"c\",d ,").collect();
        assert_eq!(found, [&b"\"a,b\""[..], b"W/\"c\"", b"d"]);
    }
}
