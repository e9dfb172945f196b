//! Limbo: segments that the index no longer leads to, and that a reader may still access.

use crate::hazards::Hazards;
use crate::segments::Segments;
use crate::sync::atomic::Ordering::Acquire;

/// Segments checked at once: this many of those added last, and this many of all in order.
/// Guards may hold any number of segments, and a write must not check them all.
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

    /// Frees some segments that readers no longer access.
    pub(crate) fn drain(&mut self, segments: &Segments, hazards: &Hazards) {
        if self.segments.is_empty() {
            return;
        }
        let names = hazards.names();
        let ask = |held: &mut Vec<u32>, index: usize| {
            let segment = held[index];
            // Acquire: partner of `Held::release`. Holds are read after names: a holder of an item
            // has named its segment before, and clears the name (Release) after. So if its name is
            // cleared (Acquire), its hold is seen. A holder that named nothing added to the count
            // under a lock, which the evictor took later to unlink the item.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use crate::sync::atomic::Ordering::Relaxed;

    /// However many are held, the segments added last are freed at once, and any other in its
    /// turn.
    #[test]
    fn one_that_is_not_held_among_many_comes_free() {
        const COUNT: u32 = if cfg!(miri) { 150 } else { 1000 };
        let segments = Segments::new(Mapping::new(COUNT as usize * 64).unwrap(), 64, COUNT);
        let hazards = Hazards::new();
        let mut limbo = Limbo::new(&segments);
        for _ in 0..COUNT {
            let segment = segments.take().unwrap();
            segments.get(segment).holds.store(1, Relaxed);
            limbo.add(&[segment]);
        }
        let mut free = 0;
        for segment in [COUNT - 1, COUNT - 2, 0, COUNT / 2, 3] {
            segments.get(segment).holds.store(0, Relaxed);
            let hazard = hazards.name(segment).unwrap();
            let drains = COUNT as usize / IN_TURN + 1;
            (0..drains).for_each(|_| limbo.drain(&segments, &hazards));
            assert_eq!(segments.free_count(), free, "it is named");
            drop(hazard);
            let drains = if segment >= COUNT - 2 { 1 } else { drains };
            (0..drains).for_each(|_| limbo.drain(&segments, &hazards));
            free += 1;
            assert_eq!(segments.free_count(), free, "{segment}");
            assert_eq!(limbo.segments().len(), (COUNT - free) as usize);
        }
    }
}
