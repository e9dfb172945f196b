//! The Delayed-Hits authors' traces (paper 5): `timestamp;object`, one line a slot of time; an
//! empty line is a slot without a request.

use crate::trace::Record;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::fields::{Clock, parse_numeric_id, split};

/// Decoder of the Delayed-Hits traces.
pub(super) struct DelayedHits {
    clock: Clock,
}

impl DelayedHits {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock }
    }
}

impl LineFormat for DelayedHits {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let [time, id] = split(line, b';')?;
        out.push(Record {
            time_ns: self.clock.parse(&time)?,
            id: parse_numeric_id(&id)?,
            size: 1,
            ..Record::default()
        });
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns { times: true, ..Columns::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use crate::trace::{Format, Record};

    #[test]
    fn an_empty_line_is_no_request() {
        let record = |time_s: u64, id| Record {
            time_ns: time_s * 1_000_000_000,
            id,
            size: 1,
            ..Record::default()
        };
        let file = b"0;5\n\n2; 6\n";
        let expected = [record(0, 5), record(2, 6)];
        assert_eq!(decoded(Format::DelayedHits, file), expected);
    }

    #[test]
    fn both_are_numbers() {
        for (file, expected) in [
            ("0;5\n\n1;x\n", "line 3: expected an id"),
            ("-1;5\n", "line 1: expected a time"),
            ("1,5\n", "line 1: expected 2 fields (1 found)"),
            ("1;5;6\n", "line 1: expected 2 fields (3 found)"),
        ] {
            let problem = problem(Format::DelayedHits, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
