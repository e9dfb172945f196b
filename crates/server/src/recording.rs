//! Records clients' requests to a file for `frazil advise` and `frazil simulate`.
//!
//! Without a recording a request costs a load and a branch more. With one, a request of a chosen key leaves a note on its
//! thread, and a thread of the recording writes the file ([`frazil_recording::Recorder`]).

use std::cell::Cell;
use std::fmt;
use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use frazil_recording::{Event, FOR_EVER, Lifetimes, Note, Recorded, Recorder};
use parking_lot::Mutex;

use crate::server::Shared;

/// Logs of threads. Threads beyond them share one, and lose a note if they meet.
const LOGS: usize = 64;

/// Nanoseconds since the first call in this process.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The log of this thread.
fn own_log() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static LOG: Cell<usize> = const { Cell::new(usize::MAX) });
    LOG.with(|log| {
        if log.get() == usize::MAX {
            log.set(NEXT.fetch_add(1, Relaxed) % LOGS);
        }
        log.get()
    })
}

/// The notes of a thread, and its look-ups of all keys; on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Log {
    /// A thread has it while it writes a note.
    lock: Mutex<()>,
    gets: AtomicU64,
}

/// The choice of keys of a store, and the notes of its requests.
pub(crate) struct RequestLog {
    /// Keys whose hash is below this are recorded; 0: none.
    below: AtomicU64,
    hasher: RandomState,
    recorder: Recorder,
    logs: [Log; LOGS],
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLog").field("below", &self.below).finish_non_exhaustive()
    }
}

impl RequestLog {
    pub(crate) fn new() -> RequestLog {
        RequestLog {
            below: AtomicU64::new(0),
            hasher: RandomState::default(),
            recorder: Recorder::new(now_ns),
            logs: std::array::from_fn(|_| Log::default()),
        }
    }

    /// Whether a recording runs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.below.load(Relaxed) != 0
    }

    /// Notes a look-up, with the bytes of the entry that it found.
    pub(crate) fn looked_up(&self, key: &[u8], found: Option<u64>) {
        self.logs[own_log()].gets.fetch_add(1, Relaxed);
        match found {
            Some(bytes) => self.note(key, Event::Hit, bytes, 0),
            None => self.note(key, Event::Miss, 0, 0),
        }
    }

    /// Notes a stored entry.
    pub(crate) fn written(&self, key: &[u8], bytes: u64, lifetime: Option<Duration>) {
        let lifetime_ns = lifetime.map_or(FOR_EVER, |lifetime| {
            u64::try_from(lifetime.as_nanos()).unwrap_or(FOR_EVER).clamp(1, FOR_EVER - 1)
        });
        self.note(key, Event::Insert, bytes, lifetime_ns);
    }

    pub(crate) fn deleted(&self, key: &[u8]) {
        self.note(key, Event::Remove, 0, 0);
    }

    fn note(&self, key: &[u8], event: Event, bytes: u64, lifetime_ns: u64) {
        let hash = self.hasher.hash_one(key);
        if hash >= self.below.load(Relaxed) {
            return;
        }
        let note = Note { time_ns: now_ns(), hash, weight: bytes, lifetime_ns, event };
        let log = own_log();
        match self.logs[log].lock.try_lock() {
            Some(_own) => self.recorder.push(log, &note, |_| ()),
            None => self.recorder.lose(),
        }
    }

    fn begin(&self, path: &Path, rate: f64) -> io::Result<()> {
        self.recorder.begin(path, rate, true, Lifetimes::Told)?;
        self.logs.iter().for_each(|log| log.gets.store(0, Relaxed));
        // Half of 2^64 is exact; 1 becomes all hashes but one.
        self.below.store(((rate * 2f64.powi(64)) as u64).max(1), Relaxed);
        Ok(())
    }

    fn end(&self) -> io::Result<Recorded> {
        self.below.store(0, Relaxed);
        self.recorder.end(self.logs.iter().map(|log| log.gets.load(Relaxed)).sum())
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
