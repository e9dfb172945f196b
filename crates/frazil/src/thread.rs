//! A small number for each living thread, so that it can own a stripe of each cache.
//!
//! Numbers are handed out lowest first and given back when the thread ends, so tables
//! indexed by them stay as short as the most threads that ever lived at once. Handing
//! on a number goes through a lock, so all that its last owner wrote is seen by the next.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use parking_lot::Mutex;

/// Numbers given back, and the first never handed out.
static NUMBERS: Mutex<(BinaryHeap<Reverse<u32>>, u32)> =
    parking_lot::const_mutex((BinaryHeap::new(), 0));

/// A number while it is held.
struct Lease(u32);

impl Lease {
    fn new() -> Self {
        let mut numbers = NUMBERS.lock();
        let number = numbers.0.pop().map(|Reverse(number)| number).unwrap_or_else(|| {
            numbers.1 += 1;
            numbers.1 - 1
        });
        Lease(number)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.set(0));
        NUMBERS.lock().0.push(Reverse(self.0));
    }
}

crate::sync::checked_thread_local! {
    /// This thread's number and one, or 0 before it has one. Read on every hit, so it has
    /// no destructor, which would cost a check of its own.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}
crate::sync::checked_thread_local! {
    static LEASE: Lease = Lease::new();
}

/// The number of the calling thread, which no other living thread has.
#[inline(always)]
pub(crate) fn number() -> u32 {
    match CURRENT.with(Cell::get) {
        0 => register(),
        number => number - 1,
    }
}

#[cold]
fn register() -> u32 {
    // Where the thread's own variables are being destroyed the number stays taken: a
    // stripe less, in programs whose destructors use a cache after ours has run.
    let number = LEASE
        .try_with(|lease| lease.0)
        .unwrap_or_else(|_| std::mem::ManuallyDrop::new(Lease::new()).0);
    CURRENT.with(|current| current.set(number + 1));
    number
}
