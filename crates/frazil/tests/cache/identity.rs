//! The hasher with which a cache and the plain policy see equal hashes.

use std::hash::{BuildHasher, Hasher};

use frazil_policy::object_hash;

/// Hashes a numeric id as the plain policy's host does.
#[derive(Clone, Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        object_hash(self.0, 1)
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

impl BuildHasher for Identity {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        Self::default()
    }
}
