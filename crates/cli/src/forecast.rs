//! What a cell is predicted to deliver: a replay's hit ratio and work, and a machine's profile,
//! put into the queueing model (`docs/design/queueing.md`).

use std::collections::BTreeMap;

use anyhow::Context;
use clap::Args;
use frazil_policy::{PolicySpec, Work};
use frazil_queueing::{Conditions, MAX_MPL, ModelError, Profile, peak, solve};
use frazil_simulator::Outcome;

use crate::duration;
use crate::failure::{Failure, note};

/// Measured by `frazil calibrate` on the machine that the documents' figures are from.
const REFERENCE: &str = include_str!("reference.toml");
/// Requests in flight for each core, unless said: a server that does not block on misses.
const MPL_A_CORE: usize = 16;
/// p* is looked for from this hit ratio on, as in paper 1.
const LEAST_HIT_RATIO: f64 = 0.4;

/// Where the cache is to run.
#[derive(Args, Debug)]
pub(crate) struct ForecastArgs {
    /// Cores that serve requests [default: those of this machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    cores: Option<u16>,

    /// What a miss waits for the backend, which serves any number at once.
    #[arg(long, value_name = "D", default_value = "100us", value_parser = duration::parse_us)]
    backend: f64,

    /// Requests in flight at a time [default: 16 a core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_MPL as i64))]
    mpl: Option<u32>,

    /// What operations cost: a file that `frazil calibrate` has written
    /// [default: the profile of the machine that Frazil is developed on].
    #[arg(long, value_name = "FILE")]
    profile: Option<String>,
}

/// The model with all that does not change from cell to cell.
pub(crate) struct Forecast {
    profile: Profile,
    /// The same with all times longer, and shorter, by their spread.
    spread: [Profile; 2],
    pub(crate) cores: usize,
    pub(crate) backend_us: f64,
    pub(crate) mpl: usize,
}

/// What one cell is predicted to deliver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Predicted {
    pub(crate) throughput_mops: f64,
    /// The same with all times longer, and shorter, by their spread.
    pub(crate) range_mops: [f64; 2],
    /// Mean time from a request to its answer.
    pub(crate) response_us: f64,
    /// What limits the throughput.
    pub(crate) bottleneck: String,
    /// Between which hit ratios the throughput would be highest, all else being equal.
    pub(crate) p_star: [f64; 2],
}

impl Forecast {
    pub(crate) fn new(args: &ForecastArgs) -> Result<Self, Failure> {
        let (text, name) = match &args.profile {
            None => (REFERENCE.to_owned(), "the profile that comes with frazil".to_owned()),
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read the profile {file}"))?;
                (text, file.clone())
            }
        };
        let profile = Profile::parse(&text).with_context(|| name.clone())?;
        let here = || std::thread::available_parallelism().map_or(1, usize::from);
        let cores = args.cores.map_or_else(here, usize::from);
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
                "{name}: measured with {} cores; how much more it costs {cores} to take turns is \
                 not known, so stations that are contended may be slower than predicted",
                measured.cores
            ));
        }
        Ok(Forecast {
            spread: [profile.shifted(1.0), profile.shifted(-1.0)],
            profile,
            cores,
            backend_us: args.backend,
            mpl: args.mpl.map_or(cores * MPL_A_CORE, |mpl| mpl as usize),
        })
    }

    /// Whether the profile was measured with as many cores.
    pub(crate) fn is_measured(&self) -> bool {
        self.cores <= self.profile.machine.cores
    }

    /// What the policies of a profile are called that stands for a policy: its own name, or that
    /// of one with other parameters. `None` if there is none.
    pub(crate) fn name_of(&self, policy: &PolicySpec) -> Option<&str> {
        let name = policy.to_string();
        let plain = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        let own = self.profile.networks.get_key_value(&name).map(|(name, _)| name.as_str());
        let alike = || {
            let mut names = self.profile.networks.keys();
            names.find(|other| plain(other) == plain(&name)).map(String::as_str)
        };
        own.or_else(alike)
    }

    /// What a policy delivers at a hit ratio, with room for so many `entries`, if hits and misses
    /// are as much work as they were in a replay. `None` if the profile does not know it.
    pub(crate) fn predict(
        &self,
        policy: &PolicySpec,
        hit_ratio: f64,
        replayed: &Outcome,
        entries: f64,
    ) -> Result<Option<Predicted>, ModelError> {
        let Some(name) = self.name_of(policy) else { return Ok(None) };
        let mut conditions = Conditions::new(hit_ratio, self.backend_us);
        conditions.capacity = entries.max(1.0);
        conditions.cores = Some(self.cores);
        conditions.work = work(replayed);
        let throughput = |profile: &Profile, conditions: &Conditions| {
            solve(&profile.network_under(name, conditions)?, self.mpl)
        };
        let solution = throughput(&self.profile, &conditions)?;
        let mut range_mops = [solution.throughput_mops; 2];
        for (mops, profile) in range_mops.iter_mut().zip(&self.spread) {
            *mops = throughput(profile, &conditions)?.throughput_mops;
        }
        let best = peak((LEAST_HIT_RATIO.min(hit_ratio), 1.0), |hit_ratio| {
            let conditions = Conditions { hit_ratio, ..conditions.clone() };
            Ok(throughput(&self.profile, &conditions)?.throughput_mops)
        })?;
        // Requests that are all at the backend leave every station idle.
        let waiting = (1.0 - hit_ratio) * self.backend_us * solution.throughput_mops;
        let bottleneck = match solution.bottleneck() {
            _ if waiting > self.mpl as f64 / 2.0 => "backend",
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
}

/// By name, how often a hit and a miss did each work.
fn work(outcome: &Outcome) -> BTreeMap<String, [f64; 2]> {
    let of = |times: u64, requests: u64| times as f64 / requests.max(1) as f64;
    Work::ALL
        .into_iter()
        .map(|work| {
            let hit = of(outcome.work.on_hits.get(work), outcome.hits);
            let miss = of(outcome.work.elsewhere.get(work), outcome.misses());
            (work.name().to_owned(), [hit, miss])
        })
        .collect()
}
