//! The slots that the pins of a thread have shown.
//!
//! A thread names each slot that its pins show before it looks at what is in it, and looks again
//! whether the slot is still there, as with a hazard. So a pin holds up what its reader may be
//! looking at and nothing else, however long it lives and whatever others evict meanwhile. All
//! names go when the thread's last pin does.
//!
//! That is so of the first 16. A pin that shows more notes the epoch instead, and from there on
//! keeps all that is retired while it lives: a hit then costs no more than a comparison.
//!
//! 80 bytes a thread.

use crate::smr::reclaim::Reclaim;
use crate::sync::CHECKED;
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// How many slots are named one by one.
pub(crate) const NAMES: usize = if CHECKED { 1 } else { 16 };

/// What one thread's pins have shown. Written by that thread alone.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Names {
    /// The epoch from which on everything is kept, or 0.
    since: AtomicU64,
    /// How many slots are named.
    count: AtomicU32,
    /// Whether a reclamation has found something held up by them. Written by others as well.
    blamed: AtomicBool,
    slots: [AtomicU32; NAMES],
}

impl Names {
    /// Whether whatever is found may be looked at. For the thread itself, which pins.
    #[inline(always)]
    pub(crate) fn keeps_all(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// Names a slot, or notes the epoch. For [`Reader::name`](crate::smr::stripe::Reader::name).
    #[inline(always)]
    pub(super) fn add(&self, slot: u32, reclaim: &Reclaim) {
        let count = self.count.load(Relaxed) as usize;
        if let Some(free) = self.slots.get(count) {
            // Release: what was read of a slot that had its name here before; partner is the
            // Acquire of `contains`.
            free.store(slot, Release);
            self.count.store(count as u32 + 1, Relaxed);
        } else if !self.keeps_all() {
            // Release: as above, with `since`.
            self.since.store(reclaim.epoch(), Release);
        }
    }

    /// Forgets all names: the thread has no pin left. Whether a reclamation was held up by them.
    #[inline(always)]
    pub(crate) fn clear(&self) -> bool {
        let count = self.count.load(Relaxed);
        count != 0 && self.clear_some(count)
    }

    #[inline(never)]
    fn clear_some(&self, count: u32) -> bool {
        for slot in self.slots.iter().take(count as usize) {
            // Release: all that was read; partner is the Acquire of `contains`.
            slot.store(0, Release);
        }
        // Release: as above; partner is the Acquire of `slots`.
        self.count.store(0, Release);
        // Release: as above, with `since`.
        self.since.store(0, Release);
        let blamed = self.blamed.load(Relaxed);
        if blamed {
            self.blamed.store(false, Relaxed);
        }
        blamed
    }

    /// Has the thread say when it lets go of what it holds up. For others. Late by a moment, it
    /// says so after its next pin: a reclamation in vain.
    pub(crate) fn blame(&self) {
        self.blamed.store(true, Relaxed);
    }

    /// Forgets all names of a thread that does not exist.
    pub(crate) fn forget(&self) {
        self.since.store(0, Relaxed);
        self.slots.iter().for_each(|slot| slot.store(0, Relaxed));
        self.count.store(0, Relaxed);
    }

    /// The epoch from which on the thread keeps everything. For others, after a heavy fence.
    pub(crate) fn since(&self) -> Option<u64> {
        // Acquire: partner is the Release of `clear_some`; what was read, was read before the
        // slot is written again.
        Some(self.since.load(Acquire)).filter(|&since| since != 0)
    }

    /// The slots that are named. For others, after a heavy fence, or after the thread has passed:
    /// a name that is not seen, or not counted yet, is one that is looked at later.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        // Acquire: as above.
        let count = self.count.load(Acquire) as usize;
        self.slots[..count].iter().map(|slot| slot.load(Acquire)).filter(|&slot| slot != 0)
    }
}
