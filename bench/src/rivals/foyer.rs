//! foyer's cache in memory: sharded, each shard a table and a list behind a lock.
//!
//! With its builder's defaults: eight shards, and LRU with a pool for entries hinted as important,
//! of which there are none here. It returns entries by reference count. Its own hasher is XXH64.

use std::hash::BuildHasher;

use foyer_memory::{Cache, CacheBuilder, CacheProperties};
use frazil_driver::{Engine, Shared};

pub(crate) struct Foyer<S: BuildHasher + Send + Sync + 'static>(Cache<u64, u64, S>);

impl<S: BuildHasher + Default + Send + Sync + 'static> Foyer<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let builder = CacheBuilder::new(capacity).with_hash_builder(S::default());
        Foyer(builder.build::<CacheProperties>())
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Engine for Foyer<S> {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Shared for Foyer<S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry.value())
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
