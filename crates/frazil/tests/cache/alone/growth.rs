//! A cache takes as much memory as what is in it, whatever its capacity.
//!
//! Alone in its process, because memory is counted for all of it; and one test, because tests run
//! at the same time.
#![cfg(not(any(loom, shuttle, miri)))]

#[path = "../../../examples/soak/counted.rs"]
mod counted;

use std::time::Duration;

use frazil::{Builder, Cache, Policy};

/// The cache, and what it takes, itself included.
fn built(builder: Builder<u64, u64>) -> (Cache<u64, u64>, u64) {
    let before = counted::bytes();
    let cache = builder.build();
    let heap = counted::bytes() - before;
    (cache, heap + size_of::<Cache<u64, u64>>() as u64)
}

fn an_empty_cache_takes_less_than_4_kb() {
    for policy in Policy::ALL {
        for capacity in [1, 100, 10_000, 1_000_000, 100_000_000, 1 << 40] {
            let builder = || Cache::builder(capacity).policy(policy);
            for (kind, builder) in [
                ("counted", builder()),
                ("weighed", builder().weigher(|_, _| 100)),
                ("with a lifetime", builder().time_to_live(Duration::from_secs(60))),
            ] {
                let (cache, bytes) = built(builder);
                assert!(bytes <= 4_096, "{policy}, {kind}, of {capacity}: {bytes} bytes");
                assert_eq!((cache.get(&1), cache.remove(&1), cache.len()), (None, None, 0));
            }
        }
    }
}

fn a_hundred_entries_take_little() {
    for policy in Policy::ALL {
        for capacity in [100, 1_000_000, 100_000_000] {
            let (cache, empty) = built(Cache::builder(capacity).policy(policy));
            let before = counted::bytes();
            (0..100).for_each(|key| cache.insert(key, key));
            let bytes = empty + counted::bytes() - before;
            // LHD's classes are a table of a fixed size.
            let most = if policy.to_string().contains("lhd") { 160_000 } else { 40_000 };
            assert!(bytes <= most, "{policy}, of {capacity}: {bytes} bytes");
        }
    }
}

fn one_entry_with_a_lifetime_takes_little() {
    let hour = Duration::from_secs(3_600);
    type Use = fn(&Cache<u64, u64>);
    let uses: [(&str, Use); 3] = [
        ("insert", |cache| cache.insert(1, 1)),
        ("insert_for", |cache| cache.insert_for(1, 1, Duration::from_secs(60))),
        ("invalidate_all", Cache::invalidate_all),
    ];
    for capacity in [100, 1_000_000, 100_000_000] {
        let lifetimes = [
            Cache::builder(capacity),
            Cache::builder(capacity).time_to_live(hour),
            Cache::builder(capacity).time_to_idle(hour).weigher(|_, _| 1),
        ];
        for builder in lifetimes {
            let what = format!("{builder:?}");
            let (cache, empty) = built(builder);
            for (name, act) in uses {
                let before = counted::bytes();
                act(&cache);
                let bytes = empty + counted::bytes() - before;
                assert!(bytes <= 70_000, "{name}, {what}: {bytes} bytes");
            }
        }
    }
}

fn address_space_follows_use() {
    let (cache, _) = built(Cache::builder(1 << 40).weigher(|_, _| 100));
    (0..100_000).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.len(), 100_000);
    assert!(cache.reserved_bytes() < 20_000_000, "{}", cache.reserved_bytes());
}

/// Each policy may refuse newcomers, but none before the weight is there.
fn entries_that_weigh_less_than_expected_fill_the_cache() {
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        // A weight of 256 was expected.
        let (cache, _) = built(Cache::builder(1 << 20).policy(policy).weigher(|_, _| 4));
        (0..300_000).for_each(|key| cache.insert(key, key));
        let (len, stats) = (cache.len() as u64, cache.stats());
        assert!((260_000..=262_144).contains(&len), "{policy}: {len} of 262,144, {stats:?}");
        assert_eq!(cache.weight(), 4 * len, "{policy}");
    }
}

#[test]
fn memory_grows_with_what_is_in_it() {
    an_empty_cache_takes_less_than_4_kb();
    a_hundred_entries_take_little();
    one_entry_with_a_lifetime_takes_little();
    address_space_follows_use();
    entries_that_weigh_less_than_expected_fill_the_cache();
}
