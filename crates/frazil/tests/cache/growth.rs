//! Larger tables replace the table while the cache is in use, and no operation notices.

use crate::own_process::is_alone;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::extent::policies;
use frazil::{Cache, Policy};

/// Less for Miri.
const KEYS: u64 = if cfg!(miri) { 600 } else { 30_000 };

#[test]
fn nobody_misses_what_is_there_while_the_table_grows() {
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        let mut cache: Cache<u64, u64> = Cache::builder(1 << 20).policy(policy).build();
        let there = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (cache, there) = (&cache, &there);
                scope.spawn(move || {
                    let mut asked = thread;
                    loop {
                        let keys = there.load(SeqCst);
                        asked = asked.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        if let Some(key) = (asked >> 33).checked_rem(keys) {
                            assert_eq!(cache.get(&key), Some(key), "{policy}: of {keys}");
                            assert_eq!(cache.pin().get(&key), Some(&key), "{policy}: of {keys}");
                        }
                        if keys == KEYS {
                            break;
                        }
                    }
                });
            }
            for key in 0..KEYS {
                cache.insert(key, key);
                there.store(key + 1, SeqCst);
            }
        });
        assert_eq!((cache.len() as u64, cache.stats().refusals), (KEYS, 0), "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}

/// Each thread has its own keys, and finds its own changes.
#[test]
fn writers_lose_nothing_while_the_table_grows() {
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Arc] {
        let mut cache: Cache<u64, u64> = Cache::builder(1 << 20).policy(policy).build();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    let key = |number| number * 4 + thread;
                    for number in 0..KEYS / 4 {
                        cache.insert(key(number), number);
                        let other = key(number / 2);
                        match number % 3 {
                            0 => cache.insert(other, number),
                            1 => _ = cache.remove(&other),
                            _ => _ = cache.get_or_insert_with(&other, || number),
                        }
                        let expected = (number % 3 != 1).then_some(());
                        assert_eq!(cache.get(&other).map(|_| ()), expected, "{policy}");
                    }
                });
            }
        });
        assert_eq!(cache.stats().refusals, 0, "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}

#[test]
fn all_is_shown_to_who_looks_on_while_the_table_grows() {
    const THERE: u64 = 100;
    let cache: Cache<u64, u64> = Cache::builder(1 << 20).build();
    (0..THERE).for_each(|key| cache.insert(key, key));
    let (mut shown, mut came) = (HashMap::new(), THERE);
    // From within, so that the moment is known.
    cache.for_each(|&key, _| {
        *shown.entry(key).or_insert(0u32) += 1;
        (came..came + 50).for_each(|key| cache.insert(key, key));
        came = (came + 50).min(20_000);
    });
    for key in 0..THERE {
        let times = shown.get(&key).copied().unwrap_or(0);
        assert_eq!(times, 1, "{key}");
    }
    // And removed keys stay removed.
    let (before, mut judged) = (cache.len(), 0);
    cache.retain(|&key, _| {
        judged += 1;
        if judged < 50_000 {
            cache.insert(1_000_000 + judged, 0);
        }
        key >= 1_000_000
    });
    assert!(judged as usize >= before);
    assert_eq!(cache.iter().filter(|&(key, _)| key < 1_000_000).count(), 0);
    cache.clear();
    assert!(cache.is_empty());
}

thread_local! {
    /// At which the hash of key 0 waits twice.
    static WAITS: Cell<Option<&'static Barrier>> = const { Cell::new(None) };
}

#[derive(Clone, PartialEq, Eq)]
struct Waiting(u64);

impl Hash for Waiting {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        if self.0 == 0
            && let Some(barrier) = WAITS.take()
        {
            barrier.wait();
            barrier.wait();
        }
        hasher.write_u64(self.0);
    }
}

/// The hash of an expired entry runs under a stripe: nobody may wait for it.
#[test]
fn who_is_at_work_in_code_of_the_users_holds_up_nobody() {
    if !is_alone("growth::who_is_at_work_in_code_of_the_users_holds_up_nobody") {
        return;
    }
    let seconds = Arc::new(AtomicU64::new(0));
    let shown = Arc::clone(&seconds);
    let clock = move || Duration::from_secs(shown.load(SeqCst));
    let cache: Arc<Cache<Waiting, u64>> = Arc::new(Cache::builder(1 << 20).clock(clock).build());
    cache.insert_for(Waiting(0), 0, Duration::from_secs(10));
    (1..100).for_each(|key| cache.insert(Waiting(key), key));
    seconds.store(100, SeqCst);
    let barrier: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
    let purge = {
        let cache = Arc::clone(&cache);
        std::thread::spawn(move || {
            WAITS.set(Some(barrier));
            cache.purge()
        })
    };
    barrier.wait();
    // More than the table has room for: some may be refused as long as it cannot be replaced.
    (100..450).for_each(|key| cache.insert(Waiting(key), key));
    let refused = cache.stats().refusals;
    assert!(refused > 0, "nothing was in the way");
    barrier.wait();
    purge.join().expect("no panic");
    (100..2_000).for_each(|key| cache.insert(Waiting(key), key));
    assert_eq!(cache.stats().refusals, refused, "it has grown when nobody was in the way");
    (1..2_000).for_each(|key| assert_eq!(cache.get(&Waiting(key)), Some(key)));
}

#[test]
fn a_capacity_is_raised_beyond_what_it_was_built_for() {
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru, Policy::WTinyLfu] {
        let mut cache: Cache<u64, u64> = Cache::builder(100).policy(policy).build();
        (0..200).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.set_capacity(5_000), 5_000, "{policy}");
        let full = cache.len() as u64;
        (1_000..5_900 - full).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.len() as u64, 4_900, "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}

/// A capacity of many bytes, or that may be raised, is no reason to reserve memory: a policy's
/// memory follows the entries in the cache.
#[test]
fn what_a_policy_remembers_grows_with_what_is_in_it() {
    const CAPACITY: u64 = 1 << 34;
    for policy in policies() {
        let weighed: Cache<u64, u64> =
            Cache::builder(CAPACITY).policy(policy).weigher(|_, _| CAPACITY / 100).build();
        let raised: Cache<u64, u64> =
            Cache::builder(100).policy(policy).entries(CAPACITY / 256).build();
        for cache in [weighed, raised] {
            (0..300).for_each(|key| cache.insert(key, key));
            let (len, bytes) = (cache.len(), cache.reserved_bytes());
            assert!(len == 100 && bytes < 100_000, "{policy}: {bytes} bytes for {len} entries");
        }
    }
}

/// The policy recognizes evicted keys, though there are hundreds of times as many entries as at the
/// first eviction.
#[test]
fn ghosts_find_room_as_entries_become_lighter() {
    const KEYS: u64 = 10_000;
    let s3_fifo = Cache::builder(KEYS << 10).policy(Policy::S3Fifo).weigher(|_, &weight| weight);
    let cache: Cache<u64, u64> = s3_fifo.build();
    (0..30).for_each(|key| cache.insert(key, KEYS << 6));
    let entries = |from: u64| (from..from + KEYS).for_each(|key| cache.insert(key, 1 << 10));
    // All heavy entries are evicted, and then half of the light ones, from the small queue.
    (1..4).for_each(|round| entries(round * KEYS));
    let gone: Vec<u64> = (KEYS..4 * KEYS).filter(|key| !cache.contains_key(key)).collect();
    let known = &gone[gone.len() - KEYS as usize / 2..];
    // They are inserted again, and most outlast new entries: they skip the small queue.
    known.iter().for_each(|&key| cache.insert(key, 1 << 10));
    entries(5 * KEYS);
    let kept = known.iter().filter(|&key| cache.contains_key(key)).count();
    assert!(kept > known.len() * 3 / 4, "{kept} of {}", known.len());
}

/// Each capacity needs other tables, and slots with more bits.
#[test]
fn a_capacity_is_raised_again_and_again() {
    let mut cache: Cache<u64, u64> = Cache::builder(50).build();
    let mut capacity = 50;
    while capacity < 40_000 {
        capacity += capacity / 5 + 1;
        assert_eq!(cache.set_capacity(capacity), capacity);
        (0..capacity).for_each(|key| cache.insert(key, key));
        assert_eq!((cache.len() as u64, cache.stats().refusals), (capacity, 0));
    }
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// A capacity lowered below half of the first needs slots of fewer bits, although the table is too
/// small for it: a larger table knows no more bits of a key's hash than the one before kept.
#[test]
#[cfg_attr(miri, ignore)]
fn a_table_is_replaced_after_the_capacity_was_lowered() {
    const FALLEN: u64 = 196_000;
    let mut cache: Cache<u64, u64> = Cache::builder(750_000).build();
    (0..190_000).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.set_capacity(FALLEN), FALLEN);
    (190_000..FALLEN).for_each(|key| cache.insert(key, key));
    let missed = (0..FALLEN).filter(|key| cache.get(key) != Some(*key)).count();
    assert_eq!((missed, cache.len() as u64), (0, FALLEN));
    (0..FALLEN).for_each(|key| assert_eq!(cache.remove(&key), Some(key)));
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// Its hash is its number of tens.
#[derive(Clone, PartialEq, Eq)]
struct Alike(u64);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0 / 10);
    }
}

/// Of keys with one hash one is removed, and another is not mistaken for its successor.
#[test]
fn what_is_alike_is_shown_when_the_table_grows_and_one_goes() {
    let cache: Cache<Alike, u64> = Cache::builder(1 << 20).build();
    (0..5).for_each(|key| cache.insert(Alike(key), key));
    let mut shown = Vec::new();
    cache.for_each(|key, _| {
        shown.extend((key.0 < 10).then_some(key.0));
        if shown.len() == 1 && cache.remove(key).is_some() {
            (1..200)
                .for_each(|tens| (0..5).for_each(|key| cache.insert(Alike(10 * tens + key), 0)));
        }
    });
    shown.sort_unstable();
    assert_eq!(shown, [0, 1, 2, 3, 4]);
}
