//! FIFO: evicts the oldest insertion.
//!
//! A hit does nothing at all, so its hit path has no serialisation point (paper
//! 1, §3.2). A miss is one tail and one head update. 8 bytes a slot, O(1).

use crate::{Eviction, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

const QUEUE: usize = 0;
/// Frozen entries, in the order in which they were frozen.
const FROZEN: usize = 1;

/// First in, first out.
///
/// Hot first is the order of insertion, the newest first: the only order that a queue has.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: Lists<2>,
}

impl Policy for Fifo {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, _host: &mut impl Host<()>, _slot: Slot) {}

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(victim) = self.queue.tail(QUEUE) else {
            return Eviction::Empty;
        };
        self.queue.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        self.queue.push_head(QUEUE, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.queue.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.queue.in_order(&[QUEUE, FROZEN])
    }
}

impl HotFirst for Fifo {
    fn hottest(&self) -> Option<Slot> {
        self.queue.head(QUEUE)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.queue.older(slot)
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.queue.move_to_tail(FROZEN, slot);
        host.count(Work::Delink, 1);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.remove(host, slot);
    }

    fn thaw(&mut self, host: &mut impl Host<()>) {
        self.queue.splice_all(FROZEN, QUEUE);
        host.count(Work::Head, 1);
    }
}
