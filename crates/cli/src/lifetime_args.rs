//! The flag for lifetimes of entries, and its combination with a trace.

use anyhow::anyhow;
use clap::Args;
use frazil_simulator::trace::{LifetimeSummary, Lifetimes, Origin, RecordedLifetimes, printable};

use crate::failure::{Failure, note};
use crate::trace_args::TraceArgs;

/// Whether entries expire.
#[derive(Args, Debug)]
#[command(next_help_heading = "Lifetimes")]
pub(crate) struct LifetimeArgs {
    /// Lifetime of entries from their insertion, by the times in the trace: one for all (10s, 5m,
    /// 1h, 7d), those in the trace, or none. A get of an expired entry is a miss [default: trace,
    /// if the trace has lifetimes and times].
    #[arg(long, value_name = "D|trace|none")]
    ttl: Option<Lifetimes>,
}

/// A text for people: the lifetimes with which a trace is replayed.
pub(crate) type Told = Option<String>;

impl LifetimeArgs {
    /// The lifetimes to read and to replay.
    pub(crate) fn rule(&self) -> Lifetimes {
        self.ttl.unwrap_or(Lifetimes::OfTrace)
    }

    /// Whether the command line sets a lifetime.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.ttl.is_some_and(|rule| rule != Lifetimes::Ignored)
    }

    /// The lifetimes of a trace that `--ttl none` ignores, for people; also printed on standard
    /// error. Nothing for standard input, which can be read only once.
    pub(crate) fn ignored(&self, reading: &TraceArgs, name: &str) -> Option<String> {
        if self.ttl != Some(Lifetimes::Ignored) {
            return None;
        }
        let LifetimeSummary { has_times, median_ns, .. } = reading.first_lifetimes(name)?;
        let name = printable(name);
        let median =
            median_ns.map(|ns| format!(" (median {} of the first)", span(ns))).unwrap_or_default();
        let told = if has_times {
            format!("the lifetimes of {name}{median} are ignored because of --ttl none")
        } else {
            format!("the lifetimes of {name}{median} are ignored, and it has no times")
        };
        note(&told);
        Some(told)
    }

    /// The lifetimes with which a trace is replayed, given whether it `has_times`: `None` if
    /// nothing expires. Prints on standard error which of its lifetimes are ignored.
    ///
    /// # Errors
    /// Bad usage if `--ttl` needs data that the trace lacks.
    pub(crate) fn told(
        &self,
        name: &str,
        origin: &Origin,
        has_times: bool,
    ) -> Result<Told, Failure> {
        let name = printable(name);
        let no_times = "has no times, without which nothing can expire";
        if let Some(Lifetimes::Fixed(ns)) = self.ttl {
            if !has_times {
                return Err(Failure::usage(anyhow!("--ttl: {name} {no_times}")));
            }
            return Ok(Some(format!("{} for all", span(ns))));
        }
        match (self.ttl, origin.lifetimes) {
            (Some(Lifetimes::Ignored), _) => Ok(None),
            (_, Some(LifetimeSummary { has_times: true, median_ns, .. })) => {
                let median = median_ns.map(|ns| format!(", median {}", span(ns)));
                Ok(Some(format!("of the trace{}", median.unwrap_or_default())))
            }
            (Some(_), Some(_)) => {
                Err(Failure::usage(anyhow!("--ttl trace: {name} has lifetimes, but {no_times}")))
            }
            (Some(_), None) => Err(Failure::usage(anyhow!("--ttl trace: {name} has no lifetimes"))),
            (None, Some(_)) => {
                note(&format!("{name}: {no_times}; its lifetimes are ignored"));
                Ok(None)
            }
            (None, None) => Ok(None),
        }
    }
}

/// Prints which lifetimes of its cache a recording lacks, or may lack.
pub(crate) fn note_left_out(name: &str, origin: &Origin) {
    let Some(recording) = origin.recording else { return };
    let what = match (recording.lifetimes, origin.lifetimes) {
        (RecordedLifetimes::Unknown, None) => {
            "comes from a version that recorded no lifetimes; expiry is ignored (--ttl D sets one \
             lifetime for all)"
        }
        (RecordedLifetimes::Told, None) => {
            "entries of its cache could expire, but no record has a lifetime; expiry is ignored \
             (--ttl D sets one lifetime for all)"
        }
        (RecordedLifetimes::Moved, _) => {
            "in its cache uses extended lifetimes (time to idle, or expire_after_read), which \
             recordings do not hold; the extensions are ignored"
        }
        _ => return,
    };
    note(&format!("{}: {what}", printable(name)));
}

/// Nanoseconds in the largest unit in which they are at least 1, to three digits.
pub(crate) fn span(ns: u64) -> String {
    const UNITS: [(&str, f64); 7] = [
        ("d", 86_400e9),
        ("h", 3_600e9),
        ("min", 60e9),
        ("s", 1e9),
        ("ms", 1e6),
        ("µs", 1e3),
        ("ns", 1.0),
    ];
    let exact = ns as f64;
    let (unit, each) = UNITS.into_iter().find(|&(_, each)| exact >= each).unwrap_or(("ns", 1.0));
    let number = exact / each;
    let decimals = if number >= 100.0 { 0 } else { 2 - usize::from(number >= 10.0) };
    let text = format!("{number:.decimals$}");
    let short = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_unit_that_suits_them() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (250_000_000, "250 ms"),
            (10_000_000_000, "10 s"),
            (300_000_000_000, "5 min"),
            (3_600_000_000_000, "1 h"),
            (3_601_000_000_000, "1 h"),
            (90 * 86_400_000_000_000, "90 d"),
            (500 * 86_400_000_000_000, "500 d"),
        ] {
            assert_eq!(span(ns), text);
        }
    }
}
