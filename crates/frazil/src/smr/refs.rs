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

/// It is not to be found: vacant, being filled, being evicted, or over.
const ENDED: u64 = 1 << 63;
/// The residency is over and the content is there, for those who are counted.
const ORPHAN: u64 = 1 << 62;
/// It lies in no queue, nor will it.
const DEQUEUED: u64 = 1 << 61;
/// The content is gone.
const DROPPED: u64 = 1 << 60;
/// The cache is gone.
const CLOSED: u64 = 1 << 59;
/// Of an orphan: the capacity is charged for it until its content is dropped.
const CHARGED: u64 = 1 << 58;
/// Holders are counted by their threads, and the count has a share for them (`smr/spread.rs`).
const SPREAD: u64 = 1 << 57;
/// Beside `SPREAD`: its holders are to be counted here again.
const DUE: u64 = 1 << 56;
/// Bits of the count: raised every nanosecond it is full after two years.
const COUNT: u64 = (1 << 56) - 1;
/// Stands for holders that are counted elsewhere: more than there can be here, either way.
const SHARE: u64 = 1 << 55;
/// A slot's number lies below these bits, and a priority in them.
const PRIORITY_AT: u32 = 30;
const BOTTOM: u32 = Priority::Bottom as u32;
const HIGH: u32 = Priority::High as u32;
/// In the place of a priority: the lowest, and the capacity is not charged for the entry.
const UNCHARGED: u32 = 3;
/// Of a slot that nobody uses.
const VACANT: u64 = ENDED | DEQUEUED | DROPPED;

/// Bits of an orphan.
fn orphan(charged: bool) -> u64 {
    if charged { ORPHAN | CHARGED } else { ORPHAN }
}

/// What a slot has beside its header, in its own line.
pub(crate) trait SlotRefs: Default {
    /// What slots are aligned as.
    type Align;

    /// Whether holders are counted.
    const COUNTED: bool;

    /// Makes it that of a slot that was never used, and has this number. Others may be looking at it, who
    /// find zeroes before.
    fn prepare(&self, slot: u32);

    /// What the entry weighs, where that is kept here: in the line that is looked at anyway.
    fn weight(&self) -> u64;

    /// Says what it weighs, of a slot that the caller alone knows or fills.
    fn set_weight(&self, weight: u64);

    /// With what priority the entry has come.
    fn priority(&self) -> Priority;

    /// Whether the capacity is charged for the entry while it is resident.
    fn is_charged(&self) -> bool;

    /// Takes it from whoever might find it, for an eviction. False if it is held, or over.
    fn claim(&self) -> bool;

    /// It lies in no queue any more, nor will it. Whether the caller is to give the slot back.
    fn dequeue(&self) -> bool;
}

/// Nobody is counted: whoever has taken a slot out of its queue may evict it, and retires it.
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

/// The word of a slot, a link, and what the entry has come with.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    word: AtomicU64,
    weight: AtomicU64,
    /// The next in a list of slots that wait for the end of an operation, or of those to be given
    /// back. Of who has the slot in hand.
    pub(crate) next: AtomicU32,
    /// The slot's number, for who has come by its address; above it the priority with which its entry has come.
    slot_and_priority: AtomicU32,
}

/// What the word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    pub(crate) fn count(self) -> u64 {
        self.0 & COUNT
    }

    /// Whether it is not to be found.
    pub(crate) fn is_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// Whether its residency is over, and its content there.
    pub(crate) fn is_orphan(self) -> bool {
        self.0 & ORPHAN != 0
    }

    /// Whether it is in a queue and may be found.
    pub(crate) fn is_resident(self) -> bool {
        self.0 & !COUNT == 0
    }

    /// Whether it lies in no queue, nor will it.
    pub(crate) fn is_dequeued(self) -> bool {
        self.0 & DEQUEUED != 0
    }

    /// Whether the content is gone.
    pub(crate) fn is_dropped(self) -> bool {
        self.0 & DROPPED != 0
    }

    /// Whether nobody uses it.
    pub(crate) fn is_vacant(self) -> bool {
        self.0 == VACANT
    }

    /// Whether the cache is gone.
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

    /// Whether somebody is counted, and there is something for that.
    pub(crate) fn is_held(self) -> bool {
        self.count() > 0 && (!self.is_ended() || self.is_orphan())
    }

    /// Whether the count has a share for holders that are counted elsewhere.
    pub(crate) fn has_share(self) -> bool {
        self.count() > SHARE / 2
    }

    /// Whether it is held, if so many are counted elsewhere.
    pub(crate) fn is_held_by(self, elsewhere: u64) -> bool {
        Seen(self.0.wrapping_add(elsewhere).wrapping_sub(SHARE)).is_held()
    }

    /// Whether who lets go of it next drops the content.
    #[inline(always)]
    pub(crate) fn is_last_of_orphan(self) -> bool {
        self.0 & (ORPHAN | COUNT) == ORPHAN | 1
    }

    /// Whether it is resident, and one holds it.
    pub(crate) fn is_held_once(self) -> bool {
        self.0 == 1
    }
}

/// What letting go came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// Others are counted, or it is resident, or there was nothing to be held.
    Counted,
    /// The content is the caller's.
    Owned { is_charged: bool },
}

/// What became of what a handle let go of. The core waits for the caller so often, who
/// [leaves](Open::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Others are counted, or it is resident.
    Counted { waits: u64 },
    /// The content is the caller's.
    Owned { is_closed: bool, is_charged: bool, waits: u64 },
}

/// How the residency of a claimed slot has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// The content is the caller's.
    Owned,
    /// It is the last one's who has looked at it meanwhile.
    Orphaned,
}

/// What became of a slot when its cache was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Nothing is in it.
    Empty,
    /// The content is the caller's.
    Owned,
    /// It is held: whoever drops the content says so.
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
        // Acquire: what holders have read is over; partner is the Release of `exchange`.
        self.word.compare_exchange(0, ENDED | 1, Acquire, Relaxed).is_ok()
    }

    #[inline(always)]
    fn dequeue(&self) -> bool {
        // The second of the two acquires what the first has released: the content is dropped, the queue word
        // is empty. Partner: `dropped`.
        self.word.fetch_or(DEQUEUED, AcqRel) & DROPPED != 0
    }
}

impl Refs {
    /// What it says now.
    #[inline(always)]
    pub(crate) fn look(&self) -> Seen {
        Seen(self.word.load(Relaxed))
    }

    /// Says with what priority the entry comes, before it is published.
    #[inline(always)]
    pub(crate) fn set_priority(&self, priority: Priority) {
        self.slot_and_priority.store(self.slot() | (priority as u32) << PRIORITY_AT, Relaxed);
    }

    /// Says that the capacity is not charged for the entry, before it is published.
    pub(crate) fn set_uncharged(&self) {
        self.slot_and_priority.store(self.slot() | UNCHARGED << PRIORITY_AT, Relaxed);
    }

    /// The number of the slot.
    #[inline(always)]
    pub(crate) fn slot(&self) -> u32 {
        self.slot_and_priority.load(Relaxed) & ((1 << PRIORITY_AT) - 1)
    }

    /// A filled slot may be found from here on, by an index word that the caller is about to store. The
    /// caller is counted.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        // Relaxed: the content goes with the index word. That the slot was unlinked before, `end` and `evict`
        // have released, for `hold`: each change since then was an exchange.
        self.word.fetch_sub(VACANT - 1, Relaxed);
    }

    /// The index word was not stored.
    pub(crate) fn withdraw(&self) {
        self.word.fetch_add(VACANT - 1, Relaxed);
    }

    /// A filled slot is to be found by nobody; its content is the caller's, who is counted.
    pub(crate) fn detach(&self) {
        // From a vacant one: what is counted beside looks at nothing. Release: the content, for a
        // clone's thread that lets go last; partner is the Acquire of `exchange`.
        self.word.fetch_sub(VACANT.wrapping_sub(ENDED | ORPHAN | DEQUEUED | 1), Release);
    }

    /// Counts the caller, who may look at the content unless it had ended. What it said before.
    #[inline(always)]
    pub(crate) fn hold(&self) -> Seen {
        // Acquire: partners are the Releases of `end` and `evict`. Who finds it ended, or published again,
        // sees that the index word was exchanged before.
        Seen(self.word.fetch_add(1, Acquire))
    }

    /// Counts one more, for who is counted.
    #[inline(always)]
    pub(crate) fn hold_more(&self) {
        self.word.fetch_add(1, Relaxed);
    }

    /// Counts the caller of a resident no more that others hold as well. If none does, or the residency is
    /// over, the caller is counted as before: of those who let go by this one finds that it is the last.
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

    /// Where holders are counted, if it is spread.
    #[inline(always)]
    pub(crate) fn place(&self) -> Option<u32> {
        // Acquire: the place; partner is the Release of `spread`. And as in `hold`: who finds it ended, or spread
        // after it was published again, sees that the index word was exchanged before.
        let seen = Seen(self.word.load(Acquire));
        seen.is_spread().then(|| self.next.load(Relaxed))
    }

    /// Has holders be counted in this place, for who is counted. False if it is not resident, or spread.
    pub(crate) fn spread(&self, place: u32) -> bool {
        let mut seen = self.look();
        while seen.is_resident() {
            // Of a resident nobody else uses the link. Should another end the residency now, the place is
            // the new owner's to write over.
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

    /// Its holders are to be counted here again. Their place, if it is spread and nobody has said so before.
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

    /// Where holders are counted, if the word has a share for them and the caller is at the table of those.
    pub(crate) fn place_of_share(&self) -> u32 {
        self.next.load(Relaxed)
    }

    /// A spread word says that it is not, if it is due, or in any case.
    pub(crate) fn recount(&self, in_any_case: bool) -> bool {
        let is_to_be = in_any_case || self.word.load(Relaxed) & DUE != 0;
        if is_to_be {
            // Relaxed: who counts elsewhere finds it after a fence.
            self.word.fetch_and(!SPREAD, Relaxed);
        }
        is_to_be
    }

    /// So many are counted here again, in the place of the share.
    pub(crate) fn take_back_share(&self, counted: u64) -> LetGo {
        let mut seen = self.look();
        loop {
            let counts = seen.0.wrapping_add(counted).wrapping_sub(SHARE) & !DUE;
            let is_last = Seen(counts).is_orphan() && Seen(counts).count() == 0;
            let after = if is_last { counts & !(ORPHAN | CHARGED) } else { counts };
            // Release: what was read by those who have let go elsewhere, which the caller has acquired. Acquire: as
            // in `exchange`.
            match self.word.compare_exchange(seen.0, after, AcqRel, Relaxed) {
                Ok(_) if is_last => return LetGo::Owned { is_charged: seen.is_charged() },
                Ok(_) => return LetGo::Counted,
                Err(now) => seen = Seen(now),
            }
        }
    }

    /// Counts the caller no more, inside a call of the cache.
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

    /// The same for a handle, which may outlive the cache, of what it has `seen`. False if another has changed the
    /// word, or the caller is the last of an orphan; else it looks at nothing from here on.
    #[inline(always)]
    pub(crate) fn release_at_once(&self, seen: Seen) -> bool {
        !seen.is_last_of_orphan() && self.exchange(seen).is_ok()
    }

    /// The same in any case: unless it owns the content now, the caller looks at nothing from here on but
    /// what `open` counts it in.
    pub(crate) fn release(&self, open: &Open) -> Released {
        let mut seen = self.look();
        let mut waits = 0;
        loop {
            if seen.is_last_of_orphan() && !seen.is_closed() && waits == 0 {
                // Before it lets go: from then on the cache may be dropped, which would not wait for it.
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

    /// Counts the caller no more, if the word is as it was `seen`. If it was the last of an orphan the
    /// content is the caller's.
    #[inline(always)]
    fn exchange(&self, seen: Seen) -> Result<(), Seen> {
        let after =
            (seen.0 - 1) & if seen.is_last_of_orphan() { !(ORPHAN | CHARGED) } else { u64::MAX };
        // Release: what was read; partners are the Acquire of `claim` and `close`, and this one's, of the
        // last.
        self.word.compare_exchange(seen.0, after, AcqRel, Relaxed).map(drop).map_err(Seen)
    }

    /// It was not unlinked after all, and may be found again.
    pub(crate) fn unclaim(&self) {
        // Release: what was read meanwhile; partners are the Acquires of `claim` and `exchange`.
        self.word.fetch_sub(ENDED | 1, Release);
    }

    /// The residency of a claimed slot is over. The caller, who has unlinked it, is counted no more. Should
    /// others be counted, the capacity may be `charged` for them.
    #[inline(always)]
    pub(crate) fn evict(&self, charged: bool) -> Evicted {
        let mut seen = ENDED | 1;
        loop {
            let others = seen & COUNT > 1;
            let after = seen - 1 + if others { orphan(charged) } else { 0 };
            // Release: the unlinking, for `hold`; and what the caller has read, for `exchange`, if another
            // is to drop it.
            match self.word.compare_exchange(seen, after, Release, Relaxed) {
                Ok(_) if others => return Evicted::Orphaned,
                Ok(_) => return Evicted::Owned,
                Err(now) => seen = now,
            }
        }
    }

    /// The residency is over. The caller, who has exchanged the index word, is counted. The capacity may be
    /// `charged` until it is dropped. What the word said before.
    #[inline(always)]
    pub(crate) fn end(&self, charged: bool) -> Seen {
        // Release: the exchange of the index word; partner is the Acquire of `hold`.
        let before = Seen(self.word.fetch_or(ENDED | orphan(charged), Release));
        debug_assert!(before.count() > 0 && !before.is_ended(), "{before:?}");
        before
    }

    /// The content was dropped, by who owned it. Whether the caller is to give the slot back.
    #[inline(always)]
    pub(crate) fn dropped(&self) -> bool {
        // Partner: `dequeue`.
        self.word.fetch_or(DROPPED, AcqRel) & DEQUEUED != 0
    }

    /// The cache is about to go, and nobody uses it but those who hold something.
    pub(crate) fn close(&self, open: &Open) -> Closed {
        let mut seen = self.look();
        loop {
            if seen.count() == 0 {
                // Nobody can be counted who is not. Acquire: partner is the Release of `exchange`.
                let before = Seen(self.word.fetch_or(ENDED, Acquire));
                return if before.is_ended() { Closed::Empty } else { Closed::Owned };
            }
            // Before it is said: the last one counts it down.
            open.enter();
            let after = seen.0 | ENDED | ORPHAN | CLOSED;
            // Relaxed: what the cache was like goes with `leave`.
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

/// For whom a core waits before it is freed: for its cache; for each slot that was held when that was
/// dropped; and for each thread that lets go of an orphan.
#[derive(Debug)]
pub(crate) struct Open(AtomicU64);

impl Open {
    /// For the cache.
    pub(crate) fn new() -> Self {
        Open(AtomicU64::new(1))
    }

    /// For one more. The caller is one that it waits for, or is counted in a slot.
    #[inline]
    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// For so many less. Whether it waits for nobody any more, and the caller is to free the core; else
    /// the caller looks at it no more.
    pub(crate) fn leave(&self, waits: u64) -> bool {
        // Release and Acquire: all looks at the core come before it is freed; partner is this.
        self.0.fetch_sub(waits, AcqRel) == waits
    }
}
