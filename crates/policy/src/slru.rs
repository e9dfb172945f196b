//! Segmented LRU: an object must be requested again to be protected.
//!
//! With two segments, newcomers enter probation (paper 1's B). A hit there moves
//! the object to the head of protected (T), a hit in protected moves it to the
//! head again. The surplus of protected moves from its tail to the head of
//! probation, and victims come from probation's tail (Karedla et al. 1994; paper
//! 1, §4.4). With more segments each hit moves its object up by one segment, and
//! the surplus of each moves to the head of the one below. One segment is LRU.
//!
//! The papers leave sizes and the filling phase open. Here all segments are equal: with two,
//! halves miss less than 20:80 in 21 of 40 cells over ten real traces and more in 15. The
//! remainder of the division belongs to probation, which also uses the free capacity of the
//! others. Until the first eviction, newcomers enter the lowest segment with room: a loop
//! longer than the cache then keeps the first objects. With four segments that is the reference
//! implementation's variant, and its misses are identical if four divides the capacity. Unlike
//! it, nothing is ever evicted on a hit, and an object heavier than a segment is admitted, but
//! never promoted into a segment that it would flush.
//!
//! 9 bytes a slot, O(1) amortised.

use crate::{Eviction, Host, HotFirst, Incoming, Lists, Policy, Slot, Work};

/// Frozen entries of segment `s` are in list `FROZEN + s`.
const FROZEN: usize = Slru::MOST_SEGMENTS;

/// LRU in segments, from probation at the bottom up.
///
/// Hot first is the top segment from its head, then the next below, down to probation: the
/// reverse of the order of eviction.
///
/// ```
/// use frazil_policy::Slru;
/// let probation_and_protected = Slru::new(2, 1000);
/// ```
#[derive(Clone, Debug)]
pub struct Slru {
    /// The segments, followed by the frozen entries of each.
    lists: Lists<{ 2 * Slru::MOST_SEGMENTS }>,
    /// Which segment a slot is in, or was in when it was frozen.
    segment_of: Vec<u8>,
    weight: [u64; Slru::MOST_SEGMENTS],
    frozen_weight: [u64; Slru::MOST_SEGMENTS],
    /// Capacity of a segment; probation holds more if others hold less.
    share: [u64; Slru::MOST_SEGMENTS],
    top: usize,
    capacity: u64,
    /// Whether nothing was evicted yet at this capacity.
    filling: bool,
    /// Whether segments may hold more than their share since the capacity shrank.
    shrunk: bool,
}

impl Slru {
    /// The most segments there can be.
    pub const MOST_SEGMENTS: usize = 8;

    /// `segments` from 1 to [`Slru::MOST_SEGMENTS`] for a cache of `capacity` in
    /// the host's unit of weight.
    pub fn new(segments: usize, capacity: u64) -> Self {
        let mut policy = Slru {
            lists: Lists::new(),
            segment_of: Vec::new(),
            weight: [0; Slru::MOST_SEGMENTS],
            frozen_weight: [0; Slru::MOST_SEGMENTS],
            share: [0; Slru::MOST_SEGMENTS],
            top: segments.clamp(1, Slru::MOST_SEGMENTS) - 1,
            capacity: 0,
            filling: true,
            shrunk: false,
        };
        policy.set_capacity(capacity);
        policy
    }

    #[inline]
    fn push(&mut self, host: &mut impl Host<()>, segment: usize, slot: Slot) {
        self.lists.push_head(segment, slot);
        self.segment_of[slot.index()] = segment as u8;
        self.weight[segment] += host.weight(slot);
        host.count(Work::Head, 1);
    }

    /// Takes a slot out of its segment and counts `at`: where in the list it was.
    #[inline]
    fn take(&mut self, host: &mut impl Host<()>, slot: Slot, at: Work) {
        self.lists.unlink(slot);
        self.weight[self.segment(slot)] -= host.weight(slot);
        host.count(at, 1);
    }

    #[inline]
    fn segment(&self, slot: Slot) -> usize {
        self.segment_of[slot.index()].into()
    }

    /// Moves the surplus of `highest` and of the segments below down.
    #[inline]
    fn settle(&mut self, host: &mut impl Host<()>, highest: usize) {
        for segment in (1..=highest).rev() {
            while self.weight[segment] > self.share[segment] {
                let Some(demoted) = self.lists.tail(segment) else { break };
                self.take(host, demoted, Work::Tail);
                self.push(host, segment - 1, demoted);
            }
        }
    }
}

impl Policy for Slru {
    type Meta = ();
    type Pending = ();

    #[inline]
    fn hit(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let segment = self.segment(slot);
        if segment < self.top && host.weight(slot) <= self.share[segment + 1] {
            self.take(host, slot, Work::Delink);
            self.push(host, segment + 1, slot);
            self.settle(host, segment + 1);
        } else if self.lists.head(segment) != Some(slot) {
            self.lists.move_to_head(segment, slot);
            host.count(Work::Delink, 1);
            host.count(Work::Head, 1);
        }
    }

    #[inline]
    fn miss(&mut self, _host: &mut impl Host<()>, _hash: u64, _weight: u64) {}

    #[inline]
    fn evict(&mut self, host: &mut impl Host<()>, _incoming: Option<&Incoming<()>>) -> Eviction {
        self.filling = false;
        if self.shrunk {
            self.shrunk = false;
            self.settle(host, self.top);
        }
        let Some(victim) = (0..=self.top).find_map(|segment| self.lists.tail(segment)) else {
            return Eviction::Empty;
        };
        self.take(host, victim, Work::Tail);
        Eviction::Victim(victim)
    }

    #[inline]
    fn insert(&mut self, host: &mut impl Host<()>, slot: Slot, _incoming: Incoming<()>) {
        if slot.index() >= self.segment_of.len() {
            self.segment_of.resize(slot.index() + 1, 0);
        }
        let mut segment = 0;
        if self.filling {
            let weight = host.weight(slot);
            let has_room = |&segment: &usize| self.weight[segment] + weight <= self.share[segment];
            segment = (0..=self.top).find(has_room).unwrap_or(0);
        }
        self.push(host, segment, slot);
    }

    fn remove(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.take(host, slot, Work::Delink);
    }

    fn reweigh(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let segment = self.segment(slot);
        self.weight[segment] = self.weight[segment] - old_weight + host.weight(slot);
        if segment > 0 && host.weight(slot) > self.share[segment] {
            // Too heavy to stay: it moves down alone, not with all objects behind it.
            self.take(host, slot, Work::Delink);
            self.push(host, 0, slot);
        }
        self.settle(host, segment);
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.filling |= capacity > self.capacity;
        self.shrunk |= capacity < self.capacity;
        self.capacity = capacity;
        let equal = capacity / (self.top as u64 + 1);
        self.share[1..=self.top].fill(equal);
        self.share[0] = capacity - equal * self.top as u64;
    }

    fn coldest_first(&self, _host: &impl Host<()>) -> Vec<Slot> {
        // A surplus entry is at the tail of its segment, and moves to the head of the one below.
        let lists: [usize; FROZEN + Self::MOST_SEGMENTS] = std::array::from_fn(|list| list);
        // Segments above the top are empty.
        self.lists.in_order(&lists)
    }
}

impl HotFirst for Slru {
    fn hottest(&self) -> Option<Slot> {
        self.lists.head_below(self.top + 1)
    }

    fn colder(&self, slot: Slot) -> Option<Slot> {
        self.lists.older(slot).or_else(|| self.lists.head_below(self.segment(slot)))
    }

    fn freeze(&mut self, host: &mut impl Host<()>, slot: Slot) {
        let segment = self.segment(slot);
        self.take(host, slot, Work::Delink);
        self.lists.push_tail(FROZEN + segment, slot);
        self.frozen_weight[segment] += host.weight(slot);
    }

    fn remove_frozen(&mut self, host: &mut impl Host<()>, slot: Slot) {
        self.lists.unlink(slot);
        self.frozen_weight[self.segment(slot)] -= host.weight(slot);
        host.count(Work::Delink, 1);
    }

    fn reweigh_frozen(&mut self, host: &mut impl Host<()>, slot: Slot, old_weight: u64) {
        let weight = &mut self.frozen_weight[usize::from(self.segment_of[slot.index()])];
        *weight = *weight - old_weight + host.weight(slot);
    }

    /// The surplus of a segment moves down when an object next enters it from below.
    fn thaw(&mut self, host: &mut impl Host<()>) {
        for segment in 0..=self.top {
            self.lists.splice_all(FROZEN + segment, segment);
            self.weight[segment] += std::mem::take(&mut self.frozen_weight[segment]);
            host.count(Work::Head, 1);
        }
    }
}
