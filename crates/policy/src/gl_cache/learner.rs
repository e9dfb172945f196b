//! Learning a group's utility: samples, what they turn out to be worth, and a model of it.

use super::ghosts::Ghosts;
use super::groups::{FEATURES, Groups, NONE};
use crate::{BoostedTrees, Boosting, Samples};

/// Every so manyth sample is held back to see when training is of no more use.
const VALID_EVERY: usize = 10;
/// A model is made anew once one in so many of its samples would be new. Small caches, which turn
/// over fast and have few groups, would do nothing but train without it.
const FRESH_PART: usize = 4;
/// Fewer samples teach nothing.
pub(super) const LEAST_SAMPLES: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct Learner {
    most: usize,
    boosting: Boosting,
    /// Groups as they were at the last snapshot, and their utility so far.
    current: Samples<FEATURES>,
    /// Samples of earlier snapshots, oldest first.
    earlier: Samples<FEATURES>,
    /// Samples since the model was made.
    fresh: usize,
    /// Requests that are added to the time until an object is requested.
    grace: f32,
    pub(super) ghosts: Ghosts,
    /// When the last snapshot was taken, in requests.
    pub(super) since: u32,
    pub(super) model: Option<BoostedTrees<FEATURES>>,
}

impl Learner {
    pub(super) fn new(most: u32, boosting: Boosting, costs_differ: bool) -> Self {
        Learner {
            most: most as usize,
            boosting,
            current: Samples::default(),
            earlier: Samples::default(),
            fresh: 0,
            ghosts: Ghosts::new(costs_differ),
            grace: 0.0,
            since: 0,
            model: None,
        }
    }

    /// An object of a sample is requested for the first time since the snapshot; a miss of it costs
    /// so much.
    #[inline]
    pub(super) fn add_utility(&mut self, sample: u32, cost: f32, now: u32, size: u64) {
        let until_next = now.wrapping_sub(self.since).max(1) as f32 + self.grace;
        self.current.labels[sample as usize] += cost / (until_next * size.max(1) as f32);
    }

    /// Takes a snapshot of closed groups, evenly over all of them, in place of the last one.
    pub(super) fn sample(&mut self, groups: &mut Groups, now: u32, seconds: f64, grace: f32) {
        self.grace = grace;
        self.ghosts.clear();
        self.since = now;
        self.current.rows.clear();
        self.current.labels.clear();
        let all: Vec<u32> = groups.closed().collect();
        let every = all.len().div_ceil(self.most).max(1);
        for (number, &group) in all.iter().enumerate() {
            groups.tally_mut(group).sample = NONE;
            if number.is_multiple_of(every) {
                groups.tally_mut(group).sample = self.current.rows.len() as u32;
                self.current.rows.push(groups.features(group, seconds));
                self.current.labels.push(0.0);
            }
        }
    }

    /// Keeps what was collected of the last snapshot.
    pub(super) fn collect(&mut self) {
        // Utilities of snapshots differ by how long each was watched, and how busy it was then.
        let scale = self.current.labels.iter().fold(0.0_f32, |most, &label| most.max(label));
        if scale <= 0.0 {
            return;
        }
        self.fresh += self.current.rows.len();
        let all = &mut self.earlier;
        all.rows.append(&mut self.current.rows);
        all.labels.extend(self.current.labels.drain(..).map(|label| label / scale));
        let surplus = all.rows.len().saturating_sub(self.most);
        all.rows.drain(..surplus);
        all.labels.drain(..surplus);
    }

    /// Whether a new model would know more.
    pub(super) fn is_stale(&self) -> bool {
        self.fresh * FRESH_PART >= self.earlier.rows.len()
    }

    /// Makes a new model of what was collected. Without rounds there is none.
    pub(super) fn train(&mut self) {
        let all = &self.earlier;
        if all.rows.len() < LEAST_SAMPLES as usize || self.boosting.rounds == 0 {
            return;
        }
        self.fresh = 0;
        let [mut train, mut valid] = [Samples::default(), Samples::default()];
        for (number, (row, label)) in all.rows.iter().zip(&all.labels).enumerate() {
            let to = if number % VALID_EVERY == 0 { &mut valid } else { &mut train };
            to.rows.push(*row);
            to.labels.push(*label);
        }
        self.model = Some(BoostedTrees::fit(&train, &valid, &self.boosting));
    }
}
