//! LRU: evicts the object not requested for longest.
//!
//! Every hit delinks its object and puts it at the head, both under the list's
//! lock: paper 1 (§3.1) shows that this makes throughput *fall* at high hit
//! ratios. 8 bytes a slot, O(1).
//!
//! Entries may have priorities. Those of [`Priority::Bottom`] wait in a list of their own, whose
//! tail is evicted first, until they are hit. An entry of [`Priority::High`] moves to the head when
//! it reaches the tail for the first time. Once there is such an entry, that costs 1 byte a slot
//! more and O(1) amortised.

use crate::aggregate_delay::{Delays, Keep};
use crate::mad::{by_rank, lowest_in_order, settle};
use crate::{DelayAware, Eviction, Host, HotFirst, Incoming, Lists, Policy, Priority, Slot, Work};

const LIST: usize = 0;
/// Frozen entries, in the order in which they were frozen.
const FROZEN: usize = 1;
/// Entries inserted with the lowest priority and not hit.
const BOTTOM: usize = 2;

/// Least recently used.
///
/// Hot first is the list from its head: the entry requested last comes first.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    list: Lists<3>,
    /// By slot, whether an entry at the tail is spared once. Only as long as needed so far.
    spared: Vec<bool>,
}

impl Lru {
    /// The tail of the list, after entries that are spared once have moved to the head.
    #[inline]
    fn tail(&mut self, host: &mut impl Host<()>) -> Option<Slot> {
        loop {
            let tail = self.list.tail(LIST)?;
            match self.spared.get_mut(tail.index()) {
                Some(spared) if *spared => *spared = false,
                _ => return Some(tail),
            }
            self.list.move_to_head(LIST, tail);
            host.count(Work::Skip, 1);
        }
    }

    /// Notes whether a new entry is spared once.
    #[inline]
    fn note(&mut self, slot: Slot, is_spared: bool) {
        match self.spared.get_mut(slot.index()) {
            Some(spared) => *spared = is_spared,
            None if is_spared => {
                self.spared.resize(slot.index() + 1, false);
                self.spared[slot.index()] = true;
            }
            None => {}
        }
    }
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
        let Some(victim) = self.list.tail(BOTTOM).or_else(|| self.tail(host)) else {
            return Eviction::Empty;
        };
        self.list.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<()>) {
        self.insert_with(host, slot, incoming, Priority::Low);
    }

    #[inline]
    fn insert_with(
        &mut self,
        host: &mut impl Host<()>,
        slot: Slot,
        _incoming: Incoming<()>,
        priority: Priority,
    ) {
        self.note(slot, priority == Priority::High);
        self.list.push_head(if priority == Priority::Bottom { BOTTOM } else { LIST }, slot);
        host.count(Work::Head, 1);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.list.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        let is_spared = |slot: &Slot| self.spared.get(slot.index()).is_some_and(|spared| *spared);
        let (spared, others) = self.list.in_order(&[LIST]).into_iter().partition(is_spared);
        let bottom = self.list.in_order(&[BOTTOM]);
        [bottom, others, spared, self.list.in_order(&[FROZEN])].concat()
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
        self.list.head(LIST).or_else(|| self.list.head(BOTTOM))
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        let bottom = || self.list.head(BOTTOM).filter(|_| self.list.tail(LIST) == Some(slot));
        self.list.older(slot).or_else(bottom)
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Ones;
    impl Host<()> for Ones {
        fn now(&self) -> u64 {
            0
        }
        fn meta(&self, _: Slot) -> &() {
            &()
        }
        fn hash(&self, slot: Slot) -> u64 {
            slot.0.into()
        }
        fn weight(&self, _: Slot) -> u64 {
            1
        }
    }

    fn insert(lru: &mut Lru, slot: u32, priority: Priority) {
        let incoming = Incoming { hash: slot.into(), weight: 1, pending: () };
        lru.insert_with(&mut Ones, Slot(slot), incoming, priority);
    }

    fn evict(lru: &mut Lru) -> Option<Slot> {
        match lru.evict(&mut Ones, None) {
            Eviction::Victim(slot) => Some(slot),
            _ => None,
        }
    }

    /// Lowest first and oldest first. A hit entry counts as low priority, and none is spared twice.
    #[test]
    fn priorities_are_evicted_in_order() {
        use Priority::{Bottom, High, Low};
        let mut lru = Lru::default();
        for (slot, priority) in (0..).zip([High, Low, Bottom, Bottom, High, Low, Bottom]) {
            insert(&mut lru, slot, priority);
        }
        lru.hit(&mut Ones, Slot(2));
        let expected = [3, 6, 1, 5, 2, 0, 4].map(Slot);
        assert_eq!(lru.coldest_first(&Ones), expected);
        let walked = std::iter::successors(lru.hottest(), |&slot| lru.colder(slot));
        assert_eq!(walked.count(), expected.len(), "each is walked once");
        let victims: Vec<Slot> = std::iter::from_fn(|| evict(&mut lru)).collect();
        assert_eq!(victims, expected);
        // A slot that is used again begins anew.
        insert(&mut lru, 0, High);
        lru.remove(&mut Ones, Slot(0));
        insert(&mut lru, 0, Low);
        insert(&mut lru, 1, Low);
        assert_eq!(evict(&mut lru), Some(Slot(0)));
    }
}
