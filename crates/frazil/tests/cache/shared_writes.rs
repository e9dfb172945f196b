//! The cache's count of its writes to shared lines: few if entries move in batches, and under a
//! lock as many as the lock's users write.
//!
//! The counts are the cache's own. A write of a hit without a lock would not be counted; that there
//! is none shows in its instructions: `cargo xtask hit`.

use frazil::{Cache, Policy, Promotion};

const CAPACITY: u64 = 20_000;
/// Insertions that are counted.
const COUNT: u64 = 5 * CAPACITY;
/// Writes of a reclamation itself (limbo, the epoch, the waiting entries, and its own count),
/// divided by the least number of slots for one; and at both ends of the count operations under
/// way, far less than one write of a batch.
const RECLAMATION: f64 = 4.0 / 64.0 + 100.0 / COUNT as f64;

fn full(policy: Policy, batch: u32) -> Cache<u64, u64> {
    let cache = Cache::builder(CAPACITY).policy(policy).batch(batch).build();
    (0..2 * CAPACITY).for_each(|key| cache.insert(key, key));
    cache
}

/// Shared writes of `work`.
fn writes(cache: &Cache<u64, u64>, work: impl FnOnce()) -> u64 {
    let before = cache.stats().shared_writes;
    work();
    cache.stats().shared_writes - before
}

/// Shared writes of one hit of every entry, oldest first.
fn writes_of_hits(cache: &Cache<u64, u64>) -> u64 {
    let hits = cache.stats().hits;
    let keys = 0..2 * CAPACITY;
    let written = writes(cache, || keys.for_each(|key| _ = cache.get(&key)));
    assert_eq!(cache.stats().hits - hits, CAPACITY);
    written
}

#[test]
fn a_hit_under_a_lock_writes_the_lock_and_the_list() {
    // From the tail of the list to its head: two changes, with two neighbours each.
    const LIST: u64 = 4;
    const LOCK: u64 = 2;
    assert_eq!(writes_of_hits(&full(Policy::Lru, 16)), CAPACITY * (LOCK + LIST));
    // Here the clock too, and at most one promotion in a window.
    let delayed = full(Policy::LruDelayed { window: CAPACITY }, 16);
    assert_eq!(writes_of_hits(&delayed), CAPACITY * (LOCK + LIST + 1));
    let young = 2 * CAPACITY - 1;
    assert_eq!(writes(&delayed, || assert_eq!(delayed.get(&young), Some(young))), 0);
    // 32 hits are applied under one lock.
    let adaptive = Cache::builder(CAPACITY).policy(Policy::Lru).promotion(Promotion::Adaptive);
    let adaptive = adaptive.build();
    (0..2 * CAPACITY).for_each(|key| adaptive.insert(key, key));
    assert_eq!(writes_of_hits(&adaptive), CAPACITY * LIST + CAPACITY / 32 * LOCK);
}

/// For each of [`COUNT`] insertions that evict.
fn writes_per_eviction(policy: Policy, batch: u32) -> f64 {
    let cache = full(policy, batch);
    let evictions = cache.stats().evictions;
    let written =
        writes(&cache, || (0..COUNT).for_each(|key| cache.insert(2 * CAPACITY + key, key)));
    assert_eq!(cache.stats().evictions - evictions, COUNT);
    written as f64 / COUNT as f64
}

#[test]
fn batches_spare_shared_writes() {
    // Nothing is marked, so an eviction takes one entry from a queue and an insertion
    // adds one: two ends, each a cell and a hint. A slot retires, waits and comes back:
    // limbo and its count on the way there, the free slots on the way back, and the pop of its
    // segment. Eight, and RECLAMATION.
    for policy in [Policy::Fifo, Policy::Clock { bits: 1 }, Policy::Mobius] {
        let (alone, together) = (writes_per_eviction(policy, 1), writes_per_eviction(policy, 16));
        assert!((8.0..8.0 + RECLAMATION).contains(&alone), "{policy}: {alone}");
        let expected = 8.0 / 16.0..8.0 / 16.0 + RECLAMATION;
        assert!(expected.contains(&together), "{policy}: {together}");
    }
}

#[test]
fn consecutive_detection_spares_shared_writes() {
    let built = |detects| {
        let cache = Cache::builder(CAPACITY).consecutive_detection(detects).build();
        (0..CAPACITY).for_each(|key| cache.insert(key, key));
        cache
    };
    let [together, alone] = [true, false].map(built);
    // Unvisited entries are not moved.
    for cache in [&together, &alone] {
        let written =
            writes(cache, || (CAPACITY..2 * CAPACITY).for_each(|key| cache.insert(key, 0)));
        let expected = 8.0 / 16.0..8.0 / 16.0 + RECLAMATION;
        assert!(expected.contains(&(written as f64 / CAPACITY as f64)), "{written}");
    }
    // All are visited: one eviction moves each of them, and finds no victim but the oldest.
    let moved = |cache: &Cache<u64, u64>| {
        (CAPACITY..2 * CAPACITY).for_each(|key| assert!(cache.get(&key).is_some()));
        let written = writes(cache, || cache.insert(2 * CAPACITY, 0));
        assert_eq!(cache.get(&CAPACITY), None);
        written as f64 / CAPACITY as f64
    };
    // From one ring to the other, each with a cell and a hint, 16 at a time. Alone each moves by
    // itself, in a segment that must be taken for it.
    let (one, each) = (moved(&together), moved(&alone));
    assert!((4.0 / 16.0..4.0 / 16.0 + 0.01).contains(&one), "{one}");
    assert!((3.0..3.0 + 4.0 / 16.0).contains(&each), "{each}");
    for mut cache in [together, alone] {
        cache.validate().expect("nothing is lost, and nothing twice");
    }
}

#[test]
fn a_lock_is_written_by_every_insertion_and_every_eviction() {
    // The lock, a list and the free list, for either; and the slot as above.
    let written = writes_per_eviction(Policy::Sieve, 16);
    let expected = 10.0 + 4.0 / 16.0..10.0 + 4.0 / 16.0 + RECLAMATION;
    assert!(expected.contains(&written), "{written}");
}
