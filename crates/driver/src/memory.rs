//! Bytes an entry, from the operating system.
//!
//! The figure is the growth of the resident set while a cache is built and filled several times,
//! divided by its capacity. An engine's own count would leave out its tables, the allocator's
//! overhead, and what eviction leaves behind. Memory that the process freed before is reused
//! without growth, so it must be measured in a process that has done nothing else.

use crate::engine::{Engine, Session};
use crate::stream::key;

/// Rotations of the whole cache, so that queues used alternately have all been touched.
const ROTATIONS: u64 = 5;
/// Prefix of keys that no workload requests.
const PREFIX: u32 = u32::MAX;

/// Builds a cache, inserts new keys five times its capacity, and returns the growth of the process
/// in bytes for each of `capacity` entries. `None` if the resident set can't be read. At most 2³²
/// keys are inserted.
///
/// ```
/// use frazil::Policy;
/// use frazil_driver::Ours;
/// let build = || Ours::<u64>::new(Policy::Mobius, 100_000, 0);
/// if let Some(bytes) = frazil_driver::bytes_per_entry(build, 100_000) {
///     assert!(bytes > 16.0);
/// }
/// ```
pub fn bytes_per_entry<E: Engine>(build: impl FnOnce() -> E, capacity: u64) -> Option<f64> {
    let before = resident_bytes()?;
    let engine = build();
    let mut session = engine.session();
    let inserts = capacity.saturating_mul(ROTATIONS).min(u64::from(u32::MAX)) as u32;
    for number in 0..inserts {
        session.insert(key(number, PREFIX));
        if number % 256 == 0 {
            session.rest();
        }
    }
    let after = resident_bytes()?;
    Some(after.saturating_sub(before) as f64 / capacity.max(1) as f64)
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(not(target_os = "linux"))]
fn resident_bytes() -> Option<u64> {
    None
}
