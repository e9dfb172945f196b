//! Results of insertions.

use std::error::Error;
use std::fmt;

/// How an entry was admitted: the result of [`Cache::try_insert`](crate::Cache::try_insert).
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
    /// It replaced another entry of its key.
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
    /// Its weight exceeds the capacity, or the capacity is 0.
    TooHeavy,
    /// The policy keeps the entries that it would have to evict.
    Unwanted,
    /// Nothing could be evicted for it, or no slot was free: [pins](crate::Pin) hold removed
    /// entries, or all entries are [frozen](crate::Cache::freeze) or [held](crate::Held), or other
    /// threads repeatedly took the freed capacity.
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

/// An entry that was not admitted, returned by [`Cache::try_insert`](crate::Cache::try_insert).
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(0).build();
/// let refused = cache.try_insert(1, "one".to_owned()).unwrap_err();
/// assert_eq!((refused.key, refused.value.as_str()), (1, "one"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<K, V> {
    /// Its key, which is absent now.
    pub key: K,
    /// Its value.
    pub value: V,
    /// The reason.
    pub reason: Refusal,
}

impl<K, V> fmt::Debug for Refused<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<K, V> fmt::Display for Refused<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the entry was not admitted: {}", self.reason)
    }
}

impl<K, V> Error for Refused<K, V> {}
