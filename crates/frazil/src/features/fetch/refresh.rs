//! Refresh of entries before their lifetime is over.
//!
//! With [`Builder::refresh_ahead`] an entry is *due* in the last part of its life. A caller that
//! loads or fetches its key then takes the key's flight if it is free, and loads. All others get
//! the old value at once, until its lifetime is over. So one caller loads, and the table of flights
//! bounds the number of loads. There is no state beside the deadline.

use std::hash::{BuildHasher, Hash};
use std::pin::Pin;

use equivalent::Equivalent;

use crate::core::index::Mixed;
use crate::features::Featured;
use crate::features::fetch::FetchMode;
use crate::features::fetch::detached::Detached;
use crate::features::fetch::flight::Turn;
use crate::features::fetch::key::EntryKey;
use crate::features::fetch::loaded::Loaded;

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// Whether to load the entry of a key anew.
    pub(crate) fn is_due<Q>(&self, hash: u64, key: &Q) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.hooks.fetch.refresh_ahead > 0
            && self
                .look_up(self.index.mix(hash), key, |slot| self.is_slot_due(slot))
                .unwrap_or(false)
    }

    /// Whether a protected slot is in the last part of its life.
    fn is_slot_due(&self, slot: u32) -> bool {
        let limit = self.hooks.expiry.deadlines().map_or(0, |deadlines| deadlines.limit(slot));
        limit != 0 && limit.saturating_sub(self.clock.coarse()) <= self.hooks.fetch.refresh_ahead
    }

    /// Whether the entry just found need not be loaded anew.
    #[inline(always)]
    pub(crate) fn is_fresh<Q>(&self, hash: u64, key: &Q) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        // Without lifetimes nothing can be due.
        cfg!(not(feature = "expiry"))
            || self.hooks.fetch.refresh_ahead == 0
            || !self.is_due(hash, key)
    }

    /// The turn at a key, if it is free and has no waiters.
    fn begin_alone<A: EntryKey<K>>(
        &self,
        hash: u64,
        key: &A,
        is_task: bool,
    ) -> Option<Turn<'_, K, V>> {
        // Each time round, an error that is no longer remembered is forgotten.
        loop {
            let (flight, is_new) = self.hooks.fetch.flights.find_or_begin(hash, key, is_task);
            if is_new {
                return Some(Turn::begin(&self.hooks.fetch.flights, flight, is_task));
            }
            let until = flight.is_remembered();
            if until.is_none_or(|until| self.clock.coarse() < until) {
                return flight.take_if_vacant(&self.hooks.fetch.flights, is_task);
            }
            flight.forget(&self.hooks.fetch.flights);
        }
    }

    /// The work after a `get` that has found a due entry.
    pub(super) async fn reload<A, F, E, M>(
        &self,
        key: A,
        (hash, mixed): (u64, Mixed),
        load: Pin<&mut F>,
        mut detached: Option<Detached<V>>,
        mode: M,
        stale: Option<V>,
    ) -> Result<V, M::Error>
    where
        A: EntryKey<K>,
        F: Future<Output = Result<Loaded<V>, E>>,
        M: FetchMode<E>,
        V: Clone,
    {
        let stale = stale.expect("found before");
        let is_task = mode.limits(&self.hooks.fetch.flights).is_task;
        let Some(mut turn) = self.begin_alone(hash, &key, is_task) else { return Ok(stale) };
        // Another may have loaded it since.
        let seen = self.with_found(mixed, &turn.flight().key, |found| {
            found.map(|found| found.slot()).filter(|&slot| self.is_slot_due(slot))
        });
        if seen.is_none() {
            turn.leave_to_look();
            return Ok(self.peek(mixed, key.query()).unwrap_or(stale));
        }
        match self.fetch_in(&mut turn, load, &mut detached, &mode).await {
            Ok(loaded) => {
                self.store(turn, (hash, mixed), key.into_key(), &loaded, seen);
                self.reclaim_if_due();
                self.wait_if_overweight();
                Ok(loaded.value)
            }
            Err((_, shared)) => {
                self.fail(turn, shared, &mode);
                Ok(stale)
            }
        }
    }
}
