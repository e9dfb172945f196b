//! The entries that would be evicted first, and last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Up to `n` keys of the entries that the policy would now evict last, the last one first.
    ///
    /// Use it to see what a cache holds, or to fill another cache with the best entries. It takes
    /// only a policy's own lock, while it copies the order; O(capacity), or O(capacity log
    /// capacity) if the policy keeps no order. Entries inserted or removed meanwhile may be
    /// missing.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(100).policy(frazil::Policy::Lru).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// cache.get(&3);
    /// assert_eq!(cache.hottest(2), [3, 9]);
    /// assert_eq!(cache.coldest(2), [0, 1]);
    /// ```
    pub fn hottest(&self, n: usize) -> Vec<K>
    where
        K: Clone,
    {
        self.extreme(n, |rank| u32::MAX - rank)
    }

    /// Up to `n` keys of the entries that the policy would evict first, the first one first.
    /// Otherwise as [`Cache::hottest`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// cache.get(&0);
    /// assert_eq!(cache.coldest(3), [1, 2, 3]);
    /// ```
    pub fn coldest(&self, n: usize) -> Vec<K>
    where
        K: Clone,
    {
        self.extreme(n, |rank| rank)
    }

    /// The keys of the `n` entries with the least `distance`, least first.
    fn extreme(&self, n: usize, distance: impl Fn(u32) -> u32) -> Vec<K>
    where
        K: Clone,
    {
        let mut order =
            self.core.order.coldest_first(&self.core, &self.core.segments, &self.core.stripes);
        self.core.append_frozen(&mut order);
        let ranks = self.core.ranks(&order);
        // The furthest on top, to be replaced by a nearer one.
        let mut nearest: BinaryHeap<(u32, Reverse<usize>)> = BinaryHeap::new();
        let mut keys: Vec<Option<K>> = Vec::new();
        self.core.each_entry(|slot, key, _| {
            let rank = ranks.get(slot as usize).copied().unwrap_or(0);
            if rank == 0 || n == 0 {
                return;
            }
            let distance = distance(rank);
            let mut at = keys.len();
            if nearest.len() == n {
                match nearest.peek() {
                    Some(&(furthest, Reverse(place))) if distance < furthest => at = place,
                    _ => return,
                }
                nearest.pop();
            } else {
                keys.push(None);
            }
            keys[at] = Some(key.clone());
            nearest.push((distance, Reverse(at)));
        });
        let order = nearest.into_sorted_vec();
        order.into_iter().filter_map(|(_, Reverse(at))| keys[at].take()).collect()
    }
}
