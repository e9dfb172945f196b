//! The learner: finds out from requests how much is worth freezing, while a controller wants to
//! know.
//!
//! Observed requests pass the cache's gate ([`Gate`]); all others only check whether it is open.
//! Three things open it:
//!
//! - **The wait by the marker** (§3.2.2): records, for a sample of the keys, which entries
//!   were hit since the marker was set. Entries neither hit nor gone lie behind it; when none
//!   do, the content has been renewed.
//! - **Learning** (§3.2.1): counts all requests, and whether the entry of each hit would have
//!   been frozen. That follows from a byte of each entry. With a marker it records whether the
//!   entry was hit since the marker was set; for policies by frequency the entry's rank; and
//!   for queues without a lock, in which a hit moves nothing, first the number of hits, and
//!   then the resulting rank. Newcomers begin behind the marker, and with the lowest rank.
//! - **A burst**: the next requests of each thread are timed, until one has done its
//!   [`BURST`]. For a miss they time both the look-up and the time until the same
//!   thread inserts the key.
//!
//! Times are of the cache's clock: in tests, one that the test advances.
//!
//! Each thread counts separately, in [`Samples`]. Threads share the byte, written once for each
//! entry, and with a marker the number of entries hit, which is updated equally often.

use crate::curve::{STEPS, Tally};
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Requests that a thread times in a burst.
pub const BURST: u64 = 256;
/// The longest plausible look-up: in a longer one the thread lost its core.
const LOOK_MAX_NS: u64 = 20_000;
/// The longest plausible wait of a miss for its insertion: a longer one belongs to another miss.
const MISS_MAX_NS: u64 = 10_000_000_000;
/// Upper bound on a miss's latency, as a multiple of earlier ones: a thread that lost its core
/// waits as long as thousands of fast ones.
const MISS_FACTOR: u64 = 8;
/// Approximate number of entries whose hits are observed during the wait by the marker.
const WATCHED: f64 = 1024.0;

/// The entry was admitted since the marker was set, or since ranks were given.
pub const NEWCOMER: u8 = 0;
/// The entry lies behind the marker.
const BEHIND: u8 = 1;
/// The entry was hit since, and lies before the marker.
const BEFORE: u8 = 2;

/// The purpose of observing hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Nothing,
    /// To detect when the content is renewed.
    Wait,
    /// To learn by a marker.
    Marker,
    /// To learn by ranks.
    Rank,
    /// To count hits, from which ranks are given.
    Count,
    /// None, but ranks are kept up to date.
    Kept,
}

/// Timed requests of one kind.
#[derive(Debug, Default)]
pub(crate) struct Timed {
    pub(crate) count: AtomicU64,
    pub(crate) nanoseconds: AtomicU64,
}

/// Adds to a count that only one thread writes at a time. No locked instruction.
#[inline(always)]
fn add(count: &AtomicU64, amount: u64) {
    count.store(count.load(Relaxed).wrapping_add(amount), Relaxed);
}

impl Timed {
    fn add(&self, nanoseconds: u64) {
        add(&self.count, 1);
        add(&self.nanoseconds, nanoseconds);
    }
}

/// The counts of one thread. Written by that thread alone, or by one thread at a time: if two write
/// at once, the counts of one are lost. 1.3 kB.
///
/// ```
/// let samples = frazil_freezing::Samples::default();
/// samples.hit_took(true, 40);
/// // The look-up took 60 ns, and the key was inserted 2 µs after it began.
/// samples.look_up_failed(1_000, 60);
/// samples.arrived(3_000);
/// ```
#[derive(Debug)]
pub struct Samples {
    /// The current burst, and the number of requests left to time in it.
    burst: AtomicU64,
    left: AtomicU64,
    /// When the miss began that waits for its insertion.
    missed_at: AtomicU64,
    /// Recent latency of misses, or 0.
    usual_miss: AtomicU64,
    /// Frozen hits.
    pub(crate) frozen: Timed,
    /// Other hits.
    pub(crate) dynamic: Timed,
    /// Look-ups of absent keys.
    pub(crate) absent: Timed,
    /// Misses, until the key was inserted.
    pub(crate) loaded: Timed,
    /// Entries behind the marker that this thread was the first to hit.
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
            // An array of this length has no `Default`.
            tally: [zeros(), zeros(), zeros()],
        }
    }
}

impl Samples {
    /// Records a look-up that hit and took `nanoseconds`; `frozen` if the entry was frozen. O(1).
    pub fn hit_took(&self, frozen: bool, nanoseconds: u64) {
        let of = if frozen { &self.frozen } else { &self.dynamic };
        of.add(nanoseconds.min(LOOK_MAX_NS));
    }

    /// Records a look-up that began at `began`, took `nanoseconds` and missed; its latency ends
    /// with the insertion of the key by this thread. O(1).
    pub fn look_up_failed(&self, began: u64, nanoseconds: u64) {
        self.absent.add(nanoseconds.min(LOOK_MAX_NS));
        self.missed_at.store(began, Relaxed);
    }

    /// Records that the awaited insertion happened at `now`, in nanoseconds. O(1).
    pub fn arrived(&self, now: u64) {
        self.add_miss(now.saturating_sub(self.missed_at.load(Relaxed)));
    }

    /// Adds the counts to `tally`.
    pub(crate) fn add_to(&self, tally: &mut Tally) {
        let sums = [&mut tally.frozen, &mut tally.dynamic, &mut tally.misses];
        for (sums, counts) in sums.into_iter().zip(&self.tally) {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
    }

    /// Records the time of a miss until its insertion.
    fn add_miss(&self, nanoseconds: u64) {
        if nanoseconds >= MISS_MAX_NS {
            return;
        }
        // A moving mean over about sixteen values. Values far above it count as little as possible.
        let usual = self.usual_miss.load(Relaxed);
        let taken = if usual == 0 { nanoseconds } else { nanoseconds.min(MISS_FACTOR * usual) };
        self.loaded.add(taken);
        let mean = if usual == 0 { taken } else { usual - usual / 16 + taken / 16 };
        self.usual_miss.store(mean.max(1), Relaxed);
    }
}

/// Lets operations of a cache be observed, while an observer is active.
///
/// Two observers share the gate: learning needs the operations of a share of the keys, a burst of
/// timings needs all.
pub trait Gate {
    /// Opens it for learning, for a share of the keys from 0 to 1; 0 closes it. Returns the bound
    /// below which the hashes of these keys lie.
    fn learn_from(&self, share: f64) -> u64;

    /// Opens it for a burst of timings, or closes it.
    fn time(&self, all: bool);

    /// Closes it for timings, by a thread that has timed its part and must not wait. Returns
    /// whether it did.
    fn try_end_timing(&self) -> bool;
}

/// The state that observed requests read. The controller writes it, except `step`.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Told {
    /// A [`Purpose`].
    purpose: AtomicU8,
    /// Keys with hashes below it are observed for that purpose.
    threshold: AtomicU64,
    /// The current burst, or 0.
    burst: AtomicU64,
    /// The marker's position, and the number of entries in a step.
    step: AtomicU64,
    step_entries: AtomicU64,
}

/// A count that several threads write, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shared(AtomicU64);

/// Observes requests, for a cache that learns what to freeze. Each entry has a byte, which the
/// cache keeps where it wants.
#[derive(Debug, Default)]
pub struct Learner {
    told: Told,
    /// Entries before the marker, while learning by it.
    before: Shared,
}

impl Learner {
    fn purpose(&self) -> Purpose {
        match self.told.purpose.load(Relaxed) {
            1 => Purpose::Wait,
            2 => Purpose::Marker,
            3 => Purpose::Rank,
            4 => Purpose::Count,
            5 => Purpose::Kept,
            _ => Purpose::Nothing,
        }
    }

    /// Stops observing, except for bursts. Ranks are kept.
    pub fn stop(&self, gate: &impl Gate) {
        let kept = match self.purpose() {
            Purpose::Rank | Purpose::Kept => Purpose::Kept,
            _ => Purpose::Nothing,
        };
        self.told.purpose.store(kept as u8, Relaxed);
        gate.learn_from(0.0);
    }

    /// Stops timing requests.
    pub fn stop_timing(&self, gate: &impl Gate) {
        self.told.burst.store(0, Relaxed);
        gate.time(false);
    }

    /// Makes threads time their next requests. The number of a burst is not used again.
    pub(crate) fn burst(&self, gate: &impl Gate, number: u64) {
        self.told.burst.store(number, Relaxed);
        gate.time(true);
    }

    /// Sets a marker before all of `entries`, whose bytes `set_all` sets. Returns the share of
    /// the keys observed.
    pub(crate) fn mark(&self, gate: &impl Gate, entries: u64, set_all: impl FnOnce(u8)) -> f64 {
        self.stop(gate);
        set_all(BEHIND);
        let share = (WATCHED / entries as f64).min(1.0);
        self.begin(gate, Purpose::Wait, share);
        share
    }

    /// Begins to learn by a marker that is set before all of `entries`.
    pub(crate) fn learn_by_marker(&self, gate: &impl Gate, entries: u64, set_all: impl FnOnce(u8)) {
        self.stop(gate);
        set_all(BEHIND);
        self.before.0.store(0, Relaxed);
        self.told.step.store(0, Relaxed);
        self.told.step_entries.store((entries / STEPS as u64).max(1), Relaxed);
        self.begin(gate, Purpose::Marker, 1.0);
    }

    /// Begins to count the hits of each entry, from which ranks are given.
    pub fn count(&self, gate: &impl Gate, set_all: impl FnOnce(u8)) {
        self.stop(gate);
        set_all(0);
        self.begin(gate, Purpose::Count, 1.0);
    }

    /// Whether hits are counted, from which ranks are given.
    pub(crate) fn counts(&self) -> bool {
        self.purpose() == Purpose::Count
    }

    /// Whether ranks were given and are kept up to date though nothing is learnt.
    pub fn keeps_ranks(&self) -> bool {
        self.purpose() == Purpose::Kept
    }

    /// Begins to learn by ranks. `give` sets them: for each entry the byte of its place, and
    /// [`NEWCOMER`] for all others.
    pub(crate) fn learn_by_rank(&self, gate: &impl Gate, give: impl FnOnce()) {
        self.stop(gate);
        give();
        self.begin(gate, Purpose::Rank, 1.0);
    }

    /// A request that sees only part of these stores counts wrongly once.
    fn begin(&self, gate: &impl Gate, purpose: Purpose, share: f64) {
        self.told.threshold.store(gate.learn_from(share), Relaxed);
        self.told.purpose.store(purpose as u8, Relaxed);
    }

    /// Number of entries before the marker, while learning by it.
    pub(crate) fn before(&self) -> u64 {
        self.before.0.load(Relaxed)
    }

    /// Whether learning needs the bytes of new entries.
    #[inline(always)]
    pub fn wants_newcomers(&self) -> bool {
        self.told.purpose.load(Relaxed) != Purpose::Nothing as u8
    }

    /// Whether learning uses a request that passed the gate, or it is only timed. `hash` is the
    /// gate's.
    pub fn wants(&self, hash: u64) -> bool {
        self.purpose() != Purpose::Nothing && hash < self.told.threshold.load(Relaxed)
    }

    /// A hit of the entry with this byte. O(1).
    pub fn hit(&self, samples: &Samples, byte: &AtomicU8) {
        let [frozen, dynamic, _] = &samples.tally;
        match self.purpose() {
            Purpose::Nothing | Purpose::Kept => {}
            Purpose::Count => {
                add(&dynamic[0], 1);
                // Two threads may count only one hit: it is one among many.
                byte.store(byte.load(Relaxed).saturating_add(1), Relaxed);
            }
            Purpose::Wait => {
                if byte.load(Relaxed) == BEHIND && byte.swap(BEFORE, Relaxed) == BEHIND {
                    add(&samples.passed, 1);
                }
            }
            Purpose::Marker => {
                let step = (self.told.step.load(Relaxed) as usize).min(STEPS - 1);
                if byte.load(Relaxed) == BEFORE {
                    return add(&frozen[step], 1);
                }
                add(&dynamic[step], 1);
                // Only one of two threads is the first.
                let was = byte.swap(BEFORE, Relaxed);
                if was == BEHIND {
                    add(&samples.passed, 1);
                }
                if was != BEFORE {
                    let before = self.before.0.fetch_add(1, Relaxed) + 1;
                    let length = self.told.step_entries.load(Relaxed).max(1);
                    if before.is_multiple_of(length) {
                        self.told.step.store(before / length, Relaxed);
                    }
                }
            }
            Purpose::Rank => match usize::from(byte.load(Relaxed)).checked_sub(1) {
                Some(step) => add(&frozen[step.min(STEPS - 1)], 1),
                None => add(&dynamic[0], 1),
            },
        }
    }

    /// Records a miss. O(1).
    pub fn miss(&self, samples: &Samples) {
        let step = match self.purpose() {
            Purpose::Nothing | Purpose::Kept | Purpose::Wait => return,
            Purpose::Marker => (self.told.step.load(Relaxed) as usize).min(STEPS - 1),
            Purpose::Rank | Purpose::Count => 0,
        };
        add(&samples.tally[2][step], 1);
    }

    /// Whether to time this request. A thread that has done its share of a burst ends it for all.
    pub fn is_to_be_timed(&self, samples: &Samples, gate: &impl Gate) -> bool {
        let burst = self.told.burst.load(Relaxed);
        if burst == 0 {
            return false;
        }
        if samples.burst.load(Relaxed) != burst {
            samples.burst.store(burst, Relaxed);
            samples.left.store(BURST, Relaxed);
        }
        let left = samples.left.load(Relaxed).saturating_sub(1);
        samples.left.store(left, Relaxed);
        if left == 0 && gate.try_end_timing() {
            // If the next burst has just begun it also ends, and another will come.
            let _ = self.told.burst.compare_exchange(burst, 0, Relaxed, Relaxed);
        }
        true
    }
}

/// The byte of an entry's place among `entries`, from 0 for the hottest; learning by ranks uses it.
///
/// ```
/// assert_eq!([0, 10, 999].map(|place| frazil_freezing::byte_of_rank(place, 1_000)), [1, 1, 50]);
/// ```
pub fn byte_of_rank(place: usize, entries: usize) -> u8 {
    // Fifty steps fit.
    (place * STEPS / entries.max(1)).min(STEPS - 1) as u8 + 1
}

/// The cost of reading a clock, in nanoseconds: the least of 64 readings.
///
/// ```
/// let mut now = 0;
/// assert_eq!(frazil_freezing::overhead_ns(|| { now += 7; now }), 7);
/// ```
pub fn overhead_ns(mut clock: impl FnMut() -> u64) -> u64 {
    let mut reading = || {
        let before = clock();
        clock().saturating_sub(before)
    };
    (0..64).map(|_| reading()).min().unwrap_or(0)
}
