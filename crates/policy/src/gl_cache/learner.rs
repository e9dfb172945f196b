//! Learning a group's utility: samples and their measured utility.

use super::ghosts::Ghosts;
use super::groups::{FEATURES, Groups, NONE};
use super::model::GroupModel;
use crate::{Boosting, Samples};

#[derive(Clone, Debug)]
pub(super) struct Learner {
    most: usize,
    /// Groups at the last snapshot, and their utility since then.
    current: Samples<FEATURES>,
    /// Requests that are added to the time until an object is requested.
    grace: f32,
    pub(super) ghosts: Ghosts,
    /// When the last snapshot was taken, in requests.
    pub(super) since: u32,
    pub(super) model: GroupModel,
}

impl Learner {
    pub(super) fn new(most: u32, boosting: Boosting, costs_differ: bool) -> Self {
        Learner {
            most: most as usize,
            current: Samples::default(),
            ghosts: Ghosts::new(costs_differ),
            grace: 0.0,
            since: 0,
            model: GroupModel::new(most, boosting),
        }
    }

    /// An object of a sample is requested for the first time since the snapshot; `cost` is that of
    /// a miss.
    #[inline]
    pub(super) fn add_utility(&mut self, sample: u32, cost: f32, now: u32, size: u64) {
        let until_next = now.wrapping_sub(self.since).max(1) as f32 + self.grace;
        self.current.labels[sample as usize] += cost / (until_next * size.max(1) as f32);
    }

    /// Takes a snapshot of closed groups, evenly spread, in place of the last snapshot.
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

    /// Keeps the samples of the last snapshot.
    pub(super) fn collect(&mut self) {
        self.model.collect(&mut self.current);
    }
}
