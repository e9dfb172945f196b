//! The index: two threads that admit one key do not both believe they were alone.

use std::sync::Arc;

use super::together;
use crate::index::{Index, Seen};

/// The hash of the key in question, and of one whose tag differs.
const HASH: u64 = 7;
const OTHER: u64 = 8;

/// Admits `slot`. Whether no other word can be of the same key.
fn admit(index: &Index, slot: u32) -> bool {
    let place = index.place(HASH);
    let own = index.admit(place, slot).expect("there is room");
    index.is_alone(place, own)
}

/// The slots that a look-up is shown, in its order.
fn shown(index: &Index) -> Vec<u32> {
    let mut slots = Vec::new();
    let all: Option<()> = index.find(index.place(HASH), |_, word| {
        slots.push(index.slot(word));
        Seen::Other
    });
    assert_eq!(all, None);
    slots
}

/// In different cells, because one finds a cell full that is empty for the other.
#[test]
fn of_two_that_admit_a_key_one_sees_the_other() {
    loom::model(|| {
        let index = Arc::new(Index::new(3, 3));
        assert!(index.admit(index.place(OTHER), 3).is_some());
        let after_another_left: fn(&Index) -> bool = |index| {
            assert!(index.unlink(index.place(OTHER), 3));
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
        let index = Arc::new(Index::new(2, 2));
        admit(&index, 1);
        let remove: fn(&Index) -> bool = |index| index.unlink(index.place(HASH), 1);
        let replace: fn(&Index) -> bool = |index| {
            let place = index.place(HASH);
            let first = |cell, word| Seen::Match((cell, word));
            let found = index.find(place, first);
            found.is_some_and(|(cell, word)| index.replace(place, cell, word, 2))
        };
        let ended = together(&index, &[remove, replace]);
        assert_eq!(ended.iter().filter(|&&ended| ended).count(), 1);
        assert_eq!(shown(&index), if ended[1] { vec![2] } else { vec![] });
    });
}
