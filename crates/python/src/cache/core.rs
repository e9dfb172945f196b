//! The state that threads of a cache share: entries, their order, their lifetimes, loads under way.

use std::sync::Arc;

use frazil_policy::{Eviction, Online, Slot};
use pyo3::prelude::*;

use super::flight::Flight;
use super::lifetimes::Lifetime;
use super::order::{self, Exclusive, View, identity};
use super::removed::{Cause, Removed};
use super::stats::CacheStats;
use super::table::{MOST_ENTRIES, Table};

/// Functions of the user.
#[derive(Default)]
pub(super) struct Callbacks {
    pub(super) getsizeof: Option<Py<PyAny>>,
    pub(super) on_evict: Option<Py<PyAny>>,
}

/// A key and value on their way in.
pub(super) struct Newcomer {
    pub(super) hash: u32,
    pub(super) key: Py<PyAny>,
    pub(super) value: Py<PyAny>,
    pub(super) weight: u64,
    /// By the clock of lifetimes; 0 where there are none.
    pub(super) now: u64,
}

pub(super) struct Core {
    pub(super) table: Table,
    order: Exclusive,
    pub(super) capacity: u64,
    /// Sum of the weights.
    pub(super) weight: u64,
    /// By slot, if entries are weighed.
    weights: Option<Vec<u64>>,
    pub(super) age: Option<Lifetime>,
    pub(super) idle: Option<Lifetime>,
    /// Requests reported to the policy so far.
    requests: u64,
    /// Only of what happens to entries; the rest is counted elsewhere.
    pub(super) counts: CacheStats,
    pub(super) callbacks: Callbacks,
    pub(super) flights: Vec<Arc<Flight>>,
}

/// The parts that a policy is called with, borrowed apart.
macro_rules! order_and_view {
    ($core:expr) => {{
        let core = $core;
        let view =
            View { table: &core.table, weights: core.weights.as_deref(), now: core.requests };
        (core.order.get(), view)
    }};
}

impl Core {
    pub(super) fn new(
        policy: Online,
        capacity: u64,
        (ttl, tti): (Option<u64>, Option<u64>),
        callbacks: Callbacks,
    ) -> Self {
        Core {
            table: Table::new(),
            order: order::new(policy, capacity),
            capacity,
            weight: 0,
            weights: callbacks.getsizeof.is_some().then(Vec::new),
            age: ttl.map(Lifetime::new),
            idle: tti.map(Lifetime::new),
            requests: 0,
            counts: CacheStats::default(),
            callbacks,
            flights: Vec::new(),
        }
    }

    pub(super) fn weight_of(&self, slot: u32) -> u64 {
        self.weights.as_ref().map_or(1, |weights| weights[slot as usize])
    }

    #[inline(always)]
    pub(super) fn each_lifetime(&mut self, change: impl Fn(&mut Lifetime)) {
        if let Some(age) = &mut self.age {
            change(age);
        }
        if let Some(idle) = &mut self.idle {
            change(idle);
        }
    }

    /// Whether an entry has not expired.
    #[inline(always)]
    pub(super) fn is_live(&self, slot: u32, now: u64) -> bool {
        let lives = |lifetime: &Option<Lifetime>| {
            lifetime.as_ref().is_none_or(|it| it.left(Slot(slot), now).is_some())
        };
        lives(&self.age) && lives(&self.idle)
    }

    /// An entry that has not expired was requested.
    pub(super) fn hit(&mut self, slot: u32, now: u64) {
        if let Some(idle) = &mut self.idle {
            idle.renew(Slot(slot), now);
        }
        self.requests += 1;
        let (order, view) = order_and_view!(&mut *self);
        order.hit(&view, Slot(slot));
    }

    /// Takes out all that has expired.
    pub(super) fn expire(&mut self, now: u64, removed: &mut Removed) {
        let expired = |lifetime: &Option<Lifetime>| lifetime.as_ref()?.expired(now);
        while let Some(slot) = expired(&self.age).or_else(|| expired(&self.idle)) {
            self.take_out(slot.0, Cause::Expired, removed);
        }
    }

    /// The entry found, unless it has expired. Removes it then, and all others that have expired.
    #[inline(always)]
    pub(super) fn unless_expired(
        &mut self,
        found: Option<u32>,
        now: u64,
        removed: &mut Removed,
    ) -> Option<u32> {
        if self.age.is_none() && self.idle.is_none() {
            return found;
        }
        let live = found.filter(|&slot| self.is_live(slot, now));
        if let Some(dead) = found.filter(|_| live.is_none()) {
            self.take_out(dead, Cause::Expired, removed);
        }
        self.expire(now, removed);
        live
    }

    /// The lifetime of what is inserted, in nanoseconds; 0 if it has none.
    pub(super) fn lifetime(&self) -> u64 {
        let both = [&self.age, &self.idle].into_iter().flatten();
        both.map(Lifetime::nanoseconds).min().unwrap_or(0)
    }

    /// Ends an entry's residency, for a cause that the policy does not know.
    pub(super) fn take_out(&mut self, slot: u32, cause: Cause, removed: &mut Removed) {
        let (order, view) = order_and_view!(&mut *self);
        order.remove(&view, Slot(slot));
        self.forget(slot, cause, removed);
    }

    /// Removes what the policy no longer orders.
    fn forget(&mut self, slot: u32, cause: Cause, removed: &mut Removed) {
        self.each_lifetime(|lifetime| lifetime.end(Slot(slot)));
        self.weight -= self.weight_of(slot);
        if let Some((key, value)) = self.table.remove(slot) {
            match cause {
                Cause::Size => self.counts.evictions += 1,
                Cause::Expired => self.counts.expirations += 1,
                Cause::Deleted => self.counts.deletions += 1,
                Cause::Refused | Cause::Replaced => {}
            }
            removed.push(Some(key), value, cause);
        }
    }

    /// Evicts until the residents leave room for `newcomer`. False if the policy refuses it.
    fn make_room(&mut self, newcomer: Option<u64>, removed: &mut Removed) -> bool {
        let coming = newcomer.unwrap_or(0);
        while self.weight > self.capacity - coming
            || self.table.len() + usize::from(newcomer.is_some()) > MOST_ENTRIES
        {
            let (order, view) = order_and_view!(&mut *self);
            match order.evict(&view, newcomer.is_some()) {
                Eviction::Victim(slot) => self.forget(slot.0, Cause::Size, removed),
                Eviction::Refuse => return false,
                Eviction::Empty => return true,
            }
        }
        true
    }

    /// Inserts a key that was not found, or replaces the value of the entry found. What is too heavy
    /// is refused, and the entry found removed.
    pub(super) fn put(&mut self, found: Option<u32>, new: Newcomer, removed: &mut Removed) {
        for flight in &self.flights {
            flight.overtake(new.hash);
        }
        self.requests += 1;
        match found {
            Some(slot) => self.replace(slot, new, removed),
            None => self.admit(new, removed),
        }
    }

    fn replace(&mut self, slot: u32, new: Newcomer, removed: &mut Removed) {
        let Newcomer { key, value, weight, now, .. } = new;
        if weight > self.capacity {
            self.take_out(slot, Cause::Deleted, removed);
            self.counts.refusals += 1;
            removed.push(Some(key), value, Cause::Refused);
            return;
        }
        self.counts.replacements += 1;
        let old = self.table.entries[slot as usize].value.replace(value);
        if let Some(old) = old {
            removed.push(Some(key), old, Cause::Replaced);
        }
        self.each_lifetime(|lifetime| lifetime.renew(Slot(slot), now));
        let (order, view) = order_and_view!(&mut *self);
        order.hit(&view, Slot(slot));
        let before = self.weight_of(slot);
        if let Some(weights) = &mut self.weights
            && before != weight
        {
            weights[slot as usize] = weight;
            self.weight = self.weight - before + weight;
            let (order, view) = order_and_view!(&mut *self);
            order.reweigh(&view, Slot(slot), before);
            self.make_room(None, removed);
        }
    }

    fn admit(&mut self, new: Newcomer, removed: &mut Removed) {
        let Newcomer { hash, key, value, weight, now } = new;
        if weight > self.capacity {
            self.counts.refusals += 1;
            removed.push(Some(key), value, Cause::Refused);
            return;
        }
        let (order, view) = order_and_view!(&mut *self);
        order.arrive(&view, identity(hash), weight);
        if !self.make_room(Some(weight), removed) {
            self.counts.refusals += 1;
            removed.push(Some(key), value, Cause::Refused);
            return;
        }
        let limit = match self.weights {
            None => usize::try_from(self.capacity).map_or(MOST_ENTRIES, |it| it.min(MOST_ENTRIES)),
            Some(_) => MOST_ENTRIES,
        };
        let slot = self.table.insert(hash, key, value, limit);
        if let Some(weights) = &mut self.weights {
            if weights.len() <= slot as usize {
                weights.resize(slot as usize + 1, 0);
            }
            weights[slot as usize] = weight;
        }
        self.weight += weight;
        self.each_lifetime(|lifetime| lifetime.begin(Slot(slot), now));
        self.counts.inserts += 1;
        let (order, view) = order_and_view!(&mut *self);
        order.insert(&view, Slot(slot));
    }

    /// Removes the entry that the policy would evict next.
    pub(super) fn pop_coldest(&mut self) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let (order, view) = order_and_view!(&mut *self);
        let Eviction::Victim(slot) = order.evict(&view, false) else {
            return None;
        };
        let mut removed = Removed::default();
        self.forget(slot.0, Cause::Deleted, &mut removed);
        removed.into_pair()
    }

    /// Another capacity, and the evictions that it takes.
    pub(super) fn resize(&mut self, capacity: u64, removed: &mut Removed) {
        self.capacity = capacity;
        self.order.get().set_capacity(capacity);
        self.make_room(None, removed);
    }

    /// The slots in the order of their eviction if there were no more requests.
    pub(super) fn coldest_first(&mut self) -> Vec<Slot> {
        let (order, view) = order_and_view!(self);
        order.coldest_first(&view)
    }

    /// Removes all entries, and with them the memory that they took. Counts go on.
    pub(super) fn clear(&mut self, policy: Online) -> Table {
        for flight in &self.flights {
            flight.overtake_always();
        }
        self.order = order::new(policy, self.capacity);
        self.weight = 0;
        self.weights = self.weights.as_ref().map(|_| Vec::new());
        self.each_lifetime(|lifetime| *lifetime = lifetime.emptied());
        self.counts.deletions += self.table.len() as u64;
        std::mem::replace(&mut self.table, Table::new())
    }

    /// Bytes on the heap, without the policy's own.
    pub(super) fn heap_bytes(&self) -> usize {
        let lifetimes = [&self.age, &self.idle].into_iter().flatten();
        self.table.heap_bytes()
            + self.weights.as_ref().map_or(0, |weights| weights.capacity() * size_of::<u64>())
            + lifetimes.map(Lifetime::heap_bytes).sum::<usize>()
    }
}
