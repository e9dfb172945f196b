//! The bottom queue: new entries of the lowest priority, in caches whose entries have priorities.
//!
//! Evictions take from it first. An entry that was hit leaves it, as a new entry of low priority.
//! It is one more queue beside those of a lock-free policy; a policy under a lock keeps a list of
//! its own.

use frazil_policy::Priority;

use super::queue::Queue;
use super::{Decision, Headers, Newcomer, Order, PassedOver, QueueCtx};
use crate::core::slab::SlotRef;
use crate::sync::CHECKED;

/// Held entries of it that an eviction skips before it asks the policy.
pub(super) const HELD_FIRST: u32 = if CHECKED { 2 } else { 8 };

/// Queues a new entry in it. False if the cache has no bottom queue, or there is no segment: an
/// operation's reserve (`Spares`) does not include one for this.
#[inline(always)]
pub(super) fn insert<H: Headers>(ctx: &mut QueueCtx<'_, H>, slot: SlotRef<'_>) -> bool {
    let Some(queue) = ctx.headers.bottom() else { return false };
    if !has_room(ctx, queue) {
        return false;
    }
    ctx.push(queue, slot);
    queue.publish_step(ctx.segments, ctx.buffers);
    true
}

/// Whether the next entry can be queued, whatever else the operation does.
fn has_room<H: Headers>(ctx: &mut QueueCtx<'_, H>, queue: &Queue) -> bool {
    queue.back_len(ctx.buffers) > 0
        || ctx.buffers.spares.stock_more(ctx.segments, &mut ctx.buffers.traffic)
}

impl Order {
    /// Evicts from the bottom queue, and if all entries in it are used or held, as the policy does.
    #[inline(always)]
    pub(crate) fn evict<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        match ctx.headers.bottom() {
            Some(queue) if !ctx.is_empty(queue) => self.evict_lowest(ctx, queue, newcomer),
            _ => self.evict_own(ctx, newcomer),
        }
    }

    #[inline(never)]
    fn evict_lowest<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        queue: &Queue,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        // Before anything is evicted for it.
        if let Order::S3Fifo(s3_fifo) = self
            && newcomer.is_some_and(|newcomer| s3_fifo.is_unwanted(newcomer))
        {
            return Decision::Refuse;
        }
        let decision = self.evict_bottom(ctx, queue, HELD_FIRST);
        if let Decision::Victim(_) = decision {
            return decision;
        }
        match (self.evict_own(ctx, newcomer), decision) {
            (Decision::Held | Decision::Empty, Decision::Held) => {
                self.evict_bottom(ctx, queue, ctx.headers.held_max())
            }
            (own, _) => own,
        }
    }

    /// The oldest entry of the bottom queue that was not hit and is not held. Gives up after a
    /// number of held ones.
    fn evict_bottom<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        queue: &Queue,
        held_max: u32,
    ) -> Decision {
        let mut held = PassedOver::default();
        // Others may fill the queue meanwhile: no more than there are entries.
        for _ in 0..ctx.reclaim.slots() {
            // Each time: where entries are published one by one each that leaves takes a segment.
            if !ctx.buffers.spares.stock_more(ctx.segments, &mut ctx.buffers.traffic) {
                break;
            }
            let Some(candidate) = ctx.pop(queue) else { break };
            // Uncharged entries stay; otherwise the policy would treat them as its own.
            if ctx.headers.is_charged(candidate.slot) && candidate.header.mark.lower() {
                let newcomer = Newcomer::new(0, ctx.headers.weight(candidate.slot));
                self.enter(ctx, candidate, &newcomer, Priority::Low);
                if ctx.has_died(candidate) {
                    ctx.reclaim.note_left_dead();
                }
                continue;
            }
            if ctx.headers.claim(candidate.slot) {
                return Decision::Victim(candidate.slot);
            }
            ctx.push_again(queue, candidate);
            if held.is_too_many(candidate.slot, held_max) {
                break;
            }
        }
        held.or(Decision::Empty)
    }
}
