//! The definition file of a benchmark.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A benchmark of the replay loop.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definition {
    pub(crate) repetitions: usize,
    /// Records of a smoke run.
    pub(crate) short: u64,
    /// Records of a count of instructions.
    pub(crate) counted: u64,
    pub(crate) workload: Vec<Workload>,
    pub(crate) policy: Vec<PolicyTarget>,
    pub(crate) scaling: Scaling,
}

/// A trace and the capacity of the cache.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) name: String,
    /// A file in the folder of traces, or a generator.
    pub(crate) trace: String,
    pub(crate) capacity: String,
}

/// A policy, and its required figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTarget {
    pub(crate) name: String,
    /// M requests/s.
    pub(crate) least: Option<f64>,
    /// Instructions a request.
    pub(crate) instructions: Option<f64>,
}

/// A sweep of equal cells, whose speed on two threads is compared with one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaling {
    pub(crate) policy: String,
    pub(crate) cells: usize,
    /// Speed on two threads over that on one.
    pub(crate) least: f64,
}

impl Workload {
    /// The trace as the simulator's argument; `None` for a missing file.
    pub(crate) fn spec(&self, traces: &Path) -> Option<PathBuf> {
        if self.trace.contains(':') {
            return Some(PathBuf::from(&self.trace));
        }
        let path = traces.join(&self.trace);
        if path.exists() {
            return Some(path);
        }
        eprintln!("SKIPPED: {} has no trace {}", self.name, path.display());
        None
    }
}
