//! Segments: open ones and their writers, full ones, free ones, and the order in which they were
//! written.
//!
//! One word has a segment's state, [`Segment::state`]: its phase, its class of lifetimes, its
//! filled bytes, and the number of writers that have not finished their reserved space. So a writer
//! that reserves space is sure of phase and class, and a sealed segment without writers gets no
//! writer before it is opened anew.

use std::sync::Arc;

use crate::lifetimes::{self, CLASSES};
use crate::mapping::Mapping;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// No segment.
pub(crate) const NONE: u32 = u32::MAX;
/// The fewest segments of any store: one for the index, one to merge into, one free, four to
/// merge, one open.
pub(crate) const SEGMENTS_MIN: u32 = 8;

const WRITER: u64 = 1 << 24;
const FILLED: u64 = WRITER - 1;
const WRITERS_SHIFT: u32 = 24;
const WRITERS_MAX: u64 = 0xffff;
const CLASS_SHIFT: u32 = 40;
const PHASE_SHIFT: u32 = 48;

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Unused.
    Free,
    /// Takes new items of its class.
    Open,
    /// Takes no more items; its items are read.
    Sealed,
    /// The evictor removes its items, or fills it.
    Taken,
    /// A page of the index, for ever.
    Index,
}

impl Phase {
    fn bits(self) -> u64 {
        (self as u64) << PHASE_SHIFT
    }
}

/// The state of a segment at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State(u64);

impl State {
    pub(crate) fn phase(self) -> Phase {
        match self.0 >> PHASE_SHIFT {
            0 => Phase::Free,
            1 => Phase::Open,
            2 => Phase::Sealed,
            3 => Phase::Taken,
            _ => Phase::Index,
        }
    }

    pub(crate) fn class(self) -> usize {
        (self.0 >> CLASS_SHIFT & 0xff) as usize
    }

    pub(crate) fn filled(self) -> usize {
        (self.0 & FILLED) as usize
    }

    pub(crate) fn writers(self) -> u64 {
        self.0 >> WRITERS_SHIFT & WRITERS_MAX
    }

    /// Whether it is sealed and has no writer, so its items are final.
    pub(crate) fn is_quiet(self) -> bool {
        self.phase() == Phase::Sealed && self.writers() == 0
    }
}

/// The record of a segment, on a cache line of its own.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(crate) struct Segment {
    state: AtomicU64,
    /// How often it was freed: together with an item's place, a number unique to the item.
    generation: AtomicU32,
    /// Number of guards that keep its items in place.
    pub(crate) holds: AtomicU32,
    /// Bytes and number of the items that the index leads to.
    pub(crate) live_bytes: AtomicU32,
    pub(crate) live_items: AtomicU32,
    /// The start of its deadlines.
    pub(crate) base_ms: AtomicU64,
    /// When its items were written; the mean for a merged segment.
    pub(crate) written_ms: AtomicU64,
    /// The latest deadline of its items.
    pub(crate) deadline_ms: AtomicU64,
    /// Its place in the order of writing.
    pub(crate) sequence: AtomicU64,
}

/// The result of a reservation.
pub(crate) enum Reserved {
    /// The space begins there; [`Segment::finish`] must follow.
    At(usize),
    /// The segment does not have enough bytes left.
    Full,
    /// The segment is no longer open for this class.
    Closed,
}

impl Segment {
    pub(crate) fn state(&self) -> State {
        // Acquire: partner of `finish`, after which the items are written.
        State(self.state.load(Acquire))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// Reserves `bytes` for an item.
    pub(crate) fn reserve(&self, class: usize, bytes: usize, segment_bytes: usize) -> Reserved {
        let mut state = State(self.state.load(Relaxed));
        loop {
            if state.phase() != Phase::Open || state.class() != class {
                return Reserved::Closed;
            }
            if state.filled() + bytes > segment_bytes || state.writers() == WRITERS_MAX {
                return Reserved::Full;
            }
            let reserved = state.0 + WRITER + bytes as u64;
            // Acquire: partner of `open`, which has written the base of its deadlines.
            match self.state.compare_exchange_weak(state.0, reserved, Acquire, Relaxed) {
                Ok(_) => return Reserved::At(state.filled()),
                Err(found) => state = State(found),
            }
        }
    }

    /// The reserved bytes are written, and the index leads to them or never will.
    pub(crate) fn finish(&self) {
        // Release: partner of `state`, before the evictor reads the items.
        self.state.fetch_sub(WRITER, Release);
    }

    /// Stops new items.
    fn seal(&self) {
        let mut state = State(self.state.load(Relaxed));
        while state.phase() == Phase::Open {
            let sealed = state.0 + Phase::Sealed.bits() - Phase::Open.bits();
            match self.state.compare_exchange_weak(state.0, sealed, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(found) => state = State(found),
            }
        }
    }

    fn set(&self, phase: Phase, class: usize, filled: usize) {
        let state = phase.bits() | (class as u64) << CLASS_SHIFT | filled as u64;
        // Release: partner of `reserve`.
        self.state.store(state, Release);
    }

    /// Empties its counts for a new life.
    fn begin(&self, phase: Phase, class: usize, now_ms: u64, sequence: u64) {
        self.base_ms.store(lifetimes::base_ms(class, now_ms), Relaxed);
        self.written_ms.store(now_ms, Relaxed);
        self.deadline_ms.store(0, Relaxed);
        self.sequence.store(sequence, Relaxed);
        self.set(phase, class, 0);
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

const ALONE: Link = Link { previous: NONE, next: NONE };

/// Lists of segments: those that are free, and for each class the open and sealed ones in the order
/// of writing. Only the evictor takes segments out of the latter.
#[derive(Debug)]
pub(crate) struct Chains {
    links: Box<[Link]>,
    ends: [(u32, u32); CLASSES],
    free: u32,
    withdrawn: u32,
    sequence: u64,
}

impl Chains {
    pub(crate) fn first(&self, class: usize) -> u32 {
        self.ends[class].0
    }

    pub(crate) fn next(&self, segment: u32) -> u32 {
        self.links[segment as usize].next
    }

    pub(crate) fn previous(&self, segment: u32) -> u32 {
        self.links[segment as usize].previous
    }

    /// The sequence number of the segment opened last.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// For `validate`: the free segments.
    pub(crate) fn free(&self) -> impl Iterator<Item = u32> {
        self.from(self.free)
    }

    /// For `validate`: the withdrawn segments.
    pub(crate) fn withdrawn(&self) -> impl Iterator<Item = u32> {
        self.from(self.withdrawn)
    }

    fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        let next = |&segment: &u32| Some(self.next(segment)).filter(|&next| next != NONE);
        std::iter::successors(Some(first).filter(|&first| first != NONE), next)
    }

    fn link_after(&mut self, class: usize, previous: u32, segment: u32) {
        let (first, last) = &mut self.ends[class];
        let next = if previous == NONE { *first } else { self.links[previous as usize].next };
        self.links[segment as usize] = Link { previous, next };
        match previous {
            NONE => *first = segment,
            _ => self.links[previous as usize].next = segment,
        }
        match next {
            NONE => *last = segment,
            _ => self.links[next as usize].previous = segment,
        }
    }

    fn unlink(&mut self, class: usize, segment: u32) {
        let Link { previous, next } = self.links[segment as usize];
        let (first, last) = &mut self.ends[class];
        match previous {
            NONE => *first = next,
            _ => self.links[previous as usize].next = next,
        }
        match next {
            NONE => *last = previous,
            _ => self.links[next as usize].previous = previous,
        }
        self.links[segment as usize] = ALONE;
    }
}

#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) mapping: Mapping,
    pub(crate) segment_bytes: usize,
    /// Shared with the learner.
    table: Arc<[Segment]>,
    /// By class, the segment open for new items.
    open: [AtomicU32; CLASSES],
    chains: Mutex<Chains>,
    /// Items of segments up to this place in the order of writing are flushed
    /// ([`Segments::flush`]).
    flushed: AtomicU64,
    free_count: AtomicU32,
    withdrawn_count: AtomicU32,
    pub(crate) index_count: AtomicU32,
}

/// Bytes for each segment outside of it.
pub(crate) const BYTES_BESIDE: usize = size_of::<Segment>() + size_of::<Link>();

impl Segments {
    pub(crate) fn new(mapping: Mapping, segment_bytes: usize, count: u32) -> Segments {
        let chains = Chains {
            // The first are used first, so unneeded memory is never touched.
            links: (1..=count)
                .map(|next| Link { previous: NONE, next: if next == count { NONE } else { next } })
                .collect(),
            ends: [(NONE, NONE); CLASSES],
            free: 0,
            withdrawn: NONE,
            sequence: 0,
        };
        Segments {
            mapping,
            segment_bytes,
            table: (0..count).map(|_| Segment::default()).collect(),
            open: std::array::from_fn(|_| AtomicU32::new(NONE)),
            chains: Mutex::new(chains),
            flushed: AtomicU64::new(0),
            free_count: AtomicU32::new(count),
            withdrawn_count: AtomicU32::new(0),
            index_count: AtomicU32::new(0),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.table.len() as u32
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free_count.load(Relaxed)
    }

    pub(crate) fn withdrawn_count(&self) -> u32 {
        self.withdrawn_count.load(Relaxed)
    }

    pub(crate) fn table(&self) -> Arc<[Segment]> {
        Arc::clone(&self.table)
    }

    #[inline(always)]
    pub(crate) fn get(&self, segment: u32) -> &Segment {
        &self.table[segment as usize]
    }

    /// The segment of a place in the mapping.
    #[inline(always)]
    pub(crate) fn of(&self, location: u64) -> u32 {
        (location >> self.segment_bytes.trailing_zeros()) as u32
    }

    /// Where a segment begins.
    pub(crate) fn start(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment_bytes as u64
    }

    pub(crate) fn chains(&self) -> crate::sync::MutexGuard<'_, Chains> {
        self.chains.lock()
    }

    /// Takes a free segment for the caller.
    pub(crate) fn take(&self) -> Option<u32> {
        // So no thread waits for the lock if there is none.
        if self.free_count() == 0 {
            return None;
        }
        let mut chains = self.chains.lock();
        let segment = chains.free;
        if segment == NONE {
            return None;
        }
        chains.free = chains.links[segment as usize].next;
        chains.links[segment as usize] = ALONE;
        self.free_count.fetch_sub(1, Relaxed);
        self.get(segment).set(Phase::Taken, 0, 0);
        Some(segment)
    }

    /// Takes the last segment, which was never used.
    pub(crate) fn take_last(&self) -> Option<u32> {
        let mut chains = self.chains.lock();
        let last = self.count() - 1;
        chains.links[last as usize - 1].next = NONE;
        self.free_count.fetch_sub(1, Relaxed);
        self.get(last).set(Phase::Taken, 0, 0);
        Some(last)
    }

    /// Pages that the index may have: at most half of the segments not withdrawn.
    fn pages_max(&self) -> u32 {
        (self.count() - self.withdrawn_count()) / 2
    }

    /// Whether the index may have another page.
    pub(crate) fn may_have_page(&self) -> bool {
        self.index_count.load(Relaxed) < self.pages_max()
    }

    /// Counts a page of the index, if it may have one more. [`become_page`](Segments::become_page)
    /// or [`count_no_page`](Segments::count_no_page) must follow.
    pub(crate) fn count_page(&self) -> bool {
        let more = |pages| (pages < self.pages_max()).then_some(pages + 1);
        self.index_count.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub(crate) fn count_no_page(&self) {
        self.index_count.fetch_sub(1, Relaxed);
    }

    /// Zeroes a segment that the caller has taken, which takes as long as writing its memory.
    pub(crate) fn clear(&self, segment: u32) {
        debug_assert_eq!(self.get(segment).state().phase(), Phase::Taken);
        // SAFETY: the caller alone owns a taken segment, and the index does not refer to this one
        // yet.
        unsafe {
            let start = self.mapping.at(self.start(segment) as usize);
            std::ptr::write_bytes(start, 0, self.segment_bytes);
        }
    }

    /// Makes a cleared segment a page of the index, for ever.
    pub(crate) fn become_page(&self, segment: u32) {
        self.get(segment).set(Phase::Index, 0, self.segment_bytes);
    }

    /// Frees a segment that no thread can read.
    pub(crate) fn free(&self, segment: u32) {
        let freed = self.get(segment);
        debug_assert_eq!(freed.live_items.load(Relaxed), 0, "items of a free segment");
        freed.generation.fetch_add(1, Relaxed);
        let mut chains = self.chains.lock();
        freed.set(Phase::Free, 0, 0);
        chains.links[segment as usize].next = chains.free;
        chains.free = segment;
        self.free_count.fetch_add(1, Relaxed);
    }

    /// Whether one more segment may be withdrawn: half stay, and the index has at most half of these.
    pub(crate) fn may_withdraw(&self) -> bool {
        let left = self.count() - self.withdrawn_count() - 1;
        left >= self.count().div_ceil(2).max(SEGMENTS_MIN).max(2 * self.index_count.load(Relaxed))
    }

    /// Withdraws a segment that the caller has taken.
    pub(crate) fn withdraw(&self, segment: u32) {
        debug_assert_eq!(self.get(segment).state().phase(), Phase::Taken);
        // SAFETY: it was free, so no thread reads it before it is opened and written.
        unsafe { self.mapping.release(self.start(segment) as usize, self.segment_bytes) };
        let mut chains = self.chains.lock();
        chains.links[segment as usize].next = chains.withdrawn;
        chains.withdrawn = segment;
        self.withdrawn_count.fetch_add(1, Relaxed);
    }

    /// Frees a withdrawn segment. False: none is withdrawn.
    pub(crate) fn give_back(&self) -> bool {
        let mut chains = self.chains.lock();
        let segment = chains.withdrawn;
        if segment == NONE {
            return false;
        }
        chains.withdrawn = chains.links[segment as usize].next;
        chains.links[segment as usize] = ALONE;
        self.withdrawn_count.fetch_sub(1, Relaxed);
        drop(chains);
        self.mapping.reclaim(self.start(segment) as usize, self.segment_bytes);
        self.free(segment);
        true
    }

    /// The segment open for a class.
    pub(crate) fn open(&self, class: usize) -> u32 {
        self.open[class].load(Acquire)
    }

    /// Opens a segment that the caller has taken, in place of one that takes no more items.
    pub(crate) fn reopen(&self, class: usize, before: u32, segment: u32, now_ms: u64) {
        let mut chains = self.chains.lock();
        if self.open[class].load(Relaxed) != before {
            // Another thread was faster.
            drop(chains);
            return self.free(segment);
        }
        if before != NONE {
            self.get(before).seal();
        }
        chains.sequence += 1;
        self.get(segment).begin(Phase::Open, class, now_ms, chains.sequence);
        let last = chains.ends[class].1;
        chains.link_after(class, last, segment);
        self.open[class].store(segment, Release);
    }

    /// Closes a segment of a chain, if it is open: it takes no more items.
    pub(crate) fn close(&self, class: usize, segment: u32) {
        let _chains = self.chains.lock();
        if self.open[class].load(Relaxed) == segment {
            self.open[class].store(NONE, Relaxed);
        }
        self.get(segment).seal();
    }

    /// Flushes all items written so far: closes all open segments, so that later items have a later
    /// place in the order of writing.
    pub(crate) fn flush(&self) {
        let chains = self.chains.lock();
        for open in &self.open {
            let segment = open.swap(NONE, Relaxed);
            if segment != NONE {
                self.get(segment).seal();
            }
        }
        // Under the lock of the chains, which assigns sequence numbers.
        self.flushed.store(chains.sequence, Relaxed);
    }

    /// Whether the items of a segment were flushed. The segment is named, or its stripe locked, or
    /// the evictor has it, so it is not reused meanwhile.
    #[inline]
    pub(crate) fn is_flushed(&self, segment: u32) -> bool {
        let flushed = self.flushed.load(Relaxed);
        // Most stores were never flushed, and read no line of the segment for this.
        flushed > 0 && self.get(segment).sequence.load(Relaxed) <= flushed
    }

    /// Takes a quiet segment out of its chain.
    pub(crate) fn detach(&self, chains: &mut Chains, segment: u32) {
        let state = self.get(segment).state();
        debug_assert!(state.is_quiet());
        chains.unlink(state.class(), segment);
        self.get(segment).set(Phase::Taken, state.class(), state.filled());
    }

    /// Turns a taken segment into one for the evictor to fill.
    pub(crate) fn begin_merged(&self, segment: u32, class: usize, now_ms: u64, run: &[u32]) {
        let sequence = |segment: u32| self.get(segment).sequence.load(Relaxed);
        // Items written after a flush must not be merged with flushed ones.
        let from = run.iter().find(|&&segment| !self.is_flushed(segment)).unwrap_or(&run[0]);
        let sequence = sequence(*from);
        self.get(segment).begin(Phase::Taken, class, now_ms, sequence);
    }

    /// Puts a segment that the evictor has filled into its chain, behind `previous`.
    pub(crate) fn attach(&self, segment: u32, class: usize, filled: usize, previous: u32) {
        let mut chains = self.chains.lock();
        self.get(segment).set(Phase::Sealed, class, filled);
        chains.link_after(class, previous, segment);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A flushed segment is dropped as a whole unless a writer still works on it, so such a run is
    /// rare.
    #[test]
    fn what_is_merged_across_a_flush_is_not_flushed() {
        let segments = Segments::new(Mapping::new(8 * 64).unwrap(), 64, 8);
        let open = |before: u32| {
            let segment = segments.take().unwrap();
            segments.reopen(0, before, segment, 0);
            segment
        };
        let before = open(NONE);
        assert!(!segments.is_flushed(before));
        segments.flush();
        assert_eq!(segments.open(0), NONE);
        let after = open(NONE);
        assert!(segments.is_flushed(before) && !segments.is_flushed(after));
        for (run, is_flushed) in
            [(&[before, after][..], false), (&[after], false), (&[before], true)]
        {
            let merged = segments.take().unwrap();
            segments.begin_merged(merged, 0, 0, run);
            assert_eq!(segments.is_flushed(merged), is_flushed, "{run:?}");
        }
    }
}
