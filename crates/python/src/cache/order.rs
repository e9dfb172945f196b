//! The policies of `frazil_policy`, hosted by a cache.

use std::any::Any;

use frazil_policy::{Eviction, Host, Incoming, Online, Policy, PolicyVisitor, Slot, object_hash};

use super::table::Table;

/// The cache as a policy sees it during one call.
pub(super) struct View<'c> {
    pub(super) table: &'c Table,
    /// Weights by slot; `None` if each is 1.
    pub(super) weights: Option<&'c [u64]>,
    /// Requests reported to the policy so far.
    pub(super) now: u64,
}

/// The hash by which a policy identifies an object.
pub(super) fn identity(hash: u32) -> u64 {
    object_hash(hash.into(), 1)
}

/// [`Policy`] without its types.
pub(super) trait Order: Send {
    /// A resident was requested.
    fn hit(&mut self, view: &View<'_>, slot: Slot);
    /// A new object is about to be inserted: [`evict`](Self::evict) for it until it fits, then
    /// [`insert`](Self::insert).
    fn arrive(&mut self, view: &View<'_>, hash: u64, weight: u64);
    fn evict(&mut self, view: &View<'_>, for_newcomer: bool) -> Eviction;
    fn insert(&mut self, view: &View<'_>, slot: Slot);
    fn remove(&mut self, view: &View<'_>, slot: Slot);
    fn reweigh(&mut self, view: &View<'_>, slot: Slot, before: u64);
    fn set_capacity(&mut self, capacity: u64);
    fn coldest_first(&mut self, view: &View<'_>) -> Vec<Slot>;
}

/// An order that only writers can reach.
pub(super) struct Exclusive(Box<dyn Order>);

// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Exclusive {}

impl Exclusive {
    #[inline(always)]
    pub(super) fn get(&mut self) -> &mut dyn Order {
        &mut *self.0
    }
}

/// A policy for a cache of this capacity.
pub(super) fn new(policy: Online, capacity: u64) -> Exclusive {
    struct Erase;
    impl PolicyVisitor for Erase {
        type Output = Box<dyn Order>;

        fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Box<dyn Order> {
            Box::new(Typed { policy, metas: Vec::new(), newcomer: None })
        }
    }
    Exclusive(policy.visit(capacity, Erase))
}

struct Typed<P: Policy> {
    policy: P,
    /// By slot; empty if metas are marks, which lie in the entries.
    metas: Vec<P::Meta>,
    newcomer: Option<Incoming<P::Pending>>,
}

struct TypedView<'v, 'c, M> {
    view: &'v View<'c>,
    metas: &'v [M],
}

impl<M: 'static> Host<M> for TypedView<'_, '_, M> {
    fn now(&self) -> u64 {
        self.view.now
    }

    #[inline(always)]
    fn meta(&self, slot: Slot) -> &M {
        let mark: &dyn Any = self.view.table.mark(slot);
        mark.downcast_ref().unwrap_or_else(|| &self.metas[slot.index()])
    }

    fn hash(&self, slot: Slot) -> u64 {
        identity(self.view.table.entries[slot.index()].hash)
    }

    #[inline(always)]
    fn weight(&self, slot: Slot) -> u64 {
        self.view.weights.map_or(1, |weights| weights[slot.index()])
    }
}

impl<P: Policy + Clone + Send + 'static> Order for Typed<P> {
    fn hit(&mut self, view: &View<'_>, slot: Slot) {
        self.policy.hit(&mut TypedView { view, metas: &self.metas }, slot);
    }

    fn arrive(&mut self, view: &View<'_>, hash: u64, weight: u64) {
        let pending = self.policy.miss(&mut TypedView { view, metas: &self.metas }, hash, weight);
        self.newcomer = Some(Incoming { hash, weight, pending });
    }

    fn evict(&mut self, view: &View<'_>, for_newcomer: bool) -> Eviction {
        let newcomer = self.newcomer.as_ref().filter(|_| for_newcomer);
        self.policy.evict(&mut TypedView { view, metas: &self.metas }, newcomer)
    }

    fn insert(&mut self, view: &View<'_>, slot: Slot) {
        let lies_in_entry = (view.table.mark(slot) as &dyn Any).is::<P::Meta>();
        if !lies_in_entry && self.metas.len() <= slot.index() {
            self.metas.resize_with(slot.index() + 1, Default::default);
        }
        if let Some(newcomer) = self.newcomer.take() {
            self.policy.insert(&mut TypedView { view, metas: &self.metas }, slot, newcomer);
        }
    }

    fn remove(&mut self, view: &View<'_>, slot: Slot) {
        self.policy.remove(&mut TypedView { view, metas: &self.metas }, slot);
    }

    fn reweigh(&mut self, view: &View<'_>, slot: Slot, before: u64) {
        self.policy.reweigh(&mut TypedView { view, metas: &self.metas }, slot, before);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.policy.set_capacity(capacity);
    }

    fn coldest_first(&mut self, view: &View<'_>) -> Vec<Slot> {
        self.policy.coldest_first(&TypedView { view, metas: &self.metas })
    }
}
