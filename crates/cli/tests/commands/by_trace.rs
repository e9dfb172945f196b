//! Output of `frazil advise` about each of several traces.

use serde_json::Value;

use super::advise::{advised, document, told};
use super::command::Folder;

/// On the first the winning policy is behind another; on the last all policies miss most.
const TRACES: [&str; 3] = [
    "zipf:0.9:objects=2K:requests=40K:seed=2",
    "loop:objects=1000:requests=40K",
    "zipf:0.2:objects=20K:requests=40K:seed=3",
];
const WORST: &str = TRACES[0];
const COMMON: [&str; 8] =
    ["--policy", "mobius,random", "--capacity", "200,396,700", "--cores", "2", "--backend", "1ms"];

fn asked<'a>(traces: &[&'a str]) -> Vec<&'a str> {
    [&["--trace"], traces, &COMMON].concat()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn each_trace_has_its_row() {
    let (answer, cells) = advised(&asked(&TRACES));
    let rows = answer["traces"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["trace"]).collect::<Vec<_>>(), TRACES);
    for row in rows {
        let of_size =
            |cell: &&Value| cell["trace"] == row["trace"] && cell["capacity"] == answer["capacity"];
        let of_size: Vec<&Value> = cells.iter().filter(of_size).collect();
        let chosen = of_size.iter().find(|cell| cell["policy"] == answer["policy"]).unwrap();
        for (key, of_cell) in [
            ("miss_ratio", "miss_ratio"),
            ("throughput_mops", "throughput_mops"),
            ("mean_us", "response_us"),
            ("p99_us", "p99_us"),
        ] {
            assert_eq!(row[key], chosen[of_cell], "{key}: {row}");
            assert!(row[key].is_number(), "{key}: {row}");
        }
        let mops = |cell: &Value| number(&cell["throughput_mops"]);
        let best = of_size.iter().max_by(|one, other| mops(one).total_cmp(&mops(other))).unwrap();
        assert_eq!(row["best"]["policy"], best["policy"], "{row}");
        assert_eq!(number(&row["share_of_best"]), mops(chosen) / mops(best));
        assert_eq!(row["ties"], mops(chosen) >= 0.95 * mops(best), "{row}");
        assert_eq!(row["is_worst"], row["trace"] == answer["worst_trace"], "{row}");
        // The answer for it alone equals the answer of a run with only this trace.
        let (alone, _) = advised(&asked(&[row["trace"].as_str().unwrap()]));
        for key in ["policy", "capacity", "miss_ratio", "throughput_mops"] {
            assert_eq!(row["alone"][key], alone[key], "{key}: {row}");
        }
        let [only] = &alone["traces"].as_array().unwrap()[..] else { panic!("{alone}") };
        assert_eq!((&only["is_worst"], &only["ties"]), (&false.into(), &true.into()), "{only}");
        assert!(alone["worst_on"].is_null(), "{alone}");
    }
    let ties: Vec<bool> = rows.iter().map(|row| row["ties"] == true).collect();
    assert!(ties.contains(&true) && ties.contains(&false), "{answer}");
    assert_eq!(answer["worst_trace"], WORST, "{answer}");
}

/// A figure for several traces is the worst of all, and names its trace.
#[test]
fn figures_of_one_name_are_of_one_trace() {
    let (answer, _) = advised(&asked(&TRACES));
    let rows = answer["traces"].as_array().unwrap();
    let balanced = &answer["sizes"]["balanced"];
    assert_eq!(
        (&balanced["policy"], &balanced["capacity"]),
        (&answer["policy"], &answer["capacity"])
    );
    for key in ["miss_ratio", "throughput_mops", "latency", "worst_on"] {
        assert_eq!(answer[key], balanced[key], "{key}");
    }
    let most = rows
        .iter()
        .max_by(|one, other| number(&one["miss_ratio"]).total_cmp(&number(&other["miss_ratio"])));
    let least = rows.iter().min_by(|one, other| {
        number(&one["throughput_mops"]).total_cmp(&number(&other["throughput_mops"]))
    });
    for (key, row) in [("miss_ratio", most.unwrap()), ("throughput_mops", least.unwrap())] {
        assert_eq!((&answer[key], &answer["worst_on"][key]), (&row[key], &row["trace"]), "{row}");
    }
    // The trace that decides is not the one with the most misses.
    assert_ne!(answer["worst_on"]["miss_ratio"], answer["worst_trace"], "{answer}");
}

/// The error of a miss ratio is from the same trace as the miss ratio.
#[test]
fn errors_are_of_the_trace_that_the_miss_ratio_is_of() {
    let (answer, _) = advised(&[&asked(&TRACES)[..], &["--sample", "5K"]].concat());
    let rows = answer["traces"].as_array().unwrap();
    let of = |trace: &Value| rows.iter().find(|row| row["trace"] == *trace).unwrap();
    let most = of(&answer["worst_on"]["miss_ratio"]);
    for key in ["miss_ratio", "sample_rate", "miss_ratio_standard_error"] {
        assert_eq!(answer[key], most[key], "{key}: {answer}");
    }
    assert_ne!(most["sample_rate"], of(&answer["worst_trace"])["sample_rate"], "{answer}");
}

#[test]
fn rows_of_traces_follow_the_answer() {
    let folder = Folder::new("by-trace");
    let page = folder.path("report.html");
    let text = told(&[&asked(&TRACES)[..], &["--report", &page]].concat());
    let (_, after) = text.split_once("\nUse ").unwrap();
    let (rows, _) = after.split_once("Policy: ").unwrap();
    let report = document(&page);
    let told_there = report["on_each"]["rows"].as_array().unwrap();
    assert_eq!(told_there.len(), TRACES.len());
    for (trace, row) in TRACES.iter().zip(told_there) {
        // The columns are in several tables, because one would be too wide.
        let lines: Vec<_> = rows.lines().filter(|line| line.contains(trace)).collect();
        assert!(!lines.is_empty(), "no row of {trace}: {rows}");
        let line = lines.join("\n");
        assert_eq!(line.contains(" (worst)"), *trace == WORST, "{line}");
        assert_eq!(row["is_worst"], *trace == WORST, "{row}");
        for key in ["best", "behind", "alone"] {
            assert!(line.contains(row[key].as_str().unwrap()), "{key}: {line}");
        }
        let misses = format!(" {:.2} %", number(&row["miss_ratio"]) * 100.0);
        assert!(line.contains(&misses), "{misses}: {line}");
    }
    let one = told(&[&asked(&TRACES[..1])[..], &["--report", &page]].concat());
    assert!(!one.contains("on each trace"), "{one}");
    assert!(document(&page)["on_each"]["rows"].as_array().unwrap().is_empty());
}

/// Also if another trace, on which all requests are served, decides the answer.
#[test]
fn traces_with_more_requests_than_are_served_are_told() {
    let rate = ["--request-rate", "60K"];
    let (answer, _) = advised(&[&asked(&TRACES)[..], &rate].concat());
    let cautions = answer["cautions"].to_string();
    let is_over = |row: &Value| number(&row["throughput_mops"]) < 0.06;
    let rows = answer["traces"].as_array().unwrap();
    for row in rows {
        let told =
            format!("60,000 requests come in a second on {},", row["trace"].as_str().unwrap());
        assert_eq!(cautions.contains(&told), is_over(row), "{told}: {answer}");
    }
    let judged = rows.iter().find(|row| row["is_worst"] == true).unwrap();
    assert!(!is_over(judged) && rows.iter().any(is_over), "{answer}");
}
