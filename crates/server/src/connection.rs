//! A connection: its socket, the part of the next request that has arrived, and the replies not yet sent.
//!
//! ```text
//!           a whole request                 all sent
//!  reading ────────────────► served ─────────────────────► reading
//!     │                        │ the socket takes no more
//!     │ end, error, bound      ▼
//!     ▼                      sending ── the socket takes more ──► reading
//!   closed ◄───────────────────┘ bound
//!     ▲ end, bound             │ a request was refused, and more of it may come
//!     └──────── lingers ◄──────┘
//! ```
//!
//! A connection that reads, with no part of a request, has no memory of its own beside this struct: requests are
//! parsed in the thread's buffer, and replies are sent from the thread's buffer. Only the remainder of either is
//! moved to [`Connection::carry`] and [`Connection::pending`].

use std::io;
use std::net::IpAddr;

use crate::listen::Stream;
use crate::session::Session;
use crate::settings::ITEM_BYTES_MAX;
use crate::waits::Waits;

/// How much of a refused request is thrown away, and how long it may take, before its connection is closed.
const LINGER_BYTES_MAX: usize = 16 << 20;
pub(crate) const LINGER_SECONDS: u64 = 5;
/// Bytes of a request that is passed over, with the time of a request: as many as the largest value that is stored.
const PASSED_BYTES: usize = ITEM_BYTES_MAX;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) session: Session,
    /// Its client's address, unless it came by a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// The beginning of a request that has not arrived whole, or requests whose replies had no room in the buffer.
    pub(crate) carry: Vec<u8>,
    /// Bytes that the first request in `carry` needs at least. With fewer it is not parsed.
    pub(crate) wanted: usize,
    /// Replies that the socket did not accept, from `sent` on.
    pub(crate) pending: Vec<u8>,
    sent: usize,
    /// Waiting replies, those behind them, and the leases it holds.
    pub(crate) waits: Option<Box<Waits>>,
    /// The socket may have more to read.
    pub(crate) readable: bool,
    /// The client has closed its side. No further event tells so, so the socket is read until its end.
    pub(crate) ended: bool,
    /// Requests in `carry` can be served once `pending` is sent.
    pub(crate) has_more: bool,
    /// It is closed after everything is sent.
    pub(crate) closing: bool,
    /// Bytes that may still be discarded before it is closed; 0 unless it lingers.
    discards_left: usize,
    /// It is in the list of connections to serve next.
    pub(crate) is_listed: bool,
    /// When the last whole request was served.
    pub(crate) served_ms: u64,
    /// When the partial request in `carry` began, or `pending` stopped moving.
    pub(crate) stalled_ms: u64,
    /// Bytes of a request that were passed over since then.
    passed_bytes: usize,
}

impl Connection {
    pub(crate) fn new(stream: Stream, session: Session, now_ms: u64) -> Self {
        let peer = stream.peer();
        Connection {
            stream,
            session,
            peer,
            carry: Vec::new(),
            wanted: 0,
            pending: Vec::new(),
            sent: 0,
            waits: None,
            readable: false,
            ended: false,
            has_more: false,
            closing: false,
            discards_left: 0,
            is_listed: false,
            served_ms: now_ms,
            stalled_ms: now_ms,
            passed_bytes: 0,
        }
    }

    /// Restarts the limits of time.
    pub(crate) fn restart_times(&mut self, now_ms: u64) {
        (self.served_ms, self.stalled_ms, self.passed_bytes) = (now_ms, now_ms, 0);
    }

    /// Notes bytes that were passed over, of a request that has not ended. Each [`PASSED_BYTES`] of it have the time of
    /// a request.
    pub(crate) fn pass_over(&mut self, bytes: usize, now_ms: u64) {
        self.passed_bytes += bytes;
        if self.passed_bytes >= PASSED_BYTES {
            self.restart_times(now_ms);
        }
    }

    /// Whether it is idle: no request, whole or partial, and no reply.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_within = self.session.is_within_request();
        let is_idle = self.carry.is_empty() && !self.is_sending() && !is_within;
        let is_served = !self.has_more && !self.is_listed && !self.readable;
        is_idle && is_served && self.awaits_nothing() && !self.lingers()
    }

    /// Whether it discards what it reads.
    pub(crate) fn lingers(&self) -> bool {
        self.discards_left > 0
    }

    /// Whether it must read on before it is closed. The client may still be sending, and a reset could discard the reply
    /// before it is read.
    pub(crate) fn is_to_linger(&self) -> bool {
        self.session.lingers() || self.lingers()
    }

    /// Sends no more, and discards received bytes. True: there may be more at once.
    ///
    /// # Errors
    ///
    /// The connection ends: the client has closed it, or has sent too much.
    pub(crate) fn linger(&mut self, into: &mut [u8], now_ms: u64) -> io::Result<bool> {
        if !self.lingers() {
            self.stream.end_sending()?;
            self.discards_left = LINGER_BYTES_MAX;
            self.served_ms = now_ms;
        }
        match self.stream.discard(into) {
            Ok(read) if read == 0 || read >= self.discards_left => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(read) => {
                self.discards_left -= read;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether there are unsent replies.
    pub(crate) fn is_sending(&self) -> bool {
        !self.pending.is_empty() || self.stream.holds_output()
    }

    /// Whether it depends on its client, for the rest of a request or to take replies. A request that has arrived
    /// whole but is not yet served is no slow request.
    pub(crate) fn is_busy(&self) -> bool {
        let is_partial = !self.carry.is_empty() || self.session.is_within_request();
        let is_behind = is_partial && !self.has_more && !self.session.waits();
        is_behind || self.is_sending() || self.stream.is_handshaking()
    }

    /// Bytes of memory of its own.
    pub(crate) fn held_bytes(&self) -> usize {
        self.carry.capacity()
            + self.stream.held_bytes()
            + self.pending.capacity()
            + self.session.held_bytes()
            + self.waits.as_ref().map_or(0, |waits| waits.held_bytes())
    }

    /// Whether no reply waits.
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.waits.as_ref().is_none_or(|waits| waits.is_over()) && !self.session.waits()
    }

    /// Sends replies, and keeps the bytes that the socket does not accept. Returns the bytes sent.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub(crate) fn send(&mut self, replies: &[u8]) -> io::Result<usize> {
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(replies);
            return Ok(0);
        }
        let sent = self.write(replies)?;
        if sent < replies.len() {
            self.pending.extend_from_slice(&replies[sent..]);
            self.sent = 0;
        }
        Ok(sent)
    }

    /// Sends the bytes kept. Returns the bytes sent.
    ///
    /// # Errors
    ///
    /// The connection is broken.
    pub(crate) fn send_pending(&mut self) -> io::Result<usize> {
        let pending = std::mem::take(&mut self.pending);
        let sent = self.write(&pending[self.sent..])?;
        self.sent += sent;
        if self.sent < pending.len() {
            self.pending = pending;
        } else {
            // Called again with nothing kept, when TLS still holds encrypted bytes.
            self.sent = 0;
            self.stream.flush()?;
        }
        Ok(sent)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
