//! Mobius among threads: two queues that trade places, without a lock.
//!
//! Its plain form and oracle is `frazil_policy::Mobius`, and the eviction below reads
//! like it. The queues differ: survivors are gathered in a segment of the thread's own
//! and go to the dormant queue as one, which is the paper's consecutive detection
//! (paper 3, §4.3) without a walk over nodes that others may recycle.
//! `docs/design/mobius.md` answers the hazards of the paper's pseudo-code one by one.

use super::queue::Queue;
use super::segments::Segments;
use super::{Decision, Hand, Headers};
use crate::sync::OwnLine;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

#[derive(Debug)]
pub(crate) struct Mobius {
    queues: [Queue; 2],
    /// How often the queues have traded places; its parity says which is active. A
    /// count and not a flag, so that a late exchange fails. Read often, written once a
    /// pass over the cache.
    rotation: OwnLine<AtomicU64>,
}

impl Mobius {
    pub(crate) fn new(segments: &Segments) -> Self {
        Mobius {
            queues: [Queue::new(0, segments), Queue::new(1, segments)],
            rotation: OwnLine::default(),
        }
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// The active queue and the dormant one, after they have traded places if the first
    /// is empty and the second is not. Asked before every use of either, it is as good
    /// as trading the moment the last object leaves, which is what makes every eviction
    /// equal SIEVE's. The role read may be stale by the time it is used; then one object
    /// is examined early or late.
    #[inline(always)]
    fn settled<H: Headers>(&self, hand: &mut Hand<'_, H>) -> (&Queue, &Queue) {
        // Acquire and AcqRel: a thread that sees the trade sees the queue as empty as
        // the one that traded.
        let rotation = self.rotation.0.load(Acquire);
        let active = (rotation & 1) as usize;
        let (active, dormant) = (&self.queues[active], &self.queues[active ^ 1]);
        if !hand.is_empty(active) || hand.is_empty(dormant) {
            return (active, dormant);
        }
        // Whoever loses this exchange finds that another has traded.
        let _ = self.rotation.0.compare_exchange(rotation, rotation + 1, AcqRel, Relaxed);
        (dormant, active)
    }

    #[inline(always)]
    pub(crate) fn insert<H: Headers>(&self, hand: &mut Hand<'_, H>, slot: u32) {
        let (active, _) = self.settled(hand);
        hand.push(active, slot);
    }

    #[inline(always)]
    pub(crate) fn evict<H: Headers>(&self, hand: &mut Hand<'_, H>) -> Decision {
        // Readers may mark as fast as marks are cleared: past this many chances the
        // candidate goes, visited or not.
        let mut chances = hand.reclaim.slots();
        loop {
            let (active, dormant) = self.settled(hand);
            let Some(candidate) = hand.pop(active) else {
                // What was there a moment ago, another thread has taken, or it was dead.
                if hand.is_empty(active) && hand.is_empty(dormant) {
                    return Decision::Empty;
                }
                continue;
            };
            if chances == 0 || !hand.mark(candidate).lower() {
                return Decision::Victim(candidate);
            }
            chances -= 1;
            hand.push(dormant, candidate);
        }
    }
}
