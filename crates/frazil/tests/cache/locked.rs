//! Policies under a lock: what their promotions and shards change, and what they do not.

use crate::own_process::is_alone;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Barrier;

use crate::extent::{is_long, turns};
use crate::settings::takes_lock;
use frazil::{Cache, ListCosts, Policy, Promotion};
use frazil_policy::Rng;

const CAPACITY: u64 = 5_000;
const KEYS: f64 = 50_000.0;
/// Enough that the misses of a cold cache are a small part.
const REQUESTS: usize = 400_000;

/// Keys of a popularity that falls about as Zipf's does.
fn keys(requests: usize) -> impl Iterator<Item = u64> {
    let mut rng = Rng::new(11);
    (0..requests).map(move |_| KEYS.powf(rng.unit()) as u64)
}

fn replay<S: BuildHasher>(cache: &Cache<u64, u64, S>, keys: impl Iterator<Item = u64>) -> u64 {
    let mut misses = 0;
    for key in keys {
        if cache.get(&key).is_none() {
            misses += 1;
            cache.insert(key, key);
        }
    }
    misses
}

/// Policies that identify objects only by their places, so that the seed of the hash changes
/// nothing.
const WITHOUT_HASHES: [Policy; 6] = [
    Policy::Lru,
    Policy::LruProb { q: 0.5, seed: 1 },
    Policy::LruDelayed { window: 1_000 },
    Policy::Slru { segments: 2 },
    Policy::Lfu,
    Policy::Hyperbolic { seed: 1 },
];

/// An experiment runs them under a lock; S3-FIFO's ghost uses hashes, so these are equal.
#[test]
fn under_a_lock_the_lock_free_policies_miss_as_often() {
    for policy in ["fifo", "clock", "clock:bits=2", "mobius", "s3-fifo"] {
        let builder = || {
            let hasher = BuildHasherDefault::<DefaultHasher>::default();
            let policy: Policy = policy.parse().unwrap();
            Cache::<u64, u64>::builder(1_000).policy(policy).batch(1).with_hasher(hasher)
        };
        let mut locked = builder().list_costs(ListCosts::default()).build();
        let misses = replay(&locked, keys(40_000));
        let turns = locked.list_turns().turns;
        locked.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
        // One to insert, and one to evict once it is full; a hit takes none.
        assert_eq!(turns, 2 * misses - 1_000, "{policy}");
        assert_eq!(replay(&builder().build(), keys(40_000)), misses, "{policy}");
    }
}

const PROMOTIONS: [Promotion; 3] = [Promotion::EveryHit, Promotion::TryLock, Promotion::Adaptive];

#[test]
fn on_one_thread_all_promotions_miss_equally_often() {
    let requests = if is_long() { REQUESTS } else { REQUESTS / 4 };
    for policy in WITHOUT_HASHES {
        let misses = PROMOTIONS.map(|promotion| {
            let builder = Cache::builder(CAPACITY).policy(policy).promotion(promotion);
            let mut cache = builder.build();
            let misses = replay(&cache, keys(requests));
            assert_eq!(cache.stats().promotions_skipped, 0, "{policy}, {promotion:?}");
            cache.validate().unwrap_or_else(|found| panic!("{policy}, {promotion:?}:\n{found}"));
            misses
        });
        assert!(misses.iter().all(|&one| one == misses[0]), "{policy}: {misses:?}");
    }
}

#[test]
fn two_threads_that_leave_promotions_out_miss_hardly_more_often() {
    for capacity in [300, CAPACITY, KEYS as u64 / 2] {
        let points = two_threads(capacity);
        assert!(points < 0.3, "{capacity}: {points} points");
    }
}

/// Percentage points by which two threads miss more with adaptive promotion than with hits that
/// wait.
fn two_threads(capacity: u64) -> f64 {
    let setups = [(Policy::Lru, Promotion::EveryHit), (Policy::Lru, Promotion::Adaptive)];
    let [waiting, adaptive] = setups.map(|(policy, promotion)| {
        let cache = Cache::builder(capacity).policy(policy).promotion(promotion).build();
        // In step, because otherwise the misses would depend on how far one thread is ahead.
        let step = capacity as usize / 10;
        let barrier = Barrier::new(2);
        let misses: u64 = std::thread::scope(|scope| {
            // Each thread has its own keys: two threads that miss one key at once would both count.
            let replay = |thread| {
                let (cache, barrier) = (&cache, &barrier);
                scope.spawn(move || {
                    let keys = keys(REQUESTS).enumerate().map(|(request, key)| {
                        if request % step == 0 {
                            barrier.wait();
                        }
                        2 * key + thread
                    });
                    replay(cache, keys)
                })
            };
            let threads = [replay(0), replay(1)];
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        misses as f64 / (2 * REQUESTS) as f64
    });
    (adaptive - waiting) * 100.0
}

#[test]
fn shards_hold_the_capacity_together_and_miss_hardly_more_often() {
    for policy in [Policy::Lru, Policy::Arc, Policy::WTinyLfu, Policy::TwoQueue] {
        let [whole, sharded] = [1, 8].map(|shards| {
            // The hash decides how even the shards are, and which keys a sketch confuses.
            let mut cache = Cache::builder(CAPACITY)
                .policy(policy)
                .shards(shards)
                .with_hasher(BuildHasherDefault::<DefaultHasher>::default())
                .build();
            let misses = replay(&cache, keys(REQUESTS));
            assert_eq!(cache.len() as u64, CAPACITY, "{policy}");
            cache.validate().unwrap_or_else(|found| panic!("{policy}, {shards}:\n{found}"));
            misses as f64 / REQUESTS as f64
        });
        let points = (sharded - whole).abs() * 100.0;
        println!("{policy}: {points} points");
        assert!(points < 0.5, "{policy}: {points} points: {whole} and {sharded}");
    }
}

/// With more shards than entries, and with threads that replace and remove.
#[test]
fn shards_lose_nothing() {
    if !is_alone("locked::shards_lose_nothing") {
        return;
    }
    for policy in Policy::ALL.into_iter().filter(|&policy| takes_lock(policy)) {
        for (shards, capacity) in [(64, 20), (4, 1_000)] {
            let mut cache: Cache<u64, u64> =
                Cache::builder(capacity).policy(policy).shards(shards).weigher(|_, w| *w).build();
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let cache = &cache;
                    scope.spawn(move || {
                        let mut rng = Rng::new(thread);
                        for _ in 0..turns(200_000) {
                            let key = rng.below(2 * capacity);
                            match rng.below(10) {
                                0 => _ = cache.remove(&key),
                                1..5 => cache.insert(key, 1 + rng.below(3)),
                                _ => _ = cache.get(&key),
                            }
                        }
                    });
                }
            });
            assert!(cache.weight() <= capacity);
            cache.validate().unwrap_or_else(|found| panic!("{policy}, {shards}:\n{found}"));
        }
    }
}
