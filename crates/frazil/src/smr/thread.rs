//! A small number for each living thread, so that it can own a stripe of each cache.
//!
//! The lowest free number is handed out, and given back when the thread ends, so tables indexed by
//! thread are as short as the most threads alive at once. A lock guards handing on a number, so its
//! next owner sees everything that its last owner wrote.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::smr::fork;
use crate::smr::stripe::{Stripe, Stripes};

/// Returned numbers, and the first never handed out.
type Numbers = (BinaryHeap<Reverse<u32>>, u32);

/// The standard library's mutex, which in a forked process can be unlocked although threads wait
/// for it that do not exist there.
static NUMBERS: Mutex<Numbers> = Mutex::new((BinaryHeap::new(), 0));

fn numbers() -> MutexGuard<'static, Numbers> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number while it is held.
pub(crate) struct Lease(u32);

impl Lease {
    /// The lowest free number.
    pub(crate) fn new() -> Self {
        let mut numbers = numbers();
        let number = numbers.0.pop().map(|Reverse(number)| number).unwrap_or_else(|| {
            numbers.1 += 1;
            numbers.1 - 1
        });
        Lease(number)
    }

    pub(crate) fn number(&self) -> u32 {
        self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A number that counts as lost, because its thread has forked, is not handed out again.
        if !fork::has_lost(self.0) {
            numbers().0.push(Reverse(self.0));
        }
    }
}

crate::sync::checked_thread_local! {
    /// This thread's number and one, or 0 before it has one. Read on every hit, so it has
    /// no destructor, which would cost a check of its own.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}
crate::sync::checked_thread_local! {
    /// How many pins this thread holds, of all caches.
    static PINS: Cell<u64> = const { Cell::new(0) };
}

/// A pin's claim on its thread's number.
#[derive(Debug)]
pub(crate) struct NumberInUse(());

impl NumberInUse {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        PINS.with(|pins| pins.set(pins.get() + 1));
        NumberInUse(())
    }
}

impl Drop for NumberInUse {
    #[inline(always)]
    fn drop(&mut self) {
        PINS.with(|pins| pins.set(pins.get() - 1));
    }
}

crate::sync::checked_thread_local! {
    static LEASE: OfThread = OfThread(ManuallyDrop::new(Lease::new()));
}

/// The lease of a thread.
struct OfThread(ManuallyDrop<Lease>);

impl Drop for OfThread {
    fn drop(&mut self) {
        // The thread's data are dropped before its number is returned.
        let _ = CURRENT.try_with(|current| current.set(0));
        let _ = LAST.try_with(|last| last.set((0, std::ptr::null())));
        // A pin that outlives this, in a variable of the thread's or forgotten, still
        // writes to the stripe: the number stays taken.
        if PINS.with(Cell::get) == 0 {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

crate::sync::checked_thread_local! {
    /// The stripe that this thread used last, and the identity of its cache; 0 is no cache. It is
    /// cleared with the thread's number, and no identity is given twice. So if the identity is
    /// right, it is the thread's own stripe of a living cache.
    static LAST: Cell<(u64, *const ())> = const { Cell::new((0, std::ptr::null())) };
}

/// A number that no other cache has.
pub(crate) fn identity() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The calling thread's stripe of the cache with this identity. 5 instructions where the
/// thread used no other cache in between, and 20 otherwise.
#[inline(always)]
pub(crate) fn stripe<L: Default, W: Default>(
    identity: u64,
    stripes: &Stripes<L, W>,
) -> &Stripe<L, W> {
    let (last, stripe) = LAST.with(Cell::get);
    if last == identity {
        // SAFETY: see `LAST`: it is one of `stripes`, which never moves them; so it is of their
        // type.
        return unsafe { &*stripe.cast() };
    }
    let stripe = stripes.of(number());
    LAST.with(|last| last.set((identity, std::ptr::from_ref(stripe).cast())));
    stripe
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
    // While the thread's own variables are being destroyed the number stays taken: one stripe less,
    // in programs whose destructors use a cache after ours has run.
    let number = LEASE
        .try_with(|lease| lease.0.number())
        .unwrap_or_else(|_| ManuallyDrop::new(Lease::new()).number());
    CURRENT.with(|current| current.set(number + 1));
    number
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod at_fork {
    use super::*;

    std::thread_local! {
        /// The numbers, while this thread forks: no other must be changing them then.
        static SEIZED: Cell<Option<MutexGuard<'static, Numbers>>> = const { Cell::new(None) };
    }

    /// Keeps other threads from the numbers, until they are released.
    pub(crate) fn seize_numbers() {
        // A thread that forks while its variables are destroyed does without.
        _ = SEIZED.try_with(|seized| seized.set(Some(numbers())));
    }

    /// Stops handing out numbers that were ever handed out, in a process with only this thread
    /// left, which has seized them. Returns the first new number, and this thread's.
    pub(crate) fn restart_numbers() -> (u32, Option<u32>) {
        let first = SEIZED.try_with(|seized| {
            let mut numbers = seized.take();
            let first = numbers.as_mut().map_or(0, |numbers| {
                numbers.0.clear();
                numbers.1
            });
            seized.set(numbers);
            first
        });
        (first.unwrap_or(0), CURRENT.try_with(Cell::get).unwrap_or(0).checked_sub(1))
    }

    /// Releases them to other threads.
    pub(crate) fn release_numbers() {
        _ = SEIZED.try_with(Cell::take);
    }
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
pub(crate) use at_fork::{release_numbers, restart_numbers, seize_numbers};
