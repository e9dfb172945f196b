//! Overlays on other caches: their answers, in one thread against a naive model, and in many
//! threads.
#![cfg(not(any(loom, shuttle)))]

#[path = "../examples/other_caches/lru_mutex.rs"]
mod lru_mutex;
#[path = "../examples/other_caches/relaxed_lru.rs"]
mod relaxed_lru;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use frazil_freezing::{Host, Insertion, Mark, Overlay, Phase, Reason};
use lru_mutex::LruMutex;
use proptest::prelude::*;
use relaxed_lru::RelaxedLru;

/// LRU of which a part is set aside, in its plainest form.
struct Naive {
    capacity: usize,
    /// Both lists hottest first.
    dynamic: Vec<(u8, u32)>,
    aside: Vec<(u8, u32)>,
}

fn place(list: &[(u8, u32)], key: u8) -> Option<usize> {
    list.iter().position(|entry| entry.0 == key)
}

impl Naive {
    fn len(&self) -> usize {
        self.dynamic.len() + self.aside.len()
    }

    fn get(&mut self, key: u8) -> Option<u32> {
        if let Some(at) = place(&self.aside, key) {
            return Some(self.aside[at].1);
        }
        let entry = self.dynamic.remove(place(&self.dynamic, key)?);
        self.dynamic.insert(0, entry);
        Some(entry.1)
    }

    fn insert(&mut self, key: u8, value: u32) -> Insertion {
        if let Some(at) = place(&self.aside, key) {
            self.aside[at].1 = value;
            return Insertion::Replaced;
        }
        let mut outcome = Insertion::Admitted { evicted: 0 };
        if let Some(at) = place(&self.dynamic, key) {
            self.dynamic.remove(at);
            outcome = Insertion::Replaced;
        } else if self.len() == self.capacity {
            if self.dynamic.pop().is_none() {
                return Insertion::Refused;
            }
            outcome = Insertion::Admitted { evicted: 1 };
        }
        self.dynamic.insert(0, (key, value));
        outcome
    }

    fn remove(&mut self, key: u8) -> Option<u32> {
        if let Some(at) = place(&self.aside, key) {
            return Some(self.aside.remove(at).1);
        }
        place(&self.dynamic, key).map(|at| self.dynamic.remove(at).1)
    }

    fn thaw(&mut self) {
        let dynamic = std::mem::take(&mut self.dynamic);
        self.dynamic = std::mem::take(&mut self.aside);
        self.dynamic.extend(dynamic);
    }

    fn freeze(&mut self, share: f64) -> u64 {
        self.thaw();
        let count = (self.len() as f64 * share).round() as usize;
        let dynamic = self.dynamic.split_off(count);
        self.aside = std::mem::replace(&mut self.dynamic, dynamic);
        count as u64
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Get(u8),
    Insert(u8),
    Remove(u8),
    Freeze(f64),
    Thaw,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = 0u8..24;
    let call = prop_oneof![
        12 => key.clone().prop_map(Call::Get),
        12 => key.clone().prop_map(Call::Insert),
        2 => key.prop_map(Call::Remove),
        1 => (0.0..1.3).prop_map(Call::Freeze),
        1 => Just(Call::Thaw),
    ];
    proptest::collection::vec(call, 0..300)
}

proptest! {
    #[test]
    fn a_frozen_list_answers_as_one_that_is_written_down(calls in calls()) {
        let cache = Overlay::new(LruMutex::<u8, u32>::new(12, true));
        let mut naive = Naive { capacity: 12, dynamic: Vec::new(), aside: Vec::new() };
        for (value, call) in (0..).zip(calls) {
            match call {
                Call::Get(key) => prop_assert_eq!(cache.get(&key), naive.get(key)),
                Call::Insert(key) => {
                    prop_assert_eq!(cache.insert(&key, value), naive.insert(key, value));
                }
                Call::Remove(key) => prop_assert_eq!(cache.remove(&key), naive.remove(key)),
                Call::Freeze(share) => {
                    prop_assert_eq!(cache.freeze(share), Some(naive.freeze(share.min(1.0))));
                }
                Call::Thaw => {
                    cache.thaw();
                    naive.thaw();
                }
            }
            prop_assert_eq!(cache.host().len(), naive.len());
        }
    }

    /// Which entries a shard evicts depends on the distribution of keys; a present value is the
    /// last one.
    #[test]
    fn a_frozen_map_has_last_values_and_keeps_what_is_frozen(calls in calls()) {
        let cache = Overlay::new(RelaxedLru::<u8, u32>::new(16));
        let mut last = HashMap::new();
        for (value, call) in (0..).zip(calls) {
            match call {
                Call::Get(key) => {
                    let (got, held) = (cache.get(&key), cache.host().get(&key, |_| ()));
                    prop_assert_eq!(got, held);
                    prop_assert!(got.is_none() || got == last.get(&key).copied());
                }
                Call::Insert(key) => {
                    if cache.insert(&key, value) != Insertion::Refused {
                        last.insert(key, value);
                    }
                }
                Call::Remove(key) => {
                    let removed = cache.remove(&key);
                    prop_assert!(removed.is_none() || removed == last.remove(&key));
                    prop_assert_eq!(cache.get(&key), None);
                }
                Call::Freeze(share) => {
                    let frozen = cache.freeze(share).expect("nobody reads");
                    let before = cache.counts();
                    let found = (0..24).filter(|key| cache.get(key).is_some()).count();
                    prop_assert_eq!(found, cache.host().len());
                    prop_assert_eq!(cache.counts().frozen_hits - before.frozen_hits, frozen);
                }
                Call::Thaw => cache.thaw(),
            }
            prop_assert!(cache.host().len() <= 16);
        }
    }
}

/// Writers whose values of a key only grow, readers that never see one decrease, and a freezer.
fn values_only_grow<H>(host: H)
where
    H: Host<Key = u64, Value = Arc<u64>>,
{
    const KEYS: u64 = 64;
    let cache = Overlay::new(host);
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let (over, began) = (AtomicBool::new(false), Instant::now());
    let frozen = std::thread::scope(|scope| {
        for writer in 0..2 {
            let (cache, written, over) = (&cache, &written, &over);
            scope.spawn(move || {
                let mut version = 0;
                while !over.load(Relaxed) {
                    version += 1;
                    for key in (0..KEYS).filter(|key| key % 2 == writer) {
                        if version % 7 == 3 {
                            cache.remove(&key);
                        } else {
                            cache.insert(&key, Arc::new(version));
                        }
                        written[key as usize].store(version, Relaxed);
                    }
                    // Otherwise no frozen entry would live until it is read.
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        for reader in 0..2 {
            let (cache, written, over) = (&cache, &written, &over);
            scope.spawn(move || {
                let mut state = reader;
                while !over.load(Relaxed) {
                    state = (state * 13 + 7) % KEYS;
                    let least = written[state as usize].load(Relaxed);
                    if let Some(seen) = cache.get(&state) {
                        assert!(*seen >= least, "key {state}: {seen} after {least} was written");
                    }
                }
            });
        }
        let mut frozen = 0;
        let mut share = 0.0;
        // And until a frozen entry was read, however busy the machine is.
        let enough = |waited: Duration| match cache.counts().frozen_hits {
            0 => waited > Duration::from_secs(60),
            _ => waited > Duration::from_millis(300),
        };
        while !enough(began.elapsed()) {
            share = (share + 0.37) % 1.1;
            frozen += cache.freeze(share).unwrap_or(0);
            std::thread::yield_now();
            if share > 0.7 {
                cache.thaw();
            }
        }
        over.store(true, Relaxed);
        frozen
    });
    assert!(frozen > 0 && cache.counts().frozen_hits > 0, "{frozen}: {:?}", cache.counts());
}

#[test]
fn values_of_a_list_only_grow() {
    values_only_grow(LruMutex::new(48, true));
}

#[test]
fn values_of_a_map_only_grow() {
    values_only_grow(RelaxedLru::new(48));
}

#[test]
fn all_values_are_dropped() {
    let value = Arc::new(());
    let cache = Overlay::new(LruMutex::new(100, true));
    for round in 0..5 {
        (0..200u64).for_each(|key| _ = cache.insert(&(key + round), Arc::clone(&value)));
        assert_eq!(cache.freeze(0.5), Some(50));
        assert_eq!(Arc::strong_count(&value), 1 + 100 + 50, "those that are frozen twice");
        cache.remove(&(round + 199));
        cache.thaw();
        assert_eq!(Arc::strong_count(&value), 1 + 99);
    }
    assert_eq!(cache.freeze(1.0), Some(99));
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 1);
}

/// A value's clone waits here, once, after the flag was set.
#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    reached: Mutex<()>,
}

struct Slow(Arc<Stop>);

impl Clone for Slow {
    fn clone(&self) -> Self {
        if self.0.is_set.swap(false, Relaxed) {
            drop(self.0.reached.lock());
        }
        Slow(Arc::clone(&self.0))
    }
}

#[test]
fn a_reader_that_stands_still_costs_a_freeze_and_no_answer() {
    let stop = Arc::new(Stop::default());
    let cache = Overlay::new(LruMutex::new(10, true));
    cache.insert(&0u64, Slow(Arc::clone(&stop)));
    assert_eq!(cache.freeze(1.0), Some(1));
    std::thread::scope(|scope| {
        let held = stop.reached.lock();
        stop.is_set.store(true, Relaxed);
        let reader = scope.spawn(|| cache.get(&0).is_some());
        while stop.is_set.load(Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(cache.freeze(1.0), None);
        assert_eq!(Arc::strong_count(&stop), 3, "here, in the host, in the old table");
        assert!(cache.get(&0).is_some(), "of the host");
        drop(held);
        assert_eq!(reader.join().ok(), Some(true));
    });
    assert_eq!(cache.freeze(1.0), Some(1));
    // Also if the cache is dropped before the next check.
    drop(cache);
    assert_eq!(Arc::strong_count(&stop), 1);
}

/// A key that requests another from the cache when it is compared, while `ASKS`.
#[derive(Clone)]
struct Nested(u64);

static ASKS: AtomicBool = AtomicBool::new(false);
static NESTED: OnceLock<Overlay<LruMutex<Nested, u64>>> = OnceLock::new();

impl PartialEq for Nested {
    fn eq(&self, other: &Self) -> bool {
        if self.0 == 1 && ASKS.swap(false, Relaxed) {
            let answer = NESTED.get().and_then(|cache| cache.get(&Nested(7)));
            assert_eq!(answer, Some(70));
        }
        self.0 == other.0
    }
}

impl Eq for Nested {}

impl std::hash::Hash for Nested {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn a_look_up_within_a_look_up_is_answered_by_the_table() {
    let cache = NESTED.get_or_init(|| Overlay::new(LruMutex::new(10, true)));
    [1, 7].iter().for_each(|&key| _ = cache.insert(&Nested(key), 10 * key));
    assert_eq!(cache.freeze(1.0), Some(2));
    ASKS.store(true, Relaxed);
    assert_eq!(cache.get(&Nested(1)), Some(10));
    assert!(!ASKS.load(Relaxed), "it was not compared");
    assert_eq!(cache.counts().frozen_hits, 2);
}

#[test]
fn whole_and_full_it_refuses_newcomers_until_something_goes() {
    let cache = Overlay::new(LruMutex::new(4, true));
    (0..4u64).for_each(|key| assert_ne!(cache.insert(&key, key), Insertion::Refused));
    assert_eq!(cache.freeze(1.0), Some(4));
    assert_eq!(cache.insert(&9, 9), Insertion::Refused);
    assert_eq!(cache.insert(&2, 20), Insertion::Replaced);
    assert_eq!(cache.get(&2), Some(20));
    assert_eq!(cache.remove(&3), Some(3));
    assert_eq!(cache.insert(&9, 9), Insertion::Admitted { evicted: 0 });
    // With spare capacity nothing is refused.
    let cache = Overlay::new(LruMutex::new(5, true));
    (0..4u64).for_each(|key| assert_ne!(cache.insert(&key, key), Insertion::Refused));
    assert_eq!(cache.freeze(1.0), Some(4));
    assert_eq!(cache.insert(&9, 9), Insertion::Admitted { evicted: 0 });
}

/// Requests keys whose logarithms are uniform.
fn ask<V: Clone + Send + Sync>(
    cache: &Overlay<LruMutex<u64, V>>,
    state: &mut u64,
    requests: u64,
    value: impl Fn() -> V,
) {
    for _ in 0..requests {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = 1_500f64.powf((*state >> 11) as f64 / (1u64 << 53) as f64) as u64;
        if cache.get(&key).is_none() {
            cache.insert(&key, value());
        }
    }
}

/// By the time passed to steps, so that only latencies depend on a clock, and they decide nothing
/// before the trial.
#[test]
fn it_learns_by_the_marker_and_tries() {
    let cache = Overlay::new(LruMutex::new(1_000, true));
    let (mut state, mut now) = (1u64, Duration::ZERO);
    let mut steps = cache.steps().expect("nobody else controls it");
    for _ in 0..10_000 {
        ask(&cache, &mut state, 500, || 0);
        now += Duration::from_millis(100);
        steps.step(now);
        if cache.state().phase == Phase::Trying {
            break;
        }
    }
    let learnt = cache.state();
    assert_eq!((learnt.phase, learnt.share), (Phase::Trying, 1.0));
    let hits: Vec<f64> = learnt.curve().iter().map(|point| point.frozen_hits).collect();
    // Keys span 7 log-units, of which each tenth of the entries has its share.
    assert!(hits.len() > 10 && hits[0] < 0.3 && hits[hits.len() - 1] > 0.7, "{hits:?}");
    let before = cache.counts();
    ask(&cache, &mut state, 1_000, || 0);
    assert!(cache.counts().frozen_hits > before.frozen_hits);
}

/// A freeze waits for a reader of the last table, which is no sign that nothing can be frozen.
#[test]
fn a_reader_that_stands_still_is_no_reason_to_sleep() {
    let stop = Arc::new(Stop::default());
    let value = || Slow(Arc::clone(&stop));
    let cache = Overlay::new(LruMutex::new(1_000, true));
    let (mut state, mut now) = (1u64, Duration::ZERO);
    let mut steps = cache.steps().expect("nobody else controls it");
    ask(&cache, &mut state, 20_000, value);
    assert_eq!(cache.freeze(1.0), Some(1_000));
    std::thread::scope(|scope| {
        let held = stop.reached.lock();
        stop.is_set.store(true, Relaxed);
        // The hottest key.
        let reader = scope.spawn(|| cache.get(&1).is_some());
        while stop.is_set.load(Relaxed) {
            std::thread::yield_now();
        }
        cache.thaw();
        // Learning ends after a few steps; from then on it wants to try.
        let mut learning = 0;
        while learning < 40 {
            ask(&cache, &mut state, 5_000, value);
            now += Duration::from_millis(100);
            steps.step(now);
            let seen = cache.state();
            assert_ne!(seen.reason, Reason::Impossible);
            assert_ne!(seen.phase, Phase::Trying, "while the old table is read");
            learning += u32::from(seen.phase == Phase::Learning);
        }
        drop(held);
        assert_eq!(reader.join().ok(), Some(true));
    });
    steps.step(now);
    assert_eq!(cache.state().phase, Phase::Trying);
}

#[test]
fn one_at_a_time_controls_it_and_leaves_it_thawed() {
    let cache = Arc::new(Overlay::new(LruMutex::new(1_000, true)));
    let (mut state, now) = (1u64, Duration::ZERO);
    let mut steps = cache.steps().expect("nobody else controls it");
    assert!(cache.steps().is_err() && cache.control().is_err());
    ask(&cache, &mut state, 20_000, || 0);
    steps.step(now);
    assert_eq!(cache.freeze(1.0), Some(1_000));
    drop(steps);
    let before = cache.counts().frozen_hits;
    ask(&cache, &mut state, 1_000, || 0);
    assert_eq!((cache.counts().frozen_hits, cache.state().reason), (before, Reason::Began));
    let control = cache.control().expect("nobody else controls it");
    assert!(cache.steps().is_err());
    drop(control);
    assert!(cache.steps().is_ok());
}

/// The controller's time continues, whatever the next clock shows.
#[test]
fn another_clock_does_not_hold_it_up() {
    let cache = Overlay::new(LruMutex::new(1_000, true));
    let mut state = 1u64;
    for origin in [10_000, 0] {
        let mut now = Duration::from_secs(origin);
        let mut steps = cache.steps().expect("nobody else controls it");
        for _ in 0..1_000 {
            ask(&cache, &mut state, 500, || 0);
            now += Duration::from_millis(100);
            steps.step(now);
            if cache.state().phase == Phase::Learning {
                break;
            }
        }
        assert_eq!(cache.state().phase, Phase::Learning, "from {origin} s on");
    }
}

#[test]
fn a_table_that_was_read_when_it_was_thawed_is_dropped_by_a_step() {
    let stop = Arc::new(Stop::default());
    let cache = Overlay::new(LruMutex::new(10, true));
    cache.insert(&0u64, Slow(Arc::clone(&stop)));
    let mut steps = cache.steps().expect("nobody else controls it");
    assert_eq!(cache.freeze(1.0), Some(1));
    std::thread::scope(|scope| {
        let held = stop.reached.lock();
        stop.is_set.store(true, Relaxed);
        let reader = scope.spawn(|| cache.get(&0).is_some());
        while stop.is_set.load(Relaxed) {
            std::thread::yield_now();
        }
        cache.thaw();
        steps.step(Duration::ZERO);
        assert_eq!(Arc::strong_count(&stop), 3, "here, in the host, in the table that is read");
        drop(held);
        assert_eq!(reader.join().ok(), Some(true));
    });
    assert_eq!(Arc::strong_count(&stop), 3);
    steps.step(Duration::from_millis(1));
    assert_eq!(Arc::strong_count(&stop), 2);
}

/// A host whose writes panic after they are done, and whose `give_back` panics.
struct Panics {
    host: LruMutex<u64, u64>,
    writes: AtomicBool,
    gives_back: AtomicBool,
    shows: AtomicBool,
}

impl Panics {
    fn is_due(flag: &AtomicBool) {
        assert!(!flag.swap(false, Relaxed), "as is wanted");
    }
}

impl Host for Panics {
    type Key = u64;
    type Value = u64;

    fn len(&self) -> usize {
        self.host.len()
    }

    fn get(&self, key: &u64, hit: impl FnOnce(&Mark)) -> Option<u64> {
        self.host.get(key, hit)
    }

    fn insert(&self, key: &u64, value: u64) -> Insertion {
        let insertion = self.host.insert(key, value);
        Self::is_due(&self.writes);
        insertion
    }

    fn remove(&self, key: &u64) -> Option<u64> {
        let removed = self.host.remove(key);
        Self::is_due(&self.writes);
        removed
    }

    fn walk(&self, show: &mut dyn FnMut(&Mark)) {
        self.host.walk(show);
    }

    fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&u64, &u64)) -> usize {
        let aside = self.host.set_aside(count, copy);
        Self::is_due(&self.shows);
        aside
    }

    fn give_back(&self) {
        Self::is_due(&self.gives_back);
        self.host.give_back();
    }
}

fn panics(work: impl FnOnce()) {
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
}

#[test]
fn a_host_that_panics_leaves_no_old_value_behind() {
    let no = AtomicBool::default;
    let host = LruMutex::new(10, true);
    let host = Panics { host, writes: no(), gives_back: no(), shows: no() };
    let cache = Overlay::new(host);
    let fill = || (0..10).for_each(|key| _ = cache.insert(&key, key));
    fill();
    // If nothing is frozen nothing needs a thaw.
    cache.host().writes.store(true, Relaxed);
    panics(|| _ = cache.insert(&3, 3));
    assert!(!cache.needs_thaw());
    assert_eq!(cache.freeze(1.0), Some(10));
    assert!(!cache.needs_thaw());
    cache.host().writes.store(true, Relaxed);
    panics(|| _ = cache.insert(&3, 30));
    assert_eq!(cache.get(&3), Some(30));
    assert!(cache.needs_thaw());
    assert_eq!(cache.insert(&77, 77), Insertion::Refused, "all are set aside still");
    cache.thaw();
    assert!(!cache.needs_thaw());
    fill();
    assert_eq!(cache.freeze(1.0), Some(10));
    cache.host().writes.store(true, Relaxed);
    panics(|| _ = cache.remove(&3));
    assert_eq!(cache.get(&3), None);
    // A freeze that panics, and whose thaw also panics: the next one returns all entries.
    fill();
    cache.host().shows.store(true, Relaxed);
    cache.thaw();
    cache.host().gives_back.store(true, Relaxed);
    panics(|| _ = cache.freeze(0.5));
    assert!((0..10).all(|key| cache.get(&key) == Some(key)));
    assert_eq!(cache.counts().frozen_hits, 0);
    assert!(cache.needs_thaw());
    cache.thaw();
    assert!(!cache.needs_thaw());
    assert_eq!(cache.freeze(1.0), Some(10), "all are dynamic");
}

/// A host that drops the old value if the new one is too large, and then does not have the key.
struct TooMuch(LruMutex<u64, u64>);

impl Host for TooMuch {
    type Key = u64;
    type Value = u64;
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, key: &u64, hit: impl FnOnce(&Mark)) -> Option<u64> {
        self.0.get(key, hit)
    }
    fn insert(&self, key: &u64, value: u64) -> Insertion {
        if value > 1_000 {
            self.0.remove(key);
            return Insertion::Refused;
        }
        self.0.insert(key, value)
    }
    fn remove(&self, key: &u64) -> Option<u64> {
        self.0.remove(key)
    }
    fn walk(&self, show: &mut dyn FnMut(&Mark)) {
        self.0.walk(show);
    }
    fn set_aside(&self, count: usize, copy: &mut dyn FnMut(&u64, &u64)) -> usize {
        self.0.set_aside(count, copy)
    }
    fn give_back(&self) {
        self.0.give_back();
    }
}

#[test]
fn what_was_refused_is_not_found_in_the_table() {
    let cache = Overlay::new(TooMuch(LruMutex::new(10, true)));
    (0..10).for_each(|key| _ = cache.insert(&key, key));
    assert_eq!(cache.freeze(1.0), Some(10));
    assert_eq!(cache.insert(&3, 5_000), Insertion::Refused);
    assert_eq!((cache.get(&3), cache.get(&4)), (None, Some(4)));
}
