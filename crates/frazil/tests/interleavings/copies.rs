//! Frozen copies of keys and values, under chosen interleavings: a look-up sees no version older
//! than the last whose write was over when it began, and entries that a pin has found stay.
//!
//! `operations.rs` plays entries frozen in place, with values that cannot be copied.
//! `cargo xtask check shuttle` runs both.

use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::schedules::explore;
use frazil::{Cache, Freezing, Policy};
use shuttle::rand::{RngCore, thread_rng};

const KEYS: u64 = 4;
const CAPACITY: u64 = 5;
const OPERATIONS: u64 = 6;
/// Schedules a policy and scheduler.
const SCHEDULES: u64 = 20_000;

/// The same hashes in every run, so that schedules can be played again.
type Tested = Cache<Key, Value, BuildHasherDefault<DefaultHasher>>;

/// Now and then a comparison takes so long that all other threads continue: between the reads of a
/// key and of its value.
#[derive(Clone, Copy, Debug, Eq, Hash)]
struct Key(u64);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let equal = self.0 == other.0;
        if equal && below(4) == 0 {
            sleep();
        }
        equal
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    key: u64,
    version: u64,
}

/// Until the others have done much.
fn sleep() {
    (0..100).for_each(|_| shuttle::thread::yield_now());
}

/// By key: the last version whose write or removal is over.
type Floors = [AtomicU64; KEYS as usize];

fn below(limit: u64) -> u64 {
    thread_rng().next_u64() % limit
}

fn insert(cache: &Tested, key: u64, version: u64) {
    cache.insert(Key(key), Value { key, version });
}

/// The only thread that writes.
fn write(cache: &Tested, floors: &Floors) {
    for version in 2..2 + OPERATIONS {
        let key = below(KEYS);
        if below(3) == 0 {
            cache.remove(&Key(key));
            // Only the next version may be seen.
            floors[key as usize].store(version + 1, SeqCst);
        } else {
            insert(cache, key, version);
            floors[key as usize].store(version, SeqCst);
        }
        // An entry for the policy to evict.
        insert(cache, KEYS + below(KEYS), version);
    }
}

fn read(cache: &Tested, floors: &Floors) {
    for _ in 0..OPERATIONS {
        let key = below(KEYS);
        let floor = floors[key as usize].load(SeqCst);
        let check = |value: Value| {
            assert_eq!(value.key, key, "another's value");
            assert!(value.version >= floor, "{key}: {} < {floor}", value.version);
        };
        if below(2) == 0 {
            cache.get(&Key(key)).into_iter().for_each(check);
            continue;
        }
        let pin = cache.pin();
        if let Some(found) = pin.get(&Key(key)) {
            let value = *found;
            check(value);
            sleep();
            assert_eq!(*found, value, "a pin keeps what it has found");
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
    (0..KEYS).for_each(|key| insert(&cache, key, 1));
    cache.freeze(1.0);
    shuttle::thread::scope(|scope| {
        let (cache, floors) = (&cache, &floors);
        scope.spawn(move || write(cache, floors));
        scope.spawn(move || read(cache, floors));
        scope.spawn(move || freeze(cache));
    });
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    assert!(cache.len() as u64 <= CAPACITY);
}

#[test]
fn no_copy_is_read_that_is_out_of_date() {
    for policy in [Policy::Fifo, Policy::Mobius, Policy::S3Fifo, Policy::Lru, Policy::Lfu] {
        explore(SCHEDULES, move || play(policy));
    }
}
