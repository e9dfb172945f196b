//! How hits and misses depend on the frozen share, and which share is best.
//!
//! Paper 2, §3.2.1 and its figures 5 and 18 to 20. Without threads and without a clock.

/// Steps of the learnt share: 2 % of the entries each.
pub(crate) const STEPS: usize = 50;

/// Least requests for a point: in small caches several steps make one.
const REQUESTS_MIN: u64 = 64;

/// Learning by ranks takes one request for each entry, and at least this many.
pub(crate) const LEARNT_FROM: u64 = 10_000;

/// The results of requests observed while learning, by step: the progress of the marker, or the
/// part of the order that has the entry's rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Hits of entries that would have been frozen.
    pub(crate) frozen: [u64; STEPS],
    /// Hits of other entries.
    pub(crate) dynamic: [u64; STEPS],
    pub(crate) misses: [u64; STEPS],
}

impl Default for Tally {
    fn default() -> Self {
        Tally { frozen: [0; STEPS], dynamic: [0; STEPS], misses: [0; STEPS] }
    }
}

impl Tally {
    /// The difference to an earlier tally.
    pub(crate) fn since(&self, before: &Tally) -> Tally {
        let less = |now: &[u64; STEPS], then: &[u64; STEPS]| {
            std::array::from_fn(|step| now[step].wrapping_sub(then[step]))
        };
        Tally {
            frozen: less(&self.frozen, &before.frozen),
            dynamic: less(&self.dynamic, &before.dynamic),
            misses: less(&self.misses, &before.misses),
        }
    }

    /// All observed requests.
    pub(crate) fn requests(&self) -> u64 {
        let sum = |counts: &[u64; STEPS]| counts.iter().sum::<u64>();
        sum(&self.frozen) + sum(&self.dynamic) + sum(&self.misses)
    }

    /// The curve by a marker: each step has the shares while its part of the entries lay before the
    /// marker; `reached` is the last.
    pub(crate) fn by_marker(&self, reached: f64) -> Vec<CurvePoint> {
        let mut curve = Vec::new();
        let [mut frozen, mut dynamic, mut misses, mut from] = [0u64; 4];
        for step in 0..STEPS {
            frozen += self.frozen[step];
            dynamic += self.dynamic[step];
            misses += self.misses[step];
            let requests = frozen + dynamic + misses;
            if requests < REQUESTS_MIN {
                continue;
            }
            let end = ((step + 1) as f64 / STEPS as f64).min(reached.max(0.0));
            let share = (end + from as f64 / STEPS as f64) / 2.0;
            curve.push(CurvePoint::new(share, frozen, misses, requests));
            [frozen, dynamic, misses, from] = [0, 0, 0, step as u64 + 1];
        }
        curve
    }

    /// The curve by ranks: at each step all steps up to it are frozen. New entries live in the
    /// dynamic part, and lose the same share of their hits as that part loses of its capacity. That
    /// is an upper bound, because their first hits need the least capacity.
    pub(crate) fn by_rank(&self) -> Vec<CurvePoint> {
        let misses: u64 = self.misses.iter().sum();
        let newcomers: u64 = self.dynamic.iter().sum();
        let requests = self.requests();
        if requests < REQUESTS_MIN {
            return Vec::new();
        }
        let mut frozen = 0;
        let point = |(step, hits): (usize, &u64)| {
            frozen += hits;
            let share = (step + 1) as f64 / STEPS as f64;
            let lost = (newcomers as f64 * share).round() as u64;
            CurvePoint::new(share, frozen, misses + lost, requests)
        };
        self.frozen.iter().enumerate().map(point).collect()
    }
}

/// Predicted effect of freezing a share of the entries:
/// [`FreezingState::curve`](crate::FreezingState::curve).
///
/// ```
/// use frazil_freezing::{CurvePoint, Steering};
/// let state = Steering::new(20).state();
/// for CurvePoint { share, frozen_hits, misses, .. } in state.curve() {
///     println!("{share}: {frozen_hits} of the requests, {misses} miss");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurvePoint {
    /// The share that is frozen, from 0 to 1.
    pub share: f64,
    /// Frozen hits, of all requests.
    pub frozen_hits: f64,
    /// Misses, of all requests.
    pub misses: f64,
    /// Number of requests from which the point was learned.
    pub requests: u64,
}

impl CurvePoint {
    fn new(share: f64, frozen: u64, misses: u64, requests: u64) -> Self {
        let of_all = |count: u64| count as f64 / requests as f64;
        CurvePoint { share, frozen_hits: of_all(frozen), misses: of_all(misses), requests }
    }

    /// The mean latency of a request at this point: equation 1 of the paper, in which every request
    /// first looks up the frozen table.
    pub(crate) fn latency(&self, latencies: &Latencies) -> f64 {
        let Latencies { frozen, dynamic, miss } = *latencies;
        let dynamic_hits = (1.0 - self.frozen_hits - self.misses).max(0.0);
        self.frozen_hits * frozen
            + self.misses * (miss + frozen)
            + dynamic_hits * (frozen + dynamic)
    }

    /// The same point with the upper limit of its misses: Wilson's bound at two standard errors.
    /// Without it the best of many points would be a lucky one: a few hundred requests without a
    /// miss do not exclude a miss ratio of one in fifty.
    fn unlucky(&self) -> CurvePoint {
        let (misses, requests) = (self.misses, self.requests.max(1) as f64);
        let error = (misses * (1.0 - misses) / requests + 1.0 / (requests * requests)).sqrt();
        let most = (misses + 2.0 / requests + 2.0 * error) / (1.0 + 4.0 / requests);
        CurvePoint { misses: most, frozen_hits: self.frozen_hits.min(1.0 - most), ..*self }
    }
}

/// Latency of a request, in nanoseconds: a frozen hit, another hit, and a miss until its value is
/// present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latencies {
    pub(crate) frozen: f64,
    pub(crate) dynamic: f64,
    pub(crate) miss: f64,
}

/// The share of the curve with the lowest mean latency of a request; 0 if none is below `bar`.
pub(crate) fn best_share(curve: &[CurvePoint], latencies: &Latencies, bar: f64) -> f64 {
    let points = curve.iter().map(|point| (point.share, point.unlucky().latency(latencies)));
    let less = |best: (f64, f64), other: (f64, f64)| if other.1 < best.1 { other } else { best };
    points.fold((0.0, bar), less).0
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn tally(steps: usize, [frozen, dynamic, misses]: [u64; 3]) -> Tally {
        let mut tally = Tally::default();
        (0..steps).for_each(|step| {
            tally.frozen[step] = frozen * step as u64;
            tally.dynamic[step] = dynamic;
            tally.misses[step] = misses;
        });
        tally
    }

    #[test]
    fn a_marker_makes_a_point_of_each_step_it_passed() {
        let curve = tally(10, [100, 200, 100]).by_marker(0.19);
        assert_eq!(curve.len(), 10);
        assert_eq!((curve[0].frozen_hits, curve[0].misses), (0.0, 1.0 / 3.0));
        assert_eq!((curve[2].share, curve[2].frozen_hits), (0.05, 0.4));
        // The last step is not complete: the marker is halfway.
        assert!((curve[9].share - 0.185).abs() < 1e-9, "{}", curve[9].share);
    }

    #[test]
    fn few_requests_make_no_point_of_their_own() {
        let curve = tally(50, [0, 10, 6]).by_marker(1.0);
        // 16 a step, 64 a point.
        assert_eq!(curve.len(), 12);
        assert_eq!((curve[0].share, curve[0].requests), (0.04, 64));
        assert_eq!((curve[1].share, curve[1].misses), (0.12, 6.0 / 16.0));
    }

    #[test]
    fn ranks_add_up() {
        let mut tally = Tally::default();
        (tally.frozen[0], tally.frozen[1], tally.dynamic[0], tally.misses[0]) =
            (600, 200, 100, 100);
        let curve = tally.by_rank();
        assert_eq!(curve.len(), STEPS);
        // New entries lose two of their hundred hits with a fiftieth of the capacity, and all with
        // all of it.
        assert_eq!((curve[0].share, curve[0].frozen_hits, curve[0].misses), (0.02, 0.6, 0.102));
        assert_eq!((curve[24].misses, curve[49].misses), (0.15, 0.2));
        assert_eq!((curve[1].frozen_hits, curve[49].frozen_hits), (0.8, 0.8));
        assert_eq!(Tally::default().by_rank(), []);
    }

    #[test]
    fn the_best_share_is_where_a_request_takes_least() {
        let point = |share, frozen_hits, misses| CurvePoint {
            share,
            frozen_hits,
            misses,
            requests: 1_000_000,
        };
        let latencies = Latencies { frozen: 10.0, dynamic: 100.0, miss: 1_000.0 };
        // 0.8 × 10 + 0.05 × 1,010 + 0.15 × 110.
        assert!((point(0.5, 0.8, 0.05).latency(&latencies) - 75.0).abs() < 1e-9);
        let curve = [point(0.1, 0.4, 0.04), point(0.5, 0.8, 0.05), point(0.9, 0.9, 0.09)];
        assert_eq!(best_share(&curve, &latencies, 120.0), 0.5);
        assert_eq!(best_share(&curve, &latencies, 60.0), 0.0);
        // For a thousand requests with one miss in twenty the bound is 6.56 %.
        let mut few = curve;
        few[1].requests = 1_000;
        assert!((few[1].unlucky().misses - 0.0656).abs() < 1e-3, "{:?}", few[1].unlucky());
        assert_eq!(best_share(&few, &latencies, 91.0), 0.5);
        assert_eq!(best_share(&few, &latencies, 87.0), 0.0);
        // And for a hundred without any it is one in 26.
        let lucky = CurvePoint { misses: 0.0, requests: 100, ..few[1] };
        assert!((lucky.unlucky().misses - 1.0 / 26.0).abs() < 1e-3, "{:?}", lucky.unlucky());
        // Milliseconds a miss: the authors' code starts from a minimum of 1,000 µs and finds
        // nothing better.
        let slow = Latencies { miss: 2e7, ..latencies };
        assert_eq!(best_share(&curve, &slow, 0.0421 * 2e7), 0.1);
    }
}
