//! The simulator's hashes.

use std::hash::{BuildHasher, Hasher};

use frazil_policy::object_hash;
use frazil_simulator::HASH_SEED;

/// The simulator's hash of a 64-bit id. With it a cache misses exactly as often as a replay,
/// because ghosts and sketches use hashes.
///
/// ```
/// use frazil_driver::Simulated;
/// let builder = frazil::Cache::builder(100).policy(frazil::Policy::WTinyLfu);
/// let cache = builder.with_hasher(Simulated::default()).build();
/// cache.insert(7_u64, 1);
/// assert_eq!(cache.get(&7), Some(1));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated(u64);

impl BuildHasher for Simulated {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for Simulated {
    fn finish(&self) -> u64 {
        object_hash(self.0, HASH_SEED)
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
    fn write(&mut self, bytes: &[u8]) {
        // Unused with keys of 64 bits.
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }
}
