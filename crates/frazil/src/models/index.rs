//! The index: two threads that admit one key do not both believe they were alone, and no look-up
//! misses a key while the table grows.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::together;
use crate::core::index::{Index, Seen};
use crate::smr::fence;
use crate::smr::protect::{Hazard, Protect};
use crate::smr::stripe::Stripes;
use crate::sync::atomic::{AtomicU32, Ordering::Acquire};

/// The hash of the key in question, and of one whose tag differs.
const HASH: u64 = 7;
const OTHER: u64 = 8;

/// An index whose table has words for `slots` slots.
fn with_room(slots: u32) -> Index {
    let index = Index::new(slots.into());
    while index.limits(slots.into(), slots).1 < slots {
        index.grow(index.larger(slots.into(), slots));
    }
    // Made before the threads begin: loom does not know who makes a chunk.
    (1..=slots).for_each(|slot| index.note(index.mix(HASH), slot));
    index
}

/// Admits `slot`; returns whether no other word can be of the same key.
fn admit(index: &Index, slot: u32) -> bool {
    let mixed = index.mix(HASH);
    index.note(mixed, slot);
    let own = index.home(mixed).admit(slot).expect("there is room");
    index.home(mixed).is_alone(own)
}

/// The slots that a look-up is shown, in its order.
fn shown(index: &Index) -> Vec<u32> {
    let mut slots = Vec::new();
    let all: Option<()> = index.find(index.mix(HASH), |_, _, slot| {
        slots.push(slot);
        Seen::Other
    });
    assert_eq!(all, None);
    slots
}

/// In different cells, because one finds a cell full that is empty for the other.
#[test]
fn of_two_that_admit_a_key_one_sees_the_other() {
    loom::model(|| {
        let index = Arc::new(with_room(3));
        assert!(index.home(index.mix(OTHER)).admit(3).is_some());
        let after_another_left: fn(&Index) -> bool = |index| {
            assert!(index.unlink(index.mix(OTHER), 3));
            admit(index, 1)
        };
        let alone = together(&index, &[after_another_left, |index| admit(index, 2)]);
        assert_ne!(alone, [true, true]);
        let mut slots = shown(&index);
        slots.sort_unstable();
        assert_eq!(slots, [1, 2]);
    });
}

/// A removal and a replacement of one word: one of them ends the residency.
#[test]
fn a_residency_ends_once() {
    loom::model(|| {
        let index = Arc::new(with_room(2));
        admit(&index, 1);
        let remove: fn(&Index) -> bool = |index| index.unlink(index.mix(HASH), 1);
        let replace: fn(&Index) -> bool = |index| {
            let mixed = index.mix(HASH);
            let first = |cell, word, _| Seen::Match((cell, word));
            let found = index.find(mixed, first);
            found.is_some_and(|(cell, word)| index.replace(mixed, cell, word, 2))
        };
        let ended = together(&index, &[remove, replace]);
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!(shown(&index), if ended[1] { vec![2] } else { vec![] });
    });
}

/// Slots in a table that is too small for them, with one requested key.
struct Growing {
    index: Index,
    stripes: Stripes,
    /// The content of the slot.
    entry: UnsafeCell<u32>,
}

// SAFETY: loom checks that accesses of `entry` are ordered.
unsafe impl Sync for Growing {}

impl Growing {
    const WORDS: u64 = 4;

    fn new() -> Self {
        let index = Index::new(Self::WORDS);
        let growing = Growing { index, stripes: Stripes::default(), entry: UnsafeCell::new(1) };
        // Made before the threads begin.
        let _ = growing.stripes.of(0);
        admit(&growing.index, 1);
        growing
    }

    /// Stops the writers and replaces the table; returns whether they stopped.
    fn grow(&self) -> bool {
        let larger = self.index.larger(Self::WORDS, 4);
        let stopped = self.stripes.stop(self.stripes.stopping());
        if stopped.is_some() {
            self.index.grow(larger);
        }
        stopped.is_some()
    }

    /// Looks the key up as a `get` does: the word is read twice.
    fn finds(&self) -> bool {
        let again = |cell: &AtomicU32, word, _| {
            fence::light();
            if cell.load(Acquire) == word { Seen::Match(()) } else { Seen::Changed }
        };
        self.index.find(self.index.mix(HASH), again).is_some()
    }

    /// As a writer, under a stripe if there is one; returns whether the key was removed.
    fn remove(&self) -> bool {
        let held = self.stripes.of(0).own().filter(|_| !self.stripes.is_stopped());
        held.is_some() && self.index.unlink(self.index.mix(HASH), 1)
    }

    /// The same as a thread that takes over an idle thread's slots.
    fn take_over(&self) -> bool {
        let held = self.stripes.claim(self.stripes.of(0));
        held.is_some() && self.index.unlink(self.index.mix(HASH), 1)
    }

    /// Grows, removes the key, and drops the content of the slot if no hazard names it.
    fn reclaim(&self) -> bool {
        assert!(self.grow() && self.index.unlink(self.index.mix(HASH), 1));
        fence::heavy();
        // Acquire: as in `Reclaim::run`.
        let is_named = self.stripes.of(0).reader.hazard.load(Acquire) == 1;
        if !is_named {
            // SAFETY: loom checks this access.
            self.entry.with_mut(|entry| unsafe { *entry = 0 });
        }
        is_named
    }

    /// Looks the key up under a hazard, and reads the content of the slot.
    fn read(&self) -> bool {
        let hazard = Hazard::of(&self.stripes.of(0).reader).expect("one look-up at a time");
        let look = |cell: &AtomicU32, word, slot| {
            if !hazard.protects(cell, word, slot) {
                return Seen::Changed;
            }
            // SAFETY: loom checks this access.
            assert_eq!(self.entry.with(|entry| unsafe { *entry }), 1);
            Seen::Match(())
        };
        self.index.find(self.index.mix(HASH), look).is_some()
    }
}

#[test]
fn a_key_that_is_there_is_found_while_the_table_grows() {
    loom::model(|| {
        let growing = Arc::new(Growing::new());
        let found = together(&growing, &[Growing::grow, Growing::finds]);
        assert_eq!(found, [true, true]);
        assert_eq!(shown(&growing.index), [1]);
    });
}

/// The word is moved or removed, never both.
#[test]
fn what_a_writer_takes_out_does_not_come_back() {
    loom::model(|| {
        let growing = Arc::new(Growing::new());
        let [_, removed] = together(&growing, &[Growing::grow, Growing::remove])[..] else {
            unreachable!("there are two threads")
        };
        assert_eq!(shown(&growing.index), if removed { vec![] } else { vec![1] });
        assert_eq!(growing.finds(), !removed);
    });
}

#[test]
fn who_takes_over_a_stripe_is_stopped_as_its_owner_is() {
    loom::model(|| {
        let growing = Arc::new(Growing::new());
        let [_, removed] = together(&growing, &[Growing::grow, Growing::take_over])[..] else {
            unreachable!("there are two threads")
        };
        assert_eq!(shown(&growing.index), if removed { vec![] } else { vec![1] });
    });
}

/// A hazard names the slot by a word of the old table.
#[test]
fn what_was_found_in_a_table_that_was_left_is_not_dropped_while_it_is_read() {
    loom::model(|| {
        let growing = Arc::new(Growing::new());
        together(&growing, &[Growing::reclaim, Growing::read]);
        assert_eq!(shown(&growing.index), []);
    });
}
