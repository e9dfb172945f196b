//! A cache of byte strings for millions of small items: a log of segments in one memory mapping.
//!
//! Values are copied into segments of up to 1 MiB, one after the other, and an index of eight bytes
//! an item points to them. An item takes 4 bytes beside its key and its value, up to 4 more for
//! flags, 3 for a lifetime and 1 for marks, and about 11 in the index. The design follows Segcache
//! (Yang et al., NSDI 2021) and GL-Cache (FAST 2023): a segment holds items that expire at about
//! the same time, and is evicted as a whole or merged.
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
//! - **Memory.** The capacity bounds everything: segments, index, data about segments, locks. The
//!   mapping takes memory as it is used, and returns none before the store is dropped except that
//!   of withdrawn segments ([`Store::withdraw`]).
//! - **Readers** take no lock, and wait for no writer and no merge. If more than 64 look-ups run at
//!   once, the others take the lock of a stripe for a moment.
//! - **Writers** of different keys share locks of stripes of the index, for less than a
//!   microsecond, and evict a little with each write. None waits for a whole merge, unless memory
//!   is short because guards hold it.
//! - **Consistency.** Operations on a key take effect one after the other. An entry stays until it
//!   is deleted, replaced, expired or evicted. No read returns an expired entry.
//! - **Time** is read for items with a lifetime only; see [`Builder::clock`].
//!
//! # What it does not do
//!
//! - Keys are up to 255 bytes, values limited by the size of a segment.
//! - The index grows and does not shrink: it stays large when few large items replace many small
//!   ones.
//! - An item is never changed in place: a counter and an appended value are written anew each time.

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
mod restoring;
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
pub use restoring::{Restore, Restoring};
pub use scan::Scanned;
pub use snapshot::{RestoreError, check_save, read_entries, save_entries};
pub use stats::{SegmentStats, Stats};
pub use store::Store;

use segments::Segment;

/// Data stored beside a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Any number; 0 takes no memory, others their significant bytes, or 4 for 3.
    pub flags: u32,
    /// A number of the program that embeds the store, beside the user's flags; 0 takes no memory,
    /// others one byte.
    pub marks: u8,
    /// Lifetime of the entry, rounded up to whole milliseconds, from the last millisecond of the
    /// clock on. A lifetime of more than an hour may be up to a millionth shorter. So a lifetime of
    /// 100 us ends with the next millisecond, and a lifetime of zero has expired at once. `None`,
    /// or 34 years: no lifetime.
    pub lifetime: Option<Duration>,
}

/// An entry in its place in memory, as a reader sees it.
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
    /// Whether the key was requested before, as far as known: a replacement keeps this, a merge may
    /// forget it.
    pub requested: bool,
    /// Milliseconds of the clock when the entry's segment was opened, or the mean for a merged one:
    /// the entry was written then or later.
    pub opened_ms: u64,
    /// A number that changes with each write of the key, and with merges. It repeats after 2^24
    /// reuses of the same memory.
    pub cas: u64,
    /// The remaining lifetime.
    pub lifetime: Option<Duration>,
}

impl<'a> Entry<'a> {
    /// An entry of another store: without flags, marks and a lifetime, of number 0, written at 0,
    /// and never requested.
    ///
    /// ```
    /// let entry = frazil_segment::Entry::new(b"key", b"value");
    /// assert_eq!((entry.key, entry.value, entry.lifetime), (&b"key"[..], &b"value"[..], None));
    /// ```
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        Entry {
            key,
            value,
            flags: 0,
            marks: 0,
            requested: false,
            opened_ms: 0,
            cas: 0,
            lifetime: None,
        }
    }
}

/// A guard that keeps an entry readable ([`Store::hold`]).
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

/// The condition of a write ([`Store::write`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No condition: there may be an entry or not.
    Anything,
    /// No entry of the key.
    Nothing,
    /// An entry of the key.
    Something,
    /// The entry with this number ([`Entry::cas`]).
    Exactly(u64),
}

/// The decision about an entry in a call of [`Store::update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<R> {
    /// Nothing.
    Leave(R),
    /// Store the built value, with these flags and marks.
    Write {
        /// [`Attributes::flags`].
        flags: u32,
        /// [`Attributes::marks`].
        marks: u8,
        /// `None`: the entry keeps its time of expiry. `Some`: as [`Attributes::lifetime`].
        lifetime: Option<Option<Duration>>,
        /// The answer.
        result: R,
    },
}

/// Result of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value is stored.
    Stored,
    /// The condition on the presence of the key was not met.
    NotStored,
    /// The key has another entry than the one given.
    Exists,
    /// The key has no entry, though one was given.
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
    /// The value is not a decimal number of 64 bits.
    NotANumber,
    /// No segment became free: guards hold an item in each, or reads or writes of them are under
    /// way. A write is refused after ten thousand attempts, which take a tenth of a second or more.
    /// With [`Eviction::Never`]: there is no room, and the write is refused at once.
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
