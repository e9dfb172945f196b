//! The keys whose operations take the long way because a recording, or learning which share to
//! freeze, observes them. An operation compares its hash with one word for both observers. While
//! nothing observes, it does no more.

use crate::core::index::mix;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The observers of operations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    #[cfg(feature = "recording")]
    Recording,
    #[cfg(feature = "freezing")]
    Learning,
    #[cfg(feature = "freezing")]
    Timing,
}

/// One word, and its parts.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Keys whose mixed hash is below this take the long way; 0: none do.
    threshold: AtomicU64,
    /// By asker.
    asked: Mutex<[u64; 3]>,
}

/// All keys but one in 2^64.
#[cfg(feature = "freezing")]
pub(crate) const ALL: u64 = u64::MAX;

/// The threshold below which a share of all keys lies.
pub(crate) fn threshold(share: f64) -> u64 {
    // Half of 2^64 is exact; 1 becomes `ALL`.
    (share * 2f64.powi(64)) as u64
}

/// Whether a hash is among those below a threshold.
#[cfg(feature = "recording")]
pub(crate) fn is_below(hash: u64, threshold: u64) -> bool {
    mix(hash) < threshold
}

impl Gate {
    pub(crate) fn new() -> Self {
        Gate { threshold: AtomicU64::new(0), asked: Mutex::new([0; 3]) }
    }

    /// Whether an observer may want operations on a key with this hash.
    #[inline(always)]
    pub(crate) fn wants(&self, hash: u64) -> bool {
        mix(hash) < self.threshold.load(Relaxed)
    }

    /// Opens the gate for an asker as far as `threshold`; 0 closes it, unless for others.
    pub(crate) fn open(&self, asker: Asker, threshold: u64) {
        self.set(&mut self.asked.lock(), asker, threshold);
    }

    /// Closes it for an observer, unless another thread is about to change it: for look-ups, which
    /// wait for no thread. Returns whether it did.
    #[cfg(feature = "freezing")]
    pub(crate) fn try_close(&self, asker: Asker) -> bool {
        let asked = self.asked.try_lock();
        asked.map(|mut asked| self.set(&mut asked, asker, 0)).is_some()
    }

    fn set(&self, asked: &mut [u64; 3], asker: Asker, threshold: u64) {
        asked[asker as usize] = threshold;
        self.threshold.store(asked.iter().copied().max().unwrap_or(0), Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_open_as_the_one_who_asks_for_most() {
        let gate = Gate::new();
        let wanted = || (0..10_000u64).filter(|&key| gate.wants(key * 0x1234_5679)).count();
        assert_eq!(wanted(), 0);
        gate.open(Asker::Recording, threshold(0.1));
        let tenth = wanted();
        assert!((900..1_100).contains(&tenth), "{tenth}");
        gate.open(Asker::Timing, ALL);
        assert_eq!(wanted(), 10_000);
        assert!(gate.try_close(Asker::Timing));
        assert_eq!(wanted(), tenth);
        gate.open(Asker::Learning, threshold(0.5));
        gate.open(Asker::Recording, 0);
        assert!((4_500..5_500).contains(&wanted()));
        gate.open(Asker::Learning, 0);
        assert_eq!(wanted(), 0);
    }
}
