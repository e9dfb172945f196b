//! The flags that switch delayed hits on: how long fetches take, and by which clock.

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use frazil_simulator::trace::{LatencyUnit, Trace};
use frazil_simulator::{Backends, FetchLatency, Fetching, MOST_BACKENDS, ReplayClock};

use crate::duration::parse_us;
use crate::failure::{Failure, note};
use crate::output::grouped;

/// Whether fetches take time.
#[derive(Args, Debug)]
#[command(next_help_heading = "Delayed hits")]
pub(crate) struct FetchArgs {
    /// How long fetches take; requests that come meanwhile wait, as delayed hits: fixed:D
    /// or D alone; exp:D, exponential with mean D; lognormal:D,S with mean D, and deviation
    /// S of the logarithm; keyed:D,D,…, a backend for each object by its hash; column, what the
    /// trace's column of latencies says at the record that misses. D, or the column, is a
    /// number of requests (100), or with --clock trace a time (10ms).
    #[arg(long, value_name = "fixed:D|exp:D|lognormal:D,S|keyed:D,…|column")]
    fetch_latency: Option<String>,

    /// What time is: a tick for each get and each set, or the times in the trace. Requests
    /// that share a time are spread evenly up to the next.
    #[arg(long, value_enum, default_value_t, requires = "fetch_latency")]
    clock: Clock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// A tick for each get and each set.
    #[default]
    Request,
    /// The times in the trace.
    Trace,
}

impl FetchArgs {
    /// Whether fetches take time. Bad usage where it cannot be read how much.
    pub(crate) fn latency(&self) -> Result<Option<FetchLatency>, Failure> {
        let Some(text) = &self.fetch_latency else { return Ok(None) };
        let latency = parse(text, self.clock)
            .map_err(|problem| Failure::usage(anyhow!("--fetch-latency {text}: {problem}")))?;
        Ok(Some(latency))
    }

    /// Whether the trace's times are needed.
    pub(crate) fn wants_times(&self) -> bool {
        self.fetch_latency.is_some() && self.clock == Clock::Trace
    }

    /// What the trace's column of latencies counts, if that is needed.
    pub(crate) fn wants_latencies(&self) -> Result<Option<LatencyUnit>, Failure> {
        Ok((self.latency()? == Some(FetchLatency::Column)).then_some(match self.clock {
            Clock::Request => LatencyUnit::Requests,
            Clock::Trace => LatencyUnit::Time,
        }))
    }

    /// The clock by which fetches take time.
    pub(crate) fn clock(&self) -> ReplayClock {
        match self.clock {
            Clock::Request => ReplayClock::Request,
            Clock::Trace => ReplayClock::Trace,
        }
    }

    /// Fetches over this trace; `name` is for messages.
    pub(crate) fn over(
        &self,
        latency: FetchLatency,
        trace: &Trace,
        name: &str,
    ) -> Result<Fetching, Failure> {
        let fetching = Fetching::new(trace, latency, self.clock())
            .map_err(|error| Failure::usage(anyhow!("{name}: {error}")))?;
        if fetching.spread() > 0 {
            note(&format!(
                "{name}: {} of {} records share their time with the one before; they are \
                 spread evenly up to the next time",
                grouped(fetching.spread()),
                grouped(trace.len() as u64)
            ));
        }
        Ok(fetching)
    }
}

/// Reads the length of fetches.
fn parse(text: &str, clock: Clock) -> Result<FetchLatency, String> {
    if text == "column" {
        return Ok(FetchLatency::Column);
    }
    let (kind, rest) = text.split_once(':').unwrap_or(("fixed", text));
    let ticks = |text: &str| ticks(text, clock);
    match kind {
        "fixed" => Ok(FetchLatency::Fixed(ticks(rest)?)),
        "exp" => Ok(FetchLatency::Exponential(ticks(rest)? as f64)),
        "lognormal" => {
            let (mean, sigma) =
                rest.split_once(',').ok_or("lognormal takes a mean and a deviation: D,S")?;
            let sigma: f64 = sigma.parse().map_err(|_| "S is a number, such as 0.5")?;
            if !(0.0..=5.0).contains(&sigma) {
                return Err("S is from 0 to 5".to_owned());
            }
            Ok(FetchLatency::LogNormal { mean: ticks(mean)? as f64, sigma })
        }
        "keyed" => {
            let ticks: Vec<u64> = rest.split(',').map(ticks).collect::<Result<_, _>>()?;
            let backends = Backends::new(&ticks).map(FetchLatency::Keyed);
            backends.ok_or_else(|| format!("at most {MOST_BACKENDS} backends"))
        }
        _ => Err("expected fixed:D, exp:D, lognormal:D,S, keyed:D,D,… or column".to_owned()),
    }
}

/// A length of time, in ticks of the clock.
fn ticks(text: &str, clock: Clock) -> Result<u64, String> {
    match clock {
        Clock::Request => match text.parse() {
            Ok(ticks @ 1..=1_000_000_000_000) => Ok(ticks),
            _ => Err("with --clock request D is a number of requests from 1 to 10^12".to_owned()),
        },
        Clock::Trace => match (parse_us(text)? * 1e3).round() as u64 {
            0 => Err("a fetch takes at least 1ns".to_owned()),
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
            ("100", Clock::Request, FetchLatency::Fixed(100)),
            ("fixed:7", Clock::Request, FetchLatency::Fixed(7)),
            ("10ms", Clock::Trace, FetchLatency::Fixed(10_000_000)),
            ("exp:1s", Clock::Trace, FetchLatency::Exponential(1e9)),
            (
                "lognormal:50,0.5",
                Clock::Request,
                FetchLatency::LogNormal { mean: 50.0, sigma: 0.5 },
            ),
            ("column", Clock::Trace, FetchLatency::Column),
            ("keyed:1,200", Clock::Request, keyed(&[1, 200])),
            ("keyed:68ms,103ms", Clock::Trace, keyed(&[68_000_000, 103_000_000])),
        ] {
            assert_eq!(parse(text, clock), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, clock) in [
            ("", Clock::Request),
            ("0", Clock::Request),
            ("10ms", Clock::Request),
            ("1.5", Clock::Request),
            ("100", Clock::Trace),
            ("0s", Clock::Trace),
            ("exp:", Clock::Request),
            ("lognormal:50", Clock::Request),
            ("lognormal:50,-1", Clock::Request),
            ("lognormal:50,NaN", Clock::Request),
            ("keyed:", Clock::Request),
            ("keyed:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", Clock::Request),
            ("normal:5", Clock::Request),
            ("column:5", Clock::Request),
        ] {
            assert!(parse(text, clock).is_err(), "{text}");
        }
    }
}
