//! Order and snapshots: which entries are evicted first, what a file restores, and what it must
//! not.

use crate::settings::takes_lock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use frazil::{Cache, Policy, RestoreError};
use frazil_policy::Rng;

/// A separate folder, removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("frazil-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Folder(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn count(&self) -> usize {
        std::fs::read_dir(&self.0).expect("it is there").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("nobody else removes it");
    }
}

type Words = Cache<u64, String>;

fn encode(key: &u64, value: &String, bytes: &mut Vec<u8>) {
    bytes.extend(key.to_le_bytes());
    bytes.extend(value.as_bytes());
}

fn decode(bytes: &[u8]) -> Option<(u64, String)> {
    let (key, text) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*key), String::from_utf8(text.to_vec()).ok()?))
}

fn build(policy: Policy, capacity: u64) -> Words {
    Cache::builder(capacity).policy(policy).build()
}

fn save(cache: &Words, path: &Path) -> u64 {
    cache.snapshot(path, encode).expect("it can be written")
}

/// A full cache whose entries were used unequally.
fn used(policy: Policy, capacity: u64) -> Words {
    let cache = build(policy, capacity);
    let mut rng = Rng::new(5);
    for _ in 0..capacity * 8 {
        let key = (rng.unit() * rng.unit() * capacity as f64 * 3.0) as u64;
        if cache.get(&key).is_none() {
            cache.insert(key, format!("value {key}"));
        }
    }
    cache
}

/// The keys, in the order of their eviction as the capacity falls.
fn shed(cache: &Words, keys: &[u64]) -> Vec<u64> {
    let mut left = keys.to_vec();
    let mut order = Vec::new();
    for capacity in (0..keys.len() as u64).rev() {
        assert_eq!(cache.set_capacity(capacity), capacity);
        let gone: Vec<u64> = left.iter().copied().filter(|key| !cache.contains_key(key)).collect();
        left.retain(|key| !gone.contains(key));
        order.extend(gone);
    }
    order
}

/// Policies whose order does not change with evictions.
const EXACT: [Policy; 8] = [
    Policy::Fifo,
    Policy::Clock { bits: 1 },
    Policy::Clock { bits: 2 },
    Policy::Mobius,
    Policy::Sieve,
    Policy::Lru,
    Policy::LruRelaxed,
    Policy::LruDelayed { window: 20 },
];

#[test]
fn the_coldest_go_first() {
    for policy in EXACT {
        let cache = used(policy, 100);
        let coldest = cache.coldest(usize::MAX);
        assert_eq!(coldest.len(), 100, "{policy}");
        let mut hottest = cache.hottest(1_000);
        hottest.reverse();
        assert_eq!(hottest, coldest, "{policy}");
        assert_eq!(cache.coldest(7), coldest[..7], "{policy}");
        assert!(cache.coldest(0).is_empty(), "{policy}");
        assert_eq!(shed(&cache, &coldest), coldest, "{policy}");
    }
}

#[test]
fn every_policy_lists_all_it_holds() {
    for policy in Policy::ALL {
        for shards in [1, if takes_lock(policy) { 4 } else { 1 }] {
            let cache: Cache<u64, u64> = Cache::builder(300).policy(policy).shards(shards).build();
            (0..1_000).for_each(|key| cache.insert(key % 400, key));
            let mut listed = cache.coldest(usize::MAX);
            listed.sort_unstable();
            let mut held: Vec<u64> = cache.iter().map(|(key, _)| key).collect();
            held.sort_unstable();
            assert_eq!(listed, held, "{policy}, {shards}");
        }
    }
}

#[test]
fn what_is_restored_goes_in_the_same_order() {
    let folder = Folder::new("order");
    let path = folder.file("cache");
    for policy in EXACT {
        let cache = used(policy, 100);
        let coldest = cache.coldest(usize::MAX);
        assert_eq!(save(&cache, &path), 100);
        let mut warm = build(policy, 100);
        assert_eq!(warm.restore(&path, decode).expect("it is whole"), 100);
        for key in &coldest {
            assert_eq!(warm.peek(key), cache.peek(key), "{policy}");
        }
        assert_eq!(warm.coldest(usize::MAX), coldest, "{policy}");
        warm.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
        // A smaller cache gets the best entries.
        let small = build(policy, 30);
        assert_eq!(small.restore(&path, decode).expect("it is whole"), 30);
        let mut kept = small.coldest(usize::MAX);
        kept.sort_unstable();
        let mut best = coldest[70..].to_vec();
        best.sort_unstable();
        assert_eq!(kept, best, "{policy}");
    }
    assert_eq!(folder.count(), 1, "nothing is left beside the snapshot");
}

/// The restored cache evicts old and new entries as the original does from there on; with Mobius
/// until its queues have traded places.
#[test]
fn a_copy_goes_on_as_the_original() {
    let folder = Folder::new("copy");
    let path = folder.file("cache");
    for policy in [Policy::Clock { bits: 1 }, Policy::Clock { bits: 2 }, Policy::Mobius] {
        let original = match policy {
            Policy::Mobius => build(policy, 100),
            _ => used(policy, 100),
        };
        (original.len() as u64..100).for_each(|key| original.insert(key, String::new()));
        (0..100).step_by(3).for_each(|key| _ = original.get(&key));
        save(&original, &path);
        let copy = build(policy, 100);
        copy.restore(&path, decode).expect("it is whole");
        for key in 10_000..10_200 {
            for cache in [&original, &copy] {
                cache.get(&(key - 3));
                cache.insert(key, String::new());
            }
            let [mut expected, mut found] = [&original, &copy]
                .map(|cache| cache.iter().map(|(key, _)| key).collect::<Vec<_>>());
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{policy}, after {key}");
        }
    }
}

#[test]
fn every_policy_comes_back() {
    let folder = Folder::new("policies");
    let path = folder.file("cache");
    for policy in Policy::ALL {
        let cache = used(policy, 500);
        let saved = save(&cache, &path);
        let warm = build(policy, 500);
        let restored = warm.restore(&path, decode).expect("it is whole");
        assert_eq!((saved, restored), (cache.len() as u64, cache.len() as u64), "{policy}");
        // GDSF and W-TinyLFU may refuse; the others admit all.
        let held = cache.iter().filter(|(key, _)| warm.contains_key(key)).count() as u64;
        assert!(held * 10 >= saved * 9, "{policy}: {held} of {saved}");
    }
}

#[test]
fn no_damaged_file_is_restored() {
    let folder = Folder::new("damage");
    let (path, broken) = (folder.file("cache"), folder.file("broken"));
    let cache = build(Policy::Mobius, 10);
    (0..5).for_each(|key| cache.insert(key, "abc".to_owned()));
    save(&cache, &path);
    let whole = std::fs::read(&path).expect("it was written");
    let refuses = |bytes: &[u8], what: &str| {
        std::fs::write(&broken, bytes).expect("it can be written");
        let warm = build(Policy::Mobius, 10);
        let error = warm.restore(&broken, decode).expect_err(what);
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(warm.is_empty(), "{what}");
    };
    for at in 0..whole.len() {
        refuses(&whole[..at], "cut short");
        for bit in [1, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= bit;
            refuses(&bytes, "a bit was changed");
        }
    }
    refuses(&[&whole[..], b"x"].concat(), "something follows");
    refuses(&[&whole[..], &whole[28..]].concat(), "it goes on");
    refuses(b"", "nothing");
    let warm = build(Policy::Mobius, 10);
    let undecoded = warm.restore(&path, |bytes| decode(bytes).filter(|(key, _)| *key != 3));
    assert!(matches!(undecoded, Err(RestoreError::Undecoded { .. })), "{undecoded:?}");
    assert!(warm.is_empty());
}

#[test]
fn what_cannot_be_written_leaves_the_old_file() {
    let folder = Folder::new("failure");
    let path = folder.file("cache");
    let cache = build(Policy::Mobius, 10);
    cache.insert(1, "one".to_owned());
    save(&cache, &path);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache.snapshot(&path, |_, _, _| panic!("of the encoder"))
    }));
    assert!(outcome.is_err());
    assert_eq!(folder.count(), 1);
    assert!(cache.snapshot(&path, |_, _, bytes| bytes.clear()).is_err());
    assert_eq!(folder.count(), 1);
    let path_of_none = folder.file("no/such/folder");
    let error = cache.snapshot(&path_of_none, encode).unwrap_err();
    assert!(error.to_string().contains(path_of_none.to_str().unwrap()), "{error}");
    assert_eq!(build(Policy::Mobius, 10).restore(&path, decode).expect("the old one"), 1);
}

#[test]
fn lifetimes_go_on() {
    let folder = Folder::new("lifetimes");
    let path = folder.file("cache");
    let time = Arc::new(AtomicU64::new(0));
    let cache = || -> Words {
        let time = Arc::clone(&time);
        let clock = move || Duration::from_secs(time.load(Relaxed));
        Cache::builder(10).clock(clock).build()
    };
    let old = cache();
    old.insert_for(1, "short".to_owned(), Duration::from_secs(1_000));
    old.insert_for(2, "long".to_owned(), Duration::from_secs(100_000));
    old.insert(3, "for ever".to_owned());
    old.insert_for(4, "over".to_owned(), Duration::from_secs(1));
    time.store(10, Relaxed);
    assert_eq!(save(&old, &path), 3);
    let warm = cache();
    assert_eq!(warm.restore(&path, decode).expect("it is whole"), 3);
    let left = warm.lifetime_left(&1).expect("it is there");
    // Time that passes on the wall clock is deducted.
    assert!(left <= Duration::from_secs(990) && left > Duration::from_secs(900), "{left:?}");
    assert_eq!(warm.lifetime_left(&3), Some(Duration::MAX));
    time.store(2_000, Relaxed);
    assert_eq!((warm.get(&1), warm.get(&2).is_some(), warm.get(&4)), (None, true, None));
}

/// Only entries that have not expired count for what fits.
#[test]
fn what_is_over_takes_nobodys_room() {
    let folder = Folder::new("over");
    let path = folder.file("cache");
    for policy in EXACT {
        let stopped = || Duration::ZERO;
        let old: Words = Cache::builder(100).policy(policy).clock(stopped).build();
        // One of every two expires before the file is read.
        let insert = |key: u64| match key % 2 {
            0 => old.insert(key, "for ever".to_owned()),
            _ => old.insert_for(key, "over".to_owned(), Duration::from_nanos(1)),
        };
        (0..100).for_each(insert);
        let living = |keys: Vec<u64>| keys.into_iter().filter(|key| key % 2 == 0).collect();
        let coldest: Vec<u64> = living(old.coldest(usize::MAX));
        assert_eq!(save(&old, &path), 100);
        for (capacity, fitting) in [(60, 50), (30, 30)] {
            let mut warm: Words = Cache::builder(capacity).policy(policy).clock(stopped).build();
            let restored = warm.restore(&path, decode).expect("it is whole");
            assert_eq!((restored, warm.len()), (fitting, fitting as usize), "{policy}");
            let mut held = warm.coldest(usize::MAX);
            held.sort_unstable();
            let mut best = coldest[50 - fitting as usize..].to_vec();
            best.sort_unstable();
            assert_eq!(held, best, "{policy}, {capacity}");
            warm.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
        }
    }
}

/// The time left of the time to idle does not bound the life of an entry in use.
#[test]
fn use_keeps_what_was_restored() {
    let folder = Folder::new("idle");
    let path = folder.file("cache");
    let time = Arc::new(AtomicU64::new(0));
    let cache = || -> Words {
        let time = Arc::clone(&time);
        let clock = move || Duration::from_secs(time.load(Relaxed));
        Cache::builder(10).time_to_idle(Duration::from_secs(10_000)).clock(clock).build()
    };
    let old = cache();
    old.insert(1, "used".to_owned());
    old.insert(2, "unused".to_owned());
    old.insert_for(3, "short".to_owned(), Duration::from_secs(25_000));
    time.store(6_000, Relaxed);
    assert_eq!(save(&old, &path), 3);
    let warm = cache();
    assert_eq!(warm.restore(&path, decode).expect("it is whole"), 3);
    for seconds in [12_000, 18_000, 24_000] {
        time.store(seconds, Relaxed);
        assert!(warm.get(&1).is_some() && warm.get(&3).is_some(), "{seconds}");
    }
    time.store(30_000, Relaxed);
    assert_eq!((warm.get(&1).is_some(), warm.get(&2), warm.get(&3)), (true, None, None));
}

/// A process that has ended in the middle may have had this one's number.
#[test]
fn an_unfinished_file_of_another_process_is_in_nobodys_way() {
    let folder = Folder::new("unfinished");
    let path = folder.file("cache");
    let unfinished = |number| folder.file(&format!("cache.{}.{number}.tmp", std::process::id()));
    (0..1_000).for_each(|number| std::fs::write(unfinished(number), "").expect("it is new"));
    let cache = build(Policy::Mobius, 10);
    cache.insert(1, "one".to_owned());
    assert_eq!(save(&cache, &path), 1);
    assert_eq!(folder.count(), 1_001, "what is another's stays");
}

/// An entry present throughout is in every snapshot, whatever other threads do.
#[test]
fn a_snapshot_beside_writers_holds_what_stays() {
    let folder = Folder::new("writers");
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru, Policy::WTinyLfu] {
        let path = folder.file("cache");
        let mut cache: Words = Cache::builder(20_000).policy(policy).build();
        (0..1_000).for_each(|key| cache.insert(key, format!("{key}")));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 1..3u64 {
                let (cache, over) = (&cache, &over);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    while !over.load(Relaxed) {
                        let key = thread * 10_000 + rng.below(5_000);
                        match rng.below(3) {
                            0 => _ = cache.remove(&key),
                            _ => cache.insert(key, format!("{key}")),
                        }
                    }
                });
            }
            for _ in 0..5 {
                save(&cache, &path);
                let warm = build(policy, 30_000);
                warm.restore(&path, decode).expect("it is whole");
                for key in 0..1_000 {
                    assert_eq!(warm.peek(&key), Some(format!("{key}")), "{policy}");
                }
                assert!(warm.iter().all(|(key, value)| value == format!("{key}")), "{policy}");
            }
            over.store(true, Relaxed);
        });
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}
