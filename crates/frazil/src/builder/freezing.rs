//! Settings of freezing.

#[cfg(doc)]
use crate::Cache;
use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::core::order::takes_lock;
use crate::features::frozen::{Copies, Freezing};

impl<K, V, S> Builder<K, V, S> {
    /// When to freeze the hottest entries: the policy does not decide about frozen entries, and
    /// their hits take no lock and set no mark. Default: never; see [`Cache::freeze`].
    ///
    /// `build` refuses it for SIEVE, LIRS, and policies that sample or learn, because they cannot
    /// freeze.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).freezing(Freezing::ByHand).build();
    /// cache.insert(1, 10);
    /// assert_eq!((cache.freeze(1.0), cache.get(&1)), (1, Some(10)));
    /// ```
    pub fn freezing(mut self, freezing: Freezing) -> Self {
        self.freezing.freezing = freezing;
        self
    }

    /// How long the same entries stay frozen under [`Freezing::Learned`], as a multiple of the time
    /// for which the cache was measured without freezing, a second or more; default 20, at least 1.
    ///
    /// After that the cache measures about two seconds without freezing, and freezes anew in the
    /// policy's present order. A larger value makes these interruptions rarer, a smaller one
    /// follows a changing workload more closely (§3.2.3 of the FrozenHot paper, and its figure 14).
    /// A frozen part that becomes slow is thawed sooner in any case. One that pays only by fewer
    /// misses has to prove it first, after twice the time measured without, and then after twice as
    /// long each time. `build` refuses it unless freezing is learned.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).freezing(Freezing::Learned).freezing_lifetime(60).build();
    /// # assert!(cache.freezing_state().is_some());
    /// ```
    pub fn freezing_lifetime(mut self, constructions: u32) -> Self {
        self.freezing.lifetime = Some(constructions.max(1));
        self
    }

    /// As [`freezing`](Builder::freezing), with copies of keys and values in a separate table: a
    /// frozen hit reads one line of memory instead of two.
    ///
    /// `build` refuses it for keys and values of more than 48 bytes together, and if all entries
    /// have a lifetime, because entries that can expire are not copied. The memory, reserved when
    /// something is first frozen, is 40 bytes an entry for keys and values of 8. [`Cache::freeze`]
    /// waits for [pins](crate::Pin) older than the last thaw, for some milliseconds at most, and
    /// returns 0 if one remains.
    ///
    /// ```
    /// use frazil::{Cache, Freezing};
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).freezing_copies(Freezing::ByHand).build();
    /// cache.insert(1, 10);
    /// assert_eq!((cache.freeze(1.0), cache.get(&1)), (1, Some(10)));
    /// ```
    pub fn freezing_copies(mut self, freezing: Freezing) -> Self
    where
        K: Copy,
        V: Copy,
    {
        self.freezing.copies = Some(Copies::new());
        self.freezing(freezing)
    }

    /// Finds a setting that would have no effect.
    pub(super) fn check_freezing(&self) -> Result<(), BuildError> {
        let (policy, freezing) = (self.policy, self.freezing.freezing);
        if self.freezing.lifetime.is_some() && freezing != Freezing::Learned {
            return Err(BuildError::LifetimeUnlearned(freezing));
        }
        if freezing == Freezing::Never {
            return Ok(());
        }
        if takes_lock(policy) && !policy.can_freeze() {
            return Err(BuildError::CannotFreeze { policy, freezing });
        }
        match &self.freezing.copies {
            Some(None) => Err(BuildError::CopiesTooLarge(size_of::<(K, V)>())),
            Some(Some(_)) if self.terms.are_set() => Err(BuildError::CopiesExpire),
            _ => Ok(()),
        }
    }
}
