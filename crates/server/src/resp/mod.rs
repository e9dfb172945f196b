//! RESP, the protocol of Redis, in versions 2 and 3, with the commands for strings.
//!
//! A session serves a slice of the input, as those of memcached do. Look-ups are gathered and done together
//! ([`lookups`]). Any other request has those before it done first.

mod acl;
mod arithmetic;
mod client;
mod clients;
mod cluster;
mod command;
mod config;
mod expire;
mod glob;
mod hotkeys;
mod info;
mod inline;
mod keys;
mod lcs;
mod lookups;
mod number;
mod ranges;
mod reply;
mod request;
mod scan;
mod seen;
mod shared;
mod slots;
mod strings;
mod table;
mod times;
mod tracking;
mod transaction;
mod waiting;
mod write;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::access::{Pass, READ};
use crate::listen::Stream;
use crate::mail::Place;
use crate::server::Shared;
use crate::worker::{Next, Served, Turn};
use clients::{Client, Clients};
pub(crate) use cluster::Cluster;
use lookups::{GET, Lookups, Reader, Shape};
use reply::Version;
use request::{Args, Bad, Bounds, Parsed};
use scan::Walk;
pub(crate) use seen::contains;
pub(crate) use shared::Resp;
pub(crate) use slots::SLOTS;
use table::{COMMANDS, DENYOOM, NO_MULTI};
use tracking::Copies;
use transaction::{Transaction, Watched};
pub(crate) use waiting::{Ask, answer_late};

pub(crate) const TOO_MANY_CONNECTIONS: &[u8] = b"-ERR max number of clients reached\r\n";
/// The version told to clients: some choose their commands by it.
const REDIS_VERSION: &str = "7.4.0";
/// Length of a line, by default.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Largest size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Bytes of a request on top of the largest item.
const BESIDE_ITEM_BYTES: usize = 1024;

/// The state of a connection.
#[derive(Debug)]
enum State {
    /// At the beginning of a request.
    Request,
    /// Among the keys of a look-up.
    Keys(Shape),
    /// Skipping the rest of a request that is too large: these bytes, and then these arguments.
    Skip { bytes: u64, arguments: u32 },
    /// In a `KEYS`.
    Walk(Box<Walk>),
}

/// The mode of `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replies {
    On,
    Off,
    /// Drops the replies of this request and the next.
    SkipNext,
    /// Drops the reply of this request.
    Skip,
}

/// The session of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    version: Version,
    state: State,
    pass: Pass,
    replies: Replies,
    /// The connection is to be closed.
    closes: bool,
    is_in_exec: bool,
    /// The turn's replies above which those of this session are dropped.
    out_max: usize,
    transaction: Option<Box<Transaction>>,
    watched: Option<Box<Watched>>,
    /// Set while it tracks keys.
    copies: Option<Box<Copies>>,
    /// Pushes to send after the current array of replies.
    pushes: Vec<u8>,
    client: Arc<Client>,
    clients: Arc<Clients>,
}

impl Session {
    pub(crate) fn new(stream: &Stream, place: Place, shared: &Shared) -> Session {
        let clients = &shared.resp.clients;
        Session {
            version: Version::Two,
            state: State::Request,
            pass: Pass::new(shared.access.as_ref()),
            replies: Replies::On,
            closes: false,
            is_in_exec: false,
            out_max: usize::MAX,
            transaction: None,
            watched: None,
            copies: None,
            pushes: Vec::new(),
            client: clients.add(stream.ends(), place, shared.items.clock.now_ms()),
            clients: Arc::clone(clients),
        }
    }

    /// Bytes of memory on top of those of an idle connection.
    pub(crate) fn held_bytes(&self) -> usize {
        let walk = if let State::Walk(walk) = &self.state { walk.held_bytes() } else { 0 };
        let kept = self.transaction.as_ref().map_or(0, |kept| kept.held_bytes());
        let copies = self.copies.as_ref().map_or(0, |copies| copies.held_bytes());
        let watched = self.watched.as_ref().map_or(0, |watched| watched.held_bytes());
        walk + kept + copies + self.pushes.capacity() + watched
    }

    /// Whether another connection has killed it, or its user was changed.
    pub(crate) fn is_killed(&self) -> bool {
        self.client.is_killed.load(Relaxed) || self.pass.is_revoked()
    }

    pub(crate) fn pass(&self) -> &Pass {
        &self.pass
    }

    /// Whether it is in a request that it skips.
    pub(crate) fn is_within_request(&self) -> bool {
        matches!(self.state, State::Skip { .. })
    }

    /// Whether the user may look a key up.
    #[inline]
    fn may_read(&self, key: &[u8]) -> bool {
        self.pass.is_free() || self.pass.may(READ) && self.pass.may_use(key)
    }

    /// Whether look-ups may be batched.
    #[inline]
    fn looks_up(&self) -> bool {
        self.transaction.is_none() && self.replies == Replies::On
    }

    /// The client of the session's look-ups.
    #[inline]
    fn reader(&self) -> Reader {
        Reader { version: self.version, tracker: self.tracker() }
    }

    /// Whether the client tracks the keys that the current request reads.
    #[inline]
    fn reads_tracked(&mut self) -> bool {
        let is_tracked = self.copies.is_some() && self.tracker().is_some();
        self.forget_said();
        is_tracked
    }

    /// Whether a request may wait: neither in a transaction nor with its reply dropped.
    fn may_wait(&self) -> bool {
        !self.is_in_exec && self.replies == Replies::On
    }

    fn speak(&mut self, version: Version) {
        self.version = version;
        self.client.version.store(if version == Version::Two { 2 } else { 3 }, Relaxed);
    }

    /// Largest size of the next request.
    fn request_bytes_max(&self, turn: &Turn<'_>) -> usize {
        if self.pass.is_known() { request_bytes_max(turn) } else { acl::STRANGER_BYTES_MAX }
    }

    /// Limits of the next request.
    #[inline]
    fn bounds(&self, turn: &Turn<'_>) -> Bounds {
        let limits = &turn.shared.settings.limits;
        Bounds {
            bytes: self.request_bytes_max(turn),
            line: limits.line_bytes.unwrap_or(LINE_BYTES_MAX),
            arguments: limits.arguments,
        }
    }

    /// Whether further replies would be dropped.
    fn has_too_many_replies(&self, turn: &Turn<'_>) -> bool {
        turn.out.len() > self.out_max
    }

    /// Ends a request with the replies from `begin` on.
    #[inline]
    fn answered(&mut self, begin: usize, turn: &mut Turn<'_>) {
        self.replies = match self.replies {
            Replies::On => return,
            Replies::Off => Replies::Off,
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
        };
        turn.out.truncate(begin);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop_tracking();
        self.client.has_gone.store(true, Relaxed);
        self.clients.remove(self.client.id);
    }
}

/// The error of a request, as told to its client.
#[derive(Debug)]
struct Problem(Cow<'static, str>);

impl From<&'static str> for Problem {
    fn from(text: &'static str) -> Problem {
        Problem(Cow::Borrowed(text))
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem(Cow::Owned(text))
    }
}

type Done = Result<(), Problem>;

/// The current request.
struct Call<'c, 't> {
    session: &'c mut Session,
    args: &'c Args<'c>,
    turn: &'c mut Turn<'t>,
}

/// The step after a request.
enum Flow {
    /// Serve the next request.
    Go,
    /// Wait for this many bytes of input, from the beginning of the request.
    Read(usize),
    /// Send the replies before this request begins.
    Send,
    Close,
}

/// Serves the complete requests in `input`.
pub(crate) fn serve(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Served {
    if session.is_killed() {
        return Served { consumed: input.len(), next: Next::Close };
    }
    let served = serve_all(session, input, turn);
    session.take_pushes(turn.out);
    served
}

fn serve_all(session: &mut Session, input: &[u8], turn: &mut Turn<'_>) -> Served {
    let mut lookups = Lookups::new(session);
    let mut at = 0;
    let next = loop {
        let rest = &input[at..];
        // Before the bound of a turn: a request that is passed over may have used it up.
        if rest.is_empty() && !matches!(session.state, State::Walk(_)) {
            break Next::Read(1);
        }
        if turn.waits.is_full() || !turn.begins_request(rest) {
            break Next::Send;
        }
        let (consumed, flow) = match session.state {
            State::Request => request(session, rest, at, &mut lookups, turn),
            State::Keys(shape) => keys(session, shape, rest, at, &mut lookups, turn),
            State::Skip { bytes, arguments } => skip(session, bytes, arguments, rest, turn),
            State::Walk(_) => {
                if let State::Walk(walk) = std::mem::replace(&mut session.state, State::Request) {
                    scan::go_on(walk, session, turn);
                }
                (0, Flow::Go)
            }
        };
        at += consumed;
        match flow {
            Flow::Go => {}
            Flow::Read(bytes) => break Next::Read(bytes),
            Flow::Send => break Next::Send,
            Flow::Close => break Next::Close,
        }
        if lookups.stopped().is_some() {
            break Next::Send;
        }
    };
    lookups.flush(turn);
    if let Some((from, shape)) = lookups.stopped() {
        // The replies are full: the rest is served after they are sent. The first request after `CLIENT CACHING`
        // never begins twice: its key is the first in the batch.
        session.state = if shape.left == 0 { State::Request } else { State::Keys(shape) };
        return Served { consumed: from, next: Next::Send };
    }
    Served { consumed: at, next }
}

/// Largest size of a request, such that a connection with a request and its reply is not the first to be closed for
/// memory.
fn request_bytes_max(turn: &Turn<'_>) -> usize {
    (turn.shared.shares.buffer_bytes / 2).min(REQUEST_BYTES_MAX) + BESIDE_ITEM_BYTES
}

/// Recognizes a request of one key, by far the most frequent, by one comparison.
#[inline]
fn single_key(rest: &[u8]) -> Option<(&[u8], usize)> {
    let at = rest.strip_prefix(b"*2\r\n$3\r\n").filter(|at| at.len() > 5)?;
    if !at[..3].eq_ignore_ascii_case(b"get") {
        return None;
    }
    request::argument(rest, rest.len() - at.len() + 5).ok()?
}

/// Serves the request at the beginning of `rest`, which is `at` in the input.
fn request<'i>(
    session: &mut Session,
    rest: &'i [u8],
    at: usize,
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    if session.looks_up()
        && let Some((key, bytes)) = single_key(rest)
        && session.may_read(key)
        && turn.shared.resp.has(key)
    {
        let resp = &turn.shared.resp;
        resp.calls_of(turn.thread, resp.get).all.add(1);
        lookups.push(key, at, Shape { is_tracked: session.reads_tracked(), ..GET }, turn);
        return (bytes, Flow::Go);
    }
    let parsed = request::parse(rest, session.bounds(turn));
    if let Parsed::Request(args, begin, bytes) = &parsed
        && session.looks_up()
        && args.get(0).eq_ignore_ascii_case(b"mget")
        && args.len() > 1
        && (session.pass.is_free() || args.from(1).all(|key| session.may_read(key)))
        && turn.shared.resp.slot_of(args.from(1)).is_ok()
    {
        mget(session, args, at + begin, lookups, turn);
        return (*bytes, Flow::Go);
    }
    if let Parsed::More(bytes) = parsed {
        return (0, Flow::Read(bytes));
    }
    if !lookups.flush(turn) {
        return (0, Flow::Send);
    }
    let consumed = match parsed {
        Parsed::Request(args, _, bytes) => {
            execute(session, &args, turn);
            bytes
        }
        Parsed::Line(line, bytes) => match inline(session, line, turn) {
            Flow::Go => bytes,
            flow => return (bytes, flow),
        },
        Parsed::Nothing(bytes) => bytes,
        Parsed::More(_) => 0,
        Parsed::TooLarge(arguments, bytes) => {
            turn.counters.large_requests.add(1);
            session.state = State::Skip { bytes: 0, arguments };
            bytes
        }
        Parsed::Bad(bad) => return (0, refuse(bad, turn)),
    };
    if session.pass.waits() {
        return (0, Flow::Send);
    }
    lookups.follow(session);
    // It may have killed itself.
    let closes = session.closes || session.is_killed();
    (consumed, if closes { Flow::Close } else { Flow::Go })
}

/// Looks up the keys of an `MGET` whose arguments begin at `from`.
fn mget<'i>(
    session: &mut Session,
    args: &Args<'i>,
    from: usize,
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) {
    let resp = &turn.shared.resp;
    resp.calls_of(turn.thread, resp.mget).all.add(1);
    let mut left = args.len() as u32 - 1;
    let mut head = Some(left);
    let is_tracked = session.reads_tracked();
    for (place, key) in args.placed().skip(1) {
        let shape = Shape { head: head.take(), left, is_tracked, ..GET };
        lookups.push(key, from + place, shape, turn);
        if lookups.stopped().is_some() {
            break;
        }
        left -= 1;
    }
}

/// Rejects malformed input. The beginning of the next request is unknown, so the connection is closed.
fn refuse(bad: Bad, turn: &mut Turn<'_>) -> Flow {
    let counters = turn.counters;
    let (counter, text) = match bad {
        Bad::Says(text) => (None, text),
        Bad::Line(text) => (Some(&counters.long_lines), text),
        Bad::Arguments(text) => (Some(&counters.many_arguments), text),
        Bad::Length(text) => (Some(&counters.large_requests), text),
        Bad::Expected(byte) => {
            let shown = char::from(byte).escape_default();
            reply::error(turn.out, &format!("ERR Protocol error: expected '$', got '{shown}'"));
            return Flow::Close;
        }
    };
    if let Some(counter) = counter {
        counter.add(1);
    }
    reply::error(turn.out, &format!("ERR {text}"));
    Flow::Close
}

/// Looks up the keys of a request that had too many replies.
fn keys<'i>(
    session: &mut Session,
    shape: Shape,
    rest: &'i [u8],
    at: usize,
    lookups: &mut Lookups<'i>,
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    let Shape { mut head, mut left, is_tracked, .. } = shape;
    let mut from = 0;
    while left > 0 && lookups.stopped().is_none() {
        // All keys are there: the whole request was parsed before its first look-up.
        let Ok(Some((key, next))) = request::argument(rest, from) else { return (0, Flow::Close) };
        lookups.push(key, at + from, Shape { head: head.take(), left, is_tracked, ..GET }, turn);
        left -= 1;
        from = next;
    }
    session.state = State::Request;
    (from, Flow::Go)
}

/// Skips the rest of a request that is too large.
fn skip(
    session: &mut Session,
    mut bytes: u64,
    mut arguments: u32,
    rest: &[u8],
    turn: &mut Turn<'_>,
) -> (usize, Flow) {
    let mut at = 0;
    loop {
        let passed = bytes.min((rest.len() - at) as u64);
        at += passed as usize;
        bytes -= passed;
        if bytes > 0 || arguments == 0 {
            break;
        }
        match request::head(rest, at) {
            Ok(Some((length, begin))) => {
                at = begin;
                bytes = length as u64 + 2;
                arguments -= 1;
            }
            Ok(None) if rest.len() - at < 64 => break,
            // The same answer as after the rest of the line, which no longer can be a length.
            Ok(None) => {
                let bad = Bad::Says("Protocol error: invalid bulk length");
                return (at, refuse(bad, turn));
            }
            Err(bad) => return (at, refuse(bad, turn)),
        }
    }
    session.state = State::Skip { bytes, arguments };
    if bytes == 0 && arguments == 0 {
        session.state = State::Request;
        if let Some(transaction) = &mut session.transaction {
            transaction.is_broken = true;
        }
        let begin = turn.out.len();
        let most = session.request_bytes_max(turn);
        reply::error(turn.out, &format!("ERR the request has more than {most} bytes"));
        session.answered(begin, turn);
    } else if bytes == 0 {
        return (at, Flow::Read(rest.len() - at + 1));
    }
    (at, Flow::Go)
}

/// Serves an inline request.
fn inline(session: &mut Session, line: &[u8], turn: &mut Turn<'_>) -> Flow {
    let Some(request) = inline::translate(line) else {
        return refuse(Bad::Says("Protocol error: unbalanced quotes in request"), turn);
    };
    // It is empty if the line has no words.
    if !request.is_empty()
        && let Parsed::Request(args, ..) = request::parse(&request, Bounds::NONE)
    {
        // Closed as by Redis, so that a web page cannot make a browser send commands.
        let is_http = |word: &[u8]| args.get(0).eq_ignore_ascii_case(word);
        if is_http(b"post") || is_http(b"host:") {
            return Flow::Close;
        }
        execute(session, &args, turn);
    }
    Flow::Go
}

/// Executes a request, or queues it in a transaction.
fn execute(session: &mut Session, args: &Args<'_>, turn: &mut Turn<'_>) {
    let begin = turn.out.len();
    if session.replies != Replies::On {
        session.out_max = begin;
    }
    match admit(session, args, turn) {
        Ok(true) => run(session, args, turn),
        Ok(false) => reply::simple(turn.out, "QUEUED"),
        Err(Problem(text)) if args.get(0).eq_ignore_ascii_case(b"exec") => {
            (session.transaction, session.watched) = (None, None);
            reply::error(turn.out, &transaction::aborted(&text));
        }
        Err(Problem(text)) => {
            if let Some(transaction) = &mut session.transaction {
                transaction.is_broken = true;
            }
            reply::error(turn.out, &text);
        }
    }
    session.out_max = usize::MAX;
    if session.pass.waits() {
        // It is served again after the verification of its password.
        turn.out.truncate(begin);
        return;
    }
    session.answered(begin, turn);
    // The effect of `CLIENT CACHING` ends here; a transaction counts as one request.
    if session.transaction.is_none() && !args.get(0).eq_ignore_ascii_case(b"client") {
        session.forget_said();
    }
}

/// Whether a request is executed now; otherwise it was queued or refused.
fn admit(session: &mut Session, args: &Args<'_>, turn: &mut Turn<'_>) -> Result<bool, Problem> {
    let at = table::find(args)?;
    let command = &COMMANDS[at];
    let resp = &turn.shared.resp;
    let refused = || resp.calls_of(turn.thread, at).refused.add(1);
    table::check_count(command, args).inspect_err(|_| refused())?;
    if !session.pass.is_free() {
        acl::check(session, command, args, turn).inspect_err(|_| refused())?;
    }
    let slot = resp.slot_of(table::keys_of(command, args)).inspect_err(|_| refused())?;
    if command.is(DENYOOM) && resp.is_full(turn) {
        refused();
        return Err(write::OUT_OF_MEMORY.into());
    }
    let bytes_max = request_bytes_max(turn);
    let Some(transaction) = &mut session.transaction else { return Ok(true) };
    // A queued request was checked for the present user, so the user must not change before its execution.
    let changes_user = turn.shared.access.is_some() && matches!(command.name, "auth" | "hello");
    if command.is(NO_MULTI) || changes_user {
        refused();
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if matches!(command.name, "discard" | "exec" | "multi" | "quit" | "reset" | "watch") {
        return Ok(true);
    }
    transaction.note_slot(slot);
    match transaction.keep(args, command, bytes_max) {
        true => Ok(false),
        false => {
            turn.counters.large_transactions.add(1);
            Err(format!("ERR a transaction has no more than {bytes_max} bytes").into())
        }
    }
}

/// Executes an admitted request.
fn run(session: &mut Session, args: &Args<'_>, turn: &mut Turn<'_>) {
    let begin = turn.out.len();
    let Ok(at) = table::find(args) else { return };
    let calls = turn.shared.resp.calls_of(turn.thread, at);
    calls.all.add(1);
    if session.copies.is_some() {
        tracking::remember_all(session, &COMMANDS[at], args, turn);
    }
    let _unheard = session.unheard();
    if let Err(Problem(text)) = (COMMANDS[at].run)(&mut Call { session, args, turn }) {
        if session.pass.waits() {
            // No failure: it is served again.
            return;
        }
        calls.failed.add(1);
        turn.out.truncate(begin);
        reply::error(turn.out, &text);
    }
    hotkeys::note(&COMMANDS[at], args, begin, turn);
}
