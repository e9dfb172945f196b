//! Ghosts: hashes of objects evicted not long ago, oldest forgotten first.
//!
//! A ring holds the hashes in order with their weights; an open-addressing table
//! of `(low half of the hash, place in the ring)` finds them, so that half must be well
//! mixed. A look-up touches
//! one line of the table, and the ring only where the half hash agrees, so an
//! answer is exact up to 64-bit collisions. 16 bytes an entry in the ring, beside
//! what the policy notes with it, and 16 to 32 in the table; all operations O(1)
//! amortised.

use std::collections::VecDeque;

const VACANT: u64 = u64::MAX;
const SMALLEST_TABLE: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    hash: u64,
    /// 0 once it has been removed.
    weight: u64,
    note: T,
}

/// A FIFO set of hashes, bounded by weight. With each hash goes a note of type
/// `T`, where the policy has one to make.
///
/// ```
/// use frazil_policy::Ghost;
/// let mut ghost = Ghost::new(2);
/// ghost.insert(10, 1);
/// ghost.insert(11, 1);
/// ghost.insert(12, 1); // 10 is forgotten
/// assert!(!ghost.remove(10));
/// assert!(ghost.remove(11));
/// assert!(!ghost.remove(11));
///
/// let mut times = Ghost::new(2);
/// times.insert_noted(20, 1, 1_000_u64);
/// assert_eq!(times.take(20), Some(1_000));
/// ```
#[derive(Clone, Debug)]
pub struct Ghost<T = ()> {
    ring: VecDeque<Entry<T>>,
    /// Number of the ring's front entry; numbers wrap.
    front: u32,
    /// `hash as u32` above, the entry's number below, or [`VACANT`].
    table: Vec<u64>,
    live: usize,
    weight: u64,
    capacity: u64,
}

impl Ghost {
    /// Remembers `hash`, which is not in the set, as the newest: [`Ghost::insert_noted`].
    #[inline]
    pub fn insert(&mut self, hash: u64, weight: u64) {
        self.insert_noted(hash, weight, ());
    }
}

impl<T: Copy> Ghost<T> {
    /// An empty set that holds hashes up to a total weight of `capacity`.
    pub fn new(capacity: u64) -> Self {
        Ghost {
            ring: VecDeque::new(),
            front: 0,
            table: vec![VACANT; SMALLEST_TABLE],
            live: 0,
            weight: 0,
            capacity,
        }
    }

    /// How many hashes it holds.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The weight of all that it holds. What weighs 0 counts as 1.
    #[inline]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Forgets the oldest down to a new capacity.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        while self.weight > capacity {
            self.remove_oldest();
        }
    }

    /// Remembers `hash`, which is not in the set, and a note as the newest.
    ///
    /// Policies look a hash up at the miss and so take it out; looking again here
    /// would cost S3-FIFO a tenth of its instructions. A hash that is there all the
    /// same is there twice until it is removed twice or forgotten.
    #[inline]
    pub fn insert_noted(&mut self, hash: u64, weight: u64, note: T) {
        // 0 marks the removed; an object without weight still takes an entry.
        let weight = weight.max(1);
        if weight > self.capacity {
            return;
        }
        while self.weight > self.capacity - weight {
            self.remove_oldest();
        }
        if self.ring.len() >= 2 * self.live + SMALLEST_TABLE {
            self.compact();
        }
        if 2 * (self.live + 1) > self.table.len() {
            self.rebuild_table(self.table.len() * 2);
        }
        let mut number = self.front.wrapping_add(self.ring.len() as u32);
        if number == u32::MAX {
            // With a half hash of all ones this number would read as VACANT.
            self.compact();
            number = self.ring.len() as u32;
        }
        self.ring.push_back(Entry { hash, weight, note });
        self.place(hash, number);
        self.live += 1;
        self.weight += weight;
    }

    /// Forgets `hash`. True if it was there.
    #[inline]
    pub fn remove(&mut self, hash: u64) -> bool {
        self.take(hash).is_some()
    }

    /// Forgets `hash` and returns its note, if it was there.
    #[inline]
    pub fn take(&mut self, hash: u64) -> Option<T> {
        let mask = self.table.len() - 1;
        let mut at = hash as u32 as usize & mask;
        loop {
            let word = self.table[at];
            if word == VACANT {
                return None;
            }
            if (word >> 32) as u32 == hash as u32 {
                let place = (word as u32).wrapping_sub(self.front) as usize;
                if self.ring[place].hash == hash {
                    self.weight -= self.ring[place].weight;
                    self.ring[place].weight = 0;
                    self.live -= 1;
                    self.vacate(at);
                    return Some(self.ring[place].note);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Forgets the oldest. False if there was none.
    #[inline]
    pub fn remove_oldest(&mut self) -> bool {
        while let Some(entry) = self.ring.pop_front() {
            let number = self.front;
            self.front = self.front.wrapping_add(1);
            if entry.weight > 0 {
                self.weight -= entry.weight;
                self.live -= 1;
                let mask = self.table.len() - 1;
                let mut at = entry.hash as u32 as usize & mask;
                while self.table[at] as u32 != number {
                    at = (at + 1) & mask;
                }
                self.vacate(at);
                return true;
            }
        }
        false
    }

    #[inline]
    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.table.len() - 1;
        let mut at = hash as u32 as usize & mask;
        while self.table[at] != VACANT {
            at = (at + 1) & mask;
        }
        self.table[at] = (hash << 32) | u64::from(number);
    }

    /// Empties a place and closes the gap: entries behind it that would no
    /// longer be found from their home move up.
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

    /// Drops the removed from the ring, and numbers the rest anew from 0.
    fn compact(&mut self) {
        self.ring.retain(|entry| entry.weight > 0);
        self.front = 0;
        // As small as what is left allows, or a ghost that was large once would stay slow.
        self.rebuild_table((4 * (self.live + 1)).next_power_of_two().max(SMALLEST_TABLE));
    }

    fn rebuild_table(&mut self, size: usize) {
        self.table.clear();
        self.table.resize(size, VACANT);
        for place in 0..self.ring.len() {
            let Entry { hash, weight, .. } = self.ring[place];
            if weight > 0 {
                self.place(hash, self.front.wrapping_add(place as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain deque of pairs, over few hashes so that homes collide.
        #[test]
        fn equals_a_deque(
            capacity in 1u64..40,
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..5), 0..600),
        ) {
            let mut ghost = Ghost::new(capacity);
            let mut model: VecDeque<(u64, u64)> = VecDeque::new();
            for (insert, id, weight) in steps {
                // Low halves agree for ids 16 apart: the ring must decide.
                let hash = (id << 32) | (id % 16);
                let known = model.iter().position(|&(h, _)| h == hash);
                if let Some(place) = known.filter(|_| !insert || weight < 4) {
                    model.remove(place);
                }
                if insert && weight == 4 {
                    prop_assert_eq!(ghost.remove_oldest(), model.pop_front().is_some());
                } else if insert {
                    ghost.remove(hash);
                    ghost.insert(hash, weight);
                    if weight.max(1) <= capacity {
                        model.push_back((hash, weight.max(1)));
                    }
                    while model.iter().map(|&(_, w)| w).sum::<u64>() > capacity {
                        model.pop_front();
                    }
                } else {
                    prop_assert_eq!(ghost.remove(hash), known.is_some());
                }
                prop_assert_eq!(ghost.len(), model.len());
                prop_assert_eq!(ghost.weight(), model.iter().map(|&(_, w)| w).sum::<u64>());
                // What removals leave behind goes with the next insertion.
                let room = 2 * model.len() + SMALLEST_TABLE + 1;
                prop_assert!(!insert || weight == 4 || ghost.ring.len() <= room);
            }
        }
    }

    #[test]
    fn numbers_wrap() {
        let mut ghost = Ghost::new(3);
        ghost.front = u32::MAX - 5;
        for id in 0..20u64 {
            // With this low half, number u32::MAX would read as vacant.
            ghost.insert((id << 32) | 0xffff_ffff, 1);
        }
        assert_eq!(ghost.len(), 3);
        assert!(ghost.remove((19 << 32) | 0xffff_ffff));
        assert!(!ghost.remove((16 << 32) | 0xffff_ffff));
    }

    #[test]
    fn the_heaviest_make_room() {
        let mut ghost = Ghost::new(u64::MAX);
        ghost.insert(1, u64::MAX - 1);
        ghost.insert(2, u64::MAX - 1);
        assert!(!ghost.remove(1) && ghost.remove(2));
    }

    #[test]
    fn a_ghost_that_was_large_is_small_again() {
        let mut ghost = Ghost::new(100_000);
        (0..100_000).for_each(|id| ghost.insert(crate::object_hash(id, 1), 1));
        ghost.set_capacity(8);
        for id in 0..200u64 {
            ghost.insert(id, 1);
            ghost.remove(id);
        }
        assert!(ghost.table.len() <= 128);
    }
}
