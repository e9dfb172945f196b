//! Fewer cores than requests: which of them runs.
//!
//! A request holds a core while it computes and while it is at a station, so it holds two
//! things at once, for which there is no product form. The usual way out is a flow-equivalent
//! station (Chandy, Herzog, Woo 1975): the part of the network that needs a core is solved
//! alone for 1, 2, … requests, as many as there are cores; its throughputs are the speeds of
//! one station that stands for all of it beside the rest, the backend. With no other station
//! that is precisely a multi-server station with as many servers as cores.
//!
//! The error is small where requests enter and leave that part rarely against how often they
//! move inside it; the simulation, which gives and takes cores one by one, is the check.

use crate::mva::{Folded, Solution, StationLoad, fold, product_form};
use crate::{Network, Step};

/// Solves a network that has fewer cores than requests.
pub(crate) fn solve(network: &Network, cores: usize, mpl: usize) -> Solution {
    let inner: Vec<Solution> = (1..=cores)
        .map(|running| product_form(network, network.compute_us(running), running))
        .collect();
    let times: Vec<f64> = inner.iter().map(|it| 1.0 / it.throughput_mops).collect();
    if times.iter().any(|&time| time.is_nan() || time <= 0.0) {
        // Nothing needs a core.
        return product_form(network, network.wait_us(), mpl);
    }
    let wait_us = network.wait_us();
    let without: Vec<f64> = (0..=mpl).map(|n| n as f64 / wait_us).collect();
    let folded = fold(&without, &times);
    let throughput = folded.throughput[mpl];
    let mut stations: Vec<StationLoad> = inner[cores - 1].stations.clone();
    for (at, station) in stations.iter_mut().enumerate() {
        let of = |pick: fn(&StationLoad) -> f64| expected(&folded, &inner, at, pick);
        station.utilisation = of(|it| it.utilisation);
        station.queue_length = of(|it| it.queue_length);
    }
    let work_us = work_us(network, cores);
    stations.push(StationLoad {
        name: CORES.to_owned(),
        demand_us: work_us / cores as f64,
        utilisation: throughput * work_us / cores as f64,
        queue_length: folded.queue_length(),
    });
    Solution { throughput_mops: throughput, response_us: mpl as f64 / throughput, stations }
}

/// What results call the cores.
pub(crate) const CORES: &str = "cores";

/// Mean µs of a core that a request works where so many have one, not counting what it waits
/// there for stations.
pub(crate) fn work_us(network: &Network, running: usize) -> f64 {
    let at = |(index, station): (usize, &crate::Station)| {
        network.visits(index) * least_us(&station.service) * network.station_crowd(index, running)
    };
    let stations: f64 = network.stations().iter().enumerate().map(at).sum();
    network.compute_us(running) + stations
}

/// The least time that a visit keeps its request: with j present each is there for at least
/// j of the times between departures.
pub(crate) fn least_us(service: &crate::Service) -> f64 {
    if let crate::Service::Multi { service_us, .. } = service {
        return *service_us;
    }
    let present = |present: usize| present as f64 * service.time_us(present);
    (1..=service.levels()).map(present).fold(f64::INFINITY, f64::min)
}

/// The mean of something over how many requests have a core.
fn expected(
    folded: &Folded,
    inner: &[Solution],
    station: usize,
    pick: fn(&StationLoad) -> f64,
) -> f64 {
    let running = folded.chances.iter().skip(1).zip(inner);
    let below: f64 = running.map(|(chance, it)| chance * pick(&it.stations[station])).sum();
    below + inner.last().map_or(0.0, |it| folded.tail * pick(&it.stations[station]))
}

/// Whether a step needs a core.
pub(crate) fn needs_core(step: &Step) -> bool {
    !matches!(step, Step::Wait(_))
}
