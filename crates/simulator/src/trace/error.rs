//! Errors of traces, each in one line that names the file, the place and the expected content.
//!
//! Decoders report a [`RecordError`], which knows the place but not the file;
//! the driver adds the file. Foreign bytes are shown escaped and cut, so that a
//! hostile file can't flood or garble a terminal.

use std::io;

use super::{Compression, Format};

/// Why a trace could not be read, generated or written.
///
/// ```
/// use frazil_simulator::trace::{ReadOptions, load};
///
/// let error = load("no/such/file.csv", &ReadOptions::default()).unwrap_err();
/// assert!(error.to_string().starts_with("no/such/file.csv: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The path names a directory.
    #[error("{file}: is a directory, expected a trace file")]
    Directory {
        /// The path.
        file: String,
    },
    /// This build was made without the compression.
    #[error(
        "{file}: this build is without {compression}: build with `--features full`, or decompress \
         the file first"
    )]
    NotBuilt {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
    },
    /// Compressed content is damaged or ends too early.
    #[error(
        "{file}: {compression} content damaged or cut short after {offset} decompressed bytes: {error}"
    )]
    Compressed {
        /// The file.
        file: String,
        /// How it is compressed.
        compression: Compression,
        /// Bytes that could be decompressed.
        offset: u64,
        /// The decompressor's error.
        error: io::Error,
    },
    /// A line of a text format is not a record.
    #[error("{file}: line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Line number from 1.
        line: u64,
        /// The expected and the actual content.
        problem: String,
    },
    /// The bytes of a binary format are not a record.
    #[error("{file}: byte {offset}: {problem}")]
    Byte {
        /// The file.
        file: String,
        /// Offset into the decompressed content.
        offset: u64,
        /// The expected and the actual content.
        problem: String,
    },
    /// The file holds no record at all.
    #[error("{file}: holds no records, expected at least one")]
    Empty {
        /// The file.
        file: String,
    },
    /// No line could be read, and all were skipped.
    #[error("{file}: holds no records; {skipped_rows} lines were skipped, the first at {first}")]
    AllSkipped {
        /// The file.
        file: String,
        /// Number of skipped lines.
        skipped_rows: u64,
        /// The place of the first, and its error.
        first: String,
    },
    /// No format fits the content.
    #[error("{file}: {seen}; name the format, one of: {}", Format::names())]
    Unrecognised {
        /// The file.
        file: String,
        /// A description of the content.
        seen: String,
    },
    /// The trace is too large.
    #[error("{file}: {problem}")]
    TooLarge {
        /// The file, or the generator's specification.
        file: String,
        /// The bound that was exceeded.
        problem: String,
    },
    /// A record of a stream has no size, which only the whole trace gives.
    #[error("{file}: some records have no size; the sizes need the whole trace, from a file")]
    SizeUnknown {
        /// The file.
        file: String,
    },
    /// The layout given for a CSV file is invalid.
    #[error("CSV layout: {problem}")]
    Layout {
        /// Its error.
        problem: String,
    },
    /// The progress function stopped the reading.
    #[error("{file}: stopped")]
    Stopped {
        /// The file, or the generator's specification.
        file: String,
    },
    /// A generator's specification is wrong.
    #[error("{spec}: {problem}")]
    Generator {
        /// The specification as given.
        spec: String,
        /// Its error.
        problem: String,
    },
    /// A format can't hold the trace's data.
    #[error("{format} cannot hold this trace: {problem}")]
    Unwritable {
        /// The format to write.
        format: Format,
        /// The data that it can't hold.
        problem: String,
    },
    /// The output could not be written.
    #[error("cannot write the trace: {error}")]
    Output {
        /// The error of the system.
        error: io::Error,
    },
}

/// Where a decoder stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Line(u64),
    Byte(u64),
}

/// A record that could not be decoded; the driver adds the file's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordError {
    pub(super) position: Position,
    pub(super) problem: String,
}

impl RecordError {
    pub(super) fn in_file(self, file: &str) -> TraceError {
        let (file, problem) = (file.to_owned(), self.problem);
        match self.position {
            Position::Line(line) => TraceError::Line { file, line, problem },
            Position::Byte(offset) => TraceError::Byte { file, offset, problem },
        }
    }
}

/// Longest excerpt of foreign content in a message, in bytes as shown.
const EXCERPT: usize = 60;

/// Foreign bytes for a message: escaped, on one line, and cut.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let mut text = String::new();
    // Each byte is shown as at least one character, so bytes after these are beyond the excerpt.
    for chunk in bytes[..bytes.len().min(2 * EXCERPT)].utf8_chunks() {
        let characters = chunk.valid().chars().map(|c| match c {
            c if c.is_control() || c == '"' || c == '\\' => c.escape_default().to_string(),
            c => c.to_string(),
        });
        let foreign = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        for piece in characters.chain(foreign) {
            if text.len() + piece.len() > EXCERPT {
                return format!("\"{text}…\"");
            }
            text.push_str(&piece);
        }
    }
    format!("\"{text}\"")
}

/// The usual message: the expected and the actual content.
#[cold]
pub(super) fn expected(what: &str, found: &[u8]) -> String {
    format!("expected {what}, found {}", excerpt(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt(b"abc"), "\"abc\"");
        assert_eq!(excerpt(b"a\tb\x1b[31m\xff"), "\"a\\tb\\u{1b}[31m\\xff\"");
        assert_eq!(excerpt(b"say \"x\\\""), r#""say \"x\\\"""#);
        let long = excerpt(&[b'x'; 1000]);
        assert!(long.ends_with("x…\"") && long.len() == 60 + "\"…\"".len(), "{long}");
        let controls = excerpt(&[0x7f; 40]);
        assert_eq!(controls, format!("\"{}…\"", "\\u{7f}".repeat(10)));
        let umlauts = excerpt("ä".repeat(100).as_bytes());
        assert!(!umlauts.contains("\\x"), "{umlauts}");
    }
}
