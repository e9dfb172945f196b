//! Segments that nothing leads to, and that a reader may still look at.

use crate::hazards::Hazards;
use crate::segments::Segments;
use crate::sync::atomic::Ordering::Acquire;

/// Segments that are asked about at once, of those that were added last and of all in turn: guards
/// may hold any number of them, and a write is not to go through all.
const NEWEST: usize = 8;
const IN_TURN: usize = 56;

#[derive(Debug)]
pub(crate) struct Limbo {
    segments: Vec<u32>,
    /// Where the next turn begins, downwards.
    turn: usize,
}

impl Limbo {
    pub(crate) fn new(segments: &Segments) -> Limbo {
        Limbo { segments: Vec::with_capacity(segments.count() as usize), turn: 0 }
    }

    /// Adds segments whose items were all unlinked, each with the lock of its stripe.
    pub(crate) fn add(&mut self, segments: &[u32]) {
        self.segments.extend_from_slice(segments);
    }

    /// Frees some of those that no reader looks at any more.
    pub(crate) fn drain(&mut self, segments: &Segments, hazards: &Hazards) {
        if self.segments.is_empty() {
            return;
        }
        let names = hazards.names();
        let mut ask = |held: &mut Vec<u32>, index: usize| {
            let segment = held[index];
            // Acquire: partner of `Held::release`. Holds after names: who holds an item has named its
            // segment before and clears the name (Release) after. So if its name is gone (Acquire), what
            // it holds is seen. Who named nothing added to the count under a lock that was taken
            // later to unlink the item.
            if !names.has(segment) && segments.get(segment).holds.load(Acquire) == 0 {
                segments.free(held.swap_remove(index));
            }
        };
        let newest = self.segments.len().saturating_sub(NEWEST);
        (newest..self.segments.len()).rev().for_each(|index| ask(&mut self.segments, index));
        for _ in 0..IN_TURN.min(newest) {
            let last = self.segments.len();
            self.turn = if self.turn == 0 { last } else { self.turn.min(last) } - 1;
            ask(&mut self.segments, self.turn);
        }
    }

    /// For `validate`.
    pub(crate) fn segments(&self) -> &[u32] {
        &self.segments
    }
}
