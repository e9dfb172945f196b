//! ARC: two LRU lists that share the cache, and two ghosts that move the border.
//!
//! T1 holds objects requested once since they came, T2 those requested again.
//! The ghost B1 remembers objects evicted from T1, B2 those evicted from T2. A
//! miss that B1 remembers shows that T1 is too small and raises its target `p`;
//! one that B2 remembers lowers it. Both admit the object to T2. The victim is
//! T1's oldest while T1 exceeds `p`, else T2's (Megiddo and Modha, FAST 2003). T1
//! and B1 together never outweigh the cache, and all four never twice the cache.
//!
//! The paper drops a ghost before each eviction and, where T1 fills the cache,
//! evicts without a ghost. Trimming both ghosts after each insertion leaves the
//! same state and needs no cases. In bytes the target moves by the object's weight
//! times the ratio of the ghosts. The reference moves it by that ratio alone, one
//! byte or little more, so its target hardly leaves 0, which costs it about 1
//! point. Where weights differ, the ghosts get half a cache more than the paper
//! gives them, because one heavy object would displace many light ghosts. Without
//! it one byte row lies 0.8 points above the reference, which forgets one ghost
//! for each eviction, whatever their weights.
//!
//! 9 bytes a slot and the ghosts' 40 to 70 an evicted object, of which there are
//! about as many as residents; O(1) amortised.

use crate::aggregate_delay::{Delays, Keep};
use crate::mad::{by_rank, lowest_in_order, settle};
use crate::{DelayAware, Eviction, History, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

const ONCE: usize = 0;
const AGAIN: usize = 1;
/// Frozen entries of list `l` are in list `FROZEN + l`.
const FROZEN: usize = 2;

/// ARC, the adaptive replacement cache. (`Arc` is another thing in Rust.)
///
/// Hot first is T2 from its head, then T1 from its head: objects requested again, and then objects
/// requested once. It is not the reverse of the order of eviction, in which T2 is between the part
/// of T1 beyond `p` and the rest.
///
/// While some are frozen both ghosts are those of a smaller cache, so ghosts forgotten meanwhile do
/// not move `p` after a thaw.
///
/// ```
/// use frazil_policy::{AdaptiveReplacement, Eviction, Host, Incoming, Policy, Slot};
///
/// struct Ones;
/// impl Host<()> for Ones {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, _: Slot) -> u64 { 1 }
/// }
///
/// let mut arc = AdaptiveReplacement::new(2);
/// for slot in [Slot(0), Slot(1)] {
///     let pending = arc.miss(&mut Ones, slot.0.into(), 1);
///     arc.insert(&mut Ones, slot, Incoming { hash: slot.0.into(), weight: 1, pending });
/// }
/// arc.hit(&mut Ones, Slot(0));
/// assert_eq!(arc.evict(&mut Ones, None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveReplacement {
    /// T1 and T2, and the frozen entries of each.
    lists: Lists<4>,
    /// Which list a slot is in, or was in when it was frozen.
    in_again: Vec<bool>,
    weight: [u64; 2],
    frozen_weight: [u64; 2],
    /// B1 and B2.
    ghosts: History<2, ()>,
    /// The weight that T1 should have: the paper's `p`.
    target: f64,
    capacity: u64,
    /// The weight of the first object, and whether another weighed anything else.
    unit: Option<u64>,
    uneven: bool,
}

/// Which ghost remembered an object at its miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArcGhost {
    /// No ghost.
    None,
    /// B1: it left after one request. Or neither, and it was requested again in flight.
    Once,
    /// B2: it left after more than one.
    Again,
}

impl AdaptiveReplacement {
    /// A policy for a cache of `capacity` in the host's unit of weight.
    pub fn new(capacity: u64) -> Self {
        let mut ghosts = History::new();
        // Bounded in `trim`, by the content of the lists.
        ghosts.set_limits(ONCE, u64::MAX, usize::MAX);
        ghosts.set_limits(AGAIN, u64::MAX, usize::MAX);
        let mut policy = AdaptiveReplacement {
            lists: Lists::new(),
            in_again: Vec::new(),
            weight: [0; 2],
            frozen_weight: [0; 2],
            ghosts,
            target: 0.0,
            capacity: 0,
            unit: None,
            uneven: false,
        };
        policy.set_capacity(capacity);
        policy
    }

    fn list_of(&self, slot: Slot) -> usize {
        usize::from(self.in_again[slot.index()])
    }

    #[inline]
    fn push(&mut self, host: &mut impl Host<()>, list: usize, slot: Slot) {
        self.lists.push_head(list, slot);
        if slot.index() >= self.in_again.len() {
            self.in_again.resize(slot.index() + 1, false);
        }
        self.in_again[slot.index()] = list == AGAIN;
        self.weight[list] += host.weight(slot);
        host.count(Work::Head, 1);
    }

    /// The list to evict from, unless it is empty.
    #[inline]
    fn shrinking(&self, incoming: Option<&Incoming<ArcGhost>>) -> usize {
        let once = self.weight[ONCE] as f64;
        let tie = incoming.is_some_and(|new| new.pending == ArcGhost::Again);
        usize::from(!(once > self.target || (tie && once == self.target)))
    }

    #[inline]
    fn detach(&mut self, host: &mut impl Host<()>, victim: Slot) {
        let list = self.list_of(victim);
        let weight = host.weight(victim);
        self.lists.unlink(victim);
        self.weight[list] -= weight;
        // The surplus is evicted at the next insertion.
        self.ghosts.record(list, host.hash(victim), weight, ());
        host.count(Work::Tail, 1);
        host.count(Work::Ghost, 1);
    }

    /// Forgets the oldest ghosts until the lists keep to their bounds. Returns the number evicted.
    #[inline]
    fn trim(&mut self) -> u32 {
        let [once, again] = self.weight;
        let slack = if self.uneven { self.capacity / 2 } else { 0 };
        let mut forgotten = 0;
        let room = self.capacity.saturating_add(slack).saturating_sub(once);
        while self.ghosts.weight(ONCE) > room {
            self.ghosts.forget_oldest(ONCE);
            forgotten += 1;
        }
        let others = (once + again).saturating_add(self.ghosts.weight(ONCE));
        let room = self.capacity.saturating_mul(2).saturating_add(slack).saturating_sub(others);
        while self.ghosts.weight(AGAIN) > room {
            self.ghosts.forget_oldest(AGAIN);
            forgotten += 1;
        }
        forgotten
    }
}

impl Policy for AdaptiveReplacement {
    type Meta = ();
    type Pending = ArcGhost;

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.lists.head(AGAIN) == Some(slot) {
            return;
        }
        self.lists.move_to_head(AGAIN, slot);
        if !self.in_again[slot.index()] {
            self.in_again[slot.index()] = true;
            let weight = host.weight(slot);
            self.weight[ONCE] -= weight;
            self.weight[AGAIN] += weight;
        }
        host.count(Work::Delink, 1);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) -> ArcGhost {
        // Both ghosts share one table, so one look-up covers both.
        host.count(Work::Ghost, 1);
        let [once, again] = [self.ghosts.weight(ONCE) as f64, self.ghosts.weight(AGAIN) as f64];
        match self.ghosts.take(hash) {
            Some((ONCE, ())) => {
                let step = (again / once).max(1.0) * weight as f64;
                self.target = (self.target + step).min(self.capacity as f64);
                ArcGhost::Once
            }
            Some(_) => {
                let step = (once / again).max(1.0) * weight as f64;
                self.target = (self.target - step).max(0.0);
                ArcGhost::Again
            }
            None => ArcGhost::None,
        }
    }

    #[inline]
    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<ArcGhost>>,
    ) -> Eviction {
        let first = self.shrinking(incoming);
        let preferred = self.lists.tail(first);
        let Some(victim) = preferred.or_else(|| self.lists.tail(1 - first)) else {
            return Eviction::Empty;
        };
        self.detach(host, victim);
        Eviction::Victim(victim)
    }

    /// An object requested twice before its insertion belongs in T2, as after a hit.
    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<ArcGhost>) {
        if incoming.pending == ArcGhost::None {
            incoming.pending = ArcGhost::Once;
        }
    }

    // Always: a call would cost 8 instructions more a request.
    #[inline(always)]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<ArcGhost>) {
        let list = if incoming.pending == ArcGhost::None { ONCE } else { AGAIN };
        self.uneven |= *self.unit.get_or_insert(incoming.weight) != incoming.weight;
        self.push(host, list, slot);
        let forgotten = self.trim();
        host.count(Work::Ghost, forgotten);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lists.unlink(slot);
        self.weight[self.list_of(slot)] -= host.weight(slot);
        host.count(Work::Delink, 1);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let list = self.list_of(slot);
        self.weight[list] = self.weight[list] - old_weight + host.weight(slot);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.target = self.target.min(capacity as f64);
        self.trim();
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let surplus = self.weight[ONCE].saturating_sub(self.target as u64);
        let mut order = self.lists.from_tails([ONCE, AGAIN], surplus, |slot| host.weight(slot));
        order.append(&mut self.lists.in_order(&[ONCE, AGAIN].map(|list| FROZEN + list)));
        order
    }
}

impl DelayAware for AdaptiveReplacement {
    fn evict_by(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<ArcGhost>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction {
        let (first, mut looked) = (self.shrinking(incoming), 0);
        // Both lists are in the order of last requests: `settle` sees to that.
        let mut of = |list| {
            let (least, of_list) = lowest_in_order(self.lists.from_tail(list), delays);
            looked += of_list;
            least
        };
        let preferred = of(first);
        let Some((_, victim)) = preferred.or_else(|| of(1 - first)) else {
            return Eviction::Empty;
        };
        host.count(Work::Sample, looked);
        self.detach(host, victim);
        Eviction::Victim(victim)
    }

    fn settle(&mut self, slot: Slot, delays: &Delays<'_, impl Keep>) {
        settle(&mut self.lists, slot, delays);
    }

    fn coldest_by(&self, host: &impl Host<()>, delays: &Delays<'_, impl Keep>) -> Vec<Slot> {
        let ranked = [ONCE, AGAIN].map(|list| by_rank(self.lists.in_order(&[list]), delays));
        let mut rest = ranked.map(Vec::into_iter);
        let (mut once, mut order) = (self.weight[ONCE], Vec::new());
        loop {
            let first = usize::from(once as f64 <= self.target);
            let list = if rest[first].len() > 0 { first } else { 1 - first };
            let Some(slot) = rest[list].next() else { break };
            // Objects may have become heavier since `self` was copied.
            once = once.saturating_sub(if list == ONCE { host.weight(slot) } else { 0 });
            order.push(slot);
        }
        order
    }
}

impl HotFirst for AdaptiveReplacement {
    fn hottest(&self) -> Option<Slot> {
        self.lists.head_below(AGAIN + 1)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.lists.older(slot).or_else(|| self.lists.head_below(self.list_of(slot)))
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let (list, weight) = (self.list_of(slot), host.weight(slot));
        self.lists.move_to_tail(FROZEN + list, slot);
        self.weight[list] -= weight;
        self.frozen_weight[list] += weight;
        host.count(Work::Delink, 1);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lists.unlink(slot);
        self.frozen_weight[self.list_of(slot)] -= host.weight(slot);
        host.count(Work::Delink, 1);
    }

    fn reweigh_frozen(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let list = self.list_of(slot);
        self.frozen_weight[list] = self.frozen_weight[list] - old_weight + host.weight(slot);
    }

    fn thaw(&mut self, host: &mut impl Host<()>) {
        for list in [ONCE, AGAIN] {
            self.lists.splice_all(FROZEN + list, list);
            self.weight[list] += std::mem::take(&mut self.frozen_weight[list]);
            host.count(Work::Head, 1);
        }
    }
}
