//! Mobius: SIEVE as two FIFO queues that trade places.
//!
//! Insertions and examinations use the *active* queue; an object that is found
//! visited moves to the *dormant* one. When the active queue is empty the two
//! trade places. No object is ever taken from the middle, so the concurrent form
//! needs no locks (paper 3, §3). This is the plain form, and the oracle for the
//! concurrent one.
//!
//! The paper's pseudo-code is not SIEVE: it never dequeues the last object of a
//! queue and trades places at the *next* eviction, so leftovers and fresh
//! insertions are examined out of turn. Draining to empty and trading places
//! the moment the active queue is empty makes every eviction equal SIEVE's.
//! 8 bytes a slot and 1 beside the entry; eviction O(1) amortised.

use crate::mark::by_laps;
use crate::{Eviction, Host, Incoming, Lists, Mark, Policy, Slot, Work};

/// Mobius in its plain, single-threaded form.
#[derive(Clone, Debug, Default)]
pub struct Mobius {
    queues: Lists<2>,
    /// Which of the two queues is active. Invariant between calls: it is empty
    /// only if the dormant one is too.
    active: usize,
}

impl Mobius {
    /// Swaps the queues if the active one is empty.
    #[inline]
    fn trade_places(&mut self) {
        if self.queues.is_empty(self.active) {
            self.active ^= 1;
        }
    }
}

impl Policy for Mobius {
    type Meta = Mark;
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<Mark>, slot: Slot) {
        if host.meta(slot).raise(1) {
            host.count(Work::Mark, 1);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<Mark>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<Mark>, _incoming: Option<&Incoming<()>>) -> Eviction {
        // Every object is visited at most once before its mark is cleared, unless readers set marks
        // meanwhile: then the candidate is evicted nevertheless.
        let mut chances = self.queues.room();
        while let Some(candidate) = self.queues.tail(self.active) {
            let spared = chances > 0 && host.meta(candidate).lower();
            if spared {
                self.queues.move_to_head(self.active ^ 1, candidate);
                host.count(Work::Skip, 1);
                chances -= 1;
            } else {
                self.queues.unlink(candidate);
            }
            self.trade_places();
            if !spared {
                host.count(Work::Tail, 1);
                return Eviction::Victim(candidate);
            }
        }
        Eviction::Empty
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<Mark>, slot: Slot, _incoming: Incoming<()>) {
        host.meta(slot).clear();
        self.queues.push_head(self.active, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<Mark>, slot: Slot) {
        self.queues.unlink(slot);
        self.trade_places();
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, host: &impl Host<Mark>) -> Vec<Slot> {
        by_laps(self.queues.in_order(&[self.active, self.active ^ 1]), host)
    }
}
