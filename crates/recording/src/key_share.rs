//! The keys of a recording.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The share of all keys that a recording has: those whose hash is below a threshold, so all requests for
/// such a key are recorded.
///
/// ```
/// let keys = frazil_recording::KeyShare::default();
/// assert!(!keys.has(7));
/// keys.set(0.5);
/// assert!(keys.has(7) && !keys.has(u64::MAX));
/// ```
#[derive(Debug, Default)]
pub struct KeyShare {
    /// 0: no keys.
    below: AtomicU64,
}

impl KeyShare {
    /// Whether there are any keys.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        self.below.load(Relaxed) != 0
    }

    /// Whether keys of this hash, of 64 random bits, are among them. A load and a comparison.
    #[inline(always)]
    pub fn has(&self, hash: u64) -> bool {
        hash < self.below.load(Relaxed)
    }

    /// Chooses a share of all keys, above 0 and at most 1.
    pub fn set(&self, rate: f64) {
        // Half of 2^64 is exact; 1 becomes all hashes but one.
        self.below.store(((rate * 2f64.powi(64)) as u64).max(1), Relaxed);
    }

    /// Chooses none.
    pub fn clear(&self) {
        self.below.store(0, Relaxed);
    }
}
