//! The core's state of each thread, beside that of reclamation.

use std::sync::OnceLock;

use crate::core::order::locked::Notes;
use crate::core::steps::Panics;
use crate::smr::stripe::{self, Cursor, add};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Per-thread state of the core and of the features `F`. All threads may read it.
#[derive(Debug, Default)]

pub(crate) struct Local<F = ()> {
    pub(crate) reads: Reads,
    pub(crate) counts: Counts,
    pub(crate) features: F,
    /// Made by the first operation that needs it. Its thread's alone.
    pub(crate) panics: OnceLock<Box<Panics>>,
}

/// Requests of a thread, written by it alone.
#[derive(Debug, Default)]

pub(crate) struct Reads {
    pub(crate) hits: AtomicU64,
    /// Hits that a hook answered or claimed; not among the others.
    pub(crate) hook_hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// How often a request asked whether to bypass the cache, and how often it did.
    pub(crate) asks: AtomicU64,
    pub(crate) bypassed: AtomicU64,
    /// How often this thread has waited for a policy's lock.
    pub(crate) waits: AtomicU64,
    /// Insertions of keys that this thread had not just missed.
    pub(crate) sets: AtomicU64,
    /// The hash of the key that this thread missed last, as [`Reads::missing`] returns it, or 0.
    pub(crate) missed: AtomicU64,
    /// Number of its requests reported to the clock of a locked policy, and the clock's time then,
    /// or at this thread's last reading.
    pub(crate) told: AtomicU64,
    pub(crate) clock: AtomicU64,
    /// Generator state that picks the hits that concern `lru-prob`, and whether it is seeded.
    pub(crate) chance: AtomicU64,
    pub(crate) drawing: AtomicU64,
    /// Writes of hits to lines that every thread writes, as in [`stripe::Traffic`].
    pub(crate) retries: AtomicU64,
    pub(crate) shared_writes: AtomicU64,
    /// Hits not yet reported to a locked policy.
    pub(crate) notes: Notes,
}

impl Reads {
    /// Requests of this thread: gets, and insertions that follow no miss.
    #[inline(always)]
    pub(crate) fn requests(&self) -> u64 {
        self.gets().wrapping_add(self.sets.load(Relaxed))
    }

    /// Gets of this thread.
    #[inline(always)]
    pub(crate) fn gets(&self) -> u64 {
        self.hits
            .load(Relaxed)
            .wrapping_add(self.hook_hits.load(Relaxed))
            .wrapping_add(self.misses.load(Relaxed))
    }

    /// The time of a locked policy, as far as this thread knows it.
    pub(crate) fn now(&self) -> u64 {
        let untold = self.requests().wrapping_sub(self.told.load(Relaxed));
        self.clock.load(Relaxed).wrapping_add(untold)
    }

    /// A hash other than 0, which means that nothing was missed: hashers may return 0, as for the
    /// key 0 if a hash is the key.
    #[inline(always)]
    pub(crate) fn missing(hash: u64) -> u64 {
        hash.max(1)
    }

    /// A get has missed.
    #[inline(always)]
    pub(crate) fn miss(&self, hash: u64) {
        add(&self.misses, 1);
        self.missed.store(Self::missing(hash), Relaxed);
    }

    /// A key is about to be inserted: a request, unless this thread has just missed it. True if it
    /// has.
    #[inline(always)]
    pub(crate) fn arrive(&self, hash: u64) -> bool {
        let follows_miss = self.missed.load(Relaxed) == Self::missing(hash);
        if follows_miss {
            self.missed.store(0, Relaxed);
        } else {
            add(&self.sets, 1);
        }
        follows_miss
    }
}

/// Counts of a stripe's writers; written by the holder of its buffers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) insertions: AtomicU64,
    pub(crate) replacements: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) removals: AtomicU64,
    pub(crate) lapses: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) shared_writes: AtomicU64,
    /// Weight admitted minus weight removed; wraps.
    pub(crate) weight: AtomicU64,
}

impl Counts {
    /// Number of operations that may leave something in the buffers; wraps.
    pub(crate) fn operations(&self) -> u32 {
        let Counts { insertions, replacements, evictions, removals, lapses, refusals, .. } = self;
        [insertions, replacements, evictions, removals, lapses, refusals]
            .into_iter()
            .fold(0u64, |sum, count| sum.wrapping_add(count.load(Relaxed))) as u32
    }
}

/// The core's data beside a stripe's buffers.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    /// Entries that this stripe may admit without evicting.
    pub(crate) entry_credit: u64,
    /// Weight that it may admit.
    pub(crate) weight_credit: u64,
    /// This stripe's ends of the policy's queues, and of the bottom queue.
    pub(crate) ends: [Ends; 3],
    /// The policy's counts of this stripe that are not published yet.
    pub(crate) unreported: [u64; 2],
}

/// This stripe's part of a queue: the oldest segment, taken, and the newest, not full yet.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) front: Cursor,
    pub(crate) back: Cursor,
}

pub(crate) type Buffers = stripe::Buffers<Owned>;

pub(crate) type Stripe<F> = stripe::Stripe<Local<F>, Owned>;
pub(crate) type Stripes<F> = stripe::Stripes<Local<F>, Owned>;
pub(crate) type Held<'s, F> = stripe::Held<'s, Local<F>, Owned>;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_insertion_follows_a_miss_whatever_the_hash_is() {
        for hash in [0, 1, u64::MAX] {
            let reads = Reads::default();
            assert!(!reads.arrive(hash), "{hash} was not missed");
            reads.miss(hash);
            assert!(reads.arrive(hash), "{hash} was missed");
            assert!(!reads.arrive(hash), "{hash} was not missed again");
            assert_eq!(reads.requests(), 3, "{hash}");
        }
    }
}
