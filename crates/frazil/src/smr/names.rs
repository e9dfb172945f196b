//! The slots that the pins of a thread have shown.
//!
//! A thread names each slot that its pins show before it reads the content, and then checks whether
//! the slot is still there, as with a hazard. So a pin holds up only what its reader may be
//! reading, however long it lives and whatever others evict meanwhile. The thread drops all names
//! with its last pin.
//!
//! They lie in a log, one for each look: a look costs two stores and no search. A log that is full
//! is copied to one of twice the length, or, if it is long already, to another of the same length
//! and each slot once:
//!
//! ```text
//! thread of the pins                    reclaimer
//!   log is full                           copied c times? n names?
//!   is writing the other log of its       finds the log by c, reads n names of it
//!     pair, or one of a longer pair       copied c + 1 times, and writing again?
//!   copied c + 1 times; n names             then once more
//! ```
//!
//! The log of copy c is left full. The thread overwrites it only after another copy, when it has
//! looked at half as many slots as the log holds. No thread waits: a reclaimer begins anew only if
//! the thread has come so far meanwhile.
//!
//! Made by a thread's first pin: 2 KiB; up to 64 KiB however few slots are shown in 4,096 looks;
//! beyond that up to 64 bytes for each slot of the pin that has shown most.

use std::ptr;

use crate::sync::CHECKED;
use crate::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Names of the first log.
const FIRST: usize = if CHECKED { 1 } else { 256 };
/// Up to this length a log grows even if names repeat: to sort that many costs a look 60
/// instructions.
const LONG: usize = if CHECKED { 1 } else { 4_096 };
/// The unit in which copies are counted, and the addition while the next one is being written.
const COPY: u64 = 2;
const WRITING: u64 = 1;
/// Attempts to read the names of a thread that copies them meanwhile. One where each attempt
/// multiplies the interleavings.
const READS: u32 = if CHECKED { 1 } else { 8 };

/// The slots that one thread's pins have returned. Written only by that thread, while it exists.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Names {
    /// Number of names, one for each look.
    count: AtomicU32,
    /// How often they were forgotten.
    turns: AtomicU32,
    /// How often they were copied, in [`COPY`], and whether they are being copied.
    state: AtomicU64,
    /// Where they lie, and how many there may be: for the thread itself.
    first: AtomicPtr<AtomicU32>,
    room: AtomicU32,
    /// Whether a reclamation has found something held up by them. Written by others as well.
    blamed: AtomicBool,
    /// Null until there is a first name. Other threads read it if there is one.
    logs: AtomicPtr<Logs>,
}

/// Two of the same length; one is in use.
#[derive(Debug)]
struct Logs {
    /// Used alternately: the first after an even number of copies.
    slots: [Box<[AtomicU32]>; 2],
    /// The state from which on they are in use.
    since: u64,
    /// Shorter ones, or null. Readers that have begun with them may continue.
    shorter: *mut Logs,
}

impl Logs {
    /// A log of at least this length.
    fn of(length: usize, since: u64, shorter: *mut Logs) -> Box<Logs> {
        let log = || (0..length.max(FIRST)).map(|_| AtomicU32::new(0)).collect();
        Box::new(Logs { slots: [log(), log()], since, shorter })
    }

    /// The log in use in a state.
    fn slots(&self, state: u64) -> &[AtomicU32] {
        &self.slots[(state / COPY % 2) as usize]
    }
}

impl Default for Names {
    fn default() -> Self {
        Names {
            count: AtomicU32::new(0),
            room: AtomicU32::new(0),
            first: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU64::new(0),
            logs: AtomicPtr::new(ptr::null_mut()),
            turns: AtomicU32::new(0),
            blamed: AtomicBool::new(false),
        }
    }
}

impl Names {
    /// Names a slot. For [`Reader::name`](crate::smr::stripe::Reader::name).
    #[inline(always)]
    pub(crate) fn add(&self, slot: u32) {
        let mut count = self.count.load(Relaxed);
        while count >= self.room.load(Relaxed) {
            self.make_room();
            count = self.count.load(Relaxed);
        }
        // SAFETY: there is room for one more, and it stays where it is as long as the names do.
        let name = unsafe { &*self.first.load(Relaxed).add(count as usize) };
        // Release: reads of the slot previously named here; partner is the Acquire of `read`.
        name.store(slot, Release);
        // Release: as in `copy`, whose count it hides.
        self.count.store(count + 1, Release);
    }

    /// Copies the names to a log with space for more. An allocator that uses the cache may come
    /// here as well, and name slots when it allocates and when it frees: so `add` checks the space
    /// again.
    #[cold]
    #[inline(never)]
    fn make_room(&self) {
        let state = self.state.load(Relaxed);
        let logs = self.logs.load(Relaxed);
        // SAFETY: a pointer that is not null was made below, and stays until the names are dropped.
        let used = unsafe { logs.as_ref() }.map_or(&[][..], |logs| logs.slots(state));
        let mut names: Vec<u32> = used.iter().map(|name| name.load(Relaxed)).collect();
        if names.len() >= LONG {
            names.sort_unstable();
            names.dedup();
        }
        let is_short = names.len() > used.len() / 2 || used.is_empty();
        let longer = is_short.then(|| Logs::of(used.len() * 2, state + COPY, logs));
        if self.state.load(Relaxed) == state {
            self.copy(state, &names, longer);
        }
    }

    /// Copies the names to the log of the next copy, perhaps of a longer pair.
    fn copy(&self, state: u64, names: &[u32], longer: Option<Box<Logs>>) {
        if let Some(longer) = longer {
            // Release: its content; partner is the Acquire of `read`.
            self.logs.store(Box::into_raw(longer), Release);
        }
        // SAFETY: it is not null, because the first pair is longer than none; and as above.
        let free = unsafe { &*self.logs.load(Relaxed) }.slots(state + COPY);
        // Release: the names of this state, for a thread that sees the copying begun and not yet
        // ended; partner is the Acquire of `read`.
        self.state.store(state + WRITING, Release);
        // Release: the state, so that a thread that reads an overwritten name sees it change;
        // partner is the Acquire of `read`.
        let rest = std::iter::repeat(&0);
        free.iter()
            .zip(names.iter().chain(rest))
            .for_each(|(free, &name)| free.store(name, Release));
        self.first.store(free.as_ptr().cast_mut(), Relaxed);
        self.room.store(free.len() as u32, Relaxed);
        // Release: the names; partner is the Acquire of `read`.
        self.state.store(state + COPY, Release);
        // Release: not before it is said that they were copied; partner is the Acquire of `read`.
        self.count.store(names.len() as u32, Release);
    }

    /// Forgets all names: the thread has no pin left. True if they held up a reclamation.
    #[inline(always)]
    pub(crate) fn clear(&self) -> bool {
        self.count() != 0 && self.clear_some()
    }

    #[inline(never)]
    fn clear_some(&self) -> bool {
        let blamed = self.blamed.load(Relaxed);
        // Before the names are dropped: if a thread still finds them, and blames them after this,
        // the next call reports it.
        if blamed {
            self.blamed.store(false, Relaxed);
        }
        self.forget();
        blamed
    }

    /// Forgets all names.
    fn forget(&self) {
        // Release: all that was read; partner is the Acquire of `read`.
        self.count.store(0, Release);
        // Release: after the names are cleared; partner is the Acquire of `turns`.
        self.turns.store(self.turns.load(Relaxed).wrapping_add(1), Release);
    }

    /// Forgets all names of a thread that the process has lost, perhaps while it was copying them.
    pub(crate) fn forget_lost(&self) {
        self.count.store(0, Relaxed);
        let state = self.state.load(Relaxed);
        // Others would take the log that was being copied for full.
        if state & WRITING != 0 {
            self.state.store(state + WRITING, Relaxed);
        }
        self.forget();
    }

    /// Makes the thread report when it releases the slots that it holds up. Called by other
    /// threads. If it comes a moment late, the thread reports after its next pin, and one
    /// reclamation is in vain.
    pub(crate) fn blame(&self) {
        if !self.blamed.load(Relaxed) {
            self.blamed.store(true, Relaxed);
        }
    }

    /// Number of names, one for each look.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Number of times that they were forgotten. If it has not changed since before they were read,
    /// none of those has been dropped.
    pub(crate) fn turns(&self) -> u32 {
        // Acquire: partner is the Release of `forget`.
        self.turns.load(Acquire)
    }

    /// Passes all names to `take`, some of them more than once. False if the thread has copied them
    /// so often meanwhile that some may be missing. Called by other threads, after a heavy fence,
    /// or after the thread has passed: a name that is not seen, or not counted yet, belongs to a
    /// slot that is checked later.
    #[must_use]
    pub(crate) fn read(&self, mut take: impl FnMut(u32)) -> bool {
        (0..READS).any(|_| {
            // Acquire: partner is the Release of `copy`.
            let state = self.state.load(Acquire) / COPY * COPY;
            // Acquire: partners are the Releases of `forget`, so that reads under dropped names
            // come before a slot is written again, of `add` and of `copy`: a thread that reads a
            // later count sees below that there was a copy.
            let count = self.count.load(Acquire) as usize;
            // A log that was copied meanwhile is full, and the count may be that of the copy.
            // Acquire: names added to it; partner is the Release of `copy`.
            let is_full = self.state.load(Acquire) > state;
            if count == 0 && !is_full {
                return true;
            }
            // Acquire: partner is the Release of `copy`.
            let mut logs = self.logs.load(Acquire);
            // SAFETY: a pointer that is not null stays until the names are dropped, and so do
            // shorter logs.
            while let Some(later) = unsafe { logs.as_ref() }.filter(|logs| logs.since > state) {
                logs = later.shorter;
            }
            // SAFETY: as above.
            let Some(logs) = (unsafe { logs.as_ref() }) else { return true };
            let log = logs.slots(state);
            let names = log.iter().take(if is_full { log.len() } else { count });
            // Acquire: as that of the count.
            names.map(|name| name.load(Acquire)).filter(|&slot| slot != 0).for_each(&mut take);
            self.state.load(Relaxed) <= state + COPY
        })
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        // SAFETY: as in `read`.
        let at = |logs: *mut Logs| unsafe { logs.as_ref() };
        let all = std::iter::successors(at(self.logs.load(Acquire)), |logs| at(logs.shorter));
        all.map(|logs| size_of::<Logs>() + 2 * size_of_val(&*logs.slots[0])).sum()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let mut logs = self.logs.load(Relaxed);
        while !logs.is_null() {
            // SAFETY: made by `make_room` from a box, and this is the last owner of the stripe.
            logs = unsafe { Box::from_raw(logs) }.shorter;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(names: &Names) -> BTreeSet<u32> {
        let mut all = BTreeSet::new();
        assert!(names.read(|slot| _ = all.insert(slot)));
        all
    }

    #[test]
    fn what_is_named_is_read_until_it_is_forgotten() {
        let names = Names::default();
        assert!(!names.clear() && all(&names).is_empty());
        for count in [1, 300, 5, 100_000, 0, 70_000] {
            (1..=count).for_each(|slot| names.add(slot));
            assert_eq!(all(&names), (1..=count).collect());
            if count > 0 {
                names.blame();
            }
            assert_eq!(names.clear(), count > 0, "who was blamed says so");
            assert!(all(&names).is_empty() && !names.clear_some());
        }
        assert!(names.heap_bytes() < 40 * 100_000, "{}", names.heap_bytes());
    }

    #[test]
    fn names_of_a_thread_that_was_lost_are_none() {
        for count in [1, 300] {
            let names = Names::default();
            (1..=count).for_each(|slot| names.add(slot));
            // As if the process was forked while they were copied.
            names.state.fetch_add(WRITING, Relaxed);
            names.forget_lost();
            assert!(all(&names).is_empty());
        }
    }

    /// However often the same slots are returned.
    #[test]
    fn looks_take_no_memory_where_slots_are_the_same() {
        let names = Names::default();
        for look in 0..1_000_000 {
            names.add(1 + look % 3_000);
        }
        assert_eq!(all(&names), (1..=3_000).collect());
        assert!(names.heap_bytes() < 200_000, "{}", names.heap_bytes());
    }

    /// A reader misses none that existed before, even if they are copied repeatedly meanwhile.
    #[test]
    fn no_name_is_missing_while_they_are_copied() {
        let names = Names::default();
        (1..=1_000).for_each(|slot| names.add(slot));
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| (0..2_000_000).for_each(|look| names.add(1 + look % 1_500)));
            while !writer.is_finished() {
                let mut found = BTreeSet::new();
                if names.read(|slot| _ = found.insert(slot)) {
                    assert_eq!(found.range(..=1_000).count(), 1_000);
                }
            }
        });
    }
}
