//! cache2k's benchmark traces: 32-bit big-endian ids and nothing else.

use super::oracle_general::cut_short;
use crate::trace::Record;
use crate::trace::decode::{BATCH, Columns, Decode};
use crate::trace::error::RecordError;

/// Bytes in a record.
const RECORD_BYTES: usize = 4;

/// Decoder of cache2k's traces.
#[derive(Default)]
pub(super) struct Cache2k {
    offset: u64,
}

impl Decode for Cache2k {
    fn decode(
        &mut self,
        block: &[u8],
        last: bool,
        out: &mut Vec<Record>,
    ) -> Result<usize, RecordError> {
        let (records, tail) = block.as_chunks::<RECORD_BYTES>();
        let taken = records.len().min(BATCH);
        out.extend(records[..taken].iter().map(|&bytes| Record {
            id: u64::from(u32::from_be_bytes(bytes)),
            size: 1,
            ..Record::default()
        }));
        let used = taken * RECORD_BYTES;
        self.offset += used as u64;
        if last && taken == records.len() && !tail.is_empty() {
            return Err(cut_short(self.offset, RECORD_BYTES, tail.len()));
        }
        Ok(used)
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
    fn ids_are_big_endian() {
        let file = [0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(ids(Format::Cache2k, &file), [258, 0xffff_ffff]);
    }

    #[test]
    fn an_incomplete_id_is_an_error() {
        assert_eq!(
            problem(Format::Cache2k, &[0, 0, 0, 1, 0, 0]),
            "byte 4: expected a record of 4 bytes, found 2 before the end of the file"
        );
    }
}
