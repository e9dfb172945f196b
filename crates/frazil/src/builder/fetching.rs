//! Settings of fetches, of failed fetches, and of refresh ahead.

use std::time::Duration;

use crate::build_error::BuildError;
use crate::builder::Builder;
#[cfg(feature = "expiry")]
use crate::clock::nanoseconds;
use crate::core::order::locked::weighs_delay;
use crate::features::fetch::backends::Backends;
use crate::features::fetch::fetching::{Fetching, OnError};
#[cfg(doc)]
use crate::{Cache, Policy};

impl<K, V, S> Builder<K, V, S> {
    /// How [`get_or_fetch`](Cache::get_or_fetch) waits, and who gets errors.
    ///
    /// ```
    /// use frazil::{Cache, FetchError, Fetching, OnError};
    /// use std::time::Duration;
    /// let fetching = Fetching {
    ///     on_error: OnError::Share,
    ///     negative_ttl: Duration::from_secs(5),
    ///     ..Fetching::default()
    /// };
    /// let rows: Cache<u64, String> = Cache::builder(100).fetching(fetching).build();
    /// let error = rows.get_or_fetch_blocking(&1, || Err("no such row")).unwrap_err();
    /// // For five seconds nobody asks again.
    /// assert_eq!(rows.get_or_fetch_blocking(&1, || unreachable!()), Err(error));
    /// ```
    pub fn fetching(mut self, fetching: Fetching) -> Self {
        self.fetch.fetching = fetching;
        self
    }

    /// The backend that a key is fetched from. A policy that weighs delay, [`Policy::Mad`] or
    /// [`Policy::GuardedMad`], then predicts the duration of a fetch from all fetches from that
    /// backend (a moving average, 1/16) instead of from the object's own last fetch.
    ///
    /// Use it if fetch times from one backend vary much. The cache calls it once for each fetch,
    /// outside all locks. `build` refuses it for other policies.
    ///
    /// ```
    /// use frazil::Cache;
    /// let cache: Cache<String, String> = Cache::builder(1_000)
    ///     .policy("mad".parse().unwrap())
    ///     .backends(|key: &String| u8::from(key.starts_with("archive/")))
    ///     .build();
    /// let page = cache.get_or_fetch_blocking("archive/1999", || Ok::<_, ()>("old".to_owned()));
    /// assert_eq!(page, Ok("old".to_owned()));
    /// ```
    pub fn backends(mut self, of: impl Fn(&K) -> u8 + Send + Sync + 'static) -> Self {
        self.fetch.backends = Some(Backends::new(of));
        self
    }

    /// How long the cache returns an error of this type to later callers, instead of
    /// [`Fetching::negative_ttl`](crate::Fetching::negative_ttl), which holds for other types.
    /// Zero: not at all. The cache calls it once for each error, outside all locks. `build` refuses
    /// it without [`OnError::Share`](crate::OnError::Share).
    ///
    /// ```
    /// use frazil::{Cache, Fetching, OnError};
    /// use std::time::Duration;
    /// #[derive(Clone, Copy)] enum Failure { NoSuchRow, Busy }
    /// let rows: Cache<u64, u64> = Cache::builder(100)
    ///     .fetching(Fetching { on_error: OnError::Share, ..Fetching::default() })
    ///     .negative_ttl(|failure: &Failure| match failure {
    ///         Failure::NoSuchRow => Duration::from_secs(60),
    ///         Failure::Busy => Duration::ZERO,
    ///     })
    ///     .build();
    /// for failure in [Failure::Busy, Failure::NoSuchRow] {
    ///     assert!(rows.get_or_fetch_blocking(&1, || Err(failure)).is_err());
    /// }
    /// assert_eq!(rows.fetch_stats().errors, 1);
    /// ```
    pub fn negative_ttl<E: 'static>(
        mut self,
        ttl: impl Fn(&E) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.fetch.negative_ttl = Some(Box::new(move |error| error.downcast_ref().map(&ttl)));
        self
    }

    /// How long before the end of its lifetime an entry is *due*: hits still return it, and one of
    /// the callers that load or fetch its key reloads it. By default never.
    ///
    /// With a [`time_to_live`](Builder::time_to_live) of a minute and a value of 15 seconds here,
    /// an entry is fresh for 45 seconds. In the last 15 seconds callers get the old value at once,
    /// except one, which loads and gets the new value. That value replaces the entry, unless the
    /// key was written meanwhile. If the loader fails, its caller gets the old value too, and the
    /// next caller tries; a [remembered](crate::Fetching::negative_ttl) error keeps callers from
    /// trying for a while. At the end of its lifetime the entry expires, reloaded or not.
    ///
    /// So that no caller waits, call [`is_due`](crate::Cache::is_due) after a `get`, and load in a
    /// task or thread of your own. [`get`](crate::Cache::get) itself loads nothing, and its hits
    /// cost no more; hits of the loading calls read the deadline once more. An entry whose own
    /// lifetime is clearly shorter than this is due at once. The time to idle does not count.
    ///
    /// ```
    /// use frazil::Cache;
    /// use std::time::Duration;
    /// let (life, last) = (Duration::from_secs(60), Duration::from_secs(15));
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(100).time_to_live(life).refresh_ahead(last).build();
    /// assert_eq!(cache.get_or_insert_with(&1, || 10), 10);
    /// assert_eq!(cache.get_or_insert_with(&1, || 11), 10); // fresh
    /// cache.insert_for(1, 20, last / 2); // due
    /// assert_eq!(cache.get_or_insert_with(&1, || 21), 21);
    /// assert_eq!(cache.get_or_insert_with(&1, || 22), 21);
    /// ```
    #[cfg(feature = "expiry")]
    pub fn refresh_ahead(mut self, span: Duration) -> Self {
        self.fetch.refresh_ahead = nanoseconds(span);
        self
    }

    /// Finds a setting that would have no effect.
    pub(super) fn check_fetching(&self) -> Result<(), BuildError> {
        if self.fetch.backends.is_some() && !weighs_delay(self.policy) {
            return Err(BuildError::BackendsUnasked(self.policy));
        }
        let remembers =
            self.fetch.negative_ttl.is_some() || !self.fetch.fetching.negative_ttl.is_zero();
        if remembers && self.fetch.fetching.on_error != OnError::Share {
            return Err(BuildError::NegativeTtlUnshared);
        }
        Ok(())
    }
}
