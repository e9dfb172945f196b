//! `cargo xtask cache-bench`: compares our block cache with RocksDB's, by RocksDB's `cache_bench`.
//!
//! It compiles the program from RocksDB 11.8.1 and links it with Maven's library of 11.1.1, once
//! unchanged, and once with our libraries before that one. Each figure is a difference between two
//! runs, so it excludes the program's work before and after its operations. The two builds take
//! turns. Times are processor times.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::block_cache::{Build, LIBRARIES};
use crate::{others, spent, step, tools};

/// The crate that has the sources, and the library.
pub(crate) const SOURCES: (&str, &str) = ("librocksdb-sys", "0.19.0");
pub(crate) const LIBRARY: &str = "org.rocksdb:rocksdbjni:11.1.1";
pub(crate) const SHARED: &str = "librocksdbjni-linux64.so";

const FLAGS: [&str; 9] = [
    "-std=c++20",
    "-O2",
    "-fno-rtti",
    "-Ddynamic_cast=static_cast",
    "-DNDEBUG",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DROCKSDB_LIB_IO_POSIX",
    "-DOS_LINUX",
    "-DGFLAGS=gflags",
];

/// The caches compared: a name, the program's option, and our policy.
const CACHES: [(&str, &str, Option<&str>); 5] = [
    ("LRU", "lru_cache", None),
    ("HyperClock", "auto_hyper_clock_cache", None),
    ("mobius", "lru_cache", Some("mobius")),
    ("clock", "lru_cache", Some("clock")),
    ("s3-fifo", "lru_cache", Some("s3-fifo")),
];

/// Look-ups alone, and the program's own mix, in which a quarter of the entries is held.
const LOOK_UPS: &str = "--lookup_insert_percent=0 --insert_percent=0 --blind_insert_percent=0 \
     --erase_percent=0 --lookup_percent=100 --pinned_ratio=0 --cache_size=268435456";
const HOT: &str = "--lookup_insert_percent=0 --insert_percent=0 --blind_insert_percent=0 \
     --erase_percent=0 --lookup_percent=100 --pinned_ratio=0 --lean \
     --cache_size=131072 --resident_ratio=1";
const MIX: &str = "--cache_size=268435456";

/// A name, arguments, threads, operations of each.
const RUNS: [(&str, &str, &str, u64); 7] = [
    ("look-ups", LOOK_UPS, "--lean --threads=1", 2_000_000),
    ("look-ups, 2 threads", LOOK_UPS, "--lean --threads=2", 1_000_000),
    ("look-ups, values read", LOOK_UPS, "--threads=1", 2_000_000),
    ("hot blocks", HOT, "--threads=1", 10_000_000),
    ("hot blocks, 2 threads", HOT, "--threads=2", 10_000_000),
    ("mix", MIX, "--threads=1", 2_000_000),
    ("mix, 2 threads", MIX, "--threads=2", 2_000_000),
];

/// Few operations, to measure the cost of a run beside its operations.
const FEW: u64 = 1_000;

/// The time of a cache's operation, or the median of several, and its hit ratio.
#[derive(Clone, Copy)]
struct Taken {
    /// Processor time in nanoseconds.
    processor: f64,
    hit_ratio: f64,
    /// 99.9th percentile of the latency in microseconds of wall-clock time, from runs that time
    /// each operation; only of the mix.
    p999: f64,
}

/// Only runs whose name contains `only`. With 0 rounds it only builds the programs.
pub(crate) fn run(root: &Path, rounds: usize, only: &str) -> anyhow::Result<()> {
    let place = root.join("target/rocksdb/11.8.1");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let tree = others::sources(&place, SOURCES.0, SOURCES.1)?.join("rocksdb");
    others::from_jar(&place, LIBRARY, SHARED)?;
    let headers = tree.join("include");
    let flags = [FLAGS[0].to_owned(), "-fno-rtti".to_owned()];
    Build { headers: &headers, flags: &flags, out: &place, profile: "release" }.all(root)?;
    let programs = [program(&place, &tree, &[])?, program(&place, &tree, &LIBRARIES)?];
    if rounds == 0 {
        return Ok(());
    }
    let names = CACHES.iter().map(|(name, ..)| format!("{name:>11}"));
    println!("ns of the processor an operation{}", names.collect::<String>());
    let (mut ratios, mut tails) = (Vec::new(), Vec::new());
    for (name, arguments, threads, operations) in
        RUNS.iter().copied().filter(|run| run.0.contains(only))
    {
        let measured = measure(&programs, (arguments, threads), operations, rounds)?;
        let line = |digits: usize, of: fn(&Taken) -> f64| {
            let cells = measured.iter().map(|taken| format!("{:>11.digits$}", of(taken)));
            format!("{name:<32}{}", cells.collect::<String>())
        };
        println!("{}", line(0, |it| it.processor));
        if arguments == MIX {
            ratios.push(line(4, |it| it.hit_ratio));
            tails.push(line(1, |it| it.p999));
        }
    }
    if !ratios.is_empty() {
        println!("\nhit ratio\n{}", ratios.join("\n"));
        println!("\nus by the clock, p99.9\n{}", tails.join("\n"));
    }
    Ok(())
}

/// Compiles the program with the files that take precedence over RocksDB's.
fn program(place: &Path, tree: &Path, before: &[(&str, &[&str])]) -> anyhow::Result<PathBuf> {
    let name = if before.is_empty() { "stock" } else { "ours" };
    let program = place.join(format!("cache_bench-{name}"));
    let compiler = tools::ensure_program("g++", &["g++"])?;
    tools::ensure_gflags()?;
    let mut command = Command::new(compiler);
    command.args(FLAGS).arg("-w").arg("-I").arg(tree.join("include")).arg("-I").arg(tree);
    command.args(["cache_bench", "cache_bench_tool"].map(|it| tree.join(format!("cache/{it}.cc"))));
    // The replacement library comes first.
    command.args(before.iter().rev().map(|(library, _)| place.join(library)));
    command.arg(place.join(SHARED)).args(["-Wl,-rpath,$ORIGIN", "-lgflags", "-lpthread", "-ldl"]);
    step::run(&format!("g++, {name}"), command.arg("-o").arg(&program))?;
    Ok(program)
}

/// The medians of the rounds for each cache.
fn measure(
    programs: &[PathBuf; 2],
    (arguments, threads): (&str, &str),
    operations: u64,
    rounds: usize,
) -> anyhow::Result<Vec<Taken>> {
    let mut taken = vec![Vec::new(); CACHES.len()];
    let count = if threads.contains("--threads=2") { 2.0 } else { 1.0 };
    for round in 1..=rounds {
        for ((_, cache, policy), taken) in CACHES.iter().zip(&mut taken) {
            let run = |operations: u64, is_each_timed: bool| -> anyhow::Result<(f64, String)> {
                let mut command = Command::new(&programs[usize::from(policy.is_some())]);
                command.args(arguments.split_whitespace()).args(threads.split_whitespace());
                command.args(["--value_bytes=1024", &format!("--seed={round}")]);
                command.arg(format!("--histograms={is_each_timed}"));
                command.arg(format!("--cache_type={cache}"));
                command.arg(format!("--ops_per_thread={operations}"));
                command.env("FRAZIL_BLOCK_CACHE", format!("policy={}", policy.unwrap_or_default()));
                let begun = spent::begin();
                let output = command.output().context("cache_bench")?;
                step::succeeded("cache_bench", output.status)?;
                let used = begun.spent().processor.context("the system tells no times")?;
                Ok((used, String::from_utf8_lossy(&output.stdout).into_owned()))
            };
            let (few, _) = run(FEW, false)?;
            let (all, told) = run(operations, false)?;
            let is_mix = arguments == MIX;
            let tail = if is_mix { after(&run(operations, true)?.1, "P99.9: ") } else { None };
            taken.push(Taken {
                processor: (all - few) / ((operations - FEW) as f64 * count) * 1e9,
                hit_ratio: after(&told, "Lookup hit ratio: ").unwrap_or(f64::NAN),
                p999: tail.map_or(f64::NAN, |nanoseconds| nanoseconds / 1e3),
            });
        }
    }
    let middle = |taken: &Vec<Taken>| Taken {
        processor: spent::median(taken.iter().map(|it| it.processor)),
        hit_ratio: spent::median(taken.iter().map(|it| it.hit_ratio)),
        p999: spent::median(taken.iter().map(|it| it.p999)),
    };
    Ok(taken.iter().map(middle).collect())
}

/// The number that the program prints behind a name.
fn after(told: &str, name: &str) -> Option<f64> {
    told.split(name).nth(1)?.split_whitespace().next()?.parse().ok()
}
