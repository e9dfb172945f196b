//! Bytes an entry, in a process where nothing else takes memory: so this is the only
//! test of its file.

use std::sync::Mutex;

use frazil_driver::{Engine, Shared, bytes_per_entry};

/// Keeps 1,000 bytes for every insertion, and 8 MB from the start.
struct Hoard(Mutex<Vec<Vec<u8>>>);

impl Shared for Hoard {
    fn get(&self, _: u64) -> Option<u64> {
        None
    }

    fn insert(&self, key: u64) {
        self.0.lock().unwrap().push(vec![key as u8 | 1; 1_000]);
    }

    fn remove(&self, _: u64) {}
}

impl Engine for Hoard {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }
}

#[test]
#[cfg(target_os = "linux")]
fn growth_is_divided_by_the_capacity() {
    // Memory allocated before does not count.
    let before = std::hint::black_box(vec![1u8; 40_000_000]);
    let build = || Hoard(Mutex::new(vec![vec![1; 8_000_000]]));
    // 5 × 1,000 bytes of insertions, 400 of the start, some of allocator and vector.
    let bytes = bytes_per_entry(build, 20_000).unwrap();
    drop(before);
    assert!((5_400.0..5_900.0).contains(&bytes), "{bytes}");
}
