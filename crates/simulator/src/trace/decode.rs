//! From blocks of bytes to the columns of a [`Trace`].
//!
//! A decoder turns a block into records, and stops after about [`BATCH`] of them, so that they are
//! still in the first-level cache when their ids are mapped. The bytes that it leaves at the end of
//! a block are put in front of the next one. Line formats share [`Lines`], which finds the lines,
//! counts them and bounds their length; a format then gets one line at a time.
//!
//! A new format is a file in `formats/` with one of the two traits, a variant
//! of [`Format`], and a line in `formats::open`.

use memchr::memchr;

use super::error::{Position, RecordError, TraceError, expected};
use super::intern::Interner;
use super::lifetimes::LifetimeTally;
use super::source::{BLOCK_BYTES, BlockSizes, Blocks};
use super::unknown_sizes::UnknownSizes;
use super::{
    Format, LifetimeSummary, Lifetimes, Oddities, Operation, ReadOptions, Record, Recording,
    SIZE_UNKNOWN, Trace, formats, guess,
};

/// Records decoded before their ids are mapped.
pub(super) const BATCH: usize = 512;
/// The longest line, and so the longest tail of a block.
pub(super) const MAX_LINE: usize = 64 << 10;
/// Most records in a trace: a position fits 32 bits, and one number means none.
pub(super) const MAX_RECORDS: u64 = u32::MAX as u64;

/// Which columns a format has beside ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) times: bool,
    pub(super) sizes: bool,
    pub(super) latencies: bool,
}

/// Decodes the records of one file.
pub(super) trait Decode {
    /// Decodes records from the start of `block` until the block ends or the batch is full; returns
    /// the bytes used. If the batch is not full, the rest is an incomplete record; in the `last`
    /// block, that is an error.
    fn decode(
        &mut self,
        block: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError>;

    /// The columns; known once a record has been decoded.
    fn columns(&self) -> Columns;

    /// The oddities read so far.
    fn oddities(&self) -> Oddities {
        Oddities::default()
    }

    /// The recording in the file's header, once it has been read.
    fn recording(&self) -> Option<Recording> {
        None
    }
}

/// A format whose records are lines.
pub(super) trait LineFormat {
    /// Decodes one line, without its end and not blank, into any number of records.
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String>;

    /// The columns; known once a record has been decoded.
    fn columns(&self) -> Columns;

    /// The oddities read so far.
    fn oddities(&self) -> Oddities {
        Oddities::default()
    }

    /// Fast path: a record from a plain line at the start of `rest`, and the line's length with its
    /// end. `None` if [`LineFormat::line`] must decode the line.
    #[inline]
    fn plain_line(&self, rest: &[u8]) -> Option<(Record, usize)> {
        let _ = rest;
        None
    }
}

/// A decoder of lines.
pub(super) struct Lines<F> {
    format: F,
    /// Lines decoded so far.
    number: u64,
    /// Whether invalid lines are skipped.
    skips: bool,
    /// Number of skipped lines, and the first of them.
    skipped: (u64, Option<String>),
}

impl<F: LineFormat> Lines<F> {
    pub(super) fn of(format: F, skips: bool) -> Self {
        Self { format, number: 0, skips, skipped: (0, None) }
    }

    /// Decodes the line at the start of `rest`; returns its length, 0 if it is incomplete.
    fn next_line(
        &mut self,
        rest: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError> {
        let at_line =
            |line: u64, problem: String| RecordError { position: Position::Line(line), problem };
        let end = memchr(b'\n', &rest[..rest.len().min(MAX_LINE + 1)]);
        let (line, length) = match end {
            Some(end) => (&rest[..end], end + 1),
            None if rest.len() > MAX_LINE => {
                let what = format!("a line of at most {MAX_LINE} bytes");
                return Err(at_line(self.number + 1, expected(&what, rest)));
            }
            None if last => (rest, rest.len()),
            None => return Ok(0),
        };
        self.number += 1;
        let line = line_content(line, self.number);
        if !line.is_empty() {
            let held = out.len();
            match self.format.line(line, out) {
                Err(problem) if self.skips => {
                    out.truncate(held);
                    self.skipped.0 += 1;
                    let first = || format!("line {}: {problem}", self.number);
                    self.skipped.1.get_or_insert_with(first);
                }
                decoded => decoded.map_err(|problem| at_line(self.number, problem))?,
            }
        }
        Ok(length)
    }
}

/// A line without the byte-order mark at the start of a file, and without its end; empty if the
/// line is blank.
pub(super) fn line_content(line: &[u8], number: u64) -> &[u8] {
    let mark = if number == 1 { &b"\xef\xbb\xbf"[..] } else { b"" };
    let line = line.strip_prefix(mark).unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.trim_ascii().is_empty() { b"" } else { line }
}

impl<F: LineFormat> Decode for Lines<F> {
    fn decode(
        &mut self,
        block: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError> {
        let mut at = 0;
        while out.len() < BATCH && at < block.len() {
            let rest = &block[at..];
            if let Some((record, length)) = self.format.plain_line(rest)
                && length <= MAX_LINE
            {
                out.push(record);
                self.number += 1;
                at += length;
                continue;
            }
            match self.next_line(rest, last, out)? {
                0 => break,
                length => at += length,
            }
        }
        Ok(at)
    }

    fn columns(&self) -> Columns {
        self.format.columns()
    }

    fn oddities(&self) -> Oddities {
        let (skipped_rows, first_skipped) = self.skipped.clone();
        Oddities { skipped_rows, first_skipped, ..self.format.oddities() }
    }
}

/// Where decoded records go.
pub(super) trait Sink {
    /// Receives data about the recording, if the trace was recorded, before the first record.
    fn begin(&mut self, recording: Recording) {
        let _ = recording;
    }

    /// Takes records of a format that has `columns`; fails with the bound that was passed.
    fn push(&mut self, records: &[Record], columns: Columns) -> Result<(), String>;
}

/// A sink behind a limit on the number of records.
pub(super) struct Limited<'a> {
    sink: &'a mut dyn Sink,
    limit: u64,
    pub(super) taken: u64,
    /// `None` unless lifetimes are requested.
    pub(super) lifetimes: Option<LifetimeTally>,
    /// The time of the last record, and the number of records earlier than their predecessor.
    clock: (u64, u64),
    /// Sum of all sizes, checked, so that every sum of some of them also stays within 64 bits.
    bytes: u64,
}

impl<'a> Limited<'a> {
    pub(super) fn of(sink: &'a mut dyn Sink, options: &ReadOptions<'_>) -> Self {
        let limit = options.limit.unwrap_or(u64::MAX);
        let asked = options.lifetimes == Lifetimes::OfTrace;
        let lifetimes = asked.then(LifetimeTally::default);
        Self { sink, limit, taken: 0, lifetimes, clock: (0, 0), bytes: 0 }
    }

    /// Passes records on; `Ok(false)` once the limit is reached.
    pub(super) fn push(&mut self, records: &[Record], columns: Columns) -> Result<bool, String> {
        let wanted = (self.limit - self.taken).min(records.len() as u64);
        if wanted > 0 {
            let records = &records[..wanted as usize];
            let mut known = records.iter().filter(|it| it.size != SIZE_UNKNOWN);
            let sizes = known.try_fold(self.bytes, |sum, it| sum.checked_add(it.size));
            self.bytes = sizes.ok_or("sizes that add up to 2^64 bytes or more; set a limit")?;
            if let Some(lifetimes) = &mut self.lifetimes {
                lifetimes.see(records, columns.times);
            }
            if columns.times {
                for record in records {
                    self.clock.1 += u64::from(record.time_ns < self.clock.0);
                    self.clock.0 = record.time_ns;
                }
            }
            self.sink.push(records, columns)?;
        }
        self.taken += wanted;
        Ok(self.taken < self.limit)
    }
}

/// Collects records into a trace.
pub(super) struct Builder {
    trace: Trace,
    interner: Interner,
    keep: Columns,
    /// Whether numbers are packed, and those of the present batch.
    packed: Option<Vec<u32>>,
    /// Whether lifetimes are kept, and the times where there are any.
    lifetimes: bool,
    unknown_sizes: UnknownSizes,
}

impl Builder {
    pub(super) fn new(options: &ReadOptions<'_>) -> Self {
        let others = options.keeps_times() || options.sizes || options.latencies.is_some();
        // Lifetimes may come with any record, and bring the times with them.
        let expires = options.lifetimes == Lifetimes::OfTrace
            && options.records.is_none_or(|records| records.times);
        let packs = options.packed && !others && !expires;
        Self {
            trace: Trace::default(),
            packed: packs.then(Vec::new),
            interner: Interner::default(),
            keep: Columns {
                times: options.keeps_times(),
                sizes: options.sizes,
                latencies: options.latencies.is_some(),
            },
            lifetimes: options.lifetimes == Lifetimes::OfTrace && !packs,
            unknown_sizes: UnknownSizes::default(),
        }
    }

    /// The trace; notes the objects without a size.
    pub(super) fn finish(mut self, oddities: &mut Oddities) -> Trace {
        let (objects, trace) = (self.interner.objects, &mut self.trace);
        oddities.unknown_sizes =
            self.unknown_sizes.fill(&trace.ids, objects.len(), &mut trace.sizes);
        Trace { objects, ..self.trace }
    }
}

impl Builder {
    /// Keeps the lifetimes from the first batch on that has one, and the times with them. Entries
    /// inserted before live for ever, at any times.
    fn keep_lifetimes(
        &mut self,
        records: &[Record],
        columns: Columns,
    ) -> Result<(), std::collections::TryReserveError> {
        let trace = &mut self.trace;
        let says = records.iter().any(|record| record.lifetime_ns > 0);
        if !says && trace.lifetimes_ns.is_empty() {
            return Ok(());
        }
        let held = trace.ids.len() - records.len();
        let extend = |column: &mut Vec<u64>, of: fn(&Record) -> u64| {
            column.try_reserve(trace.ids.len() - column.len())?;
            column.resize(held, 0);
            column.extend(records.iter().map(of));
            Ok::<(), std::collections::TryReserveError>(())
        };
        extend(&mut trace.lifetimes_ns, |record| record.lifetime_ns)?;
        if columns.times && !self.keep.times {
            extend(&mut trace.times_ns, |record| record.time_ns)?;
        }
        Ok(())
    }
}

impl Sink for Builder {
    fn push(&mut self, records: &[Record], columns: Columns) -> Result<(), String> {
        let trace = &mut self.trace;
        let held = trace.len();
        if (held + records.len()) as u64 > MAX_RECORDS {
            return Err(format!("more than {MAX_RECORDS} records; set a limit"));
        }
        let memory = |_| "not enough memory for the records; set a limit".to_owned();
        let ids = self.packed.as_mut().unwrap_or(&mut trace.ids);
        ids.try_reserve(records.len()).map_err(memory)?;
        self.interner
            .intern(records, ids)
            .map_err(|_| "too many distinct objects for 32 bits or memory".to_owned())?;
        if let Some(ids) = &mut self.packed {
            trace.packed.extend(ids);
            ids.clear();
        }
        if self.keep.sizes && columns.sizes {
            trace.sizes.try_reserve(records.len()).map_err(memory)?;
            // The first records may be without the column, in a format whose records have names.
            let unknown = &mut self.unknown_sizes;
            let before = trace.sizes.len()..held;
            trace.sizes.extend(before.map(|place| unknown.keep(place, SIZE_UNKNOWN)));
            let sizes = (held..).zip(records).map(|(place, it)| unknown.keep(place, it.size));
            trace.sizes.extend(sizes);
        }
        if self.keep.times && columns.times {
            trace.times_ns.try_reserve(records.len()).map_err(memory)?;
            let times_ns = records.iter().map(|record| record.time_ns);
            trace.times_ns.extend(times_ns);
        }
        if self.keep.latencies && columns.latencies {
            trace.latencies.try_reserve(records.len()).map_err(memory)?;
            trace.latencies.extend(records.iter().map(|record| record.latency));
        }
        if self.lifetimes {
            self.keep_lifetimes(records, columns).map_err(memory)?;
        }
        let trace = &mut self.trace;
        let gets = records.iter().all(|record| record.operation == Operation::Get);
        if !gets || !trace.operations.is_empty() {
            let missing = trace.len() - trace.operations.len();
            trace.operations.try_reserve(missing).map_err(memory)?;
            trace.operations.resize(held, Operation::Get);
            let operations = records.iter().map(|record| record.operation);
            trace.operations.extend(operations);
        }
        Ok(())
    }
}

/// The usual sizes of blocks.
pub(super) const BLOCK_SIZES: BlockSizes = BlockSizes { block: BLOCK_BYTES, room: MAX_LINE };

/// The detected format of a file.
pub(super) struct Decoded {
    pub(super) format: Format,
    pub(super) recording: Option<Recording>,
    pub(super) lifetimes: Option<LifetimeSummary>,
    pub(super) oddities: Oddities,
}

/// Decodes the blocks of `file` into a sink.
pub(super) fn decode_file(
    file: &str,
    blocks: &mut Blocks,
    options: &ReadOptions<'_>,
    sink: &mut dyn Sink,
) -> Result<Decoded, TraceError> {
    let mut block = blocks.next()?;
    let guessed = options.format.is_none();
    let format = match options.format {
        Some(format) => format,
        None => guess::guess(block.bytes(), block.last, &options.csv).map_err(|seen| {
            let file = file.to_owned();
            TraceError::Unrecognised { file, seen }
        })?,
    };
    let mut options = options.clone();
    if format == Format::Csv {
        options.csv = guess::complete(&options.csv, block.bytes(), block.last);
    }
    let options = &options;
    let mut decoder = formats::open(format, options)?;
    let mut sink = Limited::of(sink, options);
    let mut records = Vec::with_capacity(BATCH);
    'blocks: loop {
        if let Some(progress) = options.progress
            && progress(block.position, blocks.file_bytes).is_break()
        {
            return Err(TraceError::Stopped { file: file.to_owned() });
        }
        let mut at = 0;
        loop {
            records.clear();
            let decoded = decoder.decode(&block.bytes()[at..], block.last, &mut records);
            if sink.taken == 0
                && let Some(recording) = decoder.recording()
            {
                sink.sink.begin(recording);
            }
            if !decoder.columns().sizes {
                records.iter_mut().for_each(|record| record.size = 1);
            }
            // The records before a fault count: a limit may end the trace before it.
            let more = sink
                .push(&records, decoder.columns())
                .map_err(|problem| TraceError::TooLarge { file: file.to_owned(), problem })?;
            if !more {
                break 'blocks;
            }
            at += decoded.map_err(|mut error| {
                if guessed {
                    error.problem += &format!("; the content was read as {format}");
                }
                error.in_file(file)
            })?;
            if records.len() < BATCH {
                break;
            }
        }
        if block.last {
            break;
        }
        let mut next = blocks.next()?;
        next.put_front(&block.bytes()[at..]);
        blocks.recycle(std::mem::replace(&mut block, next));
    }
    if sink.taken == 0 {
        let file = file.to_owned();
        return Err(match decoder.oddities() {
            Oddities { skipped_rows, first_skipped: Some(first), .. } => {
                TraceError::AllSkipped { file, skipped_rows, first }
            }
            _ => TraceError::Empty { file },
        });
    }
    let lifetimes = sink.lifetimes.as_ref().and_then(LifetimeTally::summary);
    let oddities = Oddities { backward_times: sink.clock.1, ..decoder.oddities() };
    Ok(Decoded { format, recording: decoder.recording(), lifetimes, oddities })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::CsvLayout;
    use proptest::prelude::*;
    use std::io::Write;
    use std::ops::ControlFlow;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A file that is removed when this is dropped.
    struct Temporary(PathBuf);

    impl Temporary {
        fn with(content: &[u8]) -> Self {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("frazil-decode-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, content).unwrap();
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn read_in(block: usize, path: &Path, options: &ReadOptions<'_>) -> Result<Trace, String> {
        let room = MAX_LINE;
        let mut blocks =
            Blocks::open(path, BlockSizes { block, room }).map_err(|error| error.to_string())?;
        let mut builder = Builder::new(options);
        decode_file("file", &mut blocks, options, &mut builder)
            .map(|mut decoded| builder.finish(&mut decoded.oddities))
            .map_err(|error| error.to_string())
    }

    fn options(format: Format) -> ReadOptions<'static> {
        ReadOptions { format: Some(format), times: true, ..ReadOptions::default() }
    }

    /// Valid content of a few records in each format.
    fn sample(format: Format) -> Vec<u8> {
        let text = match format {
            Format::OracleGeneral => {
                let trace = Trace {
                    ids: vec![0, 1, 2, 0],
                    sizes: vec![1, 2, 3, 4].into(),
                    times_ns: vec![0; 4],
                    operations: Vec::new(),
                    objects: vec![5, 1 << 40, u64::MAX],
                    ..Trace::default()
                };
                let mut file = Vec::new();
                crate::trace::write(&trace, None, format, &mut file).unwrap();
                return file;
            }
            Format::Frazil => {
                let trace = Trace {
                    ids: vec![0, 1, 2, 0],
                    sizes: vec![1, 2, 3, 400].into(),
                    times_ns: vec![5, 5, 1 << 40, 1 << 41],
                    operations: vec![
                        Operation::Get,
                        Operation::Set,
                        Operation::Delete,
                        Operation::Get,
                    ],
                    objects: vec![5, 1 << 40, u64::MAX],
                    ..Trace::default()
                };
                let mut file = Vec::new();
                crate::trace::write(&trace, None, format, &mut file).unwrap();
                return file;
            }
            Format::Cache2k => "\0\0\0\u{1}\0\0\0\u{2}\0\0\0\u{1}",
            Format::Csv => {
                "# time, object, size\n0, 13053225291711363978, 737\n# no\n\
                 1.5, \"a\", 5, x\r\n2,7,1\n3,7,1,9\n4,8,1"
            }
            Format::Json => {
                "{\"time\": 1.5, \"id\": \"a\", \"size\": 7}\n\r\n{\"id\":7,\"time\":2,\"size\":1}\n\
                 {\"time\":3,\"size\":4,\"id\":\"a\"}"
            }
            Format::Log => {
                "::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 7\n\
                 ::1 - - [10/Oct/2000:13:55:37 -0700] \"GET /b HTTP/1.1\" 304 - \"-\" \"x\"\n\
                 ::1 - - [10/Oct/2000:13:55:37 -0700] \"POST /a HTTP/1.1\" 200 9\n"
            }
            Format::Twitter => "0,k:1,10,20,1,get,0\n1,k:2,1,2,3,set,4\n2,k:1,1,2,3,delete,0\n",
            Format::Msr => "128166372003061629,hm,1,Read,383496192,32768,413\n2,h,0,Write,7,1,1\n",
            Format::Plain => "1\n# x\n\n22\nabc\n123456789\n1",
            Format::Arc => "1 3 0 0\n900 2 0 1\n2 1 0 2",
            Format::Lirs => "1\n*\n22\n00\n1\n",
            Format::AdaptSize => "1 0 68\n2 1 7454\n3\t0  68\n",
            Format::DelayedHits => "0;0\n\n2;1\n3;0\n",
        };
        text.as_bytes().to_vec()
    }

    #[test]
    fn where_blocks_end_makes_no_difference() {
        for format in Format::ALL {
            let options = options(format);
            let file = Temporary::with(&sample(format));
            let whole = read_in(BLOCK_BYTES, &file.0, &options).unwrap();
            assert!(whole.len() >= 2 && whole.objects.len() >= 2);
            for block in 1..64 {
                let cut = read_in(block, &file.0, &options).unwrap();
                assert_eq!(cut, whole, "{format} in blocks of {block}");
            }
        }
    }

    #[test]
    fn long_lines_cross_blocks() {
        let long = vec![b'x'; MAX_LINE];
        let file = Temporary::with(&[&b"1\n"[..], &long, b"\n1\n"].concat());
        let trace = read_in(1_000, &file.0, &options(Format::Plain)).unwrap();
        assert_eq!(trace.ids, [0, 1, 0]);
        let file = Temporary::with(&[&b"1\n"[..], &long, &long, b"\n1\n"].concat());
        let error = read_in(1_000, &file.0, &options(Format::Plain)).unwrap_err();
        assert!(error.starts_with("file: line 2: expected a line of at most"));
        let file = Temporary::with(&[&b"1,2,3\n1,2,3,"[..], &long, b"\n1,2,3\n"].concat());
        for block in [1_000, BLOCK_BYTES] {
            let error = read_in(block, &file.0, &options(Format::Csv)).unwrap_err();
            assert!(error.starts_with("file: line 2: expected a line of at most"));
        }
    }

    fn compressed(content: &[u8]) -> [(&'static str, Vec<u8>); 3] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(content).unwrap();
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(content).unwrap();
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
        zstd.include_checksum(true).unwrap();
        zstd.write_all(content).unwrap();
        [
            ("zstd", zstd.finish().unwrap()),
            ("gzip", gzip.finish().unwrap()),
            ("xz", xz.finish().unwrap()),
        ]
    }

    #[test]
    fn compressed_files_may_have_parts_but_not_miss_any() {
        let content: String = (0..2_000).map(|id| format!("{}\n", id * 7_919)).collect();
        let options = options(Format::Plain);
        for (name, part) in compressed(content.as_bytes()) {
            let file = Temporary::with(&[&part[..], &part].concat());
            for block in [7, BLOCK_BYTES] {
                let trace = read_in(block, &file.0, &options).unwrap();
                assert_eq!((trace.ids.len(), trace.objects.len()), (4_000, 2_000), "{name}");
            }
            for cut in [part.len() / 2, part.len() - 1, part.len() + part.len() / 2] {
                let file = Temporary::with(&[&part[..], &part].concat()[..cut]);
                let error = read_in(BLOCK_BYTES, &file.0, &options).unwrap_err();
                assert!(error.contains(&format!("{name} content damaged or cut")), "{error}");
            }
            let mut damaged = part.clone();
            let middle = part.len() / 2;
            damaged[middle] ^= 0x55;
            let file = Temporary::with(&damaged);
            assert!(read_in(BLOCK_BYTES, &file.0, &options).is_err(), "{name}");
        }
    }

    #[test]
    fn a_limit_ends_the_trace_before_a_fault() {
        let file = Temporary::with(b"1 3 0 0\n5 1 0 1\nfault\n");
        for (limit, length) in [(1, 1), (3, 3), (4, 4)] {
            let options = ReadOptions { limit: Some(limit), ..options(Format::Arc) };
            assert_eq!(read_in(5, &file.0, &options).unwrap().ids.len(), length);
        }
        let error = read_in(5, &file.0, &options(Format::Arc)).unwrap_err();
        assert!(error.starts_with("file: line 3: "), "{error}");
    }

    #[test]
    fn columns_that_are_not_asked_for_are_left_out() {
        let file = Temporary::with(&sample(Format::Twitter));
        let options =
            ReadOptions { format: Some(Format::Twitter), sizes: false, ..ReadOptions::default() };
        let trace = read_in(BLOCK_BYTES, &file.0, &options).unwrap();
        assert!(trace.sizes.is_empty() && trace.times_ns.is_empty());
        let expected = [Operation::Get, Operation::Set, Operation::Delete];
        assert_eq!(trace.operations, expected);
    }

    #[test]
    fn operations_appear_with_the_first_that_is_no_get() {
        let text = "0,k,1,1,1,get,0\n".repeat(BATCH * 3);
        let file = Temporary::with(format!("{text}0,k,1,1,1,set,0\n").as_bytes());
        let trace = read_in(BLOCK_BYTES, &file.0, &options(Format::Twitter)).unwrap();
        assert_eq!(trace.operations.len(), BATCH * 3 + 1);
        assert_eq!(trace.operations[BATCH * 3 - 1..], [Operation::Get, Operation::Set]);
    }

    #[test]
    fn progress_is_told() {
        let file = Temporary::with(&sample(Format::Lirs));
        let seen = Mutex::new(Vec::new());
        let progress = |read, length| {
            seen.lock().unwrap().push((read, length));
            ControlFlow::Continue(())
        };
        let options = ReadOptions { progress: Some(&progress), ..options(Format::Lirs) };
        read_in(4, &file.0, &options).unwrap();
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().all(|&(read, length)| read <= 12 && length == 12));
        assert_eq!(seen.last(), Some(&(12, 12)));
    }

    #[test]
    fn nothing_is_an_error() {
        for (format, content) in [
            (Format::Plain, &b""[..]),
            (Format::OracleGeneral, b""),
            (Format::Lirs, b"*\n\n"),
            (Format::Csv, b"time,id,size\n"),
        ] {
            let file = Temporary::with(content);
            let error = read_in(BLOCK_BYTES, &file.0, &options(format)).unwrap_err();
            assert_eq!(error, "file: holds no records, expected at least one");
        }
        let error = read_in(BLOCK_BYTES, Path::new("/"), &options(Format::Plain)).unwrap_err();
        assert_eq!(error, "/: is a directory, expected a trace file");
        let error = read_in(BLOCK_BYTES, Path::new("/none"), &options(Format::Csv)).unwrap_err();
        assert!(error.starts_with("/none: "), "{error}");
    }

    /// Damages valid content: replaces, inserts and removes bytes, and cuts the end off.
    fn damaged(mut content: Vec<u8>, changes: &[(u16, u8, u8)], cut: u16) -> Vec<u8> {
        for &(at, kind, byte) in changes {
            let at = usize::from(at) % (content.len() + 1);
            match kind % 3 {
                0 if at < content.len() => content[at] = byte,
                1 if at < content.len() => {
                    content.remove(at);
                }
                _ => content.insert(at, byte),
            }
        }
        let length = usize::from(cut) % (content.len() + 1);
        content.truncate(content.len() - length / 4);
        content
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_bytes_are_a_trace_or_an_error(content: Vec<u8>, block in 1..40usize) {
            let file = Temporary::with(&content);
            let guess = ReadOptions::default();
            let all = Format::ALL.map(options).into_iter().chain([guess]);
            for options in all {
                if let Err(error) = read_in(block, &file.0, &options) {
                    prop_assert!(!error.contains('\n') && error.len() < 400);
                }
            }
        }

        #[test]
        fn damaged_files_are_read_alike_in_any_blocks(
            changes in proptest::collection::vec((any::<u16>(), any::<u8>(), prop_oneof![
                any::<u8>(),
                proptest::sample::select(&b"0123456789,;. \t\r\n\"#*-x"[..]),
            ]), 0..6),
            cut: u16,
            block in 1..40usize,
        ) {
            for format in Format::ALL {
                let file = Temporary::with(&damaged(sample(format), &changes, cut));
                // A separator is guessed from the first block, so here it is given.
                let csv = CsvLayout { separator: Some(b','), ..CsvLayout::default() };
                let options = ReadOptions { csv, ..options(format) };
                let whole = read_in(BLOCK_BYTES, &file.0, &options);
                let cut = read_in(block, &file.0, &options);
                prop_assert_eq!(whole, cut);
            }
        }

        #[test]
        fn damaged_compression_is_no_panic(
            changes in proptest::collection::vec((any::<u16>(), any::<u8>(), any::<u8>()), 1..4),
            cut: u16,
        ) {
            for (_, content) in compressed(b"1\n2\n3\n1\n2\n3\n") {
                let file = Temporary::with(&damaged(content, &changes, cut));
                let options = ReadOptions {
                    csv: CsvLayout::default(),
                    ..options(Format::Plain)
                };
                let _ = read_in(BLOCK_BYTES, &file.0, &options);
            }
        }
    }
}
