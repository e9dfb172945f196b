//! Recordings of a cache's requests, in the format that the simulator reads.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use frazil_recording::{Event, KeyShare, Lifetimes, Note, Recorder};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use super::{Cache, lifetimes};

/// The part of a cache that is recorded.
#[derive(Default)]
pub(super) struct Recorders {
    recorder: OnceLock<Recorder>,
    keys: KeyShare,
}

impl Recorders {
    /// Whether requests for a key of this hash are recorded.
    #[inline(always)]
    pub(super) fn wants(&self, wide: u64) -> bool {
        self.keys.has(wide)
    }

    /// Adds a note, in a section, because a log takes notes of one thread at a time.
    #[cold]
    #[inline(never)]
    fn note(&self, hash: u64, event: Event, weight: u64, lifetime_ns: u64) {
        if let Some(recorder) = self.recorder.get() {
            let time_ns = lifetimes::now();
            // Keys cannot be guessed from it as easily as from their hashes.
            let hash = frazil_policy::object_hash(hash, 2);
            recorder.push(0, &Note { time_ns, hash, weight, lifetime_ns, event }, |_| ());
        }
    }

    #[inline(always)]
    pub(super) fn note_get(&self, wide: u64, weight: Option<u64>) {
        if self.wants(wide) {
            let event = if weight.is_some() { Event::Hit } else { Event::Miss };
            self.note(wide, event, weight.unwrap_or(0), 0);
        }
    }

    #[inline(always)]
    pub(super) fn note_set(&self, wide: u64, weight: u64, lifetime: u64) {
        if self.wants(wide) {
            self.note(wide, Event::Insert, weight, lifetime);
        }
    }

    #[inline(always)]
    pub(super) fn note_delete(&self, wide: u64) {
        if self.wants(wide) {
            self.note(wide, Event::Remove, 0, 0);
        }
    }
}

/// A recording under way: it ends with `finish`, with its `with` block, or with this object.
#[pyclass(frozen, module = "frazil")]
pub(crate) struct CacheRecording {
    cache: Py<Cache>,
    requests_before: u64,
    finished: AtomicBool,
}

impl CacheRecording {
    pub(super) fn begin(cache: Bound<'_, Cache>, path: &Path, rate: f64) -> PyResult<Self> {
        if !(rate > 0.0 && rate <= 1.0) {
            let problem = format!("rate must be above 0 and at most 1, and is {rate}");
            return Err(PyValueError::new_err(problem));
        }
        let this = cache.get();
        let kept = match (this.expires, this.tti(cache.py())) {
            (false, _) => Lifetimes::None,
            (true, None) => Lifetimes::Told,
            (true, Some(_)) => Lifetimes::Moved,
        };
        let recorder = this.recording.recorder.get_or_init(|| Recorder::new(lifetimes::now));
        recorder.begin(path, rate, this.weighs, kept)?;
        let (hits, misses) = this.shared.counts();
        this.recording.keys.set(rate);
        this.quick.store(0, Relaxed);
        Ok(CacheRecording {
            cache: cache.unbind(),
            requests_before: hits + misses,
            finished: AtomicBool::new(false),
        })
    }

    fn end(&self, py: Python<'_>) -> PyResult<Option<(u64, u64, u64)>> {
        if self.finished.swap(true, Relaxed) {
            return Ok(None);
        }
        let cache = self.cache.get();
        cache.recording.keys.clear();
        cache.quick.store(Cache::quickness(cache.mark_limit), Relaxed);
        // Notes are taken in sections: after this one there are no more.
        cache.shared.write(py, |_| ());
        let (hits, misses) = cache.shared.counts();
        let Some(recorder) = cache.recording.recorder.get() else {
            return Ok(None);
        };
        let gets = hits + misses - self.requests_before;
        let recorded = py.detach(|| recorder.end(gets))?;
        Ok(Some((recorded.records, recorded.lost, recorded.bytes)))
    }
}

#[pymethods]
impl CacheRecording {
    /// Ends the recording: the number of records, of records lost, and of bytes. `None` if it was
    /// ended before.
    ///
    /// >>> import frazil, os, tempfile
    /// >>> cache = frazil.Cache(10)
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     recording = cache.record(os.path.join(folder, "requests.frazil"))
    /// ...     cache.get("a"), cache.get("b")
    /// ...     recording.finish()[:2], recording.finish()
    /// (None, None)
    /// ((2, 0), None)
    fn finish(&self, py: Python<'_>) -> PyResult<Option<(u64, u64, u64)>> {
        self.end(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<bool> {
        self.end(py)?;
        Ok(false)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }
}

impl Drop for CacheRecording {
    fn drop(&mut self) {
        Python::attach(|py| {
            if let Err(error) = self.end(py) {
                // Nobody is there to be told; an error that is on its way goes on.
                let pending = PyErr::take(py);
                error.write_unraisable(py, None);
                if let Some(pending) = pending {
                    pending.restore(py);
                }
            }
        });
    }
}
