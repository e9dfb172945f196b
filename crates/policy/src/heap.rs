//! A binary heap of slots whose keys may change.
//!
//! The heap keeps the place of each slot, so re-keying and removal leave
//! nothing outdated. Key + 4 bytes an object and 4 a slot; O(log n) an
//! operation.

use crate::Slot;
use crate::ranked::lowest_first;

const ABSENT: u32 = u32::MAX;
/// Children of a node. Four lie in one or two lines of memory, and halve the
/// levels.
const ARITY: usize = 4;

/// A heap of slots, the smallest key on top; equal keys by slot.
///
/// ```
/// use frazil_policy::{Slot, SlotHeap};
/// let mut heap = SlotHeap::new();
/// heap.push(Slot(0), 5);
/// heap.push(Slot(1), 3);
/// heap.rekey(Slot(0), 1);
/// assert_eq!(heap.pop(), Some(Slot(0)));
/// heap.remove(Slot(1));
/// assert_eq!(heap.pop(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SlotHeap<K> {
    nodes: Vec<(K, Slot)>,
    places: Vec<u32>,
}

impl<K: Ord + Copy> SlotHeap<K> {
    /// An empty heap.
    pub fn new() -> Self {
        SlotHeap { nodes: Vec::new(), places: Vec::new() }
    }

    /// How many slots it holds.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Levels of the heap: the most steps that one operation takes.
    pub fn depth(&self) -> u32 {
        (usize::BITS - self.nodes.len().leading_zeros()).div_ceil(ARITY.ilog2())
    }

    /// Adds a slot that is not in the heap. Returns the levels walked.
    #[inline]
    pub fn push(&mut self, slot: Slot, key: K) -> u32 {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, ABSENT);
        }
        debug_assert_eq!(self.places[slot.index()], ABSENT);
        self.nodes.push((key, slot));
        self.sift_up(self.nodes.len() - 1)
    }

    /// Changes the key of a slot in the heap. Returns the levels walked.
    #[inline]
    pub fn rekey(&mut self, slot: Slot, key: K) -> u32 {
        let place = self.places[slot.index()] as usize;
        let old = std::mem::replace(&mut self.nodes[place].0, key);
        if key < old { self.sift_up(place) } else { self.sift_down(place) }
    }

    /// Changes all keys. Leaves the slots in order, which is also the order in
    /// which the next call asks for keys. O(n log n).
    pub fn rekey_all(&mut self, mut key: impl FnMut(Slot) -> K) {
        for node in &mut self.nodes {
            node.0 = key(node.1);
        }
        self.nodes.sort_unstable();
        for (place, node) in self.nodes.iter().enumerate() {
            self.places[node.1.index()] = place as u32;
        }
    }

    /// Takes a slot out of the heap. Returns the levels walked.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> u32 {
        let place = self.places[slot.index()] as usize;
        self.places[slot.index()] = ABSENT;
        let removed = self.nodes.swap_remove(place);
        match self.nodes.get(place) {
            None => 1,
            Some(moved) if *moved < removed => self.sift_up(place),
            Some(_) => self.sift_down(place),
        }
    }

    /// The smallest key and its slot.
    #[inline]
    pub fn peek(&self) -> Option<(K, Slot)> {
        self.nodes.first().copied()
    }

    /// All slots in the order of another key, which may be derived from their own; equal
    /// ones by slot. O(n log n).
    pub fn sorted_by<R: Into<u128>>(&self, key: impl Fn(K, Slot) -> R) -> Vec<Slot> {
        lowest_first(self.nodes.iter().map(|&(own, slot)| (key(own, slot).into(), slot)).collect())
    }

    /// Takes out the slot with the smallest key.
    #[inline]
    pub fn pop(&mut self) -> Option<Slot> {
        let (_, slot) = self.peek()?;
        self.remove(slot);
        Some(slot)
    }

    #[inline]
    fn settle(&mut self, place: usize, node: (K, Slot)) {
        self.nodes[place] = node;
        self.places[node.1.index()] = place as u32;
    }

    #[inline]
    fn sift_up(&mut self, mut place: usize) -> u32 {
        let node = self.nodes[place];
        let mut levels = 1;
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.nodes[parent] <= node {
                break;
            }
            self.settle(place, self.nodes[parent]);
            place = parent;
            levels += 1;
        }
        self.settle(place, node);
        levels
    }

    #[inline]
    fn sift_down(&mut self, mut place: usize) -> u32 {
        let node = self.nodes[place];
        let mut levels = 1;
        while let Some((child, least)) = self.least_child(place) {
            if node <= least {
                break;
            }
            self.settle(place, least);
            place = child;
            levels += 1;
        }
        self.settle(place, node);
        levels
    }

    #[inline]
    fn least_child(&self, place: usize) -> Option<(usize, (K, Slot))> {
        let first = ARITY * place + 1;
        let end = (first + ARITY).min(self.nodes.len());
        let children = self.nodes.get(first..end)?;
        let (mut at, mut least) = (0, *children.first()?);
        for (other, child) in children.iter().enumerate().skip(1) {
            if *child < least {
                (at, least) = (other, *child);
            }
        }
        Some((first + at, least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn equals_an_ordered_set(steps in prop::collection::vec((0u8..5, 0u32..20, 0u32..9), 0..400)) {
            let mut heap = SlotHeap::new();
            let mut model: BTreeSet<(u32, Slot)> = BTreeSet::new();
            for (step, slot, key) in steps {
                let slot = Slot(slot);
                let known = model.iter().copied().find(|&(_, s)| s == slot);
                match (step, known) {
                    (0, None) => { heap.push(slot, key); model.insert((key, slot)); }
                    (1, Some(old)) => { heap.rekey(slot, key); model.remove(&old); model.insert((key, slot)); }
                    (2, Some(old)) => { heap.remove(slot); model.remove(&old); }
                    (3, _) => prop_assert_eq!(heap.pop(), model.pop_first().map(|(_, s)| s)),
                    (4, _) => {
                        heap.rekey_all(|slot| slot.0 * key % 7);
                        model = model.into_iter().map(|(_, s)| (s.0 * key % 7, s)).collect();
                    }
                    _ => {}
                }
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }
}
