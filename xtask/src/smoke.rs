//! `cargo xtask smoke`: runs every benchmark definition, the overlays on other caches and the
//! segment store for a moment; and the programs of the page on moving, each beside its counterpart
//! with another cache.

use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::{step, test};

/// Definitions in `bench`.
const DEFINITIONS: [&str; 5] = ["simulator", "cache", "locked", "frozen", "frozen-learned"];
/// Caches whose replacement docs/moving.md shows.
const MOVES: [&str; 2] = ["moka", "quick_cache"];

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    test::build(root, true)?;
    for definition in DEFINITIONS {
        let file = format!("bench/{definition}.toml");
        let mut bench = test::built(root, "frazil-bench");
        step::run(&format!("smoke run of {file}"), bench.args([&file, "--smoke"]))?;
    }
    let mut others = test::built(root, "examples/other_caches");
    step::run("smoke run of overlays on other caches", others.args(["hits", "--quick"]))?;
    let mut segments = test::built(root, "examples/segment_speed");
    step::run("smoke run of the segment store", segments.arg("0.05"))?;
    for rival in MOVES {
        let prints = |example: String| {
            let output = test::built(root, &format!("examples/{example}")).output();
            let output = output.with_context(|| example.clone())?;
            ensure!(output.status.success(), "{example}: {}", output.status);
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (theirs, ours) =
            (prints(format!("{rival}_rows"))?, prints(format!("rows_from_{rival}"))?);
        ensure!(theirs == ours, "with {rival}:\n{theirs}\nwith ours:\n{ours}");
    }
    Ok(())
}
