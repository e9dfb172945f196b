//! Residents side by side with the data that rank them, for policies that
//! choose victims from a sample.
//!
//! Reading a random resident touches one line of memory. The size of `T` + 4
//! bytes a resident, 4 a slot; all operations O(1).

use crate::Slot;
use crate::ranked::lowest_first;

const ABSENT: u32 = u32::MAX;

/// An unordered set of slots, each with a `T`.
///
/// ```
/// use frazil_policy::{SampleTable, Slot};
/// let mut table = SampleTable::new();
/// table.insert(Slot(3), 'a');
/// table.insert(Slot(8), 'b');
/// assert_eq!(table.remove(Slot(3)), 'a');
/// assert_eq!(table.at(0), (Slot(8), &'b'));
/// assert_eq!(table.get(Slot(3)), None);
/// ```
#[derive(Clone, Debug)]
pub struct SampleTable<T> {
    entries: Vec<(Slot, T)>,
    places: Vec<u32>,
}

impl<T> Default for SampleTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SampleTable<T> {
    /// An empty set.
    pub fn new() -> Self {
        SampleTable { entries: Vec::new(), places: Vec::new() }
    }

    /// How many slots it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a slot that is not in the set.
    #[inline]
    pub fn insert(&mut self, slot: Slot, value: T) {
        if slot.index() >= self.places.len() {
            self.places.resize(slot.index() + 1, ABSENT);
        }
        debug_assert_eq!(self.places[slot.index()], ABSENT);
        self.places[slot.index()] = self.entries.len() as u32;
        self.entries.push((slot, value));
    }

    /// Takes out a slot that is in the set.
    #[inline]
    pub fn remove(&mut self, slot: Slot) -> T {
        let place = self.places[slot.index()] as usize;
        self.places[slot.index()] = ABSENT;
        let (_, value) = self.entries.swap_remove(place);
        if let Some((moved, _)) = self.entries.get(place) {
            self.places[moved.index()] = place as u32;
        }
        value
    }

    /// The record of `slot`; `None` if it is not in the set.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&T> {
        let place = *self.places.get(slot.index())? as usize;
        self.entries.get(place).map(|(_, value)| value)
    }

    /// The record of `slot`, which is in the set.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        let place = self.places[slot.index()] as usize;
        &mut self.entries[place].1
    }

    /// All slots by rank, the lowest first. O(n log n).
    pub fn ranked<R: Into<u128>>(&self, rank: impl Fn(Slot, &T) -> R) -> Vec<Slot> {
        let ranks = self.entries.iter().map(|(slot, value)| (rank(*slot, value).into(), *slot));
        lowest_first(ranks.collect())
    }

    /// A slot and its record, by its place, which is below [`len`](Self::len). Removal
    /// changes places.
    #[inline]
    pub fn at(&self, place: usize) -> (Slot, &T) {
        let (slot, value) = &self.entries[place];
        (*slot, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn equals_a_map(steps in prop::collection::vec((0u8..4, 0u32..12), 0..300)) {
            let mut table = SampleTable::new();
            let mut map: BTreeMap<Slot, usize> = BTreeMap::new();
            for (number, (step, slot)) in steps.into_iter().enumerate() {
                let slot = Slot(slot);
                match (step, map.get(&slot).copied()) {
                    (0 | 1, None) => {
                        table.insert(slot, number);
                        map.insert(slot, number);
                    }
                    (2, Some(value)) => {
                        prop_assert_eq!(table.remove(slot), value);
                        map.remove(&slot);
                    }
                    (3, Some(_)) => {
                        *table.get_mut(slot) = number;
                        map.insert(slot, number);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), map.len());
                let seen: BTreeMap<Slot, usize> =
                    (0..map.len()).map(|place| table.at(place)).map(|(s, v)| (s, *v)).collect();
                prop_assert_eq!(&seen, &map);
                for slot in (0..12).map(Slot) {
                    prop_assert_eq!(table.get(slot), map.get(&slot));
                }
            }
        }
    }
}
