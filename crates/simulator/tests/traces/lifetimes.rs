//! Entries that expire. Compares the counts of a replay with a model that has deletes in place of
//! lifetimes, and streams with traces in memory; and writes and reads traces.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use frazil_policy::{PolicySpec, Rng};
use frazil_simulator::trace::{
    FOR_EVER, Format, Lifetimes, Operation, ReadOptions, RecordedLifetimes, SampleBounds, Trace,
    load_sample, read, save,
};
use frazil_simulator::{CellSpec, Outcome, StreamError, SweepOptions, Unit, replay_stream, sweep};

const POLICIES: [&str; 14] = [
    "lru",
    "fifo",
    "sieve",
    "clock",
    "slru",
    "s3-fifo",
    "w-tinylfu",
    "arc",
    "lirs",
    "lfu",
    "lhd",
    "hyperbolic",
    "gdsf",
    "random:seed=3",
];

/// A file that is removed when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(extension: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("frazil-lifetimes-{}-{number}.{extension}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A few objects, all operations, times that repeat and leap, lifetimes of every kind.
fn random_trace(random: &mut Rng, records: usize) -> Trace {
    let mut trace = Trace::default();
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut time_ns = 0;
    for _ in 0..records {
        let id = random.below(12) * 1_000_003 + 7;
        let number = *numbers.entry(id).or_insert_with(|| {
            trace.objects.push(id);
            trace.objects.len() as u32 - 1
        });
        time_ns += [0, 0, 1, 2, 7, 30][random.below(6) as usize] * 1_000_000_000;
        trace.ids.push(number);
        trace.times_ns.push(time_ns);
        trace.sizes.push(u64::from(1 + number % 3));
        trace.operations.push(match random.below(8) {
            0 => Operation::Set,
            1 => Operation::Delete,
            _ => Operation::Get,
        });
        let lifetime_ns = match random.below(6) {
            _ if trace.operations.last() == Some(&Operation::Delete) => 0,
            0 | 1 => 0,
            2 => FOR_EVER,
            _ => (1 + random.below(40)) * 1_000_000_000,
        };
        trace.lifetimes_ns.push(lifetime_ns);
    }
    // At least one record has a lifetime, so that the trace counts as having lifetimes.
    (trace.operations[0], trace.lifetimes_ns[0]) = (Operation::Get, 5_000_000_000);
    trace
}

fn replayed(trace: &Trace, policy: PolicySpec, capacity: u64, options: &SweepOptions) -> Outcome {
    sweep(trace, &[CellSpec { policy, capacity }], options, &|_| ())[0]
}

/// The trace without lifetimes, to which records can be added.
struct Model<'t> {
    whole: &'t Trace,
    plain: Trace,
    policy: PolicySpec,
    capacity: u64,
    options: SweepOptions,
}

impl Model<'_> {
    fn push(&mut self, object: u32, size: u32, operation: Operation) {
        self.plain.ids.push(object);
        self.plain.sizes.push(u64::from(size));
        self.plain.operations.push(operation);
    }

    fn outcome(&self) -> Outcome {
        replayed(&self.plain, self.policy, self.capacity, &self.options)
    }

    /// Whether a get would hit.
    fn holds(&mut self, object: u32) -> bool {
        let before = self.outcome().hits;
        self.push(object, 1 + object % 3, Operation::Get);
        let after = self.outcome().hits;
        self.plain.ids.pop();
        self.plain.sizes = self.plain.sizes.iter().take(self.plain.ids.len()).collect();
        self.plain.operations.pop();
        after > before
    }

    /// Replays all records, with a delete when an entry expires. The outcome counts these misses.
    fn run(mut self, fixed: Option<u64>) -> Outcome {
        let mut deadlines: BTreeMap<(u64, usize), u32> = BTreeMap::new();
        let mut until: HashMap<u32, (u64, usize)> = HashMap::new();
        let mut told: HashMap<u32, u64> = HashMap::new();
        let (mut expired, mut missed_for_it) = (HashSet::new(), 0);
        for record in 0..self.whole.len() {
            let (object, time) = (self.whole.ids[record], self.whole.times_ns[record]);
            let size = self.whole.sizes.get(record).unwrap() as u32;
            let operation = self.whole.operations[record];
            while let Some((&due, &over)) = deadlines.first_key_value()
                && due.0 <= time
            {
                deadlines.remove(&due);
                until.remove(&over);
                if self.holds(over) {
                    self.push(over, 1, Operation::Delete);
                    expired.insert(over);
                }
            }
            let hit = self.holds(object);
            self.push(object, size, operation);
            let said = self.whole.lifetimes_ns[record];
            let lifetime = match (operation, said) {
                _ if fixed.is_some() => fixed.unwrap(),
                (Operation::Get, 0) => told.get(&object).copied().unwrap_or(FOR_EVER),
                (_, 0) => FOR_EVER,
                _ => said,
            };
            match operation {
                Operation::Delete => {
                    expired.remove(&object);
                    until.remove(&object).and_then(|key| deadlines.remove(&key));
                    continue;
                }
                Operation::Get if hit => {}
                Operation::Get | Operation::Set => {
                    let was_over = expired.remove(&object);
                    missed_for_it += u64::from(was_over && operation == Operation::Get);
                    until.remove(&object).and_then(|key| deadlines.remove(&key));
                    if lifetime != FOR_EVER {
                        until.insert(object, (time + lifetime, record));
                        deadlines.insert((time + lifetime, record), object);
                    }
                }
            }
            told.insert(object, lifetime);
        }
        Outcome { expired: missed_for_it, ..self.outcome() }
    }
}

fn counts(outcome: &Outcome) -> [u64; 5] {
    let Outcome { requests, hits, expired, bytes_requested, bytes_missed, .. } = *outcome;
    [requests, hits, expired, bytes_requested, bytes_missed]
}

#[test]
fn what_expires_is_deleted_and_no_more() {
    let mut random = Rng::new(20);
    let mut expired = 0;
    for turn in 0..60 {
        let trace = random_trace(&mut random, 60);
        let lifetimes =
            if turn % 3 == 0 { Lifetimes::Fixed(9_000_000_000) } else { Lifetimes::OfTrace };
        let fixed = if let Lifetimes::Fixed(ns) = lifetimes { Some(ns) } else { None };
        let unit = if turn % 2 == 0 { Unit::Objects } else { Unit::Bytes };
        for name in POLICIES {
            let (policy, capacity) = (name.parse().unwrap(), 3 + turn % 6);
            let options = SweepOptions { unit, ..SweepOptions::default() };
            let plain = Trace { objects: trace.objects.clone(), ..Trace::default() };
            let model = Model { whole: &trace, plain, policy, capacity, options };
            let expected = model.run(fixed);
            let options = SweepOptions { lifetimes, ..options };
            let found = replayed(&trace, policy, capacity, &options);
            assert_eq!(counts(&found), counts(&expected), "{name} at {capacity}, turn {turn}");
            expired += found.expired;
        }
    }
    assert!(expired > 1_000, "{expired}");
}

/// The trace is written to a file, and read in memory, as a stream and as a sample of everything.
#[test]
fn a_stream_expires_as_a_trace_in_memory_does() {
    let mut random = Rng::new(21);
    for format in [Format::Csv, Format::Frazil] {
        for lifetimes in [Lifetimes::OfTrace, Lifetimes::Fixed(3_000_000_000)] {
            // More deadlines than the number of stale ones that are kept.
            let trace = random_trace(&mut random, 20_000);
            let file = Temporary::new("trace");
            save(&trace, None, format, &file.0).unwrap();
            let spec = file.0.to_str().unwrap();
            let options = ReadOptions { lifetimes, ..ReadOptions::default() };
            let loaded = read(&file.0, &options).unwrap();
            assert!(loaded.trace.times_ns == trace.times_ns, "{format}");
            if lifetimes == Lifetimes::OfTrace {
                assert!(loaded.trace.lifetimes_ns == trace.lifetimes_ns, "{format}");
                let told = trace.lifetimes_ns.iter().filter(|&&ns| ns > 0).count() as u64;
                assert_eq!(loaded.origin.lifetimes.unwrap().records, told);
            }
            let bounds = SampleBounds { rate: 1.0, objects: usize::MAX, records: usize::MAX };
            let sampled = load_sample(spec, &options, bounds).unwrap().trace;
            for name in POLICIES {
                let cell = CellSpec { policy: name.parse().unwrap(), capacity: 5 };
                let sweeping = SweepOptions { lifetimes, warmup: 100, ..SweepOptions::default() };
                let whole = replayed(&trace, cell.policy, 5, &sweeping);
                let (stream, _) =
                    replay_stream(spec, &ReadOptions::default(), cell, &sweeping).unwrap();
                assert_eq!(counts(&stream), counts(&whole), "{name} as a stream of {format}");
                let kept = replayed(&sampled, cell.policy, 5, &sweeping);
                assert_eq!(counts(&kept), counts(&whole), "{name} sampled of {format}");
                assert!(whole.expired > 100);
            }
        }
    }
}

#[test]
fn twitter_says_lifetimes_in_its_last_field() {
    let file = Temporary::new("csv");
    let content = "0,k,1,9,1,get,0\n1,k,1,9,1,set,10\n5,k,1,9,1,get,0\n11,k,1,9,1,get,0\n\
                   20,k,1,9,1,get,0\n21,k,1,9,1,get,0\n";
    std::fs::write(&file.0, content).unwrap();
    let options = ReadOptions {
        format: Some(Format::Twitter),
        lifetimes: Lifetimes::OfTrace,
        ..ReadOptions::default()
    };
    let loaded = read(&file.0, &options).unwrap();
    const S: u64 = 1_000_000_000;
    assert_eq!(loaded.trace.lifetimes_ns, [0, 10 * S, 0, 0, 0, 0]);
    assert_eq!(loaded.trace.times_ns, [0, S, 5 * S, 11 * S, 20 * S, 21 * S]);
    // The entry expires at 11, and an entry inserted then has the same lifetime.
    let options = SweepOptions { lifetimes: Lifetimes::OfTrace, ..SweepOptions::default() };
    let outcome = replayed(&loaded.trace, "lru".parse().unwrap(), 2, &options);
    assert_eq!((outcome.hits, outcome.misses(), outcome.expired), (2, 3, 2));
    let again = Temporary::new("csv");
    save(&loaded.trace, None, Format::Twitter, &again.0).unwrap();
    let text = std::fs::read_to_string(&again.0).unwrap();
    assert_eq!(text.lines().nth(1).unwrap().rsplit(',').next(), Some("10"));
}

#[test]
fn columns_of_lifetimes_have_a_name_or_a_number() {
    let file = Temporary::new("csv");
    let rows = |content: &str, options: &ReadOptions<'_>| {
        std::fs::write(&file.0, content).unwrap();
        read(&file.0, options).map(|loaded| (loaded.trace.times_ns, loaded.trace.lifetimes_ns))
    };
    let options = ReadOptions { lifetimes: Lifetimes::OfTrace, ..ReadOptions::default() };
    const S: u64 = 1_000_000_000;
    let named = "time,key,ttl\n1,7,30\n2,7,\n3,7,0.5\n4,7,never\n5,8,0\n6,8,-1\n";
    let expected =
        ((1..=6).map(|second| second * S).collect(), vec![30 * S, 0, S / 2, FOR_EVER, 0, FOR_EVER]);
    assert_eq!(rows(named, &options).unwrap(), expected);
    // An unused column need not be a number.
    let unasked = ReadOptions::default();
    assert_eq!(rows("time,key,ttl\n1,7,a\n", &unasked).unwrap(), (vec![], vec![]));
    assert!(rows("time,key,ttl\n1,7,a\n", &options).unwrap_err().to_string().contains("lifetimes"));
    // Without lifetimes no times are kept either.
    assert_eq!(rows("time,key,ttl\n1,7,\n", &options).unwrap(), (vec![], vec![]));
    let mut told = options.clone();
    (told.csv.id, told.csv.lifetime) = (Some(1.into()), Some(2.into()));
    assert_eq!(rows("7,3\n8,4\n", &told).unwrap(), (vec![], vec![3 * S, 4 * S]));
}

#[test]
fn a_fixed_lifetime_needs_times() {
    let file = Temporary::new("csv");
    std::fs::write(&file.0, "id\n1\n2\n1\n").unwrap();
    let options = SweepOptions { lifetimes: Lifetimes::Fixed(1), ..SweepOptions::default() };
    let cell = CellSpec { policy: "lru".parse().unwrap(), capacity: 5 };
    let spec = file.0.to_str().unwrap();
    let failed = replay_stream(spec, &ReadOptions::default(), cell, &options);
    assert!(matches!(failed, Err(StreamError::NoTimes)));
    let trace = read(&file.0, &ReadOptions::default()).unwrap().trace;
    assert_eq!(replayed(&trace, cell.policy, 5, &options).hits, 1);
}

/// A recording keeps its data about the cache, and records that lifetimes came from elsewhere.
#[test]
fn a_recording_says_whether_its_cache_had_lifetimes() {
    let trace = random_trace(&mut Rng::new(22), 10);
    let none = Trace { lifetimes_ns: Vec::new(), ..trace.clone() };
    for (trace, expected) in [(&trace, RecordedLifetimes::Told), (&none, RecordedLifetimes::None)] {
        let file = Temporary::new("frazil");
        save(trace, None, Format::Frazil, &file.0).unwrap();
        let recording = read(&file.0, &ReadOptions::default()).unwrap().origin.recording.unwrap();
        assert_eq!(recording.lifetimes, expected);
        for lifetimes in [RecordedLifetimes::Moved, RecordedLifetimes::Unknown] {
            let of = frazil_simulator::trace::Recording { lifetimes, ..recording };
            save(trace, Some(of), Format::Frazil, &file.0).unwrap();
            let again = read(&file.0, &ReadOptions::default()).unwrap().origin.recording;
            assert_eq!(again.unwrap().lifetimes, lifetimes);
        }
    }
}

/// More deadlines are pending than are kept without a search for stale ones.
#[test]
fn thousands_of_ends_at_one_time_are_all_kept() {
    let objects = 3_000;
    let all = 0..objects;
    let trace = Trace {
        ids: all.clone().chain(all.clone()).collect(),
        times_ns: all.clone().map(|_| 0).chain(all.clone().map(|_| 2_000)).collect(),
        objects: all.map(u64::from).collect(),
        ..Trace::default()
    };
    for lifetime_ns in [1_000, 2_001] {
        let options =
            SweepOptions { lifetimes: Lifetimes::Fixed(lifetime_ns), ..SweepOptions::default() };
        let outcome = replayed(&trace, "lru".parse().unwrap(), 5_000, &options);
        let expired = if lifetime_ns < 2_000 { u64::from(objects) } else { 0 };
        assert_eq!((outcome.expired, outcome.hits), (expired, u64::from(objects) - expired));
    }
}

/// An offline policy would have to know which entries will have expired.
#[test]
#[should_panic(expected = "policy `belady` knows what is asked for")]
fn offline_policies_are_refused_if_entries_expire() {
    let trace = random_trace(&mut Rng::new(1), 10);
    let belady = "belady".parse().unwrap();
    let for_ever = replayed(&trace, belady, 2, &SweepOptions::default());
    assert!(for_ever.requests > 0);
    let options = SweepOptions { lifetimes: Lifetimes::OfTrace, ..SweepOptions::default() };
    replayed(&trace, belady, 2, &options);
}
