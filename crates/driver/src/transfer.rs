//! The latency of a cache line from one core to another.
//!
//! The cores of a virtual machine are threads of its host, which may move them. At one moment they
//! share a cache, and a line takes 25 ns from one to the other; at the next they are on different
//! dies, and it takes 190 ns. All shared data are then several times slower, although each thread
//! has its core all the time. So a comparison of runs with several threads must measure this
//! latency.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

use crate::cores;

/// Round trips for a figure, and number of figures.
const TRIPS: u32 = 20;
const FIGURES: u32 = 25;

/// Cores count as equally far from each other up to this factor.
const SAME: f64 = 1.5;
/// Time of watching the distance of cores.
const LOOK: Duration = Duration::from_secs(3);
/// Time between two measurements.
const STEP: Duration = Duration::from_millis(20);
/// Total time that all runs wait for cores at the required distance.
const PATIENCE: Duration = Duration::from_secs(300);

/// A line that two threads write alternately.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    fn wait_for(&self, turn: u32) {
        // Acquire: partner is the Release of `pass`.
        while self.0.load(Acquire) != turn {
            std::hint::spin_loop();
        }
    }

    fn pass(&self, turn: u32) {
        self.0.store(turn, Release);
    }
}

/// Nanoseconds until one core reads a line that another has written, for the first two cores that
/// this process may use: the median of 25 figures. It takes some 0.2 ms, plus the wait for both
/// cores. `None` if there is one core, or the cores are unknown.
///
/// ```
/// assert!(frazil_driver::transfer_ns().is_none_or(|ns| ns > 1.0));
/// ```
pub fn transfer_ns() -> Option<f64> {
    let allowed = cores::allowed();
    if allowed.len() < 2 {
        return None;
    }
    let line = Line::default();
    let trips = TRIPS * FIGURES;
    let mut figures = std::thread::scope(|scope| {
        scope.spawn(|| {
            cores::take_turn(1, &allowed);
            for trip in 0..trips {
                line.wait_for(2 * trip + 1);
                line.pass(2 * trip + 2);
            }
        });
        let timing = scope.spawn(|| {
            cores::take_turn(0, &allowed);
            let mut trip = 0;
            let figure = |_| {
                let began = Instant::now();
                for _ in 0..TRIPS {
                    line.pass(2 * trip + 1);
                    line.wait_for(2 * trip + 2);
                    trip += 1;
                }
                began.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS)
            };
            (0..FIGURES).map(figure).collect::<Vec<f64>>()
        });
        timing.join().unwrap_or_default()
    });
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// The distance of cores in runs that are compared.
///
/// ```
/// use frazil_driver::Distance;
/// let mut distance = Distance::of(None);
/// distance.wait();
/// assert!(distance.is_kept()); // whatever it is
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Distance {
    wanted_ns: Option<f64>,
    patience: Duration,
}

impl Distance {
    /// The required time of a transfer from core to core, in nanoseconds; any with `None`.
    pub fn of(wanted_ns: Option<f64>) -> Self {
        Distance { wanted_ns, patience: PATIENCE }
    }

    /// The same distance; all runs together wait for it at most `patience`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use frazil_driver::Distance;
    /// assert!(!Distance::of(Some(25.0)).with_patience(Duration::ZERO).has_patience());
    /// ```
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Distance { patience, ..self }
    }

    /// The least distance within three seconds.
    pub fn least() -> Self {
        let began = Instant::now();
        let mut least: Option<f64> = None;
        while began.elapsed() < LOOK {
            let Some(seen) = transfer_ns() else { break };
            least = Some(least.map_or(seen, |least| least.min(seen)));
            std::thread::sleep(STEP);
        }
        Distance::of(least)
    }

    /// The required latency.
    pub fn transfer_ns(&self) -> Option<f64> {
        self.wanted_ns
    }

    /// Whether the latency now is the required one, to a factor of 1.5.
    pub fn is_kept(&self) -> bool {
        let seen = self.wanted_ns.and_then(|_| transfer_ns());
        let same = |(seen, wanted)| (wanted / SAME..=wanted * SAME).contains(&seen);
        seen.zip(self.wanted_ns).is_none_or(same)
    }

    /// Waits until the latency is the required one; five minutes in all.
    pub fn wait(&mut self) {
        let began = Instant::now();
        let patience = self.patience;
        while !self.patience.is_zero() && !self.is_kept() {
            std::thread::sleep(STEP);
            self.patience = patience.saturating_sub(began.elapsed());
        }
    }

    /// Shortens the patience by this time, after a run that does not count.
    pub fn spend(&mut self, time: Duration) {
        self.patience = self.patience.saturating_sub(time);
    }

    /// Whether [`wait`](Self::wait) would wait any longer.
    pub fn has_patience(&self) -> bool {
        !self.patience.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_what_never_comes_gives_up() {
        if transfer_ns().is_none() {
            eprintln!("SKIPPED: there is one core");
            return;
        }
        let mut distance = Distance { wanted_ns: Some(1e9), patience: Duration::from_millis(50) };
        assert!(!distance.is_kept() && distance.has_patience());
        distance.wait();
        assert!(!distance.has_patience());
        let mut distance = Distance { wanted_ns: None, patience: Duration::from_millis(50) };
        distance.wait();
        assert!(distance.has_patience());
        distance.spend(Duration::from_secs(1));
        assert!(!distance.has_patience());
    }
}
