//! `cargo xtask check book`: builds the book.
//!
//! A test of the command line (`crates/cli/tests/commands/book.rs`) checks its links and runs its
//! commands. This command runs mdBook on it.

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
    // mdBook only warns of some errors, such as a page that no chapter lists.
    let warned = told.lines().any(|line| line.trim_start().starts_with("WARN"));
    ensure!(output.status.success() && !warned, "mdbook build docs");
    let pages = std::fs::read_to_string(root.join("docs/SUMMARY.md"))?.matches(".md)").count();
    eprintln!("xtask: {pages} pages in target/book/index.html");
    Ok(())
}
