//! Entries that expire: never early, never found late, and counted as expired.

use crate::extent::{HANG_LIMIT, policies};
use crate::own_process::is_alone;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::tracked::{Census, Chance, Tracked};
use frazil::{Builder, Cache, Cause, Policy};

/// Miri is a thousand times slower.
const SCALE: u64 = if cfg!(miri) { 100 } else { 1 };

/// Shows the time since the beginning of a test.
pub(crate) type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A clock that a test moves: the user's, or the system's.
struct TestClock(Arc<AtomicU64>, bool);

impl Default for TestClock {
    fn default() -> Self {
        TestClock(Arc::default(), true)
    }
}

impl TestClock {
    /// One of each: without a user's clock the cache takes other paths. While a system's clock is
    /// the current one, the calling thread sees its time.
    fn both() -> impl Iterator<Item = Self> {
        let moves_systems = cfg!(all(target_os = "linux", not(miri)));
        [true, false].into_iter().filter(move |users| *users || moves_systems).map(|is_users| {
            let time = TestClock(Arc::default(), is_users);
            time.enter();
            time
        })
    }

    /// Shows it to the calling thread.
    fn enter(&self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        crate::system_time::show((!self.1).then(|| self.clock()));
    }

    fn on<K, V>(&self, builder: Builder<K, V>) -> Builder<K, V> {
        if !self.1 {
            return builder;
        }
        let clock = self.clock();
        builder.clock(move || clock())
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Arc::new(move || Duration::from_nanos(time.load(Relaxed)))
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

impl Drop for TestClock {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        crate::system_time::show(None);
    }
}

fn validate<K: std::hash::Hash + Eq, V>(cache: &mut Cache<K, V>) {
    cache.validate().unwrap_or_else(|findings| panic!("{:?}:\n{findings}", cache.policy()));
}

const NS: Duration = Duration::from_nanos(1);
const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn policies_and_clocks() -> impl Iterator<Item = (Policy, TestClock)> {
    policies().into_iter().flat_map(|policy| TestClock::both().map(move |time| (policy, time)))
}

#[test]
fn an_entry_is_there_until_its_time_to_live_is_over() {
    for (policy, time) in policies_and_clocks() {
        let mut cache: Cache<u64, u64> =
            time.on(Cache::builder(100)).policy(policy).time_to_live(SEC).build();
        cache.insert(1, 10);
        time.pass(SEC / 2);
        cache.insert(2, 20);
        time.pass(SEC / 2 - NS);
        assert_eq!(
            (cache.get(&1), cache.peek(&1), cache.pin().get(&1)),
            (Some(10), Some(10), Some(&10))
        );
        assert_eq!(cache.lifetime_left(&1), Some(NS));
        time.pass(NS);
        assert_eq!(cache.lifetime_left(&1), None);
        assert!(cache.peek(&1).is_none() && !cache.contains_key(&1));
        assert!(cache.pin().peek(&1).is_none() && cache.iter().eq([(2, 20)]));
        // None of these removes it; these do.
        assert_eq!((cache.len(), cache.get(&1), cache.len()), (2, None, 1));
        time.pass(SEC);
        assert_eq!((cache.pin().get(&2), cache.len()), (None, 0));
        let stats = cache.stats();
        assert_eq!((stats.expirations, stats.removals, stats.evictions), (2, 0, 0));
        assert_eq!((stats.hits, stats.misses), (2, 2));
        validate(&mut cache);
    }
}

/// For sweeps and batches an expired entry is as absent as for a get: not returned, and reported as
/// expired.
#[test]
fn what_is_over_is_nobodys_to_judge() {
    let sweeps: [fn(&Cache<u64, u64>); 3] = [
        |cache| cache.retain(|key, _| *key == 3 || panic!("{key} is over")),
        |cache| cache.clear(),
        |cache| assert_eq!(cache.get_many([&1, &2]), [None, None]),
    ];
    for (time, sweep) in
        sweeps.into_iter().flat_map(|sweep| TestClock::both().map(move |time| (time, sweep)))
    {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let builder = Cache::builder(100)
            .listener(move |key, _, cause| heard.lock().unwrap().push((*key, cause)));
        let mut cache = time.on(builder).build();
        (1..=2).for_each(|key| cache.insert_for(key, key, SEC));
        cache.insert(3, 3);
        time.pass(SEC);
        sweep(&cache);
        let mut told = std::mem::take(&mut *told.lock().unwrap());
        told.retain(|&(key, _)| key != 3);
        told.sort_unstable_by_key(|&(key, _)| key);
        assert_eq!(told, [(1, Cause::Expired), (2, Cause::Expired)]);
        assert_eq!(cache.stats().expirations, 2);
        validate(&mut cache);
    }
}

#[test]
fn a_replacement_begins_a_new_life() {
    for time in TestClock::both() {
        let mut cache: Cache<u64, u64> = time.on(Cache::builder(100)).time_to_live(SEC).build();
        cache.insert(1, 10);
        time.pass(SEC - NS);
        cache.insert(1, 11);
        time.pass(SEC - NS);
        assert_eq!((cache.get(&1), cache.stats().replacements), (Some(11), 1));
        time.pass(NS);
        // An expired entry is not replaced: it is removed, and another is inserted.
        cache.insert(1, 12);
        let stats = cache.stats();
        assert_eq!((stats.replacements, stats.expirations, stats.insertions), (1, 1, 2));
        assert_eq!((cache.get(&1), cache.len()), (Some(12), 1));
        // Nor is it removed.
        time.pass(SEC);
        assert_eq!((cache.remove(&1), cache.invalidate(&1)), (None, false));
        assert_eq!((cache.stats().removals, cache.stats().expirations, cache.len()), (0, 2, 0));
        validate(&mut cache);
    }
}

#[test]
fn use_keeps_an_entry_that_goes_when_idle() {
    let ways = [(None, 200), (Some(10 * SEC), 10)];
    for (time, (to_live, uses)) in
        ways.into_iter().flat_map(|way| TestClock::both().map(move |time| (time, way)))
    {
        let builder = time.on(Cache::builder(100)).time_to_idle(SEC);
        let builder = to_live.into_iter().fold(builder, Builder::time_to_live);
        let mut cache: Cache<u64, u64> = builder.build();
        (0..4).for_each(|key| cache.insert(key, key));
        for _ in 1..uses {
            // Keys 0 to 2 are used, by a get or through a pin; key 3 is not.
            for step in 0..100 {
                time.pass(SEC / 100);
                if step == 50 {
                    assert!(cache.get(&1).is_some() && cache.pin().get(&2).is_some());
                    cache.get(&0);
                }
                assert_eq!(
                    (cache.peek(&3), cache.contains_key(&3)),
                    (cache.peek(&3), cache.peek(&3).is_some())
                );
            }
            assert!(cache.peek(&3).is_none(), "a peek is no use");
        }
        time.pass(SEC / 2 - NS);
        assert!(cache.get(&1).is_some(), "idle for less than its time");
        time.pass(SEC);
        match to_live {
            None => {
                // Up to a 64th late.
                assert!(cache.peek(&2).is_none() || cache.lifetime_left(&2) <= Some(SEC / 64));
                time.pass(SEC / 64 + NS);
            }
            Some(_) => assert!(cache.peek(&1).is_none(), "use does not prolong the time to live"),
        }
        assert!([0, 1, 2, 3].iter().all(|key| cache.get(key).is_none()));
        validate(&mut cache);
    }
}

/// Two uses at any distance: the second must count as much as the first.
#[test]
fn no_use_is_so_close_to_the_last_that_the_entry_goes_early() {
    let mut chance = Chance(1);
    let spans = [1, 63, 64, 1_000, 1_000_000, 3_600_000_000_000];
    for (time, idle) in
        spans.into_iter().flat_map(|idle| TestClock::both().map(move |time| (time, idle)))
    {
        let idle = Duration::from_nanos(idle);
        let cache: Cache<u64, u64> = time.on(Cache::builder(10)).time_to_idle(idle).build();
        for round in 0..2_000 / SCALE {
            cache.insert(1, 1);
            for _ in 0..chance.below(6) {
                time.pass(Duration::from_nanos(chance.below(idle.as_nanos() as u64 / 40 + 1)));
                assert!(cache.get(&1).is_some());
            }
            time.pass(idle - NS);
            assert!(cache.peek(&1).is_some(), "{idle:?}, {round}");
            time.pass(idle / 64 + NS);
            assert!(cache.peek(&1).is_none(), "{idle:?}, {round}");
        }
    }
}

#[test]
fn entries_have_lifetimes_of_their_own() {
    let time = TestClock::default();
    let of_entry = |_: &u64, value: &u64| (*value > 0).then(|| Duration::from_secs(*value));
    let mut cache: Cache<u64, u64> =
        time.on(Cache::builder(1_000)).time_to_live(NS).expire_after(of_entry).build();
    (0..100).for_each(|key| cache.insert(key, key));
    cache.insert_for(100, 1, 1_000 * SEC);
    assert_eq!(cache.lifetime_left(&0), Some(Duration::MAX));
    assert_eq!(cache.lifetime_left(&7), Some(7 * SEC));
    for second in 1..100 {
        time.pass(SEC - NS);
        assert!(cache.peek(&second).is_some(), "{second} went early");
        time.pass(NS);
        assert!(cache.peek(&second).is_none() && cache.peek(&(second + 1)).is_some());
        assert_eq!((cache.purge(), cache.purge()), (1, 0));
    }
    assert_eq!((cache.get(&0), cache.get(&100), cache.len()), (Some(0), Some(1), 2));
    validate(&mut cache);
}

#[test]
fn any_cache_takes_an_entry_with_a_lifetime() {
    for (policy, time) in policies_and_clocks() {
        let mut cache: Cache<u64, u64> = time.on(Cache::builder(1_000)).policy(policy).build();
        (0..1_500).for_each(|key| cache.insert(key, key));
        let bytes = cache.reserved_bytes();
        assert_eq!((cache.purge(), cache.reserved_bytes()), (0, bytes));
        // This makes room: in a full cache some policies evict the entry just inserted.
        (6..1_500).for_each(|key| _ = cache.invalidate(&key));
        // Earlier and later than each other, and twice.
        for (key, seconds) in [(0, 3), (1, 1), (2, 2), (3, 9), (3, 1), (4, 1), (4, 9)] {
            cache.insert_for(key, key, seconds * SEC);
        }
        assert!(cache.reserved_bytes() > bytes);
        let there = |key| cache.peek(&key).is_some();
        time.pass(SEC);
        assert!(there(0) && !there(1) && there(2) && !there(3) && there(4), "{policy}");
        assert_eq!(cache.purge(), 2);
        time.pass(2 * SEC);
        // Writers remove due entries.
        cache.insert(5, 5);
        assert_eq!(cache.stats().expirations, 4);
        // Without a lifetime now.
        cache.insert(4, 40);
        time.pass(100 * SEC);
        assert_eq!((cache.purge(), cache.get(&4)), (0, Some(40)), "{policy}");
        validate(&mut cache);
    }
}

#[test]
fn durations_may_be_as_short_and_as_long_as_there_are() {
    let time = TestClock::default();
    let mut cache: Cache<u64, u64> =
        time.on(Cache::builder(100)).time_to_idle(Duration::from_secs(1_000 * 31_536_000)).build();
    for (key, lifetime) in
        [(1, Duration::MAX), (2, Duration::from_secs(1 << 33)), (3, Duration::ZERO)]
    {
        cache.insert_for(key, key, lifetime);
    }
    assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (Some(1), Some(2), None));
    assert_eq!(cache.lifetime_left(&1), Some(Duration::MAX));
    for years in [1, 100, 500] {
        time.pass(Duration::from_secs(years * 31_536_000));
        assert_eq!((cache.purge(), cache.get(&1)), (0, Some(1)), "after {years} years");
    }
    validate(&mut cache);
    let never: Cache<u64, u64> =
        time.on(Cache::builder(100)).time_to_live(Duration::ZERO).time_to_idle(SEC).build();
    never.insert(1, 1);
    assert_eq!((never.get(&1), never.stats().insertions), (None, 1));
    let idle: Cache<u64, u64> = time.on(Cache::builder(100)).time_to_idle(Duration::ZERO).build();
    idle.insert(1, 1);
    assert_eq!(idle.get(&1), None);
}

#[test]
fn a_full_cache_lets_the_dead_go_before_the_living() {
    for (policy, time) in policies_and_clocks() {
        let mut cache: Cache<u64, u64> = time.on(Cache::builder(640)).policy(policy).build();
        (0..320).for_each(|key| cache.insert_for(key, key, SEC));
        (320..640).for_each(|key| cache.insert(key, key));
        time.pass(SEC + 2 * MS);
        (1_000..1_300).for_each(|key| cache.insert(key, key));
        let stats = cache.stats();
        assert_eq!((stats.evictions, stats.expirations), (0, 320), "{policy}");
        assert!((320..640).all(|key| cache.contains_key(&key)), "{policy}");
        validate(&mut cache);
    }
}

#[test]
fn weights_are_given_back() {
    for time in TestClock::both() {
        let mut cache: Cache<u64, u64> =
            time.on(Cache::builder(1_000)).weigher(|_, weight| *weight).time_to_live(SEC).build();
        for round in 0..50 {
            (0..30).for_each(|key| cache.insert(key + round % 7, 20 + key));
            time.pass(SEC / 3 * 2);
            assert!(cache.weight() <= 1_000);
            validate(&mut cache);
        }
        time.pass(SEC);
        cache.purge();
        assert_eq!((cache.weight(), cache.len()), (0, 0));
        validate(&mut cache);
    }
}

/// The system's own clock, near and far: the calendar's second is useless in the last seconds of a
/// life.
#[test]
fn the_system_clock_is_believed() {
    if cfg!(miri) {
        return;
    }
    let cache: Cache<u64, u64> = Cache::builder(100).build();
    let lifetimes = [5, 500, 1_600, 2_700].map(Duration::from_millis);
    let mut inserted = Vec::new();
    for (key, lifetime) in (0..).zip(lifetimes) {
        let before = Instant::now();
        cache.insert_for(key, key, lifetime);
        inserted.push((key, before + lifetime, Instant::now() + lifetime));
    }
    // All are removed some 3 s later.
    while inserted.iter().any(|(key, ..)| cache.peek(key).is_some()) {
        for &(key, earliest, latest) in &inserted {
            let before = Instant::now();
            let found = cache.peek(&key).is_some() && cache.get(&key).is_some();
            let after = Instant::now();
            assert!(found || after >= earliest, "{key} went early, by {:?}", earliest - after);
            // After a tick, whose length depends on the system.
            assert!(!found || before <= latest + HANG_LIMIT, "{key} stays too long");
        }
        std::thread::sleep(MS);
    }
    assert!(inserted.iter().all(|(key, ..)| cache.get(key).is_none()));
}

/// Readers, writers that reload missing entries, and a running clock.
#[test]
fn values_are_neither_lost_nor_seen_too_late_among_threads() {
    if !is_alone("expiry::values_are_neither_lost_nor_seen_too_late_among_threads") {
        return;
    }
    for policy in policies() {
        for capacity in [2, 16, 700] {
            for idle in [false, true] {
                // The system's where the most entries expire.
                let hands = TestClock::both().take(if capacity == 16 { 2 } else { 1 });
                hands.for_each(|time| among_threads(policy, capacity, idle, &time));
            }
        }
    }
}

const THREADS: u64 = 4;

fn among_threads(policy: Policy, capacity: u64, idle: bool, time: &TestClock) {
    let census = Census::default();
    let builder = time.on(Cache::builder(capacity)).policy(policy);
    let builder = if idle { builder.time_to_idle(20 * MS) } else { builder };
    // Each with its latest deadline by the test's clock, once that is known.
    let mut cache: Cache<u64, (Tracked<'_>, Arc<AtomicU64>)> = builder.build();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                time.pass(Duration::from_micros(50));
                std::thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, census) = (&cache, &census);
                scope.spawn(move || {
                    time.enter();
                    let mut chance = Chance(thread << 32 | capacity);
                    for _ in 0..4_000 / SCALE {
                        let key = chance.below(capacity * 2);
                        let before = time.0.load(Relaxed);
                        match chance.below(20) {
                            0 => _ = cache.purge(),
                            1 => _ = cache.invalidate(&key),
                            2 => {
                                cache.iter().take(9).for_each(|(key, (value, _))| value.check(key))
                            }
                            _ => match cache.get(&key) {
                                Some((value, end)) => {
                                    value.check(key);
                                    let end = end.load(Relaxed);
                                    assert!(end > before, "seen at {before}, ended at {end}");
                                }
                                None => {
                                    let lifetime = chance.below(3_000_000);
                                    let value = Tracked::new(census, key);
                                    let end = Arc::new(AtomicU64::new(u64::MAX));
                                    let span = Duration::from_nanos(lifetime);
                                    cache.insert_for(key, (value, end.clone()), span);
                                    // The cache has read the clock before this.
                                    let now = time.0.load(Relaxed);
                                    end.store(now + lifetime, Relaxed);
                                }
                            },
                        }
                    }
                })
            })
            .collect();
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Relaxed);
        joined.into_iter().for_each(|worker| worker.expect("a worker"));
    });
    validate(&mut cache);
    time.pass(SEC);
    cache.purge();
    assert_eq!((cache.len(), cache.iter().count()), (0, 0), "{policy}, {capacity}");
    validate(&mut cache);
    drop(cache);
    assert_eq!(census.living(), 0);
}

/// An entry that one thread keeps must stay present while others expire: a slot that a wheel
/// returned may have another entry by the time it is taken.
#[test]
fn no_entry_goes_in_the_place_of_another() {
    if !is_alone("expiry::no_entry_goes_in_the_place_of_another") {
        return;
    }
    for (policy, time) in policies_and_clocks() {
        let mut cache: Cache<u64, u64> = time.on(Cache::builder(10_000)).policy(policy).build();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 1..3 {
                let (cache, time, over) = (&cache, &time, &over);
                scope.spawn(move || {
                    time.enter();
                    let mut chance = Chance(thread);
                    while !over.load(Relaxed) {
                        for _ in 0..50 {
                            let (key, lifetime) = (1_000 + chance.below(50), chance.below(4));
                            cache.insert_for(key, key, MS * lifetime as u32);
                        }
                        time.pass(MS);
                        cache.purge();
                    }
                });
            }
            for round in 0..15_000 / SCALE {
                let key = round % 7;
                // A slot that a short-lived entry had a moment ago.
                match round & 1 {
                    0 => cache.insert_for(key, round, 1_000_000 * SEC),
                    _ => cache.insert(key, round),
                }
                assert_eq!(cache.get(&key), Some(round), "{policy}");
                if round % 5 == 0 {
                    cache.invalidate(&key);
                }
            }
            over.store(true, Relaxed);
        });
        validate(&mut cache);
    }
}

/// A clock or a lifetime that panics has changed nothing.
#[test]
fn code_of_the_users_may_panic_or_call_the_cache() {
    let time = TestClock::default();
    let mut cache: Cache<u64, u64> = time
        .on(Cache::builder(100))
        .expire_after(|_, value| {
            assert_ne!(*value, 13, "as told");
            Some(SEC)
        })
        .build();
    cache.insert(1, 1);
    let panics = || cache.insert(1, 13);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("as told");
    assert_eq!((cache.get(&1), cache.len()), (Some(1), 1));
    validate(&mut cache);
}

/// A thread's action before it reads the clock (true) or after.
type Stop = (bool, Box<dyn FnOnce()>);

thread_local! {
    /// Readings of the clock by this thread until one stops, and the stop.
    static READINGS: Cell<u32> = const { Cell::new(0) };
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// A clock that shows `now`, in seconds, and stops a thread at one of its readings.
fn stopping_clock(now: Arc<AtomicU64>) -> Clock {
    Arc::new(move || {
        READINGS.set(READINGS.get().wrapping_sub(1));
        let stop = if READINGS.get() == 0 { STOP.take() } else { None };
        let early = now.load(SeqCst);
        match stop {
            None => Duration::from_secs(early),
            Some((reads_first, stop)) => {
                stop();
                Duration::from_secs(if reads_first { early } else { now.load(SeqCst) })
            }
        }
    })
}

/// Runs `act` with `clock`, if there is one, as the system's time.
fn at_the_time_of<T>(clock: Option<&Clock>, act: impl FnOnce() -> T) -> T {
    #[cfg(all(target_os = "linux", not(miri)))]
    crate::system_time::show(clock.cloned());
    let done = act();
    #[cfg(all(target_os = "linux", not(miri)))]
    crate::system_time::show(None);
    done
}

/// Whether an entry is present.
type Look = fn(&Cache<u64, u64>) -> bool;

/// A slow use does not revive an entry that another thread has found expired.
#[test]
fn what_was_seen_as_over_does_not_come_back() {
    let looks: [(&str, Look); 8] = [
        ("nobody", |_| false),
        ("peek", |cache| cache.peek(&1).is_some()),
        ("contains_key", |cache| cache.contains_key(&1)),
        ("iter", |cache| cache.iter().next().is_some()),
        ("lifetime_left", |cache| cache.lifetime_left(&1).is_some()),
        ("pin", |cache| cache.pin().peek(&1).is_some()),
        ("get", |cache| cache.get(&1).is_some()),
        ("purge", |cache| cache.purge() == 0),
    ];
    let slow: [(&str, Look); 3] = [
        ("get", |cache| cache.get(&1).is_some()),
        ("pin", |cache| cache.pin().get(&1).is_some()),
        ("get_many", |cache| cache.get_many([&1])[0].is_some()),
    ];
    let moves_systems = cfg!(all(target_os = "linux", not(miri)));
    for is_systems in [false, true].into_iter().filter(|systems| !systems || moves_systems) {
        for (look, is_there) in looks {
            for (use_, uses) in slow {
                let uses = use_stopped_at_each_reading(is_systems, is_there, uses);
                uses.unwrap_or_else(|at| panic!("{use_} {at}, {look}, system's: {is_systems}"));
            }
        }
    }
}

/// Stops a use at its first reading of a clock, the next time at its second, and so on, and lets
/// the entry expire meanwhile, as this thread sees.
fn use_stopped_at_each_reading(is_systems: bool, is_there: Look, uses: Look) -> Result<(), String> {
    for (reading, reads_first) in (1..20).flat_map(|at| [(at, false), (at, true)]) {
        let now = Arc::new(AtomicU64::new(0));
        let clock = stopping_clock(Arc::clone(&now));
        let systems = is_systems.then_some(&clock);
        let builder = Cache::builder(100).time_to_idle(Duration::from_secs(10));
        let users = Arc::clone(&clock);
        let builder = if is_systems { builder } else { builder.clock(move || users()) };
        let mut cache: Cache<u64, u64> = at_the_time_of(systems, || builder.build());
        at_the_time_of(systems, || cache.insert(1, 10));
        now.store(5, SeqCst);
        let (caught, arrived) = channel();
        let (release, released) = channel::<()>();
        let (mut stopped, mut seen) = (false, false);
        std::thread::scope(|scope| {
            let user = scope.spawn(|| {
                let stop = move || {
                    caught.send(()).expect("the test waits");
                    _ = released.recv();
                };
                READINGS.set(reading);
                STOP.set(Some((reads_first, Box::new(stop))));
                at_the_time_of(systems, || uses(&cache));
                drop(STOP.take());
            });
            stopped = arrived.recv_timeout(HANG_LIMIT).is_ok();
            if stopped {
                now.store(50, SeqCst);
                seen = at_the_time_of(systems, || is_there(&cache));
            }
            drop(release);
            user.join().expect("no panic");
        });
        if !stopped {
            return Ok(());
        }
        let found = at_the_time_of(systems, || (cache.peek(&1), cache.get(&1)));
        if seen || found != (None, None) {
            return Err(format!("stopped at reading {reading} ({reads_first})"));
        }
        at_the_time_of(systems, || validate(&mut cache));
    }
    Err("reads a clock twenty times".to_owned())
}
