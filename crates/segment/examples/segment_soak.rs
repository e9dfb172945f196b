//! Stores of every eviction under mixed operations, for any number of seconds:
//! `cargo xtask soak`.
//!
//! Short tests begin with fresh stores. These stay, so segments, lines of the index, guards and
//! counts that are lost once in a million operations add up. Values contain their key and version,
//! and all are checked. Each key is written by one thread, so a read that began after a write had
//! returned must not find an older version. After each phase all threads end, and the counts of
//! all parts are compared. The store is saved and restored while it is written to, and validated
//! under load. Memory is the growth of the process.
//!
//! The soak fails by a panic; otherwise it prints each store's counts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use frazil_segment::{Attributes, Entry, Eviction, Store, StoreError, Stored};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

const EVICTIONS: [Eviction; 5] = [
    Eviction::Fifo,
    Eviction::FifoMerge,
    Eviction::GlCache,
    Eviction::Random,
    Eviction::ClosestToExpiry,
];
const CAPACITY: usize = 8 << 20;
const SEGMENT: usize = 64 << 10;
const KEYS: u64 = 60_000;
const WRITERS: u64 = 2;
const READERS: u64 = 2;
/// Length of a phase, after which threads end and everything is validated.
const PHASE: Duration = Duration::from_secs(1);
/// Memory of threads' stacks, buffers and the allocator, beside the stores.
const BESIDE: u64 = 12 << 20;
const VALUE_HEAD: usize = 16;

fn stored<T>(result: Result<T, StoreError>) -> T {
    result.expect("room")
}

struct Soaked {
    store: Store,
    eviction: Eviction,
    /// By key, the version of its last completed write or removal.
    versions: Vec<AtomicU64>,
    /// By writer, the last value of its counter.
    counted: Vec<AtomicU64>,
    reads: AtomicU64,
    snapshots: AtomicU64,
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

fn value_of(number: u64, version: u64, length: usize) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.extend(u64::to_le_bytes(length as u64 ^ number << 32));
    let mut state = version ^ number.rotate_left(32);
    while value.len() < length.max(VALUE_HEAD) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        value.extend((state ^ state >> 29).to_le_bytes());
    }
    value.truncate(length.max(VALUE_HEAD));
    value
}

/// The version of a value. Checks all of its bytes.
fn version_of(number: u64, entry: &Entry<'_>) -> u64 {
    let word = |at: usize| u64::from_le_bytes(entry.value[at..at + 8].try_into().expect("a head"));
    let (version, length) = (word(0), (word(8) ^ number << 32) as usize);
    assert_eq!(entry.key, key(number), "another key");
    assert!(entry.value == value_of(number, version, length), "a damaged value of {number}");
    version
}

fn length(chance: &mut Xoshiro256PlusPlus, phase: u64) -> usize {
    // Sizes change from phase to phase, and a few items fill a large part of a segment.
    let most = [64, 300, 2_000, 700][phase as usize % 4];
    if chance.random_range(0..500) == 0 { 30_000 } else { chance.random_range(VALUE_HEAD..most) }
}

fn attributes(chance: &mut Xoshiro256PlusPlus) -> Attributes {
    let lifetime = match chance.random_range(0..10) {
        0 => Some(Duration::from_micros(chance.random_range(0..3_000))),
        1 => Some(Duration::from_millis(chance.random_range(1..2_000))),
        2 => Some(Duration::from_secs(3_600)),
        _ => None,
    };
    Attributes { flags: chance.random_range(0..3) * 200, marks: 0, lifetime }
}

/// Requests are skewed, so that merges have something to keep.
fn any_key(chance: &mut Xoshiro256PlusPlus) -> u64 {
    let uniform: f64 = chance.random_range(0.0..1.0);
    (KEYS as f64 * uniform * uniform * uniform) as u64
}

impl Soaked {
    fn new(eviction: Eviction) -> Soaked {
        let builder = Store::builder(CAPACITY).segment_bytes(SEGMENT).eviction(eviction);
        let counts = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Soaked {
            store: builder.build().expect("a store"),
            eviction,
            versions: counts(KEYS),
            counted: counts(WRITERS),
            reads: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
        }
    }

    fn check(&self, number: u64, least: u64, entry: &Entry<'_>) {
        let version = version_of(number, entry);
        assert!(version >= least, "{:?}: {number} has {version} after {least}", self.eviction);
        self.reads.fetch_add(1, SeqCst);
    }

    fn least(&self, number: u64) -> u64 {
        self.versions[number as usize].load(SeqCst)
    }

    fn read(&self, chance: &mut Xoshiro256PlusPlus) {
        let number = any_key(chance);
        let least = self.least(number);
        match chance.random_range(0..8) {
            0 => {
                if let Some(held) = self.store.hold(&key(number)) {
                    thread::yield_now();
                    self.check(number, least, held.entry());
                }
            }
            1 => {
                let numbers: Vec<u64> = (0..20).map(|_| any_key(chance)).collect();
                let keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
                let least: Vec<_> = numbers.iter().map(|&number| self.least(number)).collect();
                self.store.get_many(&keys, |at, entry| {
                    if let Some(entry) = entry {
                        self.check(numbers[at], least[at], &entry);
                    }
                });
            }
            2 => {
                let other = any_key(chance);
                self.store.get_with(&key(number), |entry| {
                    let least_other = self.least(other);
                    self.store
                        .get_with(&key(other), |entry| self.check(other, least_other, &entry));
                    self.check(number, least, &entry);
                });
            }
            _ => _ = self.store.get_with(&key(number), |entry| self.check(number, least, &entry)),
        }
    }

    /// Writes one of the keys that only this writer writes.
    fn write(&self, chance: &mut Xoshiro256PlusPlus, writer: u64, version: u64, phase: u64) {
        let number = any_key(chance) / WRITERS * WRITERS + writer;
        let key = key(number);
        let attributes = attributes(chance);
        let value = value_of(number, version, length(chance, phase));
        match chance.random_range(0..20) {
            0 | 1 => _ = self.store.delete(&key),
            2 => {
                // A present entry keeps its version.
                _ = stored(self.store.touch(&key, attributes.lifetime));
                return;
            }
            3 => {
                _ = stored(self.store.add(&key, &value, attributes));
                return;
            }
            4 => {
                if stored(self.store.replace(&key, &value, attributes)) != Stored::Stored {
                    return;
                }
            }
            5 => {
                let cas = self.store.get_with(&key, |entry| entry.cas).unwrap_or(1);
                if stored(self.store.cas(&key, &value, attributes, cas)) != Stored::Stored {
                    return;
                }
            }
            6 => return self.count(writer),
            7 => return self.join(chance, writer),
            _ => stored(self.store.set(&key, &value, attributes)),
        }
        self.versions[number as usize].store(version, SeqCst);
    }

    /// The writer's counter takes each step, unless it was evicted in between.
    fn count(&self, writer: u64) {
        let key = (KEYS + writer).to_be_bytes();
        let last = self.counted[writer as usize].load(SeqCst);
        match stored(self.store.incr(&key, 1)) {
            Some(sum) => {
                assert_eq!(sum, last + 1, "{:?}: a counter lost a step", self.eviction);
                self.counted[writer as usize].store(sum, SeqCst);
            }
            None => {
                stored(self.store.set(&key, last.to_string().as_bytes(), Attributes::default()))
            }
        }
    }

    /// Appends and prepends, to a key of this writer that is not versioned.
    fn join(&self, chance: &mut Xoshiro256PlusPlus, writer: u64) {
        let key = (KEYS + WRITERS + writer).to_be_bytes();
        self.store.set(&key, b"b", attributes(chance)).expect("room");
        _ = self.store.append(&key, b"c").expect("room");
        _ = self.store.prepend(&key, b"a").expect("room");
        let seen = self.store.get_with(&key, |entry| entry.value.to_vec());
        let whole = |value: &Vec<u8>| [&b"abc"[..], b"bc", b"ab", b"b"].contains(&&value[..]);
        assert!(seen.as_ref().is_none_or(whole), "{seen:?}");
    }

    /// Saves the store while others write, and restores that into another, in which no value is
    /// damaged.
    fn save(&self, path: &Path) {
        let least: Vec<_> = (0..KEYS).map(|number| self.least(number)).collect();
        self.store.save(path).expect("a file");
        let other = Store::builder(CAPACITY / 2).segment_bytes(SEGMENT).build().expect("a store");
        other.restore(path).expect("as it was written");
        let (mut entries, mut cursor) = (Vec::new(), Some(0));
        while let Some(at) = cursor {
            cursor = other.scan(at, &mut entries);
            for entry in entries.drain(..) {
                let number = u64::from_le_bytes(entry.key[..].try_into().expect("a key"));
                if number < KEYS {
                    let read = |entry: Entry<'_>| {
                        self.check(number, least[number as usize], &entry);
                    };
                    _ = other.get_with(&entry.key, read);
                }
            }
        }
        other.validate_at_rest().expect("a sound store");
        self.snapshots.fetch_add(1, SeqCst);
    }
}

/// Memory of the process in bytes, if the system reports it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(status.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

/// One phase of a store, from the start to the end of its threads.
fn phase(soaked: &Soaked, phase: u64, versions: &[AtomicU64], path: &Path) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = &done;
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut chance = Xoshiro256PlusPlus::seed_from_u64(phase << 8 | writer);
                while !done.load(SeqCst) {
                    let version = versions[writer as usize].fetch_add(1, SeqCst) + 1;
                    soaked.write(&mut chance, writer, version, phase);
                }
            });
        }
        for reader in 0..READERS {
            scope.spawn(move || {
                let mut chance = Xoshiro256PlusPlus::seed_from_u64(phase << 8 | 16 | reader);
                while !done.load(SeqCst) {
                    soaked.read(&mut chance);
                }
            });
        }
        thread::sleep(PHASE / 3);
        soaked.store.validate().expect("a sound store at work");
        if phase % 4 == 3 {
            soaked.save(path);
        }
        thread::sleep(PHASE / 3);
        done.store(true, SeqCst);
    });
    soaked.store.validate_at_rest().expect("a sound store at rest");
    let stats = soaked.store.stats();
    let all = u64::from(stats.segments) * stats.segment_bytes as u64;
    assert!(all <= CAPACITY as u64 && stats.live_bytes <= all, "{stats:?}");
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(20);
    let before = resident();
    let stores: Vec<_> = EVICTIONS.into_iter().map(|e| Arc::new(Soaked::new(e))).collect();
    let path = std::env::temp_dir().join(format!("segment-soak-{}", std::process::id()));
    let versions: Vec<_> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let done = Arc::new(AtomicBool::new(false));
    // The peak memory of the process.
    let sampler = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            let mut most = 0;
            while !done.load(SeqCst) {
                most = most.max(resident().unwrap_or(0));
                thread::sleep(Duration::from_millis(20));
            }
            most
        })
    };
    let begun = Instant::now();
    let mut phases = 0;
    while phases == 0 || begun.elapsed() < Duration::from_secs(seconds) {
        stores.iter().for_each(|soaked| phase(soaked, phases, &versions, &path));
        phases += 1;
    }
    done.store(true, SeqCst);
    let most = sampler.join().expect("a sampler").saturating_sub(before.unwrap_or(0));
    _ = std::fs::remove_file(&path);
    for soaked in &stores {
        let stats = soaked.store.stats();
        println!(
            "{:16} {} writes, {} reads checked, {} evicted, {} over, {} merges, {} snapshots",
            format!("{:?}", soaked.eviction),
            stats.writes,
            soaked.reads.load(SeqCst),
            stats.evicted_items,
            stats.expired_items,
            stats.merges,
            soaked.snapshots.load(SeqCst),
        );
        assert!(stats.evicted_items > 0 && soaked.reads.load(SeqCst) > 0);
    }
    let room = (CAPACITY * stores.len() + CAPACITY / 2) as u64;
    println!(
        "{phases} phases; the process grew by {:.1} MiB at most, capacities are {:.1} MiB",
        most as f64 / f64::from(1 << 20),
        room as f64 / f64::from(1 << 20),
    );
    assert!(most <= room + BESIDE, "{most} bytes of growth");
}
