//! Object ids to dense numbers, in order of first appearance.
//!
//! Dense numbers let every policy index arrays instead of hashing, which makes a replay 1.3 to 3
//! times as fast; this is the only hash table left. Its slots hold only numbers, and a look-up
//! compares ids in the list from numbers to ids. So an object takes 6 to 13 bytes in the table, and
//! 8 in that list. The table probes linearly, with foldhash seeded at random, so that no file can
//! force collisions.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

use super::Record;

/// Most objects a trace may have; policies use the two numbers above as marks.
const MAX_OBJECTS: usize = u32::MAX as usize - 1;
/// Records in a group: all slots are read, then all ids, before any is compared, so that their
/// cache misses overlap.
const LANES: usize = 16;
/// A slot without a number.
const VACANT: u32 = u32::MAX;
/// Initial number of slots; always a power of two.
const SLOTS_MIN: usize = 64;

/// The trace has more objects than dense numbers, or than memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyObjects;

/// The table from ids to dense numbers.
pub(crate) struct Interner {
    /// At most five of eight are in use.
    slots: Vec<u32>,
    state: RandomState,
    /// Id per dense number.
    pub(crate) objects: Vec<u64>,
}

impl Default for Interner {
    fn default() -> Self {
        let slots = vec![VACANT; SLOTS_MIN];
        Interner { slots, state: RandomState::default(), objects: Vec::new() }
    }
}

impl Interner {
    /// Appends the dense number of each record.
    pub(crate) fn intern(
        &mut self,
        records: &[Record],
        dense: &mut Vec<u32>,
    ) -> Result<(), TooManyObjects> {
        for lanes in records.chunks(LANES) {
            let mut hashes = [0; LANES];
            for (hash, record) in hashes.iter_mut().zip(lanes) {
                *hash = self.state.hash_one(record.id);
            }
            let mask = self.slots.len() - 1;
            let numbers = hashes.map(|hash| self.slots[hash as usize & mask]);
            let ids = numbers.map(|number| self.objects.get(number as usize).copied());
            for (at, record) in lanes.iter().enumerate() {
                // The numbers read stay valid if the table has grown since: they do not change.
                let number = match ids[at] == Some(record.id) {
                    true => numbers[at],
                    false => self.number(hashes[at], record.id)?,
                };
                dense.push(number);
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn number(&mut self, hash: u64, id: u64) -> Result<u32, TooManyObjects> {
        let vacant = match find(&self.slots, &self.objects, hash, Some(id)) {
            Ok(number) => return Ok(number),
            Err(vacant) => vacant,
        };
        let number = self.objects.len();
        if number >= MAX_OBJECTS {
            return Err(TooManyObjects);
        }
        self.objects.try_reserve(1).map_err(|_| TooManyObjects)?;
        self.objects.push(id);
        self.slots[vacant] = number as u32;
        if self.objects.len() > self.slots.len() / 8 * 5 {
            self.grow()?;
        }
        Ok(number as u32)
    }

    #[cold]
    fn grow(&mut self) -> Result<(), TooManyObjects> {
        let length = self.slots.len() * 2;
        // The list of ids has everything, so the old table is freed first.
        self.slots = Vec::new();
        if self.slots.try_reserve_exact(length).is_err() {
            self.slots = vec![VACANT; SLOTS_MIN];
            return Err(TooManyObjects);
        }
        self.slots.resize(length, VACANT);
        for (number, &id) in self.objects.iter().enumerate() {
            let hash = self.state.hash_one(id);
            if let Err(vacant) = find(&self.slots, &self.objects, hash, None) {
                self.slots[vacant] = number as u32;
            }
        }
        Ok(())
    }
}

/// The number of an id, or the first vacant slot on its probe path; without an id, that slot.
#[inline]
fn find(slots: &[u32], objects: &[u64], hash: u64, id: Option<u64>) -> Result<u32, usize> {
    let mask = slots.len() - 1;
    let mut at = hash as usize & mask;
    loop {
        let number = slots[at];
        if number == VACANT {
            return Err(at);
        }
        if id.is_some_and(|id| objects[number as usize] == id) {
            return Ok(number);
        }
        at = (at + 1) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance() {
        let records = [7, u64::MAX, 7, 0, 0, u64::MAX].map(|id| Record { id, ..Record::default() });
        let mut interner = Interner::default();
        let mut dense = Vec::new();
        interner.intern(&records, &mut dense).unwrap();
        assert_eq!(dense, [0, 1, 0, 2, 2, 1]);
        assert_eq!(interner.objects, [7, u64::MAX, 0]);
    }

    #[test]
    fn numbers_stay_while_the_table_grows() {
        // Ids recur after a short distance, and the first ones also after the table has grown.
        let ids = (0..50_000_u64).flat_map(|at| [at, at / 2, at, at % 777]);
        let records: Vec<_> =
            ids.map(|at| Record { id: at.wrapping_mul(1 << 40), ..Record::default() }).collect();
        let (mut interner, mut dense) = (Interner::default(), Vec::new());
        for part in records.chunks(77) {
            interner.intern(part, &mut dense).unwrap();
        }
        assert_eq!(dense.len(), records.len());
        for (record, &number) in records.iter().zip(&dense) {
            assert_eq!(interner.objects[number as usize], record.id);
        }
        let distinct: std::collections::HashSet<_> = interner.objects.iter().collect();
        assert_eq!(distinct.len(), interner.objects.len());
    }
}
