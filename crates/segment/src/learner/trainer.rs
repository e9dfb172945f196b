//! The work of the learner's thread: samples of segments, the model, rankings.

use std::time::Instant;

use frazil_policy::{Boosting, GroupLearning, GroupModel, Samples};

use super::{FEATURES, NO_ROW, Shared, Tally};
use crate::segments::Segment;
use crate::sync::atomic::Ordering::Relaxed;

/// A segment with its rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    pub(crate) segment: u32,
    /// The segment's generation: another one means it was freed since.
    pub(crate) generation: u32,
    /// Its predicted utility.
    pub(crate) utility: f32,
}

/// Segments, the least useful first.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    order: Vec<Ranked>,
    position: usize,
    /// The position at which a new ranking is due.
    limit: usize,
}

impl Ranking {
    /// Whether it has served its number of segments.
    pub(crate) fn is_used_up(&self) -> bool {
        self.position >= self.limit
    }

    pub(crate) fn next(&mut self) -> Option<Ranked> {
        let next = self.order.get(self.position).copied();
        self.position += usize::from(next.is_some());
        next
    }
}

/// A ranking names this many times the segments that it should serve, to last until the next
/// ranking.
const RESERVE: f64 = 4.0;
const RANKED_MIN: usize = 16;

#[derive(Debug)]
pub(super) struct Trainer {
    model: GroupModel,
    /// The rows of the snapshot.
    current: Samples<FEATURES>,
    /// Quiet segments in the order of writing.
    quiet: Vec<(u64, u32)>,
    rows: Vec<[f32; FEATURES]>,
    predicted: Vec<f32>,
    /// The order of eviction of the quiet ones.
    order: Vec<u32>,
}

/// Bytes of a trainer of `rows` rows: rows of this snapshot and of earlier ones, 32 each; labels,
/// 8; buffers of training, 100; bins of all features at eight nodes; the model and its
/// predecessor.
pub(super) fn bytes(rows: u32, boosting: &Boosting) -> usize {
    const NODES: usize = 8;
    let leaves = 1 << boosting.depth;
    let model = boosting.rounds as usize * (leaves * size_of::<f32>() + (leaves - 1) * SPLIT_BYTES);
    rows as usize * (2 * 32 + 8 + 100) + NODES * boosting.bins as usize * FEATURES * 16 + 2 * model
}

/// A comparison of a tree: a threshold and a feature.
const SPLIT_BYTES: usize = size_of::<f32>() + size_of::<u32>();

/// Rankings that exist at once, each of a fifth of the segments: one in use, one waiting, and one
/// under construction.
const RANKINGS: usize = 3;

/// Its bytes for each segment.
pub(super) const BYTES_BESIDE: usize = size_of::<(u64, u32)>()
    + size_of::<[f32; FEATURES]>()
    + size_of::<f32>()
    + size_of::<u32>()
    + (RANKINGS * size_of::<Ranked>()).div_ceil(5);

impl Trainer {
    pub(super) fn new(settings: &GroupLearning, segments: usize) -> Trainer {
        Trainer {
            model: GroupModel::new(settings.samples, settings.boosting),
            current: Samples::default(),
            // A vector that grows takes up to twice as much.
            quiet: Vec::with_capacity(segments),
            rows: Vec::with_capacity(segments),
            predicted: Vec::with_capacity(segments),
            order: Vec::with_capacity(segments),
        }
    }

    /// Ends the last snapshot and takes another. True if there is a new model.
    pub(super) fn snapshot(&mut self, shared: &Shared) -> bool {
        shared.sampled_below.store(0, Relaxed);
        let label = |row: usize| f64::from_bits(shared.labels[row].load(Relaxed)) as f32;
        self.current.labels = (0..self.current.rows.len()).map(label).collect();
        self.model.collect(&mut self.current);
        let trained = shared.tallied.snapshots.load(Relaxed) > 0 && self.model.is_stale();
        if trained {
            self.train(shared);
        }
        self.sample(shared);
        trained && self.model.trees().is_some()
    }

    fn train(&mut self, shared: &Shared) {
        let begun = Instant::now();
        self.model.train();
        let tallied = &shared.tallied;
        if let Some(error) = self.model.error() {
            tallied.trainings.fetch_add(1, Relaxed);
            tallied.training_ns.store(begun.elapsed().as_nanos() as u64, Relaxed);
            tallied.trained_ms.store(shared.clock.now_ms(), Relaxed);
            tallied.samples.store(self.model.samples() as u64, Relaxed);
            tallied.error.store(error.to_bits(), Relaxed);
            for (to, share) in tallied.importance.iter().zip(self.model.importance()) {
                to.store(share.to_bits(), Relaxed);
            }
        }
    }

    /// Takes a snapshot of the quiet segments, evenly spread.
    fn sample(&mut self, shared: &Shared) {
        shared.notes.clear();
        self.find_quiet(shared);
        let every = self.quiet.len().div_ceil(shared.labels.len()).max(1);
        self.current.rows.clear();
        shared.tallies.iter().for_each(|tally| tally.row.store(NO_ROW, Relaxed));
        let now_ms = shared.clock.now_ms();
        let mut items = 0;
        for &(_, segment) in self.quiet.iter().step_by(every) {
            let (tally, of) = (&shared.tallies[segment as usize], &shared.table[segment as usize]);
            let row = self.current.rows.len();
            shared.labels[row].store(0, Relaxed);
            tally.row.store(row as u32, Relaxed);
            self.current.rows.push(features(tally, of, now_ms));
            items += u64::from(of.live_items.load(Relaxed));
        }
        let live = |segment: &Segment| u64::from(segment.live_items.load(Relaxed));
        let all: u64 = shared.table.iter().map(live).sum();
        shared.items_then.store(all, Relaxed);
        shared.written_then.store(shared.counters.writes.load(Relaxed), Relaxed);
        shared.grace.store((shared.settings.grace * all as f64).to_bits(), Relaxed);
        shared.since.store(shared.requests(), Relaxed);
        shared.tallied.snapshots.fetch_add(1, Relaxed);
        // Half of the table at most.
        let rooms = (2 * items).div_ceil(shared.notes.room() as u64).max(1);
        let below = u64::from(u32::MAX) / rooms;
        shared.sampled_below.store(below as u32, Relaxed);
    }

    /// Ranks all quiet segments, the least useful first.
    pub(super) fn rank(&mut self, shared: &Shared) {
        self.find_quiet(shared);
        let Some(trees) = self.model.trees() else { return };
        let now_ms = shared.clock.now_ms();
        let of =
            |segment: u32| (&shared.tallies[segment as usize], &shared.table[segment as usize]);
        self.rows.clear();
        self.rows.extend(self.quiet.iter().map(|&(_, segment)| {
            let (tally, segment) = of(segment);
            features(tally, segment, now_ms)
        }));
        trees.predict(&self.rows, &mut self.predicted);
        for (&(_, segment), &predicted) in self.quiet.iter().zip(&self.predicted) {
            of(segment).0.foretold.store(predicted.to_bits(), Relaxed);
        }
        self.order.clear();
        self.order.extend(0..self.quiet.len() as u32);
        // Among equals the older is evicted: they are in the order of writing.
        let utility = |index: u32| self.predicted[index as usize];
        self.order.sort_unstable_by(|&one, &other| {
            utility(one).total_cmp(&utility(other)).then(one.cmp(&other))
        });
        let share = self.quiet.len() as f64 * shared.settings.fraction;
        let wanted = ((share * RESERVE) as usize).max(RANKED_MIN).min(self.quiet.len());
        let limit = (share as usize).max(1);
        let ranked = self.order[..wanted].iter().map(|&index| {
            let segment = self.quiet[index as usize].1;
            Ranked { segment, generation: of(segment).1.generation(), utility: utility(index) }
        });
        let order = ranked.collect();
        *shared.ranking.lock() = Some(Ranking { order, position: 0, limit });
        shared.tallied.rankings.fetch_add(1, Relaxed);
    }

    fn find_quiet(&mut self, shared: &Shared) {
        self.quiet.clear();
        let all = (0..).zip(shared.table.iter());
        let quiet = all.filter(|(_, segment)| segment.state().is_quiet());
        self.quiet.extend(quiet.map(|(number, of)| (of.sequence.load(Relaxed), number)));
        self.quiet.sort_unstable();
    }
}

/// The seven features of a segment, in the order of [`GroupLearning::FEATURES`].
fn features(tally: &Tally, segment: &Segment, now_ms: u64) -> [f32; FEATURES] {
    let [request_rate, write_rate, miss_ratio] =
        [0, 1, 2].map(|place| f32::from_bits(tally.states[place].load(Relaxed)));
    let items = segment.live_items.load(Relaxed).max(1);
    let mean_size = segment.live_bytes.load(Relaxed) as f32 / items as f32;
    let age = now_ms.saturating_sub(segment.written_ms.load(Relaxed)) as f32 / 1e3;
    let requests = tally.requests.load(Relaxed) as f32;
    let active = tally.active.load(Relaxed) as f32;
    [request_rate, write_rate, miss_ratio, mean_size, age, requests, active]
}
