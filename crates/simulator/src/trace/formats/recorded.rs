//! Traces recorded by a running cache ([`frazil_recording`]).
//!
//! A file without an end was cut short by a crash, or is still written: its whole blocks are read,
//! and the rest is ignored. Any other damage is an error at the beginning of its block. Decoding
//! and checking cost as much as decompression does for other formats: some 5 ns a record.

use frazil_recording::Decoder;

use crate::trace::decode::{BATCH, Columns, Decode};
use crate::trace::error::{Position, RecordError};
use crate::trace::fields::size_of;
use crate::trace::{Operation, Record, Recording};

/// Decoder of recordings.
#[derive(Default)]
pub(super) struct Recorded {
    decoder: Decoder,
    block: Vec<frazil_recording::Record>,
}

impl Decode for Recorded {
    fn decode(
        &mut self,
        block: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError> {
        let mut at = 0;
        while out.len() < BATCH && at < block.len() {
            let offset = self.decoder.offset();
            self.block.clear();
            let used = self.decoder.decode(&block[at..], &mut self.block);
            let used = used.map_err(|error| at_byte(error.offset, error.problem))?;
            if used == 0 {
                break;
            }
            at += used;
            for record in &self.block {
                let record = converted(record).map_err(|problem| at_byte(offset, problem))?;
                out.push(record);
            }
        }
        if last && out.len() < BATCH && self.decoder.header().is_none() {
            let problem = "expected a header of 40 bytes, found the end of the file".to_owned();
            return Err(at_byte(0, problem));
        }
        Ok(at)
    }

    fn columns(&self) -> Columns {
        let sizes = self.decoder.header().is_some_and(|header| header.has_sizes);
        Columns { times: true, sizes, ..Columns::default() }
    }

    fn recording(&self) -> Option<Recording> {
        let header = self.decoder.header()?;
        Some(Recording {
            rate: header.rate,
            start_unix_ns: header.start_unix_ns,
            lost: self.decoder.end().map(|end| end.lost),
            gets: self.decoder.end().and_then(|end| end.gets),
            lifetimes: header.lifetimes,
        })
    }
}

fn at_byte(offset: u64, problem: String) -> RecordError {
    RecordError { position: Position::Byte(offset), problem }
}

fn converted(record: &frazil_recording::Record) -> Result<Record, String> {
    Ok(Record {
        time_ns: record.time_ns,
        id: record.id,
        size: size_of(record.size.unwrap_or(1))?,
        operation: match record.operation {
            frazil_recording::Operation::Get => Operation::Get,
            frazil_recording::Operation::Set => Operation::Set,
            frazil_recording::Operation::Delete => Operation::Delete,
        },
        latency: 0,
        lifetime_ns: record.lifetime_ns.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use super::*;
    use crate::trace::Format;
    use frazil_recording::{Encoder, Header, Lifetimes, Operation as Op, Record as Written};

    fn file(records: &[Written]) -> Vec<u8> {
        let mut file = Vec::new();
        let lifetimes = Lifetimes::Told;
        let header = Header { rate: 0.5, start_unix_ns: 1, has_sizes: true, lifetimes };
        let mut encoder = Encoder::new(&mut file, &header).unwrap();
        records.iter().for_each(|record| encoder.push(record).unwrap());
        encoder.finish(3, Some(4)).unwrap();
        file
    }

    fn written(time_ns: u64, size: Option<u64>, operation: Op) -> Written {
        Written { time_ns, id: 7, size, operation, lifetime_ns: None }
    }

    #[test]
    fn an_unknown_size_is_one() {
        let file = file(&[
            written(1, Some(0), Op::Get),
            written(1, None, Op::Get),
            written(2, Some(20), Op::Set),
            written(9, None, Op::Delete),
        ]);
        let row = |time_ns, size, operation| Record {
            time_ns,
            id: 7,
            size,
            operation,
            ..Record::default()
        };
        let expected = [
            row(1, 0, Operation::Get),
            row(1, 1, Operation::Get),
            row(2, 20, Operation::Set),
            row(9, 1, Operation::Delete),
        ];
        assert_eq!(decoded(Format::Frazil, &file), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_byte() {
        let large = file(&[written(0, Some((1 << 40) + 1), Op::Get)]);
        assert_eq!(
            problem(Format::Frazil, &large),
            "byte 40: size 1099511627777 beyond 1 TiB, the largest object size"
        );
        assert!(problem(Format::Frazil, &large[..39]).starts_with("byte 0: expected a header"));
        assert!(problem(Format::Frazil, b"1\n2\n").starts_with("byte 0: expected the beginning"));
        let mut damaged = file(&[written(0, Some(1), Op::Get)]);
        damaged[70] ^= 1;
        assert!(problem(Format::Frazil, &damaged).starts_with("byte 40: the block does not have"));
    }

    #[test]
    fn the_end_says_what_was_lost() {
        let file = file(&[written(0, Some(1), Op::Get)]);
        let facts = |file: &[u8]| {
            let mut decoder = Recorded::default();
            decoder.decode(file, true, &mut Vec::new()).unwrap();
            decoder.recording().unwrap()
        };
        let whole = Recording {
            rate: 0.5,
            start_unix_ns: 1,
            lost: Some(3),
            gets: Some(4),
            lifetimes: Lifetimes::Told,
        };
        assert_eq!(facts(&file), whole);
        let cut = &file[..file.len() - 1];
        assert_eq!(facts(cut), Recording { lost: None, gets: None, ..whole });
    }
}
