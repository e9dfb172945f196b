//! `plain` and `lirs`: one id a line. Other lines are comments in `plain`, and breakpoints in
//! `lirs`.

use crate::trace::decode::{Columns, LineFormat};
use crate::trace::fields::{Field, leading_number, parse_id};
use crate::trace::{Oddities, Record};

/// Decoder of one id a line with `#` comments.
#[derive(Default)]
pub(super) struct Plain {
    hashed_ids: u64,
}

impl LineFormat for Plain {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        if !line.trim_ascii_start().starts_with(b"#") {
            out.push(record(parse_id(&Field::whole(line), &mut self.hashed_ids)?));
        }
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns::default()
    }

    fn oddities(&self) -> Oddities {
        Oddities { hashed_ids: self.hashed_ids, ..Oddities::default() }
    }

    #[inline]
    fn plain_line(&self, rest: &[u8]) -> Option<(Record, usize)> {
        id_line(rest).filter(|&(_, length)| length == 2 || rest[0] != b'0')
    }
}

/// Decoder of one block a line with `*` breakpoints.
#[derive(Default)]
pub(super) struct Lirs {
    hashed_ids: u64,
}

impl LineFormat for Lirs {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        if !line.contains(&b'*') {
            // Blocks are numbers: some traces write 0 as 00.
            let line = line.trim_ascii();
            let zeros = line.iter().take_while(|&&digit| digit == b'0').count();
            let number = &line[zeros.min(line.len() - 1)..];
            out.push(record(parse_id(&Field::whole(number), &mut self.hashed_ids)?));
        }
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns::default()
    }

    fn oddities(&self) -> Oddities {
        Oddities { hashed_ids: self.hashed_ids, ..Oddities::default() }
    }

    #[inline]
    fn plain_line(&self, rest: &[u8]) -> Option<(Record, usize)> {
        id_line(rest)
    }
}

fn record(id: u64) -> Record {
    Record { id, size: 1, ..Record::default() }
}

/// A line of digits only.
#[inline]
fn id_line(rest: &[u8]) -> Option<(Record, usize)> {
    let (id, length) = leading_number(rest)?;
    (rest.get(length) == Some(&b'\n')).then(|| (record(id), length + 1))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ids, problem};
    use crate::trace::Format;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn plain_skips_comments_and_blank_lines() {
        let file = b"# ids\n1\n\n  2 \r\n \t\nkey 3\n#4\n123456789012\n5";
        let expected = [1, 2, xxh3_64(b"key 3"), 123_456_789_012, 5];
        assert_eq!(ids(Format::Plain, file), expected);
        let wide = b"1\n99999999999999999999\n";
        assert_eq!(ids(Format::Plain, wide), [1, xxh3_64(b"99999999999999999999")]);
    }

    #[test]
    fn lirs_skips_breakpoints() {
        assert_eq!(ids(Format::Lirs, b"1\n*\n00\n2*\n\n3\n"), [1, 0, 3]);
    }

    #[test]
    fn a_line_has_a_bound() {
        let longest = [&[b'x'; 65536][..], b"\n7\n"].concat();
        assert_eq!(ids(Format::Plain, &longest)[1], 7);
        let longer = [b"1\n", &[b'0'; 65537][..], b"\n"].concat();
        let problem = problem(Format::Plain, &longer);
        assert!(problem.starts_with("line 2: expected a line of at most 65536 bytes"));
        assert!(problem.len() < 120, "{problem}");
    }
}
