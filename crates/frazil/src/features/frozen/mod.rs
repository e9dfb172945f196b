//! FrozenHot (paper 2): the hottest entries are set aside from the policy for a while, and the
//! policy manages the rest. Hits of frozen entries take no lock and leave no mark. Caches with
//! handles freeze in the same way.
//!
//! Look-ups find frozen entries in the index, or, if keys and values can be copied, in `copies.rs`
//! before that. `freezer.rs` sets entries aside and returns them to the policy.
//! `docs/design/frozen.md` says which thread owns an entry when, and why each hand-over is safe.
//!
//! `learn.rs` observes requests. `control.rs` shows the cache's state to the controller, and
//! executes its decisions. The controller itself is in `frazil-freezing`, for any cache:
//! `docs/design/frozen-controller.md`.

pub(crate) mod control;
mod copies;
mod freezer;
pub(crate) mod learn;
mod shown;
mod tags;

use std::hash::{BuildHasher, Hash};

use equivalent::Equivalent;

use crate::core::Core;
use crate::core::hooks::Hooks;
use crate::core::index::mix;
use crate::core::slab::Header;
use crate::features::gate::Gate;
use crate::features::stats::Stats;
use crate::smr::fence;
use crate::smr::protect::Protect;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};

use control::Learned;
pub(crate) use copies::Copies;
pub(crate) use copies::PAIR_BYTES_MAX as COPY_BYTES_MAX;
use freezer::Work;
use learn::Watch;
pub(crate) use learn::{Local, arrive};
#[cfg(loom)]
pub(crate) use shown::{Publication, Shown};

/// When entries are frozen: [`Builder::freezing`](crate::Builder::freezing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Freezing {
    /// Never: no memory is reserved for it, and a hit costs one comparison more.
    #[default]
    Never,
    /// From a call of [`Cache::freeze`](crate::Cache::freeze) to one of
    /// [`Cache::thaw`](crate::Cache::thaw).
    ByHand,
    /// The learned share while that pays, and otherwise nothing. Begins with
    /// [`Cache::control_freezing`](crate::Cache::control_freezing).
    Learned,
}

/// The builder's settings of freezing.
pub(crate) struct Settings<K, V> {
    pub(crate) freezing: Freezing,
    /// The lifetime of a frozen part, in multiples of its construction time.
    pub(crate) lifetime: Option<u32>,
    /// Whether copies are requested, and their table; `None` if they are too large.
    pub(crate) copies: Option<Option<Copies<K, V>>>,
}

impl<K, V> Default for Settings<K, V> {
    fn default() -> Self {
        Settings { freezing: Freezing::Never, lifetime: None, copies: None }
    }
}

/// Hooks of caches that may freeze.
pub(crate) trait Freezes<K: Hash + Eq, V>: Hooks<K, V> {
    /// The cache's state for it, if it freezes.
    fn overlay(&self) -> Option<&Overlay>;

    /// The copies of entries. Only in caches whose pins protect the slots that they name.
    fn copies(&self) -> Option<&Copies<K, V>>;

    /// The gate that selects observed operations.
    fn gate(&self) -> &Gate;

    /// The data of each thread.
    fn watched(local: &Self::Local) -> &Local;

    /// The counts of all threads.
    fn stats<S>(core: &Core<K, V, S, Self>) -> Stats;

    /// The requested capacity. The capacity in force may exceed it, and falls to it as entries
    /// leave.
    fn wanted_capacity(&self) -> Option<u64>;

    /// Whether the capacity in force exceeds the requested one.
    fn exceeds_capacity<S: BuildHasher>(core: &Core<K, V, S, Self>) -> bool;

    /// These slots were set aside, the hottest first. They may have other entries by now.
    fn has_set_aside<S>(core: &Core<K, V, S, Self>, slots: &[u32]);

    /// The entries set aside are returned.
    fn has_taken_back<S>(core: &Core<K, V, S, Self>);
}

/// The state of every cache that may copy.
pub(crate) type MaybeFrozen<K, V> = Option<Box<Frozen<K, V>>>;

/// The state of a cache that freezes and may copy.
pub(crate) struct Frozen<K, V> {
    /// The copies that look-ups find before the index, by hash; `None` if they find everything in
    /// the index.
    pub(crate) copies: Option<Copies<K, V>>,
    pub(crate) overlay: Overlay,
}

/// The state of every cache with handles.
pub(crate) type MaybeOverlay = Option<Box<Overlay>>;

/// The state of a cache that freezes.
pub(crate) struct Overlay {
    /// Whether a hit of an entry set aside is a frozen hit. Only the freezer writes it.
    in_use: AtomicBool,
    /// Whether everything is frozen: new entries that need an eviction are refused. Set by the
    /// freezer, and cleared by a thread that admits an entry or ends a residency.
    whole: AtomicBool,
    work: Mutex<Work>,
    pub(crate) learned: Option<Box<Learned>>,
}

impl<K, V> Frozen<K, V> {
    pub(crate) fn new(settings: Settings<K, V>) -> Option<Box<Self>> {
        let Settings { freezing, lifetime, copies } = settings;
        let overlay = Overlay::new(freezing, lifetime)?;
        // A copy does not show that it has expired: no such builder comes here.
        Some(Box::new(Frozen { copies: copies.flatten(), overlay }))
    }

    /// The copy of a key's value. The protection is not reused while it is read.
    #[inline(always)]
    pub(crate) fn find<'p, Q: Equivalent<K> + ?Sized>(
        &'p self,
        protection: &'p impl Protect,
        hash: u64,
        key: &Q,
    ) -> Option<&'p V> {
        let copies = self.copies.as_ref()?;
        copies.find(protection, mix(hash), |copied| key.equivalent(copied))
    }

    /// The residency of a slot is about to end: before the exchange of its index word.
    #[inline(always)]
    pub(crate) fn leave(&self, header: &Header, slot: u32) {
        self.overlay.leave(header);
        // A copy does not show that its entry is leaving.
        if let Some(copies) = &self.copies {
            copies.take_out(slot);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let copies = self.copies.as_ref().map_or(0, Copies::heap_bytes);
        size_of::<Option<Copies<K, V>>>() + copies + self.overlay.heap_bytes()
    }
}

impl Overlay {
    /// `None` if nothing is ever frozen. A frozen share lasts so many times as long as its
    /// construction.
    pub(crate) fn new(freezing: Freezing, lifetime: Option<u32>) -> Option<Self> {
        (freezing != Freezing::Never).then(|| {
            let work = Mutex::new(Work::default());
            let learned = (freezing == Freezing::Learned).then(|| Box::new(Learned::new(lifetime)));
            let (in_use, whole) = (AtomicBool::new(false), AtomicBool::new(false));
            Overlay { in_use, whole, work, learned }
        })
    }

    /// The observer of requests, in caches that learn what to freeze.
    #[inline(always)]
    pub(crate) fn watch(&self) -> Option<&Watch> {
        self.learned.as_ref().map(|learned| &learned.watch)
    }

    /// Whether anything is frozen.
    #[inline(always)]
    pub(crate) fn is_in_use(&self) -> bool {
        // A hit that sees it early or late is counted as the other kind; a policy ignores reports
        // of an entry that is set aside.
        self.in_use.load(Relaxed)
    }

    /// A slot was published, and is about to be queued; perhaps in the place of another.
    #[inline(always)]
    pub(crate) fn queueing(&self, slot: u32, replaced: Option<u32>) {
        if let Some(watch) = self.watch() {
            watch.admitted(slot, replaced);
        }
    }

    /// Whether an entry is set aside, also while the freezer is still at work.
    pub(crate) fn has_aside(&self, header: &Header) -> bool {
        header.is_aside()
    }

    /// Whether a hit of an entry through the index is a frozen one.
    #[inline(always)]
    pub(crate) fn claims(&self, header: &Header) -> bool {
        header.is_aside() && self.is_in_use()
    }

    /// The residency of an entry without a copy is about to end: called before the exchange of its
    /// index word.
    #[inline(always)]
    pub(crate) fn leave(&self, header: &Header) {
        header.leave();
    }

    /// Whether evictions are impossible, because everything is frozen.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }

    /// An entry was queued that is not frozen, or a residency has ended: an eviction is possible,
    /// or will be when another entry has taken the free capacity.
    #[inline]
    pub(crate) fn clear_whole(&self) {
        // The event was counted before. Partner: the heavy fence of `declare_whole`.
        fence::light();
        if self.whole.load(Relaxed) {
            self.whole.store(false, Relaxed);
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let work = self.work.try_lock().map_or(0, |work| work.heap_bytes());
        let learned = self.learned.as_ref().map_or(0, |learned| learned.heap_bytes());
        size_of::<Self>() + work + learned
    }
}
