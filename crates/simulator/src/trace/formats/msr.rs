//! Microsoft Research's block traces (SNIA): `filetime,host,disk,Read|Write,offset,size,response`.
//!
//! The disk number goes into the top byte of the id, so that the disks of a
//! host stay apart; a file holds the requests of one host. A request is one
//! record whatever its size.

use crate::trace::Record;
use crate::trace::decode::{Columns, LineFormat};
use crate::trace::error::expected;
use crate::trace::fields::{Clock, parse_number, parse_operation, parse_size, split};

/// Nanoseconds in a tick of the clock.
pub(in crate::trace) const TICK_NS: u64 = 100;

/// Decoder of the block traces.
pub(super) struct Msr {
    clock: Clock,
}

impl Msr {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock }
    }
}

impl LineFormat for Msr {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let [time, _host, disk, operation, offset, size, _response] = split(line, b',')?;
        let number = parse_number(&disk, "a disk number")?;
        if number > 0xff {
            return Err(expected("a disk number of at most 255", disk.raw));
        }
        let is = |name: &[u8]| operation.raw.eq_ignore_ascii_case(name);
        if !is(b"read") && !is(b"write") {
            return Err(expected("Read or Write", operation.raw));
        }
        out.push(Record {
            time_ns: self.clock.parse(&time)?,
            id: parse_number(&offset, "an offset")? ^ (number << 56),
            size: parse_size(&size)?,
            operation: parse_operation(&operation)?,
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
    use crate::trace::{Format, Operation, Record};

    #[test]
    fn a_disk_has_its_own_ids() {
        let file = b"128166372003061629,hm,1,Read,383496192,32768,413\n\
                     128166372016382155,hm,0,Write,2822144,4096,5\n";
        let expected = [
            Record {
                time_ns: 12_816_637_200_306_162_900,
                id: 383_496_192 ^ (1 << 56),
                size: 32_768,
                operation: Operation::Get,
                ..Record::default()
            },
            Record {
                time_ns: 12_816_637_201_638_215_500,
                id: 2_822_144,
                size: 4_096,
                operation: Operation::Set,
                ..Record::default()
            },
        ];
        assert_eq!(decoded(Format::Msr, file), expected);
    }

    #[test]
    fn faults_are_named() {
        for (line, expected) in [
            ("1,hm,256,Read,1,1,1", "line 1: expected a disk number of at most 255"),
            ("1,hm,x,Read,1,1,1", "line 1: expected a disk number (unsigned"),
            ("1,hm,1,Erase,1,1,1", "line 1: expected Read or Write, found \"Erase\""),
            ("1,hm,1,Read,x,1,1", "line 1: expected an offset"),
            ("1,hm,1,Read,1,5000000000000,1", "line 1: size 5000000000000 beyond"),
            ("x,hm,1,Read,1,1,1", "line 1: expected a time"),
            ("1,hm,1,Read,1,1", "line 1: expected 7 fields (6 found)"),
        ] {
            let problem = problem(Format::Msr, line.as_bytes());
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
