//! Exact mean value analysis, for any mix of delay, single-server, multi-server and
//! load-dependent stations.
//!
//! Networks of exponential first-come-first-served stations and delays have a product form
//! (Baskett, Chandy, Muntz, Palacios 1975), with any distribution of think times. The recursion of
//! Reiser and Lavenberg (1980) solves single servers and think time: each residence time is `D (1 +
//! Q)`, with Q the queue with one request fewer.
//!
//! **Stations whose speed depends on the queue** need the distribution of that queue. The
//! textbook takes the chance that it is empty as 1 − the other chances, and loses all digits
//! where the station is saturated. Here such stations are folded in one by one: with X₀(n) the
//! throughput of the network without the station and V visits of t(j) µs,
//!
//! ```text
//! p(0|n) = p(0|n−1) · X(n) / X₀(n)
//! p(j|n) = p(j−1|n−1) · X(n) · V t(j)          and X(n) from  Σ p(j|n) = 1
//! ```
//!
//! Both lines are ratios of normalisation constants (X(n) = G(n−1)/G(n), p(0|n) = G₀(n)/G(n)).
//! Every term is positive, so nothing cancels at any N, and chances too small for a number are kept
//! (`wide.rs`). Once t no longer changes, all further chances are one sum, so a station costs one
//! term for each level.
//!
//! For the station that is folded in last only N matters, and its chances at N follow from each
//! other: p(j−1|N) = p(j|N) / (V t(j) X₀(N−j+1)). From j = N down to 0 that is one sum of N terms
//! ([`last`]), and the throughput is the mean of 1 / (V t(j)).
//!
//! **Cost.** O(N · (K + Σ levels)) time, K single servers; levels are the servers of a
//! multi-server station (a delay, if there are N) or the times of a load-dependent one. With
//! several such stations, that times their number, for the queue length of each; with one, and
//! no single servers, O(N). Memory O(N).

use crate::cores;
use crate::wide::Wide;
use crate::{ModelError, Network, Service};

/// The most requests that [`solve`] and [`simulate`](crate::simulate) accept.
pub const MAX_MPL: usize = 1_000_000;

/// Mean values of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Requests per µs: millions per second.
    pub throughput_mops: f64,
    /// Mean µs from the start of a request to its end: MPL / throughput (Little).
    pub response_us: f64,
    /// Each station, in the order of the network; last the cores, if they are a limit.
    pub stations: Vec<StationLoad>,
}

impl Solution {
    /// The station with the greatest demand, if any has one.
    pub fn bottleneck(&self) -> Option<&str> {
        bottleneck(self.stations.iter().map(|it| (it.name.as_str(), it.demand_us)))
    }
}

/// The first of the greatest demands above 0.
pub(crate) fn bottleneck<'n>(demands: impl Iterator<Item = (&'n str, f64)>) -> Option<&'n str> {
    let more = |most: Option<(&'n str, f64)>, it: (&'n str, f64)| match most {
        Some((_, demand)) if demand >= it.1 => most,
        _ if it.1 > 0.0 => Some(it),
        _ => most,
    };
    demands.fold(None, more).map(|(name, _)| name)
}

/// Mean values of one station.
#[derive(Clone, Debug, PartialEq)]
pub struct StationLoad {
    /// Its name.
    pub name: String,
    /// µs that a request occupies it, at its full speed.
    pub demand_us: f64,
    /// Share of the time that it works; the mean over several servers.
    pub utilisation: f64,
    /// Mean number of requests there, waiting and in service.
    pub queue_length: f64,
}

/// Solves a network for `mpl` requests, exactly for exponential service.
///
/// If the MPL exceeds the network's cores the solution is approximate: the requests with a core
/// form their own network, and its throughput by their number is the speed of one station
/// (`cores.rs`).
///
/// # Errors
///
/// An MPL of 0 or above [`MAX_MPL`]; no time in any step.
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, solve};
/// let network = "fifo".parse::<PaperNetwork>()?.network(0.9, 100.0, Use::Exact)?;
/// let solution = solve(&network, 72)?;
/// assert_eq!(solution.bottleneck(), Some("head"));
/// assert!((solution.response_us * solution.throughput_mops - 72.0).abs() < 1e-9);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn solve(network: &Network, mpl: usize) -> Result<Solution, ModelError> {
    check_mpl(mpl)?;
    check_time(network)?;
    Ok(match network.cores() {
        Some(cores) if cores < mpl => cores::solve(network, cores, mpl),
        _ => {
            product_form(network, network.compute_us(network.running(mpl)) + network.wait_us(), mpl)
        }
    })
}

/// The throughput of [`solve`] alone, millions of requests per second: for searches, which call it
/// often. If cores are a limit, its time does not grow with their square.
///
/// # Errors
///
/// Errors of [`solve`].
///
/// ```
/// use frazil_queueing::{PaperNetwork, Use, solve, throughput};
/// let network = PaperNetwork::Lru.network(0.9, 100.0, Use::Exact)?.on_cores(8)?;
/// assert_eq!(throughput(&network, 72)?, solve(&network, 72)?.throughput_mops);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
pub fn throughput(network: &Network, mpl: usize) -> Result<f64, ModelError> {
    check_mpl(mpl)?;
    check_time(network)?;
    Ok(match network.cores() {
        Some(cores) if cores < mpl => cores::throughput(network, cores, mpl),
        _ => {
            let think_us = network.compute_us(network.running(mpl)) + network.wait_us();
            product_form_throughput(network, think_us, mpl)
        }
    })
}

/// Refuses an MPL out of range.
pub(crate) fn check_mpl(mpl: usize) -> Result<(), ModelError> {
    if (1..=MAX_MPL).contains(&mpl) {
        return Ok(());
    }
    let what = "the MPL".to_owned();
    Err(ModelError::OutOfRange { what, value: mpl as f64, expected: "1 to 1000000 requests" })
}

/// Refuses a network through which requests pass in no time.
pub(crate) fn check_time(network: &Network) -> Result<(), ModelError> {
    let time_us = network.think_us() + network.demands_us().iter().sum::<f64>();
    // The inverse of a time far below is infinite.
    if time_us > 1e-200 { Ok(()) } else { Err(ModelError::NoTime) }
}

/// A station in the analysis, once the number of requests is known.
enum Center {
    /// Never a queue: adds to the think time.
    Delay(f64),
    /// One server; its demand.
    Single(f64),
    /// Visits × time by the number present, up to the last change.
    Levels(Vec<f64>),
}

impl Center {
    fn of(service: &Service, visits: f64, mpl: usize) -> Self {
        let levels = service.levels().min(mpl);
        match service {
            _ if visits <= 0.0 => Center::Delay(0.0),
            Service::Multi { service_us, servers } if *servers >= mpl => {
                Center::Delay(visits * service_us)
            }
            _ if levels <= 1 || service.saturated_us() <= 0.0 => {
                Center::Single(visits * service.time_us(1))
            }
            _ => Center::Levels((1..=levels).map(|j| visits * service.time_us(j)).collect()),
        }
    }
}

/// Stations and a think time, as input of the recursions.
struct Parts {
    /// In the order of the network's stations.
    centers: Vec<Center>,
    /// Visits to each station, times the factor by which they take longer.
    loads: Vec<f64>,
    /// Throughput by the number of requests, without the stations that need the distribution of
    /// their queues.
    base: Vec<f64>,
}

impl Parts {
    fn of(network: &Network, think_us: f64, mpl: usize) -> Self {
        // To the analysis longer visits equal more visits.
        let running = network.running(mpl);
        let load = |at| network.visits(at) * network.station_crowd(at, running);
        let loads: Vec<f64> = (0..network.stations().len()).map(load).collect();
        let centers: Vec<Center> = network
            .stations()
            .iter()
            .zip(&loads)
            .map(|(station, &load)| Center::of(&station.service, load, mpl))
            .collect();
        let delay = |center: &Center| if let Center::Delay(us) = center { *us } else { 0.0 };
        let think = think_us + centers.iter().map(delay).sum::<f64>();
        let demand =
            |center: &Center| if let Center::Single(us) = center { Some(*us) } else { None };
        let demands: Vec<f64> = centers.iter().filter_map(demand).collect();
        let base = single_servers(think, &demands, mpl);
        Parts { centers, loads, base }
    }

    /// The stations that need the distribution of their queues.
    fn levels(&self) -> Vec<(usize, &[f64])> {
        let mut levels = Vec::new();
        for (index, center) in self.centers.iter().enumerate() {
            if let Center::Levels(times) = center {
                levels.push((index, times.as_slice()));
            }
        }
        levels
    }

    /// Throughput by number without one of the stations of [`levels`](Self::levels), or with all.
    fn without(&self, but: Option<usize>) -> Vec<f64> {
        let mut throughput = self.base.clone();
        for (index, times) in self.levels() {
            if Some(index) != but {
                throughput = fold(&throughput, times);
            }
        }
        throughput
    }
}

/// Throughput by the number of requests, from 0, of stations and a think time, if each request has
/// a core and times are those with `mpl` requests.
pub(crate) fn throughputs(network: &Network, think_us: f64, mpl: usize) -> Vec<f64> {
    Parts::of(network, think_us, mpl).without(None)
}

/// The last throughput of [`throughputs`].
pub(crate) fn product_form_throughput(network: &Network, think_us: f64, mpl: usize) -> f64 {
    let parts = Parts::of(network, think_us, mpl);
    match parts.levels().last() {
        Some(&(index, times)) => last(&parts.without(Some(index)), times).throughput,
        None => parts.base[mpl],
    }
}

/// Solves stations and a think time as if each request had a core.
pub(crate) fn product_form(network: &Network, think_us: f64, mpl: usize) -> Solution {
    let parts = Parts::of(network, think_us, mpl);
    let mut throughput = parts.base[mpl];
    // The station that is folded in last is the one whose queue is computed.
    let mut folded = Vec::new();
    for (index, times) in parts.levels() {
        let station = last(&parts.without(Some(index)), times);
        throughput = station.throughput;
        folded.push((index, station));
    }
    let is_single = |it: &Center| matches!(it, Center::Single(demand_us) if *demand_us > 0.0);
    let all = if parts.centers.iter().any(is_single) { parts.without(None) } else { Vec::new() };
    let load = |(index, center): (usize, &Center)| {
        let (busy, queue) = match center {
            Center::Delay(us) => (throughput * us, throughput * us),
            Center::Single(us) => (throughput * us, queue(*us, &all)),
            Center::Levels(_) => {
                let found = folded.iter().find(|it| it.0 == index);
                found.map_or((0.0, 0.0), |(_, it)| (1.0 - it.chances[0], it.queue_length()))
            }
        };
        let station = &network.stations()[index];
        let load = parts.loads[index];
        let utilisation = match &station.service {
            Service::Multi { service_us, servers } => {
                throughput * load * service_us / *servers as f64
            }
            _ => busy,
        };
        let demand_us = load * station.service.saturated_us();
        StationLoad { name: station.name.clone(), demand_us, utilisation, queue_length: queue }
    };
    let stations = parts.centers.iter().enumerate().map(load).collect();
    Solution { throughput_mops: throughput, response_us: mpl as f64 / throughput, stations }
}

/// Throughput by the number of requests, from 0, of a think time and single servers, by Reiser and
/// Lavenberg's recursion. Without either it is infinite.
pub(crate) fn single_servers(think_us: f64, demands_us: &[f64], mpl: usize) -> Vec<f64> {
    let mut queues = vec![0.0; demands_us.len()];
    let mut throughput = Vec::with_capacity(mpl + 1);
    throughput.push(0.0);
    for n in 1..=mpl {
        let residence = |(queue, demand): (&f64, &f64)| -> f64 { demand * (1.0 + queue) };
        let response: f64 = queues.iter().zip(demands_us).map(residence).sum();
        let x = n as f64 / (think_us + response);
        throughput.push(x);
        // Without demand there is no queue, even if the throughput is infinite.
        for (queue, &demand) in queues.iter_mut().zip(demands_us).filter(|it| *it.1 > 0.0) {
            *queue = x * demand * (1.0 + *queue);
        }
    }
    throughput
}

/// The mean queue of a single server in a network of this throughput by number of requests.
fn queue(demand_us: f64, throughput: &[f64]) -> f64 {
    if demand_us <= 0.0 {
        return 0.0;
    }
    throughput[1..].iter().fold(0.0, |queue, x| x * demand_us * (1.0 + queue))
}

/// Adds a station to a network. `without` is the network's throughput by number of requests, from
/// 0; returns the throughput with the station. `times` are visits × time with 1, 2, … present, none
/// of them 0.
fn fold(without: &[f64], times: &[f64]) -> Vec<f64> {
    let levels = times.len();
    let last = times[levels - 1];
    let mut chances = vec![Wide::ZERO; levels];
    chances[0] = Wide::ONE;
    // Chance that the number of requests is at least the number of levels.
    let mut tail = Wide::ZERO;
    let mut throughput = vec![0.0];
    for (n, &x_without) in without.iter().enumerate().skip(1) {
        let reached = levels.min(n + 1);
        let full = chances[levels - 1];
        let mut weight = chances[0].value() / x_without + last * (full.value() + tail.value());
        for j in 1..reached {
            weight += times[j - 1] * chances[j - 1].value();
        }
        let x = 1.0 / weight;
        throughput.push(x);
        tail = tail.plus(full).times(x * last);
        for j in (1..reached).rev() {
            chances[j] = chances[j - 1].times(x * times[j - 1]);
        }
        chances[0] = chances[0].times(x / x_without);
    }
    throughput
}

/// A network with one more station, at the full number of requests.
pub(crate) struct Last {
    pub(crate) throughput: f64,
    /// Chances of each number of requests at the station, for all numbers below its levels.
    pub(crate) chances: Vec<f64>,
    /// Chance that the number is at least its levels.
    pub(crate) tail: f64,
    /// That chance weighted with the number of requests.
    pub(crate) tail_moment: f64,
}

impl Last {
    pub(crate) fn queue_length(&self) -> f64 {
        let below = self.chances.iter().enumerate().map(|(many, chance)| many as f64 * chance);
        below.sum::<f64>() + self.tail_moment
    }
}

/// Adds a station as [`fold`] does, only for the full number of requests.
pub(crate) fn last(without: &[f64], times: &[f64]) -> Last {
    let (levels, mpl) = (times.len(), without.len() - 1);
    // Not normalised yet: multiples of the chance that all are at the station.
    let mut weights = vec![Wide::ZERO; levels];
    let (mut all, mut leaving) = (Wide::ZERO, Wide::ZERO);
    let (mut tail, mut tail_moment) = (Wide::ZERO, Wide::ZERO);
    let mut weight = Wide::ONE;
    for present in (1..=mpl).rev() {
        let time = times[present.min(levels) - 1];
        leaving = leaving.plus(weight.times(1.0 / time));
        if present < levels {
            weights[present] = weight;
        } else {
            tail = tail.plus(weight);
            tail_moment = tail_moment.plus(weight.times(present as f64));
        }
        all = all.plus(weight);
        weight = weight.times(1.0 / (time * without[mpl - present + 1]));
    }
    weights[0] = weight;
    all = all.plus(weight);
    Last {
        throughput: leaving.over(all),
        chances: weights.iter().map(|weight| weight.over(all)).collect(),
        tail: tail.over(all),
        tail_moment: tail_moment.over(all),
    }
}
