//! What is recommended of all that came out: one size of the curve, and the others beside it.

use super::board::{Board, Kept, Row};
use super::recommend::Winner;
use super::worth::{Sizes, sizes};

/// Whether there is a size to recommend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The balanced one.
    Balanced,
    /// None: not even room for everything avoids misses.
    Hopeless,
}

/// The answer. Where none is recommended it still tells of a size, for the figures beside it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) verdict: Verdict,
    pub(crate) winner: Winner,
    pub(crate) kept: Kept,
    /// Three sizes by their numbers on the board. `None` where no cache helps.
    pub(crate) sizes: Option<Sizes>,
}

impl Choice {
    /// `None` if nothing was compared.
    pub(crate) fn of(board: &Board) -> Option<Self> {
        let choice = |verdict, row: &Row, sizes| Choice {
            verdict,
            winner: row.winner.clone(),
            kept: row.kept,
            sizes,
        };
        if board.is_hopeless() {
            return Some(choice(Verdict::Hopeless, board.rows.first()?, None));
        }
        let sizes = sizes(&board.curve, board.everything)?;
        Some(choice(Verdict::Balanced, &board.rows[sizes.balanced], Some(sizes)))
    }

    /// Whether a cache is recommended at all.
    pub(crate) fn is_size(&self) -> bool {
        self.verdict != Verdict::Hopeless
    }

    /// The capacities that the answer speaks of.
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
