//! A hit through a pin, and one by `get`, as functions of their own: what `cargo xtask hit` reads
//! the instructions of.

use frazil::{Cache, Pin};

/// Looks `key` up through a pin.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn pinned_hit(pin: &Pin<'_, u64, u64>, key: u64) -> Option<u64> {
    pin.get(&key).copied()
}

/// Looks `key` up by itself.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn get_hit(cache: &Cache<u64, u64>, key: u64) -> Option<u64> {
    cache.get(&key)
}

fn main() {
    let cache: Cache<u64, u64> = Cache::builder(1_000).build();
    (0..1_000).for_each(|key| cache.insert(key, key));
    let pin = cache.pin();
    let hits = (0..1_000).filter(|&key| pinned_hit(&pin, key) == Some(key)).count();
    let gets = (0..1_000).filter(|&key| get_hit(&cache, key) == Some(key)).count();
    println!("{hits} hits through a pin, {gets} by get");
}
