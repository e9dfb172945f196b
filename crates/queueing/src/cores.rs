//! Networks with fewer cores than requests.
//!
//! A request holds a core while it computes and while it is at a station. So it holds two resources
//! at once, for which there is no product form. The usual solution is a flow-equivalent station
//! (Chandy, Herzog, Woo 1975): the part of the network that needs a core is solved alone for 1, 2,
//! … requests, up to the number of cores. Its throughputs are the speeds of one station that
//! represents it beside the backend. Without other stations that is exactly a multi-server station
//! with as many servers as cores.
//!
//! The error is small if requests move inside that part much more often than they enter and leave
//! it. The simulation, which gives and takes cores one by one, is the check.

use crate::mva::{
    Last, Solution, StationLoad, last, product_form, product_form_throughput, throughputs,
};
use crate::{Network, Step};

/// Solves a network that has fewer cores than requests.
pub(crate) fn solve(network: &Network, cores: usize, mpl: usize) -> Solution {
    let Some(on_cores) = on_cores(network, cores, mpl) else {
        return product_form(network, network.wait_us(), mpl);
    };
    let inner: Vec<Solution> = (1..=cores)
        .map(|running| product_form(network, network.compute_us(running), running))
        .collect();
    let throughput = on_cores.throughput;
    let mut stations: Vec<StationLoad> = inner[cores - 1].stations.clone();
    for (at, station) in stations.iter_mut().enumerate() {
        let of = |pick: fn(&StationLoad) -> f64| expected(&on_cores, &inner, at, pick);
        station.utilisation = of(|it| it.utilisation);
        station.queue_length = of(|it| it.queue_length);
    }
    let work_us = work_us(network, cores);
    stations.push(StationLoad {
        name: CORES.to_owned(),
        demand_us: work_us / cores as f64,
        utilisation: throughput * work_us / cores as f64,
        queue_length: on_cores.queue_length(),
    });
    Solution { throughput_mops: throughput, response_us: mpl as f64 / throughput, stations }
}

/// The throughput of [`solve`].
pub(crate) fn throughput(network: &Network, cores: usize, mpl: usize) -> f64 {
    match on_cores(network, cores, mpl) {
        Some(on_cores) => on_cores.throughput,
        None => product_form_throughput(network, network.wait_us(), mpl),
    }
}

/// The station that represents all steps that need a core, beside the backend. `None` if there are
/// none.
fn on_cores(network: &Network, cores: usize, mpl: usize) -> Option<Last> {
    let times: Vec<f64> = speeds(network, cores).into_iter().map(|speed| 1.0 / speed).collect();
    if times.iter().any(|&time| time.is_nan() || time <= 0.0) {
        return None;
    }
    let wait_us = network.wait_us();
    let without: Vec<f64> = (0..=mpl).map(|n| n as f64 / wait_us).collect();
    Some(last(&without, &times))
}

/// Throughput with 1, 2, … requests that have a core. One recursion covers all numbers with equal
/// times.
fn speeds(network: &Network, cores: usize) -> Vec<f64> {
    let mut speeds = Vec::with_capacity(cores);
    while speeds.len() < cores {
        let first = speeds.len() + 1;
        let alike = |running: &usize| network.same_crowd(first, *running);
        let end = (first..=cores).take_while(alike).last().unwrap_or(first);
        speeds.extend_from_slice(&throughputs(network, network.compute_us(end), end)[first..=end]);
    }
    speeds
}

/// Name of the cores in results.
pub(crate) const CORES: &str = "cores";

/// Mean µs that a request computes if `running` requests have a core, without waits for stations.
pub(crate) fn work_us(network: &Network, running: usize) -> f64 {
    let at = |(index, station): (usize, &crate::Station)| {
        network.visits(index) * least_us(&station.service) * network.station_crowd(index, running)
    };
    let stations: f64 = network.stations().iter().enumerate().map(at).sum();
    network.compute_us(running) + stations
}

/// The least time of a visit: with j present each stays for at least j times between departures.
pub(crate) fn least_us(service: &crate::Service) -> f64 {
    if let crate::Service::Multi { service_us, .. } = service {
        return *service_us;
    }
    let present = |present: usize| present as f64 * service.time_us(present);
    (1..=service.levels()).map(present).fold(f64::INFINITY, f64::min)
}

/// The mean of a figure over the number of requests with a core.
fn expected(
    on_cores: &Last,
    inner: &[Solution],
    station: usize,
    pick: fn(&StationLoad) -> f64,
) -> f64 {
    let running = on_cores.chances.iter().skip(1).zip(inner);
    let below: f64 = running.map(|(chance, it)| chance * pick(&it.stations[station])).sum();
    below + inner.last().map_or(0.0, |it| on_cores.tail * pick(&it.stations[station]))
}

/// Whether a step needs a core.
pub(crate) fn needs_core(step: &Step) -> bool {
    !matches!(step, Step::Wait(_))
}
