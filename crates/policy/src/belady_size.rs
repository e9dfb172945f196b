//! Belady for objects of different weight: evicts heavy objects that are requested late.
//!
//! An object occupies capacity until its next request, so the most expensive one is
//! evicted: the largest `distance to the next request × weight`, where never is
//! furthest. The newcomer is a candidate like any other and is refused if it costs
//! most. Greedy, and it knows the future, so it runs in the simulator only.
//!
//! The order by that product changes as time passes, but not among objects of the
//! same weight. So residents are kept in weight classes an eighth wide, each ordered
//! by next request, and the furthest of each class are compared by their true
//! products. With equal weights that is exactly Belady's MIN with bypass. The
//! reference takes the largest product of 128 residents chosen by chance and refuses
//! only objects never requested again; this one draws no sample and misses up to 2
//! points less.
//!
//! O(log n) a request, and O(log n) for each class in use at an eviction (at most 8
//! for each doubling of the weight). About 20 bytes a resident, 4 a slot, and 4 a
//! request for the future.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::belady::Future;
use crate::buckets::bucket_of;
use crate::{Eviction, Host, Incoming, NEVER, Policy, Slot, Work};

/// Belady by size.
///
/// ```
/// use frazil_policy::{BeladySize, Eviction, Host, Incoming, NEVER, Policy, Slot};
///
/// struct Weights([u64; 2]);
/// impl Host<()> for Weights {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, slot: Slot) -> u64 { self.0[slot.index()] }
/// }
///
/// let mut host = Weights([1, 10]);
/// // Requests: a, b, b, …, a.
/// let mut belady = BeladySize::new([5, 2, 3, 4, NEVER, NEVER].into());
/// for slot in [Slot(0), Slot(1)] {
///     let (hash, weight) = (host.hash(slot), host.weight(slot));
///     let pending = belady.miss(&mut host, hash, weight);
///     belady.insert(&mut host, slot, Incoming { hash, weight, pending });
/// }
/// // Object a is requested later, but b takes ten times the room.
/// assert_eq!(belady.evict(&mut host, None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug)]
pub struct BeladySize {
    future: Future,
    /// Residents of each class by next request.
    classes: Vec<BTreeSet<(u32, Slot)>>,
    /// Next request of each resident.
    next: Vec<u32>,
}

impl BeladySize {
    /// A policy that will receive `next.len()` requests, in order, as
    /// [`Belady::new`](crate::Belady::new).
    pub fn new(next: Arc<[u32]>) -> Self {
        BeladySize { future: Future::new(next), classes: Vec::new(), next: Vec::new() }
    }

    fn link(&mut self, host: &mut impl Host<()>, slot: Slot, next: u32) {
        let class = bucket_of(host.weight(slot));
        if class >= self.classes.len() {
            self.classes.resize_with(class + 1, BTreeSet::new);
        }
        if slot.index() >= self.next.len() {
            self.next.resize(slot.index() + 1, NEVER);
        }
        self.next[slot.index()] = next;
        self.classes[class].insert((next, slot));
        self.count(host, class);
    }

    fn unlink(&mut self, host: &mut impl Host<()>, slot: Slot, weight: u64) {
        let class = bucket_of(weight);
        self.classes[class].remove(&(self.next[slot.index()], slot));
        self.count(host, class);
    }

    fn count(&self, host: &mut impl Host<()>, class: usize) {
        let len = self.classes[class].len() as u64 + 1;
        host.count(Work::Heap, u64::BITS - len.leading_zeros());
    }

    /// The cost of keeping an object until its next request. An object that is not requested again
    /// costs most.
    fn cost(&self, next: u32, weight: u64) -> u128 {
        match next {
            NEVER => u128::MAX,
            _ => u128::from(self.future.distance(next)) * u128::from(weight.max(1)),
        }
    }

    /// The resident that costs most, one of the heaviest among equals.
    fn dearest(&self, host: &mut impl Host<()>) -> Option<(u128, Slot)> {
        let mut dearest = None;
        for class in self.classes.iter().rev() {
            let Some(&(next, slot)) = class.last() else { continue };
            host.count(Work::Skip, 1);
            let cost = self.cost(next, host.weight(slot));
            if dearest.is_none_or(|(most, _)| cost > most) {
                dearest = Some((cost, slot));
            }
        }
        dearest
    }
}

impl Policy for BeladySize {
    type Meta = ();
    /// Position of the new object's next request.
    type Pending = u32;

    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let next = self.future.advance();
        let weight = host.weight(slot);
        self.unlink(host, slot, weight);
        self.link(host, slot, next);
    }

    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) -> u32 {
        self.future.advance()
    }

    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<u32>) {
        incoming.pending = self.future.advance();
    }

    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<u32>>) -> Eviction {
        let Some((most, victim)) = self.dearest(host) else {
            return Eviction::Empty;
        };
        if incoming.is_some_and(|new| self.cost(new.pending, new.weight) >= most) {
            return Eviction::Refuse;
        }
        let weight = host.weight(victim);
        self.unlink(host, victim, weight);
        Eviction::Victim(victim)
    }

    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<u32>) {
        self.link(host, slot, incoming.pending);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let weight = host.weight(slot);
        self.unlink(host, slot, weight);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        self.unlink(host, slot, old_weight);
        self.link(host, slot, self.next[slot.index()]);
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let classes = self.classes.iter().map(|class| class.iter().copied().collect());
        let mut classes: Vec<Vec<(u32, Slot)>> = classes.collect();
        let cost = |&(next, slot): &(u32, Slot)| self.cost(next, host.weight(slot));
        let dearest = || {
            // The last of equals, as in `dearest`: one of the heaviest.
            let class = classes.iter_mut().max_by_key(|class| class.last().map(cost))?;
            class.pop().map(|(_, slot)| slot)
        };
        std::iter::from_fn(dearest).collect()
    }
}
