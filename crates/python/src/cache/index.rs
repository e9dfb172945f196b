//! From hashes to slots: a hash table of words, 64 bytes for fifteen.
//!
//! A hash has a home bucket. What finds it full goes on to the next bucket, and is counted in each
//! bucket that it passes; so a look-up reads on only where somebody has passed, and a removal leaves
//! nothing behind. A word is a slot, and as many bits of the hash as it has room for.
//!
//! The number of buckets is any number, not a power of two: at a full cache 5.4 bytes an entry.

/// Words in a bucket.
const WORDS: usize = 15;
/// How many of them are in use, on average over all buckets, when the table grows.
const FILLED: usize = 12;

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// 0, or a tag above the slot plus 1.
    words: [u32; WORDS],
    /// Words of this or an earlier home that lie further on.
    passed: u32,
}

impl Bucket {
    /// A bit for each word in use with this tag.
    #[inline(always)]
    fn matches(&self, tag: u32, mask: u32) -> u32 {
        let mut matches = 0;
        for (at, word) in self.words.iter().enumerate() {
            // The tag gone, the slot plus 1 is left: from 1 to `mask`.
            let is = (word ^ tag).wrapping_sub(1) < mask;
            matches |= u32::from(is) << at;
        }
        matches
    }

    fn empty(&self) -> Option<usize> {
        self.words.iter().position(|&word| word == 0)
    }
}

/// Slots by hash. Slots with equal hashes are told apart by whoever asks.
#[derive(Default)]
pub(super) struct Index {
    buckets: Vec<Bucket>,
    /// Bits of a word that hold the slot.
    bits: u32,
    len: usize,
}

impl Index {
    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.buckets.len() { 0 } else { at + 1 }
    }

    #[inline(always)]
    fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// The first slot of this hash's chain that `is` accepts. It is asked for slots with this hash,
    /// and for a few with others. O(1); with many equal hashes, O(their number).
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let tag = hash << self.bits;
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag, mask);
            while matches != 0 {
                let slot = (bucket.words[matches.trailing_zeros() as usize] & mask) - 1;
                if is(slot) {
                    return Some(slot);
                }
                matches &= matches - 1;
            }
            if bucket.passed == 0 {
                break;
            }
            at = self.next(at);
        }
        None
    }

    /// Whether one more slot has room.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len < self.buckets.len() * FILLED
    }

    /// Makes room for one more slot, if there are never more than `limit`; `slots` is above all slots
    /// in use, which `entries` are with their hashes. O(n).
    #[cold]
    pub(super) fn grow(
        &mut self,
        limit: usize,
        slots: usize,
        entries: impl Iterator<Item = (u32, u32)>,
    ) {
        let doubled = (self.buckets.len() * 2).min(limit.div_ceil(FILLED));
        let count = doubled.max((self.len + 1).div_ceil(FILLED));
        let most = (count * FILLED).max(slots + 1) as u32;
        *self = Index {
            buckets: vec![Bucket::default(); count],
            bits: u32::BITS - most.leading_zeros(),
            len: 0,
        };
        for (hash, slot) in entries {
            self.insert(hash, slot);
        }
    }

    /// Adds a slot that is not here. There is room ([`has_room`](Self::has_room)).
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        let word = (hash << self.bits) | (slot + 1);
        let mut at = self.home(hash);
        loop {
            if let Some(empty) = self.buckets[at].empty() {
                self.buckets[at].words[empty] = word;
                self.len += 1;
                return;
            }
            self.buckets[at].passed += 1;
            at = self.next(at);
        }
    }

    /// Takes out a slot that is here.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let word = (hash << self.bits) | (slot + 1);
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(place) = bucket.words.iter().position(|&it| it == word) {
                bucket.words[place] = 0;
                self.len -= 1;
                return;
            }
            debug_assert!(bucket.passed > 0, "the slot is not here");
            bucket.passed -= 1;
            at = self.next(at);
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_found_until_they_are_removed() {
        for spread in [0x9e37_79b9_u32, 0, 1 << 31] {
            let mut index = Index::default();
            let mut live = Vec::<(u32, u32)>::new();
            for slot in 0..2_000_u32 {
                let hash = slot.wrapping_mul(spread);
                if !index.has_room() {
                    index.grow(1 << 20, slot as usize, live.iter().copied());
                }
                index.insert(hash, slot);
                live.push((hash, slot));
                if slot % 3 == 0 {
                    let (hash, slot) = live.swap_remove(slot as usize / 3);
                    index.remove(hash, slot);
                    assert_eq!(index.find(hash, |it| it == slot), None);
                }
            }
            for &(hash, slot) in &live {
                assert_eq!(index.find(hash, |it| it == slot), Some(slot));
            }
            for (hash, slot) in live {
                index.remove(hash, slot);
            }
            assert_eq!(index.len, 0);
            assert!(index.buckets.iter().all(|bucket| bucket.passed == 0));
        }
    }
}
