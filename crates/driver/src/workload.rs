//! Workloads by name, and the streams that they give each thread.
//!
//! Streams of generated workloads have 8 M operations in all. Popularity follows ranks,
//! so a stream that begins again is no easier: between two requests for a rare key lie
//! as many others as before. Every thread draws with a seed of its own from the same
//! keys; a trace is asked for by every thread under a prefix of its own, or dealt out
//! among them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use frazil_simulator::trace::{Operation as TraceOperation, Trace};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::engine::{Engine, Session};
use crate::stream::{Ask, MAX_OBJECTS, Operation, Stream, key};

/// Exponent of the popularity where half of the operations write.
const WRITE_ALPHA: f64 = 1.0;
/// Keys are numbered with 30 bits.
const MAX_KEYS: u64 = MAX_OBJECTS;

/// What the threads ask for.
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
    /// `write`: Zipf 1.0, half of it gets, half inserts without a look-up.
    Write,
    /// A trace.
    File(PathBuf),
}

/// Why there is no such workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The exponent can't be used.
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
            _ => match text.strip_prefix("zipf:") {
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
                let rank = if alpha == 0.0 {
                    random.random_range(0..keys)
                } else {
                    ranks.sample(&mut random) as u64 - 1
                };
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
/// # use std::collections::HashMap;
/// # use std::sync::Mutex;
/// # use frazil_driver::{Engine, Session};
/// # #[derive(Default)]
/// # struct Map(Mutex<HashMap<u64, u64>>);
/// # impl Engine for Map {
/// #     type Session<'a> = &'a Map;
/// #     fn session(&self) -> &Map { self }
/// # }
/// # impl Session for &Map {
/// #     fn get(&mut self, key: u64) -> Option<u64> { self.0.lock().unwrap().get(&key).copied() }
/// #     fn insert(&mut self, key: u64) { self.0.lock().unwrap().insert(key, key); }
/// #     fn remove(&mut self, key: u64) { self.0.lock().unwrap().remove(&key); }
/// # }
/// use frazil_driver::{Workload, one_pass, preload};
///
/// let map = Map::default();
/// preload(&map, 100);
/// let streams = Workload::Hit.streams(100, 1_000, 1)?;
/// assert_eq!(one_pass(&map, &streams[0]).misses, 0);
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

/// The streams of a trace: for every thread all of it under a prefix of its own, or,
/// `split`, every thread its share, dealt record by record. O(records) and 4 bytes a
/// record.
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
