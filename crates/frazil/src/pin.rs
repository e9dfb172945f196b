//! Values read in place.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use crate::cache::Cache;
use crate::protect::Pinned;
use crate::stripe::{Reader, add};

/// A guard that keeps every entry it shows from being dropped: [`Cache::pin`].
///
/// One pin serves any number of gets. A hit through it clones nothing, executes no locked
/// instruction, and writes no line that other threads read once the entry's mark is set:
/// it costs the look-up.
///
/// While a pin lives, entries that are evicted, replaced or removed keep their memory. A
/// full cache has room for a 32nd of its entries and 128 in that state; when that is
/// used up it refuses newcomers ([`Stats::refusals`](crate::Stats::refusals)) until the
/// pin goes. So hold it for a batch of gets, not for the life of a thread. It stays on
/// its thread.
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
/// (0..3).for_each(|key| cache.insert(key, format!("value {key}")));
/// let pin = cache.pin();
/// let lengths: usize = (0..3).filter_map(|key| pin.get(&key)).map(String::len).sum();
/// assert_eq!(lengths, 21);
/// ```
pub struct Pin<'c, K, V, S = foldhash::fast::RandomState> {
    cache: &'c Cache<K, V, S>,
    reader: &'c Reader,
    protection: Pinned<'c>,
    /// The stripe belongs to the thread.
    not_send: PhantomData<*const ()>,
}

impl<'c, K: Hash + Eq, V, S: BuildHasher> Pin<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        let reader = &cache.stripe().reader;
        let protection = Pinned::new(reader, &cache.reclaim);
        Pin { cache, reader, protection, not_send: PhantomData }
    }

    /// The value of `key`, and a hit or a miss for the policy and the counts.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.pin().get("one"), Some(&1));
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (_, place) = self.cache.place(key);
        let Some(found) = self.cache.find(&self.protection, place, key) else {
            add(&self.reader.misses, 1);
            return None;
        };
        self.cache.touch(found.slot);
        add(&self.reader.hits, 1);
        // SAFETY: published, and protected while the pin lives, which the value borrows.
        Some(unsafe { self.cache.slab.value(found.slot) })
    }

    /// The key and the value of `key`, without a trace: no mark, no count.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.pin().peek("one"), Some((&"one".to_owned(), &1)));
    /// assert_eq!(cache.stats().hits, 0);
    /// ```
    #[inline]
    pub fn peek<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (_, place) = self.cache.place(key);
        let slot = self.cache.find(&self.protection, place, key)?.slot;
        // SAFETY: published, and protected while the pin lives, which both borrow.
        Some(unsafe { (self.cache.slab.key(slot), self.cache.slab.value(slot)) })
    }
}

impl<K, V, S> std::fmt::Debug for Pin<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin").finish_non_exhaustive()
    }
}
