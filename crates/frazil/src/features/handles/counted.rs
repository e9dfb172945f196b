//! A protection that counts its thread in the word of the slot that it looks at.

use std::cell::Cell;

use super::{Counting, Local};
use crate::smr::protect::Protect;
#[cfg(feature = "freezing")]
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};

/// Protects one slot at a time, by a count.
pub(crate) struct Counted<'c, K, V, S> {
    core: &'c Counting<K, V, S>,
    local: &'c Local,
    /// The slot that it is counted in, or 0.
    slot: Cell<u32>,
    ended: Cell<bool>,
}

impl<'c, K, V, S> Counted<'c, K, V, S> {
    #[inline(always)]
    pub(crate) fn new(core: &'c Counting<K, V, S>, local: &'c Local) -> Self {
        Counted { core, local, slot: Cell::new(0), ended: Cell::new(false) }
    }

    /// The slot found. From here on a holder is counted in it, which releases it.
    ///
    /// By reference: a move copied it through memory as 16 bytes that had been written as 8 and 8,
    /// for which the processor waited, 3 of the 28 ns of a hold and its release.
    #[inline(always)]
    pub(crate) fn keep(&self) -> u32 {
        // First: a destructor may panic, and then this releases.
        self.drop_due();
        self.slot.take()
    }

    #[inline(always)]
    fn drop_due(&self) {
        if self.local.due.load(Relaxed) != 0 {
            self.core.drop_due(self.local);
        }
    }

    #[inline(always)]
    fn let_go(&self) {
        let slot = self.slot.take();
        if slot != 0 {
            self.core.let_go(self.local, slot);
        }
    }
}

impl<K, V, S> Protect for Counted<'_, K, V, S> {
    #[inline(always)]
    fn protects(&self, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        self.let_go();
        let refs = self.core.slab.refs(slot);
        let seen = refs.look();
        if seen.is_spread() && self.local.own.hold(refs) {
            self.ended.set(false);
            self.slot.set(slot);
            // As below. Also if its residency has ended: no slot is reused while it is spread.
            return cell.load(Acquire) == word;
        }
        let before = refs.hold();
        self.ended.set(before.is_ended());
        if before.is_ended() {
            self.core.give_back(self.local, slot);
            // Acquire: the word that replaced it.
            return cell.load(Acquire) == word;
        }
        self.slot.set(slot);
        if before != seen {
            self.core.met_another(slot);
        }
        // The slot may have been published again since the word was read: then `hold` has acquired
        // that the word was unlinked. Acquire: as the first look.
        cell.load(Acquire) == word
    }

    #[inline(always)]
    fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Such a cache has no copies.
    #[cfg(feature = "freezing")]
    #[inline(always)]
    fn protects_copies(&self, _: &AtomicU64, _: u64) -> bool {
        false
    }
}

impl<K, V, S> Drop for Counted<'_, K, V, S> {
    #[inline(always)]
    fn drop(&mut self) {
        self.let_go();
        self.drop_due();
    }
}
