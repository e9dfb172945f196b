//! Ghosts: hashes of objects evicted not long ago, oldest forgotten first.
//!
//! One [`History`], bounded by weight alone, with the few calls that a policy with a
//! single ghost needs. 16 bytes an entry beside the policy's note, and 16 to 32 in
//! the table; all operations O(1) amortised.

use crate::History;

/// A FIFO set of hashes, bounded by weight. Each hash carries a note of type
/// `T`, `()` by default.
///
/// ```
/// use frazil_policy::Ghost;
/// let mut ghost = Ghost::new(2);
/// ghost.insert(10, 1);
/// ghost.insert(11, 1);
/// ghost.insert(12, 1); // 10 is forgotten
/// assert!(!ghost.remove(10));
/// assert!(ghost.remove(11));
/// assert!(!ghost.remove(11));
///
/// let mut times = Ghost::new(2);
/// times.insert_noted(20, 1, 1_000_u64);
/// assert_eq!(times.take(20), Some(1_000));
/// ```
#[derive(Clone, Debug)]
pub struct Ghost<T: Copy = ()> {
    history: History<1, T>,
    capacity: u64,
}

impl Ghost {
    /// Remembers `hash`, which is not in the set, as the newest: [`Ghost::insert_noted`].
    #[inline]
    pub fn insert(&mut self, hash: u64, weight: u64) {
        self.insert_noted(hash, weight, ());
    }
}

impl<T: Copy> Ghost<T> {
    /// An empty set that holds hashes up to a total weight of `capacity`.
    pub fn new(capacity: u64) -> Self {
        let mut ghost = Ghost { history: History::new(), capacity: 0 };
        ghost.set_capacity(capacity);
        ghost
    }

    /// How many hashes it holds.
    pub fn len(&self) -> usize {
        self.history.len(0)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.history.is_empty(0)
    }

    /// Sets a new capacity and forgets the oldest hashes beyond it.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.history.set_limits(0, capacity, usize::MAX);
        while self.history.forget_surplus(0).is_some() {}
    }

    /// Remembers `hash`, which is not in the set, and a note as the newest.
    ///
    /// Policies look a hash up at the miss and take it out, so the set does not
    /// look it up again here. A hash that is still present is then present twice,
    /// until it is removed twice or forgotten.
    #[inline]
    pub fn insert_noted(&mut self, hash: u64, weight: u64, note: T) {
        let weight = weight.max(1);
        if weight > self.capacity {
            return;
        }
        // Before the insertion, so that the sum of weights cannot exceed 64 bits.
        while self.history.weight(0) > self.capacity - weight {
            self.history.forget_oldest(0);
        }
        self.history.record(0, hash, weight, note);
    }

    /// Forgets `hash`. True if it was present.
    #[inline]
    pub fn remove(&mut self, hash: u64) -> bool {
        self.take(hash).is_some()
    }

    /// Forgets `hash` and returns its note, if it was present.
    #[inline]
    pub fn take(&mut self, hash: u64) -> Option<T> {
        self.history.take(hash).map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a plain deque of pairs, over few hashes so that homes collide.
        #[test]
        fn equals_a_deque(
            capacity in 1u64..40,
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..5), 0..600),
        ) {
            let mut ghost = Ghost::new(capacity);
            let mut model: VecDeque<(u64, u64)> = VecDeque::new();
            for (insert, id, weight) in steps {
                // Low halves agree for ids 16 apart: the ring must decide.
                let hash = (id << 32) | (id % 16);
                let known = model.iter().position(|&(h, _)| h == hash);
                if let Some(place) = known {
                    model.remove(place);
                }
                if insert {
                    ghost.remove(hash);
                    ghost.insert(hash, weight);
                    if weight.max(1) <= capacity {
                        model.push_back((hash, weight.max(1)));
                    }
                    while model.iter().map(|&(_, w)| w).sum::<u64>() > capacity {
                        model.pop_front();
                    }
                } else {
                    prop_assert_eq!(ghost.remove(hash), known.is_some());
                }
                prop_assert_eq!(ghost.len(), model.len());
            }
        }
    }

    #[test]
    fn the_heaviest_make_room() {
        let mut ghost = Ghost::new(u64::MAX);
        ghost.insert(1, u64::MAX - 1);
        ghost.insert(2, u64::MAX - 1);
        assert!(!ghost.remove(1) && ghost.remove(2));
    }
}
