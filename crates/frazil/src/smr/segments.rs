//! Segments: groups of up to 16 slots that move between threads as one.
//!
//! A slot that is resident lies in exactly one segment of a queue; one that waits to be
//! reclaimed, or is free, in one segment of a stack. A segment is one cache line where
//! the cache is large (16 words of 4 bytes), so a whole batch of entries costs another
//! core one line. Small caches use shorter segments, because what a thread owns
//! is hidden from the others.
//!
//! A word holds a slot or 0. The thread that exchanges a word from a slot to 0 has *taken* the
//! slot: the evictor that consumes the segment, or a removal that knows the slot's position. Only
//! the taker may retire it.
//!
//! A segment's number is the position of its first word. Segment 0 does not exist.
//!
//! A removal may look at a position that the slot has left meanwhile, and segments are
//! used again: the slot may have come back to that very word in another role. So a word tells the
//! role: a slot in a stack is stored with [`IDLE`], one in the second of a policy's queues with
//! [`SECOND`].

use crate::chunks::Chunks;
use crate::smr::stripe::Traffic;
use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::{OwnLine, ZeroDefault};

/// The most words that a segment has.
pub(crate) const LINE: usize = 16;

/// The mark of a slot that is vacant or retired.
pub(crate) const IDLE: u32 = 1 << 31;

/// The mark of a slot in the second queue.
pub(crate) const SECOND: u32 = 1 << 30;

/// The bits of a word that number the slot.
pub(crate) const SLOT: u32 = SECOND - 1;

/// Shared data of each segment beside its words.
#[derive(Debug, Default)]
struct Tail {
    /// The segment below in a stack, or 0.
    next: AtomicU32,
    /// When the slots in it were all known to be unlinked; see `reclaim.rs`.
    stamp: AtomicU64,
}

// SAFETY: atomics whose defaults are zero.
unsafe impl ZeroDefault for Tail {}

/// All segments of a cache, and those that hold nothing.
#[derive(Debug)]
pub(crate) struct Segments {
    /// By position: chunks begin cache lines, and hold whole ones.
    words: Chunks<AtomicU32>,
    /// By position, over the length.
    tails: Chunks<Tail>,
    /// Words in a segment, a power of two.
    length: u32,
    /// Number of them that a thread keeps. Fewer than all if the capacity is small compared with
    /// the cache's planned size.
    step: AtomicU32,
    /// The first that was never handed out.
    fresh: OwnLine<AtomicU32>,
    /// The most segments. Follows the slots, and never falls.
    count: AtomicU32,
    empty: SegmentStack,
}

impl Segments {
    /// `count` segments of `length` words, a power of two up to 16.
    pub(crate) fn new(count: usize, length: usize) -> Self {
        debug_assert!(length.is_power_of_two() && length <= LINE);
        Segments {
            words: Chunks::default(),
            tails: Chunks::default(),
            count: AtomicU32::new(count as u32),
            length: length as u32,
            step: AtomicU32::new(length as u32),
            fresh: OwnLine(AtomicU32::new(length as u32)),
            empty: SegmentStack::default(),
        }
    }

    /// Words in a segment.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// How many slots a thread keeps to itself at an end of a queue, at most.
    #[inline]
    pub(crate) fn step(&self) -> u32 {
        self.step.load(Relaxed)
    }

    pub(crate) fn set_step(&self, step: u32) {
        debug_assert!((1..=self.length).contains(&step));
        self.step.store(step, Relaxed);
    }

    /// The most segments.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// Permits `count` segments, unless more are permitted already.
    pub(crate) fn allow(&self, count: u32) {
        self.count.fetch_max(count, Relaxed);
    }

    /// The place of a word among all of them.
    #[inline]
    pub(crate) fn position(&self, segment: u32, index: u32) -> u32 {
        segment + index
    }

    /// The word at a position that [`Segments::position`] has given.
    #[inline]
    pub(crate) fn word(&self, position: u32) -> &AtomicU32 {
        // SAFETY: positions come from `position` with a segment of ours, or are 0, and `take` has
        // laid out what those lead to before it gave the first segment to anyone.
        unsafe { &*self.words.address(position) }
    }

    /// The words of a segment: one address for all of them.
    #[inline]
    fn line(&self, segment: u32) -> &[AtomicU32] {
        // SAFETY: as in `word`. A chunk holds whole segments: those of both have a power of two of
        // words, begin at multiples of their lengths, and no segment begins below its own length.
        unsafe { std::slice::from_raw_parts(self.words.address(segment), self.length as usize) }
    }

    /// When the slots of a segment were stamped as unlinked.
    #[inline]
    pub(crate) fn stamp(&self, segment: u32) -> &AtomicU64 {
        &self.tail(segment).stamp
    }

    #[inline]
    fn tail(&self, segment: u32) -> &Tail {
        // SAFETY: segments come from `take`, which has laid out their tails before.
        unsafe { &*self.tails.address(segment >> self.length.trailing_zeros()) }
    }

    /// An empty segment, or `None` where all are in use.
    #[inline]
    pub(crate) fn take(&self, traffic: &mut Traffic) -> Option<u32> {
        if let Some(segment) = self.empty.pop(self, traffic) {
            return Some(segment);
        }
        // Never counts past the end, which an addition could pass by one a thread.
        let mut fresh = self.fresh.0.load(Relaxed);
        while fresh <= self.count() * self.length {
            match self.fresh.0.compare_exchange(fresh, fresh + self.length, Relaxed, Relaxed) {
                Ok(_) => {
                    traffic.writes += 1;
                    self.lay_out(fresh);
                    return Some(fresh);
                }
                Err(now) => fresh = now,
            }
            traffic.retries += 1;
        }
        self.empty.pop(self, traffic)
    }

    /// For models, which do not know who makes a chunk.
    #[cfg(all(test, loom))]
    pub(crate) fn laid_out(self) -> Self {
        (0..=self.count()).for_each(|segment| self.lay_out(segment * self.length));
        self
    }

    fn lay_out(&self, segment: u32) {
        self.words.ensure(segment);
        self.tails.ensure(segment >> self.length.trailing_zeros());
    }

    /// The segments that were ever handed out.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> + use<> {
        (self.length..self.fresh.0.load(Acquire)).step_by(self.length as usize)
    }

    /// Empty segments in no thread's hands.
    pub(crate) fn empty(&self) -> &SegmentStack {
        &self.empty
    }

    /// Frees a segment whose words are all 0.
    #[inline]
    pub(crate) fn give(&self, segment: u32, traffic: &mut Traffic) {
        self.empty.push(self, segment, traffic);
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.heap_bytes() + self.tails.heap_bytes()
    }
}

/// A stack of segments (Treiber's), threaded through the segments themselves.
///
/// The head carries a version beside the segment, raised by every change: a pop that
/// slept while its segment left and came back fails. 32 bits of version.
#[derive(Debug, Default)]
pub(crate) struct SegmentStack {
    head: OwnLine<AtomicU64>,
}

impl SegmentStack {
    /// Puts a segment on top.
    #[inline]
    pub(crate) fn push(&self, segments: &Segments, segment: u32, traffic: &mut Traffic) {
        let mut head = self.head.0.load(Relaxed);
        loop {
            segments.tail(segment).next.store(head as u32, Relaxed);
            // Release: the words and `next`; partner: the Acquire of pop and take_all.
            match self.head.0.compare_exchange(head, raised(head, segment), Release, Relaxed) {
                Ok(_) => {
                    traffic.writes += 1;
                    return;
                }
                Err(now) => head = now,
            }
            traffic.retries += 1;
        }
    }

    /// Takes the top segment.
    #[inline]
    pub(crate) fn pop(&self, segments: &Segments, traffic: &mut Traffic) -> Option<u32> {
        let mut head = self.head.0.load(Acquire);
        loop {
            let top = head as u32;
            if top == 0 {
                return None;
            }
            // May be stale where another thread has popped it; then the version differs.
            let next = segments.tail(top).next.load(Relaxed);
            match self.head.0.compare_exchange(head, raised(head, next), AcqRel, Acquire) {
                Ok(_) => {
                    traffic.writes += 1;
                    return Some(top);
                }
                Err(now) => head = now,
            }
            traffic.retries += 1;
        }
    }

    /// Takes all segments as a chain; 0 if there are none.
    #[inline]
    pub(crate) fn take_all(&self, traffic: &mut Traffic) -> u32 {
        let mut head = self.head.0.load(Acquire);
        while head as u32 != 0 {
            match self.head.0.compare_exchange(head, raised(head, 0), AcqRel, Acquire) {
                Ok(_) => {
                    traffic.writes += 1;
                    return head as u32;
                }
                Err(now) => head = now,
            }
            traffic.retries += 1;
        }
        0
    }

    /// Its segments, at most the existing ones. No other thread may use them.
    pub(crate) fn segments<'s>(&self, segments: &'s Segments) -> impl Iterator<Item = u32> + 's {
        let mut segment = self.head.0.load(Acquire) as u32;
        let next = move || {
            let this = segment;
            segment = if this == 0 { 0 } else { segments.next(this) };
            (this != 0).then_some(this)
        };
        std::iter::from_fn(next).take(segments.count() as usize + 1)
    }
}

impl Segments {
    /// The slots in a segment, queued or idle, just now, each with the number of its word.
    #[inline]
    pub(crate) fn slots(&self, segment: u32) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(self.line(segment)).filter_map(|(at, word)| {
            let slot = word.load(Relaxed) & SLOT;
            (slot != 0).then_some((at, slot))
        })
    }

    /// A bit for each word that holds a slot, just now.
    #[inline]
    pub(crate) fn occupied(&self, segment: u32) -> u32 {
        // From the last on, so that each is shifted by one.
        self.line(segment)
            .iter()
            .rev()
            .fold(0, |occupied, word| occupied << 1 | u32::from(word.load(Relaxed) & SLOT != 0))
    }

    /// Takes the words of a segment that the caller owns.
    pub(crate) fn drain(&self, segment: u32, words: &mut Vec<u32>) {
        for word in self.line(segment) {
            let taken = word.load(Relaxed);
            word.store(0, Relaxed);
            words.extend((taken != 0).then_some(taken));
        }
    }

    /// Puts words into an empty segment that the caller owns: no more than fit.
    pub(crate) fn fill(&self, segment: u32, words: impl Iterator<Item = u32>) {
        for (word, filled) in self.line(segment).iter().zip(words) {
            word.store(filled, Relaxed);
        }
    }

    /// The segment below one of a chain that [`SegmentStack::take_all`] gave, or 0.
    #[inline]
    pub(crate) fn next(&self, segment: u32) -> u32 {
        self.tail(segment).next.load(Relaxed)
    }
}

/// Segments in a thread's hands that hold nothing: as many as one operation can need.
///
/// An operation stocks them before it begins. It may then leave a segment of either queue, one of
/// retired and one of vacant slots partly filled, and no later step can fail for lack of a segment:
/// it has emptied every further segment that it fills.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    segments: [u32; SPARES_MAX],
    count: u32,
}

/// The most that one operation needs.
const SPARES: u32 = 4;
/// The number kept: enough to reuse segments within the thread, without a locked instruction for
/// each.
const SPARES_MAX: usize = 12;

impl Spares {
    /// Fills up. False if there are no segments left.
    #[inline(always)]
    pub(crate) fn stock(&mut self, segments: &Segments, traffic: &mut Traffic) -> bool {
        if self.count >= SPARES {
            return true;
        }
        self.stock_up(segments, traffic)
    }

    /// The same, and one more that only some operations need.
    #[inline]
    pub(crate) fn stock_more(&mut self, segments: &Segments, traffic: &mut Traffic) -> bool {
        self.count > SPARES || self.stock_to(SPARES + 1, segments, traffic)
    }

    #[cold]
    fn stock_up(&mut self, segments: &Segments, traffic: &mut Traffic) -> bool {
        self.stock_to(SPARES, segments, traffic)
    }

    fn stock_to(&mut self, count: u32, segments: &Segments, traffic: &mut Traffic) -> bool {
        while self.count < count {
            match segments.take(traffic) {
                Some(segment) => self.segments[self.count as usize] = segment,
                None => return false,
            }
            self.count += 1;
        }
        true
    }

    /// One of them.
    #[inline(always)]
    pub(crate) fn draw(&mut self) -> u32 {
        debug_assert!(self.count > 0, "more segments in use than an operation can need");
        self.count -= 1;
        self.segments[self.count as usize]
    }

    /// Takes a segment whose words are all 0.
    #[inline(always)]
    pub(crate) fn give(&mut self, segments: &Segments, segment: u32, traffic: &mut Traffic) {
        if self.count < SPARES_MAX as u32 {
            self.segments[self.count as usize] = segment;
            self.count += 1;
        } else {
            segments.give(segment, traffic);
        }
    }

    /// The segments in hand.
    pub(crate) fn held(&self) -> &[u32] {
        &self.segments[..self.count as usize]
    }

    /// Gives all of them back.
    pub(crate) fn flush(&mut self, segments: &Segments, traffic: &mut Traffic) {
        while self.count > 0 {
            let segment = self.draw();
            segments.give(segment, traffic);
        }
    }
}

#[inline]
fn raised(head: u64, segment: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(segment)
}
