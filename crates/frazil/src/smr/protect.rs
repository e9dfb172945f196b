//! Protection of an entry from reclamation while a thread looks at it.
//!
//! A `get` names the one slot that it reads in its thread's hazard. A pin names each slot that it
//! shows among its thread's [names](crate::smr::names). So either holds up only what its thread may
//! be reading, however long the thread is suspended. If user code inside a `get` (`Clone`, `Eq`)
//! calls the cache again, it finds the hazard in use, and pins.
//!
//! Frozen copies have no slot to name. For them a pin notes the epoch, and holds up all copies that
//! were withdrawn since.

use crate::smr::fence;
use crate::smr::progress::Progress;
use crate::smr::reclaim::Reclaim;
use crate::smr::stripe::Reader;
#[cfg(feature = "freezing")]
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// The name in a hazard for reads of the frozen copies: no slot has this number.
#[cfg(feature = "freezing")]
pub(crate) const COPIES: u32 = u32::MAX;

/// Protection of the entry that its thread reads.
///
/// The two kinds are types and not cases of one, so that a hit through a pin has no trace
/// of a hazard in its instructions.
pub(crate) trait Protect {
    /// Whether `slot`, just read as part of `word` in `cell`, may be looked at until the
    /// next call, and while the protection lives. If not, the word has changed.
    ///
    /// `cell` is one from which a slot is taken out before it is retired.
    fn protects(&self, cell: &AtomicU32, word: u32, slot: u32) -> bool;

    /// Whether the last requested entry counts as absent although its word is present: an eviction
    /// has claimed it.
    #[inline(always)]
    fn has_ended(&self) -> bool {
        false
    }

    /// The same for the frozen copies, whose `publication` was just `published`.
    #[cfg(feature = "freezing")]
    fn protects_copies(&self, published: &AtomicU64, publication: u64) -> bool;
}

/// Protects one slot at a time.
pub(crate) struct Hazard<'c> {
    named: &'c AtomicU32,
    progress: &'c Progress,
}

impl<'c> Hazard<'c> {
    /// The hazard of the calling thread, whose reader this is, unless it is in use.
    #[inline(always)]
    pub(crate) fn of(reader: &'c Reader) -> Option<Self> {
        Hazard::unless_in_use(&reader.hazard, reader)
    }

    /// The hazard for an entry compared with the one that the other hazard names.
    #[inline(always)]
    pub(crate) fn second(reader: &'c Reader) -> Option<Self> {
        Hazard::unless_in_use(&reader.second, reader)
    }

    #[inline(always)]
    fn unless_in_use(named: &'c AtomicU32, reader: &'c Reader) -> Option<Self> {
        // Made only if it is free: a dropped guard clears the name.
        (named.load(Relaxed) == 0).then(|| Hazard { named, progress: &reader.progress })
    }
}

impl Protect for Hazard<'_> {
    #[inline(always)]
    fn protects(&self, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        // Release: reads under the last hazard; partner is the Acquire in `Reclaim::run`.
        self.named.store(slot, Release);
        // Either this second look sees that the slot was unlinked, or the reclaimer sees the
        // hazard. Partner: the heavy fence of `Reclaim::quiesce`; without that fence it relies on
        // `wake_if_asleep`.
        fence::light();
        self.progress.wake_if_asleep();
        cell.load(Acquire) == word
    }

    #[cfg(feature = "freezing")]
    #[inline(always)]
    fn protects_copies(&self, published: &AtomicU64, publication: u64) -> bool {
        // Release: as in `protects`; partner is the Acquire of `Reclaim::is_past`.
        self.named.store(COPIES, Release);
        // Either this second look sees that the copies were withdrawn, or the freezer sees the
        // hazard before it writes others. Partner: the heavy fence of `Shown::withdraw`.
        fence::light();
        // Acquire: before any tag is read.
        published.load(Acquire) == publication
    }
}

impl Drop for Hazard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: as in `protects`.
        self.named.store(0, Release);
    }
}

/// Protects all that its thread finds while it lives.
pub(crate) struct Pinned<'c> {
    reader: &'c Reader,
    reclaim: &'c Reclaim,
}

impl<'c> Pinned<'c> {
    /// Pins, unless the thread whose reader this is has pinned already; then once more.
    #[inline(always)]
    pub(crate) fn new(reader: &'c Reader, reclaim: &'c Reclaim) -> Self {
        let depth = reader.depth.load(Relaxed);
        if depth == 0 {
            // Release: reads under the last pin, whose clearing this may hide; partner is the
            // Acquire of `Reclaim::is_past`.
            reader.pinned.store(reclaim.epoch(), Release);
            // Before copies are looked up. Partner: the heavy fence of `Shown::withdraw`.
            fence::light();
        }
        reader.depth.store(depth + 1, Relaxed);
        Pinned { reader, reclaim }
    }

    /// Protects a slot. The caller knows that it is not retired before this returns, or reads its
    /// word again.
    #[inline(always)]
    pub(crate) fn keep(&self, slot: u32) {
        self.reader.name(slot);
    }
}

impl Protect for Pinned<'_> {
    #[inline(always)]
    fn protects(&self, cell: &AtomicU32, word: u32, slot: u32) -> bool {
        self.keep(slot);
        // Acquire: as the first look of a `get`; the entry's key and value.
        cell.load(Acquire) == word
    }

    #[cfg(feature = "freezing")]
    #[inline(always)]
    fn protects_copies(&self, _published: &AtomicU64, _sight: u64) -> bool {
        true
    }
}

impl Drop for Pinned<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let depth = self.reader.depth.load(Relaxed) - 1;
        self.reader.depth.store(depth, Relaxed);
        if depth == 0 {
            if self.reader.names.clear() {
                self.reclaim.named_no_more();
            }
            // Release: all copies that were read; partner is the Acquire of `Reclaim::is_past`.
            self.reader.pinned.store(0, Release);
        }
    }
}
