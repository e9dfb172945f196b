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
/// Growth of the process since the last return of free pages that causes the next.
const TRIM_BYTES: u64 = 1 << 20;
/// Free pages are returned when less than a 32nd of the process's memory is left, and the items' share is reduced when less
/// than a 64th is. Buffers of connections have a 16th, which is rarely full.
const LEFT: [u64; 2] = [32, 64];

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
    /// Reduction of the items' share because the process is too large.
    lost: AtomicU64,
}

impl Room {
    pub(super) fn new(bytes: usize, beside: usize, process_max: Option<u64>) -> Room {
        let (items_max, written, trimmed, lost) = Default::default();
        let (bytes, beside) = (bytes as u64, beside as u64);
        Room { bytes, beside, process_max, items_max, written, trimmed, lost }
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
        let [trims, shrinks] = LEFT.map(|part| most - most / part);
        let mut has = process::anonymous_bytes();
        if has > trims.max(self.trimmed.load(Relaxed) + TRIM_BYTES) {
            process::give_back_free_pages();
            has = process::anonymous_bytes();
            self.trimmed.store(has, Relaxed);
        }
        let lost = self.lost.load(Relaxed);
        let lost = match has.checked_sub(shrinks) {
            // At least half is left: beyond that the excess is not the items'.
            Some(over) => (lost + over).min(self.bytes.saturating_sub(self.kept_bytes()) / 2),
            None => lost.saturating_sub((shrinks - has) / 8),
        };
        self.lost.store(lost, Relaxed);
    }
}
