//! The edges: no capacity, enormous weights, held pins, more threads than a small cache has
//! entries.

use crate::extent::{HANG_LIMIT, policies, turns};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::own_process::is_alone;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Cause, Policy};

/// Miri is a thousand times slower.
const SCALE: u64 = if cfg!(miri) { 100 } else { 1 };

/// Whether it compares a new entry with its victims.
fn may_refuse(policy: Policy) -> bool {
    matches!(policy, Policy::WTinyLfu | Policy::Gdsf | Policy::LaCache { .. })
}

fn validate<K: std::hash::Hash + Eq, V>(cache: &mut Cache<K, V>) {
    cache.validate().unwrap_or_else(|findings| panic!("{:?}:\n{findings}", cache.policy()));
}

#[test]
fn a_cache_of_no_capacity_keeps_nothing() {
    for policy in policies() {
        let mut cache: Cache<u64, String> = Cache::builder(0).policy(policy).build();
        (0..100).for_each(|key| cache.insert(key, "text".to_owned()));
        assert_eq!((cache.len(), cache.stats().refusals, cache.get(&1)), (0, 100, None));
        validate(&mut cache);
    }
}

#[test]
fn a_cache_of_one_keeps_the_last() {
    for policy in policies() {
        let mut cache: Cache<u64, String> = Cache::builder(1).policy(policy).build();
        for key in 0..1_000 / SCALE {
            let refusals = cache.stats().refusals;
            cache.insert(key, key.to_string());
            let admitted = cache.stats().refusals == refusals;
            assert_eq!(cache.get(&key), admitted.then(|| key.to_string()), "{policy}");
            assert_eq!(cache.len(), 1, "{policy}");
            assert!(admitted || may_refuse(policy), "{policy}");
        }
        validate(&mut cache);
    }
}

#[test]
fn weights_may_be_as_large_as_numbers_are() {
    for policy in policies() {
        for capacity in [u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 62] {
            let mut cache: Cache<u64, u64> = Cache::builder(capacity)
                .policy(policy)
                .weigher(|_, weight| *weight)
                .entries(100)
                .build();
            for (key, weight) in [u64::MAX, u64::MAX - 1, 1, 0, capacity, capacity / 3, 7]
                .into_iter()
                .cycle()
                .zip(0..)
                .map(|(weight, key)| (key % 5, weight))
                .take(500 / SCALE as usize)
            {
                cache.insert(key, weight);
                let admitted = cache.get(&key);
                assert!(admitted.is_none_or(|found| found == weight && weight <= capacity));
                let sum: u128 = cache.iter().map(|(_, weight)| u128::from(weight)).sum();
                assert_eq!(u128::from(cache.weight()), sum, "{policy} {capacity}");
                assert!(sum <= u128::from(capacity), "{policy} {capacity}");
            }
            validate(&mut cache);
        }
    }
}

/// Slots that wait for a reclamation, in caches as small as these.
const WAITING: u64 = 32;

/// Slots beyond those of the entries.
fn spare_slots(capacity: u64) -> u64 {
    capacity / 4 + 512 + (16 * capacity).min(16_384)
}

#[test]
fn a_pin_that_is_held_keeps_what_it_has_shown_and_refuses_nobody() {
    // Policies that refuse new entries are left out.
    for policy in policies().into_iter().filter(|&policy| !may_refuse(policy)) {
        for capacity in [4, turns(1_500) / SCALE] {
            let census = Census::default();
            let mut cache: Cache<u64, Tracked<'_>> =
                Cache::builder(capacity).policy(policy).build();
            (0..capacity).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
            let pin = cache.pin();
            let shown: Vec<_> = (0..capacity).filter_map(|key| pin.get(&key)).collect();
            assert_eq!(shown.len(), capacity as usize, "{policy}");
            let most = capacity + shown.len() as u64 + WAITING;
            for key in capacity..capacity * 3 + 1_000 {
                cache.insert(key, Tracked::new(&census, key));
                assert!(census.living() <= most as i64, "{policy} {capacity}");
            }
            assert_eq!(cache.stats().refusals, 0, "{policy} {capacity}");
            shown.into_iter().for_each(|value| value.check(value.key));
            drop(pin);
            (0..capacity * 2).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
            cache.flush();
            assert_eq!(census.living(), cache.len() as i64, "{policy} {capacity}");
            validate(&mut cache);
            drop(cache);
            assert_eq!(census.living(), 0);
        }
    }
}

/// A value that stops its first cloning thread.
struct Stops {
    arrived: Mutex<Option<Sender<()>>>,
    held: Mutex<Option<Receiver<()>>>,
}

impl Clone for Stops {
    fn clone(&self) -> Self {
        if let Some(arrived) = self.arrived.lock().unwrap().take() {
            arrived.send(()).expect("the test waits");
        }
        if let Some(held) = self.held.lock().unwrap().take() {
            _ = held.recv();
        }
        Stops::passes()
    }
}

impl Stops {
    fn passes() -> Self {
        Stops { arrived: Mutex::default(), held: Mutex::default() }
    }
}

/// All entries of a cache with spare capacity are replaced repeatedly, while an iteration stands
/// still and held pins have shown every entry.
#[test]
fn who_iterates_or_pins_makes_no_writer_give_up() {
    const KEYS: u64 = 1_024 / SCALE;
    for policy in policies() {
        let mut cache: Cache<u64, Stops> = Cache::builder(2 * KEYS).policy(policy).build();
        let (arrived, arrivals) = channel();
        let (release, held) = channel();
        (0..KEYS).for_each(|key| cache.insert(key, Stops::passes()));
        let (arrived, held) = (Mutex::new(Some(arrived)), Mutex::new(Some(held)));
        cache.insert(0, Stops { arrived, held });
        std::thread::scope(|scope| {
            let iterator = scope.spawn(|| cache.iter().count());
            arrivals.recv_timeout(HANG_LIMIT).expect("the iterator meets every entry");
            for round in 0..20 {
                let pin = cache.pin();
                (0..KEYS).for_each(|key| assert!(pin.peek(&((key + round) % KEYS)).is_some()));
                for key in 0..KEYS {
                    cache.insert(key, Stops::passes());
                    assert!(cache.contains_key(&key), "{policy}: {key} was just replaced");
                }
            }
            assert_eq!((cache.len(), cache.stats().refusals), (KEYS as usize, 0), "{policy}");
            drop(release);
            assert_eq!(iterator.join().expect("no panic"), KEYS as usize, "{policy}");
        });
        validate(&mut cache);
    }
}

/// Threads replace their own entries in a cache with spare capacity, while others iterate and hold
/// pins over thousands of replacements.
#[test]
fn replacements_beside_iterators_and_pins_lose_nothing() {
    const KEYS: u64 = 1_024 / SCALE;
    const WRITERS: u64 = 8;
    // More than there are slots.
    let replacements = turns(400_000).max(30_000) / SCALE;
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        let census = Census::default();
        let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(2 * KEYS).policy(policy).build();
        (0..KEYS).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
        let (done, missing, begun) = (AtomicI64::new(0), AtomicI64::new(0), Instant::now());
        let most = replacements.next_multiple_of(WRITERS) as i64;
        let goes_on = || done.load(SeqCst) < most && begun.elapsed() < HANG_LIMIT;
        std::thread::scope(|scope| {
            for thread in 0..WRITERS {
                let (cache, census, done, missing) = (&cache, &census, &done, &missing);
                scope.spawn(move || {
                    for key in (0..KEYS)
                        .cycle()
                        .filter(|key| key % WRITERS == thread)
                        .take(most as usize / WRITERS as usize)
                    {
                        cache.insert(key, Tracked::new(census, key));
                        missing.fetch_add((!cache.contains_key(&key)).into(), SeqCst);
                        done.fetch_add(1, SeqCst);
                    }
                });
                scope.spawn(|| {
                    while goes_on() {
                        let shown = cache.iter().inspect(|(key, value)| value.check(*key)).count();
                        assert!(shown as u64 <= KEYS);
                    }
                });
                scope.spawn(move || {
                    let mut chance = Chance(thread);
                    while goes_on() {
                        let pin = cache.pin();
                        let looks = 2_000 / SCALE;
                        let shown: Vec<_> =
                            (0..looks).filter_map(|_| pin.get(&chance.below(KEYS))).collect();
                        // A tenth of all replacements.
                        let until = (done.load(SeqCst) + most / 10).min(most);
                        while done.load(SeqCst) < until && goes_on() {
                            std::thread::yield_now();
                        }
                        shown.into_iter().for_each(|value| value.check(value.key));
                    }
                });
            }
        });
        let found = (0..KEYS).filter(|key| cache.contains_key(key)).count() as u64;
        let refusals = cache.stats().refusals;
        assert_eq!((missing.into_inner(), found, refusals), (0, KEYS, 0), "{policy}");
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 0);
    }
}

/// Entries that wait to be dropped weigh at most a quarter of the capacity, whatever one weighs,
/// also with a held pin.
#[test]
fn a_weight_bounds_what_waits_to_be_dropped() {
    let census = Census::default();
    for policy in policies() {
        for (heavy, pinned) in [(1 << 16, false), (1 << 16, true), (1 << 20, true)] {
            let capacity: u64 = 1 << 22;
            let cache: Cache<u64, Tracked<'_>> =
                Cache::builder(capacity).policy(policy).weigher(move |_, _| heavy).build();
            let pin = pinned.then(|| cache.pin());
            let most = (capacity + capacity / 4) / heavy;
            for key in 0..400 / SCALE {
                cache.insert(key, Tracked::new(&census, key));
                // One more is dropped while this one is inserted.
                assert!(census.living() as u64 <= most + 1, "{policy}, {heavy}");
            }
            drop(pin);
        }
    }
}

/// Entries that a pin has shown are kept beside the capacity; new entries that exceed both are
/// refused until the pin is dropped.
#[test]
fn a_pin_that_shows_heavy_values_costs_refusals_and_no_memory() {
    if !is_alone("limits::a_pin_that_shows_heavy_values_costs_refusals_and_no_memory") {
        return;
    }
    // Policies that refuse new entries are left out.
    for policy in policies().into_iter().filter(|&policy| !may_refuse(policy)) {
        // S3-FIFO refuses entries heavier than its small queue, a tenth.
        for heavy in [1 << 16, 1 << 18] {
            let (capacity, census): (u64, _) = (1 << 22, Census::default());
            let mut cache: Cache<u64, Tracked<'_>> =
                Cache::builder(capacity).policy(policy).weigher(move |_, _| heavy).build();
            let pin = cache.pin();
            let mut shown = Vec::new();
            for key in 0..400 / SCALE {
                cache.insert(key, Tracked::new(&census, key));
                // A quarter, and an eighth of that until limbo is looked through again.
                let most = (capacity + capacity / 4 + capacity / 32) / heavy + 1;
                let living = census.living() as u64;
                assert!(living <= most, "{policy}, {heavy}: {living} live, at most {most}");
                shown.extend(pin.get(&key));
            }
            let refusals = cache.stats().refusals;
            assert!(refusals > 0, "{policy}, {heavy}");
            shown.into_iter().for_each(|value| value.check(value.key));
            drop(pin);
            for key in 0..400 / SCALE {
                cache.insert(key, Tracked::new(&census, key));
                assert!(cache.contains_key(&key), "{policy}, {heavy}: still refusing");
            }
            assert_eq!(cache.stats().refusals, refusals, "{policy}, {heavy}");
            validate(&mut cache);
            drop(cache);
            assert_eq!(census.living(), 0, "{policy}, {heavy}");
        }
    }
}

#[test]
fn a_pin_that_shows_more_than_there_are_slots_costs_refusals_and_no_memory() {
    if !is_alone("limits::a_pin_that_shows_more_than_there_are_slots_costs_refusals_and_no_memory")
    {
        return;
    }
    for policy in policies() {
        let (capacity, census) = (turns(1_500) / SCALE, Census::default());
        let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(capacity).policy(policy).build();
        let pin = cache.pin();
        for key in 0..capacity + 2 * spare_slots(capacity) {
            cache.insert(key, Tracked::new(&census, key));
            pin.get(&key);
            assert!(census.living() <= (capacity + spare_slots(capacity)) as i64, "{policy}");
        }
        assert!(cache.stats().refusals > 0, "{policy}");
        drop(pin);
        let refusals = cache.stats().refusals;
        for key in 0..capacity * 2 {
            cache.insert(key, Tracked::new(&census, key));
            assert!(cache.contains_key(&key), "{policy}");
        }
        assert_eq!(cache.stats().refusals, refusals, "{policy}: still refusing");
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 0);
    }
}

#[test]
fn a_pin_that_is_forgotten_is_one_that_is_held() {
    let census = Census::default();
    let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(10).build();
    (0..10).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
    let pin = cache.pin();
    assert!((0..10).all(|key| pin.get(&key).is_some()));
    std::mem::forget(pin);
    (0..1_000).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
    cache.flush();
    assert_eq!((census.living(), cache.stats().refusals), (20, 0));
    validate(&mut cache);
    drop(cache);
    assert_eq!(census.living(), 0);
}

/// Each insertion retires two entries: the replaced one, and one evicted because the new one weighs
/// more.
#[test]
fn what_waits_is_reclaimed_however_it_came() {
    const ENTRIES: u64 = 50_000 / SCALE;
    for policy in [Policy::Fifo, Policy::Mobius] {
        let builder = Cache::builder(ENTRIES).entries(ENTRIES).policy(policy);
        let cache: Cache<u64, u64> = builder.weigher(|_, weight| *weight).build();
        // One more than fits, so that later insertions retire by twos and one.
        (0..=ENTRIES).for_each(|key| cache.insert(key, 1));
        let mut most = 0;
        for key in 0..ENTRIES / 3 {
            cache.insert(ENTRIES - 1 - key, 2);
            most = most.max(cache.stats().waiting);
        }
        assert!(most <= 600, "{policy}: {most} waiting");
    }
}

/// The number of entries may be set lower than the capacity; if higher, it is room to grow.
/// A heavier replacement evicts other entries, even if the policy would choose its own: unlike a
/// new entry it may not be refused.
#[test]
fn a_replacement_may_be_as_heavy_as_the_capacity() {
    for policy in Policy::ALL {
        let told = Arc::new(Mutex::new(Vec::new()));
        let teller = Arc::clone(&told);
        let mut cache: Cache<u64, u64> = Cache::builder(100)
            .policy(policy)
            .weigher(|_, value| *value)
            .listener(move |&key, &value, cause| teller.lock().unwrap().push((key, value, cause)))
            .build();
        for heavier in (0..10).flat_map(|key| [(key, 11), (key, 60), (key, 100)]) {
            (0..10).for_each(|key| cache.insert(key, 10));
            // Not all of them were admitted.
            let Some(old) = cache.peek(&heavier.0) else { continue };
            told.lock().unwrap().clear();
            cache.insert(heavier.0, heavier.1);
            let ended = std::mem::take(&mut *told.lock().unwrap());
            assert_eq!(cache.peek(&heavier.0), Some(heavier.1), "{policy}: {ended:?}");
            assert!(ended.contains(&(heavier.0, old, Cause::Replaced)), "{policy}: {ended:?}");
            let of_others =
                |&&(key, _, cause): &&(u64, u64, Cause)| key != heavier.0 && cause == Cause::Size;
            assert_eq!(ended.iter().filter(of_others).count() + 1, ended.len(), "{policy}");
            validate(&mut cache);
        }
    }
}

#[test]
fn entries_do_not_lift_the_capacity() {
    for (capacity, entries) in [(10, 100), (100, 10), (0, 5), (5, 0)] {
        let cache: Cache<u64, u64> = Cache::builder(capacity).entries(entries).build();
        (0..200).for_each(|key| cache.insert(key, key));
        assert_eq!(
            (cache.len() as u64, cache.capacity()),
            (capacity.min(entries), capacity.min(entries))
        );
    }
    let cache: Cache<u64, u64> = Cache::builder(0).entries(5).weigher(|_, _| 0).build();
    cache.insert(1, 1);
    assert!(cache.is_empty());
}

/// A removal may find an entry that its inserter has not queued yet. It leaves such an entry for an
/// eviction; here there is none.
#[test]
fn entries_that_come_and_go_leave_nothing_behind() {
    for policy in policies() {
        let mut cache: Cache<u64, u64> = Cache::builder(1_000).policy(policy).build();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for turn in 0..turns(400_000) / SCALE / SCALE {
                        if (turn + thread) % 2 == 0 {
                            cache.insert(1, turn);
                        } else {
                            cache.invalidate(&1);
                        }
                    }
                });
            }
        });
        // During the run a suspended thread may hold all of limbo, so that others are refused.
        // After it none is.
        let refusals = cache.stats().refusals;
        for turn in 0..2_000 / SCALE {
            cache.insert(1, turn);
            assert!(cache.invalidate(&1), "{policy}: {turn}");
        }
        assert_eq!(cache.stats().refusals, refusals, "{policy}");
        validate(&mut cache);
    }
}

/// An entry may end before its inserter has queued it. Then only an eviction finds it, and here
/// there is none. Eight threads are often suspended at that point.
#[test]
fn entries_that_end_before_they_are_queued_are_dropped() {
    const KEYS: u64 = 4;
    const THREADS: u64 = 8;
    const HEAVY: u64 = 1 << 16;
    let (census, capacity): (_, u64) = (Census::default(), 1 << 26);
    // A quarter of the capacity, the residents, and entries held by threads.
    let most = (capacity / 4 / HEAVY + KEYS + 8 * THREADS) as i64;
    for policy in policies() {
        let mut cache: Cache<u64, Tracked<'_>> =
            Cache::builder(capacity).policy(policy).weigher(|_, _| HEAVY).build();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, census) = (&cache, &census);
                scope.spawn(move || {
                    for turn in 0..turns(400_000) / SCALE {
                        let key = (thread + turn) % KEYS;
                        match turn % 3 {
                            0 => _ = cache.invalidate(&key),
                            _ => cache.insert(key, Tracked::new(census, key)),
                        }
                        assert!(census.living() <= most, "{policy}: {}", census.living());
                    }
                });
            }
        });
        cache.flush();
        assert_eq!(census.living(), cache.len() as i64, "{policy}");
        validate(&mut cache);
    }
    assert_eq!(census.living(), 0);
}

/// Each flush publishes a segment with one entry in it, until there are hardly any left. An
/// insertion that finds no segment packs them; a removal does not.
#[test]
fn what_is_flushed_one_by_one_is_dropped_all_the_same() {
    if !is_alone("limits::what_is_flushed_one_by_one_is_dropped_all_the_same") {
        return;
    }
    for (entries, clears) in [(4_300, true), (4_600, true), (4_680, true), (4_680, false)] {
        let census = Census::default();
        let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(10_000).build();
        for key in 0..entries {
            cache.insert(key, Tracked::new(&census, key));
            cache.flush();
        }
        match clears {
            true => cache.clear(),
            false => (0..entries).for_each(|key| _ = cache.invalidate(&key)),
        }
        cache.flush();
        assert_eq!((census.living(), cache.len()), (0, 0), "{entries}, clears: {clears}");
        validate(&mut cache);
    }
}

/// Each flush adds a segment with one slot to the free ones.
#[test]
fn what_is_removed_and_flushed_one_by_one_makes_room() {
    if !is_alone("limits::what_is_removed_and_flushed_one_by_one_makes_room") {
        return;
    }
    for policy in policies() {
        for removals in [3_000, 4_600, 5_000, 8_000] {
            let census = Census::default();
            let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(10_000).policy(policy).build();
            (0..10_000).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
            for key in 0..removals {
                cache.invalidate(&key);
                cache.flush();
            }
            cache.clear();
            cache.flush();
            assert_eq!((census.living(), cache.len()), (0, 0), "{policy}, {removals}");
            (0..20_000).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
            assert_eq!(cache.stats().refusals, 0, "{policy}, {removals}");
            validate(&mut cache);
        }
    }
}

/// Each thread holds segments, and a small cache has few.
#[test]
fn more_threads_than_a_small_cache_has_room_for() {
    if !is_alone("limits::more_threads_than_a_small_cache_has_room_for") {
        return;
    }
    for policy in policies() {
        let census = Census::default();
        let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(2).policy(policy).build();
        let threads = 400 / SCALE;
        let together = std::sync::Barrier::new(threads as usize);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (cache, census, together) = (&cache, &census, &together);
                scope.spawn(move || {
                    // Every thread holds segments before any ends.
                    for turn in 0..30 {
                        let key = (thread + turn) % 7;
                        cache.insert(key, Tracked::new(census, key));
                        cache.invalidate(&(turn % 7));
                        if turn % 10 == 0 {
                            together.wait();
                        }
                    }
                });
            }
        });
        assert!(cache.len() <= 2);
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 0);
    }
}

/// Entries and credit of idle threads are neither kept for ever nor left unused.
#[test]
fn threads_that_do_nothing_more_keep_no_entry_and_no_room() {
    const IDLE: u64 = if cfg!(miri) { 4 } else { 64 };
    const CAPACITY: u64 = 10_000 / SCALE;
    for policy in ["fifo", "clock:bits=2", "mobius", "s3-fifo", "lru"] {
        let policy = policy.parse().expect("a policy");
        let mut cache: Cache<u64, u64> = Cache::builder(CAPACITY).policy(policy).build();
        let (done, idle) = channel();
        std::thread::scope(|scope| {
            let releases: Vec<Sender<()>> = (0..IDLE)
                .map(|thread| {
                    let (cache, done) = (&cache, done.clone());
                    let (release, held) = channel();
                    scope.spawn(move || {
                        let keys = CAPACITY / IDLE;
                        (thread * keys..(thread + 1) * keys).for_each(|key| cache.insert(key, key));
                        done.send(()).expect("the test waits");
                        _ = held.recv();
                    });
                    release
                })
                .collect();
            drop(done);
            idle.iter().take(IDLE as usize).for_each(drop);
            for key in CAPACITY..CAPACITY * 9 {
                cache.insert(key, key);
                // Only entries requested again move from its small queue to its main one, which has
                // most of the first entries.
                if policy == Policy::S3Fifo {
                    (0..2).for_each(|_| assert_eq!(cache.get(&key), Some(key)));
                }
            }
            let old = (0..CAPACITY).filter(|key| cache.contains_key(key)).count();
            drop(releases);
            assert_eq!((old, cache.len() as u64), (0, CAPACITY), "{policy}");
        });
        validate(&mut cache);
    }
}

/// A value that counts its weight while it lives.
struct Heavy<'w>(u64, &'w AtomicI64);

impl<'w> Heavy<'w> {
    fn new(weight: u64, living: &'w AtomicI64) -> Self {
        living.fetch_add(weight as i64, SeqCst);
        Heavy(weight, living)
    }
}

impl Drop for Heavy<'_> {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0 as i64, SeqCst);
    }
}

#[test]
fn eight_threads_never_exceed_the_weight() {
    const CAPACITY: u64 = 1_000_000;
    const HEAVIEST: u64 = 1_000;
    const THREADS: u64 = 8;
    /// Values that a thread holds: the one that it inserts, and those that it drops.
    const IN_HAND: u64 = 8;
    /// A quarter of the capacity may wait to be dropped.
    const MOST: u64 = CAPACITY + CAPACITY / 4 + THREADS * IN_HAND * HEAVIEST;
    for policy in policies() {
        let living = AtomicI64::new(0);
        let mut cache: Cache<u64, Heavy<'_>> = Cache::builder(CAPACITY)
            .policy(policy)
            .entries(4_000)
            .weigher(|_, heavy: &Heavy<'_>| heavy.0)
            .build();
        let (done, seen) = (AtomicBool::new(false), AtomicBool::new(cfg!(miri)));
        let (mut samples, mut full) = (0, 0);
        std::thread::scope(|scope| {
            let insert = |thread: u64| {
                let (cache, living, seen) = (&cache, &living, &seen);
                move || {
                    let mut chance = Chance(thread);
                    let (began, mut turn) = (Instant::now(), 0);
                    let is_late = || began.elapsed() > HANG_LIMIT;
                    // Until the sampling thread has run while it was full.
                    while turn < turns(120_000) / SCALE / SCALE || !seen.load(SeqCst) && !is_late()
                    {
                        turn += 1;
                        let weight = [1, 10, 100, HEAVIEST][chance.below(4) as usize];
                        cache.insert(chance.below(20_000), Heavy::new(weight, living));
                    }
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(insert(thread))).collect();
            let (cache, living, done, seen) = (&cache, &living, &done, &seen);
            let sampler = scope.spawn(move || {
                let (mut samples, mut full) = (0, 0);
                while !done.load(SeqCst) {
                    let living = living.load(SeqCst) as u64;
                    assert!(living <= MOST, "{policy}: {living} live, at most {MOST}");
                    assert!(cache.weight() <= CAPACITY && cache.len() <= 4_000);
                    if let Some(weight) = cache.weight_at_once() {
                        assert!(weight <= CAPACITY, "{policy}: {weight}");
                        samples += 1;
                        // LHD and GDSF keep the light ones, until there are too many.
                        let full_of = weight > CAPACITY * 9 / 10 || cache.len() > 3_600;
                        full += u64::from(full_of);
                        seen.fetch_or(full_of, SeqCst);
                    }
                }
                (samples, full)
            });
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            done.store(true, SeqCst);
            (samples, full) = sampler.join().expect("no panic");
        });
        println!("{policy}: {samples} samples, {full} of them of a full cache");
        assert!(cfg!(miri) || full > 0, "{policy}");
        validate(&mut cache);
        drop(cache);
        assert_eq!(living.into_inner(), 0);
    }
}

/// So many threads that most are suspended within an operation, long enough for the others to
/// replace more entries than there are spare slots; and so many slots that the buffers of 64
/// suspended writers cause no refusal.
fn sixty_four_threads(policy: Policy, with_listener: bool, batches: bool) {
    const THREADS: u64 = 64;
    const CAPACITY: u64 = 20_000;
    let insertions = turns(12_000_000) / SCALE / THREADS;
    let census = Census::default();
    let told = Arc::new(AtomicI64::new(0));
    let builder = Cache::builder(CAPACITY).policy(policy);
    let mut cache: Cache<u64, Tracked<'_>> = if with_listener {
        let told = Arc::clone(&told);
        let tell = move |key: &u64, value: &Tracked<'_>, _: Cause| {
            value.check(*key);
            told.fetch_add(1, SeqCst);
        };
        builder.listener(tell).build()
    } else {
        builder.build()
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, census) = (&cache, &census);
            scope.spawn(move || {
                let mut chance = Chance(thread);
                for turn in 0..insertions {
                    let key = chance.below(2 * CAPACITY);
                    cache.insert(key, Tracked::new(census, key));
                    if batches && turn % 4 == 0 {
                        let keys: Vec<u64> = (0..32).map(|_| chance.below(CAPACITY)).collect();
                        for (key, value) in keys.iter().zip(cache.get_many(&keys)) {
                            value.into_iter().for_each(|value| value.check(*key));
                        }
                    }
                }
            });
        }
    });
    let (stats, entries) = (cache.stats(), cache.len() as u64);
    assert_eq!(stats.refusals, 0, "{policy}");
    assert_eq!(stats.insertions + stats.replacements, insertions * THREADS, "{policy}");
    let gone = if with_listener { insertions * THREADS - entries } else { 0 };
    assert_eq!(told.load(SeqCst) as u64, gone, "{policy}");
    validate(&mut cache);
    drop(cache);
    assert_eq!(census.living(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn sixty_four_threads_with_a_listener_are_refused_nothing() {
    for policy in [Policy::Mobius, Policy::Lru] {
        sixty_four_threads(policy, true, false);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn sixty_four_threads_that_ask_for_many_keys_are_refused_nothing() {
    for policy in [Policy::Mobius, Policy::Lru] {
        sixty_four_threads(policy, false, true);
    }
}
