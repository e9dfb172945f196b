//! Many keys at once: `get_many`, `insert_many`, `retain`.

use crate::extent::{policies, turns};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::tracked::{Census, Chance, Tracked};
use frazil::Cache;

/// Miri is a thousand times slower.
const SCALE: u64 = if cfg!(miri) { 100 } else { 1 };

/// The same hashes in every cache, so that W-TinyLFU counts alike.
type Hashes = BuildHasherDefault<DefaultHasher>;

fn validate<K: Hash + Eq, V, S: BuildHasher>(cache: &mut Cache<K, V, S>) {
    cache.validate().unwrap_or_else(|findings| panic!("{:?}:\n{findings}", cache.policy()));
}

#[test]
fn get_many_answers_as_gets_do() {
    for policy in policies() {
        for count in [0, 1, 15, 16, 17, 32, 1_000] {
            // Two caches used alike, one of them by batches.
            let [mut one, mut many]: [Cache<u64, String, Hashes>; 2] = [(); 2].map(|()| {
                Cache::builder(500).policy(policy).with_hasher(Hashes::default()).build()
            });
            for round in 0..3 {
                one.insert_many((0..600).map(|key| (key, format!("{key} {round}"))));
                (0..600).for_each(|key| many.insert(key, format!("{key} {round}")));
                let mut chance = Chance(count);
                let keys: Vec<u64> = (0..count).map(|_| chance.below(900)).collect();
                let expected: Vec<_> = keys.iter().map(|key| one.get(key)).collect();
                assert_eq!(many.get_many(&keys), expected, "{policy} {count}");
            }
            let (one_stats, many_stats) = (one.stats(), many.stats());
            assert_eq!(one_stats, many_stats, "{policy} {count}");
            let entries = |cache: &Cache<u64, String, Hashes>| {
                let mut entries: Vec<_> = cache.iter().collect();
                entries.sort_unstable();
                entries
            };
            assert_eq!(entries(&one), entries(&many), "{policy} {count}: not marked alike");
            validate(&mut one);
            validate(&mut many);
        }
    }
}

/// The keys may come from the cache itself, and their iterator may use it.
#[test]
fn keys_may_be_made_as_they_are_asked_for() {
    let cache: Cache<String, usize> = Cache::builder(100).build();
    let names: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let asked = names.iter().map(|name| {
        cache.insert(name.clone(), name.len());
        name.as_str()
    });
    assert!(cache.get_many(asked).into_iter().all(|found| found.is_some()));
}

#[test]
fn retain_keeps_what_it_should() {
    for policy in policies() {
        for capacity in [1, 20, 3_000 / SCALE] {
            let mut cache: Cache<u64, u64> = Cache::builder(capacity).policy(policy).build();
            (0..capacity * 2).for_each(|key| cache.insert(key, key * 10));
            let mut judged = 0;
            let before = cache.len();
            cache.retain(|key, value| {
                assert_eq!(*value, key * 10);
                judged += 1;
                key % 3 == 0
            });
            assert_eq!(judged, before, "{policy}");
            assert!(cache.iter().all(|(key, _)| key % 3 == 0), "{policy}");
            assert_eq!(cache.stats().removals, (before - cache.len()) as u64, "{policy}");
            validate(&mut cache);
            cache.retain(|_, _| false);
            assert!(cache.is_empty(), "{policy}");
            validate(&mut cache);
        }
    }
}

/// The closure may use the cache: its replacement of an entry that it rejects stays.
#[test]
fn retain_removes_no_newer_value_than_it_judged() {
    for policy in policies() {
        let mut cache: Cache<u64, String> = Cache::builder(500).policy(policy).build();
        (0..500).for_each(|key| cache.insert(key, "old".to_owned()));
        cache.retain(|key, value| {
            if value == "old" && key % 2 == 0 {
                cache.insert(*key, "new".to_owned());
            }
            value == "new"
        });
        let kept: Vec<_> = cache.iter().collect();
        assert_eq!(kept.len(), 250, "{policy}");
        assert!(kept.iter().all(|(key, value)| key % 2 == 0 && value == "new"), "{policy}");
        validate(&mut cache);
    }
}

/// Each key has one writer, which writes rising even numbers, and sometimes an odd one. `retain`
/// removes odd ones, so an even value is present until its writer replaces it.
#[test]
fn retain_among_writers_takes_nothing_else() {
    for policy in policies() {
        let census = Census::default();
        let mut cache: Cache<u64, (u64, Tracked<'_>)> =
            Cache::builder(1_000).policy(policy).build();
        let (over, swept) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (cache, census, over, swept) = (&cache, &census, &over, &swept);
            scope.spawn(move || {
                loop {
                    cache.retain(|key, (number, value)| {
                        value.check(*key);
                        number % 2 == 0
                    });
                    swept.fetch_add(1, SeqCst);
                    if over.load(SeqCst) {
                        break;
                    }
                }
            });
            let write = |thread: u64| {
                move || {
                    for turn in 0..turns(400_000) / SCALE / SCALE {
                        let key = thread + 2 * (turn % 100);
                        cache.insert(key, (turn * 2 + 1, Tracked::new(census, key)));
                        cache.insert(key, (turn * 2, Tracked::new(census, key)));
                        match cache.get(&key) {
                            Some((found, _)) => assert_eq!(found, turn * 2, "{policy}"),
                            // Not admitted while the other thread was suspended in its pin.
                            None => assert!(cache.stats().refusals > 0, "{policy}"),
                        }
                    }
                }
            };
            let writers = [0, 1].map(|thread| scope.spawn(write(thread)));
            let ended = writers.map(std::thread::ScopedJoinHandle::join);
            over.store(true, SeqCst);
            ended.into_iter().for_each(|ended| ended.expect("no panic"));
        });
        assert!(swept.load(SeqCst) > 0 && cache.len() <= 200, "{policy}");
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

/// The table is replaced between two calls of the closure, by the closure itself and by another
/// thread.
#[test]
fn retain_judges_once_what_stays_while_the_table_grows() {
    const THERE: u64 = 200;
    const COMES: u64 = if cfg!(miri) { 1_000 } else { 30_000 };
    for beside in [false, true] {
        let mut cache: Cache<u64, u64> = Cache::builder(1 << 20).build();
        (0..THERE).for_each(|key| cache.insert(key, key));
        let (before, come) = (cache.reserved_bytes(), AtomicU64::new(THERE));
        let add = |count| {
            for _ in 0..count {
                let key = come.fetch_add(1, SeqCst);
                cache.insert(key, key);
            }
        };
        let mut passes = 0;
        std::thread::scope(|scope| {
            if beside {
                scope.spawn(|| add(COMES));
            }
            // At least once: all may be inserted before the first pass.
            while passes == 0 || come.load(SeqCst) < THERE + COMES {
                let mut judged = [0; THERE as usize];
                cache.retain(|&key, _| {
                    if key < THERE {
                        judged[key as usize] += 1;
                        add(if beside { 0 } else { COMES / THERE });
                    }
                    // One in three is removed, in the first pass.
                    key >= THERE || key % 3 != 0
                });
                for (key, times) in (0..THERE).zip(judged) {
                    let expected = u32::from(passes == 0 || key % 3 != 0);
                    assert_eq!(times, expected, "{key} in pass {passes}, another adds: {beside}");
                }
                passes += 1;
            }
        });
        assert!(cache.reserved_bytes() > 4 * before, "the table has grown");
        for key in 0..come.load(SeqCst) {
            let expected = (key >= THERE || key % 3 != 0).then_some(key);
            assert_eq!(cache.get(&key), expected, "another adds: {beside}");
        }
        validate(&mut cache);
    }
}

/// For a key that is replaced meanwhile the closure sees the old value, the new one, or neither;
/// and a removed value was the rejected one.
#[test]
fn retain_judges_at_most_once_what_is_replaced_meanwhile() {
    const KEYS: u64 = 300;
    for (grows, seed) in [(false, 1), (true, 2), (false, 3), (true, 4)] {
        let mut cache: Cache<u64, u64> = Cache::builder(1 << 20).build();
        // Of each key the last value.
        let mut written: Vec<u64> = (0..KEYS).collect();
        (0..KEYS).for_each(|key| cache.insert(key, key));
        let (mut chance, mut last, mut come) = (Chance(seed), KEYS, KEYS);
        let mut judged = vec![Vec::new(); KEYS as usize];
        cache.retain(|&key, &value| {
            if key >= KEYS {
                return true;
            }
            judged[key as usize].push(value);
            for other in [key, chance.below(KEYS), chance.below(KEYS)] {
                if chance.below(2) == 0 {
                    last += 1;
                    cache.insert(other, last);
                    written[other as usize] = last;
                }
            }
            if grows {
                (0..60).for_each(|_| {
                    cache.insert(come, 0);
                    come += 1;
                });
            }
            value % 2 == 0
        });
        let mut as_it_is = 0;
        for (key, judged) in (0..KEYS).zip(judged) {
            assert!(judged.len() <= 1, "{key} as {judged:?}, the table grows: {grows}");
            let value = written[key as usize];
            let condemned = value % 2 == 1 && judged == [value];
            assert_eq!(cache.get(&key), (!condemned).then_some(value), "{key} as {judged:?}");
            as_it_is += u32::from(judged.first().is_some_and(|&judged| judged >= KEYS));
        }
        assert!(as_it_is > 0, "none was judged as it had become");
        validate(&mut cache);
    }
}

#[test]
fn a_judge_that_panics_leaves_the_rest() {
    let mut cache: Cache<u64, u64> = Cache::builder(100).build();
    (0..100).for_each(|key| cache.insert(key, key));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut judged = 0;
        cache.retain(|_, _| {
            judged += 1;
            assert!(judged < 50, "a judge that panics, as planned");
            false
        });
    }));
    assert!(outcome.is_err());
    assert_eq!(cache.len(), 51);
    validate(&mut cache);
    cache.retain(|_, _| false);
    assert!(cache.is_empty());
}
