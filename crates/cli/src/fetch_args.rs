//! The flags for delayed hits: the latency of fetches, and its clock.

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use frazil_simulator::trace::{LatencyUnit, Trace};
use frazil_simulator::{FetchLatency, Fetching, ReplayClock};

use crate::failure::{Failure, note};
use crate::output::grouped;

/// Whether fetches take time.
#[derive(Args, Debug)]
#[command(next_help_heading = "Delayed hits")]
pub(crate) struct FetchArgs {
    /// How long fetches take. D or fixed:D: always D. exp:D: exponential with mean D.
    /// lognormal:D,S: mean D, and standard deviation S of the logarithm. keyed:D,D,…: one backend
    /// for each object, chosen by its hash. column: the trace's latency column, at the record that
    /// misses. D and the column are in requests (100), or with --clock trace in time (10ms).
    #[arg(long, value_name = "fixed:D|exp:D|lognormal:D,S|keyed:D,…|column")]
    fetch_latency: Option<String>,

    /// What time is. Requests with equal times are spread evenly up to the next time.
    #[arg(long, value_enum, default_value_t, requires = "fetch_latency")]
    clock: Clock,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Clock {
    /// One tick for each get and each set.
    #[default]
    Request,
    /// The times in the trace.
    Trace,
}

impl FetchArgs {
    /// The latency of fetches, if they take time. Bad usage if it cannot be parsed.
    pub(crate) fn latency(&self) -> Result<Option<FetchLatency>, Failure> {
        let Some(text) = &self.fetch_latency else { return Ok(None) };
        let latency = FetchLatency::parse(text, self.clock())
            .map_err(|problem| Failure::usage(anyhow!("--fetch-latency {text}: {problem}")))?;
        Ok(Some(latency))
    }

    /// Whether the trace's times are needed.
    pub(crate) fn wants_times(&self) -> bool {
        self.fetch_latency.is_some() && self.clock == Clock::Trace
    }

    /// The unit of the trace's column of latencies, if it is needed.
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
