//! When a slot may be used again.
//!
//! A slot that was unlinked from the index and taken out of its queue is *retired*. A
//! reader may still look at it: a `get`, which has named it in its hazard, or a pin,
//! which has noted the epoch it began in. Retired slots go through limbo in segments;
//! from time to time some thread takes all that is there, raises the epoch, runs the
//! heavy fence, and lets go every slot that no hazard names and no pin is old enough to
//! have seen. The rest goes back to limbo.
//!
//! ```text
//! fresh ─► vacant (in hand) ─► filled, published, queued ─► unlinked, taken ─► retired
//!            ▲                                                                   │
//!            └── free ◄── reclaimed: key and value dropped ◄── limbo, stamped ◄──┘
//! ```
//!
//! What waits is bounded: a cache has 1/32 more slots than entries and an eighth (from 128
//! to 1,024), so of a full one at most that many are in limbo; when a pin holds up more, newcomers are refused and
//! counted, rather than that memory grows or anyone waits. A `get` holds up one segment.

use crate::evict::segments::{IDLE, SegmentStack, Segments};
use crate::fence;
use crate::protect::COPIES;
use crate::stripe::{Buffers, Cursor, Stripes, Traffic};
use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use crate::sync::{CHECKED, OwnLine};

/// The most that one heavy fence is spread over: more gains nothing that can be measured.
const BATCH_MAX: u64 = 512;
const BATCH_MIN: u64 = if CHECKED { 2 } else { 16 };

/// The slots that hold nothing, and those that wait.
#[derive(Debug)]
pub(crate) struct Reclaim {
    free: SegmentStack,
    limbo: SegmentStack,
    /// Slots in limbo, without those in the stripes' hands.
    waiting: OwnLine<AtomicU64>,
    /// Raised by every reclamation; the stamp of what it found unlinked. From 1.
    epoch: OwnLine<AtomicU64>,
    /// The first slot never handed out.
    fresh: OwnLine<AtomicU32>,
    /// Writes of reclamations to lines that all threads write.
    shared_writes: OwnLine<AtomicU64>,
    last: u32,
    batch: u64,
}

impl Reclaim {
    /// For slots 1 ..= `last` of a cache of `entries`.
    pub(crate) fn new(last: u32, entries: u64) -> Self {
        Reclaim {
            free: SegmentStack::default(),
            limbo: SegmentStack::default(),
            waiting: OwnLine::default(),
            epoch: OwnLine(AtomicU64::new(1)),
            fresh: OwnLine(AtomicU32::new(1)),
            shared_writes: OwnLine::default(),
            last,
            batch: ((u64::from(last) - entries) / 3).min(entries / 16).clamp(BATCH_MIN, BATCH_MAX),
        }
    }

    /// The epoch, for a pin that begins.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: partner is the raise in `run`; who reads an epoch sees all that was
        // unlinked before it.
        self.epoch.0.load(Acquire)
    }

    /// How many slots there are.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u64 {
        u64::from(self.last)
    }

    /// Slots that wait in limbo.
    #[inline]
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.0.load(Relaxed)
    }

    /// What reclamations wrote to lines that every thread writes.
    pub(crate) fn shared_writes(&self) -> u64 {
        self.shared_writes.0.load(Relaxed)
    }

    /// Whether enough waits to be worth a fence.
    #[inline(always)]
    pub(crate) fn due(&self) -> bool {
        self.waiting() >= self.batch
    }

    /// A vacant slot, if one can be had without reclaiming. `prepare` is told of every
    /// slot that was never used.
    #[inline(always)]
    pub(crate) fn vacant(
        &self,
        segments: &Segments,
        buffers: &mut Buffers,
        prepare: impl Fn(u32),
    ) -> Option<u32> {
        loop {
            if buffers.vacant.segment == 0 {
                buffers.vacant = self.refill(segments, buffers, &prepare)?;
            }
            // Consumed from the top, so that a segment half filled is half consumed.
            if buffers.vacant.next > 0 {
                buffers.vacant.next -= 1;
                let at = segments.position(buffers.vacant.segment, buffers.vacant.next);
                let word = segments.word(at).load(Relaxed);
                segments.word(at).store(0, Relaxed);
                if word != 0 {
                    return Some(word & !IDLE);
                }
            } else {
                let empty = std::mem::take(&mut buffers.vacant).segment;
                buffers.spares.give(segments, empty, &mut buffers.traffic);
            }
        }
    }

    /// Takes back the slot that was vacant last, unused. The buffers are those it came
    /// from, and have been in hand since.
    #[inline]
    pub(crate) fn hand_back(&self, segments: &Segments, buffers: &mut Buffers, slot: u32) {
        let cursor = &mut buffers.vacant;
        debug_assert!(cursor.segment != 0 && cursor.next < segments.length());
        let word = segments.word(segments.position(cursor.segment, cursor.next));
        word.store(slot | IDLE, Relaxed);
        cursor.next += 1;
    }

    #[cold]
    fn refill(
        &self,
        segments: &Segments,
        buffers: &mut Buffers,
        prepare: impl Fn(u32),
    ) -> Option<Cursor> {
        if let Some(segment) = self.free.pop(segments, &mut buffers.traffic) {
            return Some(Cursor { segment, next: segments.length() });
        }
        let mut fresh = self.fresh.0.load(Relaxed);
        loop {
            let count = segments.length().min(self.last + 1 - fresh);
            if count == 0 {
                return None;
            }
            match self.fresh.0.compare_exchange(fresh, fresh + count, Relaxed, Relaxed) {
                Ok(_) => {
                    buffers.traffic.writes += 1;
                    let segment = buffers.spares.draw();
                    // The lowest on top, so that memory is used in order.
                    for index in 0..count {
                        let slot = fresh + count - 1 - index;
                        prepare(slot);
                        let word = segments.word(segments.position(segment, index));
                        word.store(slot | IDLE, Relaxed);
                    }
                    return Some(Cursor { segment, next: count });
                }
                Err(now) => fresh = now,
            }
        }
    }

    /// Retires a slot that the caller has unlinked, or found unlinked, and taken.
    #[inline(always)]
    pub(crate) fn retire(&self, segments: &Segments, buffers: &mut Buffers, slot: u32) {
        if buffers.retired.segment == 0 {
            buffers.retired = Cursor { segment: buffers.spares.draw(), next: 0 };
        }
        let cursor = &mut buffers.retired;
        let word = segments.word(segments.position(cursor.segment, cursor.next));
        word.store(slot | IDLE, Relaxed);
        cursor.next += 1;
        if cursor.next == segments.length() {
            self.flush_retired(segments, buffers);
        }
    }

    /// Sends what a stripe has retired to limbo.
    pub(crate) fn flush_retired(&self, segments: &Segments, buffers: &mut Buffers) {
        let Cursor { segment, next } = std::mem::take(&mut buffers.retired);
        if segment != 0 {
            segments.stamp(segment).store(0, Relaxed);
            buffers.flushed = true;
            // First, so that who takes them finds them counted.
            self.waiting.0.fetch_add(u64::from(next), Relaxed);
            buffers.traffic.writes += 1;
            self.limbo.push(segments, segment, &mut buffers.traffic);
        }
    }

    /// Sends the vacant slots that a stripe has in hand to all.
    pub(crate) fn flush_vacant(&self, segments: &Segments, buffers: &mut Buffers) {
        let Cursor { segment, next } = std::mem::take(&mut buffers.vacant);
        if segment != 0 && next > 0 {
            self.free.push(segments, segment, &mut buffers.traffic);
        } else if segment != 0 {
            buffers.spares.give(segments, segment, &mut buffers.traffic);
        }
    }

    /// Lets go what nobody can be reading. `vacate` drops key and value of a slot, if it
    /// has any; it runs the user's code, so the caller holds no lock. How many slots
    /// became free.
    ///
    /// One heavy fence and a pass over the stripes; what waits is bounded.
    pub(crate) fn run(&self, segments: &Segments, stripes: &Stripes, vacate: impl Fn(u32)) -> u64 {
        let mut traffic = Traffic::default();
        let next = self.limbo.take_all(&mut traffic);
        let mut chain = Chain { next, reclaim: self, segments };
        if next == 0 {
            return 0;
        }
        // Release: all that was unlinked before its segment came to limbo (Acquire in
        // `take_all`) is seen by pins that begin at a later epoch.
        let stamp = self.epoch.0.fetch_add(1, AcqRel);
        if !fence::heavy() {
            return 0;
        }
        // Acquire: partner is the Release with which a reader clears its hazard or pin;
        // what it read, it has read before the slot is written again.
        let oldest_pin = stripes
            .iter()
            .map(|stripe| stripe.reader.pinned.load(Acquire))
            .filter(|&epoch| epoch != 0)
            .min()
            .unwrap_or(u64::MAX);
        let hazards: Vec<u32> = stripes
            .iter()
            .flat_map(|stripe| [&stripe.reader.hazard, &stripe.reader.second])
            .map(|hazard| hazard.load(Acquire))
            .filter(|&slot| slot != 0)
            .collect();
        // The epoch, and this count itself.
        traffic.writes += 2;
        let mut freed = 0;
        while let Some(segment) = chain.pop() {
            // Whatever happens in a destructor, no slot is lost.
            let mut going = Going { reclaim: self, segments, segment, free: false };
            let stamped = segments.stamp(segment).load(Relaxed);
            let stamped = if stamped == 0 { stamp } else { stamped };
            segments.stamp(segment).store(stamped, Relaxed);
            // A hazard holds up its segment: simpler than to sort it, and as bounded.
            let named = |slot| hazards.contains(&slot);
            let held_up = !hazards.is_empty() && segments.slots(segment).any(named);
            if stamped < oldest_pin && !held_up {
                let mut count = 0;
                for slot in segments.slots(segment) {
                    vacate(slot);
                    count += 1;
                }
                self.waiting.0.fetch_sub(count, Relaxed);
                traffic.writes += 1;
                freed += count;
                going.free = true;
            }
            // Where it goes.
            traffic.writes += 1;
        }
        self.shared_writes.0.fetch_add(traffic.writes, Relaxed);
        freed
    }

    /// Ends an epoch for what was withdrawn from all at once, and says which.
    pub(crate) fn end_epoch(&self) -> u64 {
        // Release: the withdrawal is seen by pins that begin at a later epoch (Acquire in
        // `epoch`).
        self.epoch.0.fetch_add(1, AcqRel)
    }

    /// Whether nobody can be reading frozen copies that were withdrawn in an epoch, and behind
    /// it a heavy fence executed.
    pub(crate) fn is_past(&self, epoch: u64, stripes: &Stripes) -> bool {
        // Acquire: partner is the Release with which a reader clears its hazard or pin; what it
        // read, it has read before the copies are written again.
        stripes.iter().map(|stripe| &stripe.reader).all(|reader| {
            let pinned = reader.pinned.load(Acquire);
            (pinned == 0 || pinned > epoch) && reader.hazard.load(Acquire) != COPIES
        })
    }

    /// The slots that were ever handed out.
    pub(crate) fn used(&self) -> std::ops::Range<u32> {
        1..self.fresh.0.load(Acquire)
    }

    /// Where the slots are that are free, and those in limbo.
    pub(crate) fn stacks(&self) -> [&SegmentStack; 2] {
        [&self.free, &self.limbo]
    }
}

/// Segments taken out of limbo; what is not used goes back.
struct Chain<'r> {
    next: u32,
    reclaim: &'r Reclaim,
    segments: &'r Segments,
}

impl Chain<'_> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let segment = self.next;
        if segment == 0 {
            return None;
        }
        self.next = self.segments.next(segment);
        Some(segment)
    }
}

impl Drop for Chain<'_> {
    fn drop(&mut self) {
        while let Some(segment) = self.pop() {
            self.reclaim.limbo.push(self.segments, segment, &mut Traffic::default());
        }
    }
}

/// A segment on its way to where its slots belong.
struct Going<'r> {
    reclaim: &'r Reclaim,
    segments: &'r Segments,
    segment: u32,
    free: bool,
}

impl Drop for Going<'_> {
    #[inline]
    fn drop(&mut self) {
        let stack = if self.free { &self.reclaim.free } else { &self.reclaim.limbo };
        stack.push(self.segments, self.segment, &mut Traffic::default());
    }
}
