//! Reads every real trace and compares its counts with the table that comes with them.
//!
//! The traces are in `$FRAZIL_TRACES`, or `shared/traces` beside the repository. With
//! `$FRAZIL_QUICK`, files over 10 MB are skipped.

use std::io::Write as _;
use std::path::PathBuf;

use frazil_simulator::trace::{Format, ReadOptions, load, read, write};

/// File, format, compression, requests, distinct objects, has times, has sizes.
const FILES: &str = "
libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst oracle-general zstd 113872 48974 true true
libcachesim/twitter_cluster52.csv.zst csv zstd 1000000 143542 true true
libcachesim/twitter_cluster52_10m.csv.zst csv zstd 10000000 897664 true true
arc/OLTP.lis.zst arc zstd 914145 186880 false false
arc/P3.lis.zst arc zstd 3912296 762543 false false
lirs/2_pools.trace.gz lirs gzip 100000 9939 false false
lirs/sprite.trace.gz plain gzip 133996 7075 false false
lirs/multi1.trace.gz plain gzip 15858 2606 false false
lirs/loop.trace.gz plain gzip 505500 1011 false false
lirs/zigzag.trace.gz plain gzip 52001 2001 false false
cache2k/web12.trace.xz cache2k xz 95607 13756 false false
adaptsize/request.trace.xz adaptsize xz 66987 36815 true true
delayedhits/trace.csv delayed-hits none 5000 1606 true false
";

fn directory() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let path = std::env::var_os("FRAZIL_TRACES").map_or_else(|| beside.into(), PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    _ = writeln!(std::io::stderr(), "SKIPPED: no traces in {}", path.display());
    None
}

/// Whether to skip a file; prints that it does.
fn skipped(path: &std::path::Path) -> bool {
    let bytes = std::fs::metadata(path).unwrap().len();
    let skip = std::env::var_os("FRAZIL_QUICK").is_some() && bytes > 10_000_000;
    if skip {
        _ = writeln!(std::io::stderr(), "SKIPPED: {} has {bytes} bytes", path.display());
    }
    skip
}

fn with_times() -> ReadOptions<'static> {
    ReadOptions { times: true, ..ReadOptions::default() }
}

#[test]
fn every_file_is_guessed_and_counted() {
    let Some(directory) = directory() else { return };
    for row in FILES.lines().filter(|row| !row.is_empty()) {
        let columns: Vec<&str> = row.split(' ').collect();
        let path = directory.join(columns[0]);
        if skipped(&path) {
            continue;
        }
        let loaded = load(path.to_str().unwrap(), &with_times()).unwrap();
        let trace = loaded.trace;
        let found = [
            columns[0].to_owned(),
            loaded.origin.format.unwrap().to_string(),
            loaded.origin.compression.to_string(),
            trace.len().to_string(),
            trace.objects.len().to_string(),
            (trace.times_ns.len() == trace.len()).to_string(),
            (trace.sizes.len() == trace.len()).to_string(),
        ];
        assert_eq!(found.join(" "), row);
        assert!(loaded.origin.guessed && trace.operations.is_empty());
        assert!(trace.times_ns.is_sorted(), "{row}");
    }
}

#[test]
fn bare_ids_are_the_same_as_lirs() {
    let Some(directory) = directory() else { return };
    let path = directory.join("lirs/sprite.trace.gz");
    let options = ReadOptions { format: Some(Format::Lirs), ..ReadOptions::default() };
    let told = read(&path, &options).unwrap();
    let guessed = read(&path, &ReadOptions::default()).unwrap();
    assert!(!told.origin.guessed);
    assert_eq!(told.trace.ids, guessed.trace.ids);
}

#[test]
fn the_longer_trace_begins_with_the_shorter() {
    let Some(directory) = directory() else { return };
    let options = ReadOptions { limit: Some(1_000_000), ..ReadOptions::default() };
    let long = directory.join("libcachesim/twitter_cluster52_10m.csv.zst");
    if skipped(&long) {
        return;
    }
    let long = read(&long, &options).unwrap().trace;
    let short = directory.join("libcachesim/twitter_cluster52.csv.zst");
    let short = read(&short, &ReadOptions::default()).unwrap().trace;
    assert_eq!(long.ids, short.ids);
    assert_eq!(long.sizes, short.sizes);
    assert_eq!(long.objects, short.objects);
}

/// The file's own column of next accesses equals ours.
#[test]
fn oracle_general_is_written_as_it_was() {
    let Some(directory) = directory() else { return };
    let path = directory.join("libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst");
    let trace = read(&path, &with_times()).unwrap().trace;
    let mut ours = Vec::new();
    write(&trace, None, Format::OracleGeneral, &mut ours).unwrap();
    let original = zstd::decode_all(std::fs::File::open(&path).unwrap()).unwrap();
    assert!(ours == original, "the files differ");
}
