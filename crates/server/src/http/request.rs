//! Parsing of a request's head, in place.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig};

use crate::cache_control::{Asked, digits};

/// Size of a head. A larger one is answered 431.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Length of a target. A longer one is answered 414.
const TARGET_BYTES_MAX: usize = 8 << 10;
/// Fields of a head. More are answered 431.
pub(crate) const FIELDS_MAX: usize = 64;

pub(crate) type Fields<'i> = [MaybeUninit<Header<'i>>; FIELDS_MAX];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Purge,
    /// Never stored, nor answered from the cache. All but `OPTIONS` invalidate.
    Other {
        is_safe: bool,
    },
}

/// The length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(u64),
    Chunked,
}

#[derive(Debug)]
pub(crate) struct Request<'i, 'f> {
    pub(crate) method: Method,
    pub(crate) method_name: &'i str,
    /// Path and query.
    pub(crate) target: &'i str,
    /// Empty in HTTP/1.0 without the field.
    pub(crate) host: &'i [u8],
    pub(crate) is_1_1: bool,
    /// The connection is closed after the reply.
    pub(crate) closes: bool,
    pub(crate) fields: &'f [Header<'i>],
    pub(crate) head_bytes: usize,
    pub(crate) framing: Framing,
    pub(crate) expects: bool,
    pub(crate) asked: Asked,
    pub(crate) if_none_match: bool,
    pub(crate) if_modified_since: Option<&'i [u8]>,
    pub(crate) range: Option<&'i [u8]>,
    pub(crate) if_range: Option<&'i [u8]>,
    pub(crate) authorization: Option<&'i [u8]>,
    /// It has a condition that only the origin can answer.
    pub(crate) is_for_origin: bool,
}

/// An incomplete or malformed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    Partial,
    /// Malformed: the status of the reply.
    Bad(u16),
}

const BAD: NoRequest = NoRequest::Bad(400);

/// Parses the head at the beginning of `input`.
pub(crate) fn parse<'i, 'f>(
    input: &'i [u8],
    space: &'f mut Fields<'i>,
) -> Result<Request<'i, 'f>, NoRequest> {
    let mut parsed = httparse::Request::new(&mut []);
    let config = ParserConfig::default();
    let status = config.parse_request_with_uninit_headers(&mut parsed, input, space);
    let head_bytes = match status {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => {
            return Err(NoRequest::Partial);
        }
        Ok(httparse::Status::Partial) => HEAD_BYTES_MAX + 1,
        Err(httparse::Error::TooManyHeaders) => return Err(NoRequest::Bad(431)),
        Err(httparse::Error::Version) => return Err(NoRequest::Bad(505)),
        Err(_) => return Err(BAD),
    };
    if head_bytes > HEAD_BYTES_MAX {
        let line = memchr::memchr(b'\n', &input[..HEAD_BYTES_MAX.min(input.len())]);
        let is_line = line.is_none_or(|end| end > TARGET_BYTES_MAX);
        return Err(NoRequest::Bad(if is_line { 414 } else { 431 }));
    }
    // Another server may find the end elsewhere if lines end otherwise.
    let head = &input[..head_bytes];
    if memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r') {
        return Err(BAD);
    }
    let (Some(method_name), Some(target)) = (parsed.method, parsed.path) else { return Err(BAD) };
    if target.len() > TARGET_BYTES_MAX {
        return Err(NoRequest::Bad(414));
    }
    let method = match method_name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "PURGE" => Method::Purge,
        "OPTIONS" => Method::Other { is_safe: true },
        // Methods that address this server, or make a tunnel.
        "CONNECT" | "TRACE" => return Err(NoRequest::Bad(501)),
        _ => Method::Other { is_safe: false },
    };
    let is_1_1 = parsed.version == Some(1);
    let fields: &'f [Header<'i>] = parsed.headers;
    let (authority, target) = split(target)?;
    let mut request = Request {
        method,
        method_name,
        target,
        host: b"",
        is_1_1,
        closes: !is_1_1,
        fields,
        head_bytes,
        framing: Framing::Empty,
        expects: false,
        asked: Asked::default(),
        if_none_match: false,
        if_modified_since: None,
        range: None,
        if_range: None,
        authorization: None,
        is_for_origin: false,
    };
    request.read_fields()?;
    if let Some(authority) = authority {
        request.host = authority.as_bytes();
    }
    Ok(request)
}

/// The authority of an absolute target, and its path and query.
fn split(target: &str) -> Result<(Option<&str>, &str), NoRequest> {
    if target.contains('#') {
        return Err(BAD);
    }
    if target.starts_with('/') {
        return Ok((None, target));
    }
    let begins = |scheme: &str| {
        target.get(..scheme.len())?.eq_ignore_ascii_case(scheme).then_some(scheme.len())
    };
    let Some(at) = begins("http://") else { return Err(BAD) };
    let rest = &target[at..];
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') {
        return Err(BAD);
    }
    match path {
        "" => Ok((Some(authority), "/")),
        // Forwarding it would need a slash in between.
        _ if path.starts_with('?') => Err(BAD),
        _ => Ok((Some(authority), path)),
    }
}

/// The value of a field, trimmed.
fn trimmed<'i>(field: &Header<'i>) -> &'i [u8] {
    field.value.trim_ascii()
}

impl<'i> Request<'i, '_> {
    fn read_fields(&mut self) -> Result<(), NoRequest> {
        let (mut hosts, mut lengths, mut codings, mut pragma, mut controls) = (0, 0, 0, false, 0);
        for field in self.fields {
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            match field.name.len() {
                4 if is("host") => {
                    hosts += 1;
                    self.host = trimmed(field);
                }
                5 if is("range") => self.range = Some(trimmed(field)),
                6 if is("expect") => {
                    if !trimmed(field).eq_ignore_ascii_case(b"100-continue") {
                        return Err(NoRequest::Bad(417));
                    }
                    self.expects = self.is_1_1;
                }
                6 if is("pragma") => pragma |= trimmed(field).eq_ignore_ascii_case(b"no-cache"),
                8 if is("if-range") => self.if_range = Some(trimmed(field)),
                8 if is("if-match") => self.is_for_origin = true,
                10 if is("connection") => self.read_connection(field.value),
                13 if is("cache-control") => {
                    controls += 1;
                    self.asked.read(field.value);
                }
                13 if is("if-none-match") => self.if_none_match = true,
                13 if is("authorization") => self.authorization = Some(trimmed(field)),
                14 if is("content-length") => {
                    lengths += 1;
                    let length = digits(trimmed(field)).ok_or(BAD)?;
                    self.framing =
                        if length == 0 { Framing::Empty } else { Framing::Length(length) };
                }
                17 if is("if-modified-since") => self.if_modified_since = Some(trimmed(field)),
                17 if is("transfer-encoding") => {
                    codings += 1;
                    if !trimmed(field).eq_ignore_ascii_case(b"chunked") {
                        return Err(NoRequest::Bad(501));
                    }
                }
                19 if is("if-unmodified-since") => self.is_for_origin = true,
                _ => {}
            }
        }
        // A proxy in front might find another end of the request.
        let is_ambiguous =
            lengths > 1 || codings > 1 || codings > 0 && (lengths > 0 || !self.is_1_1);
        if is_ambiguous || hosts > 1 || hosts == 0 && self.is_1_1 || !is_host(self.host) {
            return Err(BAD);
        }
        if codings > 0 {
            self.framing = Framing::Chunked;
        }
        self.asked.no_cache |= pragma && controls == 0;
        Ok(())
    }

    fn read_connection(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.closes = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") && !self.is_1_1 {
                self.closes = false;
            }
        }
    }

    /// The values of a field, in order.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &'i [u8]> {
        let fields = self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        fields.map(trimmed)
    }

    /// The request's key: its host, or the origin's without one, in lower case and without the default port; and its
    /// target.
    pub(crate) fn key_into(&self, origin: &str, default_port: &str, key: &mut Vec<u8>) {
        let host = if self.host.is_empty() { origin.as_bytes() } else { self.host };
        key.clear();
        key.extend(canonical(host, default_port).iter().map(u8::to_ascii_lowercase));
        key.extend_from_slice(self.target.as_bytes());
    }
}

/// A host without the default port of its scheme, which is given with its colon.
pub(crate) fn canonical<'h>(host: &'h [u8], default_port: &str) -> &'h [u8] {
    let bare = host.strip_suffix(default_port.as_bytes()).or_else(|| host.strip_suffix(b":"));
    bare.filter(|bare| !bare.is_empty()).unwrap_or(host)
}

fn is_host(host: &[u8]) -> bool {
    host.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn status(text: &str) -> Option<u16> {
        let mut space = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        match parse(text.as_bytes(), &mut space) {
            Ok(_) => None,
            Err(NoRequest::Bad(status)) => Some(status),
            Err(NoRequest::Partial) => panic!("not whole: {text}"),
        }
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let ok = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(status(ok), None);
        for (fields, expected) in [
            ("Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n", 400),
            ("Host: a\r\nContent-Length: +1\r\n", 400),
            ("Host: a\r\nContent-Length: 1, 1\r\n", 400),
            ("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", 501),
            ("Host: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
            ("Host: a\r\nA: b\r\n c\r\n", 400),
            ("Host: a\r\nA : b\r\n", 400),
            ("Host: a\r\nA: b\n", 400),
            ("Host: a\r\nHost: a\r\n", 400),
            ("Host: a/b\r\n", 400),
            ("", 400),
            ("Host: a\r\nExpect: tea\r\n", 417),
        ] {
            assert_eq!(
                status(&format!("GET / HTTP/1.1\r\n{fields}\r\n")),
                Some(expected),
                "{fields}"
            );
        }
        for (line, expected) in [
            ("GET a HTTP/1.1", 400),
            ("GET * HTTP/1.1", 400),
            ("GET /#a HTTP/1.1", 400),
            ("CONNECT a:1 HTTP/1.1", 501),
            ("GET / HTTP/2.0", 505),
            ("GET http://u@b/ HTTP/1.1", 400),
        ] {
            assert_eq!(status(&format!("{line}\r\nHost: a\r\n\r\n")), Some(expected), "{line}");
        }
    }

    #[test]
    fn heads_that_are_too_long_are_answered_as_such() {
        let long = "x".repeat(HEAD_BYTES_MAX);
        assert_eq!(status(&format!("GET /{long}")), Some(414));
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\nA: {long}")), Some(431));
        let many = "A: b\r\n".repeat(FIELDS_MAX);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n")), Some(431));
        let long = "x".repeat(TARGET_BYTES_MAX);
        assert_eq!(status(&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")), Some(414));
    }
}
