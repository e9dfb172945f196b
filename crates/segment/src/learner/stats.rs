//! Statistics of a learner and of segments.

use std::time::Duration;

use frazil_policy::GroupLearning;

use super::{FEATURES, Learner};
use crate::store::Store;
use crate::sync::atomic::Ordering::Relaxed;

/// The work of the learner of [`Eviction::GlCache`](crate::Eviction::GlCache), and its results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LearnerStats {
    /// Snapshots of segments. The learner watches each for a while.
    pub snapshots: u64,
    /// Models made.
    pub trainings: u64,
    /// How long the last training took.
    pub training: Duration,
    /// Age of the model. `None`: there is no model yet, and merges go through the segments in
    /// order.
    pub model_age: Option<Duration>,
    /// Segments of the last snapshots on which the model was trained.
    pub samples: u64,
    /// The model's error where samples were held back, root mean square; 1 is the utility of the
    /// most useful segment of a snapshot.
    pub error: f64,
    /// Each feature's share of the model's gain, in the order of [`LearnerStats::FEATURES`].
    pub importance: [f64; FEATURES],
    /// Rankings of all segments.
    pub rankings: u64,
    /// Segments chosen as the least useful. Each was merged with its neighbours.
    pub chosen_segments: u64,
    /// Mean predicted utility of these, in units of `error`.
    pub chosen_utility: f64,
    /// Entries evicted in these merges.
    pub chosen_items: u64,
    /// Cost of these evictions: misses of evicted entries before the next snapshot, estimated
    /// from the sampled keys.
    pub chosen_misses: u64,
    /// The share of all keys that are sampled.
    pub sampled_share: f64,
    /// Sampled keys that are noted: they were requested since the snapshot, or have left their
    /// segment.
    pub noted_keys: u64,
    /// Sampled keys that left their segment and were not noted because the table was full.
    pub unnoted_keys: u64,
}

impl LearnerStats {
    /// The model's features of a segment, in the order of [`LearnerStats::importance`].
    pub const FEATURES: [&'static str; FEATURES] = GroupLearning::FEATURES;
}

/// A learner's counts of a segment ([`SegmentStats::learned`](crate::SegmentStats::learned)).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SegmentLearned {
    /// Requests for its items. A merged segment begins with the mean of its parts, or with their
    /// sum if all items were kept.
    pub requests: u64,
    /// Items that were requested since they were written.
    pub active_items: u32,
    /// Its predicted utility at the last ranking, in units of [`LearnerStats::error`]; `None` if it
    /// is not yet ranked.
    pub utility: Option<f32>,
}

impl Store {
    /// Statistics of the learner; `None` if the store evicts without one. O(words of its table), at
    /// most a 128th of the capacity and 8 MiB.
    ///
    /// ```
    /// use frazil_segment::{Eviction, Store};
    ///
    /// let store = Store::builder(4 << 20).eviction(Eviction::GlCache).build()?;
    /// assert_eq!(store.learner_stats().unwrap().model_age, None);
    /// # Ok::<(), frazil_segment::BuildError>(())
    /// ```
    pub fn learner_stats(&self) -> Option<LearnerStats> {
        self.learner.as_ref().map(Learner::stats)
    }
}

impl Learner {
    fn stats(&self) -> LearnerStats {
        let shared = &self.shared;
        let tallied = &shared.tallied;
        let trainings = tallied.trainings.load(Relaxed);
        let age_ms = shared.clock.now_ms().saturating_sub(tallied.trained_ms.load(Relaxed));
        let chosen_segments = tallied.chosen_segments.load(Relaxed);
        let chosen_utility = f64::from_bits(tallied.chosen_utility.load(Relaxed));
        let sampled_below = shared.sampled_below.load(Relaxed);
        LearnerStats {
            snapshots: tallied.snapshots.load(Relaxed),
            trainings,
            training: Duration::from_nanos(tallied.training_ns.load(Relaxed)),
            model_age: (trainings > 0).then(|| Duration::from_millis(age_ms)),
            samples: tallied.samples.load(Relaxed),
            error: f64::from_bits(tallied.error.load(Relaxed)),
            importance: tallied.importance.each_ref().map(|it| f64::from_bits(it.load(Relaxed))),
            rankings: tallied.rankings.load(Relaxed),
            chosen_segments,
            chosen_utility: chosen_utility / chosen_segments.max(1) as f64,
            chosen_items: tallied.chosen_items.load(Relaxed),
            chosen_misses: tallied.chosen_misses.load(Relaxed),
            sampled_share: f64::from(sampled_below) / f64::from(u32::MAX),
            noted_keys: shared.notes.len() as u64,
            unnoted_keys: tallied.unnoted.load(Relaxed),
        }
    }

    pub(crate) fn of_segment(&self, segment: u32) -> SegmentLearned {
        let tally = &self.shared.tallies[segment as usize];
        let utility = f32::from_bits(tally.foretold.load(Relaxed));
        SegmentLearned {
            requests: tally.requests.load(Relaxed),
            active_items: tally.active.load(Relaxed),
            utility: (!utility.is_nan()).then_some(utility),
        }
    }
}
