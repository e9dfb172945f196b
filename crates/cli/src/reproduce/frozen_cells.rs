//! The cells of paper 2: a policy beside the same policy with a frozen part.
//!
//! Both caches of a cell live at once. The one that freezes is driven until its controller has
//! decided; then the two take turns in short rounds, and the resting one gets no requests. A gain
//! is the median of the ratios within a round, with the frozen cache in *that* state: figures 10
//! and 13 have the cost of waiting, learning and trying.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use frazil::{FreezingPhase, FreezingState, Stats};
use frazil_driver::{
    Ask, Backend, Engine, Frozen, Operation, Ours, Schedule, Session, Setup, Stream, Workload, key,
    run_with_backend,
};
use frazil_simulator::trace::{self, Trace};

use crate::failure::Failure;
use crate::median::median;
use crate::output::{Row, row};

/// Exponent of the paper's synthetic workload.
const ALPHA: f64 = 0.99;

/// Requests drawn for each key and turn: enough that a repeated stream does not request fewer keys.
const DRAWN_PER_KEY: u64 = 20;

/// Lifetime of a frozen share, in multiples of its construction time: the authors' choice.
pub(super) const LIFETIME: u32 = 20;

/// The requests.
pub(super) enum Load {
    /// Zipf 0.99 with a short name: the keys, and streams for some numbers of threads, by turn.
    Zipf(&'static str, u64, Vec<(usize, Vec<Stream>)>),
    /// A trace with a short name, divided among the threads.
    Trace(&'static str, Trace),
}

impl Load {
    /// Zipf's law, drawn for some numbers of threads and `turns` turns.
    pub(super) fn zipf(
        name: &'static str,
        keys: u64,
        threads: &[usize],
        turns: usize,
    ) -> Result<Load, Failure> {
        let draw = |&threads: &usize| {
            let drawn = (keys * DRAWN_PER_KEY) as usize * turns;
            let workload = Workload::Zipf { alpha: ALPHA };
            Ok((threads, workload.streams(keys, drawn, threads * turns)?))
        };
        let drawn: Result<_, frazil_driver::WorkloadError> = threads.iter().map(draw).collect();
        Ok(Load::Zipf(name, keys, drawn.map_err(|error| anyhow!(error))?))
    }

    /// A trace of a folder.
    pub(super) fn read(name: &'static str, folder: &Path, file: &str) -> Result<Load, Failure> {
        let path = folder.join(file).display().to_string();
        Ok(Load::Trace(name, trace::load(&path, &Default::default())?.trace))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Load::Zipf(name, ..) | Load::Trace(name, _) => name,
        }
    }

    /// Number of requested objects.
    fn objects(&self) -> u64 {
        match self {
            Load::Zipf(_, keys, _) => *keys,
            Load::Trace(_, trace) => trace.objects.len() as u64,
        }
    }

    pub(super) fn capacity(&self, percent: f64) -> u64 {
        ((self.objects() as f64 * percent / 100.0).round() as u64).max(1)
    }

    /// The streams of one of several turns: different draws, or a later part of the trace.
    fn streams(&self, threads: usize, turn: usize, turns: usize) -> Vec<Stream> {
        match self {
            Load::Zipf(_, _, drawn) => {
                let of = drawn.iter().find(|(number, _)| *number == threads);
                let streams = of.map_or(&[] as &[Stream], |(_, streams)| streams);
                streams.chunks(threads).nth(turn).unwrap_or_default().to_vec()
            }
            Load::Trace(_, trace) => {
                let (before, from) = trace.ids.split_at(turn * trace.len() / turns);
                let ids = || from.iter().chain(before);
                let dealt = |thread| {
                    let ids = ids().skip(thread).step_by(threads);
                    let asked = ids.map(|&id| Operation::new(Ask::Get, id));
                    Stream::new(asked.collect::<Vec<_>>(), 0)
                };
                (0..threads).map(dealt).collect()
            }
        }
    }
}

/// The place of a comparison of two caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) figure: u32,
    pub(super) policy: &'static str,
    /// The capacity in percent of the objects.
    pub(super) percent: f64,
    pub(super) threads: usize,
    pub(super) backend_us: u64,
}

/// The duration of measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) rounds: usize,
    /// Runs from the beginning, each with and without the controller.
    pub(super) settlings: usize,
    pub(super) warmup: Duration,
    pub(super) measured: Duration,
}

/// Rounds of one cache.
#[derive(Default)]
pub(super) struct Side {
    mops: Vec<f64>,
    hit_ratios: Vec<f64>,
}

impl Side {
    pub(super) fn mops(&self) -> f64 {
        median(&self.mops)
    }

    pub(super) fn hit_ratio(&self) -> f64 {
        median(&self.hit_ratios)
    }
}

/// Two runs from the beginning until the controller had decided: the policy alone, and with the
/// controller.
#[derive(Clone, Copy)]
struct Settling {
    seconds: f64,
    /// Millions of requests a second: alone, and with the controller.
    mops: [f64; 2],
}

/// The figures of a spot.
pub(super) struct Cell {
    pub(super) spot: Spot,
    pub(super) load: &'static str,
    pub(super) capacity: u64,
    pub(super) base: Side,
    pub(super) frozen: Side,
    /// The controller's phase at the end of each round.
    phases: Vec<FreezingPhase>,
    /// Shares of the hits that were frozen hits, by round.
    frozen_hits: Vec<f64>,
    /// The frozen share at the end of each round.
    shares: Vec<f64>,
    /// Seconds until the controller of the rounds had decided.
    pub(super) settling: f64,
    /// Time from the beginning to the decision, in several runs that alternate with the policy
    /// alone.
    settlings: Vec<Settling>,
    /// Seconds of each round that were measured.
    round: f64,
    /// The state at the end.
    pub(super) state: FreezingState,
}

impl Cell {
    /// The frozen cache's throughput over the other's.
    pub(super) fn gain(&self) -> f64 {
        let pairs = self.frozen.mops.iter().zip(&self.base.mops);
        median(pairs.map(|(frozen, base)| frozen / base.max(1e-9)))
    }

    /// The gain over whole runs, to the end of the rounds, so it includes the cost of waiting,
    /// learning and trying. The median of alternating runs.
    pub(super) fn whole_gain(&self) -> f64 {
        let sum = |side: &Side| side.mops.iter().sum::<f64>() * self.round;
        let [base, frozen] = [&self.base, &self.frozen].map(sum);
        let gain = |it: &Settling| {
            let [alone, with] = it.mops.map(|mops| mops * it.seconds);
            (frozen + with) / (base + alone).max(1e-9)
        };
        median(self.settlings.iter().map(gain))
    }

    /// The excess of hits in the frozen cache over the other, as a share of all requests. Like the
    /// gain, from each round separately: parts of a trace differ by more than the effect of
    /// freezing.
    pub(super) fn hits_more(&self) -> f64 {
        let pairs = self.frozen.hit_ratios.iter().zip(&self.base.hit_ratios);
        median(pairs.map(|(frozen, base)| frozen - base))
    }

    pub(super) fn frozen_hits(&self) -> f64 {
        median(&self.frozen_hits)
    }

    /// The phase of most rounds.
    fn usual_phase(&self) -> Option<FreezingPhase> {
        let count = |phase: &FreezingPhase| self.phases.iter().filter(|it| *it == phase).count();
        self.phases.iter().copied().max_by_key(count)
    }

    pub(super) fn phase(&self) -> String {
        self.usual_phase().map_or_else(String::new, phase_name)
    }

    /// The median frozen share over the rounds of that phase: the end may be in another phase.
    pub(super) fn share(&self) -> f64 {
        let rounds = self.phases.iter().zip(&self.shares);
        let usual = rounds.filter(|(phase, _)| Some(**phase) == self.usual_phase());
        median(usual.map(|(_, share)| share))
    }

    pub(super) fn row(&self) -> Row {
        let Spot { figure, policy, percent, threads, backend_us } = self.spot;
        row! {
            "kind" => "gain",
            "figure" => figure,
            "workload" => self.load,
            "policy" => policy,
            "capacity_percent" => percent,
            "capacity" => self.capacity,
            "threads" => threads,
            "backend_us" => backend_us,
            "mops" => self.base.mops(),
            "frozen_mops" => self.frozen.mops(),
            "gain" => self.gain(),
            "whole_run_gain" => self.whole_gain(),
            "hit_ratio" => self.base.hit_ratio(),
            "frozen_hit_ratio" => self.frozen.hit_ratio(),
            "hit_ratio_change" => self.hits_more(),
            "frozen_share_of_hits" => self.frozen_hits(),
            "phase" => self.phase(),
            "share" => self.share(),
            "verdict" => self.state.verdict().map(ToString::to_string),
            "settling_s" => self.settling,
        }
    }
}

pub(super) fn phase_name(phase: FreezingPhase) -> String {
    format!("{phase:?}").to_lowercase()
}

/// A cache by name, full of the first objects. A frozen share lasts `lifetime` times its
/// construction time.
fn cache(name: &str, lifetime: u32, capacity: u64) -> Result<Ours<u64>, Failure> {
    let setup: Setup = name.parse().map_err(Failure::usage)?;
    let builder = setup.builder(capacity);
    let learns = setup.frozen == Frozen::Learned;
    let builder = if learns { builder.freezing_lifetime(lifetime) } else { builder };
    let ours = Ours::built(setup, builder);
    let mut session = ours.session();
    for number in (0..capacity).rev() {
        session.insert(key(number as u32, 0));
    }
    Ok(ours)
}

/// One request in flight for each thread, as in the paper, where a thread waits for its miss.
fn backend(spot: &Spot) -> Backend {
    Backend::new(Duration::from_micros(spot.backend_us), spot.threads)
}

/// Measures the two caches of a spot alternately.
pub(super) fn compare(load: &Load, spot: Spot, extent: &Extent) -> Result<Cell, Failure> {
    let Extent { rounds, settlings: settlings_wanted, warmup, measured } = *extent;
    let capacity = load.capacity(spot.percent);
    let drive = |engine: &Ours<u64>, streams: &[Stream], measured, fill| {
        let schedule = Schedule { warmup, measured, slices: 3 };
        run_with_backend(engine, streams, fill, &schedule, backend(&spot))
    };
    let streams = |turn| load.streams(spot.threads, turn, rounds + 1);
    let first = streams(0);
    let base = cache(spot.policy, LIFETIME, capacity)?;
    // Fills the cache, within ten warm-ups.
    drive(&base, &first, Duration::ZERO, capacity);
    let frozen_name = format!("frozen+{}", spot.policy);
    let frozen = cache(&frozen_name, LIFETIME, capacity)?;
    let mut settlings = Vec::new();
    for number in 0..settlings_wanted.max(1) {
        let another = (number > 0).then(|| cache(&frozen_name, LIFETIME, capacity)).transpose()?;
        let alone = cache(spot.policy, LIFETIME, capacity)?;
        let last = settlings.last().filter(|_| number % 2 == 1);
        let last = last.map(|it: &Settling| Duration::from_secs_f64(it.seconds));
        let with = another.as_ref().unwrap_or(&frozen);
        settlings.push(settle([&alone, with], last, |engine, measured| {
            drive(engine, &first, measured, 0);
        }));
    }

    let (mut sides, mut phases) = ([Side::default(), Side::default()], Vec::new());
    let (mut frozen_hits, mut shares) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let streams = streams(round + 1);
        for turn in [round % 2, 1 - round % 2] {
            let engine = [&base, &frozen][turn];
            let before = engine.cache().stats();
            let seen = drive(engine, &streams, measured, 0);
            sides[turn].mops.push(seen.mops);
            sides[turn].hit_ratios.push(seen.hit_ratio);
            if let Some(state) = engine.cache().freezing_state() {
                phases.push(state.phase);
                shares.push(state.share);
                let now = engine.cache().stats();
                frozen_hits.push(frozen_share_of_hits(&before, &now));
            }
        }
    }
    let [base_side, frozen_side] = sides;
    let state = frozen.cache().freezing_state();
    let state = state.ok_or_else(|| anyhow!("{} does not freeze by itself", spot.policy))?;
    Ok(Cell {
        spot,
        load: load.name(),
        capacity,
        base: base_side,
        frozen: frozen_side,
        phases,
        frozen_hits,
        shares,
        settling: settlings[0].seconds,
        settlings,
        round: measured.as_secs_f64(),
        state,
    })
}

/// Runs the policy with its controller from the beginning, until that has decided, and alone for as
/// long: afterwards, or before, for the time of the `last` one.
fn settle(
    [alone, with]: [&Ours<u64>; 2],
    last: Option<Duration>,
    drive: impl Fn(&Ours<u64>, Duration),
) -> Settling {
    let run = |engine: &Ours<u64>, measured| {
        let began = Instant::now();
        drive(engine, measured);
        let (stats, seconds) = (engine.cache().stats(), began.elapsed().as_secs_f64());
        ((stats.hits + stats.misses) as f64 / 1e6 / seconds.max(1e-9), seconds)
    };
    let before = last.map(|seconds| run(alone, seconds).0);
    let (with_mops, seconds) = run(with, Duration::ZERO);
    let alone_mops = before.unwrap_or_else(|| run(alone, Duration::from_secs_f64(seconds)).0);
    Settling { seconds, mops: [alone_mops, with_mops] }
}

/// Measures a cache that never freezes.
pub(super) fn alone(load: &Load, spot: Spot, extent: &Extent) -> Result<Side, Failure> {
    let Extent { rounds, warmup, measured, .. } = *extent;
    let capacity = load.capacity(spot.percent);
    let engine = cache(spot.policy, LIFETIME, capacity)?;
    let mut side = Side::default();
    for round in 0..rounds {
        let streams = load.streams(spot.threads, round, rounds);
        let schedule = Schedule { warmup, measured, slices: 3 };
        let fill = if round == 0 { capacity } else { 0 };
        let seen = run_with_backend(&engine, &streams, fill, &schedule, backend(&spot));
        side.mops.push(seen.mops);
        side.hit_ratios.push(seen.hit_ratio);
    }
    Ok(side)
}

fn frozen_share_of_hits(before: &Stats, now: &Stats) -> f64 {
    (now.frozen_hits - before.frozen_hits) as f64 / (now.hits - before.hits).max(1) as f64
}

/// The counts of a cache in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Time since the beginning.
    pub(super) seconds: f64,
    pub(super) mops: f64,
    pub(super) hit_ratio: f64,
    pub(super) phase: FreezingPhase,
    pub(super) share: f64,
}

/// A run of a cache that freezes, from its beginning.
pub(super) struct History {
    pub(super) load: &'static str,
    pub(super) spot: Spot,
    /// Lifetime of a frozen share, in multiples of its construction time.
    pub(super) lifetime: u32,
    pub(super) moments: Vec<Moment>,
    pub(super) state: FreezingState,
}

impl History {
    /// The median throughput of a phase, over the intervals entirely within it.
    pub(super) fn mops(&self, phase: FreezingPhase) -> Option<f64> {
        let inside = self.moments.windows(2).filter(|of| of.iter().all(|it| it.phase == phase));
        let mops: Vec<f64> = inside.map(|of| of[1].mops).collect();
        (!mops.is_empty()).then(|| median(&mops))
    }

    /// The mean throughput since the first freezing, if there was any.
    pub(super) fn mops_since_frozen(&self) -> Option<f64> {
        let since = self.moments.iter().skip_while(|it| it.phase != FreezingPhase::Frozen);
        let mops: Vec<f64> = since.map(|moment| moment.mops).collect();
        (!mops.is_empty()).then(|| mops.iter().sum::<f64>() / mops.len() as f64)
    }

    /// The share of the time in a phase.
    pub(super) fn time_in(&self, phase: FreezingPhase) -> f64 {
        let all: Duration = self.state.times_by_share().map(|(_, time)| time).sum();
        self.state.time_in(phase).as_secs_f64() / all.as_secs_f64().max(1e-9)
    }

    /// The mean share that was frozen.
    pub(super) fn mean_share(&self) -> f64 {
        let times = || self.state.times_by_share().map(|(share, time)| (share, time.as_secs_f64()));
        let all: f64 = times().map(|(_, time)| time).sum();
        times().map(|(share, time)| share * time).sum::<f64>() / all.max(1e-9)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let Spot { policy, percent, threads, .. } = self.spot;
        let moments = self.moments.iter().map(|moment| {
            row! {
                "kind" => "moment",
                "figure" => 13,
                "workload" => self.load,
                "policy" => policy,
                "capacity_percent" => percent,
                "threads" => threads,
                "lifetime" => self.lifetime,
                "second" => moment.seconds,
                "mops" => moment.mops,
                "hit_ratio" => moment.hit_ratio,
                "phase" => phase_name(moment.phase),
                "share" => moment.share,
            }
        });
        let frozen = self.state.times_by_share().filter(|(_, time)| !time.is_zero());
        let times = frozen.map(|(share, time)| {
            row! {
                "kind" => "time",
                "figure" => 10,
                "workload" => self.load,
                "policy" => policy,
                "capacity_percent" => percent,
                "threads" => threads,
                "lifetime" => self.lifetime,
                "share" => share,
                "seconds" => time.as_secs_f64(),
            }
        });
        moments.chain(times).collect()
    }
}

/// Time between two samples of a running cache.
const LOOK: Duration = Duration::from_millis(200);

/// Drives a cache from its beginning until some time after its controller has decided.
pub(super) fn history(
    load: &Load,
    spot: Spot,
    lifetime: u32,
    longer: Duration,
) -> Result<History, Failure> {
    let streams = load.streams(spot.threads, 0, 1);
    let name = format!("frozen+{}", spot.policy);
    let engine = cache(&name, lifetime, load.capacity(spot.percent))?;
    let over = AtomicBool::new(false);
    let moments = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&engine, &over));
        let schedule = Schedule { warmup: LOOK, measured: longer, slices: 1 };
        run_with_backend(&engine, &streams, 0, &schedule, backend(&spot));
        over.store(true, Relaxed);
        watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let state = engine.cache().freezing_state();
    let state = state.ok_or_else(|| anyhow!("{} does not freeze by itself", spot.policy))?;
    Ok(History { load: load.name(), spot, lifetime, moments, state })
}

fn watch(engine: &Ours<u64>, over: &AtomicBool) -> Vec<Moment> {
    let began = Instant::now();
    let mut before = (Instant::now(), engine.cache().stats());
    let mut moments = Vec::new();
    while !over.load(Relaxed) {
        std::thread::sleep(LOOK);
        let now = (Instant::now(), engine.cache().stats());
        let Some(state) = engine.cache().freezing_state() else { break };
        let hits = (now.1.hits - before.1.hits) as f64;
        let requests = hits + (now.1.misses - before.1.misses) as f64;
        moments.push(Moment {
            seconds: began.elapsed().as_secs_f64(),
            mops: requests / (now.0 - before.0).as_secs_f64().max(1e-9) / 1e6,
            hit_ratio: hits / requests.max(1.0),
            phase: state.phase,
            share: state.share,
        });
        before = now;
    }
    moments
}
