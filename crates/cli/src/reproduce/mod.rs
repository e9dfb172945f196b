//! `frazil reproduce`: repeats the experiment of a paper on this machine.
//!
//! An experiment gives measurements, figures, and expectations: the paper's findings, in a form
//! that a program can check. An unmet expectation is printed as such, and is no failure of the
//! command.

mod accuracy;
mod advice;
mod advice_cells;
mod advice_sizes;
mod cells;
mod classes;
mod delayed_cells;
mod delayed_expectations;
mod delayed_hits;
mod expectations;
mod fall;
mod fall_report;
mod frozen_cells;
mod frozen_clock;
mod frozen_curve;
mod frozen_expectations;
mod frozen_share;
mod frozenhot;
mod gl_cache;
mod gl_cells;
mod gl_expectations;
mod mitigations;
mod mobius;
mod mobius_traces;
mod prototype;
mod queueing;
mod rocksdb;
mod rocksdb_cells;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args as ClapArgs, ValueEnum};
use frazil_queueing::Profile;
use frazil_simulator::parse_us;
use serde_json::{Value, json};

use crate::Done;
use crate::calibrate::measure::Tally;
use crate::calibrate::{calibrate, setups};
use crate::failure::Failure;
use crate::output::{self, Output, Row, row};

/// Repeat a paper's experiment, and compare its claims with the result.
///
/// The command writes measurements as JSON and figures as SVG into a folder. It prints each
/// expectation of the paper and whether it was met. A machine with fewer cores than the paper's
/// cannot show the peaks. So expectations are ratios, the contenders take turns, and counts (hits,
/// writes to shared lines) stand beside times.
#[derive(ClapArgs, Debug)]
#[command(after_help = "Examples:
  frazil reproduce mobius
  frazil reproduce mobius --quick --out /tmp/mobius
  frazil reproduce mobius --output json
  frazil reproduce mobius-traces --traces /data/traces --out /tmp/mobius
  frazil reproduce frozenhot --traces /data/traces --out /tmp/frozenhot
  frazil reproduce frozenhot --traces /data/traces --workloads p3,oltp --out /tmp/frozenhot
  frazil reproduce frozen-share --out /tmp/frozen-share
  frazil reproduce delayed-hits --traces /data/traces --out /tmp/delayed-hits
  frazil reproduce gl-cache --traces /data/traces --out /tmp/gl-cache
  frazil reproduce queueing --out /tmp/queueing
  frazil reproduce fall --out /tmp/fall
  frazil reproduce accuracy --profile machine.toml --out /tmp/accuracy
  frazil reproduce advice --traces /data/traces --out /tmp/advice
  frazil reproduce advice-sizes --traces /data/traces --out /tmp/sizes
  frazil reproduce mitigations --out /tmp/mitigations
  frazil reproduce prototype --traces /data/traces --out /tmp/prototype
  frazil reproduce rocksdb --programs target/rocksdb/11.8.1 --out /tmp/rocksdb")]
pub(crate) struct Args {
    /// The experiment.
    #[arg(value_enum, value_name = "NAME")]
    name: Experiment,

    /// Folder for data and figures, created if absent [default: reproduce-NAME].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// A short run on a small trace, to see that it works.
    #[arg(long)]
    quick: bool,

    /// For accuracy and advice: a profile written by `frazil calibrate` [default: accuracy
    /// calibrates first, advice uses the built-in profile].
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// For advice, advice-sizes, frozenhot, delayed-hits, gl-cache, mobius-traces and prototype: a
    /// folder with the traces named in docs/reproduce-frozenhot.md, docs/reproduce-mobius-traces.md
    /// and docs/reproduce-prototype.md, such as arc/OLTP.lis.zst. advice and advice-sizes use all
    /// traces in any folder [default: generated traces].
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,

    /// For rocksdb: the folder with programs built by `cargo xtask cache-bench`, `db-bench` and
    /// `ycsb`.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,

    /// For frozenhot: only these workloads, by their names in its tables, such as p3. For rocksdb:
    /// figure13, figure14 or figure17.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    workloads: Vec<String>,

    /// Measure a plan once; for the processes that accuracy starts.
    #[arg(long, value_name = "FILE", hide = true)]
    measure: Option<PathBuf>,

    /// Be an origin that answers after so long: for the processes that prototype starts.
    #[arg(long, value_name = "DURATION", value_parser = parse_us, hide = true)]
    origin: Option<f64>,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Experiment {
    /// Paper 3, figures 2, 4 and 7 to 10: Mobius beside SIEVE, LRU, OptLRU, W-TinyLFU and 2Q under
    /// a lock, and S3-FIFO, CLOCK and FIFO without. About eleven minutes on two cores.
    Mobius,
    /// Paper 3, figures 11 and 12: the same policies on real traces. About four minutes on two
    /// cores.
    MobiusTraces,
    /// Paper 2, figures 5 and 8 to 16: FIFO, LRU, LFU and Mobius with and without freezing. Figure
    /// 17 is in rocksdb. Over half an hour with real traces.
    Frozenhot,
    /// Paper 2, figures 10 and 14: the share that freezing chooses beside the best fixed one, on
    /// workloads where freezing all, a part or nothing is best, by a clock that only requests
    /// advance. A few minutes.
    FrozenShare,
    /// Paper 5, figures 14 and 16 to 21 (15 needs a prototype): MAD over LRU, ARC and LHD, later
    /// policies, and offline ones, with delayed hits; and a survey of all traces. Counted, not
    /// timed; eight minutes of processor time with real traces.
    DelayedHits,
    /// Paper 4, figures 2, 5 and 7 to 13 (6 needs a prototype): GL-Cache beside LRU, LeCaR,
    /// CACHEUS, Hyperbolic, LHD, LRB and oracles. About a minute with real traces.
    GlCache,
    /// Paper 1, figures 3, 5, 7, 8, 10, 12 and 14: predicted throughput by hit ratio of LRU, FIFO,
    /// probabilistic LRU, CLOCK, SLRU and S3-FIFO with the paper's service times; and table 2 of
    /// all policies, from counted work. Under a minute.
    Queueing,
    /// Paper 1, figures 3, 5, 7, 10, 12 and 14, measured: throughput by hit ratio of LRU, SLRU,
    /// probabilistic LRU, FIFO, CLOCK and S3-FIFO with list operations as slow as the paper's,
    /// beside the prediction; and a bypass under load. About four minutes on two cores.
    Fall,
    /// The queueing model's predictions beside measured throughput: eight policies, six hit ratios,
    /// one and two threads, three backends. About nine minutes on two cores.
    Accuracy,
    /// The recommendations of `frazil advise` for each trace in a dozen settings, measured beside
    /// all alternatives and fixed rules. About twenty minutes with real traces.
    Advice,
    /// The sizes that `frazil advise` prints for each trace, as a table and on its curve. Half a
    /// minute with real traces.
    AdviceSizes,
    /// Paper 1, section 5.2: gain of a bypass and of skipped promotions for LRU when its lock is
    /// the bottleneck, predicted and measured. About three minutes.
    Mitigations,
    /// Paper 5, figures 14 and 15: LRU against LRU-MAD in a prototype, with a client, load
    /// balancer, cache shards, flow and network manager in threads, before origins with latencies
    /// of 68, 103 and 226 ms; beside the simulator's latencies. About three minutes.
    Prototype,
    /// Paper 3, figures 13 and 14, and paper 2, figure 17: RocksDB with Mobius, its LRU and
    /// HyperClockCache, by its own benchmarks, and YCSB with freezing. Runs programs of --programs.
    /// About ten minutes.
    Rocksdb,
}

/// The result of an experiment.
struct Report {
    /// One row for each measurement, with its question.
    measurements: Vec<Row>,
    expectations: Vec<Expectation>,
    /// File names and contents.
    figures: Vec<(String, String)>,
    /// For people: a table of the main results.
    summary: String,
}

/// A paper's result, and ours.
struct Expectation {
    figure: u32,
    expected: String,
    seen: String,
    met: bool,
}

impl Expectation {
    fn row(&self) -> Row {
        row! {
            "kind" => "expectation",
            "figure" => self.figure,
            "expected" => self.expected,
            "seen" => self.seen,
            "met" => self.met,
        }
    }

    fn line(&self) -> String {
        let met = if self.met { "yes" } else { "no" };
        format!("figure {}: expected: {}; seen: {}; {met}\n", self.figure, self.expected, self.seen)
    }
}

/// Refuses an option of another experiment.
fn check(args: &Args) -> Result<(), Failure> {
    if args.profile.is_some() && !matches!(args.name, Experiment::Accuracy | Experiment::Advice) {
        return Err(Failure::usage(anyhow!("--profile goes with accuracy and advice alone")));
    }
    if !args.workloads.is_empty()
        && !matches!(args.name, Experiment::Frozenhot | Experiment::Rocksdb)
    {
        return Err(Failure::usage(anyhow!("--workloads goes with frozenhot and rocksdb alone")));
    }
    if args.programs.is_some() && args.name != Experiment::Rocksdb {
        return Err(Failure::usage(anyhow!("--programs goes with rocksdb alone")));
    }
    let takes_traces = [
        Experiment::Advice,
        Experiment::AdviceSizes,
        Experiment::Frozenhot,
        Experiment::DelayedHits,
        Experiment::GlCache,
        Experiment::MobiusTraces,
        Experiment::Prototype,
    ];
    if args.traces.is_some() && !takes_traces.contains(&args.name) {
        return Err(Failure::usage(anyhow!(
            "--traces goes with advice, advice-sizes, frozenhot, delayed-hits, gl-cache, \
             mobius-traces and prototype alone"
        )));
    }
    Ok(())
}

/// Runs the verb. Prints only once all is measured and written.
pub(crate) fn run(args: &Args) -> Done {
    if let Some(plan) = &args.measure {
        return accuracy::measure(plan);
    }
    check(args)?;
    if let Some(us) = args.origin {
        return prototype::origin::serve(Duration::from_secs_f64(us / 1e6));
    }
    let name = match args.name {
        Experiment::Accuracy => "accuracy",
        Experiment::Advice => "advice",
        Experiment::AdviceSizes => "advice-sizes",
        Experiment::DelayedHits => "delayed-hits",
        Experiment::Fall => "fall",
        Experiment::FrozenShare => "frozen-share",
        Experiment::Frozenhot => "frozenhot",
        Experiment::GlCache => "gl-cache",
        Experiment::Mitigations => "mitigations",
        Experiment::Mobius => "mobius",
        Experiment::MobiusTraces => "mobius-traces",
        Experiment::Prototype => "prototype",
        Experiment::Queueing => "queueing",
        Experiment::Rocksdb => "rocksdb",
    };
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("reproduce-{name}")));
    // Before any measurement, so that a bad folder does not cost minutes.
    let failed = || format!("cannot make the folder {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(failed)?;
    let report = match args.name {
        Experiment::Accuracy => accuracy::run(args.quick, &folder, args.profile.as_deref())?,
        Experiment::Advice => {
            advice::run(args.quick, args.traces.as_deref(), args.profile.as_deref())?
        }
        Experiment::AdviceSizes => advice_sizes::run(args.quick, args.traces.as_deref())?,
        Experiment::DelayedHits => delayed_hits::run(args.quick, args.traces.as_deref())?,
        Experiment::Fall => fall::run(args.quick)?,
        Experiment::FrozenShare => frozen_share::run(args.quick)?,
        Experiment::Frozenhot => {
            frozenhot::run(args.quick, args.traces.as_deref(), &args.workloads)?
        }
        Experiment::GlCache => gl_cache::run(args.quick, args.traces.as_deref())?,
        Experiment::Mitigations => mitigations::run(args.quick, &folder)?,
        Experiment::Mobius => mobius::run(args.quick)?,
        Experiment::MobiusTraces => mobius_traces::run(args.quick, args.traces.as_deref())?,
        Experiment::Prototype => prototype::run(args.quick, args.traces.as_deref())?,
        Experiment::Queueing => queueing::run(args.quick)?,
        Experiment::Rocksdb => {
            rocksdb::run(args.quick, args.programs.as_deref(), &args.workloads, &folder)?
        }
    };
    write(&folder, &format!("{name}.json"), &data(&report))?;
    for (file, svg) in &report.figures {
        write(&folder, file, svg)?;
    }
    let rows = || {
        let expectations = report.expectations.iter().map(Expectation::row);
        report.measurements.iter().cloned().chain(expectations).collect::<Vec<_>>()
    };
    output::print(&match args.output {
        Output::Json => output::json(&rows()),
        Output::Csv => output::csv(&rows()),
        Output::Table => {
            let lines: String = report.expectations.iter().map(Expectation::line).collect();
            format!("{}\n{lines}", report.summary)
        }
    })
}

/// The report as one JSON document, a line for each row.
fn data(report: &Report) -> String {
    let array = |rows: Vec<Value>| {
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        format!("[\n{}\n]", lines.join(",\n"))
    };
    let measurements = report.measurements.iter().cloned().map(Value::Object).collect();
    let expectations = report.expectations.iter().map(|it| Value::Object(it.row())).collect();
    format!(
        "{{\"version\":{},\"cores\":{},\n\"measurements\":{},\n\"expectations\":{}}}\n",
        json!(env!("CARGO_PKG_VERSION")),
        frazil_driver::cores(),
        array(measurements),
        array(expectations),
    )
}

/// Calibrates, writes the profile beside the other data, and returns it with a line on its quality.
fn calibrated(
    policies: &[&str],
    capacities: &[u64],
    seconds: f64,
    (folder, file): (&Path, &str),
) -> Result<(Profile, Tally, String), Failure> {
    let names: Vec<String> = policies.iter().map(|&name| name.to_owned()).collect();
    let (profile, tally) = calibrate(&setups(&names)?, capacities, seconds)?;
    write(folder, file, &profile.to_toml().map_err(|error| anyhow!(error))?)?;
    let line = format!("{} of {} runs of the calibration disturbed\n", tally.disturbed, tally.runs);
    Ok((profile, tally, line))
}

fn write(folder: &Path, file: &str, content: &str) -> anyhow::Result<()> {
    let path = folder.join(file);
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}
