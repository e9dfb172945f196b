//! Caches compared: the same loop, the same streams, interleaved processes.
//!
//! Absolute speeds of a shared machine drift by half within minutes, so the engines of
//! a cell take turns, and a ratio is the median of the ratios of the rounds.

mod child;
mod definition;
mod engines;
mod report;

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use frazil_simulator::CapacitySpec;

pub(crate) use child::run as run_child;
use child::{Answer, Request, What};
pub(crate) use definition::CacheDefinition;
use definition::{CellLine, EngineLine};

/// A share of the processor below this says that the machine had other work.
const LEAST_SHARE: f64 = 0.9;
/// How often a disturbed measurement is made again.
const RETRIES: usize = 3;

/// How a definition is run.
pub(crate) struct Options {
    pub(crate) smoke: bool,
    /// Cells to run; all if none is named.
    pub(crate) cells: Vec<String>,
    /// Thread counts to run; all if none is given.
    pub(crate) threads: Vec<usize>,
    pub(crate) rounds: Option<usize>,
    /// Give the rivals the hasher that our cache has.
    pub(crate) foldhash: bool,
}

/// A cell and an engine by their names.
type Pair = (String, String);

/// All that was measured.
#[derive(Default)]
struct Results {
    /// By cell and engine, and threads: an answer a round.
    speed: HashMap<(Pair, usize), Vec<Answer>>,
    /// Hit ratio of one pass of one thread.
    pass: HashMap<Pair, f64>,
    bytes: HashMap<Pair, f64>,
    /// Measurements that stayed disturbed.
    disturbed: usize,
}

/// Measures what a definition says, and reports it.
pub(crate) fn run(definition: CacheDefinition, options: &Options) -> anyhow::Result<String> {
    let mut definition = if options.smoke { definition.smoke() } else { definition };
    definition.rounds = options.rounds.unwrap_or(definition.rounds).max(1);
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
    let mut results = Results::default();
    for cell in &definition.cell {
        measure(&definition, cell, options.foldhash, &mut results)?;
    }
    Ok(report::write(&definition, &results))
}

fn capacity(definition: &CacheDefinition, cell: &CellLine) -> anyhow::Result<u64> {
    let spec: CapacitySpec = cell.capacity.parse()?;
    spec.among(definition.keys).with_context(|| cell.name.clone())
}

fn measure(
    definition: &CacheDefinition,
    cell: &CellLine,
    foldhash: bool,
    results: &mut Results,
) -> anyhow::Result<()> {
    let engines = definition.engines(cell);
    let capacity = capacity(definition, cell)?;
    let request = |engine: &str, threads, what| Request {
        engine: engine.to_owned(),
        foldhash,
        workload: cell.workload.clone(),
        keys: definition.keys,
        capacity,
        threads,
        operations: definition.operations,
        what,
    };
    let pair = |engine: &EngineLine| (cell.name.clone(), engine.name.clone());
    for engine in &engines {
        let answer = request(&engine.name, 1, What::Memory).ask()?;
        if let Some(bytes) = answer.bytes_per_entry {
            results.bytes.insert(pair(engine), bytes);
        }
        if cell.pass {
            let answer = request(&engine.name, 1, What::Pass).ask()?;
            results.pass.insert(pair(engine), answer.hit_ratio);
        }
    }
    let cores = frazil_driver::cores();
    for round in 0..definition.rounds {
        eprintln!("{}: round {} of {}", cell.name, round + 1, definition.rounds);
        for &threads in &cell.threads {
            for engine in &engines {
                let request = request(&engine.name, threads, What::Speed(definition.seconds));
                let mut answer = request.ask()?;
                let disturbed = |answer: &Answer| {
                    threads <= cores
                        && !engine.sleeps
                        && answer.cpu_share.is_some_and(|share| share < LEAST_SHARE)
                };
                for _ in 0..RETRIES {
                    if !disturbed(&answer) {
                        break;
                    }
                    let again = request.ask()?;
                    if again.cpu_share > answer.cpu_share {
                        answer = again;
                    }
                }
                results.disturbed += usize::from(disturbed(&answer));
                results.speed.entry((pair(engine), threads)).or_default().push(answer);
            }
        }
    }
    Ok(())
}
