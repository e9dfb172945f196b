//! Encodes requests into a file.

use std::io::{self, Write};

use crate::{
    BLOCK_HEAD, FOR_EVER, HAS_SIZES, Header, LIFETIMES_SHIFT, MAGIC, Operation, PAYLOAD_BYTES,
    RECORD_BYTES_MAX, Record, SIZE_MAX, VERSION, checksum, header_checksum,
};

/// Writes a file, block by block. Holds one block, 16 KiB.
///
/// ```
/// use frazil_recording::{Encoder, Header, Lifetimes, Operation, Record};
///
/// let lifetimes = Lifetimes::None;
/// let header = Header { rate: 0.01, start_unix_ns: 0, has_sizes: true, lifetimes };
/// let mut file = Vec::new();
/// let mut encoder = Encoder::new(&mut file, &header)?;
/// let record = Record {
///     time_ns: 5,
///     id: 7,
///     size: Some(100),
///     operation: Operation::Get,
///     lifetime_ns: None,
/// };
/// encoder.push(&record)?;
/// assert_eq!(encoder.finish(0, None)?, 40 + (24 + 11) + (24 + 24));
/// assert_eq!(file.len(), 123);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Encoder<W> {
    out: W,
    has_sizes: bool,
    payload: Vec<u8>,
    /// Records in the payload.
    records: u32,
    /// Start time of the block.
    begin_ns: u64,
    last_ns: u64,
    /// Checksum of the last part written.
    before: u64,
    /// Records in total.
    total: u64,
    /// Bytes written.
    bytes: u64,
}

impl<W: Write> Encoder<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        let sizes = if header.has_sizes { HAS_SIZES } else { 0 };
        bytes.extend((sizes | (header.lifetimes as u32) << LIFETIMES_SHIFT).to_le_bytes());
        bytes.extend(header.rate.to_le_bytes());
        bytes.extend(header.start_unix_ns.to_le_bytes());
        let before = header_checksum(&bytes);
        bytes.extend(before.to_le_bytes());
        out.write_all(&bytes)?;
        Ok(Encoder {
            out,
            has_sizes: header.has_sizes,
            payload: Vec::with_capacity(PAYLOAD_BYTES),
            records: 0,
            begin_ns: 0,
            last_ns: 0,
            before,
            total: 0,
            bytes: bytes.len() as u64,
        })
    }

    /// Adds a record; writes a block if it is full.
    ///
    /// # Errors
    /// Errors of the output; the block is lost then.
    #[inline]
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        if self.records == 0 {
            self.begin_ns = record.time_ns;
            self.last_ns = record.time_ns;
        }
        let delta = record.time_ns.wrapping_sub(self.last_ns) as i64;
        self.last_ns = record.time_ns;
        put_varint(&mut self.payload, ((delta << 1) ^ (delta >> 63)) as u64);
        self.payload.extend(record.id.to_le_bytes());
        let size = record.size.unwrap_or(0).min(SIZE_MAX);
        let (operation, size) = match record.operation {
            Operation::Get if self.has_sizes && record.size.is_none() => (3, 0),
            Operation::Get => (0, size),
            Operation::Set => (1, size),
            Operation::Delete => (2, 0),
        };
        let size = if self.has_sizes { size } else { 0 };
        let lifetime_ns = record.lifetime_ns.filter(|_| record.operation != Operation::Delete);
        let has_lifetime = u64::from(lifetime_ns.is_some());
        put_varint(&mut self.payload, size << 3 | has_lifetime << 2 | operation);
        if let Some(lifetime_ns) = lifetime_ns {
            let lifetime_ns = if lifetime_ns == FOR_EVER { 0 } else { lifetime_ns.max(1) };
            put_varint(&mut self.payload, lifetime_ns);
        }
        self.records += 1;
        if self.payload.len() + RECORD_BYTES_MAX > PAYLOAD_BYTES {
            return self.end_block();
        }
        Ok(())
    }

    /// Writes the block being filled, unless it is empty.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.records > 0 {
            self.end_block()?;
        }
        self.out.flush()
    }

    /// Ends the file with the number of `lost` records and of `gets` of all keys,
    /// recorded or not. Returns the file's bytes.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self, lost: u64, gets: Option<u64>) -> io::Result<u64> {
        self.flush()?;
        self.payload.extend(self.total.to_le_bytes());
        self.payload.extend(lost.to_le_bytes());
        self.payload.extend(gets.unwrap_or(0).to_le_bytes());
        self.begin_ns = self.last_ns;
        self.end_block()?;
        self.out.flush()?;
        Ok(self.bytes)
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.total + u64::from(self.records)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn end_block(&mut self) -> io::Result<()> {
        let mut head = [0; BLOCK_HEAD];
        head[..4].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&self.records.to_le_bytes());
        head[8..16].copy_from_slice(&self.begin_ns.to_le_bytes());
        let sum = checksum(&head[..16], &self.payload, self.before);
        head[16..].copy_from_slice(&sum.to_le_bytes());
        let written = self.out.write_all(&head).and_then(|()| self.out.write_all(&self.payload));
        self.before = sum;
        self.total += u64::from(self.records);
        self.bytes += (BLOCK_HEAD + self.payload.len()) as u64;
        self.records = 0;
        self.payload.clear();
        written
    }
}

#[inline]
fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
