//! Settings of a cache, and its construction.

mod check;
#[cfg(feature = "loading")]
mod fetching;
#[cfg(feature = "freezing")]
mod freezing;
#[cfg(feature = "expiry")]
mod lifetimes;
#[cfg(feature = "listener")]
mod listener;

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::build_error::BuildError;
use crate::cache::Cache;
use crate::clock::{Clock, UserClock};
#[cfg(feature = "measure")]
use crate::core::order::locked::turns::ListCosts;
use crate::core::{Settings, Weigher};
use crate::events;
use crate::features::expiry::{Expiry, Terms};
use crate::features::fetch::{self, FetchState};
use crate::features::frozen::{self, Frozen};
use crate::features::listen::Listener;
use crate::features::record::Recorder;
use crate::features::{Featured, Features};
use crate::{Policy, Promotion};

/// The most entries that a cache can have.
pub(crate) const ENTRIES_MAX: u64 = 1 << 29;

/// Settings of a cache to build: [`Cache::builder`].
///
/// ```
/// let cache: frazil::Cache<String, Vec<u8>> = frazil::Cache::builder(64 << 20)
///     .policy(frazil::Policy::S3Fifo)
///     .weigher(|key: &String, value: &Vec<u8>| (key.len() + value.len()) as u64)
///     .entries(100_000)
///     .build();
/// cache.insert("a".to_owned(), vec![0; 999]);
/// assert_eq!(cache.weight(), 1_000);
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, V, S = RandomState> {
    pub(crate) capacity: u64,
    pub(crate) entries: Option<u64>,
    pub(crate) policy: Policy,
    pub(crate) promotion: Option<Promotion>,
    pub(crate) shards: u32,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) hasher: S,
    pub(crate) batch: u32,
    pub(crate) detects_runs: bool,
    pub(crate) clock: Option<UserClock>,
    pub(crate) bypass: Option<u64>,
    #[cfg(feature = "measure")]
    pub(crate) list_costs: Option<ListCosts>,
    pub(crate) terms: Terms<K, V>,
    pub(crate) freezing: frozen::Settings<K, V>,
    pub(crate) fetch: fetch::Settings<K>,
}

impl<K, V> Builder<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        Builder {
            capacity,
            entries: None,
            policy: Policy::default(),
            promotion: None,
            shards: 1,
            weigher: None,
            listener: None,
            hasher: RandomState::default(),
            batch: 16,
            detects_runs: true,
            clock: None,
            bypass: None,
            #[cfg(feature = "measure")]
            list_costs: None,
            terms: Terms::default(),
            freezing: frozen::Settings::default(),
            fetch: fetch::Settings::default(),
        }
    }
}

impl<K, V, S> Builder<K, V, S> {
    /// The eviction policy; default [`Policy::Mobius`].
    ///
    /// ```
    /// let policy: frazil::Policy = "clock:bits=2".parse().unwrap();
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(1_000).policy(policy).build();
    /// assert_eq!(cache.policy(), policy);
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The work of a hit under a policy with a lock; [`Promotion`] names the default of each
    /// policy. `build` refuses it for policies whose hits take no lock: those without a lock, and
    /// SIEVE.
    ///
    /// ```
    /// use frazil::{Cache, Policy, Promotion};
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).policy(Policy::Lru).promotion(Promotion::Adaptive).build();
    /// # cache.insert(1, 1);
    /// ```
    pub fn promotion(mut self, promotion: Promotion) -> Self {
        self.promotion = Some(promotion);
        self
    }

    /// Divides a policy under a lock into shards with a lock each, by the hashes of the keys: 1 to
    /// 64, rounded up to a power of two; default 1. `build` refuses more than 1 for policies
    /// without a lock.
    ///
    /// With more shards threads contend less, but each shard decides from its own requests alone.
    /// The capacity is not divided: the shard that holds more than its share evicts. Let each shard
    /// have some hundred entries.
    ///
    /// ```
    /// use frazil::{Cache, Policy};
    /// let cache: Cache<u64, u64> = Cache::builder(100_000).policy(Policy::Arc).shards(16).build();
    /// (0..200_000).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.len(), 100_000);
    /// ```
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// The weight of an entry, in the unit of the capacity; default 1.
    ///
    /// The cache calls it once for each insertion, outside all locks. An entry heavier than the
    /// whole capacity is not admitted.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> =
    ///     frazil::Cache::builder(10).weigher(|_, text: &String| text.len() as u64).build();
    /// cache.insert(1, "four".to_owned());
    /// cache.insert(2, "nine lives".to_owned());
    /// cache.insert(3, "more than ten".to_owned());
    /// assert_eq!((cache.weight(), cache.len()), (10, 1));
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u64 + Send + Sync + 'static) -> Self {
        self.weigher = Some(Box::new(weigher));
        self
    }

    /// The most entries that the cache will hold, at any weight and any
    /// [`set_capacity`](Cache::set_capacity); by default only the capacity and 2^29 bound them.
    ///
    /// Memory grows with the entries in the cache, with or without this setting. The setting is
    /// also the expected number of entries, from which the cache derives how many entries a thread
    /// may hold in its buffers and which sizes the table takes as it grows. The default expectation
    /// is the capacity; with a weigher it is a 256th of the capacity if that is more than 65,536. A
    /// wrong expectation costs almost nothing.
    ///
    /// Choose it so that the weight fills the cache first: S3-FIFO's small queue is a tenth of the
    /// weight. If the number of entries is reached first, that queue may never fill, and the policy
    /// does no better than FIFO.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(1 << 30).weigher(|_, _| 100).entries(3).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.len(), 3);
    /// ```
    pub fn entries(mut self, entries: u64) -> Self {
        self.entries = Some(entries);
        self
    }

    /// The hasher of the keys; default `foldhash` with a random seed.
    ///
    /// ```
    /// use std::hash::RandomState;
    /// let cache: frazil::Cache<String, u64, RandomState> =
    ///     frazil::Cache::builder(100).with_hasher(RandomState::new()).build();
    /// cache.insert("key".to_owned(), 1);
    /// assert_eq!(cache.get("key"), Some(1));
    /// ```
    pub fn with_hasher<T>(self, hasher: T) -> Builder<K, V, T> {
        Builder {
            capacity: self.capacity,
            entries: self.entries,
            policy: self.policy,
            promotion: self.promotion,
            shards: self.shards,
            weigher: self.weigher,
            listener: self.listener,
            hasher,
            batch: self.batch,
            detects_runs: self.detects_runs,
            clock: self.clock,
            bypass: self.bypass,
            #[cfg(feature = "measure")]
            list_costs: self.list_costs,
            terms: self.terms,
            freezing: self.freezing,
            fetch: self.fetch,
        }
    }

    /// Lets requests bypass the cache while threads wait for its lock, up to the rate that the
    /// backend can serve: paper 1 (§5.2), where more hits make a cache slower.
    ///
    /// The caller calls [`bypasses`](Cache::bypasses) before each request. The cache adjusts the
    /// share that bypasses at most every 0.2 ms, so that misses and bypasses since the last time
    /// would have been at most `fetches_per_second`. That bounds the mean; a burst may exceed it.
    /// With 0 no request bypasses. When no thread waits the share shrinks, down to 0 if 256
    /// requests of a thread take over 0.1 s.
    ///
    /// Use it with [`Promotion::EveryHit`]. With other promotions hits rarely or never wait for the
    /// lock, so only misses could cause a bypass; and [`Promotion::Adaptive`] helps more than a
    /// bypass, because it avoids the lock and the fetch. `build` refuses it for policies whose hits
    /// take no lock.
    ///
    /// ```
    /// use frazil::{Cache, Policy};
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).policy(Policy::Lru).bypass(500_000).build();
    /// assert!(!cache.bypasses(), "nobody has waited for the lock");
    /// ```
    pub fn bypass(mut self, fetches_per_second: u64) -> Self {
        self.bypass = Some(fetches_per_second);
        self
    }

    /// How many entries a thread moves to the shared queues in one step, from 1 to 16.
    ///
    /// This holds for all queued entries, new ones too;
    /// [`consecutive_detection`](Self::consecutive_detection) concerns survivors alone. The
    /// default, 16, is lower for caches under 8,192 entries, because other threads cannot see
    /// entries in a thread's buffer; this setting can lower it further but not raise it. It exists
    /// for measurements, with the feature `measure` only: 1 costs a third of the throughput of two
    /// threads that miss often.
    ///
    /// ```
    /// let one_by_one: frazil::Cache<u64, u64> = frazil::Cache::builder(10_000).batch(1).build();
    /// one_by_one.insert(1, 2);
    /// assert_eq!(one_by_one.get(&1), Some(2));
    /// ```
    #[cfg(any(feature = "measure", loom, shuttle))]
    pub fn batch(mut self, entries: u32) -> Self {
        self.batch = entries;
        self
    }

    /// Whether Mobius moves the visited entries that an eviction passes to the other queue as one
    /// segment (paper 3, §4.2, consecutive detection); default true.
    ///
    /// Without it each of them moves in its own segment, unless segments have become few: one
    /// exchange puts it into the queue, and one takes it out in the next pass. New entries move as
    /// before. With one thread the same entries are evicted. It takes up to 128 bytes more for each
    /// slot, and small caches have many times as many slots as entries. It exists for measurements,
    /// with the feature `measure` only.
    ///
    /// ```
    /// let without = frazil::Cache::<u64, u64>::builder(10_000).consecutive_detection(false).build();
    /// without.insert(1, 2);
    /// assert_eq!(without.get(&1), Some(2));
    /// ```
    #[cfg(any(feature = "measure", loom, shuttle))]
    pub fn consecutive_detection(mut self, detects: bool) -> Self {
        self.detects_runs = detects;
        self
    }

    /// Makes list operations under the policy's lock slower. FIFO, CLOCK, Mobius and S3-FIFO run
    /// under a lock then too, and the policy has one shard. It exists for experiments, with the
    /// feature `measure` only.
    ///
    /// ```
    /// use frazil::{Cache, ListCosts, Policy};
    /// let builder = Cache::<u64, u64>::builder(2).policy(Policy::Fifo);
    /// let cache = builder.list_costs(ListCosts::default()).build();
    /// (0..3).for_each(|key| cache.insert(key, key));
    /// // Three insertions, and one eviction.
    /// assert_eq!(cache.list_turns().turns, 4);
    /// ```
    #[cfg(feature = "measure")]
    pub fn list_costs(mut self, costs: ListCosts) -> Self {
        self.list_costs = Some(costs);
        self
    }

    /// The time since any fixed moment; default the system's monotonic clock.
    ///
    /// Use it for tests that should not wait, or if the program already has the time. The cache
    /// reads it on every hit and insertion once any entry has a lifetime, at both ends of each
    /// fetch, and on every hit of a policy that weighs delay. It should not run backward; if it
    /// does, entries live longer.
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
        self.clock = Some(Box::new(clock));
        self
    }

    /// The most entries at any capacity.
    pub(crate) fn entry_bound(&self) -> u64 {
        self.entries.unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX)
    }

    /// The expected number of entries without a setting. The size of threads' buffers and the sizes
    /// of the table depend on it; it is no bound.
    pub(crate) fn expected_entries(&self) -> u64 {
        let by_capacity = match self.weigher {
            None => self.capacity,
            Some(_) => self.capacity.min((1 << 16).max(self.capacity / 256)),
        };
        self.entries.unwrap_or(by_capacity).min(ENTRIES_MAX)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Builder<K, V, S> {
    /// Builds the cache.
    ///
    /// It reserves nothing for entries: memory and address space grow with use.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(10_000).build();
    /// assert!(cache.is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// If a setting would have no effect together with the others, such as
    /// [`shards`](Builder::shards) for a policy without a lock: see [`BuildError`].
    /// [`try_build`](Builder::try_build) returns it instead.
    #[track_caller]
    pub fn build(self) -> Cache<K, V, S> {
        // No closure, so that the panic names the caller's location.
        match self.try_build() {
            Ok(cache) => cache,
            Err(error) => panic!("no cache can be built: {error}"),
        }
    }

    /// Builds the cache as [`build`](Builder::build) does, for settings from outside the program.
    ///
    /// ```
    /// use frazil::{Cache, Policy, Promotion};
    /// let build = |policy: &str| {
    ///     let policy: Policy = policy.parse().unwrap();
    ///     Cache::<u64, u64>::builder(100).policy(policy).promotion(Promotion::TryLock).try_build()
    /// };
    /// assert!(build("lru").is_ok());
    /// let error = build("mobius").unwrap_err().to_string();
    /// assert_eq!(error, "`promotion` is TryLock, but a hit of the policy mobius takes no lock");
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError`], if a setting would have no effect.
    pub fn try_build(self) -> Result<Cache<K, V, S>, BuildError> {
        self.check()?;
        Ok(Cache::from_builder(self))
    }
}

impl<K, V, S> std::fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Builder");
        shown
            .field("capacity", &self.capacity)
            .field("entries", &self.entries)
            .field("policy", &self.policy)
            .field("weighted", &self.weigher.is_some())
            .field("clock", &self.clock.is_some());
        #[cfg(feature = "expiry")]
        shown.field("terms", &self.terms);
        #[cfg(feature = "freezing")]
        shown.field("freezing", &self.freezing.freezing);
        shown.finish_non_exhaustive()
    }
}

impl<K, V> Cache<K, V> {
    /// Starts the settings of a cache with this capacity, in entries, or in weight with a
    /// [`weigher`](Builder::weigher).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..1_000).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.len(), 100);
    /// ```
    pub fn builder(capacity: u64) -> Builder<K, V> {
        Builder::new(capacity)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    fn from_builder(builder: Builder<K, V, S>) -> Self {
        let (bound, expected) = (builder.entry_bound(), builder.expected_entries());
        let clock = Clock::new(builder.clock);
        let features = Features {
            recorder: Recorder::new(),
            listener: builder.listener,
            fetch: FetchState::new(&clock, builder.fetch),
            expiry: Expiry::new(builder.terms, expected),
            frozen: Frozen::new(builder.freezing),
        };
        let settings = Settings {
            policy: builder.policy,
            promotion: builder.promotion,
            shards: builder.shards,
            capacity: builder.capacity,
            bound,
            expected,
            batch: builder.batch,
            detects_runs: builder.detects_runs,
            weigher: builder.weigher,
            hasher: builder.hasher,
            clock,
            bypass: builder.bypass,
            #[cfg(feature = "measure")]
            list_costs: builder.list_costs,
        };
        let cache = Cache { core: Featured::new(settings, features) };
        events::event!(
            cache.core,
            DEBUG,
            "cache built",
            policy = %cache.core.policy,
            capacity = cache.capacity(),
            entries = expected,
            reserved_bytes = cache.reserved_bytes()
        );
        cache
    }
}
