//! Operations on one key in one step.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::pin::pin;
use std::time::Duration;

use crate::cache::Cache;
use crate::clock::{exact_ns, nanoseconds};
use crate::core::index::Mixed;
use crate::core::order::Newcomer;
use crate::features::fetch::Cold;
use crate::features::fetch::detached::Detached;
use crate::features::fetch::fetching::FetchError;
use crate::features::fetch::flight::{Turn, WaitLimits, Waited};
use crate::features::fetch::key::{ByRef, ByValue, EntryKey, ToKey};
use crate::features::fetch::loaded::Loaded;
use crate::features::fetch::park::block_on;
use crate::features::listen::Telling;

/// Number of times that a computation inside another of the same key starts again.
const NESTED_ATTEMPTS: usize = 64;

/// A key of a cache, present or absent: [`Cache::entry`], [`Cache::entry_by_ref`].
///
/// The entry itself blocks nothing and takes no lock.
///
/// ```
/// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
/// assert_eq!(cache.entry("one".to_owned()).or_insert(1), 1);
/// assert_eq!(cache.entry_by_ref("one").or_insert(2), 1);
/// ```
pub struct Entry<'c, K, V, S = foldhash::fast::RandomState, A = ByValue<K>> {
    cache: &'c Cache<K, V, S>,
    key: A,
    of: PhantomData<K>,
}

/// The decision of a computation of [`Entry::and_compute`] for the key.
///
/// ```
/// use frazil::{Cache, Compute};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// cache.entry(1).and_compute(|value| value.map_or(Compute::Put(1), |_| Compute::Remove));
/// assert_eq!(cache.get(&1), Some(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute<V> {
    /// Insert this, or replace the present entry.
    Put(V),
    /// Remove the entry.
    Remove,
    /// Leave the key as it is.
    Keep,
}

/// The result of [`Entry::and_compute`].
///
/// ```
/// use frazil::{Cache, Compute, Computed};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// let absent = cache.entry(1).and_compute(|_| Compute::Remove);
/// assert_eq!(absent, Computed::Unchanged(None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computed<V> {
    /// Inserted this; the key was absent.
    Inserted(V),
    /// Replaced another entry by this.
    Replaced(V),
    /// Removed this.
    Removed(V),
    /// Left this unchanged.
    Unchanged(Option<V>),
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Access to one key in one step.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, Vec<u64>> = frazil::Cache::builder(100).build();
    /// assert!(cache.entry(1).or_default().is_empty());
    /// assert!(cache.contains_key(&1));
    /// ```
    pub fn entry(&self, key: K) -> Entry<'_, K, V, S, ByValue<K>> {
        Entry { cache: self, key: ByValue(key), of: PhantomData }
    }

    /// As [`entry`](Cache::entry), by a borrowed form; the key itself is made only on a miss or for
    /// a computation.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let cache: frazil::Cache<Arc<str>, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry_by_ref("one").or_insert_with(|| 1), 1);
    /// assert_eq!(cache.entry_by_ref("one").or_insert_with(|| unreachable!()), 1);
    /// ```
    pub fn entry_by_ref<'q, Q>(&self, key: &'q Q) -> Entry<'_, K, V, S, ByRef<'q, Q>>
    where
        Q: Hash + ToKey<K> + ?Sized,
    {
        Entry { cache: self, key: ByRef(key), of: PhantomData }
    }
}

impl<K: Hash + Eq, V: Clone, S: BuildHasher, A: EntryKey<K>> Entry<'_, K, V, S, A> {
    /// The key, or its borrowed form.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).key(), &1);
    /// ```
    pub fn key(&self) -> &A::Query {
        self.key.query()
    }

    /// As [`Cache::get`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).get(), None);
    /// ```
    pub fn get(&self) -> Option<V> {
        self.cache.get(self.key.query())
    }

    /// The present value; if the key is absent, `value`, which is then inserted.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_insert(10), 10);
    /// assert_eq!(cache.entry(1).or_insert(20), 10);
    /// ```
    pub fn or_insert(self, value: V) -> V {
        self.or_insert_with(|| value)
    }

    /// As [`Cache::get_or_insert_with`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_insert_with(|| 10), 10);
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub fn or_insert_with(self, load: impl FnOnce() -> V) -> V {
        let Ok(value) = self.or_try_insert_with(|| Ok::<V, Infallible>(load()));
        value
    }

    /// As [`Cache::try_get_or_insert_with`].
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_try_insert_with(|| Err("none")), Err("none"));
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `load`.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub fn or_try_insert_with<E>(self, load: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let Entry { cache, key, .. } = self;
        match cache.get_with_hash(key.query()) {
            (hash, Some(value)) if cache.core.is_fresh(hash, key.query()) => Ok(value),
            (hash, found) => cache.core.load_here(hash, key, load, found),
        }
    }

    /// As [`Cache::get_or_insert_async`].
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(block_on(cache.entry(1).or_insert_async(async { 10 })), 10);
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn or_insert_async(self, load: impl Future<Output = V>) -> V {
        let load = async { Ok::<V, Infallible>(load.await) };
        let Ok(value) = self.or_try_insert_async(load).await;
        value
    }

    /// As [`Cache::try_get_or_insert_async`].
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// let load = cache.entry(1).or_try_insert_async(async { Err("none") });
    /// assert_eq!(block_on(load), Err("none"));
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `load`.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn or_try_insert_async<E>(
        self,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        let Entry { cache, key, .. } = self;
        match cache.get_with_hash(key.query()) {
            (hash, Some(value)) if cache.core.is_fresh(hash, key.query()) => Ok(value),
            (hash, found) => Cold(cache.core.load_task(hash, key, load, found)).await,
        }
    }

    /// As [`Cache::get_or_fetch`], for a fetch that may also set lifetime and weight: [`Loaded`].
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// use frazil::Loaded;
    /// use std::time::Duration;
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// let hour = Duration::from_secs(3600);
    /// let fetch = async { Ok::<_, ()>(Loaded::new(10).lifetime(hour)) };
    /// assert_eq!(block_on(cache.entry_by_ref("token").or_fetch(fetch)), Ok(10));
    /// assert!(cache.lifetime_left("token").unwrap() < 2 * hour);
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Cache::get_or_fetch`].
    ///
    /// # Panics
    ///
    /// If `fetch` does; then nothing has changed.
    pub async fn or_fetch<L, E>(
        self,
        fetch: impl Future<Output = Result<L, E>>,
    ) -> Result<V, FetchError<E>>
    where
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
    {
        let Entry { cache, key, .. } = self;
        match cache.get_with_hash(key.query()) {
            (hash, Some(value)) if cache.core.is_fresh(hash, key.query()) => Ok(value),
            (hash, found) => Cold(cache.core.fetch_task(hash, key, fetch, None, found)).await,
        }
    }

    /// As [`or_fetch`](Entry::or_fetch), for threads: waits by blocking.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_fetch_blocking(|| Ok::<_, ()>(10)), Ok(10));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Cache::get_or_fetch`].
    ///
    /// # Panics
    ///
    /// If `fetch` does; then nothing has changed.
    pub fn or_fetch_blocking<L, E>(
        self,
        fetch: impl FnOnce() -> Result<L, E>,
    ) -> Result<V, FetchError<E>>
    where
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
    {
        let Entry { cache, key, .. } = self;
        match cache.get_with_hash(key.query()) {
            (hash, Some(value)) if cache.core.is_fresh(hash, key.query()) => Ok(value),
            (hash, found) => cache.core.fetch_here(hash, key, fetch, found),
        }
    }

    /// As [`or_fetch`](Entry::or_fetch), with a fetch that outlives its caller.
    ///
    /// If a caller of [`or_fetch`](Entry::or_fetch) is dropped, for example by a timeout, its fetch
    /// is dropped too. So an origin that takes longer than callers wait gets new requests again and
    /// again, and never answers in time. A detached fetch stays with the key. The next caller that
    /// waits, or that comes within [`Fetching::linger`](crate::Fetching::linger), continues it
    /// instead of starting its own. Only callers poll it; to continue it without callers, await
    /// this in a task of its own. Threads do not continue it, they load. A write of the key and
    /// `clear` drop a fetch that no caller polls; a fetch that owns the cache, in an `Arc`, keeps
    /// the cache alive until then. It costs one more allocation.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # let mut context = Context::from_waker(Waker::noop());
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// let mut polls = 0;
    /// let slow = std::future::poll_fn(move |_| {
    ///     polls += 1;
    ///     if polls > 1 { Poll::Ready(Ok::<u64, ()>(10)) } else { Poll::Pending }
    /// });
    /// let mut first = Box::pin(cache.entry(1).or_fetch_detached(slow));
    /// assert!(first.as_mut().poll(&mut context).is_pending());
    /// drop(first); // has no patience
    /// let second = cache.entry(1).or_fetch_detached(async { Ok::<u64, ()>(20) });
    /// assert_eq!(std::pin::pin!(second).poll(&mut context), Poll::Ready(Ok(10)));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Cache::get_or_fetch`]. A caller that continues a fetch gets its error, or starts its
    /// own fetch if its type of error differs.
    ///
    /// # Panics
    ///
    /// If the fetch that it polls does.
    pub async fn or_fetch_detached<L, E>(
        self,
        fetch: impl Future<Output = Result<L, E>> + Send + 'static,
    ) -> Result<V, FetchError<E>>
    where
        L: Into<Loaded<V>> + 'static,
        E: Send + Sync + 'static,
        V: 'static,
    {
        let Entry { cache, key, .. } = self;
        match cache.get_with_hash(key.query()) {
            (hash, Some(value)) if cache.core.is_fresh(hash, key.query()) => Ok(value),
            (hash, found) => {
                let linger = nanoseconds(cache.core.hooks.fetch.fetching.linger);
                let detached = Some(Detached::new(fetch, linger));
                let none = std::future::pending::<Result<V, E>>();
                Cold(cache.core.fetch_task(hash, key, none, detached, found)).await
            }
        }
    }

    /// The present value; if the key is absent, the default of its type, which is then inserted.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.entry(1).or_default(), 0);
    /// ```
    pub fn or_default(self) -> V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Calls `compute` with the present value and applies its answer, in one step: if the key is
    /// changed or evicted meanwhile, nothing is done and `compute` is called again. Computations of
    /// one key run one after the other, and after a load of it that is under way. So all additions
    /// to a counter are counted, as long as it is not evicted. It is not a request: neither policy
    /// nor counts see the look-up. A value that is not admitted is returned even so.
    ///
    /// An insertion that began before a computation of an absent key, and ends after it, may count
    /// as inserted and removed before: then the computed value stays, though it was not computed
    /// from the inserted one.
    ///
    /// `compute` runs outside all locks and may use the cache. If it writes this very key, that
    /// write stands, and its answer is ignored. In a task use
    /// [`and_compute_async`](Entry::and_compute_async): this form blocks as
    /// [`get_or_insert_with`](Cache::get_or_insert_with) does.
    ///
    /// ```
    /// use frazil::{Cache, Compute, Computed};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let add = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
    /// assert_eq!(cache.entry("visits").and_compute(add), Computed::Inserted(1));
    /// assert_eq!(cache.entry("visits").and_compute(add), Computed::Replaced(2));
    /// ```
    ///
    /// # Panics
    ///
    /// If `compute` does; then nothing has changed.
    pub fn and_compute(self, compute: impl FnMut(Option<&V>) -> Compute<V>) -> Computed<V>
    where
        K: Clone,
    {
        self.compute(None, compute).expect("who waits for ever has the turn at last")
    }

    /// As [`and_compute`](Entry::and_compute), but waits at most `timeout` in total for others that
    /// load or compute the key. The time of `compute` itself is not bounded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use frazil::{Cache, Compute, Computed};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let add = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
    /// let computed = cache.entry("visits").and_compute_within(Duration::from_secs(1), add);
    /// assert_eq!(computed, Ok(Computed::Inserted(1)));
    /// ```
    ///
    /// # Errors
    ///
    /// [`TimedOut`], and nothing has changed.
    ///
    /// # Panics
    ///
    /// As [`and_compute`](Entry::and_compute).
    pub fn and_compute_within(
        self,
        timeout: Duration,
        compute: impl FnMut(Option<&V>) -> Compute<V>,
    ) -> Result<Computed<V>, TimedOut>
    where
        K: Clone,
    {
        self.compute(Some(nanoseconds(timeout)), compute).ok_or(TimedOut)
    }

    /// `None` if others took longer than `timeout` nanoseconds.
    fn compute(
        self,
        timeout: Option<u64>,
        mut compute: impl FnMut(Option<&V>) -> Compute<V>,
    ) -> Option<Computed<V>>
    where
        K: Clone,
    {
        let work = self.work();
        let cache = work.cache;
        // As in `Core::load`.
        cache.core.expire_share();
        let deadline = timeout.map(|timeout| exact_ns().saturating_add(timeout));
        let mut limits = WaitLimits::new(usize::MAX, timeout, None);
        // Each iteration means that a flight of the key has ended, or another thread has written
        // the key.
        let computed = loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(exact_ns()));
            let (computed, telling) = match block_on(work.await_turn(&mut limits), left) {
                Some(Waited::Turn(turn)) => work.compute_in_turn(&turn, &mut compute),
                Some(Waited::Vain(vain)) => {
                    cache.core.hooks.fetch.flights.tally.in_vain(vain);
                    return None;
                }
                Some(_) => break work.compute_apart(&mut compute),
                None => continue,
            };
            // Only after the turn is released: the listener may wait for a caller that waits for
            // the turn.
            drop(telling);
            if let Some(computed) = computed {
                break computed;
            }
        };
        cache.core.reclaim_if_due();
        cache.core.wait_if_overweight();
        Some(computed)
    }

    /// As [`and_compute`](Entry::and_compute), for tasks: `compute` gets a clone of the present
    /// value and returns a future.
    ///
    /// It waits for others without blocking the thread. While the future runs, others that compute
    /// or load the key wait for it; look-ups and writes do not. If the key is written, removed or
    /// evicted meanwhile, the answer is dropped and `compute` is called again. The future may be
    /// dropped at any time: then nothing has changed, and the next waiting caller has the turn. The
    /// statement of [`and_compute`](Entry::and_compute) about earlier insertions holds here for
    /// present keys too, if two of them end meanwhile.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// use frazil::{Cache, Compute, Computed};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let add = |count: Option<u64>| async move { Compute::Put(count.unwrap_or(0) + 1) };
    /// assert_eq!(block_on(cache.entry("a").and_compute_async(add)), Computed::Inserted(1));
    /// assert_eq!(block_on(cache.entry("a").and_compute_async(add)), Computed::Replaced(2));
    /// ```
    ///
    /// # Panics
    ///
    /// If `compute` or its answer does; then nothing has changed.
    pub async fn and_compute_async<F>(self, mut compute: impl FnMut(Option<V>) -> F) -> Computed<V>
    where
        K: Clone,
        F: Future<Output = Compute<V>>,
    {
        let work = self.work();
        let cache = work.cache;
        cache.core.expire_share();
        let mut limits = WaitLimits::endless(true);
        let computed = loop {
            match work.await_turn(&mut limits).await {
                Some(Waited::Turn(turn)) => {
                    if let Some(computed) = work.await_in_turn(turn, &mut compute).await {
                        break computed;
                    }
                }
                Some(_) => break work.await_apart(&mut compute).await,
                None => {}
            }
        };
        cache.core.reclaim_if_due();
        cache.core.wait_if_overweight();
        computed
    }
}

impl<'c, K: Hash + Eq, V, S: BuildHasher, A: EntryKey<K>> Entry<'c, K, V, S, A> {
    fn work(self) -> Work<'c, K, V, S> {
        let Entry { cache, key, .. } = self;
        let (hash, mixed) = cache.core.hashes(key.query());
        Work { cache, key: ByValue(key.into_key()), hash, mixed }
    }
}

/// The result of a computation, and its calls of the listener.
type Outcome<'c, K, V, S> = (Option<Computed<V>>, Option<Telling<'c, K, V, S>>);

/// Others took longer to load or compute the key than the caller waits:
/// [`Entry::and_compute_within`].
///
/// ```
/// assert_eq!(frazil::TimedOut.to_string(), "others take too long to load or compute the key");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("others take too long to load or compute the key")
    }
}

impl Error for TimedOut {}

/// A computation of a key.
struct Work<'c, K, V, S> {
    cache: &'c Cache<K, V, S>,
    key: ByValue<K>,
    hash: u64,
    mixed: Mixed,
}

impl<'c, K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Work<'c, K, V, S> {
    /// Waits for the turn. Returns it, or the reason not to wait: not permitted, or long enough.
    /// `None` if a flight has ended.
    async fn await_turn(&self, limits: &mut WaitLimits<'c>) -> Option<Waited<'c, K, V>> {
        match self.cache.core.join(self.hash, &self.key, limits).await {
            Waited::Over(..) => None,
            Waited::Remembered(flight) => {
                flight.forget(&self.cache.core.hooks.fetch.flights);
                None
            }
            waited => Some(waited),
        }
    }

    /// The present entry: its slot, which changes with each write of the key, and a clone.
    fn see(&self) -> Option<(u32, V)> {
        self.cache.core.with_found(self.mixed, &self.key.0, |found| {
            found.map(|found| {
                // SAFETY: published, and protected while this runs.
                let value = unsafe { self.cache.core.slab.value(found.slot()) };
                (found.slot(), value.clone())
            })
        })
    }

    /// As `compute_in_turn`, by a future.
    async fn await_in_turn<F: Future<Output = Compute<V>>>(
        &self,
        mut turn: Turn<'c, K, V>,
        compute: &mut impl FnMut(Option<V>) -> F,
    ) -> Option<Computed<V>> {
        // As in `compute_in_turn`.
        turn.drop_abandoned();
        if turn.is_overtaken() {
            return None;
        }
        let seen = self.see();
        let slot = seen.as_ref().map(|(slot, _)| *slot);
        let mut answer = pin!(turn.run(|| compute(seen.map(|(_, value)| value))));
        let answer = poll_fn(|context| turn.poll(|| answer.as_mut().poll(context))).await;
        self.follow_in_turn(turn, slot, answer)
    }

    /// Applies an answer to the entry seen. `None` if another thread has written the key meanwhile.
    fn follow_in_turn(
        &self,
        turn: Turn<'c, K, V>,
        seen: Option<u32>,
        answer: Compute<V>,
    ) -> Option<Computed<V>> {
        let mut answer = Some(answer);
        let exchange = |work: &mut dyn FnMut() -> bool| {
            turn.store(work, || self.cache.core.remove_any(self.mixed, &self.key.0))
                .unwrap_or(false)
        };
        let (mut computed, telling) =
            self.compute_once(&mut answered(&mut answer), exchange, Some(seen));
        // A write by the function itself stays.
        if computed.is_none() && turn.is_overtaken_by_itself() {
            computed = Some(Computed::Unchanged(self.cache.core.peek(self.mixed, &self.key.0)));
        }
        // As in `and_compute`.
        drop(turn);
        // Here, not after the return: after a listener's panic no caller would get the result.
        drop(telling);
        computed
    }

    /// As `compute_apart`, by a future.
    async fn await_apart<F: Future<Output = Compute<V>>>(
        &self,
        compute: &mut impl FnMut(Option<V>) -> F,
    ) -> Computed<V> {
        for _ in 0..NESTED_ATTEMPTS {
            let seen = self.see();
            let slot = seen.as_ref().map(|(slot, _)| *slot);
            let answer = compute(seen.map(|(_, value)| value)).await;
            if let Some(computed) = self.follow_apart(slot, answer) {
                return computed;
            }
        }
        Computed::Unchanged(self.cache.core.peek(self.mixed, &self.key.0))
    }

    /// As `follow_in_turn`, without one.
    fn follow_apart(&self, seen: Option<u32>, answer: Compute<V>) -> Option<Computed<V>> {
        let mut answer = Some(answer);
        let exchange = |work: &mut dyn FnMut() -> bool| {
            self.cache.core.overtake(self.hash, &self.key.0);
            work()
        };
        let (computed, telling) =
            self.compute_once(&mut answered(&mut answer), exchange, Some(seen));
        // As in `follow_in_turn`.
        drop(telling);
        computed
    }

    /// Computes, and returns the calls of the listener too. `None` if another thread has written
    /// the key meanwhile.
    fn compute_in_turn(
        &self,
        turn: &Turn<'_, K, V>,
        compute: &mut impl FnMut(Option<&V>) -> Compute<V>,
    ) -> Outcome<'c, K, V, S> {
        // It began before this computation.
        turn.drop_abandoned();
        let mut outcome = (None, None);
        if !turn.is_overtaken() {
            let mut compute = |value: Option<&V>| turn.run(|| compute(value));
            let exchange = |work: &mut dyn FnMut() -> bool| {
                turn.store(work, || self.cache.core.remove_any(self.mixed, &self.key.0))
                    .unwrap_or(false)
            };
            outcome = self.compute_once(&mut compute, exchange, None);
        }
        // A write by the function itself stays.
        if outcome.0.is_none() && turn.is_overtaken_by_itself() {
            outcome.0 = Some(Computed::Unchanged(self.cache.core.peek(self.mixed, &self.key.0)));
        }
        outcome
    }

    /// Computes inside another computation, or a load, of the same key by this thread.
    fn compute_apart(&self, compute: &mut impl FnMut(Option<&V>) -> Compute<V>) -> Computed<V> {
        for _ in 0..NESTED_ATTEMPTS {
            let exchange = |work: &mut dyn FnMut() -> bool| {
                self.cache.core.overtake(self.hash, &self.key.0);
                work()
            };
            let (computed, telling) = self.compute_once(compute, exchange, None);
            // As in `follow_in_turn`.
            drop(telling);
            if let Some(computed) = computed {
                return computed;
            }
        }
        Computed::Unchanged(self.cache.core.peek(self.mixed, &self.key.0))
    }

    /// Calls the function once, and applies its answer by `exchange`, which may refuse. Returns the
    /// calls of the listener too. `None` if the key has changed, or is not as `seen`.
    fn compute_once(
        &self,
        compute: &mut impl FnMut(Option<&V>) -> Compute<V>,
        exchange: impl FnOnce(&mut dyn FnMut() -> bool) -> bool,
        seen: Option<Option<u32>>,
    ) -> Outcome<'c, K, V, S> {
        let Work { cache, key: ByValue(key), hash, mixed } = self;
        cache.core.with_found(*mixed, key, |found| {
            if seen.is_some_and(|seen| seen != found.map(|found| found.slot())) {
                return (None, None);
            }
            // SAFETY: published, and protected while this runs.
            let old = found.map(|found| unsafe { cache.core.slab.value(found.slot()) });
            match (compute(old), found) {
                (Compute::Keep, _) | (Compute::Remove, None) => {
                    (Some(Computed::Unchanged(old.cloned())), None)
                }
                (Compute::Remove, Some(found)) => {
                    let removed = old.cloned();
                    let telling = cache.core.telling();
                    let gone = exchange(&mut || cache.core.remove_found(*mixed, found, key));
                    (removed.filter(|_| gone).map(Computed::Removed), telling)
                }
                (Compute::Put(value), found) => {
                    let weight = cache.core.weigh(key, &value);
                    let mut telling = cache.core.telling();
                    let term = cache.core.term(key, &value);
                    let mut entry = Some((key.clone(), value.clone()));
                    let mut put = || {
                        entry.take().is_some_and(|(key, value)| {
                            let newcomer = Newcomer::new(*hash, weight);
                            cache.core.exchange(
                                *mixed,
                                (newcomer, &term),
                                found,
                                (key, value),
                                &mut telling,
                            )
                        })
                    };
                    let computed = exchange(&mut put).then(|| match old {
                        None => Computed::Inserted(value),
                        Some(_) => Computed::Replaced(value),
                    });
                    (computed, telling)
                }
            }
        })
    }
}

/// A given answer, as a function that is called once.
fn answered<V>(answer: &mut Option<Compute<V>>) -> impl FnMut(Option<&V>) -> Compute<V> {
    |_| answer.take().expect("asked once")
}

impl<K, V, S, A: std::fmt::Debug> std::fmt::Debug for Entry<'_, K, V, S, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}
