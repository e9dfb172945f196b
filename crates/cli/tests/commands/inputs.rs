//! Odd and bad traces, names, sizes and addresses: the result and the message of each, as in
//! docs/inputs.md.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::command::{Folder, fails, frazil, json_lines};

const HEAD: &str = "# Odd and bad inputs\n\nThe results of odd and bad inputs, and their messages \
                    on standard error. A test runs every line of this page, and \
                    `FRAZIL_WRITE_INPUTS=1 cargo test -p frazil-cli --features full --test \
                    commands -- every_odd_input` writes it. `\\n` ends a line of the file.\n\n\
                    | input | command | outcome | message |\n|---|---|---|---|\n";

const LOG: &str =
    "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif HTTP/1.0\" 200 2326\n";
const COMBINED: &str =
    "::1 - - [10/Oct/2000:20:55:37 +0000] \"GET /b HTTP/1.1\" 304 - \"-\" \"curl\"\n";
const OTHER: &str = "::1 - - [10/Oct/2000:20:55:37 +0000] \"OPTIONS * HTTP/1.1\" 200 0\n\
                     ::1 - - [10/Oct/2000:20:55:38 +0000] \"-\" 408 0\n";
const INFO: &str = "trace info FILE";
const SKIP: &str = "trace info FILE --skip-bad-rows";
const COLUMNS: &str = "trace info FILE --columns id=2,size=3";

/// Commands that need no file.
const WITHOUT_FILE: [&str; 16] = [
    "serve --resp 127.0.0.1:0 --check --memory 64MB",
    "serve --resp 127.0.0.1:0 --check --memory 1e8",
    "serve --resp 127.0.0.1:0 --check --memory 12XB",
    "serve --resp 127.0.0.1:0 --check --item-max 1.5",
    "serve --resp 127.0.0.1:0 --check --key-max 256",
    "serve --resp 127.0.0.1:0 --check --line-max 1MiB",
    "serve --resp 127.0.0.1:0 --memory 1MiB",
    "serve --resp localhost --check",
    "serve --resp 127.0.0.1:http --check",
    "serve --resp ::1 --check",
    "serve --resp unix: --check",
    "serve --resp 0.0.0.0:6379 --check",
    "serve --memory 64MB",
    "memcached -m 64MB",
    "memcached -l 127.0.0.1:http",
    "man serv",
];

/// The content of the file, and the command that reads it.
fn inputs() -> Vec<(String, &'static str)> {
    let of = |content: &str, command| (content.to_owned(), command);
    vec![
        of("time,url,size\n2026-11-26T16:28:18Z,/a,7\n2026-11-26T16:28:19.5Z,/b,9\n", INFO),
        of("time,id\n2026-11-26 16:28:18,1\n2026-11-26 18:28:19+02:00,2\n", INFO),
        of("time|key|size\n2026-11-26T16:28:18Z|a|7\n2026-11-26T16:28:19Z|b|9\n", INFO),
        of("time;key;size\n1,5;a;7\n2,5;b;9\n", INFO),
        of("time;key;size\n1;a;7\n2;b;9\n", INFO),
        of("time\tkey\tsize\n1\ta\t7\n2\tb\t9\n", INFO),
        of("time,key,size\n1,\"a,b\",7\n2,\"say \"\"hi\"\"\",9\n", INFO),
        of("time,key,size\n1,\"a,7\n", INFO),
        of("when,what,bytes\n1,a,7\n2,b,9\n", INFO),
        of("thing,status,agent\n/a,200,curl\n/b,404,curl\n/a,200,curl\n", INFO),
        of("key,url,hits\na,/x,7\na,/y,9\n", COLUMNS),
        of("url,hits\n/a,7\n/b,9\n", "trace info FILE --columns id=1"),
        of("id,When,user\n9,1,a\n9,2,b\n", "trace info FILE --columns time=When,id=user"),
        of("time,user\n1,a\n", "trace info FILE --columns id=usr"),
        of("{\"id\": 9, \"user\": \"a\"}\n", "trace info FILE --columns id=user"),
        of("{\"id\": 9}\n", "trace info FILE --columns id=1 --format json"),
        of("/a,7\n/b,9\n", INFO),
        of("/a,7\n/b,9\n", "trace info FILE --columns id=1,size=2"),
        of("user|1\nuser|2\nuser|1\n", INFO),
        of(
            "{\"ts\": 1.5, \"key\": \"a\", \"bytes\": 7}\n{\"bytes\": 9, \"ts\": 2, \"key\": \"b\"}\n",
            INFO,
        ),
        of(
            "{\"time\": \"2026-11-26T16:28:18Z\", \"request_uri\": \"/a\", \"body_bytes_sent\": 7}\n",
            INFO,
        ),
        of("{\"a\": 1, \"b\": 2}\n", INFO),
        of("{\"id\": 1}\n{\"id\": 2\n{\"id\": 3}\n", INFO),
        of("[{\"id\": 1}, {\"id\": 2}]\n", INFO),
        (format!("{LOG}{COMBINED}"), INFO),
        (format!("{COMBINED}{LOG}"), INFO),
        (format!("{LOG}oops\n{COMBINED}"), INFO),
        (format!("{LOG}oops\n{COMBINED}"), SKIP),
        (format!("{LOG}{OTHER}"), INFO),
        (OTHER.to_owned(), INFO),
        of("::1 - - [yesterday] \"GET / HTTP/1.1\" 200 5\n", INFO),
        of("time,id,size\n1,2,3\noops\n4,5,6\n", INFO),
        of("time,id,size\n1,2,3\noops\n4,5,x\n", SKIP),
        of("a b c\nd e f\n", SKIP),
        of("time,id\n5,1\n3,2\n4,1\n", INFO),
        of("time,id,size\n1,2,5000000000\n", INFO),
        of("time,id,size\n1,2,5000000000000\n", INFO),
        of("1,99999999999999999999,5\n2,99999999999999999998,5\n", INFO),
        of("hello world and more\n", INFO),
        of("Event Time,Client,Request URL,Bytes Sent\n2026-11-26 16:28:18,a,/x,7\n", INFO),
        of("time,key,size\n1,0123,7.0\n2,123,NaN\n3,00123,\n", INFO),
        of("key,op,size,op_count\n7,GET_LEASE,5,3\n7,SET_LEASE,5,1\n", INFO),
        of("{\"ts\":1,\"key\":\"a\"}\n{\"ts\":2,\"key\":\"b\",\"size\":5}\n", INFO),
        of("419,W,879,163,15\n725,R,591,36,16\n", INFO),
        of("It was a dark night, and\nThe ship, old as\n", INFO),
        of("", INFO),
        of("# nothing but a comment\n", INFO),
        of("1\n2\n1\n", "trace convert FILE - --to csv"),
        of("1\n2\n1\n", "simulate FILE --policy lru,lru,clock,clock:bits=1 --capacity 1,1"),
        of("1\n2\n1\n", "simulate FILE --policy lruu --capacity 1"),
        of("1\n2\n1\n", "simulate FILE --policy LRU --capacity 1"),
        of("1\n2\n1\n", "mrc FILE --policy s3fifo"),
        of("1\n2\n1\n", "advise FILE --policy tinylfu"),
        of("1,7,64000\n2,8,9\n", "simulate FILE --policy lru --capacity 64kB --unit bytes"),
        of("1\n2\n1\n", "simulate FILE --policy lru --capacity 1e6"),
        of("1\n2\n1\n", "simulate FILE --policy lru --capacity 1.5"),
        of("1\n2\n1\n", "trace info FILE --format twiter"),
        of("1\n2\n1\n", "simulate --policy lru --capacity 1"),
        of("1\n2\n1\n", "trace info FILE --limit 1e0"),
    ]
}

fn run(folder: &Path, words: impl IntoIterator<Item = OsString>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    command.args(words).current_dir(folder).output().unwrap()
}

/// The description of a trace, or the number of rows.
fn outcome(output: &Output, command: &str) -> String {
    if !output.status.success() {
        return format!("error, exit code {}", output.status.code().unwrap_or(-1));
    }
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    if command.contains("convert") {
        return format!("``{}``", text.trim_end().replace('\n', "\\n"));
    }
    if command.contains("--check") {
        let memory = text.lines().find(|line| line.starts_with("memory = "));
        return format!("`{}`", memory.unwrap());
    }
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    if !command.contains("info") {
        let row = |row: &Value| {
            let (policy, capacity) = (row["policy"].as_str().unwrap(), &row["capacity"]);
            format!("{policy} at {capacity} misses {}", row["misses"])
        };
        return rows.iter().map(row).collect::<Vec<_>>().join("; ");
    }
    let row = &rows[0];
    let mut said = format!("{}: {} requests", row["format"].as_str().unwrap(), row["requests"]);
    if row["deletes"] != 0 {
        said += &format!(", {} deletes", row["deletes"]);
    }
    said += &format!(", {} objects", row["objects"]);
    for (name, unit) in [("footprint_bytes", "bytes"), ("span_seconds", "s")] {
        if !row[name].is_null() {
            said += &format!(", {} {unit}", row[name]);
        }
    }
    said
}

/// A cell of a table in Markdown.
fn cell(text: &str) -> String {
    let text = text.trim_end().replace('\n', "\\n").replace('\t', "\\t").replace('|', "\\|");
    if text.is_empty() { "(nothing)".to_owned() } else { format!("`` {text} ``") }
}

#[test]
fn every_odd_input_is_in_the_book_with_what_becomes_of_it() {
    let folder = Folder::new("odd-inputs");
    let without_file = WITHOUT_FILE.map(|command| (String::new(), command));
    let inputs = [inputs(), without_file.to_vec()].concat();
    assert!(inputs.len() >= 40);
    let mut text = HEAD.to_owned();
    for (content, command) in &inputs {
        folder.file("FILE", content);
        let reads = ["trace info", "simulate", "mrc", "advise"];
        let json = reads.iter().any(|verb| command.starts_with(verb));
        let words = command.split(' ').chain(json.then_some("--output=json"));
        let output = run(Path::new(&folder.path("")), words.map(OsString::from));
        let stderr = String::from_utf8(output.stderr.clone()).unwrap();
        let failed = !output.status.success();
        assert_eq!(
            stderr.lines().filter(|line| line.starts_with("error: ")).count(),
            usize::from(failed)
        );
        let said: Vec<String> = stderr.lines().map(cell).collect();
        let (outcome, said) = (outcome(&output, command), said.join("<br>"));
        let outcome = outcome.replace('|', "\\|");
        text += &format!("| {} | `{command}` | {outcome} | {said} |\n", cell(content));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/inputs.md");
    if std::env::var_os("FRAZIL_WRITE_INPUTS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    for (known, now) in known.lines().zip(text.lines()) {
        assert_eq!(known, now, "the head of docs/inputs.md says what writes it");
    }
    assert_eq!(known.len(), text.len());
}

#[cfg(unix)]
#[test]
fn names_that_are_no_text_are_read_and_shown() {
    use std::os::unix::ffi::OsStringExt;
    let folder = Folder::new("no-text");
    let name = OsString::from_vec(b"gr\xfcn.txt".to_vec());
    std::fs::write(Path::new(&folder.path("")).join(&name), "1\n2\n1\n").unwrap();
    let words = |verb: &str| verb.split(' ').map(OsString::from).collect::<Vec<_>>();
    for (before, after) in [
        ("trace info", ""),
        ("simulate", "--policy lru --capacity 1"),
        ("mrc --trace", ""),
        ("trace convert", "-"),
    ] {
        let after = after.split_whitespace().map(OsString::from);
        let all = words(before).into_iter().chain([name.clone()]).chain(after);
        let output = run(Path::new(&folder.path("")), all);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && stderr.contains("gr\\xfcn.txt"), "{before}: {stderr}");
    }
    let out = OsString::from_vec(b"r\xfct.csv".to_vec());
    let all = words("trace convert").into_iter().chain([name, out]);
    let stderr = String::from_utf8(run(Path::new(&folder.path("")), all).stderr).unwrap();
    assert!(stderr.contains("wrote 3 records as csv to r\\xfct.csv"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn an_input_is_never_written_over() {
    let folder = Folder::new("same-file");
    let content = "time,id,size\n1,2,3\n2,2,3\n";
    let input = folder.file("in.csv", content);
    let (link, hard) = (folder.path("link.csv"), folder.path("hard.csv"));
    std::os::unix::fs::symlink(&input, &link).unwrap();
    std::fs::hard_link(&input, &hard).unwrap();
    for out in [&input, &link, &hard] {
        fails(&["trace", "convert", &input, out], 2, &["is also read", "another file"]);
        fails(&["advise", &input, "--report", out], 2, &["is also read", "another file"]);
        assert_eq!(std::fs::read_to_string(&input).unwrap(), content);
    }
}

#[test]
fn the_ending_of_the_output_gives_the_format() {
    let folder = Folder::new("ending");
    let input = folder.file("in.csv", "time,id,size\n1,2,3\n2,2,3\n");
    for (name, to) in [
        ("out.frazil", "frazil"),
        ("out.frazil.gz", "frazil"),
        ("out.CSV", "csv"),
        ("out.jsonl", "json"),
        ("out.oracleGeneral.zst", "oracle-general"),
    ] {
        let out = folder.path(name);
        assert!(frazil(&["trace", "convert", &input, &out]).status.success());
        let row = &json_lines(&frazil(&["trace", "info", &out, "--output", "json"]))[0];
        assert_eq!(row["format"], to);
    }
    let out = folder.path("out.dat");
    fails(&["trace", "convert", &input, &out], 2, &["names no format", "--to csv"]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn advice_needs_an_object_that_is_requested_twice() {
    let folder = Folder::new("distinct");
    let rows: String = (0..40).map(|row| format!("{row},user-{row},7\n")).collect();
    let input = folder.file("in.csv", format!("time,key,size\n{rows}"));
    fails(&["advise", &input], 1, &["requested twice", "--columns id=NAME", "--force"]);
    assert!(frazil(&["advise", &input, "--force", "--policy", "lru"]).status.success());
}

/// Miss ratios by bytes of a log in which 304 answers are common, which an independent count gives.
#[test]
fn the_size_of_an_object_comes_from_its_full_answers() {
    let folder = Folder::new("answers");
    let line = |object: u32, status: u32, bytes: u32| {
        format!(
            "::1 - - [10/Oct/2000:20:55:37 +0000] \"GET /{object} HTTP/1.1\" {status} {bytes}\n"
        )
    };
    let log: String =
        (0..8).map(|it| line(it, 304, 0)).chain((0..6).map(|it| line(it, 200, 1000))).collect();
    let input = folder.file("access.log", log);
    let row = &json_lines(&frazil(&["trace", "info", &input, "--output", "json"]))[0];
    assert_eq!(row["footprint_bytes"], 8000);
    for (capacity, misses) in [("7999", 14), ("8000", 8)] {
        let words = ["--policy", "lru", "--unit", "bytes", "--output", "json", "--capacity"];
        let words = [&["simulate", input.as_str()], &words[..], &[capacity]].concat();
        let output = frazil(&words);
        assert_eq!(json_lines(&output)[0]["misses"], misses, "{capacity}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("objects whose size no record has: 2"), "{said}");
    }
}
