//! Entries in slots, found by key.

use frazil_policy::{Mark, Slot};
use pyo3::ffi;
use pyo3::prelude::*;

use super::index::Index;
use super::probe::{Probe, Verdict};

/// The most entries of a cache.
pub(super) const MOST_ENTRIES: usize = 1 << 30;

/// A slot. `key` and `value` are `None` together: then it is vacant.
pub(super) struct Entry {
    pub(super) key: Option<Py<PyAny>>,
    pub(super) value: Option<Py<PyAny>>,
    /// Of a vacant slot, the next one.
    pub(super) hash: u32,
    /// For policies whose hit is a mark.
    pub(super) mark: Mark,
}

/// No further vacant slot.
const NONE: u32 = u32::MAX;

/// Where a key was looked for.
pub(super) enum Found {
    At(u32),
    Absent,
    /// Somewhere where Python code must first compare this key.
    Ask(Py<PyAny>),
    /// A comparison has raised an error, which the interpreter keeps.
    Failed,
}

/// Where a key was seen at a glance.
pub(super) enum Glance<'t> {
    At(&'t Entry),
    Absent,
}

pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    index: Index,
    vacant: u32,
    len: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Table { entries: Vec::new(), index: Index::default(), vacant: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Looks for a key. Runs no Python code. O(1) but for keys with equal hashes.
    #[inline(always)]
    pub(super) fn find(&self, py: Python<'_>, probe: &Probe<'_, '_>) -> Found {
        let mut found = Found::Absent;
        let slot = self.index.find(probe.hash, |slot| {
            let entry = &self.entries[slot as usize];
            let Some(key) = entry.key.as_ref().filter(|_| entry.hash == probe.hash) else {
                return false;
            };
            match probe.judge(key) {
                Verdict::Same => true,
                Verdict::Different => false,
                Verdict::Ask => {
                    found = Found::Ask(key.clone_ref(py));
                    true
                }
                Verdict::Failed => {
                    found = Found::Failed;
                    true
                }
            }
        });
        match (slot, found) {
            (Some(slot), Found::Absent) => Found::At(slot),
            (_, found) => found,
        }
    }

    /// Looks for a key as this very object, without further looks. `None`: look properly.
    #[inline(always)]
    pub(super) fn glance(&self, hash: u32, key: *mut ffi::PyObject) -> Option<Glance<'_>> {
        let mut unsure = false;
        let found = self.index.find(hash, |slot| {
            let entry = &self.entries[slot as usize];
            let same = entry.key.as_ref().is_some_and(|it| it.as_ptr() == key);
            unsure |= !same && entry.hash == hash;
            same
        });
        match found {
            Some(slot) => Some(Glance::At(&self.entries[slot as usize])),
            None if unsure => None,
            None => Some(Glance::Absent),
        }
    }

    /// Fills a vacant slot with a key that is not here. There are never more than `limit` entries.
    pub(super) fn insert(
        &mut self,
        hash: u32,
        key: Py<PyAny>,
        value: Py<PyAny>,
        limit: usize,
    ) -> u32 {
        if !self.index.has_room() {
            let slots = self.entries.len();
            let live = (0..).zip(&self.entries).filter(|(_, entry)| entry.key.is_some());
            self.index.grow(limit, slots, live.map(|(slot, entry)| (entry.hash, slot)));
        }
        let entry = Entry { key: Some(key), value: Some(value), hash, mark: Mark::default() };
        let slot = if self.vacant == NONE {
            if self.entries.len() == self.entries.capacity() {
                let more = (self.entries.len() / 2).max(8);
                self.entries.reserve_exact(more.min(limit.saturating_sub(self.len)).max(1));
            }
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let slot = self.vacant;
            let place = &mut self.entries[slot as usize];
            self.vacant = place.hash;
            *place = entry;
            slot
        };
        self.index.insert(hash, slot);
        self.len += 1;
        slot
    }

    /// Takes an entry out. The caller drops it outside of the section.
    pub(super) fn remove(&mut self, slot: u32) -> Option<(Py<PyAny>, Py<PyAny>)> {
        let entry = &mut self.entries[slot as usize];
        let taken = entry.key.take().zip(entry.value.take())?;
        self.index.remove(entry.hash, slot);
        entry.hash = self.vacant;
        self.vacant = slot;
        self.len -= 1;
        Some(taken)
    }

    /// The first entry in this slot or a later one.
    pub(super) fn at_or_behind(&self, slot: u32) -> Option<(u32, &Py<PyAny>, &Py<PyAny>)> {
        let rest = self.entries.get(slot as usize..)?;
        (slot..)
            .zip(rest)
            .find_map(|(slot, entry)| Some((slot, entry.key.as_ref()?, entry.value.as_ref()?)))
    }

    pub(super) fn mark(&self, slot: Slot) -> &Mark {
        &self.entries[slot.index()].mark
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.index.heap_bytes()
    }
}
