//! What the system does to a process: it forbids a call that worked, or forks the process.
//!
//! Neither can be undone, so each of these tests runs in its own process, which runs this program
//! with that test alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::extent::HANG_LIMIT;
use crate::own_process::is_alone;
use crate::sandbox::forbid_membarrier;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Freezing, Policy};

const CAPACITY: u64 = 2_000;
/// Slots that wait for a reclamation, and those in threads' buffers.
const WAITING: u64 = 1_000;
fn fill<'c>(cache: &Cache<u64, Tracked<'c>>, census: &'c Census, keys: std::ops::Range<u64>) {
    for key in keys {
        cache.insert(key, Tracked::new(census, key));
        assert!(cache.contains_key(&key), "{key} was not admitted");
    }
}

#[test]
fn a_sandbox_that_forbids_membarrier_costs_no_insertion() {
    if !is_alone("processes::a_sandbox_that_forbids_membarrier_costs_no_insertion") {
        return;
    }
    let census = Census::default();
    let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(CAPACITY).build();
    fill(&cache, &census, 0..CAPACITY);
    let (over, looks) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (cache, over, looks) = (&cache, &over, &looks);
            scope.spawn(move || {
                let mut chance = Chance(number);
                while !over.load(SeqCst) {
                    let pin = cache.pin();
                    for key in (0..5).map(|_| chance.below(4 * CAPACITY)) {
                        pin.get(&key).into_iter().for_each(|value| value.check(key));
                        cache.get(&key).into_iter().for_each(|value| value.check(key));
                    }
                    looks.fetch_add(1, SeqCst);
                }
            });
        }
        let begun = Instant::now();
        while looks.load(SeqCst) < 100 && begun.elapsed() < HANG_LIMIT {
            std::thread::yield_now();
        }
        forbid_membarrier().expect("a filter");
        let filled = catch_unwind(AssertUnwindSafe(|| {
            fill(&cache, &census, CAPACITY..20 * CAPACITY);
        }));
        over.store(true, SeqCst);
        assert!(filled.is_ok());
    });
    fill(&cache, &census, 0..10 * CAPACITY);
    assert_eq!(cache.stats().refusals, 0);
    assert!(census.living() as u64 <= CAPACITY + WAITING, "{} live", census.living());
    cache.validate().unwrap();
    drop(cache);
    assert_eq!(census.living(), 0);
}

/// Forks the process, and runs `work` in the child. Returns whether that succeeded.
fn fork(work: impl FnOnce()) -> bool {
    // SAFETY: the child runs `work`, which the tests choose so that it can, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let outcome = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: ends the process, and with it all that the parent's test would clean up.
            unsafe { libc::_exit(outcome.is_err().into()) }
        }
        child => {
            let begun = Instant::now();
            let mut status = 0;
            // SAFETY: both calls concern a child of this process.
            unsafe {
                while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                    if begun.elapsed() > HANG_LIMIT {
                        libc::kill(child, libc::SIGKILL);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

/// A value that stops threads that clone it.
struct Stops<'c>(Tracked<'c>, &'c Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Clone for Stops<'_> {
    fn clone(&self) -> Self {
        let stop = self.1.lock().unwrap().take();
        if let Some((arrived, held)) = stop {
            arrived.send(()).expect("the test waits");
            _ = held.recv();
        }
        Stops(self.0.clone(), self.1)
    }
}

/// In the child none of the reading threads exists, and their entries are not needed; but those
/// pinned by the forking thread are.
#[test]
fn a_process_that_forks_while_others_read_refuses_nothing() {
    if !is_alone("processes::a_process_that_forks_while_others_read_refuses_nothing") {
        return;
    }
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        let (census, stop) = (Census::default(), Mutex::new(None));
        let cache: Cache<u64, Stops<'_>> = Cache::builder(CAPACITY).policy(policy).build();
        let insert = |key| {
            cache.insert(key, Stops(Tracked::new(&census, key), &stop));
            assert!(cache.contains_key(&key), "{policy}: {key} was not admitted");
        };
        (0..CAPACITY).for_each(insert);
        let (arrived, arrivals) = channel();
        let (release, held) = channel();
        std::thread::scope(|scope| {
            let (cache, stop, here) = (&cache, &stop, arrived.clone());
            scope.spawn(move || {
                // More entries than a thread names one by one.
                let pin = cache.pin();
                assert!((0..100).all(|key| pin.get(&key).is_some()));
                *stop.lock().unwrap() = Some((here, held));
                cache.get(&0);
            });
            arrivals.recv_timeout(HANG_LIMIT).expect("it stands still in a clone");
            let pin = cache.pin();
            let shown = pin.get(&1).expect("it is there");
            let child = || {
                (CAPACITY..10 * CAPACITY).for_each(insert);
                shown.0.check(1);
                std::thread::scope(|scope| _ = scope.spawn(|| (0..CAPACITY).for_each(insert)));
                assert_eq!(cache.stats().refusals, 0);
                assert!(census.living() as u64 <= CAPACITY + WAITING);
                shown.0.check(1);
                // And so do its own children.
                let grandchild = || {
                    (CAPACITY..10 * CAPACITY).for_each(insert);
                    assert_eq!(cache.stats().refusals, 0);
                };
                assert!(fork(grandchild));
            };
            let succeeded = fork(child);
            drop(release);
            assert!(succeeded, "{policy}: the child failed");
        });
    }
}

/// No thread waits for a lost thread that was writing or growing the table.
#[test]
fn a_process_that_forks_while_others_write_lets_its_table_grow() {
    const CACHES: usize = 60;
    const KEYS: u64 = 20_000;
    if !is_alone("processes::a_process_that_forks_while_others_write_lets_its_table_grow") {
        return;
    }
    let caches: Vec<Cache<u64, String>> =
        (0..CACHES).map(|_| Cache::builder(10 * KEYS).build()).collect();
    let (filling, children) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, cache) in (0..).zip(&caches) {
                // However fast it fills, some children must be forked.
                while children.load(SeqCst) < number / 4 {
                    std::thread::yield_now();
                }
                filling.store(number, SeqCst);
                (0..KEYS).for_each(|key| cache.insert(key, key.to_string()));
            }
        });
        let mut chance = Chance(1);
        while filling.load(SeqCst) + 1 < CACHES as u64 {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(chance.below(3_000)) {
                std::hint::spin_loop();
            }
            let number = filling.load(SeqCst);
            let cache = &caches[number as usize];
            let child = || {
                for key in KEYS..3 * KEYS {
                    cache.insert(key, key.to_string());
                    assert_eq!(cache.get(&key), Some(key.to_string()));
                }
                assert_eq!(cache.stats().refusals, 0);
            };
            if !fork(child) {
                failed.push(number);
            }
            children.fetch_add(1, SeqCst);
        }
    });
    assert!(failed.is_empty(), "children of caches {failed:?} failed");
    assert!(children.load(SeqCst) > 10, "too few children");
}

/// In the child the freezing thread is missing, and nothing waits for it; another may be started.
#[test]
fn a_process_that_forks_is_rid_of_the_thread_that_freezes() {
    if !is_alone("processes::a_process_that_forks_is_rid_of_the_thread_that_freezes") {
        return;
    }
    let cache: Cache<u64, u64> = Cache::builder(100).freezing(Freezing::Learned).build();
    let cache = Arc::new(cache);
    let mut control = Some(cache.control_freezing().expect("nobody controls it"));
    assert!(fork(|| {
        drop(control.take());
        drop(cache.control_freezing().expect("nobody here controls it"));
    }));
    assert!(cache.control_freezing().is_err());
    drop(control);
    assert!(cache.control_freezing().is_ok());
}
