//! Expiry against reload, under chosen interleavings: threads reload missing keys while wheels and
//! look-ups remove expired entries.
//!
//! `cargo xtask check shuttle` runs it and `operations.rs`, which checks the rest. Here other
//! threads change the time too. No look-up may find an entry whose deadline had passed when it
//! began; and an entry that one thread keeps for long must be present, though its slots alternate
//! with entries that expire. If reads set lifetimes, at random, no look-up may find an entry beyond
//! the bound of all answers. Nor may one find an entry inserted before an invalidation of all, if
//! that was over when it began.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use crate::schedules::explore;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Policy};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};

const THREADS: u64 = 3;
const OPERATIONS: u64 = 6;
const KEYS: u64 = 2;
/// Room for all keys, so that nothing is evicted.
const CAPACITY: u64 = 32;
/// The key that only its thread writes.
const KEPT: u64 = 100;
const FOR_LONG: Duration = Duration::from_secs(1_000_000);
/// A tick of the wheel.
const TICK: u64 = 1 << 20;
const SCHEDULES: u64 = 20_000;

/// A time that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// Facts about a value at the end of its insertion.
struct Known {
    /// The latest time at which it may be seen.
    end: std::sync::atomic::AtomicU64,
    /// How many invalidations of the whole cache had begun by then.
    invalidations: std::sync::atomic::AtomicU64,
}

type Value<'c> = (Tracked<'c>, Arc<Known>);

type Tested<'c> = Cache<u64, Value<'c>, BuildHasherDefault<DefaultHasher>>;

struct World<'c> {
    cache: Tested<'c>,
    census: &'c Census,
    time: Arc<AtomicU64>,
    /// Invalidations of the whole cache that have begun, and the last that has ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The least bound on an entry's lifetime, if reads set lifetimes.
    live: Duration,
}

impl World<'_> {
    fn insert(&self, key: u64, lifetime: Duration) {
        let known = Arc::new(Known { end: UNKNOWN.into(), invalidations: UNKNOWN.into() });
        let value = (Tracked::new(self.census, key), known.clone());
        self.cache.insert_for(key, value, lifetime);
        let end = self.time.load(SeqCst) + lifetime.max(self.live).as_nanos() as u64;
        known.end.store(end, SeqCst);
        known.invalidations.store(self.begun.load(SeqCst), SeqCst);
    }

    fn look(&self, key: u64) -> bool {
        let (began, ended) = (self.time.load(SeqCst), self.ended.load(SeqCst));
        let found = self.cache.get(&key);
        if let Some((value, known)) = &found {
            value.check(key);
            let end = known.end.load(SeqCst);
            assert!(end > began, "of {end}, seen at {began}");
            let invalidations = known.invalidations.load(SeqCst);
            assert!(invalidations >= ended, "put in before invalidation {ended}");
        }
        found.is_some()
    }

    fn invalidate_all(&self) {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        self.cache.invalidate_all();
        self.ended.fetch_max(number, SeqCst);
    }

    /// `kept`: whether a thread relies on its inserted entries.
    fn work(&self, mut chance: Chance, kept: bool) {
        for _ in 0..OPERATIONS {
            let key = chance.below(KEYS);
            match chance.below(12) {
                5 if !kept => self.invalidate_all(),
                0..6 => {
                    if !self.look(key) {
                        self.insert(key, Duration::from_nanos(chance.below(3) * TICK));
                    }
                }
                6 => self.insert(key, Duration::from_nanos(TICK / 2)),
                7 => _ = self.cache.purge(),
                8 => _ = self.cache.invalidate(&key),
                _ => _ = self.time.fetch_add(TICK / 2 * chance.below(5), SeqCst),
            }
        }
    }

    fn keep(&self, mut chance: Chance) {
        for _ in 0..OPERATIONS {
            self.insert(KEPT, FOR_LONG);
            assert!(self.look(KEPT), "another entry went in its place");
            if chance.below(2) == 0 {
                assert!(self.cache.invalidate(&KEPT));
                self.time.fetch_add(TICK, SeqCst);
            }
        }
        self.insert(KEPT, FOR_LONG);
    }
}

/// The lifetime after a read: anything, except for the kept key.
fn answer(key: &u64, _: &Value<'_>, left: Option<Duration>) -> Option<Duration> {
    match thread_rng().next_u64() % 4 {
        _ if *key == KEPT => left,
        0 => left,
        1 => None,
        ticks => Some(Duration::from_nanos((ticks - 2) * TICK)),
    }
}

fn play(policy: Policy) {
    let mut chance = Chance(thread_rng().next_u64());
    let census = Census::default();
    let time = Arc::new(AtomicU64::new(0));
    let clock = time.clone();
    let builder = Cache::builder(CAPACITY)
        .policy(policy)
        // So that a slot is reused at once.
        .batch(1)
        .clock(move || Duration::from_nanos(clock.load(SeqCst)))
        .with_hasher(BuildHasherDefault::default());
    // With a time to idle nothing is kept for long.
    let idle = chance.below(3) == 0;
    let builder = match idle {
        true => builder.time_to_idle(Duration::from_nanos(2 * TICK)),
        false => builder,
    };
    let reads = chance.below(3) == 0;
    let live = Duration::from_nanos(if reads { 3 * TICK } else { 0 });
    let cache: Tested<'_> = match reads {
        true => builder.time_to_live(live).expire_after_read(answer).build(),
        false => builder.build(),
    };
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut world = World { cache, census: &census, time, begun, ended, live };
    shuttle::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, chance) = (&world, Chance(chance.below(u64::MAX)));
            scope.spawn(move || match thread {
                0 if !idle => world.keep(chance),
                _ => world.work(chance, !idle),
            });
        }
    });
    assert!(idle || world.look(KEPT));
    world.cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    world.time.fetch_add(8 * TICK, SeqCst);
    world.cache.purge();
    assert_eq!(world.cache.len(), usize::from(!idle), "what has expired stays");
    world.cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    drop(world);
    assert_eq!(census.living(), 0, "values lost or dropped twice");
}

fn explore_all(policy: Policy) {
    explore(SCHEDULES, move || play(policy));
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
