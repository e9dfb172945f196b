//! Threads that request keys while they are loaded or computed.

use std::sync::{Arc, Barrier, RwLock};
use std::thread::spawn;

use frazil::{Compute, Computed};

use super::adapter::{Cache, Shape};
use crate::wait::{Gate, waiting};

type Words = Cache<u64, &'static str>;

const KEY: u64 = 0;

/// One thread loads; other requests share the load, a plain get finds nothing.
pub(super) fn get_with(shape: Shape) {
    let (begun, may_end) = (Gate::default(), Gate::default());
    let cache = Words::new(shape, 100);
    let first = {
        let (cache, begun, may_end) = (cache.clone(), begun.clone(), may_end.clone());
        let load = move || {
            begun.open();
            may_end.pass();
            "thread 1"
        };
        spawn(move || cache.get_with(KEY, load))
    };
    begun.pass();
    let second = cache.clone();
    let second = waiting(move || second.get_with_by_ref(&KEY, || unreachable!()));
    assert_eq!(cache.get(&KEY), None);
    may_end.open();
    assert_eq!(first.join().expect("no panic"), "thread 1");
    assert_eq!(second.join().expect("no panic"), "thread 1");
    assert_eq!(cache.get_with(KEY, || unreachable!()), "thread 1");
    assert_eq!(cache.get(&KEY), Some("thread 1"));
}

/// The same, with a value that is loaded again if it is unwanted.
pub(super) fn entry_or_insert_with_if(shape: Shape) {
    let (begun, may_end) = (Gate::default(), Gate::default());
    let cache = Words::new(shape, 100);
    let first = {
        let (cache, begun, may_end) = (cache.clone(), begun.clone(), may_end.clone());
        let load = move || {
            begun.open();
            may_end.pass();
            "thread 1"
        };
        spawn(move || cache.or_insert_with_if(KEY, load, |_| unreachable!()))
    };
    begun.pass();
    let second = cache.clone();
    let second =
        waiting(move || second.or_insert_with_if(KEY, || unreachable!(), |_| unreachable!()));
    assert_eq!(cache.get(&KEY), None);
    may_end.open();
    assert_eq!(first.join().expect("no panic"), ("thread 1", true));
    assert_eq!(second.join().expect("no panic"), ("thread 1", false));
    let is_to_go = |answer| {
        move |value: &&str| {
            assert_eq!(*value, "thread 1");
            answer
        }
    };
    let kept = cache.or_insert_with_if(KEY, || unreachable!(), is_to_go(false));
    assert_eq!(kept, ("thread 1", false));
    assert_eq!(cache.get(&KEY), Some("thread 1"));
    let replaced = cache.or_insert_with_if(KEY, || "thread 4", is_to_go(true));
    assert_eq!(replaced, ("thread 4", true));
    assert_eq!(cache.get(&KEY), Some("thread 4"));
}

type Load<T> = Box<dyn FnOnce() -> T>;

/// Requests with a loader that may have no value.
type Ask = fn(&Words, Load<Option<&'static str>>) -> Option<&'static str>;

fn by_error(cache: &Words, load: Load<Option<&'static str>>) -> Option<&'static str> {
    cache.try_get_with(&KEY, || load().ok_or("an error")).ok()
}

fn by_none(cache: &Words, load: Load<Option<&'static str>>) -> Option<&'static str> {
    cache.optionally_get_with(&KEY, load)
}

/// Waiting requests share the failure of a load; the next request loads again.
fn shares_failures(shape: Shape, ask: Ask) {
    let cache = Words::new(shape, 100);
    for outcome in [None, Some("thread 3")] {
        let (begun, may_end) = (Gate::default(), Gate::default());
        let loader = {
            let (cache, begun, may_end) = (cache.clone(), begun.clone(), may_end.clone());
            spawn(move || {
                let load = move || {
                    begun.open();
                    may_end.pass();
                    outcome
                };
                ask(&cache, Box::new(load))
            })
        };
        begun.pass();
        let other = cache.clone();
        let other = waiting(move || ask(&other, Box::new(|| unreachable!())));
        assert_eq!(cache.get(&KEY), None);
        may_end.open();
        assert_eq!(loader.join().expect("no panic"), outcome);
        assert_eq!(other.join().expect("no panic"), outcome);
        assert_eq!(cache.get(&KEY), outcome);
    }
    assert_eq!(ask(&cache, Box::new(|| unreachable!())), Some("thread 3"));
    assert_eq!(cache.get(&KEY), Some("thread 3"));
}

pub(super) fn try_get_with(shape: Shape) {
    shares_failures(shape, by_error);
}

pub(super) fn optionally_get_with(shape: Shape) {
    shares_failures(shape, by_none);
}

/// If a loader panics, the next request loads.
fn handle_panic(ask: fn(&Cache<u64, u64>, Load<u64>) -> u64) {
    let cache = Cache::<u64, u64>::new(Shape::Sync, 16);
    let barrier = Arc::new(Barrier::new(2));
    let panicking = {
        let (cache, barrier) = (cache.clone(), Arc::clone(&barrier));
        spawn(move || {
            let load = move || {
                barrier.wait();
                panic!("a loader that panics");
            };
            ask(&cache, Box::new(load));
        })
    };
    barrier.wait();
    assert_eq!(ask(&cache, Box::new(|| 5)), 5);
    assert!(panicking.join().is_err());
}

pub(super) fn handle_panic_in_get_with() {
    handle_panic(|cache, load| cache.get_with(1, load));
}

pub(super) fn handle_panic_in_try_get_with() {
    handle_panic(|cache, load| {
        cache.try_get_with(&1, || Ok::<_, String>(load())).expect("no error")
    });
}

/// A computation, which calls its argument once it has seen the value.
type Step<T> = Box<dyn FnOnce(&dyn Fn()) -> T + Send>;

/// Each thread computes while the previous one is in its function, and waits for it.
fn one_after_the_other<T: Send + 'static>(steps: Vec<Step<T>>) -> Vec<T> {
    let gates: Vec<(Gate, Gate)> = steps.iter().map(|_| Default::default()).collect();
    let mut threads = Vec::new();
    for (step, (begun, may_end)) in steps.into_iter().zip(gates.clone()) {
        let number = threads.len();
        let last = number.checked_sub(1).map(|last| gates[last].clone());
        let entered = begun.clone();
        threads.push(waiting(move || {
            step(&|| {
                entered.open();
                may_end.pass();
            })
        }));
        // It waits for the one before, whose function ends only now.
        match last {
            None => begun.pass(),
            Some((_, last_may_end)) => {
                assert!(!begun.is_open(), "computation {number} does not wait");
                last_may_end.open();
                begun.pass();
            }
        }
    }
    gates.last().expect("there are some").1.open();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
}

pub(super) fn upsert_with() {
    let cache = Cache::<u64, u64>::new(Shape::Sync, 100);
    let step = |expected: Option<u64>| {
        let cache = cache.clone();
        Box::new(move |held: &dyn Fn()| {
            cache.and_upsert_with(KEY, |value| {
                assert_eq!(value.copied(), expected);
                held();
                expected.unwrap_or(0) + 1
            })
        }) as Step<u64>
    };
    assert_eq!(one_after_the_other(vec![step(None), step(Some(1)), step(Some(2))]), [1, 2, 3]);
    assert_eq!(cache.get(&KEY), Some(3));
}

pub(super) type Shared = Arc<RwLock<Vec<u64>>>;

/// The value that a step expects, and its action.
#[derive(Clone, Copy)]
pub(super) enum Does {
    PutNew(u64),
    Push(u64),
    Remove,
    Keep,
    Fail,
}

impl Does {
    pub(super) fn to(self, value: Option<&Shared>) -> Result<Compute<Shared>, ()> {
        Ok(match (self, value) {
            (Does::PutNew(item), _) => Compute::Put(Arc::new(RwLock::new(vec![item]))),
            (Does::Push(item), Some(value)) => {
                value.write().expect("no panic under it").push(item);
                Compute::Put(Arc::clone(value))
            }
            (Does::Remove, _) => Compute::Remove,
            (Does::Keep | Does::Push(_), _) => Compute::Keep,
            (Does::Fail, _) => return Err(()),
        })
    }
}

type Sees = Option<&'static [u64]>;

pub(super) const COMPUTED: [(Sees, Does); 6] = [
    (None, Does::PutNew(1)),
    (Some(&[1]), Does::Push(2)),
    (Some(&[1, 2]), Does::Remove),
    (None, Does::Keep),
    (None, Does::PutNew(5)),
    (Some(&[5]), Does::Keep),
];

pub(super) const TRIED: [(Sees, Does); 4] = [
    (None, Does::PutNew(1)),
    (Some(&[1]), Does::Push(2)),
    (Some(&[1, 2]), Does::Fail),
    (Some(&[1, 2]), Does::Remove),
];

fn compute(
    cache: &Cache<u64, Shared>,
    sees: Sees,
    does: Does,
) -> Step<Result<Computed<Shared>, ()>> {
    let cache = cache.clone();
    Box::new(move |held| {
        cache.and_try_compute_with(KEY, |value| {
            let seen = value.map(|value| value.read().expect("no panic under it").clone());
            assert_eq!(seen.as_deref(), sees);
            held();
            does.to(value)
        })
    })
}

/// The result of a computation, by name, and the items.
fn shown(computed: Result<Computed<Shared>, ()>) -> (&'static str, Vec<u64>) {
    let items = |value: Shared| value.read().expect("no panic under it").clone();
    match computed {
        Ok(Computed::Inserted(value)) => ("inserted", items(value)),
        Ok(Computed::Replaced(value)) => ("replaced", items(value)),
        Ok(Computed::Removed(value)) => ("removed", items(value)),
        Ok(Computed::Unchanged(Some(value))) => ("unchanged", items(value)),
        Ok(Computed::Unchanged(None)) => ("still none", vec![]),
        Err(()) => ("an error", vec![]),
    }
}

pub(super) fn expect_computed(done: Vec<Result<Computed<Shared>, ()>>) {
    let done: Vec<_> = done.into_iter().map(shown).collect();
    let expected = [
        ("inserted", vec![1, 2]),
        ("replaced", vec![1, 2]),
        ("removed", vec![1, 2]),
        ("still none", vec![]),
        ("inserted", vec![5]),
        ("unchanged", vec![5]),
    ];
    assert_eq!(done, expected);
}

pub(super) fn compute_with() {
    let cache = Cache::<u64, Shared>::new(Shape::Sync, 100);
    let steps = COMPUTED.map(|(sees, does)| compute(&cache, sees, does));
    expect_computed(one_after_the_other(steps.into()));
}

pub(super) fn expect_tried(done: Vec<Result<Computed<Shared>, ()>>) {
    let done: Vec<_> = done.into_iter().map(shown).collect();
    let expected = [
        ("inserted", vec![1, 2]),
        ("replaced", vec![1, 2]),
        ("an error", vec![]),
        ("removed", vec![1, 2]),
    ];
    assert_eq!(done, expected);
}

pub(super) fn try_compute_with() {
    let cache = Cache::<u64, Shared>::new(Shape::Sync, 100);
    let steps = TRIED.map(|(sees, does)| compute(&cache, sees, does));
    expect_tried(one_after_the_other(steps.into()));
}
