//! Calls by CPython's vectorcall protocol, and keys of their arguments.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTypeInfo, ffi};

/// The arguments of one call, borrowed from the caller's stack.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a, 'py> {
    py: Python<'py>,
    /// The positional ones, then the values of the named ones.
    values: &'a [*mut ffi::PyObject],
    positional: usize,
    /// A tuple of strings, or null.
    names: *mut ffi::PyObject,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// # Safety
    ///
    /// The three come from a call by the vectorcall protocol that has not yet returned.
    #[inline]
    pub(crate) unsafe fn new(
        py: Python<'py>,
        values: *const *mut ffi::PyObject,
        flagged: usize,
        names: *mut ffi::PyObject,
    ) -> Self {
        // SAFETY: by the protocol `values` has as many arguments as `flagged` and `names` say.
        unsafe {
            let positional = ffi::PyVectorcall_NARGS(flagged) as usize;
            let named = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) as usize };
            let count = positional + named;
            let values = if count == 0 { &[] } else { std::slice::from_raw_parts(values, count) };
            Self {
                py,
                values,
                positional,
                names: if named == 0 { std::ptr::null_mut() } else { names },
            }
        }
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.py
    }

    /// The key of the call, as functools makes it: an integer or a string alone, else a tuple of
    /// the arguments, a mark, the named ones in their order, and the types if `typed`.
    #[inline]
    pub(crate) fn key(&self, typed: bool) -> PyResult<Bound<'py, PyAny>> {
        if self.names.is_null() && !typed {
            if let &[only] = self.values {
                // SAFETY: the caller holds the argument.
                let only = unsafe { Borrowed::from_ptr(self.py, only) };
                let kind = only.get_type_ptr();
                if kind == &raw mut ffi::PyUnicode_Type || kind == &raw mut ffi::PyLong_Type {
                    return Ok(only.to_owned());
                }
            }
            return self.tuple().map(Bound::into_any);
        }
        self.long_key(typed)
    }

    #[cold]
    fn long_key(&self, typed: bool) -> PyResult<Bound<'py, PyAny>> {
        let values = self.values.iter().map(|&value| self.own(value));
        let mut parts: Vec<_> = values.clone().take(self.positional).collect();
        if !self.names.is_null() {
            parts.push(mark(self.py)?.clone());
            let names = self.own(self.names).cast_into::<PyTuple>()?;
            for (name, value) in names.iter().zip(values.clone().skip(self.positional)) {
                parts.extend([name, value]);
            }
        }
        if typed {
            parts.extend(values.map(|value| value.get_type().into_any()));
        }
        PyTuple::new(self.py, parts).map(Bound::into_any)
    }

    /// The key of a call with these arguments.
    pub(crate) fn key_of(
        positional: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
        typed: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = positional.py();
        let mut values: Vec<_> = positional.iter().collect();
        let mut names = Vec::new();
        for (name, value) in named.into_iter().flatten() {
            names.push(name);
            values.push(value);
        }
        let any = !names.is_empty();
        let names = PyTuple::new(py, names)?;
        let values: Vec<_> = values.iter().map(Bound::as_ptr).collect();
        let arguments = Arguments {
            py,
            values: &values,
            positional: positional.len(),
            names: if any { names.as_ptr() } else { std::ptr::null_mut() },
        };
        arguments.key(typed)
    }

    fn own(&self, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
        // SAFETY: the caller holds what it passes until the call returns.
        unsafe { Bound::from_borrowed_ptr(self.py, object) }
    }

    /// The positional arguments.
    #[inline]
    pub(crate) fn tuple(&self) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(
            self.py,
            self.values.iter().take(self.positional).map(|&value| self.own(value)),
        )
    }

    /// The named arguments.
    pub(crate) fn named(&self) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.names.is_null() {
            return Ok(None);
        }
        let named = PyDict::new(self.py);
        let names = self.own(self.names).cast_into::<PyTuple>()?;
        for (name, &value) in names.iter().zip(&self.values[self.positional..]) {
            named.set_item(name, self.own(value))?;
        }
        Ok(Some(named))
    }

    /// Calls a function with these arguments.
    pub(crate) fn pass_to(&self, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the arguments are as the protocol wants them; the result is a new reference, or
        // null with an error set.
        unsafe {
            let (values, count) = (self.values.as_ptr(), self.positional);
            let result = ffi::PyObject_Vectorcall(function.as_ptr(), values, count, self.names);
            Bound::from_owned_ptr_or_err(self.py, result)
        }
    }
}

/// The mark between positional and named arguments in a key. It equals no object of a user.
fn mark(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static MARK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let mark = MARK.get_or_try_init(py, || {
        let object = py.import("builtins")?.getattr("object")?;
        object.call0().map(Bound::unbind)
    })?;
    Ok(mark.bind(py))
}

/// Has CPython call instances of the class `T`, and of `class`, a Python class derived from it,
/// through the function pointer at `field` in each instance, without a tuple of arguments; and
/// call them as methods without a bound method in between.
///
/// `sample` is an instance of `T`, `field` the pointer in it. To be called once, as the class is
/// made, before anything calls an instance.
///
/// # Safety
///
/// Every instance of `T` has a `vectorcallfunc` at `field` that does what `__call__` does, and
/// its `__get__` binds as that of a function does.
pub(crate) unsafe fn call_fast<T: PyTypeInfo>(
    py: Python<'_>,
    sample: &Bound<'_, T>,
    field: *const ffi::vectorcallfunc,
    class: &Bound<'_, pyo3::types::PyType>,
) -> PyResult<()> {
    let offset = (field as usize).wrapping_sub(sample.as_ptr() as usize);
    let own = T::type_object_raw(py);
    // SAFETY: `own` is a live type.
    let size = unsafe { (*own).tp_basicsize } as usize;
    if offset.saturating_add(size_of::<ffi::vectorcallfunc>()) > size {
        return Err(PyRuntimeError::new_err("the function pointer lies outside of the object"));
    }
    let flags = ffi::Py_TPFLAGS_HAVE_VECTORCALL | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR;
    for kind in [own, class.as_type_ptr()] {
        // SAFETY: both are heap types that this module has just made; PyO3 lays every instance
        // of `T` out alike, and a derived class begins with its base's layout, so the field is
        // at the same offset in each.
        unsafe {
            (*kind).tp_vectorcall_offset = offset as ffi::Py_ssize_t;
            #[cfg(not(Py_GIL_DISABLED))]
            {
                (*kind).tp_flags |= flags;
            }
            #[cfg(Py_GIL_DISABLED)]
            (*kind).tp_flags.fetch_or(flags, std::sync::atomic::Ordering::Relaxed);
            ffi::PyType_Modified(kind);
        }
    }
    Ok(())
}
