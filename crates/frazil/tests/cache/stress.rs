//! All operations at once on few keys, in caches of every policy and many sizes.
//!
//! Values know their key and are counted: none may be seen under another key, dropped
//! twice, or lost. In the end the cache's parts must agree with each other.

use crate::extent::{policies, turns};
use crate::own_process::is_alone;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Policy};

const THREADS: u64 = 4;
/// Operations a thread and cache. Miri is a thousand times slower.
fn operations() -> u64 {
    if cfg!(miri) { 20 } else { turns(8_000) }
}
const CAPACITIES: &[u64] = if cfg!(miri) { &[1, 5] } else { &[1, 2, 3, 7, 16, 64, 700, 9_000] };

type Tested<'c> = Cache<u64, Tracked<'c>>;

/// One thread's share.
fn work<'c>(cache: &Tested<'c>, census: &'c Census, keys: u64, mut chance: Chance) {
    let mut kept = None;
    for _ in 0..operations() {
        let key = chance.below(keys);
        match chance.below(100) {
            0..40 => {
                if let Some(value) = cache.get(&key) {
                    value.check(key);
                } else {
                    cache.insert(key, Tracked::new(census, key));
                }
            }
            40..60 => cache.insert(key, Tracked::new(census, key)),
            60..70 => {
                if let Some(value) = cache.remove(&key) {
                    value.check(key);
                }
            }
            70..75 => _ = cache.invalidate(&key),
            75..80 => {
                if let Some(value) = cache.peek(&key) {
                    value.check(key);
                }
            }
            80..90 => {
                let pin = cache.pin();
                for key in key..(key + 3).min(keys) {
                    if let Some(value) = pin.get(&key) {
                        if chance.below(2) == 0 {
                            cache.insert(key, Tracked::new(census, key));
                        }
                        value.check(key);
                    }
                }
            }
            90..98 => kept = if chance.below(3) == 0 { None } else { Some(cache.pin()) },
            98 if chance.below(keys) < 32 => cache.iter().for_each(|(key, value)| value.check(key)),
            _ if chance.below(20) == 0 => cache.clear(),
            _ => _ = cache.contains_key(&key),
        }
        // A pin from an earlier round still exists, and so do the entries that it shows.
        if let Some((key, value)) = kept.as_ref().and_then(|pin| pin.peek(&key)) {
            value.check(*key);
        }
    }
}

fn stress(policy: Policy, capacity: u64, weighted: bool) {
    let census = Census::default();
    let builder = Cache::builder(capacity).policy(policy);
    let mut cache: Tested<'_> = if weighted {
        builder.weigher(|key, value: &Tracked<'_>| key % 5 + value.serial % 3).build()
    } else {
        builder.build()
    };
    let seed = capacity << 8 | u64::from(weighted);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, census) = (&cache, &census);
            let chance = Chance(seed + (thread << 32));
            scope.spawn(move || work(cache, census, capacity * 2 + 2, chance));
        }
    });
    let what = || format!("{policy}, capacity {capacity}, weighted {weighted}");
    cache.validate().unwrap_or_else(|findings| panic!("{}:\n{findings}", what()));
    assert!(cache.weight() <= capacity && cache.len() as u64 <= capacity.max(1) * 5);
    assert!(census.living() >= cache.len() as i64, "{}", what());
    drop(cache);
    assert_eq!(census.living(), 0, "values lost or dropped twice: {}", what());
}

fn stress_all(policy: Policy) {
    for &capacity in CAPACITIES {
        for weighted in [false, true] {
            stress(policy, capacity, weighted);
        }
    }
}

#[test]
fn fifo() {
    if !is_alone("stress::fifo") {
        return;
    }
    stress_all(Policy::Fifo);
}

#[test]
fn clock() {
    if !is_alone("stress::clock") {
        return;
    }
    stress_all(Policy::Clock { bits: 1 });
    stress_all(Policy::Clock { bits: 2 });
}

#[test]
fn mobius() {
    if !is_alone("stress::mobius") {
        return;
    }
    stress_all(Policy::Mobius);
}

#[test]
fn s3_fifo() {
    if !is_alone("stress::s3_fifo") {
        return;
    }
    stress_all(Policy::S3Fifo);
}

#[test]
fn sieve() {
    if !is_alone("stress::sieve") {
        return;
    }
    stress_all(Policy::Sieve);
}

/// Readers of the order reach slots that nobody has used before. Miri and ThreadSanitizer report a
/// read that comes too early.
#[test]
fn orders_are_read_while_the_cache_fills() {
    let capacity = if cfg!(miri) { 40 } else { 4_000 };
    for policy in policies() {
        let mut cache: Cache<u64, u64> = Cache::builder(capacity).policy(policy).build();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    assert!(cache.coldest(5).iter().all(|&key| key < capacity), "{policy}");
                    std::thread::yield_now();
                }
            });
            (0..capacity).for_each(|key| cache.insert(key, key));
            over.store(true, Relaxed);
        });
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}
