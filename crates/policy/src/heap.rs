//! A binary heap of slots whose keys may change.
//!
//! Each slot's place in the heap is kept, so that re-keying and removal are
//! exact and nothing outdated is left behind. Key + 4 bytes an object and 4 a
//! slot; O(log n) an operation.

use crate::Slot;

const ABSENT: u32 = u32::MAX;

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
        usize::BITS - self.nodes.len().leading_zeros()
    }

    /// Adds a slot that is not in the heap.
    pub fn push(&mut self, slot: Slot, key: K) {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, ABSENT);
        }
        debug_assert_eq!(self.places[slot.index()], ABSENT);
        self.nodes.push((key, slot));
        self.sift_up(self.nodes.len() - 1);
    }

    /// Changes the key of a slot in the heap.
    pub fn rekey(&mut self, slot: Slot, key: K) {
        let place = self.places[slot.index()] as usize;
        self.nodes[place].0 = key;
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    /// Takes a slot out of the heap.
    pub fn remove(&mut self, slot: Slot) {
        let place = self.places[slot.index()] as usize;
        self.places[slot.index()] = ABSENT;
        self.nodes.swap_remove(place);
        if place < self.nodes.len() {
            let place = self.sift_up(place);
            self.sift_down(place);
        }
    }

    /// Takes out the slot with the smallest key.
    pub fn pop(&mut self) -> Option<Slot> {
        let &(_, slot) = self.nodes.first()?;
        self.remove(slot);
        Some(slot)
    }

    fn settle(&mut self, place: usize, node: (K, Slot)) {
        self.nodes[place] = node;
        self.places[node.1.index()] = place as u32;
    }

    fn sift_up(&mut self, mut place: usize) -> usize {
        let node = self.nodes[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.nodes[parent] <= node {
                break;
            }
            self.settle(place, self.nodes[parent]);
            place = parent;
        }
        self.settle(place, node);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        let node = self.nodes[place];
        loop {
            let mut child = 2 * place + 1;
            if child + 1 < self.nodes.len() && self.nodes[child + 1] < self.nodes[child] {
                child += 1;
            }
            if child >= self.nodes.len() || node <= self.nodes[child] {
                break;
            }
            self.settle(place, self.nodes[child]);
            place = child;
        }
        self.settle(place, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn equals_an_ordered_set(steps in prop::collection::vec((0u8..4, 0u32..20, 0u32..9), 0..400)) {
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
                    _ => {}
                }
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }
}
