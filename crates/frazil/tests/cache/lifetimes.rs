//! Lifetimes that reads and updates decide, and randomly shortened ones.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frazil::{BuildError, Builder, Cache, Cause, Compute, Freezing};
use proptest::prelude::*;

use crate::extent::{HANG_LIMIT, policies};

const SEC: Duration = Duration::from_secs(1);
const NS: Duration = Duration::from_nanos(1);

/// Whether an entry is found.
type Look = fn(&Cache<u64, u64>) -> bool;

/// A clock that a test moves.
#[derive(Clone, Default)]
struct TestClock(Arc<AtomicU64>);

impl TestClock {
    fn on<K, V>(&self, builder: Builder<K, V>) -> Builder<K, V> {
        let time = Arc::clone(&self.0);
        builder.clock(move || Duration::from_nanos(time.load(SeqCst)))
    }

    fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, SeqCst);
    }
}

fn validate<K: std::hash::Hash + Eq, V>(cache: &mut Cache<K, V>) {
    cache.validate().unwrap_or_else(|findings| panic!("{:?}:\n{findings}", cache.policy()));
}

thread_local! {
    /// The answer of a read or an update; `None`: the rest of the lifetime.
    static ANSWER: Cell<Option<Option<Duration>>> = const { Cell::new(None) };
    /// The calls: number for reads, number for updates, and the time left in the last one.
    static ASKED: Cell<(u32, u32, Option<Duration>)> = const { Cell::new((0, 0, None)) };
}

fn answer(left: Option<Duration>) -> Option<Duration> {
    ANSWER.get().unwrap_or(left)
}

/// Reads and updates that return the test's answer, and note their calls.
fn answering(builder: Builder<u64, u64>) -> Builder<u64, u64> {
    builder
        .expire_after_read(|_, _, left| {
            let (reads, updates, _) = ASKED.get();
            ASKED.set((reads + 1, updates, left));
            answer(left)
        })
        .expire_after_update(|_, _, left| {
            let (reads, updates, _) = ASKED.get();
            ASKED.set((reads, updates + 1, left));
            answer(left)
        })
}

fn answers(lifetime: Option<Duration>) {
    ANSWER.set(Some(lifetime));
}

fn keeps() {
    ANSWER.set(None);
}

#[test]
fn a_read_keeps_prolongs_shortens_and_ends_a_life() {
    for policy in policies() {
        let time = TestClock::default();
        let builder = answering(time.on(Cache::builder(100)).policy(policy));
        let mut cache: Cache<u64, u64> = builder.expire_after(|_, _| Some(10 * SEC)).build();
        let ways: [Look; 4] = [
            |cache| cache.get(&1).is_some(),
            |cache| cache.pin().get(&1).is_some(),
            |cache| cache.get_many([&1])[0].is_some(),
            |cache| cache.get_or_insert_with(&1, || unreachable!("it is there")) == 1,
        ];
        for read in ways {
            cache.insert_for(1, 1, 10 * SEC);
            time.pass(4 * SEC);
            keeps();
            ASKED.set((0, 0, None));
            assert!(read(&cache));
            assert_eq!(ASKED.get(), (1, 0, Some(6 * SEC)), "{policy}");
            assert_eq!(cache.lifetime_left(&1), Some(6 * SEC), "kept");
            for (said, left) in [(7 * SEC, 7), (3 * SEC, 3), (SEC, 1), (100 * SEC, 100)] {
                answers(Some(said));
                assert!(read(&cache));
                assert_eq!(cache.lifetime_left(&1), Some(left * SEC), "{policy}");
            }
            answers(None);
            assert!(read(&cache));
            assert_eq!(cache.lifetime_left(&1), Some(Duration::MAX), "for ever");
            time.pass(1_000_000 * SEC);
            answers(Some(SEC));
            assert!(read(&cache));
            assert_eq!(ASKED.get().2, None, "nothing was left to tell of");
            time.pass(SEC - NS);
            assert_eq!(cache.peek(&1), Some(1));
            time.pass(NS);
            assert_eq!((cache.peek(&1), cache.purge()), (None, 1), "{policy}");
            // This read still finds it, and no other does.
            cache.insert(1, 1);
            answers(Some(Duration::ZERO));
            assert!(read(&cache));
            assert_eq!((cache.peek(&1), cache.get(&1), cache.len()), (None, None, 0), "{policy}");
        }
        validate(&mut cache);
    }
}

/// Calls without a trace do not call the function, nor do calls that find nothing.
#[test]
fn what_is_no_read_does_not_ask() {
    let time = TestClock::default();
    let mut cache: Cache<u64, u64> = answering(time.on(Cache::builder(100))).build();
    ASKED.set((0, 0, None));
    answers(Some(SEC));
    cache.insert(1, 1);
    cache.insert_for(2, 2, SEC);
    cache.insert_for(2, 3, 5 * SEC);
    assert_eq!((cache.peek(&1), cache.contains_key(&1)), (Some(1), true));
    assert_eq!((cache.iter().count(), cache.keys().count()), (2, 2));
    cache.for_each(|_, _| ());
    assert!(cache.pin().peek(&1).is_some() && cache.get(&3).is_none());
    cache.retain(|_, _| true);
    assert_eq!(cache.lifetime_left(&1), Some(Duration::MAX));
    assert_eq!(cache.get_or_insert_with(&4, || 4), 4);
    cache.entry(1).and_compute(|_| Compute::Keep);
    assert_eq!(cache.remove(&2), Some(3));
    time.pass(SEC);
    cache.purge();
    assert_eq!(ASKED.get(), (0, 0, None));
    validate(&mut cache);
}

#[test]
fn an_update_is_told_from_a_creation() {
    let time = TestClock::default();
    let builder = answering(time.on(Cache::builder(100))).expire_after(|_, _| Some(10 * SEC));
    let mut cache: Cache<u64, u64> = builder.build();
    let ways: [fn(&Cache<u64, u64>); 3] = [
        |cache| cache.insert(1, 2),
        |cache| _ = cache.try_insert(1, 2),
        |cache| _ = cache.entry(1).and_compute(|_| Compute::Put(2)),
    ];
    for update in ways {
        ASKED.set((0, 0, None));
        update(&cache);
        assert_eq!(cache.lifetime_left(&1), Some(10 * SEC), "a creation");
        time.pass(3 * SEC);
        keeps();
        update(&cache);
        assert_eq!(ASKED.get(), (0, 1, Some(7 * SEC)));
        assert_eq!(cache.lifetime_left(&1), Some(7 * SEC), "the end is as it was");
        answers(Some(2 * SEC));
        update(&cache);
        assert_eq!(cache.lifetime_left(&1), Some(2 * SEC));
        answers(None);
        update(&cache);
        assert_eq!(cache.lifetime_left(&1), Some(Duration::MAX));
        answers(Some(SEC));
        update(&cache);
        assert_eq!((ASKED.get(), cache.lifetime_left(&1)), ((0, 4, None), Some(SEC)));
        time.pass(SEC);
        // It has expired, so this creates an entry.
        update(&cache);
        assert_eq!((ASKED.get().1, cache.lifetime_left(&1)), (4, Some(10 * SEC)));
        cache.invalidate(&1);
    }
    validate(&mut cache);
}

/// Without a lifetime for creations, and with the system's clock, which is not read exactly.
#[test]
fn updates_alone_may_decide() {
    let cache: Cache<u64, u64> =
        Cache::builder(100).time_to_live(100 * SEC).expire_after_update(|_, _, left| left).build();
    cache.insert(1, 1);
    let mut left = cache.lifetime_left(&1).unwrap();
    for _ in 0..1_000 {
        cache.insert(1, 1);
        let now = cache.lifetime_left(&1).unwrap();
        assert!(now <= left, "an update that keeps adds nothing");
        left = now;
    }
}

/// A read begins a new life by the clock of look-ups, which is behind: still never too short.
#[test]
fn reads_by_the_systems_clock_give_what_they_say() {
    let cache: Cache<u64, u64> =
        Cache::builder(100).expire_after_read(|_, _, _| Some(1_000 * SEC)).build();
    cache.insert(1, 1);
    assert_eq!(cache.lifetime_left(&1), Some(Duration::MAX));
    for _ in 0..1_000 {
        assert_eq!(cache.get(&1), Some(1));
        let left = cache.lifetime_left(&1).unwrap();
        assert!(left > 1_000 * SEC - HANG_LIMIT && left < 1_000 * SEC + HANG_LIMIT, "{left:?}");
    }
}

/// The shortest of all: an answer, the time to live that bounds it, the time to idle.
#[test]
fn no_answer_goes_beyond_the_time_to_live() {
    let time = TestClock::default();
    let builder = answering(time.on(Cache::builder(100))).time_to_live(16 * SEC);
    let mut cache: Cache<u64, u64> = builder.time_to_idle(7 * SEC).build();
    cache.insert(1, 1);
    cache.insert_for(2, 2, 100 * SEC);
    answers(Some(100 * SEC));
    for left in [7, 4] {
        assert_eq!(cache.lifetime_left(&1), Some(7 * SEC), "idle");
        time.pass(6 * SEC);
        assert_eq!((cache.get(&1), cache.get(&2)), (Some(1), Some(2)));
        assert_eq!(cache.lifetime_left(&1), Some(left * SEC));
        assert_eq!(cache.lifetime_left(&2), Some(7 * SEC), "what it was given is not cut");
    }
    time.pass(4 * SEC);
    assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(2)));
    validate(&mut cache);
}

#[test]
fn what_a_read_decides_is_told_and_counted_as_expired() {
    let time = TestClock::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let builder = answering(time.on(Cache::builder(100)))
        .listener(move |key, _, cause| heard.lock().unwrap().push((*key, cause)));
    let mut cache: Cache<u64, u64> = builder.build();
    (0..10).for_each(|key| cache.insert(key, key));
    answers(Some(SEC));
    (0..5).for_each(|key| assert_eq!(cache.get(&key), Some(key)));
    time.pass(2 * SEC);
    // A writer turns the wheel in which reads have listed them.
    cache.insert(20, 20);
    let mut told = std::mem::take(&mut *told.lock().unwrap());
    told.sort_unstable_by_key(|&(key, _)| key);
    assert!(told.into_iter().eq((0..5).map(|key| (key, Cause::Expired))));
    assert_eq!((cache.stats().expirations, cache.len()), (5, 6));
    validate(&mut cache);
}

/// The function may do all that `Clone` may.
#[test]
fn a_function_may_use_the_cache_and_panic() {
    static CACHE: std::sync::OnceLock<Cache<u64, u64>> = std::sync::OnceLock::new();
    let cache = CACHE.get_or_init(|| {
        Cache::builder(100)
            .expire_after_read(|key, _, left| {
                let cache = CACHE.get().expect("it is asked by look-ups");
                assert_ne!(*key, 13, "as told");
                if *key == 1 {
                    assert_eq!(cache.get(&2), Some(2));
                    cache.invalidate(&1);
                    (100..500).for_each(|key| cache.insert(key, key));
                    return Some(SEC);
                }
                left
            })
            .build()
    });
    [1, 2, 13].iter().for_each(|&key| cache.insert(key, key));
    assert!(catch_unwind(AssertUnwindSafe(|| cache.get(&13))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| cache.pin().get(&13).copied())).is_err());
    assert_eq!(cache.peek(&13), Some(13), "its panic changes nothing");
    assert_eq!((cache.get(&1), cache.peek(&1)), (Some(1), None), "read, and gone meanwhile");
    assert!(cache.len() <= 100 && cache.stats().refusals == 0);
}

/// A slow function does not revive an entry that another thread found expired.
#[test]
fn a_slow_answer_does_not_bring_back_what_was_seen_as_over() {
    let looks: [Look; 4] = [
        |cache| cache.peek(&1).is_some(),
        |cache| cache.iter().next().is_some(),
        |cache| cache.get(&1).is_some(),
        |cache| cache.purge() == 0,
    ];
    for (look, idle) in looks.into_iter().flat_map(|look| [(look, false), (look, true)]) {
        let time = TestClock::default();
        let (caught, arrived) = channel();
        let (release, released) = channel::<()>();
        let stop = Mutex::new(Some((caught, released)));
        let builder = time.on(Cache::builder(100)).expire_after(|_, _| Some(SEC));
        let builder = builder.expire_after_read(move |_, _, _| {
            let stop = stop.lock().unwrap().take();
            if let Some((caught, released)) = stop {
                caught.send(()).expect("the test waits");
                _ = released.recv();
            }
            Some(100 * SEC)
        });
        let builder = if idle { builder.time_to_idle(200 * SEC) } else { builder };
        let mut cache: Cache<u64, u64> = builder.build();
        cache.insert(1, 1);
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| cache.get(&1));
            arrived.recv_timeout(HANG_LIMIT).expect("it asks");
            time.pass(2 * SEC);
            assert!(!look(&cache));
            drop(release);
            assert_eq!(slow.join().expect("no panic"), Some(1), "it was there when it looked");
        });
        assert_eq!((cache.peek(&1), cache.get(&1)), (None, None));
        validate(&mut cache);
    }
}

#[test]
fn frozen_entries_are_asked_for_as_well() {
    let time = TestClock::default();
    let builder = answering(time.on(Cache::builder(100))).freezing(Freezing::ByHand);
    let mut cache: Cache<u64, u64> = builder.build();
    (0..10).for_each(|key| cache.insert(key, key));
    assert_eq!(cache.freeze(1.0), 10);
    answers(Some(SEC));
    assert_eq!((cache.get(&1), cache.pin().get(&2)), (Some(1), Some(&2)));
    assert_eq!(cache.stats().frozen_hits, 2);
    time.pass(SEC);
    assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (None, None, Some(3)));
    validate(&mut cache);
    let copies = Cache::<u64, u64>::builder(100).freezing_copies(Freezing::ByHand);
    let refused = copies.expire_after_read(|_, _, left| left).try_build();
    assert_eq!(refused.err(), Some(BuildError::CopiesExpire));
}

#[test]
fn entries_that_come_together_do_not_expire_together() {
    let time = TestClock::default();
    let mut cache: Cache<u64, u64> = time
        .on(Cache::builder(2_000))
        .time_to_live(100 * SEC)
        .expire_after_update(|_, _, left| left)
        .jitter(0.2)
        .build();
    (0..1_000).for_each(|key| cache.insert(key, key));
    cache.insert_for(2_000, 0, 100 * SEC);
    assert!(cache.lifetime_left(&2_000) < Some(100 * SEC));
    let left: Vec<_> = (0..1_000).filter_map(|key| cache.lifetime_left(&key)).collect();
    (0..1_000).for_each(|key| cache.insert(key, key));
    assert!((0..1_000).filter_map(|key| cache.lifetime_left(&key)).eq(left), "kept as it was");
    time.pass(80 * SEC - NS);
    assert_eq!(cache.purge(), 0, "at most a fifth is taken away");
    // Evenly: about as many in each twentieth of the span.
    for step in 1..=20 {
        time.pass(SEC);
        let expired = cache.purge();
        assert!((15..100).contains(&expired), "{expired} in second {step}");
    }
    assert!(cache.len() <= 1);
    validate(&mut cache);
}

#[test]
fn a_share_that_is_none_is_refused() {
    for share in [-0.1, 1.1, f64::INFINITY] {
        let refused = Cache::<u64, u64>::builder(10).jitter(share).try_build().err();
        assert_eq!(refused, Some(BuildError::Jitter(share)));
    }
    let refused = Cache::<u64, u64>::builder(10).jitter(f64::NAN).try_build().err();
    assert!(matches!(refused, Some(BuildError::Jitter(share)) if share.is_nan()));
    let all: Cache<u64, u64> = Cache::builder(10).time_to_live(SEC).jitter(1.0).build();
    all.insert(1, 1);
    assert!(all.lifetime_left(&1).is_none_or(|left| left <= SEC));
}

/// The calls of a cache.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64, Said),
    InsertFor(u64, u64),
    Compute(u64, Said),
    Get(u64, Said),
    Peek(u64),
    Remove(u64),
    Purge,
    InvalidateAll,
    Pass(u64),
}

/// The function's answer: `None` for the time left, otherwise nanoseconds, or for ever.
type Said = Option<Option<u64>>;

/// The builder's settings, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Told {
    live: Option<u64>,
    idle: Option<u64>,
    created: Option<Option<u64>>,
}

/// An entry of the naive map; an absent end is none.
#[derive(Clone, Copy)]
struct Life {
    value: u64,
    end: Option<u64>,
    bound: Option<u64>,
    used: u64,
}

struct Naive {
    told: Told,
    entries: BTreeMap<u64, Life>,
    now: u64,
}

impl Naive {
    fn deadline(&self, life: &Life) -> Option<u64> {
        let idle = self.told.idle.map(|idle| life.used + idle);
        life.end.into_iter().chain(idle).min()
    }

    fn living(&self, key: u64) -> Option<Life> {
        let life = *self.entries.get(&key)?;
        self.deadline(&life).is_none_or(|deadline| deadline > self.now).then_some(life)
    }

    fn left(&self, life: &Life) -> Option<u64> {
        self.deadline(life).map(|deadline| deadline - self.now)
    }

    fn put(&mut self, key: u64, value: u64, end: Option<u64>) {
        let live = self.told.live.map(|live| self.now + live);
        let bound = end.and_then(|end| live.map(|live| live.max(end)));
        self.entries.insert(key, Life { value, end, bound, used: self.now });
    }

    fn insert(&mut self, key: u64, value: u64, said: Said) {
        let end = match self.living(key) {
            None => self.told.created.unwrap_or(self.told.live).map(|span| self.now + span),
            Some(old) => match said {
                None => old.end,
                Some(said) => {
                    let left = old.end.map(|end| end - self.now);
                    let left = left.into_iter().chain(self.told.idle).min();
                    if said == left { old.end } else { said.map(|span| self.now + span) }
                }
            },
        };
        self.put(key, value, end);
    }

    fn read(&mut self, key: u64, said: Said) -> Option<u64> {
        let life = self.living(key)?;
        let left = self.left(&life);
        let (now, entry) = (self.now, self.entries.get_mut(&key)?);
        entry.used = now;
        if let Some(said) = said
            && said != left
        {
            entry.end = said.map(|span| now + span).into_iter().chain(life.bound).min();
        }
        Some(life.value)
    }

    fn purge(&mut self) -> u64 {
        let over = |life: &Life| self.deadline(life).is_some_and(|deadline| deadline <= self.now);
        let gone: Vec<u64> =
            (self.entries.iter()).filter_map(|(key, life)| over(life).then_some(*key)).collect();
        gone.iter().for_each(|key| _ = self.entries.remove(key));
        gone.len() as u64
    }
}

fn said() -> impl Strategy<Value = Said> {
    let span = prop_oneof![1..50u64, 1..100_000_000u64, Just(5_000_000_000)];
    prop_oneof![2 => Just(None), 1 => Just(Some(None)), 5 => span.prop_map(|span| Some(Some(span)))]
}

fn step() -> impl Strategy<Value = Step> {
    let (key, span) = (0..5u64, prop_oneof![1..50u64, 1..100_000_000u64, Just(3_000_000_000)]);
    prop_oneof![
        3 => (key.clone(), said()).prop_map(|(key, said)| Step::Insert(key, said)),
        1 => (key.clone(), span.clone()).prop_map(|(key, span)| Step::InsertFor(key, span)),
        1 => (key.clone(), said()).prop_map(|(key, said)| Step::Compute(key, said)),
        6 => (key.clone(), said()).prop_map(|(key, said)| Step::Get(key, said)),
        2 => key.clone().prop_map(Step::Peek),
        1 => key.prop_map(Step::Remove),
        1 => Just(Step::Purge),
        1 => Just(Step::InvalidateAll),
        5 => span.prop_map(Step::Pass),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let span = || prop::option::of(prop_oneof![1..100u64, 1..200_000_000u64]);
    (span(), span(), prop::option::of(span())).prop_map(|(live, idle, created)| Told {
        live,
        idle,
        created,
    })
}

fn lifetime(span: Option<u64>) -> Option<Duration> {
    span.map(Duration::from_nanos)
}

/// A cache with these settings.
fn built(told: Told, time: &TestClock) -> Cache<u64, u64> {
    let mut builder = answering(time.on(Cache::builder(100)));
    if let Some(live) = told.live {
        builder = builder.time_to_live(Duration::from_nanos(live));
    }
    if let Some(idle) = told.idle {
        builder = builder.time_to_idle(Duration::from_nanos(idle));
    }
    if let Some(created) = told.created {
        builder = builder.expire_after(move |_, _| lifetime(created));
    }
    builder.build()
}

/// Takes a step with both, whose results must agree.
fn take(
    step: Step,
    value: u64,
    cache: &Cache<u64, u64>,
    naive: &mut Naive,
) -> Result<(), TestCaseError> {
    ASKED.set((0, 0, None));
    let said = |said: Said| ANSWER.set(said.map(lifetime));
    match step {
        Step::Insert(key, answer) => {
            said(answer);
            cache.insert(key, value);
            naive.insert(key, value, answer);
        }
        Step::Compute(key, answer) => {
            said(answer);
            cache.entry(key).and_compute(|_| Compute::Put(value));
            naive.insert(key, value, answer);
        }
        Step::InsertFor(key, span) => {
            cache.insert_for(key, value, Duration::from_nanos(span));
            naive.put(key, value, Some(naive.now + span));
        }
        Step::Get(key, answer) => {
            said(answer);
            let left = naive.living(key).and_then(|life| naive.left(&life));
            let expected = naive.read(key, answer);
            prop_assert_eq!(cache.get(&key), expected);
            let asked = (u32::from(expected.is_some()), 0, lifetime(left));
            prop_assert_eq!(ASKED.get(), asked);
        }
        Step::Peek(key) => {
            prop_assert_eq!(cache.peek(&key), naive.living(key).map(|life| life.value));
        }
        Step::Remove(key) => {
            let expected = naive.living(key).map(|life| life.value);
            naive.entries.remove(&key);
            prop_assert_eq!(cache.remove(&key), expected);
        }
        Step::Purge => {
            cache.purge();
            naive.purge();
            prop_assert_eq!(cache.len(), naive.entries.len());
        }
        Step::InvalidateAll => {
            cache.invalidate_all();
            naive.entries.clear();
        }
        Step::Pass(_) => {}
    }
    Ok(())
}

fn play(told: Told, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let time = TestClock::default();
    let mut cache = built(told, &time);
    let mut naive = Naive { told, entries: BTreeMap::new(), now: 0 };
    for (value, step) in (0..).zip(steps) {
        take(step, value, &cache, &mut naive)?;
        if let Step::Pass(span) = step {
            time.pass(Duration::from_nanos(span));
            naive.now += span;
        }
        for key in 0..5 {
            let left = naive.living(key).map(|life| lifetime(naive.left(&life)));
            let left = left.map(|left| left.unwrap_or(Duration::MAX));
            prop_assert_eq!(cache.lifetime_left(&key), left, "{}", key);
        }
    }
    let findings = cache.validate().err();
    prop_assert!(findings.is_none(), "{}", findings.unwrap_or_default());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn lifetimes_are_those_of_a_naive_map(
        told in told(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        play(told, steps)?;
    }
}
