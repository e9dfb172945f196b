//! `frazil bench --connect`: load on a running server.

mod drive;
mod host;
mod report;
mod target;
mod wire;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context as _, anyhow, bail};
use frazil_driver::{Processors, Workload};
use frazil_simulator::trace::{Lifetimes, Loaded, ReadOptions, Trace, load};

use crate::Done;
use crate::failure::{Failure, note};
use crate::output::{self, Output, grouped};
use crate::progress::Progress;
use crate::trace_args::{TraceArgs, Wanted, parse_records};
use drive::{Load, Measured};
use host::Used;
use target::{Protocol, Target};
use work::{VALUE_MAX, Work};

/// Draws until they repeat, as in the cache's own generated workloads.
const DRAWS: u64 = 8_000_000;
/// Requests in flight on each connection while filling the server.
const FILL_DEPTH: usize = 64;
const WARMUP_SHARE: f64 = 0.25;
const SECONDS: f64 = 2.0;
const VALUE_BYTES: u32 = 100;
const CONNECTIONS: u16 = 50;
const SETS: f64 = 0.1;
/// Share of a core above which the load generator is saturated.
const SATURATED: f64 = 0.95;

/// What to ask of a server that runs.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Load on a server")]
pub(crate) struct LoadArgs {
    /// Measure the server that runs here, instead of the cache: memcached://HOST:PORT,
    /// redis://HOST:PORT, memcached+unix:///PATH, redis+unix:///PATH, or http://HOST:PORT/{key}, of
    /// which keys are read only. The keys of --workload are set first, and then asked for.
    #[arg(long, value_name = "URL", conflicts_with_all = ["policy", "shards", "capacity", "threads",
          "backend", "mpl", "bypass", "split", "measure_memory"])]
    pub(crate) connect: Option<Target>,

    /// Connections [default: 50; with --trace 1].
    #[arg(long, value_name = "N", requires = "connect",
          value_parser = clap::value_parser!(u16).range(1..=16_384))]
    connections: Option<u16>,

    /// Requests that a connection sends at once, before it reads the replies.
    #[arg(long, value_name = "N", requires = "connect", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipeline: u16,

    /// Share of the requests that are sets, from 0 to 1 [default: 0.1; with the workload hit 0, with
    /// write 0.5].
    #[arg(long, value_name = "SHARE", requires = "connect", value_parser = super::bench::parse_share)]
    sets: Option<f64>,

    /// Do not set the keys first.
    #[arg(long, requires = "connect")]
    no_fill: bool,

    /// End after this many requests, instead of --seconds.
    #[arg(long, value_name = "N", requires = "connect", conflicts_with_all = ["seconds", "trace"],
          value_parser = parse_records)]
    operations: Option<u64>,

    /// Replay this trace, once: each of its gets is asked for, and after a miss an object of the
    /// record's size is set.
    #[arg(long, value_name = "FILE", requires = "connect",
          conflicts_with_all = ["workload", "keys", "sets", "no_fill"])]
    trace: Option<String>,

    /// The process of the server, whose processor time is told [default: found by its end of the
    /// connections, if it runs on this machine].
    #[arg(long, value_name = "PID", requires = "connect")]
    pid: Option<u32>,
}

/// Options of `bench` for either kind of measurement.
pub(crate) struct Common<'a> {
    pub(crate) workload: &'a str,
    pub(crate) keys: u64,
    pub(crate) seconds: Option<f64>,
    pub(crate) value_bytes: Option<u32>,
    pub(crate) output: Output,
    pub(crate) reading: &'a TraceArgs,
}

/// A measurement to print.
struct Outcome<'a> {
    target: &'a Target,
    workload: String,
    is_replay: bool,
    connections: usize,
    depth: usize,
    measured: Measured,
    /// Processor time of the server during the measurement.
    used: Option<Used>,
}

impl Outcome<'_> {
    /// The share of a core that this process used.
    fn own_share(&self) -> Option<f64> {
        Some(self.measured.own?.as_secs_f64() / self.measured.elapsed.as_secs_f64())
    }

    fn is_saturated(&self) -> Option<bool> {
        self.own_share().map(|share| share > SATURATED)
    }
}

/// Measures the server `target`.
pub(crate) fn run(args: &LoadArgs, target: &Target, common: &Common<'_>) -> Done {
    let (trace, sets) = requests(args, target, common)?;
    let bytes = common.value_bytes.unwrap_or(VALUE_BYTES);
    if bytes > VALUE_MAX {
        return Err(Failure::usage(anyhow!(
            "--value-bytes {bytes}: a server is sent at most {}",
            grouped(VALUE_MAX.into())
        )));
    }
    let is_replay = args.trace.is_some();
    let connections =
        usize::from(args.connections.unwrap_or(if is_replay { 1 } else { CONNECTIONS }));
    let depth = usize::from(args.pipeline);
    let stop = stop_at_interrupt()?;
    let mut load = Load::connect(target, connections, &stop)?;
    let writes = !matches!(target.protocol, Protocol::Http { .. });
    if !is_replay && writes && !args.no_fill {
        fill(&mut load, common.keys, bytes, &stop)?;
    }
    let mut work = match is_replay {
        true => Work::replay(&trace, bytes, writes),
        false => Work::drawn(&trace, sets, bytes),
    };
    let plan = Plan::new(args, common, trace.len() as u64);
    if let Some(seconds) = plan.warmup {
        load.run(&mut work, depth, |measured| measured.elapsed.as_secs_f64() < seconds)?;
    }
    let processes = processes(args, target, &load);
    let before =
        (Used::by(&processes), Processors::now(&processes.iter().copied().collect::<Vec<_>>()));
    let progress = Progress::of_steps(format!("asking {target}"), plan.steps());
    let measured = load.run(&mut work, depth, |measured| {
        let goes_on = progress.set(plan.done(measured), plan.steps()).is_continue();
        goes_on && plan.goes_on(measured)
    })?;
    let used = Used::by(&processes).zip(before.0).map(|(now, before)| now.since(before));
    drop(progress);
    if stop.load(Relaxed) {
        note(&format!("interrupted after {:.1} s", measured.elapsed.as_secs_f64()));
    }
    note_disturbed(&processes, before.1);
    let workload = args.trace.clone().unwrap_or_else(|| common.workload.to_owned());
    let outcome = Outcome { target, workload, is_replay, connections, depth, measured, used };
    check(&outcome)?;
    output::print(&report::text(&outcome, common.output))
}

/// The requests, as a trace, and the share of them that are sets.
fn requests(
    args: &LoadArgs,
    target: &Target,
    common: &Common<'_>,
) -> Result<(Trace, f64), Failure> {
    let is_http = matches!(target.protocol, Protocol::Http { .. });
    if let Some(spec) = &args.trace {
        let wanted =
            Wanted { times: false, sizes: true, latencies: None, lifetimes: Lifetimes::Ignored };
        let Loaded { trace, .. } = Arc::unwrap_or_clone(common.reading.load(spec, wanted)?);
        let larger = trace.sizes.iter().filter(|&size| size > VALUE_MAX.into()).count();
        if larger > 0 && !is_http {
            note(&format!(
                "{spec}: {} records have a size above {} bytes, and are written with that",
                grouped(larger as u64),
                grouped(VALUE_MAX.into())
            ));
        }
        return Ok((trace, 0.0));
    }
    let workload: Workload = common.workload.parse().map_err(Failure::usage)?;
    let (alpha, sets) = match workload {
        Workload::Zipf { alpha } => (alpha, SETS),
        Workload::Hit => (0.0, 0.0),
        Workload::Write => (1.0, 0.5),
        Workload::File(_) => {
            return Err(Failure::usage(anyhow!(
                "--workload {}: with --connect a trace is replayed by --trace",
                common.workload
            )));
        }
    };
    let sets = match args.sets {
        Some(sets) if sets > 0.0 && is_http => {
            return Err(Failure::usage(anyhow!("--sets {sets}: {target} is only read")));
        }
        Some(sets) => sets,
        None if is_http => 0.0,
        None => sets,
    };
    let draws = args.operations.unwrap_or(DRAWS).clamp(1, DRAWS);
    let spec = format!("zipf:{alpha}:objects={}:requests={draws}:seed=1", common.keys);
    let options = ReadOptions { sizes: false, ..ReadOptions::default() };
    Ok((load(&spec, &options)?.trace, sets))
}

/// The time to measure.
struct Plan {
    /// Seconds that are not counted.
    warmup: Option<f64>,
    seconds: Option<f64>,
    operations: Option<u64>,
    records: Option<u64>,
}

impl Plan {
    fn new(args: &LoadArgs, common: &Common<'_>, records: u64) -> Plan {
        let is_replay = args.trace.is_some();
        let seconds = match (common.seconds, args.operations) {
            (None, None) if !is_replay => Some(SECONDS),
            (seconds, _) => seconds,
        };
        Plan {
            warmup: seconds.filter(|_| !is_replay).map(|seconds| seconds * WARMUP_SHARE),
            seconds,
            operations: args.operations,
            records: is_replay.then_some(records),
        }
    }

    /// A trace ends by itself, after the set for its last miss.
    fn goes_on(&self, measured: &Measured) -> bool {
        let is_bounded = self.seconds.is_some() || self.operations.is_some();
        !is_bounded || self.done(measured) < self.steps()
    }

    /// Requests to make, or milliseconds to measure.
    fn steps(&self) -> u64 {
        let milliseconds = self.seconds.map(|seconds| (seconds * 1e3) as u64);
        milliseconds.or(self.operations).or(self.records).unwrap_or_default().max(1)
    }

    fn done(&self, measured: &Measured) -> u64 {
        match (self.seconds, self.operations) {
            (Some(_), _) => measured.elapsed.as_millis() as u64,
            (None, Some(_)) => measured.counts.answered(),
            (None, None) => measured.counts.hits + measured.counts.misses,
        }
    }
}

/// Sets all keys.
fn fill(load: &mut Load<'_>, keys: u64, bytes: u32, stop: &AtomicBool) -> anyhow::Result<()> {
    let progress = Progress::of_steps("setting keys".to_owned(), keys);
    // The generator's keys are ranks.
    let mut work = Work::Fill { keys: 1..keys + 1, bytes };
    let filled = load.run(&mut work, FILL_DEPTH, |measured| {
        progress.set(measured.counts.answered(), keys).is_continue()
    })?;
    if stop.load(Relaxed) {
        bail!("interrupted while the keys were set: nothing is measured");
    }
    let missing = keys.saturating_sub(filled.counts.sets);
    if missing == 0 {
        return Ok(());
    }
    let kind = filled.counts.errors.keys().next();
    let kind = kind.map_or("connections were closed", String::as_str);
    if missing == keys {
        bail!("the server has refused to set any key: {kind}");
    }
    note(&format!("{} of {} keys are not set: {kind}", grouped(missing), grouped(keys)));
    Ok(())
}

/// Set at the first interrupt; the second ends the process.
fn stop_at_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    use signal_hook::consts::SIGINT;
    let stop = Arc::new(AtomicBool::new(false));
    // In this order, so that the first interrupt finds the flag unset.
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(&stop)))
        .context("signals")?;
    Ok(stop)
}

/// Processes of the server.
fn processes(args: &LoadArgs, target: &Target, load: &Load<'_>) -> BTreeSet<u32> {
    if let Some(pid) = args.pid {
        return BTreeSet::from([pid]);
    }
    match target.path() {
        Some(path) => host::at_path(path),
        None => host::behind(&load.streams().filter_map(target::Stream::ends).collect()),
    }
}

fn note_disturbed(processes: &BTreeSet<u32>, before: Option<Processors>) {
    let now = Processors::now(&processes.iter().copied().collect::<Vec<_>>());
    if let Some((now, before)) = now.zip(before).filter(|(now, it)| now.were_disturbed_since(it)) {
        note(&format!(
            "other programs had {} of the processors",
            output::percent(now.others_since(&before))
        ));
    }
}

/// # Errors
///
/// Fails if no request has succeeded.
fn check(outcome: &Outcome<'_>) -> Done {
    let counts = &outcome.measured.counts;
    let refused = counts.refused();
    if counts.answered() == 0 {
        return Err(Failure::from(anyhow!("{}: nothing is measured", outcome.target)));
    }
    match counts.errors.first_key_value() {
        Some((kind, _)) if refused == counts.answered() => Err(Failure::from(anyhow!(
            "{}: each of {} requests was refused: {kind}",
            outcome.target,
            grouped(refused)
        ))),
        _ => Ok(()),
    }
}
