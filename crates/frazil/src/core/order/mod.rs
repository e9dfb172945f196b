//! Policies among threads.
//!
//! FIFO, CLOCK, Mobius and S3-FIFO run on lock-free queues of segments (`queue.rs`); any
//! other policy of `frazil-policy` runs as it is under a lock (`locked/`). Each has a
//! *position* for every resident slot, kept in the slot's header, at which a removal or
//! a replacement finds it without a search: [`Order::detach`], [`Order::replace`].
//!
//! An operation checks once which policy it is, and a hit never does: it raises the mark up to
//! [`Order::mark_max`].

mod bottom;
pub(crate) mod locked;
mod mobius;
pub(crate) mod position;
pub(crate) mod queue;
pub(crate) mod ring;
pub(crate) mod s3_fifo;
pub(crate) mod walk;

use std::cell::Cell;

use frazil_policy::{Online, Priority};

use crate::core::local::{Buffers, Reads};
use crate::core::slab::{ASIDE, DEAD, Header, SlotRef};
use crate::ensure::Ensure;
use crate::smr::fence;
use crate::smr::reclaim::Reclaim;
use crate::smr::stripe::Outside;
use crate::sync::CHECKED;
use crate::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::smr::segments::Segments;
use locked::{Locked, Promotion};
use mobius::Mobius;
use position::Position;
use queue::{End, Queue};
use s3_fifo::S3Fifo;

/// The entries as a policy sees them.
pub(crate) trait Headers {
    /// The policy's data of a slot.
    fn header(&self, slot: u32) -> &Header;
    /// A slot, with its header.
    #[inline(always)]
    fn slot_ref(&self, slot: u32) -> SlotRef<'_> {
        SlotRef { slot, header: self.header(slot) }
    }
    /// Requests of the calling thread.
    fn reads(&self) -> &Reads;
    /// Calls a function with the buffers of every stripe not in use.
    fn each_idle(&self, take: &mut dyn FnMut(&mut Buffers));
    /// Prefetches a slot's line, because it will be examined soon.
    fn prefetch(&self, slot: u32);
    /// The weight of an occupied slot.
    fn weight(&self, slot: u32) -> u64;
    /// The priority with which the entry in a slot was inserted.
    #[inline(always)]
    fn priority(&self, _slot: u32) -> Priority {
        Priority::Low
    }
    /// Whether the capacity is charged for the entry in a slot.
    #[inline(always)]
    fn is_charged(&self, _slot: u32) -> bool {
        true
    }
    /// The queue of entries with the lowest priority, if there are priorities.
    #[inline(always)]
    fn bottom(&self) -> Option<&Queue> {
        None
    }
    /// Claims a slot, which the caller has taken out of its queue, so that no look-up returns it.
    /// False if it is held and gets a second chance.
    #[inline(always)]
    fn claim(&self, _slot: u32) -> bool {
        true
    }
    /// The slot stays after all.
    fn unclaim(&self, _slot: u32) {}
    /// Whether evictions have given up recently, because all checked entries were held.
    #[inline(always)]
    fn gave_up_lately(&self) -> bool {
        false
    }
    /// Held slots that an eviction skips before it gives up.
    #[inline(always)]
    fn held_max(&self) -> u32 {
        HELD_MAX
    }
    /// A slot was taken out of its queue permanently. Returns whether to retire it now: not if it
    /// is held; the last holder does it then.
    #[inline(always)]
    fn leaves_queue(&self, _slot: u32) -> bool {
        true
    }
    /// The hash of the key in a slot that the caller has taken, and claimed.
    fn hash(&self, slot: u32) -> u64;
    /// The time, by the cache's coarse clock.
    fn coarse_ns(&self) -> u64;
}

/// The new entry that needs an eviction.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) hash: u64,
    pub(crate) weight: u64,
    /// The policy's data from its miss: 1 if S3-FIFO's ghost had it, or if it has high priority;
    /// the ticket of a locked policy, to which it is reported at the first eviction or at its
    /// insertion; else 0.
    pub(crate) recalled: Cell<u32>,
    /// Duration of its fetch, and its waiters, for policies that use them; `None` if it was not
    /// fetched.
    pub(crate) absence: Option<Absence>,
}

impl Newcomer {
    /// A new entry that is not reported yet.
    pub(crate) fn new(hash: u64, weight: u64) -> Self {
        Newcomer { hash, weight, recalled: Cell::new(0), absence: None }
    }
}

/// The cost of a key's absence, in nanoseconds of the cache's clock, for a policy that weighs
/// delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Absence {
    /// End of the fetch, and typical duration of such a fetch.
    pub(crate) landed: u64,
    pub(crate) fetch: u64,
    /// Number of waiters, their total wait, and the wait of the last of them.
    pub(crate) waiters: u64,
    pub(crate) delay: u64,
    pub(crate) least: u64,
}

/// The result of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This slot is evicted; the caller has taken it.
    Victim(u32),
    /// The new entry is not admitted.
    Refuse,
    /// Everything is held, or the eviction has skipped as many held entries as it may.
    Held,
    /// This thread can reach no slot.
    Empty,
}

/// A thread at work on the queues: its own buffers, and the shared state.
pub(crate) struct QueueCtx<'c, H> {
    pub(crate) segments: &'c Segments,
    pub(crate) reclaim: &'c Reclaim,
    pub(crate) headers: &'c H,
    pub(crate) buffers: &'c mut Buffers,
    /// Where to note that user code runs.
    pub(crate) outside: &'c AtomicBool,
}

impl<'c, H: Headers> QueueCtx<'c, H> {
    #[inline(always)]
    pub(crate) fn push(&mut self, queue: &Queue, slot: SlotRef<'_>) {
        queue.push(self.segments, self.buffers, slot);
    }

    /// Queues a slot that was dequeued and stays. If it died meanwhile, the thread that ended its
    /// residency searched for it too early, and the next packing of the queues removes it.
    #[inline(always)]
    pub(crate) fn push_again(&mut self, queue: &Queue, slot: SlotRef<'_>) {
        self.push(queue, slot);
        if self.has_died(slot) {
            self.reclaim.note_left_dead();
        }
    }

    /// Publishes the slot that was just queued, though its segment is not full. If segments have
    /// become few it stays with those that come after it.
    #[cold]
    #[inline(never)]
    fn publish_alone(&mut self, queue: &Queue) {
        // The reserve for the rest of the operation is in hand again before the next is requested.
        if self.buffers.spares.stock(self.segments, &mut self.buffers.traffic) {
            queue.publish_back(self.buffers);
        }
    }

    /// The oldest slot of a queue that is not dead. Retires dead ones.
    #[inline(always)]
    pub(crate) fn pop(&mut self, queue: &Queue) -> Option<SlotRef<'c>> {
        loop {
            let slot = queue.pop(self.segments, self.buffers, self.headers)?;
            let slot = self.headers.slot_ref(slot);
            if self.is_to_be_judged(slot) {
                return Some(slot);
            }
        }
    }

    /// Whether a slot that was dequeued is neither dead nor set aside. If it is dead it is retired,
    /// and if it is set aside it is dropped.
    #[inline(always)]
    pub(crate) fn is_to_be_judged(&mut self, slot: SlotRef<'_>) -> bool {
        // Acquire: partner is the Release with which it was declared dead.
        slot.header.state.load(Acquire) & (DEAD | ASIDE) == 0 || self.sort_out(slot)
    }

    #[cold]
    fn sort_out(&mut self, SlotRef { slot, header }: SlotRef<'_>) -> bool {
        if header.loosen() {
            return false;
        }
        // Acquire: partner is the Release with which it was declared dead.
        if header.state.load(Acquire) & DEAD == 0 {
            return true;
        }
        self.retire(slot);
        false
    }

    #[inline(always)]
    pub(crate) fn is_empty(&mut self, queue: &Queue) -> bool {
        queue.is_empty(self.segments, self.buffers)
    }

    #[inline(always)]
    pub(crate) fn retire(&mut self, slot: u32) {
        if !self.headers.leaves_queue(slot) {
            return;
        }
        if self.reclaim.weighs() {
            let weight = self.headers.weight(slot);
            self.buffers.retired_weight = self.buffers.retired_weight.wrapping_add(weight);
        }
        self.reclaim.retire(self.segments, self.buffers, slot);
    }

    /// The hash of the key in a slot that this thread has taken. Hashing runs user code: if that
    /// panics, the slot is put back.
    #[inline(always)]
    pub(crate) fn hash_of_taken(&mut self, slot: u32, put_back: impl FnOnce(&mut Self)) -> u64 {
        let unhashed = Ensure::new(self, put_back);
        let outside = Outside::new(unhashed.on.outside);
        let hash = unhashed.on.headers.hash(slot);
        drop(outside);
        unhashed.waive();
        hash
    }

    /// Whether a slot, just queued, was declared dead meanwhile; or holds another entry by now that
    /// was.
    #[inline(always)]
    pub(crate) fn has_died(&self, slot: SlotRef<'_>) -> bool {
        has_died(slot)
    }

    /// Takes over the entries of these queues in other stripes' hands, unless their owners are at
    /// work.
    #[cold]
    fn gather(&mut self, queues: &[Queue]) {
        self.headers.each_idle(&mut |other| queues.iter().for_each(|queue| queue.flush(other)));
    }
}

/// [`QueueCtx::has_died`].
#[inline(always)]
fn has_died(slot: SlotRef<'_>) -> bool {
    // Partner: the heavy fence of `Order::detach_late`.
    fence::light();
    slot.header.state.load(Relaxed) & DEAD != 0
}

/// The policy of a cache, among threads.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a cache; the default is the largest")]
pub(crate) enum Order {
    /// Evicts the oldest entry. A hit leaves no mark.
    Fifo(Queue),
    /// FIFO with second chances; marks up to the number.
    Clock(Queue, u8),
    Mobius(Mobius),
    S3Fifo(Box<S3Fifo>),
    /// Any other.
    Locked(Box<Locked>),
}

/// Whether a policy runs under a lock.
pub(crate) fn takes_lock(policy: Online) -> bool {
    !matches!(policy, Online::Fifo | Online::Clock { .. } | Online::Mobius | Online::S3Fifo)
}

/// Whether a hit is reported to a policy under its lock.
pub(crate) fn hit_takes_lock(policy: Online) -> bool {
    takes_lock(policy) && !locked::marks(policy)
}

impl Order {
    /// The policy of a cache of this capacity, for `entries_max` expected entries. Mobius moves
    /// runs of survivors as one if it `detects_runs`.
    pub(crate) fn new(
        (policy, detects_runs): (Online, bool),
        (promotion, shards): (Promotion, u32),
        capacity: u64,
        entries_max: u64,
    ) -> Self {
        match policy {
            Online::Fifo => Order::Fifo(Queue::new(End::First)),
            Online::Clock { bits } => {
                Order::Clock(Queue::new(End::First), (1 << bits.clamp(1, 2)) - 1)
            }
            Online::Mobius => Order::Mobius(Mobius::new(detects_runs)),
            Online::S3Fifo => Order::S3Fifo(Box::new(S3Fifo::new(capacity))),
            policy => Order::Locked(Box::new(Locked::new(
                policy,
                promotion,
                shards,
                capacity,
                entries_max,
            ))),
        }
    }

    /// The fewest slots in a segment of `length` words, except those in hand.
    pub(crate) fn slots_in_segment(&self, length: u32) -> u32 {
        match self {
            Order::Mobius(mobius) if mobius.moves_one_by_one() => 1,
            _ => length,
        }
    }

    /// How far a hit raises the mark; 0 where a hit leaves none.
    pub(crate) fn mark_max(&self) -> u8 {
        match self {
            Order::Fifo(_) => 0,
            Order::Clock(_, max) => *max,
            Order::Mobius(_) => 1,
            // Never reached, so each hit is reported to the policy: marks hold epochs here, which
            // stay below `notes::TURN`.
            Order::Locked(locked) => locked.mark_max().unwrap_or(u8::MAX),
            Order::S3Fifo(_) => s3_fifo::MAX_COUNT,
        }
    }

    /// Whether the policy uses the duration of fetches, and their waiters.
    #[inline(always)]
    #[cfg(feature = "loading")]
    pub(crate) fn weighs_delay(&self) -> bool {
        matches!(self, Order::Locked(locked) if locked.weighs_delay())
    }

    /// Follows a change of the capacity; the caller evicts the excess. The buffers are those of the
    /// calling thread. One thread at a time.
    pub(crate) fn set_capacity(&self, buffers: &Buffers, capacity: u64, entries_max: u64) {
        match self {
            Order::S3Fifo(s3_fifo) => s3_fifo.set_capacity(buffers, capacity),
            Order::Locked(locked) => locked.set_capacity(capacity, entries_max),
            Order::Fifo(_) | Order::Clock(..) | Order::Mobius(_) => {}
        }
    }

    /// An operation begins in which a policy may read the time: before anything is changed, and
    /// under no lock, because a clock may be user code.
    #[inline(always)]
    pub(crate) fn read_clock<H: Headers>(&self, headers: &H) {
        if let Order::Locked(locked) = self {
            locked.read_clock(headers);
        }
    }

    /// An absent key is about to be admitted, with this priority. Returns the policy's data of it.
    #[inline(always)]
    pub(crate) fn recall(&self, buffers: &Buffers, hash: u64, priority: Priority) -> u32 {
        match self {
            Order::S3Fifo(s3_fifo) => {
                u32::from(s3_fifo.recall(buffers, hash) || priority == Priority::High)
            }
            _ => 0,
        }
    }

    /// A new entry that was missed is not admitted after all.
    pub(crate) fn forget(&self, newcomer: &Newcomer) {
        if let Order::Locked(locked) = self {
            locked.forget(newcomer);
        }
    }

    /// A requested object is too heavy to be admitted.
    #[cold]
    pub(crate) fn pass_over<H: Headers>(&self, headers: &H, hash: u64, weight: u64) {
        if let Order::Locked(locked) = self {
            locked.pass_over(headers, hash, weight);
        }
    }

    /// Admits a published slot.
    #[inline(always)]
    pub(crate) fn insert<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        slot: SlotRef<'_>,
        newcomer: &Newcomer,
    ) {
        let priority = ctx.headers.priority(slot.slot);
        let has_queue = !matches!(self, Order::Fifo(_) | Order::Locked(_));
        if priority == Priority::Bottom && has_queue && bottom::insert(ctx, slot) {
            return;
        }
        if priority == Priority::High && has_queue {
            // As if it had been hit.
            slot.header.mark.raise(self.mark_max());
        }
        self.enter(ctx, slot, newcomer, priority);
    }

    /// Queues a slot where the policy puts a new entry.
    #[inline(always)]
    fn enter<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        slot: SlotRef<'_>,
        newcomer: &Newcomer,
        priority: Priority,
    ) {
        match self {
            Order::Fifo(queue) | Order::Clock(queue, _) => ctx.push(queue, slot),
            Order::Mobius(mobius) => mobius.insert(ctx, slot),
            Order::S3Fifo(s3_fifo) => s3_fifo.insert(ctx, slot, newcomer, priority),
            Order::Locked(locked) => locked.insert(ctx, slot.slot, newcomer, priority),
        }
        if ctx.segments.step() < ctx.segments.length() {
            self.publish_steps(ctx);
        }
    }

    /// Publishes the entries that this thread has queued, if the capacity is small compared with
    /// segments. At the end of an insertion: afterwards segments are stocked again.
    #[cold]
    fn publish_steps<H>(&self, ctx: &mut QueueCtx<'_, H>) {
        for queue in self.queues() {
            queue.publish_step(ctx.segments, ctx.buffers);
        }
    }

    /// Queues a victim that could not be evicted.
    #[cold]
    pub(crate) fn put_back<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32) {
        self.put_back_as(ctx, slot, Priority::Low);
    }

    #[cold]
    fn put_back_as<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32, priority: Priority) {
        // A policy under a lock has forgotten the slot and its place: to it this is another
        // object. Not the key's hash: its panic may be why the slot is put back.
        let hash = u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let newcomer = Newcomer::new(hash, ctx.headers.weight(slot));
        newcomer.recalled.set(u32::from(matches!(self, Order::S3Fifo(_))));
        let slot = ctx.headers.slot_ref(slot);
        slot.header.mark.clear();
        self.enter(ctx, slot, &newcomer, priority);
    }

    /// Chooses and takes a victim, as the policy does. Ends after as many second chances as there
    /// are slots.
    #[inline(always)]
    fn evict_own<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        match self {
            Order::Fifo(queue) => evict_oldest(ctx, queue),
            Order::Clock(queue, max) => evict_clock(ctx, queue, *max),
            Order::Mobius(mobius) => mobius.evict(ctx),
            Order::S3Fifo(s3_fifo) => s3_fifo.evict(ctx, newcomer),
            Order::Locked(locked) => self.evict_locked(ctx, locked, newcomer),
        }
    }

    /// The same for a policy under a lock, which removes held entries and inserts them again: with
    /// LRU that equals a hit, except for the first few with the lowest priority.
    #[inline(always)]
    fn evict_locked<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        locked: &Locked,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        let mut held = PassedOver::default();
        // In hand until there is a victim; otherwise the policy would choose them again.
        let (mut lowest, mut count) = ([0; bottom::HELD_FIRST as usize], 0);
        let decision = loop {
            let decision = locked.evict(ctx, newcomer);
            let Decision::Victim(victim) = decision else { break held.or(decision) };
            if ctx.headers.claim(victim) {
                break decision;
            }
            let is_lowest = ctx.headers.priority(victim) == Priority::Bottom;
            if is_lowest && let Some(kept) = lowest.get_mut(count) {
                *kept = victim;
                count += 1;
            } else {
                self.put_back_held(ctx, victim, Priority::Low);
            }
            // Others, beside those in hand.
            if held.is_too_many(victim, ctx.headers.held_max() + count as u32) {
                break Decision::Held;
            }
        };
        for &victim in &lowest[..count] {
            self.put_back_held(ctx, victim, Priority::Bottom);
        }
        decision
    }

    /// Queues a slot that was skipped.
    fn put_back_held<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32, priority: Priority) {
        self.put_back_as(ctx, slot, priority);
        if ctx.has_died(ctx.headers.slot_ref(slot)) {
            ctx.reclaim.note_left_dead();
        }
    }

    /// Takes an unlinked slot out of the middle. False if another thread owns it, which will
    /// find it dead.
    pub(crate) fn detach<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32) -> bool {
        if let Order::Locked(locked) = self {
            return locked.detach(ctx, slot);
        }
        let queued = Position::of(ctx.headers.header(slot));
        // Acquire: partner is the Release of `Queue::push`.
        let word = ctx.segments.word(queued.position());
        let taken = word.compare_exchange(slot | queued.mark(), 0, AcqRel, Relaxed).is_ok();
        if let (true, Order::S3Fifo(s3_fifo)) = (taken, self) {
            s3_fifo.detached(ctx, ctx.headers.weight(slot), queued.mark());
        }
        taken
    }

    /// Takes out a slot that the caller has declared dead, protects, and found in no queue: another
    /// thread owns it, or has yet to queue it. False if that thread finds it dead.
    pub(crate) fn detach_late<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, slot: u32) -> bool {
        // That thread is some 50 ns away, in most cases, and the fence takes microseconds.
        for _ in 0..if CHECKED { 0 } else { 3 } {
            (0..32).for_each(|_| std::hint::spin_loop());
            if self.detach(ctx, slot) {
                return true;
            }
        }
        // Partner: the light fence of `QueueCtx::has_died`. Either that thread finds it dead, or
        // this one finds it queued.
        fence::heavy();
        self.detach(ctx, slot)
    }

    /// Puts a published slot in the place of the unlinked one that it replaces. False if another
    /// thread owns the old one.
    pub(crate) fn replace<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        old: u32,
        new: u32,
    ) -> bool {
        if let Order::Locked(locked) = self {
            return locked.replace(ctx, old, new);
        }
        let queued = Position::of(ctx.headers.header(old));
        // Before the word, after which any thread may take the new slot.
        queued.note(ctx.headers.header(new));
        let weight = ctx.headers.weight(new);
        let (word, mark) = (ctx.segments.word(queued.position()), queued.mark());
        // Release: the data stored for the new slot; partner is the exchange in `pop`.
        let replaced = word.compare_exchange(old | mark, new | mark, AcqRel, Relaxed).is_ok();
        if let (true, Order::S3Fifo(s3_fifo)) = (replaced, self) {
            s3_fifo.reweighed(ctx, old, weight, mark);
        }
        replaced
    }

    /// Publishes the entries that a stripe owns.
    pub(crate) fn flush<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>) {
        for queue in self.queues().iter().chain(ctx.headers.bottom()) {
            queue.flush(ctx.buffers);
        }
        if let Order::S3Fifo(s3_fifo) = self {
            s3_fifo.report_all(ctx.buffers);
        }
    }

    /// Packs the queues, in which removals have left holes, and retires their dead slots: without
    /// evictions nothing else would. Returns whether it retired all; some stay if there was no
    /// segment for them, but there are more segments now.
    pub(crate) fn compact<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>) -> bool {
        let QueueCtx { segments, reclaim, headers, outside, .. } = *ctx;
        let buffers = &mut *ctx.buffers;
        let mut all = buffers.spares.stock(segments, &mut buffers.traffic);
        for queue in self.queues().iter().chain(headers.bottom()) {
            let mark = queue.mark();
            let takes = |buffers: &mut Buffers, slot| {
                // A segment for those that stay in the queue, and one for those that leave.
                let spare = buffers.retired.segment != 0 || buffers.spares.held().len() > 1;
                // Acquire: partner is the Release with which it was declared dead.
                let dead = headers.header(slot).state.load(Acquire) & DEAD != 0;
                // Before any thread may take it.
                let weight = headers.weight(slot);
                let gone = spare && (dead || headers.header(slot).loosen());
                all &= gone || !dead;
                if gone {
                    let mut ctx = QueueCtx { segments, reclaim, headers, buffers, outside };
                    if let Order::S3Fifo(s3_fifo) = self {
                        s3_fifo.detached(&mut ctx, weight, mark);
                    }
                    if dead {
                        ctx.retire(slot);
                    }
                }
                gone
            };
            queue.compact(segments, ctx.buffers, headers, takes, |slot| {
                // As in `push_again`.
                if has_died(slot) {
                    reclaim.note_left_dead();
                }
            });
        }
        match self {
            Order::Locked(locked) => locked.remove_dead(ctx),
            _ => all,
        }
    }

    /// The lock-free queues of the policy.
    pub(crate) fn queues(&self) -> &[Queue] {
        match self {
            Order::Fifo(queue) | Order::Clock(queue, _) => std::slice::from_ref(queue),
            Order::Mobius(mobius) => mobius.queues(),
            Order::S3Fifo(s3_fifo) => s3_fifo.queues(),
            Order::Locked(_) => &[],
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let queues: usize = self.queues().iter().map(Queue::heap_bytes).sum();
        queues
            + match self {
                Order::S3Fifo(s3_fifo) => s3_fifo.heap_bytes(),
                Order::Locked(locked) => locked.heap_bytes(),
                _ => 0,
            }
    }
}

/// Held slots that an eviction skips.
pub(crate) const HELD_MAX: u32 = if CHECKED { 4 } else { 64 };
/// The same if one has given up recently and new entries are admitted beyond the capacity. While
/// everything is held, an insertion with LRU, which takes its lock for each, needs 2 us instead of
/// 11.
pub(crate) const HELD_MAX_AGAIN: u32 = if CHECKED { 2 } else { 8 };

#[cfg(test)]
std::thread_local! {
    /// Number of held slots that evictions of this thread have skipped.
    pub(crate) static PASSED_OVER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The held slots that an eviction has skipped. In caches without handles there are none, and this
/// compiles to nothing.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    count: u32,
    /// 0 if there is none.
    first: u32,
}

impl PassedOver {
    /// One more was skipped. Returns whether these are `max`, or it is the first again: then
    /// everything that this thread can reach is held. During its lap others find the queues empty.
    #[inline(always)]
    pub(crate) fn is_too_many(&mut self, slot: u32, max: u32) -> bool {
        #[cfg(test)]
        PASSED_OVER.set(PASSED_OVER.get() + 1);
        self.count += 1;
        let is_first_again = self.first == slot;
        if self.first == 0 {
            self.first = slot;
        }
        self.count >= max || is_first_again
    }

    /// A mark was lowered: an eviction may find a victim the next time round.
    #[inline(always)]
    pub(crate) fn go_round_again(&mut self) {
        self.first = 0;
    }

    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// The result if everything is held.
    #[inline(always)]
    pub(crate) fn or(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Empty if self.count > 0 => Decision::Held,
            decision => decision,
        }
    }
}

/// FIFO: the oldest that is not held.
#[inline(always)]
fn evict_oldest<H: Headers>(ctx: &mut QueueCtx<'_, H>, queue: &Queue) -> Decision {
    let mut held = PassedOver::default();
    while let Some(candidate) = ctx.pop(queue) {
        if ctx.headers.claim(candidate.slot) {
            return Decision::Victim(candidate.slot);
        }
        ctx.push_again(queue, candidate);
        if held.is_too_many(candidate.slot, ctx.headers.held_max()) {
            return Decision::Held;
        }
    }
    held.or(Decision::Empty)
}

/// CLOCK: a marked candidate loses one mark and goes back to the end.
#[inline(always)]
fn evict_clock<H: Headers>(ctx: &mut QueueCtx<'_, H>, queue: &Queue, max: u8) -> Decision {
    let mut chances = ctx.reclaim.slots() * u64::from(max);
    let mut held = PassedOver::default();
    while let Some(candidate) = ctx.pop(queue) {
        if chances == 0 || !candidate.header.mark.lower() {
            if ctx.headers.claim(candidate.slot) {
                return Decision::Victim(candidate.slot);
            }
            ctx.push_again(queue, candidate);
            if held.is_too_many(candidate.slot, ctx.headers.held_max()) {
                return Decision::Held;
            }
            continue;
        }
        chances -= 1;
        held.go_round_again();
        ctx.push_again(queue, candidate);
    }
    held.or(Decision::Empty)
}

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::Bench;
    use super::*;

    #[test]
    fn an_eviction_goes_round_what_is_held_once() {
        let mut held = PassedOver::default();
        assert!(held.is_none());
        let passed = (1..=8).chain([1]).map(|slot| held.is_too_many(slot, 64));
        assert_eq!(passed.filter(|&is_too_many| is_too_many).count(), 1, "the first again");
        let mut held = PassedOver::default();
        let passed = (1..).take_while(|&slot| !held.is_too_many(slot, 64));
        assert_eq!(passed.count(), 63, "they are as many as may be");
    }

    /// The thread that ended its residency did not find it, and no thread may reach it in its
    /// queue.
    #[test]
    fn a_slot_that_died_in_hand_is_noted_when_it_is_queued_again() {
        let (bench, mut buffers) = (Bench::new(8, 4), Buffers::default());
        let queue = Queue::new(End::First);
        let mut ctx = bench.ctx(&mut buffers);
        for dies in [false, true] {
            ctx.push(&queue, bench.headers.slot_ref(1));
            let taken = ctx.pop(&queue).expect("it was queued");
            if dies {
                taken.header.state.store(DEAD, Relaxed);
            }
            ctx.push_again(&queue, taken);
            assert_eq!(bench.reclaim.takes_left_dead(), dies);
            assert_eq!(ctx.pop(&queue).is_none(), dies, "the dead are retired");
        }
    }

    /// The word that a slot was queued in may become the word that it is retired in.
    #[test]
    fn a_retired_slot_is_not_taken_for_a_queued_one() {
        for policy in [Online::Fifo, Online::Mobius, Online::S3Fifo] {
            let (bench, mut buffers) = (Bench::new(8, 1), Buffers::default());
            let order = Order::new((policy, true), (Promotion::of(policy), 1), 8, 8);
            let newcomer = Newcomer::new(0, 1);
            for slot in [1, 2] {
                order.insert(&mut bench.ctx(&mut buffers), bench.headers.slot_ref(slot), &newcomer);
            }
            let mut evict = || order.evict(&mut bench.ctx(&mut buffers), None);
            while evict() != Decision::Empty {}
            let mut ctx = bench.ctx(&mut buffers);
            let left = Position::of(bench.headers.header(1)).position();
            // Into every empty segment, including its previous one.
            while bench.segments.word(left).load(Relaxed) == 0 {
                ctx.retire(1);
                assert!(
                    ctx.buffers
                        .spares
                        .stock(&bench.segments, &mut crate::smr::stripe::Traffic::default())
                );
            }
            assert!(!order.replace(&mut ctx, 1, 3), "{policy}");
            assert!(!order.detach(&mut ctx, 1), "{policy}");
        }
    }
}
