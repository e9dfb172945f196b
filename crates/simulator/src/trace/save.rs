//! Writes a trace to a file, whole or not at all. The file's name gives the compression.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::name::shown;
use super::write::check;
use super::{Format, Recording, Trace, TraceError, write};

/// Writes a trace to the file `path`.
///
/// A name that ends in `.zst`, `.gz` or `.xz` is compressed. The content is first written to a new
/// file beside it, which is renamed when complete, so that no reader finds half a trace. A link is
/// followed; a pipe or a device is written to directly.
///
/// ```
/// use frazil_simulator::trace::{Format, ReadOptions, load, read, save};
///
/// let options = ReadOptions::default();
/// let loaded = load("loop:objects=2:requests=5", &options)?;
/// let path = std::env::temp_dir().join(format!("frazil-save-{}.zst", std::process::id()));
/// save(&loaded.trace, None, Format::Plain, &path)?;
/// assert_eq!(read(&path, &options)?.trace.ids, loaded.trace.ids);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`write()`], and when the file can't be created, written or renamed.
pub fn save(
    trace: &Trace,
    recording: Option<Recording>,
    format: Format,
    path: &Path,
) -> Result<(), TraceError> {
    check(trace, format).map_err(|problem| TraceError::Unwritable { format, problem })?;
    let content = Content { trace, recording, format };
    save_by(path, &|file| write_as(&content, path, file))
}

/// Writes `content` to the file `path`, whole or not at all, as [`save`] does, without compression.
///
/// ```
/// let path = std::env::temp_dir().join(format!("frazil-whole-{}.txt", std::process::id()));
/// frazil_simulator::trace::save_whole(&path, b"content")?;
/// assert_eq!(std::fs::read(&path)?, b"content");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// When the file can't be created, written or renamed.
pub fn save_whole(path: &Path, content: &[u8]) -> Result<(), TraceError> {
    save_by(path, &|mut file| file.write_all(content).map_err(output_error))
}

/// Fills an open file.
type Fill<'a> = &'a dyn Fn(File) -> Result<(), TraceError>;

fn save_by(path: &Path, fill: Fill<'_>) -> Result<(), TraceError> {
    let saved = match std::fs::canonicalize(path) {
        Ok(target) => replace(fill, path, &target),
        // There is nothing yet.
        Err(error) if error.kind() == ErrorKind::NotFound => create(fill, path, None),
        Err(error) => Err(output_error(error)),
    };
    saved.map_err(|error| match error {
        TraceError::Output { error } => TraceError::Io { file: shown(path), error },
        other => other,
    })
}

/// The content to write.
struct Content<'a> {
    trace: &'a Trace,
    recording: Option<Recording>,
    format: Format,
}

/// Writes to `target`, which exists; `path` is the user's name for it.
fn replace(fill: Fill<'_>, path: &Path, target: &Path) -> Result<(), TraceError> {
    let metadata = std::fs::metadata(target).map_err(output_error)?;
    if metadata.is_dir() {
        return Err(TraceError::Directory { file: shown(path) });
    }
    if !metadata.is_file() {
        let device = OpenOptions::new().write(true).open(target).map_err(output_error)?;
        return fill(device);
    }
    if metadata.permissions().readonly() {
        return Err(output_error(ErrorKind::PermissionDenied.into()));
    }
    create(fill, target, Some(metadata.permissions()))
}

/// Writes a new file beside `target` and gives it that name.
fn create(
    fill: Fill<'_>,
    target: &Path,
    permissions: Option<std::fs::Permissions>,
) -> Result<(), TraceError> {
    let (partial, file) = create_beside(target).map_err(output_error)?;
    let saved = fill(file).and_then(|()| {
        if let Some(permissions) = permissions {
            std::fs::set_permissions(&partial, permissions).map_err(output_error)?;
        }
        std::fs::rename(&partial, target).map_err(output_error)
    });
    if saved.is_err() {
        // The first failure is reported; a failure to remove the remains would add nothing.
        let _ = std::fs::remove_file(&partial);
    }
    saved
}

/// A new file in the folder of `target`.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?;
    loop {
        let number = COUNT.fetch_add(1, Relaxed);
        let mut partial = name.to_owned();
        partial.push(format!(".{}-{number}.partial", std::process::id()));
        let partial = target.with_file_name(partial);
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 1000 => {}
            opened => return opened.map(|file| (partial, file)),
        }
    }
}

fn output_error(error: io::Error) -> TraceError {
    TraceError::Output { error }
}

/// Writes to an open file, compressed according to the name `path`.
fn write_as(content: &Content<'_>, path: &Path, file: File) -> Result<(), TraceError> {
    let mut file = match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            // Level 3 is the library's own default.
            let mut encoder = zstd::Encoder::new(file, 3).map_err(output_error)?;
            write(content.trace, content.recording, content.format, &mut encoder)?;
            encoder.finish()
        }
        Some("gz") => {
            let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
            write(content.trace, content.recording, content.format, &mut encoder)?;
            encoder.finish()
        }
        #[cfg(not(feature = "xz"))]
        Some("xz") => {
            let (file, compression) = (path.display().to_string(), super::Compression::Xz);
            return Err(TraceError::NotBuilt { file, compression });
        }
        #[cfg(feature = "xz")]
        Some("xz") => {
            let options = lzma_rust2::XzOptions::with_preset(6);
            let mut encoder = lzma_rust2::XzWriter::new(file, options).map_err(output_error)?;
            write(content.trace, content.recording, content.format, &mut encoder)?;
            encoder.finish()
        }
        _ => {
            let mut file = file;
            write(content.trace, content.recording, content.format, &mut file)?;
            Ok(file)
        }
    }
    .map_err(output_error)?;
    file.flush().map_err(output_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Operation;

    /// A folder that is removed when this is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("frazil-save-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn two() -> Trace {
        Trace { ids: vec![0, 1], objects: vec![7, 8], ..Trace::default() }
    }

    #[test]
    fn nothing_else_is_touched() {
        let folder = Folder::new("else");
        let file = |name: &str| folder.0.join(name);
        std::fs::write(file("out.partial"), "mine").unwrap();
        save(&two(), None, Format::Plain, &file("out")).unwrap();
        // Data that the format can't hold are refused before anything is created.
        let sets = Trace { operations: vec![Operation::Set; 2], ..two() };
        save(&sets, None, Format::Plain, &file("refused")).unwrap_err();
        assert_eq!(folder.names(), ["out", "out.partial"]);
        assert_eq!(std::fs::read_to_string(file("out")).unwrap(), "7\n8\n");
        assert_eq!(std::fs::read_to_string(file("out.partial")).unwrap(), "mine");
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_are_kept() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let folder = Folder::new("kept");
        let file = |name: &str| folder.0.join(name);
        std::fs::write(file("real"), "old").unwrap();
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file("real"), mode(0o640)).unwrap();
        symlink(file("real"), file("link")).unwrap();
        save(&two(), None, Format::Plain, &file("link")).unwrap();
        assert_eq!(std::fs::read_to_string(file("real")).unwrap(), "7\n8\n");
        assert!(std::fs::symlink_metadata(file("link")).unwrap().is_symlink());
        let kept = std::fs::metadata(file("real")).unwrap().permissions().mode();
        assert_eq!(kept & 0o777, 0o640);

        std::fs::set_permissions(file("real"), mode(0o444)).unwrap();
        let error = save(&two(), None, Format::Plain, &file("real")).unwrap_err();
        assert!(error.to_string().contains("real: "), "{error}");

        save(&two(), None, Format::Plain, Path::new("/dev/null")).unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
