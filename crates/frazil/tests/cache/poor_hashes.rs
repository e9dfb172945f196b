//! Hashers that hardly mix: look-ups compare no more keys with them.

use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};

use frazil::Cache;

/// Fewer than 2^16, because one of the hashers leaves only 16 bits.
const ENTRIES: u64 = if cfg!(miri) { 200 } else { 20_000 };

thread_local! {
    /// Keys that were compared.
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone, Copy)]
struct Key(u64);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        COMPARED.set(COMPARED.get() + 1);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// The hash of a number by its function.
#[derive(Clone, Copy)]
struct By(fn(u64) -> u64, u64);

impl BuildHasher for By {
    type Hasher = Self;
    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for By {
    fn finish(&self) -> u64 {
        self.0(self.1)
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, number: u64) {
        self.1 = number;
    }
}

#[test]
fn a_look_up_compares_few_keys_whatever_the_hasher() {
    type Spread = fn(u64) -> u64;
    let hashers: [(&str, Spread); 9] = [
        ("k", |k| k),
        ("k << 12", |k| k << 12),
        ("k << 32", |k| k << 32),
        ("k << 48", |k| k << 48),
        ("reversed bits", u64::reverse_bits),
        ("reversed bytes", u64::swap_bytes),
        ("!k", |k| !k),
        ("k * 4096 + 17", |k| k * 4096 + 17),
        ("k in both halves", |k| k << 32 | k),
    ];
    for (name, hash) in hashers {
        COMPARED.set(0);
        let mut cache: Cache<Key, u64, By> =
            Cache::builder(ENTRIES).with_hasher(By(hash, 0)).build();
        (0..ENTRIES).for_each(|key| cache.insert(Key(key), key));
        let inserting = COMPARED.replace(0);
        assert!((0..ENTRIES).all(|key| cache.get(&Key(key)) == Some(key)), "{name}");
        let hits = COMPARED.replace(0) - ENTRIES;
        assert!((ENTRIES..2 * ENTRIES).all(|key| cache.get(&Key(key)).is_none()), "{name}");
        let misses = COMPARED.replace(0);
        println!(
            "{name}: compared in vain: {inserting} inserting, {hits} in hits, {misses} in misses"
        );
        // A tag has 17 bits here, and a bucket nine words: some in 10,000, by chance.
        for in_vain in [inserting, hits, misses] {
            assert!(in_vain < ENTRIES / 20, "{name}: {inserting}, {hits}, {misses} of {ENTRIES}");
        }
        cache.validate().unwrap_or_else(|found| panic!("{name}:\n{found}"));
    }
}
