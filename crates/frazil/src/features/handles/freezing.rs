//! What freezing is in a cache with handles: `docs/design/frozen.md`.

use std::hash::Hash;

use super::{Counting, Handles, Local};
use crate::Stats;
use crate::features::frozen::{self, Copies, Freezes, Overlay};
use crate::features::gate::Gate;
use crate::smr::spread::PLACES;

/// How many of what is frozen are counted by threads at once. The other places are for what threads meet at.
const SPREAD_AT_ONCE: usize = PLACES / 2;

impl<K: Hash + Eq, V> Freezes<K, V> for Handles {
    fn overlay(&self) -> Option<&Overlay> {
        self.overlay.as_deref()
    }

    /// None: here no pin protects anything.
    fn copies(&self) -> Option<&Copies<K, V>> {
        None
    }

    fn gate(&self) -> &Gate {
        self.recorder.gate()
    }

    fn watched(local: &Local) -> &frozen::Local {
        &local.frozen
    }

    fn stats<S>(core: &Counting<K, V, S>) -> Stats {
        core.counted()
    }

    fn wanted_capacity(&self) -> Option<u64> {
        Some(self.asked_capacity())
    }

    fn has_set_aside<S>(core: &Counting<K, V, S>, slots: &[u32]) {
        let local = core.counts();
        for &slot in slots.iter().take(SPREAD_AT_ONCE) {
            // Another entry may be in it by now, or none: as for a look-up, that does no harm.
            if core.slab.refs(slot).hold().is_ended() {
                core.give_back(local, slot);
            } else {
                core.spread(slot);
                core.let_go(local, slot);
            }
        }
        core.drop_what_is_due();
    }
}
