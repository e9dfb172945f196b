//! A policy of any type, behind the interface that the cache uses.
//!
//! Only code that needs the policy's type is here: it is compiled for each of them.

use std::any::Any;

use frazil_policy::{
    Eviction, Host, HotFirst, Incoming, Online, Policy, PolicyVisitor, Priority, Slot, Work,
};

use super::Caller;
use super::policy_shard::{Table, seen};

/// The cache as a policy sees it during one call, without the metas.
pub(super) struct View<'c> {
    pub(super) caller: &'c Caller<'c>,
    pub(super) table: &'c Table,
    pub(super) now: u64,
    /// Duration of the new entry's fetch, if it was fetched.
    pub(super) fetch: Option<u64>,
    /// Writes to the neighbours of entries moved in lists.
    pub(super) writes: u64,
}

impl View<'_> {
    /// Not inlined: all policies call it, and it makes a call anyway.
    #[inline(never)]
    pub(super) fn weight(&self, place: Slot) -> u64 {
        seen(self.caller.headers.weight(self.table.slots[place.index()]))
    }
}

/// The same, metas included.
struct TypedView<'v, 'c, M> {
    view: &'v mut View<'c>,
    metas: &'v [M],
}

impl<M: 'static> Host<M> for TypedView<'_, '_, M> {
    fn now(&self) -> u64 {
        self.view.now
    }

    /// A mark lies in the slot's header and a time among the stamps, because readers look
    /// at them without the lock; all else beside the place.
    #[inline(always)]
    fn meta(&self, place: Slot) -> &M {
        let slot = self.view.table.slots[place.index()];
        let mark: &dyn Any = &self.view.caller.headers.header(slot).mark;
        if let Some(mark) = mark.downcast_ref() {
            return mark;
        }
        let stamp = self.view.caller.stamps.map(|stamps| stamps.get_or_make(slot) as &dyn Any);
        stamp.and_then(|stamp| stamp.downcast_ref()).unwrap_or_else(|| &self.metas[place.index()])
    }

    fn hash(&self, place: Slot) -> u64 {
        self.view.table.hashes.get(place.index()).copied().unwrap_or_default()
    }

    fn weight(&self, place: Slot) -> u64 {
        self.view.weight(place)
    }

    fn fetch_ticks(&self) -> Option<u64> {
        self.view.fetch.or_else(|| self.view.table.usual_fetch())
    }

    #[inline(always)]
    fn count(&mut self, work: Work, times: u32) {
        if matches!(work, Work::Delink | Work::Head | Work::Tail) {
            self.view.writes += 2 * u64::from(times);
        }
        #[cfg(feature = "measure")]
        if let Some(turns) = self.view.caller.turns {
            turns.spend(work, times);
        }
    }
}

/// [`Policy`] without associated types: its data of new entries are kept with it, by ticket.
pub(super) trait AnyPolicy: Send {
    /// [`Policy::REMEMBERS`].
    fn remembers(&self) -> bool;
    fn hit(&mut self, view: &mut View<'_>, place: Slot);
    fn miss(&mut self, view: &mut View<'_>, hash: u64, weight: u64, ticket: u32);
    fn delayed_hit(&mut self, view: &mut View<'_>, ticket: u32);
    fn evict(&mut self, view: &mut View<'_>, ticket: Option<u32>) -> Eviction;
    fn insert(&mut self, view: &mut View<'_>, place: Slot, ticket: u32, priority: Priority);
    fn remove(&mut self, view: &mut View<'_>, place: Slot);
    fn reweigh(&mut self, view: &mut View<'_>, place: Slot, old_weight: u64);
    fn set_capacity(&mut self, capacity: u64);
    /// The same order; metas begin anew, without data of new entries.
    fn copy(&self) -> Box<dyn AnyPolicy>;
    fn coldest_first(&self, view: &mut View<'_>) -> Vec<Slot>;
    /// `None` for a policy that cannot set entries aside.
    fn hot_first(&mut self) -> Option<&mut dyn AnyHotFirst>;
    /// Bytes on the heap, beside the policy's own.
    fn heap_bytes(&self) -> usize;
}

/// [`HotFirst`] without associated types.
pub(super) trait AnyHotFirst {
    /// Whether it walks its order itself.
    #[cfg(feature = "freezing")]
    fn walks(&self) -> bool;
    /// The hottest, or the next colder one.
    fn next(&self, place: Option<Slot>) -> Option<Slot>;
    #[cfg(feature = "freezing")]
    fn set_aside(&mut self, view: &mut View<'_>, place: Slot);
    fn remove_aside(&mut self, view: &mut View<'_>, place: Slot);
    fn reweigh_aside(&mut self, view: &mut View<'_>, place: Slot, old_weight: u64);
    #[cfg(feature = "freezing")]
    fn take_back(&mut self, view: &mut View<'_>);
}

/// A policy, and the data with its types.
struct Typed<P: Policy> {
    policy: P,
    /// By place; of size 0, or unused, where the meta lies elsewhere.
    metas: Vec<P::Meta>,
    /// Its data of new entries.
    awaited: Vec<Option<Incoming<P::Pending>>>,
    /// A type cannot tell this, so the constructor sets it.
    hot_first: Option<AsHotFirst<P>>,
}

type AsHotFirst<P> = fn(&mut Typed<P>) -> &mut dyn AnyHotFirst;

/// Makes a policy that takes a lock, for a shard of this capacity.
pub(super) fn new(policy: Online, capacity: u64) -> Box<dyn AnyPolicy> {
    policy.visit(capacity, Erase)
}

/// Erases the type of a policy.
struct Erase;

impl PolicyVisitor for Erase {
    type Output = Box<dyn AnyPolicy>;

    fn visit<P: Policy + Clone + Send + 'static>(self, policy: P) -> Self::Output {
        Typed::boxed(policy, 0, None)
    }

    #[cfg(not(feature = "measure"))]
    fn visit_queue<P: Policy + Clone + Send + 'static>(self, _: P) -> Self::Output {
        unreachable!("it takes no lock");
    }

    #[cfg(feature = "freezing")]
    fn visit_hot_first<P: HotFirst + Clone + Send + 'static>(self, policy: P) -> Self::Output {
        Typed::boxed(policy, 0, Some(|typed| typed))
    }
}

impl<P: Policy + Clone + Send + 'static> Typed<P> {
    #[inline(never)]
    fn boxed(policy: P, places: usize, hot_first: Option<AsHotFirst<P>>) -> Box<dyn AnyPolicy> {
        let mut metas = Vec::new();
        metas.resize_with(places, Default::default);
        Box::new(Typed { policy, metas, awaited: Vec::new(), hot_first })
    }
}

impl<P: Policy + Clone + Send + 'static> AnyPolicy for Typed<P> {
    fn remembers(&self) -> bool {
        P::REMEMBERS
    }

    fn hit(&mut self, view: &mut View<'_>, place: Slot) {
        self.policy.hit(&mut TypedView { view, metas: &self.metas }, place);
    }

    fn miss(&mut self, view: &mut View<'_>, hash: u64, weight: u64, ticket: u32) {
        let pending = self.policy.miss(&mut TypedView { view, metas: &self.metas }, hash, weight);
        let ticket = ticket as usize;
        if self.awaited.len() <= ticket {
            self.awaited.resize_with(ticket + 1, Default::default);
        }
        self.awaited[ticket] = Some(Incoming { hash, weight, pending });
    }

    fn delayed_hit(&mut self, view: &mut View<'_>, ticket: u32) {
        if let Some(incoming) = &mut self.awaited[ticket as usize] {
            self.policy.delayed_hit(&mut TypedView { view, metas: &self.metas }, incoming);
        }
    }

    fn evict(&mut self, view: &mut View<'_>, ticket: Option<u32>) -> Eviction {
        let incoming = ticket.and_then(|ticket| self.awaited[ticket as usize].as_ref());
        self.policy.evict(&mut TypedView { view, metas: &self.metas }, incoming)
    }

    fn insert(&mut self, view: &mut View<'_>, place: Slot, ticket: u32, priority: Priority) {
        if self.metas.len() <= place.index() {
            self.metas.resize_with(place.index() + 1, Default::default);
        }
        let incoming = self.awaited[ticket as usize].take().expect("it was missed");
        let mut view = TypedView { view, metas: &self.metas };
        self.policy.insert_with(&mut view, place, incoming, priority);
    }

    fn remove(&mut self, view: &mut View<'_>, place: Slot) {
        self.policy.remove(&mut TypedView { view, metas: &self.metas }, place);
    }

    fn reweigh(&mut self, view: &mut View<'_>, place: Slot, old_weight: u64) {
        self.policy.reweigh(&mut TypedView { view, metas: &self.metas }, place, old_weight);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.policy.set_capacity(capacity);
    }

    fn copy(&self) -> Box<dyn AnyPolicy> {
        Typed::boxed(self.policy.copy_of_order(), self.metas.len(), None)
    }

    fn coldest_first(&self, view: &mut View<'_>) -> Vec<Slot> {
        self.policy.coldest_first(&TypedView { view, metas: &self.metas })
    }

    fn hot_first(&mut self) -> Option<&mut dyn AnyHotFirst> {
        self.hot_first.map(|hot_first| hot_first(self))
    }

    fn heap_bytes(&self) -> usize {
        self.metas.capacity() * size_of::<P::Meta>()
            + self.awaited.capacity() * size_of::<Option<Incoming<P::Pending>>>()
    }
}

impl<P: HotFirst<Meta: 'static>> AnyHotFirst for Typed<P> {
    #[cfg(feature = "freezing")]
    fn walks(&self) -> bool {
        P::WALKS
    }

    fn next(&self, place: Option<Slot>) -> Option<Slot> {
        place.map_or_else(|| self.policy.hottest(), |place| self.policy.colder(place))
    }

    #[cfg(feature = "freezing")]
    fn set_aside(&mut self, view: &mut View<'_>, place: Slot) {
        self.policy.freeze(&mut TypedView { view, metas: &self.metas }, place);
    }

    fn remove_aside(&mut self, view: &mut View<'_>, place: Slot) {
        self.policy.remove_frozen(&mut TypedView { view, metas: &self.metas }, place);
    }

    fn reweigh_aside(&mut self, view: &mut View<'_>, place: Slot, old_weight: u64) {
        self.policy.reweigh_frozen(&mut TypedView { view, metas: &self.metas }, place, old_weight);
    }

    #[cfg(feature = "freezing")]
    fn take_back(&mut self, view: &mut View<'_>) {
        self.policy.thaw(&mut TypedView { view, metas: &self.metas });
    }
}
