//! `cargo xtask soak`: caches of every policy under load, for seconds in CI and for half
//! an hour before a release. `crates/frazil/examples/soak/` says what it looks for.

use std::path::Path;

use crate::step;

pub(crate) fn run(root: &Path, seconds: u64) -> anyhow::Result<()> {
    let program = ["run", "--release", "--locked", "-p", "frazil", "--example", "soak", "--"];
    step::run("soak", step::cargo(root, program).arg(seconds.to_string()))
}
