//! Entries with lifetimes.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use equivalent::Equivalent;

use crate::cache::Cache;
use crate::core::admission::{Admitted, Refused};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Inserts an entry that expires after `lifetime`, instead of the lifetime set by
    /// [`Builder::time_to_live`](crate::Builder::time_to_live) or
    /// [`Builder::expire_after`](crate::Builder::expire_after). Otherwise as [`Cache::insert`].
    ///
    /// Every cache can do this. A cache built without lifetimes reserves memory for them at the
    /// first call: [24 bytes an entry](crate#memory). An entry with `Duration::ZERO` has expired at
    /// once; one with over 73 years never expires.
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: frazil::Cache<&str, u64> = frazil::Cache::builder(100).build();
    /// cache.insert_for("token", 42, Duration::from_secs(3600));
    /// cache.insert_for("gone", 43, Duration::ZERO);
    /// assert_eq!((cache.get("token"), cache.get("gone")), (Some(42), None));
    /// assert_eq!(cache.stats().expirations, 1);
    /// ```
    pub fn insert_for(&self, key: K, value: V, lifetime: Duration) {
        // As in `insert`.
        let _steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term_for(&key, lifetime);
        _ = self.put(key, value, term, drop);
    }

    /// As [`Cache::insert_for`], and returns the outcome, as [`Cache::try_insert`] does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use frazil::{Admitted, Cache};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let lifetime = Duration::from_secs(3600);
    /// assert_eq!(cache.try_insert_for("token", 42, lifetime), Ok(Admitted::New));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], as [`Cache::try_insert`].
    pub fn try_insert_for(
        &self,
        key: K,
        value: V,
        lifetime: Duration,
    ) -> Result<Admitted, Refused<K, V>> {
        // As in `try_insert`.
        let steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term_for(&key, lifetime);
        let outcome = self.put(key, value, term, |refused| refused);
        drop(steps);
        outcome
    }

    /// Lifetime of entries from their insertion, if it is the same for all:
    /// [`Builder::time_to_live`](crate::Builder::time_to_live).
    ///
    /// ```
    /// use std::time::Duration;
    /// let day = Duration::from_secs(86_400);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_live(day).build();
    /// assert_eq!((cache.time_to_live(), cache.time_to_idle()), (Some(day), None));
    /// ```
    pub fn time_to_live(&self) -> Option<Duration> {
        self.core.hooks.expiry.time_to_live()
    }

    /// Lifetime of entries from their last use:
    /// [`Builder::time_to_idle`](crate::Builder::time_to_idle).
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_idle(hour).build();
    /// assert_eq!(cache.time_to_idle(), Some(hour));
    /// ```
    pub fn time_to_idle(&self) -> Option<Duration> {
        self.core.hooks.expiry.time_to_idle()
    }

    /// Time until the entry of `key` expires, by its lifetime or the time to idle. It may be longer
    /// than set by an eighth of a second, and by a 64th of the time to idle. `Duration::MAX` if it
    /// never expires, `None` if it is absent. The policy and the counts do not see this look-up.
    ///
    /// ```
    /// use std::time::Duration;
    /// let day = Duration::from_secs(86_400);
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).time_to_live(day).build();
    /// cache.insert(1, 10);
    /// let left = cache.lifetime_left(&1).unwrap();
    /// assert!(left > day / 2 && left < 2 * day);
    /// assert_eq!(cache.lifetime_left(&2), None);
    /// ```
    pub fn lifetime_left<Q>(&self, key: &Q) -> Option<Duration>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.core.look_up(self.core.hashes(key).1, key, |slot| self.core.left(slot))?
    }

    /// Removes all expired and [invalidated](Cache::invalidate_all) entries, and returns their
    /// number. Expired [errors](crate::Fetching::negative_ttl) are removed too, and not counted.
    ///
    /// There is no need to call this: no look-up returns an expired entry, and insertions remove
    /// them in time to use their space. It frees memory early, or if there are no insertions.
    /// O(expired), in steps of 64 entries, so that other threads can proceed in between;
    /// O(capacity) the first time after `invalidate_all`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use std::time::Duration;
    /// static SECONDS: AtomicU64 = AtomicU64::new(0);
    /// let clock = || Duration::from_secs(SECONDS.load(Relaxed));
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).clock(clock).build();
    /// (0..10).for_each(|key| cache.insert_for(key, key, Duration::from_secs(60)));
    /// SECONDS.store(100, Relaxed);
    /// assert_eq!((cache.purge(), cache.len()), (10, 0));
    /// ```
    pub fn purge(&self) -> u64 {
        let steps = self.core.steps();
        #[cfg(feature = "loading")]
        steps.take(|| self.core.forget_expired_errors());
        self.core.purge_lapsed(&steps)
    }
}
