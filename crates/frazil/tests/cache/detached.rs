//! Fetches that outlive their callers.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::fused::{Planned, quietly};
use crate::tasks::{Signal, Tasks, block_on};
use frazil::{Cache, Compute, FetchError, Fetching, OnError};

type Tested = Cache<u64, u64>;
type Fetched = Result<u64, FetchError<u64>>;

/// A cache and the time that it shows, in seconds.
fn cache(on_error: OnError) -> (Tested, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(1));
    let shown = Arc::clone(&time);
    let linger = Duration::from_secs(10);
    let cache = Cache::builder(100_000)
        .fetching(Fetching { linger, on_error, ..Fetching::default() })
        .clock(move || Duration::from_secs(shown.load(Relaxed)))
        .build();
    (cache, time)
}

/// An origin that answers on command, and counts its requests.
#[derive(Clone, Default)]
struct Origin {
    asked: Arc<AtomicU64>,
    answer: Signal,
}

impl Origin {
    fn ask(&self, answer: Result<u64, u64>) -> impl Future<Output = Result<u64, u64>> + 'static {
        let origin = self.clone();
        async move {
            origin.asked.fetch_add(1, Relaxed);
            origin.answer.given().await;
            answer
        }
    }

    fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

/// Polls once and drops: a caller without patience.
fn impatiently<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn impatient_callers_get_an_answer_in_the_end() {
    let (cache, _) = cache(OnError::Retry);
    let origin = Origin::default();
    for _ in 0..99 {
        assert!(impatiently(cache.entry(1).or_fetch_detached(origin.ask(Ok(7)))).is_none());
    }
    origin.answer.give();
    assert_eq!(impatiently(cache.entry(1).or_fetch_detached(origin.ask(Ok(8)))), Some(Ok(7)));
    assert_eq!((origin.asked(), cache.get(&1), cache.flights()), (1, Some(7), 0));
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.load_failures), (1, 0));
}

/// A waiter of any kind continues it, except a thread, which cannot poll it for its task.
#[test]
fn who_waits_goes_on_with_it() {
    let (cache, _) = cache(OnError::Retry);
    let origin = Origin::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(cache.entry(1).or_fetch_detached(origin.ask(Ok(7))));
    let mut second =
        Box::pin(cache.get_or_insert_async(&1, async { unreachable!("there is one") }));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(first);
    assert!(second.as_mut().poll(&mut context).is_pending());
    origin.answer.give();
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(7));
    assert_eq!((origin.asked(), cache.flights()), (1, 0));
    let origin = Origin::default();
    assert!(impatiently(cache.entry(2).or_fetch_detached(origin.ask(Ok(7)))).is_none());
    assert_eq!(cache.get_or_insert_with(&2, || 9), 9);
    assert_eq!(cache.flights(), 0);
}

#[test]
fn what_is_written_ends_it_and_so_does_time() {
    type End = fn(&Tested, &AtomicU64);
    let ends: [End; 5] = [
        |cache, _| _ = cache.invalidate(&1),
        |cache, _| cache.insert(1, 3),
        |cache, _| cache.clear(),
        |_, time| _ = time.fetch_add(11, Relaxed),
        |cache, time| {
            time.fetch_add(11, Relaxed);
            cache.purge();
            assert_eq!(cache.flights(), 0);
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let (cache, time) = cache(OnError::Retry);
        let (first, second) = (Origin::default(), Origin::default());
        assert!(impatiently(cache.entry(1).or_fetch_detached(first.ask(Ok(1)))).is_none());
        time.fetch_add(9, Relaxed);
        assert!(impatiently(cache.entry(1).or_fetch_detached(second.ask(Ok(2)))).is_none());
        assert_eq!((first.asked(), second.asked(), cache.flights()), (1, 0, 1));
        end(&cache, &time);
        first.answer.give();
        second.answer.give();
        let fetched = impatiently(cache.entry(1).or_fetch_detached(second.ask(Ok(2))));
        let expected = if number == 1 { 3 } else { 2 };
        assert_eq!((fetched, cache.flights()), (Some(Ok(expected)), 0), "{number}");
    }
}

#[test]
fn those_that_nobody_polls_are_bounded() {
    let (mut cache, time) = cache(OnError::Retry);
    let living = Arc::new(());
    for key in 0..20_000 {
        let living = Arc::clone(&living);
        let never = async move {
            std::future::pending::<()>().await;
            drop(living);
            Ok::<u64, u64>(1)
        };
        assert!(impatiently(cache.entry(key).or_fetch_detached(never)).is_none());
    }
    assert!(Arc::strong_count(&living) <= 32 * 256 + 1, "{}", Arc::strong_count(&living));
    assert_eq!(cache.flights(), Arc::strong_count(&living) - 1);
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
    time.fetch_add(11, Relaxed);
    cache.purge();
    assert_eq!((cache.flights(), Arc::strong_count(&living)), (0, 1));
}

#[test]
fn errors_are_theirs_who_go_on() {
    for on_error in [OnError::Retry, OnError::Share] {
        let (cache, _) = cache(on_error);
        let origin = Origin::default();
        let mut tasks: Tasks<'_, Fetched> = Tasks::new();
        assert!(impatiently(cache.entry(1).or_fetch_detached(origin.ask(Err(5)))).is_none());
        for _ in 0..3 {
            tasks.spawn(cache.entry(1).or_fetch_detached(origin.ask(Err(6))));
        }
        tasks.poll_woken();
        origin.answer.give();
        let errors: Vec<_> = tasks.run().into_iter().map(|fetched| fetched.unwrap_err()).collect();
        let of = |error: u64| FetchError::Failed(Arc::new(error));
        let expected = match on_error {
            OnError::Retry => [of(5), of(6), of(6)],
            OnError::Share => [of(5), of(5), of(5)],
        };
        assert_eq!(errors, expected);
        // Another kind of caller begins its own fetch.
        let origin = Origin::default();
        assert!(impatiently(cache.entry(2).or_fetch_detached(origin.ask(Err(5)))).is_none());
        origin.answer.give();
        let other = cache.entry(2).or_fetch_detached(async { Err::<u64, _>("other") });
        assert_eq!(block_on(other), Err(FetchError::Failed(Arc::new("other"))));
        assert_eq!(cache.flights(), 0);
    }
}

#[test]
fn a_fetch_that_panics_is_not_polled_again() {
    quietly();
    let (cache, _) = cache(OnError::Retry);
    let signal = Signal::default();
    let panics = {
        let signal = signal.clone();
        async move {
            signal.given().await;
            panic_any(Planned)
        }
    };
    let fetch = cache.entry(1).or_fetch_detached::<u64, u64>(panics);
    assert!(impatiently(fetch).is_none());
    signal.give();
    let unwound = AssertUnwindSafe(|| {
        impatiently(cache.entry(1).or_fetch_detached(async { Ok::<u64, u64>(1) }))
    });
    assert!(catch_unwind(unwound).is_err());
    assert_eq!(cache.flights(), 0);
    let fetch = cache.entry(1).or_fetch_detached(async { Ok::<u64, u64>(1) });
    assert_eq!(impatiently(fetch), Some(Ok(1)));
    assert_eq!(cache.stats().load_failures, 1);
}

/// A shard keeps 256 of them: one key counts once, however often its callers leave.
#[test]
fn a_fetch_that_was_left_often_is_not_the_oldest_for_that() {
    let (cache, _) = cache(OnError::Retry);
    let origin = Origin::default();
    for _ in 0..1_000 {
        assert!(impatiently(cache.entry(1).or_fetch_detached(origin.ask(Ok(7)))).is_none());
    }
    assert_eq!(origin.asked(), 1);
    origin.answer.give();
    assert_eq!(impatiently(cache.entry(1).or_fetch_detached(origin.ask(Ok(8)))), Some(Ok(7)));
    assert_eq!(cache.flights(), 0);
}

/// Pending for ever, or ready at once; its drop requests key 1.
struct Asking {
    cache: Arc<Tested>,
    is_ready: bool,
}

impl Future for Asking {
    type Output = Result<u64, u64>;

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_ready { Poll::Ready(Ok(1)) } else { Poll::Pending }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.cache.get_or_insert_with(&1, || 2);
    }
}

#[test]
fn a_fetch_that_is_dropped_may_ask_for_its_key() {
    let made = || {
        let (cache, time) = cache(OnError::Retry);
        (Arc::new(cache), time)
    };
    let (ready, _) = made();
    let fetch = Asking { cache: Arc::clone(&ready), is_ready: true };
    assert_eq!(block_on(ready.entry(1).or_fetch_detached(fetch)), Ok(1));
    let next: [fn(&Tested); 3] = [
        |cache| _ = cache.entry(1).and_compute(|_| Compute::Put(3)),
        |cache| _ = block_on(cache.entry(1).and_compute_async(|_| async { Compute::Put(3) })),
        |cache| _ = cache.get_or_insert_with(&1, || 3),
    ];
    for next in next {
        let (left, _) = made();
        let fetch = Asking { cache: Arc::clone(&left), is_ready: false };
        assert_eq!(impatiently(left.entry(1).or_fetch_detached(fetch)), None);
        next(&left);
        assert_eq!((left.get(&1), left.flights()), (Some(3), 0));
    }
    // One whose linger time is over.
    let (late, time) = made();
    let fetch = Asking { cache: Arc::clone(&late), is_ready: false };
    assert_eq!(impatiently(late.entry(1).or_fetch_detached(fetch)), None);
    time.store(100, Relaxed);
    let load = late.get_or_insert_async(&1, async { 3 });
    assert_eq!((block_on(load), late.flights()), (3, 0));
}
