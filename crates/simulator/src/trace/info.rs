//! Statistics of a trace: one pass, and a sort of the objects' request counts. 12 bytes an object
//! while it runs.

use super::{Operation, Trace};

/// Facts about a trace.
///
/// Requests are gets, as in a miss ratio; sets and deletes are counted apart.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInfo {
    /// Records of every operation.
    pub records: u64,
    /// Gets.
    pub requests: u64,
    /// Sets.
    pub sets: u64,
    /// Deletes.
    pub deletes: u64,
    /// Distinct objects in records of any operation.
    pub objects: u64,
    /// Sum of the objects' sizes at their first record; `None` without sizes.
    pub footprint_bytes: Option<u64>,
    /// Sum of the sizes over all requests; `None` without sizes.
    pub requested_bytes: Option<u64>,
    /// Time of the first record in nanoseconds; `None` without times.
    pub first_time_ns: Option<u64>,
    /// Time of the last record in nanoseconds; `None` without times.
    pub last_time_ns: Option<u64>,
    /// Exponent of the Zipf law nearest to the popularity; `None` for fewer than ten objects.
    ///
    /// The slope of the least-squares line through log frequency over log rank. Ranks are taken at
    /// even distances of the logarithm, so that the few hot ranks weigh as much as the many cold
    /// ones. They end at a frequency of 5 (if ten objects have more): below it frequencies are few
    /// whole numbers, and the line would follow the steps.
    pub zipf_alpha: Option<f64>,
    /// Objects requested exactly once, as a share of all objects.
    pub one_hit_wonder_share: f64,
    /// Requests per object, on average.
    pub mean_requests: f64,
    /// Requests to the most requested object.
    pub max_requests: u64,
    /// Share of the requests that go to the most requested 1 % of the objects (at least one).
    pub top_1_percent_share: f64,
    /// The same for 10 %.
    pub top_10_percent_share: f64,
}

/// Describes a trace. O(records), plus a sort of its objects.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, info, load};
///
/// let loaded = load("loop:objects=50:requests=100", &ReadOptions::default())?;
/// let facts = info(&loaded.trace);
/// assert_eq!((facts.requests, facts.objects, facts.max_requests), (100, 50, 2));
/// assert_eq!(facts.footprint_bytes, None);
/// assert_eq!(facts.top_10_percent_share, 0.1);
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
pub fn info(trace: &Trace) -> TraceInfo {
    let mut counts = vec![0u64; trace.objects.len()];
    let (mut sets, mut deletes) = (0, 0);
    for (index, &id) in trace.ids.iter().enumerate() {
        match operation(trace, index) {
            Operation::Get => counts[id as usize] += 1,
            Operation::Set => sets += 1,
            Operation::Delete => deletes += 1,
        }
    }
    let records = trace.ids.len() as u64;
    let requests = records - sets - deletes;
    let one_hit_wonders = counts.iter().filter(|&&count| count == 1).count();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let objects = counts.len() as u64;
    let per_object = |count: u64| count as f64 / objects.max(1) as f64;
    let top = |share: usize| {
        let hottest = counts.len() / share;
        let asked: u64 = counts.iter().take(hottest.max(1)).sum();
        asked as f64 / requests.max(1) as f64
    };
    TraceInfo {
        records,
        requests,
        sets,
        deletes,
        objects,
        footprint_bytes: trace.footprint_bytes(),
        requested_bytes: requested_bytes(trace),
        first_time_ns: trace.times_ns.first().copied(),
        last_time_ns: trace.times_ns.last().copied(),
        zipf_alpha: zipf_alpha(&counts),
        one_hit_wonder_share: per_object(one_hit_wonders as u64),
        mean_requests: per_object(requests),
        max_requests: counts.first().copied().unwrap_or_default(),
        top_1_percent_share: top(100),
        top_10_percent_share: top(10),
    }
}

fn operation(trace: &Trace, index: usize) -> Operation {
    trace.operations.get(index).copied().unwrap_or_default()
}

/// Sum of the sizes over all gets.
fn requested_bytes(trace: &Trace) -> Option<u64> {
    let gets = |&(index, _): &(usize, u64)| operation(trace, index) == Operation::Get;
    let sizes = trace.sizes.iter().enumerate().filter(gets);
    (!trace.sizes.is_empty()).then(|| sizes.map(|(_, size)| size).sum())
}

/// The fewest objects for which a line is fitted.
const MIN_RANKS: usize = 10;
/// The least frequency of a rank in the fit.
const MIN_FREQUENCY: u64 = 5;
/// Ratio of two successive ranks.
const RANK_STEP: f64 = 1.1;

/// The negative slope of log frequency over log rank; `counts` fall.
fn zipf_alpha(counts: &[u64]) -> Option<f64> {
    let frequent = counts.partition_point(|&count| count >= MIN_FREQUENCY);
    let enough =
        if frequent >= MIN_RANKS { frequent } else { counts.partition_point(|&count| count > 0) };
    if enough < MIN_RANKS {
        return None;
    }
    let (mut n, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut rank = 1;
    while rank <= enough {
        let x = (rank as f64).ln();
        let y = (counts[rank - 1] as f64).ln();
        n += 1.0;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
        rank = ((rank as f64 * RANK_STEP) as usize).max(rank + 1);
    }
    // A level line has slope 0, not -0.
    Some((sx * sy - n * sxy) / (n * sxx - sx * sx) + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_shares() {
        let trace = Trace {
            ids: vec![0, 1, 0, 2, 0, 1, 3],
            sizes: vec![10, 5, 20, 1, 20, 5, 7].into(),
            times_ns: vec![3, 4, 5, 6, 7, 8, 9],
            operations: vec![
                Operation::Get,
                Operation::Set,
                Operation::Get,
                Operation::Get,
                Operation::Get,
                Operation::Delete,
                Operation::Get,
            ],
            objects: vec![100, 101, 102, 103],
            ..Trace::default()
        };
        let expected = TraceInfo {
            records: 7,
            requests: 5,
            sets: 1,
            deletes: 1,
            objects: 4,
            footprint_bytes: Some(23),
            requested_bytes: Some(58),
            first_time_ns: Some(3),
            last_time_ns: Some(9),
            zipf_alpha: None,
            one_hit_wonder_share: 0.5,
            mean_requests: 1.25,
            max_requests: 3,
            top_1_percent_share: 0.6,
            top_10_percent_share: 0.6,
        };
        assert_eq!(info(&trace), expected);
        assert_eq!(info(&Trace::default()).requests, 0);
    }

    #[test]
    fn the_exponent_of_an_exact_law_is_found() {
        for alpha in [0.0f64, 0.6, 1.0, 1.4] {
            let counts: Vec<u64> =
                (1..=1_000).map(|rank| (1e9 * f64::from(rank).powf(-alpha)) as u64).collect();
            let found = zipf_alpha(&counts).unwrap();
            assert!((found - alpha).abs() < 1e-3, "{found} for {alpha}");
        }
    }
}
