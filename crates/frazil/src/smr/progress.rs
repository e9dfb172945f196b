//! How far a thread has come: which unlinkings it has seen for certain, so that no heavy fence is
//! needed to reclaim what it has passed.
//!
//! A thread *passes* an epoch when it takes its stripe to write: it reads the epoch, and says so.
//! Whatever was unlinked before that epoch began its later looks find unlinked, and whatever it has
//! named in earlier ones is seen by a thread that reads that it has passed. So what was retired
//! before every thread passed is reclaimed by its names alone.
//!
//! A thread that only reads passes nothing. It is *awake* from its first look on, and holds
//! everything up, until a reclaimer executes the heavy fence instead and lets it fall asleep; a
//! thread that is *asleep* is asked for nothing. Its next look finds that it is, and executes a
//! full fence between naming a slot and looking whether it is still there:
//!
//! ```text
//! thread that looks                  reclaimer
//!   names a slot                       (unlinked; a new epoch)
//!   light fence                        full fence
//!   asleep? then awake, full fence     awake, and has not passed? then as below
//!   still there?                       named?
//!
//!                                    reclaimer, instead
//!                                      awake -> falling asleep
//!                                      heavy fence
//!                                      falling asleep -> asleep
//!                                      named?
//! ```
//!
//! Between a thread that wakes and a reclaimer, whichever full fence comes later sees the other
//! side. Falling asleep is a state of its own, because a look may have found its thread awake just
//! before: only behind the heavy fence are the names of those seen by all. It bears the epoch of
//! the reclaimer, so that nobody completes what another has begun after the thread has woken.

use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};

const ASLEEP: u64 = 0;
/// Passed by a thread that has woken: the epoch with which a cache begins.
const NOTHING: u64 = 1;
/// The mark of who is falling asleep, beside the epoch of the reclaimer.
const FALLING: u64 = 1 << 63;

/// The last epoch that a thread has passed. Written by that thread; reclaimers let it fall asleep.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU64);

impl Progress {
    /// Between naming a slot and looking whether it is still there, behind the light fence. For the
    /// thread itself.
    #[inline(always)]
    pub(crate) fn wake_if_asleep(&self) {
        // Both that are not awake, in one comparison. No call: with one a hit took 167 instructions
        // and not 162, for registers to save.
        if self.0.load(Relaxed) as i64 <= ASLEEP as i64 {
            self.advance(NOTHING);
        }
    }

    /// Says that the thread has read this epoch. For the thread itself.
    #[inline(always)]
    pub(crate) fn pass(&self, epoch: u64) {
        if self.0.load(Relaxed) != epoch {
            self.advance(epoch);
        }
    }

    #[inline(always)]
    fn advance(&self, epoch: u64) {
        // Release: earlier names; partner is the Acquire of `passed`.
        self.0.store(epoch, Release);
        // A thread that was asleep, or that a late reader of this word takes for asleep, makes its
        // look-up behind this fence. Partner: the fence of `Reclaim::run` before it reads which
        // threads have passed.
        fence(SeqCst);
    }

    /// The epoch that the thread has passed, the first if it is falling asleep; `None` if it is
    /// asleep. For others, behind a full fence.
    pub(crate) fn passed(&self) -> Option<u64> {
        // Acquire: partner is the Release of `advance`.
        match self.0.load(Acquire) {
            ASLEEP => None,
            falling if falling & FALLING != 0 => Some(NOTHING),
            passed => Some(passed),
        }
    }

    /// Lets the thread fall asleep unless it has passed this epoch, which is the caller's alone. A
    /// heavy fence is to follow, and [`Progress::finish_sleep`].
    pub(crate) fn begin_sleep(&self, epoch: u64) {
        let passed = self.0.load(Relaxed);
        if passed != ASLEEP && passed <= epoch {
            _ = self.0.compare_exchange(passed, FALLING | epoch, Relaxed, Relaxed);
        }
    }

    /// The thread is asleep, unless it has woken since [`Progress::begin_sleep`].
    pub(crate) fn finish_sleep(&self, epoch: u64) {
        // Release: the names that the heavy fence has made visible; partner is the Acquire of
        // `passed`.
        _ = self.0.compare_exchange(FALLING | epoch, ASLEEP, AcqRel, Relaxed);
    }

    /// Forgets a thread that does not exist.
    pub(crate) fn forget(&self) {
        self.0.store(ASLEEP, Relaxed);
    }
}
