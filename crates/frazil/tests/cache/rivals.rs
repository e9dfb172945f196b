//! A key that is inserted while it is being admitted, by its own `Hash` and `Eq`. This makes races
//! of two threads repeatable on one.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use frazil::{Cache, Policy};

type Act = Rc<dyn Fn()>;

thread_local! {
    /// What to do when the key with this number is hashed next.
    static ON_HASH: RefCell<Option<(u64, Act)>> = const { RefCell::new(None) };
    /// What to do at the comparison of this count between the keys with these numbers.
    static ON_EQ: RefCell<Option<(u64, u64, u32, Act)>> = const { RefCell::new(None) };
    /// Whether a comparison of equal keys panics.
    static EQ_PANICS: Cell<bool> = const { Cell::new(false) };
}

struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let act = ON_HASH.with_borrow_mut(|planned| {
            planned.take_if(|(number, _)| *number == self.0).map(|(_, act)| act)
        });
        if let Some(act) = act {
            act();
        }
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let act = ON_EQ.with_borrow_mut(|planned| {
            let due = planned.take_if(|(one, another, times, _)| {
                *times -= u32::from((*one, *another) == (self.0, other.0));
                *times == 0
            });
            due.map(|(_, _, _, act)| act)
        });
        if let Some(act) = act {
            act();
        }
        assert!(!(EQ_PANICS.get() && self.0 == other.0), "{PLANNED}");
        self.0 == other.0
    }
}

impl Eq for Key {}

const PLANNED: &str = "a comparison that panics, as planned";

/// All keys are in one bucket, with one tag.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        7
    }
    fn write(&mut self, _bytes: &[u8]) {}
}

/// An insertion suspended while it looks for rivals does not remove an entry inserted after its own
/// was removed.
#[test]
fn who_comes_after_a_removal_is_no_rival() {
    for policy in Policy::ALL {
        let cache: Rc<Cache<Key, u64, BuildHasherDefault<Same>>> =
            Rc::new(Cache::builder(100).policy(policy).with_hasher(Default::default()).build());
        (0..3).for_each(|number| cache.insert(Key(number), 0));
        // A hole between the others, for the entry of 9.
        cache.invalidate(&Key(1));
        let inner = Rc::clone(&cache);
        let act: Act = Rc::new(move || {
            inner.invalidate(&Key(9));
            inner.invalidate(&Key(2));
            // Takes the hole, so that the new entry of 9 comes behind it.
            inner.insert(Key(8), 0);
            inner.insert(Key(9), 2);
            assert_eq!(inner.peek(&Key(9)), Some(2));
        });
        // The first comparison is that of the look-up before the insertion.
        ON_EQ.set(Some((9, 0, 2, act)));
        cache.insert(Key(9), 1);
        assert!(ON_EQ.take().is_none(), "{policy}: rivals were not looked for");
        assert_eq!(cache.get(&Key(9)), Some(2), "{policy}");
        let mut cache = Rc::into_inner(cache).expect("nobody else has it");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}

/// The hash of a victim inserts the same key for which it is evicted, and then comparisons panic.
#[test]
fn a_panic_leaves_no_key_there_twice() {
    for policy in [Policy::Fifo, Policy::Clock { bits: 1 }, Policy::Mobius] {
        let cache: Rc<Cache<Key, u64>> = Rc::new(Cache::builder(3).policy(policy).build());
        (0..3).for_each(|number| cache.insert(Key(number), number));
        let inner = Rc::clone(&cache);
        let act: Act = Rc::new(move || {
            inner.insert(Key(9), 1);
            EQ_PANICS.set(true);
        });
        ON_HASH.set(Some((0, act)));
        let outcome = catch_unwind(AssertUnwindSafe(|| cache.insert(Key(9), 2)));
        EQ_PANICS.set(false);
        assert!(outcome.is_err(), "{policy}: nothing was compared");
        let mut cache = Rc::into_inner(cache).expect("nobody else has it");
        cache.validate().unwrap_or_else(|found| panic!("{policy}:\n{found}"));
    }
}
