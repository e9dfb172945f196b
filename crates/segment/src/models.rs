//! The protocols, each alone, in all interleavings that loom finds: `cargo xtask check loom`.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::hazards::Hazards;
use crate::index::{Index, Word};
use crate::mapping::Mapping;
use crate::segments::{NONE, Phase, Reserved, Segment, Segments};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// A word of the index that leads to memory. The memory is reused when no thread can read it.
struct Shared {
    hazards: Hazards,
    word: AtomicU64,
    holds: AtomicU32,
    memory: UnsafeCell<u64>,
    stripe: Mutex<()>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            hazards: Hazards::new(),
            word: AtomicU64::new(1),
            holds: AtomicU32::new(0),
            memory: UnsafeCell::new(7),
            stripe: Mutex::new(()),
        })
    }

    /// As `Store::find` and `Store::hold`.
    fn read(&self, holds: bool) {
        if self.word.load(Acquire) == 0 {
            return;
        }
        let hazard = self.hazards.name(0).unwrap();
        if self.word.load(SeqCst) == 0 {
            return;
        }
        if holds {
            self.holds.fetch_add(1, Relaxed);
            drop(hazard);
        }
        // SAFETY: this is the claim that the model checks; loom panics if another thread writes
        // meanwhile.
        self.memory.with(|memory| assert_eq!(unsafe { *memory }, 7));
        if holds {
            self.holds.fetch_sub(1, Release);
        }
    }

    /// As `Store::hold_locked`.
    fn read_held(&self) {
        let locked = self.stripe.lock();
        if self.word.load(Acquire) == 0 {
            return;
        }
        self.holds.fetch_add(1, Relaxed);
        drop(locked);
        // SAFETY: as above.
        self.memory.with(|memory| assert_eq!(unsafe { *memory }, 7));
        self.holds.fetch_sub(1, Release);
    }

    /// As `Job::settle`, and `Limbo::drain`.
    fn use_anew(&self) {
        let locked = self.stripe.lock();
        self.word.store(0, Release);
        drop(locked);
        if !self.hazards.names().has(0) && self.holds.load(Acquire) == 0 {
            // SAFETY: as above.
            self.memory.with_mut(|memory| unsafe { *memory = 8 });
        }
    }
}

#[test]
fn memory_that_is_named_is_not_used_anew() {
    loom::model(|| {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let other = Arc::clone(&shared);
        let readers =
            [thread::spawn(move || reader.read(false)), thread::spawn(move || other.read(false))];
        shared.use_anew();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn memory_that_is_held_is_not_used_anew() {
    loom::model(|| {
        let shared = Shared::new();
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.read(true));
        shared.use_anew();
        reader.join().unwrap();
    });
}

/// A reader that finds no record names nothing.
#[test]
fn memory_that_is_held_under_a_lock_is_not_used_anew() {
    loom::model(|| {
        let shared = Shared::new();
        let readers = [0, 1].map(|_| {
            let reader = Arc::clone(&shared);
            thread::spawn(move || reader.read_held())
        });
        shared.use_anew();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn a_quiet_segment_has_all_that_was_written() {
    loom::model(|| {
        let segments = Arc::new(Segments::new(Mapping::new(128).unwrap(), 64, 2));
        let memory = Arc::new([0, 1].map(|_| UnsafeCell::new(0)));
        let first = segments.take().unwrap();
        segments.reopen(1, NONE, first, 5);
        let write = |segment: &Segment, memory: &[UnsafeCell<u64>; 2]| {
            let Reserved::At(at) = segment.reserve(1, 32, 64) else { return };
            // SAFETY: this is the claim that the model checks.
            memory[at / 32].with_mut(|memory| unsafe { *memory = 7 });
            segment.finish();
        };
        let writer = {
            let (segments, memory) = (Arc::clone(&segments), Arc::clone(&memory));
            thread::spawn(move || write(segments.get(first), &memory))
        };
        write(segments.get(first), &memory);
        segments.close(1, first);
        let state = segments.get(first).state();
        if state.is_quiet() {
            for memory in &memory[..state.filled() / 32] {
                // SAFETY: as above.
                memory.with(|memory| assert_eq!(unsafe { *memory }, 7));
            }
        }
        assert!(matches!(segments.get(first).reserve(1, 32, 64), Reserved::Closed));
        writer.join().unwrap();
        assert!(segments.get(first).state().phase() == Phase::Sealed);
    });
}

/// A home, and pages of one line for overflow.
fn index() -> (Segments, Index) {
    let segments = Segments::new(Mapping::new(6 * 64).unwrap(), 64, 6);
    let index = Index::new(&segments).unwrap();
    (segments, index)
}

/// Every hash has its own tag, and its location identifies it.
fn hash_of(location: u64) -> u64 {
    location << 48 | location
}

fn insert(index: &Index, segments: &Segments, location: u64) {
    let hash = hash_of(location);
    let locked = index.lock(hash);
    let word = Word::new(hash, 0, location);
    if index.insert(&locked, hash, word, segments).is_err() {
        drop(locked);
        assert!(index.add_overflow_page(segments, segments.take().unwrap()));
        index.insert(&index.lock(hash), hash, word, segments).unwrap();
    }
}

fn remove(index: &Index, segments: &Segments, location: u64) {
    let hash = hash_of(location);
    let locked = index.lock(hash);
    let (place, _) = index.look(hash, segments).next().unwrap();
    index.remove(&locked, hash, place, segments);
}

/// As `Store::find`.
fn contains(index: &Index, segments: &Segments, location: u64) -> bool {
    let hash = hash_of(location);
    loop {
        let version = index.version(hash);
        if index.look(hash, segments).next().is_some() {
            return true;
        }
        if index.version(hash) == version {
            return false;
        }
    }
}

#[test]
fn a_word_that_moves_in_a_chain_is_found() {
    loom::model(|| {
        let shared = Arc::new(index());
        for location in 1..=9 {
            insert(&shared.1, &shared.0, location);
        }
        let reader = Arc::clone(&shared);
        // The last of nine, which moves to where the first is removed, or with the eighth to
        // where the link is.
        let reader = thread::spawn(move || assert!(contains(&reader.1, &reader.0, 9)));
        remove(&shared.1, &shared.0, 1);
        reader.join().unwrap();
        assert!((2..=9).all(|location| contains(&shared.1, &shared.0, location)));
    });
}

#[test]
fn a_word_that_moves_to_a_new_home_is_found() {
    // More loads than loom expects, to fill the index.
    let mut model = loom::model::Builder::new();
    model.max_branches = 10_000;
    model.check(|| {
        let segments = Segments::new(Mapping::new(6 * 128).unwrap(), 128, 6);
        let shared = Arc::new((Index::new(&segments).unwrap(), segments));
        // The second of two homes is full beyond measure, so that the first one is split, where
        // nothing moves within a chain.
        for location in (1..=37).step_by(2).chain([2, 4]) {
            insert(&shared.0, &shared.1, location);
        }
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || assert!(contains(&reader.0, &reader.1, 2)));
        shared.0.grow(&shared.1, hash_of);
        reader.join().unwrap();
        assert_eq!(shared.0.lines().0, 3);
        assert!([2, 4].into_iter().all(|location| contains(&shared.0, &shared.1, location)));
    });
}
