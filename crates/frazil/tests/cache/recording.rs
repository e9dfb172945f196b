//! Recordings, simulated: as many misses as the cache had, and in a sample about as many; and the
//! file, whatever happens to it.

#![cfg(not(any(loom, shuttle, miri)))]

use crate::extent::{HANG_LIMIT, policies};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil::{Cache, Policy, Recorded};
use frazil_driver::Simulated;
use frazil_simulator::trace::{
    FOR_EVER, Lifetimes, Operation, ReadOptions, RecordedLifetimes, Recording, Trace, load, read,
};
use frazil_simulator::{CellSpec, SweepOptions, Unit, sweep};

type Tested = Cache<u64, u64, Simulated>;

fn cache(capacity: u64, policy: Policy) -> Tested {
    Cache::builder(capacity).policy(policy).with_hasher(Simulated::default()).build()
}

/// A file that is removed when this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("frazil-recording-{}-{number}", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn recorded(path: &Path) -> (Trace, Recording) {
    let loaded = read(path, &ReadOptions { times: true, ..ReadOptions::default() }).unwrap();
    (loaded.trace, loaded.origin.recording.unwrap())
}

/// Requests after which the writer gets time to read a log, at a rate of 1.
const PACE: usize = 4_000;

/// Gets, and inserts after misses. Returns the number of misses.
fn replay(cache: &Tested, trace: &Trace, pace: usize, pause: Duration) -> u64 {
    let mut misses = 0;
    for (request, &id) in trace.ids.iter().enumerate() {
        if request % pace == pace - 1 {
            std::thread::sleep(pause);
        }
        let key = u64::from(id);
        if cache.get(&key).is_none() {
            misses += 1;
            cache.insert(key, key);
        }
    }
    misses
}

fn misses(trace: &Trace, policy: Policy, capacity: u64, unit: Unit) -> u64 {
    let cell = CellSpec { policy: policy.to_string().parse().unwrap(), capacity };
    sweep(trace, &[cell], &SweepOptions { unit, ..SweepOptions::default() }, &|_| ())[0].misses()
}

/// The result of a `replay` without lost records. It pauses for the writer, longer each time,
/// because a busy machine may keep the writer from its work.
fn without_loss<R>(replay: impl Fn(&Path, Duration) -> (Recorded, R)) -> (Temporary, Recorded, R) {
    for turn in 0..10 {
        let file = Temporary::new();
        let (recorded, result) = replay(&file.0, Duration::from_millis(4 << turn));
        if recorded.lost == 0 {
            return (file, recorded, result);
        }
    }
    panic!("something was lost each time");
}

/// Operation, size and object of each record, objects numbered by appearance.
fn rows(trace: &Trace) -> Vec<(Operation, u64, u32)> {
    let row = |index: usize| {
        let size = trace.sizes.get(index).unwrap_or(0);
        let operation = trace.operations.get(index).copied().unwrap_or_default();
        (operation, size, trace.ids[index])
    };
    (0..trace.len()).map(row).collect()
}

#[test]
fn the_recorded_misses_as_often_as_the_cache_did() {
    let trace =
        load("zipf:0.8:objects=20K:requests=100K:seed=5", &Default::default()).unwrap().trace;
    // S3-FIFO's ghost and W-TinyLFU's sketch use parts of hashes, and the file's hashes are not the
    // cache's.
    let by_hash = [Policy::S3Fifo, Policy::WTinyLfu];
    for policy in policies().into_iter().filter(|policy| !by_hash.contains(policy)) {
        let (file, summary, missed) = without_loss(|file, pause| {
            let cache = cache(1_000, policy);
            let recording = cache.record(file, 1.0).unwrap();
            let missed = replay(&cache, &trace, PACE, pause);
            (recording.finish().unwrap(), missed)
        });
        assert_eq!(summary.records, trace.len() as u64);
        assert_eq!(summary.bytes, std::fs::metadata(&file.0).unwrap().len());
        let (again, facts) = recorded(&file.0);
        assert_eq!((facts.rate, facts.lost), (1.0, Some(0)));
        assert!(again.operations.is_empty() && again.sizes.is_empty());
        assert_eq!(misses(&again, policy, 1_000, Unit::Objects), missed, "{policy}");
        assert!(again.times_ns.is_sorted());
    }
}

#[test]
fn weights_are_the_sizes_of_the_recorded() {
    let trace =
        load("zipf:0.8:objects=20K:requests=100K:seed=5", &Default::default()).unwrap().trace;
    let (file, _, (missed, hits)) = without_loss(|file, pause| {
        let cache: Tested = Cache::builder(50_000)
            .weigher(|key, _| key % 97)
            .entries(5_000)
            .with_hasher(Simulated::default())
            .build();
        let recording = cache.record(file, 1.0).unwrap();
        let missed = replay(&cache, &trace, PACE, pause);
        // Requests through a pin give the same.
        let mut hits = 0;
        for keys in (0..20_000).collect::<Vec<u64>>().chunks(PACE) {
            std::thread::sleep(pause);
            let pin = cache.pin();
            hits += keys.iter().filter(|&key| pin.get(key).is_some()).count() as u64;
        }
        (recording.finish().unwrap(), (missed, hits))
    });
    let (again, _) = recorded(&file.0);
    assert_eq!(again.len(), trace.len() + 20_000);
    let replayed = Trace {
        ids: again.ids[..trace.len()].to_vec(),
        sizes: again.sizes.iter().take(trace.len()).collect(),
        objects: again.objects.clone(),
        ..Trace::default()
    };
    assert_eq!(misses(&replayed, Policy::Mobius, 50_000, Unit::Bytes), missed);
    // Hits have their weights, which the trace knows; other gets have none.
    let unknown = again.sizes.iter().skip(trace.len()).filter(|&size| size == 1).count() as u64;
    assert!((20_000 - hits..20_000 - hits + 300).contains(&unknown), "{unknown} of {hits}");
}

#[test]
fn a_sample_misses_about_as_often() {
    let trace =
        load("zipf:1.0:objects=100K:requests=2M:seed=3", &Default::default()).unwrap().trace;
    let capacity = trace.objects.len() as u64 / 20;
    let (file, _, full) = without_loss(|file, pause| {
        let cache = cache(capacity, Policy::Mobius);
        let recording = cache.record(file, 0.1).unwrap();
        let full = replay(&cache, &trace, 10 * PACE, pause) as f64 / trace.len() as f64;
        (recording.finish().unwrap(), full)
    });
    let (sample, facts) = recorded(&file.0);
    assert_eq!(facts.rate, 0.1);
    let share = sample.objects.len() as f64 / trace.objects.len() as f64;
    assert!((0.095..0.105).contains(&share), "{share} of the objects");
    assert_eq!(facts.gets, Some(trace.len() as u64));
    let missed = misses(&sample, Policy::Mobius, capacity / 10, Unit::Objects) as f64;
    let sampled = missed / (sample.len() as f64 * facts.correction(sample.len() as u64));
    println!(
        "{full} of all, {sampled} of the sample, {} uncorrected",
        missed / sample.len() as f64
    );
    assert!((sampled - full).abs() < 0.02, "{sampled}, not {full}");
}

/// Returns when the coarse clock has ticked: later records have later times than earlier ones, on
/// any thread.
fn let_a_tick_pass() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Every operation with a record, and those without one.
fn operate(cache: &Tested) {
    cache.get(&0);
    cache.pin().get(&0);
    // Misses that wait for their insertions, on any thread.
    cache.get(&1);
    cache.pin().get(&2);
    let_a_tick_pass();
    std::thread::scope(|scope| {
        scope.spawn(|| cache.insert(2, 20));
    });
    let_a_tick_pass();
    cache.insert(1, 10);
    cache.insert(1, 11);
    // Heavier than the capacity.
    cache.insert(3, 5_000);
    cache.remove(&1);
    cache.invalidate(&9);
    // These leave no record.
    cache.peek(&0);
    cache.contains_key(&0);
    cache.pin().peek(&0);
    cache.iter().count();
    // One removed before it is inserted, and one never inserted.
    cache.get(&4);
    cache.remove(&4);
    cache.insert(4, 40);
    cache.get(&5);
}

#[test]
fn each_operation_has_its_record() {
    use Operation::{Delete, Get, Set};
    let begun = Instant::now();
    let (file, summary) = loop {
        let file = Temporary::new();
        let builder = Cache::builder(1_000).weigher(|_, value| *value);
        let cache: Tested = builder.with_hasher(Simulated::default()).build();
        cache.insert(0, 50);
        let recording = cache.record(&file.0, 1.0).unwrap();
        let operating = Instant::now();
        operate(&cache);
        // A miss waits a second for its insertion.
        let prompt = operating.elapsed() < Duration::from_millis(500);
        let summary = recording.finish().unwrap();
        cache.get(&0);
        if prompt {
            break (file, summary);
        }
        assert!(
            begun.elapsed() < HANG_LIMIT,
            "a few operations never took less than half a second"
        );
    };
    assert_eq!((summary.records, summary.lost), (12, 0));
    let (trace, _) = recorded(&file.0);
    let expected = [
        (Get, 50, 0),
        (Get, 50, 0),
        (Get, 20, 1),
        (Get, 10, 2),
        (Set, 11, 2),
        (Set, 5_000, 3),
        (Delete, 1, 2),
        (Delete, 1, 4),
        (Get, 1, 5),
        (Delete, 1, 5),
        (Set, 40, 5),
        (Get, 1, 6),
    ];
    assert_eq!(rows(&trace), expected);
}

#[test]
fn a_file_is_read_while_it_is_written() {
    let file = Temporary::new();
    let cache = cache(100, Policy::Mobius);
    let recording = cache.record(&file.0, 1.0).unwrap();
    let busy = cache.record(&file.0, 1.0).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
    let begun = Instant::now();
    loop {
        (0..1_000).for_each(|key| cache.insert(key, key));
        std::thread::sleep(Duration::from_millis(20));
        if let Ok(loaded) = read(&file.0, &ReadOptions::default()) {
            let facts = loaded.origin.recording.unwrap();
            assert_eq!(facts.lost, None);
            break;
        }
        assert!(begun.elapsed() < HANG_LIMIT, "nothing has come");
    }
    drop(recording);
    assert_eq!(recorded(&file.0).1.lost, Some(0));
    // And then another.
    let again = cache.record(&file.0, 0.5).unwrap();
    (0..1_000).for_each(|key| cache.insert(key, key));
    let summary = again.finish().unwrap();
    assert!((400..600).contains(&summary.records), "{summary:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let file = Temporary::new();
    let cache = cache(100, Policy::Mobius);
    for rate in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
        let error = cache.record(&file.0, rate).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{rate}");
    }
    assert!(!file.0.exists());
    let error = cache.record("/no/such/folder/file", 1.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    #[cfg(target_os = "linux")]
    {
        // Nothing can be written there: an error at the latest at the end.
        let failed = cache.record("/dev/full", 1.0).and_then(frazil::Recording::finish);
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    // After all that it works.
    let recording = cache.record(&file.0, f64::MIN_POSITIVE).unwrap();
    cache.get(&1);
    assert_eq!(recording.finish().unwrap().records, 0);
    // Forgotten, it ends with the cache.
    let forgotten = Temporary::new();
    std::mem::forget(cache.record(&forgotten.0, 1.0).unwrap());
    cache.insert(1, 1);
    drop(cache);
    assert_eq!(recorded(&forgotten.0).0.len(), 1);
}

#[test]
fn many_threads_are_put_in_order() {
    let file = Temporary::new();
    let cache = cache(1_000, Policy::Mobius);
    let recording = cache.record(&file.0, 0.5).unwrap();
    let threads = 4;
    let asked = 40_000u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let cache = &cache;
            scope.spawn(move || {
                for step in 0..asked {
                    let key = (step * 31 + thread * 7) % 2_000;
                    if cache.get(&key).is_none() {
                        cache.insert(key, key);
                    }
                }
            });
        }
    });
    let summary = recording.finish().unwrap();
    let (trace, facts) = recorded(&file.0);
    assert!(trace.times_ns.is_sorted());
    assert_eq!(facts.lost, Some(summary.lost));
    let gets = trace.len() - trace.operations.iter().filter(|&&o| o != Operation::Get).count();
    // Notes of gets and of insertions.
    let at_most = gets as u64 + summary.lost;
    // Each key is requested equally often, and about half of the keys are chosen.
    let expected = threads * asked / 2;
    assert!(gets as u64 <= expected * 11 / 10, "{gets}, not {expected}");
    assert!(at_most >= expected * 9 / 10, "{gets} and {} lost, not {expected}", summary.lost);
}

fn with_lifetimes(path: &Path) -> (Trace, Recording) {
    let options = ReadOptions { lifetimes: Lifetimes::OfTrace, ..ReadOptions::default() };
    let loaded = read(path, &options).unwrap();
    (loaded.trace, loaded.origin.recording.unwrap())
}

#[test]
fn insertions_have_their_lifetimes() {
    const S: u64 = 1_000_000_000;
    let record = |builder: frazil::Builder<u64, u64>| {
        let file = Temporary::new();
        let cache: Tested = builder.with_hasher(Simulated::default()).build();
        let recording = cache.record(&file.0, 1.0).unwrap();
        cache.insert(1, 1);
        cache.get(&1);
        cache.get(&2);
        cache.insert(2, 2);
        _ = cache.get_or_insert_with(&3, || 3);
        recording.finish().unwrap();
        with_lifetimes(&file.0)
    };
    let hour = Duration::from_secs(3_600);
    let (trace, facts) = record(Cache::builder(100).time_to_live(hour));
    assert_eq!(trace.lifetimes_ns, [3_600 * S, 0, 3_600 * S, 3_600 * S]);
    assert_eq!(facts.lifetimes, RecordedLifetimes::Told);
    let odd = |key: &u64, _: &u64| (key % 2 == 1).then_some(Duration::from_millis(1_500));
    let (trace, facts) = record(Cache::builder(100).expire_after(odd));
    assert_eq!(trace.lifetimes_ns, [3 * S / 2, 0, FOR_EVER, 3 * S / 2]);
    assert_eq!(facts.lifetimes, RecordedLifetimes::Told);
    let (trace, facts) = record(Cache::builder(100).time_to_idle(hour));
    assert_eq!(trace.lifetimes_ns, [FOR_EVER, 0, FOR_EVER, FOR_EVER]);
    assert_eq!(facts.lifetimes, RecordedLifetimes::Moved);
    let (trace, facts) = record(Cache::builder(100));
    assert!(trace.lifetimes_ns.is_empty() && trace.times_ns.is_empty());
    assert_eq!(facts.lifetimes, RecordedLifetimes::None);
}

/// Requests, of which those for every third key insert entries that outlive the test. Returns the
/// misses and the duration.
fn replay_mortal(cache: &Tested, trace: &Trace) -> (u64, Duration) {
    let (begun, mut misses) = (Instant::now(), 0);
    for &id in &trace.ids {
        let key = u64::from(id);
        if cache.get(&key).is_none() {
            misses += 1;
            match key % 3 {
                0 => cache.insert_for(key, key, Duration::from_secs(3_600)),
                _ => cache.insert(key, key),
            }
        }
    }
    (misses, begun.elapsed())
}

/// Entries expire between two rounds of requests, long after one and long before the other, so that
/// no tick of a clock decides.
#[test]
fn the_recorded_expires_as_it_did_in_the_cache() {
    let trace = load("zipf:0.8:objects=2K:requests=3K:seed=5", &Default::default()).unwrap().trace;
    let begun = Instant::now();
    for lifetime in [500, 1_000, 2_000, 4_000].into_iter().cycle().map(Duration::from_millis) {
        assert!(begun.elapsed() < HANG_LIMIT, "3,000 requests never took less than 4 s");
        let file = Temporary::new();
        let builder = Cache::builder(500).policy(Policy::Lru).time_to_live(lifetime);
        let cache: Tested = builder.with_hasher(Simulated::default()).build();
        let recording = cache.record(&file.0, 1.0).unwrap();
        let (first, took) = replay_mortal(&cache, &trace);
        std::thread::sleep(lifetime + Duration::from_millis(100));
        let (second, took_again) = replay_mortal(&cache, &trace);
        let summary = recording.finish().unwrap();
        if summary.lost > 0 || took.max(took_again) > lifetime / 2 {
            continue;
        }
        let (again, _) = with_lifetimes(&file.0);
        let cell = CellSpec { policy: "lru".parse().unwrap(), capacity: 500 };
        let replay = |lifetimes| {
            let options = SweepOptions { lifetimes, ..SweepOptions::default() };
            sweep(&again, &[cell], &options, &|_| ())[0]
        };
        let outcome = replay(Lifetimes::OfTrace);
        assert_eq!(outcome.misses(), first + second);
        assert!(outcome.expired > 100, "{outcome:?}");
        assert!(replay(Lifetimes::Ignored).misses() < first + second);
        return;
    }
}
