//! Hashes that are the same in every run, and as the simulator's or the plain policies'.

use std::hash::{BuildHasher, Hasher};

use frazil_policy::object_hash;

/// Hashes a numeric id as those do that have this seed.
#[derive(Clone, Default)]
pub(crate) struct Seeded<const SEED: u64>(u64);

impl<const SEED: u64> Hasher for Seeded<SEED> {
    fn finish(&self) -> u64 {
        object_hash(self.0, SEED)
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

impl<const SEED: u64> BuildHasher for Seeded<SEED> {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self::default()
    }
}
