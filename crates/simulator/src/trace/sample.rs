//! Samples of a trace: all records of some objects, chosen by a hash of their ids.
//!
//! A sample of the objects keeps the pattern of each object's requests, unlike a sample of the
//! requests. A cache smaller by the same rate treats it as the whole cache treats the whole trace
//! (Waldspurger and others, FAST '15 and ATC '17).

use std::collections::HashSet;

use foldhash::fast::RandomState;
use frazil_policy::object_hash;

use super::decode::{BATCH, Builder, Columns, Sink};
use super::{Loaded, Operation, ReadOptions, Record, Recording, TraceError, load_into};

/// Seed of the hash that chooses. It differs from a recording cache's, so that a sample of a
/// recording is a fair one, and from that of the policies' hash.
const SEED: u64 = 0x4d49_5353; // "MISS"

/// A share of all objects, chosen by their ids alone: it has every record of an object, or none.
///
/// ```
/// use frazil_simulator::trace::KeySample;
/// let tenth = KeySample::new(0.1);
/// let held = (0..100_000).filter(|&id| tenth.holds(id)).count();
/// assert!((9_700..10_300).contains(&held));
/// assert!((0..1_000).all(|id| KeySample::new(1.0).holds(id)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeySample {
    /// Hashes up to this one are in the sample.
    most: u64,
}

impl KeySample {
    /// A share of all objects; all of them at 1 or above.
    pub fn new(rate: f64) -> Self {
        // Rates next to 1 round up to it; negative ones and NaN down to 0.
        KeySample { most: (rate * 2f64.powi(64)) as u64 }
    }

    /// The objects with a hash below `hash`, so without the object of that hash.
    pub(crate) fn below(hash: u64) -> Self {
        KeySample { most: hash.saturating_sub(1) }
    }

    pub(crate) fn hash(id: u64) -> u64 {
        object_hash(id, SEED)
    }

    /// Whether an object is in the sample.
    #[inline]
    pub fn holds(&self, id: u64) -> bool {
        Self::hash(id) <= self.most
    }

    /// The share of all objects that is in the sample.
    pub fn rate(&self) -> f64 {
        self.most as f64 / 2f64.powi(64)
    }

    /// Appends the records of objects in the sample.
    #[inline]
    pub(crate) fn filter(&self, records: &[Record], held: &mut Vec<Record>) {
        held.extend(records.iter().filter(|record| self.holds(record.id)));
    }
}

/// The bounds of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleBounds {
    /// Share of the objects.
    pub rate: f64,
    /// Distinct objects.
    pub objects: usize,
    /// Records.
    pub records: usize,
}

/// A sample and its rate, in relation to the trace read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampled {
    /// The share of the objects that it holds.
    pub rate: f64,
    /// Gets that were read, of all objects.
    pub gets: u64,
}

/// Reads a trace as [`super::load`] does, and keeps as many objects as fit the bounds: the
/// requested share, halved as often as necessary. If times were requested,
/// [`Origin::span_ns`](super::Origin::span_ns) has the time span of the whole trace.
///
/// Memory: 24 bytes a record that is kept, 8 more with lifetimes, and 40 an object; other records
/// take none.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, SampleBounds, load_sample};
///
/// let bounds = SampleBounds { rate: 1.0, objects: 1_000, records: 100_000 };
/// let spec = "zipf:0.8:objects=10K:requests=200K:seed=7";
/// let loaded = load_sample(spec, &ReadOptions::default(), bounds)?;
/// let sampled = loaded.origin.sampled.expect("not all of it fits");
/// assert!(sampled.rate <= 0.125 && sampled.gets == 200_000);
/// assert!(loaded.trace.objects.len() <= 1_000);
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
///
/// # Errors
/// As [`super::load`].
pub fn load_sample(
    spec: &str,
    options: &ReadOptions<'_>,
    bounds: SampleBounds,
) -> Result<Loaded, TraceError> {
    let mut kept = Kept {
        keys: KeySample::new(bounds.rate),
        bounds,
        records: Vec::new(),
        lives: Vec::new(),
        objects: HashSet::default(),
        gets: 0,
        columns: Columns::default(),
        wants_times: options.times,
        times_ns: None,
    };
    let mut origin = load_into(spec, options, &mut kept)?;
    origin.span_ns = kept.times_ns.map(|(first, last)| last - first);
    let rate = kept.keys.rate();
    origin.sampled = (rate < 1.0).then_some(Sampled { rate, gets: kept.gets });
    let mut builder = Builder::new(&ReadOptions { latencies: None, ..options.clone() });
    let mut batch = Vec::with_capacity(BATCH);
    for (number, few) in kept.records.chunks(BATCH).enumerate() {
        batch.clear();
        batch.extend(few.iter().map(Few::record));
        let lives = kept.lives.iter().skip(number * BATCH);
        for (record, &lifetime_ns) in batch.iter_mut().zip(lives) {
            record.lifetime_ns = lifetime_ns;
        }
        builder.push(&batch, kept.columns).map_err(|problem| {
            let file = super::name::shown(&super::path_of(spec));
            TraceError::TooLarge { file, problem }
        })?;
    }
    Ok(Loaded { trace: builder.finish(&mut origin.oddities), origin })
}

/// A record without its latency.
struct Few {
    time_ns: u64,
    id: u64,
    size: u64,
    operation: Operation,
}

impl Few {
    fn record(&self) -> Record {
        let &Few { time_ns, id, size, operation } = self;
        Record { time_ns, id, size, operation, ..Record::default() }
    }
}

struct Kept {
    keys: KeySample,
    bounds: SampleBounds,
    records: Vec<Few>,
    /// Lifetimes by record; empty where none has one.
    lives: Vec<u64>,
    objects: HashSet<u64, RandomState>,
    gets: u64,
    columns: Columns,
    wants_times: bool,
    /// The earliest and the latest time of all records.
    times_ns: Option<(u64, u64)>,
}

impl Sink for Kept {
    fn begin(&mut self, _: Recording) {}

    fn push(&mut self, records: &[Record], columns: Columns) -> Result<(), String> {
        self.columns = columns;
        self.gets += records.iter().filter(|it| it.operation == Operation::Get).count() as u64;
        let timed = if self.wants_times && columns.times { records } else { &[] };
        for &Record { time_ns, .. } in timed {
            let (first, last) = self.times_ns.unwrap_or((time_ns, time_ns));
            self.times_ns = Some((first.min(time_ns), last.max(time_ns)));
        }
        // Lifetimes are read if they were requested.
        let lives = !self.lives.is_empty() || records.iter().any(|record| record.lifetime_ns > 0);
        if lives {
            self.lives.resize(self.records.len(), 0);
        }
        for record in records.iter().filter(|record| self.keys.holds(record.id)) {
            let &Record { time_ns, id, size, operation, lifetime_ns, .. } = record;
            if lives {
                self.lives.push(lifetime_ns);
            }
            self.objects.insert(id);
            self.records.push(Few { time_ns, id, size, operation });
        }
        while self.objects.len() > self.bounds.objects.max(1)
            || self.records.len() > self.bounds.records.max(1)
        {
            if self.objects.len() == 1 {
                // One object is the smallest sample.
                return Err("one object has more records than a sample may".to_owned());
            }
            self.keys = KeySample { most: self.keys.most / 2 };
            let keys = self.keys;
            self.objects.retain(|&id| keys.holds(id));
            let mut records = self.records.iter();
            self.lives.retain(|_| records.next().is_some_and(|record| keys.holds(record.id)));
            self.records.retain(|record| keys.holds(record.id));
        }
        Ok(())
    }
}
