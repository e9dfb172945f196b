//! Decodes a file into requests, whatever the file contains.
//!
//! Nothing is allocated by a number from the file before that number is checked.

use std::error::Error;
use std::fmt;

use crate::{
    BLOCK_HEAD, END_BYTES, FOR_EVER, HAS_SIZES, HEADER_BYTES, Header, LIFETIMES_SHIFT, Lifetimes,
    MAGIC, Operation, PAYLOAD_BYTES, RECORD_BYTES_MIN, Record, VERSION, checksum, header_checksum,
};

/// Why bytes are not a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset into the file.
    pub offset: u64,
    /// The expected and the actual content.
    pub problem: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DecodeError { offset, problem } = self;
        write!(f, "byte {offset}: {problem}")
    }
}

impl Error for DecodeError {}

/// The counts at the end of a complete file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Records in the file.
    pub records: u64,
    /// Records lost because they arrived faster than they could be written.
    pub lost: u64,
    /// Gets of all keys, recorded or not, during the recording; `None` if unknown.
    pub gets: Option<u64>,
}

/// Reads a file piece by piece.
///
/// ```
/// use frazil_recording::{Decoder, Encoder, Header, Lifetimes, Operation, Record};
///
/// let lifetimes = Lifetimes::Told;
/// let header = Header { rate: 1.0, start_unix_ns: 0, has_sizes: false, lifetimes };
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(&mut file, &header)?;
/// let record = Record {
///     time_ns: 5,
///     id: 7,
///     size: None,
///     operation: Operation::Set,
///     lifetime_ns: Some(60_000_000_000),
/// };
/// encoder.push(&record)?;
/// encoder.finish(2, Some(9))?;
///
/// let (mut decoder, mut records, mut at) = (Decoder::default(), Vec::new(), 0);
/// while at < file.len() {
///     at += decoder.decode(&file[at..], &mut records)?;
/// }
/// assert_eq!(records, [record]);
/// assert_eq!(decoder.end().map(|end| (end.lost, end.gets)), Some((2, Some(9))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Decoder {
    header: Option<Header>,
    version: u32,
    end: Option<End>,
    /// Offset of the next byte.
    offset: u64,
    /// Checksum of the last part read.
    before: u64,
    records: u64,
}

impl Decoder {
    /// Decodes the next part, the header or a block, from the front of `bytes` and appends its
    /// records to `out`. Returns the bytes used, 0 if the part is not complete.
    ///
    /// # Errors
    /// When the bytes are not valid at this place; nothing is appended then.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<usize, DecodeError> {
        let used = match &self.header {
            None => self.read_header(bytes),
            Some(_) if self.end.is_some() && !bytes.is_empty() => {
                Err("expected nothing after the end of the recording".to_owned())
            }
            Some(header) => {
                let layout = Layout { has_sizes: header.has_sizes, version: self.version };
                let held = out.len();
                self.read_block(bytes, layout, out).inspect_err(|_| out.truncate(held))
            }
        };
        let used = used.map_err(|problem| DecodeError { offset: self.offset, problem })?;
        self.offset += used as u64;
        Ok(used)
    }

    /// The header, once it was read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// The end, once it was read. A file without an end was cut short, or is still being written.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Offset of the next part.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_header(&mut self, bytes: &[u8]) -> Result<usize, String> {
        if !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes) {
            return Err("expected the beginning of a recording, \\x89frazil\\n".to_owned());
        }
        let Some(bytes) = bytes.get(..HEADER_BYTES) else { return Ok(0) };
        let version = u32_at(bytes, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(format!("expected version 1 to {VERSION} of recordings, found {version}"));
        }
        self.version = version;
        self.before = u64_at(bytes, 32);
        if checks(|| header_checksum(&bytes[..32]) != self.before) {
            return Err("the header does not have its checksum: it is damaged".to_owned());
        }
        let (flags, rate) = (u32_at(bytes, 12), f64::from_bits(u64_at(bytes, 16)));
        let most = if version == 1 { HAS_SIZES } else { HAS_SIZES | 3 << LIFETIMES_SHIFT };
        if flags & !most != 0 {
            return Err(format!("expected flags of 0 to {most}, found {flags}"));
        }
        let lifetimes = match flags >> LIFETIMES_SHIFT {
            _ if version == 1 => Lifetimes::Unknown,
            0 => Lifetimes::None,
            1 => Lifetimes::Told,
            2 => Lifetimes::Moved,
            _ => Lifetimes::Unknown,
        };
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(format!("expected a rate above 0 and at most 1, found {rate}"));
        }
        let has_sizes = flags & HAS_SIZES != 0;
        let start_unix_ns = u64_at(bytes, 24);
        self.header = Some(Header { rate, start_unix_ns, has_sizes, lifetimes });
        Ok(HEADER_BYTES)
    }

    fn read_block(
        &mut self,
        bytes: &[u8],
        layout: Layout,
        out: &mut Vec<Record>,
    ) -> Result<usize, String> {
        let Some((head, rest)) = bytes.split_at_checked(BLOCK_HEAD) else { return Ok(0) };
        let (length, records) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
        let is_end = records == 0;
        if is_end && length != END_BYTES {
            return Err(format!("expected an end of {END_BYTES} bytes, found one of {length}"));
        }
        if length > PAYLOAD_BYTES || records > length / RECORD_BYTES_MIN {
            return Err(format!(
                "expected a block of at most {PAYLOAD_BYTES} bytes, and {RECORD_BYTES_MIN} or more \
                 a record, found one of {length} bytes and {records} records"
            ));
        }
        let Some(payload) = rest.get(..length) else { return Ok(0) };
        let sum = u64_at(head, 16);
        if checks(|| checksum(&head[..16], payload, self.before) != sum) {
            let damaged = "the block does not have its checksum: it is damaged, or something \
                           before it is missing";
            return Err(damaged.to_owned());
        }
        if is_end {
            self.read_end(payload)?;
        } else {
            read_records(payload, records, u64_at(head, 8), layout, out)?;
        }
        self.before = sum;
        self.records += records as u64;
        Ok(BLOCK_HEAD + length)
    }

    fn read_end(&mut self, payload: &[u8]) -> Result<(), String> {
        let (records, lost) = (u64_at(payload, 0), u64_at(payload, 8));
        if records != self.records {
            return Err(format!("expected {} records in all, found {records}", self.records));
        }
        let gets = u64_at(payload, 16);
        self.end = Some(End { records, lost, gets: (gets > 0).then_some(gets) });
        Ok(())
    }
}

/// The layout of the records of a file.
#[derive(Clone, Copy)]
struct Layout {
    has_sizes: bool,
    version: u32,
}

fn read_records(
    mut payload: &[u8],
    records: usize,
    mut time_ns: u64,
    layout: Layout,
    out: &mut Vec<Record>,
) -> Result<(), String> {
    let cut = || "the records of the block are not as long as it says".to_owned();
    for _ in 0..records {
        let delta = take_varint(&mut payload).ok_or_else(cut)?;
        time_ns = time_ns.wrapping_add(((delta >> 1) as i64 ^ -((delta & 1) as i64)) as u64);
        let (id, rest) = payload.split_first_chunk().ok_or_else(cut)?;
        payload = rest;
        let sized = take_varint(&mut payload).ok_or_else(cut)?;
        let told = layout.version > 1 && sized & 4 != 0;
        let lifetime_ns = match told.then(|| take_varint(&mut payload).ok_or_else(cut)) {
            None => None,
            Some(told) => Some(told?).map(|ns| if ns == 0 { FOR_EVER } else { ns }),
        };
        let bits = if layout.version > 1 { 3 } else { 2 };
        let size = layout.has_sizes.then_some(sized >> bits);
        let (operation, size) = match sized & 3 {
            0 => (Operation::Get, size),
            1 => (Operation::Set, size),
            2 => (Operation::Delete, None),
            _ => (Operation::Get, None),
        };
        let id = u64::from_le_bytes(*id);
        out.push(Record { time_ns, id, size, operation, lifetime_ns });
    }
    if payload.is_empty() { Ok(()) } else { Err(cut()) }
}

/// A varint from the front, unless it is incomplete or exceeds 64 bits.
#[inline]
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

// The callers have checked the length.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}
/// A fuzzer cannot guess checksums, but should reach the code after them.
fn checks(differs: impl FnOnce() -> bool) -> bool {
    !cfg!(fuzzing) && differs()
}
