//! Compares the bounds with equations (1) to (6) of paper 1, written out from its text, and with
//! its statements about them.

use frazil_queueing::{PaperNetwork, Use, bounds};

const N: f64 = 72.0;

fn lru_bottleneck(p: f64) -> f64 {
    1.0 / f64::max(0.59, 0.7 * p)
}

fn fifo_bottleneck(p: f64) -> f64 {
    1.0 / (0.73 - 0.73 * p)
}

#[test]
fn bounds_are_the_equations_of_the_paper() {
    type Equation = fn(f64) -> f64;
    let equations: [(PaperNetwork, f64, Equation); 6] = [
        (PaperNetwork::Lru, 100.0, |p| (N / (101.1 - 99.3 * p)).min(lru_bottleneck(p))),
        (PaperNetwork::Lru, 5.0, |p| (N / (6.1 - 4.3 * p)).min(lru_bottleneck(p))),
        (PaperNetwork::Lru, 500.0, |p| (N / (501.1 - 499.3 * p)).min(lru_bottleneck(p))),
        (PaperNetwork::Fifo, 100.0, |p| (N / (101.24 - 100.73 * p)).min(fifo_bottleneck(p))),
        (PaperNetwork::Fifo, 5.0, |p| (N / (6.24 - 5.73 * p)).min(fifo_bottleneck(p))),
        (PaperNetwork::Fifo, 500.0, |p| (N / (501.24 - 500.73 * p)).min(fifo_bottleneck(p))),
    ];
    for (number, (network, backend_us, equation)) in equations.into_iter().enumerate() {
        for step in 0..=1000 {
            let p = f64::from(step) / 1000.0;
            let made = network.network(p, backend_us, Use::Bound).unwrap();
            let bound = bounds(&made, 72).unwrap().upper_mops;
            let paper = equation(p);
            assert!((bound - paper).abs() <= 1e-9 * paper, "({}) at {p}: {bound}", number + 1);
        }
    }
}

/// §3.2: D_max and the total demand of LRU, and the small effect of the tail.
#[test]
fn demands_are_those_of_the_text() {
    for step in 0..=100 {
        let p = f64::from(step) / 100.0;
        let bound = PaperNetwork::Lru.network(p, 100.0, Use::Bound).unwrap();
        let exact = PaperNetwork::Lru.network(p, 100.0, Use::Exact).unwrap();
        let sum = |demands: Vec<f64>| demands.iter().sum::<f64>();
        assert!((sum(bound.demands_us()) - (0.7 * p + 0.59)).abs() < 1e-12);
        assert!((sum(exact.demands_us()) - (0.11 * p + 1.18)).abs() < 1e-12);
        assert!((bound.think_us() - (100.51 - 100.0 * p)).abs() < 1e-12);
        let name = |network| bounds(network, 72).unwrap().bottleneck;
        let expected = if p > 0.59 / 0.7 { "delink" } else { "head" };
        assert_eq!(name(&bound).as_deref(), Some(expected), "{p}");
        if p < 0.59 {
            let upper = |network| bounds(network, 72).unwrap().upper_mops;
            assert!((upper(&bound) / upper(&exact) - 1.0).abs() < 0.006, "{p}");
        }
    }
}

#[test]
fn clock_and_s3_fifo_have_the_published_program_s_bounds() {
    let upper = |network: PaperNetwork, p, backend_us| {
        bounds(&network.network(p, backend_us, Use::Bound).unwrap(), 72).unwrap().upper_mops
    };
    for (p, expected) in [(0.4, 1.18), (0.9, 6.79), (0.99, 47.3)] {
        let bound = upper(PaperNetwork::Clock, p, 100.0);
        assert!((bound / expected - 1.0).abs() < 2e-3, "{p}: {bound}");
    }
    let bound = upper(PaperNetwork::S3Fifo, 0.9, 5.0);
    assert!((bound / 24.4 - 1.0).abs() < 2e-3, "{bound}");
}

/// For q between measured values, the network is between those of these values.
#[test]
fn probabilistic_lru_goes_from_lru_to_fifo() {
    let upper = |network: PaperNetwork, p: f64, made_for| {
        bounds(&network.network(p, 100.0, made_for).unwrap(), 72).unwrap().upper_mops
    };
    for p in [0.0, 0.4, 0.9, 0.99] {
        let at = |q| upper(PaperNetwork::LruProb { q }, p, Use::Bound);
        assert_eq!(at(0.0), upper(PaperNetwork::Lru, p, Use::Bound));
        assert_eq!(at(1.0), upper(PaperNetwork::Fifo, p, Use::Bound));
        for q in 1..100 {
            assert!(at(f64::from(q) / 100.0).is_finite());
        }
    }
    // §4.2 at q = 0.5: demands of figure 6 (a).
    let network = PaperNetwork::LruProb { q: 0.5 }.network(0.8, 100.0, Use::Exact).unwrap();
    let mut demands = network.demands_us();
    demands.sort_by(f64::total_cmp);
    let expected = [0.64 * 0.2, 0.5 * 0.8 * 0.78, 0.65 * (0.2 + 0.5 * 0.8)];
    assert!(demands.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12));
}
