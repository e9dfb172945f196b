//! AdaptSize's (and webcachesim's) traces: `time id size`, separated by white space.

use crate::trace::Record;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::fields::{Clock, parse_numeric_id, parse_size, split};

/// Decoder of AdaptSize's traces.
pub(super) struct AdaptSize {
    clock: Clock,
}

impl AdaptSize {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock }
    }
}

impl LineFormat for AdaptSize {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let [time, id, size] = split(line, b' ')?;
        out.push(Record {
            time_ns: self.clock.parse(&time)?,
            id: parse_numeric_id(&id)?,
            size: parse_size(&size)?,
            ..Record::default()
        });
        Ok(())
    }

    fn columns(&self) -> Columns {
        Columns { times: true, sizes: true, ..Columns::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use crate::trace::{Format, Record};

    #[test]
    fn columns_are_time_id_size() {
        let expected = Record { time_ns: 2_500_000_000, id: 7, size: 68, ..Record::default() };
        let file = b"\n 2.5\t7  68\r\n";
        assert_eq!(decoded(Format::AdaptSize, file), [expected]);
    }

    #[test]
    fn ids_are_numbers() {
        for (file, expected) in [
            ("1 a 2\n", "line 1: expected an id"),
            ("x 1 2\n", "line 1: expected a time"),
            ("1 2 -3\n", "line 1: expected a size"),
            ("1 2 1099511627777\n", "line 1: size 1099511627777 beyond 1 TiB"),
            ("1 2 3\n1 2\n", "line 2: expected 3 fields (2 found)"),
        ] {
            let problem = problem(Format::AdaptSize, file.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
