//! A reader of a thread's names misses none that existed before the read began.
//!
//! The logs are small here: the first has room for one name, and one that is full is copied from
//! two names on as if it were long.

use std::sync::Arc;

use super::together;
use crate::smr::names::Names;

/// The slot named before any thread reads.
const HELD: u32 = 2;
/// Named repeatedly. It sorts before the other, which therefore changes its place with each copy.
const AGAIN: u32 = 1;
const OTHER: u32 = 3;

/// Whether a read of the names misses the slot that is held up.
fn misses(names: &Names) -> bool {
    let mut found = false;
    let read = names.read(|slot| found |= slot == HELD);
    read && !found
}

/// Starts with the names `first`, in a log with room for four, and runs `looks` beside the reader.
fn check(first: &'static [u32], looks: fn(&Names) -> bool) {
    loom::model(move || {
        let names = Arc::new(Names::default());
        [AGAIN, OTHER, AGAIN].into_iter().for_each(|slot| names.add(slot));
        names.clear();
        first.iter().for_each(|&slot| names.add(slot));
        let missed = together(&names, &[looks, misses]);
        assert!(!missed.into_iter().any(|missed| missed));
    });
}

fn look(names: &Names, count: u32) -> bool {
    (0..count).for_each(|_| names.add(AGAIN));
    false
}

/// The other log of the pair, and then the one again that the reader may be reading.
#[test]
fn a_log_that_is_written_over_is_not_taken_for_what_it_was() {
    check(&[AGAIN, AGAIN, AGAIN, HELD], |names| look(names, 3));
}

/// There are fewer names then, each slot once.
#[test]
fn a_log_that_was_copied_is_read_to_its_end() {
    check(&[AGAIN, AGAIN, AGAIN, HELD], |names| look(names, 1));
}

#[test]
fn a_log_that_is_copied_to_a_longer_one_is_found() {
    check(&[AGAIN, OTHER, AGAIN, HELD], |names| look(names, 1));
}
