//! The tests of lru.

use std::cell::Cell;
use std::hash::RandomState;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use frazil::Policy;

use super::adapter::LruCache;
use crate::case::number;

type Words = LruCache<&'static str, &'static str>;
type Counts = LruCache<&'static str, u64>;
type Numbers = LruCache<u64, &'static str>;

/// A cache of capacity two with an apple and a banana.
fn fruit() -> Words {
    let cache = Words::new(2);
    assert!(cache.is_empty());
    assert_eq!(cache.put("apple", "red"), None);
    assert_eq!(cache.put("banana", "yellow"), None);
    assert_eq!((cache.cap(), cache.len(), cache.is_empty()), (2, 2, false));
    cache
}

fn abc() -> Counts {
    let cache = Counts::new(3);
    for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
        cache.put(key, value);
    }
    cache
}

pub(super) fn test_unbounded() {
    let cache = LruCache::<u64, ()>::unbounded();
    (0..13_370).for_each(|i| _ = cache.put(i, ()));
    assert_eq!(cache.len(), 13_370);
}

pub(super) fn test_with_hasher() {
    let cache = frazil::Cache::<u64, ()>::builder(16)
        .policy(Policy::Lru)
        .with_hasher(RandomState::new())
        .build();
    (0..13_370).for_each(|i| cache.insert(i, ()));
    assert_eq!(number(cache.len()), 16);
}

pub(super) fn test_put_and_get() {
    let cache = fruit();
    assert_eq!(cache.get("apple"), Some("red"));
    assert_eq!(cache.get("banana"), Some("yellow"));
}

pub(super) fn test_put_and_get_or_insert() {
    let cache = fruit();
    assert_eq!(cache.get_or_insert("apple", || "orange"), "red");
    assert_eq!(cache.get_or_insert("banana", || "orange"), "yellow");
    assert_eq!(cache.get_or_insert("lemon", || "orange"), "orange");
    assert_eq!(cache.get_or_insert("lemon", || "red"), "orange");
}

fn length(key: &&'static str) -> u64 {
    key.len() as u64
}

pub(super) fn test_put_and_get_or_insert_with_key() {
    let cache = Counts::new(2);
    cache.put("apple", 2);
    cache.put("banana", 8);
    assert_eq!(cache.get_or_insert_with_key("apple", length), 2);
    assert_eq!(cache.get_or_insert_with_key("banana", length), 8);
    assert_eq!(cache.get_or_insert_with_key("lemon", length), 5);
    assert_eq!(cache.get_or_insert_with_key("lemon", |key| length(key) + 3), 5);
}

/// Two keys that are also held elsewhere.
fn shared_keys() -> ([Rc<String>; 2], LruCache<Rc<String>, &'static str>) {
    (["1", "2"].map(|key| Rc::new(key.to_owned())), LruCache::new(2))
}

pub(super) fn test_get_or_insert_ref() {
    let ([one, two], cache) = shared_keys();
    assert!(cache.is_empty());
    assert_eq!(cache.get_or_insert_ref(&one, || "one"), "one");
    assert_eq!(cache.get_or_insert_ref(&two, || "two"), "two");
    assert_eq!((cache.len(), cache.is_empty()), (2, false));
    for value in ["not two", "nor this"] {
        assert_eq!(cache.get_or_insert_ref(&two, || value), "two");
    }
    assert_eq!([&one, &two].map(Rc::strong_count), [2, 2]);
}

pub(super) fn test_try_get_or_insert() {
    let cache = Words::new(2);
    let fails = |_: &&'static str| Err("failed");
    assert_eq!(cache.try_get_or_insert::<&str>("apple", |_| Ok("red")), Ok("red"));
    assert_eq!(cache.try_get_or_insert("apple", fails), Ok("red"));
    assert_eq!(cache.try_get_or_insert::<&str>("banana", |_| Ok("orange")), Ok("orange"));
    assert_eq!(cache.try_get_or_insert("lemon", fails), Err("failed"));
    assert_eq!(cache.try_get_or_insert("banana", fails), Ok("orange"));
}

pub(super) fn test_try_get_or_insert_with_key() {
    let cache = Counts::new(2);
    let fails = |_: &&'static str| Err("failed");
    assert_eq!(cache.try_get_or_insert::<&str>("apple", |key| Ok(length(key))), Ok(5));
    assert_eq!(cache.try_get_or_insert("apple", fails), Ok(5));
    assert_eq!(cache.try_get_or_insert::<&str>("banana", |key| Ok(length(key))), Ok(6));
    assert_eq!(cache.try_get_or_insert("lemon", fails), Err("failed"));
    assert_eq!(cache.try_get_or_insert("banana", fails), Ok(6));
}

pub(super) fn test_try_get_or_insert_ref() {
    let ([one, two], cache) = shared_keys();
    assert_eq!(cache.try_get_or_insert_ref::<()>(&one, || Ok("one")), Ok("one"));
    assert_eq!(cache.try_get_or_insert_ref(&two, || Err(())), Err(()));
    assert_eq!(cache.try_get_or_insert_ref::<()>(&two, || Ok("two")), Ok("two"));
    assert_eq!(cache.try_get_or_insert_ref::<()>(&two, || Ok("one")), Ok("two"));
    assert_eq!(cache.len(), 2);
    assert_eq!([&one, &two].map(Rc::strong_count), [2, 2]);
}

pub(super) fn test_put_and_get_or_insert_mut() {
    let cache = fruit();
    assert_eq!(cache.get_or_insert("apple", || "orange"), "red");
    assert_eq!(cache.get_mut(&"apple", |value| *value = "blue"), Some("blue"));
    assert_eq!(cache.get_or_insert("apple", || "orange"), "blue");
    assert_eq!(cache.get_or_insert("banana", || "orange"), "yellow");
    assert_eq!(cache.get_or_insert("lemon", || "orange"), "orange");
    assert_eq!(cache.get_or_insert("lemon", || "red"), "orange");
}

pub(super) fn test_put_and_get_or_insert_mut_with_key() {
    let cache = Counts::new(2);
    cache.put("apple", 2);
    cache.put("banana", 8);
    assert_eq!(cache.get_or_insert_with_key("apple", length), 2);
    assert_eq!(cache.get_mut(&"apple", |value| *value = 4), Some(4));
    assert_eq!(cache.get_or_insert_with_key("apple", length), 4);
    assert_eq!(cache.get_or_insert_with_key("banana", length), 8);
    assert_eq!(cache.get_or_insert_with_key("lemon", length), 5);
    assert_eq!(cache.get_or_insert_with_key("lemon", |_| 0), 5);
}

pub(super) fn test_get_or_insert_mut_ref() {
    let ([one, two], cache) = shared_keys();
    assert_eq!(cache.get_or_insert_ref(&one, || "one"), "one");
    assert_eq!(cache.get_or_insert_ref(&two, || "two"), "two");
    cache.get_mut(&two, |value| *value = "new two");
    assert_eq!(cache.get_or_insert_ref(&two, || "two"), "new two");
    assert_eq!([&one, &two].map(Rc::strong_count), [2, 2]);
}

pub(super) fn test_try_get_or_insert_mut() {
    let cache = Numbers::new(2);
    for (key, value) in [(1, "a"), (2, "b"), (2, "c")] {
        cache.put(key, value);
    }
    let loads = |value| move |_: &u64| Ok::<_, &str>(value);
    assert_eq!(cache.try_get_or_insert(2, loads("a")), Ok("c"));
    cache.get_mut(&2, |value| *value = "d");
    assert_eq!(cache.try_get_or_insert(2, loads("a")), Ok("d"));
    assert_eq!(cache.try_get_or_insert(3, |_| Err("failed")), Err("failed"));
    assert_eq!(cache.try_get_or_insert(4, loads("b")), Ok("b"));
    assert_eq!(cache.try_get_or_insert(4, loads("a")), Ok("b"));
}

pub(super) fn test_try_get_or_insert_mut_with_key() {
    let cache = Counts::new(2);
    for (key, value) in [("One", 1), ("Two", 2), ("Two", 3)] {
        cache.put(key, value);
    }
    let fails = |_: &&'static str| Err("failed");
    let loads = |key: &&'static str| Ok::<_, &str>(length(key));
    assert_eq!(cache.try_get_or_insert("Two", fails), Ok(3));
    cache.get_mut(&"Two", |value| *value = 6);
    assert_eq!(cache.try_get_or_insert("Two", loads), Ok(6));
    assert_eq!(cache.try_get_or_insert("Three", fails), Err("failed"));
    assert_eq!(cache.try_get_or_insert("Four", loads), Ok(4));
    assert_eq!(cache.try_get_or_insert::<&str>("Four", |_| Ok(0)), Ok(4));
}

pub(super) fn test_try_get_or_insert_mut_ref() {
    let ([one, two], cache) = shared_keys();
    assert_eq!(cache.try_get_or_insert_ref::<()>(&one, || Ok("one")), Ok("one"));
    assert_eq!(cache.try_get_or_insert_ref(&two, || Err(())), Err(()));
    assert_eq!(cache.try_get_or_insert_ref::<()>(&two, || Ok("two")), Ok("two"));
    cache.get_mut(&two, |value| *value = "new two");
    assert_eq!(cache.try_get_or_insert_ref::<()>(&two, || Ok("one")), Ok("new two"));
    assert_eq!([&one, &two].map(Rc::strong_count), [2, 2]);
}

pub(super) fn test_put_and_get_mut() {
    let cache = fruit();
    assert_eq!(cache.get_mut(&"apple", |_| {}), Some("red"));
    assert_eq!(cache.get_mut(&"banana", |_| {}), Some("yellow"));
}

pub(super) fn test_get_mut_and_update() {
    let cache = Counts::new(2);
    cache.put("apple", 1);
    cache.put("banana", 3);
    cache.get_mut(&"apple", |value| *value = 4);
    assert_eq!((cache.cap(), cache.len()), (2, 2));
    assert_eq!(cache.get_mut(&"apple", |_| {}), Some(4));
    assert_eq!(cache.get_mut(&"banana", |_| {}), Some(3));
}

pub(super) fn test_put_update() {
    let cache = Words::new(2);
    assert_eq!(cache.put("apple", "red"), None);
    assert_eq!(cache.put("apple", "green"), Some("red"));
    assert_eq!((cache.len(), cache.get("apple")), (1, Some("green")));
}

pub(super) fn test_put_removes_oldest() {
    let cache = fruit();
    assert_eq!(cache.put("pear", "green"), None);
    assert_eq!(
        ["apple", "banana", "pear"].map(|key| cache.get(key)),
        [None, Some("yellow"), Some("green")]
    );
    // The banana is evicted first, because the pear was found later.
    assert_eq!(cache.put("apple", "green"), None);
    assert_eq!(cache.put("tomato", "red"), None);
    assert_eq!(cache.get("pear"), None);
    assert_eq!([cache.get("apple"), cache.get("tomato")], [Some("green"), Some("red")]);
}

pub(super) fn test_peek() {
    let cache = fruit();
    assert_eq!([cache.peek(&"banana"), cache.peek(&"apple")], [Some("yellow"), Some("red")]);
    cache.put("pear", "green");
    let left = ["apple", "banana", "pear"].map(|key| cache.peek(&key));
    assert_eq!(left, [None, Some("yellow"), Some("green")]);
}

pub(super) fn test_peek_mut() {
    let cache = fruit();
    let look = |key| cache.peek_mut(&key, |_| {});
    assert_eq!(["banana", "apple", "pear"].map(look), [Some("yellow"), Some("red"), None]);
    cache.put("pear", "green");
    assert_eq!(["apple", "banana", "pear"].map(look), [None, Some("yellow"), Some("green")]);
    cache.peek_mut(&"banana", |value| *value = "green");
    assert_eq!(look("banana"), Some("green"));
}

pub(super) fn test_peek_lru() {
    let cache = Words::new(2);
    assert_eq!(cache.peek_lru(), None);
    cache.put("apple", "red");
    cache.put("banana", "yellow");
    assert_eq!(cache.peek_lru(), Some(("apple", "red")));
    cache.get("apple");
    assert_eq!(cache.peek_lru(), Some(("banana", "yellow")));
    cache.clear();
    assert_eq!(cache.peek_lru(), None);
}

pub(super) fn test_peek_mru() {
    let cache = Words::new(2);
    assert_eq!(cache.peek_mru(), None);
    cache.put("apple", "red");
    cache.put("banana", "yellow");
    assert_eq!(cache.peek_mru(), Some(("banana", "yellow")));
    cache.get("apple");
    assert_eq!(cache.peek_mru(), Some(("apple", "red")));
    cache.clear();
    assert_eq!(cache.peek_mru(), None);
}

pub(super) fn test_contains() {
    let cache = fruit();
    cache.put("pear", "green");
    assert_eq!(["apple", "banana", "pear"].map(|key| cache.contains(&key)), [false, true, true]);
}

pub(super) fn test_pop() {
    let cache = fruit();
    assert_eq!([cache.get("apple"), cache.get("banana")], [Some("red"), Some("yellow")]);
    assert_eq!(cache.pop(&"apple"), Some("red"));
    assert_eq!(cache.len(), 1);
    assert_eq!([cache.get("apple"), cache.get("banana")], [None, Some("yellow")]);
}

pub(super) fn test_pop_entry() {
    let cache = fruit();
    assert_eq!([cache.get("apple"), cache.get("banana")], [Some("red"), Some("yellow")]);
    assert_eq!(cache.pop_entry(&"apple"), Some(("apple", "red")));
    assert_eq!(cache.len(), 1);
    assert_eq!([cache.get("apple"), cache.get("banana")], [None, Some("yellow")]);
}

/// Three groups of 75 in a cache of 200; the second was used backward, and then key 25.
fn groups() -> Numbers {
    let cache = Numbers::new(200);
    for (group, value) in [(0, "A"), (100, "B"), (200, "C")] {
        (group..group + 75).for_each(|key| _ = cache.put(key, value));
    }
    assert_eq!(cache.len(), 200);
    (100..175).rev().for_each(|key| assert_eq!(cache.get(&key), Some("B")));
    assert_eq!(cache.get(&25), Some("A"));
    cache
}

/// The order in which the groups are evicted.
fn order_of_groups() -> impl DoubleEndedIterator<Item = (u64, &'static str)> {
    let first = (26..75).map(|key| (key, "A")).chain((200..275).map(|key| (key, "C")));
    first.chain((100..175).rev().map(|key| (key, "B"))).chain([(25, "A")])
}

pub(super) fn test_pop_lru() {
    let cache = groups();
    order_of_groups().for_each(|entry| assert_eq!(cache.pop_lru(), Some(entry)));
    (0..50).for_each(|_| assert_eq!(cache.pop_lru(), None));
}

pub(super) fn test_pop_mru() {
    let cache = groups();
    order_of_groups().rev().for_each(|entry| assert_eq!(cache.pop_mru(), Some(entry)));
    (0..50).for_each(|_| assert_eq!(cache.pop_mru(), None));
}

pub(super) fn test_clear() {
    let cache = fruit();
    assert_eq!([cache.get("apple"), cache.get("banana")], [Some("red"), Some("yellow")]);
    cache.clear();
    assert_eq!(cache.len(), 0);
}

pub(super) fn test_resize_larger() {
    let cache = Numbers::new(2);
    cache.put(1, "a");
    cache.put(2, "b");
    cache.resize(4);
    cache.put(3, "c");
    cache.put(4, "d");
    assert_eq!(cache.len(), 4);
    let all = [1, 2, 3, 4].map(|key| cache.get(&key));
    assert_eq!(all, [Some("a"), Some("b"), Some("c"), Some("d")]);
}

pub(super) fn test_resize_smaller() {
    let cache = Numbers::new(4);
    for (key, value) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        cache.put(key, value);
    }
    cache.resize(2);
    assert_eq!(cache.len(), 2);
    assert_eq!([1, 2, 3, 4].map(|key| cache.get(&key)), [None, None, Some("c"), Some("d")]);
}

pub(super) fn test_send() {
    let cache = Numbers::new(4);
    cache.put(1, "a");
    let thread = std::thread::spawn(move || assert_eq!(cache.get(&1), Some("a")));
    assert!(thread.join().is_ok());
}

pub(super) fn test_multiple_threads() {
    let cache = Numbers::new(4);
    cache.put(1, "a");
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(cache.peek(&1), Some("a")));
    });
    assert_eq!(cache.peek(&1), Some("a"));
}

pub(super) fn test_iter_forwards() {
    let cache = abc();
    let mut iter = cache.iter();
    for (left, entry) in [(3, ("c", 3)), (2, ("b", 2)), (1, ("a", 1))] {
        assert_eq!((iter.len(), iter.next()), (left, Some(entry)));
    }
    assert_eq!((iter.len(), iter.next()), (0, None));
}

pub(super) fn test_iter_backwards() {
    let cache = abc();
    let mut iter = cache.iter();
    for (left, entry) in [(3, ("a", 1)), (2, ("b", 2)), (1, ("c", 3))] {
        assert_eq!((iter.len(), iter.next_back()), (left, Some(entry)));
    }
    assert_eq!((iter.len(), iter.next_back()), (0, None));
}

pub(super) fn test_iter_forwards_and_backwards() {
    let cache = abc();
    let mut iter = cache.iter();
    assert_eq!((iter.len(), iter.next()), (3, Some(("c", 3))));
    assert_eq!((iter.len(), iter.next_back()), (2, Some(("a", 1))));
    assert_eq!((iter.len(), iter.next()), (1, Some(("b", 2))));
    assert_eq!((iter.len(), iter.next_back()), (0, None));
}

pub(super) fn test_iter_multiple_threads() {
    let cache = abc();
    let mut iter = cache.iter();
    assert_eq!((iter.len(), iter.next()), (3, Some(("c", 3))));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((iter.len(), iter.next()), (2, Some(("b", 2)))));
    });
    assert_eq!((iter.len(), iter.next()), (1, Some(("a", 1))));
    assert_eq!((iter.len(), iter.next()), (0, None));
}

pub(super) fn test_iter_clone() {
    let cache = Counts::new(3);
    cache.put("a", 1);
    cache.put("b", 2);
    let mut iters = [cache.iter(), cache.iter()];
    iters[1] = iters[0].clone();
    for (left, entry) in [(2, Some(("b", 2))), (1, Some(("a", 1))), (0, None)] {
        iters.iter_mut().for_each(|iter| assert_eq!((iter.len(), iter.next()), (left, entry)));
    }
}

pub(super) fn test_into_iter() {
    let mut iter = abc().into_entries();
    for (left, entry) in [(3, ("a", 1)), (2, ("b", 2)), (1, ("c", 3))] {
        assert_eq!((iter.len(), iter.next()), (left, Some(entry)));
    }
    assert_eq!((iter.len(), iter.next()), (0, None));
}

pub(super) fn test_that_pop_actually_detaches_node() {
    let cache = Counts::new(5);
    for (value, key) in (1..).zip(["a", "b", "c", "d", "e"]) {
        cache.put(key, value);
    }
    assert_eq!(cache.pop(&"c"), Some(3));
    cache.put("f", 6);
    assert!(cache.iter().eq([("f", 6), ("e", 5), ("d", 4), ("b", 2), ("a", 1)]));
}

pub(super) fn test_retain() {
    let cache = LruCache::<u64, u64>::new(5);
    (1..=5).for_each(|key| _ = cache.put(key, key * 10));
    cache.retain(|key, value| {
        *value *= 2;
        key % 2 == 0
    });
    assert_eq!(cache.len(), 2);
    let left = [1, 2, 3, 4, 5].map(|key| cache.peek(&key));
    assert_eq!(left, [None, Some(40), None, Some(80), None]);
    assert!(cache.iter().eq([(4, 80), (2, 40)]));
    cache.put(6, 60);
    assert!(cache.iter().eq([(6, 60), (4, 80), (2, 40)]));
}

pub(super) fn test_retain_all_and_none() {
    let cache = Numbers::new(3);
    cache.put(1, "a");
    cache.put(2, "b");
    cache.retain(|_, _| true);
    assert_eq!(cache.len(), 2);
    cache.retain(|_, _| false);
    assert_eq!((cache.len(), cache.is_empty()), (0, true));
}

/// Counts its drops.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// All values of a hundred caches, a hundred each, are dropped exactly once at the end.
fn leaks_nothing(capacity: u64, end: impl Fn(&LruCache<u64, Counted>)) {
    let dropped = Arc::new(AtomicU64::new(0));
    for _ in 0..100 {
        let cache = LruCache::new(capacity);
        (0..100).for_each(|key| cache.put_quietly(key, Counted(Arc::clone(&dropped))));
        end(&cache);
    }
    assert_eq!(dropped.load(SeqCst), 100 * 100);
}

pub(super) fn test_no_memory_leaks() {
    leaks_nothing(1, |_| {});
}

pub(super) fn test_no_memory_leaks_with_retain() {
    leaks_nothing(1_000, |cache| cache.retain_quietly(|key, _| key % 2 == 0));
}

/// Their test of this name clears too, and does not resize; this one does both.
pub(super) fn test_no_memory_leaks_with_resize() {
    leaks_nothing(50, |cache| {
        cache.resize(10);
        cache.clear();
    });
}

pub(super) fn test_no_memory_leaks_with_clear() {
    leaks_nothing(1, LruCache::clear);
}

thread_local! {
    static KEYS_DROPPED: Cell<u64> = const { Cell::new(0) };
}

#[derive(PartialEq, Eq, Hash)]
struct CountedKey(u64);

impl Drop for CountedKey {
    fn drop(&mut self) {
        KEYS_DROPPED.set(KEYS_DROPPED.get() + 1);
    }
}

pub(super) fn test_no_memory_leaks_with_pop() {
    for _ in 0..100 {
        let cache = LruCache::new(1);
        for i in 0..100 {
            cache.put_quietly(CountedKey(i), i);
            assert!(cache.pop_quietly(&CountedKey(i)));
        }
    }
    assert_eq!(KEYS_DROPPED.get(), 100 * 100 * 2);
}

pub(super) fn test_get_with_borrow() {
    let cache = LruCache::new(2);
    cache.put("apple".to_owned(), "red");
    assert_eq!(cache.get("apple"), Some("red"));
}

pub(super) fn test_get_mut_with_borrow() {
    let cache = LruCache::new(2);
    cache.put("apple".to_owned(), "red");
    // To change a value ours needs an owned key.
    assert_eq!(cache.get_mut(&"apple".to_owned(), |_| {}), Some("red"));
}

pub(super) fn test_get_key_value() {
    let cache = LruCache::new(2);
    cache.put("apple".to_owned(), "red");
    assert_eq!(cache.get_key_value("apple"), Some(("apple".to_owned(), "red")));
    assert_eq!(cache.get_key_value("banana"), None);
}

pub(super) fn test_get_key_value_mut() {
    let cache = LruCache::new(2);
    cache.put("apple".to_owned(), "red");
    assert_eq!(cache.get_key_value("apple"), Some(("apple".to_owned(), "red")));
    cache.get_mut(&"apple".to_owned(), |value| *value = "green");
    assert_eq!(cache.get_key_value("apple"), Some(("apple".to_owned(), "green")));
    assert_eq!(cache.get_key_value("banana"), None);
}

/// A cache of three, with one promoted by its value; returns the order of evictions.
fn promoted(
    values: [&'static str; 3],
    wanted: &str,
    found: Option<(u64, &'static str)>,
    order: [u64; 3],
) {
    let cache = Numbers::new(3);
    (1..).zip(values).for_each(|(key, value)| _ = cache.put(key, value));
    assert_eq!(cache.find_and_promote(|_, value| *value == wanted), found);
    for key in order {
        assert_eq!(cache.pop_lru(), Some((key, values[key as usize - 1])));
    }
    assert_eq!(cache.pop_lru(), None);
}

pub(super) fn test_find_and_promote() {
    promoted(["a", "b", "c"], "b", Some((2, "b")), [1, 3, 2]);
}

pub(super) fn test_find_and_promote_no_match() {
    promoted(["a", "b", "c"], "d", None, [1, 2, 3]);
}

pub(super) fn test_find_and_promote_multiple_matches_picks_first_in_mru_order() {
    promoted(["b", "b", "x"], "b", Some((2, "b")), [1, 3, 2]);
}

fn clones(cache: Counts) {
    for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
        cache.put(key, value);
    }
    let clone = cache.duplicate();
    for entry in [Some(("a", 1)), Some(("b", 2)), Some(("c", 3)), None] {
        assert_eq!([cache.pop_lru(), clone.pop_lru()], [entry, entry]);
    }
}

pub(super) fn test_clone() {
    clones(Counts::new(3));
}

pub(super) fn test_clone_unbounded() {
    clones(Counts::unbounded());
}

pub(super) fn iter_mut_stacked_borrows_violation() {
    let cache = LruCache::<u64, u64>::new(3);
    (1..=3).for_each(|key| _ = cache.put(key, key * 10));
    cache.iter().for_each(|(key, _)| _ = cache.peek_mut(&key, |value| *value *= 2));
    assert_eq!([1, 2, 3].map(|key| cache.get(&key)), [Some(20), Some(40), Some(60)]);
}

static ARMED: AtomicBool = AtomicBool::new(false);

#[derive(PartialEq, Eq, Hash)]
struct PanickingKey(u64);

impl Drop for PanickingKey {
    fn drop(&mut self) {
        assert!(!ARMED.swap(false, SeqCst), "a key that panics when it is dropped");
    }
}

/// Ours may drop the key in a later operation, so any of several operations may panic.
pub(super) fn test_pop_panicking_key_drop_keeps_list_consistent() {
    let cache = LruCache::new(4);
    [1, 2, 3].into_iter().for_each(|key| cache.put_quietly(PanickingKey(key), "a"));
    let two = PanickingKey(2);
    ARMED.store(true, SeqCst);
    let attempt =
        |work: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err();
    let mut panicked = attempt(&|| assert!(cache.pop_quietly(&two)));
    for key in 4..40 {
        panicked |= attempt(&|| cache.put_quietly(PanickingKey(key), "d"));
    }
    assert!(panicked, "it is never dropped");
    assert_eq!(cache.len(), 4);
    assert!(!cache.contains(&two));
    assert!((36..40).all(|key| cache.contains(&PanickingKey(key))));
}
