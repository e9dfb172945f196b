//! A cache that holds the results of a function.

use pyo3::prelude::*;

use super::probe::{self, Probe};
use super::removed::Removed;
use super::{Cache, Seen};

impl Cache {
    /// The value of a key; a use of it, counted as a hit or a miss.
    #[inline(always)]
    pub(crate) fn answer<'py>(
        &self,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let wide = probe::hash(key)?;
        // SAFETY: the caller has the key.
        let value = match unsafe { self.value_at_a_glance(py, wide, key.as_ptr()) } {
            Seen::Done(value) => value,
            Seen::Failed => return Err(PyErr::fetch(py)),
            Seen::Unsure => self.look_up(&mut Probe::hashed(key, wide))?,
        };
        Ok(value.map(|value| value.into_bound(py)))
    }

    /// The value of a key, neither used nor counted.
    fn peek(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = key.py();
        let now = self.now();
        let mut removed = Removed::default();
        let value = self.with(&mut Probe::new(key)?, |core, slot| {
            let slot = core.unless_expired(slot, now, &mut removed)?;
            core.table.entries[slot as usize].value.as_ref().map(|value| value.clone_ref(py))
        })?;
        self.release(py, removed)?;
        Ok(value)
    }
}

/// The value of a key in a cache, or `absent`; a use of it, counted as a hit or a miss.
#[pyfunction]
pub(crate) fn _answer<'py>(
    cache: &Bound<'py, Cache>,
    key: &Bound<'py, PyAny>,
    absent: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(cache.get().answer(key)?.unwrap_or(absent))
}

/// The value of a key in a cache, or `absent`; neither used nor counted.
#[pyfunction]
pub(crate) fn _peek<'py>(
    cache: &Bound<'py, Cache>,
    key: &Bound<'py, PyAny>,
    absent: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(cache.get().peek(key)?.map_or(absent, |value| value.into_bound(key.py())))
}
