//! `cargo xtask check rocksdb-stress`: RocksDB's tests and its `db_stress` on our cache, under
//! sanitizers.
//!
//! RocksDB 11.8.1 is compiled whole, unchanged and with its asserts, once for each sanitizer: half
//! an hour of two processors each, kept in `target/rocksdb/11.8.1`. Our cache is compiled for the
//! same sanitizer, and the linker replaces LRU by it (`crates/rocksdb/tests/linked.cc`). Nothing is
//! suppressed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::cache_bench::SOURCES;
use crate::nightly::{self, Sanitizer};
use crate::{others, rocksdb, step, tools};

/// The parts of RocksDB built for each sanitizer: races are checked only in `db_stress`.
const BUILDS: [(Sanitizer, &str, &[&str]); 2] = [
    (
        Sanitizer::Address,
        "-DWITH_ASAN=ON",
        &["db_stress", "cache_test", "cache_reservation_manager_test", "db_block_cache_test"],
    ),
    (Sanitizer::Thread, "-DWITH_TSAN=ON", &["db_stress"]),
];

/// With all asserts, and only the necessary libraries.
const CMAKE: [&str; 11] = [
    "-DCMAKE_BUILD_TYPE=Debug",
    "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1",
    "-DCMAKE_CXX_FLAGS=-w",
    "-DFAIL_ON_WARNINGS=OFF",
    "-DPORTABLE=1",
    "-DROCKSDB_BUILD_SHARED=OFF",
    "-DWITH_ALL_TESTS=ON",
    "-DWITH_GFLAGS=ON",
    "-DWITH_LIBURING=OFF",
    "-DWITH_BENCHMARK_TOOLS=OFF",
    "-GNinja",
];

/// Compiler options of our files: RocksDB's flags that change its headers.
const FLAGS: [&str; 9] = [
    "-std=c++20",
    "-O1",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-DROCKSDB_USE_RTTI",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DOS_LINUX",
];
/// Files of our crate: the block cache, the replacement of RocksDB's caches, and the functions that
/// the linker wraps.
const OURS: [&str; 3] = ["cpp/block_cache.cc", "cpp/replace.cc", "tests/linked.cc"];
const WRAP: &str = "-Wl,--wrap=_ZNK7rocksdb15LRUCacheOptions15MakeSharedCacheEv";

/// Sources of the tests beside RocksDB.
const TEST_LIBRARIES: [&str; 3] =
    ["libtestutillib.a", "libtestharness.a", "third-party/gtest-1.8.1/fused-src/gtest/libgtest.a"];

const POLICIES: [&str; 5] = ["lru", "mobius", "s3-fifo", "clock", "frozen+lru"];

/// RocksDB's tests of caches: a program, its tests of LRU, and its failing tests, each with the
/// policies under which it fails; an empty list means all.
type Expected = &'static [(&'static str, &'static [&'static str])];
const TESTS: [(&str, &str, Expected); 3] = [
    ("cache_test", "*/0", &[(SHARDS, &[]), (FORGETS_AT_ONCE, &["mobius", "s3-fifo"])]),
    ("cache_reservation_manager_test", "*", &[]),
    ("db_block_cache_test", "*", &[]),
];
/// Reads the number of shards of a sharded class; ours has none.
const SHARDS: &str = "CacheTestInstance/CacheTest.DefaultShardBits/0";
/// Expects that used entries are evicted after insertions of twice the capacity, as with LRU.
const FORGETS_AT_ONCE: &str = "CacheTestInstance/CacheTest.ExternalRefPinsEntries/0";

/// Options of `db_stress`: a cache smaller than the database whose size changes all the time (by a
/// thread for tiers, which complains that there are none), tables that are closed and reopened, and
/// disk errors. No compression library is needed. The continuous verification thread is off: it
/// reads the open database while another thread reopens it, a race in `db_stress`.
const STRESS: &str = "--destroy_db_initially=1 --threads=8 --column_families=2 --max_key=5000 \
     --reopen=2 --ops_per_thread=10000 --value_size_mult=32 --write_buffer_size=131072 \
     --target_file_size_base=65536 --max_bytes_for_level_base=262144 --bloom_bits=10 \
     --cache_type=lru_cache --block_size=1024 --cache_numshardbits=0 --open_files=100 \
     --compressed_secondary_cache_ratio=0.5 --secondary_cache_update_interval=1000000 \
     --cache_index_and_filter_blocks=1 --read_fault_one_in=1000 --clear_column_family_one_in=0 \
     --compression_type=none --compression_manager=none --remote_compaction_worker_threads=0 \
     --continuous_verification_interval=0";

/// Alternating variants: only blocks; and all memory that can be charged to a cache, beyond its
/// capacity, and blobs.
const VARIANTS: [&str; 2] = [
    "--cache_size=262144 --partition_filters=1 --index_type=2 --prepopulate_block_cache=1 \
     --uncache_aggressiveness=100 --use_multiget=1",
    "--cache_size=524288 --enable_blob_files=1 --min_blob_size=64 --use_blob_cache=1 \
     --use_shared_block_and_blob_cache=0 --blob_cache_size=262144 --prepopulate_blob_cache=1 --charge_blob_cache=1 --charge_table_reader=1 \
     --charge_file_metadata=1 --charge_filter_construction=1 --metadata_charge_policy=0 \
     --charge_compression_dictionary_building_buffer=1 --use_write_buffer_manager=1 \
     --db_write_buffer_size=262144",
];

/// Duration of `db_stress` under each sanitizer.
const MINUTES: u64 = 1;
const LONG_MINUTES: u64 = 10;

/// Runs the tests, and `db_stress` for one minute under each sanitizer, or, if `long`, for ten.
pub(crate) fn run(root: &Path, long: bool) -> anyhow::Result<()> {
    let compiler = tools::ensure_program("g++", &["g++"])?;
    let place = root.join("target/rocksdb/11.8.1");
    std::fs::create_dir_all(&place).with_context(|| place.display().to_string())?;
    let tree = others::sources(&place, SOURCES.0, SOURCES.1)?.join("rocksdb");
    let minutes = if long { LONG_MINUTES } else { MINUTES };
    for (sanitizer, flag, programs) in BUILDS {
        let stock = place.join(sanitizer.short());
        build(&tree, &stock, flag, programs)?;
        let ours = place.join(format!("ours-{}", sanitizer.short()));
        std::fs::create_dir_all(&ours).with_context(|| ours.display().to_string())?;
        let frazil = nightly::library(root, sanitizer, "frazil-rocksdb")?;
        let linker = Linker { compiler: &compiler, sanitizer, stock: &stock, ours: &ours, frazil };
        linker.compile(root, &tree)?;
        programs.iter().try_for_each(|program| linker.link(program))?;
        if sanitizer == Sanitizer::Address {
            tests(&ours)?;
        }
        stress(&ours, sanitizer, Duration::from_secs(minutes * 60))?;
    }
    Ok(())
}

/// Builds these programs of RocksDB, and the objects they link, unless they exist.
fn build(tree: &Path, stock: &Path, sanitizer: &str, programs: &[&str]) -> anyhow::Result<()> {
    if programs.iter().all(|program| program_of(stock, program).exists()) {
        return Ok(());
    }
    let cmake = tools::ensure_program("cmake", &["cmake"])?;
    let ninja = tools::ensure_program("ninja", &["ninja-build"])?;
    tools::ensure_gflags()?;
    let mut command = Command::new(cmake);
    command.arg("-S").arg(tree).arg("-B").arg(stock).args(CMAKE).arg(sanitizer);
    step::run("cmake", &mut command)?;
    step::run("ninja", Command::new(ninja).arg("-C").arg(stock).args(programs))
}

/// CMake's path of a program.
fn program_of(stock: &Path, program: &str) -> PathBuf {
    let folder = if program == "db_stress" { "db_stress_tool" } else { "" };
    stock.join(folder).join(program)
}

/// Links RocksDB's programs anew, with our cache.
struct Linker<'l> {
    compiler: &'l Path,
    sanitizer: Sanitizer,
    /// The folder of CMake's build of RocksDB.
    stock: &'l Path,
    ours: &'l Path,
    /// The library that C programs link.
    frazil: PathBuf,
}

impl Linker<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(FLAGS).arg(format!("-fsanitize={}", self.sanitizer.name()));
        command
    }

    fn compile(&self, root: &Path, tree: &Path) -> anyhow::Result<()> {
        let own = root.join("crates/rocksdb");
        for source in OURS {
            let mut command = self.command();
            command.arg("-I").arg(own.join("include")).arg("-isystem").arg(tree.join("include"));
            command.arg("-c").arg(own.join(source)).arg("-o").arg(self.object(source));
            step::run(&format!("g++, {source}"), &mut command)?;
        }
        Ok(())
    }

    fn object(&self, source: &str) -> PathBuf {
        self.ours.join(source.replace('/', "-")).with_extension("o")
    }

    fn link(&self, program: &str) -> anyhow::Result<()> {
        let mut command = self.command();
        let stock = program_of(self.stock, program);
        let objects = stock.with_file_name("CMakeFiles").join(format!("{program}.dir"));
        command.args(files_below(&objects, "o")?).args(OURS.map(|source| self.object(source)));
        command.arg(WRAP);
        if program != "db_stress" {
            command.args(TEST_LIBRARIES.map(|library| self.stock.join(library)));
        }
        command.arg(self.stock.join("librocksdb.a")).arg(&self.frazil);
        command.args(["-lgflags", "-lpthread", "-ldl", "-lm", "-o"]);
        step::run(&format!("link of {program}"), command.arg(self.ours.join(program)))
    }
}

/// All files with this extension, however deep.
fn files_below(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(files)
}

/// RocksDB's tests on each policy: the listed ones must fail, all others pass.
fn tests(ours: &Path) -> anyhow::Result<()> {
    let mut failures = Vec::new();
    for policy in POLICIES {
        for (program, filter, expected) in TESTS {
            let expected: Vec<&str> = expected
                .iter()
                .filter(|(_, of)| of.is_empty() || of.contains(&policy))
                .map(|(test, _)| *test)
                .collect();
            failures.extend(tests_of(ours, program, policy, filter, &expected)?);
        }
    }
    if !failures.is_empty() {
        bail!("RocksDB's tests:\n  {}", failures.join("\n  "));
    }
    Ok(())
}

/// The unexpected results of a program. Tests that fail run alone, because an assert ends the
/// program.
fn tests_of(
    ours: &Path,
    program: &str,
    policy: &str,
    filter: &str,
    expected: &[&str],
) -> anyhow::Result<Vec<String>> {
    let name = format!("{program}, policy {policy}");
    let run = |filter: &str| {
        let mut command = with_policy(&ours.join(program), ours, policy);
        command.arg(format!("--gtest_filter={filter}"));
        command
    };
    let others = format!("{filter}-{}", expected.join(":"));
    let mut wrong = rocksdb::verdict(&name, &mut run(&others), &[])?;
    for test in expected {
        let output = run(test).output().with_context(|| name.clone())?;
        if output.status.success() {
            wrong.push(format!("{test} passes: {name}"));
        }
    }
    Ok(wrong)
}

/// A program in which our cache replaces LRU everywhere.
fn with_policy(program: &Path, ours: &Path, policy: &str) -> Command {
    let mut command = Command::new(program);
    command.env("FRAZIL_ALL_CACHES", "1").env("FRAZIL_BLOCK_CACHE", format!("policy={policy}"));
    command.env("TEST_TMPDIR", ours.join("tmp"));
    command
}

/// `db_stress` on each policy in turn, each time with another seed, until the time is over.
fn stress(ours: &Path, sanitizer: Sanitizer, time: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    let database = ours.join("database");
    std::fs::create_dir_all(ours.join("tmp")).context("tmp")?;
    let mut rounds = 0;
    while rounds < POLICIES.len() || begun.elapsed() < time {
        let policy = POLICIES[rounds % POLICIES.len()];
        let variant =
            VARIANTS[(rounds % POLICIES.len() + rounds / POLICIES.len()) % VARIANTS.len()];
        let name = format!("db_stress, {} sanitizer, policy {policy}", sanitizer.name());
        for folder in ["database", "expected"] {
            let _ = std::fs::remove_dir_all(ours.join(folder));
            std::fs::create_dir_all(ours.join(folder)).context(folder)?;
        }
        let mut command = with_policy(&ours.join("db_stress"), ours, policy);
        command.args(STRESS.split_whitespace()).args(variant.split_whitespace());
        command.arg(format!("--seed={}", rounds + 1)).arg(format!("--db={}", database.display()));
        command.arg(format!("--expected_values_dir={}", ours.join("expected").display()));
        let output = step::announced(&name, || command.output().context("db_stress"))?;
        let told = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !told.contains("Verification successful") {
            bail!("{name}: {}\n{told}{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        rounds += 1;
    }
    println!("db_stress, {} sanitizer: {rounds} rounds", sanitizer.name());
    Ok(())
}
