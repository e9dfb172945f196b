//! Countermeasures if more hits lower the throughput (paper 1, §5.2): a bypass under load, and
//! skipped promotions; and freezing (paper 2). Each makes a network from a network, so any solver
//! shows its effect.
//!
//! A bypass costs a fetch that a hit would have saved; a skipped promotion only degrades the order.
//! The paper has one sentence on the bypass: it keeps the throughput constant beyond p*_hit.
//! [`flat_bypass`] is the smallest share that does. [`best_bypass`] is better.

use crate::curve::peak;
use crate::error::share;
use crate::{Kind, ModelError, Network, Route, Step, throughput};

/// The network with a share of the requests sent straight to the backend: they are looked up, wait,
/// and visit no station. The hit ratio is that of the others.
///
/// # Errors
///
/// A share outside 0 to 1; no route of misses, which gives the fetch.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, bypass, solve};
/// let lru = PaperNetwork::Lru.network(0.99, 100.0, Use::Exact)?;
/// let with_bypass = solve(&bypass(&lru, 0.286)?, 72)?;
/// assert!(with_bypass.throughput_mops > 1.3 * solve(&lru, 72)?.throughput_mops);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn bypass(network: &Network, bypassed: f64) -> Result<Network, ModelError> {
    share(|| "the share that bypasses the cache".to_owned(), bypassed)?;
    let miss = network.routes().iter().find(|route| route.kind == Kind::Miss);
    let fetch = miss.and_then(|route| {
        let end = route.steps.iter().position(|step| matches!(step, Step::Wait(_)))?;
        Some(route.steps[..=end].iter().filter(|step| !matches!(step, Step::Visit { .. })))
    });
    let Some(fetch) = fetch else {
        let text = "no route of misses waits for a backend: nothing to bypass to".to_owned();
        return Err(ModelError::Malformed(text));
    };
    let steps = fetch.copied().collect();
    let scaled = |route: &Route| Route { share: route.share * (1.0 - bypassed), ..route.clone() };
    let mut routes: Vec<Route> = network.routes().iter().map(scaled).collect();
    routes.push(Route { kind: Kind::Bypass, share: bypassed, steps });
    network.with_routes(routes)
}

/// The bypass that gives the highest throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestBypass {
    /// The share that bypasses.
    pub share: f64,
    /// The throughput then, Mops.
    pub throughput_mops: f64,
}

/// Searches the bypass share, from 0 to 1, with the highest exact throughput; of several shares the
/// smallest. Some 400 solutions.
///
/// # Errors
///
/// Errors of [`bypass`] and [`throughput`].
pub fn best_bypass(network: &Network, mpl: usize) -> Result<BestBypass, ModelError> {
    let throughput = |share| throughput(&bypass(network, share)?, mpl);
    let best = peak((0.0, 1.0), throughput)?;
    Ok(BestBypass { share: best.low, throughput_mops: best.throughput_mops })
}

/// The smallest bypass share with a throughput of at least `peak_mops`, the peak without a bypass:
/// then the throughput stays constant beyond p*, as the paper found. If no share is enough, the
/// best.
///
/// This is not p (1 − b) = p*, which would keep the share of hits at p*: a bypass also spares the
/// stations of misses, so with the p* of the exact curve the throughput would still rise (LRU at
/// 100 µs, N = 72: from 1.685 to 1.889 Mops). Some 500 solutions.
///
/// # Errors
///
/// Errors of [`best_bypass`].
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, bypass, flat_bypass, throughput};
/// let lru = PaperNetwork::Lru.network(0.99, 100.0, Use::Exact)?;
/// let flat = bypass(&lru, flat_bypass(&lru, 72, 1.685)?)?;
/// assert!((throughput(&flat, 72)? - 1.685).abs() < 1e-6);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn flat_bypass(network: &Network, mpl: usize, peak_mops: f64) -> Result<f64, ModelError> {
    /// 2^-50 of a share.
    const HALVINGS: usize = 50;
    if throughput(network, mpl)? >= peak_mops {
        return Ok(0.0);
    }
    let best = best_bypass(network, mpl)?;
    if best.throughput_mops < peak_mops {
        return Ok(best.share);
    }
    let (mut low, mut high) = (0.0, best.share);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if throughput(&bypass(network, middle)?, mpl)? < peak_mops {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(high)
}

/// The network of a cache with a frozen part (paper 2): a share of the hits takes `look_us` there,
/// and visits no station. All other requests also look there first, for `look_us`, as in the
/// paper's equation 1.
///
/// Stations keep their times. For a profile, in which hits and misses may take turns of different
/// lengths at one station, use [`Conditions::frozen_hits`](crate::Conditions::frozen_hits) instead.
///
/// # Errors
///
/// A share outside 0 to 1; a negative time.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, freeze, solve};
/// let lru = PaperNetwork::Lru.network(0.99, 100.0, Use::Exact)?;
/// let frozen = solve(&freeze(&lru, 0.9, 0.02)?, 72)?;
/// assert!(frozen.throughput_mops > 5.0 * solve(&lru, 72)?.throughput_mops);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn freeze(network: &Network, frozen: f64, look_us: f64) -> Result<Network, ModelError> {
    share(|| "the share of the hits that is frozen".to_owned(), frozen)?;
    let mut routes = Vec::new();
    for route in network.routes() {
        let of_others = if route.kind == Kind::Hit { 1.0 - frozen } else { 1.0 };
        let mut steps = vec![Step::Compute(look_us)];
        if route.kind == Kind::Hit {
            routes.push(Route { share: route.share * frozen, steps: steps.clone(), ..*route });
        }
        steps.extend(&route.steps);
        routes.push(Route { share: route.share * of_others, steps, ..*route });
    }
    network.with_routes(routes)
}

/// The network in which a share of the hits visits no station: promotions skipped at random.
/// Service times stay the same; if fewer visits make a station faster, the gain is larger.
///
/// # Errors
///
/// A share outside 0 to 1.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, skip_promotions, solve};
/// let lru = PaperNetwork::Lru.network(0.99, 100.0, Use::Exact)?;
/// let relaxed = solve(&skip_promotions(&lru, 0.5)?, 72)?;
/// assert!(relaxed.throughput_mops > 1.9 * solve(&lru, 72)?.throughput_mops);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn skip_promotions(network: &Network, skipped: f64) -> Result<Network, ModelError> {
    share(|| "the share of promotions skipped".to_owned(), skipped)?;
    let mut routes = Vec::new();
    for route in network.routes() {
        if route.kind != Kind::Hit {
            routes.push(route.clone());
            continue;
        }
        routes.push(Route { share: route.share * (1.0 - skipped), ..route.clone() });
        let thinks = route.steps.iter().filter(|step| !matches!(step, Step::Visit { .. }));
        routes.push(Route {
            share: route.share * skipped,
            steps: thinks.copied().collect(),
            ..*route
        });
    }
    network.with_routes(routes)
}
