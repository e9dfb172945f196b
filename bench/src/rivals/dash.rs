//! dashmap: a map behind sharded read-write locks, without a bound. It shows the speed of hits in a
//! sharded cache that does no work for eviction.
//!
//! Allocated for the capacity beforehand, with its default number of shards. Its own hasher is the
//! standard library's.

use std::hash::BuildHasher;

use dashmap::DashMap;
use frazil_driver::{Engine, Shared};

pub(crate) struct Dash<S>(DashMap<u64, u64, S>);

impl<S: BuildHasher + Clone + Default> Dash<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        Dash(DashMap::with_capacity_and_hasher(capacity, S::default()))
    }
}

impl<S: BuildHasher + Clone + Send + Sync> Engine for Dash<S> {
    type Session<'a>
        = &'a Self
    where
        S: 'a;

    fn session(&self) -> &Self {
        self
    }
}

impl<S: BuildHasher + Clone + Send + Sync> Shared for Dash<S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|value| *value)
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
