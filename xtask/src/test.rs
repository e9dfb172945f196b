//! `cargo xtask test`: every test of the workspace, documentation tests included.
//!
//! It builds everything that CI builds optimised for tests, with one set of features and one
//! profile, so that nothing is compiled twice; [`build`] and [`built`] serve other commands. Only
//! the cache is compiled again, without its features.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::programs::Programs;
use crate::{step, tools};

/// The folder of the real traces, for tests that replay them.
pub(crate) const TRACES: &str = "FRAZIL_TRACES";
/// Set to 1 for tests that can omit the big traces.
const QUICK: &str = "FRAZIL_QUICK";
/// Number of tests of a program that run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// Set to 1 for tests that can try more than CI has time for.
pub(crate) const LONG: &str = "FRAZIL_LONG";

/// The store of the server's tests: `segment` or `objects`.
const STORE: &str = "FRAZIL_TEST_STORE";
/// The server's tests that run with either store.
const SERVER: [&str; 10] = [
    "--test",
    "memcached",
    "--test",
    "resp",
    "--test",
    "ending",
    "--test",
    "memory",
    "--test",
    "limits",
];

/// The longest tests, which a quick run omits, by a part of their names.
const LONG_TESTS: [&str; 34] = [
    "advise::all_places",
    "advise::costs",
    "advise::memory",
    "advise::real_traces",
    "book::every_command",
    "calibrate::",
    "capacity::a_large_cache",
    "command::reproduce",
    "curves::",
    "delayed_hits::",
    "entry::additions",
    "expiry::the_system_clock",
    "expiry::values_are",
    "freezing::",
    "frozen::",
    "in_the_long_run",
    "intervals_cover",
    "limits::",
    "listener::a_listener_that_always",
    "locked::",
    "long_queue",
    "many::retain",
    "misses_exactly_as",
    "model::the_fall",
    "model::the_paper_s_figures",
    "order::where_chance",
    "overlay::",
    "recording::",
    "shared_writes::",
    "simulator::",
    "stuck::",
    "tasks::",
    "the_authors_trace",
    "with_one_tick",
];

/// The crates built for tests: all except rivals.
pub(crate) const FEATURES: &str = "frazil-cli/full,frazil/prometheus,frazil/tracing";
/// The same with rivals, for measurements of them.
const WITH_RIVALS: &str = "frazil-cli/full,frazil/prometheus,frazil/tracing,frazil-bench/rivals";

/// Tests of the cache without its features: built alone, because cargo would unify features with
/// other crates.
const FEATURELESS: &str = "frazil-featureless-tests";

/// The extent of the tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Quick,
    Usual,
    Long,
}

/// Runs all tests except those in documents, each program by `runner`.
pub(crate) fn run_by(root: &Path, runner: &Path) -> anyhow::Result<()> {
    let runner = format!("target.'cfg(all())'.runner = [{:?}]", runner.display().to_string());
    tests(root, "cargo test", &["--tests", "--config", &runner], Extent::Usual)?;
    Ok(())
}

/// Runs all tests, or those of `part`: arguments of `cargo test`, such as `--test cache stress::`.
pub(crate) fn run(root: &Path, extent: Extent, part: &[String]) -> anyhow::Result<()> {
    tools::ensure_c_compiler()?;
    let part: Vec<&str> = part.iter().map(String::as_str).collect();
    let mut skipped = 0;
    if part.is_empty() {
        skipped += tests(root, "cargo test", &["--tests"], extent)?;
        skipped += tests(root, "cargo test, the server's store of objects", &SERVER, extent)?;
        // Each crate's documentation examples are compiled and linked anew after any change.
        if extent == Extent::Quick {
            eprintln!("xtask: left out: examples in documents, the cache without its features");
        } else {
            let mut featureless = step::cargo(root, ["test", "--locked", "--package", FEATURELESS]);
            step::run("cargo test, the cache without its features", &mut featureless)?;
            skipped += tests(root, "cargo test, documentation", &["--doc"], extent)?;
        }
    } else {
        skipped += tests(root, "cargo test", &part, extent)?;
    }
    println!("xtask: {skipped} skipped");
    if skipped > 0 && std::env::var_os("CI").is_some() {
        bail!("{skipped} tests were skipped, and none may be in CI");
    }
    Ok(())
}

/// Runs tests. Returns the number of those that skipped something.
fn tests(root: &Path, name: &str, targets: &[&str], extent: Extent) -> anyhow::Result<u32> {
    // One run names all failures, because the next is many minutes away.
    let mut command = step::cargo(root, ["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.args(["--exclude", FEATURELESS, "--features", features()]).args(targets);
    // Variables set in the shell must not change the run.
    command.env_remove(QUICK).env_remove(LONG);
    match extent {
        Extent::Quick => {
            command.env(QUICK, "1");
            // Arguments of `cargo test` may end in arguments for the tests themselves.
            let separator = (!targets.contains(&"--")).then_some("--");
            command.args(separator).args(LONG_TESTS.iter().flat_map(|test| ["--skip", test]));
            eprintln!("xtask: left out: {}", LONG_TESTS.join(" "));
        }
        Extent::Usual => {}
        Extent::Long => _ = command.env(LONG, "1"),
    }
    // Some tests wait, for a fetch or a recording; others use the processor then.
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * cores).to_string());
    }
    // An absolute path, because cargo runs each test in the directory of its crate.
    if let Ok(traces) = wanted_traces(root).canonicalize() {
        command.env(TRACES, traces);
    }
    command.env(STORE, if targets == SERVER { "objects" } else { "segment" });
    step::announced(name, || {
        let mut child = command.stderr(Stdio::piped()).spawn().context("cargo")?;
        let told = child.stderr.take().context("standard error is piped")?;
        let mut skipped = 0;
        let mut programs = Programs::new(child.id());
        for line in BufReader::new(told).lines().map_while(Result::ok) {
            skipped += u32::from(line.starts_with("SKIPPED"));
            programs.heard(&line);
            eprintln!("{line}");
        }
        // Before waiting for cargo: afterwards its processor times are lost.
        programs.slowest().iter().for_each(|line| eprintln!("xtask: {line}"));
        step::succeeded(name, child.wait()?)?;
        Ok(skipped)
    })
}

/// Features of the build, including rivals if they will be needed, so that one build serves both.
fn features() -> &'static str {
    if std::env::var_os("CI").is_some() { WITH_RIVALS } else { FEATURES }
}

/// Examples that CI runs, and those that need rivals' features, which `lint` does not cover.
const EXAMPLES: [&str; 12] = [
    "soak",
    "rows_from_moka",
    "rows_from_quick_cache",
    "other_caches",
    "segment_speed",
    "segment_soak",
    "segment_hits",
    "waits",
    "http_waits",
    "hold_cost",
    "recording_cost",
    "without_membarrier",
];
const RIVALS_EXAMPLES: [&str; 4] = ["moka_rows", "quick_cache_rows", "byte_growth", "growth"];

/// Builds all programs, and examples that CI runs, with the tests' options. Examples are always
/// included: without any, the crates would be built again, without the features of development
/// dependencies.
pub(crate) fn build(root: &Path, rivals: bool) -> anyhow::Result<()> {
    let features = if rivals { WITH_RIVALS } else { features() };
    let rivals = if features == WITH_RIVALS { &RIVALS_EXAMPLES[..] } else { &[] };
    let mut command = step::cargo(root, ["build", "--workspace", "--profile", "test", "--locked"]);
    command.args(["--bins", "--features", features]);
    command.args(EXAMPLES.iter().chain(rivals).flat_map(|example| ["--example", example]));
    step::run("cargo build", &mut command)
}

/// A program or an example (`examples/soak`) that [`build`] has built.
pub(crate) fn built(root: &Path, name: &str) -> Command {
    let mut command = Command::new(built_path(root, name));
    command.current_dir(root);
    command
}

/// The path of a program or example that [`build`] has built.
pub(crate) fn built_path(root: &Path, name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    target.join("debug").join(name)
}

/// The expected folder of the real traces.
pub(crate) fn wanted_traces(root: &Path) -> PathBuf {
    std::env::var_os(TRACES).map_or_else(|| root.join("../shared/traces"), PathBuf::from)
}
