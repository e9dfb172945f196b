//! Sixty-four threads that insert into one cache: latencies of insertions, refusals, and the lag of
//! the slowest thread; with a listener, with gets of many keys, beside `quick_cache` and moka.
//!
//!     cargo run --release -p frazil-bench --features rivals --example crowd -- [SECONDS]
//!
//! Every eighth insertion is timed, including reading the clock. *Slowest* is the insertions of the
//! thread with the fewest, as a share of the mean of all. Then, for a cache of 64 MiB, the most
//! bytes of live values at a time, including those that wait to be dropped, while as many threads
//! insert and invalidate. Fails if one of our caches refuses an insertion, or if live values exceed
//! one and a half capacities.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use frazil::{Cache, Policy};
use frazil_driver::Latencies;
use frazil_policy::Rng;

const THREADS: u64 = 64;
const CAPACITY: u64 = 20_000;
/// One insertion in this number is timed.
const TIMED: u64 = 8;
/// Keys of a get of many; one insertion in four has such a get.
const MANY: u64 = 32;

/// The work of the threads, and the insertions refused after it.
struct Subject {
    name: String,
    insert: Box<dyn Fn(u64) + Sync>,
    get_many: Box<dyn Fn(&[u64]) + Sync>,
    refused: Box<dyn Fn() -> Option<u64> + Sync>,
    asks_many: bool,
}

fn ours(policy: Policy, listens: bool, asks_many: bool) -> Subject {
    let told = Arc::new(AtomicU64::new(0));
    let builder = Cache::<u64, u64>::builder(CAPACITY).policy(policy);
    let builder = match listens {
        true => builder.listener(move |_, _, _| _ = told.fetch_add(1, Relaxed)),
        false => builder,
    };
    let cache = Arc::new(builder.build());
    let (asked, ended) = (Arc::clone(&cache), Arc::clone(&cache));
    let with = match (listens, asks_many) {
        (true, _) => ", listener",
        (_, true) => ", get_many",
        _ => "",
    };
    Subject {
        name: format!("{}{with}", policy.name()),
        insert: Box::new(move |key| cache.insert(key, key)),
        get_many: Box::new(move |keys| _ = asked.get_many(keys)),
        refused: Box::new(move || Some(ended.stats().refusals)),
        asks_many,
    }
}

fn quick_cache() -> Subject {
    let cache = quick_cache::sync::Cache::<u64, u64>::new(CAPACITY as usize);
    Subject {
        name: "quick_cache".to_owned(),
        insert: Box::new(move |key| cache.insert(key, key)),
        get_many: Box::new(|_| ()),
        refused: Box::new(|| None),
        asks_many: false,
    }
}

fn moka(listens: bool) -> Subject {
    let told = Arc::new(AtomicU64::new(0));
    let builder = moka::sync::Cache::<u64, u64>::builder().max_capacity(CAPACITY);
    let cache = match listens {
        true => builder.eviction_listener(move |_, _, _| _ = told.fetch_add(1, Relaxed)).build(),
        false => builder.build(),
    };
    Subject {
        name: format!("moka{}", if listens { ", listener" } else { "" }),
        insert: Box::new(move |key| cache.insert(key, key)),
        get_many: Box::new(|_| ()),
        refused: Box::new(|| None),
        asks_many: false,
    }
}

/// Insertions of one thread, and the times of the timed ones.
fn insert_until(over: &AtomicBool, subject: &Subject, seed: u64) -> (u64, Latencies) {
    let (mut rng, mut turns, mut times) = (Rng::new(seed), 0, Latencies::new());
    while !over.load(Relaxed) {
        let key = rng.below(2 * CAPACITY);
        if turns % TIMED == 0 {
            let began = Instant::now();
            (subject.insert)(key);
            times.record(began.elapsed());
        } else {
            (subject.insert)(key);
        }
        if subject.asks_many && turns % 4 == 0 {
            let keys: Vec<u64> = (0..MANY).map(|_| rng.below(CAPACITY)).collect();
            (subject.get_many)(&keys);
        }
        turns += 1;
    }
    (turns, times)
}

/// Runs a subject, prints a line, and returns the number of refusals.
fn measure(subject: &Subject, duration: Duration) -> Option<u64> {
    let (over, together) = (AtomicBool::new(false), Barrier::new(THREADS as usize + 1));
    let threads: Vec<(u64, Latencies)> = std::thread::scope(|scope| {
        let spawn = |seed| {
            let (over, together) = (&over, &together);
            scope.spawn(move || {
                together.wait();
                insert_until(over, subject, seed)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        together.wait();
        std::thread::sleep(duration);
        over.store(true, Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let turns: Vec<u64> = threads.iter().map(|(turns, _)| *turns).collect();
    let total: u64 = turns.iter().sum();
    let slowest = turns.iter().min().copied().unwrap_or(0) as f64 * THREADS as f64 / total as f64;
    let mut times = Latencies::new();
    threads.iter().for_each(|(_, others)| times.add(others));
    let micros = |share: f64| times.quantile_ns(share) as f64 / 1e3;
    let refused = (subject.refused)();
    println!(
        "{:20} {:>8.2} {:>9.2} {:>9.2} {:>9.1} {:>9.0} % {:>9}",
        subject.name,
        total as f64 / duration.as_secs_f64() / 1e6,
        micros(0.5),
        micros(0.99),
        micros(0.999),
        slowest * 100.0,
        refused.map_or("-".to_owned(), |refused| refused.to_string()),
    );
    refused
}

/// Bytes of live values.
static LIVING: AtomicI64 = AtomicI64::new(0);

struct Page(Box<[u8]>);

impl Page {
    fn new() -> Self {
        LIVING.fetch_add(PAGE_BYTES as i64, Relaxed);
        Page(vec![1; PAGE_BYTES].into())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        LIVING.fetch_sub(self.0.len() as i64, Relaxed);
    }
}

/// Bytes of values, and of a cache for them.
const PAGE_BYTES: usize = 4_096;
const BYTES: u64 = 64 << 20;
/// Most bytes of live values, in capacities.
const LIVING_MAX: f64 = 1.5;

/// The most bytes of live values while threads insert and invalidate, as a share of the capacity.
fn most_living(policy: Policy, threads: u64, duration: Duration) -> f64 {
    let builder = Cache::<u64, Page>::builder(BYTES).policy(policy);
    let cache = builder.weigher(|_, page: &Page| page.0.len() as u64).build();
    let (over, mut most) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        for seed in 0..threads {
            let (cache, over) = (&cache, &over);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while !over.load(Relaxed) {
                    let key = rng.below(100_000);
                    cache.insert(key, Page::new());
                    cache.invalidate(&rng.below(100_000));
                }
            });
        }
        let began = Instant::now();
        while began.elapsed() < duration {
            most = most.max(LIVING.load(Relaxed));
            std::thread::sleep(Duration::from_micros(200));
        }
        over.store(true, Relaxed);
    });
    most as f64 / BYTES as f64
}

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map_or(Ok(3.0), |seconds| seconds.parse());
    let Some(duration) = seconds.ok().and_then(|it| Duration::try_from_secs_f64(it).ok()) else {
        eprintln!("usage: crowd [SECONDS]");
        return ExitCode::from(2);
    };
    println!(
        "{:20} {:>8} {:>9} {:>9} {:>9} {:>11} {:>9}",
        "", "M/s", "p50 µs", "p99 µs", "p99.9 µs", "slowest", "refused"
    );
    let mut refused = 0;
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        for (listens, asks_many) in [(false, false), (true, false), (false, true)] {
            refused += measure(&ours(policy, listens, asks_many), duration).unwrap_or(0);
        }
    }
    for subject in [quick_cache(), moka(false), moka(true)] {
        measure(&subject, duration);
    }
    println!("\n{:20} {:>8} {:>9}", "", "threads", "capacities");
    let mut most = 0.0f64;
    for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru] {
        for threads in [8, 32] {
            let living = most_living(policy, threads, duration);
            println!("{:20} {threads:>8} {living:>9.2}", policy.name());
            most = most.max(living);
        }
    }
    if refused > 0 || most > LIVING_MAX {
        eprintln!("{refused} insertions were refused, {most:.2} capacities lived");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
