//! Mobius among threads: two queues that trade places, without a lock.
//!
//! Its plain form and oracle is `frazil_policy::Mobius`, and the eviction below reads
//! like it. The queues differ: a thread gathers survivors in a segment of its own, which moves to
//! the dormant queue as one. That is the paper's consecutive detection (paper 3, §4.2) without a
//! walk over nodes that others may recycle. It can be switched off, to be measured: then each
//! survivor moves in a segment of its own. `docs/design/mobius.md` answers the hazards of the
//! paper's pseudo-code one by one.

use super::queue::{End, Queue};
use super::{Decision, Headers, PassedOver, QueueCtx};
use crate::core::slab::SlotRef;
use crate::sync::OwnLine;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A queue with fewer segments is short. A queue that grows long again after the cache was cleared
/// must not keep a segment for each entry.
const SHORT: u64 = 64;

/// The most turns in one eviction: more means that other threads empty the queues.
const TURNS_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct Mobius {
    queues: [Queue; 2],
    /// Whether survivors move as one.
    detects_runs: bool,
    /// Twice the number of times the queues have traded places, plus 1 while the active queue is
    /// *short*. A count and not flags, so that a late exchange fails. Read often, written twice a
    /// pass over the cache.
    pass: OwnLine<AtomicU64>,
}

impl Mobius {
    pub(crate) fn new(detects_runs: bool) -> Self {
        let queues = [Queue::new(End::First), Queue::new(End::Second)];
        Mobius { queues, detects_runs, pass: OwnLine::default() }
    }

    /// Whether survivors move one by one. Called only where that can be set.
    #[inline(always)]
    pub(crate) fn moves_one_by_one(&self) -> bool {
        cfg!(any(feature = "measure", loom, shuttle)) && !self.detects_runs
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// How often the queues have traded places.
    #[cfg(all(test, loom))]
    pub(crate) fn trades(&self) -> u64 {
        self.pass.0.load(Relaxed) >> 1
    }

    /// The active queue and the dormant one, as it is now.
    pub(crate) fn roles(&self) -> [&Queue; 2] {
        let pass = self.pass.0.load(Relaxed);
        [self.active(pass), self.dormant(pass)]
    }

    /// The active queue in a pass.
    #[inline(always)]
    fn active(&self, pass: u64) -> &Queue {
        &self.queues[(pass >> 1 & 1) as usize]
    }

    #[inline(always)]
    fn dormant(&self, pass: u64) -> &Queue {
        &self.queues[(!pass >> 1 & 1) as usize]
    }

    /// The action if a thread finds the active queue empty and the other not.
    ///
    /// Other threads may own its last entries, and their new entries may never leave their
    /// hands: SIEVE's active queue can stay a few entries long for ever, each evicted before the
    /// next comes. So the first thread to find it empty takes over the entries of the others, and
    /// from then on the queue is *short*: new entries are published one by one. If it is empty
    /// nevertheless, the queues trade places.
    ///
    /// If all checked entries are `held`, the queues trade repeatedly, and taking over costs a
    /// heavy fence for each thread: then they trade at once, and the entries of idle threads stay
    /// there, as in the other policies.
    #[cold]
    fn turn<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, pass: u64, held: bool) {
        let short = pass & 1 == 1 || ctx.segments.step() == 1 || held;
        let next = if short { (pass | 1) + 1 } else { pass + 1 };
        // AcqRel: a thread that sees the trade (Acquire) sees the queue as empty as the one that
        // traded. A thread that loses finds that another has done it.
        if self.pass.0.compare_exchange(pass, next, AcqRel, Relaxed).is_ok() {
            ctx.buffers.traffic.writes += 1;
            if !short {
                ctx.gather(&self.queues);
            }
        }
    }

    /// Appends to the active queue. If that is empty and the other is not, they trade places first.
    /// Checked before every use, that equals a trade at the moment the last object leaves, so every
    /// eviction equals SIEVE's. The role may be stale when it is used; then one object is examined
    /// early or late.
    #[inline(always)]
    pub(crate) fn insert<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: SlotRef<'_>) {
        let mut pass = self.pass.0.load(Acquire);
        if ctx.is_empty(self.active(pass)) {
            pass = self.turn_if_due(ctx, pass);
        }
        let active = self.active(pass);
        ctx.push(active, slot);
        // In pairs: a thread examines the entries in its hand next, and they are most of the queue;
        // two threads that publish and take single entries alternately are half as fast.
        if pass & 1 == 1 && active.back_len(ctx.buffers) > 1 && active.ring().len() < SHORT {
            active.publish_back(ctx.buffers);
        }
    }

    /// Trades places for an insertion that has found the active queue empty, if the other is not.
    /// Returns the pass after that.
    #[cold]
    #[inline(never)]
    fn turn_if_due<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, mut pass: u64) -> u64 {
        // Once for taking over, once for trading.
        for _ in 0..2 {
            if !ctx.is_empty(self.active(pass)) || ctx.is_empty(self.dormant(pass)) {
                break;
            }
            self.turn(ctx, pass, ctx.headers.gave_up_lately());
            pass = self.pass.0.load(Acquire);
        }
        pass
    }

    #[inline(always)]
    pub(crate) fn evict<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>) -> Decision {
        // Readers may mark as fast as marks are cleared: past this many chances the candidate is
        // evicted, visited or not.
        let (mut chances, mut turns) = (0, 0);
        let mut held = PassedOver::default();
        loop {
            let pass = self.pass.0.load(Acquire);
            let Some(candidate) = ctx.pop(self.active(pass)) else {
                // One empty queue is no reason to wait; two end the eviction.
                if turns == TURNS_MAX || ctx.is_empty(self.dormant(pass)) {
                    return held.or(Decision::Empty);
                }
                turns += 1;
                self.turn(ctx, pass, !held.is_none() || ctx.headers.gave_up_lately());
                continue;
            };
            if !candidate.header.mark.lower() || chances == ctx.reclaim.slots() {
                if ctx.headers.claim(candidate.slot) {
                    return Decision::Victim(candidate.slot);
                }
                // As if it had been visited.
                if held.is_too_many(candidate.slot, ctx.headers.held_max()) {
                    ctx.push_again(self.dormant(pass), candidate);
                    return Decision::Held;
                }
            } else {
                chances += 1;
                held.go_round_again();
            }
            let dormant = self.dormant(pass);
            ctx.push_again(dormant, candidate);
            if self.moves_one_by_one() {
                ctx.publish_alone(dormant);
            }
        }
    }
}
