//! The cost of a recording for the threads that use the cache: processor time of a hit, and of a miss with its
//! insertion, by the share of keys that is recorded.
//!
//! `cargo run --release --package frazil-bench --example recording_cost`
//!
//! One thread and a cache of 100,000 entries with Mobius. The shares take turns for nine rounds of a million
//! requests; the figures are medians. The thread that writes the file is not included. `lost` is the share of requests
//! that came faster than it could write; a lost request costs less than a recorded one.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Duration;

use frazil::Cache;

const ENTRIES: u64 = 100_000;
const REQUESTS: u64 = 1_000_000;
const ROUNDS: usize = 9;
const RATES: [f64; 4] = [0.0, 0.01, 0.1, 1.0];

type Numbers = Cache<u64, u64>;

/// Nanoseconds of a request, and the share of lost ones.
type Cost = (f64, f64);

fn main() -> io::Result<()> {
    let file = std::env::temp_dir().join(format!("recording-cost-{}.frazil", std::process::id()));
    let measured = measure(&file);
    let _ = std::fs::remove_file(&file);
    println!("| keys recorded | hit, ns | lost | miss and insertion, ns | lost |");
    println!("|---|---|---|---|---|");
    for (rate, [mut hits, mut misses]) in RATES.into_iter().zip(measured?) {
        let ((hit, hits_lost), (miss, misses_lost)) = (median(&mut hits), median(&mut misses));
        let lost = |share: f64| format!("{:.1} %", share * 100.0);
        println!(
            "| {:.0} % | {hit:.1} | {} | {miss:.1} | {} |",
            rate * 100.0,
            lost(hits_lost),
            lost(misses_lost)
        );
    }
    Ok(())
}

/// The costs of all rounds by rate, of hits and of misses.
fn measure(file: &Path) -> io::Result<[[Vec<Cost>; 2]; RATES.len()]> {
    let [warm, cold]: [Numbers; 2] = std::array::from_fn(|_| Cache::builder(ENTRIES).build());
    for key in 0..ENTRIES / 2 {
        warm.insert(key, key);
    }
    let mut newest = 0;
    let mut costs: [[Vec<Cost>; 2]; RATES.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (rate, [hits, misses]) in RATES.into_iter().zip(&mut costs) {
            hits.push(cost(&warm, rate, file, |request| {
                // In an order that the processor cannot predict.
                let key = request.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                black_box(warm.get(&(key % (ENTRIES / 2))));
            })?);
            misses.push(cost(&cold, rate, file, |_| {
                newest += 1;
                black_box(cold.get_or_insert_with(&newest, || newest));
            })?);
        }
    }
    Ok(costs)
}

/// Makes requests while a share of the keys is recorded.
fn cost(cache: &Numbers, rate: f64, file: &Path, mut request: impl FnMut(u64)) -> io::Result<Cost> {
    let recording = (rate > 0.0).then(|| cache.record(file, rate)).transpose()?;
    let began = frazil_driver::thread_time();
    (0..REQUESTS).for_each(&mut request);
    let took =
        frazil_driver::thread_time().zip(began).map_or(Duration::ZERO, |(now, began)| now - began);
    let recorded = recording.map(|recording| recording.finish()).transpose()?.unwrap_or_default();
    let lost = recorded.lost as f64 / (recorded.records + recorded.lost).max(1) as f64;
    Ok((took.as_secs_f64() * 1e9 / REQUESTS as f64, lost))
}

fn median(costs: &mut [Cost]) -> Cost {
    costs.sort_by(|one, other| one.0.total_cmp(&other.0));
    costs[costs.len() / 2]
}
