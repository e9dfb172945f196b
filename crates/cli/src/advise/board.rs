//! The results of all policies at all sizes over all traces: the winner at each size, and the miss
//! curve of the winners.

use super::case::Case;
use super::memory::Memory;
use super::recommend::{Measured, Winner, winner};
use super::worth::{Gap, HOPELESS, Point};

/// Number of policies replayed between two sizes: those that do well at these.
const CONTENDERS: usize = 2;

/// The figures of a policy at a size, each from the trace on which it is worst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kept {
    pub(crate) miss_ratio: f64,
    /// Share of requests that are fetched; of simultaneous misses of one object only the first is.
    pub(crate) fetched: f64,
    /// Byte miss ratio, if capacities are in bytes.
    pub(crate) byte_miss_ratio: Option<f64>,
    /// `None` if the costs of the policy are unknown.
    pub(crate) mops: Option<f64>,
    pub(crate) response_us: Option<f64>,
    /// The 99th percentile of latency; `None` unless requested.
    pub(crate) p99_us: Option<f64>,
    /// Memory of a unit of capacity, from the resident objects; `None` if the sizes of values are
    /// unknown.
    pub(crate) bytes_each: Option<f64>,
}

/// A policy at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The figures by which policies compete.
    pub(crate) measured: Measured,
    pub(crate) kept: Kept,
}

impl Entry {
    /// Its memory, if known.
    pub(crate) fn bytes(&self) -> Option<f64> {
        self.kept.bytes_each.map(|each| each * self.measured.capacity as f64)
    }
}

/// The results of a size.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) capacity: u64,
    /// In order of the policies; sizes between those of the first grid lack some policies.
    pub(crate) entries: Vec<Entry>,
    pub(crate) winner: Winner,
    /// The winner's figures.
    pub(crate) kept: Kept,
}

impl Row {
    pub(crate) fn entry(&self, policy: usize) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.measured.policy == policy)
    }

    /// The winner among some policies, and the order of the others.
    pub(crate) fn winner_of(&self, may: impl Fn(&Entry) -> bool) -> Option<Winner> {
        let (may, others): (Vec<&Entry>, Vec<&Entry>) =
            self.entries.iter().partition(|entry| may(entry));
        let cells: Vec<Measured> = may.iter().map(|entry| entry.measured).collect();
        let mut winner = winner(&cells)?;
        winner.beaten.extend(others.iter().map(|entry| entry.measured));
        winner.beaten.sort_by(|a, b| b.mops.unwrap_or(0.0).total_cmp(&a.mops.unwrap_or(0.0)));
        Some(winner)
    }
}

/// All sizes, smallest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Board {
    pub(crate) rows: Vec<Row>,
    /// The sizes, with the share of the avoidable misses that their winners do not avoid; with
    /// several traces, the share on the worst.
    pub(crate) curve: Vec<Point>,
    /// Misses avoided by a cache for all objects, of all requests; with several traces the largest
    /// share.
    pub(crate) avoidable: f64,
    pub(crate) everything: u64,
    /// By trace, the lowest miss ratio of any size.
    floors: Vec<f64>,
}

impl Board {
    pub(crate) fn new(cases: &[Case<'_>], memory: &Memory) -> Self {
        let floors: Vec<f64> = cases.iter().map(Case::least_misses).collect();
        let judged = judged(cases);
        let rows: Vec<Row> = judged
            .chunk_by(|one, other| one.capacity == other.capacity)
            .filter_map(|cells| row(cases, memory, cells))
            .collect();
        let point = |row: &Row| {
            let left = left(cases, &floors, row.winner.chosen.policy, row.capacity);
            Point { size: row.capacity, left: left.unwrap_or(1.0) }
        };
        Board {
            curve: rows.iter().map(point).collect(),
            rows,
            avoidable: floors.iter().map(|floor| 1.0 - floor).fold(0.0, f64::max),
            everything: cases.iter().map(|case| case.everything).max().unwrap_or_default(),
            floors,
        }
    }

    /// The share of the avoidable misses that a policy does not avoid at a size, on the worst
    /// trace. `None` if no trace has any.
    pub(crate) fn left(&self, cases: &[Case<'_>], policy: usize, capacity: u64) -> Option<f64> {
        left(cases, &self.floors, policy, capacity)
    }

    /// Miss ratio of a cache for all objects, on the worst trace.
    pub(crate) fn most_floor(&self) -> f64 {
        self.floors.iter().copied().fold(0.0, f64::max)
    }

    /// Whether even a cache for all objects gains nothing.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.avoidable < HOPELESS
    }

    pub(crate) fn at(&self, capacity: u64) -> Option<&Row> {
        self.rows.iter().find(|row| row.capacity == capacity)
    }

    /// The policies to replay between two sizes: the winners at both, then the others by `rank`,
    /// least first.
    pub(crate) fn contenders(&self, gap: Gap, rank: impl Fn(&Entry) -> f64) -> Vec<usize> {
        let mut found = Vec::new();
        let mut add = |policy: usize| {
            if !found.contains(&policy) {
                found.push(policy);
            }
        };
        let ends: Vec<&Row> =
            [gap.upper, gap.lower].into_iter().filter_map(|capacity| self.at(capacity)).collect();
        ends.iter().for_each(|row| add(row.winner.chosen.policy));
        let mut next: Vec<&Entry> = ends.iter().flat_map(|row| &row.entries).collect();
        next.sort_by(|one, other| rank(one).total_cmp(&rank(other)));
        next.iter().for_each(|entry| add(entry.measured.policy));
        found.truncate(CONTENDERS);
        found.sort_unstable();
        found
    }
}

fn row(cases: &[Case<'_>], memory: &Memory, cells: &[Measured]) -> Option<Row> {
    let entry = |cell: &Measured| Some(Entry { measured: *cell, kept: kept(cases, memory, cell)? });
    let entries: Vec<Entry> = cells.iter().filter_map(entry).collect();
    let winner = winner(cells)?;
    let kept = entries.iter().find(|it| it.measured.policy == winner.chosen.policy)?.kept;
    Some(Row { capacity: winner.chosen.capacity, entries, winner, kept })
}

fn kept(cases: &[Case<'_>], memory: &Memory, cell: &Measured) -> Option<Kept> {
    let of = |case: &Case<'_>| {
        let cell = case.cell(cell.policy, cell.capacity)?;
        Some(Kept {
            miss_ratio: cell.measured.miss_ratio,
            fetched: cell.fetched(),
            byte_miss_ratio: case.byte_miss_ratio(cell),
            mops: cell.measured.mops,
            response_us: cell.mean_us(),
            p99_us: cell.latencies.as_ref().map(|it| it.all.p99_us),
            bytes_each: memory.bytes_each(cell.measured.policy, cell.resident),
        })
    };
    let worse = |one: Kept, other: Kept| Kept {
        miss_ratio: one.miss_ratio.max(other.miss_ratio),
        fetched: one.fetched.max(other.fetched),
        byte_miss_ratio: one
            .byte_miss_ratio
            .zip(other.byte_miss_ratio)
            .map(|(one, other)| one.max(other)),
        mops: one.mops.zip(other.mops).map(|(one, other)| one.min(other)),
        response_us: one.response_us.zip(other.response_us).map(|(one, other)| one.max(other)),
        p99_us: one.p99_us.zip(other.p99_us).map(|(one, other)| one.max(other)),
        bytes_each: one.bytes_each.zip(other.bytes_each).map(|(one, other)| one.max(other)),
    };
    cases.iter().filter_map(of).reduce(worse)
}

/// A trace that no cache helps has no avoidable misses.
fn left(cases: &[Case<'_>], floors: &[f64], policy: usize, capacity: u64) -> Option<f64> {
    let of = |(case, floor): (&Case<'_>, &f64)| {
        let cell = case.cell(policy, capacity)?;
        let avoidable = 1.0 - floor;
        (avoidable >= HOPELESS).then(|| (cell.measured.miss_ratio - floor) / avoidable)
    };
    let left = cases.iter().zip(floors).filter_map(of).reduce(f64::max);
    left.map(|left| left.clamp(0.0, 1.0))
}

/// The cells from which the winner is chosen. With one trace these are its cells. With several,
/// each policy and size has its lowest share of a trace's best throughput, and its largest excess
/// over a trace's fewest misses.
fn judged(cases: &[Case<'_>]) -> Vec<Measured> {
    let cells = |case: &Case<'_>| -> Vec<Measured> {
        case.cells.iter().map(|cell| cell.measured).collect()
    };
    if let [only] = cases {
        return cells(only);
    }
    let relative = |case: &Case<'_>| {
        let mut cells = cells(case);
        for size in cells.chunk_by_mut(|one, other| one.capacity == other.capacity) {
            let most = size.iter().filter_map(|cell| cell.mops).fold(0.0, f64::max);
            let fewest = size.iter().map(|cell| cell.miss_ratio).fold(1.0, f64::min);
            for cell in size {
                cell.mops = cell.mops.map(|mops| mops / most);
                cell.miss_ratio -= fewest;
            }
        }
        cells
    };
    let worse = |one: Vec<Measured>, other: Vec<Measured>| {
        let worse = |(one, other): (Measured, Measured)| Measured {
            miss_ratio: one.miss_ratio.max(other.miss_ratio),
            work_per_hit: one.work_per_hit.max(other.work_per_hit),
            mops: one.mops.zip(other.mops).map(|(one, other)| one.min(other)),
            doubt: [one.doubt[0].min(other.doubt[0]), one.doubt[1].max(other.doubt[1])],
            ..one
        };
        one.into_iter().zip(other).map(worse).collect()
    };
    cases.iter().map(relative).reduce(worse).unwrap_or_default()
}
