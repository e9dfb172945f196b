//! Halves of hashes, by which entries of a line are told: all of a line at once.

#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
use std::arch::{asm, x86_64 as simd};

use crate::sync::atomic::AtomicU32;

/// Set in every tag, so that none is 0, nor any other small number.
const TAGGED: u32 = 1 << 31;

/// The half of a hash that an entry is told by: other bits than say the line.
#[inline(always)]
pub(crate) fn tag_of(mixed: u64) -> u32 {
    (mixed >> 6) as u32 | TAGGED
}

/// A bit for each tag of a line that equals `tag`. The line begins with them, so they are
/// aligned to 16 bytes; there are four or eight.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
#[inline(always)]
pub(crate) fn matches<const LANES: usize>(tags: &[AtomicU32; LANES], tag: u32) -> u32 {
    const { assert!(LANES == 4 || LANES == 8) };
    let load = |at: usize| -> simd::__m128i {
        let four;
        // SAFETY: the 16 bytes are readable, and aligned as the line is that they lie in. Other
        // threads write them meanwhile: in assembly that is what a relaxed load of each word
        // is, and x86 loads aligned words whole.
        unsafe {
            asm!(
                "movdqa {four}, [{tags}]",
                tags = in(reg) tags[at..].as_ptr(),
                four = out(xmm_reg) four,
                options(nostack, readonly, preserves_flags),
            );
        }
        four
    };
    // SAFETY: SSE2 is part of x86-64.
    unsafe {
        let wanted = simd::_mm_set1_epi32(tag.cast_signed());
        let first = simd::_mm_cmpeq_epi32(load(0), wanted);
        if LANES == 4 {
            return simd::_mm_movemask_ps(simd::_mm_castsi128_ps(first)).cast_unsigned();
        }
        let last = simd::_mm_cmpeq_epi32(load(4), wanted);
        let words = simd::_mm_packs_epi32(first, last);
        let bytes = simd::_mm_packs_epi16(words, simd::_mm_setzero_si128());
        simd::_mm_movemask_epi8(bytes).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
#[inline(always)]
pub(crate) fn matches<const LANES: usize>(tags: &[AtomicU32; LANES], tag: u32) -> u32 {
    use crate::sync::atomic::Ordering::Relaxed;
    (0..).zip(tags).fold(0, |found, (at, it)| found | u32::from(it.load(Relaxed) == tag) << at)
}
