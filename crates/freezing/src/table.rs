//! The frozen table (paper 2, §3.1): keys and values of what is frozen, by hash. It is filled by one
//! thread and then read by all; what changes later is that an entry is taken out.
//!
//! Open addressing: six of ten cells are used at most. A cell has a tag, half of the hash, and beside
//! it key and value, so that a look-up of small ones reads one line, or the next one too. O(1); 16
//! bytes a cell beside key and value, with padding, so that numbers take 53 bytes an entry.

use std::sync::OnceLock;

use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Of ten cells so many are used.
const USED_OF_TEN: usize = 6;

/// A cell where nobody ever was.
const EMPTY: u32 = 0;
/// That of an entry which was taken out.
const GONE: u32 = 1;
/// Set in every tag, so that none is one of the two.
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
}

impl<K: Eq, V> Table<K, V> {
    /// Room for so many entries.
    pub(crate) fn new(entries: usize) -> Self {
        let cells = entries.saturating_mul(10).div_ceil(USED_OF_TEN).max(2);
        let cell = |_| Cell { tag: AtomicU32::new(EMPTY), pair: OnceLock::new() };
        Table { cells: (0..cells).map(cell).collect() }
    }

    /// The value of a key that is in it.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &K) -> Option<&V> {
        self.seek(hash, key).map(|(_, value)| value)
    }

    /// Takes a key out: who looks for it from here on does not find it. Whether it was there.
    pub(crate) fn take_out(&self, hash: u64, key: &K) -> bool {
        // Release: partner is the Acquire of `seek`. Whoever does not find it any more sees what
        // the caller has done to the cache before.
        self.seek(hash, key).is_some_and(|(cell, _)| cell.tag.swap(GONE, Release) != GONE)
    }

    /// Adds what is not in it, by one thread. False if there is no room.
    pub(crate) fn add(&self, hash: u64, key: K, value: V) -> bool {
        let (mut at, tag) = self.home(hash);
        for _ in 0..self.cells.len() {
            let cell = &self.cells[at];
            if cell.tag.load(Relaxed) == EMPTY {
                if cell.pair.set((key, value)).is_err() {
                    return false;
                }
                // Release: the pair. Partner: the Acquire of `seek`.
                cell.tag.store(tag, Release);
                return true;
            }
            at = self.after(at);
        }
        false
    }

    #[inline(always)]
    fn seek(&self, hash: u64, key: &K) -> Option<(&Cell<K, V>, &V)> {
        let (mut at, wanted) = self.home(hash);
        for _ in 0..self.cells.len() {
            let cell = &self.cells[at];
            // Acquire: partners are the Releases of `add` and `take_out`.
            match cell.tag.load(Acquire) {
                EMPTY => return None,
                tag if tag == wanted => {
                    if let Some((found, value)) = cell.pair.get()
                        && found == key
                    {
                        return Some((cell, value));
                    }
                }
                _ => {}
            }
            at = self.after(at);
        }
        None
    }

    /// The first cell that a hash may lie in, which its upper bits decide, and its tag, of others.
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
