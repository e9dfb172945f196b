//! The whole cache under chosen interleavings: three threads, few keys, tiny capacities.
//!
//! `cargo xtask check shuttle` runs it. shuttle replaces the atomics and switches threads between
//! any two of their operations, randomly or (PCT) with few switches in the places that matter. A
//! history notes every operation, and no look-up may return a value that an operation had
//! overwritten or removed before the look-up began. Values are counted, and in the end the cache's
//! parts must agree.
//!
//! shuttle's atomics are sequentially consistent: loom checks the orderings.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::Mutex;

use crate::schedules::explore;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Freezing, Policy};
use shuttle::rand::{RngCore, thread_rng};

const THREADS: u64 = 3;
const OPERATIONS: u64 = 5;
const KEYS_MAX: u64 = 3;
/// Schedules a policy and scheduler.
const SCHEDULES: u64 = 20_000;

/// The end of an operation that has not ended.
const NEVER: u64 = u64::MAX;

/// A change that ends a key's earlier values: a new value, or none.
#[derive(Debug)]
struct Change {
    /// All keys, if `None`.
    key: Option<u64>,
    /// The number of the new value.
    serial: Option<u64>,
    began: u64,
    /// When the operation had ended, or its value was first seen.
    ended: u64,
}

#[derive(Debug, Default)]
struct History {
    clock: u64,
    changes: Vec<Change>,
}

/// Shared by plain locks: nothing is switched while one is held.
#[derive(Debug, Default)]
struct Log(Mutex<History>);

impl Log {
    fn with<R>(&self, work: impl FnOnce(&mut History) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        self.with(|history| {
            history.clock += 1;
            history.clock
        })
    }

    /// Notes a change while `work` does it.
    fn change<R>(&self, key: Option<u64>, serial: Option<u64>, work: impl FnOnce() -> R) -> R {
        let began = self.now();
        let number = self.with(|history| {
            history.changes.push(Change { key, serial, began, ended: NEVER });
            history.changes.len() - 1
        });
        let result = work();
        let ended = self.now();
        self.with(|history| {
            let change = &mut history.changes[number];
            change.ended = change.ended.min(ended);
        });
        result
    }

    /// Checks what a look-up that began at `began` has found.
    fn found(&self, key: u64, began: u64, value: &Tracked<'_>) {
        value.check(key);
        let now = self.now();
        self.with(|history| {
            let of_value = |change: &Change| change.serial == Some(value.serial);
            let number = history.changes.iter().position(of_value).expect("nobody put it in");
            let source = &mut history.changes[number];
            source.ended = source.ended.min(now);
            let there_since = source.ended;
            let over = history.changes.iter().find(|change| {
                change.key.is_none_or(|changed| changed == key)
                    && change.began > there_since
                    && change.ended < began
            });
            assert!(over.is_none(), "found at {began}..{now} in spite of {over:?}: {history:#?}");
        });
    }

    /// Notes that a look-up that began at `began` found nothing: earlier values have ended.
    fn missed(&self, key: u64, began: u64) {
        let ended = self.now();
        let change = Change { key: Some(key), serial: None, began, ended };
        self.with(|history| history.changes.push(change));
    }
}

/// Hashes that are the same in every run, so that schedules can be played again. Poor
/// ones have few values: keys share their tags and fill their bucket.
#[derive(Clone, Copy, Debug)]
struct Hashes {
    poor: bool,
}

impl BuildHasher for Hashes {
    type Hasher = Poor;
    fn build_hasher(&self) -> Poor {
        Poor { inner: BuildHasherDefault::<DefaultHasher>::default().build_hasher(), hashes: *self }
    }
}

struct Poor {
    inner: DefaultHasher,
    hashes: Hashes,
}

impl Hasher for Poor {
    fn write(&mut self, bytes: &[u8]) {
        self.inner.write(bytes);
    }
    fn finish(&self) -> u64 {
        let hash = self.inner.finish();
        if self.hashes.poor { hash & 1 } else { hash }
    }
}

type Tested<'c> = Cache<u64, Tracked<'c>, Hashes>;

/// What the threads share.
struct World<'c> {
    cache: Tested<'c>,
    census: &'c Census,
    log: Log,
    keys: u64,
    freezes: bool,
}

impl World<'_> {
    fn insert(&self, key: u64) {
        let value = Tracked::new(self.census, key);
        self.log.change(Some(key), Some(value.serial), || self.cache.insert(key, value));
    }

    fn look(&self, key: u64) -> bool {
        let began = self.log.now();
        let found = self.cache.get(&key);
        match &found {
            Some(value) => self.log.found(key, began, value),
            None => self.log.missed(key, began),
        }
        found.is_some()
    }

    fn remove(&self, key: u64) {
        let began = self.log.now();
        let removed = self.log.change(Some(key), None, || self.cache.remove(&key));
        if let Some(value) = removed {
            self.log.found(key, began, &value);
        }
    }

    /// An entry that a pin has shown stays unchanged while the thread does something else.
    fn pin(&self, key: u64, chance: &mut Chance) {
        let pin = self.cache.pin();
        let began = self.log.now();
        match pin.get(&key) {
            Some(value) => {
                self.log.found(key, began, value);
                self.insert(chance.below(self.keys));
                value.check(key);
            }
            None => self.log.missed(key, began),
        }
    }

    fn work(&self, mut chance: Chance) {
        for _ in 0..OPERATIONS {
            let key = chance.below(self.keys);
            match chance.below(if self.freezes { 24 } else { 16 }) {
                0..5 => {
                    if !self.look(key) {
                        self.insert(key);
                    }
                }
                5..9 => self.insert(key),
                9..12 => self.remove(key),
                12 => self.pin(key, &mut chance),
                13 => self.log.change(None, None, || self.cache.clear()),
                14 => self.cache.iter().for_each(|(key, value)| value.check(key)),
                15 => _ = self.look(key),
                16..21 => _ = self.cache.freeze([0.5, 0.7, 1.0][chance.below(3) as usize]),
                _ => self.cache.thaw(),
            }
        }
    }
}

/// One schedule: a cache is made, used by all threads, and counted.
fn play(policy: Policy, freezes: bool) {
    let mut chance = Chance(thread_rng().next_u64());
    let census = Census::default();
    let keys = 1 + chance.below(KEYS_MAX);
    let capacity = [1, 2, 3, 8][chance.below(4) as usize];
    let builder =
        Cache::builder(capacity).policy(policy).with_hasher(Hashes { poor: chance.below(2) == 0 });
    let builder = if freezes { builder.freezing(Freezing::ByHand) } else { builder };
    let cache: Tested<'_> = if chance.below(3) == 0 {
        builder.weigher(|key, value: &Tracked<'_>| key % 2 + value.serial % 3).build()
    } else {
        builder.build()
    };
    let mut world = World { cache, census: &census, log: Log::default(), keys, freezes };
    if freezes {
        (0..keys).for_each(|key| world.insert(key));
        world.cache.freeze(1.0);
    }
    shuttle::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (world, chance) = (&world, Chance(chance.below(u64::MAX)));
            scope.spawn(move || world.work(chance));
        }
    });
    for key in 0..keys {
        world.look(key);
    }
    world.cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    assert!(world.cache.weight() <= capacity);
    assert!(census.living() >= world.cache.len() as i64);
    drop(world);
    assert_eq!(census.living(), 0, "values lost or dropped twice");
}

fn explore_all(policy: Policy) {
    explore(SCHEDULES, move || play(policy, false));
}

/// The same with some entries frozen now and then.
fn explore_frozen(policy: Policy) {
    explore(SCHEDULES, move || play(policy, true));
}

#[test]
fn fifo() {
    explore_all(Policy::Fifo);
}

#[test]
fn clock() {
    explore_all(Policy::Clock { bits: 1 });
}

#[test]
fn mobius() {
    explore_all(Policy::Mobius);
}

#[test]
fn s3_fifo() {
    explore_all(Policy::S3Fifo);
}

#[test]
fn sieve() {
    explore_all(Policy::Sieve);
}

#[test]
fn frozen_fifo() {
    explore_frozen(Policy::Fifo);
}

#[test]
fn frozen_mobius() {
    explore_frozen(Policy::Mobius);
}

#[test]
fn frozen_s3_fifo() {
    explore_frozen(Policy::S3Fifo);
}

#[test]
fn frozen_lru() {
    explore_frozen(Policy::Lru);
}

#[test]
fn frozen_lfu() {
    explore_frozen(Policy::Lfu);
}
