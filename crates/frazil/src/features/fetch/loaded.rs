//! The result of a loader: a value, and what only the origin knows of it, such as its lifetime.

use std::time::Duration;

/// The result of a fetch of [`Entry::or_fetch`](crate::Entry::or_fetch): a value, perhaps with a
/// lifetime and a weight. A value alone is one too.
///
/// ```
/// use frazil::{Cache, Loaded};
/// use std::time::Duration;
/// # #[derive(Debug)] struct Offline;
/// let cache: Cache<u64, String> = Cache::builder(100).build();
/// let page = cache.entry(1).or_fetch_blocking(|| {
///     let (body, max_age) = ("<h1>".to_owned(), Duration::from_secs(60));
///     Ok::<_, Offline>(Loaded::new(body).lifetime(max_age))
/// });
/// assert_eq!(page.unwrap(), "<h1>");
/// assert!(cache.lifetime_left(&1).unwrap() <= Duration::from_secs(61));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is a fetch's to return"]
pub struct Loaded<V> {
    pub(crate) value: V,
    pub(crate) lifetime: Option<Duration>,
    pub(crate) weight: Option<u64>,
}

impl<V> Loaded<V> {
    /// A value whose lifetime and weight the builder's settings decide.
    ///
    /// ```
    /// assert_eq!(frazil::Loaded::new(7), frazil::Loaded::from(7));
    /// ```
    pub fn new(value: V) -> Self {
        Loaded { value, lifetime: None, weight: None }
    }

    /// The entry expires after this time, instead of the builder's lifetime, as with
    /// [`insert_for`](crate::Cache::insert_for).
    ///
    /// ```
    /// use frazil::{Cache, Loaded};
    /// use std::time::Duration;
    /// let cache: Cache<u64, u64> = Cache::builder(100).build();
    /// let over = || Ok::<_, ()>(Loaded::new(10).lifetime(Duration::ZERO));
    /// assert_eq!(cache.entry(1).or_fetch_blocking(over), Ok(10));
    /// assert_eq!(cache.get(&1), None);
    /// ```
    #[cfg(feature = "expiry")]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// The entry has this weight, and the weigher is not called. No effect in a cache without a
    /// [`weigher`](crate::Builder::weigher), whose capacity is a number of entries.
    ///
    /// ```
    /// use frazil::{Cache, Loaded};
    /// let cache: Cache<u64, u64> = Cache::builder(100).weigher(|_, _| 1).build();
    /// cache.entry(1).or_fetch_blocking(|| Ok::<_, ()>(Loaded::new(10).weight(70))).unwrap();
    /// assert_eq!(cache.weight(), 70);
    /// ```
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = Some(weight);
        self
    }
}

impl<V> From<V> for Loaded<V> {
    fn from(value: V) -> Self {
        Loaded::new(value)
    }
}
