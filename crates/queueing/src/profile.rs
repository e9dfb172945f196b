//! Profiles: costs of operations on a measured machine, as a TOML file.
//!
//! A profile has times, by name, and networks, which count how often a hit and a miss do the timed
//! work. A station is a real serialisation point: a mutex, an index that all threads write, the
//! table of fetches. Its operations may be timed apart (the work of a hit, of a miss, of an item
//! that is skipped): operations with the same `at` take turns with each other.
//!
//! ```toml
//! [machine]
//! description = "AMD EPYC, 2 cores"
//! cores = 2
//!
//! [quality]                         # how the calibration went; optional
//! runs = 900
//! disturbed = 4
//! halves = { median = 0.02, tenth = 0.05, worst = 0.07 }   # how far its halves predict apart; optional
//!
//! [think.look-up]                   # needs a core, and delays nobody
//! mean_us = [0.05, 0.06]            # with 1, 2 and more at work
//! spread_us = 0.004                 # standard deviation of the figures; optional
//!
//! [think.fetch]
//! mean_us = 0.08
//! only_with_backend = true          # where a miss waits for something
//!
//! [stations.hit]
//! at = "lock"
//! by_cores = true
//! service_us = [0.06, 0.11, 0.13]   # with 1, 2, 3 and more present, unless by_cores
//! spread_us = [0.01, 0.02, 0.02]
//!
//! [stations.skip]
//! at = "lock"
//! by_cores = true
//! work = "skip"                     # counted by policies; what a trace says replaces visits
//! service_us = [[1000, [0.01]], [1e6, [0.07]]]   # by capacity
//!
//! [networks."clock"]                # both optional:
//! entry_bytes = 31.5                # beside key and value
//! errors = [[1e5, [[1, 0.02], [64, 0.3]]]]   # by capacity and cores, of a logarithm
//!
//! [networks."clock".hit]
//! think = { look-up = 1 }
//! stations = { hit = 1 }            # visits a request
//!
//! [networks."clock".miss]           # the backend comes on top
//! think = { look-up = 1, fetch = 1 }
//! stations = { skip = [[0.4, 0.2], [1, 2]] }   # by hit ratio, straight lines between
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cores::CORES;
use crate::error::{at_least_0, share};
use crate::paper::interpolated;
use crate::times::Times;
use crate::{Crowd, Kind, ModelError, Network, Route, Service, Station, Step};

/// The measured costs of a machine.
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
    /// Quality of the measurement, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// Times that do not delay other requests, by name.
    #[serde(default)]
    pub think: BTreeMap<String, ThinkTime>,
    /// The stations at which requests take turns, by name.
    #[serde(default)]
    pub stations: BTreeMap<String, StationTimes>,
    /// The work of requests, by the policy's name on the command line.
    pub networks: BTreeMap<String, NetworkCounts>,
}

/// Where a profile was measured.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// A description.
    pub description: String,
    /// Hardware threads. With more requests, cores are a limit too.
    pub cores: usize,
    /// The day, as 2026-01-31.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Latency of a cache line from one core to another, ns. On a virtual machine it may be several
    /// times as long at another time, and so may turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ns: Option<f64>,
}

/// Quality of a calibration.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Measurements.
    pub runs: u64,
    /// Runs that were disturbed at every attempt and count nevertheless.
    pub disturbed: u64,
    /// Difference between the predictions of the two halves of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<Halves>,
}

/// Difference between two halves of a calibration in the predicted throughput for the machine's own
/// cores, as a share: over all policies, capacities, and some hit ratios.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Halves {
    /// The median.
    pub median: f64,
    /// The ninth decile.
    pub tenth: f64,
    /// The maximum.
    pub worst: f64,
}

impl Quality {
    /// Share of the measurements that were disturbed.
    ///
    /// ```
    /// let quality = frazil_queueing::Quality { runs: 8, disturbed: 2, halves: None };
    /// assert_eq!(quality.disturbed_share(), 0.25);
    /// ```
    pub fn disturbed_share(&self) -> f64 {
        self.disturbed as f64 / self.runs.max(1) as f64
    }

    fn check(&self) -> Result<(), ModelError> {
        let &Quality { runs, disturbed, halves } = self;
        if disturbed > runs {
            let text = format!("quality: {disturbed} disturbed of {runs} runs, expected no more");
            return Err(ModelError::Malformed(text));
        }
        let of = |what: &str| format!("{what} of the halves in quality");
        let Some(Halves { median, tenth, worst }) = halves else { return Ok(()) };
        at_least_0(|| of("median"), median)?;
        at_least_0(|| of("tenth"), tenth)?;
        at_least_0(|| of("worst"), worst)?;
        Ok(())
    }
}

/// A time that needs a core but no turn.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThinkTime {
    /// Mean, µs, with 1, 2, … requests that have a core.
    pub mean_us: Times,
    /// Standard deviation of each figure between measurements, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_us: Option<Times>,
    /// Whether it counts only if a miss waits for a backend: the start and end of a fetch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_with_backend: bool,
    /// As [`StationTimes::work`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

/// The service times of a station, or of one of the operations at it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StationTimes {
    /// Mean µs from one departure to the next with 1, 2, … present; the last stands for all
    /// higher numbers.
    pub service_us: Times,
    /// Standard deviation of each figure between measurements, µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_us: Option<Times>,
    /// The station at which it takes turns, shared by all operations that name it; its own by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Whether the times depend on the number of requests that have a core, not on the number
    /// present: data written under a lock come from another core, whether that waits for the lock
    /// or not. All operations at one station must agree.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_cores: bool,
    /// The policies' name of this work, such as `skip`: counts of the trace ([`Conditions::work`]),
    /// if given, replace the visits in the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(it: &bool) -> bool {
    !it
}

/// The work of a policy's requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkCounts {
    /// A hit.
    pub hit: Counts,
    /// A miss, without the backend.
    pub miss: Counts,
    /// Bytes of an entry beside its key and value, including the policy's data about other entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_bytes: Option<f64>,
    /// The data of [`Profile::error_at`]: for each capacity, ascending, pairs of cores, ascending,
    /// and error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Errors>,
}

/// Errors by capacity and cores.
pub type Errors = Vec<(f64, Vec<(f64, f64)>)>;

impl NetworkCounts {
    fn check_errors(&self, name: &str) -> Result<(), ModelError> {
        let of = |what: &str| format!("{what} in errors of network `{name}`");
        let malformed = || {
            let text = of("capacities and cores");
            Err(ModelError::Malformed(format!(
                "{text}: expected one at least, each above the last"
            )))
        };
        let Some(errors) = &self.errors else { return Ok(()) };
        let rises = |all: &[(f64, f64)]| {
            !all.is_empty() && all.windows(2).all(|pair| pair[0].0 < pair[1].0)
        };
        let capacities: Vec<(f64, f64)> = errors.iter().map(|(it, _)| (*it, 0.0)).collect();
        if !rises(&capacities) || !errors.iter().all(|(_, by_cores)| rises(by_cores)) {
            return malformed();
        }
        for (capacity, by_cores) in errors {
            at_least_0(|| of("a capacity"), *capacity)?;
            for &(cores, error) in by_cores {
                at_least_0(|| of("cores"), cores)?;
                if !(0.0..=MOST_ERROR).contains(&error) {
                    let (what, expected) = (of("an error"), "a logarithm from 0 to 10");
                    return Err(ModelError::OutOfRange { what, value: error, expected });
                }
            }
        }
        Ok(())
    }
}

/// How often a request does the timed work.
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
    /// Invalid TOML; or a value that is missing, unknown, negative or not finite, with its line or
    /// name.
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

    /// The same profile with only the networks named, which is smaller: each network is checked as
    /// a whole.
    ///
    /// ```
    /// # use frazil_queueing::Profile;
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think = { short = { mean_us = 0.05 }, long = { mean_us = 0.1 } }
    ///     networks.fifo = { hit = { think = { short = 1 } }, miss = { think = { short = 2 } } }
    ///     networks.lru = { hit = { think = { long = 1 } }, miss = { think = { long = 2 } } }
    /// "#)?;
    /// let lru = profile.only("lru");
    /// assert_eq!((lru.networks.len(), lru.think.len()), (1, 1));
    /// assert_eq!(lru.network("lru", 0.9, 0.0)?, profile.network("lru", 0.9, 0.0)?);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    #[must_use]
    pub fn only(&self, name: &str) -> Self {
        let mut profile = self.clone();
        profile.networks.retain(|it, _| it == name);
        let Some(NetworkCounts { hit, miss, .. }) = self.networks.get(name) else { return profile };
        let counts = [hit, miss];
        profile.think.retain(|it, _| {
            it == Self::FROZEN_HIT || counts.iter().any(|counts| counts.think.contains_key(it))
        });
        profile
            .stations
            .retain(|it, _| counts.iter().any(|counts| counts.stations.contains_key(it)));
        profile
    }

    /// The profile as a file.
    ///
    /// # Errors
    ///
    /// Invalid numbers, as for [`parse`](Self::parse).
    pub fn to_toml(&self) -> Result<String, ModelError> {
        self.check()?;
        toml::to_string(self).map_err(|error| ModelError::Malformed(error.to_string()))
    }

    /// The network of one of the profile's policies on all of the machine's cores, for
    /// [`Conditions::new`].
    ///
    /// # Errors
    ///
    /// As [`network_under`](Self::network_under).
    pub fn network(
        &self,
        name: &str,
        hit_ratio: f64,
        backend_us: f64,
    ) -> Result<Network, ModelError> {
        self.network_under(name, &Conditions::new(hit_ratio, backend_us))
    }

    /// The network of one of the profile's policies under conditions.
    ///
    /// ```
    /// use frazil_queueing::{Conditions, Profile, solve};
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think.look-up = { mean_us = 0.05 }
    ///     stations.evict = { service_us = 0.06, at = "lock" }
    ///     stations.skip = { service_us = [[1e3, [0.01]], [1e5, [0.04]]], at = "lock", work = "skip" }
    ///     networks.sieve.hit = { think = { look-up = 1 } }
    ///     networks.sieve.miss = { think = { look-up = 1 }, stations = { evict = 1, skip = 0.5 } }
    /// "#)?;
    /// let mut conditions = Conditions::new(0.0, 0.0);
    /// conditions.capacity = 1e4;
    /// conditions.work.insert("skip".to_owned(), [0.0, 2.0]);
    /// let network = profile.network_under("sieve", &conditions)?;
    /// // 0.05 to look up, 0.06 to evict and two items skipped in 0.02 each.
    /// assert!((solve(&network, 1)?.response_us - 0.15).abs() < 1e-12);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A policy that the profile does not have; conditions or times out of range.
    pub fn network_under(
        &self,
        name: &str,
        conditions: &Conditions,
    ) -> Result<Network, ModelError> {
        self.check()?;
        conditions.check()?;
        let Some(counts) = self.networks.get(name) else {
            let known: Vec<&str> = self.networks.keys().map(String::as_str).collect();
            let known = known.join(", ");
            let text = format!("unknown network `{name}`: the profile has {known}");
            return Err(ModelError::Unknown(text));
        };
        let p = conditions.hit_ratio;
        let frozen = p * conditions.frozen_share();
        let shares = [p - frozen, 1.0 - p];
        let kinds = [(Kind::Hit, shares[0], &counts.hit), (Kind::Miss, shares[1], &counts.miss)];
        let cores = conditions.cores.unwrap_or(self.machine.cores);
        let (mut computing, mut alone) = (vec![0.0; cores.min(Self::MOST_COUNTED)], [0.0; 2]);
        let mut servers: BTreeMap<&str, Server<'_>> = BTreeMap::new();
        for (at, (_, share, counts)) in kinds.iter().enumerate() {
            for (name, visits) in &counts.think {
                let think = &self.think[name];
                if think.only_with_backend && conditions.backend_us <= 0.0 {
                    continue;
                }
                let visits = conditions.visits(visits, think.work.as_ref(), at);
                let times = think.mean_us.at(conditions.capacity);
                alone[at] += visits * nth(&times, 0);
                for (running, sum) in computing.iter_mut().enumerate() {
                    *sum += share * visits * nth(&times, running);
                }
            }
            for (name, visits) in &counts.stations {
                let station = &self.stations[name];
                let visits = conditions.turns(visits, station.work.as_ref(), at);
                let times = station.service_us.at(conditions.capacity);
                let server = servers.entry(station.at.as_ref().unwrap_or(name)).or_default();
                server.add(name, station.by_cores, (at, visits), times)?;
            }
        }
        let look_us = conditions.frozen_hits.map(|_| self.look_us(conditions.capacity, alone[0]));
        if let Some(look_us) = look_us {
            // All requests look in the frozen table, hits and misses.
            alone.iter_mut().chain(&mut computing).for_each(|us| *us += look_us);
        }
        let (mut stations, mut crowds) = (Vec::new(), Vec::new());
        let mut steps = alone.map(|us| vec![Step::Compute(us)]);
        steps[1].push(Step::Wait(conditions.backend_us));
        for (station, (name, server)) in servers.into_iter().enumerate() {
            let by_cores = server.by_cores;
            let (times, visits) = server.merged(shares);
            let service = match times.as_slice() {
                [one, ..] if by_cores => Service::Single(*one),
                [one] => Service::Single(*one),
                _ => Service::LoadDependent(times.clone()),
            };
            crowds.push(if by_cores { factors(&times, 0.001) } else { Vec::new() });
            stations.push(Station { name: name.to_owned(), service });
            for (steps, visits) in steps.iter_mut().zip(visits) {
                steps.push(Step::Visit { station, visits });
            }
        }
        let routes = kinds.iter().zip(steps);
        let routes = routes.map(|(&(kind, share, _), steps)| Route { kind, share, steps });
        let frozen_hit = look_us.map(|us| {
            let steps = vec![Step::Compute(us)];
            Route { kind: Kind::Hit, share: frozen, steps }
        });
        let routes = routes.chain(frozen_hit).collect();
        // Faster computing beside other threads would be noise; only work that replaces waiting may
        // be faster.
        let crowd = Crowd { compute: factors(&computing, 1.0), stations: crowds };
        Network::new(stations, routes)?.on_cores(cores)?.crowded(crowd)
    }

    /// The same profile with every time changed by `spreads` times its spread. Its predictions
    /// differ from the original's about as much as the measurements from each other.
    ///
    /// ```
    /// use frazil_queueing::{Profile, solve};
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think.look-up = { mean_us = 0.05, spread_us = 0.01 }
    ///     networks.fifo.hit = { think = { look-up = 1 } }
    ///     networks.fifo.miss = { think = { look-up = 1 } }
    /// "#)?;
    /// let slower = profile.shifted(1.0).network("fifo", 1.0, 0.0)?;
    /// assert!((solve(&slower, 1)?.response_us - 0.06).abs() < 1e-12);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    pub fn shifted(&self, spreads: f64) -> Profile {
        let mut profile = self.clone();
        for think in profile.think.values_mut() {
            if let Some(spread) = &think.spread_us {
                think.mean_us = think.mean_us.shifted(spread, spreads);
            }
        }
        for station in profile.stations.values_mut() {
            if let Some(spread) = &station.spread_us {
                station.service_us = station.service_us.shifted(spread, spreads);
            }
        }
        profile
    }

    /// The same profile with every time multiplied by this factor.
    ///
    /// ```
    /// use frazil_queueing::{Profile, solve};
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think.look-up = { mean_us = 0.05 }
    ///     networks.fifo.hit = { think = { look-up = 1 } }
    ///     networks.fifo.miss = { think = { look-up = 1 } }
    /// "#)?;
    /// let slower = profile.scaled(2.0).network("fifo", 1.0, 0.0)?;
    /// assert!((solve(&slower, 1)?.response_us - 0.1).abs() < 1e-12);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Profile {
        let mut profile = self.clone();
        profile.think.values_mut().for_each(|it| it.mean_us = it.mean_us.scaled(factor));
        profile.stations.values_mut().for_each(|it| it.service_us = it.service_us.scaled(factor));
        profile
    }

    /// Small figures with a large relative error, by name and capacity: their spread exceeds twice
    /// their mean, and a nanosecond.
    ///
    /// ```
    /// use frazil_queueing::Profile;
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think.look-up = { mean_us = 0.05, spread_us = 0.01 }
    ///     think.skip = { mean_us = [[1e3, [0.02]], [1e5, [0.01]]], spread_us = 0.03 }
    ///     networks.fifo.hit = { think = { look-up = 1 } }
    ///     networks.fifo.miss = { think = { look-up = 1, skip = 1 } }
    /// "#)?;
    /// assert_eq!(profile.doubtful(), ["skip at 100000 entries"]);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    pub fn doubtful(&self) -> Vec<String> {
        let thinks = self.think.iter().map(|(name, it)| (name, &it.mean_us, &it.spread_us));
        let stations = self.stations.iter().map(|(name, it)| (name, &it.service_us, &it.spread_us));
        let mut doubtful = Vec::new();
        for (name, times, spread) in thinks.chain(stations) {
            let Some(spread) = spread else { continue };
            doubtful.extend(times.doubtful(spread).into_iter().map(|at| match at {
                Some(capacity) => format!("{name} at {capacity} entries"),
                None => name.clone(),
            }));
        }
        doubtful
    }

    /// Difference between the throughput predicted for one of the policies, at `capacity` entries
    /// and `cores` cores, and the prediction of another calibration, as a logarithm, estimated from
    /// the spread of this one's rounds. Linear over the logarithm between known capacities and
    /// cores; for more cores extrapolated in proportion; beyond known capacities that of the last.
    /// `None` if it was not measured.
    ///
    /// ```
    /// use frazil_queueing::Profile;
    /// let profile = Profile::parse(r#"
    ///     machine = { description = "a laptop", cores = 8 }
    ///     think.look-up = { mean_us = 0.05 }
    ///     networks.fifo.hit = { think = { look-up = 1 } }
    ///     networks.fifo.miss = { think = { look-up = 1 } }
    ///     networks.fifo.errors = [
    ///         [1e3, [[1, 0.02], [8, 0.05], [64, 0.35]]],
    ///         [1e5, [[1, 0.22], [8, 0.25], [64, 0.55]]],
    ///     ]
    /// "#)?;
    /// let error = |capacity, cores| profile.error_at("fifo", capacity, cores).unwrap_or(f64::NAN);
    /// assert_eq!((error(10.0, 1), error(1e3, 8), error(1e6, 64)), (0.02, 0.05, 0.55));
    /// assert!((error(1e4, 1) - 0.12).abs() < 1e-9);
    /// assert!(error(1e3, 16) > 0.1 && error(1e3, 16) < 0.2);
    /// // The square of 64.
    /// assert!((error(1e6, 4_096) - 1.1).abs() < 1e-9);
    /// # Ok::<(), frazil_queueing::ModelError>(())
    /// ```
    pub fn error_at(&self, name: &str, capacity: f64, cores: usize) -> Option<f64> {
        let known = self.networks.get(name)?.errors.as_ref()?;
        let log = |number: f64| number.max(1.0).ln();
        let wanted = log(cores as f64);
        let by_capacity: Vec<(f64, f64)> = known
            .iter()
            .map(|(capacity, by_cores)| {
                let points: Vec<(f64, f64)> =
                    by_cores.iter().map(|&(at, error)| (log(at), error)).collect();
                let most = points.last().map_or(0.0, |last| last.0);
                // No predictions were compared there: each doubling is assumed to add the same
                // error.
                let beyond = if most > 0.0 { (wanted / most).max(1.0) } else { 1.0 };
                (log(*capacity), interpolated(wanted, &points) * beyond)
            })
            .collect();
        (!by_capacity.is_empty()).then(|| interpolated(log(capacity), &by_capacity))
    }

    /// The name of the think time of a look-up in the frozen table, which is the whole cost of a
    /// frozen hit.
    pub const FROZEN_HIT: &str = "frozen.hit";

    /// Time of a look-up in the frozen table, or else the computing time of the policy's own hit.
    fn look_us(&self, capacity: f64, hit_us: f64) -> f64 {
        let look = self.think.get(Self::FROZEN_HIT);
        look.map_or(hit_us, |it| nth(&it.mean_us.at(capacity), 0))
    }

    /// More cores than this are assumed to slow each other no further.
    const MOST_COUNTED: usize = 256;

    /// Checks that all numbers are valid and all names known.
    ///
    /// # Errors
    ///
    /// The violations, by name.
    pub fn check(&self) -> Result<(), ModelError> {
        Network::new(Vec::new(), vec![Route { kind: Kind::Hit, share: 1.0, steps: Vec::new() }])?
            .on_cores(self.machine.cores)?;
        let transfer_ns = self.machine.transfer_ns.unwrap_or(1.0);
        if !(1e-3..=1e9).contains(&transfer_ns) {
            let what = "transfer_ns of the machine".to_owned();
            let expected = "0.001 to 1e9 ns";
            return Err(ModelError::OutOfRange { what, value: transfer_ns, expected });
        }
        self.quality.as_ref().map_or(Ok(()), Quality::check)?;
        if self.networks.is_empty() {
            let text = "networks: expected at least one policy";
            return Err(ModelError::Malformed(text.to_owned()));
        }
        for (name, think) in &self.think {
            let of = |what: &str| format!("{what} of think time `{name}`");
            think.mean_us.check(|| of("mean_us"))?;
            if let Some(spread) = &think.spread_us {
                spread.check(|| of("spread_us"))?;
            }
        }
        for (name, times) in &self.stations {
            let of = |what: &str| format!("{what} of station `{name}`");
            times.service_us.check(|| of("service_us"))?;
            let place = times.at.as_ref().unwrap_or(name);
            if RESERVED.contains(&place.as_str()) {
                let at = if times.at.is_some() { "at of " } else { "" };
                let text = format!(
                    "{at}station `{name}`: `{place}` has a meaning of its own as a bottleneck, \
                     expected another name"
                );
                return Err(ModelError::Malformed(text));
            }
            if let Some(spread) = &times.spread_us {
                spread.check(|| of("spread_us"))?;
                if !spread.fits(&times.service_us) {
                    let text = format!("{}: expected one for each service time", of("spread_us"));
                    return Err(ModelError::Malformed(text));
                }
            }
        }
        self.networks.iter().try_for_each(|(name, network)| {
            at_least_0(|| format!("entry_bytes of `{name}`"), network.entry_bytes.unwrap_or(0.0))?;
            network.check_errors(name)?;
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

/// A prediction that may be off by a factor of e to this is useless.
const MOST_ERROR: f64 = 10.0;

/// Names of bottlenecks that are no stations, and of none.
const RESERVED: [&str; 4] = [CORES, "backend", "none", ""];

/// The conditions of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// Share of the requests that hit.
    pub hit_ratio: f64,
    /// Latency of a miss, µs; the backend serves any number of requests at once.
    pub backend_us: f64,
    /// Capacity in entries, on which times depend.
    pub capacity: f64,
    /// Cores, if not all of the machine's.
    pub cores: Option<usize>,
    /// How often a hit and a miss do a work, by the policies' name of the work.
    pub work: BTreeMap<String, [f64; 2]>,
    /// Factor on the turns of a hit in the profile, for a policy that promotes on fewer hits, or on
    /// more, than the measured one. Counted work is not scaled.
    pub hit_turns: f64,
    /// Share of the hits that a frozen part of the cache serves (paper 2), if it has one. They need
    /// one look-up there and no turn; all other requests look there first. The time of a look-up is
    /// the think time `frozen.hit`, or the computing time of the policy's own hit if the profile
    /// has none.
    pub frozen_hits: Option<f64>,
}

impl Conditions {
    /// A hundred thousand entries, all cores, and work and turns of the profile.
    pub fn new(hit_ratio: f64, backend_us: f64) -> Self {
        let work = BTreeMap::new();
        let (capacity, hit_turns) = (1e5, 1.0);
        let (cores, frozen_hits) = (None, None);
        Conditions { hit_ratio, backend_us, capacity, cores, work, hit_turns, frozen_hits }
    }

    fn check(&self) -> Result<(), ModelError> {
        share(|| "the hit ratio".to_owned(), self.hit_ratio)?;
        at_least_0(|| "the turns of a hit".to_owned(), self.hit_turns)?;
        share(|| "the share of the hits that is frozen".to_owned(), self.frozen_share())?;
        if !(1.0..=1e15).contains(&self.capacity) {
            let (what, value) = ("the capacity".to_owned(), self.capacity);
            return Err(ModelError::OutOfRange { what, value, expected: "1 to 1e15 entries" });
        }
        let counts = |(name, counts): (&String, &[f64; 2])| {
            counts.iter().try_for_each(|&it| {
                at_least_0(|| format!("the work `{name}` of a request"), it).map(drop)
            })
        };
        self.work.iter().try_for_each(counts)
    }

    fn frozen_share(&self) -> f64 {
        self.frozen_hits.unwrap_or(0.0)
    }

    /// Visits of a hit (0) or a miss (1) to the stations.
    fn turns(&self, profiled: &Visits, work: Option<&String>, kind: usize) -> f64 {
        let counted = work.is_some_and(|work| self.work.contains_key(work));
        let times = if kind == 0 && !counted { self.hit_turns } else { 1.0 };
        self.visits(profiled, work, kind) * times
    }

    /// How often a hit (0) or a miss (1) does something.
    fn visits(&self, profiled: &Visits, work: Option<&String>, kind: usize) -> f64 {
        match work.and_then(|work| self.work.get(work)) {
            Some(counts) => counts[kind],
            None => profiled.at(self.hit_ratio),
        }
    }
}

/// The time at an index, from 0; the last stands for all beyond.
fn nth(times: &[f64], number: usize) -> f64 {
    times.get(number).or(times.last()).copied().unwrap_or_default()
}

/// Ratios of the times with 1, 2, … at work to the first; none below `least`.
fn factors(times: &[f64], least: f64) -> Vec<f64> {
    let alone = times.first().copied().unwrap_or_default();
    let factor = |&us: &f64| if alone > 0.0 { (us / alone).clamp(least, 1000.0) } else { 1.0 };
    times.iter().map(factor).collect()
}

/// One station, and the operations there.
#[derive(Default)]
struct Server<'p> {
    /// Name of the operation, whether in a hit (0) or a miss (1), its visits, and its times.
    operations: Vec<(&'p str, usize, f64, Vec<f64>)>,
    by_cores: bool,
}

impl<'p> Server<'p> {
    fn add(
        &mut self,
        name: &'p str,
        by_cores: bool,
        (kind, visits): (usize, f64),
        times: Vec<f64>,
    ) -> Result<(), ModelError> {
        if !self.operations.is_empty() && self.by_cores != by_cores {
            return Err(ModelError::Malformed(format!(
                "station `{name}` is timed by another number than others at its place: expected \
                 by_cores with all of them or none"
            )));
        }
        self.by_cores = by_cores;
        self.operations.push((name, kind, visits, times));
        Ok(())
    }

    /// The times of one mean visit by the number present, and the visits of a hit and a miss.
    /// Several operations become one, with the mean time of an operation: in a product form a
    /// server has one service time, and only demands count. The mean is over operations, not over
    /// requests: if almost no request comes here, that would be almost 0.
    fn merged(mut self, shares: [f64; 2]) -> (Vec<f64>, [f64; 2]) {
        let mut visits = [0.0; 2];
        let (first, ..) = self.operations[0];
        if self.operations.iter().all(|(name, ..)| *name == first) {
            for (_, kind, count, _) in &self.operations {
                visits[*kind] += count;
            }
            return (self.operations.swap_remove(0).3, visits);
        }
        let levels = self.operations.iter().map(|(.., times)| times.len()).max().unwrap_or(1);
        let (mut times, mut all) = (vec![0.0; levels], 0.0);
        for (_, kind, count, us) in self.operations.iter().filter(|it| nth(&it.3, 0) > 0.0) {
            visits[*kind] += count * nth(us, 0);
            all += shares[*kind] * count;
            for (present, sum) in times.iter_mut().enumerate() {
                *sum += shares[*kind] * count * nth(us, present);
            }
        }
        times.iter_mut().for_each(|sum| *sum /= all);
        let mean = times[0];
        // Not a number, if no operation is ever done.
        if mean > 0.0 { (times, visits.map(|us| us / mean)) } else { (vec![0.0], [0.0; 2]) }
    }
}

/// An entry of a profile with times, of any kind.
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
