//! Holders of one slot that each thread counts for itself: held content stays, and the last holder
//! drops it, once.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{large_model, together};
use crate::smr::refs::{Evicted, LetGo, Refs, SlotRefs as _};
use crate::smr::spread::{Own, Spread};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The slot, a spread one beside it, and a word that leads elsewhere.
const SLOT: u32 = 1;
const BESIDE: u32 = 2;
const ELSEWHERE: u32 = 3;

struct Store {
    refs: Refs,
    beside: Refs,
    spread: Spread,
    /// The counts of the threads of the model, and of the first.
    owns: [Own; 3],
    /// The index: a word, or 0.
    word: AtomicU32,
    /// The content of the slot: 0 if it is empty.
    content: UnsafeCell<u32>,
    dropped: AtomicU32,
}

// SAFETY: loom checks that accesses of the cell are ordered.
unsafe impl Sync for Store {}

/// Where holders of the entry are counted at first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Word,
    /// As after contention.
    Threads,
    /// As of a frozen entry.
    Frozen,
}

impl Store {
    /// With an entry, published.
    fn new(at: At) -> Self {
        let [refs, beside] = [SLOT, BESIDE].map(|slot| {
            let refs = Refs::default();
            refs.prepare(slot);
            refs.publish();
            refs
        });
        let store = Store {
            refs,
            beside,
            spread: Spread::new(),
            owns: Default::default(),
            word: AtomicU32::new(SLOT),
            content: UnsafeCell::new(7),
            dropped: AtomicU32::new(0),
        };
        // So its place is not the first one.
        store.spread.spread(BESIDE, &store.beside);
        match at {
            At::Word => {}
            At::Threads => store.spread_out(),
            At::Frozen => assert!(store.spread.table().spread_aside(SLOT, &store.refs)),
        }
        assert_eq!(store.refs.look().is_spread(), at != At::Word);
        store.let_go();
        store
    }

    fn owns(&self) -> impl Iterator<Item = (u32, &Own)> {
        (0..).zip(&self.owns)
    }

    fn spread_out(&self) {
        self.spread.spread(SLOT, &self.refs);
    }

    fn let_go(&self) {
        self.owned(self.refs.let_go());
    }

    fn owned(&self, let_go: LetGo) {
        if let LetGo::Owned { .. } = let_go {
            // SAFETY: loom checks this access.
            let before = self.content.with_mut(|content| unsafe { std::mem::take(&mut *content) });
            assert_eq!(before, 7, "dropped twice");
            // For the thread that reuses the slot.
            self.dropped.fetch_add(1, Release);
        }
    }

    fn read(&self) {
        // SAFETY: loom checks this access.
        assert_eq!(self.content.with(|content| unsafe { *content }), 7, "it is held");
    }

    /// As `Counted::protects`; returns whether it is held then.
    fn find(&self, own: &Own) -> bool {
        if self.word.load(Acquire) != SLOT {
            return false;
        }
        if self.refs.look().is_spread() && own.hold(&self.refs) {
            let is_it = self.word.load(Acquire) == SLOT;
            if !is_it {
                self.let_go();
            }
            return is_it;
        }
        if self.refs.hold().is_ended() || self.word.load(Acquire) != SLOT {
            self.let_go();
            return false;
        }
        true
    }

    fn release(&self, own: &Own) {
        self.read();
        if !self.refs.look().is_spread() || !own.release(&self.refs) {
            self.let_go();
        }
    }

    fn hold(&self, own: usize) {
        let own = &self.owns[own];
        if self.find(own) {
            self.read();
            self.release(own);
        }
    }

    fn recount(&self, all: bool) -> bool {
        let recounted = |slot, let_go| match slot {
            SLOT => self.owned(let_go),
            _ => assert_eq!(let_go, LetGo::Counted),
        };
        let mut table = self.spread.table();
        let refs = |slot| if slot == SLOT { &self.refs } else { &self.beside };
        table.recount(&self.spread, all, refs, || self.owns(), recounted)
    }

    /// Ends the residency, and recounts the holders in the word.
    fn erase(&self) {
        if self.find(&self.owns[2]) {
            if self.word.compare_exchange(SLOT, 0, AcqRel, Relaxed).is_ok()
                && self.refs.end(false).is_spread()
            {
                self.spread.recount_soon(&self.refs);
            }
            self.release(&self.owns[2]);
            if self.spread.is_due() {
                self.recount(false);
            }
        }
    }

    /// Evicts it if it is not held; recounts a spread one, and tries again.
    fn evict(&self) {
        for _ in 0..2 {
            self.evict_at_once();
            self.spread.recount_soon(&self.refs);
            self.recount(false);
        }
    }

    /// Evicts it if its word has no holders.
    fn evict_at_once(&self) {
        if self.refs.claim() {
            self.word.store(0, Release);
            if self.refs.evict(false) == Evicted::Owned {
                self.owned(LetGo::Owned { is_charged: false });
            }
        }
    }

    /// Reuses the slot for another key, and spreads it.
    fn use_again(&self) {
        self.erase();
        if self.dropped.load(Acquire) == 1 {
            assert!(!self.refs.dequeue() && self.refs.dropped());
            // SAFETY: loom checks this access.
            self.content.with_mut(|content| unsafe { *content = 8 });
            self.refs.publish();
            self.word.store(ELSEWHERE, Release);
            self.spread_out();
            self.let_go();
        }
    }

    /// In the end the word is exact, and ended contents were dropped once.
    fn check(&self) {
        while !self.recount(true) {}
        let seen = self.refs.look();
        assert_eq!((seen.count(), seen.is_spread(), seen.is_orphan()), (0, false, false));
        assert_eq!(self.beside.look().count(), 1);
        assert_eq!(self.dropped.load(Relaxed), u32::from(self.word.load(Relaxed) != SLOT));
    }
}

fn run(store: Store, threads: &[fn(&Store)]) {
    let store = Arc::new(store);
    together(&store, threads);
    store.check();
}

const HOLDS: [fn(&Store); 2] = [|store| store.hold(0), |store| store.hold(1)];

#[test]
fn what_is_erased_while_it_is_spread_is_dropped_by_the_last() {
    loom::model(|| run(Store::new(At::Threads), &[HOLDS[0], Store::erase]));
}

#[test]
fn what_is_spread_is_not_evicted_while_it_is_held() {
    loom::model(|| run(Store::new(At::Threads), &[HOLDS[0], Store::evict]));
}

#[test]
fn those_who_are_counted_are_counted_again() {
    let spread: fn(&Store) = |store| {
        if store.find(&store.owns[2]) {
            store.spread_out();
            store.release(&store.owns[2]);
        }
    };
    let recount: fn(&Store) = |store| _ = store.recount(true);
    let evict: fn(&Store) = Store::evict_at_once;
    loom::model(move || run(Store::new(At::Word), &[HOLDS[0], spread]));
    loom::model(move || run(Store::new(At::Threads), &[HOLDS[0], recount]));
    large_model(move || run(Store::new(At::Threads), &[HOLDS[0], HOLDS[1], recount]));
    large_model(move || run(Store::new(At::Threads), &[HOLDS[0], recount, evict]));
}

/// A look-up that has read the index word before the slot was used for another key.
#[test]
fn a_slot_that_is_used_again_is_not_taken_for_what_it_was() {
    loom::model(|| run(Store::new(At::Threads), &[HOLDS[0], Store::use_again]));
}

/// One thread holds it in its own line, and another releases that hold.
#[test]
fn a_handle_goes_to_another_thread() {
    let erase: fn(&Store) = Store::erase;
    let release: fn(&Store) = |store| store.release(&store.owns[1]);
    loom::model(move || {
        let store = Store::new(At::Threads);
        assert!(store.find(&store.owns[0]));
        run(store, &[release, erase]);
    });
}

/// A freeze, and then a thaw: the last holder drops an entry erased meanwhile; otherwise the entry
/// is unchanged.
#[test]
fn what_is_frozen_is_counted_as_what_is_spread() {
    let (erase, use_again): (fn(&Store), fn(&Store)) = (Store::erase, Store::use_again);
    let thaw: fn(&Store) = |store| _ = store.recount(true);
    let freeze: fn(&Store) = |store| {
        if store.find(&store.owns[2]) {
            store.spread.table().spread_aside(SLOT, &store.refs);
            store.release(&store.owns[2]);
        }
    };
    loom::model(move || run(Store::new(At::Frozen), &[HOLDS[0], erase]));
    loom::model(move || run(Store::new(At::Frozen), &[HOLDS[0], use_again]));
    loom::model(move || run(Store::new(At::Frozen), &[HOLDS[0], thaw]));
    loom::model(move || run(Store::new(At::Word), &[HOLDS[0], freeze]));
    large_model(move || run(Store::new(At::Frozen), &[HOLDS[0], thaw, erase]));
    // Frozen, thawed, and frozen again in the same place.
    let again: fn(&Store) = |store| {
        if store.recount(true) && store.find(&store.owns[2]) {
            let mut table = store.spread.table();
            table.begin_aside();
            table.spread_aside(SLOT, &store.refs);
            drop(table);
            store.release(&store.owns[2]);
        }
    };
    loom::model(move || run(Store::new(At::Frozen), &[HOLDS[0], again]));
}

/// Frozen, held in one thread's line, and released in another's.
#[test]
fn a_handle_of_what_is_frozen_goes_to_another_thread() {
    let erase: fn(&Store) = Store::erase;
    let release: fn(&Store) = |store| store.release(&store.owns[1]);
    loom::model(move || {
        let store = Store::new(At::Frozen);
        assert!(store.find(&store.owns[0]));
        run(store, &[release, erase]);
    });
}
