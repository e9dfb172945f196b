//! The future utility of a group, learned from watched groups.

use super::groups::FEATURES;
use crate::boosted_trees::rms_error;
use crate::{BoostedTrees, Boosting, Samples};

/// One sample in this many is held back to detect when training no longer helps.
const VALID_EVERY: usize = 10;
/// A new model is trained once one in this many of its samples would be new. Without this bound
/// small caches, whose content changes fast and which have few groups, would always train.
const FRESH_PART: usize = 4;
/// With fewer samples there is no model.
pub(super) const LEAST_SAMPLES: u32 = 32;

/// A model of groups' utility, trained from nothing on samples of the last snapshots.
///
/// ```
/// use frazil_policy::{Boosting, GroupModel, Samples};
///
/// let mut model = GroupModel::new(1_000, Boosting::default());
/// // Groups that were requested more are worth more.
/// let rows: Vec<[f32; 7]> = (0..100).map(|it| [0.0, 0.0, 0.0, 1.0, 1.0, it as f32, 1.0]).collect();
/// let labels = (0..100).map(|it| it as f32).collect();
/// model.collect(&mut Samples { rows, labels });
/// assert!(model.trees().is_none() && model.is_stale());
/// model.train();
/// assert!(model.trees().is_some() && !model.is_stale());
/// assert!(model.importance()[5] > 0.9 && model.error().unwrap() < 0.2);
/// ```
#[derive(Clone, Debug)]
pub struct GroupModel {
    most: usize,
    boosting: Boosting,
    /// Samples of all snapshots, oldest first.
    samples: Samples<FEATURES>,
    /// Samples since the model was made.
    fresh: usize,
    trees: Option<BoostedTrees<FEATURES>>,
    error: Option<f64>,
}

impl GroupModel {
    /// A trainer without a model, for at most `most` samples.
    pub fn new(most: u32, boosting: Boosting) -> Self {
        let samples = Samples::default();
        GroupModel { most: most as usize, boosting, samples, fresh: 0, trees: None, error: None }
    }

    /// Takes the samples of a snapshot, replacing the oldest if there are too many. Their
    /// utilities are divided by the largest of them; if that is 0 they carry no information and
    /// stay in `snapshot`.
    pub fn collect(&mut self, snapshot: &mut Samples<FEATURES>) {
        // Utilities of snapshots differ by how long each was watched, and how busy it was then.
        let scale = snapshot.labels.iter().fold(0.0_f32, |most, &label| most.max(label));
        if scale <= 0.0 {
            return;
        }
        self.fresh += snapshot.rows.len();
        let all = &mut self.samples;
        all.rows.append(&mut snapshot.rows);
        all.labels.extend(snapshot.labels.drain(..).map(|label| label / scale));
        let surplus = all.rows.len().saturating_sub(self.most);
        all.rows.drain(..surplus);
        all.labels.drain(..surplus);
    }

    /// Whether a new model is worth training: a quarter of its samples would be new.
    pub fn is_stale(&self) -> bool {
        self.fresh * FRESH_PART >= self.samples.rows.len()
    }

    /// Makes a new model from the collected samples. Without rounds, or with fewer than 32 samples,
    /// there is none. Every tenth sample is held back. Takes as long as [`BoostedTrees::fit`].
    pub fn train(&mut self) {
        let all = &self.samples;
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
        let trees = BoostedTrees::fit(&train, &valid, &self.boosting);
        let mut predicted = Vec::new();
        trees.predict(&valid.rows, &mut predicted);
        self.error = Some(rms_error(&predicted, &valid.labels));
        self.trees = Some(trees);
    }

    /// The model, if there is one.
    pub fn trees(&self) -> Option<&BoostedTrees<FEATURES>> {
        self.trees.as_ref()
    }

    /// The model's error where samples were held back, root mean square: utilities are shares of
    /// the largest of their snapshot.
    pub fn error(&self) -> Option<f64> {
        self.error
    }

    /// Number of samples for the next model.
    pub fn samples(&self) -> usize {
        self.samples.rows.len()
    }

    /// Each feature's share of the model's gain; all 0 without a model.
    /// [`GroupLearning::FEATURES`](crate::GroupLearning::FEATURES) names them.
    pub fn importance(&self) -> [f64; FEATURES] {
        let shares = self.trees.as_ref().map(BoostedTrees::importance);
        shares.and_then(|shares| shares.try_into().ok()).unwrap_or_default()
    }
}
