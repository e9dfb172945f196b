//! The documents are right: every command in README.md and in the guide runs, every verb is
//! described by its own help, every link has a target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tasks::TASKS;

pub(crate) const VERBS: [&str; 13] = [
    "simulate",
    "mrc",
    "model",
    "calibrate",
    "advise",
    "bench",
    "reproduce",
    "trace info",
    "trace convert",
    "serve",
    "memcached",
    "completions",
    "man",
];
const VERBS_HEAD: &str = "# Every verb\n\nAs `--help` prints it. Those with `--output` print tables \
                          for people, and with `json` or `csv` rows for scripts. Exit codes are 0 \
                          (done), 1 (failed) and 2 (bad usage).\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md and everything below docs, by path from the root.
fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn read(document: &str) -> String {
    std::fs::read_to_string(root().join(document)).unwrap()
}

fn frazil(args: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frazil")).args(args).current_dir(folder).output().unwrap()
}

/// Command lines of the shell blocks. Blocks that must not run are marked `sh,norun`.
fn commands(document: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut within = false;
    let text = read(document).replace("\\\n", " ");
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            within = line.trim() == "```sh";
        } else if within && !line.trim().is_empty() {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// A reader's command with `frazil` on the path, and the trace `FILE`; `None` for commands that
/// build the project. Without the remark, so that a command with several remarks runs once.
fn typed(line: &str) -> Option<String> {
    let line = line.split(" #").next().unwrap().trim_end();
    let line = match line.strip_prefix("cargo run --release -- ") {
        Some(rest) => format!("frazil {rest}"),
        None => line.to_owned(),
    };
    (!line.starts_with("cargo ")).then(|| line.replace("FILE", "requests.csv.zst"))
}

/// A folder with the files that the documents use.
struct Desk(PathBuf);

impl Desk {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("frazil-book-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let desk = Desk(path);
        for (seed, name) in [
            (1, "requests.csv.zst"),
            (2, "requests.csv.gz"),
            (3, "monday.csv.zst"),
            (4, "sunday.csv.zst"),
        ] {
            let trace = format!("zipf:1.0:objects=1K:requests=20K:seed={seed}");
            let converted = frazil(&["trace", "convert", &trace, name], &desk.0);
            assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
        }
        // With times and sizes, and more objects than any capacity in the documents.
        let row = |at: u64| {
            let id = at * at % 997;
            format!("{},{id},{}\n", at / 50, 200_000 + id * 300)
        };
        let rows: String = (0..20_000).map(row).collect();
        std::fs::write(desk.0.join("cdn.csv"), rows).unwrap();
        let args = [
            "trace",
            "convert",
            "cdn.csv",
            "cdn.bin",
            "--to",
            "oracle-general",
            "--columns",
            "time=1,id=2,size=3",
            "--header",
            "no",
        ];
        let converted = frazil(&args, &desk.0);
        assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
        desk
    }

    fn run(&self, line: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_frazil")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-c", line])
            .env("PATH", format!("{}:{path}", program.display()))
            .current_dir(&self.0)
            .output()
            .unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_command_of_the_documents_runs() {
    let quick = std::env::var_os("FRAZIL_QUICK").is_some_and(|quick| quick == "1");
    let documents = documents();
    let typed: BTreeSet<String> = documents
        .iter()
        // The tasks have a test of their own, which keeps the order of their commands.
        .filter(|document| !TASKS.contains(&document.as_str()))
        .flat_map(|document| commands(document))
        .filter_map(|line| typed(&line))
        // Without a trace it has four million requests to replay.
        .filter(|line| !(quick && line == "frazil advise"))
        .collect();
    assert!(typed.len() > 20, "only {typed:?}");
    let desk = Desk::new();
    for line in &typed {
        assert!(line.contains("frazil "), "`{line}` is no command of ours");
        let output = desk.run(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("error: "), "`{line}`: {stderr}");
        let told = !output.stdout.is_empty() || stderr.contains("wrote ");
        assert!(told, "`{line}` printed nothing");
    }
}

#[test]
fn every_verb_is_in_the_book_as_its_help_has_it() {
    let mut text = VERBS_HEAD.to_owned();
    for verb in VERBS {
        let args: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let help = String::from_utf8(frazil(&args, &root()).stdout).unwrap();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        text += &format!("\n## frazil {verb}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    }
    let path = root().join("docs/verbs.md");
    if std::env::var_os("FRAZIL_WRITE_VERBS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == text,
        "`FRAZIL_WRITE_VERBS=1 cargo test -p frazil-cli --features full --test commands` writes it"
    );
}

#[test]
fn links_lead_somewhere_and_the_book_has_every_page() {
    let summary = read("docs/SUMMARY.md");
    for document in documents() {
        let folder = root().join(&document).parent().unwrap().to_owned();
        for link in links(&read(&document)) {
            assert!(folder.join(link).exists(), "{document}: nothing at {link}");
        }
        if let Some(page) = document.strip_prefix("docs/").filter(|&page| page != "SUMMARY.md") {
            assert!(summary.contains(&format!("({page})")), "docs/SUMMARY.md has no {page}");
        }
    }
}

/// Files that a document links to.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let files = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

/// A figure of docs/cache-speed.md: of an engine in a workload with `threads` threads.
fn measured(workload: &str, threads: &str, engine: &str, column: &str) -> Option<String> {
    let page = read("docs/cache-speed.md");
    let section = page.split(&format!("\n{workload}: workload ")).nth(1)?;
    let rows = section.lines().skip(2).take_while(|line| !line.is_empty());
    let mut rows = rows.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[..2] == [threads, engine])?;
    let at = match column {
        "M ops/s" => 2,
        "one pass" => 6,
        _ => row.len() - 2,
    };
    Some(row[at].to_owned())
}

#[test]
fn the_readme_has_the_figures_of_the_table_that_it_links() {
    let readme = read("README.md");
    let table: Vec<Vec<&str>> = readme
        .lines()
        .skip_while(|line| !line.starts_with("| | Frazil (Mobius)"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let engines: Vec<&str> = table[0][1..]
        .iter()
        .map(
            |head| if head.contains("Mobius") { "mobius" } else { head.split(' ').next().unwrap() },
        )
        .collect();
    let mut compared = 0;
    for row in &table[2..] {
        let workload = row[0].split('`').nth(1).expect("it is named");
        let threads = if row[0].contains("one thread") { "1" } else { "2" };
        let column = match row[0] {
            name if name.contains("bytes") => "B/entry",
            name if name.contains("one pass") => "one pass",
            _ => "M ops/s",
        };
        for (engine, told) in engines.iter().zip(&row[1..]) {
            let figure = measured(workload, threads, engine, column);
            assert_eq!(figure.as_deref(), Some(told.trim_matches('*')), "{engine}: {}", row[0]);
            compared += 1;
        }
    }
    assert_eq!(compared, 28);
}
