//! The accuracy of a replay in miniature: the mean and the largest distance of its miss ratios from
//! the full replay's at ten capacities, by policy and number of objects in the sample.
//!
//! ```sh
//! cargo run --release -p frazil-simulator --example miniatures -- TRACE…
//! ```

use frazil_policy::SpecError;
use frazil_simulator::trace::{Loaded, ReadOptions, SampleBounds, load, load_sample};
use frazil_simulator::{CellSpec, Outcome, SweepOptions, sample_capacity, sweep};

const POLICIES: [&str; 5] = ["lru", "sieve", "s3-fifo", "w-tinylfu", "arc"];
const OBJECTS: [usize; 5] = [25_000, 50_000, 100_000, 200_000, 500_000];
/// Capacities as shares of all objects, from a thousandth to two thirds.
const SHARES: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.66];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policies = POLICIES.map(|policy| format!("{policy:>14}")).concat();
    println!("{:<30} {:>8} {:>7}{policies}", "trace", "objects", "rate");
    for spec in std::env::args().skip(1) {
        let whole = load(&spec, &ReadOptions::default())?;
        let all = whole.trace.objects.len() as f64;
        let capacities = SHARES.map(|share| ((all * share) as u64).max(1));
        let name = spec.rsplit('/').next().unwrap_or(&spec);
        let full = miss_ratios(&whole, &capacities)?;
        for objects in OBJECTS.into_iter().filter(|&objects| (objects as f64) < all) {
            let bounds = SampleBounds { rate: 1.0, objects, records: usize::MAX };
            let sample = load_sample(&spec, &ReadOptions::default(), bounds)?;
            let small = miss_ratios(&sample, &capacities)?;
            let apart: String = full.iter().zip(&small).map(|(one, two)| apart(one, two)).collect();
            let (rate, held) = (sample.origin.rate(), sample.trace.objects.len());
            println!("{name:<30} {held:>8} {rate:>7.4}{apart}");
        }
    }
    Ok(())
}

/// The mean distance of two rows, and the largest.
fn apart(one: &[f64], other: &[f64]) -> String {
    let apart = || one.iter().zip(other).map(|(one, other)| (one - other).abs());
    let mean = apart().sum::<f64>() / one.len() as f64;
    format!(" {mean:>6.4} {:>6.4}", apart().fold(0.0, f64::max))
}

/// By policy and capacity.
fn miss_ratios(loaded: &Loaded, capacities: &[u64]) -> Result<Vec<Vec<f64>>, SpecError> {
    let rate = loaded.origin.rate();
    let options = SweepOptions { threads: 2, ..SweepOptions::default() };
    let of_policy = |name: &str| {
        let policy = name.parse()?;
        let cell = |&capacity: &u64| CellSpec { policy, capacity: sample_capacity(capacity, rate) };
        let cells: Vec<CellSpec> = capacities.iter().map(cell).collect();
        let outcomes = sweep(&loaded.trace, &cells, &options, &|_| ());
        let ratio = |it: &Outcome| it.among(loaded.origin.correction(it.requests)).miss_ratio();
        Ok(outcomes.iter().map(ratio).collect())
    };
    POLICIES.into_iter().map(of_policy).collect()
}
