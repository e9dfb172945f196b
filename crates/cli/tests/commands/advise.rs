//! `frazil advise` as a user meets it: what it recommends, of what, and how it says so.

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
    // LRU finds nothing in a loop that is longer than it.
    assert_eq!((&both["policy"], &both["capacity"]), (&"lirs".into(), &800.into()));
    let mops = |cell: &Value| cell["throughput_mops"].as_f64().unwrap();
    assert!(mops(&cells[3]) > 2.0 * mops(&cells[2]), "{cells:?}");
    let share =
        |trace: usize| mops(&cells[trace + 1]) / mops(&cells[trace]).max(mops(&cells[trace + 1]));
    // As good as the best on both: the one on which it is slowest.
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

/// A long trace is advised on by a sample of its objects, which a pipe gives as well as a file.
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
    // Said before the replay, which may take minutes.
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
    assert!(!told.contains("Beware: nothing"), "{told}");
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

/// A policy with parameters that were not measured is told from one that was.
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
        "Assumed of what is frozen: it is frozen once",
        "a look takes as long as the profile says",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    // A look is worth nothing that takes as long as a hit without turns.
    let folder = Folder::new("frozen-profile");
    let fifo = "machine = { description = \"here\", cores = 2 }\nthink.it = { mean_us = 0.1 }\n\
                networks.fifo = { hit = { think = { it = 1 } }, miss = { think = { it = 1 } } }";
    let fifo = folder.file("fifo.toml", fifo);
    let flat = ["advise", "--trace", WARM, "--capacity", "5%", "--policy", "fifo,frozen+fifo"];
    let flat =
        frazil(&[&flat[..], &["--cores", "2", "--backend", "0", "--profile", &fifo]].concat());
    let text = String::from_utf8(flat.stdout).unwrap();
    for told in ["frozen+fifo nothing, as no share is faster", "as the profile has no other"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let short = ["advise", "--trace", WARM, "--limit", "5000", "--policy", "frozen:share=1+lru"];
    let text = String::from_utf8(frazil(&short).stdout).unwrap();
    assert!(text.contains("nothing, as the trace ends before the cache is warm"), "{text}");
    let bad = ["advise", "--trace", WARM, "--policy", "frozen+lirs"];
    fails(&bad, 2, &["`lirs` cannot be frozen"]);
}

/// What is not known is not said: no spread, no cost, nobody to compare with.
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
    assert!(alone.contains("no other of known speed was compared"), "{alone}");
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
