//! The linear program by Clarabel, an interior point method.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, ZeroConeT,
};

use crate::relaxation::{Linear, Row, Solution};

/// Solves it. The result is the solver's best and must be checked; the error is the solver's own.
pub(crate) fn solve(linear: &Linear) -> Result<Solution, String> {
    let columns = linear.costs.len();
    let rows = linear.equal.len() + linear.at_most.len();
    let constraints = by_columns(columns, rows, linear.equal.iter().chain(&linear.at_most));
    let bounds: Vec<f64> =
        linear.equal.iter().chain(&linear.at_most).map(|row| row.bound).collect();
    let cones = [ZeroConeT(linear.equal.len()), NonnegativeConeT(linear.at_most.len())];
    let settings = DefaultSettingsBuilder::default()
        .verbose(false)
        .build()
        .map_err(|error| error.to_string())?;
    let quadratic = CscMatrix::zeros((columns, columns));
    let mut solver =
        DefaultSolver::new(&quadratic, &linear.costs, &constraints, &bounds, &cones, settings)
            .map_err(|error| error.to_string())?;
    solver.solve();
    let solution = &solver.solution;
    if solution.x.iter().chain(&solution.z).any(|value| !value.is_finite()) {
        return Err(format!("{:?}", solution.status));
    }
    Ok(Solution { columns: solution.x.clone(), prices: solution.z[linear.equal.len()..].to_vec() })
}

/// A sparse matrix of rows, by columns.
fn by_columns<'a>(
    columns: usize,
    rows: usize,
    of: impl Iterator<Item = &'a Row>,
) -> CscMatrix<f64> {
    let mut lists = vec![Vec::new(); columns];
    for (number, row) in of.enumerate() {
        for &(column, factor) in &row.terms {
            lists[column as usize].push((number, factor));
        }
    }
    let mut starts = vec![0];
    let (mut numbers, mut factors) = (Vec::new(), Vec::new());
    for list in lists {
        numbers.extend(list.iter().map(|(number, _)| *number));
        factors.extend(list.iter().map(|(_, factor)| *factor));
        starts.push(numbers.len());
    }
    CscMatrix::new(rows, columns, starts, numbers, factors)
}

#[cfg(test)]
mod tests {
    use frazil_policy::Rng;
    use microlp::{ComparisonOp, OptimizationDirection, Problem};

    use super::*;
    use crate::bound::lower_bound;
    use crate::program::Program;
    use crate::relaxation::Relaxation;

    /// The optimum by the simplex method.
    fn simplex(linear: &Linear) -> f64 {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        // The rows state which columns are not negative.
        let anything = (f64::NEG_INFINITY, f64::INFINITY);
        let columns: Vec<_> =
            linear.costs.iter().map(|&cost| problem.add_var(cost, anything)).collect();
        let equal = linear.equal.iter().map(|row| (row, ComparisonOp::Eq));
        let at_most = linear.at_most.iter().map(|row| (row, ComparisonOp::Le));
        for (row, comparison) in equal.chain(at_most) {
            let terms: Vec<_> =
                row.terms.iter().map(|&(at, factor)| (columns[at as usize], factor)).collect();
            problem.add_constraint(terms.as_slice(), comparison, row.bound);
        }
        let solution = problem.solve().expect("it is feasible").into_solution();
        solution.expect("an optimum").objective()
    }

    /// Total wait of all requests at the relaxation's optimum.
    fn optimum(program: &Program, relaxation: &Relaxation) -> f64 {
        let firsts = program.objects.iter().filter_map(|requests| requests.first());
        let firsts: u64 = firsts.map(|&first| program.delay[first as usize]).sum();
        simplex(&relaxation.linear) * program.fetch as f64 + firsts as f64
    }

    #[test]
    fn the_bound_is_the_optimum_by_another_method() {
        let mut rng = Rng::new(5);
        for _ in 0..60 {
            let objects = 3 + rng.below(30);
            let ids: Vec<u32> =
                (0..40 + rng.below(160)).map(|_| rng.below(objects) as u32).collect();
            let (capacity, fetch) = (1 + rng.below(6) as u32, 1 + rng.below(25));
            let program = Program::new(&ids, objects as usize, capacity, fetch);
            let relaxation = Relaxation::new(&program);
            let solution = solve(&relaxation.linear).expect("it is solved");
            let bound = lower_bound(&program, &relaxation.prices(&solution));
            let optimum = optimum(&program, &relaxation);
            assert_eq!(bound, (optimum - 1e-4).ceil() as u64, "{optimum}: {ids:?}");
        }
    }

    #[test]
    fn any_prices_are_a_bound() {
        let mut rng = Rng::new(6);
        let ids: Vec<u32> = (0..400).map(|_| rng.below(40) as u32).collect();
        let program = Program::new(&ids, 40, 5, 12);
        let relaxation = Relaxation::new(&program);
        let solution = solve(&relaxation.linear).expect("it is solved");
        let prices = relaxation.prices(&solution);
        let best = (optimum(&program, &relaxation) - 1e-4).ceil() as u64;
        for trial in 0..200 {
            let apart = 0.2 * f64::from(trial);
            let others: Vec<f64> =
                prices.iter().map(|price| price + apart * (rng.unit() - 0.5)).collect();
            assert!(lower_bound(&program, &others) <= best);
        }
        let odd = vec![f64::NAN; program.moments];
        assert!(lower_bound(&program, &odd) <= best);
        assert!(lower_bound(&program, &vec![f64::INFINITY; program.moments]) <= best);
    }
}
