//! From hashes to slots: a hash table of words, 64 bytes for fifteen.
//!
//! A hash has a home bucket. If it is full, an insertion tries the next buckets, and each full bucket
//! counts the insertions that passed it. A look-up reads the next bucket only if that count is not 0,
//! and a removal leaves no tombstone. A word is a slot, and as many bits of the hash as fit above it.
//!
//! The number of buckets need not be a power of two. A full cache takes 6.4 bytes an entry.

/// Words in a bucket.
const WORDS: usize = 15;
/// How many of them are in use, on average over all buckets, when the table grows.
const FILLED: usize = 10;

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// 0, or a tag above the slot.
    words: [u32; WORDS],
    /// Words of this or an earlier home that lie further on.
    passed: u32,
}

impl Bucket {
    /// A bit for each word that equals `wanted` above its lowest `bits`.
    #[inline(always)]
    fn matches(&self, wanted: u32, bits: u32) -> u32 {
        scan::matches(self, wanted >> bits, bits)
    }

    /// The first word not in use; [`WORDS`] if there is none.
    #[inline(always)]
    fn empty(&self) -> usize {
        let empty = self.matches(0, 0);
        if empty == 0 { WORDS } else { empty.trailing_zeros() as usize }
    }
}

/// All words of a line at once: 20 instructions instead of 100.
#[cfg(target_arch = "x86_64")]
mod scan {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_cvtsi32_si128, _mm_load_si128, _mm_movemask_epi8,
        _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi32, _mm_srl_epi32,
    };

    use super::{Bucket, WORDS};

    #[inline(always)]
    pub(super) fn matches(bucket: &Bucket, wanted: u32, bits: u32) -> u32 {
        let line = std::ptr::from_ref(bucket).cast::<__m128i>();
        // SAFETY: a bucket is four aligned vectors, and every x86-64 has SSE2.
        let found = unsafe {
            let shift = _mm_cvtsi32_si128(bits as i32);
            let wanted = _mm_set1_epi32(wanted as i32);
            let four =
                |at| _mm_cmpeq_epi32(_mm_srl_epi32(_mm_load_si128(line.add(at)), shift), wanted);
            let (low, high) =
                (_mm_packs_epi32(four(0), four(1)), _mm_packs_epi32(four(2), four(3)));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        };
        // The last of the sixteen is the count.
        found & ((1 << WORDS) - 1)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod scan {
    use super::Bucket;

    #[inline(always)]
    pub(super) fn matches(bucket: &Bucket, wanted: u32, bits: u32) -> u32 {
        let matches = bucket.words.iter().enumerate();
        matches.fold(0, |all, (at, word)| all | u32::from(word >> bits == wanted) << at)
    }
}

/// Slots by hash. The caller tells slots with equal hashes apart.
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

    /// The highest bit is set: no word in use looks like an empty one.
    #[inline(always)]
    fn tag(&self, hash: u32) -> u32 {
        (hash << self.bits) | (1 << 31)
    }

    /// The first slot of this hash's chain that `is` accepts. `is` is called for slots with this hash,
    /// and for a few with others. O(1); with many equal hashes, O(their number).
    #[inline(always)]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let tag = self.tag(hash);
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag, self.bits);
            while matches != 0 {
                let slot = bucket.words[matches.trailing_zeros() as usize] & mask;
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

    /// The first slot for which [`find`](Self::find) would call `is`, in the home bucket alone. The
    /// error is `true` if no other bucket has one either.
    #[inline(always)]
    pub(super) fn first(&self, hash: u32) -> Result<u32, bool> {
        let Some(bucket) = self.buckets.get(self.home(hash)) else {
            return Err(true);
        };
        let matches = bucket.matches(self.tag(hash), self.bits);
        match bucket.words.get(matches.trailing_zeros() as usize) {
            Some(word) => Ok(word & self.mask()),
            None => Err(bucket.passed == 0),
        }
    }

    /// Whether one more slot has room.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.len < self.buckets.len() * FILLED
    }

    /// Makes room for one more slot, for an index that never has more than `limit`. `entries` are the
    /// hashes and slots in use, all of them below `slots`. O(n).
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
        let word = self.tag(hash) | slot;
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let empty = bucket.empty();
            if let Some(place) = bucket.words.get_mut(empty) {
                *place = word;
                self.len += 1;
                return;
            }
            bucket.passed += 1;
            at = self.next(at);
        }
    }

    /// Takes out a slot that is here.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let word = self.tag(hash) | slot;
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let place = bucket.matches(word, 0).trailing_zeros() as usize;
            if let Some(found) = bucket.words.get_mut(place) {
                *found = 0;
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
