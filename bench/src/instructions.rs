//! Instructions a request, counted by callgrind over the replay loop alone.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use frazil_simulator::trace::{self, ReadOptions};
use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep};

use crate::definition::{Definition, Workload};

/// The function that is the replay loop.
const LOOP: &str = "*Cell*feed*";

/// Counts every policy on the first workload; says so where there is no valgrind.
pub(crate) fn run(definition: &Definition, traces: &Path) -> anyhow::Result<String> {
    let Some((workload, spec)) =
        definition.workload.iter().find_map(|workload| Some((workload, workload.spec(traces)?)))
    else {
        return Ok(String::new());
    };
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no valgrind, so instructions are not counted");
        return Ok(String::new());
    }
    let records = definition.short;
    let mut report =
        format!("{}: instructions a request, first {records} requests\n", workload.name);
    for target in &definition.policy {
        let counted = count(&spec, workload, &target.name, records)?;
        let each = counted as f64 / records as f64;
        let verdict = match target.instructions {
            Some(most) if each <= most => format!("at most {most}: yes"),
            Some(most) => format!("at most {most}: NO"),
            None => String::new(),
        };
        writeln!(report, "  {:16} {each:7.1}  {verdict}", target.name)?;
    }
    Ok(report)
}

fn count(spec: &Path, workload: &Workload, policy: &str, records: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={LOOP}"))
        .arg(std::env::current_exe()?)
        .arg(spec)
        .args(["--once", policy, &workload.capacity, &records.to_string()])
        .output()
        .context("valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected : "));
    match line.and_then(|(_, count)| count.trim().parse().ok()) {
        Some(count) if count > 0 => Ok(count),
        _ => bail!("{policy}: nothing was counted: {text}"),
    }
}

/// Replays one cell once: the program that is counted.
pub(crate) fn replay_once(spec: &Path, once: &[String]) -> anyhow::Result<()> {
    let [policy, capacity, limit] = once else { bail!("--once takes three values") };
    let options =
        ReadOptions { limit: Some(limit.parse()?), sizes: false, ..ReadOptions::default() };
    let trace = trace::load(&spec.to_string_lossy(), &options)?.trace;
    let capacity = capacity.parse::<CapacitySpec>()?.resolve(&trace, Unit::Objects)?;
    let cell = CellSpec { policy: policy.parse()?, capacity };
    sweep(&trace, &[cell], &SweepOptions::default(), &|_| ());
    Ok(())
}
