//! Belady weighted with delays: evicts the object whose miss at its next request would cost
//! the least delay for the time until then.
//!
//! The greedy form of MAD that knows the future, offline and not optimal: paper 5 (§4.2)
//! places it between MAD and its bound. If the object of request `i` were missed at its next
//! request, then all requests for it within one fetch would wait; the sum of their waits is
//! its aggregate delay. The object with the lowest aggregate delay / (time until then + 1) is
//! evicted. A newcomer is refused if its own rank is lower than any resident's.
//!
//! All fetches are assumed to take as long as [`Host::fetch_ticks`](crate::Host::fetch_ticks)
//! returns when the object is requested. Ticks are requests: with another clock it judges by
//! the number of requests. Without fetches it is Belady with refusal. O(residents) an
//! eviction, and for a request O(requests for the object within a fetch); 20 bytes a slot, 4 a
//! request.

use std::sync::Arc;

use crate::belady::Future;
use crate::{Eviction, Host, Incoming, NEVER, Policy, SampleTable, Slot, Work};

/// The next request for an object, and the aggregate delay of a miss then.
#[derive(Clone, Copy, Debug)]
pub struct NextDelay {
    next: u32,
    delay: f64,
}

/// Belady with aggregate delays.
#[derive(Clone, Debug)]
pub struct BeladyMad {
    future: Future,
    residents: SampleTable<NextDelay>,
}

impl BeladyMad {
    /// A policy that will receive `next.len()` requests, in order, as
    /// [`Belady::new`](crate::Belady::new).
    pub fn new(next: Arc<[u32]>) -> Self {
        BeladyMad { future: Future::new(next), residents: SampleTable::new() }
    }

    fn advance(&mut self, host: &impl Host<()>) -> NextDelay {
        let fetch = host.fetch_ticks().unwrap_or(1);
        let next = self.future.advance();
        NextDelay { next, delay: self.future.aggregate_delay(next, fetch) }
    }

    fn rank(&self, known: &NextDelay) -> f64 {
        match known.next {
            NEVER => 0.0,
            next => known.delay / (self.future.distance(next) as f64 + 1.0),
        }
    }
}

impl Policy for BeladyMad {
    type Meta = ();
    type Pending = NextDelay;

    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        *self.residents.get_mut(slot) = self.advance(host);
    }

    fn miss(&mut self, host: &mut impl Host<()>, _hash: u64, _weight: u64) -> NextDelay {
        self.advance(host)
    }

    fn delayed_hit(&mut self, host: &mut impl Host<()>, incoming: &mut Incoming<NextDelay>) {
        incoming.pending = self.advance(host);
    }

    fn evict(
        &mut self,
        host: &mut impl Host<()>,
        incoming: Option<&Incoming<NextDelay>>,
    ) -> Eviction {
        let len = self.residents.len();
        host.count(Work::Sample, len as u32);
        let mut least: Option<(f64, Slot)> = None;
        for place in 0..len {
            let (slot, known) = self.residents.at(place);
            let rank = self.rank(known);
            // Of equals the lower slot, independent of its place in the table.
            if least.is_none_or(|lowest| (rank, slot) < lowest) {
                least = Some((rank, slot));
            }
        }
        let Some((lowest, victim)) = least else { return Eviction::Empty };
        if incoming.is_some_and(|new| self.rank(&new.pending) < lowest) {
            return Eviction::Refuse;
        }
        self.residents.remove(victim);
        Eviction::Victim(victim)
    }

    fn insert(&mut self, _host: &mut impl Host<()>, slot: Slot, incoming: Incoming<NextDelay>) {
        self.residents.insert(slot, incoming.pending);
    }

    fn remove(&mut self, _host: &mut impl Host<()>, slot: Slot) {
        self.residents.remove(slot);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        // No rank is negative, so its bits order as it does.
        self.residents.ranked(|_, known| self.rank(known).to_bits())
    }
}
