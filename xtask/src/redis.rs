//! `cargo xtask check redis`: units of Redis, unchanged, on `frazil serve --resp`.
//!
//! The units come from Debian's source of redis 7.0.15, and cover strings, keys and the protocol.
//! Tests that need features beyond a cache of strings are listed here, with the reason. No other
//! may fail, and a minimum must pass.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::serving::Serving;
use crate::{others, step, tools};

const UNITS: [&str; 9] = [
    "type/string",
    "type/incr",
    "expire",
    "keyspace",
    "protocol",
    "quit",
    "scan",
    "multi",
    "info-command",
];

/// Tags of tests that are not run: a log, replicas and files, which the server does not have; and
/// slow tests.
const TAGS: &str = "-needs:debug -needs:repl -needs:save -slow -large-memory";

/// Least number of passes. A Redis without its other types passes 204.
const PASSED_MIN: usize = 227;

/// Reasons for failures, and the tests.
const FAIL: [(&str, &[&str]); 3] = [
    ("values have no more than 1 MiB", &["Very big payload in GET/SET"]),
    ("there are no scripts", &SCRIPTS),
    ("there are no lists, sets, hashes, sorted sets and streams", &OTHER_TYPES),
];

const SCRIPTS: [&str; 4] = [
    "MULTI and script timeout",
    "EXEC and script timeout",
    "MULTI-EXEC body and script timeout",
    "just EXEC and script timeout",
];

const OTHER_TYPES: [&str; 37] = [
    "MGET against non-string key",
    "SETBIT against key with wrong type",
    "SETRANGE against key with wrong type",
    "Extended SET GET with incorrect type should result in wrong type error",
    "INCR fails against a key holding a list",
    "INCRBYFLOAT fails against a key holding a list",
    "EXPIRE - write on expire should work",
    "COPY basic usage for list",
    "COPY basic usage for intset set",
    "COPY basic usage for hashtable set",
    "COPY basic usage for listpack sorted set",
    "COPY basic usage for skiplist sorted set",
    "COPY basic usage for listpack hash",
    "COPY basic usage for hashtable hash",
    "COPY basic usage for stream",
    "COPY basic usage for stream-cgroups",
    "raw protocol response",
    "raw protocol response - deferred",
    "raw protocol response - multiline",
    "Regression for a crash with blocking ops and pipelining",
    "SSCAN with encoding intset",
    "SSCAN with encoding hashtable",
    "HSCAN with encoding listpack",
    "HSCAN with encoding hashtable",
    "ZSCAN with encoding listpack",
    "ZSCAN with encoding skiplist",
    "SSCAN with integer encoded object (issue #1345)",
    "SSCAN with PATTERN",
    "HSCAN with PATTERN",
    "ZSCAN with PATTERN",
    "ZSCAN scores: regression test for issue #2175",
    "SCAN regression test for issue #4906",
    "MULTI / EXEC basics",
    "DISCARD",
    "MULTI where commands alter argc/argv",
    "EXEC fail on WATCHed key modified by SORT with STORE even if the result is empty",
    "Blocking commands ignores the timeout",
];

/// Runs the units.
///
/// # Errors
///
/// A test fails unexpectedly, too few pass, or a program is missing.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let source = others::debian_source(&root.join("target/redis"), "redis")?;
    tools::ensure_program("tclsh", &["tcl"])?;
    let mut build = step::cargo(root, ["build", "--release", "--locked"]);
    step::run("frazil", build.args(["--package", "frazil-cli", "--features", "full"]))?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new(root.join("target/release/frazil"));
    command.args(["serve", "--memory", "256MiB", "--threads", "2", "--resp"]);
    command.arg(address.to_string()).stderr(Stdio::null());
    let _server = Serving::start(&mut command, address)?;
    let report = step::announced("runtest", || run_units(&source, address))?;
    let passed = named(&report, "[ok]: ");
    let failed = named(&report, "[err]: ");
    let known: BTreeSet<&str> = FAIL.iter().flat_map(|(_, names)| *names).copied().collect();
    let wrongly: Vec<&str> = failed.iter().filter(|name| !known.contains(*name)).copied().collect();
    for (why, names) in FAIL {
        let count = names.iter().filter(|name| failed.contains(*name)).count();
        eprintln!("xtask: {count} tests fail: {why}");
    }
    let count = passed.len();
    eprintln!("xtask: {count} tests pass, {PASSED_MIN} must");
    if !wrongly.is_empty() || count < PASSED_MIN {
        bail!("{count} tests pass of {PASSED_MIN} that must; fail and should not: {wrongly:?}");
    }
    Ok(())
}

/// The output of the units, without colours.
fn run_units(source: &Path, address: SocketAddr) -> anyhow::Result<String> {
    let mut command = Command::new("./runtest");
    command.current_dir(source).args(["--host", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--singledb", "--durable"]);
    command.args(["--ignore-encoding", "--ignore-digest", "--tags", TAGS]);
    for unit in UNITS {
        command.args(["--single", &format!("unit/{unit}")]);
    }
    let output = command.output().context("runtest")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !text.contains(&format!("Testing unit/{}", UNITS[UNITS.len() - 1])) {
        bail!("runtest did not come to its end:\n{text}");
    }
    Ok(without_colours(&text))
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain
}

/// Tests in a report with this mark. The time of the test, or the file, follows its name.
fn named<'r>(report: &'r str, mark: &str) -> BTreeSet<&'r str> {
    let name = |line: &'r str| {
        let line = line.strip_prefix(mark)?;
        let end = line.rfind(" (").into_iter().chain(line.rfind(" in tests/")).max();
        Some(&line[..end.unwrap_or(line.len())])
    };
    report.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_as_in_the_report() {
        let report = without_colours(
            "\x1b[1;32;49m[ok]\x1b[0m: EXPIRE (with NX) (0 ms)\n[err]: SCAN in tests in \
             tests/unit/scan.tcl\nERR unknown\n",
        );
        assert_eq!(named(&report, "[ok]: ").into_iter().collect::<Vec<_>>(), ["EXPIRE (with NX)"]);
        assert_eq!(named(&report, "[err]: ").into_iter().collect::<Vec<_>>(), ["SCAN in tests"]);
    }
}
