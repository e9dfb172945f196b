//! Recording: a sample of the requests, written to a file that `frazil simulate` reads.
//!
//! Keys are chosen by hash, so every request of a chosen key is recorded: a cache of a hundredth of
//! the capacity, with the requests for a hundredth of the keys, has about the same miss ratio.
//! While nothing is recorded, an operation pays one load and one comparison.
//!
//! An operation on a chosen key makes a note, which [`frazil_recording::Recorder`] writes.

use std::io;
use std::path::Path;

use frazil_recording::{Lifetimes, Note};

use crate::clock::coarse_ns;
use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::index::prefetch_for_writing;
use crate::events;
use crate::features::Featured;
use crate::features::expiry::Term;
use crate::features::gate::{self, Asker, Gate};
use crate::smr::thread;
use crate::sync::CHECKED;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) use frazil_recording::Event;
pub use frazil_recording::Recorded;

/// The part of a cache that chooses and notes.
pub(crate) struct Recorder {
    /// Selects operations on recorded keys, and those of other observers.
    gate: Gate,
    /// Keys whose mixed hash is below this are recorded; 0: none are.
    threshold: AtomicU64,
    recorder: frazil_recording::Recorder,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Recorder {
            gate: Gate::new(),
            threshold: AtomicU64::new(0),
            recorder: frazil_recording::Recorder::new(coarse_ns),
        }
    }

    /// Whether operations on a key with this hash are observed, for a recording or for another
    /// reason.
    #[inline(always)]
    pub(crate) fn wants(&self, hash: u64) -> bool {
        self.gate.wants(hash)
    }

    /// Whether they are recorded.
    pub(crate) fn records(&self, hash: u64) -> bool {
        gate::is_below(hash, self.threshold.load(Relaxed))
    }

    /// The gate that selects observed operations.
    #[cfg(feature = "freezing")]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Notes an operation on an observed key, if it is recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, hash: u64, event: Event, weight: u64) {
        self.note_with(hash, event, weight, 0);
    }

    #[inline(always)]
    fn note_with(&self, hash: u64, event: Event, weight: u64, lifetime_ns: u64) {
        if self.records(hash) {
            let note = Note { time_ns: coarse_ns(), hash, weight, lifetime_ns, event };
            // A number is one thread's at a time, and passed on under a lock.
            self.recorder.push(thread::number() as usize, &note, prefetch_for_writing);
        }
    }

    /// Notes an insertion of an entry with this lifetime, if operations on keys of this hash are
    /// observed.
    #[inline(always)]
    pub(crate) fn note_insertion(&self, hash: u64, weight: u64, term: &Term) {
        if self.wants(hash) {
            self.note_admission(hash, weight, term);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_admission(&self, hash: u64, weight: u64, term: &Term) {
        self.note_with(hash, Event::Insert, weight, term.recorded_ns());
    }

    fn begin(
        &self,
        path: &Path,
        rate: f64,
        has_sizes: bool,
        lifetimes: Lifetimes,
    ) -> io::Result<()> {
        // Locks of checkers know only their own threads, and the writer is none of these.
        if CHECKED {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.recorder.begin(path, rate, has_sizes, lifetimes)?;
        self.record_below(gate::threshold(rate).max(1));
        Ok(())
    }

    fn record_below(&self, threshold: u64) {
        self.threshold.store(threshold, Relaxed);
        self.gate.open(Asker::Recording, threshold);
    }

    /// Ends the recording that is under way, in which there were `gets` of all keys; 0 if
    /// that is not known.
    fn end(&self, gets: u64) -> io::Result<Recorded> {
        self.record_below(0);
        self.recorder.end(gets)
    }
}

/// A recording under way: [`Cache::record`](crate::Cache::record). Ends when it is dropped.
#[must_use = "a recording ends when this is dropped"]
pub struct Recording<'c> {
    recorder: &'c Recorder,
    /// Gets since it began.
    gets: Box<dyn Fn() -> u64 + Send + Sync + 'c>,
    finished: bool,
    #[cfg(feature = "tracing")]
    identity: u64,
}

impl Recording<'_> {
    /// Ends the recording and returns its result. Waits until everything is written.
    ///
    /// # Errors
    /// When the file could not be written, now or at any time since the beginning. Its whole
    /// blocks can be read all the same.
    pub fn finish(mut self) -> io::Result<Recorded> {
        self.end()
    }

    fn end(&mut self) -> io::Result<Recorded> {
        self.finished = true;
        let ended = self.recorder.end((self.gets)());
        #[cfg(feature = "tracing")]
        match &ended {
            Ok(Recorded { records, lost, bytes, .. }) => {
                events::event!(self, DEBUG, "recording ended", records, lost, bytes);
            }
            Err(error) => events::event!(self, WARN, "recording failed", %error),
        }
        ended
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // `finish` returns errors.
            let _ = self.end();
        }
    }
}

impl std::fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

impl<K, V, S> Featured<K, V, S> {
    /// Begins to record.
    pub(crate) fn record(&self, path: &Path, rate: f64) -> io::Result<Recording<'_>> {
        self.record_with(&self.hooks.recorder, path, rate, self.hooks.expiry.recorded())
    }
}

impl<K, V, S, H: PerThread<Local: Send + Sync>> Core<K, V, S, H> {
    /// Begins to record by a recorder of this cache.
    pub(crate) fn record_with<'c>(
        &'c self,
        recorder: &'c Recorder,
        path: &Path,
        rate: f64,
        lifetimes: Lifetimes,
    ) -> io::Result<Recording<'c>> {
        // Counted by other threads too.
        let stripes = &self.stripes;
        let counted = move || stripes.iter().map(|stripe| stripe.local.reads.gets());
        let gets = move || counted().fold(0, u64::wrapping_add);
        let gets_before = gets();
        recorder.begin(path, rate, self.weights.is_some(), lifetimes)?;
        events::event!(self, DEBUG, "recording began", path = %path.display(), rate);
        Ok(Recording {
            recorder,
            gets: Box::new(move || gets().wrapping_sub(gets_before)),
            finished: false,
            #[cfg(feature = "tracing")]
            identity: self.identity,
        })
    }
}
