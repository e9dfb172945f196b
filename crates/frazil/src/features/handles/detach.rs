//! An entry that is held and was not admitted.

use std::hash::{BuildHasher, Hash};

use super::Counting;
use crate::core::admission::{Refusal, Refused};

impl<K: Hash + Eq, V, S: BuildHasher> Counting<K, V, S> {
    /// Puts a refused entry into a slot that no look-up finds, with the caller counted as holder.
    /// Returns the entry if there is no slot.
    pub(crate) fn detach(&self, refused: Refused<K, V>, charge: u64) -> Result<u32, Refused<K, V>> {
        let mut scavenged = 0;
        loop {
            let mut held = self.hold();
            let buffers = &mut *held;
            let vacant = match buffers.spares.stock(&self.segments, &mut buffers.traffic) {
                true => self.reclaim.vacant(&self.segments, buffers, self),
                false => None,
            };
            if let Some(slot) = vacant {
                let Refused { key, value, .. } = refused;
                // SAFETY: vacant, and this thread's alone.
                unsafe { self.slab.fill(slot, key, value, charge) };
                self.slab.refs(slot).detach();
                drop(held);
                let local = self.counts();
                local.orphaned.add(charge);
                self.reclaim_if_due();
                return Ok(slot);
            }
            drop(held);
            if !self.relieve(&mut scavenged) {
                return Err(Refused { reason: Refusal::NoRoom, ..refused });
            }
        }
    }
}
