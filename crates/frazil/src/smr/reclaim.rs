//! Reclamation: when a slot may be used again.
//!
//! A slot that was unlinked from the index and taken out of its queue is *retired*. A reader that
//! has named it, a `get` or a pin, may still read it. Retired slots go through limbo in segments.
//! From time to time a thread takes all of limbo, raises the epoch, and frees every slot that no
//! reader names and that all awake threads have [passed](crate::smr::progress). The rest goes back
//! to limbo. If too much waits for threads that pass nothing, a heavy fence replaces their passing.
//!
//! ```text
//! fresh ─► vacant (in hand) ─► filled, published, queued ─► unlinked, taken ─► retired
//!            ▲                                                                   │
//!            └── free ◄── reclaimed: key and value dropped ◄── limbo ◄───────────┘
//! ```
//!
//! Waiting slots are bounded by number and, in caches with weights, by weight. A thread keeps at
//! most a segment and a 1,024th of the capacity to itself. A thread goes through limbo as soon as a
//! few slots or a small share of the capacity have come to it; for a batch or a large share it
//! executes the heavy fence. A slot that a reader names waits for that reader. The next attempt
//! comes when half as much as was held up has been added, or sooner if more weight could wait than
//! readers may hold up.

mod at_once;

use crate::ensure::Ensure;
use crate::smr::fence;
use crate::smr::fork;
use crate::smr::named::{Named, outlook, readers_of};
use crate::smr::segments::{IDLE, SegmentStack, Segments};
use crate::smr::stripe::{Buffers, Cursor, Reader, Stripes, Traffic};
use crate::sync::atomic::{
    self, AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};
use crate::sync::{CHECKED, OwnLine};

/// The most that one heavy fence is spread over: more gains nothing that can be measured.
const BATCH_MAX: u64 = 512;
const BATCH_MIN: u64 = if CHECKED { 2 } else { 64 };
/// A batch is such a share of the entries.
const BATCH_SHARE: u64 = if CHECKED { 16 } else { 8 };
/// Slots for which limbo is searched without that fence: few, but more if many stripes must be
/// read,
const ROUND_MIN: u64 = 64;
/// and at most this share of a batch: the latest slots can be freed only in the next round, so if a
/// round were a batch, each would need the fence.
const ROUNDS_PER_BATCH: u64 = if CHECKED { 1 } else { 4 };
const ROUND_PER_STRIPE: u64 = 8;
/// Nor for fewer slots than this share of the names to read, 20 ns each.
const NAMES_PER_SLOT: u64 = 4;
/// The share of a heavy fence's weight for which limbo is searched.
const ROUND_SHARE: u64 = 4;
/// Free slots are packed when one in so many of all segments has come there partly filled.
const FRAGMENTS_SHARE: u32 = 8;
/// Slots that become free while a thread must do nothing to be taken for idle, at least.
const TURNOVER_MIN: u64 = 1024;
/// The weight that may wait in limbo, one in so many of the capacity: if entries are many or heavy,
/// and if not. A thread may be suspended with all of it in hand while the next share comes; but a
/// fence for a few light entries is expensive.
const LIMBO_SHARE: u64 = 64;
const LIMBO_SHARE_OF_FEW: u64 = 16;
const MANY: u64 = 1024;
const HEAVY: u64 = 4096;
/// The same in the hands of one thread.
const HAND_SHARE: u64 = 1024;
/// The same share that readers may hold up before new entries are refused.
const CROWD_SHARE: u64 = 4;

/// The slots that hold nothing, and those that wait.
#[derive(Debug)]
pub(crate) struct Reclaim {
    free: SegmentStack,
    limbo: SegmentStack,
    /// Slots in limbo, without those in the hands of stripes.
    waiting: OwnLine<Waiting>,
    /// Raised by every reclamation; the stamp of the slots that it found unlinked. From 1.
    epoch: OwnLine<AtomicU64>,
    /// Segments that came to `free` with less than all words filled, since those there were packed.
    fragments: AtomicU32,
    /// Whether queues contain slots to retire.
    left_dead: AtomicBool,
    /// The first slot never handed out.
    fresh: OwnLine<AtomicU32>,
    batch: u64,
    /// The weight that may wait in limbo and in a thread's hands; `u64::MAX` without weights.
    weight_in_limbo: AtomicU64,
    weight_in_hand: AtomicU64,
    /// The weight that readers may hold up before new entries are refused.
    weight_held_up: AtomicU64,
    entries: u64,
    /// The slots that readers held up at the last search of limbo.
    held_up: Crowd,
    /// The state at the last search that freed nothing: a hash, [`outlook`].
    vain: AtomicU64,
    /// Slots that have become free since the stripes of idle threads were emptied, and how many
    /// are to before they are again.
    freed: AtomicU64,
    turnover: u64,
    /// The forks of the process that this cache has followed.
    forks: AtomicU64,
    /// Whether retired slots are free at once.
    frees_at_once: bool,
}

/// The weight that readers hold up. Read with each insertion of weighed entries, and rarely
/// written.
#[derive(Debug, Default)]
struct Crowd {
    slots: AtomicU64,
    /// Whether that is so much that nothing more may be removed.
    full: AtomicBool,
}

/// Where slots come from that were never used.
pub(crate) trait Supply {
    /// The number of slots before the table must grow, and the maximum.
    fn limits(&self) -> (u32, u32);

    /// Makes the header of a slot that was never used.
    fn prepare(&self, slot: u32);
}

/// The content of the slots.
pub(crate) trait Contents {
    /// Whether there is anything to weigh or to drop.
    fn has_any(&self) -> bool;

    /// The weight of a slot, 0 if it is vacant.
    fn retired_weight(&self, slot: u32) -> u64;

    /// Drops key and value, if it has any, of a retired slot that no thread can reach.
    fn vacate(&self, slot: u32);
}

/// The waiting slots, and the number that pays for a fence.
#[derive(Debug, Default)]
struct Waiting {
    slots: AtomicU64,
    weight: AtomicU64,
    slots_due: AtomicU64,
    weight_due: AtomicU64,
    /// The same for a heavy fence.
    slots_overdue: AtomicU64,
    weight_overdue: AtomicU64,
    /// How many names were read for the last reclamation.
    names: AtomicU64,
    /// Number of times that readers have reported a release.
    released: AtomicU64,
    /// Writes of reclamations to lines that all threads write.
    shared_writes: AtomicU64,
}

impl Reclaim {
    /// For a cache of so many `entries`, and this capacity if they have weights.
    pub(crate) fn new(entries: u64, capacity: Option<u64>) -> Self {
        let batch = (entries / BATCH_SHARE).clamp(BATCH_MIN, BATCH_MAX);
        let waiting = Waiting {
            slots_due: AtomicU64::new(ROUND_MIN.min(batch / ROUNDS_PER_BATCH)),
            weight_due: AtomicU64::new(u64::MAX),
            slots_overdue: AtomicU64::new(batch),
            weight_overdue: AtomicU64::new(u64::MAX),
            ..Waiting::default()
        };
        let reclaim = Reclaim {
            free: SegmentStack::default(),
            limbo: SegmentStack::default(),
            waiting: OwnLine(waiting),
            epoch: OwnLine(AtomicU64::new(1)),
            fragments: AtomicU32::new(0),
            left_dead: AtomicBool::new(false),
            fresh: OwnLine(AtomicU32::new(1)),
            batch,
            weight_in_limbo: AtomicU64::new(u64::MAX),
            weight_in_hand: AtomicU64::new(u64::MAX),
            weight_held_up: AtomicU64::new(u64::MAX),
            entries,
            held_up: Crowd::default(),
            vain: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            turnover: entries.max(TURNOVER_MIN),
            forks: AtomicU64::new(fork::count()),
            frees_at_once: false,
        };
        if let Some(capacity) = capacity {
            reclaim.set_capacity(capacity);
        }
        reclaim
    }

    /// Follows the capacity of a cache whose entries are weighed.
    pub(crate) fn set_capacity(&self, weight: u64) {
        if self.frees_at_once {
            return;
        }
        let heavy = self.entries >= MANY || weight / self.entries.max(1) >= HEAVY;
        let limbo = weight / if heavy { LIMBO_SHARE } else { LIMBO_SHARE_OF_FEW };
        self.weight_in_limbo.store(limbo, Relaxed);
        self.weight_in_hand.store(weight / HAND_SHARE, Relaxed);
        self.weight_held_up.store(weight / CROWD_SHARE, Relaxed);
        self.waiting.0.weight_due.store(limbo / ROUND_SHARE, Relaxed);
        self.waiting.0.weight_overdue.store(limbo, Relaxed);
        // The slots held up are judged anew.
        self.vain.store(0, Relaxed);
    }

    /// The epoch, for a pin that begins.
    #[inline(always)]
    pub(crate) fn epoch(&self) -> u64 {
        // Acquire: partner is the raise in `run`; who reads an epoch sees all that was
        // unlinked before it.
        self.epoch.0.load(Acquire)
    }

    /// How many slots were ever handed out: no more than that are resident.
    #[inline(always)]
    pub(crate) fn slots(&self) -> u64 {
        u64::from(self.fresh.0.load(Relaxed) - 1)
    }

    /// Treats slots up to `last` as handed out.
    #[cfg(test)]
    pub(crate) fn hand_out(self, last: u32) -> Self {
        self.fresh.0.store(last + 1, Relaxed);
        self
    }

    /// Slots that wait in limbo.
    #[inline]
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.0.slots.load(Relaxed)
    }

    /// Their total weight, if entries have weights.
    pub(crate) fn waiting_weight(&self) -> u64 {
        self.waiting.0.weight.load(Relaxed)
    }

    /// Writes of reclamations to lines that every thread writes.
    pub(crate) fn shared_writes(&self) -> u64 {
        self.waiting.0.shared_writes.load(Relaxed)
    }

    /// Whether more waits than readers held up at the last search of limbo, plus the free slots in
    /// their partly filled segment. For the thread that has just searched: whether another thread
    /// owns the rest.
    pub(crate) fn is_in_hand(&self, segments: &Segments) -> bool {
        self.waiting() > self.held_up.slots.load(Relaxed) + u64::from(segments.length())
    }

    /// Whether enough slots wait for a search.
    #[inline(always)]
    pub(crate) fn due(&self) -> bool {
        let Waiting { slots_due, weight_due, .. } = &self.waiting.0;
        self.waiting() >= slots_due.load(Relaxed)
            || self.waiting_weight() > weight_due.load(Relaxed)
    }

    /// Whether enough slots wait to pay for a heavy fence.
    fn overdue(&self) -> bool {
        let Waiting { slots_overdue, weight_overdue, .. } = &self.waiting.0;
        self.waiting() >= slots_overdue.load(Relaxed)
            || self.waiting_weight() > weight_overdue.load(Relaxed)
    }

    /// A vacant slot, if there is one without reclaiming; else one of the slots of `supply` that
    /// was never used.
    #[inline(always)]
    pub(crate) fn vacant<W>(
        &self,
        segments: &Segments,
        buffers: &mut Buffers<W>,
        supply: &impl Supply,
    ) -> Option<u32> {
        loop {
            if buffers.vacant.segment == 0 {
                buffers.vacant = self.refill(segments, buffers, supply)?;
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

    /// Returns the last vacant slot, unused. The buffers are those that it came from, and have been
    /// in hand since.
    #[inline]
    pub(crate) fn hand_back<W>(&self, segments: &Segments, buffers: &mut Buffers<W>, slot: u32) {
        let cursor = &mut buffers.vacant;
        debug_assert!(cursor.segment != 0 && cursor.next < segments.length());
        let word = segments.word(segments.position(cursor.segment, cursor.next));
        word.store(slot | IDLE, Relaxed);
        cursor.next += 1;
    }

    #[cold]
    fn refill<W>(
        &self,
        segments: &Segments,
        buffers: &mut Buffers<W>,
        supply: &impl Supply,
    ) -> Option<Cursor> {
        if let Some(segment) = self.free.pop(segments, &mut buffers.traffic) {
            return Some(Cursor { segment, next: segments.length() });
        }
        let (enough, last) = supply.limits();
        let mut fresh = self.fresh.0.load(Relaxed);
        loop {
            let count = segments.length().min((last + 1).saturating_sub(fresh));
            if count == 0 {
                return None;
            }
            // The thread that has them must ensure that there will be others.
            buffers.flushed |= fresh + count > enough;
            match self.fresh.0.compare_exchange(fresh, fresh + count, Relaxed, Relaxed) {
                Ok(_) => {
                    // Before any of them is filled. Partner: the fence of who asks which were used.
                    atomic::fence(SeqCst);
                    buffers.traffic.writes += 1;
                    let segment = buffers.spares.draw();
                    // The lowest on top, so that memory is used in order.
                    for index in 0..count {
                        let slot = fresh + count - 1 - index;
                        supply.prepare(slot);
                        let word = segments.word(segments.position(segment, index));
                        word.store(slot | IDLE, Relaxed);
                    }
                    return Some(Cursor { segment, next: count });
                }
                Err(now) => fresh = now,
            }
        }
    }

    /// Whether entries are weighed.
    #[inline(always)]
    pub(crate) fn weighs(&self) -> bool {
        self.weight_in_hand.load(Relaxed) != u64::MAX
    }

    /// Retires a slot that the caller has unlinked, or found unlinked, and taken; if entries have
    /// weights, the caller has added its weight to the retired weight.
    #[inline(always)]
    pub(crate) fn retire<W>(&self, segments: &Segments, buffers: &mut Buffers<W>, slot: u32) {
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

    /// Moves the slots that a stripe has retired to limbo.
    pub(crate) fn flush_retired<W>(&self, segments: &Segments, buffers: &mut Buffers<W>) {
        let Cursor { segment, next } = std::mem::take(&mut buffers.retired);
        let weight = std::mem::take(&mut buffers.retired_weight);
        if segment != 0 {
            if self.frees_at_once {
                return self.free_segment(segments, buffers, Cursor { segment, next });
            }
            segments.stamp(segment).store(0, Relaxed);
            buffers.flushed = true;
            // First, so that the thread that takes them finds them counted.
            self.waiting.0.slots.fetch_add(u64::from(next), Relaxed);
            if weight > 0 {
                self.waiting.0.weight.fetch_add(weight, Relaxed);
            }
            buffers.traffic.writes += 1;
            self.limbo.push(segments, segment, &mut buffers.traffic);
        }
    }

    /// Moves a stripe's retired slots to limbo if their weight is too large to keep, if entries
    /// have weights. At the end of an operation.
    #[inline(always)]
    pub(crate) fn settle<W>(&self, segments: &Segments, buffers: &mut Buffers<W>) {
        if buffers.retired_weight > self.weight_in_hand.load(Relaxed) {
            self.flush_retired(segments, buffers);
        }
    }

    /// Publishes the vacant slots that a stripe owns.
    pub(crate) fn flush_vacant<W>(&self, segments: &Segments, buffers: &mut Buffers<W>) {
        let Cursor { segment, next } = std::mem::take(&mut buffers.vacant);
        if segment != 0 && next > 0 {
            self.fragments.fetch_add(1, Relaxed);
            self.free.push(segments, segment, &mut buffers.traffic);
        } else if segment != 0 {
            buffers.spares.give(segments, segment, &mut buffers.traffic);
        }
    }

    /// Notes that a queue contains a slot to retire that no thread may reach.
    #[cold]
    pub(crate) fn note_left_dead(&self) {
        // Release: it was declared dead and queued before; partner is the Acquire of
        // `takes_left_dead`.
        self.left_dead.store(true, Release);
    }

    /// Whether any was left since this was asked last.
    pub(crate) fn takes_left_dead(&self) -> bool {
        self.left_dead.swap(false, Acquire)
    }

    /// Packs free slots into as few segments as possible, and frees the others, unless only a few
    /// are partly filled; or `always`. A user that takes slots one by one, and has each reclaimed
    /// separately, would otherwise put all segments in here. O(segments), and O(1) for each that
    /// came.
    pub(crate) fn pack_free(&self, segments: &Segments, traffic: &mut Traffic, always: bool) {
        let fragments = self.fragments.load(Relaxed);
        if fragments == 0 || !always && fragments < segments.count() / FRAGMENTS_SHARE {
            return;
        }
        self.fragments.store(0, Relaxed);
        let length = segments.length() as usize;
        let mut slots = Vec::with_capacity(2 * length);
        // Empty, and kept for the rest at the end.
        let mut spare = 0;
        let mut next = self.free.take_all(traffic);
        while next != 0 {
            let segment = next;
            next = segments.next(segment);
            segments.drain(segment, &mut slots);
            if slots.len() >= length {
                segments.fill(segment, slots.drain(slots.len() - length..));
                self.free.push(segments, segment, traffic);
            } else if spare == 0 {
                spare = segment;
            } else {
                segments.give(segment, traffic);
            }
        }
        if spare != 0 && slots.is_empty() {
            segments.give(spare, traffic);
        } else if spare != 0 {
            segments.fill(spare, slots.into_iter());
            self.free.push(segments, spare, traffic);
        }
    }

    /// Frees slots that no thread can be reading: `all` of them, or those that need no heavy fence
    /// unless too many have come. `reader` is the calling thread's. Dropping `contents` runs user
    /// code, so the caller holds no lock. Returns the number of freed slots.
    ///
    /// A pass over the stripes, and at most one heavy fence; few slots wait, up to a bound.
    pub(crate) fn run<L: Default, W: Default>(
        &self,
        segments: &Segments,
        (stripes, reader): (&Stripes<L, W>, &Reader),
        all: bool,
        contents: &impl Contents,
    ) -> u64 {
        let mut traffic = Traffic::default();
        self.forget_lost_threads(stripes);
        let waiting = self.waiting();
        if all && self.vain.load(Relaxed) == outlook(self.epoch(), waiting, readers_of(stripes)) {
            self.doubt();
            return 0;
        }
        let next = self.limbo.take_all(&mut traffic);
        let mut chain = Chain { next, reclaim: self, segments };
        if next == 0 {
            // Another thread owns it, and may be suspended: the others need not return for
            // each slot.
            let names = self.waiting.0.names.load(Relaxed);
            self.set_due(&Left { names, ..Left::default() });
            self.doubt();
            return 0;
        }
        // Release: all that was unlinked before its segment came to limbo (Acquire in
        // `take_all`) is seen by pins that note a later epoch, and by threads that pass it.
        let stamp = self.epoch.0.fetch_add(1, AcqRel);
        reader.progress.pass(stamp + 1);
        let (quiet, asked) = self.quiesce(stripes, stamp, all || self.overdue());
        let released = self.waiting.0.released.load(Relaxed);
        let named = Named::by(stripes);
        // Slots that may be named wait for the next time.
        let quiet = if named.unsure { 0 } else { quiet };
        let mut left = Left { stripes: asked, names: named.count, ..Left::default() };
        self.waiting.0.names.store(left.names, Relaxed);
        let mut held_up = HeldUp::new(self, segments);
        let mut gone = Gone { slots: 0, weight: 0, reclaim: self };
        let mut judged = 0;
        while let Some(segment) = chain.pop() {
            let stamped = segments.stamp(segment).load(Relaxed);
            let stamped = if stamped == 0 { stamp } else { stamped };
            segments.stamp(segment).store(stamped, Relaxed);
            if stamped >= quiet {
                left.young = true;
                self.put_back(segments, segment);
                continue;
            }
            let occupied = segments.occupied(segment).count_ones();
            judged += u64::from(occupied);
            let kept = named.among(segments, segment);
            // Two instructions a slot, and not thirty.
            if contents.has_any() {
                self.release(segment, kept, contents, &mut held_up, &mut gone);
            }
            // Where it goes.
            traffic.writes += 1;
            let vacated = match kept {
                0 => occupied,
                // For the gathered slots: the words exchanged for them.
                _ if held_up.gather(segment, kept) => segments.occupied(segment).count_ones(),
                _ => continue,
            };
            gone.slots += u64::from(vacated);
            if vacated < segments.length() {
                self.fragments.fetch_add(1, Relaxed);
            }
            self.free.push(segments, segment, &mut Traffic::default());
        }
        let freed = gone.slots;
        drop(gone);
        self.freed.fetch_add(freed, Relaxed);
        (left.slots, left.weight) = (held_up.slots, held_up.weight);
        if !left.young {
            self.hold_up(left.slots, left.weight);
            // Everything waits, and nothing has changed.
            if freed == 0 && judged == waiting && self.waiting() == waiting {
                self.vain.store(outlook(stamp + 1, waiting, named.readers), Relaxed);
            }
        }
        self.set_due(&left);
        // A reader that has released meanwhile reports it once.
        if self.waiting.0.released.load(Relaxed) != released {
            self.hasten();
        }
        // The epoch, what waits, and this count itself.
        traffic.writes += 3;
        self.waiting.0.shared_writes.fetch_add(traffic.writes, Relaxed);
        freed
    }

    /// Drops the content of a segment's slots except the `kept` ones, and sums the weight of all.
    fn release(
        &self,
        segment: u32,
        kept: u32,
        contents: &impl Contents,
        held_up: &mut HeldUp<'_>,
        gone: &mut Gone<'_>,
    ) {
        let segments = held_up.segments;
        // No slot is lost, even if a destructor panics.
        let unfinished = Ensure::new(gone, |_| self.put_back(segments, segment));
        for (at, slot) in segments.slots(segment) {
            let weight = contents.retired_weight(slot);
            if kept >> at & 1 != 0 {
                held_up.weight = held_up.weight.saturating_add(weight);
            } else {
                unfinished.on.weight = unfinished.on.weight.wrapping_add(weight);
                contents.vacate(slot);
            }
        }
        unfinished.waive();
    }

    /// Waits until all slots unlinked before the epoch that has just begun after `stamp` can be
    /// judged by names; or, unless it is `urgent`, returns the stamp up to which they can. Also
    /// returns the number of stripes read.
    fn quiesce<L: Default, W: Default>(
        &self,
        stripes: &Stripes<L, W>,
        stamp: u64,
        urgent: bool,
    ) -> (u64, u64) {
        // After the unlinking. Partner: the fence of a thread that wakes or passes.
        atomic::fence(SeqCst);
        let (mut quiet, mut asked) = (u64::MAX, 0);
        for stripe in stripes.iter() {
            asked += 1;
            quiet = stripe.reader.progress.passed().map_or(quiet, |passed| passed.min(quiet));
        }
        if quiet > stamp {
            return (u64::MAX, asked);
        }
        if urgent {
            stripes.iter().for_each(|stripe| stripe.reader.progress.begin_sleep(stamp));
            fence::heavy();
            stripes.iter().for_each(|stripe| stripe.reader.progress.finish_sleep(stamp));
            quiet = u64::MAX;
        }
        (quiet, asked)
    }

    /// Whether as many slots have become free as there are entries since this was true last. To
    /// one thread.
    pub(crate) fn take_turnover(&self) -> bool {
        let freed = self.freed.load(Relaxed);
        freed >= self.turnover && self.freed.compare_exchange(freed, 0, Relaxed, Relaxed).is_ok()
    }

    /// Releases the slots that threads were reading when the process forked, because those threads
    /// do not exist in the child.
    #[inline]
    fn forget_lost_threads<L: Default, W: Default>(&self, stripes: &Stripes<L, W>) {
        let forks = fork::count();
        if self.forks.load(Relaxed) != forks {
            let lost = stripes.numbered().filter(|&(number, _)| fork::has_lost(number));
            lost.for_each(|(_, stripe)| stripe.reader.forget());
            self.forks.store(forks, Relaxed);
        }
    }

    /// Decides when to search limbo again: not before enough slots have come, and half as many as
    /// readers hold up. The slots that wait now were kept, or are in the hand of another thread,
    /// which decides again when it has finished.
    fn set_due(&self, left: &Left) {
        let Waiting { slots_due, weight_due, slots_overdue, weight_overdue, .. } = &self.waiting.0;
        let (waiting, waiting_weight) = (self.waiting(), self.waiting_weight());
        let most = self.weight_in_limbo.load(Relaxed);
        // Not when readers hold up much more than they may; nor for fewer slots than reading the
        // names pays for.
        let till_full = self.weight_held_up.load(Relaxed).saturating_sub(waiting_weight);
        let least = (left.weight / 8).max(most / ROUND_SHARE);
        let after = |weight: u64| waiting_weight.saturating_add(weight.min(till_full.max(least)));
        // If the search was partial, readers hold up as many as the last time, or more.
        let before = if left.young { self.held_up.slots.load(Relaxed) } else { 0 };
        let (slots, weight) = (left.slots.max(before) / 2, left.weight / 2);
        let round = self.round(left.stripes, left.names);
        slots_due.store(waiting + round.max(slots), Relaxed);
        weight_due.store(after((most / ROUND_SHARE).max(weight)), Relaxed);
        if !left.young {
            slots_overdue.store(waiting + self.batch.max(slots), Relaxed);
            weight_overdue.store(after(most.max(weight)), Relaxed);
        }
    }

    /// The number of slots that pays for reading so many stripes and names.
    fn round(&self, stripes: u64, names: u64) -> u64 {
        let by_names = (names / NAMES_PER_SLOT).min(self.batch.max(self.entries / 8));
        ROUND_MIN.max(stripes * ROUND_PER_STRIPE).min(self.batch / ROUNDS_PER_BATCH).max(by_names)
    }

    /// Says what readers hold up. Read with every insertion, and so written only if it changes.
    fn hold_up(&self, slots: u64, weight: u64) {
        let Crowd { slots: held_up, full } = &self.held_up;
        if held_up.load(Relaxed) != slots {
            held_up.store(slots, Relaxed);
        }
        let most = self.weight_held_up.load(Relaxed);
        if full.load(Relaxed) != (weight > most) {
            full.store(weight > most, Relaxed);
        }
    }

    /// Withdraws the statement that readers hold up too much, if even less waits. A thread may have
    /// made it late, after others had freed the slots; and if new entries are refused because of
    /// it, nothing may ever be retired again.
    fn doubt(&self) {
        let full = &self.held_up.full;
        if full.load(Relaxed) && self.waiting_weight() <= self.weight_held_up.load(Relaxed) {
            full.store(false, Relaxed);
        }
    }

    /// A reader has released the slots that it held up: a search of limbo pays.
    #[cold]
    pub(crate) fn named_no_more(&self) {
        self.waiting.0.released.fetch_add(1, Relaxed);
        self.hasten();
    }

    /// Makes the next writer search limbo, if it has enough slots for a search without readers.
    fn hasten(&self) {
        let Waiting { slots_due, weight_due, slots_overdue, weight_overdue, .. } = &self.waiting.0;
        let (slots, weight) = (self.batch, self.weight_in_limbo.load(Relaxed));
        slots_due.store(ROUND_MIN.min(slots / ROUNDS_PER_BATCH), Relaxed);
        weight_due.store(weight / ROUND_SHARE, Relaxed);
        slots_overdue.store(slots, Relaxed);
        weight_overdue.store(weight, Relaxed);
    }

    /// Number of slots that readers held up at the last search of limbo.
    #[cfg(feature = "tracing")]
    pub(crate) fn held_up(&self) -> u64 {
        self.held_up.slots.load(Relaxed)
    }

    /// Whether more weight waits than readers may hold up.
    pub(crate) fn is_overweight(&self) -> bool {
        self.waiting_weight() > self.weight_held_up.load(Relaxed)
    }

    /// Whether readers hold up so much weight that nothing more may be removed for new entries.
    #[inline(always)]
    pub(crate) fn is_crowded(&self) -> bool {
        self.held_up.full.load(Relaxed)
    }

    fn put_back(&self, segments: &Segments, segment: u32) {
        self.limbo.push(segments, segment, &mut Traffic::default());
    }

    /// Ends an epoch for data withdrawn from all readers at once, and returns it.
    #[cfg(feature = "freezing")]
    pub(crate) fn end_epoch(&self) -> u64 {
        // Release: the withdrawal is seen by pins that begin at a later epoch (Acquire in
        // `epoch`).
        self.epoch.0.fetch_add(1, AcqRel)
    }

    /// Whether copies withdrawn in an epoch, before a heavy fence, have no readers any more.
    #[cfg(feature = "freezing")]
    pub(crate) fn is_past<L: Default, W: Default>(
        &self,
        epoch: u64,
        stripes: &Stripes<L, W>,
    ) -> bool {
        self.forget_lost_threads(stripes);
        // Acquire: partner is the Release with which a reader clears its hazard or pin; its reads
        // come before the copies are written again.
        stripes.iter().map(|stripe| &stripe.reader).all(|reader| {
            let pinned = reader.pinned.load(Acquire);
            (pinned == 0 || pinned > epoch) && reader.hazard.load(Acquire) != super::protect::COPIES
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

/// The slots that a reclamation has left in limbo.
#[derive(Default)]
struct Left {
    /// Held up by readers, of those searched.
    slots: u64,
    weight: u64,
    /// Whether some was not, because threads had not passed it.
    young: bool,
    /// How many stripes were asked, and how many names they had.
    stripes: u64,
    names: u64,
}

/// Segments taken out of limbo; unused ones return.
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
            self.reclaim.put_back(self.segments, segment);
        }
    }
}

/// Slots that readers have named, gathered in as few segments as they need: so one reader
/// keeps a slot from being used, and not all those that were retired with it.
struct HeldUp<'r> {
    /// The last one, with a bit for each word that holds such a slot; or 0.
    segment: u32,
    kept: u32,
    /// How many in all, and their weight.
    slots: u64,
    weight: u64,
    reclaim: &'r Reclaim,
    segments: &'r Segments,
}

impl<'r> HeldUp<'r> {
    fn new(reclaim: &'r Reclaim, segments: &'r Segments) -> Self {
        HeldUp { segment: 0, kept: 0, slots: 0, weight: 0, reclaim, segments }
    }

    /// Exchanges the words of a segment to be `kept` for vacated ones. True if it has no others
    /// then; else the caller no longer owns it.
    fn gather(&mut self, segment: u32, mut kept: u32) -> bool {
        self.slots += u64::from(kept.count_ones());
        let all = (1 << self.segments.length()) - 1;
        while kept != 0 {
            let room = all & !self.kept;
            if self.segment == 0 || room == 0 {
                self.put_back();
                (self.segment, self.kept) = (segment, kept);
                return false;
            }
            // The result of the later of the two.
            let [stamp, own] = [segment, self.segment].map(|of| self.segments.stamp(of));
            own.store(own.load(Relaxed).max(stamp.load(Relaxed)), Relaxed);
            let (from, to) = (kept.trailing_zeros(), room.trailing_zeros());
            let from = self.segments.word(self.segments.position(segment, from));
            let to = self.segments.word(self.segments.position(self.segment, to));
            // Both are this thread's alone, which has taken them out of limbo.
            let slot = from.load(Relaxed);
            from.store(to.load(Relaxed), Relaxed);
            to.store(slot, Relaxed);
            kept &= kept - 1;
            self.kept |= room & room.wrapping_neg();
        }
        true
    }

    fn put_back(&mut self) {
        if self.segment != 0 {
            self.reclaim.put_back(self.segments, std::mem::take(&mut self.segment));
        }
    }
}

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        self.put_back();
    }
}

/// Slots that no longer wait, counted at the end or when a destructor panics.
struct Gone<'r> {
    slots: u64,
    weight: u64,
    reclaim: &'r Reclaim,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let Waiting { slots, weight, .. } = &self.reclaim.waiting.0;
        slots.fetch_sub(self.slots, Relaxed);
        if self.weight > 0 {
            weight.fetch_sub(self.weight, Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;
    use crate::smr::protect::Pinned;

    /// Slots that hold something; each weighs ten times its number.
    struct Rig {
        segments: Segments,
        reclaim: Reclaim,
        stripes: Stripes,
        occupied: RefCell<BTreeSet<u32>>,
    }

    impl Rig {
        /// With slots up to `last`, all of them retired.
        fn new(last: u32) -> Self {
            let rig = Rig {
                segments: Segments::new(64, 4),
                reclaim: Reclaim::new(last.into(), Some(1_000)),
                stripes: Stripes::default(),
                occupied: RefCell::new((1..=last).collect()),
            };
            _ = rig.stripes.of(0);
            let mut buffers: Buffers = Buffers::default();
            for slot in 1..=last {
                assert!(buffers.spares.stock(&rig.segments, &mut Traffic::default()));
                buffers.retired_weight += u64::from(slot) * 10;
                rig.reclaim.retire(&rig.segments, &mut buffers, slot);
            }
            rig.reclaim.flush_retired(&rig.segments, &mut buffers);
            rig
        }

        fn run(&self) -> u64 {
            let readers = (&self.stripes, &self.stripes.of(0).reader);
            self.reclaim.run(&self.segments, readers, true, self)
        }

        fn waiting(&self) -> (u64, u64) {
            (self.reclaim.waiting(), self.reclaim.waiting_weight())
        }

        fn pin(&self) -> Pinned<'_> {
            Pinned::new(&self.stripes.of(0).reader, &self.reclaim)
        }
    }

    impl Contents for Rig {
        fn has_any(&self) -> bool {
            true
        }

        fn retired_weight(&self, slot: u32) -> u64 {
            if self.occupied.borrow().contains(&slot) { u64::from(slot) * 10 } else { 0 }
        }

        fn vacate(&self, slot: u32) {
            self.occupied.borrow_mut().remove(&slot);
        }
    }

    #[test]
    fn what_is_named_is_gathered_in_few_segments() {
        for last in [4, 5, 8, 11, 40] {
            let rig = Rig::new(last);
            let pin = rig.pin();
            let named: BTreeSet<u32> = [3, 1, last, last / 2 + 1].into();
            named.iter().for_each(|&slot| pin.keep(slot));
            let freed = rig.run();
            assert_eq!(*rig.occupied.borrow(), named, "{last}");
            // One segment, whose other slots wait with them.
            let waiting = u64::from(last) - freed;
            assert!(waiting <= 4, "{waiting} of {last} wait");
            let weight = named.iter().map(|&slot| u64::from(slot) * 10).sum();
            assert_eq!(rig.waiting(), (waiting, weight), "{last}");
            assert_eq!((rig.run(), rig.waiting()), (0, (waiting, weight)), "{last}");
            drop(pin);
            assert_eq!((rig.run(), rig.waiting()), (waiting, (0, 0)), "{last}");
            assert!(rig.occupied.borrow().is_empty(), "{last}");
        }
    }

    /// Slots that it has not returned are freed; a reader that holds slots up reports when it no
    /// longer does.
    #[test]
    fn a_pin_keeps_what_it_has_shown_however_much() {
        let rig = Rig::new(40);
        let pin = rig.pin();
        (1..=30).for_each(|slot| pin.keep(slot));
        assert_eq!((rig.run(), rig.waiting()), (8, (32, 4_650)));
        assert!(rig.reclaim.is_crowded(), "4,650 of 1,000");
        drop(pin);
        assert!(rig.reclaim.due(), "who held it up has let go");
        assert_eq!((rig.run(), rig.waiting()), (32, (0, 0)));
        assert!(!rig.reclaim.is_crowded() && !rig.reclaim.due());
        let later = rig.pin();
        (1..=30).for_each(|slot| later.keep(slot));
        drop(later);
        assert!(!rig.reclaim.due(), "it held up nothing");
    }

    /// For as many slots as the last time, but heavy ones.
    #[test]
    fn what_readers_hold_up_is_judged_by_its_weight() {
        let rig = Rig::new(40);
        let (first, second) = (rig.pin(), rig.stripes.of(1));
        first.keep(3);
        let second = Pinned::new(&second.reader, &rig.reclaim);
        second.keep(40);
        rig.reclaim.set_capacity(1_700);
        rig.run();
        assert!(rig.reclaim.is_crowded(), "430 of 1,700");
        drop(second);
        rig.run();
        assert!(!rig.reclaim.is_crowded(), "30 of 1,700");
        rig.reclaim.set_capacity(100);
        rig.run();
        assert!(rig.reclaim.is_crowded(), "30 of 100, and as many slots as before");
    }

    /// A thread that has searched limbo reports late how much was held up, after another has found
    /// that nothing is any more. New entries are refused because of that, so nothing is retired.
    #[test]
    fn what_is_said_late_of_readers_that_have_gone_refuses_nobody() {
        let rig = Rig::new(40);
        let pin = rig.pin();
        (1..=40).for_each(|slot| pin.keep(slot));
        rig.run();
        drop(pin);
        assert_eq!((rig.run(), rig.waiting()), (40, (0, 0)));
        rig.reclaim.hold_up(40, 8_200);
        assert!(rig.reclaim.is_crowded());
        // As an insertion without free capacity does.
        assert_eq!(rig.run(), 0);
        assert!(!rig.reclaim.is_crowded());
    }
}
