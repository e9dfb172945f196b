//! Figures in prose have a table: each measured figure in README.md and in the user's pages of the
//! book is in a table, or in a command's output, on the same page or on one that its paragraph
//! links to.
//!
//! A figure is a number with a unit, or with a decimal point. The table may have more digits, or a
//! share instead of the prose's percent.

use std::path::{Path, PathBuf};

/// Pages whose prose is compared.
const PAGES: [&str; 45] = [
    "README.md",
    "docs/advice-sizes.md",
    "docs/cache-speed.md",
    "docs/frozen-share.md",
    "docs/frozen-speed.md",
    "docs/gl-cache-figures.md",
    "docs/introduction.md",
    "docs/limits.md",
    "docs/locked-speed.md",
    "docs/moving.md",
    "docs/python-moving.md",
    "docs/python-sweeps.md",
    "docs/python.md",
    "docs/queueing-accuracy.md",
    "docs/queueing-fall.md",
    "docs/queueing-mitigations.md",
    "docs/reference.md",
    "docs/reproduce-advice.md",
    "docs/reproduce-delayed-hits.md",
    "docs/reproduce-frozenhot.md",
    "docs/reproduce-gl-cache.md",
    "docs/reproduce-mobius-traces.md",
    "docs/reproduce-mobius.md",
    "docs/reproduce-prototype.md",
    "docs/reproduce-queueing.md",
    "docs/reproduce-rocksdb.md",
    "docs/rocksdb.md",
    "docs/segment-store.md",
    "docs/server-clients.md",
    "docs/server.md",
    "docs/speed.md",
    "docs/guide/advise.md",
    "docs/guide/bench.md",
    "docs/guide/calibrate.md",
    "docs/guide/choose.md",
    "docs/guide/curves.md",
    "docs/guide/embed.md",
    "docs/guide/freezing.md",
    "docs/guide/install.md",
    "docs/guide/move.md",
    "docs/guide/policies.md",
    "docs/guide/record.md",
    "docs/guide/report.md",
    "docs/guide/serve.md",
    "docs/guide/traces.md",
];

/// Figures without a table: the page, words around each, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("docs/limits.md", "needs Rust 1.95", "a version"),
    ("docs/limits.md", "memory: 4 bytes", "the size of a type"),
    ("docs/limits.md", "4 GiB or", "a bound of a type"),
    ("docs/limits.md", "up to 255 bytes", "a bound"),
    ("docs/limits.md", "up to 1 MiB", "a bound"),
    ("docs/limits.md", "hottest 65,536 entries", "a bound"),
    ("docs/moving.md", "Rust 1.95 here", "versions"),
    ("docs/moving.md", "1.71 moka", "versions"),
    ("docs/moving.md", "less than 98 %", "a rule of the command"),
    ("docs/python-moving.md", "CPython 3.13", "a version"),
    ("docs/python-moving.md", "before 3.11", "a version"),
    ("docs/rocksdb.md", "RocksDB 10.4 to 11.8", "versions"),
    ("docs/rocksdb.md", "Maven's code 10.4", "versions"),
    ("docs/rocksdb.md", "for 11.1", "versions"),
    ("docs/rocksdb.md", "code 0.25 RocksDB", "versions"),
    ("docs/rocksdb.md", "blocks of 256 KiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 512 KiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "values of 100 bytes", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 32 MiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 256 MiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "that is 40 MiB", "arithmetic, from the bytes before it"),
    ("docs/segment-store.md", "made 264 million", "one run, whose command is before it"),
    ("docs/segment-store.md", "most 49.0 MiB", "one run, whose command is before it"),
    ("docs/segment-store.md", "take 44.0 of", "one run, whose command is before it"),
    ("docs/segment-store.md", "0.5 to 3.5 points", "differences of two columns of the table"),
    ("docs/server-clients.md", "Python 3.11", "a version"),
    ("docs/server-clients.md", "Go 1.26", "a version"),
    ("docs/server.md", "TLS 1.2 and 1.3", "versions"),
    ("docs/server.md", "below 14 MiB", "a bound"),
    ("docs/server.md", "Redis 8.6", "a version"),
    ("docs/server.md", "most 255 bytes", "a bound"),
    ("docs/server.md", "64 ms of", "arithmetic, from the millionth before it"),
    ("docs/server.md", "Zipf 0.99", "a setting of the measurement"),
    ("docs/cache-speed.md", "execute 930 instructions", "one count, as the paragraph says"),
    ("docs/cache-speed.md", "insert, 0.59", "one run, whose date is before it"),
    ("docs/frozen-speed.md", "takes 19 to", "reciprocals of the throughputs of four rows"),
    ("docs/frozen-speed.md", "LFU 3.3 times", "the ratio of two rows"),
    ("docs/locked-speed.md", "LRU 6.6 times", "an earlier run, whose date is before it"),
    ("docs/python.md", "CPython 3.1", "versions"),
    ("docs/python.md", "before 3.11", "a version"),
    ("docs/queueing-accuracy.md", "150 to 280", "of the machine, as the paragraph says"),
    ("docs/queueing-fall.md", "serves 0.144 million", "arithmetic: 72 requests in 500 µs"),
    ("docs/queueing-fall.md", "of 288 points", "a count of points, on the linked page"),
    ("docs/reproduce-advice.md", "of 1,000 bytes", "a setting of the measurement"),
    ("docs/reproduce-advice.md", "is 2.6 % behind", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "threads 3.0 %", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "and 6.2 %", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "is 3.3 % behind", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "FIFO's to 8.3", "medians of figures/advice.json"),
    ("docs/reproduce-advice.md", "to 14.9", "medians of figures/advice.json"),
    ("docs/reproduce-delayed-hits.md", "loses 3.7 %", "a ratio of the table less 1"),
    ("docs/reproduce-delayed-hits.md", "loses 9.5 %", "a ratio of the table less 1"),
    ("docs/reproduce-delayed-hits.md", "loses 4.5 %", "a ratio of the table less 1"),
    ("docs/reproduce-frozenhot.md", "0.95 and 0.89", "further runs, as the paragraph says"),
    ("docs/reproduce-mobius-traces.md", "some 130 GB", "the size of the paper's traces"),
    ("docs/reproduce-mobius-traces.md", "1.16 to 3.33", "of the paper"),
    ("docs/reproduce-mobius.md", "under 200 ns", "a rule of the command"),
    ("docs/reproduce-mobius.md", "0.16 at 30", "differences of figures/mobius.json"),
    ("docs/reproduce-mobius.md", "0.017, 0.061", "differences of figures/mobius.json"),
    ("docs/reproduce-prototype.md", "replayed 170 times", "a setting of the measurement"),
    ("docs/reproduce-prototype.md", "Over 10 % the", "a rule of the command"),
    ("docs/guide/advise.md", "ample size 95 %", "a definition"),
    ("docs/guide/advise.md", "ratio below 1 %", "arithmetic"),
    ("docs/guide/advise.md", "policy 27 bytes", "of the profile, which is no page"),
    ("docs/guide/advise.md", "such as 1 %", "an example of a share"),
    ("docs/guide/advise.md", "147 MB with", "one run, whose command is below it"),
    ("docs/guide/bench.md", "is below 0.9", "a rule"),
    ("docs/guide/freezing.md", "takes 500 µs", "a setting of the example"),
    ("docs/guide/freezing.md", "take 10.0 µs", "an example of a message"),
    ("docs/guide/freezing.md", "than 900 ns", "an example of a message"),
    ("docs/guide/install.md", "some 4 ns", "the difference of two lines of the table"),
    ("docs/guide/serve.md", "Rust 1.95", "a version"),
    ("docs/guide/traces.md", "section 4.4", "a section"),
    ("docs/guide/traces.md", "than 64 KiB", "a bound"),
];

/// Units that make a number a figure.
const UNITS: [&str; 17] = [
    "%",
    "ns",
    "µs",
    "us",
    "ms",
    "M/s",
    "KiB",
    "MiB",
    "GiB",
    "kB",
    "MB",
    "GB",
    "bytes",
    "times",
    "points",
    "instructions",
    "million",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Paragraphs and list items; and the content of tables and text blocks.
fn split(page: &str) -> (Vec<String>, String) {
    let (mut paragraphs, mut tables) = (vec![String::new()], String::new());
    let mut fence: Option<String> = None;
    for line in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(info.trim().to_owned()),
            };
        } else if let Some(info) = &fence {
            if info.starts_with("text") {
                tables += line;
                tables.push('\n');
            }
        } else if line.starts_with('|') {
            tables += line;
            tables.push('\n');
        } else if !line.starts_with("<!--") {
            if line.trim().is_empty() || line.starts_with("- ") || line.starts_with('#') {
                paragraphs.push(String::new());
            }
            let paragraph = paragraphs.last_mut().unwrap();
            paragraph.push_str(line.trim());
            paragraph.push(' ');
        }
    }
    (paragraphs, tables)
}

/// A paragraph without code and the targets of its links; those are returned beside it.
fn bare(paragraph: &str) -> (String, Vec<String>) {
    let without_code: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join("code");
    let (mut text, mut links) = (String::new(), Vec::new());
    let mut rest = without_code.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        let (target, more) = after.split_once(')').unwrap_or((after, ""));
        text.push_str(before);
        text.push(' ');
        links.push(target.split('#').next().unwrap_or_default().to_owned());
        rest = more;
    }
    text.push_str(rest);
    (text.replace(['[', '*', '(', ')'], " "), links)
}

/// The number in a word, and its digits after the point; `None` for dates and versions.
fn number(word: &str) -> Option<(f64, usize)> {
    let word = word.trim_end_matches([',', '.', ';', ':', '|']);
    let plain = word.replace(',', "");
    let decimals = plain.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain.is_empty() || !digits || !plain.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    plain.parse().ok().map(|value| (value, decimals))
}

/// The figures of a text: numbers with a unit or a point; both numbers of `4 to 7 %`.
fn figures(text: &str) -> Vec<(String, f64, usize)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let unit = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', '|'])))
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some((value, decimals)) = number(word) else { continue };
        let joined = matches!(words.get(at + 1), Some(&("to" | "and" | "or")));
        let shares_unit = joined && words.get(at + 2).is_some_and(|it| number(it).is_some());
        if decimals > 0 || unit(at + 1) || (shares_unit && unit(at + 3)) {
            let around = words[at.saturating_sub(3)..(at + 3).min(words.len())].join(" ");
            found.push((around, value, decimals));
        }
    }
    found
}

/// Whether a table has a figure, to its digits, unchanged or as a share.
fn has(tables: &str, value: f64, decimals: usize) -> bool {
    let shown = format!("{value:.decimals$}");
    let separators = |it: char| it.is_whitespace() || "|–/()`+-%;:=×*".contains(it);
    let numbers = tables.split(separators).filter_map(number);
    numbers.into_iter().any(|(other, digits)| {
        let share = digits >= 3 && format!("{:.decimals$}", other * 100.0) == shown;
        share || (digits >= decimals && format!("{other:.decimals$}") == shown)
    })
}

/// The figures of a page that have no table, with the words around them.
fn without_table(page: &str, text: &str) -> Vec<String> {
    let folder = root().join(page).parent().unwrap().to_owned();
    let (paragraphs, own) = split(text);
    let mut missing = Vec::new();
    for paragraph in paragraphs {
        let (bare, links) = bare(&paragraph);
        let linked = links.iter().map(|link| split(&read(&folder.join(link))).1);
        let tables = linked.fold(own.clone(), |all, tables| all + "\n" + &tables);
        let absent = figures(&bare).into_iter().filter(|it| !has(&tables, it.1, it.2));
        missing.extend(absent.map(|(around, ..)| around));
    }
    missing
}

#[test]
fn figures_in_prose_have_a_table() {
    let mut unused: Vec<_> = EXCEPTIONS.iter().collect();
    let mut missing = Vec::new();
    for page in PAGES {
        let text = read(&root().join(page));
        assert!(!text.is_empty(), "{page}");
        for around in without_table(page, &text) {
            let known = EXCEPTIONS.iter().find(|it| it.0 == page && around.contains(it.1));
            match known {
                Some(known) => unused.retain(|it| *it != known),
                None => missing.push(format!("{page}: {around}")),
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no table has these; link the page that has one, or argue an exception:\n{}",
        missing.join("\n")
    );
    assert!(unused.is_empty(), "exceptions that nothing needs: {unused:?}");
}

#[test]
fn a_figure_that_no_table_has_is_found() {
    let page = "docs/limits.md";
    let of = |text: &str| without_table(page, text);
    let linked = "Predictions are [within 6.3 %](queueing-accuracy.md).\n";
    assert!(of(linked).is_empty());
    assert_eq!(of(&linked.replace("6.3", "6.7")).len(), 1);
    assert_eq!(of("Predictions are within 6.3 %.\n").len(), 1, "without a link");
    assert!(
        of("It takes 4 to 7 % and 0.5.\n\n| a | 4 | 7.2 |\n|---|---|---|\n| 0.51 |\n").is_empty()
    );
    assert!(of("In 2026-11-25, `x 9 %`, 13 traces, version 0.3.5.\n").is_empty());
}
