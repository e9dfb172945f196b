//! An LRU list behind one mutex, as in a program without a cache library.
//!
//! The crate `lru` with its own hasher (foldhash), in the standard library's mutex.

use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use frazil_driver::{Engine, Shared};
use lru::LruCache;

pub(crate) struct LruMutex<S>(Mutex<LruCache<u64, u64, S>>);

impl<S: BuildHasher + Default> LruMutex<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).ok().and_then(NonZeroUsize::new);
        let capacity = capacity.unwrap_or(NonZeroUsize::MIN);
        LruMutex(Mutex::new(LruCache::with_hasher(capacity, S::default())))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<u64, u64, S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: BuildHasher + Default + Send> Engine for LruMutex<S> {
    type Session<'a>
        = &'a Self
    where
        S: 'a;

    fn session(&self) -> &Self {
        self
    }
}

impl<S: BuildHasher + Default + Send> Shared for LruMutex<S> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().get(&key).copied()
    }

    #[inline]
    fn insert(&self, key: u64) {
        self.lock().put(key, key);
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.lock().pop(&key);
    }
}
