//! The interface of moka's caches, over ours.

use std::cell::Cell;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frazil::{Cause, Compute, Computed, FetchError, Fetching, OnError, Policy};

use crate::case::number;
use crate::tasks::block_on;

/// The kind of moka's cache. Ours is one cache for all; only loads that tasks await differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Sync,
    /// With a number of segments.
    Segmented(u32),
    Future,
}

/// The error of a loader without a value.
#[derive(Debug)]
pub(crate) struct Absent;

/// A clock that the test moves.
#[derive(Clone, Default)]
pub(crate) struct Mock(Arc<AtomicU64>);

impl Mock {
    pub(crate) fn increment(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_nanos()).expect("a short time"), SeqCst);
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }
}

/// The events of a listener.
pub(crate) type Log<K, V> = Arc<Mutex<Vec<(K, V, Cause)>>>;

/// Lifetimes by entry and event; `left` is the remaining time without a change.
pub(crate) trait Expiry<K, V>: Send + Sync + 'static {
    fn after_create(&self, _: &K, _: &V) -> Option<Duration> {
        None
    }

    fn after_read(&self, _: &K, _: &V, left: Option<Duration>) -> Option<Duration> {
        left
    }

    fn after_update(&self, _: &K, _: &V, left: Option<Duration>) -> Option<Duration> {
        left
    }
}

pub(crate) struct Builder<K, V> {
    shape: Shape,
    capacity: u64,
    settings: Vec<Setting<K, V>>,
}

type Setting<K, V> = Box<dyn FnOnce(frazil::Builder<K, V>) -> frazil::Builder<K, V>>;

impl<K: Hash + Eq + Clone + 'static, V: Clone + 'static> Builder<K, V> {
    fn set(
        mut self,
        setting: impl FnOnce(frazil::Builder<K, V>) -> frazil::Builder<K, V> + 'static,
    ) -> Self {
        self.settings.push(Box::new(setting));
        self
    }

    pub(crate) fn max_capacity(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    pub(crate) fn eviction_policy(self, policy: Policy) -> Self {
        self.set(move |builder| builder.policy(policy))
    }

    pub(crate) fn weigher(self, weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        self.set(move |builder| builder.weigher(weigher))
    }

    pub(crate) fn time_to_live(self, lifetime: Duration) -> Self {
        self.set(move |builder| builder.time_to_live(lifetime))
    }

    pub(crate) fn time_to_idle(self, lifetime: Duration) -> Self {
        self.set(move |builder| builder.time_to_idle(lifetime))
    }

    /// Ours has a function for each event.
    pub(crate) fn expire_after(self, expiry: impl Expiry<K, V>) -> Self {
        let of_create = Arc::new(expiry);
        let (of_read, of_update) = (Arc::clone(&of_create), Arc::clone(&of_create));
        self.set(move |builder| {
            builder
                .expire_after(move |key, value| of_create.after_create(key, value))
                .expire_after_read(move |key, value, left| of_read.after_read(key, value, left))
                .expire_after_update(move |key, value, left| {
                    of_update.after_update(key, value, left)
                })
        })
    }

    pub(crate) fn eviction_listener(
        self,
        listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static,
    ) -> Self {
        // For a newcomer that is not admitted, theirs reports size as the cause.
        let cause_of = |cause| if cause == Cause::Refused { Cause::Size } else { cause };
        self.set(move |builder| {
            builder.listener(move |key, value, cause| listener(key, value, cause_of(cause)))
        })
    }

    pub(crate) fn clock(self, mock: &Mock) -> Self {
        let mock = mock.clone();
        self.set(move |builder| builder.clock(move || mock.now()))
    }

    pub(crate) fn build(self) -> Cache<K, V> {
        // All that wait for a failing load get its error, as in theirs.
        let fetching = Fetching { on_error: OnError::Share, ..Fetching::default() };
        let mut builder = frazil::Cache::builder(self.capacity).fetching(fetching);
        if let Shape::Segmented(segments) = self.shape {
            // Only a policy under a lock has shards.
            builder = builder.policy(Policy::Lru).shards(segments);
        }
        let builder = self.settings.into_iter().fold(builder, |builder, setting| setting(builder));
        Cache { ours: Arc::new(builder.build()), shape: self.shape }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Builder<K, V>
where
    K: Hash + Eq,
{
    /// A listener that records its events.
    pub(crate) fn log(self) -> (Self, Log<K, V>) {
        let log: Log<K, V> = Arc::default();
        let written = Arc::clone(&log);
        let listener = move |key: &K, value: &V, cause| {
            written.lock().expect("no panic under it").push((key.clone(), value.clone(), cause));
        };
        (self.eviction_listener(listener), log)
    }
}

/// A handle, like theirs.
pub(crate) struct Cache<K, V> {
    ours: Arc<frazil::Cache<K, V>>,
    shape: Shape,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { ours: Arc::clone(&self.ours), shape: self.shape }
    }
}

impl<K: Hash + Eq + Clone + 'static, V: Clone + 'static> Cache<K, V> {
    pub(crate) fn builder(shape: Shape) -> Builder<K, V> {
        Builder { shape, capacity: 1_000, settings: Vec::new() }
    }

    pub(crate) fn new(shape: Shape, capacity: u64) -> Self {
        Self::builder(shape).max_capacity(capacity).build()
    }

    /// Our cache, for its own functions.
    pub(crate) fn ours(&self) -> &frazil::Cache<K, V> {
        &self.ours
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.ours.insert(key, value);
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.ours.get(key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.ours.contains_key(key)
    }

    pub(crate) fn invalidate(&self, key: &K) {
        self.ours.invalidate(key);
    }

    pub(crate) fn remove(&self, key: &K) -> Option<V> {
        self.ours.remove(key)
    }

    pub(crate) fn invalidate_all(&self) {
        self.ours.invalidate_all();
    }

    pub(crate) fn invalidate_entries_if(&self, is_meant: impl Fn(&K, &V) -> bool) {
        self.ours.retain(|key, value| !is_meant(key, value));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.ours.iter()
    }

    pub(crate) fn entry_count(&self) -> u64 {
        number(self.ours.len())
    }

    pub(crate) fn weighted_size(&self) -> u64 {
        self.ours.weight()
    }

    pub(crate) fn run_pending_tasks(&self) {
        self.ours.purge();
        // Theirs drops the removed entry at once.
        self.ours.flush();
    }
}

impl<K: Hash + Eq + Clone + 'static, V: Clone + 'static> Cache<K, V> {
    pub(crate) fn get_with(&self, key: K, load: impl FnOnce() -> V) -> V {
        self.get_with_by_ref(&key, load)
    }

    pub(crate) fn get_with_by_ref(&self, key: &K, load: impl FnOnce() -> V) -> V {
        match self.shape {
            Shape::Future => block_on(self.ours.get_or_insert_async(key, async { load() })),
            _ => self.ours.get_or_insert_with(key, load),
        }
    }

    pub(crate) fn try_get_with<E: Debug + Send + Sync + 'static>(
        &self,
        key: &K,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, Arc<E>> {
        let fetched = match self.shape {
            Shape::Future => block_on(self.ours.get_or_fetch(key, async { load() })),
            _ => self.ours.get_or_fetch_blocking(key, load),
        };
        fetched.map_err(failure)
    }

    pub(crate) fn optionally_get_with(
        &self,
        key: &K,
        load: impl FnOnce() -> Option<V>,
    ) -> Option<V> {
        self.try_get_with(key, || load().ok_or(Absent)).ok()
    }

    /// The value, and whether `load` has made it.
    pub(crate) fn or_insert_with_if(
        &self,
        key: K,
        load: impl FnOnce() -> V,
        is_to_go: impl Fn(&V) -> bool,
    ) -> (V, bool) {
        let Some(value) = self.get(&key) else {
            let mut is_fresh = false;
            let load = || {
                is_fresh = true;
                load()
            };
            return (self.get_with(key, load), is_fresh);
        };
        if !is_to_go(&value) {
            return (value, false);
        }
        let mut load = Some(load);
        let mut loaded = None;
        let computed = self.ours.entry(key).and_compute(|value| match value {
            Some(value) if !is_to_go(value) => Compute::Keep,
            _ => Compute::Put(
                loaded.get_or_insert_with(|| load.take().expect("it is called once")()).clone(),
            ),
        });
        match computed {
            Computed::Inserted(value) | Computed::Replaced(value) => (value, true),
            Computed::Unchanged(Some(value)) => (value, false),
            Computed::Removed(_) | Computed::Unchanged(None) => unreachable!("it puts or keeps"),
        }
    }

    pub(crate) fn and_compute_with(
        &self,
        key: K,
        compute: impl FnMut(Option<&V>) -> Compute<V>,
    ) -> Computed<V> {
        self.ours.entry(key).and_compute(compute)
    }

    pub(crate) fn and_upsert_with(&self, key: K, mut upsert: impl FnMut(Option<&V>) -> V) -> V {
        match self.and_compute_with(key, |value| Compute::Put(upsert(value))) {
            Computed::Inserted(value) | Computed::Replaced(value) => value,
            Computed::Removed(_) | Computed::Unchanged(_) => unreachable!("it puts"),
        }
    }

    pub(crate) fn and_try_compute_with<E>(
        &self,
        key: K,
        mut compute: impl FnMut(Option<&V>) -> Result<Compute<V>, E>,
    ) -> Result<Computed<V>, E> {
        let mut failure = None;
        let computed = self.and_compute_with(key, |value| {
            compute(value).unwrap_or_else(|error| {
                failure = Some(error);
                Compute::Keep
            })
        });
        failure.map_or(Ok(computed), Err)
    }
}

/// Operations that tasks await.
impl<K: Hash + Eq + Clone + 'static, V: Clone + 'static> Cache<K, V> {
    pub(crate) async fn get_with_async(&self, key: &K, load: impl Future<Output = V>) -> V {
        self.ours.get_or_insert_async(key, load).await
    }

    pub(crate) async fn try_get_with_async<E: Debug + Send + Sync + 'static>(
        &self,
        key: &K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, Arc<E>> {
        self.ours.get_or_fetch(key, load).await.map_err(failure)
    }

    pub(crate) async fn optionally_get_with_async(
        &self,
        key: &K,
        load: impl Future<Output = Option<V>>,
    ) -> Option<V> {
        self.try_get_with_async(key, async { load.await.ok_or(Absent) }).await.ok()
    }

    pub(crate) async fn or_insert_with_if_async(
        &self,
        key: K,
        load: impl Future<Output = V>,
        is_to_go: impl Fn(&V) -> bool,
    ) -> (V, bool) {
        let mut is_fresh = false;
        match self.get(&key) {
            Some(value) if !is_to_go(&value) => return (value, false),
            Some(_) => {
                // The loader runs once, so an unwanted value is removed first, and then loaded.
                self.and_compute_with(key.clone(), |value| match value {
                    Some(value) if is_to_go(value) => Compute::Remove,
                    _ => Compute::Keep,
                });
            }
            None => {}
        }
        let load = async {
            is_fresh = true;
            load.await
        };
        (self.get_with_async(&key, load).await, is_fresh)
    }
}

/// Computations that tasks await.
impl<K: Hash + Eq + Clone + 'static, V: Clone + 'static> Cache<K, V> {
    pub(crate) async fn and_compute_with_async<F: Future<Output = Compute<V>>>(
        &self,
        key: K,
        compute: impl FnMut(Option<V>) -> F,
    ) -> Computed<V> {
        self.ours.entry(key).and_compute_async(compute).await
    }

    pub(crate) async fn and_upsert_with_async<F: Future<Output = V>>(
        &self,
        key: K,
        mut upsert: impl FnMut(Option<V>) -> F,
    ) -> V {
        let compute = |value| {
            let upserted = upsert(value);
            async { Compute::Put(upserted.await) }
        };
        match self.and_compute_with_async(key, compute).await {
            Computed::Inserted(value) | Computed::Replaced(value) => value,
            Computed::Removed(_) | Computed::Unchanged(_) => unreachable!("it puts"),
        }
    }

    pub(crate) async fn and_try_compute_with_async<E, F: Future<Output = Result<Compute<V>, E>>>(
        &self,
        key: K,
        mut compute: impl FnMut(Option<V>) -> F,
    ) -> Result<Computed<V>, E> {
        let failure = Cell::new(None);
        let compute = |value| {
            let (answer, failure) = (compute(value), &failure);
            async move {
                answer.await.unwrap_or_else(|error| {
                    failure.set(Some(error));
                    Compute::Keep
                })
            }
        };
        let computed = self.and_compute_with_async(key, compute).await;
        failure.take().map_or(Ok(computed), Err)
    }
}

fn failure<E: Debug>(error: FetchError<E>) -> Arc<E> {
    match error {
        FetchError::Failed(error) => error,
        FetchError::TimedOut | FetchError::TooManyWaiters => panic!("no bound was set: {error:?}"),
    }
}
