//! Loads and fetches: one for each absent key, however many callers request it.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};

#[cfg(feature = "expiry")]
use equivalent::Equivalent;

use crate::cache::Cache;
use crate::features::fetch::Cold;
use crate::features::fetch::fetching::{FetchError, FetchStats};
use crate::features::fetch::key::{ByRef, ToKey};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// A clone of the value of `key`; if it is absent, the value that `load` returns, which is then
    /// inserted.
    ///
    /// If several threads and tasks request an absent key at once, one loads. The others wait and
    /// get clones of the loaded value, whether the cache admits it or not. If the loader panics,
    /// the panic is its caller's, and the next waiting caller runs its own loader. Loaders run
    /// outside all locks and may use the cache. A loader that requests its own key on the same
    /// thread loads directly and stores nothing.
    ///
    /// An insertion or removal of the key, or [`clear`](Cache::clear), *overtakes* a load under
    /// way: earlier callers get the loaded value, it is not stored, and later callers do not wait
    /// for it.
    ///
    /// A hit costs what [`get`](Cache::get) does. Two loaders that request each other's keys
    /// deadlock. In a task use the [asynchronous](Cache::get_or_insert_async) form: this one blocks
    /// the thread while another caller loads. If that caller is a task
    /// ([counted](crate::FetchStats::blocked)), and this thread has polled a pending loader, this
    /// thread may be the one that must poll the task: then it does not wait, but loads directly and
    /// stores nothing.
    ///
    /// ```
    /// let cache: frazil::Cache<String, usize> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.get_or_insert_with("four", || "four".len()), 4);
    /// assert_eq!(cache.get_or_insert_with("four", || unreachable!()), 4);
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` panics; then nothing has changed. If it would wait for itself: code that the cache
    /// calls for a key being loaded, other than its loader, has requested that key; or a loader
    /// that is a future blocks for a key that another future loads.
    #[inline]
    pub fn get_or_insert_with<Q>(&self, key: &Q, load: impl FnOnce() -> V) -> V
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
    {
        match self.get_with_hash(key) {
            (hash, Some(value)) if self.core.is_fresh(hash, key) => value,
            (hash, found) => {
                let load = || Ok::<V, Infallible>(load());
                let Ok(value) = self.core.load_here(hash, ByRef(key), load, found);
                value
            }
        }
    }

    /// As [`get_or_insert_with`](Cache::get_or_insert_with), with a loader that may fail.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// assert!(cache.try_get_or_insert_with("x", || "x".parse()).is_err());
    /// assert_eq!(cache.try_get_or_insert_with("7", || "7".parse()), Ok(7));
    /// assert_eq!(cache.len(), 1);
    /// ```
    ///
    /// # Errors
    ///
    /// The error of this caller's own `load`. Nothing is stored, and the next waiting caller runs
    /// its own loader.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    #[inline]
    pub fn try_get_or_insert_with<Q, E>(
        &self,
        key: &Q,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E>
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
    {
        match self.get_with_hash(key) {
            (hash, Some(value)) if self.core.is_fresh(hash, key) => Ok(value),
            (hash, found) => self.core.load_here(hash, ByRef(key), load, found),
        }
    }

    /// As [`get_or_insert_with`](Cache::get_or_insert_with), for tasks: waits without
    /// blocking the thread, under any executor. Threads and tasks share a key's load.
    ///
    /// `load` is polled only if this call loads. The future may be dropped at any time. If it was
    /// loading, the next waiting caller runs its own loader; if it was waiting and had been woken,
    /// it passes the wake on. It is `Send` if the cache, the key and `load` can be sent. If it is
    /// neither polled nor dropped while it loads, callers that wait for it keep waiting.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// let row = block_on(async {
    ///     cache.get_or_insert_async(&1, async { "from afar".to_owned() }).await
    /// });
    /// assert_eq!(row, "from afar");
    /// assert_eq!(cache.get(&1), Some(row));
    /// ```
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn get_or_insert_async<Q>(&self, key: &Q, load: impl Future<Output = V>) -> V
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
    {
        let load = async { Ok::<V, Infallible>(load.await) };
        let Ok(value) = self.try_get_or_insert_async(key, load).await;
        value
    }

    /// As [`get_or_insert_async`](Cache::get_or_insert_async), with a loader that may fail.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// let row = block_on(cache.try_get_or_insert_async(&1, async { Err("no such row") }));
    /// assert_eq!(row, Err("no such row"));
    /// assert!(cache.is_empty());
    /// ```
    ///
    /// # Errors
    ///
    /// The error of this caller's own `load`. Nothing is stored, and the next waiting caller runs
    /// its own loader.
    ///
    /// # Panics
    ///
    /// If `load` does; then nothing has changed.
    pub async fn try_get_or_insert_async<Q, E>(
        &self,
        key: &Q,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E>
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
    {
        match self.get_with_hash(key) {
            (hash, Some(value)) if self.core.is_fresh(hash, key) => Ok(value),
            (hash, found) => Cold(self.core.load_task(hash, ByRef(key), load, found)).await,
        }
    }

    /// A clone of the value of `key`; if it is absent, the value that `fetch` returns, which is
    /// then inserted.
    ///
    /// As with [`get_or_insert_async`](Cache::get_or_insert_async) one caller fetches, the others
    /// wait and get a clone, whether the cache admits the value or not. If the fetching caller
    /// panics or is dropped, a waiting one takes over. A write of the key during the fetch
    /// *overtakes* it, and its value is not stored. In addition
    /// [`Builder::fetching`](crate::Builder::fetching) sets how many callers may wait, how long,
    /// who gets an error, and whether it is remembered. Fetches, loads and computations of one key
    /// wait for each other.
    ///
    /// With [`OnError::Share`](crate::OnError::Share) errors pass from task to task, so `E` must be
    /// `Send`, `Sync` and `'static`. A caller that waits with another type of error than the
    /// fetching caller's runs its own fetch. With a [timeout](crate::Fetching::timeout) the first
    /// task that waits starts a thread of the cache, which wakes late tasks under any executor.
    ///
    /// A hit costs what [`get`](Cache::get) does.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let Poll::Ready(output) = std::pin::pin!(future)
    /// #         .poll(&mut Context::from_waker(Waker::noop())) else { panic!() };
    /// #     output
    /// # }
    /// # #[derive(Debug, PartialEq)] struct Offline;
    /// # async fn request(page: &str) -> Result<String, Offline> { Ok(format!("<h1>{page}</h1>")) }
    /// use frazil::{Cache, FetchError};
    /// let pages: Cache<String, String> = Cache::builder(100).build();
    /// let page = block_on(pages.get_or_fetch("index", request("index")))?;
    /// assert_eq!(pages.get("index"), Some(page));
    /// # Ok::<(), FetchError<Offline>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FetchError::Failed`] with the error of `fetch`, or with
    /// [`OnError::Share`](crate::OnError::Share) of another caller's; [`FetchError::TimedOut`] and
    /// [`FetchError::TooManyWaiters`], if bounds are set.
    ///
    /// # Panics
    ///
    /// If `fetch` does; then nothing has changed.
    pub async fn get_or_fetch<Q, E>(
        &self,
        key: &Q,
        fetch: impl Future<Output = Result<V, E>>,
    ) -> Result<V, FetchError<E>>
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
        E: Send + Sync + 'static,
    {
        match self.get_with_hash(key) {
            (hash, Some(value)) if self.core.is_fresh(hash, key) => Ok(value),
            (hash, found) => Cold(self.core.fetch_task(hash, ByRef(key), fetch, None, found)).await,
        }
    }

    /// As [`get_or_fetch`](Cache::get_or_fetch), for threads: waits by blocking.
    ///
    /// ```
    /// use frazil::{Cache, FetchError};
    /// let cache: Cache<String, u64> = Cache::builder(100).build();
    /// assert_eq!(cache.get_or_fetch_blocking("7", || "7".parse::<u64>()), Ok(7));
    /// let error = cache.get_or_fetch_blocking("x", || "x".parse::<u64>());
    /// assert!(matches!(error, Err(FetchError::Failed(_))));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`get_or_fetch`](Cache::get_or_fetch).
    ///
    /// # Panics
    ///
    /// If `fetch` does; then nothing has changed.
    #[inline]
    pub fn get_or_fetch_blocking<Q, E>(
        &self,
        key: &Q,
        fetch: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, FetchError<E>>
    where
        Q: Hash + ToKey<K> + ?Sized,
        V: Clone,
        E: Send + Sync + 'static,
    {
        match self.get_with_hash(key) {
            (hash, Some(value)) if self.core.is_fresh(hash, key) => Ok(value),
            (hash, found) => self.core.fetch_here(hash, ByRef(key), fetch, found),
        }
    }

    /// Whether the entry of `key` is present and due to be reloaded
    /// ([`Builder::refresh_ahead`](crate::Builder::refresh_ahead)). The policy and the counts do
    /// not see it.
    ///
    /// ```
    /// use frazil::Cache;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// let (life, last) = (Duration::from_secs(60), Duration::from_secs(15));
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(100).time_to_live(life).refresh_ahead(last).build();
    /// let cache = Arc::new(cache);
    /// cache.insert_for(1, 10, last / 2);
    /// # let mut threads = Vec::new();
    /// if let Some(value) = cache.get(&1) {
    ///     if cache.is_due(&1) {
    ///         let cache = Arc::clone(&cache);
    ///         // However many do so, one loads.
    ///         let thread = std::thread::spawn(move || cache.get_or_insert_with(&1, || 11));
    ///         # threads.push(thread);
    ///     }
    ///     assert_eq!(value, 10);
    /// }
    /// # threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 11));
    /// ```
    #[cfg(feature = "expiry")]
    pub fn is_due<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.core.is_due(self.core.hashes(key).0, key)
    }

    /// Counts and histograms of fetches and loads since the cache was built. O(flights), and 12 kB.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.fetch_stats(), frazil::FetchStats::default());
    /// ```
    pub fn fetch_stats(&self) -> FetchStats {
        self.core.fetch_stats()
    }

    /// Tasks whose waits are timed now, and whether the thread for that has started. For tests.
    #[cfg(any(feature = "measure", loom, shuttle))]
    #[doc(hidden)]
    pub fn timed_waits(&self) -> (usize, bool) {
        self.core.hooks.fetch.flights.timer.waits()
    }

    /// Number of keys being loaded or computed. For tests.
    #[cfg(any(feature = "measure", loom, shuttle))]
    #[doc(hidden)]
    pub fn flights(&self) -> usize {
        self.core.hooks.fetch.flights.len().0
    }
}
