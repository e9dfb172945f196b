//! The program with paths that may split: a linear program.
//!
//! Unknowns are flows, by request: `held[Hit]` and `held[Miss]`, the share of its object held from
//! there on, and `missed`, the share of the request that misses. The share that hits follows: it is
//! the share held up to the request. The content of the cache at a moment is an unknown too: that
//! of the moment before, plus flows that begin, minus flows that have ended. So each flow is in a
//! handful of rows, however long it is; otherwise there would be `O(requests × peak)` numbers.

use crate::program::{At, NONE, Program};

/// Minimise `costs · x`, with each row's sum equal to its bound or at most its bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear {
    pub(crate) costs: Vec<f64>,
    pub(crate) equal: Vec<Row>,
    pub(crate) at_most: Vec<Row>,
}

/// Columns with their factors, and a bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) terms: Vec<(u32, f64)>,
    pub(crate) bound: f64,
}

/// A solver's solution: nearly optimal, nearly feasible.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    pub(crate) columns: Vec<f64>,
    /// By row of `at_most`: the saving if the bound is one higher.
    pub(crate) prices: Vec<f64>,
}

impl Solution {
    /// The solution of a program without moments: nothing held, and no price.
    pub(crate) fn free(linear: &Linear) -> Self {
        let columns = vec![0.0; linear.costs.len()];
        Solution { columns, prices: vec![0.0; linear.at_most.len()] }
    }
}

/// The linear program, and the places of its unknowns and rows.
pub(crate) struct Relaxation {
    pub(crate) linear: Linear,
    /// By request, from a hit and from a miss; [`NONE`] if nothing can be held.
    held: Vec<[u32; 2]>,
    /// By request; [`NONE`] for the first of an object, which is a miss.
    missed: Vec<u32>,
    /// The row of the first moment in `at_most`; the others follow.
    moments: usize,
    /// The unit of costs: a fetch, so that they are near 1.
    unit: f64,
}

/// A sum of columns and a constant.
#[derive(Clone, Default)]
struct Sum {
    terms: Vec<(u32, f64)>,
    constant: f64,
}

impl Sum {
    fn of(column: u32) -> Self {
        Sum { terms: vec![(column, 1.0)], constant: 0.0 }
    }
    fn add(&mut self, other: &Sum, factor: f64) {
        self.terms.extend(other.terms.iter().map(|&(column, by)| (column, by * factor)));
        self.constant += other.constant * factor;
    }
    /// The row that holds it at 0, or at most at 0.
    fn row(self) -> Row {
        let mut terms = self.terms;
        terms.sort_unstable_by_key(|&(column, _)| column);
        terms.dedup_by(|from, into| {
            let same = from.0 == into.0;
            if same {
                into.1 += from.1;
            }
            same
        });
        terms.retain(|&(_, factor)| factor != 0.0);
        Row { terms, bound: -self.constant }
    }
}

impl Relaxation {
    pub(crate) fn new(program: &Program) -> Self {
        let requests = program.next.len();
        let mut relaxation = Relaxation {
            linear: Linear::default(),
            held: vec![[NONE; 2]; requests],
            missed: vec![NONE; requests],
            moments: 0,
            unit: program.fetch as f64,
        };
        for object in &program.objects {
            relaxation.add_object(program, object);
        }
        relaxation.add_moments(program);
        relaxation
    }

    fn column(&mut self, cost: f64) -> u32 {
        self.linear.costs.push(cost);
        self.linear.costs.len() as u32 - 1
    }

    /// One object's paths.
    fn add_object(&mut self, program: &Program, requests: &[u32]) {
        // The inflow at each request: as a hit, and as a miss.
        let mut hits = vec![Sum::default(); requests.len()];
        let mut misses = vec![Sum::default(); requests.len()];
        for (place, &request) in requests.iter().enumerate() {
            let hit = std::mem::take(&mut hits[place]);
            let arriving = std::mem::take(&mut misses[place]);
            let miss = if place == 0 {
                Sum { terms: Vec::new(), constant: 1.0 }
            } else {
                let cost = program.delay[request as usize] as f64 / self.unit;
                let missed = self.column(cost);
                self.missed[request as usize] = missed;
                let mut balance = arriving;
                balance.add(&Sum::of(missed), -1.0);
                self.linear.equal.push(balance.row());
                Sum::of(missed)
            };
            for (at, node) in [(At::Hit, hit), (At::Miss, miss)] {
                let Some(target) = program.target(request, at) else { continue };
                if node.terms.is_empty() && node.constant == 0.0 {
                    continue;
                }
                let target = requests.partition_point(|&other| other < target);
                let column = self.column(0.0);
                self.held[request as usize][at as usize] = column;
                let held = Sum::of(column);
                let mut not_negative = Sum::default();
                not_negative.add(&held, -1.0);
                self.linear.at_most.push(not_negative.row());
                let mut no_more = held.clone();
                no_more.add(&node, -1.0);
                self.linear.at_most.push(no_more.row());
                hits[target].add(&held, 1.0);
                misses[target].add(&node, 1.0);
                misses[target].add(&held, -1.0);
            }
        }
    }

    /// The content of the cache at each moment.
    fn add_moments(&mut self, program: &Program) {
        let mut changes = vec![Sum::default(); program.moments + 1];
        for (request, columns) in (0u32..).zip(&self.held) {
            for (at, &column) in [At::Hit, At::Miss].into_iter().zip(columns) {
                let held = if column == NONE { None } else { program.held(request, at) };
                if let Some(moments) = held.filter(|moments| !moments.is_empty()) {
                    changes[moments.start].add(&Sum::of(column), 1.0);
                    changes[moments.end].add(&Sum::of(column), -1.0);
                }
            }
        }
        changes.truncate(program.moments);
        self.moments = self.linear.at_most.len();
        let mut before = None;
        for mut change in changes {
            let full = self.column(0.0);
            change.add(&Sum::of(full), -1.0);
            if let Some(before) = before {
                change.add(&Sum::of(before), 1.0);
            }
            self.linear.equal.push(change.row());
            let bound = f64::from(program.capacity);
            self.linear.at_most.push(Row { terms: vec![(full, 1.0)], bound });
            before = Some(full);
        }
    }

    /// The price of a place at each moment, in the unit of delays.
    pub(crate) fn prices(&self, solution: &Solution) -> Vec<f64> {
        solution.prices[self.moments..].iter().map(|price| price * self.unit).collect()
    }

    /// The share of an object that is held from a request on.
    pub(crate) fn held(&self, solution: &Solution, request: u32, at: At) -> f64 {
        let column = self.held[request as usize][at as usize];
        solution.columns.get(column as usize).copied().unwrap_or(0.0)
    }

    /// Number of flows that are neither 0 nor 1.
    pub(crate) fn split(&self, solution: &Solution) -> usize {
        let columns = self.held.iter().flatten().filter(|&&column| column != NONE);
        let flows = columns.map(|&column| solution.columns[column as usize]);
        flows.filter(|flow| (flow - flow.round()).abs() > 1e-5).count()
    }
}
