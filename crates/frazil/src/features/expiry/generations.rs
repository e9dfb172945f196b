//! Everything invalidated at once: a number to each entry.
//!
//! The *generation* counts invalidations of the whole cache. An entry is *born* in the generation
//! that its insertion has read before it was published, and is stale once there is another.
//!
//! ```text
//! insertion                          invalidation              look-up
//!   born[slot] = generation            generation += 1           the word that leads to the slot
//!   publish the slot                   close the hints           born[slot] = generation?
//! ```
//!
//! A look-up that begins when the invalidation has returned reads the new generation, or a later
//! one; an insertion that had ended before had read the old one. Of those that the invalidation
//! meets some are stale from the beginning, as if they had come before it. What is stale stays so:
//! generations only grow, and a slot is given another birth by who alone knows it.
//!
//! Births are asked for where the deadline is, and not before: a cache whose entries were never
//! invalidated has none, and its hits do not come by. For the others no hint that a deadline is
//! far is believed any more, as it does not say of which generation its entry is. 4 bytes a slot
//! from the first invalidation on.

use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;

use super::deadlines::Deadlines;
use crate::chunks::Chunks;
use crate::core::steps::Steps;
use crate::features::Featured;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

/// Births by slot, and the generation.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    /// 0 as long as nothing was invalidated.
    current: AtomicU32,
    /// The last of which all that was older has been looked for and taken out.
    purged: AtomicU32,
    born: OnceLock<Chunks<AtomicU32>>,
}

impl Generations {
    /// Begins the next.
    fn advance(&self) {
        self.born.get_or_init(Chunks::default);
        // Release: there are births before anyone is stale. After 2^32 of them the oldest
        // entry would be taken for new, if nothing else had ended it.
        self.current.fetch_add(1, Release);
    }

    /// Notes the birth of a slot that the caller alone knows.
    #[inline(always)]
    pub(crate) fn begin(&self, slot: u32) {
        if let Some(born) = self.born.get() {
            // Ordered by the publication of the slot.
            born.get_or_make(slot).store(self.current.load(Relaxed), Relaxed);
        }
    }

    /// Whether the entry in a slot, which the caller protects or has taken, is of a generation
    /// that is over.
    #[inline]
    pub(crate) fn is_stale(&self, slot: u32) -> bool {
        // Of a slot that has none here, it was before the first invalidation.
        let birth = |born: &Chunks<AtomicU32>| born.get(slot).map_or(0, |born| born.load(Relaxed));
        self.born.get().is_some_and(|born| birth(born) != self.current.load(Relaxed))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.born.get().map_or(0, Chunks::heap_bytes)
    }
}

impl Deadlines {
    /// Has nobody see what is there.
    pub(crate) fn invalidate(&self) {
        self.generations.advance();
        // Only now: who finds them closed finds the new generation.
        self.hints.close();
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Takes out what is stale, and returns how many entries that were, with those that have
    /// expired.
    pub(super) fn purge_stale(&self, deadlines: &Deadlines, steps: &Steps<'_>) -> u64 {
        let Generations { current, purged, .. } = &deadlines.generations;
        let generation = current.load(Relaxed);
        if purged.load(Relaxed) == generation {
            return 0;
        }
        let gone = self.sweep(steps, |_| false);
        // An older number only has another purge look again.
        purged.store(generation, Relaxed);
        gone
    }
}
