//! Mobius among threads: two queues that trade places, without a lock.
//!
//! Its plain form and oracle is `frazil_policy::Mobius`, and the eviction below reads
//! like it. The queues differ: survivors are gathered in a segment of the thread's own
//! and go to the dormant queue as one, which is the paper's consecutive detection
//! (paper 3, §4.2) without a walk over nodes that others may recycle.
//! `docs/design/mobius.md` answers the hazards of the paper's pseudo-code one by one.

use super::queue::Queue;
use super::segments::Segments;
use super::{Decision, Hand, Headers};
use crate::stripe::Traffic;
use crate::sync::OwnLine;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// Trades in one eviction, at most: more means that other threads empty the queues.
const TRADES_MAX: u32 = 8;

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

    /// How often the queues have traded places.
    #[cfg(all(test, loom))]
    pub(crate) fn trades(&self) -> u64 {
        self.rotation.0.load(Relaxed)
    }

    /// Trades the queues' places, unless another thread has since `rotation` was read.
    fn trade(&self, rotation: u64, traffic: &mut Traffic) {
        // AcqRel: a thread that sees the trade (Acquire) sees the queue as empty as the
        // one that traded.
        let traded = self.rotation.0.compare_exchange(rotation, rotation + 1, AcqRel, Relaxed);
        traffic.writes += u64::from(traded.is_ok());
    }

    /// Appends to the active queue. If that is empty and the other is not, they trade
    /// places first: asked before every use, that is as good as trading the moment the
    /// last object leaves, which is what makes every eviction equal SIEVE's. The role
    /// read may be stale by the time it is used; then one object is examined early or
    /// late.
    #[inline(always)]
    pub(crate) fn insert<H: Headers>(&self, hand: &mut Hand<'_, H>, slot: u32) {
        let rotation = self.rotation.0.load(Acquire);
        let active = (rotation & 1) as usize;
        let (mut active, dormant) = (&self.queues[active], &self.queues[active ^ 1]);
        if hand.is_empty(active) && !hand.is_empty(dormant) {
            self.trade(rotation, &mut hand.buffers.traffic);
            active = dormant;
        }
        hand.push(active, slot);
    }

    #[inline(always)]
    pub(crate) fn evict<H: Headers>(&self, hand: &mut Hand<'_, H>) -> Decision {
        // Readers may mark as fast as marks are cleared: past this many chances the
        // candidate goes, visited or not.
        let mut chances = hand.reclaim.slots();
        let mut trades = 0;
        loop {
            let rotation = self.rotation.0.load(Acquire);
            let active = (rotation & 1) as usize;
            let (active, dormant) = (&self.queues[active], &self.queues[active ^ 1]);
            let Some(candidate) = hand.pop(active) else {
                // An empty queue is no reason to wait, and two are the end of it.
                if trades == TRADES_MAX || hand.is_empty(dormant) {
                    return Decision::Empty;
                }
                trades += 1;
                self.trade(rotation, &mut hand.buffers.traffic);
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
