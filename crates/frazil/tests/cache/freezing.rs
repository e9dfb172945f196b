//! What a cache that freezes by itself learns, compared with the paper's marker in a plain list;
//! and its phases, by a clock that the test moves and by the thread.

#![cfg(not(any(loom, shuttle, miri)))]

use crate::extent::{HANG_LIMIT, is_long};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use frazil::{
    Cache, CurvePoint, Freezing, FreezingPhase as Phase, FreezingReason as Reason, FreezingState,
    Policy,
};

const CHECK: Duration = Duration::from_millis(100);

/// Keys requested about as often as Zipf's law says.
struct Zipf {
    state: u64,
    keys: f64,
}

impl Zipf {
    fn new(keys: u64) -> Self {
        Zipf { state: 7, keys: keys as f64 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let unit = (self.state >> 11) as f64 / (1u64 << 53) as f64;
        self.keys.powf(unit) as u64
    }
}

/// The test's clock, in nanoseconds.
#[derive(Default)]
struct Time {
    now: AtomicU64,
    /// Number of following hits that take longer than misses: entries just frozen are in no cache
    /// of the requesting processor.
    cold: AtomicU64,
}

/// A value that takes a tenth of a microsecond to clone, by the test's clock.
struct Row(Arc<Time>);

impl Clone for Row {
    fn clone(&self) -> Self {
        let cold = self.0.cold.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        self.0.now.fetch_add(if cold.is_ok() { 20_000 } else { 100 }, Relaxed);
        Row(self.0.clone())
    }
}

/// A cache whose clock the test moves: 10 µs between requests, and 10 µs for a miss.
struct Bench {
    cache: Cache<u64, Row>,
    time: Arc<Time>,
    idle: Duration,
    stepped: Duration,
    /// Phases and their reasons, as they came.
    seen: Vec<(Phase, Reason)>,
}

impl Bench {
    fn new(policy: &str, capacity: u64) -> Self {
        Bench::lasting(policy, capacity, 20)
    }

    /// A frozen share lasts `lifetime` constructions.
    fn lasting(policy: &str, capacity: u64, lifetime: u32) -> Self {
        let time = Arc::new(Time::default());
        let told = time.clone();
        let policy: Policy = policy.parse().unwrap();
        let cache = Cache::builder(capacity)
            .policy(policy)
            .freezing(Freezing::Learned)
            .freezing_lifetime(lifetime)
            .clock(move || Duration::from_nanos(told.now.load(Relaxed)))
            .build();
        let (idle, stepped) = (Duration::ZERO, Duration::ZERO);
        Bench { cache, time, idle, stepped, seen: Vec::new() }
    }

    fn state(&self) -> FreezingState {
        self.cache.freezing_state().unwrap()
    }

    /// Whether it hit.
    fn request(&self, key: u64) -> bool {
        self.time.now.fetch_add(10_000, Relaxed);
        let hit = self.cache.get(&key).is_some();
        if !hit {
            self.time.now.fetch_add(10_000, Relaxed);
            self.cache.insert(key, Row(self.time.clone()));
        }
        hit
    }

    fn step(&mut self) -> FreezingState {
        self.stepped = Duration::from_nanos(self.time.now.load(Relaxed));
        let was = self.state().share;
        self.idle = self.cache.step_freezing(self.stepped);
        let state = self.state();
        if state.share > was {
            self.time.cold.store(300, Relaxed);
        }
        if self.seen.last() != Some(&(state.phase, state.reason)) {
            self.seen.push((state.phase, state.reason));
        }
        state
    }

    /// Requests until it is in a phase, with steps when they are due.
    fn until(&mut self, phase: Phase, mut key: impl FnMut() -> u64) -> FreezingState {
        for _ in 0..30_000_000 {
            self.request(key());
            let elapsed = Duration::from_nanos(self.time.now.load(Relaxed)) - self.stepped;
            if elapsed >= self.idle {
                let state = self.step();
                if state.phase == phase {
                    return state;
                }
            }
        }
        panic!("{:?}", self.seen);
    }

    /// The frozen share has been checked. The first step only begins to time requests: those right
    /// after a construction are slow.
    fn checked(&mut self, mut key: impl FnMut() -> u64) -> FreezingState {
        for _ in 0..2 {
            while Duration::from_nanos(self.time.now.load(Relaxed)) - self.stepped < self.idle {
                self.request(key());
            }
            self.step();
        }
        (0..100_000).for_each(|_| _ = self.request(key()));
        self.step()
    }

    /// A cache that has come to learn, after requests that `key` makes.
    fn learning(policy: &str, capacity: u64, mut key: impl FnMut() -> u64) -> Self {
        let mut bench = Bench::new(policy, capacity);
        (0..20 * capacity).for_each(|_| _ = bench.request(key()));
        bench.until(Phase::Learning, key);
        bench
    }
}

/// Figure 18: an LRU list with a marker. A hit behind it moves before it, new entries come right
/// behind it, and the last is evicted.
struct Marked {
    before: HashMap<u64, ()>,
    behind: VecDeque<u64>,
    capacity: usize,
    /// Hits before the marker, hits behind it, and misses, by how far it has come.
    windows: Vec<[u64; 3]>,
}

impl Marked {
    fn new(hottest_first: Vec<u64>) -> Self {
        let capacity = hottest_first.len();
        let behind = hottest_first.into();
        Marked { before: HashMap::new(), behind, capacity, windows: vec![[0; 3]; 50] }
    }

    fn request(&mut self, key: u64) -> bool {
        let step = (self.before.len() / (self.capacity / 50)).min(49);
        let window = &mut self.windows[step];
        if self.before.contains_key(&key) {
            window[0] += 1;
            return true;
        }
        if let Some(at) = self.behind.iter().position(|&other| other == key) {
            window[1] += 1;
            self.behind.remove(at);
            self.before.insert(key, ());
            return true;
        }
        window[2] += 1;
        self.behind.pop_back();
        self.behind.push_front(key);
        false
    }

    /// For each step that the marker has passed: its place, hits before it, misses.
    fn curve(&self) -> Vec<(f64, f64, f64)> {
        let passed = self.before.len() / (self.capacity / 50);
        let of_all = |window: &[u64; 3], part: usize| {
            window[part] as f64 / window.iter().sum::<u64>() as f64
        };
        let point = |(step, window): (usize, &[u64; 3])| {
            ((step as f64 + 0.5) / 50.0, of_all(window, 0), of_all(window, 2))
        };
        self.windows[..passed.min(50)].iter().enumerate().map(point).collect()
    }
}

fn nearest(curve: &[CurvePoint], share: f64) -> &CurvePoint {
    let distance = |point: &&CurvePoint| (point.share - share).abs();
    curve.iter().min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap()
}

#[test]
fn by_the_marker_it_learns_what_the_paper_does() {
    for policy in ["lru", "lru-relaxed"] {
        let mut zipf = Zipf::new(20_000);
        let mut bench = Bench::learning(policy, 5_000, || zipf.next());
        let mut marked = Marked::new(bench.cache.hottest(5_000));
        let mut differing = 0;
        let state = loop {
            (0..100).for_each(|_| {
                let key = zipf.next();
                differing += u64::from(bench.request(key) != marked.request(key));
            });
            let state = bench.step();
            if state.phase != Phase::Learning {
                break state;
            }
        };
        assert_eq!((state.phase, state.reason), (Phase::Trying, Reason::Learned));
        // An entry that the marker has passed and an LRU list still promotes is evicted no sooner.
        assert_eq!(differing, 0, "{policy}: requests that hit in one of the lists alone");
        let expected = marked.curve();
        assert!(expected.len() > 15, "the marker came as far as {}", expected.len());
        for (share, frozen_hits, misses) in expected {
            let point = nearest(state.curve(), share);
            assert!((point.share - share).abs() < 1e-6, "{policy} {share}: {point:?}");
            assert!((point.frozen_hits - frozen_hits).abs() < 1e-9, "{share}: {point:?}");
            assert!((point.misses - misses).abs() < 1e-9, "{share}: {point:?}");
        }
    }
}

/// Checks the curve by ranks: learns to the end, and counts by the rank that each key of `hottest`
/// had.
fn learn_by_rank(bench: &mut Bench, zipf: &mut Zipf, hottest: Vec<u64>, tolerance: f64) {
    let policy = bench.cache.policy();
    let entries = hottest.len();
    assert!(entries > 1_900, "{policy}: {entries}");
    let mut ranks: HashMap<u64, usize> = hottest.into_iter().zip(0..).collect();
    let (mut hits, mut misses, mut requests) = ([0u64; 50], 0u64, 0u64);
    let mut newcomers = 0u64;
    let state = loop {
        (0..100).for_each(|_| {
            let key = zipf.next();
            requests += 1;
            if bench.request(key) {
                match ranks.get(&key) {
                    Some(rank) => hits[rank * 50 / entries] += 1,
                    None => newcomers += 1,
                }
            } else {
                misses += 1;
                // When it returns it is a new entry.
                ranks.remove(&key);
            }
        });
        let state = bench.step();
        if state.phase != Phase::Learning {
            break state;
        }
    };
    let curve = state.curve();
    assert_eq!(curve.len(), 50, "{policy}");
    let mut sum = 0;
    for (step, point) in curve.iter().enumerate() {
        sum += hits[step];
        assert_eq!(point.requests, requests, "{policy}");
        // New entries lose as many of their hits as they lose capacity.
        let missed = misses as f64 + (newcomers as f64 * ((step + 1) as f64 / 50.0)).round();
        let off = (point.misses - missed / requests as f64).abs();
        assert!(off < tolerance, "{policy} {point:?}: {missed}");
        let expected = sum as f64 / requests as f64;
        let off = (point.frozen_hits - expected).abs();
        assert!(off < tolerance, "{policy} {point:?}");
    }
    let (tenth, all) = (curve[4].frozen_hits, curve[49].frozen_hits);
    println!("{policy}: a tenth {tenth:.3}, all {all:.3}");
}

#[test]
fn by_frequency_it_learns_what_the_order_says() {
    for policy in ["lfu", "w-tinylfu", "gdsf"] {
        let mut zipf = Zipf::new(20_000);
        let mut bench = Bench::learning(policy, 2_000, || zipf.next());
        let hottest = bench.cache.hottest(2_000);
        // The order in W-TinyLFU's window changes while it is read.
        let tolerance = if policy == "w-tinylfu" { 0.01 } else { 1e-9 };
        learn_by_rank(&mut bench, &mut zipf, hottest, tolerance);
    }
}

#[test]
fn of_queues_without_a_lock_it_learns_what_is_hit_most() {
    for policy in ["mobius", "clock", "s3-fifo", "fifo"] {
        let mut zipf = Zipf::new(20_000);
        let mut bench = Bench::learning(policy, 2_000, || zipf.next());
        // As many requests as are needed for ranks.
        let mut counts: HashMap<u64, u8> = HashMap::new();
        for request in 1..=10_000 {
            let key = zipf.next();
            if bench.request(key) {
                let count = counts.entry(key).or_default();
                *count = count.saturating_add(1);
            } else {
                counts.remove(&key);
            }
            if request % 100 == 0 && request < 10_000 {
                assert_eq!(bench.step().phase, Phase::Learning);
            }
        }
        let mut hottest = bench.cache.hottest(2_000);
        hottest.sort_by_key(|key| std::cmp::Reverse(counts.get(key).copied().unwrap_or(0)));
        assert_eq!(bench.step().phase, Phase::Learning);
        learn_by_rank(&mut bench, &mut zipf, hottest, 1e-9);
    }
}

#[test]
fn in_several_lists_it_learns_what_was_hit_since() {
    for policy in ["slru", "two-queue", "arc", "lru-prob:q=0.5"] {
        let mut zipf = Zipf::new(20_000);
        let mut bench = Bench::learning(policy, 5_000, || zipf.next());
        let mut hit_since: HashMap<u64, ()> = HashMap::new();
        let mut windows = vec![[0u64; 3]; 50];
        let mut first_hits = 0;
        let state = loop {
            (0..100).for_each(|_| {
                let key = zipf.next();
                let window = &mut windows[(first_hits / 100).min(49)];
                if !bench.request(key) {
                    window[2] += 1;
                    hit_since.remove(&key);
                } else if hit_since.insert(key, ()).is_some() {
                    window[0] += 1;
                } else {
                    window[1] += 1;
                    first_hits += 1;
                }
            });
            let state = bench.step();
            if state.phase != Phase::Learning {
                break state;
            }
        };
        for (step, window) in windows.iter().enumerate().take(first_hits / 100) {
            let share = (step as f64 + 0.5) / 50.0;
            let point = nearest(state.curve(), share);
            let expected = window[0] as f64 / window.iter().sum::<u64>() as f64;
            let off = (point.frozen_hits - expected).abs();
            assert!(
                (point.share - share).abs() < 1e-6 && off < 1e-9,
                "{policy} {share}: {point:?}"
            );
        }
        assert!(first_hits > 1_000, "{policy}: {first_hits}");
    }
}

#[test]
fn what_is_frozen_is_hit_as_often_as_was_learnt() {
    // FIFO is left out: after these requests the cache has other entries than those learned of.
    for policy in ["lru", "slru", "arc", "mobius", "s3-fifo", "clock", "lfu", "w-tinylfu"] {
        let mut zipf = Zipf::new(20_000);
        let mut bench = Bench::learning(policy, 5_000, || zipf.next());
        let state = bench.until(Phase::Trying, || zipf.next());
        bench.cache.thaw();
        for share in [0.1, 0.3, 0.5] {
            // In the order of a cache in which nothing was frozen for a while.
            (0..50_000).for_each(|_| _ = bench.request(zipf.next()));
            bench.cache.freeze(share);
            let before = bench.cache.stats();
            (0..50_000).for_each(|_| _ = bench.request(zipf.next()));
            let stats = bench.cache.stats();
            let hits = (stats.frozen_hits - before.frozen_hits) as f64 / 50_000.0;
            let learnt = nearest(state.curve(), share);
            println!("{policy} {share}: {hits:.3}, learnt {:.3}", learnt.frozen_hits);
            assert!(
                (hits - learnt.frozen_hits).abs() < 0.08,
                "{policy} {share}: {hits}, {learnt:?}"
            );
            bench.cache.thaw();
        }
    }
}

#[test]
fn a_loop_longer_than_the_cache_is_frozen_whole() {
    let mut bench = Bench::new("lru", 1_000);
    let mut at = 0;
    let mut key = || {
        at = (at + 1) % 2_000;
        at
    };
    let state = bench.until(Phase::Frozen, &mut key);
    assert_eq!(state.share, 1.0);
    let state = bench.checked(&mut key);
    assert_eq!(state.reason, Reason::Built);
    assert!((state.frozen_hit_share - 0.5).abs() < 0.01, "{state:?}");
    // By the test's clock a hit takes 0.1 µs, and a miss 10.
    assert!((state.latency_ns - 5_050.0).abs() < 100.0, "{state:?}");
    assert_eq!(state.constructions, 1);

    // Then another loop, whose keys are absent.
    let mut other = 0;
    let state = bench.until(Phase::Sleeping, || {
        other += 1;
        other
    });
    // At once, or when it was built again and was no better.
    let reasons = [Reason::Degraded, Reason::Unproven, Reason::NotWorth];
    assert!(reasons.contains(&state.reason), "{state:?}");
    assert_eq!(state.share, 0.0);
    bench.cache.insert(0, Row(bench.time.clone()));
    assert!(bench.cache.contains_key(&0), "newcomers are admitted again");
}

/// Steps of the controller, a tenth of a second apart, would see only one part of some loops.
#[test]
fn loops_of_any_length_are_frozen() {
    let few = [1_000, 3_300];
    let all = [1_000, 2_000, 2_500, 3_300, 4_000, 5_000];
    for &capacity in if is_long() { &all[..] } else { &few } {
        for policy in ["lru", "mobius", "arc"] {
            let mut bench = Bench::new(policy, capacity);
            let mut at = 0;
            let mut key = || {
                at = (at + 1) % (2 * capacity);
                at
            };
            let state = bench.until(Phase::Frozen, &mut key);
            assert_eq!(state.failures, 0, "{policy} {capacity}: {:?}", bench.seen);
            let state = bench.checked(&mut key);
            assert!((state.frozen_hit_share - 0.5).abs() < 0.05, "{policy} {capacity}: {state:?}");
        }
    }
}

#[test]
fn what_was_just_frozen_is_not_timed() {
    // All but a few requests hit, so the first hits are cold.
    let mut bench = Bench::new("lru", 1_000);
    let mut at = 0;
    let mut key = || {
        at = (at + 1) % 1_100;
        at
    };
    bench.until(Phase::Frozen, &mut key);
    let state = bench.checked(&mut key);
    assert_eq!((state.reason, state.constructions), (Reason::Built, 1), "{:?}", bench.seen);
}

/// A construction takes a second here, after one of settling, and sixty are left.
#[test]
fn what_is_frozen_lasts_as_long_as_is_said() {
    let refreshes = |lifetime| {
        let mut bench = Bench::lasting("lru", 1_000, lifetime);
        let mut at = 0;
        let mut key = || {
            at = (at + 1) % 2_000;
            at
        };
        bench.until(Phase::Frozen, &mut key);
        let end = bench.stepped + Duration::from_secs(60);
        while bench.stepped < end {
            bench.request(key());
            let now = Duration::from_nanos(bench.time.now.load(Relaxed));
            if now - bench.stepped >= bench.idle {
                bench.step();
            }
        }
        assert_eq!(bench.state().failures, 0, "{:?}", bench.seen);
        bench.state().refreshes
    };
    // Every 7 to 8 seconds, 22 to 23; every 3 to 4, never. A loop pays by its hits, which need no
    // proof because nothing hits without freezing.
    assert!((6..=9).contains(&refreshes(5)));
    assert_eq!(refreshes(20), 2);
    if is_long() {
        assert!((14..=20).contains(&refreshes(1)));
        assert_eq!(refreshes(100), 0);
    }
}

#[test]
fn where_it_does_not_pay_it_is_off_for_longer_and_longer() {
    // New keys only; then hits that take as long frozen as not.
    let (mut at, mut zipf) = (1 << 32, Zipf::new(5_000));
    let scan: Box<dyn FnMut() -> u64> = Box::new(move || {
        at += 1;
        at
    });
    let hits: Box<dyn FnMut() -> u64> = Box::new(move || zipf.next());
    for (mut key, which) in [(scan, "scan"), (hits, "hits")] {
        let mut bench = Bench::new("lru", 2_000);
        let begun = bench.until(Phase::Sleeping, &mut key);
        assert_eq!((begun.reason, begun.failures), (Reason::NotWorth, 1), "{which}");
        let (before, sizes) = (bench.cache.stats(), bench.cache.len());
        bench.until(Phase::Waiting, &mut key);
        assert_eq!(bench.cache.len(), sizes);
        assert_eq!(bench.cache.stats().frozen_hits, before.frozen_hits);
        let state = bench.until(Phase::Sleeping, &mut key);
        assert_eq!((state.constructions, state.failures), (0, 2));
        assert_eq!(state.sleep, Duration::from_secs(128));
        let frozen: Duration = state.times_by_share().skip(1).map(|(_, time)| time).sum();
        assert!(frozen <= 2 * (Duration::from_millis(500) + CHECK), "only tried: {frozen:?}");
    }
}

#[test]
fn pins_and_batches_are_looked_at_too() {
    let mut zipf = Zipf::new(20_000);
    let mut bench = Bench::learning("lru", 5_000, || zipf.next());
    for _ in 0..2_000 {
        let keys: Vec<u64> = (0..10).map(|_| zipf.next()).collect();
        let values = bench.cache.get_many(&keys);
        let pin = bench.cache.pin();
        let hits = keys.iter().filter(|key| pin.get(*key).is_some()).count();
        assert_eq!(hits, values.iter().flatten().count());
    }
    let learnt = bench.until(Phase::Trying, || zipf.next());
    let requests: u64 = learnt.curve().iter().map(|point| point.requests).sum();
    assert!(requests >= 40_000, "{requests}");
}

fn learned(policy: Policy, capacity: u64) -> Arc<Cache<u64, u64>> {
    Arc::new(Cache::builder(capacity).policy(policy).freezing(Freezing::Learned).build())
}

/// Whether waiting any longer is useless.
fn is_late(began: Instant) -> bool {
    began.elapsed() > HANG_LIMIT
}

/// The processor time of the thread that freezes.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: &std::fs::DirEntry, file| std::fs::read_to_string(task.path().join(file));
    let mut of_it = tasks
        .filter(|task| read(task, "comm").is_ok_and(|name| name.starts_with("frazil-freezing")));
    let time = of_it.next().and_then(|task| read(&task, "schedstat").ok()).unwrap_or_default();
    let nanoseconds = time.split_whitespace().next().and_then(|time| time.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn threads() -> usize {
    let status = std::fs::read_dir("/proc/self/task").map(|tasks| {
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        let names = tasks.filter_map(|task| name(task.ok()?).ok());
        names.filter(|name| name.starts_with("frazil-freezing")).count()
    });
    status.unwrap_or(0)
}

/// The processor time that the thread takes at rest, of each second.
const REST_MAX: Duration = Duration::from_millis(10);

/// One test, so that the threads of no other are counted.
#[test]
fn the_thread_works_and_ends() {
    let cache = learned(Policy::Lru, 10_000);
    let control = cache.control_freezing().unwrap();
    assert_eq!(cache.control_freezing().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (cache, over) = (&cache, &over);
            scope.spawn(move || {
                let mut zipf = Zipf { state: worker, ..Zipf::new(50_000) };
                while !over.load(Relaxed) {
                    for _ in 0..1_000 {
                        let key = zipf.next();
                        match cache.get(&key) {
                            Some(value) => assert_eq!(value, key + 1),
                            None => cache.insert(key, key + 1),
                        }
                    }
                }
            });
        }
        let began = Instant::now();
        let learnt = || !cache.freezing_state().unwrap().curve().is_empty();
        while began.elapsed() < Duration::from_secs(3) || !learnt() && !is_late(began) {
            std::thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Relaxed);
    });
    let state = cache.freezing_state().unwrap();
    assert!(!state.curve().is_empty(), "{state:?}");
    // At rest it takes almost no processor time. Its work does not end with the requests: a second
    // in which it froze or thawed does not count, nor one in which the machine was slow.
    let (ended, doing) = (Instant::now(), || {
        let FreezingState { phase, reason, constructions, .. } = cache.freezing_state().unwrap();
        (phase, reason, constructions)
    });
    let took = loop {
        let (was, before) = (doing(), processor_time());
        std::thread::sleep(Duration::from_secs(1));
        let took = processor_time() - before;
        if doing() == was && took < REST_MAX || is_late(ended) {
            break took;
        }
    };
    assert!(took < REST_MAX, "{took:?} of a second");
    // Dropped, it leaves nothing frozen, and another may come.
    drop(control);
    let before = cache.stats().frozen_hits;
    (0..50_000).for_each(|key| _ = cache.get(&key));
    assert_eq!(cache.stats().frozen_hits, before);
    assert_eq!(cache.freezing_state().unwrap().reason, Reason::Began);
    if cfg!(target_os = "linux") {
        assert_eq!(threads(), 0);
    }
    let mut handle = cache.control_freezing().unwrap();
    drop(cache);
    // The cache no longer exists: the thread notices by itself.
    let patience = Instant::now() + HANG_LIMIT;
    while threads() > 0 && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(threads(), 0);
    // And the handle does nothing, and no harm.
    let other = learned(Policy::Lru, 100);
    handle = {
        drop(handle);
        other.control_freezing().unwrap()
    };
    drop(handle);
    let by_hand: Cache<u64, u64> = Cache::builder(100).freezing(Freezing::ByHand).build();
    let error = Arc::new(by_hand).control_freezing().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// Steps as if seconds lay between them, so that all phases occur while threads run all operations.
#[test]
fn it_may_learn_and_freeze_while_all_goes_on() {
    for policy in ["lru", "arc", "w-tinylfu", "mobius", "s3-fifo", "fifo"] {
        let policy: Policy = policy.parse().unwrap();
        let mut cache: Cache<u64, String> =
            Cache::builder(500).policy(policy).freezing(Freezing::Learned).build();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (cache, over) = (&cache, &over);
                scope.spawn(move || {
                    let mut zipf = Zipf { state: worker, ..Zipf::new(2_000) };
                    let value = |key: u64| format!("{key}");
                    while !over.load(Relaxed) {
                        let key = zipf.next();
                        match zipf.state >> 60 {
                            0 => cache.insert(key, value(key)),
                            1 => _ = cache.remove(&key),
                            2 => assert_eq!(
                                cache.get_or_insert_with(&key, || value(key)),
                                value(key)
                            ),
                            3 => {
                                let found = cache.get_many([&key, &(key + 1)]);
                                assert!(found[0].as_ref().is_none_or(|found| *found == value(key)));
                            }
                            4 => {
                                let pin = cache.pin();
                                assert!(pin.get(&key).is_none_or(|found| *found == value(key)));
                            }
                            _ => match cache.get(&key) {
                                Some(found) => assert_eq!(found, value(key)),
                                None => cache.insert(key, value(key)),
                            },
                        }
                    }
                });
            }
            let (began, mut now) = (Instant::now(), Duration::ZERO);
            let learnt = || !cache.freezing_state().unwrap().curve().is_empty();
            while began.elapsed() < Duration::from_millis(400) || !learnt() && !is_late(began) {
                now += Duration::from_millis(700);
                cache.step_freezing(now);
                std::thread::sleep(Duration::from_micros(500));
            }
            over.store(true, Relaxed);
        });
        let state = cache.freezing_state().unwrap();
        println!("{policy}: {:?}, {} constructions", state.reason, state.constructions);
        assert!(!state.curve().is_empty(), "{policy}: {state:?}");
        cache.thaw();
        cache.validate().unwrap();
    }
}
