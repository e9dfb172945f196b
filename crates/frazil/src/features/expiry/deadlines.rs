//! The deadline of each slot, and the timer wheels that find passed deadlines.
//!
//! Each slot has up to four numbers, 0 for none: the *deadline*, in the clock's nanoseconds; with
//! time to idle the *limit*, the end of the lifetime, beyond which use alone cannot move the
//! deadline; if reads decide lifetimes and there is a time to live, the *bound* of all their
//! answers; and the tick for which the slot is *listed* in a wheel.
//!
//! The deadline belongs to the residency. At the residency's end it is marked in its lowest bit,
//! and not cleared: otherwise a look-up that found the entry before would believe that it never
//! expires. The listing belongs to the slot and stays. At its tick the slot has a later deadline,
//! or none. So an insertion touches a wheel only if its deadline is earlier than the tick for which
//! its slot is listed. If all entries have the same lifetime this is rare.
//!
//! ```text
//! insertion                       wheel
//!   deadline = d                    listed = 0, under the lock
//!   light fence                     heavy fence
//!   listed = 0, or later than d?    deadline: none, later, or passed?
//!     then lock and list              then forget, list again, or expire
//! ```
//!
//! Whichever fence comes later sees the other side's store, so no slot is lost. Both sides may list
//! the slot: they do so under the lock, and the earlier tick stays. A read that moves a deadline to
//! an earlier time follows the protocol of an insertion. A read that moves it to a later time does
//! not change the listing.
//!
//! The slots are divided among wheels, 8,192 slots a wheel in large caches. A lock is held while 64
//! slots are handed out: some µs. A slot takes 24 bytes, and 8 more with time to idle, allocated at
//! its first use; a wheel takes 4 kB.

use std::time::Duration;

use super::generations::Generations;
use super::hints::Hints;
use super::wheel::{NEVER, Wheel};
use crate::chunks::Chunks;
use crate::clock::{BEGINNING, Clock, END, Horizon};
use crate::smr::fence;
use crate::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Mutex, MutexGuard, OwnLine};

/// The most slots that are checked under one lock.
pub(crate) const STEP: usize = 64;

/// Slots of a wheel, unless that makes too many wheels.
const SLOTS_A_WHEEL: u32 = 1 << 13;
/// The most wheels. A writer that finds nothing due has read a word of each.
const WHEELS_MAX: u32 = 256;
/// Neighbouring slots belong to one thread, and to one wheel.
const RUN_BITS: u32 = 4;

/// The mark of a deadline that needs no work.
const ENDED: u64 = 1;

/// A deadline that has passed before the cache was made.
const PASSED: u64 = 1;

/// A tick, about a millisecond: the precision of the wheel. Look-ups are exact.
const TICK: u64 = BEGINNING;

/// The tick of a time. A deadline may pass at any time within its tick.
pub(crate) fn tick_of(time: u64) -> u64 {
    (time / TICK).max(1)
}

/// When an entry expires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    deadline: u64,
    limit: u64,
    bound: u64,
    /// The clock's time at its insertion; 0 if no entry has ever had a lifetime.
    #[cfg(feature = "recording")]
    begun: u64,
}

impl Term {
    pub(crate) const NEVER: Term = Term {
        deadline: 0,
        limit: 0,
        bound: 0,
        #[cfg(feature = "recording")]
        begun: 0,
    };

    /// Its lifetime in a recording: 0 if no entry has ever had one.
    #[cfg(feature = "recording")]
    pub(crate) fn recorded_ns(&self) -> u64 {
        match self.limit {
            0 if self.begun == 0 => 0,
            0 => frazil_recording::FOR_EVER,
            limit => limit.saturating_sub(self.begun).max(1),
        }
    }
}

/// The builder's settings for all lifetimes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    /// The lifetime of entries, in nanoseconds; [`END`] for ever.
    pub(crate) live: u64,
    /// Their time to idle.
    pub(crate) idle: Option<u64>,
    /// Whether reads decide lifetimes.
    pub(crate) reads: bool,
}

/// A deadline, as a use read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The stored word.
    kept: u64,
    /// When it was seen.
    now: u64,
}

impl Seen {
    /// The time from then to the deadline; `None` if there is none.
    pub(crate) fn left(self) -> Option<Duration> {
        let deadline = self.kept >> 1;
        (deadline != 0).then(|| Duration::from_nanos(deadline.saturating_sub(self.now).max(1)))
    }
}

/// The effect of a use of its entry on a deadline.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// The time to idle, in nanoseconds.
    span: u64,
    /// Uses within this time move the deadline only once, so that move adds this time.
    grain: u64,
    /// The lag of the clock that decides whether they have passed.
    lag: u64,
}

/// Slots that a wheel has handed out to be checked.
pub(crate) struct Batch {
    wheel: usize,
    slots: [u32; STEP],
    count: usize,
}

impl Batch {
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.count]
    }
}

/// Made when the first slot is listed in it: 4 kB.
type LazyWheel = Option<Box<Wheel>>;

/// Every slot's deadline, and the wheels.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// Twice the time, and 1 more when the residency has ended.
    by_slot: Chunks<AtomicU64>,
    horizon: Horizon,
    pub(crate) hints: Hints,
    /// Empty without time to idle.
    limits: Chunks<AtomicU64>,
    /// Empty unless reads decide lifetimes and there is a time to live.
    bounds: Chunks<AtomicU64>,
    spans: Spans,
    /// How far the clock of look-ups may be behind.
    lag: u64,
    /// Written under the lock of the slot's wheel.
    listed: Chunks<AtomicU64>,
    idle: Option<Idle>,
    pub(crate) generations: Generations,
    wheels: Box<[OwnLine<Mutex<LazyWheel>>]>,
    /// Slots of a wheel.
    room: usize,
    /// For each wheel the tick at which slots are due, written under its lock and read without.
    /// They are adjacent, so that a writer checks all wheels with a few cache lines.
    next: Box<[AtomicU64]>,
    /// The last tick in which a writer found nothing due.
    quiet: OwnLine<AtomicU64>,
    /// The wheel that a writer should check first.
    first: AtomicU32,
}

impl Deadlines {
    /// Deadlines for expected slots up to `last`, with those below `used` already in use, and for
    /// entries with the given lifetime and time to idle.
    pub(crate) fn new(last: u32, used: u32, spans: Spans, clock: &Clock) -> Self {
        let (lag, live) = (clock.lag(), spans.live);
        let count = (last / SLOTS_A_WHEEL).next_power_of_two().clamp(1, WHEELS_MAX);
        let room =
            |slots: u32| (slots.div_ceil(1 << RUN_BITS).div_ceil(count) << RUN_BITS) as usize;
        // A slot that was never used has no number to list.
        let used = if used > 1 { room(used) } else { 0 };
        let idle = spans.idle.map(|span| Idle { span, grain: span / 64 + 2 * lag, lag });
        Deadlines {
            by_slot: Chunks::default(),
            horizon: Horizon::default(),
            hints: Hints::new(live, spans.idle),
            limits: Chunks::default(),
            bounds: Chunks::default(),
            spans,
            lag,
            listed: Chunks::default(),
            idle,
            generations: Generations::default(),
            wheels: (0..count).map(|_| OwnLine(Mutex::new(None))).collect(),
            room: used,
            next: (0..count).map(|_| AtomicU64::new(NEVER)).collect(),
            quiet: OwnLine::default(),
            first: AtomicU32::new(0),
        }
    }

    /// The deadline of an entry inserted now, whose lifetime is [`END`] if it has none.
    pub(crate) fn term(&self, now: u64, lifetime: u64) -> Term {
        self.term_until(now, after(now, lifetime))
    }

    /// The same for an entry whose lifetime ends at `limit`, or never if that is 0.
    pub(crate) fn term_until(&self, now: u64, limit: u64) -> Term {
        let idle = self.idle.as_ref().map_or(0, |idle| after(now, idle.span));
        // Its first lifetime stays: the bound limits only extensions by reads.
        let bound = if !self.has_bounds() || limit == 0 {
            0
        } else {
            after(now, self.spans.live).max(limit)
        };
        Term {
            deadline: earlier(limit, idle),
            limit,
            bound,
            #[cfg(feature = "recording")]
            begun: now,
        }
    }

    /// The deadline of a slot, or 0. `None` if it has passed.
    pub(crate) fn living(&self, slot: u32, clock: impl Fn() -> u64) -> Option<u64> {
        self.look(slot, clock).map(|(kept, _)| kept >> 1)
    }

    /// The stored deadline of a slot, and the time. `None` if it has passed, also for an ended
    /// residency: from then on it has passed for all threads, and a use that read the clock before
    /// does not revive the entry. `None` too if it was invalidated.
    fn look(&self, slot: u32, clock: impl Fn() -> u64) -> Option<(u64, u64)> {
        if self.generations.is_stale(slot) {
            return None;
        }
        loop {
            // Before the clock, so that an entry that another thread found expired is expired by it
            // too. Acquire: partner is the Release of `settle`.
            let kept = self.by_slot.get_or_make(slot).load(Acquire);
            let now = clock();
            if !is_over(kept >> 1, now) {
                return Some((kept, now));
            }
            // Each time round, a use has moved it.
            if self.settle(slot, kept) {
                return None;
            }
        }
    }

    /// Declares that the deadline `kept` has passed, so that no use moves it. False if one moved it
    /// before.
    fn settle(&self, slot: u32, kept: u64) -> bool {
        const OVER: u64 = PASSED << 1;
        // Release: the clock was read before; partner is the Acquire of `look`.
        let exchange = |by_slot: &AtomicU64| by_slot.compare_exchange(kept, OVER, Release, Relaxed);
        !(self.idle.is_some() || self.spans.reads)
            || kept & ENDED != 0
            || kept == OVER
            || exchange(self.by_slot.get_or_make(slot)).is_ok()
    }

    /// The deadline of a slot, or 0.
    pub(crate) fn deadline(&self, slot: u32) -> u64 {
        self.kept(slot) >> 1
    }

    /// The latest end of a slot's lifetime under any use, or 0.
    pub(crate) fn limit(&self, slot: u32) -> u64 {
        let limit = self.limits.get(slot).map(|limit| limit.load(Relaxed));
        limit.unwrap_or_else(|| self.deadline(slot))
    }

    /// The deadline of a slot, or 0 if its residency has ended.
    fn deadline_to_come(&self, slot: u32) -> u64 {
        match self.kept(slot) {
            kept if kept & ENDED != 0 => 0,
            kept => kept >> 1,
        }
    }

    /// Whether the entry of a slot must be removed.
    pub(crate) fn is_due(&self, slot: u32, now: u64) -> bool {
        self.deadline_to_come(slot) != 0 && self.living(slot, || now).is_none()
    }

    #[inline(always)]
    fn kept(&self, slot: u32) -> u64 {
        self.by_slot.get(slot).map_or(0, |by_slot| by_slot.load(Relaxed))
    }

    /// Whether the deadline of a slot is so far ahead that a use need neither read a clock nor move
    /// it.
    fn is_far(&self, slot: u32) -> bool {
        self.horizon.is_before(self.kept(slot))
    }

    /// Whether the deadline of a slot that is looked up has passed.
    pub(crate) fn passed_by<'h>(
        &self,
        slot: u32,
        clock: &Clock,
        hint: impl Fn(u32) -> &'h AtomicU16,
    ) -> bool {
        !self.is_yet_far(slot, clock, hint) && self.living(slot, || clock.coarse()).is_none()
    }

    /// The same for a slot being used: with time to idle its deadline may move. The caller protects
    /// the slot.
    pub(crate) fn passed_in_use<'h>(
        &self,
        slot: u32,
        clock: &Clock,
        hint: impl Fn(u32) -> &'h AtomicU16,
    ) -> bool {
        if self.is_yet_far(slot, clock, &hint) {
            return false;
        }
        let Some((kept, now)) = self.look(slot, || clock.coarse()) else { return true };
        if let Some(Idle { span, grain, lag }) = self.idle
            && kept & ENDED == 0
        {
            // With the time at which the entry was found: a later use has no effect.
            let (deadline, wanted) = (kept >> 1, now + span + grain);
            if wanted.saturating_sub(deadline) > grain.saturating_sub(lag) {
                self.postpone(slot, deadline, wanted, hint(slot));
            }
        }
        false
    }

    /// Whether a deadline is so far ahead that it need not be read; updates the hint.
    fn is_yet_far<'h>(
        &self,
        slot: u32,
        clock: &Clock,
        hint: impl Fn(u32) -> &'h AtomicU16,
    ) -> bool {
        if self.generations.is_stale(slot) {
            return false;
        }
        // If reads decide lifetimes, each read calls the user's function, so no hint is used.
        if !self.spans.reads {
            self.hints.renew(clock, &self.by_slot, &hint);
        }
        let is_far = self.is_far(slot);
        if is_far {
            self.hints.improve(hint(slot), self.deadline(slot));
        } else {
            self.horizon.renew(clock, self.idle.map_or(0, |idle| idle.span));
        }
        is_far
    }

    /// The deadline of a slot that is being read. `None` if it has passed.
    pub(crate) fn see(&self, slot: u32, clock: &Clock) -> Option<Seen> {
        self.look(slot, || clock.coarse()).map(|(kept, now)| Seen { kept, now })
    }

    /// Moves the deadline `seen` of a protected slot to the end of the lifetime that a read has
    /// returned. `None` keeps its lifetime, and still counts as a use. Of simultaneous reads the
    /// answer of one holds.
    pub(crate) fn answer(&self, slot: u32, seen: Seen, lifetime: Option<u64>) {
        let Seen { kept, now } = seen;
        if kept & ENDED != 0 {
            return;
        }
        // No earlier than by the exact clock.
        let from_now = |span| after(now + self.lag, span);
        let limit = match lifetime {
            None => self.limit(slot),
            Some(lifetime) => {
                let bound = self.bounds.get(slot).map_or(0, |bound| bound.load(Relaxed));
                earlier(from_now(lifetime), bound)
            }
        };
        let idle = self.idle.as_ref().map_or(0, |idle| from_now(idle.span));
        let (before, deadline) = (kept >> 1, earlier(limit, idle));
        let by_slot = self.by_slot.get_or_make(slot);
        // The exchange fails if the residency has ended, if another read has moved the deadline,
        // or if a thread has found it passed meanwhile.
        if deadline != before
            && by_slot.compare_exchange(kept, deadline << 1, Relaxed, Relaxed).is_err()
        {
            return;
        }
        if lifetime.is_some() && self.idle.is_some() {
            self.limits.get_or_make(slot).store(limit, Relaxed);
        }
        if deadline != 0 && (before == 0 || deadline < before) {
            self.list_if_late(slot, deadline);
        }
    }

    /// Moves a deadline to a later time, within its limit.
    fn postpone(&self, slot: u32, deadline: u64, wanted: u64, hint: &AtomicU16) {
        let limit = self.limits.get_or_make(slot).load(Relaxed);
        let wanted = if limit == 0 { wanted } else { limit.min(wanted) };
        // After the end of the residency it stays: the exchange fails, or the end overwrites it.
        if deadline != 0 && wanted > deadline {
            let by_slot = self.by_slot.get_or_make(slot);
            if by_slot.compare_exchange(deadline << 1, wanted << 1, Relaxed, Relaxed).is_ok() {
                // Afterwards, so that the hint never belongs to a later deadline.
                self.hints.improve(hint, wanted);
            }
        }
    }

    /// Begins the residency of a slot that the caller alone knows.
    #[inline(always)]
    pub(crate) fn begin(&self, slot: u32, term: Term, hint: &AtomicU16) {
        // Release: the header; partner is the thread that clears its hint.
        self.by_slot.get_or_make(slot).store(term.deadline << 1, Release);
        self.hints.begin(hint, term.deadline);
        self.generations.begin(slot);
        if self.idle.is_some() {
            self.limits.get_or_make(slot).store(term.limit, Relaxed);
        }
        if self.has_bounds() {
            self.bounds.get_or_make(slot).store(term.bound, Relaxed);
        }
        if term.deadline != 0 {
            self.list_if_late(slot, term.deadline);
        }
    }

    /// Lists a slot, if necessary, so that it is checked once this stored deadline has passed.
    #[inline(always)]
    fn list_if_late(&self, slot: u32, deadline: u64) {
        // Partner: the heavy fence between `take` and a look at the deadline.
        fence::light();
        let tick = tick_of(deadline);
        let listed = self.listed.get_or_make(slot).load(Relaxed);
        if listed == 0 || listed > tick {
            self.list(slot, tick);
        }
    }

    /// Whether slots have a bound for the answers of reads.
    fn has_bounds(&self) -> bool {
        self.spans.reads && self.spans.live < END
    }

    /// An entry was published and queued.
    #[inline(always)]
    pub(crate) fn queued(&self, slot: u32) {
        self.generations.queued(slot);
    }

    /// Ends a residency, before the slot may be used again.
    #[inline(always)]
    pub(crate) fn end(&self, slot: u32) {
        let kept = self.kept(slot);
        // A read may give a deadline to an entry without one.
        if kept != 0 || self.spans.reads {
            self.by_slot.get_or_make(slot).store(kept | ENDED, Relaxed);
        }
    }

    /// The wheel of a slot, and its number there.
    #[inline]
    fn in_wheel(&self, slot: u32) -> (usize, u32) {
        let (run, wheels) = (slot >> RUN_BITS, self.wheels.len());
        let at = (run >> wheels.trailing_zeros()) << RUN_BITS | slot & ((1 << RUN_BITS) - 1);
        (run as usize & (wheels - 1), at)
    }

    /// The slot of this number in a wheel.
    fn slot(&self, wheel: usize, at: u32) -> u32 {
        let run = (at >> RUN_BITS) << self.wheels.len().trailing_zeros() | wheel as u32;
        run << RUN_BITS | at & ((1 << RUN_BITS) - 1)
    }

    #[inline(never)]
    fn list(&self, slot: u32, tick: u64) {
        let (number, at) = self.in_wheel(slot);
        let mut wheel = self.wheels[number].0.lock();
        let wheel = wheel.get_or_insert_with(|| Box::new(Wheel::new(self.room)));
        // Past ticks come first; otherwise there is nothing.
        wheel.forward(self.quiet.0.load(Relaxed).saturating_sub(1));
        self.list_in(wheel, (slot, at), tick, false);
        self.next[number].store(wheel.next(), Relaxed);
    }

    /// Lists a slot for `tick`, unless it is listed for the same or an earlier one.
    fn list_in(&self, wheel: &mut Wheel, (slot, at): (u32, u32), tick: u64, later: bool) {
        let listed = self.listed.get_or_make(slot);
        let was = listed.load(Relaxed);
        if was != 0 && was <= tick {
            return;
        }
        if was != 0 {
            wheel.unlist(at, was);
        }
        if later {
            wheel.list_later(at);
        } else {
            wheel.list(at, tick);
        }
        listed.store(tick, Relaxed);
    }

    /// Whether a writer should check for due slots.
    #[inline(always)]
    pub(crate) fn is_time(&self, now: u64) -> bool {
        tick_of(now) > self.quiet.0.load(Relaxed)
    }

    /// Some slots that are due, for a writer, which waits for no other thread.
    pub(crate) fn take_due(&self, now: u64) -> Option<Batch> {
        let tick = tick_of(now);
        let first = self.first.load(Relaxed) as usize;
        let mut quiet = true;
        for number in 0..self.wheels.len() {
            let number = (first + number) & (self.wheels.len() - 1);
            // More deadlines may pass in this tick.
            if self.next[number].load(Relaxed) >= tick {
                continue;
            }
            if let Some(wheel) = self.wheels[number].0.try_lock() {
                let batch = self.take_from(number, wheel, tick - 1);
                if batch.count > 0 {
                    self.first.store(number as u32, Relaxed);
                    return Some(batch);
                }
            } else {
                quiet = false;
            }
        }
        if quiet {
            self.quiet.0.store(tick, Relaxed);
        }
        None
    }

    /// Number of wheels.
    pub(crate) fn wheels(&self) -> usize {
        self.wheels.len()
    }

    /// Number of batches that a wheel can hand out.
    pub(crate) fn batches(&self) -> usize {
        (self.listed.end() as usize).div_ceil(STEP) + 1
    }

    /// Makes a wheel hand out slots again that were checked too early.
    pub(crate) fn recall(&self, wheel: usize) {
        if let Some(wheel) = &mut *self.wheels[wheel].0.lock() {
            wheel.recall();
        }
    }

    /// Slots of a wheel that are due, or will be in this tick.
    pub(crate) fn take(&self, wheel: usize, now: u64) -> Option<Batch> {
        let batch = self.take_from(wheel, self.wheels[wheel].0.lock(), tick_of(now));
        (batch.count > 0).then_some(batch)
    }

    fn take_from(&self, number: usize, mut wheel: MutexGuard<'_, LazyWheel>, upto: u64) -> Batch {
        let mut batch = Batch { wheel: number, slots: [0; STEP], count: 0 };
        let Some(wheel) = &mut *wheel else { return batch };
        while batch.count < STEP
            && let Some(at) = wheel.pop(upto)
        {
            let slot = self.slot(number, at);
            self.listed.get_or_make(slot).store(0, Relaxed);
            batch.slots[batch.count] = slot;
            batch.count += 1;
        }
        self.next[number].store(wheel.next(), Relaxed);
        batch
    }

    /// Lists the slots of a batch again that still have a deadline. A passed deadline is listed for
    /// after a [recall](Self::recall) or the next tick, because the thread that has the slot in
    /// hand may put it back, and missing segments may be available then.
    pub(crate) fn list_again(&self, batch: &Batch, now: u64) {
        if batch.slots().iter().all(|&slot| self.deadline_to_come(slot) == 0) {
            return;
        }
        let mut wheel = self.wheels[batch.wheel].0.lock();
        let Some(wheel) = &mut *wheel else { return };
        for &slot in batch.slots() {
            let (deadline, at) = (self.deadline_to_come(slot), (slot, self.in_wheel(slot).1));
            let (tick, current) = (tick_of(deadline), wheel.current());
            if is_over(deadline, now) {
                self.list_in(wheel, at, current, true);
            } else if deadline != 0 {
                self.list_in(wheel, at, tick, tick <= current);
            }
        }
        self.next[batch.wheel].store(wheel.next(), Relaxed);
    }

    /// Whether every slot is listed in its place or not at all, and no later than it may
    /// be looked at; slots that are not resident have no deadline to come. For tests.
    pub(crate) fn check(&self, is_resident: impl Fn(u32) -> bool) -> Result<(), String> {
        let mut listed = vec![0; self.listed.end().max(self.by_slot.end()) as usize];
        let mut current = Vec::new();
        for (number, wheel) in self.wheels.iter().enumerate() {
            let wheel = wheel.0.lock();
            let Some(wheel) = &*wheel else {
                current.push(0);
                continue;
            };
            let tick_of = |at| self.listed.get_or_make(self.slot(number, at)).load(Relaxed);
            let slots = wheel.check(tick_of).map_err(|what| format!("wheel {number}: {what}"))?;
            slots.into_iter().for_each(|at| listed[self.slot(number, at) as usize] += 1);
            if self.next[number].load(Relaxed) > wheel.next() {
                return Err(format!("wheel {number} is looked at too late"));
            }
            current.push(wheel.current());
        }
        for (slot, count) in (0..).zip(listed) {
            let (deadline, tick) =
                (self.deadline_to_come(slot), self.listed.get_or_make(slot).load(Relaxed));
            if count != u32::from(tick != 0) {
                return Err(format!("slot {slot}, of tick {tick}, is listed {count} times"));
            }
            if deadline == 0 {
                continue;
            }
            // The time of a deadline that was found passed is no longer known.
            let latest = tick_of(deadline).max(current[self.in_wheel(slot).0] + 1);
            let moves = self.idle.is_some() || self.spans.reads;
            let late = tick > latest && !(moves && deadline == PASSED);
            if !is_resident(slot) || tick == 0 || late {
                return Err(format!("slot {slot}: deadline {deadline}, listed for tick {tick}"));
            }
        }
        Ok(())
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let by_slot = [&self.by_slot, &self.limits, &self.bounds, &self.listed];
        let by_slot: usize = by_slot.into_iter().map(Chunks::heap_bytes).sum();
        let made = |wheel: &Wheel| size_of::<Wheel>() + wheel.heap_bytes();
        let wheels: usize =
            self.wheels.iter().map(|wheel| wheel.0.lock().as_deref().map_or(0, made)).sum();
        let by_slot = by_slot + self.generations.heap_bytes();
        by_slot + wheels + size_of_val(&*self.wheels) + size_of_val(&*self.next)
    }
}

/// The end of a span that begins now, 0 if it has none.
#[inline(always)]
fn after(now: u64, span: u64) -> u64 {
    match span {
        0 => PASSED,
        END => 0,
        _ => now + span,
    }
}

/// The earlier of two ends; 0 means none.
#[inline(always)]
fn earlier(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one | other } else { one.min(other) }
}

/// Whether a deadline has passed; 0 never does.
#[inline(always)]
fn is_over(deadline: u64, now: u64) -> bool {
    deadline.wrapping_sub(1) < now
}
