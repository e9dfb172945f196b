//! The cost of LRU's curve of a trace, and the accuracy of a sample: requests a second without
//! decoding, and the mean distance from the exact curve, at capacities spread evenly (as in the
//! SHARDS paper) and by their logarithms (which resolves small caches better).
//!
//! ```sh
//! cargo run --release -p frazil-simulator --example curves -- TRACE
//! ```

use frazil_simulator::trace::ReadOptions;
use frazil_simulator::{Curve, CurveSample, StreamError, Unit, lru_curve};

/// Number of runs; the median is printed.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = std::env::args().nth(1).ok_or("name a trace")?;
    let (exact, speed) = measured(&spec, CurveSample::All)?;
    let all = exact.objects as f64;
    let even: Vec<u64> = (1..=100).map(|part| (all * f64::from(part) / 100.0) as u64).collect();
    let spread: Vec<u64> =
        (0..40).map(|step| (all * 10f64.powf(-f64::from(step) / 10.0)) as u64).collect();
    println!("{} requests, {} objects", exact.requests, exact.objects);
    println!(
        "{:<16} {:>12} {:>11} {:>11} {:>11}",
        "sample", "M requests/s", "even", "spread", "said"
    );
    println!("{:<16} {speed:>12.1} {:>11} {:>11} {:>11}", "all", "-", "-", "-");
    for sample in [
        CurveSample::Rate(0.001),
        CurveSample::Rate(0.01),
        CurveSample::Rate(0.1),
        CurveSample::Objects(8_000),
        CurveSample::Objects(64_000),
    ] {
        let (curve, speed) = measured(&spec, sample)?;
        let errors = [&even, &spread].map(|capacities| mean_error(&exact, &curve, capacities));
        let points = curve.points(&spread);
        let said = points.iter().filter_map(|it| it.error).sum::<f64>() / points.len() as f64;
        let name = format!("{sample:?}");
        println!("{name:<16} {speed:>12.1} {:>11.5} {:>11.5} {said:>11.5}", errors[0], errors[1]);
    }
    Ok(())
}

/// The curve, and the median of the requests a second.
fn measured(spec: &str, sample: CurveSample) -> Result<(Curve, f64), StreamError> {
    let mut speeds = Vec::new();
    loop {
        let (curve, _) = lru_curve(spec, &ReadOptions::default(), Unit::Objects, sample)?;
        speeds.push(curve.records as f64 / curve.seconds.max(1e-9) / 1e6);
        if speeds.len() == ROUNDS {
            speeds.sort_by(f64::total_cmp);
            return Ok((curve, speeds[ROUNDS / 2]));
        }
    }
}

fn mean_error(exact: &Curve, curve: &Curve, capacities: &[u64]) -> f64 {
    let apart = exact.points(capacities).into_iter().zip(curve.points(capacities));
    let sum: f64 = apart.map(|(one, two)| (one.miss_ratio - two.miss_ratio).abs()).sum();
    sum / capacities.len() as f64
}
