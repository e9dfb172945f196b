//! A queue of slots: a ring of segments, and each stripe's two ends of it.
//!
//! A thread fills a segment of its own and sends it to the ring when it is full. It takes a segment
//! from the ring and consumes it word by word. So both ends work in batches, and a run of entries
//! changes queues in one step. One thread alone sees exactly first in, first out: its front, the
//! ring, its back. With several threads, the entries in other threads' hands, two segments a
//! thread, may overtake an entry.
//!
//! A word leaves its segment by an exchange, so that an evictor and a removal never
//! both take a slot. See `segments.rs` for what a taken slot means.

use super::position::Position;
use crate::core::local::Buffers;
use crate::core::order::Headers;
use crate::core::order::ring::Ring;
use crate::core::slab::SlotRef;
use crate::smr::segments::{LINE, SECOND, SLOT, Segments};
use crate::smr::stripe::Cursor;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Which queue of a cache it is: where a stripe keeps its ends of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The first queue of a policy.
    First,
    /// The second.
    Second,
    /// The bottom queue.
    Bottom,
}

/// One of a policy's queues.
#[derive(Debug)]
pub(crate) struct Queue {
    ring: Ring,
    /// Which of a stripe's ends belong to it.
    end: End,
    /// The mark of its slots.
    mark: u32,
}

impl Queue {
    pub(crate) fn new(end: End) -> Self {
        let mark = if end == End::First { 0 } else { SECOND };
        Queue { ring: Ring::default(), end, mark }
    }

    /// Appends a slot that the caller owns.
    #[inline(always)]
    pub(crate) fn push(
        &self,
        segments: &Segments,
        buffers: &mut Buffers,
        SlotRef { slot, header }: SlotRef<'_>,
    ) {
        let back = &mut buffers.above.ends[self.end as usize].back;
        if back.segment == 0 {
            *back = Cursor { segment: buffers.spares.draw(), next: 0 };
        }
        let position = segments.position(back.segment, back.next);
        // Before the word, after which any thread may take the slot.
        Position::new(position, self.mark).note(header);
        // Release: partner is the exchange that takes the slot.
        segments.word(position).store(slot | self.mark, Release);
        back.next += 1;
        if back.next == segments.length() {
            let segment = std::mem::take(back).segment;
            self.publish(buffers, segment);
        }
    }

    /// Sends the newest segment to the ring, full or not.
    #[cold]
    pub(crate) fn publish_back(&self, buffers: &mut Buffers) {
        let segment = std::mem::take(&mut buffers.above.ends[self.end as usize].back).segment;
        if segment != 0 {
            self.publish(buffers, segment);
        }
    }

    /// Words of the newest segment that this stripe has filled.
    #[inline(always)]
    pub(crate) fn back_len(&self, buffers: &Buffers) -> u32 {
        buffers.above.ends[self.end as usize].back.next
    }

    /// Sends the newest segment to the ring if there is a step of entries in it.
    pub(crate) fn publish_step(&self, segments: &Segments, buffers: &mut Buffers) {
        if buffers.above.ends[self.end as usize].back.next >= segments.step() {
            self.publish_back(buffers);
        }
    }

    fn publish(&self, buffers: &mut Buffers, segment: u32) {
        self.ring.push(segment, &mut buffers.traffic);
    }

    /// Takes the oldest slot that this stripe can reach.
    #[inline(always)]
    pub(crate) fn pop(
        &self,
        segments: &Segments,
        buffers: &mut Buffers,
        headers: &impl Headers,
    ) -> Option<u32> {
        loop {
            let front = &mut buffers.above.ends[self.end as usize].front;
            while front.segment != 0 {
                if front.next == segments.length() {
                    let empty = std::mem::take(front).segment;
                    buffers.spares.give(segments, empty, &mut buffers.traffic);
                    break;
                }
                let word = segments.word(segments.position(front.segment, front.next));
                front.next += 1;
                if word.load(Relaxed) != 0 {
                    // Acquire: partner is the Release of `push`. 0 if a removal was first.
                    let slot = word.swap(0, AcqRel);
                    if slot != 0 {
                        return Some(slot & SLOT);
                    }
                }
            }
            if !self.advance(segments, buffers, headers) {
                return None;
            }
        }
    }

    /// Takes the next segment to consume. False if there is none.
    #[inline(never)]
    fn advance(&self, segments: &Segments, buffers: &mut Buffers, headers: &impl Headers) -> bool {
        let next = self.ring.pop(&mut buffers.traffic);
        let ends = &mut buffers.above.ends[self.end as usize];
        let segment = next.unwrap_or_else(|| std::mem::take(&mut ends.back).segment);
        if segment == 0 {
            return false;
        }
        ends.front = Cursor { segment, next: 0 };
        for (_, slot) in segments.slots(segment) {
            headers.prefetch(slot);
        }
        true
    }

    /// Whether this stripe can reach no slot.
    #[inline(always)]
    pub(crate) fn is_empty(&self, segments: &Segments, buffers: &mut Buffers) -> bool {
        let ends = &mut buffers.above.ends[self.end as usize];
        let queued = |at| segments.word(segments.position(ends.back.segment, at)).load(Relaxed);
        // The newest first: it is there unless it was just removed.
        let mut at = ends.back.next;
        while at > 0 {
            at -= 1;
            if queued(at) != 0 {
                return false;
            }
        }
        while ends.front.segment != 0 && ends.front.next < segments.length() {
            let at = segments.position(ends.front.segment, ends.front.next);
            if segments.word(at).load(Relaxed) != 0 {
                return false;
            }
            ends.front.next += 1;
        }
        self.ring.is_empty()
    }

    /// Moves a stripe's entries in hand to the ring, for others to take.
    pub(crate) fn flush(&self, buffers: &mut Buffers) {
        let ends = std::mem::take(&mut buffers.above.ends[self.end as usize]);
        for Cursor { segment, .. } in [ends.front, ends.back] {
            if segment != 0 {
                self.publish(buffers, segment);
            }
        }
    }

    /// Packs the queued slots into as few segments as possible, and keeps the order if no other
    /// thread is at work. `takes` gets every slot, and may keep it if the stripe has another spare
    /// segment; `queued` gets the others when they are queued again.
    pub(crate) fn compact(
        &self,
        segments: &Segments,
        buffers: &mut Buffers,
        headers: &impl Headers,
        mut takes: impl FnMut(&mut Buffers, u32) -> bool,
        queued: impl Fn(SlotRef<'_>),
    ) {
        self.flush(buffers);
        // Once through the slots queued now, however many others add meanwhile.
        for _ in 0..self.ring.len() {
            let Some(segment) = self.ring.pop(&mut buffers.traffic) else { break };
            let slots: [u32; LINE] = std::array::from_fn(|index| match index as u32 {
                index if index < segments.length() => {
                    segments.word(segments.position(segment, index)).swap(0, AcqRel)
                }
                _ => 0,
            });
            // Before its slots go elsewhere, because they may need a segment to go to.
            buffers.spares.give(segments, segment, &mut buffers.traffic);
            for slot in slots.into_iter().map(|word| word & SLOT).filter(|&slot| slot != 0) {
                if !takes(buffers, slot) {
                    let slot = headers.slot_ref(slot);
                    self.push(segments, buffers, slot);
                    queued(slot);
                }
            }
        }
    }

    /// Which of a stripe's ends are of this queue.
    pub(crate) fn end(&self) -> usize {
        self.end as usize
    }

    /// The mark of its slots.
    pub(crate) fn mark(&self) -> u32 {
        self.mark
    }

    /// The ring between the stripes' ends.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.ring.heap_bytes()
    }
}
