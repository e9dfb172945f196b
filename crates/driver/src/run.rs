//! The loop: threads that request their streams from one cache, and their results.
//!
//! All threads start together, each on its own core if there are enough. After a warm-up the time
//! is cut into slices; the speed is the median of the slices, so that a hiccup of the machine costs
//! one slice. Threads never wait for one another or for the measuring thread: each has its own
//! sums. Once a batch of operations it publishes them in its own cache line, and checks whether to
//! continue.
//!
//! One operation of each batch is timed, at random: an engine's periodic work would otherwise fall
//! on the timed operations always, or never. Reading the clock twice takes some 30 to 50 ns, which
//! are part of every latency; in the speed they are 0.2 ns an operation.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::backend::{Backend, Immediate, Misses};
use crate::cores;
use crate::engine::{Engine, Session};
use crate::little::{Little, Pace, Timed};
use crate::stream::{Ask, Operation, Stream};
use crate::undisturbed::{Marks, Undisturbed, undisturbed};

/// Operations between two updates of the state shared with other threads, unless they wait.
pub(crate) const BATCH: usize = 256;

/// One batch in this number has operations that are forced to stand alone.
const ALONE_EVERY: u32 = 64;
/// Operations in a row that stand alone: a thousandth of all.
const ALONE: usize = 16;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Time of the warm-up, which does not count. It is repeated, ten times at most, until the
    /// streams were requested once or the number of insertions given to [`run`] is reached.
    pub warmup: Duration,
    /// Time that is measured.
    pub measured: Duration,
    /// Pieces of that time; their median speed is reported. At least 1.
    pub slices: u32,
}

impl Schedule {
    /// This many seconds after a warm-up of a quarter of that, in at most ten slices: a slice
    /// shorter than 20 ms says more about the scheduler.
    ///
    /// ```
    /// let schedule = frazil_driver::Schedule::seconds(2.0);
    /// assert_eq!((schedule.warmup.as_millis(), schedule.slices), (500, 10));
    /// ```
    pub fn seconds(seconds: f64) -> Self {
        let measured = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
        let slices = (measured.as_millis() / 20).clamp(1, 10) as u32;
        Schedule { warmup: measured / 4, measured, slices }
    }
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Million operations a second of all threads: the median of the slices.
    pub mops: f64,
    /// The same of the slowest slice.
    pub mops_min: f64,
    /// The same of the fastest slice.
    pub mops_max: f64,
    /// Share of the gets of the cache that found their key; 0 without one.
    pub hit_ratio: f64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of the latencies.
    pub p99_ns: u64,
    /// 99.9th percentile of the latencies.
    pub p999_ns: u64,
    /// All timed latencies.
    pub latencies: Latencies,
    /// Processor time over wall-clock time: of the thread that got least if there is a core for
    /// each, else of all cores together. `None` if it is unknown.
    pub cpu_share: Option<f64>,
    /// The part of the time in which every thread had a core, and its speed.
    pub undisturbed: Undisturbed,
    /// Times of operations by Little's law.
    pub pace: Pace,
}

impl Measured {
    /// Whether the latencies agree with the throughput.
    ///
    /// ```
    /// use frazil::Policy;
    /// use frazil_driver::{Ours, Schedule, Workload, run};
    /// let streams = Workload::Hit.streams(1_000, 10_000, 1)?;
    /// let measured =
    ///     run(&Ours::<u64>::new(Policy::Mobius, 1_000, 0), &streams, 0, &Schedule::seconds(0.05));
    /// assert!(measured.little().expected_ns > 0.0);
    /// # Ok::<(), frazil_driver::WorkloadError>(())
    /// ```
    pub fn little(&self) -> Little {
        self.pace.little()
    }
}

/// Latencies of single operations, to one part in a thousand.
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::{Ours, Schedule, Workload, run};
///
/// let streams = Workload::Hit.streams(1_000, 10_000, 1)?;
/// let ours = Ours::<u64>::new(Policy::Mobius, 1_000, 0);
/// let measured = run(&ours, &streams, 0, &Schedule::seconds(0.05));
/// let mut latencies = measured.latencies.clone();
/// latencies.add(&measured.latencies);
/// assert_eq!(latencies.quantile_ns(0.5), measured.p50_ns);
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// An empty histogram, for latencies from a nanosecond to 100 s.
    ///
    /// ```
    /// assert_eq!(frazil_driver::Latencies::new().quantile_ns(0.5), 0);
    /// ```
    pub fn new() -> Self {
        let bounds = Histogram::new_with_bounds(1, 100_000_000_000, 3);
        // The bounds are constants that the histogram's documentation allows.
        Latencies(bounds.expect("constant bounds are valid"))
    }

    /// Adds the counts of another run.
    ///
    /// ```
    /// let mut latencies = frazil_driver::Latencies::new();
    /// latencies.add(&frazil_driver::Latencies::new());
    /// assert_eq!(latencies, frazil_driver::Latencies::new());
    /// ```
    pub fn add(&mut self, others: &Latencies) {
        // `new` made both, so every value of one fits in the other.
        self.0.add(&others.0).expect("histograms of equal bounds add up");
    }

    /// The quantile `share` of the latencies; 0 if there are none.
    ///
    /// ```
    /// assert_eq!(frazil_driver::Latencies::new().quantile_ns(0.999), 0);
    /// ```
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// Removes all latencies.
    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds a latency.
    ///
    /// ```
    /// let mut latencies = frazil_driver::Latencies::new();
    /// latencies.record(std::time::Duration::from_nanos(100));
    /// assert_eq!(latencies.quantile_ns(0.5), 100);
    /// ```
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Sums of one thread.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Gets that bypassed the cache.
    pub(crate) bypassed: u64,
    /// Requested insertions and removals, without insertions after a miss.
    pub(crate) others: u64,
    /// Sum of the values read.
    pub(crate) read: u64,
}

impl Tally {
    pub(crate) fn operations(&self) -> u64 {
        self.hits + self.misses + self.bypassed + self.others
    }
}

/// Does one operation; `misses` handles a miss. `asked` is the start, if it is timed. Returns
/// whether it is finished.
#[inline(always)]
pub(crate) fn operate(
    session: &mut impl Session,
    misses: &mut impl Misses,
    operation: Operation,
    prefix: u32,
    asked: Option<Instant>,
    tally: &mut Tally,
) -> bool {
    let key = operation.key(prefix);
    match operation.ask() {
        Ask::Get if misses.bypasses(session) => {
            tally.bypassed += 1;
            return misses.pass_by(asked);
        }
        Ask::Get => match session.get(key) {
            Some(read) => {
                tally.hits += 1;
                tally.read = tally.read.wrapping_add(read);
            }
            None => {
                tally.misses += 1;
                return misses.miss(session, key, asked);
            }
        },
        Ask::Insert => {
            session.insert(key);
            tally.others += 1;
        }
        Ask::Remove => {
            session.remove(key);
            tally.others += 1;
        }
    }
    true
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

/// A thread's published state, in its own cache line and the neighbour.
#[derive(Default)]
#[repr(align(128))]
struct Shown {
    operations: AtomicU64,
    inserts: AtomicU64,
}

/// State shared by the threads.
struct Board {
    phase: AtomicU8,
    start: Barrier,
    shown: Vec<Shown>,
}

/// A thread's report when it ends.
struct Report {
    hits: u64,
    misses: u64,
    latencies: Latencies,
    wall: Duration,
    processor: Option<Duration>,
    marks: Marks,
    pace: Pace,
}

/// Drives `engine` with a thread for each stream. It is warm when `fill` entries have been
/// inserted; 0 for an engine that was filled before.
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::{Ours, Schedule, Workload, run};
///
/// let workload: Workload = "zipf:1.0".parse()?;
/// let streams = workload.streams(1_000, 10_000, 2)?;
/// let ours = Ours::<u64>::new(Policy::Mobius, 1_000, 0);
/// let measured = run(&ours, &streams, 2_000, &Schedule::seconds(0.05));
/// assert!(measured.mops > 0.0 && measured.hit_ratio > 0.9);
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
pub fn run<E: Engine>(engine: &E, streams: &[Stream], fill: u64, schedule: &Schedule) -> Measured {
    drive(engine, streams, fill, schedule, |_| Immediate)
}

/// As [`run`], with a backend for which misses wait. Operations count when they begin.
///
/// ```
/// use std::time::Duration;
/// use frazil::Policy;
/// use frazil_driver::{Backend, Ours, Schedule, Workload, run_with_backend};
///
/// let streams = "zipf:1.0".parse::<Workload>()?.streams(1_000, 10_000, 1)?;
/// let ours = Ours::<u64>::new(Policy::Mobius, 100, 0);
/// let backend = Backend::new(Duration::from_micros(100), 4);
/// let measured = run_with_backend(&ours, &streams, 200, &Schedule::seconds(0.05), backend);
/// // Of four requests at a time, those that miss take 100 µs.
/// assert!(measured.mops * (1.0 - measured.hit_ratio) <= 4.0 / 100.0 * 1.5);
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
pub fn run_with_backend<E: Engine>(
    engine: &E,
    streams: &[Stream],
    fill: u64,
    schedule: &Schedule,
    backend: Backend,
) -> Measured {
    drive(engine, streams, fill, schedule, |thread| backend.part(thread, streams.len()))
}

fn drive<E: Engine, M: Misses>(
    engine: &E,
    streams: &[Stream],
    fill: u64,
    schedule: &Schedule,
    misses_of: impl Fn(usize) -> M + Sync,
) -> Measured {
    let board = Board {
        phase: AtomicU8::new(WARMING),
        start: Barrier::new(streams.len() + 1),
        shown: streams.iter().map(|_| Shown::default()).collect(),
    };
    let allowed = cores::allowed();
    std::thread::scope(|scope| {
        let board = &board;
        let (allowed, misses_of) = (&allowed, &misses_of);
        let threads: Vec<_> = streams
            .iter()
            .enumerate()
            .map(|(thread, stream)| {
                scope.spawn(move || {
                    cores::take_turn(thread, allowed);
                    work(engine, stream, misses_of(thread), board, thread)
                })
            })
            .collect();
        board.start.wait();
        // The scope waits for the threads even if an engine panics below.
        let stop = Stop(board);
        let stream_operations = streams.iter().map(|stream| stream.len() as u64).sum();
        warm_up(board, schedule.warmup, stream_operations, fill);
        engine.warmed();
        board.phase.store(MEASURING, Relaxed);
        let speeds = slices(board, schedule);
        drop(stop);
        let reports = threads.into_iter().map(|thread| match thread.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        summary(speeds, &reports.collect::<Vec<_>>(), cores::cores())
    })
}

/// Stops the threads when it is dropped.
struct Stop<'a>(&'a Board);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.phase.store(STOPPED, Relaxed);
    }
}

fn work<E: Engine, M: Misses>(
    engine: &E,
    stream: &Stream,
    mut misses: M,
    board: &Board,
    thread: usize,
) -> Report {
    board.start.wait();
    let mut session = engine.session();
    let mut timed = Timed::new();
    let (mut tally, mut marks) = (Tally::default(), Marks::default());
    let (mut warm_hits, mut warm_misses, mut warm_operations) = (0, 0, 0);
    let mut seen = WARMING;
    let shown = &board.shown[thread];
    let mut began = (Instant::now(), cores::thread_time());
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(thread as u64);
    for batch in stream.operations.chunks(M::BATCH).cycle() {
        let phase = board.phase.load(Relaxed);
        if phase != seen {
            if phase == STOPPED {
                break;
            }
            seen = phase;
            (warm_hits, warm_misses) = (tally.hits, tally.misses);
            warm_operations = tally.operations();
            timed.clear();
            misses.restart();
            marks.clear();
            began = (Instant::now(), cores::thread_time());
        }
        session.rest();
        // It reads the thread's processor time from the system, so it must not be inside a timed
        // interval.
        marks.note(Instant::now(), tally.operations());
        let doing = Doing { prefix: stream.prefix, tally: &mut tally, timed: &mut timed };
        do_batch(&mut session, &mut misses, batch, doing, &mut marks, &mut chance);
        misses.look(&mut session, &mut timed);
        shown.operations.store(tally.operations(), Relaxed);
        shown.inserts.store(tally.misses + tally.others, Relaxed);
    }
    let wall = began.0.elapsed();
    let processor = cores::thread_time().zip(began.1).map(|(end, start)| end.saturating_sub(start));
    std::hint::black_box(tally.read);
    let operations = tally.operations() - warm_operations;
    let pace = misses.pace(&timed, wall.saturating_sub(marks.queued()), operations);
    Report {
        hits: tally.hits - warm_hits,
        misses: tally.misses - warm_misses,
        latencies: timed.latencies,
        wall,
        processor,
        marks,
        pace,
    }
}

/// The keys that a thread requests, and the counts of their results.
struct Doing<'a> {
    prefix: u32,
    tally: &'a mut Tally,
    timed: &'a mut Timed,
}

/// Does the operations of a batch. One of them is timed, and in some batches some stand alone.
#[inline(always)]
fn do_batch<M: Misses>(
    session: &mut impl Session,
    misses: &mut M,
    batch: &[Operation],
    Doing { prefix, tally, timed }: Doing<'_>,
    marks: &mut Marks,
    chance: &mut Xoshiro256PlusPlus,
) {
    let (before, others) = batch.split_at(chance.random_range(0..batch.len()));
    for operation in before {
        misses.make_room(session, timed);
        operate(session, misses, *operation, prefix, None, tally);
    }
    let Some((one, mut others)) = others.split_first() else { return };
    misses.make_room(session, timed);
    let asked = Instant::now();
    if operate(session, misses, *one, prefix, Some(asked), tally) {
        let latency = asked.elapsed();
        timed.record(latency, marks.queued_in(latency));
    }
    if !M::WAITS && chance.random_range(0..ALONE_EVERY) == 0 {
        let (alone, after) = others.split_at(others.len().min(ALONE));
        others = after;
        marks.push(Instant::now(), tally.operations());
        let took = stand_alone(session, misses, alone, prefix, tally);
        timed.record_alone(alone.len(), took, marks.queued_in(took));
    }
    for operation in others {
        misses.make_room(session, timed);
        operate(session, misses, *operation, prefix, None, tally);
    }
}

/// Does operations so that none overlaps another: a read of the clock waits for all begun before.
/// Returns their time.
#[inline(never)]
fn stand_alone(
    session: &mut impl Session,
    misses: &mut impl Misses,
    operations: &[Operation],
    prefix: u32,
    tally: &mut Tally,
) -> Duration {
    let began = Instant::now();
    for operation in operations {
        operate(session, misses, *operation, prefix, None, tally);
        std::hint::black_box(Instant::now());
    }
    began.elapsed()
}

fn warm_up(board: &Board, least: Duration, operations: u64, inserts: u64) {
    let sum = |of: fn(&Shown) -> &AtomicU64| -> u64 {
        board.shown.iter().map(|shown| of(shown).load(Relaxed)).sum()
    };
    for _ in 0..10 {
        std::thread::sleep(least);
        let passed = sum(|shown| &shown.operations) >= operations;
        if passed || sum(|shown| &shown.inserts) >= inserts {
            break;
        }
    }
}

/// Million operations a second of each slice.
fn slices(board: &Board, schedule: &Schedule) -> Vec<f64> {
    let operations = || board.shown.iter().map(|shown| shown.operations.load(Relaxed)).sum::<u64>();
    let slices = schedule.slices.max(1);
    let mut before = (Instant::now(), operations());
    let mut speeds = Vec::new();
    for _ in 0..slices {
        std::thread::sleep(schedule.measured / slices);
        let now = (Instant::now(), operations());
        let seconds = (now.0 - before.0).as_secs_f64();
        speeds.push((now.1 - before.1) as f64 / seconds.max(1e-9) / 1e6);
        before = now;
    }
    speeds
}

fn summary(mut speeds: Vec<f64>, reports: &[Report], cores: usize) -> Measured {
    speeds.sort_by(f64::total_cmp);
    let mut all = Latencies::new();
    let (mut hits, mut misses) = (0, 0);
    let mut pace = Pace::default();
    for report in reports {
        all.add(&report.latencies);
        pace.add(&report.pace);
        hits += report.hits;
        misses += report.misses;
    }
    Measured {
        mops: speeds.get(speeds.len() / 2).copied().unwrap_or_default(),
        mops_min: speeds.first().copied().unwrap_or_default(),
        mops_max: speeds.last().copied().unwrap_or_default(),
        hit_ratio: hits as f64 / (hits + misses).max(1) as f64,
        p50_ns: all.quantile_ns(0.5),
        p99_ns: all.quantile_ns(0.99),
        p999_ns: all.quantile_ns(0.999),
        latencies: all,
        cpu_share: cpu_share(reports, cores),
        undisturbed: undisturbed(reports.iter().map(|report| &report.marks)),
        pace,
    }
}

fn cpu_share(reports: &[Report], cores: usize) -> Option<f64> {
    let processor: Option<Vec<Duration>> = reports.iter().map(|report| report.processor).collect();
    let processor = processor?.into_iter().map(|time| time.as_secs_f64());
    let walls = reports.iter().map(|report| report.wall.as_secs_f64().max(1e-9));
    Some(if reports.len() <= cores {
        processor.zip(walls).map(|(processor, wall)| processor / wall).fold(1.0, f64::min)
    } else {
        // A thread that waits for a core starts its clock late, so its own wall-clock time is not
        // used.
        processor.sum::<f64>() / walls.fold(1e-9, f64::max) / cores as f64
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engine::Shared;
    use crate::stream::Stream;

    fn report(latency: u64, times: u64, processor_ms: u64, wall_ms: u64) -> Report {
        let mut latencies = Latencies::new();
        latencies.0.record_n(latency, times).unwrap();
        Report {
            hits: 3 * times,
            misses: times,
            latencies,
            wall: Duration::from_millis(wall_ms),
            processor: Some(Duration::from_millis(processor_ms)),
            marks: Marks::default(),
            pace: Pace::default(),
        }
    }

    #[test]
    fn reports_of_all_threads_come_together() {
        let reports =
            [report(100, 985, 100, 100), report(1_000, 13, 50, 100), report(50_000, 2, 25, 50)];
        let measured = summary(vec![5.0, 1.0, 3.0], &reports, 4);
        assert_eq!((measured.mops_min, measured.mops, measured.mops_max), (1.0, 3.0, 5.0));
        assert_eq!(measured.hit_ratio, 0.75);
        assert_eq!((measured.p50_ns, measured.p99_ns), (100, 1_000));
        assert!((50_000..50_050).contains(&measured.p999_ns), "{}", measured.p999_ns);
        // The least of three threads on four cores, their sum on two.
        assert_eq!(measured.cpu_share, Some(0.5));
        assert_eq!(summary(vec![], &reports, 2).cpu_share, Some(0.875));
    }

    /// An engine that misses until a time has passed, and counts its requests.
    struct Late {
        started: Instant,
        patience: Duration,
        asked: AtomicU64,
        wrong: AtomicBool,
    }

    impl Shared for Late {
        fn get(&self, key: u64) -> Option<u64> {
            self.asked.fetch_add(1, Relaxed);
            (self.started.elapsed() > self.patience).then_some(key)
        }

        fn insert(&self, _: u64) {}

        fn remove(&self, _: u64) {
            self.wrong.store(true, Relaxed);
        }
    }

    impl Engine for Late {
        type Session<'a> = &'a Self;

        fn session(&self) -> &Self {
            self
        }
    }

    #[test]
    fn the_warm_up_does_not_count_and_every_thread_works() {
        let gets = |prefix| Stream::new([Operation::new(Ask::Get, 1); 1_000], prefix);
        let late = Late {
            started: Instant::now(),
            patience: Duration::from_millis(100),
            asked: AtomicU64::new(0),
            wrong: AtomicBool::new(false),
        };
        let schedule = Schedule {
            warmup: Duration::from_millis(400),
            measured: Duration::from_millis(200),
            slices: 4,
        };
        let measured = run(&late, &[gets(0), Stream::new([], 0), gets(1)], 0, &schedule);
        assert_eq!(measured.hit_ratio, 1.0);
        assert!(!late.wrong.load(Relaxed));
        // The measured third of the time cannot have more requests than the whole.
        let most = late.asked.load(Relaxed) as f64 / 0.2 / 1e6;
        assert!(measured.mops > 0.0 && measured.mops_min < most, "{measured:?}, {most}");
        assert!(measured.mops_min <= measured.mops && measured.mops <= measured.mops_max);
        assert!(measured.p50_ns > 0 && measured.p50_ns <= measured.p999_ns);
    }

    #[test]
    fn nothing_to_ask_for_measures_nothing() {
        let late = Late {
            started: Instant::now(),
            patience: Duration::ZERO,
            asked: AtomicU64::new(0),
            wrong: AtomicBool::new(false),
        };
        let measured = run(&late, &[], 0, &Schedule::seconds(0.01));
        assert_eq!((measured.mops, measured.hit_ratio, measured.p50_ns), (0.0, 0.0, 0));
    }

    /// An engine that takes long for one get in each batch.
    struct Periodic;

    impl Engine for Periodic {
        type Session<'a> = u64;

        fn session(&self) -> u64 {
            0
        }
    }

    const LONG: Duration = Duration::from_micros(500);

    impl Session for u64 {
        fn get(&mut self, key: u64) -> Option<u64> {
            if self.is_multiple_of(BATCH as u64) {
                let began = Instant::now();
                while began.elapsed() < LONG {}
            }
            *self += 1;
            Some(key)
        }

        fn insert(&mut self, _: u64) {}

        fn remove(&mut self, _: u64) {}
    }

    #[test]
    fn timed_operations_do_not_coincide_with_periodic_maintenance() {
        let gets = Stream::new([Operation::new(Ask::Get, 1); 10 * BATCH], 0);
        let measured = run(&Periodic, &[gets], 0, &Schedule::seconds(0.2));
        assert!(u128::from(measured.p50_ns) < LONG.as_nanos(), "{}", measured.p50_ns);
    }

    /// An engine that panics once it is warm.
    struct Panics;

    impl Shared for Panics {
        fn get(&self, key: u64) -> Option<u64> {
            Some(key)
        }

        fn insert(&self, _: u64) {}

        fn remove(&self, _: u64) {}
    }

    impl Engine for Panics {
        type Session<'a> = &'a Self;

        fn session(&self) -> &Self {
            self
        }

        fn warmed(&self) {
            panic!("warm");
        }
    }

    #[test]
    fn an_engine_that_panics_ends_the_run() {
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let gets = Stream::new([Operation::new(Ask::Get, 1); 1_000], 0);
            let run = || run(&Panics, &[gets], 0, &Schedule::seconds(0.01));
            ended.send(std::panic::catch_unwind(run).is_err())
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
