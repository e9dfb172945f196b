//! A cache's memory depends on its entries, not on its capacity.
//!
//! Alone in its process, because it has an allocator of its own. Each thread counts its own bytes:
//! the thread that began the test allocates too.
#![cfg(not(any(loom, shuttle, miri)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use frazil::{Builder, Cache, Policy};

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

thread_local! {
    /// Bytes that this thread has allocated, minus those freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    BYTES.with(|sum| sum.set(sum.get() + bytes));
}

// SAFETY: every call goes to the system's allocator, with its layout unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes that `work` allocates and keeps, and its result.
fn growth<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = BYTES.with(Cell::get);
    let result = work();
    let grown = BYTES.with(Cell::get) - before;
    (result, u64::try_from(grown).expect("nothing is freed that was there before"))
}

/// The cache, and its bytes, itself included.
fn built(builder: Builder<u64, u64>) -> (Cache<u64, u64>, u64) {
    let (cache, heap) = growth(|| builder.build());
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
            let ((), grown) = growth(|| (0..100).for_each(|key| cache.insert(key, key)));
            let bytes = empty + grown;
            // LHD has a table for each class that it has met, and guarded-mad two LHDs.
            let most = match policy.to_string() {
                name if name.contains("lhd") => 50_000,
                name if name == "guarded-mad" => 80_000,
                _ => 40_000,
            };
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
                let ((), grown) = growth(|| act(&cache));
                let bytes = empty + grown;
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

/// Each policy may refuse new entries, but only after the weight is reached.
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
