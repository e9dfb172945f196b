//! Tags: halves of hashes, compared for all entries of a line at once.

#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
use std::arch::{asm, x86_64 as simd};

use crate::sync::atomic::AtomicU32;

/// Tags of a line.
pub(crate) const TAGS: usize = 4;

/// Set in every tag, so that none is 0, nor any other small number.
const TAGGED: u32 = 1 << 31;

/// The half of a hash that identifies an entry: other bits than those for the line.
#[inline(always)]
pub(crate) fn tag_of(mixed: u64) -> u32 {
    (mixed >> 6) as u32 | TAGGED
}

/// A bit for each tag of a line that equals `tag`. The line begins with them, so they are
/// aligned to 16 bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
#[inline(always)]
pub(crate) fn matches(tags: &[AtomicU32; TAGS], tag: u32) -> u32 {
    let four: simd::__m128i;
    // SAFETY: the 16 bytes are readable, and aligned as the line is that they lie in. Other threads
    // write them meanwhile: in assembly this equals a relaxed load of each word, and x86 loads
    // aligned words whole. SSE2 is part of x86-64.
    unsafe {
        asm!(
            "movdqa {four}, [{tags}]",
            tags = in(reg) tags.as_ptr(),
            four = out(xmm_reg) four,
            options(nostack, readonly, preserves_flags),
        );
        let equal = simd::_mm_cmpeq_epi32(four, simd::_mm_set1_epi32(tag.cast_signed()));
        simd::_mm_movemask_ps(simd::_mm_castsi128_ps(equal)).cast_unsigned()
    }
}

#[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
#[inline(always)]
pub(crate) fn matches(tags: &[AtomicU32; TAGS], tag: u32) -> u32 {
    use crate::sync::atomic::Ordering::Relaxed;
    (0..).zip(tags).fold(0, |found, (at, it)| found | u32::from(it.load(Relaxed) == tag) << at)
}
