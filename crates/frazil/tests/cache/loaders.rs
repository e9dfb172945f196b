//! The queries that loaders take, and what they return beside a value.

use std::error::Error;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::extent::policies;
use crate::tasks::block_on;
use frazil::{
    BuildError, Cache, Compute, Equivalent, FetchError, Fetching, Loaded, OnError, ToKey,
};

#[test]
fn counted_keys_are_loaded_by_what_they_point_to() {
    for policy in policies() {
        let cache: Cache<Arc<str>, usize> = Cache::builder(100).policy(policy).build();
        assert_eq!(cache.get_or_insert_with("one", || 1), 1);
        assert_eq!(cache.try_get_or_insert_with("two", || Ok::<_, ()>(2)), Ok(2));
        assert_eq!(block_on(cache.get_or_insert_async("three", async { 3 })), 3);
        assert_eq!(block_on(cache.get_or_fetch("four", async { Ok::<_, ()>(4) })), Ok(4));
        assert_eq!(cache.get_or_fetch_blocking("five", || Ok::<_, ()>(5)), Ok(5));
        assert_eq!(cache.entry_by_ref("six").or_insert(6), 6);
        cache.entry_by_ref("seven").and_compute(|_| Compute::Put(7));
        let key: Arc<str> = Arc::from("eight");
        assert_eq!(cache.get_or_insert_with(&key, || 8), 8);
        for (name, value) in
            ["one", "two", "three", "four", "five", "six", "seven", "eight"].into_iter().zip(1..)
        {
            assert_eq!(cache.get_or_insert_with(name, || unreachable!()), value, "{policy}");
        }
    }
    let slices: Cache<Box<[u8]>, u8> = Cache::builder(10).build();
    assert_eq!(slices.get_or_insert_with(&[1, 2][..], || 3), 3);
}

type Pair = (String, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Row<'q>(&'q str, u32);

impl Equivalent<Pair> for Row<'_> {
    fn equivalent(&self, (table, row): &Pair) -> bool {
        self.0 == table && self.1 == *row
    }
}

impl ToKey<Pair> for Row<'_> {
    fn to_key(&self) -> Pair {
        (self.0.to_owned(), self.1)
    }
}

#[test]
fn every_load_takes_what_is_equivalent() {
    let cache: Cache<Pair, u32> = Cache::builder(100).build();
    assert_eq!(cache.get_or_insert_with(&Row("a", 1), || 1), 1);
    assert_eq!(block_on(cache.get_or_insert_async(&Row("a", 2), async { 2 })), 2);
    assert_eq!(cache.get_or_fetch_blocking(&Row("a", 3), || Ok::<_, ()>(3)), Ok(3));
    assert_eq!(cache.entry_by_ref(&Row("a", 4)).or_insert_with(|| 4), 4);
    (1..5).for_each(|row| assert_eq!(cache.get(&("a".to_owned(), row)), Some(row)));
}

/// A key that counts how often it was cloned.
#[derive(Debug)]
struct Counted(u64, Arc<AtomicU64>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.1.fetch_add(1, Relaxed);
        Counted(self.0, Arc::clone(&self.1))
    }
}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Counted {}

#[test]
fn a_key_that_is_given_away_becomes_the_entrys() {
    let cache: Cache<Counted, u64> = Cache::builder(100).build();
    let clones = Arc::new(AtomicU64::new(0));
    let key = |number| Counted(number, Arc::clone(&clones));
    let expect = |what: &str, expected| {
        assert_eq!(clones.swap(0, Relaxed), expected, "{what}");
    };
    cache.entry(key(1)).or_insert_with(|| 1);
    expect("a load: for those who wait", 1);
    cache.entry(key(1)).or_insert_with(|| unreachable!());
    expect("a hit", 0);
    block_on(cache.entry(key(2)).or_insert_async(async { 2 }));
    expect("a task's load", 1);
    cache.entry(key(3)).or_fetch_blocking(|| Ok::<u64, ()>(3)).unwrap();
    expect("a fetch", 1);
    cache.get_or_insert_with(&key(4), || 4);
    expect("by reference", 2);
    cache.get_or_insert_with(&key(4), || unreachable!());
    expect("a hit by reference", 0);
}

#[test]
fn lifetime_and_weight_come_with_the_value() {
    for policy in policies() {
        let mut cache: Cache<u64, u64> = Cache::builder(1_000)
            .policy(policy)
            .weigher(|_, value| *value)
            .time_to_live(Duration::from_secs(1_000))
            .build();
        let short = Duration::from_secs(10);
        let fetch = move || Ok::<_, ()>(Loaded::new(7).lifetime(short).weight(100));
        assert_eq!(cache.entry(1).or_fetch_blocking(fetch), Ok(7));
        assert_eq!(block_on(cache.entry(2).or_fetch(async { fetch() })), Ok(7));
        assert_eq!(block_on(cache.entry(3).or_fetch_detached(async move { fetch() })), Ok(7));
        assert_eq!(cache.entry(4).or_fetch_blocking(|| Ok::<u64, ()>(7)), Ok(7));
        for key in 1..4 {
            let left = cache.lifetime_left(&key).unwrap();
            assert!(left > Duration::ZERO && left < 2 * short, "{policy}, {key}: {left:?}");
        }
        assert!(cache.lifetime_left(&4).unwrap() > Duration::from_secs(900), "{policy}");
        assert_eq!(cache.weight(), 307, "{policy}");
        // Too heavy for the cache: returned, and not stored.
        let heavy = || Ok::<_, ()>(Loaded::new(1).weight(1_001));
        assert_eq!(cache.entry(5).or_fetch_blocking(heavy), Ok(1));
        assert_eq!((cache.get(&5), cache.weight()), (None, 307), "{policy}");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
    let unweighed: Cache<u64, u64> = Cache::builder(10).build();
    unweighed.entry(1).or_fetch_blocking(|| Ok::<_, ()>(Loaded::new(1).weight(100))).unwrap();
    assert_eq!(unweighed.weight(), 1);
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
enum Failure {
    #[error("no such row")]
    NoSuchRow,
    #[error("busy")]
    Busy,
}

#[test]
fn each_error_says_how_long_it_is_remembered() {
    let time = Arc::new(AtomicU64::new(1));
    let shown = Arc::clone(&time);
    let fetching = Fetching { on_error: OnError::Share, ..Fetching::default() };
    let others = Fetching { negative_ttl: Duration::from_secs(100), ..fetching };
    let cache: Cache<u64, u64> = Cache::builder(10)
        .fetching(others)
        .negative_ttl(|failure: &Failure| match failure {
            Failure::NoSuchRow => Duration::from_secs(60),
            Failure::Busy => Duration::ZERO,
        })
        .clock(move || Duration::from_secs(shown.load(Relaxed)))
        .build();
    let asked = AtomicU64::new(0);
    let ask = |failure: Failure| {
        let fetched = cache.get_or_fetch_blocking(&1, || {
            asked.fetch_add(1, Relaxed);
            Err(failure)
        });
        (fetched.unwrap_err(), asked.load(Relaxed))
    };
    let of = |failure| FetchError::Failed(Arc::new(failure));
    assert_eq!(ask(Failure::Busy), (of(Failure::Busy), 1));
    assert_eq!(ask(Failure::NoSuchRow), (of(Failure::NoSuchRow), 2));
    assert_eq!(ask(Failure::Busy), (of(Failure::NoSuchRow), 2));
    time.fetch_add(61, Relaxed);
    assert_eq!(ask(Failure::Busy), (of(Failure::Busy), 3));
    // Another type of error: the cache's setting holds.
    assert!(cache.get_or_fetch_blocking(&2, || Err::<u64, _>(1)).is_err());
    assert!(cache.get_or_fetch_blocking(&2, || Ok::<_, i32>(1)).is_err());
}

#[test]
fn errors_that_would_not_be_remembered_are_refused() {
    let builder = Cache::<u64, u64>::builder(10).negative_ttl(|_: &Failure| Duration::ZERO);
    assert_eq!(builder.try_build().unwrap_err(), BuildError::NegativeTtlUnshared);
    let fetching = Fetching { negative_ttl: Duration::from_secs(60), ..Fetching::default() };
    let builder = Cache::<u64, u64>::builder(10).fetching(fetching);
    assert_eq!(builder.try_build().unwrap_err(), BuildError::NegativeTtlUnshared);
}

/// Errors of fetches work with `?` into any error type, and show their source.
#[test]
fn errors_go_through_question_marks() {
    type Anything = Box<dyn Error + Send + Sync>;
    let cache: Cache<u64, u64> = Cache::builder(10).build();
    let to_anything =
        || -> Result<u64, Anything> { Ok(cache.get_or_fetch_blocking(&1, || Err(Failure::Busy))?) };
    let error = to_anything().unwrap_err();
    assert_eq!(error.to_string(), "the fetch failed: busy");
    let source = error.source().expect("the failure").to_string();
    assert_eq!(source, "busy");
    let from_own = || -> Result<u64, FetchError<Failure>> {
        Err(Failure::NoSuchRow)?;
        Ok(1)
    };
    assert_eq!(from_own(), Err(FetchError::Failed(Arc::new(Failure::NoSuchRow))));
    let refused = || -> Result<(), Anything> {
        let small: Cache<u64, u64> = Cache::builder(1).weigher(|_, _| 2).build();
        small.try_insert(1, 1)?;
        Ok(())
    };
    assert!(refused().is_err());
    let unbuilt = || -> Result<(), Anything> {
        Cache::<u64, u64>::builder(1).shards(0).try_build()?;
        Ok(())
    };
    assert!(unbuilt().is_err());
}
