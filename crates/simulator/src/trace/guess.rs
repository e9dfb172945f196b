//! Tells a file's format from its first block.
//!
//! Each text format's own decoder is tried on the first lines, the strict
//! formats first: what decodes at least half of them is it. Half, and not all,
//! because a file with a bad line should be refused for that line and not for
//! its format. Binary formats have no marks, save our own; they are told by what
//! their numbers must look like. The file's name has no say: content that two formats
//! share (bare ids) is the same trace in both.

use super::decode::line_content;
use super::error::excerpt;
use super::formats::{ORACLE_GENERAL_BYTES, line_format, names_id};
use super::{CsvLayout, Format};

/// Lines looked at.
const LINES: usize = 64;
/// Binary records looked at.
const RECORDS: usize = 1_000;

/// The format of content that begins with `block`, or what was seen instead. `whole` says that
/// there is no more.
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

/// What else a file often is.
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

/// Times don't go back, and a next access lies ahead or is none.
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

/// Ids are counted from 0 or 1, so their first byte is 0 far more often than their last.
fn is_cache2k(block: &[u8]) -> bool {
    let (records, _) = block.as_chunks::<4>();
    let records = &records[..records.len().min(RECORDS)];
    let zeros = |index: usize| records.iter().filter(|bytes| bytes[index] == 0).count();
    // Text of two bytes a character has every other byte 0.
    let wide_text = zeros(0) == records.len() && zeros(2) == records.len() && zeros(1) == 0;
    !records.is_empty()
        && !wide_text
        && zeros(0) * 10 >= records.len() * 9
        && zeros(3) * 2 < records.len().max(2)
}

fn guess_text(block: &[u8], whole: bool, layout: &CsvLayout) -> Result<Format, String> {
    let mut lines: Vec<&[u8]> = block.split(|&byte| byte == b'\n').collect();
    if !whole && lines.len() > 1 {
        // The last one goes on in the next block.
        lines.pop();
    }
    let lines: Vec<&[u8]> = (1..)
        .zip(lines)
        .map(|(number, line)| line_content(line, number))
        .filter(|line| !line.is_empty())
        .take(LINES)
        .collect();
    let records: Vec<&[u8]> = lines
        .iter()
        .copied()
        .filter(|line| !line.trim_ascii_start().starts_with(b"#") && *line != b"*")
        .collect();
    let Some(&first) = records.first() else {
        // Read as any of the text formats, it is found to hold no records.
        return Ok(Format::Plain);
    };
    let most = |fits: &dyn Fn(&[u8]) -> bool| {
        2 * records.iter().filter(|line| fits(line)).count() >= records.len()
    };
    let told = CsvLayout { time_unit: None, ..layout.clone() } != CsvLayout::default();
    if told {
        return Ok(Format::Csv);
    }
    for format in
        [Format::Msr, Format::Twitter, Format::DelayedHits, Format::Arc, Format::AdaptSize]
    {
        if decodes(format, &records, layout) {
            return Ok(format);
        }
    }
    let separated = |line: &[u8]| line.contains(&layout.separator);
    let separated = most(&separated) || names_id(first, layout.separator);
    if separated && decodes(Format::Csv, &lines, layout) {
        return Ok(Format::Csv);
    }
    if most(&is_bare_id) {
        let breakpoints = lines.iter().any(|line| line.contains(&b'*'));
        return Ok(if breakpoints { Format::Lirs } else { Format::Plain });
    }
    Err(format!("text of no known format, such as {}", excerpt(first)))
}

/// Whether a format decodes at least half of the lines.
fn decodes(format: Format, lines: &[&[u8]], layout: &CsvLayout) -> bool {
    let Some(mut decoder) = line_format(format, layout) else {
        return false;
    };
    let mut out = Vec::new();
    let good = lines
        .iter()
        .filter(|line| {
            out.clear();
            decoder.line(line, &mut out).is_ok()
        })
        .count();
    2 * good >= lines.len()
}

/// A single word such as ids are made of.
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
        ] {
            assert_eq!(guessed(text), Ok(format), "{text:?}");
        }
    }

    #[test]
    fn a_told_layout_means_csv() {
        let layout = CsvLayout { separator: b';', id: Some(1), ..CsvLayout::default() };
        assert_eq!(guess(b"1;2\n3;4\n", true, &layout), Ok(Format::Csv));
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
            (b"{\"a\": 1}\n", "text of no known format"),
            (b"\xfe\xff\x001\0\n", "text in UTF-16"),
            (b"\x001\0\n\x002\0\n", "binary content of no known format"),
            (b"BZh9\0\0\0\0\0", "bzip2 content"),
            (b"\xff\0\0\0\xff\0\0\0", "binary content of no known format"),
            (b"\0\0", "binary content of no known format, beginning with 00 00"),
        ] {
            let seen = guess(content, true, &CsvLayout::default()).unwrap_err();
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
