//! The recommendation: one size of the curve, and the others beside it.

use super::board::{Board, Kept};
use super::goal::{Goal, Reached};
use super::recommend::Winner;
use super::worth::{Sizes, sizes};

/// Whether there is a size to recommend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The balanced size, because the user set no target.
    Balanced,
    /// The size that meets the target.
    Goal,
    /// None: no size compared meets the target.
    Unmet,
    /// None: at these prices every cache costs more than none.
    Dear,
    /// None: even a cache for all objects avoids no misses.
    Hopeless,
}

/// The answer. If it recommends no size, it still has one, for the figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) verdict: Verdict,
    pub(crate) winner: Winner,
    pub(crate) kept: Kept,
    /// Three sizes by their numbers on the board. `None` if no cache helps.
    pub(crate) sizes: Option<Sizes>,
}

impl Choice {
    /// `None` if nothing was compared.
    pub(crate) fn of(board: &Board, goal: Option<&Goal>) -> Option<Self> {
        let sizes = sizes(&board.curve, board.everything)?;
        let first = || board.rows.first().map(|row| row.winner.clone());
        let (verdict, winner) = match goal {
            _ if board.is_hopeless() => (Verdict::Hopeless, first()?),
            None => (Verdict::Balanced, board.rows.get(sizes.balanced)?.winner.clone()),
            Some(goal) => match goal.reached(board)? {
                Reached::By(winner) => (Verdict::Goal, winner),
                Reached::ByNone(winner) => (Verdict::Dear, winner),
                Reached::Not(winner) => (Verdict::Unmet, winner),
            },
        };
        let kept = board.at(winner.chosen.capacity)?.entry(winner.chosen.policy)?.kept;
        let sizes = (!board.is_hopeless()).then_some(sizes);
        Some(Choice { verdict, winner, kept, sizes })
    }

    /// Whether a cache is recommended at all.
    pub(crate) fn is_size(&self) -> bool {
        matches!(self.verdict, Verdict::Balanced | Verdict::Goal)
    }

    /// The capacities in the answer.
    pub(crate) fn capacities(&self, board: &Board) -> Vec<u64> {
        let named = self.sizes.into_iter().flat_map(|sizes| {
            [sizes.frugal, Some(sizes.balanced), sizes.ample].into_iter().flatten()
        });
        let named = named.map(|at| board.rows[at].capacity);
        let mut all: Vec<u64> = named.chain([self.winner.chosen.capacity]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
