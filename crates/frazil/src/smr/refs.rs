//! Holders of a slot, counted in a word of the slot (`docs/design/handles.md`).
//!
//! In a cache with handles this replaces hazards, names and limbo. The last holder that releases
//! the content drops it. A slot is reused when its content has been dropped and its queue has
//! released it. A thread may read the content if it is counted, has claimed the slot, or owns its
//! content.

use frazil_policy::Priority;

use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// No look-up may return it: it is vacant, being filled or evicted, or its residency is over.
const ENDED: u64 = 1 << 63;
/// The residency is over, and holders still read the content.
const ORPHAN: u64 = 1 << 62;
/// It is in no queue, and will be in none.
const DEQUEUED: u64 = 1 << 61;
/// The content is dropped.
const DROPPED: u64 = 1 << 60;
/// The cache is dropped.
const CLOSED: u64 = 1 << 59;
/// For an orphan: the capacity is charged for it until its content is dropped.
const CHARGED: u64 = 1 << 58;
/// Holders are counted by their threads, and the count has a share for them (`smr/spread.rs`).
const SPREAD: u64 = 1 << 57;
/// With `SPREAD`: it is due for a recount.
const DUE: u64 = 1 << 56;
/// Bits of the count, which wraps after two years of an increment every nanosecond.
const COUNT: u64 = (1 << 56) - 1;
/// Stands for holders counted elsewhere. Counts here stay below half of it, in both directions.
const SHARE: u64 = 1 << 55;
/// The slot's number is below these bits, the priority in them.
const PRIORITY_AT: u32 = 30;
const BOTTOM: u32 = Priority::Bottom as u32;
const HIGH: u32 = Priority::High as u32;
/// Instead of a priority: the lowest one, and the capacity is not charged for the entry.
const UNCHARGED: u32 = 3;
/// The word of an unused slot.
const VACANT: u64 = ENDED | DEQUEUED | DROPPED;

/// Bits that the end of a residency sets if holders remain.
fn orphan(charged: bool) -> u64 {
    if charged { ORPHAN | CHARGED } else { ORPHAN }
}

/// The part of a slot beside its header, in its own line.
pub(crate) trait SlotRefs: Default {
    /// The alignment of slots.
    type Align;

    /// Whether holders are counted.
    const COUNTED: bool;

    /// Initializes it as of an unused slot with this number. Other threads may be reading it, and
    /// read zeroes before.
    fn prepare(&self, slot: u32);

    /// The weight of the entry, if it is kept here, in the line that look-ups read anyway.
    fn weight(&self) -> u64;

    /// Sets the weight of a slot that only the caller knows or fills.
    fn set_weight(&self, weight: u64);

    /// The priority with which the entry was inserted.
    fn priority(&self) -> Priority;

    /// Whether the capacity is charged for the entry while it is resident.
    fn is_charged(&self) -> bool;

    /// Claims it for an eviction. False if it is held, or its residency over.
    fn claim(&self) -> bool;

    /// Notes that it is in no queue, and will be in none. True if the caller must give the slot
    /// back.
    fn dequeue(&self) -> bool;
}

/// Without holders: the thread that took a slot out of its queue may evict it, and retires it.
impl SlotRefs for () {
    type Align = ();

    const COUNTED: bool = false;

    #[inline(always)]
    fn prepare(&self, _: u32) {}

    #[inline(always)]
    fn weight(&self) -> u64 {
        1
    }

    #[inline(always)]
    fn set_weight(&self, _: u64) {}

    #[inline(always)]
    fn priority(&self) -> Priority {
        Priority::Low
    }

    #[inline(always)]
    fn is_charged(&self) -> bool {
        true
    }

    #[inline(always)]
    fn claim(&self) -> bool {
        true
    }

    #[inline(always)]
    fn dequeue(&self) -> bool {
        true
    }
}

/// A line of its own.
#[repr(align(64))]
pub(crate) struct Line;

/// The word of a slot, a link, and properties of the entry set by its insertion.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    word: AtomicU64,
    weight: AtomicU64,
    /// The next slot in a list of slots that wait for the end of an operation, or to be given back.
    /// Used by the thread that owns the slot.
    pub(crate) next: AtomicU32,
    /// The slot's number, for threads that have its address; above it the priority with which its
    /// entry was inserted.
    slot_and_priority: AtomicU32,
}

/// The state in the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    pub(crate) fn count(self) -> u64 {
        self.0 & COUNT
    }

    /// Whether no look-up may return it.
    pub(crate) fn is_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// Whether its residency is over and its content not dropped.
    pub(crate) fn is_orphan(self) -> bool {
        self.0 & ORPHAN != 0
    }

    /// Whether it is in a queue and look-ups may return it.
    pub(crate) fn is_resident(self) -> bool {
        self.0 & !COUNT == 0
    }

    /// Whether it is in no queue, and will be in none.
    pub(crate) fn is_dequeued(self) -> bool {
        self.0 & DEQUEUED != 0
    }

    /// Whether the content is dropped.
    pub(crate) fn is_dropped(self) -> bool {
        self.0 & DROPPED != 0
    }

    /// Whether the slot is unused.
    pub(crate) fn is_vacant(self) -> bool {
        self.0 == VACANT
    }

    /// Whether the cache is dropped.
    pub(crate) fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether the capacity is charged for it although its residency is over.
    pub(crate) fn is_charged(self) -> bool {
        self.0 & CHARGED != 0
    }

    /// Whether holders are counted by their threads.
    #[inline(always)]
    pub(crate) fn is_spread(self) -> bool {
        self.0 & SPREAD != 0
    }

    /// Whether it has a holder and content.
    pub(crate) fn is_held(self) -> bool {
        self.count() > 0 && (!self.is_ended() || self.is_orphan())
    }

    /// Whether the count has a share for holders that are counted elsewhere.
    pub(crate) fn has_share(self) -> bool {
        self.count() > SHARE / 2
    }

    /// Whether it is held, given the count of holders elsewhere.
    pub(crate) fn is_held_by(self, elsewhere: u64) -> bool {
        Seen(self.0.wrapping_add(elsewhere).wrapping_sub(SHARE)).is_held()
    }

    /// Whether the next release drops the content.
    #[inline(always)]
    pub(crate) fn is_last_of_orphan(self) -> bool {
        self.0 & (ORPHAN | COUNT) == ORPHAN | 1
    }

    /// Whether it is resident and has one holder.
    pub(crate) fn is_held_once(self) -> bool {
        self.0 == 1
    }
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// It has other holders or is resident, or there was no content to hold.
    Counted,
    /// The caller owns the content.
    Owned { is_charged: bool },
}

/// The result of a handle's release. The core waits for the caller this many times, each ended by
/// [`leave`](Open::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// It has other holders or is resident.
    Counted { waits: u64 },
    /// The caller owns the content.
    Owned { is_closed: bool, is_charged: bool, waits: u64 },
}

/// The end of a claimed slot's residency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// The caller owns the content.
    Owned,
    /// The last of the threads that counted themselves meanwhile will own the content.
    Orphaned,
}

/// The state of a slot when its cache was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It has no content.
    Empty,
    /// The caller owns the content.
    Owned,
    /// It is held: the thread that drops the content reports it to `Open`.
    Held,
}

impl SlotRefs for Refs {
    type Align = Line;

    const COUNTED: bool = true;

    fn prepare(&self, slot: u32) {
        self.slot_and_priority.store(slot, Relaxed);
        self.word.store(VACANT, Relaxed);
    }

    #[inline(always)]
    fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }

    #[inline(always)]
    fn set_weight(&self, weight: u64) {
        self.weight.store(weight, Relaxed);
    }

    #[inline(always)]
    fn priority(&self) -> Priority {
        match self.slot_and_priority.load(Relaxed) >> PRIORITY_AT {
            BOTTOM | UNCHARGED => Priority::Bottom,
            HIGH => Priority::High,
            _ => Priority::Low,
        }
    }

    #[inline(always)]
    fn is_charged(&self) -> bool {
        self.slot_and_priority.load(Relaxed) >> PRIORITY_AT != UNCHARGED
    }

    #[inline(always)]
    fn claim(&self) -> bool {
        // Acquire: reads by earlier holders have ended; partner is the Release of `exchange`.
        self.word.compare_exchange(0, ENDED | 1, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    fn dequeue(&self) -> bool {
        // The second of the two acquires what the first released: the content is dropped, the queue
        // word is empty. Partner: `dropped`.
        self.word.fetch_or(DEQUEUED, AcqRel) & DROPPED != 0
    }
}

impl Refs {
    /// The state now.
    #[inline(always)]
    pub(crate) fn look(&self) -> Seen {
        Seen(self.word.load(Relaxed))
    }

    /// Sets the priority of the entry, before it is published.
    #[inline(always)]
    pub(crate) fn set_priority(&self, priority: Priority) {
        self.slot_and_priority.store(self.slot() | (priority as u32) << PRIORITY_AT, Relaxed);
    }

    /// Marks the entry as uncharged, before it is published.
    pub(crate) fn set_uncharged(&self) {
        self.slot_and_priority.store(self.slot() | UNCHARGED << PRIORITY_AT, Relaxed);
    }

    /// The number of the slot.
    #[inline(always)]
    pub(crate) fn slot(&self) -> u32 {
        self.slot_and_priority.load(Relaxed) & ((1 << PRIORITY_AT) - 1)
    }

    /// Publishes a filled slot: look-ups may return it by an index word that the caller is about to
    /// store. The caller is counted.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        // Relaxed: the index word publishes the content. `end` and `evict` have released, for
        // `hold`, that the slot was unlinked before: each change since then was an exchange.
        self.word.fetch_sub(VACANT - 1, Relaxed);
    }

    /// Withdraws it: the index word was not stored.
    pub(crate) fn withdraw(&self) {
        self.word.fetch_add(VACANT - 1, Relaxed);
    }

    /// Makes a filled slot an orphan that no look-up finds. The caller is counted, and so holds its
    /// content.
    pub(crate) fn detach(&self) {
        // From a vacant word: threads that are counted besides read no content. Release: the
        // content, for the thread that releases a clone last; partner is the Acquire of `exchange`.
        self.word.fetch_sub(VACANT.wrapping_sub(ENDED | ORPHAN | DEQUEUED | 1), Release);
    }

    /// Counts the caller, who may read the content unless the residency had ended. Returns the
    /// state before.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Seen {
        // Acquire: partners are the Releases of `end` and `evict`. A thread that finds it ended, or
        // published again, sees that the index word was exchanged before.
        Seen(self.word.fetch_add(1, Acquire))
    }

    /// Counts one more holder, for a caller that is counted.
    #[inline(always)]
    pub(crate) fn hold_more(&self) {
        self.word.fetch_add(1, Relaxed);
    }

    /// Releases a resident that others hold as well. If it has no other holder, or its residency
    /// has ended, the caller stays counted: of threads that release it by this function one finds
    /// that it is the last.
    #[inline(always)]
    pub(crate) fn let_go_beside_others(&self) -> Result<(), Seen> {
        let mut seen = self.look();
        while seen.is_resident() && !seen.is_held_once() {
            match self.exchange(seen) {
                Ok(()) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(seen)
    }

    /// The place in which holders are counted, if it is spread.
    #[inline(always)]
    pub(crate) fn place(&self) -> Option<u32> {
        // Acquire: the place; partner is the Release of `spread`. Also, as in `hold`: a thread that
        // finds it ended, or spread after it was published again, sees that the index word was
        // exchanged before.
        let seen = Seen(self.word.load(Acquire));
        seen.is_spread().then(|| self.next.load(Relaxed))
    }

    /// Spreads it: its holders are counted in this place. The caller is counted. False if it is not
    /// resident, or spread already.
    pub(crate) fn spread(&self, place: u32) -> bool {
        let mut seen = self.look();
        while seen.is_resident() {
            // No other thread uses the link of a resident. If another ends the residency now, it
            // becomes the owner, and may overwrite the place.
            self.next.store(place, Relaxed);
            let spread = (seen.0 + SHARE) | SPREAD;
            // Release: the place; partner is the Acquire of `place`.
            match self.word.compare_exchange(seen.0, spread, Release, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = Seen(now),
            }
        }
        false
    }

    /// Makes it due for a recount. Returns its place, if it is spread and was not due before.
    pub(crate) fn recount_soon(&self) -> Option<u32> {
        let mut seen = self.look();
        while seen.is_spread() && seen.0 & DUE == 0 {
            // Acquire: the place; partner is the Release of `spread`.
            match self.word.compare_exchange(seen.0, seen.0 | DUE, Acquire, Relaxed) {
                Ok(_) => return Some(self.next.load(Relaxed)),
                Err(now) => seen = Seen(now),
            }
        }
        None
    }

    /// The place in which holders are counted, if the word has a share for them and the caller has
    /// locked their table.
    pub(crate) fn place_of_share(&self) -> u32 {
        self.next.load(Relaxed)
    }

    /// Ends the spreading of a spread word, if it is due, or `in_any_case`.
    pub(crate) fn recount(&self, in_any_case: bool) -> bool {
        let is_to_be = in_any_case || self.word.load(Relaxed) & DUE != 0;
        if is_to_be {
            // Relaxed: threads that count elsewhere read it after a fence.
            self.word.fetch_and(!SPREAD, Relaxed);
        }
        is_to_be
    }

    /// Replaces the share by this count.
    pub(crate) fn take_back_share(&self, counted: u64) -> LetGo {
        let mut seen = self.look();
        loop {
            let counts = seen.0.wrapping_add(counted).wrapping_sub(SHARE) & !DUE;
            let is_last = Seen(counts).is_orphan() && Seen(counts).count() == 0;
            let after = if is_last { counts & !(ORPHAN | CHARGED) } else { counts };
            // Release: reads by threads that released it elsewhere, which the caller has acquired.
            // Acquire: as in `exchange`.
            match self.word.compare_exchange(seen.0, after, AcqRel, Relaxed) {
                Ok(_) if is_last => return LetGo::Owned { is_charged: seen.is_charged() },
                Ok(_) => return LetGo::Counted,
                Err(now) => seen = Seen(now),
            }
        }
    }

    /// Releases it, inside a call of the cache.
    #[inline(always)]
    pub(crate) fn let_go(&self) -> LetGo {
        let mut seen = self.look();
        loop {
            match self.exchange(seen) {
                Err(now) => seen = now,
                Ok(()) if seen.is_last_of_orphan() => {
                    return LetGo::Owned { is_charged: seen.is_charged() };
                }
                Ok(()) => return LetGo::Counted,
            }
        }
    }

    /// Releases it for a handle, which may outlive the cache, given the state `seen`. False if
    /// another thread has changed the word, or the caller is the last of an orphan; otherwise the
    /// caller reads nothing afterwards.
    #[inline(always)]
    pub(crate) fn release_at_once(&self, seen: Seen) -> bool {
        !seen.is_last_of_orphan() && self.exchange(seen).is_ok()
    }

    /// The same in every state. Unless the caller then owns the content, it reads nothing
    /// afterwards but what `open` counts it in.
    pub(crate) fn release(&self, open: &Open) -> Released {
        let mut seen = self.look();
        let mut waits = 0;
        loop {
            if seen.is_last_of_orphan() && !seen.is_closed() && waits == 0 {
                // Before the release: afterwards the drop of the cache would not wait for this
                // thread.
                open.enter();
                waits = 1;
            }
            match self.exchange(seen) {
                Ok(()) if seen.is_last_of_orphan() => {
                    let (is_closed, is_charged) = (seen.is_closed(), seen.is_charged());
                    let waits = waits + u64::from(is_closed);
                    return Released::Owned { is_closed, is_charged, waits };
                }
                Ok(()) => return Released::Counted { waits },
                Err(now) => seen = now,
            }
        }
    }

    /// Releases it if the word is still as `seen`. If that was the last of an orphan, the caller
    /// owns the content.
    #[inline(always)]
    fn exchange(&self, seen: Seen) -> Result<(), Seen> {
        let after =
            (seen.0 - 1) & if seen.is_last_of_orphan() { !(ORPHAN | CHARGED) } else { u64::MAX };
        // Release: the caller's reads; partners are the Acquires of `claim` and `close`, and that
        // of the last release here.
        self.word.compare_exchange(seen.0, after, AcqRel, Relaxed).map(drop).map_err(Seen)
    }

    /// Gives up a claim: the entry was not unlinked, and look-ups may return it again.
    pub(crate) fn unclaim(&self) {
        // Release: reads meanwhile; partners are the Acquires of `claim` and `exchange`.
        self.word.fetch_sub(ENDED | 1, Release);
    }

    /// Ends the residency of a claimed slot. The caller has unlinked it, and is no longer counted.
    /// If others are counted, the capacity may be `charged` for them.
    #[inline(always)]
    pub(crate) fn evict(&self, charged: bool) -> Evicted {
        let mut seen = ENDED | 1;
        loop {
            let others = seen & COUNT > 1;
            let after = seen - 1 + if others { orphan(charged) } else { 0 };
            // Release: the unlinking, for `hold`; and the caller's reads, for `exchange`, if
            // another thread will drop the content.
            match self.word.compare_exchange(seen, after, Release, Relaxed) {
                Ok(_) if others => return Evicted::Orphaned,
                Ok(_) => return Evicted::Owned,
                Err(now) => seen = now,
            }
        }
    }

    /// Ends the residency. The caller has exchanged the index word, and is counted. The capacity
    /// may be `charged` until the content is dropped. Returns the state before.
    #[inline(always)]
    pub(crate) fn end(&self, charged: bool) -> Seen {
        // Release: the exchange of the index word; partner is the Acquire of `hold`.
        let before = Seen(self.word.fetch_or(ENDED | orphan(charged), Release));
        debug_assert!(before.count() > 0 && !before.is_ended(), "{before:?}");
        before
    }

    /// Notes that its owner has dropped the content. True if the caller must give the slot back.
    #[inline(always)]
    pub(crate) fn dropped(&self) -> bool {
        // Partner: `dequeue`.
        self.word.fetch_or(DROPPED, AcqRel) & DEQUEUED != 0
    }

    /// Prepares it for the end of the cache, which only holders still use.
    pub(crate) fn close(&self, open: &Open) -> Closed {
        let mut seen = self.look();
        loop {
            if seen.count() == 0 {
                // No thread can become counted now. Acquire: partner is the Release of `exchange`.
                let before = Seen(self.word.fetch_or(ENDED, Acquire));
                return if before.is_ended() { Closed::Empty } else { Closed::Owned };
            }
            // Before `CLOSED` is set: the last holder subtracts it.
            open.enter();
            let after = seen.0 | ENDED | ORPHAN | CLOSED;
            // Relaxed: `leave` publishes the state of the cache.
            match self.word.compare_exchange(seen.0, after, Relaxed, Relaxed) {
                Ok(_) => return Closed::Held,
                Err(now) => {
                    open.0.fetch_sub(1, Relaxed);
                    seen = Seen(now);
                }
            }
        }
    }
}

/// Counts those that a core waits for before it is freed: its cache, each slot held when the cache
/// was dropped, and each thread that is releasing an orphan.
#[derive(Debug)]
pub(crate) struct Open(AtomicU64);

impl Open {
    /// One, for the cache.
    pub(crate) fn new() -> Self {
        Open(AtomicU64::new(1))
    }

    /// Adds one. The caller is counted here already, or in a slot.
    #[inline]
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Subtracts this many. True if none are left, and the caller must free the core; otherwise it
    /// does not read the core afterwards.
    pub(crate) fn leave(&self, waits: u64) -> bool {
        // Release and Acquire: all reads of the core come before it is freed; partner is this
        // operation itself.
        self.0.fetch_sub(waits, AcqRel) == waits
    }
}
