//! `frazil advise`: which policy and size for this trace, on these cores, and why.

mod board;
mod by_trace;
mod candidate;
mod case;
mod choice;
mod costs;
mod document;
mod figures;
mod goal;
mod latency;
mod memory;
mod prices;
mod recommend;
mod search;
mod text;
mod told;
mod worth;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args as ClapArgs;
use frazil_simulator::trace::{Loaded, SampleBounds};
use frazil_simulator::{CapacitySpec, SweepOptions, Unit};

use crate::Done;
use crate::completions::online_policies;
use crate::failure::{Failure, note};
use crate::forecast::{COMPARED, Forecast, ForecastArgs, Setting};
use crate::lifetime_args::LifetimeArgs;
use crate::output::{self, Output, Row};
use crate::outputs;
use crate::replay_args::ReplayArgs;
use crate::report;
use crate::sample::{self, SampleArg};
use crate::trace_args::{TraceArgs, Wanted};
use crate::trace_files::TraceFiles;
use board::Board;
use candidate::Candidate;
use case::{Case, Question, Replayed};
use choice::Choice;
use document::document;
use goal::{Goal, GoalArgs, Money};
use memory::Memory;
use recommend::{Limit, Measured, limit};
use search::Found;
use text::{TOLD, json, table};

/// The workload without a trace: Zipf with a drifting hot set, scans and one-hit
/// wonders.
const DEFAULT_TRACE: &str = "mix:objects=200K:requests=4M:seed=1";
/// Default for the records of all traces together: a replay of as many with nine policies at eight
/// sizes takes half a minute on two cores.
const RECORDS: usize = 16_000_000;

/// Recommend a policy and a size for a trace, and explain why.
///
/// Without a trace it uses a generated workload: mix:objects=200K:requests=4M:seed=1.
///
/// It replays the trace against every policy and size. From the hit ratios, the counted work and
/// measured costs it predicts the throughput of each on --cores before --backend. At each size the
/// highest throughput wins. Throughputs within 5 % are a tie, which the fewest misses win; if
/// misses are within half a point too, the faster wins.
///
/// A cache of unlimited size avoids all misses but the first of each object. The frugal size avoids
/// half of these avoidable misses, the ample size 95 %. The balanced size is recommended: beyond it
/// one more percent of memory avoids less than one percent of the avoidable misses. Where the curve
/// bends, additional sizes are replayed.
///
/// With goals the answer is the best cache within --budget, the smallest that reaches all targets,
/// or the cheapest at given prices. Goals can be combined.
///
/// The prediction covers the cache alone. Copying values, a protocol and the rest of the program
/// take time in addition.
///
/// `frozen+POLICY` is a cache that freezes its hottest entries while that pays. A few frozen shares
/// are replayed, 0 among them, each frozen once when the cache is warm. The fastest counts.
///
/// Latencies are printed for hits, for delayed hits, which wait for a fetch that an earlier request
/// started, and for misses. For this the sizes of the answer are replayed once more, with fetches
/// that take --backend, by the trace's times or at --request-rate. With --target-latency all sizes
/// are; throughputs then include delayed hits if these matter.
///
/// Several traces are replayed at the same sizes. The worst trace decides about a policy: the one
/// on which it is furthest behind the best policy. The answer names that trace.
///
/// Of a long trace a sample of the objects is replayed, at the same share of each size, and the
/// likely error of the miss ratios is printed. In this case, and if a cache has recorded the trace
/// at a rate below 1, capacities are those for all keys, and requests and objects are those of the
/// sample.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil advise
  frazil advise requests.csv.zst
  frazil advise requests.csv.zst --cores 64 --backend 10us
  frazil advise requests.csv.zst --report report.html
  frazil advise requests.csv.zst --target-miss 30% --budget 50%
  frazil advise requests.csv.zst --backend 1ms --target-latency p99=1.2ms
  frazil advise cdn.bin --memory-price 3 --miss-price 0.4 --request-rate 1000
  frazil advise cdn.bin --prices elasticache-s3 --request-rate 1000
  frazil advise monday.csv.zst sunday.csv.zst
  zcat requests.csv.gz | frazil advise - --sample 100K
  frazil advise requests.frazil --profile machine.toml
  frazil advise requests.frazil --policy lru,frozen+lru,mobius,frozen+mobius
  frazil advise cdn.bin --unit bytes --capacity 1GiB,4GiB,16GiB --output json")]
pub(crate) struct Args {
    #[command(flatten)]
    traces: TraceFiles,

    /// Online policies to compare. (`sieve` misses exactly as often as `mobius`.) The prefix
    /// frozen+ or frozen:share=S+ freezes a part of the cache, for policies that allow it.
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE],…",
        value_delimiter = ',',
        default_value = COMPARED,
        value_parser = online_policies(),
        hide_possible_values = true
    )]
    policy: Vec<String>,

    /// Sizes to compare, as for `frazil simulate`; no others are compared. A share is of the
    /// largest trace [default: 0.5%,1%,2%,4%,8%,16%,32%,64%,100%, and more where the curve bends].
    #[arg(long, value_name = "N|N%|NMiB,…", value_delimiter = ',')]
    capacity: Vec<CapacitySpec>,

    /// Objects to replay: all, a share (1%), or at most so many (200K) [default: 500K, of at most
    /// 16M records].
    #[arg(long, value_name = "all|N%|N")]
    sample: Option<SampleArg>,

    /// Advise even if no object of a file is requested twice.
    #[arg(long)]
    force: bool,

    /// Also write a report: one self-contained HTML file with charts.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Also write the charts as SVG files into a folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,

    #[command(flatten)]
    forecast: ForecastArgs,

    #[command(flatten)]
    replaying: ReplayArgs,

    // Below the flags that have no heading.
    #[command(flatten)]
    goal: GoalArgs,

    #[command(flatten)]
    lifetimes: LifetimeArgs,

    #[command(flatten)]
    pub(crate) reading: TraceArgs,

    /// The words of the command line, if they are not those of the process.
    #[arg(skip)]
    pub(crate) words: Option<Vec<OsString>>,
}

/// All data of the output.
pub(crate) struct Advice<'a> {
    pub(crate) unit: Unit,
    /// Distinct objects of the largest trace, or their summed sizes in bytes: 100 %.
    pub(crate) everything: u64,
    pub(crate) policies: &'a [Candidate],
    pub(crate) forecast: &'a Forecast,
    pub(crate) cases: Vec<Case<'a>>,
    /// All sizes. With several traces, throughputs are shares of each trace's best.
    pub(crate) board: Board,
    pub(crate) choice: Choice,
    /// Whether sizes were searched, not given.
    pub(crate) searched: bool,
    /// Capacities in tables.
    pub(crate) shown: Vec<u64>,
    /// The target.
    pub(crate) goal: Option<Goal>,
    pub(crate) memory: Memory,
    /// Gain of throughput by the step, as a share of the present one; `None` if the size already
    /// holds every object.
    pub(crate) marginal_gain: Option<f64>,
    /// The next step, whose gain is printed: twice the recommended size, or all objects.
    pub(crate) step: u64,
    /// The recommended cell on each trace.
    pub(crate) on_each: Vec<Beside>,
    /// The trace that decides.
    pub(crate) worst: Beside,
    /// Policies that more memory makes slower, on the worst trace.
    pub(crate) limits: Vec<Limit>,
}

impl Advice<'_> {
    /// Whether the output has capacities as memory as well.
    pub(crate) fn shows_memory(&self) -> bool {
        self.memory.is_known()
    }

    /// Prices of memory and misses, if given.
    pub(crate) fn money(&self) -> Option<&Money> {
        self.goal.as_ref().and_then(|goal| goal.money.as_ref())
    }
}

/// The recommended cell beside the best, on one trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beside {
    /// Number of the trace.
    pub(crate) case: usize,
    /// The best there, at the recommended size.
    pub(crate) best: Measured,
    /// The recommended cell on this trace.
    pub(crate) chosen: Measured,
}

impl Beside {
    /// The throughput, as a share of the best one.
    pub(crate) fn share_of_best(&self) -> Option<f64> {
        Some(self.chosen.mops? / self.best.mops?)
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Done {
    let question = question(args)?;
    let advice = answer(args, &question)?;
    let written = write_files(args, &question, &advice);
    // Printed even if files fail: a stream cannot be read again.
    let printed = output::print(&match args.replaying.output {
        Output::Table => table(&advice),
        Output::Json => output::json(&json(&advice)),
        Output::Csv => output::csv(&json(&advice)),
    });
    written.and(printed)
}

/// The cells and the recommendation as rows; also writes the files.
pub(crate) fn rows(args: &Args) -> Result<Vec<Row>, Failure> {
    let question = question(args)?;
    let advice = answer(args, &question)?;
    write_files(args, &question, &advice)?;
    Ok(json(&advice))
}

/// The question of the arguments, after all checks that need no trace.
fn question(args: &Args) -> Result<Question, Failure> {
    let mut policies = Vec::new();
    for name in &args.policy {
        let policy = Candidate::parse(name)?;
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let forecast = Forecast::new(&args.forecast)?;
    check_known(&policies, &forecast)?;
    let lifetimes = args.lifetimes.rule();
    let options = SweepOptions { count_work: true, lifetimes, ..args.replaying.sweep_options() };
    let times_all = args.goal.wants_latencies();
    check_places(args)?;
    args.goal.check(args.replaying.unit, args.traces.all().len())?;
    Ok(Question { policies, forecast, options, times_all })
}

fn write_files(args: &Args, question: &Question, advice: &Advice<'_>) -> Done {
    if let Some(file) = &args.report {
        let document = document(advice, question, &command(args, &question.forecast.setting))?;
        outputs::write(file, &report::page(&document))?;
        note(&format!("wrote {}", file.display()));
    }
    if let Some(folder) = &args.figures {
        figures::write(advice, folder)?;
    }
    Ok(())
}

/// Fails before minutes of replay if the output could not be written after them.
fn check_places(args: &Args) -> Result<(), Failure> {
    let mut problem = None;
    if let Some(file) = &args.report {
        outputs::refuse_inputs(file, args.traces.all())?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if file.is_dir() {
            problem = Some((file, "is a folder, expected a file to write"));
        } else if folder.is_some_and(|folder| !folder.is_dir()) {
            problem = Some((file, "its folder does not exist"));
        }
    }
    if let Some(folder) = args.figures.as_ref().filter(|it| it.exists() && !it.is_dir()) {
        problem = Some((folder, "is a file, expected a folder to write into"));
    }
    let failed = |(path, why): (&PathBuf, _)| Err(anyhow!("{}: {why}", path.display()).into());
    problem.map_or(Ok(()), failed)
}

/// The command line that repeats this, for a shell: with the cores, which differ between machines.
fn command(args: &Args, setting: &Setting) -> String {
    let quoted = |word: String| {
        let plain = |it: char| it.is_alphanumeric() || "-_./:,=+%@".contains(it);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = args.words.clone().unwrap_or_else(|| std::env::args_os().skip(1).collect());
    let words = words.iter().map(|word| quoted(word.to_string_lossy().into_owned()));
    let mut words: Vec<String> = ["frazil".to_owned()].into_iter().chain(words).collect();
    if args.forecast.cores.is_none() {
        words.extend(["--cores".to_owned(), setting.cores.to_string()]);
    }
    if args.traces.all().contains(&"-") {
        words.insert(0, "… |".to_owned());
    }
    words.join(" ")
}

/// Fails if the costs of all policies are unknown. If those of some are, the answer names them.
fn check_known(policies: &[Candidate], forecast: &Forecast) -> Result<(), Failure> {
    let policies = || policies.iter().map(Candidate::policy);
    if policies().any(|policy| forecast.costs_of(&policy).is_some()) {
        return Ok(());
    }
    let names = policies().map(|policy| policy.to_string()).collect::<Vec<_>>().join(",");
    let how = format!("`frazil calibrate --policy {names} --output FILE` measures that");
    Err(anyhow!("the profile has no costs of {names}; {how}").into())
}

/// The traces, or their samples.
fn cases(args: &Args, backend_us: f64) -> Result<Vec<Case<'_>>, Failure> {
    let unit = args.replaying.unit;
    let mut names = args.traces.all();
    if names.is_empty() {
        note(&format!("no trace given; generating {DEFAULT_TRACE}"));
        names.push(DEFAULT_TRACE);
    }
    if names.iter().filter(|&&name| name == "-").count() > 1 {
        return Err(Failure::usage(anyhow!("standard input can be read only once")));
    }
    let bounds = args.sample.map_or_else(
        || SampleBounds {
            rate: 1.0,
            objects: sample::OBJECTS / names.len(),
            records: RECORDS / names.len(),
        },
        SampleArg::bounds,
    );
    // If the unit is objects, only the mean of the sizes is kept.
    let lifetimes = args.lifetimes.rule();
    let wanted = Wanted { times: true, sizes: true, latencies: None, lifetimes };
    let case = |name| {
        let loaded = args.reading.load_sample(name, wanted, bounds)?;
        if !args.force {
            refuse_distinct(name, &loaded)?;
        }
        let has_times = !loaded.trace.times_ns.is_empty();
        let told = args.lifetimes.told(name, &loaded.origin, has_times)?;
        let rates = (backend_us, args.goal.request_rate);
        let mut case = Case::new(name, loaded, unit, rates, told)?;
        case.ignored_lifetimes = args.lifetimes.ignored(&args.reading, name);
        Ok(case)
    };
    names.into_iter().map(case).collect()
}

/// The fewest requests whose ids may be judged.
const REQUESTS_JUDGED: usize = 20;

/// Refuses a file in which no object is requested twice: it probably has its ids in another column.
fn refuse_distinct(name: &str, loaded: &Loaded) -> Result<(), Failure> {
    let records = loaded.trace.len();
    let of_file = loaded.origin.format.is_some();
    if !of_file || records < REQUESTS_JUDGED || loaded.trace.objects.len() < records {
        return Ok(());
    }
    Err(anyhow!(
        "{name}: no object is requested twice, so no cache can help; if the ids are in another \
         column, name it, as in --columns id=NAME; --force advises nevertheless"
    )
    .into())
}

fn answer<'a>(args: &'a Args, question: &'a Question) -> Result<Advice<'a>, Failure> {
    let Question { policies, forecast, .. } = question;
    let mut cases = cases(args, forecast.setting.backend_us)?;
    let unit = args.replaying.unit;
    let memory = args.goal.memory(question, unit, &cases);
    let goal = args.goal.goal(unit, &memory, &cases)?;
    let Found { board, choice, shown } =
        search::explore(args, question, goal.as_ref(), &memory, &mut cases)?;
    let chosen = choice.winner.chosen;
    let doubling = Doubling::new(question, &cases, &board, chosen)?;
    let (marginal_gain, step) = (doubling.most_gain(), doubling.step);
    let on_each = on_each(&cases, &chosen);
    let worst = worst(&on_each).ok_or_else(|| Failure::usage(anyhow!("no trace to compare by")))?;
    let limits = {
        let cells = || cases[worst.case].cells.iter().map(|cell| cell.measured);
        let of_policy = |policy| cells().filter(move |cell| cell.policy == policy);
        // Misses of expired entries make the recommended size larger.
        let is_advised =
            |it: &Limit| it.best.policy == chosen.policy && it.best.capacity < chosen.capacity;
        let all = (0..policies.len()).filter_map(|policy| limit(of_policy(policy)));
        all.filter(|it| !is_advised(it)).collect()
    };
    Ok(Advice {
        unit,
        everything: board.everything,
        policies,
        forecast,
        cases,
        board,
        choice,
        searched: args.capacity.is_empty(),
        shown,
        goal,
        memory,
        marginal_gain,
        step,
        on_each,
        worst,
        limits,
    })
}

/// A cell beside the best of its size, on each trace.
fn on_each(cases: &[Case<'_>], chosen: &Measured) -> Vec<Beside> {
    let of = |(number, case): (usize, &Case<'_>)| {
        let best = case
            .of_size(chosen.capacity)
            .max_by(|one, other| one.mops.unwrap_or(0.0).total_cmp(&other.mops.unwrap_or(0.0)))?;
        let chosen = case.cell(chosen.policy, chosen.capacity)?.measured;
        Some(Beside { case: number, best, chosen })
    };
    cases.iter().enumerate().filter_map(of).collect()
}

/// The trace on which it is furthest behind; if it equals the best on several, the one on which it
/// is slowest.
fn worst(on_each: &[Beside]) -> Option<Beside> {
    let share = |it: &Beside| {
        let share = it.share_of_best().unwrap_or(0.0);
        if share > 1.0 - TOLD { 1.0 } else { share }
    };
    let mops = |it: &Beside| it.chosen.mops.unwrap_or(0.0);
    let worst = on_each.iter().min_by(|one, other| {
        let slower = || mops(one).total_cmp(&mops(other));
        share(one).total_cmp(&share(other)).then_with(slower)
    });
    worst.copied()
}

/// The gain of twice the recommended size, with the same policy.
struct Doubling<'a> {
    cases: &'a [Case<'a>],
    /// By trace: the cell of twice the size, if it is not among those compared.
    probes: Vec<Vec<Replayed>>,
    chosen: Measured,
    step: u64,
}

impl<'a> Doubling<'a> {
    fn new(
        question: &Question,
        cases: &'a [Case<'a>],
        board: &Board,
        chosen: Measured,
    ) -> Result<Self, Failure> {
        // Twice the size, or a compared size that is as good; at most all objects.
        let twice = chosen.capacity.saturating_mul(2).min(board.everything);
        let near = |size: &u64| *size > chosen.capacity && size.abs_diff(twice) <= twice / 100;
        let step = board.rows.iter().map(|row| row.capacity).find(near).unwrap_or(twice);
        let mut doubling = Doubling { cases, probes: Vec::new(), chosen, step };
        for case in cases {
            let known = case.cell(chosen.policy, step).is_some();
            let wanted = if known { vec![] } else { vec![(chosen.policy, step)] };
            doubling.probes.push(case.replay(question, &wanted, "doubling")?);
        }
        Ok(doubling)
    }

    /// Its gain, as a share of the throughput; with several traces the largest gain. `None` if the
    /// size holds all objects.
    fn most_gain(&self) -> Option<f64> {
        (0..self.cases.len()).filter_map(|case| self.gain(case)).max_by(f64::total_cmp)
    }

    fn gain(&self, case: usize) -> Option<f64> {
        let Measured { policy, capacity, .. } = self.chosen;
        let of_case = &self.cases[case];
        if capacity >= of_case.everything {
            return None;
        }
        let probe = || self.probes[case].first();
        let twice = of_case.cell(policy, self.step).or_else(probe)?.measured.mops?;
        let here = of_case.cell(policy, capacity)?.measured.mops?;
        Some(if here > 0.0 { twice / here - 1.0 } else { 0.0 })
    }
}
