//! Reclamation as a cache sees it: what has gone is dropped once nobody can be reading it.

use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;
use crate::evict::Ensure;
use crate::slab::{Slab, VACANT};
use crate::sync::atomic::Ordering::Relaxed;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Makes room for what is to come, and drops what nobody can be reading, if there is enough of
    /// it. The caller holds no stripe.
    #[inline(always)]
    pub(crate) fn reclaim_if_due(&self) {
        if self.is_outgrown() {
            self.grow(0);
        }
        if self.reclaim.due() {
            self.reclaim();
        }
    }

    /// Drops what nobody can be reading. How many slots became free. The caller holds no
    /// stripe: destructors run here.
    pub(crate) fn reclaim(&self) -> u64 {
        let weighs = self.weights.is_some();
        let vacate = |slot| {
            if !Slab::<K, V>::NEEDS_DROP && !weighs {
                return;
            }
            let state = &self.slab.header(slot).state;
            if !Slab::<K, V>::NEEDS_DROP {
                // Not to be weighed again.
                state.store(VACANT, Relaxed);
            } else if state.load(Relaxed) != VACANT {
                // SAFETY: `run` shows slots that are retired and that nobody can reach.
                drop(unsafe { self.slab.vacate(slot) });
            }
        };
        let weigh = |slot| if weighs { self.retired_weight(slot) } else { 0 };
        let freed = self.reclaim.run(&self.segments, &self.stripes, weigh, vacate);
        #[cfg(feature = "tracing")]
        self.tell_of_pins();
        freed
    }

    /// Drops the values of all entries that have gone, but for those that a reader is looking at
    /// now.
    ///
    /// What is evicted, replaced or removed is dropped a little later, so that the cost of making
    /// sure that nobody reads it is shared: some hundred entries, and with a
    /// [weigher](crate::Builder::weigher) a 16th of the capacity and a 1,024th for each thread.
    /// O(threads + entries that wait).
    ///
    /// ```
    /// use std::sync::Arc;
    /// let cache: frazil::Cache<u64, Arc<str>> = frazil::Cache::builder(100).build();
    /// let value: Arc<str> = "large".into();
    /// cache.insert(1, Arc::clone(&value));
    /// cache.invalidate(&1);
    /// cache.flush();
    /// assert_eq!(Arc::strong_count(&value), 1);
    /// ```
    pub fn flush(&self) {
        self.scavenge(false);
    }

    /// What a slot weighs that waits in limbo: 0 if its value was dropped, or nothing is weighed.
    pub(crate) fn retired_weight(&self, slot: u32) -> u64 {
        let weighs = self.weights.is_some();
        let occupied = weighs && self.slab.header(slot).state.load(Relaxed) != VACANT;
        if occupied { self.slab.weight(slot) } else { 0 }
    }

    /// Makes all that idle threads have in hand available; packs the queues if told to.
    #[cold]
    pub(crate) fn scavenge(&self, pack: bool) {
        for mut held in self.stripes.claims() {
            self.hand(&mut held, |hand| self.order.flush(hand));
            let buffers = &mut *held;
            self.reclaim.flush_retired(&self.segments, buffers);
            self.reclaim.flush_vacant(&self.segments, buffers);
            buffers.spares.flush(&self.segments, &mut buffers.traffic);
            self.places.flush(&mut buffers.places, &mut buffers.traffic);
            if let Some(weights) = &self.weights {
                weights.flush(&mut buffers.credit, &mut buffers.traffic);
            }
        }
        if pack {
            let mut held = self.hold();
            self.hand(&mut held, |hand| self.order.compact(hand));
        }
        self.reclaim();
    }
}

impl<K, V, S> Drop for Cache<K, V, S> {
    fn drop(&mut self) {
        if !Slab::<K, V>::NEEDS_DROP {
            return;
        }
        let drop_all = |slots: &mut std::ops::Range<u32>| {
            for slot in slots {
                if self.slab.header(slot).state.load(Relaxed) != VACANT {
                    // SAFETY: the cache is exclusively borrowed, so nobody reads it; the slot
                    // was handed out, so its header says whether it is occupied.
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
