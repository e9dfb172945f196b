//! `frazil model` from the outside: its contract, its results, and messages for bad input.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn model(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frazil")).arg("model").args(args).output().unwrap()
}

fn json_lines(args: &[&str]) -> Vec<Value> {
    let output = model(&[args, &["--output", "json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs, and checks that it failed with `code`, one line that holds each of `words`, and
/// not a byte of result.
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let output = model(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?} printed a result");
    let one_line = stderr.lines().count() == 1 && stderr.starts_with("error: ");
    assert!(one_line, "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: no `{word}` in {stderr}");
    }
}

/// A file that is removed after the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &str) -> Self {
        let name = format!("frazil-model-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

#[test]
fn the_contract_is_kept() {
    for solver in ["bounds", "mva", "simulation"] {
        let rows = json_lines(&[
            "--network",
            "lru",
            "--hit-ratio",
            "0.4..1.0:0.2",
            "--mpl",
            "72",
            "--backend",
            "100us",
            "--profile",
            "paper",
            "--solver",
            solver,
        ]);
        let (last, rows) = rows.split_last().unwrap();
        assert_eq!(rows.len(), 4);
        for (row, hit_ratio) in rows.iter().zip([0.4, 0.6, 0.8, 1.0]) {
            let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
            let expected = "network hit_ratio mpl backend_us solver throughput_mops bottleneck \
                            ci95_low ci95_high";
            assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
            assert_eq!(row["network"], "lru");
            assert_eq!(row["solver"], solver);
            assert_eq!(row["mpl"], 72);
            assert_eq!(number(row, "backend_us"), 100.0);
            assert_eq!(number(row, "hit_ratio"), hit_ratio);
            let (low, x, high) =
                (&row["ci95_low"], number(row, "throughput_mops"), &row["ci95_high"]);
            if solver == "simulation" {
                assert!(low.as_f64().unwrap() <= x && x <= high.as_f64().unwrap(), "{row}");
            } else {
                assert!(low.is_null() && high.is_null(), "{row}");
            }
        }
        assert_eq!(rows[0]["bottleneck"], "head");
        assert_eq!(rows[3]["bottleneck"], "delink");
        let keys: Vec<&String> = last.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["network", "p_star", "class"]);
        assert_eq!(last["class"], "lru-like");
        let p_star = |end: usize| last["p_star"][end].as_f64().unwrap();
        assert!(p_star(0) <= p_star(1));
        match solver {
            "bounds" => {
                assert!((p_star(0) - 0.5904).abs() < 1e-3 && (p_star(1) - 0.8429).abs() < 1e-3)
            }
            "mva" => assert!((p_star(0) - 0.751).abs() < 2e-3 && (p_star(1) - 0.751).abs() < 2e-3),
            _ => assert_eq!((p_star(0), p_star(1)), (0.8, 0.8)),
        }
    }
}

#[test]
fn what_is_frozen_takes_no_turn() {
    let at = |network: &str, more: &[&str]| {
        let common = ["--network", network, "--hit-ratio", "1", "--backend", "0", "--mpl", "72"];
        json_lines(&[&common[..], more].concat())
    };
    let mops = |rows: &[Value]| number(&rows[0], "throughput_mops");
    let lru = mops(&at("lru", &[]));
    let frozen = at("frozen+lru", &["--frozen-hits", "0.75"]);
    // A quarter of the requests takes the only turn.
    assert!((mops(&frozen) / lru - 4.0).abs() < 0.1, "{} {lru}", mops(&frozen));
    assert_eq!(
        (number(&frozen[0], "frozen_hits"), &frozen[0]["network"]),
        (0.75, &"frozen+lru".into())
    );
    let share = at("frozen:share=0.5+lru", &["--frozen-hits", "0.75"]);
    assert_eq!(mops(&share), mops(&frozen), "how much is frozen matters by what it serves alone");
    let none = at("frozen+lru", &["--frozen-hits", "0", "--solver", "bounds"]);
    assert_eq!(mops(&none), mops(&at("lru", &["--solver", "bounds"])));

    let profile = File::new(
        "frozen.toml",
        "machine = { description = \"here\", cores = 2 }\nthink.it = { mean_us = 0.1 }\n\
         think.\"frozen.hit\" = { mean_us = 0.02 }\nstations.turn = { service_us = 1 }\n\
         networks.lru.hit = { think = { it = 1 }, stations = { turn = 1 } }\n\
         networks.lru.miss = { think = { it = 1 }, stations = { turn = 1 } }\n",
    );
    let of = |hits: &str| {
        let args = ["--network", "frozen+lru", "--frozen-hits", hits, "--profile", profile.path()];
        mops(&json_lines(&[&args[..], &["--hit-ratio", "1", "--mpl", "1"]].concat()))
    };
    assert!((1.0 / of("1") - 0.02).abs() < 1e-9 && (1.0 / of("0") - 1.12).abs() < 1e-9);

    fails(&["--network", "frozen+lru"], 2, &["--frozen-hits", "simulate"]);
    fails(&["--network", "lru", "--frozen-hits", "0.5"], 2, &["frozen+lru"]);
    fails(&["--network", "frozen+sieve", "--frozen-hits", "0.5"], 2, &["cannot be frozen"]);
    fails(&["--network", "frozen:share=2+lru", "--frozen-hits", "1"], 2, &["share from 0 to 1"]);
    let bad = model(&["--network", "frozen+lru", "--frozen-hits", "1.5"]);
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn every_network_has_a_class_and_a_table() {
    for (network, class) in [
        ("fifo", "fifo-like"),
        ("lru", "lru-like"),
        ("lru-prob:q=0.5", "lru-like"),
        ("lru-prob:q=0.9861111111111112", "fifo-like"),
        ("clock", "fifo-like"),
        ("slru", "lru-like"),
        ("s3-fifo", "fifo-like"),
    ] {
        let last = json_lines(&["--network", network, "--hit-ratio", "0.9"]).pop().unwrap();
        assert_eq!(last["class"], class, "{network}");
        let table = model(&["--network", network, "--stations"]);
        let text = String::from_utf8(table.stdout).unwrap();
        assert!(text.contains(class) && text.contains("utilisation"), "{text}");
        let csv = model(&["--network", network, "--output", "csv"]).stdout;
        assert_eq!(String::from_utf8(csv).unwrap().lines().count(), 1 + 31 + 1);
    }
}

#[test]
fn a_bypass_buys_what_the_model_says() {
    let with = |bypass| {
        let rows = json_lines(&["--network", "lru", "--hit-ratio", "0.99", "--bypass", bypass]);
        (number(&rows[0], "throughput_mops"), number(&rows[0], "bypass"))
    };
    let (best, share) = with("best");
    assert!((best - 1.941).abs() < 2e-3 && (share - 0.286).abs() < 5e-3, "{best} {share}");
    let (flat, share) = with("flat");
    assert!((share - 0.1439).abs() < 1e-3 && (flat - 1.685).abs() < 1e-3, "{flat} {share}");
    assert!((with("0").0 - 1.443).abs() < 1e-3);
}

/// Seventy-two requests that wait a hundred seconds every tenth time are seven a second.
#[test]
fn slow_backends_leave_digits() {
    let args = ["--network", "fifo", "--hit-ratio", "0.9", "--backend", "100s"];
    let text = String::from_utf8(model(&args).stdout).unwrap();
    assert!(text.contains(" 0.0000072 "), "{text}");
}

/// One row alone does not show a peak.
#[test]
fn one_row_has_no_peak() {
    let verdict = |hit_ratio: &str, more: &[&str]| {
        let args = [&["--network", "s3-fifo", "--hit-ratio", hit_ratio][..], more].concat();
        let text = String::from_utf8(model(&args).stdout).unwrap();
        text.lines().last().unwrap().to_owned()
    };
    for more in [&["--solver", "simulation", "--requests", "1000"][..], &["--bypass", "best"]] {
        assert_eq!(verdict("0.9", more), "s3-fifo is fifo-like.", "{more:?}");
        let two = "s3-fifo is fifo-like: of these rows, throughput is highest at a hit ratio of \
                   0.9000.";
        assert_eq!(verdict("0.5..0.9:0.4", more), two, "{more:?}");
    }
    let all = "s3-fifo is fifo-like: throughput is highest at a hit ratio of 1.0000.";
    assert_eq!(verdict("0.9", &[]), all);
}

#[test]
fn a_seed_decides_a_simulation_and_shapes_are_taken() {
    let run = |more: &[&str]| {
        let args = ["--network", "lru", "--hit-ratio", "0.6", "--solver", "simulation"];
        number(&json_lines(&[&args, more].concat())[0], "throughput_mops")
    };
    assert_eq!(run(&[]), run(&["--seed", "1"]));
    assert_ne!(run(&[]), run(&["--seed", "2"]));
    let of = |shape| run(&["--service", shape]);
    assert!(of("deterministic") > 1.02 * of("exponential"));
    assert!(of("hyper-exponential") < 0.98 * of("exponential"));
}

#[test]
fn bad_usage_exits_with_2() {
    let run = |more: &[&str], words: &[&str]| {
        fails(&[&["--network", "lru"], more].concat(), 2, words);
    };
    run(&["--mpl", "0"], &["--mpl", "1..=1000000"]);
    run(&["--mpl", "-3"], &["-3"]);
    run(&["--mpl", "1000001"], &["--mpl"]);
    run(&["--hit-ratio", "1.2"], &["1.2", "from 0 to 1"]);
    run(&["--hit-ratio", "0.4..1.2:0.1"], &["1.2", "from 0 to 1"]);
    run(&["--hit-ratio", "nan"], &["nan"]);
    run(&["--hit-ratio", "0.9..0.4:0.1"], &["0.9 is above 0.4"]);
    run(&["--hit-ratio", "0..1:0"], &["`0` is no step"]);
    run(&["--backend", "100"], &["100us"]);
    run(&["--backend", "-5us"], &["-5us"]);
    run(&["--solver", "guess"], &["guess", "mva"]);
    run(&["--bypass", "1.5"], &["from 0 to 1"]);
    run(&["--requests", "1"], &["--requests"]);
    fails(&[], 2, &["--network"]);
    fails(&["--network", "lruu"], 2, &["lruu", "s3-fifo"]);
    fails(&["--network", "lru:q=1"], 2, &["q=1", "none"]);
    fails(&["--network", "lru-prob:q=2"], 2, &["q=2", "from 0 to 1"]);
    fails(&["--network", "lru-prob:k=2"], 2, &["k=2"]);
}

const PROFILE: &str = r#"
[machine]
description = "two cores"
cores = 2

[think.look-up]
mean_us = 0.1
spread_us = 0.01

[stations.lock]
service_us = [0.2, 0.3]
spread_us = [0.02, 0.03]

[networks."lru-prob:q=0.5".hit]
think = { look-up = 1 }
stations = { lock = 0.5 }

[networks."lru-prob:q=0.5".miss]
think = { look-up = 1 }
stations = { lock = [[0.4, 1], [1, 2]] }
"#;

#[test]
fn a_profile_is_a_machine() {
    let file = File::new("good.toml", PROFILE);
    let args = ["--network", "lru-prob:q=0.5", "--profile", file.path(), "--backend", "10us"];
    let run = |more: &[&str]| json_lines(&[&args, more].concat());
    // One request never queues: Z + D, with 1.5 visits at a hit ratio of 0.7.
    let rows = run(&["--mpl", "1", "--hit-ratio", "0.7"]);
    let cycle = 0.1 + 0.3 * 10.0 + 0.2 * (0.7 * 0.5 + 0.3 * 1.5);
    assert!((number(&rows[0], "throughput_mops") * cycle - 1.0).abs() < 1e-12, "{rows:?}");
    // The bound uses the quickest hand-over; the exact value includes the slower ones.
    let at_full = |solver| {
        let rows = run(&["--mpl", "2", "--hit-ratio", "1", "--solver", solver]);
        assert_eq!(rows[0]["bottleneck"], "lock");
        number(&rows[0], "throughput_mops")
    };
    assert!((at_full("bounds") * 0.5 * 0.2 - 1.0).abs() < 1e-12);
    // Z = 0.1, V t = 0.1 and 0.15: G(2) / G(1) by hand.
    let exact = (0.1 + 0.1) / (0.1 * 0.1 / 2.0 + 0.1 * 0.1 + 0.1 * 0.15);
    assert!((at_full("mva") / exact - 1.0).abs() < 1e-12, "{exact}");
    // More requests than cores.
    let rows = run(&["--mpl", "200", "--hit-ratio", "1", "--stations"]);
    let names: Vec<&Value> =
        rows[0]["stations"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["lock", "cores"]);
}

#[test]
fn bad_profiles_are_told_what_is_wrong() {
    let name = "lru-prob:q=0.5";
    let run = |place: &str, other: &str, code: i32, words: &[&str]| {
        assert!(PROFILE.contains(place), "{place}");
        let file = File::new("bad.toml", &PROFILE.replacen(place, other, 1));
        fails(
            &["--network", name, "--profile", file.path()],
            code,
            &[&["bad.toml"], words].concat(),
        );
    };
    run("mean_us = 0.1\n", "", 1, &["line 6", "missing field `mean_us`"]);
    run("mean_us = 0.1", "mean_us = -0.1", 1, &["mean_us of think time `look-up`", "-0.1"]);
    run("mean_us = 0.1", "mean_us = nan", 1, &["look-up", "NaN"]);
    run("mean_us = 0.1", "mean_us = \"0.1\"", 1, &["line 7", "expected a time in µs"]);
    run("service_us = [0.2, 0.3]\n", "", 1, &["missing field `service_us`"]);
    run("service_us = [0.2, 0.3]", "service_us = [0.2, -0.3]", 1, &["station `lock`", "-0.3"]);
    run("service_us = [0.2, 0.3]", "service_us = []", 1, &["station `lock`", "at least one time"]);
    run(
        "spread_us = [0.02, 0.03]",
        "spread_us = [0.02]",
        1,
        &["spread_us of station `lock`", "one for each"],
    );
    run("spread_us = 0.01", "spread = 0.01", 1, &["line 8", "unknown field `spread`"]);
    run("{ lock = 0.5 }", "{ mutex = 0.5 }", 1, &["unknown station `mutex`", "lock"]);
    run("{ look-up = 1 }", "{ clone = 1 }", 1, &["unknown think time `clone`", "look-up"]);
    run("lock = 0.5", "lock = -0.5", 1, &["`lock` in the hit", "-0.5"]);
    run("[[0.4, 1], [1, 2]]", "[[1, 1], [0.4, 2]]", 1, &["rising"]);
    run("[[0.4, 1], [1, 2]]", "[]", 1, &["rising"]);
    run("[[0.4, 1], [1, 2]]", "[[0.4, 1], [1.5, 2]]", 1, &["a hit ratio", "1.5"]);
    run("cores = 2", "cores = 0", 1, &["cores", "0"]);
    run("cores = 2", "cores = -2", 1, &["line 4"]);
    run("[machine]", "[machine", 1, &["line 2"]);
    let typo = "spread_us = 0.01\nwork = \"skipp\"";
    run("spread_us = 0.01", typo, 1, &["work of think time `look-up` is `skipp`", "skip,"]);
    run("mean_us = 0.1", "mean_us = 1e300", 1, &["`look-up` is 1e300, expected"]);
    let good = File::new("named.toml", PROFILE);
    let unknown = ["unknown network `lru`", name, "calibrate --policy lru"];
    fails(&["--network", "lru", "--profile", good.path()], 2, &unknown);
    // Values that no measurement gives are errors.
    let slip = model(&["--network", "lruu", "--profile", good.path()]);
    let stderr = String::from_utf8(slip.stderr).unwrap();
    assert!(stderr.contains("unknown network `lruu`") && !stderr.contains("calibrate"), "{stderr}");
    fails(&["--network", "lru", "--profile", "/nowhere.toml"], 1, &["/nowhere.toml"]);
}

/// The folder of a short run of an experiment, and its output.
fn reproduced(name: &str) -> (PathBuf, Vec<Value>) {
    let folder = std::env::temp_dir().join(format!("frazil-{name}-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_frazil"))
        .args(["reproduce", name, "--quick", "--output", "json", "--out"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    (folder, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn the_fall_is_measured() {
    let (folder, rows) = reproduced("fall");
    let points: Vec<&Value> = rows.iter().filter(|row| row["predicted_mops"].is_number()).collect();
    // Seven policies, and LRU with a free tail, a cheap one, and a bypass; two sweeps of 8 hit
    // ratios, three backends.
    assert_eq!(points.len(), 10 * 2 * 8 * 3);
    for point in &points {
        let of = |key: &str| point[key].as_f64().unwrap();
        // A thousand requests a second: a run without requests has a tiny number.
        assert!(of("predicted_mops") > 1e-3 && of("measured_mops") > 1e-3, "{point}");
        // Counted, so independent of the machine. All of LRU's operations are under one lock: two
        // of a hit, unless it is of the first in the list, and two of a miss.
        if point["policy"] == "lru" && point["kept"] == "costly" {
            let (hits, list_us) = (of("hit_ratio"), of("list_us"));
            assert!(list_us <= 1.31 && list_us > 0.6, "{point}");
            assert!(of("turns") <= 2.05 - hits + 0.1 && of("turns") > 0.9, "{point}");
        }
        // Hits of these policies change no list.
        if ["fifo", "clock", "s3-fifo"].iter().any(|&name| point["policy"] == name) {
            assert!(of("turns") <= 2.0 * (1.0 - of("hit_ratio")) + 0.1, "{point}");
        }
        assert!(point["kept"] == "bypass" || of("bypassed") == 0.0, "{point}");
    }
    for file in ["fall-capacity.svg", "fall-newcomers.svg"] {
        let svg = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_paper_s_figures_are_repeated() {
    let (folder, rows) = reproduced("queueing");
    let of = |kind: &str, figure: u64| {
        rows.iter().filter(|row| row["kind"] == kind && row["figure"] == figure).count()
    };
    // 16 hit ratios, 3 disks, and in figure 12 as many MPLs.
    for (figure, points) in [(3, 48), (5, 48), (7, 48), (8, 48), (10, 48), (12, 144), (14, 48)] {
        assert_eq!(of("throughput", figure), points, "{figure}");
        assert!(of("expectation", figure) >= 4, "{figure}");
    }
    let classes = rows
        .iter()
        .filter(|row| row["expected"].as_str().is_some_and(|text| text.contains("by its demands")));
    assert!(classes.clone().count() == 7 && classes.clone().all(|row| row["met"] == true));
    for file in ["3", "5", "7", "8", "10", "12-16", "12-72", "12-144", "14"] {
        let file = folder.join(format!("queueing-figure-{file}.svg"));
        let svg = std::fs::read_to_string(&file).unwrap();
        let whole = svg.starts_with("<svg ") && svg.ends_with("</svg>\n");
        assert!(whole && !svg.contains("NaN") && svg.contains("upper bound"), "{file:?}");
    }
    let data = std::fs::read_to_string(folder.join("queueing.json")).unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    let length = |key: &str| data[key].as_array().unwrap().len();
    assert_eq!(length("measurements") + length("expectations"), rows.len());
    std::fs::remove_dir_all(&folder).unwrap();
}
