//! Growth: the most slots and words, and the replacement of the table (`docs/design/growth.md`).

use crate::core::Core;
use crate::core::hooks::PerThread;
use crate::core::index::Table;
use crate::smr::reclaim::Supply;
use crate::smr::refs::SlotRefs as _;
use crate::sync::{CHECKED, thread as threads};

/// Segments beyond the full ones, for slots that threads own.
const SPARE_SEGMENTS: usize = if CHECKED { 48 } else { 1024 };

/// Slots for entries that wait to be reclaimed, beside those of resident entries. Most are never
/// used: they serve entries that pins have returned and that have been replaced since. Their number
/// lets sixteen threads each pin all of a small cache, or eight threads two thousand entries each
/// of a larger one.
pub(crate) fn spare_slots(entries: u64) -> u64 {
    usual_spares(entries) + if CHECKED { 0 } else { (16 * entries).min(16_384) }
}

/// The part of them in use if pins return few entries.
fn usual_spares(entries: u64) -> u64 {
    if CHECKED { 8 } else { entries / 4 + 512 }
}

/// Number of slots in use with `entries` resident entries, if pins return few.
#[cfg(any(feature = "expiry", feature = "freezing"))]
pub(crate) fn usual_slots(entries: u64) -> u32 {
    (entries + usual_spares(entries)) as u32
}

/// The most slots, with `entries` residents at once.
pub(crate) fn slots_for(entries: u64) -> u32 {
    (entries + spare_slots(entries)) as u32
}

/// The most words: threads that admit a key at the same time have two for it.
pub(super) fn words_for(entries: u64) -> u64 {
    entries + entries / 32 + 128
}

/// The segments that `slots` slots may need.
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
    /// The most entries in slots at once, without those that wait.
    #[inline(always)]
    fn most_entries(&self) -> u64 {
        // A held entry has a slot, whether it is resident or not.
        if H::Refs::COUNTED { self.resize.room() } else { self.entry_budget.capacity() }
    }

    /// Whether the table has little or no capacity beyond the slots that were handed out.
    pub(crate) fn is_outgrown(&self) -> bool {
        self.reclaim.slots() >= self.limits().0.into()
    }

    /// Slots for which hooks allocate their data by slot, unless they can do without: entries in
    /// other slots are not set aside.
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

    /// Grows the table for more entries. True if it succeeded. The caller holds no stripe.
    ///
    /// Stops all writers while it copies the table: see `docs/design/growth.md`. If they cannot be
    /// stopped, because one of them runs user code, it lets them continue and tries again,
    /// `patience` times.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&self, patience: u32) -> bool {
        if !self.is_outgrown() {
            return false;
        }
        let mut larger: Option<Table> = None;
        for _ in 0..=patience {
            let stopping = self.stripes.stopping();
            // Another thread may have grown it meanwhile.
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

    /// A table to replace the current one: `made`, unless another thread has meanwhile installed a
    /// table of the same size, which is also full by now.
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
