//! Entries whose holders each thread counts for itself: they are held, evicted, removed and dropped
//! like others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use frazil::{HandleCache, Held, Policy};

use crate::handle_model::{Counting, POLICIES};

type Tested = HandleCache<u64, Counting>;

fn of(policy: Policy, capacity: u64) -> (Tested, Arc<AtomicU64>) {
    (HandleCache::builder(capacity).policy(policy).build(), Arc::default())
}

/// An entry of this key, and a handle of it that was counted elsewhere.
fn spread(cache: &Tested, dropped: &Arc<AtomicU64>, key: u64) -> Held<u64, Counting> {
    let held = cache.insert_held(key, Counting(dropped.clone()), 1).expect("not strict").held;
    cache.spread(&held);
    drop(held);
    cache.hold(&key).expect("it is there")
}

#[test]
fn the_last_of_several_threads_drops_what_was_erased() {
    for policy in POLICIES {
        let (mut cache, dropped) = of(policy, 10);
        let held = spread(&cache, &dropped, 1);
        // Released by a thread that did not hold it and never used the cache.
        let clones: Vec<_> = (0..3).map(|_| held.clone()).collect();
        thread::spawn(move || drop(clones)).join().expect("no panic");
        assert_eq!(cache.held_usage(), 1, "{policy}");
        cache.spread(&held);
        let again = cache.hold(&1).expect("it is there");
        assert!(cache.erase(&1) && cache.hold(&1).is_none(), "{policy}");
        drop(held);
        assert_eq!((dropped.load(Relaxed), cache.usage()), (0, 1), "{policy}");
        drop(again);
        assert_eq!((dropped.load(Relaxed), cache.usage()), (1, 0), "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}

#[test]
fn what_nobody_holds_is_dropped_by_who_ends_its_residency() {
    for policy in POLICIES {
        let (cache, dropped) = of(policy, 10);
        drop(spread(&cache, &dropped, 1));
        assert!(cache.erase(&1));
        assert_eq!(dropped.load(Relaxed), 1, "{policy}: erased");
        drop(spread(&cache, &dropped, 2));
        assert!(cache.insert(2, Counting(dropped.clone()), 1).is_ok());
        assert_eq!(dropped.load(Relaxed), 2, "{policy}: replaced");
        drop(spread(&cache, &dropped, 3));
        cache.clear_unheld();
        assert_eq!((dropped.load(Relaxed), cache.len()), (4, 0), "{policy}: cleared");
        let held = spread(&cache, &dropped, 4);
        assert!(cache.release(held, true), "{policy}: let go of by the last");
        drop(spread(&cache, &dropped, 5));
        assert_eq!(cache.set_capacity(0), 0, "{policy}");
        assert_eq!(dropped.load(Relaxed), 6, "{policy}: no capacity");
    }
}

/// An eviction passes over it once, and then it is evicted like others.
#[test]
fn what_is_not_used_any_more_is_evicted() {
    for policy in POLICIES {
        let (cache, dropped) = of(policy, 10);
        drop(spread(&cache, &dropped, 1));
        for key in 100..200 {
            _ = cache.insert(key, Counting(dropped.clone()), 1);
            // Twice: with Mobius and S3-FIFO unused entries are evicted first.
            (0..2).for_each(|_| drop(cache.hold(&key)));
        }
        assert!(cache.hold(&1).is_none(), "{policy}");
        assert_eq!(dropped.load(Relaxed), 91, "{policy}");
    }
}

#[test]
fn a_handle_outlives_the_cache() {
    for policy in POLICIES {
        let (cache, dropped) = of(policy, 10);
        let held = spread(&cache, &dropped, 1);
        let clone = held.clone();
        drop(spread(&cache, &dropped, 2));
        drop(cache);
        assert_eq!(dropped.load(Relaxed), 1, "{policy}");
        thread::spawn(move || drop(clone)).join().expect("no panic");
        drop(held);
        assert_eq!(dropped.load(Relaxed), 2, "{policy}");
    }
}

/// Before the new entry is refused the count shows that it is not held.
#[test]
fn what_nobody_holds_makes_room_at_once() {
    for policy in POLICIES {
        let cache: Tested = HandleCache::builder(1).policy(policy).strict(true).build();
        let dropped = Arc::default();
        drop(spread(&cache, &dropped, 1));
        assert!(cache.insert(2, Counting(dropped.clone()), 1).is_ok(), "{policy}");
        assert_eq!(dropped.load(Relaxed), 1, "{policy}");
    }
}

/// S3-FIFO refuses the second, so nothing is evicted for it.
#[test]
fn what_was_too_much_goes_with_its_last_release() {
    for policy in POLICIES.into_iter().filter(|&policy| policy != Policy::S3Fifo) {
        let cache: HandleCache<u64, u64> = HandleCache::builder(100).policy(policy).build();
        let one = cache.insert_held(1, 1, 60).expect("not strict").held;
        let _two = cache.insert_held(2, 2, 60).expect("not strict").held;
        cache.spread(&one);
        assert!(cache.release(one, false), "{policy}");
        assert_eq!(cache.usage(), 60, "{policy}");
    }
}

/// A handle released while the cache is dropped drops nothing but its own value.
#[test]
fn a_cache_is_dropped_while_threads_meet() {
    for _ in 0..20 {
        let (cache, dropped) = of(Policy::Mobius, 1_000);
        let held: Vec<_> = (0..300).map(|key| spread(&cache, &dropped, key)).collect();
        let start = Barrier::new(3);
        thread::scope(|scope| {
            let (first, second) = (held.clone(), held);
            for handles in [first, second] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    drop(handles);
                });
            }
            start.wait();
            (0..300).for_each(|key| _ = cache.erase(&key));
            drop(cache);
        });
        assert_eq!(dropped.load(Relaxed), 300);
    }
}

/// Entries beyond the table's size stay as they were, until all are recounted.
#[test]
fn many_entries_are_too_many() {
    let (mut cache, dropped) = of(Policy::Mobius, 1_000);
    let held: Vec<_> = (0..1_000).map(|key| spread(&cache, &dropped, key)).collect();
    for _ in 0..20 {
        held.iter().for_each(|held| cache.spread(held));
    }
    assert_eq!(cache.held_usage(), 1_000);
    drop(held);
    assert_eq!((cache.held_usage(), cache.len(), dropped.load(Relaxed)), (0, 1_000, 0));
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// Threads hold the same few entries while these are spread, replaced, erased and evicted.
#[test]
fn threads_agree_on_who_is_counted() {
    const THREADS: usize = 4;
    for policy in POLICIES {
        let (mut cache, dropped) = of(policy, 6);
        let (made, start) = (AtomicU64::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (cache, dropped, made, start) = (&cache, &dropped, &made, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut kept = Vec::new();
                    for turn in 0..4_000 {
                        let key = (turn * 7 + thread) % 8;
                        match cache.hold(&key) {
                            Some(held) if turn % 13 == 0 => {
                                cache.spread(&held);
                                kept.push(held);
                            }
                            Some(held) => drop(held.clone()),
                            None => {
                                made.fetch_add(1, Relaxed);
                                _ = cache.insert(key, Counting(dropped.clone()), 1);
                            }
                        }
                        if kept.len() > 3 {
                            kept.clear();
                        }
                        if turn % 101 == thread {
                            cache.erase(&key);
                        }
                    }
                });
            }
        });
        assert_eq!(cache.held_usage(), 0, "{policy}");
        let there = made.load(Relaxed) - dropped.load(Relaxed);
        assert_eq!((cache.usage(), cache.len() as u64), (there, there), "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}
