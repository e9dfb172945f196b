//! The learned half of `gl-cache` (`docs/design/segment-learner.md`): the counts of segments by
//! readers, writers and the evictor, and the ranking made from them.
//!
//! All counts are relaxed atomics, and none guards memory: a lost or late count makes a label or a
//! feature slightly wrong. The evictor gets the ranking, a list of segments, under a lock that it
//! only tries, so it never waits for training.

mod notes;
mod stats;
mod thread;
mod trainer;

use std::sync::Arc;

use frazil_policy::GroupLearning;

use crate::clock::Clock;
use crate::hazards::Hazards;
use crate::segments::Segment;
use crate::store::Counters;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};
use notes::{Noted, Notes};
use thread::Thread;
use trainer::Trainer;

pub use stats::{LearnerStats, SegmentLearned};
pub(crate) use trainer::Ranking;

pub(crate) const FEATURES: usize = GroupLearning::FEATURES.len();

/// Instead of a row of the snapshot: the segment was not in the snapshot.
const NO_ROW: u32 = u32::MAX;
/// Instead of a row: items of segments with rows were merged into it, and the relevant ones are
/// noted.
const HEIR: u32 = NO_ROW - 1;

/// Set in a word's note once the item was requested since it was written.
const ACTIVE: u32 = 1 << 7;
const EPOCHS: u32 = 1 << 7;
/// Epochs per turnover: the time in which writes equal the size of all segments. Ages are
/// distinguished up to eight times that.
const EPOCHS_PER_TURNOVER: u64 = 16;
/// Upper bound on the age of an item that moves, so that its age does not wrap soon.
const AGE_MAX: u32 = EPOCHS - EPOCHS / 4;
/// Of requests for an item already noted, one in this many counts, with this weight.
const REPEATS: u32 = 64;

/// The share of the segments for which a ranking serves: as in the paper's prototype, whose
/// segments have the same size.
const FRACTION: f64 = 0.05;
/// The time for which the segments of a snapshot are watched: until this multiple of the number
/// of resident items was written. Of 0.35, 0.5, 1 and 2 this had the highest hit ratio on nine
/// traces.
const HORIZON: f64 = 0.5;

/// Requests to the thread.
const RANK: u32 = 1;
const SNAPSHOT: u32 = 2;
const STOP: u32 = 4;

/// Counts of a segment, on a cache line of their own.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Tally {
    requests: AtomicU64,
    /// Items that were requested since they were written.
    active: AtomicU32,
    row: AtomicU32,
    /// Request rate, write rate and miss ratio when it was full; bits of numbers.
    states: [AtomicU32; 3],
    /// The last prediction for it, as bits of a float; NaN if there is none.
    foretold: AtomicU32,
}

/// Requests and misses of the whole store since a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    requests: u64,
    misses: u64,
    now_ms: u64,
    states: [f32; 3],
}

/// Counts for `LearnerStats`.
#[derive(Debug, Default)]
struct Tallied {
    rankings: AtomicU64,
    snapshots: AtomicU64,
    trainings: AtomicU64,
    training_ns: AtomicU64,
    trained_ms: AtomicU64,
    samples: AtomicU64,
    error: AtomicU64,
    importance: [AtomicU64; FEATURES],
    chosen_segments: AtomicU64,
    chosen_items: AtomicU64,
    chosen_utility: AtomicU64,
    chosen_misses: AtomicU64,
    unnoted: AtomicU64,
}

/// State shared with the learner's thread.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: GroupLearning,
    table: Arc<[Segment]>,
    hazards: Hazards,
    counters: Arc<Counters>,
    clock: Clock,
    /// The unit of items' ages, modulo [`EPOCHS`].
    epoch: AtomicU32,
    /// Keys are sampled whose hash has less than this in its upper half. 0 while a snapshot is
    /// made.
    sampled_below: AtomicU32,
    /// Requests at the snapshot, and the grace that is added to later ones.
    since: AtomicU64,
    grace: AtomicU64,
    /// The numbers of writes and of items at the snapshot.
    written_then: AtomicU64,
    items_then: AtomicU64,
    tallies: Box<[Tally]>,
    notes: Notes,
    /// Utility of each row so far; bits of numbers.
    labels: Box<[AtomicU64]>,
    opened: AtomicU64,
    window: Mutex<Window>,
    /// A ranking that the evictor has not taken yet.
    ranking: Mutex<Option<Ranking>>,
    asked: AtomicU32,
    trainer: Mutex<Trainer>,
    tallied: Tallied,
}

/// The learner of a store.
#[derive(Debug)]
pub(crate) struct Learner {
    shared: Arc<Shared>,
    /// `None`: the evictor does the work.
    thread: Option<Thread>,
}

/// The settings of a learner.
pub(crate) struct Parts {
    pub(crate) table: Arc<[Segment]>,
    pub(crate) hazards: Hazards,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Clock,
}

/// Rows of a snapshot, and words of the table of notes, for a capacity.
fn sizes(capacity_bytes: usize) -> (u32, usize) {
    // With the memory of training, a 40th of the capacity; at most the paper's from 128 MiB on.
    let rows = (capacity_bytes >> 14).clamp(32, notes::ROWS_MAX);
    // A 128th.
    let words = (capacity_bytes >> 10).clamp(256, 1 << 20);
    (rows as u32, 1 << words.ilog2())
}

/// Bytes of a learner beside its data for each segment: samples of this snapshot and of earlier
/// ones, buffers of training, models, notes.
pub(crate) fn bytes_beside(capacity_bytes: usize) -> usize {
    let (rows, words) = sizes(capacity_bytes);
    let training = trainer::bytes(rows, &settings(capacity_bytes).boosting);
    size_of::<Shared>() + training + words * size_of::<AtomicU64>()
}

/// Bytes that it takes for each segment.
pub(crate) const BYTES_BESIDE: usize = size_of::<Tally>() + trainer::BYTES_BESIDE;

/// The parameters for a capacity.
fn settings(capacity_bytes: usize) -> GroupLearning {
    let (samples, _) = sizes(capacity_bytes);
    let mut settings =
        GroupLearning { samples, fraction: FRACTION, horizon: HORIZON, ..GroupLearning::default() };
    settings.boosting.bins = settings.boosting.bins.min(samples / 4);
    settings
}

impl Learner {
    /// A learner, with a thread unless it works `in_place`.
    pub(crate) fn new(
        parts: Parts,
        capacity_bytes: usize,
        in_place: bool,
    ) -> std::io::Result<Learner> {
        let Parts { table, hazards, counters, clock } = parts;
        let settings = settings(capacity_bytes);
        let (now_ms, states) = (clock.now_ms(), [0.0, 0.0, 1.0]);
        let segments = table.len();
        let tally = |_| Tally { row: AtomicU32::new(NO_ROW), ..Tally::default() };
        let shared = Arc::new(Shared {
            settings,
            tallies: (0..segments).map(tally).collect(),
            table,
            hazards,
            counters,
            clock,
            epoch: AtomicU32::new(0),
            sampled_below: AtomicU32::new(0),
            since: AtomicU64::new(0),
            grace: AtomicU64::new(0),
            written_then: AtomicU64::new(0),
            items_then: AtomicU64::new(0),
            notes: Notes::new(sizes(capacity_bytes).1),
            labels: (0..settings.samples).map(|_| AtomicU64::new(0)).collect(),
            opened: AtomicU64::new(0),
            window: Mutex::new(Window { now_ms, states, ..Window::default() }),
            ranking: Mutex::new(None),
            asked: AtomicU32::new(0),
            trainer: Mutex::new(Trainer::new(&settings, segments)),
            tallied: Tallied::default(),
        });
        let thread = if in_place { None } else { Some(Thread::start(Arc::clone(&shared))?) };
        Ok(Learner { shared, thread })
    }

    /// The note in the word of an item that is written now.
    pub(crate) fn note_of_written(&self) -> u32 {
        self.shared.epoch.load(Relaxed)
    }

    /// The note for an item that is requested. `None`: the request is already noted.
    #[inline]
    pub(crate) fn note_of_requested(&self, note: u32) -> Option<u32> {
        let requested = ACTIVE | self.shared.epoch.load(Relaxed);
        (note != requested).then_some(requested)
    }

    /// Whether an item of this note was requested since it was written.
    pub(crate) fn is_requested(note: u32) -> bool {
        note & ACTIVE != 0
    }

    /// Twice the epochs since an item was last requested or written, plus one.
    pub(crate) fn age(&self, note: u32) -> u32 {
        2 * age(self.shared.epoch.load(Relaxed), note) + 1
    }

    /// An item was requested, and its word had another note before.
    #[inline]
    pub(crate) fn noted(&self, segment: u32, note: u32) {
        let tally = &self.shared.tallies[segment as usize];
        tally.requests.fetch_add(1, Relaxed);
        if note & ACTIVE == 0 {
            tally.active.fetch_add(1, Relaxed);
        }
    }

    /// An item was requested again within an epoch.
    #[inline]
    pub(crate) fn repeated(&self, segment: u32, one_in: impl Fn(u32) -> bool) {
        if one_in(REPEATS) {
            self.shared.tallies[segment as usize].requests.fetch_add(REPEATS.into(), Relaxed);
        }
    }

    #[inline]
    pub(crate) fn is_sampled(&self, hash: u64) -> bool {
        ((hash >> 32) as u32) < self.shared.sampled_below.load(Relaxed)
    }

    /// A sampled key was requested and found.
    #[inline(never)]
    pub(crate) fn hit(&self, hash: u64, segment: u32, bytes: usize) {
        let shared = &self.shared;
        let row = shared.tallies[segment as usize].row.load(Relaxed);
        if row == NO_ROW {
            return;
        }
        match shared.notes.request(hash, row != HEIR) {
            Noted::Absent if row != HEIR => shared.add_utility(row, bytes as f32),
            Noted::Row(row, bytes) => shared.add_utility(row, bytes),
            _ => {}
        }
    }

    /// A sampled key was requested and not found.
    #[inline(never)]
    pub(crate) fn missed(&self, hash: u64) {
        if let Noted::Row(row, bytes) = self.shared.notes.request(hash, false) {
            self.shared.add_utility(row, bytes);
            // All notes belong to this snapshot, and since the first model the model chooses the
            // segments to evict. No key is sampled if the next snapshot has begun meanwhile.
            let keys = u32::MAX.checked_div(self.shared.sampled_below.load(Relaxed)).unwrap_or(0);
            if self.shared.tallied.trainings.load(Relaxed) > 0 {
                self.shared.tallied.chosen_misses.fetch_add(keys.into(), Relaxed);
            }
        }
    }

    /// A sampled key's item was deleted or replaced: its old value will not be requested.
    pub(crate) fn forget(&self, hash: u64) {
        _ = self.shared.notes.request(hash, false);
    }

    /// A sampled key's item leaves its segment, because that is merged or evicted.
    pub(crate) fn leaves(&self, hash: u64, segment: u32, bytes: usize) {
        let row = self.shared.tallies[segment as usize].row.load(Relaxed);
        if row < HEIR && !self.shared.notes.note(hash, row, bytes) {
            self.shared.tallied.unnoted.fetch_add(1, Relaxed);
        }
    }

    /// A segment replaces the full segment `before` as the open one. Called before any write to it.
    pub(crate) fn opens(&self, segment: u32, before: Option<u32>) {
        let shared = &self.shared;
        let tally = &shared.tallies[segment as usize];
        tally.requests.store(0, Relaxed);
        tally.active.store(0, Relaxed);
        tally.row.store(NO_ROW, Relaxed);
        tally.foretold.store(f32::NAN.to_bits(), Relaxed);
        if let (Some(full), Some(states)) = (before, shared.states()) {
            let full = &shared.tallies[full as usize];
            full.states.iter().zip(states).for_each(|(to, it)| to.store(it.to_bits(), Relaxed));
        }
        let opened = shared.opened.fetch_add(1, Relaxed) + 1;
        let epoch = opened * EPOCHS_PER_TURNOVER / shared.table.len() as u64;
        shared.epoch.store(epoch as u32 & (EPOCHS - 1), Relaxed);
    }

    /// A segment takes the staying items of a run: `all` of them, or a part.
    pub(crate) fn merges(&self, run: &[u32], into: u32, all: bool) {
        let tallies = &self.shared.tallies;
        let of = |segment: u32| &tallies[segment as usize];
        let requests: u64 = run.iter().map(|&it| of(it).requests.load(Relaxed)).sum();
        let parts = if all { 1 } else { run.len() as u64 };
        let has_row = run.iter().any(|&it| of(it).row.load(Relaxed) != NO_ROW);
        let into = of(into);
        into.requests.store(requests / parts, Relaxed);
        into.active.store(0, Relaxed);
        into.foretold.store(f32::NAN.to_bits(), Relaxed);
        into.row.store(if has_row { HEIR } else { NO_ROW }, Relaxed);
        for (place, state) in into.states.iter().enumerate() {
            let states = run.iter().map(|&it| f32::from_bits(of(it).states[place].load(Relaxed)));
            state.store((states.sum::<f32>() / run.len() as f32).to_bits(), Relaxed);
        }
    }

    /// An item moves to a merged segment. Returns its new note.
    pub(crate) fn moves(&self, into: u32, note: u32) -> u32 {
        if note & ACTIVE != 0 {
            self.shared.tallies[into as usize].active.fetch_add(1, Relaxed);
        }
        let now = self.shared.epoch.load(Relaxed);
        let age = age(now, note).min(AGE_MAX);
        note & ACTIVE | now.wrapping_sub(age) & (EPOCHS - 1)
    }

    /// The evictor (there is one at a time) has chosen a segment by its rank.
    pub(crate) fn chose(&self, utility: f32) {
        let tallied = &self.shared.tallied;
        tallied.chosen_segments.fetch_add(1, Relaxed);
        let sum = f64::from_bits(tallied.chosen_utility.load(Relaxed)) + f64::from(utility);
        tallied.chosen_utility.store(sum.to_bits(), Relaxed);
    }

    /// An item of a chosen segment or of its neighbours is evicted.
    pub(crate) fn evicts(&self) {
        self.shared.tallied.chosen_items.fetch_add(1, Relaxed);
    }

    /// Requests a snapshot and a model when they are due. The evictor calls it before it evicts.
    pub(crate) fn tend(&self) {
        if self.shared.is_over() {
            self.ask(SNAPSHOT);
        }
    }

    /// Requests a new ranking, if there is a model.
    pub(crate) fn wants_ranking(&self) {
        if self.shared.tallied.trainings.load(Relaxed) > 0 {
            self.ask(RANK);
        }
    }

    /// A new ranking, if there is one.
    pub(crate) fn new_ranking(&self) -> Option<Ranking> {
        self.shared.ranking.try_lock()?.take()
    }

    fn ask(&self, what: u32) {
        if self.shared.asked.load(Relaxed) & what != 0 {
            return;
        }
        // Release: partner of `Shared::work`, which sees the evictor's work.
        self.shared.asked.fetch_or(what, Release);
        match &self.thread {
            Some(thread) => thread.wake(),
            None => _ = self.shared.work(),
        }
    }
}

/// Epochs from a note until now.
fn age(now: u32, note: u32) -> u32 {
    now.wrapping_sub(note) & (EPOCHS - 1)
}

impl Shared {
    fn add_utility(&self, row: u32, bytes: f32) {
        let Some(label) = self.labels.get(row as usize) else { return };
        let passed = self.requests().saturating_sub(self.since.load(Relaxed)).max(1);
        let until_next = passed as f64 + f64::from_bits(self.grace.load(Relaxed));
        let part = 1.0 / (until_next * f64::from(bytes));
        let add = |sum| Some((f64::from_bits(sum) + part).to_bits());
        _ = label.fetch_update(Relaxed, Relaxed, add);
    }

    /// Requests so far.
    fn requests(&self) -> u64 {
        let (hits, misses) = self.hazards.counts();
        hits + misses
    }

    /// Request rate, write rate and miss ratio of the last window; `None` while another thread
    /// reads them.
    fn states(&self) -> Option<[f32; 3]> {
        let mut window = self.window.try_lock()?;
        let (hits, misses) = self.hazards.counts();
        let requests = hits + misses - window.requests;
        let now_ms = self.clock.now_ms();
        let passed = now_ms.saturating_sub(window.now_ms) as f64 / 1e3;
        if requests >= u64::from(self.settings.window) && passed > 0.0 {
            let missed = misses - window.misses;
            let rate = |count: u64| (count as f64 / passed) as f32;
            let states = [rate(requests), rate(missed), missed as f32 / requests as f32];
            *window = Window { requests: hits + misses, misses, now_ms, states };
        }
        Some(window.states)
    }

    /// Whether the segments of the last snapshot were watched for long enough: the first two for a
    /// quarter and half of the usual time, so that there is a model early.
    fn is_over(&self) -> bool {
        let snapshots = self.tallied.snapshots.load(Relaxed);
        if snapshots == 0 {
            return true;
        }
        let part = f64::from(1u32 << snapshots.min(3)) / 8.0 * self.settings.horizon;
        // The thread may have taken a snapshot after the first of these loads.
        let writes = self.counters.writes.load(Relaxed);
        let written = writes.saturating_sub(self.written_then.load(Relaxed));
        written as f64 >= part * self.items_then.load(Relaxed).max(1) as f64
    }

    /// Does the requested work; true if the thread must stop.
    fn work(&self) -> bool {
        // Acquire: partner of `Learner::ask`.
        let asked = self.asked.load(Acquire);
        if asked & STOP != 0 {
            return true;
        }
        if asked != 0 {
            let mut trainer = self.trainer.lock();
            let trained = asked & SNAPSHOT != 0 && trainer.snapshot(self);
            if trained || asked & RANK != 0 {
                trainer.rank(self);
            }
            // Last, so that the same work is not requested again meanwhile.
            self.asked.fetch_and(!asked, Relaxed);
        }
        false
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Attributes, Eviction, Store};

    /// The sum of all labels, and the addition by a request now.
    fn labels(shared: &Shared, bytes: usize) -> (f64, f64) {
        let sum = shared.labels.iter().map(|label| f64::from_bits(label.load(Relaxed))).sum();
        let grace = f64::from_bits(shared.grace.load(Relaxed));
        let passed = (shared.requests() - shared.since.load(Relaxed) + 1) as f64;
        (sum, 1.0 / ((passed + grace) * bytes as f64))
    }

    fn store() -> Store {
        let builder = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(Eviction::GlCache);
        let store = builder.learn_in_place(true).seed(1).build().unwrap();
        // Writes until the first eviction, which takes the first snapshot.
        let snapshots = || store.learner_stats().unwrap().snapshots;
        (0u64..).take_while(|_| snapshots() == 0).for_each(|number| set(&store, number));
        store
    }

    fn set(store: &Store, number: u64) {
        store.set(&number.to_le_bytes(), &[0; 240], Attributes::default()).unwrap();
    }

    fn is_sampled(store: &Store, number: u64) -> bool {
        store.learner.as_ref().unwrap().is_sampled(store.hash(&number.to_le_bytes()))
    }

    /// Sampled keys that are in segments with rows.
    fn sampled(store: &Store) -> Vec<u64> {
        let has_row = |number: &u64| {
            let (key, mut hazard) = (number.to_le_bytes(), None);
            let found = store.find(&key, store.hash(&key), &mut hazard).ok().flatten();
            let segment = found.map(|found| store.segments.of(found.word.location()));
            let tallies = &store.learner.as_ref().unwrap().shared.tallies;
            segment.is_some_and(|segment| tallies[segment as usize].row.load(Relaxed) < HEIR)
        };
        (0..4000).filter(has_row).filter(|&number| is_sampled(store, number)).collect()
    }

    fn get(store: &Store, number: u64) -> bool {
        store.get_with(&number.to_le_bytes(), |_| ()).is_some()
    }

    /// Bytes of each item; a note keeps them to an eighth.
    const BYTES: usize = 252;

    #[test]
    fn an_object_adds_to_its_segments_label_once() {
        let store = store();
        let shared = &store.learner.as_ref().unwrap().shared;
        let [number, other, ..] = sampled(&store)[100..] else { panic!("few are sampled") };
        let (before, part) = labels(shared, BYTES);
        assert!(get(&store, number));
        let (after, _) = labels(shared, BYTES);
        assert!((after - before - part).abs() < part * 1e-6, "{before} {part} {after}");
        assert!(get(&store, number));
        assert_eq!(labels(shared, BYTES).0, after);
        // Items written since the snapshot belong to none of its segments.
        let is_sampled = |&new: &u64| is_sampled(&store, new);
        let new = (1 << 40..).find(is_sampled).unwrap();
        set(&store, new);
        set(&store, other);
        assert!(get(&store, new) && get(&store, other));
        assert_eq!(labels(shared, BYTES).0, after);
    }

    #[test]
    fn an_object_that_has_gone_adds_when_it_is_missed() {
        let store = store();
        let shared = &store.learner.as_ref().unwrap().shared;
        let all = sampled(&store);
        let is_gone = |number: &&u64| !store.contains(&number.to_le_bytes());
        // Some merges, and no second snapshot.
        for number in 0..300 {
            set(&store, 1 << 40 | number);
        }
        assert_eq!(store.learner_stats().unwrap().snapshots, 1);
        let gone: Vec<u64> = all.iter().filter(is_gone).copied().collect();
        let noted = store.learner_stats().unwrap().noted_keys;
        assert!(gone.len() > 2 && noted >= gone.len() as u64, "{} gone, {noted} noted", gone.len());
        let (before, part) = labels(shared, BYTES);
        assert!(!get(&store, gone[0]));
        let (after, _) = labels(shared, BYTES);
        assert!((after - before) / part > 0.99 && (after - before) / part < 1.14);
        assert!(!get(&store, gone[0]));
        assert_eq!(labels(shared, BYTES).0, after);
        // A key is written or deleted before a request: the old value will not be requested.
        set(&store, gone[1]);
        store.delete(&gone[2].to_le_bytes());
        for number in &gone[1..3] {
            let hash = store.hash(&number.to_le_bytes());
            assert_eq!(shared.notes.request(hash, false), Noted::Seen);
        }
    }

    #[test]
    fn requests_and_items_asked_for_are_counted() {
        let store = store();
        let tallies = || {
            let learned = store.segments().map(|segment| segment.learned.unwrap());
            learned.fold((0, 0), |sum, it| (sum.0 + it.requests, sum.1 + it.active_items))
        };
        let before = tallies();
        (900..910).for_each(|number| assert!(get(&store, number)));
        assert_eq!(tallies(), (before.0 + 10, before.1 + 10));
        // Again within an epoch: one in 64, as 64.
        (0..6400).for_each(|_| assert!(get(&store, 900)));
        let (requests, active) = tallies();
        assert_eq!(active, before.1 + 10);
        assert!((4000..9600).contains(&(requests - before.0)), "{}", requests - before.0);
    }

    /// The thread takes a snapshot between the evictor's two loads, so the first one is outdated.
    #[test]
    fn a_snapshot_between_two_looks_is_not_over() {
        let store = store();
        let learner = store.learner.as_ref().unwrap();
        let shared = &learner.shared;
        shared.written_then.store(shared.counters.writes.load(Relaxed) + 1, Relaxed);
        assert!(!shared.is_over());
    }

    /// A key requested ten million times a second has had 2^32 requests after seven minutes.
    #[test]
    fn requests_do_not_wrap() {
        let store = store();
        let learner = store.learner.as_ref().unwrap();
        let tallies = &learner.shared.tallies;
        tallies[..3].iter().for_each(|it| it.requests.store(u32::MAX.into(), Relaxed));
        learner.repeated(0, |_| true);
        learner.merges(&[0, 1, 2], 3, true);
        assert!(store.learner.as_ref().unwrap().of_segment(3).requests as f64 > 1.2e10);
    }

    /// The thread begins a snapshot after a sampled key's miss, and no key is sampled meanwhile.
    #[test]
    fn a_miss_while_a_snapshot_is_made_counts_for_nothing() {
        let store = store();
        let learner = store.learner.as_ref().unwrap();
        let shared = &learner.shared;
        shared.tallied.trainings.store(1, Relaxed);
        assert!(shared.notes.note(7 << 40, 0, 100));
        shared.sampled_below.store(0, Relaxed);
        learner.missed(7 << 40);
        assert_eq!(store.learner_stats().unwrap().chosen_misses, 0);
    }

    /// The start of the clock must not matter: the rates count from when the store was built.
    #[test]
    fn rates_count_from_when_the_store_was_made() {
        let now_ms = Arc::new(std::sync::atomic::AtomicU64::new(1 << 40));
        let builder = Store::builder(1 << 20).segment_bytes(16 << 10).eviction(Eviction::GlCache);
        let store = builder.learn_in_place(true).clock(Arc::clone(&now_ms)).build().unwrap();
        let shared = &store.learner.as_ref().unwrap().shared;
        (0..u64::from(shared.settings.window)).for_each(|number| assert!(!get(&store, number)));
        now_ms.fetch_add(1000, Relaxed);
        assert_eq!(shared.states().unwrap()[0], shared.settings.window as f32);
    }

    #[test]
    fn ages_of_notes_wrap_and_are_cut() {
        let store = store();
        let learner = store.learner.as_ref().unwrap();
        learner.shared.epoch.store(5, Relaxed);
        assert_eq!(learner.age(ACTIVE | 5), 1);
        assert_eq!(learner.age(3), 5);
        assert_eq!(learner.age(EPOCHS - 1), 13);
        let moved = learner.moves(0, ACTIVE | 6);
        assert_eq!((moved & ACTIVE, learner.age(moved)), (ACTIVE, 2 * AGE_MAX + 1));
        assert_eq!(learner.note_of_requested(ACTIVE | 5), None);
        assert_eq!(learner.note_of_requested(5), Some(ACTIVE | 5));
    }
}
