//! A cache that holds the results of a function.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use super::probe::Probe;
use super::removed::Removed;
use super::{Cache, Seen};
use crate::keys::{mix, plain_hash};

/// The key of a call that found no result, with its hash: it is not hashed again.
#[pyclass(frozen, module = "frazil._frazil")]
pub(crate) struct CallKey {
    key: Py<PyAny>,
    hash: isize,
}

impl CallKey {
    pub(crate) fn new(key: &Bound<'_, PyAny>, hash: isize) -> Self {
        CallKey { key: key.clone().unbind(), hash }
    }

    fn with_probe<'py, R>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Probe<'_, 'py>) -> PyResult<R>,
    ) -> PyResult<R> {
        work(&mut Probe::hashed(self.key.bind(py), mix(self.hash)))
    }
}

#[pymethods]
impl CallKey {
    #[new]
    fn hashed(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(CallKey::new(key, plain_hash(key)?))
    }

    fn __hash__(&self) -> isize {
        self.hash
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<bool> {
        let (one, other) = (self.key.bind(py), other.get().key.bind(py));
        Ok(one.is(other) || one.eq(other)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.key)
    }
}

impl Cache {
    /// The value of a key of this hash; a use of it, counted as a hit or a miss.
    #[inline(always)]
    pub(crate) fn answer<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        hash: isize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, wide) = (key.py(), mix(hash));
        // SAFETY: the caller has the key.
        let value = match unsafe { self.value_at_a_glance(py, wide, key.as_ptr()) } {
            Seen::Done(value) => value,
            Seen::Failed => return Err(PyErr::fetch(py)),
            Seen::Unsure => self.look_up(&mut Probe::hashed(key, wide))?,
        };
        Ok(value.map(|value| value.into_bound(py)))
    }

    /// The value of a key, neither used nor counted.
    fn peek(&self, probe: &mut Probe<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
        let py = probe.key.py();
        let now = self.now();
        let mut removed = Removed::default();
        let value = self.with(probe, |core, slot| {
            let slot = core.unless_expired(slot, now, &mut removed)?;
            core.table.entries[slot as usize].value.as_ref().map(|value| value.clone_ref(py))
        })?;
        self.release(py, removed)?;
        Ok(value)
    }
}

/// The value of a key in a cache, or its `CallKey`; a use of it, counted as a hit or a miss.
#[pyfunction]
pub(crate) fn _answer<'py>(
    cache: &Bound<'py, Cache>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let hash = plain_hash(key)?;
    match cache.get().answer(key, hash)? {
        Some(value) => Ok(value),
        None => Bound::new(key.py(), CallKey::new(key, hash)).map(Bound::into_any),
    }
}

/// The value of a key in a cache, or `absent`; neither used nor counted.
#[pyfunction]
pub(crate) fn _peek<'py>(
    cache: &Bound<'py, Cache>,
    key: &Bound<'py, CallKey>,
    absent: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let value = key.get().with_probe(key.py(), |probe| cache.get().peek(probe))?;
    Ok(value.map_or(absent, |value| value.into_bound(key.py())))
}

/// Stores the result of a call.
#[pyfunction]
pub(crate) fn _store<'py>(
    cache: &Bound<'py, Cache>,
    key: &Bound<'py, CallKey>,
    value: &Bound<'py, PyAny>,
) -> PyResult<()> {
    key.get().with_probe(key.py(), |probe| cache.get().store(probe, value))
}

/// Removes the result of a call, if it is there.
#[pyfunction]
pub(crate) fn _discard<'py>(cache: &Bound<'py, Cache>, key: &Bound<'py, CallKey>) -> PyResult<()> {
    key.get().with_probe(key.py(), |probe| cache.get().take(probe).map(drop))
}

unsafe extern "C" {
    fn _PyDict_SetItem_KnownHash(
        dict: *mut ffi::PyObject,
        key: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
        hash: ffi::Py_hash_t,
    ) -> std::ffi::c_int;
}

/// Stores in a dictionary under a key that was hashed.
pub(super) fn set_hashed(
    dict: &Bound<'_, PyDict>,
    key: &Bound<'_, PyAny>,
    hash: isize,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, dict) = (dict.py(), dict.as_ptr());
    // SAFETY: all three are alive, the first is a dictionary, and the hash is the key's.
    match unsafe { _PyDict_SetItem_KnownHash(dict, key.as_ptr(), value.as_ptr(), hash) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(py)),
    }
}
