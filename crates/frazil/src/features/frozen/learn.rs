//! What requests tell about how much is worth freezing, while somebody wants to know.
//!
//! A request that is looked at has come through the gate (`gate.rs`): all others pay nothing,
//! not an instruction. Three things open it:
//!
//! - **The wait by the marker** (§3.2.2): of a sample of the keys, which entries have been hit
//!   since the marker was set. What was neither hit nor has gone lies behind it; when nothing
//!   does, the content has been renewed.
//! - **Learning** (§3.2.1): all requests, and of each hit whether its entry would have been
//!   frozen. A byte for each slot says so: of a marker, whether the entry was hit since it was
//!   set; of policies that go by frequency, which rank the entry had; and of queues without a
//!   lock, in whose order a hit moves nothing, first how often it was hit, and then which rank
//!   that gives it. Newcomers begin behind the marker, and with the lowest rank.
//! - **A burst**: the next requests of each thread are timed, until one has done its
//!   [`BURST`]. Of a miss both the look-up is timed and the time until the same thread
//!   inserts the key.
//!
//! Times are of the clock that the cache was built with: in tests, one that the test moves.
//!
//! A thread counts for itself, in [`Samples`]. What is shared is the byte, written once for each
//! entry, and with a marker how many were hit, which is added to as often.

use std::sync::OnceLock;

use super::curve::{STEPS, Tally};
use crate::chunks::Chunks;
use crate::clock::{Clock, exact_ns};
use crate::core::local::{self, Reads};
use crate::features::gate::{self, Asker, Gate};
use crate::features::{self, Featured};
use crate::smr::stripe::add;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use crate::sync::{OwnLine, ZeroDefault};

/// Requests that a thread times in a burst.
pub(crate) const BURST: u64 = 256;
/// The longest that the look-up of a hit is taken to last: what takes longer has lost its core.
const HIT_MAX_NS: u64 = 20_000;
/// The longest that a miss is taken to wait for its insertion: longer ago it was another.
const MISS_MAX_NS: u64 = 10_000_000_000;
/// How many times as long as those before it a miss is taken to last at most: a thread that has
/// lost its core waits as long as thousands of fast ones.
const MISS_FACTOR: u64 = 8;
/// Entries whose hits are looked at while the marker is waited for, about.
const WATCHED: f64 = 1024.0;

/// A byte's entry was admitted since the marker was set, or since ranks were given.
const NEWCOMER: u8 = 0;
/// It lies behind the marker.
const BEHIND: u8 = 1;
/// It was hit since, and lies before it.
const BEFORE: u8 = 2;

// SAFETY: an atomic whose default is zero.
unsafe impl ZeroDefault for AtomicU8 {}

/// What hits are looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Nothing,
    /// To see the content renewed.
    Wait,
    /// To learn by a marker.
    Marker,
    /// To learn by ranks.
    Rank,
    /// To give ranks by.
    Count,
    /// For nothing, but ranks are kept up.
    Kept,
}

/// Requests of one kind that were timed.
#[derive(Debug, Default)]
pub(crate) struct Timed {
    pub(crate) count: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
}

impl Timed {
    fn add(&self, nanoseconds: u64) {
        add(&self.count, 1);
        add(&self.nanoseconds, nanoseconds);
    }
}

/// What one thread has seen. Written by that thread alone.
#[derive(Debug)]
pub(crate) struct Samples {
    /// The burst that it knows of, and how many requests are left to time in it.
    burst: AtomicU64,
    left: AtomicU64,
    /// When the miss began whose insertion is waited for.
    missed_at: AtomicU64,
    /// What misses took lately, or 0.
    usual_miss: AtomicU64,
    /// Hits of what is frozen.
    pub(crate) frozen: Timed,
    /// Other hits.
    pub(crate) dynamic: Timed,
    /// Look-ups of what was not there.
    pub(crate) absent: Timed,
    /// Misses, until the key was inserted.
    pub(crate) loaded: Timed,
    /// Entries behind the marker that it was the first to hit.
    pub(crate) passed: AtomicU64,
    tally: [[AtomicU64; STEPS]; 3],
}

impl Default for Samples {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Samples {
            burst: AtomicU64::new(0),
            left: AtomicU64::new(0),
            missed_at: AtomicU64::new(0),
            usual_miss: AtomicU64::new(0),
            frozen: Timed::default(),
            dynamic: Timed::default(),
            absent: Timed::default(),
            loaded: Timed::default(),
            passed: AtomicU64::new(0),
            // So long an array has no `Default`.
            tally: [zeros(), zeros(), zeros()],
        }
    }
}

impl Samples {
    /// Adds what was counted.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        let sums = [&mut tally.frozen, &mut tally.dynamic, &mut tally.misses];
        for (sums, counts) in sums.into_iter().zip(&self.tally) {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
    }

    /// A miss has taken so long until its insertion.
    fn add_miss(&self, nanoseconds: u64) {
        if nanoseconds >= MISS_MAX_NS {
            return;
        }
        // Of sixteen or so. What is far above it counts as little as it may.
        let usual = self.usual_miss.load(Relaxed);
        let taken = if usual == 0 { nanoseconds } else { nanoseconds.min(MISS_FACTOR * usual) };
        self.loaded.add(taken);
        let mean = if usual == 0 { taken } else { usual - usual / 16 + taken / 16 };
        self.usual_miss.store(mean.max(1), Relaxed);
    }
}

/// What requests that are looked at read. Written by the controller, but for `step`.
#[derive(Debug, Default)]
struct Told {
    /// A [`Purpose`].
    purpose: AtomicU8,
    /// Below it lie the keys that are looked at for it.
    threshold: AtomicU64,
    /// The burst that is under way, or 0.
    burst: AtomicU64,
    /// How far the marker has come, and how many entries a step is.
    step: AtomicU64,
    step_entries: AtomicU64,
}

/// Looks at requests, for a cache that learns what to freeze.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    told: OwnLine<Told>,
    /// Entries before the marker, while one learns by it.
    before: OwnLine<AtomicU64>,
    /// By slot, once something was looked at.
    bytes: Chunks<AtomicU8>,
}

/// What it takes to read the system's clock.
fn overhead_ns() -> u64 {
    static OVERHEAD: OnceLock<u64> = OnceLock::new();
    let reading = |_| {
        let before = exact_ns();
        exact_ns().saturating_sub(before)
    };
    *OVERHEAD.get_or_init(|| (0..64).map(reading).min().unwrap_or(0))
}

impl Watch {
    fn purpose(&self) -> Purpose {
        match self.told.0.purpose.load(Relaxed) {
            1 => Purpose::Wait,
            2 => Purpose::Marker,
            3 => Purpose::Rank,
            4 => Purpose::Count,
            5 => Purpose::Kept,
            _ => Purpose::Nothing,
        }
    }

    /// Looks at nothing any more, but for bursts. Ranks are kept.
    pub(crate) fn stop(&self, gate: &Gate) {
        let kept = match self.purpose() {
            Purpose::Rank | Purpose::Kept => Purpose::Kept,
            _ => Purpose::Nothing,
        };
        self.told.0.purpose.store(kept as u8, Relaxed);
        gate.open(Asker::Learning, 0);
    }

    /// Times no requests any more.
    pub(crate) fn stop_timing(&self, gate: &Gate) {
        self.told.0.burst.store(0, Relaxed);
        gate.open(Asker::Timing, 0);
    }

    /// Has threads time their next requests. Bursts have numbers, which do not come again.
    pub(crate) fn burst(&self, gate: &Gate, number: u64) {
        self.told.0.burst.store(number, Relaxed);
        gate.open(Asker::Timing, gate::ALL);
    }

    /// Sets a marker before all of `entries`. Returns what share of the keys is looked at.
    pub(crate) fn mark(&self, gate: &Gate, slots: u32, entries: u64) -> f64 {
        self.stop(gate);
        self.set_all(slots, BEHIND);
        let share = (WATCHED / entries as f64).min(1.0);
        self.begin(gate, Purpose::Wait, gate::threshold(share));
        share
    }

    /// Begins to learn by a marker that is set before all of `entries`.
    pub(crate) fn learn_by_marker(&self, gate: &Gate, slots: u32, entries: u64) {
        self.stop(gate);
        self.set_all(slots, BEHIND);
        self.before.0.store(0, Relaxed);
        self.told.0.step.store(0, Relaxed);
        self.told.0.step_entries.store((entries / STEPS as u64).max(1), Relaxed);
        self.begin(gate, Purpose::Marker, gate::ALL);
    }

    /// Begins to count the hits of each entry, to give ranks by.
    pub(crate) fn count(&self, gate: &Gate, slots: u32) {
        self.stop(gate);
        self.set_all(slots, 0);
        self.begin(gate, Purpose::Count, gate::ALL);
    }

    /// Whether hits are counted, to give ranks by.
    pub(crate) fn counts(&self) -> bool {
        self.purpose() == Purpose::Count
    }

    /// Sorts by what was counted: fewest hits first, and as it was where they are as many.
    pub(crate) fn sort_by_count(&self, order: &mut [u32]) {
        // Each is read once: hits go on being counted, and a sort whose keys change under it
        // panics.
        order.sort_by_cached_key(|&slot| self.byte(slot).load(Relaxed));
    }

    /// Sorts by the ranks that were given, if some were: the lowest first.
    pub(crate) fn sort_by_rank(&self, order: &mut [u32]) {
        if self.purpose() == Purpose::Kept {
            // Newcomers have 0, which is lowest. Read once, as above.
            let rank = |slot: u32| self.byte(slot).load(Relaxed).wrapping_sub(1);
            order.sort_by_cached_key(|&slot| std::cmp::Reverse(rank(slot)));
        }
    }

    /// Begins to learn by ranks, from the order as it is.
    pub(crate) fn learn_by_rank(&self, gate: &Gate, slots: u32, coldest_first: &[u32]) {
        self.stop(gate);
        self.set_all(slots, NEWCOMER);
        for (rank, &slot) in coldest_first.iter().rev().enumerate() {
            let step = rank * STEPS / coldest_first.len();
            self.byte(slot).store(step as u8 + 1, Relaxed);
        }
        self.begin(gate, Purpose::Rank, gate::ALL);
    }

    /// Requests that see only half of what is stored here count one thing wrong.
    fn begin(&self, gate: &Gate, purpose: Purpose, threshold: u64) {
        self.told.0.threshold.store(threshold, Relaxed);
        self.told.0.purpose.store(purpose as u8, Relaxed);
        gate.open(Asker::Learning, threshold);
    }

    fn byte(&self, slot: u32) -> &AtomicU8 {
        self.bytes.get_or_make(slot)
    }

    /// Says the same of all slots up to `last`, and of those beyond that were ever spoken of.
    fn set_all(&self, last: u32, value: u8) {
        self.bytes.ensure(last);
        (0..=last).for_each(|slot| self.byte(slot).store(value, Relaxed));
        let others = self.bytes.made().flat_map(|(_, bytes)| bytes);
        others.for_each(|byte| byte.store(value, Relaxed));
    }

    /// How many entries lie before the marker by which one learns.
    pub(crate) fn before(&self) -> u64 {
        self.before.0.load(Relaxed)
    }

    /// An entry is admitted, in the place of another or as a newcomer.
    #[inline(always)]
    pub(crate) fn admitted(&self, slot: u32, replaced: Option<u32>) {
        if self.told.0.purpose.load(Relaxed) != Purpose::Nothing as u8 {
            let byte = replaced.map_or(NEWCOMER, |old| self.byte(old).load(Relaxed));
            self.byte(slot).store(byte, Relaxed);
        }
    }

    /// A hit of what is in a slot.
    fn hit(&self, samples: &Samples, slot: u32) {
        let Some(byte) = self.bytes.get(slot) else { return };
        let [frozen, dynamic, _] = &samples.tally;
        match self.purpose() {
            Purpose::Nothing | Purpose::Kept => {}
            Purpose::Count => {
                add(&dynamic[0], 1);
                // Two threads may count one hit: it is a hit among many.
                byte.store(byte.load(Relaxed).saturating_add(1), Relaxed);
            }
            Purpose::Wait => {
                if byte.load(Relaxed) == BEHIND && byte.swap(BEFORE, Relaxed) == BEHIND {
                    add(&samples.passed, 1);
                }
            }
            Purpose::Marker => {
                let step = (self.told.0.step.load(Relaxed) as usize).min(STEPS - 1);
                if byte.load(Relaxed) == BEFORE {
                    return add(&frozen[step], 1);
                }
                add(&dynamic[step], 1);
                // Of two threads one is the first.
                let was = byte.swap(BEFORE, Relaxed);
                if was == BEHIND {
                    add(&samples.passed, 1);
                }
                if was != BEFORE {
                    let before = self.before.0.fetch_add(1, Relaxed) + 1;
                    let length = self.told.0.step_entries.load(Relaxed).max(1);
                    if before.is_multiple_of(length) {
                        self.told.0.step.store(before / length, Relaxed);
                    }
                }
            }
            Purpose::Rank => match usize::from(byte.load(Relaxed)).checked_sub(1) {
                Some(step) => add(&frozen[step.min(STEPS - 1)], 1),
                None => add(&dynamic[0], 1),
            },
        }
    }

    fn miss(&self, samples: &Samples) {
        let step = match self.purpose() {
            Purpose::Nothing | Purpose::Kept | Purpose::Wait => return,
            Purpose::Marker => (self.told.0.step.load(Relaxed) as usize).min(STEPS - 1),
            Purpose::Rank | Purpose::Count => 0,
        };
        add(&samples.tally[2][step], 1);
    }

    /// Whether this request is to be timed. The thread that has done its share of a burst ends
    /// it for all.
    fn is_to_be_timed(&self, samples: &Samples, gate: &Gate) -> bool {
        let burst = self.told.0.burst.load(Relaxed);
        if burst == 0 {
            return false;
        }
        if samples.burst.load(Relaxed) != burst {
            samples.burst.store(burst, Relaxed);
            samples.left.store(BURST, Relaxed);
        }
        let left = samples.left.load(Relaxed).saturating_sub(1);
        samples.left.store(left, Relaxed);
        if left == 0 && gate.try_close(Asker::Timing) {
            // Should the next burst have begun just now it ends as well, and another will come.
            let _ = self.told.0.burst.compare_exchange(burst, 0, Relaxed, Relaxed);
        }
        true
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// What is kept for each thread. Written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// The hash of the key whose miss is timed until its insertion, as [`Reads::missing`] has it,
    /// or 0.
    timed_miss: AtomicU64,
    /// What was seen of its requests, in a cache that learns.
    pub(super) samples: OnceLock<Box<Samples>>,
}

impl Local {
    fn note_timed_miss(&self, hash: u64) {
        self.timed_miss.store(Reads::missing(hash), Relaxed);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.samples.get().map_or(0, |samples| size_of_val(&**samples))
    }
}

/// Counts the arrival of a key that a thread is about to insert. Whether it ends a miss that is
/// timed.
#[inline(always)]
pub(crate) fn arrive(local: &local::Local<features::Local>, hash: u64) -> bool {
    local.reads.arrive(hash)
        && local.features.frozen.timed_miss.load(Relaxed) == Reads::missing(hash)
}

/// A get that is looked at.
pub(crate) struct Look<'c> {
    watch: &'c Watch,
    reads: &'c Reads,
    local: &'c Local,
    samples: &'c Samples,
    /// When it began, if it is timed.
    began: Option<u64>,
    clock: &'c Clock,
    /// What its thread had counted before.
    frozen_hits: u64,
}

impl<K, V, S> Featured<K, V, S> {
    /// Begins to look at a get of this thread, if somebody wants it.
    pub(crate) fn begin_look(&self) -> Option<Look<'_>> {
        let mut look = self.begin_look_untimed()?;
        if look.watch.is_to_be_timed(look.samples, self.hooks.recorder.gate()) {
            // Last: what comes from here on is the request's.
            look.began = Some(look.clock.exact());
        }
        Some(look)
    }

    /// The same of one of many gets at once.
    pub(crate) fn begin_look_untimed(&self) -> Option<Look<'_>> {
        let watch = self.hooks.frozen.as_ref()?.watch()?;
        let local = &self.stripe().local;
        let (reads, local) = (&local.reads, &local.features.frozen);
        let samples = local.samples.get_or_init(Box::default);
        let frozen_hits = reads.hook_hits.load(Relaxed);
        let clock = &self.clock;
        Some(Look { watch, reads, local, samples, began: None, clock, frozen_hits })
    }

    /// The insertion has come for which a miss of this thread was waiting.
    #[cold]
    pub(crate) fn end_timed_miss(&self) {
        let local = &self.stripe().local.features.frozen;
        local.timed_miss.store(0, Relaxed);
        if let Some(samples) = local.samples.get() {
            let elapsed = self.clock.exact().saturating_sub(samples.missed_at.load(Relaxed));
            samples.add_miss(elapsed);
        }
    }
}

impl Look<'_> {
    /// The get is over. `slot` looks up where its entry is, if it was a hit.
    pub(crate) fn end(self, hash: u64, hit: bool, slot: impl FnOnce() -> Option<u32>) {
        let Look { watch, reads, local, samples, .. } = self;
        if let Some(began) = self.began {
            let overhead = if self.clock.is_users() { 0 } else { overhead_ns() };
            let elapsed = self.clock.exact().saturating_sub(began + overhead);
            if !hit {
                samples.absent.add(elapsed.min(HIT_MAX_NS));
                samples.missed_at.store(began, Relaxed);
                local.note_timed_miss(hash);
            } else if reads.hook_hits.load(Relaxed) != self.frozen_hits {
                samples.frozen.add(elapsed.min(HIT_MAX_NS));
            } else {
                samples.dynamic.add(elapsed.min(HIT_MAX_NS));
            }
        }
        let wanted = watch.purpose() != Purpose::Nothing
            && gate::is_below(hash, watch.told.0.threshold.load(Relaxed));
        match (wanted, hit) {
            (false, _) => {}
            (true, true) => slot().into_iter().for_each(|slot| watch.hit(samples, slot)),
            (true, false) => watch.miss(samples),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const SLOTS: u32 = 5_000;

    #[test]
    fn a_miss_that_is_not_timed_ends_none() {
        for hash in [0, 1] {
            let local = local::Local::<features::Local>::default();
            local.reads.miss(hash);
            assert!(!arrive(&local, hash), "{hash}");
            local.features.frozen.note_timed_miss(hash);
            local.reads.miss(hash);
            assert!(arrive(&local, hash), "{hash}");
        }
    }

    #[test]
    fn what_goes_on_being_hit_is_sorted() {
        let (watch, gate) = (Watch::default(), Gate::new());
        let (samples, over) = (Samples::default(), AtomicBool::new(false));
        let hit = || {
            let mut slot = 1u32;
            while !over.load(Relaxed) {
                slot = slot.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                watch.hit(&samples, (slot >> 8) % SLOTS);
            }
        };
        let sort = || {
            for _ in 0..200 {
                watch.count(&gate, SLOTS);
                let mut order: Vec<u32> = (0..SLOTS).rev().collect();
                // Where all have as many hits there is nothing to sort.
                std::thread::sleep(Duration::from_millis(3));
                watch.sort_by_count(&mut order);
                order.sort_unstable();
                assert!(order.into_iter().eq(0..SLOTS));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(hit);
            let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sort));
            over.store(true, Relaxed);
            sorted.unwrap();
        });
    }
}
