//! What a builder is told of lifetimes.

use std::time::Duration;

#[cfg(doc)]
use crate::Cache;
use crate::build_error::BuildError;
use crate::builder::Builder;

/// Of 365 days each.
const LIFETIME_MAX: Duration = Duration::from_secs(1_000 * 365 * 86_400);

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
    /// Called once for each entry that is put in, before anything is held; for one that replaces
    /// another too, unless [`expire_after_update`](Builder::expire_after_update) is set. The
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

    /// How long an entry lives that replaces another, from then on: by key, new value, and how long
    /// the old one had left. What was left keeps the end as it was; `None` is for ever, but for
    /// the time to idle.
    ///
    /// Called once for each insertion and computation that finds an entry of its key, before
    /// anything is held, in the place of [`expire_after`](Builder::expire_after) and of
    /// [`time_to_live`](Builder::time_to_live); those are for new keys then. If another thread puts
    /// the key in or takes it out just then, what was found decides. An insertion looks its key up
    /// once more for it. [`insert_for`](Cache::insert_for) does not ask.
    ///
    /// With time to idle the old one had no more left than that.
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

    /// How long an entry lives that is read, from then on: by key, value, and how long it has left.
    /// What is left keeps the end as it was; `None` is for ever, but for the time to idle.
    ///
    /// Called once for each look-up that is a hit, by the thread that looks: `get`, `get_many`,
    /// `Pin::get`, and loads that find their key. Not by `peek`, `contains_key` and iterators.
    /// Let it be quick. It holds up what is to be reclaimed as a value's `Clone` does, may use the
    /// cache, and its panic is that look-up's. Where several threads read an entry at the same
    /// time the answer of one of them holds.
    ///
    /// With [`time_to_live`](Builder::time_to_live) no answer prolongs a life beyond that, from
    /// the insertion on; what an insertion itself was given is not cut. The shorter of this and
    /// the time to idle holds.
    ///
    /// Such a hit always reads the deadline and a clock, and writes the deadline if it has changed,
    /// which it does once in a tick of the system's coarse clock (1 to 10 ms) if each read begins
    /// a new life. One that shortens a life may take a lock for it. An entry is never gone earlier
    /// than this says, and two such ticks later at most.
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

    /// By what share each lifetime is shortened at most, by chance: from 0, which it is unless set,
    /// to 1. So entries that are loaded together do not expire together, and are not all loaded
    /// again at one moment.
    ///
    /// Of those that an insertion begins with: [`time_to_live`](Builder::time_to_live),
    /// [`expire_after`](Builder::expire_after), [`insert_for`](Cache::insert_for), and what
    /// [`expire_after_update`](Builder::expire_after_update) does not leave as it was. Not of those
    /// that reads begin, nor of the time to idle: uses are spread by themselves. `build` refuses
    /// another share.
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

    /// Finds a lifetime that is none.
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
