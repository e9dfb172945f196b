//! `cargo xtask check http`: the tests of HTTP caches of the npm package `http-cache-tests`, unchanged, on `frazil serve --http`.
//!
//! It has tests of required behaviour, of optimal behaviour, and questions without a right answer.
//! A number of each kind must pass. The output names failures.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::serving::{self, Serving};
use crate::{others, step, tools};

const VERSION: &str = "0.4.5";

/// Kinds of tests, and the least number of passes of each. A cache that serves nothing stale after
/// a failure cannot pass four of the required ones (`stale-close-`): they expect a response of the
/// origin after its connection was closed.
const PASSED_MIN: [(&str, usize); 2] = [("required", 150), ("optimal", 76)];

/// Prints the kind of each test, by its name.
const KINDS: &str = "import suites from './tests/index.mjs'; const kinds = {}; \
    for (const suite of suites) for (const test of suite.tests) \
    if (!test.browser_only) kinds[test.id] = test.kind || 'required'; \
    console.log(JSON.stringify(kinds))";

/// Runs the tests.
///
/// # Errors
///
/// Too few pass, or a program is missing.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let place = root.join("target/http-cache-tests");
    let tests = others::npm_package(&place, "http-cache-tests", VERSION)?;
    let mut build = step::cargo(root, ["build", "--release", "--locked"]);
    step::run("frazil", build.args(["--package", "frazil-cli", "--features", "full"]))?;
    let free = serving::free_addresses(2)?;
    let [origin, cache] = free[..] else { bail!("two addresses") };
    let node = tools::ensure_program("node", &["nodejs"])?;
    let mut command = Command::new(&node);
    command.current_dir(&tests).arg("server/server.mjs").stdout(Stdio::null());
    command.env("npm_config_protocol", "http").env("npm_config_port", origin.port().to_string());
    command.env("npm_config_pidfile", place.join("server.pid"));
    let _origin = Serving::start(&mut command, origin)?;
    let mut command = Command::new(root.join("target/release/frazil"));
    command.args(["serve", "--memory", "256MiB", "--threads", "2", "--http"]);
    command.arg(cache.to_string()).arg("--origin").arg(format!("http://{origin}"));
    let _cache = Serving::start(command.stderr(Stdio::null()), cache)?;
    let kinds = printed(&node, &tests, &["--input-type=module", "--eval", KINDS], cache)?;
    let cli = ["--no-warnings", "cli.mjs"];
    let results = step::announced("http-cache-tests", || printed(&node, &tests, &cli, cache))?;
    judge(&kinds, &results)
}

/// The output of a program of the package, as JSON.
fn printed(
    node: &PathBuf,
    tests: &Path,
    arguments: &[&str],
    cache: SocketAddr,
) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut command = Command::new(node);
    command.current_dir(tests).args(arguments);
    command.env("npm_config_base", format!("http://{cache}"));
    // All tests, not one by name.
    command.env_remove("npm_config_id").env("npm_package_config_id", "");
    let output = command.output().context("node")?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).with_context(|| {
        format!("{arguments:?} has printed {text}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Prints the failures, by kind.
fn judge(kinds: &BTreeMap<String, Value>, results: &BTreeMap<String, Value>) -> anyhow::Result<()> {
    let mut too_few = Vec::new();
    for (kind, passed_min) in PASSED_MIN {
        let of_kind: Vec<&String> =
            kinds.iter().filter(|(_, of)| *of == kind).map(|(name, _)| name).collect();
        let has_passed = |name: &&String| results.get(*name) == Some(&Value::Bool(true));
        let failed: Vec<&str> =
            of_kind.iter().filter(|name| !has_passed(name)).map(|name| name.as_str()).collect();
        let (all, passed) = (of_kind.len(), of_kind.len() - failed.len());
        eprintln!("xtask: {passed} of {all} {kind} tests pass, {passed_min} must; not: {failed:?}");
        if passed < passed_min {
            too_few
                .push(format!("{passed} {kind} tests pass of {passed_min} that must: {failed:?}"));
        }
    }
    if !too_few.is_empty() {
        bail!("{}", too_few.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_are_an_error_that_names_the_kind_and_the_tests() {
        let kinds = (0..150).map(|number| (format!("r{number}"), "required".into()));
        let kinds = kinds.chain((0..77).map(|number| (format!("o{number}"), "optimal".into())));
        let kinds: BTreeMap<String, Value> = kinds.collect();
        let all = kinds.keys().map(|name| (name.clone(), Value::Bool(true)));
        let mut results: BTreeMap<String, Value> = all.collect();
        assert!(judge(&kinds, &results).is_ok());
        results.insert("o3".into(), serde_json::json!(["Assertion", "it is not so"]));
        assert!(judge(&kinds, &results).is_ok());
        results.remove("r7");
        let told = judge(&kinds, &results).unwrap_err().to_string();
        assert_eq!(told, "149 required tests pass of 150 that must: [\"r7\"]");
    }
}
