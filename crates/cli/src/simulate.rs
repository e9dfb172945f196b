//! `frazil simulate`: miss ratios of policies at sizes over traces.

use anyhow::Context;
use clap::Args as ClapArgs;
use frazil_policy::PolicySpec;
use frazil_simulator::{CapacitySpec, CellSpec, Outcome, SweepOptions, Unit, sweep};

use crate::failure::Failure;
use crate::output::{self, Output, Row, row};
use crate::progress::Progress;
use crate::trace_args::{TraceArgs, Wanted};
use crate::{Done, failure};

/// Replay traces against policies and sizes, and print the miss ratios.
///
/// Every trace × policy × capacity is one row. A request is a get: look up, and
/// on a miss insert. Sets insert or replace and deletes remove; neither is a
/// request.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil simulate --trace trace.csv.zst --policy lru,sieve --capacity 1%,10%
  frazil simulate --trace disk.bin --policy s3-fifo --capacity 64MiB --unit bytes
  frazil simulate --trace zipf:1.0:objects=1M:requests=20M:seed=1 --policy clock:bits=2 \\
      --capacity 100K --output json")]
pub(crate) struct Args {
    /// Trace files, or generated workloads: zipf:ALPHA, uniform, loop, mix, each
    /// with :objects=N:requests=N:seed=N.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    trace: Vec<String>,

    /// Policies with their parameters: fifo, lru, clock, clock:bits=2, sieve,
    /// mobius, s3-fifo, lecar, cacheus, belady.
    #[arg(long, value_name = "NAME[:KEY=VALUE],…", required = true, value_delimiter = ',')]
    policy: Vec<String>,

    /// Capacities: a number of objects (1000, 10K), a share of the distinct
    /// objects (0.1%) or of the most live at once (10%peak); with --unit bytes a
    /// number of bytes (64MiB) or a share of the summed sizes.
    #[arg(long, value_name = "N|N%|NMiB,…", required = true, value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,

    /// What capacities count: objects or bytes.
    #[arg(long, default_value_t = Unit::Objects)]
    unit: Unit,

    /// Replay this many records first without counting them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,

    /// With --unit bytes: a get that finds its object with another size than its
    /// record says gives the object that size, and then evicts to fit. Otherwise
    /// only a set changes sizes, and a hit is served from what is cached.
    #[arg(long)]
    resize_on_get: bool,

    /// Cells (policy × capacity) replayed at the same time [default: the cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    output: Output,

    #[command(flatten)]
    reading: TraceArgs,
}

/// A row of the result: which cell, and what came of it.
struct Line<'a> {
    trace: &'a str,
    policy: &'a str,
    capacity: u64,
    unit: Unit,
    outcome: Outcome,
}

/// Runs the verb. Prints only once every trace is done.
pub(crate) fn run(args: &Args) -> Done {
    let policies = parse_policies(&args.policy)?;
    let mut lines = Vec::new();
    for trace in &args.trace {
        lines.extend(simulate(args, trace, &policies)?);
    }
    output::print(&match args.output {
        Output::Json => output::json(&rows(&lines)),
        Output::Csv => output::csv(&rows(&lines)),
        Output::Table => table(&lines),
    })
}

/// Reads policy names. Bad usage if one is unknown.
pub(crate) fn parse_policies(names: &[String]) -> Result<Vec<PolicySpec>, failure::Failure> {
    names.iter().map(|name| name.parse().map_err(Failure::usage)).collect()
}

/// As many threads as asked for, or as there are cores.
pub(crate) fn threads(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

fn simulate<'a>(
    args: &'a Args,
    trace: &'a str,
    policies: &[PolicySpec],
) -> Result<Vec<Line<'a>>, Failure> {
    let wanted = Wanted { times: false, sizes: args.unit == Unit::Bytes };
    let loaded = args.reading.load(trace, wanted)?;
    let mut cells = Vec::new();
    let mut names = Vec::new();
    for (&policy, name) in policies.iter().zip(&args.policy) {
        for capacity in &args.capacity {
            let capacity = capacity
                .resolve(&loaded.trace, args.unit)
                .with_context(|| trace.to_owned())
                .map_err(Failure::Usage)?;
            cells.push(CellSpec { policy, capacity });
            names.push(name);
        }
    }
    let records = loaded.trace.ids.len();
    let options = SweepOptions {
        unit: args.unit,
        warmup: usize::try_from(args.warmup).unwrap_or(usize::MAX),
        resize_on_get: args.resize_on_get,
        threads: threads(args.threads),
        count_work: false,
    };
    if options.warmup >= records {
        return Err(Failure::Usage(anyhow::anyhow!(
            "--warmup {} leaves none of the {records} records of {trace}",
            args.warmup
        )));
    }
    let total = records as u64 * cells.len() as u64;
    let progress = Progress::of_records("replaying".to_owned(), total);
    let outcomes = sweep(&loaded.trace, &cells, &options, &|steps| progress.advance(steps));
    let line = |((cell, name), outcome): ((&CellSpec, &&'a String), Outcome)| Line {
        trace,
        policy: name,
        capacity: cell.capacity,
        unit: args.unit,
        outcome,
    };
    Ok(cells.iter().zip(&names).zip(outcomes).map(line).collect())
}

fn rows(lines: &[Line<'_>]) -> Vec<Row> {
    let row = |line: &Line<'_>| {
        let Line { trace, policy, capacity, unit, outcome } = line;
        let byte_miss_ratio = (*unit == Unit::Bytes).then(|| outcome.byte_miss_ratio());
        row! {
            "trace" => trace,
            "policy" => policy,
            "capacity" => capacity,
            "unit" => unit.to_string(),
            "requests" => outcome.requests,
            "hits" => outcome.hits,
            "delayed_hits" => 0,
            "misses" => outcome.misses(),
            "miss_ratio" => outcome.miss_ratio(),
            "byte_miss_ratio" => byte_miss_ratio,
            "requests_per_second" => outcome.records_per_second().round(),
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
    headers.push("M req/s");
    let row = |line: &Line<'_>| {
        let outcome = &line.outcome;
        let mut row = vec![
            line.trace.to_owned(),
            line.policy.to_owned(),
            output::grouped(line.capacity),
            output::grouped(outcome.requests),
            output::grouped(outcome.misses()),
            format!("{:.6}", outcome.miss_ratio()),
        ];
        if bytes {
            row.push(format!("{:.6}", outcome.byte_miss_ratio()));
        }
        row.push(format!("{:.1}", outcome.records_per_second() / 1e6));
        row
    };
    output::table(&headers, &["trace", "policy"], lines.iter().map(row).collect())
}
