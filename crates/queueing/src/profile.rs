//! Profiles: what operations cost on a machine that was measured, as a TOML file.
//!
//! A profile has times, by name, and networks, which count how often a hit and a miss do what
//! was timed. A station is a real serialisation point: a mutex, an index that all threads
//! write, the table of fetches.
//!
//! ```toml
//! [machine]
//! description = "AMD EPYC, 2 cores"
//! cores = 2
//!
//! [think.look-up]                   # needs a core, and delays nobody
//! mean_us = 0.05
//! spread_us = 0.004                 # standard deviation of the figure; optional
//!
//! [stations.lock]
//! service_us = [0.06, 0.11, 0.13]   # with 1, 2, 3 and more present
//! spread_us = [0.01, 0.02, 0.02]
//!
//! [networks."lru".hit]
//! think = { look-up = 1 }
//! stations = { lock = 1 }           # visits a request
//!
//! [networks."lru".miss]             # the backend comes on top
//! think = { look-up = 1 }
//! stations = { lock = [[0.4, 2], [1, 2.5]] }   # by hit ratio, straight lines between
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{at_least_0, share, time_us};
use crate::paper::interpolated;
use crate::{Kind, ModelError, Network, Route, Service, Station, Step};

/// What a machine was measured to take.
///
/// ```
/// use frazil_queueing::{Profile, solve};
/// let profile = Profile::parse(r#"
///     machine = { description = "a laptop", cores = 8 }
///     think.look-up = { mean_us = 0.05 }
///     stations.lock = { service_us = [0.06, 0.11] }
///     networks.lru.hit = { think = { look-up = 1 }, stations = { lock = 1 } }
///     networks.lru.miss = { think = { look-up = 1 }, stations = { lock = 2 } }
/// "#)?;
/// let network = profile.network("lru", 0.9, 100.0)?;
/// assert_eq!(solve(&network, 4)?.bottleneck(), Some("lock"));
/// # Ok::<(), frazil_queueing::ModelError>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Where it was measured.
    pub machine: Machine,
    /// Times that delay nobody else, by name.
    #[serde(default)]
    pub think: BTreeMap<String, ThinkTime>,
    /// Where requests take turns, by name.
    #[serde(default)]
    pub stations: BTreeMap<String, StationTimes>,
    /// What requests do, by the name of a policy as the command line has it.
    pub networks: BTreeMap<String, NetworkCounts>,
}

/// Where a profile was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// For people.
    pub description: String,
    /// Hardware threads. Where there are more requests, cores are a limit too.
    pub cores: usize,
    /// The day, as 2026-01-31.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

/// A time that needs a core and no turn.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThinkTime {
    /// Mean, µs.
    pub mean_us: f64,
    /// Standard deviation of that figure between measurements, µs.
    #[serde(default)]
    pub spread_us: f64,
}

/// The service times of a station.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StationTimes {
    /// Mean µs from one departure to the next with 1, 2, … present; the last stands for all
    /// higher numbers.
    pub service_us: Vec<f64>,
    /// Standard deviation of each figure between measurements, µs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_us: Vec<f64>,
}

/// What the requests of a policy do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkCounts {
    /// A hit.
    pub hit: Counts,
    /// A miss, the backend apart.
    pub miss: Counts,
}

/// How often a request does what was timed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Think times, by name.
    #[serde(default)]
    pub think: BTreeMap<String, Visits>,
    /// Visits to stations, by name.
    #[serde(default)]
    pub stations: BTreeMap<String, Visits>,
}

/// A mean number of visits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Visits {
    /// The same at every hit ratio.
    Constant(f64),
    /// Pairs of hit ratio and visits, in rising order: straight lines between, level beyond.
    ByHitRatio(Vec<(f64, f64)>),
}

impl Visits {
    fn at(&self, hit_ratio: f64) -> f64 {
        match self {
            Visits::Constant(visits) => *visits,
            Visits::ByHitRatio(points) => interpolated(hit_ratio, points),
        }
    }

    fn check(&self, of: &dyn Fn() -> String) -> Result<(), ModelError> {
        let Visits::ByHitRatio(points) = self else {
            return at_least_0(of, self.at(0.0)).map(drop);
        };
        for &(hit_ratio, visits) in points {
            share(|| format!("a hit ratio in {}", of()), hit_ratio)?;
            at_least_0(of, visits)?;
        }
        if points.is_empty() || !points.is_sorted_by(|one, other| one.0 < other.0) {
            let text = format!("{}: expected pairs of rising hit ratio and visits", of());
            return Err(ModelError::Malformed(text));
        }
        Ok(())
    }
}

impl Profile {
    /// Reads a profile and checks it.
    ///
    /// # Errors
    ///
    /// What is no TOML, missing, unknown, negative or not finite, with its line or name.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(String::new(), |before| {
                format!("line {}: ", before.matches('\n').count() + 1)
            });
            let message = error.message().trim().replace('\n', "; ");
            ModelError::Malformed(format!("{line}{message}"))
        })?;
        profile.check()?;
        Ok(profile)
    }

    /// The profile as a file.
    ///
    /// # Errors
    ///
    /// Numbers that a profile cannot have, as [`parse`](Self::parse) says.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        self.check()?;
        toml::to_string(self).map_err(|error| ModelError::Malformed(error.to_string()))
    }

    /// The network of one of the profile's policies at a hit ratio, on the machine's cores,
    /// with a backend that takes `backend_us` on a miss and serves any number at once.
    ///
    /// # Errors
    ///
    /// A policy that the profile does not have; a hit ratio outside 0 to 1; times out of range.
    pub fn network(
        &self,
        name: &str,
        hit_ratio: f64,
        backend_us: f64,
    ) -> Result<Network, ModelError> {
        self.check()?;
        share(|| "the hit ratio".to_owned(), hit_ratio)?;
        let Some(counts) = self.networks.get(name) else {
            let known: Vec<&str> = self.networks.keys().map(String::as_str).collect();
            let known = known.join(", ");
            let text = format!("unknown network `{name}`: the profile has {known}");
            return Err(ModelError::Unknown(text));
        };
        let station = |(name, times): (&String, &StationTimes)| Station {
            name: name.clone(),
            service: match times.service_us.as_slice() {
                [one] => Service::Single(*one),
                several => Service::LoadDependent(several.to_vec()),
            },
        };
        let stations = self.stations.iter().map(station).collect();
        let route = |kind, share, counts: &Counts, wait: Option<Step>| {
            let thinks = counts.think.iter().filter_map(|(name, visits)| {
                let mean_us = self.think.get(name)?.mean_us;
                Some(Step::Compute(mean_us * visits.at(hit_ratio)))
            });
            let visits = counts.stations.iter().filter_map(|(name, visits)| {
                let station = self.stations.keys().position(|it| it == name)?;
                Some(Step::Visit { station, visits: visits.at(hit_ratio) })
            });
            Route { kind, share, steps: thinks.chain(wait).chain(visits).collect() }
        };
        let routes = vec![
            route(Kind::Hit, hit_ratio, &counts.hit, None),
            route(Kind::Miss, 1.0 - hit_ratio, &counts.miss, Some(Step::Wait(backend_us))),
        ];
        Network::new(stations, routes)?.on_cores(self.machine.cores)
    }

    /// That all numbers make sense, and all names are known.
    fn check(&self) -> Result<(), ModelError> {
        Network::new(Vec::new(), vec![Route { kind: Kind::Hit, share: 1.0, steps: Vec::new() }])?
            .on_cores(self.machine.cores)?;
        for (name, think) in &self.think {
            time_us(|| format!("mean_us of think time `{name}`"), think.mean_us)?;
            time_us(|| format!("spread_us of think time `{name}`"), think.spread_us)?;
        }
        for (name, times) in &self.stations {
            let (service, spread) = (&times.service_us, &times.spread_us);
            if service.is_empty() || !spread.is_empty() && spread.len() != service.len() {
                return Err(ModelError::Malformed(format!(
                    "station `{name}` has {} service times and {} spreads, expected at least \
                     one time, and as many spreads or none",
                    service.len(),
                    spread.len()
                )));
            }
            for &us in service {
                time_us(|| format!("service_us of station `{name}`"), us)?;
            }
            for &us in spread {
                time_us(|| format!("spread_us of station `{name}`"), us)?;
            }
        }
        self.networks.iter().try_for_each(|(name, network)| {
            self.check_counts(name, "hit", &network.hit)?;
            self.check_counts(name, "miss", &network.miss)
        })
    }

    fn check_counts(&self, network: &str, kind: &str, counts: &Counts) -> Result<(), ModelError> {
        let thinks = counts.think.iter().map(|it| ("think time", it, &self.think as &dyn Names));
        let stations =
            counts.stations.iter().map(|it| ("station", it, &self.stations as &dyn Names));
        for (what, (name, visits), known) in thinks.chain(stations) {
            let of = || format!("`{name}` in the {kind} of network `{network}`");
            if !known.has(name) {
                let text = format!("unknown {what} {}: the profile has {}", of(), known.list());
                return Err(ModelError::Unknown(text));
            }
            visits.check(&of)?;
        }
        Ok(())
    }
}

/// What a profile has times of, whichever kind.
trait Names {
    fn has(&self, name: &str) -> bool;
    fn list(&self) -> String;
}

impl<T> Names for BTreeMap<String, T> {
    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }

    fn list(&self) -> String {
        if self.is_empty() {
            return "none".to_owned();
        }
        self.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}
