//! The end of a residency: counts it, returns its weight, and retires its slot.

use std::hash::{BuildHasher, Hash};

use crate::core::Core;
use crate::core::hooks::Hooks;
use crate::core::local::Held;
use crate::core::order::{Order, QueueCtx};
use crate::core::slab::{DEAD, SlotRef};
use crate::smr::stripe::add;
use crate::sync::atomic::Ordering::{Acquire, Release};

/// How a residency ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Evicted for another entry.
    Evicted,
    /// Look-ups did not find it any more, by the decision of a hook.
    Lapsed,
    /// Another entry of the same key has its place.
    Replaced,
    /// Another entry of the same key was admitted beside it, or refused.
    Outdated,
    /// Removed by a call.
    Removed,
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Counts the end of a residency, right after the exchange of the index word with which
    /// this thread has ended it: the one place that all of them pass. The slot is still
    /// protected or taken, so key and value are there.
    #[inline(always)]
    pub(super) fn ended(
        &self,
        held: &mut Held<'_, H::Local>,
        slot: u32,
        ending: Ending,
        charges_orphans: bool,
    ) {
        let (ending, is_returned) = H::removed(self, slot, ending, charges_orphans);
        // The replacement has its place, and has paid for its weight.
        if ending != Ending::Replaced {
            held.above.entry_credit += 1;
            if self.weights.is_some() {
                let weight = self.charge(slot);
                if is_returned {
                    held.above.weight_credit += weight;
                }
                add(&held.local().counts.weight, weight.wrapping_neg());
            }
        }
        let counts = &held.local().counts;
        let count = match ending {
            Ending::Evicted => &counts.evictions,
            Ending::Lapsed => &counts.lapses,
            Ending::Replaced => &counts.replacements,
            Ending::Outdated | Ending::Removed => &counts.removals,
        };
        add(count, 1);
        // A replacement is queued yet.
        if ending != Ending::Replaced {
            self.hooks.queues_changed();
        }
    }

    /// Ends the residency of a slot that was taken, unless it has ended already. Whether
    /// it had not.
    #[inline(always)]
    pub(crate) fn finish_eviction(
        &self,
        held: &mut Held<'_, H::Local>,
        victim: u32,
        ending: Ending,
    ) -> bool {
        let put_back = |ctx: &mut QueueCtx<'_, Self>| {
            H::unclaim(self, victim);
            self.order.put_back(ctx, victim);
        };
        let hash = self.queue_ctx(held).hash_of_taken(victim, put_back);
        H::before_unlink(self, victim);
        let ours = self.index.unlink(self.index.mix(hash), victim);
        if ours {
            self.ended(held, victim, ending, self.hooks.charges_orphans());
            self.queue_ctx(held).retire(victim);
        } else {
            // The thread that unlinked it has declared it dead or is about to; or the hash of its
            // key has changed, and it is still present for all readers.
            H::unclaim(self, victim);
            self.put_back(held, victim);
        }
        ours
    }

    /// Queues a slot that was taken, unless its residency has ended.
    pub(crate) fn put_back(&self, held: &mut Held<'_, H::Local>, slot: u32) {
        self.requeue(held, slot);
        self.retire_if_dead(held, self.slab.slot_ref(slot));
    }

    /// Whether it was dead, and is retired.
    fn requeue(&self, held: &mut Held<'_, H::Local>, slot: u32) -> bool {
        // Acquire: partner is the Release with which it was declared dead; so all threads
        // that find the slot reclaimed see that it has left the index.
        let dead = self.slab.header(slot).state.load(Acquire) & DEAD != 0;
        self.with_queue_ctx(held, |ctx| match dead {
            true => ctx.retire(slot),
            false => self.order.put_back(ctx, slot),
        });
        self.hooks.queues_changed();
        dead
    }

    /// Retires a slot that the caller has unlinked and protects.
    pub(crate) fn finish_removal(&self, held: &mut Held<'_, H::Local>, slot: u32, ending: Ending) {
        self.ended(held, slot, ending, self.hooks.charges_orphans());
        let buffers = &mut **held;
        if buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            let ours = self.die(slot);
            let is_found = self.with_queue_ctx(held, |ctx| {
                let taken = ours || self.order.detach(ctx, slot);
                if taken {
                    ctx.retire(slot);
                }
                taken
            });
            if !is_found {
                self.retire_unfound(held, slot);
            }
        } else {
            // Without a spare segment, the thread that dequeues it retires it, or the next that
            // packs.
            self.slab.header(slot).die_later();
            self.reclaim.note_left_dead();
        }
        // Until now a policy under a lock may have counted it among the entries set aside.
        self.hooks.queues_changed();
        self.settle(held);
    }

    /// The same of a slot that the caller has yet to queue, and finds dead then.
    pub(super) fn finish_unqueued(&self, held: &mut Held<'_, H::Local>, slot: u32, ending: Ending) {
        self.ended(held, slot, ending, self.hooks.charges_orphans());
        self.die(slot);
        self.settle(held);
    }

    /// Retires a slot that the caller has declared dead, protects, and has found in no queue, if it
    /// is queued by now.
    #[cold]
    #[inline(never)]
    pub(super) fn retire_unfound(&self, held: &mut Held<'_, H::Local>, slot: u32) {
        _ = self.retire_dead(held, slot, Order::detach_late);
    }

    /// Retires a slot, just queued, whose residency has ended meanwhile: the thread that ended it
    /// may have searched its queue too early, and without evictions no other thread reaches it.
    #[inline(always)]
    pub(super) fn retire_if_dead(&self, held: &mut Held<'_, H::Local>, slot: SlotRef<'_>) {
        if self.queue_ctx(held).has_died(slot) {
            self.retire_dead_queued(held, slot.slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn retire_dead_queued(&self, held: &mut Held<'_, H::Local>, slot: u32) {
        _ = self.retire_dead(held, slot, Order::detach);
    }

    /// Takes a dead slot out of its queue, if it is in one, and retires it; or notes that it was
    /// left there. It may have been used again meanwhile, unless the caller protects it: then it
    /// goes back. Whether it was found.
    fn retire_dead(
        &self,
        held: &mut Held<'_, H::Local>,
        slot: u32,
        detach: impl FnOnce(&Order, &mut QueueCtx<'_, Self>, u32) -> bool,
    ) -> bool {
        let buffers = &mut **held;
        if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
            // As in `finish_removal`.
            self.reclaim.note_left_dead();
        } else if self.with_queue_ctx(held, |ctx| detach(&self.order, ctx, slot)) {
            let slot = self.slab.slot_ref(slot);
            // The slot may have another entry by now, whose remover may have searched for it while
            // it was in hand.
            if !self.requeue(held, slot.slot) && self.queue_ctx(held).has_died(slot) {
                self.reclaim.note_left_dead();
            }
            return true;
        }
        false
    }

    /// Declares an unlinked slot dead. Returns whether it is in no queue, so that the caller
    /// retires it.
    #[inline(always)]
    pub(super) fn die(&self, slot: u32) -> bool {
        let header = self.slab.header(slot);
        if self.hooks.sets_aside() {
            return header.die();
        }
        // Release: partner is the Acquire of `QueueCtx::pop`.
        header.state.store(DEAD, Release);
        false
    }
}
