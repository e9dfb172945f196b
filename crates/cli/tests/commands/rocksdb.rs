//! `frazil reproduce rocksdb` with programs that only imitate the output of RocksDB's and YCSB's.

use std::path::Path;
use std::process::Command;

use super::command::{Folder, fails, json_lines};

/// Our cache is twice as fast.
const CACHE_BENCH: &str = "rate=1000; case $FRAZIL_BLOCK_CACHE in policy=?*) rate=2000;; esac
    echo \"Complete in 1 s; Rough parallel ops/sec = $rate\"
    echo 'Lookup hit ratio: 0.5'";
/// Slow in the first second; our cache is twice as fast.
const DB_BENCH: &str = "rate=1000
    for word; do case $word in
        --report_file=*) file=${word#*=};;
        --cache_uri=*) rate=2000;;
    esac; done
    printf 'secs_elapsed,interval_qps\\n1,1\\n2,%s\\n' $rate >\"$file\"
    echo 'readrandom : 8.3 micros/op 120286 ops/sec 2.4 seconds 300000 operations; 13 MB/s'";
/// Twice as fast if it is frozen.
const JAVA: &str = "wall=1000000; case $FRAZIL_BLOCK_CACHE in *frozen+lru) wall=500000;; esac
    echo \"measured: 100 2000000 $wall 50\"";

/// A separate program writes it and ends before it runs: otherwise another thread that starts a
/// program could briefly inherit the open file, and a file open for writing cannot be executed.
fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod +x \"$2\"",
        "sh",
        text,
    ]);
    assert!(command.arg(&path).status().unwrap().success());
}

/// Files that `cargo xtask` makes, by name.
fn programs(folder: &Folder) -> String {
    let programs = folder.path("programs");
    let place = Path::new(&programs);
    for name in ["db_bench.db", "ycsb", "ycsb.db", "jars"] {
        std::fs::create_dir_all(place.join(name)).unwrap();
    }
    std::fs::write(place.join("ycsb.db/1.sst"), "a table").unwrap();
    std::fs::write(place.join("libfrazil_preload.so"), "").unwrap();
    script(place, "cache_bench-stock", CACHE_BENCH);
    script(place, "cache_bench-ours", CACHE_BENCH);
    script(place, "db_bench", DB_BENCH);
    script(place, "java", JAVA);
    programs
}

#[test]
fn programs_are_run_and_what_they_print_is_told() {
    let folder = Folder::new("reproduce-rocksdb");
    let (programs, out) = (programs(&folder), folder.path("out"));
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    command.args(["reproduce", "rocksdb", "--quick", "--output", "json", "--out", &out]);
    let rows =
        json_lines(&command.args(["--programs", &programs]).env("PATH", path).output().unwrap());
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).collect::<Vec<_>>();
    let (runs, reads, requests) = (of("cache_bench"), of("db_bench"), of("ycsb"));
    assert_eq!((runs.len(), reads.len(), requests.len()), (2 * 3, 3 * 3, 6 * 3));
    for row in runs {
        assert_eq!(row["mops"], if row["cache"] == "mobius" { 0.002 } else { 0.001 }, "{row}");
    }
    for row in reads {
        assert_eq!(row["kops"], if row["cache"] == "mobius" { 2.0 } else { 1.0 }, "{row}");
    }
    for row in requests {
        let kops = if row["cache"] == "frozen+lru" { 200.0 } else { 100.0 };
        assert_eq!((&row["kops"], &row["misses"]), (&kops.into(), &0.5.into()), "{row}");
    }
    let expected = of("expectation");
    let met = |figure: u64| {
        let of = expected.iter().filter(|row| row["figure"] == figure);
        of.map(|row| row["met"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    // Faster with any number of threads, but not increasingly so; CLOCK is not ahead, and hits do
    // not differ.
    assert_eq!(met(13), [true, false, false, false]);
    assert_eq!(met(14), [true, true, false]);
    // Faster on all, on C no more than on others.
    assert_eq!(met(17), [true, false]);
    for figure in ["13", "14", "17"] {
        let svg = std::fs::read_to_string(format!("{out}/rocksdb-figure-{figure}.svg")).unwrap();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "figure {figure}");
    }
}

#[test]
fn what_is_missing_is_named_with_what_makes_it() {
    let folder = Folder::new("reproduce-rocksdb-bad");
    let (programs, out) = (programs(&folder), folder.path("out"));
    let run = ["reproduce", "rocksdb", "--quick", "--out", &out];
    let with = |more: &[&'static str]| [&run[..], &["--programs", &programs], more].concat();
    fails(&run, 2, &["--programs", "cargo xtask cache-bench"]);
    fails(&["reproduce", "mobius", "--programs", "."], 2, &["rocksdb alone"]);
    fails(&with(&["--workloads", "figure12"]), 2, &["figure12", "figure13"]);
    std::fs::remove_file(format!("{programs}/cache_bench-ours")).unwrap();
    fails(&with(&["--workloads", "figure13"]), 1, &["cache_bench-ours", "cargo xtask cache-bench"]);
    script(Path::new(&programs), "db_bench", "echo nothing; exit 3");
    fails(&with(&["--workloads", "figure14"]), 1, &["db_bench", "exit status: 3", "nothing"]);
    script(Path::new(&programs), "db_bench", "echo nothing");
    fails(&with(&["--workloads", "figure14"]), 1, &["no report"]);
}
