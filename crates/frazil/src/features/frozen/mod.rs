//! FrozenHot (paper 2): the hottest entries, for a while in a table that is read without locks
//! and without marks, beside the policy that manages the rest.
//!
//! `table.rs` and `copies.rs` are what readers see, `freezer.rs` what builds it and takes it
//! back.
//! `docs/design/frozen.md` says who owns which entry when, and why each hand-over is safe.
//!
//! `learn.rs` is what requests tell about it, `curve.rs` what follows from that, `controller.rs`
//! what decides, and `control.rs` the thread: `docs/design/frozen-controller.md`.

pub(crate) mod control;
pub(crate) mod controller;
mod copies;
pub(crate) mod curve;
mod freezer;
pub(crate) mod learn;
mod shown;
mod table;
mod tags;

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::core::index::mix;
use crate::core::slab::Header;
use crate::features::Featured;
use crate::smr::fence;
use crate::smr::protect::Protect;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

use control::Learned;
use controller::LIFETIME;
pub(crate) use copies::Copies;
pub(crate) use copies::PAIR_BYTES_MAX as COPY_BYTES_MAX;
use freezer::Work;
use learn::Watch;
pub(crate) use learn::{Local, arrive};
#[cfg(loom)]
pub(crate) use shown::{Publication, Shown};
use table::FrozenTable;

/// When entries are frozen: [`Builder::freezing`](crate::Builder::freezing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Freezing {
    /// Never: nothing is laid out for it, and a hit pays a comparison.
    #[default]
    Never,
    /// When [`Cache::freeze`](crate::Cache::freeze) is called, until [`Cache::thaw`](crate::Cache::thaw) is.
    ByHand,
    /// As much as it was learnt to be worth, as long as it pays, and not at all where it does
    /// not: once [`Cache::control_freezing`](crate::Cache::control_freezing) is called.
    Learned,
}

/// What a builder says of it.
pub(crate) struct Settings<K, V> {
    pub(crate) freezing: Freezing,
    /// How many times as long as its construction something stays frozen.
    pub(crate) lifetime: Option<u32>,
    /// Whether copies are asked for, and where they would be: `None` if they are too large.
    pub(crate) copies: Option<Option<Copies<K, V>>>,
}

impl<K, V> Default for Settings<K, V> {
    fn default() -> Self {
        Settings { freezing: Freezing::Never, lifetime: None, copies: None }
    }
}

/// What every cache has for it.
pub(crate) type MaybeFrozen<K, V> = Option<Box<Frozen<K, V>>>;

/// What a cache that freezes has for it.
pub(crate) struct Frozen<K, V> {
    kept: Kept<K, V>,
    /// Whether all is frozen that there is: newcomers for which something would have to go are
    /// refused. Set by the freezer, and lowered by who admits an entry or ends a residency.
    whole: AtomicBool,
    work: Mutex<Work>,
    pub(crate) learned: Option<Box<Learned>>,
}

/// By hash: what look-ups find before they go to the index.
enum Kept<K, V> {
    /// Where entries are.
    Places(FrozenTable),
    /// Copies of them.
    Copies(Copies<K, V>),
}

impl<K, V> Kept<K, V> {
    /// Shows nothing any more.
    fn withdraw(&self) {
        match self {
            Kept::Places(table) => table.withdraw(),
            Kept::Copies(copies) => copies.withdraw(),
        }
    }
}

impl<K, V> Frozen<K, V> {
    pub(crate) fn new(settings: Settings<K, V>) -> Option<Box<Self>> {
        let Settings { freezing, lifetime, copies } = settings;
        // A copy does not show that it has expired: no such builder comes here.
        let copies = copies.flatten();
        (freezing != Freezing::Never).then(|| {
            let kept = copies.map_or_else(|| Kept::Places(FrozenTable::default()), Kept::Copies);
            let work = Mutex::new(Work::default());
            let learned = (freezing == Freezing::Learned)
                .then(|| Box::new(Learned::new(lifetime.unwrap_or(LIFETIME))));
            Box::new(Frozen { kept, whole: AtomicBool::new(false), work, learned })
        })
    }

    /// What looks at requests, where it is learnt what to freeze.
    #[inline(always)]
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.learned.as_ref().map(|learned| &learned.watch)
    }

    /// Whether anything is frozen.
    fn is_in_use(&self) -> bool {
        match &self.kept {
            Kept::Places(table) => table.shown.publication().is_some(),
            Kept::Copies(copies) => copies.shown.publication().is_some(),
        }
    }

    /// A slot was published, and is about to be queued; perhaps in the place of another.
    #[inline(always)]
    pub(crate) fn queueing(&self, slot: u32, replaced: Option<u32>) {
        if let Some(watch) = self.watch() {
            watch.admitted(slot, replaced);
        }
    }

    /// Whether nothing may be evicted.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }

    /// An entry was queued that is not frozen, or a residency has ended: there is something to
    /// evict, or will be when the room that this leaves is taken.
    #[inline]
    pub(crate) fn is_whole_no_more(&self) {
        // What has happened was counted before. Partner: the heavy fence of `declare_whole`.
        fence::light();
        if self.whole.load(Relaxed) {
            self.whole.store(false, Relaxed);
        }
    }

    /// The residency of a slot is about to end: before the exchange of its index word.
    #[inline(always)]
    pub(crate) fn leave(&self, header: &Header, slot: u32) {
        header.leave();
        // A copy does not show that its entry is leaving.
        if let Kept::Copies(copies) = &self.kept {
            copies.take_out(slot);
        }
    }

    /// A residency has ended: the slot is found no more among what is frozen.
    #[inline(always)]
    pub(crate) fn take_out(&self, slot: u32) {
        if let Kept::Places(table) = &self.kept {
            table.take_out(slot);
        }
    }

    /// The slots that the table leads to. For tests.
    pub(crate) fn listed(&self) -> Vec<u32> {
        match &self.kept {
            Kept::Places(table) => table.listed(),
            Kept::Copies(copies) => copies.listed(),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let work = self.work.try_lock().map_or(0, |work| work.heap_bytes());
        let table = match &self.kept {
            Kept::Places(table) => table.heap_bytes(),
            Kept::Copies(copies) => copies.heap_bytes(),
        };
        let learned = self.learned.as_ref().map_or(0, |learned| learned.heap_bytes());
        size_of::<Self>() + table + work + learned
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Featured<K, V, S> {
    /// The value of a key that is frozen. The protection is not asked for another while it is
    /// looked at.
    #[inline(always)]
    pub(crate) fn find_frozen<'p, Q>(
        &'p self,
        frozen: &'p Frozen<K, V>,
        protection: &'p impl Protect,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let table = match &frozen.kept {
            Kept::Places(table) => table,
            Kept::Copies(copies) => {
                return copies.find(protection, mix(hash), |copied| key.equivalent(copied));
            }
        };
        let publication = table.shown.publication()?;
        let at = table.find(publication, mix(hash), |cell, slot| {
            if !protection.covers(cell, slot, slot) || !table.shown.is_published(publication) {
                return None;
            }
            let at = self.slab.at(slot);
            // SAFETY: its entry was in the table while that was published, so the slot was
            // published and not retired, and it is protected.
            let matches = key.equivalent(unsafe { self.slab.key_at(at) });
            let settled = matches && self.slab.header_at(at).is_settled();
            (settled && !self.has_expired_in_use(slot, at)).then_some(at)
        })?;
        // SAFETY: as above.
        Some(unsafe { self.slab.value_at(at) })
    }
}
