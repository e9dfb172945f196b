//! Repeats paper 5's prototype (§5.1, figure 13): a client, a load balancer, shards with a cache
//! each, a flow manager and a network manager, in their own threads joined by queues, before
//! origins that answer after a set time. Compares LRU with LRU-MAD, and measured latencies with
//! those that the simulator predicts (figures 14 and 15).
//!
//! The origins are processes on this machine (`origin.rs`), not far away: only their delay
//! represents the network. A trace is replayed faster than it was recorded, so that a fetch lasts
//! for as many requests as in the paper.
//!
//! While other work has the processors a thread waits for them, which distorts latencies. The share
//! of other work is measured and printed; if it is too large, nothing is compared.

mod client;
mod flows;
mod network;
pub(super) mod origin;
mod pipe;
mod shard;
mod system;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use frazil::Policy;
use frazil_policy::object_hash;
use frazil_simulator::trace::{ReadOptions, Trace, load};
use frazil_simulator::{
    Backends, CapacitySpec, FetchLatency, Fetching, HASH_SEED, ReplayClock, Unit, latencies_delayed,
};

use self::client::Due;
use self::system::{Measured, PARTS, System};
use super::{Expectation, Report};
use crate::draw::{self, Look, Series};
use crate::failure::Failure;
use crate::output::{self, Row, row};
use crate::progress::Progress;

/// Los Angeles, the Netherlands and Singapore, seen from Pittsburgh.
const ORIGINS: [(&str, f64); 3] = [("A", 68.0), ("B", 103.0), ("C", 226.0)];
/// The reduction of the mean latency by LRU-MAD with each of them, and with all three.
const PAPER_GAINS: [f64; 4] = [12.4, 14.7, 18.3, 16.8];
/// Sixty-four candidates, as many as in a set of the paper's cache.
const POLICIES: [&str; 2] = ["lru", "mad:sample=64"];
const TRACE: &str = "libcachesim/twitter_cluster52_10m.csv.zst";
const GENERATED: &str = "zipf:0.9:objects=400K:requests=4M:seed=5";
/// A share of the most objects that are between their first and last request at once, as in the
/// paper.
const CAPACITY: &str = "5%peak";
/// Requests a second for each core of the paper's prototype: 1.2 million with 12 threads on as many
/// cores.
const RATE: f64 = 100_000.0;
/// Requests that a shard should serve in a second of its thread's processor time.
const SHARD_RATE: f64 = 300_000.0;
/// Largest acceptable error of the simulation.
const TOLERANCE: f64 = 0.05;
/// Share of the processors that other work may have.
const OTHERS: f64 = 0.1;
/// Points of a curve.
const POINTS: u32 = 150;

/// A request between parts: an object's id, and the client's number.
#[derive(Clone, Copy, Debug)]
struct Request {
    key: u64,
    number: u32,
}

/// The shard of a key: by the hash's low bits, because its high ones choose the origin.
fn shard_of(key: u64, shards: usize) -> usize {
    (object_hash(key, HASH_SEED) & 0xffff_ffff) as usize % shards.max(1)
}

struct Plan {
    requests: u64,
    /// Mean time between two requests.
    gap: Duration,
    /// The divisor of the paper's delays.
    shorter: f64,
    /// Most replays of a policy before origins, until one is undisturbed.
    attempts: u32,
}

impl Plan {
    fn new(quick: bool) -> Self {
        if quick {
            Plan { requests: 100_000, gap: Duration::from_micros(5), shorter: 20.0, attempts: 1 }
        } else {
            Plan { requests: 4_000_000, gap: Duration::from_micros(3), shorter: 1.0, attempts: 2 }
        }
    }
}

/// The origins that have the objects.
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

/// Latencies in order, each with its number of requests.
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

    /// The share of the requests with a longer latency, for each of some times.
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
    /// Means: the delay of sending a request, the latency of a hit, and the time of a fetch beyond
    /// its origin's delay.
    sent_late_ms: f64,
    hit_ms: f64,
    fetch_late_ms: f64,
    /// The share of the processors that other work used; `None` if unknown.
    others: Option<f64>,
}

impl Cell {
    /// The relative difference of the measured mean from the simulated one, unless it was
    /// disturbed.
    fn difference(&self) -> Option<f64> {
        let difference = self.seen.mean_ms() / self.foretold.mean_ms() - 1.0;
        (!is_disturbed(self.others)).then_some(difference)
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
            "sent_late_ms" => self.sent_late_ms,
            "hit_ms" => self.hit_ms,
            "fetch_late_ms" => self.fetch_late_ms,
            "other_work" => self.others,
            "disturbed" => is_disturbed(self.others),
        }
    }
}

/// Whether other work had too much of the processors for a comparison.
fn is_disturbed(others: Option<f64>) -> bool {
    others.is_some_and(|others| others > OTHERS)
}

/// The message instead of a comparison.
fn refused(others: &[Option<f64>]) -> String {
    let most = others.iter().flatten().copied().fold(0.0, f64::max);
    format!("not compared, because other work had {} of the processors", output::percent(most))
}

/// The trace to replay: the client replays all of it, the simulator the part of each shard.
struct Load {
    name: String,
    requests: Vec<Due>,
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
        // Requests with equal times are spread here, before they are divided among shards.
        let times = Fetching::new(&trace, FetchLatency::Fixed(1), ReplayClock::Trace)
            .map_err(|error| anyhow!(error))?;
        let shards = frazil_driver::cores().clamp(2, 8);
        let empty = || Trace { objects: trace.objects.clone(), ..Trace::default() };
        let mut parts: Vec<Trace> = (0..shards).map(|_| empty()).collect();
        let mut requests = Vec::with_capacity(trace.len());
        for (record, &id) in trace.ids.iter().enumerate() {
            let (key, at) = (trace.objects[id as usize], times.time(record).unwrap_or_default());
            let part = &mut parts[shard_of(key, shards)];
            part.ids.push(id);
            part.times_ns.push(at);
            requests.push(Due { at, key });
        }
        let capacity = (capacity / shards as u64).max(1);
        Ok(Load { name: name.to_owned(), requests, parts, capacity })
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

    /// The measurement with real origins; ignores the times if it `hurries`. Repeated if other work
    /// disturbed it.
    fn measure(
        &self,
        policy: Policy,
        setting: &Setting,
        hurries: bool,
        attempts: u32,
    ) -> anyhow::Result<Measured> {
        let system = System {
            policy,
            capacity: self.capacity,
            shards: self.parts.len(),
            delays: &setting.delays,
            backends: setting.backends()?,
        };
        let mut measured = system.run(&self.requests, hurries)?;
        for _ in 1..attempts {
            if !is_disturbed(measured.others) {
                break;
            }
            measured = system.run(&self.requests, hurries)?;
        }
        Ok(measured)
    }
}

fn cell(
    load: &Load,
    setting: &Setting,
    policy: &'static str,
    plan: &Plan,
) -> Result<Cell, Failure> {
    let parsed = parse(policy)?;
    let (simulated, foretold) = load.simulate(parsed, setting)?;
    let Measured { log, fetches, others, .. } =
        load.measure(parsed, setting, false, plan.attempts)?;
    let seen = log.latencies_us.iter().map(|&us| (u64::from(us) * 1_000, 1)).collect();
    let mean_ms = |us: u64, count: u64| us as f64 / count.max(1) as f64 / 1e3;
    Ok(Cell {
        origins: setting.name,
        policy,
        simulated,
        measured: [log.hits, log.delayed_hits, log.misses],
        foretold,
        seen: Latencies::new(seen),
        sent_late_ms: mean_ms(log.late_us, log.requests()),
        hit_ms: mean_ms(log.hits_us, log.hits),
        fetch_late_ms: fetches.late.as_secs_f64() * 1e3 / fetches.count.max(1) as f64,
        others,
    })
}

fn parse(policy: &str) -> anyhow::Result<Policy> {
    policy.parse().map_err(|error| anyhow!("{policy}: {error}"))
}

/// A policy before all origins, at full speed.
struct Rate {
    policy: &'static str,
    measured: Measured,
}

impl Rate {
    /// Requests a second for each core of the machine; parts and origins share them.
    fn per_core(&self) -> f64 {
        let Measured { log, .. } = &self.measured;
        log.requests() as f64 / log.seconds.max(1e-9) / frazil_driver::cores() as f64
    }

    /// Processor time of a part for each request, in µs.
    fn us(&self, part: usize) -> Option<f64> {
        let requests = self.measured.log.requests().max(1) as f64;
        self.measured.times[part].map(|time| time.as_secs_f64() * 1e6 / requests)
    }

    /// Share of the requests that waited.
    fn waited(&self) -> f64 {
        let log = &self.measured.log;
        (log.delayed_hits + log.misses) as f64 / log.requests().max(1) as f64
    }

    fn row(&self, load: &Load) -> Row {
        let log = &self.measured.log;
        let us: Vec<_> = (0..PARTS.len()).map(|part| self.us(part)).collect();
        row! {
            "kind" => "rate",
            "policy" => self.policy,
            "requests_per_second_and_core" => self.per_core(),
            "shards" => load.parts.len(),
            "hits_delayed_misses" => [log.hits, log.delayed_hits, log.misses],
            "parts" => PARTS,
            "processor_us_per_request" => us,
            "other_work" => self.measured.others,
        }
    }
}

/// Runs the experiment, with the real trace if its folder is known.
pub(super) fn run(quick: bool, traces: Option<&Path>) -> Result<Report, Failure> {
    let plan = Plan::new(quick);
    let load = Load::read(&plan, traces)?;
    let settings = Setting::all(&plan);
    let steps = settings.len() * POLICIES.len() + POLICIES.len();
    let progress = Progress::of_steps("replays".to_owned(), steps as u64);
    let mut cells = Vec::new();
    for setting in &settings {
        for policy in POLICIES {
            cells.push(cell(&load, setting, policy, &plan)?);
            progress.advance(1);
        }
    }
    let Some(together) = settings.last() else { return Err(anyhow!("no origins").into()) };
    let mut rates = Vec::new();
    for policy in POLICIES {
        let measured = load.measure(parse(policy)?, together, true, plan.attempts)?;
        rates.push(Rate { policy, measured });
        progress.advance(1);
    }
    drop(progress);
    let rate_rows = rates.iter().map(|rate| rate.row(&load));
    Ok(Report {
        measurements: cells.iter().map(Cell::row).chain(rate_rows).collect(),
        expectations: expectations(&cells, &rates),
        figures: vec![("prototype-latencies.svg".to_owned(), figure(&cells, together))],
        summary: summary(&load, &plan, &cells, &rates),
    })
}

/// The reduction of the mean latency by MAD relative to LRU, before some origins.
struct Gain {
    origins: &'static str,
    /// The measurement, or the message instead.
    seen: Result<f64, String>,
    foretold: f64,
}

fn gains(cells: &[Cell]) -> Vec<Gain> {
    let gain = |pair: &[Cell]| {
        let [lru, mad] = pair else { return None };
        let gain =
            |of: fn(&Cell) -> &Latencies| 100.0 * (1.0 - of(mad).mean_ms() / of(lru).mean_ms());
        let others = [lru.others, mad.others];
        let disturbed = others.into_iter().any(is_disturbed);
        let seen = if disturbed { Err(refused(&others)) } else { Ok(gain(|cell| &cell.seen)) };
        Some(Gain { origins: lru.origins, seen, foretold: gain(|cell| &cell.foretold) })
    };
    cells.chunks(POLICIES.len()).filter_map(gain).collect()
}

fn expectations(cells: &[Cell], rates: &[Rate]) -> Vec<Expectation> {
    let gain = |(gain, paper): (Gain, f64)| Expectation {
        figure: 14,
        expected: format!(
            "origin {}: MAD's mean latency below LRU's (paper: {paper} %)",
            gain.origins
        ),
        met: gain.seen.as_ref().is_ok_and(|&gain| gain > 0.0),
        seen: gain.seen.map_or_else(|refused| refused, |gain| format!("{gain:.1} %")),
    };
    let mut all: Vec<Expectation> = gains(cells).into_iter().zip(PAPER_GAINS).map(gain).collect();
    let differences: Option<Vec<f64>> = cells.iter().map(Cell::difference).collect();
    let worst =
        differences.map(|all| all.into_iter().map(f64::abs).reduce(f64::max).unwrap_or(f64::NAN));
    all.push(Expectation {
        figure: 15,
        expected: "mean latencies within 5 % of the simulated".to_owned(),
        met: worst.is_some_and(|worst| worst <= TOLERANCE),
        seen: worst.map_or_else(
            || refused(&cells.iter().map(|cell| cell.others).collect::<Vec<_>>()),
            |worst| format!("{:.1} % at the worst of {}", 100.0 * worst, cells.len()),
        ),
    });
    let others: Vec<_> = rates.iter().map(|rate| rate.measured.others).collect();
    let disturbed = others.iter().copied().any(is_disturbed);
    let shard = |rate: &Rate| 1e6 / rate.us(2).unwrap_or(f64::INFINITY);
    let rate = |expected: &str, least: f64, of: &dyn Fn(&Rate) -> f64| {
        let slowest = rates.iter().map(of).fold(f64::INFINITY, f64::min);
        Expectation {
            figure: 13,
            expected: expected.to_owned(),
            seen: if disturbed {
                refused(&others)
            } else {
                format!("{} at the least", output::grouped(slowest as u64))
            },
            met: !disturbed && slowest >= least,
        }
    };
    all.push(rate(
        "100,000 requests a second and core, origins included (paper: 1.2 million, 12 threads)",
        RATE,
        &Rate::per_core,
    ));
    all.push(rate("300,000 requests in a second of a shard's thread", SHARD_RATE, &shard));
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

fn table(cells: &[Cell]) -> String {
    let ratio = |counts: [u64; 3], at: usize| {
        output::percent(counts[at] as f64 / counts.iter().sum::<u64>().max(1) as f64)
    };
    let rows = cells.iter().map(|cell| {
        let difference = cell.difference();
        vec![
            cell.origins.to_owned(),
            cell.policy.to_owned(),
            format!("{:.3}", cell.foretold.mean_ms()),
            format!("{:.3}", cell.seen.mean_ms()),
            difference.map_or("disturbed".to_owned(), |it| format!("{:+.2} %", 100.0 * it)),
            format!("{:.1}", cell.foretold.quantile_ms(0.99)),
            format!("{:.1}", cell.seen.quantile_ms(0.99)),
            ratio(cell.simulated, 1),
            ratio(cell.measured, 1),
            ratio(cell.simulated, 2),
            ratio(cell.measured, 2),
            format!("{:.3}", cell.sent_late_ms),
            format!("{:.3}", cell.hit_ms),
            format!("{:.3}", cell.fetch_late_ms),
            cell.others.map_or("-".to_owned(), output::percent),
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
        "sent late ms",
        "hit ms",
        "fetch late ms",
        "other work",
    ];
    output::table(&headers, &["origin", "policy"], rows.collect())
}

/// Processor time of each part for a request.
fn costs(rates: &[Rate]) -> String {
    let row = |(part, name): (usize, &&str)| {
        let us = |rate: &Rate| rate.us(part).map_or("-".to_owned(), |us| format!("{us:.2}"));
        [(*name).to_owned()].into_iter().chain(rates.iter().map(us)).collect()
    };
    let headers: Vec<String> = ["part".to_owned()]
        .into_iter()
        .chain(rates.iter().map(|rate| format!("{}, us/request", rate.policy)))
        .collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    output::table(&headers, &["part"], PARTS.iter().enumerate().map(row).collect())
}

fn summary(load: &Load, plan: &Plan, cells: &[Cell], rates: &[Rate]) -> String {
    let gains: String = gains(cells)
        .into_iter()
        .zip(PAPER_GAINS)
        .map(|(gain, paper)| {
            let seen =
                gain.seen.map_or_else(|refused| refused, |gain| format!("{gain:.1} % measured"));
            format!(
                "MAD over LRU, origin {}: {seen}, {:.1} % simulated, {paper} % in the paper\n",
                gain.origins, gain.foretold
            )
        })
        .collect();
    let speeds: String = rates
        .iter()
        .map(|rate| {
            format!(
                "{}, as fast as it goes: {} requests a second and core, {} of them waited; other work \
                 had {} of the processors\n",
                rate.policy,
                output::grouped(rate.per_core() as u64),
                output::percent(rate.waited()),
                rate.measured.others.map_or("-".to_owned(), output::percent),
            )
        })
        .collect();
    format!(
        "{}: {} requests, {} µs apart in the mean; {} shards of {} objects of 1 KiB each\n\n{}\n\
         {gains}\n{speeds}\n{}",
        load.name,
        output::grouped(load.requests.len() as u64),
        plan.gap.as_secs_f64() * 1e6,
        load.parts.len(),
        output::grouped(load.capacity),
        table(cells),
        costs(rates),
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

    /// A cell whose measured mean is twice the simulated.
    fn twice(policy: &'static str, others: Option<f64>, ms: u64) -> Cell {
        let latencies = |ms: u64| Latencies::new(vec![(ms * 1_000_000, 1)]);
        Cell {
            origins: "A",
            policy,
            simulated: [0, 0, 1],
            measured: [0, 0, 1],
            foretold: latencies(ms),
            seen: latencies(2 * ms),
            sent_late_ms: 0.0,
            hit_ms: 0.0,
            fetch_late_ms: 0.0,
            others,
        }
    }

    #[test]
    fn what_was_disturbed_is_not_compared() {
        let seen = |others| {
            let cells = [twice("lru", Some(0.01), 10), twice("mad", others, 5)];
            let lines = expectations(&cells, &[]);
            lines[..2].iter().map(|it| (it.seen.clone(), it.met)).collect::<Vec<_>>()
        };
        let compared =
            [("50.0 %".to_owned(), true), ("100.0 % at the worst of 2".to_owned(), false)];
        assert_eq!(seen(Some(0.09)), compared);
        // If the share is unknown, there is no reason to refuse.
        assert_eq!(seen(None), compared);
        for (line, met) in seen(Some(0.2)) {
            assert!(line.contains("not compared") && line.contains("20") && !met, "{line}");
        }
        assert!(table(&[twice("lru", Some(0.2), 10)]).contains("disturbed"));
    }
}
