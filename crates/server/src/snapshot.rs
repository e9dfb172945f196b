//! The snapshot of the last run, which no later run may read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The name of a snapshot from the start of the server that reads it.
///
/// ```
/// let unread = frazil_server::unread("/var/lib/frazil/items".as_ref());
/// assert_eq!(unread.to_str(), Some("/var/lib/frazil/items.unread"));
/// ```
pub fn unread(path: &Path) -> PathBuf {
    path.with_added_extension("unread")
}

/// Renames a snapshot to [`unread`], or removes what a crashed run had left there, so that it is not found under its name even after a crash of
/// the system. After an error it has its name.
pub(crate) fn put_aside(path: &Path) -> io::Result<()> {
    let unread = unread(path);
    match fs::rename(path, &unread) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return remove_unread(&unread),
        Err(error) => return Err(error),
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    if synced.is_err() {
        fs::rename(&unread, path)?;
    }
    synced
}

/// A run that crashed while it read this file had served clients.
fn remove_unread(unread: &Path) -> io::Result<()> {
    match fs::remove_file(unread) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
