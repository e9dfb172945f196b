//! Draining a server, and saving and restoring its entries.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use frazil_segment::RestoreError;

use crate::recording::{Recordable, Recording};
use crate::server::Shared;

/// Other threads' access to a server that serves or has ended.
///
/// ```
/// use std::time::Duration;
/// use frazil_server::{Server, Settings};
///
/// let settings = Settings { memcached: vec!["127.0.0.1:0".parse()?], ..Settings::default() };
/// let server = Server::start(settings)?;
/// let handle = server.handle();
/// handle.drain(Duration::from_secs(5));
/// server.join()?;
/// let path = std::env::temp_dir().join(format!("drained-{}", std::process::id()));
/// assert_eq!(handle.save(&path)?, 0);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl Handle {
    /// Ends the server as soon as all clients have their replies, and at the latest after `within`. It accepts no
    /// more connections, serves the requests that have arrived, and closes each connection after its last reply.
    /// [`Server::join`](crate::Server::join) then returns.
    pub fn drain(&self, within: Duration) {
        let now_ms = self.shared.items.clock.update();
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        // The first deadline counts. `u64::MAX`: the server does not drain.
        let until_ms = now_ms.saturating_add(within_ms).min(u64::MAX - 1);
        let _ = self.shared.drains_until_ms.compare_exchange(u64::MAX, until_ms, Relaxed, Relaxed);
        self.shared.wake();
    }

    /// Ends the server at once, without answering pending requests.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Reads the files of users and certificates again, and returns the result for each. A file that cannot be read
    /// changes nothing. Connections of changed or removed users are closed. New connections get the new certificates.
    pub fn reload(&self) -> Vec<(PathBuf, io::Result<()>)> {
        let (shared, mut outcomes) = (&*self.shared, Vec::new());
        if let Some((access, path)) = shared.access.as_ref().zip(shared.settings.users.as_ref()) {
            outcomes.push((path.clone(), access.reload(path)));
        }
        if let Some((tls, files)) = shared.tls.as_ref().zip(shared.settings.tls.as_ref()) {
            outcomes.push((files.certificate.clone(), tls.reload(files)));
        }
        // Each thread checks its connections once a second.
        outcomes
    }

    /// Records the requests of these clients, for a share of all keys or URLs, to a file, which `frazil advise` and
    /// `frazil simulate` read, until the recording is dropped. `rate` is the share, above 0 and at most 1.
    ///
    /// A record has the memory that the entry takes as its size. A miss gets the size of the write that follows it
    /// within a second. No request waits for the file: what it cannot take is counted as lost. Other requests cost a
    /// hash more, and those of chosen keys a note of some 10 ns and a look at the clock.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid rate or a server without an address for these clients, `ResourceBusy` while
    /// another recording of them is under way, and errors of the system for the file and for the thread that writes
    /// it. An existing file is overwritten.
    pub fn record(&self, clients: Recordable, path: &Path, rate: f64) -> io::Result<Recording> {
        Recording::begin(&self.shared, clients, path, rate)
    }

    /// Writes all entries to a file, and returns their number. Clients may be served meanwhile.
    ///
    /// # Errors
    ///
    /// The file cannot be written. A previous file stays.
    pub fn save(&self, path: &Path) -> io::Result<u64> {
        self.shared.items.store.save(path)
    }

    /// Stores the entries of a file that [`Handle::save`] has written, and returns their number. Clients are served
    /// meanwhile. Their writes and deletions since this call win over the file's entries, or, with
    /// [`Settings::snapshot`](crate::Settings::snapshot), those since the start of the server. `Ok(None)`: the file
    /// is older than `age_max`, and nothing was stored.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is damaged, or there is no memory.
    pub fn restore(
        &self,
        path: &Path,
        age_max: Option<Duration>,
    ) -> Result<Option<u64>, RestoreError> {
        let store = &self.shared.items.store;
        let is_too_old = |saved: SystemTime| {
            let age = SystemTime::now().duration_since(saved).unwrap_or_default();
            age_max.is_some_and(|most| age > most)
        };
        match frazil_segment::Store::saved_at(path) {
            Ok(saved) if !is_too_old(saved) => store.restore(path).map(Some),
            outcome => {
                store.expect_no_restore();
                outcome.map(|_| None)
            }
        }
    }
}
