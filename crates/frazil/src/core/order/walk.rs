//! The order in which entries would be evicted at this moment.
//!
//! It reads lock-free queues segment by segment while others work with them: first the segments
//! that stripes consume, then the ring, then those that stripes fill. It does not see what a
//! working thread owns (up to 64 entries). The rest is arithmetic: which queue is examined
//! first, and what a mark is worth. A snapshot takes marks and places unchanged, so the copy goes
//! on as the original does. A policy under a lock is copied under the lock, and walked outside.
//! O(entries), 4 to 20 bytes for each.

use super::queue::Queue;
use super::{Headers, Order, s3_fifo};
use crate::core::local::Stripes;
use crate::smr::segments::{IDLE, SLOT, Segments};
use crate::sync::atomic::Ordering::Acquire;

impl Order {
    /// Whether [`Order::queued_first`] and the marks are a complete copy. With Mobius there is one
    /// difference: new entries are examined before the entries that it has skipped, in a copy after
    /// them.
    pub(crate) fn is_places_and_marks(&self) -> bool {
        matches!(self, Order::Clock(..) | Order::Mobius(_))
    }

    /// The slots as they are queued, first to be examined first, if with the marks that says
    /// all; else as [`Order::coldest_first`].
    pub(crate) fn queued_first<H: Headers, F: Default>(
        &self,
        headers: &H,
        segments: &Segments,
        stripes: &Stripes<F>,
    ) -> Vec<u32> {
        match self {
            Order::Clock(queue, _) => queued(queue, segments, stripes),
            Order::Mobius(mobius) => {
                mobius.roles().map(|queue| queued(queue, segments, stripes)).concat()
            }
            _ => self.coldest_first(headers, segments, stripes),
        }
    }

    /// The slots that are queued, first to go first. Some may be missing, or be there twice,
    /// where others are at work.
    pub(crate) fn coldest_first<H: Headers, F: Default>(
        &self,
        headers: &H,
        segments: &Segments,
        stripes: &Stripes<F>,
    ) -> Vec<u32> {
        let queued = |queue: &Queue| queued(queue, segments, stripes);
        let count = |slot: u32| headers.header(slot).mark.count();
        match self {
            Order::Fifo(queue) => queued(queue),
            Order::Clock(queue, _) => by_laps(queued(queue), Vec::new(), count),
            Order::Mobius(mobius) => {
                let [active, dormant] = mobius.roles().map(queued);
                by_laps(active, dormant, |slot| count(slot).min(1))
            }
            Order::S3Fifo(s3_fifo) => {
                let [small, main] = [&s3_fifo.queues()[0], &s3_fifo.queues()[1]].map(queued);
                let (promoted, mut order): (Vec<u32>, Vec<u32>) =
                    small.into_iter().partition(|&slot| count(slot) >= s3_fifo::PROMOTED_FROM);
                // In main a promoted entry begins without a count.
                let in_main = main.len();
                let main: Vec<u32> = main.into_iter().chain(promoted).collect();
                let mut counts: std::collections::HashMap<u32, u8> =
                    main[..in_main].iter().map(|&slot| (slot, count(slot))).collect();
                order.extend(by_laps(main, Vec::new(), |slot| counts.remove(&slot).unwrap_or(0)));
                order
            }
            Order::Locked(locked) => locked.coldest_first(headers),
        }
    }
}

/// The slots of a queue, oldest first.
fn queued<F: Default>(queue: &Queue, segments: &Segments, stripes: &Stripes<F>) -> Vec<u32> {
    let (mut fronts, mut backs) = (Vec::new(), Vec::new());
    for held in stripes.claims() {
        let ends = &held.above.ends[queue.end()];
        fronts.push(ends.front.segment);
        backs.push(ends.back.segment);
    }
    let words =
        |segment: u32| (0..segments.length()).map(move |index| segments.position(segment, index));
    fronts
        .into_iter()
        .chain(queue.ring().in_order())
        .chain(backs)
        .filter(|&segment| segment != 0)
        .flat_map(words)
        // Acquire: the slot's header, which did not exist before; partner is the Release of
        // `Queue::push` and of `Order::replace`.
        .map(|position| segments.word(position).load(Acquire))
        // A segment may be in another use by now.
        .filter(|&word| word != 0 && word & IDLE == 0)
        .map(|word| word & SLOT)
        .collect()
}

/// The order in which a hand reaches slots without a mark: a hand lowers a mark by one, and moves
/// the slot to the end of the rest.
pub(crate) fn by_laps(
    queue: Vec<u32>,
    next: Vec<u32>,
    mut count: impl FnMut(u32) -> u8,
) -> Vec<u32> {
    let mut order = Vec::with_capacity(queue.len() + next.len());
    let mut counted = |slots: Vec<u32>| -> Vec<(u32, u8)> {
        slots.into_iter().map(|slot| (slot, count(slot))).collect()
    };
    let (mut queue, mut next) = (counted(queue), counted(next));
    while !queue.is_empty() || !next.is_empty() {
        for (slot, count) in queue.drain(..) {
            match count.checked_sub(1) {
                None => order.push(slot),
                Some(left) => next.push((slot, left)),
            }
        }
        std::mem::swap(&mut queue, &mut next);
    }
    order
}
