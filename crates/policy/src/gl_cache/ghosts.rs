//! Ghosts of sampled objects that left their group, each with its sample.

/// Bits of an entry that name the sample, plus one; the others are the hash's.
const SAMPLE_BITS: u32 = 14;
const SAMPLE: u64 = (1 << SAMPLE_BITS) - 1;
const LEAST_ROOM: usize = 64;

/// A set of hashes, each with its sample and the cost of a miss. An entry is one word of 8 bytes, 4
/// more if costs differ, and the table is at most half full. Hashes that agree in the upper 50 bits
/// count as one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ghosts {
    /// Open addressing by the lowest bits of the rest of the hash; 0 is no entry.
    table: Vec<u64>,
    /// Costs by place; empty where all are 1.
    costs: Vec<f32>,
    costs_differ: bool,
    len: usize,
}

impl Ghosts {
    pub(super) fn new(costs_differ: bool) -> Self {
        Ghosts { costs_differ, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Forgets all and frees their memory.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.costs_differ);
    }

    fn home(&self, entry: u64) -> usize {
        (entry >> SAMPLE_BITS) as usize & (self.table.len() - 1)
    }

    /// The place of a hash, or of its insertion. The table has room.
    fn find(&self, hash: u64) -> usize {
        let mut place = self.home(hash);
        while self.table[place] != 0 && (self.table[place] ^ hash) > SAMPLE {
            place = (place + 1) & (self.table.len() - 1);
        }
        place
    }

    /// Adds a hash, or replaces its sample and cost.
    pub(super) fn insert(&mut self, hash: u64, sample: u32, cost: f32) {
        if self.len * 2 >= self.table.len() {
            self.grow();
        }
        let place = self.find(hash);
        self.len += usize::from(self.table[place] == 0);
        self.put(place, (hash & !SAMPLE) | u64::from(sample + 1), cost);
    }

    fn grow(&mut self) {
        let room = (self.table.len() * 2).max(LEAST_ROOM);
        let costs = if self.costs_differ { vec![1.0; room] } else { Vec::new() };
        let old_costs = std::mem::replace(&mut self.costs, costs);
        let old = std::mem::replace(&mut self.table, vec![0; room]);
        for (number, entry) in old.into_iter().enumerate() {
            if entry != 0 {
                let place = self.find(entry);
                self.put(place, entry, old_costs.get(number).copied().unwrap_or(1.0));
            }
        }
    }

    fn put(&mut self, place: usize, entry: u64, cost: f32) {
        self.table[place] = entry;
        if let Some(old) = self.costs.get_mut(place) {
            *old = cost;
        }
    }

    fn cost(&self, place: usize) -> f32 {
        self.costs.get(place).copied().unwrap_or(1.0)
    }

    /// Takes a hash out: its sample and cost, if it was present.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> Option<(u32, f32)> {
        if self.len == 0 {
            return None;
        }
        let mut hole = self.find(hash);
        let found = self.table[hole];
        if found == 0 {
            return None;
        }
        let cost = self.cost(hole);
        // Entries that follow without a gap move up, unless they would come before their home.
        let last = self.table.len() - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & last;
            let entry = self.table[place];
            if entry == 0 {
                break;
            }
            if (place.wrapping_sub(self.home(entry)) & last) >= (place.wrapping_sub(hole) & last) {
                self.put(hole, entry, self.cost(place));
                hole = place;
            }
        }
        self.table[hole] = 0;
        self.len -= 1;
        Some(((found & SAMPLE) as u32 - 1, cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Over few homes, so that runs are long and wrap around.
        #[test]
        fn equals_a_map(
            steps in prop::collection::vec((0u8..3, 0u64..90, 0u32..9), 0..400),
            costs_differ in any::<bool>(),
        ) {
            let mut ghosts = Ghosts::new(costs_differ);
            let mut map = BTreeMap::new();
            for (step, id, sample) in steps {
                let hash = ((id / 3) << 40) | ((60 + id % 3) << SAMPLE_BITS) | (id & 1);
                if step == 0 {
                    let expected = map.remove(&(hash & !SAMPLE));
                    prop_assert_eq!(ghosts.take(hash), expected);
                } else {
                    let cost = if costs_differ { (id + 1) as f32 } else { 1.0 };
                    ghosts.insert(hash, sample, cost);
                    map.insert(hash & !SAMPLE, (sample, cost));
                }
                prop_assert_eq!(ghosts.len(), map.len());
            }
        }
    }
}
