//! The input of a cache that learns how much to freeze: the bytes of its
//! entries, by slot, and the requests that have come through the gate (`gate.rs`). The learner is
//! that of `frazil-freezing`.

use std::hash::Hash;
use std::sync::OnceLock;

use frazil_freezing::{Learner, NEWCOMER, Samples, byte_of_rank};

use super::{Freezes, Overlay};
use crate::chunks::Chunks;
use crate::clock::{Clock, exact_ns};
use crate::core::Core;
use crate::core::index::mix;
use crate::core::local::Reads;
use crate::features::gate::{self, Asker, Gate};
use crate::sync::ZeroDefault;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

// SAFETY: an atomic whose default is zero.
unsafe impl ZeroDefault for AtomicU8 {}

impl frazil_freezing::Gate for Gate {
    fn learn_from(&self, share: f64) -> u64 {
        let threshold = gate::threshold(share);
        self.open(Asker::Learning, threshold);
        threshold
    }

    fn time(&self, all: bool) {
        self.open(Asker::Timing, if all { gate::ALL } else { 0 });
    }

    fn try_end_timing(&self) -> bool {
        self.try_close(Asker::Timing)
    }
}

/// Looks at requests, for a cache that learns what to freeze.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(super) learner: Learner,
    /// By slot, once something was looked at.
    bytes: Chunks<AtomicU8>,
}

/// The cost of reading the system's clock.
fn overhead_ns() -> u64 {
    static OVERHEAD: OnceLock<u64> = OnceLock::new();
    *OVERHEAD.get_or_init(|| frazil_freezing::overhead_ns(exact_ns))
}

impl Watch {
    /// Sorts by counts: fewest hits first, stable for equal counts.
    pub(crate) fn sort_by_count(&self, order: &mut [u32]) {
        // Each is read once: hits are still counted, and a sort whose keys change meanwhile panics.
        order.sort_by_cached_key(|&slot| self.byte(slot).load(Relaxed));
    }

    /// Sorts by the ranks that were given, if some were: the lowest first.
    pub(crate) fn sort_by_rank(&self, order: &mut [u32]) {
        if self.learner.keeps_ranks() {
            // New entries have 0, which is the lowest. Read once, as above.
            let rank = |slot: u32| self.byte(slot).load(Relaxed).wrapping_sub(1);
            order.sort_by_cached_key(|&slot| std::cmp::Reverse(rank(slot)));
        }
    }

    /// Gives ranks by an order, to slots up to `last`.
    pub(crate) fn give_ranks(&self, last: u32, coldest_first: &[u32]) {
        self.set_all(last, NEWCOMER);
        for (place, &slot) in coldest_first.iter().rev().enumerate() {
            self.byte(slot).store(byte_of_rank(place, coldest_first.len()), Relaxed);
        }
    }

    fn byte(&self, slot: u32) -> &AtomicU8 {
        self.bytes.get_or_make(slot)
    }

    /// Sets `value` for all slots up to `last`, and for those beyond that were ever set.
    pub(crate) fn set_all(&self, last: u32, value: u8) {
        self.bytes.ensure(last);
        (0..=last).for_each(|slot| self.byte(slot).store(value, Relaxed));
        let others = self.bytes.made().flat_map(|(_, bytes)| bytes);
        others.for_each(|byte| byte.store(value, Relaxed));
    }

    /// An entry is admitted, as a replacement or as a new entry.
    #[inline(always)]
    pub(crate) fn admitted(&self, slot: u32, replaced: Option<u32>) {
        if self.learner.wants_newcomers() {
            let byte = replaced.map_or(NEWCOMER, |old| self.byte(old).load(Relaxed));
            self.byte(slot).store(byte, Relaxed);
        }
    }

    /// A hit of the entry in a slot.
    fn hit(&self, samples: &Samples, slot: u32) {
        if let Some(byte) = self.bytes.get(slot) {
            self.learner.hit(samples, byte);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// The data of each thread, written only by it.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// The hash of the key whose miss is timed until its insertion, as [`Reads::missing`] returns
    /// it, or 0.
    timed_miss: AtomicU64,
    /// The counts of its observed requests, in a cache that learns.
    pub(super) samples: OnceLock<Box<Samples>>,
}

impl Local {
    fn note_timed_miss(&self, hash: u64) {
        self.timed_miss.store(Reads::missing(hash), Relaxed);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.samples.get().map_or(0, |samples| size_of_val(&**samples))
    }
}

/// Counts the arrival of a key that a thread is about to insert. Whether it ends a miss that is
/// timed.
#[inline(always)]
pub(crate) fn arrive(reads: &Reads, local: &Local, hash: u64) -> bool {
    reads.arrive(hash) && local.timed_miss.load(Relaxed) == Reads::missing(hash)
}

/// A get that is looked at.
pub(crate) struct Look<'c> {
    watch: &'c Watch,
    reads: &'c Reads,
    local: &'c Local,
    samples: &'c Samples,
    /// When it began, if it is timed.
    began: Option<u64>,
    clock: &'c Clock,
    /// The thread's earlier counts.
    frozen_hits: u64,
}

impl<K: Hash + Eq, V, S, H: Freezes<K, V>> Core<K, V, S, H> {
    /// Begins to observe a get of this thread, if an observer wants it.
    pub(crate) fn begin_look(&self) -> Option<Look<'_>> {
        let mut look = self.begin_look_untimed()?;
        if look.watch.learner.is_to_be_timed(look.samples, self.hooks.gate()) {
            // Last: the time from here on belongs to the request.
            look.began = Some(look.clock.exact());
        }
        Some(look)
    }

    /// The same for one of many gets at once.
    pub(crate) fn begin_look_untimed(&self) -> Option<Look<'_>> {
        let watch = self.hooks.overlay().and_then(Overlay::watch)?;
        let local = &self.stripe().local;
        let (reads, local) = (&local.reads, H::watched(&local.features));
        let samples = local.samples.get_or_init(Box::default);
        let frozen_hits = reads.hook_hits.load(Relaxed);
        let clock = &self.clock;
        Some(Look { watch, reads, local, samples, began: None, clock, frozen_hits })
    }

    /// The insertion has come that ends a timed miss of this thread.
    #[cold]
    pub(crate) fn end_timed_miss(&self) {
        let local = H::watched(&self.stripe().local.features);
        local.timed_miss.store(0, Relaxed);
        if let Some(samples) = local.samples.get() {
            samples.arrived(self.clock.exact());
        }
    }
}

impl Look<'_> {
    /// The get has ended. `slot` finds the slot of its entry, if it was a hit.
    pub(crate) fn end(self, hash: u64, hit: bool, slot: impl FnOnce() -> Option<u32>) {
        let Look { watch, reads, local, samples, .. } = self;
        if let Some(began) = self.began {
            let overhead = if self.clock.is_users() { 0 } else { overhead_ns() };
            let elapsed = self.clock.exact().saturating_sub(began + overhead);
            if hit {
                samples.hit_took(reads.hook_hits.load(Relaxed) != self.frozen_hits, elapsed);
            } else {
                samples.look_up_failed(began, elapsed);
                local.note_timed_miss(hash);
            }
        }
        match (watch.learner.wants(mix(hash)), hit) {
            (false, _) => {}
            (true, true) => slot().into_iter().for_each(|slot| watch.hit(samples, slot)),
            (true, false) => watch.learner.miss(samples),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const SLOTS: u32 = 5_000;

    #[test]
    fn a_miss_that_is_not_timed_ends_none() {
        for hash in [0, 1] {
            let (reads, local) = (Reads::default(), Local::default());
            reads.miss(hash);
            assert!(!arrive(&reads, &local, hash), "{hash}");
            local.note_timed_miss(hash);
            reads.miss(hash);
            assert!(arrive(&reads, &local, hash), "{hash}");
        }
    }

    #[test]
    fn what_goes_on_being_hit_is_sorted() {
        let (watch, gate) = (Watch::default(), Gate::new());
        let (samples, over) = (Samples::default(), AtomicBool::new(false));
        let hit = || {
            let mut slot = 1u32;
            while !over.load(Relaxed) {
                slot = slot.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                watch.hit(&samples, (slot >> 8) % SLOTS);
            }
        };
        let sort = || {
            for _ in 0..200 {
                watch.learner.count(&gate, |value| watch.set_all(SLOTS, value));
                let mut order: Vec<u32> = (0..SLOTS).rev().collect();
                // If all have equal counts there is nothing to sort.
                std::thread::sleep(Duration::from_millis(3));
                watch.sort_by_count(&mut order);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..SLOTS));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(hit);
            let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sort));
            over.store(true, Relaxed);
            sorted.unwrap();
        });
    }
}
