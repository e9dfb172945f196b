//! `frazil advise`: which policy and size for this trace, and why.

use anyhow::{Context, anyhow};
use clap::Args as ClapArgs;
use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Loaded, Trace};
use frazil_simulator::{CapacityError, CapacitySpec, CellSpec, Outcome, SweepOptions, Unit, sweep};

use crate::Done;
use crate::advise_text::{json, table};
use crate::failure::{Failure, note};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::recommend::{Measured, Recommendation, Winner, recommend, winner};
use crate::replay_args::{ReplayArgs, parse_policies};
use crate::sample::Sample;
use crate::trace_args::{TraceArgs, Wanted};

/// The workload without a trace: Zipf with a drifting hot set, scans and one-hit
/// wonders.
const DEFAULT_TRACE: &str = "mix:objects=200K:requests=4M:seed=1";

/// Say which policy and size to use for a trace, and why.
///
/// Replays the trace against every policy and size. Per size the fewest misses
/// win; within 0.5 points it is a tie, which goes to the policy that does the
/// least work on a hit. The size is the smallest whose doubling gains less than
/// one point.
///
/// Of a trace that a cache has recorded at a rate below 1, capacities are those for all
/// keys; requests and objects are those of the sample.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil advise
  frazil advise --trace requests.csv.zst
  frazil advise --trace requests.frazil
  frazil advise --trace cdn.bin --unit bytes --capacity 1GiB,4GiB,16GiB --output json")]
pub(crate) struct Args {
    /// The trace: a file, or a generated workload as in `frazil simulate`
    /// [default: mix:objects=200K:requests=4M:seed=1].
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,

    /// Policies to compare; online ones only. (`sieve` misses exactly as often as
    /// `mobius`.)
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE],…",
        value_delimiter = ',',
        default_value = "fifo,lru,clock,mobius,s3-fifo,two-queue,arc,lirs,w-tinylfu"
    )]
    policy: Vec<String>,

    /// Sizes to compare, written as in `frazil simulate`.
    #[arg(
        long,
        value_name = "N|N%|NMiB,…",
        value_delimiter = ',',
        default_value = "0.5%,1%,2%,4%,8%,16%,32%,64%"
    )]
    capacity: Vec<CapacitySpec>,

    #[command(flatten)]
    replaying: ReplayArgs,

    #[command(flatten)]
    reading: TraceArgs,
}

/// One cell with all that was counted.
pub(crate) struct Replayed {
    pub(crate) measured: Measured,
    pub(crate) outcome: Outcome,
}

/// Everything that the answer is printed from.
pub(crate) struct Advice<'a> {
    pub(crate) trace: &'a str,
    pub(crate) unit: Unit,
    /// Distinct objects, or their summed sizes in bytes: what 100 % is.
    pub(crate) everything: u64,
    pub(crate) requests: u64,
    pub(crate) objects: u64,
    pub(crate) policies: &'a [PolicySpec],
    /// By size, then in the order of `policies`.
    pub(crate) cells: Vec<Replayed>,
    /// Smallest size first.
    pub(crate) winners: Vec<Winner>,
    pub(crate) recommendation: Recommendation,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    let mut policies = Vec::new();
    for policy in online(parse_policies(&args.policy)?)? {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let trace_name = args.trace.as_deref().unwrap_or(DEFAULT_TRACE);
    if args.trace.is_none() {
        note(&format!("no --trace given; generating {DEFAULT_TRACE}"));
    }
    let wanted = Wanted { times: false, sizes: args.replaying.unit == Unit::Bytes };
    let Loaded { trace, origin } = args.reading.load(trace_name, wanted)?;
    let sample = Sample::of_trace(trace_name, &origin, &trace);
    let capacities = capacities(args, &trace, &sample, trace_name)?;
    let advice = advise(args, trace_name, (&trace, &sample), &policies, &capacities)?;
    output::print(&match args.replaying.output {
        Output::Table => table(&advice),
        Output::Json => output::json(&json(&advice)),
        Output::Csv => output::csv(&json(&advice)),
    })
}

fn online(policies: Vec<PolicySpec>) -> Result<Vec<PolicySpec>, Failure> {
    match policies.iter().find(|policy| policy.is_offline()) {
        Some(policy) => Err(Failure::usage(anyhow!(
            "policy `{policy}` knows the future and can't be recommended; compare with it in `frazil simulate`"
        ))),
        None => Ok(policies),
    }
}

/// The sizes to compare, ascending and each once.
fn capacities(
    args: &Args,
    trace: &Trace,
    sample: &Sample,
    name: &str,
) -> Result<Vec<u64>, Failure> {
    let unit = args.replaying.unit;
    let resolve = |capacity: &CapacitySpec| {
        let resolved = capacity.resolve(trace, unit)?;
        // A number is for all keys, a share of the sample.
        Ok::<_, CapacityError>(capacity.known(unit)?.unwrap_or_else(|| sample.up(resolved)))
    };
    let mut capacities = args
        .capacity
        .iter()
        .map(resolve)
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| name.to_owned())
        .map_err(Failure::Usage)?;
    capacities.sort_unstable();
    capacities.dedup();
    Ok(capacities)
}

fn advise<'a>(
    args: &Args,
    trace_name: &'a str,
    sampled: (&Trace, &Sample),
    policies: &'a [PolicySpec],
    capacities: &[u64],
) -> Result<Advice<'a>, Failure> {
    let trace = sampled.0;
    let everything = sampled.1.up(match args.replaying.unit {
        Unit::Objects => trace.objects.len() as u64,
        Unit::Bytes => trace.footprint_bytes().unwrap_or_default(),
    });
    let options = SweepOptions { count_work: true, ..args.replaying.sweep_options() };
    let cells: Vec<(usize, u64)> = capacities
        .iter()
        .flat_map(|&capacity| (0..policies.len()).map(move |policy| (policy, capacity)))
        .collect();
    let cells = replay(sampled, policies, &cells, &options, "replaying");
    if cells.iter().any(|cell| cell.outcome.requests == 0) {
        return Err(anyhow!("{trace_name}: holds no requests, only sets and deletes").into());
    }
    let winners: Vec<Winner> = cells
        .chunks(policies.len())
        .filter_map(|size| winner(&size.iter().map(|cell| cell.measured).collect::<Vec<_>>()))
        .collect();

    // Twice a winner's size, where that is not among the sizes asked for.
    let twice = |capacity: u64| capacity.saturating_mul(2).min(everything);
    let known = |policy, capacity| {
        cells
            .iter()
            .find(|cell| (cell.measured.policy, cell.measured.capacity) == (policy, capacity))
    };
    let probes: Vec<(usize, u64)> = winners
        .iter()
        .map(|winner| (winner.chosen.policy, twice(winner.chosen.capacity)))
        .filter(|&(policy, capacity)| known(policy, capacity).is_none())
        .collect();
    let probes = replay(sampled, policies, &probes, &options, "doubling");
    let doubled = |cell: &Measured| {
        if cell.capacity >= everything {
            return None;
        }
        let wanted = (cell.policy, twice(cell.capacity));
        let cell = known(wanted.0, wanted.1).or_else(|| {
            probes.iter().find(|p| (p.measured.policy, p.measured.capacity) == wanted)
        })?;
        Some(cell.measured.miss_ratio)
    };
    let recommendation = recommend(&winners, doubled)
        .ok_or_else(|| Failure::usage(anyhow!("no policy or no capacity to compare")))?;
    Ok(Advice {
        trace: trace_name,
        unit: args.replaying.unit,
        everything,
        requests: cells.first().map_or(0, |cell| cell.outcome.requests),
        objects: trace.objects.len() as u64,
        policies,
        cells,
        winners,
        recommendation,
    })
}

fn replay(
    (trace, sample): (&Trace, &Sample),
    policies: &[PolicySpec],
    cells: &[(usize, u64)],
    options: &SweepOptions,
    what: &str,
) -> Vec<Replayed> {
    let specs: Vec<CellSpec> = cells
        .iter()
        .map(|&(policy, capacity)| CellSpec {
            policy: policies[policy],
            capacity: sample.down(capacity),
        })
        .collect();
    let total = trace.ids.len() as u64 * cells.len() as u64;
    let progress = Progress::of_records(what.to_owned(), total);
    let outcomes = sweep(trace, &specs, options, &|steps| progress.advance(steps));
    let replayed = |(&(policy, capacity), outcome): (&(usize, u64), Outcome)| {
        // The work is that of the hits there were.
        let (work_per_hit, outcome) = (outcome.work_per_hit(), sample.corrected(&outcome));
        let miss_ratio = outcome.miss_ratio();
        Replayed { measured: Measured { policy, capacity, miss_ratio, work_per_hit }, outcome }
    };
    cells.iter().zip(outcomes).map(replayed).collect()
}
