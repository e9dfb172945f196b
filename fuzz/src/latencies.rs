//! The languages of durations and of the length of fetches: each parsed one is a length of time
//! that the simulator can add, by either clock.

use std::sync::OnceLock;

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{ReadOptions, Trace, load};
use frazil_simulator::{
    CellSpec, FetchLatency, Fetching, ReplayClock, SweepOptions, parse_us, sweep_delayed,
};

/// The first time is large, as if counted since 1970.
const START_NS: u64 = 1_700_000_000_000_000_000;

static TRACE: OnceLock<Trace> = OnceLock::new();

/// Parses an input; panics if the parser breaks a promise.
///
/// # Panics
///
/// If a promise is broken.
pub fn feed(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(us) = parse_us(text) {
        assert!(us == 0.0 || (1e-3..=1e15).contains(&us), "{text}: {us}");
    }
    let trace = TRACE.get_or_init(|| {
        let spec = "mix:objects=200:requests=500:seed=1";
        let mut trace = load(spec, &ReadOptions::default()).expect("a workload").trace;
        trace.times_ns = (0..500).map(|at| START_NS + at / 3 * 1_000).collect();
        trace.latencies = (0..500).map(|at| at * 40 + 1).collect();
        trace
    });
    for clock in [ReplayClock::Request, ReplayClock::Trace] {
        let Ok(latency) = FetchLatency::parse(text, clock) else { continue };
        let fetching = Fetching::new(trace, latency, clock).expect("times and latencies");
        let cells = ["lru", "mad"].map(|name| {
            let policy = name.parse::<PolicySpec>().expect("a policy");
            CellSpec { policy, capacity: 7 }
        });
        for outcome in sweep_delayed(trace, &cells, &SweepOptions::default(), &fetching, &|_| ()) {
            let waited = outcome.latency.expect("fetches take time").total;
            assert!(waited >= outcome.misses() + outcome.delayed_hits, "{text}: {outcome:?}");
        }
    }
}
