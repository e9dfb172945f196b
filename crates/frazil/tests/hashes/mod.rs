//! Hashes that are the same in every run, and as the simulator's.

use std::hash::{BuildHasher, Hasher};

use frazil_policy::object_hash;
use frazil_simulator::HASH_SEED;

/// Hashes a numeric id as the simulator does.
#[derive(Clone, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        object_hash(self.0, HASH_SEED)
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

impl BuildHasher for Identity {
    type Hasher = Identity;
    fn build_hasher(&self) -> Identity {
        Identity::default()
    }
}
