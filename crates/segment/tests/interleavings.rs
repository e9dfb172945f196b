//! The whole store under interleavings that shuttle chooses: `cargo xtask check shuttle`.
//!
//! Eight segments of 1 KiB and values of a quarter of one, so that almost every write evicts
//! or merges.
#![cfg(shuttle)]

use std::sync::Arc;

use frazil_segment::{Attributes, Eviction, Store};
use shuttle::rand::Rng as _;
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const KEYS: u64 = 40;
const WRITES: u64 = 40;
const READS: u64 = 150;

fn schedules() -> usize {
    if std::env::var_os("FRAZIL_LONG").is_some() { 20_000 } else { 500 }
}

fn value(key: u64, version: u64) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.resize(100 + 24 * (version % 8) as usize, 0);
    let sum = xxh3_64_with_seed(&value, key);
    value.extend(sum.to_le_bytes());
    value
}

fn version_of(key: u64, value_read: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value_read[..8].try_into().unwrap());
    assert_eq!(value_read, value(key, version), "a damaged value of {key}");
    version
}

/// Writes its own half of the keys, and publishes each version once it is stored.
fn write(store: &Store, versions: &[AtomicU64], writer: u64) {
    for version in 1..=WRITES {
        let key = shuttle::rand::thread_rng().gen_range(0..KEYS / 2) * 2 + writer;
        if version % 7 == 0 {
            store.delete(&key.to_le_bytes());
            continue;
        }
        store.set(&key.to_le_bytes(), &value(key, version), Attributes::default()).unwrap();
        versions[key as usize].store(version, SeqCst);
    }
}

fn read(store: &Store, versions: &[AtomicU64]) {
    for turn in 0..READS {
        let key = shuttle::rand::thread_rng().gen_range(0..KEYS);
        let least = versions[key as usize].load(SeqCst);
        let read = if turn % 8 > 0 {
            store.get_with(&key.to_le_bytes(), |entry| version_of(key, entry.value))
        } else if turn % 16 == 0 {
            store.get_with(&key.to_le_bytes(), |entry| {
                thread::yield_now();
                // With the other reader that is more reads than records.
                store.get_with(&(key ^ 1).to_le_bytes(), |other| {
                    thread::yield_now();
                    version_of(key ^ 1, other.value)
                });
                version_of(key, entry.value)
            })
        } else {
            store.hold(&key.to_le_bytes()).map(|held| {
                thread::yield_now();
                version_of(key, held.entry().value)
            })
        };
        assert!(read.is_none_or(|version| version >= least), "a stale value of {key}");
    }
}

fn run(eviction: Eviction) {
    // The standard library's: counts evictions over all schedules.
    let evicted = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let all_evicted = Arc::clone(&evicted);
    shuttle::check_pct(
        move || {
            // A learner takes more than the segments do.
            let kib = if eviction == Eviction::GlCache { 117 } else { 29 };
            let store = Store::builder(kib << 10).segment_bytes(1 << 10).eviction(eviction).seed(1);
            let store = Arc::new(store.build().unwrap());
            let versions: Arc<Vec<_>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
            let spawn = |work: fn(&Store, &[AtomicU64], u64), number| {
                let (store, versions) = (Arc::clone(&store), Arc::clone(&versions));
                thread::spawn(move || work(&store, &versions, number))
            };
            let threads = [
                spawn(write, 0),
                spawn(write, 1),
                spawn(|store, versions, _| read(store, versions), 0),
                spawn(|store, versions, _| read(store, versions), 0),
            ];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            store.validate_at_rest().unwrap();
            evicted.fetch_add(store.stats().evicted_items, std::sync::atomic::Ordering::Relaxed);
        },
        schedules(),
        // Changes of priority: a reader waits long at critical points while others continue.
        3,
    );
    assert!(all_evicted.load(std::sync::atomic::Ordering::Relaxed) > schedules() as u64);
}

#[test]
fn reads_while_segments_are_merged() {
    run(Eviction::FifoMerge);
}

#[test]
fn reads_while_segments_are_learned() {
    run(Eviction::GlCache);
}

#[test]
fn reads_while_segments_are_dropped() {
    run(Eviction::Random);
}
