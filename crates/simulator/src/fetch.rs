//! Durations of fetches, and the clock that measures them.
//!
//! The duration of a fetch is drawn from the number of the record that started it, and from nothing
//! else. So two policies that miss the same record wait equally long, and chance does not decide
//! between them. Memory: 8 bytes a record with [`ReplayClock::Trace`], and 8 more with
//! [`FetchLatency::Column`].

use frazil_policy::Rng;

use crate::trace::Trace;

/// The clock of fetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayClock {
    /// Every get and every set is a tick (paper 5's slot); deletes take none.
    #[default]
    Request,
    /// The trace's own times, in nanoseconds.
    Trace,
}

/// Maximum number of backends of [`FetchLatency::Keyed`].
pub const MOST_BACKENDS: usize = 16;

/// Durations of fetches, in ticks of the [`ReplayClock`]: at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FetchLatency {
    /// All equally long.
    Fixed(u64),
    /// Exponentially distributed with this mean.
    Exponential(f64),
    /// Log-normally distributed.
    LogNormal {
        /// The mean of the times themselves.
        mean: f64,
        /// The standard deviation of their logarithms.
        sigma: f64,
    },
    /// Each object has one of several backends, by its hash.
    Keyed(Backends),
    /// The duration in the trace at the record that misses ([`Trace::latencies`]).
    Column,
}

/// Durations of fetches from each of several backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backends {
    ticks: [u64; MOST_BACKENDS],
    len: usize,
}

impl Backends {
    /// Backends with these durations; `None` if there are none, or more than [`MOST_BACKENDS`].
    ///
    /// ```
    /// use frazil_simulator::Backends;
    /// assert!(Backends::new(&[10, 200]).is_some());
    /// assert!(Backends::new(&[]).is_none());
    /// ```
    pub fn new(ticks: &[u64]) -> Option<Self> {
        let mut backends = Backends { ticks: [1; MOST_BACKENDS], len: ticks.len() };
        backends.ticks.get_mut(..ticks.len())?.copy_from_slice(ticks);
        (!ticks.is_empty()).then_some(backends)
    }

    /// The number of the backend of an object with this hash.
    ///
    /// ```
    /// let backends = frazil_simulator::Backends::new(&[10, 200]).expect("two");
    /// assert_eq!((backends.number(5), backends.number(u64::MAX)), (0, 1));
    /// ```
    pub fn number(&self, hash: u64) -> usize {
        // The hash's high bits: its low ones choose sets in some policies.
        ((u128::from(hash) * self.len as u128) >> 64) as usize
    }

    fn of(&self, hash: u64) -> u64 {
        self.ticks[self.number(hash)]
    }

    fn mean(&self) -> u64 {
        let sum: u128 = self.ticks[..self.len].iter().map(|&ticks| u128::from(ticks)).sum();
        (sum / self.len as u128) as u64
    }
}

/// Why a trace cannot be replayed with fetches that take time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The clock is the trace's, and the trace has none.
    #[error("the trace has no times, so only `--clock request` can replay it")]
    NoTimes,
    /// The durations are those of the trace, and it has none.
    #[error("the trace has no column of latencies, which `--fetch-latency column` reads")]
    NoLatencies,
}

/// Durations of fetches for one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetching {
    latency: FetchLatency,
    clock: ReplayClock,
    /// Time of each record, never decreasing; empty with [`ReplayClock::Request`].
    times: Vec<u64>,
    spread: u64,
    /// Duration of the fetch that each record starts; empty unless it comes from the trace.
    column: Vec<u64>,
}

impl Fetching {
    /// Fetches that take `latency` over `trace`.
    ///
    /// With [`ReplayClock::Trace`] records with equal times are spread evenly up to the next time,
    /// and a record with an earlier time than the record before gets that record's time.
    /// O(records).
    ///
    /// # Errors
    /// If the trace lacks the times or the latencies needed.
    ///
    /// ```
    /// use frazil_simulator::{FetchLatency, Fetching, ReplayClock, trace::Trace};
    /// let trace = Trace {
    ///     ids: vec![0, 1, 0],
    ///     times_ns: vec![5, 5, 9],
    ///     objects: vec![7, 8],
    ///     ..Trace::default()
    /// };
    /// let fetching = Fetching::new(&trace, FetchLatency::Fixed(2), ReplayClock::Trace)?;
    /// assert_eq!(fetching.spread(), 1);
    /// # Ok::<(), frazil_simulator::FetchError>(())
    /// ```
    pub fn new(
        trace: &Trace,
        latency: FetchLatency,
        clock: ReplayClock,
    ) -> Result<Self, FetchError> {
        let column = match latency {
            FetchLatency::Column if trace.latencies.is_empty() => {
                return Err(FetchError::NoLatencies);
            }
            FetchLatency::Column => trace.latencies.clone(),
            _ => Vec::new(),
        };
        if clock == ReplayClock::Request {
            return Ok(Fetching { latency, clock, times: Vec::new(), spread: 0, column });
        }
        if trace.times_ns.is_empty() {
            return Err(FetchError::NoTimes);
        }
        let mut times = trace.times_ns.clone();
        let spread = spread(&mut times);
        Ok(Fetching { latency, clock, times, spread, column })
    }

    /// The clock.
    pub fn clock(&self) -> ReplayClock {
        self.clock
    }

    /// The duration of every fetch, if it is the same for all.
    pub fn fixed(&self) -> Option<u64> {
        match self.latency {
            FetchLatency::Fixed(ticks) => Some(ticks.max(1)),
            _ => None,
        }
    }

    /// Number of records with the time of the record before, which were moved.
    pub fn spread(&self) -> u64 {
        self.spread
    }

    /// Time of a record, in nanoseconds; `None` if each get and set is a tick.
    pub fn time(&self, record: usize) -> Option<u64> {
        self.times.get(record).copied()
    }

    /// The expected duration of a fetch before the first, and whether it is exact.
    pub(crate) fn expected(&self) -> (u64, bool) {
        match self.latency {
            FetchLatency::Fixed(ticks) => (ticks.max(1), true),
            FetchLatency::Exponential(mean) | FetchLatency::LogNormal { mean, .. } => {
                (ticks(mean), false)
            }
            FetchLatency::Keyed(backends) => (backends.mean().max(1), false),
            FetchLatency::Column => {
                let sum: u128 = self.column.iter().map(|&ticks| u128::from(ticks)).sum();
                ((sum / self.column.len().max(1) as u128).max(1) as u64, false)
            }
        }
    }

    /// Duration of the fetch that a miss at `record` starts, for an object with that hash.
    pub(crate) fn draw(&self, record: usize, hash: u64) -> u64 {
        let mut rng = Rng::new((record as u64).wrapping_mul(0x9e6c_63d0_876a_3f6b));
        // 1 - unit() is never 0.
        let mut exponential = || -(1.0 - rng.unit()).ln();
        match self.latency {
            FetchLatency::Fixed(ticks) => ticks.max(1),
            FetchLatency::Exponential(mean) => ticks(mean * exponential()),
            FetchLatency::LogNormal { mean, sigma } => {
                // Box and Muller's normal deviate.
                let radius = (2.0 * exponential()).sqrt();
                let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
                ticks(mean * (sigma * normal - sigma * sigma / 2.0).exp())
            }
            FetchLatency::Keyed(backends) => backends.of(hash).max(1),
            FetchLatency::Column => self.column.get(record).map_or(1, |&ticks| ticks.max(1)),
        }
    }
}

/// The nearest number of ticks, at least 1. (The cast saturates.)
fn ticks(exact: f64) -> u64 {
    (exact.round() as u64).max(1)
}

/// Makes times non-decreasing, then spreads each run of equal times evenly up to the next time. The
/// last run is spread over the gap before it. Returns the number of times moved.
pub(crate) fn spread(times: &mut [u64]) -> u64 {
    let mut latest = 0;
    for time in times.iter_mut() {
        latest = latest.max(*time);
        *time = latest;
    }
    let (mut start, mut gap, mut moved) = (0, 0, 0);
    while start < times.len() {
        let time = times[start];
        let len = times[start..].partition_point(|&other| other == time);
        if let Some(next) = times.get(start + len) {
            gap = next - time;
        }
        for (place, other) in times[start..start + len].iter_mut().enumerate().skip(1) {
            // The sum may overflow near the maximum.
            let later = (u128::from(gap) * place as u128 / len as u128) as u64;
            *other = time.saturating_add(later);
            moved += 1;
        }
        start += len;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_are_spread_and_none_goes_back() {
        let spread_out = |times: &[u64]| {
            let mut times = times.to_vec();
            let moved = spread(&mut times);
            (times, moved)
        };
        assert_eq!(spread_out(&[0, 0, 0, 0, 8, 20]), (vec![0, 2, 4, 6, 8, 20], 3));
        assert_eq!(spread_out(&[5, 3, 9]), (vec![5, 7, 9], 1));
        assert_eq!(spread_out(&[1, 4, 4, 4]), (vec![1, 4, 5, 6], 2));
        assert_eq!(spread_out(&[7, 7]), (vec![7, 7], 1));
        assert_eq!(spread_out(&[0, 0, 0, 1]), (vec![0, 0, 0, 1], 2));
        let end = u64::MAX;
        assert_eq!(spread_out(&[4, end, end]), (vec![4, end, end], 1));
    }

    #[test]
    fn times_have_the_mean_that_is_asked_for() {
        let trace = Trace::default();
        let logs = FetchLatency::LogNormal { mean: 500.0, sigma: 0.5 };
        for latency in [FetchLatency::Exponential(500.0), logs] {
            let fetching = Fetching::new(&trace, latency, ReplayClock::Request).expect("no times");
            let draws: Vec<f64> =
                (0..100_000).map(|record| fetching.draw(record, 0) as f64).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((mean / 500.0 - 1.0).abs() < 0.02, "{latency:?}: {mean}");
            let squares = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>();
            let deviation = (squares / draws.len() as f64).sqrt() / mean;
            let expected = match latency {
                FetchLatency::Exponential(_) => 1.0,
                // The variance over the squared mean is exp(sigma²) - 1.
                _ => (0.25f64.exp() - 1.0).sqrt(),
            };
            assert!((deviation / expected - 1.0).abs() < 0.03, "{latency:?}: {deviation}");
        }
    }

    #[test]
    fn a_backend_has_its_share_of_the_objects() {
        let backends = Backends::new(&[10, 20, 600]).expect("three");
        let fetching =
            Fetching::new(&Trace::default(), FetchLatency::Keyed(backends), ReplayClock::Request)
                .expect("no times");
        assert_eq!(fetching.expected(), (210, false));
        let mut rng = Rng::new(1);
        let slow = (0..30_000).filter(|_| fetching.draw(0, rng.bits()) == 600);
        let slow = slow.count() as f64;
        assert!((slow / 10_000.0 - 1.0).abs() < 0.05, "{slow}");
        assert!(Backends::new(&[1; MOST_BACKENDS + 1]).is_none());
    }

    #[test]
    fn what_the_trace_lacks_is_said() {
        let made = |latency, clock| Fetching::new(&Trace::default(), latency, clock).err();
        let fixed = FetchLatency::Fixed(5);
        assert_eq!(made(fixed, ReplayClock::Trace), Some(FetchError::NoTimes));
        assert_eq!(made(fixed, ReplayClock::Request), None);
        let column = FetchLatency::Column;
        assert_eq!(made(column, ReplayClock::Request), Some(FetchError::NoLatencies));
    }
}
