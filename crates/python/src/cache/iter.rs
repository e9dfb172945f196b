//! Iterators over a cache that may change meanwhile.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use super::Cache;

/// Which part of an entry an iterator gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
    Both,
}

/// Walks the slots of a cache. Each entry that stays throughout is returned once.
#[pyclass(frozen, module = "frazil")]
pub(crate) struct CacheIterator {
    cache: Py<Cache>,
    part: Part,
    /// The next slot.
    slot: AtomicU32,
}

impl CacheIterator {
    fn new(cache: Py<Cache>, part: Part) -> Self {
        CacheIterator { cache, part, slot: AtomicU32::new(0) }
    }

    pub(super) fn keys(cache: Py<Cache>) -> Self {
        Self::new(cache, Part::Key)
    }

    pub(super) fn values(cache: Py<Cache>) -> Self {
        Self::new(cache, Part::Value)
    }

    pub(super) fn items(cache: Py<Cache>) -> Self {
        Self::new(cache, Part::Both)
    }
}

#[pymethods]
impl CacheIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let cache = self.cache.get();
        let now = cache.now();
        let found = cache.shared.read(py, |core| {
            let mut slot = self.slot.load(Relaxed);
            loop {
                let (at, key, value) = core.table.at_or_behind(slot)?;
                slot = at + 1;
                if core.is_live(at, now) {
                    self.slot.store(slot, Relaxed);
                    let key = (self.part != Part::Value).then(|| key.clone_ref(py));
                    let value = (self.part != Part::Key).then(|| value.clone_ref(py));
                    return Some((key, value));
                }
            }
        });
        Ok(match found {
            None => {
                self.slot.store(u32::MAX, Relaxed);
                None
            }
            Some((Some(key), Some(value))) => Some(PyTuple::new(py, [key, value])?.into_any()),
            Some((key, value)) => key.or(value).map(|it| it.into_bound(py)),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }
}
