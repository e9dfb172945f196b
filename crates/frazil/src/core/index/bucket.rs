//! One cache line of the index: fifteen words and a count.

use crate::sync::atomic::{
    AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use crate::sync::{CHECKED, ZeroDefault};

/// Words in a bucket. Few under checkers, or no word would ever be displaced.
pub(crate) const WORDS: usize = if CHECKED { 2 } else { 15 };

/// From this count on displaced words are not counted, and look-ups always read past the bucket.
/// Only keys with equal hashes get there. The numbers above are for threads that count at once.
const ALWAYS: u16 = 0xf000;

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Bucket {
    words: [AtomicU32; WORDS],
    /// Words that lie further on because this bucket was full when they came.
    displaced: AtomicU16,
}

// SAFETY: atomics whose defaults are zero.
unsafe impl ZeroDefault for Bucket {}

impl Bucket {
    /// An empty bucket.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) const fn empty() -> Self {
        Bucket { words: [const { AtomicU32::new(0) }; WORDS], displaced: AtomicU16::new(0) }
    }

    /// A bit for each word that, without its lowest `bits` bits, fewer than 32, equals `wanted` at
    /// some moment of the call: a caller that acts on one reads it again.
    #[inline(always)]
    pub(crate) fn matches(&self, wanted: u32, bits: u32) -> u32 {
        scan::matches(self, wanted, bits)
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: u32) -> &AtomicU32 {
        debug_assert!((at as usize) < WORDS);
        // SAFETY: callers number words by the WORDS bits of `matches`.
        unsafe { self.words.get_unchecked(at as usize) }
    }

    pub(crate) fn words(&self) -> &[AtomicU32] {
        &self.words
    }

    /// Whether a cell is one of this bucket's.
    #[inline(always)]
    pub(crate) fn owns(&self, cell: &AtomicU32) -> bool {
        self.words.as_ptr_range().contains(&std::ptr::from_ref(cell))
    }

    /// Whether a word of an earlier home, or of this one, lies further on.
    #[inline(always)]
    pub(crate) fn displaced(&self) -> bool {
        // Acquire: partner is `displace`; a word stored further on before now is counted.
        self.displaced.load(Acquire) != 0
    }

    /// Their number; `None` if it became too large to count.
    pub(crate) fn displacements(&self) -> Option<u16> {
        Some(self.displaced.load(Relaxed)).filter(|&count| count < ALWAYS)
    }

    /// Counts a word that passes.
    pub(crate) fn displace(&self) {
        if self.displaced.load(Relaxed) < ALWAYS {
            self.displaced.fetch_add(1, Release);
        }
    }

    /// Counts a displaced word that has been removed.
    pub(crate) fn settle(&self) {
        if self.displaced.load(Relaxed) < ALWAYS {
            self.displaced.fetch_sub(1, Release);
        }
    }

    /// Stores `word` in an empty cell and returns the cell. `None` if no cell is empty.
    #[inline(always)]
    pub(crate) fn store(&self, word: u32) -> Option<&AtomicU32> {
        let mut empty = self.matches(0, 0);
        while empty != 0 {
            let cell = self.word(empty.trailing_zeros());
            // Release: key and value; partner is the Acquire of `Index::find`. SeqCst:
            // of two threads that store words of the same key, one sees the other's when it looks
            // again; partner is the same line in that thread.
            if cell.compare_exchange(0, word, SeqCst, Relaxed).is_ok() {
                return Some(cell);
            }
            empty &= empty - 1;
        }
        None
    }
}

impl Bucket {
    /// Stores `word` in an empty cell, if there is one. The bucket is not shared yet.
    pub(crate) fn put(&self, word: u32) -> bool {
        let empty = self.matches(0, 0);
        if empty != 0 {
            self.word(empty.trailing_zeros()).store(word, Relaxed);
        }
        empty != 0
    }

    /// Writes to it without changing its content. The bucket is not shared yet.
    pub(crate) fn touch(&self) {
        self.displaced.store(0, Relaxed);
    }

    /// Takes out all words. The counts of displaced words are no longer used.
    pub(crate) fn wipe(&self) {
        for word in &self.words {
            // Release: after the table was replaced; partner is the fence of `Index::has_left`.
            word.store(0, Release);
        }
    }
}

/// All words of a line at once: 20 instructions instead of 100, and a miss makes five scans.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
mod scan {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi32, _mm_cvtsi32_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_packs_epi32, _mm_set1_epi32, _mm_srl_epi32,
    };

    use super::{Bucket, WORDS};

    // In tests compiled here, because crates that are not optimised would call each instruction.
    #[cfg_attr(debug_assertions, inline(never))]
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn matches(bucket: &Bucket, wanted: u32, bits: u32) -> u32 {
        let (mut a, mut b, mut c, mut d): (__m128i, __m128i, __m128i, __m128i);
        // SAFETY: the 64 bytes of the bucket are readable and aligned. Other threads write them
        // meanwhile: in assembly this equals a relaxed load of each word, and x86 loads aligned
        // words whole.
        unsafe {
            asm!(
                "movdqa {a}, [{line}]",
                "movdqa {b}, [{line} + 16]",
                "movdqa {c}, [{line} + 32]",
                "movdqa {d}, [{line} + 48]",
                line = in(reg) std::ptr::from_ref(bucket),
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                options(nostack, readonly, preserves_flags),
            );
        }
        let found = {
            // SAFETY: SSE2 is part of x86-64.
            unsafe {
                let wanted = _mm_set1_epi32(wanted.cast_signed());
                // Shifted and compared: two instructions for four words. Compared under a mask
                // they are four.
                let bits = _mm_cvtsi32_si128(bits.cast_signed());
                let equal = |words| _mm_cmpeq_epi32(_mm_srl_epi32(words, bits), wanted);
                let low = _mm_packs_epi32(equal(a), equal(b));
                let high = _mm_packs_epi32(equal(c), equal(d));
                _mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned()
            }
        };
        // The last lane is the count.
        found & ((1 << WORDS) - 1)
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
mod scan {
    use super::{Bucket, Relaxed};

    /// Without branches, because the matching word is in an unforeseeable cell.
    #[inline(always)]
    pub(super) fn matches(bucket: &Bucket, wanted: u32, bits: u32) -> u32 {
        let mut found = 0;
        for (at, word) in bucket.words.iter().enumerate() {
            found |= u32::from(word.load(Relaxed) >> bits == wanted) << at;
        }
        found
    }
}

/// Prefetches a line that is about to be read, where the language can.
#[inline(always)]
pub(crate) fn prefetch_for_reading(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches a line that is about to be written, where the processor can.
#[inline(always)]
pub(crate) fn prefetch_for_writing(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is allowed; a processor without this one does
    // nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{address}]",
            address = in(reg) address,
            options(nostack, readonly, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
