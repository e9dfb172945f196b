//! Compares both bounds with every schedule, on traces so small that all can be tried; with the
//! greedy policy on many traces; and on the sample trace of paper 5's authors.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use frazil_offline::{Belatedly, BelatedlyError, MOST_REQUESTS, belatedly};
use frazil_policy::Rng;
use frazil_simulator::trace::{Operation, ReadOptions, Trace, load, read};
use frazil_simulator::{
    CellSpec, FetchLatency, Fetching, ReplayClock, SweepOptions, Unit, sweep_delayed,
};

fn trace(ids: &[u32]) -> Trace {
    let objects = (0..=ids.iter().copied().max().unwrap_or(0)).map(u64::from).collect();
    Trace { ids: ids.to_vec(), objects, ..Trace::default() }
}

fn fetches(trace: &Trace, ticks: u64) -> Fetching {
    let fetching = Fetching::new(trace, FetchLatency::Fixed(ticks), ReplayClock::Request);
    fetching.expect("no times are needed")
}

fn both(trace: &Trace, capacity: u64, ticks: u64) -> Belatedly {
    let fetching = fetches(trace, ticks);
    belatedly(trace, capacity, &fetching, &SweepOptions::default(), &|| ()).expect("bounds")
}

fn total_of(trace: &Trace, policy: &str, capacity: u64, ticks: u64) -> u64 {
    let cell = CellSpec { policy: policy.parse().expect("a policy"), capacity };
    let outcome =
        sweep_delayed(trace, &[cell], &SweepOptions::default(), &fetches(trace, ticks), &|_| ())[0];
    outcome.latency.expect("fetches take time").total
}

fn upper(found: &Belatedly) -> u64 {
    found.outcome.latency.expect("fetches take time").total
}

/// A slot, the residents, and the objects in flight with the slots in which their fetches end.
type State = (usize, u32, Vec<(usize, u32)>);

/// The least total latency of any schedule: tries every choice in each slot, in the simulator's
/// order.
struct EverySchedule<'a> {
    ids: &'a [u32],
    capacity: u32,
    ticks: usize,
    /// Whether an object may be evicted, or refused, while there is free capacity.
    at_will: bool,
    /// The remaining wait from each state.
    known: HashMap<State, u64>,
}

impl EverySchedule<'_> {
    fn least(ids: &[u32], capacity: u32, ticks: usize, at_will: bool) -> u64 {
        let mut every = EverySchedule { ids, capacity, ticks, at_will, known: HashMap::new() };
        every.from(0, 0, Vec::new())
    }

    /// The remaining wait from `slot` on, before the fetches that end by then are committed.
    fn from(&mut self, slot: usize, residents: u32, flights: Vec<(usize, u32)>) -> u64 {
        if slot == self.ids.len() {
            return 0;
        }
        let state = (slot, residents, flights);
        if let Some(&known) = self.known.get(&state) {
            return known;
        }
        let (_, residents, mut flights) = state.clone();
        let back = flights.iter().position(|&(ready, _)| ready == slot);
        let newcomer = back.map(|place| flights.remove(place).1);
        let mut ways = vec![];
        // The objects that stay: a subset of the residents.
        let mut staying = residents;
        loop {
            let gone = (residents & !staying).count_ones();
            let full = residents.count_ones() == self.capacity;
            let needed = u32::from(newcomer.is_some() && full);
            if let Some(newcomer) = newcomer
                && (self.at_will || gone == needed)
                && staying.count_ones() < self.capacity
            {
                ways.push(staying | 1 << newcomer);
            }
            if self.at_will || (gone == 0 && (newcomer.is_none() || full)) {
                ways.push(staying);
            }
            if staying == 0 {
                break;
            }
            staying = (staying - 1) & residents;
        }
        let object = self.ids[slot];
        let mut least = u64::MAX;
        for residents in ways {
            let mut flights = flights.clone();
            let waits = if residents >> object & 1 == 1 {
                0
            } else if let Some(&(ready, _)) = flights.iter().find(|flight| flight.1 == object) {
                ready - slot
            } else {
                flights.push((slot + self.ticks, object));
                self.ticks
            };
            least = least.min(waits as u64 + self.from(slot + 1, residents, flights));
        }
        self.known.insert(state, least);
        least
    }
}

fn random_ids(rng: &mut Rng, len: u64, objects: u64) -> Vec<u32> {
    // Sometimes the same object again, so that there are bursts.
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..len {
        match ids.last() {
            Some(&last) if rng.below(3) == 0 => ids.push(last),
            _ => ids.push(rng.below(objects) as u32),
        }
    }
    ids
}

#[test]
fn the_best_of_all_schedules_lies_between() {
    let mut rng = Rng::new(7);
    let (mut whole, mut reached, mut cost_of_keeping) = (0, 0, 0);
    for _ in 0..600 {
        let len = 6 + rng.below(12);
        let objects = 2 + rng.below(4);
        let ids = random_ids(&mut rng, len, objects);
        let (capacity, ticks) = (1 + rng.below(3) as u32, 1 + rng.below(6) as usize);
        let found = both(&trace(&ids), u64::from(capacity), ticks as u64);
        let best = EverySchedule::least(&ids, capacity, ticks, true);
        let told = format!("{ids:?}, {capacity} places, {ticks} ticks: {found:?}, best {best}");
        assert!(found.latency_total_least <= best && best <= upper(&found), "{told}");
        if found.whole {
            assert_eq!(found.latency_total_least, best, "{told}");
        }
        // A cache that evicts only when it must does no better.
        let keeping = EverySchedule::least(&ids, capacity, ticks, false);
        assert!(best <= keeping, "{told}, {keeping}");
        cost_of_keeping += usize::from(best < keeping);
        whole += usize::from(found.whole);
        reached += usize::from(found.latency_total_least == best && best == upper(&found));
    }
    println!("of 600: {whole} whole, {reached} exact; {cost_of_keeping} where keeping costs");
    assert!(whole > 200, "{whole}");
    assert!(reached > 550, "{reached}");
}

#[test]
fn the_bounds_and_the_greedy_are_in_order() {
    let mut rng = Rng::new(3);
    let (mut equal, mut better) = (0, 0);
    for _ in 0..200 {
        let len = 50 + rng.below(250);
        let objects = 5 + rng.below(60);
        let trace = trace(&random_ids(&mut rng, len, objects));
        let (capacity, ticks) = (1 + rng.below(12), 1 + rng.below(40));
        let found = both(&trace, capacity, ticks);
        let greedy = total_of(&trace, "belady-mad", capacity, ticks);
        let (least, most) = (found.latency_total_least, upper(&found));
        assert!(least <= most && most <= greedy, "{least} {most} {greedy}");
        equal += usize::from(least == most);
        better += usize::from(most < greedy);
    }
    println!("of 200: {equal} equal, {better} better than belady-mad");
    assert!(equal > 100, "{equal}");
    assert!(better > 100, "{better}");
}

#[test]
fn with_one_tick_it_is_belady() {
    for seed in 1..=8 {
        let spec = format!("zipf:0.{seed}:objects=200:requests=1500:seed={seed}");
        let trace = load(&spec, &ReadOptions::default()).expect("it is made").trace;
        for capacity in [1, 10, 50] {
            let found = both(&trace, capacity, 1);
            let belady = total_of(&trace, "belady", capacity, 1);
            assert_eq!((found.latency_total_least, upper(&found)), (belady, belady), "{spec}");
        }
    }
}

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

#[test]
fn the_authors_trace_is_bounded() {
    let Some(trace) = authors_trace() else { return };
    for (capacity, ticks, least) in
        [(12, 1, 2392), (24, 1, 2166), (121, 1, 1737), (24, 100, 314_503), (24, 1000, 3_869_202)]
    {
        let found = both(&trace, capacity, ticks);
        assert_eq!(found.latency_total_least, least);
        if ticks == 1 {
            assert_eq!(upper(&found), least);
        }
        assert!(upper(&found) <= total_of(&trace, "belady-mad", capacity, ticks));
        assert!((upper(&found) as f64) < 1.001 * least as f64, "{}", upper(&found));
    }
}

#[test]
fn what_cannot_be_bounded_is_said() {
    let gets = trace(&[0, 1, 0]);
    let error = |trace: &Trace, latency, clock, options: SweepOptions| {
        let fetching = Fetching::new(trace, latency, clock).expect("it has times");
        belatedly(trace, 1, &fetching, &options, &|| ()).expect_err("no bounds")
    };
    let (plain, by_request) = (SweepOptions::default(), ReplayClock::Request);
    let fixed = FetchLatency::Fixed(3);
    let timed = Trace { times_ns: vec![1, 2, 3], ..gets.clone() };
    assert_eq!(error(&timed, fixed, ReplayClock::Trace, plain), BelatedlyError::Clock);
    let exponential = FetchLatency::Exponential(3.0);
    assert_eq!(error(&gets, exponential, by_request, plain), BelatedlyError::NotFixed);
    let bytes = SweepOptions { unit: Unit::Bytes, ..plain };
    assert_eq!(error(&gets, fixed, by_request, bytes), BelatedlyError::Sizes);
    let warm = SweepOptions { warmup: 1, ..plain };
    assert_eq!(error(&gets, fixed, by_request, warm), BelatedlyError::WarmUp);
    let operations = vec![Operation::Get, Operation::Set, Operation::Get];
    let sets = Trace { operations, ..gets.clone() };
    assert_eq!(error(&sets, fixed, by_request, plain), BelatedlyError::Operation(2));
    let long = trace(&vec![0; MOST_REQUESTS + 1]);
    let too_long = BelatedlyError::TooLong(MOST_REQUESTS + 1);
    assert_eq!(error(&long, fixed, by_request, plain), too_long);
    let forever = FetchLatency::Fixed(1 << 40);
    assert_eq!(error(&gets, forever, by_request, plain), BelatedlyError::LongFetch(1 << 40));
}

#[test]
fn nothing_to_choose_is_no_trouble() {
    for (ids, capacity, ticks, total) in [
        (&[][..], 1, 5, 0),
        (&[0][..], 1, 5, 5),
        (&[0, 0, 0, 1][..], 5, 1_000_000_000, 3_999_999_997),
        (&[0, 1, 0, 1, 0, 1][..], 1 << 40, 1, 2),
    ] {
        let found = both(&trace(ids), capacity, ticks);
        assert_eq!((found.latency_total_least, upper(&found)), (total, total), "{ids:?}");
    }
}
