//! The store's speed on Zipf 1.0 with a tenth of the keys resident: gets a second, bytes an item,
//! and delays of readers and writers while segments merge. It prints the tables of
//! `docs/segment-store.md`. The argument is the seconds of each measurement; tests give a fraction.
//!
//! `cargo run --release --package frazil-segment --example segment_speed`
//!
//! Keys are 16 bytes, values 64 to 1,024 with all lengths equally likely. In a loop of dependent
//! gets the next key depends on a byte of the value before, so that no two gets overlap. Keys are
//! drawn beforehand, because drawing one takes as long as a hit.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil_segment::{Attributes, Eviction, Store};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

const KEYS: u64 = 1_000_000;
/// Mean bytes of an item, with its head and its part of the index.
const ITEM_BYTES: u64 = 16 + (64 + 1024) / 2 + 16;
const REQUESTS: usize = 1 << 21;
const BATCH: usize = 16;
const SECONDS: f64 = 2.0;

type Key = [u8; 16];

fn key(number: u64) -> Key {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

fn value_bytes(number: u64) -> usize {
    64 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % 961
}

fn requests(seed: u64, length: usize) -> Vec<u32> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let zipf = Zipf::new(KEYS as f64, 1.0).expect("a valid exponent");
    // Neighbours in rank are not neighbours in memory.
    let scatter = |rank: u64| (rank * 7_368_787 % KEYS) as u32;
    (0..length).map(|_| scatter(zipf.sample(&mut chance) as u64 - 1)).collect()
}

fn store(eviction: Eviction, keys: u64) -> Store {
    Store::builder((keys * ITEM_BYTES) as usize).eviction(eviction).build().expect("a store")
}

fn fill(store: &Store, value: &[u8], number: u64) {
    let length = value_bytes(number);
    store.set(&key(number), &value[..length], Attributes::default()).expect("room");
}

/// Replays requests, and stores missing keys. Returns the hit ratio of the second half.
fn warm(store: &Store, requests: &[u32]) -> f64 {
    let value = vec![0; 1024];
    let mut hits = 0;
    for (at, &number) in requests.iter().enumerate() {
        let number = u64::from(number);
        if store.get_with(&key(number), |_| ()).is_none() {
            fill(store, &value, number);
        } else {
            hits += usize::from(at >= requests.len() / 2);
        }
    }
    hits as f64 / (requests.len() / 2) as f64
}

/// A thread's repeated work on its keys: one call is `BATCH` gets.
type Turn = fn(&Store, &[Key], &mut Vec<u8>);

fn dependent(store: &Store, keys: &[Key], out: &mut Vec<u8>) {
    for key in keys {
        // All bytes are zero, but the processor cannot know that.
        let last = out.last().copied().unwrap_or(0);
        let mut key = *key;
        key[15] ^= last;
        out.clear();
        store.get(&key, out);
    }
}

fn many(store: &Store, keys: &[Key], out: &mut Vec<u8>) {
    out.clear();
    store.get_many(keys, |_, entry| {
        if let Some(entry) = entry {
            out.extend_from_slice(entry.value);
        }
    });
}

/// Million gets a second of all threads.
fn speed(store: &Store, keys: &[Vec<Key>], turn: Turn, seconds: f64) -> f64 {
    let done = AtomicBool::new(false);
    let barrier = Barrier::new(keys.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = keys
            .iter()
            .map(|keys| {
                let (done, barrier) = (&done, &barrier);
                scope.spawn(move || {
                    let mut out = Vec::with_capacity(BATCH << 10);
                    let mut gets = 0;
                    barrier.wait();
                    for keys in keys.chunks_exact(BATCH).cycle() {
                        turn(store, keys, &mut out);
                        gets += BATCH;
                        if done.load(Relaxed) {
                            break;
                        }
                    }
                    gets
                })
            })
            .collect();
        barrier.wait();
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        done.store(true, Relaxed);
        let elapsed = began.elapsed();
        let gets: usize = threads.into_iter().map(|thread| thread.join().expect("gets")).sum();
        gets as f64 / elapsed.as_secs_f64() / 1e6
    })
}

/// The present keys among this number of requests.
fn keys(store: &Store, seed: u64, length: usize) -> Vec<Key> {
    let numbers = requests(seed, length);
    let keys = numbers.into_iter().map(|number| key(u64::from(number)));
    keys.filter(|key| store.contains(key)).collect()
}

fn speeds(name: &str, eviction: Eviction, length: usize, seconds: f64) {
    let store = store(eviction, KEYS / 10);
    let hit_ratio = warm(&store, &requests(1, 4 * length));
    println!(
        "{name}: gets of keys that are there, {:.1} % of requests; million a second",
        100.0 * hit_ratio
    );
    println!("                                1 thread  2 threads  times");
    let zipf: Vec<_> = [2, 3].map(|seed| keys(&store, seed, length)).into();
    let hot = vec![vec![zipf[0][0]; BATCH]; 2];
    let rows: [(&str, &[Vec<Key>], Turn); 4] = [
        ("get, each after the last", &zipf, dependent),
        ("get_many of 16", &zipf, many),
        ("get, one hot key", &hot, dependent),
        ("get_many of 16, one hot key", &hot, many),
    ];
    for (name, keys, turn) in rows {
        // Five alternating pairs, and their medians, because other programs use the machine too.
        let mut pairs = [(0.0, 0.0); 5];
        for pair in &mut pairs {
            let one = speed(&store, &keys[..1], turn, seconds / 5.0);
            *pair = (one, speed(&store, keys, turn, seconds / 5.0));
        }
        let median = |of: fn(&(f64, f64)) -> f64| {
            let mut all = pairs.each_ref().map(of);
            all.sort_by(f64::total_cmp);
            all[2]
        };
        let (one, two, times) = (median(|p| p.0), median(|p| p.1), median(|p| p.1 / p.0));
        println!("{name:<30}  {one:>8.2}  {two:>9.2}  {times:>5.2}");
    }
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    // Pages of 4 KiB, as on all systems that have this file and are measured here.
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? << 12)
}

/// The length of the value of a key.
type Length = fn(u64) -> usize;

/// Bytes that an item takes beyond its key and value, as growth of the process.
fn memory(eviction: Eviction, items: u64, length: Length) -> Option<(f64, f64)> {
    let value = vec![1; 1024];
    let bytes: u64 = (0..items).map(|number| 16 + length(number) as u64).sum();
    let before = resident_bytes()?;
    // Capacity for all items, so that nothing is evicted and nothing is kept free.
    let builder = Store::builder((bytes * 5 / 4) as usize + (4 << 20)).eviction(eviction);
    let store = builder.build().expect("a store");
    for number in 0..items {
        let length = length(number);
        store.set(&key(number), &value[..length], Attributes::default()).expect("room");
    }
    assert_eq!(store.stats().items, items);
    let beyond = (resident_bytes()? - before - bytes) as f64 / items as f64;
    Some((beyond, 100.0 * beyond / (bytes as f64 / items as f64)))
}

fn memories(scale: u64) {
    println!("\nmemory beyond key and value, growth of the process");
    println!("values, bytes      items  bytes an item   % of key and value   gl-cache: bytes");
    let lengths: [(&str, u64, Length); 5] = [
        ("64", 8_000_000, |_| 64),
        ("100", 1_000_000, |_| 100),
        ("100", 8_000_000, |_| 100),
        ("1024", 1_000_000, |_| 1024),
        ("64 to 1024", 2_000_000, value_bytes),
    ];
    for (name, items, length) in lengths {
        let items = items / scale;
        let measured = [Eviction::FifoMerge, Eviction::GlCache];
        let [merge, learn] = measured.map(|eviction| memory(eviction, items, length));
        if let (Some((bytes, share)), Some((learned, _))) = (merge, learn) {
            println!("{name:<13} {items:>10}  {bytes:>13.1}   {share:>18.1}   {learned:>15.1}");
        }
    }
}

/// The peak growth of the process while a store is written repeatedly.
fn capacity(megabytes: u64) {
    let value = vec![1; 1024];
    let Some(before) = resident_bytes() else { return };
    let store = Store::builder((megabytes << 20) as usize).build().expect("a store");
    let (mut grown, mut written) = (0, 0);
    for number in 0.. {
        // Lengths that change from round to round.
        let length = value_bytes(number ^ written >> 28);
        store.set(&key(number), &value[..length], Attributes::default()).expect("room");
        written += 16 + length as u64;
        if number % 4096 == 0 {
            grown = resident_bytes().unwrap_or(before).saturating_sub(before).max(grown);
        }
        if written > (4 * megabytes) << 20 {
            break;
        }
    }
    let grown = grown as f64 / f64::from(1 << 20);
    println!("capacity {megabytes} MiB, written over four times: at most {grown:.1} MiB of growth");
}

/// How long operations take, in classes of a 16th.
struct Times {
    counts: Vec<u64>,
    longest: Duration,
    /// Longest time of runs that the system did not preempt.
    longest_undisturbed: Duration,
}

impl Times {
    fn new() -> Times {
        Times {
            counts: vec![0; 1024],
            longest: Duration::ZERO,
            longest_undisturbed: Duration::ZERO,
        }
    }

    /// Times an operation.
    fn time<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        let before = preemptions();
        let began = Instant::now();
        let result = operation();
        let time = began.elapsed();
        if preemptions() == before {
            self.longest_undisturbed = self.longest_undisturbed.max(time);
        }
        self.longest = self.longest.max(time);
        let ns = (time.as_nanos() as u64).max(16);
        let exponent = ns.ilog2();
        let class = 16 * exponent + (ns >> (exponent - 4)) as u32 - 16;
        self.counts[class as usize] += 1;
        result
    }

    fn join(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, more)| *all += more);
        self.longest = self.longest.max(other.longest);
        self.longest_undisturbed = self.longest_undisturbed.max(other.longest_undisturbed);
    }

    fn quantile_us(&self, share: f64) -> f64 {
        let wanted = (self.counts.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut passed = 0;
        let class = self.counts.iter().position(|count| {
            passed += count;
            passed >= wanted
        });
        let class = class.unwrap_or(0) as u64;
        (((16 + class % 16) << (class / 16)) >> 4) as f64 / 1e3
    }
}

/// How often the system has preempted this thread.
fn preemptions() -> i64 {
    // SAFETY: zeroes are a valid value of these numbers, and the call overwrites them with those of
    // this thread.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
    }
}

fn holds(name: &str, store: &Store, length: usize, seconds: f64) {
    warm(store, &requests(1, 2 * length));
    let (merged, learned) = (store.stats(), store.learner_stats());
    let done = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = [4, 5]
            .map(|seed| {
                let done = &done;
                scope.spawn(move || hold_times(store, &requests(seed, length), done))
            })
            .into();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        done.store(true, Relaxed);
        let mut times = threads.into_iter().map(|thread| thread.join().expect("operations"));
        let mut all = times.next().expect("two threads");
        times.for_each(|times| all.iter_mut().zip(&times).for_each(|(all, more)| all.join(more)));
        all
    });
    let after = store.stats();
    let gone = after.evicted_items - merged.evicted_items;
    print!("{name}: {} merges, {gone} items evicted", after.merges - merged.merges);
    match (learned, store.learner_stats()) {
        (Some(before), Some(after)) => {
            let models = after.trainings - before.trainings;
            println!("; {models} models, the last in {:.1} ms", after.training.as_secs_f64() * 1e3);
        }
        _ => println!(),
    }
    for (name, times) in ["get", "set"].iter().zip(&times) {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| times.quantile_us(share));
        let [longest, undisturbed] =
            [times.longest, times.longest_undisturbed].map(|time| time.as_secs_f64() * 1e6);
        println!(
            "  {name:<5} {p50:>7.2} {p99:>7.2} {p999:>8.2} {longest:>10.1} {undisturbed:>13.1}"
        );
    }
}

/// Times of gets, and of sets.
fn hold_times(store: &Store, requests: &[u32], done: &AtomicBool) -> [Times; 2] {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(u64::from(requests[0]));
    let mut times = [Times::new(), Times::new()];
    let (mut out, value) = (Vec::with_capacity(1024), vec![0; 1024]);
    for &number in requests.iter().cycle() {
        let number = u64::from(number);
        out.clear();
        let hit = times[0].time(|| store.get(&key(number), &mut out).is_some());
        if !hit || chance.random_range(0..10) == 0 {
            times[1].time(|| fill(store, &value, number));
        }
        if done.load(Relaxed) {
            break;
        }
    }
    times
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(SECONDS, |word| word.parse().expect("seconds"));
    let length = if seconds < 1.0 { REQUESTS >> 5 } else { REQUESTS };
    speeds("fifo-merge", Eviction::FifoMerge, length, seconds);
    speeds("gl-cache", Eviction::GlCache, length, seconds);
    memories(if seconds < 1.0 { 20 } else { 1 });
    capacity(if seconds < 1.0 { 16 } else { 256 });
    println!("\ntwo threads that get, and set what is missing and each tenth: us");
    println!("            p50     p99    p99.9    longest   undisturbed");
    holds("fifo-merge", &store(Eviction::FifoMerge, KEYS / 10), length, seconds);
    holds("gl-cache", &store(Eviction::GlCache, KEYS / 10), length, seconds);
    // The most rows that a learner takes, so that it trains after each snapshot.
    let many = Store::builder((KEYS / 10 * ITEM_BYTES) as usize).segment_bytes(8 << 10);
    let many = many.eviction(Eviction::GlCache).build().expect("a store");
    holds("gl-cache, segments of 8 KiB", &many, length, seconds);
    holds("fifo", &store(Eviction::Fifo, KEYS / 10), length, seconds);
    holds("room for all", &store(Eviction::Fifo, KEYS * 2), length, seconds);
}
