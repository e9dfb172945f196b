//! The tests of moka's folder `tests`: many threads or tasks at once.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread::spawn;
use std::time::Duration;

use frazil::{Compute, Computed, Policy};

use super::adapter::{Cache, Expiry, Shape};
use crate::tasks::{Tasks, turn};

const THREADS: u64 = 16;
const KEY: &str = "key1";

/// Requests in one of four ways, by number.
type Ask = fn(&Cache<u64, String>, u64, &dyn Fn() -> String) -> String;

/// All threads request at once, each in one of the ways; one of them loads.
fn one_loads(shape: Shape, ask: Ask) {
    let cache = Cache::<u64, String>::new(shape, 100);
    let (calls, barrier) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(THREADS as usize)));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (cache, calls, barrier) = (cache.clone(), Arc::clone(&calls), Arc::clone(&barrier));
            spawn(move || {
                barrier.wait();
                let load = || {
                    calls.fetch_add(1, SeqCst);
                    // Ten megabytes, as in theirs.
                    String::from_utf8(vec![b'.'; 10 << 20]).expect("points")
                };
                assert_eq!(ask(&cache, thread % 4, &load).len(), 10 << 20);
                assert!(cache.contains_key(&1));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(calls.load(SeqCst), 1, "loads of {KEY}");
}

pub(super) fn test_get_with(shape: Shape) {
    one_loads(shape, |cache, way, load| match way {
        0 => cache.get_with(1, load),
        1 => cache.get_with_by_ref(&1, load),
        2 => cache.ours().entry(1).or_insert_with(load),
        _ => cache.ours().entry(1).or_insert_with(load),
    });
}

pub(super) fn test_optionally_get_with(shape: Shape) {
    one_loads(shape, |cache, _, load| {
        cache.optionally_get_with(&1, || Some(load())).expect("there is one")
    });
}

pub(super) fn test_try_get_with(shape: Shape) {
    one_loads(shape, |cache, way, load| match way {
        0 | 1 => cache.try_get_with(&1, || Ok::<_, String>(load())).expect("no error"),
        _ => {
            cache.ours().entry(1).or_try_insert_with(|| Ok::<_, String>(load())).expect("no error")
        }
    });
}

/// The same with four tasks a thread; a load takes several turns.
fn one_task_loads(ask: AskAsync) {
    let cache = Cache::<u64, String>::new(Shape::Future, 100);
    let (calls, barrier) = (Arc::new(AtomicU64::new(0)), Arc::new(Barrier::new(4)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (cache, calls, barrier) = (cache.clone(), Arc::clone(&calls), Arc::clone(&barrier));
            spawn(move || {
                barrier.wait();
                let mut tasks = Tasks::new();
                for _ in 0..4 {
                    tasks.spawn(async {
                        assert_eq!(ask(&cache, &calls).await, "loaded");
                        assert!(cache.contains_key(&1));
                    });
                }
                tasks.run();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(calls.load(SeqCst), 1);
}

type AskAsync = for<'c> fn(
    &'c Cache<u64, String>,
    &'c AtomicU64,
) -> std::pin::Pin<Box<dyn Future<Output = String> + 'c>>;

async fn load(calls: &AtomicU64) -> String {
    calls.fetch_add(1, SeqCst);
    for _ in 0..10 {
        turn().await;
    }
    "loaded".to_owned()
}

pub(super) fn test_get_with_tokio() {
    one_task_loads(|cache, calls| Box::pin(cache.get_with_async(&1, load(calls))));
}

pub(super) fn test_optionally_get_with_tokio() {
    one_task_loads(|cache, calls| {
        Box::pin(async {
            let load = async { Some(load(calls).await) };
            cache.optionally_get_with_async(&1, load).await.expect("there is one")
        })
    });
}

pub(super) fn test_try_get_with_tokio() {
    one_task_loads(|cache, calls| {
        Box::pin(async {
            let load = async { Ok::<_, String>(load(calls).await) };
            cache.try_get_with_async(&1, load).await.expect("no error")
        })
    });
}

/// Additions are all counted. Their function is `async`, but awaits nothing.
pub(super) fn test_and_compute_with_concurrent_atomicity() {
    let cache = Cache::<u64, u64>::new(Shape::Future, 100);
    cache.insert(1, 0);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let cache = cache.clone();
            spawn(move || {
                for _ in 0..100 {
                    let add = |value: Option<&u64>| {
                        value.map_or(Compute::Keep, |value| Compute::Put(value + 1))
                    };
                    while !matches!(cache.and_compute_with(1, add), Computed::Replaced(_)) {}
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(cache.get(&1), Some(800));
}

/// Recurring keys among keys that come once: the bound holds in the end.
pub(super) fn eviction_converges_under_concurrent_key_reuse(shape: Shape) {
    const CAPACITY: u64 = 160;
    let cache = Cache::<u64, u64>::builder(shape)
        .max_capacity(CAPACITY << 16)
        .weigher(|_, &value| value)
        .eviction_policy(Policy::Lru)
        .build();
    let barrier = Arc::new(Barrier::new(20));
    let threads: Vec<_> = (0..20)
        .map(|thread| {
            let (cache, barrier) = (cache.clone(), Arc::clone(&barrier));
            spawn(move || {
                barrier.wait();
                for i in 0..1_000 {
                    let key = if thread < 10 { i % 500 } else { (thread + 1) * 1_000_000 + i };
                    cache.insert(key, 1 << 16);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    cache.run_pending_tasks();
    assert!(cache.weighted_size() <= CAPACITY << 16, "{}", cache.weighted_size());
    assert!(cache.entry_count() <= CAPACITY, "{}", cache.entry_count());
}

/// Tasks and threads write and read their own keys, and remove each fourth.
pub(super) fn main() {
    const EACH: u64 = 64;
    let cache = Cache::<u64, String>::new(Shape::Future, 10_000);
    let value = |key: u64| format!("value {key}");
    let barrier = Barrier::new(5);
    let work = |i: u64| {
        for key in i * EACH..(i + 1) * EACH {
            cache.insert(key, value(key));
            assert_eq!(cache.get(&key), Some(value(key)));
        }
        (i * EACH..(i + 1) * EACH).step_by(4).for_each(|key| cache.invalidate(&key));
    };
    std::thread::scope(|scope| {
        let (work, barrier) = (&work, &barrier);
        (12..16).for_each(|i| {
            scope.spawn(move || {
                barrier.wait();
                work(i);
            });
        });
        barrier.wait();
        let mut tasks = Tasks::new();
        (0..12).for_each(|i| {
            tasks.spawn(async move {
                turn().await;
                work(i);
            })
        });
        tasks.run();
    });
    for key in 0..16 * EACH {
        assert_eq!(cache.get(&key), (key % 4 != 0).then(|| value(key)));
    }
}

/// Odd values live briefly, even ones for ever.
struct OddOnes;

impl Expiry<u64, u64> for OddOnes {
    fn after_create(&self, _: &u64, value: &u64) -> Option<Duration> {
        (value % 2 == 1).then_some(Duration::from_millis(1))
    }

    fn after_update(&self, key: &u64, value: &u64, _: Option<Duration>) -> Option<Duration> {
        self.after_create(key, value)
    }
}

/// Each write sets or removes a lifetime, while others read and expired entries are removed. Theirs
/// writes for five seconds, or a minute; ours for `rounds` rounds.
fn lifetimes_come_and_go(threads: u64, rounds: u64, invalidates: bool) {
    let cache = Cache::<u64, u64>::builder(Shape::Sync)
        .expire_after(OddOnes)
        .time_to_idle(Duration::from_secs(240))
        .max_capacity(10_000)
        .build();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let cache = &cache;
            scope.spawn(move || {
                for operation in 0..rounds * 100 {
                    let key = operation % 100 + thread * 10_000;
                    cache.insert(key, 1);
                    cache.insert(key, operation * 2);
                    if operation % 3 == 0 {
                        cache.insert(key, 3);
                    }
                    if invalidates && operation % 7 == 0 {
                        cache.invalidate(&key);
                    }
                }
            });
            scope.spawn(move || {
                for operation in 0..rounds * 100 {
                    cache.get(&(operation % 100 + operation % threads * 10_000));
                }
            });
        }
        (0..rounds).for_each(|_| cache.run_pending_tasks());
    });
}

pub(super) fn test_timer_wheel_panic() {
    lifetimes_come_and_go(4, 20, false);
}

pub(super) fn stress_test_timer_wheel_panic() {
    lifetimes_come_and_go(8, 20, true);
}
