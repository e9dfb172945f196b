//! The language of policies: a parsed name is printed the same, and its policy replays.

use std::sync::OnceLock;

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Loaded, ReadOptions, load};
use frazil_simulator::{CellSpec, SweepOptions, sweep};

static TRACE: OnceLock<Loaded> = OnceLock::new();

/// Parses an input; panics if the parser or the policy breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(policy) = text.parse::<PolicySpec>() else { return };
    let printed = policy.to_string();
    assert_eq!(printed.parse::<PolicySpec>(), Ok(policy), "{printed}");
    let trace = TRACE.get_or_init(|| {
        let spec = "mix:objects=200:requests=2000:seed=1";
        load(spec, &ReadOptions::default()).expect("a workload")
    });
    let cells = [1, 7, 100].map(|capacity| CellSpec { policy, capacity });
    for outcome in sweep(&trace.trace, &cells, &SweepOptions::default(), &|_| ()) {
        assert_eq!(outcome.hits + outcome.misses(), outcome.requests);
    }
}
