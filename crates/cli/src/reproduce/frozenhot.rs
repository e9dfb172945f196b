//! Paper 2's figures 5 and 8 to 16, by shape.
//!
//! `frozen+P` beside P: the cache with its controller in its own thread, and the same policy
//! without freezing. Zipf 0.99 over a fifth of the paper's million keys, because a controller waits
//! and learns for several requests an entry, and there are many cells; a miss waits 5 µs, as in the
//! paper. `lru`, `lfu` and `fifo` are the paper's bases; `mobius` is ours, whose hits have nothing
//! to gain.
//!
//! **One list, one lock.** The paper's caches have 16 shards with a lock each; ours has one.
//!
//! **Left out**: figure 17 (RocksDB).

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;

use super::Report;
use super::frozen_cells::{self as cells, Cell, Extent, History, LIFETIME, Load, Spot};
use super::frozen_curve::{self as curve, HitLatency, Hits, Promise};
use super::frozen_expectations::{Beside, Face, Findings, LFU, expectations};
use crate::draw;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;

use draw::{Look, Panel, Series, Shape, lines};

/// Latency of a miss in every figure except 16b.
const BACKEND_US: u64 = 5;
/// The paper's three, and ours.
const POLICIES: [&str; 4] = ["fifo", "lru", LFU, "mobius"];
/// The policies whose curve is learned and tried. In FIFO the coldest entries change as it rotates.
const LEARNT: [&str; 3] = ["lru", "lfu", "mobius"];
/// Capacities as shares of the keys of Zipf's law: the paper's three hit ratios.
const PERCENTS: [f64; 3] = [0.4, 25.0, 50.0];
/// The capacity if one is enough.
const PERCENT: f64 = 25.0;
/// Capacity as a share of the keys with which a cache should certainly freeze.
const LARGE: f64 = 80.0;
/// LRU and its relaxed variants in figure 16a.
const RELAXED: [&str; 3] = ["lru", "lru-relaxed", "lru-sampled"];

/// Objects for figure 5: fewer than elsewhere; a point of the curve then has a hundred requests.
const CURVE_OBJECTS: u64 = 20_000;

/// Real traces, by short names.
const TRACES: [(&str, &str); 13] = [
    ("twitter52", "libcachesim/twitter_cluster52.csv.zst"),
    ("twitter52-10m", "libcachesim/twitter_cluster52_10m.csv.zst"),
    ("cloudphysics", "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst"),
    ("oltp", "arc/OLTP.lis.zst"),
    ("p3", "arc/P3.lis.zst"),
    ("2-pools", "lirs/2_pools.trace.gz"),
    ("sprite", "lirs/sprite.trace.gz"),
    ("multi1", "lirs/multi1.trace.gz"),
    ("lirs-loop", "lirs/loop.trace.gz"),
    ("zigzag", "lirs/zigzag.trace.gz"),
    ("web12", "cache2k/web12.trace.xz"),
    ("adaptsize", "adaptsize/request.trace.xz"),
    ("delayed-hits", "delayedhits/trace.csv"),
];
/// The policies of figure 11.
const COUNTED: [&str; 5] = ["twitter52", "oltp", "lirs-loop", "p3", "loop"];

/// Capacity as a share of a trace's objects. In a loop a tenth does not predict a half.
fn percent(trace: &str) -> f64 {
    if trace.ends_with("loop") { 50.0 } else { 10.0 }
}

/// The measurements to make.
struct Plan {
    objects: u64,
    extent: Extent,
    /// Rounds for traces, whose gains are nearer to 1.
    trace_rounds: usize,
    policies: &'static [&'static str],
    percents: &'static [f64],
    /// Numbers of threads for figure 8, the largest last.
    threads: &'static [usize],
    /// Additional sizes of figure 16a, and backends of 16b.
    sizes: &'static [f64],
    backends: &'static [u64],
    /// Duration of figure 13 after the controller has decided, and of figure 14.
    longer: Duration,
    lasting: Duration,
    /// For figure 14.
    lifetimes: &'static [u32],
}

impl Plan {
    fn new(quick: bool) -> Self {
        let milliseconds = Duration::from_millis;
        if quick {
            let warmup = milliseconds(30);
            return Plan {
                objects: 8_000,
                extent: Extent { rounds: 1, settlings: 1, warmup, measured: milliseconds(60) },
                trace_rounds: 1,
                policies: &["lru"],
                percents: &[PERCENT],
                threads: &[2],
                sizes: &[],
                backends: &[],
                longer: milliseconds(400),
                lasting: milliseconds(400),
                lifetimes: &[],
            };
        }
        let warmup = milliseconds(100);
        Plan {
            objects: 200_000,
            extent: Extent { rounds: 5, settlings: 3, warmup, measured: milliseconds(200) },
            trace_rounds: 15,
            policies: &POLICIES,
            percents: &PERCENTS,
            threads: &[1, 2],
            sizes: &[10.0, 80.0],
            backends: &[5, 50, 500],
            longer: milliseconds(5_000),
            lasting: milliseconds(15_000),
            lifetimes: &[2, 5, 20, 60],
        }
    }

    fn most(&self) -> usize {
        self.threads.last().copied().unwrap_or(1)
    }

    fn spot(&self, figure: u32, policy: &'static str, percent: f64) -> Spot {
        Spot { figure, policy, percent, threads: self.most(), backend_us: BACKEND_US }
    }

    /// The measurements of a workload.
    fn spots(&self, load: &Load) -> Vec<Spot> {
        let each = |figure, percent| {
            self.policies.iter().map(move |&policy| self.spot(figure, policy, percent))
        };
        match load {
            Load::Zipf("zipf", ..) => {
                let wide = self.percents.iter().flat_map(|&percent| each(8, percent));
                let fewer = self.threads.iter().filter(|&&threads| threads < self.most());
                let narrow = fewer.flat_map(|&threads| {
                    each(8, PERCENT).map(move |spot| Spot { threads, ..spot })
                });
                let sizes = self.sizes.iter().map(|&percent| self.spot(16, "lru", percent));
                wide.chain(narrow).chain(sizes).collect()
            }
            Load::Zipf(..) => {
                let backend = |&backend_us| Spot { backend_us, ..self.spot(16, "lru", LARGE) };
                self.backends.iter().map(backend).collect()
            }
            Load::Trace(name, _) => each(8, percent(name)).collect(),
        }
    }

    fn extent(&self, load: &Load) -> Extent {
        match load {
            Load::Zipf(..) => self.extent,
            Load::Trace(..) => Extent { rounds: self.trace_rounds, ..self.extent },
        }
    }

    /// The baselines beside LRU, which never freeze.
    fn beside(&self, load: &Load) -> Vec<Spot> {
        let Load::Zipf("zipf", ..) = load else { return Vec::new() };
        let each = |&percent| RELAXED.map(|policy| self.spot(16, policy, percent));
        self.sizes.iter().flat_map(each).collect()
    }

    /// Figures 10 and 13, and 14: the spot, the lifetime of a frozen share, and the time of
    /// observation.
    fn histories(&self, load: &Load) -> Vec<(Spot, u32, Duration)> {
        let usual = |spot| (spot, LIFETIME, self.longer);
        match load {
            Load::Zipf("zipf", ..) => {
                let lru = self
                    .threads
                    .iter()
                    .map(|&threads| Spot { threads, ..self.spot(13, "lru", LARGE) });
                let others = self.policies.iter().filter(|&&it| it == "fifo");
                let others = others.map(|it| self.spot(13, it, LARGE));
                let lasting = self
                    .lifetimes
                    .iter()
                    .map(|&lifetime| (self.spot(14, "lru", LARGE), lifetime, self.lasting));
                lru.chain(others).map(usual).chain(lasting).collect()
            }
            Load::Trace("twitter52", _) => vec![usual(self.spot(13, LFU, percent("twitter52")))],
            Load::Zipf(..) | Load::Trace(..) => Vec::new(),
        }
    }
}

/// Zipf's law, a loop, and traces if there are any: those requested by name, or all.
fn loads(plan: &Plan, traces: Option<&Path>, names: &[String]) -> Result<Vec<Load>, Failure> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let turns = plan.extent.rounds + 1;
    let mut loads = Vec::new();
    if is_wanted("zipf") {
        loads.push(Load::zipf("zipf", plan.objects, plan.threads, turns)?);
    }
    if !plan.backends.is_empty() && is_wanted("zipf-small") {
        // Few enough keys that the controller of the slowest policy has learned in time.
        loads.push(Load::zipf("zipf-small", plan.objects / 10, &[plan.most()], turns)?);
    }
    if let Some(folder) = traces {
        for (name, file) in TRACES.into_iter().filter(|(name, _)| is_wanted(name)) {
            loads.push(Load::read(name, folder, file)?);
        }
    } else if is_wanted("loop") {
        let spec = format!("loop:objects={}:requests={}", plan.objects / 10, plan.objects);
        loads.push(Load::read("loop", Path::new(""), &spec)?);
    }
    let is_there = |name: &String| loads.iter().any(|load| load.name() == name);
    match names.iter().find(|name| !is_there(name)) {
        Some(name) => Err(Failure::usage(anyhow!("no workload {name} in this experiment"))),
        None => Ok(loads),
    }
}

/// Runs the experiment. Real traces take part if their folder is given. If only some workloads are
/// requested, figures 5 and 12 are omitted, because they use none of them.
pub(super) fn run(
    quick: bool,
    traces: Option<&Path>,
    workloads: &[String],
) -> Result<Report, Failure> {
    let plan = Plan::new(quick);
    let loads = loads(&plan, traces, workloads)?;
    let mut learnt: Vec<&str> = if quick { plan.policies.to_vec() } else { LEARNT.to_vec() };
    if !workloads.is_empty() {
        learnt.clear();
    }
    let timed: &[&str] = if workloads.is_empty() { plan.policies } else { &[] };
    let of = |load: &Load| {
        plan.spots(load).len() + 2 * plan.histories(load).len() + plan.beside(load).len()
    };
    let steps: usize = loads.iter().map(of).sum();
    let few = learnt.len() + plan.threads.len() * timed.len() + 2 * COUNTED.len();
    let progress = Progress::of_steps("measuring".to_owned(), (steps + few) as u64);
    let mut findings = Findings::default();
    for load in &loads {
        for spot in plan.spots(load) {
            findings.cells.push(cells::compare(load, spot, &plan.extent(load))?);
            progress.advance(1);
        }
        for spot in plan.beside(load) {
            let side = cells::alone(load, spot, &plan.extent(load))?;
            findings.beside.push(Beside { spot, side });
            progress.advance(1);
        }
        for (spot, lifetime, longer) in plan.histories(load) {
            findings.histories.push(cells::history(load, spot, lifetime, longer)?);
            progress.advance(2);
        }
    }
    for load in &loads {
        let Load::Trace(name, trace) = load else { continue };
        for policy in ["fifo", "lru"].into_iter().filter(|_| COUNTED.contains(name)) {
            findings.hits.push(curve::hits(name, trace, policy, percent(name))?);
            progress.advance(1);
        }
    }
    for policy in learnt {
        findings.promises.extend(curve::promises(policy, CURVE_OBJECTS)?);
        progress.advance(1);
    }
    for &threads in plan.threads {
        for &policy in timed {
            findings.latencies.push(curve::hit_latency(policy, plan.objects, threads)?);
            progress.advance(1);
        }
    }
    Ok(report(&findings))
}

fn report(findings: &Findings) -> Report {
    let mut measurements: Vec<output::Row> = findings.cells.iter().map(Cell::row).collect();
    measurements.extend(findings.histories.iter().flat_map(History::rows));
    measurements.extend(findings.beside.iter().map(Beside::row));
    measurements.extend(findings.hits.iter().map(Hits::row));
    measurements.extend(findings.promises.iter().map(Promise::row));
    measurements.extend(findings.latencies.iter().map(HitLatency::row));
    Report {
        measurements,
        expectations: expectations(findings),
        figures: figures(findings),
        summary: [
            gains(findings),
            faces(findings),
            beside(findings),
            phases(findings),
            lifetimes(findings),
            hits(findings),
            learnt(findings),
            hit_latencies(findings),
        ]
        .into_iter()
        .filter(|table| !table.is_empty())
        .collect::<Vec<String>>()
        .join("\n"),
    }
}

/// A table, unless it is empty.
fn titled(title: &str, headers: &[&str], left: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("{title}\n\n{}", output::table(headers, left, rows))
}

fn gains(findings: &Findings) -> String {
    let row = |cell: &Cell| {
        let Spot { figure, policy, percent, threads, backend_us } = cell.spot;
        vec![
            figure.to_string(),
            cell.load.to_owned(),
            format!("{percent} %"),
            policy.to_owned(),
            threads.to_string(),
            backend_us.to_string(),
            output::number(cell.base.mops(), 2),
            output::number(cell.frozen.mops(), 2),
            format!("{:.2}", cell.gain()),
            format!("{:.2}", cell.whole_gain()),
            output::percent(cell.base.hit_ratio()),
            output::percent(cell.frozen.hit_ratio()),
            format!("{:+.2}", 100.0 * cell.hits_more()),
            output::percent(cell.frozen_hits()),
            cell.phase(),
            format!("{:.0} %", 100.0 * cell.share()),
            format!("{:.1}", cell.settling),
        ]
    };
    let headers = [
        "figure",
        "workload",
        "cache",
        "policy",
        "threads",
        "miss us",
        "M req/s",
        "frozen+",
        "gain",
        "whole run",
        "hits",
        "hits of frozen+",
        "points",
        "frozen hits/hits",
        "phase",
        "share",
        "after s",
    ];
    let left = ["workload", "policy", "phase"];
    titled(
        "The policy, and frozen+ that policy once its controller has decided",
        &headers,
        &left,
        findings.cells.iter().map(row).collect(),
    )
}

fn phases(findings: &Findings) -> String {
    use frazil::FreezingPhase::{Constructing, Frozen, Learning, Sleeping, Trying, Waiting};
    let all = [Waiting, Learning, Trying, Constructing, Frozen, Sleeping];
    let mut rows = Vec::new();
    for history in findings.histories.iter().filter(|it| it.spot.figure == 13) {
        let Spot { policy, percent, threads, .. } = history.spot;
        for phase in all {
            let time = history.state.time_in(phase);
            if time.is_zero() {
                continue;
            }
            let mops = history.mops(phase).map_or("-".to_owned(), |mops| output::number(mops, 2));
            rows.push(vec![
                history.load.to_owned(),
                format!("{percent} %"),
                policy.to_owned(),
                threads.to_string(),
                cells::phase_name(phase),
                format!("{:.2}", time.as_secs_f64()),
                output::percent(history.time_in(phase)),
                mops,
                output::percent(history.mean_share()),
            ]);
        }
    }
    let headers = [
        "workload",
        "cache",
        "policy",
        "threads",
        "phase",
        "s",
        "of the time",
        "M req/s",
        "mean share frozen",
    ];
    titled(
        "Figures 10 and 13: phases of a run from its beginning",
        &headers,
        &["workload", "policy", "phase"],
        rows,
    )
}

/// Figure 15: the number of traces on which LRU is better than FIFO, and worse.
fn faces(findings: &Findings) -> String {
    let row = |face: &Face| {
        let Face { what, frozen, lru, fifo, even } = face;
        let frozen = if *frozen { "frozen+" } else { "alone" };
        let mut row = vec![(*what).to_owned(), frozen.to_owned()];
        row.extend([lru, fifo, even].map(usize::to_string));
        row
    };
    let rows: Vec<_> = findings.faces().iter().map(row).collect();
    let headers = ["better by", "", "lru", "fifo", "neither by 1 %"];
    titled("Figure 15: traces on which LRU is better than FIFO", &headers, &["better by", ""], rows)
}

fn beside(findings: &Findings) -> String {
    let row = |Beside { spot, side }: &Beside| {
        vec![
            format!("{} %", spot.percent),
            spot.policy.to_owned(),
            output::number(side.mops(), 2),
            output::percent(side.hit_ratio()),
        ]
    };
    let headers = ["cache", "policy", "M req/s", "hits"];
    titled(
        "Figure 16a: what else makes LRU faster, on zipf",
        &headers,
        &["policy"],
        findings.beside.iter().map(row).collect(),
    )
}

fn lifetimes(findings: &Findings) -> String {
    use frazil::FreezingPhase::Frozen;
    let row = |history: &History| {
        let mops = history.mops_since_frozen();
        vec![
            history.lifetime.to_string(),
            mops.map_or("-".to_owned(), |mops| output::number(mops, 2)),
            output::percent(history.time_in(Frozen)),
            history.state.refreshes.to_string(),
        ]
    };
    let mut rows: Vec<_> = findings.lasting().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let never =
        |it: &&Beside| it.spot.policy == "lru" && it.spot.percent.to_bits() == LARGE.to_bits();
    if let Some(Beside { side, .. }) = findings.beside.iter().find(never) {
        let mops = output::number(side.mops(), 2);
        rows.push(vec!["never".to_owned(), mops, output::percent(0.0), "0".to_owned()]);
    }
    let headers = ["lifetime", "M req/s since frozen", "of the time frozen", "frozen anew"];
    titled("Figure 14: how long something stays frozen, LRU on zipf", &headers, &[], rows)
}

fn hits(findings: &Findings) -> String {
    let row = |hits: &Hits| {
        vec![
            hits.load.to_owned(),
            format!("{} %", hits.percent),
            hits.policy.to_owned(),
            output::percent(hits.ratios[0]),
            output::percent(hits.ratios[1]),
            hits.change().map_or("-".to_owned(), |change| format!("{:+.1} %", 100.0 * change)),
            output::percent(hits.frozen_hits),
            format!("{:.0} %", 100.0 * hits.share),
            output::percent(hits.whole),
        ]
    };
    let headers = [
        "workload",
        "cache",
        "policy",
        "hits",
        "hits of frozen+",
        "change",
        "frozen hits/hits",
        "share at the end",
        "all by hand",
    ];
    let rows = findings.hits.iter().map(row).collect();
    titled(
        "Figure 11: hits by count, by a clock in which all hits take as long",
        &headers,
        &["workload", "policy"],
        rows,
    )
}

fn learnt(findings: &Findings) -> String {
    let row = |promise: &Promise| {
        vec![
            promise.policy.to_owned(),
            format!("{:.0} %", 100.0 * promise.share),
            output::percent(promise.learnt[0]),
            output::percent(promise.got[0]),
            output::percent(promise.learnt[1]),
            output::percent(promise.got[1]),
        ]
    };
    let headers = ["policy", "frozen", "hits of it learnt", "got", "misses learnt", "misses got"];
    let rows = findings.promises.iter().map(row).collect();
    titled(
        "Figure 5: of all requests, what the curve says and what freezing gets",
        &headers,
        &["policy"],
        rows,
    )
}

fn hit_latencies(findings: &Findings) -> String {
    let row = |it: &HitLatency| {
        let [with, without] = it.means();
        let ns = |ns: f64| format!("{ns:.0}");
        vec![
            it.policy.to_owned(),
            it.threads.to_string(),
            output::percent(it.frozen_share),
            ns(it.frozen_ns),
            ns(it.thawed_ns),
            ns(it.indexed_ns),
            ns(it.other_ns),
            ns(it.other_thawed_ns),
            ns(with),
            ns(without),
        ]
    };
    let headers = [
        "policy",
        "threads",
        "frozen hits/hits",
        "frozen ns",
        "thawed ns",
        "by index alone ns",
        "others ns",
        "others thawed ns",
        "mean ns",
        "mean thawed ns",
    ];
    let rows = findings.latencies.iter().map(row).collect();
    titled(
        "Figure 12: a hit, with half of the entries frozen by hand and thawed",
        &headers,
        &["policy"],
        rows,
    )
}

fn series(name: impl Into<String>, number: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), look: Look { number, apart: false }, points }
}

fn figures(findings: &Findings) -> Vec<(String, String)> {
    let mut figures = vec![("frozenhot-figure-8.svg".to_owned(), figure_8(findings))];
    if let Some(history) = findings.histories.first() {
        figures.push(("frozenhot-figure-13.svg".to_owned(), figure_13(history)));
    }
    figures
}

/// Gains and shares of hits by workload, a bar for each policy.
fn figure_8(findings: &Findings) -> String {
    let place =
        |cell: &Cell| format!("{} {} %, {}", cell.load, cell.spot.percent, cell.spot.threads);
    let of = || findings.cells.iter().filter(|cell| cell.spot.figure == 8);
    let mut labels: Vec<String> = Vec::new();
    for label in of().map(place) {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let panel = |title: &str, y: &str, value: fn(&Cell) -> f64| {
        let each = POLICIES.iter().enumerate().map(|(number, &policy)| {
            let mine = of().filter(|cell| cell.spot.policy == policy);
            let point = |cell: &Cell| {
                let at = labels.iter().position(|label| *label == place(cell)).unwrap_or(0);
                (at as f64, value(cell))
            };
            series(policy, number, mine.map(point).collect())
        });
        Panel { shape: Shape::Bars, labels: labels.clone(), ..lines(title, "", y, each.collect()) }
    };
    let panels = [
        panel("gain (workload, cache, threads)", "frozen+ over not", Cell::gain),
        panel("hits of what is frozen", "of all hits", Cell::frozen_hits),
    ];
    draw::figure("Freezing: throughput, and share of the hits", &panels)
}

fn figure_13(history: &History) -> String {
    let line = |value: fn(&cells::Moment) -> f64| {
        history.moments.iter().map(|moment| (moment.seconds, value(moment))).collect()
    };
    let shares =
        vec![series("frozen", 1, line(|it| it.share)), series("hits", 2, line(|it| it.hit_ratio))];
    let panels = [
        lines("throughput", "s", "M requests/s", vec![series("frozen+", 0, line(|it| it.mops))]),
        lines("what is frozen, and hits", "s", "share", shares),
    ];
    draw::figure("Phases of a cache that freezes by itself", &panels)
}
