//! The frozen table (paper 2, §3.1): keys and values of frozen entries, by hash. One thread
//! fills it, and then all read it; the only later change is the removal of an entry.
//!
//! Open addressing: at most six of ten cells are used, and a key lies in one of [`PROBES_MAX`]
//! cells from its home on. A cell has a tag, half of the hash, and beside it key and value, so a
//! look-up of small ones reads one line or two. O(1); 16 bytes a cell beside key and value, with
//! padding, so that numbers take 53 bytes an entry.
//!
//! Entries that are not in the table are found in the cache. So the table may omit entries
//! without room, and any surplus that a host shows. A key shown twice is taken out twice.

use std::sync::OnceLock;

use crate::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Number of cells used, of ten.
const USED_OF_TEN: usize = 6;
/// Most cells probed. With random hashes a million keys need fewer; the bound is for a hasher
/// that gives many keys the same hash.
const PROBES_MAX: usize = 256;

/// A cell that was never used.
const EMPTY: u32 = 0;
/// The cell of a removed entry.
const GONE: u32 = 1;
/// Set in every tag, so that no tag equals one of these two.
const TAGGED: u32 = 1 << 31;

#[derive(Debug)]
struct Cell<K, V> {
    tag: AtomicU32,
    /// Written before the tag, once.
    pair: OnceLock<(K, V)>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    cells: Box<[Cell<K, V>]>,
    /// How many entries may still be added.
    left: AtomicUsize,
}

impl<K: Eq, V> Cell<K, V> {
    #[inline(always)]
    fn value_of(&self, key: &K) -> Option<&V> {
        self.pair.get().filter(|(found, _)| found == key).map(|(_, value)| value)
    }
}

impl<K: Eq, V> Table<K, V> {
    /// A table for `entries` entries.
    pub(crate) fn new(entries: usize) -> Self {
        let cells = entries.saturating_mul(10).div_ceil(USED_OF_TEN).max(2);
        let cell = |_| Cell { tag: AtomicU32::new(EMPTY), pair: OnceLock::new() };
        Table { cells: (0..cells).map(cell).collect(), left: AtomicUsize::new(entries) }
    }

    /// The value of a key in the table.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<&V> {
        let (mut at, wanted) = self.home(hash);
        for _ in 0..self.probes() {
            let cell = &self.cells[at];
            // Acquire: partners are the Releases of `add` and `take_out`.
            match cell.tag.load(Acquire) {
                EMPTY => return None,
                tag if tag == wanted => {
                    if let Some(value) = cell.value_of(key) {
                        return Some(value);
                    }
                }
                _ => {}
            }
            at = self.after(at);
        }
        None
    }

    /// Removes all copies of a key: later look-ups do not find it.
    pub(crate) fn take_out(&self, hash: u64, key: &K) {
        let (mut at, wanted) = self.home(hash);
        for _ in 0..self.probes() {
            let cell = &self.cells[at];
            // Acquire: the pair. Partner: the Release of `add`.
            match cell.tag.load(Acquire) {
                EMPTY => return,
                tag if tag == wanted && cell.value_of(key).is_some() => {
                    // Release: partner is the Acquire of `find`. A thread that no longer finds the
                    // entry sees the caller's earlier change of the cache.
                    cell.tag.store(GONE, Release);
                }
                _ => {}
            }
            at = self.after(at);
        }
    }

    /// Adds an entry, by one thread. False if there is no room.
    pub(crate) fn add(&self, hash: u64, key: K, value: V) -> bool {
        let Some(left) = self.left.load(Relaxed).checked_sub(1) else { return false };
        let (mut at, tag) = self.home(hash);
        for _ in 0..self.probes() {
            let cell = &self.cells[at];
            if cell.tag.load(Relaxed) == EMPTY {
                if cell.pair.set((key, value)).is_err() {
                    return false;
                }
                self.left.store(left, Relaxed);
                // Release: the pair. Partners: the Acquires of `find` and `take_out`.
                cell.tag.store(tag, Release);
                return true;
            }
            at = self.after(at);
        }
        false
    }

    fn probes(&self) -> usize {
        self.cells.len().min(PROBES_MAX)
    }

    /// The first cell of a hash, by its upper bits, and its tag, from other bits.
    #[inline(always)]
    fn home(&self, hash: u64) -> (usize, u32) {
        let at = (u128::from(hash) * self.cells.len() as u128) >> 64;
        (at as usize, (hash >> 6) as u32 | TAGGED)
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// One home for all keys: the hash distinguishes none.
    const HASH: u64 = 7 << 40;

    #[test]
    fn a_key_that_is_shown_twice_is_taken_out_twice() {
        let table = Table::new(4);
        assert!(
            [(1, 10), (2, 20), (1, 11)].iter().all(|&(key, value)| table.add(HASH, key, value))
        );
        assert_eq!(table.find(HASH, &1), Some(&10));
        table.take_out(HASH, &1);
        assert_eq!((table.find(HASH, &1), table.find(HASH, &2)), (None, Some(&20)));
    }

    #[test]
    fn it_takes_as_many_as_it_has_room_for() {
        let table = Table::new(4);
        let added = (0..9u64).filter(|&key| table.add(key << 60, key, key)).count();
        assert_eq!(added, 4);
        assert_eq!(table.find(9 << 60, &9), None);
        assert!(!Table::new(0).add(HASH, 0, 0));
        // At most as many with the same hash as a look-up reads.
        let table = Table::new(10_000);
        let added = (0..10_000).filter(|&key| table.add(HASH, key, key)).count();
        assert_eq!(added, PROBES_MAX);
        assert!((0..PROBES_MAX as i32).all(|key| table.find(HASH, &key) == Some(&key)));
    }
}
