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
    /// Freezes the hottest entries, a share of all from 0 to 1, until [`thaw`](Self::thaw) is
    /// called, and returns their number. Entries frozen before are thawed first.
    ///
    /// The policy does not learn of hits of a frozen entry, and the entry is not evicted. It is
    /// held like others, and each of many threads counts its own holds. It can be replaced and
    /// removed as usual. With a share of 1 nothing is evicted any more: while the cache is full of
    /// frozen entries, [`insert`](Self::insert) is refused, and an entry of
    /// [`insert_held`](Self::insert_held) stays until it is [released](Self::release).
    ///
    /// Runs concurrently with other threads, O(entries). Returns 0 if the cache was not built with
    /// [`freezing`](crate::HandleBuilder::freezing), while another thread freezes or thaws, and
    /// while the capacity in force exceeds the requested one.
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

    /// Returns the frozen entries to the policy, as its hottest entries. Handles of them stay
    /// valid.
    ///
    /// Runs concurrently with other threads, O(entries). Does nothing while another thread freezes
    /// or thaws.
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

    /// The state of this cache's freezing. `None` unless it was built with
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

    /// One step of [`control_freezing`](Self::control_freezing), as
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

    /// Learns the best share and freezes it, in its own thread, until the returned handle is
    /// dropped, like [`Cache::control_freezing`](crate::Cache::control_freezing). The cache may be
    /// a part of a larger shared object. If the last owner drops that object while the thread is at
    /// work, the thread drops it. To avoid that, drop the returned handle first.
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
    /// Errors of [`Cache::control_freezing`](crate::Cache::control_freezing).
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
