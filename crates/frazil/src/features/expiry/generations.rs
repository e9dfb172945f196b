//! Invalidation of all entries at once, by a number for each entry.
//!
//! The *generation* counts invalidations of the whole cache. An entry is *born* in the generation
//! that its insertion has read before it was published, and is stale once there is another.
//!
//! ```text
//! insertion                          invalidation              look-up
//!   born[slot] = generation            generation += 1           the word that leads to the slot
//!   publish the slot, queue it         heavy fence               born[slot] = generation?
//!   light fence                        give all used slots to writers
//!   born[slot] = generation?           close the hints
//! ```
//!
//! A look-up that begins when the invalidation has returned reads the new generation, or a later
//! one; an insertion that had ended before had read the old one. Of simultaneous insertions some
//! are stale from the beginning, as if they had come before it. A stale entry stays stale:
//! generations only grow, and only a thread that alone knows a slot gives it another birth.
//!
//! A look-up reads the birth with the deadline, and not before: a cache whose entries were never
//! invalidated has no births, and its hits do not read them. In others no hint that a deadline is
//! far is used any more, as it does not tell the generation of its entry. 4 bytes a slot from the
//! first invalidation on.
//!
//! Stale entries keep their rank with the policy, which may prefer them to all new ones: in a cache
//! that was used much, the least frequently used entries are the newest. So each insertion checks
//! some slots, until all that were in use at the invalidation are checked, and removes the stale
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

/// Slots that one insertion checks: few, because a policy's lock is taken for each.
const SHARE: u32 = 16;

/// Births by slot, and the generation.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// 0 as long as nothing was invalidated.
    current: AtomicU32,
    /// The last generation for which all older entries have been searched and removed; and, in the
    /// lower half, the number of late entries before it.
    purged: AtomicU64,
    /// Entries that were queued when they were stale already.
    late: AtomicU32,
    born: OnceLock<Chunks<AtomicU32>>,
    /// The slots that writers have still to look at after the last invalidation: the next of them,
    /// and the end. Written by exchanges only, so that a thread that acquires one has acquired
    /// those before.
    next: AtomicU32,
    end: AtomicU32,
}

impl Generations {
    /// Begins the next, and then reads which slots have been used.
    pub(crate) fn advance(&self, used: impl FnOnce() -> u32) {
        self.born.get_or_init(Chunks::default);
        // Release: births exist before any entry is stale. After 2^32 generations the oldest entry
        // would count as new, if nothing else had ended it.
        self.current.fetch_add(1, Release);
        // Either a slot that is new is among those used, or its entry is of this generation:
        // partner is the fence of `Reclaim::refill`. And either the thread that takes its share
        // finds a slot queued, or the thread that queues it finds it stale: partner is the light
        // fence of `queued`.
        fence::heavy();
        // Two simultaneous calls both wait until their own is processed.
        self.end.fetch_max(used(), Relaxed);
        // Release: the entries queued before the fence; partner is the Acquire of `share`.
        self.next.swap(1, Release);
    }

    /// Whether writers have slots to look at.
    #[inline(always)]
    pub(crate) fn has_share(&self) -> bool {
        self.next.load(Relaxed) < self.end.load(Relaxed)
    }

    /// The slots that one writer must look at.
    pub(crate) fn share(&self) -> Range<u32> {
        // Acquire: the generation before it, and the stores that its fence made visible; partners
        // are the Releases of `advance` and `queued`. The thread that begins the next one covers
        // them all again.
        let first = self.next.fetch_add(SHARE, Acquire);
        let end = self.end.load(Relaxed);
        first.min(end)..first.saturating_add(SHARE).min(end)
    }

    /// Notes the birth of a slot that the caller alone knows.
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

    /// The generation, and how many late entries there have been.
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
        // Only now: a thread that finds them closed finds the new generation.
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
                // For the writer that comes when there are segments.
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
        // An older state only has another purge look again.
        generations.purged.store(state, Relaxed);
        gone
    }
}
