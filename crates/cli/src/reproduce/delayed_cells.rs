//! Replays in which fetches take time, for [`super::delayed_hits`]: the traces, the policies, and
//! the results of each cell.

use std::path::Path;

use frazil_policy::PolicySpec;
use frazil_simulator::trace::{self, ReadOptions, Trace};
use frazil_simulator::{
    Backends, CellSpec, FetchLatency, Fetching, Outcome, ReplayClock, SweepOptions, Unit,
    sweep_delayed, waits_by_object,
};

use crate::belatedly::bounds;
use crate::failure::Failure;
use crate::output::{Row, row};

/// Records of each trace.
const RECORDS: u64 = 1_000_000;

/// Real traces: a short name, the file, and the number of records to skip.
///
/// The last two were used for no choice: MAD's variants and its guard were chosen on traces in the
/// same folder, on at most the first million records of each.
const TRACES: [(&str, &str, u64); 13] = [
    ("twitter", "libcachesim/twitter_cluster52.csv.zst", 0),
    ("p3", "arc/P3.lis.zst", 0),
    ("oltp", "arc/OLTP.lis.zst", 0),
    ("cloudphysics", "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst", 0),
    ("web12", "cache2k/web12.trace.xz", 0),
    ("adaptsize", "adaptsize/request.trace.xz", 0),
    ("sprite", "lirs/sprite.trace.gz", 0),
    ("2_pools", "lirs/2_pools.trace.gz", 0),
    ("loop", "lirs/loop.trace.gz", 0),
    ("multi1", "lirs/multi1.trace.gz", 0),
    ("zigzag", "lirs/zigzag.trace.gz", 0),
    ("twitter-later", "libcachesim/twitter_cluster52_10m.csv.zst", RECORDS),
    ("p3-later", "arc/P3.lis.zst", RECORDS),
];
/// The traces that were used for no choice.
pub(super) const UNSEEN: [&str; 2] = ["twitter-later", "p3-later"];
/// The trace of the paper's authors.
const AUTHORS: &str = "delayedhits/trace.csv";

/// A trace of the experiment.
pub(super) struct Load {
    pub(super) name: String,
    pub(super) trace: Trace,
}

impl Load {
    fn read(name: &str, spec: &str, pass: u64) -> Result<Self, Failure> {
        let options =
            ReadOptions { limit: Some(pass + RECORDS), sizes: false, ..ReadOptions::default() };
        let trace = trace::load(spec, &options)?.trace;
        Ok(Load { name: name.to_owned(), trace: later(trace, pass as usize) })
    }

    /// A share of the peak of concurrent objects, as an absolute capacity.
    pub(super) fn capacity(&self, percent: f64) -> Result<u64, Failure> {
        let spec = format!("{percent}%peak").parse().map_err(Failure::usage);
        let spec: frazil_simulator::CapacitySpec = spec?;
        spec.resolve(&self.trace, Unit::Objects).map_err(Failure::usage)
    }
}

/// A trace without its first records; its objects are numbered anew.
fn later(trace: Trace, pass: usize) -> Trace {
    if pass == 0 {
        return trace;
    }
    let pass = pass.min(trace.len().saturating_sub(1));
    let mut numbers = vec![u32::MAX; trace.objects.len()];
    let mut rest = Trace::default();
    for &id in &trace.ids[pass..] {
        let number = &mut numbers[id as usize];
        if *number == u32::MAX {
            *number = rest.objects.len() as u32;
            rest.objects.push(trace.objects[id as usize]);
        }
        rest.ids.push(*number);
    }
    rest.operations = trace.operations.get(pass..).unwrap_or_default().to_vec();
    rest
}

/// All traces, the authors' own last; generated ones without a folder.
pub(super) fn loads(quick: bool, folder: Option<&Path>) -> Result<Vec<Load>, Failure> {
    let Some(folder) = folder else {
        let requests = if quick { "30K" } else { "1M" };
        let spec = |seed| format!("mix:objects=20K:requests={requests}:seed={seed}");
        return ["mix", "mix-2", "mix-3"]
            .into_iter()
            .zip(1..)
            .map(|(name, seed)| Load::read(name, &spec(seed), 0))
            .collect();
    };
    let of = |(name, file, pass): (&str, &str, u64)| {
        Load::read(name, &folder.join(file).to_string_lossy(), pass)
    };
    let traces = if quick { &TRACES[4..6] } else { &TRACES[..] };
    let mut loads = traces.iter().map(|&it| of(it)).collect::<Result<Vec<_>, _>>()?;
    loads.push(of(("authors", AUTHORS, 0))?);
    Ok(loads)
}

/// The cells replayed, and their results.
pub(super) struct Cell {
    pub(super) figure: &'static str,
    pub(super) trace: String,
    pub(super) policy: String,
    /// Capacity, as a share of the peak of concurrent objects.
    pub(super) percent: f64,
    pub(super) capacity: u64,
    /// Duration of a fetch, in requests; the mean if there are several.
    pub(super) fetch: u64,
    pub(super) outcome: Outcome,
}

impl Cell {
    pub(super) fn latency(&self) -> f64 {
        self.outcome.latency_mean().unwrap_or_default()
    }

    pub(super) fn row(&self) -> Row {
        row! {
            "kind" => "latency",
            "figure" => self.figure,
            "trace" => self.trace,
            "policy" => self.policy,
            "capacity_percent" => self.percent,
            "capacity" => self.capacity,
            "fetch" => self.fetch,
            "latency_mean" => self.latency(),
            "miss_ratio" => self.outcome.miss_ratio(),
            "delayed_hits" => self.outcome.delayed_hits,
            "requests" => self.outcome.requests,
        }
    }
}

/// The cells to replay on one trace.
pub(super) struct Ask<'a> {
    pub(super) figure: &'static str,
    pub(super) load: &'a Load,
    pub(super) policies: &'a [&'a str],
    pub(super) percents: &'a [f64],
    /// Durations of fetches. Several in one entry are one backend each, chosen by object.
    pub(super) fetches: &'a [&'a [u64]],
}

impl Ask<'_> {
    /// Replays all cells, on all cores. `done` gets the number of cells.
    pub(super) fn replay(&self, done: &dyn Fn(usize)) -> Result<Vec<Cell>, Failure> {
        let mut kinds = Vec::new();
        for &percent in self.percents {
            let capacity = self.load.capacity(percent)?;
            for &name in self.policies {
                let policy: PolicySpec = name.parse().map_err(Failure::usage)?;
                kinds.push((percent, name, CellSpec { policy, capacity }));
            }
        }
        let specs: Vec<CellSpec> = kinds.iter().map(|&(.., spec)| spec).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = SweepOptions { threads, ..SweepOptions::default() };
        let mut cells = Vec::new();
        for &ticks in self.fetches {
            let fetching = fetching(&self.load.trace, ticks)?;
            let outcomes = sweep_delayed(&self.load.trace, &specs, &options, &fetching, &|_| ());
            done(outcomes.len());
            let mean = ticks.iter().sum::<u64>() / ticks.len().max(1) as u64;
            cells.extend(kinds.iter().zip(outcomes).map(|(&(percent, name, spec), outcome)| {
                Cell {
                    figure: self.figure,
                    trace: self.load.name.clone(),
                    policy: name.to_owned(),
                    percent,
                    capacity: spec.capacity,
                    fetch: mean,
                    outcome,
                }
            }));
        }
        Ok(cells)
    }
}

/// Latency of the schedule found with knowledge of the future. No policy has its name.
pub(super) const BOUND: &str = "belatedly";

/// The same cells for [`BOUND`].
pub(super) fn bound(
    figure: &'static str,
    load: &Load,
    percent: f64,
    fetches: &[u64],
) -> Result<Vec<Cell>, Failure> {
    let (capacity, options) = (load.capacity(percent)?, SweepOptions::default());
    let cell = |&fetch: &u64| {
        let fetching = fetching(&load.trace, &[fetch])?;
        let (outcome, _) = bounds(&load.trace, &load.name, capacity, Some(&fetching), &options)?;
        let (trace, policy) = (load.name.clone(), BOUND.to_owned());
        Ok(Cell { figure, trace, policy, percent, capacity, fetch, outcome })
    };
    fetches.iter().map(cell).collect()
}

fn fetching(trace: &Trace, ticks: &[u64]) -> Result<Fetching, Failure> {
    let latency = match ticks {
        &[one] => FetchLatency::Fixed(one),
        several => {
            let backends = Backends::new(several).map(FetchLatency::Keyed);
            backends.unwrap_or(FetchLatency::Fixed(1))
        }
    };
    Fetching::new(trace, latency, ReplayClock::Request).map_err(Failure::usage)
}

/// Burstiness of an object, and its gain.
pub(super) struct Gain {
    /// Goh and Barabási's: (deviation − mean) / (deviation + mean) of the times between requests.
    pub(super) burstiness: f64,
    /// Reduction of the total wait of its requests by MAD relative to LRU, in requests.
    pub(super) saved: f64,
    /// Their total wait with LRU.
    pub(super) waited: f64,
}

/// The gain of each object with a least number of requests.
pub(super) fn gains(
    load: &Load,
    percent: f64,
    fetch: u64,
    least: usize,
) -> Result<Vec<Gain>, Failure> {
    let fetching = fetching(&load.trace, &[fetch])?;
    let capacity = load.capacity(percent)?;
    let waits = |name: &str| -> Result<Vec<u64>, Failure> {
        let policy = name.parse().map_err(Failure::usage)?;
        Ok(waits_by_object(&load.trace, CellSpec { policy, capacity }, &fetching))
    };
    let (lru, mad) = (waits("lru")?, waits("mad")?);
    let mut times: Vec<Vec<u32>> = vec![Vec::new(); load.trace.objects.len()];
    for (time, &id) in load.trace.ids.iter().enumerate() {
        times[id as usize].push(time as u32);
    }
    let often = (0..times.len()).filter(|&id| times[id].len() >= least);
    Ok(often
        .map(|id| Gain {
            burstiness: burstiness(&times[id]),
            saved: lru[id] as f64 - mad[id] as f64,
            waited: lru[id] as f64,
        })
        .collect())
}

/// Burstiness of times in order, at least two.
fn burstiness(times: &[u32]) -> f64 {
    let gaps = || times.windows(2).map(|pair| f64::from(pair[1] - pair[0]));
    let count = times.len().saturating_sub(1).max(1) as f64;
    let mean = gaps().sum::<f64>() / count;
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    let deviation = variance.sqrt();
    (deviation - mean) / (deviation + mean).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clockwork_is_not_bursty_and_bursts_are() {
        assert_eq!(burstiness(&[0, 10, 20, 30]), -1.0);
        let bursts: Vec<u32> = (0..40).map(|n| n / 10 * 100_000 + n % 10).collect();
        assert!(burstiness(&bursts) > 0.5);
    }

    #[test]
    fn what_comes_later_is_numbered_anew() {
        let trace = Trace { ids: vec![0, 1, 2, 1, 0], objects: vec![7, 8, 9], ..Trace::default() };
        let rest = later(trace, 2);
        assert_eq!((rest.ids, rest.objects), (vec![0, 1, 2], vec![9, 8, 7]));
    }
}
