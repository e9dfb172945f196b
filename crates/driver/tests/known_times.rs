//! A cache whose operations take a known time, driven as any other: the driver has to find it.

use std::time::{Duration, Instant};

use frazil_driver::{Ask, Engine, Measured, Operation, Schedule, Shared, Stream, run};

const SERVICE: Duration = Duration::from_micros(2);
/// Attempts, of which one has to be undisturbed: a thousandth of the operations is interrupted
/// wherever the system's own clock ticks.
const ATTEMPTS: u32 = 100;

/// Answers each get after the same time, on the thread that asks.
struct Timed;

impl Shared for Timed {
    fn get(&self, key: u64) -> Option<u64> {
        let began = Instant::now();
        while began.elapsed() < SERVICE {}
        Some(key)
    }

    fn insert(&self, _: u64) {}

    fn remove(&self, _: u64) {}
}

impl Engine for Timed {
    type Session<'a> = &'a Self;

    fn session(&self) -> &Self {
        self
    }
}

/// How far a figure is from the time that every operation takes, as a share of it.
fn off(ns: f64) -> f64 {
    (ns / SERVICE.as_nanos() as f64 - 1.0).abs()
}

fn is_right(measured: &Measured) -> bool {
    let little = measured.little();
    off(measured.p50_ns as f64) <= 0.05
        && off(little.mean_ns) <= 0.05
        && off(little.expected_ns) <= 0.05
        && off(measured.p999_ns as f64) <= 0.2
        && little.holds()
}

#[test]
fn the_driver_finds_what_operations_take() {
    let streams: Vec<Stream> =
        (0..2).map(|prefix| Stream::new([Operation::new(Ask::Get, 1); 1_000], prefix)).collect();
    let schedule = Schedule {
        warmup: Duration::from_millis(10),
        measured: Duration::from_millis(300),
        slices: 3,
    };
    let mut last = None;
    let found = (0..ATTEMPTS).any(|_| {
        let measured = run(&Timed, &streams, 0, &schedule);
        let right = is_right(&measured);
        last = Some((measured.p50_ns, measured.p999_ns, measured.little(), measured.mops));
        right
    });
    assert!(found, "{last:?}");
}
