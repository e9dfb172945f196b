//! A slot is not written again while a reader looks at it.
//!
//! One word stands for the index, one cell for key and value. A reader looks the word up
//! under a hazard or a pin and reads the cell; a writer unlinks the word, retires the slot,
//! reclaims it, writes the cell anew and publishes it. loom reports if reading and writing
//! are not ordered.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{large_model, together};
use crate::smr::protect::{Hazard, Pinned, Protect};
use crate::smr::reclaim::{Contents, Reclaim, Supply};
use crate::smr::segments::Segments;
use crate::smr::stripe::{Buffers, Stripes, Traffic};
use crate::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The only slot that is published.
const SLOT: u32 = 1;
/// A slot known only by its word.
const ELSEWHERE: u32 = 2;

struct Store {
    segments: Segments,
    reclaim: Reclaim,
    stripes: Stripes,
    /// The index: the slot, or 0.
    word: AtomicU32,
    /// Another word of the index, which stays.
    elsewhere: AtomicU32,
    /// The entry: how often it was written.
    entry: UnsafeCell<u32>,
}

// SAFETY: loom checks that accesses of `entry` are ordered.
unsafe impl Sync for Store {}

/// Slots up to the existing one.
struct OneSlot;

impl Supply for OneSlot {
    fn limits(&self) -> (u32, u32) {
        (u32::MAX, SLOT)
    }

    fn prepare(&self, _slot: u32) {}
}

impl Contents for Store {
    fn has_any(&self) -> bool {
        true
    }

    fn retired_weight(&self, _slot: u32) -> u64 {
        0
    }

    fn vacate(&self, slot: u32) {
        if slot == SLOT {
            // SAFETY: loom checks this access.
            self.entry.with_mut(|entry| unsafe { *entry += 1 });
        }
    }
}

impl Store {
    /// With the slot filled and published.
    fn new() -> Self {
        let store = Store {
            segments: Segments::new(32, 1),
            reclaim: Reclaim::new(1, None),
            stripes: Stripes::default(),
            word: AtomicU32::new(0),
            elsewhere: AtomicU32::new(ELSEWHERE),
            entry: UnsafeCell::new(0),
        };
        // Made before the threads begin: its creation is not part of the model.
        let _ = (store.stripes.of(0), store.stripes.of(1));
        store.publish(&mut Buffers::default());
        store
    }

    /// Fills a vacant slot, if there is one.
    fn publish(&self, buffers: &mut Buffers) {
        assert!(buffers.spares.stock(&self.segments, &mut Traffic::default()));
        if let Some(slot) = self.reclaim.vacant(&self.segments, buffers, &OneSlot) {
            // SAFETY: loom checks this access.
            self.entry.with_mut(|entry| unsafe { *entry += 1 });
            self.word.store(slot, Release);
        }
    }

    /// Unlinks the slot and retires it; then reclaims and uses it again.
    fn replace(&self) {
        self.replace_and(Store::reclaim_all);
    }

    fn replace_and(&self, reclaim: fn(&Store) -> u64) {
        let mut buffers = Buffers::default();
        assert!(buffers.spares.stock(&self.segments, &mut Traffic::default()));
        if self.word.compare_exchange(SLOT, 0, AcqRel, Relaxed).is_ok() {
            self.reclaim.retire(&self.segments, &mut buffers, SLOT);
        }
        reclaim(self);
        self.publish(&mut buffers);
    }

    /// Sends a slot to limbo.
    fn retire(&self, slot: u32) {
        let mut buffers: Buffers = Buffers::default();
        assert!(buffers.spares.stock(&self.segments, &mut Traffic::default()));
        self.reclaim.retire(&self.segments, &mut buffers, slot);
    }

    fn reclaim_all(&self) -> u64 {
        self.reclaim(true)
    }

    /// Without the heavy fence, if it is not needed.
    fn reclaim_some(&self) -> u64 {
        self.reclaim(false)
    }

    fn reclaim(&self, all: bool) -> u64 {
        let readers = (&self.stripes, &self.stripes.of(1).reader);
        self.reclaim.run(&self.segments, readers, all, self)
    }

    /// As under a hazard, but without the light fence, which is a full fence here and would hide
    /// other missing orders.
    fn look_without_fence(&self) {
        let reader = &self.stripes.of(0).reader;
        let word = self.word.load(Acquire);
        reader.hazard.store(word, Release);
        reader.progress.wake_if_asleep();
        if word != 0 && self.word.load(Acquire) == word {
            self.read();
        }
        reader.hazard.store(0, Release);
    }

    /// As a thread that begins to write.
    fn pass(&self) {
        self.stripes.of(0).reader.progress.pass(self.reclaim.epoch());
    }

    /// Whether it is present, and protected now.
    fn look(&self, protection: &impl Protect) -> bool {
        let word = self.word.load(Acquire);
        let shown = word != 0 && protection.protects(&self.word, word, word);
        if shown {
            self.read();
        }
        shown
    }

    /// The result of a look-up.
    fn read(&self) {
        // SAFETY: loom checks this access.
        assert_ne!(self.entry.with(|entry| unsafe { *entry }), 0);
    }

    fn hazard(&self) -> Hazard<'_> {
        Hazard::of(&self.stripes.of(0).reader).expect("one look-up at a time")
    }

    fn pin(&self) -> Pinned<'_> {
        Pinned::new(&self.stripes.of(0).reader, &self.reclaim)
    }
}

fn check(threads: &'static [fn(&Store)]) {
    loom::model(|| run(threads));
}

fn run(threads: &[fn(&Store)]) {
    let store = Arc::new(Store::new());
    together(&store, threads);
    // Held up no longer than a reader looks: published, or available.
    store.reclaim_all();
    store.publish(&mut Buffers::default());
    assert_eq!(store.word.load(Relaxed), SLOT);
}

#[test]
fn a_hazard_keeps_the_slot() {
    check(&[|store| _ = store.look(&store.hazard()), Store::replace]);
}

/// The second look-up overwrites the hazard of the first, whose reads must have ended.
#[test]
fn a_hazard_that_is_named_anew_orders_what_was_read_before() {
    check(&[
        |store| {
            let hazard = store.hazard();
            store.look(&hazard);
            assert!(hazard.protects(&store.elsewhere, ELSEWHERE, ELSEWHERE));
        },
        Store::replace,
    ]);
}

#[test]
fn a_pin_keeps_the_slot_for_every_look() {
    check(&[
        |store| {
            let pin = store.pin();
            store.look(&pin);
            store.look(&pin);
        },
        Store::replace,
    ]);
}

/// Its names are copied twice into one pair of logs beneath the reclaimer.
#[test]
fn a_pin_that_shows_more_keeps_the_slot() {
    large_model(|| {
        run(&[
            |store| {
                let pin = store.pin();
                let shown = store.look(&pin);
                for _ in 0..7 {
                    assert!(pin.protects(&store.elsewhere, ELSEWHERE, ELSEWHERE));
                }
                if shown {
                    store.read();
                }
            },
            Store::replace,
        ])
    });
}

#[test]
fn a_second_pin_orders_what_was_read_under_the_first() {
    check(&[
        |store| {
            store.look(&store.pin());
            store.look(&store.pin());
        },
        Store::replace,
    ]);
}

/// A pin's name hides that the previous pin has released its own.
#[test]
fn a_name_that_is_given_anew_orders_what_was_read_before() {
    check(&[
        |store| {
            store.look(&store.pin());
            assert!(store.pin().protects(&store.elsewhere, ELSEWHERE, ELSEWHERE));
        },
        Store::replace,
    ]);
}

/// A slot that comes to limbo while a reclamation finds nothing else to free makes the next one
/// due.
#[test]
fn a_reclamation_that_missed_a_slot_was_not_in_vain() {
    loom::model(|| {
        let store = Arc::new(Store::new());
        let reader = &store.stripes.of(0).reader;
        reader.name(SLOT);
        store.retire(SLOT);
        let late = |store: &Store| {
            store.retire(ELSEWHERE);
            0
        };
        let freed: u64 = together(&store, &[Store::reclaim_all, late]).iter().sum();
        assert_eq!(freed + store.reclaim_all(), 1);
    });
}

/// The first thread may not be the one that finds the slot in limbo.
#[test]
fn two_reclaimers_let_a_slot_go_once() {
    large_model(|| {
        run(&[
            |store| _ = store.look(&store.pin()),
            Store::replace,
            |store| {
                store.reclaim_all();
            },
        ])
    });
}

/// The reclaimer finds it asleep, or its look finds the slot unlinked.
#[test]
fn a_thread_that_wakes_needs_no_heavy_fence() {
    check(&[Store::look_without_fence, |store| store.replace_and(Store::reclaim_some)]);
}

/// The slot that it read before is named, or its later look-ups find the slot unlinked.
#[test]
fn a_thread_that_passes_needs_no_heavy_fence() {
    check(&[
        |store| {
            store.look_without_fence();
            store.pass();
            store.look_without_fence();
        },
        |store| {
            store.replace_and(Store::reclaim_some);
            store.reclaim_some();
        },
    ]);
}

/// It is asleep for the second reclamation, independent of the cause of its sleep.
#[test]
fn a_thread_that_fell_asleep_wakes_at_its_next_look() {
    large_model(|| {
        run(&[
            |store| {
                store.look(&store.hazard());
                store.look(&store.hazard());
            },
            |store| {
                store.replace();
                store.replace_and(Store::reclaim_some);
            },
        ])
    });
}
