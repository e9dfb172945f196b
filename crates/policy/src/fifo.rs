//! FIFO: the oldest insertion goes.
//!
//! A hit does nothing at all, so its hit path has no serialisation point (paper
//! 1, §3.2). A miss is one tail and one head update. 8 bytes a slot, O(1).

use crate::{Eviction, Host, Incoming, Lists, Policy, SharedHit, Slot, Work};

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    queue: Lists<1>,
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
        let Some(victim) = self.queue.tail(0) else {
            return Eviction::Empty;
        };
        self.queue.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    fn put_back(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.queue.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        self.queue.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.queue.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.queue.from_tail(0).collect()
    }
}

impl SharedHit for Fifo {
    #[inline]
    fn touch(_meta: &()) -> bool {
        false
    }
}
