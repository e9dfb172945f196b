//! Which place of an overlay is a thread's.
//!
//! A living thread has a number, which one that begins after its end may have. Nobody waits for
//! one: a number that can't be given back at once is lost, and there are places for those that have
//! none.

use std::cell::Cell;
use std::sync::Mutex;
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
    /// Whether no other living thread has it.
    is_own: bool,
}

/// Numbers given back. Who takes one sees what its last owner has counted.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A number while its thread lives.
struct Lease(usize);

impl Drop for Lease {
    fn drop(&mut self) {
        // What is destroyed after it shares a place.
        let _ = NUMBER.try_with(|own| own.set(usize::MAX));
        if self.0 <= OWN
            && let Ok(mut free) = FREE.try_lock()
        {
            free.push(self.0);
        }
    }
}

std::thread_local! {
    /// The thread's number, from 1; 0 before it has one. Read by every call, so it has no
    /// destructor, which would cost a check of its own.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static LEASE: Lease = Lease(new_number());
}

fn new_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    if let Some(number) = FREE.try_lock().ok().and_then(|mut free| free.pop()) {
        return number;
    }
    // Never twice: that a place is a thread's own hangs on it. Those to come share.
    let next = |next: usize| next.checked_add(1);
    NEXT.fetch_update(Relaxed, Relaxed, next).unwrap_or(usize::MAX)
}

impl Place {
    /// The calling thread's.
    #[inline(always)]
    pub(crate) fn of_this_thread() -> Self {
        let number = NUMBER.try_with(Cell::get).unwrap_or(usize::MAX);
        let number = if number == 0 { Self::number() } else { number };
        let is_own = number <= OWN;
        let at = if is_own { number - 1 } else { OWN + number % OWN };
        Place { at, is_own }
    }

    #[cold]
    fn number() -> usize {
        let number = LEASE.try_with(|lease| lease.0).unwrap_or(usize::MAX);
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_place_that_no_other_living_thread_has() {
        let place = || std::thread::spawn(|| Place::of_this_thread().at).join().ok();
        // Far more than there are places, one after the other.
        assert!((0..4 * OWN).all(|_| place().is_some_and(|at| at < OWN)));
        let all = std::sync::Barrier::new(OWN / 2);
        let mut places: Vec<Place> = std::thread::scope(|scope| {
            let place = || {
                let place = Place::of_this_thread();
                all.wait();
                place
            };
            let threads: Vec<_> = (0..OWN / 2).map(|_| scope.spawn(place)).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        places.sort_by_key(|place| place.at);
        assert_eq!(places.len(), OWN / 2);
        assert!(places.windows(2).all(|pair| pair[0].at < pair[1].at), "{places:?}");
    }

    #[test]
    fn threads_without_a_place_of_their_own_count_all() {
        let count = AtomicU64::new(0);
        let shared = Place { at: OWN, is_own: false };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| shared.count(&count)));
            }
        });
        assert_eq!(count.load(Relaxed), 40_000);
    }
}
