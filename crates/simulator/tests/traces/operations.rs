//! Small sweeps of operations and sizes whose results are known.

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{Lifetimes, Operation, ReadOptions, Record, Records, Trace, load};
use frazil_simulator::{CellSpec, Outcome, SweepOptions, Unit, sweep};

const G: Operation = Operation::Get;
const S: Operation = Operation::Set;
const D: Operation = Operation::Delete;

fn trace(ids: &[u32], operations: &[Operation]) -> Trace {
    let objects = (0..=ids.iter().copied().max().unwrap_or(0)).map(u64::from).collect();
    Trace { ids: ids.to_vec(), operations: operations.to_vec(), objects, ..Trace::default() }
}

fn replay(trace: &Trace, policy: &str, capacity: u64, options: &SweepOptions) -> Outcome {
    let policy = policy.parse().expect("a policy");
    sweep(trace, &[CellSpec { policy, capacity }], options, &|_| ())[0]
}

#[test]
fn warm_up_ends_after_so_many_gets() {
    let trace = trace(&[0, 0, 1, 0, 0], &[S, G, D, G, G]);
    let options = SweepOptions { warmup: 1, ..SweepOptions::default() };
    assert_eq!(replay(&trace, "lru", 2, &options).requests, 2);
}

#[test]
fn belady_keeps_nothing_for_a_set() {
    // An object that is set before its next get need not be kept: only object 1 is evicted.
    let trace = trace(&[0, 1, 1, 2, 0, 1], &[G, G, G, G, S, G]);
    assert_eq!(replay(&trace, "belady", 2, &SweepOptions::default()).misses(), 3);
}

#[test]
fn work_on_hits_is_that_of_gets() {
    let trace = trace(&[0, 1, 0, 1, 0, 1, 0], &[G, G, S, S, S, G, G]);
    let options = SweepOptions { count_work: true, ..SweepOptions::default() };
    let outcome = replay(&trace, "lru", 2, &options);
    // Both gets that hit move their object: a delink and a head each.
    assert_eq!((outcome.hits, outcome.work.on_hits.total()), (2, 4));
    assert_eq!(outcome.work_per_hit(), 2.0);
}

#[test]
fn bytes_of_size_one_are_objects() {
    let spec = "zipf:0.9:objects=2K:requests=30K:seed=3";
    let mut trace = load(spec, &Default::default()).expect("generated").trace;
    trace.sizes = vec![1; trace.len()].into();
    let bytes = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    for policy in PolicySpec::NAMES {
        for capacity in [1, 2, 7, 50, 400] {
            let objects = replay(&trace, policy, capacity, &SweepOptions::default());
            let bytes = replay(&trace, policy, capacity, &bytes);
            assert_eq!(objects.hits, bytes.hits, "{policy} at {capacity}");
            assert_eq!(bytes.bytes_missed, bytes.misses());
        }
    }
}

#[test]
fn sizes_beyond_4_gib_miss_as_small_ones_do() {
    const TIMES: u64 = 1 << 33;
    let spec = "zipf:0.9:objects=500:requests=10K:seed=3";
    let mut small = load(spec, &Default::default()).expect("generated").trace;
    small.sizes = small.ids.iter().map(|&id| 1 + u64::from(id) % 5).collect();
    let large = Trace { sizes: small.sizes.iter().map(|it| it * TIMES).collect(), ..small.clone() };
    assert_eq!(large.footprint_bytes(), small.footprint_bytes().map(|it| it * TIMES));
    let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    for policy in ["fifo", "lru", "clock", "sieve", "mobius", "s3-fifo", "arc"] {
        for capacity in [40, 300] {
            let small = replay(&small, policy, capacity, &options);
            let large = replay(&large, policy, capacity * TIMES, &options);
            assert_eq!(large.misses(), small.misses(), "{policy} at {capacity}");
            assert_eq!(large.bytes_missed, small.bytes_missed * TIMES);
        }
    }
}

#[test]
fn a_changed_size_applies_and_evicts_to_fit() {
    let sized = |sizes: &[u32], operations: &[Operation], ids: &[u32]| Trace {
        sizes: sizes.to_vec().into(),
        ..trace(ids, operations)
    };
    let options = SweepOptions { unit: Unit::Bytes, ..SweepOptions::default() };
    // Growing to fit exactly evicts nothing; one byte more evicts the other.
    for (grown, misses) in [(6, 2), (7, 3)] {
        let trace = sized(&[4, 4, grown, 4], &[G, G, S, G], &[0, 1, 1, 0]);
        assert_eq!(replay(&trace, "s3-fifo", 10, &options).misses(), misses, "{grown}");
    }
    // An object that can never fit is removed alone, and is a miss.
    let trace = sized(&[4, 4, 11, 4, 4], &[G, G, S, G, G], &[0, 1, 1, 0, 1]);
    assert_eq!(replay(&trace, "lru", 10, &options).misses(), 3);
}

/// A trace of 40,000 records, some of them no gets, read with these options.
fn from_memory(times: bool, options: &ReadOptions<'_>) -> Trace {
    let spec = "zipf:0.8:objects=5K:requests=40K:seed=5";
    let Trace { ids, .. } = load(spec, &Default::default()).expect("generated").trace;
    let record = move |at: usize| Record {
        id: u64::from(ids[at]) << 40,
        size: 7,
        time_ns: at as u64,
        operation: if at < 30_000 { G } else { [G, S, G, D][at % 4] },
        ..Record::default()
    };
    let fill = move |range: std::ops::Range<usize>, batch: &mut Vec<_>| {
        batch.extend(range.map(&record));
    };
    let mut records = Records::new(40_000, fill);
    (records.times, records.sizes) = (times, true);
    let options = ReadOptions { records: Some(&records), ..options.clone() };
    load("memory", &options).expect("records").trace
}

#[test]
fn a_packed_trace_has_the_same_outcomes() {
    let options = ReadOptions { sizes: false, ..ReadOptions::default() };
    let trace = from_memory(false, &options);
    let packed = from_memory(false, &ReadOptions { packed: true, ..options });
    assert_eq!((packed.ids.len(), packed.packed.len(), packed.len()), (0, 40_000, trace.len()));
    assert_eq!(packed.objects, trace.objects);
    for policy in PolicySpec::NAMES {
        let spec: PolicySpec = policy.parse().expect("a policy");
        if spec.wants_trace() {
            continue;
        }
        for (count_work, warmup) in [(false, 0), (true, 0), (false, 17_777)] {
            let options = SweepOptions { count_work, warmup, ..SweepOptions::default() };
            let counts = |trace| {
                let Outcome { requests, hits, records, work, .. } =
                    replay(trace, policy, 300, &options);
                (requests, hits, records, work)
            };
            assert_eq!(counts(&packed), counts(&trace), "{policy}, warm-up {warmup}");
        }
    }
}

#[test]
fn what_has_other_columns_is_not_packed() {
    let packed = ReadOptions { packed: true, sizes: false, ..ReadOptions::default() };
    let with_sizes = ReadOptions { sizes: true, ..packed.clone() };
    let with_times = ReadOptions { times: true, ..packed.clone() };
    let of_trace = ReadOptions { lifetimes: Lifetimes::OfTrace, ..packed.clone() };
    for (times, options) in [(false, with_sizes), (true, with_times), (true, of_trace.clone())] {
        let trace = from_memory(times, &options);
        assert_eq!((trace.ids.len(), trace.packed.len()), (40_000, 0));
    }
    assert_eq!(from_memory(false, &of_trace).packed.len(), 40_000);
}
