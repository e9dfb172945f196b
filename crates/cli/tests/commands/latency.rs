//! Latencies in `frazil advise`, by kind of request and percentile, and targets for them.

use serde_json::Value;

use super::command::{Folder, GENERATED, fails, frazil, json_lines};

fn advised(args: &[&str]) -> (Value, Vec<Value>) {
    let mut rows = json_lines(&frazil(&[&["advise", "--output", "json"], args].concat()));
    (rows.pop().unwrap(), rows)
}

fn number(row: &Value, kind: &str, key: &str) -> f64 {
    row["latency"][kind][key].as_f64().unwrap()
}

const CELL: [&str; 8] =
    ["--policy", "lru", "--capacity", "50", "--cores", "2", "--backend", "100us"];

/// The generated trace as a file with a request each µs: the times of a file are used.
fn a_request_a_us(folder: &Folder) -> String {
    let trace = folder.path("paced.csv");
    let written = frazil(&["trace", "convert", GENERATED, &trace]);
    assert!(written.status.success(), "{written:?}");
    trace
}

#[test]
fn delayed_hits_are_those_of_a_replay() {
    let folder = Folder::new("latency-replayed");
    let trace = a_request_a_us(&folder);
    let (answer, cells) = advised(&[&["--trace", &trace], &CELL[..]].concat());
    let replay = ["simulate", "--trace", &trace, "--policy", "lru", "--capacity", "50"];
    let replay =
        [&replay[..], &["--fetch-latency", "100us", "--clock", "trace", "--output", "json"]];
    let replayed = json_lines(&frazil(&replay.concat())).remove(0);
    let share = |key: &str| replayed[key].as_f64().unwrap() / 20_000.0;
    for (kind, key) in [("hits", "hits"), ("delayed_hits", "delayed_hits"), ("misses", "misses")] {
        assert!((number(&answer, kind, "share") - share(key)).abs() < 1e-9, "{kind}: {answer}");
    }
    assert!(number(&answer, "delayed_hits", "share") > 0.01);
    let wait = replayed["delayed_hit_latency_p50"].as_f64().unwrap() / 1e3;
    let told = number(&answer, "delayed_hits", "p50_us");
    assert!(wait * 0.97 <= told && told <= wait * 1.1 + 2.0, "{told}, {wait}");
    assert!(number(&answer, "misses", "p50_us") >= 99.0);
    let p50 = ["hits", "delayed_hits", "misses"].map(|kind| number(&answer, kind, "p50_us"));
    assert!(p50.is_sorted(), "{p50:?}");
    assert_eq!(cells[0]["p99_us"], answer["p99_us"]);
    assert_eq!(answer["latency"]["delayed_hits_known"], true);
}

#[test]
fn without_times_delayed_hits_are_not_known() {
    let folder = Folder::new("latency-untimed");
    let rows = (0..20_000u64).map(|at| format!("{}\n", at * at % 997 % 300)).collect::<String>();
    let trace = folder.file("untimed.csv", rows);
    let common = ["--trace", &trace, "--columns", "id=1", "--header", "no"];
    let common = [&common[..], &CELL[..]].concat();
    let (answer, _) = advised(&common);
    assert_eq!(answer["latency"]["delayed_hits_known"], false);
    assert!(answer["latency"]["delayed_hits"].is_null() && answer["p99_us"].is_number());
    assert!(
        answer["reason"].as_str().unwrap().contains("not known, because the trace has no times")
    );
    let at_rate = |rate| {
        let (answer, _) = advised(&[&common[..], &["--request-rate", rate]].concat());
        answer["latency"]["delayed_hits"]["share"].as_f64().unwrap_or(0.0)
    };
    // 100 requests come during a fetch, ten, or hardly any.
    let shares = ["1M", "100K", "100"].map(at_rate);
    assert!(shares[0] > shares[1] && shares[1] > 0.0 && shares[2] == 0.0, "{shares:?}");
}

#[test]
fn the_99th_percentile_may_be_asked_for() {
    let of = |target: &str| {
        let args = ["--trace", GENERATED, "--policy", "lru", "--cores", "2"];
        advised(&[&args[..], &["--target-latency", target]].concat())
    };
    let (answer, cells) = of("p99=110us");
    assert_eq!(
        (&answer["goal"]["reached"], &answer["goal"]["target_p99_us"]),
        (&true.into(), &110.0.into())
    );
    let fitting = cells.iter().filter(|cell| cell["p99_us"].as_f64().unwrap() <= 110.0);
    let least = fitting.map(|cell| cell["capacity"].as_u64().unwrap()).min();
    assert_eq!(answer["capacity"].as_u64(), least, "{answer}");
    // A twentieth of the requests are the first for their objects, and wait.
    let (answer, _) = of("p99=50us");
    assert_eq!(answer["goal"]["reached"], false, "{answer}");
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("below 1 %") && reason.contains("no size does"), "{reason}");
    let bad = ["advise", "--trace", GENERATED, "--target-latency", "p50=1ms"];
    fails(&bad, 2, &["mean=D or p99=D"]);
}

/// Many of a thousand requests during a fetch wait for only a part of it, so the mean is below the
/// model's, in which each is a miss or a hit.
#[test]
fn a_mean_that_is_asked_for_is_that_with_delayed_hits() {
    let folder = Folder::new("latency-mean");
    let trace = a_request_a_us(&folder);
    let goal = ["--policy", "lru", "--backend", "1ms", "--target-latency", "mean=400us"];
    let (answer, cells) = advised(&[&["--trace", &trace], &goal[..]].concat());
    let least = |mean: &dyn Fn(&Value) -> f64| {
        let fitting = cells.iter().filter(|cell| mean(cell) <= 400.0);
        fitting.map(|cell| cell["capacity"].as_u64().unwrap()).min()
    };
    let capacity = least(&|cell| number(cell, "all", "mean_us"));
    assert_eq!(answer["capacity"].as_u64(), capacity, "{answer}");
    assert_eq!(capacity, least(&|cell| cell["response_us"].as_f64().unwrap()), "{answer}");
    assert!(capacity < least(&|cell| cell["miss_ratio"].as_f64().unwrap() * 1e3), "{answer}");
}

/// Prices count requests to the backend: several requests that wait for one fetch count once.
#[test]
fn what_misses_cost_is_what_is_fetched() {
    let folder = Folder::new("latency-prices");
    let trace = a_request_a_us(&folder);
    let prices = ["--memory-price", "1", "--miss-price", "1", "--request-rate", "1M"];
    let args = [&["--trace", &trace, "--value-bytes", "100"], &CELL[..], &prices].concat();
    let (answer, _) = advised(&args);
    let money = &answer["goal"]["money"];
    let of_month = |key: &str| money[key].as_f64().unwrap_or_else(|| panic!("{key}: {answer}"));
    let paid = of_month("misses_a_month") / of_month("no_cache_a_month");
    let fetched = number(&answer, "misses", "share");
    assert!((paid - fetched).abs() < 1e-6, "{paid} {fetched}");
    assert!(fetched < 0.95 * answer["miss_ratio"].as_f64().unwrap(), "{answer}");
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("If fetches took no time"), "{reason}");
}

/// The times of a generator are arbitrary, so waits do not follow them.
#[test]
fn a_generated_trace_has_no_pace_of_its_own() {
    let of_fetches = |rate: &[&str]| {
        let (answer, _) = advised(&[&["--trace", GENERATED], &CELL[..], rate].concat());
        answer["latency"]["delayed_hits_known"].clone()
    };
    assert_eq!([of_fetches(&[]), of_fetches(&["--request-rate", "1M"])], [false, true]);
}

/// If every size misses more than a hundredth, the 99th percentile is a fetch at each size.
#[test]
fn nearest_to_a_target_that_none_reaches_is_what_misses_least() {
    let goal = ["--trace", GENERATED, "--policy", "fifo,lru", "--target-latency", "p99=50us"];
    let (answer, cells) = advised(&goal);
    assert_eq!(answer["goal"]["reached"], false, "{answer}");
    let misses = |row: &Value| row["miss_ratio"].as_f64().unwrap();
    let least = cells.iter().map(misses).fold(1.0, f64::min);
    assert!(least > 0.01, "{least}");
    assert_eq!(misses(&answer["goal"]["nearest"]), least, "{answer}");
}

/// Times approach their maximum if few requests come in a second.
#[test]
fn requests_may_come_as_seldom_as_one_likes() {
    for rate in ["1e-7", "1e-300"] {
        let (answer, _) =
            advised(&[&["--trace", GENERATED, "--request-rate", rate], &CELL[..]].concat());
        assert!(answer["capacity"].is_u64(), "{answer}");
        assert!(!answer["reason"].to_string().contains(" 0.0 requests"), "{answer}");
    }
}

/// Requests in flight are throughput times latency, waits included, in each printed figure.
#[test]
fn delayed_hits_hold_a_place_of_those_in_flight() {
    const MPL: f64 = 32.0;
    let of = |goal: &[&str]| {
        let args = ["--trace", GENERATED, "--policy", "lru,s3-fifo", "--cores", "2"];
        let fetch = ["--backend", "10ms", "--request-rate", "100K"];
        advised(&[&args[..], &fetch, goal].concat())
    };
    // The mean over the kinds, weighted by their shares: independent of the throughput.
    let mean_us = |row: &Value| {
        let kinds = ["hits", "delayed_hits", "misses"];
        let of = |kind| number(row, kind, "share") * number(row, kind, "mean_us");
        kinds.map(of).iter().sum::<f64>()
    };
    let mops = |row: &Value| row["throughput_mops"].as_f64().unwrap();
    let (answer, cells) = of(&[]);
    assert!(number(&answer, "delayed_hits", "share") > 0.1, "{answer}");
    for cell in &cells {
        let in_flight = mops(cell) * cell["response_us"].as_f64().unwrap();
        assert!((in_flight / MPL - 1.0).abs() < 1e-6, "{in_flight}: {cell}");
    }
    for size in ["frugal", "balanced", "ample"].map(|name| &answer["sizes"][name]) {
        let in_flight = mops(size) * mean_us(size);
        assert!((in_flight / MPL - 1.0).abs() < 0.01, "{in_flight}: {size}");
    }
    let target = mops(&answer) * 1.2;
    let (reached, _) = of(&["--target-throughput", &format!("{target}M")]);
    assert_eq!(reached["goal"]["reached"], true, "{reached}");
    assert!(MPL / mean_us(&reached) >= target * 0.99, "{target}: {reached}");
    // A workload without delayed hits: a request a day.
    let args = ["--trace", GENERATED, "--backend", "10ms", "--request-rate", "1e-5"];
    let cell = ["--policy", "lru", "--capacity", "100", "--cores", "2"];
    let (_, apart) = advised(&[&args[..], &cell].concat());
    let misses = apart[0]["misses"].as_f64().unwrap() / 20_000.0;
    assert!((mops(&apart[0]) * misses * 1e4 / MPL - 1.0).abs() < 1e-3, "{apart:?}");
}

/// Hot objects are requested within the duration of a fetch, but not during their own: they are
/// resident.
#[test]
fn delayed_hits_that_matter_to_nobody_are_left_out() {
    let mops = |backend: &str, rate: &[&str]| {
        let args = ["--trace", GENERATED, "--policy", "lru,fifo", "--capacity", "300,500"];
        let (_, cells) =
            advised(&[&args[..], &["--cores", "2", "--backend", backend], rate].concat());
        cells.iter().map(|cell| cell["throughput_mops"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (often, seldom) = (["--request-rate", "1M"], ["--request-rate", "1e-5"]);
    assert_eq!(mops("2us", &often), mops("2us", &seldom));
    for (some, none) in mops("10ms", &often).iter().zip(mops("10ms", &seldom)) {
        assert!((some / none - 1.0).abs() > 0.01, "{some} {none}");
    }
}

#[test]
fn more_requests_than_are_served_are_told_first() {
    let first = |rate: &str| {
        let args = ["advise", "--trace", GENERATED, "--policy", "lru", "--backend", "10ms"];
        let told = frazil(&[&args[..], &["--cores", "2", "--request-rate", rate]].concat());
        String::from_utf8(told.stdout).unwrap()
    };
    let beyond = first("100K");
    assert!(beyond.starts_with("Beware: 100,000 requests come in a second, and "), "{beyond}");
    assert!(!first("100").contains("Beware"));
}
