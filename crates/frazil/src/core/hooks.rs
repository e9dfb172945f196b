//! The hooks that features add to operations of the core.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use frazil_policy::Priority;

use crate::core::order::queue::Queue;
use crate::core::slab::{At, Header};
use crate::core::{Core, Ending};
use crate::smr::protect::{Hazard, Protect};
use crate::smr::refs::SlotRefs;
use crate::smr::stripe::Reader;

/// The data of hooks for each thread, and in each slot.
pub(crate) trait PerThread: Sized {
    type Local: Default;

    /// The holders of a slot, in a cache with handles: elsewhere `()`.
    type Refs: SlotRefs;

    /// Whether an entry's weight is charged until its content is dropped, not only until its
    /// residency ends. May change at any time: read once for each residency that ends.
    #[inline(always)]
    fn charges_orphans(&self) -> bool {
        false
    }

    /// This capacity was requested, by a call that decides.
    #[inline(always)]
    fn asked(&self, _capacity: u64) {}

    /// The queue of entries of the lowest priority, where entries have priorities.
    #[inline(always)]
    fn bottom(&self) -> Option<&Queue> {
        None
    }

    /// Whether to search behind the held entries that an eviction found, after this many failed
    /// attempts.
    #[inline(always)]
    fn may_find_more(&self, _attempts: usize) -> bool {
        false
    }

    /// An eviction has stopped at held entries.
    #[inline(always)]
    fn gave_up(&self) {}

    /// Whether an eviction has stopped at held entries, and few were evicted since.
    #[inline(always)]
    fn gave_up_lately(&self) -> bool {
        false
    }

    /// The same, and new entries are, and have been, admitted beyond the capacity: `in_force`
    /// exceeds the requested capacity.
    #[inline(always)]
    fn admits_beyond(&self, _in_force: u64) -> bool {
        false
    }

    /// Whether an eviction has skipped slots without knowing whether they are held.
    #[inline(always)]
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Finds out whether they are held. The caller holds no stripe.
    #[inline(always)]
    fn find_out<K, V, S>(_: &Core<K, V, S, Self>) {}

    /// An eviction has reached a slot that it could not claim.
    #[inline(always)]
    fn passed_over<K, V, S>(_: &Core<K, V, S, Self>, _: u32) {}

    /// A slot that was claimed for an eviction stays.
    #[inline(always)]
    fn unclaim<K, V, S>(_: &Core<K, V, S, Self>, _: u32) {}
}

/// The work at the steps of an operation, beside the core's own.
///
/// The core calls each hook at the place that its page says (`docs/design/layers.md`), and knows
/// no feature by name. `()` does nothing: an operation is then compiled as if there were no hook.
pub(crate) trait Hooks<K: Hash + Eq, V>: PerThread {
    /// The data of an insertion, for the hook that gets its slot.
    type Incoming;

    /// Lives as long as an operation may end residencies, and around its protection.
    type Operation<'c, S: BuildHasher>: Operation<K, V>
    where
        Self: 'c,
        K: 'c,
        V: 'c,
        S: 'c;

    /// The protection of the slot that an operation reads, one at a time.
    type Look<'c, S>: Protect
    where
        Self: 'c,
        K: 'c,
        V: 'c,
        S: 'c;

    /// A protection for the calling thread, whose reader this is. `None` under another look-up of
    /// the thread: then it pins.
    fn look<'c, S>(core: &'c Core<K, V, S, Self>, reader: &'c Reader) -> Option<Self::Look<'c, S>>;

    /// A second protection, for an entry compared with the one that the first protects.
    fn second_look<'c, S>(
        core: &'c Core<K, V, S, Self>,
        reader: &'c Reader,
    ) -> Option<Self::Look<'c, S>>;

    /// An operation begins that may end residencies.
    fn operation<'c, S: BuildHasher>(core: &'c Core<K, V, S, Self>) -> Self::Operation<'c, S>;

    /// A value that is found without the index. The protection is not reused while the value is
    /// read.
    fn answer<'p, Q: Equivalent<K> + ?Sized, S: BuildHasher>(
        core: &'p Core<K, V, S, Self>,
        protection: &'p impl Protect,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V>;

    /// Whether the entry in a slot is live. Leaves no trace of the check. The slot is protected.
    fn is_live<S: BuildHasher>(core: &Core<K, V, S, Self>, slot: u32) -> bool;

    /// The same for an entry that is being used.
    fn is_live_in_use<S: BuildHasher>(core: &Core<K, V, S, Self>, slot: u32, at: At<'_>) -> bool;

    /// A key of this hash is about to be admitted by an exchange, with this weight. Counts the
    /// request.
    #[cfg(feature = "loading")]
    fn arrived<S>(core: &Core<K, V, S, Self>, hash: u64, weight: u64, incoming: &Self::Incoming);

    /// The priority of a new entry.
    #[inline(always)]
    fn priority(_: &Self::Incoming) -> Priority {
        Priority::Low
    }

    /// Whether the capacity is charged for its weight.
    #[inline(always)]
    fn is_charged(_: &Self::Incoming) -> bool {
        true
    }

    /// A slot was filled, and is about to be published. It is the caller's alone.
    fn admitting<S>(core: &Core<K, V, S, Self>, slot: u32, incoming: &Self::Incoming);

    /// It was not published after all.
    fn withdrawn<S>(core: &Core<K, V, S, Self>, slot: u32, incoming: &Self::Incoming);

    /// A slot was published, and is about to be queued; perhaps in the place of another.
    fn queueing(&self, slot: u32, replaced: Option<u32>);

    /// It was queued.
    fn queued(&self, slot: u32);

    /// Whether an entry may be evicted for a new one.
    #[inline(always)]
    fn may_evict(&self) -> bool {
        true
    }

    /// There may be an entry to evict where there was none: an entry was queued, or a residency has
    /// ended and was counted.
    fn queues_changed(&self);

    /// Whether entries are set aside, out of the policy's sight, and stay resident.
    #[inline(always)]
    fn sets_aside(&self) -> bool {
        false
    }

    /// Whether the hook counts the hit of an entry, and the policy does not learn of it.
    #[inline(always)]
    fn claims(&self, _: &Header) -> bool {
        false
    }

    /// The residency of a slot is about to end: before the exchange of its index word.
    fn before_unlink<S>(core: &Core<K, V, S, Self>, slot: u32);

    /// A residency has ended, right after that exchange. The slot is still protected or taken, so
    /// key and value exist. `charges_orphans` as read for this one. Returns the counted cause, and
    /// whether its credit is free again.
    fn removed<S>(
        core: &Core<K, V, S, Self>,
        slot: u32,
        ending: Ending,
        charges_orphans: bool,
    ) -> (Ending, bool);
}

/// A guard around an operation.
pub(crate) trait Operation<K, V> {
    /// The operation waits until slots are reclaimed, and holds none of them up meanwhile.
    fn pause(&mut self);

    /// It continues.
    fn resume(&mut self);

    /// A new entry was refused that the caller does not want back.
    #[cfg(feature = "loading")]
    fn refuse(&mut self, key: K, value: V);

    /// The operation ends with a refused new entry, which is returned to the caller.
    fn conclude(self, key: K, value: V) -> (K, V);
}

impl PerThread for () {
    type Local = ();
    type Refs = ();
}

impl<K: Hash + Eq, V> Hooks<K, V> for () {
    type Incoming = ();
    type Operation<'c, S: BuildHasher>
        = ()
    where
        K: 'c,
        V: 'c,
        S: 'c;

    type Look<'c, S>
        = Hazard<'c>
    where
        K: 'c,
        V: 'c,
        S: 'c;

    #[inline(always)]
    fn look<'c, S>(_: &'c Core<K, V, S, Self>, reader: &'c Reader) -> Option<Hazard<'c>> {
        Hazard::of(reader)
    }

    #[inline(always)]
    fn second_look<'c, S>(_: &'c Core<K, V, S, Self>, reader: &'c Reader) -> Option<Hazard<'c>> {
        Hazard::second(reader)
    }

    #[inline(always)]
    fn operation<S: BuildHasher>(_: &Core<K, V, S, Self>) {}

    #[inline(always)]
    fn answer<'p, Q: Equivalent<K> + ?Sized, S: BuildHasher>(
        _: &'p Core<K, V, S, Self>,
        _: &'p impl Protect,
        _: u64,
        _: &Q,
    ) -> Option<&'p V> {
        None
    }

    #[inline(always)]
    fn is_live<S: BuildHasher>(_: &Core<K, V, S, Self>, _: u32) -> bool {
        true
    }

    #[inline(always)]
    fn is_live_in_use<S: BuildHasher>(_: &Core<K, V, S, Self>, _: u32, _: At<'_>) -> bool {
        true
    }

    #[cfg(feature = "loading")]
    #[inline(always)]
    fn arrived<S>(core: &Core<K, V, S, Self>, hash: u64, _: u64, (): &()) {
        core.stripe().local.reads.arrive(hash);
    }

    #[inline(always)]
    fn admitting<S>(_: &Core<K, V, S, Self>, _: u32, (): &()) {}

    #[inline(always)]
    fn withdrawn<S>(_: &Core<K, V, S, Self>, _: u32, (): &()) {}

    #[inline(always)]
    fn queueing(&self, _: u32, _: Option<u32>) {}

    #[inline(always)]
    fn queued(&self, _: u32) {}

    #[inline(always)]
    fn queues_changed(&self) {}

    #[inline(always)]
    fn before_unlink<S>(_: &Core<K, V, S, Self>, _: u32) {}

    #[inline(always)]
    fn removed<S>(_: &Core<K, V, S, Self>, _: u32, ending: Ending, _: bool) -> (Ending, bool) {
        (ending, true)
    }
}

impl<K, V> Operation<K, V> for () {
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
