//! libCacheSim's oracle-general: packed 24-byte little-endian records `u32
//! time_s, u64 object, u32 size, i64 next_access`.
//!
//! The index of the next access is ignored: a policy that needs it computes it from the requests
//! within the limit. Two loads and a store per field; decompression takes most of the time.

use crate::trace::Record;
use crate::trace::decode::{BATCH, Columns, Decode};
use crate::trace::error::{Position, RecordError};

/// Bytes in a record.
pub(in crate::trace) const RECORD_BYTES: usize = 24;

/// Decoder of oracle-general.
#[derive(Default)]
pub(super) struct OracleGeneral {
    offset: u64,
}

impl Decode for OracleGeneral {
    fn decode(
        &mut self,
        block: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError> {
        let (records, tail) = block.as_chunks::<RECORD_BYTES>();
        let taken = records.len().min(BATCH);
        out.extend(records[..taken].iter().map(record));
        let used = taken * RECORD_BYTES;
        self.offset += used as u64;
        if last && taken == records.len() && !tail.is_empty() {
            return Err(cut_short(self.offset, RECORD_BYTES, tail.len()));
        }
        Ok(used)
    }

    fn columns(&self) -> Columns {
        Columns { times: true, sizes: true, ..Columns::default() }
    }
}

#[inline]
fn record(bytes: &[u8; RECORD_BYTES]) -> Record {
    let [t0, t1, t2, t3, rest @ ..] = *bytes;
    let [id @ .., s0, s1, s2, s3, _, _, _, _, _, _, _, _] = rest;
    Record {
        time_ns: u64::from(u32::from_le_bytes([t0, t1, t2, t3])) * 1_000_000_000,
        id: u64::from_le_bytes(id),
        size: u64::from(u32::from_le_bytes([s0, s1, s2, s3])),
        ..Record::default()
    }
}

/// The error for content that ends within a record of `expected` bytes.
pub(super) fn cut_short(offset: u64, expected: usize, found: usize) -> RecordError {
    RecordError {
        position: Position::Byte(offset),
        problem: format!(
            "expected a record of {expected} bytes, found {found} before the end of the file"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{decoded, problem};
    use crate::trace::{Format, Record};

    fn bytes(time: u32, id: u64, size: u32) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend(id.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    }

    #[test]
    fn fields_are_little_endian() {
        let file = [bytes(1, u64::MAX - 1, 512), bytes(u32::MAX, 3, 0)].concat();
        let expected = [
            Record { time_ns: 1_000_000_000, id: u64::MAX - 1, size: 512, ..Record::default() },
            Record { time_ns: 4_294_967_295_000_000_000, id: 3, ..Record::default() },
        ];
        assert_eq!(decoded(Format::OracleGeneral, &file), expected);
    }

    #[test]
    fn an_incomplete_record_is_an_error() {
        let mut file = [bytes(1, 2, 3), bytes(1, 2, 3)].concat();
        file.pop();
        assert_eq!(
            problem(Format::OracleGeneral, &file),
            "byte 24: expected a record of 24 bytes, found 23 before the end of the file"
        );
    }
}
