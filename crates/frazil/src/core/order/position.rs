//! The position of a queued slot, kept beside the slot, so that a removal finds it without a
//! search.

use crate::core::slab::Header;
use crate::smr::segments::SECOND;
use crate::sync::atomic::Ordering::{Acquire, Release};

/// The position of a queued slot, as kept beside the slot: with [`IDLE`], which no queued slot has,
/// in place of [`SECOND`], which positions reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position(u32);

impl Position {
    /// The place at `position` of a queue with this mark.
    #[inline(always)]
    pub(crate) fn new(position: u32, mark: u32) -> Self {
        Position(position | mark << 1)
    }

    /// As the header keeps it.
    #[inline(always)]
    pub(crate) fn of(header: &Header) -> Self {
        // Acquire: the chunk in which the position lies; partner is the Release of `note`.
        Position(header.position.load(Acquire))
    }

    #[inline(always)]
    pub(crate) fn note(self, header: &Header) {
        // Release: partner is the Acquire of `of`.
        header.position.store(self.0, Release);
    }

    /// The note of [`Position::note`].
    #[inline]
    pub(crate) fn noted(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn position(self) -> u32 {
        self.0 & !(SECOND << 1)
    }

    /// The mark of the queue.
    #[inline(always)]
    pub(crate) fn mark(self) -> u32 {
        (self.0 >> 1) & SECOND
    }
}
