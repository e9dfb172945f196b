//! Memory.

use frazil::Cache;
fn rss() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
fn main() {
    let name = std::env::args().nth(1).unwrap();
    let shards: u32 = std::env::args().nth(2).unwrap().parse().unwrap();
    let before = rss();
    let cache: Cache<u64, u64> =
        Cache::builder(400_000).policy(name.parse().unwrap()).shards(shards).build();
    (0..800_000u64).for_each(|key| cache.insert(key, key));
    println!("{name} {shards} shards: {} MB", (rss() - before) / 1_000_000);
}
