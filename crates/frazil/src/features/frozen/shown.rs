//! What readers look at on every look-up, and nobody writes but to freeze and to thaw: which
//! generation of a table is published, and whether who ends a residency must look for it there.

use std::sync::OnceLock;

use crate::smr::fence;
use crate::sync::OwnLine;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The words of a table in memory `M`.
#[derive(Debug)]
pub(crate) struct Shown<M> {
    words: OwnLine<Words<M>>,
}

#[derive(Debug)]
struct Words<M> {
    /// A generation and what the table wants to know of its size; 0 while nothing is frozen.
    /// Nothing but 0 comes twice.
    published: AtomicU64,
    /// Whether the table may hold anything.
    active: AtomicBool,
    memory: OnceLock<M>,
}

/// A generation of a table, as it was published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publication(pub(crate) u64);

impl<M> Default for Shown<M> {
    fn default() -> Self {
        let (published, active) = (AtomicU64::default(), AtomicBool::default());
        Shown { words: OwnLine(Words { published, active, memory: OnceLock::new() }) }
    }
}

impl<M> Shown<M> {
    /// What is published, if anything is.
    #[inline(always)]
    pub(crate) fn publication(&self) -> Option<Publication> {
        // Acquire: the entries; partner is the Release of `publish`.
        let published = self.published().load(Acquire);
        (published != 0).then_some(Publication(published))
    }

    /// Whether that is published still.
    #[inline(always)]
    pub(crate) fn is_published(&self, publication: Publication) -> bool {
        // Acquire: not before what was read of the entry, nor after what is read next.
        self.published().load(Acquire) == publication.0
    }

    #[inline(always)]
    pub(crate) fn published(&self) -> &AtomicU64 {
        &self.words.0.published
    }

    /// The table, once something was frozen.
    #[inline(always)]
    pub(crate) fn memory(&self) -> Option<&M> {
        self.words.0.memory.get()
    }

    /// The table, if it may hold a slot whose residency the caller has declared ending.
    #[inline(always)]
    pub(crate) fn to_be_told(&self) -> Option<&M> {
        // The state was stored before, and locations are read behind it. Partners: the heavy fences
        // of `activate` and of the freezer after it has added.
        fence::light();
        if self.words.0.active.load(Relaxed) { self.memory() } else { None }
    }

    /// Has every end of a residency told to the table from here on. For the freezer, while
    /// nothing is published.
    pub(crate) fn activate(&self, layout: impl FnOnce() -> M) -> &M {
        let memory = self.words.0.memory.get_or_init(layout);
        self.words.0.active.store(true, Relaxed);
        // Whoever has not seen it has left its slot's state before.
        fence::heavy();
        memory
    }

    /// Shows to all what was never shown before.
    pub(crate) fn publish(&self, publication: Publication) {
        // Release: all entries; partner is the Acquire of `publication`.
        self.published().store(publication.0, Release);
    }

    /// Shows nothing any more, and has `forget` clear what leads to the entries. For the
    /// freezer.
    pub(crate) fn withdraw(&self, forget: impl FnOnce(&M)) {
        if !self.words.0.active.load(Relaxed) {
            return;
        }
        // Release: partner is the Acquire of `is_published`.
        self.published().store(0, Release);
        // A `get` that saw it has named what it reads before this.
        fence::heavy();
        if let Some(memory) = self.memory() {
            forget(memory);
        }
        self.words.0.active.store(false, Relaxed);
    }
}
