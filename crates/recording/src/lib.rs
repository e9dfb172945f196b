//! The format `frazil` of recorded requests, which a running cache writes and the simulator reads,
//! and the writer for a running cache ([`Recorder`], and [`StoreRecorder`] for one that any thread uses).
//!
//! All numbers are little-endian; a *varint* is LEB128, at most ten bytes.
//!
//! ```text
//! file   = header block* end?
//! header = magic "\x89frazil\n"   u32 version (2)   u32 flags (bit 0: has sizes; 1, 2: lifetimes)
//!          f64 rate   u64 start, ns since 1970   u64 checksum of the 32 bytes before
//! block  = u32 payload bytes (≤ 16,384)   u32 records   u64 time of its beginning, ns
//!          u64 checksum   payload: a record after the other
//! record = varint time since the record before, ns, zigzag   u64 id
//!          varint (size << 3 | has a lifetime << 2 | operation)   varint lifetime, ns, if it has
//! end    = a block of no records; its payload: u64 records in all, u64 records lost, u64 gets
//!          of all keys, recorded or not, 0 if that is not known
//! ```
//!
//! Operations are 0 get, 1 set, 2 delete, and 3 get of unknown size. The size is 0 in the last two,
//! and in all records if the file has no sizes. Times count from the start. A lifetime of 0 never
//! ends. The header has a [`Lifetimes`] by its number.
//!
//! Version 1 has `size << 2 | operation`, and no lifetimes. The decoder reads it too.
//!
//! A checksum is XXH3 of the payload, seeded with the checksum of the 16 bytes before it, which is
//! seeded with the previous checksum. So the decoder detects a block that was damaged, moved, left
//! out or taken from another file, and reads or refuses each block as a whole. A file without an
//! end was cut short, or is still being written: all its whole blocks are valid.
//!
//! A record takes 10 to 14 bytes, 5 to 7 more with a lifetime, and some 5 ns to encode or decode.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod event_log;
mod key_share;
mod recorder;
mod store_recorder;
mod writer;

pub use decode::{DecodeError, Decoder, End};
pub use encode::Encoder;
pub use event_log::{Event, Note};
pub use key_share::KeyShare;
pub use recorder::{Recorded, Recorder};
pub use store_recorder::{SHARED_LOGS, StoreRecorder, thread_log};

/// The first bytes of a file: a byte that no text has, and a line end that a text-mode transfer
/// would change.
pub const MAGIC: [u8; 8] = *b"\x89frazil\n";

/// The largest size of a record, 2^61 - 1; larger sizes are written as this.
pub const SIZE_MAX: u64 = u64::MAX >> 3;

/// The lifetime of an entry that does not expire.
pub const FOR_EVER: u64 = u64::MAX;

/// The most bytes of a block with its head.
pub const BLOCK_BYTES: usize = BLOCK_HEAD + PAYLOAD_BYTES;

const VERSION: u32 = 2;
const HAS_SIZES: u32 = 1;
const LIFETIMES_SHIFT: u32 = 1;
const HEADER_BYTES: usize = 40;
const BLOCK_HEAD: usize = 24;
const PAYLOAD_BYTES: usize = 16 << 10;
const END_BYTES: usize = 24;
/// Two varints of one byte each, and an id.
const RECORD_BYTES_MIN: usize = 10;
/// Three of ten.
const RECORD_BYTES_MAX: usize = 38;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The share of all keys whose requests were recorded, above 0 and at most 1.
    pub rate: f64,
    /// The moment from which times count, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Whether sizes are recorded.
    pub has_sizes: bool,
    /// The lifetimes of the cache when the recording began.
    pub lifetimes: Lifetimes,
}

/// The lifetimes in a cache, and those in its recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetimes {
    /// None at the start. Later insertions may have some.
    #[default]
    None,
    /// Records of insertions have lifetimes.
    Told,
    /// Records of insertions have lifetimes; reads extended them, which no record has.
    Moved,
    /// Unknown: files of version 1.
    Unknown,
}

/// A kind of request.
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
    /// The object.
    pub id: u64,
    /// Its size; `None` if unknown, always so for a delete, never for a set if the file has sizes.
    pub size: Option<u64>,
    /// The operation.
    pub operation: Operation,
    /// Lifetime of the inserted entry, in nanoseconds, at least 1, or [`FOR_EVER`]; `None` if
    /// unknown, as for a get that hits, and always for a delete.
    pub lifetime_ns: Option<u64>,
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
