//! Which place of an overlay is a thread's.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sync::atomic::AtomicU64;

/// Threads that have a place each; others share as many. Under the checker few: each costs it time,
/// and that one is taken becomes common.
pub(crate) const OWN: usize = if cfg!(loom) { 1 } else { 64 };
/// Places of an overlay.
pub(crate) const PLACES: usize = 2 * OWN;

/// A thread's place: where it counts, and what it claims first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    /// Whether no other thread ever has it.
    is_own: bool,
}

std::thread_local! {
    /// The thread's number and one; 0 before it has one.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

impl Place {
    /// The calling thread's.
    #[inline(always)]
    pub(crate) fn of_this_thread() -> Self {
        // What is destroyed with the thread shares a place.
        let number = NUMBER.try_with(Cell::get).unwrap_or(usize::MAX);
        let number = if number == 0 { Self::number() } else { number };
        let is_own = number <= OWN;
        let at = if is_own { number - 1 } else { OWN + number % OWN };
        Place { at, is_own }
    }

    #[cold]
    fn number() -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        // Never twice: that a place is a thread's own hangs on it. Those to come share.
        let next = |next: usize| next.checked_add(1);
        let number = NEXT.fetch_update(Relaxed, Relaxed, next).unwrap_or(usize::MAX);
        let _ = NUMBER.try_with(|own| own.set(number));
        number
    }

    /// Adds one to a count of this place.
    #[inline(always)]
    pub(crate) fn count(self, count: &AtomicU64) {
        self.add(count, 1);
    }

    #[inline(always)]
    pub(crate) fn add(self, count: &AtomicU64, amount: u64) {
        if self.is_own {
            count.store(count.load(Relaxed).wrapping_add(amount), Relaxed);
        } else {
            count.fetch_add(amount, Relaxed);
        }
    }
}
