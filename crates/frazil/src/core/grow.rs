//! Growth: how many slots and words there may be, and the table that is replaced
//! (`docs/design/growth.md`).

use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::index::Table;
use crate::smr::reclaim::Supply;
use crate::smr::refs::SlotRefs as _;
use crate::sync::{CHECKED, thread as threads};

/// Segments beyond those that are full, for what threads have in hand.
const SPARE_SEGMENTS: usize = if CHECKED { 48 } else { 1024 };

/// Slots for what waits to be reclaimed, beside those of the entries. Most are never used: they
/// are there for what pins have shown, all at once, and has been replaced since. So many that sixteen
/// threads may each have shown all of a small cache, or eight two thousand entries of a larger one.
pub(crate) fn spare_slots(entries: u64) -> u64 {
    usual_spares(entries) + if CHECKED { 0 } else { (16 * entries).min(16_384) }
}

/// Those of them that are used where pins show few entries.
fn usual_spares(entries: u64) -> u64 {
    if CHECKED { 8 } else { entries / 4 + 512 }
}

/// How many slots are in use where pins show few of them, and so many entries are resident at once.
#[cfg(any(feature = "expiry", feature = "freezing"))]
pub(crate) fn usual_slots(entries: u64) -> u32 {
    (entries + usual_spares(entries)) as u32
}

/// How many slots there may be, of which so many are resident at once.
pub(crate) fn slots_for(entries: u64) -> u32 {
    (entries + spare_slots(entries)) as u32
}

/// How many words there may be: threads that admit a key at the same time have two for it.
pub(super) fn words_for(entries: u64) -> u64 {
    entries + entries / 32 + 128
}

/// How many segments so many slots may need.
pub(super) fn segments_for(slots: u32, length: u32) -> u32 {
    (u64::from(slots) * 2 / u64::from(length)) as u32 + SPARE_SEGMENTS as u32
}

impl<K, V, S, H: PerThread> Supply for Core<K, V, S, H> {
    fn limits(&self) -> (u32, u32) {
        let entries = self.most_entries();
        self.index.limits(words_for(entries), slots_for(entries))
    }

    fn prepare(&self, slot: u32) {
        // SAFETY: `vacant` shows each slot once, before anyone knows it.
        unsafe { self.slab.prepare(slot) }
    }
}

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    /// How many entries there may be in slots at once, but for what waits.
    #[inline(always)]
    fn most_entries(&self) -> u64 {
        // What is held has its slot, whether it is resident or not.
        if H::Refs::COUNTED { self.resize.room() } else { self.entry_budget.capacity() }
    }

    /// Whether the table has no room for more slots than were handed out, or little.
    pub(crate) fn is_outgrown(&self) -> bool {
        self.reclaim.slots() >= self.limits().0.into()
    }

    /// Slots for which hooks lay out what they keep by slot, unless they can do without: entries in
    /// others are not set aside.
    #[cfg(feature = "freezing")]
    pub(crate) fn expected_slots(&self) -> u32 {
        let used = self.reclaim.used().end.saturating_mul(2);
        if H::Refs::COUNTED {
            // A sum of charges says little of how many there will be.
            return used;
        }
        let expected = usual_slots(self.resize.expected());
        used.max(expected).min(slots_for(self.entry_budget.capacity()))
    }

    /// Makes room for more entries than there were so far. True if there is some. The caller holds
    /// no stripe.
    ///
    /// Stops all who write for as long as it takes to copy the table: see
    /// `docs/design/growth.md`. If they cannot be stopped, because one of them runs code of the
    /// user's, it lets them go on and tries again, as often as `patience` says.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&self, patience: u32) -> bool {
        if !self.is_outgrown() {
            return false;
        }
        let mut larger: Option<Table> = None;
        for _ in 0..=patience {
            let stopping = self.stripes.stopping();
            // Another may have seen to it meanwhile.
            if !self.is_outgrown() {
                return true;
            }
            let table = self.next_table(larger);
            if let Some(stopped) = self.stripes.stop(stopping) {
                self.index.grow(table);
                let held = self.order.slots_in_segment(self.segments.length());
                self.segments.allow(segments_for(self.limits().1, held));
                drop(stopped);
                return true;
            }
            larger = Some(table);
            threads::yield_now();
        }
        false
    }

    /// A table to replace the current one by: the one that was made for that, unless another thread
    /// has replaced it by one as large meanwhile, which is full as well by now.
    fn next_table(&self, made: Option<Table>) -> Table {
        let entries = self.most_entries();
        made.filter(|made| made.len() > self.index.table().len())
            .unwrap_or_else(|| self.index.larger(words_for(entries), slots_for(entries)))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::{Cache, Tested};

    /// Between two attempts to stop the writers other threads may have got further.
    #[test]
    fn a_table_that_was_made_is_used_only_if_it_is_larger() {
        let cache: Tested = Cache::builder(1 << 20).build();
        let core = &cache.core;
        cache.insert(0, String::new());
        let made = core.next_table(None);
        let len = made.len();
        assert!(len > core.index.table().len());
        let mut next = Some(made);
        for key in 1.. {
            cache.insert(key, String::new());
            let table = core.next_table(next);
            assert!(table.len() > core.index.table().len(), "after {key} entries");
            if table.len() > len {
                break;
            }
            next = Some(table);
        }
    }
}
