//! Traces for replays, decoded once into columns of dense ids.
//!
//! Decoding costs as much as replaying five to twenty policies, so a file is read once, its ids are
//! mapped to `0..objects` in order of first appearance, and every cell of a sweep shares the
//! result. A record takes 4 bytes, plus 4 if the trace has sizes, 8 if times are requested, 8 if
//! latencies are, 1 if the trace has operations other than get, and 16 if it has lifetimes and they
//! are requested.

//!
//! [`load`] takes a file or a generator's specification, [`read`] a file:
//!
//! - `source` gives the decompressed content in blocks, from a second thread;
//! - `formats` has a decoder per format, `guess` chooses one from the content;
//! - `decode` drives them and collects the columns, `intern` maps the ids;
//! - `generate` makes workloads, `records` reads traces in memory, `info` describes traces, `write`
//!   stores them.

mod date_time;
mod decode;
mod error;
mod fields;
mod format;
mod formats;
mod generate;
mod guess;
mod info;
mod intern;
mod lifetimes;
mod name;
mod oddities;
mod packed;
mod records;
mod sample;
mod save;
mod sizes;
mod source;
mod unknown_sizes;
mod write;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use decode::{Builder, Columns, Sink};

pub use error::TraceError;
pub use fields::id_of_name;
pub use format::{CsvColumn, CsvLayout, Format, TimeUnit, UnknownName};
pub use info::{TraceInfo, info};
pub(crate) use intern::Interner;
pub use lifetimes::{FOR_EVER, LifetimeSummary, Lifetimes, RecordedLifetimes};
pub use name::{path_of, printable, spec_of};
pub use oddities::Oddities;
pub use packed::Packed;
pub use records::Records;
pub use sample::{KeySample, SampleBounds, Sampled, load_sample};
pub use save::{save, save_whole};
pub use sizes::Sizes;
pub use source::Compression;
pub use write::write;

/// The operation of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Look up, and on a miss insert: the one operation that counts as a request.
    #[default]
    Get,
    /// Insert or replace. Not a request.
    Set,
    /// Remove. Not a request.
    Delete,
}

/// The size of a [`Record`] without one, such as a log's line of a 304 answer.
///
/// [`load`] replaces it: by the size in the object's last record that has one, or else in its first,
/// or else by the mean of the other objects.
pub const SIZE_UNKNOWN: u64 = u64::MAX;

/// One record of a trace, as in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Time since the trace's own epoch, in nanoseconds; 0 where the format has none.
    pub time_ns: u64,
    /// The object's id; a string id is hashed to 64 bits.
    pub id: u64,
    /// Size of the object in bytes; 1 where the format has none, [`SIZE_UNKNOWN`] where the format
    /// has sizes and the record does not.
    pub size: u64,
    /// The operation.
    pub operation: Operation,
    /// Duration of a fetch that a miss of this record starts, in the unit of
    /// [`ReadOptions::latencies`]; 0 if the format has none.
    pub latency: u64,
    /// Lifetime of an entry that this record inserts, in nanoseconds, or [`FOR_EVER`]; 0 if the
    /// record has none, or [`ReadOptions::lifetimes`] does not need it.
    pub lifetime_ns: u64,
}

/// A decoded trace. All columns that are not empty are as long as the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Dense object number per record, in order of first appearance.
    pub ids: Vec<u32>,
    /// The same in place of `ids`, which is then empty: only by [`ReadOptions::packed`].
    pub packed: Packed,
    /// Size in bytes per record; empty where the trace has no sizes.
    pub sizes: Sizes,
    /// Time per record in nanoseconds; empty unless the format has times and the options request
    /// them, or request lifetimes and a record has one. In the latter case the batches before the
    /// first lifetime have time 0, because nothing can expire there.
    pub times_ns: Vec<u64>,
    /// Operation per record; empty where every record is a get.
    pub operations: Vec<Operation>,
    /// Duration of a fetch that a miss of the record starts; empty unless the format has it and the
    /// options request it.
    pub latencies: Vec<u64>,
    /// Lifetime of the entry that the record inserts, in nanoseconds, or [`FOR_EVER`], or 0 if the
    /// record has none. Empty unless a record has one and the options request them.
    pub lifetimes_ns: Vec<u64>,
    /// Original id per dense object number.
    pub objects: Vec<u64>,
}

impl Trace {
    /// Number of records.
    ///
    /// ```
    /// assert_eq!(frazil_simulator::trace::Trace::default().len(), 0);
    /// ```
    pub fn len(&self) -> usize {
        self.ids.len() + self.packed.len()
    }

    /// Whether there is no record; false for a trace that was read.
    ///
    /// ```
    /// assert!(frazil_simulator::trace::Trace::default().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of every object's size at its first record, in bytes; `None` without sizes.
    /// O(records).
    ///
    /// ```
    /// use frazil_simulator::trace::Trace;
    ///
    /// let trace = Trace {
    ///     ids: vec![0, 1, 0],
    ///     sizes: vec![10, 5, 20].into(),
    ///     objects: vec![7, 8],
    ///     ..Trace::default()
    /// };
    /// assert_eq!(trace.footprint_bytes(), Some(15));
    /// ```
    pub fn footprint_bytes(&self) -> Option<u64> {
        let bytes = self.object_bytes();
        (!self.sizes.is_empty()).then(|| bytes.iter().sum())
    }

    /// The bytes of each object, by its number, each counted at its first record; empty where the
    /// trace has no sizes. O(records).
    ///
    /// ```
    /// use frazil_simulator::trace::Trace;
    ///
    /// let trace = Trace {
    ///     ids: vec![0, 1, 0],
    ///     sizes: vec![5, 10, 6].into(),
    ///     objects: vec![7, 8],
    ///     ..Trace::default()
    /// };
    /// assert_eq!(trace.object_bytes(), vec![5, 10].into());
    /// ```
    pub fn object_bytes(&self) -> Sizes {
        let mut bytes = Sizes::default();
        for (&id, size) in self.ids.iter().zip(self.sizes.iter()) {
            // Objects are numbered in order of first appearance.
            if id as usize == bytes.len() {
                bytes.push(size);
            }
        }
        bytes
    }
}

/// A function that gets the bytes of the file read so far and the file's length (0 for a pipe); for
/// a trace that is generated or in memory, the records so far and in all. It returns whether to
/// continue; if not, the reading ends with [`TraceError::Stopped`].
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// The data to read, and the way to read them.
///
/// ```
/// use frazil_simulator::trace::{Format, ReadOptions};
///
/// let options = ReadOptions {
///     format: Some(Format::Plain),
///     limit: Some(1_000_000),
///     ..ReadOptions::default()
/// };
/// assert!(!options.times && options.sizes);
/// ```
#[derive(Clone)]
pub struct ReadOptions<'a> {
    /// The format; `None`: guess it from the content.
    pub format: Option<Format>,
    /// Columns of a CSV file, and the unit of a text format's times.
    pub csv: CsvLayout,
    /// Stop after this number of records.
    pub limit: Option<u64>,
    /// Keep the times. By default they are not.
    pub times: bool,
    /// Keep the sizes. By default they are.
    pub sizes: bool,
    /// Keep the durations of fetches, if the trace has them. By default they are not kept.
    pub latencies: Option<LatencyUnit>,
    /// The lifetimes for the replay. With those of the trace, its lifetimes are kept, and its times
    /// from the first lifetime on; with a fixed one, all times. By default neither is kept.
    pub lifetimes: Lifetimes,
    /// Whether a bad line of a text format is skipped and counted ([`Oddities::skipped_rows`]). By
    /// default it is an error.
    pub skip_bad_rows: bool,
    /// Called once per block.
    pub progress: Option<Progress<'a>>,
    /// The trace itself, if it is in memory: the name is then not used.
    pub records: Option<&'a Records>,
    /// Keep the numbers of objects in [`Trace::packed`], in a half to three quarters of the memory,
    /// if neither sizes, times nor latencies are kept. Only the sweeps without fetches read such a
    /// trace, by policies that do not [want](frazil_policy::PolicySpec::wants_trace) it.
    pub packed: bool,
}

impl ReadOptions<'_> {
    /// Whether all times are kept, even without lifetimes in the trace.
    fn keeps_times(&self) -> bool {
        self.times || matches!(self.lifetimes, Lifetimes::Fixed(_))
    }
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        Self {
            format: None,
            csv: CsvLayout::default(),
            limit: None,
            times: false,
            sizes: true,
            latencies: None,
            lifetimes: Lifetimes::Ignored,
            skip_bad_rows: false,
            progress: None,
            records: None,
            packed: false,
        }
    }
}

/// Unit of a column of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyUnit {
    /// Requests: the numbers are kept as they are, cut to whole ones.
    Requests,
    /// Time, in the unit of the times ([`CsvLayout::time_unit`]): nanoseconds are kept.
    Time,
}

/// The origin of a trace.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The file's format; `None` for a trace that was generated or is in memory.
    pub format: Option<Format>,
    /// Whether the format was guessed.
    pub guessed: bool,
    /// How the file is compressed.
    pub compression: Compression,
    /// Wall-clock time of the decoding, or of the generation.
    pub decode_seconds: f64,
    /// Data about the recording; `None` unless the format is [`Format::Frazil`].
    pub recording: Option<Recording>,
    /// The sample that was kept, if not all was ([`load_sample`]).
    pub sampled: Option<Sampled>,
    /// Statistics of its lifetimes; `None` if it has none, or the options did not request them.
    pub lifetimes: Option<LifetimeSummary>,
    /// Oddities of its file.
    pub oddities: Oddities,
    /// Nanoseconds from its earliest record to its latest; `None` unless [`load_sample`] was to
    /// keep times, and there are some.
    pub span_ns: Option<u64>,
}

impl Origin {
    /// The share of all objects whose requests the trace holds: 1 unless it was recorded at a lower
    /// rate, or sampled while loading.
    pub fn rate(&self) -> f64 {
        let recorded = self.recording.map_or(1.0, |recording| recording.rate);
        recorded * self.sampled.map_or(1.0, |sampled| sampled.rate)
    }

    /// Factor between the number of gets in the trace and that of a fair sample
    /// ([`Recording::correction`]), also for a sample of a sample.
    pub fn correction(&self, gets: u64) -> f64 {
        let read = self.sampled.map_or(gets, |sampled| sampled.gets);
        let recorded = self.recording.map_or(1.0, |recording| recording.correction(read));
        let fair = self.sampled.map_or(gets as f64, |sampled| sampled.gets as f64 * sampled.rate);
        recorded * if gets > 0 { fair / gets as f64 } else { 1.0 }
    }
}

/// Data about a recorded trace, from its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recording {
    /// The share of all keys whose requests it holds, above 0 and at most 1.
    pub rate: f64,
    /// Its beginning, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Records lost because they came too fast; `None` if the end of the file was not read: beyond
    /// a limit, or absent because the file was cut short or is still being written.
    pub lost: Option<u64>,
    /// Gets of all keys during the recording; `None` if the file does not have it, or its end was
    /// not read.
    pub gets: Option<u64>,
    /// The lifetimes in the recorded cache.
    pub lifetimes: RecordedLifetimes,
}

impl Recording {
    /// The factor from the number of gets in a sample to the expected number.
    ///
    /// A sample may hold the hottest keys, or not. Their requests are hits in any cache, so too
    /// many or too few of them would distort every ratio. The number of gets of all keys is known,
    /// and gives that of a fair sample. The difference counts as hits (Waldspurger and others, FAST
    /// '15: SHARDS-adj). 1 if the number of gets is unknown.
    ///
    /// ```
    /// use frazil_simulator::trace::{RecordedLifetimes, Recording};
    /// let recording = Recording {
    ///     rate: 0.1,
    ///     start_unix_ns: 0,
    ///     lost: Some(0),
    ///     gets: Some(5_000),
    ///     lifetimes: RecordedLifetimes::None,
    /// };
    /// assert_eq!(recording.correction(1_000), 0.5);
    /// ```
    pub fn correction(&self, gets: u64) -> f64 {
        match self.gets {
            Some(all) if self.rate < 1.0 && gets > 0 => all as f64 * self.rate / gets as f64,
            _ => 1.0,
        }
    }
}

/// A trace and its origin.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The trace.
    pub trace: Trace,
    /// Its origin.
    pub origin: Origin,
}

/// Reads a trace from a file.
///
/// ```
/// use frazil_simulator::trace::{Format, ReadOptions, read};
///
/// let path = std::env::temp_dir().join(format!("frazil-read-{}.csv", std::process::id()));
/// std::fs::write(&path, "time,id,size\n0,apple,100\n1,pear,50\n2,apple,100\n")?;
/// let loaded = read(&path, &ReadOptions::default())?;
/// assert_eq!(loaded.origin.format, Some(Format::Csv));
/// assert_eq!(loaded.trace.ids, [0, 1, 0]);
/// assert_eq!(loaded.trace.sizes, vec![100, 50, 100].into());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the file can't be read, is empty, damaged, or not of the format; see [`TraceError`].
pub fn read(path: &Path, options: &ReadOptions<'_>) -> Result<Loaded, TraceError> {
    let mut builder = Builder::new(options);
    let mut origin = read_into(path, options, &mut builder)?;
    Ok(Loaded { trace: builder.finish(&mut origin.oddities), origin })
}

/// Reads a trace from a file, from standard input if `spec` is `-`, or generates it if `spec`
/// names a generator and no file:
///
/// - `zipf:ALPHA[:objects=1M][:requests=20M][:seed=1]`: independent requests, the object of
///   rank r with probability proportional to r^-ALPHA;
/// - `uniform[:objects=1M][:requests=20M][:seed=1]`: independent requests, all objects alike;
/// - `loop[:objects=1M][:requests=20M]`: all objects in order, repeatedly;
/// - `mix[:objects=400K][:requests=4M][:seed=1]`: a mix of common patterns: a Zipf popularity whose
///   hot set drifts, sequential scans, and objects requested only once; with sizes.
///
/// Numbers may end in K, M or G (thousands). A seed gives the same trace on every run.
/// Generated requests are 1 µs apart.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, load};
///
/// let loaded = load("zipf:1.0:objects=1K:requests=10K:seed=7", &ReadOptions::default())?;
/// assert_eq!(loaded.trace.len(), 10_000);
/// assert!(loaded.trace.objects.len() <= 1_000);
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
///
/// # Errors
/// When the specification is wrong, and as [`read`].
pub fn load(spec: &str, options: &ReadOptions<'_>) -> Result<Loaded, TraceError> {
    let mut builder = Builder::new(options);
    let mut origin = load_into(spec, options, &mut builder)?;
    Ok(Loaded { trace: builder.finish(&mut origin.oddities), origin })
}

/// Passes the records of a trace on, batch by batch, without keeping them: for traces that do
/// not fit in memory. `spec` as for [`load`].
///
/// `sink` gets each batch, and the properties of the whole trace. Memory is constant. Without the
/// option `sizes` an unknown size is 1.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, stream};
///
/// let mut records = 0;
/// stream("loop:objects=9:requests=100", &ReadOptions::default(), &mut |batch, _| {
///     records += batch.len();
/// })?;
/// assert_eq!(records, 100);
/// # Ok::<(), frazil_simulator::trace::TraceError>(())
/// ```
///
/// # Errors
/// As [`load`], and [`TraceError::SizeUnknown`] if sizes are wanted and a record has none: only the
/// whole trace gives it. The sink has got the records before the fault.
pub fn stream(
    spec: &str,
    options: &ReadOptions<'_>,
    sink: &mut dyn FnMut(&[Record], StreamTraits),
) -> Result<Origin, TraceError> {
    struct Forward<'a> {
        sink: &'a mut dyn FnMut(&[Record], StreamTraits),
        rate: f64,
        sizes: bool,
        unknown: bool,
        known: Vec<Record>,
    }
    impl Sink for Forward<'_> {
        fn begin(&mut self, recording: Recording) {
            self.rate = recording.rate;
        }
        fn push(&mut self, records: &[Record], columns: Columns) -> Result<(), String> {
            let Columns { times, sizes, .. } = columns;
            let mut records = records;
            if sizes && records.iter().any(|record| record.size == SIZE_UNKNOWN) {
                if self.sizes {
                    self.unknown = true;
                    return Err("a record without a size".to_owned());
                }
                self.known.clear();
                self.known.extend_from_slice(records);
                let unknown = self.known.iter_mut().filter(|it| it.size == SIZE_UNKNOWN);
                unknown.for_each(|record| record.size = 1);
                records = &self.known;
            }
            (self.sink)(records, StreamTraits { times, sizes, rate: self.rate });
            Ok(())
        }
    }
    let sizes = options.sizes;
    let mut forward = Forward { sink, rate: 1.0, sizes, unknown: false, known: Vec::new() };
    load_into(spec, options, &mut forward).map_err(|error| match forward.unknown {
        true => TraceError::SizeUnknown { file: name::shown(&path_of(spec)) },
        false => error,
    })
}

/// Calls `pass`, which streams the trace `spec`, and calls it once more with the whole trace in
/// memory if a record has no size.
pub(crate) fn with_sizes<T, E: From<TraceError>>(
    spec: &str,
    options: &ReadOptions<'_>,
    unknown: fn(&E) -> bool,
    pass: impl Fn(&ReadOptions<'_>) -> Result<(T, Origin), E>,
) -> Result<(T, Origin), E> {
    let passed = pass(options);
    if spec == "-" || !passed.as_ref().is_err_and(unknown) {
        return passed;
    }
    let Loaded { trace, origin } = load(spec, options)?;
    let records = Records::of_trace(trace);
    let (outcome, _) = pass(&ReadOptions { records: Some(&records), ..options.clone() })?;
    Ok((outcome, origin))
}

/// Properties of all records of a [`stream()`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamTraits {
    /// Whether the trace has times.
    pub times: bool,
    /// Whether the trace has sizes; otherwise they are all 1.
    pub sizes: bool,
    /// The share of all objects whose requests it holds, as [`Origin::rate`].
    pub rate: f64,
}

fn load_into(
    spec: &str,
    options: &ReadOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Origin, TraceError> {
    let start = Instant::now();
    let lifetimes = if let Some(records) = options.records {
        records.push_into(spec, options, sink)?
    } else {
        let path = if spec == "-" { "/dev/stdin".into() } else { path_of(spec) };
        let generator = if path.exists() { None } else { generate::Generator::parse(spec)? };
        let Some(generator) = generator else {
            return read_into(&path, options, sink);
        };
        generator.generate(spec, options, sink)?;
        None
    };
    Ok(Origin {
        lifetimes,
        format: None,
        guessed: false,
        compression: Compression::None,
        decode_seconds: start.elapsed().as_secs_f64(),
        recording: None,
        sampled: None,
        oddities: Oddities::default(),
        span_ns: None,
    })
}

fn read_into(
    path: &Path,
    options: &ReadOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Origin, TraceError> {
    let start = Instant::now();
    let mut blocks = source::Blocks::open(path, decode::BLOCK_SIZES)?;
    let decoded = decode::decode_file(&name::shown(path), &mut blocks, options, sink)?;
    Ok(Origin {
        format: Some(decoded.format),
        lifetimes: decoded.lifetimes,
        guessed: options.format.is_none(),
        compression: blocks.compression,
        decode_seconds: start.elapsed().as_secs_f64(),
        recording: decoded.recording,
        sampled: None,
        oddities: decoded.oddities,
        span_ns: None,
    })
}
