//! The verbs whose results are rows, for a program that has the command inside it, as the Python
//! package does.
//!
//! The arguments are those of the command line, so options, their defaults and their checks exist
//! once.

use std::ffi::OsString;
use std::sync::Arc;

use clap::Parser;
use frazil_simulator::trace::{Loaded, Records, TraceError};
use serde_json::{Map, Value};

use crate::failure::{Failure, from_clap};
use crate::{Cli, Verb, Watch, advise, mrc, simulate, trace_command};

/// Why a verb has no rows.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The arguments are invalid.
    #[error("{0}")]
    Usage(String),
    /// A trace could not be read.
    #[error(transparent)]
    Trace(TraceError),
    /// Something else went wrong.
    #[error("{0}")]
    Failed(String),
    /// The watch stopped it.
    #[error("stopped")]
    Stopped,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Usage(error) => Problem::Usage(format!("{error:#}")),
            Failure::Trace(TraceError::Stopped { .. }) | Failure::Stopped => Problem::Stopped,
            Failure::Trace(error) if Failure::is_usage(&error) => Problem::Usage(error.to_string()),
            Failure::Trace(error) => Problem::Trace(error),
            Failure::Failed(error) => Problem::Failed(format!("{error:#}")),
            #[cfg(feature = "full")]
            Failure::NoUser(error) => Problem::Failed(format!("{error:#}")),
            Failure::ReaderLeft => Problem::Failed("the reader of the output has left".to_owned()),
        }
    }
}

/// A trace in memory, used instead of a file of its name.
#[derive(Clone, Debug)]
pub enum InMemory {
    /// Its records, which are read like those of a file.
    Records(Arc<Records>),
    /// The result of [`decode`] for words with the same options.
    Decoded(Arc<Loaded>),
}

/// The rows that `frazil WORDS --output json` prints: of `simulate`, `mrc`, `advise`, and
/// `trace info`. A trace whose name is in `memory` is taken from there.
///
/// Returns soon after `watch` was stopped: within milliseconds while records are read or replayed.
///
/// ```
/// let words = ["simulate", "zipf:1.0:objects=1K:requests=9K", "--policy=lru", "--capacity=10"];
/// let words = words.map(Into::into);
/// let rows = frazil_cli::rows(&words, &[], &Default::default())?;
/// assert_eq!(rows[0]["requests"], 9_000);
/// # Ok::<(), frazil_cli::Problem>(())
/// ```
///
/// # Errors
/// If the command would fail, or is stopped.
pub fn rows(
    words: &[OsString],
    memory: &[(String, InMemory)],
    watch: &Arc<Watch>,
) -> Result<Vec<Map<String, Value>>, Problem> {
    let verb = parse(words)?;
    let rows = watch.over(|| match verb {
        Verb::Simulate(mut args) => {
            args.reading.keep(memory);
            simulate::rows(&args)
        }
        Verb::Mrc(mut args) => {
            args.reading.keep(memory);
            mrc::rows(&args)
        }
        Verb::Advise(mut args) => {
            args.reading.keep(memory);
            args.words = Some(words.to_vec());
            advise::rows(&args)
        }
        Verb::Trace(mut args) => trace_command::rows(&mut args, memory),
        _ => Err(Failure::usage(anyhow::anyhow!("the verb has no rows"))),
    });
    Ok(rows?)
}

/// The trace named by arguments of `simulate`, with all data that their policies and options need:
/// one decoding for many calls of [`rows`], each with one of the policies and one of the
/// capacities.
///
/// ```
/// use frazil_cli::{InMemory, decode, rows};
/// let words = ["simulate", "zipf:1.0:objects=1K:requests=9K", "--policy=lru", "--capacity=10"];
/// let words = words.map(Into::into);
/// let trace = decode(&words, &[], &Default::default())?;
/// let memory = [("zipf:1.0:objects=1K:requests=9K".to_owned(), InMemory::Decoded(trace))];
/// let decoded = rows(&words, &memory, &Default::default())?;
/// assert_eq!(decoded[0]["misses"], rows(&words, &[], &Default::default())?[0]["misses"]);
/// # Ok::<(), frazil_cli::Problem>(())
/// ```
///
/// # Errors
/// As [`rows`]; and if the arguments name several traces or none.
pub fn decode(
    words: &[OsString],
    memory: &[(String, InMemory)],
    watch: &Arc<Watch>,
) -> Result<Arc<Loaded>, Problem> {
    let loaded = watch.over(|| match parse(words)? {
        Verb::Simulate(mut args) => {
            args.reading.keep(memory);
            Ok(simulate::decode(&args)?)
        }
        _ => Err(Problem::Usage("only `simulate` replays a decoded trace".to_owned())),
    })?;
    Ok(loaded)
}

fn parse(words: &[OsString]) -> Result<Verb, Problem> {
    let named = std::iter::once("frazil".into()).chain(words.iter().cloned());
    let cli = Cli::try_parse_from(named).map_err(|error| Problem::from(from_clap(&error)))?;
    Ok(cli.verb)
}
