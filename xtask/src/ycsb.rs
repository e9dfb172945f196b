//! `cargo xtask ycsb`: runs YCSB's workloads A to F on RocksDB from Java, with our block cache and
//! with RocksDB's.
//!
//! It uses YCSB's own client and Maven's `rocksdbjni`, both unchanged, with our database binding
//! for YCSB (`crates/rocksdb/ycsb`). Our block cache is preloaded. Each run has the same database,
//! of a million records of 1 KB: its tables are linked, not copied. The program measures itself,
//! after a warm-up.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::block_cache::{Build, LIBRARIES};
use crate::cache_bench::{LIBRARY, SHARED, SOURCES};
use crate::spent::median;
use crate::{others, step, tools};

/// YCSB's client, and its dependencies.
const JARS: [&str; 5] = [
    "site.ycsb:core:0.17.0",
    "org.apache.htrace:htrace-core4:4.1.0-incubating",
    "org.hdrhistogram:HdrHistogram:2.1.4",
    "org.codehaus.jackson:jackson-core-asl:1.9.4",
    "org.codehaus.jackson:jackson-mapper-asl:1.9.4",
];
const DATABASE: &str = "FrazilYcsb";

/// The caches compared: a name, the cache that the program requests of RocksDB, and our policy in
/// its place.
const CACHES: [(&str, &str, Option<&str>); 4] = [
    ("LRU", "lru", None),
    ("HyperClock", "hyper-clock", None),
    ("mobius", "lru", Some("mobius")),
    ("s3-fifo", "lru", Some("s3-fifo")),
];

/// YCSB's workloads, each with a file beside the database's source. One more file has their common
/// part.
const WORKLOADS: [(&str, &str); 6] = [
    ("A", "half updates"),
    ("B", "5 % updates"),
    ("C", "reads"),
    ("D", "reads of the latest"),
    ("E", "scans"),
    ("F", "half read and updated"),
];
const COMMON: &str = "all";

/// The time of an operation, or the median of several.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    /// Processor time in seconds.
    processor: f64,
    /// Operations in a second of wall-clock time.
    rate: f64,
    /// Data blocks that were not in the cache.
    misses: f64,
}

/// Only workloads whose name is in `only`; all if it is empty. With 0 rounds it only builds and
/// fills everything.
pub(crate) fn run(root: &Path, rounds: usize, only: &str) -> anyhow::Result<()> {
    let workloads: Vec<(&str, &str)> =
        WORKLOADS.into_iter().filter(|(name, _)| only.is_empty() || only.contains(name)).collect();
    if workloads.is_empty() {
        bail!("no workload is named `{only}`: {}", WORKLOADS.map(|(name, _)| name).join(", "));
    }
    let client = Client::build(root)?;
    let mut rows = Vec::new();
    for workload in workloads.into_iter().filter(|_| rounds > 0) {
        let mut taken = vec![Vec::new(); CACHES.len()];
        for _ in 0..rounds {
            for (cache, taken) in CACHES.iter().zip(&mut taken) {
                taken.push(client.measure(workload.0, *cache)?);
            }
        }
        rows.push((workload, taken.iter().map(|taken| middle(taken)).collect::<Vec<_>>()));
    }
    if rounds > 0 {
        print(&rows);
    }
    Ok(())
}

/// A workload: its name, its operations, and their cost with each cache.
type Row = ((&'static str, &'static str), Vec<Taken>);

fn middle(taken: &[Taken]) -> Taken {
    let of = |figure: fn(&Taken) -> f64| median(taken.iter().map(figure));
    Taken { processor: of(|it| it.processor), rate: of(|it| it.rate), misses: of(|it| it.misses) }
}

fn print(rows: &[Row]) {
    let names: String = CACHES.iter().map(|(name, ..)| format!("{name:>11}")).collect();
    let table = |heading: &str, digits: usize, figure: fn(&Taken) -> f64| {
        println!("{heading:<34}{names}");
        for ((workload, does), taken) in rows {
            let cells = taken.iter().map(|taken| format!("{:>11.digits$}", figure(taken)));
            let name = format!("{workload}, {does}");
            println!("{name:<34}{}", cells.collect::<String>());
        }
        println!();
    };
    table("us of the processor an operation", 2, |taken| taken.processor * 1e6);
    table("thousand operations a second", 1, |taken| taken.rate / 1e3);
    table("blocks missed an operation", 3, |taken| taken.misses);
    println!("{}", losses(rows));
}

/// The workloads in which a cache of ours is behind one of RocksDB's.
fn losses(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for ((workload, _), taken) in rows {
        for (at, (name, _, policy)) in CACHES.iter().enumerate() {
            for (rival, theirs) in CACHES.iter().zip(taken).filter(|_| policy.is_some()) {
                if rival.2.is_some() {
                    continue;
                }
                let rate = taken[at].rate / theirs.rate;
                let processor = taken[at].processor / theirs.processor;
                if rate < 1.0 || processor > 1.0 {
                    let rival = rival.0;
                    lines.push(format!(
                        "{workload}, {name}: {rate:.2} times {rival}'s operations, \
                         {processor:.2} times its processor time each"
                    ));
                }
            }
        }
    }
    if lines.is_empty() {
        "losses: none".to_owned()
    } else {
        format!("losses\n{}", lines.join("\n"))
    }
}

/// YCSB's client with its dependencies, and a filled database.
struct Client {
    java: PathBuf,
    place: PathBuf,
    classes: String,
    database: PathBuf,
}

impl Client {
    fn build(root: &Path) -> anyhow::Result<Self> {
        let place = root.join("target/rocksdb/11.8.1");
        std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
        let compiler = tools::ensure_program("javac", &["default-jdk-headless"])?;
        let java = tools::ensure_program("java", &["default-jdk-headless"])?;
        let tree = others::sources(&place, SOURCES.0, SOURCES.1)?.join("rocksdb");
        others::from_jar(&place, LIBRARY, SHARED)?;
        let (headers, flags) =
            (tree.join("include"), ["-std=c++20", "-fno-rtti"].map(str::to_owned));
        Build { headers: &headers, flags: &flags, out: &place, profile: "release" }.all(root)?;
        let folder = place.join("ycsb");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let own = root.join("crates/rocksdb/ycsb");
        let workloads = own.join("workloads");
        for file in
            std::fs::read_dir(&workloads).with_context(|| workloads.display().to_string())?
        {
            let file = file?;
            let copied = std::fs::copy(file.path(), folder.join(file.file_name()));
            copied.with_context(|| file.path().display().to_string())?;
        }
        for artifact in JARS.iter().chain([&LIBRARY]) {
            others::jar(&place, artifact)?;
        }
        let classes = format!("{}:{}/jars/*", folder.display(), place.display());
        let mut command = Command::new(compiler);
        command.args(["-Xlint:all", "-Werror", "-cp", &classes, "-d"]).arg(&folder);
        command.arg(own.join(format!("{DATABASE}.java")));
        step::run("javac", &mut command)?;
        let database = place.join("ycsb.db");
        let client = Client { java, place, classes, database };
        client.load()?;
        Ok(client)
    }

    /// Fills the database unless it exists.
    fn load(&self) -> anyhow::Result<()> {
        if self.database.exists() {
            return Ok(());
        }
        let unfinished = self.place.join("ycsb.db.new");
        let _ = std::fs::remove_dir_all(&unfinished);
        let mut command = self.command(&unfinished, CACHES[0], COMMON);
        command.args(["-load", "-p", "rocksdb.compact=true"]);
        step::announced("a million records", || told(&mut command))?;
        std::fs::rename(unfinished, &self.database).context("a database")
    }

    /// The client for a database.
    fn command(
        &self,
        database: &Path,
        (_, asked, policy): (&str, &str, Option<&str>),
        workload: &str,
    ) -> Command {
        let mut command = Command::new(&self.java);
        // A garbage collector without its own threads.
        command.args(["-XX:+UseSerialGC", "-Xmx512m", "-cp"]).arg(&self.classes);
        command.arg(format!("-Djava.library.path={}", self.place.display()));
        command.args(["site.ycsb.Client", "-db", DATABASE]);
        for name in [COMMON, workload] {
            command.arg("-P").arg(self.place.join(format!("ycsb/{name}.properties")));
        }
        command.arg("-p").arg(format!("rocksdb.dir={}", database.display()));
        command.arg("-p").arg(format!("rocksdb.cache={asked}"));
        if let Some(policy) = policy {
            command.env("LD_PRELOAD", self.place.join(LIBRARIES[1].0));
            command.env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"));
        }
        command
    }

    fn measure(&self, workload: &str, cache: (&str, &str, Option<&str>)) -> anyhow::Result<Taken> {
        let database = self.place.join("ycsb.db.run");
        link(&self.database, &database)?;
        let mut command = self.command(&database, cache, &workload.to_lowercase());
        let told = told(command.arg("-t"))?;
        if told.contains("Block cache frazil@") != cache.2.is_some() {
            bail!("YCSB had another block cache than {}:\n{told}", cache.0);
        }
        taken(&told).with_context(|| format!("YCSB does not say what it took:\n{told}"))
    }
}

/// Parses the line that the database prints.
fn taken(told: &str) -> Option<Taken> {
    let line = told.lines().find_map(|line| line.strip_prefix("measured:"))?;
    let figures = line.split_whitespace().map(|word| word.parse().ok());
    let figures: Vec<f64> = figures.collect::<Option<_>>()?;
    let &[operations, processor, wall, misses] = figures.as_slice() else { return None };
    (operations > 0.0 && wall > 0.0).then(|| Taken {
        processor: processor / 1e9 / operations,
        rate: operations / (wall / 1e9),
        misses: misses / operations,
    })
}

/// The client's output, if no operation failed.
fn told(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().context("java")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    // YCSB counts failed operations, and succeeds.
    if !output.status.success() || told.contains("Return=ERROR") || told.contains("-FAILED]") {
        bail!("YCSB: {}: {told}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(told)
}

/// A database with links to the same tables, which never change, and copies of the other files.
fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let linked = path.extension().is_some_and(|extension| extension == "sst");
        let done = if linked {
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
    fn what_the_database_measured_is_read() {
        let told = "[OVERALL], RunTime(ms), 12\nmeasured: 300 6000000 3000000 150\nBlock cache\n";
        let taken = taken(told).unwrap();
        assert_eq!(taken, Taken { processor: 20e-6, rate: 1e5, misses: 0.5 });
        for bad in ["", "measured: 1 2 3", "measured: 1 2 3 many", "measured: 0 0 0 0"] {
            assert_eq!(super::taken(bad), None, "{bad}");
        }
    }

    #[test]
    fn losses_are_told_against_each_of_rocksdb_s() {
        let taken = |rate| Taken { processor: 1.0 / rate, rate, misses: 0.0 };
        let none = vec![taken(1.0), taken(2.0), taken(3.0), taken(2.0)];
        assert_eq!(losses(&[(WORKLOADS[0], none)]), "losses: none");
        let some = vec![taken(1.0), taken(2.0), taken(1.5), taken(2.5)];
        let told = losses(&[(WORKLOADS[2], some)]);
        assert_eq!(
            told,
            "losses\nC, mobius: 0.75 times HyperClock's operations, 1.33 times its processor time each"
        );
    }
}
