//! How near a replay in miniature comes to the whole one: the mean and the largest distance of
//! the miss ratios, by policy and number of objects in the sample.
//!
//! ```sh
//! cargo run --release -p frazil-simulator --example miniatures -- TRACE…
//! ```

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Loaded, ReadOptions, SampleBounds, load, load_sample};
use frazil_simulator::{CellSpec, SweepOptions, sample_capacity, sweep};

const POLICIES: [&str; 5] = ["lru", "sieve", "s3-fifo", "w-tinylfu", "arc"];
const OBJECTS: [usize; 5] = [25_000, 50_000, 100_000, 200_000, 400_000];
/// Of all objects: from a thousandth to two thirds.
const SHARES: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.66];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:<34} {:<10} {:>8} {:>8} {:>9} {:>9} {:>10}",
        "trace", "policy", "objects", "rate", "mean", "largest", "at"
    );
    for spec in std::env::args().skip(1) {
        let whole = load(&spec, &ReadOptions::default())?;
        let all = whole.trace.objects.len() as f64;
        let capacities = SHARES.map(|share| ((all * share) as u64).max(1));
        let name = spec.rsplit('/').next().unwrap_or(&spec);
        let full = POLICIES
            .map(|policy| policy.parse().map(|policy| miss_ratios(&whole, policy, &capacities)));
        for objects in OBJECTS.into_iter().filter(|&objects| (objects as f64) < all) {
            let bounds = SampleBounds { rate: 1.0, objects, records: usize::MAX };
            let sample = load_sample(&spec, &ReadOptions::default(), bounds)?;
            for (policy, full) in POLICIES.iter().zip(&full) {
                let full = full.as_ref().map_err(Clone::clone)?;
                let small = miss_ratios(&sample, policy.parse()?, &capacities);
                let apart: Vec<f64> =
                    full.iter().zip(&small).map(|(one, two)| (one - two).abs()).collect();
                let largest = apart.iter().copied().fold(0.0, f64::max);
                let at = apart.iter().position(|&it| it == largest).map_or(0, |it| capacities[it]);
                let mean = apart.iter().sum::<f64>() / apart.len() as f64;
                let (rate, held) = (sample.origin.rate(), sample.trace.objects.len());
                println!(
                    "{name:<34} {policy:<10} {held:>8} {rate:>8.4} {mean:>9.4} {largest:>9.4} {at:>10}"
                );
            }
        }
    }
    Ok(())
}

fn miss_ratios(loaded: &Loaded, policy: PolicySpec, capacities: &[u64]) -> Vec<f64> {
    let rate = loaded.origin.rate();
    let cell = |&capacity: &u64| CellSpec { policy, capacity: sample_capacity(capacity, rate) };
    let cells: Vec<CellSpec> = capacities.iter().map(cell).collect();
    let options = SweepOptions { threads: 2, ..SweepOptions::default() };
    let outcomes = sweep(&loaded.trace, &cells, &options, &|_| ());
    let ratio = |it: &frazil_simulator::Outcome| {
        it.among(loaded.origin.correction(it.requests)).miss_ratio()
    };
    outcomes.iter().map(ratio).collect()
}
