//! All entries, a home at a time: shown in place, cloned, and as `Debug` output.

use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::ControlFlow;

use crate::cache::Cache;
use crate::core::index::Tour;

/// Homes that a step of a scan reads at most, 4 KiB; if entries are few, most homes are empty.
const HOMES: usize = 64;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Clones of all entries, in no order.
    ///
    /// An entry present throughout is returned once. An entry inserted, removed or replaced
    /// meanwhile may be returned in its old or new state, or not at all; one removed and inserted
    /// again perhaps twice. It takes no lock, and keeps one entry at a time from being dropped.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..10).for_each(|key| cache.insert(key, key * key));
    /// assert_eq!(cache.iter().map(|(_, value)| value).max(), Some(81));
    /// ```
    pub fn iter(&self) -> Iter<'_, K, V, S>
    where
        K: Clone,
        V: Clone,
    {
        Iter::new(self)
    }

    /// Clones of all keys, in no order; otherwise as [`Cache::iter`], which clones values too.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, std::sync::Mutex<u64>> = frazil::Cache::builder(100).build();
    /// (0..3).for_each(|key| cache.insert(key, key.into()));
    /// assert_eq!(cache.keys().sum::<u64>(), 3);
    /// ```
    pub fn keys(&self) -> Keys<'_, K, V, S>
    where
        K: Clone,
    {
        Keys::new(self)
    }

    /// Calls `show` with all entries in place, in no order; nothing is cloned.
    ///
    /// It visits the same entries as [`Cache::iter`]. An entry is not dropped while `show`, which
    /// may use the cache, looks at it. It is not a request: neither the policy nor the counts see
    /// it. O(capacity).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one".to_owned());
    /// cache.insert(2, "two".to_owned());
    /// let mut bytes = 0;
    /// cache.for_each(|_, text| bytes += text.len());
    /// assert_eq!(bytes, 6);
    /// ```
    pub fn for_each(&self, mut show: impl FnMut(&K, &V)) {
        let ControlFlow::Continue(()) = self.try_for_each(|key, value| {
            show(key, value);
            ControlFlow::<Infallible>::Continue(())
        });
    }

    /// As [`Cache::for_each`], until `show` breaks; returns the value of the break.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..50).for_each(|key| cache.insert(key, key * key));
    /// let key = cache.try_for_each(|key, &value| match value {
    ///     49 => ControlFlow::Break(*key),
    ///     _ => ControlFlow::Continue(()),
    /// });
    /// assert_eq!(key, ControlFlow::Break(7));
    /// ```
    pub fn try_for_each<B>(
        &self,
        mut show: impl FnMut(&K, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut tour = Tour::of(&self.core.index);
        while tour.next() {
            self.show_home(&mut tour, &mut show)?;
        }
        ControlFlow::Continue(())
    }

    /// Calls `show` with some entries in place, and returns the cursor of the next step, at first
    /// 0. `None`: there are no more.
    ///
    /// As [`Cache::for_each`] in steps, between which nothing is kept and the cache may be used. An
    /// entry present from the first step to the last is shown at least once, and only once unless
    /// the table grows meanwhile. A step shows the entries of one bucket of the table, about ten,
    /// or none. Any cursor is valid; one that no step returned begins at some bucket.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..50).for_each(|key| cache.insert(key, key));
    /// let (mut shown, mut cursor) = (0, Some(0));
    /// while let Some(at) = cursor {
    ///     cursor = cache.scan(at, |_, _| shown += 1);
    /// }
    /// assert_eq!(shown, 50);
    /// ```
    pub fn scan(&self, cursor: u64, mut show: impl FnMut(&K, &V)) -> Option<u64> {
        let mut tour = Tour::from(&self.core.index, cursor);
        if tour.next_within(HOMES) {
            let ControlFlow::Continue(()) = self.show_home(&mut tour, |key, value| {
                show(key, value);
                ControlFlow::<Infallible>::Continue(())
            });
        }
        tour.cursor()
    }

    fn show_home<B>(
        &self,
        tour: &mut Tour<'_>,
        mut show: impl FnMut(&K, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.core.show_slots(tour, |_, key, value| show(key, value))
    }
}

/// Clones of the entries of a cache: [`Cache::iter`].
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.insert(1, 10);
/// let entries: frazil::Iter<'_, _, _, _> = cache.iter();
/// assert_eq!(entries.collect::<Vec<_>>(), [(1, 10)]);
/// ```
pub struct Iter<'c, K, V, S = foldhash::fast::RandomState> {
    cache: &'c Cache<K, V, S>,
    tour: Tour<'c>,
    /// Clones of the entries of the previous home.
    entries: Vec<(K, V)>,
}

impl<'c, K, V, S> Iter<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        Iter { cache, tour: Tour::of(&cache.core.index), entries: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Iterator for Iter<'_, K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let Iter { cache, tour, entries } = self;
        next(cache, tour, entries, |key, value| (key.clone(), value.clone()))
    }
}

impl<K, V, S> fmt::Debug for Iter<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("home", &self.tour.home()).finish_non_exhaustive()
    }
}

/// Clones of the keys of a cache: [`Cache::keys`].
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.insert(1, 10);
/// let keys: frazil::Keys<'_, _, _, _> = cache.keys();
/// assert_eq!(keys.collect::<Vec<_>>(), [1]);
/// ```
pub struct Keys<'c, K, V, S = foldhash::fast::RandomState> {
    cache: &'c Cache<K, V, S>,
    tour: Tour<'c>,
    /// Clones of the entries of the previous home.
    keys: Vec<K>,
}

impl<'c, K, V, S> Keys<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        Keys { cache, tour: Tour::of(&cache.core.index), keys: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> Iterator for Keys<'_, K, V, S> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        next(self.cache, &mut self.tour, &mut self.keys, |key, _| key.clone())
    }
}

impl<K, V, S> fmt::Debug for Keys<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("home", &self.tour.home()).finish_non_exhaustive()
    }
}

/// The next of `taken`, which is filled from the next homes when it is empty.
fn next<K: Hash + Eq, V, S: BuildHasher, T>(
    cache: &Cache<K, V, S>,
    tour: &mut Tour<'_>,
    taken: &mut Vec<T>,
    take: impl Fn(&K, &V) -> T,
) -> Option<T> {
    while taken.is_empty() && tour.next() {
        let ControlFlow::Continue(()) = cache.show_home(tour, |key, value| {
            taken.push(take(key, value));
            ControlFlow::<Infallible>::Continue(())
        });
    }
    taken.pop()
}

/// As [`Cache::iter`].
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.insert(1, 10);
/// for (key, value) in &cache {
///     assert_eq!((key, value), (1, 10));
/// }
/// ```
impl<'c, K: Hash + Eq + Clone, V: Clone, S: BuildHasher> IntoIterator for &'c Cache<K, V, S> {
    type Item = (K, V);
    type IntoIter = Iter<'c, K, V, S>;

    fn into_iter(self) -> Iter<'c, K, V, S> {
        self.iter()
    }
}

/// A cache with the default settings, and a capacity of as many entries as the iterator yields: it
/// is full unless keys repeat. For another capacity build a cache and [extend](Extend) it.
///
/// ```
/// let cache: frazil::Cache<u64, u64> = (0..10).map(|key| (key, key * key)).collect();
/// assert_eq!((cache.get(&3), cache.len(), cache.capacity()), (Some(9), 10, 10));
/// ```
impl<K: Hash + Eq, V> FromIterator<(K, V)> for Cache<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries: Vec<(K, V)> = entries.into_iter().collect();
        let cache = Cache::builder(entries.len() as u64).build();
        cache.insert_many(entries);
        cache
    }
}

/// As [`Cache::insert_many`].
///
/// ```
/// let mut cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.extend([(1, 10), (2, 20)]);
/// assert_eq!(cache.len(), 2);
/// ```
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for Cache<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.insert_many(entries);
    }
}

/// As [`Cache::insert_many`], for a shared cache.
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// let (even, odd): (Vec<_>, Vec<_>) = (0..10).map(|key| (key, key)).partition(|(key, _)| key % 2 == 0);
/// (&cache).extend(even);
/// (&cache).extend(odd);
/// assert_eq!(cache.len(), 10);
/// ```
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for &Cache<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        self.insert_many(entries);
    }
}

/// As a map, of all entries.
///
/// ```
/// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100).build();
/// cache.insert(1, "one");
/// assert_eq!(format!("{cache:?}"), r#"{1: "one"}"#);
/// ```
impl<K, V, S> fmt::Debug for Cache<K, V, S>
where
    K: Hash + Eq + fmt::Debug,
    V: fmt::Debug,
    S: BuildHasher,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        self.for_each(|key, value| _ = map.entry(key, value));
        map.finish()
    }
}
