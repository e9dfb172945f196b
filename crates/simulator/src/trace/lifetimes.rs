//! Lifetimes of entries: those in a replay, and those in a trace.

use hdrhistogram::Histogram;

use super::Record;

pub use frazil_recording::{FOR_EVER, Lifetimes as RecordedLifetimes};

/// The lifetimes of entries in a replay.
///
/// ```
/// use frazil_simulator::trace::Lifetimes;
///
/// assert_eq!("90s".parse(), Ok(Lifetimes::Fixed(90_000_000_000)));
/// assert_eq!("none".parse(), Ok(Lifetimes::Ignored));
/// assert!("90".parse::<Lifetimes>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetimes {
    /// None: nothing expires.
    #[default]
    Ignored,
    /// The lifetimes in the trace, if it has any and has times.
    OfTrace,
    /// The same for all entries, in nanoseconds from the insertion, instead of the trace's.
    Fixed(u64),
}

impl std::str::FromStr for Lifetimes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => return Ok(Lifetimes::Ignored),
            "trace" => return Ok(Lifetimes::OfTrace),
            _ => {}
        }
        let us = crate::parse_us(text)
            .map_err(|error| format!("`{text}`: {error}; or write trace, or none"))?;
        let ns = (us * 1e3).round();
        if ns < 1.0 || ns >= 2f64.powi(63) {
            return Err(format!("`{text}`: expected a lifetime from 1ns to 290 years"));
        }
        Ok(Lifetimes::Fixed(ns as u64))
    }
}

/// Statistics of the lifetimes in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifetimeSummary {
    /// Records that have one, endless ones included.
    pub records: u64,
    /// Median of the finite ones, to three digits; `None` if there are none.
    pub median_ns: Option<u64>,
    /// The longest finite one.
    pub longest_ns: Option<u64>,
    /// Whether the trace has times, without which nothing can expire.
    pub has_times: bool,
}

/// Counts the lifetimes of records as they are read. 450 KB once there is one that ends.
#[derive(Default)]
pub(super) struct LifetimeTally {
    records: u64,
    longest_ns: u64,
    has_times: bool,
    ending: Option<Histogram<u64>>,
}

impl LifetimeTally {
    pub(super) fn see(&mut self, records: &[Record], has_times: bool) {
        for record in records.iter().filter(|record| record.lifetime_ns > 0) {
            self.records += 1;
            self.has_times = has_times;
            if record.lifetime_ns == FOR_EVER {
                continue;
            }
            if self.ending.is_none() {
                // One to five digits and any bounds that are far apart are valid.
                self.ending = Histogram::new_with_bounds(1, u64::MAX, 3).ok();
            }
            self.longest_ns = self.longest_ns.max(record.lifetime_ns);
            if let Some(ending) = &mut self.ending {
                ending.saturating_record(record.lifetime_ns);
            }
        }
    }

    /// `None` if no record has a lifetime.
    pub(super) fn summary(&self) -> Option<LifetimeSummary> {
        let ends = self.ending.as_ref();
        // The histogram returns the greatest value with the same three digits.
        let median = |it: &Histogram<u64>| it.value_at_quantile(0.5).min(self.longest_ns);
        (self.records > 0).then(|| LifetimeSummary {
            records: self.records,
            median_ns: ends.map(median),
            longest_ns: ends.map(|_| self.longest_ns),
            has_times: self.has_times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_lifetimes() {
        for (text, ns) in [("1ns", 1), ("5m", 300_000_000_000), ("1.5h", 5_400_000_000_000)] {
            assert_eq!(text.parse(), Ok(Lifetimes::Fixed(ns)), "{text}");
        }
        assert_eq!("trace".parse(), Ok(Lifetimes::OfTrace));
        for text in ["", "0", "0s", "10", "-1s", "for ever"] {
            assert!(text.parse::<Lifetimes>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_ends_is_counted_apart() {
        let mut tally = LifetimeTally::default();
        assert_eq!(tally.summary(), None);
        let record = |lifetime_ns| Record { lifetime_ns, ..Record::default() };
        tally.see(&[record(0), record(FOR_EVER)], true);
        let endless =
            LifetimeSummary { records: 1, median_ns: None, longest_ns: None, has_times: true };
        assert_eq!(tally.summary(), Some(endless));
        tally.see(&[5, 60, 7_777_777].map(record), true);
        let some = LifetimeSummary {
            records: 4,
            median_ns: Some(60),
            longest_ns: Some(7_777_777),
            ..endless
        };
        assert_eq!(tally.summary(), Some(some));
    }
}
