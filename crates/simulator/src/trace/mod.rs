//! Traces: what a replay reads, decoded once into columns of dense ids.
//!
//! Decoding costs as much as replaying five to twenty policies, so a file is
//! read once, its ids are mapped to `0..objects` in order of first appearance,
//! and every cell of a sweep shares the result. A record takes 4 bytes, plus 4
//! where the trace has sizes, 8 where times are asked for, and 1 where it has
//! operations other than get.

/// What a record asks of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Look up, and on a miss insert: the one operation that counts as a request.
    #[default]
    Get,
    /// Insert or replace. Not a request.
    Set,
    /// Remove. Not a request.
    Delete,
}

/// One record of a trace as its file has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Time since the trace's own epoch, in nanoseconds; 0 where the format has none.
    pub time_ns: u64,
    /// The object's id; a string id is hashed to 64 bits.
    pub id: u64,
    /// Size of the object in bytes; 1 where the format has none.
    pub size: u32,
    /// What is asked.
    pub operation: Operation,
}

/// A decoded trace. All columns that are not empty are as long as `ids`.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Dense object number per record, in order of first appearance.
    pub ids: Vec<u32>,
    /// Size in bytes per record; empty where the trace has no sizes.
    pub sizes: Vec<u32>,
    /// Time per record in nanoseconds; empty unless the format has times and they were asked for.
    pub times_ns: Vec<u64>,
    /// Operation per record; empty where every record is a get.
    pub operations: Vec<Operation>,
    /// Original id per dense object number.
    pub objects: Vec<u64>,
}
