//! The definition file of a comparison of caches.

use anyhow::bail;
use serde::Deserialize;

/// Caches, cells in which they are compared, and requirements on ours.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CacheDefinition {
    /// Interleaved rounds; each engine has its own process in each.
    pub(super) rounds: usize,
    /// Seconds of measurement in a process.
    pub(super) seconds: f64,
    /// Keys of the generated workloads.
    pub(super) keys: u64,
    /// Operations of all threads' streams together.
    pub(super) operations: usize,
    /// Speeds are printed as multiples of this engine's.
    pub(super) baseline: String,
    pub(super) engine: Vec<EngineLine>,
    pub(super) cell: Vec<CellLine>,
    #[serde(default)]
    pub(super) require: Vec<Requirement>,
}

/// An engine that takes part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EngineLine {
    pub(super) name: String,
    /// Cells it takes part in; all if it names none.
    #[serde(default)]
    pub(super) cells: Vec<String>,
    /// Rounds it takes part in; all by default.
    pub(super) rounds: Option<usize>,
    /// Whether it never evicts, so that its memory means nothing.
    #[serde(default)]
    pub(super) unbounded: bool,
    /// Whether its threads sleep, so that a small processor share is no sign of other work.
    #[serde(default)]
    pub(super) sleeps: bool,
}

/// A workload and a capacity.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellLine {
    pub(super) name: String,
    pub(super) workload: String,
    /// A number of objects, or a share of the keys.
    pub(super) capacity: String,
    pub(super) threads: Vec<usize>,
    /// Whether all keys are present from the beginning, as always with `hit`.
    #[serde(default)]
    pub(super) preload: bool,
    /// Whether hit ratios are compared, by one pass of one thread.
    #[serde(default)]
    pub(super) pass: bool,
    /// Whether the instructions an operation of one thread are counted.
    #[serde(default)]
    pub(super) instructions: bool,
}

/// Requirements on an engine. Without a named cell they apply to every cell that it takes part in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "figure")]
pub(super) enum Requirement {
    /// Speed as a multiple of another engine's.
    Speed { engine: String, over: String, cell: Option<String>, threads: Option<usize>, least: f64 },
    /// Speed on `threads` as a multiple of that on `from`.
    Scaling { engine: String, cell: Option<String>, from: usize, threads: usize, least: f64 },
    /// The 99.9th percentile of the latency, as a multiple of another engine's.
    P999 { engine: String, over: String, cell: Option<String>, threads: usize, most: f64 },
    /// Hit ratio minus another engine's, in points: of one pass, or of the run with `threads`
    /// threads.
    HitRatio {
        engine: String,
        over: String,
        cell: Option<String>,
        threads: Option<usize>,
        least: f64,
    },
    /// Bytes an entry.
    Memory { engine: String, cell: Option<String>, most: f64 },
    /// Instructions an operation.
    Instructions { engine: String, cell: Option<String>, most: f64 },
}

impl Requirement {
    /// The engines and the cell that the requirement names.
    fn names(&self) -> (Vec<&String>, Option<&String>) {
        match self {
            Requirement::Speed { engine, over, cell, .. }
            | Requirement::P999 { engine, over, cell, .. }
            | Requirement::HitRatio { engine, over, cell, .. } => {
                (vec![engine, over], cell.as_ref())
            }
            Requirement::Scaling { engine, cell, .. }
            | Requirement::Memory { engine, cell, .. }
            | Requirement::Instructions { engine, cell, .. } => (vec![engine], cell.as_ref()),
        }
    }
}

impl CacheDefinition {
    /// Checks that all names exist: a requirement on a misspelt engine would go unnoticed.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let has_engine = |name: &String| self.engine.iter().any(|engine| engine.name == *name);
        let has_cell = |name: &String| self.cell.iter().any(|cell| cell.name == *name);
        let required = self.require.iter().map(Requirement::names);
        let (engines, cells): (Vec<_>, Vec<_>) = required.unzip();
        let engines = engines.into_iter().flatten().chain([&self.baseline]);
        let named = self.engine.iter().flat_map(|engine| &engine.cells);
        if let Some(name) = engines.into_iter().find(|name| !has_engine(name)) {
            bail!("no engine `{name}`");
        }
        if let Some(name) = cells.into_iter().flatten().chain(named).find(|name| !has_cell(name)) {
            bail!("no cell `{name}`");
        }
        Ok(())
    }

    /// A definition small enough for a test.
    pub(super) fn smoke(mut self) -> Self {
        self.rounds = 1;
        self.seconds = 0.02;
        self.keys = self.keys.min(20_000);
        self.operations = self.operations.min(200_000);
        // The largest number of threads covers smaller ones.
        for cell in &mut self.cell {
            cell.threads.drain(..cell.threads.len().saturating_sub(1));
        }
        // Only the first cell is counted, because counting costs a hundred times as much as
        // running.
        self.cell.iter_mut().skip(1).for_each(|cell| cell.instructions = false);
        self
    }

    /// Engines of a cell that this build has, in order.
    pub(super) fn engines<'a>(&'a self, cell: &CellLine) -> Vec<&'a EngineLine> {
        let takes_part =
            |engine: &&EngineLine| engine.cells.is_empty() || engine.cells.contains(&cell.name);
        let built_in = |engine: &&EngineLine| super::engines::is_built_in(&engine.name);
        self.engine.iter().filter(takes_part).filter(built_in).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = include_str!("../../cache.toml");

    fn check(text: &str) -> anyhow::Result<()> {
        // The field that chooses the kind is read one level up.
        let text = text.replace("kind = \"cache\"", "");
        toml::from_str::<CacheDefinition>(&text)?.check()
    }

    #[test]
    fn names_must_exist() {
        check(DEFINITION).unwrap();
        for (right, wrong, problem) in [
            ("over = \"lru-mutex\"", "over = \"lru-mutx\"", "no engine `lru-mutx`"),
            ("baseline = \"quick_cache\"", "baseline = \"quick\"", "no engine `quick`"),
            ("cells = [\"hit\"]", "cells = [\"hits\"]", "no cell `hits`"),
            ("cell = \"zipf-1\"", "cell = \"zipf-2\"", "no cell `zipf-2`"),
        ] {
            assert!(DEFINITION.contains(right), "{right}");
            let error = check(&DEFINITION.replace(right, wrong)).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}
