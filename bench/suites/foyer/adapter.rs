//! The interface of foyer-memory's caches, over ours.
//!
//! Theirs returns entries that keep key and value; ours returns clones.

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use frazil::{Policy, Promotion};

use crate::case::number;

pub(crate) struct Cache<K, V> {
    ours: frazil::Cache<K, V>,
    /// Evicted entries, for a pipe to the next tier.
    left: Pipe<K, V>,
}

type Pipe<K, V> = Arc<Mutex<Vec<(K, V)>>>;

/// Their caches by name, with our corresponding policies.
pub(crate) const POLICIES: [(&str, Policy); 5] = [
    ("fifo", Policy::Fifo),
    ("s3fifo", Policy::S3Fifo),
    ("lru", Policy::Lru),
    // Their LFU has a window and counts in a sketch.
    ("lfu", Policy::WTinyLfu),
    ("sieve", Policy::Sieve),
];

/// A returned entry.
pub(crate) struct Entry<'c, K, V> {
    cache: &'c Cache<K, V>,
    pub(crate) key: K,
    pub(crate) value: V,
}

impl<K: Hash + Eq + Clone + Send + 'static, V: Clone + Send + 'static> Cache<K, V> {
    fn builder(name: &str, capacity: u64) -> frazil::Builder<K, V> {
        let policy = POLICIES.into_iter().find(|it| it.0 == name).expect("one of five").1;
        let builder = frazil::Cache::builder(capacity).policy(policy);
        match policy {
            Policy::Fifo | Policy::S3Fifo => builder,
            Policy::Sieve => builder.shards(4),
            _ => builder.shards(4).promotion(Promotion::Adaptive),
        }
    }

    /// A cache with the policy of that name.
    pub(crate) fn named(name: &str, capacity: u64) -> Self {
        Self::build(Self::builder(name, capacity))
    }

    /// The same, with a pipe for evicted entries.
    pub(crate) fn with_pipe(name: &str, capacity: u64) -> Self {
        let left: Pipe<K, V> = Arc::default();
        let pipe = Arc::clone(&left);
        let listener = move |key: &K, value: &V, _| {
            pipe.lock().expect("no panic under it").push((key.clone(), value.clone()));
        };
        Cache { ours: Self::builder(name, capacity).listener(listener).build(), left }
    }

    /// Only our policies under a lock have shards.
    pub(crate) fn sharded(capacity: u64, shards: u32) -> Self {
        Self::build(frazil::Cache::builder(capacity).policy(Policy::Lru).shards(shards))
    }

    /// Admits only entries that `filter` accepts: others weigh too much.
    pub(crate) fn filtered(
        capacity: u64,
        filter: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        let weigher = move |key: &K, value: &V| if filter(key, value) { 1 } else { u64::MAX };
        Self::build(frazil::Cache::builder(capacity).policy(Policy::Fifo).weigher(weigher))
    }

    pub(crate) fn weighted(
        capacity: u64,
        weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self::build(frazil::Cache::builder(capacity).policy(Policy::Fifo).weigher(weigher))
    }

    fn build(builder: frazil::Builder<K, V>) -> Self {
        Cache { ours: builder.build(), left: Arc::default() }
    }

    pub(crate) fn insert(&self, key: K, value: V) -> Entry<'_, K, V> {
        self.ours.insert(key.clone(), value.clone());
        Entry { cache: self, key, value }
    }

    pub(crate) fn get(&self, key: &K) -> Option<Entry<'_, K, V>> {
        let value = self.ours.get(key)?;
        Some(Entry { cache: self, key: key.clone(), value })
    }

    pub(crate) fn remove(&self, key: &K) {
        self.ours.remove(key);
    }

    pub(crate) async fn get_or_fetch(
        &self,
        key: &K,
        fetch: impl Future<Output = V>,
    ) -> Entry<'_, K, V> {
        let value = self.ours.get_or_insert_async(key, fetch).await;
        Entry { cache: self, key: key.clone(), value }
    }

    pub(crate) fn usage(&self) -> u64 {
        self.ours.weight()
    }

    pub(crate) fn entries(&self) -> u64 {
        number(self.ours.len())
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.ours.stats().refusals
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.ours.capacity()
    }

    pub(crate) fn resize(&self, capacity: u64) {
        self.ours.set_capacity(capacity);
    }

    /// Sends all entries through the pipe.
    pub(crate) fn evict_all(&self) {
        self.ours.clear();
    }

    /// Sends the entries that `is_meant` selects through the pipe.
    pub(crate) fn flush_if(&self, is_meant: impl Fn(&K, &V) -> bool) {
        self.ours.retain(|key, value| !is_meant(key, value));
    }

    /// Entries from the pipe since the last call.
    pub(crate) fn pieces(&self) -> Vec<(K, V)> {
        std::mem::take(&mut *self.left.lock().expect("no panic under it"))
    }
}

impl<K: Hash + Eq, V> Entry<'_, K, V> {
    pub(crate) fn is_outdated(&self) -> bool {
        !self.cache.ours.contains_key(&self.key)
    }
}
