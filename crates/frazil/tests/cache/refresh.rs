//! Entries that one caller reloads before their lifetime is over, while others get the old value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::extent::policies;
use crate::tasks::{Signal, Tasks, block_on};
use frazil::{Cache, Cause, Compute, Computed, Fetching, OnError, Policy};

type Tested = Cache<u64, u64>;

/// Entries live for 60 seconds and are due for the last 15. And the time, in seconds.
fn cache(policy: Policy) -> (Tested, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let shown = Arc::clone(&time);
    let fetching = Fetching {
        on_error: OnError::Share,
        negative_ttl: Duration::from_secs(5),
        ..Fetching::default()
    };
    let cache = Cache::builder(100)
        .policy(policy)
        .fetching(fetching)
        .time_to_live(Duration::from_secs(60))
        .refresh_ahead(Duration::from_secs(15))
        .clock(move || Duration::from_secs(shown.load(Relaxed)))
        .build();
    (cache, time)
}

#[test]
fn one_loads_and_the_others_are_answered_at_once() {
    for policy in policies() {
        let (mut cache, time) = cache(policy);
        assert_eq!(cache.get_or_insert_with(&1, || 10), 10);
        time.fetch_add(44, Relaxed);
        assert!(!cache.is_due(&1), "{policy}");
        assert_eq!(cache.get_or_insert_with(&1, || unreachable!("fresh")), 10, "{policy}");
        time.fetch_add(1, Relaxed);
        assert!(cache.is_due(&1), "{policy}");
        let signal = Signal::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = Box::pin(cache.get_or_insert_async(&1, async {
            signal.given().await;
            11
        }));
        assert!(first.as_mut().poll(&mut context).is_pending());
        let unasked = || unreachable!("one loads already");
        for _ in 0..3 {
            assert_eq!(cache.get(&1), Some(10), "{policy}");
            assert_eq!(cache.get_or_insert_with(&1, unasked), 10, "{policy}");
            assert_eq!(cache.get_or_fetch_blocking(&1, || Err::<u64, _>(())), Ok(10), "{policy}");
            assert_eq!(cache.entry(1).or_insert_with(unasked), 10, "{policy}");
        }
        signal.give();
        assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(11), "{policy}");
        drop(first);
        assert_eq!((cache.get(&1), cache.is_due(&1)), (Some(11), false), "{policy}");
        let stats = cache.stats();
        assert_eq!((stats.loads, stats.replacements, cache.len()), (2, 1, 1), "{policy}");
        assert_eq!(cache.flights(), 0, "{policy}");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

#[test]
fn ten_thousand_tasks_fetch_once() {
    let (cache, time) = cache(Policy::default());
    cache.insert(1, 10);
    time.fetch_add(50, Relaxed);
    let (fetches, signal) = (AtomicU64::new(0), Signal::default());
    let mut tasks = Tasks::new();
    for number in 0..10_000 {
        let (cache, fetches, signal) = (&cache, &fetches, &signal);
        tasks.spawn(async move {
            if number == 9_999 {
                signal.give();
            }
            let fetch = async {
                fetches.fetch_add(1, Relaxed);
                signal.given().await;
                Ok::<_, ()>(11)
            };
            cache.get_or_fetch(&1, fetch).await
        });
    }
    let values = tasks.run();
    let fresh = values.iter().filter(|&value| *value == Ok(11)).count();
    assert_eq!((fetches.load(Relaxed), fresh), (1, 1));
    assert_eq!(values.iter().filter(|&value| *value == Ok(10)).count(), 9_999);
}

#[test]
fn who_fails_has_what_is_there_until_that_is_over() {
    let (cache, time) = cache(Policy::Lru);
    cache.insert(1, 10);
    time.fetch_add(50, Relaxed);
    let fails = || cache.get_or_fetch_blocking(&1, || Err("down"));
    assert_eq!(fails(), Ok(10));
    // No caller loads while the error is remembered.
    let unasked = || -> Result<u64, &str> { unreachable!("it is down") };
    assert_eq!(cache.get_or_fetch_blocking(&1, unasked), Ok(10));
    assert_eq!(cache.stats().load_failures, 1);
    time.fetch_add(6, Relaxed);
    assert_eq!((fails(), cache.stats().load_failures), (Ok(10), 2));
    // Its lifetime is over, loaded or not.
    time.fetch_add(10, Relaxed);
    assert_eq!(cache.get(&1), None);
    assert!(fails().is_err());
}

#[test]
fn a_loader_that_is_dropped_leaves_it_to_the_next() {
    let (cache, time) = cache(Policy::Lru);
    cache.insert(1, 10);
    time.fetch_add(50, Relaxed);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(cache.get_or_insert_async(&1, std::future::pending()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    // It waits for the load: the entry is absent for this caller, and for no other.
    drop(first);
    assert_eq!(cache.get_or_insert_with(&1, || 12), 12);
    assert_eq!((cache.get(&1), cache.flights()), (Some(12), 0));
}

/// A write during a reload stands, and a caller that misses meanwhile waits for the load.
#[test]
fn writes_outlast_what_is_loaded_anew() {
    let (cache, time) = cache(Policy::Lru);
    let mut context = Context::from_waker(Waker::noop());
    for (write, left) in [(Some(20), Some(20)), (None, None)] {
        cache.insert(1, 10);
        time.fetch_add(50, Relaxed);
        let signal = Signal::default();
        let mut first = Box::pin(cache.get_or_insert_async(&1, async {
            signal.given().await;
            11
        }));
        assert!(first.as_mut().poll(&mut context).is_pending());
        match write {
            Some(value) => cache.insert(1, value),
            None => _ = cache.invalidate(&1),
        }
        signal.give();
        assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(11));
        assert_eq!((cache.get(&1), cache.flights()), (left, 0));
    }
    cache.insert(1, 10);
    time.fetch_add(50, Relaxed);
    let signal = Signal::default();
    let mut first = Box::pin(cache.get_or_insert_async(&1, async {
        signal.given().await;
        11
    }));
    assert!(first.as_mut().poll(&mut context).is_pending());
    time.fetch_add(20, Relaxed);
    let mut second = Box::pin(cache.get_or_insert_async(&1, async { unreachable!() }));
    assert!(second.as_mut().poll(&mut context).is_pending());
    signal.give();
    assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(11));
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(11));
    assert_eq!((cache.get(&1), cache.flights()), (Some(11), 0));
}

/// The listener gets the replaced entry as replaced.
#[test]
fn a_listener_is_told_of_what_was_stale() {
    let told = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&told);
    let cache: Tested = Cache::builder(10)
        .refresh_ahead(Duration::from_secs(60))
        .listener(move |_, &value, cause| {
            assert_eq!((value, cause), (10, Cause::Replaced));
            counts.fetch_add(1, Relaxed);
        })
        .build();
    cache.insert(1, 10);
    assert!(!cache.is_due(&1), "it lives for ever");
    cache.insert_for(2, 10, Duration::from_secs(30));
    assert_eq!(cache.get_or_insert_with(&2, || 11), 11);
    assert_eq!(told.load(Relaxed), 1);
}

/// The word of an entry changes when the table is replaced by one with wider slots; the entry does
/// not.
#[test]
fn what_is_loaded_anew_is_stored_though_the_table_grows_meanwhile() {
    let cache: Tested = Cache::builder(1 << 20)
        .time_to_live(Duration::from_secs(60))
        .refresh_ahead(Duration::from_secs(30))
        .build();
    cache.insert_for(1, 10, Duration::from_secs(15));
    let grow = || (100..2_000).for_each(|key| cache.insert(key, key));
    let loaded = cache.get_or_insert_with(&1, || {
        grow();
        11
    });
    assert_eq!((loaded, cache.get(&1)), (11, Some(11)));
}

/// The same for an awaited computation: it is not called again for that.
#[test]
fn what_is_computed_is_asked_for_once_though_the_table_grows_meanwhile() {
    let cache: Tested = Cache::builder(1 << 20).build();
    cache.insert(1, 10);
    let mut asked = 0;
    let computed = block_on(cache.entry(1).and_compute_async(|count| {
        asked += 1;
        let cache = &cache;
        async move {
            (100..2_000).for_each(|key| cache.insert(key, key));
            Compute::Put(count.unwrap_or(0) + 1)
        }
    }));
    assert_eq!((computed, asked), (Computed::Replaced(11), 1));
}
