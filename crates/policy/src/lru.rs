//! LRU: the object not requested for longest goes.
//!
//! Every hit delinks its object and puts it at the head, both under the list's
//! lock: paper 1 (§3.1) shows that this makes throughput *fall* at high hit
//! ratios. 8 bytes a slot, O(1).

use crate::{Eviction, Host, Incoming, Lists, Policy, Slot, Work};

/// Least recently used.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    list: Lists<1>,
}

impl Policy for Lru {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.list.head(0) != Some(slot) {
            self.list.move_to_head(0, slot);
            host.count(Work::Delink, 1);
            host.count(Work::Head, 1);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(victim) = self.list.tail(0) else {
            return Eviction::Empty;
        };
        self.list.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    fn put_back(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.list.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        self.list.push_head(0, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.list.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.list.from_tail(0).collect()
    }
}
