//! What keeps an entry from being reclaimed while a thread looks at it.
//!
//! A `get` names the one slot that it reads in its thread's hazard, so a slow `get`, or
//! one that was suspended, holds up next to nothing. A pin notes the epoch and needs no
//! store for each look, but holds up all that is retired while it lasts. Code of the
//! user's that runs inside a `get` (`Clone`, `Eq`) and calls the cache again finds the
//! hazard in use and pins.

use crate::fence;
use crate::reclaim::Reclaim;
use crate::stripe::Reader;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Protection for as long as it lives, of what its thread looks at.
pub(crate) struct Protection<'c> {
    reader: &'c Reader,
    pinned: bool,
}

impl<'c> Protection<'c> {
    /// For one look-up.
    #[inline(always)]
    pub(crate) fn of_one(reader: &'c Reader, reclaim: &Reclaim) -> Self {
        if reader.hazard.load(Relaxed) == 0 && reader.depth.load(Relaxed) == 0 {
            Protection { reader, pinned: false }
        } else {
            Self::of_all(reader, reclaim)
        }
    }

    /// For as many look-ups as one likes.
    #[inline(always)]
    pub(crate) fn of_all(reader: &'c Reader, reclaim: &Reclaim) -> Self {
        let depth = reader.depth.load(Relaxed);
        if depth == 0 {
            // Release: what was read under the last pin, whose clearing this may hide;
            // partner is the Acquire in `Reclaim::run`.
            reader.pinned.store(reclaim.epoch(), Release);
            // Before anything is looked up. Partner: the heavy fence of `Reclaim::run`.
            fence::light();
        }
        reader.depth.store(depth + 1, Relaxed);
        Protection { reader, pinned: true }
    }

    /// Whether `slot`, just read as part of `word` in `cell`, may be looked at until the
    /// next call. If not, the word has changed.
    #[inline(always)]
    pub(crate) fn covers(&self, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        if self.pinned {
            return true;
        }
        // Release: what was read under the last hazard; partner is the Acquire in
        // `Reclaim::run`.
        self.reader.hazard.store(slot, Release);
        // Either this second look sees that the slot was unlinked, or the reclaimer sees
        // the hazard. Partner: the heavy fence of `Reclaim::run`.
        fence::light();
        cell.load(Acquire) == word
    }
}

impl Drop for Protection<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.pinned {
            let depth = self.reader.depth.load(Relaxed) - 1;
            self.reader.depth.store(depth, Relaxed);
            if depth == 0 {
                // Release: all that was read; partner is the Acquire in `Reclaim::run`.
                self.reader.pinned.store(0, Release);
            }
        } else {
            // Release: as above.
            self.reader.hazard.store(0, Release);
        }
    }
}
