//! A job: visits the items of a run of segments, a batch at a time.
//!
//! If a run has too many items, those with the most requests a byte since they were written or
//! last moved stay; items without a request never stay. A move halves an item's count of requests.
//! With a learner, the most recently requested for their size stay: the largest 1 / (size · age).
//! A sample of the items, taken first, gives the threshold.

use crate::index::Word;
use crate::item::Item;
use crate::lifetimes;
use crate::mapping::prefetch;
use crate::segments::NONE;
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

/// Items that are looked up together, so that the lines of the index arrive together.
const BATCH_ITEMS: usize = 16;
/// Most segments merged into one if all their items fit.
pub(super) const RUN_MAX: usize = 8;
/// Items of a run that are sampled to find the cut.
const SAMPLE_ITEMS: u32 = 2048;
/// How much faster a sample is taken than items are settled.
const SAMPLE_SPEED: usize = 4;
/// Classes of an item's score per byte: four to a doubling.
pub(super) const SCORES: usize = 128;

/// The items of a job that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    All,
    /// Items above the score, and items of this score while they fit.
    From(usize),
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) class: usize,
    run: [u32; RUN_MAX],
    length: usize,
    /// The segment of the run being processed, and the offset in it.
    current: usize,
    offset: usize,
    keep: Keep,
    /// To find the cut, one in this many items is scored first. 0: the cut is found.
    stride: u32,
    passed: u32,
    /// Whether a learner has chosen the run.
    pub(super) is_ranked: bool,
    /// The segment for the staying items, and how far it is filled.
    pub(super) merged: Option<u32>,
    pub(super) filled: usize,
    /// The predecessor of the run in its chain.
    pub(super) previous: u32,
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    hash: u64,
    location: u64,
    item: Item<'a>,
}

impl Job {
    pub(super) fn new(
        store: &Store,
        class: usize,
        segments: &[u32],
        keep: Keep,
        merged: Option<u32>,
        previous: u32,
    ) -> Job {
        let mut run = [NONE; RUN_MAX];
        run[..segments.len()].copy_from_slice(segments);
        let live_items = |&s: &u32| store.segments.get(s).live_items.load(Relaxed);
        let items: u32 = segments.iter().map(live_items).sum();
        let stride = if matches!(keep, Keep::From(_)) { items / SAMPLE_ITEMS + 1 } else { 0 };
        Job {
            class,
            run,
            length: segments.len(),
            current: 0,
            offset: 0,
            keep,
            stride,
            passed: 0,
            is_ranked: false,
            merged,
            filled: 0,
            previous,
        }
    }

    pub(super) fn run(&self) -> &[u32] {
        &self.run[..self.length]
    }

    /// Processes a batch. Returns its bytes, and whether the job is done.
    pub(super) fn step(&mut self, store: &Store, scores: &mut [u64; SCORES]) -> (usize, bool) {
        let segments = &store.segments;
        let segment = self.run[self.current];
        let start = segments.start(segment);
        let end = segments.get(segment).state().filled();
        let begun = self.offset;
        let mut batch: [Option<Candidate<'_>>; BATCH_ITEMS] = [None; BATCH_ITEMS];
        let mut taken = 0;
        while taken < BATCH_ITEMS && self.offset < end {
            let location = start + self.offset as u64;
            // SAFETY: the segment is taken and has no writer left, so up to `filled` there is an
            // item after the other, and it is not reused before this job has ended.
            let item = unsafe { Item::at(segments.mapping.at(location as usize)) };
            self.offset += item.head.item_bytes();
            self.passed += 1;
            taken += 1;
            if self.stride > 0 && !self.passed.is_multiple_of(self.stride) {
                continue;
            }
            let hash = store.hash(item.key);
            store.index.prefetch(hash, segments);
            batch[taken - 1] = Some(Candidate { hash, location, item });
        }
        if self.offset < end {
            prefetch(segments.mapping.at((start as usize) + self.offset));
        }
        for candidate in batch.into_iter().flatten() {
            if self.stride > 0 {
                sample(store, candidate, scores);
            } else {
                self.settle(store, candidate);
            }
        }
        // If all but a few items are skipped, a batch is four times as fast.
        let passed = (self.offset - begun) / if self.stride > 0 { SAMPLE_SPEED } else { 1 };
        (passed.max(1), self.offset >= end && self.next_segment(store, scores))
    }

    /// Continues with the next segment of the run. True: there is none.
    fn next_segment(&mut self, store: &Store, scores: &[u64; SCORES]) -> bool {
        self.offset = 0;
        self.current += 1;
        if self.current < self.length {
            return false;
        }
        if self.stride == 0 {
            return true;
        }
        // The cut: the items above it fit.
        let room = store.segments.segment_bytes as u64 / u64::from(self.stride);
        let mut above = 0;
        let cut = (1..SCORES).rev().find(|&score| {
            above += scores[score];
            above > room
        });
        self.keep = Keep::From(cut.unwrap_or(1));
        (self.stride, self.current) = (0, 0);
        false
    }

    /// Unlinks an item or moves it, if the index leads to it.
    fn settle(&mut self, store: &Store, candidate: Candidate<'_>) {
        let Candidate { hash, location, item } = candidate;
        let segments = &store.segments;
        let bytes = item.head.item_bytes();
        let locked = store.index.lock(hash);
        let mut words = store.index.look(hash, segments);
        let Some((place, word)) = words.find(|(_, word)| word.location() == location) else {
            return;
        };
        let from = segments.get(self.run[self.current]);
        let deadline = item.head.deadline.map(|packed| lifetimes::unpack(from, self.class, packed));
        let is_over = deadline.is_some_and(|deadline| deadline <= store.clock.now_ms())
            || segments.is_flushed(self.run[self.current]);
        let fits = self.filled + bytes <= segments.segment_bytes;
        let stays = match self.keep {
            Keep::Nothing => false,
            Keep::All => true,
            Keep::From(cut) => score(store, word, bytes) >= cut,
        };
        let merged = self.merged.filter(|_| !is_over && stays && fits);
        if let Some(learner) = &store.learner
            && learner.is_sampled(hash)
            && !is_over
        {
            learner.leaves(hash, self.run[self.current], bytes);
        }
        store.unlinked(segments.of(location), bytes);
        if let Some(merged) = merged {
            let moved = self.copy(store, merged, item, deadline);
            store.linked(merged, bytes);
            let requests = match &store.learner {
                Some(learner) => learner.moves(merged, word.requests()),
                None => word.requests() / 2,
            };
            store.index.replace(&locked, place, Word::new(hash, requests, moved));
            store.counters.kept_items.fetch_add(1, Relaxed);
        } else {
            store.index.remove(&locked, hash, place, segments);
            let gone =
                if is_over { &store.counters.expired_items } else { &store.counters.evicted_items };
            gone.fetch_add(1, Relaxed);
            if let Some(learner) = store.learner.as_ref().filter(|_| self.is_ranked && !is_over) {
                learner.evicts();
            }
        }
    }

    /// Copies an item to the end of the merged segment and returns its place.
    fn copy(&mut self, store: &Store, merged: u32, item: Item<'_>, deadline: Option<u64>) -> u64 {
        let segments = &store.segments;
        let to = segments.get(merged);
        let mut head = item.head;
        head.deadline = deadline.map(|deadline| lifetimes::pack(to, self.class, deadline));
        to.deadline_ms.fetch_max(deadline.unwrap_or(0), Relaxed);
        let location = segments.start(merged) + self.filled as u64;
        self.filled += head.item_bytes();
        // SAFETY: the job owns the merged segment, nothing refers to bytes beyond `filled`, and the
        // caller has checked that the item fits.
        unsafe { store.lay(location, head, item.key, [item.value, &[]]) };
        location
    }
}

/// An item's score per byte, as one of [`SCORES`] classes: its requests, 0 if there were none; or
/// the reciprocal of its age.
fn score(store: &Store, word: Word, bytes: usize) -> usize {
    let density = match &store.learner {
        Some(learner) => (1 << 30) / (bytes as u64 * u64::from(learner.age(word.requests()))),
        None => (u64::from(word.requests()) << 24) / bytes as u64,
    };
    if density == 0 {
        return 0;
    }
    let exponent = density.ilog2();
    let quarter = ((density << 2) >> exponent) & 3;
    (4 * exponent as usize + quarter as usize + 1).min(SCORES - 1)
}

/// Scores an item to find the cut.
fn sample(store: &Store, candidate: Candidate<'_>, scores: &mut [u64; SCORES]) {
    // Takes no lock: if the word moves meanwhile, this item is not counted.
    let mut words = store.index.look(candidate.hash, &store.segments);
    if let Some((_, word)) = words.find(|(_, word)| word.location() == candidate.location) {
        let bytes = candidate.item.head.item_bytes();
        scores[score(store, word, bytes)] += bytes as u64;
    }
}
