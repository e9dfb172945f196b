//! Priorities of entries that can be held: which of them are evicted first, and that none stays for
//! ever.

use std::cell::RefCell;
use std::collections::BTreeMap;

use frazil::{HandleCache, Policy, Priority};

use crate::handle_model::validate;

/// Policies with priorities.
const POLICIES: [Policy; 5] = [
    Policy::Clock { bits: 1 },
    Policy::Clock { bits: 2 },
    Policy::Mobius,
    Policy::S3Fifo,
    Policy::Lru,
];

const PRIORITIES: [Priority; 3] = [Priority::Bottom, Priority::Low, Priority::High];

thread_local! {
    /// When keys were evicted, as the number of insertions before.
    static EVICTED: RefCell<BTreeMap<u64, u64>> = const { RefCell::new(BTreeMap::new()) };
    static INSERTIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A value whose drop is noted.
struct Noted(u64);

impl Drop for Noted {
    fn drop(&mut self) {
        EVICTED.with_borrow_mut(|evicted| evicted.insert(self.0, INSERTIONS.get()));
    }
}

type Tested = HandleCache<u64, Noted>;

fn cache(policy: Policy, capacity: u64) -> Tested {
    EVICTED.with_borrow_mut(BTreeMap::clear);
    INSERTIONS.set(0);
    HandleCache::builder(capacity).policy(policy).build()
}

fn insert(cache: &Tested, key: u64, priority: Priority) {
    INSERTIONS.set(INSERTIONS.get() + 1);
    assert!(cache.insert_with(key, Noted(key), 1, priority).is_ok(), "{key}");
}

/// New entries of low priority, each used often enough to stay for a while.
fn insert_used(cache: &Tested, keys: std::ops::Range<u64>) {
    for key in keys {
        insert(cache, key, Priority::Low);
        (0..3).for_each(|_| drop(cache.hold(&key)));
    }
}

fn evicted_at(key: u64) -> Option<u64> {
    EVICTED.with_borrow(|evicted| evicted.get(&key).copied())
}

/// The key of the entry `number` of a priority, among the compared entries.
fn key(number: u64, priority: Priority) -> u64 {
    10 * number + priority as u64
}

/// Unused entries: all of a priority are evicted before any of a higher one, and those of the
/// highest too.
#[test]
fn high_outlives_low_outlives_bottom_and_all_leave() {
    const EACH: u64 = 8;
    for policy in POLICIES {
        let mut cache = cache(policy, 100);
        insert_used(&cache, 1_000..1_100 - 3 * EACH);
        for number in 0..EACH {
            // In all orders.
            for turn in 0..3 {
                let priority = PRIORITIES[((number + turn) % 3) as usize];
                insert(&cache, key(number, priority), priority);
            }
        }
        assert_eq!(cache.usage(), 100, "{policy}: all are there");
        insert_used(&cache, 2_000..3_000);
        let left = PRIORITIES.map(|priority| {
            let evicted = (0..EACH).map(|number| evicted_at(key(number, priority)));
            let evicted: Option<Vec<u64>> = evicted.collect();
            let evicted = evicted.unwrap_or_else(|| panic!("{policy}: {priority:?} stays"));
            (evicted.iter().min().copied(), evicted.iter().max().copied())
        });
        let [bottom, low, high] = left;
        assert!(bottom.1 < low.0 && low.1 < high.0, "{policy}: {left:?}");
        validate(&mut cache);
    }
}

/// Entries of the lowest priority replace each other.
#[test]
fn a_scan_of_the_lowest_priority_evicts_nothing_else() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100);
        // They are not used.
        (0..90).for_each(|key| insert(&cache, key, Priority::Low));
        (1_000..5_000).for_each(|key| insert(&cache, key, Priority::Bottom));
        assert!((0..90).all(|key| cache.hold(&key).is_some()), "{policy}");
        assert!((4_990..5_000).all(|key| cache.hold(&key).is_some()), "{policy}: the newest stay");
        assert_eq!(cache.usage(), 100, "{policy}");
        validate(&mut cache);
    }
}

/// A scan by several readers that hold more entries than fit beside the others.
#[test]
fn what_is_held_of_the_lowest_priority_stays_of_it() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100);
        (0..96).for_each(|key| insert(&cache, key, Priority::Low));
        let mut held = std::collections::VecDeque::new();
        for key in 1_000..3_000 {
            let new = cache.insert_held_with(key, Noted(key), 1, Priority::Bottom);
            held.push_back(new.expect("it is not strict").held);
            if held.len() > 6 {
                held.pop_front();
            }
        }
        let left = (0..96).filter(|key| evicted_at(*key).is_none()).count();
        assert!(left >= 88, "{policy}: {left}");
        validate(&mut cache);
    }
}

/// If all entries have the lowest priority, an eviction looks behind held ones.
#[test]
fn the_lowest_are_found_behind_what_is_held() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100);
        let held: Vec<_> = (0..40)
            .map(|key| cache.insert_held_with(key, Noted(key), 1, Priority::Bottom))
            .collect();
        (40..100).for_each(|key| insert(&cache, key, Priority::Bottom));
        (200..240).for_each(|key| insert(&cache, key, Priority::Low));
        assert!(held.iter().all(|held| held.is_ok()), "{policy}");
        assert_eq!((cache.usage(), cache.held_usage()), (100, 40), "{policy}");
        validate(&mut cache);
    }
}

/// A hit makes all entries alike.
#[test]
fn an_entry_of_the_lowest_priority_that_is_hit_stays() {
    for policy in POLICIES {
        let mut cache = cache(policy, 100);
        insert_used(&cache, 0..50);
        (100..110).for_each(|key| insert(&cache, key, Priority::Bottom));
        (100..110).for_each(|key| (0..3).for_each(|_| drop(cache.hold(&key))));
        (200..260).for_each(|key| insert(&cache, key, Priority::Low));
        assert!((100..110).all(|key| evicted_at(key).is_none()), "{policy}");
        insert_used(&cache, 1_000..2_000);
        assert!((100..110).all(|key| evicted_at(key).is_some()), "{policy}: as others");
        validate(&mut cache);
    }
}

#[test]
fn fifo_ignores_priorities() {
    let cache = cache(Policy::Fifo, 3);
    insert(&cache, 1, Priority::High);
    insert(&cache, 2, Priority::Low);
    insert(&cache, 3, Priority::Bottom);
    for next in 1..=3 {
        insert(&cache, 10 + next, Priority::Low);
        assert!(evicted_at(next).is_some() && evicted_at(next + 1).is_none());
    }
}

/// More than the small queue may hold, with a full cache.
#[test]
fn s3_fifo_admits_what_is_heavy_and_of_high_priority() {
    let mut cache = cache(Policy::S3Fifo, 100);
    insert_used(&cache, 0..150);
    (500..505).for_each(|key| insert(&cache, key, Priority::Bottom));
    let heavy = |key, priority| cache.insert_with(key, Noted(key), 30, priority).is_ok();
    assert!(!heavy(1_000, Priority::Low) && !heavy(1_001, Priority::Bottom));
    assert!(evicted_at(504).is_none(), "nothing goes for what is refused");
    assert!(heavy(1_002, Priority::High) && cache.hold(&1_002).is_some());
    validate(&mut cache);
}

/// A key in the ghost queue would be admitted although it is heavy.
#[test]
fn s3_fifo_forgets_what_came_with_the_lowest_priority() {
    let cache = cache(Policy::S3Fifo, 100);
    insert_used(&cache, 0..150);
    let heavy = |key| cache.insert(key, Noted(key), 30).is_ok();
    for (first, priority) in [(1_000, Priority::Bottom), (2_000, Priority::Low)] {
        (first..first + 30).for_each(|key| insert(&cache, key, priority));
        assert!(evicted_at(first).is_some(), "{priority:?}");
        assert_eq!(heavy(first), priority == Priority::Low, "{priority:?}");
    }
}

/// If each entry is published by itself, one that leaves the bottom queue takes its own segment.
#[test]
fn the_lowest_may_go_to_nothing_though_all_were_hit() {
    for policy in POLICIES {
        let mut cache = cache(policy, 1 << 20);
        (0..200).for_each(|key| insert(&cache, key, Priority::Bottom));
        (0..200).for_each(|key| drop(cache.hold(&key)));
        assert_eq!((cache.set_capacity(0), cache.len()), (0, 0), "{policy}");
        validate(&mut cache);
    }
}
