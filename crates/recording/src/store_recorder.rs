//! Records the requests of a store that any thread may use.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::{Event, FOR_EVER, KeyShare, Lifetimes, Note, Recorded, Recorder};

/// Number of logs of a recorder. Threads get them in turn, so threads beyond this number share them:
/// of two that add a note at once, one loses it.
pub const SHARED_LOGS: usize = 64;

/// The log of this thread, below [`SHARED_LOGS`].
#[inline]
pub fn thread_log() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static LOG: Cell<usize> = const { Cell::new(usize::MAX) });
    LOG.with(|log| {
        if log.get() == usize::MAX {
            log.set(NEXT.fetch_add(1, Relaxed) % SHARED_LOGS);
        }
        log.get()
    })
}

/// Nanoseconds since the first call in this process.
fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The keys that are recorded, and the notes of their requests. Its files have sizes and lifetimes.
///
/// ```
/// use frazil_recording::{Event, StoreRecorder};
///
/// let recorder = StoreRecorder::new();
/// let path = std::env::temp_dir().join(format!("store-recorder-{}", std::process::id()));
/// recorder.begin(&path, 1.0)?;
/// recorder.note(7, Event::Miss, 0, |_| ());
/// recorder.note_insertion(7, 100, None, |_| ());
/// assert_eq!(recorder.end(|| 1)?.records, 1);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct StoreRecorder {
    keys: KeyShare,
    recorder: Recorder,
}

impl Default for StoreRecorder {
    fn default() -> Self {
        StoreRecorder { keys: KeyShare::default(), recorder: Recorder::new(now_ns) }
    }
}

impl StoreRecorder {
    /// One that records nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys that are recorded.
    #[inline(always)]
    pub fn keys(&self) -> &KeyShare {
        &self.keys
    }

    /// Notes a look-up or a removal, not an insertion, with the bytes of the entry that a look-up found. `near` may fetch memory
    /// that will soon be written ([`Recorder::push`]).
    pub fn note(&self, hash: u64, event: Event, bytes: u64, near: impl FnOnce(*const u8)) {
        debug_assert!(event != Event::Insert, "an insertion has a lifetime");
        self.push(hash, event, bytes, 0, near);
    }

    /// Notes a stored entry and its lifetime; `None`: it does not expire.
    pub fn note_insertion(
        &self,
        hash: u64,
        bytes: u64,
        lifetime: Option<Duration>,
        near: impl FnOnce(*const u8),
    ) {
        let lifetime_ns = lifetime.map_or(FOR_EVER, |lifetime| {
            u64::try_from(lifetime.as_nanos()).unwrap_or(FOR_EVER).clamp(1, FOR_EVER - 1)
        });
        self.push(hash, Event::Insert, bytes, lifetime_ns, near);
    }

    fn push(
        &self,
        hash: u64,
        event: Event,
        bytes: u64,
        lifetime_ns: u64,
        near: impl FnOnce(*const u8),
    ) {
        let note = Note { time_ns: now_ns(), hash, weight: bytes, lifetime_ns, event };
        self.recorder.push_shared(thread_log(), &note, near);
    }

    /// Begins a file with a share of the keys, above 0 and at most 1.
    ///
    /// # Errors
    /// Those of [`Recorder::begin`].
    pub fn begin(&self, path: &Path, rate: f64) -> io::Result<()> {
        self.recorder.begin(path, rate, true, Lifetimes::Told)?;
        self.keys.set(rate);
        Ok(())
    }

    /// Ends the current recording. `gets` returns the number of look-ups of all keys, 0 if unknown; it is
    /// called when no key is recorded any more. Waits until everything is written.
    ///
    /// # Errors
    /// Those of [`Recorder::end`].
    pub fn end(&self, gets: impl FnOnce() -> u64) -> io::Result<Recorded> {
        self.keys.clear();
        self.recorder.end(gets())
    }
}
