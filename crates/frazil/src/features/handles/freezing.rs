//! Freezing in a cache with handles (`docs/design/frozen.md`).

use std::hash::{BuildHasher, Hash};

use super::{Counting, Handles, Local};
use crate::Stats;
use crate::features::frozen::{self, Copies, Freezes, Overlay};
use crate::features::gate::Gate;
use crate::smr::refs::SlotRefs as _;

/// Slots that are spread under one lock of the table, for which others wait.
const AT_ONCE: usize = 256;

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

    fn exceeds_capacity<S: BuildHasher>(core: &Counting<K, V, S>) -> bool {
        core.exceeds_capacity()
    }

    fn has_set_aside<S>(core: &Counting<K, V, S>, slots: &[u32]) {
        let local = core.counts();
        core.hooks.spread.table().begin_aside();
        for slots in slots.chunks(AT_ONCE) {
            let mut table = core.hooks.spread.table();
            let spread = |&slot: &u32| {
                let refs = core.slab.refs(slot);
                // Another entry may be in it by now, or none: as for a look-up, that does no harm.
                let is_over = refs.hold().is_ended();
                // An uncharged entry must leave with its last holder.
                let is_room = is_over || !refs.is_charged() || table.spread_aside(slot, refs);
                core.let_go(local, slot);
                is_room
            };
            if !slots.iter().all(spread) {
                break;
            }
        }
        core.drop_what_is_due();
    }

    fn has_taken_back<S>(core: &Counting<K, V, S>) {
        core.recount_all();
    }
}
