//! Writing replies.

use std::ops::Range;

use super::conditional::Part;
use super::date;
use super::flight::{Begun, Forwarded};
use super::object::{Object, lines, name_of};
use super::request::{Method, Request};

/// The properties of a request that decide the framing of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) is_head: bool,
    pub(crate) is_1_1: bool,
    pub(crate) closes: bool,
}

impl Shape {
    pub(crate) fn of(request: &Request<'_, '_>) -> Shape {
        let is_head = request.method == Method::Head;
        Shape { is_head, is_1_1: request.is_1_1, closes: request.closes }
    }
}

/// The cache's part in an answer, for `Cache-Status` (RFC 9211).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answered {
    /// From a stored response, with this many seconds of freshness left.
    Hit(i64),
    /// From a stored response that the origin has validated.
    Validated,
    /// From a stored response, because the origin has failed.
    StandsIn,
    Fetched {
        forwarded: Forwarded,
        status: u16,
        is_stored: bool,
        is_collapsed: bool,
    },
}

/// The reason phrase of a status that this server sends itself.
pub(crate) fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

fn number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn status_line(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    number(out, status);
    out.push(b' ');
    out.extend_from_slice(phrase(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn length(out: &mut Vec<u8>, bytes: u64) {
    out.extend_from_slice(b"content-length: ");
    number(out, bytes);
    out.extend_from_slice(b"\r\n");
}

fn connection(out: &mut Vec<u8>, shape: Shape) {
    if shape.closes {
        out.extend_from_slice(b"connection: close\r\n");
    } else if !shape.is_1_1 {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    }
}

fn answered(out: &mut Vec<u8>, how: Answered) {
    match how {
        Answered::Hit(left) => {
            out.extend_from_slice(b"cache-status: frazil; hit; ttl=");
            number(out, left);
        }
        Answered::Validated => {
            out.extend_from_slice(b"cache-status: frazil; fwd=stale; fwd-status=304");
        }
        Answered::StandsIn => {
            out.extend_from_slice(b"cache-status: frazil; hit; fwd=stale; detail=origin-failed");
        }
        Answered::Fetched { forwarded, status, is_stored, is_collapsed } => {
            let why = match forwarded {
                Forwarded::UriMiss => "uri-miss",
                Forwarded::VaryMiss => "vary-miss",
                Forwarded::Stale => "stale",
                Forwarded::Request => "request",
                Forwarded::Method => "method",
                Forwarded::Bypass => "bypass",
            };
            out.extend_from_slice(b"cache-status: frazil; fwd=");
            out.extend_from_slice(why.as_bytes());
            out.extend_from_slice(b"; fwd-status=");
            number(out, status);
            for (is_so, parameter) in [(is_stored, "; stored"), (is_collapsed, "; collapsed")] {
                if is_so {
                    out.extend_from_slice(parameter.as_bytes());
                }
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn age(out: &mut Vec<u8>, object: &Object, now_ms: u64) {
    out.extend_from_slice(b"age: ");
    number(out, object.meta.life.age_ms(now_ms) / 1000);
    out.extend_from_slice(b"\r\n");
}

/// Whether a status never has a body.
pub(crate) fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Fields that a 304 omits: they describe a body that the client has.
fn is_of_content(line: &[u8]) -> bool {
    let name = name_of(line);
    name.starts_with(b"content-") && name != b"content-location"
}

/// Writes the head of a reply from a stored response. Returns the range of its body to send.
pub(crate) fn stored(
    out: &mut Vec<u8>,
    object: &Object,
    part: Part,
    shape: Shape,
    now_ms: u64,
    how: Answered,
) -> Range<usize> {
    let body = object.body().len();
    let status = object.meta.status;
    let range = match part {
        Part::All => {
            out.extend_from_slice(object.head());
            0..body
        }
        Part::NotModified => {
            status_line(out, 304);
            let kept = lines(object.fields()).filter(|line| !is_of_content(line));
            kept.for_each(|line| out.extend_from_slice(line));
            0..0
        }
        Part::Range(from, to) => {
            status_line(out, 206);
            out.extend_from_slice(object.fields());
            out.extend_from_slice(
                format!("content-range: bytes {from}-{}/{body}\r\n", to - 1).as_bytes(),
            );
            from..to
        }
        Part::Unsatisfiable => {
            status_line(out, 416);
            let kept = lines(object.fields()).filter(|line| !is_of_content(line));
            kept.for_each(|line| out.extend_from_slice(line));
            out.extend_from_slice(format!("content-range: bytes */{body}\r\n").as_bytes());
            0..0
        }
    };
    age(out, object, now_ms);
    answered(out, how);
    if part != Part::NotModified && !is_bodiless(status) {
        length(out, range.len() as u64);
    }
    connection(out, shape);
    out.extend_from_slice(b"\r\n");
    if shape.is_head { 0..0 } else { range }
}

/// The framing of an arriving body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    Nothing,
    /// By the announced length.
    Plain,
    Chunked,
    /// By closing the connection.
    UntilClosed,
}

/// Writes the head of a reply from an arriving response.
pub(crate) fn arriving(
    out: &mut Vec<u8>,
    begun: &Begun,
    is_first: bool,
    shape: Shape,
    now_ms: u64,
    forwarded: Forwarded,
) -> Sends {
    let object = &begun.object;
    let status = object.meta.status;
    out.extend_from_slice(object.head());
    if is_first {
        out.extend_from_slice(&begun.withheld);
    }
    if object.meta.life.age_ms(now_ms) >= 1000 {
        age(out, object, now_ms);
    }
    let (is_stored, is_collapsed) = (begun.is_stored, !is_first);
    answered(out, Answered::Fetched { forwarded, status, is_stored, is_collapsed });
    let has_body = !shape.is_head && !is_bodiless(status);
    let sends = match begun.length {
        _ if is_bodiless(status) => Sends::Nothing,
        Some(bytes) => {
            length(out, bytes);
            if has_body { Sends::Plain } else { Sends::Nothing }
        }
        None if !has_body => Sends::Nothing,
        None if shape.is_1_1 => {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
            Sends::Chunked
        }
        None => Sends::UntilClosed,
    };
    connection(out, Shape { closes: shape.closes || sends == Sends::UntilClosed, ..shape });
    out.extend_from_slice(b"\r\n");
    sends
}

/// A complete reply of the server itself.
pub(crate) fn own(out: &mut Vec<u8>, status: u16, shape: Shape, unix: u64, more: &str) {
    status_line(out, status);
    out.extend_from_slice(b"date: ");
    date::write(out, unix as i64);
    out.extend_from_slice(b"\r\ncontent-type: text/plain\r\n");
    out.extend_from_slice(more.as_bytes());
    let body = phrase(status);
    length(out, body.len() as u64 + 1);
    connection(out, shape);
    out.extend_from_slice(b"\r\n");
    if !shape.is_head {
        out.extend_from_slice(body.as_bytes());
        out.push(b'\n');
    }
}
