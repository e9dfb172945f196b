//! The ring: no value is lost or popped twice, and values keep their order, also while it grows.

use std::sync::Arc;

use super::together;
use crate::core::order::ring::Ring;
use crate::smr::stripe::Traffic;

fn push(ring: &Ring, value: u32) {
    ring.push(value, &mut Traffic::default());
}

fn pop(ring: &Ring) -> Vec<u32> {
    ring.pop(&mut Traffic::default()).into_iter().collect()
}

fn drain(ring: &Ring) -> Vec<u32> {
    std::iter::from_fn(|| ring.pop(&mut Traffic::default())).collect()
}

/// A queue whose first ring, of two cells, has advanced some laps.
fn turned(pushes: u32) -> Ring {
    let ring = Ring::default();
    for value in 1..=pushes {
        push(&ring, value);
        assert_eq!(pop(&ring), [value]);
    }
    ring
}

/// The third value finds the first ring full, if the popper was not first.
#[test]
fn of_two_pushers_and_a_popper_each_value_comes_once() {
    loom::model(|| {
        let ring = Arc::new(turned(1));
        let threads: [fn(&Ring) -> Vec<u32>; 3] = [
            |ring| {
                push(ring, 10);
                push(ring, 11);
                Vec::new()
            },
            |ring| {
                push(ring, 20);
                Vec::new()
            },
            pop,
        ];
        let mut popped: Vec<_> = together(&ring, &threads).concat();
        popped.extend(drain(&ring));
        let of_first: Vec<_> = popped.iter().filter(|&&value| value < 20).copied().collect();
        assert!(of_first.is_sorted(), "{popped:?} overtook one another");
        popped.sort_unstable();
        assert_eq!(popped, [10, 11, 20]);
        assert!(ring.is_empty());
    });
}

#[test]
fn two_poppers_share_what_a_pusher_sends_round_the_end() {
    loom::model(|| {
        let ring = Arc::new(turned(1));
        push(&ring, 7);
        let threads: [fn(&Ring) -> Vec<u32>; 3] = [pop, pop, |ring| {
            push(ring, 8);
            Vec::new()
        }];
        let mut popped = together(&ring, &threads).concat();
        assert!(popped.contains(&7), "a value that was there all along was not found");
        popped.extend(drain(&ring));
        popped.sort_unstable();
        assert_eq!(popped, [7, 8]);
    });
}

/// A cell that fills, empties and fills again under a popper that was suspended.
#[test]
fn a_late_popper_takes_no_value_of_another_lap() {
    loom::model(|| {
        let ring = Arc::new(turned(2));
        push(&ring, 1);
        let threads: [fn(&Ring) -> Vec<u32>; 2] = [pop, |ring| {
            let first = pop(ring);
            push(ring, 2);
            first
        }];
        let mut seen = together(&ring, &threads).concat();
        seen.extend(drain(&ring));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

/// Two find the ring about to be full: one closes it, and both continue in the same new one.
#[test]
fn what_does_not_fit_goes_to_the_next_ring() {
    loom::model(|| {
        let ring = Arc::new(turned(1));
        push(&ring, 1);
        let threads: [fn(&Ring) -> Vec<u32>; 2] = [
            |ring| {
                push(ring, 2);
                Vec::new()
            },
            |ring| {
                push(ring, 3);
                Vec::new()
            },
        ];
        together(&ring, &threads);
        let popped = drain(&ring);
        assert_eq!(popped[0], 1, "the oldest comes first");
        assert!(popped == [1, 2, 3] || popped == [1, 3, 2], "{popped:?}");
    });
}
