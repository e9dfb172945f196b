//! Hostile input for readers of files, small languages and clients' bytes: a module for each, whose
//! `feed` takes any bytes and panics if a promise is broken.
//!
//! `tests/hostile.rs` feeds them the corpora and thousands of mutations, in every run of the tests;
//! `cargo xtask fuzz` lets libFuzzer look for more.

pub mod capacities;
pub mod generated;
pub mod latencies;
pub mod policies;
pub mod profile;
pub mod segment;
pub mod server;
pub mod snapshot;
pub mod traces;

/// A reader under test.
pub type Feed = fn(&[u8]);

/// All of them, by the names of their corpora.
pub const ALL: [(&str, Feed); 11] = [
    ("capacities", capacities::feed),
    ("generated", generated::feed),
    ("http", server::feed_http),
    ("latencies", latencies::feed),
    ("memcached", server::feed_memcached),
    ("policies", policies::feed),
    ("profile", profile::feed),
    ("resp", server::feed_resp),
    ("segment", segment::feed),
    ("snapshot", snapshot::feed),
    ("traces", traces::feed),
];

/// Writes an input to a file of its name. The old file is removed first: if a file is truncated and
/// rewritten, some file systems wait for the disk, 2 ms for each input.
fn write_anew(path: &std::path::Path, bytes: &[u8]) {
    _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).expect("a temporary file");
}
