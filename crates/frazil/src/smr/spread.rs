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

/// Slots that may be spread at once because threads contend for them. 2 KiB for each thread that
/// holds one.
const PLACES: usize = if CHECKED { 2 } else { 256 };

/// Frozen slots that may be spread at once; their places follow the others. 512 KiB of addresses
/// for each thread that holds some, mapped where it has held one.
const ASIDE_PLACES: usize = if CHECKED { 2 } else { 1 << 16 };

/// Places whose due bits share a word.
const A_WORD: usize = u64::BITS as usize;

/// How often a recount looks at a thread that has not passed, before it leaves the rest to the next
/// recount.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1_000 };

/// The counts of one thread, which alone writes them. It has only atomics, so it may be freed while
/// an unused reference to it still exists.
#[derive(Debug)]
pub(crate) struct Own {
    /// Odd while the thread reads a word and counts.
    section: AtomicU64,
    /// Holds minus releases of this thread, by place, in lines of its own. They wrap.
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
    /// Counts a hold. False, and nothing is counted, if the word is no longer spread.
    #[inline(always)]
    pub(crate) fn hold(&self, refs: &Refs) -> bool {
        self.count(refs, 1)
    }

    /// Counts a release. False, and nothing is counted, if the word is no longer spread. Otherwise
    /// it reads nothing afterwards.
    #[inline(always)]
    pub(crate) fn release(&self, refs: &Refs) -> bool {
        self.count(refs, u64::MAX)
    }

    // Not inlined: its registers cost all look-ups, most of which are of words that are not spread,
    // a sixth more instructions.
    #[inline(never)]
    fn count(&self, refs: &Refs, amount: u64) -> bool {
        let Some(counts) = self.counts.get() else { return self.count_first(refs, amount) };
        let section = self.section.load(Relaxed);
        // Release: the counts before this, for a recount that sees this section instead of an
        // earlier one; partner is the Acquire of `has_passed`.
        self.section.store(section + 1, Release);
        // Partner: the heavy fence of `recount`. Either this reads the recounted word, or the
        // recount waits for it.
        fence::light();
        let place = refs.place();
        let counter = place.and_then(|place| counts.get(place));
        if let Some(counter) = counter {
            add(counter, amount);
        }
        // Release: the count, and the reads of the content before it; partner is the Acquire of
        // `has_passed`.
        self.section.store(section + 2, Release);
        counter.is_some() || place.is_some() && self.count_first(refs, amount)
    }

    /// The same when the counter is not allocated yet.
    #[cold]
    #[inline(never)]
    fn count_first(&self, refs: &Refs, amount: u64) -> bool {
        // Allocates outside of the section, for which others wait.
        match refs.place() {
            Some(place) if (place as usize) < PLACES + ASIDE_PLACES => self.make(place),
            // Its link leads to another slot: it was recounted since the word was read.
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

    /// Whether the thread of this number no longer counts by a word that it read before the
    /// caller's heavy fence.
    fn has_passed(&self, number: u32) -> bool {
        // Acquire: partner is the Release of `count`.
        let first = self.section.load(Acquire);
        if first.is_multiple_of(2) || fork::has_lost(number) {
            // A lost thread will release nothing: what it held, or was about to release, stays held
            // for ever.
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
    /// The sum of counts at the last recount of this place.
    base: u64,
    /// Whether the word is no longer spread.
    is_over: bool,
}

/// The slots of a cache that are spread.
#[derive(Debug)]
pub(crate) struct Spread {
    table: Mutex<Table>,
    /// Whether some slot is due for a recount.
    due: AtomicBool,
    /// Frozen slots that are due: a bit for each place. For other slots, their words tell.
    due_aside: Box<[AtomicU64]>,
}

/// The locked table. Its lock is released before the process may fork: fields drop in this order.
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
    /// Places of contended slots, then as many for frozen ones as there ever were at once.
    places: Vec<Place>,
    /// Where the search for the next place of a frozen slot begins.
    #[cfg(feature = "freezing")]
    next_aside: usize,
    /// Places whose words are no longer spread.
    over: Vec<usize>,
    /// Attempts that found no place since the last recount of all.
    refused: u32,
    /// Whether all contended slots are due.
    is_all_due: bool,
    /// Whether slots are no longer spread.
    is_closed: bool,
}

/// Refusals after which all contended slots are recounted, because they may have become cold.
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

    /// Whether some slot is due.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Relaxed)
    }

    /// Makes a spread slot due: it was not used lately, or its residency is over.
    #[cold]
    pub(crate) fn recount_soon(&self, refs: &Refs) {
        let at = refs.recount_soon().and_then(|place| (place as usize).checked_sub(PLACES));
        // No place if it was recounted since its word became due, and its link leads to another
        // slot by now. An extra bit does no harm: the recount reads the word.
        if let Some((at, word)) = at.and_then(|at| Some((at, self.due_aside.get(at / A_WORD)?))) {
            // Release: the word that says that it is due; partner is the Acquire of `recount`.
            word.fetch_or(1 << (at % A_WORD), Release);
        }
        self.set_due();
    }

    fn set_due(&self) {
        // An exchange with Release: a recount that clears the flag finds the due slots. Partner:
        // the Acquire of `recount`.
        self.due.swap(true, Release);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let table = self.table();
        let (places, over) = (table.places.capacity(), table.over.capacity());
        places * size_of::<Place>() + over * size_of::<usize>() + size_of_val(&*self.due_aside)
    }

    /// Locks the table, and keeps the process from forking meanwhile.
    pub(crate) fn table(&self) -> Locked<'_> {
        let unforked = fork::Unforked::new();
        Locked { table: self.table.lock(), _unforked: unforked }
    }

    /// The same without waiting: none if the table is in use.
    pub(crate) fn try_table(&self) -> Option<Locked<'_>> {
        // In this order: otherwise a child could find the table locked.
        let unforked = fork::Unforked::try_new()?;
        Some(Locked { table: self.table.try_lock()?, _unforked: unforked })
    }

    /// Spreads a slot in which the caller is counted, if it is resident, there is a place, and no
    /// other thread uses the table. Waits for no thread, and drops nothing.
    #[cold]
    pub(crate) fn spread(&self, slot: u32, refs: &Refs) {
        let Some(mut table) = self.try_table() else { return };
        // Another thread was faster, or it is being recounted.
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
    /// Whether a slot has a holder, counted in its word or by a thread, and content.
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

    /// From now on no slot is spread.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Begins a new set of frozen slots: the search for their places starts from the first.
    #[cfg(feature = "freezing")]
    pub(crate) fn begin_aside(&mut self) {
        self.next_aside = PLACES;
    }

    /// Spreads a frozen slot in which the caller is counted, if it is resident. False if there is
    /// no place left for frozen slots.
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

    /// Ends the spreading in the word of a place, if the slot is due, or `in_any_case`.
    fn end<'r>(&mut self, at: usize, in_any_case: bool, refs: impl Fn(u32) -> &'r Refs) {
        let Some(place) = self.places.get_mut(at) else { return };
        if place.slot != 0 && !place.is_over && refs(place.slot).recount(in_any_case) {
            place.is_over = true;
            self.over.push(at);
        }
    }

    /// Recounts slots that are due, or all, from the counts of these threads. Calls `recounted` for
    /// each slot with the result of releasing its share. False if a thread has not passed: then the
    /// rest is left to the next recount.
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
            // No thread counts here until the place belongs to another slot.
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

    /// A spread slot whose link leads to another slot: what a thread finds that was suspended after
    /// it read the word, while others recounted the slot and came to own its content.
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
