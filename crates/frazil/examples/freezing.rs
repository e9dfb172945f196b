//! A cache that freezes by itself: its phase, the reason, and its throughput in each second.
//!
//!     cargo run --release --example freezing -- [policy [capacity [keys [miss µs [seconds]]]]]
//!
//! Two threads request keys by Zipf's law, and spin during a miss. `lru` freezes, `mobius` does
//! not, and neither does `lru 2000 3000 500`, where misses take nearly all the time. Before it,
//! the same requests run on a cache that never freezes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil::{Cache, Freezing, Policy};

const THREADS: u64 = 2;

struct Workload {
    policy: Policy,
    capacity: u64,
    keys: f64,
    miss: Duration,
    seconds: u64,
}

/// Sends requests until `over`; counts them by the thousand.
fn ask(
    cache: &Cache<u64, u64>,
    workload: &Workload,
    thread: u64,
    over: &AtomicBool,
    done: &AtomicU64,
) {
    let mut state = thread;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        workload.keys.powf((state >> 11) as f64 / (1u64 << 53) as f64) as u64
    };
    let keys: Vec<u64> = (0..1 << 20).map(|_| draw()).collect();
    for thousand in keys.chunks_exact(1_000).cycle() {
        for &key in thousand {
            if cache.get(&key).is_none() {
                let began = Instant::now();
                while began.elapsed() < workload.miss {
                    std::hint::spin_loop();
                }
                cache.insert(key, key);
            }
        }
        done.fetch_add(1_000, Relaxed);
        if over.load(Relaxed) {
            return;
        }
    }
}

fn run(workload: &Workload, freezing: Freezing) -> std::io::Result<()> {
    let builder = Cache::builder(workload.capacity).policy(workload.policy).freezing(freezing);
    let cache: Arc<Cache<u64, u64>> = Arc::new(builder.build());
    let control = (freezing == Freezing::Learned).then(|| cache.control_freezing()).transpose()?;
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, over, done) = (&cache, &over, &done);
            scope.spawn(move || ask(cache, workload, thread, over, done));
        }
        let mut before = 0;
        for second in 1..=workload.seconds {
            std::thread::sleep(Duration::from_secs(1));
            let now = done.load(Relaxed);
            print!("{second:4} s {:7} requests/ms", (now - before) / 1_000);
            before = now;
            if let Some(state) = cache.freezing_state() {
                print!(
                    "  {:12} {:8} {:3.0} % frozen, hits {:.3} frozen + {:.3}",
                    format!("{:?}", state.phase),
                    format!("{:?}", state.reason),
                    100.0 * state.share,
                    state.frozen_hit_share,
                    state.dynamic_hit_share,
                );
                if state.threshold_ns > 0.0 {
                    print!(", {:.0} ns (limit {:.0})", state.latency_ns, state.threshold_ns);
                }
            }
            println!();
        }
        over.store(true, Relaxed);
    });
    if let Some(state) = cache.freezing_state() {
        if let Some(verdict) = state.verdict() {
            println!("{verdict}");
        }
        for (share, time) in state.times_by_share().filter(|(_, time)| !time.is_zero()) {
            println!("{:3.0} % frozen for {:.1} s", 100.0 * share, time.as_secs_f64());
        }
    }
    drop(control);
    println!("hit ratio {:.4}", cache.stats().hit_ratio());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let workload = Workload {
        policy: next("lru").parse()?,
        capacity: next("100000").parse()?,
        keys: next("150000").parse()?,
        miss: Duration::from_micros(next("5").parse()?),
        seconds: next("15").parse()?,
    };
    println!("never frozen");
    run(&Workload { seconds: workload.seconds.min(4), ..workload }, Freezing::Never)?;
    println!("frozen while it pays");
    run(&workload, Freezing::Learned)?;
    Ok(())
}
