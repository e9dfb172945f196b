//! Frozen entries that other threads read, write and remove: nobody sees a stale value, no frozen
//! entry is evicted, and all parts agree afterwards.

use crate::extent::{HANG_LIMIT, turns};
use crate::own_process::is_alone;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use frazil::{Builder, Cache, Freezing, Policy};

/// One of each kind: Miri takes a minute for what takes milliseconds otherwise.
#[cfg(miri)]
const POLICIES: [&str; 4] = ["mobius", "s3-fifo", "lru", "gdsf"];

#[cfg(not(miri))]
const POLICIES: [&str; 14] = [
    "mobius",
    "fifo",
    "clock:bits=2",
    "s3-fifo",
    "lru",
    "w-tinylfu",
    "slru",
    "arc",
    "two-queue",
    "lfu",
    "gdsf",
    "lru-prob:q=0.5",
    "lru-delayed:window=50",
    "lru-relaxed",
];

/// Under Miri counts are divided by this.
const SCALE: u64 = if cfg!(miri) { 20 } else { 1 };

/// The place where frozen entries are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Index,
    Copies,
}

use Kept::{Copies, Index};

fn all_kinds() -> impl Iterator<Item = (&'static str, Kept)> {
    POLICIES.into_iter().flat_map(|policy| [(policy, Index), (policy, Copies)])
}

/// Whether a policy runs under a lock.
fn keeps_places(policy: &str) -> bool {
    !["mobius", "fifo", "clock:bits=2", "s3-fifo"].contains(&policy)
}

fn freezing(builder: Builder<u64, u64>, kept: Kept) -> Builder<u64, u64> {
    match kept {
        Index => builder.freezing(Freezing::ByHand),
        Copies => builder.freezing_copies(Freezing::ByHand),
    }
}

fn cache(capacity: u64, policy: &str, kept: Kept) -> Cache<u64, u64> {
    freezing(Cache::builder(capacity).policy(policy.parse().unwrap()), kept).build()
}

#[test]
#[cfg_attr(miri, ignore = "thousands of entries, of one thread")]
fn what_is_frozen_stays_and_the_rest_goes() {
    for (policy, kept) in all_kinds() {
        for share in [0.05, 0.5, 0.95] {
            let mut cache = cache(2_000, policy, kept);
            for _ in 0..3 {
                (0..2_000).for_each(|key| {
                    if cache.get(&key).is_none() {
                        cache.insert(key, key);
                    }
                });
            }
            let there: Vec<u64> = cache.iter().map(|(key, _)| key).collect();
            let frozen = cache.freeze(share);
            assert_eq!(frozen, (there.len() as f64 * share).round() as u64, "{policy} {share}");
            let before = cache.stats();
            let hits: Vec<u64> =
                there.iter().copied().filter(|key| cache.get(key).is_some()).collect();
            assert_eq!(hits.len(), there.len());
            // With copies or, if there is no space for a few, without.
            assert_eq!(cache.stats().frozen_hits - before.frozen_hits, frozen, "{policy} {kept:?}");
            // More new entries than fit.
            (10_000..20_000).for_each(|key| cache.insert(key, key));
            cache.validate().unwrap();
            let left = there.iter().filter(|key| cache.contains_key(*key)).count() as u64;
            assert!(left >= frozen, "{policy} {share}: {left} of {frozen}");
            if policy == "fifo" {
                assert!(left < frozen + 40, "{policy} {share}: {left} of {frozen}");
            }
            assert!(cache.len() <= 2_000 && cache.len() >= 1_900, "{policy}: {}", cache.len());
            cache.thaw();
            cache.validate().unwrap();
            assert!(there.iter().filter(|key| cache.contains_key(*key)).count() as u64 >= left);
            assert_eq!(cache.set_capacity(10), 10, "{policy}: what was thawed goes like all else");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn batches_find_what_is_frozen() {
    for (policy, kept) in all_kinds() {
        let cache = cache(100, policy, kept);
        (0..100).for_each(|key| cache.insert(key, key + 1));
        assert_eq!(cache.freeze(1.0), 100);
        cache.remove(&7);
        cache.insert(8, 1_000);
        let before = cache.stats();
        let keys: Vec<u64> = (0..101).collect();
        let found = cache.get_many(&keys);
        let expected = |key: u64| match key {
            7 | 100 => None,
            8 => Some(1_000),
            _ => Some(key + 1),
        };
        assert!((0..).zip(&found).all(|(key, value)| *value == expected(key)), "{policy}");
        let stats = cache.stats();
        assert_eq!((stats.hits - before.hits, stats.misses - before.misses), (99, 2), "{policy}");
        // The replacement of a frozen entry is frozen if the policy keeps its place.
        let frozen = 98 + u64::from(keeps_places(policy));
        assert_eq!(stats.frozen_hits - before.frozen_hits, frozen, "{policy} {kept:?}");
    }
}

#[test]
fn a_frozen_entry_is_replaced_and_removed_and_expires() {
    for name in POLICIES {
        let policy: Policy = name.parse().unwrap();
        let now = std::sync::Arc::new(AtomicU64::new(0));
        let told = now.clone();
        let mut cache: Cache<u64, String> = Cache::builder(100)
            .policy(policy)
            .freezing(Freezing::ByHand)
            .clock(move || Duration::from_secs(told.load(Relaxed)))
            .time_to_live(Duration::from_secs(60))
            .build();
        (0..100).for_each(|key| cache.insert(key, format!("first {key}")));
        assert_eq!(cache.freeze(1.0), 100);
        cache.insert(3, "second".to_owned());
        let before = cache.stats().frozen_hits;
        assert_eq!(cache.get(&3).as_deref(), Some("second"));
        let frozen = cache.stats().frozen_hits - before;
        assert_eq!(frozen, u64::from(keeps_places(name)), "{policy}: in the place of a frozen one");
        assert_eq!(cache.remove(&4).as_deref(), Some("first 4"));
        assert_eq!(cache.pin().get(&4), None);
        // The only free place: no frozen entry is evicted.
        cache.insert(100, "newcomer".to_owned());
        assert!(cache.contains_key(&100));
        cache.insert(101, "the next".to_owned());
        let loose = [3, 100, 101].iter().filter(|key| cache.contains_key(*key)).count();
        assert_eq!(loose, 2, "{policy}: what is not frozen goes");
        assert!((5..100).all(|key| cache.contains_key(&key)), "{policy}");
        now.store(59, Relaxed);
        assert_eq!(cache.get(&5).as_deref(), Some("first 5"));
        now.store(61, Relaxed);
        assert_eq!(cache.get(&5), None);
        assert_eq!(cache.stats().expirations, 1);
        cache.validate().unwrap();
        cache.thaw();
        cache.clear();
        cache.validate().unwrap();
        assert!(cache.is_empty());
    }
}

/// Writes or removes a key, and raises its floor.
fn write(cache: &Cache<u64, u64>, floors: &[AtomicU64], key: u64, round: u64) {
    if (round + key).is_multiple_of(5) {
        cache.remove(&key);
        // Only the next value may be seen.
        floors[key as usize].store(round + 1, Release);
    } else {
        cache.insert(key, round);
        floors[key as usize].store(round, Release);
    }
    // An entry for the policy to evict.
    cache.insert(1_000 + round % 100, round);
}

/// Each key has a version that only grows, and a floor: the last version whose write is over. A
/// read that begins afterwards must not see a lower one, nor a removed one.
#[test]
fn no_read_is_older_than_the_last_write() {
    if !is_alone("frozen::no_read_is_older_than_the_last_write") {
        return;
    }
    const KEYS: u64 = if cfg!(miri) { 12 } else { 64 };
    let floors: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    for (policy, kept) in all_kinds() {
        floors.iter().for_each(|floor| floor.store(0, Relaxed));
        let mut cache = cache(KEYS * 3 / 2, policy, kept);
        let stop = AtomicBool::new(false);
        let reads = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (cache, stop, floors, reads) = (&cache, &stop, &floors, &reads);
            // One writer of each key.
            for writer in 0..2 {
                scope.spawn(move || {
                    for round in 1u64.. {
                        for key in (writer..KEYS).step_by(2) {
                            write(cache, floors, key, round);
                        }
                        if stop.load(Relaxed) {
                            return;
                        }
                    }
                });
            }
            for reader in 0..2 {
                scope.spawn(move || {
                    let mut key = reader;
                    while !stop.load(Relaxed) {
                        key = (key * 5 + 3) % KEYS;
                        let floor = floors[key as usize].load(Acquire);
                        let seen = if reader == 0 {
                            cache.get(&key)
                        } else {
                            cache.pin().get(&key).copied()
                        };
                        assert!(
                            seen.is_none_or(|version| version >= floor),
                            "{policy}, {kept:?}: key {key}: {seen:?} < {floor}"
                        );
                        reads.fetch_add(1, Relaxed);
                    }
                });
            }
            let begun = Instant::now();
            for round in 0.. {
                cache.freeze([0.3, 0.7, 1.0][round % 3]);
                std::thread::sleep(Duration::from_micros(500));
                if round % 2 == 0 {
                    cache.thaw();
                }
                // The readers may have had no processor yet.
                let read = cache.stats().frozen_hits > 0 && reads.load(Relaxed) > 1_000;
                if round as u64 >= turns(1_500) / SCALE && (read || cfg!(miri)) {
                    break;
                }
                if begun.elapsed() > HANG_LIMIT {
                    stop.store(true, Relaxed);
                    panic!("{policy}, {kept:?}: {} reads", reads.load(Relaxed));
                }
            }
            stop.store(true, Relaxed);
        });
        cache.validate().unwrap();
        cache.thaw();
        cache.validate().unwrap();
    }
}

#[test]
fn values_are_dropped_once_whatever_is_frozen() {
    use std::sync::Arc;
    for policy in POLICIES {
        for thawed in [false, true] {
            let policy: Policy = policy.parse().unwrap();
            let witness = Arc::new(());
            let cache: Cache<u64, Arc<()>> =
                Cache::builder(500 / SCALE).policy(policy).freezing(Freezing::ByHand).build();
            (0..700 / SCALE).for_each(|key| cache.insert(key, witness.clone()));
            cache.freeze(0.6);
            (0..300 / SCALE).step_by(3).for_each(|key| _ = cache.remove(&(key + 300 / SCALE)));
            (0..100 / SCALE).for_each(|key| cache.insert(key + 400 / SCALE, witness.clone()));
            (1_000..1_000 + 300 / SCALE).for_each(|key| cache.insert(key, witness.clone()));
            if thawed {
                cache.thaw();
            }
            drop(cache);
            assert_eq!(Arc::strong_count(&witness), 1);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of entries, of one thread")]
fn a_resized_cache_freezes_and_thaws() {
    for (policy, kept) in all_kinds() {
        let mut cache = cache(1_000, policy, kept);
        (0..1_000).for_each(|key| cache.insert(key, key));
        cache.freeze(0.9);
        assert_eq!(cache.set_capacity(100), 100, "{policy}");
        assert!(cache.len() <= 100);
        cache.validate().unwrap();
        assert_eq!(cache.set_capacity(1_000), 1_000);
        (0..1_000).for_each(|key| cache.insert(key, key));
        cache.freeze(0.5);
        assert!(cache.hottest(600).len() >= 500, "{policy}: what is frozen is known");
        cache.validate().unwrap();
    }
}

#[test]
fn a_cache_that_does_not_freeze_says_so() {
    let cache: Cache<u64, u64> = Cache::builder(10).build();
    cache.insert(1, 1);
    assert_eq!(cache.freeze(1.0), 0);
    cache.thaw();
    let cache: Cache<u64, u64> = Cache::builder(10).freezing(Freezing::ByHand).build();
    assert_eq!(cache.freeze(f64::NAN), 0);
    assert_eq!(cache.freeze(0.5), 0);
    cache.insert(1, 1);
    assert_eq!((cache.freeze(-1.0), cache.freeze(0.1), cache.freeze(7.0)), (0, 0, 1));
}

/// Panics if its flag is set.
#[derive(Clone, Default)]
struct Fragile(std::sync::Arc<AtomicBool>);

impl std::hash::BuildHasher for Fragile {
    type Hasher = std::hash::DefaultHasher;
    fn build_hasher(&self) -> Self::Hasher {
        assert!(!self.0.load(Relaxed), "the hasher is broken");
        Self::Hasher::new()
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of entries, of one thread")]
fn a_hasher_that_panics_leaves_nothing_frozen() {
    for policy in POLICIES {
        let policy: Policy = policy.parse().unwrap();
        let fragile = Fragile::default();
        // Without copies no key is hashed to freeze it.
        let mut cache = freezing(Cache::builder(1_000).policy(policy), Copies)
            .with_hasher(fragile.clone())
            .build();
        (0..1_000).for_each(|key| cache.insert(key, key));
        fragile.0.store(true, Relaxed);
        let frozen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cache.freeze(1.0)));
        assert!(frozen.is_err());
        fragile.0.store(false, Relaxed);
        cache.validate().unwrap();
        (1_000..3_000).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.set_capacity(10), 10, "{policy}: all of it can go");
        cache.validate().unwrap();
        assert_eq!(cache.freeze(1.0), cache.len() as u64);
    }
}

#[test]
fn what_cannot_be_frozen_refuses_nobody() {
    for (policy, share) in [("mobius", f64::NAN), ("lru", -1.0)] {
        let cache = cache(100, policy, Copies);
        (0..100).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.freeze(share), 0);
        (100..200).for_each(|key| cache.insert(key, key));
        assert!((100..200).any(|key| cache.contains_key(&key)), "{policy}");
        assert_eq!(cache.stats().refusals, 0);
    }
}

#[test]
fn what_expires_frozen_is_taken_out_without_being_asked_for() {
    for policy in POLICIES {
        let policy: Policy = policy.parse().unwrap();
        let now = std::sync::Arc::new(AtomicU64::new(0));
        let told = now.clone();
        let mut cache: Cache<u64, u64> = Cache::builder(100)
            .policy(policy)
            .freezing(Freezing::ByHand)
            .clock(move || Duration::from_secs(told.load(Relaxed)))
            .time_to_live(Duration::from_secs(60))
            .build();
        (0..100).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.freeze(1.0), 100);
        now.store(100, Relaxed);
        assert_eq!(cache.purge(), 100, "{policy}");
        cache.validate().unwrap();
        (100..200).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.len(), 100);
    }
}

/// A value whose destructor uses the cache that held it.
struct Thaws(std::sync::Arc<std::sync::OnceLock<Cache<u64, Thaws>>>);

impl Drop for Thaws {
    fn drop(&mut self) {
        if let Some(cache) = self.0.get() {
            cache.thaw();
            cache.freeze(0.5);
            cache.reserved_bytes();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of entries, of one thread")]
fn a_destructor_may_thaw_and_freeze() {
    if !is_alone("frozen::a_destructor_may_thaw_and_freeze") {
        return;
    }
    for policy in POLICIES {
        let cell = std::sync::Arc::new(std::sync::OnceLock::new());
        let policy: Policy = policy.parse().unwrap();
        let built = Cache::builder(1_000).policy(policy).freezing(Freezing::ByHand).build();
        let cache = cell.get_or_init(|| built);
        (0..1_000).for_each(|key| cache.insert(key, Thaws(cell.clone())));
        cache.freeze(0.5);
        let pin = cache.pin();
        (0..300).for_each(|key| _ = cache.invalidate(&key));
        drop(pin);
        cache.thaw();
        cache.set_capacity(100);
        assert!(cache.len() <= 1_000);
        cache.clear();
        cache.thaw();
    }
}

#[test]
fn a_heavier_replacement_takes_the_place_of_a_frozen_entry() {
    for (policy, kept) in all_kinds() {
        let policy: Policy = policy.parse().unwrap();
        let builder = Cache::builder(100).policy(policy).weigher(|_, value| *value).entries(200);
        let mut cache = freezing(builder, kept).build();
        (0..100).for_each(|key| cache.insert(key, 1));
        assert_eq!(cache.freeze(1.0), 100);
        // Space for one that is not frozen and can be evicted.
        cache.remove(&7);
        cache.insert(100, 1);
        cache.insert(3, 2);
        assert_eq!(cache.get(&3), Some(2), "{policy}");
        assert!(!cache.contains_key(&100), "{policy}");
        cache.validate().unwrap();
    }
}

#[test]
fn what_is_to_expire_is_not_copied() {
    for policy in POLICIES {
        let now = std::sync::Arc::new(AtomicU64::new(0));
        let told = now.clone();
        let builder = Cache::builder(100)
            .policy(policy.parse().unwrap())
            .clock(move || Duration::from_secs(told.load(Relaxed)));
        let cache = freezing(builder, Copies).build();
        (0..50).for_each(|key| cache.insert_for(key, key, Duration::from_secs(60)));
        (50..100).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.freeze(1.0), 100);
        assert!((0..100).all(|key| cache.get(&key) == Some(key)));
        assert!(cache.stats().frozen_hits > 40, "{policy}: those that stay");
        now.store(61, Relaxed);
        let left = (0..100).filter(|key| cache.get(key).is_some()).count();
        assert_eq!(left, 50, "{policy}");
    }
}

/// Entries found by a pin exist while it lives, whatever is frozen meanwhile.
#[test]
fn copies_stay_while_a_pin_reads_them() {
    const ENTRIES: u64 = 300 / SCALE;
    for policy in POLICIES {
        let cache = cache(ENTRIES, policy, Copies);
        (0..ENTRIES).for_each(|key| cache.insert(key, key));
        cache.freeze(1.0);
        let pin = cache.pin();
        let found: Vec<&u64> = (0..ENTRIES).filter_map(|key| pin.get(&key)).collect();
        assert_eq!(found.len() as u64, ENTRIES);
        cache.thaw();
        (0..ENTRIES).for_each(|key| cache.insert(key, key + 5_000));
        assert_eq!(cache.freeze(1.0), 0, "{policy}: they would be written over");
        assert!((0..).zip(&found).all(|(key, value)| **value == key));
        drop(pin);
        // A new entry that found no slot, because the pin held them up, was not admitted.
        assert!(!cache.is_empty() && cache.freeze(1.0) == cache.len() as u64, "{policy}");
        // A pin that began after the thaw is not waited for.
        cache.thaw();
        let pin = cache.pin();
        assert_eq!(cache.freeze(1.0), cache.len() as u64, "{policy}");
        drop(pin);
    }
}

/// The progress of two threads that insert one key. By key, so that tests do not interfere.
static STAGE: AtomicU64 = AtomicU64::new(0);

fn wait_for(stage: u64) {
    while STAGE.load(Acquire) < stage {
        std::thread::yield_now();
    }
}

/// All keys share a bucket and a tag. The thread named `second` stops at its first comparison
/// with key 0, and at the first of equal keys after that.
#[derive(Eq)]
struct Slow(u64);

impl std::hash::Hash for Slow {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(0);
    }
}

impl PartialEq for Slow {
    fn eq(&self, other: &Self) -> bool {
        let equal = self.0 == other.0;
        if std::thread::current().name() == Some("second") {
            let (at, here) = if equal { (2, 3) } else { (0, 1) };
            if STAGE.compare_exchange(at, here, Release, Relaxed).is_ok() {
                wait_for(here + 1);
            }
        }
        equal
    }
}

/// Both values are in the index until one of the two calls has removed the other's.
#[test]
fn of_two_first_inserts_the_one_that_is_found_is_frozen() {
    for policy in POLICIES {
        STAGE.store(0, Relaxed);
        let policy: Policy = policy.parse().unwrap();
        let cache: Cache<Slow, u64> =
            Cache::builder(100).policy(policy).freezing(Freezing::ByHand).build();
        cache.insert(Slow(0), 0);
        let mut seen = [None; 2];
        std::thread::scope(|scope| {
            let second = std::thread::Builder::new().name("second".to_owned());
            second.spawn_scoped(scope, || cache.insert(Slow(5), 2)).unwrap();
            // It has not found the key.
            wait_for(1);
            cache.insert(Slow(5), 1);
            cache.remove(&Slow(0));
            STAGE.store(2, Release);
            // Its value is there, before the other one, which it has not removed.
            wait_for(3);
            seen = [0; 2].map(|_| {
                let seen = cache.get(&Slow(5));
                cache.freeze(1.0);
                seen
            });
            STAGE.store(4, Release);
        });
        assert_eq!(seen, [Some(2); 2], "{policy}: before the freeze, and after");
        assert_eq!(cache.get(&Slow(5)), Some(2), "{policy}");
    }
}

#[test]
fn a_cleared_cache_is_not_frozen() {
    for (policy, kept) in all_kinds() {
        let mut cache = cache(100, policy, kept);
        (0..100).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.freeze(1.0), 100);
        cache.clear();
        (100..300).for_each(|key| cache.insert(key, key));
        assert!((200..300).any(|key| cache.contains_key(&key)), "{policy}: newcomers are admitted");
        cache.validate().unwrap();
    }
}

thread_local! {
    /// Hashes of this thread until one stops, and its action there.
    static STOP: RefCell<(u64, Option<Act>)> = const { RefCell::new((0, None)) };
}

type Act = Box<dyn FnOnce()>;

/// A key whose hash may stop its thread.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stopping(u64);

impl Hash for Stopping {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let stop = STOP.with_borrow_mut(|(left, stop)| {
            *left = left.saturating_sub(1);
            if *left == 0 { stop.take() } else { None }
        });
        stop.into_iter().for_each(|stop| stop());
        self.0.hash(state);
    }
}

/// Freezes a share of a hundred entries, and runs `meanwhile` after a number of hashes for it.
/// Returns whether it did.
fn freeze_and(
    cache: &Cache<Stopping, u64>,
    (share, hashes): (f64, u64),
    meanwhile: impl FnOnce(),
) -> bool {
    let (caught, arrived) = channel();
    let (release, released) = channel::<()>();
    std::thread::scope(|scope| {
        let freezer = scope.spawn(move || {
            let stop = move || {
                caught.send(()).expect("the test waits");
                _ = released.recv();
            };
            STOP.set((hashes, Some(Box::new(stop))));
            cache.freeze(share);
            // Lets the test go on if it was not stopped.
            STOP.take();
        });
        let stopped = arrived.recv_timeout(HANG_LIMIT).is_ok();
        meanwhile();
        drop(release);
        freezer.join().expect("no panic");
        stopped
    })
}

/// Entries cleared or removed while a freezer is at work are not frozen; later entries are admitted
/// and evicted as usual.
#[test]
#[cfg_attr(miri, ignore = "thousands of entries")]
fn newcomers_find_room_after_a_removal_during_a_freeze() {
    type Removal = fn(&Cache<Stopping, u64>);
    let removals: [(&str, Removal); 3] = [
        ("clear", Cache::clear),
        ("most", |cache| (0..95).for_each(|key| _ = cache.invalidate(&Stopping(key)))),
        ("half", |cache| cache.retain(|key, _| key.0 % 2 == 0)),
    ];
    // Without copies no user code is called, so nothing stops.
    for policy in POLICIES {
        for (removal, remove) in removals {
            for share in [0.5, 1.0] {
                for hashes in [1, 20, 50] {
                    let what = format!("{policy}, {removal}, {share}, {hashes}");
                    let builder = Cache::builder(100).policy(policy.parse().unwrap());
                    let mut cache: Cache<Stopping, u64> =
                        builder.freezing_copies(Freezing::ByHand).build();
                    (0..100).for_each(|key| cache.insert(Stopping(key), key));
                    let stopped = freeze_and(&cache, (share, hashes), || remove(&cache));
                    assert!(stopped, "{what}");
                    let before = cache.stats();
                    (1_000..3_000).for_each(|key| cache.insert(Stopping(key), key));
                    let refusals = cache.stats().refusals - before.refusals;
                    // These compare new entries with their victims.
                    let may_refuse = ["w-tinylfu", "gdsf"].contains(&policy);
                    assert!(refusals == 0 || may_refuse, "{what}: {refusals} are refused");
                    assert_eq!(cache.len(), 100, "{what}");
                    cache.validate().unwrap_or_else(|found| panic!("{what}:\n{found}"));
                    cache.thaw();
                    cache.validate().unwrap_or_else(|found| panic!("{what}, thawed:\n{found}"));
                }
            }
        }
    }
}

/// Without evictions the successor in a removed entry's place does not stay for ever.
#[test]
fn what_comes_into_a_cache_frozen_whole_goes_again() {
    for (policy, kept) in all_kinds() {
        let mut cache = cache(100, policy, kept);
        (0..100).for_each(|key| cache.insert(key, key));
        assert_eq!(cache.freeze(1.0), 100);
        cache.insert(100, 100);
        assert_eq!((cache.get(&100), cache.stats().refusals), (None, 1), "{policy}");
        assert!((0..10).all(|key| cache.invalidate(&key)));
        (200..300).for_each(|key| cache.insert(key, key));
        let refusals = cache.stats().refusals;
        let may_refuse = ["w-tinylfu", "gdsf"].contains(&policy);
        assert!(refusals == 1 || may_refuse, "{policy}, {kept:?}: {refusals}");
        assert!((10..100).all(|key| cache.get(&key) == Some(key)), "{policy}");
        assert_eq!(cache.len(), 100);
        cache.validate().unwrap();
    }
}
