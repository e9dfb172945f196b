//! Charges of entries that can be held, and the capacity: the largest charges, and the reasons for
//! a capacity that stays up.

use std::sync::mpsc::channel;

use frazil::{HandleCache, Outcome, Policy};

use crate::handle_model::{POLICIES, validate};

type Tested = HandleCache<u64, u64>;

fn cache(policy: Policy, capacity: u64, strict: bool) -> Tested {
    HandleCache::builder(capacity).policy(policy).strict(strict).build()
}

#[test]
fn sums_of_the_largest_charges_do_not_wrap() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100, false);
        let mut heavy = Vec::new();
        for key in 0..3 {
            let new = cache.insert_held(key, key, u64::MAX - key).expect("it is not strict");
            assert_eq!(new.outcome, Outcome::Detached, "{policy}");
            heavy.push(new.held);
            assert_eq!((cache.usage(), cache.held_usage()), (u64::MAX, u64::MAX), "{policy}");
        }
        let light = cache.insert_held(9, 9, 60).expect("it is not strict");
        assert_eq!((light.outcome, cache.usage()), (Outcome::New, u64::MAX), "{policy}");
        validate(&mut cache);
        heavy.truncate(1);
        assert_eq!((cache.usage(), cache.held_usage()), (u64::MAX, u64::MAX), "{policy}");
        heavy.clear();
        assert_eq!((cache.usage(), cache.held_usage()), (60, 60), "{policy}");
        validate(&mut cache);
    }
}

#[test]
fn the_largest_charges_fit_into_the_largest_capacity() {
    for policy in POLICIES {
        let mut cache = cache(policy, u64::MAX, false);
        assert!(cache.insert(1, 10, u64::MAX).is_ok(), "{policy}");
        assert_eq!((cache.usage(), cache.held_usage()), (u64::MAX, 0), "{policy}");
        let old = cache.hold(&1).expect("it is there");
        assert!(cache.insert(1, 11, u64::MAX).is_ok(), "{policy}");
        assert_eq!((cache.usage(), cache.held_usage()), (u64::MAX, u64::MAX), "{policy}");
        validate(&mut cache);
        drop(old);
        assert!(cache.insert(2, 20, 5).is_ok() && cache.hold(&1).is_none(), "{policy}: it went");
        assert_eq!((cache.usage(), cache.held_usage()), (5, 0), "{policy}");
        validate(&mut cache);
    }
}

#[test]
fn a_strict_cache_is_charged_for_the_largest_too() {
    for policy in POLICIES {
        let mut cache = cache(policy, u64::MAX, true);
        for round in 0..5 {
            let held = cache.insert_held(1, 10, u64::MAX - 1).expect("there is room").held;
            cache.erase(&1);
            assert_eq!(
                (cache.usage(), cache.held_usage()),
                (u64::MAX - 1, u64::MAX - 1),
                "{round}"
            );
            assert!(cache.insert(2, 20, 2).is_err(), "{policy}: it is held");
            validate(&mut cache);
            drop(held);
            assert_eq!((cache.usage(), cache.held_usage()), (0, 0), "{policy}");
        }
        validate(&mut cache);
    }
}

/// More than one eviction passes over.
#[test]
fn an_insertion_finds_what_lies_behind_many_that_are_held() {
    for policy in POLICIES {
        let mut cache = cache(policy, 1_000, false);
        let held: Vec<_> = (0..300)
            .map(|key| cache.insert_held(key, key, 1).expect("there is room").held)
            .collect();
        (300..1_000).for_each(|key| _ = cache.insert(key, key, 1));
        (1_000..3_000).for_each(|key| assert!(cache.insert(key, key, 1).is_ok(), "{policy}"));
        assert!(held.iter().all(|held| cache.hold(held.key()).is_some()), "{policy}");
        validate(&mut cache);
    }
}

/// An idle thread's credit, with which it could admit without an eviction, is withdrawn too.
#[test]
fn a_capacity_that_comes_down_takes_the_credit_of_idle_threads() {
    const CAPACITY: u64 = 1 << 20;
    for policy in POLICIES {
        let cache = cache(policy, CAPACITY, false);
        let held: Vec<_> = (0..1_024)
            .map(|key| cache.insert_held(key, key, 1_024).expect("there is room").held)
            .collect();
        assert_eq!(cache.set_capacity(CAPACITY / 2), CAPACITY, "{policy}: all is held");
        std::thread::scope(|scope| {
            let ((erased, wait), (end, is_over)) = (channel(), channel::<()>());
            let cache = &cache;
            scope.spawn(move || {
                cache.erase(&7);
                erased.send(()).expect("somebody waits");
                // Idle, and alive.
                _ = is_over.recv();
            });
            wait.recv().expect("it was erased");
            _ = cache.insert(2_000, 0, 1);
            // The credit returned to the idle thread would be enough for it.
            assert!(cache.insert(2_001, 0, 1_000).is_err(), "{policy}");
            drop(end);
        });
        drop(held);
    }
}

/// Slots are counted as handed out a moment before there is memory for them.
#[test]
fn what_is_held_may_be_asked_while_the_cache_grows() {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    for _ in 0..if cfg!(miri) { 2 } else { 400 } {
        let cache: HandleCache<u64, u64> = HandleCache::builder(1 << 20).build();
        let held = cache.insert_held(0, 0, 5).expect("there is room").held;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    assert_eq!(cache.held_usage(), 5);
                }
            });
            (1..600).for_each(|key| _ = cache.insert(key, key, 0));
            done.store(true, Relaxed);
        });
        drop(held);
    }
}

/// An entry that the policy refuses is found while it is held, and nothing is evicted for it.
#[test]
fn hot_entries_stay_beside_a_held_block_that_is_not_wanted() {
    const HOT: u64 = 200;
    for policy in POLICIES {
        // S3-FIFO refuses charges of more than a tenth.
        let charges = [HOT / 2, HOT + 1];
        for charge in if policy == Policy::S3Fifo { &charges[..] } else { &charges[1..] } {
            for releases in [false, true] {
                let mut cache = cache(policy, HOT, false);
                (0..HOT).for_each(|key| assert!(cache.insert(key, key, 1).is_ok(), "{policy}"));
                let use_all = || (0..HOT).filter(|key| cache.hold(key).is_some()).count() as u64;
                // Often enough that entries new and used once are evicted first.
                assert_eq!([use_all(), use_all(), use_all()], [HOT; 3], "{policy}");
                let block = cache.insert_held(1_000, 0, *charge).expect("it is not strict");
                assert_eq!(block.outcome, Outcome::New, "{policy}");
                for key in 2_000..2_000 + HOT {
                    assert!(cache.hold(&1_000).is_some(), "{policy}: it is found while it is held");
                    assert_eq!(cache.usage(), HOT + charge, "{policy}");
                    // Held and given to `release`, as in a program that reads blocks.
                    let hot = cache.hold(&(key % HOT));
                    hot.map(|hot| cache.release(hot, false));
                    if key % 50 == 0 {
                        assert!(cache.insert(key, key, 1).is_ok(), "{policy}");
                    }
                }
                assert!(use_all() >= HOT - 4, "{policy}: {}", use_all());
                match releases {
                    true => assert!(cache.release(block.held, false), "{policy}"),
                    false => {
                        drop(block.held);
                        assert!(cache.insert(3_000, 0, 1).is_ok(), "{policy}");
                    }
                }
                assert_eq!((cache.usage(), cache.hold(&1_000).is_some()), (HOT, false), "{policy}");
                validate(&mut cache);
            }
        }
    }
}

/// However often such blocks are inserted, evicted, replaced and removed, and the cache is made
/// strict.
#[test]
fn held_blocks_that_are_not_wanted_leave_nothing_behind() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100, false);
        let mut held = std::collections::VecDeque::new();
        for round in 0..3_000 {
            let key = round % 23;
            match round % 7 {
                0 => _ = cache.erase(&key),
                1 => _ = cache.insert(key, 0, 1),
                2 => cache.set_strict(round % 5 == 0),
                3 => drop(held.pop_front()),
                4 => _ = held.pop_front().map(|held| cache.release(held, false)),
                _ => {
                    let new = cache.insert_held(key, round, 20 + round % 200);
                    held.extend(new.ok().map(|new| new.held));
                }
            }
            held.truncate(12);
        }
        validate(&mut cache);
        drop(held);
        cache.set_strict(false);
        (0..20).for_each(|key| _ = cache.insert(key, 0, 1));
        assert!(cache.usage() <= 100, "{policy}: {}", cache.usage());
        validate(&mut cache);
    }
}
