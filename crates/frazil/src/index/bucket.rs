//! One cache line of the index: a header and fifteen words.
//!
//! Lock and count are words of their own, so that the holder of the lock gives it back
//! with a plain store.

use crate::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{ZeroDefault, spin_loop, yield_now};

/// Words in a bucket.
pub(crate) const WORDS: usize = 15;

/// From here on the count of displaced words stays as it is: the bucket is always read
/// past. Only keys with equal hashes get there. The room above is for threads that count
/// at once.
const ALWAYS: u16 = 0xf000;

/// Looks at a lock that is taken this often before it lets another thread run.
const SPINS: u32 = 64;

#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Bucket {
    locked: AtomicBool,
    /// Words that lie further on because this bucket was full when they came.
    displaced: AtomicU16,
    words: [AtomicU32; WORDS],
}

// SAFETY: atomics whose defaults are zero.
unsafe impl ZeroDefault for Bucket {}

impl Bucket {
    /// A bit for each word that has this tag under the mask. Without branches: most
    /// look-ups match one word in an unforeseeable place (17 % of the speed of the
    /// smallest cells).
    #[inline(always)]
    pub(crate) fn matches(&self, tag: u32, tag_mask: u32) -> u32 {
        let mut found = 0;
        for (at, word) in self.words.iter().enumerate() {
            found |= u32::from((word.load(Relaxed) ^ tag) & tag_mask == 0) << at;
        }
        found
    }

    #[inline(always)]
    pub(crate) fn word(&self, at: u32) -> &AtomicU32 {
        &self.words[at as usize]
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
        // Acquire: partner is `displace`; a word placed further on before now is counted.
        self.displaced.load(Acquire) != 0
    }

    /// Counts a word that passes.
    pub(crate) fn displace(&self) {
        if self.displaced.load(Relaxed) < ALWAYS {
            self.displaced.fetch_add(1, Release);
        }
    }

    /// Counts a word that had passed and is gone.
    pub(crate) fn settle(&self) {
        if self.displaced.load(Relaxed) < ALWAYS {
            self.displaced.fetch_sub(1, Release);
        }
    }

    /// Stores `word` in an empty place. False if there is none.
    #[inline(always)]
    pub(crate) fn place(&self, word: u32) -> bool {
        let mut empty = 0;
        for (at, word) in self.words.iter().enumerate() {
            empty |= u32::from(word.load(Relaxed) == 0) << at;
        }
        while empty != 0 {
            let cell = self.word(empty.trailing_zeros());
            // Release: key and value; partner is the Acquire of `Index::find`. Keys of
            // other homes may be admitted here meanwhile, so it takes an exchange.
            if cell.compare_exchange(0, word, Release, Relaxed).is_ok() {
                return true;
            }
            empty &= empty - 1;
        }
        false
    }

    /// Waits for the lock: its holder looks through a bucket or two and calls `Eq`.
    #[inline(always)]
    pub(crate) fn lock(&self, waits: &mut u64) {
        // Acquire: partner is the Release of `unlock`.
        if self.locked.swap(true, Acquire) {
            self.wait(waits);
        }
    }

    #[cold]
    fn wait(&self, waits: &mut u64) {
        loop {
            *waits += 1;
            for _ in 0..SPINS {
                spin_loop();
                if !self.locked.load(Relaxed) && !self.locked.swap(true, Acquire) {
                    return;
                }
            }
            yield_now();
        }
    }

    #[inline(always)]
    pub(crate) fn unlock(&self) {
        self.locked.store(false, Release);
    }
}

/// Brings a line near, where the processor knows how.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is allowed; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
