//! Tests our cache for the behaviour that other caches test.
//!
//! For each behavioural test of moka, quick_cache, lru and foyer-memory there is one here of the
//! same name: the same scenario and the same expectations, over an adapter that gives our cache the
//! interface of theirs. Tests that can't be ported are listed with the reason. Where theirs sleep,
//! ours wait for each other; where theirs repeat a race thousands of times, ours repeat it less
//! often.
//!
//! ```sh
//! cargo xtask suites
//! ```

mod case;
mod foyer;
mod lru;
mod moka;
mod quick_cache;
mod report;
#[allow(dead_code, reason = "the tests of the cache use all of it")]
#[path = "../../crates/frazil/tests/cache/tasks/mod.rs"]
mod tasks;
mod wait;

use std::process::ExitCode;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let suites = [moka::suites(), quick_cache::suites(), lru::suites(), foyer::suites()];
    report::run(suites.into_iter().flatten(), &wanted)
}
