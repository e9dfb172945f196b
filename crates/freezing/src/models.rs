//! Publication and reclamation, and writes against a freeze, under every interleaving.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;

use crate::published::{Claims, Published, Withdrawn};
use crate::{Host, Insertion, Mark, Overlay};

/// loom reports a read during or after its drop.
struct Thing(UnsafeCell<u64>);

// SAFETY: loom checks that one thread at a time accesses the cell.
unsafe impl Send for Thing {}
// SAFETY: as above.
unsafe impl Sync for Thing {}

impl Drop for Thing {
    fn drop(&mut self) {
        // SAFETY: loom checks that it is.
        self.0.with_mut(|value| unsafe { *value = 0 });
    }
}

struct Shared {
    claims: Claims<()>,
    published: Published<Thing>,
}

impl Shared {
    fn read(&self, thread: usize) {
        let Some(held) = self.claims.take_one(thread) else { return };
        if let Some(thing) = self.published.get(&held) {
            // SAFETY: loom checks that it is.
            assert_ne!(thing.0.with(|value| unsafe { *value }), 0, "read after its end");
        }
    }

    /// The previous table, if a reader is still using it.
    fn replace(&self) -> Option<Withdrawn<Thing>> {
        let withdrawn = self.published.withdraw().expect("it was published");
        let kept = withdrawn.reclaim(&self.claims).err();
        if kept.is_none() {
            self.published.publish(Box::new(Thing(UnsafeCell::new(2))));
        }
        kept
    }
}

/// Two readers, which claim concurrently or one after the other, and a replacement.
fn read_and_replace(claims: usize) {
    loom::model(move || {
        let claims = Claims::new(claims);
        let shared = Arc::new(Shared { claims, published: Published::default() });
        shared.published.publish(Box::new(Thing(UnsafeCell::new(1))));
        let readers = [0, 1].map(|thread| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.read(thread))
        });
        let kept = shared.replace();
        readers.into_iter().for_each(|reader| reader.join().expect("it has read"));
        // The next check finds that no thread reads it.
        assert!(kept.is_none_or(|kept| kept.reclaim(&shared.claims).is_ok()));
    });
}

#[test]
fn nothing_is_dropped_while_it_is_read() {
    read_and_replace(2);
}

/// A thread that finds the only claim taken must not release it.
#[test]
fn nothing_is_dropped_while_another_wants_its_claim() {
    read_and_replace(1);
}

/// A value whose write panics before its end.
const PANICS: u64 = 666;

/// A host of one key, which it sets aside.
struct One(Mutex<Option<u64>>);

impl Host for One {
    type Key = u8;
    type Value = u64;

    fn len(&self) -> usize {
        1
    }

    fn get(&self, _: &u8, _: impl FnOnce(&Mark)) -> Option<u64> {
        *self.0.lock().expect("nobody panics")
    }

    fn insert(&self, _: &u8, value: u64) -> Insertion {
        *self.0.lock().expect("nobody panics under it") = Some(value);
        if value == PANICS {
            resume_unwind(Box::new("as is wanted"));
        }
        Insertion::Replaced
    }

    fn remove(&self, _: &u8) -> Option<u64> {
        self.0.lock().expect("nobody panics").take()
    }

    fn walk(&self, _: &mut dyn FnMut(&Mark)) {}

    fn set_aside(&self, _: usize, copy: &mut dyn FnMut(&u8, &u64)) -> usize {
        self.0.lock().expect("nobody panics").iter().map(|value| copy(&0, value)).count()
    }

    fn give_back(&self) {}
}

type Frozen = Overlay<One, BuildHasherDefault<DefaultHasher>>;

/// A freeze and a concurrent write, in a cache with or without something frozen. Then the
/// write must be seen.
fn explore(frozen: bool, write: fn(&Frozen) -> Option<u64>) {
    loom::model(move || {
        let cache = Arc::new(Frozen::with_hasher(One(Mutex::new(Some(1))), Default::default()));
        if frozen {
            cache.freeze(1.0);
        }
        let shared = Arc::clone(&cache);
        let writer = loom::thread::spawn(move || write(&shared));
        if frozen {
            cache.thaw();
        }
        cache.freeze(1.0);
        let expected = writer.join().expect("it has written");
        assert_eq!(cache.get(&0), expected);
        // Nor does it reappear.
        cache.thaw();
        assert_eq!(cache.get(&0), expected);
    });
}

fn insert(cache: &Frozen) -> Option<u64> {
    cache.insert(&0, 2);
    Some(2)
}

fn remove(cache: &Frozen) -> Option<u64> {
    cache.remove(&0);
    None
}

#[test]
fn what_is_written_during_a_freeze_is_found() {
    explore(false, insert);
    explore(false, remove);
}

#[test]
fn what_is_written_during_a_thaw_and_a_freeze_is_found() {
    explore(true, insert);
}

/// Either nothing is published and the entries set aside are known, or they were returned, or
/// frozen after the write.
#[test]
fn what_is_not_written_to_its_end_is_found() {
    loom::model(|| {
        let cache = Arc::new(Frozen::with_hasher(One(Mutex::new(Some(1))), Default::default()));
        let shared = Arc::clone(&cache);
        let writer = loom::thread::spawn(move || {
            let insert = AssertUnwindSafe(|| shared.insert(&0, PANICS));
            assert!(catch_unwind(insert).is_err());
        });
        let frozen = cache.freeze(1.0);
        writer.join().expect("it has caught it");
        assert_eq!(cache.get(&0), Some(PANICS));
        let hits = cache.counts().frozen_hits;
        assert_eq!(cache.needs_thaw(), frozen.is_some() && hits == 0);
        cache.thaw();
        assert!(!cache.needs_thaw());
    });
}
