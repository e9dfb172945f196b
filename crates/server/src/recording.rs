//! Records clients' requests to a file for `frazil advise` and `frazil simulate`.
//!
//! Without a recording a request costs a load and a branch more. With one, a request of a chosen key leaves a note on its
//! thread, and a thread of the recording writes the file ([`frazil_recording::StoreRecorder`]).

use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foldhash::quality::RandomState;
use frazil_recording::{Event, Recorded, SHARED_LOGS, StoreRecorder, thread_log};

use crate::server::Shared;

/// Look-ups of all keys by the threads of one log, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gets(AtomicU64);

/// The choice of keys of a store, and the notes of its requests.
#[derive(Debug)]
pub(crate) struct RequestLog {
    hasher: RandomState,
    recorder: StoreRecorder,
    /// Look-ups in all recordings so far.
    gets: [Gets; SHARED_LOGS],
    /// `gets` when the current recording began.
    gets_before: AtomicU64,
}

impl RequestLog {
    pub(crate) fn new() -> RequestLog {
        RequestLog {
            hasher: RandomState::default(),
            recorder: StoreRecorder::new(),
            gets: std::array::from_fn(|_| Gets::default()),
            gets_before: AtomicU64::new(0),
        }
    }

    /// Whether a recording runs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.recorder.keys().is_some()
    }

    /// The hash of a key, if its requests are recorded.
    fn chosen(&self, key: &[u8]) -> Option<u64> {
        let hash = self.hasher.hash_one(key);
        self.recorder.keys().has(hash).then_some(hash)
    }

    /// Notes a look-up, with the bytes of the entry that it found.
    pub(crate) fn looked_up(&self, key: &[u8], found: Option<u64>) {
        self.gets[thread_log()].0.fetch_add(1, Relaxed);
        if let Some(hash) = self.chosen(key) {
            let event = if found.is_some() { Event::Hit } else { Event::Miss };
            self.recorder.note(hash, event, found.unwrap_or(0), |_| ());
        }
    }

    /// Notes a stored entry.
    pub(crate) fn written(&self, key: &[u8], bytes: u64, lifetime: Option<Duration>) {
        if let Some(hash) = self.chosen(key) {
            self.recorder.note_insertion(hash, bytes, lifetime, |_| ());
        }
    }

    pub(crate) fn deleted(&self, key: &[u8]) {
        if let Some(hash) = self.chosen(key) {
            self.recorder.note(hash, Event::Remove, 0, |_| ());
        }
    }

    fn begin(&self, path: &Path, rate: f64) -> io::Result<()> {
        let before = self.gets();
        self.recorder.begin(path, rate)?;
        self.gets_before.store(before, Relaxed);
        Ok(())
    }

    fn end(&self) -> io::Result<Recorded> {
        self.recorder.end(|| self.gets().wrapping_sub(self.gets_before.load(Relaxed)))
    }

    fn gets(&self) -> u64 {
        self.gets.iter().map(|gets| gets.0.load(Relaxed)).sum()
    }
}

/// Clients whose requests are recorded: each kind has a store of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recordable {
    /// memcached's and RESP's.
    Keys,
    /// HTTP's.
    Http,
}

/// A recording under way: [`Handle::record`](crate::Handle::record). Ends when it is dropped.
#[derive(Debug)]
#[must_use = "a recording ends when this is dropped"]
pub struct Recording {
    shared: Arc<Shared>,
    clients: Recordable,
    is_over: bool,
}

impl Recording {
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        clients: Recordable,
        path: &Path,
        rate: f64,
    ) -> io::Result<Recording> {
        let Some(log) = log_of(shared, clients) else {
            let none = "the server has no address for these clients";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, none));
        };
        log.begin(path, rate)?;
        Ok(Recording { shared: Arc::clone(shared), clients, is_over: false })
    }

    /// Ends the recording and returns its counts. Waits until everything is written.
    ///
    /// # Errors
    ///
    /// The file could not be written, now or at any time since the beginning; its whole blocks are readable
    /// nevertheless.
    pub fn finish(mut self) -> io::Result<Recorded> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Recorded> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(Recorded::default());
        }
        match log_of(&self.shared, self.clients) {
            Some(log) => log.end(),
            None => Ok(Recorded::default()),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // `finish` returns errors.
        _ = self.end();
    }
}

/// The log of these clients' store.
fn log_of(shared: &Shared, clients: Recordable) -> Option<&RequestLog> {
    match clients {
        Recordable::Keys => {
            let speaks = shared.settings.speaks_memcached() || shared.settings.speaks_resp();
            speaks.then_some(&shared.items.store.requests)
        }
        Recordable::Http => shared.http.as_ref().map(|http| &http.requests),
    }
}
