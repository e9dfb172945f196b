//! Entries by Python key, in two orders.
//!
//! Keys are compared as a `dict` does: equal hashes, then identity, then `==`. `==` of user's
//! classes may raise, take long and call back into the same table, so it never runs while the
//! table is at work: [`find`] compares outside, remembers the answer by the identity of the
//! stored key, and looks again.

use std::collections::HashSet;

use hashbrown::HashTable;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::keys;
use crate::shared::Shared;

/// No slot.
const NONE: u32 = u32::MAX;

/// The place of an entry, until it is removed.
pub(crate) type Slot = u32;

/// The neighbours of an entry in one order.
#[derive(Clone, Copy)]
struct Links {
    before: Slot,
    after: Slot,
}

/// The ends of one order.
#[derive(Clone, Copy)]
struct Ends {
    first: Slot,
    last: Slot,
}

const NO_ENDS: Ends = Ends { first: NONE, last: NONE };

/// The orders that every entry is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of eviction, changed by whoever owns the table.
    Eviction = 0,
    /// That of insertion, as a `dict` iterates.
    Insertion = 1,
}

pub(crate) struct Entry<V> {
    hash: u64,
    pub(crate) key: Py<PyAny>,
    pub(crate) value: V,
    links: [Links; 2],
}

impl<V> Entry<V> {
    pub(crate) fn into_parts(self) -> (Py<PyAny>, V) {
        (self.key, self.value)
    }
}

pub(crate) struct Table<V> {
    index: HashTable<Slot>,
    entries: Vec<Option<Entry<V>>>,
    free: Vec<Slot>,
    ends: [Ends; 2],
    /// Counts insertions and removals, for iterators.
    changes: u64,
}

/// A key that is looked for, and what is known about stored keys of its hash.
pub(crate) struct Probe<'a, 'py> {
    key: &'a Bound<'py, PyAny>,
    hash: u64,
    equal: Option<Py<PyAny>>,
    unequal: Option<Box<Unequal>>,
}

/// Keys by address, kept alive so that an address stays that of one key.
#[derive(Default)]
struct Unequal {
    addresses: HashSet<usize>,
    keys: Vec<Py<PyAny>>,
}

/// The result of a look-up without Python code.
pub(crate) enum Search {
    Found(Slot),
    Absent,
    /// There are stored keys that only Python can compare.
    Unknown,
}

impl<'a, 'py> Probe<'a, 'py> {
    /// Hashes the key: the one time in a call. Errors: those of `__hash__`.
    #[inline]
    pub(crate) fn new(key: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(Self::stored(key, keys::hash(key)?))
    }

    /// A key whose hash is known, as one that is stored.
    pub(crate) fn stored(key: &'a Bound<'py, PyAny>, hash: u64) -> Self {
        Self { key, hash, equal: None, unequal: None }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    fn is_unequal(&self, stored: *mut ffi::PyObject) -> bool {
        let unequal = self.unequal.as_ref();
        unequal.is_some_and(|unequal| unequal.addresses.contains(&(stored as usize)))
    }

    /// Asks Python about stored keys. Errors: those of `__eq__`.
    #[cold]
    fn judge(&mut self, py: Python<'py>, stored: Vec<Py<PyAny>>) -> PyResult<()> {
        for candidate in stored {
            if candidate.bind(py).eq(self.key)? {
                self.equal = Some(candidate);
                return Ok(());
            }
            let unequal = self.unequal.get_or_insert_default();
            unequal.addresses.insert(candidate.as_ptr() as usize);
            unequal.keys.push(candidate);
        }
        Ok(())
    }
}

/// Finds the key in the table that `table` names, and does `work` with its slot in the same step:
/// the slot is valid, or the key absent, for as long as `work` runs. `work` runs no Python code.
///
/// O(1) expected, and one `==` for each stored key of the same hash. Errors: those of `__eq__`.
#[inline]
pub(crate) fn find<'py, T, V, R>(
    py: Python<'py>,
    shared: &Shared<T>,
    table: impl Fn(&T) -> &Table<V>,
    probe: &mut Probe<'_, 'py>,
    work: impl FnOnce(&mut T, Option<Slot>) -> R,
) -> PyResult<R> {
    let mut work = Some(work);
    loop {
        let outcome = shared.with(py, |state| {
            let mut unknown = Vec::new();
            let collect = |stored: &Py<PyAny>| unknown.push(stored.clone_ref(py));
            let slot = match table(state).search(probe, collect) {
                Search::Found(slot) => Some(slot),
                Search::Absent => None,
                Search::Unknown => return Err(unknown),
            };
            Ok(work.take().map(|work| work(state, slot)))
        });
        match outcome {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => unreachable!("the work is done once"),
            Err(stored) => probe.judge(py, stored)?,
        }
    }
}

impl<V> Table<V> {
    pub(crate) fn new() -> Self {
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            ends: [NO_ENDS; 2],
            changes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// A number that changes with each insertion and removal.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The entry in a slot that [`find`], [`Table::first`] or [`Table::after`] gave.
    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> Option<&Entry<V>> {
        self.entries.get(slot as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> Option<&mut Entry<V>> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// Looks for a key as far as that takes no Python code, and shows `unknown` the stored keys
    /// that are to be compared by Python.
    #[inline]
    pub(crate) fn search(
        &self,
        probe: &Probe<'_, '_>,
        mut unknown: impl FnMut(&Py<PyAny>),
    ) -> Search {
        let sought = probe.key.as_ptr();
        let equal = probe.equal.as_ref().map_or(sought, Py::as_ptr);
        let mut result = Search::Absent;
        for &slot in self.index.iter_hash(probe.hash) {
            let Some(entry) = self.entry(slot) else { continue };
            if entry.hash != probe.hash {
                continue;
            }
            let stored = entry.key.as_ptr();
            if stored == sought || stored == equal {
                return Search::Found(slot);
            }
            // SAFETY: both are alive, one in the table, the other the caller's; the thread is attached.
            match unsafe { keys::compare_plainly(stored, sought) } {
                Some(true) => return Search::Found(slot),
                Some(false) => {}
                None if probe.is_unequal(stored) => {}
                None => {
                    unknown(&entry.key);
                    result = Search::Unknown;
                }
            }
        }
        result
    }

    /// Makes room for one more entry. Errors: `MemoryError`.
    pub(crate) fn reserve(&mut self) -> PyResult<()> {
        let entries = &self.entries;
        let hasher = |&slot: &Slot| hash_of(entries, slot);
        let room = self.index.try_reserve(1, hasher).is_ok()
            && (!self.free.is_empty() || self.entries.try_reserve(1).is_ok())
            && self.entries.len() < NONE as usize;
        if room { Ok(()) } else { Err(PyMemoryError::new_err(())) }
    }

    /// Inserts a key that is absent, last in both orders, into room that was reserved.
    pub(crate) fn insert(&mut self, key: Py<PyAny>, hash: u64, value: V) -> Slot {
        let entry = Entry { hash, key, value, links: [Links { before: NONE, after: NONE }; 2] };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as Slot
            }
        };
        let entries = &self.entries;
        self.index.insert_unique(hash, slot, |&slot| hash_of(entries, slot));
        self.link_last(slot, Order::Eviction);
        self.link_last(slot, Order::Insertion);
        self.changes += 1;
        slot
    }

    /// Takes an entry out. The caller drops it when it is done with the table.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Entry<V>> {
        let hash = self.entry(slot)?.hash;
        self.unlink(slot, Order::Eviction);
        self.unlink(slot, Order::Insertion);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        self.free.push(slot);
        self.changes += 1;
        self.entries.get_mut(slot as usize)?.take()
    }

    /// Takes all entries out. The caller drops them when it is done with the table.
    pub(crate) fn take(&mut self) -> Vec<Option<Entry<V>>> {
        self.index = HashTable::new();
        self.free = Vec::new();
        self.ends = [NO_ENDS; 2];
        self.changes += 1;
        std::mem::take(&mut self.entries)
    }

    pub(crate) fn first(&self, order: Order) -> Option<Slot> {
        some(self.ends[order as usize].first)
    }

    pub(crate) fn after(&self, slot: Slot, order: Order) -> Option<Slot> {
        some(self.entry(slot)?.links[order as usize].after)
    }

    pub(crate) fn before(&self, slot: Slot, order: Order) -> Option<Slot> {
        some(self.entry(slot)?.links[order as usize].before)
    }

    /// Puts an entry first in the order of eviction.
    pub(crate) fn move_first(&mut self, slot: Slot) {
        self.unlink(slot, Order::Eviction);
        self.link(slot, NONE, self.ends[Order::Eviction as usize].first, Order::Eviction);
    }

    /// Puts an entry behind another one in the order of eviction.
    pub(crate) fn move_behind(&mut self, slot: Slot, ahead: Slot) {
        self.unlink(slot, Order::Eviction);
        let after = self.after(ahead, Order::Eviction).unwrap_or(NONE);
        self.link(slot, ahead, after, Order::Eviction);
    }

    /// Puts an entry last in an order.
    #[inline]
    pub(crate) fn move_last(&mut self, slot: Slot, order: Order) {
        if self.ends[order as usize].last != slot {
            self.unlink(slot, order);
            self.link_last(slot, order);
        }
    }

    #[inline]
    fn link_last(&mut self, slot: Slot, order: Order) {
        self.link(slot, self.ends[order as usize].last, NONE, order);
    }

    #[inline]
    fn link(&mut self, slot: Slot, before: Slot, after: Slot, order: Order) {
        let order = order as usize;
        if let Some(entry) = self.entry_mut(slot) {
            entry.links[order] = Links { before, after };
        }
        match self.entry_mut(before) {
            Some(entry) => entry.links[order].after = slot,
            None => self.ends[order].first = slot,
        }
        match self.entry_mut(after) {
            Some(entry) => entry.links[order].before = slot,
            None => self.ends[order].last = slot,
        }
    }

    #[inline]
    fn unlink(&mut self, slot: Slot, order: Order) {
        let order = order as usize;
        let Some(Links { before, after }) = self.entry(slot).map(|entry| entry.links[order]) else {
            return;
        };
        match self.entry_mut(before) {
            Some(entry) => entry.links[order].after = after,
            None => self.ends[order].first = after,
        }
        match self.entry_mut(after) {
            Some(entry) => entry.links[order].before = before,
            None => self.ends[order].last = before,
        }
    }

    /// Shows the collector every key, and what `values` shows of a value.
    pub(crate) fn traverse(
        &self,
        visit: &PyVisit<'_>,
        values: impl Fn(&V) -> Result<(), PyTraverseError>,
    ) -> Result<(), PyTraverseError> {
        self.entries.iter().flatten().try_for_each(|entry| {
            visit.call(&entry.key)?;
            values(&entry.value)
        })
    }
}

fn some(slot: Slot) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}

fn hash_of<V>(entries: &[Option<Entry<V>>], slot: Slot) -> u64 {
    entries.get(slot as usize).and_then(Option::as_ref).map_or(0, |entry| entry.hash)
}
