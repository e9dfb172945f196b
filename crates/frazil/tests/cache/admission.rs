//! The outcome of an insertion: admitted, replaced, or refused with a reason and with key and value
//! returned; and the calls of the listener.

use crate::extent::policies;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::tracked::{Census, Tracked};
use frazil::{Admitted, Cache, Cause, Compute, Freezing, Policy, Refusal};

fn weighed(policy: Policy, capacity: u64) -> Cache<u64, u64> {
    Cache::builder(capacity).policy(policy).weigher(|_, weight| *weight).build()
}

#[test]
fn an_insertion_says_what_it_did() {
    for policy in policies() {
        let cache = weighed(policy, 100);
        assert_eq!(cache.try_insert(1, 5), Ok(Admitted::New), "{policy}");
        assert_eq!(cache.try_insert(1, 6), Ok(Admitted::Replaced), "{policy}");
        let forever = Duration::MAX;
        assert_eq!(cache.try_insert_for(2, 5, forever), Ok(Admitted::New), "{policy}");
        assert_eq!(cache.try_insert_for(2, 6, forever), Ok(Admitted::Replaced), "{policy}");
        // An expired entry is absent.
        assert_eq!(cache.try_insert_for(2, 6, Duration::ZERO), Ok(Admitted::Replaced), "{policy}");
        assert_eq!(cache.try_insert(2, 6), Ok(Admitted::New), "{policy}");
        let refused = cache.try_insert(1, 101).expect_err("it is too heavy");
        let Refusal::TooHeavy = refused.reason else { panic!("{policy}: {refused:?}") };
        assert_eq!((refused.key, refused.value, cache.get(&1)), (1, 101, None), "{policy}");
        assert_eq!(cache.stats().refusals, 1, "{policy}");
    }
}

#[test]
fn a_refusal_says_why() {
    let none: Cache<u64, u64> = Cache::builder(0).build();
    assert_eq!(none.try_insert(1, 1).map_err(|refused| refused.reason), Err(Refusal::TooHeavy));

    // More than S3-FIFO's small queue.
    let small = weighed(Policy::S3Fifo, 100);
    (0..100).for_each(|key| small.insert(key, 1));
    let refused = small.try_insert(500, 50).expect_err("a tenth is what it takes");
    assert_eq!((refused.reason, refused.value), (Refusal::Unwanted, 50));

    let pinned: Cache<u64, u64> = Cache::builder(10).build();
    let pin = pinned.pin();
    let refused = (0..1_000).find_map(|key| {
        let outcome = pinned.try_insert(key, key);
        pin.get(&key);
        outcome.err()
    });
    let refused = refused.expect("the pin has shown all slots");
    assert_eq!((refused.reason, refused.key), (Refusal::NoRoom, refused.value));
    drop(pin);

    let frozen: Cache<u64, u64> = Cache::builder(10).freezing(Freezing::ByHand).build();
    (0..10).for_each(|key| frozen.insert(key, key));
    assert_eq!(frozen.freeze(1.0), 10);
    assert_eq!(frozen.try_insert(10, 1).map_err(|refused| refused.reason), Err(Refusal::NoRoom));
}

/// With any outcome a value belongs to its receiver or to the cache, and is dropped once.
#[test]
fn what_is_handed_back_is_dropped_by_its_receiver() {
    for policy in policies() {
        let census = Census::default();
        let cache: Cache<u64, Tracked<'_>> =
            Cache::builder(10).policy(policy).weigher(|key, _| *key).build();
        let mut handed_back = Vec::new();
        for key in (0..20).chain(0..20) {
            handed_back.extend(cache.try_insert(key, Tracked::new(&census, key)).err());
        }
        assert!(handed_back.len() >= 18, "{policy}: none above 10 is admitted");
        handed_back.iter().for_each(|refused| refused.value.check(refused.key));
        assert_eq!(cache.stats().refusals, handed_back.len() as u64, "{policy}");
        let returned = handed_back.len() as i64;
        drop(cache);
        assert_eq!(census.living(), returned, "{policy}");
        drop(handed_back);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

type Told = Arc<Mutex<Vec<(u64, u64, Cause)>>>;

/// A cache of values that are their weights, and the calls of its listener.
fn heard(capacity: u64) -> (Cache<u64, u64>, Told) {
    let told = Told::default();
    let hears = Arc::clone(&told);
    let cache = Cache::builder(capacity)
        .weigher(|_, weight| *weight)
        .listener(move |key, value, cause| hears.lock().unwrap().push((*key, *value, cause)))
        .build();
    (cache, told)
}

#[test]
fn a_listener_is_told_of_what_is_refused() {
    let (cache, told) = heard(30);
    let taken = || std::mem::take(&mut *told.lock().unwrap());
    type Operation = fn(&Cache<u64, u64>);
    let operations: [(&str, Operation); 6] = [
        ("insert", |cache| cache.insert(1, 31)),
        ("insert_for", |cache| cache.insert_for(1, 31, Duration::from_secs(9))),
        ("try_insert", |cache| {
            let refused = cache.try_insert(1, 31).expect_err("it is too heavy");
            assert_eq!((refused.key, refused.value), (1, 31));
        }),
        ("insert_many", |cache| cache.insert_many([(1, 31)])),
        ("a load", |cache| assert_eq!(cache.get_or_insert_with(&1, || 31), 31)),
        ("a computation", |cache| _ = cache.entry(1).and_compute(|_| Compute::Put(31))),
    ];
    for (name, operation) in operations {
        operation(&cache);
        assert_eq!(taken(), [(1, 31, Cause::Refused)], "{name}");
        if name == "a load" {
            continue;
        }
        cache.insert(1, 3);
        operation(&cache);
        let both = [(1, 3, Cause::Replaced), (1, 31, Cause::Refused)];
        assert_eq!(taken(), both, "{name}: and of what it would have replaced");
    }
    assert_eq!((cache.stats().refusals, cache.len()), (11, 0));
}

#[test]
fn each_refusal_is_told_once() {
    for policy in policies() {
        let census = Census::default();
        let refused = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&refused);
        let cache: Cache<u64, Tracked<'_>> = Cache::builder(40)
            .policy(policy)
            .weigher(|key, _| key % 50)
            .listener(move |key, value: &Tracked<'_>, cause| {
                value.check(*key);
                if cause == Cause::Refused {
                    hears.lock().unwrap().push(value.serial);
                }
            })
            .build();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (cache, census) = (&cache, &census);
                scope.spawn(move || {
                    for turn in 0..200 {
                        let key = (turn * 7 + thread) % 100;
                        cache.insert(key, Tracked::new(census, key));
                    }
                });
            }
        });
        let mut serials = std::mem::take(&mut *refused.lock().unwrap());
        let count = serials.len() as u64;
        assert_eq!(count, cache.stats().refusals, "{policy}");
        assert!(count >= 50, "{policy}: {count}");
        serials.sort_unstable();
        serials.dedup();
        assert_eq!(serials.len() as u64, count, "{policy}: one was told twice");
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

/// Refused insertions of the listener itself are not reported; otherwise it would never end.
#[test]
fn a_listener_that_is_refused_is_not_told_of_that() {
    let home: Arc<OnceLock<Weak<Cache<u64, u64>>>> = Arc::default();
    let (asked, told) = (Arc::clone(&home), Told::default());
    let hears = Arc::clone(&told);
    let listener = move |key: &u64, value: &u64, cause| {
        hears.lock().unwrap().push((*key, *value, cause));
        let home = asked.get().and_then(Weak::upgrade).expect("in use");
        if cause == Cause::Refused {
            assert!(home.try_insert(*key, *value).is_err());
            // Residencies that it ends are reported as usual.
            assert!(home.invalidate(&2));
        }
    };
    let cache =
        Arc::new(Cache::builder(30).weigher(|_, weight| *weight).listener(listener).build());
    assert!(home.set(Arc::downgrade(&cache)).is_ok());
    cache.insert(2, 20);
    assert_eq!(cache.try_insert(1, 31).map_err(|refused| refused.value), Err(31));
    assert_eq!(*told.lock().unwrap(), [(1, 31, Cause::Refused), (2, 20, Cause::Removed)]);
}

const PLANNED: &str = "a listener that panics, as planned";

/// The caller gets the panic, and not the entry, which is dropped.
#[test]
fn a_listener_that_panics_at_a_refusal_loses_nothing() {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&PLANNED) {
            silent(panic);
        }
    }));
    let census = Census::default();
    let cache: Cache<u64, Tracked<'_>> = Cache::builder(10)
        .weigher(|key, _| *key)
        .listener(|_, _, _| std::panic::panic_any(PLANNED))
        .build();
    let insert = |key| {
        let value = Tracked::new(&census, key);
        let insertion = std::panic::AssertUnwindSafe(|| drop(cache.try_insert(key, value)));
        std::panic::catch_unwind(insertion).map_err(|panic| *panic.downcast_ref().unwrap())
    };
    assert_eq!(insert(11), Err(PLANNED));
    assert_eq!(census.living(), 0);
    assert_eq!((insert(5), insert(11)), (Ok(()), Err(PLANNED)));
    assert_eq!((cache.stats().refusals, cache.len(), census.living()), (2, 1, 1));
    drop(cache);
    assert_eq!(census.living(), 0);
}
