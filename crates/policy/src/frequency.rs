//! Slots by frequency: the order of LFU and its variants, every operation O(1).
//!
//! Each frequency has a ring of its slots in order of arrival, so that among
//! equals the least and the most recently used are neighbours in it. Two levels
//! of bits tell which frequencies are in use; the least is found in at most 17
//! words, after any raises, removals and insertions.
//!
//! Frequencies saturate at 65,535, where order is by recency alone. That bounds
//! the rings' heads to 256 KiB however long the cache runs, and a cache with any
//! turnover evicts far lower frequencies. 12 bytes a slot, 4 for each frequency
//! up to the highest seen, and 8 KiB of bits at most.

use crate::Slot;

const NONE: u32 = u32::MAX;
const WORD: usize = u64::BITS as usize;

#[derive(Clone, Copy, Debug)]
struct Link {
    /// Towards the most recent; from the most recent to the least.
    newer: u32,
    /// Towards the least recent; from the least recent to the most.
    older: u32,
    frequency: u32,
}

/// Slots ordered by frequency, and by recency among equals.
///
/// ```
/// use frazil_policy::{Frequencies, Slot};
/// let mut order = Frequencies::new();
/// for slot in [Slot(0), Slot(1), Slot(2)] {
///     order.insert(slot, 1);
/// }
/// order.raise(Slot(0));
/// assert_eq!(order.least_recent(), Some(Slot(1)));
/// assert_eq!(order.most_recent(), Some(Slot(2)));
/// order.remove(Slot(1));
/// order.remove(Slot(2));
/// assert_eq!(order.least_recent(), Some(Slot(0)));
/// assert_eq!(order.frequency(Slot(0)), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Frequencies {
    links: Vec<Link>,
    /// The most recent slot of each frequency, or [`NONE`].
    newest: Vec<u32>,
    /// A bit for each frequency in use.
    used: Vec<u64>,
    /// A bit for each word of `used` that is not 0.
    summary: [u64; 16],
}

impl Frequencies {
    /// The highest frequency that is counted exactly.
    pub const MAX: u32 = (16 * WORD * WORD) as u32 - 1;

    /// An empty order.
    pub fn new() -> Self {
        Self::default()
    }

    /// The frequency of a slot in the order, or of one just taken out.
    #[inline]
    pub fn frequency(&self, slot: Slot) -> u32 {
        self.links[slot.index()].frequency
    }

    /// Adds a slot that is not in the order, as the most recent of its frequency.
    #[inline]
    pub fn insert(&mut self, slot: Slot, frequency: u32) {
        if slot.index() >= self.links.len() {
            let vacant = Link { newer: NONE, older: NONE, frequency: 0 };
            self.links.resize(slot.index() + 1, vacant);
        }
        self.link(slot, frequency.min(Self::MAX));
    }

    /// Raises a slot's frequency by one and makes it the most recent there.
    #[inline]
    pub fn raise(&mut self, slot: Slot) {
        let frequency = self.links[slot.index()].frequency;
        self.remove(slot);
        self.link(slot, (frequency + 1).min(Self::MAX));
    }

    /// Takes a slot out of the order.
    #[inline]
    pub fn remove(&mut self, slot: Slot) {
        let Link { newer, older, frequency } = self.links[slot.index()];
        if older == slot.0 {
            self.newest[frequency as usize] = NONE;
            self.mark_unused(frequency as usize);
            return;
        }
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
        if self.newest[frequency as usize] == slot.0 {
            self.newest[frequency as usize] = older;
        }
    }

    /// The least recently used of the slots with the lowest frequency.
    #[inline]
    pub fn least_recent(&self) -> Option<Slot> {
        let newest = self.most_recent()?;
        Some(Slot(self.links[newest.index()].newer))
    }

    /// The most recently used of the slots with the lowest frequency.
    #[inline]
    pub fn most_recent(&self) -> Option<Slot> {
        let group = self.summary.iter().position(|&words| words != 0)?;
        let word = group * WORD + self.summary[group].trailing_zeros() as usize;
        let frequency = word * WORD + self.used[word].trailing_zeros() as usize;
        Some(Slot(self.newest[frequency]))
    }

    /// All slots by frequency, the lowest first; among equals the least recently used
    /// first. O(n + highest frequency so far).
    pub fn least_recent_first(&self) -> Vec<Slot> {
        self.in_rings(|newest| self.links[newest as usize].newer, |link| link.newer)
    }

    /// All slots by frequency, the lowest first; among equals the most recently used
    /// first. O(n + highest frequency so far).
    pub fn most_recent_first(&self) -> Vec<Slot> {
        self.in_rings(|newest| newest, |link| link.older)
    }

    /// Walks once round each ring, from the slot that `first` returns for its most recent slot.
    fn in_rings(&self, first: impl Fn(u32) -> u32, next: fn(&Link) -> u32) -> Vec<Slot> {
        let mut order = Vec::new();
        for &newest in self.newest.iter().filter(|&&newest| newest != NONE) {
            let first = first(newest);
            let mut at = first;
            loop {
                order.push(Slot(at));
                at = next(&self.links[at as usize]);
                if at == first {
                    break;
                }
            }
        }
        order
    }

    #[inline]
    fn link(&mut self, slot: Slot, frequency: u32) {
        let place = frequency as usize;
        if place >= self.newest.len() {
            self.newest.resize(place + 1, NONE);
            self.used.resize(place / WORD + 1, 0);
        }
        let newest = self.newest[place];
        self.newest[place] = slot.0;
        if newest == NONE {
            self.links[slot.index()] = Link { newer: slot.0, older: slot.0, frequency };
            self.used[place / WORD] |= 1 << (place % WORD);
            self.summary[place / WORD / WORD] |= 1 << (place / WORD % WORD);
            return;
        }
        let oldest = self.links[newest as usize].newer;
        self.links[slot.index()] = Link { newer: oldest, older: newest, frequency };
        self.links[newest as usize].newer = slot.0;
        self.links[oldest as usize].older = slot.0;
    }

    #[inline]
    fn mark_unused(&mut self, place: usize) {
        let word = &mut self.used[place / WORD];
        *word &= !(1 << (place % WORD));
        if *word == 0 {
            self.summary[place / WORD / WORD] &= !(1 << (place / WORD % WORD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `(frequency, slot)`, the least recent first.
    type Model = Vec<(u32, Slot)>;

    fn lowest(model: &Model) -> Vec<Slot> {
        let least = model.iter().map(|&(frequency, _)| frequency).min();
        model.iter().filter(|pair| Some(pair.0) == least).map(|pair| pair.1).collect()
    }

    /// Frequencies on both sides of the words' and groups' borders.
    fn frequency() -> impl Strategy<Value = u32> {
        prop_oneof![1u32..4, 62u32..67, 4094u32..4098, Frequencies::MAX - 2..=u32::MAX]
    }

    proptest! {
        #[test]
        fn equals_a_vector(
            steps in prop::collection::vec((0u8..4, 0u32..12, frequency()), 0..400),
        ) {
            let mut order = Frequencies::new();
            let mut model = Model::new();
            for (step, slot, frequency) in steps {
                let slot = Slot(slot);
                let known = model.iter().position(|pair| pair.1 == slot);
                match (step, known) {
                    (0, None) => {
                        order.insert(slot, frequency);
                        model.push((frequency.min(Frequencies::MAX), slot));
                    }
                    (1 | 2, Some(place)) => {
                        order.raise(slot);
                        let (old, _) = model.remove(place);
                        model.push(((old + 1).min(Frequencies::MAX), slot));
                    }
                    (3, Some(place)) => {
                        order.remove(slot);
                        model.remove(place);
                    }
                    _ => {}
                }
                let lowest = lowest(&model);
                prop_assert_eq!(order.least_recent(), lowest.first().copied());
                prop_assert_eq!(order.most_recent(), lowest.last().copied());
                for &(frequency, slot) in &model {
                    prop_assert_eq!(order.frequency(slot), frequency);
                }
            }
        }
    }
}
