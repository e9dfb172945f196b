//! Helpers of the formats' tests: decode a file's content, whole or cut anywhere.

use crate::trace::decode::BATCH;
use crate::trace::error::{Position, RecordError};
use crate::trace::{Format, Operation, ReadOptions, Record, Trace};

/// Decodes `file` in blocks of `block` bytes, as the driver does.
pub(in crate::trace) fn in_blocks(
    format: Format,
    options: &ReadOptions<'_>,
    file: &[u8],
    block: usize,
) -> (Vec<Record>, Result<(), RecordError>) {
    let mut decoder = super::open(format, options).unwrap();
    let (mut all, mut tail) = (Vec::new(), Vec::new());
    let mut chunks = file.chunks(block).peekable();
    loop {
        tail.extend(chunks.next().unwrap_or_default());
        let last = chunks.peek().is_none();
        loop {
            let mut out = Vec::new();
            let used = decoder.decode(&tail, last, &mut out);
            if !decoder.columns().sizes {
                out.iter_mut().for_each(|record| record.size = 1);
            }
            all.append(&mut out.clone());
            match used {
                Ok(used) => tail.drain(..used),
                Err(error) => return (all, Err(error)),
            };
            if out.len() < BATCH {
                break;
            }
        }
        if last {
            return (all, Ok(()));
        }
    }
}

pub(in crate::trace) fn keeping_times() -> ReadOptions<'static> {
    ReadOptions { times: true, ..ReadOptions::default() }
}

/// The records of a valid file.
pub(in crate::trace) fn decoded(format: Format, file: &[u8]) -> Vec<Record> {
    let (records, end) = in_blocks(format, &keeping_times(), file, usize::MAX);
    assert_eq!(end, Ok(()));
    records
}

/// The ids of a valid file.
pub(in crate::trace) fn ids(format: Format, file: &[u8]) -> Vec<u64> {
    decoded(format, file).iter().map(|record| record.id).collect()
}

/// The error of a file, and its place.
pub(in crate::trace) fn problem(format: Format, file: &[u8]) -> String {
    let (_, end) = in_blocks(format, &keeping_times(), file, usize::MAX);
    let error = end.unwrap_err();
    match error.position {
        Position::Line(line) => format!("line {line}: {}", error.problem),
        Position::Byte(offset) => format!("byte {offset}: {}", error.problem),
    }
}

/// A trace of rows `(time, id, size, operation)` with the columns that bits of `has` name and
/// `format` can carry.
pub(in crate::trace) fn traced(rows: &[(u64, u64, u32, u8)], format: Format, has: u8) -> Trace {
    let operation = |number: u8| match (number, format) {
        (1, _) => Operation::Set,
        (2, Format::Csv | Format::Json | Format::Twitter | Format::Frazil) => Operation::Delete,
        _ => Operation::Get,
    };
    let mut trace = Trace::default();
    for &(time_ns, id, size, number) in rows {
        let known = trace.objects.iter().position(|&object| object == id);
        let dense = known.unwrap_or_else(|| {
            trace.objects.push(id);
            trace.objects.len() - 1
        });
        trace.ids.push(dense as u32);
        if has & 1 != 0 {
            // Whole seconds that fit 32 bits, if the format has only these.
            let whole = format == Format::OracleGeneral;
            trace.times_ns.push(if whole { time_ns >> 3 } else { time_ns });
        }
        if has & 2 != 0 {
            trace.sizes.push(u64::from(size));
        }
        if has & 4 != 0
            && matches!(
                format,
                Format::Csv | Format::Json | Format::Twitter | Format::Msr | Format::Frazil
            )
        {
            trace.operations.push(operation(number));
        }
    }
    trace
}
