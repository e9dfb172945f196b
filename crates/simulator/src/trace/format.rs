//! The formats of traces, and how the columns of a CSV file are named.

use std::fmt;
use std::str::FromStr;

/// How the records of a file are laid out.
///
/// ```
/// use frazil_simulator::trace::Format;
///
/// assert_eq!("oracle-general".parse(), Ok(Format::OracleGeneral));
/// assert_eq!(Format::DelayedHits.to_string(), "delayed-hits");
/// let error = "oracle".parse::<Format>().unwrap_err();
/// assert!(error.to_string().contains("oracle-general, csv"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Packed little-endian `u32 time_s, u64 object, u32 size, i64 next_access` (libCacheSim).
    OracleGeneral,
    /// Separated columns, given by a [`CsvLayout`], the header line, or their order.
    Csv,
    /// JSON lines: an object a line, whose members have the names of a CSV file's columns.
    Json,
    /// Web-server logs in the common or the combined format; the id is the request's target.
    Log,
    /// `timestamp_s,key,key_size,value_size,client,operation,ttl`; the size is key plus value.
    Twitter,
    /// `filetime,host,disk,Read|Write,offset,size,response`; the id is the offset, with the
    /// disk number in its top byte.
    Msr,
    /// One id a line; blank lines and lines that begin with `#` are skipped.
    Plain,
    /// `start count ignored request_number`: requests `count` successive blocks.
    Arc,
    /// One block a line; lines that hold `*` are skipped.
    Lirs,
    /// 32-bit big-endian ids.
    Cache2k,
    /// `time id size`, separated by white space.
    AdaptSize,
    /// `timestamp;object`; an empty line is a slot without a request.
    DelayedHits,
    /// Recorded by a running cache (`frazil::Cache::record`): a sample of its requests.
    Frazil,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 13] = [
        Self::OracleGeneral,
        Self::Csv,
        Self::Twitter,
        Self::Msr,
        Self::Plain,
        Self::Arc,
        Self::Lirs,
        Self::Cache2k,
        Self::AdaptSize,
        Self::DelayedHits,
        Self::Frazil,
        Self::Json,
        Self::Log,
    ];

    /// The name on the command line.
    ///
    /// ```
    /// assert_eq!(frazil_simulator::trace::Format::Cache2k.name(), "cache2k");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::OracleGeneral => "oracle-general",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Log => "log",
            Self::Twitter => "twitter",
            Self::Msr => "msr",
            Self::Plain => "plain",
            Self::Arc => "arc",
            Self::Lirs => "lirs",
            Self::Cache2k => "cache2k",
            Self::AdaptSize => "adaptsize",
            Self::DelayedHits => "delayed-hits",
            Self::Frazil => "frazil",
        }
    }

    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| UnknownName {
            what: "trace format",
            name: name.to_owned(),
            near: near(name, Self::ALL.map(Self::name)),
            known: Self::names(),
        })
    }
}

/// An unknown name.
///
/// ```
/// use frazil_simulator::trace::TimeUnit;
///
/// let error = "min".parse::<TimeUnit>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown time unit \"min\", expected one of: s, ms, us, ns");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {name:?}{near}, expected one of: {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    /// The nearest known name, as part of the message.
    near: String,
    known: String,
}

fn near<const N: usize>(name: &str, known: [&'static str; N]) -> String {
    let near = frazil_policy::nearest(name, known);
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// The unit of a text format's time column.
///
/// ```
/// use frazil_simulator::trace::TimeUnit;
///
/// assert_eq!("ms".parse(), Ok(TimeUnit::Milliseconds));
/// assert_eq!(TimeUnit::Milliseconds.nanoseconds(), 1_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// `s`
    #[default]
    Seconds,
    /// `ms`
    Milliseconds,
    /// `us`
    Microseconds,
    /// `ns`
    Nanoseconds,
}

impl TimeUnit {
    /// The unit in which this is a time since 1970; seconds for numbers that are too small to tell.
    ///
    /// ```
    /// use frazil_simulator::trace::TimeUnit;
    /// let some_day = 1_764_000_000; // in 2025
    /// assert_eq!(TimeUnit::since_1970(some_day), TimeUnit::Seconds);
    /// assert_eq!(TimeUnit::since_1970(some_day * 1_000), TimeUnit::Milliseconds);
    /// ```
    pub fn since_1970(time: u64) -> Self {
        // Each range begins in 1973 in its own unit, and after the year 5000 in the unit before.
        match time.checked_ilog10().unwrap_or(0) {
            0..11 => Self::Seconds,
            11..14 => Self::Milliseconds,
            14..17 => Self::Microseconds,
            _ => Self::Nanoseconds,
        }
    }

    /// Nanoseconds in one unit.
    ///
    /// ```
    /// assert_eq!(frazil_simulator::trace::TimeUnit::Microseconds.nanoseconds(), 1_000);
    /// ```
    pub fn nanoseconds(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        })
    }
}

impl FromStr for TimeUnit {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "s" => Ok(Self::Seconds),
            "ms" => Ok(Self::Milliseconds),
            "us" => Ok(Self::Microseconds),
            "ns" => Ok(Self::Nanoseconds),
            _ => Err(UnknownName {
                what: "time unit",
                name: name.to_owned(),
                near: String::new(),
                known: "s, ms, us, ns".to_owned(),
            }),
        }
    }
}

/// Where a CSV file has its columns, as far as the user has set them.
///
/// A column is set by its number, counted from 1, or by its name in the header line. A column that
/// is not set is found by its usual name: `time` or `timestamp`; `id`, `key`, `object` or `obj_id`;
/// `size`; `op` or `operation`; `latency`; `ttl`; and a few more. Without such a header and without
/// settings the columns are `time, id, size`; of two, `time, id`; of one, `id`.
///
/// ```
/// use frazil_simulator::trace::{CsvLayout, TimeUnit};
///
/// let layout = CsvLayout {
///     separator: Some(b';'),
///     id: Some(1.into()),
///     time: Some("timestamp".into()),
///     time_unit: Some(TimeUnit::Milliseconds),
///     ..CsvLayout::default()
/// };
/// assert_eq!(layout.size, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvLayout {
    /// The byte between two columns; a space stands for any run of blanks. `None`: comma,
    /// semicolon, bar or tab, the one that divides the first lines most evenly.
    pub separator: Option<u8>,
    /// Whether the first line is a header; `None`: guess.
    pub header: Option<bool>,
    /// Column of the time.
    pub time: Option<CsvColumn>,
    /// Column of the object's id.
    pub id: Option<CsvColumn>,
    /// Column of the object's size in bytes.
    pub size: Option<CsvColumn>,
    /// Column of the operation.
    pub operation: Option<CsvColumn>,
    /// Column of the duration of a fetch that a miss of this record starts.
    pub latency: Option<CsvColumn>,
    /// Column of the lifetime of an entry that the record inserts: in the unit of the times, or
    /// `never` or -1; empty or 0 if unknown.
    pub lifetime: Option<CsvColumn>,
    /// Unit of the time column; also for `adaptsize` and `delayed-hits`. `None`: seconds, unless
    /// the first time of a CSV file looks like milliseconds, microseconds or nanoseconds since
    /// 1970.
    pub time_unit: Option<TimeUnit>,
}

/// One column of a CSV file. In JSON lines only names are columns.
///
/// ```
/// use frazil_simulator::trace::CsvColumn;
///
/// assert_eq!(CsvColumn::from(2), CsvColumn::Number(2));
/// assert_eq!(CsvColumn::from("key"), CsvColumn::Named("key".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvColumn {
    /// Counted from 1.
    Number(usize),
    /// By its name in the header line; case is ignored if no name matches exactly.
    Named(String),
}

impl From<usize> for CsvColumn {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for CsvColumn {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        for unit in ["s", "ms", "us", "ns"] {
            assert_eq!(unit.parse::<TimeUnit>().unwrap().to_string(), unit);
        }
    }
}
