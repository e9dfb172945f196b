//! Keys that move between two stores, so that a reader who looks in one after the other does not miss them.
//!
//! A mover holds the lock of the key's stripe. It begins the move, removes the key from one store, inserts it into the
//! other, and ends the move. So a key is never in both. A reader looks in the first store, reads the count of moves,
//! looks in the second and again in the first. If it has found nothing, the count was even and is the same now, then
//! no key of the stripe moved in between: the key was in the second store when the reader looked there, or in the first
//! when it looked there again, or in neither. Otherwise the reader takes the lock.

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, fence};

/// The moves of a stripe: even between two, odd during one.
#[derive(Debug)]
pub(crate) struct Moves(AtomicU32);

/// A move, until it is dropped.
pub(crate) struct Move<'m>(&'m Moves);

impl Moves {
    pub(crate) fn new() -> Moves {
        Moves(AtomicU32::new(0))
    }

    /// Begins a move, with the stripe's lock.
    pub(crate) fn begin(&self) -> Move<'_> {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
        // Partner: the fence of `is_still`. A reader who finds the key removed sees that this has begun.
        fence(Release);
        Move(self)
    }

    /// The count of moves; `None` during one.
    pub(crate) fn count(&self) -> Option<u32> {
        // Acquire: partner of the end of the last move, whose insertion is seen.
        Some(self.0.load(Acquire)).filter(|count| count.is_multiple_of(2))
    }

    /// Whether no move has begun since [`Moves::count`].
    pub(crate) fn is_still(&self, count: u32) -> bool {
        // Partner: the fence of `begin`.
        fence(Acquire);
        self.0.load(Relaxed) == count
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        // Release: partner of `count`.
        self.0.0.store(self.0.0.load(Relaxed).wrapping_add(1), Release);
    }
}
