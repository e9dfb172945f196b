//! Flags of the verbs that replay: unit of the capacity, threads, and form of the output.

use clap::Args;
use frazil_simulator::{SweepOptions, Unit};

use crate::output::Output;

/// How to replay, and how to print.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// Unit of capacities: objects or bytes.
    #[arg(long, default_value_t = Unit::Objects)]
    pub(crate) unit: Unit,

    /// Cells (policy × capacity) replayed at once [default: number of cores].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// How to print the results.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

impl ReplayArgs {
    /// Options of a sweep: these flags, and defaults for the rest.
    pub(crate) fn sweep_options(&self) -> SweepOptions {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        SweepOptions {
            unit: self.unit,
            threads: self.threads.map_or_else(cores, usize::from),
            ..SweepOptions::default()
        }
    }
}
