//! The flags with which every verb reads a trace.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use frazil_simulator::trace::{
    self, CsvColumn, CsvLayout, Format, LatencyUnit, LifetimeSummary, Lifetimes, Loaded, Oddities,
    Origin, ReadOptions, Records, SampleBounds, TimeUnit, path_of, printable,
};
use frazil_simulator::{
    CellSpec, Curve, CurveSample, Outcome, StreamError, SweepOptions, Unit, lru_curve, parse_count,
    replay_stream,
};

use crate::InMemory;
use crate::completions::offering;
use crate::failure::{Failure, note};
use crate::lifetime_args::note_left_out;
use crate::output::grouped;
use crate::progress::Progress;

/// How to read traces.
#[derive(Args, Debug)]
#[command(next_help_heading = "Reading traces")]
pub(crate) struct TraceArgs {
    /// Format of the trace: auto, oracle-general, csv, json (one object a line), log (of a web
    /// server, common or combined), twitter, msr, plain, arc, lirs, cache2k, adaptsize,
    /// delayed-hits or frazil. Compression (zstd, gzip, xz) is recognised from the content.
    #[arg(long, value_name = "NAME", default_value = "auto",
          value_parser = offering(format_names(), parse_format), hide_possible_values = true)]
    format: FormatArg,

    /// Columns of a CSV trace, by number from 1 (time=1,id=2,size=3) or by name in the header
    /// (time=timestamp,id=user), or members of a JSON trace by name. Roles are time, id, size,
    /// operation, latency and ttl. A column given here wins over the header [default: the usual
    /// names in the header, with the first other column as id if none has such a name; without a
    /// header time,id,size or time,id or id].
    #[arg(long, value_name = "ROLE=COLUMN,…", value_delimiter = ',', value_parser = parse_column)]
    columns: Vec<(Column, CsvColumn)>,

    /// Separator of a CSV trace: one character, or `tab` [default: comma, semicolon, bar or tab,
    /// guessed from the first lines].
    #[arg(long, value_name = "CHAR", value_parser = parse_separator)]
    separator: Option<u8>,

    /// Whether a CSV trace begins with a header line.
    #[arg(long, value_name = "yes|no", value_parser = parse_yes_no)]
    header: Option<bool>,

    /// Unit of times and lifetimes in a CSV or JSON trace: s, ms, us or ns. Times may also be
    /// dates, such as 2026-11-26T16:28:18Z [default: s; if the first time is too large for seconds
    /// since 1970, the unit that fits].
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,

    /// Read at most this many records.
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    limit: Option<u64>,

    /// Skip lines of a text format that cannot be read, and count them. By default the first is an
    /// error.
    #[arg(long)]
    skip_bad_rows: bool,

    /// Traces in memory, by their names.
    #[arg(skip)]
    memory: Vec<(String, InMemory)>,
}

#[derive(Clone, Copy, Debug)]
struct FormatArg(Option<Format>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Time,
    Id,
    Size,
    Operation,
    Latency,
    Lifetime,
}

fn format_names() -> impl Iterator<Item = &'static str> {
    std::iter::once("auto").chain(Format::ALL.map(Format::name))
}

fn parse_format(text: &str) -> Result<FormatArg, String> {
    if text == "auto" {
        return Ok(FormatArg(None));
    }
    text.parse().map(|format| FormatArg(Some(format))).map_err(|error| format!("{error}"))
}

fn parse_column(text: &str) -> Result<(Column, CsvColumn), String> {
    let expected = || {
        format!(
            "`{text}` is not ROLE=COLUMN, such as id=2 or id=key; roles are time, id, size, \
             operation, latency and ttl"
        )
    };
    let (name, place) = text.split_once('=').ok_or_else(expected)?;
    let column = match name {
        "time" => Column::Time,
        "id" => Column::Id,
        "size" => Column::Size,
        "operation" | "op" => Column::Operation,
        "latency" => Column::Latency,
        "ttl" => Column::Lifetime,
        _ => return Err(expected()),
    };
    match place.parse() {
        Ok(number @ 1..=1000) => Ok((column, CsvColumn::Number(number))),
        Err(_) if place.contains(|it: char| !it.is_ascii_digit()) => {
            Ok((column, CsvColumn::Named(place.to_owned())))
        }
        _ => Err(format!("column `{text}`: columns are counted from 1 to 1000")),
    }
}

fn parse_separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && byte != b'\n' && byte != b'"' => Ok(byte),
        _ => Err("a separator is one ASCII character, or `tab`".to_owned()),
    }
}

fn parse_yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

/// A number of records, as people write it.
pub(crate) fn parse_records(text: &str) -> Result<u64, String> {
    parse_count(text).ok_or_else(|| "write a whole number, such as 1000, 10K or 1e6".to_owned())
}

fn parse_limit(text: &str) -> Result<u64, String> {
    match parse_records(text)? {
        0 => Err("a limit is at least 1".to_owned()),
        limit => Ok(limit),
    }
}

fn of_stream(spec: &str, error: StreamError) -> Failure {
    match error {
        StreamError::Trace(error) => error.into(),
        error => Failure::Usage(anyhow!("{spec}: {error}")),
    }
}

fn nothing_sampled(spec: &str) -> Failure {
    Failure::Failed(anyhow!(
        "{spec}: the sample is so small that it has none of the objects; take a larger one"
    ))
}

/// Prints the oddities of a file that was read nevertheless.
fn note_oddities(spec: &str, oddities: &Oddities, told_layout: bool) {
    if let Some(layout) = oddities.layout.as_ref().filter(|_| !told_layout) {
        note(&format!("{spec}: {layout} (--columns and --separator override)"));
    }
    if let Some(first) = &oddities.first_skipped {
        let skipped = match oddities.skipped_rows {
            1 => "1 line that can't be read,".to_owned(),
            rows => format!("{} lines that can't be read, the first", grouped(rows)),
        };
        note(&format!("{spec}: skipped {skipped} at {first}"));
    }
    if oddities.other_lines > 0 {
        note(&format!(
            "{spec}: lines that ask nothing of a cache, such as OPTIONS, left out: {}",
            grouped(oddities.other_lines)
        ));
    }
    if oddities.unknown_sizes > 0 {
        note(&format!(
            "{spec}: objects whose size no record has: {}; they count with the mean size of the \
             others",
            grouped(oddities.unknown_sizes)
        ));
    }
    if oddities.hashed_ids > 0 {
        note(&format!(
            "{spec}: ids beyond 64 bits, hashed to 64 bits: {}",
            grouped(oddities.hashed_ids)
        ));
    }
    if oddities.backward_times > 0 {
        note(&format!(
            "{spec}: records with an earlier time than the record before: {}; the order of the \
             file is kept",
            grouped(oddities.backward_times)
        ));
    }
}

/// Which columns of a trace a verb needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) times: bool,
    pub(crate) sizes: bool,
    pub(crate) latencies: Option<LatencyUnit>,
    pub(crate) lifetimes: Lifetimes,
}

/// Records examined to see whether a trace has lifetimes.
const LOOKED_AT: u64 = 10_000;

impl TraceArgs {
    /// Reads (or generates) the trace `spec`, with progress, and notes a guessed
    /// format on standard error.
    pub(crate) fn load(&self, spec: &str, wanted: Wanted) -> Result<Arc<Loaded>, Failure> {
        self.load_as(spec, wanted, false)
    }

    /// As [`TraceArgs::load`], for replays by policies that do not want the trace: one that is in
    /// memory is kept in as little memory as can be.
    pub(crate) fn load_beside(&self, spec: &str, wanted: Wanted) -> Result<Arc<Loaded>, Failure> {
        self.load_as(spec, wanted, self.records(spec).is_some())
    }

    fn load_as(&self, spec: &str, wanted: Wanted, packed: bool) -> Result<Arc<Loaded>, Failure> {
        if let Some(loaded) = self.decoded(spec) {
            return Ok(loaded);
        }
        let load = |options: &ReadOptions<'_>| {
            trace::load(spec, &ReadOptions { packed, ..options.clone() })
        };
        let loaded = self.read(spec, wanted, load)??;
        self.note_origin(spec, &loaded.origin, wanted);
        Ok(Arc::new(loaded))
    }

    /// As [`TraceArgs::load`], within bounds on the objects.
    pub(crate) fn load_sample(
        &self,
        spec: &str,
        wanted: Wanted,
        bounds: SampleBounds,
    ) -> Result<Loaded, Failure> {
        let load = |options: &ReadOptions<'_>| trace::load_sample(spec, options, bounds);
        let loaded = self.read(spec, wanted, load)??;
        self.note_origin(spec, &loaded.origin, wanted);
        if loaded.trace.is_empty() {
            return Err(nothing_sampled(spec));
        }
        Ok(loaded)
    }

    /// The lifetimes in the first records of a file, if they are not read otherwise.
    pub(crate) fn first_lifetimes(&self, spec: &str) -> Option<LifetimeSummary> {
        let records = self.records(spec);
        if records.is_none() && !path_of(spec).is_file() {
            return None;
        }
        let options = ReadOptions {
            format: self.format.0,
            csv: self.csv_layout().ok()?,
            limit: Some(self.limit.unwrap_or(LOOKED_AT).min(LOOKED_AT)),
            skip_bad_rows: self.skip_bad_rows,
            lifetimes: Lifetimes::OfTrace,
            records,
            ..ReadOptions::default()
        };
        // If lifetimes are ignored, malformed ones are not reported.
        trace::load(spec, &options).ok()?.origin.lifetimes
    }

    /// LRU's curve of the trace `spec`, from one pass, in which nothing expires. The trace's
    /// lifetimes are read only for its origin.
    pub(crate) fn lru_curve(
        &self,
        spec: &str,
        unit: Unit,
        sample: CurveSample,
        lifetimes: Lifetimes,
    ) -> Result<(Curve, Origin), Failure> {
        let wanted = Wanted { times: false, sizes: true, latencies: None, lifetimes };
        let curve = |options: &ReadOptions<'_>| lru_curve(spec, options, unit, sample);
        let (curve, origin) =
            self.read(spec, wanted, curve)?.map_err(|error| of_stream(spec, error))?;
        self.note_origin(spec, &origin, wanted);
        if curve.objects == 0 {
            return Err(nothing_sampled(spec));
        }
        Ok((curve, origin))
    }

    /// Replays the trace `spec` through one cell as it is read.
    pub(crate) fn replay_stream(
        &self,
        spec: &str,
        cell: CellSpec,
        options: &SweepOptions,
    ) -> Result<(Outcome, Origin), Failure> {
        let lifetimes = options.lifetimes;
        let wanted = Wanted { times: false, sizes: true, latencies: None, lifetimes };
        let replay = |read: &ReadOptions<'_>| replay_stream(spec, read, cell, options);
        let (outcome, origin) =
            self.read(spec, wanted, replay)?.map_err(|error| of_stream(spec, error))?;
        self.note_origin(spec, &origin, wanted);
        Ok((outcome, origin))
    }

    /// Takes traces of these names from memory.
    pub(crate) fn keep(&mut self, memory: &[(String, InMemory)]) {
        self.memory = memory.to_vec();
    }

    fn records(&self, spec: &str) -> Option<&Records> {
        self.memory.iter().find_map(|(name, it)| match it {
            InMemory::Records(records) if name == spec => Some(&**records),
            _ => None,
        })
    }

    /// The trace, if it has been decoded before.
    pub(crate) fn decoded(&self, spec: &str) -> Option<Arc<Loaded>> {
        self.memory.iter().find_map(|(name, it)| match it {
            InMemory::Decoded(loaded) if name == spec => Some(Arc::clone(loaded)),
            _ => None,
        })
    }

    /// Calls `read` with the options from the flags, and a progress bar.
    fn read<T>(
        &self,
        spec: &str,
        wanted: Wanted,
        read: impl FnOnce(&ReadOptions<'_>) -> T,
    ) -> Result<T, Failure> {
        let name = Path::new(spec).file_name().unwrap_or_default().to_string_lossy();
        let records = self.records(spec);
        let progress = if records.is_some() {
            Progress::of_records(format!("reading {}", printable(&name)), 0)
        } else if spec == "-" || path_of(spec).exists() {
            Progress::of_bytes(format!("reading {}", printable(&name)), 0)
        } else {
            Progress::of_records("generating".to_owned(), 0)
        };
        Ok(read(&ReadOptions {
            format: self.format.0,
            csv: self.csv_layout()?,
            limit: self.limit,
            times: wanted.times,
            sizes: wanted.sizes,
            latencies: wanted.latencies,
            lifetimes: wanted.lifetimes,
            skip_bad_rows: self.skip_bad_rows,
            progress: Some(&|position, total| progress.set(position, total)),
            records,
            packed: false,
        }))
    }

    /// Prints notes about the origin of a trace.
    fn note_origin(&self, spec: &str, origin: &Origin, wanted: Wanted) {
        if wanted.lifetimes == Lifetimes::OfTrace {
            note_left_out(spec, origin);
        }
        if let (Some(format), true) = (origin.format, origin.guessed) {
            note(&format!(
                "{spec}: read as {format}, guessed from its content (--format \
                           overrides)"
            ));
        }
        let told = self.separator.is_some() && !self.columns.is_empty();
        note_oddities(spec, &origin.oddities, told);
        match origin.recording.map(|recording| recording.lost) {
            // A limit may stop the reading before the end.
            Some(None) if self.limit.is_none() => note(&format!(
                "{spec}: has no end mark: the recording was cut short or goes on; read up to its \
                 last record"
            )),
            Some(Some(lost @ 1..)) => {
                note(&format!("{spec}: {} requests came too fast to be recorded", grouped(lost)))
            }
            _ => {}
        }
    }

    fn csv_layout(&self) -> Result<CsvLayout, Failure> {
        let column = |wanted| {
            self.columns
                .iter()
                .find(|(column, _)| *column == wanted)
                .map(|(_, place)| place.clone())
        };
        for (place, (named, _)) in self.columns.iter().enumerate() {
            if self.columns[..place].iter().any(|(column, _)| column == named) {
                return Err(Failure::usage(anyhow!("--columns gives one role to two columns")));
            }
        }
        // If all columns are names, there is a header, which may name the ids too.
        let numbered = self.columns.iter().any(|(_, place)| matches!(place, CsvColumn::Number(_)));
        if numbered && column(Column::Id).is_none() {
            return Err(Failure::usage(anyhow!("--columns names no id column, such as id=2")));
        }
        Ok(CsvLayout {
            separator: self.separator,
            header: self.header,
            time: column(Column::Time),
            id: column(Column::Id),
            size: column(Column::Size),
            operation: column(Column::Operation),
            latency: column(Column::Latency),
            lifetime: column(Column::Lifetime),
            time_unit: self.time_unit,
        })
    }
}
