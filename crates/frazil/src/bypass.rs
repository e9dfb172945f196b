//! Requests that bypass the cache, as its users see them.

use std::hash::{BuildHasher, Hash};

use crate::Cache;
#[cfg(feature = "measure")]
use crate::{ListTurns, core::order::Order};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Whether the next request of this thread should go to the backend instead of to the cache.
    /// Call it before each [`get`](Cache::get) if [`Builder::bypass`](crate::Builder::bypass) is
    /// set; otherwise it is always false.
    ///
    /// Use the fetched value without inserting it: an existing entry stays as it is. Bypassing
    /// callers fetch for themselves, so two may fetch the same key at once; the loading calls,
    /// which fetch once, never bypass. A bypassing request counts as
    /// [`bypassed`](crate::Stats::bypassed), not as a hit or a miss. O(1); once in 256 calls of a
    /// thread O(threads).
    ///
    /// ```
    /// # fn fetch(key: u64) -> u64 { 10 * key }
    /// use frazil::{Cache, Policy};
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).policy(Policy::Lru).bypass(500_000).build();
    /// let ask = |key: u64| {
    ///     if cache.bypasses() {
    ///         return fetch(key);
    ///     }
    ///     cache.get(&key).unwrap_or_else(|| {
    ///         cache.insert(key, fetch(key));
    ///         fetch(key)
    ///     })
    /// };
    /// assert_eq!(ask(7), 70);
    /// ```
    #[inline]
    pub fn bypasses(&self) -> bool {
        self.core.bypasses()
    }

    /// Share of the requests that bypass at the moment; 0 if
    /// [`Builder::bypass`](crate::Builder::bypass) is not set.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.bypassed_share(), 0.0);
    /// ```
    pub fn bypassed_share(&self) -> f64 {
        self.core.bypass.as_ref().map_or(0.0, |bypass| bypass.share())
    }

    /// The costs of list operations set by [`Builder::list_costs`](crate::Builder::list_costs).
    /// Only with the feature `measure`.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.list_turns(), frazil::ListTurns::default());
    /// ```
    #[cfg(feature = "measure")]
    pub fn list_turns(&self) -> ListTurns {
        match &self.core.order {
            Order::Locked(locked) => {
                locked.turns().map_or_else(ListTurns::default, |turns| turns.list_turns())
            }
            _ => ListTurns::default(),
        }
    }
}
