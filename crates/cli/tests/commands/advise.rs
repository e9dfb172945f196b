//! `frazil advise` from the outside: its recommendations, their grounds, and their wording.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::command::{Folder, GENERATED, WARM, fails, frazil, json_lines};

#[test]
fn advise_recommends_what_it_measured() {
    let args = ["advise", "--trace", GENERATED, "--capacity", "1%,2%,4%", "--output", "json"];
    let rows = json_lines(&frazil(&args));
    let (recommendation, cells) = rows.split_last().unwrap();
    assert_eq!(cells.len(), 27);
    assert!(cells.iter().all(|cell| cell["kind"] == "cell"));
    assert_eq!(recommendation["kind"], "recommendation");
    let chosen = cells
        .iter()
        .find(|cell| {
            cell["policy"] == recommendation["policy"]
                && cell["capacity"] == recommendation["capacity"]
        })
        .expect("the recommendation is one of the cells");
    assert_eq!(chosen["miss_ratio"], recommendation["miss_ratio"]);
    assert_eq!(chosen["throughput_mops"], recommendation["throughput_mops"]);
    let mops = |cell: &Value| cell["throughput_mops"].as_f64().expect("a known policy");
    let same_size = |cell: &&Value| cell["capacity"] == chosen["capacity"];
    assert!(cells.iter().filter(same_size).all(|cell| mops(cell) * 0.95 <= mops(chosen)));
    for cell in cells {
        let range = ["throughput_low_mops", "throughput_high_mops"].map(|key| cell[key].as_f64());
        assert!(range[0].unwrap() <= mops(cell) && mops(cell) <= range[1].unwrap(), "{cell}");
        assert!(cell["bottleneck"].is_string() && cell["p_star"].is_array(), "{cell}");
    }
    assert!(recommendation["marginal_gain"].is_number());
    assert!(recommendation["ties"].is_array());
    assert!(recommendation["reason"].as_str().unwrap().contains("Size: "));
}

#[test]
fn of_several_traces_the_one_that_suffers_most_decides() {
    let [steady, looping] =
        ["zipf:0.9:objects=2K:requests=40K:seed=2", "loop:objects=1000:requests=40K"];
    let common = ["--policy", "lru,lirs", "--capacity", "800", "--backend", "1ms"];
    let common = [&common[..], &["--output", "json"]].concat();
    let of = |traces: &[&str]| {
        let args = [&["advise", "--trace"], traces, &common[..]].concat();
        let mut rows = json_lines(&frazil(&args));
        (rows.pop().unwrap(), rows)
    };
    let (both, cells) = of(&[steady, looping]);
    assert_eq!(
        cells.iter().map(|cell| &cell["trace"]).collect::<Vec<_>>(),
        [steady, steady, looping, looping]
    );
    // LRU hits nothing in a loop longer than the cache.
    assert_eq!((&both["policy"], &both["capacity"]), (&"lirs".into(), &800.into()));
    let mops = |cell: &Value| cell["throughput_mops"].as_f64().unwrap();
    assert!(mops(&cells[3]) > 2.0 * mops(&cells[2]), "{cells:?}");
    let share =
        |trace: usize| mops(&cells[trace + 1]) / mops(&cells[trace]).max(mops(&cells[trace + 1]));
    // It equals the best on both: the worst trace is the one on which it is slowest.
    assert!(share(0).min(share(2)) > 0.9995 && mops(&cells[3]) < mops(&cells[1]), "{cells:?}");
    assert_eq!((&both["worst_trace"], &both["share_of_best"]), (&looping.into(), &share(2).into()));
    let args = ["advise", "--trace", steady, looping, "--policy", "mobius,random"];
    let args = [&args[..], &["--capacity", "396", "--output", "json"]].concat();
    let behind = json_lines(&frazil(&args));
    assert_eq!(
        (&behind[4]["policy"], &behind[4]["worst_trace"]),
        (&"mobius".into(), &looping.into())
    );
    let share = mops(&behind[2]) / mops(&behind[3]);
    assert!(share < 0.95 && behind[4]["share_of_best"] == share, "{behind:?}");
    let (one, _) = of(&[looping]);
    assert!(one["worst_trace"].is_null() && one["share_of_best"] == 1.0);
    let text = frazil(&[&["advise", "--trace", steady, looping], &common[..6]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(steady) && text.contains(looping) && text.contains("Policy: "), "{text}");
}

/// For a long trace a sample of its objects is used, from a pipe as well as from a file.
#[test]
fn advice_from_a_sample_is_near_and_says_how_sure_it_is() {
    let folder = Folder::new("advise-sample");
    let trace = "zipf:0.8:objects=40K:requests=600K:seed=5";
    let file = folder.path("requests.csv");
    assert!(frazil(&["trace", "convert", trace, &file]).status.success());
    let common = ["--policy", "lru,s3-fifo", "--capacity", "1%,10%", "--output", "json"];
    let whole = json_lines(&frazil(&[&["advise", "--trace", &file], &common[..]].concat()));
    let args = [&["advise", "--trace", "-", "--sample", "12K"], &common[..]].concat();
    let piped = Command::new(env!("CARGO_BIN_EXE_frazil"))
        .args(args)
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let notes = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(notes.contains("25.00 %") && !notes.contains("is not known"), "{notes}");
    let piped = json_lines(&piped);
    let [last, exact] = [&piped, &whole].map(|rows| rows.last().unwrap());
    assert_eq!((&last["sample_rate"], &exact["sample_rate"]), (&0.25.into(), &1.0.into()));
    let error = last["miss_ratio_standard_error"].as_f64().unwrap();
    assert!(exact["miss_ratio_standard_error"].is_null() && error > 0.0 && error < 0.02, "{error}");
    for (one, other) in whole.iter().zip(&piped).take(4) {
        let [one, other] = [one, other].map(|cell| cell["miss_ratio"].as_f64().unwrap());
        assert!((one - other).abs() < 0.02, "{one}, of the sample {other}");
    }
    fails(&["advise", "--trace", "-", "-"], 2, &["standard input"]);
    for verb in ["advise", "mrc"] {
        fails(&[verb, "--trace", trace, "--sample", "0.000001%"], 1, &[trace, "take a larger one"]);
    }
    fails(&["advise", "--trace", &file, "--sample", "0%"], 2, &["0%", "200K"]);
}

#[test]
fn advice_is_drawn_and_told_as_a_page() {
    let folder = Folder::new("advise-report");
    let [page, drawn] = [folder.path("report.html"), folder.path("figures")];
    let args = ["advise", "--trace", GENERATED, "--capacity", "1%,10%", "--policy", "lru,mobius"];
    let written = frazil(&[&args[..], &["--report", &page, "--figures", &drawn]].concat());
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.contains(GENERATED));
    let told = String::from_utf8(written.stdout).unwrap();
    let answer = told.lines().find(|line| line.starts_with("Use ")).unwrap();
    assert!(text.contains(answer), "{answer}");
    for name in ["size", "workload"] {
        let svg = std::fs::read_to_string(format!("{drawn}/advise-{name}.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.matches("<polyline").count() >= 4, "{svg}");
    }
    let sizes = std::fs::read_to_string(format!("{drawn}/advise-size.svg")).unwrap();
    assert!(
        told.contains("\nfrugal, balanced  ") && text.contains("\"frugal, balanced\""),
        "{told}"
    );
    assert!(sizes.contains(">frugal, balanced</text>"), "{sizes}");
    // Reported before the replay, which may take minutes.
    let absent = ["advise", "--trace", "/nowhere/trace.csv"];
    for (flag, place) in [("--report", "/nowhere/r.html"), ("--report", "/"), ("--figures", &page)]
    {
        fails(&[&absent[..], &[flag, place]].concat(), 1, &[place, "folder"]);
    }
    let once =
        String::from_utf8(frazil(&["advise", "--trace", "loop:objects=2K:requests=2K"]).stdout)
            .unwrap();
    assert!(
        once.contains("Use no cache") && once.contains("would avoid 0.00 % of misses"),
        "{once}"
    );
    assert!(!told.contains("Beware: no cache"), "{told}");
}

/// The data of a report.
pub(super) fn document(page: &str) -> Value {
    let page = std::fs::read_to_string(page).unwrap();
    let (_, data) = page.split_once("type=\"application/json\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

/// The terminal, scripts and the report have one source for their statements.
#[test]
fn all_places_say_the_same() {
    let folder = Folder::new("advise-same");
    let page = folder.path("report.html");
    // Hits of LRU take turns that misses do not take.
    let profile = "machine = { description = \"here\", cores = 2 }\nstations.lock.service_us = 1\n\
                   think.look-up.mean_us = 0.1\nquality = { runs = 10, disturbed = 0 }\n\
                   [networks.lru]\nhit = { think.look-up = 1, stations.lock = 1 }\n\
                   miss = { think.look-up = 1 }\n[networks.fifo]\n\
                   hit = { think.look-up = 1 }\nmiss = { think.look-up = 1 }\n";
    let profile = folder.file("turns.toml", profile);
    let slower = ["--trace", GENERATED, "--policy", "lru,fifo", "--cores", "2"];
    let slower = [&slower[..], &["--backend", "1us", "--profile", &profile]].concat();
    let prices = ["--memory-price", "1e-3", "--miss-price", "1e-7", "--request-rate", "10"];
    let prices = [&["--trace", GENERATED, "--value-bytes", "100"], &prices[..]].concat();
    let few = ["--trace", GENERATED, "--policy", "lru", "--capacity", "10,20"];
    for args in [&slower[..], &prices, &few] {
        let text = told(&[args, &["--report", &page]].concat());
        let (answer, _) = advised(args);
        let report = document(&page);
        assert!(text.contains(report["answer"].as_str().unwrap()), "{text}");
        let reason = answer["reason"].as_str().unwrap();
        for key in ["cautions", "reasons", "sure"] {
            for sentence in report[key].as_array().unwrap() {
                let sentence = sentence.as_str().unwrap();
                assert!(flowing(&text).contains(sentence), "{sentence}: {text}");
                assert!(reason.contains(sentence), "{sentence}: {reason}");
            }
        }
        for size in report["sizes"].as_array().unwrap() {
            let line = text.lines().find(|it| it.starts_with(size["name"].as_str().unwrap()));
            let costs = size["a_month"].as_str().unwrap_or_default();
            assert!(line.unwrap().contains(costs) && costs != "0.00", "{size}: {text}");
        }
        let limits = answer["do_not_grow_past"].as_array().unwrap();
        assert_eq!(report["growth"].is_null(), limits.is_empty(), "{answer}");
        for limit in limits {
            let told = format!("{} past ", limit["policy"].as_str().unwrap());
            assert!(report["growth"].as_str().unwrap().contains(&told), "{report}");
        }
        let whole = std::fs::read_to_string(&page).unwrap();
        assert!(!whole.contains("never slower") && !text.contains("never slower"), "{text}");
    }
    let (answer, _) = advised(&slower);
    assert!(!answer["do_not_grow_past"].as_array().unwrap().is_empty(), "{answer}");
    // Two sizes do not show a straight line.
    assert!(!told(&few).contains("no knee"));
    let none = ["--trace", "loop:objects=2K:requests=50K", "--policy", "lru"];
    let none = told(&[&none[..], &["--capacity", "10,20"]].concat());
    assert!(none.contains("the smallest compared, as none of them avoids even 1.00 %"), "{none}");
}

/// If memory has a price, the costs of sizes come first.
#[test]
fn costs_are_drawn() {
    let folder = Folder::new("advise-costs");
    let [page, drawn] = [folder.path("report.html"), folder.path("figures")];
    let args = ["--trace", GENERATED, "--policy", "lru,mobius", "--value-bytes", "1000"];
    let prices = ["--memory-price", "2000", "--miss-price", "0.1", "--request-rate", "50"];
    let args = [&args[..], &prices].concat();
    told(&[&args[..], &["--report", &page, "--figures", &drawn]].concat());
    let (answer, _) = advised(&args);
    let costs = &document(&page)["costs"];
    let money = &answer["goal"]["money"];
    let keys = [("memory", "memory_a_month"), ("misses", "misses_a_month")];
    for (one, other) in keys {
        assert_eq!(costs["chosen"][one], money[other], "{costs}");
    }
    assert_eq!(costs["without_cache"], money["no_cache_a_month"]);
    let all = costs["all"].as_array().unwrap();
    let sums = || all.iter().map(|it| it["sum"].as_f64().unwrap());
    assert_eq!(costs["chosen"]["sum"].as_f64(), Some(sums().fold(f64::INFINITY, f64::min)));
    assert!(all.len() > 9 && all.iter().any(|it| it["capacity"] == answer["capacity"]), "{costs}");
    let svg = std::fs::read_to_string(format!("{drawn}/advise-cost.svg")).unwrap();
    let label = costs["label"].as_str().unwrap();
    for name in ["memory", "misses", "both", "no cache", label] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}: {svg}");
    }
    assert!(label.starts_with("cheapest: "), "{label}");
    // A target that the cheapest size does not reach.
    let misses = answer["miss_ratio"].as_f64().unwrap() * 0.8;
    let target = format!("{:.4}%", misses * 100.0);
    told(&[&args[..], &["--target-miss", &target, "--report", &page]].concat());
    let label = &document(&page)["costs"]["label"];
    assert!(label.as_str().unwrap().starts_with("advised: "), "{label}");
}

/// With capacities in bytes the output has the byte miss ratio, and a tiny useful set is found.
#[test]
fn bytes_that_are_missed_are_told() {
    let folder = Folder::new("advise-bytes");
    // Twenty small objects, requested repeatedly among large ones requested once.
    let row = |at: u64| match at % 4 {
        0 => format!("{},{},100000\n", at / 50, at + 1_000),
        _ => format!("{},{},1000\n", at / 50, at * 7 % 20),
    };
    let trace = folder.file("bytes.csv", (0..20_000).map(row).collect::<String>());
    let drawn = folder.path("figures");
    let args = ["--trace", &trace, "--unit", "bytes", "--policy", "lru,s3-fifo"];
    let (answer, cells) = advised(&args);
    let ratio = |row: &Value| row["byte_miss_ratio"].as_f64().unwrap();
    assert!(cells.iter().all(|cell| ratio(cell) > 0.9), "{answer}");
    assert!(ratio(&answer) > 0.9 && answer["miss_ratio"].as_f64().unwrap() < 0.3, "{answer}");
    assert_eq!(answer["sizes"]["balanced"]["byte_miss_ratio"], answer["byte_miss_ratio"]);
    let balanced = three(&answer)[1].unwrap();
    assert!((15_000..1_000_000).contains(&balanced), "{answer}");
    let text = told(&[&args[..], &["--figures", &drawn]].concat());
    assert!(text.contains("bytes missed") && text.contains("Share of bytes"), "{text}");
    let svg = std::fs::read_to_string(format!("{drawn}/advise-size.svg")).unwrap();
    assert!(svg.contains(">Bytes missed: % of bytes</text>"), "{svg}");
    let (objects, cells) = advised(&["--trace", GENERATED, "--policy", "lru"]);
    assert!(objects["byte_miss_ratio"].is_null() && cells[0]["byte_miss_ratio"].is_null());
}

#[test]
fn advice_depends_on_cores_and_the_backend() {
    let mops = |flags: &[&str]| {
        let args = ["advise", "--trace", GENERATED, "--capacity", "10%", "--policy", "lru,mobius"];
        let rows = json_lines(&frazil(&[&args, flags, &["--output", "json"]].concat()));
        [0, 1].map(|row| rows[row]["throughput_mops"].as_f64().unwrap())
    };
    let [lru, mobius] = mops(&["--cores", "1", "--backend", "0us", "--mpl", "1"]);
    let [lru_slow, _] = mops(&["--cores", "1", "--backend", "1ms", "--mpl", "1"]);
    assert!(lru_slow < lru / 100.0, "{lru_slow}, {lru}");
    let [lru_many, mobius_many] = mops(&["--cores", "8", "--backend", "0us", "--mpl", "8"]);
    assert!(mobius_many / mobius > lru_many / lru, "hits of LRU take turns");
    let folder = Folder::new("fifo-profile");
    let fifo = "machine = { description = \"here\", cores = 2 }\nthink.it = { mean_us = 0.1 }\n\
                networks.fifo = { hit = { think = { it = 1 } }, miss = { think = { it = 1 } } }";
    let fifo = folder.file("fifo.toml", fifo);
    let unknown = ["advise", "--trace", GENERATED, "--policy", "lhd"];
    fails(&[&unknown[..], &["--profile", &fifo]].concat(), 1, &["lhd", "frazil calibrate"]);
    fails(&[&unknown[..3], &["--profile", "/nowhere.toml"]].concat(), 1, &["/nowhere.toml"]);
    fails(&[&unknown[..3], &["--cores", "0"]].concat(), 2, &["--cores"]);
}

/// The output distinguishes a policy with unmeasured parameters from a measured one.
#[test]
fn advise_says_whose_costs_it_takes() {
    let policies = "lru,lru-prob:q=0.5,lru-prob:q=0.9,clock:bits=2";
    let args = ["advise", "--trace", GENERATED, "--capacity", "50%", "--policy", policies];
    let fast = ["--cores", "2", "--backend", "0us", "--output", "json"];
    let rows = json_lines(&frazil(&[&args[..], &fast].concat()));
    let costs = |row: usize| [&rows[row]["costs"], &rows[row]["costs_of"]];
    assert_eq!(costs(0), ["measured", "lru"]);
    assert_eq!(costs(1), ["measured", "lru-prob:q=0.5"]);
    assert_eq!(costs(2), ["scaled", "lru-prob:q=0.5"]);
    assert_eq!(costs(3), ["other parameters", "clock"]);
    let mops = |row: usize| rows[row]["throughput_mops"].as_f64().unwrap();
    assert!(mops(2) > 1.2 * mops(1), "a tenth of the promotions takes fewer turns than half");
    let text = String::from_utf8(frazil(&args).stdout).unwrap();
    for told in ["lru-prob:q=0.9 is not in the profile", "0.20 times", "clock:bits=2 is not in"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("lru-prob:q=0.5 is not"), "{text}");
}

#[test]
fn advise_freezes_what_is_worth_it() {
    // All objects fit: nothing to lose, and turns to save.
    let args = ["advise", "--trace", WARM, "--capacity", "100%", "--cores", "2"];
    let policies = "lru,frozen:share=0.5+lru,frozen+lru";
    let args = [&args[..], &["--backend", "0us", "--policy", policies]].concat();
    let rows = json_lines(&frazil(&[&args[..], &["--output", "json"]].concat()));
    let number = |row: usize, key: &str| rows[row][key].as_f64();
    let mops = |row: usize| number(row, "throughput_mops").unwrap();
    assert_eq!(rows[2]["policy"], "frozen+lru");
    assert_eq!((number(0, "frozen_share"), number(0, "frozen_hits")), (None, None));
    assert_eq!(number(1, "frozen_share"), Some(0.5));
    let hits = [1, 2].map(|row| number(row, "frozen_hits").unwrap());
    assert!(0.5 < hits[0] && hits[0] < hits[1], "{hits:?}");
    assert!(mops(1) > 1.3 * mops(0) && mops(2) >= mops(1), "{rows:?}");
    let text = String::from_utf8(frazil(&args).stdout).unwrap();
    for told in [
        "Frozen at this size: frozen:share=0.5+lru 50.00 % of the entries",
        "Assumptions about freezing: entries are frozen once",
        "takes as long as the profile says",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    // A look-up that takes as long as a hit without turns gains nothing.
    let folder = Folder::new("frozen-profile");
    let fifo = "machine = { description = \"here\", cores = 2 }\nthink.it = { mean_us = 0.1 }\n\
                networks.fifo = { hit = { think = { it = 1 } }, miss = { think = { it = 1 } } }";
    let fifo = folder.file("fifo.toml", fifo);
    let flat = ["advise", "--trace", WARM, "--capacity", "5%", "--policy", "fifo,frozen+fifo"];
    let flat =
        frazil(&[&flat[..], &["--cores", "2", "--backend", "0", "--profile", &fifo]].concat());
    let text = String::from_utf8(flat.stdout).unwrap();
    for told in
        ["frozen+fifo nothing, because no share is faster", "because the profile has no other time"]
    {
        assert!(text.contains(told), "{told}: {text}");
    }
    let short = ["advise", "--trace", WARM, "--limit", "5000", "--policy", "frozen:share=1+lru"];
    let text = String::from_utf8(frazil(&short).stdout).unwrap();
    assert!(text.contains("nothing, because the trace ends before the cache is warm"), "{text}");
    let bad = ["advise", "--trace", WARM, "--policy", "frozen+lirs"];
    fails(&bad, 2, &["`lirs` cannot be frozen"]);
}

/// The output does not claim unknown figures: spread, cost, comparison.
#[test]
fn advice_says_no_more_than_it_knows() {
    let folder = Folder::new("plain-profile");
    let counts = "{ think = { look-up = 1 } }";
    let network = |name: &str| format!("{name} = {{ hit = {counts}, miss = {counts} }}\n");
    let profile = format!(
        "machine = {{ description = \"here\", cores = 2 }}\nthink.look-up = {{ mean_us = 0.1 }}\n\
         quality = {{ runs = 10, disturbed = 2 }}\n[networks]\n{}{}",
        network("lru"),
        network("fifo")
    );
    let profile = folder.file("plain.toml", profile);
    let advise = |policies: &str| {
        let common = ["advise", "--trace", GENERATED, "--capacity", "100%", "--cores", "2"];
        let more = ["--backend", "0", "--profile", &profile, "--policy", policies];
        let output = frazil(&[&common[..], &more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (alike, notes) = advise("lru,fifo,lhd");
    for told in [
        "no faster: ",
        "no spread",
        "lhd (speed unknown, ",
        "lhd is not in the profile; its throughput is unknown",
    ] {
        assert!(alike.contains(told), "{told}: {alike}");
    }
    assert!(notes.contains("plain.toml: 2 of 10 measurements"), "{notes}");
    let (alone, _) = advise("lru");
    assert!(flowing(&alone).contains("no other of known speed was compared"), "{alone}");
    assert!(!alone.contains("over 5 %"), "{alone}");
    let cores = ["advise", "--trace", GENERATED, "--cores", "-1"];
    fails(&cores, 2, &["--cores", "-1 is not in 1..=4096"]);
}

#[test]
fn advise_runs_without_a_trace() {
    let output = frazil(&["advise", "--limit", "100000"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("\nUse "), "{text}");
}

/// The recommendation of an answer in JSON, and its other rows.
pub(super) fn advised(args: &[&str]) -> (Value, Vec<Value>) {
    let mut rows = json_lines(&frazil(&[&["advise"], args, &["--output", "json"]].concat()));
    (rows.pop().unwrap(), rows)
}

pub(super) fn told(args: &[&str]) -> String {
    let output = frazil(&[&["advise"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The output, with each sentence on one line again.
fn flowing(text: &str) -> String {
    text.replace("\n    ", " ")
}

/// Frugal, balanced and ample.
fn three(recommendation: &Value) -> [Option<u64>; 3] {
    ["frugal", "balanced", "ample"].map(|name| recommendation["sizes"][name]["capacity"].as_u64())
}

#[test]
fn three_sizes_are_told_in_order() {
    let trace = "zipf:0.9:objects=20K:requests=300K:seed=3";
    let args = ["--trace", trace, "--policy", "lru,s3-fifo", "--cores", "2"];
    let (answer, cells) = advised(&args);
    let [frugal, balanced, ample] = three(&answer).map(Option::unwrap);
    assert!(frugal < balanced && balanced < ample, "{answer}");
    assert_eq!(answer["capacity"], balanced);
    let knees = answer["knees"].as_array().unwrap();
    assert!(knees.len() > 2 && knees.contains(&answer["capacity"]), "{answer}");
    let avoided = |name: &str| answer["sizes"][name]["avoided"].as_f64().unwrap();
    assert!(avoided("frugal") >= 0.5 && avoided("ample") >= 0.95, "{answer}");
    // Sizes were added, and the next smaller one does not avoid enough, but is close.
    let mut sizes: Vec<u64> = cells.iter().map(|cell| cell["capacity"].as_u64().unwrap()).collect();
    sizes.dedup();
    assert!(sizes.is_sorted() && (12..=21).contains(&sizes.len()), "{sizes:?}");
    let at = sizes.iter().position(|&size| size == ample).unwrap();
    assert!(sizes[at] as f64 <= 1.13 * sizes[at - 1] as f64, "{ample}, {sizes:?}");
    let all_fits = cells.iter().rfind(|cell| cell["policy"] == "lru").unwrap();
    let floor = all_fits["miss_ratio"].as_f64().unwrap();
    let misses = |size: u64| {
        let of_size = cells.iter().filter(|cell| cell["capacity"] == size);
        of_size.map(|cell| cell["miss_ratio"].as_f64().unwrap()).fold(1.0, f64::min)
    };
    assert!((1.0 - misses(sizes[at - 1])) / (1.0 - floor) < 0.95, "{sizes:?}");
    let text = told(&args);
    let table = text.split("What memory is worth").nth(1).unwrap();
    for name in ["frugal ", "balanced ", "ample ", "Size: the balanced one"] {
        assert!(table.contains(name), "{name}: {table}");
    }
    // The requested sizes and no others.
    let sizes = ["--trace", trace, "--policy", "lru", "--capacity", "100,1000,10000"];
    let (given, cells) = advised(&sizes);
    assert_eq!(cells.len(), 3);
    assert!(three(&given).into_iter().flatten().is_sorted(), "{given}");
    let few = told(&["--trace", trace, "--policy", "lru", "--capacity", "10"]);
    let none = "No size compared avoids 50 % of the avoidable misses";
    assert!(flowing(&few).contains(none), "{few}");
}

#[test]
fn a_loop_is_a_cliff_and_what_comes_once_needs_no_cache() {
    let of = |trace: &'static str, policies: &'static str| ["--trace", trace, "--policy", policies];
    let cliff = of("loop:objects=2K:requests=100K", "lru,fifo");
    let (answer, _) = advised(&cliff);
    assert_eq!(three(&answer), [Some(2_000); 3]);
    assert_eq!(answer["knees"], serde_json::json!([2_000]));
    let text = told(&cliff);
    assert!(text.contains("cliff  2,000 objects") && text.contains("Size: the cliff"), "{text}");
    // LIRS keeps as much of a loop as fits.
    let straight = of("loop:objects=2K:requests=100K", "lirs");
    let (answer, _) = advised(&straight);
    let [frugal, balanced, ample] = three(&answer).map(Option::unwrap);
    assert!((1_000..1_130).contains(&frugal), "{frugal}");
    assert_eq!((balanced, ample), (2_000, 2_000));
    assert!(answer["cliff"].is_null(), "{answer}");
    let among = of("loop:objects=2K:requests=100K", "lru,lirs");
    let (answer, _) = advised(&among);
    assert_eq!((three(&answer)[2], &answer["cliff"]), (Some(2_000), &2_000.into()));
    let text = told(&among);
    assert!(text.contains("\ncliff ") && text.contains("the cliff of a loop: lru"), "{text}");
    assert!(told(&straight).contains("there is no knee"));
    let once = of("loop:objects=20K:requests=20K", "lru,s3-fifo");
    let (answer, _) = advised(&once);
    assert!(answer["policy"].is_null() && answer["capacity"].is_null(), "{answer}");
    assert_eq!(three(&answer), [None; 3]);
    let text = told(&once);
    assert!(text.contains("Use no cache: none helps here."), "{text}");
    assert!(!text.contains("What memory is worth"), "{text}");
}

/// Ranges for more cores than those of the compared calibrations are at least as wide.
#[test]
fn ranges_grow_with_the_cores() {
    let range = |cores: &str| {
        let args = ["--trace", GENERATED, "--policy", "lru", "--capacity", "500", "--backend", "0"];
        let (_, cells) = advised(&[&args[..], &["--cores", cores]].concat());
        let ends =
            ["throughput_low_mops", "throughput_high_mops"].map(|key| cells[0][key].as_f64());
        ends[1].unwrap() / ends[0].unwrap()
    };
    let [some, more, most] = ["64", "128", "1000"].map(range);
    assert!(1.01 * some < more && 1.01 * more < most, "{some} {more} {most}");
}

/// A large gain of a step is given as a factor.
#[test]
fn large_gains_are_told_in_times() {
    let half = ["--trace", "loop:objects=2K:requests=100K", "--policy", "lru", "--capacity", "50%"];
    let (answer, _) = advised(&half);
    let gain = answer["marginal_gain"].as_f64().unwrap();
    assert!(gain > 10.0, "{answer}");
    let text = told(&half);
    let times = format!("which holds all objects, serves {:.0} times as much with lru", gain + 1.0);
    assert!(flowing(&text).contains(&times), "{times}: {text}");
    let one = told(&["--trace", "loop:objects=1:requests=1", "--policy", "lru"]);
    assert!(one.contains("one request is too few") && one.contains("its one object"), "{one}");
}

/// 2,000 objects, each requested 20 times, each time in a different order.
#[test]
fn objects_in_any_order_are_a_slope_and_no_cliff() {
    let folder = Folder::new("shuffled");
    let (mut ids, mut state): (Vec<u32>, u64) = ((0..2_000).collect(), 1);
    let mut text = String::new();
    for _ in 0..20 {
        for last in (1..ids.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            ids.swap(last, (state >> 33) as usize % (last + 1));
        }
        ids.iter().for_each(|id| text += &format!("{id}\n"));
    }
    let trace = folder.file("shuffled.txt", text);
    let (answer, _) = advised(&["--trace", &trace, "--format", "plain", "--policy", "lru,lirs"]);
    assert!(answer["cliff"].is_null(), "{answer}");
    assert!(!answer["reason"].as_str().unwrap().contains("cliff"), "{answer}");
}

/// A trace that no cache helps does not decide for one that a cache helps.
#[test]
fn a_cache_that_helps_one_trace_is_not_called_useless() {
    let traces = ["loop:objects=20K:requests=20K", "zipf:1.0:objects=2K:requests=50K:seed=1"];
    let args = ["--trace", traces[0], "--trace", traces[1], "--policy", "lru,s3-fifo"];
    let text = flowing(&told(&args));
    assert!(!text.contains("no cache of these sizes helps") && !text.contains("nothing compared"));
}

/// The limits of a trace are printed before its results.
#[test]
fn what_is_too_little_to_go_by_is_said_first() {
    let first = |text: &str| text.starts_with("Beware: ");
    let few = told(&["--trace", "zipf:1.0:objects=500:requests=2K:seed=1"]);
    assert!(first(&few) && few.contains("2,000 requests are too few"), "{few}");
    let caution = few.lines().take_while(|line| !line.is_empty());
    assert!(caution.map(str::len).all(|length| length <= 100), "{few}");
    assert!(few.contains(" objects (about ") && few.contains("a capacity of about "), "{few}");
    // New objects until the end.
    let growing = ["--trace", "zipf:0.2:objects=100K:requests=60K:seed=1", "--policy", "lru"];
    let growing = told(&[&growing[..], &["--capacity", "80%"]].concat());
    assert!(first(&growing) && growing.contains("the trace is short for this size"), "{growing}");
    let never = told(&["--trace", GENERATED, "--policy", "lru", "--capacity", "5000"]);
    assert!(first(&never) && never.contains("it never fills 5,000 objects"), "{never}");
    let enough = told(&["--trace", GENERATED, "--policy", "lru"]);
    assert!(!enough.contains("Beware"), "{enough}");
    let once = ["--trace", "loop:objects=20K:requests=20K", "--policy", "lru"];
    let once_told = told(&once);
    assert!(first(&once_told) && advised(&once).0["cautions"][0].is_string());
    for text in [few, growing, never, once_told] {
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// Requests at 50 a second for objects of 1,000 bytes, by Zipf's law.
fn timed(folder: &Folder) -> String {
    let id = |at: u64| {
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let even = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11;
        2_000f64.powf(even as f64 / (1u64 << 53) as f64) as u64
    };
    let row = |at: u64| format!("{},{},1000\n", at / 50, id(at));
    folder.file("timed.csv", (0..20_000).map(row).collect::<String>())
}

#[test]
fn a_goal_decides_the_size() {
    let folder = Folder::new("advise-goal");
    let trace = timed(&folder);
    let common = ["--trace", &trace, "--policy", "lru,s3-fifo", "--cores", "2"];
    let of = |goal: &[&str]| advised(&[&common[..], goal].concat());
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    let smallest = |goal: &[&str], fits: &dyn Fn(&Value) -> bool| {
        let (answer, cells) = of(goal);
        assert_eq!(answer["goal"]["reached"], true, "{answer}");
        let fitting = cells.iter().filter(|cell| fits(cell));
        let least = fitting.map(|cell| cell["capacity"].as_u64().unwrap()).min();
        assert_eq!(answer["capacity"].as_u64(), least, "{goal:?}: {answer}");
        let chosen = cells.iter().find(|cell| {
            cell["policy"] == answer["policy"] && cell["capacity"] == answer["capacity"]
        });
        assert!(fits(chosen.unwrap()), "{goal:?}: {answer}");
    };
    smallest(&["--target-miss", "40%"], &|cell| number(cell, "miss_ratio") <= 0.4);
    smallest(&["--target-latency", "mean=40us"], &|cell| number(cell, "response_us") <= 40.0);
    smallest(&["--target-throughput", "0.8M"], &|cell| number(cell, "throughput_mops") >= 0.8);
    let both = ["--target-throughput", "600K", "--target-miss", "70%"];
    smallest(&both, &|cell| {
        number(cell, "throughput_mops") >= 0.6 && number(cell, "miss_ratio") <= 0.7
    });
    let (within, _) = of(&["--budget", "100KiB"]);
    let each = 1_008.0 + entry_bytes(within["policy"].as_str().unwrap());
    assert_eq!(within["goal"]["budget"], (102_400.0 / each) as u64);
    assert!(within["capacity"].as_u64() <= within["goal"]["budget"].as_u64(), "{within}");
    let (unmet, _) = of(&["--target-miss", "0%"]);
    assert!(unmet["capacity"].is_null() && unmet["goal"]["reached"] == false, "{unmet}");
    assert!(unmet["goal"]["nearest"]["capacity"].is_u64(), "{unmet}");
    let unmet = told(&[&common[..], &["--budget", "1%", "--target-miss", "5%"]].concat());
    assert!(unmet.contains("Use none of these") && unmet.contains("nearest"), "{unmet}");
}

#[test]
fn prices_decide_the_size() {
    let folder = Folder::new("advise-prices");
    let trace = timed(&folder);
    let common = ["--trace", &trace, "--policy", "lru,s3-fifo", "--cores", "2"];
    let mut chosen = Vec::new();
    for memory in ["20", "2000", "20000"] {
        let prices = ["--memory-price", memory, "--miss-price", "0.1"];
        let (answer, cells) = advised(&[&common[..], &prices].concat());
        let money = &answer["goal"]["money"];
        let rate = money["requests_per_second"].as_f64().unwrap();
        assert!((rate - 50.1).abs() < 0.1, "{rate}");
        let of = |cell: &Value| {
            let each = 1_008.0 + entry_bytes(cell["policy"].as_str().unwrap());
            let gib = cell["capacity"].as_f64().unwrap() * each / (1u64 << 30) as f64;
            let misses = cell["miss_ratio"].as_f64().unwrap();
            let misses = misses * rate * 365.25 / 12.0 * 86_400.0 / 1e6;
            gib * memory.parse::<f64>().unwrap() + misses * 0.1
        };
        let least = cells.iter().map(of).fold(f64::INFINITY, f64::min);
        let told = ["memory_a_month", "misses_a_month"].map(|key| money[key].as_f64().unwrap());
        let told: f64 = told.iter().sum();
        assert!((told / least - 1.0).abs() < 1e-9, "{told}, {least}");
        chosen.push(answer["capacity"].as_u64().unwrap());
    }
    assert!(chosen[0] > chosen[1] && chosen[1] > chosen[2], "{chosen:?}");
    let dear = ["--memory-price", "1e9", "--miss-price", "0.001"];
    let dear = told(&[&common[..], &dear].concat());
    assert!(dear.contains("Use no cache: at these prices"), "{dear}");
}

/// List prices, unless the user gives others, with their source and date.
#[test]
fn prices_may_be_those_of_a_list() {
    let folder = Folder::new("advise-lists");
    let trace = timed(&folder);
    let common = ["--trace", &trace, "--policy", "lru", "--cores", "2"];
    let of = |prices: &[&str]| advised(&[&common[..], prices].concat()).0["goal"].take();
    let list = ["--prices", "elasticache-dynamodb"];
    let listed = of(&list);
    let same = of(&["--memory-price", "12.24", "--miss-price", "0.125"]);
    let costs = |goal: &Value| {
        ["memory", "misses"].map(|it| goal["money"][it.to_owned() + "_a_month"].clone())
    };
    assert_eq!(costs(&listed), costs(&same));
    let sources = |goal: &Value| goal["money"]["price_sources"].as_array().unwrap().len();
    let given = of(&[&list[..], &["--miss-price", "3"]].concat());
    assert_eq!((sources(&listed), sources(&given), sources(&same)), (2, 1, 0));
    assert_eq!(
        (&given["money"]["miss_price"], &given["money"]["memory_price"]),
        (&3.0.into(), &12.24.into())
    );
    let text = told(&[&common[..], &list].concat());
    for word in ["12.24 a GiB and 0.125 a million", "cache.r7g.large", "2026-10-02", "https://"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!told(&common).contains("https://"));
    fails(
        &["advise", "--trace", GENERATED, "--prices", "ec2-s3"],
        2,
        &["--prices", "--value-bytes"],
    );
    fails(&["advise", "--trace", GENERATED, "--prices", "cheap"], 2, &["ec2-s3"]);
}

#[test]
fn misses_that_cost_are_for_the_policy_with_the_fewest() {
    let common = [
        "--trace",
        "zipf:0.9:objects=20K:requests=300K",
        "--capacity",
        "4K",
        "--policy",
        "fifo,arc",
        "--backend",
        "1ns",
        "--cores",
        "2",
    ];
    assert_eq!(advised(&common).0["policy"], "fifo", "the fastest by far");
    let prices = ["--memory-price", "1", "--miss-price", "1", "--request-rate", "1000"];
    let prices = [&common[..], &prices, &["--value-bytes", "100"]].concat();
    assert_eq!(advised(&prices).0["policy"], "arc", "little more memory, and fewer misses");
    assert!(told(&prices).contains("the cheapest of all at this size"));
}

#[test]
fn goals_that_say_too_little_are_refused() {
    let advise = |goal: &[&str], words: &[&str]| {
        fails(&[&["advise", "--trace", GENERATED], goal].concat(), 2, words);
    };
    advise(&["--memory-price", "1"], &["--miss-price"]);
    advise(&["--miss-price", "1"], &["--memory-price"]);
    let prices = ["--memory-price", "1", "--miss-price", "1"];
    advise(&prices, &["no object sizes", "--value-bytes"]);
    advise(&[&prices[..], &["--trace", GENERATED]].concat(), &["--request-rate"]);
    advise(&["--budget", "1MiB"], &["--budget", "--value-bytes"]);
    advise(&["--budget", "1KiB", "--value-bytes", "4096"], &["has room for no object"]);
    advise(&["--budget", "5", "--capacity", "10,20"], &["--capacity", "--budget"]);
    advise(&["--unit", "bytes", "--value-bytes", "5"], &["--value-bytes"]);
    advise(&["--target-latency", "p98=1ms"], &["mean=D or p99=D"]);
    advise(&["--target-miss", "5"], &["0% to 100%"]);
    let folder = Folder::new("advise-untimed");
    let rows = (0..20_000).map(|at| format!("{},100\n", at * at % 997)).collect::<String>();
    let untimed = folder.file("untimed.csv", rows);
    let untimed = ["advise", "--trace", &untimed, "--columns", "id=1,size=2", "--header", "no"];
    fails(&[&untimed[..], &prices].concat(), 2, &["no times", "--request-rate"]);
}

/// Memory is printed beside objects if values have a size.
#[test]
fn sizes_are_told_in_bytes_too() {
    let args = ["--trace", GENERATED, "--policy", "lru", "--capacity", "10%"];
    assert!(!told(&args).contains("KiB"));
    let of_key = (60.0 - entry_bytes("lru")).to_string();
    let text = told(&[&args[..], &["--value-bytes", "964", "--key-bytes", &of_key]].concat());
    let known = text.matches("98.0 KiB").count();
    assert!(text.contains("memory") && known >= 3, "{text}");
}

/// Bytes of an entry in the built-in profile, beside key and value.
fn entry_bytes(policy: &str) -> f64 {
    let profile = include_str!("../../src/reference.toml");
    let network = profile.split(&format!("[networks.{policy}]")).nth(1);
    let line = network.and_then(|it| it.split("entry_bytes = ").nth(1)).expect("measured");
    line.lines().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// The same memory holds more entries of a policy with smaller ones.
#[test]
fn a_budget_in_bytes_is_a_capacity_for_each_policy() {
    for policies in ["fifo,lirs", "lirs,fifo", "lirs", "fifo"] {
        let args = ["--trace", GENERATED, "--policy", policies, "--value-bytes", "92"];
        let (answer, cells) = advised(&[&args[..], &["--budget", "16KiB"]].concat());
        let each = |policy: &Value| 100.0 + entry_bytes(policy.as_str().unwrap());
        let bytes = |cell: &Value| cell["capacity"].as_f64().unwrap() * each(&cell["policy"]);
        let used = bytes(&answer);
        assert!((15_900.0..=16_384.0).contains(&used), "{policies}: {used}");
        assert_eq!(answer["goal"]["budget_bytes"], 16_384);
        // No replayed size within it misses less, except by half a point.
        let within = cells.iter().filter(|cell| bytes(cell) <= 16_384.0);
        let misses = within.map(|cell| cell["miss_ratio"].as_f64().unwrap());
        let least = misses.fold(1.0, f64::min);
        assert!(answer["miss_ratio"].as_f64().unwrap() <= least + 0.0051, "{policies}: {answer}");
    }
}

/// Fifty objects of 20 bytes with most of the requests, among others of 20,000.
fn skewed() -> Vec<(u64, u64)> {
    let mut state = 1u64;
    let mut draw = |most: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (state >> 33) % most
    };
    let mut request = || if draw(10) < 6 { (draw(50), 20) } else { (50 + draw(3_000), 20_000) };
    (0..30_000).map(|_| request()).collect()
}

/// Mean bytes of LRU's residents, `beside` added to each, over the second half of the requests.
fn held_by_lru(requests: &[(u64, u64)], capacity: u64, in_bytes: bool, beside: f64) -> f64 {
    let weigh = |size: u64| if in_bytes { size } else { 1 };
    let (mut held, mut used, mut sum) = (Vec::<(u64, u64)>::new(), 0, 0.0);
    for (at, &(id, size)) in requests.iter().enumerate() {
        match held.iter().position(|it| it.0 == id) {
            Some(place) => {
                let it = held.remove(place);
                held.push(it);
            }
            None if weigh(size) <= capacity => {
                while used + weigh(size) > capacity {
                    used -= weigh(held.remove(0).1);
                }
                used += weigh(size);
                held.push((id, size));
            }
            None => {}
        }
        let bytes = held.iter().map(|it| it.1 as f64 + beside).sum::<f64>();
        sum += if at >= requests.len() / 2 { bytes } else { 0.0 };
    }
    sum / (requests.len() - requests.len() / 2) as f64
}

/// If small objects are popular, their share is larger in the cache than in the trace.
#[test]
fn memory_is_that_of_what_is_resident() {
    let folder = Folder::new("advise-skewed");
    let requests = skewed();
    let rows = requests.iter().map(|(id, size)| format!("{id},{size}\n")).collect::<String>();
    let file = folder.file("skewed.csv", rows);
    let common = ["--trace", &file, "--columns", "id=1,size=2", "--header", "no"];
    let common = [&common[..], &["--policy", "lru"]].concat();
    let beside = 8.0 + entry_bytes("lru");
    for (unit, budget, bytes) in [
        ("bytes", "2KiB", 2_048.0),
        ("bytes", "300KiB", 307_200.0),
        ("objects", "300KiB", 307_200.0),
        ("objects", "4MiB", 4_194_304.0),
    ] {
        let of = |capacity: u64| held_by_lru(&requests, capacity, unit == "bytes", beside);
        let goal = [&common[..], &["--unit", unit, "--budget", budget]].concat();
        let (answer, _) = advised(&goal);
        let held = of(answer["capacity"].as_u64().unwrap());
        assert!(0.9 * bytes <= held && held <= 1.005 * bytes, "{unit} {budget}: {held} {answer}");
        for size in ["frugal", "balanced", "ample"].map(|name| &answer["sizes"][name]) {
            let held = of(size["capacity"].as_u64().unwrap());
            let told = size["bytes"].as_f64().unwrap();
            assert!((told / held - 1.0).abs() < 0.05, "{unit}: {told}, {held}: {size}");
        }
    }
    fails(
        &[&["advise"], &common[..], &["--unit", "bytes", "--budget", "60B"]].concat(),
        2,
        &["--budget", "has room for no object"],
    );
}

/// Empty values have keys, and the overhead of an entry.
#[test]
fn entries_without_bytes_take_memory() {
    let folder = Folder::new("advise-empty-values");
    let requests: Vec<(u64, u64)> =
        skewed().into_iter().map(|(id, size)| (id, if size == 20 { 0 } else { size })).collect();
    let rows = requests.iter().map(|(id, size)| format!("{id},{size}\n")).collect::<String>();
    let file = folder.file("empty.csv", rows);
    let common = ["--trace", &file, "--columns", "id=1,size=2", "--header", "no"];
    let cell = ["--policy", "lru", "--unit", "bytes", "--capacity", "2"];
    let (answer, _) = advised(&[common, cell].concat());
    let held = held_by_lru(&requests, 2, true, 8.0 + entry_bytes("lru"));
    let told = answer["sizes"]["balanced"]["bytes"].as_f64().unwrap();
    assert!(held > 2_000.0 && (told / held - 1.0).abs() < 0.01, "{told}, {held}: {answer}");
}

/// An engineer's choice from the curves: none is the last grid size but one only because the grid
/// ends there.
#[test]
fn real_traces_get_their_knees() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let folder = std::env::var_os("FRAZIL_TRACES").map_or_else(|| beside.into(), PathBuf::from);
    // The knee in percent of all objects, from the whole traces.
    for (file, from, to) in [
        ("adaptsize/request.trace.xz", 6.0, 14.0),
        ("arc/OLTP.lis.zst", 6.0, 14.0),
        ("arc/P3.lis.zst", 20.0, 50.0),
        ("cache2k/web12.trace.xz", 7.0, 17.0),
        ("delayedhits/trace.csv", 4.0, 12.0),
        ("libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst", 25.0, 50.0),
        ("libcachesim/twitter_cluster52.csv.zst", 3.0, 8.0),
        ("libcachesim/twitter_cluster52_10m.csv.zst", 2.0, 8.0),
        ("lirs/2_pools.trace.gz", 1.0, 4.0),
        ("lirs/loop.trace.gz", 100.0, 100.0),
        ("lirs/multi1.trace.gz", 5.0, 12.0),
        ("lirs/sprite.trace.gz", 8.0, 16.0),
        ("lirs/zigzag.trace.gz", 100.0, 100.0),
    ] {
        let path = folder.join(file);
        if !path.exists() {
            _ = writeln!(std::io::stderr(), "SKIPPED: no {}", path.display());
            continue;
        }
        let args = ["--policy", "lru,s3-fifo,lirs", "--sample", "20K", "--limit", "1000000"];
        let (answer, _) = advised(&[&["--trace", path.to_str().unwrap()], &args[..]].concat());
        let [frugal, balanced, ample] = three(&answer).map(Option::unwrap);
        assert!(frugal <= balanced && balanced <= ample, "{file}: {answer}");
        let share = answer["share_of_everything"].as_f64().unwrap() * 100.0;
        assert!((from..=to).contains(&share), "{file}: {share} %");
    }
}
