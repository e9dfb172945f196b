//! Freezing: by hand, and from a thread that learns what is worth it.

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
    /// Freezes the hottest entries, a share of what is there from 0 to 1, until
    /// [`Cache::thaw`] is called, and returns how many they are. What was frozen before is
    /// thawed first.
    ///
    /// A hit of a frozen entry writes nothing that other threads read, and the policy does not
    /// hear of it; what is frozen is not evicted. It can be replaced and removed, and expires,
    /// as ever. With a share of 1 nothing is evicted any more, so newcomers are refused while
    /// the cache is full of what is frozen.
    ///
    /// Runs beside other threads, O(capacity). With
    /// [copies](crate::Builder::freezing_copies) it waits for [pins](crate::Pin) that are older
    /// than the last thaw, some milliseconds at most. Returns 0 if one still lives then, where the cache was not built with
    /// [`freezing`](crate::Builder::freezing), and while another thread freezes or thaws.
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

    /// Hands what is frozen back to the policy, as its hottest entries.
    ///
    /// Runs beside other threads, O(capacity). Does nothing while another thread freezes or
    /// thaws.
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

    /// What the freezing of this cache is doing. `None` unless it was built with
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

    /// One step of what [`control_freezing`](Cache::control_freezing) does, for those who have a
    /// thread of their own for such things, or a clock: looks at what was counted, and learns,
    /// freezes or thaws. Returns how long there will be nothing to do.
    ///
    /// Who does not go on leaves it as it is: frozen, or being looked at.
    ///
    /// `now` is the time since any moment, always the same. Most steps take some microseconds;
    /// one that freezes or thaws O(capacity). Does nothing while another thread is in one, and
    /// unless the cache was built with [`Freezing::Learned`](crate::Freezing::Learned).
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

    /// Freezes as much as it is learnt to be worth, from a thread of its own, until the handle
    /// is dropped.
    ///
    /// The thread waits until the content has been renewed, learns which share of the entries
    /// would get which share of the hits, tries what it gains to freeze all and the share that is
    /// best by that, and freezes the one with which requests take least, if that is a tenth
    /// faster than without. It watches
    /// the latency meanwhile, freezes anew now and then, and thaws when it does not pay any
    /// more; then it does nothing for a while, which becomes longer from one failure to the
    /// next. [`freezing_state`](Cache::freezing_state) says what it is about, and its
    /// [verdict](FreezingState::verdict) why, in words.
    ///
    /// It wakes eight times a second, or once while it sleeps, for some microseconds. Of requests
    /// some hundred a second and thread take some 100 ns longer, because they are timed; while
    /// it learns all do. The thread keeps the cache alive for moments only, and ends within a
    /// second of it. If the cache goes just then the thread drops it, and what it holds.
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
    /// [`Freezing::Learned`](crate::Freezing::Learned), `ResourceBusy` while another handle of
    /// it lives, and what the system says of the thread.
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
    // The checkers know their own threads alone.
    if CHECKED {
        return Err(ErrorKind::Unsupported.into());
    }
    FreezingControl::spawn(cache, controlled, step, end)
}
