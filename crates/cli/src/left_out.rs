//! Verbs that a build without the feature `full` lacks. The build lists them, and prints how to get
//! them.

use anyhow::anyhow;
use clap::Subcommand;

use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum LeftOut {
    /// Not in this build: measure what operations of the cache cost on this machine
    Calibrate(Anything),
    /// Not in this build: drive the concurrent cache with threads
    Bench(Anything),
    /// Not in this build: repeat a paper's experiment
    Reproduce(Anything),
    /// Not in this build: serve memcached clients
    Serve(Anything),
    /// Not in this build: serve memcached clients, started by memcached's own flags
    Memcached(Anything),
}

/// Arguments that are not read.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Anything {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl LeftOut {
    /// Why the verb cannot run.
    pub(crate) fn refuse(self) -> Failure {
        let (verb, Anything { arguments: _ }) = match self {
            LeftOut::Calibrate(arguments) => ("calibrate", arguments),
            LeftOut::Bench(arguments) => ("bench", arguments),
            LeftOut::Reproduce(arguments) => ("reproduce", arguments),
            LeftOut::Serve(arguments) => ("serve", arguments),
            LeftOut::Memcached(arguments) => ("memcached", arguments),
        };
        Failure::usage(anyhow!(
            "this build does not include `{verb}`; `cargo build --release --features full` does"
        ))
    }
}
