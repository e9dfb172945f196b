//! Workloads by name, and their streams for each thread.
//!
//! Streams of generated workloads have 8 M operations in all. Popularity follows ranks, so a
//! repeated stream is no easier: as many other requests as before lie between two for a rare key.
//! Every thread draws from the same keys, with its own seed. For a trace every thread requests all
//! of it under its own prefix, or its share of the records.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use frazil_simulator::trace::{Operation as TraceOperation, Trace};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::engine::{Engine, Session};
use crate::stream::{Ask, MAX_OBJECTS, Operation, Stream, key};

/// Exponent of the popularity if half of the operations write.
const WRITE_ALPHA: f64 = 1.0;
/// Keys are numbered with 30 bits.
const MAX_KEYS: u64 = MAX_OBJECTS;

/// The requests of the threads.
///
/// ```
/// use frazil_driver::Workload;
/// assert_eq!("zipf:0.9".parse::<Workload>()?, Workload::Zipf { alpha: 0.9 });
/// assert_eq!("requests.csv".parse::<Workload>()?, Workload::File("requests.csv".into()));
/// assert!("zipf:steep".parse::<Workload>().is_err());
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// `zipf:ALPHA`: independent gets, the key of rank r with probability proportional
    /// to r^-ALPHA.
    Zipf {
        /// The exponent.
        alpha: f64,
    },
    /// `hit`: gets of keys that are all resident, all equally likely.
    Hit,
    /// `write`: Zipf 1.0, half gets, half inserts without a look-up.
    Write,
    /// A trace: a file, or a generator's specification as the simulator takes it.
    File(PathBuf),
}

/// Why there is no such workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The exponent is invalid.
    #[error("workload `{0}`: expected an exponent from 0 to 10, as in zipf:1.0")]
    Alpha(String),
    /// Too few or too many keys.
    #[error("{0} keys: expected 1 to {MAX_KEYS}")]
    Keys(u64),
    /// The workload is a trace, which is not generated.
    #[error("{0} is a trace; its streams are made from what was read")]
    Trace(String),
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        Ok(match text {
            "hit" => Workload::Hit,
            "write" => Workload::Write,
            // With more parameters the simulator generates it, as a trace.
            _ => match text.strip_prefix("zipf:").filter(|alpha| !alpha.contains(':')) {
                Some(alpha) => match alpha.parse() {
                    Ok(alpha) if (0.0..=10.0).contains(&alpha) => Workload::Zipf { alpha },
                    _ => return Err(WorkloadError::Alpha(text.to_owned())),
                },
                None => Workload::File(PathBuf::from(text)),
            },
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Zipf { alpha } => write!(f, "zipf:{alpha:?}"),
            Workload::Hit => f.write_str("hit"),
            Workload::Write => f.write_str("write"),
            Workload::File(path) => path.display().fmt(f),
        }
    }
}

impl Workload {
    /// A stream for each of `threads`, over `keys` keys, of `operations` in all.
    /// O(operations), some 50 ns each, divided among the threads.
    ///
    /// ```
    /// let streams = frazil_driver::Workload::Hit.streams(100, 1_000, 2)?;
    /// assert_eq!((streams.len(), streams[0].len()), (2, 500));
    /// # Ok::<(), frazil_driver::WorkloadError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no key or too many, or the workload is a trace.
    pub fn streams(
        &self,
        keys: u64,
        operations: usize,
        threads: usize,
    ) -> Result<Vec<Stream>, WorkloadError> {
        if !(1..=MAX_KEYS).contains(&keys) {
            return Err(WorkloadError::Keys(keys));
        }
        let alpha = match self {
            Workload::Zipf { alpha } => *alpha,
            Workload::Hit => 0.0,
            Workload::Write => WRITE_ALPHA,
            Workload::File(path) => {
                return Err(WorkloadError::Trace(path.display().to_string()));
            }
        };
        let ranks = Zipf::new(keys as f64, alpha)
            .map_err(|_| WorkloadError::Alpha(format!("zipf:{alpha}")))?;
        let writes = *self == Workload::Write;
        let length = operations.div_ceil(threads.max(1));
        let make = |thread: usize| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(thread as u64 + 1);
            let draw = |_| {
                let rank = ranks.sample(&mut random) as u64 - 1;
                let insert = writes && random.random::<bool>();
                Operation::new(if insert { Ask::Insert } else { Ask::Get }, rank as u32)
            };
            Stream::new((0..length).map(draw).collect::<Vec<_>>(), 0)
        };
        Ok(std::thread::scope(|scope| {
            let made: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || make(thread))).collect();
            made.into_iter()
                .map(|made| match made.join() {
                    Ok(stream) => stream,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect()
        }))
    }
}

/// Inserts the first `keys` keys of a generated workload, so that `hit` only hits.
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::{Ours, Workload, one_pass, preload};
///
/// let ours = Ours::<u64>::new(Policy::Mobius, 110, 0);
/// preload(&ours, 100);
/// let streams = Workload::Hit.streams(100, 1_000, 1)?;
/// assert_eq!(one_pass(&ours, &streams[0]).misses, 0);
/// # Ok::<(), frazil_driver::WorkloadError>(())
/// ```
pub fn preload<E: Engine>(engine: &E, keys: u64) {
    let mut session = engine.session();
    for number in 0..keys.min(MAX_KEYS) {
        session.insert(key(number as u32, 0));
        if number % 256 == 0 {
            session.rest();
        }
    }
}

/// The streams of a trace: every thread gets all records under its own prefix, or, with `split`,
/// its share, dealt record by record. O(records) and 4 bytes a record.
///
/// ```
/// use frazil_simulator::trace::load;
/// let trace = load("loop:objects=9:requests=100", &Default::default())?.trace;
/// let copies = frazil_driver::trace_streams(&trace, 2, false)?;
/// let shares = frazil_driver::trace_streams(&trace, 2, true)?;
/// assert_eq!((copies[1].len(), shares[1].len()), (100, 50));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the trace has more objects than a stream can number.
pub fn trace_streams(
    trace: &Trace,
    threads: usize,
    split: bool,
) -> Result<Vec<Stream>, WorkloadError> {
    let objects = trace.objects.len() as u64;
    if objects > MAX_OBJECTS {
        return Err(WorkloadError::Keys(objects));
    }
    let operation = |record: usize| {
        let ask = match trace.operations.get(record) {
            None | Some(TraceOperation::Get) => Ask::Get,
            Some(TraceOperation::Set) => Ask::Insert,
            Some(TraceOperation::Delete) => Ask::Remove,
        };
        Operation::new(ask, trace.ids[record])
    };
    if split {
        let share = |thread| {
            let dealt = (thread..trace.len()).step_by(threads).map(operation);
            Stream::new(dealt.collect::<Vec<_>>(), 0)
        };
        return Ok((0..threads).map(share).collect());
    }
    let whole = Stream::new((0..trace.len()).map(operation).collect::<Vec<_>>(), 0);
    Ok((0..threads).map(|thread| Stream { prefix: thread as u32, ..whole.clone() }).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use frazil_simulator::trace::load;

    use super::*;

    fn asks(stream: &Stream) -> Vec<(Ask, u64)> {
        let ask = |operation: &Operation| (operation.ask(), operation.key(stream.prefix));
        stream.operations.iter().map(ask).collect()
    }

    #[test]
    fn streams_are_the_same_every_time_and_differ_by_thread() {
        for name in ["zipf:1.0", "zipf:0", "hit", "write"] {
            let workload: Workload = name.parse().unwrap();
            let make = || workload.streams(1_000, 30_000, 3).unwrap();
            let (first, again) = (make(), make());
            assert_eq!(first.len(), 3);
            for (first, again) in first.iter().zip(&again) {
                assert_eq!(first.len(), 10_000);
                assert_eq!(asks(first), asks(again), "{name}");
            }
            assert_ne!(asks(&first[0]), asks(&first[1]), "{name}");
        }
    }

    #[test]
    fn half_of_the_writes_write() {
        let writes = |workload: Workload| {
            let streams = workload.streams(1_000, 100_000, 1).unwrap();
            asks(&streams[0]).iter().filter(|(ask, _)| *ask == Ask::Insert).count()
        };
        assert!((48_000..52_000).contains(&writes(Workload::Write)));
        assert_eq!(writes(Workload::Hit) + writes(Workload::Zipf { alpha: 1.0 }), 0);
    }

    #[test]
    fn popularity_is_as_asked() {
        let count = |workload: Workload| {
            let streams = workload.streams(1_000, 100_000, 1).unwrap();
            let (hottest, coldest) = (key(0, 0), key(999, 0));
            let count = |wanted| asks(&streams[0]).iter().filter(|(_, key)| *key == wanted).count();
            (count(hottest), count(coldest))
        };
        // 1 / H(1000) = 0.1336, and a thousandth of that.
        let (hottest, coldest) = count(Workload::Zipf { alpha: 1.0 });
        assert!((13_000..13_700).contains(&hottest) && (1..40).contains(&coldest));
        let (first, last) = count(Workload::Hit);
        assert!((50..160).contains(&first) && (50..160).contains(&last));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["zipf:", "zipf:-1", "zipf:11", "zipf:nan", "zipf:1.0x"] {
            let error = text.parse::<Workload>().unwrap_err();
            assert_eq!(error, WorkloadError::Alpha(text.to_owned()));
        }
        for keys in [0, MAX_OBJECTS + 1] {
            assert_eq!(Workload::Hit.streams(keys, 10, 1).unwrap_err(), WorkloadError::Keys(keys));
        }
        let file: Workload = "zipf:1.0:objects=5".parse().unwrap();
        assert!(matches!(file.streams(5, 10, 1), Err(WorkloadError::Trace(_))));
    }

    #[test]
    fn a_trace_is_copied_or_dealt_out() {
        let trace = load("zipf:0.8:objects=50:requests=1001", &Default::default()).unwrap().trace;
        let copies = trace_streams(&trace, 2, false).unwrap();
        let keys = |stream: &Stream| asks(stream).into_iter().map(|(_, key)| key);
        let first: HashSet<u64> = keys(&copies[0]).collect();
        let second: HashSet<u64> = keys(&copies[1]).collect();
        assert_eq!((copies[0].len(), copies[1].len()), (1001, 1001));
        assert_eq!((first.len(), second.len()), (trace.objects.len(), trace.objects.len()));
        assert!(first.is_disjoint(&second));

        let dealt = trace_streams(&trace, 2, true).unwrap();
        let shares = [&dealt[0], &dealt[1]].map(|share| keys(share).collect::<Vec<u64>>());
        assert_eq!((shares[0].len(), shares[1].len()), (501, 500));
        let whole: Vec<u64> = keys(&copies[0]).collect();
        let order = |record: usize| shares[record % 2][record / 2];
        assert_eq!((0..1001).map(order).collect::<Vec<_>>(), whole);
    }

    #[test]
    fn operations_of_a_trace_are_kept() {
        let trace = Trace {
            ids: vec![0, 0, 0],
            operations: vec![TraceOperation::Get, TraceOperation::Set, TraceOperation::Delete],
            objects: vec![9],
            ..Trace::default()
        };
        let streams = trace_streams(&trace, 1, false).unwrap();
        let asked: Vec<Ask> = asks(&streams[0]).into_iter().map(|(ask, _)| ask).collect();
        assert_eq!(asked, [Ask::Get, Ask::Insert, Ask::Remove]);
    }
}
