//! Recordings of a cache in the command: capacities are the program's, ratios are corrected, and
//! missing data are reported.

use std::path::PathBuf;
use std::process::{Command, Output};

use frazil_recording::{Encoder, Header, Lifetimes, Operation, Record};
use serde_json::Value;

/// A file that is removed on drop.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A tenth of a program's keys: 100 of them in turn, ten times. All keys had one and a half times
/// the gets that the rate gives.
fn recording(test: &str, cut: usize) -> Temporary {
    let mut file = Vec::new();
    let header =
        Header { rate: 0.1, start_unix_ns: 1, has_sizes: false, lifetimes: Lifetimes::None };
    let mut encoder = Encoder::new(&mut file, &header).unwrap();
    for time_ns in 0..1_000 {
        let (id, operation) = (time_ns % 100, Operation::Get);
        encoder.push(&Record { time_ns, id, size: None, operation, lifetime_ns: None }).unwrap();
    }
    encoder.finish(2, Some(15_000)).unwrap();
    let path = std::env::temp_dir().join(format!("frazil-{test}-{}.frazil", std::process::id()));
    std::fs::write(&path, &file[..file.len() - cut]).unwrap();
    Temporary(path)
}

fn frazil(verb: &[&str], file: &Temporary, flags: &[&str]) -> (Vec<Value>, String) {
    let name = file.0.to_str().unwrap();
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_frazil"))
        .args(verb)
        .arg(name)
        .args(flags)
        .args(["--output", "json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(status.success(), "{stderr}");
    let text = String::from_utf8(stdout).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

#[test]
fn capacities_are_those_of_the_program() {
    let file = recording("capacities", 0);
    let simulate = |policy: &str, capacity: &str| {
        let flags = ["--policy", policy, "--capacity", capacity];
        frazil(&["simulate", "--trace"], &file, &flags)
    };
    // All keys of the sample just fit a tenth of 1,000, and a smaller cache keeps none. As a
    // stream, and in memory.
    for policy in ["lru", "lru,fifo"] {
        for (capacity, misses) in [("1000", 100), ("994", 1_000)] {
            let (rows, notes) = simulate(policy, capacity);
            assert_eq!(rows.len(), policy.split(',').count());
            assert_eq!(rows[0]["capacity"].to_string(), capacity);
            assert_eq!(rows[0]["misses"], misses, "{policy} at {capacity}");
            assert_eq!(rows[0]["requests"], 1_500);
            assert_eq!(rows[0]["miss_ratio"], misses as f64 / 1_500.0);
            assert_eq!(notes.matches("10.00 % of the keys").count(), 1, "{notes}");
            assert!(notes.contains("2 requests came too fast"), "{notes}");
        }
    }
    let (rows, _) = simulate("lru", "100%,50%");
    assert_eq!((&rows[0]["capacity"], &rows[1]["capacity"]), (&1_000.into(), &500.into()));
    assert_eq!((&rows[0]["misses"], &rows[1]["misses"]), (&100.into(), &1_000.into()));
}

#[test]
fn advice_is_for_the_program() {
    let file = recording("advice", 0);
    let flags = ["--policy", "lru,fifo", "--capacity", "500,100%"];
    let (rows, notes) = frazil(&["advise", "--trace"], &file, &flags);
    let recommendation = rows.last().unwrap();
    assert_eq!(recommendation["capacity"], 1_000);
    assert_eq!(recommendation["miss_ratio"], 100.0 / 1_500.0);
    assert_eq!(notes.matches("10.00 % of the keys").count(), 1, "{notes}");
}

#[test]
fn a_trace_says_what_it_is_a_sample_of() {
    let file = recording("info", 0);
    let (rows, _) = frazil(&["trace", "info"], &file, &[]);
    assert_eq!((&rows[0]["rate"], &rows[0]["lost"]), (&0.1.into(), &2.into()));
    assert_eq!(rows[0]["format"], "frazil");
    // A copy keeps the rate, but not in a format without it.
    let copy = Temporary(file.0.with_extension("copy.zst"));
    let convert = |to: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
        command.args(["trace", "convert"]).args([&file.0, &copy.0]).args(["--to", to]);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(convert("csv").contains("is a sample of 10.00 %"));
    assert!(!convert("frazil").contains("is a sample"));
    let (rows, _) = frazil(&["trace", "info"], &copy, &[]);
    assert_eq!((&rows[0]["rate"], &rows[0]["compression"]), (&0.1.into(), &"zstd".into()));
}

#[test]
fn a_recording_that_was_cut_short_is_read_and_said_to_be() {
    let file = recording("cut", 10);
    let flags = ["--policy", "lru", "--capacity", "1000"];
    let (rows, notes) = frazil(&["simulate", "--trace"], &file, &flags);
    assert_eq!((&rows[0]["requests"], &rows[0]["misses"]), (&1_000.into(), &100.into()));
    assert!(notes.contains("has no end"), "{notes}");
    assert!(notes.contains("is not known"), "{notes}");
    // A limit is not reported as such a fault.
    let limited = [&flags[..], &["--limit", "500"]].concat();
    let (rows, notes) = frazil(&["simulate", "--trace"], &file, &limited);
    assert_eq!(rows[0]["requests"], 500);
    assert!(!notes.contains("has no end"), "{notes}");
}

/// A recording of a segment store: a simulation with the same bytes misses about as often as the
/// store did, and advice works.
#[test]
fn a_segment_store_is_advised() {
    let path = std::env::temp_dir().join(format!("frazil-store-{}.frazil", std::process::id()));
    let store = frazil_segment::Store::builder(256 << 10)
        .segment_bytes(4 << 10)
        .eviction(frazil_segment::Eviction::Fifo)
        .seed(1)
        .build()
        .unwrap();
    let recording = store.record(&path, 1.0).unwrap();
    let file = Temporary(path);
    let mut chance = 1u64;
    let mut most = 0;
    for _ in 0..11_000 {
        chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let uniform = (chance >> 33) as f64 / (1u64 << 31) as f64;
        // A power law: the first of 8,000 are requested most.
        let number = (8000.0 * uniform.powi(6)) as u64;
        let value = [0; 300];
        if store.get_with(&number.to_le_bytes(), |_| ()).is_none() {
            let value = &value[..100 + (number % 200) as usize];
            store.set(&number.to_le_bytes(), value, Default::default()).unwrap();
        }
        most = most.max(store.stats().live_bytes);
    }
    let recorded = recording.finish().unwrap();
    let stats = store.stats();
    // A log holds 16,384 notes, so none is lost even if the writer gets no processor before the end.
    assert!(stats.hits + 2 * stats.misses < 1 << 14, "{} misses", stats.misses);
    assert_eq!((recorded.records, recorded.lost), (11_000, 0));
    let missed = stats.misses as f64 / (stats.hits + stats.misses) as f64;
    assert!((0.1..0.6).contains(&missed), "{missed}");
    let flags = ["--policy", "fifo", "--unit", "bytes", "--capacity", &most.to_string()];
    let (rows, _) = frazil(&["simulate", "--trace"], &file, &flags);
    let simulated = rows[0]["miss_ratio"].as_f64().unwrap();
    assert!((simulated - missed).abs() < 0.02, "{simulated} simulated, {missed} of the store");
    let (rows, _) = frazil(&["advise", "--trace"], &file, &["--unit", "bytes"]);
    let advice = rows.last().unwrap();
    assert_eq!(advice["kind"], "recommendation");
    let capacity = advice["capacity"].as_u64().unwrap();
    let all_bytes: u64 = (0..8000).map(|number| 112 + number % 200).sum();
    assert!(capacity > 10_000 && capacity <= all_bytes, "{advice}");
    assert!(advice["miss_ratio"].as_f64().unwrap() < 1.0, "{advice}");
}
