//! The predicted throughput and latencies of a cell: the queueing model (`docs/design/queueing.md`)
//! with the hit ratio and work of a replay, and the profile of a machine.

use std::collections::BTreeMap;

use anyhow::Context;
use clap::Args;
use frazil_policy::{Online, PolicySpec, Work};
use frazil_queueing::{
    Conditions, MAX_MPL, ModelError, Profile, Simulated, SimulationOptions, peak, simulate, solve,
    throughput,
};
use frazil_simulator::{Outcome, WorkSplit, parse_us};

use crate::failure::{Failure, note};
use crate::profile;

/// Measured by `frazil calibrate` on the machine that the documents' figures are from.
const REFERENCE: &str = include_str!("reference.toml");
/// Policies that `frazil advise` compares, and `frazil calibrate` measures, by default.
pub(crate) const COMPARED: &str = "fifo,lru,clock,mobius,s3-fifo,two-queue,arc,lirs,w-tinylfu";
/// Default of the requests in flight for each core: a server that does not block on misses.
const MPL_A_CORE: usize = 16;
/// The other settings of a report beside the requested one.
const CORES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const BACKENDS_US: [f64; 5] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0];
/// p* is searched from this hit ratio on, as in paper 1.
const LEAST_HIT_RATIO: f64 = 0.4;
/// Requests simulated for latencies: a number for each request in flight, within bounds, but at
/// least a number of rounds of all requests in flight; the first rounds do not count.
const TIMED_EACH: u64 = 50;
const TIMED: [u64; 2] = [50_000, 1_000_000];
const ROUNDS: u64 = 4;
const WARMUP_ROUNDS: u64 = 2;

/// Where the cache is to run.
#[derive(Args, Debug)]
pub(crate) struct ForecastArgs {
    /// Cores that serve requests [default: number of cores of this machine].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) cores: Option<u16>,

    /// Latency of a miss. The backend serves any number of requests at once.
    #[arg(long, value_name = "D", default_value = "100us", value_parser = parse_us,
          allow_hyphen_values = true)]
    backend: f64,

    /// Requests in flight [default: 16 for each core].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=MAX_MPL as i64))]
    mpl: Option<u32>,

    /// Costs of operations: a file written by `frazil calibrate` [default: a built-in profile of
    /// the machine that Frazil is developed on].
    #[arg(long, value_name = "FILE")]
    profile: Option<String>,
}

/// The machine of a cache, and its backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) cores: usize,
    pub(crate) backend_us: f64,
    pub(crate) mpl: usize,
}

/// The model with all data common to the cells.
pub(crate) struct Forecast {
    profile: Profile,
    /// By policy, its figures in the profile.
    alone: BTreeMap<String, Profile>,
    /// The requested setting.
    pub(crate) setting: Setting,
    /// Requests in flight independent of the cores, if given.
    mpl: Option<usize>,
}

/// The profile's entry that gives a policy its costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Costs<'p> {
    /// The policy itself was measured. Its seed does not matter.
    Own(&'p str),
    /// Costs of a policy that promotes on another random share of the hits, so the factor of turns
    /// per hit is known.
    Scaled { of: &'p str, hit_turns: f64 },
    /// Costs of the same policy with other parameters, whose effect is unknown.
    Alike(&'p str),
}

impl<'p> Costs<'p> {
    pub(crate) fn name(self) -> &'p str {
        match self {
            Costs::Own(name) | Costs::Scaled { of: name, .. } | Costs::Alike(name) => name,
        }
    }

    /// The origin of the costs, as a word for scripts.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Costs::Own(_) => "measured",
            Costs::Scaled { .. } => "scaled",
            Costs::Alike(_) => "other parameters",
        }
    }

    fn hit_turns(self) -> f64 {
        if let Costs::Scaled { hit_turns, .. } = self { hit_turns } else { 1.0 }
    }
}

/// Share of its hits that a policy promotes, if known beforehand.
fn promoting(policy: &PolicySpec) -> Option<f64> {
    match policy {
        PolicySpec::Online(Online::Lru) => Some(1.0),
        PolicySpec::Online(Online::LruProb { q, .. }) => Some(1.0 - q),
        _ => None,
    }
}

/// The policy of the entries that are not frozen.
fn unfrozen(policy: &PolicySpec) -> PolicySpec {
    match policy {
        PolicySpec::Frozen { base, .. } => PolicySpec::Online(*base),
        other => *other,
    }
}

fn without_seed(policy: &PolicySpec) -> PolicySpec {
    policy.with_seed(0).unwrap_or(*policy)
}

/// The prediction for one cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Predicted {
    pub(crate) throughput_mops: f64,
    /// The range of this figure if the machine is calibrated again: the prediction with all times
    /// longer, and shorter, by the calibration's error on this number of cores, or by the spread in
    /// a profile without that error.
    pub(crate) range_mops: [f64; 2],
    /// Mean time from a request to its answer.
    pub(crate) response_us: f64,
    /// The limit of the throughput.
    pub(crate) bottleneck: String,
    /// The range of hit ratios with the highest throughput, all else being equal.
    pub(crate) p_star: [f64; 2],
}

impl Predicted {
    /// The range as factors of the predicted throughput.
    pub(crate) fn doubt(&self) -> [f64; 2] {
        self.range_mops.map(|mops| mops / self.throughput_mops.max(f64::MIN_POSITIVE))
    }
}

fn alone(profile: &Profile) -> BTreeMap<String, Profile> {
    profile.networks.keys().map(|name| (name.clone(), profile.only(name))).collect()
}

/// The profile with all times as long, and as short, as another calibration may measure them.
fn longer_and_shorter(
    profile: &Profile,
    name: &str,
    Conditions { capacity, cores, .. }: &Conditions,
) -> [Profile; 2] {
    let cores = cores.unwrap_or(profile.machine.cores);
    match profile.error_at(name, *capacity, cores) {
        Some(error) => [profile.scaled(error.exp()), profile.scaled((-error).exp())],
        None => [profile.shifted(1.0), profile.shifted(-1.0)],
    }
}

fn mpl_of(said: Option<usize>, cores: usize) -> usize {
    said.unwrap_or(cores * MPL_A_CORE)
}

impl Forecast {
    pub(crate) fn new(args: &ForecastArgs) -> Result<Self, Failure> {
        let (profile, name) = match &args.profile {
            None => {
                let name = "the profile that comes with frazil";
                (profile::parse(REFERENCE).context(name)?, name.to_owned())
            }
            Some(file) => (profile::read(file)?, file.clone()),
        };
        let here = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = args.cores.map_or_else(here, usize::from);
        let mpl = args.mpl.map(|mpl| mpl as usize);
        let measured = &profile.machine;
        if args.profile.is_none() {
            note(&format!(
                "throughput is predicted from costs measured on {}; `frazil calibrate` measures \
                 those of this machine, for --profile",
                measured.description
            ));
        }
        if cores > measured.cores {
            note(&format!(
                "{name}: measured with {} cores; the cost of contention among {cores} is not \
                 known, so contended stations may be slower than predicted",
                measured.cores
            ));
        }
        Ok(Forecast {
            alone: alone(&profile),
            profile,
            setting: Setting { cores, backend_us: args.backend, mpl: mpl_of(mpl, cores) },
            mpl,
        })
    }

    /// The requested setting, and other machines and backends too, by cores.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let asked = self.setting;
        let (mut cores, mut backends) = (CORES.to_vec(), BACKENDS_US.to_vec());
        cores.push(asked.cores);
        cores.sort_unstable();
        cores.dedup();
        backends.push(asked.backend_us);
        backends.sort_by(f64::total_cmp);
        backends.dedup();
        let setting =
            |cores, backend_us| Setting { cores, backend_us, mpl: mpl_of(self.mpl, cores) };
        let of = |cores| backends.iter().map(move |&backend_us| setting(cores, backend_us));
        cores.into_iter().flat_map(of).collect()
    }

    /// The machine that the profile was measured on.
    pub(crate) fn machine(&self) -> &str {
        &self.profile.machine.description
    }

    /// The cores that it was measured with.
    pub(crate) fn measured_cores(&self) -> usize {
        self.profile.machine.cores
    }

    /// Whether the profile was measured with the requested number of cores.
    pub(crate) fn is_measured(&self) -> bool {
        self.setting.cores <= self.profile.machine.cores
    }

    /// Whether ranges come from the difference between calibrations.
    pub(crate) fn knows_errors(&self) -> bool {
        self.profile.networks.values().any(|network| network.errors.is_some())
    }

    /// Whether the profile has the time of a look-up in the frozen table.
    pub(crate) fn knows_frozen(&self) -> bool {
        self.profile.think.contains_key(Profile::FROZEN_HIT)
    }

    /// Bytes of a policy's entry beside key and value. `None` if the profile lacks them.
    pub(crate) fn entry_bytes(&self, policy: &PolicySpec) -> Option<f64> {
        let name = self.costs_of(policy)?.name();
        self.profile.networks.get(name)?.entry_bytes
    }

    /// The profile's policy from which a policy gets its costs, without its frozen part. `None` if
    /// there is none.
    pub(crate) fn costs_of(&self, policy: &PolicySpec) -> Option<Costs<'_>> {
        let policy = &unfrozen(policy);
        let networks = || {
            let names = self.profile.networks.keys();
            names.filter_map(|name| Some((name.as_str(), name.parse::<PolicySpec>().ok()?)))
        };
        let same = |other: &PolicySpec| without_seed(other) == without_seed(policy);
        if let Some((name, _)) = networks().find(|(_, other)| same(other)) {
            return Some(Costs::Own(name));
        }
        if let Some(promoting) = promoting(policy) {
            // The nearest network shares most of its costs.
            let near = networks()
                .filter_map(|(name, other)| Some((name, self::promoting(&other)?)))
                .filter(|(_, other)| *other > 0.0)
                .min_by(|one, two| (one.1 - promoting).abs().total_cmp(&(two.1 - promoting).abs()));
            if let Some((name, other)) = near {
                return Some(Costs::Scaled { of: name, hit_turns: promoting / other });
            }
        }
        let mut alike = networks().filter(|(_, other)| other.name() == policy.name());
        alike.next().map(|(name, _)| Costs::Alike(name))
    }

    /// The prediction for a policy at a hit ratio, with a capacity of `entries`, if hits and misses
    /// are as much work as in a replay. `None` if the profile lacks the policy.
    pub(crate) fn predict(
        &self,
        setting: &Setting,
        policy: &PolicySpec,
        hit_ratio: f64,
        replayed: &Outcome,
        entries: f64,
    ) -> Result<Option<Predicted>, ModelError> {
        let Some(costs) = self.costs_of(policy) else { return Ok(None) };
        let name = costs.name();
        let &Setting { backend_us, mpl, .. } = setting;
        let conditions = conditions(setting, costs, hit_ratio, replayed, entries);
        let throughput = |profile: &Profile, conditions: &Conditions| {
            throughput(&profile.network_under(name, conditions)?, mpl)
        };
        let Some(profile) = self.alone.get(name) else { return Ok(None) };
        let solution = solve(&profile.network_under(name, &conditions)?, mpl)?;
        let mut range_mops = [solution.throughput_mops; 2];
        for (mops, profile) in
            range_mops.iter_mut().zip(longer_and_shorter(profile, name, &conditions))
        {
            *mops = throughput(&profile, &conditions)?;
        }
        // One copy: a copy for each of hundreds of hit ratios would take as long as their networks.
        let mut moved = conditions;
        let best = peak((LEAST_HIT_RATIO.min(hit_ratio), 1.0), |hit_ratio| {
            moved.hit_ratio = hit_ratio;
            throughput(profile, &moved)
        })?;
        // Requests that are all at the backend leave every station idle.
        let waiting = (1.0 - hit_ratio) * backend_us * solution.throughput_mops;
        let bottleneck = match solution.bottleneck() {
            _ if waiting > mpl as f64 / 2.0 => "backend",
            Some(name) => name,
            None => "none",
        };
        Ok(Some(Predicted {
            throughput_mops: solution.throughput_mops,
            range_mops,
            response_us: solution.response_us,
            bottleneck: bottleneck.to_owned(),
            p_star: [best.low, best.high],
        }))
    }

    /// Distribution of the response times of hits and of other requests, whose means
    /// [`Forecast::predict`] gives: simulated, always with the same seed. `None` if the profile
    /// lacks the policy.
    pub(crate) fn response_times(
        &self,
        setting: &Setting,
        policy: &PolicySpec,
        hit_ratio: f64,
        replayed: &Outcome,
        entries: f64,
    ) -> Result<Option<Simulated>, ModelError> {
        let Some(costs) = self.costs_of(policy) else { return Ok(None) };
        let Some(profile) = self.alone.get(costs.name()) else { return Ok(None) };
        let conditions = conditions(setting, costs, hit_ratio, replayed, entries);
        let mpl = setting.mpl as u64;
        let requests = (mpl * TIMED_EACH).clamp(TIMED[0], TIMED[1]).max(mpl * ROUNDS);
        let warmup = (requests / 10).max(mpl * WARMUP_ROUNDS);
        let options = SimulationOptions { requests, warmup, ..SimulationOptions::default() };
        let network = profile.network_under(costs.name(), &conditions)?;
        simulate(&network, setting.mpl, &options).map(Some)
    }
}

fn conditions(
    setting: &Setting,
    costs: Costs<'_>,
    hit_ratio: f64,
    replayed: &Outcome,
    entries: f64,
) -> Conditions {
    let mut conditions = Conditions::new(hit_ratio, setting.backend_us);
    conditions.hit_turns = costs.hit_turns();
    conditions.capacity = entries.max(1.0);
    conditions.cores = Some(setting.cores);
    conditions.work = work(replayed);
    conditions.frozen_hits = frozen_hits(replayed);
    conditions
}

/// The share of the hits on frozen entries since the freezing. `None` if nothing was frozen.
pub(crate) fn frozen_hits(outcome: &Outcome) -> Option<f64> {
    let WorkSplit { on_hits, elsewhere } = &outcome.work;
    let (found, passed) = (on_hits.get(Work::FrozenHit), on_hits.get(Work::FrozenMiss));
    let looks = found + passed + elsewhere.get(Work::FrozenMiss);
    (looks > 0).then(|| found as f64 / (found + passed).max(1) as f64)
}

/// How often a hit and a miss did each work, by its name, without hits on frozen entries.
fn work(outcome: &Outcome) -> BTreeMap<String, [f64; 2]> {
    let hits = outcome.hits - outcome.work.on_hits.get(Work::FrozenHit);
    let of = |times: u64, requests: u64| times as f64 / requests.max(1) as f64;
    Work::ALL
        .into_iter()
        .map(|work| {
            let hit = of(outcome.work.on_hits.get(work), hits);
            let miss = of(outcome.work.elsewhere.get(work), outcome.misses());
            (work.name().to_owned(), [hit, miss])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Setting = Setting { cores: 2, backend_us: 0.0, mpl: 2 };

    fn forecast(names: &[&str]) -> Forecast {
        let mut text = "[machine]\ndescription = \"here\"\ncores = 2\n".to_owned();
        text += "[think.look-up]\nmean_us = 0.01\n[stations.turn]\nservice_us = 0.1\n";
        for name in names {
            let counts = "{ think = { look-up = 1 }, stations = { turn = 1 } }";
            text += &format!("[networks.\"{name}\"]\nhit = {counts}\nmiss = {counts}\n");
        }
        let profile = Profile::parse(&text).unwrap();
        Forecast { alone: alone(&profile), profile, setting: HERE, mpl: None }
    }

    #[test]
    fn whose_costs_they_are() {
        let forecast = forecast(&["adaptive+lru", "clock", "lru-prob:q=0.75", "lru", "slru"]);
        let costs = |policy: &str| forecast.costs_of(&policy.parse().unwrap());
        let scaled = |of, hit_turns| Some(Costs::Scaled { of, hit_turns });
        assert_eq!(costs("lru"), Some(Costs::Own("lru")));
        assert_eq!(costs("lru-prob:q=0.75:seed=9"), Some(Costs::Own("lru-prob:q=0.75")));
        assert_eq!(costs("lru-prob:q=0.875"), scaled("lru-prob:q=0.75", 0.5));
        assert_eq!(costs("lru-prob:q=0.25"), scaled("lru", 0.75));
        assert_eq!(costs("clock:bits=2"), Some(Costs::Alike("clock")));
        assert_eq!(costs("slru:segments=3"), Some(Costs::Alike("slru")));
        assert_eq!(costs("lru-delayed"), None);
        assert_eq!(costs("random"), None);
    }

    #[test]
    fn the_profile_that_comes_along_knows_all_policies() {
        let profile = profile::parse(REFERENCE).unwrap();
        let forecast = Forecast { alone: alone(&profile), profile, setting: HERE, mpl: None };
        let of = |policy| forecast.costs_of(&PolicySpec::Online(policy));
        let own = |policy: &Online| matches!(of(*policy), Some(Costs::Own(_)));
        let others: Vec<String> =
            Online::ALL.iter().filter(|it| !own(it)).map(ToString::to_string).collect();
        // The extra cost of two bits over one is counted: skipped items. Policies that weigh delays
        // have not been timed.
        let mads = ["mad", "mad:base=arc", "mad:base=lhd", "guarded-mad"];
        let untimed = [&mads[..], &["la-cache", "delay-rank"]].concat();
        assert_eq!(others, [&["clock:bits=2"], &untimed[..]].concat());
        assert_eq!(of(Online::Clock { bits: 2 }), Some(Costs::Alike("clock")));
        // Misses that skip two items, hits that do only the timed work.
        let mut replayed = Outcome { requests: 10, hits: 5, ..Outcome::default() };
        replayed.work.elsewhere.add(Work::Skip, 10);
        let timed = Online::ALL.into_iter().filter(|it| !untimed.contains(&&*it.to_string()));
        for policy in timed.map(PolicySpec::Online) {
            let found = forecast.predict(&HERE, &policy, 0.5, &replayed, 1e4).unwrap().unwrap();
            assert!(found.throughput_mops > 1.0, "{policy}: {found:?}");
        }
    }

    #[test]
    fn settings_are_a_grid_with_what_was_asked_for() {
        let asked = Setting { cores: 3, backend_us: 50.0, mpl: 48 };
        let settings = Forecast { setting: asked, ..forecast(&["lru"]) }.settings();
        assert_eq!(settings.len(), 8 * 6);
        assert!(settings.contains(&asked));
        assert!(settings.windows(2).all(|pair| {
            (pair[0].cores, pair[0].backend_us) < (pair[1].cores, pair[1].backend_us)
        }));
    }

    #[test]
    fn hits_that_promote_less_take_fewer_turns() {
        let forecast = forecast(&["lru"]);
        let mops = |policy: &str| {
            let replayed = Outcome::default();
            let policy = policy.parse().unwrap();
            forecast.predict(&HERE, &policy, 1.0, &replayed, 1e5).unwrap().unwrap().throughput_mops
        };
        let (all, fifth) = (mops("lru"), mops("lru-prob:q=0.8"));
        // Two requests with 0.1 µs of turns and 0.01 or 0.02 µs of other work.
        assert!((mops("lru-prob:q=1") - 200.0).abs() < 1e-6 && all < 10.1, "{all}");
        assert!((45.0..50.1).contains(&fifth), "{fifth}");
    }
}
