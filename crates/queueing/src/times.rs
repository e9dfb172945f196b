//! Times in profiles: constant, by the number of requests, or also by the capacity of the cache.

use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::error::time_us;
use crate::paper::interpolated;

/// A time in µs, with its dependence on other quantities.
///
/// ```
/// use frazil_queueing::Times;
/// let look_up = Times::ByCapacity(vec![(1e3, vec![0.01]), (1e5, vec![0.03, 0.04])]);
/// assert!((look_up.at(10.0)[0] - 0.01).abs() < 1e-12);
/// assert!((look_up.at(1e4)[1] - 0.02).abs() < 1e-12, "half way in the logarithms");
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(
    untagged,
    expecting = "expected a time in µs, several by the number present, as in [0.1, 0.2], or \
                 such lists by capacity, as in [[1000, [0.1]], [1e6, [0.3]]]"
)]
pub enum Times {
    /// Constant.
    One(f64),
    /// With 1, 2, … present or at work; the last stands for all higher numbers.
    ByCount(Vec<f64>),
    /// Pairs of a capacity in entries, rising, and times by number. Between capacities a power of
    /// the capacity (a straight line in both logarithms; if a time is 0, only in that of the
    /// capacity); constant beyond.
    ByCapacity(Vec<(f64, Vec<f64>)>),
}

impl Default for Times {
    fn default() -> Self {
        Times::One(0.0)
    }
}

impl Times {
    /// The times with 1, 2, … present in a cache for `capacity` entries.
    pub fn at(&self, capacity: f64) -> Vec<f64> {
        match self {
            Times::One(us) => vec![*us],
            Times::ByCount(times) => times.clone(),
            Times::ByCapacity(points) => {
                let levels = points.iter().map(|(_, times)| times.len()).max().unwrap_or(0);
                let level = |level: usize| {
                    let at = |(capacity, times): &(f64, Vec<f64>)| {
                        let us = times.get(level).or(times.last()).copied();
                        (capacity.ln(), us.unwrap_or_default())
                    };
                    let mut points: Vec<(f64, f64)> = points.iter().map(at).collect();
                    // Times of data outside the processor's caches grow faster than the logarithm.
                    let powers = points.iter().all(|&(_, us)| us > 0.0);
                    if powers {
                        points.iter_mut().for_each(|(_, us)| *us = us.ln());
                    }
                    let at = interpolated(capacity.ln(), &points);
                    if powers { at.exp() } else { at }
                };
                (0..levels).map(level).collect()
            }
        }
    }

    /// Each time plus `spreads` times its spread, but at least a hundredth of the time: with a time
    /// of 0 the interpolation would not be a power of the capacity, and a shortened time could get
    /// longer.
    pub(crate) fn shifted(&self, spread: &Times, spreads: f64) -> Times {
        let moved = |times: &[f64], spread: &[f64]| -> Vec<f64> {
            let spread = |level: usize| spread.get(level).or(spread.last()).copied();
            let moved = |(level, us): (usize, &f64)| us + spreads * spread(level).unwrap_or(0.0);
            let least = |(us, time): (f64, &f64)| us.max(time * 0.01);
            times.iter().enumerate().map(moved).zip(times).map(least).collect()
        };
        match self {
            Times::ByCapacity(points) => Times::ByCapacity(
                points.iter().map(|(at, times)| (*at, moved(times, &spread.at(*at)))).collect(),
            ),
            times => Times::ByCount(moved(&times.at(1.0), &spread.at(1.0))),
        }
    }

    /// Each time multiplied by this factor.
    pub(crate) fn scaled(&self, factor: f64) -> Times {
        // Limited to the range of times; 0 stays 0.
        let scale = |us: f64| if us > 0.0 { (us * factor).clamp(1e-9, 1e15) } else { us };
        let scaled = |times: &[f64]| times.iter().map(|&us| scale(us)).collect();
        match self {
            Times::One(us) => Times::One(scale(*us)),
            Times::ByCount(times) => Times::ByCount(scaled(times)),
            Times::ByCapacity(points) => {
                Times::ByCapacity(points.iter().map(|(at, times)| (*at, scaled(times))).collect())
            }
        }
    }

    /// Whether numbers and capacities are those of `others`.
    pub(crate) fn fits(&self, others: &Times) -> bool {
        match (self, others) {
            (Times::One(_), Times::One(_)) => true,
            (Times::ByCount(one), Times::ByCount(other)) => one.len() == other.len(),
            (Times::ByCapacity(one), Times::ByCapacity(other)) => {
                let shape = |it: &[(f64, Vec<f64>)]| -> Vec<(u64, usize)> {
                    it.iter().map(|(capacity, us)| (capacity.to_bits(), us.len())).collect()
                };
                shape(one) == shape(other)
            }
            _ => false,
        }
    }

    /// The capacities, if it depends on capacity, at which a spread exceeds twice its mean, and a
    /// nanosecond.
    pub(crate) fn doubtful(&self, spread: &Times) -> Vec<Option<f64>> {
        let capacities: Vec<Option<f64>> = match self {
            Times::ByCapacity(points) => points.iter().map(|it| Some(it.0)).collect(),
            _ => vec![None],
        };
        let is_doubtful = |at: &Option<f64>| {
            let at = at.unwrap_or(1.0);
            let spread = spread.at(at);
            let of = |level: usize| spread.get(level).or(spread.last()).copied().unwrap_or(0.0);
            let wide = |(level, us): (usize, &f64)| of(level) > (2.0 * us).max(1e-3);
            self.at(at).iter().enumerate().any(wide)
        };
        capacities.into_iter().filter(is_doubtful).collect()
    }

    /// Refuses values that no measurement gives.
    pub(crate) fn check(&self, what: impl Fn() -> String) -> Result<(), ModelError> {
        let list = |times: &[f64]| {
            if times.is_empty() {
                let text = format!("{}: expected at least one time", what());
                return Err(ModelError::Malformed(text));
            }
            times.iter().try_for_each(|&us| time_us(&what, us).map(drop))
        };
        match self {
            Times::One(us) => list(&[*us]),
            Times::ByCount(times) => list(times),
            Times::ByCapacity(points) => {
                let rises = points.is_sorted_by(|one, other| one.0 < other.0);
                let sensible = points.iter().all(|(at, _)| (1.0..=1e15).contains(at));
                if points.is_empty() || !rises || !sensible {
                    let text = format!("{}: expected pairs of rising capacity and times", what());
                    return Err(ModelError::Malformed(text));
                }
                points.iter().try_for_each(|(_, times)| list(times))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shortened_is_shorter_everywhere() {
        let times = Times::ByCapacity(vec![(1e3, vec![0.001]), (1e6, vec![1.0])]);
        let spread = Times::ByCapacity(vec![(1e3, vec![0.002]), (1e6, vec![0.1])]);
        let shorter = times.shifted(&spread, -1.0);
        for capacity in [1e3, 1e4, 1e5, 1e6] {
            let [time, less] = [&times, &shorter].map(|it| it.at(capacity)[0]);
            assert!(0.0 < less && less < time, "{capacity}: {less} {time}");
        }
    }
}
