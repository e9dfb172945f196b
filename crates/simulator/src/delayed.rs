//! A cell in which fetches take time (paper 5, §2 and its simulator).
//!
//! A miss starts a fetch. Until the fetch ends the object is *in flight*: it occupies no capacity,
//! and requests for it wait, as delayed hits. When the fetch ends the object is committed: admitted
//! by the same code as in a plain replay. `docs/design/delayed-hits.md` has the order of events.
//!
//! A flight holds the policy's state of its object ([`Policy::Pending`]). A flight takes 60 bytes
//! beside that, and O(log flights) to begin and to end. The number of flights is at most that of
//! the records during one fetch. The histograms of latencies take 450 KB each, one of delayed hits
//! and one of misses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Instant;

use foldhash::fast::RandomState;
use frazil_policy::{Online, PolicySpec};
use hashbrown::HashMap;
use hdrhistogram::Histogram;

use crate::fetch::Fetching;
use crate::replay::{Latency, Outcome, Waits};
use crate::trace::{Operation, Trace};
use crate::versatile::{Begun, Moment, VersatileCell, over_trace};
use crate::{SweepOptions, Unit};

/// Weight of one fetch in the estimate of a fetch's duration.
const LEARNING: f64 = 1.0 / 16.0;

/// One object's fetch.
struct Flight {
    /// The time of its end: the object can be hit from then on.
    ready: u64,
    /// Ticks from the miss to `ready`.
    took: u64,
    /// Distinguishes flights of one object, and orders flights that end together.
    number: u64,
    size: u64,
    begun: Begun,
}

/// All fetches under way: by object, and by the time of their end.
#[derive(Default)]
struct Flights {
    by_object: HashMap<u32, Flight, RandomState>,
    /// The earliest end on top; among equals, the fetch that began first. Fetches that ended early
    /// stay here until their time.
    landings: BinaryHeap<Reverse<(u64, u64, u32)>>,
    begun: u64,
}

impl Flights {
    fn begin(&mut self, object: u32, size: u64, now: u64, took: u64, begun: Begun) {
        let (ready, number) = (now.saturating_add(took), self.begun);
        self.begun += 1;
        self.by_object.insert(object, Flight { ready, took, number, size, begun });
        self.landings.push(Reverse((ready, number, object)));
    }

    /// Removes the next fetch that ends at `time` or before.
    fn land(&mut self, time: u64) -> Option<(u32, Flight)> {
        while let Some(&Reverse((ready, number, object))) = self.landings.peek() {
            if ready > time {
                break;
            }
            self.landings.pop();
            let is_it = self.by_object.get(&object).is_some_and(|one| one.number == number);
            if is_it {
                return self.by_object.remove(&object).map(|flight| (object, flight));
            }
        }
        None
    }

    fn clear(&mut self) {
        self.by_object.clear();
        self.landings.clear();
    }
}

/// The counts of one cell of [`crate::sweep_delayed`], for gets in objects and without warm-up, and
/// the latencies of its gets: to three digits, in order, each with its number of gets.
///
/// O(records × log(fetches under way)).
///
/// ```
/// use frazil_simulator::{FetchLatency, Fetching, ReplayClock, latencies_delayed, trace::Trace};
/// let trace = Trace { ids: vec![0, 0, 1, 0, 0], objects: vec![7, 8], ..Trace::default() };
/// let fetching = Fetching::new(&trace, FetchLatency::Fixed(3), ReplayClock::Request)?;
/// let (outcome, latencies) = latencies_delayed(&trace, "lru".parse()?, 2, &fetching);
/// assert_eq!(outcome.delayed_hits, 1);
/// assert_eq!(latencies, [(0, 2), (2, 1), (3, 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn latencies_delayed(
    trace: &Trace,
    policy: Online,
    capacity: u64,
    fetching: &Fetching,
) -> (Outcome, Vec<(u64, u64)>) {
    let options = SweepOptions::default();
    let policy = PolicySpec::Online(policy);
    let cell = over_trace(trace, &policy, capacity, &options, &());
    let mut cell = DelayedCell::new(cell, Unit::Objects, fetching);
    let started = Instant::now();
    cell.feed(trace, 0..trace.len());
    let outcome = cell.outcome(started.elapsed().as_secs_f64());
    let latencies = cell.latencies();
    let recorded = latencies.iter_recorded();
    let counted = recorded.map(|at| (at.value_iterated_to(), at.count_at_value())).collect();
    (outcome, counted)
}

/// Latencies of gets of one kind.
struct Counted {
    total: u64,
    longest: u64,
    latencies: Histogram<u64>,
}

impl Counted {
    fn new() -> Self {
        // One to five digits and any bounds that are far apart are valid.
        let latencies = Histogram::new_with_bounds(1, u64::MAX, 3);
        let latencies = latencies.expect("constant bounds are valid");
        Counted { total: 0, longest: 0, latencies }
    }

    fn record(&mut self, latency: u64) {
        self.total = self.total.saturating_add(latency);
        self.longest = self.longest.max(latency);
        self.latencies.saturating_record(latency);
    }

    fn reset(&mut self) {
        self.latencies.reset();
        (self.total, self.longest) = (0, 0);
    }

    fn waits(&self) -> Waits {
        let quantile = |share| quantile(&self.latencies, share, self.longest);
        let twentieths = std::array::from_fn(|step| quantile(step as f64 / 20.0));
        Waits { total: self.total, twentieths, p99: quantile(0.99) }
    }
}

/// The histogram returns the greatest value with the same three digits.
fn quantile(latencies: &Histogram<u64>, share: f64, longest: u64) -> u64 {
    latencies.value_at_quantile(share).min(longest)
}

/// A cell of [`crate::sweep_delayed`].
pub(crate) struct DelayedCell<'t> {
    cell: Box<dyn VersatileCell + 't>,
    unit: Unit,
    outcome: Outcome,
    moment: Moment,
    flights: Flights,
    fetching: &'t Fetching,
    /// `(record, object)`: the object is evicted before the record. In order; empty except in a
    /// schedule.
    leaving: &'t [(u32, u32)],
    /// Typical duration of a fetch, and whether it is that of all fetches.
    usual: f64,
    certain: bool,
    delayed_hits: Counted,
    misses: Counted,
    /// Total latency of each object's gets; empty unless requested.
    by_object: Vec<u64>,
}

impl<'t> DelayedCell<'t> {
    pub(crate) fn new(
        cell: Box<dyn VersatileCell + 't>,
        unit: Unit,
        fetching: &'t Fetching,
    ) -> Self {
        let (usual, certain) = fetching.expected();
        let usual = usual as f64;
        DelayedCell {
            cell,
            unit,
            outcome: Outcome::default(),
            moment: Moment { now: 0, fetch_ticks: 1 },
            flights: Flights::default(),
            fetching,
            leaving: &[],
            usual,
            certain,
            delayed_hits: Counted::new(),
            misses: Counted::new(),
            by_object: Vec::new(),
        }
    }

    /// Sums the latency of each object's gets from now on, for `objects` objects.
    pub(crate) fn note_objects(&mut self, objects: usize) {
        self.by_object = vec![0; objects];
    }

    /// Total latency of each object's gets, if it was summed.
    pub(crate) fn into_waits(self) -> Vec<u64> {
        self.by_object
    }

    /// This cell, with the evictions of a schedule ([`crate::replay_schedule`]).
    pub(crate) fn keeping_to(mut self, leaving: &'t [(u32, u32)]) -> Self {
        self.leaving = leaving;
        self
    }

    /// Replays the records `range` of the trace whose objects the index knows.
    pub(crate) fn feed(&mut self, trace: &Trace, range: Range<usize>) {
        self.expect_usual();
        for record in range {
            self.outcome.records += 1;
            let operation = trace.operations.get(record).copied().unwrap_or_default();
            let ticks = u64::from(operation != Operation::Delete);
            let now = self.moment.now;
            let time = self.fetching.time(record);
            self.finish_eviction(record);
            // A delete comes after the end of its slot, when fetches end.
            self.land(time.unwrap_or(now + 1));
            self.moment.now = time.unwrap_or(now + ticks);
            let size = trace.sizes.get(record).unwrap_or(1);
            match operation {
                Operation::Get => self.get(trace, record, size),
                Operation::Set => self.set(trace.ids[record], size),
                Operation::Delete => {
                    // The fetched value is old: waiting requests get it, the cache does not.
                    self.delete(trace.ids[record]);
                }
            }
        }
    }

    /// Resets the counts, and forgets the fetches under way: the end of a warm-up.
    pub(crate) fn reset_counts(&mut self) {
        let Outcome { records, .. } = self.outcome;
        self.outcome = Outcome { records, ..Outcome::default() };
        self.cell.reset_counts();
        self.flights.clear();
        self.delayed_hits.reset();
        self.misses.reset();
    }

    /// The latencies of all gets.
    fn latencies(&self) -> Histogram<u64> {
        let mut all = self.misses.latencies.clone();
        // Both histograms have the same bounds.
        all += &self.delayed_hits.latencies;
        all.saturating_record_n(0, self.outcome.hits);
        all
    }

    /// The counts, with the time that the caller measured.
    pub(crate) fn outcome(&self, seconds: f64) -> Outcome {
        let (all, longest) = (self.latencies(), self.misses.longest.max(self.delayed_hits.longest));
        let latency = Latency {
            total: self.misses.total.saturating_add(self.delayed_hits.total),
            p50: quantile(&all, 0.5, longest),
            p99: quantile(&all, 0.99, longest),
            delayed_hits: self.delayed_hits.waits(),
            misses: self.misses.waits(),
        };
        Outcome { latency: Some(latency), seconds, ..self.outcome }
    }

    fn get(&mut self, trace: &Trace, record: usize, size: u64) {
        let (object, at) = (trace.ids[record], self.moment);
        let weighs_bytes = self.unit == Unit::Bytes;
        self.outcome.requests += 1;
        if weighs_bytes {
            self.outcome.bytes_requested += size;
        }
        let latency = if self.cell.find(at, object.into(), size, Operation::Get) {
            self.outcome.hits += 1;
            0
        } else if let Some(flight) = self.flights.by_object.get(&object) {
            self.outcome.delayed_hits += 1;
            self.cell.delayed_hit(at, flight.begun.place);
            let left = flight.ready - at.now;
            self.delayed_hits.record(left);
            left
        } else {
            if weighs_bytes {
                self.outcome.bytes_missed += size;
            }
            let begun = self.cell.begin(at, object.into(), size);
            let took = self.fetching.draw(record, begun.hash);
            self.flights.begin(object, size, at.now, took, begun);
            self.misses.record(took);
            took
        };
        if let Some(waited) = self.by_object.get_mut(object as usize) {
            *waited = waited.saturating_add(latency);
        }
    }

    /// A set needs no fetch, and ends one: its value is the newer.
    fn set(&mut self, object: u32, size: u64) {
        let at = self.moment;
        if self.cell.find(at, object.into(), size, Operation::Set) {
            return;
        }
        let begun = match self.flights.by_object.remove(&object) {
            Some(Flight { begun, .. }) => {
                self.cell.delayed_hit(at, begun.place);
                begun
            }
            None => self.cell.begin(at, object.into(), size),
        };
        self.cell.commit(at, object.into(), size, begun);
    }

    /// Removes an object, resident or in flight.
    fn delete(&mut self, object: u32) {
        if let Some(flight) = self.flights.by_object.remove(&object) {
            self.cell.give_up(flight.begun);
        }
        self.cell.delete(self.moment, object.into());
    }

    /// Commits the fetches that end by `time`. The clock stands at the last tick of each fetch.
    fn land(&mut self, time: u64) {
        while let Some((object, flight)) = self.flights.land(time) {
            self.moment = Moment { now: flight.ready - 1, fetch_ticks: flight.took };
            self.cell.commit(self.moment, object.into(), flight.size, flight.begun);
            if !self.certain {
                self.usual += (flight.took as f64 - self.usual) * LEARNING;
            }
            self.expect_usual();
        }
    }

    /// Evicts the objects that must be absent when the fetches before this record are committed.
    fn finish_eviction(&mut self, record: usize) {
        while let Some((&(at, object), rest)) = self.leaving.split_first() {
            if at as usize > record {
                break;
            }
            self.leaving = rest;
            self.delete(object);
        }
    }

    fn expect_usual(&mut self) {
        self.moment.fetch_ticks = (self.usual.round() as u64).max(1);
    }
}
