//! User code inside the cache: it may call the cache, panic, or return anything.

use crate::extent::{HANG_LIMIT, policies, turns};
use crate::own_process::is_alone;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::fused::{DROP_BURNS, FUSE, Fused, burn, quietly};
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Compute, Freezing, Policy};

const TURNS: u64 = if cfg!(miri) { 30 } else { 20_000 };
/// Insertions that reclaim a small cache's slots several times over.
const MANY: u64 = if cfg!(miri) { 200 } else { 2_000 };

thread_local! {
    /// Depth of the calls of user code into the cache.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work` unless it is already running on this thread, twice over.
fn nested(work: impl FnOnce()) {
    if DEPTH.get() < 2 {
        DEPTH.set(DEPTH.get() + 1);
        work();
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// First numbers of the entries that each of the methods inserts.
const CLONE: u64 = 1_000;
const EQ: u64 = 2_000;
const HASH: u64 = 3_000;
const DROP: u64 = 4_000;

/// A key and value that use the cache they are in whenever they are called.
struct Nosy {
    number: u64,
    home: Weak<Cache<Nosy, Nosy>>,
    alive: Box<bool>,
}

impl Nosy {
    fn new(number: u64, home: &Weak<Cache<Nosy, Nosy>>) -> Self {
        Nosy { number, home: Weak::clone(home), alive: Box::new(true) }
    }

    fn visit(&self, work: impl FnOnce(&Cache<Nosy, Nosy>, &dyn Fn(u64) -> Nosy)) {
        assert!(*self.alive);
        // It no longer exists after the test's end.
        let Some(home) = self.home.upgrade() else { return };
        nested(|| work(&home, &|number| Nosy::new(number, &self.home)));
    }
}

impl Clone for Nosy {
    fn clone(&self) -> Self {
        self.visit(|home, new| {
            home.insert(new(CLONE + self.number % 8), new(0));
            assert!(home.get(&new(self.number)).is_none_or(|value| *value.alive));
        });
        Nosy::new(self.number, &self.home)
    }
}

impl PartialEq for Nosy {
    fn eq(&self, other: &Self) -> bool {
        self.visit(|home, new| {
            home.get(&new(other.number + 1));
            // Not the one being removed: the removal would never end.
            home.insert(new(EQ + other.number % 8), new(1));
        });
        self.number == other.number
    }
}

impl Eq for Nosy {}

impl Hash for Nosy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.visit(|home, new| {
            home.invalidate(&new(HASH + self.number % 8));
            home.insert(new(HASH + self.number % 9), new(2));
        });
        self.number.hash(state);
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.visit(|home, new| {
            home.insert(new(DROP + self.number % 8), new(3));
            let pin = home.pin();
            assert!(pin.get(&new(self.number)).is_none_or(|value| *value.alive));
        });
        *self.alive = false;
    }
}

#[test]
fn clone_eq_hash_and_drop_may_use_the_cache() {
    for policy in policies() {
        let cache = Arc::new(Cache::builder(8).policy(policy).build());
        let home = Arc::downgrade(&cache);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (cache, home) = (&cache, &home);
                scope.spawn(move || {
                    let mut chance = Chance(thread);
                    for _ in 0..turns(TURNS / 100) {
                        let number = chance.below(16);
                        match chance.below(5) {
                            0 => _ = cache.get(&Nosy::new(number, home)),
                            1 => _ = cache.remove(&Nosy::new(number, home)),
                            2 => _ = cache.iter().count(),
                            3 => {
                                let pin = cache.pin();
                                let value = pin.get(&Nosy::new(number, home));
                                cache.insert(Nosy::new(number, home), Nosy::new(0, home));
                                assert!(value.is_none_or(|value| *value.alive));
                            }
                            _ => cache.insert(Nosy::new(number, home), Nosy::new(0, home)),
                        }
                    }
                });
            }
        });
        // No look-up finds it from here on, so it is at rest.
        let mut cache = Arc::into_inner(cache).expect("the threads have ended");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

/// A value that empties its cache while it is cloned, and checks that it still exists.
struct Last {
    home: Weak<Cache<u64, Last>>,
    dropped: Arc<AtomicU64>,
}

impl Last {
    fn new(home: &Weak<Cache<u64, Last>>) -> Self {
        Last { home: Weak::clone(home), dropped: Arc::default() }
    }
}

impl Clone for Last {
    fn clone(&self) -> Self {
        nested(|| {
            let home = self.home.upgrade().expect("in use");
            // A look-up and a removal, each of which must leave the outer one's entry alone.
            home.contains_key(&1);
            assert!(home.invalidate(&0));
            // Enough to reclaim everything reclaimable, many times.
            (1..MANY).for_each(|key| home.insert(key, Last::new(&self.home)));
            assert_eq!(self.dropped.load(Relaxed), 0, "dropped while it is being cloned");
        });
        Last::new(&self.home)
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}

#[test]
fn what_a_look_up_reads_outlives_what_is_called_within_it() {
    for policy in policies() {
        let home = Arc::new(Cache::builder(10).policy(policy).build());
        let value = Last::new(&Arc::downgrade(&home));
        let dropped = Arc::clone(&value.dropped);
        home.insert(0, value);
        assert!(home.get(&0).is_some(), "{policy}");
        (0..MANY).for_each(|key| home.insert(key, Last::new(&Arc::downgrade(&home))));
        assert_eq!(dropped.load(Relaxed), 1, "{policy}: dropped once nobody reads it");
    }
}

/// User code panics now and then, at every place where the cache calls it.
#[test]
fn panics_lose_nothing_and_drop_nothing_twice() {
    if !is_alone("nested::panics_lose_nothing_and_drop_nothing_twice") {
        return;
    }
    quietly();
    DROP_BURNS.set(true);
    policies().into_iter().for_each(panic_in);
}

#[test]
fn a_weigher_that_panics_leaves_a_load_of_the_key_as_it_was() {
    let weigh = |_: &u64, value: &u64| {
        if *value == 13 {
            resume_unwind(Box::new("no weight"));
        }
        1
    };
    let cache = Cache::builder(100).weigher(weigh).build();
    let loaded = cache.get_or_insert_with(&1, || {
        let insertion = catch_unwind(AssertUnwindSafe(|| cache.insert(1, 13)));
        assert!(insertion.is_err());
        7
    });
    assert_eq!((loaded, cache.peek(&1)), (7, Some(7)));
}

/// After a `clear` that panics no stale entry is found except one that cannot be hashed.
#[test]
fn clear_goes_on_whatever_panics() {
    if !is_alone("nested::clear_goes_on_whatever_panics") {
        return;
    }
    quietly();
    DROP_BURNS.set(true);
    for policy in policies() {
        // Each call in turn is the one that panics, hashes and destructors.
        for fuse in 1..100 {
            let census = Census::default();
            let new = |number| Fused(Tracked::new(&census, number));
            let mut cache = Cache::builder(40).policy(policy).build();
            (0..40).for_each(|number| cache.insert(new(number), new(number)));
            FUSE.set(fuse);
            let outcome = catch_unwind(AssertUnwindSafe(|| cache.clear()));
            let unburnt = FUSE.replace(0);
            assert_eq!(outcome.is_err(), unburnt == 0, "{policy}, {fuse}");
            // The panic may have been in a hash, without which the word is not found.
            assert!(cache.len() <= 1, "{policy}, {fuse}: {}", cache.len());
            cache.validate().unwrap_or_else(|found| panic!("{policy}, {fuse}:\n{found}"));
            drop(cache);
            assert_eq!(census.living(), 0, "{policy}, {fuse}");
        }
    }
}

fn panic_in(policy: Policy) {
    let census = Census::default();
    let new = |number| Fused(Tracked::new(&census, number));
    let mut cache = Cache::builder(40)
        .policy(policy)
        .entries(16)
        .weigher(|_, value: &Fused<'_>| value.0.key % 5)
        .build();
    let mut chance = Chance(1);
    let mut panics = 0;
    for turn in 0..TURNS {
        let number = chance.below(40);
        FUSE.set(chance.below(9));
        let outcome = catch_unwind(AssertUnwindSafe(|| match chance.below(8) {
            0 => drop(cache.get(&new(number))),
            1 => drop(cache.remove(&new(number))),
            2 => _ = cache.invalidate(&new(number)),
            3 if turn % 16 == 0 => drop(cache.iter().collect::<Vec<_>>()),
            4 if turn % 64 == 0 => cache.clear(),
            _ => cache.insert(new(number), new(chance.below(20))),
        }));
        FUSE.set(0);
        panics += u64::from(outcome.is_err());
        if turn % 64 == 0 {
            cache.validate().unwrap_or_else(|found| panic!("{policy}, turn {turn}:\n{found}"));
        }
    }
    assert!(panics > TURNS / 10, "{panics}");
    // These compare a new entry with its victims.
    let may_refuse = matches!(policy, Policy::WTinyLfu | Policy::Gdsf | Policy::LaCache { .. });
    assert!(may_refuse || cache.stats().refusals == 0, "{policy}");
    cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    drop(cache);
    assert_eq!(census.living(), 0, "{policy}");
}

/// A hasher that does not return the same twice.
#[derive(Default)]
struct Fickle(AtomicU64);

struct FickleHasher(u64);

impl BuildHasher for Fickle {
    type Hasher = FickleHasher;
    fn build_hasher(&self) -> FickleHasher {
        FickleHasher(self.0.fetch_add(1, Relaxed) % 3)
    }
}

impl Hasher for FickleHasher {
    fn finish(&self) -> u64 {
        self.0 << 40
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }
    fn write_u64(&mut self, number: u64) {
        self.0 += number;
    }
}

/// A bad hash may hide entries, but must do nothing worse.
#[test]
fn a_hash_that_changes_shows_no_dead_entry() {
    if !is_alone("nested::a_hash_that_changes_shows_no_dead_entry") {
        return;
    }
    for policy in policies() {
        let census = Census::default();
        let cache: Cache<u64, Tracked<'_>, Fickle> =
            Cache::builder(16).policy(policy).with_hasher(Fickle::default()).build();
        for turn in 0..TURNS {
            let key = turn * 7 % 40;
            if let Some(value) = cache.get(&key) {
                value.check(key);
            }
            cache.insert(key, Tracked::new(&census, key));
            if turn % 50 == 0 {
                cache.iter().for_each(|(key, value)| value.check(key));
            }
        }
        assert!(cache.len() <= 16);
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

type Shared = Cache<u64, Box<u64>>;

/// Uses a cache when its thread's variables are destroyed.
struct Late(Arc<Shared>);

impl Drop for Late {
    fn drop(&mut self) {
        for key in 0..20 {
            self.0.insert(key, Box::new(key));
            assert!(self.0.get(&key).is_none_or(|value| *value == key));
        }
    }
}

thread_local! {
    static LATE: Cell<Option<Late>> = const { Cell::new(None) };
}

#[test]
fn threads_may_use_the_cache_while_their_variables_are_destroyed() {
    for policy in policies() {
        let cache: Arc<Shared> = Arc::new(Cache::builder(10).policy(policy).build());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let cache = Arc::clone(&cache);
                std::thread::spawn(move || {
                    // Before and after the cache's own variables, whatever the order.
                    LATE.set(Some(Late(Arc::clone(&cache))));
                    cache.insert(1, Box::new(1));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(cache.len() <= 10);
    }
}

type Call = fn(&Cache<u64, u64>);

/// Operations of a cache, most of which read the clock.
const CALLS: [(&str, Call); 14] = [
    ("insert", |cache| cache.insert(100, 1)),
    ("replace", |cache| cache.insert(1, 2)),
    ("insert_for", |cache| cache.insert_for(101, 1, Duration::from_secs(1))),
    ("insert_many", |cache| cache.insert_many((200..220).map(|key| (key, 1)))),
    ("get", |cache| _ = cache.get(&1)),
    ("hits", |cache| (0..100).for_each(|key| _ = cache.get(&(key % 8)))),
    ("get_or_insert_with", |cache| _ = cache.get_or_insert_with(&102, || 1)),
    ("and_compute", |cache| _ = cache.entry(103).and_compute(|_| Compute::Put(1))),
    ("recompute", |cache| _ = cache.entry(1).and_compute(|_| Compute::Put(1))),
    ("remove", |cache| _ = cache.remove(&1)),
    ("clear", Cache::clear),
    ("set_capacity", |cache| _ = cache.set_capacity(3)),
    ("hottest", |cache| _ = cache.hottest(3)),
    ("freeze", |cache| _ = (cache.freeze(0.5), cache.thaw())),
];

/// Policies that read the time, and two that do not.
fn policies_with_time() -> Vec<Policy> {
    let is_one = |policy: &Policy| {
        matches!(policy, Policy::Mad { .. } | Policy::Lhd { .. } | Policy::Mobius | Policy::Lru)
    };
    let named = ["mad:base=arc", "mad:base=lhd", "guarded-mad"];
    let named = named.into_iter().map(|name| name.parse().expect("a policy"));
    Policy::ALL.into_iter().filter(is_one).chain(named).collect()
}

/// A cache of eight entries with some history, with a clock that runs `work` at each reading.
fn ticking(policy: Policy, work: impl Fn() + Send + Sync + 'static) -> Cache<u64, u64> {
    let ticks = AtomicU64::new(0);
    let freezes = Cache::<u64, u64>::builder(8).policy(policy).freezing(Freezing::ByHand);
    let freezes = freezes.try_build().is_ok();
    let cache = Cache::builder(8)
        .policy(policy)
        .freezing(if freezes { Freezing::ByHand } else { Freezing::Never })
        .time_to_idle(Duration::from_secs(1_000))
        .clock(move || {
            work();
            Duration::from_micros(ticks.fetch_add(10, Relaxed))
        })
        .build();
    (0..8).for_each(|key| _ = cache.get_or_insert_with(&key, || key));
    (0..100).for_each(|key| _ = cache.get(&(key % 8)));
    cache
}

/// A clock may panic whenever it is read: the operation is then done completely or not at all.
#[test]
fn a_clock_that_panics_loses_nothing() {
    if !is_alone("nested::a_clock_that_panics_loses_nothing") {
        return;
    }
    quietly();
    for (name, call) in CALLS {
        for policy in policies_with_time() {
            for fuse in 1..30 {
                let what = format!("{name}, {policy}, reading {fuse}");
                let mut cache = ticking(policy, burn);
                FUSE.set(fuse);
                let outcome = catch_unwind(AssertUnwindSafe(|| call(&cache)));
                let unburnt = FUSE.replace(0);
                assert_eq!(outcome.is_err(), unburnt == 0, "{what}");
                cache.validate().unwrap_or_else(|found| panic!("{what}:\n{found}"));
                // Every present entry can be evicted.
                (1_000..1_100).for_each(|key| cache.insert(key, key));
                assert!(cache.len() <= 8, "{what}");
                cache.validate().unwrap_or_else(|found| panic!("{what}, later:\n{found}"));
                if unburnt > 0 {
                    break;
                }
            }
        }
    }
}

/// A clock may use its own cache whenever it is read.
#[test]
fn a_clock_may_use_the_cache() {
    if !is_alone("nested::a_clock_may_use_the_cache") {
        return;
    }
    let (begins, begun) = channel();
    // In its own thread, to distinguish a call that waits for itself from a slow one.
    let calls = std::thread::spawn(move || {
        for (name, call) in CALLS {
            for policy in policies_with_time() {
                begins.send((name, policy)).expect("the test waits");
                let home: Arc<OnceLock<Weak<Cache<u64, u64>>>> = Arc::default();
                let asked = Arc::clone(&home);
                let cache = Arc::new(ticking(policy, move || {
                    let Some(home) = asked.get().and_then(Weak::upgrade) else { return };
                    nested(|| {
                        home.insert(500, 1);
                        home.get(&1);
                        home.remove(&500);
                        home.insert(501, 1);
                        home.hottest(2);
                    });
                }));
                home.set(Arc::downgrade(&cache)).expect("set once");
                call(&cache);
                (1_000..1_012).for_each(|key| cache.insert(key, key));
                let mut cache = Arc::into_inner(cache).expect("nobody else has it");
                cache.validate().unwrap_or_else(|found| panic!("{name}, {policy}:\n{found}"));
            }
        }
    });
    let mut last = None;
    loop {
        match begun.recv_timeout(HANG_LIMIT) {
            Ok(call) => last = Some(call),
            Err(RecvTimeoutError::Timeout) => panic!("a call waits for itself: {last:?}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    calls.join().unwrap_or_else(|panic| resume_unwind(panic));
}
