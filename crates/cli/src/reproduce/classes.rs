//! Paper 1's table 2, derived from the work of policies: whether more hits can hurt.
//!
//! The paper conjectures it for twelve algorithms by reading them. Here each of our policies runs
//! on one trace at rising capacities and counts its work; with the paper's times the counts become
//! demands, which give the class. Marks and samples touch no data that all requests share, so they
//! are no station.

use frazil_policy::{Online, PolicySpec, Work, WorkCounts};
use frazil_queueing::{Class, ModelError, PaperNetwork, Use, classify};
use frazil_simulator::{CellSpec, Outcome, SweepOptions, sweep, trace};

use super::Expectation;
use crate::failure::Failure;
use crate::output::{self, Row, row};

/// Long enough that the second half requests hardly any new objects: misses are of evicted ones.
const TRACE: &str = "zipf:0.99:objects=4000:requests=480000:seed=3";
const OBJECTS: u64 = 4_000;
/// Thousandths of the objects. Never all of them: without evictions a policy whose hits change
/// lists only after one, such as 2Q, would do no work.
const CAPACITIES: [u64; 14] = [5, 20, 50, 100, 150, 250, 400, 550, 700, 800, 870, 920, 955, 980];
/// The hit ratios at which the class is determined.
const HIT_RATIOS: [f64; 5] = [0.5, 0.7, 0.9, 0.95, 0.99];
/// The paper's classes of some of our policies, by name: the first five LRU-like ones are from §7
/// and table 2, LRU and SLRU from table 1.
const NAMED: [(&str, Class); 14] = [
    ("arc", Class::LruLike),
    ("lirs", Class::LruLike),
    ("lfu", Class::LruLike),
    ("lecar", Class::LruLike),
    ("cacheus", Class::LruLike),
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

/// The kinds of work that change shared data: delinks, heads, tails.
type Visits = [f64; 3];

/// The work of a policy at one hit ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counted {
    hit_ratio: f64,
    /// Work of one hit, and of one miss.
    on_hit: Visits,
    on_miss: Visits,
}

/// A policy at one hit ratio.
struct At {
    hit_ratio: f64,
    class: Class,
    /// Changes of the lists by a hit.
    on_hit: f64,
}

/// A policy, and its class at each hit ratio.
pub(super) struct Classified {
    policy: String,
    at: Vec<At>,
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
    classes_on(TRACE, &Online::ALL)
}

/// The classes of some policies, on a trace of [`OBJECTS`].
fn classes_on(trace: &str, policies: &[Online]) -> Result<Vec<Classified>, Failure> {
    let trace = trace::load(trace, &trace::ReadOptions::default())?.trace;
    let requests = trace.ids.len() as u64;
    let options = SweepOptions {
        warmup: requests / 2,
        threads: frazil_driver::cores(),
        count_work: true,
        ..SweepOptions::default()
    };
    let policies: Vec<PolicySpec> = policies
        .iter()
        .map(|policy| policy.to_string().parse().map_err(Failure::usage))
        .collect::<Result<_, _>>()?;
    let capacities = CAPACITIES.map(|share| OBJECTS * share / 1_000);
    let at = |&policy: &PolicySpec| capacities.map(|capacity| CellSpec { policy, capacity });
    let cells: Vec<CellSpec> = policies.iter().flat_map(at).collect();
    let outcomes = sweep(&trace, &cells, &options, &|_| ());
    let times = times().map_err(|error| anyhow::anyhow!(error))?;
    let of = |(policy, outcomes): (&PolicySpec, &[Outcome])| -> Result<Classified, ModelError> {
        let counted: Vec<Counted> = outcomes.iter().map(counted).collect();
        let at = HIT_RATIOS.map(|hit_ratio| {
            let counted = between(&counted, hit_ratio);
            let class = class_of(&counted, times)?;
            Ok(At { hit_ratio, class, on_hit: counted.on_hit.iter().sum() })
        });
        let at = at.into_iter().collect::<Result<_, ModelError>>()?;
        Ok(Classified { policy: policy.to_string(), at })
    };
    let classified = policies.iter().zip(outcomes.chunks(capacities.len())).map(of);
    Ok(classified.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!(error))?)
}

/// A level of a heap counts as a delink.
fn visits(work: &WorkCounts, requests: u64) -> Visits {
    let delinks = work.get(Work::Delink) + work.get(Work::Heap);
    let counts = [delinks, work.get(Work::Head), work.get(Work::Tail)];
    counts.map(|count| count as f64 / requests.max(1) as f64)
}

fn counted(outcome: &Outcome) -> Counted {
    Counted {
        hit_ratio: 1.0 - outcome.miss_ratio(),
        on_hit: visits(&outcome.work.on_hits, outcome.hits),
        on_miss: visits(&outcome.work.elsewhere, outcome.misses()),
    }
}

/// The work at a hit ratio: interpolated linearly between the counted ratios; beyond them, that at
/// the nearest.
fn between(counted: &[Counted], hit_ratio: f64) -> Counted {
    let mut sorted = counted.to_vec();
    sorted.sort_by(|one, other| one.hit_ratio.total_cmp(&other.hit_ratio));
    let above = sorted.iter().position(|it| it.hit_ratio >= hit_ratio);
    let high = above.unwrap_or(sorted.len().saturating_sub(1));
    let low = if above.is_some() { high.saturating_sub(1) } else { high };
    let (Some(low), Some(high)) = (sorted.get(low), sorted.get(high)) else {
        return Counted { hit_ratio, on_hit: [0.0; 3], on_miss: [0.0; 3] };
    };
    let width = high.hit_ratio - low.hit_ratio;
    let share =
        if width > 0.0 { ((hit_ratio - low.hit_ratio) / width).clamp(0.0, 1.0) } else { 0.0 };
    let mix = |low: Visits, high: Visits| {
        std::array::from_fn(|at| low[at] + share * (high[at] - low[at]))
    };
    Counted {
        hit_ratio,
        on_hit: mix(low.on_hit, high.on_hit),
        on_miss: mix(low.on_miss, high.on_miss),
    }
}

/// The class, if hits and misses did the work counted here at every hit ratio.
fn class_of(counted: &Counted, times: [f64; 3]) -> Result<Class, ModelError> {
    classify(|p| {
        let demand =
            |at: usize| times[at] * (p * counted.on_hit[at] + (1.0 - p) * counted.on_miss[at]);
        Ok((0..times.len()).map(demand).fold(0.0, f64::max))
    })
}

impl Classified {
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        self.at.iter().map(|at| {
            row! {
                "table" => 2,
                "policy" => self.policy,
                "hit_ratio" => at.hit_ratio,
                "class" => at.class.to_string(),
                "list_changes_per_hit" => at.on_hit,
            }
        })
    }

    /// The classes at any hit ratio, in words.
    fn seen(&self) -> String {
        let of = |class| self.at.iter().filter(move |at: &&At| at.class == class);
        let (lru, fifo) = (of(Class::LruLike), of(Class::FifoLike));
        match (lru.clone().count(), fifo.clone().count()) {
            (_, 0) => "lru-like at all".to_owned(),
            (0, _) => "fifo-like at all".to_owned(),
            _ => format!("lru-like at {}, fifo-like at {}", listed(lru), listed(fifo)),
        }
    }
}

fn listed<'a>(at: impl Iterator<Item = &'a At>) -> String {
    at.map(|at| at.hit_ratio.to_string()).collect::<Vec<_>>().join(", ")
}

pub(super) fn expectations(classified: &[Classified]) -> Vec<Expectation> {
    let of = |(name, class): (&str, Class)| {
        let found = classified.iter().find(|it| it.policy.split(':').next() == Some(name));
        Expectation {
            figure: 3,
            expected: format!(
                "table 2: {name} is {class} by its work at hit ratios of {} to {}",
                HIT_RATIOS[0],
                HIT_RATIOS[HIT_RATIOS.len() - 1]
            ),
            seen: found.map_or("no such policy".to_owned(), Classified::seen),
            met: found.is_some_and(|it| it.at.iter().all(|at| at.class == class)),
        }
    };
    NAMED.into_iter().map(of).collect()
}

pub(super) fn table(classified: &[Classified]) -> String {
    let row = |it: &Classified| {
        let mut row = vec![it.policy.clone()];
        row.extend(it.at.iter().map(|at| format!("{} {:.3}", at.class, at.on_hit)));
        row
    };
    let rows = classified.iter().map(row).collect();
    let mut headers = vec!["policy".to_owned()];
    headers.extend(HIT_RATIOS.map(|hit_ratio| format!("{hit_ratio} hits")));
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let table = output::table(&headers, &["policy"], rows);
    format!("\nTable 2, from counts: the class at a hit ratio, and list changes a hit\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_queue_is_lru_like_once_it_evicts() {
        let Ok(classified) = classes() else { panic!("a generated trace can be replayed") };
        let of = |policy: &str| classified.iter().find(|it| it.policy == policy).unwrap();
        for at in &of("two-queue").at {
            assert_eq!(at.class, Class::LruLike, "{}", at.hit_ratio);
        }
        let most = of("two-queue").at.iter().filter(|at| at.hit_ratio >= 0.9);
        assert!(most.clone().all(|at| at.on_hit > 1.6), "nearly all of its hits delink");
        assert!(of("sieve").at.iter().all(|at| at.class == Class::FifoLike && at.on_hit == 0.0));
    }

    /// At a hit ratio of 0.5 LFU holds few objects, and nearly each has its own frequency, so a hit
    /// changes no list. If LFU were FIFO-like there for another reason, it would also be so with a
    /// flatter popularity, where hundreds of objects give half of the hits.
    #[test]
    fn lfu_is_lru_like_where_objects_share_frequencies() {
        let flatter = TRACE.replace("0.99", "0.6");
        let Ok(found) = classes_on(&flatter, &[Online::Lfu]) else { panic!("it can be replayed") };
        let (at, seldom) = (&found[0].at[0], 0.1);
        assert_eq!((at.hit_ratio, at.class), (0.5, Class::LruLike));
        assert!(at.on_hit > seldom, "{}", at.on_hit);
    }

    #[test]
    fn between_is_between_and_beyond_is_the_nearest() {
        let at = |hit_ratio, delinks| Counted {
            hit_ratio,
            on_hit: [delinks, 0.0, 0.0],
            on_miss: [0.0; 3],
        };
        let counted = [at(0.8, 1.0), at(0.4, 0.0)];
        assert!((between(&counted, 0.5).on_hit[0] - 0.25).abs() < 1e-12);
        assert_eq!(between(&counted, 0.1).on_hit[0], 0.0);
        assert_eq!(between(&counted, 0.99).on_hit[0], 1.0);
        assert_eq!(between(&[], 0.5).on_hit[0], 0.0);
    }
}
