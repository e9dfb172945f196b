//! Counts by thread, and their sum.
//!
//! A counter has one writer, its thread: adding is a load and a store, without a locked instruction. A reader sums
//! the counters of all threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one thread, on cache lines of their own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// The sum of all threads.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Counts {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl Counters {
            pub(crate) fn add_to(&self, counts: &mut Counts) {
                $(counts.$name += self.$name.get();)*
            }
        }
    };
}

counters! {
    /// Keys looked up.
    gets, get_hits, get_misses,
    /// Requests that store.
    sets,
    flushes,
    /// Requests that change lifetimes.
    touches, touch_hits, touch_misses,
    metas,
    delete_hits, delete_misses,
    incr_hits, incr_misses, decr_hits, decr_misses,
    cas_hits, cas_misses, cas_badval,
    /// Requests refused for the size of a value; for lack of memory.
    too_large, no_memory,
    /// Refused for a limit: lines, keys, requests with too many arguments, requests, transactions, watched keys.
    long_lines, long_keys, many_arguments, large_requests, large_transactions, many_watched,
    /// Turns that ended before the input did: for the number of requests; for the bytes of their replies.
    full_pipelines, full_replies,
    auths, auth_errors,
    /// Requests refused because the user lacks the right.
    denied,
    /// Connections accepted; refused because too many are open.
    connections, rejected,
    /// Connections closed because they speak memcached's binary protocol.
    binary,
    /// Handshakes of TLS that succeeded; that failed, and errors after one.
    handshakes, tls_errors,
    /// Connections closed for idleness; for a slow request or reader; for the bytes they held.
    idle_kicks, slow_kicks, full_kicks,
    /// Requests that waited; that reached their timeout; that were refused because too many wait.
    waits, late_waits, refused_waits,
    /// Fetches not begun because too many are in flight.
    refused_fetches,
    /// Requests of HTTP; hits; stale hits among them; misses that joined another's fetch; malformed requests.
    http_requests, http_hits, http_stale, http_collapsed, http_refused,
    bytes_read, bytes_written,
    /// Wake-ups that postponed a connection to the next one.
    yields,
}

/// A number with one writer, its thread.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
