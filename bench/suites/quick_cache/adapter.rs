//! The interface of quick_cache's caches, over ours.
//!
//! A guard there is a placeholder that a caller holds. Here the function of a load is that caller:
//! it holds the guard until it returns.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use frazil::{Compute, Computed, Equivalent, FetchError, Fetching};

use crate::case::number;

pub(crate) struct Cache<K, V> {
    ours: frazil::Cache<K, V>,
}

/// A function's decision about an entry.
pub(crate) enum EntryAction<T> {
    Retain(T),
    Remove,
    ReplaceWithGuard,
}

/// The result for an entry. `Vacant` and `Replaced`: the key is absent, and the caller fills it.
#[derive(Debug, PartialEq)]
pub(crate) enum EntryResult<V, T> {
    Retained(T),
    Removed(V),
    Replaced(V),
    Vacant,
}

/// A value; or this caller held the guard; or another held it for too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuardResult<V> {
    Value(V),
    /// Whether the caller filled it.
    Guard(bool),
    Timeout,
}

impl<K: Hash + Eq + Clone, V: Clone + PartialEq> Cache<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        Cache { ours: frazil::Cache::builder(capacity).build() }
    }

    /// A cache in which waits for guards end after `timeout`.
    pub(crate) fn with_timeout(capacity: u64, timeout: Duration) -> Self {
        let fetching = Fetching { timeout: Some(timeout), ..Fetching::default() };
        Cache { ours: frazil::Cache::builder(capacity).fetching(fetching).build() }
    }

    pub(crate) fn with_weighter(
        items: u64,
        capacity: u64,
        weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Cache { ours: frazil::Cache::builder(capacity).entries(items).weigher(weigher).build() }
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.ours.insert(key, value);
    }

    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.ours.get(key)
    }

    pub(crate) fn peek(&self, key: &K) -> Option<V> {
        self.ours.peek(key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.ours.contains_key(key)
    }

    pub(crate) fn remove(&self, key: &K) -> Option<(K, V)> {
        self.ours.remove(key).map(|value| (key.clone(), value))
    }

    pub(crate) fn remove_if(&self, key: &K, is_to_go: impl Fn(&V) -> bool) -> Option<(K, V)> {
        let computed = self.ours.entry(key.clone()).and_compute(|value| match value {
            Some(value) if is_to_go(value) => Compute::Remove,
            _ => Compute::Keep,
        });
        match computed {
            Computed::Removed(value) => Some((key.clone(), value)),
            _ => None,
        }
    }

    pub(crate) fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.ours.retain(keep);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.ours.iter()
    }

    pub(crate) fn drain(&self) -> Vec<(K, V)> {
        self.ours.iter().filter_map(|(key, _)| self.remove(&key)).collect()
    }

    pub(crate) fn len(&self) -> u64 {
        number(self.ours.len())
    }

    pub(crate) fn weight(&self) -> u64 {
        self.ours.weight()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.ours.capacity()
    }

    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.ours.set_capacity(capacity);
    }

    /// Changes a value, if there is one.
    pub(crate) fn get_mut(&self, key: &K, mut change: impl FnMut(&mut V)) {
        self.entry(key, |value| {
            change(value);
            EntryAction::Retain(())
        });
    }

    pub(crate) fn get_or_insert_with<E>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        self.ours.try_get_or_insert_with(key, load)
    }

    pub(crate) async fn get_or_insert_async<E>(
        &self,
        key: &K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        self.ours.try_get_or_insert_async(key, load).await
    }

    /// `hold` runs with the guard, and fills or abandons it.
    pub(crate) fn get_value_or_guard(
        &self,
        key: &K,
        hold: impl FnOnce() -> Option<V>,
    ) -> GuardResult<V> {
        let mut held = None;
        let result = self.ours.get_or_fetch_blocking(key, || {
            let value = hold();
            held = Some(value.is_some());
            value.ok_or(())
        });
        guard_result(result, held)
    }

    pub(crate) async fn get_value_or_guard_async(
        &self,
        key: &K,
        hold: impl Future<Output = Option<V>>,
    ) -> GuardResult<V> {
        let mut held = None;
        let load = async {
            let value = hold.await;
            held = Some(value.is_some());
            value.ok_or(())
        };
        let result = self.ours.get_or_fetch(key, load).await;
        guard_result(result, held)
    }

    /// `act` gets the present value, and may change it.
    pub(crate) fn entry<T>(
        &self,
        key: &K,
        mut act: impl FnMut(&mut V) -> EntryAction<T>,
    ) -> EntryResult<V, T> {
        let mut action = None;
        let computed = self.ours.entry(key.clone()).and_compute(|value| {
            let Some(value) = value else { return Compute::Keep };
            let mut changed = value.clone();
            let action = action.insert(act(&mut changed));
            follow(action, value, changed)
        });
        entry_result(computed, action)
    }

    /// Whether `entry` waits for a guard longer than `timeout`.
    pub(crate) fn entry_times_out(&self, key: &K, timeout: Duration) -> bool {
        let look = |_: Option<&V>| Compute::Keep;
        self.ours.entry(key.clone()).and_compute_within(timeout, look).is_err()
    }

    /// The same for a task, which waits for a guard without blocking its thread.
    pub(crate) async fn entry_async<T>(
        &self,
        key: &K,
        mut act: impl FnMut(&mut V) -> EntryAction<T>,
    ) -> EntryResult<V, T> {
        let mut action = None;
        let compute = |value: Option<V>| {
            let answer = value.map_or(Compute::Keep, |value| {
                let mut changed = value.clone();
                let action = action.insert(act(&mut changed));
                follow(action, &value, changed)
            });
            std::future::ready(answer)
        };
        let computed = self.ours.entry(key.clone()).and_compute_async(compute).await;
        entry_result(computed, action)
    }
}

/// Applies an action to the previous value, which `act` changed to `changed`.
fn follow<V: PartialEq, T>(action: &EntryAction<T>, value: &V, changed: V) -> Compute<V> {
    match action {
        EntryAction::Retain(_) if changed == *value => Compute::Keep,
        EntryAction::Retain(_) => Compute::Put(changed),
        EntryAction::Remove | EntryAction::ReplaceWithGuard => Compute::Remove,
    }
}

fn entry_result<V, T>(computed: Computed<V>, action: Option<EntryAction<T>>) -> EntryResult<V, T> {
    match (computed, action) {
        (Computed::Removed(value), Some(EntryAction::ReplaceWithGuard)) => {
            EntryResult::Replaced(value)
        }
        (Computed::Removed(value), _) => EntryResult::Removed(value),
        (Computed::Unchanged(None), _) => EntryResult::Vacant,
        (_, Some(EntryAction::Retain(value))) => EntryResult::Retained(value),
        _ => unreachable!("what is there was shown"),
    }
}

fn guard_result<V>(result: Result<V, FetchError<()>>, held: Option<bool>) -> GuardResult<V> {
    match (result, held) {
        (_, Some(filled)) => GuardResult::Guard(filled),
        (Ok(value), None) => GuardResult::Value(value),
        (Err(FetchError::TimedOut), None) => GuardResult::Timeout,
        (Err(error), None) => unreachable!("{error:?}"),
    }
}
