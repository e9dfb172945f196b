//! The extent of the tests: with `FRAZIL_LONG=1` the full one.
//!
//! Tests of a policy's own code run with every policy. Tests of how the cache treats policies run
//! with one of each kind, and in a long run with all.

use std::time::Duration;

use frazil::Policy;

/// An operation that takes longer hangs: it takes less even on a busy machine.
#[allow(dead_code, reason = "schedules know no time")]
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);

/// A long run, before a release.
pub(crate) fn is_long() -> bool {
    std::env::var_os("FRAZIL_LONG").is_some()
}

/// One of each kind that the cache treats differently; all policies in a long run.
pub(crate) fn policies() -> Vec<Policy> {
    if is_long() {
        return Policy::ALL.to_vec();
    }
    let kinds = [
        // Without a lock.
        "fifo",
        "clock:bits=2",
        "mobius",
        "s3-fifo",
        // Under one: a list; a clock; a hit that needs no lock; refusal and hashes; ghosts; a heap;
        // samples; delays.
        "lru",
        "lru-delayed",
        "sieve",
        "w-tinylfu",
        "arc",
        "gdsf",
        "lhd",
        "mad",
    ];
    kinds.iter().map(|name| name.parse().expect("a policy")).collect()
}

/// `count` in a long run, a fortieth of it otherwise: enough for what `cargo xtask mutants` breaks.
pub(crate) fn turns(count: u64) -> u64 {
    if is_long() { count } else { count.div_ceil(40) }
}
