//! The interface of lru's cache, over ours with its policy LRU.
//!
//! Where theirs lends a value mutably, ours changes it by a function; where theirs lends one, ours
//! clones it.

use std::borrow::Borrow;
use std::hash::Hash;

use frazil::{Compute, Computed, Policy};

use crate::case::number;

/// More than any test inserts into an unbounded cache.
const UNBOUNDED: u64 = 20_000;

pub(crate) struct LruCache<K, V> {
    ours: frazil::Cache<K, V>,
}

impl<K: Hash + Eq, V> LruCache<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        LruCache { ours: frazil::Cache::builder(capacity).policy(Policy::Lru).build() }
    }

    pub(crate) fn unbounded() -> Self {
        Self::new(UNBOUNDED)
    }

    /// For values that can't be cloned: does not return the old value.
    pub(crate) fn put_quietly(&self, key: K, value: V) {
        self.ours.insert(key, value);
    }

    /// For values that can't be cloned: returns whether the key was present.
    pub(crate) fn pop_quietly(&self, key: &K) -> bool {
        self.ours.invalidate(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.ours.contains_key(key)
    }

    pub(crate) fn retain_quietly(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.ours.retain(keep);
    }

    pub(crate) fn clear(&self) {
        self.ours.clear();
    }

    pub(crate) fn resize(&self, capacity: u64) {
        self.ours.set_capacity(capacity);
    }

    pub(crate) fn len(&self) -> u64 {
        number(self.ours.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ours.is_empty()
    }

    pub(crate) fn cap(&self) -> u64 {
        self.ours.capacity()
    }
}

impl<K: Hash + Eq + Clone, V: Clone + PartialEq> LruCache<K, V> {
    pub(crate) fn put(&self, key: K, value: V) -> Option<V> {
        let old = self.ours.peek(&key);
        self.ours.insert(key, value);
        old
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.ours.get(key)
    }

    pub(crate) fn peek(&self, key: &K) -> Option<V> {
        self.ours.peek(key)
    }

    pub(crate) fn get_key_value<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        self.ours.get(key)?;
        self.ours.pin().peek(key).map(|(key, value)| (key.clone(), value.clone()))
    }

    /// Changes a value, and returns the new one.
    pub(crate) fn peek_mut(&self, key: &K, change: impl Fn(&mut V)) -> Option<V> {
        let computed = self.ours.entry(key.clone()).and_compute(|value| {
            let Some(value) = value else { return Compute::Keep };
            let mut changed = value.clone();
            change(&mut changed);
            if changed == *value { Compute::Keep } else { Compute::Put(changed) }
        });
        // Theirs changes the value in place; ours still has to drop the old entry.
        self.ours.flush();
        match computed {
            Computed::Replaced(value) | Computed::Unchanged(Some(value)) => Some(value),
            _ => None,
        }
    }

    /// The same, and counts as a use.
    pub(crate) fn get_mut(&self, key: &K, change: impl Fn(&mut V)) -> Option<V> {
        self.get(key)?;
        self.peek_mut(key, change)
    }

    pub(crate) fn get_or_insert_with_key(&self, key: K, load: impl FnOnce(&K) -> V) -> V {
        let of = key.clone();
        self.ours.entry(key).or_insert_with(|| load(&of))
    }

    pub(crate) fn get_or_insert(&self, key: K, load: impl FnOnce() -> V) -> V {
        self.ours.entry(key).or_insert_with(load)
    }

    pub(crate) fn get_or_insert_ref(&self, key: &K, load: impl FnOnce() -> V) -> V {
        self.ours.get_or_insert_with(key, load)
    }

    pub(crate) fn try_get_or_insert<E>(
        &self,
        key: K,
        load: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<V, E> {
        let of = key.clone();
        self.ours.entry(key).or_try_insert_with(|| load(&of))
    }

    pub(crate) fn try_get_or_insert_ref<E>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        self.ours.try_get_or_insert_with(key, load)
    }

    pub(crate) fn peek_lru(&self) -> Option<(K, V)> {
        self.with_value(self.ours.coldest(1).pop()?)
    }

    pub(crate) fn peek_mru(&self) -> Option<(K, V)> {
        self.with_value(self.ours.hottest(1).pop()?)
    }

    fn with_value(&self, key: K) -> Option<(K, V)> {
        let value = self.ours.peek(&key)?;
        Some((key, value))
    }

    pub(crate) fn pop(&self, key: &K) -> Option<V> {
        self.ours.remove(key)
    }

    pub(crate) fn pop_entry(&self, key: &K) -> Option<(K, V)> {
        self.ours.remove(key).map(|value| (key.clone(), value))
    }

    pub(crate) fn pop_lru(&self) -> Option<(K, V)> {
        self.pop_entry(&self.ours.coldest(1).pop()?)
    }

    pub(crate) fn pop_mru(&self) -> Option<(K, V)> {
        self.pop_entry(&self.ours.hottest(1).pop()?)
    }

    /// The most recently used first.
    pub(crate) fn iter(&self) -> std::vec::IntoIter<(K, V)> {
        let keys = self.ours.hottest(usize::MAX);
        keys.into_iter().filter_map(|key| self.with_value(key)).collect::<Vec<_>>().into_iter()
    }

    /// The least recently used first.
    pub(crate) fn into_entries(self) -> std::vec::IntoIter<(K, V)> {
        let mut entries: Vec<_> = self.iter().collect();
        entries.reverse();
        entries.into_iter()
    }

    /// Keeps or removes each entry, after an optional change; the order stays.
    pub(crate) fn retain(&self, keep: impl Fn(&K, &mut V) -> bool) {
        for key in self.ours.coldest(usize::MAX) {
            self.ours.entry(key.clone()).and_compute(|value| {
                let Some(value) = value else { return Compute::Keep };
                let mut changed = value.clone();
                match keep(&key, &mut changed) {
                    true => Compute::Put(changed),
                    false => Compute::Remove,
                }
            });
        }
    }

    /// Makes the first entry that `is_meant` selects the most recently used.
    pub(crate) fn find_and_promote(&self, is_meant: impl Fn(&K, &V) -> bool) -> Option<(K, V)> {
        let found = self.iter().find(|(key, value)| is_meant(key, value))?;
        self.ours.get(&found.0);
        Some(found)
    }

    pub(crate) fn duplicate(&self) -> Self {
        let copy = Self::new(self.cap());
        self.iter().rev().for_each(|(key, value)| copy.ours.insert(key, value));
        copy
    }
}
