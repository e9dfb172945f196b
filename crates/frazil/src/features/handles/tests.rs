//! The cost of operations while more is held than the capacity, in work instead of time; and their
//! writes.

use crate::core::order::PASSED_OVER;
use crate::core::order::s3_fifo::WINDOWS;
use crate::smr::fence::EXECUTED;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{HandleCache, Held, Outcome, Policy, Priority};

type Tested = HandleCache<u64, u64>;

const POLICIES: [Policy; 5] =
    [Policy::Fifo, Policy::Clock { bits: 2 }, Policy::Mobius, Policy::S3Fifo, Policy::Lru];

/// Enough for threads to have entries in hand.
const CHARGE: u64 = 1_000_000;

/// Each different, so that no two capacities in force are equal.
fn charge(key: u64) -> u64 {
    CHARGE + key % 1_000
}

/// A cache with `count` held entries and this capacity.
fn overfull(policy: Policy, count: u64, fits: u64) -> (Tested, Vec<Held<u64, u64>>) {
    let cache: Tested = HandleCache::builder(fits * CHARGE).policy(policy).build();
    let hold = |key| cache.insert_held(key, key, CHARGE).expect("it is not strict").held;
    let held = (0..count).map(hold).collect();
    (cache, held)
}

/// Heavy fences, second chances of held entries, and passes over all ghosts, per call, over `calls`
/// calls.
fn costs(calls: u64, call: impl FnMut(u64)) -> [f64; 3] {
    let now = || [EXECUTED.get(), PASSED_OVER.get(), WINDOWS.get()];
    let before = now();
    (0..calls).for_each(call);
    let after = now();
    [0, 1, 2].map(|cost: usize| (after[cost] - before[cost]) as f64 / calls as f64)
}

/// Each checks some held entries. One in 256 takes over the entries of idle threads.
#[test]
fn an_insertion_beyond_the_capacity_looks_at_few_and_takes_no_heavy_fence() {
    type Call = fn(&Tested, u64);
    let calls: [(&str, Call); 3] = [
        ("insert", |cache, key| assert!(cache.insert(key, key, charge(key)).is_err())),
        ("insert_held", |cache, key| {
            let new = cache.insert_held(key, key, charge(key)).expect("it is not strict");
            assert_eq!(new.outcome, Outcome::New);
        }),
        ("release", |cache, key| {
            let new = cache.insert_held(key, key, charge(key)).expect("it is not strict");
            assert!(cache.release(new.held, false));
        }),
    ];
    for policy in POLICIES {
        for count in [4, 10, 32, 63, 64, 65, 128, 1_000] {
            // More than fit, or as many: then each release brings the capacity down to the
            // requested one.
            for ((what, call), fits) in
                calls.into_iter().flat_map(|call| [(call, count * 4 / 5), (call, count)])
            {
                let (cache, held) = overfull(policy, count, fits);
                let [fences, passed, ghosts] = costs(1_000, |number| call(&cache, 10_000 + number));
                assert!(fences < 0.5, "{policy}, {count}, {what}: {fences} fences");
                // Fewer while the capacity in force exceeds the requested one.
                let passed_max = if fits < count { 30.0 } else { 140.0 };
                assert!(passed < passed_max, "{policy}, {count}, {what}: {passed} passed over");
                assert!(ghosts < 0.01, "{policy}, {count}, {what}: {ghosts} times all ghosts");
                assert!(held.iter().all(|held| cache.hold(held.key()).is_some()), "{policy}");
            }
        }
    }
}

/// Entries released by a thread without further operations stay in its hands, where no eviction
/// reaches them.
#[test]
fn what_another_thread_has_let_go_of_goes() {
    for policy in POLICIES {
        for count in [4, 50, 400] {
            let cache: Tested = HandleCache::builder(2 * CHARGE).policy(policy).build();
            let insert = |key| cache.insert_held(key, key, CHARGE).expect("it is not strict").held;
            std::thread::scope(|scope| {
                scope.spawn(|| (0..count).map(insert).collect::<Vec<_>>().clear());
            });
            assert!(cache.usage() >= 2 * CHARGE);
            (1_000..1_600).for_each(|key| _ = cache.release(insert(key), false));
            let usage = cache.usage();
            assert!(usage <= cache.capacity(), "{policy}, {count}: {usage}");
        }
    }
}

/// Those come first with LRU, and are not all that it looks at.
#[test]
fn held_entries_of_the_lowest_priority_hide_no_others() {
    for policy in POLICIES {
        let (cache, held) = overfull(policy, 100, 20);
        let insert = |key, priority| {
            let new = cache.insert_held_with(key, key, CHARGE, priority);
            new.expect("it is not strict").held
        };
        let _lowest: Vec<_> = (200..208).map(|key| insert(key, Priority::Bottom)).collect();
        drop(held);
        (1_000..1_600).for_each(|key| _ = cache.release(insert(key, Priority::Low), false));
        assert_eq!(cache.core().capacity(), cache.capacity(), "{policy}");
    }
}

/// An eviction that meets held entries again has not shown that everything is held, if it has
/// lowered marks meanwhile.
#[test]
fn entries_that_were_used_go_where_others_are_held() {
    for policy in POLICIES {
        let cache: Tested = HandleCache::builder(10).policy(policy).strict(true).build();
        let mut held: Vec<_> = (0..10)
            .map(|key| cache.insert_held(key, key, 1).expect("there is room").held)
            .collect();
        // Now there is no search behind the entries at which an eviction gives up.
        assert!(cache.insert(10, 10, 1).is_err(), "{policy}: all is held");
        held.truncate(1);
        for _ in 0..4 {
            assert!((1..10).all(|key| cache.hold(&key).is_some()), "{policy}");
        }
        assert!(cache.insert(10, 10, 1).is_ok(), "{policy}");
    }
}

/// An empty queue counts as held only while the capacity in force exceeds the requested one.
#[test]
fn what_an_idle_thread_has_in_hand_goes_for_another_s_insertion() {
    // S3-FIFO takes none that is so heavy.
    for policy in POLICIES.into_iter().filter(|&policy| policy != Policy::S3Fifo) {
        let cache: Tested = HandleCache::builder(4 * CHARGE).policy(policy).build();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let insert = |key| cache.insert_held(key, key, CHARGE).expect("it fits").held;
                let held: Vec<_> = (0..4).map(insert).collect();
                assert!(cache.insert(4, 4, CHARGE).is_err(), "{policy}: all is held");
                drop(held);
            });
        });
        let inserted = cache.insert(5, 5, CHARGE);
        assert!(inserted.is_ok(), "{policy}: {inserted:?}");
    }
}

/// One thread may have taken all queued entries, to look at them: others learn that they are held
/// from the fact that it gave up.
#[test]
fn an_insertion_does_not_look_for_what_another_thread_looks_at() {
    for policy in [Policy::Fifo, Policy::Clock { bits: 2 }, Policy::Mobius] {
        let (cache, _held) = overfull(policy, 8, 4);
        cache.release(cache.insert_held(100, 100, CHARGE).expect("it is not strict").held, false);
        let core = cache.core();
        let (taken, wait) = std::sync::mpsc::channel();
        let (done, until) = std::sync::mpsc::channel::<()>();
        let insert = |key| {
            let key = 1_000 + key;
            let new = cache.insert_held(key, key, CHARGE).expect("it is not strict");
            assert_eq!(new.outcome, Outcome::New);
        };
        let [fences, ..] = std::thread::scope(|scope| {
            scope.spawn(move || {
                core.scavenge(false);
                let mut stripe = core.hold();
                core.with_queue_ctx(&mut stripe, |ctx| {
                    let mut slots = Vec::new();
                    for queue in core.order.queues() {
                        slots.extend(std::iter::from_fn(|| ctx.pop(queue)));
                    }
                    taken.send(()).expect("the test waits");
                    _ = until.recv();
                    slots
                        .into_iter()
                        .for_each(|slot| ctx.push_again(&core.order.queues()[0], slot));
                });
            });
            wait.recv().expect("it has taken all");
            let costs = costs(1, insert);
            drop(done);
            costs
        });
        assert_eq!(fences, 0.0, "{policy}");
    }
}

/// Those belong to the thread that has the buffers beside them, which may be another.
#[test]
fn who_lets_go_of_an_orphan_writes_no_count_of_the_buffers() {
    let cache: Tested = HandleCache::builder(100).strict(true).build();
    let counted = || -> Vec<u64> {
        cache.core().stripes.iter().map(|stripe| stripe.local.counts.weight.load(Relaxed)).collect()
    };
    let held = cache.insert_held(1, 10, 60).expect("there is room").held;
    assert!(cache.erase(&1) && cache.insert(2, 20, 60).is_err(), "it is charged for");
    let before = counted();
    drop(held);
    assert_eq!((counted(), cache.usage()), (before, 0));
    assert!(cache.insert(2, 20, 60).is_ok());
}

/// Only one thread at a time reads the counts of frozen entries; a release that needs them waits
/// for it.
#[cfg(feature = "freezing")]
#[test]
fn a_release_that_is_the_last_erases_what_is_frozen_while_another_counts() {
    for policy in POLICIES {
        let builder = HandleCache::builder(8).policy(policy).freezing(crate::Freezing::ByHand);
        let cache: Tested = builder.build();
        (0..8).for_each(|key| assert!(cache.insert(key, key, 1).is_ok()));
        assert_eq!(cache.freeze(1.0), 8, "{policy}");
        let held = cache.hold(&3).expect("it is frozen");
        let (taken, wait) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let cache = &cache;
            scope.spawn(move || {
                let table = cache.core().hooks.spread.table();
                taken.send(()).expect("the test waits");
                std::thread::sleep(std::time::Duration::from_millis(20));
                drop(table);
            });
            wait.recv().expect("it has the table");
            assert!(cache.release(held, true), "{policy}: nobody else holds it");
        });
        assert!(cache.hold(&3).is_none(), "{policy}");
    }
}

/// Frozen entries, and their counts, take memory of the cache.
#[cfg(feature = "freezing")]
#[test]
fn what_freezing_takes_is_reserved() {
    const ENTRIES: u64 = 10_000;
    let builder = HandleCache::builder(ENTRIES).freezing(crate::Freezing::ByHand);
    let cache: Tested = builder.build();
    (0..ENTRIES).for_each(|key| assert!(cache.insert(key, key, 1).is_ok()));
    let before = cache.reserved_bytes();
    assert_eq!(cache.freeze(1.0), ENTRIES);
    let more = cache.reserved_bytes() - before;
    // The number of its slot, and its place.
    assert!((28 * ENTRIES as usize..60 * ENTRIES as usize).contains(&more), "{more}");
}

/// There all residents are excess, and leave when they are released.
#[cfg(feature = "freezing")]
#[test]
fn nothing_is_frozen_where_the_capacity_is_nothing() {
    for policy in POLICIES {
        let builder = HandleCache::builder(0).policy(policy).freezing(crate::Freezing::ByHand);
        let cache: Tested = builder.build();
        let held = cache.insert_held(1, 10, 0).expect("it is not strict").held;
        assert_eq!((cache.len(), cache.freeze(1.0)), (1, 0), "{policy}");
        assert!(cache.release(held, false), "{policy}");
        assert!(cache.is_empty(), "{policy}");
    }
}
