//! Reclamation as a cache sees it: removed entries are dropped once nobody can be reading them.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash};

use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::local::Held;
use crate::core::order::QueueCtx;
use crate::core::slab::{Slab, VACANT};
use crate::ensure::Ensure;
use crate::smr::reclaim::Contents;
use crate::smr::refs::SlotRefs as _;
use crate::sync::CHECKED;
use crate::sync::atomic::Ordering::Relaxed;

/// Times that an insertion yields to other threads, if it finds no slot, before it is refused, or
/// if more than a quarter of the weight waits.
pub(crate) const YIELDS_MAX: u32 = if CHECKED { 1 } else { 200 };

crate::sync::checked_thread_local! {
    /// How many reclamations this thread is inside, of any cache.
    static RECLAIMING: Cell<u32> = const { Cell::new(0) };
}
crate::sync::checked_thread_local! {
    /// The cache whose limbo this thread last searched and found with more than a quarter of the
    /// weight waiting, or 0.
    static OVERWEIGHT: Cell<u64> = const { Cell::new(0) };
}

#[cfg(test)]
std::thread_local! {
    /// How often this thread has yielded to others.
    pub(crate) static YIELDS: Cell<u32> = const { Cell::new(0) };
}

/// A reclamation of this thread, while it lasts.
struct Reclaiming;

impl Reclaiming {
    fn new() -> Self {
        RECLAIMING.with(|depth| depth.set(depth.get() + 1));
        Reclaiming
    }
}

impl Drop for Reclaiming {
    fn drop(&mut self) {
        RECLAIMING.with(|depth| depth.set(depth.get() - 1));
    }
}

impl<K: Hash + Eq, V, S: BuildHasher, H: PerThread> Core<K, V, S, H> {
    /// Grows the cache for entries to come, and drops removed entries that no thread can be
    /// reading, if there are enough. The caller holds no stripe.
    #[inline(always)]
    pub(crate) fn reclaim_if_due(&self) {
        if self.is_outgrown() {
            self.grow(0);
        }
        if self.reclaim.due() {
            self.reclaim_some(false);
            if self.reclaim.is_overweight() {
                OVERWEIGHT.with(|overweight| overweight.set(self.identity));
            }
        }
    }

    /// Drops removed entries that no thread can be reading. Returns the number of freed slots. The
    /// caller holds no stripe: destructors run here.
    pub(crate) fn reclaim(&self) -> u64 {
        self.reclaim_some(true)
    }

    /// The same for `all` slots, or only for those that threads at work have passed.
    fn reclaim_some(&self, all: bool) -> u64 {
        let _reclaiming = Reclaiming::new();
        let readers = (&self.stripes, &self.stripe().reader);
        let freed = self.reclaim.run(&self.segments, readers, all, self);
        #[cfg(feature = "tracing")]
        self.tell_of_pins();
        if self.reclaim.take_turnover() {
            self.empty_idle();
        }
        freed
    }

    /// Yields to threads that are about to drop waiting entries, if these are more than a quarter
    /// of the weight: of many threads one may be suspended with limbo in hand, while the others add
    /// to it. The caller protects nothing, because it would hold that up meanwhile.
    #[inline(always)]
    pub(crate) fn wait_if_overweight(&self) {
        if self.weights.is_some()
            && OVERWEIGHT.with(Cell::get) == self.identity
            // It would wait forever for entries that its own pin holds up.
            && self.stripe().reader.depth.load(Relaxed) == 0
        {
            OVERWEIGHT.with(|overweight| overweight.set(0));
            self.outwait_reclaimers();
        }
    }

    /// Takes over the entries and credit of threads that have written nothing while the cache was
    /// filled anew: other threads could not evict these entries or use this credit.
    #[cold]
    fn empty_idle(&self) {
        for stripe in
            self.stripes.iter().filter(|stripe| stripe.has_rested(stripe.local.counts.operations()))
        {
            if let Some(mut held) = self.stripes.claim(stripe) {
                self.empty(&mut held);
                stripe.note_emptied();
            }
        }
    }

    /// Takes over the entries and credit of all threads that are not at work: a heavy fence for
    /// each.
    pub(crate) fn empty_all(&self) {
        for mut held in self.stripes.claims() {
            self.empty(&mut held);
        }
    }

    /// Publishes everything that a stripe owns.
    fn empty(&self, held: &mut Held<'_, H::Local>) {
        self.with_queue_ctx(held, |ctx| self.order.flush(ctx));
        let buffers = &mut **held;
        self.reclaim.flush_retired(&self.segments, buffers);
        self.reclaim.flush_vacant(&self.segments, buffers);
        buffers.spares.flush(&self.segments, &mut buffers.traffic);
        self.entry_budget.flush(&mut buffers.above.entry_credit, &mut buffers.traffic);
        if let Some(weights) = &self.weights {
            weights.flush(&mut buffers.above.weight_credit, &mut buffers.traffic);
        }
    }

    /// Yields to threads suspended while they reclaim, with slots in hand that no thread reads.
    /// False if there are none, or none has made progress. The caller holds no stripe.
    #[cold]
    pub(crate) fn outwait_reclaimers(&self) -> bool {
        // In a destructor it would wait for itself.
        if RECLAIMING.with(Cell::get) > 0 {
            return false;
        }
        let mut last = self.reclaim.waiting();
        (0..YIELDS_MAX).take_while(|_| self.reclaim.is_in_hand(&self.segments)).any(|_| {
            #[cfg(test)]
            YIELDS.with(|yields| yields.set(yields.get() + 1));
            crate::sync::thread::yield_now();
            let before = std::mem::replace(&mut last, self.reclaim.waiting());
            last < before
        })
    }

    /// Publishes everything that idle threads own; packs the queues if requested, or if
    /// dead slots were left in them.
    #[cold]
    pub(crate) fn scavenge(&self, pack: bool) {
        self.empty_all();
        // First, because it frees segments, with which dead slots can be retired.
        self.reclaim();
        let mut held = self.hold();
        self.reclaim.pack_free(&self.segments, &mut held.traffic, pack);
        if !self.reclaim.takes_left_dead() && !pack {
            return;
        }
        // The first pass may free the segments that the second needs.
        let compact = |ctx: &mut QueueCtx<'_, Self>| self.order.compact(ctx);
        if !(self.with_queue_ctx(&mut held, compact) || self.with_queue_ctx(&mut held, compact)) {
            self.reclaim.note_left_dead();
        }
        self.reclaim.flush_retired(&self.segments, &mut held);
        drop(held);
        self.reclaim();
    }
}

impl<K, V, S, H: PerThread> Contents for Core<K, V, S, H> {
    #[inline(always)]
    fn has_any(&self) -> bool {
        // With counted holders the slots that come here are vacant.
        !H::Refs::COUNTED && (Slab::<K, V, H::Refs>::NEEDS_DROP || self.weights.is_some())
    }

    fn retired_weight(&self, slot: u32) -> u64 {
        let occupied =
            self.weights.is_some() && self.slab.header(slot).state.load(Relaxed) != VACANT;
        if occupied { self.slab.weight(slot) } else { 0 }
    }

    fn vacate(&self, slot: u32) {
        let state = &self.slab.header(slot).state;
        if !Slab::<K, V, H::Refs>::NEEDS_DROP {
            // Not to be weighed again.
            state.store(VACANT, Relaxed);
        } else if state.load(Relaxed) != VACANT {
            // SAFETY: `run` passes slots that are retired and that no thread can reach.
            drop(unsafe { self.slab.vacate(slot) });
        }
    }
}

impl<K, V, S, H: PerThread> Drop for Core<K, V, S, H> {
    fn drop(&mut self) {
        // With counted holders the last of them has dropped the content.
        if !Slab::<K, V, H::Refs>::NEEDS_DROP || H::Refs::COUNTED {
            return;
        }
        let drop_all = |slots: &mut std::ops::Range<u32>| {
            for slot in slots {
                if self.slab.header(slot).state.load(Relaxed) != VACANT {
                    // SAFETY: the cache is exclusively borrowed, so it has no readers; the slot was
                    // handed out, so its header has whether it is occupied.
                    drop(unsafe { self.slab.vacate(slot) });
                }
            }
        };
        let mut slots = self.reclaim.used();
        // Should one panic, the others are dropped all the same.
        let others = Ensure::new(&mut slots, drop_all);
        drop_all(others.on);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::smr::fence::EXECUTED;
    use crate::{Cache, Tested};

    const ENTRIES: u64 = 20_000;

    /// Heavy fences that `work` executes on this thread, and reclamations of all threads.
    fn costs(cache: &Tested, work: impl FnOnce()) -> [u64; 2] {
        let now = || [EXECUTED.get(), cache.core.reclaim.epoch()];
        let before = now();
        work();
        let after = now();
        [after[0] - before[0], after[1] - before[1]]
    }

    fn filled() -> Tested {
        let cache = Cache::builder(ENTRIES).build();
        (0..ENTRIES).for_each(|key| cache.insert(key, key.to_string()));
        cache
    }

    /// Reclamation is due again after half as many further slots as a pin held up the last time,
    /// and gathers the threads' stripes once.
    #[test]
    fn a_pin_that_has_shown_all_makes_no_removal_dearer() {
        let works: [fn(&Tested); 3] = [
            Cache::clear,
            |cache| cache.retain(|_, _| false),
            |cache| (0..ENTRIES).for_each(|key| assert!(cache.invalidate(&key))),
        ];
        for work in works {
            for pinned_here in [true, false] {
                let cache = filled();
                let pin = || {
                    let pin = cache.pin();
                    assert!((0..ENTRIES).all(|key| pin.get(&key).is_some()));
                    pin
                };
                let costs = std::thread::scope(|scope| {
                    let (pinned, wait) = std::sync::mpsc::channel();
                    let (release, held) = std::sync::mpsc::channel::<()>();
                    let here = pinned_here.then(pin);
                    scope.spawn(move || {
                        let there = (!pinned_here).then(pin);
                        pinned.send(()).expect("the test waits");
                        _ = held.recv();
                        drop(there);
                    });
                    wait.recv().expect("it has pinned");
                    let removal = costs(&cache, || work(&cache));
                    // Others read in the meantime, whose pins end.
                    let reads = costs(&cache, || {
                        for key in 0..1_000 {
                            assert!(cache.pin().get(&key).is_none());
                            cache.insert(key, String::new());
                            assert!(cache.pin().get(&key).is_some());
                        }
                    });
                    drop((release, here));
                    [removal, reads]
                });
                for [fences, reclamations] in costs {
                    assert!(fences < 40, "{fences} fences");
                    assert!(reclamations < 40, "{reclamations} reclamations");
                }
            }
        }
    }

    /// Threads that insert alternately pass each other's epochs: none needs the heavy fence, even
    /// with few entries.
    #[test]
    fn insertions_into_few_entries_take_no_heavy_fence() {
        for entries in [16, 100, 1_000] {
            let cache: Tested = Cache::builder(entries).build();
            let turn = std::sync::Barrier::new(2);
            let insert = |from: u64| {
                for key in 0..4_000 {
                    turn.wait();
                    cache.insert(from + key, String::new());
                }
            };
            let [fences, reclamations] = std::thread::scope(|scope| {
                scope.spawn(|| insert(1_000_000));
                costs(&cache, || insert(0))
            });
            assert!(reclamations > 50 && fences < 5, "{entries}: {fences} of {reclamations}");
        }
    }
}
