//! A value that readers access without locks and a publisher replaces, with safe reclamation.
//!
//! A reader takes one of the [`Claims`], accesses the published value, and releases the claim. The
//! publisher withdraws the value, and then waits until it has seen each claim free once: a thread
//! that claims after that finds it withdrawn. So a reader pays one locked instruction, on a line
//! that no other thread writes unless there are more threads than claims. A reader that finds its
//! claim taken, by another thread or by itself further down the stack, tries a few others and then
//! goes without.
//!
//! No reader waits. A publisher waits for readers for a bounded time. A reader that takes
//! longer (suspended, or in the user's `Eq` or `Clone`) prevents the publication, and the old
//! value is kept until the reader has released its claim.

use std::ptr;

use crate::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// How many claims a look-up tries.
const TRIED: usize = 4;

/// A full fence where the checker needs one: loom treats `SeqCst` operations as acquire and
/// release ones, and knows only fences.
#[inline(always)]
fn order_for_checker() {
    #[cfg(loom)]
    crate::sync::atomic::fence(SeqCst);
}

/// A thread's claim, held while it reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Claim<T> {
    taken: AtomicBool,
    /// Data on the same line, of the thread that usually takes it.
    beside: T,
}

/// A claim while it is held.
pub(crate) struct Held<'c, T>(&'c Claim<T>);

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: all reads came before. Partners: the Acquire of the next thread that takes it,
        // and that of `is_free`.
        self.0.taken.store(false, Release);
    }
}

/// Claims, one for each thread expected to read at once.
#[derive(Debug)]
pub(crate) struct Claims<T>(Box<[Claim<T>]>);

impl<T: Default> Claims<T> {
    /// At least `count` claims: a power of two.
    pub(crate) fn new(count: usize) -> Self {
        Claims((0..count.next_power_of_two()).map(|_| Claim::default()).collect())
    }

    /// The claim of a thread. By a mask: a division is 0.2 of the 1.2 ns that an idle overlay
    /// adds to a hit.
    #[inline(always)]
    fn of(&self, thread: usize) -> &Claim<T> {
        &self.0[thread & (self.0.len() - 1)]
    }

    /// Takes a claim for the thread of a number. `None` if all claims that it tries are taken.
    #[inline(always)]
    fn take(&self, thread: usize, tries: usize) -> Option<Held<'_, T>> {
        (0..tries).find_map(|offset| {
            let claim = self.of(thread.wrapping_add(offset));
            // SeqCst: before the load of the published pointer. Partner: `Published::withdraw`,
            // whose exchange comes before its load of this, so that one of the two sees the other.
            let taken = claim.taken.compare_exchange(false, true, SeqCst, Relaxed);
            order_for_checker();
            // Made only for a claim that was taken: a dropped guard would release another's claim.
            taken.is_ok().then(|| Held(claim))
        })
    }

    /// The claims that a look-up tries.
    #[inline(always)]
    pub(crate) fn take_one(&self, thread: usize) -> Option<Held<'_, T>> {
        self.take(thread, TRIED.min(self.0.len()))
    }

    /// Takes any free claim.
    pub(crate) fn take_any(&self, thread: usize) -> Option<Held<'_, T>> {
        self.take(thread, self.0.len())
    }

    /// The data beside a thread's claim.
    #[inline(always)]
    pub(crate) fn beside(&self, thread: usize) -> &T {
        &self.of(thread).beside
    }

    /// The data beside all claims.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|claim| &claim.beside)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn is_free(&self, claim: usize) -> bool {
        // SeqCst: after the exchange of `withdraw`. Partner: `take`. It is an Acquire too: the
        // reads of its last holder came before.
        !self.0[claim].taken.load(SeqCst)
    }
}

/// A value that may be published.
#[derive(Debug)]
pub(crate) struct Published<T> {
    current: AtomicPtr<T>,
}

impl<T> Default for Published<T> {
    fn default() -> Self {
        Published { current: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<T> Published<T> {
    /// Whether anything is published, without a claim: that may change at once.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        !self.current.load(Relaxed).is_null()
    }

    /// The published value, while one of the claims is held that the publisher
    /// [awaits](Withdrawn::is_unread).
    #[inline(always)]
    pub(crate) fn get<'h, U>(&'h self, _claim: &'h Held<'_, U>) -> Option<&'h T> {
        // SeqCst: see `Claims::take`. It is an Acquire too: the partner is the Release of
        // `publish`.
        let current = self.current.load(SeqCst);
        // SAFETY: null, or from `Box::into_raw` in `publish`, and dropped when each claim was seen
        // free after it was taken away: this one was taken before that, or the load found null.
        unsafe { current.as_ref() }
    }

    /// Publishes a value if none is published.
    pub(crate) fn publish(&self, thing: Box<T>) {
        let thing = Box::into_raw(thing);
        // Release: the thing itself. Partner: the load of `get`.
        if self.current.compare_exchange(ptr::null_mut(), thing, Release, Relaxed).is_err() {
            debug_assert!(false, "something is published");
            // SAFETY: from `into_raw` above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(thing) });
        }
    }

    /// Withdraws the published value, which readers may still be using.
    pub(crate) fn withdraw(&self) -> Option<Withdrawn<T>> {
        // SeqCst: see `Claims::take`. Acquire: partner is the publisher's Release.
        let thing = self.current.swap(ptr::null_mut(), SeqCst);
        order_for_checker();
        (!thing.is_null()).then_some(Withdrawn { thing, seen_free: 0 })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let thing = self.current.load(Acquire);
        if !thing.is_null() {
            // SAFETY: from `Box::into_raw`, and every reader has borrowed `self`.
            drop(unsafe { Box::from_raw(thing) });
        }
    }
}

// SAFETY: it owns a `Box<T>`, lends it to several threads as `&T`, and drops it in any.
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Published<T> {}

/// The withdrawn value, until all its possible readers have released their claims.
#[derive(Debug)]
pub(crate) struct Withdrawn<T> {
    thing: *mut T,
    /// Number of claims seen free since.
    seen_free: usize,
}

// SAFETY: it owns the value, which otherwise only its readers access.
unsafe impl<T: Send + Sync> Send for Withdrawn<T> {}

impl<T> Withdrawn<T> {
    /// Drops the value if no thread reads it any more; else returns it.
    pub(crate) fn reclaim<U: Default>(mut self, claims: &Claims<U>) -> Result<(), Self> {
        while self.seen_free < claims.len() {
            if !claims.is_free(self.seen_free) {
                return Err(self);
            }
            self.seen_free += 1;
        }
        // SAFETY: from `Box::into_raw`, withdrawn by an exchange that one caller won; and each
        // claim was free after that. A thread that has taken one since finds it withdrawn
        // (`Published::get`).
        drop(unsafe { Box::from_raw(self.thing) });
        Ok(())
    }
}
