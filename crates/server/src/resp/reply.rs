//! Replies in RESP2 and RESP3.

/// The version of RESP of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Two,
    Three,
}

#[inline]
fn header(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

pub(super) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

pub(super) fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

/// An error. It must be one line: ends of lines are taken off at its end, and become spaces elsewhere.
pub(super) fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    let one_line = |byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
    out.extend(text.trim_end_matches(['\r', '\n']).bytes().map(one_line));
    out.extend_from_slice(b"\r\n");
}

pub(super) fn integer(out: &mut Vec<u8>, number: i64) {
    header(out, b':', number);
}

#[inline]
pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    // One allocation: the kind, a number and two ends of line.
    out.reserve(bytes.len() + 25);
    header(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// A null.
#[inline]
pub(super) fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(if version == Version::Two { b"$-1\r\n" } else { b"_\r\n" });
}

pub(super) fn null_array(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(if version == Version::Two { b"*-1\r\n" } else { b"_\r\n" });
}

/// The head of an array of `length` replies, which follow.
pub(super) fn array(out: &mut Vec<u8>, length: usize) {
    header(out, b'*', length as i64);
}

/// The head of a map of `pairs` pairs, which follow.
pub(super) fn map(out: &mut Vec<u8>, pairs: usize, version: Version) {
    match version {
        Version::Two => array(out, 2 * pairs),
        Version::Three => header(out, b'%', pairs as i64),
    }
}

/// A bulk string, or a null.
pub(super) fn value(out: &mut Vec<u8>, value: Option<&[u8]>, version: Version) {
    match value {
        Some(bytes) => bulk(out, bytes),
        None => null(out, version),
    }
}

/// A text for people.
pub(super) fn verbatim(out: &mut Vec<u8>, text: &[u8], version: Version) {
    if version == Version::Two {
        return bulk(out, text);
    }
    header(out, b'=', text.len() as i64 + 4);
    out.extend_from_slice(b"txt:");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// The head of a set of `length` replies, which follow.
pub(super) fn set(out: &mut Vec<u8>, length: usize, version: Version) {
    header(out, if version == Version::Two { b'*' } else { b'~' }, length as i64);
}

/// The head of a push of `length` parts, which follow. RESP2 has no pushes.
pub(super) fn push(out: &mut Vec<u8>, length: usize) {
    header(out, b'>', length as i64);
}
