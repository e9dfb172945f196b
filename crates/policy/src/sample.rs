//! Residents side by side with what they are judged by: what policies keep that
//! choose victims from a sample.
//!
//! A look at a resident chosen by chance touches one line of memory. The size of
//! `T` + 4 bytes a resident, 4 a slot; all operations O(1).

use crate::Slot;
use crate::ranked::lowest_first;

const ABSENT: u32 = u32::MAX;

/// A set of slots in no order, each with a `T`.
///
/// Victims that came back are set aside: they are in the set, but no candidates until
/// something is inserted or nothing else is left.
///
/// ```
/// use frazil_policy::{SampleTable, Slot};
/// let mut table = SampleTable::new();
/// table.insert(Slot(3), 'a');
/// table.insert(Slot(8), 'b');
/// assert_eq!(table.remove(Slot(3)), 'a');
/// table.set_aside(Slot(3), 'c');
/// assert_eq!(table.candidates(), 1);
/// assert_eq!(table.at(0), (Slot(8), &'b'));
/// assert_eq!(table.candidate(Slot(3)), None);
/// table.remove(Slot(8));
/// assert_eq!(table.candidates(), 1);
/// assert_eq!(table.at(0), (Slot(3), &'c'));
/// ```
#[derive(Clone, Debug)]
pub struct SampleTable<T> {
    /// The candidates, and behind them those set aside.
    entries: Vec<(Slot, T)>,
    /// How many are aside: never all.
    aside: usize,
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
        SampleTable { entries: Vec::new(), aside: 0, places: Vec::new() }
    }

    /// How many slots it holds.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many may be chosen: all but those set aside, or all if that were none.
    #[inline]
    pub fn candidates(&self) -> usize {
        self.entries.len() - self.aside
    }

    /// Adds a slot that is not in the set. All are candidates again.
    #[inline]
    pub fn insert(&mut self, slot: Slot, value: T) {
        self.push(slot, value);
        self.aside = 0;
    }

    /// Adds a slot that is not in the set, aside.
    pub fn set_aside(&mut self, slot: Slot, value: T) {
        self.push(slot, value);
        self.aside = (self.aside + 1) % self.entries.len();
    }

    #[inline]
    fn push(&mut self, slot: Slot, value: T) {
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
        let mut place = self.places[slot.index()] as usize;
        if self.aside > 0 {
            place = self.move_aside(place);
        }
        self.places[slot.index()] = ABSENT;
        let (_, value) = self.entries.swap_remove(place);
        self.settle(place);
        value
    }

    /// Puts whatever is to be removed behind the candidates, and returns its place there.
    #[cold]
    fn move_aside(&mut self, place: usize) -> usize {
        let candidates = self.entries.len() - self.aside;
        if place >= candidates {
            self.aside -= 1;
            return place;
        }
        self.entries.swap(place, candidates - 1);
        self.settle(place);
        if candidates == 1 {
            self.aside = 0;
        }
        candidates - 1
    }

    /// Notes the place of whatever is there.
    #[inline]
    fn settle(&mut self, place: usize) {
        if let Some((moved, _)) = self.entries.get(place) {
            self.places[moved.index()] = place as u32;
        }
    }

    /// What belongs to `slot`; `None` if it is no candidate.
    #[inline]
    pub fn candidate(&self, slot: Slot) -> Option<&T> {
        let place = *self.places.get(slot.index())? as usize;
        let candidates = self.entries.get(..self.entries.len() - self.aside)?;
        candidates.get(place).map(|(_, value)| value)
    }

    /// What belongs to `slot`, which is in the set.
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut T {
        let place = self.places[slot.index()] as usize;
        &mut self.entries[place].1
    }

    /// All slots by rank, the lowest first: the candidates, and then those set aside.
    /// O(n log n).
    pub fn ranked<R: Into<u128>>(&self, rank: impl Fn(Slot, &T) -> R) -> Vec<Slot> {
        let (candidates, aside) = self.entries.split_at(self.candidates());
        let by_rank = |entries: &[(Slot, T)]| {
            let ranks = entries.iter().map(|(slot, value)| (rank(*slot, value).into(), *slot));
            lowest_first(ranks.collect())
        };
        let mut order = by_rank(candidates);
        order.append(&mut by_rank(aside));
        order
    }

    /// A slot and what belongs to it, by its place among the
    /// [`candidates`](Self::candidates). Removal changes places.
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
        /// Against maps of the candidates and of those set aside.
        #[test]
        fn equals_two_maps(steps in prop::collection::vec((0u8..6, 0u32..12), 0..300)) {
            let mut table = SampleTable::new();
            let mut candidates: BTreeMap<Slot, usize> = BTreeMap::new();
            let mut aside = BTreeMap::new();
            for (number, (step, slot)) in steps.into_iter().enumerate() {
                let slot = Slot(slot);
                let known = candidates.get(&slot).or(aside.get(&slot)).copied();
                match (step, known) {
                    (0, None) => {
                        table.insert(slot, number);
                        candidates.append(&mut aside);
                        candidates.insert(slot, number);
                    }
                    (1 | 2, None) => {
                        table.set_aside(slot, number);
                        aside.insert(slot, number);
                    }
                    (3 | 4, Some(value)) => {
                        prop_assert_eq!(table.remove(slot), value);
                        candidates.remove(&slot);
                        aside.remove(&slot);
                    }
                    (5, Some(_)) => {
                        *table.get_mut(slot) = number;
                        candidates.entry(slot).and_modify(|value| *value = number);
                        aside.entry(slot).and_modify(|value| *value = number);
                    }
                    _ => {}
                }
                if candidates.is_empty() {
                    candidates.append(&mut aside);
                }
                prop_assert_eq!(table.candidates(), candidates.len());
                prop_assert_eq!(table.len(), candidates.len() + aside.len());
                let seen: BTreeMap<Slot, usize> =
                    (0..candidates.len()).map(|place| table.at(place)).map(|(s, v)| (s, *v)).collect();
                prop_assert_eq!(&seen, &candidates);
                for slot in (0..12).map(Slot) {
                    prop_assert_eq!(table.candidate(slot), candidates.get(&slot));
                }
            }
        }
    }
}
