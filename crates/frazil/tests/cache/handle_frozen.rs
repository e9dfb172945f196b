//! Held values of a cache that is frozen meanwhile.

use crate::own_process::is_alone;
use std::hash::{BuildHasher, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use frazil::{Freezing, FreezingPhase, HandleCache, Held, Outcome, Policy, Refusal};

use crate::extent::turns;
use crate::handle_model::{Counting, Model, POLICIES, STEPS, any_priority, validate};
use crate::tracked::{Census, Chance, Tracked};

type Tested = HandleCache<u64, Counting>;

/// A cache full of entries of weight 1, all frozen; and the number of dropped values.
fn frozen(policy: Policy, capacity: u64) -> (Tested, Arc<AtomicU64>) {
    let builder = HandleCache::builder(capacity).policy(policy).freezing(Freezing::ByHand);
    let (cache, dropped): (Tested, Arc<AtomicU64>) = (builder.build(), Arc::default());
    (0..capacity).for_each(|key| assert!(insert(&cache, key, &dropped)));
    assert_eq!(cache.freeze(1.0), capacity, "{policy}");
    (cache, dropped)
}

fn insert(cache: &Tested, key: u64, dropped: &Arc<AtomicU64>) -> bool {
    cache.insert(key, Counting(dropped.clone()), 1).is_ok()
}

/// The policy's turns, several times over.
fn churn(cache: &Tested, dropped: &Arc<AtomicU64>) {
    for key in 1_000..1_000 + 20 * cache.capacity() {
        insert(cache, key, dropped);
        // Twice: with Mobius and S3-FIFO unused entries are evicted first.
        (0..2).for_each(|_| drop(cache.hold(&key)));
    }
}

#[test]
fn what_is_held_while_frozen_stays_and_all_else_is_dropped_at_once() {
    if !is_alone("handle_frozen::what_is_held_while_frozen_stays_and_all_else_is_dropped_at_once") {
        return;
    }
    for policy in POLICIES {
        let mut freezes = 0;
        for (seed, capacity, keys, charge_max) in
            [(1, 40, 20, 9), (2, 200, 300, 3), (3, 7, 5, 9), (4, 0, 8, 2), (5, 30, 60, 1)]
        {
            for strict in [false, true] {
                let mut chance = Chance(seed);
                let mut model = Model::frozen(policy, capacity, strict);
                for step in 0..turns(STEPS) / 2 {
                    model.step(&mut chance, keys, charge_max);
                    if chance.below(50) == 0 {
                        model.freeze(&mut chance);
                    }
                    if step % 512 == 0 {
                        model.validate();
                    }
                }
                freezes += model.freezes;
                model.end(seed % 2 == 0);
            }
        }
        assert!(freezes > turns(STEPS) / 1_000, "{policy}: {freezes}");
    }
}

#[test]
fn the_policy_does_not_hear_of_a_hold_of_what_is_frozen() {
    for policy in POLICIES {
        let builder = HandleCache::builder(100).policy(policy).freezing(Freezing::ByHand);
        let mut cache: HandleCache<u64, u64> = builder.build();
        (0..100).for_each(|key| _ = cache.insert(key, key, 1));
        assert_eq!(cache.freeze(1.0), 100, "{policy}");
        let held: Vec<_> = (0..100).filter_map(|key| cache.hold(&key)).collect();
        let stats = cache.stats();
        assert_eq!((held.len(), stats.hits, stats.frozen_hits), (100, 100, 100), "{policy}");
        assert_eq!(cache.held_usage(), 100, "{policy}");
        validate(&mut cache);
        drop(held);
        assert_eq!(cache.held_usage(), 0, "{policy}");
        cache.thaw();
        assert!(cache.hold(&7).is_some());
        assert_eq!(cache.stats().frozen_hits, 100, "{policy}");
        validate(&mut cache);
    }
}

/// Whatever happens to an entry and to the overlay, it is dropped once, at its last release.
#[test]
fn what_was_frozen_is_dropped_by_its_last_release() {
    type Way = fn(&Tested, &Arc<AtomicU64>);
    let ways: [(&str, Way); 7] = [
        ("erased", |cache, _| assert!(cache.erase(&3))),
        ("replaced", |cache, dropped| assert!(insert(cache, 3, dropped))),
        ("erased after a thaw", |cache, _| {
            cache.thaw();
            assert!(cache.erase(&3));
        }),
        ("erased and thawed", |cache, _| {
            assert!(cache.erase(&3));
            cache.thaw();
        }),
        ("replaced and frozen again", |cache, dropped| {
            assert!(insert(cache, 3, dropped));
            assert_eq!(cache.freeze(1.0), 8);
        }),
        ("cleared", |cache, _| cache.clear()),
        ("cleared of the others, and erased", |cache, _| {
            cache.clear_unheld();
            assert_eq!(cache.len(), 1);
            assert!(cache.erase(&3));
        }),
    ];
    for policy in POLICIES {
        for (what, way) in ways {
            let (mut cache, dropped) = frozen(policy, 8);
            let held = cache.hold(&3).expect("it is there");
            let clone = held.clone();
            way(&cache, &dropped);
            drop(held);
            let of_others = dropped.load(Relaxed);
            assert_eq!(cache.held_usage(), 1, "{policy}, {what}");
            // Dropped only at the last release, by a thread that never used the cache.
            thread::spawn(move || drop(clone)).join().expect("no panic");
            assert_eq!(dropped.load(Relaxed), of_others + 1, "{policy}, {what}");
            assert_eq!(cache.held_usage(), 0, "{policy}, {what}");
            validate(&mut cache);
            cache.thaw();
            churn(&cache, &dropped);
            assert_eq!(cache.usage(), 8, "{policy}, {what}: all the room is there again");
            validate(&mut cache);
        }
    }
}

/// A thaw returns it to the policy, which passes over it while it is held.
#[test]
fn what_was_frozen_is_evicted_when_it_is_thawed_and_let_go() {
    for policy in POLICIES {
        let (mut cache, dropped) = frozen(policy, 8);
        let held = cache.hold(&3).expect("it is there");
        cache.thaw();
        churn(&cache, &dropped);
        let again = cache.hold(&3).expect("it is held, so it is not evicted");
        assert!(std::ptr::eq(&raw const *held, &raw const *again), "{policy}");
        drop((held, again));
        let before = dropped.load(Relaxed);
        churn(&cache, &dropped);
        assert!(cache.hold(&3).is_none(), "{policy}");
        assert_eq!(dropped.load(Relaxed), before + 160, "{policy}: each once");
        validate(&mut cache);
    }
}

#[test]
fn what_is_frozen_outlives_the_cache_while_it_is_held() {
    for policy in POLICIES {
        let (cache, dropped) = frozen(policy, 8);
        let held: Vec<_> = (2..4).filter_map(|key| cache.hold(&key)).collect();
        drop(cache);
        assert_eq!(dropped.load(Relaxed), 6, "{policy}");
        thread::spawn(move || drop(held)).join().expect("no panic");
        assert_eq!(dropped.load(Relaxed), 8, "{policy}");
    }
}

/// Nothing is evicted for a new entry while everything is frozen: it stays only while it is held.
#[test]
fn where_all_is_frozen_newcomers_are_held_beyond_the_capacity() {
    if !is_alone("handle_frozen::where_all_is_frozen_newcomers_are_held_beyond_the_capacity") {
        return;
    }
    for policy in POLICIES {
        let (mut cache, dropped) = frozen(policy, 20);
        for key in 100..200 {
            let value = Counting(dropped.clone());
            let refused = cache.insert(key, value, 1).expect_err("all is frozen");
            assert_eq!(refused.reason, Refusal::NoRoom, "{policy}");
            drop(refused);
            let new = cache.insert_held(key, Counting(dropped.clone()), 1).expect("not strict");
            assert_eq!((new.outcome, cache.usage()), (Outcome::New, 21), "{policy}");
            // Releasing a frozen entry does not change that.
            assert!(!cache.release(cache.hold(&3).expect("it is frozen"), false), "{policy}");
            assert!(cache.hold(&key).is_some(), "{policy}");
            assert!(cache.release(new.held, false), "{policy}: it is too much");
            assert_eq!((cache.usage(), cache.len()), (20, 20), "{policy}");
        }
        assert_eq!(dropped.load(Relaxed), 200, "{policy}");
        assert!((0..20).all(|key| cache.hold(&key).is_some()), "{policy}");
        cache.set_strict(true);
        assert!(cache.insert_held(7_000, Counting(dropped.clone()), 1).is_err(), "{policy}");
        // One removed entry makes room for one.
        assert!(cache.release(cache.hold(&3).expect("it is frozen"), true), "{policy}");
        assert!(insert(&cache, 300, &dropped) && insert(&cache, 301, &dropped), "{policy}");
        assert!(cache.hold(&300).is_none() && cache.hold(&301).is_some(), "{policy}");
        validate(&mut cache);
    }
}

/// An entry that leaves with its last holder is not frozen with the others.
#[test]
fn what_the_capacity_is_not_charged_for_is_not_frozen() {
    for policy in POLICIES {
        let builder = HandleCache::builder(8).policy(policy).freezing(Freezing::ByHand);
        let (mut cache, dropped): (Tested, Arc<AtomicU64>) = (builder.build(), Arc::default());
        (0..8).for_each(|key| assert!(insert(&cache, key, &dropped)));
        let large = cache.insert_held(9, Counting(dropped.clone()), 100).expect("not strict").held;
        assert_eq!((cache.freeze(1.0), cache.len()), (8, 9), "{policy}");
        assert!(cache.hold(&9).is_some_and(|held| held.charge() == 100), "{policy}");
        validate(&mut cache);
        assert!(cache.release(large, false), "{policy}");
        assert_eq!((cache.len(), dropped.load(Relaxed)), (8, 1), "{policy}");
        validate(&mut cache);
    }
}

/// Each thread counts its own holds of frozen entries, for any number of entries.
#[test]
fn what_is_frozen_is_held_without_a_change_of_its_word() {
    const ENTRIES: u64 = if cfg!(miri) { 500 } else { 20_000 };
    let (cache, _) = frozen(Policy::Lru, ENTRIES);
    let hold_all = || (0..ENTRIES).for_each(|key| drop(cache.hold(&key).expect("it is frozen")));
    let before = cache.reserved_bytes();
    thread::scope(|scope| _ = scope.spawn(hold_all));
    // The memory in which the other thread counts.
    let beside = cache.reserved_bytes() - before;
    assert!((8 * ENTRIES as usize..24 * ENTRIES as usize).contains(&beside), "{beside}");
    cache.thaw();
    let held = cache.hold(&3);
    assert_eq!(cache.held_usage(), 1);
    drop(held);
    thread::scope(|scope| _ = scope.spawn(hold_all));
    assert!(cache.reserved_bytes() <= before + beside + 4_096);
}

/// Hashes as usual, but when armed lets another thread go first, once.
#[derive(Clone)]
struct Giving(Arc<(AtomicBool, Barrier)>);

impl BuildHasher for Giving {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        if self.0.0.swap(false, Relaxed) {
            // Its turn, and ours again.
            (0..2).for_each(|_| _ = self.0.1.wait());
        }
        DefaultHasher::new()
    }
}

/// A spread entry may have no holders.
#[test]
fn what_is_frozen_while_all_is_cleared_that_nobody_holds_goes() {
    for policy in POLICIES {
        let turn = Arc::new((AtomicBool::new(false), Barrier::new(2)));
        let builder = HandleCache::builder(100).policy(policy).freezing(Freezing::ByHand);
        let mut cache: HandleCache<u64, u64, Giving> =
            builder.with_hasher(Giving(turn.clone())).build();
        (0..100).for_each(|key| assert!(cache.insert(key, key, 1).is_ok(), "{policy}"));
        let held = cache.hold(&3).expect("it is there");
        turn.0.store(true, Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| {
                turn.1.wait();
                assert_eq!(cache.freeze(1.0), 100, "{policy}");
                turn.1.wait();
            });
            // The hash of the first removed entry runs while the others are present.
            cache.clear_unheld();
        });
        assert_eq!((cache.len(), *held), (1, 3), "{policy}");
        assert!(cache.release(held, true), "{policy}");
        assert!(cache.is_empty(), "{policy}");
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    }
}

/// A changed capacity thaws, and nothing is frozen while more is in force than was requested.
#[test]
fn the_capacity_falls_though_all_is_frozen() {
    for policy in POLICIES {
        let (mut cache, dropped) = frozen(policy, 100);
        assert_eq!(cache.set_capacity(40), 40, "{policy}");
        assert_eq!((cache.usage(), dropped.load(Relaxed)), (40, 60), "{policy}");
        assert_eq!(cache.freeze(1.0), 40, "{policy}");
        let held: Vec<_> = (0..100).filter_map(|key| cache.hold(&key)).collect();
        assert_eq!(held.len(), 40, "{policy}");
        assert_eq!(cache.set_capacity(10), 40, "{policy}: they are held");
        assert_eq!(cache.freeze(1.0), 0, "{policy}: it could not fall");
        drop(held);
        (1_000..1_100).for_each(|key| _ = insert(&cache, key, &dropped));
        assert_eq!(cache.usage(), 10, "{policy}");
        assert_eq!(cache.freeze(1.0), 10, "{policy}");
        assert_eq!(cache.set_capacity(1_000), 1_000, "{policy}");
        (2_000..3_000).for_each(|key| _ = insert(&cache, key, &dropped));
        assert_eq!(cache.usage(), 1_000, "{policy}");
        validate(&mut cache);
    }
}

/// Keys of the threads below, and operations of each.
const KEYS: u64 = 300;
const OPERATIONS: u64 = if cfg!(miri) { 10_000 } else { 2_000_000 };

/// Runs all operations.
fn work<'c>(
    cache: &HandleCache<u64, Tracked<'c>>,
    census: &'c Census,
    mut chance: Chance,
    operations: u64,
) {
    let mut held: Vec<Held<u64, Tracked<'_>>> = Vec::new();
    for _ in 0..operations {
        let key = chance.below(KEYS);
        let value = || Tracked::new(census, key);
        let found = match chance.below(24) {
            0 | 1 => {
                let priority = any_priority(&mut chance);
                let new = cache.insert_held_with(key, value(), 1 + key % 8, priority);
                new.ok().map(|new| new.held)
            }
            2 => {
                cache.erase(&key);
                None
            }
            3 => {
                _ = cache.insert(key, value(), 1 + key % 8);
                None
            }
            4 if !held.is_empty() => {
                let gone = held.swap_remove(chance.below(held.len() as u64) as usize);
                cache.release(gone, chance.below(4) == 0);
                None
            }
            _ => cache.hold(&key),
        };
        if let Some(found) = found {
            found.check(key);
            if chance.below(4) == 0 {
                held.push(found);
            }
        }
        if held.len() > 30 {
            let gone = held.swap_remove(chance.below(held.len() as u64) as usize);
            gone.check(*gone.key());
        }
    }
    held.iter().for_each(|held| held.check(*held.key()));
}

/// Freezes, thaws, and changes the capacity, until it is over.
fn freeze(cache: &HandleCache<u64, Tracked<'_>>, capacity: u64, over: &AtomicBool) {
    let mut chance = Chance(9);
    while !over.load(Relaxed) {
        cache.freeze([0.2, 0.9, 1.0][chance.below(3) as usize]);
        thread::sleep(Duration::from_micros(chance.below(500)));
        if chance.below(3) == 0 {
            cache.thaw();
        }
        if chance.below(20) == 0 {
            cache.set_capacity(capacity / (1 + chance.below(3)));
        }
    }
}

/// Threads hold the values that they have found, and each value is dropped once.
#[test]
fn all_is_dropped_once_though_it_is_frozen_again_and_again() {
    if !is_alone("handle_frozen::all_is_dropped_once_though_it_is_frozen_again_and_again") {
        return;
    }
    let mut frozen_hits = 0;
    for (policy, strict) in
        POLICIES.into_iter().flat_map(|policy| [(policy, false), (policy, true)])
    {
        let (census, over, capacity) = (Census::default(), AtomicBool::new(false), KEYS * 3);
        let builder = HandleCache::builder(capacity).policy(policy).strict(strict);
        let mut cache = builder.freezing(Freezing::ByHand).build();
        thread::scope(|scope| {
            let (cache, census, over) = (&cache, &census, &over);
            let work = |seed| work(cache, census, Chance(seed), turns(OPERATIONS));
            let workers = [0, 1, 2].map(|seed| scope.spawn(move || work(seed)));
            let freezer = scope.spawn(|| freeze(cache, capacity, over));
            let worked = workers.map(|worker| worker.join());
            over.store(true, Relaxed);
            freezer.join().expect("no panic");
            worked.into_iter().for_each(|worked| worked.expect("no panic"));
        });
        let what = format!("{policy}, strict {strict}");
        frozen_hits += cache.stats().frozen_hits;
        assert_eq!(cache.held_usage(), 0, "{what}");
        validate(&mut cache);
        assert_eq!(cache.len() as i64, census.living(), "{what}: nothing waits");
        cache.clear();
        assert_eq!((cache.usage(), cache.len(), census.living()), (0, 0, 0), "{what}");
        cache.set_capacity(capacity);
        (0..capacity).for_each(|key| {
            assert!(cache.insert(key, Tracked::new(&census, key), 1).is_ok(), "{what}");
        });
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 0, "{what}");
    }
    assert!(frozen_hits > 0, "nothing was frozen when it was hit");
}

/// The controller tries freezing, and frozen entries are held as usual.
#[test]
#[cfg_attr(miri, ignore = "a million requests, of one thread")]
fn it_learns_what_to_freeze() {
    for policy in [Policy::Lru, Policy::Mobius] {
        let builder = HandleCache::builder(1_000).policy(policy).freezing(Freezing::Learned);
        let mut cache: HandleCache<u64, u64> = builder.build();
        let (mut chance, mut now, mut idle) = (Chance(1), Duration::ZERO, Duration::ZERO);
        let mut stepped = now;
        for request in 0..3_000_000u64 {
            // The square of an even distribution: small keys come more often.
            let key = chance.below(1_200) * chance.below(1_200) / 1_200;
            match cache.hold(&key) {
                Some(held) => assert_eq!(*held, key),
                None => _ = cache.insert(key, key, 1),
            }
            now += Duration::from_micros(20);
            if now - stepped >= idle {
                (idle, stepped) = (cache.step_freezing(now), now);
            }
            if cache.stats().frozen_hits > 10_000 {
                break;
            }
            assert!(request < 2_900_000, "{policy}: {:?}", cache.freezing_state());
        }
        validate(&mut cache);
        let state = cache.freezing_state().expect("it learns");
        assert_eq!(state.phase, FreezingPhase::Trying, "{policy}: {state:?}");
    }
}
