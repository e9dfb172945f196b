//! `cargo xtask fuzz`: runs libFuzzer on every parser of files and of small languages.
//! (`fuzz/tests/hostile.rs` feeds them the corpora, and mutations of these, in tests.)
//!
//! It uses the pinned compiler without a sanitizer, because safe code hardly needs one. It still
//! finds crashes, overflows, failed assertions, hangs and memory beyond a bound.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::{step, tools};

/// Seconds that one input may take, and MiB that a target may use.
const TIMEOUT: u32 = 10;
const MEMORY: u32 = 1_024;

pub(crate) fn run(root: &Path, seconds: u32, only: Option<&str>) -> anyhow::Result<()> {
    tools::ensure_program("c++", &["g++"])?;
    tools::ensure_cargo_fuzz(root)?;
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/fuzz_targets"))? {
        let path = entry?.path();
        targets.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    targets.sort();
    targets.retain(|name| only.is_none_or(|only| only == name));
    if targets.is_empty() {
        bail!("no such target in fuzz/fuzz_targets");
    }
    step::run("build fuzz targets", &mut cargo_fuzz(root, &["build"]))?;
    for target in &targets {
        // New inputs go to the build folder. Useful ones are added to the corpus by hand, so
        // corpora stay small.
        let found = root.join("target/fuzz-corpus").join(target);
        std::fs::create_dir_all(&found)?;
        let mut fuzz = cargo_fuzz(root, &["run"]);
        fuzz.arg(target).arg(&found).arg(format!("fuzz/corpus/{target}")).arg("--").args([
            format!("-max_total_time={seconds}"),
            format!("-timeout={TIMEOUT}"),
            format!("-rss_limit_mb={MEMORY}"),
            "-max_len=16384".to_owned(),
            "-verbosity=0".to_owned(),
            "-print_final_stats=1".to_owned(),
        ]);
        step::run(&format!("fuzz {target} for {seconds} s"), &mut fuzz)?;
    }
    Ok(())
}

fn cargo_fuzz(root: &Path, verb: &[&str]) -> Command {
    let mut command = step::cargo(root, ["fuzz"]);
    command.args(verb).args(["--sanitizer", "none", "--target-dir", "target/fuzz"]);
    command.args(["--features", "libfuzzer"]);
    command
}
