//! Freezing in a cache with handles: on request, and by a thread that learns which share pays.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use frazil_freezing::{FreezingControl, FreezingState};

use super::HandleCache;
use crate::clock::exact_ns;
use crate::events;
use crate::features::handles::Counting;
use crate::freezing::spawn;

impl<K: Hash + Eq, V, S: BuildHasher> HandleCache<K, V, S> {
    /// Freezes the hottest entries, a share of what is there from 0 to 1, until
    /// [`thaw`](Self::thaw) is called, and returns how many they are. What was frozen before is
    /// thawed first.
    ///
    /// The policy does not hear of a hit of a frozen entry, and it is not evicted. It is held as others are, and
    /// where many threads hold it each counts for itself. It can be replaced and removed as ever. With
    /// a share of 1 nothing is evicted any more: while the cache is full of what is frozen, [`insert`](Self::insert)
    /// is refused, and what [`insert_held`](Self::insert_held) brings stays until it is
    /// [released](Self::release).
    ///
    /// Runs beside other threads, O(entries). Returns 0 where the cache was not built with
    /// [`freezing`](crate::HandleBuilder::freezing), while another thread freezes or thaws, and while more is
    /// in force than the capacity that was asked for.
    ///
    /// ```
    /// use frazil::{Freezing, HandleCache};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).freezing(Freezing::ByHand).build();
    /// (0..100).for_each(|key| _ = cache.insert(key, key, 1));
    /// (0..50).for_each(|key| assert!(cache.hold(&key).is_some()));
    /// assert_eq!(cache.freeze(0.5), 50);
    /// (1_000..2_000).for_each(|key| _ = cache.insert(key, key, 1));
    /// assert!((0..50).all(|key| cache.hold(&key).is_some()));
    /// assert_eq!(cache.stats().frozen_hits, 50);
    /// ```
    pub fn freeze(&self, share: f64) -> u64 {
        let entries = self.core().freeze_untold(share).unwrap_or(0);
        if entries > 0 {
            events::event!(self.core(), DEBUG, "frozen", entries, share);
        }
        entries
    }

    /// Hands what is frozen back to the policy, as its hottest entries. Who holds one holds it as before.
    ///
    /// Runs beside other threads, O(entries). Does nothing while another thread freezes or
    /// thaws.
    ///
    /// ```
    /// use frazil::{Freezing, HandleCache};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(10).freezing(Freezing::ByHand).build();
    /// (0..10).for_each(|key| _ = cache.insert(key, key, 1));
    /// assert_eq!(cache.freeze(1.0), 10);
    /// assert!(cache.insert(10, 10, 1).is_err());
    /// let held = cache.hold(&3).unwrap();
    /// cache.thaw();
    /// (10..30).for_each(|key| _ = cache.insert(key, key, 1));
    /// assert_eq!((*held, cache.len()), (3, 10));
    /// ```
    pub fn thaw(&self) {
        self.core().thaw();
    }

    /// What the freezing of this cache is doing. `None` unless it was built with
    /// [`Freezing::Learned`](crate::Freezing::Learned).
    ///
    /// ```
    /// use frazil::{Freezing, HandleCache};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).freezing(Freezing::ByHand).build();
    /// assert!(cache.freezing_state().is_none());
    /// ```
    pub fn freezing_state(&self) -> Option<FreezingState> {
        Some(self.core().learned()?.state.lock().clone())
    }

    /// One step of what [`control_freezing`](Self::control_freezing) does, as
    /// [`Cache::step_freezing`](crate::Cache::step_freezing).
    ///
    /// ```
    /// use frazil::{Freezing, HandleCache};
    /// use std::time::{Duration, Instant};
    /// let cache: HandleCache<u64, u64> =
    ///     HandleCache::builder(1_000).freezing(Freezing::Learned).build();
    /// let origin = Instant::now();
    /// assert!(cache.step_freezing(origin.elapsed()) <= Duration::from_millis(500));
    /// ```
    pub fn step_freezing(&self, now: Duration) -> Duration {
        self.core().step_freezing(now)
    }

    /// Freezes as much as it is learnt to be worth, from a thread of its own, until what is returned
    /// is dropped, as [`Cache::control_freezing`](crate::Cache::control_freezing) does. The cache may be
    /// a part of something larger that is shared. If that goes while the thread is at work it is the
    /// thread that drops it: who wants to drop it himself drops what is returned here first.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use frazil::{Freezing, HandleCache, Policy};
    /// let cache: HandleCache<u64, u64> =
    ///     HandleCache::builder(1_000).policy(Policy::Lru).freezing(Freezing::Learned).build();
    /// let cache = Arc::new(cache);
    /// let control = HandleCache::control_freezing(&cache)?;
    /// drop(control);
    /// assert_eq!(cache.freezing_state().unwrap().share, 0.0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Cache::control_freezing`](crate::Cache::control_freezing).
    pub fn control_freezing<T>(shared: &Arc<T>) -> io::Result<FreezingControl>
    where
        T: Borrow<Self> + Send + Sync + 'static,
        K: 'static,
        V: 'static,
        S: 'static,
    {
        fn of<K, V, S, T: Borrow<HandleCache<K, V, S>>>(shared: &T) -> &Counting<K, V, S> {
            let cache: &HandleCache<K, V, S> = shared.borrow();
            cache.core()
        }
        let step = |shared: &T| of(shared).step_freezing(Duration::from_nanos(exact_ns()));
        let learns = of(&**shared).learned().is_some();
        spawn(
            shared,
            learns,
            |shared| of(shared).controlled(),
            step,
            |shared| of(shared).end_freezing(),
        )
    }
}
