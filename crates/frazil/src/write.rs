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
    /// Puts an entry in, in the place of the one of the same key if there is one.
    ///
    /// When the cache is full the policy chooses what goes. The newcomer itself may be
    /// refused: if it weighs more than the whole capacity, if the policy sees no use in
    /// it, or if pins hold up too many slots; then an entry of the same key goes all the
    /// same, so that no one reads what is out of date. [`try_insert`](Cache::try_insert) says
    /// what became of it. O(1) amortised; no step of it waits for a thread that evicts.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, &str> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one");
    /// cache.insert(1, "uno");
    /// assert_eq!(cache.get(&1), Some("uno"));
    /// ```
    pub fn insert(&self, key: K, value: V) {
        // The listener may be told of what has expired. Should it panic, the panic goes on when this is
        // dropped, and the entry is inserted first.
        let _steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term(&key, &value);
        _ = self.put(key, value, term, drop);
    }

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
        let steps = self.core.hooks.listener.is_some().then(|| self.core.steps());
        self.core.expire_share();
        let term = self.core.term(&key, &value);
        let outcome = self.put(key, value, term, |refused| refused);
        // Before the outcome is handed over, which a panic would leave to nobody.
        drop(steps);
        outcome
    }

    /// Puts an entry in that lives as long as `term` says. One that is not admitted goes to
    /// `refused`: where nobody wants it back nobody pays for the way.
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

    /// An insertion that ends a miss which is timed.
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

    /// Removes `key`. Whether it was there. As [`Cache::remove`], for values that are
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

    /// The hash of a key that is to be removed, which overtakes a load of it, and is noted
    /// where requests are recorded.
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

    /// Removes all entries, frozen ones too, and thaws. Those that come meanwhile may stay.
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
        // Where all was frozen, what comes now would be all that there is for ever.
        steps.take(|| self.core.thaw());
        steps.take(|| self.core.scavenge(false));
        events::event!(self.core, DEBUG, "cache cleared");
    }

    /// Removes all entries at once: once this has returned nobody sees one that was there before.
    /// O(1), and O(loads under way).
    ///
    /// What it removes is absent for look-ups, iterators and snapshots; values that a
    /// [`Pin`](crate::Pin) has shown before stay readable through it. Loads and computations that
    /// are under way hand out their values, and nothing of theirs is stored. What is inserted
    /// meanwhile may go as well.
    ///
    /// Memory is given back later: each insertion from then on looks at sixteen slots and takes out
    /// what is over in them, until all have been looked at, so that what is new finds room; or when a
    /// look-up comes by such an entry, in [`purge`](Cache::purge), which visits all, and in
    /// [`clear`](Cache::clear). Until then [`len`](Cache::len) and [`weight`](Cache::weight) count it,
    /// as what has expired; then it counts as a removal, and a listener is told of it, as
    /// [`Removed`](crate::Cause::Removed).
    ///
    /// From the first call on, the cache keeps [28 bytes an entry](crate#memory) for deadlines and
    /// generations, and each hit reads both, which nearly doubles its instructions. So where
    /// this is seldom called and hits matter, `clear` may be the better choice. A cache that was
    /// never asked for it pays nothing. Where entries can be [frozen](crate::Builder::freezing),
    /// and without the [feature](crate#cargo-features) `expiry`, this is `clear`.
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
        // First: what is being stored is there before this is over, or is never stored.
        steps.take(|| self.core.overtake_all());
        self.core.outlive_all();
        events::event!(self.core, DEBUG, "cache invalidated");
    }

    /// Drops the values of all entries that have gone, but for those that a reader is looking at
    /// now.
    ///
    /// What is evicted, replaced or removed is dropped a little later, so that the cost of making
    /// sure that nobody reads it is shared: some hundred entries, and with a
    /// [weigher](crate::Builder::weigher) a 64th of the capacity and a 1,024th for each thread.
    /// O(threads + entries that wait).
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

    /// Changes the capacity, and returns what is in force then.
    ///
    /// It can be raised as far as the [`entries`](crate::Builder::entries) allow that the cache was
    /// built for, if there are any; with a weigher it is the weight that changes, to whatever one
    /// likes, and the most entries stay. Memory is laid out as entries come and stays with the
    /// cache.
    ///
    /// Raising takes effect at once. Lowering evicts what is too much, as the policy
    /// chooses, a few at a time, while other threads use the cache: O(what goes). During the
    /// call the old bound holds, and after it the new one. It is not lowered all the
    /// way only where others have in hand what would have to go, which a thread that is
    /// suspended within a call may have for long: the result says how far, and a later call
    /// goes on. Of calls at the same time the one that began last decides, and the others
    /// return early.
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
        // What is frozen could not be evicted.
        steps.take(|| self.core.thaw());
        let in_force = self.core.set_capacity(&steps, capacity);
        events::event!(self.core, DEBUG, "capacity set", wanted = capacity, capacity = in_force);
        in_force
    }
}
