//! A set of slots for random draws, for sampling policies.
//!
//! A [`SampleTable`] without data for its slots. 8 bytes a slot; all operations
//! O(1).

use crate::{Rng, SampleTable, Slot};

/// An unordered set of slots.
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
    table: SampleTable<()>,
}

impl SlotPool {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many slots it holds.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Adds a slot that is not in the set.
    #[inline]
    pub fn insert(&mut self, slot: Slot) {
        self.table.insert(slot, ());
    }

    /// Takes out a slot that is in the set.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        self.table.remove(slot);
    }

    /// All slots by rank: [`SampleTable::ranked`].
    pub fn ranked<R: Into<u128>>(&self, rank: impl Fn(Slot) -> R) -> Vec<Slot> {
        self.table.ranked(|slot, ()| rank(slot))
    }

    /// A slot at random, each equally likely; `None` from an empty set.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> Option<Slot> {
        let len = self.table.len() as u64;
        (len > 0).then(|| self.table.at(rng.below(len) as usize).0)
    }
}
