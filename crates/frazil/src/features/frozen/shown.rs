//! Which generation of the copies is published, and whether the end of a residency must look for a
//! copy. Every look-up reads this; only freezing and thawing write it.

use crate::smr::fence;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The copies that look-ups may read.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// A generation and its number of lines; 0 while there is none. No value except 0 occurs twice.
    published: AtomicU64,
    /// Whether there may be any copies.
    active: AtomicBool,
}

/// A generation of the copies, as it was published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publication(pub(crate) u64);

impl Shown {
    /// The published word, if any.
    #[inline(always)]
    pub(crate) fn publication(&self) -> Option<Publication> {
        // Acquire: the entries; partner is the Release of `publish`.
        let published = self.published.load(Acquire);
        (published != 0).then_some(Publication(published))
    }

    #[inline(always)]
    pub(crate) fn published(&self) -> &AtomicU64 {
        &self.published
    }

    /// Whether there may be a copy of a slot whose residency the caller has declared ending.
    #[inline(always)]
    pub(crate) fn is_to_be_told(&self) -> bool {
        // The state was stored before, and locations are read behind it. Partners: the heavy fences
        // of `activate` and of the freezer after it has added.
        fence::light();
        self.active.load(Relaxed)
    }

    /// From here on every end of a residency looks for a copy. For the freezer, while nothing is
    /// published.
    pub(crate) fn activate(&self) {
        self.active.store(true, Relaxed);
        // A thread that does not see this has changed the state of its slot before.
        fence::heavy();
    }

    /// Publishes a new table.
    pub(crate) fn publish(&self, publication: Publication) {
        // Release: all entries; partner is the Acquire of `publication`.
        self.published.store(publication.0, Release);
    }

    /// Withdraws the published table, and calls `forget` to clear the paths to its entries. For the
    /// freezer.
    pub(crate) fn withdraw(&self, forget: impl FnOnce()) {
        if !self.active.load(Relaxed) {
            return;
        }
        // Release: partner is the Acquire of `Protect::protects_copies`.
        self.published.store(0, Release);
        // A `get` that saw it has named the copy that it reads before this.
        fence::heavy();
        forget();
        self.active.store(false, Relaxed);
    }
}
