//! quick_cache: S3-FIFO and CLOCK-Pro behind sharded read-write locks.
//!
//! With the defaults of `Cache::new`: four shards a core, 97 % of the capacity for hot entries, a
//! ghost for half of it. Its own hasher is foldhash.

use std::hash::BuildHasher;

use frazil_driver::{Engine, Shared};
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

pub(crate) struct Quick<S>(Cache<u64, u64, UnitWeighter, S>);

impl<S: BuildHasher + Clone + Default> Quick<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        let items = usize::try_from(capacity).unwrap_or(usize::MAX);
        let lifecycle = DefaultLifecycle::default();
        Quick(Cache::with(items, capacity, UnitWeighter, S::default(), lifecycle))
    }
}

impl<S: BuildHasher + Clone + Send + Sync> Engine for Quick<S> {
    type Session<'a>
        = &'a Self
    where
        S: 'a;

    fn session(&self) -> &Self {
        self
    }
}

impl<S: BuildHasher + Clone + Send + Sync> Shared for Quick<S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key)
    }

    #[inline]
    fn insert(&self, key: u64) {
        self.0.insert(key, key);
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.remove(&key);
    }
}
