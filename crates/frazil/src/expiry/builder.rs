//! What a builder is told of lifetimes.

use std::time::Duration;

use crate::builder::Builder;

impl<K, V, S> Builder<K, V, S> {
    /// How long an entry lives from its insertion, or its replacement, on; for ever unless
    /// set.
    ///
    /// From then on no look-up finds it. Never earlier; at most some milliseconds later,
    /// because look-ups read the coarse clock of the system, and an eighth of a second
    /// with lifetimes of 8 seconds and more, because insertions read it then too.
    ///
    /// ```
    /// use std::time::Duration;
    /// let ttl = Duration::from_millis(20);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_live(ttl).build();
    /// cache.insert(1, 10);
    /// std::thread::sleep(3 * ttl);
    /// assert_eq!(cache.get(&1), None);
    /// ```
    pub fn time_to_live(mut self, lifetime: Duration) -> Self {
        self.terms.to_live = Some(lifetime);
        self
    }

    /// How long an entry lives from its last use on: from the last `get` that found it, or
    /// from its insertion. For ever unless set.
    ///
    /// Never shorter; up to a 64th longer, and some milliseconds, because a use that would
    /// change next to nothing is not noted. A hit writes to memory that threads share at
    /// most 64 times in that span. `peek`, `contains_key` and `iter` are no use.
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(100).time_to_live(24 * hour).time_to_idle(hour).build();
    /// cache.insert(1, 10);
    /// assert!(cache.lifetime_left(&1).unwrap() < 2 * hour);
    /// ```
    pub fn time_to_idle(mut self, lifetime: Duration) -> Self {
        self.terms.to_idle = Some(lifetime);
        self
    }

    /// How long an entry lives, by key and value, in the place of
    /// [`time_to_live`](Builder::time_to_live). `None`: for ever, but for the time to idle.
    ///
    /// Called once for each `insert`, before anything is held. The shorter of this and the
    /// time to idle holds.
    ///
    /// ```
    /// use std::time::Duration;
    /// struct Page { text: String, max_age: Option<Duration> }
    /// let cache: frazil::Cache<u64, Page> =
    ///     frazil::Cache::builder(100).expire_after(|_, page: &Page| page.max_age).build();
    /// cache.insert(1, Page { text: "news".into(), max_age: Some(Duration::ZERO) });
    /// cache.insert(2, Page { text: "history".into(), max_age: None });
    /// let pin = cache.pin();
    /// assert!(pin.get(&1).is_none() && pin.get(&2).is_some_and(|page| page.text == "history"));
    /// ```
    pub fn expire_after(
        mut self,
        lifetime: impl Fn(&K, &V) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.terms.of_entry = Some(Box::new(lifetime));
        self
    }

    /// What time it is, since any moment: the system's monotonic clock unless set.
    ///
    /// For tests that do not want to wait, and for programs that have the time at hand.
    /// Read on every hit once any entry has a lifetime, and on every insertion then; at both ends
    /// of each fetch; and on every hit with a policy that weighs delay. It should not run
    /// backward; if it does, entries live longer.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use std::time::Duration;
    /// let seconds = Arc::new(AtomicU64::new(0));
    /// let clock = seconds.clone();
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100)
    ///     .time_to_live(Duration::from_secs(60))
    ///     .clock(move || Duration::from_secs(clock.load(Relaxed)))
    ///     .build();
    /// cache.insert(1, 10);
    /// seconds.store(59, Relaxed);
    /// assert_eq!(cache.get(&1), Some(10));
    /// seconds.store(60, Relaxed);
    /// assert_eq!(cache.get(&1), None);
    /// ```
    pub fn clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.terms.clock = Some(Box::new(clock));
        self
    }
}
