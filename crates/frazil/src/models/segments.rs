//! Stacks of segments: a segment is in one place, and its content is visible with it.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::together;
use crate::smr::segments::{SegmentStack, Segments};
use crate::smr::stripe::Traffic;
use crate::sync::atomic::Ordering::Relaxed;

struct Stacked {
    segments: Segments,
    stack: SegmentStack,
    /// The data of segment 1.
    content: UnsafeCell<u32>,
}

// SAFETY: the models touch `content` only while they have segment 1, which loom checks.
unsafe impl Sync for Stacked {}

impl Stacked {
    /// Of `count` segments, the first `stacked` on the stack, 1 on top.
    fn new(count: u32, stacked: u32) -> Self {
        let segments = Segments::new(count as usize, 1);
        let stack = SegmentStack::default();
        for segment in
            (1..=count).map(|_| segments.take(&mut Traffic::default()).expect("never used"))
        {
            segments.word(segments.position(segment, 0)).store(segment, Relaxed);
        }
        (1..=stacked)
            .rev()
            .for_each(|segment| stack.push(&segments, segment, &mut Traffic::default()));
        Stacked { segments, stack, content: UnsafeCell::new(0) }
    }

    fn pop(&self) -> Option<u32> {
        self.stack.pop(&self.segments, &mut Traffic::default())
    }

    fn push(&self, segment: u32) {
        self.stack.push(&self.segments, segment, &mut Traffic::default());
    }

    /// Takes the whole stack.
    fn take_all(&self) -> Vec<u32> {
        let mut taken = vec![self.stack.take_all(&mut Traffic::default())];
        while taken.last() != Some(&0) {
            taken.push(self.segments.next(taken[taken.len() - 1]));
            assert!(taken.len() < 8, "a ring of segments: {taken:?}");
        }
        taken.pop();
        taken
    }

    /// Writes the data of segment 1, which the caller has.
    fn change(&self) {
        // SAFETY: loom checks this access.
        self.content.with_mut(|content| unsafe { *content += 1 });
    }
}

/// Each segment is either held by a thread or on the stack, and only once.
fn assert_whole(stacked: &Stacked, mut held: Vec<u32>, count: u32) {
    held.extend(stacked.take_all());
    held.sort_unstable();
    assert_eq!(held, (1..=count).collect::<Vec<_>>());
}

/// The textbook's ABA: the top is popped, the one below is popped, the top is pushed again.
#[test]
fn a_late_pop_notices_that_the_top_left_and_came_back() {
    loom::model(|| {
        let stacked = Arc::new(Stacked::new(3, 3));
        let threads: [fn(&Stacked) -> Vec<u32>; 2] = [
            |stacked| stacked.pop().into_iter().collect(),
            |stacked| {
                let first = stacked.pop();
                let second = stacked.pop();
                first.into_iter().for_each(|segment| stacked.push(segment));
                second.into_iter().collect()
            },
        ];
        let held = together(&stacked, &threads).concat();
        assert_whole(&stacked, held, 3);
    });
}

#[test]
fn a_chain_is_taken_whole() {
    loom::model(|| {
        let stacked = Arc::new(Stacked::new(3, 2));
        let threads: [fn(&Stacked) -> Vec<u32>; 3] = [
            Stacked::take_all,
            |stacked| stacked.pop().into_iter().collect(),
            |stacked| {
                stacked.push(3);
                Vec::new()
            },
        ];
        let held = together(&stacked, &threads).concat();
        assert_whole(&stacked, held, 3);
    });
}

#[test]
fn what_was_written_is_seen_by_who_takes_the_segment() {
    loom::model(|| {
        let stacked = Arc::new(Stacked::new(2, 0));
        let threads: [fn(&Stacked) -> Vec<u32>; 3] = [
            |stacked| {
                stacked.change();
                stacked.push(1);
                stacked.push(2);
                Vec::new()
            },
            |stacked| {
                let popped = stacked.pop();
                if popped == Some(1) {
                    stacked.change();
                }
                popped.into_iter().collect()
            },
            |stacked| {
                let taken = stacked.take_all();
                if taken.contains(&1) {
                    stacked.change();
                }
                taken
            },
        ];
        let held = together(&stacked, &threads).concat();
        assert_whole(&stacked, held, 2);
    });
}

#[test]
fn no_segment_is_handed_out_twice() {
    loom::model(|| {
        let segments = Arc::new(Segments::new(2, 1).laid_out());
        let take: fn(&Segments) -> Option<u32> = |segments| segments.take(&mut Traffic::default());
        let give_and_take: fn(&Segments) -> Option<u32> = |segments| {
            let segment = segments.take(&mut Traffic::default())?;
            segments.give(segment, &mut Traffic::default());
            segments.take(&mut Traffic::default())
        };
        let mut taken = together(&segments, &[take, give_and_take]);
        // Two segments for two threads: each gets one.
        taken.sort_unstable();
        assert_eq!(taken, [Some(1), Some(2)]);
    });
}
