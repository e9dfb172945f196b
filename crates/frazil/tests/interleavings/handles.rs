//! Held values against evictions, removals, replacements, the capacity and the end of the cache,
//! under chosen interleavings.
//!
//! A held value stays unchanged; a look-up finds held entries that were not removed; each value is
//! dropped once, and none waits at the end.

use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::schedules::explore;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Freezing, HandleCache, Held, Policy, Priority};
use shuttle::rand::{RngCore, thread_rng};

const ROOM: u64 = 5;
const KEYS: u64 = 6;
const OPERATIONS: u64 = 5;
/// Schedules a policy and scheduler.
const SCHEDULES: u64 = 20_000;

const POLICIES: [Policy; 5] =
    [Policy::Fifo, Policy::Clock { bits: 2 }, Policy::Mobius, Policy::S3Fifo, Policy::Lru];

/// The same hashes in every run, so that schedules can be played again.
type Hashes = BuildHasherDefault<DefaultHasher>;
type Tested<'c> = HandleCache<u64, Tracked<'c>, Hashes>;
type Handle<'c> = Held<u64, Tracked<'c>, Hashes>;

/// The work of one thread, which freezes and thaws if the cache `freezes`. Returns its handles.
fn work<'c>(
    cache: &Tested<'c>,
    census: &'c Census,
    mut chance: Chance,
    freezes: bool,
) -> Vec<Handle<'c>> {
    let mut held: Vec<Handle<'c>> = Vec::new();
    for _ in 0..OPERATIONS {
        let key = chance.below(KEYS);
        let value = || Tracked::new(census, key);
        let priority = [Priority::Bottom, Priority::Low, Priority::High][chance.below(3) as usize];
        match chance.below(if freezes { 17 } else { 13 }) {
            13..16 => _ = cache.freeze([0.5, 1.0][chance.below(2) as usize]),
            16 => cache.thaw(),
            0..4 => held.extend(cache.hold(&key)),
            4 | 5 => {
                let new = cache.insert_held_with(key, value(), 1, priority);
                held.extend(new.ok().map(|new| new.held));
            }
            6 => _ = cache.insert_with(key, value(), 1, priority),
            7 => _ = cache.erase(&key),
            8 => _ = cache.set_capacity(chance.below(ROOM + 1)),
            12 => held.iter().for_each(|held| cache.spread(held)),
            9 => held.extend(held.last().cloned()),
            _ if !held.is_empty() => {
                let gone = held.swap_remove(chance.below(held.len() as u64) as usize);
                gone.check(*gone.key());
            }
            _ => {}
        }
        held.iter().for_each(|held| held.check(*held.key()));
    }
    held
}

fn play(policy: Policy, freezes: bool) {
    let mut chance = Chance(thread_rng().next_u64());
    let census = Census::default();
    let strict = chance.below(2) == 0;
    let builder = HandleCache::builder(ROOM).policy(policy).strict(strict);
    let freezing = if freezes { Freezing::ByHand } else { Freezing::Never };
    let builder = builder.freezing(freezing).with_hasher(Hashes::default());
    let mut cache: Tested<'_> = builder.build();
    (0..chance.below(ROOM)).for_each(|key| _ = cache.insert(key, Tracked::new(&census, key), 1));
    let held: Vec<Vec<Handle<'_>>> = shuttle::thread::scope(|scope| {
        let (cache, census) = (&cache, &census);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let chance = Chance(chance.below(u64::MAX));
                scope.spawn(move || work(cache, census, chance, freezes))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mut serials: Vec<u64> = held.iter().flatten().map(|held| held.serial).collect();
    serials.sort_unstable();
    serials.dedup();
    assert_eq!(cache.held_usage(), serials.len() as u64, "{policy}");
    assert_eq!(cache.usage() as i64, census.living(), "{policy}: what waits");
    cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
    if chance.below(2) == 0 {
        // The cache is dropped while handles are.
        shuttle::thread::scope(|scope| {
            held.into_iter().for_each(|held| _ = scope.spawn(move || drop(held)));
            drop(cache);
        });
    } else {
        drop(held);
        assert_eq!((cache.held_usage(), cache.usage() as i64), (0, census.living()), "{policy}");
        cache.clear();
        assert_eq!((cache.usage(), census.living()), (0, 0), "{policy}");
        cache.set_capacity(ROOM);
        (0..ROOM).for_each(|key| {
            let admitted = cache.insert(key, Tracked::new(&census, key), 1);
            assert!(admitted.is_ok(), "{policy}: there is room again");
        });
        cache.validate().unwrap_or_else(|findings| panic!("{policy}: {findings}"));
        drop(cache);
    }
    assert_eq!(census.living(), 0, "{policy}: values lost or dropped twice");
}

#[test]
fn handles_against_all_else() {
    for policy in POLICIES {
        explore(SCHEDULES, move || play(policy, false));
    }
}

#[test]
fn handles_against_all_else_while_some_is_frozen() {
    for policy in POLICIES {
        explore(SCHEDULES, move || play(policy, true));
    }
}

/// Lowering the capacity thaws, and may happen while all entries are being frozen.
#[test]
fn the_capacity_falls_though_all_is_being_frozen() {
    for policy in [Policy::Mobius, Policy::Lru] {
        explore(SCHEDULES, move || {
            let builder = HandleCache::builder(4).policy(policy).freezing(Freezing::ByHand);
            let cache: HandleCache<u64, u64, Hashes> =
                builder.with_hasher(Hashes::default()).build();
            (0..4).for_each(|key| _ = cache.insert(key, key, 1));
            shuttle::thread::scope(|scope| {
                scope.spawn(|| _ = cache.freeze(1.0));
                scope.spawn(|| _ = cache.set_capacity(2));
            });
            (10..14).for_each(|key| _ = cache.insert(key, key, 1));
            assert!(cache.usage() <= 2, "{policy}: {}", cache.usage());
        });
    }
}

/// One of two threads that release the same entry at once ends its residency, if usage exceeds the
/// capacity or the release requests it.
#[test]
fn one_of_two_releases_finds_that_it_is_the_last() {
    for erases in [false, true] {
        explore(SCHEDULES, move || {
            let builder = HandleCache::builder(1).with_hasher(Hashes::default());
            let cache: HandleCache<u64, u64, Hashes> = builder.build();
            let _first = (!erases).then(|| cache.insert_held(1, 10, 1).expect("it is not strict"));
            let held = cache.insert_held(2, 20, 1).expect("it is not strict").held;
            let other = held.clone();
            let dropped = shuttle::thread::scope(|scope| {
                let releases =
                    [held, other].map(|held| scope.spawn(|| cache.release(held, erases)));
                releases.map(|thread| thread.join().expect("no panic"))
            });
            assert!(dropped[0] != dropped[1], "{erases}: {dropped:?}");
            assert_eq!((cache.usage(), cache.hold(&2).is_some()), (u64::from(!erases), false));
        });
    }
}
