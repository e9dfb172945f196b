//! What each thread counts, and the sum.
//!
//! A counter has one writer, its thread: adding is a load and a store, no locked instruction. Who asks
//! for the sum reads the counters of all threads.

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
    /// Refused because of their size; for lack of memory.
    too_large, no_memory,
    auths, auth_errors,
    /// Requests that the user may not make.
    denied,
    /// Connections accepted; refused for their number.
    connections, rejected,
    /// Handshakes of TLS that were made; that failed, and what came later and was not TLS.
    handshakes, tls_errors,
    /// Connections closed: without a request; with half a request; for the bytes they held.
    idle_kicks, slow_kicks, full_kicks,
    /// Requests that waited; whose time was over; that did not because too many do.
    waits, late_waits, refused_waits,
    /// Fetches that were not begun because too many are under way.
    refused_fetches,
    /// Requests of HTTP; answered by what is stored, of those by what is stale; that joined another's fetch; not understood.
    http_requests, http_hits, http_stale, http_collapsed, http_refused,
    bytes_read, bytes_written,
    /// Wake-ups that left a connection to the next one.
    yields,
}

/// A number that one thread writes.
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
