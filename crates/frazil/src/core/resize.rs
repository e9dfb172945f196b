//! The capacity at run time, and what depends on it.
//!
//! Table, slots and queues grow with the number of entries (`docs/design/growth.md`). Credit bounds
//! the entries. To grow the capacity puts credit into circulation. To shrink it takes credit out:
//! first free credit and that in threads' hands, then the credit that evictions give back. At every
//! moment the weight of residents and the credit in circulation add up to the capacity in force,
//! which a shrinking lowers by the credit that it has taken out. So the bound always holds: it is
//! the old one at first, and the new one when the call returns.
//!
//! Evictions follow the policy, as for a new entry, [`AT_ONCE`] while the stripe is held. Between
//! these batches other threads proceed, the listener is called, and evicted entries are reclaimed.
//! No mutex is held meanwhile, because evictions run user code. *Turns* keep concurrent calls
//! apart: the call that began last decides; an earlier one finds that its turn is over and returns.

use std::hash::{BuildHasher, Hash};

use crate::core::hooks::Hooks;
use crate::core::local::Held;
use crate::core::order::{Decision, Headers as _};
use crate::core::steps::Steps;
use crate::core::{Core, Ending, SCAVENGES};
use crate::smr::refs::SlotRefs as _;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::sync::{CHECKED, Mutex};

/// Evictions while a stripe is held.
const AT_ONCE: u32 = if CHECKED { 2 } else { 32 };

/// Evictions by which an insertion goes on with a call that has left more in force than it was to.
const FURTHER: u32 = 4;

/// Times that such an insertion takes over the entries and credit of idle threads.
const GATHER_EVERY: u32 = if CHECKED { 1 } else { 256 };

/// The largest excess of the capacity in force, or of residents, over the requested capacity: sums
/// of a few such are below 2^64.
pub(crate) const EXCESS_MAX: u64 = 1 << 60;

/// Evictions of one call, for each slot there is: where all weigh something and others
/// insert no faster, one is enough.
const PASSES: u64 = 4;

/// Entries of a cache for each entry that a thread may own, within a segment.
const STEP_FROM: u64 = if CHECKED { 4 } else { 512 };
/// Weight of a cache for each unit that a thread may own.
pub(crate) const WEIGHT_STEP_FROM: u64 = 1024;

/// The most entries that a thread may own at the end of a queue, in a cache of so many:
/// they are hidden from the others. A power of two up to 16.
pub(crate) fn fitting_step(entries: u64) -> usize {
    1 << (entries / STEP_FROM).clamp(1, 16).ilog2()
}

/// The most entries of a cache whose table has capacity for so many.
pub(crate) fn entries_max_for(capacity: u64, room: u64, weighted: bool) -> u64 {
    match (capacity, weighted) {
        // An entry of weight 0 would fit into capacity 0.
        (0, _) => 0,
        (_, true) => room,
        (_, false) => capacity.min(room),
    }
}

#[cfg(test)]
std::thread_local! {
    /// How often this thread has let all that hangs on the capacity know it.
    static FOLLOWED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The right to change the capacity, and its range.
#[derive(Debug)]
pub(crate) struct Resize {
    /// The most entries that there can be, at most 2^29.
    room: u32,
    /// The expected number of entries; the buffers of threads depend on it.
    expected: u32,
    /// Number of calls. A thread that changes the capacity holds the lock, and runs no user code.
    turn: Mutex<u64>,
    /// The capacity last passed to all dependent parts.
    followed: AtomicU64,
    /// Insertions that continued a call.
    further: AtomicU32,
}

impl Resize {
    /// The most entries at any capacity.
    pub(crate) fn room(&self) -> u64 {
        self.room.into()
    }

    /// How many entries are expected.
    pub(crate) fn expected(&self) -> u64 {
        self.expected.into()
    }

    pub(crate) fn new(room: u64, expected: u64, capacity: u64) -> Self {
        Resize {
            room: room as u32,
            expected: expected as u32,
            turn: Mutex::new(0),
            followed: AtomicU64::new(capacity),
            further: AtomicU32::new(0),
        }
    }
}

/// The target of a call.
#[derive(Clone, Copy)]
struct Goal {
    turn: u64,
    capacity: u64,
    entries_max: u64,
}

/// The result of an attempt to withdraw credit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// None is too much any more, or another call decides.
    Ended,
    Some,
    None,
}

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Changes the capacity as far as possible, and returns the capacity then in force. Panics of
    /// user code wait in `steps`.
    pub(crate) fn set_capacity(&self, steps: &Steps<'_>, capacity: u64) -> u64 {
        let goal = self.begin_resize(capacity);
        self.shrink(steps, &goal);
        // The evicted entries are not needed here, but their slots may be.
        steps.take(|| self.reclaim());
        self.capacity()
    }

    /// Puts more credit into circulation than the capacity, for entries admitted beyond it. False
    /// if the capacity is 0, or there would be too much. The caller ensures that it is
    /// [withdrawn](Self::shrink_further) later.
    #[cold]
    pub(crate) fn exceed(&self, weight: u64) -> bool {
        let _turn = self.resize.turn.lock();
        let Some(weights) = &self.weights else { return false };
        let in_force = weights.capacity().saturating_add(weight);
        let may_exceed = in_force <= EXCESS_MAX;
        if may_exceed {
            weights.grow(in_force);
            // Fewer than there is room for only where the capacity is 0, and there may be none.
            self.entry_budget.grow((self.entry_budget.capacity() + 1).min(self.resize.room()));
        }
        may_exceed
    }

    /// Whether a new entry of this weight cannot be admitted, whatever is evicted.
    #[inline(always)]
    pub(crate) fn is_too_heavy(&self, weight: u64) -> bool {
        let entries_max = self.entry_budget.capacity();
        entries_max == 0 || self.weights.as_ref().is_some_and(|weights| weight > weights.capacity())
    }

    /// Takes a turn; raises the capacity if the target is higher.
    fn begin_resize(&self, capacity: u64) -> Goal {
        let held = self.hold();
        let mut turn = self.resize.turn.lock();
        *turn += 1;
        self.hooks.asked(capacity);
        let weighted = self.weights.is_some();
        let entries_max = entries_max_for(capacity, self.resize.room.into(), weighted);
        let capacity = if weighted { capacity } else { entries_max };
        let goal = Goal { turn: *turn, capacity, entries_max };
        self.follow(&held, &goal);
        self.entry_budget.grow(goal.entries_max);
        if let Some(weights) = &self.weights {
            weights.grow(goal.capacity);
        }
        goal
    }

    /// Passes the capacity to all dependent parts. The caller has the turn.
    fn follow(&self, held: &Held<'_, H::Local>, goal: &Goal) {
        #[cfg(test)]
        FOLLOWED.set(FOLLOWED.get() + 1);
        self.resize.followed.store(goal.capacity, Relaxed);
        // The number of weighed entries is not known beforehand.
        let weighted = self.weights.is_some();
        let entries =
            if weighted { goal.entries_max.min(self.resize.expected()) } else { goal.entries_max };
        self.order.set_capacity(held, goal.capacity, entries);
        let step = fitting_step(entries).min(self.segments.length() as usize);
        self.segments.set_step(step as u32);
        self.entry_budget.set_chunk(step as u64 - 1);
        if let Some(weights) = &self.weights {
            weights.set_chunk(goal.capacity / WEIGHT_STEP_FROM);
            self.reclaim.set_capacity(goal.capacity);
        }
    }

    /// Withdraws the excess credit, and evicts for it.
    fn shrink(&self, steps: &Steps<'_>, goal: &Goal) {
        if self.is_settled(goal) {
            return;
        }
        self.gather_credit();
        let (mut evictions, mut passed, mut idle) = (0, 0, 0);
        while evictions <= PASSES * self.reclaim.slots() {
            let operation = H::operation(self);
            let mut held = self.hold();
            let mut progress = self.take_back(&mut held, goal);
            let (mut evicted, mut refused) = (0, false);
            if progress != Progress::Ended {
                // A victim that cannot be hashed is put back; the next may go.
                let some = steps.take(|| self.evict_some(&mut held, goal, AT_ONCE));
                (evicted, refused) = some.unwrap_or((1, false));
                progress = self.take_back(&mut held, goal);
            }
            self.settle(&mut held);
            drop(held);
            drop(operation);
            steps.take(|| self.reclaim_if_due());
            evictions += u64::from(evicted);
            match progress {
                Progress::Ended => return,
                Progress::Some => idle = 0,
                Progress::None if evicted > 0 => {}
                // Behind the held entries there may be others: one lap, and those that were used
                // again.
                Progress::None
                    if H::Refs::COUNTED && refused && passed <= 2 * self.reclaim.slots() =>
                {
                    passed += u64::from(self.held_max());
                }
                // Other threads own the rest.
                Progress::None if idle < SCAVENGES => {
                    steps.take(|| self.scavenge(idle > 0));
                    idle += 1;
                }
                Progress::None => break,
            }
        }
        self.follow_in_force(&self.hold(), goal, |_, _| true);
    }

    /// Passes the capacity that a call has reached to all dependent parts, if it `is_far` from
    /// their present one.
    fn follow_in_force(
        &self,
        held: &Held<'_, H::Local>,
        goal: &Goal,
        is_far: impl FnOnce(u64, u64) -> bool,
    ) {
        let turn = self.resize.turn.lock();
        let (capacity, entries_max) = (self.capacity(), self.entry_budget.capacity());
        if *turn == goal.turn && is_far(capacity, self.resize.followed.load(Relaxed)) {
            self.follow(held, &Goal { capacity, entries_max, ..*goal });
        }
    }

    /// Goes on with the last call, by a few evictions, where that has left more in force than was
    /// `asked` for. The caller holds no stripe.
    #[cold]
    #[inline(never)]
    pub(crate) fn shrink_further(&self, asked: impl FnOnce() -> u64) {
        let goal = {
            let turn = self.resize.turn.lock();
            let (capacity, room) = (asked(), self.resize.room.into());
            let entries_max = entries_max_for(capacity, room, self.weights.is_some());
            Goal { turn: *turn, capacity, entries_max }
        };
        // Before anything is evicted for it. Not each time: it is a heavy fence for each thread
        // there is, and where all is held every insertion comes here.
        if self.resize.further.fetch_add(1, Relaxed).is_multiple_of(GATHER_EVERY) {
            self.empty_all();
        }
        let operation = H::operation(self);
        let mut held = self.hold();
        if self.take_back(&mut held, &goal) != Progress::Ended {
            self.evict_some(&mut held, &goal, FURTHER);
            self.take_back(&mut held, &goal);
        }
        // That walks S3-FIFO's ghost, under the turn, so it is not done for each insertion.
        self.follow_in_force(&held, &goal, |capacity, followed| match capacity == goal.capacity {
            true => capacity != followed,
            false => capacity / 2 > followed || capacity < followed / 2,
        });
        self.settle(&mut held);
        drop(held);
        drop(operation);
    }

    /// Credit in the hands of threads is cheaper than resident entries.
    fn gather_credit(&self) {
        for mut held in self.stripes.claims() {
            let buffers = &mut *held;
            self.entry_budget.flush(&mut buffers.above.entry_credit, &mut buffers.traffic);
            if let Some(weights) = &self.weights {
                weights.flush(&mut buffers.above.weight_credit, &mut buffers.traffic);
            }
        }
    }

    /// Whether nothing is too much.
    fn is_settled(&self, goal: &Goal) -> bool {
        let weight = self.weights.as_ref().map_or(0, |weights| weights.surplus(goal.capacity));
        self.entry_budget.surplus(goal.entries_max) == 0 && weight == 0
    }

    /// Evicts at most so many entries for their credit. Returns their number, and whether the
    /// policy has refused to continue.
    fn evict_some(&self, held: &mut Held<'_, H::Local>, goal: &Goal, most: u32) -> (u32, bool) {
        for evicted in 0..most {
            let weight = self.weights.as_ref().map_or(0, |weights| weights.surplus(goal.capacity));
            if held.above.entry_credit >= self.entry_budget.surplus(goal.entries_max)
                && held.above.weight_credit >= weight
            {
                return (evicted, false);
            }
            let buffers = &mut **held;
            if !buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                return (evicted, false);
            }
            match self.with_queue_ctx(held, |ctx| self.order.evict(ctx, None)) {
                Decision::Victim(victim) => _ = self.finish_eviction(held, victim, Ending::Evicted),
                Decision::Held => {
                    self.hooks.gave_up();
                    return (evicted, true);
                }
                Decision::Refuse => return (evicted, true),
                Decision::Empty => return (evicted, false),
            }
        }
        (most, false)
    }

    /// Withdraws excess credit, in hand and free.
    fn take_back(&self, held: &mut Held<'_, H::Local>, goal: &Goal) -> Progress {
        let buffers = &mut **held;
        let turn = self.resize.turn.lock();
        if *turn != goal.turn {
            return Progress::Ended;
        }
        let mut taken = self.entry_budget.withdraw(
            &mut buffers.above.entry_credit,
            goal.entries_max,
            &mut buffers.traffic,
        );
        if let Some(weights) = &self.weights {
            taken |= weights.withdraw(
                &mut buffers.above.weight_credit,
                goal.capacity,
                &mut buffers.traffic,
            );
        }
        if self.is_settled(goal) {
            Progress::Ended
        } else if taken > 0 {
            Progress::Some
        } else {
            Progress::None
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::core::resize::FOLLOWED;
    use crate::{HandleCache, Policy};

    #[test]
    fn insertions_beyond_the_capacity_do_not_divide_it_each_time() {
        let cache = HandleCache::builder(1_000).policy(Policy::S3Fifo).build();
        let held: Vec<_> = (0..1_000u64).map(|key| cache.insert_held(key, key, 1)).collect();
        assert_eq!(cache.set_capacity(100), 1_000, "all is held");
        let before = FOLLOWED.get();
        for key in 1_000..2_000 {
            cache.release(cache.insert_held(key, key, 1).expect("not strict").held, false);
        }
        assert_eq!(FOLLOWED.get(), before, "as much is in force as there was");
        drop(held);
        (2_000..3_000).for_each(|key| _ = cache.insert(key, key, 1));
        assert_eq!((cache.usage(), cache.core().capacity()), (100, 100));
        let followed = FOLLOWED.get() - before;
        assert!((1..=4).contains(&followed), "a thousand, five hundred, and so on: {followed}");
        assert_eq!(cache.core().resize.followed.load(super::Relaxed), 100);
    }
}
