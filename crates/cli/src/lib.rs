//! The `frazil` command, all of it: the binary calls [`main`], and a program that embeds the
//! command calls [`rows`].
//!
//! It is a library because Cargo compiles a binary only after all its dependencies, but a library
//! in parallel: a build after a change of a policy takes 21 s instead of 39 (2 cores, 2026-11-23).
//!
//! Standard output has only results, all or none. Notes, progress and errors go to standard error.
//! Exit codes: 0 for success, 1 for a failure (a file, a trace), 2 for bad usage.

mod advise;
mod belatedly;
#[cfg(feature = "full")]
mod bench;
#[cfg(feature = "full")]
mod calibrate;
mod completions;
mod date;
mod draw;
mod embedded;
mod failure;
mod fetch_args;
mod forecast;
#[cfg(not(feature = "full"))]
mod left_out;
mod lifetime_args;
#[cfg(all(feature = "full", unix))]
mod load;
mod manual;
#[cfg(feature = "full")]
mod median;
mod model;
mod mrc;
mod output;
mod outputs;
mod profile;
mod progress;
mod replay_args;
mod report;
#[cfg(feature = "full")]
mod reproduce;
mod sample;
#[cfg(all(feature = "full", unix))]
mod serve;
mod simulate;
mod trace_args;
mod trace_command;
mod trace_files;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};

pub use embedded::{InMemory, Problem, decode, rows};
use failure::Failure;
#[cfg(not(feature = "full"))]
use left_out::LeftOut;
pub use watch::Watch;

/// Choose the eviction policy and the size of a cache from a trace of requests, and measure caches.
#[derive(Parser)]
#[command(name = "frazil", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Examples:
  frazil advise
  frazil advise requests.csv.zst
  frazil advise requests.frazil       # recorded by a running cache
  frazil simulate requests.csv.zst --policy lru,s3-fifo --capacity 1%,10%
  frazil mrc requests.csv.zst --policy lru,sieve
  frazil model --network lru --mpl 72 --backend 100us
  frazil calibrate --output machine.toml
  frazil bench --policy mobius,s3-fifo --threads 1,2
  frazil reproduce mobius
  frazil serve --memcached 127.0.0.1:11211
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
    #[cfg(feature = "full")]
    Calibrate(calibrate::Args),
    // So many flags that the other variants would be small beside it.
    Advise(Box<advise::Args>),
    #[cfg(feature = "full")]
    Bench(bench::Args),
    #[cfg(feature = "full")]
    Reproduce(reproduce::Args),
    #[cfg(all(feature = "full", unix))]
    Serve(Box<serve::Args>),
    #[cfg(all(feature = "full", unix))]
    Memcached(serve::MemcachedArgs),
    Trace(trace_command::Args),
    Completions(completions::Args),
    Man(manual::Args),
    #[cfg(not(feature = "full"))]
    #[command(flatten)]
    LeftOut(LeftOut),
}

/// Runs the command that the process was given, and ends the process if that fails.
pub fn main() {
    #[cfg(not(all(feature = "full", unix)))]
    let arguments = std::env::args_os();
    #[cfg(all(feature = "full", unix))]
    let arguments = serve::arguments().unwrap_or_else(|error| {
        std::process::exit(Failure::usage(error).report());
    });
    let done = match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.verb {
            Verb::Simulate(args) => simulate::run(&args),
            Verb::Mrc(args) => mrc::run(&args),
            Verb::Model(args) => model::run(&args),
            #[cfg(feature = "full")]
            Verb::Calibrate(args) => calibrate::run(&args),
            Verb::Advise(args) => advise::run(&args),
            #[cfg(feature = "full")]
            Verb::Bench(args) => bench::run(&args),
            #[cfg(feature = "full")]
            Verb::Reproduce(args) => reproduce::run(&args),
            #[cfg(all(feature = "full", unix))]
            Verb::Serve(args) => serve::run(&args),
            #[cfg(all(feature = "full", unix))]
            Verb::Memcached(args) => serve::run_memcached(&args),
            Verb::Trace(args) => trace_command::run(&args),
            Verb::Completions(args) => completions::run(&args, Cli::command()),
            Verb::Man(args) => manual::run(&args, Cli::command()),
            #[cfg(not(feature = "full"))]
            Verb::LeftOut(verb) => Err(verb.refuse()),
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
