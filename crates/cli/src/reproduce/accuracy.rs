//! The accuracy of the queueing model: throughput predicted from a calibration, and measured in the
//! cache, by policy, hit ratio, threads and backend. The paper's prototype and its simulation agree
//! within 5 % (figures 3, 5, 7, 8 and 10).
//!
//! Nothing is fitted to these measurements. The profile was written before, on other workloads; the
//! simulator gives the hit ratio and the items that evictions skip, on a trace with another seed.
//! Each process measures every cell once, and the processes run one after the other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use frazil_driver::{
    Backend, Distance, Frozen, Mix, Ours, Schedule, Setup, Stream, Workload, one_pass,
};
use frazil_policy::{PolicySpec, Work};
use frazil_queueing::{Conditions, Profile, solve};
use frazil_simulator::{CellSpec, Outcome, SweepOptions, sweep, trace};
use serde_json::{Value, json};

use super::{Expectation, Report, calibrated};
use crate::Done;
use crate::calibrate::measure::Tally;
use crate::failure::Failure;
use crate::forecast::frozen_hits;
use crate::median::median;
use crate::output::{self, Row, row};
use crate::profile;
use crate::progress::Progress;

const POLICIES: [&str; 8] =
    ["lru", "fifo", "lru-prob:q=0.5", "clock", "slru", "s3-fifo", "sieve", "mobius"];
/// Policies with a frozen part; only the policies' own costs are calibrated.
const FROZEN: [&str; 5] = [
    "frozen:share=0.1+lru",
    "frozen:share=0.5+lru",
    "frozen:share=0.9+lru",
    "frozen:share=0.5+slru",
    "frozen:share=0.5+mobius",
];
const FROZEN_HIT_RATIOS: [f64; 3] = [0.7, 0.9, 1.0];
const HIT_RATIOS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const THREADS: [usize; 2] = [1, 2];
const BACKENDS_US: [f64; 3] = [0.0, 5.0, 100.0];
/// Requests in flight with a backend.
const MPL: usize = 16;
const ALPHA: f64 = 0.9;
/// Capacities of the calibration, and its duration.
const CAPACITIES: [u64; 5] = [1_000, 10_000, 100_000, 300_000, 1_000_000];
const CALIBRATION_SECONDS: f64 = 90.0;
/// A cell is scored if a lock or a queue is busy for this share of the time.
const BUSY: f64 = 0.3;
/// Limits for the scored cells: the median error and the worst.
const TARGET: (f64, f64) = (0.10, 0.25);
/// Limit for cells with a frozen part: the median error.
const FROZEN_TARGET: f64 = 0.25;

/// The extent of the experiment.
struct Size {
    keys: u64,
    requests: u64,
    processes: usize,
    run: Duration,
}

impl Size {
    fn new(quick: bool) -> Self {
        if quick {
            let run = Duration::from_millis(5);
            return Size { keys: 20_000, requests: 200_000, processes: 1, run };
        }
        let run = Duration::from_millis(80);
        Size { keys: 200_000, requests: 4_000_000, processes: 5, run }
    }
}

/// A policy at the capacity that gives it a hit ratio.
struct Place {
    policy: &'static str,
    capacity: u64,
    hit_ratio: f64,
    /// Items skipped by a miss.
    skips: f64,
    /// The frozen part's share of the hits.
    frozen_hits: Option<f64>,
}

/// The prediction and the measurement.
struct Cell<'p> {
    place: &'p Place,
    threads: usize,
    backend_us: f64,
    predicted: f64,
    /// Utilisation of the busiest lock or queue.
    utilisation: f64,
    measured: Vec<f64>,
    hit_ratios: Vec<f64>,
    /// Frozen hits, of all hits.
    frozen_hits: Vec<f64>,
    disturbed: usize,
}

impl Cell<'_> {
    fn mops(&self) -> f64 {
        median(&self.measured)
    }

    /// Predicted over measured, minus 1.
    fn error(&self) -> f64 {
        self.predicted / self.mops().max(1e-9) - 1.0
    }

    fn is_frozen(&self) -> bool {
        self.place.frozen_hits.is_some()
    }

    fn is_scored(&self) -> bool {
        self.backend_us == 0.0 || self.utilisation >= BUSY
    }

    fn row(&self) -> Row {
        row! {
            "policy" => self.place.policy,
            "capacity" => self.place.capacity,
            "hit_ratio" => self.place.hit_ratio,
            "hit_ratio_measured" => median(&self.hit_ratios),
            "skips_per_miss" => self.place.skips,
            "frozen_hits" => self.place.frozen_hits,
            "frozen_hits_measured" => self.is_frozen().then(|| median(&self.frozen_hits)),
            "threads" => self.threads,
            "backend_us" => self.backend_us,
            "mpl" => mpl(self.threads, self.backend_us),
            "predicted_mops" => self.predicted,
            "measured_mops" => self.mops(),
            "measured_mops_each" => self.measured,
            "disturbed" => self.disturbed,
            "error" => self.error(),
            "utilisation" => self.utilisation,
            "scored" => self.is_scored(),
        }
    }
}

/// Without a backend a thread has one request at a time.
fn mpl(threads: usize, backend_us: f64) -> usize {
    if backend_us > 0.0 { MPL.max(threads) } else { threads }
}

pub(super) fn run(quick: bool, folder: &Path, profile: Option<&Path>) -> Result<Report, Failure> {
    let size = Size::new(quick);
    let (profile, calibration) = profile_of(quick, folder, profile)?;
    let places = places(&size)?;
    let mut cells = Vec::new();
    for place in &places {
        for threads in THREADS {
            for backend_us in BACKENDS_US {
                cells.push(predict(&profile, place, threads, backend_us)?);
            }
        }
    }
    let plan = Plan(folder.join("accuracy-plan.json"));
    let cell = |it: &Place| json!({"policy": it.policy, "capacity": it.capacity});
    let all: Vec<Value> = places.iter().map(cell).collect();
    let text = json!({"quick": quick, "transfer_ns": profile.machine.transfer_ns, "places": all})
        .to_string();
    std::fs::write(&plan.0, text).with_context(|| format!("cannot write {}", plan.0.display()))?;
    let progress = Progress::of_steps("measuring".to_owned(), size.processes as u64);
    for _ in 0..size.processes {
        let rows = child(&plan.0)?;
        if rows.len() != cells.len() {
            return Err(anyhow!("{} of {} cells came back", rows.len(), cells.len()).into());
        }
        for (cell, row) in cells.iter_mut().zip(rows) {
            let number = |key: &str| row[key].as_f64().unwrap_or_default();
            cell.measured.push(number("mops"));
            cell.hit_ratios.push(number("hit_ratio"));
            cell.frozen_hits.push(number("frozen_hits"));
            cell.disturbed += usize::from(row["disturbed"] == json!(true));
        }
        progress.advance(1);
    }
    let mut report = report(&cells);
    report.summary += &calibration;
    Ok(report)
}

/// The file with the processes' measurements to make; removed once they are done, or one has
/// failed.
struct Plan(PathBuf);

impl Drop for Plan {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The profile: the given one, or one measured and written now, with its quality.
fn profile_of(
    quick: bool,
    folder: &Path,
    given: Option<&Path>,
) -> Result<(Profile, String), Failure> {
    if let Some(file) = given {
        return Ok((profile::read(&file.display().to_string())?, String::new()));
    }
    let (capacities, seconds) =
        if quick { (&CAPACITIES[..2], 1.0) } else { (&CAPACITIES[..], CALIBRATION_SECONDS) };
    let place = (folder, "machine.toml");
    let (profile, _, line) = calibrated(&POLICIES, capacities, seconds, place)?;
    Ok((profile, line))
}

/// For each policy the capacities that give the hit ratios, and the simulator's counts there.
fn places(size: &Size) -> Result<Vec<Place>, Failure> {
    let (keys, requests) = (size.keys, size.requests);
    let name = format!("zipf:{ALPHA}:objects={keys}:requests={requests}:seed=7");
    let trace = trace::load(&name, &trace::ReadOptions::default())?.trace;
    let grid: Vec<u64> = (0..14)
        .map(|step| (keys as f64 * 0.005 * 190_f64.powf(f64::from(step) / 13.0)) as u64)
        .collect();
    let options = SweepOptions {
        warmup: requests / 2,
        threads: frazil_driver::cores(),
        count_work: true,
        ..SweepOptions::default()
    };
    let mut specs: Vec<PolicySpec> = Vec::new();
    for policy in POLICIES.into_iter().chain(FROZEN) {
        specs.push(policy.parse().map_err(Failure::usage)?);
    }
    let at = |policy: PolicySpec| grid.iter().map(move |&capacity| CellSpec { policy, capacity });
    let cells: Vec<CellSpec> = specs.iter().copied().flat_map(at).collect();
    let outcomes = sweep(&trace, &cells, &options, &|_| ());
    let (mut wanted, mut names) = (Vec::new(), Vec::new());
    let every = POLICIES.into_iter().chain(FROZEN);
    for ((&policy, outcomes), name) in specs.iter().zip(outcomes.chunks(grid.len())).zip(every) {
        let curve: Vec<(f64, u64)> =
            outcomes.iter().map(|it| 1.0 - it.miss_ratio()).zip(grid.iter().copied()).collect();
        let frozen = matches!(policy, PolicySpec::Frozen { .. });
        for &hit_ratio in if frozen { &FROZEN_HIT_RATIOS[..] } else { &HIT_RATIOS[..] } {
            // More than all keys fit, so that entries in the threads' buffers cause no evictions.
            let capacity =
                if hit_ratio < 1.0 { between(&curve, hit_ratio) } else { keys * 11 / 10 };
            wanted.push(CellSpec { policy, capacity });
            names.push((name, hit_ratio));
        }
    }
    let outcomes = sweep(&trace, &wanted, &options, &|_| ());
    let place = |((policy, wanted_ratio), (cell, outcome)): ((_, f64), (&CellSpec, &Outcome))| {
        let skips = outcome.work.elsewhere.get(Work::Skip) as f64;
        let all = wanted_ratio == 1.0;
        Place {
            policy,
            capacity: cell.capacity,
            // Keys that the trace has not requested yet do not count.
            hit_ratio: if all { 1.0 } else { 1.0 - outcome.miss_ratio() },
            skips: if all { 0.0 } else { skips / outcome.misses().max(1) as f64 },
            frozen_hits: frozen_hits(outcome),
        }
    };
    Ok(names.into_iter().zip(wanted.iter().zip(&outcomes)).map(place).collect())
}

/// The capacity of a hit ratio on a rising curve, interpolated in the logarithm of the capacity.
fn between(curve: &[(f64, u64)], hit_ratio: f64) -> u64 {
    let above = curve.iter().position(|it| it.0 >= hit_ratio).unwrap_or(curve.len());
    let (Some(&low), Some(&high)) = (curve.get(above.wrapping_sub(1)), curve.get(above)) else {
        let nearest = if above == 0 { curve.first() } else { curve.last() };
        return nearest.map_or(1, |it| it.1);
    };
    let share = (hit_ratio - low.0) / (high.0 - low.0).max(1e-9);
    let (from, to) = ((low.1 as f64).ln(), (high.1 as f64).ln());
    (from + share * (to - from)).exp() as u64
}

fn predict<'p>(
    profile: &Profile,
    place: &'p Place,
    threads: usize,
    backend_us: f64,
) -> Result<Cell<'p>, Failure> {
    let mut conditions = Conditions::new(place.hit_ratio, backend_us);
    conditions.capacity = place.capacity as f64;
    conditions.cores = Some(threads);
    conditions.work.insert("skip".to_owned(), [0.0, place.skips]);
    conditions.frozen_hits = place.frozen_hits;
    // A frozen hit costs the same with all policies.
    let costs_of = place.policy.rsplit('+').next().unwrap_or(place.policy);
    let solved = profile
        .network_under(costs_of, &conditions)
        .and_then(|network| solve(&network, mpl(threads, backend_us)));
    let solution = solved.map_err(|error| anyhow!(error))?;
    let turns = solution.stations.iter().filter(|it| it.name != "cores");
    Ok(Cell {
        place,
        threads,
        backend_us,
        predicted: solution.throughput_mops,
        utilisation: turns.map(|it| it.utilisation).fold(0.0, f64::max),
        measured: Vec::new(),
        hit_ratios: Vec::new(),
        frozen_hits: Vec::new(),
        disturbed: 0,
    })
}

/// A process that measures every cell once.
fn child(plan: &Path) -> anyhow::Result<Vec<Value>> {
    let program = std::env::current_exe().context("no path to this program")?;
    let output = Command::new(program)
        .args(["reproduce", "accuracy", "--measure"])
        .arg(plan)
        .output()
        .context("cannot start the process that measures")?;
    if !output.status.success() {
        bail!("a process that measures: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The measurements of a plan: policies and capacities.
fn planned(plan: &Value) -> anyhow::Result<Vec<(Setup, u64)>> {
    let places = plan["places"].as_array().context("no list `places` in it")?;
    ensure!(!places.is_empty(), "`places` is empty: nothing to measure");
    let place = |place: &Value| {
        let policy = place["policy"].as_str().context("a place without `policy`")?;
        let setup = policy.parse::<Setup>()?;
        let capacity = place["capacity"].as_u64().filter(|it| *it > 0);
        Ok((setup, capacity.with_context(|| format!("no `capacity` above 0 of `{policy}`"))?))
    };
    places.iter().map(place).collect()
}

/// Measures the cells of a plan, and prints a line for each.
pub(super) fn measure(plan: &Path) -> Done {
    let read =
        || -> anyhow::Result<Value> { Ok(serde_json::from_str(&std::fs::read_to_string(plan)?)?) };
    let failed = || format!("cannot read the plan {}", plan.display());
    let plan = read().with_context(failed)?;
    let places = planned(&plan).with_context(failed)?;
    let size = Size::new(plan["quick"] == json!(true));
    // Each cell has its own requests: recently requested keys would hit too often.
    let count = THREADS.iter().sum::<usize>() * BACKENDS_US.len() + 1;
    let streams = Workload::Zipf { alpha: ALPHA }
        .streams(size.keys, size.requests as usize * count, count)
        .map_err(Failure::usage)?;
    let mut tally = Tally::new(Distance::of(plan["transfer_ns"].as_f64()));
    let mut rows = Vec::new();
    for (setup, capacity) in places {
        rows.extend(measure_place(setup, capacity, &size, &streams, &mut tally)?);
    }
    output::print(&output::json(&rows))
}

/// One cache, filled once.
fn measure_place(
    setup: Setup,
    capacity: u64,
    size: &Size,
    streams: &[Stream],
    tally: &mut Tally,
) -> Result<Vec<Row>, Failure> {
    let ours = Ours::<u64>::new(setup, capacity, 0);
    if capacity >= size.keys {
        let all = Mix { resident: size.keys as u32, newcomers: 0.0, again: 0 };
        all.preload(&ours).map_err(Failure::usage)?;
    }
    let schedule = Schedule { warmup: size.run / 4, measured: size.run, slices: 1 };
    let filling = Schedule { measured: Duration::from_millis(1), ..schedule };
    let (filler, mut streams) = streams.split_at(1);
    frazil_driver::run(&ours, filler, 2 * capacity, &filling);
    let mut rows = Vec::new();
    for threads in THREADS {
        for backend_us in BACKENDS_US {
            let (asked, others) = streams.split_at(threads);
            streams = others;
            let before = tally.disturbed;
            let timed = tally.least_disturbed(&schedule, threads, || {
                if backend_us > 0.0 {
                    let latency = Duration::from_secs_f64(backend_us * 1e-6);
                    let backend = Backend::new(latency, MPL);
                    // The cache is full, so a short warm-up is enough.
                    frazil_driver::run_with_backend(&ours, asked, 0, &schedule, backend)
                } else {
                    frazil_driver::run(&ours, asked, 0, &schedule)
                }
            });
            rows.push(row! {
                "mops" => threads as f64 / timed.us,
                "hit_ratio" => timed.hit_ratio,
                "disturbed" => tally.disturbed > before,
            });
        }
    }
    let before = ours.cache().stats();
    if setup.frozen != Frozen::Never {
        one_pass(&ours, &filler[0]);
    }
    let after = ours.cache().stats();
    let hits = (after.hits - before.hits).max(1);
    let share = (after.frozen_hits - before.frozen_hits) as f64 / hits as f64;
    rows.iter_mut().for_each(|row| _ = row.insert("frozen_hits".to_owned(), json!(share)));
    Ok(rows)
}

fn report(all: &[Cell<'_>]) -> Report {
    let (cells, frozen) = all.split_at(all.iter().take_while(|it| !it.is_frozen()).count());
    let errors_among = |cells: &[Cell<'_>], of: &dyn Fn(&Cell<'_>) -> bool| -> Vec<f64> {
        cells.iter().filter(|cell| of(cell)).map(|cell| cell.error().abs()).collect()
    };
    let errors = |of: &dyn Fn(&Cell<'_>) -> bool| errors_among(cells, of);
    let frozen_scored = errors_among(frozen, &|it| it.is_scored());
    let worst = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
    let scored = errors(&|it| it.is_scored());
    let expectation = |expected: &str, cells: &[f64], seen: f64, most: f64| Expectation {
        figure: 3,
        expected: expected.to_owned(),
        seen: format!("{:.1} % of {} scored cells", seen * 100.0, cells.len()),
        met: seen <= most,
    };
    let mut summary = table(cells);
    summary += "\nWith a frozen part, and the share of the hits that it serves.\n\n";
    summary += &rows(frozen);
    let line = |what: &str, errors: &[f64]| {
        format!(
            "{what}: {} cells, median error {:.1} %, worst {:.1} %\n",
            errors.len(),
            median(errors) * 100.0,
            worst(errors) * 100.0
        )
    };
    summary += "\n";
    summary += &line("scored", &scored);
    // Without a score there is no limit to compare with.
    let quiet = errors(&|it| it.is_scored() && it.disturbed == 0);
    summary += &line("scored, never disturbed", &quiet);
    summary += &line("all", &errors(&|_| true));
    for policy in POLICIES {
        summary += &line(policy, &errors(&|it| it.is_scored() && it.place.policy == policy));
    }
    for threads in THREADS {
        let of = errors(&|it| it.is_scored() && it.threads == threads);
        summary += &line(&format!("threads {threads}"), &of);
    }
    summary += &line("frozen, scored", &frozen_scored);
    for hit_ratio in FROZEN_HIT_RATIOS {
        let near = |it: &Cell<'_>| (it.place.hit_ratio - hit_ratio).abs() < 0.05;
        let of = errors_among(frozen, &|it| it.is_scored() && near(it));
        summary += &line(&format!("frozen, hit ratio {hit_ratio}"), &of);
    }
    let disturbed: usize = all.iter().map(|cell| cell.disturbed).sum();
    summary += &format!("{disturbed} runs disturbed every time they were tried\n");
    Report {
        measurements: all.iter().map(Cell::row).collect(),
        expectations: vec![
            expectation("half of the errors at most 10 %", &scored, median(&scored), TARGET.0),
            expectation("no error above 25 %", &scored, worst(&scored), TARGET.1),
            expectation(
                "half of the errors with a frozen part at most 25 %",
                &frozen_scored,
                median(&frozen_scored),
                FROZEN_TARGET,
            ),
        ],
        figures: Vec::new(),
        summary,
    }
}

/// A row for each policy and hit ratio: predicted, measured, and the error.
fn table(cells: &[Cell<'_>]) -> String {
    let table = rows(cells);
    format!("M requests/s foretold and measured, and the error; * is not scored.\n\n{table}")
}

fn rows(cells: &[Cell<'_>]) -> String {
    let frozen = cells.iter().any(Cell::is_frozen);
    let columns = THREADS.len() * BACKENDS_US.len();
    let mut headers = vec!["policy".to_owned(), "hits".to_owned(), "capacity".to_owned()];
    headers.extend(frozen.then(|| "of frozen".to_owned()));
    for threads in THREADS {
        for backend_us in BACKENDS_US {
            headers.push(format!("{threads} thr, {backend_us} us"));
        }
    }
    let of = |cell: &Cell<'_>| {
        let digits = if cell.mops() < 1.0 { 3 } else { 1 };
        let star = if cell.is_scored() { "" } else { "*" };
        format!(
            "{:.digits$} {:.digits$} {:+.0}%{star}",
            cell.predicted,
            cell.mops(),
            cell.error() * 100.0
        )
    };
    let row = |cells: &[Cell<'_>]| {
        let place = cells[0].place;
        let (hits, capacity) = (format!("{:.3}", place.hit_ratio), output::grouped(place.capacity));
        let mut row = vec![place.policy.to_owned(), hits, capacity];
        if let Some(foretold) = place.frozen_hits {
            row.push(format!("{foretold:.2} {:.2}", median(&cells[0].frozen_hits)));
        }
        row.extend(cells.iter().map(of));
        row
    };
    let rows = cells.chunks(columns).map(row).collect();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    output::table(&headers, &["policy"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_nothing_is_none() {
        let error = |plan: Value| format!("{:#}", planned(&plan).unwrap_err());
        assert!(error(json!({})).contains("places"));
        assert!(error(json!({"places": []})).contains("empty"));
        assert!(error(json!({"places": [{"capacity": 3}]})).contains("policy"));
        assert!(error(json!({"places": [{"policy": "lru"}]})).contains("capacity"));
        assert!(error(json!({"places": [{"policy": "lur", "capacity": 3}]})).contains("lur"));
        let places = planned(&json!({"places": [{"policy": "lru", "capacity": 3}]})).unwrap();
        assert_eq!(places, [("lru".parse().unwrap(), 3)]);
    }

    #[test]
    fn a_plan_goes_when_its_work_does() {
        let file = std::env::temp_dir().join(format!("frazil-plan-{}", std::process::id()));
        let plan = Plan(file.clone());
        std::fs::write(&plan.0, "{}").unwrap();
        drop(plan);
        assert!(!file.exists());
    }
}
