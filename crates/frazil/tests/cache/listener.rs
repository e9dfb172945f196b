//! Calls of the listener: each residency once, with its cause, by the thread that ended it, outside
//! all locks.

use crate::extent::{HANG_LIMIT, policies, turns};
use crate::own_process::is_alone;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use crate::tasks::block_on;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Cause, Compute, Policy};

const THREADS: u64 = 4;
/// Miri is a thousand times slower.
fn operations() -> u64 {
    if cfg!(miri) { 20 } else { turns(8_000) }
}
const CAPACITIES: &[u64] = if cfg!(miri) { &[1, 5] } else { &[0, 1, 2, 7, 64, 700, 9_000] };

type Told = Vec<(u64, Cause)>;

/// The calls of a listener, by the numbers of the values.
#[derive(Default)]
struct Ledger(Mutex<HashMap<u64, Cause>>);

impl Ledger {
    fn enter(&self, key: u64, value: &Tracked<'_>, cause: Cause) {
        value.check(key);
        let before = self.0.lock().expect("no panic").insert(value.serial, cause);
        assert_eq!(before, None, "{} was told twice, now of {cause:?}", value.serial);
    }

    fn count(&self, cause: Cause) -> u64 {
        self.0.lock().expect("no panic").values().filter(|&&told| told == cause).count() as u64
    }

    /// Ended residencies that it was called for.
    fn ended(&self) -> u64 {
        let told = self.0.lock().expect("no panic");
        told.values().filter(|&&cause| cause != Cause::Refused).count() as u64
    }
}

/// Everything that ends residencies, and what may come in between.
fn work<'c>(cache: &Cache<u64, Tracked<'c>>, census: &'c Census, keys: u64, mut chance: Chance) {
    for _ in 0..operations() {
        let key = chance.below(keys);
        match chance.below(100) {
            0..40 => _ = cache.get(&key),
            40..80 => cache.insert(key, Tracked::new(census, key)),
            80..90 => _ = cache.remove(&key),
            90..95 => _ = cache.invalidate(&key),
            95..98 => {
                let pin = cache.pin();
                let value = pin.get(&key);
                cache.insert(key, Tracked::new(census, key));
                value.into_iter().for_each(|value| value.check(key));
            }
            _ if chance.below(40) == 0 => cache.clear(),
            _ => _ = cache.contains_key(&key),
        }
    }
}

fn stress(policy: Policy, capacity: u64, weighted: bool) {
    let what = format!("{policy}, capacity {capacity}, weighted {weighted}");
    let census = Census::default();
    let ledger = Arc::new(Ledger::default());
    let heard = Arc::clone(&ledger);
    let builder = Cache::builder(capacity).policy(policy);
    let builder =
        builder.listener(move |key, value: &Tracked<'_>, cause| heard.enter(*key, value, cause));
    let mut cache: Cache<u64, Tracked<'_>> = if weighted {
        builder.weigher(|key, value| key % 5 + value.serial % 3).build()
    } else {
        builder.build()
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, census) = (&cache, &census);
            scope.spawn(move || work(cache, census, capacity * 2 + 2, Chance(thread << 32)));
        }
    });
    let stats = cache.stats();
    let told = |cause| ledger.count(cause);
    // Losing rivals and entries removed by refusals count as removed.
    assert_eq!(told(Cause::Size), stats.evictions, "{what}");
    assert_eq!(told(Cause::Refused), stats.refusals, "{what}");
    assert_eq!(
        told(Cause::Replaced) + told(Cause::Removed),
        stats.replacements + stats.removals,
        "{what}"
    );
    assert!(told(Cause::Replaced) >= stats.replacements, "{what}");
    let ended = ledger.ended();
    assert_eq!(stats.insertions + stats.replacements, cache.len() as u64 + ended, "{what}");
    for (_, value) in cache.iter() {
        let told = ledger.0.lock().expect("no panic").get(&value.serial).copied();
        assert_eq!(told, None, "{what}: it is still there");
    }
    cache.validate().unwrap_or_else(|findings| panic!("{what}:\n{findings}"));
    cache.clear();
    let ended = ledger.ended();
    assert_eq!(stats.insertions + stats.replacements, ended, "{what}: after all was cleared");
    drop(cache);
    assert_eq!(census.living(), 0, "{what}");
}

#[test]
fn each_residency_is_told_once() {
    if !is_alone("listener::each_residency_is_told_once") {
        return;
    }
    for policy in policies() {
        for &capacity in CAPACITIES {
            for weighted in [false, true] {
                stress(policy, capacity, weighted);
            }
        }
    }
}

/// A cache of values that are their weights, and the calls of its listener.
fn small(policy: Policy, capacity: u64) -> (Cache<u64, u64>, Arc<Mutex<Told>>) {
    let told = Arc::new(Mutex::new(Told::new()));
    let heard = Arc::clone(&told);
    let cache = Cache::builder(capacity)
        .policy(policy)
        .weigher(|_, weight| *weight)
        .listener(move |key, _, cause| heard.lock().expect("no panic").push((*key, cause)))
        .build();
    (cache, told)
}

/// Policies that evict the oldest if nothing is used.
const OLDEST_FIRST: [Policy; 8] = [
    Policy::S3Fifo,
    Policy::Fifo,
    Policy::Clock { bits: 1 },
    Policy::Clock { bits: 2 },
    Policy::Mobius,
    Policy::Sieve,
    Policy::Lru,
    Policy::LruRelaxed,
];

#[test]
fn every_operation_tells_its_cause() {
    for policy in OLDEST_FIRST {
        let (cache, told) = small(policy, 30);
        let taken = || std::mem::take(&mut *told.lock().expect("no panic"));
        (0..3).for_each(|key| cache.insert(key, 3));
        assert_eq!(taken(), [], "{policy}");
        cache.insert(0, 2);
        assert_eq!(taken(), [(0, Cause::Replaced)], "{policy}");
        assert_eq!(cache.remove(&0), Some(2));
        assert!(cache.invalidate(&1) && !cache.invalidate(&1));
        assert_eq!(taken(), [(0, Cause::Removed), (1, Cause::Removed)], "{policy}");
        // Stale, whether or not its replacement is admitted.
        cache.insert(2, 31);
        assert_eq!(taken(), [(2, Cause::Replaced), (2, Cause::Refused)], "{policy}");
        assert_eq!(cache.get(&2), None, "{policy}");
        // Not admitted, and the key was absent.
        cache.insert(3, 31);
        assert_eq!(taken(), [(3, Cause::Refused)], "{policy}");
        (10..20).for_each(|key| cache.insert(key, 3));
        cache.insert(20, 3);
        // S3-FIFO has two queues, and evicts from each in turn.
        let [oldest, next] = if policy == Policy::S3Fifo { [11, 10] } else { [10, 11] };
        assert_eq!(taken(), [(oldest, Cause::Size)], "{policy}");
        // An entry that grows first evicts others.
        cache.insert(15, 6);
        assert_eq!(taken(), [(next, Cause::Size), (15, Cause::Replaced)], "{policy}");
        let left = cache.len();
        cache.clear();
        let causes = taken();
        assert_eq!(causes.len(), left);
        assert!(causes.iter().all(|&(_, cause)| cause == Cause::Removed), "{policy} {causes:?}");
        // Entries present when the cache is dropped are not reported.
        cache.insert(1, 1);
        drop(cache);
        assert_eq!(taken(), [], "{policy}");
    }
}

/// One insertion may evict many entries, and all are reported.
#[test]
fn an_insertion_tells_all_that_it_evicts() {
    for policy in OLDEST_FIRST.into_iter().skip(1) {
        let (cache, told) = small(policy, 1_000);
        (0..1_000).for_each(|key| cache.insert(key, 1));
        cache.insert(5_000, 1_000);
        let mut keys: Vec<u64> = told.lock().expect("no panic").iter().map(|told| told.0).collect();
        keys.sort_unstable();
        assert_eq!(keys, (0..1_000).collect::<Vec<_>>(), "{policy}");
        assert_eq!(cache.get(&5_000), Some(1_000), "{policy}");
    }
}

type Home = Arc<OnceLock<Weak<Cache<u64, u64>>>>;

/// A cache whose listener has a reference to the cache.
fn nosy(
    policy: Policy,
    capacity: u64,
    listen: impl Fn(&Cache<u64, u64>, u64, Cause) + Send + Sync + 'static,
) -> Arc<Cache<u64, u64>> {
    let home = Home::default();
    let asked = Arc::clone(&home);
    let listener = move |key: &u64, _: &u64, cause| {
        let home = asked.get().expect("it was set").upgrade().expect("in use");
        listen(&home, *key, cause);
    };
    let cache = Arc::new(Cache::builder(capacity).policy(policy).listener(listener).build());
    assert!(home.set(Arc::downgrade(&cache)).is_ok());
    cache
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static HEARD: RefCell<Told> = const { RefCell::new(Vec::new()) };
}

/// The listener finds the stripe free and its entry absent; its own removals are reported after it.
#[test]
fn a_listener_may_use_the_cache() {
    for policy in policies() {
        let cache = nosy(policy, 10, |home, key, cause| {
            assert_eq!(DEPTH.replace(1), 0, "called within a call of itself");
            HEARD.with_borrow_mut(|heard| heard.push((key, cause)));
            if key < 100 {
                assert_eq!(home.peek(&key), None);
                // Instead of it, one that may evict another or be replaced itself.
                home.insert(1_000 + key % 4, key);
                assert_eq!(home.get(&(1_000 + key % 4)), Some(key));
            }
            DEPTH.set(0);
        });
        (0..100).for_each(|key| cache.insert(key, key));
        let stats = cache.stats();
        assert_eq!(stats.retries, 0, "{policy}: a stripe was held");
        assert_eq!((stats.refusals, cache.len()), (0, 10), "{policy}");
        let heard = HEARD.take();
        let ended = stats.evictions + stats.replacements + stats.removals;
        assert_eq!(heard.len() as u64, ended, "{policy}");
        assert!(heard.iter().any(|told| told.1 == Cause::Replaced), "{policy}");
    }
}

/// It ends, because removed entries are held up until all are reported.
#[test]
fn a_listener_that_always_evicts_comes_to_an_end() {
    if !is_alone("listener::a_listener_that_always_evicts_comes_to_an_end") {
        return;
    }
    for policy in policies() {
        let next = AtomicU64::new(1_000);
        let cache = nosy(policy, 10, move |home, _, _| {
            let key = next.fetch_add(1, Relaxed);
            home.insert(key, key);
        });
        (0..100).for_each(|key| cache.insert(key, key));
        assert!(cache.stats().refusals > 0, "{policy}");
        assert!(cache.len() <= 10, "{policy}");
        let mut cache = Arc::into_inner(cache).expect("nobody else has it");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

const PLANNED: &str = "a listener that panics, as planned";

/// Prints nothing for planned panics.
fn quietly() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&PLANNED) {
            told(panic);
        }
    }));
}

/// A call, the number of entries after it, and the number reported.
type Call = (&'static str, fn(&Cache<u64, u64>), u64, u64);

/// An operation of many steps completes all of them; then its first panic continues.
#[test]
fn no_operation_stops_half_way_when_the_listener_panics() {
    const COUNT: u64 = 1_000;
    quietly();
    // On 1,000 entries, the even ones expired, in a full cache.
    let calls: [Call; 7] = [
        ("clear", Cache::clear, 0, COUNT),
        ("retain", |cache| cache.retain(|key, _| key % 3 == 0), 167, 833),
        ("purge", |cache| _ = cache.purge(), 500, 500),
        ("set_capacity", |cache| _ = cache.set_capacity(10), 10, 990),
        ("insert_many", |cache| cache.insert_many((0..COUNT).map(|key| (key, 1))), 1_000, 1_000),
        ("insert", |cache| cache.insert(COUNT, 1), 937, 64),
        ("insert_for", |cache| cache.insert_for(COUNT, 1, Duration::MAX), 937, 64),
    ];
    for (name, call, left, gone) in calls {
        for policy in policies() {
            // Policies that refuse nothing, so that all count the same.
            if matches!(policy, Policy::WTinyLfu | Policy::Gdsf) {
                continue;
            }
            let (time, told) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let (clock, heard) = (Arc::clone(&time), Arc::clone(&told));
            let mut cache: Cache<u64, u64> = Cache::builder(COUNT)
                .policy(policy)
                .clock(move || Duration::from_nanos(clock.load(Relaxed)))
                .listener(move |_, _, _| {
                    heard.fetch_add(1, Relaxed);
                    std::panic::panic_any(PLANNED);
                })
                .build();
            for key in 0..COUNT {
                let lifetime = if key % 2 == 0 { Duration::from_secs(1) } else { Duration::MAX };
                cache.insert_for(key, key, lifetime);
            }
            time.store(2_000_000_000, Relaxed);
            let outcome = catch_unwind(AssertUnwindSafe(|| call(&cache)));
            let panic = outcome.expect_err("the listener panics");
            assert_eq!(panic.downcast_ref(), Some(&PLANNED), "{name}, {policy}");
            assert_eq!((cache.len() as u64, told.load(Relaxed)), (left, gone), "{name}, {policy}");
            cache.validate().unwrap_or_else(|found| panic!("{name}, {policy}:\n{found}"));
        }
    }
}

#[test]
fn a_panic_is_passed_on_and_loses_nothing() {
    quietly();
    let turn_count = if cfg!(miri) { 5 } else { 2_000 };
    for policy in policies() {
        let census = Census::default();
        let ledger = Arc::new(Ledger::default());
        let heard = Arc::clone(&ledger);
        let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(30)
            .policy(policy)
            .weigher(|key, _| 1 + key % 3)
            .listener(move |key, value: &Tracked<'_>, cause| {
                heard.enter(*key, value, cause);
                if value.serial.is_multiple_of(3) {
                    std::panic::panic_any(PLANNED);
                }
            })
            .build();
        let mut chance = Chance(7);
        let mut panics = 0;
        for _ in 0..turn_count {
            let key = chance.below(40);
            let before = ledger.0.lock().expect("no panic").len();
            let outcome = catch_unwind(AssertUnwindSafe(|| match chance.below(10) {
                0 => drop(cache.remove(&key)),
                1 => _ = cache.invalidate(&key),
                2 if chance.below(8) == 0 => cache.clear(),
                3 => _ = cache.try_insert(key, Tracked::new(&census, key)),
                4 => {
                    let put = |_: Option<&Tracked<'_>>| Compute::Put(Tracked::new(&census, key));
                    _ = cache.entry(key).and_compute(put);
                }
                5 => {
                    let put =
                        |_: Option<Tracked<'_>>| async { Compute::Put(Tracked::new(&census, key)) };
                    _ = block_on(cache.entry(key).and_compute_async(put));
                }
                6 => _ = cache.get_or_insert_with(&key, || Tracked::new(&census, key)),
                7 => {
                    let load = async { Tracked::new(&census, key) };
                    _ = block_on(cache.get_or_insert_async(&key, load));
                }
                _ => cache.insert(key, Tracked::new(&census, key)),
            }));
            assert!(outcome.is_ok() || ledger.0.lock().expect("no panic").len() > before);
            panics += u64::from(outcome.is_err());
            let stats = cache.stats();
            let ended = ledger.ended();
            assert_eq!(
                stats.insertions + stats.replacements,
                cache.len() as u64 + ended,
                "{policy}"
            );
        }
        assert!(cfg!(miri) || panics > turn_count / 10, "{policy}: {panics}");
        // These compare a new entry with its victims.
        let may_refuse = matches!(policy, Policy::WTinyLfu | Policy::Gdsf | Policy::LaCache { .. });
        assert!(may_refuse || cache.stats().refusals == 0, "{policy}");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
        drop(cache);
        assert_eq!(census.living(), 0, "{policy}");
    }
}

/// A value whose comparison or clone panics while the listener does too must not end the
/// process.
#[test]
fn a_panic_within_a_panic_is_kept_quiet() {
    struct Fragile;
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            panic!("a clone that panics, as planned");
        }
    }
    let told = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&told);
    let cache: Cache<u64, Fragile> = Cache::builder(10)
        .listener(move |_, _, _| {
            heard.fetch_add(1, Relaxed);
            panic!("a listener that panics, as planned");
        })
        .build();
    cache.insert(1, Fragile);
    let outcome = catch_unwind(AssertUnwindSafe(|| cache.remove(&1)));
    let panic = outcome.err().expect("the clone panics");
    assert_eq!(panic.downcast_ref(), Some(&"a clone that panics, as planned"));
    assert_eq!((told.load(Relaxed), cache.len()), (1, 0));
}

/// Receives the release of a thread held up in its listener.
type Stuck = Mutex<Receiver<()>>;

/// A listener that does not return holds up the reported entries, but no thread.
#[test]
fn a_listener_that_is_stuck_stops_nobody() {
    const STUCK: u64 = u64::MAX;
    let capacity = if cfg!(miri) { 25 } else { 100 };
    for policy in policies() {
        let (caught, arrived) = channel();
        let (release, held) = channel();
        let held: Stuck = Mutex::new(held);
        let listener = move |key: &u64, _: &u64, _| {
            if *key == STUCK {
                caught.send(()).expect("the test waits");
                _ = held.lock().expect("no panic").recv();
            }
        };
        let builder = Cache::builder(capacity).policy(policy).listener(listener);
        let mut cache: Cache<u64, u64> = builder.build();
        (0..capacity).for_each(|key| cache.insert(key, key));
        std::thread::scope(|scope| {
            let cache = &cache;
            scope.spawn(move || {
                cache.insert(STUCK, 0);
                cache.invalidate(&STUCK);
            });
            arrived.recv_timeout(HANG_LIMIT).expect("the thread is caught");
            // More than there are slots.
            for key in capacity..capacity * if cfg!(miri) { 3 } else { 50 } {
                cache.insert(key, key);
                assert!(cache.len() as u64 <= capacity, "{policy}");
            }
            assert_eq!(cache.stats().refusals, 0, "{policy}");
            drop(release);
        });
        let refusals = cache.stats().refusals;
        for key in 0..3 * capacity {
            cache.insert(key, key);
            assert_eq!(cache.get(&key), Some(key), "{policy}");
        }
        assert_eq!(cache.stats().refusals, refusals, "{policy}");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

/// A thread in the listener waits for one that writes, loads and computes the key whose value
/// it has just put in or taken out, like a thread with a lock that the listener needs.
#[test]
fn a_listener_is_in_no_writers_way() {
    type Operation = fn(&Cache<u64, u64>);
    let operations: [(Operation, u64); 5] = [
        (|cache| cache.insert(1, 1), 0),
        (|cache| _ = cache.get_or_insert_with(&1, || 1), 0),
        (|cache| _ = cache.entry(1).and_compute(|_| Compute::Put(1)), 0),
        (|cache| _ = cache.entry(1).and_compute(|_| Compute::Put(1)), 1),
        (|cache| _ = cache.entry(1).and_compute(|_| Compute::Remove), 1),
    ];
    for (operation, resident) in operations {
        let (told, hears) = channel();
        let (write, written) = channel();
        let told = Mutex::new(Some((told, written)));
        let cache: Cache<u64, u64> = Cache::builder(1)
            .listener(move |_, _, _| {
                let first = told.lock().unwrap().take();
                if let Some((told, written)) = first {
                    told.send(()).unwrap();
                    let written: Receiver<()> = written;
                    written.recv_timeout(HANG_LIMIT).expect("nobody waits");
                }
            })
            .build();
        cache.insert(resident, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| operation(&cache));
            hears.recv().unwrap();
            cache.entry(1).and_compute(|_| Compute::Put(2));
            cache.invalidate(&1);
            assert_eq!(cache.get_or_insert_with(&1, || 3), 3);
            cache.insert(1, 4);
            write.send(()).unwrap();
        });
        assert_eq!(cache.get(&1), Some(4));
    }
}
