use frazil::{Cache, Policy};

/// One request in the service: here keys by Zipf's law, and a miss that loads a row.
fn serve(cache: &Cache<u64, String>, requests: u32, mut random: u64) {
    for _ in 0..requests {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = 100_000_f64.powf((random >> 11) as f64 / (1u64 << 53) as f64) as u64;
        cache.get_or_insert_with(&key, || format!("row {key}"));
    }
}

fn main() -> std::io::Result<()> {
    let cache = Cache::builder(2_000).policy(Policy::Fifo).build();
    serve(&cache, 100_000, 1); // the cache is full before the recording starts

    let recording = cache.record("requests.frazil", 0.5)?;
    serve(&cache, 200_000, 2);
    let recorded = recording.finish()?;
    println!("{} requests, {} lost, {} bytes", recorded.records, recorded.lost, recorded.bytes);
    Ok(())
}
