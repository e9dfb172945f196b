//! `cargo xtask db-bench`: reads of a database through our block cache and through RocksDB's, by
//! RocksDB's `db_bench`.
//!
//! The program comes from RocksDB 11.8.1, built by its own CMake for a release, with our block
//! cache linked into it. That takes half an hour of processor time, once: the build is kept in
//! `target/rocksdb/11.8.1/release`. Maven's library of 11.1.1 is not enough, because the program
//! uses RocksDB's internals. Each figure is a difference between two runs, so it excludes the work
//! before and after the reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::block_cache::Build;
use crate::cache_bench::SOURCES;
use crate::spent::{self, median};
use crate::{others, step, tools};

/// Objects of the program that CMake has compiled, and ours.
const OBJECTS: [&str; 4] =
    ["simulated_hybrid_file_system", "db_bench", "tool_hooks", "db_bench_tool"];
const OURS: [&str; 2] = ["block_cache", "replace"];

/// Keys, each with a value of 100 bytes: 230 MB of blocks.
const KEYS: u64 = 2_000_000;

/// The caches compared: a name, and the program's option, in which `{}` stands for bytes.
const CACHES: [(&str, &str); 5] = [
    ("LRU", "--cache_type=lru_cache --cache_size={}"),
    ("HyperClock", "--cache_type=auto_hyper_clock_cache --cache_size={}"),
    ("mobius", "--cache_uri=id=frazil://;capacity={};policy=mobius"),
    ("s3-fifo", "--cache_uri=id=frazil://;capacity={};policy=s3-fifo"),
    ("clock", "--cache_uri=id=frazil://;capacity={};policy=clock"),
];

/// The options of the database.
struct Run {
    name: &'static str,
    /// The program's arguments.
    benchmark: &'static str,
    bytes: u64,
    threads: u64,
}

const POINTS: &str = "--benchmarks=readrandom";
const SKEWED: &str = "--benchmarks=readrandom --read_random_exp_range=10";
const SEEKS: &str = "--benchmarks=seekrandom";
const CACHED: u64 = 512 << 20;
const SMALL: u64 = 32 << 20;
/// Reads of all threads together: those that fill the cache, and those that count.
const FILL: u64 = 300_000;
const READS: u64 = 600_000;

const RUNS: [Run; 9] = [
    Run::new("readrandom-cached", POINTS, CACHED, 1),
    Run::new("readrandom-cached, 2 threads", POINTS, CACHED, 2),
    Run::new("seekrandom-cached", SEEKS, CACHED, 1),
    Run::new("seekrandom-cached, 2 threads", SEEKS, CACHED, 2),
    Run::new("readrandom-32MiB", POINTS, SMALL, 1),
    Run::new("readrandom-32MiB, 2 threads", POINTS, SMALL, 2),
    Run::new("readrandom-32MiB, skewed", SKEWED, SMALL, 1),
    Run::new("seekrandom-32MiB", SEEKS, SMALL, 1),
    Run::new("seekrandom-32MiB, 2 threads", SEEKS, SMALL, 2),
];

impl Run {
    const fn new(name: &'static str, benchmark: &'static str, bytes: u64, threads: u64) -> Self {
        Run { name, benchmark, bytes, threads }
    }
}

/// The cost of a run, or of a read.
#[derive(Clone, Copy)]
struct Taken {
    /// Processor time in seconds.
    processor: f64,
    /// Wall-clock time in seconds.
    wall: f64,
    /// Data blocks that were not in the cache.
    misses: f64,
}

/// Only runs whose name contains `only`. With 0 rounds it only builds the program.
pub(crate) fn run(root: &Path, rounds: usize, only: &str) -> anyhow::Result<()> {
    let place = root.join("target/rocksdb/11.8.1");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let program = program(root, &place)?;
    let database = database(&place, &program)?;
    if rounds == 0 {
        return Ok(());
    }
    let runs: Vec<&Run> = RUNS.iter().filter(|run| run.name.contains(only)).collect();
    if runs.is_empty() {
        bail!("no run is named `{only}`");
    }
    let measured = runs.iter().map(|run| measure(&program, &database, run, rounds));
    let measured = measured.collect::<anyhow::Result<Vec<_>>>()?;
    let names: String = CACHES.iter().map(|(name, _)| format!("{name:>11}")).collect();
    let table = |heading: &str, digits: usize, figure: fn(&Taken) -> f64| {
        println!("{heading:<40}{names}");
        for (run, reads) in runs.iter().zip(&measured) {
            let cells = reads.iter().map(|read| format!("{:>11.digits$}", figure(read)));
            println!("{:<40}{}", run.name, cells.collect::<String>());
        }
    };
    table("us of the processor a read", 2, |read| read.processor * 1e6);
    println!();
    table("blocks missed a read", 4, |read| read.misses);
    println!();
    table("us by the clock a read, of each thread", 2, |read| read.wall * 1e6);
    Ok(())
}

/// Builds RocksDB unless it exists, and links its program with our block cache.
fn program(root: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let compiler = tools::ensure_program("g++", &["g++"])?;
    tools::ensure_gflags()?;
    let tree = others::sources(place, SOURCES.0, SOURCES.1)?.join("rocksdb");
    let release = place.join("release");
    // The last file that the build makes.
    if !release.join("db_bench").exists() {
        let cmake = tools::ensure_program("cmake", &["cmake", "make"])?;
        let mut command = Command::new(&cmake);
        command.arg("-S").arg(&tree).arg("-B").arg(&release);
        command.args(["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w", "-DWITH_GFLAGS=ON"]);
        command.args([
            "-DWITH_TESTS=OFF",
            "-DWITH_ALL_TESTS=OFF",
            "-DROCKSDB_BUILD_SHARED=OFF",
            "-DFAIL_ON_WARNINGS=OFF",
        ]);
        step::run("cmake", &mut command)?;
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(cmake);
        command.arg("--build").arg(&release).args(["--target", "db_bench", "--parallel"]);
        step::run("cmake --build, half an hour", command.arg(at_once.to_string()))?;
    }
    let headers = tree.join("include");
    let flags = ["-std=c++20", "-fno-rtti"].map(str::to_owned);
    let build = Build { headers: &headers, flags: &flags, out: place, profile: "release" };
    build.for_c(root)?;
    let program = place.join("db_bench");
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-DNDEBUG"])
        .args(&flags)
        .arg("-I")
        .arg(root.join("crates/rocksdb/include"));
    command.arg("-isystem").arg(&headers);
    command.args(OURS.map(|file| root.join(format!("crates/rocksdb/cpp/{file}.cc"))));
    let objects = release.join("CMakeFiles/db_bench.dir/tools");
    command.args(OBJECTS.map(|object| objects.join(format!("{object}.cc.o"))));
    command.args([release.join("librocksdb.a"), build.frazil(root)]);
    command.args(["-lgflags", "-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    step::run("link of db_bench", &mut command)?;
    Ok(program)
}

/// Fills a database unless it exists.
fn database(place: &Path, program: &Path) -> anyhow::Result<PathBuf> {
    let database = place.join("db_bench.db");
    if !database.join("CURRENT").exists() {
        let unfinished = place.join("db_bench.db.new");
        let mut command = Command::new(program);
        command.args([
            "--benchmarks=fillseq,compact",
            "--compression_type=none",
            "--value_size=100",
        ]);
        command.arg(format!("--num={KEYS}")).arg(format!("--db={}", unfinished.display()));
        step::announced("a database", || told(&mut command))?;
        std::fs::rename(unfinished, &database).context("a database")?;
    }
    Ok(database)
}

/// The medians of the rounds for each cache.
fn measure(
    program: &Path,
    database: &Path,
    run: &Run,
    rounds: usize,
) -> anyhow::Result<Vec<Taken>> {
    let mut taken = vec![Vec::new(); CACHES.len()];
    for _ in 0..rounds {
        for ((_, cache), taken) in CACHES.iter().zip(&mut taken) {
            let cache = cache.replace("{}", &run.bytes.to_string());
            let once = |reads: u64| once(program, database, run, &cache, reads);
            let few = once(FILL)?;
            let all = once(FILL + READS)?;
            let per_read = |of: fn(&Taken) -> f64| (of(&all) - of(&few)) / READS as f64;
            taken.push(Taken {
                processor: per_read(|it| it.processor),
                wall: per_read(|it| it.wall) * run.threads as f64,
                misses: per_read(|it| it.misses),
            });
        }
    }
    let middle = |taken: &Vec<Taken>| Taken {
        processor: median(taken.iter().map(|it| it.processor)),
        wall: median(taken.iter().map(|it| it.wall)),
        misses: median(taken.iter().map(|it| it.misses)),
    };
    Ok(taken.iter().map(middle).collect())
}

/// One run of the program, from its start to its end.
fn once(
    program: &Path,
    database: &Path,
    run: &Run,
    cache: &str,
    reads: u64,
) -> anyhow::Result<Taken> {
    let mut command = Command::new(program);
    command.args(run.benchmark.split_whitespace()).args(cache.split_whitespace());
    command.args(["--use_existing_db", "--compression_type=none", "--value_size=100"]);
    // Opened for writing: RocksDB counts no points of a database that it opens only for reading.
    command.arg("--disable_auto_compactions");
    // Tickers without times: only misses are counted.
    command.args(["--statistics", "--stats_level=1", "--seed=1"]);
    command.arg(format!("--num={KEYS}")).arg(format!("--db={}", database.display()));
    command.arg(format!("--threads={}", run.threads));
    command.arg(format!("--reads={}", reads / run.threads));
    let begun = spent::begin();
    let told = told(&mut command)?;
    let spent = begun.spent();
    let misses =
        counted(&told, "rocksdb.block.cache.data.miss").context("db_bench counts no misses")?;
    let processor = spent.processor.context("the system tells no times")?;
    Ok(Taken { processor, wall: spent.wall, misses: misses as f64 })
}

/// The program's output.
fn told(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("db_bench")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("db_bench: {}: {told}{errors}", output.status);
    }
    Ok(told)
}

/// A counter in what `db_bench --statistics` prints.
fn counted(told: &str, name: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" COUNT :"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let told = "readrandom : 3.1 micros/op\nSTATISTICS:\n\
                    rocksdb.block.cache.data.miss.other COUNT : 7\n\
                    rocksdb.block.cache.data.miss COUNT : 1234\n";
        assert_eq!(counted(told, "rocksdb.block.cache.data.miss"), Some(1234));
        assert_eq!(counted(told, "rocksdb.block.cache.data.hit"), None);
        assert_eq!(
            counted("rocksdb.block.cache.data.hit COUNT : many", "rocksdb.block.cache.data.hit"),
            None
        );
    }
}
