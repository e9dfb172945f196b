//! Visits of all entries: in place, in steps, cloned, as keys, and as `Debug` output.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use crate::extent::policies;
use crate::tracked::{Census, Tracked};
use frazil::Cache;

fn tenfold(cache: &Cache<u64, u64>) {
    (0..100).for_each(|key| cache.insert(key, 10 * key));
}

#[test]
fn every_way_round_shows_the_same() {
    for policy in policies() {
        let cache: Cache<u64, u64> = Cache::builder(100).policy(policy).build();
        tenfold(&cache);
        cache.insert_for(3, 33, Duration::ZERO);
        let mut shown = BTreeMap::new();
        cache.for_each(|&key, &value| assert_eq!(shown.insert(key, value), None, "{policy}"));
        assert!(!shown.contains_key(&3), "{policy}: it has expired");
        assert_eq!(shown.len(), 99, "{policy}");
        let cloned: BTreeMap<u64, u64> = (&cache).into_iter().collect();
        assert_eq!(cloned, shown, "{policy}");
        let keys: Vec<u64> = cache.keys().collect();
        assert_eq!(keys.len(), 99, "{policy}");
        let keys: BTreeSet<u64> = keys.into_iter().collect();
        assert!(keys.iter().eq(shown.keys()), "{policy}");
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses), (0, 0), "{policy}: no request");
    }
}

#[test]
fn a_scan_shows_what_is_there_throughout() {
    for policy in policies() {
        let cache: Cache<u64, u64> = Cache::builder(50_000).policy(policy).build();
        let (mut shown, mut steps, mut inserted, mut cursor) = (BTreeMap::new(), 0, 0, Some(0));
        while let Some(at) = cursor {
            // The table grows during the visit. Entries inserted meanwhile may be shown or not.
            if inserted < 20_000 {
                let more = if inserted == 0 { 1_000 } else { 100 };
                (inserted..inserted + more).for_each(|key| cache.insert(key, 10 * key));
                inserted += more;
            }
            cursor = cache.scan(at, |&key, &value| {
                assert_eq!(value, 10 * key, "{policy}");
                *shown.entry(key).or_insert(0) += 1;
            });
            assert!(cursor.is_none_or(|next| next >= at), "{policy}");
            steps += 1;
        }
        assert!((0..1_000).all(|key| shown.contains_key(&key)), "{policy}");
        let again = shown.values().filter(|&&times| times > 1).count();
        assert!(again < 100, "{policy}: {again} shown more than once");
        assert!((100..20_000).contains(&steps), "{policy}: {steps}");
        assert_eq!(cache.stats().hits, 0, "{policy}: no request");
    }
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    assert_eq!(cache.scan(0, |_, _| panic!("nothing is there")), None);
    assert_eq!(cache.scan(u64::MAX, |_, _| panic!("nothing is there")), None);
}

#[test]
fn a_walk_ends_where_it_is_broken_off() {
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    tenfold(&cache);
    let mut shown = 0;
    let found = cache.try_for_each(|_, &value| {
        shown += 1;
        if value >= 500 { ControlFlow::Break(value) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(found, ControlFlow::Break(500..)));
    assert!(shown <= 51, "{shown}");
    let all: ControlFlow<()> = cache.try_for_each(|_, _| ControlFlow::Continue(()));
    assert_eq!(all, ControlFlow::Continue(()));
}

/// It sees each entry in place, which stays readable although it is removed meanwhile.
#[test]
fn what_is_shown_may_change_the_cache() {
    for policy in policies() {
        let census = Census::default();
        let cache: Cache<u64, Tracked<'_>> = Cache::builder(200).policy(policy).build();
        (0..100).for_each(|key| cache.insert(key, Tracked::new(&census, key)));
        cache.for_each(|key, value| {
            assert!(cache.invalidate(key));
            cache.insert(1_000 + key, Tracked::new(&census, 1_000 + key));
            (0..3).for_each(|_| _ = cache.get(key));
            value.check(*key);
            if *key >= 1_000 {
                cache.insert(*key, Tracked::new(&census, *key));
            }
            assert!(census.living() <= 1_000);
            if cache.len() > 150 {
                cache.clear();
            }
        });
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

#[test]
fn a_walk_that_panics_leaves_the_cache_at_work() {
    let mut cache: Cache<u64, u64> = Cache::builder(100).build();
    tenfold(&cache);
    let walk = || cache.for_each(|key, _| assert_ne!(*key, 50, "as planned"));
    assert!(catch_unwind(AssertUnwindSafe(walk)).is_err());
    // No pin is left that would hold entries up.
    (0..5_000).for_each(|key| cache.insert(key, key));
    assert_eq!((cache.len(), cache.stats().refusals), (100, 0));
    cache.validate().unwrap();
}

#[test]
fn entries_may_be_added_as_to_a_collection() {
    let mut cache: Cache<u64, u64> = Cache::builder(100).build();
    cache.extend((0..10).map(|key| (key, key)));
    let shared = &cache;
    std::thread::scope(|scope| {
        for thread in 1..3 {
            let mut shared = shared;
            scope.spawn(move || shared.extend((0..10).map(|key| (10 * thread + key, key))));
        }
    });
    assert_eq!(cache.len(), 30);
}

#[test]
fn a_cache_is_collected_with_room_for_all() {
    for count in [0, 1, 7, 1_000, 10_000] {
        let mut cache: Cache<u64, u64> = (0..count).map(|key| (key, key)).collect();
        assert_eq!((cache.len() as u64, cache.capacity()), (count, count));
        assert!((0..count).all(|key| cache.get(&key) == Some(key)));
        cache.validate().unwrap();
    }
    let twice: Cache<u64, u64> = [(1, 1), (2, 2), (1, 3)].into_iter().collect();
    assert_eq!((twice.get(&1), twice.len()), (Some(3), 2));
}

#[test]
fn a_cache_is_written_as_a_map() {
    let cache: Cache<u64, String> = Cache::builder(100).build();
    assert_eq!(format!("{cache:?}"), "{}");
    (0..3).for_each(|key| cache.insert(key, format!("value {key}")));
    let written = format!("{cache:?}");
    for key in 0..3 {
        assert!(written.contains(&format!("{key}: \"value {key}\"")), "{written}");
    }
    let values: Cache<u64, Mutex<u64>> = Cache::builder(100).build();
    values.insert(1, Mutex::new(2));
    assert!(format!("{values:?}").starts_with("{1: Mutex"), "values need not be cloned");
}
