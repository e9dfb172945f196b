//! papaya: a concurrent map without locks, and without a bound. It is the limit for hits.
//!
//! Allocated for the capacity beforehand. A thread holds one guard for a batch of look-ups, the
//! crate's cheapest way. Its own hasher is the standard library's.

use std::hash::BuildHasher;

use frazil_driver::{Engine, Session};
use papaya::{Guard, HashMap, LocalGuard};

pub(crate) struct Papaya<S>(HashMap<u64, u64, S>);

pub(crate) struct Guarded<'a, S> {
    map: &'a HashMap<u64, u64, S>,
    guard: LocalGuard<'a>,
}

impl<S: BuildHasher + Default> Papaya<S> {
    pub(crate) fn new(capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        Papaya(HashMap::with_capacity_and_hasher(capacity, S::default()))
    }
}

impl<S: BuildHasher + Send + Sync> Engine for Papaya<S> {
    type Session<'a>
        = Guarded<'a, S>
    where
        S: 'a;

    fn session(&self) -> Guarded<'_, S> {
        Guarded { map: &self.0, guard: self.0.guard() }
    }
}

impl<S: BuildHasher> Session for Guarded<'_, S> {
    #[inline]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.map.get(&key, &self.guard).copied()
    }

    #[inline]
    fn insert(&mut self, key: u64) {
        self.map.insert(key, key, &self.guard);
    }

    #[inline]
    fn remove(&mut self, key: u64) {
        self.map.remove(&key, &self.guard);
    }

    #[inline]
    fn rest(&mut self) {
        self.guard.refresh();
    }
}
