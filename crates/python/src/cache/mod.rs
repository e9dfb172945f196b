//! `frazil.Cache`.
//!
//! `docs/design/python.md` says how it works. The order of everything here: look for the key and
//! change what is shared inside a section, then release and call outside of it.

mod core;
mod direct;
mod flight;
mod index;
mod iter;
mod lifetimes;
mod loading;
mod order;
mod probe;
mod recording;
mod removed;
mod results;
mod section;
mod settings;
mod state;
mod stats;
mod table;

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use frazil_policy::Online;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use pyo3::{Borrowed, PyTraverseError, PyVisit, ffi, intern};

use self::core::{Callbacks, Core, Newcomer};
use crate::keys::{mix, plain_hash};
use lifetimes::Lifetime;
use probe::Probe;
use removed::{Cause, Removed};
use section::Section;
use settings::Perhaps;
use table::{Found, Glance};

pub(crate) use direct::install;
pub(crate) use iter::CacheIterator;
pub(crate) use lifetimes::_pass;
pub(crate) use recording::CacheRecording;
pub(crate) use results::{_answer, _discard, _peek, _store, CallKey};
pub(crate) use stats::{_stats, CacheStats};

/// Cache(maxsize, policy="mobius", *, getsizeof=None, ttl=None, tti=None, on_evict=None)
/// --
///
/// A mapping of bounded size, shared by threads.
///
/// When the cache is full, the policy chooses the entry to evict. A look-up or store costs
/// some tens of nanoseconds; an entry takes 40 bytes beside its key and value, with the policies whose
/// hit is a mark (mobius, sieve, clock, fifo, s3-fifo).
///
/// Args:
///     maxsize: The most entries, or with `getsizeof` the largest sum of sizes. `None`: no bound.
///     policy: A name, with parameters if wanted: `"lru"`, `"s3-fifo"`, `"clock:bits=2"`. The
///         default, `"mobius"`, evicts as SIEVE does.
///     getsizeof: Called with a value when it is stored; returns its size. Fractions are rounded up.
///     ttl: Seconds, or a `timedelta`, that an entry lives after it was stored.
///     tti: The same after its last use.
///     on_evict: Called with key, value and cause, `"size"` or `"expired"`, when an entry is evicted
///         or expires. The call that evicted raises its errors.
///
/// A call releases the objects that it deletes, replaces or evicts before it returns. A value that is
/// larger than the cache, or that the policy refuses, is not stored, and an old value of its key is
/// removed. The cache may change during an iteration, which returns each entry that stays throughout
/// once, in no particular order.
///
/// Raises:
///     ValueError: A size or lifetime that is negative or NaN, or an unknown policy; the message has
///         the nearest name.
///     TypeError: An argument is no number, or cannot be called; later, a key cannot be hashed.
///
/// >>> import frazil
/// >>> cache = frazil.Cache(2)
/// >>> cache["a"], cache["b"] = 1, 2
/// >>> cache["a"]
/// 1
/// >>> cache["c"] = 3
/// >>> sorted(cache)
/// ['a', 'c']
/// >>> frazil.Cache(2, "lruu")
/// Traceback (most recent call last):
/// ...
/// ValueError: unknown policy `lruu`; did you mean `lru`? ...
#[pyclass(frozen, subclass, mapping, weakref, module = "frazil")]
pub(crate) struct Cache {
    shared: Section<Core>,
    policy: Online,
    /// The policy's, if hits through a shared reference are enough.
    mark_limit: Option<u8>,
    /// One more than the limit, if no recording is in the way of a glance; else 0.
    quick: AtomicU8,
    expires: bool,
    weighs: bool,
    tells: bool,
    recording: recording::Recorders,
}

/// The arguments that make a cache of the same settings.
type Arguments<'py> = ((Option<u64>, String), Bound<'py, PyDict>);

/// The result of a glance.
enum Seen<R> {
    Done(R),
    /// Nothing: a proper look is needed.
    Unsure,
    /// A comparison has raised an error, which the interpreter keeps.
    Failed,
}

/// The result of a look-up that only reads.
enum Read {
    Value(Py<PyAny>),
    Missing,
    /// The answer needs a section that may write.
    Write,
    Undecided(Found),
}

impl Cache {
    fn quickness(mark_limit: Option<u8>) -> u8 {
        mark_limit.map_or(0, |limit| limit + 1)
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        if self.expires { lifetimes::now() } else { 0 }
    }

    /// Continues after a section that could not decide.
    #[cold]
    #[inline(never)]
    fn settle(probe: &mut Probe<'_, '_>, found: Found) -> PyResult<()> {
        match found {
            Found::Ask(resident) => probe.compare(resident),
            Found::At(_) | Found::Absent => Ok(()),
        }
    }

    /// Finds a key and runs code in the same section.
    #[inline(always)]
    fn with<R>(
        &self,
        probe: &mut Probe<'_, '_>,
        code: impl FnOnce(&mut Core, Option<u32>) -> R,
    ) -> PyResult<R> {
        let py = probe.key.py();
        let mut code = Some(code);
        loop {
            let undecided = self.shared.write(py, |core| {
                let found = core.table.find(py, probe);
                let slot = match found {
                    Found::At(slot) => Some(slot),
                    Found::Absent => None,
                    Found::Ask(_) => return Err(found),
                };
                Ok(code.take().map(|code| code(core, slot)))
            });
            match undecided {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => unreachable!("the code ran, and this returned"),
                Err(found) => Self::settle(probe, found)?,
            }
        }
    }

    /// Releases the objects that an operation has removed, and calls `on_evict`.
    #[inline(always)]
    fn release(&self, py: Python<'_>, removed: Removed) -> PyResult<()> {
        if !self.tells {
            return removed.release(py, None);
        }
        let on_evict = self
            .shared
            .read(py, |core| core.callbacks.on_evict.as_ref().map(|it| it.clone_ref(py)));
        removed.release(py, on_evict.as_ref())
    }

    /// Runs a section that glances at a key, and once more with a key that equals it, if the section
    /// asks for that.
    ///
    /// # Safety
    /// `key` is alive.
    #[inline(always)]
    unsafe fn at_a_glance<R>(
        py: Python<'_>,
        key: *mut ffi::PyObject,
        mut section: impl FnMut(*mut ffi::PyObject) -> Result<R, Glance>,
    ) -> Seen<R> {
        match section(std::ptr::null_mut()) {
            Ok(done) => Seen::Done(done),
            // SAFETY: the caller sees to it.
            Err(Glance::Ask(resident)) => unsafe {
                Self::compare_and_repeat(resident.into_bound(py), key, &mut section)
            },
            Err(_) => Seen::Unsure,
        }
    }

    /// # Safety
    /// `key` is alive.
    #[inline(never)]
    unsafe fn compare_and_repeat<R>(
        resident: Bound<'_, PyAny>,
        key: *mut ffi::PyObject,
        section: &mut dyn FnMut(*mut ffi::PyObject) -> Result<R, Glance>,
    ) -> Seen<R> {
        // SAFETY: both are alive and the thread attached. The resident first, as dict does.
        match unsafe { ffi::PyObject_RichCompareBool(resident.as_ptr(), key, ffi::Py_EQ) } {
            0 => Seen::Unsure,
            1 => section(resident.as_ptr()).map_or(Seen::Unsure, Seen::Done),
            _ => Seen::Failed,
        }
    }

    /// The value of a key, at a glance.
    ///
    /// # Safety
    /// `key` is alive.
    #[inline(always)]
    unsafe fn value_at_a_glance(
        &self,
        py: Python<'_>,
        wide: u64,
        key: *mut ffi::PyObject,
    ) -> Seen<Option<Py<PyAny>>> {
        let quick = self.quick.load(Relaxed);
        if quick == 0 {
            return Seen::Unsure;
        }
        let hash = probe::narrow(wide);
        let section = |known| {
            // SAFETY: the caller sees to it.
            self.shared.read(py, |core| match unsafe { core.table.glance(py, hash, key, known) } {
                // What has expired, or may in a moment, is looked at properly.
                Glance::At(slot) if self.expires && !core.is_live(slot, lifetimes::soon()) => {
                    Err(Glance::Unsure)
                }
                Glance::At(slot) => {
                    let entry = &core.table.entries[slot as usize];
                    entry.mark.raise(quick - 1);
                    Ok(entry.value.as_ref().map(|value| value.clone_ref(py)))
                }
                Glance::Absent => Ok(None),
                unsure => Err(unsure),
            })
        };
        // SAFETY: the caller sees to it.
        let seen = unsafe { Self::at_a_glance(py, key, section) };
        match seen {
            Seen::Done(Some(_)) => self.shared.count_hit(),
            Seen::Done(None) => self.shared.count_miss(),
            Seen::Unsure | Seen::Failed => {}
        }
        seen
    }

    /// Stores a value at a glance, if entries have neither sizes nor lifetimes.
    ///
    /// # Safety
    /// `key` and `value` are alive.
    #[inline(always)]
    unsafe fn store_at_a_glance(
        &self,
        py: Python<'_>,
        wide: u64,
        key: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
    ) -> Seen<()> {
        if self.quick.load(Relaxed) == 0 || self.expires || self.weighs || self.tells {
            return Seen::Unsure;
        }
        let hash = probe::narrow(wide);
        let mut removed = Removed::default();
        let section = |known| {
            self.shared.write(py, |core| {
                // SAFETY: the caller sees to it.
                let found = match unsafe { core.table.glance(py, hash, key, known) } {
                    Glance::At(slot) => Some(slot),
                    Glance::Absent => None,
                    unsure => return Err(unsure),
                };
                // SAFETY: the caller sees to it.
                let owned = |it| unsafe { Borrowed::from_ptr(py, it) }.to_owned().unbind();
                let (key, value) = (owned(key), owned(value));
                core.put(found, Newcomer { hash, key, value, weight: 1, now: 0 }, &mut removed);
                Ok(())
            })
        };
        // SAFETY: the caller sees to it.
        let seen = unsafe { Self::at_a_glance(py, key, section) };
        removed.drop(py);
        seen
    }

    /// The value of a key, if there is one; a use of it.
    fn value_of(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        self.value_of_hashed(key, probe::hash(key)?)
    }

    /// The same for a key that was hashed.
    #[inline(always)]
    fn value_of_hashed(&self, key: &Bound<'_, PyAny>, wide: u64) -> PyResult<Option<Py<PyAny>>> {
        // SAFETY: the key is alive.
        match unsafe { self.value_at_a_glance(key.py(), wide, key.as_ptr()) } {
            Seen::Done(value) => Ok(value),
            Seen::Unsure => self.look_up(&mut Probe::hashed(key, wide)),
            Seen::Failed => Err(PyErr::fetch(key.py())),
        }
    }

    /// The same with every look that it takes.
    #[inline(never)]
    fn look_up(&self, probe: &mut Probe<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
        let py = probe.key.py();
        if let Some(limit) = self.mark_limit
            && !self.recording.wants(probe.wide)
        {
            let now = self.now();
            loop {
                let read = self.shared.read(py, |core| match core.table.find(py, probe) {
                    Found::At(slot) => {
                        if self.expires && !core.is_live(slot, now) {
                            return Read::Write;
                        }
                        let entry = &core.table.entries[slot as usize];
                        entry.mark.raise(limit);
                        match &entry.value {
                            Some(value) => Read::Value(value.clone_ref(py)),
                            None => Read::Missing,
                        }
                    }
                    Found::Absent => Read::Missing,
                    found => Read::Undecided(found),
                });
                match read {
                    Read::Value(value) => {
                        self.shared.count_hit();
                        return Ok(Some(value));
                    }
                    Read::Missing => {
                        self.shared.count_miss();
                        return Ok(None);
                    }
                    Read::Write => break,
                    Read::Undecided(found) => Self::settle(probe, found)?,
                }
            }
        }
        self.look_up_exclusively(probe)
    }

    #[inline(never)]
    fn look_up_exclusively(&self, probe: &mut Probe<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
        let py = probe.key.py();
        let now = self.now();
        let mut removed = Removed::default();
        let wide = probe.wide;
        let value = self.with(probe, |core, slot| {
            let slot = core.unless_expired(slot, now, &mut removed);
            let weight = slot.map(|slot| core.weight_of(slot));
            self.recording.note_get(wide, weight);
            let slot = slot?;
            core.hit(slot, now);
            core.table.entries[slot as usize].value.as_ref().map(|value| value.clone_ref(py))
        })?;
        match value {
            Some(_) => self.shared.count_hit(),
            None => self.shared.count_miss(),
        }
        self.release(py, removed)?;
        Ok(value)
    }

    /// The size of a value, by the user's function.
    #[inline(always)]
    fn weigh(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        if self.weighs { self.weigh_by_user(value) } else { Ok(1) }
    }

    #[cold]
    fn weigh_by_user(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let py = value.py();
        let getsizeof = self
            .shared
            .read(py, |core| core.callbacks.getsizeof.as_ref().map(|it| it.clone_ref(py)));
        match getsizeof {
            Some(getsizeof) => settings::size(
                &getsizeof.bind(py).call1((value,))?,
                "the result of getsizeof",
                true,
            ),
            None => Ok(1),
        }
    }

    #[inline(always)]
    fn store(&self, probe: &mut Probe<'_, '_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = probe.key.py();
        let weight = self.weigh(value)?;
        let now = self.now();
        let (hash, wide) = (probe.hash, probe.wide);
        let (key, value) = (probe.key.clone().unbind(), value.clone().unbind());
        let mut removed = Removed::default();
        self.with(probe, |core, slot| {
            let slot = core.unless_expired(slot, now, &mut removed);
            self.recording.note_set(wide, weight, core.lifetime());
            core.put(slot, Newcomer { hash, key, value, weight, now }, &mut removed);
        })?;
        self.release(py, removed)
    }

    /// Stores a value unless the key has one by now. Returns the value that it has.
    fn store_unless_there(
        &self,
        probe: &mut Probe<'_, '_>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let py = probe.key.py();
        let weight = self.weigh(value)?;
        let now = self.now();
        let (hash, wide) = (probe.hash, probe.wide);
        let (key, value) = (probe.key.clone().unbind(), value.clone().unbind());
        let mut removed = Removed::default();
        let result = value.clone_ref(py);
        let there = self.with(probe, |core, slot| {
            match core.unless_expired(slot, now, &mut removed) {
                // The key and value that are not needed are released by the caller.
                Some(slot) => {
                    let there = core.table.entries[slot as usize].value.as_ref();
                    (there.map(|value| value.clone_ref(py)), Some((key, value)))
                }
                None => {
                    self.recording.note_set(wide, weight, core.lifetime());
                    core.put(None, Newcomer { hash, key, value, weight, now }, &mut removed);
                    (None, None)
                }
            }
        })?;
        self.release(py, removed)?;
        Ok(there.0.unwrap_or(result))
    }

    /// Takes a key out, with the key as it was kept.
    fn take(&self, probe: &mut Probe<'_, '_>) -> PyResult<Option<Py<PyAny>>> {
        let py = probe.key.py();
        let now = self.now();
        let (hash, wide) = (probe.hash, probe.wide);
        let mut removed = Removed::default();
        let taken = self.with(probe, |core, slot| {
            for flight in &core.flights {
                flight.overtake(hash);
            }
            self.recording.note_delete(wide);
            let slot = core.unless_expired(slot, now, &mut removed)?;
            let mut taken = Removed::default();
            core.take_out(slot, Cause::Deleted, &mut taken);
            taken.into_pair()
        })?;
        let value = taken.map(|(key, value)| {
            drop(key.into_bound(py));
            value
        });
        self.release(py, removed)?;
        Ok(value)
    }

    fn delete(&self, probe: &mut Probe<'_, '_>) -> PyResult<()> {
        match self.take(probe)? {
            Some(value) => {
                drop(value);
                Ok(())
            }
            None => Err(missing(probe.key)),
        }
    }

    /// Takes out all that has expired.
    fn expire(&self, py: Python<'_>) -> PyResult<()> {
        if !self.expires {
            return Ok(());
        }
        let now = self.now();
        let mut removed = Removed::default();
        self.shared.write(py, |core| core.expire(now, &mut removed));
        self.release(py, removed)
    }
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (maxsize, policy = "mobius", *, getsizeof = None, ttl = None, tti = None, on_evict = None))]
    fn new(
        maxsize: &Bound<'_, PyAny>,
        policy: &str,
        getsizeof: Option<Bound<'_, PyAny>>,
        ttl: Option<&Bound<'_, PyAny>>,
        tti: Option<&Bound<'_, PyAny>>,
        on_evict: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let capacity = settings::maxsize(maxsize)?;
        let policy = settings::policy(policy)?;
        let ttl = settings::lifetime(ttl, "ttl")?;
        let tti = settings::lifetime(tti, "tti")?;
        let callbacks = Callbacks {
            getsizeof: settings::function(getsizeof, "getsizeof")?,
            on_evict: settings::function(on_evict, "on_evict")?,
        };
        let mark_limit = policy.mark_limit().filter(|_| tti.is_none());
        let expires = ttl.is_some() || tti.is_some();
        Ok(Cache {
            policy,
            mark_limit,
            quick: AtomicU8::new(Self::quickness(mark_limit)),
            expires,
            weighs: callbacks.getsizeof.is_some(),
            tells: callbacks.on_evict.is_some(),
            recording: recording::Recorders::default(),
            shared: Section::new(Core::new(policy, capacity, (ttl, tti), callbacks)),
        })
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let found = self.value_of(key)?;
        found.ok_or_else(|| missing(key))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.store(&mut Probe::new(key)?, value)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(&mut Probe::new(key)?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut probe = Probe::new(key)?;
        let now = self.now();
        loop {
            let found =
                self.shared.read(key.py(), |core| match core.table.find(key.py(), &probe) {
                    Found::At(slot) => Ok(core.is_live(slot, now)),
                    Found::Absent => Ok(false),
                    found => Err(found),
                });
            match found {
                Ok(found) => return Ok(found),
                Err(found) => Self::settle(&mut probe, found)?,
            }
        }
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.expire(py)?;
        Ok(self.shared.read(py, |core| core.table.len()))
    }

    fn __iter__(slf: Bound<'_, Self>) -> CacheIterator {
        CacheIterator::keys(slf.unbind())
    }

    /// The value of a key. Without one the default is stored, and returned.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.setdefault("a", 1), cache.setdefault("a", 2)
    /// (1, 1)
    #[pyo3(signature = (key, /, default = None))]
    fn setdefault(
        &self,
        key: &Bound<'_, PyAny>,
        default: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = key.py();
        let probe = &mut Probe::new(key)?;
        if let Some(value) = self.look_up(probe)? {
            return Ok(value);
        }
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        self.store_unless_there(probe, &default)
    }

    /// Removes a key and returns its value, or the default if one is given. No use of the entry.
    ///
    /// Raises:
    ///     KeyError: There is neither.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache["a"] = 1
    /// >>> cache.pop("a"), cache.pop("a", None)
    /// (1, None)
    #[pyo3(signature = (key, /, default = Perhaps::Absent))]
    fn pop(&self, key: &Bound<'_, PyAny>, default: Perhaps) -> PyResult<Py<PyAny>> {
        match (self.take(&mut Probe::new(key)?)?, default) {
            (Some(value), _) | (None, Perhaps::Given(value)) => Ok(value),
            (None, Perhaps::Absent) => Err(missing(key)),
        }
    }

    /// Removes the entry that the policy would evict next, and returns its key and value.
    ///
    /// Raises:
    ///     KeyError: The cache is empty.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10, "lru")
    /// >>> cache["a"], cache["b"] = 1, 2
    /// >>> cache.popitem()
    /// ('a', 1)
    fn popitem(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
        self.expire(py)?;
        let taken = self.shared.write(py, Core::pop_coldest);
        taken.ok_or_else(|| PyKeyError::new_err("the cache is empty"))
    }

    /// Removes all entries, without a call of `on_evict`, and frees their memory. Counts go on.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache["a"] = 1
    /// >>> cache.clear()
    /// >>> len(cache), cache.stats().inserts
    /// (0, 1)
    fn clear(&self, py: Python<'_>) {
        let table = self.shared.write(py, |core| core.clear(self.policy));
        drop(table);
    }

    /// Stores the entries of a mapping or of an iterable of pairs, as `dict.update` does.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.update({"a": 1}, b=2)
    /// >>> cache["a"], cache["b"]
    /// (1, 2)
    #[pyo3(signature = (*args, **kwargs))]
    fn update(
        slf: &Bound<'_, Self>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let update = views(py)?.getattr(intern!(py, "update"))?;
        let mut all = vec![slf.clone().into_any()];
        all.extend(args);
        update.call(PyTuple::new(py, all)?, kwargs).map(drop)
    }

    /// A view of the keys. `in` on it does not count as a use.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.update(a=1, b=2)
    /// >>> sorted(cache.keys()), "a" in cache.keys()
    /// (['a', 'b'], True)
    fn keys<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views(slf.py())?.call_method1(intern!(slf.py(), "CacheKeys"), (slf,))
    }

    /// A view of the values. Iteration does not count as a use.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.update(a=1, b=2)
    /// >>> sum(cache.values())
    /// 3
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views(slf.py())?.call_method1(intern!(slf.py(), "CacheValues"), (slf,))
    }

    /// A view of the entries. Iteration does not count as a use.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.update(a=1, b=2)
    /// >>> sorted(cache.items())
    /// [('a', 1), ('b', 2)]
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        views(slf.py())?.call_method1(intern!(slf.py(), "CacheItems"), (slf,))
    }

    /// Used by the views.
    fn _iterate_values(slf: Bound<'_, Self>) -> CacheIterator {
        CacheIterator::values(slf.unbind())
    }

    /// Used by the views.
    fn _iterate_items(slf: Bound<'_, Self>) -> CacheIterator {
        CacheIterator::items(slf.unbind())
    }

    fn __eq__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        views(slf.py())?.call_method1(intern!(slf.py(), "equal"), (slf, other))
    }

    /// A dict of those keys of an iterable that are cached, with their values. A use of each.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache["a"], cache["b"] = 1, 2
    /// >>> cache.get_many(["a", "x"])
    /// {'a': 1}
    fn get_many<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(keys.py());
        for key in keys.try_iter()? {
            let key = key?;
            let hash = plain_hash(&key)?;
            if let Some(value) = self.value_of_hashed(&key, mix(hash))? {
                results::set_hashed(&found, &key, hash, value.bind(key.py()))?;
            }
        }
        Ok(found)
    }

    /// The value of a key. If the key is absent, stores and returns the result of `make()`.
    ///
    /// If several threads miss a key at once, one calls `make`, and all get its value. If it raises,
    /// that thread gets the error, and a waiting one calls its own `make`. If the key is written while
    /// `make` runs, the written value stays.
    ///
    /// Raises:
    ///     RuntimeError: `make` asks for the same key.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.get_or_set("a", lambda: 6 * 7), cache.get_or_set("a", lambda: 0)
    /// (42, 42)
    #[pyo3(signature = (key, make, /))]
    fn get_or_set(&self, key: &Bound<'_, PyAny>, make: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let probe = &mut Probe::new(key)?;
        match self.look_up(probe)? {
            Some(value) => Ok(value),
            None => self.load(probe, &make),
        }
    }

    /// Counts of what has happened so far.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache["a"] = 1
    /// >>> cache.get("a"), cache.get("b")
    /// (1, None)
    /// >>> stats = cache.stats()
    /// >>> stats.hits, stats.misses, stats.hit_ratio
    /// (1, 1, 0.5)
    fn stats(&self, py: Python<'_>) -> PyResult<CacheStats> {
        self.expire(py)?;
        let (hits, misses) = self.shared.counts();
        Ok(self.shared.read(py, |core| CacheStats {
            hits,
            misses,
            entries: core.table.len() as u64,
            size: core.weight,
            ..core.counts
        }))
    }

    /// Changes `maxsize`, and evicts entries until the rest fits.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10)
    /// >>> cache.update(zip(range(10), range(10)))
    /// >>> cache.resize(3)
    /// >>> len(cache), cache.maxsize
    /// (3, 3)
    fn resize(&self, maxsize: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = maxsize.py();
        let capacity = settings::maxsize(maxsize)?;
        self.expire(py)?;
        let mut removed = Removed::default();
        self.shared.write(py, |core| core.resize(capacity, &mut removed));
        self.release(py, removed)
    }

    /// Writes all entries to a file, and returns how many. Keys and values are pickled.
    ///
    /// The file appears only when it is complete; `restore` reads it.
    ///
    /// >>> import frazil, os, tempfile
    /// >>> cache = frazil.Cache(10)
    /// >>> cache["a"] = 1
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     path = os.path.join(folder, "cache")
    /// ...     other = frazil.Cache(10)
    /// ...     cache.snapshot(path), other.restore(path), other["a"]
    /// (1, 1, 1)
    fn snapshot(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = slf.py();
        let module = py.import(intern!(py, "frazil._snapshot"))?;
        module.call_method1(intern!(py, "save"), (slf, path))?.extract()
    }

    /// Stores the entries of a snapshot, the coldest first, and returns how many it has. Entries live as
    /// long as they still would have when the snapshot was made. Pickles run code: restore only files
    /// that you trust.
    ///
    /// Raises:
    ///     ValueError: The file is no snapshot, or damaged; nothing is stored then.
    ///     FileNotFoundError: There is none.
    ///
    /// >>> import frazil, os, tempfile
    /// >>> cache, other = frazil.Cache(10), frazil.Cache(10)
    /// >>> cache["a"] = 1
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     path = os.path.join(folder, "cache")
    /// ...     cache.snapshot(path), other.restore(path), dict(other)
    /// (1, 1, {'a': 1})
    fn restore(slf: &Bound<'_, Self>, path: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = slf.py();
        let module = py.import(intern!(py, "frazil._snapshot"))?;
        module.call_method1(intern!(py, "load"), (slf, path))?.extract()
    }

    /// Records the requests for a share `rate` of the keys to a file, which `frazil simulate` and
    /// `frazil.simulate` read, until the recording is finished. Keys are recorded as scrambled hashes.
    ///
    /// Raises:
    ///     ValueError: A rate that is not above 0 and at most 1.
    ///     OSError: The file cannot be written, or another recording of this cache is under way.
    ///
    /// >>> import frazil, os, tempfile
    /// >>> cache = frazil.Cache(10)
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     recording = cache.record(os.path.join(folder, "requests.frazil"))
    /// ...     cache.get("a")
    /// ...     records, lost, size = recording.finish()
    /// >>> records, lost
    /// (1, 0)
    #[pyo3(signature = (path, rate = 1.0))]
    fn record(
        slf: Bound<'_, Self>,
        path: std::path::PathBuf,
        rate: f64,
    ) -> PyResult<CacheRecording> {
        CacheRecording::begin(slf, &path, rate)
    }

    /// A new cache with the same settings and entries, as by `copy.copy`. Counts begin anew.
    ///
    /// >>> import frazil
    /// >>> cache = frazil.Cache(10, "lru")
    /// >>> cache["a"] = 1
    /// >>> other = cache.copy()
    /// >>> other["b"] = 2
    /// >>> len(cache), len(other), other.policy
    /// (1, 2, 'lru')
    fn copy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import(intern!(py, "copy"))?.call_method1(intern!(py, "copy"), (slf,))
    }

    /// The bound; `None` if there is none.
    #[getter]
    fn maxsize(&self, py: Python<'_>) -> Option<u64> {
        let capacity = self.shared.read(py, |core| core.capacity);
        (capacity < settings::UNBOUNDED).then_some(capacity)
    }

    /// The policy's name, with parameters that differ from the defaults.
    #[getter]
    fn policy(&self) -> String {
        self.policy.to_string()
    }

    /// The sum of the sizes; the number of entries without `getsizeof`.
    #[getter]
    fn currsize(&self, py: Python<'_>) -> PyResult<u64> {
        self.expire(py)?;
        Ok(self.shared.read(py, |core| core.weight))
    }

    /// Seconds that an entry lives after it was stored, or `None`.
    #[getter]
    fn ttl(&self, py: Python<'_>) -> Option<f64> {
        self.shared.read(py, |core| core.age.as_ref().map(Lifetime::seconds))
    }

    /// Seconds that an entry lives after its last use, or `None`.
    #[getter]
    fn tti(&self, py: Python<'_>) -> Option<f64> {
        self.shared.read(py, |core| core.idle.as_ref().map(Lifetime::seconds))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let this = slf.get();
        let name = slf.get_type().name()?.to_string();
        let maxsize = this.maxsize(py).map_or("None".to_owned(), |it| it.to_string());
        Ok(format!("<{name} maxsize={maxsize} policy={} len={}>", this.policy, this.__len__(py)?))
    }

    /// Bytes, without the objects in it and the policy's own data.
    fn __sizeof__(&self, py: Python<'_>) -> usize {
        size_of::<Self>() + size_of::<ffi::PyObject>() + self.shared.read(py, Core::heap_bytes)
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = cls.py();
        py.import(intern!(py, "types"))?.call_method1(intern!(py, "GenericAlias"), (cls, item))
    }

    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<Arguments<'py>> {
        let settings = PyDict::new(py);
        let (getsizeof, on_evict) = self.shared.read(py, |core| {
            let callbacks = &core.callbacks;
            let of = |it: &Option<Py<PyAny>>| it.as_ref().map(|it| it.clone_ref(py));
            (of(&callbacks.getsizeof), of(&callbacks.on_evict))
        });
        settings.set_item("getsizeof", getsizeof)?;
        settings.set_item("ttl", self.ttl(py))?;
        settings.set_item("tti", self.tti(py))?;
        settings.set_item("on_evict", on_evict)?;
        Ok(((self.maxsize(py), self.policy()), settings))
    }

    /// The entries, the coldest first, each with the nanoseconds that it still lives by `ttl` and
    /// `tti`; and what a subclass keeps.
    fn __getstate__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let entries = slf.get().entries(py)?;
        let own = slf.as_any().getattr_opt(intern!(py, "__dict__"))?;
        let list = PyList::empty(py);
        for (key, value, age, idle) in entries {
            list.append((key, value, age, idle))?;
        }
        (list, own).into_pyobject(py)
    }

    fn __setstate__(slf: &Bound<'_, Self>, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = slf.py();
        let (entries, own): (Bound<'_, PyList>, Option<Bound<'_, PyDict>>) = state.extract()?;
        slf.get().add_all(&entries)?;
        if let Some(own) = own {
            slf.as_any().getattr(intern!(py, "__dict__"))?.call_method1("update", (own,))?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: this is the garbage collector's call.
        let core = unsafe { self.shared.stopped() };
        for entry in &core.table.entries {
            visit.call(&entry.key)?;
            visit.call(&entry.value)?;
        }
        visit.call(&core.callbacks.getsizeof)?;
        visit.call(&core.callbacks.on_evict)
    }

    fn __clear__(&self, py: Python<'_>) {
        let parts = self
            .shared
            .write(py, |core| (core.clear(self.policy), std::mem::take(&mut core.callbacks)));
        drop(parts);
    }
}

fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
}

/// The part of a mapping that is written in Python.
fn views(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "frazil._views"))
}
