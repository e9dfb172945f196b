//! The distribution of response times: a histogram of any range, to one part in 128. It has
//! weights, so that hits, delayed hits and misses can be counted apart and mixed afterwards.
//!
//! A bucket is a number's exponent and the first seven bits of its fraction: O(log buckets) to
//! count a time; 16 bytes a bucket, and 128 buckets for each power of two between the least time
//! and the greatest.

use std::collections::BTreeMap;

/// Bits of a number that a bucket drops: all but seven of the fraction's 52.
const DROPPED: u32 = 45;

/// Times in µs, with weights.
///
/// ```
/// use frazil_queueing::ResponseTimes;
/// let mut hits = ResponseTimes::default();
/// hits.add(2.0, 1.0);
/// // Nine of ten requests hit, the others wait for 100 µs or for 50.
/// let waiting = hits.delayed_by(&[100.0, 50.0]);
/// let all = ResponseTimes::mixed(&[(0.9, &hits), (0.1, &waiting)]);
/// assert!((all.quantile(0.5).unwrap() / 2.0 - 1.0).abs() < 0.01);
/// assert!((all.quantile(0.99).unwrap() / 102.0 - 1.0).abs() < 0.01);
/// assert!((all.mean().unwrap() - (2.0 + 7.5)).abs() < 1e-9);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseTimes {
    /// Weight of each bucket. Numbers from 0 on are in the order of their bits.
    buckets: BTreeMap<u64, f64>,
    weight: f64,
    sum: f64,
}

impl ResponseTimes {
    /// Counts a time with a weight. Times below 0 and NaN count as 0; without a weight above 0
    /// nothing is counted.
    ///
    /// ```
    /// let mut times = frazil_queueing::ResponseTimes::default();
    /// times.add(f64::NAN, 1.0);
    /// times.add(5.0, 0.0);
    /// assert_eq!(times.quantile(1.0), Some(0.0));
    /// ```
    pub fn add(&mut self, us: f64, weight: f64) {
        let us = if us > 0.0 { us.min(f64::MAX) } else { 0.0 };
        if weight > 0.0 && weight.is_finite() {
            *self.buckets.entry(us.to_bits() >> DROPPED).or_default() += weight;
            self.weight += weight;
            self.sum += us * weight;
        }
    }

    /// The mean; `None` if nothing was counted.
    ///
    /// ```
    /// assert_eq!(frazil_queueing::ResponseTimes::default().mean(), None);
    /// ```
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// The quantile, to one part in 128; `None` if nothing was counted. O(buckets).
    ///
    /// ```
    /// let mut times = frazil_queueing::ResponseTimes::default();
    /// (1..=100).for_each(|us| times.add(f64::from(us), 1.0));
    /// assert!((times.quantile(0.99).unwrap() / 99.0 - 1.0).abs() < 0.01);
    /// ```
    pub fn quantile(&self, share: f64) -> Option<f64> {
        // Rounding makes sums of weights depend on their order.
        let wanted = share.clamp(0.0, 1.0) * self.weight * (1.0 - 1e-12);
        let mut below = 0.0;
        let reaches = |(_, weight): &(&u64, &f64)| {
            below += **weight;
            below >= wanted
        };
        let last = self.buckets.iter().next_back();
        let found = self.buckets.iter().find(reaches).or(last);
        found.map(|(&bucket, _)| middle(bucket))
    }

    /// The same times, each longer by one of `waits_us`, which are equally likely. O(buckets ×
    /// waits × log buckets).
    ///
    /// ```
    /// let mut times = frazil_queueing::ResponseTimes::default();
    /// times.add(1.0, 1.0);
    /// assert_eq!(times.delayed_by(&[1.0, 3.0]).mean(), Some(3.0));
    /// ```
    pub fn delayed_by(&self, waits_us: &[f64]) -> Self {
        let mut delayed = Self::default();
        let mean = self.mean().unwrap_or_default();
        for (&bucket, &weight) in &self.buckets {
            for &wait in waits_us {
                delayed.add(middle(bucket) + wait, weight / waits_us.len() as f64);
            }
        }
        // This mean is more accurate than that of the middles of the buckets.
        let waited = waits_us.iter().map(|wait| wait.max(0.0)).sum::<f64>();
        delayed.sum = (mean + waited / waits_us.len().max(1) as f64) * delayed.weight;
        delayed
    }

    /// Response times of several kinds of requests, mixed by their shares.
    pub fn mixed(kinds: &[(f64, &ResponseTimes)]) -> Self {
        let mut mixed = Self::default();
        for (share, times) in kinds.iter().filter(|(share, _)| *share > 0.0) {
            let scale = share / times.weight;
            if !scale.is_finite() {
                continue;
            }
            for (&bucket, &weight) in &times.buckets {
                *mixed.buckets.entry(bucket).or_default() += weight * scale;
            }
            mixed.weight += share;
            mixed.sum += times.sum * scale;
        }
        mixed
    }
}

/// The middle of a bucket.
fn middle(bucket: u64) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    f64::from_bits((bucket << DROPPED) + (1 << (DROPPED - 1)))
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn quantile(times: &mut [f64], share: f64) -> f64 {
        times.sort_by(f64::total_cmp);
        times[((share * times.len() as f64).ceil() as usize).max(1) - 1]
    }

    /// Compares a mixture with requests that are drawn one by one.
    #[test]
    fn a_mixture_is_what_sampling_gives() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut exponential = |mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
        let mut hits = ResponseTimes::default();
        (0..200_000).for_each(|_| hits.add(exponential(3.0), 1.0));
        let waits: Vec<f64> = (0..50).map(|step| f64::from(step) * 2.0 + 1.0).collect();
        let delayed = hits.delayed_by(&waits);
        let misses = hits.delayed_by(&[100.0]);
        let parts = [(0.95, &hits), (0.04, &delayed), (0.01, &misses)];
        let mixed = ResponseTimes::mixed(&parts);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
        let draw = |_| {
            let own = -3.0 * (1.0 - rng.random::<f64>()).ln();
            match rng.random::<f64>() {
                ..0.95 => own,
                ..0.99 => own + rng.random::<f64>() * 100.0,
                _ => own + 100.0,
            }
        };
        let mut drawn: Vec<f64> = (0..200_000).map(draw).collect();
        for share in [0.1, 0.5, 0.9, 0.97, 0.99] {
            let (told, seen) = (mixed.quantile(share).unwrap(), quantile(&mut drawn, share));
            assert!((told / seen - 1.0).abs() < 0.04, "{share}: {told}, {seen}");
        }
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mixed.mean().unwrap() / mean - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn nothing_and_extremes() {
        let none = ResponseTimes::default();
        assert_eq!((none.quantile(0.5), none.mean()), (None, None));
        assert_eq!(ResponseTimes::mixed(&[(0.5, &none)]), none);
        assert_eq!(none.delayed_by(&[1.0]), none);
        let mut times = ResponseTimes::default();
        for us in [-1.0, -0.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN] {
            times.add(us, 1.0);
        }
        assert_eq!(times.quantile(0.0), Some(0.0));
        assert!(times.quantile(1.0).is_some_and(f64::is_finite));
        assert_eq!(times.delayed_by(&[]), none);
    }
}
