//! Gradient-boosted regression trees: a function learned from a few thousand samples.
//!
//! Each round adds a tree that removes a share `eta` of the remaining error. It is XGBoost's
//! algorithm (Chen, Guestrin, KDD 2016) with its defaults: squared error, leaves −G / (n + λ),
//! the split with the largest gain in G² / (n + λ). Between equal gains the lower feature and
//! the higher threshold decide, as in XGBoost, so that the same samples give the same trees.
//! `tests/policies/boosted_trees.rs` compares it with XGBoost's own predictions.
//!
//! A feature's values are in `bins`, and splits lie between bins, which is exact if there are no
//! more values than bins. Training takes O(features × (samples × depth + bins × 2^depth)) a round:
//! only the smaller side of a split is summed by bin, and the larger side is the remainder. A
//! prediction takes `depth` steps a tree. Trees are stored as complete ones, so that a step is a
//! comparison without a branch, and several rows descend at the same time.

use std::fmt;

use crate::SpecError;
use crate::parameters::Parameters;

/// How trees are grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Boosting {
    /// Most trees.
    pub rounds: u32,
    /// Most comparisons from a tree's root to a leaf; at most 12.
    pub depth: u32,
    /// Share of the error that a tree removes.
    pub eta: f32,
    /// Regularisation of a leaf: the number of samples without error that are added to it.
    pub lambda: f64,
    /// Most bins of a feature, from 2 to 65,536.
    pub bins: u32,
}

impl Boosting {
    /// The parameters of a policy, with at least `least_rounds` rounds; the defaults `usual` for
    /// those not given.
    pub(crate) fn given(
        given: &mut Parameters<'_>,
        usual: Self,
        least_rounds: u32,
    ) -> Result<Self, SpecError> {
        Ok(Boosting {
            rounds: given.number("rounds", usual.rounds, least_rounds, 1_000)?,
            depth: given.number("depth", usual.depth, 1, 12)?,
            eta: given.number("eta", usual.eta, 0.0, 1.0)?,
            lambda: given.number("lambda", usual.lambda, 0.0, 1e9)?,
            bins: given.number("bins", usual.bins, 2, 1 << 16)?,
        })
    }

    /// Calls `say` with each parameter, and whether it differs from `usual`.
    pub(crate) fn say(
        &self,
        usual: &Self,
        say: &mut dyn FnMut(&str, &dyn fmt::Display, bool) -> fmt::Result,
    ) -> fmt::Result {
        say("rounds", &self.rounds, self.rounds != usual.rounds)?;
        say("depth", &self.depth, self.depth != usual.depth)?;
        say("eta", &self.eta, self.eta != usual.eta)?;
        say("lambda", &self.lambda, self.lambda != usual.lambda)?;
        say("bins", &self.bins, self.bins != usual.bins)
    }
}

impl Default for Boosting {
    /// XGBoost's defaults, and the 20 rounds of GL-Cache.
    fn default() -> Self {
        Boosting { rounds: 20, depth: 6, eta: 0.3, lambda: 1.0, bins: 256 }
    }
}

/// Rows with their labels. `F` is the number of features.
#[derive(Clone, Debug, Default)]
pub struct Samples<const F: usize> {
    /// Features of each row; every one a number.
    pub rows: Vec<[f32; F]>,
    /// Label of each row.
    pub labels: Vec<f32>,
}

/// Rounds in a row that improve by less than [`LEAST_GAIN`] after which training ends.
const PATIENCE: u32 = 3;
/// Share of the error that a round should remove.
const LEAST_GAIN: f64 = 0.01;
/// With fewer rows nobody can tell whether a round helped.
const LEAST_VALID: usize = 10;
/// Gains below this are rounding.
const LEAST_LOSS: f32 = 1e-6;
/// Rows that descend a tree at the same time.
const ABREAST: usize = 8;

/// A comparison: left below the threshold, else right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    threshold: f32,
    feature: u32,
}

/// Stands where a tree has a leaf above its depth: every row goes left.
const PASS: Split = Split { threshold: f32::INFINITY, feature: 0 };

/// A sum of trees.
///
/// ```
/// use frazil_policy::{Boosting, BoostedTrees, Samples};
///
/// let rows: Vec<[f32; 1]> = (0..100).map(|x| [x as f32]).collect();
/// let labels = rows.iter().map(|&[x]| if x < 50.0 { 1.0 } else { 3.0 }).collect();
/// let train = Samples { rows, labels };
/// let trees = BoostedTrees::fit(&train, &Samples::default(), &Boosting::default());
/// let mut predicted = Vec::new();
/// trees.predict(&[[10.0], [90.0]], &mut predicted);
/// assert!((predicted[0] - 1.0).abs() < 0.01 && (predicted[1] - 3.0).abs() < 0.01);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoostedTrees<const F: usize> {
    base: f32,
    depth: u32,
    /// Comparisons of all trees, 2^depth − 1 each; the children of one are at 2i + 1 and 2i + 2.
    splits: Vec<Split>,
    /// Leaves of all trees, 2^depth each.
    leaves: Vec<f32>,
    /// Gain of each feature's comparisons.
    gains: Vec<f64>,
}

impl<const F: usize> BoostedTrees<F> {
    /// Learns from `train`. Ends early once three rounds in a row lowered the error of `valid` by
    /// less than 1 %, unless `valid` has fewer than ten rows.
    pub fn fit(train: &Samples<F>, valid: &Samples<F>, boosting: &Boosting) -> Self {
        let mut trees = BoostedTrees {
            base: mean(&train.labels),
            depth: boosting.depth,
            gains: vec![0.0; F],
            ..Self::default()
        };
        if train.rows.is_empty() {
            return trees;
        }
        // Reserved at once: growing vectors would take up to three times the memory meanwhile.
        let (leaves, rounds) = (1usize << boosting.depth, boosting.rounds as usize);
        trees.splits.reserve_exact(rounds * (leaves - 1));
        trees.leaves.reserve_exact(rounds * leaves);
        let mut grower = Grower::new(train, boosting);
        let mut predicted = vec![trees.base; train.rows.len()];
        let mut checked = vec![trees.base; valid.rows.len()];
        let (mut error, mut idle) = (rms_error(&checked, &valid.labels), 0);
        for _ in 0..boosting.rounds {
            let tree = grower.grow(&predicted, &mut trees.gains);
            trees.splits.extend(tree.splits);
            trees.leaves.extend(tree.leaves);
            let last = trees.len() - 1;
            trees.add(last, &train.rows, &mut predicted);
            trees.add(last, &valid.rows, &mut checked);
            let now = rms_error(&checked, &valid.labels);
            idle = if (error - now).abs() < LEAST_GAIN * now { idle + 1 } else { 0 };
            error = now;
            if idle == PATIENCE && valid.rows.len() >= LEAST_VALID {
                break;
            }
        }
        trees.splits.shrink_to_fit();
        trees.leaves.shrink_to_fit();
        trees
    }

    /// How many trees there are.
    pub fn len(&self) -> usize {
        self.leaves.len() >> self.depth
    }

    /// Whether there is no tree: then every prediction is the mean.
    pub fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Gain of each feature's comparisons, as shares that sum up to 1; all 0 without comparisons.
    pub fn importance(&self) -> Vec<f64> {
        let all: f64 = self.gains.iter().sum();
        self.gains.iter().map(|gain| if all > 0.0 { gain / all } else { 0.0 }).collect()
    }

    /// Replaces the content of `predicted` by the prediction for each row.
    pub fn predict(&self, rows: &[[f32; F]], predicted: &mut Vec<f32>) {
        predicted.clear();
        predicted.resize(rows.len(), self.base);
        for tree in 0..self.len() {
            self.add(tree, rows, predicted);
        }
    }

    /// Adds the output of one tree. The loop over trees is outside so that a tree, of 770 bytes at
    /// depth 6, stays in the first level of the processor's cache.
    fn add(&self, tree: usize, rows: &[[f32; F]], predicted: &mut [f32]) {
        let leaves = 1usize << self.depth;
        let splits = &self.splits[tree * (leaves - 1)..][..leaves - 1];
        let leaf = &self.leaves[tree * leaves..][..leaves];
        let mut groups = rows.chunks_exact(ABREAST);
        let mut sums = predicted.chunks_exact_mut(ABREAST);
        for (rows, sums) in groups.by_ref().zip(sums.by_ref()) {
            let mut at = [0usize; ABREAST];
            for _ in 0..self.depth {
                for (at, row) in at.iter_mut().zip(rows) {
                    *at = below(splits, *at, row);
                }
            }
            for (sum, at) in sums.iter_mut().zip(at) {
                *sum += leaf[at + 1 - leaves];
            }
        }
        for (sum, row) in sums.into_remainder().iter_mut().zip(groups.remainder()) {
            let end = (0..self.depth).fold(0, |at, _| below(splits, at, row));
            *sum += leaf[end + 1 - leaves];
        }
    }
}

#[inline(always)]
fn below<const F: usize>(splits: &[Split], at: usize, row: &[f32; F]) -> usize {
    let Split { threshold, feature } = splits[at];
    2 * at + 1 + usize::from(row.get(feature as usize).is_some_and(|&value| value >= threshold))
}

fn mean(values: &[f32]) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    (values.iter().map(|&it| f64::from(it)).sum::<f64>() / values.len() as f64) as f32
}

/// The root mean square error of the predictions.
pub(crate) fn rms_error(predicted: &[f32], labels: &[f32]) -> f64 {
    let squares = predicted.iter().zip(labels).map(|(p, l)| f64::from(p - l).powi(2));
    (squares.sum::<f64>() / labels.len().max(1) as f64).sqrt()
}

struct Tree {
    splits: Vec<Split>,
    leaves: Vec<f32>,
}

/// A part of the samples that may be split further.
struct Node {
    /// Where its samples are in the order of rows.
    start: usize,
    end: usize,
    /// Its place in the complete tree, and its depth.
    place: usize,
    level: u32,
    /// Sum of the errors of its samples.
    sum: f64,
    /// The sums by bin; empty if the node is not split.
    bins: Vec<Bin>,
}

/// Samples whose values of a feature are alike.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sum: f64,
    count: u32,
}

struct Found {
    gain: f32,
    feature: usize,
    /// Bins of the feature that go left, counted from its first, and where the right begins.
    last_left: u16,
    threshold: f32,
    left_sum: f64,
    left_count: usize,
}

/// The values of all features in bins: one for each distinct value if there are few, else bins with
/// about as many samples each.
struct Binned<const F: usize> {
    /// The bin of each feature, by row.
    codes: Vec<[u16; F]>,
    /// The first bin of each feature among all bins, and the end of the last feature's.
    begins: Vec<usize>,
    /// Least and greatest value of each bin.
    ranges: Vec<(f32, f32)>,
}

impl<const F: usize> Binned<F> {
    fn new(rows: &[[f32; F]], most: u32) -> Self {
        let (codes, begins) = (vec![[0; F]; rows.len()], vec![0]);
        let mut binned = Binned { codes, begins, ranges: Vec::new() };
        let mut values = Vec::with_capacity(rows.len());
        for feature in 0..F {
            values.clear();
            values.extend(rows.iter().map(|row| row[feature]));
            values.sort_unstable_by(f32::total_cmp);
            let first = binned.ranges.len();
            bin(&values, most as usize, &mut binned.ranges);
            binned.begins.push(binned.ranges.len());
            let ranges = &binned.ranges[first..];
            for (code, row) in binned.codes.iter_mut().zip(rows) {
                code[feature] = ranges.partition_point(|&(_, high)| high < row[feature]) as u16;
            }
        }
        binned
    }
}

/// Divides sorted values into at most `most` bins, none of which ends between equal values.
fn bin(values: &[f32], most: usize, ranges: &mut Vec<(f32, f32)>) {
    let runs = || values.chunk_by(|one, other| one == other);
    // Where every value has a bin, a bin is full with one.
    let distinct = runs().count();
    let (mut binned, mut bins) = (0, 0);
    for run in runs() {
        let is_full = distinct <= most || binned * most >= bins * values.len();
        match ranges.last_mut() {
            Some(last) if bins > 0 && !is_full => last.1 = run[0],
            _ => {
                ranges.push((run[0], run[0]));
                bins += 1;
            }
        }
        binned += run.len();
    }
}

/// Grows trees on one set of samples.
struct Grower<'a, const F: usize> {
    labels: &'a [f32],
    boosting: &'a Boosting,
    binned: Binned<F>,
    /// Rows as the tree under construction divides them, ascending in each part.
    order: Vec<u32>,
    /// Buffer for a part of the right while those of the left move up.
    right: Vec<u32>,
    /// Vectors of bins for reuse.
    spare: Vec<Vec<Bin>>,
    /// 1 / (n + λ) by n: saves two divisions for each split tried.
    shares: Vec<f64>,
    /// Excess of the trees' output so far over the label, by row.
    errors: Vec<f32>,
}

impl<'a, const F: usize> Grower<'a, F> {
    fn new(train: &'a Samples<F>, boosting: &'a Boosting) -> Self {
        let len = train.rows.len();
        let share = |count: usize| 1.0 / (count as f64 + boosting.lambda);
        Grower {
            labels: &train.labels,
            boosting,
            binned: Binned::new(&train.rows, boosting.bins),
            order: Vec::with_capacity(len),
            right: vec![0; len],
            spare: Vec::new(),
            shares: (0..=len).map(share).collect(),
            errors: vec![0.0; len],
        }
    }

    fn grow(&mut self, predicted: &[f32], gains: &mut [f64]) -> Tree {
        for (error, (p, l)) in self.errors.iter_mut().zip(predicted.iter().zip(self.labels)) {
            *error = p - l;
        }
        self.order.clear();
        self.order.extend(0..self.errors.len() as u32);
        let leaves = 1usize << self.boosting.depth;
        let mut tree = Tree { splits: vec![PASS; leaves - 1], leaves: vec![0.0; leaves] };
        let sum = self.errors.iter().map(|&it| f64::from(it)).sum();
        let (start, end) = (0, self.order.len());
        let bins = self.sum_up(start, end);
        let mut todo = vec![Node { start, end, place: 0, level: 0, sum, bins }];
        while let Some(node) = todo.pop() {
            let found = if node.bins.is_empty() { None } else { self.best(&node) };
            let Some(found) = found else {
                self.close(&node, &mut tree);
                self.spare.extend(Some(node.bins).filter(|bins| !bins.is_empty()));
                continue;
            };
            gains[found.feature] += f64::from(found.gain);
            tree.splits[node.place] =
                Split { threshold: found.threshold, feature: found.feature as u32 };
            self.part(&node, &found);
            todo.extend(self.children(node, &found));
        }
        tree
    }

    /// Both sides of a node that has been split. The smaller one's samples are summed up, and the
    /// larger one's are the rest.
    fn children(&mut self, node: Node, found: &Found) -> [Node; 2] {
        let middle = node.start + found.left_count;
        let (level, place) = (node.level + 1, 2 * node.place + 1);
        let mut bins = [Vec::new(), Vec::new()];
        if level < self.boosting.depth {
            let is_left_smaller = found.left_count * 2 <= node.end - node.start;
            let (start, end) =
                if is_left_smaller { (node.start, middle) } else { (middle, node.end) };
            let smaller = self.sum_up(start, end);
            let mut larger = node.bins;
            for (larger, smaller) in larger.iter_mut().zip(&smaller) {
                larger.sum -= smaller.sum;
                larger.count -= smaller.count;
            }
            bins = if is_left_smaller { [smaller, larger] } else { [larger, smaller] };
        } else {
            self.spare.push(node.bins);
        }
        let [left, right] = bins;
        let sum = node.sum - found.left_sum;
        [
            Node { start: node.start, end: middle, place, level, sum: found.left_sum, bins: left },
            Node { start: middle, end: node.end, place: place + 1, level, sum, bins: right },
        ]
    }

    /// The samples in a part of the order, by bin.
    fn sum_up(&mut self, start: usize, end: usize) -> Vec<Bin> {
        let mut bins = self.spare.pop().unwrap_or_default();
        bins.clear();
        bins.resize(self.binned.ranges.len(), Bin::default());
        for &row in &self.order[start..end] {
            let error = f64::from(self.errors[row as usize]);
            let codes = &self.binned.codes[row as usize];
            for (&code, &begin) in codes.iter().zip(&self.binned.begins) {
                let bin = &mut bins[begin + usize::from(code)];
                bin.sum += error;
                bin.count += 1;
            }
        }
        bins
    }

    /// G² / (n + λ): reduction of the loss by a leaf for samples with this sum of errors.
    #[inline(always)]
    fn score(&self, sum: f64, count: usize) -> f64 {
        sum * sum * self.shares[count]
    }

    fn best(&self, node: &Node) -> Option<Found> {
        let mut best: Option<Found> = None;
        let all = node.end - node.start;
        let whole = self.score(node.sum, all) as f32;
        for feature in 0..F {
            let begin = self.binned.begins[feature];
            let bins = &node.bins[begin..self.binned.begins[feature + 1]];
            // From the highest on; `above` is the lowest bin of the right that is not empty.
            let (mut right_sum, mut right_count, mut above) = (0.0, 0, 0);
            for (here, bin) in bins.iter().enumerate().rev() {
                if bin.count == 0 {
                    continue;
                }
                if right_count > 0 {
                    let left_sum = node.sum - right_sum;
                    let left_count = all - right_count;
                    let score =
                        self.score(left_sum, left_count) + self.score(right_sum, right_count);
                    let gain = score as f32 - whole;
                    if gain > best.as_ref().map_or(LEAST_LOSS, |best| best.gain) {
                        let threshold = self.between(begin + here, begin + above);
                        let last_left = here as u16;
                        best = Some(Found {
                            gain,
                            feature,
                            last_left,
                            threshold,
                            left_sum,
                            left_count,
                        });
                    }
                }
                right_sum += bin.sum;
                right_count += bin.count as usize;
                above = here;
            }
        }
        best
    }

    /// A threshold between two bins, the lower one first.
    fn between(&self, lower: usize, upper: usize) -> f32 {
        let (high, low) = (self.binned.ranges[lower].1, self.binned.ranges[upper].0);
        let middle = (high + low) * 0.5;
        if middle == high { low } else { middle }
    }

    /// Divides a node's rows, each side still ascending.
    fn part(&mut self, node: &Node, found: &Found) {
        let (mut middle, mut right) = (node.start, 0);
        for at in node.start..node.end {
            // Writes to both sides, so that no branch decides which one counts.
            let row = self.order[at];
            let left = self.binned.codes[row as usize][found.feature] <= found.last_left;
            self.order[middle] = row;
            self.right[right] = row;
            middle += usize::from(left);
            right += usize::from(!left);
        }
        self.order[middle..node.end].copy_from_slice(&self.right[..right]);
    }

    /// Makes a leaf. Rows pass left below it, but every leaf below has the same value.
    fn close(&self, node: &Node, tree: &mut Tree) {
        let count = (node.end - node.start) as f64;
        let weight = -(node.sum / (count + self.boosting.lambda)) as f32 * self.boosting.eta;
        let below = self.boosting.depth - node.level;
        let first = ((node.place + 1) << below) - (1 << self.boosting.depth);
        tree.leaves[first..first + (1 << below)].fill(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One split by hand: labels 0, 0, 3, 3 and λ = 1 give the errors 1.5, and leaves
    /// 3 / (2 + 1) × η away from the mean.
    #[test]
    fn a_stump_by_hand() {
        let train = Samples {
            rows: vec![[1.0, 9.0], [2.0, 9.0], [3.0, 9.0], [4.0, 9.0]],
            labels: vec![0.0, 0.0, 3.0, 3.0],
        };
        let boosting = Boosting { rounds: 1, depth: 1, ..Boosting::default() };
        let trees = BoostedTrees::fit(&train, &Samples::default(), &boosting);
        let mut predicted = Vec::new();
        trees.predict(&[[2.4, 0.0], [2.5, 0.0]], &mut predicted);
        assert_eq!(predicted, [1.5 - 0.3, 1.5 + 0.3]);
        assert_eq!(trees.importance(), [1.0, 0.0]);
    }

    #[test]
    fn without_samples_every_row_gives_nothing() {
        let none = Samples::<3>::default();
        let trees = BoostedTrees::fit(&none, &none, &Boosting::default());
        let mut predicted = vec![7.0];
        trees.predict(&[[1.0; 3]; 9], &mut predicted);
        assert_eq!(predicted, [0.0; 9]);
        assert!(trees.is_empty() && trees.importance() == [0.0; 3]);
    }

    /// Noise cannot be learned. Once the rest is learned, training ends.
    #[test]
    fn training_ends_when_it_is_of_no_use() {
        let mut rng = crate::Rng::new(1);
        let mut samples = |count: usize| {
            let rows: Vec<[f32; 1]> = (0..count).map(|_| [rng.unit() as f32]).collect();
            let labels = rows.iter().map(|_| rng.unit() as f32).collect();
            Samples { rows, labels }
        };
        let (train, valid) = (samples(2_000), samples(200));
        let boosting = Boosting { rounds: 100, ..Boosting::default() };
        assert!(BoostedTrees::fit(&train, &valid, &boosting).len() < 50);
        assert_eq!(BoostedTrees::fit(&train, &Samples::default(), &boosting).len(), 100);
    }
}
