//! `cargo xtask figures`: measures the figures of the documents again.
//!
//! A document holds the output of a command between two comments:
//!
//! ```text
//! <!-- figures: frazil simulate --trace TRACES/some.csv.zst … -->
//! …
//! <!-- end figures -->
//! ```
//!
//! The command, `frazil`, `frazil-bench`, `xtask` or an example of the simulator, the policies, the
//! overlay on other caches, the segment store or the benchmarks, is run with a release build. Its
//! output is put in between, with the date and the machine, so that no table is written by hand.
//! `python3.11` and the like run with a wheel of the package and its rivals installed, and print
//! Markdown. `TRACES` stands for the folder of the real traces; a word that begins with `DOCS/` is
//! a path below `docs`. With `| from A to B` at the end of the command only the lines from the
//! first that begins with A to the next with B are shown.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{picture, python, step, test};

/// Documents with blocks of figures.
pub(crate) const DOCUMENTS: [&str; 5] =
    ["README.md", "docs/speed.md", "docs/cache-speed.md", "docs/locked-speed.md", "docs/python.md"];

/// Prefix of the names of programs that print Markdown.
const PYTHON: &str = "python";

const BEGIN: &str = "<!-- figures: ";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- end figures -->";

/// Measures the figures whose command contains `only`, then draws the picture from the current
/// tables.
pub(crate) fn run(root: &Path, documents: &[String], only: &str) -> anyhow::Result<()> {
    let build = ["build", "--release", "--locked", "-p"];
    let mut texts = Vec::new();
    for document in documents {
        let path = root.join(document);
        let text = std::fs::read_to_string(&path).with_context(|| document.clone())?;
        texts.push((document, path, text));
    }
    let programs: BTreeSet<String> =
        texts.iter().flat_map(|(_, _, text)| programs(text, only)).map(str::to_owned).collect();
    // Separate builds, so that no feature that the rivals need gets into the command.
    if programs.contains("frazil") {
        let cli = ["frazil-cli", "--features", "full"];
        step::run("build frazil", step::cargo(root, build).args(cli))?;
    }
    if programs.contains("frazil-bench") {
        let bench = ["frazil-bench", "--features", "rivals"];
        step::run("build frazil-bench", step::cargo(root, build).args(bench))?;
    }
    let examples: Vec<_> =
        programs.iter().filter_map(|program| program.strip_prefix("examples/")).collect();
    if !examples.is_empty() {
        let packages = [
            "frazil-simulator",
            "frazil-policy",
            "frazil-freezing",
            "frazil-segment",
            "frazil-bench",
        ];
        let packages = packages.into_iter().flat_map(|package| ["-p", package]);
        let mut command = step::cargo(root, ["build", "--release", "--locked"]);
        command.args(packages).args(examples.iter().flat_map(|example| ["--example", example]));
        step::run("build examples", &mut command)?;
    }
    for (document, path, text) in texts {
        let measured = renew(root, &text, only).with_context(|| document.clone())?;
        std::fs::write(&path, measured).with_context(|| document.clone())?;
    }
    picture::run(root)
}

/// The programs of all blocks whose command contains `only`.
fn programs<'a>(text: &'a str, only: &'a str) -> impl Iterator<Item = &'a str> {
    let commands = text.split(BEGIN).skip(1).filter_map(|rest| rest.split(BEGIN_END).next());
    let wanted = commands.filter(move |command| command.contains(only));
    wanted.filter_map(|command| command.split_whitespace().next())
}

/// The document with new figures in every block whose command contains `only`.
fn renew(root: &Path, text: &str, only: &str) -> anyhow::Result<String> {
    let mut renewed = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find(BEGIN) {
        let command = &rest[begin + BEGIN.len()..];
        let Some(length) = command.find(BEGIN_END) else {
            bail!("`{BEGIN}` without `{BEGIN_END}`");
        };
        let Some(end) = command.find(END) else {
            bail!("`{BEGIN}{}` without `{END}`", &command[..length]);
        };
        let text_length = begin + BEGIN.len() + end + END.len();
        if !command[..length].contains(only) {
            renewed += &rest[..text_length];
            rest = &rest[text_length..];
            continue;
        }
        let output = measure(root, &command[..length])?;
        renewed += &rest[..begin + BEGIN.len() + length + BEGIN_END.len()];
        renewed += &match command.starts_with(PYTHON) {
            true => format!("\n{}\n\n{}\n{END}", output.trim_end(), provenance()?),
            false => format!("\n```text\n{}\n```\n{}\n{END}", output.trim_end(), provenance()?),
        };
        rest = &rest[text_length..];
    }
    Ok(renewed + rest)
}

fn measure(root: &Path, command: &str) -> anyhow::Result<String> {
    let (command, part) = command.split_once(" | from ").unwrap_or((command, ""));
    let mut words = command.split_whitespace();
    let traces = test::wanted_traces(root).canonicalize().context("no traces to measure on")?;
    // Paths of traces are relative to their folder, those of the benchmark's definition to the
    // root.
    let (program, folder) = match words.next() {
        Some("frazil") => ("frazil", traces.as_path()),
        Some("frazil-bench") => ("frazil-bench", root),
        Some("xtask") => ("xtask", root),
        Some(example) if example.starts_with("examples/") => (example, traces.as_path()),
        Some(python) if python.starts_with(PYTHON) => (python, root),
        _ => bail!(
            "`{command}`: figures come from `frazil`, `frazil-bench`, `xtask`, `examples/NAME` or \
             `python3.11`"
        ),
    };
    eprintln!("xtask: {command}");
    let path = match program {
        "xtask" => std::env::current_exe().context("xtask")?,
        python if python.starts_with(PYTHON) => python::for_figures(root, python)?,
        _ => root.join("target/release").join(program),
    };
    let output = Command::new(path)
        .current_dir(folder)
        .env("FRAZIL_TRACES", &traces)
        .args(words.map(|word| match word.strip_prefix("DOCS/") {
            Some(path) => root.join("docs").join(path).into_os_string(),
            None => word.strip_prefix("TRACES/").unwrap_or(word).into(),
        }))
        .output()
        .with_context(|| command.to_owned())?;
    if !output.status.success() {
        bail!("`{command}`: {}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    let text = String::from_utf8(output.stdout).with_context(|| command.to_owned())?;
    // Cargo resets colours, and is called by some of these.
    let text = text.replace("\u{1b}[0m", "");
    let Some((from, to)) = part.split_once(" to ") else { return Ok(text) };
    excerpt(&text, from, to).with_context(|| format!("`{command}`: no lines from {from} to {to}"))
}

/// The lines from the first that begins with `from` to the next that begins with `to`, and the
/// continuation of that one, which is indented further.
fn excerpt(text: &str, from: &str, to: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str, word: &str| line.trim_start().starts_with(word);
    let first = lines.iter().position(|line| begins(line, from))?;
    let last = first + lines[first..].iter().position(|line| begins(line, to))?;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let more = lines[last + 1..].iter().take_while(|line| indent(line) > indent(lines[last]));
    Some(lines[first..=last + more.count()].join("\n"))
}

/// The date and the machine.
pub(crate) fn provenance() -> anyhow::Result<String> {
    let date = Command::new("date").arg("+%F").output().context("date")?;
    let cores = std::thread::available_parallelism()?;
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let date = String::from_utf8_lossy(&date.stdout);
    Ok(format!("Measured {} on {cores} cores ({model}).", date.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_ends_with_its_paragraph() {
        let text = "a\nTable:\n  1\n\nUse it.\n\n  Why: because\n    of this\n  More: no\n";
        let found = excerpt(text, "Table", "Why").unwrap();
        assert_eq!(found, "Table:\n  1\n\nUse it.\n\n  Why: because\n    of this");
        assert_eq!(excerpt(text, "Table", "Never"), None);
    }
}
