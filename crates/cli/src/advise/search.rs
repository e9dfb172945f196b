//! The search for sizes: first a coarse grid, then sizes between those where the answer may change,
//! then the sizes of the answer with all policies.

use anyhow::anyhow;
use frazil_simulator::CapacitySpec;

use super::Args;
use super::board::{Board, Entry};
use super::case::{Case, Question};
use super::choice::Choice;
use super::goal::Goal;
use super::memory::Memory;
use super::worth::{Gap, gaps_to_sizes};
use crate::failure::Failure;

/// The default sizes to compare: each twice the one before, and all objects.
const GRID: [&str; 9] = ["0.5%", "1%", "2%", "4%", "8%", "16%", "32%", "64%", "100%"];
/// Sizes that may be added to [`GRID`]: three halvings of the gap around each of three sizes, and
/// some for a curve that bends more than once.
const EXTRA: usize = 12;
/// Steps towards a budget in bytes: the resident objects at a capacity give a better one.
const NEARER: usize = 6;
/// Rounds that replay the remaining policies at the answer's own sizes: these may win, and so
/// change the sizes.
const ROUNDS: usize = 4;

/// The known sizes, and the recommendation.
pub(super) struct Found {
    pub(super) board: Board,
    pub(super) choice: Choice,
    /// The capacities in tables for people; the others only led to them.
    pub(super) shown: Vec<u64>,
}

/// Replays the cells that the answer needs.
pub(super) fn explore(
    args: &Args,
    question: &Question,
    goal: Option<&Goal>,
    memory: &Memory,
    cases: &mut [Case<'_>],
) -> Result<Found, Failure> {
    let capacities = capacities(args, goal, cases)?;
    for case in cases.iter_mut() {
        case.replay_all(question, &capacities)?;
    }
    let mut board = Board::new(cases, memory);
    if args.capacity.is_empty() {
        for _ in 0..NEARER {
            let cells = goal.map_or_else(Vec::new, |goal| goal.cells_at_budget(&board));
            if cells.is_empty() {
                break;
            }
            add(question, memory, cases, &mut board, &cells)?;
        }
        look_closer(question, goal, memory, cases, &mut board)?;
    }
    let has_budget = goal.is_some_and(|goal| goal.budget.is_some());
    let nothing = || {
        let beyond = "no size that was compared is within the --budget";
        let problem = if has_budget { beyond } else { "no policy or no capacity to compare" };
        Failure::usage(anyhow!("{problem}"))
    };
    let mut choice = Choice::of(&board, goal).ok_or_else(nothing)?;
    for _ in 0..ROUNDS {
        let unknown = unknown(question, &board, &choice);
        if unknown.is_empty() {
            break;
        }
        add(question, memory, cases, &mut board, &unknown)?;
        choice = Choice::of(&board, goal).ok_or_else(nothing)?;
    }
    let sizes = choice.capacities(&board).into_iter().filter_map(|size| board.at(size));
    let mut told: Vec<(usize, u64)> =
        sizes.map(|row| (row.winner.chosen.policy, row.capacity)).collect();
    told.push((choice.winner.chosen.policy, choice.winner.chosen.capacity));
    for case in cases.iter_mut() {
        case.time_cells(question, &told)?;
    }
    let shown = [capacities, choice.capacities(&board)].concat();
    Ok(Found { board, choice, shown })
}

/// The sizes to compare, ascending and each once.
fn capacities(args: &Args, goal: Option<&Goal>, cases: &[Case<'_>]) -> Result<Vec<u64>, Failure> {
    let grid = || GRID.iter().filter_map(|share| share.parse().ok()).collect();
    let specs: Vec<CapacitySpec> =
        if args.capacity.is_empty() { grid() } else { args.capacity.clone() };
    let mut capacities = Vec::new();
    for capacity in &specs {
        let of_each = cases.iter().map(|case| case.resolve(capacity));
        let of_each = of_each.collect::<Result<Vec<u64>, Failure>>()?;
        capacities.extend(of_each.into_iter().max());
    }
    if let Some(budget) = goal.and_then(|goal| goal.budget.as_ref()) {
        let about = budget.about();
        let everything = cases.iter().map(|case| case.everything).max().unwrap_or(about);
        if args.capacity.is_empty() {
            capacities.push(about.min(everything).max(1));
        } else if capacities.iter().all(|&capacity| !budget.may_hold(capacity)) {
            return Err(Failure::usage(anyhow!("no --capacity is within the --budget")));
        }
    }
    capacities.sort_unstable();
    capacities.dedup();
    Ok(capacities)
}

/// Adds sizes between two that may enclose the answer, with the policies that are good there.
fn look_closer(
    question: &Question,
    goal: Option<&Goal>,
    memory: &Memory,
    cases: &mut [Case<'_>],
    board: &mut Board,
) -> Result<(), Failure> {
    let mut more = EXTRA;
    while more > 0 && !board.is_hopeless() {
        let cells = cells_between(goal, cases, board, more);
        if cells.is_empty() {
            break;
        }
        let before = board.rows.len();
        add(question, memory, cases, board, &cells)?;
        // A size that a sample cannot distinguish from the next one is no new size.
        let new = board.rows.len() - before;
        if new == 0 {
            break;
        }
        more = more.saturating_sub(new);
    }
    Ok(())
}

/// The next sizes to replay, with their policies: first those for a goal.
fn cells_between(
    goal: Option<&Goal>,
    cases: &[Case<'_>],
    board: &Board,
    most: usize,
) -> Vec<(usize, u64)> {
    let rank = |entry: &Entry| match goal {
        Some(goal) => goal.rank(entry),
        None => -entry.measured.mops.unwrap_or(0.0),
    };
    let size = |gap: &Gap| {
        let middle = gap.middle(board.everything)?;
        let middle = cases.first().map_or(middle, |case| case.of_sample(middle));
        (gap.lower < middle && middle < gap.upper).then_some((*gap, middle))
    };
    let gaps = goal.map_or_else(Vec::new, |goal| goal.gaps(board));
    let gaps = gaps.into_iter().chain(gaps_to_sizes(&board.curve, board.everything));
    let mut sizes: Vec<(Gap, u64)> = Vec::new();
    for (gap, middle) in gaps.filter_map(|gap| size(&gap)) {
        if sizes.len() < most && sizes.iter().all(|&(_, known)| known != middle) {
            sizes.push((gap, middle));
        }
    }
    let with_policies =
        |(gap, size)| board.contenders(gap, rank).into_iter().map(move |policy| (policy, size));
    sizes.into_iter().flat_map(with_policies).collect()
}

/// The cells of the answer's sizes that were not replayed yet.
fn unknown(question: &Question, board: &Board, choice: &Choice) -> Vec<(usize, u64)> {
    let missing = |capacity| {
        let row = board.at(capacity);
        let policies = 0..question.policies.len();
        let missing =
            policies.filter(move |&policy| row.is_none_or(|row| row.entry(policy).is_none()));
        missing.map(move |policy| (policy, capacity))
    };
    choice.capacities(board).into_iter().flat_map(missing).collect()
}

fn add(
    question: &Question,
    memory: &Memory,
    cases: &mut [Case<'_>],
    board: &mut Board,
    cells: &[(usize, u64)],
) -> Result<(), Failure> {
    for case in cases.iter_mut() {
        case.add(question, cells, "looking closer")?;
    }
    *board = Board::new(cases, memory);
    Ok(())
}
