//! Operations on many keys: `get_many`, `insert_many`, `retain`.
//!
//! A look-up in a large cache waits twice for memory: for the bucket, and for the entry
//! that it leads to. Many look-ups at once need not wait one after the other: the keys of
//! a batch are hashed, all their buckets are asked for, then all their entries, and by
//! then the first is there.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::cache::{Cache, Spot};
use crate::index::{Place, Tour};
use crate::listen::Steps;
use crate::protect::{Hazard, Pinned, Protect};
use crate::record::Deed;
use crate::stripe::{Reader, add};
use crate::sync::atomic::Ordering::Relaxed;
use crate::write::Ending;

/// Keys that are looked up together: more than a core can have under way.
const BATCH: usize = 16;

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Clones of the values of `keys`, in their order, with `None` for those that are not
    /// there; a hit or a miss each, as [`Cache::get`] counts them.
    ///
    /// Where the cache is larger than the processor's, this takes less than half as long as
    /// a loop of gets, because it waits for the memory of 16 keys at once. It is no
    /// snapshot: each key is looked up at its own moment.
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
        let mut keys = keys.into_iter();
        let mut values = Vec::with_capacity(keys.size_hint().0);
        loop {
            // The caller's iterator runs before anything is looked at.
            let mut batch: [Option<(&Q, (u64, Place))>; BATCH] = [None; BATCH];
            for (place, key) in batch.iter_mut().zip(keys.by_ref()) {
                *place = Some((key, self.place(key)));
            }
            self.get_batch(batch.iter().map_while(|key| *key), &mut values);
            // What had expired was retired.
            self.reclaim_if_due();
            if batch[BATCH - 1].is_none() {
                return values;
            }
        }
    }

    fn get_batch<'q, Q>(
        &self,
        keys: impl Iterator<Item = (&'q Q, (u64, Place))> + Clone,
        values: &mut Vec<Option<V>>,
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
        V: Clone,
    {
        let reader = &self.stripe().reader;
        keys.clone().for_each(|(_, (_, place))| self.index.prefetch(place));
        for (_, (_, place)) in keys.clone() {
            if let Some(slot) = self.index.candidate(place) {
                self.slab.prefetch_for_reading(slot);
            }
        }
        match Hazard::of(&reader.hazard) {
            Some(hazard) => self.get_batch_under(&hazard, reader, keys, values),
            None => {
                let pinned = Pinned::new(reader, &self.reclaim);
                self.get_batch_under(&pinned, reader, keys, values);
            }
        }
    }

    fn get_batch_under<'q, Q>(
        &self,
        protection: &impl Protect,
        reader: &Reader,
        keys: impl Iterator<Item = (&'q Q, (u64, Place))>,
        values: &mut Vec<Option<V>>,
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
        V: Clone,
    {
        for (key, (hash, place)) in keys {
            if let Some(frozen) = &self.frozen
                && let Some(value) = self.find_frozen(frozen, protection, hash, key)
            {
                add(&reader.frozen_hits, 1);
                if self.recorder.wants(hash) {
                    self.observe_frozen((hash, place), key);
                }
                values.push(Some(value.clone()));
                continue;
            }
            let found = self.find(protection, place, key);
            let found = found.filter(|found| {
                let expired = self.has_expired_in_use(found.slot, found.at);
                if expired {
                    self.take_out_expired(place, found);
                }
                !expired
            });
            add(if found.is_some() { &reader.hits } else { &reader.misses }, 1);
            if self.recorder.wants(hash) {
                let weight = found.as_ref().map_or(0, |found| self.slab.weight(found.slot));
                let deed = if found.is_some() { Deed::Hit } else { Deed::Miss };
                self.recorder.note(hash, deed, weight);
                if let Some(look) = self.begin_look_untimed() {
                    let slot = found.as_ref().map(|found| found.slot);
                    look.end(hash, found.is_some(), || slot);
                }
            }
            if found.is_none() {
                reader.missed.store(hash, Relaxed);
            }
            values.push(found.map(|found| {
                self.touch(Spot { at: found.at, slot: found.slot });
                // SAFETY: published and protected.
                unsafe { self.slab.value_at(found.at) }.clone()
            }));
        }
    }

    /// Of a hit of what is frozen, which no recording and no learner has seen.
    #[cold]
    fn observe_frozen<Q>(&self, (hash, place): (u64, Place), key: &Q)
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        if self.recorder.records(hash) {
            self.recorder.note(hash, Deed::Hit, self.weight_of(place, key));
        }
        if let Some(look) = self.begin_look_untimed() {
            look.end(hash, true, || self.look_up(key, |slot| slot));
        }
    }

    /// Puts all entries in, one after the other, as [`Cache::insert`] does.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert_many((0..10).map(|key| (key, key * key)));
    /// assert_eq!(cache.len(), 10);
    /// ```
    pub fn insert_many(&self, entries: impl IntoIterator<Item = (K, V)>) {
        // To ask for the buckets of 16 entries ahead gains 8 % where every one evicts: less than
        // it is worth to have no entries in hand when the iterator panics.
        let _steps = self.steps();
        entries.into_iter().for_each(|(key, value)| self.insert(key, value));
    }

    /// Removes the entries for which `keep` answers false. O(capacity).
    ///
    /// What is removed is what was judged: a value that replaces it meanwhile stays. As in
    /// [`Cache::iter`] an entry that comes or is replaced meanwhile may be judged or not.
    /// No lock is held: `keep` may use the cache. A panic of it is passed on, and leaves
    /// what is not judged yet.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..10).for_each(|key| cache.insert(key, key));
    /// cache.retain(|key, _| key % 2 == 0);
    /// assert_eq!(cache.len(), 5);
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.sweep(&self.steps(), |slot| {
            // SAFETY: the sweep shows slots that it has found in the index and protects.
            let (key, value) = unsafe { (self.slab.key(slot), self.slab.value(slot)) };
            !keep(key, value)
        });
    }

    /// Removes all entries of which `is_doomed` says so, and those that have expired. It is
    /// shown slots, which are protected. What it panics with ends the sweep; else it is over
    /// when it has come to all, and answers how many had expired.
    pub(crate) fn sweep(&self, steps: &Steps<'_>, mut is_doomed: impl FnMut(u32) -> bool) -> u64 {
        let mut expirations = 0;
        let mut tour = Tour::of(&self.index);
        while tour.next() {
            let telling = self.telling();
            let reader = &self.stripe().reader;
            expirations += match Hazard::of(&reader.hazard) {
                Some(hazard) => self.sweep_home(&hazard, steps, &mut tour, &mut is_doomed),
                None => {
                    let pinned = Pinned::new(reader, &self.reclaim);
                    self.sweep_home(&pinned, steps, &mut tour, &mut is_doomed)
                }
            };
            drop(telling);
            steps.take(|| self.reclaim_if_due());
        }
        expirations
    }

    /// One home of a sweep. How many entries had expired.
    fn sweep_home(
        &self,
        protection: &impl Protect,
        steps: &Steps<'_>,
        tour: &mut Tour<'_>,
        is_doomed: &mut impl FnMut(u32) -> bool,
    ) -> u64 {
        let mut expirations = 0;
        while let Some((table, cell)) = tour.cell() {
            let Some((_, slot)) = self.protected(protection, table, cell) else { continue };
            if !tour.take(slot) {
                continue;
            }
            // Nobody's to judge: it is absent.
            let expired = steps.take(|| self.has_expired(slot)).unwrap_or(false);
            let ending = match expired {
                true => Ending::Expired,
                false if is_doomed(slot) => Ending::Removed,
                false => continue,
            };
            // SAFETY: published, and protected until the next one is.
            let key = unsafe { self.slab.key(slot) };
            // One that cannot be hashed cannot be found by its word: it stays.
            let Some((_, place)) = steps.take(|| self.place(key)) else { continue };
            // The word of this slot, which no other entry can have while it is protected.
            self.leave(slot);
            let mut held = self.hold();
            if self.index.unlink(place, slot) {
                self.bury(&mut held, slot, ending);
                expirations += u64::from(expired);
            }
        }
        expirations
    }
}
