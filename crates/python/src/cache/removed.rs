//! Objects that a section has taken out: they are released outside of it, because that may run
//! Python code.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Cache;
use super::table::Table;
use crate::nested;

/// Why an entry is no longer there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Evicted, for want of room.
    Size,
    Expired,
    Deleted,
    Replaced,
    /// Never admitted.
    Refused,
}

struct Gone {
    key: Option<Py<PyAny>>,
    value: Py<PyAny>,
    cause: Cause,
}

impl Gone {
    #[inline]
    fn drop(self, py: Python<'_>) {
        // Bound: released at once, without a look whether this thread is attached.
        drop(self.value.into_bound(py));
        drop(self.key.map(|key| key.into_bound(py)));
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let core = self.shared.get_mut();
        let table = std::mem::replace(&mut core.table, Table::new());
        nested::release((table, std::mem::take(&mut core.callbacks)));
    }
}

/// Entries that one operation has removed. Usually one, which needs no memory of its own.
#[derive(Default)]
pub(super) struct Removed {
    first: Option<Gone>,
    more: Vec<Gone>,
}

impl Removed {
    #[inline]
    pub(super) fn push(&mut self, key: Option<Py<PyAny>>, value: Py<PyAny>, cause: Cause) {
        let gone = Gone { key, value, cause };
        match self.first {
            None => self.first = Some(gone),
            Some(_) => self.more.push(gone),
        }
    }

    pub(super) fn into_pair(self) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let gone = self.first?;
        Some((gone.key?, gone.value))
    }

    /// Releases everything, after `on_evict` was told of what was evicted or has expired.
    ///
    /// # Errors
    /// The first error of `on_evict`. It is called for the others nevertheless, and their errors go
    /// to `sys.unraisablehook`.
    #[inline]
    pub(super) fn release(self, py: Python<'_>, on_evict: Option<&Py<PyAny>>) -> PyResult<()> {
        match on_evict {
            None => {
                self.drop(py);
                Ok(())
            }
            Some(on_evict) => self.tell(on_evict.bind(py)),
        }
    }

    /// Releases everything.
    #[inline]
    pub(super) fn drop(self, py: Python<'_>) {
        if let Some(gone) = self.first {
            gone.drop(py);
        }
        for gone in self.more {
            gone.drop(py);
        }
    }

    #[cold]
    fn tell(self, on_evict: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = on_evict.py();
        let mut first = Ok(());
        for gone in self.first.into_iter().chain(self.more) {
            let cause = match gone.cause {
                Cause::Size => "size",
                Cause::Expired => "expired",
                Cause::Deleted | Cause::Replaced | Cause::Refused => continue,
            };
            let told = on_evict.call1((gone.key, gone.value, PyString::intern(py, cause)));
            match (told, &first) {
                (Err(error), Ok(())) => first = Err(error),
                (Err(error), Err(_)) => error.write_unraisable(py, Some(on_evict)),
                (Ok(_), _) => {}
            }
        }
        first
    }
}
