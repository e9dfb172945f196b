//! Our cache in the driver: one pass has the simulator's misses, and a warm cache has its frozen
//! share.

use std::time::Duration;

use frazil::FreezingPhase;
use frazil_driver::{
    Ask, Backend, Engine, Operation, Ours, Pinned, Schedule, Setup, Shared, Stream, one_pass,
    run_with_backend, trace_streams,
};
use frazil_simulator::trace::{Trace, load};
use frazil_simulator::{CellSpec, SweepOptions, sweep};

const TRACE: &str = "zipf:1.0:objects=5K:requests=200K:seed=3";

fn trace() -> Trace {
    load(TRACE, &Default::default()).unwrap().trace
}

fn simulated_misses(trace: &Trace, policy: &str, capacity: u64) -> u64 {
    let cell = CellSpec { policy: policy.parse().unwrap(), capacity };
    sweep(trace, &[cell], &SweepOptions::default(), &|_| ())[0].misses()
}

/// Without S3-FIFO: the objects that its ghosts forget depend on the hashes, which differ.
const POLICIES: [&str; 5] = ["fifo", "clock", "clock:bits=2", "mobius", "sieve"];

#[test]
fn a_pass_counts_what_the_simulator_counts() {
    let trace = trace();
    let stream = &trace_streams(&trace, 1, false).unwrap()[0];
    for policy in POLICIES {
        for capacity in [50, 500] {
            let ours = Ours::<u64>::new(policy.parse::<Setup>().unwrap(), capacity, 0);
            let pass = one_pass(&ours, stream);
            let simulated = simulated_misses(&trace, policy, capacity);
            assert_eq!(pass.misses, simulated, "{policy} at {capacity}");
            assert_eq!(pass.hits + pass.misses, 200_000);
        }
    }
}

#[test]
fn values_and_pins_change_nothing() {
    let trace = trace();
    let stream = &trace_streams(&trace, 1, false).unwrap()[0];
    let policy = "mobius".parse::<Setup>().unwrap();
    let simulated = simulated_misses(&trace, "mobius", 500);
    let bytes = Ours::<std::sync::Arc<[u8]>>::new(policy, 500, 30);
    assert_eq!(one_pass(&bytes, stream).misses, simulated);
    let pinned = Pinned(Ours::<u64>::new(policy, 500, 0));
    assert_eq!(one_pass(&pinned, stream).misses, simulated);
}

#[test]
fn inserts_and_removals_are_no_gets() {
    let asked = [(Ask::Get, 1), (Ask::Remove, 1), (Ask::Get, 1), (Ask::Insert, 2), (Ask::Get, 2)];
    let stream = Stream::new(asked.map(|(ask, number)| Operation::new(ask, number)), 0);
    let pass = one_pass(&Ours::<u64>::new("mobius".parse::<Setup>().unwrap(), 100, 0), &stream);
    assert_eq!((pass.hits, pass.misses), (1, 2));
}

#[test]
fn what_is_to_be_frozen_is_when_warm() {
    let ours = Ours::<u64>::new("frozen:share=1+lru".parse::<Setup>().unwrap(), 100, 0);
    (0..100).for_each(|key| Shared::insert(&ours, key));
    let found = |ours: &Ours<u64>| (0..100).filter(|&key| Shared::get(ours, key).is_some()).count();
    assert_eq!((found(&ours), ours.cache().stats().frozen_hits), (100, 0));
    ours.warmed();
    assert_eq!(found(&ours), 100);
    assert!(ours.cache().stats().frozen_hits > 80);
}

#[test]
fn what_freezes_by_itself_is_frozen_when_warm() {
    let ours = Ours::<u64>::new("frozen+lru".parse::<Setup>().unwrap(), 1_000, 0);
    // Twice as many objects as fit, one after the other: LRU never hits, the frozen entries do.
    let asked = (0..2_000).map(|number| Operation::new(Ask::Get, number));
    let streams = [Stream::new(asked.collect::<Vec<_>>(), 0)];
    let schedule = Schedule::seconds(0.2);
    let backend = Backend::new(Duration::from_micros(5), 1);
    let measured = run_with_backend(&ours, &streams, 0, &schedule, backend);
    assert!(ours.has_settled());
    let state = ours.cache().freezing_state().unwrap();
    assert!(measured.hit_ratio > 0.3 || state.phase != FreezingPhase::Frozen, "{state:?}");
}
