//! A queue of segments that any thread may push to and pop from, and that grows.
//!
//! It consists of *rings* of cells. Each cell holds `lap << 32 | value`; a value of 0 is an empty
//! cell. The cell of position `p` is filled by one compare-exchange `(lap(p), 0) -> (lap(p),
//! value)` and emptied by one `(lap(p), value) -> (lap(p) + 1, 0)`. `head` and `tail` are hints
//! that lag: a thread that finds one behind advances it. So no thread waits for another, not even
//! for one that is suspended between its two steps, as it would in a ring of tickets. The lap in
//! the word makes a late compare-exchange fail (32 bits: four billion times round).
//!
//! A push that would fill a ring closes it instead: [`CLOSED`] takes the place of its value, for
//! which there always is a cell, and the value goes to the next ring, of twice the cells. Nothing
//! comes behind `CLOSED`, and nothing is pushed to a ring before the one before it is closed; so a
//! pop that finds it goes on to the next, and the order holds across rings. Rings that are left
//! behind stay until the queue is dropped: together they are smaller than the last.
//!
//! The values are segments of up to 16 slots, so 16 entries share the cost of a push or a pop: a
//! contended compare-exchange costs 280 ns, and 14 to 35 an entry in batches. 8 bytes a cell, at
//! most four cells a segment.

use crate::smr::stripe::Traffic;
use crate::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use crate::sync::{CHECKED, OwnLine, zeroed_slice};

/// Cells of the first ring.
const FIRST: usize = if CHECKED { 2 } else { 16 };

/// The value of the cell that ends a ring: no segment's.
const CLOSED: u32 = u32::MAX;

/// A lock-free first-in-first-out queue of numbers that are neither 0 nor [`CLOSED`].
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// Null until something is pushed.
    first: Next,
    /// The ring to push to, and the one to pop from, or ones that were left behind; null for the
    /// first. Written when a ring is closed.
    filled: Next,
    emptied: Next,
}

/// Where another ring is, or nowhere.
#[derive(Debug)]
struct Next(AtomicPtr<Cells>);

impl Default for Next {
    fn default() -> Self {
        Next(AtomicPtr::new(std::ptr::null_mut()))
    }
}

impl Next {
    fn get(&self) -> Option<&Cells> {
        // Acquire: partner is the Release of `get_or_make` and of `go_on`. SAFETY: a pointer that
        // is not null came from a box that the queue keeps for as long as it lives.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// The ring, which is made with so many cells if there is none.
    fn get_or_make(&self, cells: usize) -> &Cells {
        match self.get() {
            Some(ring) => ring,
            None => self.make(cells),
        }
    }

    #[cold]
    fn make(&self, cells: usize) -> &Cells {
        let made = Box::into_raw(Box::new(Cells::new(cells)));
        // Release: the ring; partner is the Acquire of `get`.
        if let Err(others) = self.0.compare_exchange(std::ptr::null_mut(), made, AcqRel, Acquire) {
            // SAFETY: made above, and not shared; another thread's lives as long as the queue.
            unsafe {
                drop(Box::from_raw(made));
                return &*others;
            }
        }
        // SAFETY: it is the queue's now.
        unsafe { &*made }
    }

    /// Goes on from a ring to the next, unless another thread has.
    fn go_on(&self, from: Option<&Cells>, to: &Cells, traffic: &mut Traffic) {
        let from = from.map_or(std::ptr::null_mut(), |from| std::ptr::from_ref(from).cast_mut());
        // AcqRel: who reads the new one finds the ring before it closed, or emptied.
        let _ = self.0.compare_exchange(from, std::ptr::from_ref(to).cast_mut(), AcqRel, Relaxed);
        traffic.writes += 1;
    }
}

/// One ring.
#[derive(Debug)]
struct Cells {
    cells: Box<[AtomicU64]>,
    mask: u64,
    lap_shift: u32,
    /// The next position to pop, or one already popped.
    head: OwnLine<AtomicU64>,
    /// The next position to push to, or one already filled. Never past [`CLOSED`].
    tail: OwnLine<AtomicU64>,
    /// The next ring, for segments that do not fit, once this is closed.
    next: Next,
}

impl Cells {
    fn new(cells: usize) -> Self {
        debug_assert!(cells.is_power_of_two());
        Cells {
            cells: zeroed_slice(cells),
            mask: cells as u64 - 1,
            lap_shift: cells.trailing_zeros(),
            head: OwnLine::default(),
            tail: OwnLine::default(),
            next: Next::default(),
        }
    }

    /// The next ring, which there is when this is closed.
    fn next(&self) -> &Cells {
        self.next.get_or_make(2 * self.cells.len())
    }

    fn cell(&self, position: u64) -> &AtomicU64 {
        &self.cells[(position & self.mask) as usize]
    }

    /// The empty cell of `position`: its lap, and no value.
    fn empty(&self, position: u64) -> u64 {
        (position >> self.lap_shift) << 32
    }

    /// Whether the cell of a position still holds the value of the lap before. Once it does not,
    /// it never does again.
    fn is_behind(&self, position: u64) -> bool {
        // Acquire: a thread that finds it empty sees all writes of the thread that emptied it.
        let found = self.cell(position).load(Acquire);
        lap_of(found).wrapping_sub(lap_of(self.empty(position))) >> 31 == 1
    }

    /// Appends `value`. False if the ring is closed. Each retry means that another thread has
    /// got on.
    fn push(&self, value: u32, traffic: &mut Traffic) -> bool {
        loop {
            let tail = self.tail.0.load(Acquire);
            let (cell, empty) = (self.cell(tail), self.empty(tail));
            let found = cell.load(Acquire);
            if found == empty {
                // It would be the last: the next push could find no room to close the ring.
                let value = if self.is_behind(tail + 1) { CLOSED } else { value };
                // Release, for the content of the segment; partner: the pop of this cell.
                let filled = empty | u64::from(value);
                if cell.compare_exchange(empty, filled, AcqRel, Relaxed).is_ok() {
                    traffic.writes += 1;
                    if value == CLOSED {
                        return false;
                    }
                    self.follow(&self.tail.0, tail);
                    traffic.writes += 1;
                    return true;
                }
            } else if found == empty | u64::from(CLOSED) {
                return false;
            } else {
                // The cell of the tail never is behind: who has filled the one before it has
                // looked.
                self.follow(&self.tail.0, tail);
            }
            traffic.retries += 1;
        }
    }

    /// Takes the oldest value. `None` if there was none at one moment of the call; [`CLOSED`],
    /// which stays, if there will never be one again.
    fn pop(&self, traffic: &mut Traffic) -> Option<u32> {
        loop {
            let head = self.head.0.load(Acquire);
            let empty = self.empty(head);
            let found = self.cell(head).load(Acquire);
            if found == empty {
                // Pushes fill positions in order, so nothing lies behind an empty one.
                return None;
            }
            if lap_of(found) == lap_of(empty) {
                if found as u32 == CLOSED {
                    return Some(CLOSED);
                }
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

    /// The oldest value, as [`Cells::pop`] would take it.
    fn first(&self) -> Option<u32> {
        loop {
            let head = self.head.0.load(Acquire);
            let found = self.cell(head).load(Acquire);
            if found == self.empty(head) {
                return None;
            }
            if lap_of(found) == lap_of(self.empty(head)) {
                return Some(found as u32);
            }
            self.follow(&self.head.0, head);
        }
    }

    fn len(&self) -> u64 {
        let head = self.head.0.load(Relaxed);
        self.tail.0.load(Relaxed).saturating_sub(head)
    }

    fn in_order(&self) -> impl Iterator<Item = u32> {
        // The head may be behind the first value by at most the size of the ring.
        let head = self.head.0.load(Relaxed);
        let tail = self.tail.0.load(Relaxed).max(head).min(head + self.mask);
        (head..=tail).map(|at| self.cell(at).load(Relaxed) as u32).filter(|&value| is_value(value))
    }

    fn values(&self) -> impl Iterator<Item = u32> {
        self.cells.iter().map(|cell| cell.load(Relaxed) as u32).filter(|&value| is_value(value))
    }
}

fn is_value(value: u32) -> bool {
    value != 0 && value != CLOSED
}

impl Ring {
    /// Appends `value`, which is neither 0 nor [`CLOSED`].
    pub(crate) fn push(&self, value: u32, traffic: &mut Traffic) {
        debug_assert!(is_value(value));
        loop {
            let filled = self.filled.get();
            let ring = filled.unwrap_or_else(|| self.first.get_or_make(FIRST));
            if ring.push(value, traffic) {
                return;
            }
            self.filled.go_on(filled, ring.next(), traffic);
        }
    }

    /// Takes the oldest value. `None` if there was none at one moment of the call.
    pub(crate) fn pop(&self, traffic: &mut Traffic) -> Option<u32> {
        loop {
            let emptied = self.emptied.get();
            let ring = emptied.or_else(|| self.first.get())?;
            match ring.pop(traffic)? {
                CLOSED => self.emptied.go_on(emptied, ring.next(), traffic),
                value => return Some(value),
            }
        }
    }

    /// Whether it held nothing at one moment of the call.
    pub(crate) fn is_empty(&self) -> bool {
        loop {
            let emptied = self.emptied.get();
            let Some(ring) = emptied.or_else(|| self.first.get()) else { return true };
            match ring.first() {
                Some(CLOSED) => self.emptied.go_on(emptied, ring.next(), &mut Traffic::default()),
                first => return first.is_none(),
            }
        }
    }

    /// The rings that may hold something, oldest first, within what changes meanwhile.
    fn rings(&self) -> impl Iterator<Item = &Cells> {
        let emptied = self.emptied.get().or_else(|| self.first.get());
        std::iter::successors(emptied, |ring| ring.next.get())
    }

    /// How many values it holds, within what changes during the call.
    pub(crate) fn len(&self) -> u64 {
        self.rings().map(Cells::len).sum()
    }

    /// Its values, oldest first, within what changes meanwhile.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = u32> {
        self.rings().flat_map(Cells::in_order)
    }

    /// The values that lie in its cells, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = u32> {
        self.rings().flat_map(Cells::values)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let made = std::iter::successors(self.first.get(), |ring| ring.next.get());
        made.map(|ring| size_of::<Cells>() + size_of_val(&*ring.cells)).sum()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut ring = self.first.0.load(Relaxed);
        while !ring.is_null() {
            // SAFETY: it came from a box, and this is the last owner.
            ring = unsafe { Box::from_raw(ring) }.next.0.load(Relaxed);
        }
    }
}

fn lap_of(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_order_however_much_it_holds() {
        let (ring, mut traffic) = (Ring::default(), Traffic::default());
        assert!(ring.is_empty() && ring.heap_bytes() == 0);
        let (mut pushed, mut popped) = (0, 0);
        for held in [5, 100, 3, 1_000, 0, 20_000, 0, 40] {
            while pushed - popped < held {
                pushed += 1;
                ring.push(pushed, &mut traffic);
            }
            assert!(ring.in_order().eq(popped + 1..=pushed));
            while pushed - popped > held {
                popped += 1;
                assert_eq!(ring.pop(&mut traffic), Some(popped));
            }
            assert_eq!((ring.len(), ring.is_empty()), (held.into(), held == 0));
        }
        assert!(ring.heap_bytes() < 20_000 * 4 * 8);
    }
}
