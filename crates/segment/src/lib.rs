//! A cache of bytes by bytes, for millions of small items: a log of segments in one mapping.
//!
//! Values are copied into segments of up to 1 MiB, one after the other, and an index of eight bytes an
//! item leads to them. An item takes 4 bytes beside its key and its value, up to 4 more for flags, 2 for
//! a lifetime and 1 for marks, and about 11 in the index. The design follows Segcache (Yang et al., NSDI 2021) and GL-Cache
//! (FAST 2023): segments are for items that end at about the same time, and go as a whole or are merged.
//!
//! ```
//! use std::time::Duration;
//! use frazil_segment::{Attributes, Eviction, Store};
//!
//! let store = Store::builder(64 << 20).eviction(Eviction::FifoMerge).build()?;
//! let attributes = Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(300)) };
//! store.set(b"session:17", b"a few bytes", attributes)?;
//!
//! let mut value = Vec::new();
//! if store.get(b"session:17", &mut value).is_some() {
//!     assert_eq!(value, b"a few bytes");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - **Memory.** The capacity holds for all: segments, index, what is known of segments, locks. The mapping
//!   takes memory as it is used, and never gives any back before the store is dropped.
//! - **Readers** take no lock, and wait for no writer and no merge. Of more than 64 look-ups at once the
//!   others take the lock of a stripe for a moment.
//! - **Writers** of different keys share locks of stripes of the index, for less than a microsecond,
//!   and make room a little with each write; none waits for a whole merge, unless memory is short
//!   because guards hold it.
//! - **Consistency.** Operations on a key take effect one after the other. An entry is there until it is
//!   deleted, replaced, over or evicted. One that is over is not read any more.
//! - **Time** is read for items with a lifetime only; see [`Builder::clock`].
//!
//! # What it does not do
//!
//! - Keys are up to 255 bytes, values as long as fits into a segment.
//! - The index grows and does not shrink: a store of small items that become large ones keeps it.
//! - An item is never changed in place, so counters and appended values write anew each time.

mod builder;
mod clock;
mod evict;
mod hazards;
mod index;
mod item;
mod learner;
mod lifetimes;
mod limbo;
mod mapping;
#[cfg(feature = "prometheus")]
pub mod prometheus;
mod record;
mod scan;
mod segments;
mod snapshot;
mod stats;
mod store;
mod sync;
mod update;
mod validate;

#[cfg(all(test, loom))]
mod models;

use std::fmt;
use std::time::Duration;

pub use frazil_recording::Recorded;

pub use builder::{BuildError, Builder, Eviction};
pub use item::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use learner::{LearnerStats, SegmentLearned};
pub use record::Recording;
pub use scan::Scanned;
pub use snapshot::RestoreError;
pub use stats::{SegmentStats, Stats};
pub use store::Store;

use segments::Segment;

/// What is stored beside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Whatever the user wants; 0 takes no memory, others as many bytes as they have, or 4 for 3.
    pub flags: u32,
    /// Whatever who embeds the store wants to know of the entry beside the user's flags; 0 takes no
    /// memory, others a byte.
    pub marks: u8,
    /// How long the entry is there at most, rounded up to whole milliseconds, from the last millisecond of
    /// the clock on; up to 0.025 % of it less. So one of 100 us ends with the millisecond after, and
    /// one of nothing is over at once. `None`, or 34 years: as long as there is room.
    pub lifetime: Option<Duration>,
}

/// An entry as a reader sees it, in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// [`Attributes::flags`].
    pub flags: u32,
    /// [`Attributes::marks`].
    pub marks: u8,
    /// Whether the key was requested before, as far as that is known: a replacement does not forget it,
    /// and a merge may.
    pub requested: bool,
    /// Milliseconds of the clock when the entry's segment was opened, of a merged one the mean: the entry
    /// was written then or later.
    pub opened_ms: u64,
    /// A number that changes with each write of the key, and with merges. It comes again when the same
    /// piece of memory was used anew 2^24 times.
    pub cas: u64,
    /// What is left of the lifetime.
    pub lifetime: Option<Duration>,
}

/// A guard of an entry ([`Store::hold`]).
#[derive(Debug)]
pub struct Held<'a> {
    entry: Entry<'a>,
    deadline_ms: Option<u64>,
    segment: &'a Segment,
}

impl Held<'_> {
    /// The entry.
    pub fn entry(&self) -> &Entry<'_> {
        &self.entry
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// What must be there for a write to happen ([`Store::write`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything or nothing.
    Anything,
    /// No entry of the key.
    Nothing,
    /// An entry of the key.
    Something,
    /// The entry that had this number ([`Entry::cas`]).
    Exactly(u64),
}

/// What [`Store::update`] is to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<R> {
    /// Nothing.
    Leave(R),
    /// Store the value that was put together, with these flags and marks.
    Write {
        /// [`Attributes::flags`].
        flags: u32,
        /// [`Attributes::marks`].
        marks: u8,
        /// `None`: the entry ends when it would have. `Some`: as [`Attributes::lifetime`].
        lifetime: Option<Option<Duration>>,
        /// What is answered.
        result: R,
    },
}

/// What became of a write with a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value is stored.
    Stored,
    /// The key has, or does not have, a value.
    NotStored,
    /// The key has another entry than the one that was named.
    Exists,
    /// The key has no entry, and one was named.
    NotFound,
}

/// Why a value was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The key has more than [`KEY_BYTES_MAX`] bytes.
    KeyTooLong,
    /// The item does not fit into a segment, or the value has more than [`VALUE_BYTES_MAX`] bytes.
    TooLarge,
    /// The value is no decimal number of 64 bits.
    NotANumber,
    /// No segment comes free: guards hold an item in each, or reads or writes are under way there. A write is
    /// refused after ten thousand looks, which take a tenth of a second or more. With [`Eviction::Never`]: there
    /// is no room, and the write is refused at once.
    NoRoom,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreError::KeyTooLong => "the key is longer than 255 bytes",
            StoreError::TooLarge => "the item does not fit into a segment",
            StoreError::NotANumber => "the value is not a decimal number of 64 bits",
            StoreError::NoRoom => {
                "no segment comes free: guards, reads or writes under way hold all of them"
            }
        })
    }
}

impl std::error::Error for StoreError {}
