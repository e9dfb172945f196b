//! Durations of fetches as users write them: `100`, `exp:10ms`, `lognormal:50ms,0.5`.

use crate::duration::{DurationError, parse_us};
use crate::fetch::{Backends, FetchLatency, MOST_BACKENDS, ReplayClock};

/// Why a text is not a duration of fetches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchLatencyError {
    /// None of the known kinds.
    #[error("expected fixed:D, exp:D, lognormal:D,S, keyed:D,D,… or column")]
    UnknownKind,
    /// A log-normal duration lacks one of its parts.
    #[error("lognormal takes a mean and a deviation: D,S")]
    NoDeviation,
    /// The deviation of a log-normal duration is not a number from 0 to 5.
    #[error("S is a number from 0 to 5, such as 0.5")]
    BadDeviation,
    /// More than [`MOST_BACKENDS`].
    #[error("at most {MOST_BACKENDS} backends")]
    TooManyBackends,
    /// With the clock of requests the duration is not a number of requests.
    #[error("with --clock request D is a number of requests from 1 to 10^12")]
    BadTicks,
    /// With the trace's clock the duration cannot be parsed.
    #[error(transparent)]
    BadDuration(#[from] DurationError),
    /// With the trace's clock the duration is zero.
    #[error("a fetch takes at least 1ns")]
    NoTime,
}

impl FetchLatency {
    /// Reads the duration of fetches: `D` or `fixed:D`, `exp:D`, `lognormal:D,S`, `keyed:D,D,…` or
    /// `column`, where `D` is a number of requests, or with [`ReplayClock::Trace`] a duration as
    /// [`parse_us`] reads it.
    ///
    /// # Errors
    ///
    /// If a part cannot be read, or is out of range.
    ///
    /// ```
    /// use frazil_simulator::{FetchLatency, ReplayClock};
    /// let latency = FetchLatency::parse("exp:10ms", ReplayClock::Trace)?;
    /// assert_eq!(latency, FetchLatency::Exponential(10e6));
    /// assert!(FetchLatency::parse("10ms", ReplayClock::Request).is_err());
    /// # Ok::<(), frazil_simulator::FetchLatencyError>(())
    /// ```
    pub fn parse(text: &str, clock: ReplayClock) -> Result<Self, FetchLatencyError> {
        if text == "column" {
            return Ok(FetchLatency::Column);
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("fixed", text));
        let ticks = |text: &str| ticks(text, clock);
        match kind {
            "fixed" => Ok(FetchLatency::Fixed(ticks(rest)?)),
            "exp" => Ok(FetchLatency::Exponential(ticks(rest)? as f64)),
            "lognormal" => {
                let (mean, sigma) = rest.split_once(',').ok_or(FetchLatencyError::NoDeviation)?;
                let sigma = sigma.parse().ok().filter(|sigma| (0.0..=5.0).contains(sigma));
                let sigma = sigma.ok_or(FetchLatencyError::BadDeviation)?;
                Ok(FetchLatency::LogNormal { mean: ticks(mean)? as f64, sigma })
            }
            "keyed" => {
                let ticks: Vec<u64> = rest.split(',').map(ticks).collect::<Result<_, _>>()?;
                let backends = Backends::new(&ticks).map(FetchLatency::Keyed);
                backends.ok_or(FetchLatencyError::TooManyBackends)
            }
            _ => Err(FetchLatencyError::UnknownKind),
        }
    }
}

/// A length of time, in ticks of the clock.
fn ticks(text: &str, clock: ReplayClock) -> Result<u64, FetchLatencyError> {
    match clock {
        ReplayClock::Request => match text.parse() {
            Ok(ticks @ 1..=1_000_000_000_000) => Ok(ticks),
            _ => Err(FetchLatencyError::BadTicks),
        },
        ReplayClock::Trace => match (parse_us(text)? * 1e3).round() as u64 {
            0 => Err(FetchLatencyError::NoTime),
            ns => Ok(ns),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_by_the_clock() {
        let keyed = |ticks: &[u64]| FetchLatency::Keyed(Backends::new(ticks).expect("a few"));
        for (text, clock, expected) in [
            ("100", ReplayClock::Request, FetchLatency::Fixed(100)),
            ("fixed:7", ReplayClock::Request, FetchLatency::Fixed(7)),
            ("10ms", ReplayClock::Trace, FetchLatency::Fixed(10_000_000)),
            ("exp:1s", ReplayClock::Trace, FetchLatency::Exponential(1e9)),
            (
                "lognormal:50,0.5",
                ReplayClock::Request,
                FetchLatency::LogNormal { mean: 50.0, sigma: 0.5 },
            ),
            ("column", ReplayClock::Trace, FetchLatency::Column),
            ("keyed:1,200", ReplayClock::Request, keyed(&[1, 200])),
            ("keyed:68ms,103ms", ReplayClock::Trace, keyed(&[68_000_000, 103_000_000])),
        ] {
            assert_eq!(FetchLatency::parse(text, clock), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, clock) in [
            ("", ReplayClock::Request),
            ("0", ReplayClock::Request),
            ("10ms", ReplayClock::Request),
            ("1.5", ReplayClock::Request),
            ("100", ReplayClock::Trace),
            ("0s", ReplayClock::Trace),
            ("exp:", ReplayClock::Request),
            ("lognormal:50", ReplayClock::Request),
            ("lognormal:50,-1", ReplayClock::Request),
            ("lognormal:50,NaN", ReplayClock::Request),
            ("keyed:", ReplayClock::Request),
            ("keyed:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", ReplayClock::Request),
            ("normal:5", ReplayClock::Request),
            ("column:5", ReplayClock::Request),
        ] {
            assert!(FetchLatency::parse(text, clock).is_err(), "{text}");
        }
    }
}
