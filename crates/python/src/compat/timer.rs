//! The clock of a cache with lifetimes, which can stand still.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::shared::Shared;

/// A clock that stands still within `with`.
#[pyclass(frozen, name = "_Timer", module = "frazil._frazil")]
pub(crate) struct CompatTimer {
    timer: Py<PyAny>,
    standing: Shared<Standing>,
}

/// How many `with` are open, and since when.
struct Standing {
    depth: usize,
    time: Option<Py<PyAny>>,
}

#[pymethods]
impl CompatTimer {
    #[new]
    fn new(timer: Py<PyAny>) -> Self {
        Self { timer, standing: Shared::new(Standing { depth: 0, time: None }) }
    }

    /// The time.
    #[pyo3(name = "__call__")]
    pub(super) fn now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let time = self
            .standing
            .with(py, |standing| standing.time.as_ref().map(|time| time.bind(py).clone()));
        time.map_or_else(|| self.timer.bind(py).call0(), Ok)
    }

    #[pyo3(name = "__enter__")]
    pub(super) fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let time = self.now(py)?;
        let new = time.clone().unbind();
        self.standing.with(py, |standing| {
            standing.depth += 1;
            // Another thread may have stopped the clock since: its time holds, and this one is
            // dropped by whoever gets it back.
            if standing.time.is_none() { standing.time.replace(new) } else { Some(new) }
        });
        Ok(time)
    }

    #[pyo3(name = "__exit__", signature = (*_error))]
    fn exit_with(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.exit(py);
    }

    fn __getattr__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.timer.bind(py).getattr(name.cast()?)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (Bound<'py, PyAny>,)) {
        (py.get_type::<Self>().into_any(), (self.timer.bind(py).clone(),))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.timer)
    }
}

impl CompatTimer {
    pub(super) fn exit(&self, py: Python<'_>) {
        let time = self.standing.with(py, |standing| {
            standing.depth = standing.depth.saturating_sub(1);
            if standing.depth == 0 { standing.time.take() } else { None }
        });
        drop(time);
    }
}
