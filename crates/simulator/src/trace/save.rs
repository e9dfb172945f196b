//! Writes a trace to a file, compressed as the file's name says, and whole or
//! not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::shown;
use super::{Format, Trace, TraceError, write};

/// Writes a trace to the file `path`.
///
/// A name that ends in `.zst`, `.gz` or `.xz` is compressed. The content goes to
/// a file beside it first, named with `.partial` at the end, and is renamed when
/// it is complete, so that nobody takes half a trace for a whole one.
///
/// ```
/// use frazil_simulator::trace::{Format, ReadOptions, load, read, save};
///
/// let options = ReadOptions::default();
/// let loaded = load("loop:objects=2:requests=5", &options)?;
/// let path = std::env::temp_dir().join(format!("frazil-save-{}.zst", std::process::id()));
/// save(&loaded.trace, Format::Plain, &path)?;
/// assert_eq!(read(&path, &options)?.trace.ids, loaded.trace.ids);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`write()`], and when the file can't be created, written or renamed.
pub fn save(trace: &Trace, format: Format, path: &Path) -> Result<(), TraceError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let saved = save_as(trace, format, path, &partial)
        .and_then(|()| std::fs::rename(&partial, path).map_err(output_error))
        .map_err(|error| match error {
            TraceError::Output { error } => TraceError::Io { file: shown(path), error },
            other => other,
        });
    if saved.is_err() {
        // What failed is told; that the remains can't be removed adds nothing.
        let _ = std::fs::remove_file(&partial);
    }
    saved
}

fn output_error(error: io::Error) -> TraceError {
    TraceError::Output { error }
}

fn save_as(trace: &Trace, format: Format, path: &Path, partial: &Path) -> Result<(), TraceError> {
    let file = File::create(partial).map_err(output_error)?;
    let mut file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            // Level 3 is the library's own default.
            let mut encoder = zstd::Encoder::new(file, 3).map_err(output_error)?;
            write(trace, format, &mut encoder)?;
            encoder.finish()
        }
        Some("gz") => {
            let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            write(trace, format, &mut encoder)?;
            encoder.finish()
        }
        Some("xz") => {
            let options = lzma_rust2::XzOptions::with_preset(6);
            let mut encoder = lzma_rust2::XzWriter::new(file, options).map_err(output_error)?;
            write(trace, format, &mut encoder)?;
            encoder.finish()
        }
        _ => {
            let mut file = file;
            write(trace, format, &mut file)?;
            Ok(file)
        }
    }
    .map_err(output_error)?;
    file.flush().map_err(output_error)
}
