//! Settings of a server.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use frazil::Policy;

use crate::cluster::ClusterMap;
use crate::http::HttpOrigin;
use crate::listen::Address;
use crate::memcached::Options;
use crate::origin::Origin;
use crate::passed::{Passed, Purpose};
use crate::server::{self, StartError};
use crate::store::StoreKind;
use crate::tls::{SESSION_BYTES, TlsFiles};

/// Smallest capacity of a server.
pub const MEMORY_BYTES_MIN: usize = 2 << 20;
/// Largest item, with its key and its head in a segment.
pub const ITEM_BYTES_MAX: usize = 1 << 20;

/// Possible values of [`Limits::line_bytes`].
pub const LINE_BYTES: RangeInclusive<usize> = 1024..=64 << 10;
/// Possible values of [`Limits::key_bytes`].
pub const KEY_BYTES: RangeInclusive<usize> = 16..=frazil_segment::KEY_BYTES_MAX;
/// Possible values of [`Limits::arguments`].
pub const ARGUMENTS: RangeInclusive<usize> = 16..=1 << 20;
/// Possible values of [`Limits::reply_bytes`].
pub const REPLY_BYTES: RangeInclusive<usize> = 4096..=1 << 20;

/// Settings of a [`Server`](crate::Server).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses for memcached's protocol.
    pub memcached: Vec<Address>,
    /// Addresses for RESP, the protocol of Redis.
    pub resp: Vec<Address>,
    /// Addresses for HTTP, served from a cache before [`Settings::http_origin`].
    pub http: Vec<Address>,
    /// Addresses for `/health` and `/metrics` by HTTP, open to everybody who can connect.
    pub admin: Vec<Address>,
    /// Sockets that listen already, served beside these addresses.
    pub passed: Passed,
    /// Permissions of new Unix sockets, as bits of `chmod`; `None`: by the process's umask.
    pub unix_mode: Option<u32>,
    /// Bytes for items, index and the buffers of connections together, at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: usize,
    /// The store of items.
    pub store: StoreKind,
    /// The eviction policy of the store of objects and of the cache for HTTP.
    pub policy: Policy,
    /// Whether entries are evicted for new ones. Without eviction a value is refused when the store is full.
    pub evicts: bool,
    /// Serving threads, at least one.
    pub threads: usize,
    /// Whether the process only serves. Then its resident memory is kept near [`Settings::memory_bytes`], and glibc's
    /// allocator is configured for that.
    pub owns_process: bool,
    /// The snapshot of the last run. [`Server::start`](crate::Server::start) renames it to [`unread`](crate::unread)
    /// before it serves, so no later start reads what clients have changed since. Then
    /// [`Handle::restore`](crate::Handle::restore) must be called once; until then the keys that clients write are noted.
    pub snapshot: Option<PathBuf>,
    /// The server's limits.
    pub limits: Limits,
    /// Limits and options that memcached has flags for.
    pub options: Options,
    /// A file of users. Every connection other than HTTP must log in; `None`: everybody who connects has all rights.
    pub users: Option<PathBuf>,
    /// Certificates for TLS. With them its TCP addresses speak TLS only.
    pub tls: Option<TlsFiles>,
    /// The map of a cluster of RESP servers. `None`: this server serves all keys.
    pub cluster: Option<ClusterMap>,
    /// The origin of missing keys.
    pub origin: Option<Origin>,
    /// The origin of HTTP. Without one the HTTP addresses answer 502.
    pub http_origin: Option<HttpOrigin>,
    /// The bearer token of `PURGE`, which drops URLs. Without one nobody may.
    pub purge_token: Option<Vec<u8>>,
    /// Is called with what operators should know, seldom, by the threads that serve.
    pub note: fn(&str),
}

impl Default for Settings {
    /// One thread, 64 MiB, without addresses.
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
            snapshot: None,
            limits: Limits::default(),
            options: Options::default(),
            users: None,
            tls: None,
            cluster: None,
            origin: None,
            http_origin: None,
            purge_token: None,
            note: |_| (),
        }
    }
}

impl Settings {
    /// Bytes of the largest item with its key, for settings that [`Settings::check`] accepts.
    pub fn item_bytes_max(&self) -> usize {
        Shares::of(self).item_bytes
    }

    /// Checks the memory, the threads, the limits and those of open files, and that a snapshot can be written, as
    /// [`Server::start`](crate::Server::start) does first.
    ///
    /// # Errors
    ///
    /// One of them is not enough, or not possible.
    pub fn check(&self) -> Result<(), StartError> {
        server::check(self)
    }

    /// Has fewer fetches, and unless `keeps_connections` fewer connections, in proportion, so that the process needs no
    /// more open files than this.
    #[must_use]
    pub fn with_files(mut self, most: u64, keeps_connections: bool) -> Settings {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let over = usize::try_from(server::files_wanted(&self)).unwrap_or(usize::MAX);
        let over = over.saturating_sub(most);
        let connections = Some(&mut self.limits.connections).filter(|_| !keeps_connections);
        let fetches = self.origin.as_mut().map(|origin| &mut origin.fetches);
        let fetches =
            fetches.into_iter().chain(self.http_origin.as_mut().map(|it| &mut it.fetches));
        let mut counts: Vec<&mut usize> = connections.into_iter().chain(fetches).collect();
        let all: usize = counts.iter().map(|count| **count).sum();
        for count in &mut counts {
            // Rounded up, so that together they are not too many.
            let less = (count.saturating_mul(over)).div_ceil(all.max(1));
            **count = count.saturating_sub(less).max(1);
        }
        self
    }

    /// Whether it serves memcached's protocol.
    pub(crate) fn speaks_memcached(&self) -> bool {
        !self.memcached.is_empty() || self.passed.has(Purpose::Memcached)
    }

    /// Whether it serves RESP.
    pub(crate) fn speaks_resp(&self) -> bool {
        !self.resp.is_empty() || self.passed.has(Purpose::Resp)
    }

    /// Whether it serves HTTP.
    pub(crate) fn speaks_http(&self) -> bool {
        !self.http.is_empty() || self.passed.has(Purpose::Http)
    }
}

/// Limits, each with the effect of exceeding it.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections of all threads. A further one is answered `ERROR Too many open connections` and closed.
    pub connections: usize,
    /// Bytes of an item with its key. A larger one is refused with `SERVER_ERROR object too large for cache`. `None`:
    /// what fits into a segment. The value given is possible if the capacity holds twelve such items. The maximum is
    /// [`ITEM_BYTES_MAX`].
    pub item_bytes: Option<usize>,
    /// Bytes of a line without its end, in [`LINE_BYTES`]. A longer one closes the connection, except for memcached's `get`
    /// and `gets`. `None`: 2 KiB in memcached's protocol, 64 KiB in RESP.
    pub line_bytes: Option<usize>,
    /// Bytes of a key, in [`KEY_BYTES`], and at most 250 in memcached's protocol. A longer one is refused.
    pub key_bytes: usize,
    /// Arguments of a request of RESP with its command, in [`ARGUMENTS`]. More close the connection. A meta request of
    /// memcached has 19 at most.
    pub arguments: usize,
    /// Bytes of unread replies of a connection, besides one value, in [`REPLY_BYTES`]. Its next requests are served when they
    /// are sent.
    pub reply_bytes: usize,
    /// Seconds without a request after which a connection of memcached's protocol or RESP is closed; 0: never.
    pub idle_seconds: u64,
    /// The same for connections of HTTP.
    pub http_idle_seconds: u64,
    /// Seconds for a request to arrive, after which its connection is closed; 0: no limit.
    pub request_seconds: u64,
    /// Requests of one connection that are served before the next has its turn; 0: all that have arrived and whose
    /// replies fit.
    pub turn_requests: usize,
    /// Connections in the queue of each listening socket.
    pub backlog: i32,
    /// Requests that wait for a lease or a fetch, over all connections. A further one is answered as after its
    /// timeout.
    pub waiters: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            item_bytes: None,
            line_bytes: None,
            key_bytes: *KEY_BYTES.end(),
            arguments: *ARGUMENTS.end(),
            reply_bytes: 256 << 10,
            idle_seconds: 0,
            http_idle_seconds: 0,
            request_seconds: 0,
            turn_requests: 0,
            backlog: 1024,
            waiters: 1 << 16,
        }
    }
}

impl Limits {
    /// The first limit with a value that is not possible: its name, and the possible values.
    pub(crate) fn impossible(&self) -> Option<(&'static str, RangeInclusive<usize>)> {
        let line = self.line_bytes.unwrap_or(*LINE_BYTES.start());
        [
            ("bytes of a line", line, LINE_BYTES),
            ("bytes of a key", self.key_bytes, KEY_BYTES),
            ("arguments", self.arguments, ARGUMENTS),
            ("bytes of unread replies", self.reply_bytes, REPLY_BYTES),
        ]
        .into_iter()
        .find(|(_, value, possible)| !possible.contains(value))
        .map(|(name, _, possible)| (name, possible))
    }
}

/// The division of the capacity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) store_bytes: usize,
    pub(crate) segment_bytes: usize,
    /// Largest item.
    pub(crate) item_bytes: usize,
    /// For partial requests, and for replies that wait or are unsent, of all connections.
    pub(crate) buffer_bytes: usize,
    /// For remembered absent and uncacheable values.
    pub(crate) memo_bytes: usize,
    /// For values in flight.
    pub(crate) fetched_bytes: usize,
    /// For the cache for HTTP.
    pub(crate) http_bytes: usize,
    /// For arriving bodies of HTTP.
    pub(crate) arriving_bytes: usize,
    /// For tracked keys.
    pub(crate) tracked_bytes: usize,
    /// For TLS sessions of all connections.
    pub(crate) session_bytes: usize,
}

/// Smallest number of the largest items that the memory of keys holds.
const ITEMS_MIN: usize = 12;
/// Number of segments. Fewer make eviction coarser. Miss ratios of look-aside on a
/// million requests of a trace of Twitter's (cluster 52) with 16 MiB: 16.6 % with 12 segments, 15.5 % with 24, 15.4 %
/// with 50, 15.3 % with 100.
const SEGMENTS: usize = 50;
/// The same for a small capacity.
const SEGMENTS_SMALL: usize = 100;
const SMALL_BYTES: usize = 32 << 20;
/// Most memory that a thread keeps, and a moment's more. All threads together have at most a part of the memory.
const OF_THREAD_BYTES: usize = 3 << 20;
const THREADS_PART: usize = 32;
/// Header of an item in its segment.
const HEAD_BYTES_MAX: usize = 12;
/// Bytes of a store without clients.
const STORE_BYTES_MIN: usize = 1280 << 10;
/// Smallest size of the cache for HTTP, without TLS sessions.
const HTTP_BYTES_MIN: usize = 512 << 10;

/// Bytes for TLS sessions. If they exceed this, the connections that hold most are closed.
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
        // Keys and HTTP have a half each. A store without clients has its minimum.
        let of_keys = match (has_http, has_keys) {
            (true, true) => memory / 2,
            (true, false) => MEMORY_BYTES_MIN,
            (false, _) => memory,
        };
        let part = |parts: usize| -> usize {
            let bytes = (of_keys / 8 * 7 / parts).clamp(64 << 10, ITEM_BYTES_MAX);
            1 << bytes.ilog2()
        };
        let largest = part(ITEMS_MIN);
        let segment_bytes = part(if of_keys < SMALL_BYTES { SEGMENTS_SMALL } else { SEGMENTS });
        let limit = settings.limits.item_bytes;
        let wanted = limit.map_or(0, |bytes| bytes.saturating_add(HEAD_BYTES_MAX));
        let room = match settings.store {
            StoreKind::Segment => {
                wanted.min(largest).next_power_of_two().clamp(segment_bytes, largest)
            }
            StoreKind::Objects => largest,
        };
        let item_bytes = limit.unwrap_or(usize::MAX).min(room - HEAD_BYTES_MAX);
        // There must be memory for the largest request beside a reply, and for fetched values or tracked keys.
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
