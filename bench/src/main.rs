//! Runs a benchmark defined in a file, and prints every figure beside its target.
//!
//! Times vary on shared machines. So the policies of a definition take turns. Medians are printed
//! with their range, and with the processor share of the run; below 0.9 a figure means little.
//! Instruction counts do not vary.

mod cache;
mod callgrind;
mod definition;
mod instructions;
mod measure;
#[cfg(feature = "rivals")]
mod rivals;

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Parser;
use serde::Deserialize;

use cache::CacheDefinition;
use definition::Definition;

/// A benchmark of either kind.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
enum Benchmark {
    /// The simulator's replay loop.
    Replay(Definition),
    /// The concurrent cache and its rivals.
    Cache(CacheDefinition),
}

/// Run a benchmark definition.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release -p frazil-bench -- bench/simulator.toml
  cargo run --release -p frazil-bench -- bench/simulator.toml --smoke
  cargo run --release -p frazil-bench -- bench/simulator.toml --policy s3-fifo --rounds 0
  cargo run --release -p frazil-bench --features rivals -- bench/cache.toml --cell zipf-10")]
struct Args {
    /// The definition.
    #[arg(required_unless_present = "child")]
    definition: Option<PathBuf>,

    /// A short run that only shows that all of it works.
    #[arg(long)]
    smoke: bool,

    /// Folder of the traces that the definition names.
    #[arg(long, env = "FRAZIL_TRACES", default_value = "../shared/traces")]
    traces: PathBuf,

    /// Of a replay: only these policies.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    policy: Vec<String>,

    /// Of a replay: requests of which instructions and misses are counted.
    #[arg(long, value_name = "N")]
    counted: Option<u64>,

    /// Of a comparison of caches: only these cells.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    cell: Vec<String>,

    /// Of a comparison of caches: only these numbers of threads.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    threads: Vec<usize>,

    /// Number of rounds; 0 measures only figures that need none, such as instructions
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Of a comparison of caches: every engine with the hasher that ours has.
    #[arg(long)]
    foldhash: bool,

    /// Measure what this JSON asks for: what a comparison of caches has children do.
    #[arg(long, hide = true, value_name = "REQUEST")]
    child: Option<String>,

    /// Replay one policy over one trace, to count its instructions
    #[arg(long, hide = true, num_args = 3, value_names = ["POLICY", "CAPACITY", "LIMIT"])]
    once: Option<Vec<String>>,
}

impl Args {
    fn replay(&self, mut definition: Definition) -> anyhow::Result<String> {
        let is_wanted = |name: &String| self.policy.is_empty() || self.policy.contains(name);
        definition.policy.retain(|target| is_wanted(&target.name));
        ensure!(!definition.policy.is_empty(), "the definition has none of these policies");
        definition.repetitions = self.rounds.unwrap_or(definition.repetitions);
        let report = match definition.repetitions {
            0 => String::new(),
            _ => measure::run(&definition, &self.traces, self.smoke)?,
        };
        // A smoke run counts one policy, because counting costs a hundred times as much as
        // replaying.
        let (counted, records) = match self.smoke {
            true => (&definition.policy[..1], definition.short),
            false => (&definition.policy[..], self.counted.unwrap_or(definition.counted)),
        };
        Ok(report + &instructions::run(&definition, counted, records, &self.traces)?)
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(request) = &args.child {
        return cache::run_child(request);
    }
    let file = args.definition.as_deref().context("no definition")?;
    if let Some(once) = &args.once {
        return instructions::replay_once(file, once);
    }
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let benchmark: Benchmark = toml::from_str(&text).with_context(|| file.display().to_string())?;
    let report = match benchmark {
        Benchmark::Replay(definition) => args.replay(definition)?,
        Benchmark::Cache(definition) => {
            let options = cache::Options {
                smoke: args.smoke,
                cells: args.cell,
                threads: args.threads,
                rounds: args.rounds,
                foldhash: args.foldhash,
            };
            cache::run(definition, &options)?
        }
    };
    print!("{report}");
    Ok(())
}
