//! The rule that chooses the policy at a size, independent of measurement and printing. The choice
//! of the size is [`super::worth`]'s.
//!
//! The policy with the highest predicted throughput wins a size. Policies within 5 % of it tie,
//! because the model is no more exact than that. The policy with the fewest misses wins the tie,
//! because it loads the backend least. Among those within half a point of it, the fastest wins.

/// Miss ratios this close count as equal: 0.5 percentage points.
const AS_FEW: f64 = 0.005;
/// Rounding error of the difference of two ratios: exactly half a point apart still counts as
/// equal.
const ROUNDING: f64 = 1e-12;
/// Throughputs this close are a tie.
pub(crate) const TIE: f64 = 0.05;
/// The output mentions that more memory makes a cache slower only from this loss on.
pub(crate) const SLOWER: f64 = 0.01;

/// One policy at one size, as measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Number of the policy in the user's list.
    pub(crate) policy: usize,
    pub(crate) capacity: u64,
    pub(crate) miss_ratio: f64,
    pub(crate) work_per_hit: f64,
    /// Predicted; `None` if the costs of the policy are unknown.
    pub(crate) mops: Option<f64>,
    /// The range of the true throughput, as factors. 1 if the profile was measured with this number
    /// of cores: [`TIE`] covers the remaining error.
    pub(crate) doubt: [f64; 2],
}

/// No doubt.
pub(crate) const SURE: [f64; 2] = [1.0; 2];

impl Measured {
    fn known_mops(&self) -> f64 {
        self.mops.unwrap_or(0.0)
    }

    /// The least and the greatest possible throughput.
    fn range_mops(&self) -> [f64; 2] {
        self.doubt.map(|times| times * self.known_mops())
    }
}

/// The policy to use at one size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Winner {
    pub(crate) chosen: Measured,
    /// Others within [`TIE`] of the highest throughput, or not certainly slower, fewest misses
    /// first.
    pub(crate) ties: Vec<Measured>,
    /// The rest, fastest first; those of unknown speed last.
    pub(crate) beaten: Vec<Measured>,
}

/// A size beyond which a policy gets slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    /// The policy at its fastest.
    pub(crate) best: Measured,
    /// At the largest size.
    pub(crate) largest: Measured,
}

/// The winner among the cells of one size; `None` if no speed is known.
pub(crate) fn winner(cells: &[Measured]) -> Option<Winner> {
    let mut by_speed = cells.to_vec();
    by_speed.sort_by(|a, b| b.known_mops().total_cmp(&a.known_mops()));
    let fastest = *by_speed.first()?;
    let most = fastest.mops?;
    let is_tied = |cell: &Measured| {
        let (surely, perhaps) = (fastest.range_mops()[0], cell.range_mops()[1]);
        cell.known_mops() >= most * (1.0 - TIE) || cell.mops.is_some() && perhaps >= surely
    };
    let (mut ties, beaten): (Vec<Measured>, Vec<Measured>) =
        by_speed.into_iter().partition(is_tied);
    ties.sort_by(|a, b| {
        a.miss_ratio.total_cmp(&b.miss_ratio).then(a.work_per_hit.total_cmp(&b.work_per_hit))
    });
    let fewest = ties.first()?.miss_ratio;
    let as_few = ties.partition_point(|cell| cell.miss_ratio - fewest <= AS_FEW + ROUNDING);
    // `max_by` returns the last of equals: in reverse order, the one with the fewest misses.
    let chosen =
        (0..as_few).rev().max_by(|&a, &b| ties[a].known_mops().total_cmp(&ties[b].known_mops()))?;
    let chosen = ties.remove(chosen);
    Some(Winner { chosen, ties, beaten })
}

/// The size beyond which a policy should get no more memory, if more makes it slower. The cells are
/// those of one policy, in order of size.
pub(crate) fn limit(cells: impl Iterator<Item = Measured>) -> Option<Limit> {
    let mut best: Option<Measured> = None;
    let mut largest = None;
    for cell in cells {
        if best.is_none_or(|best| cell.known_mops() > best.known_mops()) {
            best = Some(cell);
        }
        largest = Some(cell);
    }
    let (best, largest) = (best?, largest?);
    let slower = largest.range_mops()[1] < best.range_mops()[0] * (1.0 - SLOWER);
    (slower && largest.mops.is_some()).then_some(Limit { best, largest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(policy: usize, capacity: u64, miss_ratio: f64, mops: f64) -> Measured {
        Measured { policy, capacity, miss_ratio, work_per_hit: 1.0, mops: Some(mops), doubt: SURE }
    }

    #[test]
    fn the_fastest_wins_and_fewer_misses_take_the_tie() {
        let unknown = Measured { mops: None, ..cell(4, 10, 0.1, 0.0) };
        let cells = [
            cell(0, 10, 0.300, 1.00),
            cell(1, 10, 0.3051, 1.04),
            cell(2, 10, 0.290, 0.98),
            cell(3, 10, 0.305, 1.01),
            unknown,
        ];
        let winner = winner(&cells).unwrap();
        assert_eq!(winner.chosen, cells[3], "the fastest of those within half a point");
        assert_eq!(winner.ties, [cells[0], cells[1]]);
        assert_eq!(winner.beaten, [cells[2], unknown]);
    }

    #[test]
    fn who_cannot_be_told_apart_ties() {
        let doubtful = |cell: Measured| Measured { doubt: [0.5, 3.0], ..cell };
        let cells = [cell(0, 10, 0.30, 4.0), cell(1, 10, 0.20, 1.0), cell(2, 10, 0.10, 0.5)];
        assert_eq!(winner(&cells).unwrap().chosen, cells[0]);
        let cells = cells.map(doubtful);
        let winner = winner(&cells).unwrap();
        assert_eq!(winner.chosen, cells[1], "it may be faster than the fastest, and misses less");
        assert_eq!((winner.ties, winner.beaten), (vec![cells[0]], vec![cells[2]]));
        let grows = [cell(0, 10, 0.3, 4.0), cell(0, 20, 0.2, 3.0)];
        assert!(limit(grows.into_iter()).is_some());
        assert_eq!(limit(grows.map(doubtful).into_iter()), None, "perhaps it is not slower");
    }

    #[test]
    fn nobody_wins_of_whom_nothing_is_known() {
        assert_eq!(winner(&[Measured { mops: None, ..cell(0, 10, 0.1, 0.0) }]), None);
        assert_eq!(winner(&[]), None);
    }

    #[test]
    fn equal_misses_go_to_less_work() {
        let less = Measured { work_per_hit: 0.5, ..cell(1, 10, 0.302, 1.0) };
        assert_eq!(winner(&[cell(0, 10, 0.302, 1.0), less]).unwrap().chosen, less);
    }

    #[test]
    fn more_memory_that_makes_slower_is_told() {
        let cells = |mops: [f64; 3]| {
            let cell = |(size, mops)| cell(0, size, 0.1, mops);
            limit((1..).zip(mops).map(cell))
        };
        let slower = cells([1.0, 3.0, 2.0]).unwrap();
        assert_eq!((slower.best.capacity, slower.largest.capacity), (2, 3));
        assert_eq!(cells([1.0, 3.0, 2.98]), None, "as good as flat");
        assert_eq!(cells([1.0, 2.0, 3.0]), None);
    }
}
