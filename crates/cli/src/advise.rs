//! `frazil advise`: which policy and size for this trace, on these cores, and why.

use anyhow::{Context, anyhow};
use clap::Args as ClapArgs;
use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Loaded, Trace};
use frazil_simulator::{CapacityError, CapacitySpec, CellSpec, Outcome, SweepOptions, Unit, sweep};

use crate::Done;
use crate::advise_text::{json, table};
use crate::candidate::Candidate;
use crate::failure::{Failure, note};
use crate::forecast::{Forecast, ForecastArgs, Predicted, frozen_hits};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::recommend::{Limit, Measured, Recommendation, Winner, limit, recommend, winner};
use crate::replay_args::ReplayArgs;
use crate::sample::Sample;
use crate::trace_args::{TraceArgs, Wanted};

/// The workload without a trace: Zipf with a drifting hot set, scans and one-hit
/// wonders.
const DEFAULT_TRACE: &str = "mix:objects=200K:requests=4M:seed=1";

/// Say which policy and size to use for a trace, and why.
///
/// Replays the trace against every policy and size, and predicts from hit ratios, counted work
/// and measured costs what each delivers on so many cores before such a backend. Per size the
/// highest throughput wins; within 5 % it is a tie, which goes to the fewest misses, and within
/// half a point of those to the fastest. The size is the smallest whose doubling gains less
/// than 5 % of throughput.
///
/// Predicted is what the cache itself can serve: values that are copied, a protocol and the
/// program around it come on top.
///
/// Of `frozen+POLICY`, a cache that freezes what is hottest by itself, a few shares are replayed,
/// none among them, and the fastest counts: frozen once, when the cache is warm, to the end.
///
/// Of a trace that a cache has recorded at a rate below 1, capacities are those for all
/// keys; requests and objects are those of the sample.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil advise
  frazil advise --trace requests.csv.zst
  frazil advise --trace requests.csv.zst --cores 64 --backend 10us
  frazil advise --trace requests.frazil --profile machine.toml
  frazil advise --trace requests.frazil --policy lru,frozen+lru,mobius,frozen+mobius
  frazil advise --trace cdn.bin --unit bytes --capacity 1GiB,4GiB,16GiB --output json")]
pub(crate) struct Args {
    /// The trace: a file, or a generated workload as in `frazil simulate`
    /// [default: mix:objects=200K:requests=4M:seed=1].
    #[arg(long, value_name = "FILE")]
    trace: Option<String>,

    /// Policies to compare; online ones only. (`sieve` misses exactly as often as
    /// `mobius`.) With frozen+ before its name, or frozen:share=S+, a part of it is frozen,
    /// where that can be.
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
    forecast: ForecastArgs,

    #[command(flatten)]
    replaying: ReplayArgs,

    #[command(flatten)]
    reading: TraceArgs,
}

/// One cell with all that was counted.
pub(crate) struct Replayed {
    pub(crate) measured: Measured,
    pub(crate) outcome: Outcome,
    /// `None` where the profile does not know the policy.
    pub(crate) predicted: Option<Predicted>,
    /// `None` where nothing may be frozen.
    pub(crate) frozen: Option<FrozenPart>,
}

/// What is frozen of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrozenPart {
    /// Of the entries; 0 where nothing is worth it.
    pub(crate) share: f64,
    /// Of the hits since it was frozen. `None` if the trace ended before.
    pub(crate) hits: Option<f64>,
}

impl FrozenPart {
    fn of(candidate: &Candidate, policy: &PolicySpec, outcome: &Outcome) -> Option<Self> {
        let share = if let PolicySpec::Frozen { share, .. } = policy { *share } else { 0.0 };
        let hits = if share > 0.0 { frozen_hits(outcome) } else { Some(0.0) };
        candidate.freezes().then_some(FrozenPart { share, hits })
    }
}

/// Everything that the answer is printed from.
pub(crate) struct Advice<'a> {
    pub(crate) trace: &'a str,
    pub(crate) unit: Unit,
    /// Distinct objects, or their summed sizes in bytes: what 100 % is.
    pub(crate) everything: u64,
    pub(crate) requests: u64,
    pub(crate) objects: u64,
    pub(crate) policies: &'a [Candidate],
    pub(crate) forecast: &'a Forecast,
    /// By size, then in the order of `policies`.
    pub(crate) cells: Vec<Replayed>,
    /// Smallest size first.
    pub(crate) winners: Vec<Winner>,
    pub(crate) recommendation: Recommendation,
    /// Policies that more memory makes slower.
    pub(crate) limits: Vec<Limit>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    let mut policies = Vec::new();
    for name in &args.policy {
        let policy = Candidate::parse(name)?;
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let forecast = Forecast::new(&args.forecast)?;
    let trace_name = args.trace.as_deref().unwrap_or(DEFAULT_TRACE);
    if args.trace.is_none() {
        note(&format!("no --trace given; generating {DEFAULT_TRACE}"));
    }
    let wanted =
        Wanted { times: false, sizes: args.replaying.unit == Unit::Bytes, latencies: None };
    let Loaded { trace, origin } = args.reading.load(trace_name, wanted)?;
    let sample = Sample::of_trace(trace_name, &origin, &trace);
    let capacities = capacities(args, &trace, &sample, trace_name)?;
    let question = Question { args, trace_name, trace: &trace, sample, policies, forecast };
    let advice = question.answer(&capacities)?;
    output::print(&match args.replaying.output {
        Output::Table => table(&advice),
        Output::Json => output::json(&json(&advice)),
        Output::Csv => output::csv(&json(&advice)),
    })
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

/// What does not change from cell to cell.
struct Question<'a> {
    args: &'a Args,
    trace_name: &'a str,
    trace: &'a Trace,
    sample: Sample,
    policies: Vec<Candidate>,
    forecast: Forecast,
}

impl Question<'_> {
    fn answer(&self, capacities: &[u64]) -> Result<Advice<'_>, Failure> {
        let cells: Vec<(usize, u64)> = capacities
            .iter()
            .flat_map(|&capacity| (0..self.policies.len()).map(move |policy| (policy, capacity)))
            .collect();
        self.check_known()?;
        let cells = self.replay(&cells, "replaying")?;
        if cells.iter().any(|cell| cell.outcome.requests == 0) {
            let problem = "holds no requests, only sets and deletes";
            return Err(anyhow!("{}: {problem}", self.trace_name).into());
        }
        let measured: Vec<Measured> = cells.iter().map(|cell| cell.measured).collect();
        let winners: Vec<Winner> =
            measured.chunks(self.policies.len()).filter_map(winner).collect();

        // Twice a winner's size, where that is not among the sizes asked for.
        let everything = self.everything();
        let twice = |capacity: u64| capacity.saturating_mul(2).min(everything);
        let known = |policy, capacity| {
            measured.iter().find(|cell| (cell.policy, cell.capacity) == (policy, capacity))
        };
        let probes: Vec<(usize, u64)> = winners
            .iter()
            .map(|winner| (winner.chosen.policy, twice(winner.chosen.capacity)))
            .filter(|&(policy, capacity)| known(policy, capacity).is_none())
            .collect();
        let probes = self.replay(&probes, "doubling")?;
        let doubled = |cell: &Measured| {
            if cell.capacity >= everything {
                return None;
            }
            let wanted = (cell.policy, twice(cell.capacity));
            let cell = known(wanted.0, wanted.1).or_else(|| {
                let mut probes = probes.iter().map(|probe| &probe.measured);
                probes.find(|probe| (probe.policy, probe.capacity) == wanted)
            })?;
            cell.mops
        };
        let recommendation = recommend(&winners, doubled)
            .ok_or_else(|| Failure::usage(anyhow!("no policy or no capacity to compare")))?;
        let of_policy = |policy| measured.iter().filter(move |cell| cell.policy == policy).copied();
        Ok(Advice {
            trace: self.trace_name,
            unit: self.args.replaying.unit,
            everything,
            requests: cells.first().map_or(0, |cell| cell.outcome.requests),
            objects: self.trace.objects.len() as u64,
            policies: &self.policies,
            forecast: &self.forecast,
            limits: (0..self.policies.len()).filter_map(|it| limit(of_policy(it))).collect(),
            cells,
            winners,
            recommendation,
        })
    }

    /// Distinct objects of all keys, or their summed sizes.
    fn everything(&self) -> u64 {
        self.sample.up(match self.args.replaying.unit {
            Unit::Objects => self.trace.objects.len() as u64,
            Unit::Bytes => self.trace.footprint_bytes().unwrap_or_default(),
        })
    }

    /// Fails if nothing is known of any policy. Of which nothing is, the answer says.
    fn check_known(&self) -> Result<(), Failure> {
        let policies = || self.policies.iter().map(Candidate::policy);
        if policies().any(|policy| self.forecast.costs_of(&policy).is_some()) {
            return Ok(());
        }
        let names = policies().map(|policy| policy.to_string()).collect::<Vec<_>>().join(",");
        let how = format!("`frazil calibrate --policy {names} --output FILE` measures that");
        Err(anyhow!("the profile does not say what {names} cost; {how}").into())
    }

    /// What comes of each cell: of those that may freeze different shares, with the fastest.
    fn replay(&self, cells: &[(usize, u64)], what: &str) -> Result<Vec<Replayed>, Failure> {
        let specs_of = |&(policy, capacity): &(usize, u64)| {
            let capacity = self.sample.down(capacity);
            let specs = self.policies[policy].replayed().into_iter();
            specs.map(move |policy| CellSpec { policy, capacity })
        };
        let specs: Vec<CellSpec> = cells.iter().flat_map(specs_of).collect();
        let total = self.trace.ids.len() as u64 * specs.len() as u64;
        let progress = Progress::of_records(what.to_owned(), total);
        let options = SweepOptions { count_work: true, ..self.args.replaying.sweep_options() };
        let outcomes = sweep(self.trace, &specs, &options, &|steps| progress.advance(steps));
        let mut done = specs.iter().zip(outcomes);
        let mut replayed = Vec::new();
        for cell in cells {
            let count = self.policies[cell.0].replayed().len();
            let mut best: Option<Replayed> = None;
            for (spec, outcome) in done.by_ref().take(count) {
                let next = self.replayed(*cell, &spec.policy, outcome)?;
                let mops = |it: &Replayed| it.measured.mops;
                if best.as_ref().is_none_or(|best| mops(best) < mops(&next)) {
                    best = Some(next);
                }
            }
            replayed.extend(best);
        }
        Ok(replayed)
    }

    fn replayed(
        &self,
        (policy, capacity): (usize, u64),
        spec: &PolicySpec,
        raw: Outcome,
    ) -> Result<Replayed, Failure> {
        // The work is that of the hits there were.
        let work_per_hit = raw.work_per_hit();
        let outcome = self.sample.corrected(&raw);
        let miss_ratio = outcome.miss_ratio();
        let predicted = self.forecast.predict(spec, 1.0 - miss_ratio, &raw, self.entries(capacity));
        let predicted = predicted.context("the prediction of a cell")?;
        let mops = predicted.as_ref().map(|it| it.throughput_mops);
        let measured = Measured { policy, capacity, miss_ratio, work_per_hit, mops };
        let frozen = FrozenPart::of(&self.policies[policy], spec, &raw);
        Ok(Replayed { measured, outcome, predicted, frozen })
    }

    /// How many objects a capacity holds, if they are of the mean size.
    fn entries(&self, capacity: u64) -> f64 {
        let objects = self.sample.up(self.trace.objects.len() as u64) as f64;
        match self.args.replaying.unit {
            Unit::Objects => capacity as f64,
            Unit::Bytes => capacity as f64 / self.everything().max(1) as f64 * objects,
        }
    }
}
