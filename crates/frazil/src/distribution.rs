//! A log-linear histogram, as users see it.
//!
//! Eight buckets to a power of two, from 0 to 2^64: quantiles are high by an eighth at most, and
//! values below 16 are exact.

/// Buckets of a power of two, as a power of two.
const LINEAR_BITS: u32 = 3;
/// Buckets of all 64-bit values.
pub(crate) const BUCKETS: usize = (65 - LINEAR_BITS as usize) << LINEAR_BITS;

/// The bucket of a value.
pub(crate) fn bucket(value: u64) -> usize {
    match value.checked_ilog2() {
        Some(power) if power >= LINEAR_BITS => {
            let shift = power - LINEAR_BITS;
            ((shift as usize) << LINEAR_BITS) + (value >> shift) as usize
        }
        _ => value as usize,
    }
}

/// The largest value of a bucket.
fn largest(bucket: usize) -> u64 {
    if bucket < 1 << LINEAR_BITS {
        return bucket as u64;
    }
    let shift = (bucket >> LINEAR_BITS) - 1;
    let leading = bucket - (shift << LINEAR_BITS);
    // For the last bucket 2^64 − 1.
    (((leading as u128 + 1) << shift) - 1) as u64
}

/// A histogram: part of [`FetchStats`](crate::FetchStats). Values lie in buckets, eight to a power
/// of two.
///
/// ```
/// let cache: frazil::Cache<u64, u64> = frazil::Cache::builder(100).build();
/// cache.get_or_insert_with(&1, || 10);
/// let waiters = cache.fetch_stats().waiters;
/// assert_eq!((waiters.count(), waiters.sum(), waiters.quantile(0.5)), (1, 0, 0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Empty, or one for each bucket.
    counts: Vec<u64>,
    sum: u64,
}

impl Distribution {
    pub(crate) fn new(counts: Vec<u64>, sum: u64) -> Self {
        Distribution { counts, sum }
    }

    /// The same, padded with zeros to this number of values.
    pub(crate) fn with_zeros_up_to(mut self, count: u64) -> Self {
        let missing = count.saturating_sub(self.count());
        if let Some(zeros) = self.counts.first_mut() {
            *zeros += missing;
        }
        self
    }

    /// Number of values. O(buckets), of which there are 496; so are the other methods.
    ///
    /// ```
    /// assert_eq!(frazil::Distribution::default().count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Exact sum of the values; in nanoseconds it wraps after 584 years.
    ///
    /// ```
    /// assert_eq!(frazil::Distribution::default().sum(), 0);
    /// ```
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Mean of the values; 0 if there is none.
    ///
    /// ```
    /// assert_eq!(frazil::Distribution::default().mean(), 0.0);
    /// ```
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }

    /// The quantile `q`, from 0 to 1, at most an eighth too high; 0 if there is no value.
    ///
    /// ```
    /// assert_eq!(frazil::Distribution::default().quantile(0.99), 0);
    /// ```
    pub fn quantile(&self, q: f64) -> u64 {
        let count = self.count();
        let wanted = ((count as f64 * q).ceil() as u64).clamp(1, count.max(1));
        let mut passed = 0;
        let found = self.counts.iter().position(|&count| {
            passed += count;
            passed >= wanted
        });
        found.map_or(0, largest)
    }

    /// Number of values less than `1 << power`.
    #[cfg(feature = "prometheus")]
    pub(crate) fn below(&self, power: u32) -> u64 {
        let end = bucket(1 << power).min(self.counts.len());
        self.counts[..end].iter().sum()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_on_each_other_and_are_narrow() {
        assert_eq!((bucket(0), bucket(u64::MAX), largest(BUCKETS - 1)), (0, BUCKETS - 1, u64::MAX));
        for number in 0..BUCKETS - 1 {
            let last = largest(number);
            assert_eq!((bucket(last), bucket(last + 1)), (number, number + 1));
            let width = last - number.checked_sub(1).map_or(0, largest);
            assert!(last < 16 || width * 8 <= last, "{last}: {width}");
        }
    }

    #[test]
    fn quantiles_are_high_by_an_eighth_at_most() {
        let values: Vec<u64> = (1..=1_000).map(|number| number * number).collect();
        let mut counts = vec![0; BUCKETS];
        values.iter().for_each(|&value| counts[bucket(value)] += 1);
        let distribution = Distribution::new(counts, values.iter().sum());
        for q in [0.0, 0.001, 0.3, 0.5, 0.99, 0.999, 1.0] {
            let exact = values[((1_000.0 * q) as usize).clamp(1, 1_000) - 1];
            let said = distribution.quantile(q);
            assert!(said >= exact && said - exact <= exact / 8, "{q}: {said}, {exact}");
        }
        assert_eq!((distribution.count(), distribution.mean()), (1_000, 333_833.5));
    }
}
