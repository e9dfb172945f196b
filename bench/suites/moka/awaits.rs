//! Tasks of one thread that request keys while they are loaded.

use std::cell::Cell;

use frazil::{Compute, Computed};

use super::adapter::{Cache, Shape};
use super::basics;
use super::loads::{COMPUTED, Does, Shared, TRIED, expect_computed, expect_tried};
use crate::tasks::{Tasks, block_on, turn};
use crate::wait::Gate;

type Words = Cache<u64, &'static str>;

const KEY: u64 = 0;

/// Turns after which all other tasks wait.
async fn all_wait() {
    for _ in 0..4 {
        turn().await;
    }
}

pub(super) fn futures_are_send() {
    fn is_send(_: impl Send) {}
    let cache = Words::new(Shape::Future, 1);
    is_send(cache.get_with_async(&KEY, async { "" }));
    is_send(cache.try_get_with_async(&KEY, async { Err(()) }));
    is_send(cache.optionally_get_with_async(&KEY, async { None }));
    is_send(cache.or_insert_with_if_async(KEY, async { "" }, |_| false));
    is_send(cache.and_compute_with_async(KEY, |_| async { Compute::Keep }));
    // All other operations are no futures in ours.
}

/// The operations of one thread, in a task.
pub(super) fn basic_single_async_task() {
    let mut tasks = Tasks::new();
    tasks.spawn(async { basics::basic_single_thread(Shape::Future) });
    tasks.run();
}

pub(super) fn get_with() {
    let (begun, may_end) = (Gate::default(), Gate::default());
    let cache = Words::new(Shape::Future, 100);
    let mut tasks = Tasks::new();
    tasks.spawn(async {
        let load = async {
            begun.open();
            may_end.passed().await;
            "task 1"
        };
        assert_eq!(cache.get_with_async(&KEY, load).await, "task 1");
    });
    tasks.spawn(async {
        begun.passed().await;
        let load = async { unreachable!() };
        assert_eq!(cache.get_with_async(&KEY, load).await, "task 1");
    });
    tasks.spawn(async {
        begun.passed().await;
        assert_eq!(cache.get(&KEY), None);
        all_wait().await;
        may_end.open();
    });
    tasks.run();
    let later = block_on(cache.get_with_async(&KEY, async { unreachable!() }));
    assert_eq!((later, cache.get(&KEY)), ("task 1", Some("task 1")));
}

pub(super) fn entry_or_insert_with_if() {
    let (begun, may_end) = (Gate::default(), Gate::default());
    let cache = Words::new(Shape::Future, 100);
    let mut tasks = Tasks::new();
    tasks.spawn(async {
        let load = async {
            begun.open();
            may_end.passed().await;
            "task 1"
        };
        let loaded = cache.or_insert_with_if_async(KEY, load, |_| unreachable!()).await;
        assert_eq!(loaded, ("task 1", true));
    });
    tasks.spawn(async {
        begun.passed().await;
        let load = async { unreachable!() };
        let shared = cache.or_insert_with_if_async(KEY, load, |_| unreachable!()).await;
        assert_eq!(shared, ("task 1", false));
    });
    tasks.spawn(async {
        begun.passed().await;
        assert_eq!(cache.get(&KEY), None);
        all_wait().await;
        may_end.open();
    });
    tasks.run();
    let is_to_go = |answer| {
        move |value: &&str| {
            assert_eq!(*value, "task 1");
            answer
        }
    };
    let kept = cache.or_insert_with_if_async(KEY, async { unreachable!() }, is_to_go(false));
    assert_eq!(block_on(kept), ("task 1", false));
    let replaced = cache.or_insert_with_if_async(KEY, async { "task 4" }, is_to_go(true));
    assert_eq!(block_on(replaced), ("task 4", true));
    assert_eq!(cache.get(&KEY), Some("task 4"));
}

/// Requests with a loader that may have no value, as an error or as none.
async fn ask(
    cache: &Words,
    as_error: bool,
    load: impl Future<Output = Option<&'static str>>,
) -> Option<&'static str> {
    if as_error {
        let load = async { load.await.ok_or("an error") };
        cache.try_get_with_async(&KEY, load).await.ok()
    } else {
        cache.optionally_get_with_async(&KEY, load).await
    }
}

fn shares_failures(as_error: bool) {
    let cache = Words::new(Shape::Future, 100);
    for outcome in [None, Some("task 3")] {
        let (begun, may_end) = (Gate::default(), Gate::default());
        let mut tasks = Tasks::new();
        tasks.spawn(async {
            let load = async {
                begun.open();
                may_end.passed().await;
                outcome
            };
            assert_eq!(ask(&cache, as_error, load).await, outcome);
        });
        tasks.spawn(async {
            begun.passed().await;
            assert_eq!(ask(&cache, as_error, async { unreachable!() }).await, outcome);
        });
        tasks.spawn(async {
            begun.passed().await;
            assert_eq!(cache.get(&KEY), None);
            all_wait().await;
            may_end.open();
        });
        tasks.run();
        assert_eq!(cache.get(&KEY), outcome);
    }
    let later = ask(&cache, as_error, async { unreachable!() });
    assert_eq!(block_on(later), Some("task 3"));
}

pub(super) fn try_get_with() {
    shares_failures(true);
}

pub(super) fn optionally_get_with() {
    shares_failures(false);
}

/// If a loader panics in a task, the next task loads.
fn handle_panic(as_error: bool) {
    let cache = Words::new(Shape::Future, 16);
    let begun = Gate::default();
    let panicking = {
        let (cache, begun) = (cache.clone(), begun.clone());
        std::thread::spawn(move || {
            let load = async {
                begun.open();
                turn().await;
                panic!("a loader that panics")
            };
            block_on(ask(&cache, as_error, load))
        })
    };
    begun.pass();
    assert_eq!(block_on(ask(&cache, as_error, async { Some("5") })), Some("5"));
    assert!(panicking.join().is_err());
}

pub(super) fn handle_panic_in_get_with() {
    handle_panic(false);
}

pub(super) fn handle_panic_in_try_get_with() {
    handle_panic(true);
}

/// If a task is dropped while it loads, the next task loads.
fn abort(as_error: bool) {
    let cache = Words::new(Shape::Future, 16);
    let has_begun = Cell::new(false);
    let mut tasks = Tasks::new();
    tasks.spawn(async {
        let load = async {
            has_begun.set(true);
            std::future::pending().await
        };
        ask(&cache, as_error, load).await
    });
    tasks.spawn(async { ask(&cache, as_error, async { Some("5") }).await });
    tasks.poll_woken();
    assert!(has_begun.get());
    tasks.cancel(0);
    assert_eq!(tasks.run(), [Some("5")]);
}

pub(super) fn abort_get_with() {
    abort(false);
}

pub(super) fn abort_try_get_with() {
    abort(true);
}

/// Runs a task for each step, all begun in this order before the first has ended.
fn awaited<T>(steps: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut tasks = Tasks::new();
    steps.into_iter().for_each(|step| tasks.spawn(step));
    tasks.run()
}

pub(super) fn upsert_with() {
    let cache = Cache::<u64, u64>::new(Shape::Future, 100);
    let step = |expected: Option<u64>| {
        cache.and_upsert_with_async(KEY, move |value: Option<u64>| async move {
            all_wait().await;
            assert_eq!(value, expected);
            value.unwrap_or(0) + 1
        })
    };
    assert_eq!(awaited(vec![step(None), step(Some(1)), step(Some(2))]), [1, 2, 3]);
    assert_eq!(cache.get(&KEY), Some(3));
}

/// A task that awaits a step.
async fn step(
    cache: &Cache<u64, Shared>,
    sees: Option<&'static [u64]>,
    does: Does,
) -> Result<Computed<Shared>, ()> {
    let compute = |value: Option<Shared>| async move {
        let seen = value.as_ref().map(|value| value.read().expect("no panic under it").clone());
        assert_eq!(seen.as_deref(), sees);
        all_wait().await;
        does.to(value.as_ref())
    };
    cache.and_try_compute_with_async(KEY, compute).await
}

pub(super) fn compute_with() {
    let cache = &Cache::<u64, Shared>::new(Shape::Future, 100);
    expect_computed(awaited(COMPUTED.map(|(sees, does)| step(cache, sees, does)).into()));
}

pub(super) fn try_compute_with() {
    let cache = &Cache::<u64, Shared>::new(Shape::Future, 100);
    expect_tried(awaited(TRIED.map(|(sees, does)| step(cache, sees, does)).into()));
}
