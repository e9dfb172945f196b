//! Snapshots while other threads write, under chosen interleavings.
//!
//! `cargo xtask check shuttle` runs it and `operations.rs`. Every key has one writer, whose
//! versions rise. So a snapshot's version of a key lies between the last complete when it began and
//! the last begun when it ended. An entry that nobody touches is in it.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::path::PathBuf;

use crate::schedules::explore;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Policy};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};

const KEYS: u64 = 3;
const OPERATIONS: u64 = 4;
/// Written before the threads begin, and never after.
const KEPT: u64 = 100;
/// Schedules a policy and scheduler.
const SCHEDULES: u64 = 3_000;

/// The same hashes in every run, so that schedules can be played again.
type Hashes = BuildHasherDefault<DefaultHasher>;
/// A value, and its version.
type Tested<'c> = Cache<u64, (Tracked<'c>, u64), Hashes>;

/// Versions of a key.
#[derive(Default)]
struct Versions {
    begun: AtomicU64,
    ended: AtomicU64,
    /// The last version that its writer has removed.
    removed: AtomicU64,
}

fn write<'c>(cache: &Tested<'c>, census: &'c Census, versions: &[Versions], mut chance: Chance) {
    let key = chance.below(KEYS);
    let of_key = &versions[key as usize];
    // Another thread has the key.
    if of_key.begun.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        return;
    }
    for version in 1..=OPERATIONS {
        of_key.begun.store(version, SeqCst);
        cache.insert(key, (Tracked::new(census, key), version));
        of_key.ended.store(version, SeqCst);
        if chance.below(3) == 0 {
            cache.invalidate(&key);
            of_key.removed.store(version, SeqCst);
        }
    }
}

/// Takes one and checks what it restores.
fn save(cache: &Tested<'_>, path: &PathBuf, versions: &[Versions], evicts: bool) {
    let ended = || versions.iter().map(|key| key.ended.load(SeqCst)).collect::<Vec<_>>();
    let removed: Vec<u64> = versions.iter().map(|key| key.removed.load(SeqCst)).collect();
    let before = ended();
    let saved = cache.snapshot(path, |key, (value, version), bytes| {
        value.check(*key);
        bytes.extend(key.to_le_bytes());
        bytes.extend(version.to_le_bytes());
    });
    let begun: Vec<u64> = versions.iter().map(|key| key.begun.load(SeqCst)).collect();
    let back: Cache<u64, u64, Hashes> =
        Cache::builder(16).policy(Policy::Fifo).with_hasher(Hashes::default()).build();
    let restored = back.restore(path, |bytes| {
        let (key, version) = bytes.split_first_chunk()?;
        Some((u64::from_le_bytes(*key), u64::from_le_bytes(version.try_into().ok()?)))
    });
    let restored = restored.expect("it is whole");
    assert_eq!(restored, saved.expect("it can be written"));
    assert_eq!(back.len() as u64, restored, "a key twice");
    assert!(evicts || back.contains_key(&KEPT), "what was there throughout is missing");
    for (key, version) in back.iter() {
        if key != KEPT {
            let at = key as usize;
            assert!(version >= before[at] && version <= begun[at], "{key}: {version}");
            assert!(version > removed[at], "{key}: it was taken away");
        }
    }
}

fn play(policy: Policy, path: &PathBuf) {
    let mut chance = Chance(thread_rng().next_u64());
    let census = Census::default();
    let versions: [Versions; KEYS as usize] = Default::default();
    let evicts = chance.below(2) == 0;
    let capacity = if evicts { 2 } else { 32 };
    let mut cache: Tested<'_> = Cache::builder(capacity)
        .policy(policy)
        // So that a slot is reused at once.
        .batch(1)
        .with_hasher(Hashes::default())
        .build();
    cache.insert(KEPT, (Tracked::new(&census, KEPT), 1));
    shuttle::thread::scope(|scope| {
        let (cache, census, versions) = (&cache, &census, &versions);
        for _ in 0..2 {
            let chance = Chance(chance.below(u64::MAX));
            scope.spawn(move || write(cache, census, versions, chance));
        }
        scope.spawn(move || save(cache, path, versions, evicts));
    });
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    drop(cache);
    assert_eq!(census.living(), 0, "values lost or dropped twice");
}

#[test]
fn snapshot_against_writes() {
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Fifo, Policy::Lru, Policy::WTinyLfu] {
        let name = format!("frazil-shuttle-{}-{policy}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let at = path.clone();
        explore(SCHEDULES, move || play(policy, &at));
        std::fs::remove_file(path).expect("it was written");
    }
}
