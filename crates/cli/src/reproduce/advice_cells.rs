//! The measurements of [`super::advice`]: each trace requested once from an empty cache.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use frazil_driver::{
    Backend, Distance, Ours, Processors, Replay, Setup, Stream, one_pass, replay, trace_streams,
};
use frazil_simulator::trace::{self, Operation, ReadOptions, Trace, printable};

use crate::failure::{Failure, note};

/// Without real traces: a mix, a steep popularity, and a loop larger than a cache.
const GENERATED: [&str; 3] = [
    "mix:objects=50K:requests=400K:seed=1",
    "zipf:1.1:objects=50K:requests=400K:seed=2",
    "loop:objects=20K:requests=400K",
];
const QUICK: &str = "mix:objects=2K:requests=20K:seed=1";
/// Extensions of other files beside traces.
const NO_TRACES: [&str; 8] = ["md", "json", "jsonl", "toml", "html", "svg", "png", "sh"];
/// Greatest depth of folders.
const DEPTH: u8 = 4;
/// Wait of a miss, in microseconds, with which half as many operations take as long.
const HALF_US: f64 = 10.0;
/// The most caches on which a short trace is replayed.
const MOST_CACHES: usize = 64;
/// Requests in flight for each thread.
pub(super) const MPL_A_THREAD: usize = 16;
/// A run is repeated if a thread got a smaller share of its core.
const LEAST_SHARE: f64 = 0.95;
/// Most attempts of a run.
const ATTEMPTS: u32 = 8;

/// A trace.
pub(super) struct Load {
    /// Short, for tables.
    pub(super) name: String,
    /// The argument of `--trace`.
    pub(super) spec: String,
    pub(super) trace: Trace,
}

impl Load {
    fn read(name: String, spec: String, limit: u64) -> Result<Self, Failure> {
        let options = ReadOptions { limit: Some(limit), sizes: false, ..ReadOptions::default() };
        let trace = trace::load(&spec, &options)?.trace;
        Ok(Load { name, spec, trace })
    }

    /// The traces of a folder, up to a number of records each; without a folder generated ones.
    pub(super) fn all(
        quick: bool,
        folder: Option<&Path>,
        limit: u64,
    ) -> Result<Vec<Load>, Failure> {
        let Some(folder) = folder else {
            let specs = if quick { &[QUICK][..] } else { &GENERATED[..] };
            let of = |spec: &&str| {
                let name = spec.split(':').next().unwrap_or(spec);
                Load::read(name.to_owned(), (*spec).to_owned(), limit)
            };
            return specs.iter().map(of).collect();
        };
        let mut loads = Vec::new();
        for file in files(folder)? {
            let within = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            match Load::read(printable(&within), file.display().to_string(), limit) {
                Ok(load) if !load.has_gets() => note(&format!("{within}: left out: no requests")),
                Ok(load) => loads.push(load),
                Err(failure) => note(&format!("{within}: left out: {:#}", failure.error()?)),
            }
        }
        if loads.is_empty() {
            let problem = anyhow::anyhow!("{}: no trace in it can be read", folder.display());
            return Err(Failure::usage(problem));
        }
        Ok(loads)
    }

    fn has_gets(&self) -> bool {
        let Trace { ids, operations, .. } = &self.trace;
        (0..ids.len()).any(|at| operations.get(at).is_none_or(|&it| it == Operation::Get))
    }

    /// Distinct objects.
    pub(super) fn everything(&self) -> u64 {
        self.trace.objects.len() as u64
    }

    /// A share of everything, as in `--capacity`.
    pub(super) fn share(&self, percent: f64) -> u64 {
        ((self.everything() as f64 * percent / 100.0) as u64).max(1)
    }

    /// The records, divided among threads.
    pub(super) fn streams(&self, threads: usize) -> Result<Vec<Stream>, Failure> {
        trace_streams(&self.trace, threads, true).map_err(Failure::usage)
    }

    /// The share of the gets that one thread misses.
    pub(super) fn miss_ratio(&self, policy: Setup, capacity: u64) -> Result<f64, Failure> {
        let streams = self.streams(1)?;
        Ok(1.0 - one_pass(&Ours::<u64>::new(policy, capacity, 0), &streams[0]).hit_ratio())
    }
}

/// The files below a folder that may be traces, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    files_in(folder, DEPTH, &mut files)?;
    files.sort();
    Ok(files)
}

fn files_in(folder: &Path, depth: u8, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |error| anyhow::Error::new(error).context(folder.display().to_string());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
        if path.is_dir() && depth > 0 {
            files_in(&path, depth - 1, files)?;
        } else if path.is_file() && !NO_TRACES.contains(&extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// The result of a run.
pub(super) struct Run {
    pub(super) replay: Replay,
    /// The caches after the run.
    pub(super) caches: Vec<Ours<u64>>,
    /// Whether a thread had no core, or cores were not near each other.
    pub(super) disturbed: bool,
}

/// Times runs; those of several threads while the latency between cores is as low as it gets. That
/// latency depends on the host of a virtual machine, and changes the throughput of all policies by
/// a factor.
pub(super) struct Timer {
    distance: Distance,
    /// Least operations of a run, if misses do not wait.
    operations: f64,
    pub(super) runs: usize,
    pub(super) disturbed: usize,
}

impl Timer {
    /// A trace with fewer operations is replayed on several caches. All runs together wait no
    /// longer than `patience` for a low latency between cores.
    pub(super) fn new(operations: f64, patience: Duration) -> Self {
        let distance = Distance::least().with_patience(patience);
        Timer { distance, operations, runs: 0, disturbed: 0 }
    }

    /// The latency of a cache line between cores in runs of several threads; `None` if unknown.
    pub(super) fn transfer_ns(&self) -> Option<f64> {
        self.distance.transfer_ns()
    }

    /// Million requests a second from a trace's beginning to its end.
    pub(super) fn mops(
        &mut self,
        policy: Setup,
        capacity: u64,
        streams: &[Stream],
        backend_us: f64,
    ) -> f64 {
        self.run(streams, backend_us, true, || Ours::new(policy, capacity, 0)).replay.mops
    }

    /// Requests the streams, from beginning to end, from as many new caches as necessary. A run is
    /// repeated if a thread lacked a core, where that matters, or if other work was on the machine.
    pub(super) fn run(
        &mut self,
        streams: &[Stream],
        backend_us: f64,
        needs_cores: bool,
        cache: impl Fn() -> Ours<u64>,
    ) -> Run {
        let operations = streams.iter().map(Stream::len).sum::<usize>().max(1) as f64;
        let least = self.operations / (1.0 + backend_us / HALF_US);
        let count = ((least / operations).ceil() as usize).clamp(1, MOST_CACHES);
        let latency = Duration::from_secs_f64(backend_us / 1e6);
        let backend = Backend::new(latency, MPL_A_THREAD * streams.len());
        let meet = streams.len() > 1;
        self.runs += 1;
        let mut attempts = ATTEMPTS;
        loop {
            let caches: Vec<_> = (0..count).map(|_| cache()).collect();
            if meet {
                self.distance.wait();
            }
            let (began, before) = (Instant::now(), Processors::now(&[]));
            let replay = replay(&caches, streams, (backend_us > 0.0).then_some(backend));
            let near = !meet || self.distance.is_kept();
            let share = replay.cpu_share.filter(|_| needs_cores);
            let had_cores = share.is_none_or(|share| share >= LEAST_SHARE);
            let disturbed = Processors::now(&[])
                .zip(before)
                .is_some_and(|(now, before)| now.were_disturbed_since(&before));
            if near && had_cores && !disturbed {
                return Run { replay, caches, disturbed: false };
            }
            self.distance.spend(began.elapsed());
            attempts -= 1;
            if attempts == 0 || !self.distance.has_patience() {
                self.disturbed += 1;
                return Run { replay, caches, disturbed: true };
            }
        }
    }
}
