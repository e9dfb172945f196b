//! A bounded queue of segments that any thread may push to and pop from.
//!
//! Each cell holds `lap << 32 | value`; a value of 0 is an empty cell. The cell of
//! position `p` is filled by one compare-exchange `(lap(p), 0) -> (lap(p), value)` and
//! emptied by one `(lap(p), value) -> (lap(p) + 1, 0)`. `head` and `tail` are hints that
//! follow: whoever finds one behind moves it on. So no thread waits for another, not
//! even for one that was suspended between its two steps, which a ring of tickets
//! cannot say. The lap in the word makes a late compare-exchange fail (32 bits: four
//! billion times round).
//!
//! What moves are segments of up to 16 slots, so a push or a pop is paid once for 16
//! entries: contended compare-exchanges cost 280 ns, and 14 to 35 an entry in batches.
//! 8 bytes a cell; one cell a segment.

use crate::stripe::Traffic;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use crate::sync::{OwnLine, zeroed_slice};

/// A lock-free first-in-first-out queue of nonzero numbers.
#[derive(Debug)]
pub(crate) struct Ring {
    cells: Box<[AtomicU64]>,
    mask: u64,
    lap_shift: u32,
    /// The next position to pop, or one already popped.
    head: OwnLine<AtomicU64>,
    /// The next position to push to, or one already filled.
    tail: OwnLine<AtomicU64>,
}

impl Ring {
    /// A ring that holds at least `capacity` values.
    pub(crate) fn new(capacity: usize) -> Self {
        let cells = capacity.max(1).next_power_of_two();
        Ring {
            cells: zeroed_slice(cells),
            mask: cells as u64 - 1,
            lap_shift: cells.trailing_zeros(),
            head: OwnLine::default(),
            tail: OwnLine::default(),
        }
    }

    fn cell(&self, position: u64) -> &AtomicU64 {
        &self.cells[(position & self.mask) as usize]
    }

    /// The empty cell of `position`: its lap, and no value.
    fn empty(&self, position: u64) -> u64 {
        (position >> self.lap_shift) << 32
    }

    /// Appends `value`, which is not 0. False if the ring is full. Each retry means that
    /// another thread has got on.
    pub(crate) fn push(&self, value: u32, traffic: &mut Traffic) -> bool {
        debug_assert_ne!(value, 0);
        loop {
            let tail = self.tail.0.load(Acquire);
            let empty = self.empty(tail);
            let found = self.cell(tail).load(Acquire);
            if found == empty {
                // Release, for what the segment holds; partner: the pop of this cell.
                let filled = empty | u64::from(value);
                let cell = self.cell(tail);
                if cell.compare_exchange(empty, filled, AcqRel, Relaxed).is_ok() {
                    self.follow(&self.tail.0, tail);
                    traffic.writes += 2;
                    return true;
                }
            } else if lap_of(found).wrapping_sub(lap_of(empty)) >> 31 == 1 {
                // Still the value of the lap before: full, unless the tail has moved.
                if self.tail.0.load(Acquire) == tail {
                    return false;
                }
            } else {
                self.follow(&self.tail.0, tail);
            }
            traffic.retries += 1;
        }
    }

    /// Takes the oldest value. `None` if there was none at one moment of the call.
    pub(crate) fn pop(&self, traffic: &mut Traffic) -> Option<u32> {
        loop {
            let head = self.head.0.load(Acquire);
            let empty = self.empty(head);
            let found = self.cell(head).load(Acquire);
            if found == empty {
                // Pushes fill positions in order, so nothing lies behind an empty one.
                return None;
            }
            if lap_of(found) == lap_of(empty) {
                let next_lap = self.empty(head + self.mask + 1);
                // Acquire: partner is the push that filled the cell.
                let cell = self.cell(head);
                if cell.compare_exchange(found, next_lap, AcqRel, Relaxed).is_ok() {
                    self.follow(&self.head.0, head);
                    traffic.writes += 2;
                    return Some(found as u32);
                }
            } else {
                self.follow(&self.head.0, head);
            }
            traffic.retries += 1;
        }
    }

    /// Moves a hint past `position`, unless another thread has.
    fn follow(&self, hint: &AtomicU64, position: u64) {
        // Release, so that who reads the new position also sees the cell that made it so.
        let _ = hint.compare_exchange(position, position + 1, AcqRel, Relaxed);
    }

    /// Whether it held nothing at one moment of the call.
    pub(crate) fn is_empty(&self) -> bool {
        loop {
            let head = self.head.0.load(Acquire);
            let found = self.cell(head).load(Acquire);
            if found == self.empty(head) {
                return true;
            }
            if lap_of(found) == lap_of(self.empty(head)) {
                return false;
            }
            self.follow(&self.head.0, head);
        }
    }

    /// How many values it holds, within what changes during the call.
    pub(crate) fn len(&self) -> u64 {
        let head = self.head.0.load(Relaxed);
        self.tail.0.load(Relaxed).saturating_sub(head)
    }

    /// Its values, oldest first, within what changes meanwhile.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> {
        // The head may be behind the first value by what the ring holds, and no more.
        let head = self.head.0.load(Relaxed);
        let tail = self.tail.0.load(Relaxed).max(head).min(head + self.mask);
        (head..=tail).map(|at| self.cell(at).load(Relaxed) as u32).filter(|&value| value != 0)
    }

    /// The values that lie in its cells, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().map(|cell| cell.load(Relaxed) as u32).filter(|&value| value != 0)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.cells)
    }
}

fn lap_of(word: u64) -> u32 {
    (word >> 32) as u32
}
