//! LRU's miss ratio at every capacity, from one pass over a trace.
//!
//! LRU with any capacity C hits the objects in the first C places of its stack, so one stack serves
//! all capacities (Mattson and others, 1970). [`lru_curve`] reads a trace once, and keeps state for
//! each object, not the records.
//!
//! - `stack`: the stack, and how deep in it each request finds its object;
//! - `depths`: the number of requests at each depth.
//!
//! **A sample** of the objects (SHARDS; Waldspurger and others, FAST '15) makes a stack that is
//! shorter by the rate, so each depth in it is divided by the rate. The number of its requests
//! depends on which of the hottest objects are in it. These are hits at every capacity, so misses
//! are divided by the requests of a fair sample (SHARDS-adj). With a bound on the objects the rate
//! falls as more objects come. A request's weight is 1 over the rate when it came.
//!
//! **How sure** a sample is: its objects are divided among eight groups, each a sample of its own.
//! The spread of their curves gives the standard error of the whole.

mod depths;
mod stack;

use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::trace::{self, Interner, KeySample, Loaded, Operation, Origin, ReadOptions, Record};
use crate::{CapacityError, StreamError, Unit, full_capacity};
use depths::Depths;
use stack::LruStack;

/// Parts of a sample, each a sample itself.
const GROUPS: usize = 8;
/// Records whose objects are looked up together.
const LANES: usize = 16;
/// Records in a batch of a trace in memory.
const BATCH: usize = 4096;
/// The most objects that the stack's 32-bit positions can address.
const MOST_OBJECTS: usize = 1_000_000_000;

/// The objects from which a curve is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CurveSample {
    /// All: the curve is exact.
    All,
    /// A share of them.
    Rate(f64),
    /// At most this number: the share shrinks as more objects come, so memory is bounded.
    Objects(usize),
}

/// A curve's figures for one capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The capacity, in the curve's unit.
    pub capacity: u64,
    /// Misses over requests.
    pub miss_ratio: f64,
    /// Bytes missed over bytes requested; `None` unless the unit is bytes.
    pub byte_miss_ratio: Option<f64>,
    /// Standard error of the miss ratio; `None` where the curve is exact.
    pub error: Option<f64>,
}

/// LRU's miss ratio by capacity: see [`lru_curve`].
pub struct Curve {
    unit: Unit,
    /// Gets in the trace.
    pub requests: u64,
    /// Distinct objects, or the sample's estimate.
    pub objects: u64,
    /// Sum of the objects' sizes, likewise; the objects themselves where there are no sizes.
    pub footprint_bytes: u64,
    /// The share of all objects in the sample at the end.
    pub rate: f64,
    /// Time to choose objects, map them (in a sample) and update the stack, in seconds.
    pub seconds: f64,
    /// Records in the trace.
    pub records: u64,
    bytes_requested: u64,
    /// Factor between the number of requests and that of a fair recording.
    correction: f64,
    whole: Line,
    groups: Vec<Line>,
}

impl Curve {
    /// The curve's figures for some capacities, in their order. O(depths + capacities ×
    /// log(capacities)).
    pub fn points(&self, capacities: &[u64]) -> Vec<CurvePoint> {
        let mut sorted = capacities.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let whole = self.whole.misses(&sorted);
        let groups: Vec<_> = self.groups.iter().map(|group| group.misses(&sorted)).collect();
        let (requests, bytes) = (self.requests as f64, self.bytes_requested as f64);
        let ratio = |misses: f64, of: f64| (misses / (of * self.correction).max(1.0)).min(1.0);
        let point = |&capacity: &u64| {
            let at = sorted.partition_point(|&it| it < capacity);
            let miss_ratio = ratio(whole[at].0, requests);
            let each = groups.iter().map(|group| ratio(group[at].0, requests));
            let error = (!groups.is_empty()).then(|| standard_error(&each.collect::<Vec<_>>()));
            let byte_miss_ratio = (self.unit == Unit::Bytes).then(|| ratio(whole[at].1, bytes));
            CurvePoint { capacity, miss_ratio, byte_miss_ratio, error }
        };
        capacities.iter().map(point).collect()
    }
}

/// Standard error of the mean of some numbers, from their spread.
fn standard_error(numbers: &[f64]) -> f64 {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

/// The number of requests of all objects that one in a sample stands for, and the number of places
/// in the whole stack that one in the sample's stands for.
#[derive(Clone, Copy)]
struct Share {
    weight: f64,
    depth: f64,
}

/// A stack, and its counts.
struct Line {
    stack: LruStack,
    /// Gets by depth.
    gets: Depths,
    /// Requested bytes, by depth.
    bytes: Depths,
    /// Weights of all gets, and of the bytes they request.
    weight: f64,
    byte_weight: f64,
}

impl Line {
    fn new(unit: Unit, exact: bool) -> Self {
        let gets = if exact && unit == Unit::Objects { Depths::exact() } else { Depths::rounded() };
        Line {
            stack: LruStack::new(unit == Unit::Bytes),
            gets,
            bytes: Depths::rounded(),
            weight: 0.0,
            byte_weight: 0.0,
        }
    }

    /// Replays a record of an object that its stack expects.
    fn feed(&mut self, object: u32, record: &Record, share: Share) {
        let Share { weight, depth: scale } = share;
        if record.operation == Operation::Delete {
            return self.stack.remove(object);
        }
        let depth = self.stack.touch(object, record.size);
        if record.operation == Operation::Get {
            self.weight += weight;
            let bytes = weight * record.size as f64;
            self.byte_weight += bytes;
            if depth > 0 {
                let depth = if scale > 1.0 { (depth as f64 * scale).round() as u64 } else { depth };
                self.gets.add(depth, weight);
                if self.stack.has_sizes() {
                    self.bytes.add(depth, bytes);
                }
            }
        }
    }

    /// Misses and bytes missed at capacities in ascending order.
    fn misses(&self, capacities: &[u64]) -> Vec<(f64, f64)> {
        let hits = self.gets.up_to(capacities);
        let bytes = self.bytes.up_to(capacities);
        let left = |(hits, bytes)| (self.weight - hits, self.byte_weight - bytes);
        hits.into_iter().zip(bytes).map(left).collect()
    }
}

/// LRU's curve of the trace `spec` ([`crate::trace::load`]), without keeping its records.
///
/// In bytes the curve only approximates a replay: a cache does not admit an object larger than its
/// capacity, and after an eviction part of the capacity may stay free. Capacities and depths are
/// those for all objects, also with a recorded sample.
///
/// O(log(objects / 512)) a record. Memory: 21 bytes an object for the stack (twice in a sample),
/// 26 to 42 for its number, and 8 for each depth of an exact curve.
///
/// ```
/// use frazil_simulator::{CurveSample, Unit, lru_curve, trace::ReadOptions};
///
/// let spec = "loop:objects=100:requests=1K";
/// let (curve, _) = lru_curve(spec, &ReadOptions::default(), Unit::Objects, CurveSample::All)?;
/// let points = curve.points(&[99, 100]);
/// assert_eq!((points[0].miss_ratio, points[1].miss_ratio), (1.0, 0.1));
/// # Ok::<(), frazil_simulator::StreamError>(())
/// ```
///
/// # Errors
/// When the trace can't be read, has no sizes and the unit is bytes, or has more than a billion
/// objects in the sample.
pub fn lru_curve(
    spec: &str,
    read: &ReadOptions<'_>,
    unit: Unit,
    sample: CurveSample,
) -> Result<(Curve, Origin), StreamError> {
    let read = &ReadOptions { sizes: unit == Unit::Bytes, ..read.clone() };
    trace::with_sizes(spec, read, StreamError::is_size_unknown, |read| {
        lru_curve_once(spec, read, unit, sample)
    })
}

fn lru_curve_once(
    spec: &str,
    read: &ReadOptions<'_>,
    unit: Unit,
    sample: CurveSample,
) -> Result<(Curve, Origin), StreamError> {
    let mut pass = Pass::new(unit, sample);
    let (mut fits, mut sizes) = (true, true);
    let origin = trace::stream(spec, read, &mut |records, traits| {
        sizes &= traits.sizes;
        fits = fits && pass.feed(records, traits.rate);
    })?;
    if !fits {
        return Err(StreamError::TooManyObjects);
    }
    if unit == Unit::Bytes && !sizes {
        return Err(CapacityError::NoSizes.into());
    }
    let correction = origin.recording.map_or(1.0, |recording| recording.correction(pass.requests));
    Ok((pass.finish(correction), origin))
}

/// LRU's curve of a trace in memory. If that is a sample, points have a standard error.
///
/// ```
/// use frazil_simulator::{Unit, lru_curve_of, trace};
///
/// let loaded = trace::load("loop:objects=100:requests=1K", &Default::default())?;
/// let curve = lru_curve_of(&loaded, Unit::Objects)?;
/// assert_eq!(curve.points(&[99])[0].miss_ratio, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the trace has no sizes and the unit is bytes, or has more than a billion objects.
pub fn lru_curve_of(loaded: &Loaded, unit: Unit) -> Result<Curve, StreamError> {
    let Loaded { trace, origin } = loaded;
    if unit == Unit::Bytes && trace.sizes.is_empty() {
        return Err(CapacityError::NoSizes.into());
    }
    let rate = origin.rate();
    let sample = if rate < 1.0 { CurveSample::Rate(1.0) } else { CurveSample::All };
    let mut pass = Pass::new(unit, sample);
    let record = |at: usize| Record {
        id: trace.objects[trace.ids[at] as usize],
        size: trace.sizes.get(at).unwrap_or(1),
        operation: trace.operations.get(at).copied().unwrap_or_default(),
        ..Record::default()
    };
    let mut batch = Vec::with_capacity(BATCH);
    for start in (0..trace.len()).step_by(BATCH) {
        batch.clear();
        batch.extend((start..trace.len().min(start + BATCH)).map(record));
        if !pass.feed(&batch, rate) {
            return Err(StreamError::TooManyObjects);
        }
    }
    let correction = origin.correction(pass.requests);
    Ok(pass.finish(correction))
}

/// A pass over a trace.
struct Pass {
    unit: Unit,
    sample: CurveSample,
    keys: KeySample,
    numbers: Interner,
    whole: Line,
    groups: Vec<Line>,
    /// Objects of a bounded sample with their sizes, by hash: the first to be removed on top.
    bounded: BinaryHeap<(u64, u32, u64)>,
    /// Sum of the sizes of sampled objects at their first records.
    footprint: u64,
    /// Objects seen so far.
    seen: u32,
    recorded_rate: f64,
    requests: u64,
    records: u64,
    bytes_requested: u64,
    seconds: f64,
    held: Vec<Record>,
    ids: Vec<u32>,
}

impl Pass {
    fn new(unit: Unit, sample: CurveSample) -> Self {
        let rate = if let CurveSample::Rate(rate) = sample { rate } else { 1.0 };
        let exact = sample == CurveSample::All;
        let groups = if exact { 0 } else { GROUPS };
        Pass {
            unit,
            sample,
            keys: KeySample::new(rate),
            numbers: Interner::default(),
            whole: Line::new(unit, exact),
            groups: (0..groups).map(|_| Line::new(unit, exact)).collect(),
            bounded: BinaryHeap::new(),
            footprint: 0,
            seen: 0,
            recorded_rate: 1.0,
            requests: 0,
            records: 0,
            bytes_requested: 0,
            seconds: 0.0,
            held: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// False if there are too many objects.
    fn feed(&mut self, records: &[Record], recorded_rate: f64) -> bool {
        let began = Instant::now();
        self.recorded_rate = recorded_rate;
        self.records += records.len() as u64;
        for record in records.iter().filter(|record| record.operation == Operation::Get) {
            self.requests += 1;
            self.bytes_requested += record.size;
        }
        let (mut held, mut ids) = (std::mem::take(&mut self.held), std::mem::take(&mut self.ids));
        held.clear();
        ids.clear();
        let all = self.sample == CurveSample::All;
        if !all {
            self.keys.filter(records, &mut held);
        }
        let chosen = if all { records } else { &held };
        let mapping = Instant::now();
        let fits = self.numbers.intern(chosen, &mut ids).is_ok()
            && self.numbers.objects.len() <= MOST_OBJECTS;
        // Mapping all objects is part of the decoding, as for a replay.
        let mapping = if all { mapping.elapsed() } else { Duration::ZERO };
        if fits {
            self.replay(chosen, &ids);
        }
        (self.held, self.ids) = (held, ids);
        self.seconds += began.elapsed().saturating_sub(mapping).as_secs_f64();
        fits
    }

    fn replay(&mut self, records: &[Record], ids: &[u32]) {
        for (records, ids) in records.chunks(LANES).zip(ids.chunks(LANES)) {
            self.whole.stack.expect(ids);
            for (record, &object) in records.iter().zip(ids) {
                if object >= self.seen {
                    self.begin(object, record);
                }
                let rate = self.keys.rate();
                let share = Share { weight: 1.0 / rate, depth: 1.0 / (rate * self.recorded_rate) };
                if self.groups.is_empty() {
                    self.whole.feed(object, record, share);
                } else if self.keys.holds(record.id) {
                    // The object may have left the sample since its record was chosen.
                    self.whole.feed(object, record, share);
                    self.feed_group(object, record, share);
                }
            }
        }
    }

    fn feed_group(&mut self, object: u32, record: &Record, share: Share) {
        let hash = KeySample::hash(record.id);
        let group = &mut self.groups[hash as usize % GROUPS];
        let Share { weight, depth } = share;
        let times = GROUPS as f64;
        group.stack.expect(&[object]);
        group.feed(object, record, Share { weight: weight * times, depth: depth * times });
    }

    /// An object's first record.
    #[cold]
    fn begin(&mut self, object: u32, record: &Record) {
        self.seen = object + 1;
        self.footprint += record.size;
        let CurveSample::Objects(most) = self.sample else { return };
        if self.keys.holds(record.id) {
            self.bounded.push((KeySample::hash(record.id), object, record.size));
        } else {
            self.footprint -= record.size;
        }
        while self.bounded.len() > most.max(1) {
            let Some((hash, object, size)) = self.bounded.pop() else { break };
            self.keys = KeySample::below(hash);
            self.footprint -= size;
            self.whole.stack.forget(object);
            for group in &mut self.groups {
                group.stack.forget(object);
            }
        }
    }

    fn finish(self, correction: f64) -> Curve {
        let rate = self.keys.rate() * self.recorded_rate;
        let held = match self.sample {
            CurveSample::Objects(_) => self.bounded.len(),
            CurveSample::All | CurveSample::Rate(_) => self.numbers.objects.len(),
        };
        Curve {
            unit: self.unit,
            requests: self.requests,
            objects: full_capacity(held as u64, rate),
            footprint_bytes: full_capacity(self.footprint, rate),
            rate,
            seconds: self.seconds,
            records: self.records,
            bytes_requested: self.bytes_requested,
            correction,
            whole: self.whole,
            groups: self.groups,
        }
    }
}
