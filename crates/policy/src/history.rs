//! Histories of evictions: ghosts with data of the object.
//!
//! `K` first-in-first-out histories share one table, so one look-up finds which
//! of them remembers a hash. Each is bounded in weight and in entries. The
//! second bound matters if weights are bytes: a history as heavy as the cache
//! could hold far more objects than the cache.
//!
//! Every history is a ring, so recording and forgetting access memory in order. A
//! removed entry leaves a hole, and holes are swept out once they are half of all
//! entries. The table holds `(low half of the hash, number in the ring)`: a
//! look-up that finds nothing touches one line. 16 bytes and the data an entry in
//! the ring, 16 to 32 in the table; with 8 bytes of data, holes and room to grow
//! 84 were measured (`examples/memory.rs`). All operations O(1) amortised.

use std::collections::VecDeque;

const VACANT: u64 = u64::MAX;
const SMALLEST_TABLE: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry<D> {
    hash: u64,
    /// 0 in a hole; an object without weight counts 1.
    weight: u64,
    data: D,
}

#[derive(Debug)]
struct Ring<D> {
    entries: VecDeque<Entry<D>>,
    /// Number of the oldest entry; later entries count up from it.
    front: u32,
    live: usize,
    weight: u64,
    most_weight: u64,
    most_entries: usize,
}

impl<D: Copy> Clone for Ring<D> {
    fn clone(&self) -> Self {
        // Not the clone of a deque, which copies entry by entry and is a lot of code.
        let (one, other) = self.entries.as_slices();
        Ring { entries: [one, other].concat().into(), ..*self }
    }
}

/// `K` histories of evicted objects, each bounded by weight and number.
///
/// ```
/// use frazil_policy::History;
/// let mut history = History::<2, char>::new();
/// history.set_limits(0, 2, 9); // at most a weight of 2, or 9 entries
/// history.record(0, 10, 1, 'a');
/// history.record(0, 11, 1, 'b');
/// history.record(0, 12, 1, 'c');
/// assert_eq!(history.forget_surplus(0), Some('a'));
/// assert_eq!(history.forget_surplus(0), None);
/// assert_eq!(history.take(11), Some((0, 'b')));
/// assert_eq!(history.take(11), None);
/// ```
#[derive(Clone, Debug)]
pub struct History<const K: usize, D: Copy> {
    rings: [Ring<D>; K],
    /// `hash as u32` above, below it `number * K + ring`; or [`VACANT`].
    table: Vec<u64>,
}

impl<const K: usize, D: Copy> Default for History<K, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const K: usize, D: Copy> History<K, D> {
    /// Numbers below this leave room for the ring beside them.
    const NUMBERS: u32 = u32::MAX / K as u32;

    /// Empty histories that hold nothing until their limits are set.
    pub fn new() -> Self {
        let ring = |_| Ring {
            entries: VecDeque::new(),
            front: 0,
            live: 0,
            weight: 0,
            most_weight: 0,
            most_entries: 0,
        };
        History { rings: std::array::from_fn(ring), table: vec![VACANT; SMALLEST_TABLE] }
    }

    /// How many entries history `ring` holds.
    pub fn len(&self, ring: usize) -> usize {
        self.rings[ring].live
    }

    /// Whether history `ring` holds nothing.
    pub fn is_empty(&self, ring: usize) -> bool {
        self.rings[ring].live == 0
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        let entries: usize = self.rings.iter().map(|ring| ring.entries.capacity()).sum();
        entries * size_of::<Entry<D>>() + self.table.capacity() * size_of::<u64>()
    }

    /// Sets the limits of history `ring`. [`Self::forget_surplus`] removes the
    /// surplus.
    #[inline]
    pub fn set_limits(&mut self, ring: usize, weight: u64, entries: usize) {
        self.rings[ring].most_weight = weight;
        self.rings[ring].most_entries = entries;
    }

    /// Remembers a hash that no history holds as the newest of `ring`. [`Self::forget_surplus`]
    /// removes the surplus. False if `ring` cannot hold this hash even alone.
    #[inline]
    pub fn record(&mut self, ring: usize, hash: u64, weight: u64, data: D) -> bool {
        let weight = weight.max(1);
        if weight > self.rings[ring].most_weight || self.rings[ring].most_entries == 0 {
            return false;
        }
        let live: usize = self.rings.iter().map(|ring| ring.live).sum();
        if 2 * (live + 1) > self.table.len() {
            self.rebuild_table(2 * self.table.len());
        }
        let len = self.rings[ring].entries.len();
        let holes = len - self.rings[ring].live;
        if holes > live / 2 + SMALLEST_TABLE || self.rings[ring].front >= Self::NUMBERS - len as u32
        {
            self.sweep(ring);
        }
        let to = &mut self.rings[ring];
        let number = to.front + to.entries.len() as u32;
        to.entries.push_back(Entry { hash, weight, data });
        to.weight += weight;
        to.live += 1;
        self.settle(hash, number * K as u32 + ring as u32);
        true
    }

    /// The weight of history `ring`. A weight of 0 counts as 1.
    #[inline]
    pub fn weight(&self, ring: usize) -> u64 {
        self.rings[ring].weight
    }

    /// Forgets the oldest of `ring` if it exceeds its bound. Returns the forgotten record, `None`
    /// once all fits.
    #[inline]
    pub fn forget_surplus(&mut self, ring: usize) -> Option<D> {
        let from = &self.rings[ring];
        let surplus = from.weight > from.most_weight || from.live > from.most_entries;
        if surplus { self.forget_oldest(ring) } else { None }
    }

    /// Forgets the oldest of `ring`. Returns its record, `None` if there was none.
    #[inline]
    pub fn forget_oldest(&mut self, ring: usize) -> Option<D> {
        let from = &mut self.rings[ring];
        loop {
            let entry = from.entries.pop_front()?;
            let number = from.front;
            from.front += 1;
            if entry.weight > 0 {
                from.weight -= entry.weight;
                from.live -= 1;
                let place = number * K as u32 + ring as u32;
                let mask = self.table.len() - 1;
                let mut at = entry.hash as u32 as usize & mask;
                while self.table[at] as u32 != place {
                    at = (at + 1) & mask;
                }
                self.vacate(at);
                return Some(entry.data);
            }
        }
    }

    /// Forgets `hash`. Returns the history that remembered it, and its data.
    #[inline]
    pub fn take(&mut self, hash: u64) -> Option<(usize, D)> {
        let mask = self.table.len() - 1;
        let mut at = hash as u32 as usize & mask;
        loop {
            let word = self.table[at];
            if word == VACANT {
                return None;
            }
            if (word >> 32) as u32 == hash as u32 {
                let (number, ring) = (word as u32 / K as u32, word as usize % K);
                let from = &mut self.rings[ring];
                let entry = &mut from.entries[(number - from.front) as usize];
                if entry.hash == hash {
                    from.weight -= entry.weight;
                    from.live -= 1;
                    entry.weight = 0;
                    let data = entry.data;
                    self.vacate(at);
                    return Some((ring, data));
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    fn settle(&mut self, hash: u64, place: u32) {
        let mask = self.table.len() - 1;
        let mut at = hash as u32 as usize & mask;
        while self.table[at] != VACANT {
            at = (at + 1) & mask;
        }
        self.table[at] = (hash << 32) | u64::from(place);
    }

    /// Empties a place of the table and closes the gap: later words that would no
    /// longer be found from their home move up.
    #[inline]
    fn vacate(&mut self, mut gap: usize) {
        let mask = self.table.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let word = self.table[at];
            if word == VACANT {
                break;
            }
            let home = (word >> 32) as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.table[gap] = word;
                gap = at;
            }
        }
        self.table[gap] = VACANT;
    }

    /// Drops the holes of a ring and renumbers the rest from 0.
    #[cold]
    fn sweep(&mut self, ring: usize) {
        self.rings[ring].entries.retain(|entry| entry.weight > 0);
        self.rings[ring].front = 0;
        // As small as its content allows; otherwise a history that was large once would stay slow
        // to sweep.
        let live: usize = self.rings.iter().map(|ring| ring.live).sum();
        self.rebuild_table((3 * live).next_power_of_two().max(SMALLEST_TABLE));
    }

    #[cold]
    fn rebuild_table(&mut self, size: usize) {
        self.table.clear();
        self.table.resize(size, VACANT);
        for ring in 0..K {
            for place in 0..self.rings[ring].entries.len() {
                let Entry { hash, weight, .. } = self.rings[ring].entries[place];
                if weight > 0 {
                    let number = self.rings[ring].front + place as u32;
                    self.settle(hash, number * K as u32 + ring as u32);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `(hash, weight, data)`, the oldest first.
    type Model = [Vec<(u64, u64, u32)>; 2];

    fn take(model: &mut Model, hash: u64) -> Option<(usize, u32)> {
        (0..2).find_map(|ring| {
            let place = model[ring].iter().position(|entry| entry.0 == hash)?;
            Some((ring, model[ring].remove(place).2))
        })
    }

    proptest! {
        /// Against plain vectors, over few hashes so that homes collide; numbers
        /// start close to their limit.
        #[test]
        fn equals_vectors(
            limits in [(0u64..30, 0usize..20), (0u64..30, 0usize..20)],
            steps in prop::collection::vec((0u8..8, 0usize..2, 0u64..60, 0u64..5), 0..600),
            last_numbers in 0u32..100,
        ) {
            let mut history = History::<2, u32>::new();
            let mut model = Model::default();
            let mut limits = limits;
            for (ring, limits) in limits.into_iter().enumerate() {
                history.set_limits(ring, limits.0, limits.1);
                history.rings[ring].front = History::<2, u32>::NUMBERS - last_numbers;
            }
            for (number, (step, ring, id, weight)) in steps.into_iter().enumerate() {
                // Low halves agree for ids 16 apart: the entry must decide.
                let hash = (id << 32) | (id % 16);
                let data = number as u32;
                match step {
                    0..4 => {
                        prop_assert_eq!(history.take(hash), take(&mut model, hash));
                        let weight = weight.max(1);
                        let fits = weight <= limits[ring].0 && limits[ring].1 > 0;
                        prop_assert_eq!(history.record(ring, hash, weight, data), fits);
                        if fits {
                            model[ring].push((hash, weight, data));
                        }
                    }
                    4..7 => prop_assert_eq!(history.take(hash), take(&mut model, hash)),
                    _ => {
                        limits[ring] = (id, weight as usize * 4);
                        history.set_limits(ring, limits[ring].0, limits[ring].1);
                    }
                }
                let (most_weight, most_entries) = limits[ring];
                let held = &mut model[ring];
                while held.iter().map(|entry| entry.1).sum::<u64>() > most_weight
                    || held.len() > most_entries
                {
                    prop_assert_eq!(history.forget_surplus(ring), Some(held.remove(0).2));
                }
                prop_assert_eq!(history.forget_surplus(ring), None);
                prop_assert_eq!(history.len(ring), held.len());
            }
        }
    }

    #[test]
    fn a_table_that_was_large_is_small_again() {
        let mut history = History::<2, ()>::new();
        history.set_limits(1, 100_000, 100_000);
        for id in 0..100_000 {
            history.record(1, crate::object_hash(id, 1), 1, ());
        }
        history.set_limits(1, 8, 8);
        while history.forget_surplus(1).is_some() {}
        for id in 0..200 {
            history.record(1, crate::object_hash(id, 2), 1, ());
            history.take(crate::object_hash(id, 2));
        }
        assert!(history.table.len() <= 128);
    }

    /// An old entry keeps its place while thousands behind it come and go.
    #[test]
    fn holes_do_not_pile_up() {
        let mut history = History::<2, ()>::new();
        history.set_limits(0, 100, 100);
        history.record(0, u64::MAX, 1, ());
        for hash in 0..10_000 {
            history.record(0, hash, 1, ());
            assert_eq!(history.take(hash), Some((0, ())));
            assert!(history.rings[0].entries.len() <= 2 * SMALLEST_TABLE);
        }
        assert_eq!(history.take(u64::MAX), Some((0, ())));
    }
}
