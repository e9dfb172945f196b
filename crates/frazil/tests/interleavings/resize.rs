//! The capacity that changes while entries come and go, under chosen interleavings.
//!
//! Beside what `shuttle.rs` looks for: no bound is passed, neither the old one during a
//! call nor the new one after it, no credit is lost, and each residency is told once.
//! `cargo xtask check shuttle` runs both.

use std::collections::BTreeSet;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex};

use crate::extent::policies;
use crate::schedules::explore;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Cause, Policy};
use shuttle::rand::{RngCore, thread_rng};

const ROOM: u64 = 6;
const KEYS: u64 = 7;
const OPERATIONS: u64 = 4;
/// Schedules a policy and scheduler.
const SCHEDULES: u64 = 10_000;

/// The same hashes in every run, so that schedules can be played again.
type Hashes = BuildHasherDefault<DefaultHasher>;
type Tested<'c> = Cache<u64, Tracked<'c>, Hashes>;

fn write<'c>(cache: &Tested<'c>, census: &'c Census, mut chance: Chance) {
    for _ in 0..OPERATIONS {
        let key = chance.below(KEYS);
        match chance.below(8) {
            0 => _ = cache.invalidate(&key),
            1 => cache.retain(|key, value| {
                value.check(*key);
                key % 3 != 0
            }),
            2 => cache.get_many(&[key, key + 1]).iter().flatten().for_each(|found| {
                found.check(found.key);
            }),
            _ => cache.insert(key, Tracked::new(census, key)),
        }
    }
}

/// What a call answers is in force, unless another call came between.
fn resize(cache: &Tested<'_>, alone: bool, mut chance: Chance) {
    for _ in 0..2 {
        let before = cache.capacity();
        let wanted = chance.below(ROOM + 2);
        let found = cache.set_capacity(wanted);
        assert!(found <= ROOM + 1, "more than anyone wants");
        if alone {
            assert!(found >= wanted.min(ROOM) && found <= before.max(wanted));
            assert_eq!(cache.capacity(), found);
            // `len` does not show more than there may be: this is not made to fit.
            let weight = cache.weight_at_once().map_or(0, u64::cast_signed);
            assert!(weight <= found.cast_signed(), "{weight} of {found}");
        }
    }
}

/// One schedule: writers and those who change the capacity, on one cache.
fn play(policy: Policy) {
    let mut chance = Chance(thread_rng().next_u64());
    let census = Census::default();
    let told = Arc::new(Mutex::new(BTreeSet::new()));
    let heard = Arc::clone(&told);
    let builder =
        Cache::builder(ROOM).policy(policy).entries(ROOM).with_hasher(Hashes::default()).listener(
            move |key, value: &Tracked<'_>, cause| {
                value.check(*key);
                if cause == Cause::Refused {
                    return;
                }
                assert!(heard.lock().expect("no panic").insert(value.serial), "told twice");
            },
        );
    let mut cache: Tested<'_> =
        if chance.below(4) == 0 { builder.build() } else { builder.weigher(|_, _| 1).build() };
    (0..chance.below(ROOM)).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
    let writers = 1 + chance.below(2);
    shuttle::thread::scope(|scope| {
        let (cache, census) = (&cache, &census);
        for thread in 0..3 {
            let chance = Chance(chance.below(u64::MAX));
            if thread < writers {
                scope.spawn(move || write(cache, census, chance));
            } else {
                scope.spawn(move || resize(cache, writers == 2, chance));
            }
        }
    });
    // Nobody owns anything that could not be had.
    let wanted = chance.below(ROOM + 1);
    assert_eq!(cache.set_capacity(wanted), wanted);
    assert!(cache.len() as u64 <= wanted);
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    let stats = cache.stats();
    let ended = told.lock().expect("no panic").len() as u64;
    assert_eq!(stats.insertions + stats.replacements, cache.len() as u64 + ended);
    drop(cache);
    assert_eq!(census.living(), 0, "values lost or dropped twice");
}

#[test]
fn resize_against_eviction() {
    for policy in policies() {
        explore(SCHEDULES, move || play(policy));
    }
}
