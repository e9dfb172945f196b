//! Paper 1's table 2, derived: whether more hits can hurt a policy, from the work that it does.
//!
//! The paper conjectures it of twelve algorithms by reading them. Here each of our policies
//! runs on one trace at rising capacities and counts its work; with the paper's times the
//! counts are demands, and the class follows from those. Marks and samples touch nothing that
//! all requests share, so they are no station.

use frazil_policy::{Online, PolicySpec, Work};
use frazil_queueing::{Class, ModelError, PaperNetwork, Use, classify};
use frazil_simulator::{CellSpec, Outcome, SweepOptions, sweep, trace};

use super::Expectation;
use crate::failure::Failure;
use crate::output::{self, Row, row};

const TRACE: &str = "zipf:0.99:objects=20000:requests=400000:seed=3";
const OBJECTS: u64 = 20_000;
/// Hundredths of the objects.
const CAPACITIES: [u64; 11] = [1, 2, 5, 10, 20, 35, 50, 65, 80, 90, 100];
/// What the paper says of some of ours, by name.
const NAMED: [(&str, Class); 9] = [
    ("lru", Class::LruLike),
    ("slru", Class::LruLike),
    ("fifo", Class::FifoLike),
    ("clock", Class::FifoLike),
    ("s3-fifo", Class::FifoLike),
    ("sieve", Class::FifoLike),
    ("lhd", Class::FifoLike),
    ("hyperbolic", Class::FifoLike),
    ("random", Class::FifoLike),
];

/// What a policy's work comes to at one hit ratio.
struct Demand {
    hit_ratio: f64,
    /// Of the station that is asked for most, µs a request.
    most_us: f64,
}

/// A policy, its class, and where its hits spend their time.
pub(super) struct Classified {
    policy: String,
    class: Class,
    /// Changes of the lists by a hit, at the highest hit ratio.
    on_hit: f64,
}

/// The paper's times of delink, head and tail, µs.
fn times() -> Result<[f64; 3], ModelError> {
    let of = |hit_ratio: f64, name: &str| -> Result<f64, ModelError> {
        let network = PaperNetwork::Lru.network(hit_ratio, 100.0, Use::Bound)?;
        let named = network.stations().iter().zip(network.demands_us());
        Ok(named.filter(|(station, _)| station.name == name).map(|(_, us)| us).sum())
    };
    Ok([of(1.0, "delink")?, of(1.0, "head")?, of(0.0, "tail")?])
}

/// Derives the class of every online policy.
pub(super) fn classes() -> Result<Vec<Classified>, Failure> {
    let trace = trace::load(TRACE, &trace::ReadOptions::default())?.trace;
    let requests = trace.ids.len() as u64;
    let options = SweepOptions {
        warmup: requests / 2,
        threads: frazil_driver::cores(),
        count_work: true,
        ..SweepOptions::default()
    };
    let policies: Vec<PolicySpec> = Online::ALL
        .iter()
        .map(|policy| policy.to_string().parse().map_err(Failure::usage))
        .collect::<Result<_, _>>()?;
    let capacities = CAPACITIES.map(|share| OBJECTS * share / 100);
    let at = |&policy: &PolicySpec| capacities.map(|capacity| CellSpec { policy, capacity });
    let cells: Vec<CellSpec> = policies.iter().flat_map(at).collect();
    let outcomes = sweep(&trace, &cells, &options, &|_| ());
    let times = times().map_err(|error| anyhow::anyhow!(error))?;
    let of = |(policy, outcomes): (&PolicySpec, &[Outcome])| -> Result<Classified, ModelError> {
        let demands: Vec<Demand> = outcomes.iter().map(|it| demand(it, times)).collect();
        let all_hit = all_hit(outcomes, times);
        let class = classify(|p| Ok(between(&demands, all_hit.0, p)))?;
        Ok(Classified { policy: policy.to_string(), class, on_hit: all_hit.1 })
    };
    let classified = policies.iter().zip(outcomes.chunks(capacities.len())).map(of);
    Ok(classified.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!(error))?)
}

/// The kinds of work that change what all requests share. A level of a heap is taken for a
/// delink.
fn visits(count: impl Fn(Work) -> u64) -> [u64; 3] {
    [count(Work::Delink) + count(Work::Heap), count(Work::Head), count(Work::Tail)]
}

fn demand(outcome: &Outcome, times: [f64; 3]) -> Demand {
    let both = |work| outcome.work.on_hits.get(work) + outcome.work.elsewhere.get(work);
    let requests = (outcome.hits + outcome.misses()).max(1) as f64;
    let demands = visits(both).into_iter().zip(times).map(|(visits, us)| visits as f64 * us);
    Demand {
        hit_ratio: 1.0 - outcome.miss_ratio(),
        most_us: demands.fold(0.0, f64::max) / requests,
    }
}

/// Where every request hits: what a hit did at the largest capacity, and how often it changed a
/// list.
fn all_hit(outcomes: &[Outcome], times: [f64; 3]) -> (f64, f64) {
    let Some(outcome) = outcomes.last() else { return (0.0, 0.0) };
    let hits = outcome.hits.max(1) as f64;
    let visits = visits(|work| outcome.work.on_hits.get(work)).map(|it| it as f64 / hits);
    let demands = visits.into_iter().zip(times).map(|(visits, us)| visits * us);
    (demands.fold(0.0, f64::max), visits.iter().sum())
}

/// The demand at a hit ratio, straight between those that were counted.
fn between(demands: &[Demand], all_hit: f64, hit_ratio: f64) -> f64 {
    let mut low = demands.first().map_or((0.0, all_hit), |it| (it.hit_ratio, it.most_us));
    if hit_ratio <= low.0 {
        return low.1;
    }
    let points = demands.iter().map(|it| (it.hit_ratio, it.most_us));
    for high in points.chain([(1.0, all_hit)]) {
        if hit_ratio <= high.0 {
            let share = (hit_ratio - low.0) / (high.0 - low.0).max(1e-9);
            return low.1 + share * (high.1 - low.1);
        }
        low = high;
    }
    all_hit
}

impl Classified {
    pub(super) fn row(&self) -> Row {
        row! {
            "table" => 2,
            "policy" => self.policy,
            "class" => self.class.to_string(),
            "list_changes_per_hit" => self.on_hit,
        }
    }
}

pub(super) fn expectations(classified: &[Classified]) -> Vec<Expectation> {
    let of = |(name, class): (&str, Class)| {
        let found = classified.iter().find(|it| it.policy.split(':').next() == Some(name));
        Expectation {
            figure: 3,
            expected: format!("table 2: {name} is {class} by the work that it does"),
            seen: found.map_or("no such policy".to_owned(), |it| it.class.to_string()),
            met: found.is_some_and(|it| it.class == class),
        }
    };
    NAMED.into_iter().map(of).collect()
}

pub(super) fn table(classified: &[Classified]) -> String {
    let row = |it: &Classified| {
        vec![it.policy.clone(), it.class.to_string(), format!("{:.3}", it.on_hit)]
    };
    let rows = classified.iter().map(row).collect();
    let headers = ["policy", "class", "list changes a hit"];
    format!("\nTable 2, from counts\n\n{}", output::table(&headers, &["policy", "class"], rows))
}
