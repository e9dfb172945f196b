//! Bounds on throughput that need no solution.
//!
//! **Asymptotic** (Harchol-Balter, *Performance Modeling*, Theorem 7.1, which paper 1 uses):
//! X ≤ min(N / (D + Z), 1 / D_max), with D the sum of the demands, Z the think time. **Balanced
//! jobs** (Zahorjan, Sevcik, Eager, Galler 1982, with think time as in Lazowska et al.,
//! *Quantitative System Performance*, ch. 5) are tighter, and hold for networks of single
//! servers and delays with exponential service.
//!
//! The asymptotic upper bound also holds for other stations, with two numbers of each. A visit
//! takes at least min j t(j) µs: a station with j present and t(j) µs between departures holds each
//! for j t(j) µs on average, by Little. Departures are at least min t(j) apart.

use crate::cores::{CORES, least_us, work_us};
use crate::mva::{bottleneck, check_mpl, check_time};
use crate::{ModelError, Network, Service};

/// Bounds on a network's throughput, in requests per µs (Mops).
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Asymptotic upper bound, as in the paper.
    pub upper_mops: f64,
    /// Asymptotic lower bound N / (Z + N D): every request waits for all others at every station.
    pub lower_mops: f64,
    /// Upper bound of balanced jobs, or the asymptotic one if that does not apply.
    pub balanced_upper_mops: f64,
    /// Lower bound of balanced jobs, or the asymptotic one if that does not apply.
    pub balanced_lower_mops: f64,
    /// µs of each core that a request uses, if there are fewer cores than requests.
    pub core_demand_us: f64,
    /// The station with the greatest demand, if any has one.
    pub bottleneck: Option<String>,
}

/// Bounds the throughput of `mpl` requests. O(stations + steps).
///
/// # Errors
///
/// An MPL of 0 or above [`MAX_MPL`](crate::MAX_MPL); no time in any step.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, bounds};
/// let fifo: PaperNetwork = "fifo".parse()?;
/// // Equation (4) of the paper.
/// let bound = bounds(&fifo.network(0.8, 100.0, Use::Bound)?, 72)?;
/// assert!((bound.upper_mops - 72.0 / (101.24 - 100.73 * 0.8)).abs() < 1e-12);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn bounds(network: &Network, mpl: usize) -> Result<Bounds, ModelError> {
    check_mpl(mpl)?;
    check_time(network)?;
    let (n, running) = (mpl as f64, network.running(mpl));
    let computing = network.compute_us(1) / network.crowd(1);
    let crowd = |station, choose| network.extreme_crowd(station, running, choose);
    let think = computing * crowd(None, f64::min) + network.wait_us();
    let longest = computing * crowd(None, f64::max) + network.wait_us();
    let (mut least, mut fastest, mut slowest) = (0.0, 0.0_f64, 0.0);
    let mut queueing = 0;
    let mut plain = true;
    for (index, station) in network.stations().iter().enumerate() {
        let visits = network.visits(index);
        if visits <= 0.0 {
            continue;
        }
        queueing += 1;
        plain &= matches!(station.service, Service::Single(_));
        let (low, high) = (crowd(Some(index), f64::min), crowd(Some(index), f64::max));
        plain &= low >= high;
        least += visits * least_us(&station.service) * low;
        fastest = fastest.max(visits * extreme(&station.service, f64::min) * low);
        slowest += visits * extreme(&station.service, f64::max) * high;
    }
    let mut demands = network.demands_us();
    let mut names: Vec<&str> = network.stations().iter().map(|it| it.name.as_str()).collect();
    let mut core_demand_us = 0.0;
    if let Some(cores) = network.cores().filter(|&cores| cores < mpl) {
        // The work is least with the fewest requests that slow each other, or, rarely, the most.
        let work = (1..=cores).map(|running| work_us(network, running)).reduce(f64::min);
        core_demand_us = work.unwrap_or(0.0) / cores as f64;
        demands.push(core_demand_us);
        names.push(CORES);
        fastest = fastest.max(core_demand_us);
        // A request that thinks may also wait for a core.
        slowest += longest - network.wait_us();
        plain = false;
    }
    let upper = (n / (think + least)).min(1.0 / fastest);
    let lower = n / (longest + n * slowest);
    let (mut balanced_upper, mut balanced_lower) = (upper, lower);
    if plain && least > 0.0 {
        let mean = least / f64::from(queueing);
        let others = n - 1.0;
        balanced_upper = (n / (think + least + mean * others / (1.0 + think / least))).min(upper);
        balanced_lower =
            (n / (longest + least + fastest * others / (1.0 + longest / (n * least)))).max(lower);
    }
    Ok(Bounds {
        upper_mops: upper,
        lower_mops: lower,
        balanced_upper_mops: balanced_upper,
        balanced_lower_mops: balanced_lower,
        core_demand_us,
        bottleneck: bottleneck(names.into_iter().zip(demands)).map(str::to_owned),
    })
}

/// The least or the greatest time between departures from a station that is not empty.
fn extreme(service: &Service, choose: fn(f64, f64) -> f64) -> f64 {
    match service {
        Service::LoadDependent(times) => times.iter().copied().reduce(choose).unwrap_or(0.0),
        // With fewer requests present, fewer servers work.
        _ => choose(service.time_us(1), service.saturated_us()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Route, Station, Step, solve};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_exact_throughput_lies_between(
            times in prop::collection::vec(0.01..5.0_f64, 1..5),
            think in 0.0..50.0_f64,
            servers in 1..4_usize,
            mpl in 1..40_usize,
        ) {
            let single = |us: &f64| Service::Single(*us);
            let mut services: Vec<Service> = times.iter().map(single).collect();
            for plain in [true, false] {
                let stations = services.iter().enumerate().map(|(at, service)| {
                    Station { name: at.to_string(), service: service.clone() }
                });
                let visits = |station| Step::Visit { station, visits: 0.7 };
                let mut steps: Vec<Step> = (0..services.len()).map(visits).collect();
                steps.push(Step::Wait(think));
                let route = Route { kind: Kind::Hit, share: 1.0, steps };
                let network = Network::new(stations.collect(), vec![route]).unwrap();
                let (bounds, exact) =
                    (bounds(&network, mpl).unwrap(), solve(&network, mpl).unwrap());
                let x = exact.throughput_mops;
                let close = 1.0 + 1e-9;
                prop_assert!(bounds.lower_mops <= bounds.balanced_lower_mops);
                prop_assert!(bounds.balanced_lower_mops <= x * close, "{bounds:?} {x}");
                prop_assert!(x <= bounds.balanced_upper_mops * close, "{bounds:?} {x}");
                prop_assert!(bounds.balanced_upper_mops <= bounds.upper_mops);
                if plain {
                    services[0] = Service::Multi { service_us: times[0], servers };
                    services.push(Service::LoadDependent(vec![0.1, 0.2, 0.15]));
                }
            }
        }
    }
}
