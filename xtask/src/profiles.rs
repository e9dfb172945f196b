//! `cargo xtask profiles`: compares ways to optimise a release, by the time of a build and by the
//! speed of the replay loop and the cache. docs/design/checks.md explains the choice, and holds the
//! table that this command writes.
//!
//! Builds are measured in processor time, speeds in instructions, so other work on the machine does
//! not matter.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{cost, figures, mutants, spent, step, test};

/// Name, `lto`, `codegen-units`.
const CHOICES: [(&str, &str, &str); 4] = [
    ("no LTO, one unit", "off", "1"),
    ("no LTO, 16 units", "off", "16"),
    ("LTO within a crate, 16 units", "false", "16"),
    ("thin LTO, one unit", "thin", "1"),
];
/// A list, a mark, queues with ghosts, a heap: the last gains most by LTO.
const POLICIES: &str = "lru,sieve,s3-fifo,arc,w-tinylfu,gdsf";
const ENGINES: [&str; 4] = ["mobius", "mobius+pin", "mobius+ttl", "s3-fifo"];

const DOCUMENT: &str = "docs/design/checks.md";
const BEGIN: &str = "<!-- cargo xtask profiles -->";
const END: &str = "<!-- end -->";

/// The samples of a choice, in order.
type Column = Vec<(String, Option<f64>)>;

/// Builds and measures each choice, and writes the table.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    // Checks that the document can be written before building anything.
    write(root, None)?;
    // A copy, because a file is touched there.
    let tree = root.join("target/profiles/tree");
    mutants::copy_tree(root, &tree)?;
    let traces = test::wanted_traces(root).canonicalize().context("no traces to measure with")?;
    let mut columns = Vec::new();
    for choice in CHOICES {
        eprintln!("xtask: profile: {}", choice.0);
        columns.push(measured(&tree, &traces, choice)?);
        println!("{}", table(&columns));
    }
    write(root, Some(&table(&columns)))
}

/// Writes a table into the document; without one only checks that this is possible.
fn write(root: &Path, table: Option<&str>) -> anyhow::Result<()> {
    let document = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&document).context(DOCUMENT)?;
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("{DOCUMENT}: {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{DOCUMENT}: {END}"))?;
    let Some(table) = table else { return Ok(()) };
    let measured = figures::provenance()?;
    let written = format!("{before}{BEGIN}\n{table}\n{measured}\n{END}{after}");
    std::fs::write(&document, written).context(DOCUMENT)
}

/// Measures one choice, with nothing built before.
fn measured(
    tree: &Path,
    traces: &Path,
    (_, lto, units): (&str, &str, &str),
) -> anyhow::Result<Column> {
    let target = tree.join("target");
    if target.exists() {
        std::fs::remove_dir_all(&target).with_context(|| target.display().to_string())?;
    }
    let build = |more: &[&str]| -> anyhow::Result<Option<f64>> {
        let mut command = step::cargo(tree, ["build", "--release", "--locked"]);
        command.args(more).env_remove("CARGO_TARGET_DIR");
        command.env("CARGO_PROFILE_RELEASE_LTO", lto);
        command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", units);
        let begun = spent::begin();
        step::run("cargo build", &mut command)?;
        Ok(begun.spent().processor)
    };
    let mut column = vec![("first build, s of the processor".to_owned(), build(&[])?)];
    cost::touch(tree)?;
    column.push(("the same after a change of a policy".to_owned(), build(&[])?));
    build(&["--package", "frazil-bench"])?;
    column.extend(instructions(tree, traces)?);
    Ok(column)
}

/// Instructions of replays and of the cache.
fn instructions(tree: &Path, traces: &Path) -> anyhow::Result<Column> {
    let bench = |arguments: &[&str]| -> anyhow::Result<String> {
        let mut command = Command::new(tree.join("target/release/frazil-bench"));
        command.args(arguments).args(["--rounds", "0"]).current_dir(tree);
        let output = command.env("FRAZIL_TRACES", traces).output().context("frazil-bench")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "frazil-bench: {}: {told}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    };
    let mut column = Column::new();
    let replays = ["bench/simulator.toml", "--policy", POLICIES, "--counted", "300000"];
    let replays = bench(&replays)?;
    let lines = section(&replays, "Twitter: instructions a request");
    for policy in POLICIES.split(',') {
        let counted = lines.get(policy).and_then(|words| words.get(1)?.parse().ok());
        column.push((format!("instructions, a request of `{policy}` replayed"), counted));
    }
    let caches = bench(&["bench/cache.toml", "--cell", "hit,zipf-10", "--threads", "1"])?;
    for (cell, what) in [("hit", "a hit of `"), ("zipf-10", "an operation on Zipf at a tenth of `")]
    {
        let lines = section(&caches, &format!("{cell}: workload"));
        for engine in ENGINES {
            let Some(words) = lines.get(engine) else { continue };
            let counted = words.last().and_then(|word| word.parse().ok());
            column.push((format!("instructions, {what}{engine}`"), counted));
        }
    }
    Ok(column)
}

/// The columns in Markdown.
fn table(columns: &[Column]) -> String {
    let names: Vec<&str> = CHOICES.iter().map(|(name, ..)| *name).take(columns.len()).collect();
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (at, (what, _)) in columns.first().into_iter().flatten().enumerate() {
        let values = columns.iter().map(|column| match column.get(at) {
            Some((_, Some(value))) => format!("{value:.1}"),
            _ => "–".to_owned(),
        });
        table += &format!("| {what} | {} |\n", values.collect::<Vec<_>>().join(" | "));
    }
    table
}

/// The lines below the one that begins with `title`, by subject: their first word, or the second
/// after a number of threads.
fn section<'t>(text: &'t str, title: &str) -> BTreeMap<&'t str, Vec<&'t str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let words = lines.take_while(|line| line.starts_with("  ")).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.iter().find(|word| word.parse::<f64>().is_err());
        (name.copied().unwrap_or_default(), words)
    });
    words.collect()
}
