//! Hashes of keys, and comparisons of keys that run no Python code.

use pyo3::ffi;
use pyo3::prelude::*;

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
pub(crate) unsafe fn compare_plainly(
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
            // No memory to compare numbers: where Python code may run it is tried again, and raised.
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
pub(crate) fn mix(hash: isize) -> u64 {
    let product =
        u128::from(hash as u64 ^ 0x243f_6a88_85a3_08d3) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of a key.
#[inline(always)]
pub(crate) fn hash(key: &Bound<'_, PyAny>) -> PyResult<u64> {
    plain_hash(key).map(mix)
}

/// The same, as Python has it.
#[inline(always)]
pub(crate) fn plain_hash(key: &Bound<'_, PyAny>) -> PyResult<isize> {
    // SAFETY: the key is alive and the thread attached.
    let hash = unsafe { ffi::PyObject_Hash(key.as_ptr()) };
    if hash == -1 { Err(PyErr::fetch(key.py())) } else { Ok(hash) }
}
