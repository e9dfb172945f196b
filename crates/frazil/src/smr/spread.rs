//! Holders of a slot that each thread counts for itself (`docs/design/handles.md`).
//!
//! Where threads hold the same slot again and again, the line of its word goes from one processor to the
//! other twice a hold. So the word of such a slot is *spread*: it has a share that stands for all who are
//! counted elsewhere, and each thread counts in a line of its own, without a locked instruction. An exact
//! count is had by *recounting*: the word says that it is spread no more, threads that looked at it before
//! have passed, and the sum of what they have counted takes the place of the share.

use crate::once_box::OnceBox;
use crate::smr::fence;
use crate::smr::fork;
use crate::smr::refs::{LetGo, Refs, Seen};
use crate::smr::stripe::add;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{CHECKED, Mutex, MutexGuard, thread};

/// Slots that may be spread at once. 2 KiB for each thread that holds one.
pub(crate) const PLACES: usize = if CHECKED { 2 } else { 256 };

/// How often who recounts looks at a thread that has not passed, before it leaves it to the next.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1_000 };

/// What one thread counts, and alone writes. It has only atomics, so it may be freed while a reference to it, which
/// is not used any more, still exists.
#[derive(Debug)]
pub(crate) struct Own {
    /// Odd while the thread looks at a word, and counts.
    section: AtomicU64,
    /// Those that it has let in, less those that it has let go, by place. They wrap.
    counts: OnceBox<Counts>,
}

impl Default for Own {
    fn default() -> Self {
        let own = Own { section: AtomicU64::new(0), counts: OnceBox::new() };
        if CHECKED {
            // A checker does not see how the box is shared.
            own.counts.get_or_make(none);
        }
        own
    }
}

/// Nothing counted.
fn none() -> Counts {
    Counts(std::array::from_fn(|_| AtomicU64::new(0)))
}

/// In lines of the thread's own.
#[derive(Debug)]
#[repr(align(128))]
struct Counts([AtomicU64; PLACES]);

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

    #[inline(always)]
    fn count(&self, refs: &Refs, amount: u64) -> bool {
        let counts = self.counts.get_or_make(none);
        let section = self.section.load(Relaxed);
        // Release: what was counted before, for who waits until it is not what it was, and finds this; partner is the
        // Acquire of `has_passed`.
        self.section.store(section + 1, Release);
        // Partner: the heavy fence of `recount`. Either this finds the word recounted, or the other waits for it.
        fence::light();
        let place = refs.place();
        if let Some(place) = place {
            add(&counts.0[place as usize % PLACES], amount);
        }
        // Release: the count, and what was read of the content; partner is the Acquire of `has_passed`.
        self.section.store(section + 2, Release);
        place.is_some()
    }

    fn counted(&self, place: usize) -> u64 {
        self.counts.get().map_or(0, |counts| counts.0[place].load(Relaxed))
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
#[derive(Debug, Clone, Copy)]
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
}

#[derive(Debug)]
pub(crate) struct Table {
    places: [Place; PLACES],
    /// How often there was no place since all were recounted.
    refused: u32,
    /// Whether all are to be recounted.
    is_all_due: bool,
    /// Whether none is to be spread any more.
    is_closed: bool,
}

/// Refusals after which all that is spread is recounted, because it may be hot no more.
const REFUSED_MAX: u32 = if CHECKED { 2 } else { 1 << 12 };

impl Spread {
    pub(crate) fn new() -> Self {
        let places = [Place { slot: 0, base: 0, is_over: false }; PLACES];
        Spread {
            table: Mutex::new(Table { places, refused: 0, is_all_due: false, is_closed: false }),
            due: AtomicBool::new(false),
        }
    }

    /// Whether something is to be recounted.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Relaxed)
    }

    /// A slot that is spread is to be recounted: it was not used of late, or its residency is over.
    #[cold]
    pub(crate) fn recount_soon(&self, refs: &Refs) {
        refs.recount_soon();
        self.set_due();
    }

    fn set_due(&self) {
        // An exchange, and Release: who takes it away finds what is due. Partner: the Acquire of `recount`.
        self.due.swap(true, Release);
    }

    /// The process is not forked meanwhile.
    pub(crate) fn table(&self) -> (fork::Unforked, MutexGuard<'_, Table>) {
        (fork::Unforked::new(), self.table.lock())
    }

    /// The same, for who waits for nobody.
    pub(crate) fn try_table(&self) -> Option<(fork::Unforked, MutexGuard<'_, Table>)> {
        fork::Unforked::try_new().zip(self.table.try_lock())
    }

    /// Spreads a slot in which the caller is counted, if it is resident, there is a place, and nobody else
    /// is at it. Waits for nobody, and drops nothing.
    #[cold]
    pub(crate) fn spread<'o>(
        &self,
        slot: u32,
        refs: &Refs,
        owns: impl Iterator<Item = (u32, &'o Own)>,
    ) {
        let Some((_unforked, mut table)) = self.try_table() else { return };
        if table.is_closed {
            return;
        }
        if table.places.iter().any(|place| place.slot == slot) {
            // Another was faster, or it is being recounted.
            return;
        }
        let Some(free) = table.places.iter().position(|place| place.slot == 0) else {
            table.refused += 1;
            if table.refused >= REFUSED_MAX {
                table.is_all_due = true;
                self.set_due();
            }
            return;
        };
        // Nobody counts here: who did has passed before the place became free.
        let base = sum(owns, free);
        if refs.spread(free as u32) {
            table.places[free] = Place { slot, base, is_over: false };
        }
    }
}

fn sum<'o>(owns: impl Iterator<Item = (u32, &'o Own)>, place: usize) -> u64 {
    owns.fold(0, |sum, (_, own)| sum.wrapping_add(own.counted(place)))
}

impl Table {
    /// Whether somebody is counted in a slot whose word has `seen`, wherever, and there is something for that.
    pub(crate) fn is_held<'o>(
        &self,
        slot: u32,
        seen: Seen,
        owns: impl Iterator<Item = (u32, &'o Own)>,
    ) -> bool {
        let mut places = self.places.iter().enumerate();
        match seen.has_share().then(|| places.find(|(_, place)| place.slot == slot)).flatten() {
            Some((at, place)) => seen.is_held_by(sum(owns, at).wrapping_sub(place.base)),
            None => seen.is_held(),
        }
    }

    /// None is spread from here on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
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
        let all = std::mem::take(&mut self.is_all_due) || all;
        for place in self.places.iter_mut().filter(|place| place.slot != 0 && !place.is_over) {
            place.is_over = refs(place.slot).recount(all);
        }
        if self.places.iter().all(|place| !place.is_over) {
            return true;
        }
        if all {
            self.refused = 0;
        }
        // Partner: the light fence of `count`.
        fence::heavy();
        if !owns().all(|(number, own)| own.has_passed(number)) {
            spread.set_due();
            return false;
        }
        for (at, place) in self.places.iter_mut().enumerate() {
            if std::mem::take(&mut place.is_over) {
                let slot = std::mem::take(&mut place.slot);
                let counted = sum(owns(), at).wrapping_sub(place.base);
                recounted(slot, refs(slot).take_back_share(counted));
            }
        }
        true
    }
}
