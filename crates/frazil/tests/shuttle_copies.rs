//! Frozen copies of keys and values, under chosen interleavings: a look-up sees no version
//! older than the last whose write was over when it began, and what a pin has found stays.
//!
//! `shuttle.rs` plays what is frozen in place, with values that cannot be copied.
//! `cargo xtask check shuttle` runs both.
#![cfg(shuttle)]

mod schedules;

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use frazil::{Cache, Freezing, Policy};
use schedules::explore;
use shuttle::rand::{RngCore, thread_rng};

const KEYS: u64 = 4;
const CAPACITY: u64 = 5;
const OPERATIONS: u64 = 6;
/// Schedules a policy and scheduler.
const SCHEDULES: usize = 2_000;

/// The same hashes in every run, so that schedules can be played again.
type Tested = Cache<u64, u64, BuildHasherDefault<DefaultHasher>>;

/// By key: the last version of which a write or removal is over. Values are versions.
type Floors = [AtomicU64; KEYS as usize];

fn below(limit: u64) -> u64 {
    thread_rng().next_u64() % limit
}

/// The only thread that writes.
fn write(cache: &Tested, floors: &Floors) {
    for version in 2..2 + OPERATIONS {
        let key = below(KEYS);
        if below(3) == 0 {
            cache.remove(&key);
            // Nothing may be seen but what comes next.
            floors[key as usize].store(version + 1, SeqCst);
        } else {
            cache.insert(key, version);
            floors[key as usize].store(version, SeqCst);
        }
        // Something for the policy to evict.
        cache.insert(KEYS + below(KEYS), version);
    }
}

fn read(cache: &Tested, floors: &Floors) {
    for _ in 0..OPERATIONS {
        let key = below(KEYS);
        let floor = floors[key as usize].load(SeqCst);
        let is_current = |version: u64| assert!(version >= floor, "{key}: {version} < {floor}");
        if below(2) == 0 {
            cache.get(&key).into_iter().for_each(is_current);
            continue;
        }
        let pin = cache.pin();
        if let Some(found) = pin.get(&key) {
            let version = *found;
            is_current(version);
            cache.get(&below(KEYS));
            assert_eq!(*found, version, "a pin keeps what it has found");
        }
    }
}

fn freeze(cache: &Tested) {
    for _ in 0..OPERATIONS {
        match below(3) {
            0 => cache.thaw(),
            _ => _ = cache.freeze([0.5, 1.0][below(2) as usize]),
        }
    }
}

fn play(policy: Policy) {
    let builder = Cache::builder(CAPACITY).policy(policy).freezing_copies(Freezing::ByHand);
    let mut cache: Tested = builder.with_hasher(BuildHasherDefault::default()).build();
    let floors = Floors::default();
    (0..KEYS).for_each(|key| cache.insert(key, 1));
    cache.freeze(1.0);
    shuttle::thread::scope(|scope| {
        let (cache, floors) = (&cache, &floors);
        scope.spawn(move || write(cache, floors));
        scope.spawn(move || read(cache, floors));
        scope.spawn(move || freeze(cache));
    });
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    assert!(cache.len() <= CAPACITY);
}

#[test]
fn no_copy_is_read_that_is_out_of_date() {
    for policy in [Policy::Fifo, Policy::Mobius, Policy::S3Fifo, Policy::Lru, Policy::Lfu] {
        explore(SCHEDULES, move || play(policy));
    }
}
