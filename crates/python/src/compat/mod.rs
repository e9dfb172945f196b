//! The items of `frazil.compat`'s classes: a mapping of a bounded size that evicts by a rule.
//!
//! The classes themselves are in Python. They and classes derived from them may override
//! `__missing__`, `popitem`, `__delitem__` and `getsizeof`; these are called wherever cachetools
//! calls them.

mod items;
mod number;
mod timer;

use pyo3::exceptions::{PyIndexError, PyKeyError, PyLookupError, PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::shared::Shared;
use crate::table::{Order, Probe, Slot, find};
use items::{Item, Items, Put, Rule};
use number::Number;
pub(crate) use timer::CompatTimer;

/// Attempts to evict while other threads remove items.
const TRIES: u32 = 100;

/// A mapping of a bounded size. The class attribute `_frazil_rule` names the rule of eviction.
#[pyclass(frozen, subclass, mapping, module = "frazil._frazil")]
pub(crate) struct CompatCore {
    items: Shared<Items>,
    /// Chooses the victim from all keys, where the rule says so.
    choose: PyOnceLock<Py<PyAny>>,
    /// For caches with lifetimes: an item's note is the end of its lifetime.
    timer: PyOnceLock<Py<CompatTimer>>,
}

impl CompatCore {
    fn timer(&self, py: Python<'_>) -> Option<&CompatTimer> {
        self.timer.get(py).map(Py::get)
    }

    /// Whether an item lives that has this note.
    #[inline]
    fn lives(&self, py: Python<'_>, note: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        match (self.timer(py), note) {
            (Some(timer), Some(expires)) => timer.now(py)?.lt(expires),
            _ => Ok(true),
        }
    }

    /// Does `work` while the clock stands still, if there is one.
    fn at_once<R>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        let Some(timer) = self.timer(py) else { return work() };
        timer.enter(py)?;
        let result = work();
        timer.exit(py);
        result
    }

    /// Removes what has expired, by the method of the class.
    fn expire(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let Some(timer) = slf.get().timer(py) else { return Ok(()) };
        slf.call_method1(intern!(py, "expire"), (timer.now(py)?,)).map(drop)
    }

    fn count(&self, py: Python<'_>) -> usize {
        self.items.with(py, |items| items.table.len())
    }

    /// Finds a key, and does `work` with the items and its slot. `work` runs no Python code.
    #[inline]
    fn find<'py, R>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        work: impl FnOnce(&mut Items, Option<Slot>) -> R,
    ) -> PyResult<R> {
        find(py, &self.items, |items| &items.table, &mut Probe::new(key)?, work)
    }

    /// The size of a value. Errors: those of `getsizeof`; `ValueError` if it does not fit.
    #[inline]
    fn size(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Number> {
        let py = slf.py();
        let (sized, maxsize) = slf.get().items.with(py, |items| (items.sized, items.maxsize));
        let size = if sized {
            Number::of(&slf.call_method1(intern!(py, "getsizeof"), (value,))?)?
        } else {
            Number::ONE
        };
        if size.exceeds(maxsize) {
            return Err(PyValueError::new_err("value too large"));
        }
        if Number::ZERO.exceeds(size) {
            return Err(PyValueError::new_err("value size must be non-negative"));
        }
        Ok(size)
    }

    /// Assigns, and evicts one item after another until there is room.
    fn put<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        note: Option<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let (this, py) = (slf.get(), slf.py());
        let size = Self::size(slf, &value)?;
        let mut item = Item { value: value.unbind(), size, note: note.map(Bound::unbind), rank: 0 };
        let mut probe = Probe::new(key)?;
        loop {
            let (stored, hash) = (key.clone().unbind(), probe.hash());
            let step = find(
                py,
                &this.items,
                |items| &items.table,
                &mut probe,
                |items, slot| items.put(slot, stored, hash, item),
            )?;
            match step {
                Put::Done(..) => return Ok(()),
                Put::Failed(error, ..) => return Err(error),
                Put::Full(again, _key) => item = again,
            }
            let before = this.items.with(py, |items| items.table.changes());
            Self::evict(slf)?;
            if before == this.items.with(py, |items| items.table.changes()) {
                return Err(PyRuntimeError::new_err("popitem() removes nothing"));
            }
        }
    }

    /// Evicts one item: by `popitem`, unless that is this class's own and does nothing that
    /// users see.
    fn evict(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (this, py) = (slf.get(), slf.py());
        let chosen = this.choose.get(py).is_some();
        if chosen || overrides(slf, intern!(py, "popitem"))? || deletes_itself(slf)? {
            return slf.call_method0(intern!(py, "popitem")).map(drop);
        }
        let victim = this.items.with(py, |items| {
            let victim = items.table.first(Order::Eviction);
            victim.and_then(|victim| items.remove(victim))
        });
        victim.map(drop).ok_or_else(|| empty(slf))
    }

    /// The next victim and its value.
    fn victim<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (this, py) = (slf.get(), slf.py());
        let Some(choose) = this.choose.get(py) else {
            let first = this.items.with(py, |items| {
                let entry = items.table.entry(items.table.first(Order::Eviction)?)?;
                Some((entry.key.bind(py).clone(), entry.value.value.bind(py).clone()))
            });
            return first.ok_or_else(|| empty(slf));
        };
        if this.count(py) == 0 {
            return Err(empty(slf));
        }
        let key = choose.bind(py).call1((CompatKeys { of: slf.clone().unbind() },))?;
        let value = this.peek(py, &key)?.ok_or_else(|| missing(&key))?;
        Ok((key, value))
    }

    fn peek<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.find(py, key, |items, slot| {
            items.table.entry(slot?).map(|entry| entry.value.value.bind(py).clone())
        })
    }
}

/// Whether the class of an instance has a method of its own in place of this module's.
fn overrides(slf: &Bound<'_, CompatCore>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    let own = slf.py().get_type::<CompatCore>().getattr(name)?;
    Ok(!slf.get_type().getattr(name)?.is(&own))
}

fn deletes_itself(slf: &Bound<'_, CompatCore>) -> PyResult<bool> {
    overrides(slf, intern!(slf.py(), "__delitem__"))
}

fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
}

/// The `KeyError` of an empty cache, without a cause.
fn empty(slf: &Bound<'_, CompatCore>) -> PyErr {
    let name = slf.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
    let error = PyKeyError::new_err(format!("{name} is empty"));
    error.set_cause(slf.py(), None);
    error
}

#[pymethods]
impl CompatCore {
    #[new]
    #[classmethod]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(
        cls: &Bound<'_, PyType>,
        _arguments: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let name: String = cls.getattr(intern!(cls.py(), "_frazil_rule"))?.extract()?;
        let Some(rule) = Rule::named(&name) else {
            return Err(PyValueError::new_err(format!("no rule is called {name}")));
        };
        Ok(Self {
            items: Shared::new(Items::new(rule)),
            choose: PyOnceLock::new(),
            timer: PyOnceLock::new(),
        })
    }

    /// Takes the arguments of `__init__`. `sized`: values have sizes of their own.
    #[pyo3(signature = (maxsize, sized, choose=None, timer=None))]
    fn _begin(
        &self,
        py: Python<'_>,
        maxsize: &Bound<'_, PyAny>,
        sized: bool,
        choose: Option<Py<PyAny>>,
        timer: Option<Py<CompatTimer>>,
    ) -> PyResult<()> {
        let size = Number::of(maxsize)?;
        if Number::ZERO.exceeds(size) || size.is_nan() {
            return Err(PyValueError::new_err("maxsize must be non-negative"));
        }
        self.items.with(py, |items| (items.maxsize, items.sized) = (size, sized));
        if let Some(choose) = choose {
            self.choose.get_or_init(py, || choose);
        }
        if let Some(timer) = timer {
            self.timer.get_or_init(py, || timer);
        }
        Ok(())
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (this, py) = (slf.get(), slf.py());
        if let Some((value, note)) = this._find(py, key, true)?
            && this.lives(py, note)?
        {
            return Ok(value);
        }
        slf.call_method1(intern!(py, "__missing__"), (key,))
    }

    fn __missing__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(missing(key))
    }

    fn __setitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        Self::put(slf, key, value, None)
    }

    /// Assigns an item with a note.
    fn _put<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        note: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        Self::put(slf, key, value, Some(note))
    }

    fn __delitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<()> {
        let removed = self.find(py, key, |items, slot| items.remove(slot?))?;
        let Some(mut removed) = removed else { return Err(missing(key)) };
        let note = removed.value.note.take().map(|note| note.into_bound(py));
        if self.lives(py, note)? { Ok(()) } else { Err(missing(key)) }
    }

    /// Removes a key, if it is there.
    fn _discard<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<()> {
        let removed = self.find(py, key, |items, slot| items.remove(slot?))?;
        drop(removed);
        Ok(())
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        match self._find(py, key, false)? {
            Some((_, note)) => self.lives(py, note),
            None => Ok(false),
        }
    }

    fn __len__(slf: &Bound<'_, Self>) -> PyResult<usize> {
        Self::expire(slf)?;
        Ok(slf.get().count(slf.py()))
    }

    fn __iter__(slf: &Bound<'_, Self>) -> CompatIterator {
        let state = slf
            .get()
            .items
            .with(slf.py(), |items| (items.table.first(Order::Insertion), items.table.changes()));
        CompatIterator { of: slf.clone().unbind(), state: Shared::new(state) }
    }

    /// The value of a key if it is in the cache, else `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        slf.get().at_once(slf.py(), || {
            if slf.contains(key)? { slf.as_any().get_item(key).map(Some) } else { Ok(default) }
        })
    }

    /// Removes a key and returns its value, else `default`, else raises `KeyError`.
    #[pyo3(signature = (key, *default))]
    fn _pop<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().at_once(slf.py(), || {
            if !slf.contains(key)? {
                return default.get_item(0).map_err(|_| missing(key));
            }
            let value = slf.as_any().get_item(key)?;
            slf.as_any().del_item(key)?;
            Ok(value)
        })
    }

    /// The value of a key if it is in the cache, else `default`, which is assigned.
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        slf.get().at_once(slf.py(), || {
            if slf.contains(key)? {
                return slf.as_any().get_item(key).map(Some);
            }
            slf.as_any().set_item(key, default.clone())?;
            Ok(default)
        })
    }

    /// Removes the item that is evicted next, and returns it.
    fn popitem<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        slf.get().at_once(slf.py(), || {
            Self::expire(slf)?;
            let (this, py) = (slf.get(), slf.py());
            let changes = || this.items.with(py, |items| items.table.changes());
            let mut tries = if deletes_itself(slf)? { 1 } else { TRIES };
            loop {
                tries -= 1;
                let before = changes();
                let popped = Self::victim(slf).and_then(|(key, value)| {
                    slf.as_any().del_item(&key)?;
                    Ok((key, value))
                });
                // Another thread may have removed the victim, or keys while one was chosen.
                match popped {
                    Err(error)
                        if tries > 0
                            && error.is_instance_of::<PyLookupError>(py)
                            && before != changes() => {}
                    popped => return popped,
                }
            }
        })
    }

    /// Removes all items.
    fn clear(&self, py: Python<'_>) {
        let items = self.items.with(py, Items::take);
        drop(items);
    }

    #[getter]
    fn currsize<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::expire(slf)?;
        slf.get().items.with(slf.py(), |items| items.total).object(slf.py())
    }

    /// The keys in the order of insertion, expired ones among them.
    fn _keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyAny>> {
        self.items.with(py, |items| items.keys(py))
    }

    fn _timer(&self, py: Python<'_>) -> Option<Py<CompatTimer>> {
        self.timer.get(py).map(|timer| timer.clone_ref(py))
    }

    /// How many items there are, expired ones among them.
    fn _count(&self, py: Python<'_>) -> usize {
        self.count(py)
    }

    /// The value and the note of a key, or `None`. `touch`: it counts as read.
    fn _find<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        touch: bool,
    ) -> PyResult<Option<Noted<'py>>> {
        self.find(py, key, |items, slot| {
            let slot = slot?;
            if touch {
                items.touch(slot);
            }
            let item = &items.table.entry(slot)?.value;
            let note = item.note.as_ref().map(|note| note.bind(py).clone());
            Some((item.value.bind(py).clone(), note))
        })
    }

    /// Removes from the first in the order of insertion on what has expired by `time`.
    fn _expire<'py>(
        &self,
        py: Python<'py>,
        time: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let mut expired = Vec::new();
        loop {
            let first = self.items.with(py, |items| {
                let slot = items.table.first(Order::Insertion)?;
                let note = items.table.entry(slot)?.value.note.as_ref()?.bind(py).clone();
                Some((slot, note))
            });
            let Some((slot, note)) = first else { return Ok(expired) };
            if time.lt(&note)? {
                return Ok(expired);
            }
            // The comparison may have changed the items: it is removed only if it is as it was.
            let removed = self.items.with(py, |items| {
                let held = items.table.entry(slot)?.value.note.as_ref()?;
                if held.is(&note) { items.remove(slot) } else { None }
            });
            if let Some(entry) = removed {
                let (key, item) = entry.into_parts();
                expired.push((key.into_bound(py), item.value.into_bound(py)));
            }
        }
    }

    /// All items as they are inserted by `_load`, and the positions among them in the order of
    /// eviction.
    fn _dump<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Dumped<'py>>, Vec<usize>)> {
        let (items, order) = self.items.with(py, |items| items.dump(py));
        let items = items
            .into_iter()
            .map(|(key, value, size, note, uses)| Ok((key, value, size.object(py)?, note, uses)));
        Ok((items.collect::<PyResult<_>>()?, order))
    }

    /// Replaces all items by those that `_dump` returned.
    fn _load<'py>(
        &self,
        py: Python<'py>,
        dumped: Vec<Dumped<'py>>,
        order: Vec<usize>,
    ) -> PyResult<()> {
        self.clear(py);
        for (key, value, size, note, uses) in &dumped {
            let size = Number::of(size)?;
            let note = note.as_ref().map(|note| note.clone().unbind());
            let item = Item { value: value.clone().unbind(), size, note, rank: *uses };
            let mut probe = Probe::new(key)?;
            let (stored, hash) = (key.clone().unbind(), probe.hash());
            let step = find(
                py,
                &self.items,
                |items| &items.table,
                &mut probe,
                |items, slot| items.restore(slot, stored, hash, item),
            )?;
            if let Put::Failed(error, ..) = step {
                return Err(error);
            }
        }
        let fits = self.items.with(py, |items| items.restore_order(&order));
        if fits { Ok(()) } else { Err(PyValueError::new_err("the state of a cache is damaged")) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The collector has stopped all threads: what was set is seen without the lock.
        // SAFETY: CPython calls this with the thread attached; only a pointer is read.
        let py = unsafe { Python::assume_attached() };
        visit.call(self.choose.get(py))?;
        visit.call(self.timer.get(py))?;
        let visited = self.items.try_with(|items| {
            items.table.traverse(&visit, |item| {
                visit.call(&item.value)?;
                visit.call(&item.note)
            })
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        let items = self.items.try_with(Items::take);
        drop(items);
    }
}

type Noted<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// Key, value, size, note, uses.
type Dumped<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, u64);

/// All keys in an order of no meaning, as a sequence to choose from.
#[pyclass(frozen, sequence, module = "frazil._frazil")]
struct CompatKeys {
    of: Py<CompatCore>,
}

#[pymethods]
impl CompatKeys {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.of.get().count(py)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, position: usize) -> PyResult<Bound<'py, PyAny>> {
        let key = self.of.get().items.with(py, |items| {
            let entry = items.table.entry(items.at(position)?)?;
            Some(entry.key.bind(py).clone())
        });
        key.ok_or_else(|| PyIndexError::new_err("no key has that position"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.of)
    }
}

/// The keys in the order of insertion, as long as none comes or goes.
#[pyclass(frozen, module = "frazil._frazil")]
struct CompatIterator {
    of: Py<CompatCore>,
    state: Shared<(Option<Slot>, u64)>,
}

#[pymethods]
impl CompatIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (slot, changes) = self.state.with(py, |state| *state);
        let next = self.of.get().items.with(py, |items| {
            if items.table.changes() != changes {
                return None;
            }
            let entry = slot.and_then(|slot| items.table.entry(slot));
            let after = slot.and_then(|slot| items.table.after(slot, Order::Insertion));
            Some((entry.map(|entry| entry.key.bind(py).clone()), after))
        });
        let Some((key, after)) = next else {
            return if slot.is_none() {
                Ok(None)
            } else {
                Err(PyRuntimeError::new_err("the cache changed size during iteration"))
            };
        };
        self.state.with(py, |state| state.0 = after);
        Ok(key)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.of)
    }
}
