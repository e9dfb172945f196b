//! The public cache: reads, counts and settings.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use foldhash::fast::RandomState;

use crate::Policy;
use crate::core::order::Order;
use crate::features::Featured;
use crate::features::stats::Stats;

/// A concurrent cache of bounded size.
///
/// Threads share it by reference: put it into an [`Arc`](std::sync::Arc), a `static`, or borrow it
/// in [`std::thread::scope`]. The [crate's page](crate) has the guarantees of reads, the costs of
/// operations, and the memory of an entry.
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(10_000).build();
/// cache.insert(1, "one".to_owned());
/// assert_eq!(cache.get(&1).as_deref(), Some("one"));
/// assert_eq!(cache.pin().get(&1).map(String::len), Some(3));
/// ```
pub struct Cache<K, V, S = RandomState> {
    pub(crate) core: Featured<K, V, S>,
}

// The documentation states this size.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<crate::core::local::Stripe<crate::features::Local>>() == 1024);

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// A clone of the value of `key`; counts as a hit or a miss, for the policy too.
    ///
    /// It takes no lock and waits for no thread, with two exceptions: a policy with a lock whose
    /// [`Promotion`](crate::Promotion) waits for it, and an expired entry, which it removes as
    /// [`remove`](Cache::remove) does. For a key that is replaced or removed at the same time it
    /// returns the value before or after.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("answer".to_owned(), 42);
    /// assert_eq!(cache.get("answer"), Some(42));
    /// assert_eq!(cache.get("question"), None);
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let hash = self.core.hasher.hash_one(key);
        if self.core.hooks.recorder.wants(hash) {
            return self.core.observed(key, true, |hash| self.core.get(hash, key));
        }
        self.core.get(hash, key)
    }

    /// The same with the key's hash, for the load after a miss.
    #[cfg(feature = "loading")]
    #[inline(always)]
    pub(crate) fn get_with_hash<Q>(&self, key: &Q) -> (u64, Option<V>)
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let hash = self.core.hasher.hash_one(key);
        if self.core.hooks.recorder.wants(hash) {
            return (hash, self.core.observed(key, true, |hash| self.core.get(hash, key)));
        }
        (hash, self.core.get(hash, key))
    }

    /// A clone of the value of `key`; neither the policy nor the counts see it.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10);
    /// assert_eq!(cache.peek(&1), Some(10));
    /// assert_eq!(cache.stats().hits, 0);
    /// ```
    #[inline]
    pub fn peek<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.core.peek(self.core.hashes(key).1, key)
    }

    /// Whether `key` is present; neither the policy nor the counts see it.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10);
    /// assert!(cache.contains_key(&1) && !cache.contains_key(&2));
    /// ```
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.core.look_up(self.core.hashes(key).1, key, |_| ()).is_some()
    }

    /// Number of entries, including expired ones not yet removed. O(threads); exact while no thread
    /// writes.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 1);
    /// assert_eq!(cache.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.core.entries() as usize
    }

    /// Whether there is no entry. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert!(cache.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Total weight of the entries; without a weigher their number. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(100).weigher(|_, value| *value).build();
    /// cache.insert(1, 30);
    /// cache.insert(2, 40);
    /// assert_eq!(cache.weight(), 70);
    /// ```
    pub fn weight(&self) -> u64 {
        self.core.weight()
    }

    /// The capacity, in entries or in weight; while [`set_capacity`](Cache::set_capacity) lowers
    /// it, the value in force.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.capacity(), 100);
    /// ```
    pub fn capacity(&self) -> u64 {
        self.core.capacity()
    }

    /// The policy.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.policy(), frazil::Policy::Mobius);
    /// ```
    pub fn policy(&self) -> Policy {
        self.core.policy
    }

    /// Number of [shards](crate::Builder::shards) of the policy: the setting rounded up to a power
    /// of two, or 1 if the policy takes no lock.
    ///
    /// ```
    /// use frazil::{Cache, Policy};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).policy(Policy::Lru).shards(3).build();
    /// assert_eq!(cache.shards(), 4);
    /// ```
    pub fn shards(&self) -> u32 {
        match &self.core.order {
            Order::Locked(locked) => locked.shards(),
            _ => 1,
        }
    }

    /// Counts since the cache was built. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.get(&1);
    /// assert_eq!(cache.stats().misses, 1);
    /// ```
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// Bytes of address space that the cache has reserved for itself so far, without what keys and
    /// values point to. It grows with the entries; the system maps a page at its first use.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(1_000_000).build();
    /// assert!(cache.reserved_bytes() < 4_096);
    /// ```
    pub fn reserved_bytes(&self) -> usize {
        let of_threads = self.core.stripes.iter();
        self.core.heap_bytes()
            + of_threads.map(|stripe| stripe.local.features.frozen.heap_bytes()).sum::<usize>()
            + self.core.hooks.heap_bytes()
    }
}
