//! The interface that every eviction policy implements and every host calls.

use crate::{Host, Priority, Slot};

/// Decision of [`Policy::evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// This slot is the victim, already detached from the policy. A host that cannot evict it after
    /// all inserts it again like any other object.
    Victim(Slot),
    /// The new object ranks below the objects that it would displace: it is not admitted.
    Refuse,
    /// Nothing is resident.
    Empty,
}

/// An object between its miss and its admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming<P> {
    /// Seeded hash of its original id ([`crate::object_hash`]).
    pub hash: u64,
    /// Its weight in the unit of the capacity.
    pub weight: u64,
    /// The policy's data of it ([`Policy::Pending`]).
    pub pending: P,
}

/// An eviction policy: an order over slots, which is notified of every request.
///
/// Each request is exactly one of [`hit`](Policy::hit), [`miss`](Policy::miss) or
/// [`delayed_hit`](Policy::delayed_hit). After a miss (at once, or when a fetch has ended) the host
/// calls [`evict`](Policy::evict) until the new object fits, then [`insert`](Policy::insert). An
/// overwrite is a hit, followed by [`reweigh`](Policy::reweigh) if the weight changed.
///
/// All calls take `&mut self`: the host serialises them.
pub trait Policy {
    /// The policy's data that the host keeps beside each entry. Marks are atomics with relaxed
    /// accesses, so that readers may set them.
    type Meta: Default + Send + Sync;

    /// The policy's data of an object that is not resident yet: nothing (`()`), a ghost hit, or the
    /// counters of a fetch in flight.
    type Pending: Send;

    /// Whether the policy remembers objects after their eviction (ghosts, sketches), and so calls
    /// [`Host::hash`]. A host keeps hashes only for such policies.
    const REMEMBERS: bool = false;

    /// The object in `slot` was requested.
    fn hit(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot);

    /// An object that is neither resident nor being fetched was requested.
    fn miss(&mut self, host: &mut impl Host<Self::Meta>, hash: u64, weight: u64) -> Self::Pending;

    /// An object was requested again while its fetch is under way.
    #[inline]
    fn delayed_hit(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        incoming: &mut Incoming<Self::Pending>,
    ) {
        let _ = (host, incoming);
    }

    /// Chooses and detaches a victim. With an incoming object the policy may refuse that object
    /// instead; with `None` (a resident has grown, the capacity has shrunk) it may not.
    ///
    /// It ends after a bounded number of steps even if readers set marks meanwhile.
    fn evict(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        incoming: Option<&Incoming<Self::Pending>>,
    ) -> Eviction;

    /// Admits an object into a free slot. The host has filled in the slot's hash
    /// and weight; the policy resets its meta.
    fn insert(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        slot: Slot,
        incoming: Incoming<Self::Pending>,
    );

    /// Admits an object as [`insert`](Policy::insert) does, with a priority. A policy without
    /// priorities ignores it.
    #[inline]
    fn insert_with(
        &mut self,
        host: &mut impl Host<Self::Meta>,
        slot: Slot,
        incoming: Incoming<Self::Pending>,
        priority: Priority,
    ) {
        let _ = priority;
        self.insert(host, slot, incoming);
    }

    /// Forgets a resident object: deleted, expired, or replaced.
    fn remove(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot);

    /// The weight of a resident object changed from `old_weight` to the one that the host now
    /// returns. The host evicts to fit afterwards.
    #[inline]
    fn reweigh(&mut self, host: &mut impl Host<Self::Meta>, slot: Slot, old_weight: u64) {
        let _ = (host, slot, old_weight);
    }

    /// The capacity changed. The host evicts to fit afterwards.
    #[inline]
    fn set_capacity(&mut self, capacity: u64) {
        let _ = capacity;
    }

    /// The residents in the order of their eviction if there were no more requests: the coldest
    /// first, each resident exactly once.
    ///
    /// Marks count as they are now. If the policy decides at random or by experts, it is the usual
    /// order: by the rank that samples compare, or by the expert that decides more often.
    ///
    /// A host may release the policy's lock and call a copy of the policy. If weights or marks
    /// change meanwhile the order is slightly wrong, without other consequences; but the host must
    /// answer for every slot that was resident. O(n) or O(n log n), and as much memory.
    ///
    /// ```
    /// use frazil_policy::{Host, Incoming, Lru, Policy, Slot};
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
    /// for slot in [Slot(0), Slot(1), Slot(2)] {
    ///     lru.miss(&mut Ones, slot.0.into(), 1);
    ///     lru.insert(&mut Ones, slot, Incoming { hash: slot.0.into(), weight: 1, pending: () });
    /// }
    /// lru.hit(&mut Ones, Slot(0));
    /// assert_eq!(lru.coldest_first(&Ones), [Slot(1), Slot(2), Slot(0)]);
    /// ```
    fn coldest_first(&self, host: &impl Host<Self::Meta>) -> Vec<Slot>;

    /// A copy for [`coldest_first`](Self::coldest_first) that receives no requests: made under the
    /// policy's lock, so without large parts that the order does not need.
    fn copy_of_order(&self) -> Self
    where
        Self: Clone,
    {
        self.clone()
    }
}
