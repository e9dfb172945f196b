//! Speeds: medians of interleaved runs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use frazil_simulator::trace::{self, ReadOptions, Trace};
use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep};

use crate::definition::{Definition, Workload};

/// Speeds, in M requests/s, or ratios.
#[derive(Default)]
struct Figures(Vec<f64>);

impl Figures {
    fn median(&mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    fn range(&self) -> String {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        format!("{least:.1}–{most:.1}")
    }
}

/// Measures every workload of the definition.
pub(crate) fn run(definition: &Definition, traces: &Path, smoke: bool) -> anyhow::Result<String> {
    let mut report = String::new();
    for workload in &definition.workload {
        let Some(spec) = workload.spec(traces) else { continue };
        let limit = smoke.then_some(definition.short);
        let options = ReadOptions { limit, sizes: false, ..ReadOptions::default() };
        let trace = trace::load(&spec.to_string_lossy(), &options)?.trace;
        let repetitions = if smoke { 1 } else { definition.repetitions };
        report += &policies(definition, workload, &trace, repetitions)?;
        report += &scaling(definition, workload, &trace, repetitions)?;
    }
    Ok(report)
}

fn cell(policy: &str, workload: &Workload, trace: &Trace) -> anyhow::Result<CellSpec> {
    let capacity: CapacitySpec = workload.capacity.parse()?;
    let capacity = capacity.resolve(trace, Unit::Objects)?;
    Ok(CellSpec { policy: policy.parse()?, capacity })
}

fn policies(
    definition: &Definition,
    workload: &Workload,
    trace: &Trace,
    repetitions: usize,
) -> anyhow::Result<String> {
    let mut speeds: Vec<Figures> = definition.policy.iter().map(|_| Figures::default()).collect();
    let mut share: f64 = 1.0;
    for _ in 0..repetitions {
        for (target, speeds) in definition.policy.iter().zip(&mut speeds) {
            let cell = cell(&target.name, workload, trace)?;
            let clock = Clock::start()?;
            let outcomes = sweep(trace, &[cell], &SweepOptions::default(), &|_| ());
            share = share.min(clock.share()?);
            speeds.0.push(outcomes[0].records_per_second() / 1e6);
        }
    }
    let mut report = format!(
        "{}, capacity {}: M requests/s of the replay loop, median of {repetitions} \
         (lowest share of a core {share:.2})\n",
        workload.name, workload.capacity
    );
    for (target, speeds) in definition.policy.iter().zip(&mut speeds) {
        let median = speeds.median();
        let verdict = match target.least {
            Some(least) if median >= least => format!("at least {least}: yes"),
            Some(least) => format!("at least {least}: NO"),
            None => String::new(),
        };
        writeln!(report, "  {:16} {median:7.1}  {:14} {verdict}", target.name, speeds.range())?;
    }
    Ok(report)
}

fn scaling(
    definition: &Definition,
    workload: &Workload,
    trace: &Trace,
    repetitions: usize,
) -> anyhow::Result<String> {
    let scaling = &definition.scaling;
    let cells = vec![cell(&scaling.policy, workload, trace)?; scaling.cells];
    let seconds = |threads| {
        let started = Instant::now();
        let options = SweepOptions { threads, ..SweepOptions::default() };
        sweep(trace, &cells, &options, &|_| ());
        started.elapsed().as_secs_f64()
    };
    let mut gains = Figures::default();
    for _ in 0..repetitions {
        gains.0.push(seconds(1) / seconds(2));
    }
    let gain = gains.median();
    let verdict = if gain >= scaling.least { "yes" } else { "NO" };
    Ok(format!(
        "  {} equal {} cells, two threads over one: {gain:.2} ({}), at least {}: {verdict}\n\n",
        scaling.cells,
        scaling.policy,
        gains.range(),
        scaling.least
    ))
}

/// Wall-clock and processor time from a start.
struct Clock {
    started: Instant,
    ticks: u64,
}

impl Clock {
    fn start() -> anyhow::Result<Self> {
        Ok(Clock { started: Instant::now(), ticks: processor_ns()? })
    }

    /// Processor time over wall-clock time.
    fn share(&self) -> anyhow::Result<f64> {
        let used = processor_ns()? - self.ticks;
        Ok(used as f64 / self.started.elapsed().as_nanos() as f64)
    }
}

/// Processor time of this thread.
fn processor_ns() -> anyhow::Result<u64> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).context(path)?;
    text.split_whitespace().next().context(path)?.parse().context(path)
}
