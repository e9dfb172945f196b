//! `cargo xtask profiles`: what each way to optimise a release costs to build, and what it gives
//! the replay loop and the cache. The choice is explained in docs/design/checks.md.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::{cost, figures, step, test};

/// Name, `lto`, `codegen-units`.
const CHOICES: [(&str, &str, &str); 4] = [
    ("no LTO, one unit", "off", "1"),
    ("no LTO, 16 units", "off", "16"),
    ("LTO within a crate, 16 units", "false", "16"),
    ("thin LTO, one unit", "thin", "1"),
];
const POLICIES: &str = "lru,sieve,s3-fifo,two-queue,arc,w-tinylfu,gdsf";
const ENGINES: [&str; 4] = ["mobius", "mobius+pin", "s3-fifo", "lru-mutex"];

/// What is printed of a choice, in order.
type Row = Vec<(String, f64)>;

/// Builds and measures each choice, and prints a table.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut columns: Vec<Row> = Vec::new();
    for (at, (name, lto, units)) in CHOICES.into_iter().enumerate() {
        eprintln!("xtask: profile: {name}");
        let target = root.join(format!("target/profiles/{at}"));
        // Nothing may be built already.
        if target.exists() {
            std::fs::remove_dir_all(&target).with_context(|| target.display().to_string())?;
        }
        let cargo = |arguments: &[&str]| -> anyhow::Result<(f64, f64)> {
            let mut command = step::cargo(root, arguments);
            command.env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
            command.env("CARGO_PROFILE_RELEASE_LTO", lto);
            command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", units);
            let (began, before) = (Instant::now(), children_seconds()?);
            step::run("cargo", &mut command)?;
            Ok((began.elapsed().as_secs_f64(), children_seconds()? - before))
        };
        let build = ["build", "--release", "--locked"];
        let first = cargo(&build)?;
        cost::touch(root)?;
        let again = cargo(&build)?;
        cargo(&[&build[..], &["--package", "frazil-bench"]].concat())?;
        let mut column = vec![
            ("first build, s".to_owned(), first.0),
            ("first build, s of the processor".to_owned(), first.1),
            ("after a change of a policy, s".to_owned(), again.0),
            ("after a change of a policy, s of the processor".to_owned(), again.1),
        ];
        column.extend(measured(root, &target)?);
        columns.push(column);
    }
    println!("{}\n", figures::provenance()?);
    println!("| | {} |", CHOICES.map(|(name, ..)| name).join(" | "));
    println!("|---|{}", "---|".repeat(CHOICES.len()));
    for (at, (name, _)) in columns[0].iter().enumerate() {
        let values = columns.iter().map(|column| format!("{:.1}", column[at].1));
        println!("| {name} | {} |", values.collect::<Vec<_>>().join(" | "));
    }
    Ok(())
}

/// Speeds and instructions of replays and of the cache.
fn measured(root: &Path, target: &Path) -> anyhow::Result<Row> {
    let traces = test::wanted_traces(root).canonicalize().context("no traces to measure with")?;
    let bench = |arguments: &[&str]| -> anyhow::Result<String> {
        let mut command = std::process::Command::new(target.join("release/frazil-bench"));
        command.args(arguments).current_dir(root).env("FRAZIL_TRACES", &traces);
        let output = command.output().context("frazil-bench")?;
        ensure!(output.status.success(), "frazil-bench: {}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    };
    let mut row = Row::new();
    let replays = bench(&["bench/simulator.toml", "--policy", POLICIES])?;
    let (speeds, counts) = (
        section(&replays, "Twitter, capacity 10%"),
        section(&replays, "Twitter: instructions a request"),
    );
    for policy in POLICIES.split(',') {
        let of = |lines: &BTreeMap<&str, Vec<&str>>| number(lines.get(policy)?, 1);
        row.push((format!("replay of {policy}, M requests/s"), of(&speeds).unwrap_or(f64::NAN)));
        row.push((format!("instructions a request of {policy}"), of(&counts).unwrap_or(f64::NAN)));
    }
    let cells = ["--cell", "hit,zipf-10", "--threads", "1", "--rounds", "3"];
    let caches = bench(&[&["bench/cache.toml"], &cells[..]].concat())?;
    for cell in ["hit", "zipf-10"] {
        let lines = section(&caches, &format!("{cell}: workload"));
        for engine in ENGINES {
            let found = caches_line(&lines, engine);
            let Some((speed, instructions)) = found else { continue };
            row.push((format!("{cell} of {engine}, M operations/s"), speed));
            row.push((format!("instructions an operation, {cell} of {engine}"), instructions));
        }
    }
    Ok(row)
}

/// The lines below the one that begins with `title`, by the word that names what they are of: the
/// first, or the second behind a number of threads.
fn section<'t>(text: &'t str, title: &str) -> BTreeMap<&'t str, Vec<&'t str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let words = lines.take_while(|line| line.starts_with("  ")).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.iter().find(|word| word.parse::<f64>().is_err());
        (name.copied().unwrap_or_default(), words)
    });
    words.collect()
}

fn number(words: &[&str], at: usize) -> Option<f64> {
    words.get(at)?.parse().ok()
}

/// Speed and instructions of an engine's line.
fn caches_line(lines: &BTreeMap<&str, Vec<&str>>, engine: &str) -> Option<(f64, f64)> {
    let words = lines.get(engine)?;
    Some((number(words, 2)?, words.last()?.parse().ok()?))
}

/// Processor time of all programs that this one has waited for.
fn children_seconds() -> anyhow::Result<f64> {
    let path = "/proc/self/stat";
    let text = std::fs::read_to_string(path).context(path)?;
    let (_, fields) = text.rsplit_once(')').context(path)?;
    // User and system time of children: fields 16 and 17, of which the third comes first here.
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    // Always a hundred a second where programs look.
    Ok(ticks as f64 / 100.0)
}
