//! Detects a file's format from its first block.
//!
//! It tries each text format's own decoder on the first lines, strict formats first, and takes the
//! first that decodes at least half of them. Half, not all: a file with a bad line should be
//! refused for that line, not for its format. Binary formats have no marks, except our own; it
//! detects them by the patterns in their numbers. The file's name has no effect: content that two
//! formats share (bare ids) is the same trace in both.

use super::decode::line_content;
use super::error::excerpt;
use super::fields::{Fields, parse_operation};
use super::formats::{ORACLE_GENERAL_BYTES, has_plain_names, line_format, names_id};
use super::{CsvColumn, CsvLayout, Format};

/// Lines examined.
const LINES: usize = 64;
/// Binary records examined.
const RECORDS: usize = 1_000;

/// The format of content that begins with `block`, or the reason why none fits. `whole`: there is
/// no more content.
pub(super) fn guess(block: &[u8], whole: bool, layout: &CsvLayout) -> Result<Format, String> {
    if block.starts_with(&frazil_recording::MAGIC) {
        return Ok(Format::Frazil);
    }
    if let Some(kind) = foreign(block) {
        return Err(kind.to_owned());
    }
    // A text may be damaged; of a binary record, a large share are zeros.
    let is_control = |byte: &&u8| **byte < b' ' && !byte.is_ascii_whitespace();
    let controls = block.iter().filter(is_control).count();
    if controls * 20 <= block.len() {
        guess_text(block, whole, layout)
    } else {
        guess_binary(block)
    }
}

/// Other kinds of files that users often pass.
fn foreign(block: &[u8]) -> Option<&'static str> {
    Some(match block {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0, 0, 0xfe, 0xff, ..] => {
            "text in UTF-16 or UTF-32, expected UTF-8 or ASCII"
        }
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "bzip2 content",
        [0x04, 0x22, 0x4d, 0x18, ..] => "lz4 content",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        _ => return None,
    })
}

fn guess_binary(block: &[u8]) -> Result<Format, String> {
    if is_oracle_general(block) {
        Ok(Format::OracleGeneral)
    } else if is_cache2k(block) {
        Ok(Format::Cache2k)
    } else {
        let start = &block[..block.len().min(8)];
        let bytes: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
        Err(format!("binary content of no known format, beginning with {}", bytes.join(" ")))
    }
}

/// Times never decrease, and a next access lies ahead or does not exist.
fn is_oracle_general(block: &[u8]) -> bool {
    let (records, _) = block.as_chunks::<ORACLE_GENERAL_BYTES>();
    let mut before = 0;
    let fits = |(index, record): (usize, &[u8; ORACLE_GENERAL_BYTES])| {
        let [t0, t1, t2, t3, .., n0, n1, n2, n3, n4, n5, n6, n7] = *record;
        let time = u32::from_le_bytes([t0, t1, t2, t3]);
        let next = i64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
        let forward = time >= before;
        before = time;
        forward && (next == -1 || next > index as i64)
    };
    !records.is_empty() && records.iter().take(RECORDS).enumerate().all(fits)
}

/// Ids are counted from 0 or 1, so their first byte is 0 far more often than their last; or from a
/// few bases, such as one a table: the first two bytes have few values.
fn is_cache2k(block: &[u8]) -> bool {
    let (records, _) = block.as_chunks::<4>();
    let records = &records[..records.len().min(RECORDS)];
    let zeros = |index: usize| records.iter().filter(|bytes| bytes[index] == 0).count();
    let values = |index: usize| {
        let mut seen = [false; 256];
        records.iter().for_each(|bytes| seen[usize::from(bytes[index])] = true);
        seen.iter().filter(|seen| **seen).count()
    };
    let from_few_bases =
        records.len() >= 64 && zeros(1) * 10 >= records.len() * 9 && values(0) <= 32;
    // In text with two bytes a character every other byte is 0.
    let wide_text = zeros(0) == records.len() && zeros(2) == records.len() && zeros(1) == 0;
    !records.is_empty()
        && !wide_text
        && (zeros(0) * 10 >= records.len() * 9 || from_few_bases)
        && zeros(3) * 2 < records.len().max(2)
}

/// Lines of the first block that are not blank, with their numbers.
fn first_lines(block: &[u8], whole: bool) -> Vec<(u64, &[u8])> {
    let mut lines: Vec<&[u8]> = block.split(|&byte| byte == b'\n').collect();
    if !whole && lines.len() > 1 {
        // The last line continues in the next block.
        lines.pop();
    }
    let lines = (1..).zip(lines).map(|(number, line)| (number, line_content(line, number)));
    lines.filter(|(_, line)| !line.is_empty()).take(LINES).collect()
}

fn is_comment(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"#")
}

/// The layout of a CSV file that begins with `block`. The block gives the separator and whether
/// there is a header, if it can.
pub(super) fn complete(layout: &CsvLayout, block: &[u8], whole: bool) -> CsvLayout {
    let lines: Vec<&[u8]> = first_lines(block, whole).into_iter().map(|(_, line)| line).collect();
    let records: Vec<&[u8]> = lines.iter().copied().filter(|line| !is_comment(line)).collect();
    let separator = layout.separator.unwrap_or_else(|| separator_of(&records));
    let commented = lines.first().is_some_and(|line| is_comment(line));
    // Without a column of numbers among the user's columns, a decoder cannot know.
    let header = layout.header.or_else(|| {
        (layout.id.is_some() && !commented && has_header(&records, separator)).then_some(true)
    });
    CsvLayout { separator: Some(separator), header, ..layout.clone() }
}

/// The separator with which most lines have the first line's number of fields; among equals, the
/// one with the most fields.
fn separator_of(lines: &[&[u8]]) -> u8 {
    let score = |separator: u8| {
        let fields = |line: &[u8]| Fields::of(line, separator).count();
        let first = lines.first().map_or(0, |line| fields(line));
        let alike = lines.iter().filter(|line| fields(line) == first).count();
        if first > 1 && 2 * alike >= lines.len() { (alike, first) } else { (0, 0) }
    };
    let better = |best: u8, other: u8| if score(other) > score(best) { other } else { best };
    b";|\t".iter().copied().fold(b',', better)
}

/// Whether the first line has only words, in several columns, one of which has numbers below.
fn has_header(lines: &[&[u8]], separator: u8) -> bool {
    let numbers = |line: &[u8]| -> Vec<bool> {
        let fields = Fields::of(line, separator).map_while(Result::ok);
        fields.map(|field| field.raw.first().is_some_and(u8::is_ascii_digit)).collect()
    };
    let Some((first, others)) = lines.split_first() else {
        return false;
    };
    let first = numbers(first);
    first.len() > 1
        && !first.contains(&true)
        && others.iter().any(|line| numbers(line).contains(&true))
}

fn guess_text(block: &[u8], whole: bool, layout: &CsvLayout) -> Result<Format, String> {
    let lines = first_lines(block, whole);
    let records: Vec<(u64, &[u8])> =
        lines.iter().copied().filter(|(_, line)| !is_comment(line) && *line != b"*").collect();
    let Some(&(_, first)) = records.first() else {
        // Any text format reports that the file has no records.
        return Ok(Format::Plain);
    };
    let most = |fits: &dyn Fn(&[u8]) -> bool| {
        2 * records.iter().filter(|(_, line)| fits(line)).count() >= records.len()
    };
    let told = CsvLayout { time_unit: None, ..layout.clone() } != CsvLayout::default();
    if told {
        let numbered = |column: &Option<CsvColumn>| matches!(column, Some(CsvColumn::Number(_)));
        let numbered = [&layout.id, &layout.time, &layout.size].into_iter().any(numbered);
        let json = !numbered && layout.separator.is_none() && is_json(first);
        return Ok(if json { Format::Json } else { Format::Csv });
    }
    let layout = &complete(layout, block, whole);
    for format in [
        Format::Msr,
        Format::Twitter,
        Format::DelayedHits,
        Format::Arc,
        Format::AdaptSize,
        Format::Json,
        Format::Log,
    ] {
        if Trial::of(format, &records, layout).is_good() {
            return Ok(format);
        }
    }
    if is_json(first) {
        return Err(nearest_format(&records, None, layout));
    }
    let separator = layout.separator.unwrap_or(b',');
    let separated = |line: &[u8]| line.contains(&separator);
    let separated = most(&separated) || names_id(first, separator);
    let csv = Trial::of(Format::Csv, &lines, layout);
    let header = lines.first().map_or(first, |(_, line)| *line);
    let bare = first.iter().any(u8::is_ascii_digit) && !names_id(header, separator);
    if separated
        && bare
        && let Some(column) = operations_in(&records, separator)
    {
        return Err(format!(
            "columns without names, of which column {column} has operations; name the columns, as \
             in --columns operation={column},id=N,size=N"
        ));
    }
    let named = names_id(header, separator) || names_id(first, separator);
    let named = named || first.first().is_some_and(u8::is_ascii_digit);
    if separated && csv.is_good() && (named || has_plain_names(first, separator)) {
        return Ok(Format::Csv);
    }
    if most(&is_bare_id) {
        let breakpoints = lines.iter().any(|(_, line)| line.contains(&b'*'));
        return Ok(if breakpoints { Format::Lirs } else { Format::Plain });
    }
    Err(nearest_format(&records, separated.then_some(csv), layout))
}

/// The first column that has operations in all lines, such as `R` and `W`.
fn operations_in(lines: &[(u64, &[u8])], separator: u8) -> Option<usize> {
    let operations = |line: &[u8]| -> Vec<bool> {
        let fields = Fields::of(line, separator).map_while(Result::ok);
        fields.map(|field| parse_operation(&field).is_ok()).collect()
    };
    let mut all = operations(lines.first()?.1);
    for (_, line) in &lines[1..] {
        let mut here = operations(line).into_iter();
        all.iter_mut().for_each(|it| *it &= here.next().unwrap_or(false));
    }
    all.iter().position(|it| *it).map(|place| place + 1)
}

/// Whether a line begins as a JSON object does, or a list of them.
fn is_json(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let line = line.strip_prefix(b"[").unwrap_or(line).trim_ascii_start();
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

/// The error of lines in no known format, from the format that comes closest.
fn nearest_format(lines: &[(u64, &[u8])], csv: Option<Trial>, layout: &CsvLayout) -> String {
    let first = lines.first().map_or(&b""[..], |(_, line)| *line).trim_ascii_start();
    if first.starts_with(b"[") {
        return "JSON that is not one object a line, convert a list with `jq -c '.[]' FILE`"
            .to_owned();
    }
    let of = |format| Trial::of(format, lines, layout);
    let most_like = if first.starts_with(b"{") {
        Some(of(Format::Json))
    } else if memchr::memmem::find(first, b"] \"").is_some() {
        Some(of(Format::Log))
    } else {
        let strict = [Format::Msr, Format::Twitter, Format::Arc, Format::AdaptSize].map(of);
        let trials = strict.into_iter().chain(csv);
        // Of several the last, CSV: the files that strict formats refuse have other columns.
        trials
            .filter(|trial| trial.good > 0 || trial.format == Format::Csv)
            .max_by_key(|it| it.good)
    };
    match most_like {
        Some(Trial { format, first: Some((line, problem)), .. }) => {
            format!("text of no known format; as {format}, line {line}: {problem}")
        }
        _ => format!("text of no known format, such as {}", excerpt(first)),
    }
}

/// The result of reading a few lines in a format.
struct Trial {
    format: Format,
    good: usize,
    lines: usize,
    /// The first line that the format cannot decode, and the reason.
    first: Option<(u64, String)>,
}

impl Trial {
    fn of(format: Format, lines: &[(u64, &[u8])], layout: &CsvLayout) -> Self {
        let mut trial = Trial { format, good: 0, lines: lines.len(), first: None };
        let Some(mut decoder) = line_format(format, layout) else {
            return trial;
        };
        let mut out = Vec::new();
        for &(number, line) in lines {
            out.clear();
            match decoder.line(line, &mut out) {
                Ok(()) => trial.good += 1,
                Err(problem) => {
                    trial.first.get_or_insert((number, problem));
                }
            }
        }
        trial
    }

    /// Whether the format decodes at least half of the lines.
    fn is_good(&self) -> bool {
        self.good > 0 && 2 * self.good >= self.lines
    }
}

/// A single word that may be an id.
fn is_bare_id(line: &[u8]) -> bool {
    let in_id = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:%@+=~&?*#|".contains(byte);
    line.trim_ascii().iter().all(in_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(text: &str) -> Result<Format, String> {
        guess(text.as_bytes(), true, &CsvLayout::default())
    }

    #[test]
    fn formats_are_told_from_a_few_lines() {
        for (text, format) in [
            ("1,2,3\n", Format::Csv),
            ("# time, object, size\n0, 5, 6\n", Format::Csv),
            ("# made by hand\n\n0,5\n", Format::Csv),
            ("time,key,size,op\n0.5,\"a,b\",3,get\n", Format::Csv),
            ("id\n3\n4\n", Format::Csv),
            ("0,k,1,2,3,get,0\n0,k,1,2,3,set,0\n0,k,abc,2,3,get,0\n", Format::Twitter),
            ("0,k,1,2,3,get,0\n0,k,1,2,3,flush,0\n", Format::Twitter),
            ("128166372003061629,hm,1,Read,383496192,32768,413\n", Format::Msr),
            ("1\n2\n", Format::Plain),
            ("# ids\r\nkey:1\r\nkey:2", Format::Plain),
            ("1\n*\n2\n", Format::Lirs),
            ("1 8 0 0\n9 8 0 1\n", Format::Arc),
            ("1 5 100\n2\t6\t200\n", Format::AdaptSize),
            ("0;1\n\n2;1\n", Format::DelayedHits),
            ("time|key|size\n2026-11-26T16:28:18Z|/a|7\n", Format::Csv),
            ("when;what\n2026-11-26 16:28;\"a;b\"\n", Format::Csv),
            ("time\tid\n4\t5,6\n", Format::Csv),
            ("user|1\nuser|2\n", Format::Plain),
            ("{\"id\": 1, \"n\": \"a,b\"}\n", Format::Json),
            ("::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a H\" 200 7\n", Format::Log),
        ] {
            assert_eq!(guessed(text), Ok(format), "{text:?}");
        }
    }

    #[test]
    fn a_told_layout_means_csv() {
        let layout =
            CsvLayout { separator: Some(b';'), id: Some(1.into()), ..CsvLayout::default() };
        assert_eq!(guess(b"1;2\n3;4\n", true, &layout), Ok(Format::Csv));
        let named = CsvLayout { id: Some("k".into()), ..CsvLayout::default() };
        assert_eq!(guess(b"k,v\n3,4\n", true, &named), Ok(Format::Csv));
        assert_eq!(guess(b"{\"k\": 1}\n", true, &named), Ok(Format::Json));
    }

    #[test]
    fn layouts_are_completed() {
        let layout =
            |id: Option<usize>| CsvLayout { id: id.map(CsvColumn::Number), ..CsvLayout::default() };
        for (text, separator) in [
            ("a,b;c\n1,2;3\n4,5;6\n", b','),
            ("a;b;c\n1,5;2;3\n4,5;5;6\n", b';'),
            ("# a,b\n1|\"2|,\"\n3|4\n", b'|'),
            ("1\t2\n3\t4\n", b'\t'),
            ("1\n2\n", b','),
            ("", b','),
        ] {
            let whole = complete(&layout(None), text.as_bytes(), true);
            assert_eq!(whole.separator, Some(separator), "{text:?}");
            assert_eq!(whole.header, None);
        }
        for (text, header) in [
            ("url,hits\n/a,9\n", Some(true)),
            ("url,hits\n/a,b\n", None),
            ("/a,9\n/b,8\n", None),
            ("#x\nurl,hits\n/a,9\n", None),
        ] {
            assert_eq!(complete(&layout(Some(1)), text.as_bytes(), true).header, header);
        }
    }

    #[test]
    fn ids_of_cache2k_may_count_from_few_bases() {
        let ids = (0..200_u32).map(|id| if id % 3 == 0 { id } else { 0xb800_0000 + id });
        let block: Vec<u8> = ids.flat_map(u32::to_be_bytes).collect();
        assert_eq!(guess(&block, true, &CsvLayout::default()), Ok(Format::Cache2k));
        let longs: Vec<u8> = (0..200_u64).flat_map(u64::to_be_bytes).collect();
        assert!(guess(&longs, true, &CsvLayout::default()).is_err());
    }

    #[test]
    fn no_records_are_no_fault_of_the_format() {
        for text in ["", "\n \n", "# only\n"] {
            assert_eq!(guessed(text), Ok(Format::Plain), "{text:?}");
        }
    }

    #[test]
    fn what_fits_nothing_is_described() {
        for (content, expected) in [
            (&b"hello world and more\n"[..], "text of no known format, such as \"hello world"),
            (b"{\"a\": 1}\n", "text of no known format; as json, line 1: expected a member `id`"),
            (b"[{\"id\": 1}, {\"id\": 2}]\n", "JSON that is not one object a line"),
            (
                b"419,W,879,163,15\n725,R,591,36,16\n",
                "columns without names, of which column 2 has",
            ),
            (b"0,303567,3584,w,0.0\n1,55590,3072,R,0.1\n", "columns without names, of which"),
            (b"It was a dark night, and\nThe ship, old as\n", "text of no known format"),
            (b"<html><head><title>404, Not\n<p>a, b</p>\n", "text of no known format"),
            (b"u0:x:0:Name 0,,,:/h\nu1:x:1:Name 1,,,:/h\n", "text of no known format"),
            (
                b"when,what,at\n5,get,7\n6,set,8\n",
                "text of no known format; as csv, line 2: expected",
            ),
            (b"/a,9\n/b,x\n", "text of no known format; as csv, line 1: expected a time"),
            (
                b"::1 - - [yesterday] \"GET /a H\" 200 7\n",
                "text of no known format; as log, line 1: expected a date",
            ),
            (b"\xfe\xff\x001\0\n", "text in UTF-16"),
            (b"\x001\0\n\x002\0\n", "binary content of no known format"),
            (b"BZh9\0\0\0\0\0", "bzip2 content"),
            (b"\xff\0\0\0\xff\0\0\0", "binary content of no known format"),
            (b"\0\0", "binary content of no known format, beginning with 00 00"),
        ] {
            let seen = guess(content, true, &CsvLayout::default());
            let seen = seen.expect_err(&String::from_utf8_lossy(content));
            assert!(seen.starts_with(expected), "{seen}");
        }
    }

    #[test]
    fn a_line_that_goes_on_is_not_judged() {
        let block = b"0,k,1,2,3,get,0\n0,k,1,2";
        let layout = CsvLayout::default();
        assert_eq!(guess(block, false, &layout), Ok(Format::Twitter));
    }
}
