//! Entries in slots, found by key.

use frazil_policy::{Mark, Slot};
use pyo3::ffi;
use pyo3::prelude::*;

use super::index::Index;
use super::probe::{self, Probe, Verdict};

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

/// The result of a look-up.
pub(super) enum Found {
    At(u32),
    Absent,
    /// Unknown, because Python code must first compare this key.
    Ask(Py<PyAny>),
}

/// The result of a glance.
pub(super) enum Glance {
    At(u32),
    Absent,
    /// Python code must first compare this key: look again with what it says.
    Ask(Py<PyAny>),
    /// A proper look is needed.
    Unsure,
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
            }
        });
        match (slot, found) {
            (Some(slot), Found::Absent) => Found::At(slot),
            (_, found) => found,
        }
    }

    /// Looks for a key without memory of comparisons: most often enough, and with no more to set up
    /// than a few registers. `known` equals the key, or is null. Runs no Python code.
    ///
    /// # Safety
    /// `key` is alive.
    #[inline(always)]
    pub(super) unsafe fn glance(
        &self,
        py: Python<'_>,
        hash: u32,
        key: *mut ffi::PyObject,
        known: *mut ffi::PyObject,
    ) -> Glance {
        // Nearly always the first is the one, or there is none: this much is inlined.
        match self.index.first(hash) {
            Ok(slot) => {
                if let Some(entry) = self.entries.get(slot as usize)
                    && let Some(resident) = &entry.key
                {
                    let pointer = resident.as_ptr();
                    // SAFETY: both are alive and the thread attached.
                    if pointer == key
                        || pointer == known
                        || entry.hash == hash
                            && unsafe { probe::compare_plainly(pointer, key) } == Some(true)
                    {
                        return Glance::At(slot);
                    }
                }
            }
            Err(true) => return Glance::Absent,
            Err(false) => {}
        }
        // SAFETY: the caller sees to it.
        unsafe { self.glance_further(py, hash, key, known) }
    }

    /// # Safety
    /// `key` is alive.
    #[inline(never)]
    unsafe fn glance_further(
        &self,
        py: Python<'_>,
        hash: u32,
        key: *mut ffi::PyObject,
        known: *mut ffi::PyObject,
    ) -> Glance {
        let mut others = 0;
        let mut other = None;
        let found = self.index.find(hash, |slot| {
            let entry = &self.entries[slot as usize];
            let Some(resident) = &entry.key else {
                return false;
            };
            let pointer = resident.as_ptr();
            if pointer == key || pointer == known {
                return true;
            }
            if entry.hash != hash {
                return false;
            }
            // SAFETY: both are alive and the thread attached.
            match unsafe { probe::compare_plainly(pointer, key) } {
                Some(equal) => equal,
                None => {
                    others += 1;
                    other = Some(resident);
                    false
                }
            }
        });
        match (found, other) {
            (Some(slot), _) => Glance::At(slot),
            (None, None) => Glance::Absent,
            (None, Some(resident)) if others == 1 && known.is_null() => {
                Glance::Ask(resident.clone_ref(py))
            }
            (None, Some(_)) => Glance::Unsure,
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
