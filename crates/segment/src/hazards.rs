//! Which segments readers look at.
//!
//! A reader names a segment in a record, looks again whether the index still leads to the item, and
//! reads. Who has unlinked all items of a segment asks whether any record names it, and does not
//! use it again before none does. So a reader takes no lock and waits for nobody, and one that is
//! suspended holds up one segment.
//!
//! The claim of a record is the exchange that names the segment, so a read costs one locked
//! instruction on a line of its own (7 ns), and any number of threads get along with few records.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64, fence};
use crate::sync::{fence_for_loom, thread};

/// Records: more threads than these can't be in the middle of a read at once, and wait.
pub(crate) const RECORDS: usize = if cfg!(any(loom, shuttle)) { 3 } else { 64 };

#[repr(align(64))]
#[derive(Debug)]
struct Record {
    /// The segment, plus one. 0: the record is free.
    name: AtomicU32,
    /// Chance, for who has the record.
    chance: AtomicU32,
    /// Hits of those who had the record; written by who has it.
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The records; clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Hazards {
    records: Arc<[Record]>,
}

#[cfg(not(any(loom, shuttle)))]
static THREADS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// The record at which this thread begins to look for a free one.
#[inline]
fn first_record() -> usize {
    #[cfg(any(loom, shuttle))]
    return 0;
    #[cfg(not(any(loom, shuttle)))]
    {
        thread_local! {
            static FIRST: Cell<u32> = const { Cell::new(u32::MAX) };
        }
        FIRST.with(|first| {
            if first.get() == u32::MAX {
                first.set(THREADS.fetch_add(1, Relaxed) % RECORDS as u32);
            }
            first.get() as usize
        })
    }
}

impl Hazards {
    pub(crate) fn new() -> Hazards {
        let record = |index| Record {
            name: AtomicU32::new(0),
            chance: AtomicU32::new(0x9e37_79b9 ^ index),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        };
        Hazards { records: (0..RECORDS as u32).map(record).collect() }
    }

    /// Names a segment. What the index says must be read again after this.
    #[inline]
    pub(crate) fn name(&self, segment: u32) -> Hazard<'_> {
        let first = first_record();
        loop {
            for step in 0..RECORDS {
                let record = &self.records[(first + step) % RECORDS];
                // SeqCst: the partner is `may_be_read`, see there. Acquire: after all that who had
                // the record before has done.
                let claimed = record.name.load(Relaxed) == 0
                    && record.name.compare_exchange(0, segment + 1, SeqCst, Relaxed).is_ok();
                if claimed {
                    fence_for_loom();
                    return Hazard { record, of_one_thread: PhantomData };
                }
            }
            thread::yield_now();
        }
    }

    /// Whether a reader may look at a segment that the index does not lead to any more.
    ///
    /// The caller unlinked all its items before. A reader names the segment (SeqCst), and then reads
    /// the word of the index again (SeqCst). If the reader's naming comes before our fence, we see
    /// it below. If it comes after, the reader finds the item unlinked, and does not look at it.
    pub(crate) fn may_be_read(&self, segment: u32) -> bool {
        fence(SeqCst);
        // Acquire: partner of `Hazard::drop`, after which the memory may be written.
        self.records.iter().any(|record| record.name.load(Acquire) == segment + 1)
    }

    /// Counts a look-up that found nothing.
    pub(crate) fn missed(&self) {
        self.records[first_record()].misses.fetch_add(1, Relaxed);
    }

    /// Hits and misses.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Record) -> &AtomicU64| {
            self.records.iter().map(|record| of(record).load(Relaxed)).sum()
        };
        (sum(|record| &record.hits), sum(|record| &record.misses))
    }
}

/// A segment that is named.
#[derive(Debug)]
pub(crate) struct Hazard<'a> {
    record: &'a Record,
    of_one_thread: PhantomData<Cell<()>>,
}

impl Hazard<'_> {
    /// Names another segment instead. What the index says must be read again after this.
    #[inline]
    pub(crate) fn rename(&self, segment: u32) {
        // SeqCst: as in `Hazards::name`. Release: partner of `may_be_read`, for the segment before.
        self.record.name.swap(segment + 1, SeqCst);
        fence_for_loom();
    }

    /// Counts a hit.
    #[inline]
    pub(crate) fn hit(&self) {
        // Whoever has the record writes this, one after the other: an exchange is not needed.
        self.record.hits.store(self.record.hits.load(Relaxed) + 1, Relaxed);
    }

    /// Whether a chance of one in `n` comes up.
    #[inline]
    pub(crate) fn one_in(&self, n: u32) -> bool {
        let mut chance = self.record.chance.load(Relaxed);
        chance ^= chance << 13;
        chance ^= chance >> 17;
        chance ^= chance << 5;
        self.record.chance.store(chance, Relaxed);
        ((u64::from(chance) * u64::from(n)) >> 32) == 0
    }
}

impl Drop for Hazard<'_> {
    fn drop(&mut self) {
        // Release: partner of `may_be_read`, and of who claims the record next.
        self.record.name.store(0, Release);
    }
}
