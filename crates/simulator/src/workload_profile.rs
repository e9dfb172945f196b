//! Profile of a workload: popularity, reuse, working set and sizes. It has points to plot;
//! [`crate::trace::info`] has single numbers.
//!
//! For a sample of the objects everything is scaled to all objects: each object counts as 1 / rate
//! objects, and so does each request between two requests of one object. If the sample has more
//! requests than a fair one, or fewer, the difference counts as hits of the hottest objects, as for
//! miss ratios (SHARDS-adj). The most popular objects themselves cannot be corrected.
//!
//! One pass, and a sort of the objects. 20 bytes an object while it runs, 8 for each size.

use crate::trace::{Operation, Trace, info};

/// Points of the working set over time.
const STEPS: usize = 60;
/// Points of popularity and of sizes, at even logarithmic distances.
const POINTS: u32 = 48;

/// Number of distinct objects after a number of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkingSet {
    /// Requests so far.
    pub requests: u64,
    /// Distinct objects so far.
    pub objects: u64,
    /// Distinct objects since the point before.
    pub recent: u64,
}

/// Share of the objects up to a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpToSize {
    /// The size.
    pub bytes: u64,
    /// The share of the objects that are no larger.
    pub objects: f64,
    /// Their share of the footprint.
    pub footprint: f64,
}

/// A workload as [`WorkloadProfile::of`] sees it. Requests are gets.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadProfile {
    /// Requests of some objects, by rank: the most popular is the first.
    pub popularity: Vec<(u64, u64)>,
    /// [`crate::trace::TraceInfo::zipf_alpha`].
    pub zipf_alpha: Option<f64>,
    /// `(n, share)`: share of the requests whose object was requested at most `n` requests before.
    pub reuse: Vec<(u64, f64)>,
    /// At even distances, from the beginning to the end.
    pub working_set: Vec<WorkingSet>,
    /// The share of the objects that were requested once.
    pub one_hit_objects: f64,
    /// Share of the requests for these.
    pub one_hit_requests: f64,
    /// By size at the first record; `None` where the trace has none.
    pub sizes: Option<Vec<UpToSize>>,
}

impl WorkloadProfile {
    /// Profiles a trace with the records of a share `rate` of all objects. `correction` is the
    /// factor between its requests and those of a fair sample
    /// ([`crate::trace::Origin::correction`]).
    ///
    /// O(records + objects × log(objects)).
    ///
    /// ```
    /// use frazil_simulator::{WorkloadProfile, trace};
    ///
    /// let loaded = trace::load("loop:objects=100:requests=1K", &Default::default())?;
    /// let workload = WorkloadProfile::of(&loaded.trace, 1.0, 1.0);
    /// assert_eq!((workload.one_hit_objects, workload.popularity[0]), (0.0, (1, 10)));
    /// assert_eq!(workload.reuse.last(), Some(&(127, 0.9)));
    /// assert_eq!(workload.working_set.last().map(|it| it.objects), Some(100));
    /// # Ok::<(), frazil_simulator::trace::TraceError>(())
    /// ```
    pub fn of(trace: &Trace, rate: f64, correction: f64) -> WorkloadProfile {
        let facts = info(trace);
        // Number of requests that a record stands for.
        let each = correction / rate;
        let fair = (facts.requests as f64 * correction).max(1.0);
        let seen = Seen::of(trace, facts.requests, rate, each);
        let once = seen.counts.iter().filter(|&&count| count == 1).count() as f64;
        WorkloadProfile {
            popularity: popularity(seen.counts, rate),
            zipf_alpha: facts.zipf_alpha,
            reuse: shares(&seen.gaps, facts.requests, fair, each),
            working_set: seen.working_set,
            one_hit_objects: facts.one_hit_wonder_share,
            one_hit_requests: once / fair,
            sizes: (!trace.sizes.is_empty()).then(|| sizes(trace)),
        }
    }
}

fn times(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).round() as u64
}

/// The result of a pass over the gets.
struct Seen {
    counts: Vec<u32>,
    /// Requests by the number of requests since the object's last one, in half octaves.
    gaps: [u64; 128],
    working_set: Vec<WorkingSet>,
}

impl Seen {
    fn of(trace: &Trace, requests: u64, rate: f64, each: f64) -> Seen {
        let objects = trace.objects.len();
        let mut seen = Seen { counts: vec![0; objects], gaps: [0; 128], working_set: Vec::new() };
        seen.working_set.push(WorkingSet { requests: 0, objects: 0, recent: 0 });
        let (mut last, mut window_of) = (vec![0u64; objects], vec![0u32; objects]);
        let (mut asked, mut distinct, mut recent) = (0, 0, 0);
        for (record, &id) in trace.ids.iter().enumerate() {
            if trace.operations.get(record).is_some_and(|&it| it != Operation::Get) {
                continue;
            }
            let id = id as usize;
            asked += 1;
            seen.counts[id] = seen.counts[id].saturating_add(1);
            match last[id] {
                0 => distinct += 1,
                before => seen.gaps[half_octave(asked - before)] += 1,
            }
            last[id] = asked;
            let window = seen.working_set.len() as u32;
            if window_of[id] != window {
                window_of[id] = window;
                recent += 1;
            }
            if asked as u128 * STEPS as u128 >= u128::from(requests) * u128::from(window) {
                let [objects, recently] = [distinct, recent].map(|it| times(it, 1.0 / rate));
                let requests = times(asked, each);
                seen.working_set.push(WorkingSet { requests, objects, recent: recently });
                recent = 0;
            }
        }
        seen
    }
}

/// 1; then 2, 3; then 4 to 5, 6 to 7; and so on.
fn half_octave(gap: u64) -> usize {
    let octave = gap.max(1).ilog2() as usize;
    if octave == 0 { 0 } else { 2 * octave + (gap >> (octave - 1) & 1) as usize }
}

/// The largest gap of a half octave.
fn largest(half: usize) -> u64 {
    let octave = half / 2;
    if octave == 0 { 1 } else { ((1 << octave) + ((half as u64 % 2 + 1) << (octave - 1))) - 1 }
}

/// `fair` is the number of requests of a fair sample, and `each` that which a record stands for.
fn shares(gaps: &[u64; 128], requests: u64, fair: f64, each: f64) -> Vec<(u64, f64)> {
    let end = gaps.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let mut sum = 0;
    let mut points = Vec::new();
    for (half, &count) in gaps[..end].iter().enumerate().filter(|&(half, _)| half != 1) {
        sum += count;
        let others = (requests - sum) as f64;
        points.push((times(largest(half), each), ((fair - others) / fair).max(0.0)));
    }
    points
}

/// Some of `count` places, the first and last included, at even logarithmic distances.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(1) as f64;
    let place = move |step| (last + 1.0).powf(f64::from(step) / f64::from(POINTS)) as usize - 1;
    let mut before = None;
    let places = (0..=POINTS).map(place).filter(move |_| count > 0);
    places.filter(move |&place| before.replace(place) != Some(place))
}

fn popularity(mut counts: Vec<u32>, rate: f64) -> Vec<(u64, u64)> {
    counts.retain(|&count| count > 0);
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let point = |place: usize| (times(place as u64 + 1, 1.0 / rate), u64::from(counts[place]));
    spread(counts.len()).map(point).collect()
}

fn sizes(trace: &Trace) -> Vec<UpToSize> {
    let mut sizes = Vec::with_capacity(trace.objects.len());
    for (&id, size) in trace.ids.iter().zip(trace.sizes.iter()) {
        if id as usize == sizes.len() {
            sizes.push(size);
        }
    }
    sizes.sort_unstable();
    let all: u64 = sizes.iter().sum();
    let count = sizes.len();
    let (mut next, mut sum) = (0, 0u64);
    let mut points: Vec<UpToSize> = Vec::new();
    for step in 1..=POINTS {
        let end = (count * step as usize).div_ceil(POINTS as usize);
        sum += sizes[next..end].iter().sum::<u64>();
        next = end;
        let Some(&bytes) = end.checked_sub(1).and_then(|last| sizes.get(last)) else { continue };
        let (objects, footprint) = (end as f64 / count as f64, sum as f64 / all.max(1) as f64);
        // Steps with the same size become one point: the last.
        points.pop_if(|point| point.bytes == bytes);
        points.push(UpToSize { bytes, objects, footprint });
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_fall_into_half_octaves() {
        for gap in 1..10_000 {
            let half = half_octave(gap);
            assert!(gap <= largest(half), "{gap}");
            let below = (0..half).filter(|&half| half != 1).map(largest).max();
            assert!(below.is_none_or(|below| gap > below), "{gap}");
        }
    }

    #[test]
    fn a_small_trace() {
        let trace = Trace {
            ids: vec![0, 1, 0, 2, 1, 0],
            sizes: vec![10, 30, 10, 60, 30, 10].into(),
            objects: vec![7, 8, 9],
            ..Trace::default()
        };
        let workload = WorkloadProfile::of(&trace, 1.0, 1.0);
        assert_eq!(workload.popularity, [(1, 3), (2, 2), (3, 1)]);
        // Gaps of 2, 3 and 3 among six requests.
        assert_eq!(workload.reuse, [(1, 0.0), (2, 1.0 / 6.0), (3, 0.5)]);
        assert_eq!((workload.one_hit_objects, workload.one_hit_requests), (1.0 / 3.0, 1.0 / 6.0));
        let last = workload.working_set.last().unwrap();
        assert_eq!(*last, WorkingSet { requests: 6, objects: 3, recent: 1 });
        let sizes = workload.sizes.unwrap();
        assert_eq!(sizes.iter().map(|it| it.bytes).collect::<Vec<_>>(), [10, 30, 60]);
        assert_eq!((sizes[1].objects, sizes[1].footprint), (2.0 / 3.0, 0.4));
    }

    #[test]
    fn a_sample_stands_for_all() {
        let trace = Trace { ids: vec![0, 1, 0], objects: vec![7, 8], ..Trace::default() };
        let workload = WorkloadProfile::of(&trace, 0.1, 1.0);
        assert_eq!(workload.popularity, [(10, 2), (20, 1)]);
        assert_eq!(workload.reuse.last().map(|it| it.0), Some(20));
        assert_eq!(workload.working_set.last().map(|it| (it.requests, it.objects)), Some((30, 20)));
        // A fair sample has twice the requests, and all requests for the hottest object return
        // soon.
        let adjusted = WorkloadProfile::of(&trace, 0.1, 2.0);
        assert_eq!(adjusted.reuse.last(), Some(&(40, 4.0 / 6.0)));
        assert_eq!(adjusted.one_hit_requests, 1.0 / 6.0);
        assert_eq!(adjusted.working_set.last().map(|it| (it.requests, it.objects)), Some((60, 20)));
    }
}
