//! `cargo xtask check rocksdb`: RocksDB's own tests of its caches, unchanged, on ours.
//!
//! They are compiled from RocksDB 10.4.2 and linked with the library that Maven has of that version, which
//! was compiled without run-time types and with the old strings. Our functions come before that library's of the
//! same names. Tests that fail are named here, with the reason, and must fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{step, tools};

/// Where a file comes from, what it is called here, and its SHA-256.
struct Download {
    url: &'static str,
    name: &'static str,
    sha256: &'static str,
}

const SOURCES: Download = Download {
    url: "librocksdb-sys-0.17.3+10.4.2.crate",
    name: "librocksdb-sys-0.17.3+10.4.2.crate",
    sha256: "cef2a00ee60fe526157c9023edab23943fae1ce2ab6f4abb2a807c1746835de9",
};
const LIBRARY: Download = Download {
    url: "rocksdbjni-10.4.2-linux64.jar",
    name: "rocksdbjni-10.4.2-linux64.jar",
    sha256: "34a9b9ab5bdb128c058363d72a83ab5d0a498a97df9cf1291f1a6e9260bb70b1",
};
/// What is in them.
const TREE: &str = "librocksdb-sys-0.17.3+10.4.2/rocksdb";
const SHARED: &str = "librocksdbjni-linux64.so";

/// How the library was compiled, and its headers want to be.
const FLAGS: [&str; 11] = [
    "-std=c++17",
    "-O1",
    "-fno-rtti",
    "-Ddynamic_cast=static_cast",
    "-D_GLIBCXX_USE_CXX11_ABI=0",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DROCKSDB_LIB_IO_POSIX",
    "-DOS_LINUX",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
];

/// Sources of RocksDB: two programs, and what both need.
const TESTS: [&str; 2] = ["cache/cache_test", "cache/cache_reservation_manager_test"];
const HELPERS: [&str; 3] = [
    "test_util/secondary_cache_test_util",
    "test_util/testharness",
    "third-party/gtest-1.8.1/fused-src/gtest/gtest-all",
];
/// Ours: what stands in for RocksDB's, and a program that asks what those do not.
const OURS: [&str; 2] = ["cpp/block_cache", "cpp/preload"];
const OWN_TEST: &str = "tests/block_cache";
const C_EXAMPLE: &str = "hold";

/// A program, our policy, those of its tests that are of LRU, and those that fail.
const RUNS: [(&str, &str, &str, &[&str]); 6] = [
    ("cache_test", "lru", "*/0", &[SHARDS]),
    ("cache_test", "mobius", "*/0", &[SHARDS, FORGETS_AT_ONCE]),
    ("cache_test", "s3-fifo", "*/0", &[SHARDS, FORGETS_AT_ONCE]),
    ("cache_test", "clock", "*/0", &[SHARDS]),
    ("cache_reservation_manager_test", "lru", "*", &[]),
    ("cache_reservation_manager_test", "mobius", "*", &[]),
];
/// Asks the class that has shards how many it has: there are none.
const SHARDS: &str = "CacheTestInstance/CacheTest.DefaultShardBits/0";
/// Expects that what was used goes when twice the capacity has come after it, as with LRU.
const FORGETS_AT_ONCE: &str = "CacheTestInstance/CacheTest.ExternalRefPinsEntries/0";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let compiler = tools::ensure_program("g++", &["g++"])?;
    let place = root.join("target/rocksdb/10.4.2");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    if !place.join(TREE).exists() {
        let file = fetch(&place, &SOURCES)?;
        step::run("tar", Command::new("tar").current_dir(&place).arg("xzf").arg(file))?;
    }
    if !place.join(SHARED).exists() {
        let unzip = tools::ensure_program("unzip", &["unzip"])?;
        let file = fetch(&place, &LIBRARY)?;
        step::run(
            "unzip",
            Command::new(unzip).current_dir(&place).arg("-qo").arg(file).arg(SHARED),
        )?;
    }
    // With debug assertions, as all that CI runs.
    let mut build = step::cargo(root, ["build", "--locked", "--profile", "test"]);
    step::run("cargo build, for C", build.args(["--package", "frazil-rocksdb", "--lib"]))?;
    let compile = Compile { compiler, root, place: &place };
    compile.all()?;
    compile.c_example()?;
    compile.link(name(OWN_TEST), &[OWN_TEST, OURS[0]])?;
    step::run("our test of the block cache", &mut Command::new(place.join(name(OWN_TEST))))?;
    for test in TESTS {
        let helpers = OURS.iter().chain(&HELPERS).copied();
        compile.link(name(test), &std::iter::once(test).chain(helpers).collect::<Vec<_>>())?;
    }
    let mut failures = Vec::new();
    for (program, policy, filter, expected) in RUNS {
        failures.extend(compile.test(program, policy, filter, expected)?);
    }
    if !failures.is_empty() {
        bail!("RocksDB's tests:\n  {}", failures.join("\n  "));
    }
    Ok(())
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Downloads a file, unless it is there, and looks whether it is the one that is meant.
fn fetch(place: &Path, download: &Download) -> anyhow::Result<PathBuf> {
    let file = place.join(download.name);
    if !file.exists() {
        let curl = tools::ensure_program("curl", &["curl", "ca-certificates"])?;
        let partial = file.with_extension("partial");
        let mut command = Command::new(curl);
        command.args(["--silent", "--show-error", "--fail", "--location", "--retry", "3"]);
        command.arg("--output").arg(&partial).arg(download.url);
        step::run(&format!("download of {}", download.name), &mut command)?;
        std::fs::rename(&partial, &file)?;
    }
    let output = Command::new("sha256sum").arg(&file).output().context("sha256sum")?;
    if !String::from_utf8_lossy(&output.stdout).starts_with(download.sha256) {
        std::fs::remove_file(&file)?;
        bail!("{} is not the file that is meant: its SHA-256 differs", download.url);
    }
    Ok(file)
}

struct Compile<'r> {
    compiler: PathBuf,
    root: &'r Path,
    place: &'r Path,
}

impl Compile<'_> {
    fn object(&self, source: &str) -> PathBuf {
        self.place.join(source.replace('/', "-")).with_extension("o")
    }

    fn ours(&self, source: &str) -> PathBuf {
        self.root.join("crates/rocksdb").join(source)
    }

    /// The library that is linked with.
    fn frazil(&self) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or(self.root.join("target"), PathBuf::from);
        target.join("debug/libfrazil_rocksdb.a")
    }

    /// Compiles and runs the example in C.
    fn c_example(&self) -> anyhow::Result<()> {
        let program = self.place.join(C_EXAMPLE);
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I"]);
        command.arg(self.ours("include")).arg(self.ours("examples/hold.c")).arg(self.frazil());
        command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
        step::run("cc", &mut command)?;
        step::run("the example in C", &mut Command::new(program))
    }

    fn command(&self, source: &Path, object: &Path) -> Command {
        let tree = self.place.join(TREE);
        let mut command = Command::new(&self.compiler);
        command.args(FLAGS).arg("-c").arg(source).arg("-o").arg(object);
        command.arg("-I").arg(self.ours("include"));
        // Not ours to warn of.
        for include in ["include", "", "third-party/gtest-1.8.1/fused-src"] {
            command.arg("-isystem").arg(tree.join(include));
        }
        command
    }

    /// Compiles ours, and what is not there of RocksDB's, as many at once as there are processors.
    fn all(&self) -> anyhow::Result<()> {
        let ours = OURS.iter().chain([&OWN_TEST]).map(|file| {
            let source = self.ours(&format!("{file}.cc"));
            let mut command = self.command(&source, &self.object(file));
            command.arg("-Werror");
            command
        });
        let theirs = TESTS.iter().chain(&HELPERS).filter(|file| !self.object(file).exists());
        let theirs = theirs.map(|file| {
            let source = self.place.join(TREE).join(format!("{file}.cc"));
            let mut command = self.command(&source, &self.object(file));
            command.arg("-w");
            command
        });
        let mut commands: Vec<Command> = theirs.chain(ours).collect();
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        step::announced("g++", || {
            while !commands.is_empty() {
                let batch: Vec<Command> = commands.drain(..at_once.min(commands.len())).collect();
                let spawn = |mut command: Command| command.spawn().context("g++");
                let children = batch.into_iter().map(spawn).collect::<anyhow::Result<Vec<_>>>()?;
                for mut child in children {
                    step::succeeded("g++", child.wait()?)?;
                }
            }
            Ok(())
        })
    }

    /// Our functions come first, and so take the place of those of the same names.
    fn link(&self, program: &str, files: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(&self.compiler);
        command.args(files.iter().map(|file| self.object(file))).arg(self.frazil());
        command.arg(self.place.join(SHARED)).arg("-Wl,-rpath,$ORIGIN");
        command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(self.place.join(program));
        step::run(&format!("link of {program}"), &mut command)
    }

    /// What is not as expected.
    fn test(
        &self,
        program: &str,
        policy: &str,
        filter: &str,
        expected: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let output = Command::new(self.place.join(program))
            .arg(format!("--gtest_filter={filter}"))
            .env("FRAZIL_ALL_CACHES", "1")
            .env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"))
            .output()
            .with_context(|| program.to_owned())?;
        let told = String::from_utf8_lossy(&output.stdout);
        let named = |verdict: &str| -> BTreeSet<&str> {
            let lines = told.lines().filter_map(|line| line.strip_prefix(verdict));
            lines
                .filter_map(|line| line.split([' ', ',']).find(|word| word.contains('.')))
                .collect()
        };
        let (passed, failed) = (named("[       OK ]"), named("[  FAILED  ]"));
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let (all, good) = (passed.len() + failed.len(), passed.len());
        println!("{program}, policy {policy}: {good} of {all} pass");
        let mut wrong = Vec::new();
        let told_all = told.contains(&format!("[==========] {all} test"));
        if all == 0 || !told_all {
            let ending = output.status;
            wrong.push(format!("{program}, policy {policy}, did not come to its end: {ending}"));
        }
        let unexpected = failed.difference(&expected).map(|test| (test, "fails"));
        for (test, what) in
            unexpected.chain(expected.difference(&failed).map(|test| (test, "passes")))
        {
            wrong.push(format!("{test} {what} with policy {policy}"));
        }
        if !wrong.is_empty() {
            eprintln!("{told}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(wrong)
    }
}
