//! The project's own commands: `cargo xtask test`, `lint`, `check`, `soak` and others.
//!
//! They are a program instead of a script, so that they need only the pinned toolchain and run the
//! same on a developer's machine and in CI.

mod asking;
mod block_cache;
mod book;
mod cache_bench;
mod check;
mod clients;
mod cost;
mod db_bench;
mod deb;
mod dependencies;
mod figures;
mod fuzz;
mod hit;
mod house;
mod http;
mod layers;
mod licences;
mod lint;
mod memcached;
mod mentions;
mod mutants;
mod nightly;
mod nutcracker;
mod others;
mod packages;
mod picture;
mod profiles;
mod programs;
mod publish;
mod python;
mod redis;
mod reference;
mod release;
mod report;
mod rocksdb;
mod rocksdb_stress;
mod server_bench;
mod server_soak;
mod serving;
mod sizes;
mod smoke;
mod soak;
mod spent;
mod step;
mod suites;
mod targets;
mod test;
mod tools;
mod wire;
mod ycsb;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Run every test of the workspace, documentation tests included
    #[command(after_help = "Examples:
  cargo xtask test --quick
  cargo xtask test --test cache stress::
  cargo xtask test --long --package frazil-policy --lib")]
    Test {
        /// Leave out the longest tests and the big traces: two minutes once all is built
        #[arg(long)]
        quick: bool,
        /// Try all policies and sizes, as before a release: a quarter of an hour and more
        #[arg(long, conflicts_with = "quick")]
        long: bool,
        /// Only these, as `cargo test` takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PART")]
        part: Vec<String>,
    },
    /// Check format, lints, documentation, the house's size limits and licences
    Lint,
    /// Run caches of every policy, segment stores and a server under mixed load, and check them
    Soak {
        /// Half an hour before a release
        #[arg(long, value_name = "N", required_unless_present = "seconds")]
        minutes: Option<u32>,
        /// Instead of minutes, or on top of them
        #[arg(long, value_name = "S")]
        seconds: Option<u32>,
        /// Only those stages whose name contains this: cache, segments, server
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Run the cache under a checker, look at the reports, or make the book
    Check {
        /// Which one
        checker: check::Checker,
        /// As before a release: more schedules, more preemptions
        #[arg(long)]
        long: bool,
        /// Requests of `wire`, to each pair of servers
        #[arg(long, value_name = "N", default_value_t = wire::RUNS)]
        runs: u64,
        /// Seed of the requests of `wire`
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        clients: clients::Options,
        #[command(flatten)]
        python: python::Options,
    },
    /// Measure again the figures in documents, write them there, and draw the picture of README.md
    Figures {
        /// Documents with blocks of figures
        #[arg(default_values = figures::DOCUMENTS)]
        documents: Vec<String>,
        /// Only those whose command contains this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Feed hostile input to everything that reads files or small languages
    Fuzz {
        /// For each target
        #[arg(long, value_name = "N", default_value_t = 5)]
        seconds: u32,
        /// Only this one
        #[arg(long, value_name = "NAME")]
        target: Option<String>,
    },
    /// Measure what building and checking cost, in a fresh clone with empty caches
    Cost {
        /// All of `.ci/run` too
        #[arg(long)]
        ci: bool,
    },
    /// Build and measure each way to optimise a release
    Profiles,
    /// Run every benchmark definition for a moment, and the programs that show a move from
    /// another cache: that they work, not how fast
    Smoke,
    /// Ask our cache for the behaviour that other caches test, and print what fails and why
    Suites {
        /// Only those whose rival, file or name contains this
        #[arg(default_value = "")]
        wanted: String,
    },
    /// Read the instructions of a hit through a pin: nothing locked, nothing shared written
    Hit {
        /// Instead of that, compare the sizes of a program with each feature of the cache left out
        #[arg(long)]
        features: bool,
    },
    /// Build our block cache as libraries, for the RocksDB that is installed
    #[command(after_help = "Examples:
  cargo xtask block-cache --headers /usr/include
  cargo xtask block-cache --headers rocksdb/include -- -fno-rtti -D_GLIBCXX_USE_CXX11_ABI=0

A program that was not made for it:
  LD_PRELOAD=target/block-cache/libfrazil_preload.so FRAZIL_BLOCK_CACHE=policy=s3-fifo PROGRAM")]
    BlockCache {
        /// The folder that has rocksdb/cache.h
        #[arg(long, value_name = "DIR")]
        headers: PathBuf,
        /// Where the libraries go
        #[arg(long, value_name = "DIR", default_value = "target/block-cache")]
        out: PathBuf,
        /// Flags that RocksDB was compiled with and that change its classes
        #[arg(last = true, value_name = "FLAG")]
        flags: Vec<String>,
    },
    /// Measure our block cache beside RocksDB's, by RocksDB's `cache_bench`: ten minutes
    CacheBench {
        /// How often each is measured, in turn: the median counts. With 0 it is built alone
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: usize,
        /// Only those whose name contains this
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Measure reads of a database through our block cache and RocksDB's, by RocksDB's `db_bench`:
    /// ten minutes, and the first time half an hour to build it
    #[command(after_help = "Examples:
  cargo xtask db-bench
  cargo xtask db-bench --rounds 1 --only cached")]
    DbBench {
        /// How often each is measured, in turn: the median counts. With 0 it is built alone
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: usize,
        /// Only those whose name contains this
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Measure YCSB's workloads A to F on RocksDB from Java, with our block cache and with
    /// RocksDB's: ten minutes
    #[command(after_help = "Examples:
  cargo xtask ycsb
  cargo xtask ycsb --rounds 1 --only CE")]
    Ycsb {
        /// How often each is measured, in turn: the median counts. With 0 all is built alone
        #[arg(long, value_name = "N", default_value_t = 3)]
        rounds: usize,
        /// Only these, by their letters
        #[arg(long, value_name = "LETTERS", default_value = "")]
        only: String,
    },
    /// Measure `frazil serve` beside memcached and Valkey: three minutes, and at least two cores
    #[command(after_help = "Examples:
  cargo xtask server-bench
  cargo xtask server-bench --rounds 1 --only trace")]
    ServerBench {
        /// How often each server is measured, in turn: the median counts
        #[arg(long, value_name = "N", default_value_t = 5)]
        rounds: usize,
        /// Only those parts whose name contains this: rivals, threads, trace, memory, clients, slow, restart
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,
    },
    /// Write docs/reference.md: every row of the reference results beside ours
    Reference,
    /// Apply each patch of xtask/mutants, a defect, and see that the checks of CI find it
    Mutants {
        /// Only this one, by the name of its file
        name: Option<String>,
    },
    /// Build the packages of a release, into target/packages: a static binary with its manual and
    /// completions, as an archive and as a Debian package
    Release,
    /// Run all checks at their full length, and all figures, as before a release: a day
    ReleaseCheck {
        /// Only these steps
        #[arg(long, value_name = "STEP,…", value_delimiter = ',')]
        only: Vec<String>,
    },
}

fn main() -> ExitCode {
    let command = Command::parse();
    let begun = spent::begin();
    let result = workspace_root().and_then(|root| match command {
        Command::Test { quick, long, part } => {
            let extent = match (quick, long) {
                (true, _) => test::Extent::Quick,
                (_, true) => test::Extent::Long,
                _ => test::Extent::Usual,
            };
            test::run(&root, extent, &part)
        }
        Command::Cost { ci } => cost::run(&root, ci),
        Command::Profiles => profiles::run(&root),
        Command::Smoke => smoke::run(&root),
        Command::Lint => lint::run(&root),
        Command::Soak { minutes, seconds, only } => {
            let minutes = u64::from(minutes.unwrap_or(0));
            soak::run(&root, minutes * 60 + u64::from(seconds.unwrap_or(0)), &only)
        }
        Command::Check { checker: check::Checker::Wire, runs, seed, .. } => {
            wire::run(&root, runs, seed)
        }
        Command::Check { checker: check::Checker::Clients, clients, .. } => {
            clients::run(&root, &clients)
        }
        Command::Check { clients, .. } if clients != clients::Options::default() => {
            Err(anyhow::anyhow!("--against and --client are for `clients`"))
        }
        Command::Check { checker: check::Checker::Python, long, python, .. } => {
            python::run(&root, &python, long)
        }
        Command::Check { python, .. } if python != python::Options::default() => {
            Err(anyhow::anyhow!("--interpreter and --asan are for `python`"))
        }
        Command::Check { checker, long, .. } => check::run(&root, checker, long),
        Command::Figures { documents, only } => {
            figures::run(&root, &documents, only.as_deref().unwrap_or_default())
        }
        Command::Fuzz { seconds, target } => fuzz::run(&root, seconds, target.as_deref()),
        Command::Suites { wanted } => suites::run(&root, &wanted),
        Command::Hit { features: false } => hit::run(&root),
        Command::Hit { features: true } => sizes::run(&root),
        Command::BlockCache { headers, out, flags } => {
            block_cache::run(&root, &headers, &out, &flags)
        }
        Command::CacheBench { rounds, only } => cache_bench::run(&root, rounds, &only),
        Command::DbBench { rounds, only } => db_bench::run(&root, rounds, &only),
        Command::Ycsb { rounds, only } => ycsb::run(&root, rounds, &only),
        Command::ServerBench { rounds, only } => server_bench::run(&root, rounds, &only),
        Command::Reference => reference::run(&root),
        Command::Mutants { name } => mutants::run(&root, name.as_deref()),
        Command::Release => packages::run(&root),
        Command::ReleaseCheck { only } => release::run(&root, &only),
    });
    let spent = begun.spent();
    match result {
        Ok(()) => {
            eprintln!("xtask: passed in {spent}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask: FAILED after {spent}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Asked of cargo at run time: a path fixed at compile time would go stale when
/// the checkout moves and its target directory is kept.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
    let mut root = PathBuf::from(manifest_dir);
    root.pop();
    Ok(root)
}
