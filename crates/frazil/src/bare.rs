//! The core alone, a cache without features: it shows what features cost, and that empty hooks cost
//! nothing. With the feature `measure` only.

use std::fmt;
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::Policy;
use crate::clock::Clock;
use crate::core::insert::Admission;
use crate::core::{Core, Settings};

/// A cache that can be looked up and inserted into, and nothing else: no lifetimes, listener,
/// loads, recording, freezing.
///
/// ```
/// use frazil::{BareCache, Policy};
/// let cache = BareCache::new(Policy::Mobius, 100);
/// (0..200).for_each(|key| cache.insert(key, 2 * key));
/// assert_eq!((cache.get(&199), cache.len()), (Some(398), 100));
/// cache.remove(&199);
/// assert!(cache.get(&199).is_none() && !cache.is_empty());
/// ```
pub struct BareCache<K, V> {
    core: Core<K, V, RandomState, ()>,
}

impl<K: Hash + Eq, V: Clone> BareCache<K, V> {
    /// A cache with this capacity in entries.
    pub fn new(policy: Policy, capacity: u64) -> Self {
        let settings = Settings {
            policy,
            promotion: None,
            shards: 1,
            capacity,
            bound: capacity,
            expected: capacity,
            batch: 16,
            detects_runs: true,
            weigher: None,
            hasher: RandomState::default(),
            clock: Clock::new(None),
            bypass: None,
            list_costs: None,
        };
        BareCache { core: Core::new(settings, ()) }
    }

    /// As [`Cache::get`](crate::Cache::get).
    pub fn get(&self, key: &K) -> Option<V> {
        let (hash, _) = self.core.hashes(key);
        self.core.get(hash, key)
    }

    /// As [`Cache::insert`](crate::Cache::insert).
    pub fn insert(&self, key: K, value: V) {
        let (hash, mixed) = self.core.hashes(&key);
        let stripe = self.core.stripe();
        stripe.local.reads.arrive(hash);
        let admission = Admission { hash, mixed, weight: 1, incoming: &() };
        _ = self.core.admit(stripe, admission, key, value, drop);
    }

    /// As [`Cache::invalidate`](crate::Cache::invalidate), without a result.
    pub fn remove(&self, key: &K) {
        let (_, mixed) = self.core.hashes(key);
        self.core.remove_any(mixed, key);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.core.entries() as usize
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> fmt::Debug for BareCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareCache").finish_non_exhaustive()
    }
}
