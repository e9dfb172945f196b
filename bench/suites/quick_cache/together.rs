//! Threads and tasks that meet. Theirs repeat each race thousands of times.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

use super::adapter::{Cache, EntryAction, EntryResult, GuardResult};
use crate::tasks::{Tasks, turn};
use crate::wait::{Gate, waiting, within};

type Numbers = Cache<u64, u64>;

const ROUNDS: u64 = 20;
const CALLERS: u64 = 32;

pub(super) fn test_multiple_threads() {
    const PAIRS: u64 = 8;
    const ITEMS: u64 = 1_000;
    let cache = Numbers::new(PAIRS * ITEMS / 10);
    let barrier = Barrier::new(2 * PAIRS as usize);
    scope(|scope| {
        for thread in 0..PAIRS {
            let (cache, barrier) = (&cache, &barrier);
            let keys = move || (0..5).flat_map(move |_| thread * ITEMS..(thread + 1) * ITEMS);
            scope.spawn(move || {
                barrier.wait();
                keys().for_each(|i| cache.insert(i, i));
            });
            scope.spawn(move || {
                barrier.wait();
                keys().for_each(|i| assert!(cache.get(&i).is_none_or(|value| value == i)));
            });
        }
    });
}

/// All request at once, and loads fail until a given one succeeds: exactly that many run.
fn load_until_one_succeeds(ask: impl Fn(&Numbers, &dyn Fn() -> Option<u64>) + Sync) {
    for round in 0..ROUNDS {
        let succeeds = round * 7 % CALLERS;
        let cache = Numbers::with_timeout(100, Duration::from_millis(1));
        let (entered, barrier) = (AtomicU64::new(0), Barrier::new(CALLERS as usize));
        let load = || (entered.fetch_add(1, SeqCst) == succeeds).then_some(1);
        scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| {
                    barrier.wait();
                    ask(&cache, &load);
                });
            }
        });
        assert_eq!(entered.into_inner(), succeeds + 1);
        assert_eq!(cache.get(&1), Some(1));
    }
}

pub(super) fn test_get_or_insert() {
    load_until_one_succeeds(|cache, load| {
        let result = cache.get_or_insert_with(&1, || load().ok_or(()));
        assert!(matches!(result, Ok(1) | Err(())));
    });
}

pub(super) fn test_value_or_guard() {
    load_until_one_succeeds(|cache, load| {
        let result = std::iter::repeat_with(|| cache.get_value_or_guard(&1, load))
            .find(|result| *result != GuardResult::Timeout);
        assert!(matches!(result, Some(GuardResult::Value(1) | GuardResult::Guard(_))));
    });
}

/// The same with tasks, a quarter of them on each of four threads.
fn tasks_load_until_one_succeeds(ask: impl AsyncFn(&Numbers, &AtomicU64, u64) + Sync) {
    for round in 0..ROUNDS {
        let succeeds = round * 7 % CALLERS;
        let cache = Numbers::new(100);
        let (entered, barrier) = (AtomicU64::new(0), Barrier::new(4));
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    let mut tasks = Tasks::new();
                    (0..CALLERS / 4).for_each(|_| tasks.spawn(ask(&cache, &entered, succeeds)));
                    tasks.run();
                });
            }
        });
        assert_eq!(entered.into_inner(), succeeds + 1);
        assert_eq!(cache.get(&1), Some(1));
    }
}

pub(super) fn test_get_or_insert_async() {
    tasks_load_until_one_succeeds(async |cache, entered, succeeds| {
        let load = async { if entered.fetch_add(1, SeqCst) == succeeds { Ok(1) } else { Err(()) } };
        let result = cache.get_or_insert_async(&1, load).await;
        assert!(matches!(result, Ok(1) | Err(())));
    });
}

pub(super) fn test_value_or_guard_async() {
    tasks_load_until_one_succeeds(async |cache, entered, succeeds| {
        loop {
            let load = async { (entered.fetch_add(1, SeqCst) == succeeds).then_some(1) };
            // A task that waits too long drops the future and requests again.
            match within(3, cache.get_value_or_guard_async(&1, load)).await {
                Some(GuardResult::Value(value)) => return assert_eq!(value, 1),
                Some(GuardResult::Guard(_)) => return,
                Some(GuardResult::Timeout) | None => {}
            }
        }
    });
}

/// A thread that holds the guard of key 1, and fills or abandons it when it may continue.
fn holder(cache: &Arc<Numbers>, fills: Option<u64>) -> (Gate, JoinHandle<()>) {
    let (held, may_go_on) = (Gate::default(), Gate::default());
    let thread = {
        let (cache, held, may_go_on) = (Arc::clone(cache), held.clone(), may_go_on.clone());
        spawn(move || {
            let result = cache.get_value_or_guard(&1, || {
                held.open();
                may_go_on.pass();
                fills
            });
            assert_eq!(result, GuardResult::Guard(fills.is_some()));
        })
    };
    held.pass();
    (may_go_on, thread)
}

fn look(value: &mut u64) -> EntryAction<u64> {
    EntryAction::Retain(*value)
}

/// The result of an entry that had to wait for a guard.
fn after_guard(
    cache: &Arc<Numbers>,
    fills: Option<u64>,
    act: fn(&mut u64) -> EntryAction<u64>,
) -> EntryResult<u64, u64> {
    let (may_go_on, holder) = holder(cache, fills);
    let entry = Arc::clone(cache);
    let entry = waiting(move || entry.entry(&1, act));
    may_go_on.open();
    holder.join().expect("no panic");
    entry.join().expect("no panic")
}

pub(super) fn test_entry_concurrent_placeholder_wait() {
    let cache = Arc::new(Numbers::new(100));
    assert_eq!(after_guard(&cache, Some(42), look), EntryResult::Retained(42));
}

pub(super) fn test_entry_concurrent_placeholder_guard_abandoned() {
    let cache = Arc::new(Numbers::new(100));
    assert_eq!(after_guard(&cache, None, look), EntryResult::Vacant);
    assert_eq!(cache.get_value_or_guard(&1, || Some(99)), GuardResult::Guard(true));
    assert_eq!(cache.get(&1), Some(99));
}

pub(super) fn test_entry_timeout() {
    let cache = Arc::new(Numbers::new(100));
    for timeout in [Duration::ZERO, Duration::from_millis(50)] {
        let (may_go_on, holder) = holder(&cache, Some(1));
        assert!(cache.entry_times_out(&1, timeout));
        may_go_on.open();
        holder.join().expect("no panic");
        assert!(!cache.entry_times_out(&1, timeout));
        cache.remove(&1);
    }
}

pub(super) fn test_entry_concurrent_multiple_waiters() {
    let cache = Arc::new(Numbers::new(100));
    let (may_go_on, holder) = holder(&cache, Some(42));
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let cache = Arc::clone(&cache);
            waiting(move || cache.entry(&1, look))
        })
        .collect();
    may_go_on.open();
    holder.join().expect("no panic");
    for waiter in waiters {
        assert_eq!(waiter.join().expect("no panic"), EntryResult::Retained(42));
    }
}

pub(super) fn test_entry_concurrent_action_after_wait() {
    let cache = Arc::new(Numbers::new(100));
    let replaced = after_guard(&cache, Some(42), |_| EntryAction::ReplaceWithGuard);
    assert_eq!(replaced, EntryResult::Replaced(42));
    assert_eq!(cache.get_value_or_guard(&1, || Some(100)), GuardResult::Guard(true));
    assert_eq!(cache.get(&1), Some(100));
    let cache = Arc::new(Numbers::new(100));
    let removed = after_guard(&cache, Some(42), |_| EntryAction::Remove);
    assert_eq!(removed, EntryResult::Removed(42));
    assert_eq!(cache.get(&1), None);
}

const KEYS: u64 = 50;

fn holds_tenfold(cache: &Numbers) {
    assert!(cache.len() <= KEYS);
    assert!((0..KEYS).all(|key| cache.get(&key).is_none_or(|value| value == key * 10)));
}

/// Without their timeout of 10 ms, after which they continue with the next key.
pub(super) fn test_entry_concurrent_stress() {
    let cache = Numbers::new(1_000);
    let barrier = Barrier::new(8);
    scope(|scope| {
        for thread in 0..8 {
            let (cache, barrier) = (&cache, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for i in 0..500 {
                    let key = (thread * 500 + i) % KEYS;
                    if cache.entry(&key, look) == EntryResult::Vacant {
                        cache.get_value_or_guard(&key, || Some(key * 10));
                    }
                }
            });
        }
    });
    holds_tenfold(&cache);
}

pub(super) fn test_entry_async_concurrent_stress() {
    let cache = Numbers::new(1_000);
    let barrier = Barrier::new(4);
    scope(|scope| {
        for thread in 0..4 {
            let (cache, barrier) = (&cache, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut tasks = Tasks::new();
                for task in thread * 4..thread * 4 + 4 {
                    tasks.spawn(async move {
                        for i in 0..200 {
                            let key = (task * 200 + i) % KEYS;
                            let load = async {
                                turn().await;
                                Ok::<_, ()>(key * 10)
                            };
                            assert_eq!(cache.get_or_insert_async(&key, load).await, Ok(key * 10));
                        }
                    });
                }
                tasks.run();
            });
        }
    });
    holds_tenfold(&cache);
}

/// A task that is polled with another waker while its value arrives. Their test runs under a
/// checker of interleavings, as do ours of this: `crates/frazil/tests/interleavings`.
pub(super) fn test_waker_change_race() {
    for _ in 0..ROUNDS {
        let cache = Arc::new(Numbers::new(100));
        let (may_go_on, holder) = holder(&cache, Some(42));
        let mut future =
            std::pin::pin!(cache.get_value_or_guard_async(&1, async { unreachable!() }));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        may_go_on.open();
        // Only the second waker can end this.
        let value =
            crate::tasks::block_on(std::future::poll_fn(|context| future.as_mut().poll(context)));
        assert_eq!(value, GuardResult::Value(42));
        holder.join().expect("no panic");
        assert!(matches!(cache.get(&1), Some(42)));
    }
}

/// Threads and tasks that hold guards, give up, time out, insert and remove, until all have seen
/// the value. Their test runs under a checker too.
pub(super) fn test_guard_works() {
    const PAIRS: u64 = 10;
    for round in 0..ROUNDS {
        let cache = Numbers::with_timeout(100, Duration::from_micros(100));
        let (entered, barrier) = (AtomicU64::new(0), Barrier::new(1 + PAIRS as usize));
        let solves = round * 37 % 100;
        let enter = || (entered.fetch_add(1, SeqCst) >= solves).then_some(1);
        // Whether it has seen the value; another value is removed sometimes.
        let seen = |chance: u64, result| match result {
            GuardResult::Value(1) => true,
            GuardResult::Value(_) => {
                if chance.is_multiple_of(2) {
                    cache.remove(&0);
                }
                false
            }
            GuardResult::Guard(_) => false,
            GuardResult::Timeout => {
                if chance.is_multiple_of(10) {
                    cache.insert(0, 0);
                }
                false
            }
        };
        scope(|scope| {
            for thread in 0..PAIRS {
                let (cache, barrier, enter, seen) = (&cache, &barrier, &enter, &seen);
                scope.spawn(move || {
                    barrier.wait();
                    let mut chances = thread..;
                    while !seen(
                        chances.next().unwrap_or_default(),
                        cache.get_value_or_guard(&0, || {
                            std::thread::yield_now();
                            enter()
                        }),
                    ) {}
                });
            }
            barrier.wait();
            let mut tasks = Tasks::new();
            for task in 0..PAIRS {
                let (cache, enter, seen) = (&cache, &enter, &seen);
                tasks.spawn(async move {
                    for chance in task.. {
                        let hold = async {
                            turn().await;
                            enter()
                        };
                        let ask = cache.get_value_or_guard_async(&0, hold);
                        let result = within((chance % 20) as u32, ask).await;
                        if seen(chance, result.unwrap_or(GuardResult::Timeout)) {
                            break;
                        }
                        turn().await;
                    }
                });
            }
            tasks.run();
        });
        assert_eq!(cache.get(&0), Some(1));
    }
}

pub(super) fn test_entry_async_concurrent_wait() {
    let cache = Arc::new(Numbers::new(100));
    let (may_go_on, holder) = holder(&cache, Some(42));
    let mut entry = std::pin::pin!(cache.entry_async(&1, |value| EntryAction::Retain(*value)));
    assert!(entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    may_go_on.open();
    assert_eq!(crate::tasks::block_on(entry), EntryResult::Retained(42));
    holder.join().expect("no panic");
}

pub(super) fn test_entry_async_concurrent_guard_abandoned() {
    let cache = Arc::new(Numbers::new(100));
    let (may_go_on, holder) = holder(&cache, None);
    let mut entry = std::pin::pin!(cache.entry_async(&1, |value| EntryAction::Retain(*value)));
    assert!(entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    may_go_on.open();
    assert_eq!(crate::tasks::block_on(entry), EntryResult::<u64, u64>::Vacant);
    cache.insert(1, 99);
    assert_eq!(cache.get(&1), Some(99));
    holder.join().expect("no panic");
}

/// As `test_waker_change_race`, for a computation.
pub(super) fn test_entry_waker_change_race() {
    for _ in 0..ROUNDS {
        let cache = Arc::new(Numbers::new(100));
        let (may_go_on, holder) = holder(&cache, Some(42));
        let mut entry = std::pin::pin!(cache.entry_async(&1, |value| EntryAction::Retain(*value)));
        assert!(entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        may_go_on.open();
        assert_eq!(crate::tasks::block_on(entry), EntryResult::Retained(42));
        holder.join().expect("no panic");
    }
}

/// As `test_guard_works`, with computations that look up, remove and yield, until all have seen the
/// value.
pub(super) fn test_entry_works() {
    const PAIRS: u64 = 10;
    for round in 0..ROUNDS {
        let cache = Numbers::new(100);
        let (entered, barrier) = (AtomicU64::new(0), Barrier::new(1 + PAIRS as usize));
        let solves = round * 37 % 100;
        let act = |chance: u64| {
            move |value: &mut u64| match (*value, chance % 3) {
                (1, _) | (_, 0) => EntryAction::Retain(*value),
                (_, 1) => EntryAction::Remove,
                _ => EntryAction::ReplaceWithGuard,
            }
        };
        // Whether it has seen the value. A task that finds none finally fills the place.
        let seen = |chance: u64, result| match result {
            EntryResult::Retained(1) => true,
            EntryResult::Retained(_) => {
                if chance.is_multiple_of(2) {
                    cache.remove(&0);
                }
                false
            }
            EntryResult::Removed(_) => false,
            EntryResult::Vacant | EntryResult::Replaced(_) => {
                let number = entered.fetch_add(1, SeqCst);
                if number >= solves {
                    cache.insert(0, 1);
                } else if number.is_multiple_of(10) {
                    cache.insert(0, 0);
                }
                false
            }
        };
        scope(|scope| {
            for thread in 0..PAIRS {
                let (cache, barrier, seen) = (&cache, &barrier, &seen);
                scope.spawn(move || {
                    barrier.wait();
                    let mut chances = thread..;
                    loop {
                        let chance = chances.next().unwrap_or_default();
                        if seen(chance, cache.entry(&0, act(chance))) {
                            break;
                        }
                    }
                });
            }
            barrier.wait();
            let mut tasks = Tasks::new();
            for task in 0..PAIRS {
                let (cache, seen) = (&cache, &seen);
                tasks.spawn(async move {
                    for chance in task.. {
                        // Sometimes dropped while it waits.
                        let result = within(chance as u32 % 5, cache.entry_async(&0, act(chance)));
                        if result.await.is_some_and(|result| seen(chance, result)) {
                            break;
                        }
                        turn().await;
                    }
                });
            }
            tasks.run();
        });
        assert_eq!(cache.get(&0), Some(1));
    }
}
