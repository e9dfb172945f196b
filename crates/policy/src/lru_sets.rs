//! LRU in sets, as hardware caches have it: evicts the object of the newcomer's set that was
//! not requested for longest.
//!
//! An object's set follows from its hash. The policy serves [`Mad`](crate::Mad), which in
//! paper 5's prototype scans a set of 64 for its victim. The scan is that short however large
//! the cache is, and nothing is random.
//!
//! A host counts the weight of the whole cache and requests a victim only when that is too
//! large. So sets differ in size: each keeps the number of objects that it had when the cache
//! was first full, and lends the capacity of deleted ones to others. Whenever the mean exceeds
//! `ways`, the number of sets doubles, so the mean is from half of `ways` to `ways`.
//!
//! 4 to 8 bytes a slot and 8 beside the entry. A hit is O(1), a removal and an eviction
//! O(ways); O(residents) each time their number has doubled.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::aggregate_delay::{Delays, Keep};
use crate::mad::by_rank;
use crate::ranked::lowest_first_stable;
use crate::{DelayAware, Eviction, Host, Incoming, Policy, Slot, Work};

/// The least recently used of a set.
///
/// ```
/// use frazil_policy::LruSets;
/// let as_in_the_paper = LruSets::new(64);
/// ```
#[derive(Clone, Debug)]
pub struct LruSets {
    /// The sets; their number is a power of two.
    sets: Vec<Vec<Slot>>,
    /// Number of slots in all sets.
    len: usize,
    ways: u8,
    /// The next set to give a victim if there is no new object.
    hand: u64,
}

impl LruSets {
    /// Sets of at most `ways` objects on the mean; at least 1.
    pub fn new(ways: u8) -> Self {
        LruSets { sets: vec![Vec::new()], len: 0, ways: ways.max(1), hand: 0 }
    }

    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    fn add(&mut self, host: &impl Host<AtomicU64>, slot: Slot) {
        if self.len >= usize::from(self.ways) * self.sets.len() {
            self.double(host);
        }
        let set = self.set_of(host.hash(slot));
        self.sets[set].push(slot);
        self.len += 1;
    }

    fn double(&mut self, host: &impl Host<AtomicU64>) {
        let bit = self.sets.len();
        for set in 0..bit {
            let (stay, go) =
                self.sets[set].iter().partition(|&&slot| host.hash(slot) as usize & bit == 0);
            self.sets[set] = stay;
            self.sets.push(go);
        }
    }

    /// Takes the lowest of the new object's set, or of the next that is not empty.
    fn take<H: Host<AtomicU64>>(
        &mut self,
        host: &mut H,
        incoming: Option<&Incoming<()>>,
        rank: impl Fn(&H, Slot) -> (f64, u64),
    ) -> Eviction {
        if self.len == 0 {
            return Eviction::Empty;
        }
        let first = self.set_of(incoming.map_or(self.hand, |incoming| incoming.hash));
        self.hand = self.hand.wrapping_add(u64::from(incoming.is_none()));
        let around = (first..self.sets.len()).chain(0..first);
        for set in around {
            let slots = &mut self.sets[set];
            let ranks = slots.iter().map(|&slot| rank(host, slot)).enumerate();
            let least = ranks
                .min_by(|(_, one), (_, other)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            if let Some((place, _)) = least {
                host.count(Work::Sample, slots.len() as u32);
                self.len -= 1;
                return Eviction::Victim(slots.swap_remove(place));
            }
        }
        Eviction::Empty
    }

    fn all(&self) -> impl Iterator<Item = Slot> {
        self.sets.iter().flatten().copied()
    }
}

impl Policy for LruSets {
    /// When the object was last requested.
    type Meta = AtomicU64;
    type Pending = ();

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<AtomicU64>, slot: Slot) {
        host.meta(slot).store(host.now(), Relaxed);
        host.count(Work::Mark, 1);
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<AtomicU64>, _hash: u64, _weight: u64) {}

    fn evict(
        &mut self,
        host: &mut impl Host<AtomicU64>,
        incoming: Option<&Incoming<()>>,
    ) -> Eviction {
        self.take(host, incoming, |host, slot| (0.0, host.meta(slot).load(Relaxed)))
    }

    fn insert(&mut self, host: &mut impl Host<AtomicU64>, slot: Slot, _incoming: Incoming<()>) {
        host.meta(slot).store(host.now(), Relaxed);
        self.add(host, slot);
    }

    fn remove(&mut self, host: &mut impl Host<AtomicU64>, slot: Slot) {
        let set = self.set_of(host.hash(slot));
        if let Some(place) = self.sets[set].iter().position(|&other| other == slot) {
            self.sets[set].swap_remove(place);
            self.len -= 1;
        }
    }

    fn coldest_first(&self, host: &impl Host<AtomicU64>) -> Vec<Slot> {
        let last = |slot| host.meta(slot).load(Relaxed);
        lowest_first_stable(self.all().map(|slot| (last(slot), slot)).collect())
    }
}

impl DelayAware for LruSets {
    fn evict_by(
        &mut self,
        host: &mut impl Host<AtomicU64>,
        incoming: Option<&Incoming<()>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction {
        self.take(host, incoming, |_, slot| (delays.rank(slot), delays.last(slot)))
    }

    fn coldest_by(
        &self,
        _host: &impl Host<AtomicU64>,
        delays: &Delays<'_, impl Keep>,
    ) -> Vec<Slot> {
        by_rank(self.sets.concat(), delays)
    }
}
