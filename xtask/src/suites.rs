//! `cargo xtask suites`: runs the tests of other caches' behaviour on ours.

use std::path::Path;

use crate::step;

/// Builds `bench/suites` with the tests' options, and runs the tests whose rival, file or name
/// contains `wanted`. The output names each failure and its cause.
pub(crate) fn run(root: &Path, wanted: &str) -> anyhow::Result<()> {
    let mut cargo = step::cargo(root, ["run", "--quiet", "--locked", "--profile", "test"]);
    cargo.args(["--package", "frazil-suites", "--example", "suites", "--", wanted]);
    step::run("the tests of other caches", &mut cargo)
}
