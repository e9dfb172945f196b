//! `cargo xtask check`: runs the cache under checkers, the reports in a browser, and mdBook on the
//! book.
//!
//! Each checker replaces something below the code: loom and shuttle the atomics, Miri the
//! processor, the sanitizers every memory access. So each builds everything anew, in its own
//! directory.

use std::path::Path;

use clap::ValueEnum;

use crate::{
    book, clients, http, memcached, nightly, nutcracker, publish, python, redis, report, rocksdb,
    rocksdb_stress, step, targets, test, wire,
};

/// The checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Checker {
    /// Every interleaving of the small protocols
    Loom,
    /// Chosen interleavings of the whole cache
    Shuttle,
    /// The rules of the language, interpreted
    Miri,
    /// Races, in the tests at full length: ThreadSanitizer
    Tsan,
    /// Memory used before or after its time: AddressSanitizer
    Asan,
    /// Every test, in a sandbox that forbids `membarrier`
    NoMembarrier,
    /// Whether what users depend on compiles for Windows, macOS and other processors
    Targets,
    /// Whether crates.io would take the crates that users depend on
    Publish,
    /// Reports in a browser without a screen
    Report,
    /// The book, made by mdBook
    Book,
    /// RocksDB's tests of its caches, on ours
    Rocksdb,
    /// The same under sanitizers, and RocksDB's `db_stress`: it builds RocksDB twice, an hour on
    /// two cores
    RocksdbStress,
    /// memcached's own units on `frazil memcached`
    Memcached,
    /// Units of Redis about strings, keys and the protocol, on `frazil serve`
    Redis,
    /// The tests of HTTP caches of the npm package `http-cache-tests`, on `frazil serve --http`
    Http,
    /// The same requests to frazil and to memcached or Valkey: replies that differ (`--runs`, `--seed`)
    Wire,
    /// Clients of memcached and Redis in five languages, unchanged, on `frazil serve`
    Clients,
    /// Three processes of `frazil serve` behind nutcracker, one of which is lost, and three as a Redis Cluster
    Nutcracker,
    /// The package for Python with each interpreter found: wheels, tests, lints, types
    Python,
    /// All of them except RocksDB under sanitizers, those on the server, and Python's
    All,
}

/// The number of preemptions of a model's threads. Most races need at most two; three take too long
/// for a commit.
const PREEMPTIONS_MAX: &str = "2";
const LONG_PREEMPTIONS_MAX: &str = "3";

/// Runs a checker, for the time that CI has, or `long`, for a release.
pub(crate) fn run(root: &Path, checker: Checker, long: bool) -> anyhow::Result<()> {
    match checker {
        Checker::Loom => loom(root, long),
        Checker::Shuttle => shuttle(root, long),
        Checker::Miri => nightly::miri(root),
        Checker::Tsan => nightly::tsan(root),
        Checker::Asan => nightly::asan(root),
        Checker::NoMembarrier => no_membarrier(root),
        Checker::Targets => targets::run(root),
        Checker::Publish => publish::run(root),
        Checker::Report => report::run(root),
        Checker::Book => book::run(root),
        Checker::Rocksdb => rocksdb::run(root, long),
        Checker::Memcached => memcached::run(root),
        Checker::Redis => redis::run(root),
        Checker::Http => http::run(root),
        Checker::Wire => wire::run(root, if long { wire::LONG_RUNS } else { wire::RUNS }, 1),
        Checker::Clients => clients::run(root, &clients::Options::default()),
        Checker::Nutcracker => nutcracker::run(root),
        Checker::Python => python::run(root, &python::Options::default(), long),
        Checker::RocksdbStress => rocksdb_stress::run(root, long),
        Checker::All => {
            loom(root, long)?;
            shuttle(root, long)?;
            nightly::miri(root)?;
            nightly::tsan(root)?;
            nightly::asan(root)?;
            no_membarrier(root)?;
            targets::run(root)?;
            publish::run(root)?;
            report::run(root)?;
            book::run(root)?;
            rocksdb::run(root, long)
        }
    }
}

fn loom(root: &Path, long: bool) -> anyhow::Result<()> {
    step::run(
        "loom",
        step::cargo(root, ["test", "--package", "frazil", "--package", "frazil-freezing"])
            .args(["--package", "frazil-segment", "--package", "frazil-server"])
            .args(["--locked", "--lib", "--target-dir", "target/loom", "--", "models::"])
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", if long { LONG_PREEMPTIONS_MAX } else { PREEMPTIONS_MAX }),
    )
}

fn no_membarrier(root: &Path) -> anyhow::Result<()> {
    test::build(root, false)?;
    test::run_by(root, &test::built_path(root, "examples/without_membarrier"))
}

fn shuttle(root: &Path, long: bool) -> anyhow::Result<()> {
    let mut command = step::cargo(root, ["test", "--package", "frazil", "--locked"]);
    command
        .args(["--package", "frazil-segment"])
        .args(["--test", "interleavings", "--target-dir", "target/shuttle", "--"])
        // Thread numbers are global to the process: only one schedule at a time can be replayed.
        .args(["--test-threads", "1"])
        .env("RUSTFLAGS", "--cfg shuttle")
        .env_remove(test::LONG);
    if long {
        command.env(test::LONG, "1");
    }
    step::run("shuttle", &mut command)
}
