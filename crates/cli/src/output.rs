//! Results as an aligned table for people, or as JSON lines or CSV for scripts.

use std::io::Write;

use clap::ValueEnum;
use frazil_simulator::trace::printable;
use serde_json::{Map, Value};

use crate::Done;

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// An aligned table for people.
    #[default]
    Table,
    /// One JSON object a line.
    Json,
    /// Comma-separated values under a header line.
    Csv,
}

/// One result: names and values in the order of the contract.
pub(crate) type Row = Map<String, Value>;

/// A row from `name => value` pairs.
macro_rules! row {
    ($($name:literal => $value:expr),* $(,)?) => {{
        let mut row = $crate::output::Row::new();
        $(row.insert($name.to_owned(), serde_json::json!($value));)*
        row
    }};
}
pub(crate) use row;

/// Writes text to standard output in one piece.
pub(crate) fn print(text: &str) -> Done {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Rows as JSON lines.
pub(crate) fn json(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{}\n", Value::Object(row.clone()))).collect()
}

/// Rows as CSV under a header with every name that occurs, in order of appearance.
pub(crate) fn csv(rows: &[Row]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut text = names.join(",") + "\n";
    for row in rows {
        let fields: Vec<String> = names.iter().map(|&name| csv_field(row.get(name))).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

fn csv_field(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Columns of text that a table may have.
const WIDEST: usize = 100;

/// An aligned table; columns named in `left` are flushed left, all others right. If it would be too
/// wide, columns with equal cells stand above it as one line each. If that is not enough, its
/// columns are distributed over several tables, or each row is a block of lines.
pub(crate) fn table(headers: &[&str], left: &[&str], rows: Vec<Vec<String>>) -> String {
    let fits = |table: &str| table.lines().all(|line| line.chars().count() <= WIDEST);
    let whole = aligned(headers, left, &rows);
    if fits(&whole) {
        return whole;
    }
    let (first, others) = match rows.split_first() {
        Some((first, others)) if !others.is_empty() => (first, others),
        _ => return blocks(headers, &rows),
    };
    let shared = |at: usize| others.iter().all(|row| row.get(at) == first.get(at));
    let (above, kept): (Vec<usize>, Vec<usize>) = (0..headers.len()).partition(|&at| shared(at));
    let of = |row: &Vec<String>| -> Vec<String> {
        kept.iter().filter_map(|&at| row.get(at).cloned()).collect()
    };
    let heads: Vec<&str> = kept.iter().map(|&at| headers[at]).collect();
    let rest: Vec<Vec<String>> = rows.iter().map(of).collect();
    let above: String = above
        .iter()
        .filter_map(|&at| Some(format!("{}: {}\n", headers[at], first.get(at)?)))
        .collect();
    let rest = match aligned(&heads, left, &rest) {
        table if fits(&table) => table,
        _ => parts(&heads, left, &rest).unwrap_or_else(|| blocks(&heads, &rest)),
    };
    if above.is_empty() { rest } else { format!("{above}\n{rest}") }
}

/// Several tables with the same rows, each within [`WIDEST`]. All begin with the columns that tell
/// the rows apart. `None` if a column does not fit beside those.
fn parts(headers: &[&str], left: &[&str], rows: &[Vec<String>]) -> Option<String> {
    let is_unique = |count: usize| {
        let starts: std::collections::HashSet<_> = rows.iter().map(|row| &row[..count]).collect();
        starts.len() == rows.len()
    };
    let names = (1..headers.len()).find(|&count| is_unique(count))?;
    let of = |columns: &[usize]| {
        let heads: Vec<&str> = columns.iter().map(|&at| headers[at]).collect();
        let cells = |row: &Vec<String>| columns.iter().map(|&at| row[at].clone()).collect();
        let table = aligned(&heads, left, &rows.iter().map(cells).collect::<Vec<Vec<String>>>());
        table.lines().all(|line| line.chars().count() <= WIDEST).then_some(table)
    };
    let (mut columns, mut fitting) = ((0..names).collect::<Vec<_>>(), None);
    let mut tables = Vec::new();
    for at in names..headers.len() {
        columns.push(at);
        let mut table = of(&columns);
        if table.is_none() {
            tables.push(fitting.take()?);
            columns = (0..names).chain([at]).collect();
            table = of(&columns);
        }
        fitting = Some(table?);
    }
    tables.extend(fitting);
    Some(tables.join("\n"))
}

/// One line for each cell, and a blank one between rows.
fn blocks(headers: &[&str], rows: &[Vec<String>]) -> String {
    let widest = headers.iter().map(|header| header.chars().count()).max().unwrap_or_default();
    let block = |row: &Vec<String>| -> String {
        let cells = headers.iter().zip(row);
        cells.map(|(header, cell)| format!("{header:<widest$}  {cell}\n")).collect()
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn aligned(headers: &[&str], left: &[&str], rows: &[Vec<String>]) -> String {
    use comfy_table::{CellAlignment, Table, presets};
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headers.to_vec());
    table.add_rows(rows);
    for (column, header) in table.column_iter_mut().zip(headers) {
        column.set_padding((0, 2));
        if !left.contains(header) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// The lifetimes with which traces were replayed, for below a table: a line each, in the order of
/// the traces.
pub(crate) fn lifetimes(told: &[(&str, &str)]) -> String {
    let mut told = told.to_vec();
    told.dedup();
    let one = told.len() == 1;
    let of = |trace: &str| if one { String::new() } else { format!(" of {}", printable(trace)) };
    let line = |&(trace, told): &(&str, &str)| format!("lifetimes{}: {told}\n", of(trace));
    told.iter().map(line).collect()
}

/// A paragraph in lines of at most [`WIDEST`], the first after `first` and the others after `rest`.
pub(crate) fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        // Keeps a number and its % together.
        let unit = words.next_if(|next| next.starts_with('%'));
        let word = unit.map_or_else(|| word.to_owned(), |unit| format!("{word} {unit}"));
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDEST {
            lines += &line;
            lines.push('\n');
            (line, is_empty) = (rest.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line += &word;
        is_empty = false;
    }
    lines + &line + "\n"
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with a binary unit.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = number as f64;
    let mut unit = 0;
    // A number that would be rounded up to 1024.0 gets the next unit.
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

/// A ratio as a percentage with two decimals.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

/// A number with `decimals` decimals, or more if fewer than two digits would show.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let first = if value > 0.0 { -value.log10().floor() } else { 0.0 };
    let least = if first > 0.0 { first as usize + 1 } else { 0 };
    format!("{value:.0$}", decimals.max(least).min(20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_must_be_quoted() {
        let rows = [row! {"a" => "x,y", "b" => 1}, row! {"b" => 2, "c" => "say \"hi\""}];
        assert_eq!(csv(&rows), "a,b,c\n\"x,y\",1,\n,2,\"say \"\"hi\"\"\"\n");
    }

    #[test]
    fn wide_tables_turn() {
        let long = "x".repeat(60);
        let row =
            |policy: &str, count: &str| vec![long.clone(), policy.to_owned(), count.to_owned()];
        let headers = ["trace", "policy", "what is counted, in words that are many"];
        let left = ["trace", "policy"];
        let shared = table(&headers, &left, vec![row("lru", "1"), row("sieve", "2")]);
        let lines: Vec<&str> = shared.lines().collect();
        assert_eq!((lines[0], lines[1]), (format!("trace: {long}").as_str(), ""));
        assert!(lines[3].starts_with("lru ") && lines[3].ends_with(" 1"), "{shared}");
        let one = table(&headers, &left, vec![row("lru", "1")]);
        assert!(one.starts_with("trace  ") && one.contains("\npolicy  "), "{one}");
        assert_eq!(one.lines().count(), 3);
        let policies = ["first", "second", "third"].map(|name| format!("{name:-<35}"));
        let headers = ["size", "all", &policies[0], &policies[1], &policies[2]];
        let row = |size: &str| [size, "9", size, size, size].map(str::to_owned).to_vec();
        let split = table(&headers, &[], vec![row("10"), row("20")]);
        let lines: Vec<&str> = split.lines().collect();
        assert_eq!((lines[0], lines[1], lines[5]), ("all: 9", "", ""), "{split}");
        assert!(lines[2].starts_with("size  first") && lines[2].contains("second"), "{split}");
        assert!(lines[6].starts_with("size  third") && lines[8].starts_with("  20 "), "{split}");
        let narrow = table(&["a"], &[], vec![vec!["1".to_owned()]]);
        assert_eq!(narrow, "a\n1\n");
    }

    #[test]
    fn paragraphs_are_wrapped() {
        let text = ["word"; 50].join(" ");
        let lines = wrapped(&text, "  ", "    ");
        assert!(lines.lines().all(|line| line.chars().count() <= WIDEST), "{lines}");
        assert_eq!(lines.lines().count(), 3);
        assert_eq!(lines.trim_end().replace("\n    ", " "), format!("  {text}"));
        let share = wrapped(&format!("{} 50 %)", "x".repeat(WIDEST - 3)), "", "");
        assert!(share.ends_with("x\n50 %)\n"), "{share}");
        assert_eq!(wrapped(&"x".repeat(200), "", "").lines().count(), 1, "a word is not cut");
    }

    #[test]
    fn numbers_read_well() {
        let of = |value| [number(value, 3), number(value, 0)];
        assert_eq!(of(0.373), ["0.373", "0.37"]);
        assert_eq!(of(0.0283), ["0.028", "0.028"]);
        assert_eq!(of(0.000_018_16), ["0.000018", "0.000018"]);
        assert_eq!(of(1052.4), ["1052.400", "1052"]);
        assert_eq!(of(0.0), ["0.000", "0"]);
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1234567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
    }
}
