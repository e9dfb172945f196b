//! Clients' own published tests, on our server.
//!
//! Tests that fail are excepted by a part of their name or message, with the reason. Any other
//! failure is an error, and so is a number of passes below the minimum.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::fetch::Fetched;
use super::servers::{Server, Servers};
use super::{Language, Protocol};
use crate::tools;

/// The tests of one client.
struct Suite {
    name: &'static str,
    protocol: Protocol,
    language: Language,
    package: &'static str,
    command: fn(&Place<'_>) -> anyhow::Result<Command>,
    read: fn(&str) -> Tally,
    passed_min: usize,
    /// Reasons for failing tests, each with parts of the lines that name such tests.
    excepted: &'static [(&'static str, &'static [&'static str])],
}

/// The folder of the packages, and the port of the server.
struct Place<'p> {
    root: &'p Path,
    fetched: &'p Fetched,
    port: String,
}

const SUITES: [Suite; 7] = [
    Suite {
        name: "pymemcache",
        protocol: Protocol::Memcached,
        language: Language::Python,
        package: "pymemcache",
        command: pymemcache,
        read: pytest,
        passed_min: 94,
        excepted: &[("cache_memlimit is refused", &["test_misc["])],
    },
    Suite {
        name: "pylibmc",
        protocol: Protocol::Memcached,
        language: Language::Python,
        package: "pylibmc",
        command: pylibmc,
        read: pytest,
        passed_min: 24,
        excepted: &[
            ("they ask port 11211, whatever they are told", &["AutoConfTests"]),
            ("the binary protocol", &BINARY),
        ],
    },
    Suite {
        name: "gomemcache",
        protocol: Protocol::Memcached,
        language: Language::Go,
        package: "github.com/bradfitz/gomemcache",
        command: gomemcache,
        read: go,
        passed_min: 1,
        excepted: &[],
    },
    Suite {
        name: "Django, pymemcache",
        protocol: Protocol::Memcached,
        language: Language::Python,
        package: "Django",
        command: |place| django(place, "memcached.PyMemcacheCache", ""),
        read: unittest,
        passed_min: 198,
        excepted: &[],
    },
    Suite {
        name: "Django, pylibmc",
        protocol: Protocol::Memcached,
        language: Language::Python,
        package: "Django",
        command: |place| django(place, "memcached.PyLibMCCache", ""),
        read: unittest,
        passed_min: 198,
        excepted: &[],
    },
    Suite {
        name: "Django, redis-py",
        protocol: Protocol::Resp,
        language: Language::Python,
        package: "Django",
        command: |place| django(place, "redis.RedisCache", "redis://"),
        read: unittest,
        passed_min: 199,
        excepted: &[],
    },
    Suite {
        name: "redis-py",
        protocol: Protocol::Resp,
        language: Language::Python,
        package: "redis",
        command: redis_py,
        read: pytest,
        passed_min: 324,
        excepted: &REDIS_PY,
    },
];

/// Tests of pylibmc with `binary=True`.
const BINARY: [&str; 14] = [
    "::test_get_with_default",
    "::test_none_values",
    "::test_utf8_encoding",
    "::test_zerokey",
    "RefcountTests::test_delete",
    "RefcountTests::test_get_complex_type",
    "RefcountTests::test_get_multi",
    "RefcountTests::test_get_multi_bytes_and_unicode",
    "RefcountTests::test_get_simple",
    "RefcountTests::test_get_singleton",
    "RefcountTests::test_get_with_default",
    "RefcountTests::test_incr",
    "RefcountTests::test_prefixes",
    "RefcountTests::test_set_and_delete_multi",
];

const REDIS_PY: [(&str, &[&str]); 13] = [
    (
        "commands that are not there",
        &["unknown command '", "unknown subcommand", "DEBUG command not allowed"],
    ),
    (
        "they count commands",
        &[
            "::test_command -",
            "::test_command_count",
            "::test_command_list",
            "::test_command_getkeys",
        ],
    ),
    ("users are in a file", &["users are in the file of --users", "'requirepass'"]),
    (
        "settings are fixed",
        &["CONFIG SET failed", "::test_config_get_multi_params", "slowlog-log-slower-than"],
    ),
    ("there is one database", &["DB index is out of range"]),
    ("values have no more than 1 MiB", &["no more than 1 MiB"]),
    ("a lifetime above 34 years does not end", &["expiretime - AssertionError"]),
    ("times of access are not kept", &["the last access is not kept"]),
    ("nothing is saved", &["nothing is saved"]),
    ("they ask port 6379 or 6380, whatever they are told", &["localhost:63"]),
    (
        "a thread has 0.1 s, which is too short beside other programs",
        &["::test_interrupted_command"],
    ),
    ("they want a cluster", &["::test_mset_on_cluster"]),
    (
        "they ask for a fixture that is not there",
        &["TestCache::test_cache_clears", "TestCache::test_cache_lru"],
    ),
];

/// Runs the tests of clients whose name contains `wanted`, and returns the clients with failures.
///
/// # Errors
///
/// A source or program is missing.
pub(super) fn run(root: &Path, fetched: &Fetched, wanted: &str) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    let meant = |suite: &&Suite| suite.name.to_lowercase().contains(&wanted.to_lowercase());
    let suites: Vec<&Suite> = SUITES.iter().filter(meant).collect();
    if suites.is_empty() {
        return Ok(failed);
    }
    println!(
        "{:<20}{:<15}{:>8}{:>10}{:>9}",
        "own tests of", "version", "passed", "excepted", "skipped"
    );
    for suite in suites {
        let servers = Servers::start(root, Server::Segment, suite.protocol)?;
        let place = Place { root, fetched, port: servers.open_port() };
        let mut command = (suite.command)(&place)?;
        fetched.set_environment(&mut command);
        let output = command.output().with_context(|| format!("tests of {}", suite.name))?;
        let both = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&both);
        let tally = (suite.read)(&text);
        let version = fetched.shown_version(suite.language, suite.package)?;
        let wrongly = suite.report(&tally, &version);
        if !wrongly.is_empty() || tally.passed < suite.passed_min {
            eprintln!("{}", tail(&text));
            failed.push(format!(
                "{}'s own tests: {} pass, {} must; fail and should not: {wrongly:?}",
                suite.name, tally.passed, suite.passed_min
            ));
        }
    }
    Ok(failed)
}

impl Suite {
    /// Prints a row, and the reasons under it. Returns the failures without a reason.
    fn report(&self, tally: &Tally, version: &str) -> Vec<String> {
        let reason = |line: &String| {
            let is_in = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
            self.excepted.iter().find(|(_, parts)| is_in(parts)).map(|(why, _)| *why)
        };
        let wrongly: Vec<String> =
            tally.failed.iter().filter(|line| reason(line).is_none()).cloned().collect();
        let excepted = tally.failed.len() - wrongly.len();
        println!(
            "{:<20}{version:<15}{:>8}{excepted:>10}{:>9}",
            self.name, tally.passed, tally.skipped
        );
        for (why, _) in self.excepted {
            let count = tally.failed.iter().filter(|line| reason(line) == Some(*why)).count();
            if count > 0 {
                println!("{count:>6}: {why}");
            }
        }
        wrongly
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// pytest in a folder, without the project's own options, which need more packages.
fn pytest_in(place: &Place<'_>, folder: &Path) -> Command {
    let mut command = Command::new(place.fetched.python_program());
    command.current_dir(folder).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]);
    command.args(["-o", "addopts=", "-W", "ignore", "--timeout", "60"]);
    // pytest cuts the summary to the width of a terminal.
    command.env("COLUMNS", "300");
    command
}

fn pymemcache(place: &Place<'_>) -> anyhow::Result<Command> {
    let mut command = pytest_in(place, &place.fetched.python_source("pymemcache")?);
    command.arg("pymemcache/test/test_integration.py");
    command.args(["--server", "127.0.0.1", "--port", &place.port]);
    Ok(command)
}

fn pylibmc(place: &Place<'_>) -> anyhow::Result<Command> {
    let mut command = pytest_in(place, &place.fetched.python_source("pylibmc")?);
    command.arg("tests").env("MEMCACHED_HOST", "127.0.0.1").env("MEMCACHED_PORT", &place.port);
    Ok(command)
}

fn redis_py(place: &Place<'_>) -> anyhow::Result<Command> {
    let mut command = pytest_in(place, &place.fetched.python_source("redis")?);
    command.args(["tests/test_cache.py::TestCache", "tests/test_commands.py"]);
    command.args(["tests/test_pipeline.py", "tests/test_encoding.py"]);
    command.args(["tests/test_connection_pool.py", "tests/test_multiprocessing.py"]);
    for flag in ["--redis-url", "--redis-mod-url"] {
        command.arg(flag).arg(format!("redis://127.0.0.1:{}/0", place.port));
    }
    Ok(command)
}

/// The tests of a backend of Django's cache, and of its sessions in a cache.
fn django(place: &Place<'_>, backend: &str, scheme: &str) -> anyhow::Result<Command> {
    let source = place.fetched.python_source("Django")?;
    let tests = source.join("tests");
    let settings = format!(
        "from test_sqlite import *\nCACHES = {{'default': {{'BACKEND': \
         'django.core.cache.backends.{backend}', 'LOCATION': '{scheme}127.0.0.1:{}'}}}}\n",
        place.port
    );
    std::fs::write(tests.join("clients_settings.py"), settings).context("settings of Django")?;
    let class = backend.rsplit('.').next().unwrap_or_default();
    let mut command = Command::new(place.fetched.python_program());
    command.current_dir(tests).env("PYTHONPATH", source).arg("runtests.py");
    command.arg(format!("cache.tests.{class}Tests"));
    command.args([
        "sessions_tests.tests.CacheSessionTests",
        "sessions_tests.tests.CacheDBSessionTests",
    ]);
    command.args(["--settings=clients_settings", "--parallel", "1"]);
    Ok(command)
}

/// gomemcache's tests start a program named `memcached` themselves.
fn gomemcache(place: &Place<'_>) -> anyhow::Result<Command> {
    let folder = place.root.join("target/clients/bin");
    std::fs::create_dir_all(&folder)?;
    let frazil = place.root.join("target/release/frazil");
    let script = format!("#!/bin/sh\nexec '{}' memcached \"$@\"\n", frazil.display());
    tools::write_program(&folder.join("memcached"), &script)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path)))?;
    let mut command = Command::new("go");
    command.current_dir(place.fetched.go_place()).env("PATH", path);
    command.args(["test", "-vet=off", "-count=1", "-v", "-run", "^(TestUnixSocket|TestTLS)$"]);
    command.arg("github.com/bradfitz/gomemcache/memcache");
    Ok(command)
}

/// The results of tests.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    passed: usize,
    skipped: usize,
    /// A line for each failed test, with its name and perhaps its message.
    failed: Vec<String>,
}

/// Lines that begin with one of `marks`, without the mark.
fn lines_after(text: &str, marks: &[&str]) -> Vec<String> {
    let cut = |line: &str| marks.iter().find_map(|mark| line.strip_prefix(mark)).map(str::to_owned);
    text.lines().filter_map(cut).collect()
}

/// The number before `word`, in the last line that has one.
fn number_before(text: &str, word: &str) -> usize {
    let in_line = |line: &str| {
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|it| *it == word)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    text.lines().rev().find_map(in_line).unwrap_or(0)
}

fn pytest(text: &str) -> Tally {
    Tally {
        passed: number_before(text, "passed"),
        skipped: number_before(text, "skipped"),
        failed: lines_after(text, &["FAILED ", "ERROR "]),
    }
}

fn unittest(text: &str) -> Tally {
    let failed = lines_after(text, &["FAIL: ", "ERROR: "]);
    let after =
        |word| text.lines().rev().find_map(|line| line.split_once(word)).map(|(_, rest)| rest);
    let skipped = after("skipped=").and_then(|rest| rest.split([',', ')']).next()?.parse().ok());
    let skipped: usize = skipped.unwrap_or(0);
    let all = number_before(text, "tests").max(number_before(text, "test"));
    Tally { passed: all.saturating_sub(skipped + failed.len()), skipped, failed }
}

fn go(text: &str) -> Tally {
    let count = |mark| lines_after(text, &[mark]).len();
    let failed = lines_after(text, &["--- FAIL: "]);
    Tally { passed: count("--- PASS: "), skipped: count("--- SKIP: "), failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(passed: usize, skipped: usize, failed: &[&str]) -> Tally {
        Tally { passed, skipped, failed: failed.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[test]
    fn each_runner_s_summary_is_read() {
        let text = "F.s [100%]\nFAILED tests/a.py::test_x - redis.Error: unknown\nERROR tests/a.py::test_y\n\
            1 failed, 12 passed, 3 skipped, 9 warnings, 1 error in 2.85s\n";
        let failed = ["tests/a.py::test_x - redis.Error: unknown", "tests/a.py::test_y"];
        assert_eq!(pytest(text), tally(12, 3, &failed));
        let text = "ERROR: test_z (cache.tests.X)\nTraceback\nRan 70 tests in 1.2s\n\nFAILED (errors=1, skipped=2)\n";
        assert_eq!(unittest(text), tally(67, 2, &["test_z (cache.tests.X)"]));
        assert_eq!(
            unittest("Ran 70 tests in 1.2s\n\nOK (skipped=13, expected failures=1)\n"),
            tally(57, 13, &[])
        );
        assert_eq!(unittest("Ran 5 tests in 1.2s\n\nOK\n"), tally(5, 0, &[]));
        let text = "--- SKIP: TestTLS (0.00s)\n    --- PASS: TestX/sub (0.00s)\n--- PASS: TestX (3.04s)\nPASS\n";
        assert_eq!(go(text), tally(1, 1, &[]));
        assert_eq!(pytest("ImportError: no module\n"), Tally::default());
    }
}
