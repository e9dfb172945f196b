//! `frazil simulate`: miss ratios of policies at sizes over traces.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args as ClapArgs;
use frazil_policy::{PolicySpec, Work};
use frazil_simulator::trace::{Loaded, printable};
use frazil_simulator::{
    CapacitySpec, CellSpec, Outcome, ReplayClock, SweepOptions, Unit, sweep, sweep_delayed,
};

use crate::Done;
use crate::belatedly::{Choice, bounds};
use crate::completions::policies;
use crate::failure::{Failure, note};
use crate::fetch_args::FetchArgs;
use crate::lifetime_args::{LifetimeArgs, Told};
use crate::output::{self, Output, Row, row};
use crate::progress::Progress;
use crate::replay_args::ReplayArgs;
use crate::sample::Sample;
use crate::trace_args::{TraceArgs, Wanted, parse_records};
use crate::trace_files::TraceFiles;

/// Replay traces against policies and capacities, and print miss ratios.
///
/// Each trace × policy × capacity gives one row. A request is a get: it looks the object up, and
/// inserts it after a miss. The trace's sets and deletes insert, replace and remove objects; they
/// are not counted as requests.
///
/// The command decodes a trace into memory once, at 4 to 8 bytes a record. One online policy at one
/// absolute capacity is replayed while the trace is read, in memory that depends only on the cache.
///
/// A cache may have recorded its trace at a rate below 1. Then capacities are those for all keys,
/// and each is replayed at that rate. The counts are those of the sample; requests and hits are
/// corrected to as many as a fair sample has.
///
/// With --fetch-latency a miss starts a fetch, and the object enters the cache when the fetch ends.
/// Requests that arrive meanwhile are delayed hits, and wait for the rest of the fetch. The rows
/// then print how long requests waited; a hit waits 0.
///
/// If --ttl or the trace gives lifetimes, entries expire, and the rows also count the gets that
/// missed an expired entry.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil simulate trace.csv.zst --policy lru,sieve --capacity 1%,10%
  frazil simulate requests.frazil --policy mobius,s3-fifo --capacity 10K,100K
  frazil simulate requests.frazil --policy lru,frozen:share=0.5+lru --capacity 10K
  frazil simulate disk.bin --policy s3-fifo --capacity 64MiB --unit bytes
  frazil simulate zipf:1.0:objects=1M:requests=20M:seed=1 --policy clock:bits=2 \\
      --capacity 100K --output json
  frazil simulate requests.frazil --policy lru,s3-fifo --capacity 10K --ttl 5m
  frazil simulate trace.csv.zst --policy lru,belady --capacity 1%peak \\
      --fetch-latency 20ms --clock trace
  frazil simulate log.csv --columns time=1,id=2,latency=3 --time-unit ms \\
      --policy lru,mad --capacity 1%peak --fetch-latency column --clock trace")]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceFiles,

    /// Policies with their parameters: fifo, lru, lru-prob:q=0.5, lru-relaxed (the same as lru
    /// here, with one thread), lru-delayed:window=1000, lru-sampled:k=5, clock, clock:bits=2,
    /// slru:segments=2, two-queue, sieve, mobius, s3-fifo, lfu, w-tinylfu, arc, lirs, lhd,
    /// hyperbolic, gdsf, lecar, cacheus, mad:base=lru (or arc, lhd; counters=all; sample=64 or
    /// ways=64; windows=ended; prior=1; idle-since=commit), guarded-mad, la-cache,
    /// delay-rank:omega=1 (fetch=exp; bypass=true), random; gl-cache:mode=e (or t; aim=delay or
    /// cost; interval=1d, 100000 or 10%; segment, merge, fraction, …), lrb. Offline, with knowledge
    /// of the future: belady, belady-size, belady-mad; and with --fetch-latency belatedly, which
    /// prints the best schedule found and a lower bound for every schedule (paper 5). Policies that
    /// draw random numbers take a seed: random:seed=1. The prefix frozen:share=S+ freezes the
    /// hottest share S of the objects, once, when the cache is warm. It goes with fifo, clock,
    /// mobius, s3-fifo, lru and its variants except lru-sampled, slru, two-queue, lfu, w-tinylfu,
    /// arc and gdsf.
    #[arg(long, value_name = "NAME[:KEY=VALUE],…", required = true, value_delimiter = ',',
          value_parser = policies(), hide_possible_values = true)]
    policy: Vec<String>,

    /// Capacities: a number of objects (1000, 10K), a share of the distinct objects (0.1%), or a
    /// share of the most objects alive at once (10%peak). With --unit bytes: a number of bytes
    /// (64MiB) or a share of the summed sizes.
    #[arg(long, value_name = "N|N%|NMiB,…", required = true, value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,

    /// Replay this many requests first, without counting them.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_records)]
    warmup: u64,

    /// With --unit bytes: if the record of a get has another size than the resident object, the
    /// object takes that size, and the cache evicts to fit. By default only a set changes sizes,
    /// and a hit is served from the resident object.
    #[arg(long)]
    resize_on_get: bool,

    #[command(flatten)]
    fetching: FetchArgs,

    #[command(flatten)]
    replaying: ReplayArgs,

    // Below the flags that have no heading.
    #[command(flatten)]
    lifetimes: LifetimeArgs,

    #[command(flatten)]
    pub(crate) reading: TraceArgs,
}

/// Capacities without repetitions.
fn distinct(capacities: &[CapacitySpec]) -> Vec<&CapacitySpec> {
    let mut all: Vec<&CapacitySpec> = Vec::new();
    for capacity in capacities {
        if !all.contains(&capacity) {
            all.push(capacity);
        }
    }
    all
}

fn is_frozen(choice: Choice) -> bool {
    matches!(choice, Choice::Policy(PolicySpec::Frozen { .. }))
}

/// A policy or a bound at a capacity, and its result.
struct Cell {
    choice: Choice,
    capacity: u64,
    outcome: Outcome,
    /// A lower bound of every schedule's total latency, if requested.
    least: Option<u64>,
}

/// A row of the result: the cell, and its counts.
struct Line<'a> {
    trace: &'a str,
    policy: &'a str,
    capacity: u64,
    unit: Unit,
    outcome: Outcome,
    /// A lower bound of every schedule's total latency, if requested.
    least: Option<u64>,
    /// Frozen hits, if the policy may freeze.
    frozen_hits: Option<u64>,
    /// The clock of its latencies, if fetches took time.
    clock: Option<ReplayClock>,
    /// The lifetimes of entries, if any may expire.
    lifetimes: Told,
}

impl Line<'_> {
    fn latency_unit(&self) -> Option<&'static str> {
        self.clock.map(|clock| match clock {
            ReplayClock::Request => "requests",
            ReplayClock::Trace => "ns",
        })
    }
}

/// Runs the verb. Prints only once every trace is done.
pub(crate) fn run(args: &Args) -> Done {
    let lines = lines(args)?;
    output::print(&match args.replaying.output {
        Output::Json => output::json(&rows_of(&lines)),
        Output::Csv => output::csv(&rows_of(&lines)),
        Output::Table => table(&lines) + &lifetimes_below(&lines),
    })
}

/// The results as rows.
pub(crate) fn rows(args: &Args) -> Result<Vec<Row>, Failure> {
    Ok(rows_of(&lines(args)?))
}

fn lines(args: &Args) -> Result<Vec<Line<'_>>, Failure> {
    let (names, policies) = Choice::parse(&args.policy)?;
    let mut lines = Vec::new();
    for trace in args.traces.some()? {
        lines.extend(simulate(args, trace, &names, &policies)?);
    }
    Ok(lines)
}

/// All cells over one trace.
fn simulate<'a>(
    args: &'a Args,
    trace: &'a str,
    names: &[&'a str],
    policies: &[Choice],
) -> Result<Vec<Line<'a>>, Failure> {
    let options = SweepOptions {
        warmup: args.warmup,
        resize_on_get: args.resize_on_get,
        // Frozen hits are counted as work.
        count_work: policies.iter().any(|choice| is_frozen(*choice)),
        lifetimes: args.lifetimes.rule(),
        ..args.replaying.sweep_options()
    };
    let mut capacities = Vec::new();
    for capacity in distinct(&args.capacity) {
        capacities.push(capacity.known(args.replaying.unit).map_err(Failure::usage)?);
    }
    let latency = args.fetching.latency()?;
    check_lifetimes(args, policies)?;
    args.lifetimes.ignored(&args.reading, trace);
    let (cells, lifetimes) = match (policies, capacities.as_slice()) {
        // No property of the trace is needed first, so it need not be kept. (If fetches take time,
        // the time of a record can depend on the next one's.)
        (&[Choice::Policy(policy)], &[Some(capacity)])
            if !policy.wants_trace()
                && latency.is_none()
                && args.reading.decoded(trace).is_none() =>
        {
            let cell = CellSpec { policy, capacity };
            let (outcome, origin) = args.reading.replay_stream(trace, cell, &options)?;
            let sample = Sample::of(trace, &origin, outcome.requests + args.warmup);
            let outcome = sample.corrected(&outcome);
            // It would have failed without required times.
            let told = args.lifetimes.told(trace, &origin, true)?;
            (vec![Cell { choice: Choice::Policy(policy), capacity, outcome, least: None }], told)
        }
        _ => sweep_cells(args, trace, policies, &options)?,
    };
    if cells.iter().any(|cell| cell.outcome.requests == 0) {
        return Err(match args.warmup {
            0 => Failure::Failed(anyhow!("{trace}: holds no requests, only sets and deletes")),
            n => Failure::usage(anyhow!("--warmup {n} covers all requests of {trace}")),
        });
    }
    let names = names.iter().flat_map(|name| capacities.iter().map(move |_| *name));
    let line = |(cell, name): (Cell, &'a str)| Line {
        trace,
        policy: name,
        capacity: cell.capacity,
        unit: args.replaying.unit,
        outcome: cell.outcome,
        least: cell.least,
        frozen_hits: is_frozen(cell.choice).then(|| cell.outcome.work.on_hits.get(Work::FrozenHit)),
        clock: latency.map(|_| args.fetching.clock()),
        lifetimes: lifetimes.clone(),
    };
    Ok(cells.into_iter().zip(names).map(line).collect())
}

/// Decodes the trace once and replays it through every policy × capacity, in the
/// order of the arguments.
fn sweep_cells(
    args: &Args,
    trace: &str,
    policies: &[Choice],
    options: &SweepOptions,
) -> Result<(Vec<Cell>, Told), Failure> {
    let loaded = load(args, trace, policies)?;
    let lifetimes = lifetimes(args, trace, policies, &loaded)?;
    let fetching = match args.fetching.latency()? {
        Some(_) if loaded.origin.rate() < 1.0 => {
            return Err(Failure::usage(anyhow!(
                "{trace}: has the requests of only {} of the keys; --fetch-latency needs those of \
                 all",
                loaded.origin.rate()
            )));
        }
        Some(latency) => Some(args.fetching.over(latency, &loaded.trace, trace)?),
        None => None,
    };
    let sample = Sample::of_trace(trace, &loaded.origin, &loaded.trace);
    let (unit, mut scaled) = (args.replaying.unit, Vec::new());
    let mut cells = Vec::new();
    for &choice in policies {
        for capacity in distinct(&args.capacity) {
            let resolved = capacity
                .resolve(&loaded.trace, unit)
                .with_context(|| trace.to_owned())
                .map_err(Failure::Usage)?;
            // A number is for all keys, a share of the sample.
            let absolute = capacity.known(unit).map_err(Failure::usage)?.is_some();
            let capacity = if absolute { resolved } else { sample.up(resolved) };
            let mut cell = Cell { choice, capacity, outcome: Outcome::default(), least: None };
            match choice.policy() {
                Some(policy) => scaled.push(CellSpec { policy, capacity: sample.down(capacity) }),
                None => {
                    let fetching = fetching.as_ref();
                    let (outcome, least) =
                        bounds(&loaded.trace, trace, capacity, fetching, options)?;
                    (cell.outcome, cell.least) = (outcome, Some(least));
                }
            }
            cells.push(cell);
        }
    }
    let total = loaded.trace.len() as u64 * scaled.len() as u64;
    let progress = Progress::of_records("replaying".to_owned(), total);
    let advance = |steps| progress.step(steps);
    let outcomes = match &fetching {
        Some(fetching) => sweep_delayed(&loaded.trace, &scaled, options, fetching, &advance),
        None => sweep(&loaded.trace, &scaled, options, &advance),
    };
    progress.complete()?;
    let replayed = cells.iter_mut().filter(|cell| cell.choice.policy().is_some());
    for (cell, outcome) in replayed.zip(&outcomes) {
        cell.outcome = sample.corrected(outcome);
    }
    // The sum saturates there, and its mean would be wrong.
    let is_full = |cell: &Cell| cell.outcome.latency.is_some_and(|it| it.total == u64::MAX);
    if cells.iter().any(is_full) {
        return Err(Failure::usage(anyhow!(
            "{trace}: the summed latency is 2^64 ticks or more, too long to be counted; check the \
             unit of the fetches"
        )));
    }
    Ok((cells, lifetimes))
}

/// The columns that the policies and the options need.
fn wanted(args: &Args, policies: &[Choice]) -> Result<Wanted, Failure> {
    let wants_times = |choice: &Choice| choice.policy().is_some_and(|it| it.wants_trace());
    let times = args.fetching.wants_times() || policies.iter().any(wants_times);
    let latencies = args.fetching.wants_latencies()?;
    let sizes = args.replaying.unit == Unit::Bytes;
    Ok(Wanted { times, sizes, latencies, lifetimes: args.lifetimes.rule() })
}

/// The trace, with all that the cells need of it.
fn load(args: &Args, trace: &str, policies: &[Choice]) -> Result<Arc<Loaded>, Failure> {
    let wants_trace = |choice: &Choice| choice.policy().is_none_or(|it| it.wants_trace());
    let wanted = wanted(args, policies)?;
    if args.fetching.latency()?.is_some() || policies.iter().any(wants_trace) {
        args.reading.load(trace, wanted)
    } else {
        args.reading.load_beside(trace, wanted)
    }
}

/// The one trace, with all data that the cells need.
pub(crate) fn decode(args: &Args) -> Result<Arc<Loaded>, Failure> {
    let (_, policies) = Choice::parse(&args.policy)?;
    match args.traces.some()?.as_slice() {
        [trace] => load(args, trace, &policies),
        _ => Err(Failure::usage(anyhow!("more than one trace to decode"))),
    }
}

/// Fails if `--ttl` needs data that no trace has.
fn check_lifetimes(args: &Args, policies: &[Choice]) -> Result<(), Failure> {
    if !args.lifetimes.is_asked_for() {
        return Ok(());
    }
    if args.fetching.latency()?.is_some() {
        return Err(Failure::usage(anyhow!(
            "--ttl and --fetch-latency can't be combined: with delayed hits nothing expires"
        )));
    }
    check_future(policies)
}

/// Fails if entries may expire and a policy is offline.
fn check_future(policies: &[Choice]) -> Result<(), Failure> {
    let mut policies = policies.iter().filter_map(|choice| choice.policy());
    match policies.find(PolicySpec::is_offline) {
        Some(policy) => Err(Failure::usage(anyhow!(
            "offline policy `{policy}` can't take expiry into account; --ttl none replays it \
             without"
        ))),
        None => Ok(()),
    }
}

/// The lifetimes of entries of a trace in memory.
fn lifetimes(
    args: &Args,
    name: &str,
    policies: &[Choice],
    loaded: &Loaded,
) -> Result<Told, Failure> {
    let told = args.lifetimes.told(name, &loaded.origin, !loaded.trace.times_ns.is_empty())?;
    if told.is_some() && args.fetching.latency()?.is_some() {
        note(&format!(
            "{}: its lifetimes are ignored, because nothing expires with --fetch-latency",
            printable(name)
        ));
        return Ok(None);
    }
    if told.is_some() {
        check_future(policies)?;
    }
    Ok(told)
}

fn rows_of(lines: &[Line<'_>]) -> Vec<Row> {
    let row = |line: &Line<'_>| {
        let Line { trace, policy, capacity, unit, outcome, frozen_hits, .. } = line;
        let latency = outcome.latency;
        let byte_miss_ratio = (*unit == Unit::Bytes).then(|| outcome.byte_miss_ratio());
        row! {
            "trace" => trace,
            "policy" => policy,
            "capacity" => capacity,
            "unit" => unit.to_string(),
            "requests" => outcome.requests,
            "hits" => outcome.hits,
            "delayed_hits" => outcome.delayed_hits,
            "misses" => outcome.misses(),
            "expired" => line.lifetimes.as_ref().map(|_| outcome.expired),
            "lifetimes" => line.lifetimes,
            "miss_ratio" => outcome.miss_ratio(),
            "byte_miss_ratio" => byte_miss_ratio,
            "latency_total" => latency.map(|latency| latency.total),
            "latency_total_least" => line.least,
            "latency_mean" => outcome.latency_mean(),
            "latency_p50" => latency.map(|latency| latency.p50),
            "latency_p99" => latency.map(|latency| latency.p99),
            "delayed_hit_latency_p50" => latency.map(|latency| latency.delayed_hits.p50()),
            "delayed_hit_latency_p99" => latency.map(|latency| latency.delayed_hits.p99),
            "miss_latency_p50" => latency.map(|latency| latency.misses.p50()),
            "miss_latency_p99" => latency.map(|latency| latency.misses.p99),
            "latency_unit" => line.latency_unit(),
            "requests_per_second" => outcome.records_per_second().round(),
            "frozen_hits" => frozen_hits,
        }
    };
    lines.iter().map(row).collect()
}

fn table(lines: &[Line<'_>]) -> String {
    let bytes = lines.iter().any(|line| line.unit == Unit::Bytes);
    let mut headers = vec!["trace", "policy", "capacity", "requests", "misses", "miss ratio"];
    if bytes {
        headers.push("byte miss ratio");
    }
    let expiring = lines.iter().any(|line| line.lifetimes.is_some());
    if expiring {
        headers.push("expired");
    }
    let frozen = lines.iter().any(|line| line.frozen_hits.is_some());
    if frozen {
        headers.push("frozen hits");
    }
    let units: Vec<&str> = lines.iter().filter_map(Line::latency_unit).collect();
    let latency = units.first().map(|unit| {
        let heads = ["mean", "p50", "p99"];
        (
            unit,
            heads.map(|head| format!("{head} wait, {}", if *unit == "ns" { "ms" } else { unit })),
        )
    });
    if let Some((_, heads)) = &latency {
        headers.extend(["delayed hits", "their p50", "their p99"]);
        headers.extend(heads.iter().map(String::as_str));
    }
    let bounded = lines.iter().any(|line| line.least.is_some());
    if bounded {
        headers.push("least mean");
    }
    headers.push("M req/s");
    let row = |line: &Line<'_>| {
        let outcome = &line.outcome;
        let mut row = vec![
            printable(line.trace),
            line.policy.to_owned(),
            output::grouped(line.capacity),
            output::grouped(outcome.requests),
            output::grouped(outcome.misses()),
            format!("{:.6}", outcome.miss_ratio()),
        ];
        if bytes {
            row.push(format!("{:.6}", outcome.byte_miss_ratio()));
        }
        if expiring {
            let expired = line.lifetimes.as_ref().map(|_| output::grouped(outcome.expired));
            row.push(expired.unwrap_or("-".to_owned()));
        }
        if frozen {
            row.push(line.frozen_hits.map_or("-".to_owned(), output::grouped));
        }
        if let Some(((unit, _), waits)) = latency.as_ref().zip(outcome.latency) {
            let mean = outcome.latency_mean().unwrap_or_default();
            let each = if **unit == "ns" { 1e6 } else { 1.0 };
            row.push(output::grouped(outcome.delayed_hits));
            let delayed = waits.delayed_hits;
            let waits = [delayed.p50(), delayed.p99].map(|wait| wait as f64).into_iter().chain([
                mean,
                waits.p50 as f64,
                waits.p99 as f64,
            ]);
            row.extend(waits.map(|wait| format!("{:.3}", wait / each)));
        }
        if bounded {
            let mean = |least| least as f64 / outcome.requests.max(1) as f64;
            row.push(line.least.map_or("-".to_owned(), |least| format!("{:.3}", mean(least))));
        }
        row.push(format!("{:.1}", outcome.records_per_second() / 1e6));
        row
    };
    output::table(&headers, &["trace", "policy"], lines.iter().map(row).collect())
}

/// The lifetimes of entries, below the table.
fn lifetimes_below(lines: &[Line<'_>]) -> String {
    let told = lines.iter().filter_map(|it| Some((it.trace, it.lifetimes.as_deref()?)));
    output::lifetimes(&told.collect::<Vec<_>>())
}
