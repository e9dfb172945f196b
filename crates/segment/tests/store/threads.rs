//! Readers and writers among threads: no damaged value, no stale one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use frazil_segment::{Attributes, Eviction, Store};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::{checked_version, value_of};

const KEYS: usize = if cfg!(miri) { 40 } else { 3000 };
const READERS: u64 = 2;
const WRITERS: u64 = 2;

/// Writes of a thread; fifty times as many before a release.
fn writes() -> u64 {
    match std::env::var_os("FRAZIL_LONG") {
        _ if cfg!(miri) => 60,
        Some(_) => 3_000_000,
        None => 60_000,
    }
}

struct Shared {
    store: Store,
    /// By key, the version of its last completed write or removal.
    versions: Vec<AtomicU64>,
    done: AtomicBool,
    reads: AtomicU64,
}

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_le_bytes()
}

/// Reads a key: its version must not precede the last one written when the read began.
fn read(shared: &Shared, number: usize, how: u32) {
    let key = key(number);
    let least = shared.versions[number].load(SeqCst);
    let version = match how {
        0 => shared.store.get_with(&key, |entry| checked_version(&key, entry.value)),
        1 => shared.store.hold(&key).map(|held| {
            thread::yield_now();
            checked_version(&key, held.entry().value)
        }),
        _ => {
            let mut value = Vec::new();
            shared.store.get(&key, &mut value).map(|_| checked_version(&key, &value))
        }
    };
    if let Some(version) = version {
        shared.reads.fetch_add(1, SeqCst);
        assert!(version >= least, "key {number}: version {version} after {least}");
    }
}

fn read_many(shared: &Shared, chance: &mut Xoshiro256PlusPlus) {
    let numbers: Vec<usize> = (0..20).map(|_| chance.random_range(0..KEYS)).collect();
    let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
    let least: Vec<_> =
        numbers.iter().map(|&number| shared.versions[number].load(SeqCst)).collect();
    shared.store.get_many(&keys, |at, entry| {
        if let Some(entry) = entry {
            assert!(checked_version(&keys[at], entry.value) >= least[at]);
        }
    });
}

/// Writes the keys that only this writer writes.
fn write(shared: &Shared, writer: u64) {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(writer);
    for version in 1..=writes() {
        let number = chance.random_range(0..KEYS as u64 / WRITERS) * WRITERS + writer;
        let key = key(number as usize);
        let length = chance.random_range(16..400);
        let lifetime = chance.random_bool(0.3).then(|| Duration::from_millis(length as u64));
        let attributes = Attributes { flags: 0, marks: 0, lifetime };
        match chance.random_range(0..10) {
            0 => _ = shared.store.delete(&key),
            1 => _ = shared.store.touch(&key, lifetime).unwrap(),
            _ => shared.store.set(&key, &value_of(&key, version, length), attributes).unwrap(),
        }
        // A touched value keeps its version, and any earlier version is stale in other threads.
        if shared.store.get_with(&key, |entry| checked_version(&key, entry.value)) == Some(version)
        {
            shared.versions[number as usize].store(version, SeqCst);
        }
    }
}

fn run(eviction: Eviction) {
    // A learner takes more memory than the segments that Miri has time for.
    let miri_kib = if eviction == Eviction::GlCache { 72 } else { 24 };
    let store = Store::builder(if cfg!(miri) { miri_kib << 10 } else { 512 << 10 })
        .segment_bytes(if cfg!(miri) { 1 << 10 } else { 4 << 10 })
        .eviction(eviction)
        .build()
        .unwrap();
    let shared = Arc::new(Shared {
        store,
        versions: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
        done: AtomicBool::new(false),
        reads: AtomicU64::new(0),
    });
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let shared = &shared;
                scope.spawn(move || write(shared, writer))
            })
            .collect();
        for reader in 0..READERS {
            let shared = &shared;
            scope.spawn(move || {
                let mut chance = Xoshiro256PlusPlus::seed_from_u64(100 + reader);
                while !shared.done.load(SeqCst) {
                    if chance.random_range(0..20) == 0 {
                        read_many(shared, &mut chance);
                    }
                    let number = chance.random_range(0..KEYS);
                    read(shared, number, chance.random_range(0..3));
                }
            });
        }
        let written: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        shared.done.store(true, SeqCst);
        written.into_iter().for_each(|written| written.unwrap());
    });
    shared.store.validate_at_rest().unwrap();
    let stats = shared.store.stats();
    assert!(shared.reads.load(SeqCst) > 0 && stats.evicted_items > 0, "{stats:?}");
}

#[test]
fn fifo() {
    run(Eviction::Fifo);
}

#[test]
fn fifo_merge() {
    run(Eviction::FifoMerge);
}

#[test]
fn random() {
    run(Eviction::Random);
}

#[test]
fn closest_to_expiry() {
    run(Eviction::ClosestToExpiry);
}

#[test]
fn gl_cache() {
    run(Eviction::GlCache);
}

#[test]
fn counters_lose_no_step() {
    let store = Store::builder(512 << 10).segment_bytes(4 << 10).build().unwrap();
    let steps = if cfg!(miri) { 40 } else { 20_000 };
    store.set(b"counter", b"0", Attributes::default()).unwrap();
    thread::scope(|scope| {
        for writer in 0..2u64 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..steps {
                    // The counter is requested often enough to stay.
                    store.incr(b"counter", 1).unwrap().unwrap();
                    let other = (writer << 32 | step).to_le_bytes();
                    store.set(&other, &[0; 64], Attributes::default()).unwrap();
                }
            });
        }
    });
    assert_eq!(store.incr(b"counter", 0), Ok(Some(2 * steps)));
    store.validate_at_rest().unwrap();
}

/// One thread for each record reads an entry, and all of them call the store again before any of
/// them is done.
#[test]
fn closures_that_call_the_store_wait_for_nobody() {
    const THREADS: usize = 70;
    const EXTRA: u64 = if cfg!(miri) { 8 } else { 100 };
    let store = Store::builder(512 << 10).segment_bytes(4 << 10).build().unwrap();
    let keys: Vec<_> = (0..THREADS as u64).map(u64::to_le_bytes).collect();
    // Each in a segment of its own, which only its reader keeps from being reused.
    for key in &keys {
        store.set(key, &value_of(key, 1, 3000), Attributes::default()).unwrap();
    }
    let shared = Arc::new((store, keys, Barrier::new(THREADS)));
    let (done, all_done) = mpsc::channel();
    for number in 0..THREADS {
        let (shared, done) = (Arc::clone(&shared), done.clone());
        thread::spawn(move || {
            let (store, keys, all_read) = &*shared;
            let (key, other) = (&keys[number], &keys[(number + 1) % THREADS]);
            let version = store.get_with(key, |entry| {
                all_read.wait();
                assert!(store.contains(other) && !store.contains(b"none"));
                assert!(store.get(b"none", &mut Vec::new()).is_none());
                store.get_many(&[other], |_, entry| {
                    checked_version(other, entry.expect("an entry").value);
                    let held = store.hold(key).expect("an entry");
                    all_read.wait();
                    // Many times the capacity: all segments are reused except those.
                    for extra in 0..EXTRA {
                        let extra = (extra << 32 | number as u64).to_be_bytes();
                        store.set(&extra, &[0; 500], Attributes::default()).unwrap();
                    }
                    checked_version(key, held.entry().value);
                });
                checked_version(key, entry.value)
            });
            done.send(version).unwrap();
        });
    }
    for _ in 0..THREADS {
        let version = all_done.recv_timeout(Duration::from_secs(20)).expect("a thread waits");
        assert_eq!(version, Some(1));
    }
    let stats = shared.0.stats();
    assert!(stats.evicted_items > 50 * EXTRA - 350, "{stats:?}");
    assert_eq!((stats.hits, stats.misses), (3 * THREADS as u64, THREADS as u64));
    shared.0.validate_at_rest().unwrap();
}
