//! Entries beyond the capacity: resident while they are held, and not charged for.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

use super::{Counted, Counting, Handles};
use crate::core::Ending;
use crate::core::hooks::Hooks as _;
use crate::core::index::{Mixed, Seen};
use crate::core::resize::EXCESS_MAX;
use crate::smr::protect::Protect as _;
use crate::smr::refs::SlotRefs as _;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many of them an insertion looks at.
const LOOKS: usize = 4;

/// The uncharged entries.
#[derive(Debug)]
pub(super) struct Uncharged {
    /// Their total weight, including those on their way. 0 if there are none, because none weighs
    /// 0.
    weight: AtomicU64,
    /// Their slots, with those that have left and were not checked since.
    slots: Mutex<VecDeque<(Mixed, u32)>>,
}

impl Uncharged {
    pub(super) fn new() -> Self {
        Uncharged { weight: AtomicU64::new(0), slots: Mutex::new(VecDeque::new()) }
    }

    /// One more is about to come. False if that would be too much.
    pub(super) fn add(&self, weight: u64) -> bool {
        let add = |sum: u64| sum.checked_add(weight).filter(|&sum| sum <= EXCESS_MAX);
        self.weight.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// One has ended, or was not admitted.
    #[cold]
    pub(super) fn subtract(&self, weight: u64) {
        self.weight.fetch_sub(weight, Relaxed);
    }

    /// Their total weight.
    pub(super) fn weight(&self) -> u64 {
        self.weight.load(Relaxed)
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Counting<K, V, S> {
    /// Whether an uncharged entry of this weight may be admitted. The caller admits it, or [returns
    /// the permission](Self::uncharged_in_vain).
    pub(crate) fn may_be_uncharged(&self, charge: u64) -> bool {
        self.hooks.uncharged.add(charge)
    }

    /// It was not admitted.
    pub(crate) fn uncharged_in_vain(&self, charge: u64) {
        self.hooks.uncharged.subtract(charge);
    }

    /// It was admitted, into a slot in which the caller is counted.
    pub(crate) fn list_uncharged(&self, mixed: Mixed, slot: u32) {
        self.hooks.uncharged.slots.lock().push_back((mixed, slot));
    }

    /// Ends the residency of some that are no longer held. The caller holds no stripe.
    #[inline(always)]
    pub(super) fn end_uncharged(&self) {
        if self.hooks.uncharged.weight() != 0 {
            self.end_some_uncharged();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_some_uncharged(&self) {
        // Removed content is dropped at its end.
        let operation = Handles::operation(self);
        let slots = &self.hooks.uncharged.slots;
        let listed = slots.lock().len();
        for _ in 0..listed.min(LOOKS) {
            let Some((mixed, slot)) = slots.lock().pop_front() else { break };
            let counted = Counted::new(self, self.counts());
            let look = |cell, word, other| match other == slot {
                true if !counted.protects(cell, word, slot) => Seen::Changed,
                true if !counted.has_ended() => Seen::Match(()),
                _ => Seen::Other,
            };
            let refs = self.slab.refs(slot);
            // The slot may be another entry's by now.
            if self.index.find(mixed, look).is_none() || refs.is_charged() {
                continue;
            }
            if refs.look().is_held_once() {
                self.take_out_slot(mixed, slot, Ending::Removed);
            } else {
                slots.lock().push_back((mixed, slot));
            }
        }
        drop(operation);
    }
}
