//! Memory of caches with few entries: ours beside `quick_cache`.
//!
//!     cargo run --release -p frazil-bench --features rivals --example growth
//!
//! Prints, for empty caches of several capacities and for one with a hundred entries, the time to
//! make it and the bytes that it requests from the allocator, itself included. Also the number of
//! entries in a cache whose entries are 64 times lighter than estimated; and the longest insertions
//! on the way to a million entries, which replace the table. Fails if one of our empty caches takes
//! more than 4,096 bytes, or 5 µs to make.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil::{Cache, Policy};
use quick_cache::Weighter;

struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is left to the system's allocator, with the layouts as they came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Limit for an empty cache.
const MICROS_MAX: f64 = 5.0;
const BYTES_MAX: u64 = 4_096;

const CAPACITIES: [u64; 4] = [100, 10_000, 1_000_000, 1_000_000_000];
/// Caches made at once.
const AT_ONCE: usize = 1_000;

/// The microseconds to make one cache, as the median over rounds, and its bytes.
fn cost<C>(count: usize, make: impl Fn() -> C) -> (f64, u64) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..9 {
        let mut made = Vec::with_capacity(count);
        let (before, began) = (BYTES.load(Relaxed), Instant::now());
        made.extend((0..count).map(|_| make()));
        times.push(began.elapsed().as_secs_f64() * 1e6 / count as f64);
        bytes = (BYTES.load(Relaxed) - before) / count as u64 + size_of::<C>() as u64;
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], bytes)
}

fn line(what: &str, capacity: u64, (micros, bytes): (f64, u64)) {
    println!("{what:24} {capacity:>12} {micros:>9.2} µs {bytes:>12} bytes");
}

fn ours(capacity: u64, policy: Policy) -> Cache<u64, u64> {
    Cache::builder(capacity).policy(policy).build()
}

#[derive(Clone)]
struct OneOf64;

impl Weighter<u64, u64> for OneOf64 {
    fn weight(&self, _: &u64, _: &u64) -> u64 {
        4
    }
}

fn main() -> ExitCode {
    let mut is_light = true;
    println!("empty");
    for capacity in CAPACITIES {
        for policy in [Policy::Mobius, Policy::S3Fifo, Policy::Lru, Policy::Arc] {
            let (micros, bytes) = cost(AT_ONCE, || ours(capacity, policy));
            line(policy.name(), capacity, (micros, bytes));
            is_light &= micros <= MICROS_MAX && bytes <= BYTES_MAX;
        }
        // Its estimate may reserve more than is needed.
        let few = if capacity > 1_000_000 { 2 } else { 20 };
        let quick = || quick_cache::sync::Cache::<u64, u64>::new(capacity as usize);
        line("quick_cache", capacity, cost(few, quick));
    }
    println!("with 100 entries");
    for capacity in CAPACITIES {
        let filled = || {
            let cache = ours(capacity, Policy::Mobius);
            (0..100).for_each(|key| cache.insert(key, key));
            cache
        };
        line("mobius", capacity, cost(AT_ONCE, filled));
        let few = if capacity > 1_000_000 { 2 } else { 20 };
        let quick = || {
            let cache = quick_cache::sync::Cache::<u64, u64>::new(capacity as usize);
            (0..100).for_each(|key| cache.insert(key, key));
            cache
        };
        line("quick_cache", capacity, cost(few, quick));
    }
    println!("a capacity of 2^24 where entries weigh 4 and not 256, after 8 million insertions");
    let cache: Cache<u64, u64> = Cache::builder(1 << 24).weigher(|_, _| 4).build();
    (0..8_000_000).for_each(|key| cache.insert(key, key));
    println!("{:24} {:>12} entries, {} of weight", "mobius", cache.len(), cache.weight());
    let cache = quick_cache::sync::Cache::with_weighter(1 << 16, 1 << 24, OneOf64);
    (0..8_000_000).for_each(|key| cache.insert(key, key));
    println!("{:24} {:>12} entries, {} of weight", "quick_cache", cache.len(), cache.weight());
    stops();
    if !is_light {
        eprintln!("an empty cache takes more than {BYTES_MAX} bytes or {MICROS_MAX} µs");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The longest insertions on the way to a million entries.
fn stops() {
    let cache = ours(1_000_000, Policy::Mobius);
    let mut longest = [(Duration::ZERO, 0); 8];
    for key in 0..1_000_000 {
        let began = Instant::now();
        cache.insert(key, key);
        let took = began.elapsed();
        if took > longest[0].0 {
            longest[0] = (took, key);
            longest.sort_unstable();
        }
    }
    println!("the longest insertions of a million, and which they are");
    longest.iter().rev().for_each(|(took, key)| println!("{took:>12.1?} {key:>9}"));
}
