//! `cargo xtask check rocksdb`: runs RocksDB's own tests of its caches, unchanged, on ours.
//!
//! It compiles the tests from RocksDB 10.4.2 and links them with Maven's library of that version,
//! which was compiled without run-time types and with the old strings. Our library comes first, so
//! that its functions replace the library's functions of the same names. Known failures are listed
//! here with the reason, and must fail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::block_cache::{Build, LIBRARIES};
use crate::{others, step, tools};

/// The crate that has the sources, and the library.
const SOURCES: (&str, &str) = ("librocksdb-sys", "0.17.3");
const LIBRARY: &str = "org.rocksdb:rocksdbjni:10.4.2:jar:linux64";
const SHARED: &str = "librocksdbjni-linux64.so";

/// The options with which the library was compiled, and which its headers need.
const FLAGS: [&str; 9] = [
    "-std=c++17",
    "-O1",
    "-fno-rtti",
    "-Ddynamic_cast=static_cast",
    "-D_GLIBCXX_USE_CXX11_ABI=0",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DROCKSDB_LIB_IO_POSIX",
    "-DOS_LINUX",
    "-DNDEBUG",
];

/// Sources of RocksDB: two programs, and the files that both need.
const TESTS: [&str; 2] = ["cache/cache_test", "cache/cache_reservation_manager_test"];
const HELPERS: [&str; 3] = [
    "test_util/secondary_cache_test_util",
    "test_util/testharness",
    "third-party/gtest-1.8.1/fused-src/gtest/gtest-all",
];

/// A program, our policy, the program's tests of LRU, and those that fail.
const RUNS: [(&str, &str, &str, &[&str]); 7] = [
    ("cache_test", "lru", "*/0", &[SHARDS]),
    ("cache_test", "mobius", "*/0", &[SHARDS, FORGETS_AT_ONCE]),
    ("cache_test", "s3-fifo", "*/0", &[SHARDS, FORGETS_AT_ONCE]),
    ("cache_test", "clock", "*/0", &[SHARDS]),
    ("cache_test", "frozen+lru", "*/0", &[SHARDS]),
    ("cache_reservation_manager_test", "lru", "*", &[]),
    ("cache_reservation_manager_test", "mobius", "*", &[]),
];
/// Reads the number of shards of a sharded class; ours has none.
const SHARDS: &str = "CacheTestInstance/CacheTest.DefaultShardBits/0";
/// Expects that used entries are evicted after insertions of twice the capacity, as with LRU.
const FORGETS_AT_ONCE: &str = "CacheTestInstance/CacheTest.ExternalRefPinsEntries/0";

/// Runs the tests: for the time that CI has, or `long`, with a capacity that shrinks from
/// gigabytes.
pub(crate) fn run(root: &Path, long: bool) -> anyhow::Result<()> {
    let compiler = tools::ensure_program("g++", &["g++"])?;
    let place = root.join("target/rocksdb/10.4.2");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let tree = others::sources(&place, SOURCES.0, SOURCES.1)?.join("rocksdb");
    others::from_jar(&place, LIBRARY, SHARED)?;
    let flags = FLAGS.iter().map(|flag| (*flag).to_owned()).chain(["-Werror".to_owned()]);
    let flags: Vec<String> = flags.collect();
    let headers = tree.join("include");
    // With debug assertions, as all of CI.
    let build = Build { headers: &headers, flags: &flags, out: &place, profile: "test" };
    build.all(root)?;
    let tests = Tests { compiler, root, tree: &tree, place: &place, frazil: build.frazil(root) };
    tests.c_example()?;
    tests.unchanged()?;
    tests.compile()?;
    tests.own("block_cache", &[])?;
    if long {
        ["mobius", "s3-fifo", "clock", "lru"]
            .iter()
            .try_for_each(|policy| tests.own("resize", &[policy]))?;
    }
    for test in TESTS {
        let files = HELPERS.iter().chain([&test]).map(|file| tests.object(file));
        tests.link(&place.join(name(test)), &files.collect::<Vec<_>>())?;
    }
    let mut failures = Vec::new();
    for (program, policy, filter, expected) in RUNS {
        failures.extend(tests.upstream(program, policy, filter, expected)?);
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

struct Tests<'r> {
    compiler: PathBuf,
    root: &'r Path,
    /// The sources of RocksDB.
    tree: &'r Path,
    /// The folder of its library and of all builds.
    place: &'r Path,
    frazil: PathBuf,
}

impl Tests<'_> {
    fn object(&self, source: &str) -> PathBuf {
        self.place.join(name(source)).with_extension("o")
    }

    fn own_file(&self, source: &str) -> PathBuf {
        self.root.join("crates/rocksdb").join(source)
    }

    /// A compiler that finds our headers and those of RocksDB, without warnings about the latter.
    fn command(&self, compiler: &Path) -> Command {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(self.own_file("include"));
        for include in ["include", "", "third-party/gtest-1.8.1/fused-src"] {
            command.arg("-isystem").arg(self.tree.join(include));
        }
        command
    }

    /// Compiles and runs the example in C.
    fn c_example(&self) -> anyhow::Result<()> {
        let program = self.place.join("hold");
        let mut command = self.command(Path::new("cc"));
        command.args(["-std=c11", "-D_GNU_SOURCE"]).arg(self.own_file("examples/hold.c"));
        command.arg(&self.frazil).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
        step::run("cc", &mut command)?;
        step::run("the example in C", &mut Command::new(program))
    }

    /// Preloads our library into a program that loads RocksDB late.
    fn unchanged(&self) -> anyhow::Result<()> {
        let program = self.place.join("unchanged");
        let mut command = self.command(Path::new("cc"));
        command.args(["-std=c11", "-D_GNU_SOURCE"]).arg(self.own_file("tests/unchanged.c"));
        step::run("cc", command.args(["-ldl", "-o"]).arg(&program))?;
        for (preloaded, whose) in [(None, "LRUCache@"), (Some(LIBRARIES[1].0), "frazil@")] {
            let database = self.place.join("database");
            let _ = std::fs::remove_dir_all(&database);
            let mut command = Command::new(&program);
            command.arg(self.place.join(SHARED)).arg(&database);
            if let Some(library) = preloaded {
                command.env("LD_PRELOAD", self.place.join(library));
            }
            let output = command.output().context("an unchanged program")?;
            let told = String::from_utf8_lossy(&output.stdout);
            println!("{told}");
            if !output.status.success() || !told.contains(&format!("Block cache {whose}")) {
                let errors = String::from_utf8_lossy(&output.stderr);
                bail!("an unchanged program has no block cache {whose}: {}{errors}", output.status);
            }
        }
        Ok(())
    }

    /// Compiles the missing parts of RocksDB's tests, on all processors.
    fn compile(&self) -> anyhow::Result<()> {
        let missing = TESTS.iter().chain(&HELPERS).filter(|file| !self.object(file).exists());
        let missing: Vec<&str> = missing.copied().collect();
        let at_once = std::thread::available_parallelism().map_or(1, usize::from);
        step::announced("g++", || {
            for files in missing.chunks(at_once) {
                let spawn = |file: &&str| {
                    let source = self.tree.join(format!("{file}.cc"));
                    let mut command = self.command(&self.compiler);
                    command.args(FLAGS).arg("-w").arg("-c").arg(source).arg("-o");
                    command.arg(self.object(file)).spawn().context("g++")
                };
                let children = files.iter().map(spawn).collect::<anyhow::Result<Vec<_>>>()?;
                for mut child in children {
                    step::succeeded("g++", child.wait()?)?;
                }
            }
            Ok(())
        })
    }

    /// Our files come first, and so replace RocksDB's functions of the same names.
    fn link(&self, program: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
        let mut command = self.command(&self.compiler);
        command.args(FLAGS).args(files);
        command.args(LIBRARIES.iter().rev().map(|(library, _)| self.place.join(library)));
        command.arg(self.place.join(SHARED)).arg("-Wl,-rpath,$ORIGIN");
        command.args(["-lpthread", "-ldl", "-o"]).arg(program);
        step::run(&format!("link of {}", program.display()), &mut command)
    }

    /// Cases that RocksDB's tests do not cover.
    fn own(&self, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let program = self.place.join(name);
        self.link(&program, &[self.own_file(&format!("tests/{name}.cc"))])?;
        let mut command = Command::new(program);
        step::run(name, command.current_dir(self.place).args(arguments))
    }

    /// The unexpected results of a program of RocksDB.
    fn upstream(
        &self,
        program: &str,
        policy: &str,
        filter: &str,
        expected: &[&str],
    ) -> anyhow::Result<Vec<String>> {
        let mut command = Command::new(self.place.join(program));
        command.env("FRAZIL_ALL_CACHES", "1");
        command.env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"));
        command.arg(format!("--gtest_filter={filter}"));
        verdict(&format!("{program}, policy {policy}"), &mut command, expected)
    }
}

/// The unexpected results of a gtest program in which these tests must fail.
pub(crate) fn verdict(
    name: &str,
    command: &mut Command,
    expected: &[&str],
) -> anyhow::Result<Vec<String>> {
    let output = command.output().with_context(|| name.to_owned())?;
    let told = String::from_utf8_lossy(&output.stdout);
    let named = |verdict: &str| -> BTreeSet<&str> {
        let lines = told.lines().filter_map(|line| line.strip_prefix(verdict));
        let name = lines.map(|line| line.split([' ', ',']).find(|word| word.contains('.')));
        name.flatten().collect()
    };
    let (passed, failed) = (named("[       OK ]"), named("[  FAILED  ]"));
    let expected: BTreeSet<&str> = expected.iter().copied().collect();
    let (all, good) = (passed.len() + failed.len(), passed.len());
    println!("{name}: {good} of {all} pass");
    let mut wrong = Vec::new();
    if all == 0 || !told.contains(&format!("[==========] {all} test")) {
        wrong.push(format!("{name}, did not come to its end: {}", output.status));
    }
    if failed.is_empty() && !output.status.success() {
        wrong.push(format!("{name}: {}", output.status));
    }
    let new = failed.difference(&expected).map(|test| (test, "fails"));
    let gone = expected.difference(&failed).map(|test| (test, "passes"));
    for (test, what) in new.chain(gone) {
        wrong.push(format!("{test} {what}: {name}"));
    }
    if !wrong.is_empty() {
        eprintln!("{told}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(wrong)
}
