//! What counting does at the steps of an operation.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use frazil_policy::Priority;

use super::{Counted, Counting, Handles, Local};
use crate::core::Ending;
use crate::core::hooks::{Hooks, Operation, PerThread};
use crate::core::order::queue::Queue;
use crate::core::slab::At;
use crate::smr::protect::Protect;
use crate::smr::refs::{Evicted, Refs};
use crate::smr::stripe::Reader;
use crate::sync::CHECKED;
use crate::sync::atomic::Ordering::Relaxed;

/// How often an insertion goes on behind what it has found held.
const LOOKS: usize = if CHECKED { 1 } else { 8 };

/// What an insertion brings: its priority, and room for the slot that it was given, in which it is
/// counted.
#[derive(Debug, Default)]
pub(crate) struct Newcomer {
    pub(crate) priority: Priority,
    pub(crate) slot: Cell<u32>,
}

/// An operation that may end residencies: when the outermost one of a thread is over, what it has come
/// to own is dropped.
pub(crate) struct Outermost<'c, K, V, S> {
    core: &'c Counting<K, V, S>,
    local: &'c Local,
}

impl<K, V, S> Drop for Outermost<'_, K, V, S> {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.local.depth.load(Relaxed) - 1;
        self.local.depth.store(depth, Relaxed);
        if depth == 0 && self.core.hooks.spread.is_due() {
            self.core.recount(false);
        }
        if self.local.due.load(Relaxed) != 0 {
            self.core.drop_due(self.local);
        }
    }
}

impl<K, V, S> Operation<K, V> for Outermost<'_, K, V, S> {
    #[inline(always)]
    fn pause(&mut self) {}

    #[inline(always)]
    fn resume(&mut self) {}

    #[cfg(feature = "loading")]
    #[inline(always)]
    fn refuse(&mut self, _: K, _: V) {}

    #[inline(always)]
    fn conclude(self, key: K, value: V) -> (K, V) {
        (key, value)
    }
}

impl PerThread for Handles {
    type Local = Local;
    type Refs = Refs;

    #[inline(always)]
    fn charges_orphans(&self) -> bool {
        self.is_strict()
    }

    #[inline(always)]
    fn asked(&self, capacity: u64) {
        self.asked.store(capacity, Relaxed);
    }

    #[inline(always)]
    fn bottom(&self) -> Option<&Queue> {
        Some(&self.bottom)
    }

    #[inline(always)]
    fn returns_charge<K, V, S>(core: &Counting<K, V, S>) -> bool {
        let charged = &core.counts().charged;
        let is_charged = charged.load(Relaxed) != 0;
        charged.store(0, Relaxed);
        !is_charged
    }

    fn may_find_more<K, V, S>(core: &Counting<K, V, S>, attempts: usize) -> bool {
        let fruitless = &core.hooks.fruitless;
        if attempts >= LOOKS {
            fruitless.store(true, Relaxed);
        }
        attempts < LOOKS && !fruitless.load(Relaxed)
    }

    #[inline(always)]
    fn passed_over<K, V, S>(core: &Counting<K, V, S>, slot: u32) {
        let refs = core.slab.refs(slot);
        if refs.look().is_spread() {
            core.hooks.spread.recount_soon(refs);
        }
    }

    #[cold]
    fn unclaim<K, V, S>(core: &Counting<K, V, S>, slot: u32) {
        core.slab.refs(slot).unclaim();
    }
}

impl<K, V, S> Counting<K, V, S> {
    /// Counts an orphan that the calling thread has left, and whether the capacity is charged for it.
    fn orphaned(&self, local: &Local, slot: u32, is_charged: bool) {
        if is_charged {
            local.charged.store(1, Relaxed);
        } else {
            local.orphaned.add(self.slab.weight(slot));
        }
    }
}

impl<K: Hash + Eq, V> Hooks<K, V> for Handles {
    type Incoming = Newcomer;
    type Look<'c, S>
        = Counted<'c, K, V, S>
    where
        K: 'c,
        V: 'c,
        S: 'c;
    type Operation<'c, S: BuildHasher>
        = Outermost<'c, K, V, S>
    where
        K: 'c,
        V: 'c,
        S: 'c;

    #[inline(always)]
    fn look<'c, S>(core: &'c Counting<K, V, S>, _: &'c Reader) -> Option<Counted<'c, K, V, S>> {
        Some(Counted::new(core, core.counts()))
    }

    #[inline(always)]
    fn second_look<'c, S>(
        core: &'c Counting<K, V, S>,
        _: &'c Reader,
    ) -> Option<Counted<'c, K, V, S>> {
        Some(Counted::new(core, core.counts()))
    }

    #[inline(always)]
    fn operation<S: BuildHasher>(core: &Counting<K, V, S>) -> Outermost<'_, K, V, S> {
        let local = core.counts();
        local.depth.store(local.depth.load(Relaxed) + 1, Relaxed);
        Outermost { core, local }
    }

    #[inline(always)]
    fn answer<'p, Q: Equivalent<K> + ?Sized, S: BuildHasher>(
        _: &'p Counting<K, V, S>,
        _: &'p impl Protect,
        _: u64,
        _: &Q,
    ) -> Option<&'p V> {
        None
    }

    #[inline(always)]
    fn is_live<S: BuildHasher>(_: &Counting<K, V, S>, _: u32) -> bool {
        true
    }

    #[inline(always)]
    fn is_live_in_use<S: BuildHasher>(_: &Counting<K, V, S>, _: u32, _: At<'_>) -> bool {
        true
    }

    #[cfg(feature = "loading")]
    #[inline(always)]
    fn arrived<S>(core: &Counting<K, V, S>, hash: u64, _: u64, _: &Newcomer) {
        core.stripe().local.reads.arrive(hash);
    }

    #[inline(always)]
    fn priority(newcomer: &Newcomer) -> Priority {
        newcomer.priority
    }

    #[inline(always)]
    fn admitting<S>(core: &Counting<K, V, S>, slot: u32, newcomer: &Newcomer) {
        let refs = core.slab.refs(slot);
        refs.set_priority(newcomer.priority);
        refs.publish();
        newcomer.slot.set(slot);
    }

    #[inline(always)]
    fn withdrawn<S>(core: &Counting<K, V, S>, slot: u32, newcomer: &Newcomer) {
        newcomer.slot.set(0);
        core.slab.refs(slot).withdraw();
    }

    #[inline(always)]
    fn queueing(&self, _: u32, _: Option<u32>) {}

    #[inline(always)]
    fn queued(&self, _: u32) {}

    #[inline(always)]
    fn queues_changed(&self) {}

    #[inline(always)]
    fn before_unlink<S>(_: &Counting<K, V, S>, _: u32) {}

    #[inline(always)]
    fn removed<S>(
        core: &Counting<K, V, S>,
        slot: u32,
        ending: Ending,
        charges_orphans: bool,
    ) -> Ending {
        let (local, refs) = (core.counts(), core.slab.refs(slot));
        if ending != Ending::Evicted {
            core.orphaned(local, slot, charges_orphans);
            if refs.end(charges_orphans).is_spread() {
                core.hooks.spread.recount_soon(refs);
            }
            return ending;
        }
        if core.hooks.fruitless.load(Relaxed) {
            core.hooks.fruitless.store(false, Relaxed);
        }
        match refs.evict(charges_orphans) {
            Evicted::Owned => core.note_due(local, slot),
            Evicted::Orphaned => {
                core.orphaned(local, slot, charges_orphans);
            }
        }
        ending
    }
}
