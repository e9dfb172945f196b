//! Threads that block for a task's load, above all those that have to poll that task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::extent::HANG_LIMIT;
use crate::fused::quietly_when;
use crate::tasks::{Signal, Workers, block_on};
use frazil::{Cache, Compute, Computed};

type Tested = Cache<u64, u64>;
type Form = (&'static str, fn(&Tested, u64));

fn add(count: Option<&u64>) -> Compute<u64> {
    Compute::Put(count.unwrap_or(&0) + 1)
}

/// Every call that may block its thread until others finish.
const BLOCKING: [Form; 9] = [
    ("get_or_insert_with", |cache, key| _ = cache.get_or_insert_with(&key, || 1)),
    ("try_get_or_insert_with", |cache, key| {
        assert!(cache.try_get_or_insert_with(&key, || Ok::<_, ()>(1)).is_ok());
    }),
    ("get_or_fetch_blocking", |cache, key| {
        assert!(cache.get_or_fetch_blocking(&key, || Ok::<_, ()>(1)).is_ok());
    }),
    ("or_insert", |cache, key| _ = cache.entry(key).or_insert(1)),
    ("or_insert_with", |cache, key| _ = cache.entry(key).or_insert_with(|| 1)),
    ("or_try_insert_with", |cache, key| {
        assert!(cache.entry_by_ref(&key).or_try_insert_with(|| Ok::<_, ()>(1)).is_ok());
    }),
    ("or_default", |cache, key| _ = cache.entry(key).or_default()),
    ("or_fetch_blocking", |cache, key| {
        assert!(cache.entry(key).or_fetch_blocking(|| Ok::<u64, ()>(1)).is_ok());
    }),
    ("and_compute", |cache, key| _ = cache.entry(key).and_compute(add)),
];

/// The one call with a time limit, which it exceeds here.
fn compute_within(cache: &Tested, key: u64) {
    _ = cache.entry(key).and_compute_within(Duration::from_millis(1), add);
}

/// Their asynchronous forms, by number.
async fn asynchronously(cache: &Tested, form: u64, key: u64) {
    let one = async { 1 };
    match form {
        0 => _ = cache.get_or_insert_async(&key, one).await,
        1 => _ = cache.try_get_or_insert_async(&key, async { Ok::<_, ()>(1) }).await,
        2 => _ = cache.get_or_fetch(&key, async { Ok::<_, ()>(1) }).await,
        3 => _ = cache.entry(key).or_insert_async(one).await,
        4 => _ = cache.entry_by_ref(&key).or_insert_async(one).await,
        5 => _ = cache.entry(key).or_try_insert_async(async { Ok::<_, ()>(1) }).await,
        6 => _ = cache.entry(key).or_fetch(async { Ok::<u64, ()>(1) }).await,
        7 => _ = cache.entry(key).or_fetch_detached(async { Ok::<u64, ()>(1) }).await,
        _ => {
            let add = |count: Option<u64>| async move { add(count.as_ref()) };
            _ = cache.entry(key).and_compute_async(add).await;
        }
    }
}

/// Both workers of an executor are about to block for a task that one of them has polled.
#[test]
fn two_workers_that_block_for_a_task_leave_one_to_poll_it() {
    for (name, form) in BLOCKING {
        let cache: Arc<Tested> = Arc::new(Cache::builder(100).build());
        let (workers, signal) = (Workers::new(2), Signal::default());
        let (ended, ends) = channel();
        let (home, loaded, leads) = (Arc::clone(&cache), signal.clone(), ended.clone());
        workers.spawn(async move {
            let load = async {
                loaded.given().await;
                7
            };
            assert!(home.get_or_insert_async(&1, load).await >= 1);
            leads.send(()).unwrap();
        });
        while cache.flights() == 0 {
            std::thread::yield_now();
        }
        for _ in 0..4 {
            let (home, ended) = (Arc::clone(&cache), ended.clone());
            workers.spawn(async move {
                form(&home, 1);
                ended.send(()).unwrap();
            });
        }
        // Most probably they wait by now; if not, it must work all the same.
        let stats = || cache.fetch_stats();
        while stats().blocked + stats().unblocked < 2 && ends.try_recv().is_err() {
            std::thread::yield_now();
        }
        signal.give();
        drop(ended);
        while let Ok(()) = ends.recv_timeout(HANG_LIMIT) {}
        assert_eq!(cache.flights(), 0, "{name} hangs");
        assert!(stats().unblocked > 0, "{name}: nobody was kept from waiting");
    }
}

/// One worker has polled a task and blocks for a thread's loader, and the other is that thread,
/// whose loader requests the key that the task loads.
#[test]
fn a_thread_that_others_wait_for_does_not_wait_for_a_task() {
    let cache: Arc<Tested> = Arc::new(Cache::builder(100).build());
    let (signal, begun, nested) = (Signal::default(), Signal::default(), Signal::default());
    let mut context = Context::from_waker(Waker::noop());
    let mut task = Box::pin(cache.get_or_insert_async(&1, async {
        signal.given().await;
        7
    }));
    assert!(task.as_mut().poll(&mut context).is_pending());
    let (home, begins, goes_on) = (Arc::clone(&cache), begun.clone(), nested.clone());
    let (ended, ends) = channel();
    std::thread::spawn(move || {
        let value = home.get_or_insert_with(&2, || {
            begins.give();
            block_on(goes_on.given());
            home.get_or_insert_with(&1, || 8) + 1
        });
        ended.send(value).unwrap();
    });
    block_on(begun.given());
    nested.give();
    // This thread waits, and cannot poll.
    assert_eq!(ends.recv_timeout(HANG_LIMIT), Ok(9), "it waits for a task");
    signal.give();
    assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(7));
    assert_eq!((cache.get(&1), cache.flights()), (Some(7), 0));
}

/// Loads whose origin another thread answers.
struct Origin(Sender<Signal>);

impl Origin {
    fn new() -> Self {
        let (asked, asks) = channel::<Signal>();
        std::thread::spawn(move || asks.into_iter().for_each(|signal| signal.give()));
        Origin(asked)
    }

    async fn ask(&self) -> u64 {
        let signal = Signal::default();
        self.0.send(signal.clone()).unwrap();
        signal.given().await;
        1
    }
}

/// Ten thousand tasks on two workers, of which some load by a future, and the others by all forms.
fn many_tasks(is_blocking: bool) {
    const TASKS: u64 = if cfg!(miri) { 100 } else { 10_000 };
    let cache: Arc<Tested> = Arc::new(Cache::builder(100).build());
    let (workers, origin) = (Workers::new(2), Arc::new(Origin::new()));
    let (ended, ends) = channel();
    for number in 0..TASKS {
        let (cache, origin, ended) = (Arc::clone(&cache), Arc::clone(&origin), ended.clone());
        workers.spawn(async move {
            let key = number / 7 % 5;
            match number % 3 {
                0 => {
                    let load = async { origin.ask().await };
                    cache.get_or_insert_async(&key, load).await;
                    cache.invalidate(&key);
                }
                _ if is_blocking => match BLOCKING.get((number / 3 % 10) as usize) {
                    Some((_, form)) => form(&cache, key),
                    None => compute_within(&cache, key),
                },
                _ => asynchronously(&cache, number / 3 % 9, key).await,
            }
            ended.send(()).unwrap();
        });
    }
    for number in 0..TASKS {
        ends.recv_timeout(HANG_LIMIT).unwrap_or_else(|_| panic!("{number} have ended"));
    }
    assert_eq!(cache.flights(), 0);
    assert!(is_blocking || cache.fetch_stats().blocked + cache.fetch_stats().unblocked == 0);
}

#[test]
fn ten_thousand_tasks_that_block_two_workers_end() {
    many_tasks(true);
}

#[test]
fn ten_thousand_tasks_that_await_end() {
    many_tasks(false);
}

/// A task that blocks where it should await gets a message about it.
#[test]
fn a_loader_that_blocks_for_another_future_panics() {
    quietly_when(|message| message.contains("blocks its thread"));
    for (name, form) in BLOCKING {
        let cache: Tested = Cache::builder(100).build();
        let mut context = Context::from_waker(Waker::noop());
        let signal = Signal::default();
        let mut other = Box::pin(cache.get_or_insert_async(&1, async {
            signal.given().await;
            7
        }));
        assert!(other.as_mut().poll(&mut context).is_pending());
        let load = async {
            form(&cache, 1);
            8
        };
        let task = AssertUnwindSafe(|| block_on(cache.get_or_insert_async(&2, load)));
        let panic = catch_unwind(task).expect_err(name);
        let message = panic.downcast_ref::<String>().map_or("", String::as_str);
        assert!(message.contains("blocks its thread"), "{name}: {message}");
        signal.give();
        assert_eq!(other.as_mut().poll(&mut context), Poll::Ready(7), "{name}");
        assert_eq!(cache.flights(), 0, "{name}");
    }
}

/// A thread that polls no loaders waits for one that a task runs, and it is counted.
#[test]
fn a_thread_of_its_own_shares_what_a_task_loads() {
    let cache: Tested = Cache::builder(100).build();
    let signal = Signal::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut task = Box::pin(cache.get_or_insert_async(&1, async {
        signal.given().await;
        7
    }));
    assert!(task.as_mut().poll(&mut context).is_pending());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| cache.get_or_insert_with(&1, || unreachable!("it waits")));
        while cache.fetch_stats().blocked == 0 {
            std::thread::yield_now();
        }
        signal.give();
        assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(7));
        assert_eq!(thread.join().unwrap(), 7);
    });
    assert_eq!(cache.fetch_stats().unblocked, 0);
}

#[test]
fn computations_that_are_awaited_are_all_counted() {
    const TASKS: u64 = if cfg!(miri) { 20 } else { 1_000 };
    let cache: Arc<Tested> = Arc::new(Cache::builder(100).build());
    let (workers, origin) = (Workers::new(2), Arc::new(Origin::new()));
    let (ended, ends) = channel();
    for _ in 0..TASKS {
        let (cache, origin, ended) = (Arc::clone(&cache), Arc::clone(&origin), ended.clone());
        workers.spawn(async move {
            let add = |count: Option<u64>| {
                let origin = Arc::clone(&origin);
                async move { Compute::Put(count.unwrap_or(0) + origin.ask().await) }
            };
            cache.entry(1).and_compute_async(add).await;
            ended.send(()).unwrap();
        });
    }
    (0..TASKS).for_each(|_| ends.recv_timeout(HANG_LIMIT).expect("an end"));
    assert_eq!((cache.get(&1), cache.flights()), (Some(TASKS), 0));
}

#[test]
fn an_awaited_computation_follows_on_what_is_there() {
    let cache: Tested = Cache::builder(100).build();
    let mut context = Context::from_waker(Waker::noop());
    let writes: [fn(&Tested); 3] =
        [|cache| cache.insert(1, 100), |cache| _ = cache.invalidate(&1), Cache::clear];
    for (write, is_there) in writes.into_iter().flat_map(|write| [(write, false), (write, true)]) {
        cache.clear();
        if is_there {
            cache.insert(1, 10);
        }
        let asked = AtomicU64::new(0);
        let signal = Signal::default();
        let mut task = Box::pin(cache.entry(1).and_compute_async(|count| {
            asked.fetch_add(1, Relaxed);
            let signal = &signal;
            async move {
                signal.given().await;
                add(count.as_ref())
            }
        }));
        assert!(task.as_mut().poll(&mut context).is_pending());
        write(&cache);
        let there = cache.get(&1);
        signal.give();
        let Poll::Ready(computed) = task.as_mut().poll(&mut context) else { panic!("it waits") };
        let put = there.unwrap_or(0) + 1;
        let expected = there.map_or(Computed::Inserted(put), |_| Computed::Replaced(put));
        assert_eq!((computed, cache.get(&1)), (expected, Some(put)));
        assert_eq!((asked.load(Relaxed), cache.flights()), (2, 0));
    }
}

#[test]
fn an_awaited_computation_may_be_dropped_at_any_time() {
    let cache: Tested = Cache::builder(100).build();
    let mut context = Context::from_waker(Waker::noop());
    cache.insert(1, 10);
    let never = |_| std::future::pending::<Compute<u64>>();
    let mut first = Box::pin(cache.entry(1).and_compute_async(never));
    let mut second = Box::pin(
        cache.entry(1).and_compute_async(|count: Option<u64>| async move { add(count.as_ref()) }),
    );
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    // Look-ups wait for neither.
    assert_eq!(cache.get_or_insert_with(&1, || unreachable!()), 10);
    drop(first);
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(Computed::Replaced(11)));
    assert_eq!(cache.flights(), 0);
}

/// It returns what it did, as the blocking form does, and may use its own key.
#[test]
fn an_awaited_computation_says_what_it_did() {
    let cache: Tested = Cache::builder(100).build();
    let compute = |answer: Compute<u64>| {
        let answers = move |_| async move { answer };
        block_on(cache.entry_by_ref(&1).and_compute_async(answers))
    };
    assert_eq!(compute(Compute::Keep), Computed::Unchanged(None));
    assert_eq!(compute(Compute::Put(1)), Computed::Inserted(1));
    assert_eq!(compute(Compute::Put(2)), Computed::Replaced(2));
    assert_eq!(compute(Compute::Keep), Computed::Unchanged(Some(2)));
    assert_eq!(compute(Compute::Remove), Computed::Removed(2));
    let writes = async |_| {
        cache.insert(1, 5);
        Compute::Put(6)
    };
    let written = block_on(cache.entry(1).and_compute_async(writes));
    assert_eq!((written, cache.flights()), (Computed::Unchanged(Some(5)), 0));
    let nested = async |_| {
        let add = |count: Option<u64>| async move { add(count.as_ref()) };
        assert_eq!(cache.entry(1).and_compute_async(add).await, Computed::Replaced(6));
        Compute::Remove
    };
    assert_eq!(block_on(cache.entry(1).and_compute_async(nested)), Computed::Unchanged(Some(6)));
}
