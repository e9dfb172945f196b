//! LRU's stack, and the depth in it at which each request finds its object (Mattson and others,
//! 1970).
//!
//! Each use of an object takes the next *position* on a line, and frees the object's previous one.
//! The object's depth is the number of positions taken from its own on; LRU hits with every
//! capacity of that depth or more. One bit marks a position as taken, and a Fenwick tree counts the
//! bits of each [`BLOCK`] positions. A tree of single positions would be 512 times as large, and
//! fit no cache of the processor. At the end of the line the taken positions are compacted.
//!
//! **Deletes** leave a *hole*: free space in every cache that held the object. The next object that
//! is new, or comes from below the topmost hole, fills it. The objects between the two keep their
//! depths, and the old position of that object becomes the hole.

use std::collections::BinaryHeap;
use std::num::Wrapping;
use std::ops::AddAssign;

/// Positions in one count of the tree: eight words of bits, a cache line.
const BLOCK: usize = 512;
const WORDS: usize = BLOCK / 64;
/// Positions for each object after a compaction: so each object is moved once in three of its uses.
/// A position takes 33 bits.
const ROOM: usize = 4;
const LEAST_ROOM: usize = 8 * BLOCK;
/// The position of an object that is not in the stack, and the owner of a hole.
const NONE: u32 = u32::MAX;
/// All objects used so far, by recency.
pub(super) struct LruStack {
    /// Position of each object's last use.
    last: Vec<u32>,
    /// Object at each position that was ever taken.
    owners: Vec<u32>,
    taken: Vec<u64>,
    blocks: Fenwick<Wrapping<u32>>,
    next: usize,
    live: u32,
    holes: BinaryHeap<u32>,
    /// `Some` if depths are sums of sizes.
    sizes: Option<Sizes>,
}

/// Sizes of the objects at the positions.
#[derive(Default)]
struct Sizes {
    /// 0 where a position is free.
    each: crate::trace::Sizes,
    blocks: Fenwick<Wrapping<u64>>,
    live: u64,
}

impl LruStack {
    /// An empty stack. Depths count objects, or sum their `sizes`.
    pub(super) fn new(sizes: bool) -> Self {
        let mut stack = LruStack {
            last: Vec::new(),
            owners: Vec::new(),
            taken: Vec::new(),
            blocks: Fenwick::default(),
            next: 0,
            live: 0,
            holes: BinaryHeap::new(),
            sizes: sizes.then(Sizes::default),
        };
        stack.push_together();
        stack
    }

    /// Reserves space for the objects that will be used next, and loads their positions, so that
    /// the processor's cache misses overlap.
    pub(super) fn expect(&mut self, objects: &[u32]) {
        if let Some(&most) = objects.iter().max()
            && most as usize >= self.last.len()
        {
            self.last.resize(most as usize + 1, NONE);
        }
        for &object in objects {
            std::hint::black_box(self.last[object as usize]);
        }
    }

    /// Uses an object that is expected ([`LruStack::expect`]), and returns its depth: its own size
    /// if it was used last, 0 if it was absent. O(log(objects / 512)), amortised.
    pub(super) fn touch(&mut self, object: u32, size: u64) -> u64 {
        if self.next == self.owners.len() {
            self.push_together();
        }
        let before = std::mem::replace(&mut self.last[object as usize], self.next as u32);
        let depth = match &self.sizes {
            _ if before == NONE => 0,
            None => u64::from(self.depth(before)),
            // An object of size 0 counts as a byte: a depth of 0 means that it was absent.
            Some(sizes) => sizes.depth(before).max(1),
        };
        self.leave(before);
        self.take(self.next, object, size);
        self.next += 1;
        depth
    }

    /// Whether depths are sums of sizes.
    pub(super) fn has_sizes(&self) -> bool {
        self.sizes.is_some()
    }

    /// Removes an object as if it had never been used.
    pub(super) fn forget(&mut self, object: u32) {
        let position = self.last.get_mut(object as usize);
        let position = position.map_or(NONE, |position| std::mem::replace(position, NONE));
        if position != NONE {
            self.free(position);
        }
    }

    /// Removes an object from the stack, if it is there, and leaves a hole.
    pub(super) fn remove(&mut self, object: u32) {
        let Some(position) = self.last.get_mut(object as usize) else { return };
        let position = std::mem::replace(position, NONE);
        if position != NONE {
            self.owners[position as usize] = NONE;
            self.holes.push(position);
        }
    }

    /// Positions taken from this one on.
    fn depth(&self, position: u32) -> u32 {
        let (block, word) = (position as usize / BLOCK, position as usize / 64);
        let first = block * WORDS;
        let below: u32 = self.taken[first..word].iter().map(|word| word.count_ones()).sum();
        let lower = (1u64 << (position % 64)) - 1;
        let own = (self.taken[word] & lower).count_ones();
        self.live - self.blocks.before(block).0 - below - own
    }

    /// Frees an object's position, or the topmost hole above it.
    fn leave(&mut self, position: u32) {
        let fill = self.holes.peek().copied().filter(|&hole| position == NONE || hole > position);
        match (fill, position) {
            (None, NONE) => {}
            (None, position) => self.free(position),
            (Some(hole), position) => {
                self.holes.pop();
                self.free(hole);
                if position != NONE {
                    self.owners[position as usize] = NONE;
                    self.holes.push(position);
                }
            }
        }
    }

    fn free(&mut self, position: u32) {
        self.taken[position as usize / 64] &= !(1 << (position % 64));
        self.blocks.add(position as usize / BLOCK, Wrapping(u32::MAX));
        self.live -= 1;
        if let Some(sizes) = &mut self.sizes {
            sizes.set(position as usize, 0);
        }
    }

    fn take(&mut self, position: usize, object: u32, size: u64) {
        self.owners[position] = object;
        self.taken[position / 64] |= 1 << (position % 64);
        self.blocks.add(position / BLOCK, Wrapping(1));
        self.live += 1;
        if let Some(sizes) = &mut self.sizes {
            sizes.set(position, size);
        }
    }

    /// Compacts the taken positions at the front of a line with free ones.
    fn push_together(&mut self) {
        let room = (self.live as usize * ROOM).max(LEAST_ROOM).next_multiple_of(BLOCK);
        let is_taken = |&position: &usize| self.taken[position / 64] >> (position % 64) & 1 == 1;
        let kept: Vec<usize> = (0..self.next).filter(is_taken).collect();
        let mut owners: Vec<u32> = kept.iter().map(|&position| self.owners[position]).collect();
        self.holes.clear();
        for (position, &owner) in (0..).zip(&owners) {
            match self.last.get_mut(owner as usize) {
                Some(last) => *last = position,
                None => self.holes.push(position),
            }
        }
        self.next = owners.len();
        owners.resize(room, NONE);
        self.owners = owners;
        self.taken = vec![0; room / 64];
        self.taken[..self.next / 64].fill(u64::MAX);
        if !self.next.is_multiple_of(64) {
            self.taken[self.next / 64] = (1 << (self.next % 64)) - 1;
        }
        let count = |words: &[u64]| Wrapping(words.iter().map(|word| word.count_ones()).sum());
        self.blocks = Fenwick::of(self.taken.chunks(WORDS).map(count));
        if let Some(sizes) = &mut self.sizes {
            sizes.push_together(&kept, room);
        }
    }
}

impl Sizes {
    /// Sum of the sizes from a position on.
    fn depth(&self, position: u32) -> u64 {
        let block = position as usize / BLOCK;
        let below = self.each.sum(block * BLOCK..position as usize);
        self.live - self.blocks.before(block).0 - below
    }

    fn set(&mut self, position: usize, size: u64) {
        let before = self.each.set(position, size);
        let change = size.wrapping_sub(before);
        self.blocks.add(position / BLOCK, Wrapping(change));
        self.live = self.live.wrapping_add(change);
    }

    fn push_together(&mut self, kept: &[usize], room: usize) {
        let size_at = |&position: &usize| self.each.get(position).unwrap_or_default();
        self.each = kept.iter().map(size_at).collect();
        self.each.resize(room);
        let sum = |block| Wrapping(self.each.sum(block * BLOCK..(block + 1) * BLOCK));
        self.blocks = Fenwick::of((0..room / BLOCK).map(sum));
    }
}

/// Sums of blocks from the first on (Fenwick, 1994).
#[derive(Default)]
struct Fenwick<N>(Vec<N>);

impl<N: Copy + Default + AddAssign> Fenwick<N> {
    fn of(counts: impl Iterator<Item = N>) -> Self {
        let mut sums: Vec<N> = std::iter::once(N::default()).chain(counts).collect();
        for block in 1..sums.len() {
            let above = block + (block & block.wrapping_neg());
            if above < sums.len() {
                let below = sums[block];
                sums[above] += below;
            }
        }
        Fenwick(sums)
    }

    /// Adds to a block.
    fn add(&mut self, block: usize, count: N) {
        let mut at = block + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum += count;
            at += at & at.wrapping_neg();
        }
    }

    /// The sum of all blocks before this one.
    fn before(&self, block: usize) -> N {
        let (mut at, mut sum) = (block, N::default());
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A list of objects and sizes, the last used first; a hole has no object.
    #[derive(Default)]
    struct Plain(Vec<(Option<u32>, u64)>);

    impl Plain {
        /// The depth in objects and in bytes.
        fn touch(&mut self, object: u32, size: u64) -> (u64, u64) {
            let at = self.0.iter().position(|it| it.0 == Some(object));
            let depth = at.map_or((0, 0), |at| {
                let bytes: u64 = self.0[..=at].iter().map(|it| it.1).sum();
                (at as u64 + 1, bytes.max(1))
            });
            let hole = self.0.iter().position(|it| it.0.is_none());
            match (at, hole.filter(|&hole| at.is_none_or(|at| hole < at))) {
                (Some(at), None) => drop(self.0.remove(at)),
                (None, None) => {}
                (at, Some(hole)) => {
                    if let Some(at) = at {
                        self.0[at].0 = None;
                    }
                    self.0.remove(hole);
                }
            }
            self.0.insert(0, (Some(object), size));
            depth
        }

        fn remove(&mut self, object: u32) {
            for it in self.0.iter_mut().filter(|it| it.0 == Some(object)) {
                it.0 = None;
            }
        }

        fn forget(&mut self, object: u32) {
            self.0.retain(|it| it.0 != Some(object));
        }
    }

    proptest! {
        #[test]
        fn depths_are_those_of_a_list(
            asked in prop::collection::vec((0u32..60, 0u64..9, 0u8..16), 1..400),
            repeats in 1usize..40,
        ) {
            let (mut stack, mut plain) = (LruStack::new(false), Plain::default());
            let mut sized = LruStack::new(true);
            for &(object, size, what) in asked.iter().cycle().take(asked.len() * repeats) {
                if what < 2 {
                    stack.remove(object);
                    sized.remove(object);
                    plain.remove(object);
                } else if what == 2 {
                    stack.forget(object);
                    sized.forget(object);
                    plain.forget(object);
                } else {
                    stack.expect(&[object]);
                    sized.expect(&[object]);
                    let depths = (stack.touch(object, size), sized.touch(object, size));
                    prop_assert_eq!(depths, plain.touch(object, size));
                }
            }
        }
    }
}
