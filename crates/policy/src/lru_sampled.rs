//! Sampled LRU: evicts the one of `k` random residents that was not requested
//! for longest.
//!
//! A hit only writes the time beside the entry: no list, no lock. With k = 5 the
//! victim is on average among the oldest sixth. Redis evicts like this
//! (`maxmemory-samples`); it also keeps the best candidates of earlier samples
//! in a pool of 16, which this one omits, and so comes closer to LRU with the
//! same k. Draws are independent: one resident may be drawn twice.
//!
//! 8 bytes a slot and 8 beside the entry; a hit O(1), an eviction O(k).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::aggregate_delay::{Delays, Keep};
use crate::{DelayAware, Eviction, Host, Incoming, Policy, Rng, Slot, SlotPool, Work};

/// The least recently used of a few residents.
///
/// ```
/// use frazil_policy::LruSampled;
/// let as_redis_by_default = LruSampled::new(5, 1);
/// ```
#[derive(Clone, Debug)]
pub struct LruSampled {
    residents: SlotPool,
    k: u8,
    rng: Rng,
}

impl LruSampled {
    /// The most residents sampled for a victim.
    pub const MOST: usize = 64;

    /// Looks at `k` residents for each victim, from 1 to [`MOST`](Self::MOST).
    pub fn new(k: u8, seed: u64) -> Self {
        let k = k.clamp(1, Self::MOST as u8);
        LruSampled { residents: SlotPool::new(), k, rng: Rng::new(seed) }
    }
}

impl Policy for LruSampled {
    /// When the object was last requested.
    type Meta = AtomicU64;
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<AtomicU64>, slot: Slot) {
        host.meta(slot).store(host.now(), Relaxed);
        host.count(Work::Mark, 1);
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<AtomicU64>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(
        &mut self,
        host: &mut impl Host<AtomicU64>,
        _incoming: Option<&Incoming<()>>,
    ) -> Eviction {
        let Some(mut victim) = self.residents.choose(&mut self.rng) else {
            return Eviction::Empty;
        };
        let mut oldest = host.meta(victim).load(Relaxed);
        for candidate in (1..self.k).filter_map(|_| self.residents.choose(&mut self.rng)) {
            let used = host.meta(candidate).load(Relaxed);
            if used < oldest {
                (victim, oldest) = (candidate, used);
            }
        }
        host.count(Work::Sample, self.k.into());
        self.residents.remove(victim);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<AtomicU64>, slot: Slot, _incoming: Incoming<()>) {
        host.meta(slot).store(host.now(), Relaxed);
        self.residents.insert(slot);
    }

    fn remove(&mut self, _host: &mut impl Host<AtomicU64>, slot: Slot) {
        self.residents.remove(slot);
    }

    fn coldest_first(&self, host: &impl Host<AtomicU64>) -> Vec<Slot> {
        self.residents.ranked(|slot| host.meta(slot).load(Relaxed))
    }
}

impl DelayAware for LruSampled {
    fn evict_by(
        &mut self,
        host: &mut impl Host<AtomicU64>,
        _incoming: Option<&Incoming<()>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction {
        let Self { residents, k, rng } = self;
        let (mut drawn, mut ranks) = ([Slot(0); LruSampled::MOST], [0.0; LruSampled::MOST]);
        let (drawn, ranks) = (&mut drawn[..usize::from(*k)], &mut ranks[..usize::from(*k)]);
        // All are ranked before any are compared: a comparison cannot be predicted, and loads after
        // a wrong guess wait for memory again.
        for slot in drawn.iter_mut() {
            let Some(chosen) = residents.choose(rng) else { return Eviction::Empty };
            *slot = chosen;
        }
        for (rank, &slot) in ranks.iter_mut().zip(&*drawn) {
            *rank = delays.rank(slot);
        }
        let ranked = ranks.iter().zip(&*drawn);
        let Some((_, &victim)) = ranked.min_by(|(one, _), (other, _)| one.total_cmp(other)) else {
            return Eviction::Empty;
        };
        host.count(Work::Sample, (*k).into());
        residents.remove(victim);
        Eviction::Victim(victim)
    }

    fn coldest_by(
        &self,
        _host: &impl Host<AtomicU64>,
        delays: &Delays<'_, impl Keep>,
    ) -> Vec<Slot> {
        // No rank is negative, so its bits order as it does.
        self.residents.ranked(|slot| delays.rank(slot).to_bits())
    }
}
