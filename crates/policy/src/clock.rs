//! CLOCK: FIFO with second chances.
//!
//! A hit raises the object's count, up to 1 or up to 3 (`bits=2`). At eviction
//! the tail is examined: the policy lowers a count above zero and moves the
//! object back to the head (Corbató 1968; paper 1, §3.4). The list is a ring
//! through its sentinel, so moving a run of objects back is one move of the
//! sentinel, the textbook's hand. 8 bytes a slot and 1 beside the entry;
//! eviction O(1) amortised: each step uses up one mark.

use crate::mark::by_laps;
use crate::{Eviction, Host, Incoming, Lists, Mark, Policy, Slot, Work};

/// CLOCK whose counts go up to `MAX`: 1 for one bit, 3 for two.
#[derive(Clone, Debug, Default)]
pub struct Clock<const MAX: u8> {
    queue: Lists<1>,
}

impl<const MAX: u8> Policy for Clock<MAX> {
    type Meta = Mark;
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<Mark>, slot: Slot) {
        if host.meta(slot).raise(MAX) {
            host.count(Work::Mark, 1);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<Mark>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<Mark>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(mut candidate) = self.queue.tail(0) else {
            return Eviction::Empty;
        };
        // Readers may raise marks as fast as they are lowered: after this many
        // chances the candidate is evicted, marked or not.
        let mut chances = self.queue.room() * usize::from(MAX);
        while chances > 0 && host.meta(candidate).lower() {
            host.count(Work::Skip, 1);
            chances -= 1;
            let next = self.queue.newer(candidate).or(self.queue.tail(0));
            candidate = next.unwrap_or(candidate);
        }
        self.queue.rotate_to(0, candidate);
        self.queue.unlink(candidate);
        host.count(Work::Tail, 1);
        Eviction::Victim(candidate)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<Mark>, slot: Slot, _incoming: Incoming<()>) {
        host.meta(slot).clear();
        self.queue.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<Mark>, slot: Slot) {
        self.queue.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, host: &impl Host<Mark>) -> Vec<Slot> {
        by_laps(self.queue.in_order(&[0]), host)
    }
}
