//! One cell over a stream: for traces that do not fit in memory.
//!
//! The records are replayed as they are decoded and not kept, so memory is that of the cache: 14 to
//! 27 bytes a resident for the index, 12 to 16 for the slots, and the policy's own. Each object
//! with a lifetime, or that has expired, adds some 50 bytes.

use std::time::Instant;

use frazil_policy::PolicySpec;

use crate::expiring::{ExpiringCell, When};
use crate::replay::Outcome;
use crate::trace::{
    self, Lifetimes, Operation, Origin, ReadOptions, Record, StreamTraits, TraceError,
};
use crate::versatile::{Request, over_stream};
use crate::{CapacityError, CellSpec, SweepOptions, Unit, sample_capacity};

/// Why a stream could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The capacity does not fit the trace.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The policy is offline.
    #[error("policy `{0}` must know the whole trace, and cannot run on a stream")]
    Offline(PolicySpec),
    /// All entries have one lifetime, and the trace has no times.
    #[error("the trace has no times, without which nothing can expire")]
    NoTimes,
    /// More objects than a stack can hold.
    #[error("more than a billion distinct objects; take a sample of them")]
    TooManyObjects,
}

impl StreamError {
    pub(crate) fn is_size_unknown(&self) -> bool {
        matches!(self, StreamError::Trace(TraceError::SizeUnknown { .. }))
    }
}

/// Replays the trace `spec` ([`trace::load`]) through one cell without keeping it.
///
/// The outcome is that of [`crate::sweep`]. `options.threads` has no effect. The capacity is that
/// for all objects; for a trace recorded at a lower rate it is scaled ([`sample_capacity`]).
///
/// ```
/// use frazil_simulator::{CellSpec, SweepOptions, replay_stream, trace::ReadOptions};
///
/// let cell = CellSpec { policy: "sieve".parse()?, capacity: 100 };
/// let spec = "zipf:1.0:objects=1K:requests=20K";
/// let (outcome, _) =
///     replay_stream(spec, &ReadOptions::default(), cell, &SweepOptions::default())?;
/// assert_eq!(outcome.requests, 20_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the trace can't be read, has no sizes and the unit is bytes, or the policy
/// [wants](PolicySpec::wants_trace) the trace.
pub fn replay_stream(
    spec: &str,
    read: &ReadOptions<'_>,
    cell: CellSpec,
    options: &SweepOptions,
) -> Result<(Outcome, Origin), StreamError> {
    if cell.policy.wants_trace() {
        return Err(StreamError::Offline(cell.policy));
    }
    let read = &ReadOptions { sizes: options.unit == Unit::Bytes, ..read.clone() };
    trace::with_sizes(spec, read, StreamError::is_size_unknown, |read| {
        replay_once(spec, read, cell, options)
    })
}

fn replay_once(
    spec: &str,
    read: &ReadOptions<'_>,
    cell: CellSpec,
    options: &SweepOptions,
) -> Result<(Outcome, Origin), StreamError> {
    let mut replay: Option<Replay> = None;
    let (mut sizes, mut times) = (true, true);
    let fixed = matches!(options.lifetimes, Lifetimes::Fixed(_));
    let of_trace = options.lifetimes == Lifetimes::OfTrace;
    let read =
        &ReadOptions { lifetimes: options.lifetimes, times: read.times || fixed, ..read.clone() };
    let mut sink = |records: &[Record], traits: StreamTraits| {
        sizes &= traits.sizes;
        times &= traits.times;
        // Its size depends on the rate of a sampled trace.
        let replay = replay.get_or_insert_with(|| {
            let capacity = sample_capacity(cell.capacity, traits.rate);
            let cell = over_stream(&cell.policy, capacity, options);
            let cell = ExpiringCell::over_stream(cell, options.lifetimes);
            Replay { cell, expires: fixed, warmup_left: options.warmup, seconds: 0.0 }
        });
        let says = |record: &Record| record.lifetime_ns > 0;
        replay.expires |= of_trace && traits.times && records.iter().any(says);
        replay.feed(records);
    };
    let origin = trace::stream(spec, read, &mut sink)?;
    if options.unit == Unit::Bytes && !sizes {
        return Err(CapacityError::NoSizes.into());
    }
    if fixed && !times {
        return Err(StreamError::NoTimes);
    }
    // A trace without records has its own error.
    let outcome = replay.map(|it| it.cell.outcome(it.seconds)).unwrap_or_default();
    Ok((outcome, origin))
}

/// A cell that is fed batch by batch.
struct Replay {
    cell: ExpiringCell<'static>,
    /// Whether entries may expire: from the first batch on with a lifetime in a record.
    expires: bool,
    warmup_left: u64,
    seconds: f64,
}

impl Replay {
    fn feed(&mut self, records: &[Record]) {
        let started = Instant::now();
        let mut counted = records;
        if self.warmup_left > 0 {
            let is_get = |record: &Record| record.operation == Operation::Get;
            let mut gets = records.iter().enumerate().filter(|(_, record)| is_get(record));
            let last = usize::try_from(self.warmup_left - 1).unwrap_or(usize::MAX);
            let end = gets.nth(last).map_or(records.len(), |(last, _)| last + 1);
            let (warmup, rest) = records.split_at(end);
            self.warmup_left -= warmup.iter().filter(|record| is_get(record)).count() as u64;
            self.feed_all(warmup);
            self.cell.reset_counts();
            counted = rest;
        }
        self.feed_all(counted);
        self.seconds += started.elapsed().as_secs_f64();
    }

    fn feed_all(&mut self, records: &[Record]) {
        let request =
            |&Record { id, size, operation, .. }: &Record| Request { object: id, size, operation };
        if !self.expires {
            return self.cell.feed_endless(records.iter().map(request));
        }
        for record in records {
            let &Record { time_ns, lifetime_ns, .. } = record;
            self.cell.step(request(record), When { time_ns, lifetime_ns });
        }
    }
}
