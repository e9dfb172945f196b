//! Several threads request a key that is being loaded: it is loaded once, and all get the value.
//!
//! `cargo run --release --package frazil --example load_once`

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil::Cache;

const THREADS: u64 = 8;
const PAGES: u64 = 20;
const FETCH: Duration = Duration::from_millis(10);

fn main() {
    let pages: Cache<u64, String> = Cache::builder(1_000).build();
    let fetches = AtomicU64::new(0);
    let fetch = |page: u64| {
        fetches.fetch_add(1, Relaxed);
        std::thread::sleep(FETCH);
        format!("page {page}")
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for page in 0..PAGES {
                    let text = pages.get_or_insert_with(&page, || fetch(page));
                    assert_eq!(text, format!("page {page}"));
                }
            });
        }
    });
    let stats = pages.stats();
    println!("{} requests in {:.0?}", THREADS * PAGES, began.elapsed());
    println!("fetched {} times, {:.1?} each", fetches.into_inner(), stats.mean_load());
    println!("{} hits, {} delayed hits, {} misses", stats.hits, stats.delayed_hits, stats.misses);
}
