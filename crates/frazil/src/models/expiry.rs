//! The wheel and an insertion: no slot with a deadline is lost to both. Hints: one of an old base
//! is not believed. Invalidation: an entry queued meanwhile is visited, now or later.

use std::sync::Arc;

use super::together;
use crate::chunks::Chunks;
use crate::clock::{BEGINNING, Clock};
use crate::features::expiry::deadlines::{Deadlines, Spans};
use crate::features::expiry::generations::Generations;
use crate::features::expiry::hints::Hints;
use crate::smr::fence;
use crate::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
};

const SLOT: u32 = 1;
/// The ticks of the model.
const NOW: u64 = 8 * BEGINNING;

/// A reused slot, still listed for its previous deadline.
fn used_until(tick: u64) -> Arc<Deadlines> {
    let clock = Clock::new(Some(Box::new(|| std::time::Duration::ZERO)));
    let spans = Spans { live: BEGINNING, idle: None, reads: false };
    let deadlines = Deadlines::new(SLOT, 0, spans, &clock);
    insert(&deadlines, tick);
    deadlines.end(SLOT);
    Arc::new(deadlines)
}

/// The work of an insertion with the slot that it has filled.
fn insert(deadlines: &Deadlines, tick: u64) {
    let term = deadlines.term(BEGINNING, (tick - 1) * BEGINNING);
    deadlines.begin(SLOT, term, &AtomicU16::new(0));
}

/// The work of a writer, without the removal of expired entries. Returns whether it had the slot.
fn turn(deadlines: &Deadlines) -> bool {
    let Some(batch) = deadlines.take_due(NOW) else { return false };
    fence::heavy();
    deadlines.list_again(&batch, NOW);
    batch.slots() == [SLOT]
}

/// Two threads, after which the slot is listed as its deadline requires.
fn check(listed: u64, threads: &'static [fn(&Deadlines) -> bool]) {
    loom::model(move || {
        let deadlines = used_until(listed);
        together(&deadlines, threads);
        assert!(deadlines.deadline(SLOT) > BEGINNING);
        deadlines.check(|slot| slot == SLOT).expect("in order");
    });
}

#[test]
fn a_slot_that_is_due_gets_a_later_deadline() {
    check(
        2,
        &[turn, |deadlines| {
            insert(deadlines, 20);
            true
        }],
    );
}

#[test]
fn a_slot_that_is_due_gets_an_earlier_deadline() {
    check(
        7,
        &[turn, |deadlines| {
            insert(deadlines, 3);
            true
        }],
    );
}

#[test]
fn two_turn_while_the_slot_is_used_again() {
    check(
        2,
        &[turn, turn, |deadlines| {
            insert(deadlines, 9);
            true
        }],
    );
}

/// A slot whose deadline has passed by the time that the base moves, but lies far behind it
/// by the old base.
struct Hinted {
    hints: Hints,
    deadlines: Chunks<AtomicU64>,
    hint: AtomicU16,
    published: AtomicBool,
}

const UNIT: u64 = 1 << 28;

#[test]
fn the_base_moves_while_an_entry_is_inserted_and_another_looks() {
    loom::model(|| {
        let hinted = Arc::new(Hinted {
            hints: Hints::new(1, None),
            deadlines: Chunks::default(),
            hint: AtomicU16::new(0),
            published: AtomicBool::new(false),
        });
        // Made before the threads begin.
        hinted.deadlines.ensure(1);
        together(
            &hinted,
            &[
                |hinted| {
                    let Hinted { hints, deadlines, hint, published } = hinted;
                    deadlines.get_or_make(1).store((UNIT * 100) << 1, Release);
                    hints.begin(hint, UNIT * 100);
                    published.store(true, Release);
                    true
                },
                |hinted| {
                    let Hinted { hints, deadlines, hint, .. } = hinted;
                    hints.renew_at(1, UNIT * 40_000, deadlines, |_| hint);
                    true
                },
                |hinted| {
                    if hinted.published.load(Acquire) {
                        assert!(!hinted.hints.is_far_in(&hinted.hint, || 1));
                    }
                    true
                },
            ],
        );
    });
}

/// An entry that is queued while all is invalidated.
#[derive(Default)]
struct Queued {
    generations: Generations,
    /// Stands for its word in a queue.
    word: AtomicU32,
}

/// A writer visits its share; returns whether it found the entry queued and stale.
fn take_share(queued: &Queued) -> bool {
    let Queued { generations, word } = queued;
    generations.has_share()
        && generations.share().contains(&SLOT)
        && generations.is_stale(SLOT)
        && word.load(Acquire) == SLOT
        // The slot taken may have another entry than intended.
        && generations.is_stale(SLOT)
}

#[test]
fn a_stale_entry_that_is_being_queued_is_lost_to_nobody() {
    loom::model(|| {
        let queued = Arc::new(Queued::default());
        let Queued { generations, .. } = &*queued;
        // Births are made before the threads begin.
        generations.advance(|| SLOT + 1);
        generations.begin(SLOT);
        while generations.has_share() {
            generations.share();
        }
        let insertion: fn(&Queued) -> bool = |queued| {
            queued.generations.begin(SLOT);
            queued.word.store(SLOT, Release);
            queued.generations.queued(SLOT);
            false
        };
        let invalidation: fn(&Queued) -> bool = |queued| {
            queued.generations.advance(|| SLOT + 1);
            false
        };
        let found = together(&queued, &[insertion, invalidation, take_share]).contains(&true);
        match generations.is_stale(SLOT) {
            true => assert!(found || generations.has_share()),
            false => assert!(!found),
        }
    });
}
