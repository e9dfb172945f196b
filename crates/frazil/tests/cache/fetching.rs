//! Fetches: their number, who gets which result and when, which errors are remembered, and that
//! nothing is left of them.

use crate::extent::HANG_LIMIT;
use std::cell::Cell;
use std::future::{Pending, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::tasks::{Counts, Tasks, block_on, sleep, turn};
use frazil::{Cache, Compute, FetchError, Fetching, OnError};

type Small = Cache<u64, u64>;
type Fetched = Result<u64, FetchError<&'static str>>;

const CALLERS: usize = if cfg!(miri) { 20 } else { 10_000 };
const ORIGIN: Duration = Duration::from_millis(200);
/// Another program may take the processor just then, so a run may be repeated.
const RUNS: usize = 10;

fn cache(fetching: Fetching) -> Small {
    Cache::builder(100).fetching(fetching).build()
}

fn sharing(negative_ttl: Duration) -> Fetching {
    Fetching { on_error: OnError::Share, negative_ttl, ..Fetching::default() }
}

/// A fetch that never ends.
fn endless() -> Pending<Result<u64, &'static str>> {
    pending()
}

fn failed(error: &'static str) -> Fetched {
    Err(FetchError::Failed(Arc::new(error)))
}

/// The results of many callers of one key.
struct Crowd {
    answers: Vec<Fetched>,
    fetches: usize,
    /// How often no caller was ready between the end of the last fetch and the last answer. It must
    /// be 0: otherwise a caller waited for something else than that fetch.
    waits: u64,
}

/// Many tasks request one key of an origin that fails `failing` times. `meanwhile` runs in the
/// middle of the first fetch.
fn crowd(
    cache: &Small,
    origin: Duration,
    failing: usize,
    meanwhile: impl FnOnce(&mut Tasks<'_, Fetched>),
) -> Crowd {
    let (fetches, counts, before) = (Cell::new(0), Rc::new(Counts::default()), Cell::new(0));
    let fetch = async || {
        let number = fetches.replace(fetches.get() + 1);
        // The origin's time begins when all have asked, however long that takes.
        turn().await;
        sleep(origin).await;
        before.set(counts.idle.get());
        if number < failing { Err("offline") } else { Ok(7) }
    };
    let mut tasks = Tasks::counting(Rc::clone(&counts));
    for _ in 0..CALLERS {
        let fetch = &fetch;
        tasks.spawn(async move { cache.get_or_fetch(&1, fetch()).await });
    }
    tasks.poll_woken();
    let mut outputs = tasks.run_until(Instant::now() + origin / 2);
    assert!(outputs.is_empty(), "answered before there was anything");
    meanwhile(&mut tasks);
    outputs.extend(tasks.run());
    drop(tasks);
    assert_eq!(cache.flights(), 0);
    let waits = counts.idle.get() - before.get();
    // Each caller once to ask and once for the answer; a fetching one also when all have asked and
    // when time has passed.
    let (polls, most) = (counts.polls.get(), 2 * CALLERS as u64 + 3 * fetches.get() as u64);
    assert!(polls <= most, "{polls} polls: somebody asks again and again whether it is there");
    Crowd { answers: outputs, fetches: fetches.get(), waits }
}

/// Runs until it took less than the limit once.
fn within(limit: Duration, run: impl Fn() -> Duration) {
    let mut slowest = Vec::new();
    for _ in 0..RUNS {
        match run() {
            took if took < limit || cfg!(miri) => return,
            took => slowest.push(took),
        }
    }
    panic!("never took less than {limit:?}: {slowest:?}");
}

#[test]
fn thousands_that_ask_for_a_cold_key_fetch_once() {
    for timeout in [None, Some(Duration::from_secs(30))] {
        let cache = cache(Fetching { timeout, ..Fetching::default() });
        let crowd = crowd(&cache, ORIGIN, 0, |_| ());
        assert_eq!(crowd.fetches, 1);
        assert_eq!(crowd.answers.len(), CALLERS);
        assert!(crowd.answers.iter().all(|answer| *answer == Ok(7)));
        let (stats, fetches) = (cache.stats(), cache.fetch_stats());
        assert_eq!((stats.misses, stats.loads), (1, 1));
        assert_eq!(stats.delayed_hits, CALLERS as u64 - 1);
        assert_eq!(fetches.waiters.sum(), CALLERS as u64 - 1);
        assert_eq!((fetches.waiters.count(), fetches.delay.count()), (1, stats.delayed_hits));
        let fetch = ORIGIN.as_nanos() as u64;
        assert!(fetches.latency.sum() >= fetch && fetches.delay.quantile(1.0) > fetch / 2);
        assert_eq!(cache.timed_waits(), (0, timeout.is_some()));
        assert_eq!(crowd.waits, 0);
    }
}

#[test]
fn thousands_survive_a_fetcher_that_is_cancelled() {
    let cache = cache(Fetching::default());
    let crowd = crowd(&cache, ORIGIN, 0, |tasks| tasks.cancel(0));
    assert_eq!((crowd.fetches, crowd.answers.len()), (2, CALLERS - 1));
    assert!(crowd.answers.iter().all(|answer| *answer == Ok(7)));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 1));
    assert_eq!(crowd.waits, 0);
}

#[test]
fn an_origin_that_fails_three_times_fails_for_three() {
    let cache = cache(Fetching::default());
    let crowd = crowd(&cache, ORIGIN / 4, 3, |_| ());
    assert_eq!(crowd.fetches, 4);
    let failures = crowd.answers.iter().filter(|answer| **answer == failed("offline"));
    assert_eq!(failures.count(), 3);
    assert_eq!(crowd.answers.iter().filter(|answer| **answer == Ok(7)).count(), CALLERS - 3);
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 3));
    assert_eq!(crowd.waits, 0);
}

#[test]
fn an_origin_that_fails_three_times_fails_three_crowds_if_errors_are_shared() {
    let cache = cache(sharing(Duration::ZERO));
    for round in 0..4 {
        let crowd = crowd(&cache, ORIGIN / 4, if round < 3 { 1 } else { 0 }, |_| ());
        assert_eq!(crowd.fetches, 1);
        let expected = if round < 3 { failed("offline") } else { Ok(7) };
        assert!(crowd.answers.iter().all(|answer| *answer == expected));
        assert_eq!(crowd.waits, 0);
    }
    assert_eq!(cache.fetch_stats().shared_errors, 3 * (CALLERS as u64 - 1));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 3));
}

/// Earlier callers get the fetched value, which is not stored.
#[test]
fn a_write_in_between_wins_over_what_thousands_get() {
    type Write = fn(&Small);
    let writes: [(Write, Option<u64>); 4] = [
        (|cache| _ = cache.invalidate(&1), None),
        (|cache| _ = cache.remove(&1), None),
        (|cache| cache.clear(), None),
        (|cache| cache.insert(1, 20), Some(20)),
    ];
    for (write, left) in writes {
        let cache = cache(Fetching::default());
        let crowd = crowd(&cache, ORIGIN / 2, 0, |_| write(&cache));
        assert_eq!(crowd.fetches, 1);
        assert_eq!(crowd.answers.len(), CALLERS);
        assert!(crowd.answers.iter().all(|answer| *answer == Ok(7)));
        assert_eq!(cache.get(&1), left);
        assert_eq!(crowd.waits, 0);
    }
}

#[test]
fn what_is_larger_than_the_cache_is_handed_out_and_not_kept() {
    let cache: Small = Cache::builder(10).weigher(|_, _| 11).build();
    let crowd = crowd(&cache, ORIGIN / 4, 0, |_| ());
    assert_eq!((crowd.fetches, crowd.answers.len()), (1, CALLERS));
    assert!(crowd.answers.iter().all(|answer| *answer == Ok(7)));
    assert_eq!((cache.len(), cache.weight(), cache.get(&1)), (0, 0, None));
    let stats = cache.stats();
    assert_eq!((stats.refusals, stats.delayed_hits), (1, CALLERS as u64 - 1));
}

#[test]
fn a_panic_hands_over_and_is_not_shared() {
    let cache = cache(sharing(Duration::from_secs(60)));
    let panics = Cell::new(0);
    let mut tasks = Tasks::new();
    for number in 0..3 {
        let (cache, panics) = (&cache, &panics);
        tasks.spawn(async move {
            let fetch = async {
                sleep(Duration::from_millis(5)).await;
                if number < 2 { resume_unwind(Box::new(())) } else { Ok::<_, &str>(number) }
            };
            let mut fetched = Box::pin(cache.get_or_fetch(&1, fetch));
            std::future::poll_fn(|context| {
                let poll = catch_unwind(AssertUnwindSafe(|| fetched.as_mut().poll(context)));
                poll.unwrap_or_else(|_| {
                    panics.set(panics.get() + 1);
                    std::task::Poll::Ready(Ok(99))
                })
            })
            .await
        });
    }
    assert_eq!(tasks.run(), [Ok(99), Ok(99), Ok(2)]);
    assert_eq!((panics.get(), cache.get(&1), cache.fetch_stats().errors), (2, Some(2), 0));
}

#[test]
fn threads_and_tasks_share_errors_and_values() {
    const THREADS: u64 = 4;
    for fails in [true, false] {
        let cache = cache(sharing(Duration::ZERO));
        let fetches = AtomicU64::new(0);
        let fetch = || {
            fetches.fetch_add(1, Relaxed);
            // Until all wait.
            while cache.stats().misses < THREADS {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            if fails { Err("offline") } else { Ok(7) }
        };
        let answers: Vec<Fetched> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let (cache, fetch) = (&cache, &fetch);
                    scope.spawn(move || match number % 2 {
                        0 => cache.get_or_fetch_blocking(&1, fetch),
                        _ => block_on(cache.get_or_fetch(&1, async { fetch() })),
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let expected = if fails { failed("offline") } else { Ok(7) };
        assert!(answers.iter().all(|answer| *answer == expected), "{answers:?}");
        assert_eq!(fetches.into_inner(), 1);
    }
}

#[test]
fn a_waiter_that_knows_another_type_of_error_fetches_by_itself() {
    let cache = cache(sharing(Duration::from_secs(60)));
    let fetches = Cell::new(0);
    let count = || fetches.set(fetches.get() + 1);
    let mut tasks: Tasks<'_, ()> = Tasks::new();
    tasks.spawn(async {
        let fetch = async {
            count();
            sleep(Duration::from_millis(10)).await;
            Err("text")
        };
        assert_eq!(cache.get_or_fetch(&1, fetch).await, failed("text"));
    });
    tasks.spawn(async {
        let fetch = async { unreachable!("it shares what it knows") };
        assert_eq!(cache.get_or_fetch(&1, fetch).await, failed("text"));
    });
    tasks.spawn(async {
        let fetch = async {
            count();
            Err(404_u16)
        };
        let error = cache.get_or_fetch(&1, fetch).await;
        assert_eq!(error, Err(FetchError::Failed(Arc::new(404_u16))));
        // Now this one is remembered instead of the other.
        assert_eq!(cache.get_or_fetch(&1, pending()).await, error);
    });
    // A loading caller does not get the errors of others.
    tasks.spawn(async {
        let load = async {
            count();
            3
        };
        assert_eq!(cache.get_or_insert_async(&1, load).await, 3);
    });
    tasks.run();
    assert_eq!((fetches.get(), cache.get(&1)), (3, Some(3)));
    assert_eq!((cache.flights(), cache.fetch_stats().errors), (0, 0));
}

/// A cache that remembers for a minute, by a clock that shows these seconds.
fn minute() -> (Arc<AtomicU64>, Small) {
    let seconds = Arc::new(AtomicU64::new(1_000));
    let clock = Arc::clone(&seconds);
    let builder = Cache::builder(100).fetching(sharing(Duration::from_secs(60)));
    (seconds, builder.clock(move || Duration::from_secs(clock.load(Relaxed))).build())
}

fn fetch_error(cache: &Small, key: u64, error: &'static str) -> Fetched {
    cache.get_or_fetch_blocking(&key, || Err(error))
}

#[test]
fn an_error_answers_until_it_expires() {
    let (seconds, cache) = minute();
    assert_eq!(fetch_error(&cache, 1, "first"), failed("first"));
    for second in [1_000, 1_030, 1_059] {
        seconds.store(second, Relaxed);
        assert_eq!(fetch_error(&cache, 1, "second"), failed("first"), "{second}");
        assert_eq!(block_on(cache.get_or_fetch(&1, pending())), failed("first"));
    }
    assert_eq!((cache.flights(), cache.fetch_stats().errors), (0, 1));
    assert_eq!(cache.fetch_stats().remembered_errors, 6);
    seconds.store(1_060, Relaxed);
    assert_eq!(cache.get_or_fetch_blocking(&1, || Ok::<_, &str>(5)), Ok(5));
    assert_eq!((cache.get(&1), cache.fetch_stats().errors), (Some(5), 0));
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.loads, stats.load_failures), (8, 1, 1));
}

#[test]
fn errors_are_not_remembered_unless_that_is_set() {
    for on_error in [OnError::Retry, OnError::Share] {
        let cache = cache(Fetching { on_error, ..Fetching::default() });
        assert_eq!(fetch_error(&cache, 1, "first"), failed("first"));
        assert_eq!(fetch_error(&cache, 1, "second"), failed("second"));
        assert_eq!(cache.fetch_stats().errors, 0);
    }
}

#[test]
fn writes_end_an_error() {
    type Write = fn(&Small);
    let writes: [(Write, bool); 8] = [
        (|cache| cache.insert(1, 20), true),
        (|cache| _ = cache.remove(&1), true),
        (|cache| _ = cache.invalidate(&1), true),
        (|cache| cache.clear(), true),
        (|cache| cache.insert_for(1, 20, Duration::ZERO), true),
        (|cache| _ = cache.entry(1).and_compute(|_| Compute::Keep), true),
        (|cache| assert_eq!(cache.get_or_insert_with(&1, || 20), 20), true),
        (|cache| cache.insert(2, 20), false),
    ];
    for (number, (write, ends)) in writes.into_iter().enumerate() {
        let (_, cache) = minute();
        assert_eq!(fetch_error(&cache, 1, "first"), failed("first"));
        write(&cache);
        assert_eq!(cache.fetch_stats().errors, u64::from(!ends), "{number}");
        cache.invalidate(&1);
        cache.insert(1, 30);
        assert_eq!(fetch_error(&cache, 1, "second"), Ok(30), "{number}");
    }
}

#[test]
fn what_was_written_meanwhile_is_not_remembered_as_failed() {
    let (_, cache) = minute();
    let error = cache.get_or_fetch_blocking(&1, || {
        cache.invalidate(&1);
        Err("late")
    });
    assert_eq!((error, cache.fetch_stats().errors), (failed("late"), 0));
    assert_eq!(cache.get_or_fetch_blocking(&1, || Ok::<_, &str>(5)), Ok(5));
}

#[test]
fn errors_are_bounded_and_the_oldest_go() {
    const KEYS: u64 = if cfg!(miri) { 300 } else { 100_000 };
    let (seconds, cache) = minute();
    for key in 0..KEYS {
        assert_eq!(fetch_error(&cache, key, "none"), failed("none"));
    }
    let errors = cache.fetch_stats().errors;
    assert!(errors <= 8_192 && (cfg!(miri) || errors > 7_000), "{errors}");
    assert_eq!(fetch_error(&cache, KEYS - 1, "again"), failed("none"));
    if !cfg!(miri) {
        assert_eq!(fetch_error(&cache, 0, "again"), failed("again"));
    }
    // Writes of any keys remove a few expired errors.
    seconds.store(2_000, Relaxed);
    (0..KEYS / 2).for_each(|key| cache.insert(KEYS + key, key));
    assert_eq!((cache.fetch_stats().errors, cache.flights()), (0, 0));
    // And a purge removes all.
    (0..100).for_each(|key| _ = fetch_error(&cache, key, "none"));
    assert_eq!(cache.fetch_stats().errors, 100);
    cache.purge();
    assert_eq!(cache.fetch_stats().errors, 100);
    seconds.store(3_000, Relaxed);
    cache.purge();
    assert_eq!(cache.fetch_stats().errors, 0);
}

#[test]
fn waiters_are_capped() {
    let cache = cache(Fetching { waiters_max: 3, ..Fetching::default() });
    let mut tasks = Tasks::new();
    for _ in 0..6 {
        tasks.spawn(cache.get_or_fetch(&1, async {
            sleep(Duration::from_millis(10)).await;
            Ok::<_, &str>(7)
        }));
    }
    let crowded = Err(FetchError::TooManyWaiters);
    assert_eq!(tasks.run(), [&[crowded.clone(), crowded][..], &[const { Ok(7) }; 4]].concat());
    assert_eq!(cache.fetch_stats().too_many_waiters, 2);
    // A caller that leaves frees its place.
    let mut tasks = Tasks::new();
    (0..4).for_each(|_| tasks.spawn(cache.get_or_fetch(&2, endless())));
    assert!(tasks.run_until(Instant::now() + Duration::from_millis(5)).is_empty());
    tasks.cancel(2);
    tasks.spawn(cache.get_or_fetch(&2, endless()));
    assert!(tasks.run_until(Instant::now() + Duration::from_millis(5)).is_empty());
    // Plain loads are not refused.
    tasks.spawn(async { Ok(cache.get_or_insert_async(&2, pending()).await) });
    assert!(tasks.run_until(Instant::now() + Duration::from_millis(5)).is_empty());
}

#[test]
fn a_wait_that_takes_too_long_ends() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let timeout = Some(TIMEOUT);
    let cache = cache(Fetching { timeout, ..Fetching::default() });
    assert_eq!(cache.timed_waits(), (0, false));
    let mut fetcher = Tasks::new();
    fetcher.spawn(cache.get_or_fetch(&1, endless()));
    assert!(fetcher.run_until(Instant::now() + Duration::from_millis(1)).is_empty());
    // A thread parks, and needs no other.
    let began = Instant::now();
    let fetched = cache.get_or_fetch_blocking(&1, || -> Result<u64, &str> { unreachable!() });
    assert_eq!(fetched, Err(FetchError::TimedOut));
    assert!((TIMEOUT..HANG_LIMIT).contains(&began.elapsed()));
    assert_eq!(cache.timed_waits(), (0, false));
    let mut waiters = Tasks::new();
    let began = Instant::now();
    (0..100).for_each(|_| waiters.spawn(cache.get_or_fetch(&1, endless())));
    assert!(waiters.run_until(began + TIMEOUT / 20).is_empty());
    assert_eq!(cache.timed_waits(), (100, true));
    waiters.cancel(50);
    assert_eq!(cache.timed_waits().0, 99);
    assert_eq!(waiters.run(), [const { Err(FetchError::TimedOut) }; 99]);
    assert!((TIMEOUT..HANG_LIMIT).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!((cache.timed_waits().0, cache.fetch_stats().timed_out), (0, 100));
    // Nothing else has changed: the fetch continues, and hands over.
    assert_eq!(cache.flights(), 1);
    drop(fetcher);
    assert_eq!(cache.flights(), 0);
}

/// The deadline holds for all waits of a call together.
#[test]
fn who_waits_again_does_not_wait_longer() {
    let timeout = Duration::from_secs(2);
    within(timeout * 3 / 2, || wait_twice(timeout));
}

/// How long a caller waits for two fetches that never end, the second from half the timeout on.
fn wait_twice(timeout: Duration) -> Duration {
    let cache = cache(Fetching { timeout: Some(timeout), ..Fetching::default() });
    let fetches: [Tasks<'_, _>; 2] = std::array::from_fn(|_| {
        let mut tasks = Tasks::new();
        tasks.spawn(cache.get_or_fetch(&1, endless()));
        tasks
    });
    let [mut first, mut second] = fetches;
    assert!(first.run_until(Instant::now() + timeout / 20).is_empty());
    let began = Instant::now();
    let mut waiter = Tasks::new();
    waiter.spawn(cache.get_or_fetch(&1, endless()));
    assert!(waiter.run_until(began + timeout / 2).is_empty());
    // Its awaited fetch is overtaken and fails, and another has begun.
    cache.invalidate(&1);
    assert!(second.run_until(Instant::now() + timeout / 20).is_empty());
    drop(first);
    assert_eq!(waiter.run(), [Err(FetchError::TimedOut)]);
    began.elapsed()
}

#[test]
fn an_own_fetch_is_not_cut_off() {
    let timeout = Some(Duration::from_millis(5));
    let cache = cache(Fetching { timeout, ..Fetching::default() });
    let fetch = async {
        sleep(Duration::from_millis(30)).await;
        Ok::<_, &str>(7)
    };
    assert_eq!(block_on(cache.get_or_fetch(&1, fetch)), Ok(7));
    let slow = || {
        std::thread::sleep(Duration::from_millis(30));
        Ok::<_, &str>(8)
    };
    assert_eq!(cache.get_or_fetch_blocking(&2, slow), Ok(8));
    assert_eq!(cache.fetch_stats().timed_out, 0);
}

/// A fetch that requests its own key fetches it by itself, whatever the bounds.
#[test]
fn a_fetch_may_ask_for_its_own_key() {
    let fetching = Fetching { waiters_max: 0, timeout: Some(Duration::ZERO), ..sharing(ORIGIN) };
    let cache = cache(fetching);
    let nested = cache.get_or_fetch_blocking(&1, || {
        assert_eq!(fetch_error(&cache, 1, "inner"), failed("inner"));
        Ok::<_, &str>(5)
    });
    assert_eq!((nested, cache.get(&1)), (Ok(5), Some(5)));
    assert_eq!((cache.flights(), cache.fetch_stats().errors), (0, 0));
}

#[test]
fn fetches_may_be_sent() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let timeout = Some(Duration::from_secs(1));
    let cache = cache(Fetching { timeout, ..Fetching::default() });
    assert_eq!(block_on(sent(cache.get_or_fetch(&1, async { Ok::<_, &str>(2) }))), Ok(2));
}
