//! `cargo xtask mutants`: applies known defects, and checks that CI finds each.
//!
//! Each file of `xtask/mutants` is a patch that breaks one promise. Its first lines name the
//! promise and the command of CI that must find the defect. With the patch that command must fail
//! in a test, not in the build. So a shortened check must still find the same defects.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::{step, test};

/// A patch, and its expected result.
struct Mutant {
    name: String,
    patch: PathBuf,
    /// A command of `.ci/run`, or a part of one.
    found_by: String,
}

/// Applies each patch, or the one named `only`, to a copy of the committed tree, and runs the
/// command that should find it.
pub(crate) fn run(root: &Path, only: Option<&str>) -> anyhow::Result<()> {
    let mut mutants = read(root)?;
    mutants.retain(|mutant| only.is_none_or(|only| only == mutant.name));
    ensure!(!mutants.is_empty(), "no such patch in xtask/mutants");
    let tree = root.join("target/mutants");
    copy_tree(root, &tree)?;
    let mut survived = Vec::new();
    for mutant in &mutants {
        git(&tree, &["apply"], Some(&mutant.patch))?;
        let found = is_found(root, &tree, mutant);
        git(&tree, &["checkout", "--quiet", "--", "."], None)?;
        let found = found.with_context(|| mutant.name.clone())?;
        let verdict = if found { "found" } else { "NOT FOUND" };
        println!("{:24} {verdict} by cargo xtask {}", mutant.name, mutant.found_by);
        if !found {
            survived.push(mutant.name.as_str());
        }
    }
    if !survived.is_empty() {
        bail!("not found: {}", survived.join(", "));
    }
    println!("{} of {} found", mutants.len(), mutants.len());
    Ok(())
}

/// Whether every patch still fits the tree: part of `cargo xtask lint`.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let mutants = read(root)?;
    for mutant in &mutants {
        git(root, &["apply", "--check"], Some(&mutant.patch))?;
    }
    eprintln!("xtask: {} patches of xtask/mutants apply: ok", mutants.len());
    Ok(())
}

fn read(root: &Path) -> anyhow::Result<Vec<Mutant>> {
    let folder = root.join("xtask/mutants");
    let mut mutants = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let patch = entry?.path();
        let text = std::fs::read_to_string(&patch).with_context(|| patch.display().to_string())?;
        let found_by = text.lines().find_map(|line| line.strip_prefix("Found by: cargo xtask "));
        let found_by = found_by.with_context(|| format!("{}: no `Found by:`", patch.display()))?;
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        mutants.push(Mutant { name, found_by: found_by.to_owned(), patch });
    }
    mutants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(mutants)
}

/// Copies the committed tree, to be built apart from the working tree.
pub(crate) fn copy_tree(root: &Path, tree: &Path) -> anyhow::Result<()> {
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output()?;
    let head = String::from_utf8(head.stdout)?.trim().to_owned();
    if !tree.join(".git").exists() {
        let (from, to) = (root.display().to_string(), tree.display().to_string());
        git(root, &["clone", "--quiet", "--shared", "--no-checkout", &from, &to], None)?;
    }
    git(tree, &["fetch", "--quiet", "origin", "HEAD"], None)?;
    git(tree, &["checkout", "--quiet", "--force", "--detach", &head], None)
}

/// Runs the command that should find the defect. An error if the tree does not build.
fn is_found(root: &Path, tree: &Path, mutant: &Mutant) -> anyhow::Result<bool> {
    let traces = test::wanted_traces(root).canonicalize().context("no traces to test with")?;
    let mut command = step::cargo(tree, ["xtask"]);
    command.args(mutant.found_by.split_whitespace());
    command.env_remove("CARGO_TARGET_DIR").env("FRAZIL_TRACES", traces).stdin(Stdio::null());
    eprintln!("xtask: {}: cargo xtask {}", mutant.name, mutant.found_by);
    let output = command.output().context("cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(!told.contains("could not compile"), "the tree does not build:\n{told}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let failed = printed.lines().filter(|line| line.ends_with("... FAILED"));
    failed.chain(told.lines().last()).for_each(|line| eprintln!("xtask:   {line}"));
    Ok(!output.status.success())
}

fn git(folder: &Path, arguments: &[&str], patch: Option<&Path>) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "safe.directory=*"]).args(arguments).args(patch);
    let output = command.output().context("cannot start git")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), told.trim_end());
    Ok(())
}
