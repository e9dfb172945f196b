//! A thread suspended in the middle of its work neither stops the others nor makes them evict hot
//! entries.
//!
//! It is held up in user code, which the cache calls at the worst moments: in the hash of a victim,
//! while it holds the victim and its buffers; in the clone of a value, while its hazard names it;
//! in a destructor, while it reclaims.
#![cfg(not(any(loom, shuttle, miri)))]

use crate::extent::{HANG_LIMIT, is_long, policies};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Policy};

const CAPACITY: u64 = 10_000;
const HOT: u64 = 3_000;
/// More than the machine's cores, and than the stripes that a cache begins with.
const THREADS: u64 = 10;

/// The cold keys of one thread and the hot ones fill the cache.
fn turns_each() -> u64 {
    if is_long() { 15_000 } else { 8_000 }
}

/// Where a thread stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Hash,
    Clone,
    Drop,
}

thread_local! {
    /// The spot, and how many times the thread passes it first.
    static TRAP: Cell<Option<(Spot, u32)>> = const { Cell::new(None) };
}

/// Stops the threads that reach their spot, until they are released.
struct Trap {
    caught: Sender<()>,
    release: Mutex<Receiver<()>>,
}

impl Trap {
    fn pass(&self, spot: Spot) {
        match TRAP.get() {
            Some((wanted, 0)) if wanted == spot => {
                TRAP.set(None);
                self.caught.send(()).expect("the test waits");
                // Ends when the test drops the other side.
                _ = self.release.lock().map(|release| release.recv());
            }
            Some((wanted, passes)) if wanted == spot => TRAP.set(Some((spot, passes - 1))),
            _ => {}
        }
    }
}

struct Key(u64, Arc<Trap>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.pass(Spot::Hash);
        self.0.hash(state);
    }
}

struct Value<'c>(Tracked<'c>, Arc<Trap>);

impl Clone for Value<'_> {
    fn clone(&self) -> Self {
        self.1.pass(Spot::Clone);
        Value(self.0.clone(), Arc::clone(&self.1))
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        self.1.pass(Spot::Drop);
    }
}

type Tested<'c> = Cache<Key, Value<'c>>;

/// A client: many reads of hot keys, each inserted again after a miss, and a scan of others.
/// Returns the hits of hot keys.
fn work<'c>(cache: &Tested<'c>, census: &'c Census, trap: &Arc<Trap>, thread: u64) -> u64 {
    let new = |number| Value(Tracked::new(census, number), Arc::clone(trap));
    let key = |number| Key(number, Arc::clone(trap));
    let mut chance = Chance(thread);
    let mut hits = 0;
    let turns = turns_each();
    for turn in 0..turns {
        for _ in 0..4 {
            let hot = chance.below(HOT);
            match cache.get(&key(hot)) {
                Some(value) => {
                    value.0.check(hot);
                    hits += 1;
                }
                None => cache.insert(key(hot), new(hot)),
            }
        }
        let cold = 1_000_000 + (thread * turns + turn);
        cache.insert(key(cold), new(cold));
    }
    hits
}

/// Runs all threads, with `stuck` of them stuck. Returns the hit ratio of the hot keys, and the
/// time.
fn run(policy: Policy, spot: Spot, stuck: usize) -> (f64, f64) {
    let census = Census::default();
    let (caught, arrived) = channel();
    let (hold, release) = channel();
    let trap = Arc::new(Trap { caught, release: Mutex::new(release) });
    let mut cache: Tested<'_> = Cache::builder(CAPACITY).policy(policy).build();
    // Full, with its hot keys used.
    work(&cache, &census, &trap, THREADS + 1);
    let (mut hits, mut seconds) = (0, 0.0);
    std::thread::scope(|scope| {
        let (done, waiting) = channel::<()>();
        scope.spawn(move || {
            _ = waiting.recv_timeout(HANG_LIMIT);
            drop(hold);
        });
        for thread in 0..stuck {
            let (cache, census, trap) = (&cache, &census, &trap);
            scope.spawn(move || {
                // The first hash of an insertion is the new entry's own.
                TRAP.set(Some((spot, if spot == Spot::Hash { 1 } else { 0 })));
                let mut turn = 0;
                while TRAP.get().is_some() {
                    turn += 1;
                    let number = 2_000_000 + (thread << 20) as u64 + turn;
                    let value = Value(Tracked::new(census, number), Arc::clone(trap));
                    cache.insert(Key(number, Arc::clone(trap)), value);
                    if spot == Spot::Clone {
                        _ = cache.get(&Key(number, Arc::clone(trap)));
                    }
                    if spot == Spot::Hash && TRAP.get().is_some() {
                        TRAP.set(Some((spot, 1)));
                    }
                }
            });
            arrived.recv_timeout(HANG_LIMIT).expect("a thread is caught");
        }
        let refusals = cache.stats().refusals;
        let start = Instant::now();
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, census, trap) = (&cache, &census, &trap);
                scope.spawn(move || work(cache, census, trap, thread))
            })
            .collect();
        hits = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>();
        seconds = start.elapsed().as_secs_f64();
        assert_eq!(cache.stats().refusals, refusals, "{policy} {spot:?}");
        assert!(cache.len() as u64 <= CAPACITY);
        drop(done);
    });
    cache.validate().unwrap_or_else(|found| panic!("{policy} {spot:?}:\n{found}"));
    drop(cache);
    assert_eq!(census.living(), 0, "{policy} {spot:?}");
    (hits as f64 / (THREADS * turns_each() * 4) as f64, seconds)
}

fn compare(spot: Spot) {
    // Every other one: with a lock and without.
    let every = if is_long() { 1 } else { 2 };
    for policy in policies().into_iter().step_by(every) {
        let (free, free_seconds) = run(policy, spot, 0);
        let (ratio, seconds) = run(policy, spot, 3);
        println!(
            "{policy} {spot:?}: hot keys {free:.4} found in {free_seconds:.2} s, \
             {ratio:.4} in {seconds:.2} s with three threads stuck"
        );
        assert!((free - ratio).abs() < 0.01, "{policy} {spot:?}: {ratio} instead of {free}");
        // A thread that waited for a stuck one would have waited until its release.
        assert!(seconds < HANG_LIMIT.as_secs_f64(), "{policy} {spot:?}: {seconds} s");
        let heeds_hits = !matches!(policy, Policy::Fifo | Policy::Random { .. });
        assert!(!heeds_hits || ratio > 0.98, "{policy} {spot:?}: {ratio}");
    }
}

#[test]
fn in_the_hash_of_a_victim() {
    compare(Spot::Hash);
}

#[test]
fn in_the_clone_of_a_value() {
    compare(Spot::Clone);
}

#[test]
fn in_a_destructor() {
    compare(Spot::Drop);
}
