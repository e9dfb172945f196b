//! Look-ups by queries equivalent to the keys: borrowed parts of a pair.

use std::sync::mpsc::channel;
use std::time::Duration;

use crate::extent::policies;
use frazil::{Cache, Equivalent, Freezing, Policy};

type Key = (String, u32);

/// Hashes as the pair does.
#[derive(Hash)]
struct Row<'q>(&'q str, u32);

impl Equivalent<Key> for Row<'_> {
    fn equivalent(&self, (table, row): &Key) -> bool {
        self.0 == table && self.1 == *row
    }
}

/// The same for a pair of numbers, which may be copied.
#[derive(Hash)]
struct Cell<'q>(&'q u32, &'q u32);

impl Equivalent<(u32, u32)> for Cell<'_> {
    fn equivalent(&self, key: &(u32, u32)) -> bool {
        (*self.0, *self.1) == *key
    }
}

#[test]
fn every_look_up_takes_what_is_equivalent() {
    for policy in policies() {
        let cache: Cache<Key, u64> = Cache::builder(100).policy(policy).build();
        (0..10).for_each(|row| cache.insert(("table".to_owned(), row), row.into()));
        assert_eq!(cache.get(&Row("table", 7)), Some(7), "{policy}");
        assert_eq!(cache.get(&Row("other", 7)), None, "{policy}");
        assert_eq!(cache.get(&("table".to_owned(), 7)), Some(7), "{policy}: and the key itself");
        let rows = [Row("table", 1), Row("table", 10)];
        assert_eq!(cache.get_many(&rows), [Some(1), None], "{policy}");
        assert_eq!(cache.peek(&Row("table", 2)), Some(2), "{policy}");
        assert!(cache.contains_key(&Row("table", 3)), "{policy}");
        assert_eq!(cache.lifetime_left(&Row("table", 3)), Some(Duration::MAX), "{policy}");
        let pin = cache.pin();
        assert_eq!(pin.get(&Row("table", 4)), Some(&4), "{policy}");
        assert_eq!(pin.peek(&Row("table", 4)), Some((&("table".to_owned(), 4), &4)), "{policy}");
        assert_eq!(cache.remove(&Row("table", 5)), Some(5), "{policy}");
        assert!(cache.invalidate(&Row("table", 6)), "{policy}");
        assert_eq!(cache.len(), 8, "{policy}");
    }
}

#[test]
fn what_is_frozen_is_found_so_too() {
    let places = Cache::<(u32, u32), u32>::builder(10).freezing(Freezing::ByHand);
    let copies = Cache::<(u32, u32), u32>::builder(10).freezing_copies(Freezing::ByHand);
    for builder in [places, copies] {
        let cache = builder.policy(Policy::Lru).build();
        (0..10).for_each(|number| cache.insert((number, number), number));
        assert_eq!(cache.freeze(1.0), 10);
        assert_eq!((cache.get(&Cell(&3, &3)), cache.get(&Cell(&3, &4))), (Some(3), None));
        assert_eq!(cache.pin().get(&Cell(&4, &4)), Some(&4));
        assert_eq!(cache.stats().frozen_hits, 2);
    }
}

/// A removal by an equivalent key finds the key being loaded.
#[test]
fn a_removal_overtakes_a_load() {
    let cache: Cache<Key, u64> = Cache::builder(10).build();
    let (started, starts) = channel();
    let (go_on, goes_on) = channel();
    std::thread::scope(|scope| {
        let cache = &cache;
        let load = move || {
            cache.get_or_insert_with(&("table".to_owned(), 1), || {
                started.send(()).unwrap();
                goes_on.recv().unwrap();
                1
            })
        };
        let loading = scope.spawn(load);
        starts.recv().unwrap();
        assert!(!cache.invalidate(&Row("table", 1)));
        go_on.send(()).unwrap();
        assert_eq!(loading.join().unwrap(), 1);
    });
    assert_eq!(cache.get(&Row("table", 1)), None, "it was loaded before it was invalidated");
}
