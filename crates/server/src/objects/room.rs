//! How much of its memory the store may have for items: all of it at first.
//!
//! What the cache keeps for an item, its slot and its part of the table, stays with it when items become fewer because they
//! are larger. So the others get less by that, as long as it lasts. And allocators keep memory of small items that were freed
//! here and there, which has no room for large ones. Where the process is the server's own, its memory is looked at, and if
//! there is too much of it the free pages are given back; if there still is, items get less.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::process;

/// Parts of the memory: a difference by less than one is left as it is.
const PARTS: u64 = 256;
/// Writes of a stripe after which the capacity is looked at.
pub(super) const LOOK_EVERY: u64 = 64;
/// Bytes that may be written between two looks at the process.
const LOOK_BYTES: u64 = 64 << 10;
/// What the process has more than after the last time before free pages are looked for again.
const TRIM_BYTES: u64 = 1 << 20;
/// Of the memory of the process: free pages are looked for when less than a 32nd of it is left, and items get less when it is
/// less than a 64th. The buffers of connections have a 16th, and it is seldom full.
const LEFT: [u64; 2] = [32, 64];

#[derive(Debug)]
pub(super) struct Room {
    /// For items, and for what the cache keeps for them.
    bytes: u64,
    /// What the cache keeps for an item.
    beside: u64,
    /// The most memory of the process without its program, if it is the server's own.
    process_max: Option<u64>,
    /// The most items that there were.
    items_max: AtomicU64,
    /// Bytes written since the last look at the process.
    written: AtomicU64,
    /// What the process had when free pages were last given back.
    trimmed: AtomicU64,
    /// What items get less because the process has too much.
    lost: AtomicU64,
}

impl Room {
    pub(super) fn new(bytes: usize, beside: usize, process_max: Option<u64>) -> Room {
        let (items_max, written, trimmed, lost) = Default::default();
        let (bytes, beside) = (bytes as u64, beside as u64);
        Room { bytes, beside, process_max, items_max, written, trimmed, lost }
    }

    /// Whether an item is so large that the capacity is looked at after each, and not after some.
    pub(super) fn is_large(&self, bytes: u64) -> bool {
        bytes * LOOK_EVERY > LOOK_BYTES.min(self.bytes / PARTS)
    }

    /// Whether so many bytes make a difference.
    pub(super) fn is_much(&self, bytes: u64) -> bool {
        bytes > self.bytes / PARTS
    }

    /// What the cache keeps for as many items as there were at most.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.items_max.load(Relaxed) * self.beside
    }

    /// The capacity for items and what is kept for those that there are, after so many bytes were written.
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

    /// Two threads that look at the same time are as one.
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
            // Half of it is left to them: what there is too much of is not theirs then.
            Some(over) => (lost + over).min(self.bytes.saturating_sub(self.kept_bytes()) / 2),
            None => lost.saturating_sub((shrinks - has) / 8),
        };
        self.lost.store(lost, Relaxed);
    }
}
