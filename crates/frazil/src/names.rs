//! The slots that the pins of a thread have shown.
//!
//! A pin keeps what it has shown, and nothing else: so one that is held for long holds up no
//! more than its reader can be looking at, whatever other threads evict meanwhile. A thread
//! names each slot here before it looks at what is in it, and looks again whether the slot is
//! still there, as with a hazard; a slot that is named already may be looked at without that.
//! All names go when the thread's last pin does.
//!
//! Open addressing with linear probing, at most half full. A table that is half full is copied
//! into one 16 times as large, and stays as it is until all names go, so that whoever still
//! looks through it finds what it named. 128 bytes for a thread that pins; 8 to 128 for each
//! slot named at once beyond 16.

use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::fence;
use crate::sync::CHECKED;
use crate::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Words of the first table; a bit of `used` for each.
const FIRST: usize = if CHECKED { 2 } else { 32 };
/// How much larger the next one is, as a power of two.
const STEP_BITS: usize = if CHECKED { 1 } else { 4 };
/// The last has room for twice as many slots as there can be.
const LEVELS: usize = 8;

/// What one thread's pins have shown. Written by that thread alone.
#[derive(Debug)]
pub(crate) struct Names {
    /// The table in use, and its length less one: for the thread itself.
    words: AtomicPtr<AtomicU32>,
    mask: AtomicU32,
    /// Which words of the first table are in use.
    used: AtomicU32,
    /// How many slots are named.
    count: AtomicU32,
    /// Which table is in use: for the others.
    level: AtomicU32,
    /// Made when first needed, and kept.
    tables: OnceLock<Box<Tables>>,
}

type Tables = [OnceLock<Box<[AtomicU32]>>; LEVELS];

impl Default for Names {
    fn default() -> Self {
        Names {
            words: AtomicPtr::new(null_mut()),
            mask: AtomicU32::default(),
            used: AtomicU32::default(),
            count: AtomicU32::default(),
            level: AtomicU32::default(),
            tables: OnceLock::new(),
        }
    }
}

impl Names {
    /// The calling thread, whose names these are, begins to pin.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        if self.words.load(Relaxed).is_null() {
            self.use_table(0);
        }
    }

    /// Uses the table of a level, and says which it is. For the thread itself.
    #[cold]
    fn use_table(&self, level: usize) -> &[AtomicU32] {
        let length = FIRST << (level * STEP_BITS);
        let made = || (0..length).map(|_| AtomicU32::new(0)).collect();
        let table = self.tables.get_or_init(Box::default)[level].get_or_init(made);
        self.words.store(table.as_ptr().cast_mut(), Relaxed);
        self.mask.store(length as u32 - 1, Relaxed);
        table
    }

    /// Whether a slot lies where it is looked for first. For the thread itself, which pins.
    #[inline(always)]
    pub(crate) fn has_at_home(&self, slot: u32) -> bool {
        let at = slot & self.mask.load(Relaxed);
        let words = self.words.load(Relaxed);
        // SAFETY: the thread pins, so `begin` was called, and `use_table` stores where a table
        // of `mask + 1` words is, which is never moved or dropped before these names are.
        unsafe { &*words.add(at as usize) }.load(Relaxed) == slot
    }

    /// Names a slot, which is not 0; what is looked at from here on is looked at later. Whether
    /// it was named already. For the thread itself, which pins.
    #[inline(never)]
    pub(crate) fn add(&self, slot: u32) -> bool {
        let level = self.level.load(Relaxed) as usize;
        let Some(table) = self.table(level) else { return false };
        let count = self.count.load(Relaxed);
        let (at, known) = probe(table, slot);
        if known {
            return true;
        }
        if count as usize >= table.len() / 2 && level + 1 < LEVELS {
            self.grow(level, table);
            return self.add(slot);
        }
        // Before the name, so that who finds none has looked before there was one.
        self.count.store(count + 1, Relaxed);
        if level == 0 {
            self.used.store(self.used.load(Relaxed) | 1 << at, Relaxed);
        }
        // Release: what was read of a slot that had its name in this word before; partner is
        // the Acquire of `contains`.
        table[at].store(slot, Release);
        // Either the look that follows sees that the slot was unlinked, or who reclaims it sees
        // the name. Partner: the heavy fence of `Reclaim::run`.
        fence::light();
        false
    }

    fn table(&self, level: usize) -> Option<&[AtomicU32]> {
        self.tables.get()?.get(level)?.get().map(|table| &**table)
    }

    #[cold]
    fn grow(&self, level: usize, table: &[AtomicU32]) {
        let larger = self.use_table(level + 1);
        for slot in table.iter().map(|word| word.load(Relaxed)).filter(|&slot| slot != 0) {
            larger[probe(larger, slot).0].store(slot, Relaxed);
        }
        // Release: what was copied; partner is the Acquire of `contains`.
        self.level.store(level as u32 + 1, Release);
    }

    /// Forgets all names: the thread has no pin left. Whether there were any.
    #[inline(always)]
    pub(crate) fn clear(&self) -> bool {
        let any = self.count.load(Relaxed) != 0;
        if any {
            self.clear_all();
        }
        any
    }

    #[inline(never)]
    fn clear_all(&self) {
        let level = self.level.load(Relaxed) as usize;
        let mut used = self.used.load(Relaxed);
        if let (0, Some(table)) = (level, self.table(0)) {
            while used != 0 {
                // Release: all that was read; partner is the Acquire of `contains`.
                table[used.trailing_zeros() as usize].store(0, Release);
                used &= used - 1;
            }
        } else {
            let tables = (0..=level).filter_map(|level| self.table(level));
            // Release: as above.
            tables.flatten().for_each(|word| word.store(0, Release));
            self.use_table(0);
        }
        self.used.store(0, Relaxed);
        // Release: as above, for who goes by these alone.
        self.level.store(0, Release);
        self.count.store(0, Release);
    }

    /// Whether the thread may be looking at none. For others, after a heavy fence.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: partner is the Release of `clear_all`.
        self.count.load(Acquire) == 0
    }

    /// Whether the thread may be looking at a slot that was unlinked before a heavy fence. For
    /// others, after that.
    pub(crate) fn contains(&self, slot: u32) -> bool {
        // Acquire: partner is the Release of `grow`. A table that is out of use by now has the
        // names that were there when it was left, and later ones are too late.
        let Some(table) = self.table(self.level.load(Acquire) as usize) else { return false };
        probe(table, slot).1
    }

    /// How many slots are named.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let tables = self.tables.get().into_iter();
        tables
            .map(|tables| {
                let made = tables.iter().filter_map(OnceLock::get);
                size_of::<Tables>() + made.map(|table| size_of_val(&**table)).sum::<usize>()
            })
            .sum()
    }
}

/// Where a slot is in a table, or where it would be, and whether it is there. O(1): at least half
/// of the words are 0.
fn probe(table: &[AtomicU32], slot: u32) -> (usize, bool) {
    let mask = table.len() - 1;
    let mut at = slot as usize & mask;
    for _ in 0..table.len() {
        // Acquire: partner is the Release of `clear_all`; who no longer finds a name sees that
        // what was read under it was read before.
        match table[at].load(Acquire) {
            0 => break,
            found if found == slot => return (at, true),
            _ => at = (at + 1) & mask,
        }
    }
    (at, false)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_found_until_all_is_cleared() {
        let names = Names::default();
        for most in [1, 16, 17, 600, 10_000] {
            names.begin();
            assert!(names.is_empty());
            // Many of them with one home.
            let slots: Vec<u32> =
                (1..=most).map(|slot| if slot % 3 == 0 { slot << 14 } else { slot }).collect();
            for &slot in &slots {
                assert!(!names.contains(slot) && !names.add(slot));
                assert!(names.contains(slot) && names.add(slot));
            }
            assert!(slots.iter().all(|&slot| names.contains(slot)));
            assert_eq!(names.count(), most);
            names.clear();
            assert!(names.is_empty() && !slots.iter().any(|&slot| names.contains(slot)));
        }
    }
}
