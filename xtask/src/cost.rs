//! `cargo xtask cost`: what building and checking cost a newcomer, in a fresh clone with empty
//! caches, beside what they may cost (docs/design/checks.md).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::{figures, test};

/// A change of this is built again.
const CHANGED: &str = "crates/policy/src/lru.rs";

/// Measures each step. With `ci` all of `.ci/run` too.
pub(crate) fn run(root: &Path, ci: bool) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    let clone = scratch.0.join("clone");
    let cloned = Command::new("git").arg("clone").arg("--quiet").arg(root).arg(&clone).status()?;
    ensure!(cloned.success(), "git clone: {cloned}");
    let traces = test::wanted_traces(root).canonicalize().context("no traces to test with")?;
    let seconds = |program: &str, arguments: &[&str]| -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&clone).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("CARGO_HOME", scratch.0.join("cargo")).env("FRAZIL_TRACES", &traces);
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO");
        let status = command.status().with_context(|| program.to_owned())?;
        ensure!(status.success(), "{program} {}: {status}", arguments.join(" "));
        Ok(started.elapsed().as_secs_f64())
    };
    println!("{}", figures::provenance()?);
    let say = |what: &str, took: f64, most: f64| {
        let verdict = if took <= most { "yes" } else { "NO" };
        println!("{what:52} {took:7.1} s   at most {most:5} s: {verdict}");
    };
    let first = seconds("cargo", &["run", "--release", "--", "advise"])?;
    say("first command to its answer, all caches empty", first, 120.0);
    say("the answer alone", seconds("target/release/frazil", &["advise"])?, 5.0);
    touch(&clone)?;
    say(
        "release build after a change of a policy",
        seconds("cargo", &["build", "--release"])?,
        25.0,
    );
    say("cargo xtask test, nothing built", seconds("cargo", &["xtask", "test"])?, 360.0);
    let quick = seconds("cargo", &["xtask", "test", "--quick"])?;
    say("cargo xtask test --quick, all built", quick, 60.0);
    if ci {
        std::fs::remove_dir_all(clone.join("target"))?;
        say(".ci/run, nothing built", seconds("bash", &[".ci/run"])?, 1_200.0);
    }
    Ok(())
}

/// Makes a policy's file as new as if it had been changed.
pub(crate) fn touch(root: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::options().append(true).open(root.join(CHANGED));
    file.context(CHANGED)?.set_modified(std::time::SystemTime::now()).context(CHANGED)
}

/// A folder that goes with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("frazil-cost-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the system's to remove.
        _ = std::fs::remove_dir_all(&self.0);
    }
}
