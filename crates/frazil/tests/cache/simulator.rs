//! The concurrent cache against the simulator, request by request, on real traces, and on two
//! generated ones, which are always available.
//!
//! One thread: the same misses, to the last one, for every policy, in objects and in
//! bytes. Two threads on halves of a trace dealt out in turn: within half a point of the
//! simulator's count for some order of the same requests.

use crate::extent::{is_long, policies};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};

use frazil::{Cache, Policy};
use frazil_driver::Simulated;
use frazil_policy::Rng;
use frazil_simulator::trace::{Format, Operation, ReadOptions, Trace, load, read};
use frazil_simulator::{CellSpec, SweepOptions, Unit, sweep};

/// Number of a trace's requests that are replayed, from its beginning.
fn requests() -> u64 {
    if is_long() { 2_000_000 } else { 10_000 }
}

/// The same for threads in step, which cost ten times as much.
fn requests_in_step() -> u64 {
    requests() / 8
}

/// Policies whose order threads change without a lock, and two under one.
fn policies_in_step() -> Vec<Policy> {
    let under_a_lock = [Policy::Lru, Policy::WTinyLfu];
    let is_one = |policy: &Policy| {
        let lock_free =
            matches!(policy, Policy::Fifo | Policy::Clock { .. } | Policy::Mobius | Policy::S3Fifo);
        is_long() || lock_free || under_a_lock.contains(policy)
    };
    policies().into_iter().filter(is_one).collect()
}
/// How far two threads may be from the simulator, as a share of the requests.
const TWO_THREADS: f64 = 0.005;

type Tested = Cache<u64, u64, Simulated>;

fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("FRAZIL_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../../shared/traces"),
    };
    if folder.join("reference.jsonl").exists() {
        return Some(folder);
    }
    _ = writeln!(std::io::stderr(), "SKIPPED: no traces in {}", folder.display());
    None
}

fn traces(requests: u64) -> Vec<(String, Trace)> {
    let generated = ["mix:objects=4K", "zipf:0.8:objects=20K"].map(|name| {
        let loaded = load(&format!("{name}:requests={requests}"), &ReadOptions::default());
        (name.to_owned(), loaded.expect("a generator").trace)
    });
    let real = folder().map_or_else(Vec::new, |folder| real_traces(&folder, requests));
    generated.into_iter().chain(real).collect()
}

fn real_traces(folder: &Path, requests: u64) -> Vec<(String, Trace)> {
    let text = std::fs::read_to_string(folder.join("README.md")).expect("readable");
    let mut names: Vec<String> = Vec::new();
    for group in ["adaptsize", "arc", "cache2k", "libcachesim", "lirs", "delayedhits"] {
        for file in std::fs::read_dir(folder.join(group)).expect("a folder of traces") {
            let name = file.expect("an entry").file_name().to_string_lossy().into_owned();
            names.push(format!("{group}/{name}"));
        }
    }
    assert!(!text.is_empty() && names.len() >= 10, "the traces are there");
    names.sort();
    let options = ReadOptions { limit: Some(requests), ..ReadOptions::default() };
    let read = |name: String| {
        let format = name.starts_with("cache2k/").then_some(Format::Cache2k);
        let options = ReadOptions { format, ..options.clone() };
        let trace = read(&folder.join(&name), &options).expect("the trace reads").trace;
        (name, trace)
    };
    names.into_iter().map(read).collect()
}

fn capacities(trace: &Trace) -> [u64; 3] {
    let objects = trace.objects.len() as u64;
    [objects / 1000, objects / 50, objects / 5].map(|capacity| capacity.max(3))
}

fn build(policy: Policy, capacity: u64, unit: Unit, trace: &Trace) -> Tested {
    let builder = Cache::builder(capacity).policy(policy).with_hasher(Simulated::default());
    match unit {
        Unit::Objects => builder.build(),
        Unit::Bytes => {
            builder.weigher(|_: &u64, size: &u64| *size).entries(trace.objects.len() as u64).build()
        }
    }
}

/// Replays all records. Returns the counted misses.
fn replay(cache: &Tested, trace: &Trace) -> u64 {
    replay_part(cache, trace, 0, 1, |_| ())
}

/// How far each of two threads is. They wait for each other asleep: on a busy machine a polling
/// thread loses a time slice each time.
#[derive(Default)]
struct Steps {
    done: Mutex<[usize; 2]>,
    moved: Condvar,
}

impl Steps {
    /// A thread has come to a record, and waits until the other has too.
    fn reach(&self, part: usize, record: usize) {
        let mut done = self.done.lock().expect("no panic");
        done[part] = record;
        self.moved.notify_one();
        drop(self.moved.wait_while(done, |done| done[1 - part] < record).expect("no panic"));
    }
}

/// Replays the records of every `parts`th object, beginning with `part`, each after `reach` has
/// returned. Returns the counted misses.
///
/// Split by object, because two threads that request the same absent key at once both miss,
/// whatever the policy.
fn replay_part(
    cache: &Tested,
    trace: &Trace,
    part: usize,
    parts: usize,
    reach: impl Fn(usize),
) -> u64 {
    let mut misses = 0;
    for record in 0..trace.ids.len() {
        if trace.ids[record] as usize % parts != part {
            continue;
        }
        reach(record);
        let id = trace.objects[trace.ids[record] as usize];
        let size = trace.sizes.get(record).unwrap_or(1);
        match trace.operations.get(record).copied().unwrap_or_default() {
            Operation::Get => {
                if cache.get(&id).is_none() {
                    misses += 1;
                    cache.insert(id, size);
                }
            }
            Operation::Set => cache.insert(id, size),
            Operation::Delete => {
                cache.invalidate(&id);
            }
        }
    }
    reach(usize::MAX);
    misses
}

fn simulated(trace: &Trace, policy: Policy, capacities: &[u64], unit: Unit) -> Vec<(u64, u64)> {
    let policy = policy.to_string().parse().expect("the simulator has it");
    let cells: Vec<CellSpec> =
        capacities.iter().map(|&capacity| CellSpec { policy, capacity }).collect();
    let outcomes = sweep(trace, &cells, &SweepOptions { unit, ..SweepOptions::default() }, &|_| ());
    outcomes.iter().map(|outcome| (outcome.misses(), outcome.requests)).collect()
}

#[test]
fn one_thread_misses_exactly_as_often() {
    let (mut compared, mut failures) = (0, Vec::new());
    for (name, trace) in traces(requests()) {
        for policy in policies() {
            let capacities = capacities(&trace);
            let expected = simulated(&trace, policy, &capacities, Unit::Objects);
            for (capacity, (misses, _)) in capacities.into_iter().zip(expected) {
                let cache = build(policy, capacity, Unit::Objects, &trace);
                let found = replay(&cache, &trace);
                compared += 1;
                if found != misses {
                    failures.push(format!("{name} {policy} {capacity}: {found}, not {misses}"));
                }
                assert!(cache.len() as u64 <= capacity);
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    println!("{compared} cells equal the simulator");
}

/// The choice of the victim does not depend on how survivors move.
#[test]
fn without_consecutive_detection_as_often() {
    let spec = "zipf:0.9:objects=5000:requests=100000:seed=3";
    let trace = load(spec, &Default::default()).expect("a generated trace").trace;
    // With segments of 16, of 4 and of 1.
    let capacities = [30_000, 2_500, 50];
    let expected = simulated(&trace, Policy::Mobius, &capacities, Unit::Objects);
    for (capacity, (misses, _)) in capacities.into_iter().zip(expected) {
        let builder = Cache::builder(capacity).consecutive_detection(false);
        let mut cache: Tested = builder.with_hasher(Simulated::default()).build();
        assert_eq!(replay(&cache, &trace), misses, "{capacity}");
        cache.validate().expect("nothing is lost, and nothing twice");
    }
}

#[test]
fn one_thread_misses_exactly_as_often_in_bytes() {
    let (mut compared, mut failures) = (0, Vec::new());
    for (name, trace) in traces(requests()).into_iter().filter(|(_, trace)| !trace.sizes.is_empty())
    {
        let total: u64 = trace.sizes.iter().sum();
        let capacities = [total / 10_000, total / 300, total / 30];
        // The ghost's table cannot grow in a concurrent cache: S3-FIFO is left out.
        let exact = policies().into_iter().filter(|&policy| policy != Policy::S3Fifo);
        for policy in exact {
            let expected = simulated(&trace, policy, &capacities, Unit::Bytes);
            for (capacity, (misses, _)) in capacities.into_iter().zip(expected) {
                let cache = build(policy, capacity, Unit::Bytes, &trace);
                let found = replay(&cache, &trace);
                compared += 1;
                if found != misses {
                    failures.push(format!("{name} {policy} {capacity}: {found}, not {misses}"));
                }
                assert!(cache.weight() <= capacity);
            }
        }
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    println!("{compared} cells equal the simulator");
}

/// The least and the most misses of a cell when neighbouring requests change places randomly, as
/// requests of two threads do. That alone moves SIEVE by 8 points on `lirs/zigzag`, and W-TinyLFU
/// by 2 on `lirs/sprite`.
fn reordered(trace: &Trace, policy: Policy, capacity: u64) -> [u64; 2] {
    let misses = |seed| {
        let mut rng = Rng::new(seed);
        let mut trace = trace.clone();
        for at in 1..trace.ids.len() {
            if rng.bits() & 1 == 0 {
                trace.ids.swap(at - 1, at);
            }
        }
        simulated(&trace, policy, &[capacity], Unit::Objects)[0].0
    };
    let misses = [1, 2, 3, 4, 5, 6, 7, 8].map(misses);
    [misses.into_iter().min(), misses.into_iter().max()].map(|found| found.expect("eight"))
}

#[test]
fn two_threads_come_within_half_a_point() {
    let mut failures = Vec::new();
    for (name, trace) in traces(requests_in_step()) {
        for policy in policies_in_step() {
            let capacities = capacities(&trace);
            let expected = simulated(&trace, policy, &capacities, Unit::Objects);
            for (capacity, (misses, requests)) in capacities.into_iter().zip(expected) {
                let cache = build(policy, capacity, Unit::Objects, &trace);
                let steps = Steps::default();
                let found: u64 = std::thread::scope(|scope| {
                    let of = |part| {
                        let (cache, trace, steps) = (&cache, &trace, &steps);
                        let reach = move |record| steps.reach(part, record);
                        scope.spawn(move || replay_part(cache, trace, part, 2, reach))
                    };
                    let threads = [of(0), of(1)];
                    threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
                });
                let far =
                    |misses: u64| found.abs_diff(misses) as f64 / requests as f64 > TWO_THREADS;
                if !far(misses) {
                    continue;
                }
                let [least, most] = reordered(&trace, policy, capacity);
                let line = format!("{name} {policy} {capacity}: {found}, not {misses}");
                if far(found.clamp(least.min(misses), most.max(misses))) {
                    failures.push(format!("{line}, nor {least} to {most} in other orders"));
                } else {
                    println!("{line}, but {least} to {most} in other orders");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}
