//! The word of a slot with handles: held content stays, and all content is dropped once.
//!
//! One slot, one word of the index, one cell for key and value. loom reports if reading the cell is
//! not ordered with dropping its content or filling it anew. The thread that drops the content
//! notes that, and the slot is reused when its queue has released it too.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{large_model, together};
use crate::smr::refs::{Closed, Evicted, LetGo, Open, Refs, Released, SlotRefs as _};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The index word of the slot, and one that leads elsewhere.
const SLOT: u32 = 1;
const ELSEWHERE: u32 = 2;

struct Store {
    refs: Refs,
    open: Open,
    /// The index: a word, or 0.
    word: AtomicU32,
    /// The content of the slot: 0 if it is empty.
    content: UnsafeCell<u32>,
    /// The state of its queue: whether it has the slot.
    queued: UnsafeCell<bool>,
    /// Stands for all parts of the core, which no thread may use once it is freed.
    core: UnsafeCell<bool>,
    /// Contents made and dropped, and the number of times that the slot was given back.
    made: AtomicU32,
    dropped: AtomicU32,
    given_back: AtomicU32,
    /// Whether the slot is available.
    free: AtomicU32,
    /// Whether an entry's charge is kept until its content is dropped, and the number of times that
    /// it was returned.
    charges: bool,
    paid_back: AtomicU32,
}

// SAFETY: loom checks that accesses of the cells are ordered.
unsafe impl Sync for Store {}

impl Store {
    /// With an entry, published and queued.
    fn new() -> Self {
        Store::charging(false)
    }

    fn charging(charges: bool) -> Self {
        let refs = Refs::default();
        refs.prepare(SLOT);
        let store = Store {
            refs,
            open: Open::new(),
            word: AtomicU32::new(0),
            content: UnsafeCell::new(0),
            queued: UnsafeCell::new(false),
            core: UnsafeCell::new(true),
            made: AtomicU32::new(0),
            dropped: AtomicU32::new(0),
            given_back: AtomicU32::new(0),
            free: AtomicU32::new(0),
            charges,
            paid_back: AtomicU32::new(0),
        };
        store.publish();
        store
    }

    /// Fills a vacant slot, and releases it.
    fn publish(&self) {
        let made = self.made.fetch_add(1, Relaxed) + 1;
        // SAFETY: loom checks this access.
        self.content.with_mut(|content| unsafe { *content = made });
        self.queue(true);
        self.refs.publish();
        // The next look-up finds this, or that it was unlinked.
        self.word.store(SLOT, Release);
        self.let_go();
    }

    fn queue(&self, is_there: bool) {
        // SAFETY: loom checks this access.
        let was_there =
            self.queued.with_mut(|queued| unsafe { std::mem::replace(&mut *queued, is_there) });
        assert_ne!(was_there, is_there);
    }

    fn drop_content(&self) {
        // SAFETY: loom checks this access.
        let before = self.content.with_mut(|content| unsafe { std::mem::take(&mut *content) });
        assert_ne!(before, 0, "dropped twice");
        self.dropped.fetch_add(1, Relaxed);
    }

    fn give_back(&self) {
        self.given_back.fetch_add(1, Relaxed);
        // As through a stack of segments.
        self.free.store(1, Release);
    }

    fn pay_back(&self, is_due: bool) {
        if is_due {
            self.paid_back.fetch_add(1, Relaxed);
        }
    }

    /// Drops content that the caller owns, and gives the slot back if its queue has released it.
    fn drop_owned(&self) {
        self.drop_content();
        if self.refs.dropped() {
            self.give_back();
        }
    }

    /// Whether it owned the content.
    fn let_go(&self) {
        if let LetGo::Owned { is_charged } = self.refs.let_go() {
            self.pay_back(is_charged);
            self.drop_owned();
        }
    }

    /// Counts the caller in the slot, if it is found.
    fn find(&self) -> bool {
        let word = self.word.load(Acquire);
        if word != SLOT {
            return false;
        }
        if self.refs.hold().is_ended() || self.word.load(Acquire) != word {
            self.let_go();
            return false;
        }
        true
    }

    fn read(&self) {
        // SAFETY: loom checks this access.
        assert_ne!(self.content.with(|content| unsafe { *content }), 0, "it is held");
    }

    /// Holds it, reads it twice, releases it.
    fn hold(&self) {
        if self.find() {
            self.read();
            self.read();
            self.let_go();
        }
    }

    /// The same by a handle.
    fn hold_by_a_handle(&self) {
        if self.find() {
            self.release();
        }
    }

    fn leave_queue(&self) {
        self.queue(false);
        if self.refs.dequeue() {
            self.give_back();
        }
    }

    /// Evicts it, if it is not held. The thread that takes it out of its queue owns it.
    fn evict(&self) {
        if self.refs.claim() {
            self.read();
            let unlinked = self.word.compare_exchange(SLOT, 0, AcqRel, Relaxed);
            assert!(unlinked.is_ok(), "who would unlink it is counted");
            let evicted = self.refs.evict(self.charges);
            self.pay_back(evicted == Evicted::Owned || !self.charges);
            if evicted == Evicted::Owned {
                self.drop_owned();
            }
            self.leave_queue();
        }
    }

    /// Finds that it cannot be evicted after all.
    fn evict_in_vain(&self) {
        if self.refs.claim() {
            self.read();
            self.refs.unclaim();
        }
    }

    /// Ends the residency, if it is there, by another word.
    fn exchange(&self, word: u32) {
        if self.find() {
            if self.word.compare_exchange(SLOT, word, AcqRel, Relaxed).is_ok() {
                self.refs.end(self.charges);
                self.pay_back(!self.charges);
                self.read();
                self.leave_queue();
            }
            self.let_go();
        }
    }

    fn erase(&self) {
        self.exchange(0);
    }

    fn replace(&self) {
        self.exchange(ELSEWHERE);
    }

    /// Reuses the slot, if it was given back.
    fn reuse(&self) {
        if self.free.swap(0, Acquire) == 1 {
            self.publish();
        }
    }

    /// Releases the slot in which it is counted, as a handle does.
    fn release(&self) {
        self.read();
        // SAFETY: loom checks this access.
        let look = || self.core.with(|core| assert!(unsafe { *core }));
        // Before the release the core exists.
        look();
        let seen = self.refs.look();
        if self.refs.release_at_once(seen) {
            return;
        }
        match self.refs.release(&self.open) {
            Released::Counted { waits: 0 } => {}
            Released::Counted { waits } => self.leave(waits),
            Released::Owned { is_closed, is_charged, waits } => {
                look();
                self.pay_back(is_charged);
                match is_closed {
                    true => self.drop_content(),
                    false => self.drop_owned(),
                }
                self.leave(waits);
            }
        }
    }

    fn leave(&self, waits: u64) {
        if self.open.leave(waits) {
            // SAFETY: loom checks this access.
            self.core.with_mut(|core| unsafe { *core = false });
        }
    }

    /// Drops the cache.
    fn close(&self) {
        if self.refs.close(&self.open) == Closed::Owned {
            self.drop_content();
        }
        self.leave(1);
    }

    /// Every content made is dropped once, and the slot and the charge were returned as often.
    fn check(&self) {
        let count = |count: &AtomicU32| count.load(Relaxed);
        let resident = u32::from(count(&self.word) == SLOT);
        assert_eq!(count(&self.made), count(&self.dropped) + resident);
        assert_eq!(count(&self.given_back), count(&self.dropped));
        assert_eq!(count(&self.paid_back), count(&self.dropped));
        let seen = self.refs.look();
        assert_eq!((seen.count(), seen.is_orphan(), seen.is_ended()), (0, false, resident == 0));
        assert!(!seen.is_charged());
    }
}

/// A model of two threads, preempted three times as often: a momentary count matters only if both
/// make one.
fn deep_model(work: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.map(|bound| 3 * bound);
    model.check(work);
}

fn run(threads: &[fn(&Store)]) {
    let store = Arc::new(Store::new());
    together(&store, threads);
    store.check();
}

#[test]
fn what_is_held_is_not_evicted() {
    deep_model(|| run(&[Store::hold, Store::evict]));
}

#[test]
fn what_is_erased_while_it_is_held_is_dropped_by_the_last() {
    deep_model(|| run(&[Store::hold, Store::erase]));
}

#[test]
fn what_was_claimed_in_vain_is_there_as_before() {
    deep_model(|| run(&[Store::evict_in_vain, Store::erase]));
    deep_model(|| run(&[Store::evict_in_vain, Store::hold]));
}

#[test]
fn one_of_two_ends_a_residency() {
    deep_model(|| run(&[Store::erase, Store::replace]));
    deep_model(|| run(&[Store::evict, Store::erase]));
}

/// Otherwise a look-up would miss a key that is replaced, though it is always present.
#[test]
fn who_finds_it_ended_finds_what_has_replaced_it() {
    let look: fn(&Store) = |store| {
        if store.word.load(Acquire) == SLOT {
            if store.refs.hold().is_ended() {
                assert_eq!(store.word.load(Acquire), ELSEWHERE);
            }
            store.let_go();
        }
    };
    deep_model(move || run(&[look, Store::replace]));
}

#[test]
fn all_at_once() {
    large_model(|| run(&[Store::hold, Store::evict, Store::erase]));
    large_model(|| run(&[Store::hold, Store::replace, Store::erase]));
}

/// A look-up that has read the word before the slot was used again.
#[test]
fn a_slot_that_is_used_again_is_held_as_what_it_is_now() {
    for end in [Store::evict, Store::erase] {
        deep_model(move || {
            let store = Arc::new(Store::new());
            let other = store.clone();
            let ends = loom::thread::spawn(move || {
                end(&other);
                other.reuse();
            });
            store.hold();
            store.reuse();
            ends.join().expect("a thread of the model");
            let count = |count: &AtomicU32| count.load(Relaxed);
            let resident = u32::from(count(&store.word) == SLOT);
            assert_eq!(count(&store.made), count(&store.dropped) + resident);
            assert_eq!(store.refs.look().count(), 0);
        });
    }
}

/// A thread that finds it ended and leaves last drops it, although it never held it.
#[test]
fn two_that_find_it_ended_drop_it_once() {
    large_model(|| run(&[Store::hold, Store::hold, Store::erase]));
}

/// A handle of a resident, or of an orphan, is released while the cache is dropped.
#[test]
fn who_comes_last_frees_the_core() {
    for is_orphan in [false, true] {
        for handles in [1, 2] {
            loom::model(move || {
                let store = Arc::new(Store::new());
                (0..handles).for_each(|_| assert!(store.find()));
                if is_orphan {
                    store.erase();
                }
                let mut threads = vec![Store::close as fn(&Store)];
                threads.resize(1 + handles, Store::release);
                together(&store, &threads);
                let dropped = store.dropped.load(Relaxed);
                assert_eq!(dropped, 1);
                // SAFETY: all threads have ended.
                assert!(store.core.with(|core| unsafe { !*core }), "it is freed");
            });
        }
    }
}

/// A charged orphan, by the thread that drops it; the slot's next content is no orphan.
#[test]
fn what_was_paid_is_paid_back_once() {
    for end in [Store::evict, Store::erase] {
        for hold in [Store::hold, Store::hold_by_a_handle] {
            deep_model(move || {
                let store = Arc::new(Store::charging(true));
                let other = store.clone();
                let ends = loom::thread::spawn(move || end(&other));
                hold(&store);
                ends.join().expect("a thread of the model");
                store.check();
                store.reuse();
                store.check();
            });
        }
    }
}
