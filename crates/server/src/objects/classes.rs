//! Counts of items by size, labelled with the classes of memcached's slabs.
//!
//! There are no slabs. A class is the one that memcached would choose with its default settings: chunks from 96 bytes
//! on, each a quarter larger than the one before and a multiple of 8, and at last one of 512 KiB, which also counts
//! larger items.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FIRST_BYTES: usize = 96;
const LAST_BYTES: usize = 512 << 10;
/// memcached's head of an item with a number for `cas`, the end of its key and the end of its value.
const HEAD_BYTES: usize = 48 + 8 + 1 + 2;
/// Numbers of classes, which begin at 1.
pub(crate) const CLASSES: usize = 40;

/// The chunk of each class; 0 for class 0.
const CHUNKS: [usize; CLASSES] = {
    let mut chunks = [0; CLASSES];
    let (mut at, mut bytes) = (1, FIRST_BYTES);
    while bytes * 5 < LAST_BYTES * 4 {
        chunks[at] = bytes.next_multiple_of(8);
        bytes = chunks[at] * 5 / 4;
        at += 1;
    }
    chunks[at] = LAST_BYTES;
    assert!(at + 1 == CLASSES);
    chunks
};

/// The class of an item.
pub(super) fn class_of(key_bytes: usize, value_bytes: usize) -> usize {
    let bytes = HEAD_BYTES + key_bytes + value_bytes;
    CHUNKS.partition_point(|&chunk| chunk < bytes).min(CLASSES - 1)
}

/// Evicted and reclaimed items by class.
#[derive(Debug)]
pub(super) struct Classes([[AtomicU64; 2]; CLASSES]);

/// The counts of [`Classes`] at some moment.
pub(crate) type Since = [[u64; 2]; CLASSES];

/// The items of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClassStats {
    pub(crate) chunk_bytes: usize,
    pub(crate) items: u64,
    /// Bytes of their allocations.
    pub(crate) bytes: u64,
    /// Items evicted by the policy so far.
    pub(crate) evicted: u64,
    /// Expired items whose memory was used again.
    pub(crate) reclaimed: u64,
}

impl Default for Classes {
    fn default() -> Classes {
        Classes(std::array::from_fn(|_| Default::default()))
    }
}

impl Classes {
    pub(super) fn evicted(&self, key_bytes: usize, value_bytes: usize) {
        self.0[class_of(key_bytes, value_bytes)][0].fetch_add(1, Relaxed);
    }

    pub(super) fn reclaimed(&self, key_bytes: usize, value_bytes: usize) {
        self.0[class_of(key_bytes, value_bytes)][1].fetch_add(1, Relaxed);
    }

    /// All classes by number, without their present items.
    pub(super) fn all(&self) -> Vec<ClassStats> {
        let with = |(chunk_bytes, counts): (usize, &[AtomicU64; 2])| {
            let [evicted, reclaimed] = counts.each_ref().map(|count| count.load(Relaxed));
            ClassStats { chunk_bytes, evicted, reclaimed, ..ClassStats::default() }
        };
        CHUNKS.into_iter().zip(&self.0).map(with).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As `memcached -vv` of 1.6.18 prints them.
    #[test]
    fn classes_are_those_of_memcached() {
        assert_eq!(CHUNKS[..9], [0, 96, 120, 152, 192, 240, 304, 384, 480]);
        assert_eq!(CHUNKS[30..33], [66_232, 82_792, 103_496]);
        assert_eq!(CHUNKS[CLASSES - 2..], [394_840, 524_288]);
        let of = |bytes| class_of(3, bytes);
        assert_eq!([of(0), of(34), of(35), of(66_560), of(1 << 20)], [1, 1, 2, 31, 39]);
    }
}
