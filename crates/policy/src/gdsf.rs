//! GDSF: keeps objects that are small and requested often and recently.
//!
//! Each object has the priority `L + requests / weight`, set at each request.
//! The policy evicts the lowest, and `L` rises to its priority. So an object
//! that is not requested falls behind those inserted or requested later
//! (GreedyDual-Size with Frequency; Cherkasova 1998, Arlitt et al. 2000; every
//! miss costs 1). Among equals it evicts the one not requested for longest. If
//! the capacity counts objects, all weights are 1, and this is LFU with ageing.
//!
//! A newcomer uses `L` from before the evictions for it. It is refused where all
//! remaining residents have a higher priority, as if it were the next victim. The
//! reference does so; in the papers a newcomer takes the priority of its victims,
//! which costs up to 0.4 points on the reference traces.
//!
//! A hit only records `L` and the time. That never lowers a priority, so the heap
//! holds lower bounds, and an eviction corrects outdated ones it finds on top. The
//! victims are the same, and hot objects are moved once for many hits. `L` only
//! grows, and with it the rounding of the sums. When it passes 2²⁰ all priorities
//! are lowered by it, at most once in `n` evictions for `n` residents.
//!
//! 36 bytes a slot. A hit is O(1), an eviction O(log n) amortised over the hits.

use std::cmp::Ordering;

use crate::{Eviction, Host, HotFirst, Incoming, Lists, Policy, Slot, SlotHeap, Work};

/// Priorities are lowered when the inflation has passed this. Rounding then
/// stays under 2⁻³², which is the priority of an object of 4 GiB.
const MAX_INFLATION: f64 = (1u64 << 20) as f64;

/// A priority, and among equals the time of the last request. Packed, so that a
/// node of the heap is 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
struct Key {
    /// Bits of a number that is not negative: they order as it does.
    priority: u64,
    tick: u32,
}

const _: () = assert!(size_of::<(Key, Slot)>() == 16);

impl Key {
    fn new(priority: f64, tick: u32) -> Self {
        Key { priority: priority.max(0.0).to_bits(), tick }
    }

    fn priority(self) -> f64 {
        f64::from_bits(self.priority)
    }

    /// Both in one number, so that a comparison takes no branch.
    #[inline]
    fn order(self) -> u128 {
        (u128::from(self.priority) << 32) | u128::from(self.tick)
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// State after a request.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// `L` at the last request; for a frozen entry, its excess over the `L` at the freeze.
    inflation: f64,
    /// Time of the last request.
    tick: u32,
    /// Requests so far.
    requests: u32,
}

impl Record {
    fn key(&self, weight: u64) -> Key {
        Key::new(self.inflation + worth(self.requests, weight), self.tick)
    }
}

fn worth(requests: u32, weight: u64) -> f64 {
    f64::from(requests) / weight.max(1) as f64
}

/// Greedy dual size frequency.
///
/// Hot first is by priority, highest first: the reverse of the order of eviction. A heap cannot be
/// walked in order, so the walk uses `coldest_first`.
///
/// ```
/// use frazil_policy::{Eviction, Gdsf, Host, Incoming, Policy, Slot};
///
/// struct Weights([u64; 2]);
/// impl Host<()> for Weights {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, slot: Slot) -> u64 { self.0[slot.index()] }
/// }
///
/// let mut host = Weights([10, 50]);
/// let mut gdsf = Gdsf::default();
/// for slot in [Slot(0), Slot(1)] {
///     let (hash, weight) = (host.hash(slot), host.weight(slot));
///     let pending = gdsf.miss(&mut host, hash, weight);
///     gdsf.insert(&mut host, slot, Incoming { hash, weight, pending });
/// }
/// gdsf.hit(&mut host, Slot(1));
/// // Twice as many requests do not make up for five times the weight.
/// assert_eq!(gdsf.evict(&mut host, None), Eviction::Victim(Slot(1)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gdsf {
    /// Resident slots by a lower bound of their key, the lowest on top.
    heap: SlotHeap<Key>,
    /// Frozen entries, which are not in the heap.
    frozen: Lists<1>,
    records: Vec<Record>,
    /// `L`. No resident's priority is lower, except after it became heavier or was inserted again
    /// after being chosen as the victim.
    inflation: f64,
    /// `L` after the insertion of the object for which entries were evicted.
    risen: f64,
    /// Time of the last request, in requests; restarts when priorities are lowered.
    tick: u32,
    /// Evictions since priorities were lowered.
    evictions: usize,
}

impl Gdsf {
    #[inline]
    fn tick(&mut self, host: &impl Host<()>) -> u32 {
        if self.tick == u32::MAX {
            self.deflate(host);
        }
        self.tick += 1;
        self.tick
    }

    /// Lowers all priorities by the inflation, and numbers ticks from 1.
    #[cold]
    fn deflate(&mut self, host: &impl Host<()>) {
        let inflation = self.inflation;
        let records = &mut self.records;
        self.heap.rekey_all(|slot| {
            let record = &mut records[slot.index()];
            record.inflation -= inflation;
            record.key(host.weight(slot))
        });
        self.tick = 0;
        self.heap.rekey_all(|slot| {
            self.tick += 1;
            records[slot.index()].tick = self.tick;
            records[slot.index()].key(host.weight(slot))
        });
        self.risen -= inflation;
        self.inflation = 0.0;
        self.evictions = 0;
    }

    /// Brings the top of the heap up to date until it is the lowest.
    fn settle_top(&mut self, host: &mut impl Host<()>) -> Option<(Key, Slot)> {
        // Each iteration except the last corrects one resident.
        for _ in 0..=self.heap.len() {
            let (bound, slot) = self.heap.peek()?;
            let key = self.records[slot.index()].key(host.weight(slot));
            if key == bound {
                break;
            }
            let levels = self.heap.rekey(slot, key);
            host.count(Work::Heap, levels);
        }
        self.heap.peek()
    }

    /// Puts a slot with a new record into the heap.
    fn push(&mut self, host: &mut impl Host<()>, slot: Slot, record: Record) {
        if slot.index() >= self.records.len() {
            self.records.resize(slot.index() + 1, Record::default());
        }
        self.records[slot.index()] = record;
        let levels = self.heap.push(slot, record.key(host.weight(slot)));
        host.count(Work::Heap, levels);
    }
}

impl Policy for Gdsf {
    type Meta = ();
    /// Requests so far.
    type Pending = u32;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let tick = self.tick(host);
        let record = &mut self.records[slot.index()];
        let requests = record.requests.saturating_add(1);
        let before =
            std::mem::replace(record, Record { inflation: self.inflation, tick, requests });
        host.count(Work::Mark, 1);
        // `L` falls if a victim's priority is below it. Only then may a hit lower a bound.
        if before.inflation > self.inflation {
            let key = record.key(host.weight(slot));
            let levels = self.heap.rekey(slot, key);
            host.count(Work::Heap, levels);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) -> u32 {
        1
    }

    #[inline]
    fn delayed_hit(&mut self, _host: &mut impl Host<()>, incoming: &mut Incoming<u32>) {
        incoming.pending = incoming.pending.saturating_add(1);
    }

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<u32>>) -> Eviction {
        let Some((key, victim)) = self.settle_top(host) else {
            return Eviction::Empty;
        };
        if let Some(new) = incoming {
            let priority = self.inflation + worth(new.pending, new.weight);
            if key.priority() > priority {
                self.inflation = priority;
                self.risen = priority;
                return Eviction::Refuse;
            }
        }
        let levels = self.heap.remove(victim);
        host.count(Work::Heap, levels);
        self.risen = key.priority();
        if incoming.is_none() {
            self.inflation = self.risen;
        }
        self.evictions += 1;
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<u32>) {
        let tick = self.tick(host);
        let record = Record { inflation: self.inflation, tick, requests: incoming.pending };
        self.push(host, slot, record);
        self.inflation = self.risen;
        if self.inflation > MAX_INFLATION && self.evictions > self.heap.len() {
            self.deflate(host);
        }
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let levels = self.heap.remove(slot);
        host.count(Work::Heap, levels);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, _old_weight: u64) {
        let key = self.records[slot.index()].key(host.weight(slot));
        let levels = self.heap.rekey(slot, key);
        host.count(Work::Heap, levels);
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let records = &self.records;
        let mut order =
            self.heap.sorted_by(|_, slot| records[slot.index()].key(host.weight(slot)).order());
        order.append(&mut self.frozen.in_order(&[0]));
        order
    }
}

impl HotFirst for Gdsf {
    const WALKS: bool = false;

    fn hottest(&self) -> Option<Slot> {
        None
    }

    fn colder(&self, _slot: Slot) -> Option<Slot> {
        None
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.remove(host, slot);
        self.records[slot.index()].inflation -= self.inflation;
        self.frozen.push_tail(0, slot);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.frozen.unlink(slot);
        host.count(Work::Delink, 1);
    }

    /// Places entries as far above `L` as at the freeze, as if no time had passed for them. So none
    /// ages while its hits are not reported, and none rises above its earlier rank. At most
    /// O(k log n) for k of them, and O(k) if they are above most others.
    fn thaw(&mut self, host: &mut impl Host<()>) {
        while let Some(slot) = self.frozen.tail(0) {
            self.frozen.unlink(slot);
            let tick = self.tick(host);
            let Record { inflation, requests, .. } = self.records[slot.index()];
            let inflation = inflation + self.inflation;
            self.push(host, slot, Record { inflation, tick, requests });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

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
        fn weight(&self, slot: Slot) -> u64 {
            [1, 2, 4, 8][slot.index() % 4]
        }
    }

    /// The victims of a fixed course of requests over 32 slots.
    fn victims(mut gdsf: Gdsf) -> (Vec<Slot>, Gdsf) {
        let mut rng = Rng::new(1);
        let host = &mut Ones;
        let mut gone: Vec<Slot> = (0..32).map(Slot).collect();
        let mut victims = Vec::new();
        for _ in 0..2000 {
            let slot = Slot(rng.below(32) as u32);
            if !gone.contains(&slot) {
                gdsf.hit(host, slot);
                continue;
            }
            let incoming = Incoming { hash: 0, weight: host.weight(slot), pending: 1 };
            if gone.len() < 16 {
                let Eviction::Victim(victim) = gdsf.evict(host, Some(&incoming)) else {
                    continue;
                };
                victims.push(victim);
                gone.push(victim);
            }
            gone.retain(|&other| other != slot);
            gdsf.insert(host, slot, incoming);
        }
        (victims, gdsf)
    }

    #[test]
    fn lowering_priorities_and_ticks_changes_no_victim() {
        let (expected, plain) = victims(Gdsf::default());
        assert!(expected.len() > 200 && plain.evictions == expected.len());
        let high = MAX_INFLATION - 3.0;
        let inflated = Gdsf { inflation: high, risen: high, ..Gdsf::default() };
        let (seen, lowered) = victims(inflated);
        assert!(lowered.inflation < plain.inflation && lowered.evictions < seen.len());
        assert_eq!(seen, expected);
        let (seen, renumbered) = victims(Gdsf { tick: u32::MAX - 500, ..Gdsf::default() });
        assert!(renumbered.tick < 2000);
        assert_eq!(seen, expected);
    }

    /// A policy over slots 0 to 7 with unequal requests.
    fn filled(policy: Gdsf) -> Gdsf {
        let mut gdsf = policy;
        for slot in (0..8).map(Slot) {
            let weight = Ones.weight(slot);
            gdsf.insert(&mut Ones, slot, Incoming { hash: 0, weight, pending: 1 + slot.0 });
        }
        gdsf
    }

    /// Slot 0 has this weight, the others 1.
    struct Heavy(u64);
    impl Host<()> for Heavy {
        fn now(&self) -> u64 {
            0
        }
        fn meta(&self, _: Slot) -> &() {
            &()
        }
        fn hash(&self, slot: Slot) -> u64 {
            slot.0.into()
        }
        fn weight(&self, slot: Slot) -> u64 {
            if slot.0 == 0 { self.0 } else { 1 }
        }
    }

    #[test]
    fn a_hit_may_lower_a_priority_once_what_had_become_heavier_went() {
        let (mut gdsf, mut host) = (Gdsf::default(), Heavy(1));
        let of = |pending| Incoming { hash: 0, weight: 1, pending };
        gdsf.insert(&mut host, Slot(0), of(9));
        gdsf.insert(&mut host, Slot(1), of(5));
        assert_eq!(gdsf.evict(&mut host, None), Eviction::Victim(Slot(1)));
        // At `L` = 5: a priority of 6.
        gdsf.insert(&mut host, Slot(2), of(1));
        host.0 = 100;
        gdsf.reweigh(&mut host, Slot(0), 1);
        assert_eq!(gdsf.evict(&mut host, None), Eviction::Victim(Slot(0)));
        // `L` is 0.09: an entry gets 3.09, and the entry with 6 falls to 2.09.
        gdsf.insert(&mut host, Slot(3), of(3));
        gdsf.hit(&mut host, Slot(2));
        assert_eq!(gdsf.evict(&mut host, None), Eviction::Victim(Slot(2)));
    }

    #[test]
    fn no_time_passes_for_what_is_frozen() {
        for level in [0.0, MAX_INFLATION] {
            let mut gdsf = filled(Gdsf { inflation: level, risen: level, ..Gdsf::default() });
            gdsf.tick = if level > 0.0 { u32::MAX - 9 } else { 0 };
            gdsf.freeze(&mut Ones, Slot(4));
            gdsf.freeze(&mut Ones, Slot(0));
            // Evictions for other objects raise `L`, which may lower all priorities.
            for slot in (8..40).map(Slot) {
                gdsf.evict(&mut Ones, None);
                let weight = Ones.weight(slot);
                gdsf.insert(&mut Ones, slot, Incoming { hash: 0, weight, pending: 9 });
            }
            let before = gdsf.inflation;
            assert!(before > level || before < MAX_INFLATION);
            gdsf.thaw(&mut Ones);
            let above = |slot: u32| {
                let record = gdsf.records[slot as usize];
                record.key(1).priority() - gdsf.inflation
            };
            assert_eq!([above(4), above(0)].map(f64::round), [5.0, 1.0]);
            assert!(gdsf.heap.len() == 8 && gdsf.frozen.is_empty(0));
        }
    }
}
