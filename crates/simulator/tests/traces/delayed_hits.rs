//! Compares delayed hits with totals from an independent implementation (on the sample trace of
//! paper 5's authors), with a model that goes slot by slot, and with small cases worked out by
//! hand.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use frazil_simulator::trace::{Operation, ReadOptions, Trace, read};
use frazil_simulator::{
    Backends, CapacitySpec, CellSpec, FetchLatency, Fetching, Outcome, ReplayClock, SweepOptions,
    Unit, sweep, sweep_delayed,
};
use proptest::prelude::*;

const CAPACITIES: [u64; 3] = [12, 24, 121];
const FETCHES: [u64; 4] = [1, 10, 100, 1000];
/// Total latencies, by capacity and length of fetches.
const LRU: [[u64; 4]; 3] = [
    [2879, 33344, 418326, 4319892],
    [2718, 31838, 408536, 4302839],
    [2258, 25821, 341246, 4141484],
];
const BELADY: [[u64; 4]; 3] = [
    [2392, 27620, 350460, 4107868],
    [2166, 24770, 322862, 4007707],
    [1737, 19909, 273340, 3722556],
];

const MAD: [[u64; 4]; 3] = [
    [2879, 33223, 397154, 4227324],
    [2718, 31593, 378746, 4122454],
    [2258, 25742, 331113, 3969434],
];
const BELADY_MAD: [[u64; 4]; 3] = [
    [2392, 27201, 340382, 4011773],
    [2166, 24530, 315983, 3893638],
    [1737, 19816, 270136, 3643230],
];
/// Tolerance for totals that depend on the order of ties, or on which objects are forgotten.
const NEARLY: f64 = 0.005;

/// The authors' trace, or `None` with a message.
fn authors_trace() -> Option<Trace> {
    let folder = match std::env::var_os("FRAZIL_TRACES") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
    };
    let file = folder.join("delayedhits/trace.csv");
    if !file.exists() {
        _ = writeln!(std::io::stderr(), "SKIPPED: no {}", file.display());
        return None;
    }
    Some(read(&file, &ReadOptions::default()).expect("the trace reads").trace)
}

fn replay(
    trace: &Trace,
    policy: &str,
    capacity: u64,
    fetching: &Fetching,
    options: &SweepOptions,
) -> Outcome {
    let cell = CellSpec { policy: policy.parse().expect("a policy"), capacity };
    sweep_delayed(trace, &[cell], options, fetching, &|_| ())[0]
}

fn by_requests(trace: &Trace, policy: &str, capacity: u64, ticks: u64) -> Outcome {
    let fetching = Fetching::new(trace, FetchLatency::Fixed(ticks), ReplayClock::Request);
    let fetching = fetching.expect("no times are needed");
    replay(trace, policy, capacity, &fetching, &SweepOptions::default())
}

fn total(outcome: &Outcome) -> u64 {
    outcome.latency.expect("fetches take time").total
}

/// Totals of a policy over all capacities and lengths of fetches.
fn totals(trace: &Trace, policy: &str) -> [[u64; 4]; 3] {
    CAPACITIES
        .map(|capacity| FETCHES.map(|ticks| total(&by_requests(trace, policy, capacity, ticks))))
}

#[test]
fn totals_are_those_of_the_reference() {
    let Some(trace) = authors_trace() else { return };
    // As in the authors' simulator: of 242 objects at the peak 9.8 % are 23.7.
    for (share, capacity) in [("5", 12), ("9.8", 24), ("10", 24), ("50", 121)] {
        let spec: CapacitySpec = format!("{share}%peak").parse().expect("a share");
        assert_eq!(spec.resolve(&trace, Unit::Objects), Ok(capacity), "{share}");
    }
    assert_eq!(totals(&trace, "lru"), LRU);
    assert_eq!(totals(&trace, "belady"), BELADY);
    assert_eq!(totals(&trace, "mad:counters=all"), MAD);
    for (policy, expected) in [("lru", (367, 2119, 2514)), ("mad:counters=all", (763, 1780, 2457))]
    {
        let counts = by_requests(&trace, policy, 24, 100);
        assert_eq!((counts.hits, counts.delayed_hits, counts.misses()), expected, "{policy}");
    }
}

#[test]
fn totals_are_nearly_those_of_the_reference() {
    let Some(trace) = authors_trace() else { return };
    for (policy, expected) in [("mad", MAD), ("belady-mad", BELADY_MAD)] {
        let found = totals(&trace, policy);
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let apart = (*found as f64 / *expected as f64 - 1.0).abs();
            assert!(apart <= NEARLY, "{policy}: {found}, and {expected} there");
        }
    }
    // With fetches of one tick all fetches are alike.
    let one_tick = totals(&trace, "belady-mad").map(|row| row[0]);
    assert_eq!(one_tick, BELADY.map(|row| row[0]));
    assert_eq!(totals(&trace, "mad").map(|row| row[0]), LRU.map(|row| row[0]));
}

fn trace(ids: &[u32], operations: &[Operation]) -> Trace {
    let objects = (0..=ids.iter().copied().max().unwrap_or(0)).map(u64::from).collect();
    Trace { ids: ids.to_vec(), operations: operations.to_vec(), objects, ..Trace::default() }
}

/// Hits, delayed hits, misses and the total latency.
fn counts(outcome: &Outcome) -> [u64; 4] {
    [outcome.hits, outcome.delayed_hits, outcome.misses(), total(outcome)]
}

#[test]
fn a_fetch_is_back_exactly_when_it_should_be() {
    // A miss at 1; waits of 2 and 1; then a hit.
    let outcome = by_requests(&trace(&[0, 0, 0, 0], &[]), "lru", 1, 3);
    assert_eq!(counts(&outcome), [1, 2, 1, 3 + 2 + 1]);
    let latency = outcome.latency.expect("fetches take time");
    assert_eq!((latency.p50, latency.p99), (1, 3));
    assert_eq!(outcome.latency_mean(), Some(1.5));
    // Object 1 takes capacity only when its fetch ends: 0 is hit until then, and not after.
    let outcome = by_requests(&trace(&[0, 1, 0, 0, 0], &[]), "lru", 1, 2);
    assert_eq!(counts(&outcome), [1, 1, 3, 2 + 2 + 2 + 1]);
}

#[test]
fn quantiles_hold_for_long_fetches() {
    let latency = by_requests(&trace(&[0; 1000], &[]), "lru", 1, 500_000).latency;
    let latency = latency.expect("fetches take time");
    // They wait for 500,000, 499,999 and so on to 499,001.
    assert_eq!(latency.total, (499_001 + 500_000) * 500);
    assert!(latency.p50.abs_diff(499_500) <= 500 && latency.p99 == 500_000, "{latency:?}");
}

#[test]
fn one_tick_is_as_none() {
    let spec = "zipf:0.8:objects=300:requests=5K:seed=4";
    let trace = frazil_simulator::trace::load(spec, &ReadOptions::default()).expect("made").trace;
    let cells = frazil_policy::Online::ALL.map(|policy| policy.to_string());
    for policy in &cells {
        let cell = CellSpec { policy: policy.parse().expect("a policy"), capacity: 20 };
        let plain = sweep(&trace, &[cell], &SweepOptions::default(), &|_| ())[0];
        let delayed = by_requests(&trace, policy, 20, 1);
        assert_eq!(counts(&delayed), [plain.hits, 0, plain.misses(), plain.misses()], "{policy}");
    }
}

use Operation::{Delete, Get, Set};

#[test]
fn what_a_delete_or_a_set_ends_is_not_admitted() {
    // Deleted in flight: the next request fetches again, and the first fetch admits nothing.
    let deleted = trace(&[0, 0, 0, 1, 1, 0, 0], &[Get, Delete, Get, Get, Get, Get, Get]);
    // 0 is missed at 1 and 2; the second fetch ends at 5, and 0 is hit then; 1 is missed at 3.
    assert_eq!(counts(&by_requests(&deleted, "lru", 2, 3)), [2, 1, 3, 3 + 3 + 3 + 2]);
    // Set in flight: resident at once, and only once.
    let set = trace(&[0, 0, 0, 0], &[Get, Set, Get, Get]);
    let outcome = by_requests(&set, "lru", 2, 3);
    assert_eq!(counts(&outcome), [2, 0, 1, 3]);
    // Set when absent, and deleted when resident.
    let both = trace(&[0, 0, 0, 0], &[Set, Get, Delete, Get]);
    assert_eq!(counts(&by_requests(&both, "lru", 2, 3)), [1, 0, 1, 3]);
}

#[test]
fn a_set_in_flight_brings_its_own_size() {
    let sized = |size| Trace {
        sizes: vec![4, 4, size, 4, 4, 4].into(),
        ..trace(&[1, 0, 0, 2, 1, 0], &[Set, Get, Set, Get, Get, Get])
    };
    let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    for (size, hits) in [(6, 2), (7, 1), (11, 1)] {
        let trace = sized(size);
        let fetching = Fetching::new(&trace, FetchLatency::Fixed(50), ReplayClock::Request);
        let outcome = replay(&trace, "lru", 10, &fetching.expect("no times"), &options);
        assert_eq!(outcome.hits, hits, "{size}");
        // 0 and 2 are missed; the set counts no bytes.
        assert_eq!(outcome.bytes_missed, 4 * outcome.misses(), "{size}");
    }
}

#[test]
fn too_large_an_object_is_waited_for_and_not_admitted() {
    let trace = Trace { sizes: vec![50; 4].into(), ..trace(&[0, 0, 0, 0], &[]) };
    let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    let fetching = Fetching::new(&trace, FetchLatency::Fixed(2), ReplayClock::Request);
    let outcome = replay(&trace, "lru", 10, &fetching.expect("no times"), &options);
    assert_eq!(counts(&outcome), [0, 2, 2, 2 + 1 + 2 + 1]);
    assert_eq!(outcome.bytes_missed, 100);
}

#[test]
fn a_warm_up_ends_with_its_fetches() {
    let trace = trace(&[0, 1, 0, 1, 1], &[]);
    let options = SweepOptions { warmup: 2, ..SweepOptions::default() };
    let fetching = Fetching::new(&trace, FetchLatency::Fixed(2), ReplayClock::Request);
    let outcome = replay(&trace, "lru", 2, &fetching.expect("no times"), &options);
    // Neither is in flight any more: both are missed again.
    assert_eq!(counts(&outcome), [0, 1, 2, 2 + 2 + 1]);
    assert_eq!(outcome.requests, 3);
}

#[test]
fn by_the_clock_of_the_trace() {
    let trace = Trace { times_ns: vec![0, 10, 10, 30, 40, 41], ..trace(&[0, 0, 1, 0, 1, 1], &[]) };
    let fetching = Fetching::new(&trace, FetchLatency::Fixed(20), ReplayClock::Trace);
    let fetching = fetching.expect("there are times");
    let outcome = replay(&trace, "lru", 2, &fetching, &SweepOptions::default());
    // The first request for 1 is at 20, halfway to 30, and its fetch ends at 40.
    assert_eq!(fetching.spread(), 1);
    assert_eq!(counts(&outcome), [3, 1, 2, 20 + 10 + 20]);
}

/// Only the number of ticks between requests differs, by a power of two, so that all quotients are
/// equal.
#[test]
fn the_unit_of_time_changes_nothing() {
    const TICK: u64 = 1 << 30;
    let mut rng = frazil_policy::Rng::new(3);
    // Low numbers are requested most.
    let ids: Vec<u32> = (0..20_000).map(|_| (1_000.0f64.powf(rng.unit()) - 1.0) as u32).collect();
    let times_ns = (1..=ids.len() as u64).map(|request| request * TICK).collect();
    let trace = Trace { times_ns, ..trace(&ids, &[]) };
    let by_delay = ["mad", "mad:base=arc", "mad:base=lhd", "guarded-mad", "la-cache", "delay-rank"];
    for policy in ["lru"].into_iter().chain(by_delay) {
        let fetching = Fetching::new(&trace, FetchLatency::Fixed(20 * TICK), ReplayClock::Trace);
        let fetching = fetching.expect("there are times");
        let by_time = replay(&trace, policy, 100, &fetching, &SweepOptions::default());
        let [hits, delayed, misses, total] = counts(&by_requests(&trace, policy, 100, 20));
        assert_eq!(counts(&by_time), [hits, delayed, misses, total * TICK], "{policy}");
    }
}

#[test]
fn of_fetches_that_are_back_together_the_older_is_first() {
    let backends = Backends::new(&[4, 3]).expect("two");
    let replayed = |ids: &[u32]| {
        let trace = trace(ids, &[]);
        let fetching = Fetching::new(&trace, FetchLatency::Keyed(backends), ReplayClock::Request);
        replay(&trace, "lru", 1, &fetching.expect("no times"), &SweepOptions::default())
    };
    let of_backend = |ticks| (0..100).find(|&id| total(&replayed(&[id])) == ticks);
    let (slow, fast) = (of_backend(4).expect("some"), of_backend(3).expect("some"));
    // Both fetches end at 5, and only one object fits.
    assert_eq!(counts(&replayed(&[slow, fast, 50, 50, fast]))[0], 1);
    assert_eq!(counts(&replayed(&[slow, fast, 50, 50, slow]))[0], 0);
}

/// LRU slot by slot, as paper 5's simulator has it: arrival, look-up, then at the end of the slot
/// the fetches that are due. The waits of hits, delayed hits and misses.
fn slot_by_slot(ids: &[u32], capacity: usize, ticks: u64) -> [Vec<u64>; 3] {
    let mut resident: Vec<u32> = Vec::new(); // The newest last.
    let mut due: Vec<(u64, u32)> = Vec::new();
    let mut waits = [const { Vec::new() }; 3];
    for (slot, &id) in (0u64..).zip(ids) {
        if let Some(place) = resident.iter().position(|&other| other == id) {
            resident.remove(place);
            resident.push(id);
            waits[0].push(0);
        } else if let Some(&(done, _)) = due.iter().find(|&&(_, other)| other == id) {
            waits[1].push(done - slot + 1);
        } else {
            due.push((slot + ticks - 1, id));
            waits[2].push(ticks);
        }
        if let Some(place) = due.iter().position(|&(done, _)| done == slot) {
            let (_, id) = due.remove(place);
            if resident.len() == capacity {
                resident.remove(0);
            }
            resident.push(id);
        }
    }
    waits
}

/// The quantile `share` of the waits; 0 if there are none.
fn quantile(waits: &[u64], share: f64) -> u64 {
    let mut sorted = waits.to_vec();
    sorted.sort_unstable();
    let place = (share * sorted.len() as f64).ceil().max(1.0) as usize - 1;
    sorted.get(place).copied().unwrap_or(0)
}

proptest! {
    #[test]
    fn lru_goes_slot_by_slot(
        ids in prop::collection::vec(prop_oneof![3 => 0u32..6, 1 => 0u32..40], 1..300),
        capacity in 1usize..12,
        ticks in 1u64..30,
    ) {
        let outcome = by_requests(&trace(&ids, &[]), "lru", capacity as u64, ticks);
        let waits = slot_by_slot(&ids, capacity, ticks);
        let all = waits.concat();
        let [hits, delayed, misses] = waits.each_ref().map(|waits| waits.len() as u64);
        prop_assert_eq!(counts(&outcome), [hits, delayed, misses, all.iter().sum()]);
        let latency = outcome.latency.expect("fetches take time");
        prop_assert_eq!([latency.p50, latency.p99], [0.5, 0.99].map(|share| quantile(&all, share)));
        for (told, waits) in [(latency.delayed_hits, &waits[1]), (latency.misses, &waits[2])] {
            prop_assert_eq!(told.total, waits.iter().sum::<u64>());
            prop_assert_eq!(told.p99, quantile(waits, 0.99));
            for (step, twentieth) in (0u32..).zip(told.twentieths) {
                prop_assert_eq!(twentieth, quantile(waits, f64::from(step) / 20.0));
            }
        }
    }

    /// For any policy and durations of fetches, requests add up and no request waits longer than a
    /// fetch.
    #[test]
    fn every_request_is_one_of_three(
        ids in prop::collection::vec(0u32..30, 1..400),
        kinds in prop::collection::vec(prop_oneof![8 => Just(Get), 1 => Just(Set), 1 => Just(Delete)], 400),
        capacity in 1u64..20,
        mean in 1u64..60,
        warmup in 0u64..20,
    ) {
        let trace = trace(&ids, &kinds[..ids.len()]);
        let gets = trace.operations.iter().filter(|kind| **kind == Get).count() as u64;
        let options = SweepOptions { warmup, ..SweepOptions::default() };
        let latency = FetchLatency::Exponential(mean as f64);
        let fetching = Fetching::new(&trace, latency, ReplayClock::Request).expect("no times");
        for policy in frazil_policy::PolicySpec::NAMES {
            let outcome = replay(&trace, policy, capacity, &fetching, &options);
            prop_assert_eq!(outcome.requests, gets.saturating_sub(warmup), "{}", policy);
            let [hits, delayed, misses, total] = counts(&outcome);
            prop_assert_eq!(hits + delayed + misses, outcome.requests, "{}", policy);
            prop_assert!(total >= misses + delayed, "{}", policy);
        }
    }
}

#[test]
fn fetches_take_what_the_column_says() {
    let latencies = vec![5, 9, 9, 0, 9, 2, 9];
    let trace = Trace { latencies, ..trace(&[0, 0, 1, 2, 2, 0, 1], &[]) };
    let fetching = Fetching::new(&trace, FetchLatency::Column, ReplayClock::Request);
    let fetching = fetching.expect("latencies");
    let outcome = replay(&trace, "lru", 3, &fetching, &SweepOptions::default());
    // The first waits 5, the second the rest of that, object 1 waits 9, and object 2, resident at
    // once, 1; at the sixth the first fetch has ended. The last waits for object 1.
    assert_eq!((outcome.hits, outcome.delayed_hits, outcome.misses()), (2, 2, 3));
    assert_eq!(outcome.latency.map(|it| it.total), Some(5 + 4 + 9 + 1 + 5));
}
