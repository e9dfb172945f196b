//! The format of recorded requests, `frazil`: what a running cache writes and the simulator
//! reads.
//!
//! All numbers are little-endian; a *varint* is LEB128, at most ten bytes.
//!
//! ```text
//! file   = header block* end?
//! header = magic "\x89frazil\n"   u32 version (1)   u32 flags (bit 0: has sizes)
//!          f64 rate   u64 start, ns since 1970   u64 checksum of the 32 bytes before
//! block  = u32 payload bytes (≤ 16,384)   u32 records   u64 time of its beginning, ns
//!          u64 checksum   payload: a record after the other
//! record = varint time since the record before, ns, zigzag   u64 id
//!          varint (size << 2 | operation)
//! end    = a block of no records; its payload: u64 records in all, u64 records lost, u64 gets
//!          of all keys, recorded or not, 0 if that is not known
//! ```
//!
//! Operations are 0 get, 1 set, 2 delete, and 3 get of unknown size; the size is 0 of the
//! last two, and everywhere if the file has no sizes. Times count from the start.
//!
//! A checksum is XXH3 of the payload, seeded with that of the 16 bytes before it, seeded with
//! the checksum before. So a block that was damaged, moved, left out or taken from another
//! file is found out, and each is read or refused whole. A file without an end was cut short, or
//! is still written: all its whole blocks hold.
//!
//! 10 to 14 bytes a record; to encode or to decode one takes some 5 ns.
#![forbid(unsafe_code)]

mod decode;
mod encode;

pub use decode::{DecodeError, Decoder, End};
pub use encode::Encoder;

/// What a file begins with: a byte that is no text, and a line end that a transfer as text
/// would change.
pub const MAGIC: [u8; 8] = *b"\x89frazil\n";

/// The largest size that a record can have, 2^62 - 1; what is larger is written as this.
pub const SIZE_MAX: u64 = u64::MAX >> 2;

/// The most bytes that a block takes with its head.
pub const BLOCK_BYTES: usize = BLOCK_HEAD + PAYLOAD_BYTES;

const VERSION: u32 = 1;
const HAS_SIZES: u32 = 1;
const HEADER_BYTES: usize = 40;
const BLOCK_HEAD: usize = 24;
const PAYLOAD_BYTES: usize = 16 << 10;
const END_BYTES: usize = 24;
/// Two varints of one byte, and an id.
const RECORD_BYTES_MIN: usize = 10;
/// Two of ten.
const RECORD_BYTES_MAX: usize = 28;

/// What holds for a whole file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The share of all keys whose requests were recorded, above 0 and at most 1.
    pub rate: f64,
    /// The moment from which times count, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Whether sizes are recorded.
    pub has_sizes: bool,
}

/// What is asked of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Look up, and on a miss insert.
    Get,
    /// Insert or replace.
    Set,
    /// Remove.
    Delete,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time since the start of the recording, in nanoseconds.
    pub time_ns: u64,
    /// Which object.
    pub id: u64,
    /// Its size; `None` where it is not known, always so for a delete, never for a set if
    /// the file has sizes.
    pub size: Option<u64>,
    /// What is asked.
    pub operation: Operation,
}

/// The checksum of a block, from its first 16 bytes and its payload.
fn checksum(head: &[u8], payload: &[u8], before: u64) -> u64 {
    use xxhash_rust::xxh3::xxh3_64_with_seed;
    xxh3_64_with_seed(payload, xxh3_64_with_seed(head, before))
}

/// The checksum of a header, from its first 32 bytes.
fn header_checksum(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}
