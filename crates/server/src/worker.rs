//! A serving thread: it waits for sockets, reads, serves requests and sends replies.
//!
//! One wake-up passes once over the ready sockets. From each it reads as much as one buffer holds, serves the
//! complete requests in place, and collects their replies. It sends them after all are served. So a client that waits
//! for one reply wakes up after the work for the others, not in the middle of it: on two cores this takes 25 % less
//! processor time (docs/design/server.md).

mod telling;
mod waiting;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use mio::{Events, Interest, Poll, Token};

use crate::connection::{Connection, LINGER_SECONDS};
use crate::counters::Counters;
use crate::listen::{Listener, Stream};
use crate::mail;
use crate::server::Shared;
use crate::session::{self, Protocol, Session};
use crate::turnstile::Place;
use crate::waits::{Added, HOLES_MAX};

pub(crate) const WAKE: Token = Token(usize::MAX);

/// Bytes read from a connection before the next has its turn.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Replies of late requests that are collected before they are sent.
pub(crate) const REPLY_BYTES: usize = 256 << 10;
/// Bytes of entries rewritten for a connection in a wake-up, besides one entry.
pub(crate) const WORK_BYTES: usize = 1 << 20;
/// Replies collected before they are sent.
const COLLECTED_BYTES: usize = 1 << 20;
/// Memory that the buffer of replies keeps from one wake-up to the next.
const KEPT_BYTES: usize = COLLECTED_BYTES + REPLY_BYTES;
/// Connections that a listener accepts in a wake-up.
const ACCEPTS: usize = 64;
/// Seconds for a handshake where requests have no limit.
const HANDSHAKE_SECONDS: u64 = 60;
const EVENTS: usize = 1024;
/// Longest sleep of a thread.
const TICK: Duration = Duration::from_millis(1000);
/// Sleep while a listener may have more connections than it could accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A turn of a session, with its buffers and limits.
pub(crate) struct Turn<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) counters: &'a Counters,
    /// Replies are appended here.
    pub(crate) out: &'a mut Vec<u8>,
    /// No request begins when `out` is this long.
    pub(crate) out_max: usize,
    pub(crate) scratch: &'a mut Vec<u8>,
    /// Bytes that may be copied besides input and replies. No request begins when it is 0.
    pub(crate) work_left: usize,
    /// Requests that may begin.
    pub(crate) requests_left: usize,
    pub(crate) now_ms: u64,
    /// The number of the thread.
    pub(crate) thread: usize,
    pub(crate) place: Place<'a>,
    /// The client's address, where it has one.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) waits: &'a mut Added,
}

impl<'a> Turn<'a> {
    /// Begins a turn of a thread, after waiting for one that runs alone. Replies are appended to `out`.
    pub(crate) fn begin(
        shared: &'a Shared,
        thread: usize,
        now_ms: u64,
        out: &'a mut Vec<u8>,
        scratch: &'a mut Vec<u8>,
        waits: &'a mut Added,
    ) -> Turn<'a> {
        Turn {
            shared,
            counters: &shared.counters[thread],
            out_max: out.len() + shared.settings.limits.reply_bytes,
            out,
            scratch,
            work_left: WORK_BYTES,
            requests_left: match shared.settings.limits.turn_requests {
                0 => usize::MAX,
                some => some,
            },
            now_ms,
            thread,
            place: shared.turnstile.enter(thread),
            peer: None,
            waits,
        }
    }

    /// Counts one more request, at the beginning of `rest`. False: the turn is full, and the next one serves it.
    #[inline]
    pub(crate) fn begins_request(&mut self, rest: &[u8]) -> bool {
        if self.out.len() >= self.out_max || self.work_left == 0 || self.requests_left == 0 {
            if !rest.is_empty() {
                self.count_full();
            }
            return false;
        }
        self.requests_left -= 1;
        true
    }

    /// Counts that the turn ends with requests left.
    #[cold]
    fn count_full(&self) {
        if self.out.len() >= self.out_max {
            self.counters.full_replies.add(1);
        } else if self.requests_left == 0 {
            self.counters.full_pipelines.add(1);
        }
    }

    /// Counts work that is bounded by the length of neither the input nor the replies.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.work_left = self.work_left.saturating_sub(bytes);
    }

    /// Counts a look-up, and notes it for a recording. `found`: an entry, and its bytes if they are recorded.
    #[inline]
    pub(crate) fn count_get(&self, key: &[u8], found: Option<Option<u64>>) {
        self.shared.items.store.looked_up(key, found.flatten());
        self.counters.gets.add(1);
        self.counters.get_hits.add(found.is_some().into());
        self.counters.get_misses.add(found.is_none().into());
    }
}

/// The result of serving.
pub(crate) struct Served {
    /// Bytes of the input that were consumed.
    pub(crate) consumed: usize,
    pub(crate) next: Next,
}

/// The step after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait for more input: this many bytes at least, including what was not consumed.
    Read(usize),
    /// Send the replies, because they are many.
    Send,
    /// Wait for another thread.
    Wait,
    /// Close the connection after its replies are sent.
    Close,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    poll: Poll,
    listeners: Vec<(Protocol, Listener)>,
    /// The token of the first connection; listeners have those before.
    first: usize,
    /// Whether nothing is accepted any more, and the thread ends with its last connection.
    is_draining: bool,
    /// By token, from `first` on.
    connections: Vec<Option<Box<Connection>>>,
    vacant: Vec<usize>,
    /// Connections to serve next.
    ready: VecDeque<usize>,
    /// Listeners that may have further connections.
    accepting: Vec<usize>,
    input: Box<[u8]>,
    out: Vec<u8>,
    /// The connection of each range of `out`.
    parts: Vec<(usize, Range<usize>)>,
    scratch: Vec<u8>,
    added: Added,
    /// Waiting replies: deadline, connection, ticket.
    deadlines: BTreeSet<(u64, u32, u64)>,
    /// Whether there are letters.
    has_mail: bool,
    now_ms: u64,
    swept_ms: u64,
    /// This thread's part of the bytes that all connections hold.
    held_bytes: usize,
}

/// Replies of a connection that may still wait, besides `bytes_max` of those behind them. Without any it is not served.
fn room(connection: &Connection, bytes_max: usize) -> usize {
    connection.waits.as_ref().map_or(HOLES_MAX, |waits| waits.room(bytes_max))
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        number: usize,
        poll: Poll,
        mut listeners: Vec<(Protocol, Listener)>,
    ) -> io::Result<Worker> {
        for (token, (_, listener)) in listeners.iter_mut().enumerate() {
            let (registry, source) = (poll.registry(), listener.source());
            registry.register(source, Token(token), Interest::READABLE)?;
        }
        Ok(Worker {
            accepting: Vec::with_capacity(listeners.len()),
            first: listeners.len(),
            is_draining: false,
            shared,
            number,
            poll,
            listeners,
            connections: Vec::new(),
            vacant: Vec::new(),
            ready: VecDeque::new(),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
            parts: Vec::new(),
            scratch: Vec::new(),
            added: Added::new(number),
            deadlines: BTreeSet::new(),
            has_mail: false,
            now_ms: 0,
            swept_ms: 0,
            held_bytes: 0,
        })
    }

    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            let timeout = self.timeout().min(self.until_deadline());
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if self.shared.stops.load(Relaxed) {
                return Ok(());
            }
            self.now_ms = self.shared.items.clock.update();
            if self.drains() {
                return Ok(());
            }
            if self.shared.items.is_flush_due(self.now_ms) {
                let _place = self.shared.turnstile.enter(self.number);
                self.shared.items.tend(self.now_ms);
            }
            for event in &events {
                self.note(event);
            }
            if self.has_mail {
                self.resume();
            }
            for listener in std::mem::take(&mut self.accepting) {
                self.accept(listener);
            }
            for _ in 0..self.ready.len() {
                let Some(slot) = self.ready.pop_front() else { break };
                self.serve(slot);
                if self.out.len() > COLLECTED_BYTES {
                    self.send_all();
                }
            }
            // After serving, so that a connection that ends has its last replies sent before.
            self.end_waits();
            self.send_all();
            if self.is_draining {
                self.close_quiet();
            }
            if self.now_ms - self.swept_ms >= TICK.as_millis() as u64 {
                self.sweep();
            }
        }
    }

    /// The longest sleep now.
    fn timeout(&self) -> Duration {
        if !self.ready.is_empty() {
            Duration::ZERO
        } else if !self.accepting.is_empty() {
            ACCEPT_PAUSE
        } else if self.is_draining {
            let until_ms = self.shared.drains_until_ms.load(Relaxed);
            TICK.min(Duration::from_millis(until_ms.saturating_sub(self.now_ms)))
        } else {
            TICK
        }
    }

    /// Whether the thread ends: the server drains, and either its connections are done or the time is over.
    fn drains(&mut self) -> bool {
        let until_ms = self.shared.drains_until_ms.load(Relaxed);
        if until_ms == u64::MAX {
            return false;
        }
        if !self.is_draining {
            self.is_draining = true;
            self.accept_the_last();
            // Input is read and served once more, whether or not its event has come.
            for slot in 0..self.connections.len() {
                if let Some(connection) = &mut self.connections[slot] {
                    connection.readable = true;
                    self.list(slot);
                }
            }
        }
        self.now_ms >= until_ms || self.connections.iter().all(Option::is_none)
    }

    /// Accepts the connections in the queue and closes the listeners, so that further clients connect elsewhere
    /// instead of waiting in a queue that is never emptied.
    fn accept_the_last(&mut self) {
        let most = self.shared.settings.limits.backlog.unsigned_abs() as usize / ACCEPTS + 1;
        for listener in 0..self.listeners.len() {
            for _ in 0..most {
                self.accepting.clear();
                self.accept(listener);
                if self.accepting.is_empty() {
                    break;
                }
            }
        }
        self.listeners.clear();
        self.accepting.clear();
    }

    fn close_quiet(&mut self) {
        for slot in 0..self.connections.len() {
            let is_quiet = |connection: &Connection| connection.is_quiet();
            if self.connections[slot].as_deref().is_some_and(is_quiet) {
                self.close(slot);
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    fn note(&mut self, event: &mio::event::Event) {
        let token = event.token();
        if token == WAKE {
            self.has_mail = true;
            return;
        }
        if token.0 < self.first {
            self.accept_later(token.0);
            return;
        }
        let slot = token.0 - self.first;
        // A connection closed in this wake-up may still have events.
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        connection.ended |= event.is_read_closed() || event.is_error();
        connection.readable |= event.is_readable() || connection.ended;
        self.list(slot);
    }

    /// Lists a connection to be served in this wake-up or the next.
    fn list(&mut self, slot: usize) {
        if let Some(connection) = &mut self.connections[slot]
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.ready.push_back(slot);
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS {
            let (protocol, socket) = &self.listeners[listener];
            match socket.accept() {
                Ok(stream) => self.admit(*protocol, stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client has gone, or the process has no descriptor left: tried again later.
                Err(_) => break,
            }
        }
        self.accept_later(listener);
    }

    fn accept_later(&mut self, listener: usize) {
        if listener < self.listeners.len() && !self.accepting.contains(&listener) {
            self.accepting.push(listener);
        }
    }

    fn admit(&mut self, protocol: Protocol, mut stream: Stream) {
        let shared = Arc::clone(&self.shared);
        if !shared.connections.admits(protocol) {
            self.counters().rejected.add(1);
            // A client that does not read the reply still sees the connection close.
            if shared.tls.is_none() {
                let _ = stream.write(protocol.too_many_connections());
            }
            return;
        }
        let Ok(mut stream) = stream.secured(shared.tls.as_ref()) else {
            return shared.connections.leaves(protocol);
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let token = Token(slot + self.first);
        if stream.register(self.poll.registry(), token).is_err() {
            self.vacant.push(slot);
            return shared.connections.leaves(protocol);
        }
        self.counters().connections.add(1);
        let place = mail::Place { thread: self.number as u32, slot: slot as u32 };
        let session = Session::new(protocol, &stream, place, &shared);
        let connection = Connection::new(stream, session, self.now_ms);
        self.hold(0, connection.held_bytes());
        self.connections[slot] = Some(Box::new(connection));
    }

    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.connections[slot].take() else { return };
        self.hold(connection.held_bytes(), 0);
        self.abandon(slot, &mut connection);
        connection.stream.end();
        // The socket is closed right after, which deregisters it as well.
        let _ = connection.stream.deregister(self.poll.registry());
        self.shared.connections.leaves(connection.session.protocol());
        self.vacant.push(slot);
    }

    /// Reads from a connection and serves the complete requests.
    fn serve(&mut self, slot: usize) {
        let Some(mut connection) = self.connections[slot].take() else { return };
        connection.is_listed = false;
        let held = connection.held_bytes();
        let goes_on = self.exchange(slot, &mut connection);
        self.hold(held, connection.held_bytes());
        self.connections[slot] = Some(connection);
        match goes_on {
            Ok(true) => self.list(slot),
            Ok(false) => {}
            Err(_) => self.close(slot),
        }
        self.relieve();
    }

    /// Notes a change of the memory that a connection holds. Most never hold any.
    fn hold(&mut self, before: usize, now: usize) {
        if before != now {
            self.held_bytes = self.held_bytes - before + now;
            self.shared.held_bytes.fetch_add(now.wrapping_sub(before), Relaxed);
        }
    }

    /// One turn of a connection. True: it has more to do at once. An error closes it.
    fn exchange(&mut self, slot: usize, connection: &mut Connection) -> io::Result<bool> {
        if connection.is_sending() {
            let sent = connection.send_pending()?;
            self.counters().bytes_written.add(sent as u64);
            if sent > 0 {
                connection.stalled_ms = self.now_ms;
            }
            if connection.is_sending() {
                return Ok(false);
            }
        }
        if connection.closing {
            // Waiting replies come first.
            return match connection.awaits_nothing() {
                false => Ok(false),
                true if connection.is_to_linger() => {
                    connection.linger(&mut self.input, self.now_ms)
                }
                true => Err(io::ErrorKind::ConnectionAborted.into()),
            };
        }
        if room(connection, self.shared.settings.limits.reply_bytes) == 0
            || connection.session.waits_for_verdict()
        {
            return Ok(false);
        }
        if connection.has_more {
            connection.has_more = false;
            let carry = std::mem::take(&mut connection.carry);
            let goes_on = self.answer(slot, connection, carry, None);
            return Ok(goes_on || connection.readable);
        }
        if !connection.readable || connection.session.waits() {
            return Ok(false);
        }
        self.read(slot, connection)
    }

    fn read(&mut self, slot: usize, connection: &mut Connection) -> io::Result<bool> {
        // A request that fits into the buffer is assembled there.
        let begun = if connection.wanted <= self.input.len() { connection.carry.len() } else { 0 };
        let begun = if begun < self.input.len() / 2 { begun } else { 0 };
        self.input[..begun].copy_from_slice(&connection.carry[..begun]);
        let was_handshaking = connection.stream.is_handshaking();
        let read = connection.stream.read(&mut self.input[begun..]);
        if was_handshaking && !connection.stream.is_handshaking() {
            self.counters().handshakes.add(1);
        }
        let read = match read {
            Ok(0) if connection.awaits_nothing() => return Err(io::ErrorKind::UnexpectedEof.into()),
            // It may have closed only its half, and still read the replies it waits for. It cannot bring a value any
            // more.
            Ok(0) => {
                connection.closing = true;
                self.give_up_leases(connection);
                return Ok(false);
            }
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable = false;
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    self.counters().tls_errors.add(1);
                }
                return Err(error);
            }
        };
        self.counters().bytes_read.add(read as u64);
        if connection.carry.is_empty() && !connection.session.is_within_request() {
            connection.stalled_ms = self.now_ms;
        }
        // A short read has emptied the socket; an event tells when there is more.
        let is_short = begun + read < self.input.len();
        connection.readable = !is_short || connection.ended || connection.stream.has_more();
        let arrived = begun + read;
        let goes_on = if connection.carry.len() > begun {
            let mut carry = std::mem::take(&mut connection.carry);
            if carry.capacity() - carry.len() < read {
                // Doubled each time, up to what the request needs.
                let missing = connection.wanted.saturating_sub(carry.len());
                carry.reserve_exact(missing.min(carry.len()).max(read));
            }
            carry.extend_from_slice(&self.input[..read]);
            if carry.len() < connection.wanted {
                connection.carry = carry;
                false
            } else {
                self.answer(slot, connection, carry, None)
            }
        } else if arrived < connection.wanted {
            connection.carry.extend_from_slice(&self.input[begun..arrived]);
            false
        } else {
            let carry = std::mem::take(&mut connection.carry);
            self.answer(slot, connection, carry, Some(arrived))
        };
        Ok(goes_on || connection.readable)
    }

    /// Serves the requests in the buffer up to `arrived`, or else in `carry`, and keeps the rest. True: there is more
    /// to serve.
    fn answer(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        mut carry: Vec<u8>,
        arrived: Option<usize>,
    ) -> bool {
        let begin = self.out.len();
        let input = arrived.map_or(&carry[..], |arrived| &self.input[..arrived]);
        self.added.place.slot = slot as u32;
        self.added.room = room(connection, self.shared.settings.limits.reply_bytes);
        let (number, now_ms, scratch) = (self.number, self.now_ms, &mut self.scratch);
        let mut turn =
            Turn::begin(&self.shared, number, now_ms, &mut self.out, scratch, &mut self.added);
        turn.peer = connection.peer;
        let was_within = connection.session.is_within_request();
        let Served { consumed, next } = session::serve(&mut connection.session, input, &mut turn);
        drop(turn);
        // A dump continues without input.
        if next == Next::Send {
            connection.restart_times(self.now_ms);
        } else if was_within && connection.session.is_within_request() {
            connection.pass_over(consumed, self.now_ms);
        } else if consumed > 0 {
            connection.restart_times(self.now_ms);
        }
        if let Some(arrived) = arrived {
            carry.clear();
            carry.extend_from_slice(&self.input[consumed..arrived]);
        } else {
            carry.drain(..consumed);
        }
        // A connection without a partial request holds no memory.
        connection.carry = if carry.is_empty() { Vec::new() } else { carry };
        connection.wanted = if let Next::Read(wanted) = next { wanted } else { 0 };
        connection.closing |= next == Next::Close;
        connection.has_more = next == Next::Send;
        self.keep_waits(slot, connection, begin);
        if self.out.len() > begin {
            self.parts.push((slot, begin..self.out.len()));
        }
        if connection.closing && self.out.len() == begin {
            return true;
        }
        if connection.has_more {
            self.counters().yields.add(1);
        }
        connection.has_more
    }

    /// Sends all collected replies.
    fn send_all(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        for (slot, range) in &parts {
            let Some(mut connection) = self.connections[*slot].take() else { continue };
            let held = connection.held_bytes();
            let sent = connection.send(&self.out[range.clone()]);
            self.hold(held, connection.held_bytes());
            let is_done =
                connection.closing && !connection.is_sending() && connection.awaits_nothing();
            let lingers = is_done && connection.is_to_linger();
            self.connections[*slot] = Some(connection);
            match sent {
                Ok(sent) => self.counters().bytes_written.add(sent as u64),
                Err(_) => {
                    self.close(*slot);
                    continue;
                }
            }
            if lingers {
                self.list(*slot);
            } else if is_done {
                self.close(*slot);
            }
        }
        self.parts = parts;
        self.parts.clear();
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        self.relieve();
    }

    /// If connections together exceed their limit of memory, closes those of this thread that hold most, while the
    /// thread holds more than its part. If it does not, another thread does.
    fn relieve(&mut self) {
        let shares = &self.shared.shares;
        let most = shares.buffer_bytes + shares.session_bytes;
        let part = most / self.shared.settings.threads;
        while self.shared.held_bytes.load(Relaxed) > most {
            if self.held_bytes <= part {
                // It may sleep, and checks what it holds when it wakes.
                self.shared.wake();
                return;
            }
            let held = |slot: &usize| {
                self.connections[*slot].as_ref().map_or(0, |connection| connection.held_bytes())
            };
            let slot = (0..self.connections.len()).max_by_key(held);
            let Some(slot) = slot.filter(|slot| held(slot) > 0) else { return };
            self.counters().full_kicks.add(1);
            self.close(slot);
        }
    }

    /// Once a second: closes connections that are idle or slow for too long.
    fn sweep(&mut self) {
        self.swept_ms = self.now_ms;
        self.sweep_copies();
        let limits = self.shared.settings.limits.clone();
        let is_over = |since: u64, seconds: u64| {
            seconds > 0 && self.now_ms.saturating_sub(since) > seconds.saturating_mul(1000)
        };
        let idle = |connection: &Connection| match connection.session.protocol() {
            Protocol::Http => limits.http_idle_seconds,
            Protocol::Memcached | Protocol::Resp => limits.idle_seconds,
        };
        let mut over = Vec::new();
        let mut lingered = Vec::new();
        for (slot, connection) in self.connections.iter().enumerate() {
            let Some(connection) = connection else { continue };
            if connection.lingers() {
                if is_over(connection.served_ms, LINGER_SECONDS) {
                    lingered.push(slot);
                }
                continue;
            }
            // A handshake always has a limit.
            let seconds = match limits.request_seconds {
                0 if connection.stream.is_handshaking() => HANDSHAKE_SECONDS,
                seconds => seconds,
            };
            if connection.is_busy() && is_over(connection.stalled_ms, seconds) {
                over.push((slot, true));
            } else if connection.awaits_nothing()
                && is_over(connection.served_ms.max(connection.stalled_ms), idle(connection))
                || connection.session.is_killed()
            {
                over.push((slot, false));
            }
        }
        lingered.into_iter().for_each(|slot| self.close(slot));
        for (slot, is_slow) in over {
            let counters = self.counters();
            if is_slow {
                counters.slow_kicks.add(1)
            } else {
                counters.idle_kicks.add(1)
            }
            self.close(slot);
        }
    }
}
