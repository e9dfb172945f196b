//! The segments that readers are reading.
//!
//! A reader names a segment in a record, checks that the index still leads to the item, and reads.
//! A thread that has unlinked all items of a segment does not reuse it while a record names it. So
//! a reader takes no lock and waits for no thread, and a suspended reader holds up one segment.
//!
//! One exchange claims a record and names the segment, so a read costs one locked instruction on a
//! line of its own (7 ns), and a few records serve any number of threads. A reader that finds no
//! free record (64 threads may be in closures that call the store) does not wait for one: it holds
//! the item while it has the lock of its stripe (`Store::hold_locked`).

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64, fence};
use crate::sync::fence_for_loom;

/// Records: of more reads at once than these, the others take a lock. Few where a checker is to see
/// that happen.
pub(crate) const RECORDS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 64 };

/// All records are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRecord;

#[repr(align(64))]
#[derive(Debug)]
struct Record {
    /// The segment, plus one. 0: the record is free.
    name: AtomicU32,
    /// Chance, for who has the record.
    chance: AtomicU32,
    /// Hits of the record's owners so far; written by its current owner.
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The records; clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Hazards {
    records: Arc<[Record]>,
    /// Hits of those who found no free record.
    unnamed_hits: Arc<AtomicU64>,
}

/// The segments that were named at one moment, plus one each.
pub(crate) struct Names([u32; RECORDS]);

impl Names {
    pub(crate) fn has(&self, segment: u32) -> bool {
        self.0.contains(&(segment + 1))
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.0 != [0; RECORDS]
    }
}

#[cfg(not(any(loom, shuttle)))]
static THREADS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// The record at which this thread begins to look for a free one.
#[inline]
pub(crate) fn first_record() -> usize {
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
        let records = (0..RECORDS as u32).map(record).collect();
        Hazards { records, unnamed_hits: Arc::default() }
    }

    /// Names a segment. The caller must read the index again after this.
    #[inline]
    pub(crate) fn name(&self, segment: u32) -> Result<Hazard<'_>, NoRecord> {
        let first = first_record();
        self.claim(first, segment).map_or_else(|| self.name_elsewhere(first, segment), Ok)
    }

    #[inline]
    fn claim(&self, record: usize, segment: u32) -> Option<Hazard<'_>> {
        let record = &self.records[record];
        // SeqCst: the partner is `names`, see there. Acquire: after all that who had the record
        // before has done.
        let claimed = record.name.load(Relaxed) == 0
            && record.name.compare_exchange(0, segment + 1, SeqCst, Relaxed).is_ok();
        if claimed {
            fence_for_loom();
        }
        claimed.then(|| Hazard { record, of_one_thread: PhantomData })
    }

    #[cold]
    #[inline(never)]
    fn name_elsewhere(&self, first: usize, segment: u32) -> Result<Hazard<'_>, NoRecord> {
        let others = (1..RECORDS).map(|step| (first + step) % RECORDS);
        others.into_iter().find_map(|record| self.claim(record, segment)).ok_or(NoRecord)
    }

    /// The segments that readers may look at although the index does not lead to them any more.
    ///
    /// The caller unlinked all items of those that it asks about before. A reader names the segment
    /// (SeqCst), and then reads the word of the index again (SeqCst). If the reader's naming comes
    /// before our fence, we see it below. If it comes after, the reader finds the item unlinked,
    /// and does not look at it.
    pub(crate) fn names(&self) -> Names {
        fence(SeqCst);
        // Acquire: partner of `Hazard::drop`, after which the memory may be written.
        Names(std::array::from_fn(|index| self.records[index].name.load(Acquire)))
    }

    /// Counts a hit that named no segment, and says how many of those there were before.
    pub(crate) fn hit_unnamed(&self) -> u64 {
        self.unnamed_hits.fetch_add(1, Relaxed)
    }

    /// Counts a look-up that found nothing.
    pub(crate) fn missed(&self) {
        self.records[first_record()].misses.fetch_add(1, Relaxed);
    }

    /// Hits and misses.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Record) -> &AtomicU64| {
            self.records.iter().map(|record| of(record).load(Relaxed)).sum::<u64>()
        };
        let hits = sum(|record| &record.hits) + self.unnamed_hits.load(Relaxed);
        (hits, sum(|record| &record.misses))
    }
}

/// A segment that is named.
#[derive(Debug)]
pub(crate) struct Hazard<'a> {
    record: &'a Record,
    of_one_thread: PhantomData<Cell<()>>,
}

impl Hazard<'_> {
    /// Names another segment instead. The caller must read the index again after this.
    #[inline]
    pub(crate) fn rename(&self, segment: u32) {
        // SeqCst: as in `Hazards::name`. Release: partner of `names`, for the segment before.
        self.record.name.swap(segment + 1, SeqCst);
        fence_for_loom();
    }

    /// Counts a hit.
    #[inline]
    pub(crate) fn hit(&self) {
        // Only the owner of the record writes this, and owners follow one another, so no exchange
        // is needed.
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
        // Release: partner of `names`, and of who claims the record next.
        self.record.name.store(0, Release);
    }
}
