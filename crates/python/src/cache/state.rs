//! All entries at once: for copies, pickles and snapshots.

use frazil_policy::Slot;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::Cache;
use super::lifetimes::Lifetime;
use super::probe::Probe;

/// A key, its value, and the nanoseconds for which the entry still lives, by age and by use.
type Kept = (Py<PyAny>, Py<PyAny>, Option<u64>, Option<u64>);

impl Cache {
    /// All entries, the coldest first.
    pub(super) fn entries(&self, py: Python<'_>) -> PyResult<Vec<Kept>> {
        self.expire(py)?;
        let now = self.now();
        Ok(self.shared.write(py, |core| {
            let order = core.coldest_first();
            let left = |lifetime: &Option<Lifetime>, slot| {
                lifetime.as_ref().map(|it| it.left(slot, now).unwrap_or(0))
            };
            let of = |slot: Slot| {
                let entry = &core.table.entries[slot.index()];
                let (key, value) = (entry.key.as_ref()?, entry.value.as_ref()?);
                let (age, idle) = (left(&core.age, slot), left(&core.idle, slot));
                Some((key.clone_ref(py), value.clone_ref(py), age, idle))
            };
            order.into_iter().filter_map(of).collect()
        }))
    }

    /// Stores entries with the lifetimes that they had left.
    pub(super) fn add_all(&self, entries: &Bound<'_, PyList>) -> PyResult<()> {
        let py = entries.py();
        for entry in entries {
            let (key, value, age, idle): (Bound<'_, PyAny>, Bound<'_, PyAny>, _, _) =
                entry.extract()?;
            let (age, idle): (Option<u64>, Option<u64>) = (age, idle);
            let probe = &mut Probe::new(&key)?;
            self.store(probe, &value)?;
            if self.expires {
                let now = self.now();
                self.with(probe, |core, slot| {
                    let Some(slot) = slot else { return };
                    for (lifetime, left) in [(&mut core.age, age), (&mut core.idle, idle)] {
                        if let (Some(lifetime), Some(left)) = (lifetime, left) {
                            lifetime.set_left(Slot(slot), now, left);
                        }
                    }
                })?;
            }
        }
        self.shared.write(py, |core| core.each_lifetime(Lifetime::sort));
        self.expire(py)
    }
}
