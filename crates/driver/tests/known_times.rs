//! Drives a cache whose operations take a known time, which the driver has to find.
//!
//! The cache notes the real times of its operations. An operation takes longer if its thread loses
//! its core; the cache knows that, and the driver should.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use frazil_driver::{Ask, Engine, Latencies, Measured, Operation, Schedule, Session, Stream, run};

/// Long beside a read of the clock. The driver's two reads are part of what it measures, and on a
/// machine with busy neighbours one read in twenty takes some 100 ns longer, 5 % of 2 us.
const SERVICE: Duration = Duration::from_micros(10);
const THREADS: u32 = 2;
const MEASURED: Duration = Duration::from_millis(300);
/// Most attempts, sufficient undisturbed ones, and the least number with a meaningful majority.
const ATTEMPTS: usize = 12;
const ENOUGH: usize = 5;
const LEAST: usize = 3;
/// An attempt is undisturbed if, by the driver, this share of its time is.
const SHARE: f64 = 0.95;

/// Answers each get after the same time, on the calling thread.
#[derive(Default)]
struct Known {
    took: Mutex<Latencies>,
}

struct Timed<'a> {
    cache: &'a Known,
    took: Latencies,
    last: Duration,
}

impl Session for Timed<'_> {
    fn get(&mut self, key: u64) -> Option<u64> {
        let began = Instant::now();
        // Within the time of this operation, so that it makes none longer.
        self.took.record(self.last);
        loop {
            self.last = began.elapsed();
            if self.last >= SERVICE {
                return Some(key);
            }
        }
    }

    fn insert(&mut self, _: u64) {}

    fn remove(&mut self, _: u64) {}
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.cache.took.lock().unwrap_or_else(PoisonError::into_inner).add(&self.took);
    }
}

impl Engine for Known {
    type Session<'a> = Timed<'a>;

    fn session(&self) -> Timed<'_> {
        Timed { cache: self, took: Latencies::new(), last: SERVICE }
    }
}

/// The relative error of a figure against the time of every operation.
fn off(ns: f64) -> f64 {
    (ns / SERVICE.as_nanos() as f64 - 1.0).abs()
}

fn means_are_right(measured: &Measured) -> bool {
    let little = measured.little();
    off(little.mean_ns) <= 0.05 && off(little.expected_ns) <= 0.05 && little.holds()
}

#[test]
fn the_driver_finds_what_operations_take() {
    let asked = [Operation::new(Ask::Get, 1); 1_000];
    let streams: Vec<Stream> = (0..THREADS).map(|prefix| Stream::new(asked, prefix)).collect();
    let schedule = Schedule { warmup: Duration::from_millis(10), measured: MEASURED, slices: 3 };
    let cache = Known::default();
    let (mut all, mut undisturbed) = (Latencies::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        let measured = run(&cache, &streams, 0, &schedule);
        all.add(&measured.latencies);
        if measured.undisturbed.seconds >= SHARE * MEASURED.as_secs_f64() {
            undisturbed.push(measured);
        }
        if undisturbed.len() == ENOUGH {
            break;
        }
    }
    // With any other use of the machine, fewer than one in a hundred operations loses its core. On
    // a shared core the rest may take longer too, which the cache notes.
    let took = cache.took.lock().unwrap_or_else(PoisonError::into_inner);
    for share in [0.05, 0.5, 0.95] {
        let ns = all.quantile_ns(share) as f64;
        // By chance a sample has a little more of the long operations, or less. Where those begin,
        // the time rises steeply.
        let [low, high] = [-0.02, 0.02].map(|off| took.quantile_ns(share + off) as f64);
        assert!(
            (0.95 * low..=1.05 * high).contains(&ns),
            "{} % are timed at {ns} ns or less, and take {low} to {high}",
            share * 100.0
        );
    }
    let p50 = all.quantile_ns(0.5);
    assert!(off(p50 as f64) <= 0.05, "half are timed at {p50} ns or less");
    // A sample may have more of the rare long operations by chance: ten times as many are allowed.
    let (p999, longest) = (all.quantile_ns(0.999), took.quantile_ns(0.9999));
    let most = 1.2 * longest as f64;
    assert!(p999 as f64 <= most, "99.9 % are timed at {p999} ns or less, and take {longest}");
    let wrong: Vec<_> = undisturbed.iter().filter(|it| !means_are_right(it)).collect();
    let figures = |it: &&Measured| (it.little(), it.mops, it.undisturbed);
    let of = undisturbed.len();
    if of < LEAST {
        return eprintln!("{of} of {ATTEMPTS} attempts were undisturbed: too few to compare means");
    }
    assert!(
        2 * wrong.len() < of,
        "means are wrong in {} of {of} undisturbed attempts: {:?}",
        wrong.len(),
        wrong.iter().map(figures).collect::<Vec<_>>()
    );
}
