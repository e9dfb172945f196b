//! Entries that are loaded anew before their lifetime is over.
//!
//! With [`Builder::refresh_ahead`] an entry is *due* for the last part of its life. Who loads or
//! fetches its key then takes the key's flight if it is free, and loads; all others are answered
//! at once by what is there, until its lifetime is over. So one loads, and the table of flights
//! bounds how many do. Nothing is kept for it beside the deadline.

use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::time::Duration;

use equivalent::Equivalent;

use crate::builder::Builder;
use crate::cache::Cache;
use crate::clock::nanoseconds;
use crate::fetch::Manner;
use crate::fetch::detached::Detached;
use crate::fetch::flight::Turn;
use crate::fetch::key::EntryKey;
use crate::fetch::loaded::Loaded;
use crate::index::Place;

impl<K, V, S> Builder<K, V, S> {
    /// How long before the end of its lifetime an entry is *due*: it is answered as before, and
    /// one of those who load or fetch its key loads it anew. Never unless set.
    ///
    /// With a [`time_to_live`](Builder::time_to_live) of a minute and 15 seconds of this an entry
    /// is fresh for 45 seconds; whoever asks in the last 15 gets what is there at once, but for
    /// one, who loads and gets what it has loaded. What that caller brings replaces the entry,
    /// unless the key was written meanwhile. If its loader fails it gets what is there as well,
    /// and the next one tries; a [remembered](crate::Fetching::negative_ttl) error keeps others
    /// from it for a while. At the end of its lifetime the entry goes, loaded or not.
    ///
    /// To have nobody wait ask [`is_due`](Cache::is_due) after a `get`, and load in a task or a
    /// thread of your own. [`get`](Cache::get) itself loads nothing, and a hit of it costs
    /// what it did; a hit of the loading calls looks for the deadline once more. By the lifetime
    /// that an entry was given, so one that lives clearly shorter than this is due at once; the time
    /// to idle does not count.
    ///
    /// ```
    /// use frazil::Cache;
    /// use std::time::Duration;
    /// let (life, last) = (Duration::from_secs(60), Duration::from_secs(15));
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(100).time_to_live(life).refresh_ahead(last).build();
    /// assert_eq!(cache.get_or_insert_with(&1, || 10), 10);
    /// assert_eq!(cache.get_or_insert_with(&1, || 11), 10); // fresh
    /// cache.insert_for(1, 20, last / 2); // due
    /// assert_eq!(cache.get_or_insert_with(&1, || 21), 21);
    /// assert_eq!(cache.get_or_insert_with(&1, || 22), 21);
    /// ```
    pub fn refresh_ahead(mut self, span: Duration) -> Self {
        self.refresh_ahead = nanoseconds(span);
        self
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// Whether the entry of `key` is there and due to be loaded anew
    /// ([`Builder::refresh_ahead`](crate::Builder::refresh_ahead)). Leaves no trace.
    ///
    /// ```
    /// use frazil::Cache;
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// let (life, last) = (Duration::from_secs(60), Duration::from_secs(15));
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(100).time_to_live(life).refresh_ahead(last).build();
    /// let cache = Arc::new(cache);
    /// cache.insert_for(1, 10, last / 2);
    /// # let mut threads = Vec::new();
    /// if let Some(value) = cache.get(&1) {
    ///     if cache.is_due(&1) {
    ///         let cache = Arc::clone(&cache);
    ///         // However many do so, one loads.
    ///         let thread = std::thread::spawn(move || cache.get_or_insert_with(&1, || 11));
    ///         # threads.push(thread);
    ///     }
    ///     assert_eq!(value, 10);
    /// }
    /// # threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 11));
    /// ```
    pub fn is_due<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.refresh_ahead > 0 && self.look_up(key, |slot| self.is_slot_due(slot)).unwrap_or(false)
    }

    /// Whether a protected slot is in the last part of its life.
    fn is_slot_due(&self, slot: u32) -> bool {
        let limit = self.expiry.deadlines().map_or(0, |deadlines| deadlines.limit(slot));
        limit != 0 && limit.saturating_sub(self.expiry.clock.coarse()) <= self.refresh_ahead
    }

    /// Whether what was just found need not be loaded anew.
    #[inline(always)]
    pub(crate) fn is_fresh<Q>(&self, key: &Q) -> bool
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        self.refresh_ahead == 0 || !self.is_due(key)
    }

    /// The turn at a key, if nobody has it or waits for it.
    fn begin_alone<A: EntryKey<K>>(
        &self,
        hash: u64,
        key: &A,
        is_task: bool,
    ) -> Option<Turn<'_, K, V>> {
        // Each time round an error is forgotten that is no longer remembered.
        loop {
            let (flight, is_new) = self.flights.find_or_begin(hash, key, is_task);
            if is_new {
                return Some(Turn::begin(&self.flights, flight, is_task));
            }
            let until = flight.is_remembered();
            if until.is_none_or(|until| self.expiry.clock.coarse() < until) {
                return flight.take_if_vacant(&self.flights, is_task);
            }
            flight.forget(&self.flights);
        }
    }

    /// What follows on a `get` that has found what is due.
    pub(super) async fn reload<A, F, E, M>(
        &self,
        key: A,
        (hash, place): (u64, Place),
        load: Pin<&mut F>,
        mut detached: Option<Detached<V>>,
        manner: M,
        stale: Option<V>,
    ) -> Result<V, M::Error>
    where
        A: EntryKey<K>,
        F: Future<Output = Result<Loaded<V>, E>>,
        M: Manner<E>,
        V: Clone,
    {
        let stale = stale.expect("found before");
        let is_task = manner.patience(&self.flights).is_task;
        let Some(mut turn) = self.begin_alone(hash, &key, is_task) else { return Ok(stale) };
        // Another may have loaded it since.
        let seen = self.with_found(place, &turn.flight().key, |found| {
            found.map(|found| found.slot).filter(|&slot| self.is_slot_due(slot))
        });
        if seen.is_none() {
            turn.leave_to_look();
            return Ok(self.peek(key.query()).unwrap_or(stale));
        }
        match self.fetch_in(&mut turn, load, &mut detached, &manner).await {
            Ok(loaded) => {
                self.store(turn, (hash, place), key.into_key(), &loaded, seen);
                self.reclaim_if_due();
                Ok(loaded.value)
            }
            Err((_, shared)) => {
                self.fail(turn, shared, &manner);
                Ok(stale)
            }
        }
    }
}
