//! The hooks of counted handles in the core's operations.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use frazil_policy::Priority;

use super::{Counted, Counting, EARNED, Handles, LOOKS, Local};
use crate::core::Ending;
use crate::core::hooks::{Hooks, Operation, PerThread};
use crate::core::order::queue::Queue;
use crate::core::slab::{At, Header};
use crate::smr::protect::Protect;
use crate::smr::refs::{Evicted, Refs, SlotRefs as _};
use crate::smr::stripe::Reader;
use crate::sync::atomic::Ordering::Relaxed;

/// The data of an insertion: its priority, whether the capacity is not charged for it, and a place
/// for its slot, in which it is counted.
#[derive(Debug, Default)]
pub(crate) struct Newcomer {
    pub(crate) priority: Priority,
    pub(crate) is_uncharged: bool,
    pub(crate) slot: Cell<u32>,
}

/// An operation that may end residencies: at the end of a thread's outermost one, content that it
/// owns is dropped.
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
            self.core.recount_due();
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

    fn may_find_more(&self, attempts: usize) -> bool {
        attempts < LOOKS.min(self.earned.load(Relaxed) as usize)
    }

    fn gave_up(&self) {
        self.earned.store(0, Relaxed);
    }

    #[inline(always)]
    fn gave_up_lately(&self) -> bool {
        self.earned.load(Relaxed) < EARNED
    }

    #[inline(always)]
    fn admits_beyond(&self, in_force: u64) -> bool {
        in_force > self.asked_capacity() && self.gave_up_lately() && !self.is_strict()
    }

    #[inline(always)]
    fn passed_over<K, V, S>(core: &Counting<K, V, S>, slot: u32) {
        let refs = core.slab.refs(slot);
        if refs.look().is_spread() {
            core.hooks.spread.recount_soon(refs);
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.spread.is_due()
    }

    fn find_out<K, V, S>(core: &Counting<K, V, S>) {
        core.recount_due();
    }

    #[cold]
    fn unclaim<K, V, S>(core: &Counting<K, V, S>, slot: u32) {
        core.slab.refs(slot).unclaim();
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
    fn is_charged(newcomer: &Newcomer) -> bool {
        !newcomer.is_uncharged
    }

    #[inline(always)]
    fn admitting<S>(core: &Counting<K, V, S>, slot: u32, newcomer: &Newcomer) {
        let refs = core.slab.refs(slot);
        refs.set_priority(newcomer.priority);
        if newcomer.is_uncharged {
            refs.set_uncharged();
            core.counts().orphaned.add(core.slab.weight(slot));
        }
        refs.publish();
        newcomer.slot.set(slot);
    }

    #[inline(always)]
    fn withdrawn<S>(core: &Counting<K, V, S>, slot: u32, newcomer: &Newcomer) {
        newcomer.slot.set(0);
        if newcomer.is_uncharged {
            core.counts().orphaned.subtract(core.slab.weight(slot));
        }
        core.slab.refs(slot).withdraw();
    }

    #[inline(always)]
    fn queueing(&self, slot: u32, replaced: Option<u32>) {
        if let Some(overlay) = &self.overlay {
            overlay.queueing(slot, replaced);
        }
    }

    #[inline(always)]
    fn queued(&self, _: u32) {}

    #[inline(always)]
    fn may_evict(&self) -> bool {
        !self.overlay.as_ref().is_some_and(|overlay| overlay.is_whole())
    }

    #[inline(always)]
    fn queues_changed(&self) {
        if let Some(overlay) = &self.overlay {
            overlay.clear_whole();
        }
    }

    #[inline(always)]
    fn sets_aside(&self) -> bool {
        self.overlay.is_some()
    }

    #[inline(always)]
    fn claims(&self, header: &Header) -> bool {
        self.is_frozen(header)
    }

    #[inline(always)]
    fn before_unlink<S>(core: &Counting<K, V, S>, slot: u32) {
        if let Some(overlay) = &core.hooks.overlay {
            overlay.leave(core.slab.header(slot));
        }
    }

    #[inline(always)]
    fn removed<S>(
        core: &Counting<K, V, S>,
        slot: u32,
        ending: Ending,
        charges_orphans: bool,
    ) -> (Ending, bool) {
        let (local, refs, weight) = (core.counts(), core.slab.refs(slot), core.slab.weight(slot));
        let was_charged = refs.is_charged();
        let is_charged = charges_orphans && was_charged;
        let is_owned = if ending == Ending::Evicted {
            core.hooks.earn();
            refs.evict(is_charged) == Evicted::Owned
        } else {
            if refs.end(is_charged).is_spread() {
                core.hooks.spread.recount_soon(refs);
            }
            false
        };
        // An uncharged entry was counted with the orphans all the time.
        match (was_charged, is_owned) {
            (true, false) => local.orphaned.add(weight),
            (false, true) => local.orphaned.subtract(weight),
            _ => {}
        }
        if !was_charged {
            core.hooks.uncharged.subtract(weight);
        }
        if is_owned {
            core.note_due(local, slot);
        }
        (ending, is_owned || !is_charged)
    }
}
