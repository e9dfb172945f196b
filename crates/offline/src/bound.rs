//! A lower bound that is valid for any result of the solver.
//!
//! Let a place in the cache have a price at each moment, and let every object take the path that is
//! cheapest for it alone. The cost of all paths, minus the price of all places, is at most any
//! schedule's cost: a schedule pays for at most the existing places. That holds for *any* prices
//! that are not negative (Lagrange). So the bound uses the solver's prices, rounded to fractions of
//! a power of two, and adds whole numbers. Costs are whole, so the bound may be rounded up. The
//! paths of one object have no gap (its flows are a network's), so at the best prices the bound is
//! the relaxation's optimum.

use crate::program::{At, Program};

/// Prices are multiples of 1 / 2^20.
const SHIFT: u32 = 20;
/// The highest price of a place: 2^62 in those units, far above any accepted delay.
const DEAREST: f64 = (1u64 << 42) as f64;

/// The bound at these prices of a place at each moment. O(requests).
pub(crate) fn lower_bound(program: &Program, prices: &[f64]) -> u64 {
    let mut before = vec![0i128];
    for moment in 0..program.moments {
        let price = prices.get(moment).copied().unwrap_or(0.0).clamp(0.0, DEAREST);
        // NaN counts as 0.
        let price = (price * f64::from(1u32 << SHIFT)) as i128;
        before.push(before[moment] + price);
    }
    let places = before[program.moments] * i128::from(program.capacity);
    let mut cheapest = [vec![0i128; program.next.len()], vec![0i128; program.next.len()]];
    let mut paths = 0;
    for requests in &program.objects {
        for &request in requests.iter().rev() {
            for at in [At::Hit, At::Miss] {
                let mut cost = 0;
                if let Some(target) = program.target(request, at) {
                    let [hit, miss] =
                        [At::Hit, At::Miss].map(|at| cheapest[at as usize][target as usize]);
                    let moments = program.held(request, at).unwrap_or_default();
                    cost = miss.min(hit + before[moments.end] - before[moments.start]);
                }
                if at == At::Miss {
                    cost += i128::from(program.delay[request as usize]) << SHIFT;
                }
                cheapest[at as usize][request as usize] = cost;
            }
        }
        paths += requests.first().map_or(0, |&first| cheapest[At::Miss as usize][first as usize]);
    }
    let exact = (paths - places).max(0);
    let up = (exact + (1 << SHIFT) - 1) >> SHIFT;
    // The cost without capacity is at least the bound, and fits 64 bits.
    u64::try_from(up).unwrap_or(0)
}
