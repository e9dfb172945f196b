//! Golden results: every row of the reference for the policies that exist,
//! produced by an independent implementation (libCacheSim).
//!
//! Rows with `misses` match to the last miss, byte rows marked `exact` to six digits. The papers of
//! the other policies leave details open: each of their rows may be half a point above the
//! reference, and their median may not be above it at all.

use std::io::Write as _;
use std::path::PathBuf;

use frazil_policy::{Online, PolicySpec};
use frazil_simulator::trace::{ReadOptions, Trace, read};
use frazil_simulator::{CapacitySpec, CellSpec, Outcome, SweepOptions, Unit, sweep};
use serde_json::Value;

/// Most by which a row without an exact count may exceed the reference.
const LENIENCE: f64 = 0.005;
/// Half of the last digit of the reference.
const ROUNDING: f64 = 5e-7;
/// A quick run omits traces with more requests.
const QUICK_REQUESTS: u64 = 600_000;
/// All but a long run omit traces with more requests: these take ten times as long as all the rest,
/// and shorter traces show the same.
const USUAL_REQUESTS: u64 = 1_000_000;

#[derive(Debug)]
struct Row {
    trace: String,
    policy: PolicySpec,
    capacity: u64,
    unit: Unit,
    requests: u64,
    miss_ratio: f64,
    byte_miss_ratio: Option<f64>,
    misses: Option<u64>,
    exact: bool,
}

/// The folder with the traces, or `None` with a message.
fn traces() -> Option<PathBuf> {
    let folder = match std::env::var_os("FRAZIL_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
    };
    if folder.join("reference.jsonl").exists() {
        return Some(folder);
    }
    _ = writeln!(std::io::stderr(), "SKIPPED: no reference.jsonl in {}", folder.display());
    None
}

fn parse(line: &str) -> Option<Row> {
    let value: Value = serde_json::from_str(line).expect("a line of the reference is JSON");
    let text = |key: &str| value[key].as_str().expect("a string").to_owned();
    // Skips rows of policies that do not exist yet.
    let policy = text("policy").parse().ok()?;
    Some(Row {
        trace: text("trace"),
        policy,
        capacity: value["capacity"].as_u64().expect("a number"),
        unit: text("unit").parse().expect("a unit"),
        requests: value["requests"].as_u64().expect("a number"),
        miss_ratio: value["miss_ratio"].as_f64().expect("a number"),
        byte_miss_ratio: value["byte_miss_ratio"].as_f64(),
        misses: value["misses"].as_u64(),
        exact: value["exact"].as_bool().unwrap_or(false),
    })
}

fn is(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

fn rows(folder: &std::path::Path) -> Vec<Row> {
    let text = std::fs::read_to_string(folder.join("reference.jsonl")).expect("readable");
    let is_wanted = |row: &Row| {
        let most = if is("FRAZIL_QUICK") { QUICK_REQUESTS } else { USUAL_REQUESTS };
        is("FRAZIL_LONG") || row.requests <= most
    };
    text.lines().filter_map(parse).filter(is_wanted).collect()
}

fn replay(trace: &Trace, unit: Unit, cells: &[CellSpec]) -> Vec<Outcome> {
    let options = SweepOptions { unit, threads: 2, ..SweepOptions::default() };
    sweep(trace, cells, &options, &|_| ())
}

fn load(folder: &std::path::Path, name: &str) -> Trace {
    read(&folder.join(name), &ReadOptions::default()).expect("the trace reads").trace
}

/// The cells of a row: one, or five seeds where chance plays a part.
fn cells_of(row: &Row) -> Vec<CellSpec> {
    let seeded: Vec<PolicySpec> = (1..=5).filter_map(|seed| row.policy.with_seed(seed)).collect();
    let policies = if seeded.is_empty() { vec![row.policy] } else { seeded };
    policies.into_iter().map(|policy| CellSpec { policy, capacity: row.capacity }).collect()
}

fn six(ratio: f64) -> String {
    format!("{ratio:.6}")
}

/// The difference of a row that must match exactly.
fn mismatch(row: &Row, outcome: &Outcome) -> Option<String> {
    let bytes_agree =
        row.byte_miss_ratio.is_none_or(|ratio| six(ratio) == six(outcome.byte_miss_ratio()));
    let agrees = match row.misses {
        Some(misses) => misses == outcome.misses(),
        None => six(row.miss_ratio) == six(outcome.miss_ratio()) && bytes_agree,
    };
    (!agrees).then(|| format!("{row:?}: got {} misses, {outcome:?}", outcome.misses()))
}

#[test]
fn every_reference_row_is_matched() {
    let Some(folder) = traces() else { return };
    let rows = rows(&folder);
    let mut names: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    let (mut exact, mut failures) = (0, Vec::new());
    let mut lenient: Vec<(String, f64)> = Vec::new();
    for name in names {
        let trace = load(&folder, name);
        for unit in [Unit::Objects, Unit::Bytes] {
            let rows: Vec<&Row> =
                rows.iter().filter(|row| row.trace == name && row.unit == unit).collect();
            let cells: Vec<CellSpec> = rows.iter().flat_map(|row| cells_of(row)).collect();
            let outcomes = replay(&trace, unit, &cells);
            let mut outcomes = outcomes.as_slice();
            for row in rows {
                let (of_row, rest) = outcomes.split_at(cells_of(row).len());
                outcomes = rest;
                assert_eq!(of_row[0].requests, row.requests, "{name}");
                if row.misses.is_some() || row.exact {
                    exact += 1;
                    failures.extend(mismatch(row, &of_row[0]));
                    continue;
                }
                let mean =
                    of_row.iter().map(Outcome::miss_ratio).sum::<f64>() / of_row.len() as f64;
                // The reference is rounded to six digits.
                let above = (mean * 1e6).round() / 1e6 - row.miss_ratio;
                if above > LENIENCE {
                    failures.push(format!("{row:?}: {above:+.6} above the reference"));
                }
                lenient.push((row.policy.to_string(), above));
            }
        }
    }
    lenient.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    for policy in lenient.chunk_by(|a, b| a.0 == b.0) {
        let median = policy[policy.len() / 2].1;
        println!("{}: {} rows, median {median:+.6}", policy[0].0, policy.len());
        if median > ROUNDING {
            failures.push(format!("{}: median {median:+.6} above the reference", policy[0].0));
        }
    }
    println!("{exact} rows matched exactly, {} within the lenience", lenient.len());
    assert!(failures.is_empty(), "{} rows fail:\n{}", failures.len(), failures.join("\n"));
    assert!(exact > 0);
}

#[test]
fn mobius_is_sieve_on_every_trace() {
    let Some(folder) = traces() else { return };
    let mut rows = rows(&folder);
    rows.retain(|row| row.requests <= QUICK_REQUESTS || is("FRAZIL_LONG"));
    let mut names: Vec<&str> = rows.iter().map(|row| row.trace.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let trace = load(&folder, name);
        for unit in [Unit::Objects, Unit::Bytes] {
            if unit == Unit::Bytes && trace.sizes.is_empty() {
                continue;
            }
            let capacities = ["3", "0.1%", "1%", "3%", "10%", "40%", "90%"].map(|text| {
                let spec: CapacitySpec = text.parse().expect("a capacity");
                spec.resolve(&trace, unit).expect("it resolves")
            });
            let cells = |policy| capacities.map(|capacity| CellSpec { policy, capacity });
            let counts = |policy| -> Vec<(u64, u64)> {
                let policy = PolicySpec::Online(policy);
                let outcomes = replay(&trace, unit, &cells(policy));
                outcomes.iter().map(|o| (o.misses(), o.bytes_missed)).collect()
            };
            assert_eq!(counts(Online::Mobius), counts(Online::Sieve), "{name} in {unit}");
        }
    }
}
