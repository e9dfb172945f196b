//! Metrics of loads and fetches.

use super::{Metric, Sample, counter, gauge, seconds};
use crate::{Distribution, FetchStats};

/// Values by size: for each power of two the number of values below it, which is exact.
fn histogram(
    (name, help): (&'static str, &'static str),
    distribution: &Distribution,
    powers: impl Iterator<Item = u32>,
    unit: fn(u64) -> String,
) -> Metric {
    let mut samples: Vec<Sample> = powers
        .map(|power| Sample {
            suffix: "_bucket",
            label: Some(("le", unit((1 << power) - 1))),
            value: distribution.below(power).to_string(),
        })
        .collect();
    let count = distribution.count().to_string();
    let (suffix, label) = ("_bucket", Some(("le", "+Inf".to_owned())));
    samples.push(Sample { suffix, label, value: count.clone() });
    samples.push(Sample::new("_sum", unit(distribution.sum())));
    samples.push(Sample::new("_count", count));
    Metric { name, kind: "histogram", help, samples }
}

/// From a microsecond to 69 seconds, by fours.
const TIMES: std::ops::RangeInclusive<u32> = 10..=36;

/// Metrics of loads and fetches beside the counts.
pub(super) fn measure(stats: FetchStats) -> [Metric; 10] {
    let FetchStats {
        latency,
        delay,
        waiters,
        shared_errors,
        remembered_errors,
        timed_out,
        too_many_waiters,
        blocked,
        unblocked,
        errors,
    } = stats;
    let times = || TIMES.step_by(2);
    let fetch = ("frazil_fetch_seconds", "How long loads took that brought a value.");
    let delays = ("frazil_delay_seconds", "How long delayed hits waited for their value.");
    let waiting = ("frazil_fetch_waiters", "How many waited, by load that brought a value.");
    [
        counter("frazil_shared_errors_total", "Requests that got another's error.", shared_errors),
        counter(
            "frazil_remembered_errors_total",
            "Requests answered by an error of before.",
            remembered_errors,
        ),
        counter("frazil_timed_out_total", "Requests that waited too long.", timed_out),
        counter(
            "frazil_too_many_waiters_total",
            "Requests beside too many that wait.",
            too_many_waiters,
        ),
        counter("frazil_blocked_total", "Threads that blocked for a task's load.", blocked),
        counter("frazil_unblocked_total", "Threads that were kept from that.", unblocked),
        gauge("frazil_errors", "Errors that are remembered.", errors),
        histogram(fetch, &latency, times(), seconds),
        histogram(delays, &delay, times(), seconds),
        histogram(waiting, &waiters, (0..=16).step_by(2), |count| count.to_string()),
    ]
}
