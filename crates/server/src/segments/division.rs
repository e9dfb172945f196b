//! The division of memory between segments and large items: large items borrow whole segments.
//!
//! They borrow free segments as long as there are any besides those that writers keep ready. When all are used, memory
//! is divided by demand. The demand for large items is their bytes stored or requested in a period, repeated requests not
//! counted; that for segments is the bytes written to them. A period ends when as many bytes as the store has were demanded, and past
//! periods count half, a quarter, and so on. So large items that are all requested or written in each period keep their
//! memory, and others lose a segment for each segment of small items that is written.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use frazil_segment::{Store, StoreError};
use parking_lot::{Mutex, MutexGuard};

use crate::objects::Objects;

/// What large items may hold beyond their share: a part of it, because sizes are rounded up, and hits are by chance.
const SLACK_PART: u64 = 4;

/// Bytes demanded: of small and of large items in past periods, and of small ones in this period. Large items count
/// those of this period themselves.
#[derive(Debug, Default)]
pub(super) struct Demand {
    past_small: u64,
    past_large: u64,
    small: u64,
}

#[derive(Debug)]
pub(super) struct Division {
    /// Bytes of all segments, and of one.
    store_bytes: u64,
    segment_bytes: u64,
    evicts: bool,
    /// Segments that are lent. Changed with the lock of the demand.
    lent: AtomicU32,
    /// Bytes written to segments since the last look at the division, while any are lent.
    written: AtomicU64,
    demand: Mutex<Demand>,
    /// Bytes of large items that have room and are not stored yet. Changed upwards with the lock of the demand.
    pending: AtomicU64,
}

/// The room of a large item, until that is stored.
#[must_use]
pub(super) struct Room<'d> {
    division: &'d Division,
    charge: u64,
    /// If nothing may be evicted: others must not take the room.
    _demand: Option<MutexGuard<'d, Demand>>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.division.pending.fetch_sub(self.charge, Relaxed);
    }
}

impl Division {
    pub(super) fn new(small: &Store, large: &Objects, evicts: bool) -> Division {
        let stats = small.stats();
        let segment_bytes = stats.segment_bytes as u64;
        let store_bytes = segment_bytes * u64::from(stats.segments);
        if !evicts {
            // The cache would evict before its weight reaches its capacity, because threads have a part of that in
            // hand. So the division alone bounds what is stored.
            large.set_capacity(2 * store_bytes);
        }
        Division {
            store_bytes,
            segment_bytes,
            evicts,
            lent: AtomicU32::new(0),
            written: AtomicU64::new(0),
            demand: Mutex::default(),
            pending: AtomicU64::new(0),
        }
    }

    fn lent_bytes(&self) -> u64 {
        u64::from(self.lent.load(Relaxed)) * self.segment_bytes
    }

    /// The share of large items by demand.
    fn target_bytes(&self, demand: &mut Demand, large: &Objects) -> u64 {
        demand.small += self.written.swap(0, Relaxed);
        let used = large.used();
        let (of_small, of_large) = (demand.past_small + demand.small, demand.past_large + used);
        if demand.small + used >= self.store_bytes {
            large.begin_period();
            *demand = Demand { past_small: of_small / 2, past_large: of_large / 2, small: 0 };
        }
        let all = (of_small + of_large).max(1);
        (u128::from(self.store_bytes) * u128::from(of_large) / u128::from(all)) as u64
    }

    /// Makes room for a large item that weighs this much, where `replaced` becomes free. The room is kept until the result
    /// is dropped.
    pub(super) fn make_room(
        &self,
        small: &Store,
        large: &Objects,
        charge: u64,
        replaced: u64,
    ) -> Result<Room<'_>, StoreError> {
        let mut demand = self.demand.lock();
        let wanted = self.pending.load(Relaxed) + charge;
        let missing =
            |lent_bytes: u64| (large.used_bytes() + wanted).saturating_sub(replaced) > lent_bytes;
        if missing(self.lent_bytes()) {
            large.purge();
        }
        if self.lent.load(Relaxed) == 0 {
            // Bytes written are counted only while segments are lent: as if all present ones were of the past.
            let of_segments = small.stats().live_bytes;
            *demand = Demand { past_small: of_segments, ..Demand::default() };
        }
        let target = self.target_bytes(&mut demand, large);
        while missing(self.lent_bytes()) {
            let lent_bytes = self.lent_bytes();
            let is_due = lent_bytes < wanted || lent_bytes + self.segment_bytes <= target;
            let has_its_share = !is_due && small.is_full();
            if has_its_share || !small.withdraw() {
                break;
            }
            self.lent.fetch_add(1, Relaxed);
        }
        let lent_bytes = self.lent_bytes();
        if self.evicts && lent_bytes != large.capacity() {
            large.set_capacity(lent_bytes);
        }
        if charge > lent_bytes || !self.evicts && missing(lent_bytes) {
            return Err(StoreError::NoRoom);
        }
        self.pending.fetch_add(charge, Relaxed);
        Ok(Room { division: self, charge, _demand: (!self.evicts).then_some(demand) })
    }

    /// Notes bytes written to segments, and takes back what large items do not need, or have more than their share.
    #[inline]
    pub(super) fn written(&self, small: &Store, large: &Objects, bytes: usize) {
        if self.lent.load(Relaxed) > 0 {
            let written = self.written.fetch_add(bytes as u64, Relaxed) + bytes as u64;
            if written >= self.segment_bytes {
                self.settle(small, large);
            }
        }
    }

    #[cold]
    fn settle(&self, small: &Store, large: &Objects) {
        let Some(mut demand) = self.demand.try_lock() else { return };
        let target = self.target_bytes(&mut demand, large);
        if small.is_full() {
            let lent = self.lent.load(Relaxed);
            let share = (target + target / SLACK_PART).div_ceil(self.segment_bytes) as u32;
            // Without eviction only what is unused.
            let most = if self.evicts { share.max(lent.saturating_sub(1)) } else { lent };
            self.keep(small, large, most);
        }
    }

    /// Takes back segments that large items do not fill. Returns whether there were any.
    pub(super) fn take_back_unused(&self, small: &Store, large: &Objects) -> bool {
        let _demand = self.demand.lock();
        self.keep(small, large, self.lent.load(Relaxed))
    }

    /// Lends at most this many segments, and no more than are needed. Returns whether fewer are lent than before. The
    /// demand is locked.
    fn keep(&self, small: &Store, large: &Objects, most: u32) -> bool {
        large.purge();
        let lent = self.lent.load(Relaxed);
        let segments = |bytes: u64| bytes.div_ceil(self.segment_bytes) as u32;
        let pending = self.pending.load(Relaxed);
        let needed = segments(large.used_bytes() + pending);
        // What has room and is not stored yet must still fit.
        let most = most.min(needed).max(segments(pending));
        if most >= lent {
            return false;
        }
        let bytes = u64::from(most) * self.segment_bytes;
        let in_force = if self.evicts {
            large.set_capacity(bytes)
        } else {
            large.drop_removed();
            bytes
        };
        let kept = in_force.div_ceil(self.segment_bytes) as u32;
        for _ in kept..lent {
            if small.give_back() {
                self.lent.fetch_sub(1, Relaxed);
            }
        }
        kept < lent
    }
}
