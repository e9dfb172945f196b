//! Visits all entries, one home of the index at a time, to show or to remove them.

use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::ops::ControlFlow;

use crate::core::hooks::Hooks;
use crate::core::index::{Mixed, Tour};
use crate::core::steps::Steps;
use crate::core::{Core, Ending};
use crate::smr::protect::Protect;

impl<K: Hash + Eq, V, S: BuildHasher, H: Hooks<K, V>> Core<K, V, S, H> {
    /// Removes all entries for which `is_doomed` is true, and lapsed ones. `is_doomed` gets
    /// protected slots, and its panic ends the sweep. Otherwise the sweep ends when it has visited
    /// all. Returns the number of lapsed entries.
    pub(crate) fn sweep(&self, steps: &Steps<'_>, mut is_doomed: impl FnMut(u32) -> bool) -> u64 {
        let mut lapsed = 0;
        let mut tour = Tour::of(&self.index);
        while tour.next() {
            let operation = H::operation(self);
            let reader = &self.stripe().reader;
            lapsed += match H::look(self, reader) {
                Some(hazard) => self.sweep_home(&hazard, steps, &mut tour, &mut is_doomed),
                None => {
                    let pinned = self.pinned();
                    self.sweep_home(&pinned, steps, &mut tour, &mut is_doomed)
                }
            };
            drop(operation);
            steps.take(|| self.reclaim_if_due());
        }
        lapsed
    }

    /// One home of a sweep. Returns the number of entries that look-ups did not find any more.
    fn sweep_home(
        &self,
        protection: &impl Protect,
        steps: &Steps<'_>,
        tour: &mut Tour<'_>,
        is_doomed: &mut impl FnMut(u32) -> bool,
    ) -> u64 {
        let mut lapsed = 0;
        while let Some((table, cell)) = tour.cell() {
            let Some((_, slot)) = self.protected(protection, table, cell) else { continue };
            if !tour.take(slot) {
                continue;
            }
            // It is not passed to `is_doomed`, because it counts as absent.
            let is_lapsed = steps.take(|| !H::is_live(self, slot)).unwrap_or(false);
            let ending = match is_lapsed {
                true => Ending::Lapsed,
                false if is_doomed(slot) => Ending::Removed,
                false => continue,
            };
            // SAFETY: published, and protected until the next one is.
            let key = unsafe { self.slab.key(slot) };
            // An entry that cannot be hashed cannot be found by its word, so it stays.
            let Some((_, mixed)) = steps.take(|| self.hashes(key)) else { continue };
            lapsed += u64::from(self.take_out_slot(mixed, slot, ending) && is_lapsed);
        }
        lapsed
    }

    /// Takes out the entry in a slot that the caller protects. Whether it was there.
    pub(crate) fn take_out_slot(&self, mixed: Mixed, slot: u32, ending: Ending) -> bool {
        // The word of this slot, which no other entry can have while it is protected.
        H::before_unlink(self, slot);
        let mut held = self.hold();
        let is_unlinked = self.index.unlink(mixed, slot);
        if is_unlinked {
            self.finish_removal(&mut held, slot, ending);
        }
        is_unlinked
    }

    /// Shows the entries of a home, each with its slot, one protected at a time: who stands
    /// still in between holds up one entry.
    pub(crate) fn show_slots<B>(
        &self,
        tour: &mut Tour<'_>,
        show: impl FnMut(u32, &K, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let reader = &self.stripe().reader;
        match H::look(self, reader) {
            Some(hazard) => self.show_slots_under(&hazard, tour, show),
            None => {
                let pinned = self.pinned();
                self.show_slots_under(&pinned, tour, show)
            }
        }
    }

    fn show_slots_under<B>(
        &self,
        protection: &impl Protect,
        tour: &mut Tour<'_>,
        mut show: impl FnMut(u32, &K, &V) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        while let Some((table, cell)) = tour.cell() {
            if let Some((_, slot)) = self.protected(protection, table, cell)
                && tour.take(slot)
                && H::is_live(self, slot)
            {
                // SAFETY: published, and protected until the next one is.
                let (key, value) = unsafe { (self.slab.key(slot), self.slab.value(slot)) };
                show(slot, key, value)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Shows all entries, as [`Cache::iter`] does: slot, key and value.
    pub(crate) fn each_entry(&self, mut show: impl FnMut(u32, &K, &V)) {
        let mut tour = Tour::of(&self.index);
        while tour.next() {
            let ControlFlow::Continue(()) = self.show_slots(&mut tour, |slot, key, value| {
                show(slot, key, value);
                ControlFlow::<Infallible>::Continue(())
            });
        }
    }

    /// By slot: from 1, its place in an order; 0 if unknown. A slot may be reused meanwhile, by an
    /// entry of another rank.
    pub(crate) fn ranks(&self, order: &[u32]) -> Vec<u32> {
        let mut ranks = vec![0; self.reclaim.used().end as usize];
        for (rank, &slot) in (1..).zip(order) {
            if let Some(known) = ranks.get_mut(slot as usize) {
                *known = rank;
            }
        }
        ranks
    }
}
