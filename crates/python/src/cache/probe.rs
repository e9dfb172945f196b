//! Looking for a key, of which Python code may decide whether it equals another.
//!
//! Inside a section only keys are compared whose comparison runs no Python code. Where another
//! comparison is needed, the section ends, and the key is held and compared outside, where anything
//! may happen: an error, a call of the same cache, the removal of that very key. Then a new section
//! begins, in which the answer is known.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

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
    plain: bool,
    /// Equals `key`, by a comparison.
    equal: Option<Bound<'py, PyAny>>,
    /// Do not.
    different: Vec<Bound<'py, PyAny>>,
}

/// What is known about a resident key.
pub(super) enum Verdict {
    Same,
    Different,
    /// Only Python code knows.
    Ask,
    /// The comparison has raised an error, which the interpreter keeps.
    Failed,
}

/// Whether a key's comparison with another of these types runs no Python code.
#[inline(always)]
fn is_plain(key: *mut ffi::PyObject) -> bool {
    // SAFETY: the key is alive, and its type too.
    let kind = unsafe { ffi::Py_TYPE(key) };
    kind == &raw mut ffi::PyUnicode_Type
        || kind == &raw mut ffi::PyLong_Type
        || kind == &raw mut ffi::PyBytes_Type
        || kind == &raw mut ffi::PyFloat_Type
        || kind == &raw mut ffi::PyBool_Type
}

/// Python's hashes of whole numbers are the numbers: here every bit depends on every bit.
#[inline(always)]
fn mix(hash: isize) -> u64 {
    let product =
        u128::from(hash as u64 ^ 0x243f_6a88_85a3_08d3) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product >> 64) as u64 ^ product as u64
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Hashes the key: the only place that does.
    #[inline(always)]
    pub(super) fn new(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        // SAFETY: the key is alive and the thread attached.
        let hash = unsafe { ffi::PyObject_Hash(key.as_ptr()) };
        if hash == -1 {
            return Err(PyErr::fetch(key.py()));
        }
        let wide = mix(hash);
        Ok(Probe {
            key,
            wide,
            hash: (wide >> 32) as u32,
            plain: is_plain(key.as_ptr()),
            equal: None,
            different: Vec::new(),
        })
    }

    /// Judges a resident key with the same hash. Runs no Python code.
    #[inline(always)]
    pub(super) fn judge(&self, resident: &Py<PyAny>) -> Verdict {
        let pointer = resident.as_ptr();
        if pointer == self.key.as_ptr() {
            return Verdict::Same;
        }
        if self.plain && is_plain(pointer) {
            // SAFETY: both are alive and the thread attached. By their types this runs no Python code.
            return match unsafe {
                ffi::PyObject_RichCompareBool(pointer, self.key.as_ptr(), ffi::Py_EQ)
            } {
                0 => Verdict::Different,
                1 => Verdict::Same,
                _ => Verdict::Failed,
            };
        }
        self.remember(pointer)
    }

    #[inline(never)]
    fn remember(&self, pointer: *mut ffi::PyObject) -> Verdict {
        let is = |known: &Bound<'py, PyAny>| known.as_ptr() == pointer;
        if self.equal.as_ref().is_some_and(is) {
            Verdict::Same
        } else if self.different.iter().any(is) {
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
        if resident.eq(self.key)? {
            self.equal = Some(resident);
        } else if self.different.len() < MOST_COMPARISONS {
            self.different.push(resident);
        } else {
            return Err(PyRuntimeError::new_err("comparing keys goes on adding keys"));
        }
        Ok(())
    }
}
