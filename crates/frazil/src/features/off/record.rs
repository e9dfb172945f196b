//! Replaces `record/` without the feature: nothing is recorded.

use crate::features::expiry::Term;
use crate::features::gate::Gate;

/// The recorder of a cache: none.
pub(crate) struct Recorder {
    /// Operations may have other observers.
    gate: Gate,
}

/// The kind of an operation and its outcome.
pub(crate) enum Event {
    Hit,
    Miss,
    Insert,
    Remove,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Recorder { gate: Gate::new() }
    }

    #[inline(always)]
    pub(crate) fn wants(&self, hash: u64) -> bool {
        self.gate.wants(hash)
    }

    #[inline(always)]
    pub(crate) fn records(&self, _: u64) -> bool {
        false
    }

    #[cfg(feature = "freezing")]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    #[inline(always)]
    pub(crate) fn note(&self, _: u64, _: Event, _: u64) {}

    #[inline(always)]
    pub(crate) fn note_insertion(&self, hash: u64, weight: u64, _: &Term) {
        self.note(hash, Event::Insert, weight);
    }
}
