//! Hits, through a pin and by `get`, and an insertion, as separate functions. `cargo xtask hit`
//! reads their instructions and counts them.

#[cfg(feature = "core")]
type Numbers = frazil::BareCache<u64, u64>;
#[cfg(not(feature = "core"))]
type Numbers = frazil::Cache<u64, u64>;

const ENTRIES: u64 = 1_000;

/// Looks `key` up through a pin.
#[cfg(not(feature = "core"))]
#[unsafe(no_mangle)]
#[inline(never)]
pub fn pinned_hit(pin: &frazil::Pin<'_, u64, u64>, key: u64) -> Option<u64> {
    pin.get(&key).copied()
}

/// Looks `key` up by `get`.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn get_hit(cache: &Numbers, key: u64) -> Option<u64> {
    cache.get(&key)
}

/// Inserts `key`.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn insert_new(cache: &Numbers, key: u64) {
    cache.insert(key, key);
}

#[cfg(feature = "core")]
fn numbers() -> Numbers {
    frazil::BareCache::new(frazil::Policy::Mobius, ENTRIES)
}

#[cfg(not(feature = "core"))]
fn numbers() -> Numbers {
    frazil::Cache::builder(ENTRIES).build()
}

fn main() {
    let cache = numbers();
    // Not counted.
    (0..ENTRIES).for_each(|key| cache.insert(key, key));
    // The first hit of each entry sets its mark.
    let keys = (0..10 * ENTRIES).map(|key| key % ENTRIES);
    let gets = keys.filter(|&key| get_hit(&cache, key) == Some(key)).count();
    println!("{gets} hits by get");
    #[cfg(not(feature = "core"))]
    {
        let pin = cache.pin();
        let hits = (0..ENTRIES).filter(|&key| pinned_hit(&pin, key) == Some(key)).count();
        println!("{hits} hits through a pin");
    }
    (ENTRIES..11 * ENTRIES).for_each(|key| insert_new(&cache, key));
    println!("{} entries", cache.len());
}
