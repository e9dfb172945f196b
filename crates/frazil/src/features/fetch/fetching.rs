//! Fetching: loading with a bound for each wait, and errors that reach the waiters.
//!
//! This file has the public interface and its callers' [`FetchMode`]. Flights, loop and waits are
//! those of loading. `docs/design/fetching.md` explains how they fit.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::nanoseconds;
use crate::distribution::Distribution;
use crate::features::Featured;
use crate::features::fetch::detached::Detached;
use crate::features::fetch::flight::{SharedError, Vain, WaitLimits};
use crate::features::fetch::key::EntryKey;
use crate::features::fetch::loaded::Loaded;
use crate::features::fetch::table::Flights;
use crate::features::fetch::{FetchMode, FetchState, Request, park};
use crate::sync::atomic::Ordering::Relaxed;

/// The waiters that get the error of a fetch.
///
/// ```
/// assert_eq!(frazil::OnError::default(), frazil::OnError::Retry);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Only the caller that fetched. The next that waits runs its own fetch, and so on. For origins
    /// that fail now and then.
    #[default]
    Retry,
    /// All callers that wait, at once. For origins whose failure would hit every caller.
    Share,
}

/// How [`Cache::get_or_fetch`](crate::Cache::get_or_fetch) waits, and who gets errors:
/// [`Builder::fetching`](crate::Builder::fetching).
///
/// ```
/// use frazil::{Cache, Fetching};
/// use std::time::Duration;
/// let fetching = Fetching { timeout: Some(Duration::from_secs(2)), ..Fetching::default() };
/// let cache: Cache<u64, u64> = Cache::builder(100).fetching(fetching).build();
/// assert_eq!(cache.get_or_fetch_blocking(&1, || Ok::<_, ()>(10)), Ok(10));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// How many callers may wait for one key's fetch; default 65,536. One more gets
    /// [`FetchError::TooManyWaiters`] at once. With 0 no caller waits.
    pub waiters_max: usize,
    /// How long a caller waits for other callers' fetches in total; default for ever. Then it gets
    /// [`FetchError::TimedOut`], and nothing else changes. Neither a caller's own fetch nor one
    /// that others wait for is cut off: put a timeout into the fetch itself.
    pub timeout: Option<Duration>,
    /// The callers that get an error; default [`OnError::Retry`].
    pub on_error: OnError,
    /// How long later callers get a remembered error, by the cache's
    /// [clock](crate::Builder::clock); default zero, not at all. `build` refuses it without
    /// [`OnError::Share`]. An insertion, removal or computation of the key ends it, and
    /// [`clear`](crate::Cache::clear) ends all. A cache remembers at most 8,192 errors, and at most
    /// 256 of keys whose hashes collide; then it forgets the oldest.
    /// [`Builder::negative_ttl`](crate::Builder::negative_ttl) can set it for each error.
    pub negative_ttl: Duration,
    /// How long a [detached](crate::Entry::or_fetch_detached) fetch that its last caller has left
    /// waits for another caller, by the cache's clock; default ten seconds. The bounds of
    /// remembered errors hold for such fetches and errors together.
    pub linger: Duration,
}

impl Default for Fetching {
    fn default() -> Self {
        Fetching {
            waiters_max: 1 << 16,
            timeout: None,
            on_error: OnError::Retry,
            negative_ttl: Duration::ZERO,
            linger: Duration::from_secs(10),
        }
    }
}

/// Why [`Cache::get_or_fetch`](crate::Cache::get_or_fetch) has no value.
///
/// ```
/// use frazil::{Cache, FetchError};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// let error = cache.get_or_fetch_blocking(&1, || "x".parse::<u64>()).unwrap_err();
/// assert_eq!(error.to_string(), "the fetch failed: invalid digit found in string");
/// assert!(std::error::Error::source(&error).is_some());
/// ```
#[derive(Debug, PartialEq, Eq)]
pub enum FetchError<E> {
    /// A fetch failed: the caller's own, or with [`OnError::Share`] the one it waited for, or a
    /// remembered one.
    Failed(Arc<E>),
    /// Another caller's fetch took longer than [`Fetching::timeout`].
    TimedOut,
    /// [`Fetching::waiters_max`] callers wait already, or the system has no thread to end the wait
    /// in time.
    TooManyWaiters,
}

impl<E: fmt::Display> fmt::Display for FetchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Failed(error) => write!(f, "the fetch failed: {error}"),
            FetchError::TimedOut => {
                f.write_str("the fetch that another caller runs takes too long")
            }
            FetchError::TooManyWaiters => f.write_str("too many callers wait for the key"),
        }
    }
}

impl<E: Error + 'static> Error for FetchError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FetchError::Failed(error) => Some(error),
            FetchError::TimedOut | FetchError::TooManyWaiters => None,
        }
    }
}

/// A caller's own error, so that `?` makes one of it.
///
/// ```
/// use frazil::FetchError;
/// fn number(text: &str) -> Result<u64, FetchError<std::num::ParseIntError>> {
///     Ok(text.parse()?)
/// }
/// assert!(matches!(number("x"), Err(FetchError::Failed(_))));
/// ```
impl<E> From<E> for FetchError<E> {
    fn from(error: E) -> Self {
        FetchError::Failed(Arc::new(error))
    }
}

impl<E> Clone for FetchError<E> {
    fn clone(&self) -> Self {
        match self {
            FetchError::Failed(error) => FetchError::Failed(Arc::clone(error)),
            FetchError::TimedOut => FetchError::TimedOut,
            FetchError::TooManyWaiters => FetchError::TooManyWaiters,
        }
    }
}

/// Counts of fetches and loads: [`Cache::fetch_stats`](crate::Cache::fetch_stats).
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.get_or_insert_with(&1, || 10);
/// let stats = cache.fetch_stats();
/// assert_eq!((stats.latency.count(), stats.delay.count(), stats.timed_out), (1, 0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchStats {
    /// Durations of fetches that returned a value, in nanoseconds of the cache's
    /// [clock](crate::Builder::clock).
    pub latency: Distribution,
    /// How long [delayed hits](crate::Stats::delayed_hits) waited for the value, in nanoseconds.
    pub delay: Distribution,
    /// Number of waiting callers when the value arrived, for each fetch that returned one.
    pub waiters: Distribution,
    /// Callers that got the error of a fetch they waited for.
    pub shared_errors: u64,
    /// Callers that got a remembered error.
    pub remembered_errors: u64,
    /// Callers that waited until the timeout.
    pub timed_out: u64,
    /// Callers that were refused because too many waited.
    pub too_many_waiters: u64,
    /// Threads that blocked while a task loads. If they belong to that task's executor, it stands
    /// still meanwhile.
    pub blocked: u64,
    /// Threads that did not block, because they had polled a pending loader or were running one:
    /// such a call loads directly, and stores nothing.
    pub unblocked: u64,
    /// Errors remembered now, with expired ones that no caller has met yet.
    pub errors: u64,
}

/// How long an error is remembered, if its type is the known one.
pub(crate) type NegativeTtl =
    Box<dyn Fn(&(dyn Any + Send + Sync)) -> Option<Duration> + Send + Sync>;

/// A caller who fetches: a task, or else a thread.
struct FetchCaller<'c> {
    fetching: &'c Fetching,
    negative_ttl: Option<&'c NegativeTtl>,
    is_task: bool,
}

impl<E: Send + Sync + 'static> FetchMode<E> for FetchCaller<'_> {
    type Error = FetchError<E>;

    fn limits<'t, K, V>(&self, table: &'t Flights<K, V>) -> WaitLimits<'t> {
        let Fetching { waiters_max, timeout, .. } = *self.fetching;
        let timer = self.is_task.then_some(&table.timer);
        WaitLimits::new(waiters_max, timeout.map(nanoseconds), timer)
    }

    fn own(&self, error: E) -> (FetchError<E>, Option<SharedError>) {
        let error = Arc::new(error);
        let shared: Option<SharedError> = match self.fetching.on_error {
            OnError::Retry => None,
            OnError::Share => Some(error.clone()),
        };
        (FetchError::Failed(error), shared)
    }

    fn shares(&self) -> bool {
        self.fetching.on_error == OnError::Share
    }

    fn remember(&self, error: &SharedError) -> Option<u64> {
        let own = self.negative_ttl.and_then(|ttl| ttl(&**error));
        Some(nanoseconds(own.unwrap_or(self.fetching.negative_ttl))).filter(|&span| span > 0)
    }

    fn others(&self, error: &SharedError) -> Option<FetchError<E>> {
        let error: Arc<dyn Any + Send + Sync> = Arc::clone(error);
        error.downcast().ok().map(FetchError::Failed)
    }

    fn in_vain(&self, vain: Vain) -> FetchError<E> {
        match vain {
            Vain::TimedOut => FetchError::TimedOut,
            Vain::TooManyWaiters => FetchError::TooManyWaiters,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Fetches on this thread, or waits. `stale` is the entry found, if it should be fetched anew.
    #[cold]
    #[inline(never)]
    pub(crate) fn fetch_here<A, L, E>(
        &self,
        hash: u64,
        key: A,
        fetch: impl FnOnce() -> Result<L, E>,
        stale: Option<V>,
    ) -> Result<V, FetchError<E>>
    where
        A: EntryKey<K>,
        L: Into<Loaded<V>>,
        V: Clone,
        E: Send + Sync + 'static,
    {
        let mode = self.fetch_caller(false);
        let timeout = self.hooks.fetch.fetching.timeout.map(nanoseconds);
        let load = async { fetch().map(Into::into) };
        park::block_on(self.load(Request { hash, key, load, detached: None, stale }, mode), timeout)
    }

    /// The same for a task, with the fetch that outlives it if there is one.
    pub(crate) async fn fetch_task<A, L, E>(
        &self,
        hash: u64,
        key: A,
        fetch: impl Future<Output = Result<L, E>>,
        detached: Option<Detached<V>>,
        stale: Option<V>,
    ) -> Result<V, FetchError<E>>
    where
        A: EntryKey<K>,
        L: Into<Loaded<V>>,
        V: Clone,
        E: Send + Sync + 'static,
    {
        let load = async { fetch.await.map(Into::into) };
        let request = Request { hash, key, load, detached, stale };
        self.load(request, self.fetch_caller(true)).await
    }

    fn fetch_caller(&self, is_task: bool) -> FetchCaller<'_> {
        let FetchState { fetching, negative_ttl, .. } = &self.hooks.fetch;
        FetchCaller { fetching, negative_ttl: negative_ttl.as_ref(), is_task }
    }

    /// Durations and results of fetches.
    pub(crate) fn fetch_stats(&self) -> FetchStats {
        let tally = &self.hooks.fetch.flights.tally;
        let [latency, delay, waiters] = tally.distributions();
        FetchStats {
            latency,
            delay,
            waiters,
            shared_errors: tally.shared_errors.load(Relaxed),
            remembered_errors: tally.remembered_errors.load(Relaxed),
            timed_out: tally.timed_out.load(Relaxed),
            too_many_waiters: tally.too_many_waiters.load(Relaxed),
            blocked: tally.blocked.load(Relaxed),
            unblocked: tally.unblocked.load(Relaxed),
            errors: self.hooks.fetch.flights.len().1 as u64,
        }
    }

    /// Forgets the errors that have expired.
    #[cfg(feature = "expiry")]
    pub(crate) fn forget_expired_errors(&self) {
        if !self.hooks.fetch.flights.is_empty() {
            self.hooks.fetch.flights.forget_expired(self.clock.exact());
        }
    }
}
