//! Hit ratios of the segment store by eviction, on the traces of `frazil reproduce gl-cache`, at
//! the same shares of their footprint.
//!
//! ```text
//! segment_hits CAPACITY%,… TRACE…
//! ```
//!
//! Each key has 8 bytes, and a value of the trace's length, or a block of 4 KiB. Segments are a
//! 128th of the capacity, from 16 KiB to 1 MiB; a value that does not fit into one is a miss each
//! time. The learner works in place, so that a run is the same each time. A miss stores the value.
//! The last column is the number of models. The first two million records of a trace are replayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil_segment::{Attributes, Eviction, Store, StoreError};
use frazil_simulator::trace::{Operation, ReadOptions, Trace, load};

const EVICTIONS: [(&str, Eviction); 4] = [
    ("random", Eviction::Random),
    ("fifo", Eviction::Fifo),
    ("fifo-merge", Eviction::FifoMerge),
    ("gl-cache", Eviction::GlCache),
];
/// Traces without sizes are of disk blocks.
const VALUE_BYTES: u32 = 4096;
/// A segment has room for one block.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;

fn size(trace: &Trace, at: usize) -> u32 {
    trace.sizes.get(at).map_or(VALUE_BYTES, |size| u32::try_from(size).unwrap_or(u32::MAX))
}

/// Bytes of all keys and of the values that they have at first.
fn footprint(trace: &Trace) -> u64 {
    let mut seen = vec![false; trace.objects.len()];
    let new = |at: &usize| !std::mem::replace(&mut seen[trace.ids[*at] as usize], true);
    (0..trace.len()).filter(new).map(|at| 8 + u64::from(size(trace, at))).sum()
}

fn store(capacity: u64, eviction: Eviction, now_ms: &Arc<AtomicU64>) -> Store {
    let segment = 1usize << (capacity / 128).clamp(SEGMENT_BYTES_MIN, 1 << 20).ilog2();
    let builder = Store::builder(capacity as usize).segment_bytes(segment).eviction(eviction);
    let builder = builder.clock(Arc::clone(now_ms)).seed(7).learn_in_place(true);
    builder.build().expect("a store")
}

/// The share of gets that hit.
fn replay(trace: &Trace, store: &Store, now_ms: &AtomicU64) -> f64 {
    let longest = (0..trace.len()).map(|at| size(trace, at)).max().unwrap_or(0);
    let value = vec![0; longest as usize];
    let (mut gets, mut hits) = (0u64, 0u64);
    for at in 0..trace.len() {
        let ns = trace.times_ns.get(at).map_or(at as u64 * 1_000_000_000, |&ns| ns);
        now_ms.store(ns / 1_000_000, Relaxed);
        let key = trace.objects[trace.ids[at] as usize].to_le_bytes();
        let operation = trace.operations.get(at).copied().unwrap_or_default();
        if operation == Operation::Delete {
            store.delete(&key);
            continue;
        }
        if operation == Operation::Get {
            gets += 1;
            if store.get_with(&key, |_| ()).is_some() {
                hits += 1;
                continue;
            }
        }
        let value = &value[..size(trace, at) as usize];
        match store.set(&key, value, Attributes::default()) {
            Ok(()) | Err(StoreError::TooLarge) => {}
            Err(error) => panic!("{error}"),
        }
    }
    hits as f64 / gets.max(1) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [capacities, traces @ ..] = &words[..] else {
        return Err("usage: segment_hits CAPACITY%,… TRACE…".into());
    };
    print!("{:<38} {:>5} {:>9}", "trace", "size", "MiB");
    println!("{}  models", EVICTIONS.map(|(name, _)| format!(" {name:>10}")).concat());
    for spec in traces {
        let options = ReadOptions { times: true, limit: Some(2_000_000), ..ReadOptions::default() };
        let trace = load(spec, &options)?.trace;
        let footprint = footprint(&trace);
        for percent in capacities.split(',') {
            let share: f64 = percent.trim_end_matches('%').parse()?;
            let capacity = (footprint as f64 * share / 100.0) as u64;
            let name = spec.rsplit('/').next().unwrap_or(spec);
            let name = name.split(":requests").next().unwrap_or(name);
            print!("{name:<38} {percent:>5} {:>9.2}", capacity as f64 / f64::from(1 << 20));
            for (_, eviction) in EVICTIONS {
                let now_ms = Arc::new(AtomicU64::new(0));
                let store = store(capacity, eviction, &now_ms);
                print!(" {:>10.4}", replay(&trace, &store, &now_ms));
                if let Some(stats) = store.learner_stats() {
                    print!("  {:>6}", stats.trainings);
                }
            }
            println!();
        }
    }
    Ok(())
}
