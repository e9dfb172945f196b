//! Runs programs that drive RocksDB, and reads their output: its own two benchmarks, and YCSB's
//! client.
//!
//! `cargo xtask cache-bench`, `db-bench` and `ycsb` compile them, and document their origin.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The folder into which they were compiled.
pub(super) struct Programs {
    folder: PathBuf,
}

/// A block cache, as an option of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BlockCache {
    Lru,
    HyperClock,
    /// Ours, with a policy.
    Ours(&'static str),
}

/// The output of `cache_bench` for a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Operations {
    /// Operations of all threads in a second.
    pub(super) rate: f64,
    pub(super) hit_ratio: f64,
}

/// The output of `db_bench` for a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reads {
    /// Operations of all threads, in each second.
    pub(super) rates: Vec<f64>,
    /// Processor seconds for each operation, including all other work.
    pub(super) processor: f64,
}

/// The output of YCSB's client for the measured part of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Requests {
    /// Operations of all threads in a second.
    pub(super) rate: f64,
    /// Processor seconds for each operation.
    pub(super) processor: f64,
    /// Data blocks that were not in the cache, for each operation.
    pub(super) misses: f64,
}

impl BlockCache {
    pub(super) fn name(self) -> &'static str {
        match self {
            BlockCache::Lru => "LRU",
            BlockCache::HyperClock => "HyperClock",
            BlockCache::Ours(policy) => policy,
        }
    }
}

impl Programs {
    pub(super) fn new(folder: &Path) -> Self {
        Programs { folder: folder.to_owned() }
    }

    /// The path of a file that one of our commands has made.
    fn made(&self, name: &str, command: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        if !path.exists() {
            bail!(
                "{}: no such file; `cargo xtask {command} --rounds 0` makes it in target/rocksdb/11.8.1",
                path.display()
            );
        }
        // Absolute, because the program is started in another folder.
        path.canonicalize().with_context(|| path.display().to_string())
    }

    /// `cache_bench` with its own mix on one shard, as in paper 3.
    pub(super) fn cache_bench(
        &self,
        cache: BlockCache,
        bytes: u64,
        threads: u32,
        operations: u64,
    ) -> anyhow::Result<Operations> {
        let (name, policy) = match cache {
            BlockCache::Ours(policy) => ("cache_bench-ours", policy),
            _ => ("cache_bench-stock", ""),
        };
        let asked = match cache {
            BlockCache::HyperClock => "auto_hyper_clock_cache",
            _ => "lru_cache",
        };
        let mut command = Command::new(self.made(name, "cache-bench")?);
        command.args(["--num_shard_bits=0", "--histograms=false", "--seed=1"]);
        command.arg(format!("--cache_type={asked}")).arg(format!("--cache_size={bytes}"));
        command.arg(format!("--threads={threads}")).arg(format!("--ops_per_thread={operations}"));
        command.env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"));
        let told = told(&mut command)?;
        operations_of(&told)
            .with_context(|| format!("cache_bench says too little: {}", last_lines(&told)))
    }

    /// `db_bench` for some seconds, with 16 shards, as in paper 3.
    pub(super) fn db_bench(
        &self,
        cache: BlockCache,
        bytes: u64,
        arguments: &str,
        (threads, seconds): (u32, u32),
        report: &Path,
    ) -> anyhow::Result<Reads> {
        let mut command = Command::new(self.made("db_bench", "db-bench")?);
        command.arg(match cache {
            BlockCache::Lru => "--cache_type=lru_cache".to_owned(),
            BlockCache::HyperClock => "--cache_type=auto_hyper_clock_cache".to_owned(),
            BlockCache::Ours(policy) => {
                format!("--cache_uri=id=frazil://;capacity={bytes};policy={policy}")
            }
        });
        command.arg(format!("--cache_size={bytes}")).arg("--cache_numshardbits=4");
        command.args(arguments.split_whitespace());
        command.args(["--use_existing_db", "--compression_type=none", "--value_size=100"]);
        command.args(["--disable_auto_compactions", "--num=2000000", "--seed=1"]);
        let database = self.made("db_bench.db", "db-bench")?;
        command.arg(format!("--db={}", database.display())).arg(format!("--threads={threads}"));
        command.arg(format!("--duration={seconds}")).arg("--report_interval_seconds=1");
        command.arg(format!("--report_file={}", report.display()));
        let before = frazil_driver::children_time();
        let told = told(&mut command)?;
        let after = frazil_driver::children_time().context("the system tells no times")?;
        let processor = after.saturating_sub(before.unwrap_or_default()).as_secs_f64();
        let by_second = std::fs::read_to_string(report).context("db_bench wrote no report")?;
        let rates = rates(&by_second);
        let reads = reads(&told)
            .with_context(|| format!("db_bench says too little: {}", last_lines(&told)))?;
        Ok(Reads { rates, processor: processor / reads })
    }

    /// YCSB's client, one of its workloads (`a` to `f`), on a copy of the database whose tables are
    /// linked.
    pub(super) fn ycsb(
        &self,
        cache: BlockCache,
        workload: &str,
        quick: bool,
    ) -> anyhow::Result<Requests> {
        let made = |name: &str| self.made(name, "ycsb");
        let database = self.folder.join("ycsb.db.run");
        link(&made("ycsb.db")?, &database)?;
        let mut command = Command::new("java");
        let (classes, jars) = (made("ycsb")?, made("jars")?);
        command.args(["-XX:+UseSerialGC", "-Xmx512m", "-cp"]);
        command.arg(format!("{}:{}/*", classes.display(), jars.display()));
        command.arg(format!("-Djava.library.path={}", self.folder.display()));
        command.args(["site.ycsb.Client", "-t", "-db", "FrazilYcsb"]);
        for name in ["all", workload] {
            command.arg("-P").arg(classes.join(format!("{name}.properties")));
        }
        if quick {
            command.args(["-p", "operationcount=2000", "-p", "rocksdb.warm=1000"]);
        }
        let asked = if cache == BlockCache::HyperClock { "hyper-clock" } else { "lru" };
        command.arg("-p").arg(format!("rocksdb.cache={asked}"));
        command.arg("-p").arg(format!("rocksdb.dir={}", database.display()));
        if let BlockCache::Ours(policy) = cache {
            command.env("LD_PRELOAD", made("libfrazil_preload.so")?);
            command.env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"));
        }
        let told = told(&mut command)?;
        if told.contains("-FAILED]") || told.contains("Return=ERROR") {
            bail!("operations of YCSB fail: {}", last_lines(&told));
        }
        requests(&told).with_context(|| format!("YCSB says too little: {}", last_lines(&told)))
    }
}

/// The output of a program that succeeds.
fn told(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let (told, errors) = (last_lines(&told), last_lines(&errors));
        bail!("{name}: {}: {told} {errors}", output.status);
    }
    Ok(told)
}

/// The last lines, which have the reason, as one line.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

fn operations_of(told: &str) -> Option<Operations> {
    let after = |name: &str| {
        told.split(name).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok())
    };
    Some(Operations {
        rate: after("Rough parallel ops/sec = ")?,
        hit_ratio: after("Lookup hit ratio: ")?,
    })
}

/// The number of operations in a benchmark's output.
fn reads(told: &str) -> Option<f64> {
    let line =
        told.lines().find(|line| line.contains(" micros/op ") && line.contains(" operations"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with("operations"))?;
    let count: f64 = words[at.checked_sub(1)?].parse().ok()?;
    (count > 0.0).then_some(count)
}

/// The operations in each second.
fn rates(report: &str) -> Vec<f64> {
    report.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse().ok()).collect()
}

fn requests(told: &str) -> Option<Requests> {
    let line = told.lines().find_map(|line| line.strip_prefix("measured:"))?;
    let figures = line.split_whitespace().map(|word| word.parse().ok());
    let figures: Vec<f64> = figures.collect::<Option<_>>()?;
    let &[count, processor, wall, misses] = figures.as_slice() else { return None };
    (count > 0.0 && wall > 0.0).then(|| Requests {
        rate: count / (wall / 1e9),
        processor: processor / 1e9 / count,
        misses: misses / count,
    })
}

/// A database with links to the same tables, which never change.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let done = if path.extension().is_some_and(|extension| extension == "sst") {
            std::fs::hard_link(&path, to.join(name))
        } else {
            std::fs::copy(&path, to.join(name)).map(drop)
        };
        done.with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        let told = "Complete in 1.2 s; Rough parallel ops/sec = 1234567\n\
                    Thread ops/sec = 700\nLookup hit ratio: 0.64\n";
        assert_eq!(operations_of(told), Some(Operations { rate: 1_234_567.0, hit_ratio: 0.64 }));
        assert_eq!(operations_of("Rough parallel ops/sec = many"), None);
        let told = "DB path: [x]\nreadrandom   :   8.313 micros/op 120286 ops/sec 2.494 seconds \
                    300000 operations;   13.3 MB/s (300000 of 300000 found)\n";
        assert_eq!(reads(told), Some(300_000.0));
        assert_eq!(reads("readrandom : micros/op operations"), None);
        assert_eq!(rates("secs_elapsed,interval_qps\n1,100\n2,250\n3,x\n"), [100.0, 250.0]);
        let of = requests("[READ], 1\nmeasured: 200 4000000 1000000 50\n").unwrap();
        assert_eq!(of, Requests { rate: 200_000.0, processor: 20e-6, misses: 0.25 });
        assert_eq!(requests("measured: 0 1 1 1"), None);
        assert_eq!(requests("measured: 1 1 1"), None);
    }
}
