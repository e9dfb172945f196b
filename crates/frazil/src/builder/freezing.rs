//! What a builder is told of freezing.

#[cfg(doc)]
use crate::Cache;
use crate::build_error::BuildError;
use crate::builder::Builder;
use crate::core::order::takes_lock;
use crate::features::frozen::{Copies, Freezing};

impl<K, V, S> Builder<K, V, S> {
    /// When the hottest entries are frozen: set aside for a while from what the policy decides, and
    /// hit without locks and marks. Never unless set; see [`Cache::freeze`].
    ///
    /// Of these policies nothing can be frozen, and it is refused: SIEVE, LIRS, and those that
    /// sample or learn.
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

    /// How many times as long as it took to measure the cache without, which is a second or more,
    /// the same stays frozen under [`Freezing::Learned`]; 20 unless set, 1 at least.
    ///
    /// Then it is frozen anew, in the order of the day, after about two seconds without. More
    /// makes those rarer, less keeps up with a workload that moves on (§3.2.3 of the FrozenHot
    /// paper, and its figure 14). What becomes slow is thawed sooner whatever this is; and what pays
    /// only because less is missed has to prove it first, after twice as long as it was measured
    /// without, and then twice as long each time. Refused unless freezing is learned.
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

    /// As [`freezing`](Builder::freezing), with copies of keys and values in a table of their own: a
    /// frozen hit reads one line of memory and not two.
    ///
    /// Refused for keys and values of more than 48 bytes together, and where the builder gives
    /// all entries a lifetime: an entry that is to expire is not copied. The memory, laid out when something is
    /// first frozen, is 40 bytes an entry for keys and values of 8. [`Cache::freeze`] waits for
    /// [pins](crate::Pin) that are older than the last thaw, for some milliseconds at most, and
    /// else returns 0.
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

    /// Finds a setting of which nothing would follow.
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
