//! Settings of lifetimes.

use std::time::Duration;

#[cfg(doc)]
use crate::Cache;
use crate::build_error::BuildError;
use crate::builder::Builder;

/// Years of 365 days.
const LIFETIME_MAX: Duration = Duration::from_secs(1_000 * 365 * 86_400);

impl<K, V, S> Builder<K, V, S> {
    /// Lifetime of an entry from its insertion or replacement; default for ever.
    ///
    /// After that no look-up finds it. It never expires earlier. It may expire some milliseconds
    /// later, because look-ups read the system's coarse clock, and up to an eighth of a second
    /// later with lifetimes of 8 seconds and more, because insertions read that clock then too.
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

    /// Lifetime of an entry from its last use: the last `get` that found it, or its insertion;
    /// default for ever.
    ///
    /// It is never shorter. It may be up to a 64th and some milliseconds longer, because a use that
    /// would change the deadline by less is not noted. So hits write to shared memory at most 64
    /// times in that span. `peek`, `contains_key` and `iter` are not uses.
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

    /// Lifetime of an entry by key and value, instead of [`time_to_live`](Builder::time_to_live).
    /// `None`: for ever, except for the time to idle.
    ///
    /// The cache calls it once for each entry that is inserted, before it holds anything; for
    /// replacements too, unless [`expire_after_update`](Builder::expire_after_update) is set. The
    /// shorter of this and the time to idle holds.
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

    /// Lifetime of an entry that replaces another, by key, new value, and the time that the old
    /// entry had left. Returning that time keeps the deadline. `None`: for ever, except for the
    /// time to idle.
    ///
    /// The cache calls it once for each insertion and computation that finds an entry of its key,
    /// before it holds anything, instead of [`expire_after`](Builder::expire_after) and
    /// [`time_to_live`](Builder::time_to_live); these then apply to new keys. If another thread
    /// inserts or removes the key at that moment, the entry that was found decides. An insertion
    /// needs one more look-up for this. [`insert_for`](Cache::insert_for) does not call it.
    ///
    /// The time left is at most the time to idle, if that is set.
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// // However often a session is written, it ends an hour after it began.
    /// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100)
    ///     .time_to_live(hour)
    ///     .expire_after_update(|_, _, left| left)
    ///     .build();
    /// cache.insert(1, "begun");
    /// let left = cache.lifetime_left(&1);
    /// cache.insert(1, "written");
    /// assert!(cache.lifetime_left(&1) <= left);
    /// ```
    pub fn expire_after_update(
        mut self,
        lifetime: impl Fn(&K, &V, Option<Duration>) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.terms.of_update = Some(Box::new(lifetime));
        self
    }

    /// Lifetime of an entry from a read on, by key, value, and the time left. Returning the time
    /// left keeps the deadline. `None`: for ever, except for the time to idle.
    ///
    /// The cache calls it once for each look-up that hits, on the thread of the look-up: `get`,
    /// `get_many`, `Pin::get`, and loads that find their key. `peek`, `contains_key` and iterators
    /// do not call it. Let it be quick: it delays reclamation as a value's `Clone` does. It may use
    /// the cache, and its panic becomes the look-up's. If several threads read an entry at the same
    /// time, the answer of one of them holds.
    ///
    /// With [`time_to_live`](Builder::time_to_live) no answer extends a life beyond that, counted
    /// from the insertion; a longer lifetime given to the insertion itself is not cut. The shorter
    /// of this and the time to idle holds.
    ///
    /// Such a hit always reads the deadline and a clock. It writes the deadline if that changed:
    /// once in a tick of the system's coarse clock (1 to 10 ms) if each read starts a new life. A
    /// hit that shortens a life may take a lock. An entry never expires earlier than this lifetime,
    /// and at most two ticks later.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    /// // Tokens that are used live on for a minute; all end after an hour.
    /// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100)
    ///     .time_to_live(hour)
    ///     .expire_after(move |_, _| Some(minute))
    ///     .expire_after_read(move |_, _, _| Some(minute))
    ///     .build();
    /// cache.insert(1, "token");
    /// assert_eq!(cache.get(&1), Some("token"));
    /// assert!(cache.lifetime_left(&1).unwrap() < 2 * minute);
    /// ```
    pub fn expire_after_read(
        mut self,
        lifetime: impl Fn(&K, &V, Option<Duration>) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.terms.of_read = Some(Box::new(lifetime));
        self
    }

    /// Shortens each lifetime by a random share of at most this much, from 0, the default, to 1. So
    /// entries loaded together do not expire together and are not all reloaded at one moment.
    ///
    /// It applies to lifetimes that start with an insertion:
    /// [`time_to_live`](Builder::time_to_live), [`expire_after`](Builder::expire_after),
    /// [`insert_for`](Cache::insert_for), and changed deadlines of
    /// [`expire_after_update`](Builder::expire_after_update). It does not apply to lifetimes that
    /// start with a read, nor to the time to idle, because uses are spread already. `build` refuses
    /// shares outside 0 to 1.
    ///
    /// ```
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(100).time_to_live(hour).jitter(0.1).build();
    /// (0..100).for_each(|key| cache.insert(key, key));
    /// let shorter = |key: &u64| cache.lifetime_left(key) < Some(hour * 97 / 100);
    /// assert!((0..100).any(|key| shorter(&key)) && !(0..100).all(|key| shorter(&key)));
    /// assert!((0..100).all(|key| cache.lifetime_left(&key) > Some(hour * 89 / 100)));
    /// ```
    pub fn jitter(mut self, share: f64) -> Self {
        self.terms.jitter = share;
        self
    }

    /// Finds an invalid lifetime.
    pub(super) fn check_lifetimes(&self) -> Result<(), BuildError> {
        let lifetimes = [self.terms.to_live, self.terms.to_idle].into_iter().flatten();
        if let Some(lifetime) = lifetimes.max().filter(|&lifetime| lifetime > LIFETIME_MAX) {
            return Err(BuildError::Lifetime(lifetime));
        }
        if !(0.0..=1.0).contains(&self.terms.jitter) {
            return Err(BuildError::Jitter(self.terms.jitter));
        }
        Ok(())
    }
}
