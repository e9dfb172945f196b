//! Hits that a thread has noted for a locked policy, and how many it passes over.
//!
//! The lock is taken once for a buffer of notes, by whoever fills it and finds it free. If
//! it is taken, the notes are thrown away: more pressure on the lock than it can bear would
//! only make threads wait for each other, and an object that is asked for often is noted
//! again. So that they are not even made in vain, a thread passes over a share of its hits,
//! which rises with each vain attempt and falls with each that succeeds. Paper 1 (§5.2)
//! shows why: above some hit ratio the work on hits, done for every one of them, is what
//! bounds throughput.

use frazil_policy::Rng;

use crate::sync::CHECKED;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Hits a lock. 64 gained nothing, 8 cost a tenth of the throughput of two threads.
pub(crate) const LENGTH: usize = if CHECKED { 2 } else { 32 };

/// All hits, in the unit of [`Notes::skip`].
const ALL: u32 = 1 << 16;
/// A share below this is none.
const LEAST: u32 = ALL / 64;

/// Written by its own thread alone.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    count: AtomicU32,
    /// The share of the hits that is passed over, of [`ALL`].
    skip: AtomicU32,
    /// State of the generator that chooses them.
    chance: AtomicU64,
    /// Hits that were passed over or thrown away.
    pub(crate) skipped: AtomicU64,
    /// Slot, and the low half of the number of the request.
    notes: [AtomicU64; LENGTH],
}

impl Notes {
    /// Whether this hit is to be passed over.
    #[inline(always)]
    pub(crate) fn skips(&self) -> bool {
        let skip = self.skip.load(Relaxed);
        skip != 0 && self.draws(skip)
    }

    fn draws(&self, skip: u32) -> bool {
        let mut rng = Rng::new(self.chance.load(Relaxed));
        let drawn = rng.bits();
        self.chance.store(rng.state(), Relaxed);
        let skipped = drawn as u32 % ALL < skip;
        if skipped {
            self.skipped.store(self.skipped.load(Relaxed) + 1, Relaxed);
        }
        skipped
    }

    /// Notes a hit. True if there are `enough` notes now, which is at most [`LENGTH`].
    #[inline(always)]
    pub(crate) fn push(&self, slot: u32, request: u64, enough: u32) -> bool {
        let count = self.count.load(Relaxed);
        let Some(note) = self.notes.get(count as usize) else { return true };
        note.store(u64::from(slot) << 32 | request & u64::from(u32::MAX), Relaxed);
        self.count.store(count + 1, Relaxed);
        count + 1 >= enough
    }

    /// Shows all notes, oldest first, each with the low half of its request's number, and
    /// keeps those for which `stays` says so.
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

    /// The share of the hits that is passed over.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn skips_share(&self) -> f64 {
        f64::from(self.skip.load(Relaxed)) / f64::from(ALL)
    }

    /// The slots that are noted.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        let count = self.count.load(Relaxed) as usize;
        self.notes.iter().take(count).map(|note| (note.load(Relaxed) >> 32) as u32)
    }

    /// The lock was free: a smaller share is passed over.
    pub(crate) fn relax(&self) {
        let skip = self.skip.load(Relaxed);
        if skip != 0 {
            let skip = skip - skip / 8;
            self.skip.store(if skip < LEAST { 0 } else { skip }, Relaxed);
        }
    }

    /// The lock was taken: throws the notes away, and a larger share will be passed over.
    pub(crate) fn give_way(&self) {
        let count = self.count.load(Relaxed);
        self.skipped.store(self.skipped.load(Relaxed) + u64::from(count), Relaxed);
        self.count.store(0, Relaxed);
        let skip = self.skip.load(Relaxed);
        self.skip.store(skip + (ALL - skip) / 4, Relaxed);
    }
}
