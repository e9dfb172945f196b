//! Counts of flights, and how long they took.
//!
//! On lines that all threads write, with relaxed additions: a fetch is slow, and a delayed hit
//! has waited. A hit touches nothing here. The histograms are laid out with the first fetch, 4 kB
//! each.

use std::sync::OnceLock;
// A checker need not explore the order of the buckets, and would be slow with so many.
use std::sync::atomic::AtomicU64 as Count;

use crate::clock::Clock;
use crate::distribution::{BUCKETS, Distribution, bucket};
use crate::features::fetch::flight::{Span, Vain};
use crate::features::stats::Stats;
use crate::sync::OwnLine;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts, and histograms, of all flights of a cache.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Look-ups that missed, and then found the key when they were about to load it.
    pub(super) late_hits: AtomicU64,
    load_failures: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) too_many_waiters: AtomicU64,
    pub(super) shared_errors: AtomicU64,
    pub(super) remembered_errors: AtomicU64,
    /// Threads that blocked for a loader that is a future, and those that were kept from it.
    pub(super) blocked: AtomicU64,
    pub(super) unblocked: AtomicU64,
    histograms: OnceLock<Box<Histograms>>,
}

#[derive(Debug, Default)]
struct Histograms {
    /// Latencies of loads with a value, in nanoseconds.
    latency: OwnLine<Histogram>,
    /// Waits of delayed hits, in nanoseconds.
    delay: OwnLine<Histogram>,
    /// By flight that landed and was awaited.
    waiters: OwnLine<Histogram>,
}

/// How often each bucket's values were met, and their sum; wraps.
#[derive(Debug)]
struct Histogram {
    buckets: [Count; BUCKETS],
    sum: Count,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| Count::new(0)), sum: Count::new(0) }
    }
}

impl Histogram {
    fn record(&self, value: u64) {
        self.buckets[bucket(value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    fn count(&self) -> u64 {
        self.buckets.iter().map(|count| count.load(Relaxed)).sum()
    }

    fn read(&self) -> Distribution {
        let counts = self.buckets.iter().map(|count| count.load(Relaxed)).collect();
        Distribution::new(counts, self.sum.load(Relaxed))
    }
}

impl Tally {
    fn histograms(&self) -> &Histograms {
        self.histograms.get_or_init(Box::default)
    }

    /// A caller has waited `delay` nanoseconds for its value.
    pub(super) fn delayed_hit(&self, delay: u64) {
        self.histograms().delay.0.record(delay);
    }

    /// A caller has waited in vain.
    pub(crate) fn in_vain(&self, vain: Vain) {
        let count = match vain {
            Vain::TimedOut => &self.timed_out,
            Vain::TooManyWaiters => &self.too_many_waiters,
        };
        count.fetch_add(1, Relaxed);
    }

    /// A flight has landed with this number of waiters.
    pub(super) fn landed(&self, waiters: u64) {
        if waiters > 0 {
            self.histograms().waiters.0.record(waiters);
        }
    }

    /// Distributions of latency, delay and waiters.
    pub(crate) fn distributions(&self) -> [Distribution; 3] {
        let Some(histograms) = self.histograms.get() else {
            return std::array::from_fn(|_| Distribution::default());
        };
        let latency = histograms.latency.0.read();
        let waiters = histograms.waiters.0.read().with_zeros_up_to(latency.count());
        [latency, histograms.delay.0.read(), waiters]
    }

    /// Every request that came here was counted as a miss, by its `get`.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let late_hits = self.late_hits.load(Relaxed);
        if let Some(histograms) = self.histograms.get() {
            stats.delayed_hits = histograms.delay.0.count();
            stats.loads = histograms.latency.0.count();
            stats.load_nanoseconds = histograms.latency.0.sum.load(Relaxed);
        }
        stats.load_failures = self.load_failures.load(Relaxed);
        stats.hits += late_hits;
        stats.misses = stats.misses.saturating_sub(stats.delayed_hits + late_hits);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.histograms.get().map_or(0, |_| size_of::<Histograms>())
    }
}

/// A load that is counted: as a failure if it is dropped before its end.
pub(super) struct Counted<'t> {
    tally: &'t Tally,
    clock: &'t Clock,
    began: u64,
    /// Whether it continues when it is dropped.
    is_detached: bool,
    has_ended: bool,
}

impl<'t> Counted<'t> {
    pub(super) fn new(tally: &'t Tally, clock: &'t Clock) -> Self {
        let began = clock.exact();
        Counted { tally, clock, began, is_detached: false, has_ended: false }
    }

    /// A fetch that outlives its callers, and may have begun before.
    pub(super) fn detached(tally: &'t Tally, clock: &'t Clock, began: &mut u64) -> Self {
        if *began == 0 {
            *began = clock.exact();
        }
        Counted { tally, clock, began: *began, is_detached: true, has_ended: false }
    }

    /// It has returned an error.
    pub(super) fn failed(mut self) {
        self.is_detached = false;
    }

    /// It has returned a value.
    pub(super) fn loaded(mut self) -> Span {
        self.has_ended = true;
        let span = Span { began: self.began, ended: self.clock.exact() };
        self.tally.histograms().latency.0.record(span.ended.saturating_sub(span.began));
        span
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if !self.has_ended && (!self.is_detached || std::thread::panicking()) {
            self.tally.load_failures.fetch_add(1, Relaxed);
        }
    }
}
