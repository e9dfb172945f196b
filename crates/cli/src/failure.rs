//! Failures: a line on standard error, and an exit code for scripts.

use std::io::Write;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use frazil_simulator::trace::{TraceError, printable};

use crate::Watch;

/// Why a verb did not succeed.
pub(crate) enum Failure {
    /// The command line is invalid: exit code 2.
    Usage(anyhow::Error),
    /// A trace could not be read or written: exit code 2 if that is due to the command line, else 1.
    Trace(TraceError),
    /// Something else went wrong: exit code 1.
    Failed(anyhow::Error),
    /// There is no such user to run as: exit code 67, `EX_NOUSER`, as memcached's.
    #[cfg(feature = "full")]
    NoUser(anyhow::Error),
    /// The program around the command stopped it.
    Stopped,
    /// The reader of our output has closed it, as `head` does: exit code 0, no message.
    ReaderLeft,
}

impl Failure {
    /// Bad usage.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure::Usage(error.into())
    }

    /// The error, if other work can continue.
    #[cfg(feature = "full")]
    pub(crate) fn error(self) -> Result<anyhow::Error, Failure> {
        match self {
            Failure::Usage(error) | Failure::Failed(error) | Failure::NoUser(error) => Ok(error),
            Failure::Trace(error) => Ok(error.into()),
            Failure::Stopped | Failure::ReaderLeft => Err(self),
        }
    }

    /// Whether an error of a trace is due to the command line.
    pub(crate) fn is_usage(error: &TraceError) -> bool {
        use TraceError::{Generator, Layout, Unwritable};
        matches!(error, Generator { .. } | Layout { .. } | Unwritable { .. })
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self) -> i32 {
        match self {
            Failure::Usage(error) => {
                say(&format!("error: {error:#}"));
                2
            }
            Failure::Failed(error) => {
                say(&format!("error: {error:#}"));
                1
            }
            #[cfg(feature = "full")]
            Failure::NoUser(error) => {
                say(&format!("error: {error:#}"));
                67
            }
            Failure::Trace(error) => {
                let line = matches!(error, TraceError::Line { .. });
                let hint = if line { " (--skip-bad-rows skips such lines)" } else { "" };
                say(&format!("error: {error}{hint}"));
                if Failure::is_usage(error) { 2 } else { 1 }
            }
            Failure::Stopped => 1,
            Failure::ReaderLeft => 0,
        }
    }
}

/// Prints a note for people beside the results.
pub(crate) fn note(text: &str) {
    match Watch::current() {
        Some(watch) => watch.note(printable(text)),
        None => say(&format!("note: {text}")),
    }
}

/// One line on standard error, without control characters for a terminal.
fn say(line: &str) {
    // If this cannot be written, it cannot be reported.
    let _ = writeln!(std::io::stderr(), "{}", printable(line));
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Failed(error)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Failure::Trace(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Failure::ReaderLeft
        } else {
            Failure::Failed(anyhow::Error::new(error).context("cannot write the output"))
        }
    }
}

/// Folds the parser's message into one line: its first paragraph, a verb of a verb that was meant,
/// and its tips.
pub(crate) fn from_clap(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let tips = paragraphs.filter(|paragraph| paragraph.trim_start().starts_with("tip:"));
    let line: Vec<&str> =
        std::iter::once(first).chain(tips).flat_map(str::split_whitespace).collect();
    Failure::Usage(anyhow::anyhow!("{}{} (see --help)", line.join(" "), meant(error)))
}

/// The verbs of verbs that have the name of an unknown verb, as a question.
fn meant(error: &clap::Error) -> String {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return String::new();
    };
    let command = crate::Cli::command();
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let found: Vec<_> = verbs
        .filter(|verb| verb.get_subcommands().any(|inner| inner.get_name() == word))
        .map(|verb| format!("`frazil {} {word}`", verb.get_name()))
        .collect();
    if found.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", found.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_parser_error_is_one_line() {
        for words in [&["frazil", "simulate"][..], &["frazil", "simulate", "--polcy", "lru"]] {
            let Err(error) = crate::Cli::try_parse_from(words) else {
                panic!("{words:?} should not parse");
            };
            let Failure::Usage(error) = from_clap(&error) else {
                panic!("a parser error is bad usage");
            };
            let line = format!("{error:#}");
            assert!(!line.contains('\n') && line.contains("--"), "{line}");
        }
    }
}
