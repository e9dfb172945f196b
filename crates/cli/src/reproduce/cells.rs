//! Measures contenders: in turn, on their own caches, with the same requests.
//!
//! Every thread requests all of one trace under its own keys, and the cache grows with the threads,
//! as in paper 3 (§5.2). Each round builds each cache anew, fills it with the objects that the
//! trace requests first, and continues behind them; the first contender changes from round to
//! round. Speeds are compared within a round, and the median of the ratios counts, because a
//! machine drifts by more than contenders differ.
//!
//! **Writes to shared lines** are `Stats::shared_writes`, which the cache counts where it makes
//! them: the ends of queues and stacks, the free capacity, sums, and for a policy under a lock the
//! lock, its lists' neighbours, its free list and its clock, on misses and on hits that take the
//! lock. It excludes data of one entry that every policy writes (its word in the index twice in its
//! life, its slot, its place in a queue, ghosts and W-TinyLFU's counters), because threads meet
//! there only on the same entry. A mark is one of these; the simulator counts the hits that write
//! one. Failed attempts are `Stats::retries`; two cores show few of them, so the writes are counted
//! beside the speeds.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use frazil::{Builder, Cache, Policy, Promotion, Stats};
use frazil_driver::{
    Ask, Engine, Latencies, Little, Measured, Operation, Ours, Pace, Schedule, Session, Simulated,
    Stream, key,
};
use frazil_simulator::trace::Trace;

use crate::median::median;
use crate::output::{Row, row};

/// A processor share below this means that the machine had other work.
const LEAST_SHARE: f64 = 0.9;
/// Rounds that may be repeated because of other work.
const SPARE_ROUNDS: usize = 1;

/// A policy in the experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) policy: Policy,
    /// Entries in a segment, new ones included.
    pub(super) batch: u32,
    /// Whether the visited entries that an eviction passes move as one.
    pub(super) detects_runs: bool,
    /// Its colour and marker in every figure.
    pub(super) number: usize,
}

impl Contender {
    /// Whether the policy is under a lock. Then waiting threads sleep, so that a small processor
    /// share need not be a disturbance.
    pub(super) fn takes_lock(&self) -> bool {
        let free = Policy::Clock { bits: 1 };
        ![Policy::Mobius, Policy::S3Fifo, Policy::Fifo, free].contains(&self.policy)
    }

    /// The policy in a cache of `capacity` entries.
    ///
    /// The window of `lru-delayed` is as many requests as the cache has entries. CacheLib's is 60
    /// s, in which it serves over a hundred times the paper's requests: the first hit promotes an
    /// object, later hits hardly ever. Here an insertion starts a window too, so a window longer
    /// than the residence of objects would make the policy FIFO. Objects outlive our window: from
    /// head to tail they take about two windows at 1 % and four at 10 %.
    pub(super) fn policy_at(&self, capacity: u64) -> Policy {
        match self.policy {
            Policy::LruDelayed { .. } => Policy::LruDelayed { window: capacity },
            policy => policy,
        }
    }

    pub(super) fn cache(&self, capacity: u64) -> Ours<u64> {
        Ours::built(self.policy.into(), self.builder(capacity))
    }

    fn builder<V>(&self, capacity: u64) -> Builder<u64, V> {
        let builder = Cache::builder(capacity).policy(self.policy_at(capacity));
        let builder = builder.batch(self.batch).consecutive_detection(self.detects_runs);
        // SIEVE has a lock, which its hits do not take.
        let promotes = self.takes_lock() && self.policy != Policy::Sieve;
        if promotes { builder.promotion(Promotion::EveryHit) } else { builder }
    }

    /// The share of a trace's requests that one thread finds in the cache, from the first.
    ///
    /// The cache hashes as the simulator does. W-TinyLFU's sketch and window depend on the hashes:
    /// results differ by up to a point and a half.
    pub(super) fn hit_ratio(&self, trace: &Trace, capacity: u64) -> f64 {
        let cache = self.builder::<u64>(capacity).with_hasher(Simulated::default()).build();
        let is_hit = |id: &&u32| {
            let key = trace.objects[**id as usize];
            let hit = cache.get(&key).is_some();
            if !hit {
                cache.insert(key, 0);
            }
            hit
        };
        trace.ids.iter().filter(is_hit).count() as f64 / trace.len().max(1) as f64
    }
}

/// The size of an experiment.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub(super) objects: u64,
    pub(super) requests: u64,
    pub(super) rounds: usize,
    pub(super) schedule: Schedule,
}

/// The place of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) figure: u32,
    pub(super) percent: u32,
    pub(super) threads: usize,
}

/// The figures of one contender at one spot.
pub(super) struct Cell {
    pub(super) spot: Spot,
    pub(super) contender: &'static str,
    pub(super) capacity: u64,
    /// In the order of the rounds.
    pub(super) rounds: Vec<Measured>,
    pub(super) latencies: Latencies,
    /// Rounds in which the machine had other work.
    pub(super) disturbed: usize,
    /// Gets of all rounds, warm-ups included.
    gets: u64,
    shared_writes: u64,
    retries: u64,
}

impl Cell {
    pub(super) fn mops(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.mops))
    }

    pub(super) fn shared_writes(&self) -> f64 {
        self.shared_writes as f64 / self.gets.max(1) as f64
    }

    /// Whether the latencies of the rounds, taken together, agree with the throughput.
    pub(super) fn little(&self) -> Little {
        let mut pace = Pace::default();
        self.rounds.iter().for_each(|round| pace.add(&round.pace));
        pace.little()
    }

    pub(super) fn row(&self) -> Row {
        let of = |value: fn(&Measured) -> f64| median(self.rounds.iter().map(value));
        let least = |value: fn(&Measured) -> Option<f64>| {
            self.rounds.iter().filter_map(value).reduce(f64::min)
        };
        let quantile = |share| self.latencies.quantile_ns(share);
        row! {
            "kind" => "speed",
            "figure" => self.spot.figure,
            "policy" => self.contender,
            "capacity_percent" => self.spot.percent,
            "capacity" => self.capacity,
            "threads" => self.spot.threads,
            "mops" => self.mops(),
            "disturbed_rounds" => self.disturbed,
            "mops_rounds" => self.rounds.iter().map(|round| round.mops).collect::<Vec<_>>(),
            "hit_ratio" => of(|round| round.hit_ratio),
            "p50_ns" => quantile(0.5),
            "p90_ns" => quantile(0.9),
            "p99_ns" => quantile(0.99),
            "p999_ns" => quantile(0.999),
            "shared_writes" => self.shared_writes(),
            "retries" => self.retries as f64 / self.gets.max(1) as f64,
            "cpu_share" => least(|round| round.cpu_share),
            "little" => self.little().ratio(),
            "latencies_valid" => self.little().holds(),
        }
    }
}

/// A share of the objects of a trace, in objects; at least 1.
pub(super) fn capacity(trace: &Trace, percent: u32) -> u64 {
    (trace.objects.len() as u64 * u64::from(percent) / 100).max(1)
}

/// Measures contenders alternately at one spot. `done` gets the number of caches measured. A round
/// in which the machine had other work is repeated, up to a limit.
pub(super) fn compare(
    trace: &Trace,
    spot: Spot,
    contenders: &[Contender],
    extent: &Extent,
    done: &dyn Fn(usize),
) -> Vec<Cell> {
    let resident = capacity(trace, spot.percent);
    let total = resident * spot.threads as u64;
    let mut cells: Vec<Cell> = contenders
        .iter()
        .map(|contender| Cell {
            spot,
            contender: contender.name,
            capacity: total,
            rounds: Vec::new(),
            latencies: Latencies::new(),
            disturbed: 0,
            gets: 0,
            shared_writes: 0,
            retries: 0,
        })
        .collect();
    let streams = streams(trace, resident, spot.threads);
    let mut rounds: Vec<Round> = Vec::new();
    for number in 0..extent.rounds + SPARE_ROUNDS {
        let mut round = Round { drives: Vec::new(), share: 1.0 };
        let mut turns: Vec<usize> = (0..contenders.len()).collect();
        turns.rotate_left(number % contenders.len().max(1));
        for turn in turns {
            let contender = &contenders[turn];
            let engine = contender.cache(total);
            each_thread(spot.threads, |thread| insert(&engine, thread, 0..resident));
            let before = engine.cache().stats();
            // The cache is warm after as many further insertions as filled it.
            let measured = frazil_driver::run(&engine, &streams, total, &extent.schedule);
            if !contender.takes_lock() {
                round.share = round.share.min(measured.cpu_share.unwrap_or(1.0));
            }
            round.drives.push((turn, measured, before, engine.cache().stats()));
        }
        rounds.push(round);
        done(if number < extent.rounds { contenders.len() } else { 0 });
        let undisturbed = rounds.iter().filter(|round| round.share >= LEAST_SHARE).count();
        if undisturbed >= extent.rounds {
            break;
        }
    }
    rounds.sort_by(|one, other| other.share.total_cmp(&one.share));
    for Round { drives, share } in rounds.into_iter().take(extent.rounds) {
        for (turn, measured, before, after) in drives {
            let cell = &mut cells[turn];
            cell.gets += after.hits + after.misses - before.hits - before.misses;
            cell.shared_writes += after.shared_writes - before.shared_writes;
            cell.retries += after.retries - before.retries;
            cell.latencies.add(&measured.latencies);
            cell.rounds.push(measured);
            cell.disturbed += usize::from(share < LEAST_SHARE);
        }
    }
    cells
}

/// The results of all contenders in a round.
struct Round {
    /// By the contender's number; with its counts before and after.
    drives: Vec<(usize, Measured, Stats, Stats)>,
    /// The least share of the processor that a contender without a lock got.
    share: f64,
}

/// The requests of each thread: all of the trace, from the first with which its own cache would be
/// full.
fn streams(trace: &Trace, resident: u64, threads: usize) -> Vec<Stream> {
    // Objects are numbered by their first request.
    let is_new = |&id: &u32| u64::from(id) >= resident;
    let start = trace.ids.iter().position(is_new).unwrap_or(0);
    let (front, back) = trace.ids.split_at(start);
    let operations: Arc<[Operation]> =
        back.iter().chain(front).map(|&id| Operation::new(Ask::Get, id)).collect();
    (0..threads).map(|thread| Stream::new(Arc::clone(&operations), thread as u32)).collect()
}

fn insert(engine: &Ours<u64>, thread: usize, ids: std::ops::Range<u64>) {
    let mut session = engine.session();
    for id in ids {
        session.insert(key(id as u32, thread as u32));
    }
}

/// Runs `work` in each of `threads` at once. Returns nanoseconds from the first start to the last
/// end, by the threads' own clocks: on a busy machine the thread that waits for them may run only
/// long after they end.
fn each_thread(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Barrier::new(threads);
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    work(thread);
                    (began, Instant::now())
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    });
    let began = spans.iter().map(|span| span.0).min();
    let ended = spans.iter().map(|span| span.1).max();
    began.zip(ended).map_or(0.0, |(began, ended)| (ended - began).as_nanos() as f64)
}

/// The tasks of figure 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Task {
    /// Look up present keys.
    Access,
    /// Insert with free capacity.
    Insert,
    /// Insert into a full cache.
    Evict,
}

impl Task {
    pub(super) const ALL: [Task; 3] = [Task::Access, Task::Insert, Task::Evict];

    pub(super) fn name(self) -> &'static str {
        match self {
            Task::Access => "access",
            Task::Insert => "insert",
            Task::Evict => "evict",
        }
    }
}

/// The cost of one task with one contender.
pub(super) struct Cost {
    pub(super) contender: &'static str,
    pub(super) threads: usize,
    pub(super) task: Task,
    /// Time of a core for one operation, by round.
    ns: Vec<f64>,
}

impl Cost {
    /// The least of all rounds: disturbances only add time.
    pub(super) fn least_ns(&self) -> f64 {
        self.ns.iter().copied().fold(f64::MAX, f64::min)
    }

    pub(super) fn row(&self) -> Row {
        row! {
            "kind" => "cost",
            "figure" => 4,
            "policy" => self.contender,
            "threads" => self.threads,
            "task" => self.task.name(),
            "ns" => self.least_ns(),
        }
    }
}

/// Measures the three tasks of each contender, alternately.
pub(super) fn costs(
    trace: &Trace,
    threads: usize,
    contenders: &[Contender],
    rounds: usize,
    done: &dyn Fn(usize),
) -> Vec<Cost> {
    let resident = capacity(trace, 10);
    let hot = trace.ids.iter().filter(|&&id| u64::from(id) < resident);
    let hot: Vec<u32> = hot.copied().take(8 * resident as usize).collect();
    let cores = threads.min(frazil_driver::cores()) as f64;
    let mut costs: Vec<Cost> = contenders
        .iter()
        .flat_map(|contender| {
            let name = contender.name;
            Task::ALL.map(|task| Cost { contender: name, threads, task, ns: Vec::new() })
        })
        .collect();
    for round in 0..rounds {
        for place in 0..contenders.len() {
            let number = (place + round) % contenders.len();
            let engine = contenders[number].cache(resident * threads as u64);
            // Once before, so that the memory has been used.
            each_thread(threads, |thread| insert(&engine, thread, resident..2 * resident));
            engine.cache().clear();
            let filled = each_thread(threads, |thread| insert(&engine, thread, 0..resident));
            let looked = each_thread(threads, |thread| look_up(&engine, thread, &hot));
            let newcomers = resident..2 * resident;
            let evicted = each_thread(threads, |thread| insert(&engine, thread, newcomers.clone()));
            let share = cores / threads as f64;
            let times =
                [looked / hot.len() as f64, filled / resident as f64, evicted / resident as f64];
            for (cost, time) in costs[number * 3..].iter_mut().zip(times) {
                cost.ns.push(time * share);
            }
            done(1);
        }
    }
    costs
}

fn look_up(engine: &Ours<u64>, thread: usize, ids: &[u32]) {
    let mut session = engine.session();
    let read = ids.iter().filter_map(|&id| session.get(key(id, thread as u32)));
    std::hint::black_box(read.fold(0, u64::wrapping_add));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_threads_is_that_of_the_longest() {
        let milliseconds = |thread: usize| Duration::from_millis([1, 30][thread]);
        let ns = each_thread(2, |thread| std::thread::sleep(milliseconds(thread)));
        assert!(ns >= 30e6, "{ns}");
    }
}
