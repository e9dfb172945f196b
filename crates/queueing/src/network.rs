//! Closed networks: stations, and the routes that requests take through them.
//!
//! A route has a share of the requests and a sequence of steps. So one description serves the
//! solvers that need only demands (bounds, mean value analysis) and the simulation, which follows
//! the steps. A request draws its route when it starts, independently of all others.

use crate::ModelError;
use crate::error::{at_least_0, share, time_us};

/// How long a station works for one visit.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// One server, first come, first served; mean time of a visit in µs.
    Single(f64),
    /// Several servers, one queue.
    Multi {
        /// Mean time of a visit at one server, µs.
        service_us: f64,
        /// Number of servers.
        servers: usize,
    },
    /// One server whose speed depends on the number of requests present, the one in service
    /// included: mean µs from one departure to the next with 1, 2, … present. The last time stands
    /// for all higher numbers too. An example is a lock whose hand-over costs more with more
    /// waiting threads.
    LoadDependent(Vec<f64>),
}

impl Service {
    /// Mean µs between departures while `present` requests, at least 1, are at the station.
    ///
    /// ```
    /// use frazil_queueing::Service;
    /// assert_eq!(Service::Multi { service_us: 6.0, servers: 2 }.time_us(3), 3.0);
    /// assert_eq!(Service::LoadDependent(vec![1.0, 1.5]).time_us(9), 1.5);
    /// ```
    pub fn time_us(&self, present: usize) -> f64 {
        match self {
            Service::Single(service_us) => *service_us,
            Service::Multi { service_us, servers } => {
                service_us / present.clamp(1, (*servers).max(1)) as f64
            }
            Service::LoadDependent(times) => {
                let last = times.len().saturating_sub(1);
                times.get(present.saturating_sub(1).min(last)).copied().unwrap_or(0.0)
            }
        }
    }

    /// The number of requests from which on the time is constant.
    pub(crate) fn levels(&self) -> usize {
        match self {
            Service::Single(_) => 1,
            Service::Multi { servers, .. } => *servers,
            Service::LoadDependent(times) => times.len(),
        }
    }

    /// Mean µs between departures from a station that never runs empty: 1 / its capacity.
    pub fn saturated_us(&self) -> f64 {
        self.time_us(usize::MAX)
    }
}

/// A station at which requests take turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Its name in results.
    pub name: String,
    /// How long it works for one visit.
    pub service: Service,
}

/// The next step of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Thinks on a core for a mean time in µs: a look-up, a clone.
    Compute(f64),
    /// Thinks without a core: the backend.
    Wait(f64),
    /// Visits a station this number of times on average. The fraction is the chance of one more
    /// visit.
    Visit {
        /// Index into [`Network::stations`].
        station: usize,
        /// Mean number of visits.
        visits: f64,
    },
}

/// The kind of request that takes a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The cache has the key.
    Hit,
    /// The cache does not have the key.
    Miss,
    /// The request did not use the cache, or changed nothing there.
    Bypass,
}

/// The steps of a share of the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The kind of its requests.
    pub kind: Kind,
    /// Share of the requests that take it.
    pub share: f64,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

/// A closed network of stations with one class of requests.
///
/// ```
/// use frazil_queueing::{Kind, Network, Route, Service, Station, Step, solve};
/// let lock = Station { name: "lock".into(), service: Service::Single(0.5) };
/// let steps = vec![Step::Compute(1.5), Step::Visit { station: 0, visits: 1.0 }];
/// let network = Network::new(vec![lock], vec![Route { kind: Kind::Hit, share: 1.0, steps }])?;
/// assert_eq!(network.think_us(), 1.5);
/// assert_eq!(solve(&network, 1)?.throughput_mops, 0.5);
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    stations: Vec<Station>,
    routes: Vec<Route>,
    cores: Option<usize>,
    crowd: Crowd,
}

/// Factors on times with 1, 2, … requests that have a core; an empty list means 1. The last factor
/// stands for all higher numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crowd {
    /// Computing: cores share caches and memory.
    pub compute: Vec<f64>,
    /// A visit to each station, in their order. Another core was the last to write the data there,
    /// so the data must come from it, whether a request waits or not.
    pub stations: Vec<Vec<f64>>,
}

/// Tolerance of the sum of the shares.
const ROUNDING: f64 = 1e-9;

impl Network {
    /// A network without a limit of cores.
    ///
    /// # Errors
    ///
    /// Times, visits or shares that are negative or not finite, shares that do not add up to 1, no
    /// server, a step at a station that does not exist, two stations with one name.
    pub fn new(stations: Vec<Station>, routes: Vec<Route>) -> Result<Self, ModelError> {
        for (number, station) in stations.iter().enumerate() {
            check_service(station)?;
            if stations[..number].iter().any(|other| other.name == station.name) {
                let text = format!("two stations are called `{}`", station.name);
                return Err(ModelError::Malformed(text));
            }
        }
        let mut sum = 0.0;
        for route in &routes {
            sum += share(|| "the share of a route".to_owned(), route.share)?;
            for step in &route.steps {
                check_step(step, &stations)?;
            }
        }
        if (sum - 1.0).abs() > ROUNDING {
            let text = format!("the shares of the routes add up to {sum}, expected 1");
            return Err(ModelError::Malformed(text));
        }
        Ok(Network { stations, routes, cores: None, crowd: Crowd::default() })
    }

    /// The same network on `cores` cores. A request needs one except while it waits
    /// ([`Step::Wait`]), so the number matters only below the MPL.
    ///
    /// # Errors
    ///
    /// No core, or more than 4096.
    pub fn on_cores(mut self, cores: usize) -> Result<Self, ModelError> {
        if !(1..=4096).contains(&cores) {
            let (what, value) = ("the number of cores".to_owned(), cores as f64);
            return Err(ModelError::OutOfRange { what, value, expected: "1 to 4096" });
        }
        self.cores = Some(cores);
        Ok(self)
    }

    /// The same network with times that grow with the number of requests that have a core. The
    /// simulation uses the factors for all cores at work.
    ///
    /// # Errors
    ///
    /// A factor below 0.001 or above 1000; more stations than there are.
    ///
    /// ```
    /// use frazil_queueing::{Crowd, Kind, Network, Route, Step, solve};
    /// let route = Route { kind: Kind::Hit, share: 1.0, steps: vec![Step::Compute(2.0)] };
    /// let crowd = Crowd { compute: vec![1.0, 1.25], ..Crowd::default() };
    /// let network = Network::new(Vec::new(), vec![route])?.crowded(crowd)?;
    /// assert_eq!(solve(&network, 1)?.throughput_mops, 0.5);
    /// assert_eq!(solve(&network, 2)?.throughput_mops, 0.8);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    pub fn crowded(mut self, crowd: Crowd) -> Result<Self, ModelError> {
        for &value in crowd.stations.iter().chain([&crowd.compute]).flatten() {
            if !(0.001..=1000.0).contains(&value) {
                let what = "the factor of a time with more at work".to_owned();
                return Err(ModelError::OutOfRange { what, value, expected: "0.001 to 1000" });
            }
        }
        if crowd.stations.len() > self.stations.len() {
            let text = "factors of more stations than there are".to_owned();
            return Err(ModelError::Malformed(text));
        }
        self.crowd = crowd;
        Ok(self)
    }

    /// Factor on computing times if `running` requests have a core.
    pub(crate) fn crowd(&self, running: usize) -> f64 {
        factor(&self.crowd.compute, running)
    }

    /// Factor on visits to a station if `running` requests have a core.
    pub(crate) fn station_crowd(&self, station: usize, running: usize) -> f64 {
        self.crowd.stations.get(station).map_or(1.0, |factors| factor(factors, running))
    }

    /// Whether all times are equal for these two numbers of requests with a core.
    pub(crate) fn same_crowd(&self, running: usize, other: usize) -> bool {
        let mut lists = self.crowd.stations.iter().chain([&self.crowd.compute]);
        lists.all(|factors| factor(factors, running) == factor(factors, other))
    }

    /// The most requests with a core, of `mpl`.
    pub(crate) fn running(&self, mpl: usize) -> usize {
        self.cores.unwrap_or(mpl).min(mpl)
    }

    /// The least, or the greatest, factor of a station, or of computing, while at most `running`
    /// requests have a core.
    pub(crate) fn extreme_crowd(
        &self,
        station: Option<usize>,
        running: usize,
        choose: fn(f64, f64) -> f64,
    ) -> f64 {
        let of = |running| match station {
            Some(station) => self.station_crowd(station, running),
            None => self.crowd(running),
        };
        let lists = self.crowd.stations.iter().chain([&self.crowd.compute]);
        let distinct = lists.map(Vec::len).max().unwrap_or(0).clamp(1, running.max(1));
        (1..=distinct).map(of).reduce(choose).unwrap_or(1.0)
    }

    /// The stations, in the order of their indices.
    pub fn stations(&self) -> &[Station] {
        &self.stations
    }

    /// The routes.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The cores, if they may be a limit.
    pub fn cores(&self) -> Option<usize> {
        self.cores
    }

    /// The same stations and cores with other routes.
    pub(crate) fn with_routes(&self, routes: Vec<Route>) -> Result<Self, ModelError> {
        let (cores, crowd) = (self.cores, self.crowd.clone());
        Ok(Network { cores, crowd, ..Network::new(self.stations.clone(), routes)? })
    }

    /// Mean think time of a request that is alone, µs: on cores and off them.
    pub fn think_us(&self) -> f64 {
        self.compute_us(1) + self.wait_us()
    }

    /// The part of the think time that needs a core, without stations, if `running` requests have
    /// one.
    pub(crate) fn compute_us(&self, running: usize) -> f64 {
        self.crowd(running) * self.mean(|step| if let Step::Compute(us) = step { *us } else { 0.0 })
    }

    /// The part of the think time that needs no core.
    pub(crate) fn wait_us(&self) -> f64 {
        self.mean(|step| if let Step::Wait(us) = step { *us } else { 0.0 })
    }

    /// Mean visits of a request to the station of an index.
    pub fn visits(&self, station: usize) -> f64 {
        self.mean(|step| match step {
            Step::Visit { station: at, visits } if *at == station => *visits,
            _ => 0.0,
        })
    }

    /// A mean over routes of the sum over their steps.
    fn mean(&self, of: impl Fn(&Step) -> f64) -> f64 {
        let route = |route: &Route| route.share * route.steps.iter().map(&of).sum::<f64>();
        self.routes.iter().map(route).sum()
    }

    /// Each station's demand: the µs that a request occupies it, at its full speed and with all
    /// cores at work. The inverse of the greatest demand bounds the throughput.
    pub fn demands_us(&self) -> Vec<f64> {
        let demand = |(index, station): (usize, &Station)| {
            // Without visits even a station with no measured speed has no demand.
            let visits = self.visits(index);
            let crowd = self.station_crowd(index, self.cores.unwrap_or(usize::MAX));
            if visits > 0.0 { visits * station.service.saturated_us() * crowd } else { 0.0 }
        };
        self.stations.iter().enumerate().map(demand).collect()
    }

    /// The greatest demand, µs.
    pub fn max_demand_us(&self) -> f64 {
        self.demands_us().into_iter().fold(0.0, f64::max)
    }
}

fn factor(factors: &[f64], running: usize) -> f64 {
    let at = running.clamp(1, factors.len().max(1)) - 1;
    factors.get(at).copied().unwrap_or(1.0)
}

fn check_service(station: &Station) -> Result<(), ModelError> {
    let name = || format!("the service time of station `{}`", station.name);
    match &station.service {
        Service::Single(service_us) => time_us(name, *service_us).map(drop),
        Service::Multi { servers: 0, .. } => {
            let text = format!("station `{}` has 0 servers, expected at least 1", station.name);
            Err(ModelError::Malformed(text))
        }
        Service::Multi { service_us, .. } => time_us(name, *service_us).map(drop),
        Service::LoadDependent(times) if times.is_empty() => {
            let text = format!("station `{}` has no service time", station.name);
            Err(ModelError::Malformed(text))
        }
        Service::LoadDependent(times) => {
            // With a time of 0 at one number only, a queue of that length would vanish as it forms;
            // no measurement gives that.
            let mixed = times.contains(&0.0) && times.iter().any(|&time| time > 0.0);
            if mixed {
                let text = format!("station `{}` has service times of 0 and others", station.name);
                return Err(ModelError::Malformed(text));
            }
            times.iter().try_for_each(|&time| time_us(name, time).map(drop))
        }
    }
}

fn check_step(step: &Step, stations: &[Station]) -> Result<(), ModelError> {
    match *step {
        Step::Compute(us) | Step::Wait(us) => time_us(|| "a think time".into(), us),
        Step::Visit { station, visits } => match stations.get(station) {
            None => Err(ModelError::Unknown(format!("there is no station of index {station}"))),
            Some(station) => at_least_0(|| format!("the visits to `{}`", station.name), visits),
        },
    }
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(service: Service, share: f64, step: Step) -> Result<Network, ModelError> {
        let station = Station { name: "lock".to_owned(), service };
        Network::new(vec![station], vec![Route { kind: Kind::Hit, share, steps: vec![step] }])
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let visit = Step::Visit { station: 0, visits: 1.0 };
        assert!(network(Service::Single(1.0), 1.0, visit).is_ok());
        for service in [
            Service::Single(-1.0),
            Service::Single(f64::NAN),
            Service::Single(f64::INFINITY),
            Service::Multi { service_us: 1.0, servers: 0 },
            Service::LoadDependent(vec![]),
            Service::LoadDependent(vec![1.0, -1.0]),
            Service::LoadDependent(vec![1.0, 0.0]),
        ] {
            assert!(network(service.clone(), 1.0, visit).is_err(), "{service:?}");
        }
        for share in [0.5, -1.0, 2.0, f64::NAN] {
            assert!(network(Service::Single(1.0), share, visit).is_err(), "{share}");
        }
        for step in [
            Step::Compute(-1.0),
            Step::Wait(f64::NAN),
            Step::Visit { station: 1, visits: 1.0 },
            Step::Visit { station: 0, visits: -0.1 },
        ] {
            assert!(network(Service::Single(1.0), 1.0, step).is_err(), "{step:?}");
        }
        let one = || Station { name: "lock".to_owned(), service: Service::Single(1.0) };
        assert!(Network::new(vec![one(), one()], Vec::new()).is_err());
        assert!(network(Service::Single(1.0), 1.0, visit).unwrap().on_cores(0).is_err());
    }
}
