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

/// Kinds of keys whose comparison within a kind runs no Python code. Of different kinds none are equal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bytes,
    Number,
    /// Any other: only its own code knows.
    Other,
}

#[inline(always)]
fn kind_of(key: *mut ffi::PyObject) -> Kind {
    // SAFETY: the key is alive, and its type too.
    let kind = unsafe { ffi::Py_TYPE(key) };
    if kind == &raw mut ffi::PyUnicode_Type {
        Kind::Text
    } else if kind == &raw mut ffi::PyLong_Type
        || kind == &raw mut ffi::PyFloat_Type
        || kind == &raw mut ffi::PyBool_Type
    {
        Kind::Number
    } else if kind == &raw mut ffi::PyBytes_Type {
        Kind::Bytes
    } else {
        Kind::Other
    }
}

/// Compares keys with equal hashes, if that runs no Python code; else `None`.
///
/// # Safety
/// Both are alive and the thread is attached.
#[inline(always)]
pub(super) unsafe fn compare_plainly(
    resident: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> Option<bool> {
    let (one, other) = (kind_of(resident), kind_of(key));
    if one == Kind::Other || other == Kind::Other {
        // SAFETY: the caller sees to it.
        return unsafe { compare_tuples(resident, key) };
    }
    // Bytes and text are not compared: Python may be told to warn of that.
    if one != other {
        return Some(false);
    }
    // SAFETY: the caller sees to it. By their types this runs no Python code.
    match unsafe { ffi::PyObject_RichCompareBool(resident, key, ffi::Py_EQ) } {
        0 => Some(false),
        1 => Some(true),
        _ => {
            // No memory to compare numbers: outside of the section it is tried again, and raised.
            // SAFETY: the thread is attached; the error is a plain one.
            unsafe { ffi::PyErr_Clear() };
            None
        }
    }
}

/// Compares tuples part by part, as the keys of calls with several arguments are: if both are exactly
/// tuples, and no part needs Python code.
///
/// # Safety
/// That of [`compare_plainly`].
#[inline(never)]
unsafe fn compare_tuples(resident: *mut ffi::PyObject, key: *mut ffi::PyObject) -> Option<bool> {
    let tuple = &raw mut ffi::PyTuple_Type;
    // SAFETY: both are alive, and hold their parts, which never change.
    unsafe {
        if ffi::Py_TYPE(resident) != tuple || ffi::Py_TYPE(key) != tuple {
            return None;
        }
        let length = ffi::PyTuple_GET_SIZE(resident);
        if length != ffi::PyTuple_GET_SIZE(key) {
            return Some(false);
        }
        for position in 0..length {
            let one = ffi::PyTuple_GET_ITEM(resident, position);
            let other = ffi::PyTuple_GET_ITEM(key, position);
            if one == other {
                continue;
            }
            // Tuples in tuples are left to Python, which bounds the depth.
            if kind_of(one) == Kind::Other || kind_of(other) == Kind::Other {
                return None;
            }
            match compare_plainly(one, other) {
                Some(true) => {}
                answer => return answer,
            }
        }
    }
    Some(true)
}

/// Python's hashes of whole numbers are the numbers: here every bit depends on every bit.
#[inline(always)]
pub(super) fn mix(hash: isize) -> u64 {
    let product =
        u128::from(hash as u64 ^ 0x243f_6a88_85a3_08d3) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of a key: the only place that calls `__hash__`.
#[inline(always)]
pub(super) fn hash(key: &Bound<'_, PyAny>) -> PyResult<u64> {
    // SAFETY: the key is alive and the thread attached.
    let hash = unsafe { ffi::PyObject_Hash(key.as_ptr()) };
    if hash == -1 { Err(PyErr::fetch(key.py())) } else { Ok(mix(hash)) }
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
