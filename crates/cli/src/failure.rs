//! Failures: a line on standard error, and an exit code for scripts.

use std::io::Write;

use frazil_simulator::trace::{TraceError, printable};

/// Why a verb did not succeed.
pub(crate) enum Failure {
    /// The command line asks for something that makes no sense: exit code 2.
    Usage(anyhow::Error),
    /// It made sense and went wrong: exit code 1.
    Failed(anyhow::Error),
    /// The reader of our output has left, as `head` does: exit code 0, no word.
    ReaderLeft,
}

impl Failure {
    /// Bad usage.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Failure::Usage(error.into())
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
            Failure::ReaderLeft => 0,
        }
    }
}

/// Tells people something beside the results.
pub(crate) fn note(text: &str) {
    say(&format!("note: {text}"));
}

/// One line on standard error, with nothing in it that a terminal would obey.
fn say(line: &str) {
    // If even this cannot be written, there is no way to report it.
    let _ = writeln!(std::io::stderr(), "{}", printable(line));
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Failure::Failed(error)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Generator { .. }
            | TraceError::Layout { .. }
            | TraceError::Unwritable { .. } => Failure::Usage(error.into()),
            TraceError::Line { .. } => {
                Failure::Failed(anyhow::anyhow!("{error} (--skip-bad-rows skips such lines)"))
            }
            _ => Failure::Failed(error.into()),
        }
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

/// Folds the parser's message into one line: its first paragraph and its tips.
pub(crate) fn from_clap(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let tips = paragraphs.filter(|paragraph| paragraph.trim_start().starts_with("tip:"));
    let line: Vec<&str> =
        std::iter::once(first).chain(tips).flat_map(str::split_whitespace).collect();
    Failure::Usage(anyhow::anyhow!("{} (see --help)", line.join(" ")))
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
