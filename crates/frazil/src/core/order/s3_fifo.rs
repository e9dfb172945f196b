//! S3-FIFO among threads: a small queue, a main queue and a shared ghost, without locks.
//!
//! Its plain form and oracle is `frazil_policy::S3Fifo`, and the two share the ghost. How
//! much the small queue holds, and how much it has evicted (the ghost's clock), are sums over the
//! threads. Each thread adds up its own changes, and publishes them once they are large enough, so
//! it writes the shared lines once for a batch. One thread alone always knows the sums exactly.

use std::sync::OnceLock;

use frazil_policy::{AgedGhost, Priority};

use super::queue::{End, Queue};
use super::{Decision, Headers, Newcomer, PassedOver, QueueCtx};
use crate::core::local::Buffers;
use crate::core::slab::SlotRef;
use crate::smr::reclaim::Reclaim;
use crate::smr::segments::SECOND;
use crate::sync::Line;
use crate::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

pub(crate) const SMALL: usize = 0;
const MAIN: usize = 1;
pub(crate) const MAX_COUNT: u8 = 3;
pub(crate) const PROMOTED_FROM: u8 = 2;

/// The sums to which a stripe's unreported changes belong.
pub(crate) const WEIGHT: usize = 0;
const CLOCK: usize = 1;

/// A table holds at least 57 ghosts, and a larger one replaces it.
const TABLES: usize = 26;

/// Hashes evicted from the small queue. With weights the number of entries is not known beforehand,
/// and the capacity may change. When there may be more ghosts than fit a table, a larger one takes
/// the new ghosts, and look-ups also check the previous one.
#[derive(Debug, Default)]
struct Ghosts {
    /// Made with the first ghost. All but the first have twice the room of the one before.
    tables: OnceLock<Box<[OnceLock<AgedGhost>; TABLES]>>,
    made: AtomicUsize,
}

impl Ghosts {
    /// The last table and the one before, as far as there are any.
    #[inline(always)]
    fn last_two(&self) -> impl Iterator<Item = &AgedGhost> {
        // Acquire: partner is the Release of `make`.
        let made = self.made.load(Acquire);
        let tables = self.tables.get().map_or(&[][..], |tables| &tables[..made]);
        tables.iter().rev().take(2).filter_map(OnceLock::get)
    }

    /// Makes a table with room for `expected` ghosts, and for `more`, unless another thread has.
    #[cold]
    #[inline(never)]
    fn make(&self, window: u64, expected: u64, more: u64) -> &AgedGhost {
        let tables = self.tables.get_or_init(Box::default);
        let made = self.made.load(Acquire);
        let mut room = expected + more;
        if let Some(last) = made.checked_sub(1).and_then(|last| tables[last].get()) {
            if expected <= last.room() || made == TABLES {
                return last;
            }
            room = room.max(2 * last.room());
        }
        let ghosts = tables[made].get_or_init(|| AgedGhost::new(window, room));
        // Two threads may have made the same one. Release: partner is the Acquire of `last_two`.
        self.made.fetch_max(made + 1, Release);
        ghosts
    }

    fn heap_bytes(&self) -> usize {
        let Some(tables) = self.tables.get() else { return 0 };
        size_of_val(&**tables)
            + tables.iter().filter_map(OnceLock::get).map(AgedGhost::bytes).sum::<usize>()
    }
}

#[cfg(test)]
std::thread_local! {
    /// Number of times that this thread has gone through all ghosts.
    pub(crate) static WINDOWS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[derive(Debug)]
pub(crate) struct S3Fifo {
    queues: [Queue; 2],
    small_capacity: AtomicU64,
    ghosts: Ghosts,
    /// The evicted weight that ghosts remember: the capacity.
    window: AtomicU64,
    /// Weight in the small queue, and weight evicted from it; both wrap.
    sums: [Line<AtomicU64>; 2],
    /// The largest change that a thread keeps unpublished.
    discretion: AtomicU64,
    /// Whether no eviction was needed yet at this capacity.
    filling: AtomicBool,
}

impl S3Fifo {
    pub(crate) fn new(capacity: u64) -> Self {
        let small_capacity = small_share(capacity);
        S3Fifo {
            queues: [Queue::new(End::First), Queue::new(End::Second)],
            small_capacity: AtomicU64::new(small_capacity),
            ghosts: Ghosts::default(),
            window: AtomicU64::new(capacity),
            sums: Default::default(),
            discretion: AtomicU64::new(discretion(small_capacity)),
            filling: AtomicBool::new(true),
        }
    }

    /// Divides another capacity. One thread at a time.
    pub(crate) fn set_capacity(&self, buffers: &Buffers, capacity: u64) {
        let before = self.window.load(Relaxed);
        if capacity == before {
            return;
        }
        let small_capacity = small_share(capacity);
        if capacity > before {
            self.filling.store(true, Relaxed);
        }
        self.window.store(capacity, Relaxed);
        self.small_capacity.store(small_capacity, Relaxed);
        self.discretion.store(discretion(small_capacity), Relaxed);
        let clock = self.sum(buffers, CLOCK);
        #[cfg(test)]
        WINDOWS.set(WINDOWS.get() + 1);
        self.ghosts.last_two().for_each(|ghosts| ghosts.set_window(capacity, clock));
    }

    #[inline(always)]
    fn small_capacity(&self) -> u64 {
        self.small_capacity.load(Relaxed)
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// A sum, as far as this thread knows it.
    #[inline(always)]
    fn sum(&self, buffers: &Buffers, which: usize) -> u64 {
        self.sums[which].0.load(Relaxed).wrapping_add(buffers.above.unreported[which])
    }

    /// Adds to a sum; a change that wraps is a subtraction.
    #[inline(always)]
    fn add(&self, buffers: &mut Buffers, which: usize, change: u64) {
        let unreported = &mut buffers.above.unreported[which];
        *unreported = unreported.wrapping_add(change);
        if (*unreported).cast_signed().unsigned_abs() > self.discretion.load(Relaxed) {
            self.sums[which].0.fetch_add(std::mem::take(unreported), Relaxed);
            buffers.traffic.writes += 1;
        }
    }

    /// Publishes all changes that a stripe has kept.
    pub(crate) fn report_all(&self, buffers: &mut Buffers) {
        for (sum, unreported) in self.sums.iter().zip(&mut buffers.above.unreported) {
            sum.0.fetch_add(std::mem::take(unreported), Relaxed);
            buffers.traffic.writes += 1;
        }
    }

    /// Weight in the small queue. Below zero for a moment while changes are unpublished; then 0.
    #[inline(always)]
    fn small_weight(&self, buffers: &Buffers) -> u64 {
        self.sum(buffers, WEIGHT).cast_signed().max(0).cast_unsigned()
    }

    #[inline(always)]
    pub(crate) fn recall(&self, buffers: &Buffers, hash: u64) -> bool {
        self.ghosts.last_two().any(|ghosts| ghosts.take(hash, self.sum(buffers, CLOCK)))
    }

    /// The table for the next ghost.
    #[inline(always)]
    fn ghosts(&self, reclaim: &Reclaim) -> &AgedGhost {
        let window = self.window.load(Relaxed);
        let weighs = reclaim.weighs();
        let expected = if weighs { reclaim.slots() } else { window };
        match self.ghosts.last_two().next() {
            Some(last) if expected <= last.room() => last,
            // The lighter the entries become the more there are.
            _ => self.ghosts.make(window, expected, if weighs { expected } else { 0 }),
        }
    }

    #[inline(always)]
    fn push<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, queue: usize, slot: SlotRef<'_>) {
        if queue == SMALL {
            self.add(ctx.buffers, WEIGHT, ctx.headers.weight(slot.slot));
        }
        ctx.push(&self.queues[queue], slot);
    }

    #[inline(always)]
    fn pop<'c, H: Headers>(&self, ctx: &mut QueueCtx<'c, H>, queue: usize) -> Option<SlotRef<'c>> {
        loop {
            let queued = &self.queues[queue];
            let slot = queued.pop(ctx.segments, ctx.buffers, ctx.headers)?;
            if queue == SMALL {
                self.add(ctx.buffers, WEIGHT, ctx.headers.weight(slot).wrapping_neg());
            }
            let slot = ctx.headers.slot_ref(slot);
            if ctx.is_to_be_judged(slot) {
                return Some(slot);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn insert<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        slot: SlotRef<'_>,
        newcomer: &Newcomer,
        priority: Priority,
    ) {
        let small_is_full = self.small_weight(ctx.buffers) >= self.small_capacity();
        let skips_trial = newcomer.recalled.get() != 0
            || priority == Priority::High
            || (small_is_full && self.filling.load(Relaxed));
        self.push(ctx, if skips_trial { MAIN } else { SMALL }, slot);
    }

    /// Whether to refuse a new entry that needs an eviction.
    #[inline(always)]
    pub(super) fn is_unwanted(&self, newcomer: &Newcomer) -> bool {
        newcomer.recalled.get() == 0 && newcomer.weight > self.small_capacity()
    }

    pub(crate) fn evict<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        newcomer: Option<&Newcomer>,
    ) -> Decision {
        if newcomer.is_some_and(|newcomer| self.is_unwanted(newcomer)) {
            return Decision::Refuse;
        }
        if self.filling.load(Relaxed) {
            self.filling.store(false, Relaxed);
        }
        let small_pays = self.small_weight(ctx.buffers) > self.small_capacity()
            || ctx.is_empty(&self.queues[MAIN]);
        let mut held = PassedOver::default();
        let victim = if small_pays {
            self.evict_small(ctx, &mut held).or_else(|| self.evict_main(ctx, &mut held))
        } else {
            // The small queue may promote all that it holds to a main that was empty.
            let victim = self.evict_main(ctx, &mut held);
            let victim = victim.or_else(|| self.evict_small(ctx, &mut held));
            victim.or_else(|| self.evict_main(ctx, &mut held))
        };
        victim.map_or_else(|| held.or(Decision::Empty), Decision::Victim)
    }

    /// Evicts from the small queue; `None` if all it held was promoted.
    #[inline(always)]
    fn evict_small<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        held: &mut PassedOver,
    ) -> Option<u32> {
        // Others may fill the queue meanwhile: no more than there are slots.
        for _ in 0..ctx.reclaim.slots() {
            let candidate = self.pop(ctx, SMALL)?;
            if candidate.header.mark.count() < PROMOTED_FROM {
                if !ctx.headers.claim(candidate.slot) {
                    // It is in use: it is promoted, and keeps its count.
                    ctx.push_again(&self.queues[MAIN], candidate);
                    if held.is_too_many(candidate.slot, ctx.headers.held_max()) {
                        return None;
                    }
                    continue;
                }
                let weight = ctx.headers.weight(candidate.slot);
                let clock = self.sum(ctx.buffers, CLOCK);
                let hash = ctx.hash_of_taken(candidate.slot, |ctx| {
                    ctx.headers.unclaim(candidate.slot);
                    self.push(ctx, MAIN, candidate);
                });
                let ghosts = self.ghosts(ctx.reclaim);
                ghosts.insert(hash, clock);
                self.add(ctx.buffers, CLOCK, ghosts.advance(weight));
                return Some(candidate.slot);
            }
            candidate.header.mark.clear();
            held.go_round_again();
            ctx.push_again(&self.queues[MAIN], candidate);
        }
        None
    }

    #[inline(always)]
    fn evict_main<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        held: &mut PassedOver,
    ) -> Option<u32> {
        // Bounded even while readers raise marks as fast as they are lowered.
        let mut chances = ctx.reclaim.slots() * u64::from(MAX_COUNT);
        while let Some(candidate) = self.pop(ctx, MAIN) {
            if chances == 0 || !candidate.header.mark.lower() {
                if ctx.headers.claim(candidate.slot) {
                    return Some(candidate.slot);
                }
                ctx.push_again(&self.queues[MAIN], candidate);
                if held.is_too_many(candidate.slot, ctx.headers.held_max()) {
                    return None;
                }
                continue;
            }
            chances -= 1;
            held.go_round_again();
            ctx.push_again(&self.queues[MAIN], candidate);
        }
        None
    }

    /// A slot was taken out of the middle of the queue with this mark.
    pub(crate) fn detached<H: Headers>(&self, ctx: &mut QueueCtx<'_, H>, weight: u64, mark: u32) {
        if mark != SECOND {
            self.add(ctx.buffers, WEIGHT, weight.wrapping_neg());
        }
    }

    /// A slot of this weight was put in the place of another in the queue with this mark.
    pub(crate) fn reweighed<H: Headers>(
        &self,
        ctx: &mut QueueCtx<'_, H>,
        old: u32,
        weight: u64,
        mark: u32,
    ) {
        if mark != SECOND {
            let change = weight.wrapping_sub(ctx.headers.weight(old));
            self.add(ctx.buffers, WEIGHT, change);
        }
    }

    /// The weight in the small queue, as published by all threads.
    pub(crate) fn told_small_weight(&self) -> u64 {
        self.sums[WEIGHT].0.load(Relaxed)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ghosts.heap_bytes()
    }
}

/// Capacity of the small queue.
fn small_share(capacity: u64) -> u64 {
    (capacity / 10).max(1)
}

fn discretion(small_capacity: u64) -> u64 {
    (small_capacity / 64).min(u64::from(u32::MAX))
}
