//! Looking for a key, of which Python code may decide whether it equals another.
//!
//! Inside a section only keys are compared whose comparison runs no Python code. Where another
//! comparison is needed, the section ends, and the key is held and compared outside, where anything
//! may happen: an error, a call of the same cache, the removal of that very key. Then a new section
//! begins, in which the answer is known.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

pub(super) use crate::keys::{compare_plainly, hash, mix};

/// Comparisons of one operation. More than keys with equal hashes only happen if comparisons go on
/// adding such keys.
const MOST_COMPARISONS: usize = 1 << 20;

/// A key as an operation knows it: it was hashed once.
pub(super) struct Probe<'a, 'py> {
    pub(super) key: &'a Bound<'py, PyAny>,
    /// All bits of the hash.
    pub(super) wide: u64,
    /// The bits that entries keep.
    pub(super) hash: u32,
    /// Answers of Python code, if there are any.
    memory: Option<Box<Memory<'py>>>,
}

/// Resident keys that were compared.
#[derive(Default)]
struct Memory<'py> {
    equal: Option<Bound<'py, PyAny>>,
    different: Vec<Bound<'py, PyAny>>,
}

/// Whether a resident key equals the one looked for.
pub(super) enum Verdict {
    Same,
    Different,
    /// Only Python code knows.
    Ask,
}

/// The bits of a hash that entries keep.
#[inline(always)]
pub(super) fn narrow(wide: u64) -> u32 {
    (wide >> 32) as u32
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Hashes the key.
    #[inline(always)]
    pub(super) fn new(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self::hashed(key, hash(key)?))
    }

    /// A key that was [hashed](hash).
    #[inline(always)]
    pub(super) fn hashed(key: &'a Bound<'py, PyAny>, wide: u64) -> Self {
        Probe { key, wide, hash: narrow(wide), memory: None }
    }

    /// Judges a resident key with the same hash. Runs no Python code.
    #[inline(always)]
    pub(super) fn judge(&self, resident: &Py<PyAny>) -> Verdict {
        let pointer = resident.as_ptr();
        if pointer == self.key.as_ptr() {
            return Verdict::Same;
        }
        // SAFETY: both are alive and the thread attached.
        match unsafe { compare_plainly(pointer, self.key.as_ptr()) } {
            Some(true) => Verdict::Same,
            Some(false) => Verdict::Different,
            None => self.remember(pointer),
        }
    }

    #[inline(never)]
    fn remember(&self, pointer: *mut ffi::PyObject) -> Verdict {
        let Some(memory) = &self.memory else {
            return Verdict::Ask;
        };
        let is = |known: &Bound<'py, PyAny>| known.as_ptr() == pointer;
        if memory.equal.as_ref().is_some_and(is) {
            Verdict::Same
        } else if memory.different.iter().any(is) {
            Verdict::Different
        } else {
            Verdict::Ask
        }
    }

    /// Compares with a resident key, outside of sections.
    #[cold]
    #[inline(never)]
    pub(super) fn compare(&mut self, resident: Py<PyAny>) -> PyResult<()> {
        let py = self.key.py();
        let resident = resident.into_bound(py);
        // The resident first, as dict does.
        let equal = resident.eq(self.key)?;
        let memory = self.memory.get_or_insert_default();
        if equal {
            memory.equal = Some(resident);
        } else if memory.different.len() < MOST_COMPARISONS {
            memory.different.push(resident);
        } else {
            return Err(PyRuntimeError::new_err("comparing keys goes on adding keys"));
        }
        Ok(())
    }
}
