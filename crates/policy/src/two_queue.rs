//! 2Q: newcomers wait in a FIFO queue, and only those requested again after
//! their eviction enter the LRU list.
//!
//! Newcomers enter A1in. A hit there changes nothing: requests soon after the
//! first predict little. While A1in holds more than Kin (25 % of the capacity)
//! its oldest object is the victim, and A1out remembers its hash; A1out holds
//! Kout (50 %). A miss that A1out remembers enters Am, an LRU list, whose tail
//! is the victim otherwise (Johnson and Shasha, VLDB 1994: the full version).
//!
//! As in the paper newcomers fill all free capacity, so A1in may hold more than
//! Kin until Am needs it. The paper is about pages and does not mention sizes.
//! Here, as in the reference implementation, an object heavier than Kin is
//! refused if it needs an eviction, because it would flush all of A1in. Without
//! that two byte rows lie 0.7 and 1.0 points above the reference.
//!
//! 9 bytes a slot, and the ghost's 40 to 70 an evicted object; O(1).

use crate::{Eviction, Ghost, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

const A1IN: usize = 0;
const AM: usize = 1;
/// Frozen entries of queue `q` are in list `FROZEN + q`.
const FROZEN: usize = 2;

/// 2Q, full version.
///
/// Hot first is Am from its head, then A1in from its newest: objects that have returned, and then
/// those that have not. It is not the reverse of the order of eviction, in which Am is between the
/// part of A1in beyond Kin and the rest.
///
/// ```
/// use frazil_policy::TwoQueue;
/// let policy = TwoQueue::new(1000);
/// ```
#[derive(Clone, Debug)]
pub struct TwoQueue {
    queues: Lists<4>,
    /// Which queue a slot is in, or was in when it was frozen.
    in_am: Vec<bool>,
    a1in_weight: u64,
    frozen_a1in_weight: u64,
    kin: u64,
    a1out: Ghost,
}

impl TwoQueue {
    /// A policy for a cache of `capacity` in the host's unit of weight.
    pub fn new(capacity: u64) -> Self {
        let mut policy = TwoQueue {
            queues: Lists::new(),
            in_am: Vec::new(),
            a1in_weight: 0,
            frozen_a1in_weight: 0,
            kin: 0,
            a1out: Ghost::new(0),
        };
        policy.set_capacity(capacity);
        policy
    }

    #[inline]
    fn push(&mut self, host: &mut impl Host<()>, queue: usize, slot: Slot) {
        self.queues.push_head(queue, slot);
        self.in_am[slot.index()] = queue == AM;
        if queue == A1IN {
            self.a1in_weight += host.weight(slot);
        }
        host.count(Work::Head, 1);
    }

    #[inline]
    fn take(&mut self, host: &mut impl Host<()>, slot: Slot, at: Work) {
        self.queues.unlink(slot);
        if !self.in_am[slot.index()] {
            self.a1in_weight -= host.weight(slot);
        }
        host.count(at, 1);
    }
}

impl Policy for TwoQueue {
    type Meta = ();
    /// Whether A1out remembered the object.
    type Pending = bool;

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.in_am[slot.index()] && self.queues.head(AM) != Some(slot) {
            self.queues.move_to_head(AM, slot);
            host.count(Work::Delink, 1);
            host.count(Work::Head, 1);
        }
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, _weight: u64) -> bool {
        host.count(Work::Ghost, 1);
        self.a1out.remove(hash)
    }

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, incoming: Option<&Incoming<bool>>) -> Eviction {
        if incoming.is_some_and(|new| new.weight > self.kin.max(1)) {
            return Eviction::Refuse;
        }
        let a1in_pays = self.a1in_weight > self.kin;
        let [a1in, am] = [self.queues.tail(A1IN), self.queues.tail(AM)];
        let Some(victim) = (if a1in_pays { a1in.or(am) } else { am.or(a1in) }) else {
            return Eviction::Empty;
        };
        if a1in_pays && !self.in_am[victim.index()] {
            self.a1out.insert(host.hash(victim), host.weight(victim));
            host.count(Work::Ghost, 1);
        }
        self.take(host, victim, Work::Tail);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<bool>) {
        if slot.index() >= self.in_am.len() {
            self.in_am.resize(slot.index() + 1, false);
        }
        self.push(host, if incoming.pending { AM } else { A1IN }, slot);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.take(host, slot, Work::Delink);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        if !self.in_am[slot.index()] {
            self.a1in_weight = self.a1in_weight - old_weight + host.weight(slot);
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.kin = capacity / 4;
        self.a1out.set_capacity(capacity / 2);
    }

    fn coldest_first(&self, host: &impl Host<()>) -> Vec<Slot> {
        let surplus = self.a1in_weight.saturating_sub(self.kin);
        let mut order = self.queues.from_tails([A1IN, AM], surplus, |slot| host.weight(slot));
        order.append(&mut self.queues.in_order(&[A1IN, AM].map(|queue| FROZEN + queue)));
        order
    }
}

impl HotFirst for TwoQueue {
    fn hottest(&self) -> Option<Slot> {
        self.queues.head_below(AM + 1)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.queues.older(slot).or_else(|| self.queues.head_below(self.in_am[slot.index()].into()))
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.take(host, slot, Work::Delink);
        let in_am = self.in_am[slot.index()];
        self.queues.push_tail(FROZEN + usize::from(in_am), slot);
        if !in_am {
            self.frozen_a1in_weight += host.weight(slot);
        }
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.queues.unlink(slot);
        if !self.in_am[slot.index()] {
            self.frozen_a1in_weight -= host.weight(slot);
        }
        host.count(Work::Delink, 1);
    }

    fn reweigh_frozen(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        if !self.in_am[slot.index()] {
            self.frozen_a1in_weight = self.frozen_a1in_weight - old_weight + host.weight(slot);
        }
    }

    fn thaw(&mut self, host: &mut impl Host<()>) {
        for queue in [A1IN, AM] {
            self.queues.splice_all(FROZEN + queue, queue);
            host.count(Work::Head, 1);
        }
        self.a1in_weight += std::mem::take(&mut self.frozen_a1in_weight);
    }
}
