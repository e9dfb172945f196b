//! Comparison of caches: the same loop and streams, in interleaved processes.
//!
//! Absolute speeds on a shared machine drift by half within minutes. So the engines of a cell take
//! turns, and a ratio is the median of the ratios of the rounds.

mod child;
mod definition;
mod engines;
mod report;

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, bail};
use frazil_driver::Distance;
use frazil_simulator::CapacitySpec;

pub(crate) use child::run as run_child;
use child::{Answer, Request, What};
pub(crate) use definition::CacheDefinition;
use definition::{CellLine, EngineLine};

/// A processor share below this means that the machine had other work.
const LEAST_SHARE: f64 = 0.9;
/// Most repetitions of a disturbed measurement.
const REPEATS: usize = 2;
/// Most repetitions in all: on a machine that is never quiet they would triple the time.
const REPEATS_ALL: usize = 60;

/// Options of a run.
pub(crate) struct Options {
    pub(crate) smoke: bool,
    /// Cells to run; all if none is named.
    pub(crate) cells: Vec<String>,
    /// Thread counts to run; all if none is given.
    pub(crate) threads: Vec<usize>,
    pub(crate) rounds: Option<usize>,
    /// Whether the rivals get our cache's hasher.
    pub(crate) foldhash: bool,
}

/// A cell and an engine by their names.
type Pair = (String, String);

/// All measurements.
#[derive(Default)]
struct Results {
    /// By cell and engine, and threads: an answer for each round.
    speed: HashMap<(Pair, usize), Vec<Answer>>,
    /// Hit ratio of one pass of one thread.
    pass: HashMap<Pair, f64>,
    bytes: HashMap<Pair, f64>,
    /// Instructions an operation.
    instructions: HashMap<Pair, f64>,
    /// The required distance of cores with several threads.
    distance: Option<Distance>,
    /// Repeated measurements, and their limit.
    repeated: usize,
    repeats_max: usize,
    /// Measurements that stayed disturbed.
    disturbed: usize,
    /// Measurements repeated because cores had moved.
    moved: usize,
}

/// Runs the measurements of a definition, and reports them.
pub(crate) fn run(definition: CacheDefinition, options: &Options) -> anyhow::Result<String> {
    definition.check()?;
    let mut definition = if options.smoke { definition.smoke() } else { definition };
    definition.rounds = options.rounds.unwrap_or(definition.rounds);
    for name in &options.cells {
        if !definition.cell.iter().any(|cell| cell.name == *name) {
            let names: Vec<&str> = definition.cell.iter().map(|cell| cell.name.as_str()).collect();
            bail!("no cell `{name}`; there are {}", names.join(", "));
        }
    }
    for engine in &definition.engine {
        if !engines::is_built_in(&engine.name) {
            eprintln!("SKIPPED: {} is not built in (--features rivals)", engine.name);
        }
    }
    definition.cell.retain(|cell| options.cells.is_empty() || options.cells.contains(&cell.name));
    for cell in &mut definition.cell {
        let wanted =
            |threads: &usize| options.threads.is_empty() || options.threads.contains(threads);
        cell.threads.retain(wanted);
    }
    let mut results = Results { repeats_max: REPEATS_ALL, ..Results::default() };
    if options.smoke {
        // The check must pass at any distance of cores, and with other work on them.
        results.distance = Some(Distance::of(None));
        results.repeats_max = 0;
    }
    for cell in &definition.cell {
        let capacity = cell.capacity.parse::<CapacitySpec>()?.among(definition.keys);
        let mut capacity = capacity.with_context(|| cell.name.clone())?;
        if options.smoke {
            // A capacity above the number of keys only takes time to map memory.
            capacity = capacity.min(definition.keys * 11 / 10);
        }
        let run = CellRun { definition: &definition, cell, capacity, foldhash: options.foldhash };
        run.measure_once(&mut results)?;
        run.measure_rounds(&mut results)?;
    }
    Ok(report::write(&definition, &results))
}

/// A cell during its measurement.
struct CellRun<'a> {
    definition: &'a CacheDefinition,
    cell: &'a CellLine,
    capacity: u64,
    foldhash: bool,
}

impl CellRun<'_> {
    fn request(&self, engine: &EngineLine, threads: usize, what: What) -> Request {
        Request {
            engine: engine.name.clone(),
            foldhash: self.foldhash,
            workload: self.cell.workload.clone(),
            keys: self.definition.keys,
            capacity: self.capacity,
            preload: self.cell.preload,
            threads,
            operations: self.definition.operations,
            what,
        }
    }

    fn pair(&self, engine: &EngineLine) -> Pair {
        (self.cell.name.clone(), engine.name.clone())
    }

    /// Figures without noise: memory, hits of one pass, instructions.
    fn measure_once(&self, results: &mut Results) -> anyhow::Result<()> {
        for engine in self.definition.engines(self.cell) {
            if !engine.unbounded {
                let answer = self.request(engine, 1, What::Memory).ask()?;
                results.bytes.extend(answer.bytes_per_entry.map(|it| (self.pair(engine), it)));
            }
            let pass = self.request(engine, 1, What::Pass);
            if self.cell.pass {
                results.pass.insert(self.pair(engine), pass.ask()?.hit_ratio);
            }
            if self.cell.instructions {
                let counted = pass.count_instructions()?;
                results.instructions.extend(counted.map(|it| (self.pair(engine), it)));
            }
        }
        Ok(())
    }

    /// Speeds: every engine with every number of threads, in rounds.
    fn measure_rounds(&self, results: &mut Results) -> anyhow::Result<()> {
        let rounds = self.definition.rounds;
        for round in 0..rounds {
            eprintln!("{}: round {} of {rounds}", self.cell.name, round + 1);
            for &threads in &self.cell.threads {
                for engine in self.definition.engines(self.cell) {
                    if engine.rounds.is_none_or(|rounds| round < rounds) {
                        let answer = self.measure_speed(engine, threads, results)?;
                        let place = (self.pair(engine), threads);
                        results.speed.entry(place).or_default().push(answer);
                    }
                }
            }
        }
        Ok(())
    }

    /// One speed; repeated if the machine had other work.
    fn measure_speed(
        &self,
        engine: &EngineLine,
        threads: usize,
        results: &mut Results,
    ) -> anyhow::Result<Answer> {
        let request = self.request(engine, threads, What::Speed(self.definition.seconds));
        let disturbed = |answer: &Answer| {
            threads <= frazil_driver::cores()
                && !engine.sleeps
                && answer.cpu_share.is_some_and(|share| share < LEAST_SHARE)
        };
        let mut answer = self.ask_at_distance(&request, results)?;
        for _ in 0..REPEATS {
            if !disturbed(&answer) || results.repeated == results.repeats_max {
                break;
            }
            results.repeated += 1;
            let again = self.ask_at_distance(&request, results)?;
            if again.cpu_share > answer.cpu_share {
                answer = again;
            }
        }
        results.disturbed += usize::from(disturbed(&answer));
        Ok(answer)
    }

    /// Asks a child. With several threads it waits until cores are at the required distance, and
    /// repeats if they have not stayed there.
    fn ask_at_distance(&self, request: &Request, results: &mut Results) -> anyhow::Result<Answer> {
        if request.threads == 1 {
            return request.ask();
        }
        let distance = results.distance.get_or_insert_with(Distance::least);
        loop {
            distance.wait();
            let began = Instant::now();
            let answer = request.ask()?;
            if distance.is_kept() || !distance.has_patience() {
                return Ok(answer);
            }
            distance.spend(began.elapsed());
            results.moved += 1;
        }
    }
}
