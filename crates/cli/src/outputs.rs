//! Files that verbs write: never over a file that they read, and only when they are complete.

use std::path::Path;

use anyhow::anyhow;
use frazil_simulator::trace::{path_of, printable, save_whole, spec_of};

use crate::failure::Failure;

/// Refuses an output that is one of the inputs, by whatever name or link.
pub(crate) fn refuse_inputs<'a>(
    out: &Path,
    inputs: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    for input in inputs {
        if is_same_file(out, &path_of(input)) {
            return Err(Failure::usage(anyhow!(
                "{}: is also read, as {}; write to another file",
                printable(&spec_of(out.as_os_str())),
                printable(input)
            )));
        }
    }
    Ok(())
}

/// Writes a file whole or not at all.
pub(crate) fn write(out: &Path, content: &str) -> Result<(), Failure> {
    Ok(save_whole(out, content.as_bytes())?)
}

/// Whether two names are of one regular file, which a device and a number identify.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        _ => false,
    }
}

/// Whether two names are of one file.
#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::canonicalize(one), std::fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
