//! Which entries would go first, and which last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::ops::ControlFlow;

use crate::cache::Cache;
use crate::index::Tour;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Up to `n` keys, those first that would stay longest: the last that the policy would
    /// evict as things are now.
    ///
    /// For people who want to know what a cache is full of, and to fill another one with the
    /// best. Takes no lock but a policy's own, for as long as it takes to copy the order;
    /// O(capacity), O(capacity log capacity) where the policy keeps none. What comes or goes meanwhile may be missing.
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

    /// Up to `n` keys, those first that would go first. Otherwise as [`Cache::hottest`].
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

    /// The keys of the `n` entries for which `distance` says least, least first.
    fn extreme(&self, n: usize, distance: impl Fn(u32) -> u32) -> Vec<K>
    where
        K: Clone,
    {
        let mut order = self.order.coldest_first(self, &self.segments, &self.stripes);
        self.append_frozen(&mut order);
        let ranks = self.ranks(&order);
        // The furthest on top, to be replaced by what is nearer.
        let mut nearest: BinaryHeap<(u32, Reverse<usize>)> = BinaryHeap::new();
        let mut keys: Vec<Option<K>> = Vec::new();
        self.each_entry(|slot, key, _| {
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

    /// By slot: from 1, its place in an order; 0 for those of which nothing is known. A slot
    /// may be used again meanwhile, by an entry of another rank.
    pub(crate) fn ranks(&self, order: &[u32]) -> Vec<u32> {
        let mut ranks = vec![0; self.reclaim.used().end as usize];
        for (rank, &slot) in (1..).zip(order) {
            if let Some(known) = ranks.get_mut(slot as usize) {
                *known = rank;
            }
        }
        ranks
    }

    /// Shows all entries, as [`Cache::iter`] does: slot, key and value.
    pub(crate) fn each_entry(&self, mut show: impl FnMut(u32, &K, &V)) {
        let mut tour = Tour::of(&self.index);
        while tour.next() {
            let ControlFlow::Continue(()) = self.show_slots(&mut tour, |slot, key, value| {
                show(slot, key, value);
                ControlFlow::<Infallible>::Continue(())
            });
        }
    }
}
