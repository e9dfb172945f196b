//! `cargo xtask check memcached`: runs memcached's own tests, unchanged, on `frazil memcached`.
//!
//! The tests come from Debian's source of memcached 1.6.18. Omitted are tests of features of
//! memcached alone: slabs, its LRU, external storage, proxy, TLS, UDP, the binary protocol,
//! restarts. Known failures are listed here with the reason, and must fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{others, step, tools};

/// The subjects of units that are not run, by a part of their names.
const LEFT_OUT: [&str; 14] = [
    "extstore",
    "proxy",
    "slabs",
    "ssl",
    "lru",
    "watcher",
    "udp",
    "binary",
    "restart",
    "chunked",
    "dyn-maxbytes",
    "conn-limits",
    "64bit",
    "daemonize",
];

/// Units that fail, and the reasons.
const FAIL: [(&str, &str); 3] = [
    ("flush-all.t", "expects that a flush without numbers for cas misses entries; ours does not"),
    ("issue_67.t", "expects ports for UDP"),
    ("stats-conns.t", "expects ports for UDP, and each connection's state"),
];

/// Runs the units.
///
/// # Errors
///
/// A unit fails or passes unexpectedly, or a program is missing.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let place = root.join("target/memcached");
    let source = others::debian_source(&place, "memcached")?;
    let mut build = step::cargo(root, ["build", "--release", "--locked"]);
    step::run("frazil", build.args(["--package", "frazil-cli", "--features", "full"]))?;
    let timedrun = source.join("timedrun");
    step::run(
        "timedrun",
        Command::new("cc").arg("-o").arg(&timedrun).arg(source.join("timedrun.c")),
    )?;
    let frazil = root.join("target/release/frazil");
    let script = format!("#!/bin/sh\nexec '{}' memcached \"$@\"\n", frazil.display());
    tools::write_program(&source.join("memcached-debug"), &script)?;
    let units = units(&source)?;
    let failed =
        step::announced(&format!("prove, {} units", units.len()), || prove(&source, &units))?;
    let expected: BTreeSet<String> = FAIL.iter().map(|(name, _)| format!("t/{name}")).collect();
    let wrongly: Vec<_> = failed.difference(&expected).cloned().collect();
    let passed: Vec<_> = expected.difference(&failed).cloned().collect();
    if !wrongly.is_empty() || !passed.is_empty() {
        bail!(
            "units that fail: {}; that pass and are said to fail: {}",
            wrongly.join(", "),
            passed.join(", ")
        );
    }
    for (name, why) in FAIL {
        eprintln!("xtask: {name} fails: {why}");
    }
    eprintln!("xtask: {} of {} units pass", units.len() - failed.len(), units.len());
    Ok(())
}

/// The units that are run, as paths from the source's folder.
fn units(source: &Path) -> anyhow::Result<Vec<String>> {
    let mut units = Vec::new();
    for entry in std::fs::read_dir(source.join("t")).context("memcached's units")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".t") && !LEFT_OUT.iter().any(|part| name.contains(part)) {
            units.push(format!("t/{name}"));
        }
    }
    units.sort();
    Ok(units)
}

/// Runs units, and returns the failures.
fn prove(source: &Path, units: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let prove: PathBuf = tools::ensure_program("prove", &["perl"])?;
    let mut command = Command::new(prove);
    command.current_dir(source).args(["-j", "4", "--quiet"]).args(units);
    let output = command.output().context("prove")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("Files=") {
        bail!("prove: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(failed(&text))
}

/// The failed files in prove's summary.
fn failed(summary: &str) -> BTreeSet<String> {
    let named = |line: &str| Some(line.split_once("(Wstat:")?.0.trim().to_owned());
    summary.lines().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_units_are_those_of_the_summary() {
        let text = "Test Summary Report\n-------\n\
            t/dash-M.t   (Wstat: 2560 (exited 10) Tests: 0 Failed: 0)\n  Non-zero exit status: 10\n\
            t/stats.t (Wstat: 0 Tests: 113 Failed: 1)\n  Failed test:  1\nFiles=2, Tests=113\n";
        assert_eq!(failed(text).into_iter().collect::<Vec<_>>(), ["t/dash-M.t", "t/stats.t"]);
        assert!(failed("All tests successful.\nFiles=2\n").is_empty());
    }
}
