//! The share of the store's memory that items may fill: all of it at first.
//!
//! The cache keeps the slot and the table entry of an item after its eviction. When values grow, there are fewer items than
//! slots, and the memory of unused slots is subtracted from the items' share. The allocator also keeps memory of freed small
//! items, in fragments too small for large ones. If the process only serves, this module measures its resident memory. If
//! that is too large, it first returns free pages to the system, and then reduces the items' share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::process;

/// The capacity is changed in steps of at least one such part of the memory.
const PARTS: u64 = 256;
/// Writes to a stripe between two updates of the capacity.
pub(super) const LOOK_EVERY: u64 = 64;
/// Bytes written between two measurements of the process.
const LOOK_BYTES: u64 = 64 << 10;
/// Growth of the process since the last return of free pages that causes the next: at least this much, and a part of the
/// process's memory, because a return takes time proportional to it.
const TRIM_BYTES: u64 = 1 << 20;
const TRIM_STEPS: u64 = 128;
/// Free pages are returned when less than this part of the process's memory is left. Buffers of connections have a 16th,
/// which is rarely full.
const TRIM_PART: u64 = 32;
/// The items' share is reduced when less than this part is left.
const SHRINK_PART: u64 = 64;

#[derive(Debug)]
pub(super) struct Room {
    /// For items, with their slots and table entries.
    bytes: u64,
    /// Slot and table entry of an item.
    beside: u64,
    /// Limit of the process's memory without its program, if the process only serves.
    process_max: Option<u64>,
    /// Largest number of items so far.
    items_max: AtomicU64,
    /// Bytes written since the last measurement of the process.
    written: AtomicU64,
    /// Memory of the process after the last return of free pages.
    trimmed: AtomicU64,
    /// Reductions of the items' share since then. Their memory is free, but still the process's.
    freed: AtomicU64,
    /// Reduction of the items' share because the process is too large.
    lost: AtomicU64,
}

impl Room {
    pub(super) fn new(bytes: usize, beside: usize, process_max: Option<u64>) -> Room {
        let (items_max, written, trimmed, freed, lost) = Default::default();
        let (bytes, beside) = (bytes as u64, beside as u64);
        Room { bytes, beside, process_max, items_max, written, trimmed, freed, lost }
    }

    /// Whether an item is so large that the capacity is updated after each.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        bytes * LOOK_EVERY > LOOK_BYTES.min(self.bytes / PARTS)
    }

    /// Whether a difference of this size is worth a change of the capacity.
    pub(super) fn is_much(&self, bytes: u64) -> bool {
        bytes > self.bytes / PARTS
    }

    /// Slots and table entries of the largest number of items so far.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.items_max.load(Relaxed) * self.beside
    }

    /// The capacity for items with their slots and table entries, after this many bytes were written.
    pub(super) fn capacity(&self, items: u64, written: u64) -> u64 {
        self.items_max.fetch_max(items, Relaxed);
        if let Some(most) = self.process_max
            && self.written.fetch_add(written, Relaxed) + written >= LOOK_BYTES
        {
            self.written.store(0, Relaxed);
            self.look(most);
        }
        let missing = self.kept_bytes() - items * self.beside + self.lost.load(Relaxed);
        self.bytes.saturating_sub(missing)
    }

    /// Measures the process. Two threads that do so at the same time have the effect of one.
    fn look(&self, most: u64) {
        let mut has = process::anonymous_bytes();
        if self.is_to_trim(most, has) {
            process::give_back_free_pages();
            has = process::anonymous_bytes();
            self.trimmed(has);
        }
        self.settle(most, has);
    }

    /// Whether free pages are to be returned by a process that has this much memory.
    fn is_to_trim(&self, most: u64, has: u64) -> bool {
        let grown = (has + self.freed.load(Relaxed)).saturating_sub(self.trimmed.load(Relaxed));
        has > most - most / TRIM_PART && grown > TRIM_BYTES.max(most / TRIM_STEPS)
    }

    fn trimmed(&self, has: u64) {
        self.trimmed.store(has, Relaxed);
        self.freed.store(0, Relaxed);
    }

    /// Changes the reduction of the items' share for a process that has this much memory.
    fn settle(&self, most: u64, has: u64) {
        let before = self.lost.load(Relaxed);
        let shrinks = most - most / SHRINK_PART;
        let lost = match has.checked_sub(shrinks) {
            // At least half is left: beyond that the excess is not the items'.
            Some(over) => (before + over).min(self.bytes.saturating_sub(self.kept_bytes()) / 2),
            None => before.saturating_sub((shrinks - has) / 8),
        };
        self.freed.fetch_add(lost.saturating_sub(before), Relaxed);
        self.lost.store(lost, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What evicted items had stays in the process until it is returned, and is used for new ones.
    #[test]
    fn a_small_excess_takes_little_from_the_items() {
        const MIB: u64 = 1 << 20;
        let room = Room::new(29 << 20, 88, None);
        for excess in [MIB / 64, MIB, 4 * MIB] {
            let others = 5 * MIB / 2 + excess;
            let (mut items, mut has, mut trims, mut least) = (0, 0, 0, u64::MAX);
            for step in 0..20_000 {
                let capacity = room.capacity(0, LOOK_BYTES);
                items = (items + LOOK_BYTES).min(capacity);
                has = (others + items).max(has);
                if room.is_to_trim(32 * MIB, has) {
                    has = others + items;
                    room.trimmed(has);
                    trims += 1;
                }
                room.settle(32 * MIB, has);
                if step > 1000 {
                    least = least.min(items);
                }
            }
            assert!(has < 32 * MIB + MIB / 2, "{excess}: {has}");
            assert!(least > 29 * MIB - excess - 2 * MIB, "{excess}: {least}");
            // Each is for a MiB that is written.
            assert!(trims < 20_000 * LOOK_BYTES / MIB, "{excess}: {trims}");
        }
    }
}
