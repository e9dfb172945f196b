//! From a running program to advice: records the requests of a cache, and prints the command for
//! advice.
//!
//! ```sh
//! cargo run --release -p frazil --example record -- requests.frazil
//! frazil advise --trace requests.frazil
//! ```

use frazil::{Cache, Policy};

const CAPACITY: u64 = 20_000;
const KEYS: f64 = 1_000_000.0;
/// The requests for one key in twenty; in a program with more keys a hundredth is plenty.
const RATE: f64 = 0.05;

/// The program's work: it requests some keys often, most rarely.
fn serve(cache: &Cache<u64, String>, requests: u32, mut random: u64) {
    for _ in 0..requests {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Evenly on a logarithmic scale: nearly Zipf's law.
        let key = KEYS.powf((random >> 11) as f64 / (1u64 << 53) as f64) as u64;
        if cache.get(&key).is_none() {
            cache.insert(key, format!("row {key}"));
        }
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "requests.frazil".to_owned());
    let cache = Cache::builder(CAPACITY).policy(Policy::Fifo).build();
    // Filled first: a cache that is still filling says little.
    serve(&cache, 500_000, 1);

    let before = cache.stats();
    let recording = cache.record(&path, RATE)?;
    std::thread::scope(|scope| {
        for seed in 2..6 {
            let cache = &cache;
            scope.spawn(move || serve(cache, 1_000_000, seed << 40 | 1));
        }
    });
    let recorded = recording.finish()?;

    let stats = cache.stats();
    let (hits, misses) = (stats.hits - before.hits, stats.misses - before.misses);
    let miss_ratio = 100.0 * misses as f64 / (hits + misses) as f64;
    println!("{miss_ratio:.1} % of {} requests missed in {CAPACITY} entries", hits + misses);
    println!(
        "{} are in {path}, {} bytes; {} lost",
        recorded.records, recorded.bytes, recorded.lost
    );
    println!("now: frazil simulate --trace {path} --policy fifo --capacity {CAPACITY}");
    println!("     frazil advise --trace {path}");
    Ok(())
}
