//! Paper 5's prototype (§5.1) again: the cache before origins that answer after a set time, LRU
//! against LRU-MAD, and the latencies that are measured beside those that the simulator
//! foretells (figures 14 and 15).
//!
//! The origins are processes on this machine (`origin.rs`) and not far away: what the paper's
//! has of the network is their delay. A shard is a thread with a cache of its own (`shard.rs`);
//! the requests that the paper's client sends are read from memory. A trace is replayed faster
//! than it was recorded, so that a fetch lasts for as many requests as in the paper.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use frazil::Policy;
use frazil_policy::object_hash;
use frazil_simulator::trace::{ReadOptions, Trace, load};
use frazil_simulator::{
    Backends, CapacitySpec, FetchLatency, Fetching, HASH_SEED, ReplayClock, Unit, latencies_delayed,
};

use super::origin::Origin;
use super::shard::{self, Measured, Request};
use super::{Expectation, Report};
use crate::draw::{self, Look, Series};
use crate::failure::Failure;
use crate::output::{self, Row, row};
use crate::progress::Progress;

/// Los Angeles, the Netherlands and Singapore, seen from Pittsburgh.
const ORIGINS: [(&str, f64); 3] = [("A", 68.0), ("B", 103.0), ("C", 226.0)];
/// What LRU-MAD took off the mean latency with each of them, and with all three.
const PAPER_GAINS: [f64; 4] = [12.4, 14.7, 18.3, 16.8];
/// Sixty-four candidates, as the sets of the paper's cache have.
const POLICIES: [&str; 2] = ["lru", "mad:sample=64"];
const TRACE: &str = "libcachesim/twitter_cluster52_10m.csv.zst";
const GENERATED: &str = "zipf:0.9:objects=400K:requests=4M:seed=5";
/// Of the objects that are between their first and their last request at once, as in the paper.
const CAPACITY: &str = "5%peak";
/// What a core should bear, in requests a second.
const RATE: f64 = 300_000.0;
/// How far the simulation may be off.
const TOLERANCE: f64 = 0.05;
/// Points of a curve.
const POINTS: u32 = 150;

struct Plan {
    requests: u64,
    /// Mean time between two requests.
    gap: Duration,
    /// What the paper's delays are divided by.
    shorter: f64,
}

impl Plan {
    fn new(quick: bool) -> Self {
        if quick {
            Plan { requests: 100_000, gap: Duration::from_micros(5), shorter: 20.0 }
        } else {
            Plan { requests: 4_000_000, gap: Duration::from_micros(3), shorter: 1.0 }
        }
    }
}

/// Which origins have the objects.
struct Setting {
    name: &'static str,
    delays: Vec<Duration>,
}

impl Setting {
    /// Each origin alone, and all of them together.
    fn all(plan: &Plan) -> Vec<Self> {
        let delay = |&(_, ms): &(_, f64)| Duration::from_secs_f64(ms / 1e3 / plan.shorter);
        let alone = ORIGINS.iter().map(|it| Setting { name: it.0, delays: vec![delay(it)] });
        let together = Setting { name: "A, B, C", delays: ORIGINS.iter().map(delay).collect() };
        alone.chain([together]).collect()
    }

    fn backends(&self) -> anyhow::Result<Backends> {
        let ticks: Vec<u64> = self.delays.iter().map(|delay| delay.as_nanos() as u64).collect();
        Backends::new(&ticks).ok_or_else(|| anyhow!("too many origins"))
    }
}

/// Latencies in order, each with how many requests had it.
struct Latencies(Vec<(u64, u64)>);

impl Latencies {
    fn new(mut counted: Vec<(u64, u64)>) -> Self {
        counted.sort_unstable();
        Latencies(counted)
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }

    fn mean_ms(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|&(ns, count)| ns as f64 * count as f64).sum();
        sum / self.count().max(1) as f64 / 1e6
    }

    fn quantile_ms(&self, share: f64) -> f64 {
        let mut below = (share * self.count() as f64) as u64;
        for &(ns, count) in &self.0 {
            if count > below {
                return ns as f64 / 1e6;
            }
            below -= count;
        }
        self.0.last().map_or(0.0, |&(ns, _)| ns as f64 / 1e6)
    }

    /// Which share of the requests took longer than each of some times.
    fn curve(&self, longest_ms: f64) -> Vec<(f64, f64)> {
        let all = self.count().max(1) as f64;
        let mut rest = self.0.iter().peekable();
        let mut done = 0;
        (1..=POINTS)
            .map(|point| {
                let ms = longest_ms * f64::from(point) / f64::from(POINTS);
                while let Some((_, count)) = rest.next_if(|&&(ns, _)| ns as f64 <= ms * 1e6) {
                    done += count;
                }
                (ms, 100.0 * (1.0 - done as f64 / all))
            })
            .collect()
    }
}

/// A policy with origins: simulated, and measured.
struct Cell {
    origins: &'static str,
    policy: &'static str,
    /// Hits, delayed hits, misses.
    simulated: [u64; 3],
    measured: [u64; 3],
    foretold: Latencies,
    seen: Latencies,
}

impl Cell {
    fn difference(&self) -> f64 {
        self.seen.mean_ms() / self.foretold.mean_ms() - 1.0
    }

    fn row(&self) -> Row {
        row! {
            "kind" => "latency",
            "origins" => self.origins,
            "policy" => self.policy,
            "simulated_ms" => self.foretold.mean_ms(),
            "measured_ms" => self.seen.mean_ms(),
            "difference" => self.difference(),
            "simulated_p99_ms" => self.foretold.quantile_ms(0.99),
            "measured_p99_ms" => self.seen.quantile_ms(0.99),
            "simulated_hits_delayed_misses" => self.simulated,
            "measured_hits_delayed_misses" => self.measured,
        }
    }
}

/// What is replayed: the part of each shard.
struct Load {
    name: String,
    parts: Vec<Trace>,
    capacity: u64,
}

impl Load {
    fn read(plan: &Plan, traces: Option<&Path>) -> Result<Self, Failure> {
        let (name, spec) = match traces {
            Some(folder) => (TRACE, folder.join(TRACE).display().to_string()),
            None => (GENERATED, GENERATED.to_owned()),
        };
        let options = ReadOptions {
            limit: Some(plan.requests),
            times: true,
            sizes: false,
            ..ReadOptions::default()
        };
        let mut trace = load(&spec, &options)?.trace;
        let (first, last) = (trace.times_ns.first().copied(), trace.times_ns.last().copied());
        let (first, span) = match (first, last) {
            (Some(first), Some(last)) if last > first => (first, last - first),
            _ => (0, 0),
        };
        let length = plan.gap.as_nanos() as f64 * trace.len() as f64;
        if span == 0 {
            let gap = plan.gap.as_nanos() as u64;
            trace.times_ns = (0..trace.len() as u64).map(|number| number * gap).collect();
        } else {
            let scale = length / span as f64;
            let scaled =
                |time: &mut u64| *time = (time.saturating_sub(first) as f64 * scale) as u64;
            trace.times_ns.iter_mut().for_each(scaled);
        }
        let capacity: CapacitySpec = CAPACITY.parse().context("the capacity")?;
        let capacity = capacity.resolve(&trace, Unit::Objects).context("the capacity")?;
        // Requests that share a time are spread here, before they are dealt out.
        let times = Fetching::new(&trace, FetchLatency::Fixed(1), ReplayClock::Trace)
            .map_err(|error| anyhow!(error))?;
        // One core is left for the origins.
        let shards = frazil_driver::cores().saturating_sub(1).clamp(1, 8);
        let empty = || Trace { objects: trace.objects.clone(), ..Trace::default() };
        let mut parts: Vec<Trace> = (0..shards).map(|_| empty()).collect();
        for (record, &id) in trace.ids.iter().enumerate() {
            // The hash's low bits: its high ones choose the origin.
            let hash = object_hash(trace.objects[id as usize], HASH_SEED);
            let part = &mut parts[(hash & 0xffff_ffff) as usize % shards];
            part.ids.push(id);
            part.times_ns.push(times.time(record).unwrap_or_default());
        }
        Ok(Load { name: name.to_owned(), parts, capacity: (capacity / shards as u64).max(1) })
    }

    fn requests(&self) -> usize {
        self.parts.iter().map(Trace::len).sum()
    }

    fn fetching(&self, part: &Trace, setting: &Setting) -> anyhow::Result<Fetching> {
        let latency = FetchLatency::Keyed(setting.backends()?);
        Fetching::new(part, latency, ReplayClock::Trace).map_err(|error| anyhow!(error))
    }

    fn simulate(&self, policy: Policy, setting: &Setting) -> anyhow::Result<([u64; 3], Latencies)> {
        let (mut counts, mut all) = ([0; 3], Vec::new());
        for part in &self.parts {
            let fetching = self.fetching(part, setting)?;
            let (outcome, latencies) = latencies_delayed(part, policy, self.capacity, &fetching);
            counts[0] += outcome.hits;
            counts[1] += outcome.delayed_hits;
            counts[2] += outcome.misses();
            all.extend(latencies);
        }
        Ok((counts, Latencies::new(all)))
    }

    /// The same with real origins; without regard to the times if it `hurries`.
    fn measure(
        &self,
        policy: Policy,
        setting: &Setting,
        hurries: bool,
    ) -> anyhow::Result<Measured> {
        let origins: Vec<Origin> = setting
            .delays
            .iter()
            .map(|&delay| Origin::start(delay))
            .collect::<anyhow::Result<_>>()?;
        let backends = setting.backends()?;
        let mut parts = Vec::new();
        for part in &self.parts {
            let fetching = self.fetching(part, setting)?;
            let request = |(record, &id): (usize, &u32)| {
                let key = part.objects[id as usize];
                let due = fetching.time(record).unwrap_or_default();
                Request { due, key, origin: backends.number(object_hash(key, HASH_SEED)) }
            };
            parts.push(part.ids.iter().enumerate().map(request).collect::<Vec<_>>());
        }
        let cell = (policy, self.capacity);
        thread::scope(|scope| {
            let serve = |part| {
                let origins = &origins;
                scope.spawn(move || shard::serve(cell, part, origins, hurries))
            };
            let running: Vec<_> = parts.iter().map(|part| serve(&part[..])).collect();
            let mut all = Measured::default();
            for shard in running {
                all.add(shard.join().map_err(|_| anyhow!("a shard panicked"))??);
            }
            Ok(all)
        })
    }
}

fn cell(load: &Load, setting: &Setting, policy: &'static str) -> Result<Cell, Failure> {
    let parsed: Policy = policy.parse().map_err(|error| anyhow!("{policy}: {error}"))?;
    let (simulated, foretold) = load.simulate(parsed, setting)?;
    let measured = load.measure(parsed, setting, false)?;
    let counts = [measured.hits, measured.delayed_hits, measured.misses];
    let seen = measured.latencies_us.iter().map(|&us| (u64::from(us) * 1_000, 1)).collect();
    let (origins, seen) = (setting.name, Latencies::new(seen));
    Ok(Cell { origins, policy, simulated, measured: counts, foretold, seen })
}

/// Repeats the experiment. The real trace is replayed if its folder is known.
pub(super) fn run(quick: bool, traces: Option<&Path>) -> Result<Report, Failure> {
    let plan = Plan::new(quick);
    let load = Load::read(&plan, traces)?;
    let settings = Setting::all(&plan);
    let steps = settings.len() * POLICIES.len() + POLICIES.len();
    let progress = Progress::of_steps("replays".to_owned(), steps as u64);
    let mut cells = Vec::new();
    for setting in &settings {
        for policy in POLICIES {
            cells.push(cell(&load, setting, policy)?);
            progress.advance(1);
        }
    }
    let Some(together) = settings.last() else { return Err(anyhow!("no origins").into()) };
    let mut rates = Vec::new();
    for policy in POLICIES {
        let parsed: Policy = policy.parse().map_err(|error| anyhow!("{policy}: {error}"))?;
        let measured = load.measure(parsed, together, true)?;
        let cores = load.parts.len() as f64;
        rates.push((policy, measured.requests() as f64 / measured.seconds / cores, measured));
        progress.advance(1);
    }
    let rate_row = |(policy, rate, measured): &(&str, f64, Measured)| {
        row! {
            "kind" => "rate",
            "policy" => policy,
            "requests_per_second_and_core" => rate,
            "shards" => load.parts.len(),
            "hits_delayed_misses" => [measured.hits, measured.delayed_hits, measured.misses],
        }
    };
    Ok(Report {
        measurements: cells.iter().map(Cell::row).chain(rates.iter().map(rate_row)).collect(),
        expectations: expectations(&cells, &rates),
        figures: vec![("prototype-latencies.svg".to_owned(), figure(&cells, together))],
        summary: summary(&load, &plan, &cells, &rates),
    })
}

/// By how much MAD's mean latency is below LRU's, measured and simulated, by origins.
fn gains(cells: &[Cell]) -> Vec<(&'static str, f64, f64)> {
    let gain = |pair: &[Cell]| {
        let [lru, mad] = pair else { return None };
        let gain =
            |of: fn(&Cell) -> &Latencies| 100.0 * (1.0 - of(mad).mean_ms() / of(lru).mean_ms());
        Some((lru.origins, gain(|cell| &cell.seen), gain(|cell| &cell.foretold)))
    };
    cells.chunks(POLICIES.len()).filter_map(gain).collect()
}

fn expectations(cells: &[Cell], rates: &[(&str, f64, Measured)]) -> Vec<Expectation> {
    let mut all: Vec<Expectation> = gains(cells)
        .into_iter()
        .zip(PAPER_GAINS)
        .map(|((origins, gain, _), paper)| Expectation {
            figure: 14,
            expected: format!(
                "origin {origins}: MAD's mean latency below LRU's (paper: {paper} %)"
            ),
            seen: format!("{gain:.1} %"),
            met: gain > 0.0,
        })
        .collect();
    let worst = cells.iter().map(|cell| cell.difference().abs()).fold(0.0, f64::max);
    all.push(Expectation {
        figure: 15,
        expected: "mean latencies within 5 % of the simulated".to_owned(),
        seen: format!("{:.1} % at the worst of {}", 100.0 * worst, cells.len()),
        met: worst <= TOLERANCE,
    });
    let least = rates.iter().map(|rate| rate.1).fold(f64::INFINITY, f64::min);
    all.push(Expectation {
        figure: 13,
        expected: "300,000 requests a second and core, delayed hits among them".to_owned(),
        seen: format!("{} at the least", output::grouped(least as u64)),
        met: least >= RATE,
    });
    all
}

fn figure(cells: &[Cell], together: &Setting) -> String {
    let longest = together.delays.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3 * 1.02;
    let panels: Vec<_> = cells
        .chunks(POLICIES.len())
        .map(|pair| {
            let series = pair.iter().enumerate().flat_map(|(number, cell)| {
                let one = |kind: &str, apart, latencies: &Latencies| Series {
                    name: format!("{}, {kind}", cell.policy),
                    look: Look { number, apart },
                    points: latencies.curve(longest),
                };
                [one("measured", false, &cell.seen), one("simulated", true, &cell.foretold)]
            });
            let title = pair.first().map_or("", |cell| cell.origins);
            draw::lines(
                format!("origin {title}"),
                "latency, ms",
                "% of requests longer",
                series.collect(),
            )
        })
        .collect();
    draw::figure("Paper 5, figure 15: latencies, measured and simulated", &panels)
}

fn summary(load: &Load, plan: &Plan, cells: &[Cell], rates: &[(&str, f64, Measured)]) -> String {
    let rows = cells.iter().map(|cell| {
        let ratio = |counts: [u64; 3], at: usize| {
            output::percent(counts[at] as f64 / counts.iter().sum::<u64>().max(1) as f64)
        };
        vec![
            cell.origins.to_owned(),
            cell.policy.to_owned(),
            format!("{:.3}", cell.foretold.mean_ms()),
            format!("{:.3}", cell.seen.mean_ms()),
            format!("{:+.2} %", 100.0 * cell.difference()),
            format!("{:.1}", cell.foretold.quantile_ms(0.99)),
            format!("{:.1}", cell.seen.quantile_ms(0.99)),
            ratio(cell.simulated, 1),
            ratio(cell.measured, 1),
            ratio(cell.simulated, 2),
            ratio(cell.measured, 2),
        ]
    });
    let headers = [
        "origin",
        "policy",
        "simulated ms",
        "measured ms",
        "difference",
        "p99 sim.",
        "p99 meas.",
        "delayed sim.",
        "delayed meas.",
        "missed sim.",
        "missed meas.",
    ];
    let table = output::table(&headers, &["origin", "policy"], rows.collect());
    let gains: String = gains(cells)
        .into_iter()
        .zip(PAPER_GAINS)
        .map(|((origins, gain, simulated), paper)| {
            format!("MAD over LRU, origin {origins}: {gain:.1} % measured, {simulated:.1} % simulated, {paper} % in the paper\n")
        })
        .collect();
    let rates: String = rates
        .iter()
        .map(|(policy, rate, measured)| {
            let waited = measured.delayed_hits + measured.misses;
            format!(
                "{policy}, as fast as it goes: {} requests a second and core, {} of them waited\n",
                output::grouped(*rate as u64),
                output::percent(waited as f64 / measured.requests().max(1) as f64),
            )
        })
        .collect();
    format!(
        "{}: {} requests, {} µs apart in the mean; {} shards of {} objects of 1 KiB\n\n{table}\n{gains}\n{rates}",
        load.name,
        output::grouped(load.requests() as u64),
        plan.gap.as_secs_f64() * 1e6,
        load.parts.len(),
        output::grouped(load.capacity),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_a_mean_quantiles_and_a_curve() {
        let ms = |number: u64| number * 1_000_000;
        // Nine requests that hit, and one each that took 2 and 9 ms.
        let latencies = Latencies::new(vec![(ms(9), 1), (0, 6), (ms(2), 1), (0, 3)]);
        assert_eq!((latencies.count(), latencies.mean_ms()), (11, 1.0));
        assert_eq!([0.5, 0.85, 0.99].map(|share| latencies.quantile_ms(share)), [0.0, 2.0, 9.0]);
        let curve = latencies.curve(f64::from(POINTS) / 10.0);
        let at = |ms: f64| curve.iter().find(|point| (point.0 - ms).abs() < 1e-9).unwrap().1;
        assert!((at(1.9) - 200.0 / 11.0).abs() < 1e-9);
        assert!((at(2.0) - 100.0 / 11.0).abs() < 1e-9);
        assert!(at(9.0).abs() < 1e-9);
    }
}
