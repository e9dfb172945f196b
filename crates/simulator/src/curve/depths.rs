//! Counts of requests by the depth at which they found their object.

/// Counts by depth, in buckets. Each depth below 2^`bits` has its own; greater depths share one if
/// their first `bits` binary digits are equal. So the relative error is about 2^-`bits`.
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

    /// Depths accurate to one part in sixteen thousand: at most 6 MiB.
    pub(super) fn rounded() -> Self {
        Depths { bits: 14, counts: Vec::new() }
    }

    #[inline]
    fn bucket(&self, depth: u64) -> usize {
        if depth >> self.bits == 0 {
            return depth as usize;
        }
        let octave = u64::BITS - depth.leading_zeros() - self.bits;
        // The leading 1 of the digits adds the size of an octave.
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

    /// For each of `depths`, in ascending order: the sum of the weights at that depth or less.
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
