//! Which policy and which size: the rule of `frazil advise`, apart from how its
//! inputs are measured and its answer is printed.
//!
//! At each size the policy with the fewest misses wins; policies within half a
//! point of it tie, and the one that does the least work on a hit takes the tie,
//! because it scales furthest. The size is the smallest whose doubling, with the
//! same policy, gains less than a point.

/// Miss ratios this close are a tie: 0.5 percentage points.
pub(crate) const TIE: f64 = 0.005;
/// What subtracting two ratios may be off by: half a point apart is still a tie.
const ROUNDING: f64 = 1e-12;
/// Doubling that gains less than this is not worth its memory: one point.
pub(crate) const WORTH_DOUBLING: f64 = 0.01;
/// A larger size that gains this much past a flat stretch is pointed out.
pub(crate) const CLIFF: f64 = 0.05;

/// One policy at one size, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Number of the policy in the user's list.
    pub(crate) policy: usize,
    pub(crate) capacity: u64,
    pub(crate) miss_ratio: f64,
    pub(crate) work_per_hit: f64,
}

/// The policy to use at one size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Winner {
    pub(crate) chosen: Measured,
    /// Others within [`TIE`] of the fewest misses, fewest first.
    pub(crate) ties: Vec<Measured>,
    /// The rest, fewest misses first.
    pub(crate) beaten: Vec<Measured>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recommendation {
    pub(crate) winner: Winner,
    /// Points of miss ratio that doubling would save, as a ratio; `None` if the
    /// size already holds every object.
    pub(crate) marginal_gain: Option<f64>,
    /// Whether doubling still gained [`WORTH_DOUBLING`] at the largest size.
    pub(crate) still_gaining: bool,
    /// What the rule chooses past a flat stretch of the curve, where a larger size
    /// saves [`CLIFF`] or more after all.
    pub(crate) cliff: Option<Measured>,
}

/// The winner among the cells of one size; `None` without cells.
pub(crate) fn winner(cells: &[Measured]) -> Option<Winner> {
    let mut by_misses = cells.to_vec();
    by_misses.sort_by(|a, b| {
        a.miss_ratio.total_cmp(&b.miss_ratio).then(a.work_per_hit.total_cmp(&b.work_per_hit))
    });
    let fewest = by_misses.first()?.miss_ratio;
    let tied = by_misses.partition_point(|cell| cell.miss_ratio - fewest <= TIE + ROUNDING);
    let beaten = by_misses.split_off(tied);
    let mut ties = by_misses;
    // The first of equals stays first: the fewest misses, then the user's order.
    let least =
        (0..ties.len()).min_by(|&a, &b| ties[a].work_per_hit.total_cmp(&ties[b].work_per_hit))?;
    let chosen = ties.remove(least);
    Some(Winner { chosen, ties, beaten })
}

/// Chooses the size. `winners` are in order of size; `doubled` answers the miss
/// ratio of a winner's policy at twice its size, or `None` if that holds no more.
pub(crate) fn recommend(
    winners: &[Winner],
    doubled: impl Fn(&Measured) -> Option<f64>,
) -> Option<Recommendation> {
    let gain = |winner: &Winner| {
        doubled(&winner.chosen).map(|miss_ratio| winner.chosen.miss_ratio - miss_ratio)
    };
    let enough = |winner: &&Winner| gain(winner).is_none_or(|points| points < WORTH_DOUBLING);
    let first = winners.iter().position(|winner| enough(&winner));
    let at = first.or(winners.len().checked_sub(1))?;
    let (winner, larger) = (&winners[at], &winners[at + 1..]);
    let saves = |later: &Winner| winner.chosen.miss_ratio - later.chosen.miss_ratio >= CLIFF;
    let cliff = larger.iter().position(saves).map(|edge| {
        let past = &larger[edge..];
        past.iter().find(enough).unwrap_or(&past[past.len() - 1]).chosen
    });
    Some(Recommendation {
        winner: winner.clone(),
        marginal_gain: gain(winner),
        still_gaining: first.is_none(),
        cliff,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(policy: usize, capacity: u64, miss_ratio: f64, work_per_hit: f64) -> Measured {
        Measured { policy, capacity, miss_ratio, work_per_hit }
    }

    #[test]
    fn fewest_misses_win_and_less_work_takes_the_tie() {
        let cells = [
            cell(0, 10, 0.300, 2.0),
            cell(1, 10, 0.304, 0.2),
            cell(2, 10, 0.3051, 0.0),
            cell(3, 10, 0.305, 0.3),
        ];
        let winner = winner(&cells).unwrap();
        assert_eq!(winner.chosen, cells[1]);
        assert_eq!(winner.ties, [cells[0], cells[3]]);
        assert_eq!(winner.beaten, [cells[2]]);
    }

    #[test]
    fn equal_work_goes_to_fewer_misses() {
        let cells = [cell(0, 10, 0.302, 0.2), cell(1, 10, 0.301, 0.2)];
        assert_eq!(winner(&cells).unwrap().chosen, cells[1]);
    }

    fn curve(points: &[(u64, f64)]) -> Vec<Winner> {
        points
            .iter()
            .map(|&(capacity, miss_ratio)| winner(&[cell(0, capacity, miss_ratio, 0.0)]).unwrap())
            .collect()
    }

    fn at(points: &[(u64, f64)], capacity: u64) -> Option<f64> {
        points.iter().find(|&&(c, _)| c == capacity).map(|&(_, m)| m)
    }

    #[test]
    fn the_smallest_size_whose_doubling_gains_under_a_point() {
        let points = [(1, 0.50), (2, 0.40), (4, 0.33), (8, 0.325), (16, 0.324)];
        let answer = recommend(&curve(&points[..4]), |m| at(&points, m.capacity * 2)).unwrap();
        assert_eq!(answer.winner.chosen.capacity, 4);
        assert!((answer.marginal_gain.unwrap() - 0.005).abs() < 1e-12);
        assert!(!answer.still_gaining && answer.cliff.is_none());
    }

    #[test]
    fn a_gain_that_never_ends_and_a_cliff_are_told() {
        let steep = [(1, 0.9), (2, 0.7), (4, 0.5)];
        let answer = recommend(&curve(&steep[..2]), |m| at(&steep, m.capacity * 2)).unwrap();
        assert!(answer.still_gaining && answer.winner.chosen.capacity == 2);

        let loops = [(1, 1.0), (2, 1.0), (4, 0.9), (8, 0.1), (16, 0.1), (32, 0.1)];
        let answer = recommend(&curve(&loops[..5]), |m| at(&loops, m.capacity * 2)).unwrap();
        assert_eq!(answer.winner.chosen.capacity, 1);
        assert_eq!(answer.cliff.unwrap().capacity, 8);
    }

    #[test]
    fn a_cache_that_holds_all_needs_no_doubling() {
        let answer = recommend(&curve(&[(5, 0.4)]), |_| None).unwrap();
        assert_eq!((answer.marginal_gain, answer.still_gaining), (None, false));
    }
}
