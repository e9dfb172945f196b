//! One step of a command: it prints its name, runs it with its output on the terminal, times it,
//! and returns an error if it fails.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context as _, bail};

use crate::spent;

/// The cargo that started us, so that every step uses the same toolchain.
pub(crate) fn cargo<I>(root: &Path, args: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args);
    // `cargo run` tells a program its package. A build script that reads that (ring's) would run again whenever cargo is
    // started by hand and by this program in turn, and with it all crates that need its output.
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|it| name.to_string_lossy().starts_with(it))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Runs `command` to its end.
///
/// # Errors
///
/// The program can't be started, or its exit code is not 0.
pub(crate) fn run(name: &str, command: &mut Command) -> anyhow::Result<()> {
    announced(name, || {
        let status = command
            .status()
            .with_context(|| format!("{name}: cannot start {}", command.get_program().display()))?;
        succeeded(name, status)
    })
}

/// Prints the step, and its time if it succeeded.
///
/// # Errors
///
/// Errors of `work`.
pub(crate) fn announced<T>(
    name: &str,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    eprintln!("xtask: {name}");
    let begun = spent::begin();
    let done = work()?;
    eprintln!("xtask: {name}: {}", begun.spent());
    Ok(done)
}

/// # Errors
///
/// The program did not succeed.
pub(crate) fn succeeded(name: &str, status: ExitStatus) -> anyhow::Result<()> {
    if !status.success() {
        bail!("{name}: {status}");
    }
    Ok(())
}
