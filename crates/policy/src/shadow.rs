//! The waits of requests if a policy ran the cache: a miniature of the cache under that
//! policy, with its own fetches and without values.
//!
//! The caller may leave out objects by their hashes and lower the capacity in proportion
//! (Waldspurger and others, FAST 2015): [`Shadow::halve`]. A request's wait for its own
//! object's fetch does not depend on other fetches.
//!
//! A request costs one look-up and the policy's work, a fetch also O(log fetches). Some 100 bytes
//! for each object resident or in flight here, plus the policy's own.
//!
//! **Half of the objects are not forgotten at once**: for 28,000 that takes milliseconds, under
//! the lock of the calling cache. Each request checks some. Objects that no longer take part
//! receive no requests; until they are forgotten the capacity includes them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::{Eviction, Host, Incoming, Policy, Slot};

/// Spreads hashes with some equal bits, as for the objects of one shard.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether an object takes part, if one in `1 << halvings` does.
pub(crate) fn takes_part(hash: u64, halvings: u32) -> bool {
    hash.wrapping_mul(SPREAD).leading_zeros() >= halvings
}

/// A request as every shadow receives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) hash: u64,
    pub(crate) weight: u64,
    pub(crate) now: u64,
    /// Duration of a fetch that would begin now, in ticks; `None` if a miss is served at once.
    pub(crate) fetch: Option<u64>,
}

/// Where an object is.
#[derive(Clone, Copy, Debug)]
enum Place<P> {
    Resident(Slot),
    /// It can be hit from `ready` on.
    InFlight {
        ready: u64,
        took: u64,
        incoming: Incoming<P>,
    },
}

/// Number of maps among which objects are divided.
const PARTS: usize = 16;

/// Where objects are, by hash: in several maps, because one map would grow at once, which
/// takes 4 ms for 28,000.
#[derive(Clone, Debug)]
struct Places<P> {
    parts: [HashMap<u64, Place<P>, BuildHasherDefault<DefaultHasher>>; PARTS],
    len: usize,
}

impl<P: Copy> Places<P> {
    fn new() -> Self {
        Places { parts: std::array::from_fn(|_| HashMap::default()), len: 0 }
    }

    /// By other bits than those that decide which objects take part.
    fn part(hash: u64) -> usize {
        (hash.wrapping_mul(SPREAD) >> 32) as usize % PARTS
    }

    fn get(&self, hash: u64) -> Option<&Place<P>> {
        self.parts[Self::part(hash)].get(&hash)
    }

    fn get_mut(&mut self, hash: u64) -> Option<&mut Place<P>> {
        self.parts[Self::part(hash)].get_mut(&hash)
    }

    fn insert(&mut self, hash: u64, place: Place<P>) {
        let replaced = self.parts[Self::part(hash)].insert(hash, place);
        self.len += usize::from(replaced.is_none());
    }

    fn remove(&mut self, hash: u64) -> Option<Place<P>> {
        let removed = self.parts[Self::part(hash)].remove(&hash);
        self.len -= usize::from(removed.is_some());
        removed
    }
}

/// A shadow as the policy's host.
#[derive(Clone, Debug, Default)]
struct Residents {
    now: u64,
    fetch: Option<u64>,
    /// Hash and weight by slot.
    objects: Vec<(u64, u64)>,
}

impl Host<()> for Residents {
    fn now(&self) -> u64 {
        self.now
    }
    fn meta(&self, _: Slot) -> &() {
        &()
    }
    fn hash(&self, slot: Slot) -> u64 {
        self.objects[slot.index()].0
    }
    fn weight(&self, slot: Slot) -> u64 {
        self.objects[slot.index()].1
    }
    fn fetch_ticks(&self) -> Option<u64> {
        self.fetch
    }
}

/// A cache without values under a policy.
#[derive(Clone)]
pub(crate) struct Shadow<P: Policy<Meta = (), Pending: Copy>> {
    policy: P,
    residents: Residents,
    places: Places<P::Pending>,
    /// Time of landing, number of earlier fetches, and hash: the earliest on top.
    landings: BinaryHeap<Reverse<(u64, u64, u64)>>,
    begun: u64,
    vacant: Vec<Slot>,
    held: u64,
    /// Bounds of all present objects and of those that take part: larger and smaller, until all
    /// others are forgotten.
    capacity: u64,
    share: u64,
    /// How often the objects that take part have been halved.
    halvings: u32,
    /// Where to search next for objects that no longer take part: by slot, then in flight.
    next_look: Option<usize>,
}

impl<P: Policy<Meta = (), Pending: Copy>> Shadow<P> {
    pub(crate) fn new(policy: P, capacity: u64) -> Self {
        Shadow {
            policy,
            residents: Residents::default(),
            places: Places::new(),
            landings: BinaryHeap::new(),
            begun: 0,
            vacant: Vec::new(),
            held: 0,
            capacity,
            share: capacity,
            halvings: 0,
            next_look: None,
        }
    }

    /// Objects that are resident or in flight.
    pub(crate) fn len(&self) -> usize {
        self.places.len
    }

    /// How long a request waits here, in ticks; 1 for a miss that is served at once.
    pub(crate) fn request(&mut self, request: Request) -> u64 {
        let Request { hash, weight, now, fetch } = request;
        self.land(now);
        (self.residents.now, self.residents.fetch) = (now, fetch);
        match self.places.get_mut(hash) {
            Some(Place::Resident(slot)) => {
                self.policy.hit(&mut self.residents, *slot);
                0
            }
            Some(Place::InFlight { ready, incoming, .. }) => {
                self.policy.delayed_hit(&mut self.residents, incoming);
                ready.saturating_sub(now)
            }
            None => {
                let pending = self.policy.miss(&mut self.residents, hash, weight);
                let incoming = Incoming { hash, weight, pending };
                let Some(took) = fetch else {
                    self.commit(incoming);
                    return 1;
                };
                let ready = now.saturating_add(took);
                self.places.insert(hash, Place::InFlight { ready, took, incoming });
                self.landings.push(Reverse((ready, self.begun, hash)));
                self.begun += 1;
                took
            }
        }
    }

    /// An object is deleted at the end of a tick. An object in flight is inserted nevertheless.
    pub(crate) fn remove(&mut self, hash: u64, now: u64) {
        self.land(now.saturating_add(1));
        self.forget(hash);
    }

    /// Forgets an object that is resident.
    fn forget(&mut self, hash: u64) {
        if let Some(&Place::Resident(slot)) = self.places.get(hash) {
            self.places.remove(hash);
            self.policy.remove(&mut self.residents, slot);
            self.vacate(slot);
        }
    }

    /// The weight of an object changes.
    pub(crate) fn reweigh(&mut self, hash: u64, weight: u64) {
        if let Some(&Place::Resident(slot)) = self.places.get(hash) {
            let old = std::mem::replace(&mut self.residents.objects[slot.index()].1, weight);
            self.held = self.held.saturating_sub(old).saturating_add(weight);
            self.policy.reweigh(&mut self.residents, slot, old);
        }
    }

    /// Follows a change of the capacity. The surplus is evicted at the next commit, or, while
    /// objects are being forgotten, at the first commit after that.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.share = capacity;
        if self.is_halving() {
            self.capacity = self.capacity.max(capacity);
        } else {
            self.capacity = capacity;
            self.policy.set_capacity(capacity);
        }
    }

    /// From now on half of the objects take part, with another capacity. The others are forgotten
    /// by [`forget_some`](Self::forget_some).
    pub(crate) fn halve(&mut self, capacity: u64) {
        self.halvings += 1;
        self.share = capacity;
        self.next_look = Some(0);
    }

    /// Whether there may be objects that no longer take part.
    pub(crate) fn is_halving(&self) -> bool {
        self.next_look.is_some()
    }

    /// Forgets the objects that no longer take part among the next `looks` objects. O(`looks`).
    pub(crate) fn forget_some(&mut self, looks: usize) {
        let Some(from) = self.next_look else { return };
        self.next_look = Some(from + looks);
        let slots = self.residents.objects.len();
        for at in from..from + looks {
            if let Some(&(hash, _)) = self.residents.objects.get(at) {
                let place = self.places.get(hash).copied();
                // The slot may have another object by now, or none.
                let is_there = matches!(place, Some(Place::Resident(slot)) if slot.index() == at);
                if is_there && !takes_part(hash, self.halvings) {
                    self.forget(hash);
                }
            } else if let Some(&Reverse((.., hash))) = self.landings.as_slice().get(at - slots) {
                // Landings meanwhile move some out of sight: `land` forgets them.
                let place = self.places.get(hash);
                let is_in_flight = matches!(place, Some(Place::InFlight { .. }));
                if is_in_flight && !takes_part(hash, self.halvings) {
                    self.places.remove(hash);
                }
            } else {
                self.next_look = None;
                return self.set_capacity(self.share);
            }
        }
    }

    fn vacate(&mut self, slot: Slot) {
        let (hash, weight) = self.residents.objects[slot.index()];
        self.held = self.held.saturating_sub(weight);
        self.vacant.push(slot);
        if !takes_part(hash, self.halvings) {
            self.capacity = self.capacity.saturating_sub(weight).max(self.share);
        }
    }

    /// Commits the fetches that end by `time`, each with the clock at the last tick of its fetch.
    fn land(&mut self, time: u64) {
        while let Some(&Reverse((ready, _, hash))) = self.landings.peek()
            && ready <= time
        {
            self.landings.pop();
            if let Some(Place::InFlight { took, incoming, .. }) = self.places.remove(hash)
                && takes_part(hash, self.halvings)
            {
                (self.residents.now, self.residents.fetch) = (ready.saturating_sub(1), Some(took));
                self.commit(incoming);
            }
        }
    }

    fn commit(&mut self, incoming: Incoming<P::Pending>) {
        let Incoming { hash, weight, .. } = incoming;
        if weight > self.capacity {
            return;
        }
        while self.held.saturating_add(weight) > self.capacity {
            let Eviction::Victim(victim) = self.policy.evict(&mut self.residents, Some(&incoming))
            else {
                return;
            };
            self.places.remove(self.residents.hash(victim));
            self.vacate(victim);
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.residents.objects.push((0, 0));
            Slot(self.residents.objects.len() as u32 - 1)
        });
        self.residents.objects[slot.index()] = (hash, weight);
        self.held = self.held.saturating_add(weight);
        self.policy.insert(&mut self.residents, slot, incoming);
        self.places.insert(hash, Place::Resident(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lhd, Lru};

    /// The wait of each request, one a tick, with fetches of 3.
    fn waits(shadow: &mut Shadow<Lru>, from: u64, hashes: &[u64]) -> Vec<u64> {
        let request =
            |(now, &hash)| shadow.request(Request { hash, weight: 1, now, fetch: Some(3) });
        (from..).zip(hashes).map(request).collect()
    }

    #[test]
    fn requests_wait_for_what_is_left_of_a_fetch() {
        let mut shadow = Shadow::new(Lru::default(), 2);
        // 8 and 9 land at 5 and 6; then 7 takes the place of 8.
        assert_eq!(waits(&mut shadow, 1, &[7, 8, 9, 9, 8, 9]), [3, 3, 3, 2, 0, 0]);
        assert_eq!(waits(&mut shadow, 7, &[7, 7, 7, 7, 8, 9]), [3, 2, 1, 0, 3, 0]);
        assert_eq!(shadow.len(), 3);
        // At 6 the commit of 9 comes before the request for 7, and 9 takes its place.
        let mut shadow = Shadow::new(Lru::default(), 2);
        assert_eq!(waits(&mut shadow, 1, &[7, 8, 9, 9, 8, 7]), [3, 3, 3, 2, 0, 3]);
    }

    #[test]
    fn where_misses_are_served_at_once_nothing_is_in_flight() {
        let mut shadow = Shadow::new(Lru::default(), 2);
        let served = |&hash: &u64| shadow.request(Request { hash, weight: 1, now: 5, fetch: None });
        let waits: Vec<u64> = [7, 7, 8, 9, 8, 7].iter().map(served).collect();
        assert_eq!(waits, [1, 0, 1, 1, 0, 1]);
    }

    #[test]
    fn what_is_removed_or_left_out_is_forgotten() {
        let mut shadow = Shadow::new(Lru::default(), 4);
        waits(&mut shadow, 1, &[1, 2, 3, 4, 4]);
        shadow.remove(3, 5);
        shadow.remove(1, 5);
        shadow.remove(4, 5);
        // 3 was resident at the end of tick 5; 4 was in flight and is resident now.
        assert_eq!(waits(&mut shadow, 7, &[4, 1, 3]), [0, 3, 3]);
        assert_eq!((shadow.len(), shadow.held, shadow.landings.len()), (4, 2, 2));
    }

    /// A hash that still takes part after a halving, if `is_in`, or one that does not.
    fn hash(number: u64, is_in: bool) -> u64 {
        let mut of_number = (0..).map(|salt| (number << 32) | salt);
        of_number.find(|&hash| takes_part(hash, 1) == is_in).unwrap_or_default()
    }

    /// As if all were forgotten at once, except for the objects in between.
    #[test]
    fn what_takes_part_no_longer_is_forgotten_bit_by_bit() {
        let mut shadow = Shadow::new(Lru::default(), 8);
        let both = (0..8).map(|number| hash(number, number % 2 == 0)).collect::<Vec<_>>();
        waits(&mut shadow, 1, &both);
        // All are resident except the last three, which are in flight.
        assert_eq!((shadow.len(), shadow.held, shadow.landings.len()), (8, 5, 3));
        shadow.halve(4);
        assert!(shadow.is_halving());
        shadow.forget_some(2);
        assert_eq!((shadow.held, shadow.capacity), (4, 7));
        // Object 6 of those in flight is admitted.
        assert_eq!(waits(&mut shadow, 11, &both[6..7]), [0]);
        assert_eq!((shadow.len(), shadow.held), (5, 5), "0, 2, 4, 6 and 3");
        shadow.forget_some(20);
        assert!(!shadow.is_halving());
        let kept: Vec<u64> = both.iter().copied().step_by(2).collect();
        assert_eq!((shadow.len(), shadow.held, shadow.capacity), (4, 4, 4));
        assert_eq!(waits(&mut shadow, 20, &kept), [0; 4]);
        // There is no room for more.
        waits(&mut shadow, 30, &[hash(9, true); 5]);
        assert_eq!((shadow.len(), shadow.held), (4, 4));
    }

    /// While others are being forgotten, the eviction of an object that does not take part frees no
    /// capacity for those that do.
    #[test]
    fn there_is_no_more_room_while_it_is_halved() {
        let mut shadow = Shadow::new(Lru::default(), 8);
        let both = (0..8).map(|number| hash(number, number % 2 == 1)).collect::<Vec<_>>();
        waits(&mut shadow, 1, &both);
        waits(&mut shadow, 20, &both);
        shadow.halve(4);
        // The oldest no longer takes part, the next does: both are evicted for one object.
        waits(&mut shadow, 30, &[hash(9, true); 5]);
        assert_eq!((shadow.held, shadow.capacity), (7, 7));
        assert_eq!(waits(&mut shadow, 40, &[both[3], both[5], both[7]]), [0; 3]);
        shadow.set_capacity(2);
        shadow.forget_some(100);
        assert_eq!((shadow.held, shadow.capacity), (4, 2));
    }

    #[test]
    fn what_is_left_out_is_so_in_the_same_order_each_time() {
        let hash = |now: u64| (now * now).wrapping_mul(SPREAD) >> 51;
        let waited = || {
            let mut shadow = Shadow::new(Lhd::new(1_000, 1), 1_000);
            let mut sum = 0;
            for now in 1..60_000 {
                sum += shadow.request(Request { hash: hash(now), weight: 1, now, fetch: Some(3) });
                if now == 20_000 {
                    shadow.halve(500);
                }
                shadow.forget_some(4);
            }
            sum
        };
        assert_eq!(waited(), waited());
    }

    #[test]
    fn weights_are_kept_to() {
        let mut shadow = Shadow::new(Lru::default(), 4);
        waits(&mut shadow, 1, &[1, 2, 3]);
        shadow.request(Request { hash: 9, weight: 5, now: 10, fetch: Some(1) });
        assert_eq!(shadow.request(Request { hash: 9, weight: 5, now: 20, fetch: Some(1) }), 1);
        shadow.reweigh(1, 3);
        assert_eq!(shadow.held, 5);
        // 1 is evicted for it, because it is the oldest.
        shadow.request(Request { hash: 4, weight: 1, now: 30, fetch: Some(1) });
        assert_eq!(waits(&mut shadow, 40, &[2, 4, 1]), [0, 0, 3]);
        assert_eq!(shadow.held, 3);
    }
}
