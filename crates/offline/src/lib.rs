//! The best that a cache with knowledge of the future could do if fetches take time: BELATEDLY
//! (paper 5, §4; `docs/design/belatedly.md`).
//!
//! The choice of the objects to keep, and for how long, is a program of flows, one for each object,
//! that share the capacity. If flows may split, it is a linear program, and its optimum is a
//! **lower bound** on the total wait of requests under any schedule. Rounded to a schedule and
//! replayed, it gives an **upper bound** on the best schedule's wait.
//!
//! ```
//! use frazil_offline::belatedly;
//! use frazil_simulator::{FetchLatency, Fetching, ReplayClock, SweepOptions, trace};
//!
//! let loaded = trace::load("zipf:0.8:objects=50:requests=300:seed=1", &Default::default())?;
//! let fetching = Fetching::new(&loaded.trace, FetchLatency::Fixed(10), ReplayClock::Request)?;
//! let found = belatedly(&loaded.trace, 8, &fetching, &SweepOptions::default(), &|| ())?;
//! let total = found.outcome.latency.map(|latency| latency.total);
//! assert!(Some(found.latency_total_least) <= total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bound;
mod program;
mod relaxation;
mod schedule;
mod solver;

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Operation, Trace};
use frazil_simulator::{
    CellSpec, Fetching, Outcome, ReplayClock, SweepOptions, Unit, replay_schedule, sweep_delayed,
};

use crate::program::Program;
use crate::relaxation::{Relaxation, Solution};
use crate::schedule::Schedule;

/// Most requests of a trace. The solver's time grows faster than their number, and with the number
/// of objects live at once: `docs/design/belatedly.md` has figures.
pub const MOST_REQUESTS: usize = 10_000;
/// Most ticks of a fetch: all sums stay far below 2^63.
pub const LONGEST_FETCH: u64 = 1_000_000_000;

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BelatedlyError {
    /// Durations of fetches differ.
    #[error("belatedly is for fetches of one length, as `--fetch-latency fixed:100`")]
    NotFixed,
    /// The fetch is too long.
    #[error("belatedly takes fetches of {LONGEST_FETCH} requests at most, not {0}")]
    LongFetch(u64),
    /// Ticks are not requests.
    #[error("belatedly counts time in requests: `--clock request`")]
    Clock,
    /// Capacities are in bytes.
    #[error("belatedly is for objects of one size: `--unit objects`")]
    Sizes,
    /// Some requests are a warm-up, not counted.
    #[error("belatedly counts every request: leave out `--warmup`")]
    WarmUp,
    /// There are sets or deletes.
    #[error("belatedly is for gets alone, and record {0} of the trace is a set or a delete")]
    Operation(usize),
    /// The trace is too long.
    #[error(
        "belatedly solves a program of up to {MOST_REQUESTS} requests, and the trace has {0}: \
         `--limit {MOST_REQUESTS}` takes the first"
    )]
    TooLong(usize),
    /// The solver gave up.
    #[error("the solver of belatedly found nothing: {0}")]
    Solver(String),
}

/// Both bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belatedly {
    /// No schedule has a lower [`Latency::total`](frazil_simulator::Latency::total).
    pub latency_total_least: u64,
    /// Whether no object's flow was split, to five digits: then some schedule reaches the lower
    /// bound.
    pub whole: bool,
    /// The result of the schedule found: its total is the upper bound.
    pub outcome: Outcome,
}

/// Bounds the waits of requests under every schedule.
///
/// The schedule is replayed by the simulator's own loop. If the rounded one is no better than
/// `belady-mad`, the result is that policy's. `waiting` is called between the steps.
///
/// # Errors
/// Traces that the program cannot express or solve in acceptable time: see [`BelatedlyError`].
pub fn belatedly(
    trace: &Trace,
    capacity: u64,
    fetching: &Fetching,
    options: &SweepOptions,
    waiting: &(dyn Fn() + Sync),
) -> Result<Belatedly, BelatedlyError> {
    let fetch = check(trace, fetching, options)?;
    // The cache never holds more objects.
    let places = u32::try_from(capacity).unwrap_or(u32::MAX);
    let program = Program::new(&trace.ids, trace.objects.len(), places, fetch);
    let relaxation = Relaxation::new(&program);
    // If the capacity is never exceeded there is nothing to solve, and the solver refuses an empty
    // program.
    let solution = match program.moments {
        0 => Solution::free(&relaxation.linear),
        _ => solver::solve(&relaxation.linear).map_err(BelatedlyError::Solver)?,
    };
    let least = bound::lower_bound(&program, &relaxation.prices(&solution));
    waiting();
    let schedule = Schedule::round(&program, &relaxation, &solution, least);
    let leaving = schedule.leaving();
    let step = |_| waiting();
    let planned = replay_schedule(trace, &leaving, capacity, options, fetching, &step);
    let greedy = CellSpec { policy: PolicySpec::BeladyMad, capacity };
    let greedy = sweep_delayed(trace, &[greedy], options, fetching, &step);
    let total = |outcome: &Outcome| outcome.latency.map(|latency| latency.total);
    let outcomes = greedy.into_iter().chain([planned]);
    let outcome = outcomes.min_by_key(total).unwrap_or(planned);
    let whole = relaxation.split(&solution) == 0;
    Ok(Belatedly { latency_total_least: least, whole, outcome })
}

/// The duration of fetches, if the program can express it.
fn check(
    trace: &Trace,
    fetching: &Fetching,
    options: &SweepOptions,
) -> Result<u64, BelatedlyError> {
    let fetch = fetching.fixed().ok_or(BelatedlyError::NotFixed)?;
    if fetching.clock() != ReplayClock::Request {
        return Err(BelatedlyError::Clock);
    }
    if fetch > LONGEST_FETCH {
        return Err(BelatedlyError::LongFetch(fetch));
    }
    if options.unit != Unit::Objects {
        return Err(BelatedlyError::Sizes);
    }
    if options.warmup > 0 {
        return Err(BelatedlyError::WarmUp);
    }
    if let Some(record) = trace.operations.iter().position(|it| *it != Operation::Get) {
        return Err(BelatedlyError::Operation(record + 1));
    }
    if trace.len() > MOST_REQUESTS {
        return Err(BelatedlyError::TooLong(trace.len()));
    }
    Ok(fetch)
}
