//! Operations on many keys: `get_many`, `get_many_with`, `insert_many`, `retain`.
//!
//! A look-up in a large cache waits twice for memory: for the bucket, and for the entry
//! that it leads to. Look-ups of a batch need not wait one after the other: the cache hashes all
//! keys, prefetches all their buckets, then all their entries, and by then the first has arrived.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::cache::Cache;
use crate::core::index::Mixed;
use crate::smr::protect::{Hazard, Protect};

/// Keys that are looked up together: more than the reads that a core can have under way.
const BATCH: usize = 16;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Clones of the values of `keys`, in their order, with `None` for absent keys; each counts as
    /// a hit or a miss, as in [`Cache::get`].
    ///
    /// If the cache is larger than the processor's caches this takes less than half as long as a
    /// loop of gets, because it waits for the memory of 16 keys at once. It is no snapshot: each
    /// key is looked up at its own moment.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert_many([("one".to_owned(), 1), ("two".to_owned(), 2)]);
    /// assert_eq!(cache.get_many(["two", "three", "one"]), [Some(2), None, Some(1)]);
    /// ```
    pub fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
        V: Clone,
    {
        let keys = keys.into_iter();
        let mut values = Vec::with_capacity(keys.size_hint().0);
        self.get_many_with(keys, |_, value| values.push(value.cloned()));
        values
    }

    /// As [`Cache::get_many`], but clones nothing: it calls `read` with the position of each key,
    /// in their order, and its value in place.
    ///
    /// A value is not dropped while `read`, which may use the cache, looks at it.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// cache.insert_many([(1, "one".to_owned()), (2, "two".to_owned())]);
    /// let mut text = String::new();
    /// cache.get_many_with(&[2, 3, 1], |_, value| text.push_str(value.map_or("-", |value| value)));
    /// assert_eq!(text, "two-one");
    /// ```
    pub fn get_many_with<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        mut read: impl FnMut(usize, Option<&V>),
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
    {
        let mut keys = keys.into_iter();
        let mut position = 0;
        loop {
            // The caller's iterator runs before any look-up.
            let mut batch: [Option<(&Q, (u64, Mixed))>; BATCH] = [None; BATCH];
            for (hashed, key) in batch.iter_mut().zip(keys.by_ref()) {
                *hashed = Some((key, self.core.hashes(key)));
            }
            self.get_batch(batch.iter().map_while(|key| *key), |value| {
                read(position, value);
                position += 1;
            });
            // Expired entries were retired.
            self.core.reclaim_if_due();
            if batch[BATCH - 1].is_none() {
                return;
            }
        }
    }

    fn get_batch<'q, Q>(
        &self,
        keys: impl Iterator<Item = (&'q Q, (u64, Mixed))> + Clone,
        read: impl FnMut(Option<&V>),
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
    {
        let core = &self.core;
        keys.clone().for_each(|(_, (_, mixed))| core.index.prefetch(mixed));
        for (_, (_, mixed)) in keys.clone() {
            if let Some(slot) = core.index.candidate(mixed) {
                core.slab.prefetch_for_reading(slot);
            }
        }
        match Hazard::of(&core.stripe().reader) {
            Some(hazard) => self.get_batch_under(&hazard, keys, read),
            None => self.get_batch_under(&core.pinned(), keys, read),
        }
    }

    fn get_batch_under<'q, Q>(
        &self,
        protection: &impl Protect,
        keys: impl Iterator<Item = (&'q Q, (u64, Mixed))>,
        mut read: impl FnMut(Option<&V>),
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
    {
        let core = &self.core;
        let reads = &core.stripe().local.reads;
        for (key, (hash, _)) in keys {
            let get = |hash| core.get_under(protection, reads, hash, key);
            let value = match core.hooks.recorder.wants(hash) {
                false => get(hash),
                true => core.observed(key, false, get),
            };
            read(value);
        }
    }

    /// Inserts all entries, one after the other, as [`Cache::insert`] does.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert_many((0..10).map(|key| (key, key * key)));
    /// assert_eq!(cache.len(), 10);
    /// ```
    pub fn insert_many(&self, entries: impl IntoIterator<Item = (K, V)>) {
        // Prefetching the buckets of 16 entries gains 8 % if every insertion evicts. It is not
        // done, so that no entries are held when the iterator panics.
        let _steps = self.core.steps();
        entries.into_iter().for_each(|(key, value)| self.insert(key, value));
    }

    /// Removes the entries for which `keep` returns false. O(capacity).
    ///
    /// It removes exactly the entry that `keep` saw: a value that replaces it meanwhile stays. As
    /// in [`Cache::iter`], an entry inserted or replaced meanwhile may be visited or not. Loads
    /// under way return their values and store nothing, because `keep` might have removed them. No
    /// lock is held: `keep` may use the cache. Its panic is passed on, and the remaining entries
    /// stay.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// cache.retain(|key, _| key % 2 == 0);
    /// assert_eq!(cache.len(), 5);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let steps = self.core.steps();
        steps.take(|| self.core.overtake_loads());
        self.core.sweep(&steps, |slot| {
            // SAFETY: the sweep shows slots that it has found in the index and protects.
            let (key, value) = unsafe { (self.core.slab.key(slot), self.core.slab.value(slot)) };
            !keep(key, value)
        });
    }
}
