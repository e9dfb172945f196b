//! LRU: the object not requested for longest goes.
//!
//! Every hit delinks its object and puts it at the head, both under the list's
//! lock: paper 1 (§3.1) shows that this makes throughput *fall* at high hit
//! ratios. 8 bytes a slot, O(1).

use crate::aggregate_delay::{Delays, Keep};
use crate::mad::{by_rank, lowest_in_order, settle};
use crate::{DelayAware, Eviction, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

const LIST: usize = 0;
/// What is set aside, in the order in which it was.
const FROZEN: usize = 1;

/// Least recently used.
///
/// Hot first is the list from its head: what was requested last comes first.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    list: Lists<2>,
}

impl Policy for Lru {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.list.head(LIST) != Some(slot) {
            self.list.move_to_head(LIST, slot);
            host.count(Work::Delink, 1);
            host.count(Work::Head, 1);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        let Some(victim) = self.list.tail(LIST) else {
            return Eviction::Empty;
        };
        self.list.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        self.list.push_head(LIST, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.list.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        self.list.in_order(&[LIST, FROZEN])
    }
}

impl DelayAware for Lru {
    fn evict_by(
        &mut self,
        host: &mut impl Host<()>,
        _incoming: Option<&Incoming<()>>,
        delays: &Delays<'_, impl Keep>,
    ) -> Eviction {
        // The list is in the order of last requests: `settle` sees to that.
        let (least, looked) = lowest_in_order(self.list.from_tail(LIST), delays);
        let Some((_, victim)) = least else { return Eviction::Empty };
        host.count(Work::Sample, looked);
        host.count(Work::Delink, 1);
        self.list.unlink(victim);
        Eviction::Victim(victim)
    }

    fn settle(&mut self, slot: Slot, delays: &Delays<'_, impl Keep>) {
        settle(&mut self.list, slot, delays);
    }

    fn coldest_by(&self, _host: &impl Host<()>, delays: &Delays<'_, impl Keep>) -> Vec<Slot> {
        by_rank(self.list.in_order(&[LIST]), delays)
    }
}

impl HotFirst for Lru {
    fn hottest(&self) -> Option<Slot> {
        self.list.head(LIST)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.list.older(slot)
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.list.move_to_tail(FROZEN, slot);
        host.count(Work::Delink, 1);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.remove(host, slot);
    }

    fn thaw(&mut self, host: &mut impl Host<()>) {
        self.list.splice_all(FROZEN, LIST);
        host.count(Work::Head, 1);
    }
}
