//! Figures in prose have a table: each measured figure in README.md and in the user's pages of the
//! book is in a table, or in a command's output, on the same page or on one that its paragraph
//! links to, and in a cell that its sentence names.
//!
//! A figure is a number with a unit, or with a decimal point. The cell may have more digits, or a
//! share instead of the prose's percent.
//!
//! A large table has almost every number somewhere. So cells are ranked by the words that they
//! share with the figure's sentence, and a figure must be in one of the first (`first_cells`). If a
//! right figure is not found there, its sentence does not say which row it is from.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

mod cells;

use cells::{Cell, Number, Words, number, split, words};

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

/// Figures without a table: the page, words with them, and the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("README.md", "flash of 10 µs", "a setting of the example"),
    ("README.md", "0.1, interfaces", "a version"),
    ("docs/cache-speed.md", "execute 930 instructions", "one count, as the paragraph says"),
    (
        "docs/cache-speed.md",
        "is 0.75 times as fast as quick_cache at 1 % of a million keys and 1.1 to 1.5",
        "one run, whose date is before it",
    ),
    ("docs/cache-speed.md", "insert, 0.59 and 0.73", "one run, whose date is before it"),
    ("docs/cache-speed.md", "1.25 capacities and 8 MiB", "a bound of the command"),
    ("docs/frozen-share.md", "10 % to 20 % apart", "settings of the measurement"),
    ("docs/frozen-speed.md", "LFU 3.3 times", "the ratio of two rows"),
    ("docs/frozen-speed.md", "takes 19 to 25", "reciprocals of the throughputs of four rows"),
    ("docs/frozen-speed.md", "took 12 to 14", "an earlier run, whose date is behind it"),
    ("docs/frozen-speed.md", "were 5 to 8", "an earlier run, whose date is before it"),
    (
        "docs/frozen-speed.md",
        "between 8 % faster and 18 %",
        "earlier runs, whose date is before it",
    ),
    ("docs/frozen-speed.md", "were 22 % faster and 8 %", "earlier runs, as the sentence says"),
    ("docs/gl-cache-figures.md", "0, 0.05, 0.2 and 0.5", "settings that were compared"),
    ("docs/gl-cache-figures.md", "3 M/s", "a target"),
    ("docs/limits.md", "needs Rust 1.95", "a version"),
    ("docs/limits.md", "memory: 4 bytes", "the size of a type"),
    ("docs/limits.md", "4 GiB or", "a bound of a type"),
    ("docs/limits.md", "up to 255 bytes", "a bound"),
    ("docs/limits.md", "up to 1 MiB", "a bound"),
    ("docs/limits.md", "20 to 33 %", "one run, on the linked page"),
    ("docs/limits.md", "1.4 to 1.8", "an earlier run, on the linked page"),
    ("docs/limits.md", "hottest 65,536 entries, 8 bytes", "a bound, and the size of a type"),
    ("docs/limits.md", "2 % more with Mobius, 8 %", "ratios of two columns of the linked table"),
    ("docs/locked-speed.md", "LRU 6.6 times", "an earlier run, whose date is before it"),
    ("docs/locked-speed.md", "was 1.4 times", "an earlier run, whose date is before it"),
    ("docs/moving.md", "Rust 1.95 here", "versions"),
    ("docs/moving.md", "less than 98 %", "a rule of the command"),
    ("docs/moving.md", "1.71 moka and 1.85", "versions"),
    ("docs/python-moving.md", "CPython 3.13", "a version"),
    ("docs/python-moving.md", "before 3.11", "a version"),
    ("docs/python.md", "CPython 3.1", "versions"),
    ("docs/python.md", "before 3.11", "a version"),
    ("docs/queueing-accuracy.md", "for 80 ms", "a setting of the measurement"),
    ("docs/queueing-accuracy.md", "less than 8 ms", "a rule of the command"),
    ("docs/queueing-accuracy.md", "Values are 8 bytes", "a setting of the measurement"),
    ("docs/queueing-accuracy.md", "busy for 30 %", "a rule of the command"),
    ("docs/queueing-accuracy.md", "20 to 30 ns", "of the machine, as the paragraph says"),
    ("docs/queueing-accuracy.md", "150 to 280", "of the machine, as the paragraph says"),
    ("docs/queueing-fall.md", "serves 0.144 million", "arithmetic: 72 requests in 500 µs"),
    ("docs/queueing-fall.md", "of 288 points", "a count of points, on the linked page"),
    ("docs/queueing-fall.md", "4 to 6 %", "arithmetic, from the hit ratios"),
    ("docs/queueing-fall.md", "of 336 points", "a sum of the table's verdicts"),
    ("docs/queueing-fall.md", "to 1 %", "what the table has as 1.00"),
    ("docs/queueing-fall.md", "tail 0.2 us", "a setting of the measurement"),
    ("docs/queueing-fall.md", "by 48 %", "of the design, on the linked page"),
    ("docs/queueing-fall.md", "18 to 24 %", "ratios of two columns of the table"),
    ("docs/queueing-fall.md", "1.8 and 2.1 Mops", "earlier runs, as the sentence says"),
    ("docs/reproduce-advice.md", "of 1,000 bytes", "a setting of the measurement"),
    ("docs/reproduce-advice.md", "is 2.6 % behind", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "is 3.3 % behind", "means of figures/advice.json"),
    ("docs/reproduce-advice.md", "FIFO's to 8.3", "medians of figures/advice.json"),
    ("docs/reproduce-advice.md", "to 14.9", "medians of figures/advice.json"),
    ("docs/reproduce-advice.md", "10 µs and 100", "settings of the measurement"),
    ("docs/reproduce-advice.md", "14 % `loop to 39", "medians of figures/advice.json"),
    (
        "docs/reproduce-advice.md",
        "advice 3.5 %; with two threads 3.0 % and 6.2",
        "means of figures/advice.json",
    ),
    ("docs/reproduce-delayed-hits.md", "costs 0.2 points", "a difference of the table"),
    ("docs/reproduce-delayed-hits.md", "lost up to 3.4 %", "an earlier run, as the sentence says"),
    ("docs/reproduce-frozenhot.md", "10, 30 and 50 %", "settings of the measurement"),
    ("docs/reproduce-frozenhot.md", "rounds of 60 ms", "a setting of the measurement"),
    ("docs/reproduce-frozenhot.md", "0.95 and 0.89", "further runs, as the paragraph says"),
    ("docs/reproduce-frozenhot.md", "1.02 and 0.98", "further runs, as the paragraph says"),
    ("docs/reproduce-frozenhot.md", "and at 0.94 in both", "further runs, as the paragraph says"),
    ("docs/reproduce-mobius-traces.md", "some 130 GB", "the size of the paper's traces"),
    ("docs/reproduce-mobius-traces.md", "1.16 to 3.33", "of the paper"),
    ("docs/reproduce-mobius-traces.md", "have 65 million", "of the paper"),
    (
        "docs/reproduce-mobius-traces.md",
        "4 to 14 %, FIFO by 3 to 32 %",
        "reciprocals of figure 11's ratios",
    ),
    ("docs/reproduce-mobius-traces.md", "hits 83 to 84 %", "of the paper"),
    ("docs/reproduce-mobius.md", "under 200 ns", "a rule of the command"),
    ("docs/reproduce-mobius.md", "and 4.67 over", "of the paper"),
    (
        "docs/reproduce-mobius.md",
        "eight threads 0.10 a request at 10 %, 0.16 at 30 % and 0.10",
        "differences of figures/mobius.json",
    ),
    ("docs/reproduce-mobius.md", "0.017, 0.061 and 0.080", "differences of figures/mobius.json"),
    ("docs/reproduce-mobius.md", "0.8 to 1.6 times", "rounds of figures/mobius.json"),
    ("docs/reproduce-mobius.md", "and 0.2 at 10 %", "differences of figures/mobius.json"),
    ("docs/reproduce-prototype.md", "replayed 170 times", "a setting of the measurement"),
    ("docs/reproduce-prototype.md", "Over 10 % the", "a rule of the command"),
    ("docs/rocksdb.md", "RocksDB 10.4 to 11.8", "versions"),
    ("docs/rocksdb.md", "blocks of 256 KiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 512 KiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "values of 100 bytes", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 32 MiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "cache of 256 MiB", "a setting of the measurement"),
    ("docs/rocksdb.md", "`rocksdbjni 10.4; the first for 11.1", "versions"),
    ("docs/rocksdb.md", "`rocksdb 0.25 RocksDB", "versions"),
    (
        "docs/rocksdb.md",
        "From 2 GiB of blocks of 4 KiB to 64 MiB that is 40",
        "arithmetic, from the bytes before it",
    ),
    ("docs/segment-store.md", "most 49.0 MiB", "one run, whose command is before it"),
    ("docs/segment-store.md", "take 44.0 of", "one run, whose command is before it"),
    ("docs/segment-store.md", "0.5 to 3.5 points", "differences of two columns of the table"),
    (
        "docs/segment-store.md",
        "264 million writes, 61 million checked reads, 54",
        "one run, whose command is before it",
    ),
    ("docs/segment-store.md", "of 100 bytes and four", "an example of a size"),
    ("docs/server-clients.md", "Python 3.11", "a version"),
    ("docs/server-clients.md", "Go 1.26", "a version"),
    ("docs/server.md", "TLS 1.2 and 1.3", "versions"),
    ("docs/server.md", "of 100 bytes, 10 % sets, 50", "settings of the measurement"),
    ("docs/server.md", "from 14 MiB", "a bound"),
    ("docs/server.md", "below 58 MiB", "a bound"),
    ("docs/server.md", "Redis 8.6", "a version"),
    ("docs/server.md", "most 255 bytes", "a bound"),
    ("docs/server.md", "version 1.6", "a version"),
    ("docs/server.md", "Redis 7.4", "a version"),
    ("docs/server.md", "exposure 1.1", "of another program"),
    ("docs/guide/advise.md", "ample size 95 %", "a definition"),
    ("docs/guide/advise.md", "ratio below 1 %", "arithmetic"),
    ("docs/guide/advise.md", "policy 27 bytes", "of the profile, which is no page"),
    ("docs/guide/advise.md", "such as 1 %", "an example of a share"),
    ("docs/guide/advise.md", "147 MB with", "one run, whose command is below it"),
    ("docs/guide/freezing.md", "take 10.0 µs", "an example of a message"),
    ("docs/guide/freezing.md", "than 900 ns", "an example of a message"),
    ("docs/guide/freezing.md", "and 0 % frozen", "what a program prints"),
    ("docs/guide/install.md", "some 4 ns", "the difference of two lines of the table"),
    ("docs/guide/serve.md", "Rust 1.95", "a version"),
    ("docs/guide/traces.md", "section 4.4", "a section"),
    ("docs/guide/traces.md", "than 64 KiB", "a bound"),
];

/// Figures whose sentence does not name the row: the page, words with them, and a part of the line.
const ROWS: &[(&str, &str, &str)] = &[
    ("README.md", "and 25 % at worst", "frazil advise"),
    ("docs/frozen-speed.md", "instead of 23", "1 quick_cache"),
    ("docs/frozen-speed.md", "are 8.1 times", "zipf-79, threads 2: frozen+lru over lru"),
    ("docs/limits.md", "by 61 %", "frozen, scored"),
    ("docs/limits.md", "within 1.3 points", "adaptsize/request.trace.xz | 278854 bytes | 0.831714"),
    ("docs/limits.md", "to 28 % slower", "zipf-50, threads 1: frozen:share=0.8+mobius over mobius"),
    ("docs/limits.md", "most 0.52", "| lru | 8 | 0 |"),
    ("docs/limits.md", "to 180 MiB", "8 MiB 8 held"),
    ("docs/queueing-accuracy.md", "of 0.6 1", "mobius 0.599"),
    ("docs/queueing-accuracy.md", "0.86 predicted, 0.48", "frozen:share=0.5+mobius 0.700"),
    ("docs/queueing-fall.md", "loses 1.0 %", "lru by capacity peaks and falls"),
    ("docs/queueing-fall.md", "and 1.8 %", "lru by newcomers peaks and falls"),
    ("docs/queueing-fall.md", "also 5 % faster", "fifo newcomers 0.953"),
    ("docs/queueing-fall.md", "10 % slower", "fifo newcomers 0.953"),
    ("docs/queueing-fall.md", "S3-FIFO 6 %", "s3-fifo newcomers 0.960"),
    ("docs/queueing-fall.md", "are 6 % slower at 0.94", "fifo capacity 0.941"),
    ("docs/queueing-fall.md", "to 0.96", "s3-fifo capacity 0.964"),
    ("docs/queueing-fall.md", "at 0.5 before 500 µs are 6 %", "s3-fifo newcomers 0.502"),
    ("docs/queueing-fall.md", "serve 7 million", "lru, bypass capacity 0.401"),
    ("docs/reproduce-advice.md", "worst is 7.0 %", "adaptsize/request.trace.xz 1.13 %"),
    ("docs/reproduce-frozenhot.md", "is 4.3 times", "16 zipf 80 % lru"),
    ("docs/reproduce-gl-cache.md", "0.06 to 0.09", "gl-cache is at least 0.1 times as fast"),
    ("docs/reproduce-gl-cache.md", "replays 84", "diurnal 1 % 83.955"),
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

/// A paragraph without the targets of its links; those are returned beside it. Words of code begin
/// with a backquote, so that they are no figures.
fn bare(paragraph: &str) -> (String, Vec<String>) {
    let mut marked = String::new();
    for (at, part) in paragraph.split('`').enumerate() {
        match at % 2 {
            0 => marked.push_str(part),
            _ => part.split_whitespace().for_each(|word| marked += &format!(" `{word} ")),
        }
    }
    let (mut text, mut links) = (String::new(), Vec::new());
    let mut rest = marked.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        let (target, more) = after.split_once(')').unwrap_or((after, ""));
        text.push_str(before);
        text.push(' ');
        links.push(target.split('#').next().unwrap_or_default().to_owned());
        rest = more;
    }
    text.push_str(rest);
    let plain = text.replace(['[', '*', '(', ')'], " ");
    (plain.split_whitespace().collect::<Vec<_>>().join(" "), links)
}

/// A number in prose.
#[derive(Clone, Debug)]
struct Figure {
    /// Which word of the paragraph it is.
    at: usize,
    value: f64,
    decimals: usize,
    unit: &'static str,
}

impl Figure {
    fn shown(&self) -> String {
        format!("{:.*}", self.decimals, self.value)
    }

    /// Significant digits; trailing zeros of a whole number are none.
    fn digits(&self) -> usize {
        let shown = self.shown();
        let digits = if self.decimals == 0 { shown.trim_end_matches('0') } else { &shown };
        digits.replace('.', "").trim_start_matches('0').len().max(1)
    }

    /// How many cells are compared: a figure with more digits is in fewer cells by chance.
    fn first_cells(&self) -> usize {
        match self.digits() {
            1 | 2 => 50,
            3 => 400,
            _ => usize::MAX,
        }
    }

    /// Whether numbers of its unit may be such a number.
    fn compares_with(&self, number: &Number) -> bool {
        match self.unit {
            "%" | "points" => number.percent || (number.decimals >= 2 && number.value < 3.0),
            "" => true,
            _ => !number.percent,
        }
    }

    /// Whether it is this number, to its digits: unchanged, as a share, or as a ratio (0.93 is 7 %
    /// slower).
    fn is(&self, number: &Number) -> bool {
        let same = |value: f64| format!("{value:.*}", self.decimals) == self.shown();
        let share = number.decimals >= 3 && same(number.value * 100.0);
        let ratio =
            number.decimals >= self.decimals + 2 && same((number.value - 1.0).abs() * 100.0);
        match (self.unit, number.percent) {
            ("%", false) => share || ratio,
            ("points", false) => share,
            ("", false) if share => true,
            _ => number.decimals >= self.decimals && same(number.value),
        }
    }
}

/// The figures of a text: numbers with a unit or a point; both numbers of `4 to 7 %`.
fn figures(text: &[&str]) -> Vec<Figure> {
    let unit = |at: usize| {
        let word = text.get(at)?.trim_end_matches([',', '.', ';', ':', '|']);
        UNITS.iter().find(|unit| **unit == word).copied()
    };
    let mut found = Vec::new();
    for (at, word) in text.iter().enumerate() {
        let Some((value, decimals)) = number(word) else { continue };
        let joined = matches!(text.get(at + 1), Some(&("to" | "and" | "or")));
        let shares_unit = joined && text.get(at + 2).is_some_and(|it| number(it).is_some());
        let unit = unit(at + 1).or_else(|| unit(at + 3).filter(|_| shares_unit));
        let parameter = at > 0 && text[at - 1] == "Zipf";
        if !parameter && (decimals > 0 || unit.is_some()) {
            found.push(Figure { at, value, decimals, unit: unit.unwrap_or_default() });
        }
    }
    found
}

/// How much each word says of a figure: those of its sentence most, itself nothing.
fn weights(text: &[&str], figure: &Figure, names: &Words) -> Vec<f64> {
    let ends = |word: &&str| word.ends_with('.');
    let start = text[..figure.at].iter().rposition(ends).map_or(0, |at| at + 1);
    let end = text[figure.at..].iter().position(ends).map_or(text.len(), |at| figure.at + at + 1);
    let mut weights = vec![0.0; names.0.len()];
    for (text, weight) in [(text, 0.3), (&text[start..end], 1.0)] {
        for word in words(&text.join(" ")).filter(|word| *word != figure.shown()) {
            if let Some(at) = names.0.get(&word) {
                weights[*at] = weight;
            }
        }
    }
    weights
}

/// The tables that a paragraph is compared with.
struct Tables<'a> {
    cells: Vec<&'a Cell>,
    names: &'a Words,
    /// How rare each word is in them.
    rarity: Vec<f64>,
}

impl<'a> Tables<'a> {
    fn new(cells: Vec<&'a Cell>, names: &'a Words) -> Self {
        let mut uses = vec![0.0; names.0.len()];
        for word in cells.iter().flat_map(|cell| &cell.names) {
            uses[*word] += 1.0;
        }
        let all = cells.len() as f64;
        let rarity = uses.iter().map(|uses: &f64| (1.0 + all / uses.max(1.0)).ln()).collect();
        Self { cells, names, rarity }
    }

    /// Whether a line with this part has a figure.
    fn line_has(&self, part: &str, figure: &Figure) -> bool {
        let mut cells = self.cells.iter().filter(|cell| cell.line.contains(part));
        cells.any(|cell| cell.numbers.iter().any(|it| figure.is(it)))
    }

    /// Whether a figure is a setting, or in one of the first cells by words shared.
    fn have(&self, text: &[&str], figure: &Figure) -> bool {
        let same = |it: &Number| it.value == figure.value && it.decimals == figure.decimals;
        let mut settings = self.cells.iter().filter(|it| it.setting).flat_map(|it| &it.numbers);
        if settings.any(|it| same(it) && figure.is(it)) {
            return true;
        }
        let weights = weights(text, figure, self.names);
        let likeness = |cell: &Cell| -> f64 {
            cell.names.iter().map(|word| self.rarity[*word] * weights[*word]).sum()
        };
        let likenesses: Vec<_> = self.cells.iter().map(|cell| likeness(cell)).collect();
        let with = self.cells.iter().zip(&likenesses);
        let found = with.clone().filter(|it| it.0.numbers.iter().any(|it| figure.is(it)));
        let Some(best) = found.map(|it| *it.1).max_by(f64::total_cmp) else { return false };
        let before = with.filter(|it| *it.1 >= best - 1e-9).flat_map(|it| &it.0.numbers);
        before.filter(|it| figure.compares_with(it)).count() < figure.first_cells()
    }
}

/// Pages and their cells, each read once.
#[derive(Default)]
struct Book {
    pages: HashMap<PathBuf, (Vec<String>, Vec<Cell>)>,
    names: Words,
}

impl Book {
    /// Reads a page, and those that it links to.
    fn add(&mut self, page: &Path, text: &str) {
        let (paragraphs, cells) = split(text, &mut self.names);
        let links: Vec<_> = paragraphs.iter().flat_map(|it| bare(it).1).collect();
        self.pages.insert(page.to_owned(), (paragraphs, cells));
        for linked in links.iter().filter_map(|link| target(page, link)) {
            if !self.pages.contains_key(&linked) {
                let split = split(&read(&linked), &mut self.names);
                self.pages.insert(linked, split);
            }
        }
    }

    /// Calls for each paragraph with figures: its words, its figures, and the tables.
    fn each(&self, page: &Path, mut call: impl FnMut(&[&str], &[Figure], &Tables<'_>)) {
        for paragraph in &self.pages[page].0 {
            let (text, links) = bare(paragraph);
            let text: Vec<_> = text.split(' ').collect();
            let figures = figures(&text);
            if figures.is_empty() {
                continue;
            }
            let mut pages: Vec<_> = links.iter().filter_map(|link| target(page, link)).collect();
            pages.push(page.to_owned());
            pages.sort();
            pages.dedup();
            let cells = pages.iter().flat_map(|page| &self.pages[page].1).collect();
            call(&text, &figures, &Tables::new(cells, &self.names));
        }
    }
}

/// The page that a link of a page is to.
fn target(page: &Path, link: &str) -> Option<PathBuf> {
    link.ends_with(".md").then(|| page.parent().unwrap().join(link).canonicalize().ok())?
}

/// The entry of a list that a figure of a page is in.
fn listed(
    list: &[(&str, &str, &str)],
    page: &str,
    text: &[&str],
    figure: &Figure,
) -> Option<usize> {
    let before: usize = text[..figure.at].iter().map(|word| word.len() + 1).sum();
    let text = text.join(" ");
    list.iter().position(|(of, words, _)| {
        let mut places = text.match_indices(words);
        *of == page && places.any(|(at, _)| (at..at + words.len()).contains(&before))
    })
}

/// The figures of a page that no cell has that its sentence names; `used` counts uses of the lists.
fn missing(book: &Book, page: &str, path: &Path, used: &mut [Vec<bool>; 2]) -> Vec<String> {
    let mut missing = Vec::new();
    book.each(path, |text, figures, tables| {
        for figure in figures.iter().filter(|it| !tables.have(text, it)) {
            let row = listed(ROWS, page, text, figure);
            if let Some(at) = row.filter(|at| tables.line_has(ROWS[*at].2, figure)) {
                used[0][at] = true;
            } else if let Some(at) = listed(EXCEPTIONS, page, text, figure) {
                used[1][at] = true;
            } else {
                let words = figure.at.saturating_sub(3)..(figure.at + 4).min(text.len());
                missing.push(format!("{page}: {}", text[words].join(" ")));
            }
        }
    });
    missing
}

#[test]
fn figures_in_prose_have_a_table() {
    let mut book = Book::default();
    let mut absent = Vec::new();
    let mut used = [vec![false; ROWS.len()], vec![false; EXCEPTIONS.len()]];
    for page in PAGES {
        let path = root().join(page);
        let text = read(&path);
        assert!(!text.is_empty(), "{page}");
        book.add(&path, &text);
        absent.extend(missing(&book, page, &path, &mut used));
    }
    assert!(
        absent.is_empty(),
        "no row that its sentence names has these; use the row's words in the sentence, link the \
         page, name the row in ROWS, or argue an exception:\n{}",
        absent.join("\n")
    );
    for (list, used) in [ROWS, EXCEPTIONS].into_iter().zip(used) {
        let unused: Vec<_> = list.iter().zip(used).filter(|it| !it.1).map(|it| it.0).collect();
        assert!(unused.is_empty(), "entries that nothing needs: {unused:?}");
    }
}

/// What is missing on a page of this text in the place of docs/limits.md.
fn missing_of(text: &str) -> Vec<String> {
    let path = root().join("docs/limits.md");
    let mut book = Book::default();
    book.add(&path, text);
    missing(&book, "", &path, &mut [Vec::new(), Vec::new()])
}

#[test]
fn a_figure_that_no_table_has_is_found() {
    let linked = "Predictions are [within 6.3 %](queueing-accuracy.md), median error.\n";
    assert!(missing_of(linked).is_empty());
    assert_eq!(missing_of(&linked.replace("6.3", "6.7")).len(), 1);
    assert_eq!(missing_of("Predictions are within 6.3 %.\n").len(), 1, "without a link");
    assert!(
        missing_of("It takes 4 to 7 % and 0.5.\n\n| a | 4 % | 7.2 % |\n|---|---|---|\n| 0.51 |\n")
            .is_empty()
    );
    assert!(missing_of("In 2026-11-25, `x 9 %`, 13 traces, version 0.3.5.\n").is_empty());
}

#[test]
fn a_figure_of_another_row_is_found() {
    let row = |at: usize| format!("policy{at} {}.{} 10.5\n", at / 10 + 1, at % 10);
    let table: String = (0..90).map(row).collect();
    let page = |prose: &str| format!("{prose}\n\n```text\nname  gain  cost\n\n{table}```\n");
    assert!(missing_of(&page("With `policy7` it is 1.7 times as fast.")).is_empty());
    assert_eq!(missing_of(&page("With `policy7` it is 3.9 times as fast.")).len(), 1);
}
