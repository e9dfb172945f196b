//! Settings of a store.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::sync::Arc;
use std::time::Instant;

use frazil_recording::StoreRecorder;

use crate::clock::Clock;
use crate::evict::{self, Evictor};
use crate::hazards::{Hazards, RECORDS};
use crate::index::{self, Index};
use crate::learner::{self, Learner};
use crate::mapping::Mapping;
use crate::restoring::Restoring;
use crate::segments::{self, SEGMENTS_MIN, Segments};
use crate::store::{Counters, Store};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;

/// The largest segment: offsets in it have 20 bits.
const SEGMENT_BYTES_MAX: usize = 1 << 20;
const SEGMENT_BYTES_MIN: usize = 1 << 10;
/// The fewest segments of a store if the user sets no segment size.
const SEGMENTS_WANTED: usize = 64;
/// Places in the index have 40 bits.
const CAPACITY_BYTES_MAX: usize = 1 << 40;
/// The most free segments kept ready: two threads fill this many while a third, which evicts,
/// is suspended for some milliseconds.
const FREE_MAX: usize = 8;
const LINE_BYTES: usize = 64;

/// Which segments are evicted when the store is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// The segment written first.
    Fifo,
    /// Merges four neighbours into one, going through the segments in order. The merged segment
    /// keeps the items with the most requests a byte since they were written or last merged
    /// (Segcache).
    #[default]
    FifoMerge,
    /// A random segment.
    Random,
    /// The segment whose last item expires first.
    ClosestToExpiry,
    /// No segment: a write that finds no free space is refused. Only expired and deleted items free
    /// space.
    Never,
    /// Merges three neighbours into one. The first is the segment with the lowest utility, which a
    /// model that learns from requests predicts (GL-Cache). Of their items it evicts those
    /// requested longest ago for their size. A thread of the store trains the model. Before the
    /// first model it goes through the segments in order.
    GlCache,
}

/// Settings of a [`Store`]: [`Store::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    capacity_bytes: usize,
    segment_bytes: Option<usize>,
    eviction: Eviction,
    clock: Option<Arc<std::sync::atomic::AtomicU64>>,
    seed: Option<u64>,
    learn_in_place: bool,
}

/// Why a store could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The segments' size is not a power of two from 1 KiB to 1 MiB.
    SegmentBytes {
        /// The size given.
        segment_bytes: usize,
    },
    /// There would be fewer than eight segments.
    TooSmall {
        /// The least capacity with segments of this size.
        least_bytes: usize,
    },
    /// The capacity is more than a tebibyte.
    TooLarge,
    /// The system has not enough memory.
    Memory(io::Error),
    /// The system cannot start a thread for the learner ([`Eviction::GlCache`]).
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::SegmentBytes { segment_bytes } => {
                write!(
                    f,
                    "segments of {segment_bytes} bytes: expected a power of two from 1 KiB to 1 MiB"
                )
            }
            BuildError::TooSmall { least_bytes } => {
                write!(
                    f,
                    "the capacity is too small: with segments of this size it is at least {least_bytes} bytes"
                )
            }
            BuildError::TooLarge => f.write_str("the capacity is over one tebibyte"),
            BuildError::Memory(_) => f.write_str("no memory for the segments"),
            BuildError::Thread(_) => f.write_str("no thread for the learner"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Memory(source) | BuildError::Thread(source) => Some(source),
            _ => None,
        }
    }
}

impl Store {
    /// Settings of a store that takes at most `capacity_bytes` of memory in total.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(16 << 20).build()?;
    /// # Ok::<(), frazil_segment::BuildError>(())
    /// ```
    pub fn builder(capacity_bytes: usize) -> Builder {
        Builder {
            capacity_bytes,
            segment_bytes: None,
            eviction: Eviction::default(),
            clock: None,
            seed: None,
            learn_in_place: false,
        }
    }
}

impl Builder {
    /// The size of a segment, the maximum for an item: a power of two from 1 KiB to 1 MiB. Default
    /// 1 MiB; less, down to 64 KiB, if there would be fewer than 64 segments.
    ///
    /// ```
    /// let builder = frazil_segment::Store::builder(16 << 20).segment_bytes(1 << 20);
    /// assert!(builder.build().is_ok());
    /// ```
    pub fn segment_bytes(mut self, bytes: usize) -> Builder {
        self.segment_bytes = Some(bytes);
        self
    }

    /// Which segments are evicted when the store is full.
    ///
    /// ```
    /// use frazil_segment::Eviction;
    ///
    /// let builder = frazil_segment::Store::builder(16 << 20).eviction(Eviction::Fifo);
    /// assert!(builder.build().is_ok());
    /// ```
    pub fn eviction(mut self, eviction: Eviction) -> Builder {
        self.eviction = eviction;
        self
    }

    /// A clock in milliseconds that the caller advances and that never runs backwards: a server
    /// sets it once a round. By default the store reads the system's clock when it reads or writes
    /// an entry with a lifetime, which takes 27 ns.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    /// use frazil_segment::{Attributes, Store};
    ///
    /// let now_ms = Arc::new(AtomicU64::new(0));
    /// let store = Store::builder(16 << 20).clock(Arc::clone(&now_ms)).build()?;
    /// let attributes = Attributes { flags: 0, marks: 0, lifetime: Some(Duration::from_secs(1)) };
    /// store.set(b"key", b"value", attributes)?;
    /// now_ms.store(1000, Ordering::Relaxed);
    /// assert!(!store.contains(b"key"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, now_ms: Arc<std::sync::atomic::AtomicU64>) -> Builder {
        self.clock = Some(now_ms);
        self
    }

    /// The seed of the hash, for reproducible runs. The default is random, so clients cannot
    /// choose colliding keys.
    ///
    /// ```
    /// assert!(frazil_segment::Store::builder(16 << 20).seed(1).build().is_ok());
    /// ```
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = Some(seed);
        self
    }

    /// Whether [`Eviction::GlCache`] trains inside a write that evicts instead of in a thread, for
    /// reproducible runs. Such a write takes tens of milliseconds.
    ///
    /// ```
    /// use frazil_segment::{Eviction, Store};
    ///
    /// let builder = Store::builder(16 << 20).eviction(Eviction::GlCache).learn_in_place(true);
    /// assert!(builder.build().is_ok());
    /// ```
    pub fn learn_in_place(mut self, in_place: bool) -> Builder {
        self.learn_in_place = in_place;
        self
    }

    /// Builds the store. It reserves its memory but touches only the first page of the index.
    ///
    /// # Errors
    ///
    /// The settings contradict each other, or there is no memory.
    ///
    /// ```
    /// assert!(frazil_segment::Store::builder(100).build().is_err());
    /// ```
    pub fn build(self) -> Result<Store, BuildError> {
        let wanted = (self.capacity_bytes / SEGMENTS_WANTED).clamp(64 << 10, SEGMENT_BYTES_MAX);
        let segment_bytes = self.segment_bytes.unwrap_or(1 << wanted.ilog2());
        let range = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        if !segment_bytes.is_power_of_two() || !range.contains(&segment_bytes) {
            return Err(BuildError::SegmentBytes { segment_bytes });
        }
        if self.capacity_bytes > CAPACITY_BYTES_MAX {
            return Err(BuildError::TooLarge);
        }
        let learns = self.eviction == Eviction::GlCache;
        let fixed = size_of::<Store>()
            + RECORDS * LINE_BYTES
            + index::bytes_beside(segment_bytes, 0)
            + if learns { learner::bytes_beside(self.capacity_bytes) } else { 0 };
        let each = segment_bytes
            + segments::BYTES_BESIDE
            + if learns { learner::BYTES_BESIDE } else { 0 }
            + evict::BYTES_BESIDE
            + (index::bytes_beside(segment_bytes, 1) - index::bytes_beside(segment_bytes, 0));
        let count = self.capacity_bytes.saturating_sub(fixed) / each;
        if count < SEGMENTS_MIN as usize {
            let least_bytes = fixed + SEGMENTS_MIN as usize * each;
            return Err(BuildError::TooSmall { least_bytes });
        }
        let mapping = Mapping::new(count * segment_bytes).map_err(BuildError::Memory)?;
        let segments = Segments::new(mapping, segment_bytes, count as u32);
        let index = Index::new(&segments).expect("segments are free at first");
        let seed = self.seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let (hazards, counters) = (Hazards::new(), Arc::new(Counters::default()));
        let clock = self.clock.map_or_else(|| Clock::System(Instant::now()), Clock::Counted);
        let learner = if learns {
            let parts = learner::Parts {
                table: segments.table(),
                hazards: hazards.clone(),
                counters: Arc::clone(&counters),
                clock: clock.clone(),
            };
            let in_place = self.learn_in_place || cfg!(any(loom, shuttle, miri));
            let learner = Learner::new(parts, self.capacity_bytes, in_place);
            Some(learner.map_err(BuildError::Thread)?)
        } else {
            None
        };
        Ok(Store {
            evictor: Mutex::new(Evictor::new(&segments, seed)),
            segments,
            index,
            hazards,
            counters,
            learner,
            clock,
            eviction: self.eviction,
            capacity_bytes: self.capacity_bytes,
            free_target: (count / SEGMENTS_WANTED + 1).min(FREE_MAX) as u32,
            debt: AtomicU64::new(0),
            seed,
            recorder: StoreRecorder::new(),
            restoring: Restoring::default(),
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    /// As the design page states.
    #[test]
    fn there_are_80_bytes_beside_a_segment_and_28_kib_beside_all() {
        let index = |segments| index::bytes_beside(SEGMENT_BYTES_MAX, segments);
        let each = segments::BYTES_BESIDE + evict::BYTES_BESIDE + index(1) - index(0);
        assert_eq!(each, 80);
        let all = index(0) + size_of::<Hazards>() + RECORDS * LINE_BYTES;
        assert_eq!(all >> 10, 28);
    }
}
