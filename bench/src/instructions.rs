//! Instructions and cache misses a request, counted over the replay loop alone.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::bail;
use frazil_simulator::trace::{self, ReadOptions};
use frazil_simulator::{CapacitySpec, CellSpec, SweepOptions, Unit, sweep};

use crate::callgrind;
use crate::definition::{Definition, PolicyTarget};

/// The function of the replay loop.
const LOOP: &str = "*Cell*feed*";

/// Counts `policies` on the first `records` requests of the first workload; without valgrind prints
/// a line.
pub(crate) fn run(
    definition: &Definition,
    policies: &[PolicyTarget],
    records: u64,
    traces: &Path,
) -> anyhow::Result<String> {
    let Some((workload, spec)) =
        definition.workload.iter().find_map(|workload| Some((workload, workload.spec(traces)?)))
    else {
        return Ok(String::new());
    };
    let mut report = format!(
        "{}: instructions a request, first {records} requests; misses of 32 KiB, misses of 4 MiB\n",
        workload.name
    );
    for target in policies {
        let spec = spec.to_string_lossy();
        let once = [&spec, "--once", &target.name, &workload.capacity, &records.to_string()];
        let Some(counts) = callgrind::count(LOOP, &once)? else { return Ok(String::new()) };
        let each = |count: u64| count as f64 / records as f64;
        let instructions = each(counts.instructions);
        let verdict = match target.instructions {
            Some(most) if instructions <= most => format!("at most {most}: yes"),
            Some(most) => format!("at most {most}: NO"),
            None => String::new(),
        };
        let (first, last) = (each(counts.first_level_misses), each(counts.last_level_misses));
        let name = &target.name;
        writeln!(report, "  {name:16} {instructions:7.1} {first:6.2} {last:6.2}  {verdict}")?;
    }
    Ok(report)
}

/// Replays one cell once: the counted program.
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
