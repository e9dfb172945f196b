//! What a builder is told of fetches that fail, and of entries that are loaded anew.

use std::time::Duration;

use crate::builder::Builder;
use crate::clock::nanoseconds;

impl<K, V, S> Builder<K, V, S> {
    /// How long each error of this type answers later callers too, in the place of
    /// [`Fetching::negative_ttl`](crate::Fetching::negative_ttl), which holds for those of other types. Zero: not at all. Called
    /// once for each error, outside all locks. Refused without [`OnError::Share`](crate::OnError::Share).
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
        self.negative_ttl = Some(Box::new(move |error| error.downcast_ref().map(&ttl)));
        self
    }

    /// How long before the end of its lifetime an entry is *due*: it is answered as before, and
    /// one of those who load or fetch its key loads it anew. Never unless set.
    ///
    /// With a [`time_to_live`](Builder::time_to_live) of a minute and 15 seconds of this an entry
    /// is fresh for 45 seconds; whoever asks in the last 15 gets what is there at once, but for
    /// one, who loads and gets what it has loaded. What that caller brings replaces the entry,
    /// unless the key was written meanwhile. If its loader fails it gets what is there as well,
    /// and the next one tries; a [remembered](crate::Fetching::negative_ttl) error keeps others
    /// from it for a while. At the end of its lifetime the entry goes, loaded or not.
    ///
    /// To have nobody wait ask [`is_due`](crate::Cache::is_due) after a `get`, and load in a task or a
    /// thread of your own. [`get`](crate::Cache::get) itself loads nothing, and a hit of it costs
    /// what it did; a hit of the loading calls looks for the deadline once more. By the lifetime
    /// that an entry was given, so one that lives clearly shorter than this is due at once; the time
    /// to idle does not count.
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
    pub fn refresh_ahead(mut self, span: Duration) -> Self {
        self.refresh_ahead = nanoseconds(span);
        self
    }
}
