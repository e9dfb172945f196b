//! Valid files, files cut short, and files damaged at every byte.

use frazil_recording::{
    DecodeError, Decoder, Encoder, End, FOR_EVER, Header, Lifetimes, Operation, Record,
};

fn header(has_sizes: bool) -> Header {
    let lifetimes = Lifetimes::Moved;
    Header { rate: 0.25, start_unix_ns: 1_700_000_000_000_000_000, has_sizes, lifetimes }
}

/// Numbers of every length, in mixed order.
fn records(count: u64, has_sizes: bool) -> Vec<Record> {
    let number = |index: u64| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let record = |index: u64| {
        let size = (number(index) >> 3) >> (index % 61);
        let (operation, size) = match index % 5 {
            0 | 1 => (Operation::Get, has_sizes.then_some(size)),
            2 => (Operation::Get, None),
            3 => (Operation::Set, has_sizes.then_some(size)),
            _ => (Operation::Delete, None),
        };
        let lifetime_ns = match index % 7 {
            _ if operation == Operation::Delete => None,
            0 | 1 => Some((number(index + 9) >> (index % 64)).max(1)),
            2 => Some(FOR_EVER),
            _ => None,
        };
        let (time_ns, id) = (number(index) >> (index % 64), number(index));
        Record { time_ns, id, size, operation, lifetime_ns }
    };
    (0..count).map(record).collect()
}

/// A file, and where its blocks end.
fn file(records: &[Record], has_sizes: bool, flush_every: usize) -> (Vec<u8>, Vec<(usize, usize)>) {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, &header(has_sizes)).unwrap();
    let mut ends = vec![(encoder.bytes() as usize, 0)];
    for (index, record) in records.iter().enumerate() {
        encoder.push(record).unwrap();
        if (index + 1) % flush_every == 0 {
            encoder.flush().unwrap();
            ends.push((encoder.bytes() as usize, index + 1));
        }
    }
    assert_eq!(encoder.records(), records.len() as u64);
    assert_eq!(encoder.finish(9, Some(3)).unwrap(), file.len() as u64);
    (file, ends)
}

/// Decodes all whole blocks. Returns the bytes decoded, and the records.
fn decoded(bytes: &[u8]) -> Result<(Decoder, usize, Vec<Record>), DecodeError> {
    let (mut decoder, mut records, mut at) = (Decoder::default(), Vec::new(), 0);
    while at < bytes.len() {
        match decoder.decode(&bytes[at..], &mut records)? {
            0 => break,
            used => at += used,
        }
    }
    Ok((decoder, at, records))
}

#[test]
fn what_is_written_is_read() {
    for has_sizes in [false, true] {
        for count in [0, 1, 7, 20_000] {
            let written = records(count, has_sizes);
            let (file, _) = file(&written, has_sizes, usize::MAX);
            let (decoder, at, read) = decoded(&file).unwrap();
            assert_eq!(read, written);
            assert_eq!(at, file.len());
            assert_eq!(decoder.header(), Some(&header(has_sizes)));
            assert_eq!(decoder.end(), Some(End { records: count, lost: 9, gets: Some(3) }));
        }
    }
}

#[test]
fn a_size_beyond_the_largest_is_the_largest() {
    let record = Record {
        time_ns: 0,
        id: 1,
        size: Some(u64::MAX),
        operation: Operation::Set,
        lifetime_ns: None,
    };
    let (file, _) = file(&[record], true, 1);
    assert_eq!(decoded(&file).unwrap().2[0].size, Some(frazil_recording::SIZE_MAX));
}

/// Wherever it is cut, all whole blocks are read, and nothing else.
#[test]
fn a_file_cut_short_is_read_up_to_its_last_whole_block() {
    let written = records(60, true);
    let (file, ends) = file(&written, true, 7);
    for cut in 0..file.len() {
        let (decoder, at, read) = decoded(&file[..cut]).unwrap();
        let (end, count) = ends.iter().rev().find(|end| end.0 <= cut).copied().unwrap_or((0, 0));
        // The last block, of less than seven, ends where the end begins.
        let last = file.len() - 48;
        let (end, count) = if cut >= last { (last, written.len()) } else { (end, count) };
        assert_eq!((at, read.as_slice()), (end, &written[..count]), "cut at {cut}");
        assert_eq!(decoder.end(), None);
    }
}

/// Any change of any byte gives an error, or the blocks before it.
#[test]
fn a_damaged_byte_is_found_out() {
    let written = records(60, true);
    let (file, ends) = file(&written, true, 7);
    for at in 0..file.len() {
        for change in [1, 0x80, 0xff, 0x10] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            match decoded(&damaged) {
                Err(error) => {
                    assert!(error.offset <= at as u64, "byte {at}: {error}");
                    assert!(error.to_string().len() < 200, "{error}");
                }
                Ok((decoder, _, read)) => {
                    // The length exceeds the file.
                    let before = ends.iter().rev().find(|end| end.0 <= at).unwrap().1;
                    assert_eq!(read, written[..before], "byte {at}");
                    assert_eq!(decoder.end(), None);
                }
            }
        }
    }
}

#[test]
fn blocks_may_not_be_moved_left_out_or_added() {
    let (file, ends) = file(&records(60, true), true, 7);
    let block = |number: usize| &file[ends[number].0..ends[number + 1].0];
    let with = |parts: &[&[u8]]| decoded(&parts.concat()).map(|_| ()).unwrap_err();
    let (start, rest) = (&file[..ends[0].0], &file[ends[2].0..]);
    assert_eq!(with(&[start, block(1), block(0), rest]).offset, ends[0].0 as u64);
    assert_eq!(with(&[start, block(1), rest]).offset, ends[0].0 as u64);
    let second = ends[1].0 as u64;
    assert_eq!(with(&[start, block(0), block(0), block(1), rest]).offset, second);
    let after = with(&[&file, &file]);
    assert_eq!(after.offset, file.len() as u64);
    assert_eq!(after.problem, "expected nothing after the end of the recording");
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let problem = |rate: f64, start: &[u8]| {
        let header = Header { rate, ..header(true) };
        let mut file = Vec::new();
        Encoder::new(&mut file, &header).unwrap().finish(0, None).unwrap();
        file[..start.len()].copy_from_slice(start);
        decoded(&file).map(|_| ()).unwrap_err().problem
    };
    for rate in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        assert!(problem(rate, b"").contains("expected a rate"), "{rate}");
    }
    assert!(problem(0.5, b"time,id").contains("expected the beginning"));
    assert!(problem(0.5, b"\x89frazil\n\x03").contains("expected version 1 to 2"));
    assert!(problem(0.5, b"\x89frazil\n\x02\0\0\0\x01\0\0\0\x01").contains("checksum"));
}

/// A file of version 1, without lifetimes: two gets and a set with sizes, and a delete.
const VERSION_1: &[u8] = include_bytes!("version-1.frazil");

#[test]
fn files_of_version_1_are_read() {
    let (decoder, at, read) = decoded(VERSION_1).unwrap();
    assert_eq!(at, VERSION_1.len());
    let record =
        |time_ns, id, size, operation| Record { time_ns, id, size, operation, lifetime_ns: None };
    let expected = [
        record(5, 7, Some(1_000), Operation::Get),
        record(9, 8, None, Operation::Get),
        record(9, 7, Some(3), Operation::Set),
        record(20, 7, None, Operation::Delete),
    ];
    assert_eq!(read, expected);
    assert_eq!(decoder.header().unwrap().lifetimes, Lifetimes::Unknown);
}
