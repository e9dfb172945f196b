//! Calls that are cancelled leave nothing: no flight, no waiter, no deadline, no memory.
//!
//! Alone in its process, because it counts all of the process's memory.
#![cfg(not(any(loom, shuttle, miri)))]

#[path = "../../../examples/soak/counted.rs"]
mod counted;

use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use frazil::{Cache, Fetching, OnError};

/// Three of four wait for the first; all are dropped.
fn cancel(cache: &Cache<u64, u64>, calls: u64) {
    let mut context = Context::from_waker(Waker::noop());
    for call in 0..calls / 4 {
        let key = call % 1_000;
        let ask = || cache.get_or_fetch(&key, pending::<Result<u64, String>>());
        let (mut first, mut second) = (Box::pin(ask()), Box::pin(ask()));
        let (third, fourth) = (pin!(ask()), pin!(ask()));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.poll(&mut context).is_pending());
        assert!(fourth.poll(&mut context).is_pending());
        // The fetching caller is dropped before or after the waiters.
        if call % 2 == 0 { drop(first) } else { drop(second) }
    }
}

#[test]
fn a_million_cancelled_calls_leave_nothing() {
    let fetching = Fetching {
        timeout: Some(Duration::from_secs(3_600)),
        on_error: OnError::Share,
        negative_ttl: Duration::from_secs(3_600),
        ..Fetching::default()
    };
    let cache: Cache<u64, u64> = Cache::builder(100).fetching(fetching).build();
    // Memory allocated once.
    cancel(&cache, 20_000);
    let (before, began) = (counted::bytes(), Instant::now());
    cancel(&cache, 1_000_000);
    let grown = counted::bytes() as i64 - before as i64;
    println!("{grown} bytes more after {:.1?}", began.elapsed());
    assert_eq!((cache.flights(), cache.timed_waits().0), (0, 0));
    assert_eq!(cache.fetch_stats().errors, 0);
    assert_eq!(cache.stats().load_failures, 1_020_000 / 4);
    assert!(grown.abs() < 4_096, "{grown} bytes");
    drop(cache);
    timers_go_with_their_caches();
}

fn timers_go_with_their_caches() {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count());
    let fetching = Fetching { timeout: Some(Duration::from_secs(3_600)), ..Fetching::default() };
    for _ in 0..100 {
        let cache: Cache<u64, u64> = Cache::builder(100).fetching(fetching.clone()).build();
        let mut context = Context::from_waker(Waker::noop());
        let ask = || cache.get_or_fetch(&1, pending::<Result<u64, ()>>());
        let (first, second) = (pin!(ask()), pin!(ask()));
        assert!(first.poll(&mut context).is_pending() && second.poll(&mut context).is_pending());
        assert_eq!(cache.timed_waits(), (1, true));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while threads() > 8 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(threads() <= 8, "{} threads are left", threads());
}
