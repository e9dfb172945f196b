//! The store against a naive map, and among threads.
//!
//! What a value must be follows from its key and a version, so each byte that is read is checked.

mod model;
mod space;
mod threads;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The value of a key's version, of `length` bytes: its version and length, and bytes that follow from
/// these and the key.
fn value_of(key: &[u8], version: u64, length: usize) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.extend((length as u64).to_le_bytes());
    let mut block = 0;
    while value.len() < length.max(16) {
        block += 1;
        value.extend(xxh3_64_with_seed(key, version ^ block << 48 ^ length as u64).to_le_bytes());
    }
    value.truncate(length.max(16));
    value
}

/// The version of a value, all of whose bytes are as they should be.
fn checked_version(key: &[u8], value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[..8].try_into().unwrap());
    let length = u64::from_le_bytes(value[8..16].try_into().unwrap()) as usize;
    assert_eq!(value, value_of(key, version, length), "a damaged value of {key:?}");
    version
}
