//! Little's law as a check of the measurement: mean latency × throughput = operations in flight.
//!
//! A thread without a backend has one operation in flight at any time. So the time of an operation
//! is known twice: as the mean of the timed operations, and as the time of all threads over the
//! operations of all threads, without timing any. If the two disagree, the latencies are wrong: the
//! timed operations differ from the others, or the timing includes something else.
//!
//! A processor has more than one of a thread's operations in flight: it begins the next while lines
//! of this one come from memory. The clock waits for all operations begun before, so a timed
//! operation stands alone. The overlap is measured. Sometimes several operations in a row are made
//! to stand alone, by reading the clock between them as around a timed one, and one interval times
//! all of them. The ratio of the time of one operation then to that otherwise is the overlap, and
//! the operations in flight are the threads times the overlap.
//!
//! The mean may be off by a fifth, by three standard errors of the compared times, and by the
//! resolution of the clock.

use std::fmt;
use std::time::{Duration, Instant};

use crate::run::Latencies;

/// Latencies that agree with the throughput to this share are valid.
const TOLERANCE: f64 = 0.2;
/// Resolution of the clock, in ns.
const RESOLUTION_NS: f64 = 10.0;
/// Standard errors of tolerance for chance.
const ERRORS: f64 = 3.0;
/// With fewer timed operations the check has no result.
const LEAST_TIMED: u64 = 10;
/// Empty intervals timed to measure the clock.
const READS: usize = 64;

/// Latencies of the operations of one thread that were timed.
pub(crate) struct Timed {
    pub(crate) latencies: Latencies,
    sums: Sums,
    /// Time of one operation in each row of operations that stood alone.
    alone: Sums,
}

/// Count, sum and sum of squares of the times of operations while their thread had a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    ns: f64,
    squares: f64,
}

impl Timed {
    pub(crate) fn new() -> Self {
        Timed { latencies: Latencies::new(), sums: Sums::default(), alone: Sums::default() }
    }

    /// Discards the samples.
    pub(crate) fn clear(&mut self) {
        self.latencies.clear();
        (self.sums, self.alone) = (Sums::default(), Sums::default());
    }

    /// Adds an operation. Its thread waited for a core for `queued` of it.
    pub(crate) fn record(&mut self, latency: Duration, queued: Duration) {
        self.latencies.record(latency);
        self.sums.record(latency.saturating_sub(queued).as_nanos() as f64);
    }

    /// Adds `operations` in a row, each followed by a read of the clock, in one interval.
    pub(crate) fn record_alone(&mut self, operations: usize, took: Duration, queued: Duration) {
        if operations > 0 {
            // One more read ends the interval.
            let looks = (operations + 1) as f64 * clock_ns();
            let ns = took.saturating_sub(queued).as_nanos() as f64 - looks;
            self.alone.record(ns.max(0.0) / operations as f64);
        }
    }

    /// Adds the thread's total work: `operations`, in flight for `in_flight_ns`.
    pub(crate) fn pace(&self, in_flight_ns: f64, idle_ns: f64, operations: u64) -> Pace {
        Pace { in_flight_ns, idle_ns, operations, timed: self.sums, alone: self.alone }
    }
}

/// The work of threads in an interval: the time of an operation, from the timed ones and from all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Total time of operations in flight: of threads that had a core, and of requests that waited
    /// for a backend.
    in_flight_ns: f64,
    /// The part of `in_flight_ns` in which a thread with a backend may have been idle.
    idle_ns: f64,
    operations: u64,
    timed: Sums,
    alone: Sums,
}

impl Pace {
    /// Adds another thread, or another run.
    ///
    /// ```
    /// let mut pace = frazil_driver::Pace::default();
    /// pace.add(&frazil_driver::Pace::default());
    /// assert_eq!(pace, frazil_driver::Pace::default());
    /// ```
    pub fn add(&mut self, other: &Pace) {
        self.in_flight_ns += other.in_flight_ns;
        self.idle_ns += other.idle_ns;
        self.operations += other.operations;
        self.timed.add(&other.timed);
        self.alone.add(&other.alone);
    }

    /// Compares the mean time of all operations with the mean of the timed ones.
    ///
    /// ```
    /// assert!(frazil_driver::Pace::default().little().holds(), "nothing was done");
    /// ```
    pub fn little(&self) -> Little {
        let operations = self.operations.max(1) as f64;
        let most_ns = self.in_flight_ns / operations;
        let least_ns = ((self.in_flight_ns - self.idle_ns) / operations).min(most_ns);
        let (mean_ns, error_ns) = self.timed.mean_and_error();
        let mean_ns = (mean_ns - clock_ns()).max(0.0);
        let expected_ns = mean_ns.clamp(least_ns, most_ns);
        let (alone_ns, alone_error_ns) = self.alone.mean_and_error();
        // A thread has at least one operation in flight; without operations that stood alone it is
        // unknown.
        let overlap = if self.alone.count > 0 { (alone_ns / expected_ns).max(1.0) } else { 1.0 };
        let chance_ns = RESOLUTION_NS + ERRORS * error_ns.hypot(alone_error_ns);
        let is_known = self.timed.count >= LEAST_TIMED;
        Little { mean_ns, expected_ns, overlap, chance_ns, is_known }
    }
}

impl Sums {
    fn record(&mut self, ns: f64) {
        self.count += 1;
        self.ns += ns;
        self.squares += ns * ns;
    }

    fn add(&mut self, other: &Sums) {
        self.count += other.count;
        self.ns += other.ns;
        self.squares += other.squares;
    }

    /// The mean and its standard error, in ns; 0 if there was none.
    fn mean_and_error(&self) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let mean = self.ns / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (mean, (variance / count).sqrt())
    }
}

/// Two times of an operation that are equal by Little's law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Little {
    /// Mean of the timed operations, without the clock's own time, in ns.
    pub mean_ns: f64,
    /// Threads, or requests in flight with a backend, over throughput, in ns.
    pub expected_ns: f64,
    /// Number of a thread's operations that the processor has in flight: the time of an operation
    /// that stands alone, divided by `expected_ns`. 1 with a backend.
    pub overlap: f64,
    /// Possible difference of the two by random error and the clock, in ns.
    chance_ns: f64,
    is_known: bool,
}

impl Little {
    /// Mean latency × throughput over the operations in flight, those that overlap included: 1 if
    /// the law holds exactly.
    ///
    /// ```
    /// assert!(frazil_driver::Pace::default().little().ratio().is_nan());
    /// ```
    pub fn ratio(&self) -> f64 {
        self.mean_ns / (self.expected_ns * self.overlap)
    }

    /// Whether the latencies are valid: within a fifth, random error, and the clock's resolution.
    ///
    /// ```
    /// use frazil::Policy;
    /// use frazil_driver::{Ours, Schedule, Workload, run};
    /// let streams = Workload::Hit.streams(1_000, 10_000, 1)?;
    /// let ours = Ours::<u64>::new(Policy::Mobius, 1_000, 0);
    /// let measured = run(&ours, &streams, 0, &Schedule::seconds(0.05));
    /// let little = measured.little();
    /// assert_eq!(little.holds(), !little.to_string().ends_with("not valid"));
    /// # Ok::<(), frazil_driver::WorkloadError>(())
    /// ```
    pub fn holds(&self) -> bool {
        let expected_ns = self.expected_ns * self.overlap;
        let slack_ns = TOLERANCE * expected_ns + self.chance_ns;
        !self.is_known || (self.mean_ns - expected_ns).abs() <= slack_ns
    }
}

impl fmt::Display for Little {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_known {
            return f.write_str("-");
        }
        let verdict = if self.holds() { "" } else { " not valid" };
        write!(f, "{:.2}{verdict}", self.ratio())
    }
}

/// Time of an empty interval, in ns: the median, measured once.
fn clock_ns() -> f64 {
    static CLOCK: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *CLOCK.get_or_init(|| {
        let mut empty: Vec<u128> =
            (0..READS).map(|_| Instant::now().elapsed().as_nanos()).collect();
        empty.sort_unstable();
        empty.get(READS / 2).map_or(0.0, |&ns| ns as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with `each_ns` an operation that timed some of them.
    fn little(each_ns: u64, timed: &[u64]) -> Little {
        let mut all = Timed::new();
        for &ns in timed.iter().cycle().take(timed.len().max(30)) {
            all.record(Duration::from_nanos(ns), Duration::ZERO);
        }
        all.pace(1e6 * each_ns as f64, 0.0, 1_000_000).little()
    }

    #[test]
    fn what_is_timed_has_to_be_what_is_done() {
        assert!(little(2_000, &[2_000, 2_100, 2_400]).holds());
        // Only an engine's occasional work was timed.
        let beat = little(885, &[19_400, 19_500, 19_600]);
        assert!(!beat.holds() && beat.ratio() > 20.0, "{beat}");
        assert!(beat.to_string().ends_with(" not valid"), "{beat}");
        // Only its other work was timed.
        assert!(!little(2_000, &[300, 301, 302]).holds());
        // A small sample says little: one operation in a hundred takes long.
        let mut rare = vec![100; 100];
        rare.push(100_000);
        assert!(little(500, &rare).holds());
    }

    #[test]
    fn what_overlaps_is_measured() {
        let clock = Duration::from_nanos(clock_ns() as u64);
        let overlapped = |alone_ns: u64, timed_ns: u64| {
            let mut timed = Timed::new();
            for _ in 0..30 {
                timed.record(clock + Duration::from_nanos(timed_ns), Duration::ZERO);
                let took = 17 * clock + 16 * Duration::from_nanos(alone_ns);
                let queued = Duration::from_millis(4);
                timed.record_alone(16, took + queued, queued);
            }
            // 80 ns each, because the processor begins the next ones in the meantime.
            let mut pace = timed.pace(80e6, 0.0, 1_000_000);
            pace.add(&timed.pace(80e6, 0.0, 1_000_000));
            pace.little()
        };
        let little = overlapped(200, 220);
        assert!((little.overlap - 2.5).abs() < 1e-9 && little.holds(), "{little:?}");
        assert!((little.ratio() - 1.1).abs() < 1e-9, "{little}");
        // Something else was timed with it.
        assert!(!overlapped(200, 260).holds());
        assert!(!overlapped(80, 120).holds());
        assert!(!overlapped(200, 140).holds());
        // The throughput would be higher if the latencies were right.
        assert!(!overlapped(40, 40).holds());
        let mut none = Timed::new();
        none.record_alone(0, clock, Duration::ZERO);
        assert_eq!(none.alone, Sums::default());
    }

    #[test]
    fn a_wait_for_a_core_is_not_the_operations() {
        let mut timed = Timed::new();
        (0..10).for_each(|_| timed.record(Duration::from_micros(4_002), Duration::from_millis(4)));
        assert_eq!(timed.latencies.quantile_ns(1.0) / 1_000, 4_003, "but it is its latency");
        assert!(timed.pace(2e9, 0.0, 1_000_000).little().holds());
        timed.clear();
        (0..10).for_each(|_| timed.record(Duration::from_micros(4_002), Duration::ZERO));
        assert!(!timed.pace(2e9, 0.0, 1_000_000).little().holds());
    }

    #[test]
    fn threads_add_up() {
        let pace = |each_ns: u64, count: u64| {
            let mut timed = Timed::new();
            (0..count).for_each(|_| timed.record(Duration::from_nanos(each_ns), Duration::ZERO));
            timed.pace((each_ns * count) as f64, 0.0, count)
        };
        let mut both = pace(10_000, 300);
        both.add(&pace(30_000, 100));
        let little = both.little();
        assert!((little.expected_ns - 15_000.0).abs() < 1.0, "{little:?}");
        assert!((little.ratio() - 1.0).abs() < 0.05, "{little:?}");
    }

    #[test]
    fn a_thread_that_polls_may_have_had_nothing_to_do() {
        let mut timed = Timed::new();
        (0..10).for_each(|_| timed.record(Duration::from_micros(150), Duration::ZERO));
        // Requests waited for 10 ms, and the thread was busy for as long.
        let little = timed.pace(2e7, 1e7, 100).little();
        assert!((little.ratio() - 1.0).abs() < 1e-9, "{little:?}");
        assert!(!timed.pace(2e7, 0.0, 100).little().holds());
    }
}
