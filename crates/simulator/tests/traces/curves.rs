//! Compares curves with replays: every capacity of small traces, and samples of real ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use frazil_simulator::trace::{
    Format, Operation, ReadOptions, SampleBounds, Trace, load, load_sample, write,
};
use frazil_simulator::{
    CellSpec, CurvePoint, CurveSample, SweepOptions, Unit, lru_curve, sample_capacity, sweep,
};
use proptest::prelude::*;

/// A trace in a file that is removed when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn of(trace: &Trace) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("frazil-curve-{}-{number}.frazil", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        write(trace, None, Format::Frazil, &mut file).unwrap();
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn points(spec: &str, unit: Unit, sample: CurveSample, capacities: &[u64]) -> Vec<CurvePoint> {
    let (curve, _) = lru_curve(spec, &ReadOptions::default(), unit, sample).unwrap();
    curve.points(capacities)
}

fn replayed(trace: &Trace, policy: &str, capacities: &[u64]) -> Vec<f64> {
    let policy = policy.parse().unwrap();
    let cells: Vec<_> = capacities.iter().map(|&capacity| CellSpec { policy, capacity }).collect();
    let options = SweepOptions { threads: 2, ..SweepOptions::default() };
    sweep(trace, &cells, &options, &|_| ()).iter().map(|it| it.miss_ratio()).collect()
}

fn records() -> impl Strategy<Value = Vec<(u32, Operation)>> {
    let operation = prop_oneof![
        6 => Just(Operation::Get),
        1 => Just(Operation::Set),
        1 => Just(Operation::Delete),
    ];
    prop::collection::vec((0u32..40, operation), 1..500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_exact_curve_is_the_replay_at_every_capacity(asked in records()) {
        // The trace numbers objects by first appearance.
        let mut objects: Vec<u64> = Vec::new();
        let mut ids = Vec::new();
        for &(object, _) in &asked {
            let known = objects.iter().position(|&it| it == u64::from(object));
            ids.push(known.unwrap_or(objects.len()) as u32);
            if known.is_none() {
                objects.push(u64::from(object));
            }
        }
        let operations = asked.iter().map(|&(_, operation)| operation).collect();
        let trace = Trace { ids, operations, objects, ..Trace::default() };
        prop_assume!(asked.iter().any(|(_, operation)| *operation == Operation::Get));
        let file = Temporary::of(&trace);
        let capacities: Vec<u64> = (1..=45).collect();
        let spec = file.0.display().to_string();
        let curve = points(&spec, Unit::Objects, CurveSample::All, &capacities);
        let curve: Vec<f64> = curve.iter().map(|point| point.miss_ratio).collect();
        prop_assert_eq!(curve, replayed(&trace, "lru", &capacities));
    }
}

#[test]
fn capacities_come_back_in_the_order_they_were_asked_in() {
    let spec = "loop:objects=100:requests=1K";
    let points = points(spec, Unit::Objects, CurveSample::All, &[100, 1, 100, 99]);
    let seen: Vec<_> = points.iter().map(|it| (it.capacity, it.miss_ratio)).collect();
    assert_eq!(seen, [(100, 0.1), (1, 1.0), (100, 0.1), (99, 1.0)]);
    assert!(points.iter().all(|point| point.error.is_none()));
}

/// A real trace, or `None` with a message.
fn real(file: &str) -> Option<String> {
    let folder = match std::env::var_os("FRAZIL_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
    };
    let path = folder.join(file);
    if !path.exists() {
        _ = writeln!(std::io::stderr(), "SKIPPED: no {}", path.display());
        return None;
    }
    Some(path.display().to_string())
}

fn quick() -> bool {
    std::env::var_os("FRAZIL_QUICK").is_some_and(|quick| quick == "1")
}

const TWITTER: &str = "libcachesim/twitter_cluster52.csv.zst";
const TWITTER_10M: &str = "libcachesim/twitter_cluster52_10m.csv.zst";

/// Hundredths of the objects: capacities as the SHARDS paper spreads them.
fn even(objects: u64) -> Vec<u64> {
    (1..=100).map(|part| objects * part / 100).collect()
}

/// Shares of the objects, at even logarithmic distances.
fn spread(objects: u64) -> Vec<u64> {
    (0..40).map(|step| (objects as f64 * 10f64.powf(-f64::from(step) / 10.0)) as u64).collect()
}

fn mean_error(exact: &[CurvePoint], sampled: &[CurvePoint]) -> f64 {
    let apart = exact.iter().zip(sampled).map(|(one, two)| (one.miss_ratio - two.miss_ratio).abs());
    apart.sum::<f64>() / exact.len() as f64
}

#[test]
fn a_sampled_curve_is_near_the_exact_one_and_knows_how_near() {
    let file = if quick() { TWITTER } else { TWITTER_10M };
    let Some(spec) = real(file) else { return };
    let (exact, _) =
        lru_curve(&spec, &ReadOptions::default(), Unit::Objects, CurveSample::All).unwrap();
    let rate = if quick() { 0.1 } else { 0.01 };
    for sample in [CurveSample::Rate(rate), CurveSample::Objects(8_000)] {
        // A small cache holds few objects of a sample, and is less accurate.
        let kinds = [(even(exact.objects), 0.003), (spread(exact.objects), 0.01)];
        for (capacities, most) in kinds {
            let sampled = points(&spec, Unit::Objects, sample, &capacities);
            let error = mean_error(&exact.points(&capacities), &sampled);
            let said: f64 = sampled.iter().filter_map(|point| point.error).sum();
            let said = said / sampled.len() as f64;
            println!("{sample:?}: mean error {error:.5}, said {said:.5}");
            assert!(error <= most, "{sample:?}: {error}");
            assert!(said >= error / 2.0 && said <= 10.0 * most, "{sample:?}: {said} for {error}");
        }
    }
}

#[test]
fn a_curve_in_bytes_is_near_the_replay() {
    let Some(spec) = real("libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst") else { return };
    let trace = load(&spec, &ReadOptions::default()).unwrap().trace;
    let bytes = trace.footprint_bytes().unwrap();
    let capacities: Vec<u64> = [1_000, 100, 10, 2].iter().map(|part| bytes / part).collect();
    let policy = "lru".parse().unwrap();
    let cells: Vec<_> = capacities.iter().map(|&capacity| CellSpec { policy, capacity }).collect();
    let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    let replays = sweep(&trace, &cells, &options, &|_| ());
    let curve = points(&spec, Unit::Bytes, CurveSample::All, &capacities);
    for (point, replay) in curve.iter().zip(&replays) {
        let seen = (point.miss_ratio, point.byte_miss_ratio.unwrap());
        let exact = (replay.miss_ratio(), replay.byte_miss_ratio());
        println!("{}: {seen:?}, replayed {exact:?}", point.capacity);
        assert!((seen.0 - exact.0).abs() < 0.005 && (seen.1 - exact.1).abs() < 0.005);
    }
}

#[test]
fn miniatures_are_near_the_whole() {
    let Some(spec) = real(TWITTER) else { return };
    let whole = load(&spec, &ReadOptions::default()).unwrap().trace;
    let bounds = SampleBounds { rate: 1.0, objects: 50_000, records: usize::MAX };
    let sample = load_sample(&spec, &ReadOptions::default(), bounds).unwrap();
    let rate = sample.origin.rate();
    assert!(rate < 1.0 && sample.trace.objects.len() <= 50_000);
    let policy = "sieve".parse().unwrap();
    for capacity in spread(whole.objects.len() as u64).into_iter().step_by(10) {
        let cell = |capacity| [CellSpec { policy, capacity }];
        let options = SweepOptions::default();
        let full = sweep(&whole, &cell(capacity), &options, &|_| ())[0];
        let small = cell(sample_capacity(capacity, rate));
        let small = sweep(&sample.trace, &small, &options, &|_| ())[0];
        let small = small.among(sample.origin.correction(small.requests));
        let (full, small) = (full.miss_ratio(), small.miss_ratio());
        println!("{capacity}: {full:.4}, in miniature {small:.4}");
        assert!((full - small).abs() < 0.02, "{capacity}: {full}, in miniature {small}");
    }
}
