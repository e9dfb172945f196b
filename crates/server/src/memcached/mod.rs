//! memcached's text protocol, classic and meta, as memcached 1.6 speaks it.
//!
//! A session serves the whole requests in a slice of the input, and returns how much of the slice they take; nothing
//! is copied. Look-ups are gathered and done together ([`lookups`]). Any other request has those before it done
//! first, so replies are in the order of requests.

mod auth;
mod base64;
mod lookups;
mod meta;
mod number;
mod operate;
mod prefixes;
mod stats;
mod text;
mod waiting;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use memchr::memchr;
use parking_lot::Mutex;

use crate::access::{Pass, READ};
use crate::hot::Sketch;
use crate::server::Shared;
use crate::settings::Settings;
use crate::worker::{Next, Served, Turn};
use auth::Users;
use lookups::{Lookups, Shape};
use prefixes::Prefixes;
pub(crate) use waiting::{Ask, answer_late, give_up, is_won, lease_left_ms};

/// Length of a key.
const KEY_BYTES_MAX: usize = 250;
/// By default, a longer line without its end is rejected, unless it is a look-up.
const LINE_BYTES_MAX: usize = 2048;
/// The first byte of the binary protocol, which is not supported.
const BINARY_MAGIC: u8 = 0x80;
/// Tokens of a line. Those beyond are ignored.
const TOKENS_MAX: usize = 23;

pub(crate) const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache";
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object";

/// Options that memcached has flags for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the text protocol is spoken. Without it, connections are closed at their first byte (`-B binary`).
    pub text: bool,
    /// Whether entries have numbers for `cas`; otherwise all are 0 (`-C`).
    pub cas: bool,
    /// Whether `flush_all` is allowed (`-F`).
    pub flush: bool,
    /// Whether `lru_crawler metadump` and `stats cachedump` are allowed (`-X`).
    pub dump: bool,
    /// Whether `shutdown` is allowed (`-A`).
    pub shutdown: bool,
    /// A file of users. Each connection must log in as one (`-Y`).
    pub users: Option<PathBuf>,
    /// The character that ends a prefix in `stats detail` (`-D`).
    pub prefix_delimiter: u8,
    /// Whether `stats detail` counts from the start (`-D`).
    pub detail: bool,
    /// Whether `debugtime` moves the clock, for tests.
    pub debug: bool,
    /// Further values for `stats settings`.
    pub shown: Shown,
}

/// Settings that `stats settings` shows as given; they have no other effect.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// `tcpport`.
    pub port: u16,
    /// `inter`.
    pub interface: Option<String>,
    /// `verbosity`.
    pub verbosity: u32,
    /// `domain_socket`.
    pub socket: Option<String>,
    /// `umask`, of the Unix socket.
    pub access: u32,
    /// `binding_protocol`.
    pub protocol: &'static str,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            text: true,
            cas: true,
            flush: true,
            dump: true,
            shutdown: false,
            users: None,
            prefix_delimiter: b':',
            detail: false,
            debug: false,
            shown: Shown { protocol: "auto-negotiate", ..Shown::default() },
        }
    }
}

/// The state shared by all sessions.
#[derive(Debug)]
pub(crate) struct Memcached {
    users: Option<Users>,
    verbosity: AtomicU32,
    prefixes: Mutex<Prefixes>,
    /// Read by each look-up, so kept outside the lock.
    detail: AtomicBool,
    /// Whether the first client of the binary protocol was noted.
    has_noted_binary: AtomicBool,
    stats: stats::Since,
    line_bytes_max: usize,
    key_bytes_max: usize,
}

impl Memcached {
    pub(crate) fn new(settings: &Settings) -> io::Result<Memcached> {
        let Settings { options, limits, .. } = settings;
        Ok(Memcached {
            users: options.users.as_deref().map(Users::read).transpose()?,
            verbosity: AtomicU32::new(options.shown.verbosity),
            prefixes: Mutex::new(Prefixes::new(options.prefix_delimiter)),
            detail: options.detail.into(),
            has_noted_binary: AtomicBool::new(false),
            stats: stats::Since::default(),
            line_bytes_max: limits.line_bytes.unwrap_or(LINE_BYTES_MAX),
            key_bytes_max: limits.key_bytes.min(KEY_BYTES_MAX),
        })
    }

    fn counts_prefixes(&self) -> bool {
        self.detail.load(Relaxed)
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the beginning of a request.
    Command,
    /// Among the keys of a look-up.
    Keys(Shape),
    /// Skipping this many bytes: the value of a refused request.
    Swallow(u64),
    /// Skipping the rest of a line.
    SkipLine,
    /// In a dump, which goes on from here.
    Dump(stats::Dump),
}

/// The session of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    state: State,
    pass: Pass,
}

impl Session {
    pub(crate) fn new(shared: &Shared) -> Session {
        let pass = match shared.memcached.users {
            Some(_) => Pass::nobody(),
            None => Pass::new(shared.access.as_ref()),
        };
        Session { state: State::Command, pass }
    }

    pub(crate) fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Skips the value of a refused request, or closes the connection if it is longer than any may be.
    fn skip(&mut self, length: u64) -> Flow {
        if length > number::LENGTH_MAX {
            return Flow::Close;
        }
        self.state = State::Swallow(length + 2);
        Flow::Go
    }

    /// Whether it is in a value that it skips, or in a line that it does not keep.
    pub(crate) fn is_within_request(&self) -> bool {
        matches!(self.state, State::Swallow(_) | State::SkipLine | State::Keys(_))
    }
}

/// The step after a request.
enum Flow {
    /// Serve the next request.
    Go,
    /// Wait for this many bytes of input, from the beginning of the request.
    Read(usize),
    /// Wait for the verification of a password.
    Verdict,
    Close,
}

/// Serves the complete requests in `input`.
pub(crate) fn serve(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Served {
    if session.pass.is_revoked() {
        return Served { consumed: input.len(), next: Next::Close };
    }
    let mut lookups = Lookups::new();
    let mut at = 0;
    let next = loop {
        let rest = &input[at..];
        // Before the bound of a turn: a request that is passed over may have used it up.
        if rest.is_empty() && !matches!(session.state, State::Dump(_)) {
            break Next::Read(1);
        }
        if turn.waits.is_full() || !turn.begins_request(rest) {
            break Next::Send;
        }
        let (consumed, flow) = match session.state {
            State::Command if session.pass.is_known() => {
                command(session, rest, at, &mut lookups, turn)
            }
            State::Command => auth::request(session, rest, turn),
            State::Keys(shape) => keys(session, shape, rest, at, &mut lookups, turn),
            State::Swallow(bytes) => (swallow(session, rest, bytes), Flow::Go),
            State::SkipLine => (skip_line(session, rest), Flow::Go),
            State::Dump(dump) => {
                session.state = stats::go_on(dump, turn);
                (0, Flow::Go)
            }
        };
        at += consumed;
        match flow {
            Flow::Go => {}
            Flow::Read(bytes) => break Next::Read(bytes),
            Flow::Verdict => break Next::Send,
            Flow::Close => break Next::Close,
        }
        if lookups.is_stopped() {
            break Next::Send;
        }
    };
    lookups.flush(turn);
    if let Some((from, shape)) = lookups.stopped() {
        // The replies are full: the rest is served after they are sent.
        session.state = State::Keys(shape);
        return Served { consumed: from, next: Next::Send };
    }
    Served { consumed: at, next }
}

fn swallow(session: &mut Session, rest: &[u8], bytes: u64) -> usize {
    let passed = bytes.min(rest.len() as u64);
    session.state = match bytes - passed {
        0 => State::Command,
        left => State::Swallow(left),
    };
    passed as usize
}

fn skip_line(session: &mut Session, rest: &[u8]) -> usize {
    match memchr(b'\n', rest) {
        Some(end) => {
            session.state = State::Command;
            end + 1
        }
        None => rest.len(),
    }
}

/// The first line of `rest` without its end, and its length with it.
fn line(rest: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr(b'\n', rest)?;
    let has_return = end > 1 && rest[end - 1] == b'\r';
    Some((&rest[..end - usize::from(has_return)], end + 1))
}

/// Serves the request at the beginning of `rest`, which is `at` in the input.
fn command<'i>(
    session: &mut Session,
    rest: &'i [u8],
    at: usize,
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    if rest[0] == BINARY_MAGIC {
        return refuse_binary(turn);
    }
    if !turn.shared.settings.options.text {
        return (0, Flow::Close);
    }
    let Some((line, bytes)) = line(rest) else { return without_end(session, rest, lookups, turn) };
    if !session.pass.is_free() && auth::denies(&session.pass, line) {
        lookups.flush(turn);
        let flow = if lookups.is_stopped() { Flow::Go } else { auth::deny(session, line, turn) };
        return (bytes, flow);
    }
    // The most frequent request by far, recognized by one comparison.
    if let Some(key) = line.strip_prefix(b"get ")
        && (1..=turn.shared.memcached.key_bytes_max).contains(&key.len())
        && memchr(b' ', key).is_none()
    {
        lookups.push(key, at + 4, Shape { ends: true, ..Shape::new(false) }, turn);
        return (bytes, Flow::Go);
    }
    if let Some(shape) = Shape::of(line) {
        match shape {
            Ok((shape, prefix)) => {
                return keys_of_line(session, shape, line, prefix, (at, bytes), lookups, turn);
            }
            Err(error) => {
                lookups.flush(turn);
                if !lookups.is_stopped() {
                    reply(turn, error);
                }
                return (bytes, Flow::Go);
            }
        }
    }
    lookups.flush(turn);
    if lookups.is_stopped() {
        return (0, Flow::Go);
    }
    let tokens = Tokens::of(line);
    let begin = turn.out.len();
    let mut request = Request { session, tokens, rest, bytes };
    let flow = match tokens.command() {
        [b'm', kind] => meta::serve(&mut request, *kind, turn),
        _ => text::serve(&mut request, turn),
    };
    if let Flow::Read(wanted) = flow {
        return (0, Flow::Read(wanted));
    }
    let bytes = request.bytes;
    if let Some(mut hot) = turn.shared.hot.of(turn.thread, turn.now_ms) {
        note_key(&mut hot, &tokens, bytes + turn.out.len().saturating_sub(begin));
    }
    (bytes, flow)
}

/// Counts the key of a request with these bytes, if it has one.
fn note_key(hot: &mut Sketch, tokens: &Tokens<'_>, bytes: usize) {
    let key = tokens.get(1);
    let is_binary = match tokens.command() {
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => {
            tokens.all().iter().skip(2).any(|flag| flag[0] == b'b')
        }
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"delete" | b"incr"
        | b"decr" | b"touch" => false,
        _ => return,
    };
    let mut decoded = [0; KEY_BYTES_MAX];
    let key = if is_binary { base64::decode(key, &mut decoded) } else { Some(key) };
    if let Some(key) = key.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len())) {
        hot.note(key, bytes);
    }
}

/// Closes a connection of the binary protocol, in which no reply would tell why. Operators are told once.
#[cold]
fn refuse_binary(turn: &Turn<'_>) -> (usize, Flow) {
    turn.counters.binary.add(1);
    if !turn.shared.memcached.has_noted_binary.swap(true, Relaxed) {
        (turn.shared.settings.note)(
            "a client of memcached's binary protocol was disconnected, as only the text protocol is spoken; further ones \
             are counted (frazil_server_binary_closed_total)",
        );
    }
    (0, Flow::Close)
}

/// Handles a line without its end.
fn without_end(
    session: &mut Session,
    rest: &[u8],
    lookups: &mut Lookups<'_>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    if rest.len() <= turn.shared.memcached.line_bytes_max {
        return (0, Flow::Read(rest.len() + 1));
    }
    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
    let command = &rest[blanks..];
    let shape = if command.starts_with(b"get ") {
        Some(Shape::new(false))
    } else if command.starts_with(b"gets ") {
        Some(Shape::new(true))
    } else {
        None
    };
    // The refusal of a client without the right to look up would have to wait for the end of the line.
    let shape = shape.filter(|_| blanks <= 100 && session.pass.may(READ));
    let Some(shape) = shape else {
        lookups.flush(turn);
        if lookups.is_stopped() {
            return (0, Flow::Go);
        }
        turn.counters.long_lines.add(1);
        return (0, Flow::Close);
    };
    // Keys are looked up as they arrive, so the line may have any length.
    session.state = State::Keys(shape);
    (blanks + if shape.cas { 5 } else { 4 }, Flow::Go)
}

/// Looks up the keys of a complete line.
fn keys_of_line<'i>(
    session: &mut Session,
    shape: Shape,
    line: &'i [u8],
    prefix: usize,
    (at, bytes): (usize, usize),
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    let key_bytes_max = turn.shared.memcached.key_bytes_max;
    if split(&line[prefix..]).any(|(_, key)| key.len() > key_bytes_max) {
        lookups.flush(turn);
        if !lookups.is_stopped() {
            turn.counters.long_keys.add(1);
            reply(turn, BAD_FORMAT);
            session.state = State::Command;
        }
        return (bytes, Flow::Go);
    }
    let may_use = |key: &[u8]| session.pass.may_use(key);
    if !session.pass.is_free() && split(&line[prefix..]).any(|(_, key)| !may_use(key)) {
        lookups.flush(turn);
        if !lookups.is_stopped() {
            turn.counters.denied.add(1);
            reply(turn, auth::DENIED);
            session.state = State::Command;
        }
        return (bytes, Flow::Go);
    }
    let mut keys = split(&line[prefix..]).peekable();
    while let Some((offset, key)) = keys.next() {
        let ends = keys.peek().is_none();
        lookups.push(key, at + prefix + offset, Shape { ends, ..shape }, turn);
        if lookups.is_stopped() {
            return (0, Flow::Go);
        }
    }
    session.state = State::Command;
    (bytes, Flow::Go)
}

/// Looks up keys of a line that is too long to be buffered, or that had too many replies.
fn keys<'i>(
    session: &mut Session,
    shape: Shape,
    rest: &'i [u8],
    at: usize,
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    if let Some((line, bytes)) = line(rest) {
        if line.iter().all(|&byte| byte == b' ' || byte == b'\r') {
            lookups.flush(turn);
            if !lookups.is_stopped() {
                turn.out.extend_from_slice(b"END\r\n");
                session.state = State::Command;
            }
            return (bytes, Flow::Go);
        }
        return keys_of_line(session, shape, line, 0, (at, bytes), lookups, turn);
    }
    let whole = rest.iter().rposition(|&byte| byte == b' ').map_or(0, |last| last + 1);
    let key_bytes_max = turn.shared.memcached.key_bytes_max;
    for (offset, key) in split(&rest[..whole]) {
        if key.len() > key_bytes_max {
            return skip_rest(session, whole, BAD_FORMAT, lookups, turn);
        }
        if !session.pass.may_use(key) {
            return skip_rest(session, whole, auth::DENIED, lookups, turn);
        }
        lookups.push(key, at + offset, shape, turn);
        if lookups.is_stopped() {
            return (0, Flow::Go);
        }
    }
    if rest.len() - whole > key_bytes_max + 1 {
        return skip_rest(session, whole, BAD_FORMAT, lookups, turn);
    }
    (whole, Flow::Read(rest.len() - whole + 1))
}

/// Rejects a line without its end, and skips the rest of it.
fn skip_rest(
    session: &mut Session,
    consumed: usize,
    error: &[u8],
    lookups: &mut Lookups<'_>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    lookups.flush(turn);
    if !lookups.is_stopped() {
        let counters = turn.counters;
        let counter = if error == BAD_FORMAT { &counters.long_keys } else { &counters.denied };
        counter.add(1);
        reply(turn, error);
        session.state = State::SkipLine;
    }
    (consumed, Flow::Go)
}

/// Whether a key is too long, which is counted.
fn is_too_long(key: &[u8], turn: &Turn<'_>) -> bool {
    let is_too_long = key.len() > turn.shared.memcached.key_bytes_max;
    if is_too_long {
        turn.counters.long_keys.add(1);
    }
    is_too_long
}

/// Tokens with their places.
fn split(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line[at..].iter().take_while(|&&byte| byte == b' ').count();
        let begin = at;
        let rest = &line[begin..];
        at = begin + memchr(b' ', rest).unwrap_or(rest.len());
        (begin < at).then(|| (begin, &line[begin..at]))
    })
}

/// The first tokens of a line.
#[derive(Clone, Copy)]
struct Tokens<'i> {
    tokens: [&'i [u8]; TOKENS_MAX],
    count: usize,
}

impl<'i> Tokens<'i> {
    fn of(line: &'i [u8]) -> Tokens<'i> {
        let mut tokens: [&[u8]; TOKENS_MAX] = [b""; TOKENS_MAX];
        let mut count = 0;
        for (_, token) in split(line).take(TOKENS_MAX) {
            tokens[count] = token;
            count += 1;
        }
        Tokens { tokens, count }
    }

    fn all(&self) -> &[&'i [u8]] {
        &self.tokens[..self.count]
    }

    fn command(&self) -> &'i [u8] {
        self.tokens[0]
    }

    /// The token at an index; empty if there is none.
    fn get(&self, index: usize) -> &'i [u8] {
        self.tokens.get(index).copied().unwrap_or(b"")
    }

    fn last(&self) -> &'i [u8] {
        self.tokens[self.count.saturating_sub(1)]
    }
}

/// A request other than a look-up.
struct Request<'s, 'i> {
    session: &'s mut Session,
    tokens: Tokens<'i>,
    /// The input from the first byte of the request on.
    rest: &'i [u8],
    /// Length of the request: its line, and its value after that was found complete.
    bytes: usize,
}

impl<'i> Request<'_, 'i> {
    /// The value after the line, of `length` bytes and an end of line. `Err`: the length of an incomplete request.
    fn value(&mut self, length: usize) -> Result<Option<&'i [u8]>, Flow> {
        let whole = self.bytes + length + 2;
        let Some(value) = self.rest.get(self.bytes..whole) else { return Err(Flow::Read(whole)) };
        self.bytes = whole;
        Ok(value.strip_suffix(b"\r\n"))
    }
}

/// Replies with a line.
fn reply(turn: &mut Turn<'_>, line: &[u8]) {
    turn.out.extend_from_slice(line);
    turn.out.extend_from_slice(b"\r\n");
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
