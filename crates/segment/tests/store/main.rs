//! The store against a naive map, and with several threads.
//!
//! A value follows from its key and a version, so each byte read is checked.

mod learned;
mod model;
mod record;
mod snapshot;
mod space;
mod threads;

use std::path::PathBuf;

/// A file that is deleted when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(
            std::env::temp_dir().join(format!("frazil-segment-{name}-{}", std::process::id())),
        )
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Waits for a forked process, and checks that it succeeded.
#[cfg(all(target_os = "linux", not(miri)))]
fn expect_end_of(child: libc::pid_t) {
    use std::time::{Duration, Instant};

    let begun = Instant::now();
    let mut status = -1;
    // SAFETY: our own child, and a place for its status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > Duration::from_secs(60) {
            // SAFETY: our own child.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status, 0, "the child was killed or failed");
}

/// The value of a key's version, of `length` bytes: its version and length, and bytes that follow
/// from these and the key.
fn value_of(key: &[u8], version: u64, length: usize) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.extend((length as u64).to_le_bytes());
    // Cheap, because an interpreter also runs it: a generator seeded with all of these.
    let mixed = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut state = key.iter().fold(version ^ (length as u64) << 32, mixed);
    while value.len() < length.max(16) {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        value.extend((state ^ state >> 29).to_le_bytes());
    }
    value.truncate(length.max(16));
    value
}

/// The version of a value. Checks all of its bytes.
fn checked_version(key: &[u8], value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[..8].try_into().unwrap());
    let length = u64::from_le_bytes(value[8..16].try_into().unwrap()) as usize;
    assert_eq!(value, value_of(key, version, length), "a damaged value of {key:?}");
    version
}
