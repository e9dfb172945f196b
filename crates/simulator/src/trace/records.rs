//! Traces that the caller has in memory, such as in arrays of another language.
//!
//! Their records take the same path as a file's, batch by batch. So they support everything that
//! files do, and need no copy other than the one that is kept of a file.

use std::fmt;
use std::ops::Range;

use super::decode::{BATCH, Columns, Limited, Sink};
use super::lifetimes::LifetimeTally;
use super::{LatencyUnit, LifetimeSummary, ReadOptions, Record, TimeUnit, Trace, TraceError};

type Fill = Box<dyn Fn(Range<usize>, &mut Vec<Record>) + Send + Sync>;

/// A trace in memory, for [`ReadOptions::records`].
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, Record, Records, load};
///
/// let ids = [7, 8, 7];
/// let records = Records::new(ids.len(), move |range, batch| {
///     batch.extend(ids[range].iter().map(|&id| Record { id, ..Record::default() }));
/// });
/// let options = ReadOptions { records: Some(&records), ..ReadOptions::default() };
/// let loaded = load("three requests", &options)?;
/// assert_eq!(loaded.trace.ids, [0, 1, 0]);
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
pub struct Records {
    /// Whether the records have times in nanoseconds; by default not.
    pub times: bool,
    /// Whether the records have sizes in bytes; by default not.
    pub sizes: bool,
    /// The unit of the durations of fetches, if these are times; by default there are none.
    pub latencies: Option<TimeUnit>,
    length: usize,
    fill: Fill,
}

impl Records {
    /// A trace of `length` records. `fill` appends those of a range to a list, one for each number.
    pub fn new(
        length: usize,
        fill: impl Fn(Range<usize>, &mut Vec<Record>) + Send + Sync + 'static,
    ) -> Self {
        Records { times: false, sizes: false, latencies: None, length, fill: Box::new(fill) }
    }

    /// Appends the records of a range to a list.
    pub fn fill(&self, range: Range<usize>, batch: &mut Vec<Record>) {
        (self.fill)(range, batch);
    }

    /// Pushes all records within the limit.
    pub(super) fn push_into(
        &self,
        name: &str,
        options: &ReadOptions<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<LifetimeSummary>, TraceError> {
        let columns =
            Columns { times: self.times, sizes: self.sizes, latencies: self.latencies.is_some() };
        let each = match (options.latencies, self.latencies) {
            (Some(LatencyUnit::Time), Some(unit)) => unit.nanoseconds(),
            _ => 1,
        };
        let mut sink = Limited::of(sink, options);
        let mut batch = Vec::with_capacity(BATCH);
        for start in (0..self.length).step_by(BATCH) {
            batch.clear();
            let end = self.length.min(start + BATCH);
            self.fill(start..end, &mut batch);
            if each > 1 {
                batch.iter_mut().for_each(|it| it.latency = it.latency.saturating_mul(each));
            }
            let more = sink
                .push(&batch, columns)
                .map_err(|problem| TraceError::TooLarge { file: name.to_owned(), problem })?;
            let told = options.progress.map(|progress| progress(end as u64, self.length as u64));
            if told.is_some_and(|told| told.is_break()) {
                return Err(TraceError::Stopped { file: name.to_owned() });
            }
            if !more {
                break;
            }
        }
        if sink.taken == 0 {
            return Err(TraceError::Empty { file: name.to_owned() });
        }
        Ok(sink.lifetimes.as_ref().and_then(LifetimeTally::summary))
    }
}

impl Records {
    /// A trace that has been read, once more.
    pub(crate) fn of_trace(trace: Trace) -> Self {
        let (times, sizes) = (!trace.times_ns.is_empty(), !trace.sizes.is_empty());
        let record = |trace: &Trace, at: usize| Record {
            time_ns: trace.times_ns.get(at).copied().unwrap_or_default(),
            id: trace.objects[trace.ids[at] as usize],
            size: trace.sizes.get(at).unwrap_or(1),
            operation: trace.operations.get(at).copied().unwrap_or_default(),
            latency: trace.latencies.get(at).copied().unwrap_or_default(),
            lifetime_ns: trace.lifetimes_ns.get(at).copied().unwrap_or_default(),
        };
        let length = trace.len();
        let fill = move |range: Range<usize>, batch: &mut Vec<Record>| {
            batch.extend(range.map(|at| record(&trace, at)));
        };
        Records { times, sizes, ..Records::new(length, fill) }
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{load, stream};
    use std::ops::ControlFlow;

    fn counting(length: usize) -> Records {
        let record = |id: usize| Record { id: id as u64 % 9, size: 2, ..Record::default() };
        Records::new(length, move |range, batch| batch.extend(range.map(record)))
    }

    #[test]
    fn all_records_come_within_the_limit() {
        for (length, limit) in [(1, None), (BATCH, None), (2 * BATCH + 7, None), (4_000, Some(600))]
        {
            let records = Records { sizes: true, ..counting(length) };
            let options = ReadOptions { records: Some(&records), limit, ..ReadOptions::default() };
            let trace = load("no/such/file", &options).unwrap().trace;
            assert_eq!(trace.len(), limit.map_or(length, |limit| limit as usize));
            assert_eq!(trace.sizes.iter().sum::<u64>(), 2 * trace.len() as u64);
            assert_eq!(trace.ids.last(), Some(&((trace.len() as u32 - 1) % 9)));
        }
    }

    #[test]
    fn nothing_is_an_error_and_a_stop_is_one() {
        let none = counting(0);
        let options = ReadOptions { records: Some(&none), ..ReadOptions::default() };
        assert!(matches!(load("none", &options), Err(TraceError::Empty { .. })));
        let some = counting(10 * BATCH);
        let stop = |done: u64, _: u64| match done < 3 * BATCH as u64 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        };
        let options =
            ReadOptions { records: Some(&some), progress: Some(&stop), ..ReadOptions::default() };
        let mut seen = 0;
        let stopped = stream("some", &options, &mut |batch, _| seen += batch.len());
        assert!(matches!(stopped, Err(TraceError::Stopped { .. })));
        assert_eq!(seen, 3 * BATCH);
    }
}
