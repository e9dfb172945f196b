//! What became of an insertion: the answers of [`Cache::try_insert`].

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use crate::cache::Cache;

/// How an entry was admitted: what [`Cache::try_insert`] answers.
///
/// ```
/// use frazil::{Admitted, Cache};
/// let cache: Cache<u64, u64> = Cache::builder(100).build();
/// assert_eq!(cache.try_insert(1, 10), Ok(Admitted::New));
/// assert_eq!(cache.try_insert(1, 20), Ok(Admitted::Replaced));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admitted {
    /// Its key was absent.
    New,
    /// It has taken the place of another entry of its key.
    Replaced,
}

/// Why an entry was not admitted: [`Refused::reason`].
///
/// ```
/// use frazil::{Cache, Refusal};
/// let cache: Cache<u64, u64> = Cache::builder(10).weigher(|_, weight| *weight).build();
/// assert_eq!(cache.try_insert(1, 11).map_err(|refused| refused.reason), Err(Refusal::TooHeavy));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It weighs more than the whole capacity, or that is 0.
    TooHeavy,
    /// The policy would rather keep what would go for it.
    Unwanted,
    /// Nothing could go for it, or no slot was free: [pins](crate::Pin) hold up what has gone,
    /// or all that is there is [frozen](Cache::freeze), or other threads took again and again
    /// what had been made free.
    NoRoom,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooHeavy => "it weighs more than the capacity",
            Refusal::Unwanted => "the policy keeps what would go for it",
            Refusal::NoRoom => "nothing could go for it, or no slot is free",
        })
    }
}

/// An entry that was not admitted, handed back by [`Cache::try_insert`].
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(0).build();
/// let refused = cache.try_insert(1, "one".to_owned()).unwrap_err();
/// assert_eq!((refused.key, refused.value.as_str()), (1, "one"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the entry was not admitted: {reason}")]
pub struct Refused<K, V> {
    /// Its key, which is absent now.
    pub key: K,
    /// Its value.
    pub value: V,
    /// Why.
    pub reason: Refusal,
}

impl<K, V> fmt::Debug for Refused<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// As [`Cache::insert`], and says what has become of the entry.
    ///
    /// An entry that is admitted may be evicted at any time, by another thread's insertion
    /// before this call returns too.
    ///
    /// ```
    /// use frazil::{Admitted, Cache, Refusal};
    /// let cache: Cache<u64, Vec<u8>> =
    ///     Cache::builder(1_000).weigher(|_, page: &Vec<u8>| page.len() as u64).build();
    /// assert_eq!(cache.try_insert(1, vec![0; 10]), Ok(Admitted::New));
    /// let refused = cache.try_insert(1, vec![0; 2_000]).unwrap_err();
    /// assert_eq!((refused.reason, refused.value.len()), (Refusal::TooHeavy, 2_000));
    /// assert!(!cache.contains_key(&1), "what was there is out of date, and has gone");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], with key and value, if the entry is not admitted. What was there of the key
    /// has gone all the same. A [listener](crate::Builder::listener) has been told of both.
    pub fn try_insert(&self, key: K, value: V) -> Result<Admitted, Refused<K, V>> {
        // As in `insert`.
        let steps = self.listener.is_some().then(|| self.steps());
        let term = self.term(&key, &value);
        let outcome = self.put(key, value, term, |refused| refused);
        // Before the outcome is handed over, which a panic would leave to nobody.
        drop(steps);
        outcome
    }

    /// As [`Cache::insert_for`], and says what has become of the entry, as
    /// [`Cache::try_insert`] does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use frazil::{Admitted, Cache};
    /// let cache: Cache<&str, u64> = Cache::builder(100).build();
    /// let lifetime = Duration::from_secs(3600);
    /// assert_eq!(cache.try_insert_for("token", 42, lifetime), Ok(Admitted::New));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], as [`Cache::try_insert`].
    pub fn try_insert_for(
        &self,
        key: K,
        value: V,
        lifetime: Duration,
    ) -> Result<Admitted, Refused<K, V>> {
        // As in `try_insert`.
        let steps = self.listener.is_some().then(|| self.steps());
        let term = self.term_for(&key, lifetime);
        let outcome = self.put(key, value, term, |refused| refused);
        drop(steps);
        outcome
    }
}
