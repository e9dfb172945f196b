//! Counts of a store.

use std::time::Duration;

use crate::learner::SegmentLearned;
use crate::segments::Phase;
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

/// Counts of a store since it was built, and its present size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Look-ups that found an expired entry.
    pub expired_reads: u64,
    /// Look-ups that found a flushed entry.
    pub flushed_reads: u64,
    /// Values stored.
    pub writes: u64,
    /// Entries evicted.
    pub evicted_items: u64,
    /// Entries that had expired, or were flushed, when their memory was needed or their key
    /// written.
    pub expired_items: u64,
    /// Entries that merges kept.
    pub kept_items: u64,
    /// Merges of segments.
    pub merges: u64,
    /// Entries, including expired ones whose memory is not yet needed.
    pub items: u64,
    /// Bytes of their items.
    pub live_bytes: u64,
    /// The most memory that the store may take.
    pub capacity_bytes: usize,
    /// The size of a segment.
    pub segment_bytes: usize,
    /// Segments.
    pub segments: u32,
    /// Free segments.
    pub free_segments: u32,
    /// Segments that are withdrawn ([`Store::withdraw`]).
    pub withdrawn_segments: u32,
    /// Segments of the index.
    pub index_segments: u32,
    /// Lines of the index, which are 64 bytes each.
    pub index_lines: u64,
    /// Overflow lines of the index.
    pub overflow_lines: u64,
}

/// Statistics of a segment with items.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SegmentStats {
    /// Time since it was opened; for a merged segment the mean.
    pub age: Duration,
    /// Bytes written to it.
    pub filled_bytes: usize,
    /// Bytes of items that are not deleted or replaced.
    pub live_bytes: u32,
    /// Items that are not deleted or replaced.
    pub live_items: u32,
    /// Time until the last of them expires; `None`: never.
    pub left: Option<Duration>,
    /// Counts of the learner, if there is one.
    pub learned: Option<SegmentLearned>,
}

impl Store {
    /// Counts.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert_eq!(store.stats().items, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let (hits, misses) = self.hazards.counts();
        let counters = &self.counters;
        let (index_lines, overflow_lines) = self.index.lines();
        Stats {
            hits,
            misses,
            expired_reads: counters.expired_reads.load(Relaxed),
            flushed_reads: counters.flushed_reads.load(Relaxed),
            writes: counters.writes.load(Relaxed),
            evicted_items: counters.evicted_items.load(Relaxed),
            expired_items: counters.expired_items.load(Relaxed),
            kept_items: counters.kept_items.load(Relaxed),
            merges: counters.merges.load(Relaxed),
            items: self.index.items.load(Relaxed),
            live_bytes: counters.live_bytes.load(Relaxed),
            capacity_bytes: self.capacity_bytes,
            segment_bytes: self.segments.segment_bytes,
            segments: self.segments.count(),
            free_segments: self.segments.free_count(),
            withdrawn_segments: self.segments.withdrawn_count(),
            index_segments: self.segments.index_count.load(Relaxed),
            index_lines,
            overflow_lines,
        }
    }

    /// Entries, without those of segments whose entries have all expired or were flushed. An
    /// expired entry counts while others of its segment live. Takes one or two loads for each
    /// segment.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert_eq!(store.live_items(), 1);
    /// store.flush();
    /// assert_eq!(store.live_items(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn live_items(&self) -> u64 {
        let now_ms = self.clock.now_ms();
        let items = (0..self.segments.count()).map(|number| {
            let segment = self.segments.get(number);
            let is_over =
                segment.state().class() > 0 && segment.deadline_ms.load(Relaxed) <= now_ms;
            let is_gone = is_over || self.segments.is_flushed(number);
            if is_gone { 0 } else { u64::from(segment.live_items.load(Relaxed)) }
        });
        items.sum()
    }

    /// All segments with items, in no order.
    ///
    /// ```
    /// let store = frazil_segment::Store::builder(4 << 20).build()?;
    /// store.set(b"key", b"value", Default::default())?;
    /// assert_eq!(store.segments().next().unwrap().live_items, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segments(&self) -> impl Iterator<Item = SegmentStats> {
        let now_ms = self.clock.now_ms();
        (0..self.segments.count()).filter_map(move |number| {
            let segment = self.segments.get(number);
            let state = segment.state();
            let left = segment.deadline_ms.load(Relaxed).saturating_sub(now_ms);
            matches!(state.phase(), Phase::Open | Phase::Sealed).then(|| SegmentStats {
                age: Duration::from_millis(now_ms.saturating_sub(segment.written_ms.load(Relaxed))),
                filled_bytes: state.filled(),
                live_bytes: segment.live_bytes.load(Relaxed),
                live_items: segment.live_items.load(Relaxed),
                left: (state.class() > 0).then(|| Duration::from_millis(left)),
                learned: self.learner.as_ref().map(|learner| learner.of_segment(number)),
            })
        })
    }
}
