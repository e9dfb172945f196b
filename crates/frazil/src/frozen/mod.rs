//! FrozenHot (paper 2): the hottest entries, for a while in a table that is read without locks
//! and without marks, beside the policy that manages the rest.
//!
//! `table.rs` is what readers see, `freezer.rs` what builds it and takes it back.
//! `docs/design/frozen.md` says who owns which entry when, and why each hand-over is safe.
//!
//! `learn.rs` is what requests tell about it, `curve.rs` what follows from that, `controller.rs`
//! what decides, and `control.rs` the thread: `docs/design/frozen-controller.md`.

pub(crate) mod control;
pub(crate) mod controller;
pub(crate) mod curve;
mod freezer;
pub(crate) mod learn;
mod table;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crate::cache::Cache;
use crate::index::mix;
use crate::protect::Protect;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

use control::Learned;
use freezer::Work;
use learn::Watch;
use table::Table;

/// When entries are frozen: [`Builder::freezing`](crate::Builder::freezing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Freezing {
    /// Never: nothing is laid out for it, and a hit pays a comparison.
    #[default]
    Never,
    /// When [`Cache::freeze`] is called, until [`Cache::thaw`] is.
    ByHand,
    /// As much as it was learnt to be worth, as long as it pays, and not at all where it does
    /// not: once [`Cache::control_freezing`] is called.
    Learned,
}

/// What a cache that freezes has for it.
pub(crate) struct Frozen {
    table: Table,
    /// Whether all was frozen that there was: newcomers for which something would have to go
    /// are refused.
    whole: AtomicBool,
    work: Mutex<Work>,
    learned: Option<Box<Learned>>,
}

impl Frozen {
    pub(crate) fn new(freezing: Freezing) -> Option<Box<Self>> {
        (freezing != Freezing::Never).then(|| {
            let work = Mutex::new(Work::default());
            let learned = (freezing == Freezing::Learned).then(Box::default);
            Box::new(Frozen {
                table: Table::default(),
                whole: AtomicBool::new(false),
                work,
                learned,
            })
        })
    }

    /// What looks at requests, where it is learnt what to freeze.
    #[inline(always)]
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.learned.as_ref().map(|learned| &learned.watch)
    }

    /// Whether anything is frozen.
    fn is_in_use(&self) -> bool {
        self.table.sight().is_some()
    }

    /// Whether nothing may be evicted.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }

    /// The slots that the table leads to. For tests.
    pub(crate) fn listed(&self) -> Vec<u32> {
        self.table.listed()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let work = self.work.try_lock().map_or(0, |work| work.heap_bytes());
        let learned = self.learned.as_ref().map_or(0, |learned| learned.heap_bytes());
        size_of::<Self>() + self.table.heap_bytes() + work + learned
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Cache<K, V, S> {
    /// The slot of a key that is frozen. It may be looked at while `protection` lives and is
    /// not asked for another.
    #[inline(always)]
    pub(crate) fn find_frozen<Q>(
        &self,
        frozen: &Frozen,
        protection: &impl Protect,
        hash: u64,
        key: &Q,
    ) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let table = &frozen.table;
        let sight = table.sight()?;
        table.find(sight, mix(hash), |cell, slot| {
            if !protection.covers(cell, slot, slot) || !table.is_in_sight(sight) {
                return None;
            }
            // SAFETY: its entry was in the table while that was published, so the slot was
            // published and not retired, and it is protected.
            let matches = unsafe { self.slab.key(slot) }.borrow() == key;
            let settled = matches && self.slab.header(slot).is_settled();
            (settled && !self.has_expired_in_use(slot)).then_some(slot)
        })
    }

    /// Says that the residency of a slot is about to end: before the exchange of its index word.
    #[inline(always)]
    pub(crate) fn leave(&self, slot: u32) {
        if self.frozen.is_some() {
            self.slab.header(slot).leave();
        }
    }

    /// A residency has ended: the slot is found no more among what is frozen.
    #[inline(always)]
    pub(crate) fn take_out_frozen(&self, slot: u32) {
        if let Some(frozen) = &self.frozen {
            frozen.table.take_out(slot);
        }
    }
}
