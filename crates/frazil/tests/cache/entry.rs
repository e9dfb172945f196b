//! Computations of one key: none is lost, and each applies to the value that it saw.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::extent::is_long;
use frazil::{Cache, Compute, Computed, Policy, TimedOut};

const THREADS: u64 = 4;

fn turns_each() -> u64 {
    if cfg!(miri) {
        20
    } else if is_long() {
        5_000
    } else {
        2_000
    }
}

fn add(count: Option<&u64>) -> Compute<u64> {
    Compute::Put(count.unwrap_or(&0) + 1)
}

#[test]
fn additions_are_all_counted() {
    for policy in Policy::ALL {
        let mut cache: Cache<u64, u64> = Cache::builder(100).policy(policy).build();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let cache = &cache;
                scope.spawn(move || {
                    for turn in 0..turns_each() {
                        cache.entry(turn % 3).and_compute(add);
                        // In between: loads of the same keys, and writes of others.
                        if turn % 7 == thread {
                            cache.get_or_insert_with(&(turn % 3), || 0);
                            cache.insert(10 + turn % 3, turn);
                        }
                    }
                });
            }
        });
        let sum: u64 = (0..3).filter_map(|key| cache.get(&key)).sum();
        assert_eq!(sum, THREADS * turns_each(), "{policy}");
        assert_eq!(cache.flights(), 0);
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

#[test]
fn who_waits_for_a_computation_no_longer_than_it_is_told_changes_nothing() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let within = |timeout| cache.entry(1).and_compute_within(timeout, add);
    cache.get_or_insert_with(&1, || {
        std::thread::scope(|scope| {
            for timeout in [Duration::ZERO, Duration::from_millis(1)] {
                let waiting = scope.spawn(move || within(timeout));
                assert_eq!(waiting.join().expect("no panic"), Err(TimedOut));
            }
        });
        assert_eq!((cache.get(&1), cache.fetch_stats().timed_out), (None, 2));
        7
    });
    assert_eq!(within(Duration::ZERO), Ok(Computed::Replaced(8)));
    assert_eq!(within(Duration::MAX), Ok(Computed::Replaced(9)));
}

/// Each thread removes entries that others insert: each entry is removed once.
#[test]
fn what_is_removed_was_put_in_once() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let (put, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, put, taken) = (&cache, &put, &taken);
            scope.spawn(move || {
                let turns = turns_each();
                for turn in 0..turns {
                    let token = 1 + thread * turns + turn;
                    let computed = cache.entry(turn % 2).and_compute(|there| match there {
                        Some(_) => Compute::Remove,
                        None => Compute::Put(token),
                    });
                    match computed {
                        Computed::Inserted(token) => put.fetch_add(token, Relaxed),
                        Computed::Removed(token) => taken.fetch_add(token, Relaxed),
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
    });
    let left: u64 = cache.iter().map(|(_, token)| token).sum();
    assert_eq!(put.into_inner(), taken.into_inner() + left);
    assert_eq!(cache.flights(), 0);
}

#[test]
fn a_computation_says_what_it_did() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let compute = |answer| cache.entry(1).and_compute(|_| answer);
    assert_eq!(compute(Compute::Keep), Computed::Unchanged(None));
    assert_eq!(compute(Compute::Put(1)), Computed::Inserted(1));
    assert_eq!(compute(Compute::Put(2)), Computed::Replaced(2));
    assert_eq!(compute(Compute::Keep), Computed::Unchanged(Some(2)));
    assert_eq!(compute(Compute::Remove), Computed::Removed(2));
    assert_eq!(compute(Compute::Remove), Computed::Unchanged(None));
    let stats = cache.stats();
    assert_eq!((stats.insertions, stats.replacements, stats.removals), (1, 1, 1));
    assert_eq!((stats.hits, stats.misses, stats.loads), (0, 0, 0));
}

#[test]
fn what_is_not_admitted_is_returned_and_takes_out_what_it_follows() {
    let cache: Cache<u64, u64> = Cache::builder(10).weigher(|_, value| *value).build();
    cache.insert(1, 5);
    assert_eq!(cache.entry(1).and_compute(|_| Compute::Put(11)), Computed::Replaced(11));
    assert_eq!(cache.get(&1), None);
    assert_eq!(cache.entry(1).and_compute(|_| Compute::Put(12)), Computed::Inserted(12));
    assert_eq!((cache.len(), cache.weight(), cache.stats().refusals), (0, 0, 2));
}

/// Another thread writes between the call and its answer: the computation is called again.
#[test]
fn a_computation_follows_on_what_is_there() {
    for absent in [false, true] {
        let cache: Cache<u64, u64> = Cache::builder(100).build();
        if !absent {
            cache.insert(1, 10);
        }
        let (asked, written) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                asked.wait();
                cache.insert(1, 100);
                written.wait();
            });
            let mut seen = Vec::new();
            let computed = cache.entry(1).and_compute(|value| {
                seen.push(value.copied());
                if seen.len() == 1 {
                    asked.wait();
                    written.wait();
                }
                add(value)
            });
            assert_eq!(computed, Computed::Replaced(101));
            assert_eq!(seen, [(!absent).then_some(10), Some(100)]);
        });
        assert_eq!(cache.get(&1), Some(101));
    }
}

/// The same for a write that began before the call: it looked for computations to overtake when
/// there were none.
#[test]
fn a_computation_follows_on_what_was_about_to_be_there() {
    let weighing = Arc::new(Barrier::new(2));
    let weighed = Arc::clone(&weighing);
    let weigh = move |_: &u64, &value: &u64| {
        if value == 100 {
            weighed.wait();
            weighed.wait();
        }
        1
    };
    for policy in Policy::ALL {
        let mut cache: Cache<u64, u64> =
            Cache::builder(100).policy(policy).weigher(weigh.clone()).build();
        let written = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cache.insert(1, 100);
                written.wait();
            });
            weighing.wait();
            let mut seen = Vec::new();
            let computed = cache.entry(1).and_compute(|value| {
                seen.push(value.copied());
                if seen.len() == 1 {
                    weighing.wait();
                    written.wait();
                }
                add(value)
            });
            assert_eq!(computed, Computed::Replaced(101), "{policy}");
            assert_eq!(seen, [None, Some(100)], "{policy}");
        });
        assert_eq!((cache.get(&1), cache.len()), (Some(101), 1), "{policy}");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

#[test]
fn a_computation_may_use_its_own_key() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let write = || {
        cache.entry(1).and_compute(|_| {
            cache.insert(1, 5);
            Compute::Put(6)
        })
    };
    // Absent, and present.
    assert_eq!(write(), Computed::Unchanged(Some(5)));
    assert_eq!(write(), Computed::Unchanged(Some(5)));
    let nested = cache.entry(1).and_compute(|_| {
        assert_eq!(cache.entry(1).and_compute(add), Computed::Replaced(6));
        Compute::Remove
    });
    assert_eq!(nested, Computed::Unchanged(Some(6)));
    let read = cache.entry(2).and_compute(|value| {
        assert_eq!((value, cache.get(&2)), (None, None));
        Compute::Put(cache.get_or_insert_with(&2, || 7))
    });
    assert_eq!((read, cache.get(&2)), (Computed::Inserted(7), Some(7)));
    assert_eq!(cache.flights(), 0);
}

/// A computation waits for a load of its key, and a request for the key waits for a computation.
#[test]
fn a_computation_and_a_load_take_turns() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let loading = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cache.get_or_insert_with(&1, || {
                loading.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                40
            })
        });
        loading.wait();
        assert_eq!(cache.entry(1).and_compute(add), Computed::Replaced(41));
        let computing = scope.spawn(|| {
            cache.entry(2).and_compute(|_| {
                loading.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                Compute::Put(50)
            })
        });
        loading.wait();
        assert_eq!(cache.get_or_insert_with(&2, || unreachable!("computed just now")), 50);
        assert_eq!(computing.join().unwrap(), Computed::Inserted(50));
    });
    assert_eq!(cache.flights(), 0);
}
