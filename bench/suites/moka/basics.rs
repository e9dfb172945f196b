//! Inserted entries are found until they are removed.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::{scope, spawn};
use std::time::Duration;

use frazil::{Cause, Policy};

use super::adapter::{Cache, Log, Mock, Shape};
use crate::wait::Gate;

type Names = Cache<&'static str, &'static str>;

/// Empties the log and compares it, in order.
pub(super) fn told<K: Ord + std::fmt::Debug, V: Ord + std::fmt::Debug>(
    log: &Log<K, V>,
    expected: Vec<(K, V, Cause)>,
) {
    assert_eq!(std::mem::take(&mut *log.lock().expect("no panic under it")), expected);
}

/// The same if one operation ends several entries, in any order.
fn told_in_any_order<K: Ord + std::fmt::Debug, V: Ord + std::fmt::Debug>(
    log: &Log<K, V>,
    mut expected: Vec<(K, V, Cause)>,
) {
    let mut actual = std::mem::take(&mut *log.lock().expect("no panic under it"));
    actual.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    expected.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    assert_eq!(actual, expected);
}

pub(super) fn max_capacity_zero(shape: Shape) {
    let cache = Cache::<u64, &str>::new(shape, 0);
    cache.insert(0, "");
    for _ in 0..2 {
        assert!(!cache.contains_key(&0));
        assert_eq!(cache.get(&0), None);
        cache.run_pending_tasks();
    }
    assert_eq!(cache.entry_count(), 0);
}

/// Policies may differ in the newcomers that they refuse, and in the number: our window admits each
/// for a while, theirs has none. But for each newcomer one entry, it or another, must be removed
/// and reported, and popular entries must stay.
pub(super) fn basic_single_thread(shape: Shape) {
    let builder = Names::builder(shape).max_capacity(3).eviction_policy(Policy::WTinyLfu);
    let (builder, log) = builder.log();
    let cache = builder.build();
    cache.insert("a", "alice");
    cache.insert("b", "bob");
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert!(cache.contains_key(&"a") && cache.contains_key(&"b"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    cache.insert("c", "cindy");
    assert_eq!(cache.get(&"c"), Some("cindy"));
    assert!(cache.contains_key(&"c") && cache.contains_key(&"a"));
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    told(&log, vec![]);

    for attempt in 0.. {
        assert!(attempt < 20, "it is never let in");
        cache.insert("d", "david");
        if cache.contains_key(&"d") {
            break;
        }
        told(&log, vec![("d", "david", Cause::Size)]);
        assert_eq!(cache.get(&"d"), None);
    }
    told(&log, vec![("c", "cindy", Cause::Size)]);
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    assert_eq!(cache.get(&"c"), None);
    assert_eq!(cache.get(&"d"), Some("david"));

    cache.invalidate(&"b");
    assert_eq!(cache.get(&"b"), None);
    assert_eq!(cache.remove(&"b"), None);
    assert_eq!(cache.remove(&"d"), Some("david"));
    assert!(!cache.contains_key(&"d"));
    told(&log, vec![("b", "bob", Cause::Removed), ("d", "david", Cause::Removed)]);
}

pub(super) fn basic_lru_single_thread(shape: Shape) {
    let builder = Names::builder(shape).max_capacity(3).eviction_policy(Policy::Lru);
    let (builder, log) = builder.log();
    let cache = builder.build();
    cache.insert("a", "alice");
    cache.insert("b", "bob");
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    cache.insert("c", "cindy");
    assert_eq!(cache.get(&"c"), Some("cindy"));
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    assert!(["a", "b", "c"].iter().all(|key| cache.contains_key(key)));

    // Now c is the least recently used.
    cache.insert("d", "david");
    told(&log, vec![("c", "cindy", Cause::Size)]);
    assert_eq!(cache.get(&"a"), Some("alice"));
    assert_eq!(cache.get(&"b"), Some("bob"));
    assert_eq!(cache.get(&"c"), None);
    assert_eq!(cache.get(&"d"), Some("david"));

    cache.invalidate(&"b");
    assert_eq!(cache.get(&"b"), None);
    assert_eq!(cache.remove(&"b"), None);
    assert_eq!(cache.remove(&"d"), Some("david"));
    assert_eq!(cache.get(&"d"), None);
    told(&log, vec![("b", "bob", Cause::Removed), ("d", "david", Cause::Removed)]);

    cache.insert("e", "emily");
    cache.insert("f", "frank");
    cache.insert("g", "gina");
    told(&log, vec![("a", "alice", Cause::Size)]);
    assert_eq!(cache.get(&"a"), None);
    assert_eq!(cache.get(&"e"), Some("emily"));
    assert_eq!(cache.get(&"f"), Some("frank"));
    assert_eq!(cache.get(&"g"), Some("gina"));
}

/// As above about refusals.
pub(super) fn size_aware_eviction(shape: Shape) {
    let [alice, bob, bill] = [("alice", 10), ("bob", 15), ("bill", 20)];
    let [cindy, david] = [("cindy", 5), ("david", 15)];
    let builder = Cache::<&str, (&str, u64)>::builder(shape)
        .max_capacity(31)
        .weigher(|_, value| value.1)
        .eviction_policy(Policy::WTinyLfu);
    let (builder, log) = builder.log();
    let cache = builder.build();
    cache.insert("a", alice);
    cache.insert("b", bob);
    assert_eq!(cache.get(&"a"), Some(alice));
    assert_eq!(cache.get(&"b"), Some(bob));
    cache.insert("c", cindy);
    assert_eq!(cache.get(&"c"), Some(cindy));
    assert_eq!(cache.get(&"a"), Some(alice));
    assert_eq!(cache.get(&"b"), Some(bob));
    told(&log, vec![]);

    for attempt in 0.. {
        assert!(attempt < 40, "it is never let in");
        cache.insert("d", david);
        if cache.contains_key(&"d") {
            break;
        }
        told(&log, vec![("d", david, Cause::Size)]);
        assert_eq!(cache.get(&"d"), None);
    }
    // More than one entry must be evicted.
    told_in_any_order(&log, vec![("a", alice, Cause::Size), ("c", cindy, Cause::Size)]);
    assert_eq!(cache.get(&"b"), Some(bob));
    assert_eq!(cache.get(&"d"), Some(david));

    // A heavier replacement evicts too.
    cache.insert("b", bill);
    told_in_any_order(&log, vec![("b", bob, Cause::Replaced), ("d", david, Cause::Size)]);
    assert_eq!(cache.get(&"b"), Some(bill));
    assert_eq!(cache.get(&"d"), None);

    cache.insert("a", alice);
    cache.insert("b", bob);
    told(&log, vec![("b", bill, Cause::Replaced)]);
    assert_eq!(cache.get(&"a"), Some(alice));
    assert_eq!(cache.get(&"b"), Some(bob));
    assert_eq!((cache.entry_count(), cache.weighted_size()), (2, 25));
}

pub(super) fn basic_multi_threads(shape: Shape) {
    let cache = Cache::<u64, String>::new(shape, 100);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let cache = cache.clone();
            spawn(move || {
                cache.insert(10, format!("{thread}-100"));
                cache.get(&10);
                cache.insert(20, format!("{thread}-200"));
                cache.invalidate(&10);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(cache.get(&10).is_none() && !cache.contains_key(&10));
    assert!(cache.get(&20).is_some() && cache.contains_key(&20));
}

pub(super) fn invalidate_all(shape: Shape) {
    let (builder, log) = Names::builder(shape).max_capacity(100).log();
    let cache = builder.build();
    let three = [("a", "alice"), ("b", "bob"), ("c", "cindy")];
    for (key, value) in three {
        cache.insert(key, value);
    }
    for (key, value) in three {
        assert_eq!(cache.get(&key), Some(value));
        assert!(cache.contains_key(&key));
    }
    cache.invalidate_all();
    cache.insert("d", "david");
    for (key, _) in three {
        assert_eq!(cache.get(&key), None);
        assert!(!cache.contains_key(&key));
    }
    assert_eq!(cache.get(&"d"), Some("david"));
    told_in_any_order(&log, three.map(|(key, value)| (key, value, Cause::Removed)).into());
}

pub(super) fn invalidate_all_without_running_pending_tasks() {
    let cache = Cache::<u64, u64>::new(Shape::Future, 1024);
    assert_eq!(cache.get(&0), None);
    cache.insert(0, 1);
    assert_eq!(cache.get(&0), Some(1));
    cache.invalidate_all();
    assert_eq!(cache.get(&0), None);
}

pub(super) fn invalidate_entries_if(shape: Shape) {
    let mock = Mock::default();
    let (builder, log) = Cache::<u64, &str>::builder(shape).max_capacity(100).clock(&mock).log();
    let cache = builder.build();
    cache.insert(0, "alice");
    cache.insert(1, "bob");
    cache.insert(2, "alex");
    mock.increment(Duration::from_secs(5));
    assert_eq!([0, 1, 2].map(|key| cache.get(&key)), [Some("alice"), Some("bob"), Some("alex")]);

    let names = HashSet::from(["alice", "alex"]);
    cache.invalidate_entries_if(move |_, value| names.contains(value));
    mock.increment(Duration::from_secs(5));
    // Later entries are not affected.
    cache.insert(3, "alice");
    cache.run_pending_tasks();
    let left = [None, Some("bob"), None, Some("alice")];
    assert_eq!([0, 1, 2, 3].map(|key| cache.get(&key)), left);
    assert_eq!(cache.entry_count(), 2);
    told_in_any_order(&log, vec![(0, "alice", Cause::Removed), (2, "alex", Cause::Removed)]);

    mock.increment(Duration::from_secs(5));
    cache.invalidate_entries_if(|_, value| *value == "alice");
    cache.invalidate_entries_if(|_, value| *value == "bob");
    assert_eq!([1, 3].map(|key| cache.contains_key(&key)), [false, false]);
    assert_eq!(cache.entry_count(), 0);
    told_in_any_order(&log, vec![(1, "bob", Cause::Removed), (3, "alice", Cause::Removed)]);
}

pub(super) fn non_power_of_two_segments() {
    // Ours rounds the number up; theirs is 5.
    let cache = Names::new(Shape::Segmented(5), 100);
    assert_eq!(cache.iter().count(), 0);
    cache.insert("a", "alice");
    cache.insert("b", "bob");
    cache.insert("c", "cindy");
    assert_eq!(cache.iter().count(), 3);
    cache.run_pending_tasks();
    assert_eq!(cache.iter().count(), 3);
}

/// An entry inserted into the full cache and removed again leaves nothing behind that would remove
/// its successor.
pub(super) fn test_race_between_recreating_entry_and_processing_its_write_ops(shape: Shape) {
    let cache = Names::new(shape, 2);
    cache.insert("a", "a");
    cache.insert("b", "b");
    cache.run_pending_tasks();
    cache.insert("c", "c1");
    // Ours has evicted for it by now: one of the other two is gone.
    let removed = ["a", "b"].map(|key| cache.remove(&key).is_some());
    assert_eq!(removed.into_iter().filter(|&removed| removed).count(), 1);
    assert!(cache.remove(&"c").is_some());
    cache.insert("c", "c2");
    cache.run_pending_tasks();
    assert_eq!(cache.get(&"c"), Some("c2"));
}

pub(super) fn test_iter(shape: Shape) {
    let cache = Cache::<u64, String>::builder(shape)
        .max_capacity(100)
        .time_to_idle(Duration::from_secs(10))
        .build();
    (0..50).for_each(|key| cache.insert(key, format!("val: {key}")));
    let mut keys = HashSet::new();
    for (key, value) in cache.iter() {
        assert_eq!(value, format!("val: {key}"));
        assert!(keys.insert(key), "{key} is shown twice");
    }
    assert_eq!(keys.len(), 50);
}

/// A value whose clone stops an iterator.
struct Slow {
    text: String,
    gates: Option<(Gate, Gate)>,
}

impl Clone for Slow {
    fn clone(&self) -> Self {
        if let Some((reached, may_go_on)) = &self.gates {
            reached.open();
            may_go_on.pass();
        }
        Slow { text: self.text.clone(), gates: None }
    }
}

/// Eight threads iterate while eight replace all keys: no key is missed. In their test an iterator
/// may or may not stop while the others write; here one does.
pub(super) fn test_iter_multi_threads(shape: Shape) {
    const KEYS: u64 = 256;
    let value = |key: u64| Slow { text: format!("val: {key}"), gates: None };
    let cache = Cache::<u64, Slow>::builder(shape)
        .max_capacity(2 * KEYS)
        .time_to_idle(Duration::from_secs(10))
        .build();
    let gates @ (reached, may_go_on) = &(Gate::default(), Gate::default());
    cache.insert(0, Slow { gates: Some(gates.clone()), ..value(0) });
    (1..KEYS).for_each(|key| cache.insert(key, value(key)));
    let keys_shown = || {
        let shown = cache.iter().map(|(key, slow)| {
            assert_eq!(slow.text, format!("val: {key}"));
            key
        });
        shown.collect::<HashSet<_>>().len() as u64
    };
    let shown = scope(|scope| {
        let iterate: Vec<_> = (0..8).map(|_| scope.spawn(keys_shown)).collect();
        reached.pass();
        let write = || (0..KEYS).for_each(|key| cache.insert(key, value(key)));
        let write: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
        write.into_iter().for_each(|thread| thread.join().expect("no panic"));
        may_go_on.open();
        iterate.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let refusals = cache.ours().stats().refusals;
    assert_eq!(shown, [KEYS; 8], "{refusals} insertions were refused");
    assert_eq!((keys_shown(), refusals), (KEYS, 0), "the cache is half full");
}

pub(super) fn borrowed_forms_of_key(shape: Shape) {
    let cache = Cache::<Vec<u8>, ()>::new(shape, 1);
    cache.insert(vec![1], ());
    assert!(cache.contains_key(&vec![1]));
    assert_eq!(cache.get(&vec![1]), Some(()));
    cache.invalidate(&vec![1]);

    cache.insert(vec![1], ());
    let key: &[u8] = &[1];
    assert!(cache.ours().contains_key(key));
    assert_eq!(cache.ours().get(key), Some(()));
    cache.ours().invalidate(key);
    assert!(!cache.ours().contains_key(key));
}

/// Memory held at the end; the time at which ours drops removed entries is not tested.
pub(super) fn ensure_gc_runs_when_dropping_cache(shape: Shape) {
    let cache = Cache::<u64, Arc<String>>::new(shape, 100);
    let value = Arc::new("value".to_owned());
    let clone = Arc::clone(&value);
    cache.get_with(1, move || clone);
    assert_eq!(Arc::strong_count(&value), 2);
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 1);
}

pub(super) fn drop_value_immediately_after_eviction(shape: Shape) {
    const CAPACITY: u64 = 500;
    const KEYS: u64 = 600;
    let builder = Cache::<u64, Arc<String>>::builder(shape).max_capacity(CAPACITY);
    let (builder, log) = builder.log();
    let cache = builder.build();
    let counts = |cause| {
        log.lock().expect("no panic under it").iter().filter(|it| it.2 == cause).count() as u64
    };
    // The log holds clones, so the values count.
    let values: Vec<Arc<String>> = (0..KEYS).map(|key| Arc::new(key.to_string())).collect();
    let forget =
        || log.lock().expect("no panic under it").iter_mut().for_each(|it| it.1 = Arc::default());
    let dropped = || values.iter().filter(|value| Arc::strong_count(value) == 1).count() as u64;
    for (key, value) in (0..).zip(&values) {
        cache.insert(key, Arc::clone(value));
        cache.run_pending_tasks();
    }
    forget();
    assert_eq!(counts(Cause::Size), KEYS - CAPACITY, "evicted");
    assert_eq!(counts(Cause::Removed), 0, "invalidated");
    assert_eq!(dropped(), KEYS - CAPACITY, "dropped");
    for key in 0..KEYS {
        cache.invalidate(&key);
        cache.run_pending_tasks();
    }
    forget();
    assert_eq!(counts(Cause::Size), KEYS - CAPACITY, "evicted");
    assert_eq!(counts(Cause::Removed), CAPACITY, "invalidated");
    assert_eq!(dropped(), KEYS, "dropped");
    drop(cache);
    assert_eq!(dropped(), KEYS, "dropped");
}

pub(super) fn test_debug_format(shape: Shape) {
    let cache = Names::new(shape, 10);
    cache.insert("a", "alice");
    cache.insert("b", "bob");
    cache.insert("c", "cindy");
    let text = format!("{:?}", cache.ours());
    assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
    for entry in [r#""a": "alice""#, r#""b": "bob""#, r#""c": "cindy""#] {
        assert!(text.contains(entry), "{text}");
    }
}

/// The writers and the checks, without the pending work of their maintenance, which ours lacks.
pub(super) fn no_batch_size_limit_on_eviction(shape: Shape) {
    let cache =
        Cache::<u64, String>::builder(shape).max_capacity(20).eviction_policy(Policy::Lru).build();
    (0..20).for_each(|key| cache.insert(key, format!("v{key}")));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 20);
    (20..40).for_each(|key| cache.insert(key, format!("v{key}")));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 20);
    assert!(!cache.contains_key(&0) && !cache.contains_key(&19));
    assert!(cache.contains_key(&39));
}

fn are_settings_of(cache: &Names, lifetimes: Option<[Duration; 2]>, shards: u32) {
    let ours = cache.ours();
    assert_eq!(
        [ours.time_to_live(), ours.time_to_idle()],
        lifetimes.map_or([None; 2], |l| l.map(Some))
    );
    assert_eq!(ours.shards(), shards);
    cache.insert("a", "alice");
    assert_eq!(cache.get(&"a"), Some("alice"));
}

const LIFETIMES: [Duration; 2] = [Duration::from_secs(45 * 60), Duration::from_secs(15 * 60)];

pub(super) fn build_cache(shape: Shape) {
    let builder = || Names::builder(shape).max_capacity(100);
    let cache = builder().build();
    assert_eq!(cache.ours().capacity(), 100);
    are_settings_of(&cache, None, 1);
    let [to_live, to_idle] = LIFETIMES;
    let cache = builder().time_to_live(to_live).time_to_idle(to_idle).build();
    assert_eq!(cache.ours().capacity(), 100);
    are_settings_of(&cache, Some(LIFETIMES), 1);
}

/// A cache of ours has no name.
pub(super) fn build_segmented_cache() {
    let cache = Names::builder(Shape::Segmented(15)).max_capacity(100).build();
    assert_eq!(cache.ours().capacity(), 100);
    are_settings_of(&cache, None, 16);
    let [to_live, to_idle] = LIFETIMES;
    let builder = Names::builder(Shape::Segmented(24)).max_capacity(400);
    let builder = builder.time_to_live(to_live).time_to_idle(to_idle);
    let cache = builder.eviction_listener(|_, _, _| {}).build();
    assert_eq!(cache.ours().capacity(), 400);
    are_settings_of(&cache, Some(LIFETIMES), 32);
}

const THOUSAND_YEARS: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

fn panics(work: impl FnOnce() + std::panic::UnwindSafe) {
    assert!(std::panic::catch_unwind(work).is_err(), "it does not panic");
}

pub(super) fn build_cache_too_long_ttl(shape: Shape) {
    let longer = THOUSAND_YEARS + Duration::from_secs(1);
    panics(move || _ = Names::builder(shape).max_capacity(100).time_to_live(longer).build());
}

pub(super) fn build_cache_too_long_tti(shape: Shape) {
    let longer = THOUSAND_YEARS + Duration::from_secs(1);
    panics(move || _ = Names::builder(shape).max_capacity(100).time_to_idle(longer).build());
}

/// Tasks and threads on one cache.
pub(super) fn basic_multi_async_tasks() {
    let cache = Cache::<u64, String>::new(Shape::Future, 100);
    let work = |id: u64| {
        cache.insert(10, format!("{id}-100"));
        cache.get(&10);
        cache.insert(20, format!("{id}-200"));
        cache.invalidate(&10);
    };
    scope(|scope| {
        (0..2).for_each(|id| _ = scope.spawn(move || work(id)));
        let mut tasks = crate::tasks::Tasks::new();
        (2..4).for_each(|id| {
            tasks.spawn(async move {
                crate::tasks::turn().await;
                work(id);
            })
        });
        tasks.run();
    });
    assert!(!cache.contains_key(&10) && cache.get(&10).is_none());
    assert!(cache.contains_key(&20) && cache.get(&20).is_some());
}
