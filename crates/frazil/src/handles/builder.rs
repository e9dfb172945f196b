//! Settings of a cache whose values can be held.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::ptr::NonNull;

use foldhash::fast::RandomState;

use super::HandleCache;
use crate::build_error::BuildError;
use crate::builder::ENTRIES_MAX;
use crate::clock::Clock;
use crate::core::Settings;
use crate::features::frozen::MaybeOverlay;
#[cfg(feature = "freezing")]
use crate::features::frozen::{Freezing, Overlay};
use crate::features::handles::{Counting, Handles};
use crate::{Policy, Promotion};

/// Settings of a [`HandleCache`]: made by [`HandleCache::builder`].
///
/// ```
/// use frazil::{HandleCache, Policy};
/// let cache: HandleCache<u64, u64> =
///     HandleCache::builder(1 << 20).policy(Policy::S3Fifo).strict(true).build();
/// assert_eq!(cache.capacity(), 1 << 20);
/// ```
pub struct HandleBuilder<K, V, S = RandomState> {
    capacity: u64,
    policy: Policy,
    strict: bool,
    #[cfg(feature = "freezing")]
    freezing: Freezing,
    hasher: S,
    holds: PhantomData<fn(K, V)>,
}

impl<K, V> HandleBuilder<K, V> {
    pub(super) fn new(capacity: u64) -> Self {
        HandleBuilder {
            capacity,
            policy: Policy::Mobius,
            strict: false,
            #[cfg(feature = "freezing")]
            freezing: Freezing::Never,
            hasher: RandomState::default(),
            holds: PhantomData,
        }
    }
}

impl<K, V, S> HandleBuilder<K, V, S> {
    /// The eviction policy: Mobius by default; FIFO, CLOCK, S3-FIFO or LRU.
    ///
    /// ```
    /// use frazil::{HandleCache, Policy};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).policy(Policy::Lru).build();
    /// assert!(cache.is_empty());
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Whether the cache is strict: held entries are charged against the capacity until they are
    /// dropped, so [`usage`](HandleCache::usage) never exceeds it, and
    /// [`insert_held`](HandleCache::insert_held) returns an entry that cannot be admitted. By
    /// default it is not.
    ///
    /// An entry that replaces another is then charged beside it until the other is dropped. If both
    /// do not fit, the other is removed first, so the key is absent until the new entry is
    /// admitted.
    ///
    /// ```
    /// use frazil::HandleCache;
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).strict(true).build();
    /// let held = cache.insert_held(1, 10, 60).unwrap().held;
    /// cache.erase(&1);
    /// assert_eq!(cache.insert_held(2, 20, 60).unwrap_err().value, 20);
    /// drop(held);
    /// assert!(cache.insert_held(2, 20, 60).is_ok());
    /// ```
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// When to freeze the hottest entries, which the policy then does not evict. Default: never;
    /// see [`HandleCache::freeze`].
    ///
    /// ```
    /// use frazil::{Freezing, HandleCache};
    /// let cache: HandleCache<u64, u64> = HandleCache::builder(100).freezing(Freezing::ByHand).build();
    /// cache.insert(1, 10, 1);
    /// assert_eq!((cache.freeze(1.0), *cache.hold(&1).unwrap()), (1, 10));
    /// ```
    #[cfg(feature = "freezing")]
    pub fn freezing(mut self, freezing: Freezing) -> Self {
        self.freezing = freezing;
        self
    }

    fn overlay(&self) -> MaybeOverlay {
        #[cfg(feature = "freezing")]
        return Overlay::new(self.freezing, None).map(Box::new);
        #[cfg(not(feature = "freezing"))]
        None
    }

    /// The hasher of the keys; default `foldhash` with a random seed.
    ///
    /// ```
    /// use std::hash::RandomState;
    /// let builder = frazil::HandleCache::<u64, u64>::builder(100);
    /// let cache = builder.with_hasher(RandomState::new()).build();
    /// assert!(cache.hold(&1).is_none());
    /// ```
    pub fn with_hasher<T>(self, hasher: T) -> HandleBuilder<K, V, T> {
        HandleBuilder {
            capacity: self.capacity,
            policy: self.policy,
            strict: self.strict,
            #[cfg(feature = "freezing")]
            freezing: self.freezing,
            hasher,
            holds: PhantomData,
        }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> HandleBuilder<K, V, S> {
    /// Builds the cache. It reserves nothing for entries.
    ///
    /// ```
    /// let cache: frazil::HandleCache<u64, u64> = frazil::HandleCache::builder(100).build();
    /// assert!(cache.is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// If the policy cannot keep held entries: see [`BuildError::CannotHold`], which
    /// [`try_build`](Self::try_build) returns.
    #[track_caller]
    pub fn build(self) -> HandleCache<K, V, S> {
        match self.try_build() {
            Ok(cache) => cache,
            Err(error) => panic!("no cache can be built: {error}"),
        }
    }

    /// Builds the cache as [`build`](Self::build) does, for settings from outside the program.
    ///
    /// ```
    /// use frazil::{BuildError, HandleCache, Policy};
    /// let builder = HandleCache::<u64, u64>::builder(100).policy(Policy::Arc);
    /// assert_eq!(builder.try_build().unwrap_err(), BuildError::CannotHold(Policy::Arc));
    /// ```
    ///
    /// # Errors
    ///
    /// [`BuildError::CannotHold`], if the policy loses an entry's state when it chooses the entry
    /// as victim.
    pub fn try_build(self) -> Result<HandleCache<K, V, S>, BuildError> {
        let overlay = self.overlay();
        let HandleBuilder { capacity, policy, strict, hasher, .. } = self;
        let can_hold = matches!(
            policy,
            Policy::Fifo | Policy::Clock { .. } | Policy::Mobius | Policy::S3Fifo | Policy::Lru
        );
        if !can_hold {
            return Err(BuildError::CannotHold(policy));
        }
        let settings = Settings {
            policy,
            promotion: None::<Promotion>,
            shards: 1,
            capacity,
            bound: ENTRIES_MAX,
            expected: capacity.min((1 << 16).max(capacity / 256)).min(ENTRIES_MAX),
            batch: 16,
            detects_runs: true,
            // Each insertion gives its entry's charge.
            weigher: Some(Box::new(|_: &K, _: &V| 1)),
            hasher,
            clock: Clock::new(None),
            bypass: None,
            #[cfg(feature = "measure")]
            list_costs: None,
        };
        let core = Box::new(Counting::new(settings, Handles::new(capacity, strict, overlay)));
        Ok(HandleCache { core: NonNull::from(Box::leak(core)), owns: PhantomData })
    }
}

impl<K, V, S> fmt::Debug for HandleBuilder<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleBuilder")
            .field("capacity", &self.capacity)
            .field("policy", &self.policy)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}
