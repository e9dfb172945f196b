//! How long fetches take, learned by backend, for policies that weigh delay.
//!
//! By default a policy assumes that the next fetch of an object takes as long as its last one. With
//! a function from keys to backends it uses the backend's moving average, in which one slow answer
//! counts little. 2 kB, relaxed accesses: of two fetches that end at the same moment one may not
//! count.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most backends: the values of a byte.
const BACKENDS: usize = 1 << u8::BITS;

/// How much one fetch moves the average: a 16th of the way.
const LEARNING: i64 = 16;

/// The backend of a key, and the mean duration of fetches from each.
pub(crate) struct Backends<K> {
    of: Box<dyn Fn(&K) -> u8 + Send + Sync>,
    /// In nanoseconds; 0 before the first.
    latencies: Box<[AtomicU64; BACKENDS]>,
}

impl<K> Backends<K> {
    pub(crate) fn new(of: impl Fn(&K) -> u8 + Send + Sync + 'static) -> Self {
        let latencies = Box::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Backends { of: Box::new(of), latencies }
    }

    /// A fetch of this key took `took` nanoseconds. Returns the mean duration of fetches from its
    /// backend.
    pub(crate) fn learn(&self, key: &K, took: u64) -> u64 {
        let latency = &self.latencies[usize::from((self.of)(key))];
        let known = latency.load(Relaxed);
        let learned = match known {
            0 => took.max(1),
            _ => known.saturating_add_signed((took as i64 - known as i64) / LEARNING).max(1),
        };
        latency.store(learned, Relaxed);
        learned
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_backend_has_its_own_average() {
        let backends = Backends::new(|key: &u64| *key as u8);
        assert_eq!(backends.learn(&1, 1_600), 1_600);
        assert_eq!(backends.learn(&2, 32), 32);
        assert_eq!(backends.learn(&1, 0), 1_500);
        assert_eq!(backends.learn(&(1 << 8 | 2), 48), 33);
        assert_eq!((backends.learn(&3, 0), backends.learn(&3, u64::MAX)), (1, 1));
    }
}
