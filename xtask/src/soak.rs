//! `cargo xtask soak`: loads caches of every policy and segment stores of every eviction, each for
//! seconds in CI and for half an hour before a release. `crates/frazil/examples/soak/` and
//! `crates/segment/examples/segment_soak.rs` name what they check.

use std::path::Path;

use crate::{step, test};

pub(crate) fn run(root: &Path, seconds: u64) -> anyhow::Result<()> {
    test::build(root, false)?;
    step::run("soak", test::built(root, "examples/soak").arg(seconds.to_string()))?;
    let mut segments = test::built(root, "examples/segment_soak");
    step::run("soak of the segment store", segments.arg(seconds.to_string()))
}
