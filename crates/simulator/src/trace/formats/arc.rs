//! The ARC authors' traces: a line `start count ignored request_number` requests `count` successive
//! blocks from `start` on.

use crate::trace::Record;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::fields::{parse_number, parse_numeric_id, split};

/// Most blocks that one line may request: 4 GiB of 4 KiB blocks.
const MAX_BLOCKS: u64 = 1 << 20;

/// Decoder of ARC's traces.
pub(super) struct Arc;

impl LineFormat for Arc {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let [start, count, ignored, number] = split(line, b' ')?;
        let start = parse_numeric_id(&start)?;
        let count = parse_number(&count, "a block count")?;
        parse_number(&ignored, "a third number")?;
        parse_number(&number, "a request number")?;
        if count == 0 || count > MAX_BLOCKS {
            return Err(format!("expected a block count from 1 to {MAX_BLOCKS}, found {count}"));
        }
        let end = start
            .checked_add(count)
            .ok_or_else(|| format!("{count} blocks from {start} on pass 64 bits"))?;
        out.extend((start..end).map(|id| Record { id, size: 1, ..Record::default() }));
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ids, problem};
    use crate::trace::Format;

    #[test]
    fn a_line_asks_for_successive_blocks() {
        let file = b"10 3 0 0\n7 1 0 1\r\n\n 11  1 0 2 \n";
        assert_eq!(ids(Format::Arc, file), [10, 11, 12, 7, 11]);
        let most = ids(Format::Arc, b"0 1048576 0 0\n5 1 0 1\n");
        assert_eq!(most.len(), 1_048_577);
    }

    #[test]
    fn counts_are_bounded() {
        for (file, expected) in [
            ("1 0 0 0\n", "from 1 to 1048576, found 0"),
            ("1 1 0 0\n1 1048577 0 0\n", "line 2: expected a block count"),
            ("18446744073709551615 1 0 0\n", "pass 64 bits"),
            ("99999999999999999999 1 0 0\n", "beyond 64 bits"),
            ("x 1 0 0\n", "expected an id (unsigned integer), found \"x\""),
            ("1 y 0 0\n", "expected a block count (unsigned integer)"),
            ("1 1 0\n", "expected 4 fields (3 found), found \"1 1 0\""),
            ("1 1 0 -\n", "expected a request number"),
        ] {
            let problem = problem(Format::Arc, file.as_bytes());
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
