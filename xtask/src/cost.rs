//! `cargo xtask cost`: measures the time that a newcomer's first build and checks take, in a fresh
//! clone with empty caches, and compares it with limits (docs/design/checks.md).
//!
//! The limits hold on an idle machine of two cores. It prints processor time beside wall-clock
//! time; on a busy machine only the former is meaningful, and the limits do not apply.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::spent::{self, Spent};
use crate::{figures, test};

/// The file whose change is built again.
const CHANGED: &str = "crates/policy/src/lru.rs";

/// Measures each step. With `ci` all of `.ci/run` too.
pub(crate) fn run(root: &Path, ci: bool) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    let clone = Clone { folder: scratch.0.join("clone"), cargo: scratch.0.join("cargo") };
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "clone", "--quiet"]).arg(root).arg(&clone.folder);
    let cloned = git.status().context("git")?;
    ensure!(cloned.success(), "git clone: {cloned}");
    let traces = test::wanted_traces(root).canonicalize().context("no traces to test with")?;
    println!("{}", figures::provenance()?);
    let mut failed = Vec::new();
    let mut measure = |what: &'static str, most: f64, program: &str, arguments: &[&str]| {
        let begun = spent::begin();
        let done = clone.command(program, &traces).args(arguments).status();
        let spent = begun.spent();
        let done = done.with_context(|| program.to_owned())?;
        println!("{what:48} {} of {most:.0} s: {}", times(&spent), verdict(&spent, most));
        // The next step is measured nevertheless: this took hours.
        if !done.success() {
            println!("{what}: {done}");
            failed.push(what);
        }
        anyhow::Ok(())
    };
    let advise = ["run", "--release", "--", "advise"];
    measure("first command to its answer, all caches empty", 120.0, "cargo", &advise)?;
    measure("the answer alone", 5.0, "target/release/frazil", &["advise"])?;
    touch(&clone.folder)?;
    let build = ["build", "--release"];
    measure("release build after a change of a policy", 25.0, "cargo", &build)?;
    measure("cargo xtask test, nothing built", 360.0, "cargo", &["xtask", "test"])?;
    let quick = ["xtask", "test", "--quick"];
    measure("cargo xtask test --quick, all built", 60.0, "cargo", &quick)?;
    if ci {
        std::fs::remove_dir_all(clone.folder.join("target"))?;
        measure(".ci/run, nothing built", 1_200.0, "bash", &[".ci/run"])?;
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

/// Seconds by the clock, and of the processor.
fn times(spent: &Spent) -> String {
    let processor = spent.processor.map_or("–".to_owned(), |processor| format!("{processor:.1}"));
    format!("{:7.1} s, of the processor {processor:>7} s", spent.wall)
}

fn verdict(spent: &Spent, most: f64) -> String {
    match (spent.wall <= most, spent.others) {
        (true, _) => "yes".to_owned(),
        (false, Some(others)) if spent.is_disturbed() => {
            format!("not judged, others had {others:.1} s of the processor")
        }
        (false, _) => "NO".to_owned(),
    }
}

/// Updates the time of a policy's file, as if it had been changed.
pub(crate) fn touch(root: &Path) -> anyhow::Result<()> {
    let file = std::fs::File::options().append(true).open(root.join(CHANGED));
    file.context(CHANGED)?.set_modified(std::time::SystemTime::now()).context(CHANGED)
}

/// A clone of the committed tree, with an empty home of cargo.
struct Clone {
    folder: PathBuf,
    cargo: PathBuf,
}

impl Clone {
    /// A program that runs in the clone, with nothing built or fetched before.
    fn command(&self, program: &str, traces: &Path) -> Command {
        let mut command = Command::new(match program.strip_prefix("target/") {
            Some(built) => self.folder.join("target").join(built),
            None => PathBuf::from(program),
        });
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.env("CARGO_HOME", &self.cargo).env("FRAZIL_TRACES", traces);
        // With the environment of a new contributor, not of this shell; or with CI's.
        for name in ["CARGO", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CI"] {
            command.env_remove(name);
        }
        if program == "bash" {
            command.env("CI", "1");
        }
        command
    }
}

/// A folder that is removed on drop.
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
        // Files that cannot be removed are left to the system.
        _ = std::fs::remove_dir_all(&self.0);
    }
}
