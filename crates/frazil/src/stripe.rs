//! What a thread has of a cache for itself.
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

use std::cell::{OnceCell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use crate::evict::locked::Notes;
use crate::evict::segments::Spares;
use crate::fence;
use crate::fork;
use crate::frozen::learn::Samples;
use crate::listen::Departed;
use crate::names::Names;
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{CHECKED, Mutex, MutexGuard};
use crate::thread;

/// Written by its own thread, read by all.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Reader {
    /// The slot that a `get` of this thread reads, or 0.
    pub(crate) hazard: AtomicU32,
    /// Another, which it is compared with, or 0.
    pub(crate) second: AtomicU32,
    /// How many pins this thread holds. More than can be forgotten in a lifetime.
    pub(crate) depth: AtomicU64,
    /// The epoch at which the first of them began, or 0.
    pub(crate) pinned: AtomicU64,
    /// The slots that they have shown.
    pub(crate) names: Names,
    pub(crate) hits: AtomicU64,
    /// Hits of what is frozen; not among the others.
    pub(crate) frozen_hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// Insertions of keys that this thread had not just missed.
    pub(crate) sets: AtomicU64,
    /// The hash of the key that this thread missed last, or 0.
    pub(crate) missed: AtomicU64,
    /// How many of its requests the clock of a locked policy knows of, and what that showed
    /// then, or when this thread read it last.
    pub(crate) told: AtomicU64,
    pub(crate) clock: AtomicU64,
    /// State of the generator that says which hits concern `lru-prob`, and whether it has one.
    pub(crate) chance: AtomicU64,
    pub(crate) drawing: AtomicU64,
    /// What hits did to lines that every thread writes, as in [`Traffic`].
    pub(crate) retries: AtomicU64,
    pub(crate) shared_writes: AtomicU64,
    /// Hits that a locked policy has not heard of yet.
    pub(crate) notes: Notes,
    /// The hash of the key whose miss is timed until its insertion, or 0.
    pub(crate) timed_miss: AtomicU64,
    /// What was seen of its requests, in a cache that learns what to freeze.
    pub(crate) samples: OnceLock<Box<Samples>>,
    /// What its thread has to tell the listener. Nobody else looks at it.
    pub(crate) departed: OnceCell<Box<Departed>>,
}

impl Reader {
    /// Requests of this thread: gets, and insertions that follow no miss.
    #[inline(always)]
    pub(crate) fn requests(&self) -> u64 {
        self.hits
            .load(Relaxed)
            .wrapping_add(self.frozen_hits.load(Relaxed))
            .wrapping_add(self.misses.load(Relaxed))
            .wrapping_add(self.sets.load(Relaxed))
    }

    /// The time of a locked policy, as far as this thread knows it.
    pub(crate) fn now(&self) -> u64 {
        let untold = self.requests().wrapping_sub(self.told.load(Relaxed));
        self.clock.load(Relaxed).wrapping_add(untold)
    }

    /// Lets go of all that a thread was reading which does not exist.
    pub(crate) fn forget(&self) {
        self.hazard.store(0, Relaxed);
        self.second.store(0, Relaxed);
        self.names.forget();
        self.depth.store(0, Relaxed);
        self.pinned.store(0, Relaxed);
    }

    /// A key is about to be inserted: a request, unless this thread has just missed it. Whether
    /// that miss is timed.
    #[inline(always)]
    #[must_use]
    pub(crate) fn arrive(&self, hash: u64) -> bool {
        if self.missed.load(Relaxed) == hash {
            self.missed.store(0, Relaxed);
            self.timed_miss.load(Relaxed) == hash
        } else {
            add(&self.sets, 1);
            false
        }
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

/// This stripe's part of a queue: the oldest segment, taken, and the newest, not full yet.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) front: Cursor,
    pub(crate) back: Cursor,
}

/// What entries pass through on their way between threads.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Entries that this stripe may admit without evicting.
    pub(crate) places: u64,
    /// Weight that it may admit.
    pub(crate) credit: u64,
    /// Free slots in hand.
    pub(crate) vacant: Cursor,
    /// Slots that wait to be reclaimed, and what they weigh where entries are weighed.
    pub(crate) retired: Cursor,
    pub(crate) retired_weight: u64,
    /// Whether some have gone to limbo since someone asked, or slots become few.
    pub(crate) flushed: bool,
    /// This stripe's ends of the policy's queues.
    pub(crate) ends: [Ends; 2],
    /// What the policy counts of this stripe and has not told the others yet.
    pub(crate) unsaid: [u64; 2],
    /// Segments in hand that hold nothing.
    pub(crate) spares: Spares,
    /// What has not been counted yet.
    pub(crate) traffic: Traffic,
}

/// What an operation does to lines that every thread writes.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Attempts that another thread's progress made vain.
    pub(crate) retries: u64,
    /// Writes.
    pub(crate) writes: u64,
}

/// Counts of what the writers of a stripe did; written under its lock.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) insertions: AtomicU64,
    pub(crate) replacements: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) removals: AtomicU64,
    pub(crate) expirations: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) shared_writes: AtomicU64,
    /// Weight admitted, less weight let go; wraps.
    pub(crate) weight: AtomicU64,
}

impl Counts {
    /// How often anything was done that may leave something in the buffers; wraps.
    fn operations(&self) -> u32 {
        let Counts { insertions, replacements, evictions, removals, expirations, refusals, .. } =
            self;
        [insertions, replacements, evictions, removals, expirations, refusals]
            .into_iter()
            .fold(0u64, |sum, count| sum.wrapping_add(count.load(Relaxed))) as u32
    }
}

// What the documentation says.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Stripe>() == 1024);

/// A thread's part of a cache.
#[derive(Debug, Default)]
pub(crate) struct Stripe {
    pub(crate) reader: Reader,
    /// Whether the owner is at work.
    busy: AtomicBool,
    /// Whether another thread wants to be, or is.
    claimed: AtomicBool,
    /// Whether whoever is at work runs code of the user's, for which nobody may wait.
    outside: AtomicBool,
    pub(crate) counts: Counts,
    /// What its writers had done when it was looked at last, and when it was emptied because
    /// they did nothing more.
    seen: AtomicU32,
    emptied: AtomicU32,
    /// The number of the thread that has claimed it last.
    claimant: AtomicU32,
    buffers: UnsafeCell<Buffers>,
}

// SAFETY: `buffers` is reached through `Held` alone, and `own` and `claim` see to it that
// there is one at a time. `departed` is reached by `listen.rs` alone, through the stripe of
// the calling thread.
unsafe impl Sync for Stripe {}

impl Stripe {
    /// The buffers, for the thread whose stripe it is. `None` if it has them already, or
    /// another thread has.
    #[inline(always)]
    pub(crate) fn own(&self) -> Option<Held<'_>> {
        // Acquire: partner is the Release of whoever had the number before.
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

    /// Whether nobody has written to it since this was asked last, and something may be in its
    /// buffers.
    pub(crate) fn has_rested(&self) -> bool {
        let done = self.counts.operations();
        if self.seen.load(Relaxed) != done {
            self.seen.store(done, Relaxed);
            return false;
        }
        self.emptied.load(Relaxed) != done
    }

    /// Says that nothing is in the buffers of a stripe that [has rested](Stripe::has_rested).
    pub(crate) fn is_empty_now(&self) {
        self.emptied.store(self.seen.load(Relaxed), Relaxed);
    }

    /// The buffers, for another thread than the owner. `None` if they are in use. Costs a
    /// heavy fence.
    pub(crate) fn claim(&self) -> Option<Held<'_>> {
        // Not a swap, which would write even if it fails: loom then takes the flag for raised.
        if self.claimed.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return None;
        }
        self.claimant.store(thread::number(), Relaxed);
        let held = Held { stripe: self, flag: &self.claimed };
        // Partner: the light fence of `own`. Acquire: partner is the Release with which
        // the owner leaves.
        fence::heavy();
        (!self.busy.load(Acquire)).then_some(held)
    }

    /// Whether somebody is at work with the buffers. For who has told all to stop, and has executed
    /// a heavy fence since. `owner` is the number of the stripe.
    fn is_in_use(&self, owner: u32) -> bool {
        // Acquire: partner is the Release with which a writer leaves.
        let (busy, claimed) = (self.busy.load(Acquire), self.claimed.load(Acquire));
        if !busy && !claimed {
            return false;
        }
        // A thread that was lost in a fork does nothing any more, and nobody else comes by its
        // flag. Unless it runs code of the user's: it may have forked in that, and live. A claimant
        // that is not seen here yet sees after its heavy fence that it is to stop.
        let at_work = if busy { owner } else { self.claimant.load(Relaxed) };
        !fork::has_lost(at_work) || self.outside.load(Relaxed)
    }
}

/// The buffers of a stripe, while held.
pub(crate) struct Held<'s> {
    stripe: &'s Stripe,
    /// What to lower when it is over.
    flag: &'s AtomicBool,
}

impl<'s> Held<'s> {
    /// The counts that go with these buffers.
    #[inline(always)]
    pub(crate) fn counts(&self) -> &Counts {
        &self.stripe.counts
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

impl Deref for Held<'_> {
    type Target = Buffers;
    #[inline(always)]
    fn deref(&self) -> &Buffers {
        // SAFETY: there is no other `Held` of this stripe.
        unsafe { &*self.stripe.buffers.get() }
    }
}

impl DerefMut for Held<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Buffers {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.stripe.buffers.get() }
    }
}

impl Drop for Held<'_> {
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

/// How often who stops the writers looks whether one has ended, before it gives up. Under loom,
/// which lets others go on first, two are enough.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 1_000 };

/// The stripes of a cache, made when their threads first come.
#[derive(Debug)]
pub(crate) struct Stripes {
    /// The first of each chunk, or null. Not a checker's business: whose chunk it is does not
    /// matter.
    chunks: [std::sync::atomic::AtomicPtr<Stripe>; CHUNKS],
    /// Whether nobody is to begin to write.
    stopped: AtomicBool,
    /// Taken by who stops the writers, and by those who wait for it.
    stopping: Mutex<()>,
}

impl Default for Stripes {
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
    stripes: &'s Stripes,
    _stopping: Stopping<'s>,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Release: what was done meanwhile; partner is the Acquire of `is_stopped`.
        self.stripes.stopped.store(false, Release);
    }
}

impl Stripes {
    /// The stripe of a thread.
    #[inline(always)]
    pub(crate) fn of(&self, thread: u32) -> &Stripe {
        // Chunk c holds the numbers from FIRST * (2^c - 1) on.
        let shifted = thread + FIRST;
        let chunk = (shifted.ilog2() - FIRST.ilog2()) as usize;
        let offset = shifted - (FIRST << chunk);
        let stripes = self.chunk(chunk).unwrap_or_else(|| self.make(chunk));
        &stripes[offset as usize]
    }

    #[inline(always)]
    fn chunk(&self, chunk: usize) -> Option<&[Stripe]> {
        // Acquire: partner is the Release of `make`.
        let first = self.chunks[chunk].load(Acquire);
        let count = (FIRST as usize) << chunk;
        // SAFETY: what is not null was made with so many, and lives as long as this.
        (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, count) })
    }

    #[cold]
    #[inline(never)]
    fn make(&self, chunk: usize) -> &[Stripe] {
        let count = (FIRST as usize) << chunk;
        let made: Box<[Stripe]> = (0..count).map(|_| Stripe::default()).collect();
        let made = Box::into_raw(made);
        let place = &self.chunks[chunk];
        // Release: the stripes; partner is the Acquire of `chunk`.
        if place.compare_exchange(std::ptr::null_mut(), made.cast(), Release, Relaxed).is_err() {
            // SAFETY: made above, and known to nobody.
            drop(unsafe { Box::from_raw(made) });
        }
        self.chunk(chunk).expect("it was made just now")
    }

    /// All stripes that any thread has used, and some that none has.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stripe> {
        (0..CHUNKS).filter_map(|chunk| self.chunk(chunk)).flatten()
    }

    /// The same, with the numbers of their threads.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &Stripe)> {
        (0..CHUNKS).flat_map(|chunk| {
            // As in `of`.
            let first = FIRST * ((1 << chunk) - 1);
            (first..).zip(self.chunk(chunk).into_iter().flatten())
        })
    }

    /// The buffers of all stripes that nobody is at work with, one after the other: an
    /// owner whose stripe is claimed makes do with another, and must find one.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Held<'_>> {
        self.iter().filter_map(|stripe| self.claim(stripe))
    }

    /// The buffers of a stripe that nobody is at work with, unless the writers are stopped.
    pub(crate) fn claim<'s>(&self, stripe: &'s Stripe) -> Option<Held<'s>> {
        // After the heavy fence of `claim`, whose partner is that of `stop`.
        stripe.claim().filter(|_| !self.is_stopped())
    }

    /// Whether who has just taken a stripe has to give it back, and to [wait](Self::wait).
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

    /// Lets whoever stops the writers finish first.
    pub(crate) fn stopping(&self) -> Stopping<'_> {
        // First: nobody is to wait for the mutex in a process that is forked.
        let unforked = fork::Unforked::new();
        Stopping { _alone: self.stopping.lock(), _unforked: unforked }
    }

    /// Stops all writers: waits until those at work have ended. `None` if one runs code of the
    /// user's, or takes too long.
    pub(crate) fn stop<'s>(&'s self, stopping: Stopping<'s>) -> Option<Stopped<'s>> {
        self.stopped.store(true, Relaxed);
        let stopped = Stopped { stripes: self, _stopping: stopping };
        // Partner: the light fence of `own`, after which its caller looks whether it is to stop.
        fence::heavy();
        // Those that are made from here on are of threads that find them stopped.
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

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let of = |chunk: &[Stripe]| {
            let sampling = chunk.iter().filter(|stripe| stripe.reader.samples.get().is_some());
            size_of_val(chunk) + sampling.count() * size_of::<Samples>()
        };
        (0..CHUNKS).filter_map(|chunk| self.chunk(chunk)).map(of).sum()
    }
}

impl Drop for Stripes {
    fn drop(&mut self) {
        for chunk in 0..CHUNKS {
            let first = *self.chunks[chunk].get_mut();
            if !first.is_null() {
                let stripes = std::ptr::slice_from_raw_parts_mut(first, (FIRST as usize) << chunk);
                // SAFETY: they came from a box of so many, and nobody else has this any more.
                drop(unsafe { Box::from_raw(stripes) });
            }
        }
    }
}
