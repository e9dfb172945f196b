//! What a server is told when it starts.

use std::path::PathBuf;

use frazil::Policy;

use crate::http::HttpOrigin;
use crate::listen::Address;
use crate::memcached::Options;
use crate::origin::Origin;
use crate::passed::{Passed, Purpose};
use crate::store::StoreKind;
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
    /// Where HTTP is served from a cache before [`Settings::http_origin`].
    pub http: Vec<Address>,
    /// Where `/health` and `/metrics` are served by HTTP, to anybody who can connect.
    pub admin: Vec<Address>,
    /// Sockets that listen already, beside these addresses.
    pub passed: Passed,
    /// Permissions of Unix sockets that are made, as bits of `chmod`; `None`: those of the process's umask.
    pub unix_mode: Option<u32>,
    /// Bytes for items, index and the buffers of connections together, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// Where items are kept.
    pub store: StoreKind,
    /// What the store of objects and the cache of HTTP evict by.
    pub policy: Policy,
    /// Whether entries are evicted to make room; without, a value that finds none is refused.
    pub evicts: bool,
    /// Threads that serve, at least one.
    pub threads: usize,
    /// Whether the process does nothing but serve. Then its resident memory is kept near [`Settings::memory_bytes`], and
    /// glibc's allocator told how to hold it.
    pub owns_process: bool,
    /// Whether [`Handle::restore`](crate::Handle::restore) is called once: until then keys that clients write are noted.
    pub restores: bool,
    /// The server's limits.
    pub limits: Limits,
    /// Limits for which memcached has a flag.
    pub options: Options,
    /// A file of users, one of which each connection must be but those of HTTP; `None`: who connects may do everything.
    pub users: Option<PathBuf>,
    /// What makes it speak TLS at its TCP addresses, and only that.
    pub tls: Option<TlsFiles>,
    /// Where look-ups fetch what is missing.
    pub origin: Option<Origin>,
    /// What HTTP is a cache of; without one its addresses answer 502.
    pub http_origin: Option<HttpOrigin>,
    /// Who sends this as a bearer token may drop URLs by `PURGE`; nobody may without.
    pub purge_token: Option<Vec<u8>>,
}

impl Default for Settings {
    /// One thread, 64 MiB, no address.
    fn default() -> Settings {
        Settings {
            memcached: Vec::new(),
            resp: Vec::new(),
            http: Vec::new(),
            admin: Vec::new(),
            passed: Passed::default(),
            unix_mode: None,
            memory_bytes: 64 << 20,
            store: StoreKind::default(),
            policy: Policy::default(),
            evicts: true,
            threads: 1,
            owns_process: false,
            restores: false,
            limits: Limits::default(),
            options: Options::default(),
            users: None,
            tls: None,
            origin: None,
            http_origin: None,
            purge_token: None,
        }
    }
}

impl Settings {
    /// Whether memcached's protocol is spoken anywhere.
    pub(crate) fn speaks_memcached(&self) -> bool {
        !self.memcached.is_empty() || self.passed.has(Purpose::Memcached)
    }

    /// Whether RESP is spoken anywhere.
    pub(crate) fn speaks_resp(&self) -> bool {
        !self.resp.is_empty() || self.passed.has(Purpose::Resp)
    }

    /// Whether HTTP is spoken anywhere.
    pub(crate) fn speaks_http(&self) -> bool {
        !self.http.is_empty() || self.passed.has(Purpose::Http)
    }
}

/// Bounds, each with what happens beyond it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once, of all threads. One more is answered `ERROR Too many open connections`
    /// and closed.
    pub connections: usize,
    /// Bytes of an item with its key; more is `SERVER_ERROR object too large for cache`. `None`: what fits into a segment
    /// where segments are as many as good eviction wants. Segments have room for what is said here, where the memory has
    /// room for twelve of them; [`ITEM_BYTES_MAX`] is the most.
    pub item_bytes: Option<usize>,
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
            item_bytes: None,
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
    /// The largest item.
    pub(crate) item_bytes: usize,
    /// For requests that have arrived in part, and replies that wait or are not sent, of all connections.
    pub(crate) buffer_bytes: usize,
    /// For what origins have not, or not for all.
    pub(crate) memo_bytes: usize,
    /// For values that are being fetched.
    pub(crate) fetched_bytes: usize,
    /// For the cache of HTTP.
    pub(crate) http_bytes: usize,
    /// For its bodies that arrive.
    pub(crate) arriving_bytes: usize,
    /// For keys that clients have copies of.
    pub(crate) tracked_bytes: usize,
    /// For sessions of TLS, of all connections.
    pub(crate) session_bytes: usize,
}

/// The fewest segments: with fewer, too large a part would be open and half empty.
const SEGMENTS_MIN: usize = 12;
/// Segments that there are unless items want larger ones: the fewer, the coarser is eviction.
/// Look-aside on a million requests of a trace of Twitter's (cluster 52) with 16 MiB, 12 segments miss 16.6 %, 24 15.5 %, 50
/// 15.4 %, 100 15.3 %.
const SEGMENTS: usize = 50;
/// The same where memory is small, at the price of smaller items.
const SEGMENTS_SMALL: usize = 100;
const SMALL_BYTES: usize = 32 << 20;
/// What a thread keeps at most, and a moment's more; all of them have a part of the memory at most.
const OF_THREAD_BYTES: usize = 3 << 20;
const THREADS_PART: usize = 32;
/// Of an item in its segment.
const HEAD_BYTES_MAX: usize = 12;
/// What a store without clients takes.
const STORE_BYTES_MIN: usize = 1280 << 10;
/// What the cache of HTTP has at least beside sessions of TLS.
const HTTP_BYTES_MIN: usize = 512 << 10;

/// Bytes for sessions of TLS. Where that is too little for all of them, connections that hold the most are closed.
fn session_bytes(settings: &Settings, buffer_bytes: usize) -> usize {
    let memory = settings.memory_bytes;
    let of_http = if settings.speaks_http() { HTTP_BYTES_MIN } else { 0 };
    let spare = (memory - buffer_bytes).saturating_sub(STORE_BYTES_MIN + of_http);
    match settings.tls {
        Some(_) => {
            let wanted = settings.limits.connections.saturating_mul(SESSION_BYTES);
            wanted.min(memory / 4).min(spare)
        }
        None => 0,
    }
}

/// Bytes for what threads keep to read and to reply. Where memory is small it is beside it.
fn thread_bytes(settings: &Settings) -> usize {
    match settings.memory_bytes {
        ..SMALL_BYTES => 0,
        memory => settings.threads.saturating_mul(OF_THREAD_BYTES).min(memory / THREADS_PART),
    }
}

impl Shares {
    pub(crate) fn of(settings: &Settings) -> Shares {
        let memory = settings.memory_bytes;
        let (has_http, has_resp) = (settings.speaks_http(), settings.speaks_resp());
        let has_keys = settings.speaks_memcached() || has_resp;
        // Keys and HTTP have a half each, and what has no clients as little as it may.
        let of_keys = match (has_http, has_keys) {
            (true, true) => memory / 2,
            (true, false) => MEMORY_BYTES_MIN,
            (false, _) => memory,
        };
        let part = |parts: usize| -> usize {
            let bytes = (of_keys / 8 * 7 / parts).clamp(64 << 10, ITEM_BYTES_MAX);
            1 << bytes.ilog2()
        };
        let largest = part(SEGMENTS_MIN);
        let fine = part(if of_keys < SMALL_BYTES { SEGMENTS_SMALL } else { SEGMENTS });
        let limit = settings.limits.item_bytes;
        let wanted = limit.map_or(0, |bytes| bytes.saturating_add(HEAD_BYTES_MAX));
        let segment_bytes = wanted.min(largest).next_power_of_two().clamp(fine, largest);
        let room = if settings.store == StoreKind::Segment { segment_bytes } else { largest };
        let item_bytes = limit.unwrap_or(usize::MAX).min(room - HEAD_BYTES_MAX);
        // The largest request that may come must have room, and a reply beside it; and what is fetched or tracked.
        let least = match (settings.origin.is_some(), has_resp) {
            (false, false) => 2,
            (false, true) => 3,
            (true, false) => 4,
            (true, true) => 6,
        };
        let buffer_bytes = (memory / 16).clamp(least * room, 64 << 20);
        let (memo_bytes, fetched_bytes) = match settings.origin {
            Some(_) => (buffer_bytes / 8, buffer_bytes / 4),
            None => (0, 0),
        };
        let tracked_bytes = if has_resp { buffer_bytes / 4 } else { 0 };
        let session_bytes = session_bytes(settings, buffer_bytes);
        let of_both = memory - buffer_bytes - session_bytes - thread_bytes(settings);
        let store_bytes = match (has_http, has_keys) {
            (true, true) => (of_both / 2).max(STORE_BYTES_MIN),
            (true, false) => STORE_BYTES_MIN,
            (false, _) => of_both,
        };
        let of_http = of_both - store_bytes;
        let arriving_bytes = of_http / 8;
        let http_bytes = of_http - arriving_bytes;
        let buffer_bytes = buffer_bytes - memo_bytes - fetched_bytes - tracked_bytes;
        Shares {
            store_bytes,
            segment_bytes,
            item_bytes,
            buffer_bytes,
            memo_bytes,
            fetched_bytes,
            tracked_bytes,
            session_bytes,
            http_bytes,
            arriving_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_the_memory_and_each_is_enough() {
        let any = || vec![Address::Unix("any".into())];
        let files = TlsFiles { certificate: "any".into(), key: "any".into(), client_ca: None };
        for memory_bytes in [MEMORY_BYTES_MIN, 3 << 20, 20 << 20, 64 << 20, 5 << 30] {
            let protocols = [(any(), any()), (any(), Vec::new()), (Vec::new(), any())];
            for (at, (memcached, http)) in protocols.into_iter().cycle().take(6).enumerate() {
                let has_http = !http.is_empty();
                let tls = (at < 3).then(|| files.clone());
                let has_tls = tls.is_some();
                let of = Settings { memcached, http, memory_bytes, tls, ..Settings::default() };
                let shares = Shares::of(&of);
                let keys = shares.store_bytes + shares.buffer_bytes + shares.session_bytes;
                let all = keys + shares.http_bytes + shares.arriving_bytes + thread_bytes(&of);
                assert_eq!(all, memory_bytes);
                assert_eq!(thread_bytes(&of) > 0, memory_bytes >= SMALL_BYTES);
                assert_eq!(shares.session_bytes > 0, has_tls, "{memory_bytes}");
                assert!(shares.store_bytes >= STORE_BYTES_MIN);
                assert_eq!(shares.http_bytes > 0, has_http);
                assert!(!has_http || shares.http_bytes > 400 << 10, "{memory_bytes}");
            }
        }
    }
}
