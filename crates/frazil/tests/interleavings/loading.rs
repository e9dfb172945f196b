//! Loads and computations under chosen interleavings: who has the turn, who is woken, and
//! what is stored.
//!
//! `cargo xtask check shuttle` runs it and `operations.rs`. A lost wake shows as a deadlock, which
//! shuttle finds.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64 as PlainU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use crate::schedules::explore;
use crate::tracked::Chance;
use crate::waiting::poll_for;
use frazil::{Cache, Compute, Computed};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;

/// Schedules a test and scheduler.
const SCHEDULES: u64 = 30_000;

/// The same hashes in every run.
type Hashes = BuildHasherDefault<DefaultHasher>;
type Tested = Cache<u64, u64, Hashes>;

fn cache(capacity: u64) -> Tested {
    Cache::builder(capacity).with_hasher(Hashes::default()).build()
}

/// Threads of `work`, numbered.
fn together(threads: u64, work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for number in 0..threads {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

fn at_rest(mut cache: Tested) {
    assert_eq!(cache.flights(), 0, "left in the table");
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// A loader that yields once before it is done.
async fn slowly(value: u64) -> u64 {
    let mut ready = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut ready, true) {
            return Poll::Ready(value);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[test]
fn one_loads() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let loads = PlainU64::new(0);
        together(3, |number| {
            let load = || {
                thread::yield_now();
                loads.fetch_add(1, Relaxed) + 7
            };
            let value = match number {
                0 => poll_for(cache.get_or_insert_async(&1, async { load() }), u64::MAX),
                _ => Some(cache.get_or_insert_with(&1, load)),
            };
            assert_eq!(value, Some(7));
        });
        let stats = cache.stats();
        assert_eq!((loads.load(Relaxed), stats.loads, stats.misses), (1, 1, 1));
        assert_eq!(stats.hits + stats.delayed_hits, 2);
        at_rest(cache);
    });
}

/// Loading and waiting callers are dropped in the middle; one that stays gets a value.
#[test]
fn loaders_are_cancelled() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let seed = thread_rng().next_u64();
        together(3, |number| {
            let mut chance = Chance(seed ^ number);
            // A caller that ended at its last poll was not cancelled.
            let polls = 1 + chance.below(3);
            let value = match number {
                0 => Some(cache.get_or_insert_with(&1, || 7)),
                _ => poll_for(cache.get_or_insert_async(&1, slowly(7)), polls),
            };
            assert!(value.is_none_or(|value| value == 7));
        });
        assert_eq!(cache.get(&1), Some(7));
        at_rest(cache);
    });
}

/// Callers that leave a vacant flight do not give away the turn that a new caller has taken: one
/// loads at a time, and a write finds the flight to overtake.
#[test]
fn who_leaves_gives_away_no_other_turn() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let loading = PlainU64::new(0);
        together(4, |number| {
            let load = || {
                assert_eq!(loading.fetch_add(1, Relaxed), 0, "two load");
                thread::yield_now();
                loading.fetch_sub(1, Relaxed);
                Err::<u64, ()>(())
            };
            match number {
                0 | 1 => drop(poll_for(cache.get_or_insert_async(&1, slowly(7)), 1)),
                _ => _ = cache.try_get_or_insert_with(&1, load),
            }
        });
        at_rest(cache);
    });
}

/// A loader that fails hands over to one other, until one succeeds or none is left.
#[test]
fn failures_are_handed_over() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let failing = thread_rng().next_u64() % 4;
        let (loads, failed) = (PlainU64::new(0), PlainU64::new(0));
        together(3, |_| {
            let load = || {
                thread::yield_now();
                let number = loads.fetch_add(1, Relaxed);
                if number < failing { Err(()) } else { Ok(number) }
            };
            match cache.try_get_or_insert_with(&1, load) {
                Ok(value) => assert_eq!(value, failing),
                Err(()) => _ = failed.fetch_add(1, Relaxed),
            }
        });
        assert_eq!(failed.load(Relaxed), failing.min(3));
        assert_eq!(loads.load(Relaxed), (failing + 1).min(3));
        at_rest(cache);
    });
}

/// A value that was stale at a request is not returned to it, and not left behind.
#[test]
fn writes_overtake_loads() {
    explore(SCHEDULES, || {
        let cache = cache([1, 8][(thread_rng().next_u64() % 2) as usize]);
        let source = AtomicU64::new(0);
        let known = PlainU64::new(0);
        let seed = thread_rng().next_u64();
        together(3, |number| {
            let mut chance = Chance(seed ^ number);
            for _ in 0..3 {
                let oldest = known.load(Relaxed);
                let load = || source.load(SeqCst);
                let value = match chance.below(8) {
                    0..3 => {
                        let new = source.fetch_add(1, SeqCst) + 1;
                        if chance.below(3) == 0 {
                            cache.clear()
                        } else {
                            _ = cache.invalidate(&1)
                        }
                        known.fetch_max(new, Relaxed);
                        continue;
                    }
                    3 => {
                        cache.insert(2, 0);
                        cache.get(&1)
                    }
                    4 => poll_for(cache.get_or_insert_async(&1, async { load() }), 2),
                    5 => {
                        let computed = cache.entry(1).and_compute(|value| match value {
                            Some(_) => Compute::Keep,
                            None => Compute::Put(load()),
                        });
                        match computed {
                            Computed::Inserted(value) | Computed::Unchanged(Some(value)) => {
                                Some(value)
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    _ => Some(cache.get_or_insert_with(&1, load)),
                };
                assert!(value.is_none_or(|value| value >= oldest), "{value:?} < {oldest}");
            }
        });
        assert!(cache.get(&1).is_none_or(|value| value >= known.load(Relaxed)));
        at_rest(cache);
    });
}

/// A load of an earlier value does not undo an insertion.
#[test]
fn an_insertion_outlasts_a_load() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let source = AtomicU64::new(0);
        together(3, |number| match number {
            0 => {
                source.store(5, SeqCst);
                cache.insert(1, 5);
                assert_eq!(cache.get(&1), Some(5));
            }
            _ => assert!([0, 5].contains(&cache.get_or_insert_with(&1, || source.load(SeqCst)))),
        });
        assert_eq!(cache.get(&1), Some(5));
        at_rest(cache);
    });
}

#[test]
fn additions_are_all_counted() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        together(3, |number| {
            for _ in 0..2 {
                let add = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
                cache.entry(1).and_compute(add);
                if number == 0 {
                    cache.get_or_insert_with(&1, || unreachable!("it is there, and stays"));
                }
            }
        });
        assert_eq!(cache.get(&1), Some(6));
        at_rest(cache);
    });
}

/// A load that found a value just before its removal does not pass it on.
#[test]
fn a_removal_outlasts_what_a_load_has_found() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let source = AtomicU64::new(0);
        let by_clear = thread_rng().next_u64() % 2 == 0;
        together(3, |number| {
            let ask = || cache.get_or_insert_with(&1, || source.load(SeqCst));
            if number == 0 {
                source.store(1, SeqCst);
                if by_clear {
                    cache.clear()
                } else {
                    _ = cache.invalidate(&1)
                }
                assert_eq!(ask(), 1, "removed before it was asked for");
            } else {
                ask();
            }
        });
        at_rest(cache);
    });
}

/// Blocking and awaited computations exclude each other.
#[test]
fn awaited_additions_are_all_counted() {
    explore(SCHEDULES, || {
        let cache = cache(8);
        let polls = 1 + thread_rng().next_u64() % 2;
        let given_up = PlainU64::new(0);
        together(3, |number| {
            let add = |count: Option<u64>| async move {
                slowly(0).await;
                Compute::Put(count.unwrap_or(0) + 1)
            };
            match number {
                0 => {
                    let dropped = poll_for(cache.entry(1).and_compute_async(add), polls);
                    given_up.fetch_add(u64::from(dropped.is_none()), Relaxed);
                }
                1 => _ = poll_for(cache.entry(1).and_compute_async(add), u64::MAX),
                _ => {
                    let add = |count: Option<&u64>| Compute::Put(count.unwrap_or(&0) + 1);
                    cache.entry(1).and_compute(add);
                }
            }
        });
        assert_eq!(cache.get(&1), Some(3 - given_up.load(Relaxed)));
        at_rest(cache);
    });
}

/// Of the callers that find a due entry one loads at a time, and a write stands.
#[test]
fn one_loads_anew() {
    const LONG: Duration = Duration::from_secs(1_000);
    explore(SCHEDULES, || {
        let cache: Tested =
            Cache::builder(8).refresh_ahead(LONG).with_hasher(Hashes::default()).build();
        cache.insert_for(1, 5, LONG / 2);
        let writes = thread_rng().next_u64() % 2 == 0;
        let (loading, loads) = (PlainU64::new(0), PlainU64::new(0));
        together(3, |number| {
            let load = || {
                // A request after the begin of a write does not wait for the overtaken load.
                assert!(loading.fetch_add(1, Relaxed) == 0 || writes, "two load");
                thread::yield_now();
                loading.fetch_sub(1, Relaxed);
                loads.fetch_add(1, Relaxed);
                7
            };
            match number {
                0 if writes => cache.insert(1, 20),
                1 => {
                    let slow = async {
                        slowly(0).await;
                        load()
                    };
                    let value = poll_for(cache.get_or_insert_async(&1, slow), 2);
                    assert!(value.is_none_or(|value| [5, 7, 20].contains(&value)));
                }
                _ => assert!([5, 7, 20].contains(&cache.get_or_insert_with(&1, load))),
            }
        });
        // Its replacement lives for ever, so it is no longer due.
        let left = cache.get(&1);
        assert!(if writes { left == Some(20) } else { left == Some(7) }, "{left:?}");
        assert!(loads.load(Relaxed) <= 1 || writes);
        at_rest(cache);
    });
}
