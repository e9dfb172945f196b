//! Invalidation of all entries at once, by a number for each entry.
//!
//! The *generation* counts invalidations of the whole cache. An insertion reads the generation
//! before it publishes its entry: the entry is *born* in that generation, and stale in later ones.
//!
//! ```text
//! insertion                          invalidation              look-up
//!   born[slot] = generation            generation += 1           the word that leads to the slot
//!   publish the slot, queue it         heavy fence               born[slot] = generation?
//!   light fence                        give all used slots to writers
//!   born[slot] = generation?           close the hints
//! ```
//!
//! A look-up that begins after the invalidation has returned reads the new generation, or a later
//! one. An insertion that ended before the invalidation had read the old one. An insertion that
//! overlaps with the invalidation may publish a stale entry, as if it had ended before. A stale
//! entry stays stale: generations only grow, and a slot gets another birth only from the thread
//! that owns it.
//!
//! A look-up compares births only where it reads the deadline. In a cache that was never
//! invalidated no hit reads a birth. After the first invalidation a hint that the deadline is far
//! is not used any more, because it does not contain the generation. Births take 4 bytes a slot
//! from then on.
//!
//! Stale entries keep their rank in the policy, which may prefer them to all new entries: after
//! many requests the least frequently used entries are the newest. So each insertion checks some
//! slots, until all slots that were in use at the invalidation are checked, and removes their stale
//! entries.

use std::hash::{BuildHasher, Hash};
use std::ops::Range;
use std::sync::OnceLock;

use super::deadlines::Deadlines;
use crate::chunks::Chunks;
use crate::core::slab::{DEAD, OCCUPIED};
use crate::core::steps::Steps;
use crate::features::Featured;
use crate::smr::fence;
use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Slots that one insertion checks. Few, because it takes the lock for each.
const SHARE: u32 = 16;

/// Births by slot, and the generation.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// 0 before the first invalidation.
    current: AtomicU32,
    /// The last generation for which all older entries have been searched and removed; and, in the
    /// lower half, the number of late entries before it.
    purged: AtomicU64,
    /// Entries that were stale before they were queued.
    late: AtomicU32,
    born: OnceLock<Chunks<AtomicU32>>,
    /// The slots that writers have still to check after the last invalidation: the next, and the
    /// end. Written by exchanges only, so that an acquire of one includes those before.
    next: AtomicU32,
    end: AtomicU32,
}

impl Generations {
    /// Begins the next generation, and then reads which slots have been used.
    pub(crate) fn advance(&self, used: impl FnOnce() -> u32) {
        self.born.get_or_init(Chunks::default);
        // Release: births are allocated before an entry can be stale. After 2^32 invalidations an
        // entry of the first generation would count as new, if it were still resident.
        self.current.fetch_add(1, Release);
        // Either a new slot is among those used, or its entry belongs to this generation: partner
        // is the fence of `Reclaim::refill`. And either the thread that checks a slot finds it
        // queued, or the thread that queues it finds it stale: partner is the light fence of
        // `queued`.
        fence::heavy();
        // Two simultaneous calls both wait until their own is processed.
        self.end.fetch_max(used(), Relaxed);
        // Release: the entries queued before the fence; partner is the Acquire of `share`.
        self.next.swap(1, Release);
    }

    /// Whether writers have slots to check.
    #[inline(always)]
    pub(crate) fn has_share(&self) -> bool {
        self.next.load(Relaxed) < self.end.load(Relaxed)
    }

    /// The slots that one writer has to check.
    pub(crate) fn share(&self) -> Range<u32> {
        // Acquire: the generation before it, and the stores that its fence made visible; partners
        // are the Releases of `advance` and `queued`. The thread that begins the next one covers
        // them all again.
        let first = self.next.fetch_add(SHARE, Acquire);
        let end = self.end.load(Relaxed);
        first.min(end)..first.saturating_add(SHARE).min(end)
    }

    /// Notes the birth of a slot that the caller owns.
    #[inline(always)]
    pub(crate) fn begin(&self, slot: u32) {
        if let Some(born) = self.born.get() {
            // Ordered by the publication of the slot.
            born.get_or_make(slot).store(self.current.load(Relaxed), Relaxed);
        }
    }

    /// An entry was queued: if it is stale already, all slots are checked once more, because an
    /// earlier check found its slot empty.
    #[inline(always)]
    pub(crate) fn queued(&self, slot: u32) {
        // Partners: the heavy fences of `advance` and `purge_stale`.
        fence::light();
        if self.is_stale(slot) {
            self.late.fetch_add(1, Relaxed);
            // Release: the slot's place in its queue; partner is the Acquire of `share`.
            self.next.swap(1, Release);
        }
    }

    /// The generation, and the number of late entries so far.
    fn state(&self) -> u64 {
        u64::from(self.current.load(Relaxed)) << 32 | u64::from(self.late.load(Relaxed))
    }

    /// Whether the entry in a slot, which the caller protects or has taken, belongs to an ended
    /// generation.
    #[inline]
    pub(crate) fn is_stale(&self, slot: u32) -> bool {
        // A slot without a generation here was filled before the first invalidation.
        let birth = |born: &Chunks<AtomicU32>| born.get(slot).map_or(0, |born| born.load(Relaxed));
        self.born.get().is_some_and(|born| birth(born) != self.current.load(Relaxed))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.born.get().map_or(0, Chunks::heap_bytes)
    }
}

impl Deadlines {
    /// Hides all present entries.
    pub(crate) fn invalidate(&self, used: impl FnOnce() -> u32) {
        self.generations.advance(used);
        // Afterwards, so that a thread that finds hints closed finds the new generation.
        self.hints.close();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// All present entries count as expired from now on.
    pub(crate) fn outlive_all(&self) {
        self.deadlines_made().invalidate(|| self.reclaim.used().end);
    }

    /// A writer's share of removing stale entries.
    #[cold]
    #[inline(never)]
    pub(super) fn purge_share(&self, deadlines: &Deadlines) {
        let generations = &deadlines.generations;
        let is_stale = |slot| {
            // Unknown for vacant slots. A slot that was just handed out may not be made yet.
            self.slab
                .header_if_made(slot)
                .is_some_and(|header| header.state.load(Relaxed) & (OCCUPIED | DEAD) == OCCUPIED)
                && generations.is_stale(slot)
        };
        // Entries still to be reported to the listener keep their slots, so there may be none for
        // its insertions.
        if self.is_in_listener() {
            return;
        }
        let telling = self.telling();
        let mut held = self.hold();
        for slot in generations.share().filter(|&slot| is_stale(slot)) {
            // For the segments in which slots are retired or put back.
            let buffers = &mut *held;
            if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                // For a later thread, when there are segments.
                generations.next.fetch_min(slot, Release);
                break;
            }
            self.take_out_if(&mut held, slot, || generations.is_stale(slot));
        }
        self.settle(&mut held);
        drop(held);
        drop(telling);
    }

    /// Removes stale entries, and returns their number, including expired ones.
    pub(super) fn purge_stale(&self, deadlines: &Deadlines, steps: &Steps<'_>) -> u64 {
        let generations = &deadlines.generations;
        let state = generations.state();
        if generations.purged.load(Relaxed) == state {
            return 0;
        }
        // Either the sweep finds an entry that is being inserted, or the thread that queues it
        // finds it stale and counts it as late, after `state`. Partner: the light fence of
        // `Generations::queued`.
        fence::heavy();
        let gone = self.sweep(steps, |_| false);
        // With an older state another purge only repeats the check.
        generations.purged.store(state, Relaxed);
        gone
    }
}
