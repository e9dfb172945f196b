//! Checkers that need a nightly compiler: Miri and the sanitizers.
//!
//! Miri interprets the code: it checks the borrowing rules and models weak memory, but is a
//! thousand times slower. ThreadSanitizer and AddressSanitizer check the machine code of the same
//! tests at full length. ThreadSanitizer supports neither fences nor `membarrier`, nor code that it
//! did not compile. So the standard library is built with it; otherwise it would miss that
//! library's locks.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::step;

/// Any installed nightly. A fixed date would make everyone download another one, and the checkers'
/// findings do not depend on it.
const NIGHTLY: &str = "nightly";
const COMPONENTS: [&str; 2] = ["miri", "rust-src"];

/// Sanitizers want a target by name, or they would watch build scripts too.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What AddressSanitizer wants of `rustc`.
const ADDRESS: &str = "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer";

/// Seeds that Miri tries for each test: schedules, and values that relaxed loads see.
const SEEDS: &str = "0..2";

/// parking_lot keeps pointers in numbers, and Miri would warn of it in every test.
const QUIET: &str = "-Zmiri-permissive-provenance";

/// Tests that replay traces, or measure time, gain nothing from a checker. The library's internal
/// tests damage caches and abandon them, which these checkers report as leaks.
const TESTS: [&str; 4] = ["stress::", "limits::", "nested::", "rivals::"];

/// Tests of freezing, which would take an interpreter an hour.
const FROZEN: [&str; 2] = ["frozen::", "freezing::"];

/// The longest single-threaded test, which can have no race.
const ALONE: &str = "a_pin_that_is_held";

/// Single-threaded tests with many refusals or retries: minutes each when interpreted, and covered
/// by other tests.
const TOO_LONG: [&str; 3] = ["a_pin_that_is", "a_hash_that_changes", "what_waits"];

/// A sanitizer that also supports C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    Address,
    Thread,
}

impl Sanitizer {
    /// The argument of `-fsanitize`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Sanitizer::Address => "address",
            Sanitizer::Thread => "thread",
        }
    }

    /// Its name in folders.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Sanitizer::Address => "asan",
            Sanitizer::Thread => "tsan",
        }
    }

    /// Arguments of cargo, beside the target.
    fn cargo(self, command: &mut Command) {
        match self {
            Sanitizer::Address => command.env("RUSTFLAGS", ADDRESS),
            Sanitizer::Thread => command.arg("-Zbuild-std").env("RUSTFLAGS", "-Zsanitizer=thread"),
        };
        command.args(["--target", TARGET, "--target-dir"]);
        command.arg(format!("target/{}", self.short()));
    }
}

/// A package as a library for C, compiled for a sanitizer.
pub(crate) fn library(root: &Path, sanitizer: Sanitizer, package: &str) -> anyhow::Result<PathBuf> {
    let mut command = cargo(root, "build")?;
    command.args(["--locked", "--lib", "--package", package]);
    sanitizer.cargo(&mut command);
    step::run(&format!("{package}, {} sanitizer", sanitizer.name()), &mut command)?;
    let file = format!("lib{}.a", package.replace('-', "_"));
    let folder = format!("target/{}/{TARGET}/debug", sanitizer.short());
    Ok(root.join(folder).join(file))
}

/// Has a program that starts cargo, such as maturin, compile for AddressSanitizer.
pub(crate) fn address_sanitized(program: &mut Command) -> anyhow::Result<()> {
    ensure_nightly()?;
    program.env_remove("CARGO").env_remove("LD_LIBRARY_PATH");
    program.env("RUSTUP_TOOLCHAIN", NIGHTLY).env("RUSTFLAGS", ADDRESS);
    Ok(())
}

pub(crate) fn miri(root: &Path) -> anyhow::Result<()> {
    let mut command = cargo(root, "miri")?;
    command.args(["test", "--target-dir", "target/miri"]);
    command.env("MIRIFLAGS", format!("-Zmiri-many-seeds={SEEDS} {QUIET}"));
    with_tests(&mut command).arg("frozen::");
    step::run("miri", command.args(TOO_LONG.iter().flat_map(|test| ["--skip", test])))?;
    let mut command = cargo(root, "miri")?;
    command.args(["test", "--target-dir", "target/miri", "--package", "frazil-segment"]);
    command.args(["--locked", "--lib", "--test", "store"]);
    // Threads read the system's clock.
    command.env("MIRIFLAGS", format!("-Zmiri-disable-isolation {QUIET}"));
    step::run("miri, segments", &mut command)
}

pub(crate) fn tsan(root: &Path) -> anyhow::Result<()> {
    let mut command = cargo(root, "test")?;
    Sanitizer::Thread.cargo(&mut command);
    with_tests(&mut command).args(FROZEN).args(["stuck::", "--skip", ALONE]);
    step::run("thread sanitizer", &mut command)?;
    let mut command = cargo(root, "test")?;
    Sanitizer::Thread.cargo(&mut command);
    command.args(["--package", "frazil-freezing", "--locked", "--test", "overlay"]);
    step::run("thread sanitizer, overlays", &mut command)?;
    let mut command = cargo(root, "test")?;
    Sanitizer::Thread.cargo(&mut command);
    command.args(["--package", "frazil-segment", "--locked", "--test", "store", "--"]);
    // The sanitizer does not support children of a process with threads.
    command.args(["threads::", "learned::", "--skip", "a_forked_process"]);
    step::run("thread sanitizer, segments", &mut command)
}

pub(crate) fn asan(root: &Path) -> anyhow::Result<()> {
    let mut command = cargo(root, "test")?;
    Sanitizer::Address.cargo(&mut command);
    step::run("address sanitizer", with_tests(&mut command).args(FROZEN).arg("stuck::"))
}

fn with_tests(command: &mut Command) -> &mut Command {
    command
        .args(["--package", "frazil-cache-tests", "--locked", "--test", "cache", "--"])
        .args(TESTS)
}

/// The nightly's cargo, not the cargo that started this program.
fn cargo(root: &Path, subcommand: &str) -> anyhow::Result<Command> {
    ensure_nightly()?;
    let mut command = Command::new("rustup");
    command.current_dir(root).args(["run", NIGHTLY, "cargo", subcommand]);
    // Values of the pinned toolchain, set by the cargo that started us.
    command.env_remove("CARGO").env_remove("LD_LIBRARY_PATH");
    // Without this it asks whether it may set itself up.
    command.env("CI", "1");
    Ok(command)
}

/// Installs a nightly, or its missing components.
fn ensure_nightly() -> anyhow::Result<()> {
    let installed = Command::new("rustup")
        .args(["component", "list", "--installed", "--toolchain", NIGHTLY])
        .output()
        .context("cannot start rustup, which has the nightly compiler")?;
    let installed = String::from_utf8_lossy(&installed.stdout);
    let has = |wanted: &&str| installed.lines().any(|line| line.starts_with(wanted));
    if COMPONENTS.iter().all(has) {
        return Ok(());
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("the sanitizers are set up for {TARGET} only");
    }
    // The newest nightly with all components: not every nightly has Miri.
    let install = ["toolchain", "install", NIGHTLY, "--profile", "minimal", "--no-self-update"];
    let components = COMPONENTS.iter().flat_map(|component| ["--component", component]);
    step::run("install a nightly", Command::new("rustup").args(install).args(components))
}
