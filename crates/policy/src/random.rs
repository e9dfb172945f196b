//! Random: evicts any resident, each equally likely.
//!
//! It records no requests, so a hit costs nothing. On loops longer than the
//! cache it beats LRU; where requests favour some objects it loses to all
//! policies that record them. 8 bytes a slot, O(1).

use crate::{Eviction, Host, Incoming, Policy, Rng, Slot, SlotPool, Work};

/// Evicts at random.
///
/// ```
/// use frazil_policy::Random;
/// let policy = Random::new(1);
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    residents: SlotPool,
    rng: Rng,
}

impl Random {
    /// Victims follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Random { residents: SlotPool::new(), rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, _host: &mut impl Host<()>, _slot: Slot) {}

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(victim) = self.residents.choose(&mut self.rng) else {
            return Eviction::Empty;
        };
        host.count(Work::Sample, 1);
        self.residents.remove(victim);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, _host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        self.residents.insert(slot);
    }

    fn remove(&mut self, _host: &mut impl Host<()>, slot: Slot) {
        self.residents.remove(slot);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.residents.ranked(|_| 0u128)
    }
}
