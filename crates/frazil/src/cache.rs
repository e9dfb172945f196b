//! The cache: its parts, and all that only reads.

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;
use foldhash::fast::RandomState;
use frazil_policy::Mark;

use crate::budget::Budget;
use crate::builder::{Builder, Weigher};
use crate::evict::locked::Locked;
use crate::evict::segments::Segments;
use crate::evict::{Headers, Order};
use crate::expiry::Expiry;
use crate::fetch::backends::Backends;
use crate::fetch::fetching::{Fetching, NegativeTtl};
use crate::fetch::table::Table as Flights;
use crate::frozen::Frozen;
use crate::index::{Index, Place, Seen, Table};
use crate::iter::{Iter, Keys};
use crate::listen::Listener;
use crate::pin::Pin;
use crate::protect::{Hazard, Pinned, Protect};
use crate::reclaim::{Reclaim, Supply};
use crate::record::{Deed, Recorder};
use crate::resize::{Resize, WEIGHT_STEP_FROM, fitting_step, places_for};
use crate::slab::{At, Header, Slab};
use crate::stats::Stats;
use crate::stripe::{Reader, Stripe, Stripes, add};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};
use crate::sync::{CHECKED, thread as threads};
use crate::{Policy, events, fence, fork, thread};

/// Segments beyond those that are full, for what threads have in hand.
const SPARE_SEGMENTS: usize = if CHECKED { 48 } else { 1024 };
/// A concurrent cache of bounded size.
///
/// Threads share it by reference: put it into an [`Arc`](std::sync::Arc), a `static`, or
/// borrow it in [`std::thread::scope`]. The [crate's page](crate) says what reads
/// promise, what operations cost, and how much memory an entry takes.
///
/// ```
/// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(10_000).build();
/// cache.insert(1, "one".to_owned());
/// assert_eq!(cache.get(&1).as_deref(), Some("one"));
/// assert_eq!(cache.pin().get(&1).map(String::len), Some(3));
/// ```
pub struct Cache<K, V, S = RandomState> {
    pub(crate) index: Index,
    pub(crate) slab: Slab<K, V>,
    pub(crate) order: Order,
    pub(crate) mark_max: u8,
    pub(crate) stripes: Stripes,
    pub(crate) reclaim: Reclaim,
    pub(crate) segments: Segments,
    /// Values on their way.
    pub(crate) flights: Flights<K, V>,
    /// How many more entries there may be.
    pub(crate) places: Budget,
    /// How much more they may weigh, where they are weighed.
    pub(crate) weights: Option<Box<Budget>>,
    pub(crate) resize: Resize,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) hasher: S,
    pub(crate) recorder: Recorder,
    pub(crate) expiry: Expiry<K, V>,
    pub(crate) frozen: Option<Box<Frozen<K, V>>>,
    pub(crate) fetching: Fetching,
    pub(crate) negative_ttl: Option<NegativeTtl>,
    /// How long before its end an entry is due to be loaded anew, in nanoseconds; 0 for never.
    pub(crate) refresh_ahead: u64,
    pub(crate) backends: Option<Backends<K>>,
    policy: Policy,
    /// By which threads remember their stripe.
    pub(crate) identity: u64,
    #[cfg(feature = "tracing")]
    pub(crate) shortages: events::Shortages,
}

/// A slot found by key, and the word that led to it.
pub(crate) struct Found<'c> {
    pub(crate) cell: &'c AtomicU32,
    pub(crate) word: u32,
    pub(crate) slot: u32,
    pub(crate) at: At<'c>,
}

/// What of it a look-up needs that changes nothing: it stays in registers.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'c> {
    pub(crate) at: At<'c>,
    pub(crate) slot: u32,
}

impl<'c> From<Found<'c>> for Spot<'c> {
    #[inline(always)]
    fn from(Found { at, slot, .. }: Found<'c>) -> Self {
        Spot { at, slot }
    }
}

impl<K, V> Cache<K, V> {
    /// Begins a cache of `capacity` entries, or of that weight with a
    /// [`weigher`](Builder::weigher).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// (0..1_000).for_each(|key| cache.insert(key, key));
    /// assert_eq!(cache.len(), 100);
    /// ```
    pub fn builder(capacity: u64) -> Builder<K, V> {
        Builder::new(capacity)
    }
}

impl<K, V, S> Cache<K, V, S> {
    #[inline(always)]
    pub(crate) fn stripe(&self) -> &Stripe {
        thread::stripe(self.identity, &self.stripes)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    pub(crate) fn from_builder(builder: Builder<K, V, S>) -> Self {
        fence::prepare();
        fork::prepare();
        let weighted = builder.weigher.is_some();
        let (bound, entries) = (builder.entry_bound(), builder.expected_entries());
        let length = (1 << builder.batch.clamp(1, 16).ilog2()).min(fitting_step(entries));
        let count = segments_for(slots_for(entries), length as u32);
        let segments = Segments::new(count as usize, length);
        let places = places_for(builder.capacity, bound, weighted);
        let step = length.min(fitting_step(places.min(entries)));
        segments.set_step(step as u32);
        let capacity = if weighted { builder.capacity } else { places };
        let order = Order::new(&builder, capacity, [places.min(entries), entries]);
        // A copy does not show that it has expired: no such builder comes here.
        let copies = builder.copies.flatten();
        let expiry = Expiry::new(builder.terms, slots_for(entries));
        let cache = Cache {
            index: Index::new(words_for(entries)),
            slab: Slab::new(weighted),
            mark_max: order.mark_max(),
            order,
            stripes: Stripes::default(),
            reclaim: Reclaim::new(entries, weighted.then_some(capacity)),
            places: Budget::new(places, step as u64 - 1),
            weights: weighted.then(|| Box::new(Budget::new(capacity, capacity / WEIGHT_STEP_FROM))),
            resize: Resize::new(bound, entries),
            segments,
            flights: Flights::new(expiry.clock.clone()),
            weigher: builder.weigher,
            listener: builder.listener,
            hasher: builder.hasher,
            recorder: Recorder::new(),
            expiry,
            backends: builder.backends,
            frozen: Frozen::new(builder.freezing, builder.lifetime, copies),
            fetching: builder.fetching,
            negative_ttl: builder.negative_ttl,
            refresh_ahead: builder.refresh_ahead,
            policy: builder.policy,
            identity: thread::identity(),
            #[cfg(feature = "tracing")]
            shortages: events::Shortages::default(),
        };
        events::event!(
            cache,
            DEBUG,
            "cache built",
            policy = %cache.policy,
            capacity,
            entries,
            reserved_bytes = cache.reserved_bytes()
        );
        cache
    }

    #[inline(always)]
    pub(crate) fn place<Q: Hash + ?Sized>(&self, key: &Q) -> (u64, Place) {
        let hash = self.hasher.hash_one(key);
        (hash, self.index.place(hash))
    }

    /// Finds a key. The slot may be looked at while `protection` lives and is not asked
    /// for another.
    #[inline(always)]
    pub(crate) fn find<Q>(
        &self,
        protection: &impl Protect,
        place: Place,
        key: &Q,
    ) -> Option<Found<'_>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.find_as(protection, place, key)
    }

    /// The same, or that of it that is wanted.
    #[inline(always)]
    pub(crate) fn find_as<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        place: Place,
        key: &Q,
    ) -> Option<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<Found<'c>>,
    {
        let table = self.index.table();
        let look = |cell, word, slot| self.look(protection, key, (cell, word, slot));
        let (found, home) = table.find_at_home(place, look);
        if found.is_none() && (home.displaced() || self.index.has_left(table)) {
            return self.find_further(protection, table, place, key);
        }
        found
    }

    // Apart, so that what `find` works with can stay in registers.
    #[inline(never)]
    fn find_further<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        table: &'c Table,
        place: Place,
        key: &Q,
    ) -> Option<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<Found<'c>>,
    {
        let look = |cell, word, slot| self.look(protection, key, (cell, word, slot));
        let found = table.find_further(place, look);
        if found.is_none() && self.index.has_left(table) {
            return self.find_anew(protection, place, key);
        }
        found
    }

    /// When the table was replaced under a look-up.
    #[cold]
    #[inline(never)]
    fn find_anew<'c, Q, F>(&'c self, protection: &impl Protect, place: Place, key: &Q) -> Option<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<Found<'c>>,
    {
        let look = |cell, word, slot| self.look(protection, key, (cell, word, slot));
        self.index.find(place, look)
    }

    /// Whether a word with the right tag leads to `key`.
    #[inline(always)]
    fn look<'c, Q, F>(
        &'c self,
        protection: &impl Protect,
        key: &Q,
        (cell, word, slot): (&'c AtomicU32, u32, u32),
    ) -> Seen<F>
    where
        Q: Equivalent<K> + ?Sized,
        F: From<Found<'c>>,
    {
        if !protection.covers(cell, word, slot) {
            return Seen::Changed;
        }
        let at = self.slab.at(slot);
        // SAFETY: the word was in the index, so the slot is published, and it is
        // protected.
        if key.equivalent(unsafe { self.slab.key_at(at) }) {
            Seen::Match(Found { cell, word, slot, at }.into())
        } else {
            Seen::Other
        }
    }

    /// Another slot than `own_slot`, which `own_word` leads to in its cell, of the same key, and
    /// whether its word comes before that one. `None` as well if that has gone: whoever has taken
    /// or replaced it sees to the others. The caller protects `own_slot`.
    pub(crate) fn rival<'c, Q>(
        &'c self,
        protection: &impl Protect,
        place: Place,
        (own, own_word, own_slot): (&AtomicU32, u32, u32),
        key: &Q,
    ) -> Option<(Found<'c>, bool)>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut first = true;
        let look = |cell: &'c AtomicU32, word, slot| {
            // Not by its cell: the table may be replaced meanwhile.
            if slot == own_slot {
                first = false;
                return Seen::Other;
            }
            self.look(protection, key, (cell, word, slot))
        };
        let found = self.index.find(place, look)?;
        (own.load(Relaxed) == own_word).then_some((found, first))
    }

    /// The word and the slot in a cell of a table, if there is one, protected as by
    /// [`Cache::find`].
    #[inline]
    pub(crate) fn protected(
        &self,
        protection: &impl Protect,
        table: &Table,
        cell: &AtomicU32,
    ) -> Option<(u32, u32)> {
        loop {
            // Acquire: partner is the Release with which the word was published.
            let word = cell.load(Acquire);
            let slot = table.slot(word);
            if slot == 0 {
                return None;
            }
            // If not, another thread has changed it.
            if protection.covers(cell, word, slot) {
                return Some((word, slot));
            }
        }
    }

    /// Whether the slot is the one that a look-up of its key finds. Two threads may have admitted
    /// the key just now.
    pub(crate) fn is_found(
        &self,
        protection: &impl Protect,
        place: Place,
        slot: u32,
        key: &K,
    ) -> bool {
        let look = |cell, word, other| {
            if other == slot {
                return Seen::Match(true);
            }
            match self.look::<_, Found<'_>>(protection, key, (cell, word, other)) {
                Seen::Match(_) => Seen::Match(false),
                Seen::Other => Seen::Other,
                Seen::Changed => Seen::Changed,
            }
        };
        self.index.find(place, look) == Some(true)
    }

    // Apart, so that it takes no register of a hit under the policies without a lock.
    #[inline(never)]
    fn used_under_lock(&self, locked: &Locked, slot: u32) {
        locked.hit(self, slot);
    }

    /// Marks a hit, where the policy wants it. It was counted before.
    #[inline(always)]
    pub(crate) fn touch(&self, Spot { at, slot }: Spot<'_>) {
        let mark: &Mark = &self.slab.header_at(at).mark;
        if mark.count() < self.mark_max {
            match &self.order {
                Order::Locked(locked) if !locked.marks() => self.used_under_lock(locked, slot),
                _ => _ = mark.raise(self.mark_max),
            }
        }
    }

    /// A clone of the value of `key`, and a hit or a miss for the policy and the counts.
    ///
    /// Takes no lock and waits for nobody. Of a key that is replaced or removed at the
    /// same time it answers what was there before or after.
    ///
    /// ```
    /// let cache: frazil::Cache<String, u64> = frazil::Cache::builder(100).build();
    /// cache.insert("answer".to_owned(), 42);
    /// assert_eq!(cache.get("answer"), Some(42));
    /// assert_eq!(cache.get("question"), None);
    /// ```
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let hash = self.hasher.hash_one(key);
        if self.recorder.wants(hash) {
            return self.get_observed(key);
        }
        self.get_at(hash, key)
    }

    #[inline(always)]
    fn get_at<Q>(&self, hash: u64, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let reader = &self.stripe().reader;
        match Hazard::of(&reader.hazard) {
            Some(hazard) => self.get_under(&hazard, reader, hash, key),
            None => self.get_nested(reader, hash, key),
        }
    }

    // Recorded, or looked at to learn what to freeze. Hashes once more, so that the others need
    // not keep the hash.
    #[cold]
    #[inline(never)]
    fn get_observed<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        let (hash, place) = self.place(key);
        let weight = self.recorder.records(hash).then(|| self.weight_of(place, key));
        let look = self.begin_look();
        let value = self.get_at(hash, key);
        if let Some(look) = look {
            look.end(hash, value.is_some(), || self.look_up(key, |slot| slot));
        }
        if let Some(weight) = weight {
            let deed = if value.is_some() { Deed::Hit } else { Deed::Miss };
            self.recorder.note(hash, deed, weight);
        }
        value
    }

    #[inline(always)]
    fn get_under<Q>(
        &self,
        protection: &impl Protect,
        reader: &Reader,
        hash: u64,
        key: &Q,
    ) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        if let Some(frozen) = &self.frozen
            && let Some(value) = self.find_frozen(frozen, protection, hash, key)
        {
            add(&reader.frozen_hits, 1);
            return Some(value.clone());
        }
        let place = self.index.place(hash);
        let Some(found) = self.find_as::<_, Spot<'_>>(protection, place, key) else {
            add(&reader.misses, 1);
            reader.missed.store(hash, Relaxed);
            return None;
        };
        if self.has_expired_in_use(found.slot, found.at) {
            self.miss_expired(reader, key, found.slot);
            return None;
        }
        add(&reader.hits, 1);
        self.touch(found);
        // SAFETY: published and protected.
        Some(unsafe { self.slab.value_at(found.at) }.clone())
    }

    /// From code of the user's that another look-up of this thread runs.
    #[cold]
    #[inline(never)]
    fn get_nested<Q>(&self, reader: &Reader, hash: u64, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        self.get_under(&Pinned::new(reader, &self.reclaim), reader, hash, key)
    }

    /// A clone of the value of `key`, without a trace: no mark, no count.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10);
    /// assert_eq!(cache.peek(&1), Some(10));
    /// assert_eq!(cache.stats().hits, 0);
    /// ```
    #[inline]
    pub fn peek<Q>(&self, key: &Q) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
        V: Clone,
    {
        // SAFETY: `look_up` shows a slot that is published and protected.
        self.look_up(key, |slot| unsafe { self.slab.value(slot) }.clone())
    }

    /// Reads what is in the slot of `key`, without a trace. The slot is published, and
    /// protected meanwhile.
    #[inline(always)]
    pub(crate) fn look_up<Q, R>(&self, key: &Q, read: impl FnOnce(u32) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let (_, place) = self.place(key);
        let reader = &self.stripe().reader;
        if let Some(hazard) = Hazard::of(&reader.hazard) {
            let found: Spot<'_> = self.find_as(&hazard, place, key)?;
            (!self.has_expired(found.slot)).then(|| read(found.slot))
        } else {
            let pinned = Pinned::new(reader, &self.reclaim);
            let found = self.find(&pinned, place, key)?;
            (!self.has_expired(found.slot)).then(|| read(found.slot))
        }
    }

    /// Whether `key` is there, without a trace.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 10);
    /// assert!(cache.contains_key(&1) && !cache.contains_key(&2));
    /// ```
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.look_up(key, |_| ()).is_some()
    }

    /// A guard through which values are read in place.
    ///
    /// See [`Pin`] for what it holds up.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, String> = frazil::Cache::builder(100).build();
    /// cache.insert(1, "one".to_owned());
    /// let pin = cache.pin();
    /// let text: &String = pin.get(&1).unwrap();
    /// cache.remove(&1);
    /// assert_eq!(text, "one"); // still there while the pin lives
    /// ```
    #[inline]
    pub fn pin(&self) -> Pin<'_, K, V, S> {
        Pin::new(self)
    }

    /// What the entry of `key` weighs, without a trace; 1 if there is none.
    pub(crate) fn weight_of<Q>(&self, place: Place, key: &Q) -> u64
    where
        Q: Equivalent<K> + ?Sized,
    {
        if self.weights.is_none() {
            return 1;
        }
        let pinned = Pinned::new(&self.stripe().reader, &self.reclaim);
        self.find(&pinned, place, key).map_or(1, |found| self.slab.weight(found.slot))
    }

    /// Clones of all entries, in no order.
    ///
    /// An entry that is there throughout is shown once. One that comes, goes, or is
    /// replaced meanwhile may be shown as it was or is, or not at all; one that goes and
    /// comes again, perhaps twice. Takes no lock; keeps one entry from being dropped
    /// at a time.
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

    /// How many entries there are, with those that have expired and were not taken out yet.
    /// O(threads); exact while nobody writes.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.insert(1, 1);
    /// assert_eq!(cache.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.entries() as usize
    }

    /// The same as a count among counts.
    pub(crate) fn entries(&self) -> u64 {
        let counted = self.stripes.iter().fold(0u64, |sum, stripe| {
            let counts = &stripe.counts;
            sum.wrapping_add(counts.insertions.load(Relaxed))
                .wrapping_sub(counts.evictions.load(Relaxed))
                .wrapping_sub(counts.removals.load(Relaxed))
                .wrapping_sub(counts.expirations.load(Relaxed))
        });
        likely(counted, self.places.capacity())
    }

    /// Whether there is no entry. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert!(cache.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the entries weigh together; their number without a weigher. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> =
    ///     frazil::Cache::builder(100).weigher(|_, value| *value).build();
    /// cache.insert(1, 30);
    /// cache.insert(2, 40);
    /// assert_eq!(cache.weight(), 70);
    /// ```
    pub fn weight(&self) -> u64 {
        if self.weights.is_none() {
            return self.entries();
        }
        let counted = self
            .stripes
            .iter()
            .fold(0u64, |sum, stripe| sum.wrapping_add(stripe.counts.weight.load(Relaxed)));
        likely(counted, self.capacity())
    }

    /// The capacity, in entries or in weight. While [`set_capacity`](Cache::set_capacity)
    /// lowers it, what is in force at the moment.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.capacity(), 100);
    /// ```
    pub fn capacity(&self) -> u64 {
        self.weights.as_deref().unwrap_or(&self.places).capacity()
    }

    /// The policy.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// assert_eq!(cache.policy(), frazil::Policy::Mobius);
    /// ```
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// How many [shards](Builder::shards) the policy has: those that were asked for, rounded up to
    /// a power of two; 1 where it takes no lock.
    ///
    /// ```
    /// use frazil::{Cache, Policy};
    /// let cache: Cache<u64, u64> = Cache::builder(1_000).policy(Policy::Lru).shards(3).build();
    /// assert_eq!(cache.shards(), 4);
    /// ```
    pub fn shards(&self) -> u32 {
        match &self.order {
            Order::Locked(locked) => locked.shards(),
            _ => 1,
        }
    }

    /// Counts since the cache was built. O(threads).
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
    /// cache.get(&1);
    /// assert_eq!(cache.stats().misses, 1);
    /// ```
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            waiting: self.reclaim.waiting(),
            shared_writes: self.reclaim.shared_writes(),
            ..Stats::default()
        };
        for Stripe { reader, counts, .. } in self.stripes.iter() {
            for (sum, count) in [
                (&mut stats.hits, &reader.hits),
                (&mut stats.frozen_hits, &reader.frozen_hits),
                (&mut stats.misses, &reader.misses),
                (&mut stats.promotions_skipped, &reader.notes.skipped),
                (&mut stats.insertions, &counts.insertions),
                (&mut stats.replacements, &counts.replacements),
                (&mut stats.evictions, &counts.evictions),
                (&mut stats.removals, &counts.removals),
                (&mut stats.expirations, &counts.expirations),
                (&mut stats.refusals, &counts.refusals),
                (&mut stats.retries, &counts.retries),
                (&mut stats.shared_writes, &counts.shared_writes),
            ] {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
            // What hits under a lock add to those of writers.
            for (sum, count) in [
                (&mut stats.retries, &reader.retries),
                (&mut stats.shared_writes, &reader.shared_writes),
            ] {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        stats.hits += stats.frozen_hits;
        self.flights.tally.add_to(&mut stats);
        stats
    }

    /// Bytes of address space that the cache has laid out for itself so far, beside what keys and
    /// values point to. It grows with the entries there are; the system maps a page when it is
    /// first used.
    ///
    /// ```
    /// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(1_000_000).build();
    /// assert!(cache.reserved_bytes() < 4_096);
    /// ```
    pub fn reserved_bytes(&self) -> usize {
        self.index.heap_bytes()
            + self.slab.heap_bytes()
            + self.order.heap_bytes()
            + self.segments.heap_bytes()
            + self.stripes.heap_bytes()
            + self.flights.heap_bytes()
            + self.expiry.heap_bytes()
            + self.frozen.as_ref().map_or(0, |frozen| frozen.heap_bytes())
    }
}

/// Slots for what waits to be reclaimed, beside those of the entries. Most are never used: they
/// are there for what pins have shown, all at once, and has been replaced since.
pub(crate) fn spare_slots(entries: u64) -> u64 {
    if CHECKED { 8 } else { entries / 4 + 512 }
}

/// How many slots there may be, of which so many are resident at once.
fn slots_for(entries: u64) -> u32 {
    (entries + spare_slots(entries)) as u32
}

/// How many words there may be: threads that admit a key at the same time have two for it.
fn words_for(entries: u64) -> u64 {
    entries + entries / 32 + 128
}

impl<K, V, S> Supply for Cache<K, V, S> {
    fn limits(&self) -> (u32, u32) {
        let entries = self.places.capacity();
        self.index.limits(words_for(entries), slots_for(entries))
    }

    fn prepare(&self, slot: u32) {
        // SAFETY: `vacant` shows each slot once, before anyone knows it.
        unsafe { self.slab.prepare(slot) }
    }
}

impl<K, V, S> Cache<K, V, S> {
    /// Whether the table has no room for more slots than were handed out, or little.
    pub(crate) fn is_outgrown(&self) -> bool {
        self.reclaim.slots() >= self.limits().0.into()
    }

    /// Slots for which what is frozen is laid out, and what is learned of it: entries in others
    /// are not frozen.
    pub(crate) fn expected_slots(&self) -> u32 {
        let expected = slots_for(self.resize.expected());
        let used = self.reclaim.used().end.saturating_mul(2);
        used.max(expected).min(slots_for(self.places.capacity()))
    }

    /// Makes room for more entries than there were so far. True if there is some. The caller holds
    /// no stripe.
    ///
    /// Stops all who write for as long as it takes to copy the table: see
    /// `docs/design/growth.md`. If they cannot be stopped, because one of them runs code of the
    /// user's, it lets them go on and tries again, as often as `patience` says.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&self, patience: u32) -> bool {
        if !self.is_outgrown() {
            return false;
        }
        let mut larger: Option<Table> = None;
        for _ in 0..=patience {
            let stopping = self.stripes.stopping();
            // Another may have seen to it meanwhile.
            if !self.is_outgrown() {
                return true;
            }
            let entries = self.places.capacity();
            let table = larger
                .take()
                .unwrap_or_else(|| self.index.larger(words_for(entries), slots_for(entries)));
            if let Some(stopped) = self.stripes.stop(stopping) {
                self.index.grow(table);
                self.segments.allow(segments_for(self.limits().1, self.segments.length()));
                drop(stopped);
                return true;
            }
            larger = Some(table);
            threads::yield_now();
        }
        false
    }
}

/// How many segments so many slots may need.
fn segments_for(slots: u32, length: u32) -> u32 {
    (u64::from(slots) * 2 / u64::from(length)) as u32 + SPARE_SEGMENTS as u32
}

/// A sum of counts that were read one after the other. Those of different moments may add
/// up to more than there can be, or to less than nothing, which wraps.
fn likely(sum: u64, capacity: u64) -> u64 {
    if sum > capacity && sum > u64::MAX / 2 { 0 } else { sum.min(capacity) }
}

/// The entries, as policies see them.
impl<K: Hash, V, S: BuildHasher> Headers for Cache<K, V, S> {
    #[inline(always)]
    fn header(&self, slot: u32) -> &Header {
        self.slab.header(slot)
    }
    #[inline(always)]
    fn reader(&self) -> &Reader {
        &self.stripe().reader
    }
    #[inline(always)]
    fn prefetch(&self, slot: u32) {
        self.slab.prefetch(slot);
    }
    #[inline(always)]
    fn weight(&self, slot: u32) -> u64 {
        self.slab.weight(slot)
    }
    #[inline(always)]
    fn hash(&self, slot: u32) -> u64 {
        // SAFETY: a policy asks for a slot that it has taken, or under its lock for one
        // in its place: neither can be retired, let alone vacated.
        self.hasher.hash_one(unsafe { self.slab.key(slot) })
    }
    fn coarse_ns(&self) -> u64 {
        self.expiry.clock.coarse()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// While the words of a table that was left are taken out of it, one after the other.
    #[test]
    fn an_entry_is_no_rival_of_itself_in_the_next_table() {
        let cache: Cache<u64, u64> = Cache::builder(1 << 20).build();
        cache.insert(1, 10);
        let (_, place) = cache.place(&1);
        let pinned = Pinned::new(&cache.stripe().reader, &cache.reclaim);
        let Found { cell, word, slot, .. } = cache.find(&pinned, place, &1).expect("it is there");
        let before = cache.index.table().len();
        (2..)
            .take_while(|_| cache.index.table().len() == before)
            .for_each(|key| cache.insert(key, 0));
        cell.store(word, Relaxed);
        assert!(cache.rival(&pinned, place, (cell, word, slot), &1).is_none());
        cell.store(0, Relaxed);
    }
}
