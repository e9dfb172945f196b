//! Object ids to dense numbers, in order of first appearance.
//!
//! Dense numbers let every policy index arrays instead of hashing, which makes
//! a replay 1.3 to 3 times as fast; the one hash table that is left is this.
//! It is hashbrown's with foldhash, seeded at random so that no file can be
//! made to collide. A record costs one probe; an object 17 to 34 bytes in the
//! table, and 8 in the list that leads back to its id.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::Record;

/// Most objects a trace may have; the two numbers above are left to policies as marks.
const MAX_OBJECTS: usize = u32::MAX as usize - 1;
/// Records hashed before any is looked up: the look-ups' cache misses then overlap.
const LANES: usize = 16;

/// The trace has more objects than dense numbers, or than memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyObjects;

/// The table from ids to dense numbers.
#[derive(Default)]
pub(crate) struct Interner {
    table: HashTable<(u64, u32)>,
    state: RandomState,
    /// Id per dense number.
    pub(crate) objects: Vec<u64>,
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
            for (&hash, record) in hashes.iter().zip(lanes) {
                dense.push(self.number(hash, record.id)?);
            }
        }
        Ok(())
    }

    #[inline]
    fn number(&mut self, hash: u64, id: u64) -> Result<u32, TooManyObjects> {
        match self.table.find(hash, |entry| entry.0 == id) {
            Some(entry) => Ok(entry.1),
            None => self.add(hash, id),
        }
    }

    #[cold]
    fn add(&mut self, hash: u64, id: u64) -> Result<u32, TooManyObjects> {
        let number = self.objects.len();
        if number >= MAX_OBJECTS {
            return Err(TooManyObjects);
        }
        let Self { table, state, .. } = self;
        let rehash = |entry: &(u64, u32)| state.hash_one(entry.0);
        table.try_reserve(1, rehash).map_err(|_| TooManyObjects)?;
        self.objects.try_reserve(1).map_err(|_| TooManyObjects)?;
        table.insert_unique(hash, (id, number as u32), rehash);
        self.objects.push(id);
        Ok(number as u32)
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
}
