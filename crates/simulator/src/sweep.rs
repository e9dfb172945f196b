//! Sweeps: many cells (policy × capacity) over one decoded trace, in parallel.
//!
//! Each thread takes the next cell and replays the whole trace. So one cell's state stays in the
//! processor's cache, which beats interleaving cells chunk by chunk by 5 to 26 %. Memory: the trace
//! once, and per live cell 4 bytes an object of the trace plus its slots.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Instant;

use frazil_policy::{
    GlCache, GroupLearning, KnownTrace, NEVER, Online, Policy, PolicySpec, PolicyVisitor,
    TraceKnowledge,
};

use crate::Unit;
use crate::delayed::DelayedCell;
use crate::expiring::ExpiringCell;
use crate::fetch::{Fetching, spread};
use crate::index::{AnyIndex, DenseIndex};
use crate::replay::{Bytes, Cell, Held, Kind, Objects, Outcome};
use crate::trace::{Lifetimes, Operation, Sizes, Trace};
use crate::versatile::{Make, Request, VersatileCell, over_trace};

/// Records between two reports of progress: few enough to stop a replay by a slow policy within a
/// tenth of a second, and enough that the reports take no time of a fast one.
const CHUNK: usize = 1 << 14;
/// Number of times that a cell's residents are summed. Each takes about as long as a record for
/// every 20 objects.
const LOOKS: usize = 8;

/// One cell to replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellSpec {
    /// The policy.
    pub policy: PolicySpec,
    /// Its capacity in [`SweepOptions::unit`].
    pub capacity: u64,
}

/// How to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// Unit of capacities.
    pub unit: Unit,
    /// Requests at the start that are replayed but not counted, with the sets and deletes among
    /// them.
    pub warmup: u64,
    /// Whether a get whose record differs in size from the resident object changes that object's
    /// size, as a set does. By default a hit is served from the resident object at any size.
    pub resize_on_get: bool,
    /// Cells replayed at once; at least 1.
    pub threads: usize,
    /// Whether the policies' work is counted ([`Outcome::work`]).
    pub count_work: bool,
    /// Lifetimes of entries. Nothing expires in a trace without times, in a trace without lifetimes
    /// unless one is set for all, or if fetches take time.
    pub lifetimes: Lifetimes,
}

impl Default for SweepOptions {
    fn default() -> Self {
        SweepOptions {
            unit: Unit::Objects,
            warmup: 0,
            resize_on_get: false,
            threads: 1,
            count_work: false,
            lifetimes: Lifetimes::Ignored,
        }
    }
}

/// The result of a progress function: nothing, or whether to continue.
///
/// ```
/// use std::ops::ControlFlow;
/// use frazil_simulator::GoOn;
/// assert!(().goes_on() && ControlFlow::Continue(()).goes_on());
/// assert!(!ControlFlow::Break(()).goes_on());
/// ```
pub trait GoOn {
    /// Whether to continue.
    fn goes_on(&self) -> bool;
}

impl GoOn for () {
    fn goes_on(&self) -> bool {
        true
    }
}

impl GoOn for ControlFlow<()> {
    fn goes_on(&self) -> bool {
        self.is_continue()
    }
}

/// Replays `trace` through every cell and returns the outcomes in the order of `cells`. Any thread
/// calls `progress` for each batch of some ten thousand records replayed. If it returns
/// [`ControlFlow::Break`], all cells end at the next batch, and the outcomes are invalid.
///
/// O(records × cells). Memory beside the trace: for each live cell, one a thread, 4 bytes an object
/// of the trace and 9 to 60 a resident object.
///
/// # Panics
/// If a policy is offline ([`PolicySpec::is_offline`]) and entries may expire, because it cannot
/// know which will have expired.
///
/// ```
/// use frazil_simulator::{CellSpec, SweepOptions, sweep, trace::Trace};
/// let trace = Trace { ids: vec![0, 1, 0, 2, 0], objects: vec![7, 8, 9], ..Trace::default() };
/// let lru = CellSpec { policy: "lru".parse()?, capacity: 2 };
/// let outcomes = sweep(&trace, &[lru], &SweepOptions::default(), &|_| ());
/// assert_eq!((outcomes[0].hits, outcomes[0].misses()), (2, 3));
/// # Ok::<(), frazil_policy::SpecError>(())
/// ```
pub fn sweep<R: GoOn>(
    trace: &Trace,
    cells: &[CellSpec],
    options: &SweepOptions,
    progress: &(dyn Fn(u64) -> R + Sync),
) -> Vec<Outcome> {
    run_cells(trace, cells, options, &|records| progress(records).goes_on(), Extra::None)
}

/// As [`sweep`], and also samples the resident objects ([`Outcome::held`]). `bytes` has the size of
/// each object of the trace, by its number, and counts even if capacities count objects.
///
/// O(records × cells), and a few passes over all objects of the trace for each cell.
///
/// ```
/// use frazil_simulator::{CellSpec, SweepOptions, sweep_held, trace::Trace};
/// let trace = Trace { ids: vec![0, 1, 0, 2, 0, 0], objects: vec![7, 8, 9], ..Trace::default() };
/// let lru = CellSpec { policy: "lru".parse()?, capacity: 1 };
/// let bytes = vec![50, 10, 20].into();
/// let outcomes = sweep_held(&trace, &[lru], &SweepOptions::default(), &bytes, &|_| ());
/// // Of the last three records one leaves the object of 20 bytes.
/// assert!(outcomes[0].held.is_some_and(|held| held.objects == held.looks));
/// assert_eq!(outcomes[0].held.map(|held| held.bytes), Some(20 + 50 + 50));
/// # Ok::<(), frazil_policy::SpecError>(())
/// ```
pub fn sweep_held<R: GoOn>(
    trace: &Trace,
    cells: &[CellSpec],
    options: &SweepOptions,
    bytes: &Sizes,
    progress: &(dyn Fn(u64) -> R + Sync),
) -> Vec<Outcome> {
    run_cells(trace, cells, options, &|records| progress(records).goes_on(), Extra::Held(bytes))
}

/// As [`sweep`], with fetches that take time: requests that arrive meanwhile are delayed hits. Work
/// is not counted. O(records × log(fetches under way) × cells); each cell under way needs about 100
/// bytes more for each fetch under way.
///
/// ```
/// use frazil_simulator::{
///     CellSpec, FetchLatency, Fetching, ReplayClock, SweepOptions, sweep_delayed, trace::Trace,
/// };
/// let trace = Trace { ids: vec![0, 0, 1, 0, 0], objects: vec![7, 8], ..Trace::default() };
/// let lru = CellSpec { policy: "lru".parse()?, capacity: 2 };
/// let fetching = Fetching::new(&trace, FetchLatency::Fixed(3), ReplayClock::Request)?;
/// let outcomes = sweep_delayed(&trace, &[lru], &SweepOptions::default(), &fetching, &|_| ());
/// // The first waits 3 requests, the second what is left of them, 2; so does the miss of the
/// // other object, and the last two find the first one's object there.
/// assert_eq!((outcomes[0].hits, outcomes[0].delayed_hits, outcomes[0].misses()), (2, 1, 2));
/// assert_eq!(outcomes[0].latency.map(|latency| latency.total), Some(3 + 2 + 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn sweep_delayed<R: GoOn>(
    trace: &Trace,
    cells: &[CellSpec],
    options: &SweepOptions,
    fetching: &Fetching,
    progress: &(dyn Fn(u64) -> R + Sync),
) -> Vec<Outcome> {
    run_cells(
        trace,
        cells,
        options,
        &|records| progress(records).goes_on(),
        Extra::Fetches(fetching),
    )
}

/// Total wait of the gets of each object, in ticks of the fetches' clock, by the objects' numbers
/// in `trace`. Every object counts 1.
///
/// O(records × log(fetches under way)).
///
/// ```
/// use frazil_simulator::{
///     CellSpec, FetchLatency, Fetching, ReplayClock, trace::Trace, waits_by_object,
/// };
/// let trace = Trace { ids: vec![0, 0, 1, 0, 0], objects: vec![7, 8], ..Trace::default() };
/// let lru = CellSpec { policy: "lru".parse()?, capacity: 2 };
/// let fetching = Fetching::new(&trace, FetchLatency::Fixed(3), ReplayClock::Request)?;
/// assert_eq!(waits_by_object(&trace, lru, &fetching), [3 + 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn waits_by_object(trace: &Trace, cell: CellSpec, fetching: &Fetching) -> Vec<u64> {
    let options = &SweepOptions::default();
    let replay =
        Replay { trace, capacity: cell.capacity, options, bytes: None, progress: &|_| true };
    let mut delayed = replay.delayed(&cell.policy, &Known::of(trace), fetching);
    delayed.note_objects(trace.objects.len());
    replay.run(&mut delayed);
    delayed.into_waits()
}

/// Replays a schedule: an object that is admitted stays until the schedule evicts it. Nothing else
/// is evicted while the objects fit, at any sizes.
///
/// `leaving` has, in the order of records, the number of a record, from 0, and the object (a dense
/// id) that is evicted before it: after the request of the record before, and before fetches that
/// end in between are committed. An object in flight is then not admitted. If objects do not fit,
/// the oldest is evicted. O(records × log(fetches under way)).
///
/// ```
/// use frazil_simulator::{
///     FetchLatency, Fetching, ReplayClock, SweepOptions, replay_schedule, trace::Trace,
/// };
/// let trace = Trace { ids: vec![0, 0, 0, 0], objects: vec![7], ..Trace::default() };
/// let fetching = Fetching::new(&trace, FetchLatency::Fixed(1), ReplayClock::Request)?;
/// // Kept for one hit, then fetched again.
/// let leaving = [(2, 0)];
/// let outcome =
///     replay_schedule(&trace, &leaving, 1, &SweepOptions::default(), &fetching, &|_| ());
/// assert_eq!((outcome.hits, outcome.misses()), (2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay_schedule(
    trace: &Trace,
    leaving: &[(u32, u32)],
    capacity: u64,
    options: &SweepOptions,
    fetching: &Fetching,
    progress: &(dyn Fn(u64) + Sync),
) -> Outcome {
    let options = &SweepOptions { unit: Unit::Objects, ..*options };
    let progress = &|records| {
        progress(records);
        true
    };
    let replay = Replay { trace, capacity, options, bytes: None, progress };
    let fifo = PolicySpec::Online(Online::Fifo);
    let cell = replay.delayed(&fifo, &Known::of(trace), fetching);
    replay.run(&mut cell.keeping_to(leaving))
}

/// The work of a cell beside the replay.
#[derive(Clone, Copy)]
enum Extra<'a> {
    None,
    /// Sums the residents, from the bytes of each object.
    Held(&'a Sizes),
    Fetches(&'a Fetching),
}

/// The features of [`GlCache`]'s model at the end of a trace: the share of each, all 0 without a
/// model ([`GlCache::importance`]).
///
/// O(a replay).
///
/// ```
/// use frazil_policy::GroupLearning;
/// use frazil_simulator::{Unit, feature_importance, trace};
///
/// let loaded = trace::load("mix:objects=10K:requests=200K:seed=1", &Default::default())?;
/// let shares = feature_importance(&loaded.trace, GroupLearning::default(), 3_000, Unit::Objects);
/// assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn feature_importance(
    trace: &Trace,
    learning: GroupLearning,
    capacity: u64,
    unit: Unit,
) -> [f64; GroupLearning::FEATURES.len()] {
    let (known, options) = (Known::of(trace), &SweepOptions { unit, ..SweepOptions::default() });
    let (times_ns, requests) = (known.times_ns(), known.requests());
    let known = TraceKnowledge { times_ns, requests, ..TraceKnowledge::default() };
    let replay = Replay { trace, capacity, options, bytes: None, progress: &|_| true };
    let policy = <GlCache>::new(learning, known);
    if unit == Unit::Bytes {
        let mut cell = replay.cell(policy, Bytes);
        replay.run(&mut cell);
        return cell.policy.importance();
    }
    let mut cell = replay.cell(policy, Objects);
    replay.run(&mut cell);
    cell.policy.importance()
}

/// Receives the number of records replayed; returns whether to continue.
type Report<'a> = &'a (dyn Fn(u64) -> bool + Sync);

fn run_cells(
    trace: &Trace,
    cells: &[CellSpec],
    options: &SweepOptions,
    progress: Report<'_>,
    extra: Extra<'_>,
) -> Vec<Outcome> {
    let offline = cells.iter().map(|cell| cell.policy).find(PolicySpec::is_offline);
    if let Some(policy) =
        offline.filter(|_| !matches!(extra, Extra::Fetches(_)) && expires(trace, options))
    {
        panic!("policy `{policy}` knows what is asked for, but not what will have expired then");
    }
    let bytes = if let Extra::Held(bytes) = extra { Some(bytes) } else { None };
    let is_versatile = options.count_work || bytes.is_some();
    let known = &Known::of(trace);
    let next_cell = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![Outcome::default(); cells.len()]);
    let stopped = AtomicBool::new(false);
    let progress: Report<'_> = &|records| {
        let goes_on = progress(records) && !stopped.load(Relaxed);
        if !goes_on {
            stopped.store(true, Relaxed);
        }
        goes_on
    };
    let work = || {
        while !stopped.load(Relaxed) {
            let number = next_cell.fetch_add(1, Relaxed);
            let Some(CellSpec { policy, capacity }) = cells.get(number) else {
                break;
            };
            let replay = Replay { trace, capacity: *capacity, options, bytes, progress };
            let outcome = match extra {
                Extra::Fetches(fetching) => {
                    replay.run(&mut replay.delayed(policy, known, fetching))
                }
                _ if expires(trace, options) => replay.run(&mut replay.expiring(policy, known)),
                _ if is_versatile => replay.run(&mut replay.versatile(policy, known)),
                _ => policy.visit(*capacity, known, &replay),
            };
            // A poisoned lock means that another thread panicked; the scope
            // passes that panic on.
            if let Ok(mut outcomes) = outcomes.lock() {
                outcomes[number] = outcome;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, cells.len().max(1)) {
            // If the system allows no more threads, the existing ones do the work.
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    outcomes.into_inner().unwrap_or_default()
}

/// Whether entries may expire if fetches take no time.
fn expires(trace: &Trace, options: &SweepOptions) -> bool {
    let some = match options.lifetimes {
        Lifetimes::Ignored => false,
        Lifetimes::OfTrace => !trace.lifetimes_ns.is_empty(),
        Lifetimes::Fixed(_) => true,
    };
    some && !trace.times_ns.is_empty()
}

struct Replay<'a> {
    trace: &'a Trace,
    capacity: u64,
    options: &'a SweepOptions,
    /// Bytes of each object, if residents are summed.
    bytes: Option<&'a Sizes>,
    progress: Report<'a>,
}

/// A cell that a replay feeds.
trait Replayable {
    fn replay(&mut self, trace: &Trace, range: Range<usize>);
    fn reset_counts(&mut self);
    fn outcome(&self, seconds: f64) -> Outcome;
    /// The resident objects at this moment. Cells that never sum them return none.
    fn held(&self, _bytes: &Sizes) -> Held {
        Held::default()
    }
}

impl<P: Policy, K: Kind> Replayable for Cell<DenseIndex<'_>, P, K> {
    fn replay(&mut self, trace: &Trace, range: Range<usize>) {
        self.feed(trace, range);
    }
    fn reset_counts(&mut self) {
        self.reset_counts();
    }
    fn outcome(&self, seconds: f64) -> Outcome {
        Outcome { seconds, ..self.outcome }
    }
}

impl Replayable for Box<dyn VersatileCell + '_> {
    fn replay(&mut self, trace: &Trace, range: Range<usize>) {
        self.feed_all(range.map(|record| Request {
            object: trace.ids[record].into(),
            size: trace.sizes.get(record).unwrap_or(1),
            operation: trace.operations.get(record).copied().unwrap_or_default(),
        }));
    }
    fn reset_counts(&mut self) {
        self.as_mut().reset_counts();
    }
    fn outcome(&self, seconds: f64) -> Outcome {
        self.as_ref().outcome(seconds)
    }
    fn held(&self, bytes: &Sizes) -> Held {
        self.as_ref().held(bytes)
    }
}

impl Replayable for DelayedCell<'_> {
    fn replay(&mut self, trace: &Trace, range: Range<usize>) {
        self.feed(trace, range);
    }
    fn reset_counts(&mut self) {
        self.reset_counts();
    }
    fn outcome(&self, seconds: f64) -> Outcome {
        self.outcome(seconds)
    }
}

impl Replayable for ExpiringCell<'_> {
    fn replay(&mut self, trace: &Trace, range: Range<usize>) {
        self.feed(trace, range);
    }
    fn reset_counts(&mut self) {
        self.reset_counts();
    }
    fn outcome(&self, seconds: f64) -> Outcome {
        self.outcome(seconds)
    }
    fn held(&self, bytes: &Sizes) -> Held {
        self.held(bytes)
    }
}

impl<'a> Replay<'a> {
    fn expiring(&self, policy: &PolicySpec, known: &Known<'_>) -> ExpiringCell<'a> {
        let cell = self.versatile(policy, known);
        ExpiringCell::over_trace(cell, self.options.lifetimes, self.trace.objects.len())
    }

    fn cell<P: Policy, K: Kind>(&self, policy: P, kind: K) -> Cell<DenseIndex<'a>, P, K> {
        let index = DenseIndex::of(self.trace);
        Cell::new(index, policy, self.capacity, self.options.resize_on_get, kind)
    }

    fn versatile(&self, policy: &PolicySpec, known: &Known<'_>) -> Box<dyn VersatileCell + 'a> {
        over_trace(self.trace, policy, self.capacity, self.options, known)
    }

    fn delayed(
        &self,
        policy: &PolicySpec,
        known: &Known<'_>,
        fetching: &'a Fetching,
    ) -> DelayedCell<'a> {
        DelayedCell::new(self.versatile(policy, known), self.options.unit, fetching)
    }

    fn run(&self, cell: &mut dyn Replayable) -> Outcome {
        let len = self.trace.len();
        let warmup = records_of(&self.trace.operations, len, self.options.warmup);
        let started = Instant::now();
        let mut held = self.bytes.map(|_| Held::default());
        let mut unpacked = Trace::default();
        let mut at = 0;
        while at < len {
            let look = self.bytes.and_then(|_| next_look(at, len));
            let end = if at < warmup { warmup } else { len }.min(at + CHUNK);
            let end = look.map_or(end, |look| look.min(end));
            if self.trace.packed.is_empty() {
                cell.replay(self.trace, at..end);
            } else {
                unpack(self.trace, at..end, &mut unpacked);
                cell.replay(&unpacked, 0..end - at);
            }
            if !(self.progress)((end - at) as u64) {
                return Outcome::default();
            }
            at = end;
            if at == warmup {
                cell.reset_counts();
            }
            if look == Some(at) {
                let now = self.bytes.map(|bytes| cell.held(bytes));
                held = held.zip(now).map(|(held, now)| held.and(now));
            }
        }
        Outcome { held, ..cell.outcome(started.elapsed().as_secs_f64()) }
    }
}

impl PolicyVisitor for &Replay<'_> {
    type Output = Outcome;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Outcome {
        match self.options.unit {
            Unit::Objects => self.run(&mut self.cell(policy, Objects)),
            Unit::Bytes => self.run(&mut self.cell(policy, Bytes)),
        }
    }

    fn visit_rare<P: Policy + Clone + Send + 'static>(self, policy: P) -> Outcome {
        let Replay { trace, capacity, options, .. } = *self;
        let index = AnyIndex::Dense(DenseIndex::of(trace));
        self.run(&mut Make { index, capacity, options }.visit(policy))
    }
}

/// Puts records of a packed trace in place of those of `unpacked`.
fn unpack(trace: &Trace, range: Range<usize>, unpacked: &mut Trace) {
    unpacked.ids.clear();
    trace.packed.read(range.clone(), &mut unpacked.ids);
    unpacked.operations.clear();
    // Empty where every record is a get.
    unpacked.operations.extend_from_slice(trace.operations.get(range).unwrap_or_default());
}

/// Number of records, of `len`, after which residents are summed next, if `at` are replayed.
fn next_look(at: usize, len: usize) -> Option<usize> {
    let half = len - len / 2;
    (0..LOOKS).rev().map(|left| len - half * left / LOOKS).find(|&look| look > at)
}

/// Number of records at the start, of `len`, that hold `requests` gets; `len` if there are fewer
/// gets.
fn records_of(operations: &[Operation], len: usize, requests: u64) -> usize {
    let requests = usize::try_from(requests).unwrap_or(usize::MAX);
    if operations.is_empty() || requests == 0 {
        return requests.min(len);
    }
    let mut gets = operations.iter().enumerate().filter(|(_, op)| **op == Operation::Get);
    gets.nth(requests - 1).map_or(len, |(last, _)| last + 1)
}

/// Offline knowledge of the trace; made for the first policy that needs it.
struct Known<'a> {
    trace: &'a Trace,
    next: OnceLock<Arc<[u32]>>,
    times: OnceLock<Arc<[u64]>>,
}

impl<'a> Known<'a> {
    fn of(trace: &'a Trace) -> Self {
        Known { trace, next: OnceLock::new(), times: OnceLock::new() }
    }
}

impl KnownTrace for Known<'_> {
    fn next(&self) -> Arc<[u32]> {
        Arc::clone(self.next.get_or_init(|| next_uses(self.trace)))
    }

    fn times_ns(&self) -> Arc<[u64]> {
        Arc::clone(self.times.get_or_init(|| times_of_requests(self.trace)))
    }

    fn requests(&self) -> u64 {
        let deletes = self.trace.operations.iter().filter(|&&it| it == Operation::Delete);
        (self.trace.len() - deletes.count()) as u64
    }
}

/// The time of each get and set, in order; equal times are spread evenly.
fn times_of_requests(trace: &Trace) -> Arc<[u64]> {
    let mut times = trace.times_ns.clone();
    spread(&mut times);
    let is_request = |record: &usize| trace.operations.get(*record) != Some(&Operation::Delete);
    (0..times.len()).filter(is_request).map(|record| times[record]).collect()
}

/// For each get and set, in order, the position among them of the next get of the same object;
/// [`NEVER`] if there is none, or a set or a delete comes first: an entry that is overwritten need
/// not be kept.
fn next_uses(trace: &Trace) -> Arc<[u32]> {
    let operation = |record: usize| trace.operations.get(record).copied().unwrap_or_default();
    let uses = (0..trace.len()).filter(|&r| operation(r) != Operation::Delete).count();
    let mut next = vec![NEVER; uses];
    let mut upcoming = vec![NEVER; trace.objects.len()];
    let mut position = uses;
    for (record, &id) in trace.ids.iter().enumerate().rev() {
        let upcoming = &mut upcoming[id as usize];
        let operation = operation(record);
        if operation != Operation::Delete {
            position -= 1;
            next[position] = *upcoming;
        }
        // The reader's bound on records keeps positions below NEVER.
        *upcoming = if operation == Operation::Get { position as u32 } else { NEVER };
    }
    next.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: Operation = Operation::Get;
    const S: Operation = Operation::Set;
    const D: Operation = Operation::Delete;

    #[test]
    fn warm_up_counts_gets_alone() {
        assert_eq!(records_of(&[], 9, 4), 4);
        assert_eq!(records_of(&[], 9, 40), 9);
        assert_eq!(records_of(&[S, G, D, G, S], 5, 0), 0);
        assert_eq!(records_of(&[S, G, D, G, S], 5, 1), 2);
        assert_eq!(records_of(&[S, G, D, G, S], 5, 2), 4);
        assert_eq!(records_of(&[S, G, D, G, S], 5, 3), 5);
    }

    #[test]
    fn a_use_ends_where_an_object_is_overwritten_or_deleted() {
        // 0: get, get; 1: get, then set, get; 2: get, deleted, get.
        let trace = Trace {
            ids: vec![0, 1, 2, 0, 1, 2, 1, 2],
            operations: vec![G, G, G, G, S, D, G, G],
            objects: vec![0, 1, 2],
            ..Trace::default()
        };
        assert_eq!(*next_uses(&trace), [3, NEVER, NEVER, NEVER, 5, NEVER, NEVER]);
    }
}
