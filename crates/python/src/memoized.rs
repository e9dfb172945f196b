//! A function with the results of its last calls: `frazil.lru_cache`, and the hits of
//! `frazil.cached`.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::cache::{Cache, CallKey};
use crate::calls::{Arguments, call_fast};
use crate::keys::plain_hash;
use crate::shared::Shared;
use crate::table::{Entry, Order, Probe, Search, Slot, Table, find};

/// A function with the results of its last calls. The classes of Python derive from it.
#[pyclass(frozen, subclass, module = "frazil._frazil")]
pub(crate) struct Memoized {
    vectorcall: ffi::vectorcallfunc,
    function: Py<PyAny>,
    /// `None`: without bound.
    maxsize: Option<usize>,
    typed: bool,
    /// Makes the key of a call from its arguments.
    key: Option<Py<PyAny>>,
    /// Called with the `CallKey`, the arguments and the named ones if a cache has no result.
    miss: Option<Py<PyAny>>,
    results: Shared<Results>,
    /// Holds the results in place of `results`.
    cache: Option<Py<Cache>>,
}

struct Results {
    table: Table<Py<PyAny>>,
    hits: u64,
    misses: u64,
}

/// Objects that an insertion removed or refused, dropped after the section.
struct Leftover {
    _evicted: Option<Entry<Py<PyAny>>>,
    _refused: Option<(Py<PyAny>, Py<PyAny>)>,
    error: Option<PyErr>,
}

impl Results {
    #[inline]
    fn answer<'py>(&mut self, py: Python<'py>, slot: Option<Slot>) -> Option<Bound<'py, PyAny>> {
        let Some(slot) = slot else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.table.move_last(slot, Order::Eviction);
        self.table.entry(slot).map(|entry| entry.value.bind(py).clone())
    }

    /// Stores a result, last in order, unless the key has one and is to keep it.
    fn insert(
        &mut self,
        slot: Option<Slot>,
        key: Py<PyAny>,
        hash: u64,
        value: Py<PyAny>,
        maxsize: Option<usize>,
    ) -> Leftover {
        let mut leftover = Leftover { _evicted: None, _refused: None, error: None };
        if slot.is_some() || maxsize == Some(0) {
            leftover._refused = Some((key, value));
            return leftover;
        }
        if let Err(error) = self.table.reserve() {
            leftover.error = Some(error);
            leftover._refused = Some((key, value));
            return leftover;
        }
        let full = maxsize.is_some_and(|maxsize| self.table.len() >= maxsize);
        let oldest = if full { self.table.first(Order::Eviction) } else { None };
        leftover._evicted = oldest.and_then(|oldest| self.table.remove(oldest));
        self.table.insert(key, hash, value);
        leftover
    }
}

impl Memoized {
    /// The stored result, counted as a hit, or `None`, counted as a miss.
    fn stored<'py>(
        &self,
        py: Python<'py>,
        probe: &mut Probe<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        find(
            py,
            &self.results,
            |results| &results.table,
            probe,
            |results, slot| results.answer(py, slot),
        )
    }

    /// Stores a result unless a nested call or another thread has stored one.
    fn store<'py>(
        &self,
        probe: &mut Probe<'_, 'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = key.py();
        let (stored, result, hash) = (key.clone().unbind(), value.clone().unbind(), probe.hash());
        let leftover = find(
            py,
            &self.results,
            |results| &results.table,
            probe,
            |results, slot| results.insert(slot, stored, hash, result, self.maxsize),
        )?;
        leftover.error.map_or(Ok(()), Err)
    }

    #[inline]
    fn key<'py>(&self, arguments: &Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.key {
            None => arguments.key(self.typed),
            Some(key) => arguments.pass_to(key.bind(arguments.py())),
        }
    }

    #[inline]
    fn call<'py>(&self, arguments: &Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        if let Some(cache) = &self.cache {
            return self.call_through(cache.get(), arguments);
        }
        if self.maxsize == Some(0) {
            self.results.with(py, |results| results.misses += 1);
            return arguments.pass_to(self.function.bind(py));
        }
        let key = self.key(arguments)?;
        let probe = Probe::new(&key)?;
        let quick = self.results.with(py, |results| match results.table.search(&probe, |_| ()) {
            Search::Found(slot) => Some(results.answer(py, Some(slot))),
            Search::Absent => Some(results.answer(py, None)),
            Search::Unknown => None,
        });
        match quick {
            Some(Some(value)) => Ok(value),
            quick => self.call_slowly(arguments, &key, probe, quick.is_some()),
        }
    }

    /// A call whose results are in a cache.
    #[inline]
    fn call_through<'py>(
        &self,
        cache: &Cache,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = self.key(arguments)?;
        let hash = plain_hash(&key)?;
        match cache.answer(&key, hash)? {
            Some(value) => Ok(value),
            None => self.missed(arguments, &key, hash),
        }
    }

    #[cold]
    fn missed<'py>(
        &self,
        arguments: &Arguments<'_, 'py>,
        key: &Bound<'py, PyAny>,
        hash: isize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        match &self.miss {
            Some(miss) => {
                let key = CallKey::new(key, hash);
                miss.bind(py).call1((key, arguments.tuple()?, arguments.named()?))
            }
            None => arguments.pass_to(self.function.bind(py)),
        }
    }

    /// The rest of a call that is no hit as far as is known without Python code. `missed`: it is
    /// a miss, and counted.
    #[cold]
    fn call_slowly<'py>(
        &self,
        arguments: &Arguments<'_, 'py>,
        key: &Bound<'py, PyAny>,
        mut probe: Probe<'_, 'py>,
        missed: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        // Only where PyO3 knows that the thread is attached does it release objects at once.
        Python::attach(move |_| {
            if !missed && let Some(value) = self.stored(py, &mut probe)? {
                return Ok(value);
            }
            let value = arguments.pass_to(self.function.bind(py))?;
            self.store(&mut probe, key, &value)?;
            Ok(value)
        })
    }
}

/// The entry of CPython into [`Memoized`].
unsafe extern "C" fn vectorcall(
    callable: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    flagged: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls with a thread attached, an instance of `Memoized` or of a class
    // derived from it, and arguments by its protocol, which all outlive the call.
    let result = unsafe {
        let py = Python::assume_attached();
        let callable = Borrowed::from_ptr(py, callable);
        let memoized = callable.cast_unchecked::<Memoized>();
        memoized.get().call(&Arguments::new(py, values, flagged, names))
    };
    match result {
        Ok(value) => value.into_ptr(),
        Err(error) => {
            // SAFETY: as above.
            error.restore(unsafe { Python::assume_attached() });
            std::ptr::null_mut()
        }
    }
}

#[pymethods]
impl Memoized {
    #[new]
    #[pyo3(signature = (function, maxsize, typed, key=None, cache=None, miss=None))]
    fn new(
        function: Bound<'_, PyAny>,
        maxsize: Option<usize>,
        typed: bool,
        key: Option<Py<PyAny>>,
        cache: Option<Py<Cache>>,
        miss: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err("the first argument must be callable"));
        }
        let results = Shared::new(Results { table: Table::new(), hits: 0, misses: 0 });
        let function = function.unbind();
        Ok(Self { vectorcall, function, maxsize, typed, key, cache, miss, results })
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = named.map_or(std::ptr::null_mut(), |named| named.as_ptr());
        // SAFETY: all three are alive; the result is a new reference, or null with an error set.
        unsafe {
            let result = ffi::PyVectorcall_Call(slf.as_ptr(), arguments.as_ptr(), named);
            Bound::from_owned_ptr_or_err(slf.py(), result)
        }
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: Option<&Bound<'py, PyAny>>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(instance) = instance else { return Ok(slf.clone().into_any()) };
        static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        METHOD.import(slf.py(), "types", "MethodType")?.call1((slf, instance))
    }

    /// The key of a call.
    #[pyo3(signature = (*arguments, **named))]
    fn cache_key<'py>(
        slf: &Bound<'py, Self>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if let Some(key) = &this.key {
            return key.bind(slf.py()).call(arguments, named);
        }
        Arguments::key_of(arguments, named, this.typed)
    }

    /// Hits, misses, and how many results are stored.
    fn _counts(&self, py: Python<'_>) -> (u64, u64, usize) {
        self.results.with(py, |results| (results.hits, results.misses, results.table.len()))
    }

    /// Forgets all results, and the counts.
    fn cache_clear(&self, py: Python<'_>) {
        let entries = self.results.with(py, |results| {
            (results.hits, results.misses) = (0, 0);
            results.table.take()
        });
        drop(entries);
    }

    /// The function itself: it has one cache.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The function itself, as by `copy`.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// A pickle is the function's name.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr(intern!(slf.py(), "__qualname__"))
    }

    /// Has CPython call instances of `cls` without building a tuple. For the classes of this
    /// package, once for each.
    #[classmethod]
    fn _call_fast(cls: &Bound<'_, PyType>) -> PyResult<()> {
        let py = cls.py();
        if !cls.is_subclass_of::<Self>()? {
            return Err(PyRuntimeError::new_err("no class of functions with results"));
        }
        let sample =
            Bound::new(py, Self::new(cls.clone().into_any(), None, false, None, None, None)?)?;
        let field = &raw const sample.get().vectorcall;
        // SAFETY: `new` sets the pointer in every instance, `__call__` calls it, and `__get__`
        // makes a bound method.
        unsafe { call_fast::<Self>(py, &sample, field, cls) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)?;
        visit.call(&self.key)?;
        visit.call(&self.miss)?;
        visit.call(&self.cache)?;
        let visited = self
            .results
            .try_with(|results| results.table.traverse(&visit, |value| visit.call(value)));
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        let entries = self.results.try_with(|results| results.table.take());
        drop(entries);
    }
}
