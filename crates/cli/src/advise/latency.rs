//! Latencies of a cell: means and percentiles of hits, delayed hits, misses and all requests
//! (`docs/design/latency.md`).
//!
//! The queueing model, simulated, gives the time of a request at the cache. A replay gives the
//! number of requests that wait for a fetch of another request, and their waits. Fetches in it take
//! as long as the backend, by the times in the trace or at the request rate that the user gave.

use frazil_queueing::{ResponseTimes, Simulated};
use frazil_simulator::trace::{Loaded, Operation, Trace};
use frazil_simulator::{FetchLatency, Fetching, Outcome, ReplayClock, Waits};
use serde_json::{Value, json};

use super::case::Case;
use super::goal::LatencyTarget;
use super::text::{on_worst, time};
use super::{Advice, Beside};
use crate::output::{grouped, percent};
use crate::sample::Sample;

/// Parts of a twentieth of the delayed hits, which are assumed to be evenly spread in it.
const PARTS: u32 = 5;
/// Above this share of records with the same time as the previous record, the output mentions it.
const COARSE: f64 = 0.05;
/// Share of the fewest misses: fewer waits change no prediction by a hundredth.
const FEW_DELAYED: f64 = 0.01;
/// Relative change of the misses by fetches from which on the output mentions it.
const FETCHED_APART: f64 = 0.05;

/// Whether a replay counts delayed hits.
pub(crate) enum Fetches {
    /// Yes: fetches take time.
    Timed(Box<Fetching>),
    /// The backend answers at once, so there are no delayed hits.
    Instant,
    /// No: the times of requests are unknown, or entries expire, which that replay does not
    /// support.
    Untimed,
}

impl Fetches {
    /// The times of a trace. `said` is the user's request rate for all keys, and `own` the trace's.
    pub(crate) fn of(
        loaded: &mut Loaded,
        backend_us: f64,
        said: Option<f64>,
        own: Option<f64>,
    ) -> Fetches {
        let ticks = (backend_us * 1e3).round() as u64;
        if ticks == 0 {
            return Fetches::Instant;
        }
        match (said, own) {
            (Some(said), Some(own)) => {
                let first = loaded.trace.times_ns.iter().min().copied().unwrap_or_default();
                let paced = |time: &u64| far((time - first) as f64 * (own / said));
                loaded.trace.times_ns = loaded.trace.times_ns.iter().map(paced).collect();
            }
            (Some(said), None) => loaded.trace.times_ns = evenly(loaded, said),
            (None, None) => loaded.trace.times_ns = Vec::new(),
            (None, Some(_)) => {}
        }
        let latency = FetchLatency::Fixed(ticks);
        let fetching = Fetching::new(&loaded.trace, latency, ReplayClock::Trace);
        loaded.trace.times_ns = Vec::new();
        fetching.map_or(Fetches::Untimed, |fetching| Fetches::Timed(Box::new(fetching)))
    }

    /// Whether delayed hits may change the prediction for a trace on which every policy misses at
    /// least `fewest`. A request that waits for another's fetch comes within the duration of a
    /// fetch after the object's previous get; this counts such requests. O(records).
    pub(crate) fn may_matter(&self, trace: &Trace, fewest: f64) -> bool {
        let Fetches::Timed(fetching) = self else { return false };
        let ticks = fetching.fixed().unwrap_or(u64::MAX);
        let mut last: Vec<Option<u64>> = vec![None; trace.objects.len()];
        let (mut gets, mut near) = (0u64, 0u64);
        for (record, &id) in trace.ids.iter().enumerate() {
            if trace.operations.get(record).is_some_and(|&it| it != Operation::Get) {
                continue;
            }
            let time = fetching.time(record).unwrap_or_default();
            let before = last[id as usize].replace(time);
            gets += 1;
            near += u64::from(before.is_some_and(|before| time - before < ticks));
        }
        near as f64 > FEW_DELAYED * fewest * gets as f64
    }

    /// The same, for a trace that cannot be replayed with fetches.
    pub(crate) fn unknown(self) -> Fetches {
        match self {
            Fetches::Instant => Fetches::Instant,
            Fetches::Timed(_) | Fetches::Untimed => Fetches::Untimed,
        }
    }
}

/// A time of a replay that begins at 0: at most a century and a half, so that adding fetches and
/// waits does not overflow.
fn far(ns: f64) -> u64 {
    (ns as u64).min(u64::MAX / 4)
}

/// Times for records without them: gets come evenly, `rate` a second for all keys.
fn evenly(Loaded { trace, origin }: &Loaded, rate: f64) -> Vec<u64> {
    let is_get =
        |record: usize| trace.operations.get(record).is_none_or(|&it| it == Operation::Get);
    let gets = (0..trace.len()).filter(|&record| is_get(record)).count() as u64;
    // `correction` is the ratio of the gets of a fair sample to those of this one.
    let each_ns = 1e9 / (rate * origin.rate()) * origin.correction(gets);
    let mut before = 0u64;
    let time = |record| {
        before += u64::from(is_get(record));
        far(before as f64 * each_ns)
    };
    (0..trace.len()).map(time).collect()
}

/// Latencies of one kind of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Share of all requests.
    pub(crate) share: f64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Figures {
    fn of(share: f64, times: &ResponseTimes) -> Option<Figures> {
        let (mean_us, p50_us) = times.mean().zip(times.quantile(0.5))?;
        Some(Figures { share, mean_us, p50_us, p99_us: times.quantile(0.99)? })
    }

    fn json(&self) -> Value {
        let &Figures { share, mean_us, p50_us, p99_us } = self;
        json!({ "share": share, "mean_us": mean_us, "p50_us": p50_us, "p99_us": p99_us })
    }
}

/// Latencies of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Latencies {
    pub(crate) hits: Option<Figures>,
    /// `None` if there are none, or they are unknown.
    pub(crate) delayed_hits: Option<Figures>,
    pub(crate) misses: Option<Figures>,
    pub(crate) all: Figures,
    /// Whether the number of delayed hits is known.
    pub(crate) delays_known: bool,
}

/// Waits of a cell's requests for fetches. A delayed hit is a request in flight while it waits. In
/// the queueing model only misses wait, so each miss has the wait for its own fetch and those of
/// all delayed hits that come meanwhile. The distribution of waits over requests does not change
/// throughput, because any number may wait at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Waiting {
    /// Hits, delayed ones included.
    pub(crate) hit_ratio: f64,
    /// The wait for each miss.
    pub(crate) a_miss_us: f64,
}

/// The counts of a cell.
pub(crate) struct Counted<'a> {
    /// From a replay without fetches that take time.
    pub(crate) plain: &'a Outcome,
    /// From one with them, of the sample, if the times of requests are known.
    pub(crate) delayed: Option<&'a Outcome>,
    /// Whether the number of delayed hits is known.
    pub(crate) delays_known: bool,
    pub(crate) sample: &'a Sample,
    pub(crate) backend_us: f64,
}

impl Counted<'_> {
    /// The shares of hits, delayed hits and misses.
    pub(crate) fn shares(&self) -> [f64; 3] {
        let corrected = self.delayed.map(|outcome| self.sample.corrected(outcome));
        let outcome = corrected.as_ref().unwrap_or(self.plain);
        let of = |count: u64| count as f64 / outcome.requests.max(1) as f64;
        [of(outcome.hits), of(outcome.delayed_hits), of(outcome.misses())]
    }

    /// Mean wait of a delayed hit.
    fn wait_us(&self) -> f64 {
        let waits = self.delayed.and_then(|outcome| Some((outcome, outcome.latency?.delayed_hits)));
        waits.map_or(0.0, |(outcome, waits)| {
            waits.total as f64 / 1e3 / outcome.delayed_hits.max(1) as f64
        })
    }

    /// `None` if the number of delayed hits is unknown, or nothing is fetched.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let [_, delayed, misses] = self.shares();
        let a_miss_us = self.backend_us + delayed * self.wait_us() / misses;
        (self.delayed.is_some() && misses > 0.0)
            .then_some(Waiting { hit_ratio: 1.0 - misses, a_miss_us })
    }

    /// Whether delayed hits change the latency of a request by a hundredth of the wait of misses.
    pub(crate) fn delays_matter(&self) -> bool {
        self.longer_us().abs() > FEW_DELAYED * self.plain.miss_ratio() * self.backend_us
    }

    /// The mean wait of a request for the fetches of others, in addition to the waits of misses.
    pub(crate) fn longer_us(&self) -> f64 {
        let [_, delayed, misses] = self.shares();
        delayed * self.wait_us() + (misses - self.plain.miss_ratio()) * self.backend_us
    }
}

impl Latencies {
    /// Latencies of a cell whose requests take the times of `simulated` at the cache and `mean_us`
    /// on average.
    pub(crate) fn of(
        counted: &Counted<'_>,
        simulated: &Simulated,
        mean_us: f64,
    ) -> Option<Latencies> {
        let shares = counted.shares();
        let Simulated { hits, misses, .. } = simulated;
        let waits = counted.delayed.and_then(|outcome| outcome.latency);
        let waits = waits.map_or_else(Vec::new, |latency| points_us(&latency.delayed_hits));
        let delayed = hits.delayed_by(if shares[1] > 0.0 { &waits } else { &[] });
        let kinds = [(shares[0], hits), (shares[1], &delayed), (shares[2], misses)];
        let [hits, delayed_hits, misses] = kinds.map(|(share, times)| Figures::of(share, times));
        let all = Figures::of(1.0, &ResponseTimes::mixed(&kinds))?;
        Some(Latencies {
            hits,
            delayed_hits,
            misses,
            // The mean of the exact solution, not of the simulation.
            all: Figures { mean_us, ..all },
            delays_known: counted.delays_known,
        })
    }

    fn json(&self) -> Value {
        let of = |figures: &Option<Figures>| figures.as_ref().map(Figures::json);
        json!({
            "hits": of(&self.hits),
            "delayed_hits": of(&self.delayed_hits),
            "misses": of(&self.misses),
            "all": self.all.json(),
            "delayed_hits_known": self.delays_known,
        })
    }
}

/// Waits that are about equally likely, in µs, interpolated linearly between twentieths.
fn points_us(waits: &Waits) -> Vec<f64> {
    let between = |pair: &[u64]| {
        let (low, high) = (pair[0] as f64 / 1e3, pair[1] as f64 / 1e3);
        (0..PARTS).map(move |part| low + (high - low) * (f64::from(part) + 0.5) / f64::from(PARTS))
    };
    waits.twentieths.windows(2).flat_map(between).collect()
}

/// The latencies of a policy at a size, on the trace with the longest 99th percentile.
pub(super) fn latencies<'a>(
    advice: &'a Advice<'_>,
    policy: usize,
    capacity: u64,
) -> Option<&'a Latencies> {
    let of = |case: &'a Case<'_>| case.cell(policy, capacity)?.latencies.as_ref();
    let all = advice.cases.iter().filter_map(of);
    all.max_by(|one, other| one.all.p99_us.total_cmp(&other.all.p99_us))
}

/// For scripts. `null` if they are unknown.
pub(super) fn latencies_json(latencies: Option<&Latencies>) -> Value {
    latencies.map_or(Value::Null, Latencies::json)
}

/// Latencies of requests with the recommended cache.
pub(super) fn sentence(advice: &Advice<'_>) -> Option<String> {
    let chosen = &advice.choice.winner.chosen;
    let case = &advice.cases[advice.worst.case];
    let latencies = case.cell(chosen.policy, chosen.capacity)?.latencies.as_ref()?;
    let Latencies { hits, delayed_hits, misses, all, .. } = latencies;
    let kinds = [("hits", hits), ("delayed hits", delayed_hits), ("misses", misses)];
    let kind = |(name, figures): (&str, &Option<Figures>)| {
        let Figures { share, p50_us, p99_us, .. } = figures.as_ref()?;
        let of_all = percent(*share);
        Some(format!("{name} ({of_all} of requests) {} and {}", time(*p50_us), time(*p99_us)))
    };
    let kinds: Vec<String> = kinds.into_iter().filter_map(kind).collect();
    let cell = case.cell(chosen.policy, chosen.capacity)?;
    let (missed, fetched) = (cell.measured.miss_ratio, cell.fetched());
    let fetches = if (missed - fetched).abs() < FETCHED_APART * missed {
        String::new()
    } else {
        let (missed, fetched) = (percent(missed), percent(fetched));
        format!(" If fetches took no time {missed} would miss; as they take time, {fetched} do.")
    };
    Some(format!(
        "Latency{}, median and 99th percentile: {}; all requests {} and {}, mean {}.{fetches}{}",
        on_worst(advice),
        kinds.join(", "),
        time(all.p50_us),
        time(all.p99_us),
        time(all.mean_us),
        pace(case)
    ))
}

/// The source of the delayed hits, or the reason why they are unknown.
fn pace(case: &Case<'_>) -> String {
    let fetching = match &case.fetches {
        Fetches::Timed(fetching) => fetching,
        Fetches::Instant => return String::new(),
        Fetches::Untimed if case.lifetimes.is_some() => {
            return " Delayed hits are not known where entries expire.".to_owned();
        }
        Fetches::Untimed => {
            return " Delayed hits are not known, because the trace has no times; give --request-rate."
                .to_owned();
        }
    };
    let rate = case.asked.map_or_else(String::new, |rate| {
        format!(" Delayed hits are counted at {} requests a second.", per_second(rate))
    });
    let coarse = fetching.spread() as f64 / case.loaded.trace.len().max(1) as f64;
    if coarse < COARSE || case.requests_per_second().is_none() {
        return rate;
    }
    format!(
        "{rate} {} of the records have the time of the record before. They are spread evenly up to the \
         next time, so there may be more delayed hits.",
        percent(coarse)
    )
}

/// For each trace whose request rate exceeds the throughput, a sentence about it.
pub(super) fn overrun(advice: &Advice<'_>) -> Vec<String> {
    let of = |there: &Beside| {
        let case = &advice.cases[there.case];
        let (asked, served) = (case.asked?, there.chosen.mops? * 1e6);
        let on =
            if advice.cases.len() > 1 { format!(" on {}", case.title()) } else { String::new() };
        (asked > served).then(|| {
            format!(
                "Beware: {} requests come in a second{on}, and {} are predicted to be served: requests \
                 will queue, and wait for longer than the latencies below.",
                per_second(asked),
                per_second(served)
            )
        })
    };
    advice.on_each.iter().filter_map(of).collect()
}

fn per_second(rate: f64) -> String {
    match rate {
        10.0.. => grouped(rate.round() as u64),
        0.1.. => format!("{rate:.1}"),
        _ => format!("{rate:.1e}"),
    }
}

/// A target for the 99th percentile that is shorter than a fetch needs a cache with almost no
/// misses.
pub(super) fn needs_hits(advice: &Advice<'_>) -> Option<String> {
    let Some(LatencyTarget::P99(target_us)) = advice.goal.as_ref()?.latency else { return None };
    let backend_us = advice.forecast.setting.backend_us;
    if target_us >= backend_us {
        return None;
    }
    let least = advice.board.most_floor();
    let chosen = &advice.choice.winner.chosen;
    let misses = latencies(advice, chosen.policy, chosen.capacity)?.misses;
    let possible = if least >= 0.01 {
        format!("; a cache for all objects misses {}, so no size does", percent(least))
    } else {
        String::new()
    };
    Some(format!(
        "A 99th percentile below the {} of a fetch takes a miss ratio below 1 %, here {}{possible}.",
        time(backend_us),
        percent(misses.map_or(0.0, |it| it.share))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_lie_between_the_twentieths() {
        let waits =
            Waits { twentieths: std::array::from_fn(|at| at as u64 * 5_000), ..Waits::default() };
        let points = points_us(&waits);
        assert_eq!((points.len(), points[0], points[99]), (100, 0.5, 99.5));
        assert!(points.is_sorted());
    }
}
