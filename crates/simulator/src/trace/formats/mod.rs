//! One file per format; this one maps a [`Format`] to its decoder.

mod adaptsize;
mod arc;
mod cache2k;
mod csv;
mod delayed_hits;
mod ids;
mod json;
mod log;
mod msr;
mod oracle_general;
mod recorded;
mod roles;
mod twitter;

use super::decode::{Decode, LineFormat, Lines};
use super::fields::Clock;
use super::{CsvLayout, Format, Lifetimes, ReadOptions, TraceError};

pub(super) use csv::{has_plain_names, names_id};
pub(super) use msr::TICK_NS as MSR_TICK_NS;
pub(super) use oracle_general::RECORD_BYTES as ORACLE_GENERAL_BYTES;

/// A decoder for a file of `format`.
pub(super) fn open(
    format: Format,
    options: &ReadOptions<'_>,
) -> Result<Box<dyn Decode>, TraceError> {
    let (layout, times) = (&options.csv, options.keeps_times());
    let lifetimes = options.lifetimes == Lifetimes::OfTrace;
    let keep = |unit_ns| Clock { unit_ns, keep: times };
    let unit = keep(layout.time_unit.unwrap_or_default().nanoseconds());
    let bad = options.skip_bad_rows;
    Ok(match format {
        Format::OracleGeneral => Box::new(oracle_general::OracleGeneral::default()),
        Format::Cache2k => Box::new(cache2k::Cache2k::default()),
        Format::Frazil => Box::new(recorded::Recorded::default()),
        Format::Csv => {
            Box::new(Lines::of(csv::Csv::new(layout, times, options.latencies, lifetimes)?, bad))
        }
        Format::Json => {
            Box::new(Lines::of(json::Json::new(layout, times, options.latencies, lifetimes)?, bad))
        }
        Format::Log => Box::new(Lines::of(log::Log::default(), bad)),
        Format::Twitter => Box::new(Lines::of(twitter::Twitter::new(times, lifetimes), bad)),
        Format::Msr => Box::new(Lines::of(msr::Msr::new(keep(msr::TICK_NS)), bad)),
        Format::Plain => Box::new(Lines::of(ids::Plain::default(), bad)),
        Format::Lirs => Box::new(Lines::of(ids::Lirs::default(), bad)),
        Format::Arc => Box::new(Lines::of(arc::Arc, bad)),
        Format::AdaptSize => Box::new(Lines::of(adaptsize::AdaptSize::new(unit), bad)),
        Format::DelayedHits => Box::new(Lines::of(delayed_hits::DelayedHits::new(unit), bad)),
    })
}

/// The line decoder of a text format, to try it on a few lines; `None` for a binary format or an
/// invalid layout.
pub(super) fn line_format(format: Format, layout: &CsvLayout) -> Option<Box<dyn LineFormat>> {
    let clock = Clock { unit_ns: 1, keep: false };
    Some(match format {
        Format::OracleGeneral | Format::Cache2k | Format::Frazil => return None,
        Format::Csv => Box::new(csv::Csv::new(layout, false, None, false).ok()?),
        Format::Json => Box::new(json::Json::new(layout, false, None, false).ok()?),
        Format::Log => Box::new(log::Log::default()),
        Format::Twitter => Box::new(twitter::Twitter::new(false, false)),
        Format::Msr => Box::new(msr::Msr::new(clock)),
        Format::Plain => Box::new(ids::Plain::default()),
        Format::Lirs => Box::new(ids::Lirs::default()),
        Format::Arc => Box::new(arc::Arc),
        Format::AdaptSize => Box::new(adaptsize::AdaptSize::new(clock)),
        Format::DelayedHits => Box::new(delayed_hits::DelayedHits::new(clock)),
    })
}

#[cfg(test)]
pub(super) mod testing;
