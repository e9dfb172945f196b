//! `cargo xtask soak`: caches of every policy under load, for seconds in CI and for half
//! an hour before a release. `crates/frazil/examples/soak/` says what it looks for.

use std::path::Path;

use crate::{step, test};

pub(crate) fn run(root: &Path, seconds: u64) -> anyhow::Result<()> {
    test::build(root, false)?;
    step::run("soak", test::built(root, "examples/soak").arg(seconds.to_string()))
}
