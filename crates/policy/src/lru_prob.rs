//! Probabilistic LRU: a hit promotes its object with probability 1 - q only.
//!
//! With probability `q` a hit changes nothing, as in FIFO; otherwise it moves
//! its object to the head, as in LRU. Objects requested often are promoted often
//! enough, so the order stays close to LRU's, and the list's lock is taken on a
//! share 1 - q of the hits. Paper 1 (§4.2) shows that throughput stops falling
//! with the hit ratio only near q = 1 - 1/(number of cores).
//!
//! 8 bytes a slot, O(1).

use crate::{Eviction, Host, HotFirst, Incoming, Lru, Policy, Rng, Slot};

/// LRU that leaves out a share of the promotions, by chance.
///
/// Hot first is the list of [`Lru`] from its head.
///
/// ```
/// use frazil_policy::LruProb;
/// let three_of_four_hits_change_nothing = LruProb::new(0.75, 1);
/// ```
#[derive(Clone, Debug)]
pub struct LruProb {
    lru: Lru,
    q: f64,
    rng: Rng,
}

impl LruProb {
    /// A hit does nothing with probability `q`, from 0 (LRU) to 1 (FIFO).
    pub fn new(q: f64, seed: u64) -> Self {
        LruProb { lru: Lru::default(), q, rng: Rng::new(seed) }
    }

    /// Draws whether a hit promotes: with probability 1 - `q`. For hosts that ask
    /// before they take a lock, and then report only promoting hits to an [`Lru`].
    ///
    /// ```
    /// use frazil_policy::{LruProb, Rng};
    /// let mut rng = Rng::new(1);
    /// assert!(LruProb::promotes(0.0, &mut rng) && !LruProb::promotes(1.0, &mut rng));
    /// ```
    #[inline]
    pub fn promotes(q: f64, rng: &mut Rng) -> bool {
        rng.unit() >= q
    }
}

impl Policy for LruProb {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if Self::promotes(self.q, &mut self.rng) {
            self.lru.hit(host, slot);
        }
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, weight: u64) {
        self.lru.miss(host, hash, weight);
    }

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<()>>) -> Eviction {
        self.lru.evict(host, incoming)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<()>) {
        self.lru.insert(host, slot, incoming);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lru.remove(host, slot);
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        self.lru.coldest_first(host)
    }
}

impl HotFirst for LruProb {
    fn hottest(&self) -> Option<Slot> {
        self.lru.hottest()
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.lru.colder(slot)
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lru.freeze(host, slot);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lru.remove_frozen(host, slot);
    }

    fn thaw(&mut self, host: &mut impl Host<()>) {
        self.lru.thaw(host);
    }
}
