//! A set of slots from which chance can choose: what sampling policies keep.
//!
//! 8 bytes a slot; all operations O(1).

use crate::{Rng, Slot};

const ABSENT: u32 = u32::MAX;

/// A set of slots in no order.
///
/// ```
/// use frazil_policy::{Rng, Slot, SlotPool};
/// let mut pool = SlotPool::new();
/// pool.insert(Slot(3));
/// pool.insert(Slot(8));
/// pool.remove(Slot(3));
/// assert_eq!(pool.choose(&mut Rng::new(1)), Some(Slot(8)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SlotPool {
    slots: Vec<Slot>,
    places: Vec<u32>,
}

impl SlotPool {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many slots it holds.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a slot that is not in the set.
    #[inline]
    pub fn insert(&mut self, slot: Slot) {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, ABSENT);
        }
        debug_assert_eq!(self.places[slot.index()], ABSENT);
        self.places[slot.index()] = self.slots.len() as u32;
        self.slots.push(slot);
    }

    /// Takes out a slot that is in the set.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        let place = self.places[slot.index()] as usize;
        self.places[slot.index()] = ABSENT;
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places[moved.index()] = place as u32;
        }
    }

    /// A slot at random, each equally likely; `None` from an empty set.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> Option<Slot> {
        let len = self.slots.len() as u64;
        (len > 0).then(|| self.slots[rng.below(len) as usize])
    }
}
