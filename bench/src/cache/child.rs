//! One measurement in a separate process.
//!
//! The placement of a process's memory changes its speed by up to 1.8 times, and memory freed
//! before is reused without growth. So every figure comes from a child process that does one thing,
//! and several children are the sample.

use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use frazil_driver::{Engine, Measured, Schedule, Stream, Workload};
use serde::{Deserialize, Serialize};

use super::engines::{self, EngineVisitor};
use crate::callgrind;

/// The request to the child.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Request {
    pub(super) engine: String,
    /// Whether a rival gets our cache's hasher.
    pub(super) foldhash: bool,
    pub(super) workload: String,
    pub(super) keys: u64,
    pub(super) capacity: u64,
    pub(super) threads: usize,
    /// Whether all keys are present from the beginning.
    pub(super) preload: bool,
    /// Operations of all streams together.
    pub(super) operations: usize,
    pub(super) what: What,
}

/// Keys and operations for counts of instructions, which take fifty times as long as timing.
const COUNTED_KEYS: u64 = 10_000;
const COUNTED_OPERATIONS: usize = 100_000;
/// The function in which instructions are counted.
const COUNTED: &str = "*one_pass*";

/// The figures to measure.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Speed and latencies, for a number of seconds.
    Speed(f64),
    /// Hit ratio of one pass of one thread.
    Pass,
    /// Resident bytes an entry.
    Memory,
}

/// The child's answer. Figures that were not requested are 0 or absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Answer {
    pub(super) mops: f64,
    pub(super) hit_ratio: f64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    /// Mean latency × throughput / threads, and whether that is near enough to 1.
    pub(super) little: Option<f64>,
    pub(super) latencies_valid: bool,
    pub(super) cpu_share: Option<f64>,
    pub(super) bytes_per_entry: Option<f64>,
}

impl Request {
    /// Measures in a child.
    pub(super) fn ask(&self) -> anyhow::Result<Answer> {
        let output = Command::new(std::env::current_exe()?)
            .args(["--child", &serde_json::to_string(self)?])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start the child process")?;
        if !output.status.success() {
            bail!("{} on {}: {}", self.engine, self.workload, output.status);
        }
        serde_json::from_slice(&output.stdout).context("the child's answer")
    }
}

impl Request {
    /// Instructions an operation of a pass over fewer keys; `None` without valgrind.
    pub(super) fn count_instructions(&self) -> anyhow::Result<Option<f64>> {
        let request = Request {
            keys: COUNTED_KEYS,
            capacity: (self.capacity.saturating_mul(COUNTED_KEYS) / self.keys.max(1)).max(1),
            threads: 1,
            operations: COUNTED_OPERATIONS,
            what: What::Pass,
            ..self.clone()
        };
        let asked = serde_json::to_string(&request)?;
        let counts =
            callgrind::count(COUNTED, &["--child", &asked]).context(self.engine.clone())?;
        Ok(counts.map(|counts| counts.instructions as f64 / COUNTED_OPERATIONS as f64))
    }
}

/// The child's work: measures, and prints the answer.
pub(crate) fn run(request: &str) -> anyhow::Result<()> {
    let request: Request = serde_json::from_str(request).context("--child")?;
    let workload: Workload = request.workload.parse()?;
    let streams = match request.what {
        What::Memory => Vec::new(),
        _ => workload.streams(request.keys, request.operations, request.threads)?,
    };
    let preload = if request.preload || workload == Workload::Hit { request.keys } else { 0 };
    let task = Task { request: &request, streams: &streams, preload };
    let answer = engines::visit(&request.engine, request.capacity, request.foldhash, task)?;
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}

struct Task<'a> {
    request: &'a Request,
    streams: &'a [Stream],
    preload: u64,
}

impl EngineVisitor for Task<'_> {
    type Output = Answer;

    fn visit<E: Engine>(self, build: impl FnOnce() -> E) -> Answer {
        let capacity = self.request.capacity;
        match self.request.what {
            What::Memory => Answer {
                bytes_per_entry: frazil_driver::bytes_per_entry(build, capacity),
                ..Answer::default()
            },
            What::Pass => {
                let engine = build();
                frazil_driver::preload(&engine, self.preload);
                let passes = self.streams.iter().map(|s| frazil_driver::one_pass(&engine, s));
                let pass = passes.last().unwrap_or_default();
                Answer { hit_ratio: pass.hit_ratio(), ..Answer::default() }
            }
            What::Speed(seconds) => {
                let engine = build();
                frazil_driver::preload(&engine, self.preload);
                let schedule = Schedule::seconds(seconds);
                // An engine that holds all keys need not be filled.
                let fill = if self.preload > 0 { 0 } else { capacity.saturating_mul(2) };
                frazil_driver::run(&engine, self.streams, fill, &schedule).into()
            }
        }
    }
}

impl From<Measured> for Answer {
    fn from(measured: Measured) -> Self {
        let little = measured.little();
        Answer {
            little: Some(little.ratio()),
            latencies_valid: little.holds(),
            mops: measured.mops,
            hit_ratio: measured.hit_ratio,
            p50_ns: measured.p50_ns,
            p99_ns: measured.p99_ns,
            p999_ns: measured.p999_ns,
            cpu_share: measured.cpu_share,
            bytes_per_entry: None,
        }
    }
}
