//! Holders of a slot that each thread counts by itself (`docs/design/handles.md`).
//!
//! If threads hold the same slot again and again, the line of its word moves between processors
//! twice a hold. So the word of such a slot is *spread*: it contains a share that stands for all
//! holders counted elsewhere, and each thread counts in a line of its own, without a locked
//! instruction. Frozen entries are spread at once, because they will be held often. *Recounting*
//! gives an exact count: it takes the mark off the word, waits until threads that saw the mark have
//! passed, and replaces the share by the sum of the threads' counts.

use std::ops::{Deref, DerefMut};

use crate::chunks::Chunks;
use crate::once_box::OnceBox;
use crate::smr::fence;
use crate::smr::fork;
use crate::smr::refs::{LetGo, Refs};
use crate::smr::stripe::add;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{CHECKED, Mutex, MutexGuard, thread};

/// Slots that may be spread at once because threads meet there. 2 KiB for each thread that holds one.
const PLACES: usize = if CHECKED { 2 } else { 256 };

/// Slots beside those that may be spread at once because they are frozen: their places come behind. 512 KiB
/// for each thread that holds them, of which those are mapped that it has held.
const ASIDE_PLACES: usize = if CHECKED { 2 } else { 1 << 16 };

/// Places for which a word says which are due.
const A_WORD: usize = u64::BITS as usize;

/// How often who recounts looks at a thread that has not passed, before it leaves it to the next.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1_000 };

/// What one thread counts, and alone writes. It has only atomics, so it may be freed while a reference to it, which
/// is not used any more, still exists.
#[derive(Debug)]
pub(crate) struct Own {
    /// Odd while the thread looks at a word, and counts.
    section: AtomicU64,
    /// Those that it has let in, less those that it has let go, by place, in lines of its own. They wrap.
    counts: OnceBox<Chunks<AtomicU64>>,
}

impl Default for Own {
    fn default() -> Self {
        let own = Own { section: AtomicU64::new(0), counts: OnceBox::new() };
        if CHECKED {
            // A checker does not see how these are shared.
            own.make((PLACES + ASIDE_PLACES) as u32 - 1);
            own.make(0);
        }
        own
    }
}

impl Own {
    /// Counts one more. False if the word is not spread any more, and nothing was done.
    #[inline(always)]
    pub(crate) fn hold(&self, refs: &Refs) -> bool {
        self.count(refs, 1)
    }

    /// Counts the caller no more. False if the word is not spread any more, and nothing was done. Else it looks
    /// at nothing from here on.
    #[inline(always)]
    pub(crate) fn release(&self, refs: &Refs) -> bool {
        self.count(refs, u64::MAX)
    }

    // Apart: what it needs took registers of all look-ups, which are of words that are not spread, and a sixth more
    // instructions.
    #[inline(never)]
    fn count(&self, refs: &Refs, amount: u64) -> bool {
        let Some(counts) = self.counts.get() else { return self.count_first(refs, amount) };
        let section = self.section.load(Relaxed);
        // Release: what was counted before, for who waits until it is not what it was, and finds this; partner is
        // the Acquire of `has_passed`.
        self.section.store(section + 1, Release);
        // Partner: the heavy fence of `recount`. Either this finds the word recounted, or the other waits for it.
        fence::light();
        let place = refs.place();
        let counter = place.and_then(|place| counts.get(place));
        if let Some(counter) = counter {
            add(counter, amount);
        }
        // Release: the count, and what was read of the content; partner is the Acquire of `has_passed`.
        self.section.store(section + 2, Release);
        counter.is_some() || place.is_some() && self.count_first(refs, amount)
    }

    /// The same where there is no memory for it yet.
    #[cold]
    #[inline(never)]
    fn count_first(&self, refs: &Refs, amount: u64) -> bool {
        // Not in a section, for which others wait.
        match refs.place() {
            Some(place) if (place as usize) < PLACES + ASIDE_PLACES => self.make(place),
            // Nor if its link leads to another slot: then it was recounted since the word was looked at.
            _ => return false,
        }
        self.count(refs, amount)
    }

    fn make(&self, place: u32) {
        self.counts.get_or_make(Chunks::default).ensure(place);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.counts.get().map_or(0, Chunks::heap_bytes)
    }

    fn counted(&self, place: usize) -> u64 {
        let counter = self.counts.get().and_then(|counts| counts.get(place as u32));
        counter.map_or(0, |counter| counter.load(Relaxed))
    }

    /// Whether the thread of this number does not count by what it saw before the caller's heavy fence.
    fn has_passed(&self, number: u32) -> bool {
        // Acquire: partner is the Release of `count`.
        let first = self.section.load(Acquire);
        if first.is_multiple_of(2) || fork::has_lost(number) {
            // What a lost thread was about to let go of is held for good, as all that it held.
            return true;
        }
        for _ in 0..LOOKS {
            thread::yield_now();
            if self.section.load(Acquire) != first {
                return true;
            }
        }
        false
    }
}

/// A slot that is spread, or is being recounted.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// 0 for none.
    slot: u32,
    /// What had been counted here before.
    base: u64,
    /// Whether the word says that it is spread no more.
    is_over: bool,
}

/// The slots of a cache that are spread.
#[derive(Debug)]
pub(crate) struct Spread {
    table: Mutex<Table>,
    /// Whether there is one that is to be recounted.
    due: AtomicBool,
    /// Which those are of what is frozen: a bit for each place. The others' words are looked at.
    due_aside: Box<[AtomicU64]>,
}

/// The table, of who is at it. It is given back first, and only then may the process be forked.
pub(crate) struct Locked<'s> {
    table: MutexGuard<'s, Table>,
    _unforked: fork::Unforked,
}

impl Deref for Locked<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    /// Those for what threads meet at, and behind them as many for what is frozen as there ever were at once.
    places: Vec<Place>,
    /// Where the next place is looked for that what is frozen may have.
    #[cfg(feature = "freezing")]
    next_aside: usize,
    /// Places whose words say that they are spread no more.
    over: Vec<usize>,
    /// How often there was no place since all were recounted.
    refused: u32,
    /// Whether all that threads have met at are to be recounted.
    is_all_due: bool,
    /// Whether none is to be spread any more.
    is_closed: bool,
}

/// Refusals after which all that threads have met at is recounted, because it may be hot no more.
const REFUSED_MAX: u32 = if CHECKED { 2 } else { 1 << 12 };

impl Spread {
    pub(crate) fn new() -> Self {
        let table = Table {
            places: vec![Place::default(); PLACES],
            #[cfg(feature = "freezing")]
            next_aside: PLACES,
            over: Vec::new(),
            refused: 0,
            is_all_due: false,
            is_closed: false,
        };
        let due_aside = (0..ASIDE_PLACES.div_ceil(A_WORD)).map(|_| AtomicU64::new(0)).collect();
        Spread { table: Mutex::new(table), due: AtomicBool::new(false), due_aside }
    }

    /// Whether something is to be recounted.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Relaxed)
    }

    /// A slot that is spread is to be recounted: it was not used of late, or its residency is over.
    #[cold]
    pub(crate) fn recount_soon(&self, refs: &Refs) {
        let at = refs.recount_soon().and_then(|place| (place as usize).checked_sub(PLACES));
        // No place at all, where it was recounted since the word said that it is due, and its link leads to another
        // slot by now. A bit too many does no harm: the word is asked.
        if let Some((at, word)) = at.and_then(|at| Some((at, self.due_aside.get(at / A_WORD)?))) {
            // Release: that it is due, which its word says; partner is the Acquire of `recount`.
            word.fetch_or(1 << (at % A_WORD), Release);
        }
        self.set_due();
    }

    fn set_due(&self) {
        // An exchange, and Release: who takes it away finds what is due. Partner: the Acquire of `recount`.
        self.due.swap(true, Release);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let table = self.table();
        let (places, over) = (table.places.capacity(), table.over.capacity());
        places * size_of::<Place>() + over * size_of::<usize>() + size_of_val(&*self.due_aside)
    }

    /// The process is not forked meanwhile.
    pub(crate) fn table(&self) -> Locked<'_> {
        let unforked = fork::Unforked::new();
        Locked { table: self.table.lock(), _unforked: unforked }
    }

    /// The same, for who waits for nobody.
    pub(crate) fn try_table(&self) -> Option<Locked<'_>> {
        // First, as above: else a child would find the table locked.
        let unforked = fork::Unforked::try_new()?;
        Some(Locked { table: self.table.try_lock()?, _unforked: unforked })
    }

    /// Spreads a slot in which the caller is counted, if it is resident, there is a place, and nobody else
    /// is at it. Waits for nobody, and drops nothing.
    #[cold]
    pub(crate) fn spread(&self, slot: u32, refs: &Refs) {
        let Some(mut table) = self.try_table() else { return };
        // If another was faster, or it is being recounted.
        if table.is_closed || refs.look().has_share() {
            return;
        }
        let Some(free) = table.places[..PLACES].iter().position(|place| place.slot == 0) else {
            table.refused += 1;
            if table.refused >= REFUSED_MAX {
                table.is_all_due = true;
                self.set_due();
            }
            return;
        };
        if refs.spread(free as u32) {
            table.places[free].slot = slot;
        }
    }
}

fn sum<'o>(owns: impl Iterator<Item = (u32, &'o Own)>, place: usize) -> u64 {
    owns.fold(0, |sum, (_, own)| sum.wrapping_add(own.counted(place)))
}

impl Table {
    /// Whether somebody is counted in a slot, wherever, and there is something for that.
    pub(crate) fn is_held<'o>(
        &self,
        slot: u32,
        refs: &Refs,
        owns: impl Iterator<Item = (u32, &'o Own)>,
    ) -> bool {
        let seen = refs.look();
        let at = seen.has_share().then(|| refs.place_of_share() as usize);
        match at.and_then(|at| Some((at, self.places.get(at)?))) {
            Some((at, place)) if place.slot == slot => {
                seen.is_held_by(sum(owns, at).wrapping_sub(place.base))
            }
            _ => seen.is_held(),
        }
    }

    /// None is spread from here on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Others are frozen from here on: their places are looked for from the first.
    #[cfg(feature = "freezing")]
    pub(crate) fn begin_aside(&mut self) {
        self.next_aside = PLACES;
    }

    /// Spreads a slot in which the caller is counted, and which is frozen, if it is resident. False if there is no place
    /// for it, nor for others.
    #[cfg(feature = "freezing")]
    pub(crate) fn spread_aside(&mut self, slot: u32, refs: &Refs) -> bool {
        let is_taken = |place: &Place| place.slot != 0;
        while self.places.get(self.next_aside).is_some_and(is_taken) {
            self.next_aside += 1;
        }
        let at = self.next_aside;
        if self.is_closed || at == PLACES + ASIDE_PLACES {
            return false;
        }
        if at == self.places.len() {
            self.places.push(Place::default());
        }
        if !refs.look().has_share() && refs.spread(at as u32) {
            self.places[at].slot = slot;
        }
        true
    }

    /// Says in the word of a place that it is spread no more, if it is due, or in any case.
    fn end<'r>(&mut self, at: usize, in_any_case: bool, refs: impl Fn(u32) -> &'r Refs) {
        let Some(place) = self.places.get_mut(at) else { return };
        if place.slot != 0 && !place.is_over && refs(place.slot).recount(in_any_case) {
            place.is_over = true;
            self.over.push(at);
        }
    }

    /// Recounts what is due, or all, of these threads, and shows each slot with what letting go of the share
    /// has come to. False if a thread has not passed: then some is left to the next.
    pub(crate) fn recount<'r, 'o, O: Iterator<Item = (u32, &'o Own)>>(
        &mut self,
        spread: &Spread,
        all: bool,
        refs: impl Fn(u32) -> &'r Refs,
        owns: impl Fn() -> O,
        mut recounted: impl FnMut(u32, LetGo),
    ) -> bool {
        // Acquire: partner is the Release of `set_due`.
        spread.due.swap(false, Acquire);
        let all_met = std::mem::take(&mut self.is_all_due) || all;
        (0..PLACES).for_each(|at| self.end(at, all_met, &refs));
        let aside = PLACES..self.places.len();
        for (word, first) in spread.due_aside.iter().zip(aside.clone().step_by(A_WORD)) {
            // Acquire: partner is the Release of `recount_soon`.
            let due = if word.load(Relaxed) == 0 { 0 } else { word.swap(0, Acquire) };
            let bits = (0..A_WORD).filter(|bit| due >> bit & 1 != 0);
            bits.for_each(|bit| self.end(first + bit, false, &refs));
        }
        if all {
            aside.for_each(|at| self.end(at, true, &refs));
        }
        if self.over.is_empty() {
            return true;
        }
        if all_met {
            self.refused = 0;
        }
        // Partner: the light fence of `count`.
        fence::heavy();
        if !owns().all(|(number, own)| own.has_passed(number)) {
            spread.set_due();
            return false;
        }
        for at in std::mem::take(&mut self.over) {
            let place = &mut self.places[at];
            let slot = std::mem::take(&mut place.slot);
            place.is_over = false;
            let counted = sum(owns(), at).wrapping_sub(place.base);
            // Nobody counts here until it is another's place.
            place.base = place.base.wrapping_add(counted);
            recounted(slot, refs(slot).take_back_share(counted));
        }
        true
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::smr::refs::SlotRefs as _;

    /// A slot that is spread, whose link leads to another slot: as a thread finds it that was kept from running since it
    /// has looked at the word, while others have recounted the slot and come to own what is in it.
    fn overtaken(spread: &Spread) -> Refs {
        let refs = Refs::default();
        refs.prepare(1);
        refs.publish();
        spread.spread(1, &refs);
        assert!(refs.look().is_spread());
        refs.next.store(1 << 20, Relaxed);
        refs
    }

    #[test]
    fn a_link_to_another_slot_is_no_place_that_is_due() {
        let spread = Spread::new();
        spread.recount_soon(&overtaken(&spread));
        assert!(spread.is_due());
    }

    #[test]
    fn no_memory_is_laid_out_for_a_link_to_another_slot() {
        let own = Own::default();
        assert!(!own.hold(&overtaken(&Spread::new())), "it is for the word to count");
        assert_eq!(own.heap_bytes(), 0);
    }
}
