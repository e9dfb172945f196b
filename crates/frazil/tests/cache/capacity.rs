//! The capacity at run time: up and down, alone and among writers, and to the edges.

use crate::cache;
use crate::extent::{HANG_LIMIT, is_long, policies, turns};
use crate::own_process::is_alone;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use crate::identity::Identity;
use crate::tracked::{Census, Chance, Tracked};
use frazil::{Cache, Cause, Policy};
use frazil_policy::{Policy as Algorithm, PolicyVisitor};

/// Miri is a thousand times slower.
const SCALE: u64 = if cfg!(miri) { 100 } else { 1 };

fn validate<K: Hash + Eq, V>(cache: &mut Cache<K, V>) {
    cache.validate().unwrap_or_else(|findings| panic!("{:?}:\n{findings}", cache.policy()));
}

/// Requests whose popularity falls off, and now and then a scan.
fn requests(objects: u64, count: u64) -> Vec<u64> {
    let mut chance = Chance(objects);
    let request = |turn| match turn % 5 {
        0 => objects + turn,
        _ => {
            let most = chance.below(objects) + 1;
            chance.below(most)
        }
    };
    (0..count).map(request).collect()
}

/// The cache beside the policy in its plainest host, request by request.
fn compare<P: frazil_policy::Policy>(policy: Policy, plain: P, room: u64, weighted: bool) {
    let weight = |id: u64| if weighted { 1 + id % 5 } else { 1 };
    let mut plain = cache::Cache::new(plain, room);
    let builder = Cache::builder(room).policy(policy).with_hasher(Identity::default());
    let mut cache = if weighted {
        builder.entries(room).weigher(|&id, _| 1 + id % 5).build()
    } else {
        builder.build()
    };
    let capacities = [room, room / 2, room / 3, room, 7, room / 5, room - 1, 1, room, 0, room];
    let requests = requests(room * 2, room * 10 * capacities.len() as u64);
    for (capacity, requests) in capacities.iter().zip(requests.chunks(room as usize * 10)) {
        let what = format!("{policy} at {capacity} of {room}, weighted {weighted}");
        plain.set_capacity(*capacity);
        assert_eq!(cache.set_capacity(*capacity), *capacity, "{what}");
        assert_eq!((cache.weight(), cache.capacity()), (plain.used(), *capacity), "{what}");
        for (at, &id) in requests.iter().enumerate() {
            let hit = cache.get(&id).is_some();
            if !hit {
                cache.insert(id, id);
            }
            assert_eq!(hit, plain.request(id, weight(id)), "{what}, request {at}");
        }
        assert_eq!(cache.weight(), plain.used(), "{what}");
        cache.validate().unwrap_or_else(|findings| panic!("{what}:\n{findings}"));
    }
}

struct Compare {
    policy: Policy,
    room: u64,
    weighted: bool,
}

impl PolicyVisitor for Compare {
    type Output = ();
    fn visit<P: Algorithm + Clone + Send + 'static>(self, plain: P) {
        compare(self.policy, plain, self.room, self.weighted);
    }
}

#[test]
fn one_thread_misses_exactly_as_the_plain_policy_does() {
    let rooms: &[u64] = match (cfg!(miri), is_long()) {
        (true, _) => &[10, 12],
        (false, false) => &[50],
        (false, true) => &[50, 2_100],
    };
    for &room in rooms {
        for weighted in [false, true] {
            for policy in Policy::ALL {
                // The ghost's table cannot grow in a concurrent cache.
                if policy != Policy::S3Fifo || !weighted {
                    policy.visit(room, Compare { policy, room, weighted });
                }
            }
        }
    }
}

#[test]
fn without_a_weigher_it_goes_as_far_as_was_laid_out() {
    for policy in policies() {
        let mut cache: Cache<u64, u64> = Cache::builder(10).entries(1_000).policy(policy).build();
        let fill = |cache: &Cache<u64, u64>| (0..3_000).for_each(|key| cache.insert(key, key));
        fill(&cache);
        assert_eq!((cache.len(), cache.capacity()), (10, 10), "{policy}");
        for (wanted, found) in
            [(500, 500), (u64::MAX, 1_000), (1_001, 1_000), (1, 1), (0, 0), (0, 0), (3, 3)]
        {
            assert_eq!(cache.set_capacity(wanted), found, "{policy}");
            assert!(cache.len() as u64 <= found, "{policy}");
            let refusals = cache.stats().refusals;
            fill(&cache);
            assert_eq!((cache.len() as u64, cache.capacity()), (found, found), "{policy}");
            let refused = if found == 0 { 3_000 } else { 0 };
            assert_eq!(cache.stats().refusals - refusals, refused, "{policy}");
            validate(&mut cache);
        }
    }
}

#[test]
fn with_a_weigher_the_weight_goes_anywhere() {
    for policy in policies() {
        let mut cache: Cache<u64, u64> =
            Cache::builder(1_000).entries(100).policy(policy).weigher(|_, weight| *weight).build();
        for capacity in [u64::MAX, 1 << 40, 0, 1, u64::MAX - 1, 100, 1_000, 0, 1_000] {
            assert_eq!(cache.set_capacity(capacity), capacity, "{policy}");
            assert!(cache.weight() <= capacity, "{policy}");
            let weights = [0, 1, capacity / 10, capacity / 3, 7, capacity, u64::MAX];
            for (key, weight) in (0..300).zip(weights.into_iter().cycle()) {
                cache.insert(key, weight);
                let sum: u128 = cache.iter().map(|(_, weight)| u128::from(weight)).sum();
                assert_eq!(u128::from(cache.weight()), sum, "{policy} {capacity}");
                assert!(sum <= u128::from(capacity) && cache.len() <= 100, "{policy} {capacity}");
            }
            // Nothing fits into capacity 0, however light.
            assert_eq!(cache.is_empty(), capacity == 0, "{policy} {capacity}");
            validate(&mut cache);
        }
    }
}

#[test]
fn a_cache_without_capacity_may_be_given_some() {
    let cache: Cache<u64, u64> = Cache::builder(0).entries(5).build();
    cache.insert(1, 1);
    assert!(cache.is_empty());
    assert_eq!(cache.set_capacity(9), 5);
    (0..9).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.len(), 5);
    let cache: Cache<u64, u64> = Cache::builder(0).entries(5).weigher(|_, _| 0).build();
    cache.insert(1, 1);
    assert!(cache.is_empty());
    assert_eq!(cache.set_capacity(1), 1);
    (0..9).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.len(), 5);
}

/// One thread changes the capacity of a cache that three write to. The bound in force holds at
/// every moment, and the new one from the return on.
#[test]
fn the_bound_holds_among_writers() {
    if !is_alone("capacity::the_bound_holds_among_writers") {
        return;
    }
    const ROOM: u64 = 3_000;
    for policy in policies() {
        for light in [true, false] {
            among_writers(policy, light, ROOM);
        }
    }
}

/// Raises a flag when the test ends, even if it fails: others wait for it.
struct Raise<'f>(&'f AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn among_writers(policy: Policy, light: bool, room: u64) {
    let census = Census::default();
    let told = Arc::new(AtomicU64::new(0));
    let heard = Arc::clone(&told);
    let mut cache: Cache<u64, Tracked<'_>> = Cache::builder(room)
        .policy(policy)
        .entries(room)
        .weigher(move |key, _| if light { 1 } else { key % 9 })
        .listener(move |key, value: &Tracked<'_>, cause| {
            value.check(*key);
            heard.fetch_add((cause != Cause::Refused).into(), SeqCst);
        })
        .build();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (cache, census, over) = (&cache, &census, &over);
        let _ended = Raise(over);
        for thread in 0..3 {
            scope.spawn(move || {
                let mut chance = Chance(thread);
                while !over.load(SeqCst) {
                    let key = chance.below(room * 2);
                    match chance.below(20) {
                        0 => _ = cache.remove(&key),
                        1 if chance.below(1_000) == 0 => cache.clear(),
                        _ if cache.get(&key).is_some() => {}
                        _ => cache.insert(key, Tracked::new(census, key)),
                    }
                }
            });
        }
        let mut chance = Chance(99);
        let mut bound = room;
        let mut looks = 0;
        let mut look = |most: u64| {
            // The removal of an entry that is not counted yet may be counted first.
            if let Some(weight) = cache.weight_at_once().map(u64::cast_signed) {
                assert!(weight <= most.cast_signed(), "{policy}: {weight} of {most}");
                looks += 1;
            }
        };
        for _ in 0..turns(400) / SCALE {
            let wanted = [0, 1, 2, room / 100, room / 3, room][chance.below(6) as usize];
            let done = AtomicBool::new(false);
            // The old bound, or the new one if that is higher, until the call returns.
            std::thread::scope(|scope| {
                let resize = scope.spawn(|| {
                    let _done = Raise(&done);
                    cache.set_capacity(wanted)
                });
                while !done.load(SeqCst) {
                    look(bound.max(wanted));
                }
                bound = resize.join().expect("no panic");
            });
            assert!(bound >= wanted && bound == cache.capacity(), "{policy}");
            (0..200).for_each(|_| look(bound));
            assert!(cache.weight() <= bound);
        }
        assert!(cfg!(miri) || looks > 100, "{policy}: {looks}");
    });
    // No thread has entries in its buffers any more.
    for wanted in [room / 7, room, 5] {
        assert_eq!(cache.set_capacity(wanted), wanted, "{policy}");
        assert!(cache.weight() <= wanted, "{policy}");
    }
    validate(&mut cache);
    let stats = cache.stats();
    let admitted = stats.insertions + stats.replacements;
    assert_eq!(admitted, cache.len() as u64 + told.load(SeqCst), "{policy}");
    drop(cache);
    assert_eq!(census.living(), 0, "{policy}");
}

/// Calls at the same time: the last one decides, and nothing is lost.
#[test]
fn those_who_differ_about_the_capacity_lose_nothing() {
    if !is_alone("capacity::those_who_differ_about_the_capacity_lose_nothing") {
        return;
    }
    for policy in policies() {
        let builder = Cache::builder(2_000).entries(2_000);
        let mut cache: Cache<u64, String> = builder.policy(policy).build();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut chance = Chance(thread);
                    for _ in 0..200 / SCALE {
                        let wanted = chance.below(2_500);
                        assert!(cache.set_capacity(wanted) <= 2_000);
                        for _ in 0..100 {
                            let key = chance.below(3_000);
                            cache.insert(key, key.to_string());
                        }
                    }
                });
            }
        });
        assert!(cache.len() as u64 <= cache.capacity(), "{policy}");
        validate(&mut cache);
        assert_eq!(cache.set_capacity(2_000), 2_000, "{policy}");
        let refusals = cache.stats().refusals;
        (0..5_000).for_each(|key| cache.insert(key, String::new()));
        assert_eq!(cache.stats().refusals, refusals, "{policy}");
        // The others may have kept credit for an entry or two each.
        assert!((1_990..=2_000).contains(&cache.len()), "{policy}: {}", cache.len());
    }
}

/// Lowering the capacity also limits the threads' buffers: a cache built for many entries serves
/// several threads at a small capacity as one built for few does.
#[test]
fn a_large_cache_made_small_admits_what_a_small_one_does() {
    // A thread suspended with much in its buffers makes either cache refuse for a time slice. That
    // happens in some runs, not in all.
    const RUNS: usize = 6;
    for policy in policies() {
        for capacity in [8, 300] {
            let refusals = |built| {
                let mut cache: Cache<u64, u64> = Cache::builder(built).policy(policy).build();
                (0..20_000).for_each(|key| cache.insert(key, key));
                assert_eq!(cache.set_capacity(capacity), capacity);
                std::thread::scope(|scope| {
                    for thread in 0..4 {
                        let cache = &cache;
                        scope.spawn(move || {
                            for turn in 0..turns(200_000) / SCALE / SCALE {
                                cache.insert(turn * 7 + thread, turn);
                            }
                        });
                    }
                });
                assert!(cache.len() as u64 <= capacity);
                validate(&mut cache);
                cache.stats().refusals
            };
            let small = refusals(capacity);
            let mut large = (0..RUNS).map(|_| refusals(20_000));
            let fewest = large.find(|&large| large <= small + 80);
            assert!(fewest.is_some(), "{policy} at {capacity}: {small} if built small");
        }
    }
}

#[test]
fn a_listener_may_change_the_capacity_too() {
    for policy in policies() {
        let home: Arc<OnceLock<Weak<Cache<u64, u64>>>> = Arc::default();
        let (asked, told) = (Arc::clone(&home), Arc::new(AtomicU64::new(0)));
        let heard = Arc::clone(&told);
        let listener = move |_: &u64, _: &u64, cause| {
            assert!(matches!(cause, Cause::Size | Cause::Refused));
            if heard.fetch_add(1, SeqCst) == 40 {
                let home = asked.get().expect("it was set").upgrade().expect("in use");
                assert_eq!(home.set_capacity(700), 700);
            }
        };
        let builder = Cache::builder(1_000).policy(policy).listener(listener);
        let cache = Arc::new(builder.build());
        home.set(Arc::downgrade(&cache)).expect("it was not set");
        (0..1_000).for_each(|key| cache.insert(key, key));
        // The listener's own call came later.
        assert_eq!(cache.set_capacity(10), 700, "{policy}");
        assert!(cache.len() <= 700 && told.load(SeqCst) < 400, "{policy}");
        let mut cache = Arc::into_inner(cache).expect("nobody else has it");
        validate(&mut cache);
    }
}

thread_local! {
    /// The capacity that the next hash of a small number sets.
    static SHRINKS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A number whose hash may change the capacity.
struct Shrinking(u64, Weak<Cache<Shrinking, u64>>);

impl PartialEq for Shrinking {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Shrinking {}

impl Hash for Shrinking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.0 < 1_000
            && let Some(wanted) = SHRINKS.take()
        {
            let home = self.1.upgrade().expect("in use");
            // Another operation holds the victim being hashed.
            assert!((wanted..=wanted + 1).contains(&home.set_capacity(wanted)));
        }
        self.0.hash(state);
    }
}

/// A new entry that was not too heavy when it came does not empty the cache.
#[test]
fn the_capacity_may_fall_while_room_is_made() {
    // Policies that refuse no entries.
    for policy in [Policy::Fifo, Policy::Mobius, Policy::Sieve, Policy::Lru, Policy::Arc] {
        let cache = Arc::new(
            Cache::builder(100).policy(policy).weigher(|_: &Shrinking, &weight| weight).build(),
        );
        let insert = |number, weight| {
            cache.insert(Shrinking(number, Arc::downgrade(&cache)), weight);
        };
        (0..100).for_each(|number| insert(number, 1));
        SHRINKS.set(Some(40));
        insert(5_000, 50);
        assert_eq!((SHRINKS.take(), cache.stats().refusals), (None, 1), "{policy}");
        assert!((39..=41).contains(&cache.len()), "{policy}: {}", cache.len());
        assert_eq!(cache.set_capacity(40), 40, "{policy}");
        let mut cache = Arc::into_inner(cache).expect("nobody else has it");
        validate(&mut cache);
    }
}

thread_local! {
    static STOPS: Cell<bool> = const { Cell::new(false) };
}

/// Suspends a thread in the hash of a victim, while it holds the victim and its stripe.
struct Trap {
    caught: Sender<()>,
    release: Mutex<Receiver<()>>,
}

struct Key(u64, Arc<Trap>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if STOPS.get() && self.0 < 1_000_000 {
            STOPS.set(false);
            self.1.caught.send(()).expect("the test waits");
            _ = self.1.release.lock().expect("no panic").recv();
        }
        self.0.hash(state);
    }
}

#[test]
fn who_is_suspended_keeps_no_one_waiting() {
    for policy in policies() {
        let (caught, arrived) = channel();
        let (hold, release) = channel();
        let trap = Arc::new(Trap { caught, release: Mutex::new(release) });
        let mut cache: Cache<Key, u64> = Cache::builder(10_000).policy(policy).build();
        let insert = |cache: &Cache<Key, u64>, number| {
            cache.insert(Key(number, Arc::clone(&trap)), number);
        };
        (0..10_000).for_each(|number| insert(&cache, number));
        std::thread::scope(|scope| {
            let cache = &cache;
            scope.spawn(move || {
                STOPS.set(true);
                insert(cache, 1_000_000);
            });
            arrived.recv_timeout(HANG_LIMIT).expect("the thread is caught");
            let started = Instant::now();
            for wanted in [5_000, 100, 0] {
                let found = cache.set_capacity(wanted);
                assert!(cache.len() as u64 <= found, "{policy}");
                // Two segments of either queue, and a victim.
                assert!((wanted..=wanted + 65).contains(&found), "{policy}: {found}");
            }
            let elapsed = started.elapsed();
            assert!(elapsed < HANG_LIMIT, "{policy}: {elapsed:?}");
            drop(hold);
        });
        assert_eq!((cache.set_capacity(0), cache.len()), (0, 0), "{policy}");
        validate(&mut cache);
        assert_eq!(cache.set_capacity(10_000), 10_000, "{policy}");
        (0..20_000).for_each(|number| insert(&cache, number));
        assert_eq!(cache.len(), 10_000, "{policy}");
        validate(&mut cache);
    }
}
