//! How many requests found their object at which depth.

/// Counts by depth, in buckets: depths below 2^`bits` have one each, and of greater ones
/// those that share their first `bits` + 1 digits. So a depth is known to 2^-`bits` of it.
pub(super) struct Depths {
    bits: u32,
    /// Sums of weights, which are whole numbers unless requests were sampled.
    counts: Vec<f64>,
}

impl Depths {
    /// One count for each depth, for depths in 32 bits: 8 bytes for each up to the deepest.
    pub(super) fn exact() -> Self {
        Depths { bits: 32, counts: Vec::new() }
    }

    /// Depths to a sixteen thousandth: at most 6 MiB.
    pub(super) fn rounded() -> Self {
        Depths { bits: 14, counts: Vec::new() }
    }

    #[inline]
    fn bucket(&self, depth: u64) -> usize {
        if depth >> self.bits == 0 {
            return depth as usize;
        }
        let octave = u64::BITS - depth.leading_zeros() - self.bits;
        // The first of the digits adds the last octave's size to an octave's beginning.
        ((u64::from(octave - 1) << (self.bits - 1)) + (depth >> octave) + (1 << (self.bits - 1)))
            as usize
    }

    /// Counts a request of a weight at a depth.
    #[inline]
    pub(super) fn add(&mut self, depth: u64, weight: f64) {
        let bucket = self.bucket(depth);
        if bucket >= self.counts.len() {
            self.counts.resize((bucket + 1).max(self.counts.len() * 3 / 2), 0.0);
        }
        self.counts[bucket] += weight;
    }

    /// Sums of the weights at each of some depths or above, least depth first.
    pub(super) fn up_to(&self, depths: &[u64]) -> Vec<f64> {
        let (mut sum, mut at) = (0.0, 0);
        let mut sums = Vec::with_capacity(depths.len());
        for &depth in depths {
            let end = (self.bucket(depth) + 1).min(self.counts.len());
            sum += self.counts.get(at..end).map_or(0.0, |counts| counts.iter().sum());
            at = at.max(end);
            sums.push(sum);
        }
        sums
    }
}
