//! Boosted trees against XGBoost's own predictions (`boosted_trees/golden.py` made them).

use frazil_policy::{BoostedTrees, Boosting, Rng, Samples};

/// Largest difference allowed between XGBoost's trees and ours.
const TOLERANCE: f32 = 1e-5;

/// Rows of a case that are predicted.
const OTHERS: usize = 40;

/// The rows that `samples` of the script draws.
fn samples(seed: u64, count: usize, steps: u64) -> Samples<7> {
    let mut rng = Rng::new(seed);
    let mut samples = Samples::default();
    for _ in 0..count {
        let row: [u64; 7] = std::array::from_fn(|_| rng.below(steps));
        let noise = rng.below(steps);
        let kink = if 2 * row[0] < steps { 2 * row[4] } else { row[5] };
        samples.rows.push(row.map(|feature| feature as f32));
        samples.labels.push(((row[3] + kink + noise / 4) as f64 / 1024.0) as f32);
    }
    samples
}

#[test]
fn they_predict_what_xgboost_predicts() {
    let text = include_str!("boosted_trees/xgboost.txt");
    let mut lines = text.lines();
    let mut cases = 0;
    while let Some(head) = lines.next() {
        let words: Vec<&str> = head.split(' ').collect();
        let number = |place: usize| -> u64 { words[place].parse().expect("a number") };
        let train = samples(number(1), number(2) as usize, number(3));
        let [depth, rounds] = [number(4) as u32, number(5) as u32];
        // A bin for each value: splits are exact, as the script has them.
        let boosting = Boosting { depth, rounds, bins: 1 << 16, ..Boosting::default() };
        let trees = BoostedTrees::fit(&train, &Samples::default(), &boosting);
        let (mut rows, mut expected, mut predicted) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines.by_ref().take(OTHERS) {
            let numbers: Vec<f32> = line.split(' ').map(|it| it.parse().expect(line)).collect();
            rows.push(std::array::from_fn(|feature| numbers[feature]));
            expected.push(numbers[7]);
        }
        trees.predict(&rows, &mut predicted);
        assert_eq!(predicted.len(), OTHERS);
        for (ours, theirs) in predicted.iter().zip(expected) {
            assert!((ours - theirs).abs() <= TOLERANCE, "{}: {ours} {theirs}", words[0]);
        }
        cases += 1;
    }
    assert_eq!(cases, 4);
}

/// With more values than bins the trees learn nearly as much.
#[test]
fn few_bins_are_nearly_as_good_as_a_bin_for_each_value() {
    let (train, others) = (samples(4, 8_192, 4_096), samples(104, 2_000, 4_096));
    let error = |bins: u32| {
        let boosting = Boosting { bins, ..Boosting::default() };
        let trees = BoostedTrees::fit(&train, &Samples::default(), &boosting);
        let mut predicted = Vec::new();
        trees.predict(&others.rows, &mut predicted);
        let squares = predicted.iter().zip(&others.labels).map(|(p, l)| f64::from(p - l).powi(2));
        (squares.sum::<f64>() / 2_000.0).sqrt()
    };
    let [few, usual, exact] = [4, 256, 1 << 16].map(error);
    assert!(usual < 1.1 * exact && few > 1.5 * exact, "{few} {usual} {exact}");
}
