//! The `frazil` command.
//!
//! Standard output carries results only, whole or not at all; notes, progress
//! and errors go to standard error. Exit code 0: done; 1: it failed (a file, a
//! trace); 2: bad usage.

mod advise;
mod belatedly;
mod bench;
mod calibrate;
mod date;
mod draw;
mod failure;
mod fetch_args;
mod forecast;
mod median;
mod model;
mod mrc;
mod output;
mod profile;
mod progress;
mod replay_args;
mod report;
mod reproduce;
mod sample;
mod simulate;
mod trace_args;
mod trace_command;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A cache engine that is judged by what its users get: replay a trace against
/// policies and sizes, and learn which to use and why.
#[derive(Parser)]
#[command(name = "frazil", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Examples:
  frazil advise
  frazil advise --trace requests.csv.zst
  frazil advise --trace requests.frazil       # recorded by a running cache
  frazil simulate --trace requests.csv.zst --policy lru,s3-fifo --capacity 1%,10%
  frazil mrc --trace requests.csv.zst --policy lru,sieve
  frazil model --network lru --mpl 72 --backend 100us
  frazil calibrate --output machine.toml
  frazil bench --policy mobius,s3-fifo --threads 1,2
  frazil reproduce mobius
  frazil trace info requests.csv.zst")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Simulate(simulate::Args),
    Mrc(mrc::Args),
    Model(model::Args),
    Calibrate(calibrate::Args),
    Advise(advise::Args),
    Bench(bench::Args),
    Reproduce(reproduce::Args),
    Trace(trace_command::Args),
}

fn main() {
    let done = match Cli::try_parse() {
        Ok(cli) => match cli.verb {
            Verb::Simulate(args) => simulate::run(&args),
            Verb::Mrc(args) => mrc::run(&args),
            Verb::Model(args) => model::run(&args),
            Verb::Calibrate(args) => calibrate::run(&args),
            Verb::Advise(args) => advise::run(&args),
            Verb::Bench(args) => bench::run(&args),
            Verb::Reproduce(args) => reproduce::run(&args),
            Verb::Trace(args) => trace_command::run(&args),
        },
        Err(error)
            if !error.use_stderr()
                || error.kind()
                    == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            error.exit()
        }
        Err(error) => Err(failure::from_clap(&error)),
    };
    if let Err(failure) = done {
        std::process::exit(failure.report());
    }
}

type Done = Result<(), Failure>;
