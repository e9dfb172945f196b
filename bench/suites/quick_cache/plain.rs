//! Tests with one thread.

use frazil::Equivalent;

use super::adapter::{Cache, EntryAction, EntryResult, GuardResult};
use crate::tasks::block_on;

type Numbers = Cache<u64, u64>;

fn by_length(items: u64, capacity: u64) -> Cache<u64, String> {
    Cache::with_weighter(items, capacity, |_, value: &String| value.len() as u64)
}

/// The largest cache comes last, and only if one a hundredth as large takes no memory: its full
/// size could exhaust the machine's memory.
pub(super) fn test_new() {
    for capacity in [0, 1, 2, 3] {
        Numbers::new(capacity);
    }
    let before = resident_bytes();
    let large = Numbers::new(5_000_000);
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        let mebibytes = after.saturating_sub(before) >> 20;
        assert!(mebibytes < 8, "5 M entries, none there yet, take {mebibytes} MiB");
    }
    drop(large);
    Numbers::new(u64::MAX);
}

/// Resident memory of this process; `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

pub(super) fn test_capacity_one() {
    let cache = Numbers::new(1);
    cache.insert(1, 10);
    assert_eq!(cache.get(&1), Some(10));
    cache.insert(2, 20);
    assert_eq!(cache.get(&2), Some(20));
    assert_eq!(cache.get(&1), None);
    let cache = Numbers::new(0);
    cache.insert(1, 10);
    assert_eq!(cache.get(&1), None);
}

pub(super) fn test_custom_cost() {
    let cache = by_length(100, 100_000);
    for key in [1, 54, 1000_u64] {
        cache.insert(key, key.to_string());
    }
    assert_eq!(cache.get(&1000).as_deref(), Some("1000"));
}

pub(super) fn test_change_get_mut_change_weight() {
    let cache = by_length(100, 100_000);
    cache.insert(1, "1".to_owned());
    assert_eq!(cache.get(&1).as_deref(), Some("1"));
    assert_eq!(cache.weight(), 1);
    cache.get_mut(&1, |value| *value = "11".to_owned());
    assert_eq!(cache.weight(), 2);
    cache.get_mut(&1, String::clear);
    assert_eq!(cache.get(&1).as_deref(), Some(""));
    assert_eq!(cache.weight(), 0);
}

pub(super) fn test_get_or_insert_unsync() {
    let cache = Numbers::new(100);
    for key in [0, 1] {
        let filled = cache.get_value_or_guard(&key, || Some(key));
        assert_eq!(filled, GuardResult::Guard(true));
        assert_eq!(cache.get_value_or_guard(&key, || unreachable!()), GuardResult::Value(key));
    }
    let never = || -> Result<u64, ()> { unreachable!() };
    assert_eq!(cache.get_or_insert_with(&0, never), Ok(0));
    assert_eq!(cache.get_or_insert_with(&1, never), Ok(1));
    assert_eq!(cache.get_or_insert_with::<()>(&3, || Ok(3)), Ok(3));
    assert_eq!(cache.get_or_insert_with(&4, || Err(())), Err(()));
}

pub(super) fn test_get_or_insert_sync() {
    let cache = Numbers::new(100);
    assert_eq!(cache.get_value_or_guard(&0, || Some(0)), GuardResult::Guard(true));
    assert_eq!(cache.get_value_or_guard(&0, || unreachable!()), GuardResult::Value(0));
    let never = async || -> Option<u64> { unreachable!() };
    let filled = block_on(cache.get_value_or_guard_async(&1, async { Some(1) }));
    assert_eq!(filled, GuardResult::Guard(true));
    assert_eq!(block_on(cache.get_value_or_guard_async(&1, never())), GuardResult::Value(1));

    assert_eq!(cache.get_or_insert_with::<()>(&0, || unreachable!()), Ok(0));
    assert_eq!(cache.get_or_insert_with::<()>(&3, || Ok(3)), Ok(3));
    assert_eq!(cache.get_or_insert_with(&4, || Err(())), Err(()));
    let load = async || -> Result<u64, ()> { unreachable!() };
    assert_eq!(block_on(cache.get_or_insert_async(&0, load())), Ok(0));
    assert_eq!(block_on(cache.get_or_insert_async(&4, async { Err(()) })), Err(()));
    assert_eq!(block_on(cache.get_or_insert_async::<()>(&4, async { Ok(4) })), Ok(4));
}

pub(super) fn test_retain(small: u64, big: u64) {
    let cache = Numbers::new(100);
    for i in 0..10 {
        assert_eq!(cache.get_value_or_guard(&i, || Some(i)), GuardResult::Guard(true));
        assert_eq!(cache.get_value_or_guard(&i, || unreachable!()), GuardResult::Value(i));
    }
    cache.retain(|&key, &value| value > small && key > small);
    for i in 0..10 {
        assert_eq!(cache.get(&i), (i > small).then_some(i));
    }
    cache.retain(|&key, &value| value < big && key < big);
    for i in 0..10 {
        assert_eq!(cache.get(&i), (i > small && i < big).then_some(i));
    }
}

pub(super) fn test_iter() {
    let cache = Numbers::new(100_000);
    (0..50_000).for_each(|i| cache.insert(i, i));
    assert_eq!(cache.len(), 50_000);
    let mut entries: Vec<_> = cache.iter().collect();
    entries.sort_unstable();
    assert!(entries.into_iter().eq((0..50_000).map(|i| (i, i))));
}

pub(super) fn test_drain() {
    let cache = Numbers::new(100_000);
    (0..50_000).for_each(|i| cache.insert(i, i));
    assert_eq!(cache.len(), 50_000);
    let mut entries = cache.drain();
    assert_eq!(cache.len(), 0);
    entries.sort_unstable();
    assert!(entries.into_iter().eq((0..50_000).map(|i| (i, i))));
}

pub(super) fn test_set_capacity() {
    let cache = Numbers::new(100);
    (0..80).for_each(|i| cache.insert(i, i));
    assert!(cache.len() <= 80);
    cache.set_capacity(50);
    assert!(cache.len() <= 50 && cache.weight() <= 50);
    cache.set_capacity(200);
    assert_eq!(cache.capacity(), 200);
    (100..180).for_each(|i| cache.insert(i, i));
    assert!(cache.len() <= 180 && cache.weight() <= 200);
}

pub(super) fn test_set_capacity_with_ghosts() {
    let cache = Numbers::new(50);
    (0..100).for_each(|i| cache.insert(i, i));
    cache.set_capacity(25);
    assert!(cache.weight() <= 25);
    cache.set_capacity(100);
    assert_eq!(cache.capacity(), 100);
    (100..150).for_each(|i| cache.insert(i, i));
    assert!(cache.weight() <= 100);
}

pub(super) fn test_remove_if() {
    let cache = Numbers::new(100);
    [(1, 10), (2, 20), (3, 30)].into_iter().for_each(|(key, value)| cache.insert(key, value));
    assert_eq!(cache.remove_if(&2, |&value| value == 20), Some((2, 20)));
    assert_eq!(cache.get(&2), None);
    assert_eq!(cache.remove_if(&3, |&value| value == 999), None);
    assert_eq!(cache.get(&3), Some(30));
    assert_eq!(cache.remove_if(&999, |_| true), None);
}

fn fill<T>(cache: &Numbers, vacant: EntryResult<u64, T>, key: u64, value: u64) {
    assert!(matches!(vacant, EntryResult::Vacant | EntryResult::Replaced(_)));
    assert_eq!(cache.get_value_or_guard(&key, || Some(value)), GuardResult::Guard(true));
}

pub(super) fn test_entry_actions() {
    let cache = Numbers::new(100);
    cache.insert(1, 10);
    cache.insert(2, 20);
    let look = |value: &mut u64| EntryAction::Retain(*value);
    assert_eq!(cache.entry(&1, look), EntryResult::Retained(10));
    assert_eq!(cache.get(&1), Some(10));
    let add = |value: &mut u64| {
        *value += 5;
        EntryAction::Retain(())
    };
    assert_eq!(cache.entry(&1, add), EntryResult::Retained(()));
    assert_eq!(cache.get(&1), Some(15));
    assert_eq!(cache.entry(&1, |_| EntryAction::<()>::Remove), EntryResult::Removed(15));
    assert_eq!(cache.get(&1), None);
    fill(&cache, cache.entry(&1, look), 1, 99);
    assert_eq!(cache.get(&1), Some(99));

    let replaced = cache.entry(&2, |_| EntryAction::<()>::ReplaceWithGuard);
    assert_eq!(replaced, EntryResult::Replaced(20));
    fill(&cache, replaced, 2, 120);
    assert_eq!(cache.get(&2), Some(120));
    // And then the guard is abandoned.
    let replaced = cache.entry(&2, |_| EntryAction::<()>::ReplaceWithGuard);
    assert_eq!(replaced, EntryResult::Replaced(120));
    assert_eq!(cache.get_value_or_guard(&2, || None), GuardResult::Guard(false));
    assert_eq!(cache.get(&2), None);

    assert_eq!(cache.entry(&3, look), EntryResult::Vacant);
    fill(&cache, EntryResult::<_, ()>::Vacant, 3, 30);
    assert_eq!(cache.get(&3), Some(30));
}

/// In a task; operations that never wait are the same in ours.
pub(super) fn test_entry_async_actions() {
    block_on(async {
        let cache = Numbers::new(100);
        cache.insert(1, 10);
        cache.insert(2, 20);
        let look = |value: &mut u64| EntryAction::Retain(*value);
        assert_eq!(cache.entry(&1, look), EntryResult::Retained(10));
        assert_eq!(cache.entry(&1, |_| EntryAction::<()>::Remove), EntryResult::Removed(10));
        assert_eq!(cache.get(&1), None);
        let replaced = cache.entry(&2, |_| EntryAction::<()>::ReplaceWithGuard);
        assert_eq!(replaced, EntryResult::Replaced(20));
        assert_eq!(
            cache.get_value_or_guard_async(&2, async { Some(42) }).await,
            GuardResult::Guard(true)
        );
        assert_eq!(cache.get(&2), Some(42));
        assert_eq!(cache.entry(&3, look), EntryResult::Vacant);
        assert_eq!(
            cache.get_value_or_guard_async(&3, async { Some(99) }).await,
            GuardResult::Guard(true)
        );
        assert_eq!(cache.get(&3), Some(99));
    });
}

pub(super) fn test_entry_weight_tracking() {
    let cache = by_length(100, 100_000);
    cache.insert(1, "hello".to_owned());
    cache.insert(2, "world".to_owned());
    assert_eq!(cache.weight(), 10);
    let change = |key, change: fn(&mut String)| {
        let changed = cache.entry(&key, |value| {
            change(value);
            EntryAction::Retain(())
        });
        assert_eq!(changed, EntryResult::Retained(()));
    };
    change(1, |_| {});
    assert_eq!(cache.weight(), 10);
    change(1, |value| value.push_str(" world"));
    assert_eq!(cache.weight(), 16);
    assert_eq!(cache.get(&1).as_deref(), Some("hello world"));
    change(1, String::clear);
    assert_eq!(cache.weight(), 5);
    assert_eq!(cache.get(&1).as_deref(), Some(""));
    let removed = cache.entry(&2, |_| EntryAction::<()>::Remove);
    assert_eq!(removed, EntryResult::Removed("world".to_owned()));
    assert_eq!((cache.weight(), cache.len()), (0, 1));

    cache.insert(3, "hello".to_owned());
    assert_eq!(cache.weight(), 5);
    let replaced = cache.entry(&3, |_| EntryAction::<()>::ReplaceWithGuard);
    assert_eq!(replaced, EntryResult::Replaced("hello".to_owned()));
    assert_eq!(cache.weight(), 0);
    cache.get_value_or_guard(&3, || Some("hello world!!".to_owned()));
    assert_eq!(cache.weight(), 13);
}

pub(super) fn test_entry_eviction() {
    let look = |value: &mut u64| EntryAction::Retain(*value);
    let cache = Numbers::new(2);
    cache.insert(1, 10);
    cache.insert(2, 20);
    assert_eq!(cache.len(), 2);
    fill(&cache, cache.entry(&3, look), 3, 30);
    assert!(cache.len() <= 2);
    assert_eq!(cache.get(&3), Some(30));
    let cache = Numbers::new(0);
    fill(&cache, cache.entry(&1, look), 1, 10);
    assert_eq!(cache.get(&1), None);
}

/// In theirs entries of weight 0 stay for ever.
pub(super) fn test_zero_weights() {
    let cache = Cache::<u64, u64>::with_weighter(100, 100, |_, &value| value);
    let churn = || (1..100).chain(1..100).for_each(|i| cache.insert(i, i));
    cache.insert(0, 0);
    assert_eq!(cache.weight(), 0);
    churn();
    assert_eq!(cache.get(&0), Some(0));
    assert!(cache.contains_key(&0));
    let before = cache.weight();
    cache.get_mut(&0, |value| *value += 1);
    assert_eq!(cache.weight(), before + 1);
    churn();
    assert_eq!(cache.get(&0), None);
    assert!(!cache.contains_key(&0));
    cache.insert(0, 1);
    let before = cache.weight();
    cache.get_mut(&0, |value| *value -= 1);
    assert_eq!(cache.weight(), before - 1);
    churn();
    assert_eq!(cache.get(&0), Some(0));
}

/// The next five: ours never wait, so they never report that they would have to.
pub(super) fn test_try_contains_key() {
    let cache = Numbers::new(100);
    cache.insert(1, 10);
    assert!(cache.contains_key(&1) && !cache.contains_key(&2));
}

pub(super) fn test_try_get() {
    let cache = Numbers::new(100);
    cache.insert(1, 10);
    assert_eq!([cache.get(&1), cache.get(&2)], [Some(10), None]);
}

pub(super) fn test_try_peek() {
    let cache = Numbers::new(100);
    cache.insert(1, 10);
    assert_eq!([cache.peek(&1), cache.peek(&2)], [Some(10), None]);
}

pub(super) fn test_try_remove() {
    let cache = Numbers::new(100);
    cache.insert(1, 10);
    assert_eq!(cache.remove(&1), Some((1, 10)));
    assert_eq!([cache.remove(&1), cache.remove(&99)], [None, None]);
}

pub(super) fn test_try_insert() {
    let cache = Numbers::new(100);
    for value in [10, 20] {
        cache.insert(1, value);
        assert_eq!(cache.get(&1), Some(value));
    }
}

pub(super) fn test_guard_drop_after_overwrite_insert() {
    let cache = Numbers::new(8);
    let given_up = cache.get_value_or_guard(&1, || {
        cache.insert(1, 100);
        assert_eq!(cache.get(&1), Some(100));
        None
    });
    assert_eq!(given_up, GuardResult::Guard(false));
    assert_eq!(cache.get(&1), Some(100));
}

pub(super) fn test_guard_drop_after_remove_and_reuse() {
    let cache = Numbers::new(8);
    let given_up = cache.get_value_or_guard(&1, || {
        cache.remove(&1);
        cache.insert(2, 222);
        assert_eq!(cache.get(&2), Some(222));
        None
    });
    assert_eq!(given_up, GuardResult::Guard(false));
    assert_eq!(cache.get(&2), Some(222));
}

/// Two references that represent a pair.
#[derive(Hash)]
struct Pair<A, B>(A, B);

impl<A, B, C, D> Equivalent<(C, D)> for Pair<A, B>
where
    A: PartialEq<C>,
    B: PartialEq<D>,
{
    fn equivalent(&self, rhs: &(C, D)) -> bool {
        self.0 == rhs.0 && self.1 == rhs.1
    }
}

pub(super) fn test_equivalent() {
    let cache = Cache::<(String, u64), &'static str>::new(5);
    cache.insert(("square".to_owned(), 2022), "blue");
    cache.insert(("square".to_owned(), 2023), "black");
    assert_eq!(cache.get(&Pair("square", 2022)), Some("blue"));
}

pub(super) fn test_borrow_keys() {
    let cache = Cache::<(Vec<u8>, Vec<u8>), u64>::new(1);
    assert_eq!(cache.get(&Pair(&b""[..], &b""[..])), None);
    let cache = Cache::<(String, String), u64>::new(1);
    assert_eq!(cache.get(&Pair("", "")), None);
}
