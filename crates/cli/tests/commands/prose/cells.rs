//! Cells of the tables of a page, with the words that name them.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A cell of a table.
pub(super) struct Cell {
    /// The words of its line, of its column's head, and of what stands above the table.
    pub names: Vec<usize>,
    pub numbers: Vec<Number>,
    /// Its line, with single spaces.
    pub line: Rc<str>,
    /// In a head, or in a command to run: not measured.
    pub setting: bool,
}

/// A number of a cell; one may have two.
pub(super) struct Number {
    pub value: f64,
    pub decimals: usize,
    pub percent: bool,
}

/// The words that name cells, by number.
#[derive(Default)]
pub(super) struct Words(pub HashMap<String, usize>);

impl Words {
    fn of(&mut self, text: &str) -> BTreeSet<usize> {
        let number = |word| {
            let next = self.0.len();
            *self.0.entry(word).or_insert(next)
        };
        words(text).map(number).collect()
    }
}

/// Words that name nothing.
const COMMON: [&str; 24] = [
    "a", "all", "an", "and", "are", "as", "at", "by", "for", "in", "is", "it", "of", "on", "or",
    "than", "that", "the", "their", "this", "to", "where", "which", "with",
];

const COUNTED: [&str; 9] = ["", "one", "two", "three", "four", "five", "six", "seven", "eight"];

/// The words of a text that may name something: in lower case, without a plural's s, counts as
/// digits.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.to_lowercase().replace('µ', "u").replace('_', "-").replace(',', "");
    let apart = |it: char| !(it.is_alphanumeric() || it == '-' || it == '.');
    let pieces = text.split(apart).map(|word| word.trim_matches(['-', '.']));
    let named: Vec<_> = pieces.filter(|it| !it.is_empty() && !COMMON.contains(it)).collect();
    let plain = named.into_iter().map(|word| {
        if let Some(count) = COUNTED.iter().position(|it| *it == word) {
            return count.to_string();
        }
        let plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
        let word = if plural { &word[..word.len() - 1] } else { word };
        if word == "thr" { "thread".to_owned() } else { word.to_owned() }
    });
    plain.collect::<Vec<_>>().into_iter()
}

/// The number in a word, and its digits after the point; `None` for dates and versions.
pub(super) fn number(word: &str) -> Option<(f64, usize)> {
    let word = word.trim_end_matches([',', '.', ';', ':', '|']);
    let plain = word.replace(',', "");
    let decimals = plain.split_once('.').map_or(0, |(_, digits)| digits.len());
    let digits = plain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain.is_empty() || !digits || !plain.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    plain.parse().ok().map(|value| (value, decimals))
}

/// The numbers of a text, with whether a percent sign follows.
fn numbers(text: &str) -> Vec<Number> {
    let apart = |it: char| it.is_whitespace() || "|–/()`+-;:=×*".contains(it);
    let spaced = text.replace('%', " % ");
    let pieces: Vec<&str> = spaced.split(apart).filter(|it| !it.is_empty()).collect();
    let follows = |at: usize| pieces.get(at + 1).is_some_and(|it| *it == "%");
    let found = pieces.iter().enumerate().filter_map(|(at, it)| {
        number(it).map(|(value, decimals)| Number { value, decimals, percent: follows(at) })
    });
    found.collect()
}

/// The columns of a line, with where they begin and end: between bars, or two spaces apart.
fn columns(line: &str) -> Vec<(usize, usize, &str)> {
    let bars = line.starts_with('|');
    let (mut found, mut at) = (Vec::new(), 0);
    for (nth, piece) in line.split(if bars { "|" } else { "  " }).enumerate() {
        let text = piece.trim();
        let start = at + piece.chars().take_while(|it| *it == ' ').count();
        if bars {
            found.push((nth, nth + 1, text));
        } else if !text.is_empty() {
            found.push((start, start + text.chars().count(), text));
        }
        at += piece.chars().count() + if bars { 1 } else { 2 };
    }
    found
}

/// Lines of a table without an empty one between, and what stands above them.
struct Block<'a> {
    above: String,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    /// Lines at the beginning that name the columns: the first, and those without numbers. Lines of
    /// text have none.
    fn heads(&self) -> &[&str] {
        let rows = self.lines.iter().filter(|line| columns(line).len() > 1).count();
        if rows * 2 < self.lines.len() {
            return &[];
        }
        let named = |line: &&&str| numbers(line).is_empty();
        &self.lines[..1 + self.lines.iter().skip(1).take_while(named).count()]
    }

    fn cells(&self, words: &mut Words) -> Vec<Cell> {
        let heads = self.heads();
        let titles = heads.last().map_or_else(Vec::new, |line| columns(line));
        let above = &heads[..heads.len().saturating_sub(1)];
        let above = words.of(&format!("{} {}", self.above, above.join(" ")));
        let mut cells = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            let setting = at < heads.len();
            let spaced: Rc<str> = line.split_whitespace().collect::<Vec<_>>().join(" ").into();
            let row: BTreeSet<_> = above.union(&words.of(line)).copied().collect();
            for (start, end, text) in columns(line) {
                let over = titles.iter().filter(|it| !setting && it.0 < end && start < it.1);
                let title: String = over.flat_map(|it| [it.2, " "]).collect();
                let names = row.union(&words.of(&title)).copied().collect();
                let shares = ["%", "points"].iter().any(|it| title.contains(it));
                let shares = shares || line.contains("% hits");
                let mut numbers = numbers(text);
                for it in &mut numbers {
                    it.percent |= shares || title.contains("hits") && it.value > 1.0;
                }
                cells.push(Cell { names, numbers, line: spaced.clone(), setting });
            }
        }
        cells.retain(|cell| !cell.numbers.is_empty());
        cells
    }
}

/// What the lines of a page are: paragraphs and list items, tables and text blocks, commands.
#[derive(Default)]
struct Lines<'a> {
    paragraphs: Vec<String>,
    blocks: Vec<Block<'a>>,
    commands: Vec<&'a str>,
    heading: &'a str,
    figures: &'a str,
    fence: Option<&'a str>,
    /// Whether the line before was of the last block.
    open: bool,
}

impl<'a> Lines<'a> {
    fn add(&mut self, line: &'a str) {
        let table = self.fence.map_or(line.starts_with('|'), |info| info.starts_with("text"));
        if let Some(info) = line.trim_start().strip_prefix("```") {
            self.fence = if self.fence.is_some() { None } else { Some(info.trim()) };
            self.open = false;
        } else if table && !line.trim().is_empty() {
            self.add_row(line);
        } else if self.fence.is_some() {
            self.open = false;
            self.commands.push(line);
        } else {
            self.open = false;
            self.add_prose(line);
        }
    }

    fn add_row(&mut self, line: &'a str) {
        if !self.open {
            let title = self.blocks.last().filter(|it| it.lines.len() == 1).map(|it| it.lines[0]);
            let above = format!("{} {} {}", self.heading, self.figures, title.unwrap_or_default());
            self.blocks.push(Block { above, lines: Vec::new() });
            self.open = true;
        }
        if !line.starts_with("|--") {
            self.blocks.last_mut().unwrap().lines.push(line);
        }
    }

    fn add_prose(&mut self, line: &'a str) {
        if line.starts_with("<!--") {
            self.figures = if line.starts_with("<!-- figures") { line } else { "" };
            return;
        }
        if line.starts_with('#') {
            self.heading = line;
        }
        let begins = line.trim().is_empty() || line.starts_with("- ") || line.starts_with('#');
        if begins || self.paragraphs.is_empty() {
            self.paragraphs.push(String::new());
        }
        let paragraph = self.paragraphs.last_mut().unwrap();
        paragraph.push_str(line.trim());
        paragraph.push(' ');
    }
}

/// Paragraphs and list items; and the cells of tables, text blocks and commands.
pub(super) fn split(page: &str, words: &mut Words) -> (Vec<String>, Vec<Cell>) {
    let mut lines = Lines::default();
    page.lines().for_each(|line| lines.add(line));
    let mut cells: Vec<_> = lines.blocks.iter().flat_map(|it| it.cells(words)).collect();
    cells.extend(lines.commands.iter().map(|line| {
        let names = words.of(line).into_iter().collect();
        Cell { names, numbers: numbers(line), line: Rc::from(*line), setting: true }
    }));
    (lines.paragraphs, cells)
}
