//! Records operations of a running cache to a file.
//!
//! ```text
//! threads: note ──► a log each, bounded ──► writer: order, pair, write
//! ```
//!
//! An operation takes a note on its thread's *log* (`event_log.rs`), without a lock if no other
//! thread has that log; a note that finds it full counts as lost. The writer (`writer.rs`), a thread that lives as long as the
//! recording, interprets the notes. The cache chooses which keys are recorded.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind};
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use crate::event_log::{EventLogs, Note};
use crate::{Encoder, Header, Lifetimes, writer};

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// Records in the file.
    pub records: u64,
    /// Operations that were not recorded because they arrived faster than they could be
    /// written. If there are more than a few, record at a lower rate.
    pub lost: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

/// The thread that writes a file.
#[derive(Debug)]
struct Writer {
    handle: JoinHandle<io::Result<Recorded>>,
    /// The process of the thread: a forked process has none.
    process: u32,
}

/// The part of a cache that takes notes for the writer. Takes no memory before the first
/// recording, and from then on 524 kB for each log with a note.
///
/// ```
/// use frazil_recording::{Event, Lifetimes, Note, Recorder};
///
/// let recorder = Recorder::new(|| 7);
/// let path = std::env::temp_dir().join(format!("recorder-{}", std::process::id()));
/// recorder.begin(&path, 1.0, true, Lifetimes::None)?;
/// let note = Note { time_ns: 7, hash: 1, weight: 100, lifetime_ns: 0, event: Event::Insert };
/// recorder.push(0, &note, |_| ());
/// assert_eq!(recorder.end(0)?.records, 1);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    /// Nanoseconds since any moment.
    clock: fn() -> u64,
    logs: OnceLock<Arc<EventLogs>>,
    /// The writer's thread, while a recording is under way.
    writer: Mutex<Option<Writer>>,
}

impl Recorder {
    /// A recorder whose notes have the times of `clock`, in nanoseconds since any moment.
    pub fn new(clock: fn() -> u64) -> Self {
        Recorder { clock, logs: OnceLock::new(), writer: Mutex::new(None) }
    }

    /// Takes a note on a log, of 1,024. One thread has a log at a time, and its next owner must
    /// see what the previous one has done; otherwise notes are lost. `near` may fetch memory that
    /// will soon be written. Nothing is noted before the first recording; notes between recordings
    /// are discarded. Some 10 ns.
    #[inline(always)]
    pub fn push(&self, log: usize, note: &Note, near: impl FnOnce(*const u8)) {
        if let Some(logs) = self.logs.get() {
            logs.push(log, note, near);
        }
    }

    /// Takes a note on a log that threads share. It is lost while another thread takes one there.
    pub(crate) fn push_shared(&self, log: usize, note: &Note, near: impl FnOnce(*const u8)) {
        if let Some(logs) = self.logs.get() {
            logs.push_shared(log, note, near);
        }
    }

    /// Begins a file, and a thread that writes it.
    ///
    /// # Errors
    /// `InvalidInput` for a rate that is not above 0 and at most 1, `ResourceBusy` while another
    /// recording runs, and the system's errors for the file and the thread.
    pub fn begin(
        &self,
        path: &Path,
        rate: f64,
        has_sizes: bool,
        lifetimes: Lifetimes,
    ) -> io::Result<()> {
        if !(rate > 0.0 && rate <= 1.0) {
            let problem = format!("the rate is {rate}, expected above 0 and at most 1");
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        let under_way = "a recording of this cache is under way";
        let busy = || io::Error::new(ErrorKind::ResourceBusy, under_way);
        // Taken if a recording is ending.
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(busy()),
        };
        if writer.is_some() {
            return Err(busy());
        }
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let start_unix_ns =
            since_1970.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        let begun_ns = (self.clock)();
        let header = Header { rate, start_unix_ns, has_sizes, lifetimes };
        let created = File::create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
        })?;
        let mut file = Encoder::new(BufWriter::new(created), &header)?;
        // From now on readers of the file find a recording.
        file.flush()?;

        let logs = self.logs.get_or_init(|| Arc::new(EventLogs::new()));
        logs.stop.store(false, Relaxed);
        let shared = Arc::clone(logs);
        let before = (begun_ns, logs.lost());
        let clock = self.clock;
        let handle = thread::Builder::new()
            .name("frazil-record".to_owned())
            .spawn(move || writer::run(&shared, clock, file, before))?;
        logs.written_by(handle.thread().clone());
        *writer = Some(Writer { handle, process: std::process::id() });
        Ok(())
    }

    /// Ends the current recording, with the number of `gets` of all keys; 0 if unknown.
    /// Waits until everything is written.
    ///
    /// # Errors
    /// The file could not be written, now or at any time since the beginning. Or this process was
    /// forked since then: the recording belongs to the parent and continues there.
    pub fn end(&self, gets: u64) -> io::Result<Recorded> {
        let mut writer = self.writer();
        let (Some(Writer { handle, process }), Some(logs)) = (writer.take(), self.logs.get())
        else {
            return Ok(Recorded::default());
        };
        if process != std::process::id() {
            return Err(io::Error::other("another process writes this recording"));
        }
        logs.gets.store(gets, Relaxed);
        // Release: partner is the Acquire of the writer.
        logs.stop.store(true, Release);
        handle.thread().unpark();
        handle.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A recording whose guard was forgotten.
        let _ = self.end(0);
    }
}
