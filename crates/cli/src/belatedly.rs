//! `belatedly` in tables of policies. It is no policy, but a bound and a schedule for one trace.

use anyhow::anyhow;
use frazil_policy::{PolicySpec, SpecError};
use frazil_simulator::trace::Trace;
use frazil_simulator::{Fetching, Outcome, SweepOptions};

use crate::failure::Failure;
#[cfg(feature = "full")]
use crate::progress::Progress;

/// The values of `--policy`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    /// A policy.
    Policy(PolicySpec),
    /// Paper 5's bounds of the best schedule.
    Belatedly,
}

impl Choice {
    /// Reads names. Names of the same bounds count once, under the first name. Bad usage if one is
    /// unknown.
    pub(crate) fn parse(names: &[String]) -> Result<(Vec<&str>, Vec<Choice>), Failure> {
        let parse = |name: &String| match name.split_once(':').unwrap_or((name, "")) {
            ("belatedly", "") => Ok(Choice::Belatedly),
            ("belatedly", _) => Err(Failure::usage(anyhow!("belatedly takes no parameters"))),
            _ => name.parse().map(Choice::Policy).map_err(|error| match error {
                SpecError::UnknownPolicy(..) => Failure::usage(anyhow!("{error}, belatedly")),
                other => Failure::usage(other),
            }),
        };
        let (mut told, mut choices) = (Vec::new(), Vec::new());
        for name in names {
            let choice = parse(name)?;
            if !choices.contains(&choice) {
                told.push(name.as_str());
                choices.push(choice);
            }
        }
        Ok((told, choices))
    }

    /// The policy, if it is one.
    pub(crate) fn policy(self) -> Option<PolicySpec> {
        match self {
            Choice::Policy(policy) => Some(policy),
            Choice::Belatedly => None,
        }
    }
}

/// Latency of the schedule found, and the lower bound for every schedule.
#[cfg(not(feature = "full"))]
pub(crate) fn bounds(
    _trace: &Trace,
    name: &str,
    _capacity: u64,
    _fetching: Option<&Fetching>,
    _options: &SweepOptions,
) -> Result<(Outcome, u64), Failure> {
    Err(Failure::usage(anyhow!(
        "{name}: this build does not include the solver of belatedly; `cargo build --release \
         --features full` does"
    )))
}

/// Both bounds of one cell: the latency of the schedule found, and the lower bound for every
/// schedule. `name` is the trace's, for messages.
#[cfg(feature = "full")]
pub(crate) fn bounds(
    trace: &Trace,
    name: &str,
    capacity: u64,
    fetching: Option<&Fetching>,
    options: &SweepOptions,
) -> Result<(Outcome, u64), Failure> {
    let usage = |problem: String| Failure::usage(anyhow!("{name}: {problem}"));
    let fetching =
        fetching.ok_or_else(|| usage("belatedly needs --fetch-latency, such as 100".to_owned()))?;
    let progress = Progress::of_steps(format!("belatedly at {capacity}"), 4);
    frazil_offline::belatedly(trace, capacity, fetching, options, &|| progress.advance(1))
        .map(|found| (found.outcome, found.latency_total_least))
        .map_err(|error| usage(error.to_string()))
}
