//! The ring: nothing lost, nothing twice, and in the order it was pushed.

use std::sync::Arc;

use super::together;
use crate::evict::ring::Ring;
use crate::stripe::Traffic;

fn push(ring: &Ring, value: u32) -> bool {
    ring.push(value, &mut Traffic::default())
}

fn drain(ring: &Ring) -> Vec<u32> {
    std::iter::from_fn(|| ring.pop(&mut Traffic::default())).collect()
}

/// A ring of `capacity`, some laps on.
fn turned(capacity: usize, pushes: u32) -> Ring {
    let ring = Ring::new(capacity);
    for value in 1..=pushes {
        assert!(push(&ring, value) && ring.pop(&mut Traffic::default()) == Some(value));
    }
    ring
}

#[test]
fn of_two_pushers_and_a_popper_each_value_comes_once() {
    loom::model(|| {
        let ring = Arc::new(turned(2, 1));
        let threads: [fn(&Ring) -> Vec<u32>; 2] = [
            |ring| [10, 11].into_iter().filter(|&value| push(ring, value)).collect(),
            |ring| [20].into_iter().filter(|&value| push(ring, value)).collect(),
        ];
        let popper = {
            let ring = ring.clone();
            loom::thread::spawn(move || ring.pop(&mut Traffic::default()))
        };
        let pushed: Vec<_> = together(&ring, &threads).concat();
        let mut popped: Vec<_> = popper.join().unwrap().into_iter().collect();
        popped.extend(drain(&ring));
        let of_first: Vec<_> = popped.iter().filter(|&&value| value < 20).copied().collect();
        assert!(of_first.is_sorted(), "{popped:?} overtook one another");
        // Full at two: the first two always find room.
        assert!(pushed.len() >= 2);
        popped.sort_unstable();
        let mut pushed = pushed;
        pushed.sort_unstable();
        assert_eq!(popped, pushed);
    });
}

#[test]
fn two_poppers_share_what_a_pusher_sends_round_the_end() {
    loom::model(|| {
        let ring = Arc::new(turned(2, 1));
        assert!(push(&ring, 7));
        let threads: [fn(&Ring) -> Vec<u32>; 3] = [
            |ring| ring.pop(&mut Traffic::default()).into_iter().collect(),
            |ring| ring.pop(&mut Traffic::default()).into_iter().collect(),
            |ring| {
                assert!(push(ring, 8), "one value leaves room for another");
                Vec::new()
            },
        ];
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
        let ring = Arc::new(Ring::new(1));
        assert!(push(&ring, 1));
        let threads: [fn(&Ring) -> Vec<u32>; 2] = [
            |ring| ring.pop(&mut Traffic::default()).into_iter().collect(),
            |ring| {
                let first: Vec<_> = ring.pop(&mut Traffic::default()).into_iter().collect();
                if push(ring, 2) { first } else { [first, vec![0]].concat() }
            },
        ];
        let mut seen = together(&ring, &threads).concat();
        seen.extend(drain(&ring));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}
