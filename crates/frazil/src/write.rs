//! Insertion, removal, and the capacity.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::cache::Cache;
use crate::core::Ending;
use crate::core::admission::{Admitted, Refused};
use crate::core::index::Mixed;
use crate::core::insert::Admission;
use crate::core::local::Stripe;
use crate::events;
use crate::features::expiry::Term;
use crate::features::record::Event;
use crate::features::{self, frozen};

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Inserts an entry, or replaces the one of the same key.
    ///
    /// In a full cache the policy chooses the victim. The new entry may be refused: if it is
    /// heavier than the whole capacity, if the policy does not admit it, or if pins hold too many
    /// slots. An existing entry of its key is removed even so, so that no reader finds a stale
    /// value. [`try_insert`](Cache::try_insert) returns which of these happened. O(1) amortised; no
    /// step waits for a thread that evicts.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one");
    /// cache.insert(1, "uno");
    /// assert_eq!(cache.get(&1), Some("uno"));
    /// ```
    pub fn insert(&self, key: K, value: V) {
        // The listener may be called for expired entries. If it panics, the panic continues when
        // this is dropped, after the entry is inserted.
        let _steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term(&key, &value);
        _ = self.put(key, value, term, drop);
    }

    /// As [`Cache::insert`], and returns the outcome.
    ///
    /// An admitted entry may be evicted at any time, even by another thread's insertion before this
    /// call returns.
    ///
    /// ```
    /// use frazil::{Admitted, Cache, Refusal};
    /// let cache: Cache<u64, Vec<u8>> =
    ///     Cache::builder(1_000).weigher(|_, page: &Vec<u8>| page.len() as u64).build();
    /// assert_eq!(cache.try_insert(1, vec![0; 10]), Ok(Admitted::New));
    /// let refused = cache.try_insert(1, vec![0; 2_000]).unwrap_err();
    /// assert_eq!((refused.reason, refused.value.len()), (Refusal::TooHeavy, 2_000));
    /// assert!(!cache.contains_key(&1), "the old value is out of date, and was removed");
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`], with key and value, if the entry is not admitted. An existing entry of the key
    /// has been removed even so. A [listener](crate::Builder::listener) has been called for both.
    pub fn try_insert(&self, key: K, value: V) -> Result<Admitted, Refused<K, V>> {
        // As in `insert`.
        let steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term(&key, &value);
        let outcome = self.put(key, value, term, |refused| refused);
        // Before the outcome is returned, because after a panic no caller would get it.
        drop(steps);
        outcome
    }

    /// Inserts an entry with the lifetime `term`. If it is not admitted it goes to `refused`:
    /// callers that do not want it back pay nothing for this.
    #[inline(always)]
    pub(crate) fn put<R>(
        &self,
        key: K,
        value: V,
        term: Term,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let (hash, mixed) = self.core.hashes(&key);
        // First: a weigher that panics leaves a load of the key as it was.
        let weight = self.core.weigh(&key, &value);
        self.core.overtake(hash, &key);
        let stripe = self.core.stripe();
        let ends_timed_miss =
            frozen::arrive(&stripe.local.reads, &stripe.local.features.frozen, hash);
        self.core.hooks.recorder.note_insertion(hash, weight, &term);
        let admission = Admission { hash, mixed, weight, incoming: &term };
        if ends_timed_miss {
            return self.admit_timed(stripe, admission, key, value, refused);
        }
        self.core.admit(stripe, admission, key, value, refused)
    }

    /// An insertion that ends a timed miss.
    #[cold]
    #[inline(never)]
    fn admit_timed<R>(
        &self,
        stripe: &Stripe<features::Local>,
        admission: Admission<'_, Term>,
        key: K,
        value: V,
        refused: impl FnOnce(Refused<K, V>) -> R,
    ) -> Result<Admitted, R> {
        let outcome = self.core.admit(stripe, admission, key, value, refused);
        self.core.end_timed_miss();
        outcome
    }

    /// Removes `key` and returns a clone of its value.
    ///
    /// The value itself is dropped once no reader can be looking at it.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("one".to_owned(), 1);
    /// assert_eq!(cache.remove("one"), Some(1));
    /// assert_eq!(cache.remove("one"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.core.take_out(self.hash_to_remove(key), key, V::clone, Ending::Removed)
    }

    /// Removes `key`, and returns whether it was present. As [`Cache::remove`], for values that are
    /// not `Clone`.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, std::sync::Mutex<u64>> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10.into());
    /// assert!(cache.invalidate(&1));
    /// assert!(!cache.invalidate(&1));
    /// ```
    pub fn invalidate<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.core.take_out(self.hash_to_remove(key), key, |_| (), Ending::Removed).is_some()
    }

    /// The hash of a key to remove. Overtakes a load of the key, and records the removal if
    /// requests are recorded.
    fn hash_to_remove<Q>(&self, key: &Q) -> Mixed
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let (hash, mixed) = self.core.hashes(key);
        self.core.overtake(hash, key);
        self.core.order.read_clock(&self.core);
        if self.core.hooks.recorder.wants(hash) {
            self.core.hooks.recorder.note(hash, Event::Remove, 0);
        }
        mixed
    }

    /// Removes all entries, frozen ones too, and thaws. Entries inserted meanwhile may stay.
    /// O(capacity).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..50).for_each(|key| cache.insert(key, key));
    /// cache.clear();
    /// assert!(cache.is_empty());
    /// ```
    pub fn clear(&self) {
        let steps = self.core.steps();
        steps.take(|| self.core.overtake_all());
        self.core.sweep(&steps, |_| true);
        // If everything was frozen, entries that come now would be the only ones for ever.
        steps.take(|| self.core.thaw());
        steps.take(|| self.core.scavenge(false));
        events::event!(self.core, DEBUG, "cache cleared");
    }

    /// Removes all entries at one moment: after it returns no look-up finds an earlier entry. O(1),
    /// and O(loads under way).
    ///
    /// The removed entries are absent for look-ups, iterators and snapshots. Values that a
    /// [`Pin`](crate::Pin) has returned stay readable through it. Loads and computations under way
    /// return their values and store nothing. Entries inserted meanwhile may be removed too.
    ///
    /// Memory is reused later. Each following insertion looks at sixteen slots and removes the
    /// invalidated entries in them, until all slots were visited. A look-up that meets such an
    /// entry, [`purge`](Cache::purge), which visits all, and [`clear`](Cache::clear) remove them
    /// too. Until then [`len`](Cache::len) and [`weight`](Cache::weight) count them, like expired
    /// entries. Then each counts as a removal, which a listener sees as
    /// [`Removed`](crate::Cause::Removed).
    ///
    /// From the first call on the cache keeps [28 bytes an entry](crate#memory) for deadlines and
    /// generations, and each hit reads both, which nearly doubles its instructions. So `clear` may
    /// be better if invalidation is rare and hits matter. Without a call there is no cost. In a
    /// cache that can [freeze](crate::Builder::freezing), and without the
    /// [feature](crate#cargo-features) `expiry`, this is `clear`.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..50).for_each(|key| cache.insert(key, key));
    /// cache.invalidate_all();
    /// cache.insert(1, 10);
    /// assert_eq!((cache.get(&1), cache.get(&2), cache.iter().count()), (Some(10), None, 1));
    /// cache.purge();
    /// assert_eq!(cache.len(), 1);
    /// ```
    pub fn invalidate_all(&self) {
        if cfg!(not(feature = "expiry")) || self.core.hooks.frozen.is_some() {
            return self.clear();
        }
        let steps = self.core.steps();
        // First: a value being stored is present before this ends, or is never stored.
        steps.take(|| self.core.overtake_all());
        self.core.outlive_all();
        events::event!(self.core, DEBUG, "cache invalidated");
    }

    /// Drops the values of all removed entries, except those that a reader is looking at.
    ///
    /// Values of evicted, replaced or removed entries are dropped a little later, in batches, to
    /// share the cost of the check that no reader uses them: some hundred entries, and with a
    /// [weigher](crate::Builder::weigher) a 64th of the capacity and a 1,024th for each thread.
    /// O(threads + waiting entries).
    ///
    /// ```
    /// use std::sync::Arc;
    /// let cache: frazil::Cache<u64, Arc<str>> = frazil::Cache::builder(100).build();
    /// let value: Arc<str> = "large".into();
    /// cache.insert(1, Arc::clone(&value));
    /// cache.invalidate(&1);
    /// cache.flush();
    /// assert_eq!(Arc::strong_count(&value), 1);
    /// ```
    pub fn flush(&self) {
        self.core.scavenge(false);
    }

    /// Changes the capacity, and returns the capacity then in force.
    ///
    /// It can be raised up to the [`entries`](crate::Builder::entries) of the builder, if set. With
    /// a weigher it is the total weight that changes, to any value, and the maximum number of
    /// entries stays. Memory grows with the entries and stays with the cache.
    ///
    /// Raising takes effect at once. Lowering evicts the excess, as the policy chooses, a few
    /// entries at a time, while other threads use the cache: O(evicted entries). The old bound
    /// holds during the call, the new one after it. The capacity is not lowered all the way only if
    /// other threads hold the entries to evict, which a suspended thread may do for long; the
    /// result is how far it came, and a later call continues. Of concurrent calls the one that
    /// began last decides, and the others return early.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).entries(1_000).build();
    /// (0..200).for_each(|key| cache.insert(key, key));
    /// assert_eq!((cache.set_capacity(10), cache.len()), (10, 10));
    /// assert_eq!(cache.set_capacity(5_000), 1_000);
    /// (0..2_000).for_each(|key| cache.insert(key, key));
    /// assert_eq!((cache.capacity(), cache.len()), (1_000, 1_000));
    /// ```
    pub fn set_capacity(&self, capacity: u64) -> u64 {
        self.core.order.read_clock(&self.core);
        let steps = self.core.steps();
        // Frozen entries could not be evicted.
        steps.take(|| self.core.thaw());
        let in_force = self.core.set_capacity(&steps, capacity);
        events::event!(self.core, DEBUG, "capacity set", wanted = capacity, capacity = in_force);
        in_force
    }
}
