//! Fetches under chosen interleavings: waits that time out while a flight lands, errors that
//! are shared, and errors that are remembered while the key is written.
//!
//! `cargo xtask check shuttle` runs it and `operations.rs`. Under shuttle each check of a deadline
//! may find it passed or not, so each race of a timeout is played. A lost wake shows as a deadlock.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as PlainU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use crate::schedules::explore;
use crate::tracked::Chance;
use crate::waiting::poll_for;
use frazil::{Cache, FetchError, Fetching, OnError};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;

/// Schedules a test and scheduler.
const SCHEDULES: u64 = 30_000;

/// The same hashes in every run.
type Hashes = BuildHasherDefault<DefaultHasher>;
type Tested = Cache<u64, u64, Hashes>;
type Fetched = Result<u64, FetchError<u64>>;

fn cache(fetching: Fetching) -> Tested {
    Cache::builder(8).fetching(fetching).with_hasher(Hashes::default()).build()
}

fn sharing(negative_ttl: Duration) -> Fetching {
    Fetching { on_error: OnError::Share, negative_ttl, ..Fetching::default() }
}

fn failed(error: u64) -> Fetched {
    Err(FetchError::Failed(Arc::new(error)))
}

/// Threads of `work`, numbered.
fn together(threads: u64, work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for number in 0..threads {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

fn at_rest(mut cache: Tested) {
    assert_eq!(cache.flights(), 0, "left in the table");
    assert_eq!(cache.timed_waits().0, 0, "left with the timer");
    cache.validate().unwrap_or_else(|findings| panic!("{findings}"));
}

/// An origin that yields once before it answers.
async fn slowly(answer: impl FnOnce() -> Result<u64, u64>) -> Result<u64, u64> {
    let mut ready = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut ready, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    answer()
}

/// As a thread, or as a task that is polled to its end.
fn ask(cache: &Tested, is_task: bool, answer: impl FnOnce() -> Result<u64, u64>) -> Fetched {
    if is_task {
        return poll_for(cache.get_or_fetch(&1, slowly(answer)), u64::MAX).expect("an end");
    }
    cache.get_or_fetch_blocking(&1, || {
        thread::yield_now();
        answer()
    })
}

/// A waiter gets the value or the turn, or is late; fetchers are dropped in the middle, and another
/// gets the turn that a late one leaves.
#[test]
fn timeouts_race_with_landing_and_handing_over() {
    let timeout = Some(Duration::from_secs(1));
    explore(SCHEDULES, move || {
        let cache = cache(Fetching { timeout, ..Fetching::default() });
        let seed = thread_rng().next_u64();
        let (fetches, late) = (PlainU64::new(0), PlainU64::new(0));
        let answer = || Ok(fetches.fetch_add(1, Relaxed));
        together(4, |number| {
            let polls = 1 + Chance(seed ^ number).below(3);
            let fetched = match number {
                0 => poll_for(cache.get_or_fetch(&1, slowly(answer)), polls),
                _ => Some(ask(&cache, number < 3, answer)),
            };
            match fetched {
                None | Some(Ok(0)) => {}
                Some(Err(FetchError::TimedOut)) => _ = late.fetch_add(1, Relaxed),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(cache.fetch_stats().timed_out, late.load(Relaxed));
        // Only a waiter for another's fetch is late, so one has ended or was dropped.
        assert!(fetches.load(Relaxed) <= 1);
        at_rest(cache);
    });
}

/// All are late but no caller could fetch: the woken one gets the turn all the same, and none waits
/// for ever.
#[test]
fn a_wake_is_not_lost_to_who_is_late() {
    let timeout = Some(Duration::from_secs(1));
    explore(SCHEDULES, move || {
        let cache = cache(Fetching { timeout, ..Fetching::default() });
        together(4, |number| {
            let patient = || Ok::<u64, u64>(7);
            match number {
                0 => drop(poll_for(cache.get_or_fetch(&1, slowly(patient)), 1)),
                // Waits as long as it takes.
                1 => assert_eq!(cache.get_or_insert_with(&1, || 7), 7),
                _ => match ask(&cache, number == 2, patient) {
                    Ok(7) | Err(FetchError::TimedOut) => {}
                    other => panic!("{other:?}"),
                },
            }
        });
        assert_eq!(cache.get(&1), Some(7));
        at_rest(cache);
    });
}

/// An error goes to its fetcher and to the waiters; the next fetcher gets another. No caller gets
/// an error from before its request.
#[test]
fn errors_are_shared_by_those_who_wait() {
    explore(SCHEDULES, || {
        let cache = cache(sharing(Duration::ZERO));
        let fetches = PlainU64::new(0);
        let ended = PlainU64::new(0);
        together(3, |number| {
            for _ in 0..2 {
                let before = ended.load(Relaxed);
                let answer = || Err(fetches.fetch_add(1, Relaxed));
                let Err(FetchError::Failed(error)) = ask(&cache, number == 0, answer) else {
                    panic!("it brings nothing")
                };
                assert!(*error >= before, "{error} is from before {before}");
                ended.fetch_max(*error + 1, Relaxed);
            }
        });
        let fetches = fetches.load(Relaxed);
        assert_eq!(fetches + cache.fetch_stats().shared_errors, 6);
        at_rest(cache);
    });
}

/// A shared error does not stop callers with another type of error, or that load.
#[test]
fn who_has_no_use_for_an_error_elects_itself() {
    explore(SCHEDULES, || {
        let cache = cache(sharing(Duration::from_secs(1_000)));
        together(3, |number| match number {
            0 => {
                let fetched = ask(&cache, true, || Err(5));
                assert!(fetched == failed(5) || fetched == Ok(7), "{fetched:?}");
            }
            1 => {
                let fetched = cache.get_or_fetch_blocking(&1, || Err::<u64, _>("other"));
                let error = Err(FetchError::Failed(Arc::new("other")));
                assert!(fetched == error || fetched == Ok(7), "{fetched:?}");
            }
            _ => assert_eq!(cache.get_or_insert_with(&1, || 7), 7),
        });
        assert_eq!(cache.get(&1), Some(7));
        assert_eq!(cache.fetch_stats().errors, 0, "beside a value");
        at_rest(cache);
    });
}

/// An error for a missing key is not returned after the origin has it and the key was written.
#[test]
fn writes_outlast_what_is_remembered() {
    explore(SCHEDULES, || {
        let cache = cache(sharing(Duration::from_secs(1_000)));
        // The origin's value (0: none), and its value when a write to the cache was over.
        let (source, known) = (AtomicU64::new(0), PlainU64::new(0));
        let seed = thread_rng().next_u64();
        together(3, |number| {
            let mut chance = Chance(seed ^ number);
            for _ in 0..3 {
                let oldest = known.load(Relaxed);
                let answer = || match source.load(SeqCst) {
                    version if version % 2 == 0 => Err(version),
                    version => Ok(version),
                };
                if chance.below(3) == 0 {
                    let new = source.fetch_add(1, SeqCst) + 1;
                    if chance.below(3) == 0 {
                        cache.clear()
                    } else {
                        _ = cache.invalidate(&1)
                    }
                    known.fetch_max(new, Relaxed);
                    continue;
                }
                let version = match ask(&cache, chance.below(2) == 0, answer) {
                    Ok(version) => version,
                    Err(FetchError::Failed(version)) => *version,
                    Err(other) => panic!("{other}"),
                };
                assert!(version >= oldest, "{version} < {oldest}");
            }
        });
        // Once more, at rest: the remembered result is the origin's.
        let last = known.load(Relaxed);
        let fetched = ask(&cache, false, || Err(last));
        assert!(fetched == Ok(last) || fetched == failed(last), "{fetched:?}, {last}");
        assert!(cache.fetch_stats().errors <= 1);
        cache.invalidate(&1);
        assert_eq!(cache.fetch_stats().errors, 0);
        at_rest(cache);
    });
}

/// Under a checker one error is remembered: others displace it, during all other operations.
#[test]
fn remembered_errors_are_bounded() {
    explore(SCHEDULES, || {
        let cache = cache(sharing(Duration::from_secs(1_000)));
        let seed = thread_rng().next_u64();
        together(3, |number| {
            let mut chance = Chance(seed ^ number);
            for _ in 0..3 {
                let key = chance.below(2);
                match chance.below(4) {
                    0 => cache.insert(key, 7),
                    1 => _ = cache.invalidate(&key),
                    _ => {
                        let fetched = cache.get_or_fetch_blocking(&key, || Err(5));
                        assert!(fetched == failed(5) || fetched == Ok(7), "{fetched:?}");
                    }
                }
            }
        });
        assert!(cache.fetch_stats().errors <= 1, "more than one is remembered");
        at_rest(cache);
    });
}

/// A fetch passes from caller to caller, however they come, leave and write.
#[test]
fn a_detached_fetch_is_begun_once() {
    explore(SCHEDULES, || {
        let cache = Arc::new(cache(Fetching::default()));
        let fetches = Arc::new(AtomicU64::new(0));
        let seed = thread_rng().next_u64();
        let writes = seed % 3 == 0;
        let fetch = |fetches: &Arc<AtomicU64>| {
            let fetches = Arc::clone(fetches);
            let answer = move || Ok(fetches.fetch_add(1, SeqCst));
            slowly(answer)
        };
        together(3, |number| {
            let polls = 1 + Chance(seed ^ number).below(3);
            if number == 2 && writes {
                cache.invalidate(&1);
                return;
            }
            let fetched = poll_for(cache.entry(1).or_fetch_detached(fetch(&fetches)), polls);
            assert!(fetched.is_none_or(|fetched| fetched.unwrap() < 3));
        });
        let last = poll_for(cache.entry(1).or_fetch_detached(fetch(&fetches)), u64::MAX);
        assert!(last.is_some_and(|fetched| fetched.unwrap() < 3));
        let begun = fetches.load(SeqCst);
        assert!(begun == 1 || writes && begun <= 3, "{begun}");
        at_rest(Arc::into_inner(cache).expect("the threads have ended"));
    });
}
