//! The replays of [`super::gl_cache`], and counts of traces without a cache.

use std::path::Path;

use frazil_policy::{PolicySpec, Rng};
use frazil_simulator::trace::{self, Operation, ReadOptions, Trace};
use frazil_simulator::{CapacitySpec, CellSpec, Outcome, SweepOptions, Unit, sweep};

use crate::failure::Failure;
use crate::output::{Row, row};

/// Records of each trace. All take five minutes, three of them for LRB.
const RECORDS: u64 = 500_000;
/// Real traces: a short name, and the file.
const TRACES: [(&str, &str); 6] = [
    ("twitter", "libcachesim/twitter_cluster52.csv.zst"),
    ("cloudphysics", "libcachesim/cloudPhysicsIO.oracleGeneral.bin.zst"),
    ("adaptsize", "adaptsize/request.trace.xz"),
    ("p3", "arc/P3.lis.zst"),
    ("oltp", "arc/OLTP.lis.zst"),
    ("sprite", "lirs/sprite.trace.gz"),
];
/// Used beside real traces, or instead.
const GENERATED: [&str; 3] = ["diurnal", "bursts", "drift"];

/// A trace of the experiment, in bytes if it has sizes.
pub(super) struct Load {
    pub(super) name: String,
    pub(super) trace: Trace,
    pub(super) unit: Unit,
}

impl Load {
    fn read(name: &str, spec: &str, limit: u64) -> Result<Self, Failure> {
        let options = ReadOptions { limit: Some(limit), times: true, ..ReadOptions::default() };
        let trace = trace::load(spec, &options)?.trace;
        let unit = if trace.sizes.is_empty() { Unit::Objects } else { Unit::Bytes };
        Ok(Load { name: name.to_owned(), trace, unit })
    }

    /// A share of the footprint.
    pub(super) fn capacity(&self, percent: f64) -> Result<u64, Failure> {
        let spec: CapacitySpec = format!("{percent}%").parse().map_err(Failure::usage)?;
        spec.resolve(&self.trace, self.unit).map_err(Failure::usage)
    }
}

/// All traces; only generated ones without a folder.
pub(super) fn loads(quick: bool, folder: Option<&Path>) -> Result<Vec<Load>, Failure> {
    let records = if quick { RECORDS / 10 } else { RECORDS };
    let mut loads = Vec::new();
    for (name, file) in folder.map_or(&[][..], |_| &TRACES) {
        let path = folder.map(|folder| folder.join(file)).unwrap_or_default();
        loads.push(Load::read(name, &path.to_string_lossy(), records)?);
    }
    for name in GENERATED {
        let spec = format!("{name}:objects={}:requests={records}:seed=11", records / 25);
        loads.push(Load::read(name, &spec, records)?);
    }
    Ok(loads)
}

/// The cells replayed, and their results.
pub(super) struct Cell {
    pub(super) figure: u32,
    pub(super) trace: String,
    pub(super) policy: String,
    pub(super) percent: f64,
    pub(super) outcome: Outcome,
}

impl Cell {
    pub(super) fn hit_ratio(&self) -> f64 {
        1.0 - self.outcome.miss_ratio()
    }

    /// Million requests a second.
    pub(super) fn speed(&self) -> f64 {
        self.outcome.records_per_second() / 1e6
    }

    pub(super) fn row(&self) -> Row {
        row! {
            "kind" => "replay",
            "figure" => self.figure,
            "trace" => self.trace,
            "policy" => self.policy,
            "capacity_percent" => self.percent,
            "requests" => self.outcome.requests,
            "hit_ratio" => self.hit_ratio(),
            "mops" => self.speed(),
        }
    }
}

/// Replays policies at sizes, one after the other, so that speeds are those of an idle machine.
pub(super) fn replay(
    figure: u32,
    load: &Load,
    policies: &[&str],
    percents: &[f64],
    done: &dyn Fn(u64),
) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for &percent in percents {
        let capacity = load.capacity(percent)?;
        for &name in policies {
            let policy: PolicySpec = name.parse().map_err(Failure::usage)?;
            let options = SweepOptions { unit: load.unit, threads: 1, ..SweepOptions::default() };
            let outcomes = sweep(&load.trace, &[CellSpec { policy, capacity }], &options, &|_| ());
            done(1);
            cells.extend(outcomes.into_iter().map(|outcome| Cell {
                figure,
                trace: load.name.clone(),
                policy: name.to_owned(),
                percent,
                outcome,
            }));
        }
    }
    Ok(cells)
}

/// For objects that are requested again, in the order of their first requests: the mean number of
/// requests from one to the next.
pub(super) fn reuse_times(trace: &Trace) -> Vec<f64> {
    const NEVER: u32 = u32::MAX;
    // By object: first and last request, and number of requests.
    let mut objects = vec![(NEVER, 0, 0_u32); trace.objects.len()];
    let mut order = Vec::new();
    for (time, &id) in trace.ids.iter().enumerate() {
        if trace.operations.get(time) == Some(&Operation::Delete) {
            continue;
        }
        let (first, last, requests) = &mut objects[id as usize];
        if *first == NEVER {
            *first = time as u32;
            order.push(id);
        }
        (*last, *requests) = (time as u32, *requests + 1);
    }
    let of = |&id: &u32| {
        let (first, last, requests) = objects[id as usize];
        (requests > 1).then(|| f64::from(last - first) / f64::from(requests - 1))
    };
    order.iter().filter_map(of).collect()
}

/// Difference among the objects of a group: deviation over mean, averaged over groups of `group` in
/// a row.
pub(super) fn variation(times: &[f64], group: usize) -> f64 {
    let of = |group: &[f64]| {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        let variance = group.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (variance / group.len() as f64).sqrt() / mean.max(f64::MIN_POSITIVE)
    };
    let groups: Vec<f64> = times.chunks_exact(group).map(of).collect();
    groups.iter().sum::<f64>() / groups.len().max(1) as f64
}

/// The same objects in random order.
pub(super) fn shuffled(times: &[f64]) -> Vec<f64> {
    let (mut times, mut rng) = (times.to_vec(), Rng::new(1));
    for place in (1..times.len()).rev() {
        times.swap(place, rng.below(place as u64 + 1) as usize);
    }
    times
}

/// Difference between groups: the ratio of the ninth decile of their mean times to the first.
pub(super) fn spread(times: &[f64], group: usize) -> f64 {
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let mut means: Vec<f64> = times.chunks_exact(group).map(mean).collect();
    means.sort_by(f64::total_cmp);
    match means.len() {
        0 => 1.0,
        len => means[len * 9 / 10] / means[len / 10].max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_requests_by_first_request() {
        let trace =
            Trace { ids: vec![2, 0, 2, 1, 0, 2], objects: vec![7, 8, 9], ..Trace::default() };
        assert_eq!(reuse_times(&trace), [2.5, 3.0]);
    }

    #[test]
    fn alike_objects_vary_less_in_groups() {
        let times: Vec<f64> = (0..1_000).map(|n| f64::from(n / 100 + 1)).collect();
        assert_eq!(variation(&times, 100), 0.0);
        assert!(variation(&shuffled(&times), 100) > 0.4);
        assert_eq!(spread(&times, 100), 5.0);
    }
}
