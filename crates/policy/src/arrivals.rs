//! The mean time between an object's last requests.
//!
//! LA-Cache (Yan and Li, ATC 2022) keeps the times of 20. Here two times and a count suffice,
//! and the mean covers the last [`HALF`] to 2 × [`HALF`] gaps: at the upper bound the older
//! half is forgotten. 32 bytes, O(1).

/// Gaps after which the weight of a gap has halved.
const HALF: u32 = 10;

/// The times of an object's last requests that their mean gap needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// Time of the request from which gaps are counted.
    start: u64,
    /// Time of the request that becomes `start` when the older half is forgotten.
    middle: u64,
    last: u64,
    /// Gaps since `start`.
    gaps: u32,
}

impl Arrivals {
    /// Arrivals of an object that is requested for the first time.
    pub(crate) fn first(now: u64) -> Self {
        Arrivals { start: now, middle: now, last: now, gaps: 0 }
    }

    pub(crate) fn request(&mut self, now: u64) {
        self.gaps += 1;
        self.last = now;
        if self.gaps == HALF {
            self.middle = now;
        } else if self.gaps == 2 * HALF {
            (self.start, self.middle, self.gaps) = (self.middle, now, HALF);
        }
    }

    /// Number of gaps in the mean.
    pub(crate) fn gaps(&self) -> u32 {
        self.gaps
    }

    /// Requests a tick, by the mean gap; `None` after a single request. At most 1.
    pub(crate) fn rate(&self) -> Option<f64> {
        let span = self.last.saturating_sub(self.start).max(self.gaps.into());
        (self.gaps > 0).then(|| f64::from(self.gaps) / span as f64)
    }

    /// When it was requested last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Ticks since the last request, plus one.
    pub(crate) fn idle(&self, now: u64) -> f64 {
        now.saturating_sub(self.last) as f64 + 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_half_is_forgotten() {
        let mut arrivals = Arrivals::first(0);
        assert_eq!((arrivals.rate(), arrivals.idle(3)), (None, 4.0));
        let mut now = 0;
        for gap in [100; 10].into_iter().chain([10; 9]) {
            now += gap;
            arrivals.request(now);
        }
        assert_eq!((arrivals.gaps(), arrivals.rate()), (19, Some(19.0 / 1_090.0)));
        arrivals.request(now + 10);
        assert_eq!((arrivals.gaps(), arrivals.rate()), (10, Some(0.1)));
    }
}
