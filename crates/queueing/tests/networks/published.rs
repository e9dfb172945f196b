//! Peaks of the throughput, and classes of the policies: another program computed the expected
//! values from the paper's demands.

use frazil_queueing::{
    Class, ModelError, PaperNetwork, Peak, Use, best_bypass, bounds, classify, flat_bypass, peak,
    skip_promotions, solve,
};
use frazil_queueing::{SimulationOptions, bypass, simulate};

fn bound(
    network: PaperNetwork,
    backend_us: f64,
    mpl: usize,
) -> impl Fn(f64) -> Result<f64, ModelError> {
    move |p| Ok(bounds(&network.network(p, backend_us, Use::Bound)?, mpl)?.upper_mops)
}

fn exact(
    network: PaperNetwork,
    backend_us: f64,
    mpl: usize,
) -> impl Fn(f64) -> Result<f64, ModelError> {
    move |p| Ok(solve(&network.network(p, backend_us, Use::Exact)?, mpl)?.throughput_mops)
}

fn check(what: &str, found: Peak, (low, high): (f64, f64), to: f64) {
    let met = (found.low - low).abs() <= to && (found.high - high).abs() <= to;
    assert!(met, "{what}: {found:?}, expected {low} to {high}");
}

#[test]
fn bounds_peak_where_they_were_found_to() {
    const KNEE: f64 = 0.59 / 0.7;
    let lru = [
        (16, 500.0, 0.9816, 0.9816),
        (16, 100.0, 0.9150, 0.9150),
        (16, 5.0, 0.0, KNEE),
        (72, 500.0, 0.9116, 0.9116),
        (72, 100.0, 0.5904, KNEE),
        (72, 5.0, 0.0, KNEE),
        (144, 500.0, 0.8335, 0.8429),
        (144, 100.0, 0.163, 0.843),
        (144, 5.0, 0.0, KNEE),
    ];
    for (mpl, backend_us, low, high) in lru {
        let found = peak((0.0, 1.0), bound(PaperNetwork::Lru, backend_us, mpl)).unwrap();
        check(&format!("lru {mpl} {backend_us}"), found, (low, high), 0.005);
    }
    let slru = [
        (16, 500.0, 0.984, 1.62),
        (16, 100.0, 0.9245, 1.711),
        (16, 5.0, 0.4795, 3.123),
        (72, 500.0, 0.9198, 1.7185),
        (72, 100.0, 0.6919, 2.2206),
        (72, 5.0, 0.4795, 3.1234),
        (144, 500.0, 0.8477, 1.848),
        (144, 100.0, 0.5185, 2.90),
        (144, 5.0, 0.4795, 3.12),
    ];
    for (mpl, backend_us, p_star, mops) in slru {
        let found = peak((0.0, 1.0), bound(PaperNetwork::Slru, backend_us, mpl)).unwrap();
        check(&format!("slru {mpl} {backend_us}"), found, (p_star, p_star), 0.005);
        assert!((found.throughput_mops / mops - 1.0).abs() < 4e-3, "{found:?} {mops}");
    }
    for (q, backend_us, p_star, mops) in [
        (0.5, 500.0, 0.9492, 2.70),
        (0.5, 100.0, 0.9091, 2.82),
        (0.5, 5.0, 0.9091, 2.82),
        (1.0 - 1.0 / 72.0, 100.0, 0.998, 89.0),
    ] {
        let network = PaperNetwork::LruProb { q };
        let found = peak((0.4, 1.0), bound(network, backend_us, 72)).unwrap();
        check(&format!("{network} {backend_us}"), found, (p_star, p_star), 0.005);
        assert!((found.throughput_mops / mops - 1.0).abs() < 4e-3, "{found:?} {mops}");
    }
}

#[test]
fn exact_throughput_peaks_where_it_was_found_to() {
    let points = [
        (PaperNetwork::Lru, 16, 500.0, 1.0),
        (PaperNetwork::Lru, 16, 100.0, 0.979),
        (PaperNetwork::Lru, 16, 5.0, 0.513),
        (PaperNetwork::Lru, 72, 500.0, 0.940),
        (PaperNetwork::Lru, 72, 100.0, 0.751),
        (PaperNetwork::Lru, 72, 5.0, 0.4),
        (PaperNetwork::Lru, 144, 500.0, 0.868),
        (PaperNetwork::Lru, 144, 100.0, 0.595),
        (PaperNetwork::Slru, 16, 500.0, 1.0),
        (PaperNetwork::Slru, 16, 100.0, 0.988),
        (PaperNetwork::Slru, 16, 5.0, 0.516),
        (PaperNetwork::Slru, 72, 500.0, 0.949),
        (PaperNetwork::Slru, 72, 100.0, 0.733),
        (PaperNetwork::Slru, 72, 5.0, 0.484),
        (PaperNetwork::Slru, 144, 500.0, 0.875),
        (PaperNetwork::Slru, 144, 100.0, 0.546),
        (PaperNetwork::Slru, 144, 5.0, 0.482),
    ];
    for (network, mpl, backend_us, p_star) in points {
        let found = peak((0.0, 1.0), exact(network, backend_us, mpl)).unwrap();
        let met = found.low <= p_star + 0.02 && found.high >= p_star - 0.02;
        assert!(met, "{network} {mpl} {backend_us}: {found:?}, expected {p_star}");
        // Two are flat to a billionth: the head is saturated over much of the range.
        let flat =
            network == PaperNetwork::Lru && matches!((mpl, backend_us), (72, 5.0) | (144, 100.0));
        assert!(flat || found.high - found.low < 0.001, "{network} {mpl} {backend_us}: {found:?}");
        println!("{network} {mpl} {backend_us}: {found:?}, {p_star}");
    }
    for (network, p, backend_us, mops) in [
        (PaperNetwork::Lru, 0.751, 100.0, 1.685),
        (PaperNetwork::Lru, 1.0, 100.0, 1.4286),
        (PaperNetwork::Lru, 0.940, 500.0, 1.506),
        (PaperNetwork::Lru, 0.6, 100.0, 1.554),
        (PaperNetwork::Lru, 0.99, 100.0, 1.443),
        (PaperNetwork::Slru, 1.0, 100.0, 1.597),
    ] {
        let found = exact(network, backend_us, 72)(p).unwrap();
        assert!((found / mops - 1.0).abs() < 1e-3, "{network} {p} {backend_us}: {found} {mops}");
    }
}

#[test]
fn what_only_works_on_misses_rises_to_the_end() {
    for network in [PaperNetwork::Fifo, PaperNetwork::Clock, PaperNetwork::S3Fifo] {
        for backend_us in [5.0, 100.0, 500.0] {
            for mpl in [16, 72, 144] {
                let (bound, exact) =
                    (bound(network, backend_us, mpl), exact(network, backend_us, mpl));
                let mut last = (0.0, 0.0);
                for step in 0..=200 {
                    let p = f64::from(step) / 200.0;
                    let now = (bound(p).unwrap(), exact(p).unwrap());
                    let rises = now.0 > last.0 && now.1 > last.1;
                    assert!(rises, "{network} {backend_us} {mpl} {p}: {last:?} {now:?}");
                    last = now;
                }
            }
        }
    }
}

#[test]
fn classes_are_those_of_the_paper() {
    let of = |network: PaperNetwork| {
        classify(|p| Ok(network.network(p, 100.0, Use::Bound)?.max_demand_us())).unwrap()
    };
    for network in PaperNetwork::ALL {
        let expected = match network {
            PaperNetwork::Lru | PaperNetwork::Slru => Class::LruLike,
            PaperNetwork::LruProb { q } if q < 0.9 => Class::LruLike,
            _ => Class::FifoLike,
        };
        assert_eq!(of(network), expected, "{network}");
    }
    // §4.2: FIFO-like only from q near 1 − 1/N on.
    assert_eq!(of(PaperNetwork::LruProb { q: 0.9 }), Class::LruLike);
    assert_eq!(of(PaperNetwork::LruProb { q: 0.0 }), Class::LruLike);
    assert_eq!(of(PaperNetwork::LruProb { q: 1.0 }), Class::FifoLike);
}

#[test]
fn bypass_and_skipped_promotions_gain_as_once_computed() {
    let lru = |backend_us| PaperNetwork::Lru.network(0.99, backend_us, Use::Exact).unwrap();
    for (backend_us, share, mops) in [(100.0, 0.286, 1.941), (500.0, 0.054, 1.514)] {
        let best = best_bypass(&lru(backend_us), 72).unwrap();
        assert!((best.share - share).abs() < 0.01, "{best:?}");
        assert!((best.throughput_mops / mops - 1.0).abs() < 1e-3, "{best:?}");
    }
    let at_40 = solve(&bypass(&lru(5.0), 0.4).unwrap(), 72).unwrap().throughput_mops;
    assert!((at_40 / 2.405 - 1.0).abs() < 2e-3, "{at_40}");
    // The least share keeps the curve flat, as in the paper. A share that keeps hits at those of p*
    // is more than enough: a bypass spares the head too, so the throughput rises.
    let top = peak((0.4, 1.0), exact(PaperNetwork::Lru, 100.0, 72)).unwrap();
    for p in [0.8, 0.9, 0.99] {
        let network = PaperNetwork::Lru.network(p, 100.0, Use::Exact).unwrap();
        let with = |share| solve(&bypass(&network, share).unwrap(), 72).unwrap().throughput_mops;
        let share = flat_bypass(&network, 72, top.throughput_mops).unwrap();
        assert!((with(share) / top.throughput_mops - 1.0).abs() < 1e-9, "{p}: {share}");
        let best = best_bypass(&network, 72).unwrap().throughput_mops;
        let rising = with(1.0 - top.high / p);
        assert!(rising > with(share) && best >= rising, "{p}: {rising} {best}");
    }
    let at = |p| PaperNetwork::Lru.network(p, 100.0, Use::Exact).unwrap();
    for (p, found) in [(0.9, 0.0618), (0.99, 0.1439)] {
        let share = flat_bypass(&at(p), 72, top.throughput_mops).unwrap();
        assert!((share - found).abs() < 1e-3, "{p}: {share}");
    }
    let rising = solve(&bypass(&at(0.99), 1.0 - top.high / 0.99).unwrap(), 72).unwrap();
    assert!((rising.throughput_mops - 1.889).abs() < 1e-3, "{rising:?}");
    assert_eq!(flat_bypass(&at(top.low), 72, top.throughput_mops * 0.999).unwrap(), 0.0);
    // Below p* the backend limits the throughput: no bypass reaches the peak, and a share of 0 is
    // best.
    assert!(flat_bypass(&at(0.5), 72, top.throughput_mops).unwrap() < 1e-6);
    // A skipped promotion costs no fetch, so skipping the same share gains more.
    let skipped = skip_promotions(&lru(100.0), 0.286).unwrap();
    let skipped = solve(&skipped, 72).unwrap().throughput_mops;
    assert!(skipped > 1.95, "{skipped}");
    assert!(bypass(&lru(5.0), 1.1).is_err() && skip_promotions(&lru(5.0), -0.1).is_err());
}

/// The distribution of service times changes throughput by some percent at the knee, and hardly
/// elsewhere: values of another simulation, with 60 thousand requests.
#[test]
fn distributions_matter_at_the_knee_alone() {
    use frazil_queueing::Distribution::{Deterministic, Exponential, HyperExponential};
    let hyper = HyperExponential { cv2: 4.0 };
    let points = [
        (100.0, 0.6, Exponential, 1.552),
        (100.0, 0.6, Deterministic, 1.604),
        (100.0, 0.6, hyper, 1.455),
        (5.0, 0.9, Exponential, 1.583),
        (5.0, 0.9, Deterministic, 1.591),
        (5.0, 0.9, hyper, 1.552),
    ];
    for (backend_us, p, service, mops) in points {
        let network = PaperNetwork::Lru.network(p, backend_us, Use::Exact).unwrap();
        let options = SimulationOptions { service, ..SimulationOptions::default() };
        let seen = simulate(&network, 72, &options).unwrap();
        let found = seen.solution.throughput_mops;
        assert!((found / mops - 1.0).abs() < 0.015, "{backend_us} {service:?}: {found} {mops}");
    }
}
