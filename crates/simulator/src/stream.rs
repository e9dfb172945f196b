//! One cell over a stream: for traces that do not fit in memory.
//!
//! The records are replayed as they are decoded and then forgotten, so memory is
//! that of the cache: 14 to 27 bytes a resident for the index, 12 to 16 for the
//! slots, and the policy's own.

use std::time::Instant;

use frazil_policy::{Policy, PolicySpec, PolicyVisitor};

use crate::index::HashedIndex;
use crate::replay::{Cell, Counting, Outcome, Tally};
use crate::trace::{self, Operation, Origin, ReadOptions, Record, TraceError};
use crate::{CapacityError, CellSpec, SweepOptions, Unit};

/// Why a stream could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The capacity does not go with the trace.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The policy must know the future.
    #[error("policy `{0}` must know the whole trace, and cannot run on a stream")]
    Offline(PolicySpec),
}

/// Replays the trace `spec` ([`trace::load`]) through one cell without keeping it.
///
/// Gives the outcome that [`crate::sweep`] gives. `options.threads` has no effect.
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
/// is offline.
pub fn replay_stream(
    spec: &str,
    read: &ReadOptions<'_>,
    cell: CellSpec,
    options: &SweepOptions,
) -> Result<(Outcome, Origin), StreamError> {
    if cell.policy.is_offline() {
        return Err(StreamError::Offline(cell.policy));
    }
    let replay = Replay { spec, read, capacity: cell.capacity, options };
    let no_future = || Vec::new().into();
    cell.policy.visit(cell.capacity, no_future, replay)
}

struct Replay<'a> {
    spec: &'a str,
    read: &'a ReadOptions<'a>,
    capacity: u64,
    options: &'a SweepOptions,
}

impl Replay<'_> {
    fn run<P: Policy, T: Tally, const BYTES: bool>(
        self,
        policy: P,
    ) -> Result<(Outcome, Origin), StreamError> {
        let index = HashedIndex::default();
        let resize_on_get = self.options.resize_on_get;
        let mut cell = Cell::<_, P, T, BYTES>::new(index, policy, self.capacity, resize_on_get);
        let mut seconds = 0.0;
        let mut warmup_left = self.options.warmup;
        let mut sizes = true;
        let mut sink = |records: &[Record], has_sizes: bool| {
            let started = Instant::now();
            sizes &= has_sizes;
            let mut counted = records;
            if warmup_left > 0 {
                let is_get = |record: &Record| record.operation == Operation::Get;
                let mut gets = records.iter().enumerate().filter(|(_, record)| is_get(record));
                let last = usize::try_from(warmup_left - 1).unwrap_or(usize::MAX);
                let end = gets.nth(last).map_or(records.len(), |(last, _)| last + 1);
                let (warmup, rest) = records.split_at(end);
                warmup_left -= warmup.iter().filter(|record| is_get(record)).count() as u64;
                cell.feed_records(warmup);
                cell.reset_counts();
                counted = rest;
            }
            cell.feed_records(counted);
            seconds += started.elapsed().as_secs_f64();
        };
        let origin = trace::stream(self.spec, self.read, &mut sink)?;
        if BYTES && !sizes {
            return Err(CapacityError::NoSizes.into());
        }
        Ok((cell.outcome(seconds), origin))
    }
}

impl PolicyVisitor for Replay<'_> {
    type Output = Result<(Outcome, Origin), StreamError>;

    fn visit<P: Policy + Send + 'static>(self, policy: P) -> Self::Output {
        match (self.options.unit, self.options.count_work) {
            (Unit::Objects, false) => self.run::<P, (), false>(policy),
            (Unit::Objects, true) => self.run::<P, Counting, false>(policy),
            (Unit::Bytes, false) => self.run::<P, (), true>(policy),
            (Unit::Bytes, true) => self.run::<P, Counting, true>(policy),
        }
    }
}
