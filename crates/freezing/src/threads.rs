//! The place of each thread in an overlay.
//!
//! A living thread has a number, which a thread that begins after its end may reuse: a bit of a
//! word, so that no thread waits for one. A forked process never regains the numbers of threads
//! that it does not have. Threads beyond [`OWN`] share other places.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicU64 as Word, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::sync::atomic::AtomicU64;

/// Threads with a place of their own; the others share the same number of places. Few under the
/// checker: each costs it time, and taken places become common.
pub(crate) const OWN: usize = if cfg!(loom) { 1 } else { 64 };
/// Places of an overlay.
pub(crate) const PLACES: usize = 2 * OWN;

/// A thread's place: its counters, and the claim that it tries first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) at: usize,
    /// Whether no other living thread has this place.
    is_own: bool,
}

/// A bit for each number of a living thread, the lowest for 1.
static TAKEN: Word = Word::new(0);

/// A number, held while its thread lives.
struct Lease(usize);

impl Drop for Lease {
    fn drop(&mut self) {
        // Objects destroyed after it share a place.
        let _ = NUMBER.try_with(|own| own.set(SHARED));
        if self.0 <= OWN {
            // Release: this thread's counts. Partner: the Acquire of `new_number`.
            TAKEN.fetch_and(!(1 << (self.0 - 1)), Release);
        }
    }
}

/// Instead of a number, for threads that are ending.
const SHARED: usize = usize::MAX;

std::thread_local! {
    /// The thread's number, from 1; 0 before it has one. Read by every call, so it has no
    /// destructor, which would cost a check of its own.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static LEASE: Lease = Lease(new_number());
}

fn new_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let is_any_left = |taken: u64| (taken.trailing_ones() as usize) < OWN;
    let take = |taken: u64| is_any_left(taken).then(|| taken | (taken + 1));
    // Acquire: the counts of its last holder come before. Partner: the Release of `Lease::drop`.
    match TAKEN.fetch_update(Acquire, Relaxed, take) {
        Ok(taken) => taken.trailing_ones() as usize + 1,
        // Beyond the places that belong to one thread, whatever the number.
        Err(_) => OWN + 1 + NEXT.fetch_add(1, Relaxed) % OWN,
    }
}

impl Place {
    /// The place of the calling thread.
    #[inline(always)]
    pub(crate) fn of_this_thread() -> Self {
        let number = NUMBER.try_with(Cell::get).unwrap_or(SHARED);
        let number = if number == 0 { Self::number() } else { number };
        let is_own = number <= OWN;
        let at = if is_own { number - 1 } else { OWN + number % OWN };
        Place { at, is_own }
    }

    #[cold]
    fn number() -> usize {
        let number = LEASE.try_with(|lease| lease.0).unwrap_or(SHARED);
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
        // Far more threads than places, one after the other.
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
    fn no_place_is_lost_to_threads_that_end_at_once() {
        for _ in 0..OWN {
            let start = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        Place::of_this_thread();
                        start.wait();
                    });
                }
            });
        }
        let place = std::thread::spawn(Place::of_this_thread).join();
        assert!(place.is_ok_and(|place| place.is_own));
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
