//! `frazil calibrate` from the outside: `frazil model` reads its output.

use std::path::PathBuf;
use std::process::{Command, Output};

use frazil_queueing::{Conditions, Profile, Visits};
use serde_json::Value;

fn frazil(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frazil")).args(args).output().unwrap()
}

/// A file that is removed after the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("frazil-calibrate-{}-{name}", std::process::id());
        File(std::env::temp_dir().join(name))
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

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_written_is_what_the_model_reads() {
    let file = File::new("machine.toml");
    let asked = "lru,lru-prob:q=0.5,sieve,clock";
    let common = ["--capacity", "1K,4K", "--seconds", "1", "--force", "--output", file.path()];
    let output = frazil(&[&["calibrate", "--policy", asked], &common[..]].concat());
    assert!(output.status.success(), "{}", stderr_of(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("lru-prob:q=0.5") && said.contains("At 4,000 entries"), "{said}");
    let profile = Profile::parse(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
    let names: Vec<&str> = profile.networks.keys().map(String::as_str).collect();
    assert_eq!(names, ["clock", "lru", "lru-prob:q=0.5", "sieve"]);
    let quality = profile.quality.unwrap();
    assert!(quality.runs > 0 && quality.disturbed <= quality.runs, "{quality:?}");
    assert!(profile.machine.measured.is_some() && profile.machine.cores >= 1);
    // The operations that take turns, and their stations: LRU on hits too, SIEVE on misses, CLOCK
    // at a queue.
    let at = |name: &str| profile.stations.get(name).and_then(|it| it.at.as_deref());
    assert_eq!((at("lru.hit"), at("lru.miss")), (Some("lock"), Some("lock")));
    assert_eq!((at("sieve.hit"), at("sieve.miss")), (None, Some("lock")));
    assert_eq!((at("clock.hit"), at("clock.miss")), (None, Some("queue")));
    // Skipped items have a cost, and a number that the simulator has counted.
    let skips = |counts: &std::collections::BTreeMap<String, Visits>, name: &str| matches!(counts.get(name), Some(Visits::Constant(skips)) if *skips > 0.0);
    assert!(skips(&profile.networks["sieve"].miss.stations, "sieve.skip"));
    assert!(skips(&profile.networks["clock"].miss.think, "clock.skip"));
    assert!(profile.stations["lru.hit"].spread_us.is_some());
    // A miss takes longer than a hit, for most policies: other work on the machine distorts costs.
    // Some may exceed the model's limits; --force writes them nevertheless.
    let is_longer = |name: &&&str| {
        let alone = |hit_ratio| {
            let conditions = Conditions { cores: Some(1), ..Conditions::new(hit_ratio, 0.0) };
            let network = profile.network_under(name, &conditions).ok()?;
            Some(frazil_queueing::solve(&network, 1).ok()?.response_us)
        };
        alone(0.0).zip(alone(1.0)).is_some_and(|(miss, hit)| miss >= hit)
    };
    assert!(names.iter().filter(is_longer).count() >= 2, "{:?}", profile.networks);

    let profile = ["--profile", file.path(), "--output", "json"];
    let ask = |more: &[&str]| frazil(&[&["model"], &profile[..], more].concat());
    let output = ask(&["--network", "lru", "--capacity", "2K", "--threads", "1", "--mpl", "4"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let row: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(row["throughput_mops"].as_f64().unwrap() > 0.0, "{row}");

    let output = ask(&["--network", "arc"]);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr_of(&output);
    assert!(error.contains("frazil calibrate --policy arc"), "{error}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let file = File::new("never.toml");
    let out = ["--output", file.path()];
    for (args, code, word) in [
        (&["--policy", "lur"][..], 2, "lur"),
        (&["--policy", "belady"], 2, "belady"),
        (&["--capacity", "10%"], 2, "entries"),
        (&["--capacity", "1MiB"], 2, "--capacity 1MiB: expected a number of entries"),
        (&["--capacity", "10"], 2, "100"),
        (&["--seconds", "0"], 2, "seconds"),
        (&["--seconds", "nan"], 2, "seconds"),
    ] {
        let output = frazil(&[&["calibrate"], args, &out[..]].concat());
        let error = stderr_of(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        let one_line = error.lines().count() == 1 && error.starts_with("error: ");
        assert!(one_line && error.contains(word), "{args:?}: {error}");
        assert!(!file.0.exists(), "{args:?} left a file");
    }
    assert_eq!(frazil(&["calibrate"]).status.code(), Some(2), "no --output");
    let nowhere = frazil(&["calibrate", "--output", "/nowhere/machine.toml"]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr_of(&nowhere).contains("/nowhere/machine.toml"));
    let paper = frazil(&["model", "--network", "lru", "--capacity", "10K"]);
    assert_eq!(paper.status.code(), Some(2), "the paper has no capacities");
}
