//! What becomes of sampled objects after they left their group: to which sample each belongs.

/// Bits of an entry that name the sample, plus one; the others are the hash's.
const SAMPLE_BITS: u32 = 14;
const SAMPLE: u64 = (1 << SAMPLE_BITS) - 1;
const LEAST_ROOM: usize = 64;

/// A set of hashes, each with its sample. An entry is one word of 8 bytes, and the table is at
/// most half full. Hashes that agree in the upper 50 bits are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ghosts {
    /// Open addressing by the lowest bits of the rest of the hash; 0 is no entry.
    table: Vec<u64>,
    len: usize,
}

impl Ghosts {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Forgets all, and gives their memory back.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn home(&self, entry: u64) -> usize {
        (entry >> SAMPLE_BITS) as usize & (self.table.len() - 1)
    }

    /// Where a hash is, or where it would be put. The table has room.
    fn find(&self, hash: u64) -> usize {
        let mut place = self.home(hash);
        while self.table[place] != 0 && (self.table[place] ^ hash) > SAMPLE {
            place = (place + 1) & (self.table.len() - 1);
        }
        place
    }

    /// Adds a hash, or gives it another sample.
    pub(super) fn insert(&mut self, hash: u64, sample: u32) {
        if self.len * 2 >= self.table.len() {
            let room = (self.table.len() * 2).max(LEAST_ROOM);
            for entry in std::mem::replace(&mut self.table, vec![0; room]) {
                if entry != 0 {
                    let place = self.find(entry);
                    self.table[place] = entry;
                }
            }
        }
        let place = self.find(hash);
        self.len += usize::from(self.table[place] == 0);
        self.table[place] = (hash & !SAMPLE) | u64::from(sample + 1);
    }

    /// Takes a hash out: its sample, if it was there.
    #[inline]
    pub(super) fn take(&mut self, hash: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut hole = self.find(hash);
        let found = self.table[hole];
        if found == 0 {
            return None;
        }
        // What follows without a gap moves up, unless it would come before its home.
        let last = self.table.len() - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & last;
            let entry = self.table[place];
            if entry == 0 {
                break;
            }
            if (place.wrapping_sub(self.home(entry)) & last) >= (place.wrapping_sub(hole) & last) {
                self.table[hole] = entry;
                hole = place;
            }
        }
        self.table[hole] = 0;
        self.len -= 1;
        Some((found & SAMPLE) as u32 - 1)
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
        fn equals_a_map(steps in prop::collection::vec((0u8..3, 0u64..90, 0u32..9), 0..400)) {
            let mut ghosts = Ghosts::default();
            let mut map = BTreeMap::new();
            for (step, id, sample) in steps {
                let hash = ((id / 3) << 40) | ((60 + id % 3) << SAMPLE_BITS) | (id & 1);
                if step == 0 {
                    let expected = map.remove(&(hash & !SAMPLE));
                    prop_assert_eq!(ghosts.take(hash), expected);
                } else {
                    ghosts.insert(hash, sample);
                    map.insert(hash & !SAMPLE, sample);
                }
                prop_assert_eq!(ghosts.len(), map.len());
            }
        }
    }
}
