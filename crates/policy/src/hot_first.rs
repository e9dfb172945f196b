//! Freezing the hottest residents for a while: the interface that FrozenHot needs of a policy.
//!
//! The hottest objects of a cache get most of its hits. FrozenHot (EuroSys 2023, §3.2.2) serves
//! them from a constant table, without a lock and without bookkeeping, and the policy manages the
//! others in the rest of the capacity. Lists make that cheap: the hottest are at one end and return
//! there later.

use crate::{Host, Policy, Slot};

/// A policy whose hottest residents can be *frozen*, out of the reach of hits and evictions, and
/// put back.
///
/// A host does this in three phases, each in batches of any length:
///
/// 1. It walks the *dynamic* residents (those not frozen) hottest first, with its own cursor, and
///    [freezes](Self::freeze) them one by one, as many as it wants. Meanwhile it reports no hits,
///    so nothing moves towards the hot end; misses, evictions, insertions, removals and changes of
///    weight continue. The host advances its cursor before the slot under it is evicted, removed or
///    frozen. Then it sets the policy's remaining capacity ([`Policy::set_capacity`]).
/// 2. For frozen slots it calls only [`remove_frozen`](Self::remove_frozen) and
///    [`reweigh_frozen`](Self::reweigh_frozen). All other calls continue for the rest, and it
///    may freeze more of them.
/// 3. It [thaws](Self::thaw) all of them, and sets the policy's whole capacity again.
///
/// [`Policy::coldest_first`] lists the dynamic residents in their order, and after them the
/// frozen ones, hottest of all, in the reverse of the order in which they were frozen. With
/// several lists that is list by list, like the walk.
///
/// Each policy defines its order. Frozen objects still count as resident: the host answers for
/// their slots, and their weight is part of the cache's.
///
/// ```
/// use frazil_policy::{Eviction, Host, HotFirst, Incoming, Lru, Policy, Slot};
///
/// struct Ones;
/// impl Host<()> for Ones {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, _: Slot) -> u64 { 1 }
/// }
///
/// let mut lru = Lru::default();
/// for slot in [Slot(0), Slot(1), Slot(2), Slot(3)] {
///     lru.insert(&mut Ones, slot, Incoming { hash: slot.0.into(), weight: 1, pending: () });
/// }
/// // The hotter half. The cursor advances before the slot under it is frozen.
/// let mut cursor = lru.hottest();
/// for _ in 0..2 {
///     let Some(slot) = cursor else { break };
///     cursor = lru.colder(slot);
///     lru.freeze(&mut Ones, slot);
/// }
/// assert_eq!(lru.hottest(), Some(Slot(1)));
/// assert_eq!(lru.coldest_first(&Ones), [Slot(0), Slot(1), Slot(2), Slot(3)]);
///
/// // An entry requested meanwhile is hotter than the frozen ones only until the thaw.
/// lru.hit(&mut Ones, Slot(0));
/// lru.thaw(&mut Ones);
/// assert_eq!(lru.evict(&mut Ones, None), Eviction::Victim(Slot(1)));
/// assert_eq!(lru.coldest_first(&Ones), [Slot(0), Slot(2), Slot(3)]);
/// ```
pub trait HotFirst: Policy {
    /// Whether [`hottest`](Self::hottest) and [`colder`](Self::colder) walk the residents. A
    /// policy without such an order returns `None`: its host takes the order from
    /// [`Policy::coldest_first`] of a copy.
    const WALKS: bool = true;

    /// The first dynamic resident of the walk. O(1).
    fn hottest(&self) -> Option<Slot>;

    /// The dynamic resident that comes after a dynamic one in the walk; `None` after the
    /// last. O(1).
    ///
    /// An uninterrupted walk visits each dynamic resident once. Over several batches it may visit
    /// or miss objects that are inserted or moved meanwhile.
    fn colder(&self, slot: Slot) -> Option<Slot>;

    /// Freezes a dynamic resident as the coldest of the frozen ones. O(1), or O(log n) if the
    /// policy does not [walk](Self::WALKS).
    fn freeze(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot);

    /// Forgets a frozen object: deleted, expired, or replaced. O(1).
    fn remove_frozen(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot);

    /// The weight of a frozen object changed from `old_weight` to the one that the host now
    /// returns. O(1).
    #[inline]
    fn reweigh_frozen(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot, old_weight: u64) {
        let _ = (host, slot, old_weight);
    }

    /// Puts all frozen objects back, in their order, at the hot end of the list that they came
    /// from.
    ///
    /// O(1) except for [`Lfu`](crate::Lfu) and [`Gdsf`](crate::Gdsf), which document their cost. A
    /// part of the policy that then exceeds its bound shrinks as after a change of capacity.
    fn thaw(&mut self, host: &mut impl Host<Self::Meta>);
}
