//! Throughput as a function of the hit ratio: its peak, and the class of the policy.

use std::fmt;

use crate::ModelError;

/// Steps of the first scan of a curve.
const STEPS: usize = 240;
/// Halvings of an interval: 2⁻⁴⁰ of a step.
const HALVINGS: usize = 40;

/// Relative difference up to which throughputs count as equal: above rounding errors at the largest
/// MPL, and below anything measurable.
const FLAT: f64 = 1e-9;

/// The maximum of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The lowest hit ratio of the maximum.
    pub low: f64,
    /// The highest hit ratio of the maximum, p*_hit: beyond it more hits lower the throughput.
    pub high: f64,
    /// The throughput there, Mops.
    pub throughput_mops: f64,
}

/// Finds the maximum of a throughput between two hit ratios: the whole interval around the highest
/// point in which it is equal to a billionth.
///
/// Bounds have flat tops. Exact solutions are round, and the interval is mostly a point; if one
/// station is saturated at most hit ratios, they are flat too. The curve is scanned in 240 steps,
/// then refined; it should have one peak.
///
/// # Errors
///
/// Errors of the curve; an invalid range.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, bounds, peak};
/// let bound = |p| Ok(bounds(&PaperNetwork::Lru.network(p, 100.0, Use::Bound)?, 72)?.upper_mops);
/// let peak = peak((0.0, 1.0), bound)?;
/// assert!((peak.low - 0.5904).abs() < 1e-4 && (peak.high - 0.59 / 0.7).abs() < 1e-4);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn peak(
    (low, high): (f64, f64),
    mut curve: impl FnMut(f64) -> Result<f64, ModelError>,
) -> Result<Peak, ModelError> {
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return Err(ModelError::Malformed(format!("{low} to {high} is no range")));
    }
    let at = |step: usize| {
        if step == STEPS { high } else { low + (high - low) * step as f64 / STEPS as f64 }
    };
    let mut values = Vec::with_capacity(STEPS + 1);
    for step in 0..=STEPS {
        values.push(curve(at(step))?);
    }
    let mut best = 0;
    for (step, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = step;
        }
    }
    let around = (at(best.saturating_sub(1)), at((best + 1).min(STEPS)));
    let (top, found) = refine(around, &mut curve)?;
    let (top, highest) = if found > values[best] { (top, found) } else { (at(best), values[best]) };
    let enough = highest - highest.abs() * FLAT;
    let below = (0..STEPS).rev().find(|&step| at(step) < top && values[step] < enough);
    let above = (0..=STEPS).find(|&step| at(step) > top && values[step] < enough);
    // If a curve has two peaks, the interval stays around the higher one.
    let inside_low = below.map_or(low, |step| at(step + 1).min(top));
    let inside_high = above.map_or(high, |step| at(step - 1).max(top));
    Ok(Peak {
        low: match below {
            Some(step) => edge((at(step), inside_low), enough, &mut curve)?,
            None => low,
        },
        high: match above {
            Some(step) => edge((at(step), inside_high), enough, &mut curve)?,
            None => high,
        },
        throughput_mops: highest,
    })
}

/// The highest point within an interval with one peak, by golden section.
fn refine(
    (mut low, mut high): (f64, f64),
    curve: &mut impl FnMut(f64) -> Result<f64, ModelError>,
) -> Result<(f64, f64), ModelError> {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let mut left = high - GOLDEN * (high - low);
    let mut right = low + GOLDEN * (high - low);
    let (mut at_left, mut at_right) = (curve(left)?, curve(right)?);
    for _ in 0..HALVINGS {
        if at_left < at_right {
            (low, left, at_left) = (left, right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = curve(right)?;
        } else {
            (high, right, at_right) = (right, left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = curve(left)?;
        }
    }
    Ok(if at_left >= at_right { (left, at_left) } else { (right, at_right) })
}

/// The place where a curve crosses `enough`, between one below and one that is not.
fn edge(
    (mut outside, mut inside): (f64, f64),
    enough: f64,
    curve: &mut impl FnMut(f64) -> Result<f64, ModelError>,
) -> Result<f64, ModelError> {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(outside, inside);
        if curve(middle)? < enough {
            outside = middle;
        } else {
            inside = middle;
        }
    }
    Ok(inside)
}

/// The paper's two kinds of policy (§5.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Class {
    /// Above some hit ratio more hits lower the throughput.
    LruLike,
    /// More hits never lower the throughput.
    FifoLike,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::LruLike => "lru-like",
            Class::FifoLike => "fifo-like",
        })
    }
}

/// Classifies a policy by its greatest demand at each hit ratio
/// ([`Network::max_demand_us`](crate::Network::max_demand_us)): LRU-like if 1 / D_max at a hit
/// ratio of 1 is more than 1 % below its maximum from 0.4 to 1. For a large MPL that bound is the
/// throughput, with any backend.
///
/// # Errors
///
/// Errors of the demands.
///
/// ```
/// use frazil_queueing::{Class, PaperNetwork, Use, classify};
/// let class = |network: PaperNetwork| {
///     classify(|p| Ok(network.network(p, 100.0, Use::Bound)?.max_demand_us()))
/// };
/// assert_eq!(class(PaperNetwork::Lru)?, Class::LruLike);
/// assert_eq!(class(PaperNetwork::Clock)?, Class::FifoLike);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn classify(
    mut max_demand_us: impl FnMut(f64) -> Result<f64, ModelError>,
) -> Result<Class, ModelError> {
    const LEAST: f64 = 0.4;
    const CLASS_STEPS: u32 = 600;
    let last = max_demand_us(1.0)?;
    let mut least = last;
    for step in 0..CLASS_STEPS {
        let hit_ratio = LEAST + (1.0 - LEAST) * f64::from(step) / f64::from(CLASS_STEPS);
        least = least.min(max_demand_us(hit_ratio)?);
    }
    Ok(if last > least / 0.99 { Class::LruLike } else { Class::FifoLike })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(curve: impl Fn(f64) -> f64) -> (f64, f64) {
        let peak = peak((0.0, 1.0), |x| Ok(curve(x))).unwrap();
        (peak.low, peak.high)
    }

    #[test]
    fn peaks_are_found() {
        let close = |(low, high): (f64, f64), (a, b): (f64, f64)| {
            assert!((low - a).abs() < 1e-4 && (high - b).abs() < 1e-4, "{low} {high}, {a} {b}");
        };
        close(found(|x| x), (1.0, 1.0));
        close(found(|x| -x), (0.0, 0.0));
        close(found(|_| 2.0), (0.0, 1.0));
        close(found(|x| x.min(0.3)), (0.3, 1.0));
        close(found(|x| x.min(0.3).min(1.0 - x)), (0.3, 0.7));
        close(found(|x| -(x - 0.123).abs()), (0.123, 0.123));
        close(found(|x| -(x - 0.1234) * (x - 0.1234) - 1.0), (0.1234, 0.1234));
        // A flat top narrower than a step.
        close(found(|x| x.min(0.5001).min(1.0006 - x)), (0.5001, 0.5005));
        assert!(peak((1.0, 0.0), Ok).is_err());
        assert!(peak((f64::NAN, 1.0), Ok).is_err());
    }
}
