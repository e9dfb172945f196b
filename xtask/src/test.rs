//! `cargo xtask test`: every test of the workspace, documentation tests included.

use std::path::{Path, PathBuf};

use crate::{step, tools};

/// Where the real traces are, for a test that replays them.
const TRACES: &str = "FRAZIL_TRACES";
/// Set to 1 for tests that can leave out the big traces.
const QUICK: &str = "FRAZIL_QUICK";

/// Tests of the cache's features, in files that carry their names.
const FEATURES: [&str; 2] = ["prometheus", "events"];

pub(crate) fn run(root: &Path, quick: bool) -> anyhow::Result<()> {
    tools::ensure_c_compiler()?;
    // One run names all that fails, because the next is many minutes away.
    let mut command = step::cargo(root, ["test", "--workspace", "--locked", "--no-fail-fast"]);
    if quick {
        command.env(QUICK, "1");
    } else {
        // A variable left over in the shell must not turn the full run into a quick one.
        command.env_remove(QUICK);
    }
    let wanted = wanted_traces(root);
    match wanted.canonicalize() {
        // Made absolute, because cargo runs each test in the directory of its crate.
        Ok(traces) if traces.is_dir() => {
            command.env(TRACES, traces);
        }
        _ => eprintln!(
            "xtask: WARNING: no traces at {} (set {TRACES}): TESTS ON REAL TRACES ARE SKIPPED",
            wanted.display()
        ),
    }
    step::run("cargo test", &mut command)?;
    features(root)
}

/// The workspace is tested as users get it, without features; here are those of the cache.
fn features(root: &Path) -> anyhow::Result<()> {
    let cargo_test =
        || step::cargo(root, ["test", "--package", "frazil", "--all-features", "--locked"]);
    let tests = FEATURES.iter().flat_map(|name| ["--test", name]);
    step::run("cargo test, features", cargo_test().args(tests))?;
    step::run(
        "cargo test, documentation of features",
        cargo_test().args(["--doc", "--"]).args(FEATURES),
    )
}

/// Where the real traces should be.
pub(crate) fn wanted_traces(root: &Path) -> PathBuf {
    std::env::var_os(TRACES).map_or_else(|| root.join("../shared/traces"), PathBuf::from)
}
