//! The cost of `get_or_fetch` over `get` and `insert` without waiters, with LRU: time, in
//! alternating rounds, and instructions, if valgrind is installed.
//!
//! `cargo run --release --package frazil --example fetch_cost`
//!
//! The origin is a multiplication, so the difference is the cost of the mechanism. Two readings of
//! the clock are a good part of it; valgrind does not count their instructions in the kernel's
//! page. In the last workload the origin takes 5 µs, less than a fetch over any network.

use std::hint::black_box;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use frazil::{Cache, Fetching, Policy};

const CAPACITY: u64 = 10_000;
const KEYS: u64 = 200_000;
const REQUESTS: usize = 1_000_000;
const ROUNDS: usize = 15;
/// For the mixed workloads: every seventh request misses.
const MIXED_KEYS: u64 = 28_000;
const SLOW: Duration = Duration::from_micros(5);
/// Under valgrind.
const COUNTED: usize = 200_000;

/// Whether the origin takes its time.
static IS_SLOW: AtomicBool = AtomicBool::new(false);

type Numbers = Cache<u64, u64>;
type Side = fn(&Numbers, u64) -> u64;

const SIDES: [(&str, Side); 4] = [
    ("get + insert", get_and_insert),
    ("get_or_fetch_blocking", fetch_blocking),
    ("get_or_fetch", fetch),
    ("get_or_insert_with", load),
];
const WORKLOADS: [&str; 5] = ["hits", "zipf", "mixed", "misses", "mixed, origin of 5 µs"];

fn origin(key: u64) -> u64 {
    if IS_SLOW.load(Relaxed) {
        let began = Instant::now();
        while began.elapsed() < SLOW {}
    }
    black_box(key.wrapping_mul(3))
}

fn get_and_insert(cache: &Numbers, key: u64) -> u64 {
    cache.get(&key).unwrap_or_else(|| {
        let value = origin(key);
        cache.insert(key, value);
        value
    })
}

fn fetch_blocking(cache: &Numbers, key: u64) -> u64 {
    cache.get_or_fetch_blocking(&key, || Ok::<_, ()>(origin(key))).unwrap_or(0)
}

fn fetch(cache: &Numbers, key: u64) -> u64 {
    let fetched = pin!(cache.get_or_fetch(&key, async { Ok::<_, ()>(origin(key)) }));
    match fetched.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value.unwrap_or(0),
        Poll::Pending => unreachable!("nobody else fetches"),
    }
}

fn load(cache: &Numbers, key: u64) -> u64 {
    cache.get_or_insert_with(&key, || origin(key))
}

/// Keys with Zipf's popularity, keys that all fit, and keys that return only after their eviction.
fn keys(workload: &str, count: usize) -> Vec<u64> {
    let mut state = 1_u64;
    (0..count as u64)
        .map(|number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let chance = (state >> 11) as f64 / (1_u64 << 53) as f64;
            match workload {
                "hits" => number % (CAPACITY / 2),
                "zipf" => (KEYS as f64).powf(chance) as u64,
                "misses" => number % (2 * CAPACITY),
                _ => (MIXED_KEYS as f64).powf(chance) as u64,
            }
        })
        .collect()
}

/// The loop that is measured.
#[inline(never)]
fn pass(cache: &Numbers, keys: &[u64], side: Side) -> u64 {
    keys.iter().fold(0, |sum, &key| sum.wrapping_add(side(cache, key)))
}

/// A cache that has seen the keys once.
fn warm(keys: &[u64]) -> Numbers {
    let builder = Cache::builder(CAPACITY).policy(Policy::Lru).fetching(Fetching::default());
    let cache = builder.build();
    for &key in keys {
        get_and_insert(&cache, key);
    }
    cache
}

/// The program that is counted: a side and a workload, by number.
fn count_once(side: usize, workload: usize) {
    let keys = keys(WORKLOADS[workload], COUNTED);
    let cache = warm(&keys);
    black_box(pass(&cache, &keys, SIDES[side].1));
}

fn instructions(side: usize, workload: usize) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg("--toggle-collect=*fetch_cost*pass*")
        .arg(std::env::current_exe().ok()?)
        .args([side.to_string(), workload.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected : "))?;
    let count: f64 = line.1.trim().parse().ok()?;
    Some(count / COUNTED as f64)
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if let [side, workload] = numbers[..] {
        return count_once(side, workload);
    }
    for (number, workload) in WORKLOADS.iter().enumerate() {
        IS_SLOW.store(false, Relaxed);
        let keys = keys(workload, REQUESTS);
        let caches: Vec<Numbers> = SIDES.iter().map(|_| warm(&keys)).collect();
        IS_SLOW.store(workload.ends_with("µs"), Relaxed);
        let misses = || caches[0].stats().misses;
        let before = misses();
        let mut times = [const { Vec::new() }; SIDES.len()];
        for _ in 0..ROUNDS {
            for (side, times) in times.iter_mut().enumerate() {
                let began = Instant::now();
                black_box(pass(&caches[side], &keys, SIDES[side].1));
                times.push(began.elapsed().as_secs_f64() * 1e9 / REQUESTS as f64);
            }
        }
        let share = (misses() - before) as f64 / (ROUNDS * REQUESTS) as f64;
        println!("{workload}: {:.1} % misses", 100.0 * share);
        let base = times[0].clone();
        for (side, times) in times.into_iter().enumerate() {
            let mut ratios: Vec<f64> =
                times.iter().zip(&base).map(|(time, base)| time / base).collect();
            ratios.sort_by(f64::total_cmp);
            let mut times = times;
            times.sort_by(f64::total_cmp);
            let (time, ratio) = (times[ROUNDS / 2], ratios[ROUNDS / 2]);
            let counted = instructions(side, number);
            let counted = counted.map_or("no valgrind".to_owned(), |count| format!("{count:.0}"));
            let name = SIDES[side].0;
            println!("  {name:22} {time:6.1} ns  ×{ratio:.3}  {counted:>6} instructions");
        }
    }
}
