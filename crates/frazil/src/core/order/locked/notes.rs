//! Hits that a thread has noted for a policy under a lock, and the crowding of that lock as the
//! thread sees it.
//!
//! A thread takes the lock once for a buffer of notes: paper 1 (§5.2) shows that above some hit
//! ratio work done on every hit bounds throughput. From half a buffer on it reports its notes if
//! the lock is free. With a full buffer it waits for the lock, so nothing is lost.
//!
//! Each failed attempt makes the lock more *crowded* for the thread, each other one less. While it
//! is crowded, the thread skips hits of entries whose hits the policy got recently: those in the
//! upper part of an LRU list, which matter least. The more crowded it is, the more of them it
//! skips. If even that does not help, it discards full buffers, but not the short ones of small
//! caches. A whole one fills only without a miss between its hits, because a write reports the
//! notes first.

use crate::smr::stripe::add;
use crate::sync::CHECKED;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The most hits that wait to be reported.
const LENGTH: usize = if CHECKED { 4 } else { 64 };
/// The most notes from which on they are reported if the lock is free.
pub(crate) const ENOUGH: u32 = LENGTH as u32 / 2;
/// Hits between two attempts.
const BETWEEN: u32 = if CHECKED { 1 } else { 8 };

/// Epochs in which a policy gets hits of as many entries as there are.
pub(crate) const EPOCHS: usize = 16;
/// Epochs are counted up to this, and from 0 again. An entry without a reported hit for so long
/// seems recently hit, once. Below 255, which a header's mark must never reach.
pub(crate) const TURN: u8 = 128;
/// The most epochs that count as recent. If all hits that this allows are skipped, one thread on
/// about Zipf 1.0 misses up to 0.14 points more; with twice as many epochs up to 0.6.
const LATELY: u32 = 4;
/// Successful attempts that offset a failed one, which counts an epoch.
const RISE: u32 = 16;
const MOST_CROWDED: u32 = LATELY * RISE;

/// Written by its own thread alone.
#[derive(Debug)]
pub(crate) struct Notes {
    count: AtomicU32,
    /// How crowded the lock was of late, up to [`MOST_CROWDED`].
    crowd: AtomicU32,
    /// Hits that were skipped or discarded.
    pub(crate) skipped: AtomicU64,
    /// Slot, and the low half of the hit's stamp.
    notes: [AtomicU64; LENGTH],
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            count: AtomicU32::new(0),
            crowd: AtomicU32::new(0),
            skipped: AtomicU64::new(0),
            // So long an array has no `Default`.
            notes: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Notes {
    /// Hits of entries whose last hit reached the policy less than this number of epochs ago are
    /// skipped. 0 for a thread without contention.
    #[inline(always)]
    pub(crate) fn lately(&self) -> u32 {
        self.crowd.load(Relaxed).div_ceil(RISE)
    }

    /// Notes a hit. True if the notes should be reported now; `enough` is at most [`ENOUGH`].
    #[inline(always)]
    pub(crate) fn push(&self, slot: u32, stamp: u64, enough: u32) -> bool {
        let count = self.count.load(Relaxed);
        let Some(note) = self.notes.get(count as usize) else { return true };
        note.store(u64::from(slot) << 32 | stamp & u64::from(u32::MAX), Relaxed);
        self.count.store(count + 1, Relaxed);
        count + 1 >= enough
            && ((count + 1 - enough).is_multiple_of(BETWEEN) || self.is_full(enough))
    }

    /// Whether these must be reported before another note.
    #[inline(always)]
    pub(crate) fn is_full(&self, enough: u32) -> bool {
        self.count.load(Relaxed) >= 2 * enough
    }

    /// Shows all notes, oldest first, each with the low half of its stamp, and
    /// keeps those for which `stays` is true.
    #[inline(always)]
    pub(crate) fn take(&self, mut stays: impl FnMut(u32, u32) -> bool) {
        let count = self.count.load(Relaxed);
        if count == 0 {
            return;
        }
        let mut kept = 0;
        for note in self.notes.iter().take(count as usize) {
            let noted = note.load(Relaxed);
            if stays((noted >> 32) as u32, noted as u32) {
                self.notes[kept].store(noted, Relaxed);
                kept += 1;
            }
        }
        self.count.store(kept as u32, Relaxed);
    }

    /// The slots that are noted.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        let count = self.count.load(Relaxed) as usize;
        self.notes.iter().take(count).map(|note| (note.load(Relaxed) >> 32) as u32)
    }

    /// Discards the notes.
    pub(crate) fn discard(&self) {
        add(&self.skipped, self.count.load(Relaxed).into());
        self.count.store(0, Relaxed);
    }

    /// Whether it cannot become more crowded.
    pub(crate) fn is_most_crowded(&self) -> bool {
        self.crowd.load(Relaxed) == MOST_CROWDED
    }

    /// The lock was free.
    pub(crate) fn relax(&self) {
        self.crowd.store(self.crowd.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// The lock was taken.
    pub(crate) fn crowd(&self) {
        self.crowd.store((self.crowd.load(Relaxed) + RISE).min(MOST_CROWDED), Relaxed);
    }
}
