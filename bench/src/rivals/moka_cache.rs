//! moka: W-TinyLFU, with reads and writes recorded in channels and applied later.
//!
//! With its builder's defaults for a number of entries. Its own hasher is the standard library's.
//! Eviction lags behind insertion, so at times it exceeds its capacity.

use std::hash::BuildHasher;

use frazil_driver::{Engine, Shared};
use moka::sync::Cache;

pub(crate) struct Moka<S>(Cache<u64, u64, S>);

impl<S: BuildHasher + Clone + Default + Send + Sync + 'static> Moka<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        Moka(Cache::builder().max_capacity(capacity).build_with_hasher(S::default()))
    }
}

impl<S: BuildHasher + Clone + Send + Sync + 'static> Engine for Moka<S> {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }
}

impl<S: BuildHasher + Clone + Send + Sync + 'static> Shared for Moka<S> {
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
        self.0.invalidate(&key);
    }
}
