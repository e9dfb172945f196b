//! The book's tasks, each from top to bottom as by a reader: in an empty folder, every block of
//! commands in order, compared with the output on the page.
//!
//! A block `text` after a block `sh` is the output of its commands, and is compared, except for
//! `text,varies`. A block `sh,norun` takes too long. A program in Rust is in `programs/`, where it
//! is compiled, and runs at its place in the page.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod record {
    include!("programs/record.rs");

    pub(super) fn run() -> std::io::Result<()> {
        main()
    }
}

/// Pages that are tasks.
pub(crate) const TASKS: [&str; 5] = [
    "docs/guide/calibrate.md",
    "docs/guide/choose.md",
    "docs/guide/freezing.md",
    "docs/guide/record.md",
    "docs/guide/report.md",
];
/// Set it to write the output of the commands into the pages. On a quiet machine, and with
/// `RUST_TEST_THREADS=1`, because a calibration beside another test is disturbed.
const WRITE: &str = "FRAZIL_WRITE_TASKS";
/// Names the program as which this test program runs.
const PROGRAM: &str = "FRAZIL_TASK_PROGRAM";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A block of a page: the label of its fence, and its lines.
struct Block {
    info: String,
    text: String,
}

/// The page in pieces: text and blocks in turn, beginning and ending with text.
fn blocks(page: &str) -> (Vec<String>, Vec<Block>) {
    let (mut between, mut blocks) = (vec![String::new()], Vec::<Block>::new());
    let mut open = false;
    for line in page.split_inclusive('\n') {
        match line.strip_prefix("```") {
            Some(info) if !open => {
                blocks.push(Block { info: info.trim().to_owned(), text: String::new() });
                open = true;
            }
            Some(_) => {
                between.push(String::new());
                open = false;
            }
            None if open => blocks.last_mut().unwrap().text += line,
            None => *between.last_mut().unwrap() += line,
        }
    }
    assert!(!open, "a block without an end");
    (between, blocks)
}

fn run(commands: &str, folder: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_frazil")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    Command::new("sh")
        .args(["-euc", commands])
        .env("PATH", format!("{}:{path}", program.display()))
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Runs the program of a page in a separate process, because it needs its own working folder.
fn run_program(page: &str, block: &Block, folder: &Path) {
    let name = Path::new(page).file_stem().unwrap().to_str().unwrap();
    let kept = root().join(format!("crates/cli/tests/commands/programs/{name}.rs"));
    let kept = std::fs::read_to_string(&kept).unwrap_or_default();
    assert!(kept == block.text, "{page}: another program than programs/{name}.rs");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tasks::a_program"])
        .env(PROGRAM, name)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "run by the pages that have a program"]
fn a_program() {
    match std::env::var(PROGRAM).as_deref() {
        Ok("record") => record::run().unwrap(),
        other => panic!("no such program: {other:?}"),
    }
}

fn follow(page: &str) {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let name = page.replace(['/', '.'], "-");
    let folder = std::env::temp_dir().join(format!("frazil-task-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (between, mut all) = blocks(&text);
    let (mut printed, mut steps) = (None, 0);
    for (place, block) in all.iter_mut().enumerate() {
        match block.info.as_str() {
            "sh" => {
                let output = run(&block.text, &folder);
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{page}: {}{told}", block.text);
                printed = Some(String::from_utf8(output.stdout).unwrap());
                steps += 1;
            }
            "rust" if block.text.contains("fn main()") => run_program(page, block, &folder),
            "text" | "text,varies" if between[place].trim().is_empty() => {
                let printed = printed.take().expect("after commands");
                if std::env::var_os(WRITE).is_some() {
                    block.text = printed;
                } else if block.info == "text" {
                    assert_eq!(block.text, printed, "{page}: {WRITE}=1 writes it");
                }
            }
            _ => {}
        }
    }
    assert!(steps > 0, "{page}: nothing was run");
    let _ = std::fs::remove_dir_all(&folder);
    if std::env::var_os(WRITE).is_some() {
        let pieces = between
            .iter()
            .zip(&all)
            .map(|(before, block)| format!("{before}```{}\n{}```\n", block.info, block.text));
        let rest = between.last().unwrap();
        std::fs::write(root().join(page), pieces.collect::<String>() + rest).unwrap();
    }
}

#[test]
fn calibrate_runs_from_top_to_bottom() {
    follow(TASKS[0]);
}

#[test]
fn choose_runs_from_top_to_bottom() {
    follow(TASKS[1]);
}

#[test]
fn freezing_runs_from_top_to_bottom() {
    follow(TASKS[2]);
}

#[test]
fn record_runs_from_top_to_bottom() {
    follow(TASKS[3]);
}

#[test]
fn report_runs_from_top_to_bottom() {
    follow(TASKS[4]);
}
