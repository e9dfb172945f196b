//! Lifetimes in the command: of a trace, by flag, and notes about ignored ones.

use std::path::PathBuf;
use std::process::{Command, Output};

use frazil_recording::{Encoder, FOR_EVER, Header, Lifetimes, Operation, Record};
use serde_json::Value;

const S: u64 = 1_000_000_000;

/// A file that is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn with(name: &str, content: &[u8]) -> Self {
        let name = format!("frazil-ttl-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Temporary(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_frazil")).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn rows(words: &[&str]) -> (Vec<Value>, String) {
    let (code, out, notes) = run(&[words, &["--output", "json"]].concat());
    assert_eq!(code, Some(0), "{notes}");
    (out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), notes)
}

fn failure(words: &[&str]) -> String {
    let (code, _, notes) = run(words);
    assert_eq!(code, Some(2), "{notes}");
    notes
}

/// Ten objects in turn, ten times, a second apart; each lives half a minute from its insertion.
fn csv(name: &str, header: &str) -> Temporary {
    let mut text = format!("{header}\n");
    (0..100).for_each(|time| text += &format!("{time},{},30\n", time % 10));
    Temporary::with(name, text.as_bytes())
}

#[test]
fn a_column_is_replayed_unless_a_flag_says_else() {
    let file = csv("column.csv", "time,id,ttl");
    // As a stream, in memory, and by LRU's curve, which needs a replay then.
    for policies in ["lru", "lru,fifo"] {
        for (flags, misses, expired, lifetimes) in [
            (&[][..], 40, 30, "of the trace, median 30 s".into()),
            (&["--ttl", "trace"], 40, 30, "of the trace, median 30 s".into()),
            (&["--ttl", "10s"], 100, 90, "10 s for all".into()),
            (&["--ttl", "1h"], 10, 0, "1 h for all".into()),
            (&["--ttl", "none"], 10, -1, Value::Null),
        ] {
            let at = ["--trace", file.name(), "--capacity", "10", "--policy", policies];
            let (simulated, notes) = rows(&[&["simulate"], &at[..], flags].concat());
            let (curve, _) = rows(&[&["mrc"], &at[..], flags].concat());
            let (advised, _) = rows(&[&["advise"], &at[..], flags].concat());
            let none = flags.contains(&"none");
            let note = "(median 30 s of the first) are ignored because of --ttl none";
            assert_eq!(notes.matches(note).count(), usize::from(none), "{notes}");
            assert_eq!(notes.contains("ignored"), none, "{notes}");
            let told = advised.last().unwrap()["cautions"].to_string();
            assert_eq!(told.contains(note), none, "{told}");
            let expired = if expired < 0 { Value::Null } else { expired.into() };
            for row in [&simulated[0], &curve[0], &advised[0]] {
                assert_eq!(row["miss_ratio"], misses as f64 / 100.0, "{flags:?}: {row}");
                assert_eq!((&row["expired"], &row["lifetimes"]), (&expired, &lifetimes), "{row}");
            }
            assert_eq!(simulated[0]["misses"], misses);
        }
    }
    let table =
        |verb: &str| run(&[verb, "--trace", file.name(), "--capacity", "10", "--policy", "fifo"]).1;
    for verb in ["simulate", "mrc"] {
        assert!(table(verb).ends_with("lifetimes: of the trace, median 30 s\n"), "{verb}");
    }
    assert!(table("advise").contains("Entries expire, by lifetimes: of the trace, median 30 s."));
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let timed = csv("timed.csv", "time,id,ttl");
    let untimed = Temporary::with("untimed.csv", b"id,ttl\n1,5\n2,5\n1,5\n");
    let plain = Temporary::with("plain.csv", b"time,id\n1,5\n2,5\n3,5\n");
    let simulate = |file: &Temporary, flags: &[&str]| -> Vec<String> {
        let words = ["simulate", "--trace", file.name(), "--capacity", "2", "--policy", "lru"];
        words.iter().chain(flags).map(|&word| word.to_owned()).collect()
    };
    let fails = |file: &Temporary, flags: &[&str]| {
        let words = simulate(file, flags);
        failure(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for verb in ["simulate", "mrc", "advise"] {
        let failed = failure(&[
            verb,
            "--trace",
            untimed.name(),
            "--capacity",
            "2",
            "--policy",
            "lru",
            "--ttl",
            "5s",
        ]);
        assert!(failed.contains("has no times"), "{failed}");
        let (_, notes) =
            rows(&[verb, "--trace", untimed.name(), "--capacity", "2", "--policy", "fifo"]);
        assert_eq!(notes.matches("its lifetimes are ignored").count(), 1, "{notes}");
    }
    assert!(fails(&plain, &["--ttl", "trace"]).contains("has no lifetimes"));
    assert!(fails(&plain, &["--ttl", "10"]).contains("expected a duration"));
    let fetches = ["--ttl", "5s", "--fetch-latency", "3"];
    assert!(fails(&timed, &fetches).contains("--fetch-latency"));
    let (_, _, notes) = run(&[
        "simulate",
        "--trace",
        timed.name(),
        "--capacity",
        "2",
        "--policy",
        "lru",
        "--fetch-latency",
        "3",
    ]);
    assert!(notes.contains("its lifetimes are ignored"), "{notes}");
    let belady = ["simulate", "--trace", timed.name(), "--capacity", "2", "--policy", "belady"];
    assert!(failure(&belady).contains("can't take expiry into account"));
    assert_eq!(run(&[&belady[..], &["--ttl", "none"]].concat()).0, Some(0));
}

fn recording(name: &str, lifetimes: Lifetimes, told: [Option<u64>; 3]) -> Temporary {
    let mut file = Vec::new();
    let header = Header { rate: 1.0, start_unix_ns: 1, has_sizes: false, lifetimes };
    let mut encoder = Encoder::new(&mut file, &header).unwrap();
    for (time, lifetime_ns) in told.into_iter().enumerate() {
        let (time_ns, operation) = (time as u64 * 10 * S, Operation::Get);
        encoder.push(&Record { time_ns, id: 7, size: None, operation, lifetime_ns }).unwrap();
    }
    encoder.finish(0, Some(3)).unwrap();
    Temporary::with(name, &file)
}

#[test]
fn a_recording_says_what_it_leaves_out() {
    for (lifetimes, told, misses, note) in [
        (Lifetimes::None, [None; 3], 1, ""),
        (Lifetimes::Told, [Some(10 * S), None, Some(FOR_EVER)], 3, ""),
        (Lifetimes::Told, [Some(15 * S), None, None], 2, ""),
        (Lifetimes::Told, [None; 3], 1, "entries of its cache could expire"),
        (Lifetimes::Moved, [Some(15 * S), None, None], 2, "uses extended lifetimes"),
        (Lifetimes::Unknown, [None; 3], 1, "from a version that recorded no lifetimes"),
    ] {
        let file = recording("left-out.frazil", lifetimes, told);
        for policy in ["lru", "lru,fifo"] {
            let words = ["simulate", "--trace", file.name(), "--capacity", "5", "--policy", policy];
            let (rows, notes) = rows(&words);
            assert_eq!(rows[0]["misses"], misses, "{lifetimes:?} {told:?}");
            assert_eq!(notes.matches("ignored").count(), usize::from(!note.is_empty()), "{notes}");
            assert!(notes.contains(note), "{notes}");
        }
    }
}

#[test]
fn a_copy_keeps_lifetimes_where_its_format_has_them() {
    let file = recording("copied.frazil", Lifetimes::Told, [Some(15 * S), None, Some(FOR_EVER)]);
    let copy = Temporary::with("copy.csv", b"");
    let convert = |to: &str| {
        let (code, _, notes) = run(&["trace", "convert", file.name(), copy.name(), "--to", to]);
        assert_eq!(code, Some(0), "{notes}");
        notes
    };
    for to in ["csv", "frazil", "twitter"] {
        assert!(!convert(to).contains("has lifetimes"));
        let (rows, _) = rows(&["trace", "info", copy.name(), "--format", to]);
        let told = if to == "twitter" { 1 } else { 2 };
        assert_eq!(rows[0]["lifetimes"], told, "{to}");
        assert_eq!(rows[0]["lifetime_median_seconds"], 15.0);
        assert_eq!(rows[0]["lifetime_longest_seconds"], 15.0);
    }
    let text = run(&["trace", "info", file.name()]).1;
    assert!(text.contains("lifetimes           of 2 records, median 15 s, longest 15 s"), "{text}");
    assert!(convert("plain").contains("has lifetimes, which format plain can't hold"));
}

/// The avoidable misses of a cache for everything are known although only a small size is compared.
#[test]
fn a_small_size_is_judged_by_what_all_would_avoid() {
    let trace = "zipf:1.0:objects=1K:requests=20K:seed=1";
    let words = ["advise", "--trace", trace, "--policy", "lru", "--capacity", "10", "--ttl"];
    let avoidable = |ttl: &str| {
        let (rows, _) = rows(&[&words[..], &[ttl]].concat());
        let answer = rows.last().unwrap();
        assert_eq!(answer["capacity"], 10, "{answer}");
        answer["avoidable"].as_f64().unwrap()
    };
    let (for_ever, soon) = (avoidable("none"), avoidable("1ms"));
    assert_eq!(avoidable("1h"), for_ever);
    assert!(soon < for_ever && soon > 0.2, "{soon}, {for_ever}");
}
