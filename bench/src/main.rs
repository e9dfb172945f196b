//! Runs a benchmark that is defined in a file, and prints every figure beside
//! what it should be.
//!
//! Times wobble on shared machines, so the policies of a definition take turns,
//! medians are printed with their range, and the share of the processor that the
//! run got stands beside them; below 0.9 a figure says little. Instruction counts
//! do not wobble.

mod definition;
mod instructions;
mod measure;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;

use definition::Definition;

/// Run a benchmark definition.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run --release -p frazil-bench -- bench/simulator.toml
  cargo run --release -p frazil-bench -- bench/simulator.toml --smoke")]
struct Args {
    /// The definition.
    definition: PathBuf,

    /// A short run that only shows that all of it works.
    #[arg(long)]
    smoke: bool,

    /// Folder of the traces that the definition names.
    #[arg(long, env = "FRAZIL_TRACES", default_value = "../shared/traces")]
    traces: PathBuf,

    /// Replay one policy over one trace: what instructions are counted of.
    #[arg(long, hide = true, num_args = 3, value_names = ["POLICY", "CAPACITY", "LIMIT"])]
    once: Option<Vec<String>>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(once) = &args.once {
        return instructions::replay_once(&args.definition, once);
    }
    let text = std::fs::read_to_string(&args.definition)
        .with_context(|| args.definition.display().to_string())?;
    let definition: Definition =
        toml::from_str(&text).with_context(|| args.definition.display().to_string())?;
    let mut report = measure::run(&definition, &args.traces, args.smoke)?;
    report += &instructions::run(&definition, &args.traces)?;
    print!("{report}");
    Ok(())
}
