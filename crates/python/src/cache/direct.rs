//! `cache[key]`, `cache[key] = value`, `del cache[key]` and `cache.get(key)` as CPython calls them,
//! without PyO3 between: it takes 50 to 150 instructions a call, as many as the look-up itself.
//!
//! Look-ups that need more than one comparison continue in [`Cache`]'s own methods, attached as PyO3 knows it.

use std::ffi::c_int;
use std::ptr::null_mut;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::{Borrowed, intern};

use super::probe::{self, Probe};
use super::{Cache, Seen};

/// The answer of a slot.
enum Answer {
    Value(*mut PyObject),
    Missing,
    Error,
}

/// The cache of an object, of whose type it is.
///
/// # Safety
/// `this` is alive and a `Cache`, and so it is while the result is used.
#[inline(always)]
unsafe fn cache_of<'a>(py: Python<'a>, this: *mut PyObject) -> Borrowed<'a, 'a, Cache> {
    // SAFETY: the caller sees to it.
    unsafe { Borrowed::from_ptr(py, this).cast_unchecked::<Cache>() }
}

/// Looks a key up.
///
/// # Safety
/// CPython calls: the thread is attached, `this` is a `Cache`, and both are alive.
#[inline(always)]
unsafe fn look_up(this: *mut PyObject, key: *mut PyObject) -> Answer {
    // SAFETY: the caller sees to it.
    let (py, hash) = unsafe { (Python::assume_attached(), ffi::PyObject_Hash(key)) };
    if hash == -1 {
        return Answer::Error;
    }
    let wide = probe::mix(hash);
    // SAFETY: the caller sees to it.
    match unsafe { cache_of(py, this).get().value_at_a_glance(py, wide, key) } {
        Seen::Done(Some(value)) => Answer::Value(value.into_ptr()),
        Seen::Done(None) => Answer::Missing,
        Seen::Failed => Answer::Error,
        // SAFETY: the caller sees to it.
        Seen::Unsure => unsafe { look_up_properly(this, key, wide) },
    }
}

/// # Safety
/// That of [`look_up`].
#[cold]
#[inline(never)]
unsafe fn look_up_properly(this: *mut PyObject, key: *mut PyObject, wide: u64) -> Answer {
    Python::attach(|py| {
        // SAFETY: the caller sees to it.
        let (cache, key) = unsafe { (cache_of(py, this), Borrowed::from_ptr(py, key)) };
        match cache.get().look_up(&mut Probe::hashed(&key, wide)) {
            Ok(Some(value)) => Answer::Value(value.into_ptr()),
            Ok(None) => Answer::Missing,
            Err(error) => {
                error.restore(py);
                Answer::Error
            }
        }
    })
}

/// `mp_subscript`.
unsafe extern "C" fn subscript(this: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: CPython calls.
    match unsafe { look_up(this, key) } {
        Answer::Value(value) => value,
        Answer::Error => null_mut(),
        Answer::Missing => {
            // SAFETY: CPython calls. A tuple, or the error would be a key's parts.
            unsafe {
                let arguments = ffi::PyTuple_Pack(1, key);
                if !arguments.is_null() {
                    ffi::PyErr_SetObject(ffi::PyExc_KeyError, arguments);
                    ffi::Py_DECREF(arguments);
                }
            }
            null_mut()
        }
    }
}

/// `mp_ass_subscript`: without a value a deletion.
unsafe extern "C" fn assign(
    this: *mut PyObject,
    key: *mut PyObject,
    value: *mut PyObject,
) -> c_int {
    // SAFETY: CPython calls.
    let (py, hash) = unsafe { (Python::assume_attached(), ffi::PyObject_Hash(key)) };
    if hash == -1 {
        return -1;
    }
    let wide = probe::mix(hash);
    let seen = if value.is_null() {
        Seen::Unsure
    } else {
        // SAFETY: CPython calls.
        unsafe { cache_of(py, this).get().store_at_a_glance(py, wide, key, value) }
    };
    match seen {
        Seen::Done(()) => 0,
        Seen::Failed => -1,
        // SAFETY: CPython calls.
        Seen::Unsure => unsafe { assign_properly(this, key, value, wide) },
    }
}

/// # Safety
/// That of [`look_up`]; `value` is alive or null.
#[inline(never)]
unsafe fn assign_properly(
    this: *mut PyObject,
    key: *mut PyObject,
    value: *mut PyObject,
    wide: u64,
) -> c_int {
    Python::attach(|py| {
        // SAFETY: the caller sees to it.
        let (cache, key) = unsafe { (cache_of(py, this), Borrowed::from_ptr(py, key)) };
        let probe = &mut Probe::hashed(&key, wide);
        // SAFETY: the caller sees to it.
        let done = match unsafe { Borrowed::from_ptr_or_opt(py, value) } {
            Some(value) => cache.get().store(probe, &value),
            None => cache.get().delete(probe),
        };
        match done {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}

/// `get(key, /, default=None)`.
unsafe extern "C" fn get(
    this: *mut PyObject,
    arguments: *const *mut PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    let mut count = positional;
    // SAFETY: CPython calls, with null or a tuple of strings.
    let named = if names.is_null() { 0 } else { unsafe { ffi::PyTuple_GET_SIZE(names) } };
    if named > 0 {
        // SAFETY: as above, and it is not empty.
        unsafe {
            count += named;
            let name = ffi::PyTuple_GET_ITEM(names, 0);
            if ffi::PyUnicode_CompareWithASCIIString(name, c"default".as_ptr()) != 0 {
                count = 0;
            }
        }
    }
    if positional == 0 || !(1..=2).contains(&count) {
        Python::attach(|py| {
            let problem = "get takes a key and, by place or by name, a default";
            PyTypeError::new_err(problem).restore(py);
        });
        return null_mut();
    }
    // SAFETY: CPython calls, with so many arguments.
    match unsafe { look_up(this, *arguments) } {
        Answer::Value(value) => value,
        Answer::Error => null_mut(),
        // SAFETY: the same.
        Answer::Missing => unsafe {
            let default = if count == 2 { *arguments.add(1) } else { ffi::Py_None() };
            ffi::Py_INCREF(default);
            default
        },
    }
}

const GET: &std::ffi::CStr = c"get($self, key, /, default=None)
--

The value of a key, or the default if there is none. A use of the entry.

>>> import frazil
>>> cache = frazil.Cache(10)
>>> cache[\"a\"] = 1
>>> cache.get(\"a\"), cache.get(\"b\"), cache.get(\"b\", default=0)
(1, None, 0)
";

/// Puts these functions in the places of PyO3's.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<Cache>();
    // It lives as long as the process, as the type does.
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c"get".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: get },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: GET.as_ptr(),
    }));
    let kind = class.as_type_ptr();
    // SAFETY: the type is alive, has a mapping's slots, as PyO3 made them from `__getitem__` and
    // `__setitem__`, and nobody else uses it yet.
    let method = unsafe {
        let slots = (*kind).tp_as_mapping;
        (*slots).mp_subscript = Some(subscript);
        (*slots).mp_ass_subscript = Some(assign);
        ffi::PyType_Modified(kind);
        Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(kind, definition))?
    };
    class.setattr(intern!(py, "get"), method)
}
