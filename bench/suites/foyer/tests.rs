//! The tests of foyer-memory.

use std::sync::Barrier;
use std::thread::scope;

use super::adapter::{Cache, POLICIES};
use crate::tasks::{Tasks, turn};

type Numbers = Cache<u64, u64>;

/// Random numbers, the same each time.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), |&state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
    .map(|state| state >> 11)
    .skip(8)
}

/// Tasks that insert, get, remove and fetch at random: no value is found under another key.
fn operates(name: &str) {
    const KEYS: u64 = 1_000;
    let cache = Numbers::named(name, 100);
    (0..KEYS).for_each(|i| _ = cache.insert(i * 7 % KEYS, i * 7 % KEYS));
    let barrier = Barrier::new(4);
    scope(|scope| {
        for thread in 0..4 {
            let (cache, barrier) = (&cache, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut tasks = Tasks::new();
                // Their test gives all tasks the same numbers.
                for task in [2 * thread, 2 * thread + 1] {
                    tasks.spawn(async move {
                        for number in numbers(task).take(2_000) {
                            let i = number / 4 % KEYS;
                            let entry = match number % 4 {
                                0 => Some(cache.insert(i, i)),
                                1 => cache.get(&i),
                                2 => {
                                    cache.remove(&i);
                                    None
                                }
                                _ => {
                                    let fetch = async {
                                        turn().await;
                                        i
                                    };
                                    Some(cache.get_or_fetch(&i, fetch).await)
                                }
                            };
                            assert!(entry.is_none_or(|entry| (entry.key, entry.value) == (i, i)));
                        }
                    });
                }
                tasks.run();
            });
        }
    });
    assert!(cache.usage() <= cache.capacity());
}

/// The cache is full again after its capacity was reduced.
fn resizes(name: &str) {
    let cache = Numbers::named(name, 256);
    let fill = || (0..512).for_each(|i| _ = cache.insert(i, i));
    fill();
    assert_eq!(cache.usage(), 256);
    cache.resize(128);
    assert_eq!(cache.usage(), 128);
    fill();
    assert_eq!(cache.usage(), 128);
}

/// Threads that insert random keys: no value is found under another key, and the cache is full
/// then.
fn is_fuzzed(name: &str) {
    let cache = Numbers::named(name, 256);
    scope(|scope| {
        for thread in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for key in numbers(thread).take(10_000) {
                    match cache.get(&key) {
                        Some(entry) => assert_eq!(entry.value, key),
                        None => _ = cache.insert(key, key),
                    }
                }
            });
        }
    });
    assert_eq!(cache.usage(), cache.capacity(), "{} were refused", cache.refusals());
}

/// A test for each policy.
macro_rules! for_each_policy {
    ($($name:literal: $operates:ident $resizes:ident $fuzzed:ident;)*) => {
        $(
            pub(super) fn $operates() {
                operates($name);
            }
            pub(super) fn $resizes() {
                resizes($name);
            }
            pub(super) fn $fuzzed() {
                is_fuzzed($name);
            }
        )*
    };
}

for_each_policy! {
    "fifo": test_fifo_cache test_fifo_cache_resize test_fifo_cache_fuzzy;
    "lru": test_lru_cache test_lru_cache_resize test_lru_cache_fuzzy;
    "lfu": test_lfu_cache test_lfu_cache_resize test_lfu_cache_fuzzy;
    "s3fifo": test_s3fifo_cache test_s3fifo_cache_resize test_s3fifo_cache_fuzzy;
    "sieve": test_sieve_cache test_sieve_cache_resize test_sieve_cache_fuzzy;
}

pub(super) fn test_send_sync_static() {
    fn is_send_sync_static<T: Send + Sync + 'static>() {}
    is_send_sync_static::<frazil::Cache<(), ()>>();
}

pub(super) fn test_insert_filter() {
    let cache = Numbers::filtered(256, |&key, _| key != 42);
    [1, 2, 42].into_iter().for_each(|i| _ = cache.insert(i, i));
    assert_eq!(cache.usage(), 2);
    let found = [1, 2, 42].map(|key| cache.get(&key).map(|entry| entry.value));
    assert_eq!(found, [Some(1), Some(2), None]);
}

pub(super) fn test_evict_all() {
    let cache = Numbers::with_pipe("fifo", 256);
    (0..256).for_each(|i| _ = cache.insert(i, i));
    assert_eq!(cache.usage(), cache.capacity());
    cache.evict_all();
    let mut pieces = cache.pieces();
    pieces.sort_unstable();
    assert!(pieces.into_iter().eq((0..256).map(|i| (i, i))));
}

pub(super) fn test_flush_if() {
    for (name, _) in POLICIES {
        let cache = Numbers::with_pipe(name, 256);
        (0..8).for_each(|key| _ = cache.insert(key, key * 10));
        let held = cache.insert(8, 80);
        cache.flush_if(|&key, &value| (key % 2 == 0 && value < 60) || key == 8);
        let mut pieces = cache.pieces();
        pieces.sort_unstable();
        assert_eq!(pieces, [(0, 0), (2, 20), (4, 40), (8, 80)], "{name}");
        assert_eq!((cache.entries(), cache.usage()), (5, 5), "{name}");
        assert!(held.is_outdated(), "{name}");
        for key in 0..9 {
            let value = [1, 3, 5, 6, 7].contains(&key).then_some(key * 10);
            assert_eq!(cache.get(&key).map(|entry| entry.value), value, "{name}");
        }
    }
}

pub(super) fn test_insert_size_over_capacity() {
    let cache =
        Cache::<Vec<u8>, Vec<u8>>::weighted(4 << 10, |key, value| (key.len() + value.len()) as u64);
    let (key, value) = (vec![b'k'; 1 << 10], vec![b'v'; 5 << 10]);
    cache.insert(key.clone(), value.clone());
    assert_eq!(cache.usage(), 6 << 10);
    assert_eq!(cache.get(&key).map(|entry| entry.value), Some(value));
}

/// A capacity that is no multiple of the number of shards is not reduced.
fn is_not_lost(capacity: u64, shards: u32) {
    let cache = Numbers::sharded(capacity, shards);
    (0..capacity).for_each(|key| _ = cache.insert(key, key));
    assert_eq!(cache.usage(), capacity);
    assert!((0..capacity).all(|key| cache.get(&key).is_some_and(|entry| entry.value == key)));
    assert!(cache.get(&capacity).is_none());
}

pub(super) fn test_capacity_distribution_without_loss() {
    is_not_lost(3, 2);
}

pub(super) fn test_capacity_distribution_with_more_shards_than_capacity() {
    is_not_lost(2, 4);
}
