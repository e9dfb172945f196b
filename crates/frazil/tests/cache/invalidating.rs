//! All entries invalidated at once.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crate::extent::{HANG_LIMIT, policies};
use crate::tracked::{Census, Tracked};
use frazil::{Admitted, Builder, Cache, Cause, Compute, Computed, Freezing, Policy};

const HOUR: Duration = Duration::from_secs(3600);

/// With lifetimes and without; by the system's clock, with which hints are used.
fn builders() -> [(&'static str, Builder<u64, u64>); 3] {
    [
        ("for ever", Cache::builder(100)),
        ("an hour", Cache::builder(100).time_to_live(HOUR)),
        ("an hour unused", Cache::builder(100).time_to_idle(HOUR)),
    ]
}

fn all() -> impl Iterator<Item = (Policy, &'static str, Cache<u64, u64>)> {
    policies().into_iter().flat_map(|policy| {
        builders().map(|(what, builder)| (policy, what, builder.policy(policy).build()))
    })
}

fn fill(cache: &Cache<u64, u64>) {
    for key in 0..50 {
        cache.insert(key, key);
        // Twice, so that the cache learns its deadline.
        assert_eq!((cache.get(&key), cache.get(&key)), (Some(key), Some(key)));
    }
}

#[test]
fn what_was_there_is_seen_by_nobody() {
    for (policy, what, mut cache) in all() {
        fill(&cache);
        cache.invalidate_all();
        let stats = cache.stats();
        assert!((0..50).all(|key| cache.peek(&key).is_none() && !cache.contains_key(&key)));
        assert_eq!((cache.iter().count(), cache.keys().count()), (0, 0), "{policy}, {what}");
        cache.for_each(|key, _| panic!("{policy}, {what}: {key}"));
        cache.retain(|key, _| panic!("{policy}, {what}: {key}"));
        fill(&cache);
        cache.invalidate_all();
        assert!(cache.hottest(50).is_empty() && cache.coldest(50).is_empty());
        assert_eq!((cache.lifetime_left(&1), cache.pin().peek(&1)), (None, None));
        assert_eq!((cache.get(&1), cache.pin().get(&2)), (None, None), "{policy}, {what}");
        assert_eq!(cache.get_many(&[3, 4]), [None, None]);
        assert_eq!((cache.remove(&5), cache.invalidate(&6)), (None, false));
        assert_eq!(cache.try_insert(7, 70), Ok(Admitted::New));
        let computed = cache.entry(8).and_compute(|old| {
            assert_eq!(old, None);
            Compute::Put(80)
        });
        assert_eq!((computed, cache.get_or_insert_with(&9, || 90)), (Computed::Inserted(80), 90));
        // New entries stay, while the old ones are removed.
        let is_there = || {
            (7..10).all(|key| cache.peek(&key) == Some(10 * key))
                && (7..10).all(|key| cache.get(&key) == Some(10 * key))
                && cache.iter().count() == 3
        };
        assert!(is_there(), "{policy}, {what}");
        // Insertions have removed some already.
        assert!(cache.purge() <= 41, "{policy}, {what}");
        assert_eq!((cache.purge(), cache.len()), (0, 3), "{policy}, {what}");
        assert!(is_there(), "{policy}, {what}");
        let after = cache.stats();
        assert_eq!((after.removals - stats.removals, after.expirations), (100, 0));
        assert_eq!((after.refusals, after.evictions), (0, 0));
        cache.validate().unwrap();
    }
}

type Use = fn(&Cache<u64, u64>, u64);

/// Ways to insert an absent key.
const WAYS: [(&str, Use); 3] = [
    ("insert", |cache, key| cache.insert(key, key)),
    ("get_or_insert_with", |cache, key| _ = cache.get_or_insert_with(&key, || key)),
    ("and_compute", |cache, key| _ = cache.entry(key).and_compute(|_| Compute::Put(key))),
];

/// Misses, round by round, of new keys requested in turn, after the cache was used much and
/// `forget` removed everything.
fn misses_after(policy: Policy, forget: fn(&Cache<u64, u64>), way: Use, listens: bool) -> [u64; 4] {
    const ENTRIES: u64 = 1_000;
    let builder = Cache::builder(ENTRIES).policy(policy);
    let cache = if listens { builder.listener(|_, _, _| ()).build() } else { builder.build() };
    for _ in 0..5 {
        for key in 0..ENTRIES {
            cache.get_or_insert_with(&key, || key);
        }
    }
    forget(&cache);
    let news = 2 * ENTRIES..2 * ENTRIES + ENTRIES * 8 / 10;
    [(); 4].map(|()| {
        let is_missed = |key: &u64| {
            let missed = cache.get(key).is_none();
            if missed {
                way(&cache, *key);
            }
            missed
        };
        news.clone().filter(is_missed).count() as u64
    })
}

/// Even the most used entries are evicted.
#[test]
fn what_is_new_finds_as_much_room_as_after_a_clear() {
    let policies = Policy::ALL.into_iter().map(|policy| (policy, WAYS[0], false));
    let ways = WAYS.into_iter().flat_map(|way| [false, true].map(|it| (Policy::Lfu, way, it)));
    for (policy, (way, put), listens) in policies.chain(ways) {
        let cleared = misses_after(policy, Cache::clear, put, listens);
        let invalidated = misses_after(policy, Cache::invalidate_all, put, listens);
        let case = format!("{policy}, {way}, with a listener: {listens}");
        println!("{case}: {cleared:?} after clear, {invalidated:?} after invalidate_all");
        let far = |(one, other): (&u64, &u64)| one.abs_diff(*other) > 40;
        let mut rounds = cleared.iter().zip(&invalidated);
        assert!(!rounds.any(far), "{case}: {cleared:?}, {invalidated:?}");
    }
}

/// One thread gets slots and allocates memory for them, while another's insertions look for
/// invalidated entries, slot by slot.
#[test]
fn slots_that_are_just_being_laid_out_are_nobodys_to_look_at() {
    // Large, so that allocation takes a while.
    type Page = [u64; 512];
    for round in 0..if cfg!(miri) { 2 } else { 2_000 } {
        let cache: Cache<u64, Page> = Cache::builder(8_192).policy(Policy::Lfu).build();
        let (cache, together) = (&cache, &Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                together.wait();
                // The next one takes slots 49 to 64, of which the last is the first of a chunk.
                (100..132).for_each(|key| cache.insert(key, [0; 512]));
                together.wait();
                cache.insert(132, [0; 512]);
            });
            cache.insert(1, [0; 512]);
            cache.invalidate_all();
            together.wait();
            together.wait();
            (0..round * 7 % 400).for_each(|_| std::hint::spin_loop());
            cache.invalidate_all();
            (2..7).for_each(|key| cache.insert(key, [0; 512]));
        });
    }
}

#[test]
fn what_was_invalidated_makes_room_and_is_told_as_removed() {
    for (policy, (what, builder)) in
        policies().into_iter().flat_map(|policy| builders().map(|builder| (policy, builder)))
    {
        let told = Arc::new(Mutex::new([0; 2]));
        let heard = Arc::clone(&told);
        let builder = builder.policy(policy).listener(move |key, _, cause| {
            let mut heard = heard.lock().unwrap();
            match cause {
                Cause::Removed => heard[0] += u64::from(*key < 50),
                Cause::Size => heard[1] += u64::from(*key < 50),
                _ => {}
            }
        });
        let mut cache: Cache<u64, u64> = builder.build();
        fill(&cache);
        cache.invalidate_all();
        assert_eq!((cache.len(), *told.lock().unwrap()), (50, [0, 0]), "{policy}, {what}");
        (1_000..3_000).for_each(|key| cache.insert(key, key));
        assert!(cache.len() <= 100);
        cache.purge();
        assert_eq!(*told.lock().unwrap(), [50, 0], "{policy}, {what}");
        cache.validate().unwrap();
    }
}

#[test]
fn weights_are_given_back() {
    let builder = Cache::builder(1_000).weigher(|_, weight| *weight);
    let mut cache: Cache<u64, u64> = builder.build();
    (0..10).for_each(|key| cache.insert(key, 50));
    cache.invalidate_all();
    assert_eq!((cache.weight(), cache.get(&1), cache.weight()), (500, None, 450));
    cache.insert(2, 10);
    cache.purge();
    assert_eq!((cache.weight(), cache.len()), (10, 1));
    cache.validate().unwrap();
}

#[test]
fn a_pin_keeps_what_it_has_shown() {
    let census = Census::default();
    let cache: Cache<u64, Tracked<'_>> = Cache::builder(100).build();
    (0..50).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
    let pin = cache.pin();
    let value = pin.get(&1).expect("it is there");
    cache.invalidate_all();
    assert!(pin.get(&1).is_none());
    cache.purge();
    value.check(1);
    drop(pin);
    cache.flush();
    assert_eq!(census.living(), 0);
}

/// Loads under way return their values, and store nothing.
#[test]
fn loads_under_way_are_not_stored() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let ((caught, arrived), (release, released)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let cache = &cache;
        let loader = scope.spawn(move || {
            cache.get_or_insert_with(&1, || {
                caught.send(()).expect("the test waits");
                _ = released.recv();
                10
            })
        });
        arrived.recv_timeout(HANG_LIMIT).expect("it loads");
        cache.invalidate_all();
        let (answer, answered) = channel();
        scope.spawn(move || answer.send(cache.get_or_insert_with(&1, || 11)));
        let answer = answered.recv_timeout(HANG_LIMIT);
        drop(release);
        assert_eq!(loader.join().expect("no panic"), 10);
        assert_eq!(answer, Ok(11), "it joins no load of before");
    });
    assert_eq!(cache.get(&1), Some(11));
}

/// A snapshot holds the present entries.
#[test]
fn a_snapshot_leaves_it_out() {
    let path = std::env::temp_dir().join(format!("frazil-invalidating-{}", std::process::id()));
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    fill(&cache);
    cache.invalidate_all();
    cache.insert(1, 11);
    let written = cache.snapshot(&path, |key, _, bytes| bytes.extend(key.to_le_bytes()));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(written.unwrap(), 1);
}

#[test]
fn a_cache_that_freezes_is_cleared() {
    for copies in [false, true] {
        let builder = Cache::<u64, u64>::builder(100);
        let mut cache = match copies {
            true => builder.freezing_copies(Freezing::ByHand).build(),
            false => builder.freezing(Freezing::ByHand).build(),
        };
        fill(&cache);
        assert_eq!(cache.freeze(1.0), 50);
        cache.invalidate_all();
        assert!((0..50).all(|key| cache.get(&key).is_none()) && cache.is_empty());
        fill(&cache);
        assert_eq!(cache.len(), 50);
        cache.validate().unwrap();
    }
}

/// A cache without a call has reserved nothing for it.
#[test]
fn it_costs_those_who_call_it() {
    let cache: Cache<u64, u64> = Cache::builder(1_000).time_to_live(HOUR).build();
    fill(&cache);
    let before = cache.reserved_bytes();
    cache.purge();
    assert_eq!(cache.reserved_bytes(), before);
    cache.invalidate_all();
    // Entries inserted from here on have a birth.
    fill(&cache);
    let bytes = cache.reserved_bytes() - before;
    assert!((200..10_000).contains(&bytes), "{bytes}");
    for _ in 0..100 {
        cache.invalidate_all();
    }
    assert_eq!(cache.reserved_bytes(), before + bytes);
}
