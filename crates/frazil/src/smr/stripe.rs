//! Per-thread state of one cache.
//!
//! A stripe belongs to the thread whose number it has. Its *reader* side is written by
//! that thread alone, with plain loads and stores: the hazard, the pin, and the counts
//! of hits and misses. Its *writer* side is the buffers through which entries travel in
//! batches. Another thread may need those too, to take over what an idle one has left,
//! so they are under a lock, biased towards the owner:
//!
//! ```text
//! owner                              another thread
//!   busy = true                        claimed: false -> true, or gives up
//!   light fence                        heavy fence
//!   claimed? then busy = false,        busy? then claimed = false,
//!     and goes elsewhere                 and gives up
//!   … works …                          … works …
//!   busy = false                       claimed = false
//! ```
//!
//! Whichever fence comes later sees the other side's flag, so never do both work; both
//! may give up. The owner executes no locked instruction (20 cycles of 110 that a miss
//! takes). Nobody waits: a thread that does not get one stripe goes to another.
//!
//! 1,024 bytes; a cache has as many stripes as threads that used it at once.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use crate::smr::fence;
use crate::smr::fork;
use crate::smr::names::Names;
use crate::smr::progress::Progress;
use crate::smr::segments::Spares;
use crate::smr::thread;
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{CHECKED, Mutex, MutexGuard};

/// The slots that a thread is reading. Written by that thread, read by all: the first line has the
/// words that every reclamation reads.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Reader {
    /// The slot that a `get` of this thread reads, or 0.
    pub(crate) hazard: AtomicU32,
    /// Another, which it is compared with, or 0.
    pub(crate) second: AtomicU32,
    /// How many pins this thread holds. More than can be forgotten in a lifetime.
    pub(crate) depth: AtomicU64,
    /// The epoch at which the first of them began, or 0.
    pub(crate) pinned: AtomicU64,
    /// Its progress past unlinked slots.
    pub(crate) progress: Progress,
    /// The slots that they have shown.
    pub(crate) names: Names,
}

impl Reader {
    /// Names a slot that a pin returns. Reads from here on come later. For the thread itself.
    #[inline(always)]
    pub(crate) fn name(&self, slot: u32) {
        self.names.add(slot);
        // Either the look that follows sees that the slot was unlinked, or who reclaims it sees
        // the name. Partner: as of `Hazard::protects`.
        fence::light();
        self.progress.wake_if_asleep();
    }

    /// Releases everything that a thread was reading which no longer exists.
    pub(crate) fn forget(&self) {
        self.hazard.store(0, Relaxed);
        self.second.store(0, Relaxed);
        self.names.forget_lost();
        self.depth.store(0, Relaxed);
        self.pinned.store(0, Relaxed);
        self.progress.forget();
    }
}

/// Adds to a count that only one thread writes at a time. No locked instruction.
#[inline(always)]
pub(crate) fn add(count: &AtomicU64, amount: u64) {
    count.store(count.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// A segment being filled or consumed: its number, or 0, and the next word.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) segment: u32,
    pub(crate) next: u32,
}

/// The buffers through which slots pass between threads, with the data of the layer above.
#[derive(Debug, Default)]
pub(crate) struct Buffers<W = ()> {
    /// Free slots in hand.
    pub(crate) vacant: Cursor,
    /// Slots that wait to be reclaimed, and their weight if entries have weights.
    pub(crate) retired: Cursor,
    pub(crate) retired_weight: u64,
    /// Whether some have moved to limbo since the last query, or slots become few.
    pub(crate) flushed: bool,
    /// Empty segments in hand.
    pub(crate) spares: Spares,
    /// Writes not counted yet.
    pub(crate) traffic: Traffic,
    /// Data of the layer above.
    pub(crate) above: W,
}

/// Writes of an operation to lines that every thread writes.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Attempts that another thread's progress made vain.
    pub(crate) retries: u64,
    /// Writes.
    pub(crate) writes: u64,
}

/// Per-thread state of one cache: the slots that its thread reads, the buffers of its writers, and
/// the data of the layers above, `L` for all readers and `W` for the holder of the buffers.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Stripe<L = (), W = ()> {
    pub(crate) reader: Reader,
    pub(crate) local: L,
    /// Whether the owner is at work.
    busy: AtomicBool,
    /// Whether another thread wants to be, or is.
    claimed: AtomicBool,
    /// Whether the thread at work runs user code, for which no thread may wait.
    outside: AtomicBool,
    /// Its writers' counts at the last check, and when it was emptied because they did nothing
    /// more.
    seen: AtomicU32,
    emptied: AtomicU32,
    /// The thread that has claimed it last, or that has worked with it without being its owner: its
    /// number and one; 0 for none.
    claimant: AtomicU32,
    buffers: UnsafeCell<Buffers<W>>,
}

// SAFETY: `buffers` is reached only through `Held`, and `own` and `claim` ensure that there is one
// at a time.
unsafe impl<L: Sync, W: Send> Sync for Stripe<L, W> {}

impl<L, W> Stripe<L, W> {
    /// The buffers, for the thread whose stripe it is. `None` if it has them already, or
    /// another thread has.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<Held<'_, L, W>> {
        // Acquire: partner is the Release of the number's previous owner.
        if self.busy.load(Acquire) {
            return None;
        }
        self.busy.store(true, Relaxed);
        // Partner: the heavy fence of `claim`.
        fence::light();
        // Acquire: partner is the Release with which another thread leaves.
        if self.claimed.load(Acquire) {
            self.busy.store(false, Release);
            return None;
        }
        Some(Held { stripe: self, flag: &self.busy })
    }

    /// Whether no thread has written to it since the last query, and its buffers may have content.
    /// Its writers' count is `done`.
    pub(crate) fn has_rested(&self, done: u32) -> bool {
        if self.seen.load(Relaxed) != done {
            self.seen.store(done, Relaxed);
            return false;
        }
        self.emptied.load(Relaxed) != done
    }

    /// Says that nothing is in the buffers of a stripe that [has rested](Stripe::has_rested).
    pub(crate) fn note_emptied(&self) {
        self.emptied.store(self.seen.load(Relaxed), Relaxed);
    }

    /// The buffers, for another thread than the owner. `None` if they are in use. Costs a
    /// heavy fence.
    pub(crate) fn claim(&self) -> Option<Held<'_, L, W>> {
        // Not a swap, which would write even if it fails: loom then takes the flag for raised.
        if self.claimed.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return None;
        }
        self.set_claimant();
        let held = Held { stripe: self, flag: &self.claimed };
        // Partner: the light fence of `own`. Acquire: partner is the Release with which
        // the owner leaves.
        fence::heavy();
        (!self.busy.load(Acquire)).then_some(held)
    }

    /// Whether a thread is at work with the buffers. For the thread that has stopped all, and has
    /// executed a heavy fence since. `owner` is the number of the stripe.
    fn is_in_use(&self, owner: u32) -> bool {
        // Acquire: partner is the Release with which a writer leaves.
        let (busy, claimed) = (self.busy.load(Acquire), self.claimed.load(Acquire));
        if !busy && !claimed {
            return false;
        }
        // A thread lost in a fork does nothing any more, and no other thread uses its flag. But the
        // forking thread may have been at work under a number that counts as lost, in user code. A
        // claimant not seen here yet sees after its heavy fence that it must stop.
        let claimant = self.claimant.load(Relaxed).checked_sub(1);
        let claimant_lives = claimant.is_some_and(|number| !fork::has_lost(number));
        match busy {
            true => !fork::has_lost(owner) || claimant_lives && self.outside.load(Relaxed),
            false => claimant.is_none() || claimant_lives,
        }
    }

    /// Says that the calling thread is at work with it, or is about to be, and not its owner.
    pub(crate) fn set_claimant(&self) {
        self.claimant.store(thread::number() + 1, Relaxed);
    }
}

/// The buffers of a stripe, while held.
pub(crate) struct Held<'s, L = (), W = ()> {
    stripe: &'s Stripe<L, W>,
    /// The flag to clear at the end.
    flag: &'s AtomicBool,
}

impl<'s, L, W> Held<'s, L, W> {
    /// The data of the layers above beside these buffers, for all readers.
    #[inline(always)]
    pub(crate) fn local(&self) -> &'s L {
        &self.stripe.local
    }

    /// Where to say that code of the user's runs.
    #[inline(always)]
    pub(crate) fn outside(&self) -> &'s AtomicBool {
        &self.stripe.outside
    }
}

/// Says that code of the user's runs under a stripe, until it is dropped: those who want all
/// writers to stop do not wait for it.
pub(crate) struct Outside<'s>(&'s AtomicBool);

impl<'s> Outside<'s> {
    #[inline(always)]
    pub(crate) fn new(outside: &'s AtomicBool) -> Self {
        // No data hangs on it.
        outside.store(true, Relaxed);
        Outside(outside)
    }
}

impl Drop for Outside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl<L, W> Deref for Held<'_, L, W> {
    type Target = Buffers<W>;
    #[inline(always)]
    fn deref(&self) -> &Buffers<W> {
        // SAFETY: there is no other `Held` of this stripe.
        unsafe { &*self.stripe.buffers.get() }
    }
}

impl<L, W> DerefMut for Held<'_, L, W> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Buffers<W> {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.stripe.buffers.get() }
    }
}

impl<L, W> Drop for Held<'_, L, W> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: partner is the Acquire of the next `own` or `claim`.
        self.flag.store(false, Release);
    }
}

/// Stripes in the first chunk; each chunk after it has twice as many.
const FIRST: u32 = if CHECKED { 1 } else { 8 };
/// Eight million stripes: no system has as many threads.
const CHUNKS: usize = 20;

/// Checks whether a writer has ended, before the stopping thread gives up. Under loom, which runs
/// other threads first, two are enough.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1_000 };

/// The stripes of a cache, made when their threads first come.
#[derive(Debug)]
pub(crate) struct Stripes<L = (), W = ()> {
    /// The first of each chunk, or null. Not a checker's business: whose chunk it is does not
    /// matter.
    chunks: [std::sync::atomic::AtomicPtr<Stripe<L, W>>; CHUNKS],
    /// Whether no thread may begin to write.
    stopped: AtomicBool,
    /// Taken by the thread that stops the writers, and by threads that wait for it.
    stopping: Mutex<()>,
}

impl<L, W> Default for Stripes<L, W> {
    fn default() -> Self {
        Stripes {
            chunks: std::array::from_fn(|_| Default::default()),
            stopped: AtomicBool::new(false),
            stopping: Mutex::new(()),
        }
    }
}

/// The right to stop the writers. The process is not forked while it is held.
pub(crate) struct Stopping<'s> {
    _alone: MutexGuard<'s, ()>,
    _unforked: fork::Unforked,
}

/// No stripe is held while this lives.
pub(crate) struct Stopped<'s> {
    stopped: &'s AtomicBool,
    _stopping: Stopping<'s>,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: the work done meanwhile; partner is the Acquire of `is_stopped`.
        self.stopped.store(false, Release);
    }
}

impl<L: Default, W: Default> Stripes<L, W> {
    /// The stripe of a thread.
    #[inline(always)]
    pub(crate) fn of(&self, thread: u32) -> &Stripe<L, W> {
        // Chunk c holds the numbers from FIRST * (2^c - 1) on.
        let shifted = thread + FIRST;
        let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
        let offset = shifted - (FIRST << chunk);
        let stripes = self.chunk(chunk).unwrap_or_else(|| self.make(chunk));
        &stripes[offset as usize]
    }

    #[inline(always)]
    fn chunk(&self, chunk: usize) -> Option<&[Stripe<L, W>]> {
        // Acquire: partner is the Release of `make`.
        let first = self.chunks[chunk].load(Acquire);
        let count = (FIRST as usize) << chunk;
        // SAFETY: a pointer that is not null was made with so many, and lives as long as this.
        (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, count) })
    }

    #[cold]
    #[inline(never)]
    fn make(&self, chunk: usize) -> &[Stripe<L, W>] {
        let count = (FIRST as usize) << chunk;
        let made: Box<[Stripe<L, W>]> = (0..count).map(|_| Stripe::default()).collect();
        let made = Box::into_raw(made);
        let place = &self.chunks[chunk];
        // Release: the stripes; partner is the Acquire of `chunk`.
        if place.compare_exchange(std::ptr::null_mut(), made.cast(), Release, Relaxed).is_err() {
            // SAFETY: made above, and not shared.
            drop(unsafe { Box::from_raw(made) });
        }
        self.chunk(chunk).expect("it was made just now")
    }

    /// All stripes that any thread has used, and some that none has.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stripe<L, W>> {
        (0..CHUNKS).filter_map(|chunk| self.chunk(chunk)).flatten()
    }

    /// The same, with the numbers of their threads.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Stripe<L, W>)> {
        (0..CHUNKS).flat_map(|chunk| {
            // As in `of`.
            let first = FIRST * ((1 << chunk) - 1);
            (first..).zip(self.chunk(chunk).into_iter().flatten())
        })
    }

    /// The buffers of all idle stripes, one after the other: an owner whose stripe is claimed uses
    /// another, and must find one.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Held<'_, L, W>> {
        self.iter().filter_map(|stripe| self.claim(stripe))
    }

    /// The buffers of an idle stripe, unless the writers are stopped.
    pub(crate) fn claim<'s>(&self, stripe: &'s Stripe<L, W>) -> Option<Held<'s, L, W>> {
        // After the heavy fence of `claim`, whose partner is that of `stop`.
        stripe.claim().filter(|_| !self.is_stopped())
    }

    /// Whether a thread that has just taken a stripe must release it and [wait](Self::wait).
    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: partner is the Release of who has stopped the writers before.
        self.stopped.load(Acquire)
    }

    /// Waits until writers may go on. The caller holds no stripe for which others wait.
    pub(crate) fn wait(&self) {
        if self.is_stopped() {
            drop(self.stopping());
        }
    }

    /// Lets the thread that stops the writers finish first.
    pub(crate) fn stopping(&self) -> Stopping<'_> {
        // First: no thread may wait for the mutex in a forked process.
        let unforked = fork::Unforked::new();
        Stopping { _alone: self.stopping.lock(), _unforked: unforked }
    }

    /// Stops all writers: waits until those at work have ended. `None` if one runs code of the
    /// user's, or takes too long.
    pub(crate) fn stop<'s>(&'s self, stopping: Stopping<'s>) -> Option<Stopped<'s>> {
        self.stopped.store(true, Relaxed);
        let stopped = Stopped { stopped: &self.stopped, _stopping: stopping };
        // Partner: the light fence of `own`, after which its caller looks whether it is to stop.
        fence::heavy();
        // Stripes made from here on belong to threads that find them stopped.
        let mut looks = 0;
        for (number, stripe) in self.numbered() {
            while stripe.is_in_use(number) {
                looks += 1;
                if looks > LOOKS || stripe.outside.load(Relaxed) {
                    return None;
                }
                crate::sync::thread::yield_now();
            }
        }
        Some(stopped)
    }

    /// Bytes of the stripes, and of the names of pins.
    pub(crate) fn heap_bytes(&self) -> usize {
        let stripes: usize =
            (0..CHUNKS).filter_map(|chunk| self.chunk(chunk)).map(size_of_val).sum();
        stripes + self.iter().map(|stripe| stripe.reader.names.heap_bytes()).sum::<usize>()
    }
}

impl<L, W> Drop for Stripes<L, W> {
    fn drop(&mut self) {
        for chunk in 0..CHUNKS {
            let first = *self.chunks[chunk].get_mut();
            if !first.is_null() {
                let stripes = std::ptr::slice_from_raw_parts_mut(first, (FIRST as usize) << chunk);
                // SAFETY: they came from a box of so many, and this is the last owner.
                drop(unsafe { Box::from_raw(stripes) });
            }
        }
    }
}
