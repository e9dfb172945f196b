//! Freezing: by hand, and by a thread that learns what to freeze.

use std::hash::{BuildHasher, Hash};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use frazil_freezing::{Controlled, FreezingControl, FreezingState};

use crate::cache::Cache;
use crate::clock::exact_ns;
use crate::events;
use crate::sync::CHECKED;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Freezes the hottest entries, a share from 0 to 1 of all, until [`Cache::thaw`] is called,
    /// and returns their number. Entries frozen before are thawed first.
    ///
    /// A hit of a frozen entry writes nothing that other threads read, and the policy does not
    /// learn of it. Frozen entries are not evicted. They can be replaced and removed, and expire,
    /// as others do. With a share of 1 nothing is evicted, so new entries are refused while the
    /// cache is full of frozen ones.
    ///
    /// Other threads may use the cache meanwhile; O(capacity). With
    /// [copies](crate::Builder::freezing_copies) it waits for [pins](crate::Pin) older than the
    /// last thaw, some milliseconds at most. It returns 0 if one of them remains, if the cache was
    /// not built with [`freezing`](crate::Builder::freezing), and while another thread freezes or
    /// thaws.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(100).freezing(Freezing::ByHand).build();
    /// (0..100).for_each(|key| cache.insert(key, key));
    /// (0..50).for_each(|key| assert!(cache.get(&key).is_some()));
    /// assert_eq!(cache.freeze(0.5), 50);
    /// (1_000..2_000).for_each(|key| cache.insert(key, key));
    /// assert!((0..50).all(|key| cache.get(&key) == Some(key)));
    /// assert_eq!(cache.stats().frozen_hits, 50);
    /// cache.thaw();
    /// ```
    pub fn freeze(&self, share: f64) -> u64 {
        let entries = self.core.freeze_untold(share).unwrap_or(0);
        if entries > 0 {
            events::event!(self.core, DEBUG, "frozen", entries, share);
        }
        entries
    }

    /// Returns the frozen entries to the policy, as its hottest entries.
    ///
    /// Other threads may use the cache meanwhile; O(capacity). Does nothing while another thread
    /// freezes or thaws.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(10).freezing(Freezing::ByHand).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.freeze(1.0), 10);
    /// cache.insert(10, 10);
    /// assert_eq!(cache.get(&10), None);
    /// cache.thaw();
    /// cache.insert(10, 10);
    /// assert_eq!(cache.get(&10), Some(10));
    /// ```
    pub fn thaw(&self) {
        self.core.thaw();
    }

    /// The state of this cache's freezing controller; `None` unless it was built with
    /// [`Freezing::Learned`](crate::Freezing::Learned).
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::ByHand).build();
    /// assert!(cache.freezing_state().is_none());
    /// ```
    pub fn freezing_state(&self) -> Option<FreezingState> {
        Some(self.core.learned()?.state.lock().clone())
    }

    /// One step of [`control_freezing`](Cache::control_freezing), for programs with their own
    /// thread or clock for it: evaluates the counts, and learns, freezes or thaws. Returns the time
    /// until the next step is due.
    ///
    /// If no further step is made the cache stays as it is: frozen, or measuring.
    ///
    /// `now` is the time since any fixed moment. Most steps take some microseconds; one that
    /// freezes or thaws is O(capacity). Does nothing while another thread makes a step, and unless
    /// the cache was built with [`Freezing::Learned`](crate::Freezing::Learned).
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// use std::time::{Duration, Instant};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::Learned).build();
    /// let origin = Instant::now();
    /// let idle = cache.step_freezing(origin.elapsed());
    /// assert!(idle <= Duration::from_millis(500));
    /// ```
    pub fn step_freezing(&self, now: Duration) -> Duration {
        self.core.step_freezing(now)
    }

    /// Learns the best share and freezes it, in its own thread, until the handle is dropped.
    ///
    /// The thread waits until the content has been renewed, and learns which share of the entries
    /// would get which share of the hits. It tries to freeze everything, and then the share that is
    /// best by these counts. It freezes the share with the fastest requests, if that is a tenth
    /// faster than without. It measures the latency meanwhile, freezes anew now and then, and thaws
    /// when freezing no longer pays; then it sleeps, longer after each failure.
    /// [`freezing_state`](Cache::freezing_state) returns its phase, and its
    /// [verdict](FreezingState::verdict) the reason, in words.
    ///
    /// It wakes eight times a second, or once while it sleeps, for some microseconds. Some hundred
    /// requests a second and thread take some 100 ns longer, because they are timed; while it
    /// learns, all do. The thread keeps the cache alive only for moments, and ends within a second
    /// after the cache. If the last other owner drops the cache in such a moment, the thread drops
    /// it with its values.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use frazil::{Cache, Freezing, Policy};
    ///
    /// let cache: Arc<Cache<u64, String>> = Arc::new(
    ///     Cache::builder(10_000).policy(Policy::Lru).freezing(Freezing::Learned).build(),
    /// );
    /// let control = cache.control_freezing()?;
    /// for key in (0..100_000).map(|request| request % 1_000) {
    ///     cache.get_or_insert_with(&key, || format!("row {key}"));
    /// }
    /// let state = cache.freezing_state().unwrap();
    /// println!("{:?}, because {:?}: {} frozen", state.phase, state.reason, state.share);
    /// drop(control);
    /// assert_eq!(cache.freezing_state().unwrap().share, 0.0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` unless the cache was built with
    /// [`Freezing::Learned`](crate::Freezing::Learned), `ResourceBusy` while another handle of it
    /// exists, and errors of the system for the thread.
    pub fn control_freezing(self: &Arc<Self>) -> io::Result<FreezingControl>
    where
        K: Send + Sync + 'static,
        V: Send + Sync + 'static,
        S: Send + Sync + 'static,
    {
        let step = |cache: &Self| cache.step_freezing(Duration::from_nanos(exact_ns()));
        let learns = self.core.learned().is_some();
        spawn(
            self,
            learns,
            |cache| cache.core.controlled(),
            step,
            |cache| cache.core.end_freezing(),
        )
    }
}

/// Begins to control the freezing of a cache, if it learns.
pub(crate) fn spawn<C: Send + Sync + 'static>(
    cache: &Arc<C>,
    learns: bool,
    controlled: fn(&C) -> &Controlled,
    step: fn(&C) -> Duration,
    end: fn(&C),
) -> io::Result<FreezingControl> {
    if !learns {
        let problem = "the cache was not built with `Freezing::Learned`";
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    // The checkers know only their own threads.
    if CHECKED {
        return Err(ErrorKind::Unsupported.into());
    }
    FreezingControl::spawn(cache, controlled, step, end)
}
