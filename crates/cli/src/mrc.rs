//! `frazil mrc`: miss ratio by capacity.

use anyhow::anyhow;
use clap::Args as ClapArgs;
use frazil_policy::{Online, PolicySpec, SpecError};
use frazil_simulator::trace::{SampleBounds, printable};
use frazil_simulator::{CapacitySpec, CellSpec, CurveSample, SweepOptions, Unit, sweep};

use crate::Done;
use crate::completions::online_policies;
use crate::failure::{Failure, note};
use crate::lifetime_args::{LifetimeArgs, Told};
use crate::output::{self, Output, Row, row};
use crate::progress::Progress;
use crate::replay_args::ReplayArgs;
use crate::sample::{self, Sample, SampleArg};
use crate::trace_args::{TraceArgs, Wanted};
use crate::trace_files::TraceFiles;

/// Default for the records that a sample keeps.
const RECORDS: usize = 40_000_000;
/// The smallest capacity of a curve, as a share of everything.
const LEAST: f64 = 1e-4;

/// Print miss ratios by capacity: a curve for each policy.
///
/// By default LRU's curve is exact. One pass gives all capacities, in memory that depends only on
/// the number of distinct objects. With --sample the curve is computed from a share of the objects
/// (SHARDS), and its likely error is printed.
///
/// Other policies are replayed in miniature, once for each capacity: a sample of the objects in a
/// cache of the same share of the capacity. A trace with no more objects than the sample is
/// replayed whole.
///
/// The single pass cannot follow lifetimes. If entries expire, by --ttl or by the trace, LRU is
/// replayed as the others are.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil mrc trace.csv.zst
  frazil mrc trace.csv.zst --policy lru,sieve,s3-fifo
  zcat requests.gz | frazil mrc - --sample 100K
  frazil mrc disk.bin --unit bytes --capacity 64MiB,1GiB,10% --output json")]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceFiles,

    /// Policies, as for `frazil simulate`, without the offline ones.
    #[arg(long, value_name = "NAME[:KEY=VALUE],…", default_value = "lru", value_delimiter = ',',
          value_parser = online_policies(), hide_possible_values = true)]
    policy: Vec<String>,

    /// Capacities, as for `frazil simulate`, without N%peak [default: --points of them, from a ten
    /// thousandth of the footprint to all of it].
    #[arg(long, value_name = "N|N%|NMiB,…", value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,

    /// Number of capacities, evenly spaced by their logarithms.
    #[arg(long, value_name = "N", default_value_t = 25, conflicts_with = "capacity",
          value_parser = clap::value_parser!(u16).range(2..=1000))]
    points: u16,

    /// Objects to replay: all, a share (1%), or at most so many (200K) [default: all for lru; 500K,
    /// of at most 40M records, for others].
    #[arg(long, value_name = "all|N%|N")]
    sample: Option<SampleArg>,

    #[command(flatten)]
    replaying: ReplayArgs,

    // Below the flags that have no heading.
    #[command(flatten)]
    lifetimes: LifetimeArgs,

    #[command(flatten)]
    pub(crate) reading: TraceArgs,
}

/// One point of a curve.
struct Point<'a> {
    trace: &'a str,
    policy: &'a str,
    method: &'static str,
    capacity: u64,
    unit: Unit,
    requests: u64,
    miss_ratio: f64,
    byte_miss_ratio: Option<f64>,
    /// Standard error of the miss ratio, if known.
    error: Option<f64>,
    rate: f64,
    requests_per_second: f64,
    /// Gets that missed expired entries, and the lifetimes of entries, if any may expire.
    expired: Option<u64>,
    lifetimes: Told,
}

/// Runs the verb. Prints only once every trace is done.
pub(crate) fn run(args: &Args) -> Done {
    let points = points(args)?;
    output::print(&match args.replaying.output {
        Output::Json => output::json(&rows_of(&points)),
        Output::Csv => output::csv(&rows_of(&points)),
        Output::Table => table(&points),
    })
}

/// The points as rows.
pub(crate) fn rows(args: &Args) -> Result<Vec<Row>, Failure> {
    Ok(rows_of(&points(args)?))
}

fn points(args: &Args) -> Result<Vec<Point<'_>>, Failure> {
    let mut policies: Vec<(PolicySpec, &str)> = Vec::new();
    for name in &args.policy {
        let policy = parse(name)?;
        if !policies.iter().any(|(known, _)| *known == policy) {
            policies.push((policy, name));
        }
    }
    for capacity in &args.capacity {
        capacity.known(args.replaying.unit).map_err(Failure::usage)?;
    }
    let mut points = Vec::new();
    for trace in args.traces.some()? {
        points.extend(curves(args, trace, &policies)?);
    }
    Ok(points)
}

fn parse(name: &str) -> Result<PolicySpec, Failure> {
    let offline = |name: &str| {
        Failure::usage(anyhow!(
            "policy `{name}` is offline and has no curve; use `frazil simulate`"
        ))
    };
    match name.parse::<PolicySpec>() {
        Ok(policy) if policy.is_offline() => Err(offline(name)),
        Err(SpecError::Offline(name)) => Err(offline(&name)),
        parsed => parsed.map_err(Failure::usage),
    }
}

/// All curves of a trace, in the order of the policies.
fn curves<'a>(
    args: &'a Args,
    trace: &'a str,
    policies: &[(PolicySpec, &'a str)],
) -> Result<Vec<Point<'a>>, Failure> {
    let stacked = |policy: &PolicySpec| matches!(policy, PolicySpec::Online(Online::Lru));
    args.lifetimes.ignored(&args.reading, trace);
    // A pipe can be read only once, so LRU is then replayed like the others.
    let once = trace == "-" && !policies.iter().all(|(it, _)| stacked(it));
    let replayed = once || args.lifetimes.is_asked_for();
    let (lru, others): (Vec<_>, Vec<_>) =
        policies.iter().copied().partition(|(it, _)| stacked(it) && !replayed);
    let mut points = Vec::new();
    if let Some((_, name)) = lru.first() {
        match stack_curve(args, trace, name)? {
            Some(curve) => points.extend(curve),
            None => return miniatures(args, trace, policies),
        }
    }
    if !others.is_empty() {
        points.extend(miniatures(args, trace, &others)?);
    }
    Ok(points)
}

/// Capacities to print, for `all` objects or bytes.
fn capacities(args: &Args, all: u64) -> Result<Vec<u64>, Failure> {
    if args.capacity.is_empty() {
        let steps = f64::from(args.points - 1);
        let at = |step: u16| {
            let share = LEAST.powf(1.0 - f64::from(step) / steps);
            ((all as f64 * share).round() as u64).max(1)
        };
        let mut spread: Vec<u64> = (0..args.points).map(at).collect();
        spread.dedup();
        return Ok(spread);
    }
    let unit = args.replaying.unit;
    let resolve = |capacity: &CapacitySpec| match capacity.known(unit) {
        Ok(Some(capacity)) => Ok(capacity),
        Ok(None) | Err(_) => capacity.among(all).map_err(Failure::usage),
    };
    let mut resolved = args.capacity.iter().map(resolve).collect::<Result<Vec<u64>, _>>()?;
    resolved.sort_unstable();
    resolved.dedup();
    Ok(resolved)
}

/// LRU's curve from one pass; `None` if entries of the trace expire.
fn stack_curve<'a>(
    args: &Args,
    trace: &'a str,
    name: &'a str,
) -> Result<Option<Vec<Point<'a>>>, Failure> {
    let unit = args.replaying.unit;
    let sample = args.sample.unwrap_or(SampleArg::All).of_curve();
    let (curve, origin) = args.reading.lru_curve(trace, unit, sample, args.lifetimes.rule())?;
    // No fixed lifetime comes here; the trace's own lifetimes are known to have times or not.
    if args.lifetimes.told(trace, &origin, true)?.is_some() {
        if trace != "-" {
            return Ok(None);
        }
        note(
            "standard input has lifetimes, which LRU's exact curve ignores; --ttl trace applies \
              them",
        );
    }
    // Prints notes about a recording.
    Sample::of(trace, &origin, curve.requests);
    if curve.requests == 0 {
        return Err(no_requests(trace));
    }
    let all = if unit == Unit::Bytes { curve.footprint_bytes } else { curve.objects };
    let point = |it: frazil_simulator::CurvePoint| Point {
        trace,
        policy: name,
        method: if sample == CurveSample::All { "stack" } else { "sampled stack" },
        capacity: it.capacity,
        unit,
        requests: curve.requests,
        miss_ratio: it.miss_ratio,
        byte_miss_ratio: it.byte_miss_ratio,
        error: it.error,
        rate: curve.rate,
        requests_per_second: curve.records as f64 / curve.seconds.max(1e-9),
        expired: None,
        lifetimes: None,
    };
    Ok(Some(curve.points(&capacities(args, all)?).into_iter().map(point).collect()))
}

fn no_requests(trace: &str) -> Failure {
    Failure::Failed(anyhow!("{trace}: holds no requests, only sets and deletes"))
}

/// Each policy at each capacity, over a sample of the trace.
fn miniatures<'a>(
    args: &Args,
    trace: &'a str,
    policies: &[(PolicySpec, &'a str)],
) -> Result<Vec<Point<'a>>, Failure> {
    let unit = args.replaying.unit;
    let bounds = args.sample.map_or(
        SampleBounds { rate: 1.0, objects: sample::OBJECTS, records: RECORDS },
        SampleArg::bounds,
    );
    let (sizes, lifetimes) = (unit == Unit::Bytes, args.lifetimes.rule());
    let times = policies.iter().any(|(policy, _)| policy.wants_trace());
    let wanted = Wanted { times, sizes, latencies: None, lifetimes };
    let loaded = args.reading.load_sample(trace, wanted, bounds)?;
    let has_times = !loaded.trace.times_ns.is_empty();
    let told = args.lifetimes.told(trace, &loaded.origin, has_times)?;
    let sample = Sample::of_trace(trace, &loaded.origin, &loaded.trace);
    let objects = loaded.trace.objects.len() as u64;
    let all = match unit {
        Unit::Objects => objects,
        Unit::Bytes => loaded.trace.footprint_bytes().ok_or_else(|| {
            Failure::usage(anyhow!("{trace}: {}", frazil_simulator::CapacityError::NoSizes))
        })?,
    };
    let capacities = capacities(args, sample.up(all))?;
    let cell = |policy, capacity| CellSpec { policy, capacity: sample.down(capacity) };
    let of = |policy: PolicySpec| capacities.iter().map(move |&it| cell(policy, it));
    let cells: Vec<CellSpec> = policies.iter().flat_map(|&(policy, _)| of(policy)).collect();
    let total = loaded.trace.len() as u64 * cells.len() as u64;
    let progress = Progress::of_records("replaying".to_owned(), total);
    let options = SweepOptions { lifetimes, ..args.replaying.sweep_options() };
    let outcomes = sweep(&loaded.trace, &cells, &options, &|steps| progress.step(steps));
    progress.complete()?;
    if outcomes.iter().any(|outcome| outcome.requests == 0) {
        return Err(no_requests(trace));
    }
    let names = policies.iter().flat_map(|(_, name)| capacities.iter().map(move |it| (*name, *it)));
    let rate = loaded.origin.rate();
    let point = |((name, capacity), outcome): ((&'a str, u64), &frazil_simulator::Outcome)| {
        let outcome = sample.corrected(outcome);
        Point {
            trace,
            policy: name,
            method: if rate < 1.0 { "miniature" } else { "replay" },
            capacity,
            unit,
            requests: outcome.requests,
            miss_ratio: outcome.miss_ratio(),
            byte_miss_ratio: (unit == Unit::Bytes).then(|| outcome.byte_miss_ratio()),
            error: None,
            rate,
            requests_per_second: outcome.records_per_second(),
            expired: told.as_ref().map(|_| outcome.expired),
            lifetimes: told.clone(),
        }
    };
    Ok(names.zip(&outcomes).map(point).collect())
}

fn rows_of(points: &[Point<'_>]) -> Vec<Row> {
    let row = |point: &Point<'_>| {
        row! {
            "trace" => point.trace,
            "policy" => point.policy,
            "capacity" => point.capacity,
            "unit" => point.unit.to_string(),
            "requests" => point.requests,
            "miss_ratio" => point.miss_ratio,
            "byte_miss_ratio" => point.byte_miss_ratio,
            "standard_error" => point.error,
            "expired" => point.expired,
            "lifetimes" => point.lifetimes,
            "sample_rate" => point.rate,
            "method" => point.method,
            "requests_per_second" => point.requests_per_second.round(),
        }
    };
    points.iter().map(row).collect()
}

fn table(points: &[Point<'_>]) -> String {
    let bytes = points.iter().any(|point| point.unit == Unit::Bytes);
    let errors = points.iter().any(|point| point.error.is_some());
    let mut headers = vec!["trace", "policy", "method", "capacity", "miss ratio"];
    if errors {
        headers.push("± standard error");
    }
    if bytes {
        headers.push("byte miss ratio");
    }
    headers.extend(["sample", "M req/s"]);
    let row = |point: &Point<'_>| {
        let mut row = vec![
            printable(point.trace),
            point.policy.to_owned(),
            point.method.to_owned(),
            match point.unit {
                Unit::Objects => output::grouped(point.capacity),
                Unit::Bytes => output::bytes(point.capacity),
            },
            format!("{:.6}", point.miss_ratio),
        ];
        if errors {
            row.push(point.error.map_or("-".to_owned(), |error| format!("{error:.6}")));
        }
        if bytes {
            row.push(point.byte_miss_ratio.map_or("-".to_owned(), |it| format!("{it:.6}")));
        }
        row.push(output::percent(point.rate));
        row.push(format!("{:.1}", point.requests_per_second / 1e6));
        row
    };
    let rows = points.iter().map(row).collect();
    let told: Vec<_> =
        points.iter().filter_map(|it| Some((it.trace, it.lifetimes.as_deref()?))).collect();
    output::table(&headers, &["trace", "policy", "method"], rows) + &output::lifetimes(&told)
}
