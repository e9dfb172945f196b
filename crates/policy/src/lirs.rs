//! LIRS: keeps objects by the distance between their last two requests, not by
//! the time since the last one.
//!
//! Most of the cache holds LIR objects, whose distance was low; 1 % of it is a
//! queue Q of resident HIR objects, which are the victims, oldest first. The
//! stack S orders objects by their last request and ends at the oldest LIR. An
//! HIR object that is requested while it is still in S, resident or not, had a
//! shorter distance than the oldest LIR: it becomes LIR, and the oldest LIR
//! becomes the newest of Q. Until the LIR share is full newcomers are LIR at once
//! (Jiang and Zhang, SIGMETRICS 2002).
//!
//! S is not built. The oldest LIR's last request never moves backwards in time, so
//! an HIR object is in S if and only if its last request came after it: a list of
//! the LIRs and a time for each object are enough, without pruning. Objects
//! evicted from Q while in S are ghosts with their times. They arrive in the order
//! of these times, so a ghost of fixed size forgets first what S would lose first.
//! It holds one cache's weight, which bounds S at twice the cache, as the
//! reference does.
//!
//! Unlike the reference, a hit on an HIR object that has left S demotes no LIR:
//! the paper gives no reason for it, and no reference row changes by more than 0.03 points. Objects
//! heavier than Q are admitted, which the reference refuses.
//!
//! 17 bytes a slot and 40 to 56 a ghost; O(1) amortised.

use crate::{Eviction, Ghost, Host, Incoming, Lists, Policy, Slot, Work};

const LIR: usize = 0;
/// The resident HIR objects: the paper's Q.
const HIR: usize = 1;
/// Q has one part in this many of the capacity.
const HIR_SHARE: u64 = 100;

/// LIRS.
///
/// ```
/// use frazil_policy::{Eviction, Host, Incoming, Lirs, Policy, Slot};
///
/// struct Ones;
/// impl Host<()> for Ones {
///     fn now(&self) -> u64 { 0 }
///     fn meta(&self, _: Slot) -> &() { &() }
///     fn hash(&self, slot: Slot) -> u64 { slot.0.into() }
///     fn weight(&self, _: Slot) -> u64 { 1 }
/// }
///
/// let mut lirs = Lirs::new(3);
/// for slot in [Slot(0), Slot(1), Slot(2)] {
///     let pending = lirs.miss(&mut Ones, slot.0.into(), 1);
///     lirs.insert(&mut Ones, slot, Incoming { hash: slot.0.into(), weight: 1, pending });
/// }
/// // Two were LIR when the third came.
/// assert_eq!(lirs.evict(&mut Ones, None), Eviction::Victim(Slot(2)));
/// ```
#[derive(Clone, Debug)]
pub struct Lirs {
    lists: Lists<2>,
    /// Which list a slot is in.
    is_lir: Vec<bool>,
    /// Number of the last request for a slot's object.
    seen: Vec<u64>,
    /// Requests so far.
    now: u64,
    lir_weight: u64,
    lir_capacity: u64,
    /// Non-resident HIR objects, with the time of their last request.
    ghost: Ghost<u64>,
}

impl Lirs {
    /// A policy for a cache of `capacity` in the host's unit of weight.
    pub fn new(capacity: u64) -> Self {
        let mut policy = Lirs {
            lists: Lists::new(),
            is_lir: Vec::new(),
            seen: Vec::new(),
            now: 0,
            lir_weight: 0,
            lir_capacity: 0,
            ghost: Ghost::new(0),
        };
        policy.set_capacity(capacity);
        policy
    }

    /// Whether an object last requested at `seen` is in the stack.
    #[inline]
    fn in_stack(&self, seen: u64) -> bool {
        self.lists.tail(LIR).is_some_and(|oldest| seen > self.seen[oldest.index()])
    }

    /// Makes the oldest LIR objects HIR until the others keep to their share.
    #[inline]
    fn demote_surplus(&mut self, host: &mut impl Host<()>) {
        while self.lir_weight > self.lir_capacity {
            let Some(oldest) = self.lists.tail(LIR) else { return };
            self.lists.move_to_head(HIR, oldest);
            self.is_lir[oldest.index()] = false;
            self.lir_weight -= host.weight(oldest);
            host.count(Work::Tail, 1);
            host.count(Work::Head, 1);
        }
    }

    #[inline]
    fn push(&mut self, host: &mut impl Host<()>, list: usize, slot: Slot) {
        if slot.index() >= self.seen.len() {
            self.seen.resize(slot.index() + 1, 0);
            self.is_lir.resize(slot.index() + 1, false);
        }
        self.lists.push_head(list, slot);
        self.seen[slot.index()] = self.now;
        self.is_lir[slot.index()] = list == LIR;
        if list == LIR {
            self.lir_weight += host.weight(slot);
        }
        host.count(Work::Head, 1);
    }
}

impl Policy for Lirs {
    type Meta = ();
    /// Whether the object was in the stack at its miss.
    type Pending = bool;

    const REMEMBERS: bool = true;

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.now += 1;
        let at = slot.index();
        if self.is_lir[at] {
            self.seen[at] = self.now;
            if self.lists.head(LIR) != Some(slot) {
                self.lists.move_to_head(LIR, slot);
                host.count(Work::Delink, 1);
                host.count(Work::Head, 1);
            }
            return;
        }
        let promoted = self.in_stack(self.seen[at]);
        self.seen[at] = self.now;
        host.count(Work::Delink, 1);
        host.count(Work::Head, 1);
        if promoted {
            self.lists.move_to_head(LIR, slot);
            self.is_lir[at] = true;
            self.lir_weight += host.weight(slot);
            self.demote_surplus(host);
        } else {
            self.lists.move_to_head(HIR, slot);
        }
    }

    #[inline]
    fn miss(&mut self, host: &mut impl Host<()>, hash: u64, _weight: u64) -> bool {
        self.now += 1;
        host.count(Work::Ghost, 1);
        self.ghost.take(hash).is_some_and(|seen| self.in_stack(seen))
    }

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<bool>>) -> Eviction {
        // After a change of weight or capacity.
        self.demote_surplus(host);
        let Some(victim) = self.lists.tail(HIR).or_else(|| self.lists.tail(LIR)) else {
            return Eviction::Empty;
        };
        let seen = self.seen[victim.index()];
        if self.is_lir[victim.index()] {
            self.lir_weight -= host.weight(victim);
        } else if self.in_stack(seen) {
            self.ghost.insert_noted(host.hash(victim), host.weight(victim), seen);
            host.count(Work::Ghost, 1);
        }
        self.lists.unlink(victim);
        host.count(Work::Tail, 1);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, incoming: Incoming<bool>) {
        let fits = self.lir_weight.saturating_add(incoming.weight) <= self.lir_capacity;
        self.push(host, if incoming.pending || fits { LIR } else { HIR }, slot);
        self.demote_surplus(host);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        if self.is_lir[slot.index()] {
            self.lir_weight -= host.weight(slot);
        }
        self.lists.unlink(slot);
        host.count(Work::Delink, 1);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        if self.is_lir[slot.index()] {
            self.lir_weight = self.lir_weight - old_weight + host.weight(slot);
        }
    }

    fn set_capacity(&mut self, capacity: u64) {
        let hir_capacity = (capacity / HIR_SHARE).max(1);
        self.lir_capacity = capacity.saturating_sub(hir_capacity);
        self.ghost.set_capacity(capacity);
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        // A surplus of LIR objects is at the tail and moves to the head of Q.
        self.lists.in_order(&[HIR, LIR])
    }
}
