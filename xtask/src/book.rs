//! `cargo xtask check book`: builds the book.
//!
//! A test of the command line (`crates/cli/tests/commands/book.rs`) checks its links and runs its
//! commands. This command has mdBook read it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::tools;

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    tools::ensure_mdbook(root)?;
    let output = Command::new("mdbook").args(["build", "docs"]).current_dir(root).output();
    let output = output.context("mdbook")?;
    let told = String::from_utf8_lossy(&output.stderr);
    eprint!("{told}");
    // It only warns of some errors and goes on, such as a page that is in no chapter's list.
    let warned = told.lines().any(|line| line.trim_start().starts_with("WARN"));
    ensure!(output.status.success() && !warned, "mdbook build docs");
    let pages = std::fs::read_to_string(root.join("docs/SUMMARY.md"))?.matches(".md)").count();
    eprintln!("xtask: {pages} pages in target/book/index.html");
    Ok(())
}
