//! `cargo xtask soak`: loads caches of every policy, segment stores of every eviction and a server,
//! each for seconds in CI and for half an hour before a release. `crates/frazil/examples/soak/`,
//! `crates/segment/examples/segment_soak.rs` and `server_soak.rs` list their checks.

use std::path::Path;

use anyhow::bail;

use crate::{server_soak, step, test};

const STAGES: [&str; 3] = ["cache", "segments", "server"];

/// Runs the stages whose name contains `only`.
///
/// # Errors
///
/// A stage fails, or no name contains `only`.
pub(crate) fn run(root: &Path, seconds: u64, only: &str) -> anyhow::Result<()> {
    if !STAGES.iter().any(|stage| stage.contains(only)) {
        bail!("no stage is named `{only}`: {}", STAGES.join(", "));
    }
    test::build(root, false)?;
    for stage in STAGES.into_iter().filter(|stage| stage.contains(only)) {
        let name = format!("soak of the {stage}");
        match stage {
            "server" => step::announced(&name, || {
                server_soak::run(&test::built_path(root, "frazil"), seconds)
            })?,
            "cache" => {
                step::run(&name, test::built(root, "examples/soak").arg(seconds.to_string()))?;
            }
            _ => {
                let mut soak = test::built(root, "examples/segment_soak");
                step::run(&name, soak.arg(seconds.to_string()))?;
            }
        }
    }
    Ok(())
}
