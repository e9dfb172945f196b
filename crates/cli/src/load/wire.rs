//! Writes requests and reads replies, in the three protocols.
//!
//! At most a line of a reply is kept, and values are only counted, so a connection takes little
//! memory whatever the server sends.

use frazil_driver::Ask;

use super::target::Protocol;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;
/// Longest line.
const LINE_MAX: usize = 8 << 10;
/// Bytes of a line that are printed, or kept as the name of an error.
const SHOWN_MAX: usize = 80;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) ask: Ask,
    pub(super) key: u64,
    /// Size of the value to write, or to write after a miss.
    pub(super) bytes: u32,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Hit,
    Miss,
    /// The write or deletion was done.
    Done,
    /// The server refused, with this message.
    Refused(String),
}

/// A key on the wire: 16 hexadecimal digits.
pub(super) fn text_of(key: u64) -> [u8; KEY_BYTES] {
    let mut digits = [0; KEY_BYTES];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(key >> (60 - 4 * at)) as usize & 15];
    }
    digits
}

impl Protocol {
    /// Appends a request. With HTTP it is always a `GET`.
    pub(super) fn write(&self, request: &Request, out: &mut Vec<u8>) {
        let key = text_of(request.key);
        match (self, request.ask) {
            (Protocol::Http { before, after }, _) => {
                [before, &key[..], after].iter().for_each(|part| out.extend(*part));
            }
            (Protocol::Memcached, Ask::Insert) => {
                [b"set ", &key[..], b" 0 0 "].iter().for_each(|part| out.extend(*part));
                number(request.bytes, out);
                value(request.bytes, out);
            }
            (Protocol::Redis, Ask::Insert) => {
                out.extend(b"*3\r\n$3\r\nSET\r\n$16\r\n");
                out.extend(key);
                out.extend(b"\r\n$");
                number(request.bytes, out);
                value(request.bytes, out);
            }
            (Protocol::Memcached, ask) => {
                out.extend(if ask == Ask::Get { &b"get "[..] } else { b"delete " });
                out.extend(key);
                out.extend(b"\r\n");
            }
            (Protocol::Redis, ask) => {
                let name = if ask == Ask::Get { b"GET" } else { b"DEL" };
                out.extend(b"*2\r\n$3\r\n");
                out.extend(name);
                out.extend(b"\r\n$16\r\n");
                out.extend(key);
                out.extend(b"\r\n");
            }
        }
    }
}

fn number(number: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(&digits[at..]);
}

fn value(bytes: u32, out: &mut Vec<u8>) {
    out.extend(b"\r\n");
    out.resize(out.len() + bytes as usize, b'v');
    out.extend(b"\r\n");
}

/// The part of a reply that comes next on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    /// The first line of a reply.
    #[default]
    Begin,
    /// This number of bytes of a value, and then its end.
    Value(u64),
    /// The empty line behind a value.
    ValueEnd,
    /// `END` of memcached.
    End,
    /// Fields of an HTTP response.
    Fields,
    /// A line with the size of a chunk.
    Chunk,
    /// Fields behind the last chunk.
    Trailer,
}

/// The head of an HTTP response, as far as it has been read.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    status: u16,
    length: Option<u64>,
    is_chunked: bool,
}

/// Reads the replies of one connection.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    head: Head,
}

/// Bytes from a server that are no valid reply, escaped.
#[derive(Debug, PartialEq)]
pub(super) struct Unexpected(pub(super) String);

impl Decoder {
    /// The next reply, which answers `request`; removes the bytes read from `input`. `None`: the
    /// reply is incomplete; the caller then passes the rest of `input` again, with later bytes.
    ///
    /// # Errors
    ///
    /// The bytes are no valid reply.
    pub(super) fn next(
        &mut self,
        protocol: &Protocol,
        request: &Request,
        input: &mut &[u8],
    ) -> Result<Option<Reply>, Unexpected> {
        loop {
            if let State::Value(left) = self.state {
                let now = left.min(input.len() as u64);
                *input = &input[now as usize..];
                let is_all = now == left;
                self.state = if is_all { State::ValueEnd } else { State::Value(left - now) };
                if !is_all {
                    return Ok(None);
                }
                if self.head.length.take().is_some() {
                    self.state = State::Begin;
                    return Ok(Some(self.answer()));
                }
            }
            let Some(line) = line(input)? else { return Ok(None) };
            let reply = match protocol {
                Protocol::Memcached => self.memcached(line, request),
                Protocol::Redis => self.redis(line, request.ask),
                Protocol::Http { .. } => self.http(line),
            };
            match reply {
                Some(Step::On) => {}
                Some(Step::Over(reply)) => {
                    self.state = State::Begin;
                    return Ok(Some(reply));
                }
                None => return Err(Unexpected(shown(line))),
            }
        }
    }

    fn memcached(&mut self, line: &[u8], request: &Request) -> Option<Step> {
        match self.state {
            State::ValueEnd => line.is_empty().then(|| self.on(State::End)),
            State::End => (line == b"END").then_some(Step::Over(Reply::Hit)),
            _ => match (line, request.ask) {
                (b"END", Ask::Get) => Some(Step::Over(Reply::Miss)),
                (b"STORED", Ask::Insert) | (b"DELETED" | b"NOT_FOUND", Ask::Remove) => {
                    Some(Step::Over(Reply::Done))
                }
                (b"ERROR", _) | (b"NOT_STORED", Ask::Insert) => Some(refused(line)),
                _ if line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR") => {
                    Some(refused(line))
                }
                (_, Ask::Get) => {
                    let rest = line.strip_prefix(b"VALUE ")?;
                    let rest = rest.strip_prefix(&text_of(request.key))?.strip_prefix(b" ")?;
                    let place = rest.iter().position(|&byte| byte == b' ')?;
                    Some(self.on(State::Value(parsed(&rest[place + 1..], 10)?)))
                }
                _ => None,
            },
        }
    }

    fn redis(&mut self, line: &[u8], ask: Ask) -> Option<Step> {
        if self.state == State::ValueEnd {
            return line.is_empty().then_some(Step::Over(Reply::Hit));
        }
        match (line, ask) {
            (b"$-1", Ask::Get) => Some(Step::Over(Reply::Miss)),
            ([b'$', length @ ..], Ask::Get) => Some(self.on(State::Value(parsed(length, 10)?))),
            (b"+OK", Ask::Insert) | (b":0" | b":1", Ask::Remove) => Some(Step::Over(Reply::Done)),
            ([b'-', rest @ ..], _) => Some(refused(rest)),
            _ => None,
        }
    }

    fn http(&mut self, line: &[u8]) -> Option<Step> {
        match self.state {
            State::Begin => {
                let rest = line.strip_prefix(b"HTTP/1.")?;
                let status = u16::try_from(parsed(rest.get(2..5)?, 10)?).ok()?;
                self.head = Head { status, ..Head::default() };
                Some(self.on(State::Fields))
            }
            State::Fields if line.is_empty() => self.body(),
            State::Fields => {
                let place = line.iter().position(|&byte| byte == b':')?;
                let (name, value) = (&line[..place], line[place + 1..].trim_ascii());
                if name.eq_ignore_ascii_case(b"content-length") {
                    self.head.length = Some(parsed(value, 10)?);
                } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    self.head.is_chunked = value.eq_ignore_ascii_case(b"chunked");
                }
                Some(Step::On)
            }
            State::ValueEnd => line.is_empty().then(|| self.on(State::Chunk)),
            State::Chunk => {
                let size = line.split(|&byte| byte == b';').next().unwrap_or_default();
                let size = parsed(size.trim_ascii(), 16)?;
                Some(self.on(if size == 0 { State::Trailer } else { State::Value(size) }))
            }
            State::Trailer if line.is_empty() => Some(Step::Over(self.answer())),
            State::Trailer => Some(Step::On),
            State::Value(_) | State::End => None,
        }
    }

    /// Begins the body. A body that ends with the connection is not read.
    fn body(&mut self) -> Option<Step> {
        match self.head {
            Head { status: 100..=199, .. } => Some(self.on(State::Begin)),
            Head { status: 204 | 304, .. } => Some(Step::Over(self.answer())),
            Head { is_chunked: true, .. } => {
                self.head.length = None;
                Some(self.on(State::Chunk))
            }
            Head { length: Some(length), .. } => Some(self.on(State::Value(length))),
            _ => None,
        }
    }

    /// The outcome by an HTTP response.
    fn answer(&self) -> Reply {
        match self.head.status {
            200..=299 => Reply::Hit,
            404 | 410 => Reply::Miss,
            status => Reply::Refused(format!("status {status}")),
        }
    }

    fn on(&mut self, state: State) -> Step {
        self.state = state;
        Step::On
    }
}

/// The result of a line.
enum Step {
    On,
    Over(Reply),
}

fn refused(line: &[u8]) -> Step {
    Step::Over(Reply::Refused(shown(line)))
}

/// Removes a line, and returns it without its end.
fn line<'i>(input: &mut &'i [u8]) -> Result<Option<&'i [u8]>, Unexpected> {
    let bytes: &'i [u8] = input;
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) if end <= LINE_MAX => {
            *input = &bytes[end + 1..];
            let line = &bytes[..end];
            Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
        }
        None if bytes.len() <= LINE_MAX => Ok(None),
        _ => Err(Unexpected(shown(bytes))),
    }
}

/// A number that is all of the text.
fn parsed(text: &[u8], radix: u32) -> Option<u64> {
    if !text.first()?.is_ascii_alphanumeric() {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

/// The beginning of a server's bytes, escaped.
pub(super) fn shown(bytes: &[u8]) -> String {
    let (begin, more) = match bytes.get(..SHOWN_MAX) {
        Some(begin) if bytes.len() > SHOWN_MAX => (begin, "…"),
        _ => (bytes, ""),
    };
    format!("{}{more}", begin.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Request = Request { ask: Ask::Get, key: 0xab, bytes: 3 };
    const SET: Request = Request { ask: Ask::Insert, ..GET };
    const DELETE: Request = Request { ask: Ask::Remove, ..GET };

    fn http() -> Protocol {
        Protocol::Http { before: b"GET /".to_vec(), after: b" HTTP/1.1\r\n\r\n".to_vec() }
    }

    #[test]
    fn requests_are_those_of_the_protocol() {
        let written = |protocol: &Protocol, request: &Request| {
            let mut out = Vec::new();
            protocol.write(request, &mut out);
            String::from_utf8(out).unwrap()
        };
        let key = "00000000000000ab";
        assert_eq!(written(&Protocol::Memcached, &GET), format!("get {key}\r\n"));
        assert_eq!(written(&Protocol::Memcached, &SET), format!("set {key} 0 0 3\r\nvvv\r\n"));
        assert_eq!(written(&Protocol::Memcached, &DELETE), format!("delete {key}\r\n"));
        assert_eq!(written(&Protocol::Redis, &GET), format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n"));
        let set = format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$3\r\nvvv\r\n");
        assert_eq!(written(&Protocol::Redis, &SET), set);
        assert_eq!(written(&http(), &GET), format!("GET /{key} HTTP/1.1\r\n\r\n"));
        let large = Request { bytes: 1_048_576, ..SET };
        assert!(written(&Protocol::Memcached, &large).contains(" 1048576\r\n"));
    }

    /// All replies, with the bytes arriving in pieces of `piece`.
    fn replies(protocol: &Protocol, requests: &[Request], bytes: &str, piece: usize) -> Vec<Reply> {
        let (mut decoder, mut carry, mut replies) = (Decoder::default(), Vec::new(), Vec::new());
        for piece in bytes.as_bytes().chunks(piece) {
            carry.extend(piece);
            let mut input = &carry[..];
            while let Some(request) = requests.get(replies.len()) {
                match decoder.next(protocol, request, &mut input).unwrap() {
                    Some(reply) => replies.push(reply),
                    None => break,
                }
            }
            carry = input.to_vec();
        }
        assert!(carry.is_empty(), "{carry:?}");
        replies
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let refused = |text: &str| Reply::Refused(text.to_owned());
        let memcached = "VALUE 00000000000000ab 0 5\r\n\r\nEND\r\nEND\r\nEND\r\nSTORED\r\n\
             SERVER_ERROR object too large for cache\r\nNOT_FOUND\r\nERROR\r\n";
        let redis = "$5\r\n\r\nEND\r\n$-1\r\n+OK\r\n-OOM full\r\n:0\r\n-ERR \x01\r\n";
        let responses = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\r\n\r\n0\
             HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 404 No\r\ncontent-length:0\r\n\r\n\
             HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na;x=1\r\n0123456789\r\n0\r\nA: b\r\n\r\n\
             HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\nHTTP/1.0 204 No\r\n\r\n\
             HTTP/1.1 410 Gone\r\nContent-Length: 1\r\n\r\nx";
        let asked = [GET, GET, SET, SET, DELETE, GET];
        for piece in 1..=40 {
            let told = replies(&Protocol::Memcached, &asked, memcached, piece);
            let large = refused("SERVER_ERROR object too large for cache");
            let (hit, miss, done) = (Reply::Hit, Reply::Miss, Reply::Done);
            assert_eq!(
                told,
                [&hit, &miss, &done, &large, &done, &refused("ERROR")].map(Clone::clone)
            );
            let told = replies(&Protocol::Redis, &asked, redis, piece);
            let full = refused("OOM full");
            assert_eq!(
                told,
                [&hit, &miss, &done, &full, &done, &refused("ERR \\x01")].map(Clone::clone)
            );
            let told = replies(&http(), &[GET; 6], responses, piece);
            let busy = refused("status 503");
            assert_eq!(told, [&hit, &miss, &hit, &busy, &hit, &miss].map(Clone::clone));
        }
    }

    #[test]
    fn what_is_no_reply_is_shown() {
        let endless = "x".repeat(LINE_MAX + 1);
        for (protocol, request, bytes, told) in [
            (Protocol::Memcached, GET, "STORED\r\n", "STORED"),
            (Protocol::Memcached, GET, "VALUE other 0 1\r\n", "VALUE other 0 1"),
            (Protocol::Memcached, GET, "VALUE 00000000000000ab 0 +1\r\n", "VALUE"),
            (Protocol::Memcached, GET, "VALUE 00000000000000ab 0 1\r\nxx\r\n", "x"),
            (Protocol::Memcached, GET, "-ERR unknown command\r\n", "-ERR unknown command"),
            (Protocol::Memcached, SET, "DELETED\r\n", "DELETED"),
            (Protocol::Redis, GET, "ERROR\r\n", "ERROR"),
            (Protocol::Redis, GET, "\x1b[31m\r\n", "\\x1b[31m"),
            (Protocol::Redis, GET, "$-2\r\n", "$-2"),
            (Protocol::Redis, SET, "$1\r\n", "$1"),
            (Protocol::Redis, GET, &endless, "xxx"),
            (http(), GET, "ERROR\r\n", "ERROR"),
            (http(), GET, "HTTP/1.1 200 OK\r\n\r\n", ""),
            (http(), GET, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
        ] {
            let mut input = bytes.as_bytes();
            let error = Decoder::default().next(&protocol, &request, &mut input).unwrap_err();
            assert!(error.0.contains(told) && error.0.len() < 100, "{bytes}: {error:?}");
        }
    }
}
