//! Little's law as a check of the instrument: mean latency × throughput = operations in flight.
//!
//! A thread without a backend has one operation in flight at any time. So what one operation takes
//! is known twice: the mean of those that were timed, and the time of all threads over the operations
//! of all threads, for which nothing is timed. Where the two disagree the latencies are the
//! instrument's and not the cache's: what is timed is not what is done, or something else is timed
//! with it.
//!
//! The mean is allowed to be off by a fifth, by three times its own standard error, and by what the
//! instrument can't resolve. The clock waits for all that was begun before, so a timed operation
//! stands alone, where the processor begins others in the meantime: with 1M keys, whose lines come
//! from memory, by some 100 ns.

use std::fmt;
use std::time::{Duration, Instant};

use crate::run::Latencies;

/// Latencies that agree with the throughput to this share are valid.
const TOLERANCE: f64 = 0.2;
/// What overlaps unless it is timed, in ns: fetches of lines from memory.
const OVERLAP_NS: f64 = 200.0;
/// Standard errors of the mean that chance is allowed.
const ERRORS: f64 = 3.0;
/// Of fewer that were timed nothing is said.
const LEAST_TIMED: u64 = 10;
/// Empty intervals that are timed to know the clock.
const READS: usize = 64;

/// Latencies of the operations of one thread that were timed.
pub(crate) struct Timed {
    pub(crate) latencies: Latencies,
    sums: Sums,
}

/// Count, sum and sum of squares of what timed operations took while their thread had a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    ns: f64,
    squares: f64,
}

impl Timed {
    pub(crate) fn new() -> Self {
        Timed { latencies: Latencies::new(), sums: Sums::default() }
    }

    /// Forgets what was timed.
    pub(crate) fn clear(&mut self) {
        self.latencies.clear();
        self.sums = Sums::default();
    }

    /// Adds one. For a part of it its thread waited for a core.
    pub(crate) fn record(&mut self, latency: Duration, queued: Duration) {
        self.latencies.record(latency);
        let ns = latency.saturating_sub(queued).as_nanos() as f64;
        self.sums.count += 1;
        self.sums.ns += ns;
        self.sums.squares += ns * ns;
    }

    /// With what the thread did in all: so many operations, in flight for that time.
    pub(crate) fn pace(&self, in_flight_ns: f64, idle_ns: f64, operations: u64) -> Pace {
        Pace { in_flight_ns, idle_ns, operations, timed: self.sums }
    }
}

/// What threads did in a time: what an operation takes by those that were timed, and by all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Time of each operation in flight, summed: of threads that had a core, and of requests that
    /// waited for a backend.
    in_flight_ns: f64,
    /// The part of that in which a thread with a backend may have had nothing to do.
    idle_ns: f64,
    operations: u64,
    timed: Sums,
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
        self.timed.count += other.timed.count;
        self.timed.ns += other.timed.ns;
        self.timed.squares += other.timed.squares;
    }

    /// Compares what the operations took with those that were timed.
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
        let slack_ns = TOLERANCE * expected_ns + OVERLAP_NS + ERRORS * error_ns;
        Little { mean_ns, expected_ns, slack_ns, is_known: self.timed.count >= LEAST_TIMED }
    }
}

impl Sums {
    /// The mean and its standard error, in ns; 0 if there was none.
    fn mean_and_error(&self) -> (f64, f64) {
        let count = self.count.max(1) as f64;
        let mean = self.ns / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        (mean, (variance / count).sqrt())
    }
}

/// What operations took by two ways that Little's law makes equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Little {
    /// Mean of those that were timed, without the clock, in ns.
    pub mean_ns: f64,
    /// Operations in flight over throughput, in ns.
    pub expected_ns: f64,
    /// How far apart these may be, in ns.
    slack_ns: f64,
    is_known: bool,
}

impl Little {
    /// Mean latency × throughput over the operations in flight: 1 where the law holds exactly.
    ///
    /// ```
    /// assert!(frazil_driver::Pace::default().little().ratio().is_nan());
    /// ```
    pub fn ratio(&self) -> f64 {
        self.mean_ns / self.expected_ns
    }

    /// Whether the latencies are valid: within a fifth, chance, and what the clock resolves.
    ///
    /// ```
    /// use frazil::Policy;
    /// use frazil_driver::{Ours, Schedule, Workload, run};
    /// let streams = Workload::Hit.streams(1_000, 10_000, 1)?;
    /// let ours = Ours::<u64>::new(Policy::Mobius, 1_000, 0);
    /// let measured = run(&ours, &streams, 0, &Schedule::seconds(0.05));
    /// let little = measured.little();
    /// assert!(little.holds(), "{little:?}");
    /// # Ok::<(), frazil_driver::WorkloadError>(())
    /// ```
    pub fn holds(&self) -> bool {
        !self.is_known || (self.mean_ns - self.expected_ns).abs() <= self.slack_ns
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

/// What an empty interval takes, in ns: the median, measured once.
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

    /// A thread that was busy for so many operations, some of which were timed.
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
        // Only what an engine does once in a while was timed.
        let beat = little(885, &[19_400, 19_500, 19_600]);
        assert!(!beat.holds() && beat.ratio() > 20.0, "{beat}");
        assert!(beat.to_string().ends_with(" not valid"), "{beat}");
        // Or just what it does otherwise.
        assert!(!little(2_000, &[300, 301, 302]).holds());
        // Few say little: one in a hundred takes long.
        let mut rare = vec![100; 100];
        rare.push(100_000);
        assert!(little(500, &rare).holds());
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
        // Requests waited for 10 ms, and the thread was there for as long.
        let little = timed.pace(2e7, 1e7, 100).little();
        assert!((little.ratio() - 1.0).abs() < 1e-9, "{little:?}");
        assert!(!timed.pace(2e7, 0.0, 100).little().holds());
    }
}
