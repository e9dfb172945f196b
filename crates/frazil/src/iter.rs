//! All entries, a bucket at a time.

use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;
use crate::protect::Pinned;

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
    bucket: usize,
    /// Clones of what was in the bucket before.
    entries: Vec<(K, V)>,
}

impl<'c, K, V, S> Iter<'c, K, V, S> {
    pub(crate) fn new(cache: &'c Cache<K, V, S>) -> Self {
        Iter { cache, bucket: 0, entries: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher> Iterator for Iter<'_, K, V, S> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        while self.entries.is_empty() && self.bucket < self.cache.index.len() {
            let pinned = Pinned::new(&self.cache.stripe().reader, &self.cache.reclaim);
            for cell in self.cache.index.cells(self.bucket) {
                if let Some((_, slot)) = self.cache.protected(&pinned, cell)
                    && !self.cache.has_expired(slot)
                {
                    // SAFETY: published and protected.
                    let (key, value) =
                        unsafe { (self.cache.slab.key(slot), self.cache.slab.value(slot)) };
                    self.entries.push((key.clone(), value.clone()));
                }
            }
            drop(pinned);
            self.bucket += 1;
        }
        self.entries.pop()
    }
}

impl<K, V, S> std::fmt::Debug for Iter<'_, K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}
