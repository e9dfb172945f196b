//! SIEVE: a hand that sweeps a FIFO queue and leaves survivors where they are.
//!
//! Insertions go to the head. The hand moves from the tail towards the head,
//! clears `visited` and evicts the first object it finds not visited; past the
//! head it starts again at the tail (Zhang et al., NSDI 2024; paper 3, §2). The
//! head itself is examined like any other. 8 bytes a slot and 1 beside the
//! entry; eviction O(1) amortised.

use crate::mark::by_laps;
use crate::{Eviction, Host, Incoming, Lists, Mark, Policy, Slot, Work};

/// SIEVE.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    queue: Lists<1>,
    /// The next object to examine; `None` stands before the tail. When the hand
    /// passes the head it must become `None` at once: if it waited for the next
    /// eviction, objects inserted meanwhile would be examined first.
    hand: Option<Slot>,
}

impl Policy for Sieve {
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
        let Some(mut candidate) = self.hand.or(self.queue.tail(0)) else {
            return Eviction::Empty;
        };
        // One lap clears every mark; more is only possible while readers set
        // them again, and then the candidate is evicted, visited or not.
        let mut chances = self.queue.room();
        while chances > 0 && host.meta(candidate).lower() {
            host.count(Work::Skip, 1);
            chances -= 1;
            let next = self.queue.newer(candidate).or(self.queue.tail(0));
            candidate = next.unwrap_or(candidate);
        }
        self.hand = self.queue.newer(candidate);
        self.queue.unlink(candidate);
        host.count(Work::Delink, 1);
        Eviction::Victim(candidate)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<Mark>, slot: Slot, _incoming: Incoming<()>) {
        host.meta(slot).clear();
        self.queue.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<Mark>, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(slot);
        }
        self.queue.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, host: &impl Host<Mark>) -> Vec<Slot> {
        let order = self.queue.in_order(&[0]);
        let next = order.iter().position(|&slot| Some(slot) == self.hand);
        let (behind, ahead) = order.split_at(next.unwrap_or(0));
        by_laps([ahead, behind].concat(), host)
    }
}
