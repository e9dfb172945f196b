//! `cargo xtask reference`: writes `docs/reference.md`, every row of the reference results beside
//! ours.
//!
//! The reference is `reference.jsonl` beside the real traces. Policies that use randomness run with
//! five seeds, and their means are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{figures, step, test};

const DOCUMENT: &str = "docs/reference.md";
const SEEDS: [&str; 5] = ["1", "2", "3", "4", "5"];

/// Policies of the reference that are randomised here.
const RANDOMISED: [&str; 5] = ["lru-prob:q=0.5", "hyperbolic", "lhd", "lecar", "cacheus"];

/// Remarks on policies whose counts differ from the reference: the difference, and the reason.
const WORDS: [(&str, &str); 13] = [
    (
        "arc",
        "In bytes the target moves by weight, and the ghosts have half a cache more where weights differ.",
    ),
    (
        "belady-size",
        "Compares the furthest of every weight class instead of a sample, and may refuse a newcomer.",
    ),
    (
        "cacheus",
        "Starts from other constants: with the authors' the loops lie up to 11 points above.",
    ),
    (
        "gdsf",
        "The same but for rounding: priorities are lowered now and then so that they cannot drift.",
    ),
    (
        "gl-cache",
        "The reference is FIFO-merge throughout: it trains after a day of the trace, and none has one. \
         It evicts whole groups at once, with groups of 100 objects however small the cache; here \
         objects go as room is needed, groups shrink with the cache, and a model comes with the first \
         snapshot. Of its learner it says nothing, which has defects that are not repeated \
         (design/gl-cache.md).",
    ),
    (
        "hyperbolic",
        "Ranks by weight, as the paper does; keeps the best of earlier samples, so 20 draws do for 64.",
    ),
    ("lecar", "The authors' algorithm, with two histories of half a cache each."),
    ("lhd", "Densities are computed anew from 512 requests on and not only every million."),
    ("lirs", "A hit outside the stack demotes nothing, as in the paper."),
    ("lru-prob:q=0.5", "Another generator of chance."),
    (
        "s3-fifo",
        "The small queue evicts while it holds more than its share; the reference looks at main's \
         share. At capacities under 20 the reference admits nothing and so never hits: it refuses \
         objects as large as the small queue, which has room for one object there. Here that object \
         is admitted; this makes the lowest difference. The ghost forgets by age, over the capacity \
         in evictions.",
    ),
    (
        "slru:segments=4",
        "Nothing is evicted on a hit; heavy objects are not promoted into a segment they would flush.",
    ),
    (
        "w-tinylfu",
        "The window adapts, where the reference's is fixed; hits in it are not counted in the sketch.",
    ),
];

struct Row {
    trace: String,
    unit: String,
    capacity: u64,
    policy: String,
    reference: f64,
    exact: bool,
    ours: Option<f64>,
}

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    step::run(
        "build",
        &mut step::cargo(root, ["build", "--release", "--locked", "--features", "full"]),
    )?;
    let traces = test::wanted_traces(root).canonicalize().context("no traces to measure on")?;
    let mut rows = read(&traces.join("reference.jsonl"))?;
    let mut groups: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        groups.entry((row.trace.clone(), row.unit.clone())).or_default().push(number);
    }
    for ((trace, unit), members) in groups {
        eprintln!("xtask: {trace} in {unit}");
        let frazil = Frazil { root, traces: &traces, trace: &trace, unit: &unit };
        let ours = frazil.replay(&rows, &members)?;
        for number in members {
            let key = (rows[number].policy.clone(), rows[number].capacity);
            rows[number].ours = ours.get(&key).copied();
        }
    }
    let document = document(&rows)?;
    std::fs::write(root.join(DOCUMENT), document).context(DOCUMENT)
}

fn read(path: &Path) -> anyhow::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let row = |line: &str| -> anyhow::Result<Row> {
        let value: Value = serde_json::from_str(line)?;
        let text = |key: &str| value[key].as_str().map(str::to_owned).context("not a string");
        Ok(Row {
            trace: text("trace")?,
            unit: text("unit")?,
            capacity: value["capacity"].as_u64().context("capacity")?,
            policy: text("policy")?,
            // A count, if there is one, is more precise than six digits.
            reference: match (value["misses"].as_f64(), value["requests"].as_f64()) {
                (Some(misses), Some(requests)) => misses / requests,
                _ => value["miss_ratio"].as_f64().context("miss_ratio")?,
            },
            exact: value.get("misses").is_some() || value["exact"] == true,
            ours: None,
        })
    };
    text.lines().map(row).collect()
}

/// Runs the command over one trace.
struct Frazil<'a> {
    root: &'a Path,
    traces: &'a Path,
    trace: &'a str,
    unit: &'a str,
}

impl Frazil<'_> {
    /// Miss ratios by policy and capacity; without unknown policies.
    fn replay(
        &self,
        rows: &[Row],
        members: &[usize],
    ) -> anyhow::Result<BTreeMap<(String, u64), f64>> {
        let distinct = |of: &dyn Fn(&Row) -> String| -> Vec<String> {
            let mut all: Vec<String> = members.iter().map(|&number| of(&rows[number])).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let capacities = distinct(&|row| row.capacity.to_string()).join(",");
        let mut ratios = BTreeMap::new();
        for policy in distinct(&|row| row.policy.clone()) {
            let seeded = |seed: &&str| format!("{policy}:seed={seed}");
            let variants = if RANDOMISED.contains(&policy.as_str()) {
                SEEDS.iter().map(seeded).collect()
            } else {
                vec![policy.clone()]
            };
            let Some(lines) = self.simulate(&variants.join(","), &capacities)? else {
                continue;
            };
            for line in &lines {
                let capacity = line["capacity"].as_u64().context("capacity")?;
                let ratio = line["miss_ratio"].as_f64().context("miss_ratio")?;
                *ratios.entry((policy.clone(), capacity)).or_insert(0.0) +=
                    ratio / variants.len() as f64;
            }
        }
        Ok(ratios)
    }

    /// The rows that the command prints; `None` if it does not know a policy.
    fn simulate(&self, policies: &str, capacities: &str) -> anyhow::Result<Option<Vec<Value>>> {
        let output = Command::new(self.root.join("target/release/frazil"))
            .current_dir(self.traces)
            .args(["simulate", "--output", "json", "--trace", self.trace, "--unit", self.unit])
            .args(["--policy", policies, "--capacity", capacities])
            .output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("unknown policy") {
            return Ok(None);
        }
        if !output.status.success() {
            bail!("{}: {}", self.trace, errors.trim_end());
        }
        let lines = String::from_utf8(output.stdout)?;
        Ok(Some(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?))
    }
}

fn document(rows: &[Row]) -> anyhow::Result<String> {
    let mut policies: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        policies.entry(&row.policy).or_default().push(row);
    }
    let mut text = format!(
        "# The reference, row by row\n\n\
         Miss ratios of an independent implementation (libCacheSim 0.3.5, all policies at\n\
         their defaults) beside ours; written by `cargo xtask reference`. A difference\n\
         above zero means that we miss more. *Exact* rows are those whose misses must\n\
         agree to the last one, or whose ratios must agree to six digits. Where chance\n\
         plays a part, ours is the mean of five seeds.\n\n{}\n\n\
         | policy | rows | exact, of these equal | median difference | lowest | highest | a word |\n\
         |---|---|---|---|---|---|---|\n",
        figures::provenance()?
    );
    for (policy, rows) in &policies {
        text += &summary(policy, rows)?;
    }
    for (policy, rows) in &policies {
        if rows.iter().all(|row| row.ours.is_none()) {
            continue;
        }
        write!(
            text,
            "\n## `{policy}`\n\n| trace | capacity | reference | ours | difference |\n\
             |---|---|---|---|---|\n"
        )?;
        for row in rows {
            let Some(ours) = row.ours else { continue };
            let Row { trace, capacity, unit, reference, exact, .. } = row;
            let mark = if *exact { " exact" } else { "" };
            writeln!(
                text,
                "| {trace} | {capacity} {unit} | {reference:.6}{mark} | {ours:.6} | {:+.6} |",
                difference(ours, *reference)
            )?;
        }
    }
    Ok(text)
}

/// 0 below half of the sixth digit, to which the reference is rounded.
fn difference(ours: f64, reference: f64) -> f64 {
    let difference = ours - reference;
    if difference.abs() <= 5.01e-7 { 0.0 } else { difference }
}

fn summary(policy: &str, rows: &[&Row]) -> anyhow::Result<String> {
    let word = WORDS.iter().find(|(name, _)| *name == policy).map_or("", |(_, word)| word);
    let measured = |row: &&&Row| row.ours.map(|ours| difference(ours, row.reference));
    let mut differences: Vec<f64> = rows.iter().filter_map(|row| measured(&row)).collect();
    differences.sort_by(f64::total_cmp);
    let exact: Vec<&&Row> = rows.iter().filter(|row| row.exact).collect();
    let equal = exact.iter().filter(|row| measured(row) == Some(0.0)).count();
    let exact =
        if exact.is_empty() { "–".to_owned() } else { format!("{}, {equal}", exact.len()) };
    let (Some(lowest), Some(highest)) = (differences.first(), differences.last()) else {
        return Ok(format!("| `{policy}` | {} | {exact} | – | – | – | {word} |\n", rows.len()));
    };
    Ok(format!(
        "| `{policy}` | {} | {exact} | {:+.6} | {lowest:+.6} | {highest:+.6} | {word} |\n",
        rows.len(),
        differences[differences.len() / 2],
    ))
}
