//! The cost of an operation while handles hold more than the capacity, as by RocksDB's reservations
//! of memory.
//!
//! `cargo run --release --package frazil-bench --example overfull [OPERATIONS]`
//!
//! Each thread holds blocks of 256 KiB in a cache of 512 KiB, and replaces the oldest at one
//! operation in eight. At each operation it looks up one of 5,000 entries of 1 KiB, and inserts it
//! after a miss. Prints microseconds of processor time an operation, and the excess at the end,
//! after all handles were released and a thousand more entries inserted.

use std::collections::VecDeque;
use std::thread::scope;
use std::time::Duration;

use frazil::{HandleCache, Held, Policy};

const CAPACITY: u64 = 512 << 10;
const RESERVED: u64 = 256 << 10;
const ENTRY: u64 = 1 << 10;
const KEYS: u64 = 5_000;
const POLICIES: [&str; 4] = ["lru", "clock", "mobius", "s3-fifo"];

fn main() {
    let operations = std::env::args().nth(1).map_or(1_000_000, |number| {
        number.parse().unwrap_or_else(|error| panic!("expected operations: {error}"))
    });
    println!("| policy | threads | held each | us | too much afterwards |");
    println!("|---|---|---|---|---|");
    for policy in POLICIES {
        for (threads, held) in [(1, 0), (8, 0), (1, 4), (8, 4), (1, 50), (8, 50)] {
            let policy: Policy = policy.parse().expect("it is one of ours");
            let cache: HandleCache<u64, ()> = HandleCache::builder(CAPACITY).policy(policy).build();
            let begun = processor_time();
            scope(|scope| {
                for thread in 0..threads {
                    let cache = &cache;
                    scope.spawn(move || work(cache, thread, held, operations / threads));
                }
            });
            let us = (processor_time() - begun).as_secs_f64() * 1e6 / operations as f64;
            for key in 0..1_000 {
                drop(cache.insert_held(key, (), ENTRY));
            }
            let excess = cache.usage().saturating_sub(CAPACITY);
            println!("| {policy} | {threads} | {held} | {us:.2} | {excess} |");
        }
    }
}

fn work(cache: &HandleCache<u64, ()>, thread: u64, held_max: usize, operations: u64) {
    let mut held = VecDeque::new();
    for operation in 0..operations {
        let number = operation * 8 + thread;
        if held_max > 0 && operation % 8 == 0 {
            if held.len() == held_max
                && let Some(oldest) = held.pop_front()
            {
                cache.release(oldest, true);
            }
            held.push_back(insert(cache, KEYS + number, RESERVED));
        }
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS;
        let found = cache.hold(&key).unwrap_or_else(|| insert(cache, key, ENTRY));
        cache.release(found, false);
    }
}

fn insert(cache: &HandleCache<u64, ()>, key: u64, charge: u64) -> Held<u64, ()> {
    cache.insert_held(key, (), charge).expect("a cache that is not strict refuses nothing").held
}

fn processor_time() -> Duration {
    frazil_driver::process_time(std::process::id()).expect("Linux tells of processes")
}
