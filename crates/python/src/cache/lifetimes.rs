//! When entries expire: so long after their insertion, so long after their last use.
//!
//! All entries live equally long, so those inserted first expire first, and likewise those used last:
//! two lists, of which only the tails are looked at.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil_policy::{Lists, Slot};
use pyo3::prelude::*;

/// One of the two lifetimes, and since when each entry has it.
pub(super) struct Lifetime {
    nanoseconds: u64,
    /// By slot.
    since: Vec<u64>,
    oldest: Lists<1>,
}

impl Lifetime {
    pub(super) fn new(nanoseconds: u64) -> Self {
        Lifetime { nanoseconds, since: Vec::new(), oldest: Lists::new() }
    }

    pub(super) fn emptied(&self) -> Self {
        Self::new(self.nanoseconds)
    }

    pub(super) fn nanoseconds(&self) -> u64 {
        self.nanoseconds
    }

    pub(super) fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }

    /// Begins the lifetime of a new entry.
    pub(super) fn begin(&mut self, slot: Slot, now: u64) {
        if self.since.len() <= slot.index() {
            self.since.resize(slot.index() + 1, 0);
        }
        self.since[slot.index()] = now;
        self.oldest.push_head(0, slot);
    }

    /// Begins the lifetime of an entry anew.
    pub(super) fn renew(&mut self, slot: Slot, now: u64) {
        self.since[slot.index()] = now;
        self.oldest.move_to_head(0, slot);
    }

    pub(super) fn end(&mut self, slot: Slot) {
        self.oldest.unlink(slot);
    }

    /// How long an entry still lives; `None` if it has expired.
    pub(super) fn left(&self, slot: Slot, now: u64) -> Option<u64> {
        let age = now.saturating_sub(self.since[slot.index()]);
        self.nanoseconds.checked_sub(age).filter(|&left| left > 0)
    }

    /// Sets the lifetime that an entry has left, at most a whole one. [`sort`](Self::sort) must follow.
    pub(super) fn set_left(&mut self, slot: Slot, now: u64, left: u64) {
        let age = self.nanoseconds - left.min(self.nanoseconds);
        self.since[slot.index()] = now.saturating_sub(age);
    }

    /// Restores the order. O(n log n).
    pub(super) fn sort(&mut self) {
        let mut slots: Vec<Slot> = self.oldest.from_tail(0).collect();
        slots.sort_by_key(|slot| self.since[slot.index()]);
        for slot in slots {
            self.oldest.move_to_head(0, slot);
        }
    }

    /// The oldest entry, if it has expired.
    pub(super) fn expired(&self, now: u64) -> Option<Slot> {
        self.oldest.tail(0).filter(|&slot| self.left(slot, now).is_none())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.since.capacity() * size_of::<u64>() + self.oldest.heap_bytes()
    }
}

/// What the clock shows when the system's is 0. Entries of a snapshot may be older than the process.
static ORIGIN: AtomicU64 = AtomicU64::new(1 << 62);

/// Nanoseconds since a fixed moment, so long ago that entries may be older than this process.
pub(super) fn now() -> u64 {
    // Relaxed: a number by itself.
    ORIGIN.load(Relaxed) + clock::nanoseconds()
}

/// Sets the clock of all lifetimes in this process forward, for tests that do not sleep.
#[pyfunction]
pub(crate) fn _pass(seconds: f64) {
    ORIGIN.fetch_add((seconds * 1e9) as u64, Relaxed);
}

/// A moment that is not before [`now`], and up to ten milliseconds behind it. Costs a fourth of
/// [`now`] on Linux.
#[inline(always)]
pub(super) fn soon() -> u64 {
    ORIGIN.load(Relaxed) + clock::nanoseconds_at_tick() + clock::TICK_NS
}

#[cfg(target_os = "linux")]
mod clock {
    use std::mem::MaybeUninit;

    use libc::{CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, clockid_t};

    /// The kernel ticks at least a hundred times a second.
    pub(super) const TICK_NS: u64 = 10_000_000;

    #[inline(always)]
    fn read(clock: clockid_t) -> u64 {
        let mut time = MaybeUninit::uninit();
        // SAFETY: writes the time; both clocks exist since Linux 2.6.32, so it does not fail.
        let time: libc::timespec = unsafe {
            libc::clock_gettime(clock, time.as_mut_ptr());
            time.assume_init()
        };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    pub(super) fn nanoseconds() -> u64 {
        read(CLOCK_MONOTONIC)
    }

    /// The same clock at the last tick.
    #[inline(always)]
    pub(super) fn nanoseconds_at_tick() -> u64 {
        read(CLOCK_MONOTONIC_COARSE)
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) const TICK_NS: u64 = 0;

    pub(super) fn nanoseconds() -> u64 {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        BEGINNING.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(super) fn nanoseconds_at_tick() -> u64 {
        nanoseconds()
    }
}
