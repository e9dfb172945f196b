//! Held values, compared with a map that knows which values were dropped.

use crate::own_process::is_alone;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil::{BuildError, HandleCache, Held, Insertion, Outcome, Policy, Refusal};

use crate::extent::{is_long, turns};
use crate::handle_model::{
    Counting, DROPPED, Model, Noted, POLICIES, STEPS, any_priority, validate,
};
use crate::tracked::{Census, Chance, Tracked};

#[test]
fn what_is_held_stays_and_all_else_is_dropped_at_once() {
    if !is_alone("handles::what_is_held_stays_and_all_else_is_dropped_at_once") {
        return;
    }
    for policy in POLICIES {
        for (seed, capacity, keys, charge_max) in
            [(1, 40, 20, 9), (2, 200, 300, 3), (3, 7, 5, 9), (4, 0, 8, 2), (5, 30, 60, 1)]
        {
            for strict in [false, true] {
                let mut chance = Chance(seed);
                let mut model = Model::new(policy, capacity, strict);
                for step in 0..turns(STEPS) {
                    model.step(&mut chance, keys, charge_max);
                    if step % 512 == 0 {
                        model.validate();
                    }
                }
                model.end(seed % 2 == 0);
            }
        }
    }
}

/// The capacity falls to the charge of held entries, not further; and rises again.
#[test]
fn the_capacity_falls_as_far_as_nothing_is_held() {
    for policy in POLICIES {
        let mut cache: HandleCache<u64, u64> = HandleCache::builder(100).policy(policy).build();
        let held: Vec<_> = (0..100)
            .filter_map(|key| {
                let held = cache.insert_held(key, key, 1).expect("it is not strict").held;
                (key % 4 == 0).then_some(held)
            })
            .collect();
        assert_eq!(cache.set_capacity(50), 50, "{policy}");
        assert_eq!(cache.usage(), 50, "{policy}");
        assert!(held.iter().all(|held| cache.hold(held.key()).is_some()), "{policy}");
        assert_eq!(cache.set_capacity(10), 25, "{policy}: they are held");
        assert_eq!((cache.usage(), cache.held_usage()), (25, 25), "{policy}");
        validate(&mut cache);
        drop(held);
        assert_eq!(cache.set_capacity(10), 10, "{policy}");
        assert_eq!(cache.set_capacity(200), 200, "{policy}");
        (0..200).for_each(|key| _ = cache.insert(key, key, 1));
        assert_eq!(cache.usage(), 200, "{policy}");
        validate(&mut cache);
    }
}

/// Second chances in the policy's own order: of released entries those are evicted first whose turn
/// had come.
#[test]
fn what_was_held_goes_in_its_turn() {
    for policy in [Policy::Fifo, Policy::Clock { bits: 1 }, Policy::Mobius, Policy::Lru] {
        let mut cache: HandleCache<u64, u64> = HandleCache::builder(8).policy(policy).build();
        (0..8).for_each(|key| _ = cache.insert(key, key, 1));
        // FIFO forgets the hits; others lower the marks, or have moved them.
        let held: Vec<_> = (0..4).filter_map(|key| cache.hold(&key)).collect();
        (8..12).for_each(|key| _ = cache.insert(key, key, 1));
        assert!((0..4).all(|key| cache.hold(&key).is_some()), "{policy}");
        assert!((4..8).all(|key| cache.hold(&key).is_none()), "{policy}");
        drop(held);
        // Long enough for each entry's turns; the new ones are used, because SIEVE evicts unused
        // new entries.
        for key in 100..140 {
            _ = cache.insert(key, key, 1);
            _ = cache.hold(&key);
        }
        assert!((0..4).all(|key| cache.hold(&key).is_none()), "{policy}");
        assert_eq!(cache.usage(), 8, "{policy}");
        validate(&mut cache);
    }
}

/// However many entries: the effort is that of 64 second chances.
#[test]
fn where_all_is_held_insertions_are_refused_and_go_on() {
    for policy in POLICIES {
        for strict in [false, true] {
            const ROOM: u64 = if cfg!(miri) { 90 } else { 3_000 };
            let builder = HandleCache::builder(ROOM).policy(policy).strict(strict);
            let mut cache: HandleCache<u64, u64> = builder.build();
            let held: Vec<_> = (0..ROOM)
                .map(|key| cache.insert_held(key, key, 1).expect("there is room").held)
                .collect();
            for key in ROOM..ROOM + 100 {
                let refused = cache.insert(key, key, 1).expect_err("all is held");
                assert_eq!((refused.value, refused.reason), (key, Refusal::NoRoom), "{policy}");
                match cache.insert_held(key, key, 1) {
                    Ok(Insertion { held, outcome }) => {
                        assert_eq!((outcome, *held, strict), (Outcome::New, key, false));
                        assert_eq!(cache.usage(), ROOM + 1);
                        assert!(cache.hold(&key).is_some(), "{policy}: it is held");
                        assert!(cache.release(held, false), "{policy}: it is too much");
                        assert!(cache.hold(&key).is_none(), "{policy}");
                    }
                    Err(refused) => assert!(strict && refused.value == key),
                }
            }
            assert_eq!((cache.usage(), cache.held_usage()), (ROOM, ROOM), "{policy}");
            drop(held);
            (ROOM..2 * ROOM).for_each(|key| assert!(cache.insert(key, key, 1).is_ok(), "{policy}"));
            assert_eq!((cache.usage(), cache.held_usage()), (ROOM, 0), "{policy}");
            validate(&mut cache);
        }
    }
}

/// Entries erased while they are held take nothing from others, in any number.
#[test]
fn orphans_keep_no_slot_from_others() {
    for policy in POLICIES {
        for capacity in [0, 10] {
            let mut cache: HandleCache<u64, u64> =
                HandleCache::builder(capacity).policy(policy).build();
            const ORPHANS: u64 = if cfg!(miri) { 100 } else { 20_000 };
            let held: Vec<_> = (0..ORPHANS)
                .map(|key| {
                    let held = cache.insert_held(key, key, 1).expect("it is not strict").held;
                    cache.erase(&key);
                    held
                })
                .collect();
            assert_eq!((cache.usage(), cache.held_usage()), (ORPHANS, ORPHANS), "{policy}");
            (0..100).for_each(|key| assert_eq!(cache.insert(key, key, 1).is_ok(), capacity > 0));
            assert!(held.iter().zip(0..).all(|(held, key)| **held == key));
            assert_eq!(cache.len() as u64, capacity, "{policy}");
            validate(&mut cache);
            drop(held);
            assert_eq!((cache.usage(), cache.held_usage()), (capacity, 0), "{policy}");
            validate(&mut cache);
        }
    }
}

#[test]
fn policies_that_forget_what_they_choose_are_refused() {
    for policy in Policy::ALL.iter().copied() {
        let built = HandleCache::<u64, u64>::builder(1).policy(policy).try_build();
        let name = policy.to_string();
        let holds = ["fifo", "clock", "mobius", "s3-fifo", "lru"]
            .iter()
            .any(|&known| name == known || name.starts_with("clock:"));
        assert_eq!(built.err(), (!holds).then_some(BuildError::CannotHold(policy)));
    }
}

/// Slots are reused, whichever thread dropped their content.
#[test]
fn memory_does_not_grow_with_what_was_held() {
    for policy in POLICIES {
        let mut cache: HandleCache<u64, u64> = HandleCache::builder(64).policy(policy).build();
        let mut last = None;
        let mut churn = |keys: std::ops::Range<u64>| {
            for key in keys {
                let held = cache.insert_held(key, key, 1 + 64 * (key % 7 / 6)).expect("it is held");
                if key % 3 == 0 {
                    cache.erase(&key);
                }
                // So that a handle releases it, or an operation.
                last = (key % 2 == 0).then_some(held);
            }
            cache.reserved_bytes()
        };
        let early = churn(0..turns(STEPS) * 10);
        let late = churn(0..turns(STEPS) * 40);
        // S3-FIFO's ghosts are allocated at any time.
        assert!(late <= early + 8_192, "{policy}: {early}, {late}");
        validate(&mut cache);
    }
}

/// Threads that run all operations, and hold a quarter of the found entries for long. Returns the
/// number of operations.
fn at_work(policy: Policy, strict: bool, threads: u64, operations: u64) -> u64 {
    const KEYS: u64 = 2_000;
    let census = Census::default();
    let capacity = KEYS * 5 / 2;
    let mut cache = HandleCache::builder(capacity).policy(policy).strict(strict).build();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (cache, census, done) = (&cache, &census, &done);
            scope.spawn(move || {
                let mut chance = Chance(thread);
                let mut held: Vec<Held<u64, Tracked<'_>>> = Vec::new();
                for _ in 0..operations {
                    let key = chance.below(KEYS);
                    let value = || Tracked::new(census, key);
                    let found = match chance.below(16) {
                        0 => {
                            let priority = any_priority(&mut chance);
                            let new = cache.insert_held_with(key, value(), 1 + key % 8, priority);
                            new.ok().map(|new| new.held)
                        }
                        1 => {
                            cache.erase(&key);
                            None
                        }
                        2 => {
                            let priority = any_priority(&mut chance);
                            _ = cache.insert_with(key, value(), 1 + key % 8, priority);
                            None
                        }
                        _ => cache.hold(&key),
                    };
                    let Some(found) = found else { continue };
                    found.check(key);
                    if chance.below(4) == 0 {
                        held.push(found);
                    }
                    if held.len() as u64 > KEYS / 4 / threads {
                        let gone = held.swap_remove(chance.below(held.len() as u64) as usize);
                        gone.check(*gone.key());
                    }
                }
                done.fetch_add(operations, Relaxed);
                held.iter().for_each(|held| held.check(*held.key()));
            });
        }
    });
    assert_eq!(cache.held_usage(), 0, "{policy}");
    assert!(cache.usage() <= capacity, "{policy}");
    assert_eq!(cache.len() as i64, census.living(), "{policy}: nothing waits");
    validate(&mut cache);
    cache.clear();
    assert_eq!((cache.usage(), cache.len(), census.living()), (0, 0, 0), "{policy}");
    // And the whole capacity can be used again.
    (0..capacity).for_each(|key| {
        assert!(cache.insert(key, Tracked::new(&census, key), 1).is_ok(), "{policy}");
    });
    assert_eq!(cache.usage(), capacity, "{policy}");
    drop(cache);
    assert_eq!(census.living(), 0, "{policy}");
    done.into_inner()
}

#[test]
fn each_value_is_dropped_once_among_threads() {
    let operations = if is_long() { 125 * STEPS } else { STEPS / if cfg!(miri) { 60 } else { 1 } };
    for policy in POLICIES {
        for strict in [false, true] {
            assert_eq!(at_work(policy, strict, 4, operations), 4 * operations);
        }
    }
}

/// Handles that threads release while the cache is dropped, and after it.
#[test]
fn handles_outlive_the_cache_in_any_thread() {
    for round in 0..turns(STEPS / 10) {
        let census = Census::default();
        let cache = HandleCache::builder(64).build();
        let mut held: Vec<Held<u64, Tracked<'_>>> = (0..32)
            .map(|key| cache.insert_held(key, Tracked::new(&census, key), 1).expect("room").held)
            .collect();
        (0..32).step_by(2).for_each(|key| _ = cache.erase(&key));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let part = held.split_off(held.len() - 12);
                scope.spawn(move || {
                    for held in part {
                        let other = held.clone();
                        drop(held);
                        other.check(*other.key());
                    }
                });
            }
            if round % 2 == 0 {
                std::thread::yield_now();
            }
            drop(cache);
        });
        assert_eq!(census.living(), held.len() as i64);
        held.iter().for_each(|held| held.check(*held.key()));
        drop(held);
        assert_eq!(census.living(), 0);
    }
}

thread_local! {
    /// Hashes of keys: the keys themselves, another value, or a panic.
    static HASHED_AS: std::cell::Cell<Hashed> = const { std::cell::Cell::new(Hashed::Itself) };
}

#[derive(Clone, Copy, PartialEq)]
enum Hashed {
    Itself,
    Another,
    Panics,
}

/// A key with a hash that is not a function of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fickle(u64);

impl std::hash::Hash for Fickle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        // New keys keep their hash.
        let hashed = if self.0 < 100 { HASHED_AS.get() } else { Hashed::Itself };
        assert!(hashed != Hashed::Panics, "a hash that panics");
        state.write_u64(self.0 ^ if hashed == Hashed::Another { 1 << 40 } else { 0 });
    }
}

/// An entry that an eviction claimed and cannot unlink is present as before, and may be held.
#[test]
fn an_eviction_in_vain_leaves_all_as_it_was() {
    for policy in POLICIES {
        for hashed in [Hashed::Another, Hashed::Panics] {
            let census = Census::default();
            let mut cache: HandleCache<Fickle, Tracked<'_>> =
                HandleCache::builder(8).policy(policy).build();
            (0..8).for_each(|key| {
                let admitted = cache.insert(Fickle(key), Tracked::new(&census, key), 1);
                assert!(admitted.is_ok());
            });
            HASHED_AS.set(hashed);
            for key in 100..110 {
                let inserted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    cache.insert(Fickle(key), Tracked::new(&census, key), 1).is_ok()
                }));
                assert_eq!(inserted.ok(), (hashed == Hashed::Another).then_some(false), "{policy}");
            }
            HASHED_AS.set(Hashed::Itself);
            for key in 0..8 {
                let held = cache.hold(&Fickle(key)).unwrap_or_else(|| panic!("{policy}: {key}"));
                held.check(key);
            }
            assert_eq!((cache.usage(), cache.held_usage(), census.living()), (8, 0, 8), "{policy}");
            (100..130).for_each(|key| {
                _ = cache.insert(Fickle(key), Tracked::new(&census, key), 1);
                _ = cache.hold(&Fickle(key));
            });
            assert_eq!((cache.usage(), census.living()), (8, 8), "{policy}");
            validate(&mut cache);
        }
    }
}

/// A value whose drop panics: the others are dropped all the same, and the cache keeps working.
#[test]
fn a_destructor_that_panics_loses_nothing_else() {
    struct Panics<'c>(#[expect(dead_code, reason = "it is counted")] Tracked<'c>, bool);
    impl Drop for Panics<'_> {
        fn drop(&mut self) {
            assert!(!self.1, "a destructor that panics");
        }
    }
    fn caught(work: impl FnOnce()) {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
    }
    for policy in POLICIES {
        let census = Census::default();
        let value = |key, panics| Panics(Tracked::new(&census, key), panics);
        let mut cache: HandleCache<u64, Panics<'_>> =
            HandleCache::builder(4).policy(policy).build();
        let held = cache.insert_held(1, value(1, true), 1).expect("it is held").held;
        cache.erase(&1);
        caught(|| drop(held));
        assert_eq!((cache.usage(), cache.held_usage(), census.living()), (0, 0, 0), "{policy}");
        for key in 0..4 {
            assert!(cache.insert(key, value(key, key == 2), 1).is_ok());
        }
        caught(|| _ = cache.erase(&2));
        assert_eq!((cache.usage(), census.living()), (3, 3), "{policy}");
        assert!(cache.insert(2, value(2, true), 1).is_ok());
        caught(|| match policy {
            // The oldest is evicted soon.
            Policy::Fifo => (10..20).for_each(|key| _ = cache.insert(key, value(key, false), 1)),
            _ => _ = cache.insert(2, value(2, false), 1),
        });
        assert_eq!((cache.usage() as i64, cache.held_usage()), (census.living(), 0), "{policy}");
        let held = cache.insert_held(50, value(50, true), 1).expect("it is held").held;
        assert!(cache.insert(51, value(51, false), 1).is_ok());
        validate(&mut cache);
        drop(cache);
        assert_eq!(census.living(), 1, "{policy}");
        caught(|| drop(held));
        assert_eq!(census.living(), 0, "{policy}");
    }
}

/// A capacity kept up by held entries comes down with the insertions after their release.
#[test]
fn the_capacity_comes_down_when_what_was_held_is_let_go_of() {
    for policy in POLICIES {
        for strict in [false, true] {
            let builder = HandleCache::builder(1_000).policy(policy).strict(strict);
            let mut cache: HandleCache<u64, u64> = builder.build();
            let held: Vec<_> = (0..1_000)
                .map(|key| cache.insert_held(key, key, 1).expect("there is room").held)
                .collect();
            assert_eq!(cache.set_capacity(100), 1_000, "{policy}: all is held");
            _ = cache.insert(5_000, 0, 1);
            assert_eq!((cache.capacity(), cache.usage()), (100, 1_000), "{policy}");
            drop(held);
            (1_000..1_900).for_each(|key| _ = cache.insert(key, key, 1));
            assert!(cache.usage() <= 100, "{policy}: {}", cache.usage());
            // The last requested capacity counts.
            let held: Vec<_> =
                (0..100).map(|key| cache.insert_held(key, key, 1).map(|new| new.held)).collect();
            _ = cache.set_capacity(10);
            assert_eq!(cache.set_capacity(200), 200, "{policy}");
            drop(held);
            (2_000..2_400).for_each(|key| _ = cache.insert(key, key, 1));
            assert_eq!((cache.capacity(), cache.usage()), (200, 200), "{policy}");
            validate(&mut cache);
        }
    }
}

/// As a cache of any other capacity does.
#[test]
fn a_cache_of_no_capacity_shows_what_is_held() {
    for policy in POLICIES {
        let mut cache: HandleCache<u64, u64> = HandleCache::builder(0).policy(policy).build();
        let held: Vec<_> = (0..100)
            .map(|key| cache.insert_held(key, key, 1).expect("it is not strict").held)
            .collect();
        assert!((0..100).all(|key| cache.hold(&key).is_some()), "{policy}");
        assert!(cache.insert(100, 100, 1).is_err(), "{policy}: nobody holds it");
        assert_eq!((cache.len(), cache.usage(), cache.held_usage()), (100, 100, 100), "{policy}");
        validate(&mut cache);
        held.into_iter().for_each(|held| assert!(cache.release(held, false), "{policy}"));
        assert_eq!((cache.len(), cache.usage(), cache.capacity()), (0, 0, 0), "{policy}");
        let free = cache.insert_held(1, 1, 0).expect("it is not strict").held;
        assert!(
            cache.hold(&1).is_some() && cache.release(free, false),
            "{policy}: charged nothing"
        );
        assert_eq!(cache.len(), 0, "{policy}");
        validate(&mut cache);
        let held = cache.insert_held(1, 1, 1).expect("it is not strict").held;
        cache.set_strict(true);
        assert!(cache.insert_held(2, 2, 1).is_err(), "{policy}: there is no room beside it");
        assert_eq!(cache.set_capacity(1), 1, "{policy}");
        assert!(!cache.release(held, false) && cache.hold(&1).is_some(), "{policy}: it stays");
        assert_eq!((cache.set_capacity(0), cache.len()), (0, 0), "{policy}");
        validate(&mut cache);
    }
}

/// However many held entries lie in front of others.
#[test]
fn a_lower_capacity_looks_behind_what_is_held() {
    for policy in POLICIES {
        let mut cache: HandleCache<u64, u64> = HandleCache::builder(3_000).policy(policy).build();
        let held: Vec<_> = (0..1_000)
            .map(|key| cache.insert_held(key, key, 1).expect("there is room").held)
            .collect();
        (1_000..3_000).for_each(|key| _ = cache.insert(key, key, 1));
        assert_eq!((cache.usage(), cache.held_usage()), (3_000, 1_000), "{policy}");
        assert_eq!(cache.set_capacity(1_000), 1_000, "{policy}");
        assert!(held.iter().all(|held| cache.hold(held.key()).is_some()), "{policy}");
        validate(&mut cache);
    }
}

/// In a strict cache as well, a replaced entry without holders frees its charge for the
/// replacement.
#[test]
fn what_nobody_holds_is_replaced_in_a_strict_cache() {
    for policy in POLICIES {
        let mut cache: HandleCache<u64, u64> =
            HandleCache::builder(100).policy(policy).strict(true).build();
        assert!(cache.insert(1, 10, 60).is_ok(), "{policy}");
        assert!(cache.insert(1, 11, 60).is_ok(), "{policy}");
        let held = cache.insert_held(1, 12, 70).expect("nobody holds the other").held;
        assert_eq!((*held, cache.usage(), cache.held_usage()), (12, 70, 70), "{policy}");
        assert!(cache.insert(1, 13, 60).is_err(), "{policy}: it is held");
        assert_eq!(cache.usage(), 70, "{policy}");
        validate(&mut cache);
    }
}

/// An operation drops all values that it has to drop, although each destructor panics.
#[test]
fn one_destructor_that_panics_leaves_no_other_to_later_operations() {
    struct Panics<'c>(#[expect(dead_code, reason = "it is counted")] Tracked<'c>, bool);
    impl Drop for Panics<'_> {
        fn drop(&mut self) {
            assert!(!self.1, "a destructor that panics");
        }
    }
    // S3-FIFO admits no new entry of more than a tenth.
    for policy in POLICIES.into_iter().filter(|&policy| policy != Policy::S3Fifo) {
        let census = Census::default();
        let value = |key, panics| Panics(Tracked::new(&census, key), panics);
        let mut cache: HandleCache<u64, Panics<'_>> =
            HandleCache::builder(10).policy(policy).build();
        (0..9).for_each(|key| assert!(cache.insert(key, value(key, true), 1).is_ok()));
        assert!(cache.insert(9, value(9, false), 1).is_ok());
        let caught =
            |work: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err();
        assert!(caught(&|| drop(cache.insert(10, value(10, false), 10))), "{policy}");
        assert_eq!((census.living(), cache.held_usage()), (1, 0), "{policy}");
        assert!(!caught(&|| assert!(cache.hold(&10).is_some())), "{policy}: nothing waits");
        assert!(cache.insert(11, value(11, false), 10).is_ok(), "{policy}: nothing is held");
        validate(&mut cache);
    }
}

/// Entries removed by an operation while its thread unwinds are dropped at once too, although a
/// destructor panics.
#[test]
fn what_goes_while_a_thread_unwinds_is_dropped_at_once() {
    struct Panics<'c>(#[expect(dead_code, reason = "it is counted")] Tracked<'c>);
    impl Drop for Panics<'_> {
        fn drop(&mut self) {
            panic!("a destructor that panics");
        }
    }
    struct Clears<'t, 'c>(&'t HandleCache<u64, Panics<'c>>, &'c Census);
    impl Drop for Clears<'_, '_> {
        fn drop(&mut self) {
            self.0.clear();
            assert_eq!(self.1.living(), 0, "all were dropped");
        }
    }
    for policy in POLICIES {
        let census = Census::default();
        let mut cache: HandleCache<u64, Panics<'_>> =
            HandleCache::builder(40).policy(policy).build();
        for key in 0..40 {
            assert!(cache.insert(key, Panics(Tracked::new(&census, key)), 1).is_ok());
        }
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _clears = Clears(&cache, &census);
            panic!("a panic of its own");
        }));
        let payload = unwound.expect_err("it has panicked");
        assert_eq!(payload.downcast_ref(), Some(&"a panic of its own"), "{policy}");
        assert_eq!((cache.usage(), cache.held_usage()), (0, 0), "{policy}");
        validate(&mut cache);
    }
}

/// Handles in a thread's own variables are released after the thread has lost its number, and
/// nothing is lost.
#[test]
fn a_thread_may_end_with_what_it_holds() {
    use std::sync::Arc;
    type Shared = Arc<HandleCache<u64, Counting>>;
    thread_local! {
        static KEPT: RefCell<Vec<(Held<u64, Counting>, Shared)>> = const { RefCell::new(Vec::new()) };
    }
    const ROUNDS: u64 = if cfg!(miri) { 5 } else { 100 };
    let dropped = Arc::new(AtomicU64::new(0));
    let mut cache: Shared = Arc::new(HandleCache::builder(1 << 20).build());
    let work = |first: u64| {
        let (cache, dropped) = (&cache, &dropped);
        move || {
            // Before the cache is used, so that it is dropped after the number; or the other way
            // round.
            let early = first.is_multiple_of(2);
            if early {
                KEPT.with_borrow_mut(Vec::clear);
            }
            for key in first * 8..first * 8 + 8 {
                let value = Counting(dropped.clone());
                let held = cache.insert_held(key, value, 1).expect("there is room").held;
                if key % 2 == 0 {
                    cache.erase(&key);
                }
                KEPT.with_borrow_mut(|kept| kept.push((held, cache.clone())));
            }
        }
    };
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            let threads = [0, 1, 2].map(|thread| scope.spawn(work(round * 3 + thread)));
            // Their variables are dropped when they are joined, not when the scope ends.
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
    }
    assert_eq!(dropped.load(Relaxed), ROUNDS * 12);
    assert_eq!((cache.held_usage(), cache.usage()), (0, ROUNDS * 12));
    validate(Arc::get_mut(&mut cache).expect("the threads have ended"));
    drop(cache);
    assert_eq!(dropped.load(Relaxed), ROUNDS * 24);
}

/// With a capacity that is used up.
#[test]
fn s3_fifo_takes_nothing_new_that_is_more_than_a_tenth() {
    let cache: HandleCache<u64, u64> = HandleCache::builder(100).policy(Policy::S3Fifo).build();
    assert!((0..90).all(|key| cache.insert(key, key, 1).is_ok()));
    assert!(cache.insert(100, 100, 10).is_ok());
    assert_eq!(cache.insert(101, 101, 11).unwrap_err().reason, Refusal::Unwanted);
    assert!(cache.insert(102, 102, 10).is_ok());
}

thread_local! {
    /// The action of a hash before its result, unless it is inside another.
    static MEDDLES: RefCell<Option<Meddler>> = const { RefCell::new(None) };
}

type Meddled = HandleCache<Meddling, Noted>;

/// Works with the cache in the middle of its operations.
struct Meddler {
    cache: std::sync::Weak<Meddled>,
    chance: Chance,
    held: Vec<Held<Meddling, Noted>>,
    made: u64,
}

/// A key whose hash works with the cache.
#[derive(PartialEq, Eq)]
struct Meddling(u64);

impl std::hash::Hash for Meddling {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
        if let Some(mut meddler) = MEDDLES.take() {
            meddler.step();
            MEDDLES.set(Some(meddler));
        }
    }
}

impl Meddler {
    /// Numbers that the test itself does not use.
    fn make(&mut self) -> Noted {
        self.made += 1;
        Noted((1 << 32) + self.made)
    }

    fn step(&mut self) {
        let Some(cache) = self.cache.upgrade() else { return };
        let key = Meddling(self.chance.below(24));
        match self.chance.below(16) {
            0..3 => self.held.extend(cache.hold(&key)),
            3 | 4 => {
                let priority = any_priority(&mut self.chance);
                let inserted =
                    cache.insert_held_with(key, self.make(), 1 + self.made % 3, priority);
                self.held.extend(inserted.ok().map(|new| new.held));
            }
            5 => _ = cache.erase(&key),
            6 => _ = cache.set_capacity(self.chance.below(20)),
            7 => _ = cache.insert(key, self.make(), 1 + self.made % 3),
            8..12 if !self.held.is_empty() => {
                let at = self.chance.below(self.held.len() as u64) as usize;
                self.held.swap_remove(at);
            }
            12 if self.chance.below(20) == 0 => cache.clear(),
            _ => {}
        }
    }
}

/// Hashes that hold, release, insert, remove and change the capacity during an operation.
#[test]
fn a_hash_may_work_with_what_is_held() {
    for policy in POLICIES {
        for strict in [false, true] {
            DROPPED.with_borrow_mut(BTreeSet::clear);
            let builder = HandleCache::builder(16).policy(policy).strict(strict);
            let mut cache: std::sync::Arc<Meddled> = std::sync::Arc::new(builder.build());
            let (held, chance) = (Vec::new(), Chance(1));
            let meddler =
                Meddler { cache: std::sync::Arc::downgrade(&cache), chance, held, made: 0 };
            MEDDLES.set(Some(meddler));
            let mut chance = Chance(2);
            let (mut made, mut kept) = (0, Vec::new());
            for serial in 0..turns(STEPS / 4) {
                let key = Meddling(chance.below(24));
                match chance.below(8) {
                    0..3 => {
                        made += 1;
                        let priority = any_priority(&mut chance);
                        _ = cache.insert_with(key, Noted(serial), 1 + serial % 3, priority);
                    }
                    3 => _ = cache.erase(&key),
                    4 => _ = cache.set_capacity(chance.below(20)),
                    5 => kept.clear(),
                    _ => kept.extend(cache.hold(&key)),
                }
                let gone = DROPPED.with_borrow(|dropped| {
                    kept.iter().any(|held: &Held<_, Noted>| dropped.contains(&held.0))
                });
                assert!(!gone, "{policy}: what is held was dropped");
            }
            let meddler = MEDDLES.take().expect("it is in no hash");
            drop((kept, meddler.held, meddler.cache));
            validate(std::sync::Arc::get_mut(&mut cache).expect("nobody else has it"));
            assert_eq!(cache.held_usage(), 0, "{policy}");
            cache.clear();
            assert_eq!((cache.len(), cache.usage()), (0, 0), "{policy}");
            drop(cache);
            let dropped = DROPPED.with_borrow(|dropped| dropped.len() as u64);
            assert!(meddler.made > 0, "{policy}: hashes have made some");
            assert_eq!(dropped, made + meddler.made, "{policy}: each once");
        }
    }
}
