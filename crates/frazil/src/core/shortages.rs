//! Events about shortages, for `tracing` (feature of that name).

use crate::core::Core;
use crate::core::grow::spare_slots;
use crate::core::hooks::PerThread;
use crate::events::event;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The shortages reported so far.
#[derive(Debug, Default)]
pub(super) struct Shortages {
    /// Number of new entries refused because nothing could be evicted or reclaimed.
    refusals: AtomicU64,
    /// Number of slots that pins held up at the last report.
    held_up: AtomicU64,
}

impl<K, V, S, H: PerThread> Core<K, V, S, H> {
    /// Reports that a new entry was refused because nothing could be evicted or reclaimed.
    #[cold]
    pub(super) fn tell_of_shortage(&self) {
        let refusals = self.shortages.refusals.fetch_add(1, Relaxed) + 1;
        if refusals.is_power_of_two() {
            let (pins, waiting) = (self.pins(), self.reclaim.waiting());
            event!(self, WARN, "newcomers refused: no slot", refusals, waiting, pins);
        }
    }

    /// Reports, after a reclamation, if entries that pins have returned take more than half of the
    /// spare slots. Once for each doubling.
    pub(super) fn tell_of_pins(&self) {
        let spare = spare_slots(self.entry_budget.capacity());
        let held_up = self.reclaim.held_up();
        if held_up <= spare / 2 {
            self.shortages.held_up.store(0, Relaxed);
        } else if held_up >= 2 * self.shortages.held_up.load(Relaxed) {
            self.shortages.held_up.store(held_up, Relaxed);
            let pins = self.pins();
            event!(self, WARN, "slots held up by pins", held_up, spare, pins);
        }
    }

    /// How many threads hold a pin.
    #[cold]
    fn pins(&self) -> usize {
        self.stripes.iter().filter(|stripe| stripe.reader.depth.load(Relaxed) != 0).count()
    }
}
