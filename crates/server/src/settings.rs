//! What a server is told when it starts.

use std::path::PathBuf;

use crate::listen::Address;
use crate::memcached::Options;
use crate::origin::Origin;
use crate::passed::{Passed, Purpose};
use crate::tls::{SESSION_BYTES, TlsFiles};

/// The least memory a server takes.
pub const MEMORY_BYTES_MIN: usize = 2 << 20;
/// The largest item, with key and head: a segment.
pub const ITEM_BYTES_MAX: usize = 1 << 20;

/// Settings of a [`Server`](crate::Server).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where memcached's protocol is spoken.
    pub memcached: Vec<Address>,
    /// Where RESP, the protocol of Redis, is spoken.
    pub resp: Vec<Address>,
    /// Where `/health` and `/metrics` are served by HTTP, to anybody who can connect.
    pub admin: Vec<Address>,
    /// Sockets that listen already, beside these addresses.
    pub passed: Passed,
    /// Who may connect to Unix sockets that are made, as bits of `chmod`; `None`: as the process's umask says.
    pub unix_mode: Option<u32>,
    /// Bytes for items, index and the buffers of connections together, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// Whether entries are evicted to make room; without, a value that finds none is refused.
    pub evicts: bool,
    /// Threads that serve, at least one.
    pub threads: usize,
    /// Whether [`Handle::restore`](crate::Handle::restore) is called once: until then keys that clients write are noted.
    pub restores: bool,
    /// What the server bounds.
    pub limits: Limits,
    /// What memcached has a flag for.
    pub options: Options,
    /// A file of users, one of which each connection must be; `None`: who connects may do everything.
    pub users: Option<PathBuf>,
    /// What makes it speak TLS at its TCP addresses, and only that.
    pub tls: Option<TlsFiles>,
    /// Where look-ups of memcached's protocol fetch what is missing.
    pub origin: Option<Origin>,
}

impl Default for Settings {
    /// One thread, 64 MiB, no address.
    fn default() -> Settings {
        Settings {
            memcached: Vec::new(),
            resp: Vec::new(),
            admin: Vec::new(),
            passed: Passed::default(),
            unix_mode: None,
            memory_bytes: 64 << 20,
            evicts: true,
            threads: 1,
            restores: false,
            limits: Limits::default(),
            options: Options::default(),
            users: None,
            tls: None,
            origin: None,
        }
    }
}

impl Settings {
    /// Whether RESP is spoken anywhere.
    pub(crate) fn speaks_resp(&self) -> bool {
        !self.resp.is_empty() || self.passed.of(Purpose::Resp).next().is_some()
    }
}

/// Bounds, each with what happens beyond it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once, of all threads. One more is answered `ERROR Too many open connections`
    /// and closed.
    pub connections: usize,
    /// Bytes of an item with its key; more is `SERVER_ERROR object too large for cache`. What does not
    /// fit into a segment is refused as well, so [`ITEM_BYTES_MAX`] is the most.
    pub item_bytes: usize,
    /// Seconds without a request, after which a connection is closed; 0: never.
    pub idle_seconds: u64,
    /// Seconds that a request may take to arrive, after which its connection is closed; 0: any time.
    pub request_seconds: u64,
    /// Requests of one connection that are served before the next has its turn; 0: as many as have arrived
    /// and whose replies fit.
    pub turn_requests: usize,
    /// Connections that wait to be accepted, by listening socket.
    pub backlog: i32,
    /// Requests that wait for a lease or a fetch at once, of all connections; one more is answered like one whose
    /// time is over.
    pub waiters: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            item_bytes: ITEM_BYTES_MAX,
            idle_seconds: 0,
            request_seconds: 0,
            turn_requests: 0,
            backlog: 1024,
            waiters: 1 << 16,
        }
    }
}

/// How the memory is parted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) store_bytes: usize,
    pub(crate) segment_bytes: usize,
    /// For requests that have arrived in part, and replies that wait or are not sent, of all connections.
    pub(crate) buffer_bytes: usize,
    /// For sessions of TLS, of all connections.
    pub(crate) session_bytes: usize,
    /// For what origins have not, or not for all.
    pub(crate) memo_bytes: usize,
    /// For values that are being fetched.
    pub(crate) fetched_bytes: usize,
}

/// Segments that there are at least: of fewer, too large a part would be open and half empty.
const SEGMENTS_MIN: usize = 12;

impl Shares {
    pub(crate) fn of(settings: &Settings) -> Shares {
        let memory = settings.memory_bytes;
        let segment = (memory / 8 * 7 / SEGMENTS_MIN).clamp(64 << 10, ITEM_BYTES_MAX);
        let segment_bytes = 1 << segment.ilog2();
        // The largest request that may come must have room, and a reply beside it; and what is fetched.
        let least = if settings.origin.is_some() { 4 } else { 2 };
        let buffer_bytes = (memory / 16).clamp(least * segment_bytes, 64 << 20);
        let (memo_bytes, fetched_bytes) = match settings.origin {
            Some(_) => (buffer_bytes / 8, buffer_bytes / 4),
            None => (0, 0),
        };
        // Where that is too little for all of them, connections that hold the most are closed.
        let session_bytes = match settings.tls {
            Some(_) => settings.limits.connections.saturating_mul(SESSION_BYTES).min(memory / 4),
            None => 0,
        };
        let store_bytes = memory - buffer_bytes - session_bytes;
        let buffer_bytes = buffer_bytes - memo_bytes - fetched_bytes;
        Shares {
            store_bytes,
            segment_bytes,
            buffer_bytes,
            session_bytes,
            memo_bytes,
            fetched_bytes,
        }
    }
}
