//! `get_or_set`: one call of the loader for all threads that miss a key.

use std::sync::Arc;

use pyo3::prelude::*;

use super::Cache;
use super::core::Newcomer;
use super::flight::{self, Flight};
use super::probe::Probe;
use super::removed::Removed;

/// The part of a thread that misses.
enum Turn {
    Load(Arc<Flight>),
    Wait(Arc<Flight>),
    /// The key has been stored meanwhile.
    There(Py<PyAny>),
}

/// Ends a flight in any case, also if the loader panics.
struct Landing<'c, 'py> {
    cache: &'c Cache,
    py: Python<'py>,
    flight: Arc<Flight>,
}

impl Drop for Landing<'_, '_> {
    fn drop(&mut self) {
        let flight = &self.flight;
        self.cache.shared.write(self.py, |core| {
            core.flights.retain(|other| !Arc::ptr_eq(other, flight));
        });
        flight.land(None);
    }
}

impl Cache {
    /// Loads a key that was not found, or waits for the thread that does.
    pub(super) fn load(
        &self,
        probe: &mut Probe<'_, '_>,
        make: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        loop {
            match self.turn(probe)? {
                Turn::There(value) => return Ok(value),
                Turn::Load(flight) => return self.fly(probe, make, flight),
                Turn::Wait(flight) => {
                    if let Some(value) = flight.wait(probe.key.py())? {
                        return Ok(value);
                    }
                }
            }
        }
    }

    fn turn(&self, probe: &mut Probe<'_, '_>) -> PyResult<Turn> {
        let py = probe.key.py();
        let now = self.now();
        let new = Arc::new(Flight::new(probe.hash, probe.key.clone().unbind()));
        loop {
            let mut removed = Removed::default();
            let turn = self.shared.write(py, |core| {
                // Both are looked for in one section: between a load's end and its store there is
                // no moment in which neither is found.
                let slot = match core.table.find(py, probe) {
                    super::Found::At(slot) => Some(slot),
                    super::Found::Absent => None,
                    found => return Err(found),
                };
                if let Some(slot) = core.unless_expired(slot, now, &mut removed)
                    && let Some(value) = &core.table.entries[slot as usize].value
                {
                    return Ok(Turn::There(value.clone_ref(py)));
                }
                if let Some(flight) = flight::find(py, &core.flights, probe)? {
                    return Ok(Turn::Wait(flight));
                }
                core.flights.push(Arc::clone(&new));
                core.counts.loads += 1;
                Ok(Turn::Load(Arc::clone(&new)))
            });
            self.release(py, removed)?;
            match turn {
                Ok(turn) => return Ok(turn),
                Err(found) => Self::settle(probe, found)?,
            }
        }
    }

    fn fly(
        &self,
        probe: &mut Probe<'_, '_>,
        make: &Bound<'_, PyAny>,
        flight: Arc<Flight>,
    ) -> PyResult<Py<PyAny>> {
        let py = probe.key.py();
        let landing = Landing { cache: self, py, flight };
        let value = make.call0()?;
        let weight = self.weigh(&value)?;
        let now = self.now();
        let (hash, wide) = (probe.hash, probe.wide);
        let newcomer = Newcomer {
            hash,
            key: probe.key.clone().unbind(),
            value: value.clone().unbind(),
            weight,
            now,
        };
        let mut removed = Removed::default();
        let flight = &landing.flight;
        let unused = self.with(probe, |core, slot| {
            if flight.is_overtaken() {
                return Some(newcomer);
            }
            core.flights.retain(|other| !Arc::ptr_eq(other, flight));
            let slot = core.unless_expired(slot, now, &mut removed);
            self.recording.note_set(wide, weight, core.lifetime());
            core.put(slot, newcomer, &mut removed);
            None
        })?;
        flight.land(Some(value.clone().unbind()));
        drop(unused);
        self.release(py, removed)?;
        Ok(value.unbind())
    }
}
