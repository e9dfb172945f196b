//! Throughput that falls as hits rise, predicted and measured (paper 1, figures 3, 5, 7, 8, 10, 12
//! and 14; the third line there is the paper's prototype).
//!
//! Our list operations take some tens of nanoseconds, those of the paper 0.59 to 0.81 µs, because
//! each fetches a line from one of 72 hyperthreads. So a spin under the policy's lock
//! (`Builder::list_costs`) gives a hit's list operations the paper's costs. All else is the cache
//! unchanged: one lock for all lists, two threads that meet there, 72 requests in flight before a
//! backend that answers after a fixed time and takes no core.
//!
//! The model gets those costs, the cache's counts of its work, and the time of requests outside the
//! lock, by one thread at three hit ratios of a sweep. It predicts all points, with the existing
//! threads.

use std::time::Duration;

use anyhow::anyhow;
use frazil::{ListCosts, ListTurns, Stats};
use frazil_driver::{Backend, Distance, Mix, Ours, Schedule, Setup, Stream, Workload};
use frazil_queueing::{
    Distribution, Kind, ModelError, Network, PaperNetwork, Route, Service, SimulationOptions,
    Station, Step, simulate,
};

use super::{Report, fall_report};
use crate::calibrate::measure::Tally;
use crate::failure::Failure;
use crate::median::median;
use crate::output::{Row, row};
use crate::progress::Progress;

/// The paper's cores.
pub(super) const MPL: usize = 72;
pub(super) const BACKENDS_US: [f64; 3] = [500.0, 100.0, 5.0];
/// The paper's popularity.
const ALPHA: f64 = 0.99;
/// Requests in flight while misses with an immediate backend are timed.
const IN_FLIGHT: usize = 16;
/// Capacities in hundredths of the keys, for hit ratios from 0.4 to 1.
const CAPACITIES: [u64; 8] = [1, 3, 8, 15, 30, 50, 75, 110];
/// Requests for new keys, in hundredths of all.
const NEWCOMERS: [u64; 8] = [60, 50, 40, 30, 20, 10, 4, 0];
/// The places of a sweep at which one thread is timed: half of the requests miss, few, and none.
const MIXED: usize = 1;
const FEW: usize = LAST - 1;
const LAST: usize = CAPACITIES.len() - 1;
/// Insertions to fill a cache, in multiples of its capacity: FIFO evicts entries that arrived
/// together at the same time, until they have been inserted again a few times.
const FILLS: u64 = 3;
/// Runs in one cache, each with keys that no earlier run requested: one to fill it, and one for
/// each backend.
const RUNS: usize = 1 + BACKENDS_US.len();
/// The share of the backend's capacity that a bypass may use: with all of it, all requests in
/// flight would wait there, and none would use the cache.
const SPARE: f64 = 0.5;

/// The least cost of a tail operation here; it includes the operation's own, lower cost.
const CHEAP_TAIL_US: f64 = 0.2;
/// A run with a lower rate made no request at all.
const NOTHING_MOPS: f64 = 1e-6;
/// Most attempts of a run without operations: on a busy machine a short run may have had no core.
const ATTEMPTS: usize = 10;

/// The policies, by the cache's names, and the paper's policies that give their costs.
pub(super) const POLICIES: [(&str, PaperNetwork); 7] = [
    ("lru", PaperNetwork::Lru),
    ("every-hit+slru", PaperNetwork::Slru),
    ("lru-prob:q=0.5", PaperNetwork::LruProb { q: 0.5 }),
    ("lru-prob:q=0.986", PaperNetwork::LruProb { q: 0.986 }),
    ("fifo", PaperNetwork::Fifo),
    ("clock", PaperNetwork::Clock),
    ("s3-fifo", PaperNetwork::S3Fifo),
];

/// The parameter that varies the hit ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sweep {
    /// By the capacity, with the paper's popularity.
    Capacity,
    /// Varies only the share of new keys, to test the paper's claim that only the hit ratio of a
    /// workload matters.
    Newcomers,
}

impl Sweep {
    pub(super) const ALL: [Sweep; 2] = [Sweep::Capacity, Sweep::Newcomers];

    pub(super) fn name(self) -> &'static str {
        match self {
            Sweep::Capacity => "capacity",
            Sweep::Newcomers => "newcomers",
        }
    }
}

/// The mitigation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kept {
    /// List operations have the paper's costs; tail operations its upper limit.
    Costly,
    /// The same, but tail operations cost nothing: the paper gives only an upper limit for them,
    /// and takes 0 in its bounds.
    TailFree,
    /// The same, but tail operations cost [`CHEAP_TAIL_US`].
    TailCheap,
    /// As [`Kept::Costly`], and requests bypass the cache while its lock is the limit.
    Bypassed,
    /// The cache unchanged.
    AsItIs,
}

impl Kept {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kept::Costly => "costly",
            Kept::TailFree => "tail free",
            Kept::TailCheap => "tail 0.2 us",
            Kept::Bypassed => "bypass",
            Kept::AsItIs => "no spin",
        }
    }
}

/// A point of a curve: the requests, and the size of the cache.
struct Place {
    sweep: Sweep,
    capacity: u64,
    resident: Mix,
    /// For each run the requests of all threads.
    runs: Vec<Vec<Stream>>,
}

/// A measured point.
pub(super) struct Cell {
    pub(super) sweep: Sweep,
    pub(super) policy: &'static str,
    pub(super) kept: Kept,
    pub(super) backend_us: f64,
    /// Its number, in the order of rising hit ratios.
    place: usize,
    runs: Vec<Run>,
    pub(super) foretold: f64,
    /// The prediction if a free core goes to the request that has waited longest.
    pub(super) gathered: f64,
    disturbed: usize,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    mops: f64,
    hit_ratio: f64,
    /// Share of all requests.
    bypassed: f64,
    /// For each finished request to the cache: lock acquisitions, the cost of its list operations,
    /// and misses.
    turns: f64,
    spent_us: f64,
    missed: f64,
    /// Lock acquisitions of a finished miss.
    turns_of_miss: f64,
}

/// Time of requests outside the lock, µs, with one thread.
#[derive(Clone, Copy, Debug)]
struct Outside {
    hit_us: f64,
    /// A hit without any misses: hits overlap if no miss is between them.
    alone_us: f64,
    miss_us: f64,
    /// Requests that bypass the cache.
    bypass_us: f64,
    /// A hit with all threads, the lock included.
    crowded_us: f64,
}

impl Run {
    /// Counts between two moments: those of one run, including its warm-up with the same work.
    fn between(before: (Stats, ListTurns), after: (Stats, ListTurns)) -> Self {
        let counted = |of: fn(&Stats) -> u64| (of(&after.0) - of(&before.0)) as f64;
        let misses = counted(|it| it.misses);
        let asked = (counted(|it| it.hits) + misses).max(1.0);
        // A miss takes its turns when its fetch returns.
        let inserted = counted(|it| it.insertions + it.replacements);
        let done = (counted(|it| it.hits) + inserted).max(1.0);
        let bypassed = counted(|it| it.bypassed);
        Run {
            mops: 0.0,
            hit_ratio: 1.0 - misses / asked,
            bypassed: bypassed / (asked + bypassed),
            turns: (after.1.turns - before.1.turns) as f64 / done,
            spent_us: (after.1.spent - before.1.spent).as_secs_f64() * 1e6 / done,
            missed: inserted / done,
            turns_of_miss: (inserted + counted(|it| it.evictions)) / inserted.max(1.0),
        }
    }
}

impl Cell {
    fn of(&self, value: impl Fn(&Run) -> f64) -> f64 {
        median(self.runs.iter().map(value))
    }

    pub(super) fn mops(&self) -> f64 {
        self.of(|run| run.mops)
    }

    pub(super) fn hit_ratio(&self) -> f64 {
        self.of(|run| run.hit_ratio)
    }

    pub(super) fn bypassed(&self) -> f64 {
        self.of(|run| run.bypassed)
    }

    /// Error of the model, as a share of the measurement.
    pub(super) fn error(&self) -> f64 {
        self.error_of(self.foretold)
    }

    /// Relative error of a predicted throughput.
    pub(super) fn error_of(&self, foretold: f64) -> f64 {
        foretold / self.mops().max(1e-9) - 1.0
    }

    fn row(&self) -> Row {
        let foretold = |mops: f64| (self.kept != Kept::AsItIs).then_some(mops);
        row! {
            "sweep" => self.sweep.name(),
            "policy" => self.policy,
            "kept" => self.kept.name(),
            "backend_us" => self.backend_us,
            "mpl" => MPL,
            "hit_ratio" => self.hit_ratio(),
            "bypassed" => self.bypassed(),
            "list_us" => self.of(|run| run.spent_us),
            "turns" => self.of(|run| run.turns),
            "predicted_mops" => foretold(self.foretold),
            "predicted_gathered_mops" => foretold(self.gathered),
            "measured_mops" => self.mops(),
            "measured_mops_each" => self.runs.iter().map(|run| run.mops).collect::<Vec<_>>(),
            "disturbed" => self.disturbed,
        }
    }
}

/// The extent of the experiment.
struct Size {
    keys: u64,
    requests: usize,
    rounds: usize,
    run: Duration,
    /// Simulated requests for a point.
    simulated: u64,
}

impl Size {
    fn new(quick: bool) -> Self {
        let millis = Duration::from_millis;
        if quick {
            let (run, simulated) = (millis(2), 2_000);
            return Size { keys: 2_000, requests: 20_000, rounds: 1, run, simulated };
        }
        let (run, simulated) = (millis(60), 40_000);
        Size { keys: 20_000, requests: 300_000, rounds: 3, run, simulated }
    }

    fn schedule(&self) -> Schedule {
        Schedule { warmup: self.run / 4, measured: self.run, slices: 1 }
    }

    fn mix(&self, newcomers: f64) -> Mix {
        Mix { resident: (self.keys / 20) as u32, newcomers, again: 0 }
    }
}

pub(super) fn run(quick: bool) -> Result<Report, Failure> {
    let size = Size::new(quick);
    let threads = frazil_driver::cores().clamp(1, 2);
    let least = || Distance::least().with_patience(Duration::from_secs(60));
    let mut tally = Tally::new(if quick { Distance::of(None) } else { least() });
    let places = places(&size, threads)?;
    let mut cells = cells(&places);
    let steps = size.rounds * (cells.len() / BACKENDS_US.len() + Sweep::ALL.len() * POLICIES.len());
    let progress = Progress::of_steps("measuring".to_owned(), steps as u64);
    let mut outsides: Vec<Vec<Outside>> = vec![Vec::new(); Sweep::ALL.len() * POLICIES.len()];
    for _ in 0..size.rounds {
        for (at, outsides) in outsides.iter_mut().enumerate() {
            let (sweep, policy) = (at / POLICIES.len(), POLICIES[at % POLICIES.len()].0);
            let of_sweep = &places[sweep * (LAST + 1)..];
            outsides.push(outside(policy, of_sweep, &size, &mut tally)?);
            progress.advance(1);
        }
        for cells in cells.chunks_mut(BACKENDS_US.len()) {
            measure(cells, &places, &size, &mut tally)?;
            progress.advance(1);
        }
    }
    drop(progress);
    let mut slowest = 1.0_f64;
    for cell in &mut cells {
        let sweep = usize::from(cell.sweep == Sweep::Newcomers) * POLICIES.len();
        let of = |wanted: &str| {
            let at = POLICIES.iter().position(|&(name, _)| name == wanted).unwrap_or(0);
            &outsides[sweep + at]
        };
        let slower = slower(of("fifo"));
        slowest = slowest.max(slower);
        let mean = |value: fn(&Outside) -> f64| slower * median(of(cell.policy).iter().map(value));
        let outside = Outside {
            hit_us: mean(|it| it.hit_us),
            alone_us: mean(|it| it.alone_us),
            miss_us: mean(|it| it.miss_us),
            bypass_us: mean(|it| it.bypass_us),
            crowded_us: 0.0,
        };
        let foretold = |keeps_core| foretell(cell, outside, (threads, keeps_core), &size);
        let both = foretold(true).and_then(|kept| Ok((kept, foretold(false)?)));
        (cell.foretold, cell.gathered) = both.map_err(|error| anyhow!(error))?;
    }
    let mut report = fall_report::report(&cells, threads);
    report.measurements = cells.iter().map(Cell::row).collect();
    report.summary += &format!(
        "\nwith two threads requests take up to {slowest:.2} times as long outside the lock\n\
         {} of {} runs disturbed every time they were tried\n",
        tally.disturbed, tally.runs
    );
    Ok(report)
}

fn places(size: &Size, threads: usize) -> Result<Vec<Place>, Failure> {
    // A different stream for each thread in each run.
    let count = RUNS * threads;
    let of_runs = |streams: Vec<Stream>| streams.chunks(threads).map(<[_]>::to_vec).collect();
    let zipf = Workload::Zipf { alpha: ALPHA }
        .streams(size.keys, size.requests * count, count)
        .map_err(Failure::usage)?;
    let zipf: Vec<Vec<Stream>> = of_runs(zipf);
    let all = Mix { resident: size.keys as u32, newcomers: 0.0, again: 0 };
    let by_capacity = CAPACITIES.map(|share| Place {
        sweep: Sweep::Capacity,
        capacity: (size.keys * share / 100).max(1),
        resident: all,
        runs: zipf.clone(),
    });
    let mut places = Vec::from(by_capacity);
    for share in NEWCOMERS {
        let mix = size.mix(share as f64 / 100.0);
        let runs = of_runs(mix.streams(size.requests, count).map_err(Failure::usage)?);
        let (sweep, capacity) = (Sweep::Newcomers, size.keys / 2);
        places.push(Place { sweep, capacity, resident: size.mix(0.0), runs });
    }
    Ok(places)
}

/// The cells of one place, with each backend, are adjacent: they are measured in one cache.
fn cells(places: &[Place]) -> Vec<Cell> {
    let costly = POLICIES.map(|(policy, _)| (policy, Kept::Costly));
    let (lru, slru) = (POLICIES[0].0, POLICIES[1].0);
    let others = [
        (lru, Kept::TailFree),
        (lru, Kept::TailCheap),
        (lru, Kept::Bypassed),
        (lru, Kept::AsItIs),
        (slru, Kept::AsItIs),
    ];
    let mut cells = Vec::new();
    for (place, &Place { sweep, .. }) in places.iter().enumerate() {
        for (policy, kept) in costly.into_iter().chain(others) {
            cells.extend(BACKENDS_US.map(|backend_us| {
                let (runs, foretold, gathered, disturbed) = (Vec::new(), 0.0, 0.0, 0);
                Cell { sweep, policy, kept, backend_us, place, runs, foretold, gathered, disturbed }
            }));
        }
    }
    cells
}

/// A cache whose list operations cost as much as the paper's.
fn cache(policy: &str, kept: Kept, backend_us: f64, capacity: u64) -> Result<Ours<u64>, Failure> {
    let setup: Setup = policy.parse().map_err(Failure::usage)?;
    let mut builder = setup.builder(capacity);
    if kept != Kept::AsItIs {
        let mut costs = costs(policy)?;
        costs.tail = match kept {
            Kept::TailFree => Duration::ZERO,
            Kept::TailCheap => Duration::from_secs_f64(CHEAP_TAIL_US * 1e-6),
            _ => costs.tail,
        };
        builder = builder.list_costs(costs);
    }
    if kept == Kept::Bypassed {
        builder = builder.bypass(fetches_per_second(backend_us));
    }
    Ok(Ours::built(setup, builder))
}

/// The assumed capacity of the backend.
fn fetches_per_second(backend_us: f64) -> u64 {
    (SPARE * MPL as f64 / backend_us * 1e6) as u64
}

fn costs(policy: &str) -> Result<ListCosts, Failure> {
    let network = POLICIES.iter().find(|&&(name, _)| name == policy).map(|&(_, network)| network);
    let network = network.unwrap_or(PaperNetwork::Lru);
    let costs = network.list_costs().map_err(|error| anyhow!(error))?;
    let time = |us: f64| Duration::from_secs_f64(us * 1e-6);
    Ok(ListCosts {
        delink: time(costs.delink_us),
        head: time(costs.head_us),
        tail: time(costs.tail_us),
        skip: time(costs.skip_us),
    })
}

/// Measures one cache with each backend.
fn measure(
    cells: &mut [Cell],
    places: &[Place],
    size: &Size,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let mut filled: Option<Ours<u64>> = None;
    for (cell, run) in cells.iter_mut().zip(1..) {
        let place = &places[cell.place];
        // The limit of a bypass depends on the backend, so it needs its own cache.
        let ours = match filled.take().filter(|_| cell.kept != Kept::Bypassed) {
            Some(ours) => ours,
            None => filled_cache(place, (cell.policy, cell.kept, cell.backend_us), size)?,
        };
        let before = tally.disturbed;
        let backend = backend(cell.backend_us);
        cell.runs.push(timed(&ours, &place.runs[run], backend, size, tally)?);
        cell.disturbed += usize::from(tally.disturbed > before);
        filled = Some(ours);
    }
    Ok(())
}

/// A cache in the state after some use.
fn filled_cache(
    place: &Place,
    (policy, kept, backend_us): (&str, Kept, f64),
    size: &Size,
) -> Result<Ours<u64>, Failure> {
    let ours = cache(policy, kept, backend_us, place.capacity)?;
    place.resident.preload(&ours).map_err(Failure::usage)?;
    let filling = Schedule { measured: Duration::from_millis(1), ..size.schedule() };
    frazil_driver::run(&ours, &place.runs[0], FILLS * place.capacity, &filling);
    Ok(ours)
}

fn backend(backend_us: f64) -> Backend {
    let in_flight = if backend_us > 0.0 { MPL } else { IN_FLIGHT };
    let backend = Backend::new(Duration::from_secs_f64(backend_us * 1e-6), in_flight);
    Backend { keeps_thread: true, ..backend }
}

fn timed(
    ours: &Ours<u64>,
    streams: &[Stream],
    backend: Backend,
    size: &Size,
    tally: &mut Tally,
) -> Result<Run, Failure> {
    let run = || timed_once(ours, streams, backend, size, tally);
    first_that_did_something(run).ok_or_else(|| {
        let policy = ours.cache().policy();
        anyhow!("not one request was done in {ATTEMPTS} runs of {policy}: nothing is measured")
            .into()
    })
}

/// The first run with any operations.
fn first_that_did_something(mut run: impl FnMut() -> Run) -> Option<Run> {
    (0..ATTEMPTS).map(|_| run()).find(|run| run.mops > NOTHING_MOPS)
}

fn timed_once(
    ours: &Ours<u64>,
    streams: &[Stream],
    backend: Backend,
    size: &Size,
    tally: &mut Tally,
) -> Run {
    let schedule = size.schedule();
    let (timed, run) = tally.least_disturbed_counted(&schedule, streams.len(), |before| {
        // New keys of an earlier run would hit.
        let part = size.requests / RUNS;
        let streams: Vec<Stream> = streams.iter().map(|it| it.after(before * part)).collect();
        let counts = || (ours.cache().stats(), ours.cache().list_turns());
        let before = counts();
        let measured = frazil_driver::run_with_backend(ours, &streams, 0, &schedule, backend);
        (measured, Run::between(before, counts()))
    });
    Run { mops: streams.len() as f64 / timed.us, ..run }
}

/// Time of a policy's requests outside the lock, with one thread.
fn outside(
    policy: &str,
    places: &[Place],
    size: &Size,
    tally: &mut Tally,
) -> Result<Outside, Failure> {
    let filled = |place: &Place| filled_cache(place, (policy, Kept::Costly, 0.0), size);
    let mut run =
        |ours: &Ours<u64>, streams: &[Stream], backend| timed(ours, streams, backend, size, tally);
    let place = &places[LAST];
    let ours = filled(place)?;
    let all = run(&ours, &place.runs[1][..1], backend(0.0))?;
    let crowded = run(&ours, &place.runs[2], backend(0.0))?;
    let passing = Backend { bypass: 1.0, ..backend(0.0) };
    let past = run(&ours, &place.runs[3][..1], passing)?;
    let mut at = |place: usize| {
        let run = run(&filled(&places[place])?, &places[place].runs[1][..1], backend(0.0))?;
        Ok::<_, Failure>((1.0 - run.hit_ratio, 1.0 / run.mops - run.spent_us))
    };
    // Both have hits and misses: two equations for two unknowns.
    let ((many, mixed_us), (few, few_us)) = (at(MIXED)?, at(FEW)?);
    let hit_us = ((few_us * many - mixed_us * few) / (many - few).max(1e-3)).max(0.0);
    let miss_us = (mixed_us - (1.0 - many) * hit_us) / many.max(1e-3);
    Ok(Outside {
        hit_us,
        alone_us: (1.0 / all.mops - all.spent_us).max(0.0),
        miss_us: miss_us.max(0.0),
        bypass_us: 1.0 / past.mops.max(1e-9),
        crowded_us: place.runs[2].len() as f64 / crowded.mops.max(1e-9),
    })
}

/// Factor on the time outside the lock with all threads, from FIFO's hits, which do not use the
/// lock.
fn slower(fifo: &[Outside]) -> f64 {
    median(fifo.iter().map(|it| it.crowded_us / it.alone_us.max(1e-9))).max(1.0)
}

/// The cache of a cell as a network: a lock, the backend, and as many cores as threads.
fn network(cell: &Cell, outside: Outside, threads: usize) -> Result<Network, ModelError> {
    let (hit_ratio, turns) = (cell.hit_ratio(), cell.of(|run| run.turns));
    // Finished requests only: requests in flight at the end have not taken their turn yet.
    let missed = cell.of(|run| run.missed);
    let of_miss = cell.of(|run| run.turns_of_miss).min(turns / missed.max(1e-9));
    let of_hit = (turns - missed * of_miss).max(0.0) / (1.0 - missed).max(1e-9);
    let service_us = cell.of(|run| run.spent_us) / turns.max(1e-9);
    let lock = Station { name: "lock".to_owned(), service: Service::Single(service_us) };
    let visit = |visits| Step::Visit { station: 0, visits };
    let (compute, wait) = (Step::Compute(outside.miss_us), Step::Wait(cell.backend_us));
    let hit_us = if hit_ratio < 0.999 { outside.hit_us } else { outside.alone_us };
    let hit = vec![Step::Compute(hit_us), visit(of_hit)];
    let past = vec![Step::Compute(outside.bypass_us), wait];
    let asks = 1.0 - cell.bypassed();
    let routes = vec![
        Route { kind: Kind::Hit, share: asks * hit_ratio, steps: hit },
        Route {
            kind: Kind::Miss,
            share: asks * (1.0 - hit_ratio),
            steps: vec![compute, wait, visit(of_miss)],
        },
        Route { kind: Kind::Bypass, share: cell.bypassed(), steps: past },
    ];
    Network::new(vec![lock], routes)?.on_cores(threads)
}

/// The predicted throughput: simulated, because a spin has a constant time.
fn foretell(
    cell: &Cell,
    outside: Outside,
    (threads, keeps_core): (usize, bool),
    size: &Size,
) -> Result<f64, ModelError> {
    if cell.kept == Kept::AsItIs {
        return Ok(0.0);
    }
    let network = network(cell, outside, threads)?;
    let options = SimulationOptions {
        service: Distribution::Deterministic,
        requests: size.simulated,
        warmup: size.simulated / 10,
        keeps_core,
        ..SimulationOptions::default()
    };
    Ok(simulate(&network, MPL, &options)?.solution.throughput_mops)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_did_nothing_is_no_figure() {
        let of = |mops| Run { mops, ..Run::default() };
        // The figures of a run without requests.
        let mut runs = [of(1e-9), of(1e-9), of(0.4)].into_iter();
        let found = first_that_did_something(|| runs.next().unwrap_or_default());
        assert_eq!(found.map(|run| run.mops), Some(0.4));
        assert!(first_that_did_something(|| of(1e-9)).is_none());
    }

    /// Counts of finished requests: a miss has an insertion, and an eviction if the cache is full.
    /// Ten more requests have not returned.
    #[test]
    fn turns_are_of_what_is_done() {
        let mut after = Stats::default();
        (after.hits, after.misses) = (60, 50);
        (after.insertions, after.replacements, after.evictions) = (38, 2, 40);
        let turns = ListTurns { turns: 60 + 80, ..ListTurns::default() };
        let run = Run::between((Stats::default(), ListTurns::default()), (after, turns));
        assert_eq!((run.missed, run.turns_of_miss, run.turns), (0.4, 2.0, 1.4));
        assert!((run.hit_ratio - 60.0 / 110.0).abs() < 1e-12);
    }
}
